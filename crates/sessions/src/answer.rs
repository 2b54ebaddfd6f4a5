//! Replies of verbs in a common form.

use serde::Serialize;
use serde_json::{Value, json};
use steplatch_protocol::RunReply;

/// The reply of a verb and its success.
#[derive(Debug)]
pub struct VerbReply {
    /// True if the verb succeeded.
    pub success: bool,
    /// Error of the verb, if it failed.
    pub error: Option<String>,
    /// The reply of the verb.
    pub data: Value,
}

impl VerbReply {
    /// Wraps the reply of a verb, with its field `success`.
    pub fn from_reply(reply: impl Serialize) -> Self {
        let data = serde_json::to_value(reply).expect("a reply contains only JSON");
        let success = data.get("success").and_then(Value::as_bool).unwrap_or(true);
        let text = |field: &str| data.get(field).and_then(Value::as_str).map(str::to_owned);
        let error = if success { None } else { text("error").or_else(|| text("message")) };
        Self { success, error, data }
    }

    /// Wraps the reply about a run. A run in progress is treated as a success, although its field `success` is false.
    pub fn from_run(reply: RunReply) -> Self {
        let is_in_progress = ["running", "waiting"].contains(&reply.status.as_str());
        let verb_reply = Self::from_reply(reply);
        if is_in_progress { Self { success: true, error: None, ..verb_reply } } else { verb_reply }
    }

    /// Returns the reply of a verb that was not executed.
    pub fn failure(error: String) -> Self {
        Self { success: false, data: json!({"success": false, "error": error}), error: Some(error) }
    }
}
