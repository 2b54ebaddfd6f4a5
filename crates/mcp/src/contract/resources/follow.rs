//! Resources that are followed: whoever follows one is told that it has changed, and looks for themselves.
//!
//! A terminal is joined as somebody who only watches; a run's events are followed. A task waits for either, and ends with
//! whoever follows.

use std::time::Duration;

use serde_json::Value;
use steplatch_protocol::{AskError, AttachTerminal, DescribeWorkflow, Events, GetWorkflowRun, Steady, TerminalEvent};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::uri::Address;
use crate::offer::Updates;

/// The pauses between attempts to join a terminal again when the daemon went away. The terminal did not.
const PAUSES_MS: [u64; 8] = [10, 50, 250, 1000, 2000, 4000, 8000, 16_000];

/// Follows a resource; `None` where there is none of that URI.
///
/// # Errors
/// When the daemon can not be asked.
pub(in crate::contract) async fn follow(uri: &str, daemon: &Steady) -> Result<Option<Updates>, AskError> {
    let (told, updates) = mpsc::channel(1);
    match Address::parse(uri) {
        Some(Address::Terminal { id, .. }) => {
            let Some(events) = join(&id, &daemon.client().await?).await? else { return Ok(None) };
            tokio::spawn(of_terminal(id, events, daemon.clone(), told));
        }
        Some(Address::Run(run) | Address::Events { run, .. }) => {
            if daemon.call(GetWorkflowRun { run_id: run.clone() }).await?.run.is_none() {
                return Ok(None);
            }
            tokio::spawn(of_run(run, daemon.clone(), told));
        }
        // Nobody tells when a file was edited.
        Some(Address::Workflow(name)) => {
            if daemon.call(DescribeWorkflow { name }).await?.name.is_none() {
                return Ok(None);
            }
        }
        None => return Ok(None),
    }
    Ok(Some(updates))
}

async fn join(id: &str, client: &steplatch_protocol::Client) -> Result<Option<Events>, AskError> {
    // Secrets are hidden, though nothing of what is shown is passed on.
    let verb = AttachTerminal { session_id: id.to_owned(), hold_key: None, masked: true };
    let (reply, events) = client.subscribe(verb).await?;
    Ok(reply.success.then_some(events))
}

/// Says that there is something new. Returns whether anybody listens; who has not heard of the last time hears of both.
fn tell(told: &mpsc::Sender<()>) -> bool {
    !matches!(told.try_send(()), Err(TrySendError::Closed(())))
}

async fn of_terminal(id: String, mut events: Events, daemon: Steady, told: mpsc::Sender<()>) {
    let is_end = |event: Value| matches!(serde_json::from_value(event), Ok(TerminalEvent::TerminalEnded { .. }));
    loop {
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = told.closed() => return,
            };
            let Some(event) = event else { break };
            if !tell(&told) || is_end(event) {
                return;
            }
        }
        let Some(again) = joined_again(&id, &daemon).await else { return };
        events = again;
        // Nobody knows what was printed meanwhile.
        if !tell(&told) {
            return;
        }
    }
}

async fn joined_again(id: &str, daemon: &Steady) -> Option<Events> {
    for pause in PAUSES_MS {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        if let Ok(client) = daemon.running().await
            && let Ok(joined) = join(id, &client).await
        {
            return joined;
        }
    }
    None
}

async fn of_run(run: String, daemon: Steady, told: mpsc::Sender<()>) {
    let mut follower = daemon.follow(&run, 1);
    let newest = follower.newest_seq().await.unwrap_or(0);
    loop {
        let event = tokio::select! {
            event = follower.next() => event,
            () = told.closed() => return,
        };
        match event {
            // What has happened before is no news.
            Ok(Some(event)) if event.seq <= newest => {}
            Ok(Some(_)) if tell(&told) => {}
            _ => return,
        }
    }
}
