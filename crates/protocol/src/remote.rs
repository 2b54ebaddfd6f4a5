//! Verbs about workflows of remote services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

/// List remote workflow services, their status and workflows. Run a workflow by its tool name with run_workflow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListRemoteWorkflows {
    /// Only this service and its workflows
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// Remote services and their workflows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListRemoteWorkflowsReply {
    /// True if the request was valid; a service may be down nevertheless
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
    /// True if it is enabled
    pub enabled: bool,
    /// True if the last discovery succeeded
    pub reachable: bool,
    /// Time of the last successful discovery (ISO 8601, UTC)
    pub last_discovery: Option<String>,
    /// Number of listed workflows
    pub workflows: usize,
    /// Number of runs in progress
    pub running: usize,
    /// Number of calls that wait for a run to end
    pub queued: usize,
    /// Omitted entries of its list, with the reason
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Error of the last discovery
    pub error: Option<String>,
}

/// A workflow of a remote service.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteWorkflowInfo {
    /// The tool that runs it
    pub tool: String,
    /// Its id at the service
    pub workflow_id: String,
    /// The service
    pub remote: String,
    /// Its title at the service, cleaned
    pub title: String,
    /// Its description at the service, cleaned
    pub description: String,
    /// Its category
    pub category: String,
    /// Its version
    pub version: String,
    /// sync or async
    pub execution_type: String,
    /// Metadata from the service, cleaned and limited in size
    pub metadata: Option<Map<String, Value>>,
    /// Hash that pins its title, description and schema
    pub hash: String,
    /// Time of the last change of the hash, if it has changed (ISO 8601, UTC)
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
    /// True if all enabled services answered
    pub success: bool,
    /// Number of new workflows
    pub added: usize,
    /// Number of workflows with a changed title, description or schema
    pub updated: usize,
    /// Number of removed workflows
    pub removed: usize,
    /// Number of unchanged workflows
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
    /// Id of the workflow at the service
    pub workflow_id: String,
    /// Id of the local run, or workflowInstanceId of the service
    pub run_id: String,
    /// The service; optional if only one has the workflow
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
    /// Id of the local run, if there is one
    #[serde(default, rename = "run_id", skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Id of the workflow at the service
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
    /// Id of the run at the service
    #[serde(default)]
    pub workflow_instance_id: String,
    /// Correlation id of the start, if known
    pub correlation_id: Option<String>,
    /// Progress in percent, if the service reports it
    #[schemars(with = "Option<f64>")]
    pub progress: Option<Number>,
    /// Times of its creation, last change, start and end.
    #[serde(flatten)]
    pub times: StatusTimes,
    /// The question that the run waits for at the service
    #[serde(default, rename = "pending_gate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub pending_gate: Option<Value>,
    /// Error of the failed or cancelled run; with success false, the error of the request and what to do
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
