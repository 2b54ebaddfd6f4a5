//! Entries that the task writes into the log of inputs.

use std::ops::Range;

use super::{LoggedWait, Pending, Task};
use crate::command::{CommandRequest, CommandResult, RunError};
use crate::history::Zone;
use crate::input_log::{CommandOutcome, InputContext, LoggedAction, Moment};
use crate::lines::settled;
use crate::process::Discipline;
use crate::screen::styled_rows;
use crate::terminal::Input;
use crate::transcript::{Mark, OffsetMark};
use crate::wait::{PatternMatch, Reason};

/// Maximum characters of a question in an entry.
const MAX_ROW_CHARS: usize = 400;

/// Maximum rows of a screen whose styles an entry has.
const MAX_ROWS: usize = 100;

/// Maximum characters of a screen in an entry.
const MAX_SCREEN_CHARS: usize = 8192;

/// Maximum distance to look back for the beginning of a line that a shell took, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;

impl Task {
    /// Returns the program's current output. `unseen` states that it reads without an echo.
    pub(super) fn input_context(&self, unseen: bool) -> InputContext {
        let row = || self.row_before_cursor().chars().take(MAX_ROW_CHARS).collect();
        if self.intake.screen.modes().alternate_screen {
            InputContext::FullScreen
        } else if unseen {
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
        let offset = self.intake.transcript.history().end();
        let is_typed = matches!(action, LoggedAction::Typed { .. } | LoggedAction::Hidden { .. });
        let has_screen = match &context {
            InputContext::FullScreen => is_typed,
            InputContext::Program { row } => is_typed && self.draws_in_place(row, &action),
            InputContext::Prompt | InputContext::Password { .. } => false,
        };
        // The text goes to a cursor that the program draws, so this row is not its question.
        let is_elsewhere = has_screen && !is_key(&action) && !self.intake.screen.cursor().visible;
        let context = match context {
            InputContext::Program { .. } if is_elsewhere => InputContext::Program { row: String::new() },
            context => context,
        };
        let screen = has_screen.then(|| self.logged_screen());
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

    /// Returns whether an input goes into rows that a program draws in place: it takes keys, and the input is a key
    /// that may choose from them, the program draws a cursor of its own, or `row`, that of the cursor, is not the end of
    /// the printed text. A program that takes lines draws where text stands below the cursor.
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
        // The screen has blanks for a tab.
        let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
        is_key(action)
            || !self.intake.screen.cursor().visible
            || !without_blanks(&printed).ends_with(&without_blanks(row))
    }

    fn logged_screen(&self) -> String {
        let screen = self.intake.screen.text();
        screen.trim_end().chars().take(MAX_SCREEN_CHARS).collect()
    }

    /// Logs a line that the shell takes, and how its command ends. A command of a request has its own entry.
    pub(super) fn log_mark(&mut self, marked: &OffsetMark) {
        if self.inputs.is_off() {
            return;
        }
        match marked.mark {
            Mark::CommandStarted
                if self.running.is_none() && self.typed_line.is_none() && self.exchanging.is_none() =>
            {
                let line = (!self.inputs.ends_hidden()).then(|| self.line_before(marked.offset).as_str().into());
                let context = InputContext::Prompt;
                let number = self.log_input(None, context, LoggedAction::Entered { line, outcome: None });
                self.entered = Some((number, marked.offset));
            }
            Mark::CommandEnded(exit_code) => {
                if let Some((number, begin)) = self.entered.take() {
                    let outcome = CommandOutcome::Ended { exit_code, begin, end: marked.offset };
                    self.inputs.finish(number, outcome);
                }
            }
            _ => {}
        }
    }

    /// Returns the line that ends at an offset, as the editor of the shell showed it.
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
        // An editor that draws its line again draws the prompt with it.
        let prompt = settled(&text(prompt)).lines().next_back().unwrap_or_default().trim().to_owned();
        let behind = line.strip_prefix(&prompt).filter(|_| !prompt.is_empty());
        behind.map_or_else(|| line.clone(), |behind| behind.trim_start().to_owned())
    }

    /// Logs an input before the terminal types it as these bytes.
    pub(super) fn log_typed(&mut self, input: &Input, bytes: &[u8], unseen: bool) {
        if self.inputs.is_off() || (input.text.is_empty() && input.keys.is_empty() && input.raw.is_empty()) {
            return;
        }
        let context = self.input_context(unseen);
        // What a person types into a program that reads keys may be a password, such as that of a remote `sudo`.
        let echoes = || self.pty.line_discipline().is_some_and(|now| now.whole_lines && now.echo);
        let is_attached = input.attached || !input.raw.is_empty();
        let may_be_unseen = is_attached && context != InputContext::Prompt && !echoes();
        let action = if unseen || input.secret || may_be_unseen {
            LoggedAction::Hidden { entered: bytes.contains(&b'\r') }
        } else if is_attached {
            LoggedAction::Attached { bytes: String::from_utf8_lossy(bytes).as_ref().into() }
        } else {
            LoggedAction::Typed { text: input.text.as_str().into(), keys: input.keys.clone() }
        };
        self.log_input(input.by.as_deref(), context, action);
    }

    /// Logs a command before its entry at the prompt. Returns the number of its entry.
    pub(super) fn log_command(&mut self, request: &CommandRequest) -> u64 {
        if self.inputs.is_off() {
            return 0;
        }
        let (command, directory) = (request.command.as_str().into(), request.working_directory.clone());
        let context = self.input_context(false);
        let action = LoggedAction::Command { command, directory, outcome: None };
        self.log_input(request.by.as_deref(), context, action)
    }

    /// Logs how a command ended, or that it continues without its caller: its end enters the log later.
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

    /// Logs a wait that has ended.
    pub(super) fn log_wait(&mut self, pending: &Pending, reason: Reason, found: Option<&PatternMatch>) {
        let Some(LoggedWait { by, patterns }) = pending.logged.as_ref().filter(|_| !self.inputs.is_off()) else {
            return;
        };
        let end = self.intake.transcript.history().end();
        let until = found.and_then(|found| found.range.as_ref()).map_or(end, |range| range.end);
        let matched = found.map(|found| (found.pattern, found.text.as_str().into()));
        let action = LoggedAction::Waited { patterns: patterns.clone(), reason, matched, until };
        let unseen = self.pty.line_discipline().is_some_and(Discipline::is_unseen);
        let context = self.input_context(unseen);
        self.log_input(Some(by), context, action);
    }
}

/// Returns whether an input is a key that may choose from drawn rows. A chord with Ctrl ends or interrupts a program.
fn is_key(action: &LoggedAction) -> bool {
    let is_chord = |key: &String| key.to_ascii_lowercase().starts_with("ctrl-");
    matches!(action, LoggedAction::Typed { text, keys } if text.text.trim().is_empty()
        && (keys.is_empty() || !keys.iter().all(is_chord)))
}
