//! Verbs about the approver: the passphrase that is required for people's answers, if one is set.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A passphrase in transit. Its debug output is redacted, so that no log contains it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Passphrase(pub String);

impl fmt::Debug for Passphrase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Passphrase(…)")
    }
}

/// Report the requirements for people's answers to gates.
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
    /// Time at which the passphrase was set (ISO 8601, UTC)
    pub since: Option<String>,
    /// Weakest proof of a person that gates accept: none, dialog, terminal, passphrase or passkey
    pub requires: Option<String>,
    /// The setting gates.require, if it is weaker: it takes effect once a person has confirmed it
    pub unconfirmed: Option<String>,
    /// Minutes for which a tab of the page may keep the passphrase (gates.remember_minutes); absent if that is off
    pub remember_minutes: Option<u64>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Set the passphrase that people's answers to gates require, or remove it. The current passphrase is required first.
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
    /// True if the passphrase was changed
    pub success: bool,
    /// True if a passphrase is set now
    #[serde(default)]
    pub is_set: bool,
    /// True if the current passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set if this one was not checked because of earlier wrong ones
    pub retry_after_seconds: Option<u64>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Confirm a weaker setting gates.require, so that it takes effect. Only a person can confirm it, and open gates keep
/// their requirement.
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
    /// True if the setting is in effect
    pub success: bool,
    /// Weakest proof of a person that gates accept
    pub requires: Option<String>,
    /// True if the passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set if this one was not checked because of earlier wrong ones
    pub retry_after_seconds: Option<u64>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Unlock the runs that wait for a person and have been locked since the daemon restarted.
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
    /// Number of unlocked runs, which continue
    #[serde(default)]
    pub runs: usize,
    /// True if the passphrase is missing or wrong
    #[serde(default)]
    pub passphrase_wanted: bool,
    /// Seconds until a passphrase is checked again; set if this one was not checked because of earlier wrong ones
    pub retry_after_seconds: Option<u64>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrase_is_serialized_but_not_in_debug_output() {
        let verb = SetApprover { passphrase: Some(Passphrase("correct horse".to_owned())), current: None };
        assert_eq!(serde_json::to_string(&verb).unwrap(), r#"{"passphrase":"correct horse"}"#);
        assert!(!format!("{verb:?}").contains("horse"));
    }
}
