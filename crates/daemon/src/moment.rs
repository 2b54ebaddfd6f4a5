//! Points in time, as they are told and as they are reckoned with.

use std::time::{SystemTime, UNIX_EPOCH};

use steplatch_workflow::Timestamp;

/// Now, in microseconds since 1970.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_microsecond())
}

/// Now, as ISO 8601 in UTC with milliseconds.
pub(crate) fn now_told() -> String {
    told(now())
}

/// A point in time as ISO 8601 in UTC with milliseconds.
pub(crate) fn told(at: Timestamp) -> String {
    // Out of jiff's range would be the year 10,000.
    let at = jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// Reads a point in time from ISO 8601.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    text.trim().parse::<jiff::Timestamp>().ok().map(|at| Timestamp(at.as_microsecond()))
}

/// A reading of the system's clock as ISO 8601 in UTC with milliseconds.
pub(crate) fn clock_told(at: SystemTime) -> String {
    // Out of jiff's range would be the year 10,000.
    let at = jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// Seconds since 1970.
pub(crate) fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).map(|since| since.as_secs_f64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc_with_milliseconds() {
        assert_eq!(told(Timestamp(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
    }
}
