//! What the task writes into the log of inputs.

use super::{LoggedWait, Pending, Task};
use crate::command::{CommandRequest, CommandResult, RunError};
use crate::input_log::{CommandOutcome, InputContext, LoggedAction};
use crate::process::Discipline;
use crate::terminal::Input;
use crate::wait::{PatternMatch, Reason};

/// The most characters of a question that an entry has.
const LONGEST_ROW: usize = 400;

impl Task {
    /// Returns what the program shows at this moment. `unseen` says that it reads without showing what is typed.
    pub(super) fn input_context(&self, unseen: bool) -> InputContext {
        let row = || self.row_before_cursor().chars().take(LONGEST_ROW).collect();
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
        let offset = self.intake.transcript.history().end();
        self.inputs.add(by, offset, context, action)
    }

    /// Logs an input that is about to be typed as these bytes.
    pub(super) fn log_typed(&mut self, input: &Input, bytes: &[u8], unseen: bool) {
        if input.text.is_empty() && input.keys.is_empty() && input.raw.is_empty() {
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

    /// Logs a command that is about to be entered. Returns the number of its entry.
    pub(super) fn log_command(&mut self, request: &CommandRequest) -> u64 {
        let (command, directory) = (request.command.as_str().into(), request.working_directory.clone());
        let context = self.input_context(false);
        let action = LoggedAction::Command { command, directory, outcome: None };
        self.log_input(request.by.as_deref(), context, action)
    }

    /// Logs how a command ended.
    pub(super) fn log_outcome(&mut self, entry: u64, result: &Result<CommandResult, RunError>) {
        self.inputs.finish(entry, CommandOutcome::of(result));
    }

    /// Logs a wait that is over.
    pub(super) fn log_wait(&mut self, pending: &Pending, reason: Reason, found: Option<&PatternMatch>) {
        let Some(LoggedWait { by, patterns }) = &pending.logged else { return };
        let end = self.intake.transcript.history().end();
        let until = found.and_then(|found| found.range.as_ref()).map_or(end, |range| range.end);
        let matched = found.map(|found| (found.pattern, found.text.as_str().into()));
        let action = LoggedAction::Waited { patterns: patterns.clone(), reason, matched, until };
        let unseen = self.pty.line_discipline().is_some_and(Discipline::is_unseen);
        let context = self.input_context(unseen);
        self.log_input(Some(by), context, action);
    }
}
