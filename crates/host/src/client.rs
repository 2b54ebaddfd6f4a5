//! The client's side: one connection to one host.

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
use steplatch_files::FileAsk;
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
use crate::wire::{Ask, BoundedList, MAX_BODY_BYTES, Refusal, SECRETS, WIRE_VERSION, is_sparse, read_body};
use crate::wire::{Role, START_TIME};

/// The greeting of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostHello {
    /// The version of the protocol that it speaks.
    pub wire: u32,
    /// The version of its program.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Texts that must be hidden wherever they come back.
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
    /// The host has ended, and its terminals with it.
    #[error("the terminal host (pid {pid}) has ended, and its terminals with it; the next opening starts another one")]
    HostLost {
        /// The host's process id.
        pid: u32,
    },
    /// The host does not answer in time, as with a stopped process. It may still carry out the request.
    #[error("the terminal host (pid {pid}) does not answer; `kill -CONT {pid}` continues it if it is stopped")]
    HostSilent {
        /// The host's process id.
        pid: u32,
    },
    /// The machine of the terminal is not connected, so no host has the request.
    #[error("host '{host}' is not connected{}: {why}; its terminals go on there ('steplatch hosts check {host}' tries again)", moment(*.since))]
    NotConnected {
        /// The name of the machine.
        host: String,
        /// Time of the loss of the connection.
        since: Option<SystemTime>,
        /// Reason.
        why: String,
    },
    /// The connection to the machine of the terminal ended before the answer came.
    #[error("the connection to host '{host}' was lost before it answered; its terminals go on there")]
    ConnectionLost {
        /// The name of the machine.
        host: String,
    },
    /// The host on another machine has ended, and its terminals with it.
    #[error(
        "the terminal host on '{host}' (pid {pid}) has ended, and its terminals with it; the next opening there starts another one"
    )]
    RemoteHostLost {
        /// The name of the machine.
        host: String,
        /// The host's process id over there.
        pid: u32,
    },
    /// The host on another machine does not answer in time over a working connection.
    #[error("the terminal host on '{host}' does not answer; 'steplatch hosts check {host}' shows the connection")]
    RemoteHostSilent {
        /// The name of the machine.
        host: String,
    },
    /// The host on another machine reads so little that too many requests wait for it. This one was not sent.
    #[error(
        "host '{host}' does not read what is sent to it: {waiting} messages wait, and this one was not sent; 'steplatch hosts check {host}' shows the connection"
    )]
    NotReading {
        /// The name of the machine.
        host: String,
        /// Number of waiting messages.
        waiting: usize,
    },
    /// The host on another machine has sent an impossible answer.
    #[error("host '{host}' sent an answer that cannot be: {what}")]
    Implausible {
        /// The name of the machine.
        host: String,
        /// The part of the answer.
        what: &'static str,
    },
    /// Its answer is unreadable.
    #[error("the terminal host's answer cannot be read: {0}")]
    Garbled(String),
}

