//! Commands that only read, by the user's list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Run one command of the user's list of commands that only read, without a shell, and return what it printed.
/// Pipes, redirections and variables are no part of a command; use run_command for them.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReadCommand {
    /// Program and arguments, such as ["git", "status"]
    pub command: Vec<String>,
    /// Directory to run it in
    pub working_directory: Option<String>,
    /// Seconds until the command is ended
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 0.1, max = 60.0))]
    pub timeout: f64,
}

fn default_timeout() -> f64 {
    10.0
}

/// Result of a command that only reads.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadCommandReply {
    /// True if the command ended by itself, even with an exit code other than 0
    pub success: bool,
    /// Text of its standard output, or the beginning if omitted_bytes is given
    #[serde(default)]
    pub output: String,
    /// Text of its standard error
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_output: String,
    /// Exit code; absent if a signal ended it
    pub exit_code: Option<i32>,
    /// Number of bytes that both texts lack at their ends
    pub omitted_bytes: Option<u64>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}
