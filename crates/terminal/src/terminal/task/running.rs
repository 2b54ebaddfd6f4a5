//! One command, for a caller that waits for its end.
//!
//! The terminal enters the command at the prompt, and the marks of the shell report its progress. A terminal runs one
//! command at a time, because the shell returns to its prompt only after the command.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{ReadingMode, Task};
use crate::command::{self, CommandRequest, CommandResult, Editor, InputRequest, RunError};
use crate::history::Zone;
use crate::integration::Kind;
use crate::limit::Limit;
use crate::lines::settled;
use crate::process::{Exit, InputState, reads_prompt_entries};
use crate::terminal::draft::is_blank;
use crate::terminal::excerpt;
use crate::terminal::input_watch::{AwaitedContent, InputWatch, ScreenState};
use crate::terminal::shell::Shell;
use crate::transcript::{Mark, OffsetMark};
use crate::wait::InputWait;

/// Channel for the reply to the caller of a command.
pub(super) type Reply = oneshot::Sender<Result<CommandResult, RunError>>;

/// A command that waits for the prompt of the shell.
///
/// A prompt is on the screen some milliseconds before the terminal has read its mark and all typed lines count as
/// read. A command must not be refused in the meantime, because its caller may have seen the prompt.
pub(super) struct Entering {
    pub(super) request: CommandRequest,
    pub(super) reply: Reply,
    /// Time of the refusal if the shell does not return to its prompt.
    refuse_at: Instant,
    /// True if a program was starting at the last check.
    was_starting: bool,
    /// Deadline of the command, and of the wait for a starting shell or program.
    pub(super) deadline: Instant,
    /// Time of the next check for the prompt.
    pub(super) next_check: Instant,
    pause: Duration,
}

/// The expected prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedPrompt {
    /// The shell is about to return to its prompt.
    Soon,
    /// A shell or another program with a prompt is starting.
    AfterStart,
    /// No prompt: another program runs, or requests input.
    No,
}

/// Maximum time for a shell to redraw its line after a key.
const REDRAW_TIME: Duration = Duration::from_millis(500);

impl Entering {
    /// Restarts the wait for the prompt after the integration of the shell.
    pub(super) fn renew(&mut self) {
        self.refuse_at = (Instant::now() + PROMPT_TIMEOUT).min(self.deadline);
    }

    /// Reports the reason for the refusal.
    pub(super) fn refuse(self, error: &RunError) {
        // Ignore the error, because the caller may have disconnected.
        let _ = self.reply.send(Err(error.clone()));
    }

    /// Reports that the shell is integrated, for a request without a command.
    fn report_integrated(self, offset: u64) {
        // Ignore the error, because the caller may have disconnected.
        let _ = self.reply.send(Ok(CommandResult::without_output(offset)));
    }
}

/// Delays of the checks for a prompt without marks after the last output.
const PROMPT_CHECK_TIMES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(500)];

/// Maximum time for a shell in the foreground to reach its prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum age of a command whose process may still execute another program.
const COMMAND_START_TIMEOUT: Duration = Duration::from_millis(500);

/// The minimum and maximum pause between two checks for a prompt.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Required silence of a relay before the row of the cursor is considered complete.
const STABLE_ROW_TIME: Duration = Duration::from_secs(3);

/// A command with a waiting caller.
pub(super) struct Running {
    reply: Reply,
    /// The entry in the log of inputs.
    log_number: u64,
    pub(super) deadline: Instant,
    limit: Limit,
    /// Checks for a wait of the command for input; `None` if the caller waits only for its end.
    input: Option<InputWatch>,
    kind: Kind,
    /// Command to enter if this change of directory succeeds, and the directory.
    next_command: Option<(String, String)>,
    /// Number of prompts before the command. The command has ended when the shell has shown more prompts.
    prompts: u64,
    /// Offset of the output at the entry of the line.
    entry_offset: u64,
    /// Version of the screen just before the entry of the line.
    version: u64,
    /// Offset of the shell's reading of the line.
    taken_offset: Option<u64>,
    /// Start offset of the command.
    start_offset: Option<u64>,
    /// End offset of the command.
    end_offset: Option<u64>,
    exit_code: Option<i32>,
    /// True if the command was entered as one line or one paste, with one end mark.
    is_one_entry: bool,
    /// True if the command is more than comments and empty lines.
    has_command: bool,
    /// True if its output goes through a pipe.
    is_piped: bool,
    /// Start offset of the output of the shell's current hook.
    hook_start: Option<u64>,
    /// Output of earlier hooks of the shell.
    hooks: Vec<Range<u64>>,
    /// True if another command has started after its end.
    is_superseded: bool,
    /// Number of expected requests for further lines. The entered text answers them without a line editor.
    line_requests: usize,
    /// True if the shell requests more text than was entered.
    is_incomplete: bool,
    /// Offset of the shell's reading of a line that it may have refused.
    refusal_offset: Option<u64>,
    /// Offset of the last output that may be a prompt.
    prompt_offset: Option<u64>,
    /// True if the inner shell of the command has exited.
    pub(super) has_ended_shell: bool,
    /// Time of the next check for the last output of an exited inner shell.
    exit_check_at: Option<Instant>,
    /// Time to press Ctrl-C again: a shell that is about to read discards typed input.
    discard_at: Option<Instant>,
}

