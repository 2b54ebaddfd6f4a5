//! The connection to one remote terminal host. A lost connection is restored until the host ends.
//!
//! A session (`steplatch-link`) continues over the next connection within [`RECONNECT_TIMEOUT`], so that answers and
//! output still arrive after a short loss. Later the session ends, and its requests get no answer.
//! [`crate::HostedTerminal`] sends repeatable requests again over the next session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use rustix::time::{ClockId, clock_gettime};
use steplatch_link::{Ended, GreetError, Hello, Refusal as SessionRefusal, Session, SessionId, greet, pump};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::failure::{ConnectFailure, explain, printable};
use super::transport::{Channel, Transport};
use super::{QuestionWatch, RemoteHostConfig};
use crate::client::{AskError, Host, OnSecret, Peer, version_label};
use crate::hosts::is_socket;
use crate::relay::{MARK, MAX_LINE_BYTES, RelayHello, RelayReply, RelayRequest};
use crate::wire::{Role, WIRE_VERSION};

/// Maximum wait of a session for its next connection. Includes the time that this computer is asleep, so that old input
/// does not arrive hours later.
pub const RECONNECT_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit until a connection without questions reaches its relay.
const DIAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a connection that waits for a person's answer. The remote server ends it earlier (`LoginGraceTime`).
const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Time limit for each handshake with a host: of the link and of the session.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for the exit code of an ended connection.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_millis(500);

/// First pause between connection attempts; each pause is twice as long as the last.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Maximum pause between connection attempts.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Minimum duration of a stable connection. After the loss of a stable connection, the next attempt follows soon.
const MIN_STABLE_TIME: Duration = Duration::from_secs(2);

/// Maximum pause after a shorter connection. The pause limits the processes that a machine causes by ending each
/// connection immediately, and is short enough for a bad network.
const MAX_SHORT_PAUSE: Duration = Duration::from_secs(1);

/// Current loss of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Interruption {
    /// Start time.
    pub(crate) since: SystemTime,
    pub(crate) began: Instant,
    /// Number of failed attempts. The loss counts as the first one.
    pub(crate) failures: u64,
    /// Reason for the loss, or for the last failed attempt.
    pub(crate) reason: ConnectFailure,
}

impl Interruption {
    fn now(reason: ConnectFailure) -> Self {
        Self { since: SystemTime::now(), began: Instant::now(), failures: 1, reason }
    }
}

/// State of the connection to a host.
#[derive(Debug, Clone)]
pub(crate) enum Connection {
    /// The first connection is in progress.
    Connecting,
    /// There is a session, and usually a connection that carries it.
    Up {
        /// The session, used as a connection to the host.
        host: Host,
        /// Set while the session has no connection.
        interrupted: Option<Interruption>,
    },
    /// There is no session.
    Down(Interruption),
    /// The host has ended.
    Ended {
        /// The host's process id on its machine; 0 if the host was never connected.
        pid: u32,
    },
}

impl Connection {
    /// Returns the current loss of the connection, if any.
    pub(crate) fn interruption(&self) -> Option<&Interruption> {
        match self {
            Self::Down(interruption) | Self::Up { interrupted: Some(interruption), .. } => Some(interruption),
            Self::Connecting | Self::Up { interrupted: None, .. } | Self::Ended { .. } => None,
        }
    }
}

/// Result that a request for a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The connection. Temporary failures do not end the wait.
    Connection,
    /// The connection, or the first failure.
    FirstFailure,
}

/// State that all connections to one machine share.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: RemoteHostConfig,
    /// Name of this client on the machine.
    pub(crate) client: String,
    /// Identity of this client for sessions.
    pub(crate) client_id: SessionId,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) questions: Arc<dyn QuestionWatch>,
}

/// A relay that has reached a host.
pub(crate) struct Reached {
    channel: Channel,
    unread: BytesMut,
    pub(crate) version: String,
    pub(crate) socket: String,
    pub(crate) is_current: bool,
}

/// Outcome of a request for a host.
pub(crate) enum Dialed {
    Reached(Box<Reached>),
    /// The host has ended.
    Gone,
}

