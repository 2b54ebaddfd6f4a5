//! The start and the progress of an execution.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::failure::Failure;

/// The initial values of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Id of the workflow or function node.
    pub id: String,
    /// Value of `ctx.input`.
    pub input: Value,
    /// Value of `ctx.params`.
    pub params: Map<String, Value>,
    /// Start time of the owner of the execution, in seconds since 1970 in UTC: `created_at` of declarations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}

/// The result of the start, of an answer, or of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The calls and the output, in order. Record them before performing any of them.
    pub calls: Vec<Call>,
    /// Calls whose answers are no longer awaited: a call gathered with them failed, or the execution was cancelled or
    /// has ended.
    pub abandoned: Vec<u64>,
    /// The current state.
    pub state: State,
}

/// The state of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The function waits for at least one of the answers to these calls, in order.
    Waiting(Vec<u64>),
    /// The function returned this value.
    Completed(Value),
    /// The function failed.
    Failed(Failure),
}
