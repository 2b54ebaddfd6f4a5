//! What is stored in Temporal: the input and the result of a run, its tasks, and the inputs that are passed to it.
//!
//! A run that began under an older version goes on with these forms, so fields are added with a default and never changed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use steplatch_ids::StepId;
use steplatch_workflow::{EngineAnswer, EngineTask, Event, Input, Outcome};
use temporalio_common::search_attributes::SearchAttributeKey;

/// The task queue of workflows.
pub const COMMON_QUEUE: &str = "steplatch";

/// How long a worker may decide before its decision is given to another one. A worker that was killed holds a run up for that
/// long, and an answer to a gate is waited for a little longer.
pub const DECIDES_WITHIN: Duration = Duration::from_secs(5);

/// The search attribute with the name of a run's workflow.
pub const WORKFLOW: SearchAttributeKey<String> = SearchAttributeKey::keyword("StepWorkflow");

/// The search attribute with the name of a run's state.
pub const STATE: SearchAttributeKey<String> = SearchAttributeKey::keyword("StepState");

/// The search attribute that tells whether a run waits at a gate.
pub const GATE_OPEN: SearchAttributeKey<bool> = SearchAttributeKey::bool("StepGateOpen");

/// Returns the task queue of a host.
#[must_use]
pub fn queue_of(host: &str) -> String {
    format!("host-{host}")
}

/// What a run begins with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunInput {
    /// The version of the rules under which the daemon decided the first events. The events name it too.
    pub semantics_version: u32,
    /// The host that has the run's terminals and its journal.
    pub host: String,
    /// The name of its workflow.
    pub workflow: String,
    /// Its first events. A function has none: its daemon continues it.
    pub events: Vec<Event>,
    /// Whether it is a function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub function: bool,
    /// The step of the run above that starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<StepId>,
    /// Seconds without a heartbeat after which a worker counts as lost.
    pub lost_after: f64,
    /// Whether the namespace has the search attributes.
    #[serde(default)]
    pub searchable: bool,
}

/// What a run returns to the run above it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOutput {
    /// The outcome of the step that started it.
    pub outcome: Outcome,
}

/// An input that is passed to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PassedInput {
    /// The input.
    pub input: Input,
}

/// What followed from an input.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TakenInput {
    /// The number of events before these.
    pub from: u64,
    /// The events. Without any, the input had no effect on a machine.
    pub events: Vec<Event>,
    /// Whether it had an effect on a function.
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

/// What came of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskOutput {
    /// How many events the daemon has.
    pub recorded: u64,
    /// The answer.
    pub answer: EngineAnswer,
}

/// The longest text of a result that is stored whole, in bytes. What actions return unasked is shorter.
const LONGEST_WHOLE: usize = 64 * 1024;

/// The part of a longer text that is stored: its end.
const TAIL: usize = 4 * 1024;

/// Replaces long texts of an answer by their ends and digests: `output` gets `output_digest` and `output_bytes` beside it.
/// Outcomes of a function's calls stay whole: the daemon bounds them.
pub fn shorten(answer: &mut EngineAnswer) {
    let outcome = match answer {
        EngineAnswer::Input { input: Input::Outcome { outcome, .. } } => Some(outcome),
        EngineAnswer::Advanced { turn } => turn.over.as_mut(),
        _ => None,
    };
    if let Some(Outcome::Finished { result }) = outcome {
        shorten_fields(result);
    }
}

fn shorten_fields(fields: &mut Map<String, Value>) {
    let mut added = Map::new();
    for (name, value) in fields.iter_mut() {
        match value {
            Value::String(text) if text.len() > LONGEST_WHOLE => {
                let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
                added.insert(format!("{name}_digest"), format!("sha256:{digest}").into());
                added.insert(format!("{name}_bytes"), text.len().into());
                let mut cut = text.len() - TAIL;
                while !text.is_char_boundary(cut) {
                    cut += 1;
                }
                text.drain(..cut);
            }
            Value::Object(inner) => shorten_fields(inner),
            Value::Array(items) => items.iter_mut().filter_map(Value::as_object_mut).for_each(shorten_fields),
            _ => {}
        }
    }
    fields.extend(added);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_is_its_end_and_its_digest_and_a_short_one_stays() {
        let mut result = json!({"output": format!("{}end", "ä".repeat(50_000)), "screen": "x".repeat(100)});
        shorten_fields(result.as_object_mut().unwrap());
        let output = result["output"].as_str().unwrap();
        assert!(output.len() <= TAIL && output.ends_with("äend"), "{}", output.len());
        assert_eq!(result["output_bytes"], 100_003);
        assert!(result["output_digest"].as_str().unwrap().starts_with("sha256:"));
        assert_eq!(result["screen"].as_str().unwrap().len(), 100);
    }
}
