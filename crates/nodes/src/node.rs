//! Declarations of nodes: the fields that all kinds have in common.
//!
//! A [`Node`] comes from [`Node::parse`] or from values that are each valid. This module performs nothing; see
//! [`Nodes`](crate::Nodes).

mod id;
mod read;
mod schema;
mod seconds;

use serde::Serialize;

pub use id::{InvalidNodeId, NodeId};
pub(crate) use read::checked;
pub use schema::schema;
pub(crate) use schema::{schema_of, with_word};
pub use seconds::Seconds;

use crate::kind::NodeKind;

/// Something that a run can do, by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Its name, unique in its workspace
    pub id: NodeId,
    /// Its purpose, in a sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seconds that one call of it may take
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Its action
    #[serde(flatten)]
    pub kind: NodeKind,
}
