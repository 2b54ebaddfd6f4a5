//! Running one command for a caller that waits for its end.
//!
//! The terminal enters the command at the prompt, and the marks of the shell report the rest. Only one can run in a
//! terminal, because the shell is not at its prompt again before it has ended.

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
use crate::process::{Exit, InputState, takes_entries};
use crate::terminal::draft::is_blank;
use crate::terminal::excerpt;
use crate::terminal::input_watch::{Awaited, InputWatch, ScreenState};
use crate::terminal::shell::Shell;
use crate::transcript::{Mark, OffsetMark};
use crate::wait::InputWait;

/// Channel for the answer to the caller of a command.
pub(super) type Reply = oneshot::Sender<Result<CommandResult, RunError>>;

/// A command that waits for the shell to be at its prompt again.
///
/// A prompt is on the screen some milliseconds before the terminal has read its mark and all typed lines count as
/// taken. A caller that saw the prompt must not be refused in between.
pub(super) struct Entering {
    pub(super) request: CommandRequest,
    pub(super) reply: Reply,
    /// Time of the refusal if a shell does not return to its prompt.
    until: Instant,
    /// True if a program was starting at the last check.
    was_starting: bool,
    /// Time limit of the command, and of the wait for a shell or program that is starting.
    pub(super) deadline: Instant,
    /// Time of the next check for the prompt; the pauses grow.
    pub(super) look_at: Instant,
    pause: Duration,
}

/// The expected prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedPrompt {
    /// The shell is about to return to it.
    Soon,
    /// A shell or another program that takes entries is starting.
    AfterStart,
    /// Another program runs, or requests input.
    No,
}

/// Time in which a shell draws its line again after a key.
const REDRAW_TIMEOUT: Duration = Duration::from_millis(500);

impl Entering {
    /// Restarts the wait for the prompt: the shell has just been integrated.
    pub(super) fn renew(&mut self) {
        self.until = (Instant::now() + PROMPT_TIMEOUT).min(self.deadline);
    }

    /// Reports the reason for the refusal.
    pub(super) fn refuse(self, error: &RunError) {
        // The caller may have stopped listening.
        let _ = self.reply.send(Err(error.clone()));
    }

    /// Reports that the shell is integrated, for a request without a command.
    fn report_integrated(self, offset: u64) {
        // The caller may have stopped listening.
        let _ = self.reply.send(Ok(CommandResult::without_output(offset)));
    }
}

/// Times of the checks for a prompt without marks, after the last output.
const PROMPT_CHECK_TIMES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(500)];

/// Time limit for a shell in the foreground to reach its prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum age of a command whose program may still execute another one.
const COMMAND_START_TIMEOUT: Duration = Duration::from_millis(500);

/// The shortest and the longest pause between two checks for the prompt of a program that is starting.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Required silence of a relay, after which the row of the cursor counts as complete.
const STABLE_ROW_TIME: Duration = Duration::from_secs(3);

/// A command with a waiting caller.
pub(super) struct Running {
    reply: Reply,
    /// Its entry in the log of inputs.
    logged: u64,
    pub(super) deadline: Instant,
    limit: Limit,
    /// Ends when the command waits for input; `None` if the caller waits only for its end.
    input: Option<InputWatch>,
    kind: Kind,
    /// Command to enter after this one has succeeded, and the directory that this one changes to.
    then: Option<(String, String)>,
    /// Number of prompts before the command: it has ended when the shell has shown more.
    prompts: u64,
    /// Offsets of the output: at the entry of the line, where the shell took it, where the command began and ended.
    entered: u64,
    /// Version of the screen just before the entry of the line.
    version: u64,
    taken: Option<u64>,
    began: Option<u64>,
    ended: Option<u64>,
    exit_code: Option<i32>,
    /// Entered as one line or one paste, with one end mark.
    is_one_entry: bool,
    /// More than comments and empty lines.
    has_command: bool,
    /// Its output goes through a pipe.
    is_piped: bool,
    /// Offset at which the shell began to print what comes before the next line, and the parts that it has printed so.
    hook_began: Option<u64>,
    hooks: Vec<Range<u64>>,
    /// Another command has started after its end.
    is_passed: bool,
    /// Number of requests for further lines that the entered text answers, without a line editor.
    asks: usize,
    /// The shell requests more text than was entered.
    incomplete: bool,
    /// Offset at which the shell had taken a line that it may not have understood.
    refused: Option<u64>,
    /// Offset of the last output that may be a prompt.
    claimed: Option<u64>,
    /// The inner shell of the command has exited.
    pub(super) has_ended_shell: bool,
    /// Time of the next check for the last output of an inner shell that has exited.
    exit_check_at: Option<Instant>,
    /// Time to send the end of input again: a shell that is about to read loses typed input.
    discard_at: Option<Instant>,
}