impl Route {
    /// Connects, and requests a host from the relay.
    pub(crate) async fn dial(&self, request: &RelayRequest) -> Result<Dialed, ConnectFailure> {
        let connection_failure = |error: std::io::Error| ConnectFailure::Connection(error.to_string());
        let questions_before = self.questions.question_count(&self.config.name);
        let mut channel = self.transport.dial(&self.config, &self.client).await?;
        let mut unread = BytesMut::new();
        let reply = async {
            let hello: RelayHello = read_marked_line(&mut channel.reader, &mut unread, MARK).await?;
            let text = serde_json::to_string(request).map_err(std::io::Error::other)?;
            channel.writer.write_all(format!("{text}\n").as_bytes()).await?;
            channel.writer.flush().await?;
            let reply: RelayReply = read_marked_line(&mut channel.reader, &mut unread, "").await?;
            Ok::<_, std::io::Error>((hello, reply))
        };
        let time_limit = async {
            sleep(DIAL_TIMEOUT).await;
            if self.questions.is_open(&self.config.name) {
                sleep(QUESTION_TIMEOUT).await;
            }
        };
        let reply = tokio::select! {
            reply = reply => reply,
            () = time_limit => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the machine does not answer")),
        };
        match reply {
            // Ignore other hosts: hosts with terminals of this installation are in its notes.
            Ok((hello, RelayReply::Open { socket, is_current, others: _ })) => {
                let is_requested = match request {
                    RelayRequest::Open(requested) => *requested == socket,
                    RelayRequest::OpenCurrent | RelayRequest::OpenExisting => is_socket(&socket),
                };
                if !is_requested {
                    return Err(ConnectFailure::Host(
                        "the relay names a host other than the requested one, or none".to_owned(),
                    ));
                }
                let version = version_label(&hello.version);
                Ok(Dialed::Reached(Box::new(Reached { channel, unread, version, socket, is_current })))
            }
            Ok((_, RelayReply::Gone)) => Ok(Dialed::Gone),
            Ok((_, RelayReply::Failed(reason))) => Err(ConnectFailure::Host(printable(&reason))),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(connection_failure(error)),
            Err(_) => {
                let Channel { errors, mut guard, reader, writer } = channel;
                // Close the connection first: this also ends a program that violates the protocol.
                drop((reader, writer));
                let errors = errors.into_text().await;
                let exit = timeout(EXIT_CODE_TIMEOUT, guard.exit_code()).await.ok().flatten();
                drop(guard);
                let has_asked = self.questions.question_count(&self.config.name) != questions_before;
                Err(explain(&self.config.name, &self.config.ssh, &errors, has_asked, exit))
            }
        }
    }
}

/// Reads lines until one contains `mark` and parses the text after the mark. A login shell may print text before the
/// mark, also on the same line. `unread` receives the bytes after the line.
async fn read_marked_line<T: serde::de::DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
    unread: &mut BytesMut,
    mark: &str,
) -> std::io::Result<T> {
    let mut read_bytes = 0;
    loop {
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line = unread.split_to(end + 1);
            read_bytes += line.len();
            // An empty mark is found at the beginning of any line.
            let mark_start = (0..line.len()).find(|start| line[*start..].starts_with(mark.as_bytes()));
            if let Some(start) = mark_start {
                return serde_json::from_slice(&line[start + mark.len()..]).map_err(std::io::Error::other);
            }
        }
        // Limit the output of a login shell before the relay's.
        if read_bytes + unread.len() > MAX_LINE_BYTES {
            return Err(std::io::Error::other("no relay answers"));
        }
        if reader.read_buf(unread).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A remote terminal host. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RemoteHost {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    route: Arc<Route>,
    socket: String,
    connection: watch::Sender<Connection>,
    /// True if the host opens new terminals, according to the last relay.
    opens_new: AtomicBool,
    /// Signal to connect immediately instead of after a pause.
    retry: Notify,
    supervisor_task: OnceLock<tokio::task::AbortHandle>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(supervisor_task) = self.supervisor_task.get() {
            supervisor_task.abort();
        }
    }
}

impl RemoteHost {
    /// Connects to the host of `socket`. `reached` is a relay that has already reached it.
    pub(crate) fn new(route: Arc<Route>, socket: String, reached: Option<Reached>, on_secret: OnSecret) -> Self {
        let connection = watch::Sender::new(Connection::Connecting);
        let opens_new = AtomicBool::new(false);
        let retry = Notify::new();
        let shared = Arc::new(Shared { route, socket, connection, opens_new, retry, supervisor_task: OnceLock::new() });
        // Start the supervisor after the shared state exists, whose drop ends it.
        let (route, socket) = (shared.route.clone(), shared.socket.clone());
        let supervisor = Supervisor { shared: Arc::downgrade(&shared), route, socket, on_secret };
        let _ = shared.supervisor_task.set(tokio::spawn(supervisor.run(reached)).abort_handle());
        Self { shared }
    }

