//! The events of a run, followed across daemons.
//!
//! A task subscribes to the run. After a lost connection it subscribes again, from the next event that its follower
//! lacks. The follower receives each event once and in order, even across restarts of the daemon. The task ends with
//! the run or with its follower.

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::client::{CallError, Events};
use crate::connect::ConnectError;
use crate::reconnecting_client::{ReconnectingClient, RetryBudget};
use crate::runs::{RunEvent, Subscribe};

/// Maximum number of events that the task buffers for its follower before it waits.
const MAX_PENDING_EVENTS: usize = 64;

/// A follower of a run. Dropping it ends its task.
#[derive(Debug)]
pub struct Follower {
    receiver: mpsc::Receiver<Result<RunEvent, FollowError>>,
    newest: watch::Receiver<Option<u64>>,
    task: AbortHandle,
}

/// Reason why a run is no longer followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The daemon does not know the run, or has forgotten it. Holds the daemon's message.
    #[error("{0}")]
    Unknown(String),
    /// There is no daemon and none could be started.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The daemon refused, or the connection was lost too often.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An unreadable event.
    #[error("an event of the run cannot be read")]
    Garbled(#[source] serde_json::Error),
}

impl Follower {
    pub(crate) fn new(client: ReconnectingClient, run_id: String, from: u64, begins_soon: bool) -> Self {
        let (event_sender, receiver) = mpsc::channel(MAX_PENDING_EVENTS);
        let (newest_sender, newest) = watch::channel(None);
        let mut follow_task =
            FollowTask { client, run_id, next_seq: from.max(1), begins_soon, event_sender, newest: newest_sender };
        let task = tokio::spawn(async move {
            if let Err(error) = follow_task.run().await {
                // Ignore the error, because the follower was dropped.
                let _ = follow_task.event_sender.send(Err(error)).await;
            }
        });
        Self { receiver, newest, task: task.abort_handle() }
    }

    /// Returns the number of the newest event when following began, or 0. Events up to it arrive without waiting.
    ///
    /// # Errors
    /// Same as [`Follower::next`]. No event follows an error.
    pub async fn newest_seq(&mut self) -> Result<u64, FollowError> {
        if let Ok(known) = self.newest.wait_for(Option::is_some).await {
            return Ok(known.unwrap_or_default());
        }
        // The task ended before it learned the number; its error is queued.
        match self.receiver.recv().await {
            Some(Err(error)) => Err(error),
            _ => Err(FollowError::Call(CallError::Lost)),
        }
    }

    /// Returns the next event; `None` once the last one was returned. Safe to drop and call again.
    ///
    /// # Errors
    /// If the run is unknown, or no daemon can be reached. No event follows an error.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, FollowError> {
        self.receiver.recv().await.transpose()
    }
}

/// A page of a run's events.
#[derive(Debug, Default)]
pub struct EventPage {
    /// The events, in order.
    pub events: Vec<RunEvent>,
    /// Number of the run's newest event, or 0.
    pub newest_seq: u64,
}

impl ReconnectingClient {
    /// Returns at most `max_events` existing events of a run, starting at number `from`, without waiting for new ones:
    /// for callers that read page by page.
    ///
    /// # Errors
    /// Same as [`Follower::next`].
    pub async fn events(&self, run_id: &str, from: u64, max_events: u64) -> Result<EventPage, FollowError> {
        let mut retry_budget = RetryBudget::new();
        loop {
            let error = match self.events_over_one_connection(run_id, from.max(1), max_events).await {
                Ok(Some(page)) => return Ok(page),
                Ok(None) => FollowError::Call(CallError::Lost),
                Err(error) => error,
            };
            let should_retry = match &error {
                FollowError::Call(CallError::Lost) => retry_budget.retry_after_loss().await,
                FollowError::Connect(error) => retry_budget.retry_after_error(error).await,
                FollowError::Unknown(_) | FollowError::Call(_) | FollowError::Garbled(_) => false,
            };
            if !should_retry {
                return Err(error);
            }
        }
    }

