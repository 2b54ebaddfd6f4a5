//! Points in time, as the caller tells them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch.
///
/// This crate never asks what time it is: every timestamp comes in with an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the seconds since the Unix epoch, as replies and logs show them.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        // 2^53 microseconds are 285 years: no digit is lost in ours.
        #[allow(clippy::cast_precision_loss)]
        let micros = self.0 as f64;
        micros / 1e6
    }

    /// Returns the time from `earlier` to here; none when the clock was set back in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns when what began at this point and takes `whole` is over, as seen at `now`: never later than `whole` from now. A clock
    /// that was set back would hold it up for as long as it was set back.
    #[must_use]
    pub fn end_of(self, whole: Duration, now: Self) -> Self {
        self.min(now).after(whole)
    }

    /// Returns the point `duration` after this one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

/// Says a duration as people read it: `30s`, `0.5s`.
pub(crate) fn spoken(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// Durations in stored records: seconds as a number.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        duration.as_secs_f64().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// As [`seconds`], for a duration that may be missing.
pub(crate) mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    // The shape is serde's: it hands over the field as it is.
    #[allow(clippy::ref_option)]
    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_gives_no_time_at_all() {
        assert_eq!(Timestamp(1_000).since(Timestamp(5_000)), Duration::ZERO);
        assert_eq!(Timestamp(5_000).since(Timestamp(1_000)), Duration::from_millis(4));
        let ends = |now| Timestamp(5_000).end_of(Duration::from_millis(4), Timestamp(now));
        assert_eq!((ends(7_000), ends(5_000), ends(1_000)), (Timestamp(9_000), Timestamp(9_000), Timestamp(5_000)));
        assert_eq!(Timestamp(i64::MAX).after(Duration::MAX), Timestamp(i64::MAX));
    }

    #[test]
    fn durations_are_said_as_people_read_them() {
        assert_eq!(spoken(Duration::from_secs(30)), "30s");
        assert_eq!(spoken(Duration::from_millis(100)), "0.1s");
    }
}
