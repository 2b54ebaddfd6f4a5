//! One terminal: the requests of its handles, and the task that owns its parts.

mod answers;
mod draft;
mod excerpt;
mod floods;
mod input_watch;
mod outgoing;
mod screen_marks;
mod shell;
mod task;
mod viewers;
mod watchers;
pub(crate) mod write_lock;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use steplatch_ids::TerminalId;
use tokio::sync::{OwnedMutexGuard, broadcast, mpsc, oneshot};

pub(crate) use floods::OutputScheduler;
pub(crate) use task::{TerminalParts, run};
pub use viewers::QueryFilter;
use watchers::{ScreenReply, ScreenWatcher};
pub use write_lock::{Handover, HoldKey, LockHolder};

use crate::agent_program::AgentStatus;
use crate::command::{CommandRequest, CommandResult, RunError};
use crate::exchange::{self, ExchangeFiles, QueryScript, Variable, VariableReport, VariablesError};
use crate::input_log::LoggedInput;
use crate::integration::{IntegrationSession, Kind};
use crate::keys::UnknownKey;
use crate::limit::Limit;
use crate::line_limit::LineTooLong;
use crate::mouse::MouseInput;
use crate::output_log::OutputRecording;
use crate::pointer::PointerError;
use crate::process::{Exit, Survivor};
use crate::refusal::{TerminalClosed, changed};
use crate::screen::{Cursor, Modes, Picture, Size};
use crate::shell_state::{NotedState, OpenFiles, ShellState};
use crate::wait::{InputWait, Quiet, Target, Until, Wait, Waited};

/// A live terminal. Cheap to clone; the terminal itself stays in its task.
///
/// Every method fails with [`TerminalClosed`] once the terminal has closed.
#[derive(Debug, Clone)]
pub struct Terminal {
    id: TerminalId,
    pid: i32,
    life: Lifecycle,
    requests: mpsc::UnboundedSender<Request>,
    /// Integration session of the terminal's shell. The lock allows one exchange at a time.
    integration: Option<Arc<tokio::sync::Mutex<IntegrationSession>>>,
    /// The states at the questions to people, oldest first.
    question_states: Arc<Mutex<VecDeque<QuestionState>>>,
}

/// The state of a terminal at a question.
#[derive(Debug, Clone)]
struct QuestionState {
    gate: String,
    state: TerminalState,
    /// The settings of the terminal, and the open files of its shell.
    settings: TerminalSettings,
    /// True if the approved input was typed. The run causes later changes itself.
    is_used: bool,
}

/// Settings that a line editor changes while the shell reports its state and restores afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TerminalSettings {
    /// The settings for typed input.
    input: Option<String>,
    /// The open files that commands of its shell inherit; `None` to skip the comparison.
    files: Option<OpenFiles>,
}

/// The state of a terminal at a question to a person about it.
#[derive(Debug, Clone)]
enum TerminalState {
    /// A shell at its prompt.
    Shell(ShellState),
    /// A program that waits for input, by its process group.
    Program { group: i32, program: Option<String> },
    /// The reason for the unknown state.
    Unknown(String),
}

/// Maximum number of stored states of a terminal.
const MAX_QUESTION_STATES: usize = 16;

/// Maximum number of reads of a terminal's settings until they are stable.
const MAX_SETTING_READS: usize = 20;

/// Pause between two reads of a terminal's settings.
const SETTING_PAUSE: Duration = Duration::from_millis(15);

/// Time limit for a shell to reach its prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// The stages of a terminal's life, shared with its handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifecycle(Arc<Stages>);

#[derive(Debug, Default)]
struct Stages {
    ended: OnceLock<Instant>,
    closed: AtomicBool,
}

impl Lifecycle {
    /// Records the end of its program.
    fn record_end(&self) {
        // A second call changes nothing.
        let _ = self.0.ended.set(Instant::now());
    }

    /// Records the close of the terminal: lookups by id or name no longer return it.
    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }
}

