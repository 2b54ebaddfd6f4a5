//! Counters of a service's runs.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use steplatch_protocol::{Histogram, Sample};

/// Upper bounds of the buckets of durations, in seconds.
const BUCKET_SECONDS: [f64; 10] = [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0];

/// Counters since the start of the daemon.
#[derive(Debug)]
pub struct ServiceMetrics(Mutex<RunCounts>);

/// Counters of started runs, and of finished runs by their end.
#[derive(Debug, Clone)]
pub(super) struct RunCounts {
    pub(super) started: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    durations: Histogram,
}

/// End of a run of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The run ended with a result.
    Completed,
    /// The run failed.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl Default for ServiceMetrics {
    fn default() -> Self {
        let durations = Histogram::new(&BUCKET_SECONDS);
        Self(Mutex::new(RunCounts { started: 0, completed: 0, failed: 0, cancelled: 0, durations }))
    }
}

impl ServiceMetrics {
    fn lock(&self) -> MutexGuard<'_, RunCounts> {
        self.0.lock()
    }

    pub fn count_start(&self) {
        self.lock().started += 1;
    }

    pub fn count_end(&self, end: RunEnd, duration: Duration) {
        let mut counts = self.lock();
        match end {
            RunEnd::Completed => counts.completed += 1,
            RunEnd::Failed => counts.failed += 1,
            RunEnd::Cancelled => counts.cancelled += 1,
        }
        counts.durations.record_duration(duration);
    }

    pub(super) fn counts(&self) -> RunCounts {
        self.lock().clone()
    }
}

impl RunCounts {
    /// Returns the durations of finished runs.
    pub(super) fn duration_samples(&self, labels: &BTreeMap<String, String>) -> Vec<Sample> {
        self.durations.samples(labels)
    }
}
