//! Connection of a client to one host.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use steplatch_files::FileRequest;
use steplatch_ledger::names_step;
use steplatch_protocol::is_format;
use steplatch_terminal::SecretText;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};

use crate::blocking::blocking;
use crate::inbox::read_frames;
use crate::outbox::{Outbox, RequestRefused};
use crate::wire::is_of_run;
use crate::wire::next_number;
use crate::wire::{BoundedList, HostRequest, MAX_BODY_BYTES, Refusal, SECRETS, WIRE_VERSION, is_sparse, read_body};
use crate::wire::{Role, START_TIME};

/// The greeting of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostHello {
    /// The version of the protocol that it speaks.
    pub wire: u32,
    /// The version of its program.
    pub version: String,
    /// The process id.
    pub pid: u32,
    /// Texts to hide in all output.
    pub secrets: Vec<SecretText>,
    /// Open terminals.
    pub terminals: usize,
}

/// Reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The host refused the request, or failed to perform it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The host has ended, and so have its terminals.
    #[error("the terminal host (pid {pid}) has exited, and its terminals with it; the next opening starts another one")]
    HostLost {
        /// The host's process id.
        pid: u32,
    },
    /// The host does not answer in time, as a stopped process. It may still execute the request.
    #[error("the terminal host (pid {pid}) does not answer; if it is stopped, `kill -CONT {pid}` resumes it")]
    HostSilent {
        /// The host's process id.
        pid: u32,
    },
    /// The machine of the terminal is not connected, so the request was not sent.
    #[error("host '{host}' is not connected{}: {reason}; its terminals keep running there ('steplatch hosts check {host}' tries again)", describe_since(*.since))]
    NotConnected {
        /// The name of the machine.
        host: String,
        /// Time of the loss of the connection.
        since: Option<SystemTime>,
        /// Reason.
        reason: String,
    },
    /// The connection to the terminal's machine ended before the answer arrived.
    #[error("the connection to host '{host}' was lost before it answered; its terminals keep running there")]
    ConnectionLost {
        /// The name of the machine.
        host: String,
    },
    /// The remote terminal host has ended, and so have its terminals.
    #[error(
        "the terminal host on '{host}' (pid {pid}) has exited, and its terminals with it; the next opening there starts another one"
    )]
    RemoteHostLost {
        /// The name of the machine.
        host: String,
        /// The host's process id on that machine.
        pid: u32,
    },
    /// The remote terminal host does not answer in time over a working connection.
    #[error("the terminal host on '{host}' does not answer; 'steplatch hosts check {host}' shows the connection")]
    RemoteHostSilent {
        /// The name of the machine.
        host: String,
    },
    /// The remote terminal host does not read, and too many requests wait. This request was not sent.
    #[error(
        "host '{host}' does not read its input: {waiting} messages wait, and this one was not sent; 'steplatch hosts check {host}' shows the connection"
    )]
    NotReading {
        /// The name of the machine.
        host: String,
        /// Number of waiting messages.
        waiting: usize,
    },
    /// The remote terminal host has sent an impossible answer.
    #[error("host '{host}' sent an invalid answer: {what}")]
    Implausible {
        /// The name of the machine.
        host: String,
        /// Description of the impossible part.
        what: &'static str,
    },
    /// The answer cannot be read.
    #[error("the terminal host's answer cannot be read: {0}")]
    Garbled(String),
}

impl AskError {
    /// Returns whether the host has answered that it did not execute the request. It may have executed an earlier
    /// request.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Refused(Refusal::NoTerminal | Refusal::NotUnderstood | Refusal::Retiring))
    }

    /// Returns whether the outcome of the request is unknown.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::HostLost { .. }
            | Self::RemoteHostLost { .. }
            | Self::ConnectionLost { .. }
            | Self::RemoteHostSilent { .. }
            | Self::Implausible { .. }
            | Self::Garbled(_)
            | Self::Refused(Refusal::OutcomeUnknown) => true,
            Self::Refused(_) | Self::HostSilent { .. } | Self::NotConnected { .. } | Self::NotReading { .. } => false,
        }
    }
}

/// Maximum length in characters of the error of an unreadable answer.
const MAX_REASON_CHARS: usize = 200;

/// Maximum length of a version, in characters.
const MAX_VERSION_CHARS: usize = 32;

/// Returns a version that another process reports, for people.
pub(crate) fn version_label(version: &str) -> String {
    // Cut at a space: the rest would look like further columns of a table.
    let word = version.split_whitespace().next().unwrap_or_default();
    word.chars().filter(|character| is_printable(*character)).take(MAX_VERSION_CHARS).collect()
}

