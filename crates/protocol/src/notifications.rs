//! Verbs about notifications of people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// List the rules of notifications, with the state of their deliveries.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListNotifications {}

/// The rules of notifications, in the order of the settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListNotificationsReply {
    /// Always true
    pub success: bool,
    /// The rules
    #[serde(default)]
    pub rules: Vec<NotificationRule>,
}

/// A rule of notifications.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationRule {
    /// Name of the rule
    pub name: String,
    /// Way of delivery: webhook, ntfy, command, desktop or terminal
    pub way: String,
    /// Destination: the origin of an address, or the program
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Occasions: gate, password, agent_asks, held, host_lost, schedule_failed, service_failed, run_failed,
    /// run_completed or run_repaired
    pub when: Vec<String>,
    /// Time of the last result (ISO 8601, UTC)
    pub last_at: Option<String>,
    /// Occasion of the last result
    pub last_occasion: Option<String>,
    /// Failure of the last delivery
    pub last_error: Option<String>,
    /// Number of deliveries that have not succeeded yet
    #[serde(default)]
    pub pending: usize,
    /// Time of the next attempt of the oldest of them (ISO 8601, UTC)
    pub next_attempt: Option<String>,
    /// Number of deliveries that were given up or dropped
    #[serde(default)]
    pub failures: u64,
}

/// Send a test message by one rule, or by all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct TestNotification {
    /// Name of the rule (default: all)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Results of a test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestNotificationReply {
    /// True if each message was delivered
    pub success: bool,
    /// The results
    #[serde(default)]
    pub results: Vec<NotificationResult>,
    /// Error message, with a suggested next step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of a test message.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationResult {
    /// Name of the rule
    pub rule: String,
    /// Way of delivery
    pub way: String,
    /// The failure, unless the message was delivered
    pub error: Option<String>,
}

/// Receive the notifications for the terminals of people, as events on this connection.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchNotifications {}

/// Result of watching.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct WatchNotificationsReply {
    /// Always true
    pub success: bool,
}

/// A notification for the terminal of a person. The texts have no control characters.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalNotification {
    /// Identifier of the occasion: a later notification with it replaces this one. Letters and digits.
    pub id: String,
    /// One line.
    pub title: String,
    /// Details.
    pub body: String,
    /// True if the occasion is over, and its notification is withdrawn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_withdrawn: bool,
}
