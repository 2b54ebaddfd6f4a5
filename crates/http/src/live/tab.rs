//! A tab of the page: its socket and its state.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use serde_json::{Value, json};
use steplatch_protocol::{CheckPageSession, PageSecret, Peer, ReconnectingClient, ResizeTerminal};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::feeds::{THUMB_INTERVAL, Viewer, ViewerUpdate};
use super::input::{TabInput, type_inputs};
use super::lists::ListSnapshot;
use super::message::{FromTab, Rate, ToTab};
use super::runs::{RunFollower, follow};
use crate::app::App;
use crate::page::{self, login};

/// Maximum time until the first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of pings. A ping also checks the session.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Maximum age of the last session check before a tab acts on a terminal.
const MAX_CHECK_AGE: Duration = Duration::from_secs(1);

/// Maximum age of the last session check before a tab of a read-only link gets another frame.
const MAX_LINK_CHECK_AGE: Duration = Duration::from_secs(2);

/// Maximum time for sending a message. A tab that does not read would keep its socket past the end of its session.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of sockets of one session, and of one browser with a read-only link.
const MAX_SESSION_SOCKETS: usize = 256;
const MAX_LINK_SOCKETS: usize = 8;

/// Maximum time without a message from a tab. A tab responds to pings.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of unacknowledged frames of one screen.
const MAX_UNACKNOWLEDGED_FRAMES: usize = 2;

/// Maximum number of terminals that a tab watches.
const MAX_WATCHED_TERMINALS: usize = 256;

/// Maximum number of runs that a tab follows.
const MAX_FOLLOWED_RUNS: usize = 32;

/// Maximum number of queued inputs.
const MAX_INPUTS: usize = 1024;

/// Delay before acknowledging a typed input, so that the frame with its echo is sent first. The tab needs the
/// acknowledgement only after a lost connection.
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_millis(25);

/// Close code of a socket whose session has ended.
const LOGGED_OUT: u16 = 4401;

/// Close code of a socket after an invalid message.
const INVALID_MESSAGE: u16 = 4400;

/// Close code of a socket above the limit of its session.
const TRY_AGAIN_LATER: u16 = 1013;

/// Close code of a socket while the server shuts down.
const GOING_AWAY: u16 = 1001;

/// A tab with a session.
pub(super) struct Tab {
    app: Arc<App>,
    socket: WebSocket,
    session: CheckPageSession,
    /// The only terminal that the tab may see, if its session belongs to a read-only link.
    terminal: Option<String>,
    /// Connection to the daemon on behalf of the person at the browser.
    person: ReconnectingClient,
    /// Notified of changed screens.
    wake: Arc<Notify>,
    watched: HashMap<String, WatchedTerminal>,
    /// Numbers of times that each hold was taken, by its key.
    holds: HashMap<String, u64>,
    run_followers: HashMap<String, RunFollower>,
    inputs: mpsc::Sender<TabInput>,
    replies: mpsc::Sender<ToTab>,
    /// Delayed acknowledgements of typed inputs, and the time to send them.
    acknowledgements: (Vec<ToTab>, Option<Instant>),
    is_visible: bool,
    lists: Option<watch::Receiver<ListSnapshot>>,
    wants_lists: bool,
    /// The last list of a read-only link.
    shown_to_link: Option<Value>,
    daemon_is_running: bool,
    /// Time of the last session check.
    checked_at: Instant,
}

/// A screen that a tab watches.
struct WatchedTerminal {
    rate: Rate,
    /// `None` while the tab is hidden, because the daemon does not send screens that only hidden tabs watch.
    viewer: Option<Viewer>,
    /// Version of the last frame.
    since: u64,
    /// Versions of unacknowledged frames.
    unacknowledged: VecDeque<u64>,
    sent_at: Option<Instant>,
    has_ended: bool,
}

impl WatchedTerminal {
    fn new(viewer: Option<Viewer>, rate: Rate) -> Self {
        Self { rate, viewer, since: 0, unacknowledged: VecDeque::new(), sent_at: None, has_ended: false }
    }
}

/// Failure to send a message to a tab that is closed or does not read.
struct Unsent;

