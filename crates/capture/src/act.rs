//! Actions of the person or agent in a captured session, and the kinds of their inputs.

use steplatch_protocol::{InputKind, InputRecord};

/// Action of a person or an agent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// A command that needed no input.
    Command { command: String, directory: Option<String>, exit_code: Option<i32>, output: String },
    /// Typed text, and keys after it.
    Typed { text: String, keys: Vec<String> },
    /// Text typed without an echo, after this row.
    Hidden { entered: bool, row: String },
}

/// Returns whether an input was typed into a program or a shell.
pub(crate) fn is_typed(input: &InputRecord) -> bool {
    matches!(input.kind, InputKind::Typed | InputKind::Attached | InputKind::Hidden)
}

/// Returns whether an input was typed, or is a command of `run_command`.
pub(crate) fn is_input(input: &InputRecord) -> bool {
    is_typed(input) || input.kind == InputKind::Command
}

/// Returns whether an input was typed at the prompt of a shell.
pub(crate) fn is_at_prompt(input: &InputRecord) -> bool {
    input.context == "prompt"
}
