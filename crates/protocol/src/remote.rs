//! Verbs about workflows of remote services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// List the remote workflow services, how they are, and their workflows. Run one by its tool name with run_workflow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRemoteWorkflows {
    /// Only those of this service
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// Remote services and their workflows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListRemoteWorkflowsReply {
    /// Whether the question was understood; a service may be down all the same
    pub success: bool,
    /// The services
    #[serde(default)]
    pub remotes: Vec<RemoteInfo>,
    /// Their workflows, sorted by tool
    #[serde(default)]
    pub workflows: Vec<RemoteWorkflowInfo>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A remote service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteInfo {
    /// Its name in the configuration
    pub name: String,
    /// Where it is
    pub base_url: String,
    /// Whether it is used at all
    pub enabled: bool,
    /// Whether the last discovery succeeded
    pub reachable: bool,
    /// When the last discovery succeeded (ISO 8601, UTC)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_discovery: Option<String>,
    /// Workflows that are listed
    pub workflows: usize,
    /// Runs under way
    pub running: usize,
    /// Calls that wait for one to end
    pub queued: usize,
    /// Entries of its list that were left out, and why
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Why the last discovery failed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A workflow of a remote service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteWorkflowInfo {
    /// The tool that runs it
    pub tool: String,
    /// Its id there
    pub workflow_id: String,
    /// The service
    pub remote: String,
    /// Its title there, cleaned
    pub title: String,
    /// Its description there, cleaned
    pub description: String,
    /// Its category
    pub category: String,
    /// Its version
    pub version: String,
    /// sync or async
    pub execution_type: String,
    /// What its title, description and schema are pinned by
    pub hash: String,
    /// When that changed last, if it did since it was first seen (ISO 8601, UTC)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// Ask the remote workflow services again which workflows they have.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RefreshWorkflows {
    /// Only this service
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefreshWorkflowsReply {
    /// Whether every service that is used answered
    pub success: bool,
    /// Workflows that are new
    pub added: usize,
    /// Workflows whose title, description or schema is another one
    pub updated: usize,
    /// Workflows that are gone
    pub removed: usize,
    /// Workflows that are as they were
    pub unchanged: usize,
    /// The services
    #[serde(default)]
    pub remotes: Vec<RemoteInfo>,
    /// What went wrong and what to do; the workflows of a service that did not answer stay
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Ask a remote service how a run of its workflow is: by the ids that the run's result has, or by the run's own id.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckWorkflowStatus {
    /// Id of the workflow, there
    pub workflow_id: String,
    /// Id of the run: here, or workflowInstanceId there
    pub run_id: String,
    /// The service; may be left out while one has that workflow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// How a run of a remote workflow is, in the words of its service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckWorkflowStatusReply {
    /// Whether the service told
    pub success: bool,
    /// RUNNING, COMPLETED, FAILED, CANCELLED, or another word of the service
    #[serde(default)]
    pub status: String,
    /// The run here, if it was started from here
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What it was given
    #[serde(default)]
    pub input: Value,
    /// What came of it so far
    #[serde(default)]
    pub output: Value,
    /// Id of the workflow
    #[serde(default)]
    pub original_workflow_id: String,
    /// Id of the run, there
    #[serde(default)]
    pub workflow_instance_id: String,
    /// When it began, in milliseconds since 1970
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<i64>,
    /// When it ended
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<i64>,
    /// What is asked there, where it waits for somebody
    #[serde(default, rename = "pending_gate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub pending_gate: Option<Value>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
