//! The terminals that people hold in the page.
//!
//! A hold has a random key of the tab. It outlives the tab's socket for some seconds, so that no other client can type
//! during a reload or a lost connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steplatch_protocol::{HandBackTerminal, HoldTerminal, ReconnectingClient};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Retention period of a hold without its socket or the daemon. A terminal host waits as long for a holder to return.
const HOLD_GRACE: Duration = Duration::from_secs(15);

/// Pause between two attempts to hold a terminal again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// All holds, by their keys.
#[derive(Debug, Default)]
pub(super) struct Holds {
    holds: Mutex<HashMap<String, Hold>>,
}

#[derive(Debug)]
struct Hold {
    terminal: String,
    /// Number of sockets that have taken the hold: only the last one releases it.
    take_count: u64,
    _cancel_on_drop: DropGuard,
}

impl Holds {
    /// Takes a hold, possibly from an earlier socket. Returns the number of sockets that have taken it.
    ///
    /// # Errors
    /// If another client holds the terminal.
    pub(super) async fn take(
        self: &Arc<Self>,
        person: &ReconnectingClient,
        terminal: &str,
        key: &str,
    ) -> Result<u64, String> {
        if let Some(hold) = self.holds.lock().get_mut(key).filter(|hold| hold.terminal == terminal) {
            hold.take_count += 1;
            return Ok(hold.take_count);
        }
        let verb = HoldTerminal { session_id: terminal.to_owned(), hold_key: key.to_owned() };
        let client = person.running().await.map_err(|error| error.to_string())?;
        let (reply, mut events) = client.subscribe(verb.clone()).await.map_err(|error| error.to_string())?;
        if !reply.success {
            return Err(reply.error.unwrap_or_else(|| "failed to hold the terminal".to_owned()));
        }
        let cancelled = CancellationToken::new();
        let hold =
            Hold { terminal: terminal.to_owned(), take_count: 1, _cancel_on_drop: cancelled.clone().drop_guard() };
        self.holds.lock().insert(key.to_owned(), hold);
        let (person, holds) = (person.clone(), self.clone());
        tokio::spawn(async move {
            let keep_hold = async {
                // The stream has no events. It ends with the daemon, and the next daemon must be given the hold again.
                while events.next().await.is_some() {}
                let mut lost_at = Instant::now();
                loop {
                    let renewal = async { person.running().await.ok()?.subscribe(verb.clone()).await.ok() };
                    match renewal.await {
                        Some((reply, new_events)) if reply.success => {
                            events = new_events;
                            while events.next().await.is_some() {}
                            lost_at = Instant::now();
                        }
                        Some(_) => return,
                        None if lost_at.elapsed() > HOLD_GRACE => return,
                        None => tokio::time::sleep(RETRY_PAUSE).await,
                    }
                }
            };
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = keep_hold => drop(holds.holds.lock().remove(&verb.hold_key)),
            }
        });
        Ok(1)
    }

    /// Releases a hold after [`HOLD_GRACE`], unless another socket takes it in the meantime.
    pub(super) fn release_later(self: &Arc<Self>, key: String, take_count: u64) {
        let holds = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(HOLD_GRACE).await;
            let mut holds = holds.holds.lock();
            if holds.get(&key).is_some_and(|hold| hold.take_count == take_count) {
                holds.remove(&key);
            }
        });
    }

    /// Releases a terminal.
    ///
    /// # Errors
    /// If the daemon does not respond, or refuses.
    pub(super) async fn hand_back(
        &self,
        person: &ReconnectingClient,
        terminal: &str,
        key: &str,
        note: Option<String>,
    ) -> Result<(), String> {
        let verb = HandBackTerminal { session_id: terminal.to_owned(), hold_key: key.to_owned(), note };
        let client = person.running().await.map_err(|error| error.to_string())?;
        let reply = client.call(verb).await.map_err(|error| error.to_string())?;
        self.holds.lock().remove(key);
        reply.error.map_or(Ok(()), Err)
    }
}
