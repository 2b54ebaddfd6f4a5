//! Verbs about workflows as tools: their list, and a call of one.
//!
//! The daemon keeps one registry. Lists of MCP, the HTTP API and the service that other
//! instances discover all use the reply of [`ListTools`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::runs::RunDetail;
pub(crate) use crate::runs::RunReply;

/// List the tools that are workflows, sorted by name: the same for every client.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListTools {
    /// Tools to list (default offered)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ToolScope>,
}

/// Workflows that count as tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolScope {
    /// Those that clients are offered as tools: of remote services, and of the library if the configuration says so
    Offered,
    /// All proven ones of the library, whatever the configuration says, and none of remote services: what this instance
    /// offers to others
    Library,
}

/// The tools that are workflows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListToolsReply {
    /// True if they could be listed
    pub success: bool,
    /// The tools, sorted by name
    #[serde(default)]
    pub tools: Vec<ToolInfo>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A workflow as a tool.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInfo {
    /// The name of the tool, such as workflow_release
    pub name: String,
    /// The workflow's own name or title
    pub title: String,
    /// Its purpose; of a remote workflow it is foreign text, cleaned, and states where it comes from
    pub description: String,
    /// JSON Schema of its arguments, an object
    #[schemars(with = "Map<String, Value>")]
    pub input_schema: Value,
    /// library or remote
    pub source: String,
    /// The remote service that has it
    pub remote: Option<String>,
    /// Its id there; its name in the library
    pub workflow_id: String,
    /// Its version
    pub version: Option<String>,
    /// Its category
    pub category: Option<String>,
    /// True if a call waits for its end however long it takes
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
}

/// Call a workflow tool: starts a run and waits for it. The reply is that of RUN_WORKFLOW.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CallTool {
    /// The name of the tool
    pub name: String,
    /// Its arguments, checked against its schema before anything is done
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Seconds to wait for the end of the run or a gate (default 20, or to its end for a sync one; 0 returns at once)
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
    /// A name for this request: repeated with the same name, it returns the run that it started
    pub idempotency_key: Option<String>,
    /// Level of detail
    pub detail: Option<RunDetail>,
}

/// Report changes as events on this connection. Each names what changed, and is delayed slightly, so that repeated changes
/// of one thing are one event. The client then reads the new state itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Watch {}

/// Result of watching.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchReply {
    /// True if changes are reported from now on
    pub success: bool,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Subject of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "changed", rename_all = "snake_case")]
pub enum Change {
    /// The list of tools that are workflows.
    Tools,
    /// The state of a run, or the event that it waits for.
    Run {
        /// The run.
        run_id: String,
    },
}
