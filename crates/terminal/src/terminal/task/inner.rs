//! Shells within the terminal's own program: their integration, scripts for their variables, and their end.
//!
//! The terminal types a hidden line at the prompt of such a shell. It removes the line and the following prompt from
//! the output, so that viewers do not see them.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Task;
use super::running::Entering;
use crate::command::{self, Editor, RunError};
use crate::exchange::{EXCHANGE_TIMEOUT, QueryScript, VariablesError};
use crate::integration::inner::{self, HiddenAnswer, HiddenTyping};
use crate::integration::{IntegrationSession, Kind};
use crate::terminal::shell::Shell;

/// Maximum time for an inner shell to answer a typed line over a slow connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A hidden line that waits for its answer.
pub(super) struct HiddenLineTask {
    typing: HiddenTyping,
    purpose: Purpose,
    typed_at: Instant,
    pub(super) deadline: Instant,
}

enum Purpose {
    /// Query the kind of the shell. The marks and the command follow.
    Kind(IntegrationSession, Entering),
    /// Set up the marks. The command follows.
    Marks(IntegrationSession, Entering),
    /// Run a script for variables.
    Script(oneshot::Sender<Result<Vec<u8>, VariablesError>>),
}

impl Task {
    /// Sets up marks in the shell at the current prompt, and then enters the command.
    pub(super) fn begin_integration(&mut self, entering: Entering) {
        let integration = inner::new_inner_session();
        let line = inner::kind_line(&integration.nonce);
        let typing = HiddenTyping::new(&integration.nonce, false);
        self.type_hidden_line(&line, typing, Purpose::Kind(integration, entering), ANSWER_TIMEOUT);
    }

    /// Runs a script in an inner shell and replies with its output.
    pub(super) fn begin_script(
        &mut self,
        script: &QueryScript,
        reply: oneshot::Sender<Result<Vec<u8>, VariablesError>>,
    ) {
        let line = self.check_exchange_ready().and_then(|integration| {
            if let Some(text) = self.typed_line() {
                return Err(VariablesError::HalfTyped { text });
            }
            // The shell may have ended since the caller wrote the script.
            if !self.shell.is_inner || integration.kind != script.kind() {
                return Err(VariablesError::Unanswered);
            }
            let line = inner::script_line(&integration, &script.line());
            // Without a paste, each line end would enter a part of the line.
            let is_split = line.contains('\n') && !self.intake.screen.modes().bracketed_paste;
            let is_completed = line.contains('\t') && !self.takes_tabs();
            if is_split || is_completed || line.len() > MAX_LINE_BYTES || self.check_lines(line.as_bytes()).is_err() {
                return Err(VariablesError::NotTypeable);
            }
            command::normalize(&line).map_err(|_| VariablesError::NotTypeable).map(|_| (line, integration))
        });
        match line {
            // Ignore the error, because the caller may have disconnected.
            Err(error) => drop(reply.send(Err(error))),
            Ok((line, integration)) => {
                let typing = HiddenTyping::new(&integration.nonce, true);
                self.type_hidden_line(&line, typing, Purpose::Script(reply), EXCHANGE_TIMEOUT);
            }
        }
    }

    fn type_hidden_line(&mut self, line: &str, typing: HiddenTyping, purpose: Purpose, timeout: Duration) {
        let editor = if self.intake.screen.modes().bracketed_paste { Editor::TakesPastes } else { Editor::None };
        self.outgoing.extend(command::keys(line, Kind::Posix, editor, true));
        let typed_at = Instant::now();
        self.typed_line = Some(HiddenLineTask { typing, purpose, typed_at, deadline: typed_at + timeout });
        self.write_input();
    }

    /// Processes output while the terminal types a hidden line. Returns the ordinary output.
    pub(super) fn hold_hidden_line(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(task) = &mut self.typed_line else { return bytes.to_vec() };
        let answer = task.typing.hold(bytes);
        let is_too_long = task.typing.is_too_long();
        match answer {
            Some(answer) => self.end_hidden_line(answer),
            None if is_too_long || self.has_shell_ended() => self.cancel_hidden_line(),
            None => Vec::new(),
        }
    }

    /// Returns whether an outer shell is at its prompt again, so that the shell to integrate has ended.
    fn has_shell_ended(&self) -> bool {
        let Some(HiddenLineTask { typing, purpose: Purpose::Kind(..) | Purpose::Marks(..), .. }) = &self.typed_line
        else {
            return false;
        };
        let mut shells = self.outer_shells.iter().chain([&self.shell]).filter_map(|shell| shell.integration.as_ref());
        shells.any(|integration| typing.has_mark_of(&integration.nonce))
    }

