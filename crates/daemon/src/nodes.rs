//! Nodes and graphs: which there are, and calls of those that make no calls themselves.
//!
//! A call works in the project's folder, with the caller's environment, and is
//! bound to who asked for it: it ends with their connection, unless it carries the
//! name of a step (see [`ledger`]). A call that goes wrong is a reply.

mod ledger;
mod nesting;
mod panes;
mod performer;
mod project;
mod projects;
pub(crate) mod python;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use steplatch_ids::random_name;
use steplatch_nodes::{Call, Node, NodeId, NodeKind, NodeResult};
use steplatch_protocol::{
    BrokenNode, DescribeNode, DescribeNodeReply, GraphInfo, ListGraphs, ListGraphsReply, ListNodes, ListNodesReply,
    NodeInfo, NodeReply,
};
use steplatch_workflow::suggestion;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::Caller;
use ledger::{Asked, Ledger, NoReply};
pub(crate) use nesting::calls;
pub(crate) use panes::Panes;
pub(crate) use performer::{Hands, Performer};
pub(crate) use project::{Broken, Declared, FunctionWorkflow, Project};
pub(crate) use projects::Projects;

/// How long calls may take to end what they started when the daemon ends.
const ENDING: Duration = Duration::from_secs(6);

/// Names that are told to somebody who asked for one that is not there.
const NAMES_TOLD: usize = 20;

/// The nodes of everybody's projects.
#[derive(Debug)]
pub(crate) struct Nodes {
    projects: Projects,
    hands: Hands,
    /// The programs that stay, of each project, for those who call its nodes one by one.
    panes: Mutex<HashMap<PathBuf, Arc<Panes>>>,
    ledger: Ledger,
    working: TaskTracker,
    closing: CancellationToken,
}

/// A call of a node or graph of a project.
#[derive(Debug, Clone)]
pub(crate) struct NodeCall {
    /// Name of the node.
    pub(crate) id: String,
    pub(crate) input: Value,
    /// Seconds that it may take.
    pub(crate) timeout: Option<f64>,
    /// Only a graph will do.
    pub(crate) graph: bool,
}

