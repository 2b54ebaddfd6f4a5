//! The lists that the page shows everywhere: terminals, runs that wait at gates, and the newest runs.
//!
//! Looked up once for all tabs, and only while a tab is shown. The states of terminals come from the kernel on request, so
//! that there is no event to wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{Client, ListTerminalSessions, ListWorkflowRuns, ReconnectingClient};
use tokio::sync::watch;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(700);

/// The most runs of a list.
const MOST_RUNS: u32 = 100;

/// The lists at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ListSnapshot {
    /// Whether the daemon runs; without it, the lists are those of before.
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
        while self.listed.receiver_count() > 0 {
            let found = match self.daemon.running().await {
                Ok(client) => listed(&client).await,
                Err(_) => None,
            };
            self.listed.send_if_modified(|known| {
                let now = found.unwrap_or_else(|| ListSnapshot { is_here: false, ..known.clone() });
                let differs = *known != now;
                *known = now;
                differs
            });
            tokio::time::sleep(INTERVAL).await;
        }
        self.is_looking.store(false, Ordering::Release);
        // A listener may have come since.
        if self.listed.receiver_count() > 0 && !self.is_looking.swap(true, Ordering::AcqRel) {
            Box::pin(self.look()).await;
        }
    }
}

async fn listed(client: &Client) -> Option<ListSnapshot> {
    let value = |value: Result<Value, serde_json::Error>| value.map(Arc::new).ok();
    let waiting =
        ListWorkflowRuns { state: Some("waiting".to_owned()), limit: Some(MOST_RUNS), ..ListWorkflowRuns::default() };
    let newest = ListWorkflowRuns { limit: Some(MOST_RUNS), ..ListWorkflowRuns::default() };
    let terminals = client.call(ListTerminalSessions {}).await.ok()?.sessions;
    let waiting = client.call(waiting).await.ok()?.runs;
    let runs = client.call(newest).await.ok()?.runs;
    Some(ListSnapshot {
        is_here: true,
        terminals: value(serde_json::to_value(terminals))?,
        waiting: value(serde_json::to_value(waiting))?,
        runs: value(serde_json::to_value(runs))?,
    })
}
