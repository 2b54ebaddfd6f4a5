//! Parsing of points in time on the command line.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Units of time with their lengths in seconds.
const UNITS: [(char, i64); 5] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];

/// Parses a point in time: an age (`2h`, `1h30m`, `3d`), a day in UTC, or a timestamp. Returns it in ISO 8601.
pub(in crate::commands) fn parse_moment(text: &str) -> Result<String, String> {
    moment_at(text, Timestamp::now()).map(|moment| moment.to_string()).ok_or_else(|| {
        "must be an age such as 30m, 2h, 3d, a day such as 2026-01-31, or a timestamp such as 2026-01-31T12:00:00Z"
            .to_owned()
    })
}

fn moment_at(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(moment) = text.parse() {
        return Some(moment);
    }
    if let Some(seconds) = parse_age(text) {
        return now.checked_sub(SignedDuration::from_secs(seconds)).ok();
    }
    Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Parses an age and returns it in seconds.
pub(in crate::commands) fn parse_age(text: &str) -> Option<i64> {
    let (mut seconds, mut remaining) = (0i64, text);
    while !remaining.is_empty() {
        let unit = remaining.find(|character: char| !character.is_ascii_digit())?;
        let (number, after) = remaining.split_at(unit);
        let mut after = after.chars();
        let name = after.next()?;
        let (_, unit_seconds) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(unit_seconds)?)?;
        remaining = after.as_str();
    }
    Some(seconds).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_an_age_a_day_or_a_timestamp() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let parse = |text: &str| moment_at(text, now).map(|moment| moment.to_string());
        for (text, expected) in [
            ("90s", "2026-03-01T11:58:30Z"),
            ("1h30m", "2026-03-01T10:30:00Z"),
            ("1w", "2026-02-22T12:00:00Z"),
            ("2026-02-28", "2026-02-28T00:00:00Z"),
            ("2026-02-28T13:00:00+01:00", "2026-02-28T12:00:00Z"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "h", "2", "2x", "-2h", "yesterday", "9999999999999999999h", "99999999999w", "2026-02-30"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
