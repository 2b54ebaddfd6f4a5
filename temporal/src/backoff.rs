//! Pauses between attempts, each twice as long as the last one.

use std::time::Duration;

/// The pauses between the attempts of one thing.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Begins with this pause, up to the longest one.
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Waits before the next attempt.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(self.longest);
    }
}
