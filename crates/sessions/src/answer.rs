//! Replies of verbs, in one form.

use serde::Serialize;
use serde_json::{Value, json};
use steplatch_protocol::RunReply;

/// The reply of a verb, with whether it did what was asked.
#[derive(Debug)]
pub struct VerbReply {
    /// Whether it did what was asked.
    pub success: bool,
    /// What went wrong, if it did not.
    pub error: Option<String>,
    /// The reply of the verb.
    pub data: Value,
}

impl VerbReply {
    /// The reply of a verb, which says itself whether it did what was asked.
    pub fn of(reply: impl Serialize) -> Self {
        let data = serde_json::to_value(reply).expect("a reply has only JSON in it");
        let success = data.get("success").and_then(Value::as_bool).unwrap_or(true);
        let words = |field: &str| data.get(field).and_then(Value::as_str).map(str::to_owned);
        let error = if success { None } else { words("error").or_else(|| words("message")) };
        Self { success, error, data }
    }

    /// The reply about a run. What was asked is done for a run that goes on, which is no success yet.
    pub fn of_run(reply: RunReply) -> Self {
        let goes_on = ["running", "waiting"].contains(&reply.status.as_str());
        let answer = Self::of(reply);
        if goes_on { Self { success: true, error: None, ..answer } } else { answer }
    }

    /// What could not even be tried.
    pub fn failure(error: String) -> Self {
        Self { success: false, data: json!({"success": false, "error": error}), error: Some(error) }
    }
}
