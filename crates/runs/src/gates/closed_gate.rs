//! A gate that waits no longer, as the history has it.

use steplatch_ids::StepId;
use steplatch_workflow::{By, Timestamp};

/// A gate that waits no longer.
#[derive(Debug)]
pub(crate) struct ClosedGate {
    pub(crate) step: StepId,
    pub(crate) end: GateEnd,
}

/// How a gate ended.
#[derive(Debug)]
pub(crate) enum GateEnd {
    Answered {
        at: Timestamp,
        answer: String,
        by: By,
    },
    /// Its time was up.
    Expired,
    /// The run ended, or went on without it.
    Other,
}
