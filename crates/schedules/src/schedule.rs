//! A schedule, as it was added.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_clock::Timestamp;

use crate::trigger::Trigger;

/// Maximum number of schedules.
pub const MAX_SCHEDULES: usize = 1000;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// A name that a schedule cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a name of a schedule: a letter or digit, then letters, digits, '-' and '_', at most 64")]
pub struct InvalidName(String);

/// Checks the name of a schedule.
///
/// # Errors
/// If the name is empty, too long, or has other characters than ASCII letters, digits, `-` and `_`.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let is_valid = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME_CHARS
        && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_'));
    if is_valid { Ok(()) } else { Err(InvalidName(name.to_owned())) }
}

/// The rule for times at which no daemon ran, or the computer slept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// One run for all missed times, as of the first of them.
    #[default]
    CatchUp,
    /// No run.
    Skip,
    /// One run for all missed times, as of the last of them.
    Latest,
}

/// The rule for a start while the last run of the schedule has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// The start is left out.
    #[default]
    Skip,
    /// The start waits for the end of that run.
    Queue,
    /// That run is cancelled first.
    CancelPrevious,
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Name, unique among the schedules.
    pub name: String,
    /// The trigger.
    pub trigger: Trigger,
    /// The rule for missed times.
    #[serde(default)]
    pub missed: MissedPolicy,
    /// The rule for a run that has not ended.
    #[serde(default)]
    pub overlap: OverlapPolicy,
    /// Maximum delay after a time of the trigger, in seconds. The delay of one time is always the same.
    #[serde(default)]
    pub jitter_seconds: u64,
    /// Time at which the schedule was added.
    pub created: Timestamp,
    /// The request for a run. This crate does not read it.
    pub request: Value,
    /// Directory in which the runs begin.
    pub directory: PathBuf,
    /// Environment of the runs.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

impl Schedule {
    /// Returns the delay of the start for one time of the trigger, which spreads the starts of equal schedules.
    pub(crate) fn delay_of(&self, scheduled: Timestamp) -> Duration {
        if self.jitter_seconds == 0 {
            return Duration::ZERO;
        }
        // FNV-1a: the same on every computer, in every version.
        let bytes = self.name.bytes().chain(scheduled.0.to_le_bytes());
        let hash =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Duration::from_millis((hash >> 16) % (self.jitter_seconds.saturating_mul(1000) + 1))
    }
}
