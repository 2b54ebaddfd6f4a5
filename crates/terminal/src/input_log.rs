//! The requests to a terminal, in order: typed input, commands, waits, sizes and signals.
//!
//! Captures are made from this log. Each entry has its position in the output and the program's context at that time.
//! Hidden input is recorded without its value. The log is bounded and drops its oldest entries.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::command::{CommandResult, RunError};
use crate::screen::Size;
use crate::wait::Reason;

/// Maximum number of entries.
const MAX_ENTRIES: usize = 4096;

/// Maximum total size of the entries in bytes, counting the capacity of each allocation. Allocator fragmentation
/// measured up to 40 % on top, so a log stays below 1 MiB.
const MAX_LOG_BYTES: usize = 640 << 10;

/// Allocator overhead of one allocation: header and rounding.
const ALLOCATION_BYTES: usize = 16;

/// Size of an entry without its strings, including its slot in the log.
const ENTRY_BYTES: usize = size_of::<LoggedInput>() + ALLOCATION_BYTES + size_of::<Box<LoggedInput>>();

/// Maximum size of one string, in bytes. Longer strings are truncated, see [`LoggedText::cut`].
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Keys that end a line or its program: Enter, Ctrl-C, Ctrl-D, Ctrl-Z, Ctrl-\\.
const LINE_ENDS: [char; 5] = ['\r', '\x03', '\x04', '\x1a', '\x1c'];

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedInput {
    /// Sequence number, from 1. Numbers of dropped entries are not reused.
    pub number: u64,
    /// Time of the request.
    #[serde(rename = "at")]
    pub time: SystemTime,
    /// The name of the client or run, if known.
    #[serde(rename = "by")]
    pub client: Option<String>,
    /// The end of the output at that moment.
    pub offset: u64,
    /// State of the foreground program.
    pub context: InputContext,
    /// The rows of the screen without trailing empty ones, for full-screen programs and programs that draw in
    /// place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// The highlighted texts of the screen, from top to bottom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<String>,
    /// True if the program was waiting for input. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited: Option<bool>,
    /// True if the program read whole lines from the terminal or a line editor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_lines: bool,
    /// The directory of the shell that was at its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Duration of a command, once it has ended.
    #[serde(rename = "took", default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// The request.
    pub action: LoggedAction,
}

/// A terminal at the moment of an entry.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// The end of the output.
    pub(crate) offset: u64,
    pub(crate) context: InputContext,
    pub(crate) screen: Option<String>,
    pub(crate) highlighted: Vec<String>,
    pub(crate) awaited: Option<bool>,
    pub(crate) reads_lines: bool,
    pub(crate) directory: Option<String>,
}

/// State of the foreground program at an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputContext {
    /// A shell that reports its prompts was at its prompt.
    Prompt,
    /// A program used the whole screen.
    FullScreen,
    /// A program read a line without echoing it.
    Password {
        /// The row of the cursor, up to the cursor.
        row: String,
    },
    /// A program was in the foreground.
    Program {
        /// The row of the cursor, up to the cursor: the question, if there is one.
        row: String,
    },
}

/// Text in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedText {
    /// The text, or its beginning.
    pub text: String,
    /// True if its end is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl From<&str> for LoggedText {
    fn from(text: &str) -> Self {
        let end = crate::history::floor_char_boundary(text, text.len().min(MAX_TEXT_BYTES));
        Self { text: text[..end].to_owned(), cut: end < text.len() }
    }
}

/// A request to a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoggedAction {
    /// Typed text, and keys after it.
    Typed {
        /// The text.
        text: LoggedText,
        /// The keys, by name.
        keys: Vec<String>,
    },
    /// Bytes typed in an attached terminal, as text.
    Attached {
        /// The bytes, at most one line.
        bytes: LoggedText,
    },
    /// Typed input that the program does not show.
    Hidden {
        /// True if the input ends with Enter.
        entered: bool,
    },
    /// A command, and the wait for its end.
    Command {
        /// The command.
        command: LoggedText,
        /// The directory that the shell changed to before it.
        directory: Option<String>,
        /// Outcome of the command; `None` while it runs.
        outcome: Option<CommandOutcome>,
    },
    /// A shell accepted a line typed at its prompt.
    Entered {
        /// The line as shown by the shell's editor, after completion and history expansion. `None` if a part of it
        /// is hidden.
        line: Option<LoggedText>,
        /// Outcome of the command; `None` while it runs.
        outcome: Option<CommandOutcome>,
    },
    /// A wait for output, or for the prompt.
    Waited {
        /// The patterns.
        patterns: Vec<String>,
        /// Reason why the wait ended.
        reason: Reason,
        /// The pattern that matched, from 0, and its match.
        matched: Option<(usize, LoggedText)>,
        /// The end of the match, or of the output.
        until: u64,
    },
    /// A new size.
    Resized(Size),
    /// A signal to the program.
    Signalled(i32),
}

