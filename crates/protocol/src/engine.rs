//! Verbs between the daemon and the worker of an outer engine, which decides runs elsewhere.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The secret that proves that a worker can read the state directory. Its debug output is redacted.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WorkerToken(pub String);

impl fmt::Debug for WorkerToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WorkerToken(…)")
    }
}

/// The engine that decides a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// The daemon's own engine, with its journal.
    #[default]
    Sqlite,
    /// Temporal, through a worker.
    Temporal,
}

impl EngineKind {
    /// Returns its name in settings and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Temporal => "temporal",
        }
    }
}

/// Serve the runs of this daemon that an external engine decides. Requests follow as events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ServeRuns {
    /// The secret of the state directory
    pub token: WorkerToken,
    /// Address of the engine, for messages
    pub server: String,
    /// Name of this host in the engine, instead of the one that the daemon has chosen
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The worker is connected.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ServeRunsReply {
    /// True if the worker is connected
    pub success: bool,
    /// Name of this host in the engine
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A request from the daemon to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum EngineRequest {
    /// Start a run, unless it has been started.
    Start {
        /// Id of the run.
        run_id: String,
        /// Name of the workflow.
        workflow: String,
        /// The first events of the run; a function has none.
        events: Vec<Value>,
        /// True if the workflow is a function.
        #[serde(default)]
        function: bool,
    },
    /// Report the end of a started run if the engine ends it without a request.
    Watch {
        /// Id of the run.
        run_id: String,
    },
    /// Pass an input to a run, once.
    Input {
        /// Number of the request.
        id: u64,
        /// Id of the run.
        run_id: String,
        /// Name of the input: the same for a repeated request.
        key: String,
        /// Value of the input.
        input: Value,
    },
    /// Cancel a run.
    Cancel {
        /// Id of the run.
        run_id: String,
        /// Reason for the cancellation.
        reason: String,
    },
}

/// Report the outcome of a request to the engine.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReportRequest {
    /// The secret of the state directory
    pub token: WorkerToken,
    /// The run
    pub run_id: String,
    /// Number of the request, if it passed an input
    pub id: Option<u64>,
    /// True if the engine accepted the request
    pub taken: bool,
    /// Number of events before `events`
    #[serde(default)]
    pub from: u64,
    /// Events that follow from an input
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub events: Vec<Value>,
    /// Description of the end of a run that the engine ended without a request
    pub lost: Option<String>,
    /// Reason why the engine did not accept the request
    pub error: Option<String>,
}

/// The report was received.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReportRequestReply {
    /// True if the report was received
    pub success: bool,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Record events of a run that an external engine decides, then perform a task for it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PerformTask {
    /// The secret of the state directory
    pub token: WorkerToken,
    /// The run
    pub run_id: String,
    /// Number of events before `events`
    #[serde(default)]
    pub from: u64,
    /// Events to be recorded first; known ones are skipped
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub events: Vec<Value>,
    /// The task
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub task: Value,
}

/// Result of a task.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PerformTaskReply {
    /// True if the task was performed
    pub success: bool,
    /// Number of recorded events
    #[serde(default)]
    pub recorded: u64,
    /// Result of the task
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
