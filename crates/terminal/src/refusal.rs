//! Reasons why a terminal refuses any request.

use serde::{Deserialize, Serialize};

/// The terminal has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the terminal was closed")]
pub struct TerminalClosed;

/// Returns the error text for a terminal that has changed since a person approved an input.
pub(crate) fn changed(what: &str) -> String {
    format!(
        "the terminal is not as it was when a person was asked, so what they approved was not typed; since the question has changed: \
         {what}"
    )
}
