//! Triggers of schedules, and the times of those that have times.

use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, Zoned};
use serde::{Deserialize, Serialize};
use steplatch_clock::Timestamp;

/// Minimum interval of repetitions, in seconds.
const MIN_INTERVAL_SECONDS: u64 = 1;

/// Maximum number of missed times that are counted.
pub(crate) const MAX_COUNTED_TIMES: u32 = 1000;

/// The event that starts a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Trigger {
    /// The times of a cron expression: five fields, or six with seconds first, or seven with the year last; names such
    /// as `@daily`.
    Cron {
        /// The expression.
        expression: String,
        /// Name of the time zone, such as `Europe/Berlin`. `None` for the zone of the system.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
    },
    /// Equal intervals since the schedule was added.
    Every {
        /// The interval.
        seconds: u64,
    },
    /// A change of a file below one of these absolute paths.
    Files {
        /// Files and directories.
        paths: Vec<String>,
    },
    /// A request with a token.
    Webhook {
        /// Hash of the token.
        token_digest: String,
    },
}

/// A trigger that never starts a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrigger {
    /// The cron expression cannot be read.
    #[error(
        "'{expression}' is not a cron expression: {reason}; write minute, hour, day, month and weekday, such as \
         '30 2 * * 1-5' for 2:30 on workdays, or @daily"
    )]
    Cron {
        /// The expression.
        expression: String,
        /// The parser's reason.
        reason: String,
    },
    /// No time matches the cron expression.
    #[error("the cron expression '{0}' has no future time; check its day and month")]
    Never(String),
    /// The time zone is not known.
    #[error("'{0}' is not a time zone of this system; write a name such as Europe/Berlin or UTC")]
    Zone(String),
    /// The interval is too short.
    #[error("the interval must be at least {MIN_INTERVAL_SECONDS} s")]
    Interval,
}

/// The times of a trigger in a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueTimes {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// Number of times, at most [`MAX_COUNTED_TIMES`].
    pub(crate) count: u32,
}

impl Trigger {
    /// Checks the trigger.
    ///
    /// # Errors
    /// If it can start no run after `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), InvalidTrigger> {
        match self {
            Self::Cron { expression, zone } => {
                let cron = parse(expression)?;
                let next = cron.find_next_occurrence(&local(now, &find_zone(zone.as_deref())?), false);
                next.map(drop).map_err(|_| InvalidTrigger::Never(expression.clone()))
            }
            Self::Every { seconds } if *seconds < MIN_INTERVAL_SECONDS => Err(InvalidTrigger::Interval),
            Self::Every { .. } | Self::Files { .. } | Self::Webhook { .. } => Ok(()),
        }
    }

    /// Returns the first time after `after`. `None` for a trigger without times. `anchor` is the time at which the
    /// schedule was added.
    #[must_use]
    pub fn next_after(&self, anchor: Timestamp, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron { expression, zone } => {
                // The time zone may have been removed from the system since the schedule was added.
                let zone = find_zone(zone.as_deref()).ok()?;
                let next = parse(expression).ok()?.find_next_occurrence(&local(after, &zone), false).ok()?;
                Some(Timestamp(next.timestamp().as_microsecond()))
            }
            Self::Every { seconds } => {
                let interval = Duration::from_secs(*seconds).as_micros().max(1);
                let count = after.since(anchor).as_micros() / interval + 1;
                let offset = i64::try_from(count.saturating_mul(interval)).ok()?;
                anchor.0.checked_add(offset).map(Timestamp)
            }
            Self::Files { .. } | Self::Webhook { .. } => None,
        }
    }

    /// Returns the times after `after`, up to `until`. `None` if there are none.
    pub(crate) fn times_between(&self, anchor: Timestamp, after: Timestamp, until: Timestamp) -> Option<DueTimes> {
        let first = self.next_after(anchor, after).filter(|first| *first <= until)?;
        let (mut last, mut count) = (first, 1);
        while count < MAX_COUNTED_TIMES
            && let Some(next) = self.next_after(anchor, last).filter(|next| *next <= until)
        {
            (last, count) = (next, count + 1);
        }
        if count == MAX_COUNTED_TIMES {
            last = self.last_until(anchor, until).unwrap_or(last).max(last);
        }
        Some(DueTimes { first, last, count })
    }

    fn last_until(&self, anchor: Timestamp, until: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron { expression, zone } => {
                let zone = find_zone(zone.as_deref()).ok()?;
                let last = parse(expression).ok()?.find_previous_occurrence(&local(until, &zone), true).ok()?;
                Some(Timestamp(last.timestamp().as_microsecond()))
            }
            Self::Every { seconds } => {
                let interval = Duration::from_secs(*seconds).as_micros().max(1);
                let offset = until.since(anchor).as_micros() / interval * interval;
                anchor.0.checked_add(i64::try_from(offset).ok()?).map(Timestamp)
            }
            Self::Files { .. } | Self::Webhook { .. } => None,
        }
    }
}