/// Returns whether a character of foreign text may be shown: neither a control nor a [format character](is_format). A
/// format character is invisible or changes the direction of the surrounding text.
pub(crate) fn is_printable(character: char) -> bool {
    !character.is_control() && !is_format(character)
}

/// Describes the time since the loss of a connection, to continue a sentence.
fn describe_since(since: Option<SystemTime>) -> String {
    let seconds = since.and_then(|since| since.elapsed().ok()).map(|elapsed| elapsed.as_secs());
    seconds.map_or_else(String::new, |seconds| match seconds {
        0..120 => format!(" since {seconds} s"),
        120..7200 => format!(" since {} min", seconds / 60),
        _ => format!(" since {} h", seconds / 3600),
    })
}

/// A connection to a host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Unique number of the connection in this process.
    number: u64,
    greeting: HostHello,
    outbox: Outbox,
    waiting: Arc<Waiting>,
    has_ended: watch::Receiver<bool>,
    reader_task: tokio::task::AbortHandle,
    /// Unsettled steps with an effect that was requested from this host.
    steps: Mutex<BTreeSet<String>>,
    /// True if the last list of terminals was not answered in time.
    is_silent: AtomicBool,
}

impl Shared {
    /// Cancels a request: removes it from the queue, or requests its cancellation from the host.
    fn cancel(&self, number: u64) {
        if !self.outbox.withdraw(number) {
            // Ignore the error, because an ended host sends no answer.
            let _ = self.outbox.send_note(0, &HostRequest::Cancel(number));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.outbox.close();
        self.reader_task.abort();
    }
}

/// Machine of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// This computer. The host runs this program and is trusted.
    Here,
    /// A remote host, whose messages are not trusted.
    Elsewhere {
        /// The name of the machine.
        host: String,
    },
}

/// The receivers of answers and events, by the number of the request.
#[derive(Debug)]
struct Waiting {
    peer: Peer,
    /// Number of reads that returned bytes.
    read_count: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    answers: HashMap<u64, AnswerSlot>,
    events: HashMap<u64, EventQueue>,
    is_closed: bool,
}

/// The receiver of an answer.
#[derive(Debug)]
struct AnswerSlot {
    /// Receives the body, or `None` if it is too long.
    sender: oneshot::Sender<Option<Vec<u8>>>,
    /// Maximum length of the body in bytes.
    limit: usize,
}

/// Maximum length of a text to hide that a remote host may send.
const MAX_SECRET_BYTES: usize = 1 << 20;

/// Maximum length of an event that a remote host may send.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Maximum length of an answer that is decoded at once. Longer ones are decoded in a separate thread, so that other
/// tasks do not wait.
const MAX_INLINE_ANSWER_BYTES: usize = 256 << 10;

/// Queue of events for their receiver.
#[derive(Debug)]
struct EventQueue {
    sender: mpsc::Sender<Vec<u8>>,
    /// Number of bytes in the queue.
    bytes: Arc<AtomicUsize>,
}

/// Maximum number of queued events.
const MAX_QUEUED_EVENTS: usize = 256;

/// Maximum number of queued bytes before another event is accepted.
const MAX_QUEUED_EVENT_BYTES: usize = 8 << 20;

/// Maximum number of unsettled steps in the answer of a host.
const MAX_UNSETTLED_STEPS: usize = 10_000;

/// Callback that receives texts to hide.
pub(crate) type OnSecret = Arc<dyn Fn(SecretText) + Send + Sync>;

impl Host {
    /// Connects to the host at `socket`. `on_secret` receives every text to hide. The texts that the host knows already
    /// arrive before this function returns.
    ///
    /// # Errors
    /// If no process listens there, or the listening process is not a host.
    pub(crate) async fn connect(socket: &Path, role: Role, on_secret: &OnSecret) -> io::Result<Self> {
        Self::connect_within(START_TIME, socket, role, on_secret).await
    }

    /// Connects to the host at `socket`. The host must answer within `time_limit`.
    pub(crate) async fn connect_within(
        time_limit: Duration,
        socket: &Path,
        role: Role,
        on_secret: &OnSecret,
    ) -> io::Result<Self> {
        let timeout_error = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        tokio::time::timeout(time_limit, Self::connect_without_limit(socket, role, on_secret))
            .await
            .map_err(timeout_error)?
    }