impl Nodes {
    /// Begins without a call.
    pub(crate) fn new(projects: Projects, hands: Hands) -> Self {
        Self {
            projects,
            hands,
            panes: Mutex::default(),
            ledger: Ledger::new(),
            working: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Interrupts what is under way, and waits a moment for its end.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.working.close();
        if tokio::time::timeout(ENDING, self.working.wait()).await.is_err() {
            tracing::warn!(calls = self.working.len(), "calls of nodes did not end in time");
        }
    }

    /// Lists the nodes of the project in which `caller` is.
    pub(crate) async fn list(&self, caller: &Caller, verb: &ListNodes) -> ListNodesReply {
        let project = match self.projects.of(caller).await {
            Ok(project) => project,
            Err(error) => return ListNodesReply { error: Some(error), ..ListNodesReply::default() },
        };
        let nodes = project.nodes.values().filter(|declared| !matches!(declared.node.kind, NodeKind::Graph(_)));
        let nodes =
            nodes.map(info).filter(|node| contains(verb.containing.as_deref(), &node.id, node.description.as_deref()));
        ListNodesReply {
            success: true,
            nodes: nodes.collect(),
            broken: broken(&project),
            files: project.files.iter().map(|file| shown(file)).collect(),
            folder: shown(&project.folder),
            error: None,
        }
    }

    /// Lists the graphs of the project in which `caller` is.
    pub(crate) async fn list_graphs(&self, caller: &Caller, verb: &ListGraphs) -> ListGraphsReply {
        let project = match self.projects.of(caller).await {
            Ok(project) => project,
            Err(error) => return ListGraphsReply { error: Some(error), ..ListGraphsReply::default() },
        };
        let graphs = project.nodes.values().filter_map(|declared| {
            let NodeKind::Graph(graph) = &declared.node.kind else { return None };
            let NodeInfo { id, description, file, .. } = info(declared);
            Some(GraphInfo {
                id,
                description,
                file,
                steps: graph.steps().iter().map(|step| step.id.to_string()).collect(),
            })
        });
        let graphs =
            graphs.filter(|graph| contains(verb.containing.as_deref(), &graph.id, graph.description.as_deref()));
        ListGraphsReply {
            success: true,
            graphs: graphs.collect(),
            broken: broken(&project),
            files: project.files.iter().map(|file| shown(file)).collect(),
            folder: shown(&project.folder),
            error: None,
        }
    }

    /// Tells everything about one node.
    pub(crate) async fn describe(&self, caller: &Caller, verb: &DescribeNode) -> DescribeNodeReply {
        let found = match self.projects.of(caller).await {
            Ok(project) => match project.nodes.get(&verb.node_id) {
                Some(declared) => Ok(DescribeNodeReply {
                    success: true,
                    node: Some(info(declared)),
                    declaration: declaration(&declared.node),
                    warnings: declared.node.warnings().iter().map(ToString::to_string).collect(),
                    error: None,
                }),
                None => Err(not_found(&project, &verb.node_id, false)),
            },
            Err(error) => Err(error),
        };
        found.unwrap_or_else(|error| DescribeNodeReply { error: Some(error), ..DescribeNodeReply::default() })
    }

    /// Calls a node of a project that makes no calls itself; at most once as the same `step`.
    pub(crate) async fn call(
        &self,
        caller: &Arc<Caller>,
        project: &Arc<Project>,
        wanted: NodeCall,
        step: Option<String>,
    ) -> NodeReply {
        if let Err(error) = check(project, &wanted) {
            return refused(&wanted, Some("not_found"), error);
        }
        let project = project.clone();
        let interrupt = self.closing.child_token();
        let Some(step) = step else {
            // The end of the caller's connection drops this, and what was started ends with it.
            return self.working.track_future(self.performed(project, caller, wanted, interrupt)).await;
        };
        let asked = Asked::of(&wanted.id, &wanted.input);
        let again = wanted.clone();
        let call = |interrupt| self.performed(project, caller, wanted, interrupt);
        match self.ledger.once(step, asked, &self.working, interrupt, call).await {
            Ok(reply) => reply,
            Err(NoReply::Another) => {
                let error =
                    "Another call was made as this step before, so this one was not made; give it a name of its own.";
                refused(&again, None, error.to_owned())
            }
            Err(NoReply::Lost) => {
                let error = "The node was called as this step before, and what came of it is not known any more; it was not called again.";
                refused(&again, Some("unknown"), error.to_owned())
            }
        }
    }

    fn performed(
        &self,
        project: Arc<Project>,
        caller: &Arc<Caller>,
        wanted: NodeCall,
        interrupt: CancellationToken,
    ) -> impl Future<Output = NodeReply> + Send + 'static {
        let panes = {
            let mut panes = self.panes.lock().unwrap_or_else(PoisonError::into_inner);
            let of_project = || self.hands.panes(format!("nodes of {}", project.folder.display()));
            panes.entry(project.folder.clone()).or_insert_with(of_project).clone()
        };
        let performer = self.hands.performer(caller, project.folder.clone(), panes);
        let timeout = wanted.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let call = Call { input: wanted.input, timeout, interrupt, ..Call::default() };
        async move {
            let node = &project.nodes[&wanted.id].node;
            let result = performer.run(node, call, &random_name()).await;
            performer.close().await;
            told(result)
        }
    }
}

/// Checks that a project has what is called.
///
/// # Errors
/// In whole sentences, when it has not.
fn check(project: &Project, wanted: &NodeCall) -> Result<(), String> {
    match project.nodes.get(&wanted.id) {
        None => Err(not_found(project, &wanted.id, wanted.graph)),
        Some(declared) if wanted.graph && !matches!(declared.node.kind, NodeKind::Graph(_)) => {
            let kind = info(declared).kind;
            Err(format!("'{}' is a node of type {kind}, not a graph; call it as a node.", wanted.id))
        }
        Some(_) => Ok(()),
    }
}