/// The longest line that a shell prints for its own end, such as `logout`, in bytes.
const MAX_FAREWELL_BYTES: u64 = 32;

/// Maximum length of a prompt to take away from an output, in bytes.
const MAX_PROMPT_BYTES: u64 = 4096;

/// Time limit for a shell to give up what was not complete.
const DISCARD_TIMEOUT: Duration = Duration::from_millis(250);

/// Time limit for the last output of an inner shell that has exited, and for the mark of its outer shell.
const INNER_EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The same for an outer shell that reports its prompts.
const OUTER_PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

impl Running {
    /// Returns the time of its next step.
    pub(super) fn due(&self) -> Instant {
        let look = self.input.as_ref().filter(|_| self.is_under_way()).map(InputWatch::due);
        [self.discard_at, look, self.exit_check_at].into_iter().flatten().fold(self.deadline, Instant::min)
    }

    /// Returns the watch over its input.
    pub(super) fn input(&mut self) -> Option<&mut InputWatch> {
        self.input.as_mut()
    }

    /// Returns the parts of a range of the output that its commands have printed.
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

    /// Returns whether the command itself has begun and not ended, rather than the change of directory before it.
    fn is_under_way(&self) -> bool {
        self.then.is_none() && self.began.is_some() && self.ended.is_none()
    }
}

/// Returns the length of the hooks of the integration at the end of an output: with `set -v` bash prints what it reads, also
/// where it reads that from a variable.
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

/// Reason why a command is no longer waited for.
enum CommandAbort {
    AtPrompt,
    OutOfTime,
    AwaitsInput(InputRequest),
    Exited(Exit),
    Replaced(String),
    /// The inner shell has ended, and the shell around it reports nothing.
    InnerShellEnded,
}

impl Running {
    fn record_mark(&mut self, marked: &OffsetMark) {
        match marked.mark {
            Mark::LineTaken if self.taken.is_none() => self.taken = Some(marked.offset),
            // Another client typed a line during the command, and the shell executed it without a prompt between.
            Mark::CommandStarted if self.is_one_entry && self.ended.is_some() => self.is_passed = true,
            Mark::CommandStarted => {
                self.began.get_or_insert(marked.offset);
                self.ended = None;
            }
            Mark::HookBegan => self.hook_began = Some(marked.offset),
            Mark::HookEnded => {
                let hook = self.hook_began.take().map(|began| began..marked.offset);
                self.hooks.extend(hook.filter(|hook| !hook.is_empty()));
            }
            Mark::OutputPiped => self.is_piped |= self.ended.is_none(),
            // fish reports each end twice.
            Mark::CommandEnded(code) if self.ended.is_none() => {
                self.ended = Some(marked.offset);
                self.exit_code = code;
            }
            Mark::LineRefused => self.refused = self.refused.or(Some(marked.offset)),
            Mark::PromptClaimed => self.claimed = Some(marked.offset),
            Mark::MoreWanted if self.asks > 0 => self.asks -= 1,
            Mark::MoreWanted => self.incomplete = true,
            _ => {}
        }
    }
}

