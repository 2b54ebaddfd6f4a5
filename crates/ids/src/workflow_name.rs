//! Workflow names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::InvalidId;

/// The name of a machine workflow: `^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`.
///
/// It becomes a file name in the library and part of a tool's name, hence the limited alphabet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowName(String);

impl WorkflowName {
    /// Returns the name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkflowName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let well_formed = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| word(byte) || byte == b'-')
            && !text.starts_with('-');
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId::new(text, "a workflow name (1 to 64 letters, digits, '_' or '-', not beginning with '-')"))
        }
    }
}

impl fmt::Display for WorkflowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for WorkflowName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WorkflowName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_file_names_are_accepted() {
        for bad in ["", "..", "a/b", "-x", "a b", "ä", &"x".repeat(65)] {
            assert!(bad.parse::<WorkflowName>().is_err(), "{bad:?}");
        }
        for good in ["a", "_a", "0", "build_project", "a-b", &"x".repeat(64)] {
            assert!(good.parse::<WorkflowName>().is_ok(), "{good:?}");
        }
    }
}
