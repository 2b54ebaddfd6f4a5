//! The formats that a text field may require.

/// A text format, named as in JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Email,
    Uri,
    Date,
    DateTime,
    /// A text that is invisible during input, and absent from records.
    Password,
}

impl Format {
    pub(super) const ALL: [Self; 5] = [Self::Email, Self::Uri, Self::Date, Self::DateTime, Self::Password];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Password => "password",
        }
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Email => "an address such as ana@example.com",
            Self::Uri => "an address such as https://example.com",
            Self::Date => "a date such as 2026-01-31",
            Self::Password => "a text that is not shown",
            Self::DateTime => "a time such as 2026-01-31T09:30:00Z",
        }
    }

    /// Returns whether text has this format. Detects typing mistakes, but does not prove that the value exists.
    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                !name.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(char::is_whitespace)
            }),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                let is_scheme_character =
                    |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
                scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                    && scheme.chars().all(is_scheme_character)
                    && !rest.is_empty()
                    && !rest.contains(char::is_whitespace)
            }),
            Self::Password => !text.is_empty(),
            Self::Date => is_date(text),
            Self::DateTime => {
                let parts = text.split_once(['T', 't']);
                parts.is_some_and(|(date, time)| is_date(date) && is_time(time))
            }
        }
    }
}

/// Returns whether text is a date such as `2026-01-31`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap_year => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Returns whether text is a time such as `09:30:00Z`, with an optional fraction, and `Z` or an offset `+02:00`.
fn is_time(text: &str) -> bool {
    let Some(time) = text.get(..8) else { return false };
    let zone = text[8..].trim_start_matches(|character: char| character == '.' || character.is_ascii_digit());
    let is_offset = |zone: &str| {
        let clock = zone.strip_prefix(['+', '-']).and_then(|clock| clock.split_once(':'));
        clock.is_some_and(|(hours, minutes)| within(hours, 23) && within(minutes, 59))
    };
    let parts: Vec<&str> = time.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else { return false };
    let is_zone = matches!(zone, "Z" | "z") || is_offset(zone);
    within(hours, 23) && within(minutes, 59) && within(seconds, 60) && is_zone
}

fn within(text: &str, max: u32) -> bool {
    digits(text, 2).is_some_and(|number| number <= max)
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_only_matching_texts() {
        for (name, good, bad) in [
            ("email", "ana@example.com", "ana.example.com"),
            ("email", "a@b", "a b@c"),
            ("uri", "https://example.com/x?y", "example"),
            ("uri", "urn:isbn:1", ":nothing"),
            ("date", "2024-02-29", "2026-02-29"),
            ("date", "2000-02-29", "1900-02-29"),
            ("date", "2026-12-31", "2026-13-01"),
            ("date-time", "2026-01-31T09:30:00Z", "2026-01-31 09:30:00Z"),
            ("date-time", "2026-01-31T09:30:00.25+02:00", "2026-01-31T09:30:00"),
            ("date-time", "2026-01-31T23:59:60z", "2026-01-31T24:00:00Z"),
        ] {
            let format = Format::from_name(name).unwrap();
            assert!(format.holds(good), "{name} {good}");
            assert!(!format.holds(bad), "{name} {bad}");
        }
        assert!(!Format::DateTime.holds("2026-01-31Tüüüü"), "a boundary inside a character does not panic");
    }
}
