//! Data that Temporal stores: the input and the result of a run, its tasks, and its later inputs.
//!
//! A run that began under an older version keeps these forms, so new fields have a default and existing fields never
//! change.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::StepId;
use steplatch_workflow::{EngineAnswer, EngineTask, Event, Input, Outcome};
use temporalio_common::search_attributes::SearchAttributeKey;

/// The task queue of workflows.
pub const COMMON_QUEUE: &str = "steplatch";

/// Time limit of a worker's decision, after which another worker decides. A killed worker delays a run by this time,
/// and the answer to a gate by a little more.
pub const DECISION_TIMEOUT: Duration = Duration::from_secs(5);

/// The search attribute with the name of a run's workflow.
pub const WORKFLOW: SearchAttributeKey<String> = SearchAttributeKey::keyword("StepWorkflow");

/// The search attribute with the name of a run's state.
pub const STATE: SearchAttributeKey<String> = SearchAttributeKey::keyword("StepState");

/// The search attribute that is true while a run waits at a gate.
pub const GATE_OPEN: SearchAttributeKey<bool> = SearchAttributeKey::bool("StepGateOpen");

/// Returns the task queue of a host.
#[must_use]
pub fn queue_of(host: &str) -> String {
    format!("host-{host}")
}

/// The input of a run at its start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunInput {
    /// Version of the rules under which the daemon decided the first events. The events contain it as well.
    pub semantics_version: u32,
    /// The host that has the run's terminals and its journal.
    pub host: String,
    /// The name of its workflow.
    pub workflow: String,
    /// The first events. A function has none: its daemon continues it.
    pub events: Vec<Event>,
    /// True if the run is a function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub function: bool,
    /// The step of the parent run that starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<StepId>,
    /// Seconds without a heartbeat after which a worker is considered lost.
    pub lost_after: f64,
    /// True if the namespace has the search attributes.
    #[serde(default)]
    pub searchable: bool,
}

/// The result of a run for its parent run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOutput {
    /// The outcome of the step that started it.
    pub outcome: Outcome,
}

/// A later input of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PassedInput {
    /// The input.
    pub input: Input,
}

/// The effect of an input.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TakenInput {
    /// The number of events before these.
    pub from: u64,
    /// The events. If empty, the input had no effect on a machine.
    pub events: Vec<Event>,
    /// True if the input had an effect on a function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken: bool,
}

/// A task of a run for a daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskInput {
    /// The run.
    pub run: String,
    /// The number of events before these.
    pub from: u64,
    /// Events that the daemon records first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The task.
    pub task: EngineTask,
}

/// The result of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskOutput {
    /// Number of events that the daemon has.
    pub recorded: u64,
    /// The answer.
    pub answer: EngineAnswer,
}

/// Maximum length of a text in a result, in bytes. A result with a longer text is treated as a failure, because later
/// steps compute with it.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Turns an answer with a too long text into the failure of its action. Leaves outcomes of a function's calls, which
/// the daemon limits.
pub fn refuse_long_texts(answer: &mut EngineAnswer) {
    let outcome = match answer {
        EngineAnswer::Input { input: Input::Outcome { outcome, .. } } => Some(outcome),
        EngineAnswer::Advanced { turn } => turn.over.as_mut(),
        _ => None,
    };
    if let Some(Outcome::Finished { result }) = outcome {
        fail_on_long_field(result);
    }
}

fn fail_on_long_field(result: &mut Map<String, Value>) {
    let field_bytes = result.iter().filter_map(|(name, value)| Some((name, max_text_bytes(value)?)));
    let Some((name, bytes)) = field_bytes.max_by_key(|(_, bytes)| *bytes).filter(|(_, bytes)| *bytes > MAX_TEXT_BYTES)
    else {
        return;
    };
    let error = format!(
        "its result has {bytes} bytes in '{name}', more than the {MAX_TEXT_BYTES} that a value of a run on Temporal may have; \
         redirect it to a file, keep only its head and tail with limit, or run it with --on sqlite"
    );
    let session = result.get("session_id").cloned();
    *result = Map::from_iter([("success".to_owned(), false.into()), ("error".to_owned(), error.into())]);
    result.extend(session.map(|session| ("session_id".to_owned(), session)));
}

/// Returns the length of the longest text in a value, in bytes; `None` without a text.
fn max_text_bytes(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.len()),
        Value::Object(fields) => fields.values().filter_map(max_text_bytes).max(),
        Value::Array(items) => items.iter().filter_map(max_text_bytes).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn result_with_a_too_long_text_fails_entirely() {
        for long in [
            json!({"success": true, "session_id": "t", "output": "ä".repeat(50_000), "exit_code": 0}),
            json!({"success": true, "session_id": "t", "result": {"parts": ["x", "y".repeat(100_000)]}}),
        ] {
            let mut result = long.as_object().unwrap().clone();
            fail_on_long_field(&mut result);
            assert_eq!((&result["success"], &result["session_id"]), (&json!(false), &json!("t")));
            assert!(result["error"].as_str().unwrap().contains("100000 bytes"), "{result:?}");
            assert_eq!(result.len(), 3);
        }
        let short = json!({"success": true, "output": "x".repeat(MAX_TEXT_BYTES), "exit_code": 0});
        let mut result = short.as_object().unwrap().clone();
        fail_on_long_field(&mut result);
        assert_eq!(json!(result), short);
    }
}
