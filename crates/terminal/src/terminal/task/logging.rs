//! Entries that the task writes into the log of inputs.

use std::ops::Range;

use super::{LoggedWait, PendingWait, Task};
use crate::command::{CommandRequest, CommandResult, RunError};
use crate::history::Zone;
use crate::input_log::{CommandOutcome, InputContext, LoggedAction, Moment};
use crate::lines::settled;
use crate::process::Discipline;
use crate::screen::styled_rows;
use crate::terminal::Input;
use crate::transcript::{Mark, OffsetMark};
use crate::wait::{PatternMatch, Reason};

/// Maximum number of characters of a question in an entry.
const MAX_ROW_CHARS: usize = 400;

/// Maximum number of rows of a screen whose styles an entry contains.
const MAX_ROWS: usize = 100;

/// Maximum number of characters of a screen in an entry.
const MAX_SCREEN_CHARS: usize = 8192;

/// Maximum length of a line that a shell has read and of its prompt, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;

impl Task {
    /// Returns the state of the foreground program. `hides_input` is true if it reads without an echo.
    pub(super) fn input_context(&self, hides_input: bool) -> InputContext {
        let row = || self.row_before_cursor().chars().take(MAX_ROW_CHARS).collect();
        if self.intake.screen.modes().alternate_screen {
            InputContext::FullScreen
        } else if hides_input {
            InputContext::Password { row: row() }
        } else if self.shell.is_reporting() && self.shell.is_idle() {
            InputContext::Prompt
        } else {
            InputContext::Program { row: row() }
        }
    }

    pub(super) fn log_input(&mut self, by: Option<&str>, context: InputContext, action: LoggedAction) -> u64 {
        if self.inputs.is_off() {
            return 0;
        }
        // The moment of a line is that of its first key. Reading it for the others would delay their echo.
        if let Some(number) = self.inputs.continue_line(by, &context, &action) {
            return number;
        }
        let offset = self.intake.transcript.history().end();
        let is_typed = matches!(action, LoggedAction::Typed { .. } | LoggedAction::Hidden { .. });
        let has_screen = match &context {
            InputContext::FullScreen => is_typed,
            InputContext::Program { row } => is_typed && self.draws_in_place(row, &action),
            InputContext::Prompt | InputContext::Password { .. } => false,
        };
        // The program draws its own cursor elsewhere, so the row of the terminal's cursor is not its question.
        let has_own_cursor = has_screen && !is_selection_key(&action) && !self.intake.screen.cursor().visible;
        let context = match context {
            InputContext::Program { .. } if has_own_cursor => InputContext::Program { row: String::new() },
            context => context,
        };
        let screen = has_screen.then(|| self.truncated_screen());
        let highlighted = if has_screen { styled_rows(&self.intake.screen.picture(), 0..MAX_ROWS) } else { Vec::new() };
        let is_asked = matches!(context, InputContext::Program { .. } | InputContext::Password { .. });
        let awaited = if is_typed && is_asked { self.input_state().awaits() } else { None };
        let enters = !matches!(action, LoggedAction::Waited { .. } | LoggedAction::Entered { .. });
        let directory = if enters && context == InputContext::Prompt { self.directory() } else { None };
        let reads_lines = is_typed
            && matches!(context, InputContext::Program { .. })
            && self.pty.line_discipline().is_some_and(Discipline::reads_lines);
        let moment = Moment { offset, context, screen, highlighted, awaited, reads_lines, directory };
        self.inputs.add(by, moment, action)
    }

    /// Returns whether an input goes to rows that the program draws in place.
    ///
    /// A program that reads keys draws in place if the input is a key that may select a row, the program draws its own
    /// cursor, or the cursor's row `row` is not the end of the printed text. A program that reads lines draws in place
    /// if there is text below the cursor.
    fn draws_in_place(&self, row: &str, action: &LoggedAction) -> bool {
        match self.pty.line_discipline() {
            None => return false,
            Some(now) if now.whole_lines => {
                let rows = self.intake.screen.text().lines().count();
                return rows > usize::from(self.intake.screen.cursor().row) + 1;
            }
            Some(_) => {}
        }
        let printed = settled(self.intake.transcript.history().open_line());
        // Ignore spaces, because the screen shows a tab as spaces.
        let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
        is_selection_key(action)
            || !self.intake.screen.cursor().visible
            || !without_blanks(&printed).ends_with(&without_blanks(row))
    }

    fn truncated_screen(&self) -> String {
        let screen = self.intake.screen.text();
        screen.trim_end().chars().take(MAX_SCREEN_CHARS).collect()
    }

