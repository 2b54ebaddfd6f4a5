//! The lists that the page shows everywhere: terminals, runs that wait at gates, and the newest runs.
//!
//! Looked up once for all tabs, only while a tab is visible, and when the daemon reports that they may have changed.
//! A program in a terminal can begin or stop to wait for input without an event: only the kernel knows it. After a
//! change the daemon therefore looks at the terminals again, less and less often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{
    Change, Client, Events, ListTerminalSessions, ListWorkflowRuns, ReconnectingClient, Watch, WatchTerminals,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// The time between two attempts to reach the daemon.
const RETRY_PAUSE: Duration = Duration::from_millis(700);

/// Minimum time between two looks at the same list.
const INTERVAL: Duration = Duration::from_millis(300);

/// Delays after the last look before the next looks at terminals, in milliseconds. The last one repeats.
const LOOKS_MS: [u64; 6] = [300, 700, 2_000, 5_000, 15_000, 30_000];

/// Time limit of a call about the lists: longer than the daemon waits for a terminal host that does not answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of runs in a list.
const MAX_RUNS: u32 = 100;

/// The lists at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ListSnapshot {
    /// True if the daemon runs; without it, the lists are the last known ones.
    pub(super) is_here: bool,
    pub(super) terminals: Arc<Value>,
    pub(super) waiting: Arc<Value>,
    pub(super) runs: Arc<Value>,
}

/// The lists, looked up while someone listens.
#[derive(Debug)]
pub(super) struct Lists {
    daemon: ReconnectingClient,
    listed: watch::Sender<ListSnapshot>,
    is_looking: AtomicBool,
}

impl Lists {
    pub(super) fn new(daemon: ReconnectingClient) -> Arc<Self> {
        Arc::new(Self { daemon, listed: watch::Sender::default(), is_looking: AtomicBool::new(false) })
    }

    /// Returns whether the daemon runs, now.
    pub(super) async fn is_here(&self) -> bool {
        self.daemon.running().await.is_ok()
    }

    /// Listens to the lists.
    pub(super) fn listen(self: &Arc<Self>) -> watch::Receiver<ListSnapshot> {
        let receiver = self.listed.subscribe();
        if !self.is_looking.swap(true, Ordering::AcqRel) {
            let lists = self.clone();
            tokio::spawn(async move { lists.look().await });
        }
        receiver
    }

    async fn look(&self) {
        loop {
            tokio::select! {
                () = self.follow_daemons() => {}
                () = self.listed.closed() => {}
            }
            self.is_looking.store(false, Ordering::Release);
            // A listener may have come since.
            if self.listed.receiver_count() == 0 || self.is_looking.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Follows one daemon after the other.
    async fn follow_daemons(&self) {
        loop {
            if let Ok(client) = self.daemon.running().await {
                // It ends with the daemon, or with a call that fails.
                self.follow(&client).await;
                if !client.is_closed() {
                    tracing::warn!(
                        "the lists of the page are asked for again: the daemon refused, or answered too late"
                    );
                }
            }
            self.update(|lists| lists.is_here = false);
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Looks at the lists whenever they may have changed, until the daemon ends.
    async fn follow(&self, client: &Client) -> Option<()> {
        let (_, mut runs) = in_time(client.subscribe(Watch {})).await?.ok()?;
        let mut terminals = in_time(Activity::subscribe(client)).await??;
        let (mut looks, mut runs_seen) = (Looks::new(Instant::now()), None);
        let mut runs_due = Some(looks.due);
        loop {
            let due = runs_due.map_or(looks.due, |due: Instant| due.min(looks.due));
            tokio::select! {
                event = runs.next() => {
                    if matches!(serde_json::from_value(event?), Ok(Change::Run { .. })) && runs_due.is_none() {
                        runs_due = Some(runs_seen.map_or_else(Instant::now, |seen: Instant| seen + INTERVAL));
                    }
                }
                changed = terminals.next() => {
                    changed?;
                    looks.changed(Instant::now());
                }
                () = sleep_until(due) => {
                    let now = Instant::now();
                    let mut found = ListSnapshot { is_here: true, ..self.listed.borrow().clone() };
                    if looks.due <= now {
                        found.terminals = to_value(in_time(client.call(ListTerminalSessions {})).await?.ok()?.sessions)?;
                        looks.looked(Instant::now());
                    }
                    if runs_due.is_some_and(|due| due <= now) {
                        runs_due = None;
                        found.waiting = listed_runs(client, Some("waiting")).await?;
                        found.runs = listed_runs(client, None).await?;
                        runs_seen = Some(Instant::now());
                    }
                    self.update(|lists| *lists = found);
                }
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut ListSnapshot)) {
        self.listed.send_if_modified(|lists| {
            let before = lists.clone();
            change(lists);
            *lists != before
        });
    }
}

/// Events about the states of terminals. A daemon of an older version has none.
struct Activity(Option<Events>);

impl Activity {
    async fn subscribe(client: &Client) -> Option<Self> {
        match client.subscribe(WatchTerminals {}).await {
            Ok((_, events)) => Some(Self(Some(events))),
            Err(steplatch_protocol::CallError::Lost) => None,
            Err(_) => Some(Self(None)),
        }
    }

    /// Waits for an event; returns none once the daemon has ended.
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

/// Schedule of the looks at the terminals.
#[derive(Debug)]
struct Looks {
    due: Instant,
    last: Option<Instant>,
    /// The number of looks since the last change.
    number: usize,
}

impl Looks {
    fn new(now: Instant) -> Self {
        Self { due: now, last: None, number: 0 }
    }

    fn changed(&mut self, now: Instant) {
        self.number = 0;
        self.due = self.due.min(self.last.map_or(now, |last| now.max(last + INTERVAL)));
    }

    fn looked(&mut self, now: Instant) {
        let pause = LOOKS_MS.get(self.number).or(LOOKS_MS.last()).copied().unwrap_or_default();
        self.due = now + Duration::from_millis(pause);
        self.last = Some(now);
        self.number += 1;
    }
}

/// Returns the result of a call, unless that takes too long: all tabs wait for the lists.
async fn in_time<T>(call: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(CALL_TIMEOUT, call).await.ok()
}

fn to_value(value: impl serde::Serialize) -> Option<Arc<Value>> {
    serde_json::to_value(value).map(Arc::new).ok()
}

async fn listed_runs(client: &Client, state: Option<&str>) -> Option<Arc<Value>> {
    let request =
        ListWorkflowRuns { state: state.map(ToOwned::to_owned), limit: Some(MAX_RUNS), ..ListWorkflowRuns::default() };
    to_value(in_time(client.call(request)).await?.ok()?.runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_looked_at_when_they_change_and_then_less_and_less_often() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut looks = Looks::new(begin);
        assert_eq!(looks.due, begin);
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            looks.looked(at(now));
            let next = u64::try_from((looks.due - begin).as_millis()).unwrap();
            pauses.push(next - now);
            now = next;
        }
        assert_eq!(pauses, [300, 700, 2_000, 5_000, 15_000, 30_000, 30_000, 30_000]);
        // A change is seen at once, many changes not more often than the least interval.
        let last = now - 30_000;
        looks.changed(at(last + 20_000));
        assert_eq!(looks.due, at(last + 20_000));
        looks.looked(at(last + 20_000));
        looks.changed(at(last + 20_010));
        looks.changed(at(last + 20_020));
        assert_eq!(looks.due, at(last + 20_300));
    }
}