    /// Connects to the host at `socket`, without a time limit.
    pub(crate) async fn connect_without_limit(socket: &Path, role: Role, on_secret: &OnSecret) -> io::Result<Self> {
        Self::from_stream(UnixStream::connect(socket).await?, Peer::Here, role, on_secret).await
    }

    /// Connects over `stream`.
    pub(crate) async fn from_stream(
        stream: UnixStream,
        peer: Peer,
        role: Role,
        on_secret: &OnSecret,
    ) -> io::Result<Self> {
        let stream = Arc::new(stream);
        let outbox = Outbox::new(stream.clone());
        let waiting = Arc::new(Waiting { peer, read_count: AtomicU64::default(), table: Mutex::default() });
        let (end_sender, has_ended) = watch::channel(false);
        let reader_task = tokio::spawn({
            let (outbox, waiting, on_secret) = (outbox.clone(), waiting.clone(), on_secret.clone());
            async move {
                tokio::select! {
                    () = read_frames(&stream, None, || waiting.count_read(), |number| waiting.limit(number), |number, body| match (number, body) {
                        (SECRETS, body) => {
                            if let Some(Ok(secret)) = body.map(read_body) {
                                on_secret(secret);
                            }
                        }
                        (number, body) => waiting.deliver(number, body),
                    }) => {}
                    () = outbox.write_queued() => {}
                }
                outbox.close();
                waiting.end();
                end_sender.send_replace(true);
            }
        });
        let reader_task = reader_task.abort_handle();
        let unknown = HostHello::default();
        let number = next_number();
        let (steps, is_silent) = (Mutex::default(), AtomicBool::default());
        let mut shared =
            Shared { number, greeting: unknown, outbox, waiting, has_ended, reader_task, steps, is_silent };
        let hello = HostRequest::Hello { wire: WIRE_VERSION, is_owner: role == Role::Daemon };
        let greeting: Result<HostHello, AskError> = ask_over(&shared, &hello).await;
        shared.greeting = greeting.map_err(io::Error::other)?;
        shared.greeting.version = version_label(&shared.greeting.version);
        for secret in std::mem::take(&mut shared.greeting.secrets) {
            on_secret(secret);
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns a number that no other connection of this process has.
    pub(crate) fn number(&self) -> u64 {
        self.shared.number
    }

    /// Returns the greeting of the host.
    #[must_use]
    pub fn greeting(&self) -> &HostHello {
        &self.shared.greeting
    }

    /// Returns whether the host speaks this version of the protocol.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        self.shared.greeting.wire == WIRE_VERSION
    }

    /// Returns whether the connection has ended.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.shared.has_ended.borrow()
    }

    /// Returns the number of reads that returned bytes from the host.
    pub(crate) fn read_count(&self) -> u64 {
        self.shared.waiting.read_count.load(Ordering::Relaxed)
    }

    /// Returns whether the host has left the last list of its terminals unanswered.
    pub(crate) fn is_silent(&self) -> bool {
        self.shared.is_silent.load(Ordering::Relaxed)
    }

    /// Records whether the host has left a list of its terminals unanswered.
    pub(crate) fn record_silence(&self, is_silent: bool) {
        self.shared.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Waits until the connection has ended.
    #[boxed]
    pub async fn wait_until_lost(&self) {
        let mut has_ended = self.shared.has_ended.clone();
        // Ignore the error: if the sender was dropped, the connection has ended, too.
        let _ = has_ended.wait_for(|has_ended| *has_ended).await;
    }

    /// Sends a request and returns the answer. Dropping the future cancels the request.
    ///
    /// # Errors
    /// If the host refuses, or the connection has ended.
    #[boxed]
    pub async fn ask<T: DeserializeOwned + Send + 'static>(&self, request: &HostRequest) -> Result<T, AskError> {
        ask_over(&self.shared, request).await
    }

    /// Returns the steps of runs whose results the host stores and records them for later calls of [`Self::settle`].
    ///
    /// # Errors
    /// If the host does not answer.
    pub(crate) async fn unsettled(&self) -> Result<Vec<String>, AskError> {
        let steps = match self.ask::<BoundedList<String, MAX_UNSETTLED_STEPS>>(&HostRequest::Unsettled).await {
            // A host of an older version stores results with the terminals.
            Err(AskError::Refused(Refusal::NotUnderstood)) => Vec::new(),
            steps => steps?.entries,
        };
        let is_step = |step: &String| is_of_run(step) && !step.ends_with('/');
        let steps: Vec<String> = steps.into_iter().filter(is_step).collect();
        self.shared.steps.lock().extend(steps.iter().cloned());
        Ok(steps)
    }