/// Close code and reason of a tab's socket.
struct SocketClose(u16, &'static str);

impl Tab {
    /// Serves a tab until it closes.
    ///
    /// `pending` is the permit of a socket without a session, dropped once the socket has one.
    pub(super) async fn serve(
        app: Arc<App>,
        mut socket: WebSocket,
        cookies: Vec<PageSecret>,
        peer: Peer,
        pending: OwnedSemaphorePermit,
    ) {
        let first_message = timeout(HELLO_TIMEOUT, socket.recv()).await;
        let Ok(Some(Ok(Message::Text(hello)))) = first_message else { return };
        let Ok(FromTab::Hello { half }) = serde_json::from_str(&hello) else {
            return close(socket, SocketClose(INVALID_MESSAGE, "the first message must be a hello")).await;
        };
        let pairs =
            cookies.into_iter().map(|cookie| CheckPageSession { cookie, half: half.clone(), may_be_link: true });
        let login::Session { pair: session, terminal } = match login::find_session(&app, pairs.collect()).await {
            Ok(Ok(session)) => session,
            Ok(Err(_)) => return close(socket, SocketClose(LOGGED_OUT, "the session has ended")).await,
            Err(_) => return close(socket, SocketClose(GOING_AWAY, "the daemon does not respond")).await,
        };
        let max_sockets = if terminal.is_some() { MAX_LINK_SOCKETS } else { MAX_SESSION_SOCKETS };
        let Some(_socket_count) = app.live.sockets.admit(&session.cookie, max_sockets) else {
            return close(socket, SocketClose(TRY_AGAIN_LATER, "the session has too many sockets")).await;
        };
        drop(pending);
        let person = app.daemon.for_person("page", Some(peer));
        let (inputs, input_receiver) = mpsc::channel(MAX_INPUTS);
        let (replies, mut reply_receiver) = mpsc::channel(64);
        let input_task = tokio::spawn(type_inputs(person.clone(), input_receiver, replies.clone()));
        let daemon_is_running = app.live.lists.is_daemon_running().await;
        let mut tab = Self {
            app,
            socket,
            session,
            terminal,
            person,
            wake: Arc::default(),
            watched: HashMap::new(),
            holds: HashMap::new(),
            run_followers: HashMap::new(),
            inputs,
            replies,
            acknowledgements: (Vec::new(), None),
            is_visible: true,
            lists: None,
            wants_lists: false,
            shown_to_link: None,
            daemon_is_running,
            checked_at: Instant::now(),
        };
        let result = tab.exchange_messages(&mut reply_receiver).await;
        input_task.abort();
        for (key, take_count) in tab.holds.drain() {
            tab.app.live.holds.release_later(key, take_count);
        }
        if let Err(socket_close) = result {
            close(tab.socket, socket_close).await;
        }
    }

    /// Exchanges messages with the tab until it closes.
    async fn exchange_messages(&mut self, replies: &mut mpsc::Receiver<ToTab>) -> Result<(), SocketClose> {
        let hello = ToTab::Hello { build: page::build(), daemon: self.daemon_is_running };
        if !self.send(&hello).await {
            return Ok(());
        }
        let mut ping = interval(PING_INTERVAL);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.tick().await;
        let (shutdown, wake) = (self.app.shutdown.clone(), self.wake.clone());
        let mut last_message = Instant::now();
        loop {
            if self.terminal.is_some() && self.checked_at.elapsed() > MAX_LINK_CHECK_AGE && !self.is_logged_in().await {
                return Err(SocketClose(LOGGED_OUT, "the link has ended"));
            }
            let Ok(frame_due) = self.send_frames().await else { return Ok(()) };
            let acknowledgement_due = self.acknowledgements.1;
            let due = frame_due.into_iter().chain(acknowledgement_due).min();
            tokio::select! {
                message = self.socket.recv() => {
                    last_message = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                            Ok(message) if !self.permits(&message) => {
                                return Err(SocketClose(INVALID_MESSAGE, "a read-only link shows one terminal"));
                            }
                            Ok(message) => {
                                if acts_on_terminal(&message)
                                    && self.checked_at.elapsed() > MAX_CHECK_AGE
                                    && !self.is_logged_in().await
                                {
                                    return Err(SocketClose(LOGGED_OUT, "the session has ended"));
                                }
                                self.handle(message).await;
                            }
                            Err(error) => {
                                tracing::debug!(%error, "a tab sent an unreadable message");
                                return Err(SocketClose(INVALID_MESSAGE, "a message is not valid"));
                            }
                        },
                        Some(Ok(Message::Binary(_))) => {
                            return Err(SocketClose(INVALID_MESSAGE, "a message must be text"));
                        }
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                    }
                }
                () = wake.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if acknowledgement_due.is_some_and(|due| Instant::now() >= due) && !self.acknowledge().await {
                        return Ok(());
                    }
                }
                Some(reply) = replies.recv() => match reply {
                    ToTab::Typed { error: None, .. } => {
                        self.acknowledgements.0.push(reply);
                        self.acknowledgements.1.get_or_insert_with(|| Instant::now() + ACKNOWLEDGEMENT_DELAY);
                    }
                    reply => {
                        // Report a failed input after the earlier ones.
                        if !self.acknowledge().await || !self.send(&reply).await {
                            return Ok(());
                        }
                    }
                },
                true = wait_for_change(self.lists.as_mut()) => self.send_lists().await,
                _ = ping.tick() => {
                    let is_silent = last_message.elapsed() > SILENCE_TIMEOUT;
                    let pinged = timeout(SEND_TIMEOUT, self.socket.send(Message::Ping(Vec::new().into()))).await;
                    if is_silent || !pinged.is_ok_and(|sent| sent.is_ok()) {
                        return Ok(());
                    }
                    if !self.is_logged_in().await {
                        return Err(SocketClose(LOGGED_OUT, "the session has ended"));
                    }
                }
                () = shutdown.cancelled() => return Err(SocketClose(GOING_AWAY, "the server is shutting down")),
            }
        }
    }

    /// Sends a message. Returns whether the tab is still open.
    async fn send(&mut self, message: &ToTab) -> bool {
        self.send_text(message.to_text().into()).await
    }

    async fn send_text(&mut self, text: Utf8Bytes) -> bool {
        timeout(SEND_TIMEOUT, self.socket.send(Message::Text(text))).await.is_ok_and(|sent| sent.is_ok())
    }

    /// Sends the delayed acknowledgements. Returns whether the tab is still open.
    async fn acknowledge(&mut self) -> bool {
        let (acknowledgements, _) = std::mem::take(&mut self.acknowledgements);
        for reply in acknowledgements {
            if !self.send(&reply).await {
                return false;
            }
        }
        true
    }

    /// Returns whether the session is still valid. Does not start a daemon.
    async fn is_logged_in(&mut self) -> bool {
        self.checked_at = Instant::now();
        match self.app.daemon.running().await {
            Ok(client) => match client.call(self.session.clone()).await {
                Ok(reply) => reply.success,
                // The daemon has just exited; the next one will check the session.
                Err(_) => true,
            },
            Err(_) => true,
        }
    }

    /// Sends the frames that are due. Returns the time of the next one, or an error if the tab does not read.
    async fn send_frames(&mut self) -> Result<Option<Instant>, Unsent> {
        let (now, mut frames, mut next) = (Instant::now(), Vec::new(), None::<Instant>);
        let is_link = self.terminal.is_some();
        for (terminal, watched) in &mut self.watched {
            if watched.has_ended || watched.unacknowledged.len() >= MAX_UNACKNOWLEDGED_FRAMES {
                continue;
            }
            let Some(viewer) = &watched.viewer else { continue };
            let due = match (watched.rate, watched.sent_at) {
                (Rate::Thumb, Some(sent_at)) => sent_at + THUMB_INTERVAL,
                _ => now,
            };
            match viewer.update_since(watched.since) {
                ViewerUpdate::None => {}
                ViewerUpdate::Ended(error) => {
                    watched.has_ended = true;
                    // The error may list the other terminals.
                    let error = error.filter(|_| !is_link);
                    frames.push(ToTab::Gone { terminal: terminal.clone(), error }.to_text().into());
                }
                ViewerUpdate::Frame(..) if due > now => next = Some(next.map_or(due, |next| next.min(due))),
                ViewerUpdate::Frame(version, frame) => {
                    watched.since = version;
                    watched.unacknowledged.push_back(version);
                    watched.sent_at = Some(now);
                    frames.push(frame);
                }
            }
        }
        for frame in frames {
            if !self.send_text(frame).await {
                return Err(Unsent);
            }
        }
        Ok(next)
    }

    async fn send_lists(&mut self) {
        let Some(lists) = &mut self.lists else { return };
        let ListSnapshot { daemon_is_running, terminals, waiting, runs } = lists.borrow_and_update().clone();
        if daemon_is_running != self.daemon_is_running {
            self.daemon_is_running = daemon_is_running;
            self.send(&ToTab::Daemon { here: daemon_is_running }).await;
        }
        if daemon_is_running {
            let lists = match &self.terminal {
                None => {
                    ToTab::Lists { terminals: (*terminals).clone(), waiting: (*waiting).clone(), runs: (*runs).clone() }
                }
                Some(terminal) => {
                    let entries = terminals.as_array().into_iter().flatten();
                    let entries = entries.filter(|entry| entry["session_id"] == **terminal);
                    let visible: Value = entries.map(link_view).collect::<Vec<_>>().into();
                    // A message without a change would show that something happens in other terminals.
                    if self.shown_to_link.as_ref() == Some(&visible) {
                        return;
                    }
                    self.shown_to_link = Some(visible.clone());
                    ToTab::Lists { terminals: visible, waiting: json!([]), runs: json!([]) }
                }
            };
            self.send(&lists).await;
        }
    }

    /// Watches the screens while the tab is visible. A tab that becomes visible again receives whole screens.
    fn update_viewers(&mut self) {
        for (terminal, watched) in self.watched.iter_mut().filter(|(_, watched)| !watched.has_ended) {
            match (self.is_visible, &watched.viewer) {
                (true, None) => {
                    let viewer = self.app.live.feeds.watch(terminal, watched.rate, &self.wake);
                    *watched = WatchedTerminal::new(Some(viewer), watched.rate);
                }
                (false, Some(_)) => watched.viewer = None,
                _ => {}
            }
        }
    }

    /// Subscribes to the lists while the tab is visible and has requested them.
    fn update_list_subscription(&mut self) {
        match (self.wants_lists && self.is_visible, &self.lists) {
            (true, None) => {
                let mut lists = self.app.live.lists.subscribe();
                // The default snapshot does not contain the state of the daemon.
                if *lists.borrow() != ListSnapshot::default() {
                    lists.mark_changed();
                }
                self.lists = Some(lists);
            }
            (false, Some(_)) => self.lists = None,
            _ => {}
        }
    }

    /// Returns whether the session of the tab permits a message. The session of a read-only link permits only its
    /// terminal.
    fn permits(&self, message: &FromTab) -> bool {
        let Some(linked_terminal) = &self.terminal else { return true };
        match message {
            FromTab::Hello { .. } | FromTab::Visible { .. } | FromTab::Lists => true,
            FromTab::Watch { terminal, .. } | FromTab::Leave { terminal } | FromTab::Ack { terminal, .. } => {
                terminal == linked_terminal
            }
            FromTab::Follow { .. }
            | FromTab::Unfollow { .. }
            | FromTab::Hold { .. }
            | FromTab::HandBack { .. }
            | FromTab::Type { .. }
            | FromTab::Size { .. } => false,
        }
    }

    async fn handle(&mut self, message: FromTab) {
        let is_full = self.watched.len() >= MAX_WATCHED_TERMINALS;
        match message {
            // A second hello has no effect.
            FromTab::Hello { .. } => {}
            FromTab::Watch { terminal, rate } => match self.watched.get_mut(&terminal) {
                Some(watched) => {
                    watched.rate = rate;
                    if let Some(viewer) = &mut watched.viewer {
                        viewer.set_rate(rate);
                    }
                }
                None if is_full => {
                    let error = Some(format!("a tab can watch at most {MAX_WATCHED_TERMINALS} terminals"));
                    self.send(&ToTab::Gone { terminal, error }).await;
                }
                None => {
                    let viewer = self.is_visible.then(|| self.app.live.feeds.watch(&terminal, rate, &self.wake));
                    self.watched.insert(terminal, WatchedTerminal::new(viewer, rate));
                }
            },
            FromTab::Leave { terminal } => drop(self.watched.remove(&terminal)),
            FromTab::Ack { terminal, version } => {
                // A version that was not sent would acknowledge all later versions.
                if let Some(watched) = self.watched.get_mut(&terminal).filter(|watched| version <= watched.since) {
                    watched.unacknowledged.retain(|unacknowledged| *unacknowledged > version);
                }
            }
            FromTab::Visible { visible } => {
                self.is_visible = visible;
                self.update_viewers();
                self.update_list_subscription();
            }
            FromTab::Lists => {
                self.wants_lists = true;
                self.update_list_subscription();
            }
            FromTab::Follow { run, from } => {
                if self.run_followers.len() < MAX_FOLLOWED_RUNS || self.run_followers.contains_key(&run) {
                    let run_follower = follow(self.app.daemon.clone(), run.clone(), from, self.replies.clone());
                    self.run_followers.insert(run, run_follower);
                } else {
                    let error = Some(format!("a tab can follow at most {MAX_FOLLOWED_RUNS} runs"));
                    self.send(&ToTab::Unfollowed { run, error }).await;
                }
            }
            FromTab::Unfollow { run } => drop(self.run_followers.remove(&run)),
            FromTab::Hold { terminal, key } => {
                let hold = self.app.live.holds.take(&self.person, &terminal, &key).await;
                let error = match hold {
                    Ok(take_count) => {
                        self.holds.insert(key, take_count);
                        None
                    }
                    Err(error) => Some(error),
                };
                self.send(&ToTab::Held { terminal, success: error.is_none(), error }).await;
            }
            FromTab::HandBack { terminal, key, note } => {
                let error = self.app.live.holds.hand_back(&self.person, &terminal, &key, note).await.err();
                self.holds.remove(&key);
                self.send(&ToTab::HandedBack { terminal, error }).await;
            }
            FromTab::Type { terminal, key, n, input } => {
                if let Some(viewer) = self.watched.get(&terminal).and_then(|watched| watched.viewer.as_ref()) {
                    viewer.put_first();
                }
                let input = TabInput { terminal, key, name: n, input };
                if let Err(mpsc::error::TrySendError::Full(input)) = self.inputs.try_send(input) {
                    let error = Some("too many inputs are queued".to_owned());
                    let TabInput { terminal, name: n, .. } = input;
                    self.send(&ToTab::Typed { terminal, n, error }).await;
                }
            }
            FromTab::Size { terminal, cols, rows } => {
                let Ok(client) = self.person.running().await else { return };
                let result = client.call(ResizeTerminal { session_id: terminal.clone(), cols, rows }).await;
                if let Ok(Some(error)) = result.map(|reply| reply.error) {
                    tracing::debug!(%error, terminal, "failed to resize a terminal");
                }
            }
        }
    }
}

/// Fields of a listed terminal that a read-only link shows.
const LINK_FIELDS: [&str; 12] = [
    "session_id",
    "name",
    "title",
    "command",
    "state",
    "exit_code",
    "busy",
    "awaiting_input",
    "password",
    "cols",
    "rows",
    "host_lost_since",
];

/// Returns the fields of a listed terminal that a read-only link shows.
fn link_view(terminal: &Value) -> Value {
    let fields = LINK_FIELDS.iter().filter_map(|name| Some(((*name).to_owned(), terminal.get(name)?.clone())));
    Value::Object(fields.collect())
}

/// Returns whether a message acts on a terminal.
fn acts_on_terminal(message: &FromTab) -> bool {
    matches!(message, FromTab::Hold { .. } | FromTab::HandBack { .. } | FromTab::Type { .. } | FromTab::Size { .. })
}

/// Waits for a change of the lists.
async fn wait_for_change(lists: Option<&mut watch::Receiver<ListSnapshot>>) -> bool {
    match lists {
        Some(lists) => lists.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

async fn close(mut socket: WebSocket, SocketClose(code, reason): SocketClose) {
    // Ignore the error, because the tab may have closed already.
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
