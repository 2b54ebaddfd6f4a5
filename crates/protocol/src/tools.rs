//! Verbs about workflows as tools: their list, and a call of one.
//!
//! The daemon keeps one registry. Lists of MCP, the HTTP API and the service that other
//! instances discover all use the reply of [`ListTools`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::runs::RunDetail;
pub(crate) use crate::runs::RunReply;

/// List the workflows that are tools, sorted by name. The list is the same for every client.
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
    /// Workflows that clients are offered as tools: those of remote services, and those of the library if configured
    Offered,
    /// All proven workflows of the library, regardless of the configuration, and none of remote services: the tools
    /// that this instance offers to others
    Library,
}

/// Size of the list of tools for MCP clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolListSize {
    /// All tools for clients that load the definition of a tool when its model needs it, and the core for all others
    #[default]
    Auto,
    /// The tools for terminals and workflows that most tasks need; the others through one tool
    Core,
    /// All tools
    Full,
}

impl ToolListSize {
    /// All sizes.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Core, Self::Full];

    /// Returns the name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Core => "core",
            Self::Full => "full",
        }
    }
}

fn is_auto(size: &ToolListSize) -> bool {
    *size == ToolListSize::Auto
}

/// The workflows that are tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListToolsReply {
    /// True if the tools could be listed
    pub success: bool,
    /// The tools, sorted by name
    #[serde(default)]
    pub tools: Vec<ToolInfo>,
    /// Size of the list of tools for MCP clients, by the settings
    #[serde(default, skip_serializing_if = "is_auto")]
    pub list_size: ToolListSize,
    /// Entries of the user's list of commands that only read
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_commands: Vec<String>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A workflow as a tool.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInfo {
    /// Tool name, such as workflow_release
    pub name: String,
    /// Name or title of the workflow
    pub title: String,
    /// Description; for a remote workflow it is foreign text, cleaned, and states its origin
    pub description: String,
    /// JSON Schema of the arguments, an object
    #[schemars(with = "Map<String, Value>")]
    pub input_schema: Value,
    /// library or remote
    pub source: String,
    /// The remote service that has the workflow
    pub remote: Option<String>,
    /// Id at the remote service, or name in the library
    pub workflow_id: String,
    /// Version of the workflow
    pub version: Option<String>,
    /// Category of the workflow
    pub category: Option<String>,
    /// True if a call always waits for the end of the run
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sync: bool,
}

/// Call a workflow tool: starts a run and waits for it. The reply is that of RUN_WORKFLOW.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CallTool {
    /// Tool name
    pub name: String,
    /// Arguments, checked against the tool's schema before anything is executed
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Seconds to wait for the end of the run or a gate (default 20; a sync tool always waits for the end; 0 returns at
    /// once)
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
    /// Key of this request: a repetition with the same key returns the same run
    pub idempotency_key: Option<String>,
    /// Level of detail
    pub detail: Option<RunDetail>,
}

/// Report changes as events on this connection. Each names what changed, and is delayed slightly, so that repeated
/// changes of one thing are one event. The client then reads the new state itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Watch {}

/// Result of watching.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchReply {
    /// True if changes are reported from now on
    pub success: bool,
    /// Error message, with a suggested next step
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
        /// Id of the run.
        run_id: String,
    },
}