/// Reason why the terminal did not take an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum InputError {
    /// A key name is unknown; the program received nothing.
    #[error(transparent)]
    Key(#[from] UnknownKey),
    /// The program would not receive a mouse action; it received nothing.
    #[error(transparent)]
    Pointer(#[from] PointerError),
    /// The program has ended, and nothing reads input.
    #[error("its program has ended{}", .0.map(|exit| format!(" with exit code {}", exit.code)).unwrap_or_default())]
    Ended(Option<Exit>),
    /// The limit of input that the program has not read is reached.
    #[error("its program does not read: {waiting} bytes of earlier input are still waiting")]
    Full {
        /// Unread bytes.
        waiting: usize,
    },
    /// The input exceeds the size limit.
    #[error("it is longer than {} MB; send it in parts", .max_bytes >> 20)]
    TooLong {
        /// Maximum number of bytes.
        #[serde(rename = "most")]
        max_bytes: usize,
    },
    /// A line of the input would be truncated.
    #[error(transparent)]
    LineTooLong(#[from] LineTooLong),
    /// The input has an empty line. At an empty line, the program at the prompt would end or repeat an entry.
    #[error(
        "nothing was typed: the text has an empty line, and {program} takes an empty line for {meaning}; leave it out, send \
         the text in parts, or use run_command"
    )]
    EmptyLine {
        /// The program.
        program: String,
        /// The meaning of an empty line.
        meaning: String,
    },
    /// Another client holds the terminal.
    #[error("{} holds the terminal", .0.name)]
    Held(LockHolder),
    /// The input belongs to a run, and other clients have typed text that no key reliably removes.
    #[error("the prompt has text of another client, so nothing was typed; enter or remove that text (ctrl-c): {text}")]
    LineStands {
        /// The text at the prompt.
        text: String,
    },
    /// The program for which the input is does not read a hidden line.
    #[error("nothing was typed: the program that asked no longer reads a hidden line; look at the terminal")]
    OtherReader,
    /// The terminal has changed since a person approved the input.
    #[error("{}", changed(.0))]
    Changed(String),
    /// The program ended while the input was being typed.
    #[error("typing began earlier, and it is unknown how much of it reached the program")]
    InDoubt,
    /// The terminal has closed.
    #[error(transparent)]
    Gone(#[from] TerminalClosed),
}

/// Text, keys and mouse actions to type.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Input {
    /// Text, sent unchanged; `\n` is Enter.
    pub text: String,
    /// Keys by name, typed after the text. Mouse actions have names as well, see [`crate::PointerError`]; a host of an
    /// older version refuses these as unknown keys.
    pub keys: Vec<String>,
    /// Actions of a mouse, after the keys. A program receives only the actions that it requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mouse: Vec<MouseInput>,
    /// Bytes to send unchanged, after all other input: the output of a person's own terminal.
    pub raw: Vec<u8>,
    /// Time limits of a reply at the next prompt, or at silence of the program. `None` to reply as soon as the terminal
    /// accepts the input.
    pub settle: Option<Settle>,
    /// The id of the step that this input belongs to, for the ledger of the terminal host.
    pub step: Option<String>,
    /// The gate of a person's approval of the input. The terminal refuses the input if the terminal's state has changed
    /// since then, see [`Terminal::record_state`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<String>,
    /// The run that types an approved input. In a shell that marks its prompts, the input begins on an empty line: the
    /// terminal first removes the text of other clients, or refuses the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Proves that the sender holds the terminal.
    pub holder: Option<HoldKey>,
    /// The client or run, for the log of inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// True if a person typed it in an attached terminal, for the log of inputs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attached: bool,
    /// True for a secret. The log of inputs omits a secret, even if the program shows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// The [`Description::password_program`] for which the input is. Nothing is typed if it is another one at that moment,
    /// but a host of an older version types it anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_program: Option<String>,
    /// True to omit the [`View`] from the reply to an input without `settle`, for senders that follow the screen or
    /// wait for output. A view requires reads of `/proc`, and these delay the echo of a key. A host of an older version
    /// returns a view anyway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_view: bool,
}

/// Time limits of the wait for a program's response to an input.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Settle {
    /// Duration without output that ends the wait.
    pub quiet: Duration,
    /// Time limit of the wait.
    #[serde(rename = "at_most")]
    pub timeout: Duration,
}

/// The result of an input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    /// Offset of the output just before the input.
    pub offset: u64,
    /// Version of the screen just before the input, see [`View::version`]. None from a host of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Number of the last line that the input enters, among all lines of the terminal. `None` if it enters no line, or
    /// from a host of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The current state of the terminal, unless the input is [without a view](Input::without_view).
    pub view: Option<View>,
}

/// A terminal's screen and state at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    /// The rows of the screen.
    pub screen: String,
    /// The position of the cursor.
    pub cursor: Cursor,
    /// The modes of keyboard and screen that the program has set.
    pub modes: Modes,
    /// The title that the program set.
    pub title: String,
    /// The size.
    pub size: Size,
    /// True if a command runs in the foreground. None if unknown.
    pub busy: Option<bool>,
    /// The exit code of the last command, if the shell reports it and no other command runs. After the end of the
    /// program, the program's exit code.
    pub exit_code: Option<i32>,
    /// Exit of the program, once it has ended.
    pub exit: Option<Exit>,
    /// Offset after all output so far.
    pub end: u64,
    /// True if a client held the terminal and gave it back since the last call of [`Terminal::handed_back`].
    pub handed_back: bool,
    /// The working directory of the shell, or the directory that the running program reports (OSC 7). Within `ssh`, a
    /// directory of the remote machine.
    pub cwd: Option<String>,
    /// True if the foreground program waits for input: a shell at its prompt, a program that reads the terminal, an
    /// idle line editor or full-screen program. None if unknown.
    pub awaiting_input: Option<bool>,
    /// True if the program reads a line without showing it, as for a password.
    pub password: bool,
    /// The unentered text at the shell's prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed: Option<String>,
    /// The name of the terminal, in addition to the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Identifies this screen, for [`Part::New`]. None from a host of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// A screen that differs from the viewer's screen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScreenUpdate {
    /// Identifies the content: the number changes with each drawn change and each change of the size.
    pub version: u64,
    /// The cells.
    pub picture: Picture,
    /// The modes of keyboard and screen that the program has set.
    pub modes: Modes,
    /// The title that the program set.
    pub title: String,
    /// Exit of the program, once it has ended.
    pub exit: Option<Exit>,
}