    fn end_hidden_line(&mut self, answer: HiddenAnswer) -> Vec<u8> {
        let Some(mut task) = self.typed_line.take() else { return answer.rest };
        // A client has typed text since then, or holds the terminal.
        let is_disturbed = self.last_input > task.typed_at || self.write_lock.admits(None).is_err();
        match task.purpose {
            Purpose::Kind(_, entering) if is_disturbed => {
                entering.refuse(&RunError::Busy { program: self.foreground_name() });
                task.typing.give_up()
            }
            Purpose::Kind(mut integration, entering) => {
                integration.kind = inner::kind_from_answer(&String::from_utf8_lossy(&answer.answer));
                let line = inner::marks_line(integration.kind, &integration.nonce);
                let typing = HiddenTyping::new(&integration.nonce, true);
                self.type_hidden_line(&line, typing, Purpose::Marks(integration, entering), ANSWER_TIMEOUT);
                Vec::new()
            }
            Purpose::Marks(integration, mut entering) => {
                self.draw_prompt(&answer.prompt);
                let marks = format!("\x1b]133;A;k={0}\x07\x1b]133;B;k={0}\x07", integration.nonce);
                let posix = integration.kind == Kind::Posix;
                self.intake.transcript.enter_shell(integration.nonce.clone(), posix);
                let program = self.pty.foreground().unwrap_or(self.child.pid()).as_raw_nonzero().get();
                let shell = Shell::enter(integration, program, &self.shell);
                self.outer_shells.push(std::mem::replace(&mut self.shell, shell));
                self.take_in_all(marks.as_bytes());
                // The output after the prompt may contain zsh's report that it reads keys.
                self.take_in_all(&answer.rest);
                entering.renew();
                self.enter_command(entering);
                Vec::new()
            }
            Purpose::Script(reply) => {
                self.draw_prompt(&answer.prompt);
                // Ignore the error, because the caller may have disconnected.
                let _ = reply.send(Ok(answer.answer));
                answer.rest
            }
        }
    }

    /// Redraws a prompt in its place.
    fn draw_prompt(&mut self, prompt: &[u8]) {
        let mut replies = Vec::new();
        self.begin_screen_version();
        self.intake.draw(b"\r\x1b[K", &mut replies);
        self.intake.draw(prompt, &mut replies);
        if !replies.is_empty() {
            self.answers.add(replies, self.pty.foreground(), Instant::now());
        }
    }

    /// Ends a hidden line after its time limit, or after the end of the program.
    pub(super) fn check_hidden_line(&mut self) {
        if self.typed_line.as_ref().is_some_and(|task| self.is_over() || Instant::now() >= task.deadline) {
            let held = self.cancel_hidden_line();
            self.take_in_all(&held);
        }
    }

    /// Cancels the hidden line and returns the held output.
    fn cancel_hidden_line(&mut self) -> Vec<u8> {
        let has_shell_ended = self.has_shell_ended();
        let Some(mut task) = self.typed_line.take() else { return Vec::new() };
        match task.purpose {
            Purpose::Kind(_, entering) | Purpose::Marks(_, entering) if has_shell_ended => {
                entering.refuse(&RunError::ShellEnded);
            }
            Purpose::Kind(_, entering) | Purpose::Marks(_, entering) => entering.refuse(&RunError::Unintegrated),
            // Ignore the error, because the caller may have disconnected.
            Purpose::Script(reply) => drop(reply.send(Err(VariablesError::Unanswered))),
        }
        task.typing.give_up()
    }

    /// Returns to the outer shell after the end of the innermost shell.
    pub(super) fn leave_inner_shell(&mut self) {
        if let Some(outer) = self.outer_shells.pop() {
            let inner = std::mem::replace(&mut self.shell, outer);
            self.shell.resume(&inner);
            self.inner_ended_at = Some(Instant::now());
            if let Some(running) = &mut self.running {
                running.has_ended_shell = true;
            }
        }
    }

    /// Leaves inner shells whose program has ended without a mark of the outer shell.
    pub(super) fn leave_ended_shells(&mut self) {
        while self.shell.has_ended() {
            self.intake.transcript.leave_shell();
            self.leave_inner_shell();
        }
    }
}

/// Maximum length of a line for an inner shell, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
