//! Verbs about passkeys: keys on a person's device that sign answers to gates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approver::Passphrase;
use crate::page::PageSecret;

/// Get a ticket to register one passkey in the page. Only a person in their own terminal gets one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AddPasskey {
    /// The approver's passphrase, if one is set
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// The ticket.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AddPasskeyReply {
    /// True if a ticket was issued
    pub success: bool,
    /// The ticket
    pub ticket: Option<PageSecret>,
    /// Seconds until the ticket expires
    #[serde(default)]
    pub expires_seconds: u64,
    /// True if the approver's passphrase is missing or wrong
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passphrase_wanted: bool,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Register a passkey that a browser has created. The ticket of `steplatch gates passkey add` is valid once. The
/// passkey signs answers once the person has confirmed its short name in their own terminal. The browser must be logged
/// in to the page.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RegisterPasskey {
    /// The ticket
    pub ticket: PageSecret,
    /// Client data that the browser collected (base64url)
    pub client_data: String,
    /// Authenticator data, with the new key (base64url)
    pub authenticator_data: String,
    /// Name for the passkey, such as that of the device
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// The passkey.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RegisterPasskeyReply {
    /// True if the passkey waits for the person's confirmation
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Wait until a browser has registered a passkey with a ticket, or the ticket expires.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AwaitPasskey {
    /// The ticket
    pub ticket: PageSecret,
}

/// The passkey, which signs nothing until it is confirmed.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AwaitPasskeyReply {
    /// True if a passkey was registered
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// Confirm a passkey that a browser has registered, or discard it. Only a person in their own terminal can do this.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmPasskey {
    /// Complete short name of the passkey, as shown on the page
    pub passkey_id: String,
    /// Discard the passkey instead
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discard: bool,
}

/// The passkey; it signs answers once confirmed.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmPasskeyReply {
    /// True if the passkey was confirmed, or discarded
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// List the passkeys that sign answers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPasskeys {}

/// The passkeys, the oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPasskeysReply {
    /// True if the passkeys could be read
    pub success: bool,
    /// The passkeys
    #[serde(default)]
    pub passkeys: Vec<PasskeyInfo>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A passkey. It contains no secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasskeyInfo {
    /// Short name: the beginning of the hash of the public key
    pub passkey_id: String,
    /// The person's name for the passkey
    pub name: String,
    /// Origin of the page that the passkey signs for
    pub origin: String,
    /// Credential id in the browser (base64url)
    pub credential_id: String,
    /// Public key: an uncompressed point of P-256 (base64url)
    pub public_key: String,
    /// Registration time (ISO 8601, UTC)
    pub added: String,
}

/// Remove a passkey. Only a person in their own terminal can do this.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemovePasskey {
    /// Short name of the passkey, or the beginning of it
    pub passkey_id: String,
}

/// Result of the removal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemovePasskeyReply {
    /// True if the passkey was removed
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// A signature of an answer to a gate. The challenge is a hash of the gate id, the digest, the choice number and the
/// answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasskeyAssertion {
    /// Credential id in the browser (base64url)
    pub credential_id: String,
    /// Client data that the browser collected (base64url)
    pub client_data: String,
    /// Authenticator data (base64url)
    pub authenticator_data: String,
    /// The signature (base64url)
    pub signature: String,
}
