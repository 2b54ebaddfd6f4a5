//! The task that owns a terminal's parts and serves its requests.
//!
//! One `select!` waits for all events: requests, output, write readiness, the exit of the program, a deadline. After
//! each event, the task checks every pending wait.

mod entry;
mod exchanging;
mod inner;
mod logging;
mod running;
mod states;

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::Pid;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use self::entry::PromptEntry;
use self::exchanging::Exchanging;
use self::inner::HiddenLineTask;
use self::running::{Entering, Running};
use self::states::States;
use super::answers::{Answers, COMMAND_END_TIMEOUT, Reader, SHELL_PROMPT_TIMEOUT, ShellReader};
use super::draft::is_blank;
use super::floods::{FloodSlot, OutputScheduler};
use super::input_watch::{AwaitedContent, InputWatch};
use super::outgoing::{EscapeReader, Keystrokes, Outgoing, PauseReader, PausedKey};
use super::screen_marks::ScreenMarks;
use super::shell::{DoubtfulPrompt, Shell};
use super::viewers::QueryFilter;
use super::watchers::ScreenWatchers;
use super::write_lock::WriteLock;
use super::{
    Attached, Closed, Closing, Description, Input, InputError, Lifecycle, Output, Request, ScreenUpdate, Sent, View,
    excerpt,
};
use crate::activity::Activity;
use crate::command::{self, is_shell_name};
use crate::echo::{Echo, FollowResult};
use crate::hidden_input::{HiddenInputLog, HiddenLine};
use crate::history::Zone;
use crate::input_log::{InputLog, LoggedAction};
use crate::intake::OutputPipeline;
use crate::integration::{IntegrationSession, Kind};
use crate::keys;
use crate::line_limit::{self, LineTooLong, MAX_BUSYBOX_LINE_BYTES, MAX_LINE_BYTES};
use crate::mouse;
use crate::output_log::{CurrentScreen, OutputLog};
use crate::pointer;
use crate::process::{
    Child, Discipline, Exit, InputState, Pty, Read, Reading, SessionLeader, end_all, is_multiplexer, is_relay,
    signal_group,
};
use crate::prompt::LearnedPrompt;
use crate::screen::{Screen, Size, highlights, row_of_cursor, styled_rows};
use crate::transcript::{Mark, Motion, Transcript};
use crate::wait::{
    EchoZones, InputReading, InputWait, Pass, PatternMatch, Quiet, Reason, Search, Target, Until, Wait, Waited,
    search_screen,
};

/// Parts of a terminal.
pub(crate) struct TerminalParts {
    pub(crate) pty: Pty,
    pub(crate) child: Child,
    pub(crate) screen: Box<dyn Screen>,
    pub(crate) transcript: Transcript,
    /// Fixed properties, and properties that the task updates.
    pub(crate) description: Description,
    /// The integration session of the terminal's shell, if there is one.
    pub(crate) integration: Option<IntegrationSession>,
    /// Retention period after the end of the program; the terminal stays readable until then.
    pub(crate) grace: Duration,
    /// Idle timeout: without a writer, viewer, wait or output, the terminal closes after this time.
    pub(crate) idle: Option<Duration>,
    /// True to log requests.
    pub(crate) logs_inputs: bool,
    /// Log of lines typed without echo.
    pub(crate) hidden_log: HiddenInputLog,
    /// Scheduler of terminals that print without pause.
    pub(crate) scheduler: OutputScheduler,
    /// Notifies of activity in the terminal.
    pub(crate) activity: Activity,
    /// Lifecycle state, shared with the handles.
    pub(crate) life: Lifecycle,
}

/// Maximum number of reads per turn, so that continuous output does not delay requests.
const READS_PER_TURN: usize = 3;

/// Number of reads per turn that are followed by a check of the waits.
const CHECKED_READS: usize = 2;

/// Maximum number of bytes of input that the program has not read yet.
const MAX_WAITING_INPUT_BYTES: usize = 4 << 20;

/// Output within this time before an input is treated as the program's own, unless it may be the response to the
/// previous input ([`RESPONSE_WINDOW`]).
const NOISE_WINDOW: Duration = Duration::from_millis(150);

/// Output within this time after an input may be its response.
const RESPONSE_WINDOW: Duration = Duration::from_millis(300);

/// Maximum time to drain output after the end of the program, if another process holds the terminal open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum delay of the quiet period by unread input. A program may never read the input.
const UNREAD_INPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of chunks that a viewer may lag behind before it receives the whole screen again.
const VIEWER_BACKLOG_CHUNKS: usize = 256;

struct Task {
    pty: Pty,
    child: Child,
    intake: OutputPipeline,
    description: Description,
    grace: Duration,
    activity: Activity,
    life: Lifecycle,
    echo: Echo,
    /// The innermost integrated shell.
    shell: Shell,
    /// The shells around it, outermost first.
    outer_shells: Vec<Shell>,
    /// End time of the last inner shell.
    inner_ended_at: Option<Instant>,
    outgoing: Outgoing,
    /// True if the program was already printing before the last input.
    is_noisy: bool,
    /// Replies to terminal queries that no program can read yet.
    answers: Answers,
    inputs: InputLog,
    output_log: OutputLog,
    /// Log entry of the line that the shell runs, and the offset of its output.
    entered: Option<(u64, u64)>,
    write_lock: WriteLock,
    idle: Option<Duration>,
    /// Time of the last use.
    last_use: Instant,
    hidden_log: HiddenInputLog,
    hidden_line: HiddenLine,
    flood_slot: FloodSlot,
    /// True if the program's side is closed: no output follows, and no program reads input.
    closed: bool,
    /// Exit of the program, and the deadline for draining its output.
    ending: Option<(Exit, Instant)>,
    /// Exit of the program after all output was read, and the end of the retention period.
    ended: Option<(Exit, Instant)>,
    input_offset: u64,
    last_input: Instant,
    last_output: Instant,
    /// Version of the screen, incremented with each change.
    screen_version: u64,
    marks: ScreenMarks,
    /// Version of the screen at the last typed input.
    input_screen_version: u64,
    /// The command that a caller waits for.
    running: Option<Running>,
    /// Commands that wait for the shell's prompt, oldest first.
    queued_commands: Vec<Entering>,
    /// The exchange that the shell has not answered yet.
    exchanging: Option<Exchanging>,
    /// A line that the terminal itself types into an inner shell.
    typed_line: Option<HiddenLineTask>,
    /// The entry at a prompt without marks that a caller waits for.
    entry: Option<PromptEntry>,
    /// The prompt of the last entry.
    last_prompt: Option<LearnedPrompt>,
    /// The program that returned to that prompt, and the time of the input before it.
    reached_prompt: Option<(Pid, Instant)>,
    waits: Vec<PendingWait>,
    watchers: ScreenWatchers,
    viewers: broadcast::Sender<Output>,
    query_filter: QueryFilter,
}