/// Maximum length of the line that a shell prints at its own end, such as `logout`, in bytes.
const MAX_FAREWELL_BYTES: u64 = 32;

/// Maximum length of a prompt to remove from output, in bytes.
const MAX_PROMPT_BYTES: u64 = 4096;

/// Maximum time for a shell to discard an incomplete command.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum time to wait for the last output of an exited inner shell, and for the mark of its outer shell.
const INNER_EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Same as [`INNER_EXIT_TIMEOUT`], for an outer shell that reports its prompts.
const OUTER_PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

impl Running {
    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Instant {
        let look = self.input.as_ref().filter(|_| self.is_under_way()).map(InputWatch::due);
        [self.discard_at, look, self.exit_check_at].into_iter().flatten().fold(self.deadline, Instant::min)
    }

    /// Returns the watch over its input.
    pub(super) fn input(&mut self) -> Option<&mut InputWatch> {
        self.input.as_mut()
    }

    /// Returns the parts of an output range without the output of hooks.
    fn printed(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::with_capacity(self.hooks.len() + 1);
        let mut begin = range.start;
        for hook in &self.hooks {
            if begin <= hook.start && hook.end <= range.end {
                parts.push(begin..hook.start);
                begin = hook.end;
            }
        }
        parts.push(begin..range.end);
        parts
    }

    /// Returns whether the command has begun and not ended. False for the change of directory before it.
    fn is_under_way(&self) -> bool {
        self.next_command.is_none() && self.start_offset.is_some() && self.end_offset.is_none()
    }
}

/// Returns the length of the integration's hooks at the end of an output. With `set -v`, bash prints the code that it
/// reads, even from a variable.
fn hook_text_length(text: &str) -> u64 {
    const HOOKS: [&str; 3] = [
        "{ __steplatch_end; } >/dev/null 2>&1\n",
        "{ __steplatch_prompt; } 3>&2 4>&1 >/dev/null 2>&1\n",
        "__steplatch_prompt || builtin :\n",
    ];
    let hook =
        HOOKS.iter().find(|hook| text.strip_suffix(**hook).is_some_and(|rest| rest.is_empty() || rest.ends_with('\n')));
    hook.map_or(0, |hook| hook.len() as u64)
}

/// Reason why the wait for a command ends.
enum CommandAbort {
    AtPrompt,
    OutOfTime,
    AwaitsInput(InputRequest),
    Exited(Exit),
    Replaced(String),
    /// The inner shell has ended, and the outer shell has not reported it.
    InnerShellEnded,
}

impl Running {
    fn record_mark(&mut self, offset_mark: &OffsetMark) {
        match offset_mark.mark {
            Mark::LineTaken if self.taken_offset.is_none() => self.taken_offset = Some(offset_mark.offset),
            // Another client typed a line during the command, and the shell ran it without a prompt before it.
            Mark::CommandStarted if self.is_one_entry && self.end_offset.is_some() => self.is_superseded = true,
            Mark::CommandStarted => {
                self.start_offset.get_or_insert(offset_mark.offset);
                self.end_offset = None;
            }
            Mark::HookBegan => self.hook_start = Some(offset_mark.offset),
            Mark::HookEnded => {
                let hook = self.hook_start.take().map(|start_offset| start_offset..offset_mark.offset);
                self.hooks.extend(hook.filter(|hook| !hook.is_empty()));
            }
            Mark::OutputPiped => self.is_piped |= self.end_offset.is_none(),
            // fish reports each end twice.
            Mark::CommandEnded(code) if self.end_offset.is_none() => {
                self.end_offset = Some(offset_mark.offset);
                self.exit_code = code;
            }
            Mark::LineRefused => self.refusal_offset = self.refusal_offset.or(Some(offset_mark.offset)),
            Mark::PromptClaimed => self.prompt_offset = Some(offset_mark.offset),
            Mark::MoreWanted if self.line_requests > 0 => self.line_requests -= 1,
            Mark::MoreWanted => self.is_incomplete = true,
            _ => {}
        }
    }
}

