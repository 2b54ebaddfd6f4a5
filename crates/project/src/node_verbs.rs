//! Handlers of the verbs about nodes and graphs of a project.

use std::path::Path;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::Caller;
use steplatch_nodes::{Node, NodeId, NodeKind};
use steplatch_protocol::{
    BrokenNode, DescribeNode, DescribeNodeReply, GraphInfo, ListGraphs, ListGraphsReply, ListNodes, ListNodesReply,
    NodeInfo,
};

use super::node_not_found::NodeNotFound;
use super::project::{InvalidDeclaration, NodeDeclaration, Project};
use super::projects::Projects;

impl Projects {
    /// Lists the nodes of the caller's project.
    #[boxed]
    pub async fn list_nodes(&self, caller: &Caller, verb: &ListNodes) -> ListNodesReply {
        let project = match self.find_project(caller).await {
            Ok(project) => project,
            Err(error) => return ListNodesReply { error: Some(error.to_string()), ..ListNodesReply::default() },
        };
        let nodes = project.nodes.values().filter(|declared| !matches!(declared.node.kind, NodeKind::Graph(_)));
        let nodes = nodes
            .map(node_info)
            .filter(|node| matches_filter(verb.containing.as_deref(), &node.id, node.description.as_deref()));
        ListNodesReply {
            success: true,
            nodes: nodes.collect(),
            broken: broken_nodes(&project),
            files: project.files.iter().map(|file| display_path(file)).collect(),
            directory: display_path(&project.directory),
            error: None,
        }
    }

    /// Lists the graphs of the caller's project.
    #[boxed]
    pub async fn list_graphs(&self, caller: &Caller, verb: &ListGraphs) -> ListGraphsReply {
        let project = match self.find_project(caller).await {
            Ok(project) => project,
            Err(error) => return ListGraphsReply { error: Some(error.to_string()), ..ListGraphsReply::default() },
        };
        let graphs = project.nodes.values().filter_map(|declared| {
            let NodeKind::Graph(graph) = &declared.node.kind else { return None };
            let NodeInfo { id, description, file, .. } = node_info(declared);
            Some(GraphInfo {
                id,
                description,
                file,
                steps: graph.steps().iter().map(|step| step.id.to_string()).collect(),
            })
        });
        let graphs =
            graphs.filter(|graph| matches_filter(verb.containing.as_deref(), &graph.id, graph.description.as_deref()));
        ListGraphsReply {
            success: true,
            graphs: graphs.collect(),
            broken: broken_nodes(&project),
            files: project.files.iter().map(|file| display_path(file)).collect(),
            directory: display_path(&project.directory),
            error: None,
        }
    }

    /// Returns the full description of one node.
    #[boxed]
    pub async fn describe_node(&self, caller: &Caller, verb: &DescribeNode) -> DescribeNodeReply {
        let found = match self.find_project(caller).await {
            Ok(project) => match project.nodes.get(&verb.node_id) {
                Some(declared) => Ok(DescribeNodeReply {
                    success: true,
                    node: Some(node_info(declared)),
                    declaration: full_declaration(&declared.node),
                    warnings: declared.node.warnings().iter().map(ToString::to_string).collect(),
                    error: None,
                }),
                None => Err(NodeNotFound::new(&project, &verb.node_id, false).to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        found.unwrap_or_else(|error| DescribeNodeReply { error: Some(error), ..DescribeNodeReply::default() })
    }
}

/// Returns the kind of a node, as declarations spell it.
#[must_use]
pub fn node_kind(declared: &NodeDeclaration) -> String {
    let kind = serde_json::to_value(declared.node.kind.node_type()).unwrap_or_default();
    kind.as_str().unwrap_or_default().to_owned()
}

fn node_info(declared: &NodeDeclaration) -> NodeInfo {
    let NodeDeclaration { node, file } = declared;
    NodeInfo {
        id: node.id.to_string(),
        kind: node_kind(declared),
        description: node.description.clone(),
        file: file.as_deref().map(display_path),
    }
}

/// Returns the declaration of a node. The steps of a graph list their dependencies, including implied ones.
fn full_declaration(node: &Node) -> Option<Value> {
    let mut declaration = serde_json::to_value(node).ok()?;
    if let NodeKind::Graph(graph) = &node.kind {
        for (index, step) in graph.steps().iter().enumerate() {
            let dependencies: Vec<&str> = graph.dependencies(&step.id).map(NodeId::as_str).collect();
            declaration["steps"][index]["depends_on"] = dependencies.into();
        }
    }
    Some(declaration)
}

fn broken_nodes(project: &Project) -> Vec<BrokenNode> {
    let to_broken_node = |InvalidDeclaration { name, file, reason }: &InvalidDeclaration| BrokenNode {
        id: name.clone(),
        file: display_path(file),
        reason: reason.clone(),
    };
    project.broken.iter().map(to_broken_node).collect()
}

/// Returns a path as text for replies and errors.
pub(crate) fn display_path(path: &Path) -> String {
    path.display().to_string()
}

fn matches_filter(text: Option<&str>, id: &str, description: Option<&str>) -> bool {
    let Some(text) = text.map(str::to_lowercase) else { return true };
    [Some(id), description].into_iter().flatten().any(|field| field.to_lowercase().contains(&text))
}
