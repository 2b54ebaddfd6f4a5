//! Messages between client and daemon: one JSON object per line.
//!
//! A client sends commands and may cancel them. The daemon sends results, and events to subscribers. Commands of one
//! connection run concurrently, and their results arrive as they become ready.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromClient {
    /// Execute a verb.
    Command {
        /// Name of the verb.
        command_type: String,
        /// Parameters of the verb.
        #[serde(default)]
        params: Value,
        /// Id that the result repeats.
        #[serde(default)]
        request_id: Value,
        /// Name of the step. The daemon does not open a terminal or type again for a repeated name, also over another
        /// connection; it returns the first result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// True if an earlier request of the step may have reached a daemon. Without a record of the step, its outcome
        /// is unknown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_repeated: bool,
    },
    /// Cancel a command whose result is no longer needed. A wait ends; a run continues.
    Cancel {
        /// The command's `request_id`.
        request_id: Value,
    },
}

/// A message from the daemon.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromDaemon {
    /// Result of a command.
    Result {
        /// True if the command succeeded.
        success: bool,
        /// The reply of the verb.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        data: Value,
        /// Error message, with a suggested next step.
        error: Option<String>,
        /// Reason why the command was not executed, if so.
        error_code: Option<ErrorCode>,
        /// Warnings about the parameters, such as ignored fields.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
        /// The `request_id` of the command.
        request_id: Value,
    },
    /// An event of a subscription.
    Event {
        /// The `request_id` of the command that subscribed.
        request_id: Value,
        /// Content of the event.
        #[serde(flatten)]
        event: Value,
    },
    /// Error without a command, such as an unreadable line.
    Error {
        /// Error message.
        error: String,
        /// Supported versions of the contract, if the client's version is the error.
        supported: Option<Vec<u32>>,
    },
}

/// Reason why a command was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The verb does not exist.
    UnknownCommand,
    /// The verb does not accept the parameters.
    InvalidParams,
    /// The client speaks a newer contract.
    UnsupportedProtocol,
    /// The daemon is stopping.
    Stopping,
    /// An internal error of the daemon.
    Internal,
}

/// Refusal of a command that was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// Reason for the refusal.
    pub code: ErrorCode,
    /// Error message, with a suggested next step.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn command_is_parsed_from_the_contract_form() {
        let command: FromClient = serde_json::from_value(json!(
            {"type": "command", "command_type": "OPEN_TERMINAL", "params": {"shell": "bash"}, "request_id": 7}
        ))
        .unwrap();
        let FromClient::Command { command_type, request_id, .. } = command else { panic!("not a command") };
        assert_eq!((command_type.as_str(), request_id), ("OPEN_TERMINAL", json!(7)));
    }

    #[test]
    fn event_fields_are_flattened() {
        let event = FromDaemon::Event { request_id: json!(1), event: json!({"seq": 2, "event_type": "transition"}) };
        assert_eq!(
            serde_json::to_value(&event).unwrap(),
            json!({"type": "event", "request_id": 1, "seq": 2, "event_type": "transition"})
        );
        assert_eq!(serde_json::from_value::<FromDaemon>(serde_json::to_value(&event).unwrap()).unwrap(), event);
    }
}
