//! The terminals that people hold in the page.
//!
//! A hold is under a key that the tab has drawn. It outlives the tab's socket for some seconds, so that a reload or a lost
//! connection does not let anyone else type in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use steplatch_protocol::{HandBackTerminal, HoldTerminal, ReconnectingClient};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time that a hold outlives its socket, and the daemon: as long as a terminal host waits for a holder to return.
const GRACE: Duration = Duration::from_secs(15);

/// The time between two attempts to hold on to a terminal.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// All holds, by their keys.
#[derive(Debug, Default)]
pub(super) struct Holds {
    holds: Mutex<HashMap<String, Hold>>,
}

#[derive(Debug)]
struct Hold {
    terminal: String,
    /// Counts the sockets that took it: only the last one lets it go.
    taken: u64,
    _ends: DropGuard,
}

impl Holds {
    /// Takes a hold, or takes it over from an earlier socket. Returns the number of the taking.
    ///
    /// # Errors
    /// If another client holds the terminal, in words.
    pub(super) async fn take(
        self: &Arc<Self>,
        person: &ReconnectingClient,
        terminal: &str,
        key: &str,
    ) -> Result<u64, String> {
        if let Some(hold) = self.holds.lock().get_mut(key).filter(|hold| hold.terminal == terminal) {
            hold.taken += 1;
            return Ok(hold.taken);
        }
        let verb = HoldTerminal { session_id: terminal.to_owned(), hold_key: key.to_owned() };
        let client = person.running().await.map_err(|error| error.to_string())?;
        let (reply, mut events) = client.subscribe(verb.clone()).await.map_err(|error| error.to_string())?;
        if !reply.success {
            return Err(reply.error.unwrap_or_else(|| "the terminal cannot be held".to_owned()));
        }
        let ended = CancellationToken::new();
        let hold = Hold { terminal: terminal.to_owned(), taken: 1, _ends: ended.clone().drop_guard() };
        self.holds.lock().insert(key.to_owned(), hold);
        let (person, holds) = (person.clone(), self.clone());
        tokio::spawn(async move {
            let holding = async {
                // No event comes: the end of the stream is the end of the daemon, and the next one needs the hold again.
                while events.next().await.is_some() {}
                let mut lost = Instant::now();
                loop {
                    let again = async { person.running().await.ok()?.subscribe(verb.clone()).await.ok() };
                    match again.await {
                        Some((reply, anew)) if reply.success => {
                            events = anew;
                            while events.next().await.is_some() {}
                            lost = Instant::now();
                        }
                        Some(_) => return,
                        None if lost.elapsed() > GRACE => return,
                        None => tokio::time::sleep(RETRY_PAUSE).await,
                    }
                }
            };
            tokio::select! {
                () = ended.cancelled() => {}
                () = holding => drop(holds.holds.lock().remove(&verb.hold_key)),
            }
        });
        Ok(1)
    }

    /// Lets a hold go after the time of grace, unless another socket takes it in the meantime.
    pub(super) fn leave(self: &Arc<Self>, key: String, taken: u64) {
        let holds = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            let mut all = holds.holds.lock();
            if all.get(&key).is_some_and(|hold| hold.taken == taken) {
                all.remove(&key);
            }
        });
    }

    /// Gives a terminal back.
    ///
    /// # Errors
    /// If the daemon does not answer, in words.
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
