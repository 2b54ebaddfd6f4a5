//! Durations in messages and in stored records.

use std::time::Duration;

/// Returns a duration as text in seconds: `30s`, `0.5s`.
pub(crate) fn seconds_text(duration: Duration) -> String {
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

/// Same as [`seconds`], for an optional duration.
pub(crate) mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    // serde requires this signature.
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
    fn durations_are_formatted_for_people() {
        assert_eq!(seconds_text(Duration::from_secs(30)), "30s");
        assert_eq!(seconds_text(Duration::from_millis(100)), "0.1s");
    }
}
