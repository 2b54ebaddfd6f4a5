//! Time spans in declarations.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// A duration in a declaration: a number of seconds, from 0 to a day.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Seconds(f64);

const MAX_SECONDS: f64 = 86_400.0;

impl Seconds {
    /// One second.
    pub(crate) const ONE: Self = Self(1.0);

    /// The maximum: a day.
    pub(crate) const MAX: Self = Self(MAX_SECONDS);

    /// Returns the duration of `seconds`; `None` if the number is negative, more than a day, or not finite.
    #[must_use]
    pub fn new(seconds: f64) -> Option<Self> {
        (0.0..=MAX_SECONDS).contains(&seconds).then_some(Self(seconds))
    }

    /// Returns the duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        let out_of_range = || serde::de::Error::custom(format!("{seconds} is not a number of seconds from 0 to 86400"));
        Self::new(seconds).ok_or_else(out_of_range)
    }
}

impl JsonSchema for Seconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": MAX_SECONDS})
    }
}
