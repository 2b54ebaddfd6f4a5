//! Progress notifications for a call, sent to a client that included a progress token.

use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};

/// Minimum time between two messages.
const MIN_MESSAGE_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of messages during a wait without progress.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum message length, in characters: clients show a message on one line.
const MAX_MESSAGE_CHARS: usize = 200;

/// Progress notifications for one request.
#[derive(Debug)]
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The last sent progress. The protocol requires it to grow.
    last_progress: f64,
    /// The next message; a later message replaces it.
    pending_message: Option<String>,
    /// The earliest time of the next message.
    next_time: tokio::time::Instant,
}

impl Progress {
    /// Returns the progress notifications for a request, if the client sent a token.
    pub(crate) fn for_request(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self {
            peer: context.peer.clone(),
            token,
            last_progress: 0.0,
            pending_message: None,
            next_time: tokio::time::Instant::now(),
        })
    }

    /// Sends the progress, as a growing number out of `total`.
    pub async fn report(&mut self, done: f64, total: Option<f64>) {
        let mut progress = ProgressNotificationParam::new(self.token.clone(), done);
        progress.total = total;
        self.last_progress = done;
        self.send(progress).await;
    }

    /// Sets the next message and replaces a pending one.
    pub(crate) fn set_message(&mut self, message: String) {
        self.pending_message = Some(message);
    }

    /// Delays the next message, to collect events.
    pub(crate) fn delay_messages(&mut self, delay: Duration) {
        self.next_time = tokio::time::Instant::now() + delay;
    }

    /// Waits until the pending message may be sent, or forever without one.
    pub(crate) async fn wait_until_due(&self) {
        match self.pending_message {
            Some(_) => tokio::time::sleep_until(self.next_time).await,
            None => std::future::pending().await,
        }
    }

    /// Sends the pending message now, if there is one.
    pub(crate) async fn flush(&mut self) {
        let Some(message) = self.pending_message.take() else { return };
        self.last_progress += 1.0;
        let message = match message.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message,
        };
        self.send(ProgressNotificationParam::new(self.token.clone(), self.last_progress).with_message(message)).await;
    }

    /// Waits for the interval, then reports the wait for a person: clients abort silent calls.
    pub(crate) async fn report_waiting(&mut self, since: Instant) {
        tokio::time::sleep(KEEP_ALIVE_INTERVAL).await;
        self.set_message(format!("waiting for a person for {} s", since.elapsed().as_secs()));
        self.flush().await;
    }

    async fn send(&mut self, progress: ProgressNotificationParam) {
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "failed to send the progress");
        }
        self.next_time = tokio::time::Instant::now() + MIN_MESSAGE_INTERVAL;
    }
}
