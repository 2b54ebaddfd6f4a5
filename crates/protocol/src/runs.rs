//! Verbs about runs of workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

fn is_false(value: &bool) -> bool {
    !*value
}

/// Run a workflow: a JSON state machine over terminal actions, the same way every time.
///
/// States have an action ({"tool": "send_input", "params": {…}}) and transitions ({"condition": {"pattern_match": "…"},
/// "next_state": "…"}), tried in order; when none holds after a successful action the run is complete. {name} in params is
/// a variable. Returns when the run ends or after wait_seconds with its run_id: then call get_run. The run goes on
/// without you.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunWorkflow {
    /// The workflow itself, as an object
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub workflow_definition: Option<Value>,
    /// Path of a JSON file with the workflow, instead of workflow_definition
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_file: Option<String>,
    /// Terminal to work in; without it the workflow opens its own
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Variables to begin with, as text
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_variables: Option<std::collections::BTreeMap<String, String>>,
    /// States to execute at most (default 100)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_states: Option<u32>,
    /// Seconds that the run may take (default 1800)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0, max = 7200.0))]
    pub execution_timeout: Option<f64>,
    /// Leave terminals of the run open when it fails or is cancelled
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_terminals: bool,
    /// Seconds to wait for the end of the run (default 20; 0 returns at once)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
}

/// Look at a run: how far it is, or how it ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetRun {
    /// The run
    pub run_id: String,
    /// Seconds to wait for its end (default 0)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 7200.0))]
    pub wait_seconds: Option<f64>,
}

/// A run, as far as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunReply {
    /// Whether it is complete, or on its way there
    pub success: bool,
    /// The run
    #[serde(default)]
    pub run_id: String,
    /// running, completed, failed or cancelled
    #[serde(default)]
    pub status: String,
    /// Name of the workflow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_name: Option<String>,
    /// The state executed last, or definition_invalid or execution_error
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_state: Option<String>,
    /// States executed
    #[serde(default)]
    pub states_executed: u32,
    /// Seconds since it began, or that it took
    #[serde(default)]
    pub total_elapsed_time: f64,
    /// What happened, in order
    #[serde(default)]
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub execution_log: Vec<Value>,
    /// The variables at the end
    #[serde(default)]
    pub final_variables: Map<String, Value>,
    /// Return values of the workflow
    #[serde(default)]
    pub return_values: Map<String, Value>,
    /// The terminal it worked in last
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Deepest level of nested workflows
    #[serde(default)]
    pub recursion_depth: u32,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Cancel a run. What is in flight is abandoned and the run's own terminals are closed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflow {
    /// The run
    pub run_id: String,
}

/// What came of cancelling.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CancelWorkflowReply {
    /// Whether there is such a run
    pub success: bool,
    /// The run
    pub run_id: String,
    /// Its state now
    #[serde(default)]
    pub state: String,
    /// What happened, in words
    #[serde(default)]
    pub message: String,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The record of a run, without its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowRun {
    /// The run
    pub run_id: String,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Its id
    pub run_id: String,
    /// Name of the workflow
    pub workflow_id: String,
    /// running, completed, failed or cancelled
    pub state: String,
    /// When it began (ISO 8601, UTC)
    pub started_at: String,
    /// When it ended (ISO 8601, UTC)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// Variables it began with
    #[serde(default)]
    pub input: Map<String, Value>,
    /// Why it failed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The run that started it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
}

/// A run's record.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetWorkflowRunReply {
    /// Whether there is such a run
    pub success: bool,
    /// The record
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunRecord>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// List runs, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowRuns {
    /// Only runs of this workflow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// Only runs in this state: running, completed, failed or cancelled
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Runs, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkflowRunsReply {
    /// Whether the question was understood
    pub success: bool,
    /// The runs
    #[serde(default)]
    pub runs: Vec<RunRecord>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Follow the events of a run, from its first or from a later one, as events on this connection.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Subscribe {
    /// The run
    pub run_id: String,
    /// Number of the first event wanted (default 1)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<u64>,
}

/// What came of subscribing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeReply {
    /// Whether there is such a run
    pub success: bool,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Its number within the run, from 1.
    pub seq: u64,
    /// The run.
    pub run_id: String,
    /// Name of the workflow.
    pub workflow_id: String,
    /// What happened, such as `state_entered`.
    pub event_type: String,
    /// The particulars.
    pub data: Map<String, Value>,
    /// When (ISO 8601, UTC).
    pub timestamp: String,
}

impl RunEvent {
    /// Whether nothing comes after it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        matches!(self.event_type.as_str(), "workflow_completed" | "workflow_failed" | "workflow_cancelled")
    }
}