    /// Records that this daemon has stored or abandoned the results of the steps named by `settled` (see
    /// [`names_step`]). Sends nothing if none of their effects was requested here. Does not wait for the host.
    pub(crate) fn settle(&self, settled: &str) {
        let mut steps = self.shared.steps.lock();
        let candidates = steps.range(settled.to_owned()..);
        let known: Vec<String> = candidates.take_while(|step| names_step(settled, step)).cloned().collect();
        for step in &known {
            steps.remove(step);
        }
        drop(steps);
        if !known.is_empty() {
            // Ignore the error, because an ended host has no results. The answer is discarded.
            let _ = self.shared.outbox.send_note(next_number(), &HostRequest::Settle(vec![settled.to_owned()]));
        }
    }

    /// Abandons a step of a client. Such a step has no entry in `steps`. Does not wait for the host.
    pub(crate) fn give_up(&self, step: &str) {
        // Ignore the error, because an ended host has no effects in progress. The answer is discarded.
        let _ = self.shared.outbox.send_note(next_number(), &HostRequest::Settle(vec![step.to_owned()]));
    }

    /// Returns the unsettled steps of runs with effects that this daemon or an earlier one has requested here.
    pub(crate) fn steps(&self) -> BTreeSet<String> {
        self.shared.steps.lock().clone()
    }

    /// Returns whether an effect of this unsettled step was requested from this host.
    pub(crate) fn knows(&self, step: &str) -> bool {
        self.shared.steps.lock().contains(step)
    }

    /// Removes a step whose effects the host has refused, so that another host may perform them.
    pub(crate) fn forget_step(&self, step: &str) {
        self.shared.steps.lock().remove(step);
    }

    /// Sends a request and returns the answer and the events that follow it.
    pub(crate) async fn subscribe<T, E>(&self, request: &HostRequest) -> Result<(T, Events<E>), AskError>
    where
        T: DeserializeOwned + Send + 'static,
        E: DeserializeOwned,
    {
        let number = next_number();
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
        let bytes = Arc::<AtomicUsize>::default();
        self.shared.waiting.lock().events.insert(number, EventQueue { sender, bytes: bytes.clone() });
        let mut events = Events { receiver, bytes, number, host: self.clone(), is_refused: false, event: PhantomData };
        let answer = send_request(&self.shared, number, request).await;
        events.is_refused = matches!(answer, Err(AskError::NotReading { .. } | AskError::HostSilent { .. }));
        // An error drops `events`, and the drop removes the entry from the table.
        Ok((answer?, events))
    }
}

/// The events that follow an answer, in order. Dropping this cancels the request.
#[derive(Debug)]
pub(crate) struct Events<E> {
    receiver: mpsc::Receiver<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
    number: u64,
    host: Host,
    /// True if the request was not sent, so that there is nothing to cancel.
    is_refused: bool,
    event: PhantomData<fn() -> E>,
}

impl<E: DeserializeOwned> Events<E> {
    /// Returns the next event; `None` if the connection has ended, or the receiver has fallen too far behind.
    pub(crate) async fn next(&mut self) -> Option<E> {
        loop {
            let body = self.receiver.recv().await?;
            self.bytes.fetch_sub(body.len(), Ordering::Relaxed);
            match read_body(&body) {
                Ok(event) => return Some(event),
                // Not a warning: a remote machine could fill the log.
                Err(error) => tracing::debug!(%error, "an event of the terminal host cannot be read"),
            }
        }
    }
}

impl<E> Drop for Events<E> {
    fn drop(&mut self) {
        self.host.shared.waiting.lock().events.remove(&self.number);
        if !self.is_refused {
            self.host.shared.cancel(self.number);
        }
    }
}

async fn ask_over<T: DeserializeOwned + Send + 'static>(shared: &Shared, request: &HostRequest) -> Result<T, AskError> {
    send_request(shared, next_number(), request).await
}

