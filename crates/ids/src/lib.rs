//! Persistent names of runs, terminals, steps and workflows.
//!
//! Owns the format of ids, their creation and their parsing. Ids are parsed once, at the edge of the program, so that a
//! `RunId` is always well formed. Random ids are hard to guess, but they are not access control, because the
//! permissions of the socket are.

mod random;
mod step;
mod workflow_name;

pub use random::{RunId, TerminalId, random_name};
pub use step::StepId;
pub use workflow_name::WorkflowName;

/// Error for a string that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

impl InvalidId {
    fn new(text: &str, expected: &'static str) -> Self {
        // Truncate long input, so that the error stays short.
        Self { text: text.chars().take(80).collect(), expected }
    }
}