    /// Returns the name of its machine.
    pub(crate) fn machine(&self) -> &str {
        &self.shared.route.config.name
    }

    /// Returns the name of the host's socket on its machine.
    pub(crate) fn socket(&self) -> &str {
        &self.shared.socket
    }

    /// Returns whether the host opens new terminals, according to the last relay.
    pub(crate) fn opens_new(&self) -> bool {
        self.shared.opens_new.load(Ordering::Relaxed)
    }

    /// Returns the state of its connection.
    pub(crate) fn connection(&self) -> Connection {
        self.shared.connection.borrow().clone()
    }

    /// Returns a receiver of the state of its connection.
    pub(crate) fn follow(&self) -> watch::Receiver<Connection> {
        self.shared.connection.subscribe()
    }

    /// Returns the session, if it has a connection now.
    pub(crate) fn connected_session(&self) -> Option<Host> {
        match &*self.shared.connection.borrow() {
            Connection::Up { host, interrupted: None } if !host.is_lost() => Some(host.clone()),
            _ => None,
        }
    }

    /// Returns the session, also with an interrupted connection: its requests wait until the connection resumes.
    pub(crate) fn session(&self) -> Option<Host> {
        match &*self.shared.connection.borrow() {
            Connection::Up { host, .. } if !host.is_lost() => Some(host.clone()),
            _ => None,
        }
    }

