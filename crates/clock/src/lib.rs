//! Wall-clock time: [`Timestamp`] (microseconds since the Unix epoch), its ISO 8601 form, and the system clock.
//!
//! A component whose timers a test may move takes a [`Clock`] and reads no other clock. Depends on no other crate of
//! the workspace.

mod clock;
mod span;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use clock::{Clock, Elapsed, ManualClock};
pub use span::Span;

/// Microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the seconds since the Unix epoch, as replies and logs show them.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        // 2^53 microseconds are 285 years, so no digit is lost before the year 2255.
        #[allow(clippy::cast_precision_loss)]
        let micros = self.0 as f64;
        micros / 1e6
    }

    /// Returns the time from `earlier` to this time; zero if the clock was set back in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the end, as seen at `now`, of a wait of `duration` that began at this time: at most `duration` after
    /// `now`, so that a clock that was set back does not prolong the wait.
    #[must_use]
    pub fn end_of(self, duration: Duration, now: Self) -> Self {
        self.min(now).after(duration)
    }

    /// Returns the time `duration` after this one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Reads the system clock.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_microsecond())
}

/// Reads the system clock, as ISO 8601 in UTC with milliseconds.
#[must_use]
pub fn now_iso8601() -> String {
    to_iso8601(now())
}

/// Formats a point in time as ISO 8601 in UTC with milliseconds.
#[must_use]
pub fn to_iso8601(timestamp: Timestamp) -> String {
    // jiff's range ends with the year 9999.
    let timestamp = jiff::Timestamp::from_microsecond(timestamp.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// Parses a point in time from ISO 8601.
#[must_use]
pub fn parse_iso8601(text: &str) -> Option<Timestamp> {
    text.trim().parse::<jiff::Timestamp>().ok().map(|time| Timestamp(time.as_microsecond()))
}

/// Formats a reading of the system clock as ISO 8601 in UTC with milliseconds.
#[must_use]
pub fn system_iso8601(time: SystemTime) -> String {
    // jiff's range ends with the year 9999.
    let timestamp = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// Returns the seconds since the Unix epoch; 0 before it.
#[must_use]
pub fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_set_back_gives_zero_duration() {
        assert_eq!(Timestamp(1_000).since(Timestamp(5_000)), Duration::ZERO);
        assert_eq!(Timestamp(5_000).since(Timestamp(1_000)), Duration::from_millis(4));
        let ends = |now| Timestamp(5_000).end_of(Duration::from_millis(4), Timestamp(now));
        assert_eq!((ends(7_000), ends(5_000), ends(1_000)), (Timestamp(9_000), Timestamp(9_000), Timestamp(5_000)));
        assert_eq!(Timestamp(i64::MAX).after(Duration::MAX), Timestamp(i64::MAX));
    }

    #[test]
    fn times_are_formatted_in_utc_with_milliseconds() {
        assert_eq!(to_iso8601(Timestamp(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
    }
}
