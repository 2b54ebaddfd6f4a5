//! The protocol of a terminal host.
//!
//! Both sides send frames over a private stream socket. A frame is the length of the rest (four bytes, big endian), a
//! number (eight bytes) that identifies a request and its answer, and a body in MessagePack (<https://msgpack.org>).
//! Bodies contain field names, so that either side may know fewer fields than the other. A client sends
//! [`HostRequest`]s. The host answers with a `Result` of the requested value or a [`Refusal`]; after an attachment,
//! [`AttachEvent`]s follow under the same number. Frames with the number 0 carry texts to hide. The host sends these
//! frames without a request.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steplatch_files::FileRequest;
use steplatch_ids::{RunId, TerminalId};
use steplatch_ledger::{Effect, EffectKey};
use steplatch_terminal::{
    CommandRequest, HoldKey, Input, InputReading, InputWait, Limit, LockHolder, OpenError, Part, Quiet, SecretText,
    Size, SpawnError, Spec, Target, Until,
};

/// Version of the protocol. A host of another version keeps its terminals, but receives no requests about them.
pub const WIRE_VERSION: u32 = 1;

/// Maximum length of a body.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 20;

/// Size of a frame's head: the length and the number of the frame.
pub(crate) const HEAD_BYTES: usize = 12;

/// Number of frames without a request, each with a text to hide in all output.
pub(crate) const SECRETS: u64 = 0;

/// A request to a host.
#[allow(clippy::large_enum_variant, reason = "nearly every request is the large one, and is moved once")]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum HostRequest {
    /// Exchange versions and secrets. → [`crate::HostHello`]
    Hello {
        /// The version that the client speaks.
        wire: u32,
        /// True if the client is the daemon of this computer. The host drops unread requests of earlier daemons, so
        /// that this daemon learns of all their effects.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_owner: bool,
    },
    /// Open a terminal. → `Result<OpenedTerminal, OpenRefused>`
    Open(Box<OpenRequest>),
    /// List the open terminals. → `Vec<Description>`
    List,
    /// Find the terminal with this id or name. → `Option<TerminalId>`
    Find(String),
    /// Find the terminal that this step opened. Waits for an opening in progress. → `Option<TerminalId>`
    OpenedBy(String),
    /// Return whether a request for an effect of this step has arrived. → `bool`
    HasStep(String),
    /// A request to one terminal.
    Terminal(TerminalId, TerminalRequest),
    /// Hide this secret starting now, also for later daemons. → `()`
    Remember(SecretText),
    /// Open no new terminals, and end with the last one. → `()`
    Retire,
    /// Close every terminal, and end. → `()`
    Shutdown,
    /// Cancel the request with this number. No answer.
    Cancel(u64),
    /// Return the count of terminal activity once it differs from this count; immediately for `None`. → `u64`
    WatchActivity(Option<u64>),
    /// Use this connection for a link of a remote host (`steplatch-link`) after the answer. → `()`
    Link,
    /// Execute a request about a file of this computer; [`FileRequest`] documents the answers.
    File(FileRequest),
    /// Drop the results of these steps: the client has stored them, or has abandoned the steps. A text that ends with
    /// `/` names all steps that begin with it. Closes the terminals of their single commands. → `()`
    Settle(Vec<String>),
    /// List the steps of runs whose results the host keeps until [`Self::Settle`]. → `Vec<String>`
    Unsettled,
}