    /// Reads the events over one connection. Returns `None` if it closes early.
    async fn events_over_one_connection(
        &self,
        run_id: &str,
        from: u64,
        max_events: u64,
    ) -> Result<Option<EventPage>, FollowError> {
        let client = self.client().await?;
        let verb = Subscribe { run_id: run_id.to_owned(), from_seq: Some(from), at_most: Some(max_events.max(1)) };
        let (reply, mut subscription) = client.subscribe(verb).await?;
        if let Some(error) = reply.error {
            return Err(FollowError::Unknown(error));
        }
        let newest_seq = reply.newest_seq;
        let mut events: Vec<RunEvent> = Vec::new();
        let max_events = usize::try_from(max_events.max(1)).unwrap_or(usize::MAX);
        while from <= newest_seq
            && events.len() < max_events
            && events.last().is_none_or(|event| event.seq < newest_seq)
        {
            let Some(event) = subscription.next().await else { return Ok(None) };
            let event: RunEvent = serde_json::from_value(event).map_err(FollowError::Garbled)?;
            let is_last = event.is_last();
            events.push(event);
            if is_last {
                break;
            }
        }
        Ok(Some(EventPage { events, newest_seq }))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of a [`Follower`].
struct FollowTask {
    client: ReconnectingClient,
    run_id: String,
    /// Number of the next event to forward.
    next_seq: u64,
    /// True if the run may still be unknown to the daemon.
    begins_soon: bool,
    event_sender: mpsc::Sender<Result<RunEvent, FollowError>>,
    /// Number of the newest event when following began.
    newest: watch::Sender<Option<u64>>,
}

/// Outcome of one connection.
enum FollowEnd {
    /// The run has ended, or its follower was dropped.
    Run,
    /// The connection has ended.
    Connection,
}

impl FollowTask {
    async fn run(&mut self) -> Result<(), FollowError> {
        let mut retry_budget = RetryBudget::new();
        loop {
            let first_seq = self.next_seq;
            let error = match self.follow_over_one_connection().await {
                Ok(FollowEnd::Run) => return Ok(()),
                Ok(FollowEnd::Connection) => FollowError::Call(CallError::Lost),
                Err(error) => error,
            };
            if self.next_seq > first_seq {
                retry_budget.reset();
            }
            let should_retry = match &error {
                FollowError::Call(CallError::Lost) => retry_budget.retry_after_loss().await,
                FollowError::Connect(error) => retry_budget.retry_after_error(error).await,
                FollowError::Unknown(_) if self.begins_soon && self.next_seq == 1 => {
                    retry_budget.retry_after_loss().await
                }
                FollowError::Unknown(_) | FollowError::Call(_) | FollowError::Garbled(_) => false,
            };
            if !should_retry {
                return Err(error);
            }
        }
    }

    async fn follow_over_one_connection(&mut self) -> Result<FollowEnd, FollowError> {
        let connection = self.client.client().await?;
        let verb = Subscribe { run_id: self.run_id.clone(), from_seq: Some(self.next_seq), ..Subscribe::default() };
        let (reply, mut events) = connection.subscribe(verb).await?;
        if let Some(error) = reply.error {
            return Err(FollowError::Unknown(error));
        }
        self.newest.send_if_modified(|known| known.is_none() && known.replace(reply.newest_seq).is_none());
        self.forward_events(&mut events).await
    }

    async fn forward_events(&mut self, events: &mut Events) -> Result<FollowEnd, FollowError> {
        while let Some(event) = events.next().await {
            let event: RunEvent = serde_json::from_value(event).map_err(FollowError::Garbled)?;
            // Unreported events leave gaps in the numbers. Skip events that were already forwarded.
            if event.seq < self.next_seq {
                continue;
            }
            self.next_seq = event.seq + 1;
            let is_last = event.is_last();
            if self.event_sender.send(Ok(event)).await.is_err() || is_last {
                return Ok(FollowEnd::Run);
            }
        }
        Ok(FollowEnd::Connection)
    }
}