    /// Logs a line that the shell reads, and the outcome of its command. A command of a request has its own entry.
    pub(super) fn log_mark(&mut self, offset_mark: &OffsetMark) {
        if self.inputs.is_off() {
            return;
        }
        match offset_mark.mark {
            Mark::CommandStarted
                if self.running.is_none() && self.typed_line.is_none() && self.exchanging.is_none() =>
            {
                let line = (!self.inputs.ends_hidden()).then(|| self.line_before(offset_mark.offset).as_str().into());
                let context = InputContext::Prompt;
                let number = self.log_input(None, context, LoggedAction::Entered { line, outcome: None });
                self.entered = Some((number, offset_mark.offset));
            }
            Mark::CommandEnded(exit_code) => {
                if let Some((number, begin)) = self.entered.take() {
                    let outcome = CommandOutcome::Ended { exit_code, begin, end: offset_mark.offset };
                    self.inputs.finish(number, outcome);
                }
            }
            _ => {}
        }
    }

    /// Returns the line that ends at an offset, as shown by the shell's editor.
    fn line_before(&self, offset: u64) -> String {
        let history = self.intake.transcript.history();
        let (mut prompt, mut line) = (None, None);
        for (range, zone) in history.zones(offset.saturating_sub(MAX_LINE_BYTES)..offset) {
            match zone {
                Zone::Prompt => prompt = Some(range),
                Zone::Input => line = Some(range),
                Zone::Output | Zone::Alternate => {}
            }
        }
        let text = |range: Option<Range<u64>>| range.map(|range| history.read(range).1).unwrap_or_default();
        let line = settled(text(line).trim_end_matches(['\n', '\r'])).trim().to_owned();
        // An editor that redraws its line also redraws the prompt.
        let prompt = settled(&text(prompt)).lines().next_back().unwrap_or_default().trim().to_owned();
        let after_prompt = line.strip_prefix(&prompt).filter(|_| !prompt.is_empty());
        after_prompt.map_or_else(|| line.clone(), |after_prompt| after_prompt.trim_start().to_owned())
    }

    /// Logs an input before the terminal types it. `bytes` are its encoded keys.
    pub(super) fn log_typed(&mut self, input: &Input, bytes: &[u8], hides_input: bool) {
        if self.inputs.is_off() || (input.text.is_empty() && input.keys.is_empty() && input.raw.is_empty()) {
            return;
        }
        let context = self.input_context(hides_input);
        // Keys of a person for a program that reads keys may be a password, as for a remote `sudo`.
        let echoes = || self.pty.line_discipline().is_some_and(|now| now.whole_lines && now.echo);
        let is_attached = input.attached || !input.raw.is_empty();
        let may_be_hidden = is_attached && context != InputContext::Prompt && !echoes();
        let action = if hides_input || input.secret || may_be_hidden {
            LoggedAction::Hidden { entered: bytes.contains(&b'\r') }
        } else if is_attached {
            LoggedAction::Attached { bytes: String::from_utf8_lossy(bytes).as_ref().into() }
        } else {
            LoggedAction::Typed { text: input.text.as_str().into(), keys: input.keys.clone() }
        };
        self.log_input(input.by.as_deref(), context, action);
    }

    /// Logs a command before it is entered. Returns the number of the log entry.
    pub(super) fn log_command(&mut self, request: &CommandRequest) -> u64 {
        if self.inputs.is_off() {
            return 0;
        }
        let (command, directory) = (request.command.as_str().into(), request.working_directory.clone());
        let context = self.input_context(false);
        let action = LoggedAction::Command { command, directory, outcome: None };
        self.log_input(request.by.as_deref(), context, action)
    }

    /// Logs the outcome of a command. The end of a command that continues without its caller is logged later.
    pub(super) fn log_outcome(&mut self, entry: u64, result: &Result<CommandResult, RunError>) {
        if self.inputs.is_off() {
            return;
        }
        let outcome = CommandOutcome::from_result(result);
        if let CommandOutcome::Left { begin, .. } = outcome {
            self.entered = Some((entry, begin));
        }
        self.inputs.finish(entry, outcome);
    }

    /// Logs an ended wait.
    pub(super) fn log_wait(&mut self, pending: &PendingWait, reason: Reason, found: Option<&PatternMatch>) {
        let Some(LoggedWait { by, patterns }) = pending.logged.as_ref().filter(|_| !self.inputs.is_off()) else {
            return;
        };
        let end = self.intake.transcript.history().end();
        let until = found.and_then(|found| found.range.as_ref()).map_or(end, |range| range.end);
        let matched = found.map(|found| (found.pattern, found.text.as_str().into()));
        let action = LoggedAction::Waited { patterns: patterns.clone(), reason, matched, until };
        let hides_input = self.pty.line_discipline().is_some_and(Discipline::hides_input);
        let context = self.input_context(hides_input);
        self.log_input(Some(by), context, action);
    }
}

/// Returns whether an input is a key that may select a drawn row. Excludes chords with Ctrl, because they control the
/// program.
fn is_selection_key(action: &LoggedAction) -> bool {
    let is_chord = |key: &String| key.to_ascii_lowercase().starts_with("ctrl-");
    matches!(action, LoggedAction::Typed { text, keys } if text.text.trim().is_empty()
        && (keys.is_empty() || !keys.iter().all(is_chord)))
}
