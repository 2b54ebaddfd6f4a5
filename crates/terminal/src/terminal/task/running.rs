//! Running one command for a caller that waits for its end.
//!
//! The terminal enters the command at the prompt, and the marks of the shell report the rest. Only one can run in a
//! terminal, because the shell is not at its prompt again before it has ended.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Task;
use crate::command::{self, CommandRequest, CommandResult, Editor, InputRequest, RunError};
use crate::history::Zone;
use crate::integration::Kind;
use crate::limit::Limit;
use crate::lines::settled;
use crate::process::{Exit, InputState, takes_entries};
use crate::terminal::excerpt;
use crate::terminal::input_watch::{Awaited, InputWatch, ScreenState};
use crate::terminal::shell::Shell;
use crate::transcript::{Mark, Marked};
use crate::wait::InputWait;

/// The way back to a caller of a command.
pub(super) type Reply = oneshot::Sender<Result<CommandResult, RunError>>;

/// A command that waits for the shell to be at its prompt again.
///
/// A prompt is on the screen some milliseconds before the terminal has read its mark and learns that the shell has
/// taken every typed line. A caller that saw the prompt must not get a refusal in between.
pub(super) struct Entering {
    pub(super) request: CommandRequest,
    pub(super) reply: Reply,
    /// Time at which the caller gets a refusal, where a shell is to come back to its prompt and does not.
    until: Instant,
    /// True if a program was starting at the last look.
    was_starting: bool,
    /// Time limit of the command, and of the wait for a shell or program that is starting.
    pub(super) deadline: Instant,
    /// Time of the next look for the prompt; each pause is longer.
    pub(super) look_at: Instant,
    pause: Duration,
}

/// The expected prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedPrompt {
    /// The shell comes back to it at any moment.
    Soon,
    /// A shell or another program that takes entries is starting.
    AfterStart,
    /// Something else runs, or requests input.
    No,
}

impl Entering {
    /// Waits for the prompt again: the shell has just got its marks.
    pub(super) fn renew(&mut self) {
        self.until = (Instant::now() + COMES_TO_PROMPT).min(self.deadline);
    }

    /// Reports the reason for the refusal.
    pub(super) fn refuse(self, error: &RunError) {
        // The caller may have stopped listening.
        let _ = self.reply.send(Err(error.clone()));
    }

    /// Reports that the shell is integrated, for a request without a command.
    fn report_integrated(self, offset: u64) {
        let result = CommandResult {
            output: String::new(),
            tail: None,
            left_out: 0,
            next: offset,
            dropped_before: None,
            exit_code: None,
            timed_out: false,
            ended: None,
            replaced_by: None,
            not_entered: None,
            asks: None,
            offset,
            end: offset,
            version: None,
        };
        // The caller may have stopped listening.
        let _ = self.reply.send(Ok(result));
    }
}

/// Times of the looks for a prompt without marks, after the last output.
const PROMPT_LOOKS: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(500)];

/// Time limit of a command's wait for a shell that is in the foreground itself and not at its prompt yet.
const COMES_TO_PROMPT: Duration = Duration::from_secs(2);

/// Maximum age of a command whose program may still execute another one.
const COMMAND_START_TIMEOUT: Duration = Duration::from_millis(500);

/// The first pause between two looks for the prompt of a program that is starting, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Required silence of a program that passes input on, until the row of the cursor is not a beginning.
const STANDS_STILL: Duration = Duration::from_secs(3);

/// A command with a waiting caller.
pub(super) struct Running {
    reply: Reply,
    /// Its entry in the log of inputs.
    logged: u64,
    pub(super) deadline: Instant,
    limit: Limit,
    /// Ends when the command waits for input; none where the caller waits for its end only.
    input: Option<InputWatch>,
    kind: Kind,
    /// Command to enter once this one has succeeded, and the folder that this one changes to.
    then: Option<(String, String)>,
    /// The command has ended when the shell has shown more prompts than this.
    prompts: u64,
    /// Offsets: of all output at the entry of the line, where the shell took it, where the command began and ended.
    entered: u64,
    /// Version of the screen just before the entry of the line.
    version: u64,
    taken: Option<u64>,
    began: Option<u64>,
    ended: Option<u64>,
    exit_code: Option<i32>,
    /// Entered as one line or one paste, with one end mark.
    is_one_entry: bool,
    /// Another command has started after its end.
    is_passed: bool,
    /// Number of times that the shell requests more and gets it: where it has no line editor it reads line by line.
    asks: usize,
    /// The shell wants more than it got.
    incomplete: bool,
    /// Offset at which the shell had taken a line that it may not have understood.
    refused: Option<u64>,
    /// Offset of the last output that may be a prompt.
    claimed: Option<u64>,
    /// The inner shell of the command has exited.
    pub(super) has_ended_shell: bool,
    /// Time of the next look for the last output of an inner shell that has exited.
    left: Option<Instant>,
    /// Time to send the end of input once more: a shell that is just about to read loses typed input.
    take_back: Option<Instant>,
}

