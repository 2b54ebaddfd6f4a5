//! Pauses between attempts, each twice as long as the last.

use std::time::Duration;

/// The pauses between the attempts of one operation.
#[derive(Debug)]
pub(crate) struct Backoff {
    next_pause: Duration,
    max_pause: Duration,
}

impl Backoff {
    /// Begins with the pause `first` and doubles it up to `max_pause`.
    pub(crate) const fn new(first: Duration, max_pause: Duration) -> Self {
        Self { next_pause: first, max_pause }
    }

    /// Waits before the next attempt.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next_pause).await;
        self.next_pause = (self.next_pause * 2).min(self.max_pause);
    }
}
