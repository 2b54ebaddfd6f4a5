//! The outcome of a child run, for its parent.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::event::Outcome;
use crate::history::History;
use crate::tool;

/// Maximum size, as JSON, of a child's variables in its result. The journal stores the result with the parent run. A
/// longer result omits the longest variables, and a state that reads an omitted variable fails. Return values have no
/// limit.
pub const MAX_CHILD_VARIABLES_BYTES: usize = 64 << 10;

/// Maximum size of a child's log, as JSON, in its result. The result omits a longer log.
pub const MAX_CHILD_LOG_BYTES: usize = 64 << 10;

/// Result field of a child run with the names of its omitted variables.
pub const OMITTED_VARIABLES: &str = "omitted_variables";

/// Result field of a child run that is true if its log is omitted.
pub const LOG_OMITTED: &str = "log_omitted";

/// Returns the outcome of a child for its parent: the result of the action that started it.
///
/// `status` is the kind of the child's end. The child's failure is the action's error. The field `session_id` is the
/// child's terminal if it is still open. The field `final_variables` omits the variables of the child's own children.
#[must_use]
pub fn child_outcome(history: &History, status: &str) -> Outcome {
    let success = status == "completed";
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let left_open = if success || history.keep_terminals() { history.open_terminals() } else { &[] };
    // A run that fails closes the terminals that it opened, but not the terminal that its parent passed.
    let is_closed = |session: &str| {
        let was_opened = history.open_terminals().iter().any(|terminal| terminal == session);
        was_opened && !left_open.iter().any(|open| open == session)
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
