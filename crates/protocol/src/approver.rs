//! Verbs about the approver: the passphrase that is required for people's answers, if one is set.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A passphrase on its way. It is in no log: its debug output is redacted.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Passphrase(pub String);

impl fmt::Debug for Passphrase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Passphrase(…)")
    }
}

/// Report whether the gates of people need a passphrase.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetApprover {}

/// State of the approver.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetApproverReply {
    /// True if the state could be determined
    pub success: bool,
    /// True if a passphrase is set
    #[serde(default)]
    pub is_set: bool,
    /// Time at which it was set (ISO 8601, UTC)
    pub since: Option<String>,
    /// The weakest proof of a person that gates accept: none, dialog, terminal, passphrase or passkey
    pub requires: Option<String>,
    /// The setting gates.require, if it is weaker: it counts once a person has confirmed it
    pub unconfirmed: Option<String>,
    /// Minutes for which a tab of the page may keep the passphrase (gates.remember_minutes); absent if that is off
    pub remember_minutes: Option<u64>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Set the passphrase that the gates of people need from now on, or remove it. The current one is required first.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SetApprover {
    /// The new passphrase. Omit it to remove the requirement
    pub passphrase: Option<Passphrase>,
    /// The current passphrase
    pub current: Option<Passphrase>,
}

/// Result of the change.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SetApproverReply {
    /// True if the change was made
    pub success: bool,
    /// True if a passphrase is set now
    #[serde(default)]
    pub is_set: bool,
    /// True if the current passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    pub retry_after_seconds: Option<u64>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Confirm a weaker setting gates.require, so that it counts: only a person does, and waiting questions keep their requirement.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LowerRequirement {
    /// The approver's passphrase, if one is set
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// The proof that gates require now.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LowerRequirementReply {
    /// True if the setting counts
    pub success: bool,
    /// The weakest proof of a person that gates accept
    pub requires: Option<String>,
    /// True if the passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    pub retry_after_seconds: Option<u64>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Unlock the runs that wait for a person and are locked since the daemon was restarted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct UnlockRuns {
    /// The approver's passphrase
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// Number of runs that were unlocked.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct UnlockRunsReply {
    /// True if no run is locked now
    pub success: bool,
    /// Runs that were locked and continue
    #[serde(default)]
    pub runs: usize,
    /// True if the passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set where this one was not checked, because wrong ones came before it
    pub retry_after_seconds: Option<u64>,
    /// The error and what to do
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrase_is_sent_but_not_printed() {
        let verb = SetApprover { passphrase: Some(Passphrase("correct horse".to_owned())), current: None };
        assert_eq!(serde_json::to_string(&verb).unwrap(), r#"{"passphrase":"correct horse"}"#);
        assert!(!format!("{verb:?}").contains("horse"));
    }
}
