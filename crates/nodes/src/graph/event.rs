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
    /// The graph started.
    Started {
        /// The input.
        input: Value,
    },
    /// A call of a node for a step is about to begin.
    AttemptStarted {
        /// The step.
        step: NodeId,
        /// Number of the attempt, starting at 1; the call of a fallback is the last.
        attempt: u32,
        /// The node: the step's own, or its fallback.
        node: NodeId,
        /// The input.
        input: Value,
    },
    /// The call finished.
    AttemptEnded {
        /// The step.
        step: NodeId,
        /// The number of the attempt.
        attempt: u32,
        /// The outcome.
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
    /// The fallback node takes over the step.
    FallbackPlanned {
        /// The step.
        step: NodeId,
    },
    /// The step has finished.
    StepEnded {
        /// The step.
        step: NodeId,
        /// The ending.
        ending: Ending,
    },
    /// The graph has finished.
    Ended {
        /// True if no step failed.
        success: bool,
    },
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum StepOutcome {
    /// The node returned a result, successful or not.
    Finished {
        /// The result.
        result: Box<NodeResult>,
    },
    /// The attempt exceeded its time limit.
    TimedOut,
    /// It is unknown whether the call happened. The call is not repeated.
    Unknown,
}

/// End of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// The step completed with the output of its last attempt.
    Completed,
    /// The step failed; the graph continued with an output from the policy.
    Skipped {
        /// The replacement output.
        value: Value,
    },
    /// The step failed.
    Failed {
        /// The error message.
        error: String,
        /// Kind of the failure.
        error_type: ErrorType,
    },
    /// The step did not run, because of a dependency.
    NotRun {
        /// The failed step that it depends on.
        because: NodeId,
    },
}
