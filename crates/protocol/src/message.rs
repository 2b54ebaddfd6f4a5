//! What travels: one JSON object a line.
//!
//! A client sends commands and may take one back; the daemon sends results, and
//! events to those who asked for them. Commands of one connection run at the same
//! time, and results come in the order in which they are ready.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromClient {
    /// Do something.
    Command {
        /// Name of the verb.
        command_type: String,
        /// Its parameters.
        #[serde(default)]
        params: Value,
        /// What the result is to carry.
        #[serde(default)]
        request_id: Value,
        /// Names what is to be done. Asked for again under the same name, also over another connection, opening a
        /// terminal and typing are not done again: the result is what came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// The result of a command is not wanted any more. A wait ends; a run goes on.
    Cancel {
        /// The command's `request_id`.
        request_id: Value,
    },
}

/// What the daemon sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FromDaemon {
    /// What came of a command.
    Result {
        /// Whether it did what was asked.
        success: bool,
        /// The reply of the verb.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        data: Value,
        /// What went wrong and what to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// What kind of mistake it was, when the command was not carried out at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_code: Option<ErrorCode>,
        /// Fields that were ignored and the like.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
        /// The command's.
        request_id: Value,
    },
    /// Something that was subscribed to.
    Event {
        /// The `request_id` of the command that subscribed.
        request_id: Value,
        /// The event.
        #[serde(flatten)]
        event: Value,
    },
    /// Something that could not be answered as a command.
    Error {
        /// What went wrong.
        error: String,
        /// The version that is spoken, when that was the trouble.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        supported: Option<Vec<u32>>,
    },
}

/// Why a command was not carried out at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// There is no such verb.
    UnknownCommand,
    /// The parameters are not the verb's.
    InvalidParams,
    /// The client speaks a newer contract.
    UnsupportedProtocol,
    /// The daemon is going down.
    Stopping,
    /// Something that should not happen happened in the daemon.
    Internal,
}

/// A command that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// What kind of mistake it was.
    pub code: ErrorCode,
    /// What went wrong and what to do.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_written_as_the_contract_has_it() {
        let command: FromClient = serde_json::from_value(json!(
            {"type": "command", "command_type": "OPEN_TERMINAL", "params": {"shell": "bash"}, "request_id": 7}
        ))
        .unwrap();
        let FromClient::Command { command_type, request_id, .. } = command else { panic!("not a command") };
        assert_eq!((command_type.as_str(), request_id), ("OPEN_TERMINAL", json!(7)));
    }

    #[test]
    fn an_event_carries_its_fields_beside_its_type() {
        let event = FromDaemon::Event { request_id: json!(1), event: json!({"seq": 2, "event_type": "transition"}) };
        assert_eq!(
            serde_json::to_value(&event).unwrap(),
            json!({"type": "event", "request_id": 1, "seq": 2, "event_type": "transition"})
        );
        assert_eq!(serde_json::from_value::<FromDaemon>(serde_json::to_value(&event).unwrap()).unwrap(), event);
    }
}
