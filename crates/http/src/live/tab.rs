//! One tab: its socket, and the state that belongs to it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use steplatch_protocol::{CheckPageSession, PageSecret, Peer, ReconnectingClient, ResizeTerminal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::feeds::{News, THUMB_INTERVAL, Viewer};
use super::input::{TabInput, type_all};
use super::lists::ListSnapshot;
use super::message::{FromTab, Rate, ToTab};
use super::runs::{Followed, follow};
use crate::app::App;
use crate::page::{self, login};

/// The time limit for the first message.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// Time between two pings, which also check the session.
const PING_TIME: Duration = Duration::from_secs(20);

/// Maximum age of the session's check when a tab acts on a terminal.
const CHECK_TIME: Duration = Duration::from_secs(1);

/// Time that a tab may be silent: it answers pings.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of unacknowledged frames of one screen.
const MAX_UNACKNOWLEDGED_FRAMES: usize = 2;

/// Maximum number of terminals that a tab watches.
const MAX_WATCHED: usize = 256;

/// Maximum number of runs that a tab follows.
const MAX_FOLLOWED: usize = 32;

/// Maximum number of waiting inputs.
const MAX_INPUTS: usize = 1024;

/// Delay of the acknowledgement of a typed input: the frame with its echo goes out first, and both wake the browser.
/// Only after a lost connection does the tab need the acknowledgement.
const ACKNOWLEDGED_AFTER: Duration = Duration::from_millis(25);

/// Codes for closing a socket: the session has ended; the messages are not those of the page; the server ends.
const LOGGED_OUT: u16 = 4401;
const MISREAD: u16 = 4400;
const GOING_AWAY: u16 = 1001;

/// A tab with a session.
pub(super) struct Tab {
    app: Arc<App>,
    socket: WebSocket,
    session: CheckPageSession,
    /// The way to the daemon as the person at the browser.
    person: ReconnectingClient,
    /// Woken by news of screens.
    wake: Arc<Notify>,
    watched: HashMap<String, Watched>,
    /// Holds, by their keys, with the number of the taking.
    held: HashMap<String, u64>,
    followed: HashMap<String, Followed>,
    inputs: mpsc::Sender<TabInput>,
    replies: mpsc::Sender<ToTab>,
    /// Acknowledgements of typed inputs, and the time to send them.
    typed: (Vec<ToTab>, Option<Instant>),
    is_visible: bool,
    lists: Option<watch::Receiver<ListSnapshot>>,
    wants_lists: bool,
    daemon_is_here: bool,
    /// Time of the session's last check.
    checked: Instant,
}

/// A screen that a tab watches.
struct Watched {
    rate: Rate,
    /// None while the tab is hidden: the daemon sends no screen that only hidden tabs watch.
    viewer: Option<Viewer>,
    /// The version of the last frame.
    since: u64,
    /// Versions of unacknowledged frames.
    flying: VecDeque<u64>,
    sent: Option<Instant>,
    is_gone: bool,
}

impl Watched {
    fn new(viewer: Option<Viewer>, rate: Rate) -> Self {
        Self { rate, viewer, since: 0, flying: VecDeque::new(), sent: None, is_gone: false }
    }
}

