//! Progress notifications of a call, sent to a client that gave a progress token with it.

use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};

/// Minimum time between two messages.
const MIN_MESSAGE_INTERVAL: Duration = Duration::from_millis(250);

/// The time between two signs of life of a wait without progress.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Maximum length of a message in characters; clients show it on one line.
const MAX_MESSAGE_CHARS: usize = 200;

/// The receiver of the progress of a request.
#[derive(Debug)]
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The last sent progress. The protocol requires it to grow.
    told: f64,
    /// The next message; a later message replaces it.
    due: Option<String>,
    /// The earliest time of the next message.
    next: tokio::time::Instant,
}

impl Progress {
    /// Returns the receiver of a request's progress, if the client gave a token.
    pub(crate) fn for_request(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self { peer: context.peer.clone(), token, told: 0.0, due: None, next: tokio::time::Instant::now() })
    }

    /// Sends the progress, as a growing number out of `total`.
    pub async fn report(&mut self, done: f64, total: Option<f64>) {
        let mut progress = ProgressNotificationParam::new(self.token.clone(), done);
        progress.total = total;
        self.told = done;
        self.send(progress).await;
    }

    /// Schedules a message for when the pause since the last one has ended; replaces a pending message.
    pub(crate) fn say(&mut self, message: String) {
        self.due = Some(message);
    }

    /// Sends nothing for a moment, to collect events.
    pub(crate) fn gather(&mut self, moment: Duration) {
        self.next = tokio::time::Instant::now() + moment;
    }

    /// Completes when it is time to send the pending message; never while there is none.
    pub(crate) async fn is_due(&self) {
        match self.due {
            Some(_) => tokio::time::sleep_until(self.next).await,
            None => std::future::pending().await,
        }
    }

    /// Sends the pending message now, if there is one.
    pub(crate) async fn flush(&mut self) {
        let Some(message) = self.due.take() else { return };
        self.told += 1.0;
        let message = match message.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message,
        };
        self.send(ProgressNotificationParam::new(self.token.clone(), self.told).with_message(message)).await;
    }

    /// Reports a question to a person, until they answer: clients abort calls that stay silent.
    pub(crate) async fn waits_for_a_person(&mut self, since: Instant) {
        tokio::time::sleep(SIGN_OF_LIFE).await;
        self.say(format!("waiting for a person since {} s", since.elapsed().as_secs()));
        self.flush().await;
    }

    async fn send(&mut self, progress: ProgressNotificationParam) {
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "the progress cannot be sent");
        }
        self.next = tokio::time::Instant::now() + MIN_MESSAGE_INTERVAL;
    }
}
