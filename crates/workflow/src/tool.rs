//! The tools that the rules of a machine treat specially.
//!
//! Everything else about a tool belongs to the catalog.

use std::time::Duration;

use serde_json::{Map, Value};

/// Opens a terminal; the run closes it when it fails.
pub const OPEN_TERMINAL: &str = "open_terminal";
/// Runs a command in a shell and returns its output and exit code. Limits its own time.
pub const RUN_COMMAND: &str = "run_command";
/// Closes a terminal.
pub const EXIT_TERMINAL: &str = "exit_terminal";
/// Types text and waits for output if its parameters request it.
pub const SEND_INPUT: &str = "send_input";
/// Waits for output, up to its own time-out.
pub const AWAIT_OUTPUT: &str = "await_output";
/// Writes a file, on this or another host.
pub const PUT_FILE: &str = "put_file";
/// Reads a file, on this or another host.
pub const GET_FILE: &str = "get_file";

/// The fields of a result that report the end of a wait.
pub(crate) const WAIT_FIELDS: [&str; 3] = ["match_text", "groups", "reason"];
/// Waits for a duration. Not a tool of the catalog: the driver performs it with a timer.
pub const SLEEP: &str = "sleep";

/// Fails with its author's message. Not a tool of the catalog: this crate computes the outcome.
pub const FAIL: &str = "fail";

/// Sets variables. Not a tool of the catalog: this crate computes the outcome.
pub const SET: &str = "set";

/// Completes the run, with a result of any form. Not a tool of the catalog: this crate computes the outcome.
pub const RETURN: &str = "return";

/// Opens a gate. Not a tool of the catalog: the answer arrives as a separate input.
pub const GATE: &str = "gate";

/// Runs another workflow, within the time of this run. Not a tool of the catalog: the driver starts the run.
pub const RUN_WORKFLOW: &str = "run_workflow";

/// Runs several workflows at once. Not a tool of the catalog: this crate starts its branches, each as a `run_workflow`.
pub const PARALLEL: &str = "parallel";

/// Answers the questions of a program by rules. Not a tool of the catalog: this crate chooses its turns.
pub const DIALOGUE: &str = "dialogue";

/// The actions that every machine has, independent of the catalog.
pub const MACHINE_TOOLS: &[&str] = &[DIALOGUE, SLEEP, SET, RETURN, FAIL, GATE, RUN_WORKFLOW, PARALLEL];

/// The tools that call a node or a graph of nodes. A tool with a timeout limits its own time.
pub const CALLS: &[&str] = &["run_node", "run_graph"];

/// Maximum time limit of a command.
pub(crate) const MAX_COMMAND_TIMEOUT: Duration = Duration::from_secs(3600);

/// The time limit of a state if neither the state nor its action has one.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum duration of a sleep: the maximum time limit of a run.
const MAX_SLEEP_SECONDS: f64 = 7200.0;

/// Problem with the parameters of a sleep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'seconds' of a sleep must be a number from 0 to 7200, not {0}")]
pub(crate) struct InvalidSleep(String);