fn parse(expression: &str) -> Result<Cron, InvalidTrigger> {
    let invalid = |reason: String| InvalidTrigger::Cron { expression: expression.to_owned(), reason };
    let parsed = expression.parse::<Cron>();
    parsed.map_err(|error| invalid(error.to_string().trim_end_matches('.').to_owned()))
}

fn find_zone(name: Option<&str>) -> Result<TimeZone, InvalidTrigger> {
    match name {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name).map_err(|_| InvalidTrigger::Zone(name.to_owned())),
    }
}

fn local(at: Timestamp, zone: &TimeZone) -> Zoned {
    // jiff's range ends with the year 9999.
    Instant::from_microsecond(at.0).unwrap_or(Instant::UNIX_EPOCH).to_zoned(zone.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steplatch_clock::{parse_iso8601, to_iso8601};

    use super::*;

    fn cron(expression: &str) -> Trigger {
        Trigger::Cron { expression: expression.to_owned(), zone: Some("Europe/Berlin".to_owned()) }
    }

    fn at(text: &str) -> Timestamp {
        parse_iso8601(text).unwrap()
    }

    fn next_times(trigger: &Trigger, after: &str, count: usize) -> Vec<String> {
        let times = std::iter::successors(Some(at(after)), |last| trigger.next_after(at(after), *last));
        times.skip(1).take(count).map(|time| to_iso8601(time)[..16].to_owned()).collect()
    }

    #[test]
    fn fixed_time_comes_once_a_day_at_changes_of_the_clock() {
        // In the night to summer time, 2:30 does not exist: the run starts after the gap.
        assert_eq!(
            next_times(&cron("30 2 * * *"), "2026-03-27T12:00:00Z", 3),
            ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]
        );
        // In the night from summer time, 2:30 comes twice.
        assert_eq!(
            next_times(&cron("30 2 * * *"), "2026-10-24T12:00:00Z", 3),
            ["2026-10-25T00:30", "2026-10-26T01:30", "2026-10-27T01:30"]
        );
        // Each hour is an hour, whatever the clock shows.
        assert_eq!(
            next_times(&cron("0 * * * *"), "2026-10-24T23:30:00Z", 3),
            ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"]
        );
    }

    #[test]
    fn interval_counts_from_the_addition() {
        let every = Trigger::Every { seconds: 600 };
        assert_eq!(next_times(&every, "2026-01-01T00:05:00Z", 2), ["2026-01-01T00:15", "2026-01-01T00:25"]);
    }

    #[test]
    fn mistakes_are_named() {
        let now = at("2026-01-01T00:00:00Z");
        for expression in ["", "x", "61 * * * *", "* * *", "* * * * * * * *", "@fortnightly", "0 0 * * 8"] {
            let error = cron(expression).check(now).unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{expression}' is not a cron expression: ")), "{error}");
        }
        assert_eq!(cron("0 0 30 2 *").check(now), Err(InvalidTrigger::Never("0 0 30 2 *".to_owned())));
        let zone = Trigger::Cron { expression: "@daily".to_owned(), zone: Some("Europe/Atlantis".to_owned()) };
        assert_eq!(zone.check(now), Err(InvalidTrigger::Zone("Europe/Atlantis".to_owned())));
        assert_eq!(Trigger::Every { seconds: 0 }.check(now), Err(InvalidTrigger::Interval));
        for expression in ["@daily", "*/5 * * * *", "0 30 9 * * MON-FRI", "0 0 L * *", "0 0 29 2 *"] {
            assert_eq!(cron(expression).check(now), Ok(()), "{expression}");
        }
    }

    proptest! {
        #[test]
        fn times_between_agree_with_each_other(
            expression in prop::sample::select(vec!["* * * * *", "30 2 * * *", "0 0 1 * *", "*/7 * * * * *"]),
            from in 1_760_000_000_i64..1_780_000_000, seconds in 0_i64..300_000,
        ) {
            let (from, until) = (Timestamp(from * 1_000_000), Timestamp((from + seconds) * 1_000_000));
            for trigger in [cron(expression), Trigger::Every { seconds: 97 }] {
                let Some(times) = trigger.times_between(Timestamp(7), from, until) else { continue };
                prop_assert!(from < times.first && times.first <= times.last && times.last <= until);
                prop_assert_eq!(Some(times.first), trigger.next_after(Timestamp(7), from));
                prop_assert!(trigger.next_after(Timestamp(7), times.last).is_none_or(|next| next > until));
            }
        }
    }
}
