//! Reasons why a terminal takes nothing, whatever is requested.

use serde::{Deserialize, Serialize};

/// The terminal has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the terminal was closed")]
pub struct TerminalClosed;

/// Says what of a terminal differs from the time of a question.
pub(crate) fn changed(what: &str) -> String {
    format!(
        "the terminal is not as it was when a person was asked, so what they approved was not typed; since the question has changed: \
         {what}"
    )
}
