//! The limits of one execution.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one execution. An execution that exceeds a limit fails. A function can catch only the error of the
/// recursion limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum memory of the execution's values, in bytes. Enforced if the process counts its allocations, as a worker
    /// does.
    pub memory: usize,
    /// Maximum computing time between two calls, without waits.
    pub time: Duration,
    /// Maximum recursion depth of functions.
    pub recursion: usize,
    /// Maximum number of calls, including events and output.
    pub calls: u64,
    /// Maximum size of calls, events and output before an answer, in bytes.
    #[serde(rename = "told")]
    pub sent_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, time: Duration::from_secs(5), recursion: 500, calls: 100_000, sent_bytes: 8 << 20 }
    }
}

impl Limits {
    /// Returns the maximum silence of a worker that is busy with the execution. A worker that is silent for longer is
    /// stuck in code without a time limit, and must be killed.
    #[must_use]
    pub fn max_silence(&self) -> Duration {
        self.time * REPLAY_TIME_FACTOR + GRACE_PERIOD
    }
}

/// Factor of the time limit during a replay, so that a function does not fail on a slower host.
pub const REPLAY_TIME_FACTOR: u32 = 4;

/// Additional time for a busy host.
const GRACE_PERIOD: Duration = Duration::from_secs(5);
