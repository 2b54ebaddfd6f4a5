//! Actions of a run's states, from its events, for comparison with a recording or another run.

use serde_json::Value;
use steplatch_protocol::{RunComparison, RunDifference, RunEvent};

use crate::golden::{Golden, GoldenStep};

/// Maximum number of differences in a comparison.
const MAX_DIFFERENCES: usize = 100;
/// Maximum length of the recorded or observed text of a difference.
const MAX_TEXT_CHARS: usize = 4000;

/// Returns the actions of the states of a run, in order. Only commands have an output for comparison; inputs and waits
/// have the matched text.
#[must_use]
pub fn run_steps(events: &[RunEvent]) -> Vec<GoldenStep> {
    let step = |event: &RunEvent| {
        let result = event.data.get("result").unwrap_or(&Value::Null);
        GoldenStep {
            state: event.data.get("state").and_then(Value::as_str).unwrap_or_default().to_owned(),
            prints: result["output"].as_str().unwrap_or_default().to_owned(),
            exit_code: result["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()),
            answer: result["answer"].as_str().map(str::to_owned),
            has_output: result["output"].is_string(),
            found: result["match_text"].as_str().map(str::to_owned),
            varies: false,
        }
    };
    events.iter().filter(|event| event.event_type == "state_completed").map(step).collect()
}

/// Compares two runs, given by their ids and events. Truncates long texts, and returns only the first differences.
#[must_use]
pub fn compare_runs(
    (run, events): (&str, &[RunEvent]),
    (other_run, other_events): (&str, &[RunEvent]),
) -> RunComparison {
    let differences = Golden { steps: run_steps(events), ..Golden::default() }.differences(&run_steps(other_events));
    let inputs = vec![run_input(events), run_input(other_events)];
    RunComparison {
        runs: vec![run.to_owned(), other_run.to_owned()],
        same: differences.is_empty() && inputs[0] == inputs[1],
        inputs,
        elapsed_time: vec![elapsed_seconds(events), elapsed_seconds(other_events)],
        differences: differences
            .into_iter()
            .take(MAX_DIFFERENCES)
            .map(|difference| RunDifference {
                recorded: truncate(&difference.recorded),
                observed: truncate(&difference.observed),
                ..difference
            })
            .collect(),
        error: None,
    }
}

/// Returns the input of a run.
fn run_input(events: &[RunEvent]) -> Value {
    let started = events.iter().find(|event| event.event_type == "workflow_started");
    started.and_then(|event| event.data.get("input").cloned()).unwrap_or(Value::Null)
}

/// Returns the total duration of a run's states, in seconds.
fn elapsed_seconds(events: &[RunEvent]) -> f64 {
    let time = |event: &RunEvent| event.data.get("elapsed_time").and_then(Value::as_f64).unwrap_or_default();
    events.iter().filter(|event| event.event_type == "state_completed").map(time).sum()
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events(input: &Value, outputs: &[&str]) -> Vec<RunEvent> {
        let event = |event_type: &str, data: Value| RunEvent {
            seq: 1,
            run_id: "run_1".to_owned(),
            workflow_id: "w".to_owned(),
            event_type: event_type.to_owned(),
            data: data.as_object().cloned().unwrap_or_default(),
            timestamp: String::new(),
        };
        let state = |(number, output): (usize, &&str)| {
            let result = json!({"output": output, "exit_code": 0});
            event("state_completed", json!({"state": format!("s{number}"), "result": result, "elapsed_time": 1.5}))
        };
        let started = event("workflow_started", json!({"input": input}));
        std::iter::once(started).chain(outputs.iter().enumerate().map(state)).collect()
    }

    #[test]
    fn changed_question_is_a_difference() {
        let run_with_question = |question: &str| {
            let mut all = events(&json!({}), &["done"]);
            all[1].data.insert("result".to_owned(), json!({"match_text": question, "exit_code": null}));
            all
        };
        let (install_run, remove_run) = (run_with_question("Install 3 files? "), run_with_question("Remove 3 files? "));
        let compared = compare_runs(("one", &install_run), ("other", &remove_run));
        let [difference] = &compared.differences[..] else { panic!("{compared:?}") };
        assert_eq!((difference.what.as_str(), difference.observed.as_str()), ("match", "Remove 3 files? "));
        assert!(
            compare_runs(("one", &install_run), ("other", &run_with_question("Install 12 files? "))).same,
            "numbers in questions are not compared"
        );
    }

    #[test]
    fn differences_are_ordered_and_truncated() {
        let long = "x".repeat(MAX_TEXT_CHARS + 1);
        let (one, other) =
            (events(&json!({"V": "1"}), &["took 1 s", "a"]), events(&json!({"V": "1"}), &["took 22 s", &long]));
        let compared = compare_runs(("one", &one), ("other", &other));
        assert_eq!((compared.same, compared.differences.len()), (false, 1), "{compared:?}");
        assert_eq!((compared.differences[0].state.as_str(), compared.differences[0].what.as_str()), ("s1", "output"));
        assert_eq!(compared.differences[0].observed.chars().count(), MAX_TEXT_CHARS + 1);
        assert_eq!(compared.elapsed_time, [3.0, 3.0]);
        assert!(compare_runs(("one", &one), ("one", &one)).same);
        let other_events = events(&json!({"V": "2"}), &["took 1 s", "a"]);
        let compared = compare_runs(("one", &one), ("other", &other_events));
        assert!(!compared.same && compared.differences.is_empty(), "other inputs: {compared:?}");
    }
}