/// Reason for closing a tab's socket.
struct Closing(u16, &'static str);

impl Tab {
    /// Serves a tab until it closes.
    pub(super) async fn serve(app: Arc<App>, mut socket: WebSocket, cookies: Vec<PageSecret>, peer: Peer) {
        let first = timeout(HELLO_TIME, socket.recv()).await;
        let Ok(Some(Ok(Message::Text(first)))) = first else { return };
        let Ok(FromTab::Hello { half }) = serde_json::from_str(&first) else {
            return close(socket, Closing(MISREAD, "the first message is no hello")).await;
        };
        let pairs = cookies.into_iter().map(|cookie| CheckPageSession { cookie, half: half.clone() });
        let session = match login::find_session(&app, pairs.collect()).await {
            Ok(Ok(session)) => session,
            Ok(Err(_)) => return close(socket, Closing(LOGGED_OUT, "the session has ended")).await,
            Err(_) => return close(socket, Closing(GOING_AWAY, "the daemon does not answer")).await,
        };
        let person = app.daemon.for_person("page", Some(peer));
        let (inputs, typing) = mpsc::channel(MAX_INPUTS);
        let (replies, mut answers) = mpsc::channel(64);
        let typing = tokio::spawn(type_all(person.clone(), typing, replies.clone()));
        let daemon_is_here = app.live.lists.is_here().await;
        let mut tab = Self {
            app,
            socket,
            session,
            person,
            wake: Arc::default(),
            watched: HashMap::new(),
            held: HashMap::new(),
            followed: HashMap::new(),
            inputs,
            replies,
            typed: (Vec::new(), None),
            is_visible: true,
            lists: None,
            wants_lists: false,
            daemon_is_here,
            checked: Instant::now(),
        };
        let ended = tab.talk(&mut answers).await;
        typing.abort();
        for (key, taken) in tab.held.drain() {
            tab.app.live.holds.leave(key, taken);
        }
        if let Err(closing) = ended {
            close(tab.socket, closing).await;
        }
    }

    async fn talk(&mut self, answers: &mut mpsc::Receiver<ToTab>) -> Result<(), Closing> {
        let hello = ToTab::Hello { build: page::build(), daemon: self.daemon_is_here };
        if !self.send(&hello).await {
            return Ok(());
        }
        let mut ping = interval(PING_TIME);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ping.tick().await;
        let (ended, wake) = (self.app.ended.clone(), self.wake.clone());
        let mut heard = Instant::now();
        loop {
            let (frame, acknowledgement) = (self.send_frames().await, self.typed.1);
            let due = frame.into_iter().chain(acknowledgement).min();
            tokio::select! {
                message = self.socket.recv() => {
                    heard = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                            Ok(message) => {
                                if acts(&message)
                                    && self.checked.elapsed() > CHECK_TIME
                                    && !self.is_logged_in().await
                                {
                                    return Err(Closing(LOGGED_OUT, "the session has ended"));
                                }
                                self.take(message).await;
                            }
                            Err(error) => {
                                tracing::debug!(%error, "a message of a tab cannot be read");
                                return Err(Closing(MISREAD, "a message cannot be read"));
                            }
                        },
                        Some(Ok(Message::Binary(_))) => return Err(Closing(MISREAD, "a message is no text")),
                        Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                    }
                }
                () = wake.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    if acknowledgement.is_some_and(|at| Instant::now() >= at) && !self.acknowledge().await {
                        return Ok(());
                    }
                }
                Some(answer) = answers.recv() => match answer {
                    ToTab::Typed { error: None, .. } => {
                        self.typed.0.push(answer);
                        self.typed.1.get_or_insert_with(|| Instant::now() + ACKNOWLEDGED_AFTER);
                    }
                    answer => {
                        // An input that failed comes after those before it.
                        if !self.acknowledge().await || !self.send(&answer).await {
                            return Ok(());
                        }
                    }
                },
                true = changed(self.lists.as_mut()) => self.send_lists().await,
                _ = ping.tick() => {
                    if heard.elapsed() > SILENCE || self.socket.send(Message::Ping(Vec::new().into())).await.is_err() {
                        return Ok(());
                    }
                    if !self.is_logged_in().await {
                        return Err(Closing(LOGGED_OUT, "the session has ended"));
                    }
                }
                () = ended.cancelled() => return Err(Closing(GOING_AWAY, "the server ends")),
            }
        }
    }

    /// Sends a message. Returns whether the tab is still there.
    async fn send(&mut self, message: &ToTab) -> bool {
        self.send_text(message.to_text().into()).await
    }

    async fn send_text(&mut self, text: Utf8Bytes) -> bool {
        self.socket.send(Message::Text(text)).await.is_ok()
    }

    /// Sends the acknowledgements held back so far. Returns whether the tab is still there.
    async fn acknowledge(&mut self) -> bool {
        let (typed, _) = std::mem::take(&mut self.typed);
        for answer in typed {
            if !self.send(&answer).await {
                return false;
            }
        }
        true
    }

    /// Returns whether the session continues. Does not start an absent daemon for this.
    async fn is_logged_in(&mut self) -> bool {
        self.checked = Instant::now();
        match self.app.daemon.running().await {
            Ok(client) => match client.call(self.session.clone()).await {
                Ok(checked) => checked.success,
                // The daemon has just ended; the request goes to the next one.
                Err(_) => true,
            },
            Err(_) => true,
        }
    }

    /// Sends every frame that is due. Returns when the next one is.
    async fn send_frames(&mut self) -> Option<Instant> {
        let (now, mut frames, mut next) = (Instant::now(), Vec::new(), None::<Instant>);
        for (terminal, watched) in &mut self.watched {
            if watched.is_gone || watched.flying.len() >= MAX_UNACKNOWLEDGED_FRAMES {
                continue;
            }
            let Some(viewer) = &watched.viewer else { continue };
            let due = match (watched.rate, watched.sent) {
                (Rate::Thumb, Some(sent)) => sent + THUMB_INTERVAL,
                _ => now,
            };
            match viewer.news(watched.since) {
                News::None => {}
                News::Gone(error) => {
                    watched.is_gone = true;
                    frames.push(ToTab::Gone { terminal: terminal.clone(), error }.to_text().into());
                }
                News::Frame(..) if due > now => next = Some(next.map_or(due, |next| next.min(due))),
                News::Frame(version, frame) => {
                    watched.since = version;
                    watched.flying.push_back(version);
                    watched.sent = Some(now);
                    frames.push(frame);
                }
            }
        }
        for frame in frames {
            // The reader of its messages notices a closed tab.
            self.send_text(frame).await;
        }
        next
    }

    async fn send_lists(&mut self) {
        let Some(lists) = &mut self.lists else { return };
        let ListSnapshot { is_here, terminals, waiting, runs } = lists.borrow_and_update().clone();
        if is_here != self.daemon_is_here {
            self.daemon_is_here = is_here;
            self.send(&ToTab::Daemon { here: is_here }).await;
        }
        if is_here {
            let lists =
                ToTab::Lists { terminals: (*terminals).clone(), waiting: (*waiting).clone(), runs: (*runs).clone() };
            self.send(&lists).await;
        }
    }

    /// Looks at the screens while the tab is visible. A tab that reappears begins with the whole screens.
    fn look(&mut self) {
        for (terminal, watched) in self.watched.iter_mut().filter(|(_, watched)| !watched.is_gone) {
            match (self.is_visible, &watched.viewer) {
                (true, None) => {
                    let viewer = self.app.live.feeds.watch(terminal, watched.rate, &self.wake);
                    *watched = Watched::new(Some(viewer), watched.rate);
                }
                (false, Some(_)) => watched.viewer = None,
                _ => {}
            }
        }
    }

    /// Listens to the lists while the tab wants them and is visible.
    fn listen(&mut self) {
        match (self.wants_lists && self.is_visible, &self.lists) {
            (true, None) => {
                let mut lists = self.app.live.lists.listen();
                // Without a first look, this does not know whether the daemon runs.
                if *lists.borrow() != ListSnapshot::default() {
                    lists.mark_changed();
                }
                self.lists = Some(lists);
            }
            (false, Some(_)) => self.lists = None,
            _ => {}
        }
    }

    async fn take(&mut self, message: FromTab) {
        let is_full = self.watched.len() >= MAX_WATCHED;
        match message {
            // A second one changes nothing.
            FromTab::Hello { .. } => {}
            FromTab::Watch { terminal, rate } => match self.watched.get_mut(&terminal) {
                Some(watched) => {
                    watched.rate = rate;
                    if let Some(viewer) = &mut watched.viewer {
                        viewer.set_rate(rate);
                    }
                }
                None if is_full => {
                    let error = Some(format!("a tab watches at most {MAX_WATCHED} terminals"));
                    self.send(&ToTab::Gone { terminal, error }).await;
                }
                None => {
                    let viewer = self.is_visible.then(|| self.app.live.feeds.watch(&terminal, rate, &self.wake));
                    self.watched.insert(terminal, Watched::new(viewer, rate));
                }
            },
            FromTab::Leave { terminal } => drop(self.watched.remove(&terminal)),
            FromTab::Ack { terminal, version } => {
                if let Some(watched) = self.watched.get_mut(&terminal) {
                    watched.flying.retain(|flying| *flying > version);
                }
            }
            FromTab::Visible { visible } => {
                self.is_visible = visible;
                self.look();
                self.listen();
            }
            FromTab::Lists => {
                self.wants_lists = true;
                self.listen();
            }
            FromTab::Follow { run, from } => {
                if self.followed.len() < MAX_FOLLOWED || self.followed.contains_key(&run) {
                    let followed = follow(self.app.daemon.clone(), run.clone(), from, self.replies.clone());
                    self.followed.insert(run, followed);
                } else {
                    let error = Some(format!("a tab follows at most {MAX_FOLLOWED} runs"));
                    self.send(&ToTab::Unfollowed { run, error }).await;
                }
            }
            FromTab::Unfollow { run } => drop(self.followed.remove(&run)),
            FromTab::Hold { terminal, key } => {
                let taken = self.app.live.holds.take(&self.person, &terminal, &key).await;
                let error = match taken {
                    Ok(taken) => {
                        self.held.insert(key, taken);
                        None
                    }
                    Err(error) => Some(error),
                };
                self.send(&ToTab::Held { terminal, success: error.is_none(), error }).await;
            }
            FromTab::HandBack { terminal, key, note } => {
                let error = self.app.live.holds.hand_back(&self.person, &terminal, &key, note).await.err();
                self.held.remove(&key);
                self.send(&ToTab::HandedBack { terminal, error }).await;
            }
            FromTab::Type { terminal, key, n, input } => {
                if let Some(viewer) = self.watched.get(&terminal).and_then(|watched| watched.viewer.as_ref()) {
                    viewer.put_first();
                }
                let input = TabInput { terminal, key, n, input };
                if let Err(mpsc::error::TrySendError::Full(input)) = self.inputs.try_send(input) {
                    let error = Some("too much input waits".to_owned());
                    let TabInput { terminal, n, .. } = input;
                    self.send(&ToTab::Typed { terminal, n, error }).await;
                }
            }
            FromTab::Size { terminal, cols, rows } => {
                let Ok(client) = self.person.running().await else { return };
                let resized = client.call(ResizeTerminal { session_id: terminal.clone(), cols, rows }).await;
                if let Ok(Some(error)) = resized.map(|reply| reply.error) {
                    tracing::debug!(%error, terminal, "a terminal keeps its size");
                }
            }
        }
    }
}

/// Returns whether a message does something to a terminal.
fn acts(message: &FromTab) -> bool {
    matches!(message, FromTab::Hold { .. } | FromTab::HandBack { .. } | FromTab::Type { .. } | FromTab::Size { .. })
}

/// Waits for a change of the lists.
async fn changed(lists: Option<&mut watch::Receiver<ListSnapshot>>) -> bool {
    match lists {
        Some(lists) => lists.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

async fn close(mut socket: WebSocket, Closing(code, reason): Closing) {
    // The tab may have closed already.
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}
