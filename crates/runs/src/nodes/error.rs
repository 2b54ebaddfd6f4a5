//! Reasons for refused calls of nodes.

use std::fmt;

use steplatch_project::NodeNotFound;
use steplatch_workflow::Problems;

/// Reason for a refused call of a node.
#[derive(Debug, thiserror::Error)]
pub(super) enum NodeRefusal {
    /// The project has no such usable node.
    #[error(transparent)]
    NotFound(#[from] NodeNotFound),
    /// The node is not a graph, and the caller accepts only a graph.
    #[error("'{id}' is a node of type {kind}, not a graph; call it as a node.")]
    NotGraph {
        /// The node.
        id: String,
        /// The type of the node.
        kind: String,
    },
}

/// Declarations of nodes that no run can use, at least one.
#[derive(Debug)]
pub(crate) struct InvalidNodes(Vec<(String, Problems)>);

impl InvalidNodes {
    /// Returns an error for these nodes, each with the problems of its declaration.
    pub(crate) fn new(nodes: Vec<(String, Problems)>) -> Self {
        Self(nodes)
    }
}

impl fmt::Display for InvalidNodes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().map(|(id, problems)| format!("the node '{id}' is not valid:\n{problems}\n"));
        out.write_str(lines.collect::<String>().trim_end())
    }
}

impl std::error::Error for InvalidNodes {}