impl Task {
    /// Enters a command now, or when the shell reaches its prompt. Refuses the command if no prompt can follow.
    pub(super) fn begin_command(&mut self, request: CommandRequest, reply: Reply) {
        let now = Instant::now();
        let (refuse_at, deadline) = (now + PROMPT_TIMEOUT.min(request.timeout), now + request.timeout);
        let (next_check, pause, was_starting) = (now, MIN_PAUSE, false);
        self.enter_command(Entering { request, reply, refuse_at, was_starting, deadline, next_check, pause });
    }

    /// Tries again to enter the commands that wait for a prompt.
    fn enter_waiting_commands(&mut self) {
        for queued_commands in std::mem::take(&mut self.queued_commands) {
            // Drop the command of a disconnected caller.
            if !queued_commands.reply.is_closed() {
                self.enter_command(queued_commands);
            }
        }
    }

    /// Returns whether the shell itself is in the foreground, so that its prompt may follow.
    fn may_reach_prompt(&self) -> bool {
        self.shell.integration.is_some()
            && !self.shell.is_replaced()
            && self.running.is_none()
            && self.pty.foreground() == Some(self.shell_process())
    }

    /// Returns the prompt that the foreground program is probably about to show.
    fn expected_prompt(&self) -> ExpectedPrompt {
        if self.running.is_some() || self.entry.is_some() || self.intake.screen.modes().alternate_screen {
            return ExpectedPrompt::No;
        }
        let is_own_program = self.shell.integration.is_none() || self.shell.is_replaced();
        let is_first_prompt = !is_own_program && !self.shell.is_inner && self.shell.prompts == 0;
        // Read the processes only if the answer depends on them.
        let is_waiting = || match self.input_state() {
            InputState::Awaits => true,
            InputState::Works => false,
            InputState::Relays | InputState::Unknown => {
                Instant::now() >= self.last_output + STABLE_ROW_TIME && !self.row_before_cursor().trim().is_empty()
            }
        };
        let is_starting = match is_first_prompt || is_own_program {
            true => !is_waiting(),
            // The state is unknown while the foreground changes.
            false => self.is_inner_program_starting().is_none_or(|is_starting| is_starting && !is_waiting()),
        };
        if is_starting {
            ExpectedPrompt::AfterStart
        } else if is_first_prompt
            || self.may_reach_prompt()
            || self.has_just_left_inner_shell()
            || self.shows_known_prompt()
            || self.has_unread_prompt()
            || self.has_command_just_begun()
            || self.has_unread_start()
            || self.shell.doubt.is_some()
            || self.shell.is_idle() && self.unknown_line().is_some()
        {
            ExpectedPrompt::Soon
        } else {
            ExpectedPrompt::No
        }
    }

    /// Returns whether the shell has started a program that reads entries, without input since then. `None` while the
    /// foreground changes.
    fn is_inner_program_starting(&self) -> Option<bool> {
        if !(self.shell.running && self.shell.command_start.is_some_and(|start| start >= self.last_input)) {
            return Some(false);
        }
        let shell = self.shell_process();
        let Some(group) = self.pty.foreground().filter(|group| *group != shell) else { return Some(false) };
        let [session, group, shell] = [self.child.pid(), group, shell].map(|pid| pid.as_raw_nonzero().get());
        reads_prompt_entries(session, group, shell)
    }

    /// Returns whether the foreground program waits and there is unread output. The output may contain its prompt.
    fn has_unread_prompt(&self) -> bool {
        self.pty.has_unread() && self.reader_state() == InputState::Awaits
    }