/// A pending wait of a caller.
struct PendingWait {
    search: Search,
    has_patterns: bool,
    /// Start offset of the search.
    from: u64,
    /// Patterns of a wait on the screen, and the screen version searched last.
    screen: Option<(Vec<steplatch_pattern::Pattern>, u64)>,
    /// The shell's count of prompts at the start of the wait. The next prompt ends the wait.
    prompt_after: Option<u64>,
    /// The number of the last line of its client. A wait for the prompt ends at the prompt after that line, even if
    /// other clients have typed lines ahead.
    own_line: Option<u64>,
    quiet: Option<Quiet>,
    /// Latest start of the quiet period, if unread input delays it.
    unread_until: Instant,
    /// Checks of the program, if the wait ends when it waits for input.
    input: Option<InputWatch>,
    /// Required reading mode of the program; a match ends the wait only in this mode.
    reads: Option<InputReading>,
    /// True if the program must read whole lines for `reads`.
    reads_lines: bool,
    /// The texts that must be highlighted on the screen for a match there.
    highlighted: Vec<String>,
    /// The match, while the wait continues until the program reads input.
    matched: Option<PatternMatch>,
    /// Screen version at the last search, if `reads` is set.
    searched_at: Option<u64>,
    /// Start of the wait, or the time of the last byte of its input.
    started_at: Instant,
    /// True if output has arrived since `started_at`.
    has_output: bool,
    deadline: Instant,
    missed_before: Option<u64>,
    /// Data for the log of inputs. The log records the wait at its end.
    logged: Option<LoggedWait>,
    reply: Reply,
}

/// Data about a named client's wait, for the log of inputs.
struct LoggedWait {
    by: String,
    patterns: Vec<String>,
}

enum Reply {
    Wait(u64, oneshot::Sender<(Waited, View)>),
    Sent {
        offset: u64,
        /// Version of the screen just before the input.
        version: u64,
        /// Number of bytes written to the terminal at the end of the input.
        input_end: u64,
        /// The last line that the input enters.
        line: Option<u64>,
        reply: oneshot::Sender<Result<Sent, InputError>>,
    },
    Ready(oneshot::Sender<View>),
}

impl PendingWait {
    /// Returns whether a shell prompt ends the wait, in addition to a match.
    fn is_for_prompt(&self) -> bool {
        self.prompt_after.is_some() && matches!(self.reply, Reply::Wait(..))
    }

    /// Returns whether only a shell prompt or an exit ends the wait, but not a question of a quiet program.
    fn needs_prompt(&self) -> bool {
        self.is_for_prompt() && !self.input.as_ref().is_some_and(InputWatch::accepts_guess)
    }

    fn quiet_at(&self, last_output: Instant) -> Option<Instant> {
        let quiet = self.quiet?;
        Some(if self.has_output {
            last_output.max(self.started_at) + quiet.after_output
        } else {
            self.started_at + quiet.without_output
        })
    }
}

/// Runs a terminal until its close, then calls `on_removed`.
pub(crate) async fn run(
    parts: TerminalParts,
    mut requests: mpsc::UnboundedReceiver<Request>,
    on_removed: impl FnOnce() + Send,
) {
    let shell = Shell::new(parts.integration, parts.description.pid);
    let mut task = Task {
        pty: parts.pty,
        child: parts.child,
        intake: OutputPipeline::new(parts.transcript, parts.screen),
        description: parts.description,
        grace: parts.grace,
        activity: parts.activity,
        life: parts.life,
        echo: Echo::default(),
        shell,
        outer_shells: Vec::new(),
        inner_ended_at: None,
        outgoing: Outgoing::default(),
        is_noisy: false,
        answers: Answers::default(),
        inputs: InputLog::new(parts.logs_inputs),
        output_log: OutputLog::new(parts.logs_inputs),
        entered: None,
        write_lock: WriteLock::default(),
        idle: parts.idle,
        last_use: Instant::now(),
        hidden_log: parts.hidden_log,
        hidden_line: HiddenLine::default(),
        flood_slot: FloodSlot::new(parts.scheduler),
        closed: false,
        ending: None,
        ended: None,
        input_offset: 0,
        last_input: Instant::now(),
        last_output: Instant::now(),
        screen_version: 0,
        marks: ScreenMarks::default(),
        input_screen_version: 0,
        running: None,
        queued_commands: Vec::new(),
        exchanging: None,
        typed_line: None,
        entry: None,
        last_prompt: None,
        reached_prompt: None,
        waits: Vec::new(),
        watchers: ScreenWatchers::default(),
        viewers: broadcast::Sender::new(VIEWER_BACKLOG_CHUNKS),
        query_filter: QueryFilter::default(),
    };
    let closing = task.serve(&mut requests).await;
    task.life.close();
    let closed = task.close(closing.as_ref().map(|(closing, _)| *closing).unwrap_or_default()).await;
    on_removed();
    if let Some((_, reply)) = closing {
        // Ignore the error, because the caller may have disconnected.
        let _ = reply.send(closed);
    }
}

type ClosingRequest = Option<(Closing, oneshot::Sender<Closed>)>;

/// Returns the screen for the log of output.
fn current_screen(intake: &OutputPipeline) -> CurrentScreen<impl Fn() -> String> {
    let screen = &intake.screen;
    let is_alternate = screen.modes().alternate_screen;
    CurrentScreen { size: screen.size(), is_alternate, snapshot: || screen.snapshot() }
}

