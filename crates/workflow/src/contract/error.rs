//! Errors for initial variables that a workflow refuses.

/// Initial variables that are missing or do not match their schemas. Messages do not reveal secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid arguments, so nothing was started: {}", .violations.join("; "))]
pub struct InvalidVariables {
    /// The problems, one sentence each.
    pub violations: Vec<String>,
}