/// Reads the duration of a sleep. A number may also be a string, as for every tool.
pub(crate) fn sleep_duration(params: &Map<String, Value>) -> Result<Duration, InvalidSleep> {
    let seconds = params.get("seconds");
    let number = match seconds {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .filter(|seconds| (0.0..=MAX_SLEEP_SECONDS).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| InvalidSleep(seconds.map_or_else(|| "omitted".to_owned(), Value::to_string)))
}

/// Returns whether an action waits for output: an `await_output`, or a `send_input` with `pattern` or `until`.
pub(crate) fn waits(tool: &str, params: &Map<String, Value>) -> bool {
    let is_there = |name: &str| params.get(name).is_some_and(|value| !value.is_null());
    tool == AWAIT_OUTPUT || (tool == SEND_INPUT && (is_there("pattern") || is_there("until")))
}

/// Returns whether a wait for output ended without the awaited event.
pub(crate) fn found_nothing(tool: &str, params: &Map<String, Value>, result: &Map<String, Value>) -> bool {
    if !waits(tool, params) || !succeeded(result) {
        return false;
    }
    if result.get("timeout_occurred") == Some(&Value::Bool(true)) {
        return true;
    }
    let matched = result.get("match_text").is_some_and(|text| !text.is_null());
    // A wait for the prompt, for quiet or for the end of the program succeeds without a match.
    let awaited_event = params.get("until").filter(|until| !until.is_null() && *until != "match");
    let reason = result.get("reason");
    // A shell at its prompt also waits for input.
    let has_occurred = awaited_event.is_some_and(|event| {
        Some(event) == reason || (*event == "input" && reason.is_some_and(|reason| *reason == "prompt"))
    });
    !matched && !has_occurred
}

/// The field of the result of a command with its output.
pub(crate) const OUTPUT: &str = "output";

/// The field with the output including trailing newlines, if the definition reads it.
pub(crate) const RAW_OUTPUT: &str = "raw_output";

/// The field of a `set`'s result with the variables and their values.
pub(crate) const ASSIGNED: &str = "assigned";

/// The field of a `return`'s result with the result of the run.
pub(crate) const RESULT: &str = "result";

/// Returns the result of a `set` or `return`, known without an effect.
pub(crate) fn known_result(tool: &str, params: &Map<String, Value>) -> Option<Map<String, Value>> {
    let (field, value) = match tool {
        SET => (ASSIGNED, Value::Object(params.clone())),
        RETURN => (RESULT, params.get(RESULT).cloned().unwrap_or_default()),
        _ => return None,
    };
    Some(Map::from_iter([("success".to_owned(), true.into()), (field.to_owned(), value)]))
}

/// Returns whether a command or a dialogue exceeded its own time limit.
pub(crate) fn ran_out_of_time(tool: &str, result: &Map<String, Value>) -> bool {
    let is_true = |field: &str| result.get(field) == Some(&Value::Bool(true));
    (tool == RUN_COMMAND && is_true("timed_out")) || (tool == DIALOGUE && is_true("timeout_occurred"))
}

/// Returns whether an action has its own time limit, even if its parameters name none.
pub(crate) fn bounds_itself(tool: &str, params: &Map<String, Value>) -> bool {
    matches!(tool, SLEEP | GATE | RUN_WORKFLOW | PARALLEL | RUN_COMMAND | DIALOGUE | SET | RETURN)
        || waits(tool, params)
}

/// Returns whether an action succeeded. A result without `success` is a success.
pub(crate) fn succeeded(result: &Map<String, Value>) -> bool {
    result.get("success").is_none_or(|success| *success == Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn await_finds_nothing_without_a_match_or_its_condition() {
        for (params, result, expected) in [
            (json!({}), json!({"success": true, "match_text": "ok"}), false),
            (json!({}), json!({"success": true, "match_text": null}), true),
            (json!({}), json!({"success": true}), true),
            (json!({}), json!({"success": true, "match_text": null, "reason": "exit"}), true),
            (json!({"until": "prompt"}), json!({"success": true, "match_text": null, "reason": "prompt"}), false),
            (json!({"until": "prompt"}), json!({"success": true, "match_text": null, "reason": "exit"}), true),
            (json!({"until": "input"}), json!({"success": true, "match_text": null, "reason": "input"}), false),
            (json!({"until": "input"}), json!({"success": true, "match_text": null, "reason": "prompt"}), false),
            (json!({"until": "input"}), json!({"success": true, "match_text": null, "reason": "exit"}), true),
            (json!({"until": null}), json!({"success": true, "match_text": null}), true),
            (json!({}), json!({"success": true, "timeout_occurred": true, "match_text": ""}), true),
            (json!({}), json!({"success": false, "error": "Session 'x' not found"}), false),
        ] {
            assert_eq!(found_nothing(AWAIT_OUTPUT, &map(&params), &map(&result)), expected, "{params} {result}");
        }
        assert!(!found_nothing("send_input", &Map::new(), &Map::new()));
    }

    #[test]
    fn sleep_accepts_numbers_and_numeric_strings() {
        let seconds = |value: Value| sleep_duration(&map(&json!({ "seconds": value })));
        assert_eq!(seconds(json!(1.5)), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds(json!(" 2 ")), Ok(Duration::from_secs(2)));
        for wrong in [json!(-1), json!(7201), json!("soon"), json!("NaN"), json!("inf"), json!(null), json!([])] {
            assert!(seconds(wrong.clone()).is_err(), "{wrong}");
        }
        let error = sleep_duration(&Map::new()).unwrap_err().to_string();
        assert_eq!(error, "'seconds' of a sleep must be a number from 0 to 7200, not omitted");
    }
}