async fn send_request<T: DeserializeOwned + Send + 'static>(
    shared: &Shared,
    number: u64,
    request: &HostRequest,
) -> Result<T, AskError> {
    let host_lost_error = || AskError::HostLost { pid: shared.greeting.pid };
    let (sender, receiver) = oneshot::channel();
    {
        let mut table = shared.waiting.lock();
        if table.is_closed {
            return Err(host_lost_error());
        }
        table.answers.insert(number, AnswerSlot { sender, limit: request.max_answer_bytes() });
    }
    // A dropped request does not cancel the effect of a step; settling the step does.
    let effect = request.effect();
    let step = effect.as_ref().map(|key| &key.step).filter(|step| is_of_run(step));
    let is_new_step = step.is_some_and(|step| shared.steps.lock().insert(step.clone()));
    let mut cancel = CancelOnDrop { shared, number, is_effect: effect.is_some(), has_answer: false };
    match shared.outbox.send_request(number, request) {
        Ok(()) => {}
        Err(RequestRefused::Closed) => return Err(host_lost_error()),
        Err(RequestRefused::Full(waiting)) => {
            cancel.has_answer = true;
            shared.waiting.lock().answers.remove(&number);
            // No effect was requested, so the step needs no settling.
            if let Some(step) = step.filter(|_| is_new_step) {
                shared.steps.lock().remove(step);
            }
            return Err(match &shared.waiting.peer {
                Peer::Here => AskError::HostSilent { pid: shared.greeting.pid },
                Peer::Elsewhere { host } => AskError::NotReading { host: host.clone(), waiting },
            });
        }
    }
    let body = receiver.await.map_err(|_| host_lost_error())?;
    cancel.has_answer = true;
    let Some(body) = body else {
        return Err(AskError::Garbled("it is longer than the answer to such a request".to_owned()));
    };
    let is_long = body.len() > MAX_INLINE_ANSWER_BYTES;
    // The decoded bytes of a file need no more memory than the answer.
    let is_foreign =
        shared.waiting.peer != Peer::Here && !matches!(request, HostRequest::File(FileRequest::Read { .. }));
    let read = move || {
        if is_foreign && !is_sparse(&body) {
            return Err(AskError::Garbled("it has more values than a terminal host sends".to_owned()));
        }
        read_body::<Result<T, Refusal>>(&body).map_err(|error| garbled_error(&error))
    };
    let answer = if is_long { blocking(read).await } else { read() };
    Ok(answer??)
}

/// Returns the error of an unreadable answer, whose reason is cut because it may quote the entire answer.
fn garbled_error(error: &impl std::fmt::Display) -> AskError {
    AskError::Garbled(
        error.to_string().chars().filter(|character| is_printable(*character)).take(MAX_REASON_CHARS).collect(),
    )
}

/// Cancels a request whose caller no longer waits for the answer.
struct CancelOnDrop<'a> {
    shared: &'a Shared,
    number: u64,
    /// True if the host completes the request even if no caller waits.
    is_effect: bool,
    has_answer: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.has_answer && self.shared.waiting.lock().answers.remove(&self.number).is_some() && !self.is_effect {
            self.shared.cancel(self.number);
        }
    }
}

impl Waiting {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn end(&self) {
        let mut table = self.lock();
        table.is_closed = true;
        table.answers.clear();
        table.events.clear();
    }

    fn count_read(&self) {
        self.read_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the maximum length of a body under this number, in bytes.
    fn limit(&self, number: u64) -> usize {
        match (&self.peer, number) {
            (Peer::Here, _) => MAX_BODY_BYTES,
            (Peer::Elsewhere { .. }, SECRETS) => MAX_SECRET_BYTES,
            (Peer::Elsewhere { .. }, number) => {
                let table = self.lock();
                let answer = table.answers.get(&number).map(|answer| answer.limit);
                answer.or_else(|| table.events.contains_key(&number).then_some(MAX_EVENT_BYTES)).unwrap_or(0)
            }
        }
    }

    /// Delivers the body of a frame; `None` if it is too long.
    fn deliver(&self, number: u64, body: Option<&[u8]>) {
        let mut table = self.lock();
        if let Some(answer) = table.answers.remove(&number) {
            // Ignore the error, because the caller has stopped waiting.
            let _ = answer.sender.send(body.map(<[u8]>::to_vec));
        } else if let Some(events) = table.events.get(&number) {
            let Some(body) = body else {
                // End the events, because the remaining events would be wrong without the missing event.
                table.events.remove(&number);
                return;
            };
            let queued_bytes = events.bytes.fetch_add(body.len(), Ordering::Relaxed);
            if queued_bytes > MAX_QUEUED_EVENT_BYTES || events.sender.try_send(body.to_vec()).is_err() {
                // End the events of a receiver that is too slow; it may subscribe again.
                table.events.remove(&number);
            }
        }
    }
}
