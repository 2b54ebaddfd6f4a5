//! Declarations of nodes: the fields that all kinds have in common.
//!
//! A [`Node`] is valid: [`Node::parse`] checks it, and the types of its fields admit only valid values. This module
//! only parses; [`Nodes`](crate::Nodes) performs.

mod id;
mod read;
mod schema;
mod seconds;

use serde::Serialize;

pub use id::{InvalidNodeId, NodeId};
pub(crate) use read::read_object;
pub use schema::schema;
pub(crate) use schema::{policy_object_schema, schema_of};
pub use seconds::Seconds;

use crate::kind::NodeKind;

/// A named action of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Name of the node, unique in its workspace
    pub id: NodeId,
    /// Purpose of the node, in one sentence
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Time limit of one call, in seconds
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    /// Action of the node
    #[serde(flatten)]
    pub kind: NodeKind,
}
