//! Replies of verbs, in one form.

use serde::Serialize;
use serde_json::{Value, json};
use steplatch_protocol::RunReply;

/// The reply of a verb, with whether it succeeded.
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
    /// Wraps the reply of a verb, which contains whether it succeeded.
    pub fn from_reply(reply: impl Serialize) -> Self {
        let data = serde_json::to_value(reply).expect("a reply has only JSON in it");
        let success = data.get("success").and_then(Value::as_bool).unwrap_or(true);
        let words = |field: &str| data.get(field).and_then(Value::as_str).map(str::to_owned);
        let error = if success { None } else { words("error").or_else(|| words("message")) };
        Self { success, error, data }
    }

    /// Wraps the reply about a run. A run in progress counts as a success here, though its own `success` is false.
    pub fn of_run(reply: RunReply) -> Self {
        let goes_on = ["running", "waiting"].contains(&reply.status.as_str());
        let answer = Self::from_reply(reply);
        if goes_on { Self { success: true, error: None, ..answer } } else { answer }
    }

    /// Returns the reply of a verb without an attempt.
    pub fn failure(error: String) -> Self {
        Self { success: false, data: json!({"success": false, "error": error}), error: Some(error) }
    }
}