    /// Returns whether the command of the shell began so recently that its program is unknown: the forked process has
    /// not executed the program, or has executed a launcher such as `env`.
    fn has_command_just_begun(&self) -> bool {
        let Some(command_start) = self.shell.command_start.filter(|_| self.shell.running) else { return false };
        let is_forked =
            || self.pty.foreground().is_some_and(|group| self.shell.is_forked(group.as_raw_nonzero().get()));
        let age = command_start.elapsed();
        age < COMMAND_START_TIMEOUT || age < PROMPT_TIMEOUT && is_forked()
    }

    /// Returns whether a line was sent to the shell and the mark of the command's start may be unread. The shell prints
    /// the mark before it gives the foreground to the program, so call this before a check of the foreground.
    fn has_unread_start(&self) -> bool {
        self.shell.sent && !self.shell.running && self.pty.has_unread()
    }

    /// Returns whether an inner shell has just ended, so that the outer shell is about to show its prompt.
    fn has_just_left_inner_shell(&self) -> bool {
        self.inner_ended_at.is_some_and(|ended_at| Instant::now() < ended_at + PROMPT_TIMEOUT)
    }

    /// Returns the time of the next check of the cursor's row for commands that wait for a prompt without marks. The
    /// checks follow the last output, because a shell reads only after it has shown its prompt.
    pub(super) fn next_prompt_check(&self) -> Option<Instant> {
        let now = Instant::now();
        PROMPT_CHECK_TIMES.iter().map(|pause| self.last_output + *pause).find(|time| *time > now)
    }

    pub(super) fn enter_command(&mut self, entering: Entering) {
        let fit = self.check_command_ready();
        if entering.request.command.trim().is_empty() && fit.is_ok() {
            return entering.report_integrated(self.intake.transcript.history().end());
        }
        if let Err(RunError::Busy { .. } | RunError::NotIntegrated { .. }) = fit
            && let Some(prompt) = self.prompt_without_marks()
        {
            if let Some(text) = self.typed_at_prompt() {
                return entering.refuse(&RunError::HalfTyped { text });
            }
            if entering.request.integrate && prompt.may_be_shell() {
                return self.begin_integration(entering);
            }
            if entering.request.command.trim().is_empty() {
                return entering.refuse(&RunError::Unintegrated);
            }
            return self.begin_entry(entering, prompt);
        }
        let Entering { request, reply, refuse_at, was_starting, deadline, pause, .. } = entering;
        let prepared = fit.and_then(|kind| {
            // An approved command must begin on an empty line, without text that no client has typed.
            if request.approved_at.is_some()
                && let Some(text) = self.shell.draft.untyped_text(|| self.intake.text_after_prompt())
            {
                return Err(RunError::HalfTyped { text });
            }
            let command = command::normalize(&request.command)?;
            self.check_lines(command.as_bytes())?;
            // The marks are in the prompts of such a shell, so its output is assumed to begin after the first row.
            if kind == Kind::Posix {
                self.check_width(&command)?;
            }
            let directory = request.working_directory.as_deref();
            Ok((kind, command, directory.map(|directory| command::cd_command(directory, kind)).transpose()?))
        });
        let (kind, command, change) = match prepared {
            Ok(prepared) => prepared,
            Err(error @ (RunError::Busy { .. } | RunError::NotIntegrated { .. })) => {
                let now = Instant::now();
                let expected = self.expected_prompt();
                let (refuse_at, wait_until, error) = match expected {
                    // The program was starting at the last check, so restart the wait.
                    ExpectedPrompt::Soon if was_starting => {
                        let refuse_at = (now + PROMPT_TIMEOUT).min(deadline);
                        (refuse_at, refuse_at, error)
                    }
                    ExpectedPrompt::Soon => (refuse_at, refuse_at, error),
                    ExpectedPrompt::AfterStart => {
                        (refuse_at, deadline, RunError::NoPrompt { program: self.foreground_name() })
                    }
                    ExpectedPrompt::No => (refuse_at, now, error),
                };
                let next_check = (now + pause).min(wait_until);
                let pause = (2 * pause).min(MAX_PAUSE);
                let was_starting = expected == ExpectedPrompt::AfterStart;
                let entering = Entering { request, reply, refuse_at, was_starting, deadline, next_check, pause };
                match now < wait_until {
                    true => self.queued_commands.push(entering),
                    false => entering.refuse(&error),
                }
                return;
            }
            Err(error) => {
                // Ignore the error, because the caller may have disconnected.
                let _ = reply.send(Err(error));
                return;
            }
        };
        let log_number = self.log_command(&request);
        let (first, next_command) = match change {
            Some(change) => (change, Some((command, request.working_directory.unwrap_or_default()))),
            None => (command, None),
        };
        let running = Running {
            reply,
            log_number,
            deadline,
            limit: request.limit,
            input: request.input.then(|| InputWatch::new(InputWait::Known, Instant::now())),
            kind,
            next_command,
            prompts: 0,
            entry_offset: 0,
            version: 0,
            taken_offset: None,
            start_offset: None,
            end_offset: None,
            exit_code: None,
            is_one_entry: true,
            has_command: true,
            is_piped: false,
            hook_start: None,
            hooks: Vec::new(),
            is_superseded: false,
            line_requests: 0,
            is_incomplete: false,
            refusal_offset: None,
            prompt_offset: None,
            has_ended_shell: false,
            exit_check_at: None,
            discard_at: None,
        };
        self.enter_line(running, &first);
    }

