//! Words, ids and times in replies and events that programs rely on.
//!
//! Masking a secret in one of them would hide nothing and break the reply: with the secret `completed`, no run would
//! appear to complete. Both the name of the field and its text must match, so a field of a program's output with such a
//! name is masked like any other text.

use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId, TerminalId};
use steplatch_protocol::RunEvent;

/// States of runs and results of nodes and graphs.
const STATES: [&str; 9] =
    ["pending", "running", "waiting", "completed", "failed", "cancelled", "success", "error", "timeout"];

/// Parties that answer a gate.
const ANSWERERS: [&str; 3] = ["human", "agent", "anyone"];

/// Returns whether the text of a field with this name is a word, an id or a time that programs rely on.
pub(super) fn is_protocol_word(name: &str, text: &str) -> bool {
    match name {
        "status" | "state" => STATES.contains(&text),
        "answered_by" => ANSWERERS.contains(&text),
        "event_type" => RunEvent::is_own(text),
        "run_id" | "correlation_id" => text.parse::<RunId>().is_ok(),
        "session_id" => text.parse::<TerminalId>().is_ok(),
        "gate_id" => text.parse::<StepId>().is_ok(),
        "timestamp" | "created_at" | "expires_at" | "started_at" | "completed_at" | "since" => {
            clock::parse_iso8601(text).is_some()
        }
        _ => false,
    }
}
