//! A closed gate, read from the history.

use steplatch_ids::StepId;
use steplatch_workflow::{By, Timestamp};

/// A closed gate.
#[derive(Debug)]
pub(crate) struct ClosedGate {
    pub(crate) step: StepId,
    pub(crate) end: GateEnd,
}

/// End of a gate.
#[derive(Debug)]
pub(crate) enum GateEnd {
    Answered {
        at: Timestamp,
        answer: String,
        by: By,
    },
    /// The gate timed out.
    Expired,
    /// The run ended, or continued without an answer.
    Other,
}