    fn check_command_ready(&self) -> Result<Kind, RunError> {
        if self.is_over() {
            return Err(RunError::Ended(self.exit()));
        }
        self.write_lock.admits(None).map_err(RunError::Held)?;
        let Some(kind) =
            self.shell.integration.as_ref().filter(|_| self.shell.is_reporting()).map(|integration| integration.kind)
        else {
            return Err(RunError::NotIntegrated { program: self.reader_name() });
        };
        if !self.shell.is_idle() || self.is_typing_itself() {
            return Err(if self.shell.is_replaced() {
                RunError::NotIntegrated { program: self.reader_name() }
            } else {
                RunError::Busy { program: self.reader_name() }
            });
        }
        if let Some(text) = self.typed_line() {
            return Err(RunError::HalfTyped { text });
        }
        if let Some(text) = self.unknown_line() {
            return Err(match self.is_drawing_line() {
                true => RunError::Busy { program: self.reader_name() },
                false => RunError::HalfTyped { text },
            });
        }
        if !self.outgoing.is_empty() {
            return Err(RunError::Full { waiting: self.outgoing.len() });
        }
        Ok(kind)
    }

    /// Returns the unentered text at the prompt.
    pub(super) fn unentered_text(&self) -> Option<String> {
        self.typed_line().or_else(|| self.unknown_line().filter(|_| !self.is_drawing_line()))
    }

    /// Returns the text at the prompt that the typed keys do not explain.
    fn unknown_line(&self) -> Option<String> {
        self.shell.draft.unexplained_text(|| self.intake.text_before_cursor())
    }

    /// Returns whether the shell may not have drawn the effect of the last keys yet.
    fn is_drawing_line(&self) -> bool {
        let is_key_new = self.last_output < self.last_input && Instant::now() < self.last_input + REDRAW_TIME;
        is_key_new || self.shell_reading_mode() == ReadingMode::NotYet
    }

    /// Returns the unentered line at the prompt that clients have typed.
    pub(super) fn typed_line(&self) -> Option<String> {
        self.shell.draft.line_text(|| self.intake.text_after_prompt())
    }

    /// Enters a line and waits for its end with `running`.
    fn enter_line(&mut self, running: Running, line: &str) {
        let offset = self.intake.transcript.history().end();
        let editor = if self.intake.screen.modes().bracketed_paste {
            Editor::TakesPastes
        } else if running.kind != Kind::Fish && self.collects_lines() {
            Editor::None
        } else {
            Editor::TakesKeys
        };
        let keys = command::keys(line, running.kind, editor, self.shell.is_inner);
        let asks = if editor == Editor::None { line.matches('\n').count() } else { 0 };
        self.mark_screen();
        (self.input_offset, self.input_screen_version) = (offset, self.screen_version);
        self.echo.expect(&format!("{line}\n"), offset);
        self.running = Some(Running {
            prompts: self.shell.prompts,
            entry_offset: offset,
            version: self.screen_version,
            taken_offset: None,
            start_offset: None,
            end_offset: None,
            exit_code: None,
            is_one_entry: asks == 0,
            is_piped: false,
            hook_start: None,
            hooks: Vec::new(),
            has_command: !is_blank(line),
            is_superseded: false,
            line_requests: asks,
            refusal_offset: None,
            prompt_offset: None,
            ..running
        });
        self.shell.draft.type_in(b"\r", None);
        self.shell.record_lines(1 + asks, true, None, offset);
        self.outgoing.extend(keys);
        self.write_input();
    }

