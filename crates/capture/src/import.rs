//! Import of recordings by other programs as logs of inputs, for captures of lower trust.
//!
//! `script` and `expect`, and the reader of asciicast files, convert a recording to a [`Timeline`], and
//! [`import_recording`] converts the timeline to a log. The import infers from texts the facts that a terminal of
//! steplatch knows: the prompts of the shell, the entered lines, and the inputs without an echo (secrets). Exit codes
//! are unknown. Pure; invalid recordings never panic.
//!
//! `reader` pairs inputs with the output (`lines`), `edit` reads keys as a line editor does, `echo` finds an input in
//! the output, and `entries` writes the log, with `secrets` masked.

mod echo;
mod edit;
mod entries;
mod expect;
#[cfg(test)]
mod laws;
mod lines;
mod reader;
mod script;
mod secrets;

use serde::{Deserialize, Serialize};

pub use expect::expect_script;
pub use script::{ScriptFiles, ScriptLogs, script_files, script_recording};

use crate::OmittedInput;
use crate::session_log::SessionLog;
use reader::Reader;

/// Maximum number of entries of a log.
const MAX_ENTRIES: usize = 4096;

/// Maximum length of the text of an entry. The entry keeps both ends of a longer text.
const MAX_PRINTED_BYTES: usize = 32 << 10;

/// Event of a recorded terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimelineEvent {
    /// Output of a program.
    Output(String),
    /// Typed text, as a terminal sends it.
    Input(String),
    /// The size of the screen changed.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The program exited.
    Exit(i32),
}

/// Content of a recording by another program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The recorded command line, or an empty string for the shell.
    pub command: String,
    /// The columns and rows of the screen at the beginning, if known.
    pub size: Option<(u16, u16)>,
    /// The events, each with the seconds since the beginning.
    pub events: Vec<(f64, TimelineEvent)>,
    /// Parts of the recording that the reader does not support.
    pub omitted_inputs: Vec<OmittedInput>,
    /// Decisions that a person has to make.
    pub undecided: Vec<String>,
}

/// A log converted from a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedRecording {
    /// The log.
    pub log: SessionLog,
    /// Parts of the recording that are not in the log.
    #[serde(rename = "left_out")]
    pub omitted_inputs: Vec<OmittedInput>,
    /// Decisions that a person has to make.
    pub undecided: Vec<String>,
}

/// The screen of a recorded terminal, drawn by an emulator.
pub trait RecordedScreen {
    /// Draws output.
    fn draw(&mut self, output: &str);
    /// Changes the size.
    fn resize(&mut self, cols: u16, rows: u16);
    /// Returns the rows, top first.
    fn rows(&self) -> Vec<String>;
}

/// Converts a recording to a log. `name` is its name in replies, and `screen` is empty. The log omits typed text that
/// the output does not show.
#[must_use]
pub fn import_recording(name: &str, timeline: Timeline, screen: &mut dyn RecordedScreen) -> ImportedRecording {
    let is_shell = is_shell(&timeline.command);
    let (omitted_inputs, mut undecided) = (timeline.omitted_inputs, timeline.undecided);
    let mut reader = Reader::new(screen, timeline.size);
    if !is_shell {
        reader.start_command(&timeline.command);
    }
    for (seconds, event) in timeline.events {
        reader.add_event(seconds, event);
    }
    let recorded = reader.finish();
    if recorded.is_full {
        let sentence = format!("'{name}' has more than {MAX_ENTRIES} inputs; later inputs were ignored");
        undecided.push(sentence);
    }
    let (moments, hidden) = entries::log_entries(recorded, is_shell);
    if hidden > 0 {
        undecided.push(format!(
            "{hidden} inputs of '{name}' are not in its output, so they became secret arguments; convert those that are not secrets to plain arguments"
        ));
    }
    let shell = if is_shell { timeline.command.split_whitespace().next().unwrap_or_default() } else { "" };
    // A shell with other options may not mark its prompts.
    if is_shell && timeline.command.trim() != shell {
        let sentence =
            format!("the workflow opens its terminal with '{shell}', without the options of '{}'", timeline.command);
        undecided.push(sentence);
    }
    let shell = shell.to_owned();
    let log = SessionLog { terminal: name.to_owned(), shell, directory: String::new(), moments, is_imported: true };
    ImportedRecording { log, omitted_inputs, undecided }
}

/// Options of shells that take the next word as their value.
const OPTIONS_WITH_VALUES: [&str; 8] = ["--init-command", "--init-file", "--rcfile", "+O", "+o", "-C", "-O", "-o"];

/// Returns whether a command line starts an interactive shell. A shell that executes a file or a command is like any
/// other program.
fn is_shell(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or("bash").rsplit('/').next().unwrap_or_default();
    if !matches!(program, "bash" | "sh" | "zsh" | "dash" | "fish" | "ksh") {
        return false;
    }
    while let Some(word) = words.next() {
        let executes = match word.strip_prefix("--") {
            Some(option) => option.is_empty() || option == "command" || option.starts_with("command="),
            None => !word.starts_with(['-', '+']) || word.contains('c'),
        };
        if executes {
            return false;
        }
        if OPTIONS_WITH_VALUES.contains(&word) {
            words.next();
        }
    }
    true
}

/// Returns whether text requests a secret, typed without an echo.
fn requests_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let words = ["passw", "passphrase", "passcode", "secret", "token", "credential", "api key", "verification code"];
    words.iter().any(|word| text.contains(word))
        || text
            .split(|character: char| !character.is_alphanumeric())
            .any(|word| matches!(word, "pin" | "otp" | "cvv" | "cvc"))
}

/// Returns whether a row is the prompt of the shell, possibly in another directory.
fn is_same_prompt(prompt: &str, row: &str) -> bool {
    let (prompt, row) = (prompt.trim_end(), row.trim_end());
    let begin = |text: &str| text.split(['/', '~', ':', ' ']).next().unwrap_or_default().to_owned();
    let last_character = |text: &str| text.chars().next_back();
    prompt == row
        || last_character(prompt) == last_character(row) && begin(prompt) == begin(row) && begin(row).len() >= 2
}

fn floor_boundary(text: &str, end: usize) -> usize {
    (0..=end.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

/// Removes the middle of a long text.
fn shorten(text: &str) -> String {
    if text.len() <= MAX_PRINTED_BYTES {
        return text.to_owned();
    }
    let (head, tail) =
        (floor_boundary(text, MAX_PRINTED_BYTES / 2), floor_boundary(text, text.len() - MAX_PRINTED_BYTES / 2));
    format!("{}\n…\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
pub(crate) mod tests;
