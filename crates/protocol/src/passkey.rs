//! Verbs about passkeys: keys on a person's device that sign answers to gates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approver::Passphrase;
use crate::page::PageSecret;

/// Get a ticket, with which the page registers one passkey. Only a person in a terminal of their own gets one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AddPasskey {
    /// The approver's passphrase, where one is set
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Passphrase>,
}

/// The ticket.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AddPasskeyReply {
    /// True if there is a ticket
    pub success: bool,
    /// The ticket
    pub ticket: Option<PageSecret>,
    /// Seconds until it expires
    #[serde(default)]
    pub expires_seconds: u64,
    /// True if the approver's passphrase is missing or wrong
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passphrase_wanted: bool,
    /// The error and what to do
    pub error: Option<String>,
}

/// Register a passkey that a browser has created. The ticket of `steplatch gates passkey add` counts once, and the passkey signs answers
/// once the person has confirmed its short name in a terminal of their own. Only a browser that is logged in to the page registers one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RegisterPasskey {
    /// The ticket
    pub ticket: PageSecret,
    /// Client data that the browser collected (base64url)
    pub client_data: String,
    /// The data of the authenticator, with the new key (base64url)
    pub authenticator_data: String,
    /// A name for it, such as that of the device
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// The passkey.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RegisterPasskeyReply {
    /// True if it waits for the person's confirmation
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Wait until a browser has registered a passkey with a ticket, or the ticket expires.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AwaitPasskey {
    /// The ticket
    pub ticket: PageSecret,
}

/// The passkey, which signs nothing before it is confirmed.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AwaitPasskeyReply {
    /// True if there is a passkey
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// The error and what to do
    pub error: Option<String>,
}

/// Confirm a passkey that a browser has registered, or discard it. Only a person in a terminal of their own does.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmPasskey {
    /// Its short name, whole, as the page shows it
    pub passkey_id: String,
    /// Discard it instead
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
    /// The error and what to do
    pub error: Option<String>,
}

/// List the passkeys that sign answers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPasskeys {}

/// The passkeys, the oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListPasskeysReply {
    /// True if they could be read
    pub success: bool,
    /// The passkeys
    #[serde(default)]
    pub passkeys: Vec<PasskeyInfo>,
    /// The error and what to do
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A passkey. Nothing of it is secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasskeyInfo {
    /// Its short name: the beginning of the hash of its public key
    pub passkey_id: String,
    /// The person's name for it
    pub name: String,
    /// The page that it signs for
    pub origin: String,
    /// Its id at the browser (base64url)
    pub credential_id: String,
    /// Its public key: a point of P-256, not compressed (base64url)
    pub public_key: String,
    /// Time of its registration (ISO 8601, UTC)
    pub added: String,
}

/// Remove a passkey. Only a person in a terminal of their own does.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemovePasskey {
    /// Its short name, or the beginning of it
    pub passkey_id: String,
}

/// Result of the removal.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemovePasskeyReply {
    /// True if it was removed
    pub success: bool,
    /// The passkey
    pub passkey: Option<PasskeyInfo>,
    /// The error and what to do
    pub error: Option<String>,
}

/// A signature of an answer to a gate. The challenge is a hash of the gate's id, its digest, the number of the choice and the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasskeyAssertion {
    /// The passkey's id at the browser (base64url)
    pub credential_id: String,
    /// Client data that the browser collected (base64url)
    pub client_data: String,
    /// The data of the authenticator (base64url)
    pub authenticator_data: String,
    /// The signature (base64url)
    pub signature: String,
}