    /// Processes a mark, after the shell's state is updated.
    pub(super) fn follow_command(&mut self, offset_mark: &OffsetMark) {
        if let Some(running) = &mut self.running {
            running.record_mark(offset_mark);
            if running.is_incomplete && offset_mark.mark == Mark::MoreWanted && running.kind != Kind::Fish {
                // Discard the text with Ctrl-C, as a person would.
                running.discard_at = Some(Instant::now() + DISCARD_TIMEOUT);
                self.outgoing.extend([0x03]);
                self.write_input();
            }
        }
    }

    /// Checks the command and replies to the caller if the command has ended or its time limit has passed.
    pub(super) fn check_command(&mut self) {
        self.enter_waiting_commands();
        if let Some(running) = &mut self.running
            && let Some(discard_at) = &mut running.discard_at
            && Instant::now() >= *discard_at
        {
            *discard_at = Instant::now() + DISCARD_TIMEOUT;
            self.outgoing.extend([0x03]);
            self.write_input();
        }
        if self.running.is_none() {
            return;
        }
        let has_inner_shell_ended = self.has_inner_shell_ended();
        let Some(running) = &self.running else { return };
        let abort = if let Some(exit) = self.exit() {
            CommandAbort::Exited(exit)
        } else if let Some(program) = self.shell.replaced_by.clone() {
            CommandAbort::Replaced(program)
        } else if self.shell.prompts > running.prompts && self.shell.at_prompt
            || running.is_superseded && running.next_command.is_none()
        {
            CommandAbort::AtPrompt
        } else if has_inner_shell_ended {
            CommandAbort::InnerShellEnded
        } else if Instant::now() >= running.deadline {
            CommandAbort::OutOfTime
        } else if let Some(asks) = self.find_input_request() {
            CommandAbort::AwaitsInput(asks)
        } else {
            return;
        };
        if matches!(abort, CommandAbort::InnerShellEnded) {
            self.leave_ended_shells();
        }
        self.mark_screen();
        let Some(mut running) = self.running.take() else { return };
        if running.is_incomplete && matches!(abort, CommandAbort::AtPrompt | CommandAbort::OutOfTime) {
            return self.report_result(running.log_number, running.reply, Err(RunError::Incomplete));
        }
        if matches!(abort, CommandAbort::AtPrompt)
            && let Some(error) = self.refusal(&running)
        {
            return self.report_result(running.log_number, running.reply, Err(error));
        }
        if matches!(abort, CommandAbort::AtPrompt)
            && let Some((line, directory)) = running.next_command.take()
        {
            if running.exit_code != Some(0) {
                let message = self.command_result(&running, abort).output.trim_end().to_owned();
                return self.report_result(
                    running.log_number,
                    running.reply,
                    Err(RunError::CannotChangeDirectory { directory, shell_message: message }),
                );
            }
            if let Some(actual_directory) = self.other_directory(&directory) {
                let shell_message =
                    format!("none, but the directory is {actual_directory}; a function named `builtin` may exist");
                return self.report_result(
                    running.log_number,
                    running.reply,
                    Err(RunError::CannotChangeDirectory { directory, shell_message }),
                );
            }
            // A person may have begun to type since the change of directory.
            if let Err(holder) = self.write_lock.admits(None) {
                return self.report_result(running.log_number, running.reply, Err(RunError::Held(holder)));
            }
            return match self.unentered_text() {
                None => self.enter_line(running, &line),
                Some(text) => {
                    let error = Err(RunError::HalfTyped { text });
                    self.report_result(running.log_number, running.reply, error);
                }
            };
        }
        let result = self.command_result(&running, abort);
        self.report_result(running.log_number, running.reply, Ok(result));
    }

    /// Returns the directory of the shell if it differs from the requested directory: a function of the user may have
    /// replaced the builtin. `None` if unknown: in an inner shell, and for a relative name.
    fn other_directory(&self, expected: &str) -> Option<String> {
        if self.shell.is_inner || !Path::new(expected).is_absolute() {
            return None;
        }
        let file_id = |path: &Path| fs::metadata(path).ok().map(|actual| (actual.dev(), actual.ino()));
        let directory = self.directory()?;
        let (requested, actual) = (file_id(Path::new(expected))?, file_id(Path::new(&directory))?);
        (requested != actual).then_some(directory)
    }