/// Outcome of a command of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandOutcome {
    /// The command ended. The offsets delimit its output.
    Ended {
        /// The exit code.
        exit_code: Option<i32>,
        /// Start offset of its output.
        begin: u64,
        /// End offset of its output.
        end: u64,
    },
    /// The command requested input or exceeded its time limit, and kept running.
    Left {
        /// True if the command requested input.
        asked: bool,
        /// Start offset of its output.
        begin: u64,
    },
    /// The command was not run.
    Refused(String),
}

impl CommandOutcome {
    pub(crate) fn from_result(result: &Result<CommandResult, RunError>) -> Self {
        match result {
            Err(error) => Self::Refused(error.to_string()),
            Ok(result) if result.asks.is_some() || result.timed_out => {
                Self::Left { asked: result.asks.is_some(), begin: result.offset }
            }
            Ok(result) => Self::Ended { exit_code: result.exit_code, begin: result.offset, end: result.end },
        }
    }
}

/// Returns the heap size of a string, in bytes.
fn text_bytes(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { text.capacity() + ALLOCATION_BYTES }
}

fn list_bytes(texts: &Vec<String>) -> usize {
    let slots = if texts.capacity() == 0 { 0 } else { texts.capacity() * size_of::<String>() + ALLOCATION_BYTES };
    slots + texts.iter().map(text_bytes).sum::<usize>()
}

fn optional_bytes(text: Option<&String>) -> usize {
    text.map_or(0, text_bytes)
}

impl CommandOutcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Refused(error) => text_bytes(error),
            Self::Ended { .. } | Self::Left { .. } => 0,
        }
    }
}

impl LoggedAction {
    /// Returns the heap size of its texts, in bytes.
    fn bytes(&self) -> usize {
        let outcome_bytes = |outcome: &Option<CommandOutcome>| outcome.as_ref().map_or(0, CommandOutcome::bytes);
        match self {
            Self::Typed { text, keys } => text_bytes(&text.text) + list_bytes(keys),
            Self::Attached { bytes } => text_bytes(&bytes.text),
            Self::Command { command, directory, outcome } => {
                text_bytes(&command.text) + optional_bytes(directory.as_ref()) + outcome_bytes(outcome)
            }
            Self::Entered { line, outcome } => {
                optional_bytes(line.as_ref().map(|line| &line.text)) + outcome_bytes(outcome)
            }
            Self::Waited { patterns, matched, .. } => {
                list_bytes(patterns) + optional_bytes(matched.as_ref().map(|(_, text)| &text.text))
            }
            Self::Hidden { .. } | Self::Resized(_) | Self::Signalled(_) => 0,
        }
    }
}

impl LoggedInput {
    /// Returns the memory that the entry takes, in bytes.
    fn bytes(&self) -> usize {
        let texts = [&self.client, &self.screen, &self.directory];
        let texts: usize = texts.into_iter().map(|text| optional_bytes(text.as_ref())).sum();
        ENTRY_BYTES + texts + self.context.bytes() + self.action.bytes()
    }
}

impl InputContext {
    fn bytes(&self) -> usize {
        match self {
            Self::Password { row } | Self::Program { row } => text_bytes(row),
            Self::Prompt | Self::FullScreen => 0,
        }
    }
}

/// The log of one terminal.
#[derive(Debug, Default)]
pub(crate) struct InputLog {
    /// Boxed, so that the spare capacity of a grown queue costs a pointer per slot.
    entries: VecDeque<Box<LoggedInput>>,
    bytes: usize,
    /// The number of the newest entry.
    newest: u64,
    /// True if the log takes no entries.
    is_off: bool,
}