/// A screen with only the rows that a viewer does not know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScreenDelta {
    /// The screen, with only the rows in `rows`.
    pub update: ScreenUpdate,
    /// Number of rows of the screen.
    pub height: u16,
    /// The row numbers, ascending. `None` for all rows, if the viewer knows no screen of this size.
    pub rows: Option<Vec<u16>>,
}

impl ScreenDelta {
    /// Returns the given rows of a screen; all rows for `None`.
    fn from_update(update: &ScreenUpdate, rows: Option<Vec<u16>>) -> Self {
        let ScreenUpdate { version, picture, modes, title, exit } = update;
        let height = u16::try_from(picture.rows.len()).unwrap_or(u16::MAX);
        let row = |row: &u16| picture.rows.get(usize::from(*row)).cloned();
        let picture = Picture {
            cols: picture.cols,
            rows: match &rows {
                Some(rows) => rows.iter().filter_map(row).collect(),
                None => picture.rows.clone(),
            },
            cursor: picture.cursor,
            foreground: picture.foreground,
            background: picture.background,
            palette: picture.palette.clone(),
        };
        let update = ScreenUpdate { version: *version, picture, modes: *modes, title: title.clone(), exit: *exit };
        Self { update, height, rows }
    }

    /// Applies the rows to the viewer's picture `known` and returns the whole screen. `None` if they do not fit the
    /// picture; the viewer then requests the whole screen.
    #[must_use]
    pub fn onto(self, known: Option<Picture>) -> Option<ScreenUpdate> {
        let Self { mut update, height, rows } = self;
        let Some(rows) = rows else { return Some(update) };
        let is_same_size =
            |known: &Picture| known.cols == update.picture.cols && known.rows.len() == usize::from(height);
        let known = known.filter(is_same_size).filter(|_| rows.len() == update.picture.rows.len())?;
        let changed = std::mem::replace(&mut update.picture.rows, known.rows);
        for (row, runs) in rows.into_iter().zip(changed) {
            *update.picture.rows.get_mut(usize::from(row))? = runs;
        }
        Some(update)
    }
}

/// Part of the output to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Starting at this offset.
    From(u64),
    /// Starting at an offset, as printed: with carriage returns, backspaces and overwritten text.
    RawFrom(u64),
    /// Output after the last input.
    SinceInput,
    /// Output after an offset, and rows after a screen version, that a client has read; see [`Excerpt::rows`]. The text
    /// begins with the new part of the line at the offset.
    New {
        /// The offset.
        from: u64,
        /// The version, see [`View::version`].
        version: u64,
        /// Bytes of earlier text to include, see [`Excerpt::before`].
        reach: usize,
    },
    /// The last lines.
    Tail(usize),
}

/// A part of the output, as text. Lines have their final content.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Excerpt {
    /// The text, or its beginning.
    pub head: String,
    /// The end of the text, if text in the middle is missing.
    pub tail: Option<String>,
    /// Bytes of text missing after `head`. A count of characters would require reading the missing text.
    pub left_out: u64,
    /// Offset after `head`, to continue reading from.
    pub next: u64,
    /// Offset of the oldest stored output, if the request includes dropped output.
    pub dropped_before: Option<u64>,
    /// For [`Part::New`], text before `head`, to find a secret that ends in `head`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// For [`Part::SinceInput`], the output of the commands alone. `None` if unknown, or if text is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_output: Option<CommandOutput>,
    /// For [`Part::New`], the lines of the screen instead of text, if the program drew on several of its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<ScreenLine>>,
}

/// The output of the commands since an input, without the shell's own output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandOutput {
    /// This number of bytes at the beginning of the excerpt.
    Prefix(u64),
    /// A separate text, without the prompts between several commands and the lines typed at them.
    Text(String),
}

impl CommandOutput {
    /// Returns the text. `excerpt` is the text of the excerpt that contains it.
    #[must_use]
    pub fn text<'t>(&'t self, excerpt: &'t str) -> Option<&'t str> {
        match self {
            Self::Prefix(bytes) => excerpt.get(..usize::try_from(*bytes).ok()?),
            Self::Text(text) => Some(text),
        }
    }
}

impl Excerpt {
    /// Returns a complete text. The following output begins at the offset `next`.
    pub(crate) fn from_text(head: String, next: u64) -> Self {
        Self { head, next, ..Self::default() }
    }
}

/// A line of the screen or of the scrollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenLine {
    /// The number of the first row on the screen, from 0; negative for a row that scrolled off.
    pub row: i64,
    /// The text; for a wrapped line, the text of all its rows.
    pub text: String,
    /// False if the client has seen the line with this text.
    pub is_changed: bool,
}

