//! Random ids: `run_…` and `term_…`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use xxhash_rust::xxh3::xxh3_128;

use crate::{InvalidId, StepId};

/// Crockford's base 32 in lower case: without letters that people confuse.
/// Source: <https://www.crockford.com/base32.html>.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Draws `length` characters of five random bits each.
///
/// # Panics
/// If the operating system provides no random bytes.
fn draw(length: usize) -> String {
    let mut bytes = vec![0u8; length];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
}

/// Draws a name that cannot be guessed and is unique: 130 random bits.
///
/// # Panics
/// If the operating system provides no random bytes.
#[must_use]
pub fn random_name() -> String {
    draw(26)
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $length:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Draws a new id.
            #[must_use]
            pub fn random() -> Self {
                Self(format!(concat!($prefix, "{}"), draw($length)))
            }

            /// Returns the id as a string.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = || InvalidId::new(text, $expected);
                let digits = text.strip_prefix($prefix).ok_or_else(invalid)?;
                let well_formed = digits.len() == $length && digits.bytes().all(|byte| ALPHABET.contains(&byte));
                if well_formed { Ok(Self(text.to_owned())) } else { Err(invalid()) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    };
}

random_id! {
    /// Id of a run, the same for all clients and across restarts.
    RunId, "run_", 16, "a run id (run_ and 16 characters)"
}

impl RunId {
    /// Returns the id of the run that a step of another run starts. It is derived from the step, so that a step never
    /// starts a second run.
    #[must_use]
    pub fn started_by(step: &StepId) -> Self {
        let mut hash = xxh3_128(step.to_string().as_bytes());
        let characters = std::iter::repeat_with(|| {
            let character = char::from(ALPHABET[(hash & 31) as usize]);
            hash >>= 5;
            character
        });
        Self(format!("run_{}", characters.take(16).collect::<String>()))
    }
}

random_id! {
    /// Id of a live terminal, called `session_id` in the tools.
    TerminalId, "term_", 10, "a session id (term_ and 10 characters)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips_through_text() {
        for _ in 0..100 {
            let id = RunId::random();
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn id_of_a_child_run_derives_from_its_step() {
        let parent = RunId::random();
        let step = |visit| StepId { run: parent.clone(), place: "deploy".into(), visit };
        let child_run = RunId::started_by(&step(1));
        assert_eq!(child_run, RunId::started_by(&step(1)));
        assert_ne!(child_run, RunId::started_by(&step(2)));
        assert_eq!(child_run.to_string().parse(), Ok(child_run));
        // Histories contain this form, so it must not change.
        let known = StepId { run: "run_0123456789abcdef".parse().unwrap(), place: "a".into(), visit: 1 };
        assert_eq!(RunId::started_by(&known).as_str(), "run_r3qm5cwy6v9a81px");
    }

    #[test]
    fn id_of_another_kind_is_refused_with_the_expected_prefix() {
        let error = "term_0123456789".parse::<RunId>().unwrap_err();
        assert_eq!(error.to_string(), "'term_0123456789' is not a run id (run_ and 16 characters)");
        assert!("term_".parse::<TerminalId>().is_err());
        assert!("term_012345678O".parse::<TerminalId>().is_err(), "the alphabet has no capital O");
    }
}
