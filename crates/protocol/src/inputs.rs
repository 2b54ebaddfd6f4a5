//! The verb that reads the log of a terminal's inputs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Read the log of a terminal's inputs: text and who typed it, commands, waits, sizes and signals. Secrets, and text
/// that a program did not show, are left out.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadInputs {
    /// Terminal to read
    pub session_id: String,
    /// Number of the first entry (default: the oldest)
    pub from: Option<u64>,
    /// Maximum number of entries, the newest ones (default: all)
    pub limit: Option<u32>,
}

/// Inputs of a terminal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReadInputsReply {
    /// True if the terminal exists
    pub success: bool,
    /// Id of the terminal, even if the request has its name
    #[serde(default)]
    pub session_id: String,
    /// The entries, oldest first
    #[serde(default)]
    pub inputs: Vec<InputRecord>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// Text and keys were typed
    #[default]
    Typed,
    /// A person typed a line in an attached terminal
    Attached,
    /// Hidden text was typed
    Hidden,
    /// A command was run
    Command,
    /// The shell accepted a line typed at its prompt
    Entered,
    /// Output was waited for
    Wait,
    /// The size was changed
    Resize,
    /// A signal was sent
    Signal,
}

/// An entry of the log of inputs.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputRecord {
    /// Number of the entry; numbers of dropped entries are missing
    pub number: u64,
    /// Time (ISO 8601, UTC)
    pub timestamp: String,
    /// The client or run that made the input
    pub by: Option<String>,
    /// End of the output at that time
    pub offset: u64,
    /// State of the screen: prompt, program, password or full_screen
    pub context: String,
    /// Text of the cursor's row up to the cursor: the question of a program
    pub row: Option<String>,
    /// Rows of the screen that received the input, if the program draws in place or uses the full screen
    pub screen: Option<String>,
    /// Highlighted texts on that screen, such as the selected entry
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<String>,
    /// True if the program read whole lines at that time
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_lines: bool,
    /// True if the program waited for input at that time, if known
    pub awaited: Option<bool>,
    /// Directory of the shell at its prompt
    pub directory: Option<String>,
    /// Kind of the input
    pub kind: InputKind,
    /// The text, the command, or the line as the shell's editor showed it
    pub text: Option<String>,
    /// True if the end of the text is missing
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Keys that were pressed after the text
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Working directory of the command
    pub working_directory: Option<String>,
    /// End of a wait or a command: match, prompt, input, quiet, exit, timeout; ended, asked, refused, running
    pub reason: Option<String>,
    /// Seconds that the command took
    pub elapsed_time: Option<f64>,
    /// Exit code of the command
    pub exit_code: Option<i32>,
    /// The patterns of a wait
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The pattern that matched
    pub pattern: Option<String>,
    /// Text that the pattern matched
    pub match_text: Option<String>,
    /// Position at which the output of the command begins
    pub output_begin: Option<u64>,
    /// Position at which the output of the command, or the match of the wait, ends
    pub output_end: Option<u64>,
    /// Columns of the new size
    pub cols: Option<u16>,
    /// Rows of the new size
    pub rows: Option<u16>,
    /// Number of the signal
    pub signal: Option<i32>,
    /// Error that prevented the command
    pub error: Option<String>,
}
