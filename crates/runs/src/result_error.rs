//! Errors about missing results of finished runs.

use steplatch_ids::RunId;

use crate::engine::StartError;
use crate::event::Unreadable;

/// Error about a run's unknown return value, as the rest of a sentence about the run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultError {
    /// The history is unreadable.
    #[error("has finished, but its result cannot be read: {0}")]
    Unreadable(#[from] Unreadable),
    /// The history contains no result.
    #[error("has no result")]
    NoResult,
}

/// Reason for the missing result of a run that is a call of a node. The engine does not repeat the call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallResultError {
    /// A client cancelled the run.
    #[error("It was cancelled (run {run}).")]
    Cancelled {
        /// The run.
        run: RunId,
    },
    /// The call failed, with the recorded error if there is one.
    #[error("{}", .error.clone().unwrap_or_else(|| format!("It failed (run {run}).")))]
    Failed {
        /// The run.
        run: RunId,
        /// The recorded error.
        error: Option<String>,
    },
    /// The result is unreadable.
    #[error("Run {run} {cause}.")]
    Unreadable {
        /// The run.
        run: RunId,
        /// The reason.
        #[source]
        cause: ResultError,
    },
    /// The result is not the result of a node.
    #[error("Run {run} has no result: {cause}.")]
    Invalid {
        /// The run.
        run: RunId,
        /// Parser's error about the result.
        #[source]
        cause: serde_json::Error,
    },
}

impl CallResultError {
    /// Returns the run.
    pub(crate) fn run(&self) -> &RunId {
        match self {
            Self::Cancelled { run }
            | Self::Failed { run, .. }
            | Self::Unreadable { run, .. }
            | Self::Invalid { run, .. } => run,
        }
    }

    /// Returns the `error_type` of the reply to the call.
    pub(crate) fn error_type(&self) -> &'static str {
        match self {
            Self::Cancelled { .. } => "interrupted",
            Self::Failed { .. } => "exception",
            Self::Unreadable { .. } | Self::Invalid { .. } => "unknown",
        }
    }
}

/// Reason for the missing result of a call of a node that makes calls itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeCallError {
    /// The run did not start. The engine can repeat the call.
    #[error(transparent)]
    NotStarted(#[from] StartError),
    /// The run has no result.
    #[error(transparent)]
    NoResult(#[from] CallResultError),
}
