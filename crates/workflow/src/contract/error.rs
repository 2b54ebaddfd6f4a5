//! Why a workflow does not take the variables that it is started with.

/// Initial variables that do not fit their schemas. Values of secrets are not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid arguments, so nothing was started: {}", .violations.join("; "))]
pub struct InvalidVariables {
    /// Each variable with its value and what is wrong with that.
    pub violations: Vec<String>,
}