impl HostRequest {
    /// Returns whether a client may send the request again if its answer was lost, because a repetition changes nothing
    /// more. The host executes an input or a command with a step once, and answers repetitions with the first result.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Open(request) => request.step.is_some(),
            Self::Shutdown | Self::Cancel(_) | Self::Link => false,
            Self::Terminal(_, ask) => ask.is_repeatable(),
            Self::Hello { .. }
            | Self::List
            | Self::Find(_)
            | Self::OpenedBy(_)
            | Self::HasStep(_)
            | Self::Remember(_)
            | Self::Retire
            | Self::WatchActivity(_)
            | Self::Settle(_)
            | Self::Unsettled
            | Self::File(_) => true,
        }
    }

    /// Returns the requested effect of a step. The host performs it once, even if the connection is lost.
    pub(crate) fn effect(&self) -> Option<EffectKey> {
        let (effect, step) = match self {
            Self::Open(request) => (Effect::Open, request.step.as_ref()?),
            Self::Terminal(_, TerminalRequest::Send(input)) => (Effect::Type, input.step.as_ref()?),
            Self::Terminal(_, TerminalRequest::Run(request)) => (Effect::Run, request.step.as_ref()?),
            Self::Terminal(_, TerminalRequest::CloseOnce(_, step)) => (Effect::Close, step),
            Self::File(FileRequest::Finish { step, .. }) => (Effect::Write, step.as_ref()?),
            _ => return None,
        };
        Some(EffectKey::new(effect, step))
    }

    /// Returns whether the request is a key or a mouse action in an attached terminal. A client repeats such a request
    /// immediately or never.
    pub(crate) fn is_keystroke(&self) -> bool {
        matches!(self, Self::Terminal(_, TerminalRequest::Send(input)) if !input.raw.is_empty() || !input.mouse.is_empty())
    }

    /// Returns the maximum length of a remote host's answer in bytes. Valid answers are shorter, except for a screen of
    /// a million cells of different colours.
    pub(crate) fn max_answer_bytes(&self) -> usize {
        const SMALL_BYTES: usize = 1 << 20;
        const LIST_BYTES: usize = 4 << 20;
        const SCREEN_BYTES: usize = 8 << 20;
        const CELLS_BYTES: usize = 16 << 20;
        let max_bytes = match self {
            Self::Hello { .. } | Self::List | Self::Unsettled => LIST_BYTES,
            // Room for a hundred thousand names.
            Self::File(FileRequest::List(_)) => MAX_BODY_BYTES,
            Self::File(FileRequest::Read { limit, .. }) => limit.saturating_mul(2).saturating_add(LIST_BYTES),
            Self::Terminal(_, ask) => match ask {
                TerminalRequest::View(_)
                | TerminalRequest::Ready(..)
                | TerminalRequest::Send(_)
                | TerminalRequest::Wait(_)
                | TerminalRequest::Attach => SCREEN_BYTES,
                TerminalRequest::Picture
                | TerminalRequest::Scrollback(_)
                | TerminalRequest::WatchScreen(_)
                | TerminalRequest::WatchRows(_)
                | TerminalRequest::Inputs(_)
                | TerminalRequest::Recording
                | TerminalRequest::Variables(_) => CELLS_BYTES,
                TerminalRequest::Read(_, limit) => limit.max_bytes().saturating_add(SMALL_BYTES),
                TerminalRequest::Run(request) => request.limit.max_bytes().saturating_add(SCREEN_BYTES),
                TerminalRequest::Pieces(ranges, max_chars) => ranges
                    .len()
                    .saturating_mul(Limit::Head(*max_chars).max_bytes().saturating_add(16))
                    .saturating_add(SMALL_BYTES),
                _ => SMALL_BYTES,
            },
            _ => SMALL_BYTES,
        };
        max_bytes.min(MAX_BODY_BYTES)
    }

    /// Returns the maximum number of characters of the answer's texts, if the request has a limit.
    pub(crate) fn max_chars(&self) -> Option<usize> {
        match self {
            Self::Terminal(_, TerminalRequest::Read(_, limit)) => Some(limit.chars()),
            Self::Terminal(_, TerminalRequest::Run(request)) => Some(request.limit.chars()),
            Self::Terminal(_, TerminalRequest::Pieces(_, max_chars)) => Some(*max_chars),
            _ => None,
        }
    }

    /// Returns whether the request has a noticeable effect.
    pub(crate) fn acts(&self) -> bool {
        match self {
            Self::Open(_) | Self::Terminal(_, TerminalRequest::Send(_) | TerminalRequest::Run(_)) => true,
            ask => ask.effect().is_some() || !ask.is_repeatable(),
        }
    }

    /// Returns the requested time of a wait, or zero.
    pub(crate) fn wait_time(&self) -> Duration {
        match self {
            Self::Terminal(_, TerminalRequest::Wait(wait)) => wait.timeout,
            _ => Duration::ZERO,
        }
    }

    /// Returns the maximum duration of the request itself; `None` if it is unlimited.
    pub(crate) fn max_duration(&self) -> Option<Duration> {
        match self {
            Self::Terminal(_, ask) => ask.max_duration(),
            // `OpenedBy` waits for an opening in progress.
            Self::OpenedBy(_) | Self::WatchActivity(_) | Self::Link | Self::Cancel(_) => None,
            // Reading a large file may take minutes.
            Self::File(FileRequest::Digest { length, .. } | FileRequest::Finish { length, .. }) => {
                Some(Duration::from_secs(length / MIN_DIGEST_BYTES_PER_SECOND))
            }
            // The opening may wait for a free place.
            Self::Open(request) => Some(request.place_wait().unwrap_or_default()),
            Self::Hello { .. }
            | Self::List
            | Self::Find(_)
            | Self::HasStep(_)
            | Self::Remember(_)
            | Self::Retire
            | Self::Shutdown
            | Self::Settle(_)
            | Self::Unsettled
            | Self::File(_) => Some(Duration::ZERO),
        }
    }

    /// Returns the request to repeat after `elapsed`, with the remaining time of a wait.
    pub(crate) fn after(&self, elapsed: Duration) -> Self {
        let mut ask = self.clone();
        if let Self::Terminal(_, TerminalRequest::Wait(wait)) = &mut ask {
            wait.timeout = wait.timeout.saturating_sub(elapsed);
        }
        ask
    }
}

/// Minimum speed of reading a file for its digest, in bytes per second.
const MIN_DIGEST_BYTES_PER_SECOND: u64 = 1 << 20;

