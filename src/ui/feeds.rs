//! Subscriptions of the full screen to the daemon: the lists, one screen, and the events of one run.
//!
//! The lists follow the changes that the daemon publishes about runs and terminals. After the end of a daemon, the
//! feeds wait for the next one without starting it.

use std::time::Duration;

use steplatch_protocol::{
    CallError, Change, Client, ErrorCode, Events, GetApprover, GetWorkflowRun, ListTerminalSessions, ListWorkflowRuns,
    ReconnectingClient, RunEvent, RunRecord, ScreenEvent, Subscribe, Watch, WatchScreen, WatchTerminals,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::event::{FeedSelection, UiEvent};

/// Pause between two attempts to reach a daemon after losing the connection.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Minimum time between two changes of the shown screen.
const PICTURE_INTERVAL_MS: u64 = 33;

/// Collection time of terminals' changes before the request for their states.
const COLLECT_INTERVAL: Duration = Duration::from_millis(300);

/// Pauses before further requests for the states of terminals, because the daemon does not report when a terminal
/// begins to wait for input.
const STATE_REQUEST_PAUSES_MS: [u64; 4] = [500, 1_500, 4_000, 12_000];

/// Error text if the daemon does not know a verb.
const OLDER_DAEMON: &str =
    "the daemon is of an older version; restart it, its terminals stay open: steplatch daemon restart";

/// Maximum number of listed runs, in addition to the runs in progress.
const MAX_RUNS: u32 = 200;

/// Task that is aborted on drop.
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
    selection: FeedSelection,
    picture: Option<Feed>,
    run: Option<Feed>,
    _lists: Feed,
}

impl Feeds {
    /// Subscribes to the lists.
    pub(crate) fn begin(daemon: ReconnectingClient, sender: mpsc::Sender<UiEvent>) -> Self {
        let lists = Feed::spawn(watch_lists(daemon.clone(), sender.clone()));
        Self { daemon, sender, selection: FeedSelection::default(), picture: None, run: None, _lists: lists }
    }

    /// Subscribes to the selected terminal and run and ends other subscriptions.
    pub(crate) fn select(&mut self, selection: FeedSelection) {
        if selection == self.selection {
            return;
        }
        if selection.picture != self.selection.picture {
            self.picture = selection
                .picture
                .clone()
                .map(|terminal| Feed::spawn(watch_picture(self.daemon.clone(), terminal, self.sender.clone())));
        }
        if selection.run != self.selection.run {
            self.run = selection
                .run
                .clone()
                .map(|(run, opening)| Feed::spawn(watch_run(self.daemon.clone(), run, opening, self.sender.clone())));
        }
        self.selection = selection;
    }
}