/// The longest line that a shell prints for its own end, such as `logout`, in bytes.
const MAX_FAREWELL_BYTES: u64 = 32;

/// Time limit for a shell to give up what was not complete.
const TAKES_BACK: Duration = Duration::from_millis(250);

/// Time limit for the last output of an inner shell that has exited, and for the mark of its outer shell.
const INNER_EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The same for an outer shell that reports its prompts.
const OUTER_PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

impl Running {
    /// Returns the time of its next step.
    pub(super) fn due(&self) -> Instant {
        let look = self.input.as_ref().filter(|_| self.is_under_way()).map(InputWatch::due);
        [self.take_back, look, self.left].into_iter().flatten().fold(self.deadline, Instant::min)
    }

    /// Returns the watch over its input.
    pub(super) fn input(&mut self) -> Option<&mut InputWatch> {
        self.input.as_mut()
    }

    /// Returns whether the command itself has begun and not ended, rather than the change of directory before it.
    fn is_under_way(&self) -> bool {
        self.then.is_none() && self.began.is_some() && self.ended.is_none()
    }
}

/// Reason why a command is no longer waited for.
enum CommandAbort {
    AtPrompt,
    OutOfTime,
    AwaitsInput(InputRequest),
    Exited(Exit),
    Replaced(String),
    /// The inner shell has ended, and the shell around it reports nothing.
    Left,
}

