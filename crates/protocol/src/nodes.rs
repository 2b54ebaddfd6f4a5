//! Verbs about nodes and graphs.
//!
//! The client's project declares nodes in `steplatch.toml` or `steplatch.json`. The
//! reply of a call reports its failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// List the nodes of this project that can be called by name, without graphs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListNodes {
    /// Only nodes with this text in their name or description
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
}

/// The nodes of a project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListNodesReply {
    /// True if the project could be read
    pub success: bool,
    /// The nodes, sorted by name
    pub nodes: Vec<NodeInfo>,
    /// Declarations that cannot be used, with the reason
    #[serde(default)]
    pub broken: Vec<BrokenNode>,
    /// Files that declare nodes
    #[serde(default)]
    pub files: Vec<String>,
    /// Working directory of the nodes: that of the project, or of the client if no project declares any
    #[serde(rename = "folder")]
    pub directory: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Summary of a node.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// Name of the node
    pub id: String,
    /// Kind of the node: identity, bash, pty, function, http, mcp, llm or graph
    #[serde(rename = "type")]
    pub kind: String,
    /// Description of the node
    pub description: Option<String>,
    /// File that declares the node; none for the built-in one
    pub file: Option<String>,
}

/// A declaration that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenNode {
    /// Declared name; none if the whole file cannot be read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The file
    pub file: String,
    /// All problems, one per line, with JSON pointers
    pub reason: String,
}

/// Describe a node or a graph: its declaration, its location, and warnings for its author.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeNode {
    /// Name of the node
    pub node_id: String,
}

/// A node in full.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeNodeReply {
    /// True if the node exists and can be used
    pub success: bool,
    /// Summary of the node
    pub node: Option<NodeInfo>,
    /// Declaration with all defaults; secrets appear as references
    #[schemars(with = "Option<Map<String, Value>>")]
    pub declaration: Option<Value>,
    /// Warnings for the author; the node can still run
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Call a node and return its result. A repetition of the same step does not call it again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunNode {
    /// Name of the node
    pub node_id: String,
    /// Input of the node
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Time limit in seconds, in addition to the node's own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub timeout: Option<f64>,
}

/// Result of a call: always a value, even if the call failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReply {
    /// True if the call succeeded
    pub success: bool,
    /// Output; if the call failed, the output until then
    #[serde(default)]
    pub output: Value,
    /// Reason for the failure
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of the failure: exit_code, timeout, interrupted, connection …, or not_found for an unknown name
    #[serde(default)]
    pub error_type: Option<String>,
    /// Kind of the node; none if it does not exist
    #[serde(default)]
    pub node_type: Option<String>,
    /// Name of the node
    #[serde(default)]
    pub node_id: String,
    /// Input of the node
    #[serde(default)]
    pub input: Value,
    /// Additional details that depend on the kind of node: exit_code, stderr, status, steps …
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// The run of the call, if the node is a graph or a function
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// List the graphs of this project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListGraphs {
    /// Only graphs with this text in their name or description
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
}

/// The graphs of a project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListGraphsReply {
    /// True if the project could be read
    pub success: bool,
    /// The graphs, sorted by name
    pub graphs: Vec<GraphInfo>,
    /// Declarations that cannot be used, with the reason
    #[serde(default)]
    pub broken: Vec<BrokenNode>,
    /// Files that declare graphs
    #[serde(default)]
    pub files: Vec<String>,
    /// Working directory of the nodes
    #[serde(rename = "folder")]
    pub directory: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Summary of a graph.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphInfo {
    /// Name of the graph
    pub id: String,
    /// Description of the graph
    pub description: Option<String>,
    /// Steps, in the order of their declaration
    pub steps: Vec<String>,
    /// File that declares the graph
    pub file: Option<String>,
}

/// Run a graph and return its result. A repetition of the same step does not run it again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunGraph {
    /// Name of the graph
    pub graph_id: String,
    /// Input of the graph
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Time limit in seconds, in addition to the graph's own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub timeout: Option<f64>,
}