impl AskError {
    /// Returns whether the host has answered that it did not do it, not whether it has done it before.
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

/// Maximum length of a reason for an unreadable answer, in characters.
const MAX_REASON_CHARS: usize = 200;

/// Maximum length of a version, in characters.
const MAX_VERSION_CHARS: usize = 32;

/// Returns a version that another process reports, for people.
pub(crate) fn version_label(version: &str) -> String {
    // A version has no blanks: with some, it would look like further columns of a table.
    let word = version.split_whitespace().next().unwrap_or_default();
    word.chars().filter(|character| is_printable(*character)).take(MAX_VERSION_CHARS).collect()
}

/// Returns whether a character of another machine's text may be shown: no control, and no [format
/// character](is_format), which is invisible or changes the direction of the text around it.
pub(crate) fn is_printable(character: char) -> bool {
    !character.is_control() && !is_format(character)
}

/// Describes a time, for a sentence.
fn moment(since: Option<SystemTime>) -> String {
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
    over: watch::Receiver<bool>,
    reading: tokio::task::AbortHandle,
    /// Unsettled steps with a request for an effect here.
    steps: Mutex<BTreeSet<String>>,
    /// The last list of terminals was not answered in time.
    is_silent: AtomicBool,
}

impl Shared {
    /// Cancels a request: removes it from the queue, or requests its cancellation from the host.
    fn cancel(&self, number: u64) {
        if !self.outbox.withdraw(number) {
            // An ended host answers nothing any more, and sends nothing.
            let _ = self.outbox.send_note(0, &Ask::Cancel(number));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.outbox.close();
        self.reading.abort();
    }
}

/// The side of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// This machine, where the host is this program.
    Here,
    /// Another machine, where it may be anything.
    Elsewhere {
        /// The name of the machine.
        host: String,
    },
}

/// The receivers of answers and events, by the number of the request.
#[derive(Debug)]
struct Waiting {
    peer: Peer,
    /// Number of reads that brought bytes.
    read_count: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    answers: HashMap<u64, AnswerSlot>,
    events: HashMap<u64, EventQueue>,
    over: bool,
}

/// The receiver of an answer.
#[derive(Debug)]
struct AnswerSlot {
    /// Receives the body; none if that is too long.
    sender: oneshot::Sender<Option<Vec<u8>>>,
    /// The longest body, in bytes.
    limit: usize,
}

/// The longest text to hide, and the longest event, that another machine may send, in bytes.
const MAX_SECRET_BYTES: usize = 1 << 20;
const MAX_EVENT_BYTES: usize = 8 << 20;

/// A separate thread reads a longer answer, in bytes: nothing else waits for it.
const MAX_READ_AT_ONCE: usize = 256 << 10;

/// The events that wait for their receiver.
#[derive(Debug)]
struct EventQueue {
    sender: mpsc::Sender<Vec<u8>>,
    /// Bytes in the queue.
    bytes: Arc<AtomicUsize>,
}

/// Maximum lag of a receiver in events, and of their bytes. One event fits whatever its length.
const MAX_EVENTS_BEHIND: usize = 256;
const MAX_BYTES_BEHIND: usize = 8 << 20;

/// Maximum number of unsettled steps in the answer of a host.
const MAX_UNSETTLED_STEPS: usize = 10_000;

/// The callback that receives texts that must be hidden.
pub(crate) type OnSecret = Arc<dyn Fn(SecretText) + Send + Sync>;

impl Host {
    /// Connects to the host that listens at `socket`. `on_secret` receives every text that must be hidden, the known
    /// ones before this returns.
    ///
    /// # Errors
    /// If no process listens there, or the listening process is not a host.
    pub(crate) async fn connect(socket: &Path, role: Role, on_secret: &OnSecret) -> io::Result<Self> {
        Self::connect_within(START_TIME, socket, role, on_secret).await
    }

    /// Connects to the host at `socket`, which must answer within `time_limit`.
    pub(crate) async fn connect_within(
        time_limit: Duration,
        socket: &Path,
        role: Role,
        on_secret: &OnSecret,
    ) -> io::Result<Self> {
        let silent = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        tokio::time::timeout(time_limit, Self::connect_without_limit(socket, role, on_secret)).await.map_err(silent)?
    }