    /// Returns the input request of the command, if a check is due and the command waits for input.
    fn find_input_request(&mut self) -> Option<InputRequest> {
        let now = Instant::now();
        let is_due = self
            .running
            .as_mut()
            .is_some_and(|running| running.is_under_way() && running.input().is_some_and(|watch| now >= watch.due()));
        if !is_due {
            return None;
        }
        if self.has_traffic() {
            self.running.as_mut()?.input()?.restart(now);
            return None;
        }
        let check = self.check_for_input();
        let full_screen = check.screen == ScreenState::Full;
        let waits = self.running.as_mut()?.input()?.record_check(check, AwaitedContent::Nothing, now);
        waits.then(|| InputRequest {
            program: self.reader_name(),
            full_screen,
            password: self.states().password,
            screen: self.intake.screen.text(),
        })
    }

    /// Logs the outcome of a command and reports it.
    pub(super) fn report_result(&mut self, log_number: u64, reply: Reply, result: Result<CommandResult, RunError>) {
        self.log_outcome(log_number, &result);
        // Ignore the error, because the caller may have disconnected.
        let _ = reply.send(result);
    }

    /// Returns the shell's reason for running no part, or only a part, of an ended command.
    fn refusal(&self, running: &Running) -> Option<RunError> {
        let history = self.intake.transcript.history();
        let message = |start: Option<u64>, end: Option<u64>| {
            let Some(start) = start else { return String::new() };
            let message = settled(&history.read(start..end.unwrap_or(history.end()).max(start)).1);
            match end {
                Some(_) => message.trim().to_owned(),
                // The prompt follows without a mark: bash calls no hook after an unknown history event.
                None => message.trim_start().lines().next().unwrap_or_default().to_owned(),
            }
        };
        match (running.start_offset, running.refusal_offset) {
            (None, _) => {
                let shell_message = message(running.taken_offset, running.end_offset);
                // A shell whose hook for the beginning of a command was removed reports only the end.
                let may_have_run = running.has_command
                    && running.end_offset.is_some()
                    && (shell_message.is_empty() || running.exit_code == Some(0));
                (!may_have_run).then_some(RunError::NothingRan { shell_message })
            }
            (Some(_), None) => None,
            (Some(start_offset), Some(_)) if running.kind == Kind::Fish => {
                Some(RunError::NothingRan { shell_message: message(Some(start_offset), running.end_offset) })
            }
            // Without a message, no line was refused.
            (Some(_), refusal_offset) => Some(message(running.taken_offset, refusal_offset))
                .filter(|message| !message.is_empty())
                .map(|message| RunError::PartlyRan { shell_message: message }),
        }
    }

    /// Returns the length of the prompt at the end of an output without an end mark: the length of the prompt before
    /// the command, if the output ends with it, or of the last line.
    fn prompt_length(&self, running: &Running, output: Range<u64>) -> u64 {
        let history = self.intake.transcript.history();
        let before = history.zones(running.entry_offset.saturating_sub(MAX_PROMPT_BYTES)..running.entry_offset);
        let prompt = before.filter(|(_, zone)| *zone == Zone::Prompt).last();
        let prompt = prompt.map(|(range, _)| history.read(range).1).unwrap_or_default();
        let text = history.read(output.end.saturating_sub(MAX_PROMPT_BYTES).max(output.start)..output.end).1;
        match !prompt.is_empty() && text.ends_with(prompt.as_str()) {
            true => prompt.len() as u64,
            false => (text.len() - text.rfind('\n').map_or(0, |end| end + 1)) as u64,
        }
    }

    /// Returns whether the inner shell has exited and its last output has arrived.
    fn has_inner_shell_ended(&mut self) -> bool {
        if !self.shell.has_ended() {
            return false;
        }
        let is_outer_reporting = self.outer_shells.last().is_some_and(Shell::is_reporting);
        let has_traffic = self.has_traffic();
        let now = Instant::now();
        let Some(running) = &mut self.running else { return false };
        let timeout = if is_outer_reporting { OUTER_PROMPT_TIMEOUT } else { INNER_EXIT_TIMEOUT };
        let next_check = *running.exit_check_at.get_or_insert(now + timeout);
        let quiet_at = self.last_output + INNER_EXIT_TIMEOUT;
        if now < next_check {
            return false;
        }
        if has_traffic || now < quiet_at {
            running.exit_check_at = Some(quiet_at.max(now + INNER_EXIT_TIMEOUT));
            return false;
        }
        true
    }

