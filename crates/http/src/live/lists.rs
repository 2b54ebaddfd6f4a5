//! The lists that the page shows everywhere: terminals, runs that wait at gates, and the newest runs.
//!
//! The lists are requested once for all tabs, only while a tab is visible, when the daemon reports a possible change. A
//! program in a terminal can begin or stop waiting for input without an event. After a change, the list of terminals is
//! therefore requested again, at increasing intervals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{
    Change, Client, Events, ListTerminalSessions, ListWorkflowRuns, ReconnectingClient, Watch, WatchTerminals,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause between two attempts to reach the daemon.
const RETRY_PAUSE: Duration = Duration::from_millis(700);

/// Minimum time between two requests of the same list.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(300);

/// Delays between requests of the list of terminals after a change, in milliseconds. The last one repeats.
const TERMINAL_DELAYS_MS: [u64; 6] = [300, 700, 2_000, 5_000, 15_000, 30_000];

/// Time limit of a call for the lists: longer than the daemon waits for a terminal host that does not respond.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of runs in a list.
const MAX_RUNS: u32 = 100;

/// The lists at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ListSnapshot {
    /// True if the daemon is running; otherwise, the lists show the last known state.
    pub(super) daemon_is_running: bool,
    pub(super) terminals: Arc<Value>,
    pub(super) waiting: Arc<Value>,
    pub(super) runs: Arc<Value>,
}

/// The lists, requested while there are subscribers.
#[derive(Debug)]
pub(super) struct Lists {
    daemon: ReconnectingClient,
    snapshot: watch::Sender<ListSnapshot>,
    is_updating: AtomicBool,
}

impl Lists {
    pub(super) fn new(daemon: ReconnectingClient) -> Arc<Self> {
        Arc::new(Self { daemon, snapshot: watch::Sender::default(), is_updating: AtomicBool::new(false) })
    }

    /// Returns whether the daemon is running.
    pub(super) async fn is_daemon_running(&self) -> bool {
        self.daemon.running().await.is_ok()
    }

    /// Subscribes to the lists.
    pub(super) fn subscribe(self: &Arc<Self>) -> watch::Receiver<ListSnapshot> {
        let receiver = self.snapshot.subscribe();
        if !self.is_updating.swap(true, Ordering::AcqRel) {
            let lists = self.clone();
            tokio::spawn(async move { lists.keep_updated().await });
        }
        receiver
    }

