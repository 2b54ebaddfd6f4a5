//! The outcome of a child run, for its parent.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::event::Outcome;
use crate::history::History;
use crate::tool;

/// Maximum bytes, as JSON, of all variables of a child in its result, which the journal stores with the run above. The
/// result cuts none: it omits the longest, and a state that reads one of those fails. This does not bound what a child
/// returns.
pub const MAX_CHILD_VARIABLES_BYTES: usize = 64 << 10;

/// Maximum bytes of the log of a child, as JSON, in its result. The result omits a longer one as a whole.
pub const MAX_CHILD_LOG_BYTES: usize = 64 << 10;

/// Field of the result of a child with the names of its omitted variables.
pub const OMITTED_VARIABLES: &str = "omitted_variables";

/// Field of the result of a child whose log is omitted.
pub const LOG_OMITTED: &str = "log_omitted";

/// Returns the outcome of a child for its parent: the result of the action that started it.
///
/// `status` is the kind of the child's end. The child's failure is the action's error. `session_id` is the terminal
/// that the child works in, if it is still open; `final_variables` are the child's without those of its own children.
#[must_use]
pub fn child_outcome(history: &History, status: &str) -> Outcome {
    let success = status == "completed";
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let left_open = if success || history.keep_terminals() { history.open_terminals() } else { &[] };
    // A run that fails closes the terminals that it opened, and leaves its given terminal open.
    let is_closed = |session: &str| {
        let opened = history.open_terminals().iter().any(|opened| opened == session);
        opened && !left_open.iter().any(|open| open == session)
    };
    let session = history.terminals().current_terminal().filter(|session| !is_closed(session));
    let elapsed = match (history.started_at(), history.ended_at()) {
        (Some(started), Some(ended)) => ended.since(started),
        _ => Duration::ZERO,
    };
    let mut variables = history.variables().to_map();
    variables.retain(|name, _| !name.ends_with("_final_variables"));
    let mut result = Map::new();
    let fields = [
        ("success", success.into()),
        ("run_id", text(history.run().map(steplatch_ids::RunId::as_str))),
        ("status", status.into()),
        ("final_state", text(history.final_state())),
        ("workflow_final_state", text(history.final_state())),
        ("states_executed", history.states_executed().into()),
        ("total_elapsed_time", elapsed.as_secs_f64().into()),
        ("return_values", json!(history.return_values())),
        ("final_variables", variables.into()),
        ("session_id", text(session)),
        ("open_terminals", json!(left_open)),
        ("recursion_depth", history.recursion_depth().into()),
        ("error", text(history.error())),
    ];
    result.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    if let Some(returned) = history.result() {
        result.insert(tool::RESULT.to_owned(), returned.clone());
    }
    Outcome::Finished { result }
}
