//! Verbs about workflows of remote services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

/// List remote workflow services, their status and workflows. Run a workflow by its tool name with run_workflow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRemoteWorkflows {
    /// Only those of this service
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// Remote services and their workflows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListRemoteWorkflowsReply {
    /// True if the request was understood; a service may be down all the same
    pub success: bool,
    /// The services
    #[serde(default)]
    pub remotes: Vec<RemoteInfo>,
    /// Their workflows, sorted by tool
    #[serde(default)]
    pub workflows: Vec<RemoteWorkflowInfo>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A remote service.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteInfo {
    /// Its name in the configuration
    pub name: String,
    /// Its address
    pub base_url: String,
    /// True if it is used at all
    pub enabled: bool,
    /// True if the last discovery succeeded
    pub reachable: bool,
    /// Time of the last discovery that succeeded (ISO 8601, UTC)
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
    /// Reason for the failure of the last discovery
    pub error: Option<String>,
}

/// A workflow of a remote service.
#[serde_with_macros::skip_serializing_none]
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
    /// Metadata of the service, cleaned and bounded
    pub metadata: Option<Map<String, Value>>,
    /// Hash that pins its title, description and schema
    pub hash: String,
    /// Time of the hash's last change, if it changed since it was first seen (ISO 8601, UTC)
    pub changed: Option<String>,
}

/// Fetch the lists of the remote workflow services again.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RefreshWorkflows {
    /// Only this service
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// Changes of the workflows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefreshWorkflowsReply {
    /// True if every service that is used answered
    pub success: bool,
    /// Workflows that are new
    pub added: usize,
    /// Workflows whose title, description or schema has changed
    pub updated: usize,
    /// Workflows that are gone
    pub removed: usize,
    /// Workflows that are unchanged
    pub unchanged: usize,
    /// The services
    #[serde(default)]
    pub remotes: Vec<RemoteInfo>,
    /// The error and what to do; the workflows of a service that did not answer stay
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Get the status of a run of a remote workflow from its service: by the ids in its result, or by the run's own id.
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

/// Status of a run of a remote workflow, as its service reports it. Times are in milliseconds since 1970, each in both
/// spellings that services use.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckWorkflowStatusReply {
    /// True if the service answered
    pub success: bool,
    /// RUNNING, COMPLETED, FAILED, CANCELLED, or another word of the service
    #[serde(default)]
    pub status: String,
    /// The run here, if it was started from here
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Id of the workflow, there
    #[serde(default, rename = "workflow_id")]
    pub workflow_id: String,
    /// Input of the run
    #[serde(default)]
    pub input: Value,
    /// Output of the run so far
    #[serde(default)]
    pub output: Value,
    /// Id of the workflow: the same as workflow_id
    #[serde(default)]
    pub original_workflow_id: String,
    /// Id of the run, there
    #[serde(default)]
    pub workflow_instance_id: String,
    /// Correlation id of the start, if it is known here or the service repeats it
    pub correlation_id: Option<String>,
    /// Progress in percent, if the service reports it
    #[schemars(with = "Option<f64>")]
    pub progress: Option<Number>,
    /// Times of its creation, last change, start and end.
    #[serde(flatten)]
    pub times: StatusTimes,
    /// The question that the run waits on, there
    #[serde(default, rename = "pending_gate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub pending_gate: Option<Value>,
    /// Reason for the failure or cancellation there; with success false, why the service gave no status and what to do
    pub error: Option<String>,
}

/// Times of a run at its service, in milliseconds since 1970; those that the service does not report are left out.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusTimes {
    /// Time of its creation
    pub create_time: Option<i64>,
    /// Time of its last change
    pub update_time: Option<i64>,
    /// Start time
    pub start_time: Option<i64>,
    /// End time
    pub end_time: Option<i64>,
    /// The same as create_time
    #[serde(default, rename = "createTime", skip_serializing_if = "Option::is_none")]
    pub create_time_camel: Option<i64>,
    /// The same as update_time
    #[serde(default, rename = "updateTime", skip_serializing_if = "Option::is_none")]
    pub update_time_camel: Option<i64>,
    /// The same as start_time
    #[serde(default, rename = "startTime", skip_serializing_if = "Option::is_none")]
    pub start_time_camel: Option<i64>,
    /// The same as end_time
    #[serde(default, rename = "endTime", skip_serializing_if = "Option::is_none")]
    pub end_time_camel: Option<i64>,
}

impl StatusTimes {
    /// Returns these times in both spellings.
    #[must_use]
    pub fn new(create: Option<i64>, update: Option<i64>, start: Option<i64>, end: Option<i64>) -> Self {
        Self {
            create_time: create,
            update_time: update,
            start_time: start,
            end_time: end,
            create_time_camel: create,
            update_time_camel: update,
            start_time_camel: start,
            end_time_camel: end,
        }
    }
}