/// Returns the reply to a call that was not made.
pub(crate) fn refused(wanted: &NodeCall, kind: Option<&str>, error: String) -> NodeReply {
    NodeReply {
        error: Some(error),
        error_type: kind.map(str::to_owned),
        node_id: wanted.id.clone(),
        input: wanted.input.clone(),
        ..NodeReply::default()
    }
}

/// Says a result in the words of the contract.
pub(crate) fn told(result: NodeResult) -> NodeReply {
    let word = |value: Result<Value, serde_json::Error>| value.ok().and_then(|word| word.as_str().map(str::to_owned));
    NodeReply {
        success: result.success,
        output: result.output,
        error: result.error,
        error_type: result.error_type.and_then(|kind| word(serde_json::to_value(kind))),
        node_type: word(serde_json::to_value(result.node_type)),
        node_id: result.node_id,
        input: result.input,
        attributes: result.attributes,
        run_id: None,
    }
}

fn info(declared: &Declared) -> NodeInfo {
    let Declared { node, file } = declared;
    let kind = serde_json::to_value(node.kind.node_type()).unwrap_or_default();
    NodeInfo {
        id: node.id.to_string(),
        kind: kind.as_str().unwrap_or_default().to_owned(),
        description: node.description.clone(),
        file: file.as_deref().map(shown),
    }
}

/// Returns how a node is declared, with all that the steps of a graph depend on written out.
fn declaration(node: &Node) -> Option<Value> {
    let mut declaration = serde_json::to_value(node).ok()?;
    if let NodeKind::Graph(graph) = &node.kind {
        for (index, step) in graph.steps().iter().enumerate() {
            let before: Vec<&str> = graph.dependencies(&step.id).map(NodeId::as_str).collect();
            declaration["steps"][index]["depends_on"] = before.into();
        }
    }
    Some(declaration)
}

fn broken(project: &Project) -> Vec<BrokenNode> {
    let told = |Broken { name, file, reason }: &Broken| BrokenNode {
        id: name.clone(),
        file: shown(file),
        reason: reason.clone(),
    };
    project.broken.iter().map(told).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn contains(text: Option<&str>, id: &str, description: Option<&str>) -> bool {
    let Some(text) = text.map(str::to_lowercase) else { return true };
    [Some(id), description].into_iter().flatten().any(|field| field.to_lowercase().contains(&text))
}

/// Says why there is no node or graph of a name, and which there are.
fn not_found(project: &Project, id: &str, graph: bool) -> String {
    let what = if graph { "Graph" } else { "Node" };
    if let Some(broken) = project.broken.iter().find(|broken| broken.name.as_deref() == Some(id)) {
        let Broken { file, reason, .. } = broken;
        return format!("{what} '{id}' can not be used; correct its declaration in {}:\n{reason}", file.display());
    }
    let shown: String = id.chars().take(80).collect();
    let is_meant = |declared: &&Declared| !graph || matches!(declared.node.kind, NodeKind::Graph(_));
    let names: Vec<&str> = project.nodes.values().filter(is_meant).map(|declared| declared.node.id.as_str()).collect();
    let nearest = suggestion(&shown, names.iter().copied());
    let stop = if nearest.is_empty() { "." } else { "" };
    let available = match &names[..] {
        [] => "none".to_owned(),
        few if few.len() <= NAMES_TOLD => few.join(", "),
        many => format!("{} and {} more", many[..NAMES_TOLD].join(", "), many.len() - NAMES_TOLD),
    };
    let files = project.broken.iter().filter(|broken| broken.name.is_none());
    let files: String = files.map(|broken| format!("\n{}: {}", broken.file.display(), broken.reason)).collect();
    format!("{what} '{shown}' not found{nearest}{stop} Available {}s: {available}{files}", what.to_lowercase())
}