impl Task {
    /// Enters a command now, or when the shell reaches its prompt; refuses it if no prompt can follow.
    pub(super) fn begin_command(&mut self, request: CommandRequest, reply: Reply) {
        let now = Instant::now();
        let (until, deadline) = (now + PROMPT_TIMEOUT.min(request.timeout), now + request.timeout);
        let (look_at, pause, was_starting) = (now, MIN_PAUSE, false);
        self.enter_command(Entering { request, reply, until, was_starting, deadline, look_at, pause });
    }

    /// Tries again to enter the commands that wait for a prompt.
    fn enter_waiting_commands(&mut self) {
        for queued_commands in std::mem::take(&mut self.queued_commands) {
            // A caller that disconnected no longer needs it.
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
        let waits = || match self.input_state() {
            InputState::Awaits => true,
            InputState::Works => false,
            InputState::Relays | InputState::Unknown => {
                Instant::now() >= self.last_output + STABLE_ROW_TIME && !self.row_before_cursor().trim().is_empty()
            }
        };
        let is_starting = match is_first_prompt || is_own_program {
            true => !waits(),
            // The state is that of no program while another one takes the foreground.
            false => self.is_inner_program_starting().is_none_or(|is_starting| is_starting && !waits()),
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

    /// Returns whether the shell has started a program that takes entries, without input since. `None` while the
    /// foreground changes.
    fn is_inner_program_starting(&self) -> Option<bool> {
        if !(self.shell.running && self.shell.began.is_some_and(|began| began >= self.last_input)) {
            return Some(false);
        }
        let shell = self.shell_process();
        let Some(group) = self.pty.foreground().filter(|group| *group != shell) else { return Some(false) };
        let [session, group, shell] = [self.child.pid(), group, shell].map(|pid| pid.as_raw_nonzero().get());
        takes_entries(session, group, shell)
    }

    /// Returns whether the foreground program waits after unread output, so that the row of the cursor may not show its
    /// prompt yet.
    fn has_unread_prompt(&self) -> bool {
        self.pty.has_unread() && self.input_state() == InputState::Awaits
    }

    /// Returns whether the command of the shell began so recently that its program is unknown: the forked process has
    /// not executed it, or has executed one such as `env` that executes another.
    fn has_command_just_begun(&self) -> bool {
        let Some(began) = self.shell.began.filter(|_| self.shell.running) else { return false };
        let is_forked =
            || self.pty.foreground().is_some_and(|group| self.shell.is_forked(group.as_raw_nonzero().get()));
        let age = began.elapsed();
        age < COMMAND_START_TIMEOUT || age < PROMPT_TIMEOUT && is_forked()
    }

    /// Returns whether a line was sent to the shell and the mark of its start may be unread: the shell prints the mark
    /// before it gives the foreground to the program. Precedes a check of the foreground.
    fn has_unread_start(&self) -> bool {
        self.shell.sent && !self.shell.running && self.pty.has_unread()
    }

    /// Returns whether an inner shell has just ended, so that the shell around it is about to show its prompt.
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
        let fit = self.fit_to_run();
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
        let Entering { request, reply, until, was_starting, deadline, pause, .. } = entering;
        let prepared = fit.and_then(|kind| {
            // What a person has approved begins on an empty line. Others may read text there that comes from no client.
            if request.approved_at.is_some()
                && let Some(text) = self.shell.draft.untyped(|| self.intake.behind_prompt())
            {
                return Err(RunError::HalfTyped { text });
            }
            let command = command::normalize(&request.command)?;
            self.check_lines(command.as_bytes())?;
            // Its marks are in its prompts, so that the output begins with the end of the first row.
            if kind == Kind::Posix {
                self.check_width(&command)?;
            }
            let folder = request.working_directory.as_deref();
            Ok((kind, command, folder.map(|folder| command::change_to(folder, kind)).transpose()?))
        });
        let (kind, command, change) = match prepared {
            Ok(prepared) => prepared,
            Err(error @ (RunError::Busy { .. } | RunError::NotIntegrated { .. })) => {
                let now = Instant::now();
                let expected = self.expected_prompt();
                let (until, until_when, error) = match expected {
                    // The last check of the starting program may be long ago.
                    ExpectedPrompt::Soon if was_starting => {
                        let until = (now + PROMPT_TIMEOUT).min(deadline);
                        (until, until, error)
                    }
                    ExpectedPrompt::Soon => (until, until, error),
                    ExpectedPrompt::AfterStart => {
                        (until, deadline, RunError::NoPrompt { program: self.foreground_name() })
                    }
                    ExpectedPrompt::No => (until, now, error),
                };
                let look_at = (now + pause).min(until_when);
                let pause = (2 * pause).min(MAX_PAUSE);
                let was_starting = expected == ExpectedPrompt::AfterStart;
                let entering = Entering { request, reply, until, was_starting, deadline, look_at, pause };
                match now < until_when {
                    true => self.queued_commands.push(entering),
                    false => entering.refuse(&error),
                }
                return;
            }
            Err(error) => {
                // The caller may have stopped listening.
                let _ = reply.send(Err(error));
                return;
            }
        };
        let logged = self.log_command(&request);
        let (first, next_command) = match change {
            Some(change) => (change, Some((command, request.working_directory.unwrap_or_default()))),
            None => (command, None),
        };
        let running = Running {
            reply,
            logged,
            deadline,
            limit: request.limit,
            input: request.input.then(|| InputWatch::new(InputWait::Known, Instant::now())),
            kind,
            then: next_command,
            prompts: 0,
            entered: 0,
            version: 0,
            taken: None,
            began: None,
            ended: None,
            exit_code: None,
            is_one_entry: true,
            has_command: true,
            is_piped: false,
            hook_began: None,
            hooks: Vec::new(),
            is_passed: false,
            asks: 0,
            incomplete: false,
            refused: None,
            claimed: None,
            has_ended_shell: false,
            exit_check_at: None,
            discard_at: None,
        };
        self.enter_line(running, &first);
    }

    fn fit_to_run(&self) -> Result<Kind, RunError> {
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
    pub(super) fn half_typed(&self) -> Option<String> {
        self.typed_line().or_else(|| self.unknown_line().filter(|_| !self.is_drawing_line()))
    }

    /// Returns the text at the prompt that no known key has put there.
    fn unknown_line(&self) -> Option<String> {
        self.shell.draft.unknown(|| self.intake.before_cursor())
    }

    /// Returns whether the shell may still draw what the last keys have done.
    fn is_drawing_line(&self) -> bool {
        let is_key_new = self.last_output < self.last_input && Instant::now() < self.last_input + REDRAW_TIMEOUT;
        is_key_new || self.shell_reading_mode() == ReadingMode::NotYet
    }

    /// Returns the line at the prompt that clients have typed and not entered.
    pub(super) fn typed_line(&self) -> Option<String> {
        self.shell.draft.standing(|| self.intake.behind_prompt())
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
            entered: offset,
            version: self.screen_version,
            taken: None,
            began: None,
            ended: None,
            exit_code: None,
            is_one_entry: asks == 0,
            is_piped: false,
            hook_began: None,
            hooks: Vec::new(),
            has_command: !is_blank(line),
            is_passed: false,
            asks,
            refused: None,
            claimed: None,
            ..running
        });
        self.shell.draft.type_in(b"\r", None);
        self.shell.record_lines(1 + asks, true, None, offset);
        self.outgoing.extend(keys);
        self.write_input();
    }

    /// Processes a mark, after the state of the shell.
    pub(super) fn follow_command(&mut self, marked: &OffsetMark) {
        if let Some(running) = &mut self.running {
            running.record_mark(marked);
            if running.incomplete && marked.mark == Mark::MoreWanted && running.kind != Kind::Fish {
                // Discards the text with the keys that a person would press.
                running.discard_at = Some(Instant::now() + DISCARD_TIMEOUT);
                self.outgoing.extend([0x03]);
                self.write_input();
            }
        }
    }

    /// Answers the caller of a command that has ended, or whose time limit has passed.
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
            || running.is_passed && running.then.is_none()
        {
            CommandAbort::AtPrompt
        } else if has_inner_shell_ended {
            CommandAbort::InnerShellEnded
        } else if Instant::now() >= running.deadline {
            CommandAbort::OutOfTime
        } else if let Some(asks) = self.check_for_input() {
            CommandAbort::AwaitsInput(asks)
        } else {
            return;
        };
        if matches!(abort, CommandAbort::InnerShellEnded) {
            self.leave_ended_shells();
        }
        self.mark_screen();
        let Some(mut running) = self.running.take() else { return };
        if running.incomplete && matches!(abort, CommandAbort::AtPrompt | CommandAbort::OutOfTime) {
            return self.report_result(running.logged, running.reply, Err(RunError::Incomplete));
        }
        if matches!(abort, CommandAbort::AtPrompt)
            && let Some(error) = self.refusal(&running)
        {
            return self.report_result(running.logged, running.reply, Err(error));
        }
        if matches!(abort, CommandAbort::AtPrompt)
            && let Some((line, folder)) = running.then.take()
        {
            if running.exit_code != Some(0) {
                let message = self.command_result(&running, abort).output.trim_end().to_owned();
                return self.report_result(
                    running.logged,
                    running.reply,
                    Err(RunError::NoFolder { folder, said: message }),
                );
            }
            if let Some(elsewhere) = self.other_directory(&folder) {
                let said = format!("none, but the directory is {elsewhere}; a function named `builtin` may exist");
                return self.report_result(running.logged, running.reply, Err(RunError::NoFolder { folder, said }));
            }
            // A person may have begun to type between the change of directory and the command.
            if let Err(holder) = self.write_lock.admits(None) {
                return self.report_result(running.logged, running.reply, Err(RunError::Held(holder)));
            }
            return match self.half_typed() {
                None => self.enter_line(running, &line),
                Some(text) => {
                    let error = Err(RunError::HalfTyped { text });
                    self.report_result(running.logged, running.reply, error);
                }
            };
        }
        let ran = self.command_result(&running, abort);
        self.report_result(running.logged, running.reply, Ok(ran));
    }