impl TerminalRequest {
    fn max_duration(&self) -> Option<Duration> {
        match self {
            Self::Wait(wait) => Some(wait.timeout),
            Self::Run(request) => Some(request.timeout),
            Self::Ready(_, timeout) => Some(*timeout),
            Self::Send(input) => Some(input.settle.map_or(Duration::ZERO, |settle| settle.timeout)),
            Self::WatchScreen(_) | Self::WatchRows(_) => None,
            Self::View(_)
            | Self::Picture
            | Self::Scrollback(_)
            | Self::Inputs(_)
            | Self::Recording
            | Self::Pieces(..)
            | Self::Read(..)
            | Self::Describe
            | Self::Resize(_)
            | Self::Signal(_)
            | Self::Attach
            | Self::Hold(..)
            | Self::GiveBack(_)
            | Self::HandBack(..)
            | Self::HandedBack
            | Self::Stage(_)
            | Self::Variables(_)
            | Self::SetVariables(..)
            | Self::NoteState(_)
            | Self::CheckState(_)
            | Self::Close(_)
            | Self::CloseOnce(..) => Some(Duration::ZERO),
        }
    }

    fn is_repeatable(&self) -> bool {
        match self {
            Self::Send(input) => input.step.is_some(),
            Self::Run(request) => request.step.is_some(),
            // A repetition would lose the first report, or act twice.
            Self::HandedBack | Self::HandBack(..) | Self::Signal(_) | Self::Close(_) | Self::SetVariables(..) => false,
            Self::Wait(_)
            | Self::Ready(..)
            | Self::View(_)
            | Self::Picture
            | Self::Scrollback(_)
            | Self::Inputs(_)
            | Self::Recording
            | Self::Pieces(..)
            | Self::WatchScreen(_)
            | Self::WatchRows(_)
            | Self::Read(..)
            | Self::Describe
            | Self::Resize(_)
            | Self::Attach
            | Self::Hold(..)
            | Self::GiveBack(_)
            | Self::Stage(_)
            | Self::CloseOnce(..)
            | Self::NoteState(_)
            | Self::CheckState(_)
            | Self::Variables(_) => true,
        }
    }
}

/// Error message of an invalid pattern of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{0}")]
pub struct InvalidPattern(pub String);

/// A request to one terminal; the answers match [`steplatch_terminal::Terminal`]'s methods.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum TerminalRequest {
    /// Type. → `Result<Sent, InputError>`
    Send(Input),
    /// Wait. → `Result<(Waited, View), InvalidPattern>`
    Wait(WaitRequest),
    /// Wait for the first prompt. → `View`
    Ready(Quiet, Duration),
    /// Return the screen and state, with colours or without. → `View`
    View(bool),
    /// Return the cells of the screen. → `Picture`
    Picture,
    /// Return the cells of the screen, and of at most this number of rows of the scrollback. → `Picture`
    Scrollback(usize),
    /// Return the log of inputs starting at this number. → `Vec<LoggedInput>`
    Inputs(u64),
    /// Return the recording of the recent output. → `OutputRecording`
    Recording,
    /// Read the texts between offsets, each of at most this number of characters. → `Vec<String>`
    Pieces(Vec<(u64, u64)>, usize),
    /// Return the screen once it differs from this version; immediately for `None`. → `ScreenUpdate`
    WatchScreen(Option<u64>),
    /// Like [`Self::WatchScreen`], with only the rows that differ from this version. → `ScreenDelta`
    WatchRows(Option<u64>),
    /// Read output. → `Excerpt`
    Read(Part, Limit),
    /// Describe the terminal. → `Description`
    Describe,
    /// Resize. → `()`
    Resize(Size),
    /// Send the signal of this number to the foreground program. → `Result<(), Option<Exit>>`
    Signal(i32),
    /// Attach to the terminal. → `AttachReply`, then [`AttachEvent`]s until cancelled
    Attach,
    /// Take the writer's seat. The host gives it back if the client stays disconnected. → `Result<(), LockHolder>`
    Hold(LockHolder, HoldKey),
    /// Give the writer's seat back. → `()`
    GiveBack(HoldKey),
    /// Give the writer's seat back, with a note to the next client that types. → `()`
    HandBack(HoldKey, String),
    /// Return the holder that has given the writer's seat back since the last report. → `Option<Handover>`
    HandedBack,
    /// Return the progress of the input of a step. → `Option<Stage>`
    Stage(String),
    /// Run a command in the shell. → `Result<CommandResult, RunError>`
    Run(CommandRequest),
    /// Return variables of the shell. → `Result<Vec<(String, Option<Variable>)>, VariablesError>`
    Variables(Vec<String>),
    /// Set variables of the shell; export them if true. → `Result<(), VariablesError>`
    SetVariables(Vec<(String, String)>, bool),
    /// Record the state of the terminal for this gate. → `NotedState`
    NoteState(String),
    /// Compare the state of the terminal with the state recorded for this gate. → `Result<(), String>`
    CheckState(String),
    /// Close the terminal, beginning with the signal of this number. → `Closed`
    Close(Option<i32>),
    /// Close the terminal as an effect of this step. → `Closed`
    CloseOnce(Option<i32>, String),
}

