//! The events of a run, followed across daemons.
//!
//! A task subscribes and, when the connection breaks, subscribes anew from the event
//! that is due next, so that a follower sees each event once and in order and
//! does not notice a new daemon. It ends with the run, or with its follower.

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::client::{CallError, Events};
use crate::connect::ConnectError;
use crate::reconnecting_client::{ReconnectingClient, RetryBudget};
use crate::runs::{RunEvent, Subscribe};

/// Maximum number of events that were received and not taken yet; beyond them the task waits.
const MAX_PENDING_EVENTS: usize = 64;

/// A follower of a run. Following ends when this is dropped.
#[derive(Debug)]
pub struct Follower {
    received: mpsc::Receiver<Result<RunEvent, FollowError>>,
    newest: watch::Receiver<Option<u64>>,
    task: AbortHandle,
}

/// Reason for the end of following a run.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The daemon knows no such run, or not any more; in its words.
    #[error("{0}")]
    Unknown(String),
    /// There is no daemon and none could be started.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The daemon refused, or was lost too often.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An unreadable event.
    #[error("an event of the run cannot be read")]
    Garbled(#[source] serde_json::Error),
}

impl Follower {
    pub(crate) fn new(steady: ReconnectingClient, run_id: String, from: u64, begins_soon: bool) -> Self {
        let (sender, received) = mpsc::channel(MAX_PENDING_EVENTS);
        let (known, newest) = watch::channel(None);
        let mut following = Following { steady, run_id, next: from.max(1), begins_soon, told: sender, newest: known };
        let task = tokio::spawn(async move {
            if let Err(error) = following.follow().await {
                // The follower may have stopped just now.
                let _ = following.told.send(Err(error)).await;
            }
        });
        Self { received, newest, task: task.abort_handle() }
    }

    /// Returns the number of the event that was the newest when following began, 0 where there was none: all up to it
    /// come without waiting.
    ///
    /// # Errors
    /// As [`Follower::next`]; nothing comes after it.
    pub async fn newest_seq(&mut self) -> Result<u64, FollowError> {
        if let Ok(known) = self.newest.wait_for(Option::is_some).await {
            return Ok(known.unwrap_or_default());
        }
        // It ended before it was known, and says why.
        match self.received.recv().await {
            Some(Err(error)) => Err(error),
            _ => Err(FollowError::Call(CallError::Lost)),
        }
    }

    /// Returns the next event; `None` once the last one was returned. Safe to drop and call again.
    ///
    /// # Errors
    /// If the run is unknown, or no daemon can be reached. Nothing comes after that.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, FollowError> {
        self.received.recv().await.transpose()
    }
}

/// The existing ones of some events of a run.
#[derive(Debug, Default)]
pub struct SomeEvents {
    /// The events, in order.
    pub events: Vec<RunEvent>,
    /// Number of the newest event that there is, 0 where there is none.
    pub newest_seq: u64,
}

impl ReconnectingClient {
    /// Returns at most `at_most` events of a run, from number `from` on, without waiting for any that is yet to come:
    /// for followers that take events at their own pace.
    ///
    /// # Errors
    /// As [`Follower::next`].
    pub async fn events(&self, run_id: &str, from: u64, at_most: u64) -> Result<SomeEvents, FollowError> {
        let mut losses = RetryBudget::new();
        loop {
            let error = match self.events_over_one_connection(run_id, from.max(1), at_most).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => FollowError::Call(CallError::Lost),
                Err(error) => error,
            };
            let again = match &error {
                FollowError::Call(CallError::Lost) => losses.after_a_loss().await,
                FollowError::Connect(error) => losses.after(error).await,
                FollowError::Unknown(_) | FollowError::Call(_) | FollowError::Garbled(_) => false,
            };
            if !again {
                return Err(error);
            }
        }
    }

    /// Does the same over one connection; returns nothing when it ends before all of them came.
    async fn events_over_one_connection(
        &self,
        run_id: &str,
        from: u64,
        at_most: u64,
    ) -> Result<Option<SomeEvents>, FollowError> {
        let client = self.client().await?;
        let verb = Subscribe { run_id: run_id.to_owned(), from_seq: Some(from), at_most: Some(at_most.max(1)) };
        let (reply, mut coming) = client.subscribe(verb).await?;
        if let Some(error) = reply.error {
            return Err(FollowError::Unknown(error));
        }
        let newest_seq = reply.newest_seq;
        let mut events: Vec<RunEvent> = Vec::new();
        let max_events = usize::try_from(at_most.max(1)).unwrap_or(usize::MAX);
        while from <= newest_seq
            && events.len() < max_events
            && events.last().is_none_or(|event| event.seq < newest_seq)
        {
            let Some(event) = coming.next().await else { return Ok(None) };
            let event: RunEvent = serde_json::from_value(event).map_err(FollowError::Garbled)?;
            let is_last = event.is_last();
            events.push(event);
            if is_last {
                break;
            }
        }
        Ok(Some(SomeEvents { events, newest_seq }))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of a [`Follower`].
struct Following {
    steady: ReconnectingClient,
    run_id: String,
    /// Number of the event that is due next.
    next: u64,
    /// True if the run may be unknown yet.
    begins_soon: bool,
    told: mpsc::Sender<Result<RunEvent, FollowError>>,
    /// Number of the newest event when following began.
    newest: watch::Sender<Option<u64>>,
}

/// Outcome of one connection.
enum Over {
    /// The run has ended, or has no follower any more.
    Run,
    /// The connection has ended.
    Connection,
}

impl Following {
    async fn follow(&mut self) -> Result<(), FollowError> {
        let mut losses = RetryBudget::new();
        loop {
            let due = self.next;
            let error = match self.over_one_connection().await {
                Ok(Over::Run) => return Ok(()),
                Ok(Over::Connection) => FollowError::Call(CallError::Lost),
                Err(error) => error,
            };
            if self.next > due {
                losses.forget();
            }
            let again = match &error {
                FollowError::Call(CallError::Lost) => losses.after_a_loss().await,
                FollowError::Connect(error) => losses.after(error).await,
                FollowError::Unknown(_) if self.begins_soon && self.next == 1 => losses.after_a_loss().await,
                FollowError::Unknown(_) | FollowError::Call(_) | FollowError::Garbled(_) => false,
            };
            if !again {
                return Err(error);
            }
        }
    }

    async fn over_one_connection(&mut self) -> Result<Over, FollowError> {
        let client = self.steady.client().await?;
        let verb = Subscribe { run_id: self.run_id.clone(), from_seq: Some(self.next), ..Subscribe::default() };
        let (reply, mut events) = client.subscribe(verb).await?;
        if let Some(error) = reply.error {
            return Err(FollowError::Unknown(error));
        }
        self.newest.send_if_modified(|known| known.is_none() && known.replace(reply.newest_seq).is_none());
        self.pass_on(&mut events).await
    }

    async fn pass_on(&mut self, events: &mut Events) -> Result<Over, FollowError> {
        while let Some(event) = events.next().await {
            let event: RunEvent = serde_json::from_value(event).map_err(FollowError::Garbled)?;
            // Numbers may be left out: not everything in a history is reported. None comes twice.
            if event.seq < self.next {
                continue;
            }
            self.next = event.seq + 1;
            let last = event.is_last();
            if self.told.send(Ok(event)).await.is_err() || last {
                return Ok(Over::Run);
            }
        }
        Ok(Over::Connection)
    }
}
