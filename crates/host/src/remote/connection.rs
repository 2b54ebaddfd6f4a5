//! The connection to one terminal host on another machine. A lost connection gives way to a new one, for as long as the
//! host is there.
//!
//! A session (`steplatch-link`) continues over the next connection for [`RECONNECT_TIMEOUT`], so that nothing notices a
//! short loss: answers and output arrive. After that the session ends, and its requests have no answer;
//! [`crate::HostedTerminal`] sends repeatable requests again over the next connection to the host.

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

/// Time that a session waits for its next connection. Counted with the time that the machine is asleep: old input does
/// not arrive hours later.
pub const RECONNECT_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit of a connection without a question for a person, until it reaches its relay.
const DIAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a connection that waits for a person's answer. The server over there ends it earlier
/// (`LoginGraceTime`).
const QUESTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Time limit of each of the two greetings of a host, over the link and from its connection.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of the exit code of a connection that has ended.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_millis(500);

/// The first pause before another try, and the longest.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));

/// Minimum time of a connection after which the next attempt comes soon, and the longest pause after a shorter one: a machine
/// that ends each connection at once costs few processes here, and a bad network delays little.
const STEADY_TIME: Duration = Duration::from_secs(2);
const MAX_SHORT_PAUSE: Duration = Duration::from_secs(1);

/// A loss of the connection that has not ended.
#[derive(Debug, Clone)]
pub(crate) struct Interruption {
    /// Start time.
    pub(crate) since: SystemTime,
    pub(crate) began: Instant,
    /// Number of attempts to connect that have failed since, the last one included.
    pub(crate) failures: u64,
    /// Reason for the loss of the connection, or for its absence since.
    pub(crate) why: ConnectFailure,
}

impl Interruption {
    fn now(why: ConnectFailure) -> Self {
        Self { since: SystemTime::now(), began: Instant::now(), failures: 1, why }
    }
}

/// State of the connection to a host.
#[derive(Debug, Clone)]
pub(crate) enum Connection {
    /// The first connection is in progress.
    Connecting,
    /// There is a session, and usually a connection that carries it.
    Up {
        /// The session, as a connection to the host.
        host: Host,
        /// The session has no connection at the moment.
        interrupted: Option<Interruption>,
    },
    /// There is no session.
    Down(Interruption),
    /// The host has ended.
    Over {
        /// Its process id over there; 0 without a connection so far.
        pid: u32,
    },
}

impl Connection {
    /// Returns the loss of the connection, if there is one.
    pub(crate) fn interruption(&self) -> Option<&Interruption> {
        match self {
            Self::Down(interruption) | Self::Up { interrupted: Some(interruption), .. } => Some(interruption),
            Self::Connecting | Self::Up { interrupted: None, .. } | Self::Over { .. } => None,
        }
    }
}

/// The result that an attempt to connect waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The connection. The wait outlasts failures that may pass.
    Connection,
    /// The connection, or the first failure.
    FirstFailure,
}

/// State that all connections to one machine share.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: RemoteHostConfig,
    /// The name of the client over there, and its identity.
    pub(crate) client: String,
    pub(crate) client_id: SessionId,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) questions: Arc<dyn QuestionWatch>,
}

/// A relay that has reached a host.
pub(crate) struct Reached {
    channel: Channel,
    rest: BytesMut,
    pub(crate) version: String,
    pub(crate) socket: String,
    pub(crate) is_current: bool,
}

/// The outcome of a request for a host.
pub(crate) enum Dialed {
    Reached(Box<Reached>),
    /// The host has ended.
    Gone,
}