    fn command_result(&self, running: &Running, abort: CommandAbort) -> CommandResult {
        let history = self.intake.transcript.history();
        let at_prompt = matches!(abort, CommandAbort::AtPrompt);
        let is_unreported = at_prompt && (running.start_offset.is_none() || running.end_offset.is_none());
        let end_offset = running.end_offset.or(running.prompt_offset.filter(|_| at_prompt)).unwrap_or(history.end());
        let mut range = match running.start_offset.or(running.taken_offset.filter(|_| at_prompt)) {
            Some(start_offset) => start_offset..end_offset.max(start_offset),
            None => running.entry_offset..running.entry_offset,
        };
        if is_unreported && running.end_offset.is_none() {
            range.end -= self.prompt_length(running, range.clone());
        }
        if running.kind == Kind::Bash {
            range.end -= hook_text_length(
                &history.read(range.end.saturating_sub(MAX_PROMPT_BYTES).max(range.start)..range.end).1,
            );
        }
        let mut excerpt = excerpt::read_printed(history, &running.printed(&range), Zone::Output, running.limit);
        if matches!(abort, CommandAbort::Exited(_))
            && let Some(end) = self.intake.transcript.output_end().filter(|end| range.contains(end))
        {
            // bash prints a line at its end, and its traps may print after it.
            let (_, after_end) = history.read(end..range.end);
            let farewell_bytes = after_end.split_inclusive('\n').next().unwrap_or_default().len() as u64;
            let output =
                excerpt::read_printed(history, &running.printed(&(range.start..end)), Zone::Output, running.limit);
            let after_end =
                excerpt::read_printed(history, &[end + farewell_bytes..range.end], Zone::Output, running.limit);
            if excerpt.tail.is_none() && farewell_bytes <= MAX_FAREWELL_BYTES {
                excerpt.head = output.head + &after_end.head;
            }
        }
        // A bash killed by a signal prints no such line.
        let is_killed = running.exit_code.is_some_and(|code| code > 128);
        if running.has_ended_shell && running.kind == Kind::Bash && !is_killed {
            let text = excerpt.tail.as_mut().unwrap_or(&mut excerpt.head);
            let without_farewell =
                ["exit\n", "logout\n"].into_iter().find_map(|farewell_bytes| text.strip_suffix(farewell_bytes));
            if let Some(length) = without_farewell
                .filter(|output_before| output_before.is_empty() || output_before.ends_with('\n'))
                .map(str::len)
            {
                text.truncate(length);
            }
        }
        if let CommandAbort::AwaitsInput(InputRequest { full_screen: false, .. }) = &abort
            && let Some(rows) =
                self.marks.moved_rows_since(running.version, &self.intake).filter(|rows| rows.lost_rows == 0)
        {
            // The question is on the rows that the program drew.
            excerpt = excerpt::join_lines(rows.changed_below_command(&self.intake), excerpt.next, running.limit);
        }
        CommandResult {
            exit_code: match &abort {
                CommandAbort::AtPrompt => running.exit_code,
                CommandAbort::Exited(exit) => Some(exit.code),
                _ => None,
            },
            timed_out: matches!(abort, CommandAbort::OutOfTime),
            ended: match &abort {
                CommandAbort::Exited(exit) => Some(*exit),
                _ => None,
            },
            replaced_by: match &abort {
                CommandAbort::Replaced(program) => Some(program.clone()),
                _ => None,
            },
            not_entered: None,
            asks: match abort {
                CommandAbort::AwaitsInput(asks) => Some(asks),
                _ => None,
            },
            is_unreported,
            is_piped: running.is_piped,
            lacks_exit_code: false,
            output: excerpt.head,
            tail: excerpt.tail,
            left_out: excerpt.left_out,
            next: excerpt.next,
            dropped_before: excerpt.dropped_before,
            offset: range.start,
            end: if at_prompt { range.end } else { history.end() },
            version: Some(self.screen_version),
        }
    }
}
