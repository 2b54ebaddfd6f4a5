//! The continuations of a run after the end of a state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::StepId;

use super::{Choice, FailureReason, Purpose};

/// The branch that a run takes from a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Branch {
    /// The run continues in another state.
    Go {
        /// The next state.
        to: String,
        /// The reason, as text.
        because: String,
    },
    /// The run completes.
    Complete,
    /// The run fails.
    Fail {
        /// The kind of failure.
        reason: FailureReason,
        /// The error.
        error: String,
    },
}

/// A continuation that is deferred until the end of a pause.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Continuation {
    /// Leave a state.
    Leave {
        /// The state.
        from: String,
        /// The branch that the run takes.
        #[serde(rename = "way")]
        branch: Branch,
    },
    /// Open a gate that decides the next state.
    Judge {
        /// The step whose end is judged.
        step: StepId,
        /// The choices.
        choices: Vec<Choice>,
        /// Branch to take if the answer is that no choice holds.
        otherwise: Branch,
        /// Basis of the answer.
        context: Map<String, Value>,
    },
    /// Continue after an answer of the shell.
    Contract {
        /// Purpose of the request.
        purpose: Purpose,
        /// The variables with values from the answer.
        learned: BTreeMap<String, String>,
        /// The error, if the shell was not available.
        error: Option<String>,
        /// The variables that were requested.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        read: Vec<String>,
        /// The next state if the contract holds; `None` if the run then completes.
        then: Option<String>,
    },
}