    /// Returns the directory of the shell if it differs from the requested one: a function of the user may have
    /// replaced the builtin. `None` if unknown: within an inner shell, and for a name relative to the former directory.
    fn other_directory(&self, folder: &str) -> Option<String> {
        if self.shell.is_inner || !Path::new(folder).is_absolute() {
            return None;
        }
        let file_id = |path: &Path| fs::metadata(path).ok().map(|actual| (actual.dev(), actual.ino()));
        let directory = self.directory()?;
        let (requested, actual) = (file_id(Path::new(folder))?, file_id(Path::new(&directory))?);
        (requested != actual).then_some(directory)
    }

    /// Checks for a wait of the command for input, if a check is due.
    fn check_for_input(&mut self) -> Option<InputRequest> {
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
        let look = self.look_for_input();
        let full_screen = look.screen == ScreenState::Full;
        let waits = self.running.as_mut()?.input()?.looked(look, Awaited::Nothing, now);
        waits.then(|| InputRequest {
            program: self.reader_name(),
            full_screen,
            password: self.states().password,
            screen: self.intake.screen.text(),
        })
    }

    /// Logs the outcome of a command and reports it.
    pub(super) fn report_result(&mut self, logged: u64, reply: Reply, ran: Result<CommandResult, RunError>) {
        self.log_outcome(logged, &ran);
        // The caller may have stopped listening.
        let _ = reply.send(ran);
    }