impl Running {
    fn record_mark(&mut self, marked: &Marked) {
        match marked.mark {
            Mark::LineTaken if self.taken.is_none() => self.taken = Some(marked.offset),
            // Another client typed a line during the command: the shell has executed it without a prompt between.
            Mark::CommandStarted if self.is_one_entry && self.ended.is_some() => self.is_passed = true,
            Mark::CommandStarted => {
                self.began.get_or_insert(marked.offset);
                self.ended = None;
            }
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
    /// Enters a command now, or as soon as the shell reaches its prompt; refuses it where no prompt can follow.
    pub(super) fn begin_command(&mut self, request: CommandRequest, reply: Reply) {
        let now = Instant::now();
        let (until, deadline) = (now + COMES_TO_PROMPT.min(request.timeout), now + request.timeout);
        let (look_at, pause, was_starting) = (now, FIRST_PAUSE, false);
        self.enter_command(Entering { request, reply, until, was_starting, deadline, look_at, pause });
    }

    /// Tries again to enter the commands that wait for a prompt.
    fn enter_waiting_commands(&mut self) {
        for queued_commands in std::mem::take(&mut self.queued_commands) {
            // A caller that disconnected does not want it any more.
            if !queued_commands.reply.is_closed() {
                self.enter_command(queued_commands);
            }
        }
    }

    /// Returns whether the shell itself is in the foreground, so that its prompt may come at any moment.
    fn comes_to_prompt(&self) -> bool {
        self.shell.integration.is_some()
            && !self.shell.is_replaced()
            && self.running.is_none()
            && self.pty.foreground() == Some(self.shell_process())
    }

    /// Returns whether the foreground program is about to show a prompt, by all signs.
    fn expected_prompt(&self) -> ExpectedPrompt {
        if self.running.is_some() || self.entry.is_some() || self.intake.screen.modes().alternate_screen {
            return ExpectedPrompt::No;
        }
        let is_own_program = self.shell.integration.is_none() || self.shell.is_replaced();
        let is_first_prompt = !is_own_program && !self.shell.is_inner && self.shell.prompts == 0;
        // Reads the processes only where the answer depends on them.
        let waits = || match self.input_state() {
            InputState::Awaits => true,
            InputState::Works => false,
            InputState::Relays | InputState::Unknown => {
                Instant::now() >= self.last_output + STANDS_STILL && !self.row_before_cursor().trim().is_empty()
            }
        };
        let is_starting = match is_first_prompt || is_own_program {
            true => !waits(),
            // While another program takes the foreground, its state is that of none.
            false => self.is_inner_program_starting().is_none_or(|is_starting| is_starting && !waits()),
        };
        if is_starting {
            ExpectedPrompt::AfterStart
        } else if is_first_prompt
            || self.comes_to_prompt()
            || self.has_just_left()
            || self.shows_known_prompt()
            || self.has_unread_prompt()
            || self.has_command_just_begun()
            || self.has_unread_start()
        {
            ExpectedPrompt::Soon
        } else {
            ExpectedPrompt::No
        }
    }

    /// Returns whether the shell has started a program that takes entries, and there was no input since. None while the
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

    /// Returns whether the foreground program waits after unread output: the row of the cursor does not show its prompt
    /// so far.
    fn has_unread_prompt(&self) -> bool {
        self.pty.has_unread() && self.input_state() == InputState::Awaits
    }

    /// Returns whether the command of the shell is so young that its program is unknown: the process forked for it has
    /// not executed it, or has executed one such as `env` that executes another.
    fn has_command_just_begun(&self) -> bool {
        let Some(began) = self.shell.began.filter(|_| self.shell.running) else { return false };
        let is_forked =
            || self.pty.foreground().is_some_and(|group| self.shell.is_forked(group.as_raw_nonzero().get()));
        let age = began.elapsed();
        age < COMMAND_START_TIMEOUT || age < COMES_TO_PROMPT && is_forked()
    }

    /// Returns whether the shell has been sent a line, and the mark of its start may be unread: the shell prints the mark and
    /// hands the foreground over after that. For a look after that at the foreground.
    fn has_unread_start(&self) -> bool {
        self.shell.sent && !self.shell.running && self.pty.has_unread()
    }

    /// Returns whether an inner shell ended a moment ago, so that the shell around it is about to show its prompt.
    fn has_just_left(&self) -> bool {
        self.inner_ended_at.is_some_and(|left| Instant::now() < left + COMES_TO_PROMPT)
    }

    /// Returns the time of the next look at the row of the cursor for commands that wait for a prompt without marks: a
    /// moment after the last output, and once more. A shell reads a little after it has shown its prompt.
    pub(super) fn prompt_look_at(&self) -> Option<Instant> {
        let now = Instant::now();
        PROMPT_LOOKS.iter().map(|pause| self.last_output + *pause).find(|at| *at > now)
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
            let command = command::entered(&request.command)?;
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
                    // The last look at the program while it was starting may be long ago.
                    ExpectedPrompt::Soon if was_starting => {
                        let until = (now + COMES_TO_PROMPT).min(deadline);
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
        let (first, then) = match change {
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
            then,
            prompts: 0,
            entered: 0,
            version: 0,
            taken: None,
            began: None,
            ended: None,
            exit_code: None,
            is_one_entry: true,
            is_passed: false,
            asks: 0,
            incomplete: false,
            refused: None,
            claimed: None,
            has_ended_shell: false,
            left: None,
            take_back: None,
        };
        self.enter(running, &first);
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
        if let Some(text) = self.half_typed() {
            return Err(RunError::HalfTyped { text });
        }
        if !self.outgoing.is_empty() {
            return Err(RunError::Full { waiting: self.outgoing.len() });
        }
        Ok(kind)
    }

    /// Returns the typed text at the prompt without its Enter.
    pub(super) fn half_typed(&self) -> Option<String> {
        self.shell.draft.standing(|| self.intake.behind_prompt())
    }

    /// Enters a line, whose end `running` waits for.
    fn enter(&mut self, running: Running, line: &str) {
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
            is_passed: false,
            asks,
            refused: None,
            claimed: None,
            ..running
        });
        self.shell.draft.type_in(b"\r", None);
        self.shell.send_off(1 + asks, None, offset);
        self.outgoing.extend(keys);
        self.write_waiting();
    }

    /// Takes in a mark, after the shell's own state has.
    pub(super) fn follow_command(&mut self, marked: &Marked) {
        if let Some(running) = &mut self.running {
            running.record_mark(marked);
            if running.incomplete && marked.mark == Mark::MoreWanted && running.kind != Kind::Fish {
                // Taken back as a person would.
                running.take_back = Some(Instant::now() + TAKES_BACK);
                self.outgoing.extend([0x03]);
                self.write_waiting();
            }
        }
    }

    /// Answers the callers of a command, if it has ended or their time is up.
    pub(super) fn check_command(&mut self) {
        self.enter_waiting_commands();
        if let Some(running) = &mut self.running
            && let Some(again) = &mut running.take_back
            && Instant::now() >= *again
        {
            *again = Instant::now() + TAKES_BACK;
            self.outgoing.extend([0x03]);
            self.write_waiting();
        }
        if self.running.is_none() {
            return;
        }
        let left = self.has_left_for_good();
        let Some(running) = &self.running else { return };
        let over = if let Some(exit) = self.exit() {
            CommandAbort::Exited(exit)
        } else if let Some(program) = self.shell.replaced_by.clone() {
            CommandAbort::Replaced(program)
        } else if self.shell.prompts > running.prompts && self.shell.at_prompt
            || running.is_passed && running.then.is_none()
        {
            CommandAbort::AtPrompt
        } else if left {
            CommandAbort::Left
        } else if Instant::now() >= running.deadline {
            CommandAbort::OutOfTime
        } else if let Some(asks) = self.input_request() {
            CommandAbort::AwaitsInput(asks)
        } else {
            return;
        };
        if matches!(over, CommandAbort::Left) {
            self.leave_ended_shells();
        }
        self.mark_screen();
        let Some(mut running) = self.running.take() else { return };
        if running.incomplete && matches!(over, CommandAbort::AtPrompt | CommandAbort::OutOfTime) {
            return self.report_result(running.logged, running.reply, Err(RunError::Incomplete));
        }
        if matches!(over, CommandAbort::AtPrompt)
            && let Some(error) = self.refusal(&running)
        {
            return self.report_result(running.logged, running.reply, Err(error));
        }
        if matches!(over, CommandAbort::AtPrompt)
            && let Some((line, folder)) = running.then.take()
        {
            if running.exit_code != Some(0) {
                let message = self.ran(&running, over).output.trim_end().to_owned();
                return self.report_result(
                    running.logged,
                    running.reply,
                    Err(RunError::NoFolder { folder, said: message }),
                );
            }
            if let Some(elsewhere) = self.elsewhere(&folder) {
                let said = format!("nothing, but it is in {elsewhere}; a function may have the name `builtin`");
                return self.report_result(running.logged, running.reply, Err(RunError::NoFolder { folder, said }));
            }
            // A person may have begun to type between the change of directory and the command.
            if let Err(holder) = self.write_lock.admits(None) {
                return self.report_result(running.logged, running.reply, Err(RunError::Held(holder)));
            }
            return match self.half_typed() {
                None => self.enter(running, &line),
                Some(text) => {
                    let error = Err(RunError::HalfTyped { text });
                    self.report_result(running.logged, running.reply, error);
                }
            };
        }
        let ran = self.ran(&running, over);
        self.report_result(running.logged, running.reply, Ok(ran));
    }

    /// Returns the directory of the shell if that is another one than the named one: a function of the user may have taken
    /// the change. None where that is not known: within an inner shell, and of a name that begins at the former directory.
    fn elsewhere(&self, folder: &str) -> Option<String> {
        if self.shell.is_inner || !Path::new(folder).is_absolute() {
            return None;
        }
        let place = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let directory = self.directory()?;
        let (wanted, found) = (place(Path::new(folder))?, place(Path::new(&directory))?);
        (wanted != found).then_some(directory)
    }

    /// Looks whether the command waits for input, if it is time to.
    fn input_request(&mut self) -> Option<InputRequest> {
        let now = Instant::now();
        let is_due = self
            .running
            .as_mut()
            .is_some_and(|running| running.is_under_way() && running.input().is_some_and(|watch| now >= watch.due()));
        if !is_due {
            return None;
        }
        if self.is_stirring() {
            self.running.as_mut()?.input()?.stirred(now);
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

    /// Returns the reason that the shell ran nothing, or not all, of a command at whose end it is.
    fn refusal(&self, running: &Running) -> Option<RunError> {
        let history = self.intake.transcript.history();
        let message = |from: Option<u64>, upto: Option<u64>| {
            let Some(from) = from else { return String::new() };
            let message = settled(&history.read(from..upto.unwrap_or(history.end()).max(from)).1);
            match upto {
                Some(_) => message.trim().to_owned(),
                // The prompt follows, without a mark: bash calls no hook after an event that it has not found.
                None => message.trim_start().lines().next().unwrap_or_default().to_owned(),
            }
        };
        match (running.began, running.refused) {
            (None, _) => Some(RunError::NothingRan { said: message(running.taken, running.ended) }),
            (Some(_), None) => None,
            (Some(began), Some(_)) if running.kind == Kind::Fish => {
                Some(RunError::NothingRan { said: message(Some(began), running.ended) })
            }
            // Without a message, the exit code is that of the command before.
            (Some(_), refused) => Some(message(running.taken, refused))
                .filter(|message| !message.is_empty())
                .map(|message| RunError::PartlyRan { said: message }),
        }
    }

    /// Returns whether the inner shell has exited and its last output has arrived.
    fn has_left_for_good(&mut self) -> bool {
        let has_left = self.shell.has_left();
        let is_around_reporting = self.outer_shells.last().is_some_and(Shell::is_reporting);
        let is_stirring = self.is_stirring();
        let now = Instant::now();
        let Some(running) = self.running.as_mut().filter(|_| has_left) else { return false };
        let patience = if is_around_reporting { OUTER_PROMPT_TIMEOUT } else { INNER_EXIT_TIMEOUT };
        let look_at = *running.left.get_or_insert(now + patience);
        let settled = self.last_output + INNER_EXIT_TIMEOUT;
        if now < look_at {
            return false;
        }
        if is_stirring || now < settled {
            running.left = Some(settled.max(now + INNER_EXIT_TIMEOUT));
            return false;
        }
        true
    }

    fn ran(&self, running: &Running, over: CommandAbort) -> CommandResult {
        let history = self.intake.transcript.history();
        let at_prompt = matches!(over, CommandAbort::AtPrompt);
        let ended = running.ended.or(running.claimed.filter(|_| at_prompt)).unwrap_or(history.end());
        let range = match running.began {
            Some(began) => began..ended.max(began),
            None => running.entered..running.entered,
        };
        let mut excerpt = excerpt::read_printed(history, std::slice::from_ref(&range), Zone::Output, running.limit);
        if matches!(over, CommandAbort::Exited(_))
            && let Some(end) = self.intake.transcript.output_end().filter(|end| range.contains(end))
        {
            // bash reports that it ends, and its traps may print after that.
            let (_, behind) = history.read(end..range.end);
            let word = behind.split_inclusive('\n').next().unwrap_or_default().len() as u64;
            let output = excerpt::read_printed(history, &[range.start..end], Zone::Output, running.limit);
            let behind = excerpt::read_printed(history, &[end + word..range.end], Zone::Output, running.limit);
            if excerpt.tail.is_none() && word <= MAX_FAREWELL_BYTES {
                excerpt.head = output.head + &behind.head;
            }
        }
        // A bash that a signal ends prints nothing.
        let is_killed = running.exit_code.is_some_and(|code| code > 128);
        if running.has_ended_shell && running.kind == Kind::Bash && !is_killed {
            let text = excerpt.tail.as_mut().unwrap_or(&mut excerpt.head);
            let said_by_bash = ["exit\n", "logout\n"].into_iter().find_map(|word| text.strip_suffix(word));
            if let Some(length) = said_by_bash.filter(|rest| rest.is_empty() || rest.ends_with('\n')).map(str::len) {
                text.truncate(length);
            }
        }
        if let CommandAbort::AwaitsInput(InputRequest { full_screen: false, .. }) = &over
            && let Some(rows) = self.marks.moved_rows_since(running.version, &self.intake).filter(|rows| rows.lost == 0)
        {
            // Its question is on the rows that it drew on.
            excerpt = excerpt::join_lines(rows.changed_below_command(&self.intake), excerpt.next, running.limit);
        }
        CommandResult {
            exit_code: match &over {
                CommandAbort::AtPrompt => running.exit_code,
                CommandAbort::Exited(exit) => Some(exit.code),
                _ => None,
            },
            timed_out: matches!(over, CommandAbort::OutOfTime),
            ended: match &over {
                CommandAbort::Exited(exit) => Some(*exit),
                _ => None,
            },
            replaced_by: match &over {
                CommandAbort::Replaced(program) => Some(program.clone()),
                _ => None,
            },
            not_entered: None,
            asks: match over {
                CommandAbort::AwaitsInput(asks) => Some(asks),
                _ => None,
            },
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