/// Progress of the input of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The terminal has accepted the input; a part may have reached the program.
    Intent,
    /// All of the input was written. Only hosts of older versions report this.
    Written,
    /// The input was typed, and the requested wait for its reaction has ended.
    Done,
}

/// Request to open a terminal; see [`Spec`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenRequest {
    arguments: Vec<OsString>,
    command: String,
    #[serde(rename = "folder")]
    directory: PathBuf,
    inherited: Vec<(OsString, OsString)>,
    environment: Vec<(OsString, OsString)>,
    size: Size,
    name: Option<String>,
    opened_by: Option<String>,
    pub(crate) step: Option<String>,
    /// True if the request comes from a remote host: the terminal gets the environment of the host, and a relative
    /// directory begins at the home directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    from_elsewhere: bool,
    /// Maximum wait for a free place, set for a terminal of a single command. Such a terminal closes when the client
    /// settles its step. Hosts of older versions ignore this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) single_command: Option<Duration>,
    /// Maximum time to wait for a free place. Hosts of older versions ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place_timeout: Option<Duration>,
}

/// Policy for an opening while the maximum number of terminals is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlacePolicy {
    /// The host refuses the opening.
    #[default]
    AtOnce,
    /// The opening waits at most this time for the close of another terminal.
    Within(Duration),
    /// Like [`Self::Within`], for the terminal of a single command. The terminal closes when the client settles its
    /// step.
    ForCommand(Duration),
}

impl From<Spec> for OpenRequest {
    fn from(spec: Spec) -> Self {
        let Spec { arguments, command, directory, inherited, environment, size, name, opened_by, step } = spec;
        Self {
            arguments,
            command,
            directory,
            inherited,
            environment,
            size,
            name,
            opened_by,
            step,
            from_elsewhere: false,
            single_command: None,
            place_timeout: None,
        }
    }
}

impl OpenRequest {
    /// Returns the request for a remote terminal host, without inherited variables of this computer.
    pub(crate) fn for_remote_host(spec: Spec) -> Self {
        Self { inherited: Vec::new(), from_elsewhere: true, ..Self::from(spec) }
    }

    /// Returns the request with this policy.
    pub(crate) fn at(self, place: PlacePolicy) -> Self {
        let (single_command, place_timeout) = match place {
            PlacePolicy::AtOnce => (None, None),
            PlacePolicy::Within(wait) => (None, Some(wait)),
            PlacePolicy::ForCommand(wait) => (Some(wait), None),
        };
        Self { single_command, place_timeout, ..self }
    }

    /// Returns the maximum time to wait for a free place.
    pub(crate) fn place_wait(&self) -> Option<Duration> {
        self.single_command.or(self.place_timeout)
    }

    /// Returns the terminal to open. A request from a remote host gets the environment of this process.
    pub(crate) fn into_spec(self) -> Spec {
        let Self { arguments, command, directory, inherited, environment, size, name, opened_by, step, .. } = self;
        let spec = Spec { arguments, command, directory, inherited, environment, size, name, opened_by, step };
        if self.from_elsewhere { spec.at_home(std::env::vars_os()) } else { spec }
    }
}

/// An opened terminal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenedTerminal {
    /// The id.
    pub id: TerminalId,
    /// Process id of its program.
    pub pid: i32,
    /// True if the terminal's shell reports the beginning of each prompt.
    pub integrated: bool,
}

/// Reason for the refusal of a new terminal; see [`OpenError`] and [`SpawnError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OpenRefused {
    /// The maximum number of terminals is open.
    #[error("{max_terminals} terminals are open, which is the limit")]
    TooMany {
        /// The limit.
        #[serde(rename = "most")]
        max_terminals: usize,
    },
    /// The maximum number of terminals was open during the whole wait.
    #[error("{max_terminals} terminals are open, which is the limit, and none was closed within {} s", .waited.as_secs_f64())]
    NonePlaced {
        /// The limit.
        #[serde(rename = "most")]
        max_terminals: usize,
        /// Duration of the wait.
        waited: Duration,
    },
    /// Another terminal has that name.
    #[error("the name '{name}' is taken by {by}")]
    NameTaken {
        /// The name.
        name: String,
        /// The terminal that has it.
        by: TerminalId,
    },
    /// The step opened a terminal before, and the terminal has closed since. Only hosts of older versions report this.
    #[error("the step opened {terminal} earlier, which has closed since")]
    OpenedBefore {
        /// The terminal.
        terminal: TerminalId,
    },
    /// No such program.
    #[error("program '{0}' was not found")]
    NotFound(String),
    /// No such directory.
    #[error("directory '{}' does not exist", .0.display())]
    #[serde(rename = "NoFolder")]
    NoDirectory(PathBuf),
    /// The user may not execute the program, or the system has no resources left.
    #[error("{0}")]
    Other(String),
}

