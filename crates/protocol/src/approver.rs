//! Verbs about the approver: the passphrase that people's answers need, where one is set.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A passphrase on its way. It is in no log: what is printed of it for developers says nothing.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Passphrase(pub String);

impl fmt::Debug for Passphrase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Passphrase(…)")
    }
}

/// Tell whether the gates of people need a passphrase.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetApprover {}

/// Whether they do.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetApproverReply {
    /// Whether it could be told
    pub success: bool,
    /// Whether a passphrase is set
    #[serde(default)]
    pub is_set: bool,
    /// Since when (ISO 8601, UTC)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The weakest proof of a person that gates accept: none, dialog, terminal, passphrase or passkey
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<String>,
    /// The setting gates.require, if it is weaker: it counts once a person has confirmed it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<String>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Set the passphrase that the gates of people need from now on, or take it away. One that is set is asked for first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SetApprover {
    /// The new one; without it none is needed any more
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
    /// The one that is set
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Passphrase>,
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SetApproverReply {
    /// Whether it is as was asked
    pub success: bool,
    /// Whether a passphrase is set now
    #[serde(default)]
    pub is_set: bool,
    /// Whether the one that is set is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Let the setting gates.require count where it was made weaker: only a person does, and questions that wait keep what they require.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LowerRequirement {
    /// The approver's passphrase, if one is set
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// The proof that gates require now.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LowerRequirementReply {
    /// Whether the setting counts
    pub success: bool,
    /// The weakest proof of a person that gates accept
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<String>,
    /// Whether the passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Open the runs that wait for a person and are locked since the daemon was started anew.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct UnlockRuns {
    /// The approver's passphrase
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// How many runs were opened.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct UnlockRunsReply {
    /// Whether no run is locked now
    pub success: bool,
    /// Runs that were locked and go on
    #[serde(default)]
    pub runs: usize,
    /// Whether the passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// What went wrong and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_is_sent_and_not_printed() {
        let verb = SetApprover { passphrase: Some(Passphrase("correct horse".to_owned())), current: None };
        assert_eq!(serde_json::to_string(&verb).unwrap(), r#"{"passphrase":"correct horse"}"#);
        assert!(!format!("{verb:?}").contains("horse"));
    }
}
