//! Error of an id that refers to no usable node or graph of a project.

use std::fmt;
use std::path::PathBuf;

use steplatch_nodes::NodeKind;
use steplatch_workflow::suggestion;

use super::project::{InvalidDeclaration, NodeDeclaration, Project};

/// Maximum number of names that the error suggests.
const MAX_NAMES: usize = 20;

/// An id that refers to no usable node or graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeNotFound {
    /// The declaration of the id is invalid.
    Broken {
        /// True if a graph was requested.
        graph: bool,
        /// The id.
        id: String,
        /// The file of the declaration.
        file: PathBuf,
        /// The problems of the declaration, one per line.
        reason: String,
    },
    /// The project does not declare the id.
    Unknown {
        /// True if a graph was requested.
        graph: bool,
        /// The id, at most 80 characters.
        id: String,
        /// The declared ids, sorted.
        available: Vec<String>,
        /// Unreadable files, each with the reason.
        broken_files: Vec<(PathBuf, String)>,
    },
}

impl NodeNotFound {
    /// Returns the error for a missing node or graph of `project`.
    #[must_use]
    pub fn new(project: &Project, id: &str, graph: bool) -> Self {
        if let Some(broken) = project.broken.iter().find(|broken| broken.name.as_deref() == Some(id)) {
            let InvalidDeclaration { file, reason, .. } = broken.clone();
            return Self::Broken { graph, id: id.to_owned(), file, reason };
        }
        let is_candidate = |declared: &&NodeDeclaration| !graph || matches!(declared.node.kind, NodeKind::Graph(_));
        let available = project.nodes.values().filter(is_candidate).map(|declared| declared.node.id.to_string());
        let broken_files = project.broken.iter().filter(|broken| broken.name.is_none());
        Self::Unknown {
            graph,
            id: id.chars().take(80).collect(),
            available: available.collect(),
            broken_files: broken_files.map(|broken| (broken.file.clone(), broken.reason.clone())).collect(),
        }
    }
}

impl std::error::Error for NodeNotFound {}

impl fmt::Display for NodeNotFound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = |graph: &bool| if *graph { "Graph" } else { "Node" };
        match self {
            Self::Broken { graph, id, file, reason } => {
                let noun = noun(graph);
                write!(out, "{noun} '{id}' cannot be used; correct its declaration in {}:\n{reason}", file.display())
            }
            Self::Unknown { graph, id, available, broken_files } => {
                let noun = noun(graph);
                let nearest = suggestion(id, available.iter().map(String::as_str));
                let period = if nearest.is_empty() { "." } else { "" };
                write!(out, "{noun} '{id}' not found{nearest}{period} Available {}s: ", noun.to_lowercase())?;
                match available.as_slice() {
                    [] => out.write_str("none")?,
                    few if few.len() <= MAX_NAMES => out.write_str(&few.join(", "))?,
                    many => {
                        write!(out, "{} and {} more", many[..MAX_NAMES].join(", "), many.len() - MAX_NAMES)?;
                    }
                }
                broken_files.iter().try_for_each(|(file, reason)| write!(out, "\n{}: {reason}", file.display()))
            }
        }
    }
}
