//! Verbs about nodes and graphs.
//!
//! The client's project declares nodes in `steplatch.toml` or `steplatch.json`. The
//! reply of a call reports its failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// List the nodes of this project: what can be called by name. Graphs are listed apart.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListNodes {
    /// Only those with this text in their name or description
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
}

/// The nodes of a project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListNodesReply {
    /// True if the project could be read
    pub success: bool,
    /// The nodes, by name
    pub nodes: Vec<NodeInfo>,
    /// Declarations that cannot be used, and why
    #[serde(default)]
    pub broken: Vec<BrokenNode>,
    /// The files that declare them
    #[serde(default)]
    pub files: Vec<String>,
    /// The folder in which nodes work: the project's, or the client's where no project declares any
    pub folder: String,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A node, in short.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// Its name
    pub id: String,
    /// Kind of the node: identity, bash, pty, function, http, mcp, llm or graph
    #[serde(rename = "type")]
    pub kind: String,
    /// Its purpose
    pub description: Option<String>,
    /// The file that declares it; none for the one that is always there
    pub file: Option<String>,
}

/// A declaration that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenNode {
    /// The name it would have; none when it is the file that cannot be read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The file
    pub file: String,
    /// Everything that is wrong, a line each, with JSON pointers
    pub reason: String,
}

/// Look at a node or a graph: its declaration, its place, and warnings for its author.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeNode {
    /// Its name
    pub node_id: String,
}

/// A node, whole.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DescribeNodeReply {
    /// True if there is one that can be used
    pub success: bool,
    /// Its entry in lists
    pub node: Option<NodeInfo>,
    /// Its declaration, with every default written out; secrets stand in it by reference
    #[schemars(with = "Option<Map<String, Value>>")]
    pub declaration: Option<Value>,
    /// Warnings for its author; it can run with them
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Call a node, and return its result. Repeated as the same step, it is not called again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunNode {
    /// Its name
    pub node_id: String,
    /// Its input
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Seconds that it may take, besides its own limit
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub timeout: Option<f64>,
}

/// Result of a call: always a value, also when it failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReply {
    /// True if the call succeeded
    pub success: bool,
    /// Its output; of a call that failed, the output until then
    #[serde(default)]
    pub output: Value,
    /// Reason for the failure
    #[serde(default)]
    pub error: Option<String>,
    /// Kind of the failure: exit_code, timeout, interrupted, connection …, or not_found for an unknown name
    #[serde(default)]
    pub error_type: Option<String>,
    /// Kind of the node; none when there is no such node
    #[serde(default)]
    pub node_type: Option<String>,
    /// Its name
    #[serde(default)]
    pub node_id: String,
    /// Its input
    #[serde(default)]
    pub input: Value,
    /// Further facts, by the kind of node: exit_code, stderr, status, steps …
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// The run that it was, if it is a graph or a function
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// List the graphs of this project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListGraphs {
    /// Only those with this text in their name or description
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
}

/// The graphs of a project.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListGraphsReply {
    /// True if the project could be read
    pub success: bool,
    /// The graphs, by name
    pub graphs: Vec<GraphInfo>,
    /// Declarations that cannot be used, and why
    #[serde(default)]
    pub broken: Vec<BrokenNode>,
    /// The files that declare them
    #[serde(default)]
    pub files: Vec<String>,
    /// The folder in which their nodes work
    pub folder: String,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A graph, in short.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphInfo {
    /// Its name
    pub id: String,
    /// Its purpose
    pub description: Option<String>,
    /// Its steps, as they are declared
    pub steps: Vec<String>,
    /// The file that declares it
    pub file: Option<String>,
}

/// Run a graph, and return its result. Repeated as the same step, it is not run again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunGraph {
    /// Its name
    pub graph_id: String,
    /// Its input
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Seconds that it may take, besides its own limit
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub timeout: Option<f64>,
}