/// The state of a terminal without its screen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Description {
    /// The id.
    pub id: TerminalId,
    /// The requested command line.
    pub command: String,
    /// A name in addition to the id.
    pub name: Option<String>,
    /// The client or run that opened it.
    pub opened_by: Option<String>,
    /// Time of its opening.
    pub created: SystemTime,
    /// Time of the last input or output.
    pub last_activity: SystemTime,
    /// Process id of the program.
    pub pid: i32,
    /// The title that the program set.
    pub title: String,
    /// The size.
    pub size: Size,
    /// True if a command runs in the foreground. None if unknown.
    pub busy: Option<bool>,
    /// Same as [`View::exit_code`].
    pub exit_code: Option<i32>,
    /// Exit of the program, once it has ended.
    pub exit: Option<Exit>,
    /// Number of attached clients.
    pub viewers: usize,
    /// The current holder, if there is one.
    pub holder: Option<LockHolder>,
    /// Same as [`View::cwd`].
    pub cwd: Option<String>,
    /// Same as [`View::awaiting_input`].
    pub awaiting_input: Option<bool>,
    /// Same as [`View::password`].
    pub password: bool,
    /// Name of the program that reads a line without echo, or of the relay behind which one asks for a password, with its
    /// user in parentheses if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_program: Option<String>,
    /// The agent in the foreground, if there is a known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,
    /// Number of bells that programs have rung. `None` before the first one, and from an older host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bell_count: Option<NonZeroU64>,
}

impl Description {
    /// Returns the description of a new terminal, without a name, a requester or a program.
    #[must_use]
    pub fn new(id: TerminalId, command: String, size: Size, created: SystemTime) -> Self {
        Self {
            id,
            command,
            name: None,
            opened_by: None,
            created,
            last_activity: created,
            pid: 0,
            title: String::new(),
            size,
            busy: None,
            exit_code: None,
            exit: None,
            viewers: 0,
            holder: None,
            cwd: None,
            awaiting_input: None,
            password: false,
            password_program: None,
            agent: None,
            bell_count: None,
        }
    }
}

/// Options for closing a terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Closing {
    /// The first signal; `None` for SIGHUP.
    pub signal: Option<Signal>,
}

/// The result of closing a terminal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Closed {
    /// Exit of the program.
    pub exit: Option<Exit>,
    /// Processes that did not end.
    pub survivors: Vec<Survivor>,
}

/// The first screen for an attached client, and the output that follows.
#[derive(Debug)]
pub struct Attached {
    /// Escape sequences that show the current screen.
    pub snapshot: String,
    /// The size of the screen.
    pub size: Size,
    /// The later output as the program wrote it, without queries that the viewer's terminal would answer.
    pub output: broadcast::Receiver<Output>,
}

/// A portion of output, or its end.
#[derive(Debug, Clone)]
pub enum Output {
    /// Bytes as the program wrote them, without its queries to the terminal and without clipboard contents.
    Bytes(Arc<[u8]>),
    /// The size of the screen has changed.
    Resized(Size),
    /// The program has ended.
    Ended(Exit),
}

#[derive(Debug)]
pub(crate) enum Request {
    Send(Input, oneshot::Sender<Result<Sent, InputError>>),
    Wait(Wait, u64, oneshot::Sender<(Waited, View)>),
    /// Cancels the wait with this number.
    Forget(u64),
    /// Waits for the first prompt, silence, or the end of the program.
    Ready(Quiet, Duration, oneshot::Sender<View>),
    View(bool, oneshot::Sender<View>),
    Picture(oneshot::Sender<Picture>),
    Scrollback(usize, oneshot::Sender<Picture>),
    /// Reads the entries of the log of inputs starting at this number.
    Inputs(u64, oneshot::Sender<Vec<LoggedInput>>),
    Recording(oneshot::Sender<OutputRecording>),
    Pieces(Vec<(u64, u64)>, usize, oneshot::Sender<Vec<String>>),
    /// Replies when the screen differs from the known version.
    WatchScreen(ScreenWatcher),
    Read(Part, Limit, oneshot::Sender<Excerpt>),
    Run(CommandRequest, oneshot::Sender<Result<CommandResult, RunError>>),
    /// Waits for the answer to the written request.
    Exchange(oneshot::Sender<Result<(), VariablesError>>),
    /// Returns the kind of the shell that answers typed lines, if it is an inner shell.
    InnerShell(oneshot::Sender<Option<Kind>>),
    InputSettings(oneshot::Sender<Option<String>>),
    /// Returns the process group and the name of the program that waits for input, if any.
    Waiter(oneshot::Sender<Option<(i32, Option<String>)>>),
    /// Removes the text of other clients at the prompt, for a run.
    ClearLine(String, oneshot::Sender<Result<(), InputError>>),
    /// Runs the script in an inner shell and returns its output.
    Script(QueryScript, oneshot::Sender<Result<Vec<u8>, VariablesError>>),
    Describe(oneshot::Sender<Description>),
    Resize(Size, oneshot::Sender<()>),
    Signal(Signal, oneshot::Sender<Result<(), Option<Exit>>>),
    Attach(oneshot::Sender<Attached>),
    Hold(LockHolder, HoldKey, oneshot::Sender<Result<(), LockHolder>>),
    GiveBack(HoldKey, Option<String>, oneshot::Sender<()>),
    HandedBack(oneshot::Sender<Option<Handover>>),
    Close(Closing, oneshot::Sender<Closed>),
}

