//! Spans of time in settings and arguments.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// A span of time, such as `30s`, `5m`, `1h` or `2d`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

/// Maximum length of a span.
const MAX_SPAN: Duration = Duration::from_secs(30 * 86_400);

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORMS: &str = "must be a number with a unit, at most 30 days, such as 30s, 5m, 1h or 2d";
        let text = text.trim();
        let (number, unit) = text.split_at(text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len()));
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return Err(FORMS),
        };
        let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
        seconds.map(Duration::from_secs).filter(|span| *span <= MAX_SPAN).map(Self).ok_or(FORMS)
    }
}

impl TryFrom<String> for Span {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_a_number_and_a_unit() {
        for (text, seconds) in [("30s", 30), ("5m", 300), (" 1h ", 3_600), ("2d", 172_800), ("0s", 0)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_secs(seconds))));
        }
        for text in ["", "5", "m", "-1s", "1.5h", "31d", "99999999999999999999s", "5 m", "5min"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
