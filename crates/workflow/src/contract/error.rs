//! Reasons that a workflow does not take the variables that it is started with.

/// Initial variables that do not fit their schemas, and those that are missing. Values of secrets are not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid arguments, so nothing was started: {}", .violations.join("; "))]
pub struct InvalidVariables {
    /// The problems, one sentence each.
    pub violations: Vec<String>,
}