/// Returns a time in milliseconds since 1970.
fn epoch_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Task {
    /// Serves requests until the terminal is closed, its grace time has passed, or no handle is left.
    async fn serve(&mut self, requests: &mut mpsc::UnboundedReceiver<Request>) -> ClosingRequest {
        loop {
            let has_unsearched_output = self.check_waits();
            self.answer_watchers();
            let deadline = self.next_deadline();
            let readable = !self.closed;
            tokio::select! {
                request = requests.recv() => match request {
                    None => return None,
                    Some(Request::Close(closing, reply)) => return Some((closing, reply)),
                    Some(request) => self.handle(request),
                },
                result = self.pty.readable(), if readable && !self.flood_slot.is_flooding() => self.take_turn(result),
                turn = self.flood_slot.wait_for_turn(), if readable && self.flood_slot.is_flooding() => {
                    self.take_turn(Ok(()));
                    drop(turn);
                    // Yield even if no other terminal is flooding, so that other tasks run.
                    tokio::task::yield_now().await;
                }
                _ = self.pty.writable(), if !self.closed && self.has_due_input() => self.write_input(),
                exit = self.child.wait(), if self.ending.is_none() && self.ended.is_none() => {
                    let exit = exit.unwrap_or(Exit { code: -1, signal: None });
                    self.ending = Some((exit, Instant::now() + DRAIN_TIMEOUT));
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {}
                () = tokio::task::yield_now(), if has_unsearched_output => {}
            }
            self.end_if_over();
            let now = Instant::now();
            if self.ended.is_some_and(|(_, until)| now >= until) || self.idle_until().is_some_and(|until| now >= until)
            {
                return None;
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waits = self.waits.iter().flat_map(|wait| {
            let quiet = wait.quiet_at(self.last_output);
            let check_at = wait.input.as_ref().map(InputWatch::due);
            let silent = [quiet, check_at].into_iter().flatten().filter(|_| self.outgoing.is_empty());
            silent.chain([wait.deadline])
        });
        let deadlines = [
            self.ending.map(|(_, until)| until),
            self.ended.map(|(_, until)| until),
            self.shell.doubt.as_ref().map(|doubt| doubt.next_check),
            self.shell.next_check,
            self.running.as_ref().map(Running::due),
            self.exchanging.as_ref().map(|exchanging| exchanging.deadline),
            self.typed_line.as_ref().map(|line| line.deadline),
            self.entry.as_ref().map(PromptEntry::due),
            self.outgoing.held_until(),
            self.answers.next_check().filter(|_| !self.flood_slot.is_flooding()),
            self.intake.screen.held_until().map(Instant::from_std),
            self.idle_until(),
        ];
        let queued_commands = self.queued_commands.iter().map(|queued| queued.next_check);
        let prompt = self.next_prompt_check().filter(|_| !self.queued_commands.is_empty());
        waits.chain(deadlines.into_iter().flatten()).chain(queued_commands).chain(prompt).min()
    }

    /// Returns the closing time of the unused terminal.
    fn idle_until(&self) -> Option<Instant> {
        let used = !self.waits.is_empty()
            || self.running.is_some()
            || self.entry.is_some()
            || self.is_typing_itself()
            || !self.watchers.is_empty()
            || self.viewers.receiver_count() > 0;
        self.idle.filter(|_| !used).map(|idle| self.last_use.max(self.last_output) + idle)
    }

    /// Returns whether the terminal is typing on its own, and so cannot enter a command.
    fn is_typing_itself(&self) -> bool {
        self.exchanging.is_some() || self.typed_line.is_some()
    }

    fn handle(&mut self, request: Request) {
        self.leave_ended_shells();
        if !matches!(request, Request::Describe(_) | Request::Forget(_)) {
            self.last_use = Instant::now();
        }
        if request.may_change_state() {
            self.activity.record_event();
        }
        // Ignore errors of replies, because a disconnected caller needs no reply.
        match request {
            Request::Send(input, reply) => self.send(&input, reply),
            Request::Wait(wait, number, reply) => self.begin_wait(wait, number, reply),
            Request::Forget(number) => {
                self.waits.retain(|wait| !matches!(wait.reply, Reply::Wait(known, _) if known == number));
            }
            Request::Ready(quiet, timeout, reply) => {
                let mut wait = self.new_wait(Vec::new(), 0, timeout, Reply::Ready(reply));
                wait.prompt_after = Some(0);
                wait.quiet = Some(quiet);
                wait.has_output = self.intake.transcript.history().end() > 0;
                self.waits.push(wait);
            }
            Request::View(colours, reply) => {
                let view = self.view(colours, self.states());
                let _ = reply.send(view);
            }
            Request::Picture(reply) => drop(reply.send(self.intake.screen.picture())),
            Request::Pieces(ranges, max_chars, reply) => {
                drop(reply.send(excerpt::read_ranges(self.intake.transcript.history(), &ranges, max_chars)));
            }
            Request::Inputs(from, reply) => drop(reply.send(self.inputs.from(from))),
            Request::Recording(reply) => {
                drop(reply.send(self.output_log.recording(&current_screen(&self.intake))));
            }
            Request::Scrollback(max_rows, reply) => drop(reply.send(self.intake.screen.scrollback(max_rows))),
            Request::WatchScreen(watcher) => match watcher.known {
                // `answer_watchers` replies after further output.
                Some(_) => self.watchers.add(watcher),
                None => {
                    let update = self.screen_update();
                    self.watchers.answer(vec![watcher], &update);
                }
            },
            Request::Read(part, limit, reply) => {
                let input = (self.input_offset, self.input_screen_version);
                let _ = reply.send(self.marks.excerpt(&self.intake, part, input, limit));
            }
            Request::Run(request, reply) => self.begin_command(request, reply),
            Request::Exchange(reply) => self.begin_exchange(reply),
            Request::InnerShell(reply) => {
                let inner = self.shell.integration.as_ref().filter(|_| self.shell.is_inner);
                let _ = reply.send(inner.map(|integration| integration.kind));
            }
            Request::Script(script, reply) => self.begin_script(&script, reply),
            Request::InputSettings(reply) => drop(reply.send(self.pty.input_settings())),
            Request::Waiter(reply) => drop(reply.send(self.waiting_program())),
            Request::ClearLine(run, reply) => {
                let _ = reply.send(self.clear_line_for(&run));
                self.write_input();
            }
            Request::Describe(reply) => drop(reply.send(self.describe())),
            Request::Resize(size, reply) => {
                self.resize(size);
                let _ = reply.send(());
            }
            Request::Signal(signal, reply) => {
                let answer = match self.exit() {
                    Some(exit) => Err(Some(exit)),
                    None => {
                        let context = self.input_context(false);
                        self.log_input(None, context, LoggedAction::Signalled(signal.as_raw()));
                        signal_group(self.pty.foreground().unwrap_or(self.child.pid()), signal);
                        Ok(())
                    }
                };
                let _ = reply.send(answer);
            }
            Request::Attach(reply) => {
                let attached = Attached {
                    snapshot: self.intake.screen.snapshot(),
                    size: self.intake.screen.size(),
                    output: self.viewers.subscribe(),
                };
                let _ = reply.send(attached);
            }
            Request::Hold(holder, key, reply) => {
                let _ = reply.send(self.write_lock.acquire(holder, key, self.intake.transcript.history().end()));
            }
            Request::GiveBack(key, note, reply) => {
                self.write_lock.give_back(&key, note, SystemTime::now(), self.intake.transcript.history().end());
                let _ = reply.send(());
            }
            Request::HandedBack(reply) => drop(reply.send(self.write_lock.take_handed_back())),
            Request::Close(..) => unreachable!("closing is handled where requests are taken"),
        }
    }

    /// Sends the current screen to viewers that do not know it, except during a synchronized update.
    fn answer_watchers(&mut self) {
        if self.watchers.is_empty() || self.intake.screen.held_until().is_some() {
            return;
        }
        let due = self.watchers.take_due(self.screen_version);
        if !due.is_empty() {
            let update = self.screen_update();
            self.watchers.answer(due, &update);
        }
    }

    fn screen_update(&self) -> ScreenUpdate {
        ScreenUpdate {
            version: self.screen_version,
            picture: self.intake.screen.picture(),
            modes: self.intake.screen.modes(),
            title: self.intake.screen.title(),
            exit: self.exit(),
        }
    }

    // ---- output ----

    fn take_turn(&mut self, readable: std::io::Result<()>) {
        match readable {
            Ok(()) => self.read(),
            Err(_) => self.closed = true,
        }
    }

    fn read(&mut self) {
        let mut buffer = [0u8; 16 * 1024];
        self.flood_slot.set_flooding(true);
        for portion in 0..READS_PER_TURN {
            // Read the terminal's state before the read that finds no output, because a shell prints its marks before
            // it reads keys again.
            let tty = (!self.answers.is_empty()).then(|| (self.pty.line_discipline(), self.pty.foreground()));
            match self.pty.read(&mut buffer) {
                Ok(Read::Bytes(count)) => {
                    self.take_in(&buffer[..count]);
                    // A wait for the first line of output can end before the last line arrives.
                    if portion < CHECKED_READS {
                        self.check_waits();
                    }
                }
                Ok(Read::Nothing) => {
                    self.flood_slot.set_flooding(false);
                    if let Some((discipline, foreground)) = tty {
                        self.answer_queries(discipline, foreground);
                    }
                    break;
                }
                Ok(Read::End) | Err(_) => {
                    self.closed = true;
                    self.flood_slot.set_flooding(false);
                    self.outgoing.clear();
                    self.answers.clear();
                    break;
                }
            }
        }
        self.intake.transcript.settle();
        self.write_input();
    }

    /// Types the answers to printed queries if a program may read them. The parameters are the state of the terminal
    /// before the last read. That read found no output.
    fn answer_queries(&mut self, discipline: Option<Discipline>, foreground: Option<Pid>) {
        if self.pty.has_unread() {
            self.answers.postpone(Instant::now());
            return;
        }
        let reports_state = self.shell.is_reporting() && !self.shell.is_replaced();
        let shell = (reports_state && foreground == Some(self.shell_process())).then(|| ShellReader {
            at_prompt: self.shell.shows_prompt,
            prompt_timeout: if self.shell.is_between_commands() { SHELL_PROMPT_TIMEOUT } else { COMMAND_END_TIMEOUT },
        });
        let reading = discipline.map(|discipline| discipline.reading);
        let reader = Reader { group: foreground, reading, shell };
        let answers = self.answers.take_due(reader, Instant::now());
        // Limit the answers to a program that sends queries and never reads.
        if self.outgoing.len() + answers.len() <= MAX_WAITING_INPUT_BYTES {
            self.outgoing.extend(answers);
        }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        if self.typed_line.is_some() {
            let bytes = self.hold_hidden_line(bytes);
            return self.take_in_all(&bytes);
        }
        if self.exchanging.is_none() {
            return self.take_in_all(bytes);
        }
        for portion in self.split_redraw(bytes) {
            self.take_in_all(&portion);
        }
    }

    fn take_in_all(&mut self, bytes: &[u8]) {
        for portion in split_at_command_ends(bytes, !self.intake.is_outside_of_strings()) {
            self.take_in_part(portion);
        }
    }

    /// Processes output that contains the end of a command only at its end.
    fn take_in_part(&mut self, bytes: &[u8]) {
        let start = self.intake.transcript.history().end();
        let mut replies = Vec::new();
        self.begin_screen_version();
        let now = SystemTime::now();
        self.output_log.record(epoch_millis(now), bytes, &current_screen(&self.intake));
        self.intake.take_in(bytes, &mut replies);
        if !replies.is_empty() {
            self.answers.add(replies, self.pty.foreground(), Instant::now());
        }
        let motion = self.intake.transcript.take_motion();
        self.last_output = Instant::now();
        self.outgoing.record_output(self.last_output);
        if self.outgoing.awaits_line_editor() && self.collects_lines() {
            self.outgoing.end_pause();
        }
        self.description.last_activity = now;
        self.activity.record_event();
        for wait in &mut self.waits {
            wait.has_output = true;
        }
        self.restart_input_watches();
        // The first prompt of a shell is output.
        let in_output = motion.in_output || motion.at_prompt && !self.shell.is_reporting();
        self.marks.add_motion(self.screen_version, Motion { in_output, ..motion });
        self.follow_marks();
        self.watch_shell();
        self.follow_echo(start);
        let reset_sequences = self.intake.take_turned_off();
        if self.viewers.receiver_count() > 0 {
            // Ignore errors, because there may be no viewer, and the channel reports a lag to a slow viewer.
            let visible_output = self.query_filter.pass(bytes);
            let _ = self.viewers.send(Output::Bytes(Arc::from(visible_output)));
            if !reset_sequences.is_empty() {
                let _ = self.viewers.send(Output::Bytes(Arc::from(reset_sequences)));
            }
        } else {
            self.query_filter.reset();
        }
    }

    fn follow_marks(&mut self) {
        for offset_mark in self.intake.transcript.take_marks() {
            if offset_mark.mark == Mark::InnerShellEnded {
                self.leave_inner_shell();
            }
            self.log_mark(&offset_mark);
            self.shell.apply(&offset_mark.mark);
            self.marks.follow(&offset_mark, self.input_screen_version, &self.intake);
            self.follow_command(&offset_mark);
            self.follow_exchange(&offset_mark.mark);
        }
    }

    /// Checks if the shell reads input at a doubtful prompt and records the prompt if so.
    fn check_doubtful_prompt(&mut self) {
        let Some(doubt) = self.shell.doubt.take_if(|doubt| Instant::now() >= doubt.next_check) else { return };
        match (doubt.prompt, self.shell_reading_mode()) {
            // The shell may not have read the last key.
            (DoubtfulPrompt::Shown, _) if doubt.is_new() && self.last_output < self.last_input => {
                self.shell.doubt = Some(doubt.postpone());
            }
            (DoubtfulPrompt::Shown, ReadingMode::Keys | ReadingMode::Lines) => self.shell.record_prompt(),
            // A command printed the mark, for example `echo $PS1`.
            (DoubtfulPrompt::Claimed, ReadingMode::Other) => {}
            (DoubtfulPrompt::Claimed, ReadingMode::Lines) if self.shell.running => {}
            (DoubtfulPrompt::Claimed, ReadingMode::Keys | ReadingMode::Lines) => {
                self.intake.confirm_prompt();
                self.follow_marks();
            }
            (_, ReadingMode::NotYet) | (DoubtfulPrompt::Shown, ReadingMode::Other) => {
                self.shell.doubt = Some(doubt.postpone());
            }
        }
    }

    /// Returns the shell's current reading mode.
    pub(super) fn shell_reading_mode(&self) -> ReadingMode {
        if self.has_traffic() || self.pty.has_unread_input() || self.is_input_in_transit() {
            return ReadingMode::NotYet;
        }
        if !self.shell.is_inner && self.pty.foreground() != Some(self.shell_process()) {
            return ReadingMode::Other;
        }
        // The shell may have written during the check.
        if self.program_state() == InputState::Works || self.pty.has_unread() {
            return ReadingMode::NotYet;
        }
        match self.pty.line_discipline() {
            Some(discipline) if !discipline.whole_lines => ReadingMode::Keys,
            _ => ReadingMode::Lines,
        }
    }

    /// Restarts the silence that precedes the next check of a program.
    fn restart_input_watches(&mut self) {
        let now = Instant::now();
        let waits = self.waits.iter_mut().filter_map(|wait| wait.input.as_mut());
        for watch in waits.chain(self.running.as_mut().and_then(Running::input)) {
            watch.restart(now);
        }
        if let Some(entry) = &mut self.entry {
            entry.record_output(now);
        }
    }

    /// Checks for a program that has replaced the awaited shell, because such a program prints no marks.
    fn watch_shell(&mut self) {
        let awaited = self.running.is_some() || self.waits.iter().any(PendingWait::is_for_prompt);
        if awaited && self.shell.running && self.pty.foreground() == Some(self.shell_process()) {
            self.shell.record_replacement();
        }
    }

    fn follow_echo(&mut self, from: u64) {
        if !self.echo.is_following() {
            return;
        }
        let (start, newest) = self.intake.transcript.history().newest();
        let Some(text) = from.checked_sub(start).and_then(|at| newest.get(at as usize..)) else { return };
        if let FollowResult::Withdrawn(offset) = self.echo.follow(from, text) {
            for wait in &mut self.waits {
                wait.search.restart_from(offset);
            }
        }
    }

    /// Records the end of the program after its last output.
    fn end_if_over(&mut self) {
        if let Some((exit, until)) = self.ending
            && (self.closed || Instant::now() >= until)
        {
            self.ending = None;
            self.ended = Some((exit, Instant::now() + self.grace));
            self.life.record_end();
            self.activity.record_event();
            self.shell.running = false;
            // Viewers of the screen show the end of the program.
            self.begin_screen_version();
            let _ = self.viewers.send(Output::Ended(exit));
        }
        self.check_doubtful_prompt();
        if self.shell.next_check.is_some_and(|at| Instant::now() >= at) {
            self.shell.check_replacement();
        }
        self.check_exchange();
        self.check_hidden_line();
        if !self.closed
            && !self.flood_slot.is_flooding()
            && self.answers.next_check().is_some_and(|at| Instant::now() >= at)
        {
            self.read();
        }
        if self.intake.screen.held_until().is_some_and(|until| std::time::Instant::now() >= until) {
            self.begin_screen_version();
            self.intake.screen.release();
            self.marks.add_motion(self.screen_version, Motion { in_output: true, at_prompt: false });
        }
    }

    // ---- input ----

    fn send(&mut self, input: &Input, reply: oneshot::Sender<Result<Sent, InputError>>) {
        if let Err(holder) = self.write_lock.admits(input.holder.as_ref()) {
            return drop(reply.send(Err(InputError::Held(holder))));
        }
        if let Some(exit) = self.exit() {
            return drop(reply.send(Err(InputError::Ended(Some(exit)))));
        }
        if self.closed {
            return drop(reply.send(Err(InputError::Ended(None))));
        }
        let keystrokes = match self.encode(input) {
            Ok(keystrokes) => keystrokes,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let bytes = &keystrokes.bytes;
        if input.raw.is_empty()
            && let Err(error) = self.check_lines(bytes)
        {
            return drop(reply.send(Err(error.into())));
        }
        if let Err(error) = self.check_empty_lines(&input.text) {
            return drop(reply.send(Err(error)));
        }
        if bytes.len() > MAX_WAITING_INPUT_BYTES {
            return drop(reply.send(Err(InputError::TooLong { max_bytes: MAX_WAITING_INPUT_BYTES })));
        }
        if self.outgoing.len() + bytes.len() > MAX_WAITING_INPUT_BYTES {
            return drop(reply.send(Err(InputError::Full { waiting: self.outgoing.len() })));
        }
        if let Some(run) = &input.run
            && let Err(error) = self.clear_line_for(run)
        {
            return drop(reply.send(Err(error)));
        }
        let offset = self.intake.transcript.history().end();
        let hides_input = self.pty.line_discipline().is_some_and(Discipline::hides_input);
        if let Some(program) = &input.for_program
            && (self.shell.is_idle() || self.hidden_reader(hides_input).as_ref() != Some(program))
        {
            return drop(reply.send(Err(InputError::OtherReader)));
        }
        let is_typed = input.raw.is_empty() && input.mouse.is_empty();
        // Skip keys of an attached person, because they are frequent, and no client reads from their offset.
        if input.raw.is_empty() {
            self.mark_screen();
        }
        if is_typed {
            (self.input_offset, self.input_screen_version) = (offset, self.screen_version);
        }
        if is_typed && !hides_input {
            let enters = input.keys.first().is_some_and(|key| is_enter(key));
            self.echo.expect(&format!("{}{}", input.text, if enters { "\n" } else { "" }), offset);
        }
        if hides_input {
            self.hidden_line.take_in(bytes, &self.description.id, &self.hidden_log);
        } else {
            self.hidden_line.finish(&self.description.id, &self.hidden_log);
        }
        self.log_typed(input, bytes, hides_input);
        let input_end = self.outgoing.written() + (self.outgoing.len() + bytes.len()) as u64;
        let prompts = self.shell.prompts;
        let has_text = !(has_nothing_to_run(input) && self.shell.draft.is_blank(|| self.intake.text_after_prompt()));
        self.shell.draft.type_in(bytes, input.run.as_deref());
        self.shell.draft.is_held = self.collects_lines();
        let lines = bytes.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count();
        if lines > 0 {
            self.shell.record_lines(lines, has_text, input.by.as_deref(), offset);
        }
        let line = (lines > 0).then(|| self.shell.last_line());
        if bytes.contains(&0x03) {
            self.shell.give_up_line();
            self.shell.expect_prompt();
        }
        self.description.last_activity = SystemTime::now();
        let now = Instant::now();
        self.is_noisy = now < self.last_output + NOISE_WINDOW && now > self.last_input + RESPONSE_WINDOW;
        self.last_input = now;
        self.outgoing.type_in(&keystrokes);
        self.write_input();
        self.restart_input_watches();
        self.answer_input((offset, input_end), line, prompts, input, reply);
    }

    /// Removes the text at the prompt, unless this run typed all of it, so that an approved input begins its own line.
    /// Applies to shells that report their prompts.
    ///
    /// # Errors
    /// If no key reliably removes the text, or another client has begun a command that is incomplete.
    fn clear_line_for(&mut self, run: &str) -> Result<(), InputError> {
        if !self.shell.is_reporting() || self.shell.draft.is_by(run) {
            return Ok(());
        }
        if self.shell.is_idle() {
            let keys = self.shell.draft.clear(|| self.intake.text_after_prompt());
            self.outgoing.extend(keys.map_err(|text| InputError::LineStands { text })?.iter().copied());
            return Ok(());
        }
        let is_incomplete = !self.shell.running && !self.shell.draft.is_entered_by(run);
        // In canonical mode, the kernel holds the text and passes it before the next input.
        if is_incomplete || (!self.shell.draft.text().is_empty() && self.collects_lines()) {
            return Err(InputError::LineStands { text: self.shell.draft.text() });
        }
        Ok(())
    }

    /// Replies to the sender of an input, after the program's response if `input` requests that. The output ends at
    /// `offset`. The last byte of the input is byte number `input_end` of all bytes to the terminal.
    fn answer_input(
        &mut self,
        (offset, input_end): (u64, u64),
        line: Option<u64>,
        prompts: u64,
        input: &Input,
        reply: oneshot::Sender<Result<Sent, InputError>>,
    ) {
        match input.settle {
            None => {
                let sent = self.immediate_answer(offset, line, input);
                let _ = reply.send(Ok(sent));
            }
            Some(settle) => {
                let reply = Reply::Sent { offset, version: self.screen_version, input_end, line, reply };
                let mut wait = self.new_wait(Vec::new(), offset, settle.timeout, reply);
                // The program responds to the last byte, and pauses may delay that byte.
                wait.deadline += self.outgoing.delay(wait.started_at);
                wait.prompt_after = Some(prompts);
                wait.quiet = Some(Quiet::for_duration(settle.quiet));
                self.waits.push(wait);
            }
        }
    }

    /// Returns the reply to an input without `settle`.
    fn immediate_answer(&mut self, offset: u64, line: Option<u64>, input: &Input) -> Sent {
        let view = (!input.without_view).then(|| self.view(false, self.states()));
        Sent { offset, version: Some(self.screen_version), line, view }
    }

    /// Returns whether the terminal is in canonical mode. In that mode, programs read whole lines.
    fn collects_lines(&self) -> bool {
        self.pty.line_discipline().is_some_and(|discipline| discipline.whole_lines)
    }

    /// Checks that a text has no empty line that an interpreter or debugger at its prompt treats as the end or the
    /// repetition of an entry.
    fn check_empty_lines(&self, text: &str) -> Result<(), InputError> {
        // The text is typed line by line, even if the program accepts pastes.
        if !text.contains('\n') || self.intake.screen.modes().alternate_screen || self.shell.is_idle() {
            return Ok(());
        }
        let program = self.foreground_name();
        let prompt = LearnedPrompt::learn(&self.row_before_cursor(), program.as_deref());
        match prompt.and_then(|prompt| prompt.splits_at_empty_line(text)) {
            Some(meaning) => {
                let program = program.unwrap_or_else(|| "the program".to_owned());
                Err(InputError::EmptyLine { program, meaning: meaning.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Checks that the lines of `typed` are short enough for a program that reads whole lines, in this terminal or
    /// behind a relay.
    fn check_lines(&self, typed: &[u8]) -> Result<(), LineTooLong> {
        let bytes = line_limit::longest_line(self.shell.draft.len(), typed);
        if bytes <= MAX_BUSYBOX_LINE_BYTES {
            return Ok(());
        }
        let is_too_long = bytes > MAX_LINE_BYTES;
        if self.collects_lines() {
            return if is_too_long { Err(LineTooLong { bytes, relay: None, max_bytes: None }) } else { Ok(()) };
        }
        let max_bytes = Some(MAX_BUSYBOX_LINE_BYTES);
        if self.shell_name().as_deref().is_some_and(command::is_busybox) {
            return Err(LineTooLong { bytes, relay: None, max_bytes });
        }
        // A line editor or full-screen program has no limit. But a terminal within this terminal, possibly behind a
        // relay, looks like such a program, and its own program is unknown.
        let Some(relay) = self.foreground_name().filter(|name| is_relay(name)) else { return Ok(()) };
        if self.intake.screen.modes().bracketed_paste && !is_multiplexer(&relay) {
            return Ok(());
        }
        // The program behind the relay is unknown, except for an integrated shell.
        let inner = self.shell.integration.as_ref().filter(|_| self.shell.is_inner);
        match inner.is_some_and(|integration| integration.kind != Kind::Posix) {
            true if is_too_long => Err(LineTooLong { bytes, relay: Some(relay), max_bytes: None }),
            true => Ok(()),
            false => Err(LineTooLong { bytes, relay: Some(relay), max_bytes }),
        }
    }

    fn encode(&self, input: &Input) -> Result<Keystrokes, InputError> {
        let modes = self.intake.screen.modes();
        // In canonical mode, no program decodes keys, and the kernel interprets the byte of an interrupt.
        let disambiguates = self.intake.transcript.disambiguates_keys() && !self.collects_lines();
        let mut keystrokes = Keystrokes::default();
        let picture = || self.intake.screen.picture();
        if let Some(bytes) = pointer::encode_actions(&input.text, &input.keys, picture, modes)? {
            keystrokes.text(&bytes);
            return Ok(keystrokes);
        }
        keystrokes.text(&keys::text(&input.text, modes));
        for name in &input.keys {
            keystrokes.key(&keys::key(name, modes, disambiguates)?);
        }
        if (keystrokes.has_lines_ahead() || keystrokes.ends_line() && self.shell.has_unread_lines())
            && let Some(editor) = self.line_editor_modes()
        {
            keystrokes.pause_between_lines(editor.keeps_returns);
        }
        if let Some(discipline) = self.pty.line_discipline() {
            keystrokes.pause_between_signals(&discipline.signal_characters);
        }
        for input in &input.mouse {
            keystrokes.text(&mouse::mouse(*input, modes));
        }
        keystrokes.text(&input.raw);
        Ok(keystrokes)
    }

    /// Returns the modes of the terminal, if a line editor reads at the prompt of a shell or an interpreter.
    fn line_editor_modes(&self) -> Option<Discipline> {
        let discipline = self.pty.line_discipline().filter(|discipline| discipline.reading == Reading::Keys)?;
        if self.intake.screen.modes().alternate_screen {
            return None;
        }
        let name = self.foreground_name();
        let is_at_prompt = name.as_deref().is_some_and(is_shell_name)
            || LearnedPrompt::learn(&self.row_before_cursor(), name.as_deref()).is_some();
        is_at_prompt.then_some(discipline)
    }

    /// Returns whether there is input to write that no pause holds back. The end of a pause is a deadline of the task.
    fn has_due_input(&mut self) -> bool {
        self.hold_for_line_editor(Instant::now());
        !self.outgoing.due(Instant::now()).is_empty()
    }

    /// Holds the next line back until the line editor has read the previous line and is idle. Between its response to
    /// Enter and the start of the program, the kernel would join all waiting input to one line.
    fn hold_for_line_editor(&mut self, now: Instant) {
        let is_editor_ready =
            || self.collects_lines() || !self.pty.has_unread_input() && self.program_state().awaits() != Some(false);
        if self.outgoing.is_line_pause_over(now) && !is_editor_ready() {
            self.outgoing.prolong_pause(now);
        }
    }

    fn write_input(&mut self) {
        let written_before = self.outgoing.written();
        loop {
            let now = Instant::now();
            self.hold_for_line_editor(now);
            let due = self.outgoing.due(now);
            if due.is_empty() {
                break;
            }
            match self.pty.write(due) {
                Ok(0) => break,
                Ok(count) => match self.outgoing.advance(count) {
                    Some(PausedKey::Escape) => {
                        let name = self.foreground_name();
                        let reader = EscapeReader::from_program_name(name.as_deref(), self.is_noisy);
                        self.outgoing.begin_pause(now, PauseReader::Escape(reader));
                    }
                    Some(PausedKey::Enter) if !self.collects_lines() => {
                        self.outgoing.begin_pause(now, PauseReader::LineEditor);
                    }
                    Some(PausedKey::Signal) => self.outgoing.begin_pause(now, PauseReader::SignalHandler),
                    Some(PausedKey::Enter) | None => {}
                },
                Err(_) => {
                    // No program will read the input. The read of output detects the end of the program.
                    self.outgoing.clear();
                    break;
                }
            }
        }
        let (written, now) = (self.outgoing.written(), Instant::now());
        for wait in &mut self.waits {
            // The wait begins with the last byte of its input.
            if let Reply::Sent { input_end, .. } = wait.reply
                && written_before < input_end
                && input_end <= written
            {
                wait.started_at = now;
            }
        }
    }

    fn resize(&mut self, size: Size) {
        if size == self.intake.screen.size() {
            return;
        }
        if let Err(error) = self.pty.resize(size) {
            tracing::warn!(%error, "the kernel refused a size");
            return;
        }
        let context = self.input_context(false);
        self.log_input(None, context, LoggedAction::Resized(size));
        self.begin_screen_version();
        self.intake.resize(size);
        self.output_log.record_size(epoch_millis(SystemTime::now()), &current_screen(&self.intake));
        self.description.size = size;
        let _ = self.viewers.send(Output::Resized(size));
    }

    // ---- waits ----

    fn new_wait(
        &self,
        patterns: Vec<steplatch_pattern::Pattern>,
        from: u64,
        timeout: Duration,
        reply: Reply,
    ) -> PendingWait {
        let now = Instant::now();
        let start = self.intake.transcript.history().start();
        PendingWait {
            has_patterns: !patterns.is_empty(),
            from,
            search: Search::new(patterns, from),
            screen: None,
            prompt_after: None,
            own_line: None,
            quiet: None,
            unread_until: now + UNREAD_INPUT_TIMEOUT,
            input: None,
            reads: None,
            reads_lines: false,
            highlighted: Vec::new(),
            matched: None,
            searched_at: None,
            started_at: now,
            has_output: false,
            deadline: now + timeout,
            missed_before: (from < start).then_some(start),
            logged: None,
            reply,
        }
    }

    fn begin_wait(&mut self, wait: Wait, number: u64, reply: oneshot::Sender<(Waited, View)>) {
        let from = wait.since.unwrap_or(self.input_offset);
        // Prompts after earlier lines do not end the wait.
        let own_line = wait.line.or_else(|| self.shell.line_before(wait.by.as_deref()?, from));
        let logged = wait.by.map(|by| LoggedWait {
            by,
            patterns: wait.patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
        });
        let mut pending = match wait.target {
            Target::Output => self.new_wait(wait.patterns, from, wait.timeout, Reply::Wait(number, reply)),
            Target::Screen => {
                let mut pending = self.new_wait(Vec::new(), from, wait.timeout, Reply::Wait(number, reply));
                // No screen has been searched yet.
                pending.screen = Some((wait.patterns, u64::MAX));
                pending
            }
        };
        match wait.until {
            Until::Match | Until::Exit => {}
            Until::Prompt => {
                // Text without Enter begins no command, so the current prompt does not end the wait.
                let is_over = self.shell.at_prompt && (wait.input.is_none() || self.typed_line().is_none());
                pending.prompt_after = Some(if is_over { 0 } else { self.shell.prompts });
                pending.own_line = own_line;
            }
            Until::Quiet(quiet) => pending.quiet = Some(quiet),
        }
        pending.logged = logged;
        pending.reads = wait.reads;
        pending.reads_lines = wait.reads_lines;
        pending.highlighted = wait.highlighted;
        let input = wait.input.or(wait.reads.map(|_| InputWait::Known));
        pending.input = input.map(|input| InputWatch::new(input, self.last_output.max(self.last_input)));
        self.waits.push(pending);
    }

    /// Ends every wait that is due. Returns whether unsearched output remains.
    fn check_waits(&mut self) -> bool {
        self.check_command();
        self.check_entry();
        let mut has_unsearched_output = false;
        let mut index = 0;
        while index < self.waits.len() {
            match self.check_wait(index) {
                WaitCheck::Ended(reason, matched, gave_up) => {
                    let pending = self.waits.swap_remove(index);
                    self.log_wait(&pending, reason, matched.as_ref());
                    self.answer(pending, reason, matched, gave_up);
                }
                WaitCheck::Unsearched => {
                    has_unsearched_output = true;
                    index += 1;
                }
                WaitCheck::NotYet => index += 1,
            }
        }
        has_unsearched_output
    }

    /// Returns whether a wait ends because the program waits for input.
    fn is_at_input(&mut self, index: usize, now: Instant) -> bool {
        let is_due = self.waits[index].input.as_ref().is_some_and(|watch| now >= watch.due());
        if !is_due {
            return false;
        }
        // After a doubtful prompt, the reader is probably the shell, so wait for the check of the prompt.
        let is_prompt_in_doubt =
            self.waits[index].is_for_prompt() && self.shell.doubt.is_some_and(|doubt| doubt.is_new());
        if self.has_traffic() || is_prompt_in_doubt {
            if let Some(watch) = &mut self.waits[index].input {
                watch.restart(now);
            }
            return false;
        }
        let observation = self.check_for_input();
        let wait = &mut self.waits[index];
        let awaited_content = match wait.reads.map(|_| (&wait.matched, &wait.screen)) {
            None | Some((None, None)) => AwaitedContent::Nothing,
            Some((Some(_), _)) => AwaitedContent::Text,
            Some((None, Some(_))) => AwaitedContent::OtherScreen,
        };
        wait.input.as_mut().is_some_and(|watch| watch.record_check(observation, awaited_content, now))
    }

    /// Returns whether there is input to write or output to read. Either restarts the silence.
    fn has_traffic(&self) -> bool {
        !self.outgoing.is_empty() || self.pty.has_unread()
    }

    /// Returns whether a wait ends because there was no output for its quiet period. The period begins when the program
    /// has read its input, or after [`UNREAD_INPUT_TIMEOUT`].
    fn is_quiet(&mut self, index: usize, now: Instant) -> bool {
        let wait = &mut self.waits[index];
        if !self.outgoing.is_empty() || wait.quiet_at(self.last_output).is_none_or(|at| now < at) {
            return false;
        }
        if now < wait.unread_until && self.pty.has_unread_input() {
            wait.started_at = now;
            return false;
        }
        true
    }

    fn check_wait(&mut self, index: usize) -> WaitCheck {
        let open_line_was_sent = self.shell.sent || self.intake.transcript.history().zone() != Zone::Input;
        let echo = EchoZones { recognised: &self.echo, open_line_was_sent };
        let now = Instant::now();
        let wait = &mut self.waits[index];
        let waits_for_reader = wait.reads.is_some();
        let is_searched =
            waits_for_reader && wait.searched_at.replace(self.screen_version) == Some(self.screen_version);
        let pass = match is_searched {
            true => Ok(Pass::Nothing),
            false => {
                wait.matched = None;
                wait.search.advance(self.intake.transcript.history(), echo)
            }
        };
        match pass {
            Ok(Pass::Found(found)) if waits_for_reader => wait.matched = Some(found),
            Ok(Pass::Found(found)) => return WaitCheck::Ended(Reason::Match, Some(found), None),
            Ok(Pass::More) if now < wait.deadline => {
                wait.searched_at = None;
                return WaitCheck::Unsearched;
            }
            Ok(Pass::More | Pass::Nothing) => {}
            Err(gave_up) => return WaitCheck::Ended(Reason::Timeout, None, Some(gave_up)),
        }
        if let Some((patterns, searched_version)) = &mut wait.screen
            && *searched_version != self.screen_version
        {
            *searched_version = self.screen_version;
            let found = search_screen(patterns, &self.intake.screen.text());
            let is_highlighted = |expected: &[String], rows: &Range<usize>| {
                let picture = self.intake.screen.picture();
                styled_rows(&picture, rows.clone()) == expected
                    || expected.len() == 1 && row_of_cursor(&picture, rows) == expected.first().cloned()
                    || highlights(&picture).iter().map(|highlight| &highlight.text).eq(expected)
            };
            match found {
                Ok(None) => {}
                Ok(Some((_, rows))) if !wait.highlighted.is_empty() && !is_highlighted(&wait.highlighted, &rows) => {
                    wait.matched = None;
                }
                Ok(Some((found, _))) if waits_for_reader => wait.matched = Some(found),
                Ok(Some((found, _))) => return WaitCheck::Ended(Reason::Match, Some(found), None),
                Err(gave_up) => return WaitCheck::Ended(Reason::Timeout, None, Some(gave_up)),
            }
        }
        let end_reason = if self.ended.is_some() || (wait.needs_prompt() && self.shell.replaced_by.is_some()) {
            Some(Reason::Exit)
        } else if wait
            .prompt_after
            .is_some_and(|after| self.shell.prompts > after || (after == 0 && self.shell.at_prompt))
            || wait.own_line.is_some_and(|line| self.shell.is_past(line))
        {
            Some(Reason::Prompt)
        } else if now >= wait.deadline {
            Some(Reason::Timeout)
        } else if self.is_at_input(index, now) {
            let discipline = self.pty.line_discipline();
            let hides_input = discipline.is_some_and(Discipline::hides_input);
            let reads_lines = discipline.is_none_or(Discipline::reads_lines);
            let wait = &mut self.waits[index];
            // A match in the output does not count while a full-screen program is active.
            let is_full_screen = wait.screen.is_none() && self.intake.screen.modes().alternate_screen;
            if wait.reads.is_some_and(|reads| reads.includes(hides_input))
                && (reads_lines || !wait.reads_lines)
                && !is_full_screen
                && let Some(found) = wait.matched.take()
            {
                return WaitCheck::Ended(Reason::Match, Some(found), None);
            }
            Some(Reason::Input)
        } else if self.is_quiet(index, now) {
            Some(Reason::Quiet)
        } else {
            None
        };
        match end_reason {
            None => WaitCheck::NotYet,
            Some(reason @ (Reason::Exit | Reason::Timeout)) if self.waits[index].has_patterns && !waits_for_reader => {
                let echo = EchoZones { recognised: &self.echo, open_line_was_sent };
                let echo_match = self.waits[index].search.find_in_echo(self.intake.transcript.history(), echo);
                let is_match = echo_match.as_ref().is_some_and(|found| !found.in_echo);
                WaitCheck::Ended(if is_match { Reason::Match } else { reason }, echo_match, None)
            }
            Some(reason) => WaitCheck::Ended(reason, None, None),
        }
    }

    fn answer(
        &mut self,
        pending: PendingWait,
        reason: Reason,
        found: Option<PatternMatch>,
        gave_up: Option<steplatch_pattern::TooMuchWork>,
    ) {
        // Skip the states after a match: reads of `/proc` take longer than the search.
        let states = if reason == Reason::Match { States::default() } else { self.states() };
        let mut view = self.view(false, states);
        if reason == Reason::Prompt
            && let Some(exit_code) = pending.own_line.and_then(|line| self.shell.line_outcome(line))
        {
            view.exit_code = exit_code;
        }
        let ran_nothing = reason == Reason::Prompt
            && match pending.own_line.filter(|line| self.shell.line_outcome(*line).is_some()) {
                Some(line) => self.shell.line_ran_nothing(line),
                None => pending.logged.as_ref().is_some_and(|wait| self.shell.last_line_ran_nothing(&wait.by)),
            };
        // Ignore errors, because the caller may have disconnected.
        match pending.reply {
            Reply::Ready(reply) => drop(reply.send(view)),
            // The end of the program has discarded unwritten input.
            Reply::Sent { input_end, reply, .. } if input_end > self.outgoing.written() && self.outgoing.is_empty() => {
                drop(reply.send(Err(InputError::InDoubt)));
            }
            Reply::Sent { offset, version, line, reply, .. } => {
                drop(reply.send(Ok(Sent { offset, version: Some(version), line, view: Some(view) })));
            }
            Reply::Wait(_, reply) => {
                let is_match = found.as_ref().filter(|found| !found.in_echo);
                let match_end = is_match.and_then(|found| found.range.as_ref()).map(|range| range.end);
                // After a timeout, the next wait also searches the open line, because it may contain the beginning of a
                // match.
                let resume_offset = match reason {
                    Reason::Timeout => view.end - self.intake.transcript.history().open_line().len() as u64,
                    Reason::Match | Reason::Prompt | Reason::Exit | Reason::Quiet | Reason::Input => view.end,
                };
                let waited = Waited {
                    reason,
                    found,
                    offset: match_end.unwrap_or(resume_offset.max(pending.from)),
                    exit: view.exit,
                    gave_up,
                    missed_before: pending.missed_before,
                    replaced_by: self
                        .shell
                        .replaced_by
                        .clone()
                        .filter(|_| reason == Reason::Exit && view.exit.is_none()),
                    ran_nothing,
                };
                let _ = reply.send((waited, view));
            }
        }
    }

    // ---- state ----

    fn exit(&self) -> Option<Exit> {
        self.ended.map(|(exit, _)| exit)
    }

    fn exit_code(&self) -> Option<i32> {
        let shell_exit = self.shell.last_exit.filter(|_| self.shell.is_exit_current);
        self.exit().map(|exit| exit.code).or(shell_exit)
    }

    fn busy(&self) -> Option<bool> {
        if self.ended.is_some() || self.ending.is_some() {
            Some(false)
        } else if self.shell.is_reporting() && !self.shell.is_replaced() {
            Some(self.shell.running || self.shell.sent)
        } else {
            None
        }
    }

    /// Requests a mark of the screen that a client reads.
    pub(super) fn mark_screen(&mut self) {
        self.marks.request(self.screen_version);
    }

    /// Begins a new version of the screen, just before the screen changes.
    pub(super) fn begin_screen_version(&mut self) {
        self.marks.complete(self.intake.screen.as_ref());
        self.screen_version += 1;
    }

    fn view(&mut self, with_colours: bool, states: States) -> View {
        self.mark_screen();
        View {
            version: Some(self.screen_version),
            screen: if with_colours { self.intake.screen.ansi() } else { self.intake.screen.text() },
            cursor: self.intake.screen.cursor(),
            modes: self.intake.screen.modes(),
            title: self.intake.screen.title(),
            size: self.intake.screen.size(),
            busy: self.busy(),
            exit_code: self.exit_code(),
            exit: self.exit(),
            end: self.intake.transcript.history().end(),
            handed_back: self.write_lock.was_handed_back(),
            cwd: states.cwd,
            awaiting_input: states.awaiting_input,
            password: states.password,
            typed: if self.shell.is_idle() { self.unentered_text() } else { None },
            name: self.description.name.clone(),
        }
    }

    fn describe(&self) -> Description {
        let states = self.states();
        Description {
            cwd: states.cwd,
            awaiting_input: states.awaiting_input,
            password: states.password,
            title: self.intake.screen.title(),
            busy: self.busy(),
            exit_code: self.exit_code(),
            exit: self.exit(),
            viewers: self.viewers.receiver_count(),
            holder: self.write_lock.holder().cloned(),
            password_program: self.hidden_reader(states.password),
            agent: states.agent,
            bell_count: NonZeroU64::new(self.intake.transcript.bell_count()),
            ..self.description.clone()
        }
    }

    // ---- the end ----

    async fn close(&mut self, closing: Closing) -> Closed {
        let leader = SessionLeader { pid: self.child.pid(), is_reaped: self.child.is_reaped() };
        let id = self.description.id.as_str().to_owned();
        let ending = end_all(leader, id, closing.signal, self.child.orphan_matcher());
        tokio::pin!(ending);
        let survivors = loop {
            tokio::select! {
                survivors = &mut ending => break survivors,
                result = self.pty.readable(), if !self.closed => self.take_turn(result),
            }
        };
        let exit = match (self.exit(), self.ending) {
            (Some(exit), _) | (None, Some((exit, _))) => Some(exit),
            (None, None) => timeout(DRAIN_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok),
        };
        if let Some(exit) = exit {
            self.ended = Some((exit, Instant::now()));
            let _ = self.viewers.send(Output::Ended(exit));
        }
        self.check_waits();
        Closed { exit, survivors }
    }
}

/// Reading mode of a shell with a doubtful prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadingMode {
    /// Single keys, with its line editor.
    Keys,
    /// Whole lines.
    Lines,
    /// The shell is busy, or has not read all typed input.
    NotYet,
    /// Another program is in the foreground.
    Other,
}

/// Returns whether a key is Enter.
fn is_enter(key: &str) -> bool {
    matches!(key.to_ascii_lowercase().as_str(), "enter" | "return")
}

/// Returns whether an input contains nothing that a shell runs: only spaces, comments and Enter.
fn has_nothing_to_run(input: &Input) -> bool {
    let raw = std::str::from_utf8(&input.raw).ok().map(|raw| raw.replace('\r', "\n"));
    is_blank(&input.text) && input.keys.iter().all(|key| is_enter(key)) && raw.is_some_and(|raw| is_blank(&raw))
}

/// Splits output after each mark of a command's end. The task inserts sequences for viewers at these places.
/// `is_in_string` is true if the output begins within a control string.
pub(super) fn split_at_command_ends(bytes: &[u8], is_in_string: bool) -> impl Iterator<Item = &[u8]> {
    const END: &[u8] = b"\x1b]133;D";
    let mut remaining = bytes;
    let mut is_open = is_in_string;
    std::iter::from_fn(move || {
        if remaining.is_empty() {
            return None;
        }
        let mark_start = if is_open { Some(0) } else { memchr::memmem::find(remaining, END) };
        let mark_end =
            mark_start.and_then(|mark_start| Some(mark_start + memchr::memchr(b'\x07', &remaining[mark_start..])? + 1));
        is_open = false;
        let (portion, after) = remaining.split_at(mark_end.unwrap_or(remaining.len()));
        remaining = after;
        Some(portion)
    })
}

enum WaitCheck {
    Ended(Reason, Option<PatternMatch>, Option<steplatch_pattern::TooMuchWork>),
    /// No result yet; unsearched output remains.
    Unsearched,
    NotYet,
}
