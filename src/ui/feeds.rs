//! Reports of the daemon to the full screen: the lists, one screen, and the events of one run.
//!
//! Nothing polls: the lists change with what the daemon publishes about runs and terminals. After the end of a daemon
//! they wait for the next one and start none.

use std::time::Duration;

use steplatch_protocol::{
    CallError, Change, Client, ErrorCode, Events, GetApprover, GetWorkflowRun, ListTerminalSessions, ListWorkflowRuns,
    ReconnectingClient, RunEvent, RunRecord, ScreenEvent, Subscribe, Watch, WatchScreen, WatchTerminals,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::event::{FeedSelection, UiEvent};

/// The time between two attempts to reach a daemon that went away.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Minimum time between two changes of the shown screen.
const PICTURE_MS: u64 = 33;

/// Time for gathering changes of terminals before the request for their states …
const GATHER_TIME: Duration = Duration::from_millis(300);

/// … and after which times once more, in milliseconds: that a program waits for input changes without a report.
const LOOKS_MS: [u64; 4] = [500, 1_500, 4_000, 12_000];

/// Error where a daemon does not know a verb.
const OLDER_DAEMON: &str =
    "the daemon is of an older version; restart it, its terminals stay open: steplatch daemon restart";

/// Number of listed runs.
const MAX_RUNS: u32 = 200;

/// A task that ends on drop.
#[derive(Debug)]
struct Feed(AbortHandle);

impl Feed {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The subscriptions of the full screen.
#[derive(Debug)]
pub(crate) struct Feeds {
    daemon: ReconnectingClient,
    sender: mpsc::Sender<UiEvent>,
    wanted: FeedSelection,
    picture: Option<Feed>,
    run: Option<Feed>,
    _lists: Feed,
}

impl Feeds {
    /// Begins with the lists.
    pub(crate) fn begin(daemon: ReconnectingClient, sender: mpsc::Sender<UiEvent>) -> Self {
        let lists = Feed::spawn(lists(daemon.clone(), sender.clone()));
        Self { daemon, sender, wanted: FeedSelection::default(), picture: None, run: None, _lists: lists }
    }

    /// Subscribes to the selected changes, and to nothing else.
    pub(crate) fn want(&mut self, selection: FeedSelection) {
        if selection == self.wanted {
            return;
        }
        if selection.picture != self.wanted.picture {
            self.picture = selection
                .picture
                .clone()
                .map(|terminal| Feed::spawn(picture(self.daemon.clone(), terminal, self.sender.clone())));
        }
        if selection.run != self.wanted.run {
            self.run = selection
                .run
                .clone()
                .map(|(run, opening)| Feed::spawn(run_events(self.daemon.clone(), run, opening, self.sender.clone())));
        }
        self.wanted = selection;
    }
}

/// Reports the lists: all of them after each connection to a daemon, then the changes.
async fn lists(daemon: ReconnectingClient, sender: mpsc::Sender<UiEvent>) {
    loop {
        let ended = match daemon.running().await {
            Ok(client) => lists_of_one(&client, &sender).await.err(),
            Err(_) => None,
        };
        if sender.send(UiEvent::DaemonAway).await.is_err() {
            return;
        }
        if let Some(Ended::NotKnown) = ended {
            // Ignored: the next send notices that the full screen has closed.
            let _ = sender.send(UiEvent::Done(Err(OLDER_DAEMON.to_owned()))).await;
        }
        // A daemon that refuses is there at once, and refuses again.
        tokio::time::sleep(RETRY_PAUSE).await;
        while daemon.running().await.is_err() {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Reason for the end of a feed of one daemon.
enum Ended {
    /// The daemon ended, or the full screen.
    Gone,
    /// The daemon does not know a verb.
    NotKnown,
}

impl From<CallError> for Ended {
    fn from(error: CallError) -> Self {
        if is_not_known(&error) { Self::NotKnown } else { Self::Gone }
    }
}

impl From<mpsc::error::SendError<UiEvent>> for Ended {
    fn from(_: mpsc::error::SendError<UiEvent>) -> Self {
        Self::Gone
    }
}

/// Returns whether the daemon is of an older version, without this verb.
fn is_not_known(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refusal) if refusal.code == ErrorCode::UnknownCommand)
}

async fn lists_of_one(client: &Client, sender: &mpsc::Sender<UiEvent>) -> Result<(), Ended> {
    // Subscribed before the first look, so that it misses nothing in between.
    let (_, mut changes) = client.subscribe(Watch {}).await?;
    let mut stirs = match client.subscribe(WatchTerminals {}).await {
        Ok((_, events)) => Some(events),
        Err(CallError::Lost) => return Err(Ended::Gone),
        // A daemon of an older version does not report them, so the loop looks now and then.
        Err(_) => None,
    };
    let newest = ListWorkflowRuns { limit: Some(MAX_RUNS), ..ListWorkflowRuns::default() };
    let mut runs: Vec<RunRecord> = client.call(newest.clone()).await?.runs;
    for state in ["waiting", "running"] {
        let older = ListWorkflowRuns { state: Some(state.to_owned()), limit: Some(1000), ..newest.clone() };
        let older = client.call(older).await?.runs;
        runs.extend(
            older.into_iter().filter(|run| !runs.iter().any(|known| known.run_id == run.run_id)).collect::<Vec<_>>(),
        );
    }
    let terminals = client.call(ListTerminalSessions {}).await?.sessions;
    let needs_passphrase = client.call(GetApprover {}).await?.is_set;
    sender.send(UiEvent::Lists { terminals, runs, needs_passphrase }).await?;
    // Time of the next request for the states of terminals, and number of them since the last change.
    let (mut look_at, mut looks) = (Some(Instant::now() + Duration::from_millis(LOOKS_MS[0])), 0);
    loop {
        tokio::select! {
            change = changes.next() => match change.map(serde_json::from_value::<Change>) {
                Some(Ok(Change::Run { run_id })) => {
                    let reply = client.call(GetWorkflowRun { run_id: run_id.clone() }).await?;
                    let event = reply.run.map_or(UiEvent::RunGone(run_id), |run| UiEvent::Run(Box::new(run)));
                    sender.send(event).await?;
                }
                // Ignores other changes, and unknown ones of a newer daemon.
                Some(Ok(Change::Tools) | Err(_)) => {}
                None => return Ok(()),
            },
            stirred = next_of(stirs.as_mut()) => {
                if stirred.is_none() {
                    return Ok(());
                }
                let soon = Instant::now() + GATHER_TIME;
                // A terminal that prints without end does not put the look off.
                look_at = Some(look_at.map_or(soon, |at| at.min(soon)));
                looks = 0;
            }
            () = tokio::time::sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => {
                let unreported = LOOKS_MS.last().filter(|_| stirs.is_none());
                let next = LOOKS_MS.get(looks).or(unreported).map(|pause| Instant::now() + Duration::from_millis(*pause));
                (look_at, looks) = (next, looks + 1);
                let terminals = client.call(ListTerminalSessions {}).await?.sessions;
                sender.send(UiEvent::Terminals(terminals)).await?;
            }
        }
    }
}

async fn next_of(events: Option<&mut Events>) -> Option<serde_json::Value> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Reports the screen of a terminal, until its end.
async fn picture(daemon: ReconnectingClient, terminal: String, sender: mpsc::Sender<UiEvent>) {
    loop {
        let verb = WatchScreen { session_id: terminal.clone(), interval_ms: PICTURE_MS };
        let subscribed = async { Some(daemon.running().await.ok()?.subscribe(verb).await) };
        let (reply, mut events) = match subscribed.await {
            Some(Ok(subscribed)) => subscribed,
            Some(Err(error)) if is_not_known(&error) => {
                let _ = sender.send(UiEvent::Done(Err(format!("no screen is shown: {OLDER_DAEMON}")))).await;
                return;
            }
            Some(Err(_)) | None => {
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        if !reply.success {
            let _ = sender.send(UiEvent::ScreenGone(terminal)).await;
            return;
        }
        while let Some(event) = events.next().await {
            let event = match serde_json::from_value(event) {
                Ok(ScreenEvent::ScreenChanged(change)) => UiEvent::Screen { terminal: terminal.clone(), change },
                Ok(ScreenEvent::ScreenClosed) => {
                    let _ = sender.send(UiEvent::ScreenGone(terminal)).await;
                    return;
                }
                Err(_) => continue,
            };
            if sender.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// Reports the events of a run from its first one, each once, over as many daemons as it takes.
async fn run_events(daemon: ReconnectingClient, run_id: String, opening: u64, sender: mpsc::Sender<UiEvent>) {
    let mut from = 1;
    loop {
        let verb = Subscribe { run_id: run_id.clone(), from_seq: Some(from), at_most: None };
        let subscribed = async { daemon.running().await.ok()?.subscribe(verb).await.ok() };
        let Some((reply, mut events)) = subscribed.await else {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        if let Some(error) = reply.error {
            let _ = sender.send(UiEvent::Done(Err(error))).await;
            return;
        }
        while let Some(event) = events.next().await.map(serde_json::from_value::<RunEvent>) {
            let Ok(event) = event else { continue };
            from = event.seq + 1;
            let is_last = event.is_last();
            if sender.send(UiEvent::RunEvent { opening, event: Box::new(event) }).await.is_err() || is_last {
                return;
            }
        }
    }
}