impl Request {
    /// Returns whether the request may change the state of the terminal.
    fn may_change_state(&self) -> bool {
        match self {
            Self::Send(..)
            | Self::Run(..)
            | Self::Script(..)
            | Self::ClearLine(..)
            | Self::Resize(..)
            | Self::Signal(..)
            | Self::Hold(..)
            | Self::GiveBack(..)
            | Self::Close(..) => true,
            Self::Wait(..)
            | Self::Forget(_)
            | Self::Ready(..)
            | Self::View(..)
            | Self::Picture(_)
            | Self::Scrollback(..)
            | Self::Inputs(..)
            | Self::Recording(_)
            | Self::Pieces(..)
            | Self::WatchScreen(..)
            | Self::Read(..)
            | Self::Exchange(_)
            | Self::InnerShell(_)
            | Self::InputSettings(_)
            | Self::Waiter(_)
            | Self::Describe(_)
            | Self::Attach(_)
            | Self::HandedBack(_) => false,
        }
    }
}

impl Terminal {
    pub(crate) fn new(id: TerminalId, pid: i32, life: Lifecycle, requests: mpsc::UnboundedSender<Request>) -> Self {
        Self { id, pid, life, requests, integration: None, question_states: Arc::default() }
    }

    pub(crate) fn with_integration(self, integration: Option<IntegrationSession>) -> Self {
        Self { integration: integration.map(|session| Arc::new(tokio::sync::Mutex::new(session))), ..self }
    }

    /// Returns the process id of its program.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns whether the terminal is open. False while the terminal is being opened.
    pub(crate) fn is_open(&self) -> bool {
        !self.requests.is_closed() && !self.life.0.closed.load(Ordering::Relaxed)
    }