impl InputLog {
    /// Creates an empty log. It takes entries only if `is_on` is true.
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_off: !is_on, ..Self::default() }
    }

    /// Returns whether the log takes no entries.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    /// Adds an entry and returns its number. Attached keystrokes are merged into one entry per line.
    pub(crate) fn add(&mut self, client: Option<&str>, moment: Moment, action: LoggedAction) -> u64 {
        if let Some(number) = self.continue_line(client, &moment.context, &action) {
            return number;
        }
        self.newest += 1;
        let Moment { offset, context, screen, highlighted, awaited, reads_lines, directory } = moment;
        let (number, time, client) = (self.newest, SystemTime::now(), client.map(str::to_owned));
        let entry = LoggedInput {
            number,
            time,
            client,
            offset,
            context,
            screen,
            highlighted,
            awaited,
            reads_lines,
            directory,
            duration: None,
            action,
        };
        self.bytes += entry.bytes();
        self.entries.push_back(Box::new(entry));
        self.drop_oldest();
        number
    }

    /// Drops the oldest entries beyond the limits.
    fn drop_oldest(&mut self) {
        while self.entries.len() > MAX_ENTRIES || (self.bytes > MAX_LOG_BYTES && self.entries.len() > 1) {
            if let Some(dropped) = self.entries.pop_front() {
                self.bytes -= dropped.bytes();
            }
        }
    }

    /// Returns whether the newest entry is hidden input.
    pub(crate) fn ends_hidden(&self) -> bool {
        self.entries.back().is_some_and(|newest| matches!(newest.action, LoggedAction::Hidden { .. }))
    }

    /// Appends attached bytes, or a hidden part of a line, to the newest entry if that entry begins the same line. Returns
    /// the number of the entry.
    pub(crate) fn continue_line(
        &mut self,
        client: Option<&str>,
        context: &InputContext,
        action: &LoggedAction,
    ) -> Option<u64> {
        let is_same = |previous: &InputContext| std::mem::discriminant(previous) == std::mem::discriminant(context);
        // Resizes and waits are not input, because the line continues after them.
        let is_input = |entry: &&mut Box<LoggedInput>| {
            !matches!(entry.action, LoggedAction::Resized(_) | LoggedAction::Waited { .. })
        };
        let newest = self.entries.iter_mut().rev().find(is_input);
        let newest = newest.filter(|newest| newest.client.as_deref() == client && is_same(&newest.context))?;
        match (&mut newest.action, action) {
            (LoggedAction::Attached { bytes: line }, LoggedAction::Attached { bytes })
                if !line.cut
                    && !line.text.ends_with(LINE_ENDS)
                    && line.text.len() + bytes.text.len() <= MAX_TEXT_BYTES =>
            {
                let before = text_bytes(&line.text);
                line.text.push_str(&bytes.text);
                line.cut = bytes.cut;
                self.bytes += text_bytes(&line.text) - before;
            }
            (LoggedAction::Hidden { entered: line }, LoggedAction::Hidden { entered }) if !*line => *line = *entered,
            _ => return None,
        }
        let number = newest.number;
        self.drop_oldest();
        Some(number)
    }

    /// Records the outcome of an entry's command, unless the entry was dropped.
    pub(crate) fn finish(&mut self, number: u64, new_outcome: CommandOutcome) {
        let oldest = self.entries.front().map_or(0, |entry| entry.number);
        let index = number.checked_sub(oldest).and_then(|index| usize::try_from(index).ok());
        let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) else { return };
        if let LoggedAction::Command { outcome, .. } | LoggedAction::Entered { outcome, .. } = &mut entry.action {
            self.bytes += new_outcome.bytes();
            self.bytes -= outcome.as_ref().map_or(0, CommandOutcome::bytes);
            *outcome = Some(new_outcome);
            entry.duration = entry.time.elapsed().ok();
        }
        self.drop_oldest();
    }

    /// Returns the entries with this number and higher.
    pub(crate) fn from(&self, number: u64) -> Vec<LoggedInput> {
        self.entries.iter().filter(|entry| entry.number >= number).map(|entry| LoggedInput::clone(entry)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> LoggedAction {
        LoggedAction::Typed { text: text.into(), keys: Vec::new() }
    }

    fn at(offset: u64) -> Moment {
        Moment {
            offset,
            context: InputContext::Prompt,
            screen: None,
            highlighted: Vec::new(),
            awaited: None,
            reads_lines: false,
            directory: None,
        }
    }

    fn attached(text: &str) -> LoggedAction {
        LoggedAction::Attached { bytes: text.into() }
    }

    #[test]
    fn oldest_entries_are_dropped() {
        let mut log = InputLog::default();
        for number in 0..MAX_ENTRIES as u64 + 10 {
            log.add(None, at(number), typed("ls\n"));
        }
        let entries = log.from(0);
        let left_out = MAX_ENTRIES as u64 + 10 - entries.len() as u64;
        assert_eq!(entries[0].number, left_out + 1);
        assert!(entries.len() > MAX_ENTRIES / 2, "{}", entries.len());
        for _ in 0..40 {
            log.add(None, at(0), typed(&"x".repeat(2 * MAX_TEXT_BYTES)));
        }
        let bytes: usize = log.entries.iter().map(|entry| entry.bytes()).sum();
        assert!(bytes <= MAX_LOG_BYTES && log.bytes == bytes, "{bytes} {}", log.bytes);
        let LoggedAction::Typed { text, .. } = &log.from(0)[0].action else { panic!("typed") };
        assert!(text.cut && text.text.len() == MAX_TEXT_BYTES);
    }

    #[test]
    fn keys_count_towards_the_size_limit() {
        let mut log = InputLog::default();
        for _ in 0..100 {
            let keys = vec!["up".to_owned(); 1000];
            log.add(None, at(0), LoggedAction::Typed { text: "".into(), keys });
        }
        // A key has a place in the list and its own allocation.
        let max_entries = MAX_LOG_BYTES / (1000 * (size_of::<String>() + ALLOCATION_BYTES));
        assert!(log.from(0).len() <= max_entries, "{}", log.from(0).len());
        for piece in ["x".repeat(40_000), "y".repeat(20_000)] {
            log.add(None, at(0), attached(&piece));
        }
        assert_eq!(log.bytes, log.entries.iter().map(|entry| entry.bytes()).sum::<usize>());
    }

    #[test]
    fn keys_form_one_entry_per_line() {
        let mut log = InputLog::default();
        for keys in ["l", "s", "\r", "p", "wd\r"] {
            log.add(Some("ana"), at(0), attached(keys));
        }
        log.add(Some("bob"), at(0), attached("x"));
        for entered in [false, false, true, false] {
            log.add(Some("bob"), at(0), LoggedAction::Hidden { entered });
        }
        let actions: Vec<LoggedAction> = log.from(1).into_iter().map(|entry| entry.action).collect();
        let hidden = |entered| LoggedAction::Hidden { entered };
        assert_eq!(actions, [attached("ls\r"), attached("pwd\r"), attached("x"), hidden(true), hidden(false)]);
    }

    #[test]
    fn line_continues_after_a_resize_and_a_wait() {
        let mut log = InputLog::default();
        let wait =
            || LoggedAction::Waited { patterns: vec!["x".to_owned()], reason: Reason::Match, matched: None, until: 0 };
        log.add(Some("ana"), at(0), attached("ec"));
        log.add(None, at(0), LoggedAction::Resized(Size { cols: 90, rows: 30 }));
        log.add(Some("ana"), at(0), attached("ho"));
        log.add(Some("run"), at(0), wait());
        log.add(Some("ana"), at(0), attached(" hi\r"));
        log.add(None, at(0), LoggedAction::Resized(Size { cols: 80, rows: 24 }));
        log.add(Some("ana"), at(0), attached("ls\r"));
        let typed: Vec<String> = log
            .from(1)
            .into_iter()
            .filter_map(|entry| match entry.action {
                LoggedAction::Attached { bytes } => Some(bytes.text),
                _ => None,
            })
            .collect();
        assert_eq!(typed, ["echo hi\r", "ls\r"]);
    }

    #[test]
    fn outcome_of_a_command_is_recorded_in_its_entry() {
        let mut log = InputLog::default();
        let command = |outcome| LoggedAction::Command { command: "make".into(), directory: None, outcome };
        let number = log.add(None, at(0), command(None));
        log.add(None, at(0), typed("x"));
        let ended = CommandOutcome::Ended { exit_code: Some(2), begin: 5, end: 9 };
        log.finish(number, ended.clone());
        log.finish(99, ended.clone());
        assert_eq!(log.from(number)[0].action, command(Some(ended)));
    }
}
