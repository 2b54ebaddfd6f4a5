//! Time limits and delays of runs, as clients specify them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Minimum time, in seconds, that a timer treats as endless.
const MIN_ENDLESS_SECONDS: f64 = 1e9;

/// A number of seconds, exactly as specified by a client or a function. The number may be negative, or exceed the range
/// of [`Duration`], because entries and texts repeat it exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TimeSpan(f64);

impl TimeSpan {
    /// Returns a time span of this many seconds.
    pub(crate) fn from_seconds(seconds: f64) -> Self {
        Self(seconds)
    }

    /// Returns the number of seconds, for a protocol.
    pub(crate) fn seconds(self) -> f64 {
        self.0
    }

    /// Returns whether no time is left.
    pub(crate) fn is_elapsed(self) -> bool {
        self.0 <= 0.0
    }

    /// Returns the time. `None` (no limit) if the time is negative or too long for a [`Duration`].
    pub(crate) fn duration(self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.0).ok()
    }

    /// Returns the duration of a timer: zero for a negative time, endless (`None`) for a very long one.
    pub(crate) fn timer(self) -> Option<Duration> {
        (self.0 < MIN_ENDLESS_SECONDS).then(|| Duration::from_secs_f64(self.0.max(0.0)))
    }
}

impl From<Duration> for TimeSpan {
    fn from(duration: Duration) -> Self {
        Self(duration.as_secs_f64())
    }
}

/// The number of seconds, without a unit.
impl fmt::Display for TimeSpan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_texts_preserve_any_number_exactly() {
        for (json, text) in [
            ("0.5", "0.5"),
            ("1.0", "1"),
            ("2.5", "2.5"),
            ("60.0", "60"),
            ("-3.0", "-3"),
            ("0.3333333333333333", "0.3333333333333333"),
            ("1e+300", &format!("1{}", "0".repeat(300))),
        ] {
            let span: TimeSpan = serde_json::from_str(json).unwrap();
            assert_eq!((serde_json::to_string(&span).unwrap().as_str(), span.to_string().as_str()), (json, text));
        }
        assert_eq!(serde_json::from_str::<TimeSpan>("60").unwrap(), TimeSpan::from(Duration::from_secs(60)));
    }

    #[test]
    fn negative_timer_is_due_at_once_and_very_long_one_never() {
        let timer = |seconds| TimeSpan::from_seconds(seconds).timer();
        assert_eq!((timer(-1.0), timer(2.5)), (Some(Duration::ZERO), Some(Duration::from_millis(2500))));
        assert_eq!((timer(1e9), timer(1e300)), (None, None));
        let limit = |seconds| TimeSpan::from_seconds(seconds).duration();
        assert_eq!((limit(-1.0), limit(1e9), limit(1e300)), (None, Some(Duration::from_secs(1_000_000_000)), None));
    }
}