impl Route {
    /// Connects, and requests a host from the relay.
    pub(crate) async fn dial(&self, request: &RelayRequest) -> Result<Dialed, ConnectFailure> {
        let connection = |error: std::io::Error| ConnectFailure::Connection(error.to_string());
        let asked_before = self.questions.question_count(&self.config.name);
        let mut channel = self.transport.dial(&self.config, &self.client).await?;
        let mut rest = BytesMut::new();
        let reply = async {
            let hello: RelayHello = line(&mut channel.reader, &mut rest, MARK).await?;
            let text = serde_json::to_string(request).map_err(std::io::Error::other)?;
            channel.writer.write_all(format!("{text}\n").as_bytes()).await?;
            channel.writer.flush().await?;
            let reply: RelayReply = line(&mut channel.reader, &mut rest, "").await?;
            Ok::<_, std::io::Error>((hello, reply))
        };
        let late = async {
            sleep(DIAL_TIMEOUT).await;
            if self.questions.is_open(&self.config.name) {
                sleep(QUESTION_TIMEOUT).await;
            }
        };
        let reply = tokio::select! {
            reply = reply => reply,
            () = late => Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the machine does not answer")),
        };
        match reply {
            // Other hosts there are of no use: their terminals are not those of this installation, or have notes.
            Ok((hello, RelayReply::Open { socket, is_current, others: _ })) => {
                let is_wanted = match request {
                    RelayRequest::Open(requested) => *requested == socket,
                    RelayRequest::OpenCurrent | RelayRequest::OpenExisting => is_socket(&socket),
                };
                if !is_wanted {
                    return Err(ConnectFailure::Host("it names another host than was requested, or none".to_owned()));
                }
                let version = version_label(&hello.version);
                Ok(Dialed::Reached(Box::new(Reached { channel, rest, version, socket, is_current })))
            }
            Ok((_, RelayReply::Gone)) => Ok(Dialed::Gone),
            Ok((_, RelayReply::Failed(reason))) => Err(ConnectFailure::Host(printable(&reason))),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(connection(error)),
            Err(_) => {
                let Channel { errors, mut guard, reader, writer } = channel;
                // A program that violates the protocol ends with its connection.
                drop((reader, writer));
                let errors = errors.into_text().await;
                let exit = timeout(EXIT_CODE_TIMEOUT, guard.exit_code()).await.ok().flatten();
                drop(guard);
                let asked = self.questions.question_count(&self.config.name) != asked_before;
                Err(explain(&self.config.name, &self.config.ssh, &errors, asked, exit))
            }
        }
    }
}

/// Reads lines until one has `mark`, and parses what follows there. A login shell may print before the mark, also without
/// an end of line. `rest` receives the bytes after the line.
async fn line<T: serde::de::DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
    rest: &mut BytesMut,
    mark: &str,
) -> std::io::Result<T> {
    let mut read = 0;
    loop {
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1);
            read += line.len();
            // Without a mark, each line is one: an empty one is at its beginning.
            let marked = (0..line.len()).find(|at| line[*at..].starts_with(mark.as_bytes()));
            if let Some(at) = marked {
                return serde_json::from_slice(&line[at + mark.len()..]).map_err(std::io::Error::other);
            }
        }
        // A login shell may print before the relay does, but not without end.
        if read + rest.len() > MAX_LINE_BYTES {
            return Err(std::io::Error::other("no relay answers"));
        }
        if reader.read_buf(rest).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A terminal host on another machine. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct RemoteHost {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    route: Arc<Route>,
    socket: String,
    connection: watch::Sender<Connection>,
    /// True if it opens new terminals, as the relay that reached it last has reported.
    opens_new: AtomicBool,
    /// Tries at once instead of at the end of a pause.
    retry: Notify,
    supervising: OnceLock<tokio::task::AbortHandle>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(supervising) = self.supervising.get() {
            supervising.abort();
        }
    }
}

impl RemoteHost {
    /// Connects to the host of `socket`; `reached` is a relay that has reached it already.
    pub(crate) fn new(route: Arc<Route>, socket: String, reached: Option<Reached>, on_secret: OnSecret) -> Self {
        let connection = watch::Sender::new(Connection::Connecting);
        let opens_new = AtomicBool::new(false);
        let retry = Notify::new();
        let shared = Arc::new(Shared { route, socket, connection, opens_new, retry, supervising: OnceLock::new() });
        // It ends with the drop of the shared state, so it begins after that.
        let (route, socket) = (shared.route.clone(), shared.socket.clone());
        let supervisor = Supervisor { shared: Arc::downgrade(&shared), route, socket, on_secret };
        let _ = shared.supervising.set(tokio::spawn(supervisor.run(reached)).abort_handle());
        Self { shared }
    }

    /// Returns the name of its machine.
    pub(crate) fn machine(&self) -> &str {
        &self.shared.route.config.name
    }

    /// Returns the name of its socket over there.
    pub(crate) fn socket(&self) -> &str {
        &self.shared.socket
    }

