//! Quiet hours of rules.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde::Deserialize;
use steplatch_clock::Timestamp;

/// Hours of each day without notifications, such as `22:00-07:00`, in local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl TryFrom<String> for QuietHours {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        let (from, to) = text.split_once('-').unwrap_or_default();
        match (time(from), time(to)) {
            (Some(from), Some(to)) if from != to => Ok(Self { from, to }),
            _ => Err("must be two different times of day, such as 22:00-07:00"),
        }
    }
}

impl std::fmt::Display for QuietHours {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.from.strftime("%H:%M"), self.to.strftime("%H:%M"))
    }
}

impl QuietHours {
    /// Returns the first moment from `at` on that is not quiet.
    #[must_use]
    pub fn end_after(self, at: Timestamp, zone: &TimeZone) -> Timestamp {
        let Ok(moment) = jiff::Timestamp::from_microsecond(at.0) else { return at };
        let local = zone.to_datetime(moment);
        let time = local.time();
        let (is_quiet, ends_tomorrow) = match self.from < self.to {
            true => (self.from <= time && time < self.to, false),
            false => (self.from <= time || time < self.to, self.from <= time),
        };
        if !is_quiet {
            return at;
        }
        let date = if ends_tomorrow { local.date().tomorrow() } else { Ok(local.date()) };
        let end = date.and_then(|date| date.to_datetime(self.to).to_zoned(zone.clone()));
        // A clock that is set back at the end of summer time passes the same time of day twice.
        end.map_or(at, |end| Timestamp(end.timestamp().as_microsecond()).max(at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn timestamp(text: &str) -> Timestamp {
        steplatch_clock::parse_iso8601(text).unwrap()
    }

    fn quiet(text: &str) -> QuietHours {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn quiet_hours_end_in_local_time() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let night = quiet("22:00-07:00");
        for (at, end) in [
            ("2026-01-10T20:59:59Z", "2026-01-10T20:59:59Z"),
            ("2026-01-10T21:00:00Z", "2026-01-11T06:00:00Z"),
            ("2026-01-11T05:59:59Z", "2026-01-11T06:00:00Z"),
            ("2026-01-11T06:00:00Z", "2026-01-11T06:00:00Z"),
            // The first night of summer time is an hour shorter.
            ("2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"),
        ] {
            assert_eq!(night.end_after(timestamp(at), &berlin), timestamp(end), "{at}");
        }
        let noon = quiet("12:00 - 13:30");
        assert_eq!(noon.end_after(timestamp("2026-01-10T11:10:00Z"), &berlin), timestamp("2026-01-10T12:30:00Z"));
        for text in ["", "22:00", "22:00-22:00", "25:00-07:00", "22-7"] {
            assert!(QuietHours::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn end_of_quiet_hours_is_not_quiet_and_within_a_day(
            micros in 0..4_000_000_000_000_000_i64, from in 0..1440, to in 0..1440
        ) {
            prop_assume!(from != to);
            let time = |minutes: i32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
            let hours = quiet(&format!("{}-{}", time(from), time(to)));
            for zone in ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"] {
                let zone = TimeZone::get(zone).unwrap();
                let end = hours.end_after(Timestamp(micros), &zone);
                prop_assert!(end >= Timestamp(micros));
                prop_assert!(end.since(Timestamp(micros)) <= Duration::from_secs(25 * 3_600));
                let again = hours.end_after(end, &zone);
                // An hour that a clock passes twice may begin to be quiet again.
                prop_assert!(again == end || again.since(end) <= Duration::from_secs(25 * 3_600));
            }
        }
    }
}
