//! Reasons that a workflow does not take its initial variables.

/// Initial variables that do not fit their schemas, and those that are missing. Messages have no values of secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid arguments, so nothing was started: {}", .violations.join("; "))]
pub struct InvalidVariables {
    /// The problems, one sentence each.
    pub violations: Vec<String>,
}
