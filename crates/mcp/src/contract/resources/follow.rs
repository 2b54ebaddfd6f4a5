//! Subscriptions to resources: the subscriber receives a notification of a changed resource, and reads it again.
//!
//! The task attaches to a terminal without input, and follows a run's events. One task waits for either, reconnects to
//! the daemon as often as necessary, and ends with the subscription.

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

/// The pauses between attempts to reconnect to the daemon. A subscription does not start a daemon.
const RETRY_PAUSES_MS: [u64; 8] = [10, 50, 250, 1000, 2000, 4000, 8000, 16_000];

/// The resource of a subscription.
enum Followed {
    /// A terminal, by its id or name. It outlives a daemon.
    Terminal(String),
    /// A run, and the number of the newest event that the subscriber already knows.
    Run { id: String, newest: u64 },
}

/// Subscribes to a resource; `None` if there is none of that URI.
///
/// # Errors
/// If the daemon is unreachable.
pub(in crate::contract) async fn follow(uri: &str, daemon: &ReconnectingClient) -> Result<Option<Updates>, AskError> {
    let mut followed = match Address::parse(uri) {
        Some(Address::Terminal { id, .. }) => Followed::Terminal(id),
        Some(Address::Run(id) | Address::Events { run: id, .. }) => Followed::Run { id, newest: 0 },
        Some(Address::Workflow(name)) => {
            // The daemon sends no event for an edit of a workflow's file, so no update ever arrives.
            let known = daemon.call(DescribeWorkflow { name }).await?.name.is_some();
            return Ok(known.then(|| mpsc::channel(1).1));
        }
        None => return Ok(None),
    };
    let Some(events) = followed.join(&daemon.client().await?).await? else { return Ok(None) };
    let (sender, updates) = mpsc::channel(1);
    tokio::spawn(notify_all(followed, events, daemon.clone(), sender));
    Ok(Some(updates))
}

impl Followed {
    /// Begins to listen; `None` if there is nothing to follow.
    async fn join(&mut self, client: &Client) -> Result<Option<Events>, CallError> {
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

    /// Returns whether an event is a change, and whether it is the last event.
    fn hear(&mut self, event: Value) -> (bool, bool) {
        match self {
            Self::Terminal(_) => {
                let event = serde_json::from_value(event);
                (true, matches!(event, Ok(TerminalEvent::TerminalEnded { .. })))
            }
            Self::Run { newest, .. } => match serde_json::from_value::<RunEvent>(event) {
                Ok(event) => {
                    let is_news = event.seq > *newest;
                    *newest = (*newest).max(event.seq);
                    (is_news, event.is_last())
                }
                Err(_) => (false, false),
            },
        }
    }
}

/// Notifies the subscriber of a change. Returns whether the subscriber still listens; a pending notification covers
/// both changes.
fn notify(sender: &mpsc::Sender<()>) -> bool {
    !matches!(sender.try_send(()), Err(TrySendError::Closed(())))
}

async fn notify_all(mut followed: Followed, mut events: Events, daemon: ReconnectingClient, sender: mpsc::Sender<()>) {
    loop {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { break };
            let (is_news, is_last) = followed.hear(event);
            if (is_news && !notify(&sender)) || is_last {
                return;
            }
        }
        let again = tokio::select! {
            again = joined_again(&mut followed, &daemon) => again,
            () = sender.closed() => return,
        };
        let Some(again) = again else { return };
        events = again;
        // Changes during the interruption are unknown, so this assumes one.
        if !notify(&sender) {
            return;
        }
    }
}

async fn joined_again(followed: &mut Followed, daemon: &ReconnectingClient) -> Option<Events> {
    for pause in RETRY_PAUSES_MS {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if let Ok(client) = daemon.running().await
            && let Ok(joined) = followed.join(&client).await
        {
            return joined;
        }
    }
    None
}
