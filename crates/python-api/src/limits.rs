//! The limits of one execution.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one execution. Exceeding one fails it, uncatchably except for the recursion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Bytes that its values may take. It holds where the process counts its allocations, as a worker does.
    pub memory: usize,
    /// Time that it may compute between two calls; waiting does not count.
    pub time: Duration,
    /// Maximum depth of the calls of its functions.
    pub recursion: usize,
    /// Calls in all, with what it emits and prints.
    pub calls: u64,
    /// Bytes that it may ask for, emit and print before it is answered.
    pub told: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, time: Duration::from_secs(5), recursion: 500, calls: 100_000, told: 8 << 20 }
    }
}

impl Limits {
    /// Returns the longest silence of a worker that is busy with this. One that is silent for longer is stuck where
    /// the interpreter counts no time, and has to be killed.
    #[must_use]
    pub fn longest_silence(&self) -> Duration {
        self.time * REPLAY_TIME_FACTOR + GRACE
    }
}

/// Factor by which a function may compute longer while it is replayed: a slower machine must not fail it.
pub const REPLAY_TIME_FACTOR: u32 = 4;

/// The time that a loaded machine may take besides executing the function.
const GRACE: Duration = Duration::from_secs(5);