impl From<OpenError> for OpenRefused {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::TooMany { max_terminals } => Self::TooMany { max_terminals },
            OpenError::NameTaken { name, by } => Self::NameTaken { name, by },
            error @ OpenError::NameLikeId { .. } => Self::Other(format!("{error}; choose another one")),
            OpenError::NonePlaced { max_terminals, waited } => Self::NonePlaced { max_terminals, waited },
            OpenError::Program(SpawnError::NotFound(program)) => Self::NotFound(program),
            OpenError::Program(SpawnError::NoDirectory(directory)) => Self::NoDirectory(directory),
            OpenError::Program(SpawnError::System(error)) => {
                Self::Other(format!("the program could not be started: {error}"))
            }
            OpenError::Program(error) => Self::Other(error.to_string()),
        }
    }
}

/// Request to wait, with the source text of its patterns; see [`steplatch_terminal::Wait`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WaitRequest {
    /// Patterns.
    pub patterns: Vec<String>,
    /// The part of the terminal to search.
    pub target: Target,
    /// Start offset of the search.
    pub since: Option<u64>,
    /// Other conditions that end the wait.
    pub until: Until,
    /// Set if the wait also ends when the program waits for input. Hosts of older versions ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputWait>,
    /// Required reading mode of the program; a match ends the wait only in this mode. Hosts of older versions ignore
    /// this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<InputReading>,
    /// True if the program must read whole lines for a match to end the wait. Hosts of older versions ignore it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_lines: bool,
    /// Texts that must be highlighted on the screen for a match there. Hosts of older versions ignore them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<String>,
    /// Time limit of the wait.
    pub timeout: Duration,
    /// Waiting client or run, for the log of inputs. Hosts of older versions ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Line whose prompt ends the wait, see [`Wait::line`]. Hosts of older versions ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// First screen of a new viewer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AttachReply {
    pub(crate) snapshot: String,
    pub(crate) size: Size,
}

/// An event that an attached client receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttachEvent {
    /// The program wrote this.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The client fell behind; this text draws the current screen.
    Redrawn(String),
    /// The screen has another size.
    Resized(Size),
    /// The program ended; no event follows.
    Ended(steplatch_terminal::Exit),
    /// The terminal has closed.
    Closed,
}

/// Reason for the refusal of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The terminal does not exist, or was closed.
    #[error("the terminal was closed")]
    NoTerminal,
    /// The host does not know this request, or speaks another version.
    #[error("the terminal host does not support this request; close its terminals and it will be replaced")]
    NotUnderstood,
    /// The host takes no new terminals.
    #[error("the terminal host is about to exit")]
    Retiring,
    /// The step was begun before, and its result was lost or dropped.
    #[error("this step was begun earlier and is not repeated; its result is unknown")]
    OutcomeUnknown,
}

/// Returns the body of a frame.
pub(crate) fn body_of(body: &impl Serialize) -> Vec<u8> {
    // Every type of the protocol can be encoded.
    rmp_serde::to_vec_named(body).expect("every message can be encoded")
}

/// Appends a frame to `out`.
pub(crate) fn write_frame(out: &mut Vec<u8>, number: u64, body: &impl Serialize) {
    append_frame(out, number, |out| {
        // Writing to memory does not fail, and every type of the protocol can be encoded.
        rmp_serde::encode::write_named(out, body).expect("every message can be encoded");
    });
}

/// Appends a frame to `out`; `write` appends the body.
pub(crate) fn append_frame(out: &mut Vec<u8>, number: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    write(out);
    // Excerpts and screens are limited, so no message comes near four gigabytes.
    let length = u32::try_from(out.len() - start - 4).expect("a frame is shorter than four gigabytes");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out[start + 4..start + HEAD_BYTES].copy_from_slice(&number.to_be_bytes());
}

/// Finds the first whole frame in `bytes`: its length, its number, and the range of its body.
///
/// # Errors
/// If the length is out of bounds: the bytes after it cannot be split.
pub(crate) fn first_frame(bytes: &[u8]) -> Result<Option<(usize, u64, std::ops::Range<usize>)>, BadFrame> {
    let frame = frame_head(bytes)?;
    Ok(frame.filter(|(length, _)| bytes.len() >= *length).map(|(length, number)| (length, number, HEAD_BYTES..length)))
}

/// Reads the head of the first frame in `bytes`, if it is complete: the length of the frame, and its number.
///
/// # Errors
/// If the length is out of bounds: the bytes after it cannot be split.
pub(crate) fn frame_head(bytes: &[u8]) -> Result<Option<(usize, u64)>, BadFrame> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if !(HEAD_BYTES - 4..=MAX_BODY_BYTES).contains(&length) {
        return Err(BadFrame);
    }
    Ok(rest.split_first_chunk::<8>().map(|(number, _)| (4 + length, u64::from_be_bytes(*number))))
}

/// A frame with an impossible length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the data is not a frame")]
pub(crate) struct BadFrame;