    /// Returns whether the host has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&*self.shared.connection.borrow(), Connection::Ended { .. })
    }

    /// Makes the supervisor connect immediately, if there is no connection.
    pub(crate) fn retry(&self) {
        self.shared.retry.notify_one();
    }

    /// Returns the session once it has a connection.
    ///
    /// # Errors
    /// If the host has ended, no connection is made within `connect_timeout`, or an attempt fails for a reason that
    /// needs a person.
    pub(crate) async fn wait_until_connected(&self, connect_timeout: Duration) -> Result<Host, AskError> {
        self.wait_for(connect_timeout, Awaited::Connection).await
    }

    /// Like [`Self::wait_until_connected`]; with [`Awaited::FirstFailure`], any failure ends the wait.
    pub(crate) async fn wait_for(&self, connect_timeout: Duration, until: Awaited) -> Result<Host, AskError> {
        if let Some(host) = self.connected_session() {
            return Ok(host);
        }
        let mut follow = self.follow();
        // Ignore earlier failures, whose cause may have disappeared, because only a new attempt counts.
        let earlier_failures =
            follow.borrow_and_update().interruption().map_or(0, |interruption| interruption.failures);
        self.retry();
        let wait = async {
            loop {
                match &*follow.borrow_and_update() {
                    Connection::Up { host, interrupted: None } if !host.is_lost() => return Ok(host.clone()),
                    Connection::Ended { pid } => return Err(self.ended_error(*pid)),
                    other => {
                        if let Some(interruption) = other.interruption()
                            && interruption.failures > earlier_failures
                            && (until == Awaited::FirstFailure || !interruption.reason.is_temporary())
                        {
                            return Err(self.not_connected_error(interruption));
                        }
                    }
                }
                if follow.changed().await.is_err() {
                    return Err(self.ended_error(0));
                }
            }
        };
        match timeout(connect_timeout, wait).await {
            Ok(reached) => reached,
            Err(_) => Err(self.connection_error()),
        }
    }

    /// Waits until the session has had no connection for `limit`, or a person has to act before the next connection.
    /// Returns the error; `None` if the session has ended.
    pub(crate) async fn wait_until_stalled(&self, limit: Duration) -> Option<AskError> {
        let mut follow = self.follow();
        loop {
            let began = match &*follow.borrow_and_update() {
                Connection::Up { interrupted: None, .. } => None,
                Connection::Up { interrupted: Some(interruption), .. } if !interruption.reason.is_temporary() => {
                    return Some(self.not_connected_error(interruption));
                }
                Connection::Up { interrupted: Some(interruption), .. } => Some(interruption.began),
                Connection::Connecting | Connection::Down(_) | Connection::Ended { .. } => return None,
            };
            let time_limit = async {
                match began {
                    Some(began) => tokio::time::sleep_until(began + limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = time_limit => return Some(self.connection_error()),
                changed = follow.changed() => if changed.is_err() { return None },
            }
        }
    }

    /// Waits until the host has sent nothing for `limit` over a connection. Time without a connection does not count.
    pub(crate) async fn wait_until_silent(&self, host: &Host, limit: Duration) {
        let mut follow = self.follow();
        loop {
            let is_up = |connection: &Connection| matches!(connection, Connection::Up { interrupted: None, .. });
            if follow.wait_for(is_up).await.is_err() {
                // The host was dropped; the end of the session ends the request.
                return std::future::pending().await;
            }
            let read_count = host.read_count();
            let is_silent = timeout(limit, follow.changed()).await.is_err() && host.read_count() == read_count;
            if is_silent {
                return;
            }
        }
    }

    /// Returns the error for the current state of the connection.
    pub(crate) fn connection_error(&self) -> AskError {
        match &*self.shared.connection.borrow() {
            Connection::Ended { pid } => self.ended_error(*pid),
            Connection::Down(interruption) | Connection::Up { interrupted: Some(interruption), .. } => {
                self.not_connected_error(interruption)
            }
            Connection::Connecting | Connection::Up { .. } => AskError::NotConnected {
                host: self.shared.route.config.name.clone(),
                since: None,
                reason: "it is reconnecting".to_owned(),
            },
        }
    }

    /// Returns the error for a request without an answer, whose outcome is unknown.
    pub(crate) fn unanswered_error(&self) -> AskError {
        match &*self.shared.connection.borrow() {
            Connection::Ended { pid } => self.ended_error(*pid),
            _ => AskError::ConnectionLost { host: self.shared.route.config.name.clone() },
        }
    }

    /// Returns the error for a host that does not answer over a working connection.
    pub(crate) fn silent_error(&self) -> AskError {
        AskError::RemoteHostSilent { host: self.shared.route.config.name.clone() }
    }

    /// Logs and returns the error for a reply that no valid host sends.
    pub(crate) fn implausible(&self, what: &'static str) -> AskError {
        tracing::warn!(host = self.shared.route.config.name, what, "a machine sent an impossible answer");
        AskError::Implausible { host: self.shared.route.config.name.clone(), what }
    }

    fn not_connected_error(&self, interruption: &Interruption) -> AskError {
        AskError::NotConnected {
            host: self.shared.route.config.name.clone(),
            since: Some(interruption.since),
            reason: interruption.reason.to_string(),
        }
    }

    fn ended_error(&self, pid: u32) -> AskError {
        AskError::RemoteHostLost { host: self.shared.route.config.name.clone(), pid }
    }
}

/// Task that connects, and reconnects after a loss.
struct Supervisor {
    shared: std::sync::Weak<Shared>,
    route: Arc<Route>,
    socket: String,
    on_secret: OnSecret,
}

/// A session that can be resumed.
struct OpenSession {
    session: Session,
    id: SessionId,
    local: UnixStream,
    /// Other end of `local`, until a [`Host`] uses it.
    host_stream: Option<UnixStream>,
    /// True if the host knows the session.
    is_known: bool,
    /// Time of the loss of its last connection, since the start of the machine.
    lost_at: Option<Duration>,
}

impl OpenSession {
    fn new() -> std::io::Result<Self> {
        let (local, host_stream) = UnixStream::pair()?;
        let id = SessionId::random();
        Ok(Self { session: Session::new(), id, local, host_stream: Some(host_stream), is_known: false, lost_at: None })
    }

    /// Returns the remaining time for its next connection.
    fn time_left(&self) -> Duration {
        let time_lost = self.lost_at.map_or(Duration::ZERO, |lost| since_boot().saturating_sub(lost));
        RECONNECT_TIMEOUT.saturating_sub(time_lost)
    }
}

/// Returns the time since the start of this computer, including the time that it was asleep.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Supervisor {
    async fn run(self, mut reached: Option<Reached>) {
        let mut session: Option<OpenSession> = None;
        let mut pause = MIN_RETRY_PAUSE;
        loop {
            let dialed = match reached.take() {
                Some(reached) => Ok(Dialed::Reached(Box::new(reached))),
                None => self.dial(&mut session).await,
            };
            let failure = match dialed {
                Ok(Dialed::Gone) => return self.end(),
                Ok(Dialed::Reached(reached)) => {
                    let was_known = session.as_ref().is_some_and(|open| open.is_known);
                    let began = Instant::now();
                    let carried = self.carry(*reached, &mut session).await;
                    match carried {
                        Ok(failure) => {
                            let is_stable = began.elapsed() >= MIN_STABLE_TIME;
                            pause = pause.min(if is_stable { MIN_RETRY_PAUSE } else { MAX_SHORT_PAUSE });
                            failure
                        }
                        // The host has forgotten the session: begin another one at once.
                        Err(_) if was_known && session.is_none() => continue,
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            session.take_if(|open| open.time_left().is_zero());
            let Some(shared) = self.shared.upgrade() else { return };
            let is_temporary = failure.is_temporary();
            interrupt(&shared.connection, failure, session.is_some());
            let waiting = async {
                tokio::select! {
                    () = shared.retry.notified() => {}
                    // Do not repeat a question for a person.
                    () = sleep(pause), if is_temporary => {}
                }
            };
            match session.as_ref().map(OpenSession::time_left) {
                Some(remaining) => {
                    if timeout(remaining, waiting).await.is_err() {
                        self.give_up(&mut session);
                    }
                }
                None => waiting.await,
            }
            pause = (pause * 2).min(MAX_RETRY_PAUSE);
        }
    }

    /// Connects to the relay and requests the host. Ends the session if its time runs out meanwhile.
    async fn dial(&self, session: &mut Option<OpenSession>) -> Result<Dialed, ConnectFailure> {
        let request = RelayRequest::Open(self.socket.clone());
        let dialing = self.route.dial(&request);
        tokio::pin!(dialing);
        let Some(open) = session.as_ref() else { return dialing.await };
        match timeout(open.time_left(), &mut dialing).await {
            Ok(dialed) => dialed,
            Err(_) => {
                self.give_up(session);
                dialing.await
            }
        }
    }

    /// Ends a session that was without a connection for too long. Keeps the reason for the loss.
    fn give_up(&self, session: &mut Option<OpenSession>) {
        *session = None;
        if let Some(shared) = self.shared.upgrade()
            && let Some(failure) = last_failure(&shared.connection)
        {
            interrupt(&shared.connection, failure, false);
        }
    }

    /// Carries the session over a connection until the connection ends. Returns the reason for its end.
    ///
    /// # Errors
    /// If the session did not begin, with the reason.
    async fn carry(
        &self,
        reached: Reached,
        session: &mut Option<OpenSession>,
    ) -> Result<ConnectFailure, ConnectFailure> {
        let connection_failure = |error: &dyn std::fmt::Display| ConnectFailure::Connection(error.to_string());
        let Reached { channel, mut unread, is_current, .. } = reached;
        if let Some(shared) = self.shared.upgrade() {
            shared.opens_new.store(is_current, Ordering::Relaxed);
        }
        let Channel { mut reader, mut writer, errors, guard } = channel;
        if session.is_none() {
            *session = Some(OpenSession::new().map_err(|error| connection_failure(&error))?);
        }
        let open = session.as_mut().expect("a missing session was begun");
        let hello = Hello {
            client: self.route.client_id,
            session: open.id,
            received: open.session.received(),
            is_new: !open.is_known,
        };
        let greeted =
            timeout(HANDSHAKE_TIMEOUT, greet(&mut open.session, hello, &mut reader, &mut writer, &mut unread)).await;
        match greeted {
            Ok(Ok(())) => {}
            Ok(Err(GreetError::Io(error))) => return Err(connection_failure(&error)),
            Err(_) => return Err(connection_failure(&"the terminal host there does not greet")),
            Ok(Err(GreetError::Refused(SessionRefusal::Unknown))) => {
                // Begin another session.
                *session = None;
                return Err(connection_failure(&SessionRefusal::Unknown));
            }
            Ok(Err(error)) => {
                *session = None;
                return Err(ConnectFailure::Protocol(error.to_string()));
            }
        }
        open.is_known = true;
        open.lost_at = None;
        let greeting = open.host_stream.take().map(|stream| self.greet_host(stream));
        if greeting.is_none()
            && let Some(shared) = self.shared.upgrade()
        {
            shared.connection.send_if_modified(|connection| match connection {
                Connection::Up { interrupted, .. } => interrupted.take().is_some(),
                _ => false,
            });
        }
        let mut is_greeted = greeting.is_none();
        let ended = {
            let pumping = pump(&mut open.session, &mut open.local, &mut reader, &mut writer, &mut unread);
            tokio::pin!(pumping);
            let greeted = async {
                match greeting {
                    Some(greeting) => greeting.await,
                    None => Ok(()),
                }
            };
            tokio::select! {
                biased;
                ended = &mut pumping => Ok(ended),
                greeted = greeted => match greeted {
                    Ok(()) => {
                        is_greeted = true;
                        tokio::select! {
                            ended = pumping => Ok(ended),
                            () = self.wait_for_violation() => Err(connection_failure(&"the terminal host there sent an invalid message")),
                        }
                    }
                    Err(failure) => Err(failure),
                },
            }
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(failure) => {
                *session = None;
                return Err(failure);
            }
        };
        if ended.is_resumable() && is_greeted {
            open.lost_at = Some(since_boot());
        } else {
            *session = None;
        }
        drop((reader, writer));
        let output = match &ended {
            Ended::Lost(_) => errors.into_text().await,
            _ => String::new(),
        };
        drop(guard);
        let last = output.lines().map(str::trim).rfind(|line| !line.is_empty());
        Ok(match last {
            Some(last) => explain(&self.route.config.name, &self.route.config.ssh, last, false, None),
            None if ended.is_violation() && !is_greeted => ConnectFailure::Protocol(ended.to_string()),
            None => connection_failure(&ended),
        })
    }

    /// Greets the host through a new session and publishes the connection.
    fn greet_host(&self, stream: UnixStream) -> impl Future<Output = Result<(), ConnectFailure>> + use<> {
        let (on_secret, shared) = (self.on_secret.clone(), self.shared.clone());
        let name = self.route.config.name.clone();
        let ssh = self.route.config.ssh.clone();
        async move {
            let connection_failure = |text: String| ConnectFailure::Connection(text);
            let peer = Peer::Elsewhere { host: name.clone() };
            let host = timeout(HANDSHAKE_TIMEOUT, Host::from_stream(stream, peer, Role::Visitor, &on_secret)).await;
            let host = host.map_err(|_| connection_failure("the terminal host there does not answer".to_owned()))?;
            let host =
                host.map_err(|error| match error.get_ref().and_then(|cause| cause.downcast_ref::<AskError>()) {
                    // The session ended although the link works.
                    Some(AskError::HostLost { .. } | AskError::RemoteHostLost { .. }) => {
                        ConnectFailure::Protocol("the terminal host there sent an invalid message".to_owned())
                    }
                    Some(AskError::Garbled(_) | AskError::Implausible { .. } | AskError::Refused(_)) => {
                        ConnectFailure::Protocol(error.to_string())
                    }
                    _ => connection_failure(error.to_string()),
                })?;
            if !host.is_understood() {
                let message = format!(
                    "version {}, protocol {} instead of {WIRE_VERSION}",
                    host.greeting().version,
                    host.greeting().wire
                );
                return Err(ConnectFailure::TooOld { host: name, ssh, message });
            }
            if let Some(shared) = shared.upgrade() {
                shared.connection.send_replace(Connection::Up { host, interrupted: None });
            }
            Ok(())
        }
    }

    /// Waits until the host has violated the protocol of the session, while the connection works.
    async fn wait_for_violation(&self) {
        let host = self.shared.upgrade().and_then(|shared| match &*shared.connection.borrow() {
            Connection::Up { host, .. } => Some(host.clone()),
            _ => None,
        });
        match host {
            Some(host) => host.wait_until_lost().await,
            None => std::future::pending().await,
        }
    }

    fn end(&self) {
        if let Some(shared) = self.shared.upgrade() {
            let pid = match &*shared.connection.borrow() {
                Connection::Up { host, .. } => host.greeting().pid,
                _ => 0,
            };
            shared.connection.send_replace(Connection::Ended { pid });
        }
    }
}

/// Returns the reason for the missing connection.
fn last_failure(connection: &watch::Sender<Connection>) -> Option<ConnectFailure> {
    connection.borrow().interruption().map(|interruption| interruption.reason.clone())
}

/// Records a loss or a failed attempt with its reason. Keeps the start time of the loss.
fn interrupt(connection: &watch::Sender<Connection>, reason: ConnectFailure, has_session: bool) {
    connection.send_modify(|connection| {
        let interruption = match connection.interruption().cloned() {
            Some(before) => Interruption { reason, failures: before.failures + 1, ..before },
            None => Interruption::now(reason),
        };
        match connection {
            Connection::Up { interrupted, host } if has_session && !host.is_lost() => *interrupted = Some(interruption),
            Connection::Ended { .. } => {}
            other => *other = Connection::Down(interruption),
        }
    });
}