    /// Returns whether it opens new terminals, according to the last reply.
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
    pub(crate) fn up(&self) -> Option<Host> {
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
    pub(crate) fn is_over(&self) -> bool {
        matches!(&*self.shared.connection.borrow(), Connection::Over { .. })
    }

    /// Tries to connect at once, if there is no connection.
    pub(crate) fn retry(&self) {
        self.shared.retry.notify_one();
    }

    /// Returns the session once it has a connection.
    ///
    /// # Errors
    /// If it has none for `patience`, the host has ended, or an attempt fails for a reason that only a person can
    /// remove.
    pub(crate) async fn reached(&self, patience: Duration) -> Result<Host, AskError> {
        self.reached_until(patience, Awaited::Connection).await
    }

    /// Does the same; with [`Awaited::FirstFailure`], any failure ends it.
    pub(crate) async fn reached_until(&self, patience: Duration, until: Awaited) -> Result<Host, AskError> {
        if let Some(host) = self.up() {
            return Ok(host);
        }
        let mut follow = self.follow();
        // The cause of an earlier failure may have passed by now: this attempt counts.
        let before = follow.borrow_and_update().interruption().map_or(0, |interruption| interruption.failures);
        self.retry();
        let up = async {
            loop {
                match &*follow.borrow_and_update() {
                    Connection::Up { host, interrupted: None } if !host.is_lost() => return Ok(host.clone()),
                    Connection::Over { pid } => return Err(self.ended(*pid)),
                    other => {
                        if let Some(interruption) = other.interruption()
                            && interruption.failures > before
                            && (until == Awaited::FirstFailure || !interruption.why.is_passing())
                        {
                            return Err(self.not_connected(interruption));
                        }
                    }
                }
                if follow.changed().await.is_err() {
                    return Err(self.ended(0));
                }
            }
        };
        match timeout(patience, up).await {
            Ok(reached) => reached,
            Err(_) => Err(self.trouble()),
        }
    }

    /// Waits until the session has had no connection for `limit`, or a person has to do something for the next one.
    /// Returns the problem; none if the session has ended.
    pub(crate) async fn stalled(&self, limit: Duration) -> Option<AskError> {
        let mut follow = self.follow();
        loop {
            let began = match &*follow.borrow_and_update() {
                Connection::Up { interrupted: None, .. } => None,
                Connection::Up { interrupted: Some(interruption), .. } if !interruption.why.is_passing() => {
                    return Some(self.not_connected(interruption));
                }
                Connection::Up { interrupted: Some(interruption), .. } => Some(interruption.began),
                Connection::Connecting | Connection::Down(_) | Connection::Over { .. } => return None,
            };
            let over = async {
                match began {
                    Some(began) => tokio::time::sleep_until(began + limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return Some(self.trouble()),
                changed = follow.changed() => if changed.is_err() { return None },
            }
        }
    }

    /// Waits until the host has sent nothing for `limit` over one connection. Time without a connection does not count.
    pub(crate) async fn silence(&self, host: &Host, limit: Duration) {
        let mut follow = self.follow();
        loop {
            let is_up = |connection: &Connection| matches!(connection, Connection::Up { interrupted: None, .. });
            if follow.wait_for(is_up).await.is_err() {
                // The end of the session ends the request.
                return std::future::pending().await;
            }
            let read_count = host.read_count();
            let is_silent = timeout(limit, follow.changed()).await.is_err() && host.read_count() == read_count;
            if is_silent {
                return;
            }
        }
    }

    /// Returns the problem of the connection.
    pub(crate) fn trouble(&self) -> AskError {
        match &*self.shared.connection.borrow() {
            Connection::Over { pid } => self.ended(*pid),
            Connection::Down(interruption) | Connection::Up { interrupted: Some(interruption), .. } => {
                self.not_connected(interruption)
            }
            Connection::Connecting | Connection::Up { .. } => AskError::NotConnected {
                host: self.shared.route.config.name.clone(),
                since: None,
                why: "it is reconnecting".to_owned(),
            },
        }
    }

    /// Returns the error of a request without an answer and with an unknown outcome.
    pub(crate) fn unanswered(&self) -> AskError {
        match &*self.shared.connection.borrow() {
            Connection::Over { pid } => self.ended(*pid),
            _ => AskError::ConnectionLost { host: self.shared.route.config.name.clone() },
        }
    }

    /// Returns that the host does not answer over a working connection.
    pub(crate) fn silent(&self) -> AskError {
        AskError::RemoteHostSilent { host: self.shared.route.config.name.clone() }
    }

    /// Returns that the host has sent what no terminal host sends.
    pub(crate) fn implausible(&self, what: &'static str) -> AskError {
        tracing::warn!(host = self.shared.route.config.name, what, "a machine sent an answer that cannot be");
        AskError::Implausible { host: self.shared.route.config.name.clone(), what }
    }

    fn not_connected(&self, interruption: &Interruption) -> AskError {
        AskError::NotConnected {
            host: self.shared.route.config.name.clone(),
            since: Some(interruption.since),
            why: interruption.why.to_string(),
        }
    }

    fn ended(&self, pid: u32) -> AskError {
        AskError::RemoteHostLost { host: self.shared.route.config.name.clone(), pid }
    }
}

/// The task that connects, and connects again.
struct Supervisor {
    shared: std::sync::Weak<Shared>,
    route: Arc<Route>,
    socket: String,
    on_secret: OnSecret,
}

/// A session that may continue.
struct OpenSession {
    session: Session,
    id: SessionId,
    local: UnixStream,
    /// The far end of `local`, until the host is spoken to through it.
    speaker: Option<UnixStream>,
    /// True if the host has welcomed it.
    is_known: bool,
    /// Time of the loss of its last connection.
    lost: Option<Duration>,
}

impl OpenSession {
    fn new() -> std::io::Result<Self> {
        let (local, speaker) = UnixStream::pair()?;
        let id = SessionId::random();
        Ok(Self { session: Session::new(), id, local, speaker: Some(speaker), is_known: false, lost: None })
    }

    /// Returns the remaining time until its next connection.
    fn time_left(&self) -> Duration {
        let away = self.lost.map_or(Duration::ZERO, |lost| since_boot().saturating_sub(lost));
        RECONNECT_TIMEOUT.saturating_sub(away)
    }
}

/// Returns the time since the machine's start, with the time that it was asleep.
fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

impl Supervisor {
    async fn run(self, mut reached: Option<Reached>) {
        let mut session: Option<OpenSession> = None;
        let mut pause = RETRY_PAUSES.0;
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
                            let is_steady = began.elapsed() >= STEADY_TIME;
                            pause = pause.min(if is_steady { RETRY_PAUSES.0 } else { MAX_SHORT_PAUSE });
                            failure
                        }
                        // The host is there and has forgotten the session: another one begins at once.
                        Err(_) if was_known && session.is_none() => continue,
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            session.take_if(|open| open.time_left().is_zero());
            let Some(shared) = self.shared.upgrade() else { return };
            let is_passing = failure.is_passing();
            interrupt(&shared.connection, failure, session.is_some());
            let waiting = async {
                tokio::select! {
                    () = shared.retry.notified() => {}
                    // A question for a person must not repeat again and again.
                    () = sleep(pause), if is_passing => {}
                }
            };
            match session.as_ref().map(OpenSession::time_left) {
                Some(left) => {
                    if timeout(left, waiting).await.is_err() {
                        self.give_up(&mut session);
                    }
                }
                None => waiting.await,
            }
            pause = (pause * 2).min(RETRY_PAUSES.1);
        }
    }

    /// Connects to the relay and requests the host. Ends a session whose time has run out in the meantime.
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

    /// Ends a session that was without a connection for too long. The reason for the loss stays.
    fn give_up(&self, session: &mut Option<OpenSession>) {
        *session = None;
        if let Some(shared) = self.shared.upgrade()
            && let Some(failure) = last_failure(&shared.connection)
        {
            interrupt(&shared.connection, failure, false);
        }
    }

    /// Carries the session over a connection until it ends. Returns why it ended; as an error, why it did not begin.
    async fn carry(
        &self,
        reached: Reached,
        session: &mut Option<OpenSession>,
    ) -> Result<ConnectFailure, ConnectFailure> {
        let connection = |error: &dyn std::fmt::Display| ConnectFailure::Connection(error.to_string());
        let Reached { channel, mut rest, is_current, .. } = reached;
        if let Some(shared) = self.shared.upgrade() {
            shared.opens_new.store(is_current, Ordering::Relaxed);
        }
        let Channel { mut reader, mut writer, errors, guard } = channel;
        if session.is_none() {
            *session = Some(OpenSession::new().map_err(|error| connection(&error))?);
        }
        let open = session.as_mut().expect("a session was begun if there was none");
        let hello = Hello {
            client: self.route.client_id,
            session: open.id,
            received: open.session.received(),
            is_new: !open.is_known,
        };
        let greeted =
            timeout(GREETING_TIMEOUT, greet(&mut open.session, hello, &mut reader, &mut writer, &mut rest)).await;
        match greeted {
            Ok(Ok(())) => {}
            Ok(Err(GreetError::Io(error))) => return Err(connection(&error)),
            Err(_) => return Err(connection(&"the terminal host there does not greet")),
            Ok(Err(GreetError::Refused(SessionRefusal::Unknown))) => {
                // Another session begins.
                *session = None;
                return Err(connection(&SessionRefusal::Unknown));
            }
            Ok(Err(error)) => {
                *session = None;
                return Err(ConnectFailure::Protocol(error.to_string()));
            }
        }
        open.is_known = true;
        open.lost = None;
        let meeting = open.speaker.take().map(|speaker| self.meet(speaker));
        if meeting.is_none()
            && let Some(shared) = self.shared.upgrade()
        {
            shared.connection.send_if_modified(|connection| match connection {
                Connection::Up { interrupted, .. } => interrupted.take().is_some(),
                _ => false,
            });
        }
        let mut is_met = meeting.is_none();
        let ended = {
            let pumping = pump(&mut open.session, &mut open.local, &mut reader, &mut writer, &mut rest);
            tokio::pin!(pumping);
            let met = async {
                match meeting {
                    Some(meeting) => meeting.await,
                    None => Ok(()),
                }
            };
            tokio::select! {
                biased;
                ended = &mut pumping => Ok(ended),
                met = met => match met {
                    Ok(()) => {
                        is_met = true;
                        tokio::select! {
                            ended = pumping => Ok(ended),
                            () = self.broken() => Err(connection(&"the terminal host there sent what is no message")),
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
        if ended.is_resumable() && is_met {
            open.lost = Some(since_boot());
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
            None if ended.is_violation() && !is_met => ConnectFailure::Protocol(ended.to_string()),
            None => connection(&ended),
        })
    }

    /// Speaks to the host through a new session.
    fn meet(&self, speaker: UnixStream) -> impl Future<Output = Result<(), ConnectFailure>> + use<> {
        let (on_secret, shared) = (self.on_secret.clone(), self.shared.clone());
        let name = self.route.config.name.clone();
        let ssh = self.route.config.ssh.clone();
        async move {
            let connection = |text: String| ConnectFailure::Connection(text);
            let peer = Peer::Elsewhere { host: name.clone() };
            let host = timeout(GREETING_TIMEOUT, Host::from_stream(speaker, peer, Role::Visitor, &on_secret)).await;
            let host = host.map_err(|_| connection("the terminal host there does not answer".to_owned()))?;
            let host =
                host.map_err(|error| match error.get_ref().and_then(|cause| cause.downcast_ref::<AskError>()) {
                    // The link carries on.
                    Some(AskError::HostLost { .. } | AskError::RemoteHostLost { .. }) => {
                        ConnectFailure::Protocol("the terminal host there sent what is no message".to_owned())
                    }
                    Some(AskError::Garbled(_) | AskError::Implausible { .. } | AskError::Refused(_)) => {
                        ConnectFailure::Protocol(error.to_string())
                    }
                    _ => connection(error.to_string()),
                })?;
            if !host.is_understood() {
                let said = format!(
                    "version {}, protocol {} instead of {WIRE_VERSION}",
                    host.greeting().version,
                    host.greeting().wire
                );
                return Err(ConnectFailure::TooOld { host: name, ssh, said });
            }
            if let Some(shared) = shared.upgrade() {
                shared.connection.send_replace(Connection::Up { host, interrupted: None });
            }
            Ok(())
        }
    }

    /// Waits until the host has broken the protocol of the session, whose connection stays.
    async fn broken(&self) {
        let host = self.shared.upgrade().and_then(|shared| match &*shared.connection.borrow() {
            Connection::Up { host, .. } => Some(host.clone()),
            _ => None,
        });
        match host {
            Some(host) => host.lost().await,
            None => std::future::pending().await,
        }
    }

    fn end(&self) {
        if let Some(shared) = self.shared.upgrade() {
            let pid = match &*shared.connection.borrow() {
                Connection::Up { host, .. } => host.greeting().pid,
                _ => 0,
            };
            shared.connection.send_replace(Connection::Over { pid });
        }
    }
}

/// Returns the reason that there is no connection.
fn last_failure(connection: &watch::Sender<Connection>) -> Option<ConnectFailure> {
    connection.borrow().interruption().map(|interruption| interruption.why.clone())
}

/// Records that there is no connection, with the newest reason. The time at which the loss began stays.
fn interrupt(connection: &watch::Sender<Connection>, why: ConnectFailure, has_session: bool) {
    connection.send_modify(|connection| {
        let interruption = match connection.interruption().cloned() {
            Some(before) => Interruption { why, failures: before.failures + 1, ..before },
            None => Interruption::now(why),
        };
        match connection {
            Connection::Up { interrupted, host } if has_session && !host.is_lost() => *interrupted = Some(interruption),
            Connection::Over { .. } => {}
            other => *other = Connection::Down(interruption),
        }
    });
}
