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
    /// True if the request was valid, even if a service is down
    pub success: bool,
    /// The services
    #[serde(default)]
    pub remotes: Vec<RemoteInfo>,
    /// Workflows of the services, sorted by tool name
    #[serde(default)]
    pub workflows: Vec<RemoteWorkflowInfo>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A remote service.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteInfo {
    /// Name in the configuration
    pub name: String,
    /// Base address
    pub base_url: String,
    /// True if the service is enabled
    pub enabled: bool,
    /// True if the last discovery succeeded
    pub reachable: bool,
    /// Time of the last successful discovery (ISO 8601, UTC)
    pub last_discovery: Option<String>,
    /// Number of listed workflows
    pub workflows: usize,
    /// Number of runs in progress
    pub running: usize,
    /// Number of calls that wait for another run to end
    pub queued: usize,
    /// Omitted entries of the list, with the reason
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// Error of the last discovery
    pub error: Option<String>,
}

/// A workflow of a remote service.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteWorkflowInfo {
    /// Name of the tool that runs the workflow
    pub tool: String,
    /// Id at the service
    pub workflow_id: String,
    /// The service
    pub remote: String,
    /// Title at the service, cleaned
    pub title: String,
    /// Description at the service, cleaned
    pub description: String,
    /// Category of the workflow
    pub category: String,
    /// Version of the workflow
    pub version: String,
    /// sync or async
    pub execution_type: String,
    /// Metadata from the service, cleaned and limited in size
    pub metadata: Option<Map<String, Value>>,
    /// Hash that pins the title, description and schema
    pub hash: String,
    /// Time of the last change of the hash, if it ever changed (ISO 8601, UTC)
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
    /// True if all enabled services responded
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
    /// Error message, with a suggested next step; the workflows of a service that did not respond are kept
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
    /// True if the service responded
    pub success: bool,
    /// RUNNING, COMPLETED, FAILED, CANCELLED, or a status of the service's own
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
    /// Creation, update, start and end times.
    #[serde(flatten)]
    pub times: StatusTimes,
    /// The question that the run waits for at the service
    #[serde(default, rename = "pending_gate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub pending_gate: Option<Value>,
    /// Error of the failed or cancelled run; with success false, the error of the request, with a suggested next step
    pub error: Option<String>,
}

/// Times of a run at its service, in milliseconds since 1970. Times that the service does not report are omitted.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusTimes {
    /// Creation time
    pub create_time: Option<i64>,
    /// Time of the last change
    pub update_time: Option<i64>,
    /// Start time
    pub start_time: Option<i64>,
    /// End time
    pub end_time: Option<i64>,
    /// Same as create_time
    #[serde(default, rename = "createTime", skip_serializing_if = "Option::is_none")]
    pub create_time_camel: Option<i64>,
    /// Same as update_time
    #[serde(default, rename = "updateTime", skip_serializing_if = "Option::is_none")]
    pub update_time_camel: Option<i64>,
    /// Same as start_time
    #[serde(default, rename = "startTime", skip_serializing_if = "Option::is_none")]
    pub start_time_camel: Option<i64>,
    /// Same as end_time
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