/// Sends all lists after each connection to a daemon, and then the changes.
async fn watch_lists(daemon: ReconnectingClient, sender: mpsc::Sender<UiEvent>) {
    loop {
        let end = match daemon.running().await {
            Ok(client) => watch_lists_of_daemon(&client, &sender).await.err(),
            Err(_) => None,
        };
        if sender.send(UiEvent::DaemonAway).await.is_err() {
            return;
        }
        if let Some(FeedEnd::UnknownVerb) = end {
            // Ignore a failure, because the next send detects that the full screen has closed.
            let _ = sender.send(UiEvent::Done(Err(OLDER_DAEMON.to_owned()))).await;
        }
        // Pause first, because an older daemon would immediately refuse again.
        tokio::time::sleep(RETRY_PAUSE).await;
        while daemon.running().await.is_err() {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Reason that a feed of one daemon ended.
enum FeedEnd {
    /// The daemon has ended, or the full screen has closed.
    Closed,
    /// The daemon does not know a verb.
    UnknownVerb,
}

impl From<CallError> for FeedEnd {
    fn from(error: CallError) -> Self {
        if is_unknown_verb(&error) { Self::UnknownVerb } else { Self::Closed }
    }
}

impl From<mpsc::error::SendError<UiEvent>> for FeedEnd {
    fn from(_: mpsc::error::SendError<UiEvent>) -> Self {
        Self::Closed
    }
}

/// Returns whether the daemon has an older version without the verb.
fn is_unknown_verb(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refusal) if refusal.code == ErrorCode::UnknownCommand)
}

async fn watch_lists_of_daemon(client: &Client, sender: &mpsc::Sender<UiEvent>) -> Result<(), FeedEnd> {
    // Subscribe before the first request, so that no change in the meantime is missed.
    let (_, mut changes) = client.subscribe(Watch {}).await?;
    let mut terminal_changes = match client.subscribe(WatchTerminals {}).await {
        Ok((_, events)) => Some(events),
        Err(CallError::Lost) => return Err(FeedEnd::Closed),
        // An older daemon does not report changes of terminals, so the loop requests their states regularly.
        Err(_) => None,
    };
    let newest = ListWorkflowRuns { limit: Some(MAX_RUNS), ..ListWorkflowRuns::default() };
    let mut runs: Vec<RunRecord> = client.call(newest.clone()).await?.runs;
    for state in ["waiting", "running"] {
        let in_progress = ListWorkflowRuns { state: Some(state.to_owned()), limit: Some(1000), ..newest.clone() };
        let in_progress = client.call(in_progress).await?.runs;
        runs.extend(
            in_progress
                .into_iter()
                .filter(|run| !runs.iter().any(|listed| listed.run_id == run.run_id))
                .collect::<Vec<_>>(),
        );
    }
    let terminals = client.call(ListTerminalSessions {}).await?.sessions;
    let needs_passphrase = client.call(GetApprover {}).await?.is_set;
    sender.send(UiEvent::Lists { terminals, runs, needs_passphrase }).await?;
    // Time of the next request for the states of terminals, and the number of requests since the last change.
    let (mut request_at, mut requests) = (Some(Instant::now() + Duration::from_millis(STATE_REQUEST_PAUSES_MS[0])), 0);
    loop {
        tokio::select! {
            change = changes.next() => match change.map(serde_json::from_value::<Change>) {
                Some(Ok(Change::Run { run_id })) => {
                    let reply = client.call(GetWorkflowRun { run_id: run_id.clone() }).await?;
                    let event = reply.run.map_or(UiEvent::RunRemoved(run_id), |run| UiEvent::Run(Box::new(run)));
                    sender.send(event).await?;
                }
                // Ignore other changes, and unknown changes of a newer daemon.
                Some(Ok(Change::Tools) | Err(_)) => {}
                None => return Ok(()),
            },
            terminal_change = next_event(terminal_changes.as_mut()) => {
                if terminal_change.is_none() {
                    return Ok(());
                }
                let collected_at = Instant::now() + COLLECT_INTERVAL;
                // Keep an earlier time, so that a terminal that prints continuously does not delay the request.
                request_at = Some(request_at.map_or(collected_at, |request_at| request_at.min(collected_at)));
                requests = 0;
            }
            () = tokio::time::sleep_until(request_at.unwrap_or_else(Instant::now)), if request_at.is_some() => {
                let repeated_pause = STATE_REQUEST_PAUSES_MS.last().filter(|_| terminal_changes.is_none());
                let next = STATE_REQUEST_PAUSES_MS.get(requests).or(repeated_pause).map(|pause| Instant::now() + Duration::from_millis(*pause));
                (request_at, requests) = (next, requests + 1);
                let terminals = client.call(ListTerminalSessions {}).await?.sessions;
                sender.send(UiEvent::Terminals(terminals)).await?;
            }
        }
    }
}

async fn next_event(events: Option<&mut Events>) -> Option<serde_json::Value> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Sends the changes of a terminal's screen until the terminal closes.
async fn watch_picture(daemon: ReconnectingClient, terminal: String, sender: mpsc::Sender<UiEvent>) {
    loop {
        let verb = WatchScreen { session_id: terminal.clone(), interval_ms: PICTURE_INTERVAL_MS };
        let subscription = async { Some(daemon.running().await.ok()?.subscribe(verb).await) };
        let (reply, mut events) = match subscription.await {
            Some(Ok(subscription)) => subscription,
            Some(Err(error)) if is_unknown_verb(&error) => {
                let _ = sender.send(UiEvent::Done(Err(format!("no screen is shown: {OLDER_DAEMON}")))).await;
                return;
            }
            Some(Err(_)) | None => {
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        if !reply.success {
            let _ = sender.send(UiEvent::ScreenClosed(terminal)).await;
            return;
        }
        while let Some(event) = events.next().await {
            let event = match serde_json::from_value(event) {
                Ok(ScreenEvent::ScreenChanged(change)) => UiEvent::Screen { terminal: terminal.clone(), change },
                Ok(ScreenEvent::ScreenClosed) => {
                    let _ = sender.send(UiEvent::ScreenClosed(terminal)).await;
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

/// Sends the events of a run from the first one, each once, across restarts of the daemon.
async fn watch_run(daemon: ReconnectingClient, run_id: String, opening: u64, sender: mpsc::Sender<UiEvent>) {
    let mut next_seq = 1;
    loop {
        let verb = Subscribe { run_id: run_id.clone(), from_seq: Some(next_seq), at_most: None };
        let subscription = async { daemon.running().await.ok()?.subscribe(verb).await.ok() };
        let Some((reply, mut events)) = subscription.await else {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        if let Some(error) = reply.error {
            let _ = sender.send(UiEvent::Done(Err(error))).await;
            return;
        }
        while let Some(event) = events.next().await.map(serde_json::from_value::<RunEvent>) {
            let Ok(event) = event else { continue };
            next_seq = event.seq + 1;
            let is_last = event.is_last();
            if sender.send(UiEvent::RunEvent { opening, event: Box::new(event) }).await.is_err() || is_last {
                return;
            }
        }
    }
}
