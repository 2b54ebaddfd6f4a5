//! The ways on from the end of a state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::StepId;

use super::{Choice, FailureReason, Purpose};

/// The way that a run takes from a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Branch {
    /// To another state.
    Go {
        /// The next state.
        to: String,
        /// The reason, in words.
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

/// A decision that waits for the end of a pause.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Continuation {
    /// Leave a state.
    Leave {
        /// The state.
        from: String,
        /// The way that the run takes.
        way: Branch,
    },
    /// A gate has to decide where a state leads.
    Judge {
        /// The step with the end to judge.
        step: StepId,
        /// The choices.
        choices: Vec<Choice>,
        /// Branch to take if the answer is that none of them holds.
        otherwise: Branch,
        /// Basis of the answer.
        context: Map<String, Value>,
    },
    /// The shell answered.
    Contract {
        /// Purpose of the request.
        purpose: Purpose,
        /// The variables with a known value now.
        learned: BTreeMap<String, String>,
        /// The error, if the shell was not available.
        error: Option<String>,
        /// The variables that it was to report.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        read: Vec<String>,
        /// The next state when the contract holds; none when the run is complete then.
        then: Option<String>,
    },
}
