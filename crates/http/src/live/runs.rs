//! Runs that a tab follows: their events, across restarts of the daemon.

use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{ReconnectingClient, RunEvent, Subscribe};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::message::ToTab;

/// Pause between two attempts to reach the daemon.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// A followed run. Dropping it stops the events.
#[derive(Debug)]
pub(super) struct RunFollower(AbortHandle);

impl Drop for RunFollower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Follows a run, starting at event number `from`.
pub(super) fn follow(
    daemon: ReconnectingClient,
    run_id: String,
    from: u64,
    replies: mpsc::Sender<ToTab>,
) -> RunFollower {
    RunFollower(tokio::spawn(send_events(daemon, run_id, from, replies)).abort_handle())
}

async fn send_events(daemon: ReconnectingClient, run_id: String, mut from: u64, replies: mpsc::Sender<ToTab>) {
    loop {
        let request = Subscribe { run_id: run_id.clone(), from_seq: Some(from), at_most: None };
        let subscription = async { daemon.running().await.ok()?.subscribe(request).await.ok() };
        let Some((reply, mut events)) = subscription.await else {
            tokio::time::sleep(RETRY_PAUSE).await;
            continue;
        };
        if !reply.success {
            let _ = replies.send(ToTab::Unfollowed { run: run_id, error: reply.error }).await;
            return;
        }
        while let Some(event) = events.next().await {
            let is_last = is_last(&event);
            from = event["seq"].as_u64().map_or(from, |seq| seq + 1);
            // A slow tab delays the events of its run.
            if replies.send(ToTab::Event { event }).await.is_err() || is_last {
                return;
            }
        }
    }
}

fn is_last(event: &Value) -> bool {
    serde_json::from_value::<RunEvent>(event.clone()).is_ok_and(|event| event.is_last())
}
