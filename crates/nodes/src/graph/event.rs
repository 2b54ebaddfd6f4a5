//! The events of a graph's history.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_workflow::Timestamp;

use crate::node::NodeId;
use crate::outcome::ErrorType;
use crate::result::NodeResult;

/// One entry of the history of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum GraphEvent {
    /// The graph began.
    Started {
        /// Its input.
        input: Value,
    },
    /// A call of a node for a step was about to begin.
    AttemptStarted {
        /// The step.
        step: NodeId,
        /// Counted from 1; the call of a fallback is the last.
        attempt: u32,
        /// The node: the step's own, or its fallback.
        node: NodeId,
        /// Its input.
        input: Value,
    },
    /// The call ended.
    AttemptEnded {
        /// The step.
        step: NodeId,
        /// The number of the attempt.
        attempt: u32,
        /// Its outcome.
        outcome: StepOutcome,
    },
    /// The step waits for a retry.
    RetryPlanned {
        /// The step.
        step: NodeId,
        /// Time of the retry.
        due: Timestamp,
    },
    /// The time of the retry has come.
    RetryDue {
        /// The step.
        step: NodeId,
    },
    /// Another node takes over the step.
    FallbackPlanned {
        /// The step.
        step: NodeId,
    },
    /// The step has ended.
    StepEnded {
        /// The step.
        step: NodeId,
        /// The way in which it ended.
        ending: Ending,
    },
    /// The graph has ended.
    Ended {
        /// True if no step failed.
        success: bool,
    },
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum StepOutcome {
    /// The node returned a result, of whatever kind.
    Finished {
        /// The result.
        result: Box<NodeResult>,
    },
    /// The attempt took longer than it may.
    TimedOut,
    /// It is unknown whether the call happened. There is no second call.
    Unknown,
}

/// End of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// With the output of its last attempt.
    Completed,
    /// The step failed; the graph continued with an output named in its policy.
    Skipped {
        /// The output in its place.
        value: Value,
    },
    /// The step failed.
    Failed {
        /// The error message.
        error: String,
        /// Kind of the failure.
        error_type: ErrorType,
    },
    /// The step did not begin, because of a dependency.
    NotRun {
        /// The step that it depends on.
        because: NodeId,
    },
}
