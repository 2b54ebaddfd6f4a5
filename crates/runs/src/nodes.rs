//! Calls of nodes that make no calls themselves.
//!
//! A call works in the project's directory, with the caller's environment. The call ends with the caller's connection,
//! unless it carries the name of a step (see [`ledger`]). A failed call is a reply, not an error.

mod conversation;
mod error;
mod host_shells;
mod ledger;
mod panes;
mod performer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use serde_json::Value;
use steplatch_access::Caller;
use steplatch_ids::random_name;
use steplatch_nodes::{Call, NodeKind, NodeResult};
use steplatch_project::{NodeNotFound, Project, node_kind};
use steplatch_protocol::NodeReply;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::time_span::TimeSpan;
pub(crate) use error::InvalidNodes;
use error::NodeRefusal;
use ledger::{CallFingerprint, OnceCalls, OnceError};
pub(crate) use panes::PtyNodes;
pub use performer::ExecutorFactory;
pub(crate) use performer::NodeExecutor;

/// Time limit for calls to stop their processes when the daemon stops.
const END_TIMEOUT: Duration = Duration::from_secs(6);

/// Calls of nodes outside a run, for all projects.
#[derive(Debug)]
pub struct Nodes {
    executors: ExecutorFactory,
    /// The persistent programs of each project, for callers of single nodes.
    panes: Mutex<HashMap<PathBuf, Arc<PtyNodes>>>,
    ledger: OnceCalls,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// A call of a node or graph of a project.
#[derive(Debug, Clone)]
pub(crate) struct NodeCall {
    /// Name of the node.
    pub(crate) id: String,
    pub(crate) input: Value,
    /// Time limit.
    pub(crate) timeout: Option<TimeSpan>,
    /// True if the caller accepts only a graph.
    pub(crate) graph: bool,
}

impl Nodes {
    /// Creates an empty collection.
    pub fn new(executors: ExecutorFactory) -> Self {
        Self {
            executors,
            panes: Mutex::default(),
            ledger: OnceCalls::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Interrupts the calls in progress and waits briefly until they finish.
    #[boxed]
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(END_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!(calls = self.tasks.len(), "calls of nodes did not finish in time");
        }
    }

    /// Calls a node that makes no calls itself, at most once for the same `step`.
    pub(crate) async fn call(
        &self,
        caller: &Arc<Caller>,
        project: &Arc<Project>,
        request: NodeCall,
        step: Option<String>,
    ) -> NodeReply {
        if let Err(error) = check(project, &request) {
            return refusal(&request, Some("not_found"), error.to_string());
        }
        let project = project.clone();
        let interrupt = self.closing.child_token();
        let Some(step) = step else {
            // The end of the caller's connection drops this future, and the drop ends all processes of the call.
            return self.tasks.track_future(Box::pin(self.perform(project, caller, request, interrupt))).await;
        };
        let fingerprint = CallFingerprint::new(&request.id, &request.input);
        let refused_request = request.clone();
        let call = |interrupt| self.perform(project, caller, request, interrupt);
        match self.ledger.once(step, fingerprint, &self.tasks, interrupt, call).await {
            Ok(reply) => reply,
            Err(OnceError::OtherCall) => {
                let error =
                    "This step has already made another call, so this call was not made; give it a different name.";
                refusal(&refused_request, None, error.to_owned())
            }
            Err(OnceError::Lost) => {
                let error = "This step has already called the node, and the result is no longer known; the node was not called again.";
                refusal(&refused_request, Some("unknown"), error.to_owned())
            }
        }
    }

    fn perform(
        &self,
        project: Arc<Project>,
        caller: &Arc<Caller>,
        request: NodeCall,
        interrupt: CancellationToken,
    ) -> impl Future<Output = NodeReply> + Send + 'static {
        let panes = {
            let mut panes = self.panes.lock();
            let new_panes = || self.executors.panes(format!("nodes of {}", project.directory.display()));
            panes.entry(project.directory.clone()).or_insert_with(new_panes).clone()
        };
        let performer = self.executors.performer(caller, project.directory.clone(), panes);
        let timeout = request.timeout.and_then(TimeSpan::duration);
        let call = Call { input: request.input, timeout, interrupt, ..Call::default() };
        async move {
            let node = &project.nodes[&request.id].node;
            let result = Box::pin(performer.run(node, call, &random_name())).await;
            performer.close().await;
            node_reply(result)
        }
    }
}

/// Checks that a project has the called node.
///
/// # Errors
///
/// If there is no such node.
fn check(project: &Project, request: &NodeCall) -> Result<(), NodeRefusal> {
    match project.nodes.get(&request.id) {
        None => Err(NodeNotFound::new(project, &request.id, request.graph).into()),
        Some(declared) if request.graph && !matches!(declared.node.kind, NodeKind::Graph(_)) => {
            Err(NodeRefusal::NotGraph { id: request.id.clone(), kind: node_kind(declared) })
        }
        Some(_) => Ok(()),
    }
}

/// Returns the reply to a refused call.
pub(crate) fn refusal(request: &NodeCall, kind: Option<&str>, error: String) -> NodeReply {
    NodeReply {
        error: Some(error),
        error_type: kind.map(str::to_owned),
        node_id: request.id.clone(),
        input: request.input.clone(),
        ..NodeReply::default()
    }
}

/// Converts a result to a reply of the contract.
pub(crate) fn node_reply(result: NodeResult) -> NodeReply {
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
