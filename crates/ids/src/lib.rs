//! Names of the things that outlive a call: runs, terminals, steps, workflows.
//!
//! Owns how an id looks, how it is made and how it is read back; nothing else.
//! Ids are parsed once, at the border, so that a `RunId` deeper inside is
//! always a well-formed one. Random ids are unguessable only as a courtesy:
//! who may use them is decided by who can reach the socket.

mod random;
mod step;
mod workflow_name;

pub use random::{RunId, TerminalId, random_name};
pub use step::StepId;
pub use workflow_name::WorkflowName;

/// Why a text is not the id that it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

impl InvalidId {
    fn new(text: &str, expected: &'static str) -> Self {
        // An id that is a megabyte of garbage should not make a megabyte of error.
        Self { text: text.chars().take(80).collect(), expected }
    }
}
