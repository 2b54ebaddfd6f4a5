//! Subscriptions to resources: the subscriber receives a notification of a changed resource, and reads it again.
//!
//! A task attaches to a terminal without input, or follows a run's events. It reconnects to the daemon after each loss,
//! and ends with the subscription.

use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{
    AskError, AttachTerminal, CallError, Client, DescribeWorkflow, Events, ReconnectingClient, RunEvent, Subscribe,
    TerminalEvent,
};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::uri::Address;
use crate::offer::Updates;

/// Pauses before attempts to reconnect to the daemon. A subscription does not start a daemon.
const RETRY_PAUSES_MS: [u64; 8] = [10, 50, 250, 1000, 2000, 4000, 8000, 16_000];

/// A followed resource.
enum FollowedResource {
    /// A terminal, by its id or name. Terminals outlive a daemon.
    Terminal(String),
    /// A run, and the number of the newest event that is known to the subscriber.
    Run { id: String, newest: u64 },
}

/// Subscribes to a resource; `None` if no resource has that URI.
///
/// # Errors
/// If the daemon is unreachable.
pub(in crate::contract) async fn follow(uri: &str, daemon: &ReconnectingClient) -> Result<Option<Updates>, AskError> {
    let mut followed = match Address::parse(uri) {
        Some(Address::Terminal { id, .. }) => FollowedResource::Terminal(id),
        Some(Address::Run(id) | Address::Events { run: id, .. }) => FollowedResource::Run { id, newest: 0 },
        Some(Address::Workflow(name)) => {
            // The daemon sends no event for an edit of a workflow's file, so no update ever arrives.
            let exists = daemon.call(DescribeWorkflow { name }).await?.name.is_some();
            return Ok(exists.then(|| mpsc::channel(1).1));
        }
        None => return Ok(None),
    };
    let Some(events) = followed.subscribe(&daemon.client().await?).await? else { return Ok(None) };
    let (sender, updates) = mpsc::channel(1);
    tokio::spawn(notify_of_changes(followed, events, daemon.clone(), sender));
    Ok(Some(updates))
}

impl FollowedResource {
    /// Subscribes to the events; `None` if the resource does not exist.
    async fn subscribe(&mut self, client: &Client) -> Result<Option<Events>, CallError> {
        match self {
            Self::Terminal(id) => {
                // Masks secrets, although the subscriber does not receive the screen itself.
                let verb = AttachTerminal { session_id: id.clone(), hold_key: None, masked: true };
                let (reply, events) = client.subscribe(verb).await?;
                Ok(reply.success.then_some(events))
            }
            Self::Run { id, newest } => {
                let verb = Subscribe { run_id: id.clone(), from_seq: Some(*newest + 1), ..Subscribe::default() };
                let (reply, events) = client.subscribe(verb).await?;
                // Earlier events are not changes.
                *newest = (*newest).max(reply.newest_seq);
                Ok(reply.success.then_some(events))
            }
        }
    }

    /// Records an event. Returns two flags: the event is a change, and it is the last event.
    fn apply_event(&mut self, event: Value) -> (bool, bool) {
        match self {
            Self::Terminal(_) => {
                let event = serde_json::from_value(event);
                (true, matches!(event, Ok(TerminalEvent::TerminalEnded { .. })))
            }
            Self::Run { newest, .. } => match serde_json::from_value::<RunEvent>(event) {
                Ok(event) => {
                    let is_change = event.seq > *newest;
                    *newest = (*newest).max(event.seq);
                    (is_change, event.is_last())
                }
                Err(_) => (false, false),
            },
        }
    }
}

/// Notifies the subscriber of a change; a pending notification covers both changes. Returns whether the subscription is
/// still open.
fn notify(sender: &mpsc::Sender<()>) -> bool {
    !matches!(sender.try_send(()), Err(TrySendError::Closed(())))
}

async fn notify_of_changes(
    mut followed: FollowedResource,
    mut events: Events,
    daemon: ReconnectingClient,
    sender: mpsc::Sender<()>,
) {
    loop {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { break };
            let (is_change, is_last) = followed.apply_event(event);
            if (is_change && !notify(&sender)) || is_last {
                return;
            }
        }
        let new_events = tokio::select! {
            new_events = resubscribe(&mut followed, &daemon) => new_events,
            () = sender.closed() => return,
        };
        let Some(new_events) = new_events else { return };
        events = new_events;
        // Assume a change: changes during the interruption are unknown.
        if !notify(&sender) {
            return;
        }
    }
}

async fn resubscribe(followed: &mut FollowedResource, daemon: &ReconnectingClient) -> Option<Events> {
    for pause in RETRY_PAUSES_MS {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if let Ok(client) = daemon.running().await
            && let Ok(events) = followed.subscribe(&client).await
        {
            return events;
        }
    }
    None
}