    /// Returns the end time of the terminal's program, if the program has ended.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.life.0.ended.get().copied()
    }

    /// Returns the id of the terminal.
    #[must_use]
    pub fn id(&self) -> &TerminalId {
        &self.id
    }

    async fn send_request<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, TerminalClosed> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).map_err(|_| TerminalClosed)?;
        answer.await.map_err(|_| TerminalClosed)
    }

    /// Types into the terminal and returns when the condition of `input.settle` holds.
    ///
    /// # Errors
    /// If a key is unknown, or the program has ended or does not read. The program then receives nothing.
    pub async fn send(&self, input: Input) -> Result<Sent, InputError> {
        let Some(gate) = input.approved_at.clone() else {
            return self.send_request(|reply| Request::Send(input, reply)).await?;
        };
        let checked = self.check_approved(&gate, input.run.as_deref()).await?;
        checked.map_err(InputError::Changed)?;
        let sent = self.send_request(|reply| Request::Send(input, reply)).await?;
        self.record_use(&gate, sent.is_ok());
        sent
    }

    /// Waits for the condition of `wait`. A drop of the future cancels the wait.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn wait(&self, wait: Wait) -> Result<(Waited, View), TerminalClosed> {
        use std::sync::atomic::AtomicU64;
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let cancel_guard = CancelOnDrop { terminal: self, number };
        let waited = self.send_request(|reply| Request::Wait(wait, number, reply)).await;
        std::mem::forget(cancel_guard);
        waited
    }

    /// Waits until a newly started program accepts input: at its first prompt, or after silence.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn ready(&self, quiet: Quiet, timeout: Duration) -> Result<View, TerminalClosed> {
        self.send_request(|reply| Request::Ready(quiet, timeout, reply)).await
    }

    /// Returns the current screen and state; `with_colours` keeps the screen's colours.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn view(&self, with_colours: bool) -> Result<View, TerminalClosed> {
        self.send_request(|reply| Request::View(with_colours, reply)).await
    }

    /// Returns the current cells of the screen, with their colours.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn picture(&self) -> Result<Picture, TerminalClosed> {
        self.send_request(Request::Picture).await
    }

    /// Returns the cells of at most `max_rows` rows that scrolled off the screen, followed by the cells of the screen.
    /// A full-screen program has no scrolled rows.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn scrollback(&self, max_rows: usize) -> Result<Picture, TerminalClosed> {
        self.send_request(|reply| Request::Scrollback(max_rows, reply)).await
    }

    /// Returns the entries of the log of inputs starting at this number, oldest first.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn inputs(&self, from: u64) -> Result<Vec<LoggedInput>, TerminalClosed> {
        self.send_request(|reply| Request::Inputs(from, reply)).await
    }

    /// Returns the recording of the recent output.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn recording(&self) -> Result<OutputRecording, TerminalClosed> {
        self.send_request(Request::Recording).await
    }

    /// Returns the texts of ranges of offsets. A longer text than `max_chars` characters is shortened to its beginning
    /// and end. The texts exclude the output of full-screen programs, and have at most 4 MiB together.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn pieces(&self, ranges: Vec<(u64, u64)>, max_chars: usize) -> Result<Vec<String>, TerminalClosed> {
        self.send_request(|reply| Request::Pieces(ranges, max_chars, reply)).await
    }

    /// Returns the screen when it differs from the known version; immediately without a known version.
    ///
    /// # Errors
    /// If the terminal has closed, or closes in the meantime.
    pub async fn watch_screen(&self, known: Option<u64>) -> Result<ScreenUpdate, TerminalClosed> {
        self.send_request(|reply| Request::WatchScreen(ScreenWatcher { known, reply: ScreenReply::Whole(reply) })).await
    }

    /// Like [`Terminal::watch_screen`], but returns only the rows that differ from the known version. The version comes
    /// from this method or from [`Terminal::watch_screen`].
    ///
    /// # Errors
    /// If the terminal has closed, or closes in the meantime.
    pub async fn watch_rows(&self, known: Option<u64>) -> Result<ScreenDelta, TerminalClosed> {
        self.send_request(|reply| Request::WatchScreen(ScreenWatcher { known, reply: ScreenReply::Rows(reply) })).await
    }

    /// Returns a part of the output within `limit`.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn read(&self, part: Part, limit: Limit) -> Result<Excerpt, TerminalClosed> {
        self.send_request(|reply| Request::Read(part, limit, reply)).await
    }

    /// Returns the state without the screen.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn describe(&self) -> Result<Description, TerminalClosed> {
        self.send_request(Request::Describe).await
    }

    /// Runs one command in the shell at its prompt and returns its output and exit code.
    ///
    /// At the prompt of a program without marks, the command is an entry without an exit code. A drop of the future
    /// cancels the wait, but not the command.
    ///
    /// # Errors
    /// If the command could not be entered or did not run as a whole; see [`RunError`].
    pub async fn run(&self, request: CommandRequest) -> Result<CommandResult, RunError> {
        let Some(gate) = request.approved_at.clone() else {
            return self.send_request(|reply| Request::Run(request, reply)).await?;
        };
        let checked = self.check_approved(&gate, None).await?;
        checked.map_err(RunError::Changed)?;
        // Record the use early, because the command may take long, and other steps of the run may type in the meantime.
        self.record_use(&gate, true);
        let result = self.send_request(|reply| Request::Run(request, reply)).await?;
        self.record_use(&gate, result.is_ok());
        result
    }

    /// Returns variables of the live shell by name, in the requested order; `None` for an unset variable.
    ///
    /// Requires an integrated shell at its prompt, without unentered text in bash. Does not affect the screen, the
    /// history, waits, or the shell's own state. Takes at most 10 s, for values of at most 4 MB in total. An inner
    /// shell receives a typed line; busybox and ksh store the line in their history.
    ///
    /// # Errors
    /// If a name is invalid, or the shell is not at its prompt or does not answer.
    pub async fn variables(&self, names: Vec<String>) -> Result<Vec<(String, Option<Variable>)>, VariablesError> {
        names.iter().try_for_each(|name| exchange::check_name(name))?;
        let variables = self
            .exchange(|script| {
                for name in &names {
                    script.query(name);
                }
            })
            .await?;
        // A shell that failed at one variable did not report the others.
        if variables.len() != names.len() { Err(VariablesError::Unanswered) } else { Ok(variables) }
    }

    /// Sets variables of the live shell and exports them if `exports` is true. Has the requirements of
    /// [`Terminal::variables`]. Does not change arrays and read-only variables.
    ///
    /// # Errors
    /// Same as [`Terminal::variables`], and if a variable does not have its new value. Other variables may be set then.
    pub async fn set_variables(&self, values: Vec<(String, String)>, exports: bool) -> Result<(), VariablesError> {
        for (name, value) in &values {
            exchange::check_name(name)?;
            if value.contains('\0') {
                return Err(VariablesError::Value(name.clone()));
            }
        }
        let reported = self
            .exchange(|script| {
                for (name, value) in &values {
                    script.set(name, value, exports);
                }
                for (name, _) in &values {
                    script.query(name);
                }
            })
            .await?;
        // If a name occurs twice, its last value applies.
        let expected: HashMap<&String, &String> = values.iter().map(|(name, value)| (name, value)).collect();
        let is_set = |name: &String| {
            let reported = reported
                .iter()
                .find(|(variable_name, _)| variable_name == name)
                .and_then(|(_, variable)| variable.as_ref());
            reported
                .is_some_and(|variable| expected.get(name) == Some(&&variable.value) && (variable.exported || !exports))
        };
        let unset_names: Vec<String> =
            values.iter().map(|(name, _)| name.clone()).filter(|name| !is_set(name)).collect();
        if unset_names.is_empty() { Ok(()) } else { Err(VariablesError::Refused(unset_names)) }
    }

    /// Records the state of the terminal at a question to a person, once for each gate. The terminal compares the
    /// recorded state with its current state at an input [approved at this gate](Input::approved_at).
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn record_state(&self, gate: String) -> Result<NotedState, TerminalClosed> {
        if self.find_question_state(&gate).is_none() {
            // Remove text at the prompt: bash does not answer at a prompt with text, and the next approved input would
            // remove the text anyway.
            let run = gate.split_once('/').map_or(gate.as_str(), |(run, _)| run).to_owned();
            let _ = self.send_request(|reply| Request::ClearLine(run, reply)).await?;
            let state = self.read_state().await?;
            let settings = self.wait_for_stable_settings().await?;
            let mut states = self.question_states.lock();
            if states.len() == MAX_QUESTION_STATES
                && let Some(used) = states.iter().position(|question| question.is_used)
            {
                states.remove(used);
            }
            if states.len() < MAX_QUESTION_STATES && !states.iter().any(|question| question.gate == gate) {
                states.push_back(QuestionState { gate: gate.clone(), state, settings, is_used: false });
            }
        }
        Ok(match self.find_question_state(&gate) {
            Some(TerminalState::Shell(state)) => NotedState::Shell { traps: state.traps() },
            Some(TerminalState::Program { program, .. }) => NotedState::Program { program },
            Some(TerminalState::Unknown(reason)) => NotedState::Unknown { reason },
            None => NotedState::Unknown {
                reason: format!("{MAX_QUESTION_STATES} other questions about this terminal are open"),
            },
        })
    }

    fn find_question_state(&self, gate: &str) -> Option<TerminalState> {
        self.question_states.lock().iter().find(|question| question.gate == gate).map(|question| question.state.clone())
    }

    /// Sets the flag for the use of the input approved at a gate.
    fn record_use(&self, gate: &str, is_used: bool) {
        if let Some(question) = self.question_states.lock().iter_mut().find(|question| question.gate == gate) {
            question.is_used = is_used;
        }
    }

    /// Checks that the terminal has not changed since the question at a gate, for an action without typing.
    ///
    /// # Errors
    /// If the terminal has closed. The inner error names the change.
    pub async fn check_state(&self, gate: &str) -> Result<Result<(), String>, TerminalClosed> {
        let result = self.check_approved(gate, None).await?;
        self.record_use(gate, result.is_ok());
        Ok(result)
    }

    /// Returns the current state of the terminal.
    async fn read_state(&self) -> Result<TerminalState, TerminalClosed> {
        match self.read_shell_state().await {
            Ok(state) => Ok(TerminalState::Shell(state)),
            Err(VariablesError::Gone(closed)) => Err(closed),
            Err(error @ (VariablesError::Busy { .. } | VariablesError::NotIntegrated { .. })) => {
                Ok(match self.send_request(Request::Waiter).await? {
                    Some((group, program)) => TerminalState::Program { group, program },
                    None => TerminalState::Unknown(error.to_string()),
                })
            }
            Err(error) => Ok(TerminalState::Unknown(error.to_string())),
        }
    }

    /// Requests the state of the shell when it is at its prompt.
    async fn read_shell_state(&self) -> Result<ShellState, VariablesError> {
        match self.exchange_state().await {
            Err(VariablesError::Busy { .. }) => {
                let wait = Wait {
                    patterns: Vec::new(),
                    target: Target::Output,
                    since: None,
                    until: Until::Prompt,
                    input: Some(InputWait::Known),
                    timeout: PROMPT_TIMEOUT,
                    by: None,
                    ..Wait::default()
                };
                self.wait(wait).await?;
                self.exchange_state().await
            }
            answer => answer,
        }
    }

    async fn exchange_state(&self) -> Result<ShellState, VariablesError> {
        if self.send_request(Request::InnerShell).await?.is_some() {
            return Err(VariablesError::NotIntegrated { program: None });
        }
        let (files, exchange_guard) = self.exchange_files(QueryScript::state).await?;
        let pid = self.pid;
        let read = move || {
            let state = files.read_state();
            drop((files, exchange_guard));
            let mut state = state?;
            state.add_process(pid);
            Ok(state)
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| VariablesError::System(error.to_string()))?
    }

    /// Checks that the terminal has not changed since the question to a person at a gate.
    ///
    /// # Errors
    /// If the terminal has closed. The inner error names the change.
    async fn check_approved(&self, gate: &str, run: Option<&str>) -> Result<Result<(), String>, TerminalClosed> {
        let question = self.question_states.lock().iter().find(|question| question.gate == gate).cloned();
        let (approved_state, settings) = match question {
            // The terminal is newer than the question, the approved input was already typed, or the state was unknown.
            None
            | Some(QuestionState { is_used: true, .. } | QuestionState { state: TerminalState::Unknown(_), .. }) => {
                return Ok(Ok(()));
            }
            Some(QuestionState { state, settings, .. }) => (state, settings),
        };
        if let Some(run) = run {
            // The shell does not answer while the prompt has text. If no key removes the text, the comparison fails.
            let _ = self.send_request(|reply| Request::ClearLine(run.to_owned(), reply)).await?;
        }
        let current_state = self.read_state().await?;
        Ok(match (&approved_state, &current_state) {
            (TerminalState::Shell(approved_state), TerminalState::Shell(current_state)) => {
                match approved_state.difference(current_state) {
                    Some(difference) => Err(difference),
                    None => self.check_settings(settings).await?,
                }
            }
            (TerminalState::Program { group, .. }, TerminalState::Program { group: current_state, .. })
                if group == current_state =>
            {
                self.check_settings(TerminalSettings { files: None, ..settings }).await?
            }
            (TerminalState::Shell(_), TerminalState::Unknown(reason)) => {
                Err(format!("its shell no longer reports its state ({reason})"))
            }
            _ => Err("the program that waits for input".to_owned()),
        })
    }

    /// Returns the settings for typed input when they are stable: a line editor restores them after a report.
    async fn wait_for_stable_settings(&self) -> Result<TerminalSettings, TerminalClosed> {
        let mut settings = self.read_settings().await?;
        for _ in 0..MAX_SETTING_READS {
            tokio::time::sleep(SETTING_PAUSE).await;
            let current = self.read_settings().await?;
            if current == settings {
                break;
            }
            settings = current;
        }
        Ok(settings)
    }

    async fn read_settings(&self) -> Result<TerminalSettings, TerminalClosed> {
        let input = self.send_request(Request::InputSettings).await?;
        let pid = self.pid;
        let files = tokio::task::spawn_blocking(move || OpenFiles::read(pid)).await.unwrap_or_default();
        Ok(TerminalSettings { input, files: Some(files) })
    }

    /// Checks that the settings for typed input and the open files of the shell equal `before`. Another program may
    /// have changed them, for example with `stty -F`.
    async fn check_settings(&self, before: TerminalSettings) -> Result<Result<(), String>, TerminalClosed> {
        let mut difference = String::new();
        for _ in 0..MAX_SETTING_READS {
            let current = self.read_settings().await?;
            match before
                .files
                .as_ref()
                .zip(current.files.as_ref())
                .and_then(|(before, current)| before.difference(current))
            {
                None if before.input.is_none() || current.input == before.input => return Ok(Ok(())),
                None => difference = "settings of the terminal (stty)".to_owned(),
                Some(files) => difference = files,
            }
            tokio::time::sleep(SETTING_PAUSE).await;
        }
        Ok(Err(difference))
    }

    /// Builds a script with `write`, runs it in the shell, and returns the report.
    async fn exchange(&self, write: impl FnOnce(&mut QueryScript)) -> Result<Vec<VariableReport>, VariablesError> {
        let failed = |error: tokio::task::JoinError| VariablesError::System(error.to_string());
        if let Some(kind) = self.send_request(Request::InnerShell).await? {
            let mut script = QueryScript::new(kind);
            write(&mut script);
            let answer = self.send_request(|reply| Request::Script(script, reply)).await??;
            return Ok(exchange::parse_answer(&answer, kind));
        }
        let (files, exchange_guard) = self.exchange_files(write).await?;
        let read = move || {
            let answer = files.read();
            drop((files, exchange_guard));
            answer
        };
        tokio::task::spawn_blocking(read).await.map_err(failed)?
    }

    /// Builds a script with `write` and runs it in the terminal's own shell. Returns the files with the answer, and a
    /// guard that prevents other exchanges from replacing them.
    async fn exchange_files(
        &self,
        write: impl FnOnce(&mut QueryScript),
    ) -> Result<(ExchangeFiles, OwnedMutexGuard<IntegrationSession>), VariablesError> {
        let failed = |error: tokio::task::JoinError| VariablesError::System(error.to_string());
        let Some(session) = &self.integration else {
            // The task reports the running program as an error.
            self.send_request(Request::Exchange).await??;
            return Err(VariablesError::NoHandler);
        };
        // All exchanges share one pair of files, so run one exchange at a time.
        let session = session.clone().lock_owned().await;
        let mut script = QueryScript::new(session.kind);
        write(&mut script);
        let session_for_write = session.clone();
        let write_result = tokio::task::spawn_blocking(move || ExchangeFiles::write(&session_for_write, &script));
        let files = write_result.await.map_err(failed)??;
        self.send_request(Request::Exchange).await??;
        Ok((files, session))
    }

    /// Changes the size.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn resize(&self, size: Size) -> Result<(), TerminalClosed> {
        self.send_request(|reply| Request::Resize(size, reply)).await
    }

    /// Sends a signal to the foreground program.
    ///
    /// # Errors
    /// If the terminal has closed. The inner error is the exit of a program that had ended.
    pub async fn signal(&self, signal: Signal) -> Result<Result<(), Option<Exit>>, TerminalClosed> {
        self.send_request(|reply| Request::Signal(signal, reply)).await
    }

    /// Attaches a viewer: returns the current screen and the later output.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn attach(&self) -> Result<Attached, TerminalClosed> {
        self.send_request(Request::Attach).await
    }

    /// Takes the write lock: until its release, the terminal accepts only inputs with `key`. A repeated call with the
    /// same key changes nothing.
    ///
    /// # Errors
    /// If the terminal has closed. The inner error is the current holder.
    pub async fn hold(&self, holder: LockHolder, key: HoldKey) -> Result<Result<(), LockHolder>, TerminalClosed> {
        self.send_request(|reply| Request::Hold(holder, key, reply)).await
    }

    /// Releases the write lock, if `key` holds it.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn give_back(&self, key: HoldKey) -> Result<(), TerminalClosed> {
        self.hand_back(key, None).await
    }

    /// Releases the write lock like [`Terminal::give_back`], with a note to the next client that types.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn hand_back(&self, key: HoldKey, note: Option<String>) -> Result<(), TerminalClosed> {
        self.send_request(|reply| Request::GiveBack(key, note, reply)).await
    }

    /// Returns the client that held the terminal and released it since the last call.
    ///
    /// # Errors
    /// If the terminal has closed.
    pub async fn handed_back(&self) -> Result<Option<Handover>, TerminalClosed> {
        self.send_request(Request::HandedBack).await
    }

    /// Ends all processes of the terminal and closes it.
    ///
    /// # Errors
    /// If the terminal has already closed.
    pub async fn close(&self, closing: Closing) -> Result<Closed, TerminalClosed> {
        self.send_request(|reply| Request::Close(closing, reply)).await
    }
}

/// Guard that cancels a wait in the terminal's task on its drop.
struct CancelOnDrop<'a> {
    terminal: &'a Terminal,
    number: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        // A closed terminal has no waits.
        let _ = self.terminal.requests.send(Request::Forget(self.number));
    }
}

/// The open terminals of a process, by id.
pub(crate) type Open = HashMap<TerminalId, Terminal>;