    /// Returns the reason why the shell ran nothing, or only a part, of a command that has ended.
    fn refusal(&self, running: &Running) -> Option<RunError> {
        let history = self.intake.transcript.history();
        let message = |from: Option<u64>, upto: Option<u64>| {
            let Some(from) = from else { return String::new() };
            let message = settled(&history.read(from..upto.unwrap_or(history.end()).max(from)).1);
            match upto {
                Some(_) => message.trim().to_owned(),
                // The prompt follows without a mark: bash calls no hook after a history event that it has not found.
                None => message.trim_start().lines().next().unwrap_or_default().to_owned(),
            }
        };
        match (running.began, running.refused) {
            (None, _) => {
                let said = message(running.taken, running.ended);
                // A shell without its hook for the beginning of a command reports the end only.
                let may_have_run =
                    running.has_command && running.ended.is_some() && (said.is_empty() || running.exit_code == Some(0));
                (!may_have_run).then_some(RunError::NothingRan { said })
            }
            (Some(_), None) => None,
            (Some(began), Some(_)) if running.kind == Kind::Fish => {
                Some(RunError::NothingRan { said: message(Some(began), running.ended) })
            }
            // Without a message, the exit code is that of the previous command.
            (Some(_), refused) => Some(message(running.taken, refused))
                .filter(|message| !message.is_empty())
                .map(|message| RunError::PartlyRan { said: message }),
        }
    }