    /// Connects to the host at `socket`, however long it takes to answer.
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
        let (ended, over) = watch::channel(false);
        let reading = tokio::spawn({
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
                    () = outbox.write_on() => {}
                }
                outbox.close();
                waiting.end();
                ended.send_replace(true);
            }
        });
        let reading = reading.abort_handle();
        let unknown = HostHello::default();
        let number = next_number();
        let (steps, is_silent) = (Mutex::default(), AtomicBool::default());
        let mut shared = Shared { number, greeting: unknown, outbox, waiting, over, reading, steps, is_silent };
        let hello = Ask::Hello { wire: WIRE_VERSION, is_owner: role == Role::Daemon };
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
        *self.shared.over.borrow()
    }

    /// Returns the number of reads that brought bytes from the host.
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
    pub async fn lost(&self) {
        let mut over = self.shared.over.clone();
        // If the sender was dropped, the connection has ended too.
        let _ = over.wait_for(|over| *over).await;
    }

    /// Sends a request and returns the answer. Dropping the future cancels the request.
    ///
    /// # Errors
    /// If the host refuses, or is not there any more.
    #[boxed]
    pub async fn ask<T: DeserializeOwned + Send + 'static>(&self, ask: &Ask) -> Result<T, AskError> {
        ask_over(&self.shared, ask).await
    }

    /// Returns the steps of runs whose results the host currently stores. Later calls of [`Self::settle`] reach them.
    ///
    /// # Errors
    /// If the host does not answer.
    pub(crate) async fn unsettled(&self) -> Result<Vec<String>, AskError> {
        let steps = match self.ask::<BoundedList<String, MAX_UNSETTLED_STEPS>>(&Ask::Unsettled).await {
            // A host of an older version keeps them with their terminals.
            Err(AskError::Refused(Refusal::NotUnderstood)) => Vec::new(),
            steps => steps?.entries,
        };
        let is_step = |step: &String| is_of_run(step) && !step.ends_with('/');
        let steps: Vec<String> = steps.into_iter().filter(is_step).collect();
        self.shared.steps.lock().extend(steps.iter().cloned());
        Ok(steps)
    }

    /// Records that this daemon has stored the results of `settled`, as [`names_step`] takes it, or has given the steps
    /// up. Sends nothing without a request for one of their effects here. Does not wait for the host.
    pub(crate) fn settle(&self, settled: &str) {
        let mut steps = self.shared.steps.lock();
        let behind = steps.range(settled.to_owned()..);
        let known: Vec<String> = behind.take_while(|step| names_step(settled, step)).cloned().collect();
        for step in &known {
            steps.remove(step);
        }
        drop(steps);
        if !known.is_empty() {
            // An ended host keeps no results. The answer has no receiver.
            let _ = self.shared.outbox.send_note(next_number(), &Ask::Settle(vec![settled.to_owned()]));
        }
    }

    /// Abandons a step of a client. Such steps have no entry here. Does not wait for the host.
    pub(crate) fn give_up(&self, step: &str) {
        // An ended host has nothing in progress. The answer has no receiver.
        let _ = self.shared.outbox.send_note(next_number(), &Ask::Settle(vec![step.to_owned()]));
    }

    /// Returns the unsettled steps of runs with effects that this daemon or an earlier one has requested here.
    pub(crate) fn steps(&self) -> BTreeSet<String> {
        self.shared.steps.lock().clone()
    }

    /// Returns whether there was a request for an effect of this step here.
    pub(crate) fn knows(&self, step: &str) -> bool {
        self.shared.steps.lock().contains(step)
    }

    /// Records that the host has refused all effects of a step, which another host may perform.
    pub(crate) fn forget_step(&self, step: &str) {
        self.shared.steps.lock().remove(step);
    }

    /// Sends a request, and returns the answer and the events that follow it.
    pub(crate) async fn subscribe<T, E>(&self, ask: &Ask) -> Result<(T, Events<E>), AskError>
    where
        T: DeserializeOwned + Send + 'static,
        E: DeserializeOwned,
    {
        let number = next_number();
        let (sender, received) = mpsc::channel(MAX_EVENTS_BEHIND);
        let bytes = Arc::<AtomicUsize>::default();
        self.shared.waiting.lock().events.insert(number, EventQueue { sender, bytes: bytes.clone() });
        let mut events = Events { received, bytes, number, host: self.clone(), is_refused: false, event: PhantomData };
        let answer = request(&self.shared, number, ask).await;
        events.is_refused = matches!(answer, Err(AskError::NotReading { .. } | AskError::HostSilent { .. }));
        // An error drops the events, and with them their entry in the table.
        Ok((answer?, events))
    }
}

/// The events that follow an answer, in order. Dropping them ends them.
#[derive(Debug)]
pub(crate) struct Events<E> {
    received: mpsc::Receiver<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
    number: u64,
    host: Host,
    /// The request was not sent, so there is nothing to end.
    is_refused: bool,
    event: PhantomData<fn() -> E>,
}

