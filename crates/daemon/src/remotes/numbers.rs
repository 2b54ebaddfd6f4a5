//! What is counted of a service's runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The bounds of the buckets of durations, in seconds.
pub(super) const BOUNDS: [f64; 10] = [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0];

/// Counts since the daemon began.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    started: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    /// How many took no longer than each bound, and longer than the one before it.
    buckets: [AtomicU64; BOUNDS.len()],
    milliseconds: AtomicU64,
}

/// How a run of a service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Failed,
    Cancelled,
}

impl Numbers {
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, how: Ended, took: Duration) {
        let counter = match how {
            Ended::Completed => &self.completed,
            Ended::Failed => &self.failed,
            Ended::Cancelled => &self.cancelled,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.milliseconds.fetch_add(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Some(bucket) = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many were started, completed, failed and cancelled.
    pub(super) fn counts(&self) -> [(&'static str, u64); 4] {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("started", value(&self.started)),
            ("completed", value(&self.completed)),
            ("failed", value(&self.failed)),
            ("cancelled", value(&self.cancelled)),
        ]
    }

    /// Returns how many took no longer than each bound, and the seconds of all together.
    pub(super) fn durations(&self) -> ([u64; BOUNDS.len()], f64) {
        let mut sum = 0;
        let buckets = self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        });
        let milliseconds = self.milliseconds.load(Ordering::Relaxed);
        (buckets, Duration::from_millis(milliseconds).as_secs_f64())
    }
}
