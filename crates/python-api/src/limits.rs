//! The limits of one execution.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one execution. It fails if it exceeds a limit; it can catch only the failure of the recursion limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum memory of its values, in bytes. Enforced if the process counts its allocations, as a worker does.
    pub memory: usize,
    /// Maximum computing time between two calls, without waits.
    pub time: Duration,
    /// Maximum recursion depth of its functions.
    pub recursion: usize,
    /// Maximum number of calls, including events and output.
    pub calls: u64,
    /// Maximum size of calls, events and output before an answer, in bytes.
    pub told: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, time: Duration::from_secs(5), recursion: 500, calls: 100_000, told: 8 << 20 }
    }
}

impl Limits {
    /// Returns the maximum silence of a worker that is busy with the execution. A worker that is silent for longer is
    /// stuck in code without a time limit, and must be killed.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        self.time * REPLAY_TIME_FACTOR + GRACE_PERIOD
    }
}

/// Factor of the time limit during a replay, so that a slower machine does not fail the function.
pub const REPLAY_TIME_FACTOR: u32 = 4;

/// Additional time for a loaded machine.
const GRACE_PERIOD: Duration = Duration::from_secs(5);