impl<E: DeserializeOwned> Events<E> {
    /// Returns the next event; none when the connection has ended, or the receiver has fallen too far behind.
    pub(crate) async fn next(&mut self) -> Option<E> {
        loop {
            let body = self.received.recv().await?;
            self.bytes.fetch_sub(body.len(), Ordering::Relaxed);
            match read_body(&body) {
                Ok(event) => return Some(event),
                // Another machine decides how often, and a log keeps each warning.
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

async fn ask_over<T: DeserializeOwned + Send + 'static>(shared: &Shared, ask: &Ask) -> Result<T, AskError> {
    request(shared, next_number(), ask).await
}

async fn request<T: DeserializeOwned + Send + 'static>(shared: &Shared, number: u64, ask: &Ask) -> Result<T, AskError> {
    let lost = || AskError::HostLost { pid: shared.greeting.pid };
    let (sender, receiver) = oneshot::channel();
    {
        let mut table = shared.waiting.lock();
        if table.over {
            return Err(lost());
        }
        table.answers.insert(number, AnswerSlot { sender, limit: ask.max_answer_bytes() });
    }
    // The loss of its request does not cancel an effect of a step: the end of the step settles it.
    let effect = ask.effect();
    let step = effect.as_ref().map(|key| &key.step).filter(|step| is_of_run(step));
    let is_new_step = step.is_some_and(|step| shared.steps.lock().insert(step.clone()));
    let mut cancel = CancelOnDrop { shared, number, is_forgotten: effect.is_some(), answered: false };
    match shared.outbox.send_request(number, ask) {
        Ok(()) => {}
        Err(RequestRefused::Closed) => return Err(lost()),
        Err(RequestRefused::Full(waiting)) => {
            cancel.answered = true;
            shared.waiting.lock().answers.remove(&number);
            // The step has nothing to settle.
            if let Some(step) = step.filter(|_| is_new_step) {
                shared.steps.lock().remove(step);
            }
            return Err(match &shared.waiting.peer {
                Peer::Here => AskError::HostSilent { pid: shared.greeting.pid },
                Peer::Elsewhere { host } => AskError::NotReading { host: host.clone(), waiting },
            });
        }
    }
    let body = receiver.await.map_err(|_| lost())?;
    cancel.answered = true;
    let Some(body) = body else {
        return Err(AskError::Garbled("it is longer than the answer to such a request".to_owned()));
    };
    let is_long = body.len() > MAX_READ_AT_ONCE;
    // The bytes of a file take no more memory than they have.
    let is_foreign = shared.waiting.peer != Peer::Here && !matches!(ask, Ask::File(FileAsk::Read { .. }));
    let read = move || {
        if is_foreign && !is_sparse(&body) {
            return Err(AskError::Garbled("it has more values than a terminal host sends".to_owned()));
        }
        read_body::<Result<T, Refusal>>(&body).map_err(|error| garbled(&error))
    };
    let answer = if is_long { blocking(read).await } else { read() };
    Ok(answer??)
}

/// Returns the error of an unreadable answer. Its reason may quote the entire answer.
fn garbled(error: &impl std::fmt::Display) -> AskError {
    AskError::Garbled(
        error.to_string().chars().filter(|character| is_printable(*character)).take(MAX_REASON_CHARS).collect(),
    )
}

/// Cancels a request when its caller stops waiting for the answer.
struct CancelOnDrop<'a> {
    shared: &'a Shared,
    number: u64,
    /// True if the host completes the request without a waiting caller.
    is_forgotten: bool,
    answered: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.answered && self.shared.waiting.lock().answers.remove(&self.number).is_some() && !self.is_forgotten {
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
        table.over = true;
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

    /// Delivers a body; none if it is too long.
    fn deliver(&self, number: u64, body: Option<&[u8]>) {
        let mut table = self.lock();
        if let Some(answer) = table.answers.remove(&number) {
            // The caller may have stopped listening at this moment.
            let _ = answer.sender.send(body.map(<[u8]>::to_vec));
        } else if let Some(events) = table.events.get(&number) {
            let Some(body) = body else {
                // A missing event would garble the following ones.
                table.events.remove(&number);
                return;
            };
            let behind = events.bytes.fetch_add(body.len(), Ordering::Relaxed);
            if behind > MAX_BYTES_BEHIND || events.sender.try_send(body.to_vec()).is_err() {
                // The receiver is too slow: its events end, and it may subscribe anew.
                table.events.remove(&number);
            }
        }
    }
}