/// Received list, cut to `MAX` entries.
#[derive(Debug)]
pub(crate) struct BoundedList<T, const MAX: usize> {
    pub(crate) entries: Vec<T>,
    /// True if entries were dropped.
    pub(crate) is_cut: bool,
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<T, const MAX: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> serde::de::Visitor<'de> for Entries<T, MAX> {
            type Value = BoundedList<T, MAX>;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a list")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while entries.len() < MAX {
                    match list.next_element()? {
                        Some(entry) => entries.push(entry),
                        None => return Ok(BoundedList { entries, is_cut: false }),
                    }
                }
                let mut is_cut = false;
                while list.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    is_cut = true;
                }
                Ok(BoundedList { entries, is_cut })
            }
        }
        from.deserialize_seq(Entries(std::marker::PhantomData))
    }
}

/// Number of list elements that any answer may have.
const FREE_ELEMENTS: u64 = 20_000;

/// Minimum number of bytes of an answer for each further element.
const BYTES_PER_ELEMENT: u64 = 6;

/// Returns whether the number of list elements in a body is plausible for its length. Decoding may need a hundred bytes
/// of memory for an element of one byte, so this check comes first. Reads only the heads of values; decoding reports a
/// body that is not valid MessagePack.
pub(crate) fn is_sparse(body: &[u8]) -> bool {
    let max_elements = FREE_ELEMENTS + body.len() as u64 / BYTES_PER_ELEMENT;
    let (mut elements, mut offset) = (0_u64, 0_usize);
    while let Some(&marker) = body.get(offset) {
        let number = |width: usize| {
            let bytes = body.get(offset + 1..offset + 1 + width)?;
            Some(bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
        };
        // Bytes of the head, bytes after the head, and elements (https://github.com/msgpack/msgpack/blob/master/spec.md).
        let head = |width: usize, extra: u64| number(width).map(|length| (1 + width as u64, length + extra, 0));
        let list = |width: usize| number(width).map(|length| (1 + width as u64, 0, length));
        let (head_bytes, payload_bytes, count) = match marker {
            0x00..=0x8f | 0xc0..=0xc3 | 0xe0..=0xff => (1, 0, 0),
            0x90..=0x9f => (1, 0, u64::from(marker & 0x0f)),
            0xa0..=0xbf => (1, u64::from(marker & 0x1f), 0),
            0xc4..=0xc6 | 0xc7..=0xc9 | 0xd9..=0xdb | 0xdc..=0xdf => {
                let read = match marker {
                    0xc4 | 0xd9 => head(1, 0),
                    0xc5 | 0xda => head(2, 0),
                    0xc6 | 0xdb => head(4, 0),
                    0xc7 => head(1, 1),
                    0xc8 => head(2, 1),
                    0xc9 => head(4, 1),
                    0xdc => list(2),
                    0xdd => list(4),
                    // Do not count maps, because they are structs.
                    0xde => Some((3, 0, 0)),
                    _ => Some((5, 0, 0)),
                };
                let Some(read) = read else { return true };
                read
            }
            0xca | 0xce | 0xd2 => (5, 0, 0),
            0xcb | 0xcf | 0xd3 => (9, 0, 0),
            0xcc | 0xd0 => (2, 0, 0),
            0xcd | 0xd1 => (3, 0, 0),
            0xd4..=0xd8 => (2, 1 << (marker - 0xd4), 0),
        };
        elements += count;
        if elements > max_elements {
            return false;
        }
        offset = usize::try_from(head_bytes + payload_bytes)
            .ok()
            .and_then(|length| offset.checked_add(length))
            .unwrap_or(body.len());
    }
    true
}

/// Maximum nesting of the values in a body, ten times more than messages have. Each level of a skipped value needs some
/// kilobytes of the stack in a debug build.
const MAX_BODY_DEPTH: usize = 64;

/// Decodes a body.
pub(crate) fn read_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(body);
    reader.set_max_depth(MAX_BODY_DEPTH);
    T::deserialize(&mut reader)
}

/// Role of a client of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The daemon of the machine. A host stops serving earlier daemons.
    Daemon,
    /// Any other client.
    Visitor,
}

/// Default time limit for the first answer of a host.
pub const START_TIME: Duration = Duration::from_secs(2);

/// Returns whether a step belongs to a run. A run settles its steps once the journal has their results.
pub(crate) fn is_of_run(step: &str) -> bool {
    step.split('/').next().is_some_and(|run| run.parse::<RunId>().is_ok())
}

