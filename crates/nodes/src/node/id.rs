//! The names of nodes, graphs and steps.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// The id of a node, a graph or a step: `^[A-Za-z][A-Za-z0-9_-]*$`, 64 characters at most.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct NodeId(String);

/// Error for a string that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an id: a letter, then letters, digits, '_' or '-', 64 in all at most")]
pub struct InvalidNodeId(String);

/// Maximum length of an id.
const MAX_ID_BYTES: usize = 64;

impl NodeId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(text: &str) -> Result<Self, InvalidNodeId> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let begins_with_letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if begins_with_letter && text.len() <= MAX_ID_BYTES && text.bytes().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidNodeId(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for NodeId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NodeId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,63}$"})
    }
}