    /// Updates the lists until there is no subscriber.
    async fn keep_updated(&self) {
        loop {
            tokio::select! {
                () = self.follow_daemons() => {}
                () = self.snapshot.closed() => {}
            }
            self.is_updating.store(false, Ordering::Release);
            // A subscriber may have arrived in the meantime.
            if self.snapshot.receiver_count() == 0 || self.is_updating.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Follows the current daemon and its successors.
    async fn follow_daemons(&self) {
        loop {
            if let Ok(client) = self.daemon.running().await {
                // Returns when the daemon exits or a call fails.
                self.follow(&client).await;
                if !client.is_closed() {
                    tracing::warn!("failed to request the lists of the page; retrying");
                }
            }
            self.update(|lists| lists.daemon_is_running = false);
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Requests the lists when they may have changed, until the daemon exits.
    async fn follow(&self, client: &Client) -> Option<()> {
        let (_, mut runs) = with_timeout(client.subscribe(Watch {})).await?.ok()?;
        let mut terminals = with_timeout(TerminalEvents::subscribe(client)).await??;
        let (mut schedule, mut runs_requested_at) = (TerminalSchedule::new(Instant::now()), None);
        let mut runs_due = Some(schedule.due);
        loop {
            let due = runs_due.map_or(schedule.due, |due: Instant| due.min(schedule.due));
            tokio::select! {
                event = runs.next() => {
                    if matches!(serde_json::from_value(event?), Ok(Change::Run { .. })) && runs_due.is_none() {
                        let next = |requested: Instant| requested + MIN_REQUEST_INTERVAL;
                        runs_due = Some(runs_requested_at.map_or_else(Instant::now, next));
                    }
                }
                changed = terminals.next() => {
                    changed?;
                    schedule.record_change(Instant::now());
                }
                () = sleep_until(due) => {
                    let now = Instant::now();
                    let mut snapshot = ListSnapshot { daemon_is_running: true, ..self.snapshot.borrow().clone() };
                    if schedule.due <= now {
                        let reply = with_timeout(client.call(ListTerminalSessions {})).await?.ok()?;
                        snapshot.terminals = to_value(reply.sessions)?;
                        schedule.record_request(Instant::now());
                    }
                    if runs_due.is_some_and(|due| due <= now) {
                        runs_due = None;
                        snapshot.waiting = list_runs(client, Some("waiting")).await?;
                        snapshot.runs = list_runs(client, None).await?;
                        runs_requested_at = Some(Instant::now());
                    }
                    self.update(|lists| *lists = snapshot);
                }
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut ListSnapshot)) {
        self.snapshot.send_if_modified(|lists| {
            let previous = lists.clone();
            change(lists);
            *lists != previous
        });
    }
}

/// Events about the states of terminals. An older daemon sends none.
struct TerminalEvents(Option<Events>);

impl TerminalEvents {
    async fn subscribe(client: &Client) -> Option<Self> {
        match client.subscribe(WatchTerminals {}).await {
            Ok((_, events)) => Some(Self(Some(events))),
            Err(steplatch_protocol::CallError::Lost) => None,
            Err(_) => Some(Self(None)),
        }
    }

    /// Waits for an event. Returns `None` once the daemon has exited.
    async fn next(&mut self) -> Option<()> {
        match &mut self.0 {
            Some(events) => events.next().await.map(drop),
            None => {
                sleep(RETRY_PAUSE).await;
                Some(())
            }
        }
    }
}

/// Schedule of the requests for the list of terminals.
#[derive(Debug)]
struct TerminalSchedule {
    due: Instant,
    last_request: Option<Instant>,
    /// Number of requests since the last change.
    request_count: usize,
}

impl TerminalSchedule {
    fn new(now: Instant) -> Self {
        Self { due: now, last_request: None, request_count: 0 }
    }

    fn record_change(&mut self, now: Instant) {
        self.request_count = 0;
        self.due = self.due.min(self.last_request.map_or(now, |last| now.max(last + MIN_REQUEST_INTERVAL)));
    }

    fn record_request(&mut self, now: Instant) {
        let delay =
            TERMINAL_DELAYS_MS.get(self.request_count).or(TERMINAL_DELAYS_MS.last()).copied().unwrap_or_default();
        self.due = now + Duration::from_millis(delay);
        self.last_request = Some(now);
        self.request_count += 1;
    }
}

/// Returns the result of a call, or `None` after [`CALL_TIMEOUT`]: all tabs wait for the lists.
async fn with_timeout<T>(call: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(CALL_TIMEOUT, call).await.ok()
}

fn to_value(value: impl serde::Serialize) -> Option<Arc<Value>> {
    serde_json::to_value(value).map(Arc::new).ok()
}

async fn list_runs(client: &Client, state: Option<&str>) -> Option<Arc<Value>> {
    let request =
        ListWorkflowRuns { state: state.map(ToOwned::to_owned), limit: Some(MAX_RUNS), ..ListWorkflowRuns::default() };
    to_value(with_timeout(client.call(request)).await?.ok()?.runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_requested_after_changes_at_growing_intervals() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut schedule = TerminalSchedule::new(begin);
        assert_eq!(schedule.due, begin);
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            schedule.record_request(at(now));
            let next = u64::try_from((schedule.due - begin).as_millis()).unwrap();
            pauses.push(next - now);
            now = next;
        }
        assert_eq!(pauses, [300, 700, 2_000, 5_000, 15_000, 30_000, 30_000, 30_000]);
        // A change is requested immediately, many changes at most once per minimum interval.
        let last = now - 30_000;
        schedule.record_change(at(last + 20_000));
        assert_eq!(schedule.due, at(last + 20_000));
        schedule.record_request(at(last + 20_000));
        schedule.record_change(at(last + 20_010));
        schedule.record_change(at(last + 20_020));
        assert_eq!(schedule.due, at(last + 20_300));
    }
}
