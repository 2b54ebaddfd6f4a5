//! Names of the things that outlive a call: runs, terminals, steps, workflows.
//!
//! Owns the form of ids, how they are made and how they are parsed; nothing else. Ids are parsed once, where they enter
//! the program, so that a `RunId` is always well formed. Random ids are hard to guess, but are not access control:
//! access is decided by who can reach the socket.

mod random;
mod step;
mod workflow_name;

pub use random::{RunId, TerminalId, random_name};
pub use step::StepId;
pub use workflow_name::WorkflowName;

/// Reason why a text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

impl InvalidId {
    fn new(text: &str, expected: &'static str) -> Self {
        // A megabyte of garbage as an id should not make a megabyte of error.
        Self { text: text.chars().take(80).collect(), expected }
    }
}