    /// Returns the length of the prompt at the end of a command's output whose end has no mark: that of the prompt before
    /// the command, or of the last line.
    fn prompt_length(&self, running: &Running, output: Range<u64>) -> u64 {
        let history = self.intake.transcript.history();
        let before = history.zones(running.entered.saturating_sub(MAX_PROMPT_BYTES)..running.entered);
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
        if !self.shell.has_left() {
            return false;
        }
        let is_around_reporting = self.outer_shells.last().is_some_and(Shell::is_reporting);
        let has_traffic = self.has_traffic();
        let now = Instant::now();
        let Some(running) = &mut self.running else { return false };
        let patience = if is_around_reporting { OUTER_PROMPT_TIMEOUT } else { INNER_EXIT_TIMEOUT };
        let look_at = *running.exit_check_at.get_or_insert(now + patience);
        let settled = self.last_output + INNER_EXIT_TIMEOUT;
        if now < look_at {
            return false;
        }
        if has_traffic || now < settled {
            running.exit_check_at = Some(settled.max(now + INNER_EXIT_TIMEOUT));
            return false;
        }
        true
    }

    fn command_result(&self, running: &Running, abort: CommandAbort) -> CommandResult {
        let history = self.intake.transcript.history();
        let at_prompt = matches!(abort, CommandAbort::AtPrompt);
        let is_unreported = at_prompt && (running.began.is_none() || running.ended.is_none());
        let ended = running.ended.or(running.claimed.filter(|_| at_prompt)).unwrap_or(history.end());
        let mut range = match running.began.or(running.taken.filter(|_| at_prompt)) {
            Some(began) => began..ended.max(began),
            None => running.entered..running.entered,
        };
        if is_unreported && running.ended.is_none() {
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
            // bash reports that it ends, and its traps may print after that.
            let (_, behind) = history.read(end..range.end);
            let word = behind.split_inclusive('\n').next().unwrap_or_default().len() as u64;
            let output =
                excerpt::read_printed(history, &running.printed(&(range.start..end)), Zone::Output, running.limit);
            let behind = excerpt::read_printed(history, &[end + word..range.end], Zone::Output, running.limit);
            if excerpt.tail.is_none() && word <= MAX_FAREWELL_BYTES {
                excerpt.head = output.head + &behind.head;
            }
        }
        // A bash that a signal kills prints nothing.
        let is_killed = running.exit_code.is_some_and(|code| code > 128);
        if running.has_ended_shell && running.kind == Kind::Bash && !is_killed {
            let text = excerpt.tail.as_mut().unwrap_or(&mut excerpt.head);
            let without_farewell = ["exit\n", "logout\n"].into_iter().find_map(|word| text.strip_suffix(word));
            if let Some(length) = without_farewell
                .filter(|output_before| output_before.is_empty() || output_before.ends_with('\n'))
                .map(str::len)
            {
                text.truncate(length);
            }
        }
        if let CommandAbort::AwaitsInput(InputRequest { full_screen: false, .. }) = &abort
            && let Some(rows) = self.marks.moved_rows_since(running.version, &self.intake).filter(|rows| rows.lost == 0)
        {
            // Its question is on the rows that it drew.
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
