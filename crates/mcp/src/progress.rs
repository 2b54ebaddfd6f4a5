//! How far a call is, told to a client that gave a token with it.

use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};

/// The shortest time between two messages.
const PAUSE: Duration = Duration::from_millis(250);

/// The time between two signs of life of a wait in which nothing is to be told.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Characters of a message, at the most: it is read on one line.
const LONGEST: usize = 200;

/// Somebody who wants to be told.
#[derive(Debug)]
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The last progress that was told. It has to grow.
    told: f64,
    /// What is to be told next; a later message takes its place.
    due: Option<String>,
    /// Not before then.
    next: tokio::time::Instant,
}

impl Progress {
    /// Whoever wants to be told about a request, if somebody does.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self { peer: context.peer.clone(), token, told: 0.0, due: None, next: tokio::time::Instant::now() })
    }

    /// Tells how far it is, as a number that grows, of how many.
    pub async fn tell(&mut self, done: f64, total: Option<f64>) {
        let mut progress = ProgressNotificationParam::new(self.token.clone(), done);
        progress.total = total;
        self.told = done;
        self.send(progress).await;
    }

    /// Has a message told when the last one was long enough ago; one that is due already gives way.
    pub(crate) fn say(&mut self, message: String) {
        self.due = Some(message);
    }

    /// Tells nothing for a moment, in which what happened can be gathered.
    pub(crate) fn gather(&mut self, moment: Duration) {
        self.next = tokio::time::Instant::now() + moment;
    }

    /// Ends when it is time to tell what is due; never while nothing is.
    pub(crate) async fn is_due(&self) {
        match self.due {
            Some(_) => tokio::time::sleep_until(self.next).await,
            None => std::future::pending().await,
        }
    }

    /// Tells what is due now, if anything is.
    pub(crate) async fn flush(&mut self) {
        let Some(message) = self.due.take() else { return };
        self.told += 1.0;
        let message = match message.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message,
        };
        self.send(ProgressNotificationParam::new(self.token.clone(), self.told).with_message(message)).await;
    }

    /// Tells that a person is asked, for as long as they take: clients give up on calls that they hear nothing of.
    pub(crate) async fn waits_for_a_person(&mut self, since: Instant) {
        tokio::time::sleep(SIGN_OF_LIFE).await;
        self.say(format!("waiting for a person since {} s", since.elapsed().as_secs()));
        self.flush().await;
    }

    async fn send(&mut self, progress: ProgressNotificationParam) {
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress can not be told");
        }
        self.next = tokio::time::Instant::now() + PAUSE;
    }
}