/// Returns a number that is unique in this process.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(SECRETS + 1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_read_only_when_complete() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 7, &HostRequest::Find("build".to_owned()));
        let first_frame_length = bytes.len();
        write_frame(&mut bytes, 8, &HostRequest::List);
        for cut in 0..first_frame_length {
            assert_eq!(first_frame(&bytes[..cut]), Ok(None));
        }
        let (taken, number, body) = first_frame(&bytes).unwrap().unwrap();
        assert_eq!((taken, number), (first_frame_length, 7));
        assert!(matches!(read_body(&bytes[body]), Ok(HostRequest::Find(name)) if name == "build"));
        assert!(matches!(first_frame(&bytes[taken..]), Ok(Some((_, 8, _)))));
    }

    #[test]
    fn nesting_of_values_is_bounded() {
        let nested = |level: &[u8], count: usize| {
            let field = [0x81, 0xa5, b'o', b't', b'h', b'e', b'r'];
            let levels = level.iter().copied().cycle().take(level.len() * count);
            field.into_iter().chain(levels).chain([0xc0]).collect::<Vec<u8>>()
        };
        // An unknown field is skipped, with all its values.
        let (map, list, tuple): (&[u8], &[u8], &[u8]) = (&[0x81, 0xa1, b'x'], &[0x91], &[0x92, 0xc0]);
        for level in [map, list, tuple] {
            for count in [100, 1_000, 1_000_000] {
                assert!(read_body::<AnyMessage>(&nested(level, count)).is_err(), "{level:?} {count}");
            }
            assert!(read_body::<AnyMessage>(&nested(level, 10)).is_ok(), "{level:?}");
        }
    }

    /// A message with optional fields.
    #[derive(Debug, Deserialize)]
    struct AnyMessage {
        #[serde(default)]
        _name: Option<String>,
    }

    /// The first golden file has a line for each message, with its type and its JSON. The second file has the same
    /// messages in frames.
    #[test]
    fn wire_format_matches_the_golden_files() {
        use steplatch_files::{DirectoryEntry, FileError, FileFacts, FilePiece, FileWritten};
        use steplatch_golden::{Tag, check_enum, check_struct};
        // The golden file has the original names of the types.
        use steplatch_terminal::{
            Closed, CommandResult as Ran, Description, Excerpt, Handover as HandedBack, InputError, NotedState,
            RunError, ScreenDelta, Sent, VariablesError, View, Waited,
        };

        use super::AttachReply as AttachedNow;
        use crate::client::HostHello as Greeting;

        let (mut checked_types, mut frames) = (std::collections::BTreeSet::new(), Vec::new());
        let golden = include_str!("../golden/wire.txt");
        let mut lines_of = |name: &'static str| -> String {
            checked_types.insert(name);
            let lines = golden.lines().filter_map(|line| line.split_once(' ')).filter(|(of, _)| *of == name);
            lines.map(|(_, json)| format!("{json}\n")).collect()
        };
        fn frame<T: Serialize + DeserializeOwned>(lines: &str, frames: &mut Vec<u8>) {
            for (number, line) in (1_u64..).zip(lines.lines()) {
                let start = frames.len();
                let body: T = serde_json::from_str(line).unwrap();
                write_frame(frames, number, &body);
                // A frame holds the same value as the line.
                let read: T = read_body(&frames[start + HEAD_BYTES..]).unwrap();
                assert_eq!(serde_json::to_string(&read).unwrap(), line);
            }
        }
        macro_rules! check {
            ($check:ident; $($name:ident),*) => {$(
                let lines = lines_of(stringify!($name));
                assert!(!lines.is_empty(), stringify!($name));
                $check::<$name>(&lines);
                frame::<$name>(&lines, &mut frames);
            )*};
        }
        fn outside<T: Serialize + DeserializeOwned>(lines: &str) {
            check_enum::<T>(lines, Tag::Outside);
        }
        check!(outside; HostRequest, TerminalRequest, OpenRefused, Refusal, AttachEvent, Stage, RunError, VariablesError, InputError);
        check!(check_struct; AttachedNow, OpenedTerminal, Greeting, View, Sent, Waited, Excerpt, Description, HandedBack);
        check!(check_struct; Ran, Closed, ScreenDelta);
        check!(outside; NotedState);
        check!(outside; FileRequest, FileError);
        check!(check_struct; FileFacts, FilePiece, FileWritten, DirectoryEntry);
        for (name, _) in golden.lines().filter_map(|line| line.split_once(' ')) {
            assert!(checked_types.contains(name), "{name}");
        }
        let hex: Vec<String> =
            frames.chunks(32).map(|row| row.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        expect_test::expect_file!["../golden/frames.hex"].assert_eq(&format!("{}\n", hex.join("\n")));
    }

    proptest::proptest! {
        #[test]
        fn random_bytes_cause_no_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            if let Ok(Some((length, _, body))) = first_frame(&bytes) {
                assert!(length <= bytes.len() && body.end <= length);
            }
            // Any result is fine: a request or an error.
            let _ = read_body::<HostRequest>(&bytes);
        }

        #[test]
        fn frames_are_read_whole_wherever_they_were_cut(
            texts in proptest::collection::vec(".{0,40}", 1..6),
            cut in proptest::num::usize::ANY,
        ) {
            let mut bytes = Vec::new();
            for (number, text) in texts.iter().enumerate() {
                write_frame(&mut bytes, number as u64, &HostRequest::Find(text.clone()));
            }
            let cut = cut % (bytes.len() + 1);
            let (mut texts_read, mut pending) = (Vec::new(), Vec::new());
            for portion in [&bytes[..cut], &bytes[cut..]] {
                pending.extend_from_slice(portion);
                while let Some((length, _, body)) = first_frame(&pending).unwrap() {
                    let Ok(HostRequest::Find(text)) = read_body(&pending[body]) else { panic!("the request is not Find") };
                    texts_read.push(text);
                    pending.drain(..length);
                }
            }
            assert_eq!(texts_read, texts);
            assert!(pending.is_empty());
        }
    }

    /// Frames of a host are sparse. Lists of elements of one or two bytes are not, at any depth.
    #[test]
    fn list_length_is_limited_by_its_bytes() {
        use serde_json::{Value, json};
        let entries: Vec<Value> =
            (0..100_000).map(|n| json!({"name": n.to_string(), "kind": "File", "size": n})).collect();
        let style =
            json!({"fg": {"Rgb": [1, 2, 3]}, "bg": {"Rgb": [1, 2, 3]}, "bold": false, "underline_colour": null});
        let run = json!({"col": 1, "cols": 1, "wide": false, "text": "x", "style": style});
        let sparse = [
            json!({"Ok": entries}),
            json!({"rows": vec![json!([]); 2000]}),
            json!({"rows": vec![json!(vec![run; 50]); 1000]}),
            json!({"texts": vec![""; 10_000], "offsets": vec![u64::MAX; 100_000]}),
            json!({"text": "\u{dd}\u{ff}x".repeat(1 << 20), "number": [1.5, -1, i64::MIN, 300, 70_000]}),
        ];
        for (row, value) in sparse.iter().enumerate() {
            assert!(is_sparse(&body_of(value)), "{row}");
        }
        assert!(is_sparse(&body_of(&serde_bytes::ByteBuf::from(vec![0x9f; 1 << 20]))));
        for (row, list) in
            [json!(vec![Value::Null; 100_000]), json!(vec![json!([]); 100_000]), json!(vec![json!([0, ""]); 50_000])]
                .into_iter()
                .enumerate()
        {
            assert!(!is_sparse(&body_of(&list)), "{row}");
            assert!(!is_sparse(&body_of(&json!({"Ok": {"Ok": [{"found": {"groups": list}}]}}))), "{row}");
        }
        // Only the head of a list, and bytes that belong to no message.
        assert!(!is_sparse(&[0xdd, 0xff, 0xff, 0xff, 0xff]));
        for (bytes, expected) in
            [(&[0xdb, 0xff, 0xff, 0xff, 0xff][..], true), (&[0xc1; 100], true), (&[0xdd, 0xff], true), (&[], true)]
        {
            assert_eq!(is_sparse(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn received_list_is_cut_at_its_limit() {
        let list = |length: usize| body_of(&vec!["a"; length]);
        for (length, kept, is_cut) in [(0, 0, false), (3, 3, false), (4, 3, true), (5000, 3, true)] {
            let read: BoundedList<String, 3> = read_body(&list(length)).unwrap();
            assert_eq!((read.entries.len(), read.is_cut), (kept, is_cut));
        }
        assert!(read_body::<BoundedList<String, 3>>(&body_of(&"not a list")).is_err());
    }

    #[test]
    fn answer_is_limited_by_its_request() {
        let id: TerminalId = TerminalId::random();
        let bytes = |ask: TerminalRequest| HostRequest::Terminal(id.clone(), ask).max_answer_bytes();
        let read = |limit| bytes(TerminalRequest::Read(Part::From(0), limit));
        assert_eq!(HostRequest::Find(String::new()).max_answer_bytes(), 1 << 20);
        for list in [HostRequest::Hello { wire: 1, is_owner: false }, HostRequest::List, HostRequest::Unsettled] {
            assert!(list.max_answer_bytes() < 8 << 20, "{list:?}");
        }
        assert!(bytes(TerminalRequest::Attach) < 16 << 20 && bytes(TerminalRequest::Picture) < 32 << 20);
        assert!(read(Limit::Head(4000)) < 2 << 20);
        assert!(read(Limit::HeadAndTail(usize::MAX)) == MAX_BODY_BYTES && read(Limit::Head(10_000_000)) > 40_000_000);
        assert_eq!(bytes(TerminalRequest::Pieces(vec![(0, 1); 3], usize::MAX)), MAX_BODY_BYTES);
    }

    #[test]
    fn non_frame_is_refused() {
        assert_eq!(first_frame(&[0xff; 20]), Err(BadFrame));
        assert_eq!(first_frame(&[0, 0, 0, 1, 0]), Err(BadFrame));
    }

    #[test]
    fn newer_request_is_not_understood_and_newer_field_is_ignored() {
        #[derive(Serialize)]
        enum Later {
            Hello { wire: u32, colour: String },
            Dance,
        }
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 1, &Later::Dance);
        assert!(read_body::<HostRequest>(&bytes[HEAD_BYTES..]).is_err());
        bytes.clear();
        write_frame(&mut bytes, 1, &Later::Hello { wire: 9, colour: "red".to_owned() });
        assert!(matches!(read_body(&bytes[HEAD_BYTES..]), Ok(HostRequest::Hello { wire: 9, is_owner: false })));
    }
}
