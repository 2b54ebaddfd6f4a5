//! Stubs from a recorded run: its results, answers and variables, in the format of a stub file.

use serde_json::{Map, Value, json};
use steplatch_protocol::{DaemonPaths, RunEvent};
use steplatch_workflow::{Definition, tool};

use crate::failure::Failure;
use crate::run_steps;

/// External inputs of a run: the stubs and the initial variables.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RecordedRun {
    pub(super) stubs: Value,
    pub(super) variables: Map<String, Value>,
}

/// Reads the recorded inputs of a run.
///
/// # Errors
/// If there is no such run, or the daemon is unreachable.
pub(super) async fn read(paths: &DaemonPaths, run: &str, definition: &Definition) -> Result<RecordedRun, Failure> {
    Ok(from_events(&run_steps::read_events(paths, run).await?, definition))
}

/// Extracts the external inputs from the events of a run. Omits results of states that the definition no longer has,
/// and of tools without external results.
fn from_events(events: &[RunEvent], definition: &Definition) -> RecordedRun {
    let mut recorded = RecordedRun::default();
    let (mut states, mut gates, mut shell) = (Map::new(), Map::new(), Map::new());
    let add = |values: &mut Map<String, Value>, state: &str, value: Value| {
        if let Value::Array(list) = values.entry(state).or_insert_with(|| json!([])) {
            list.push(value);
        }
    };
    for RunEvent { event_type, data, .. } in events {
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        let value = |name: &str| data.get(name).unwrap_or(&Value::Null);
        let state = definition.state(text("state"));
        match (event_type.as_str(), state) {
            ("workflow_started", _) => {
                recorded.variables = value("input").as_object().cloned().unwrap_or_default();
                recorded.stubs["session_id"] = value("session_id").clone();
            }
            ("state_completed", Some(state)) if has_stubs(state.action().tool()) => {
                let stub = match text("outcome") {
                    "timed_out" => "timeout".into(),
                    "unknown" => "outcome_unknown".into(),
                    _ => {
                        let mut result = value("result").clone();
                        result["elapsed_time"] = value("elapsed_time").clone();
                        result
                    }
                };
                add(&mut states, state.name(), stub);
            }
            ("gate_answered", Some(state)) => add(&mut gates, state.name(), value("answer").clone()),
            ("contract_checked", _) => {
                let is_declared = |name: &&String| {
                    definition.arguments().get(name).is_some() || definition.return_values().get(name).is_some()
                };
                let variables = value("variables").as_object().into_iter().flatten();
                shell.extend(
                    variables.filter(|(name, _)| is_declared(name)).map(|(name, value)| (name.clone(), value.clone())),
                );
            }
            _ => {}
        }
    }
    if recorded.stubs["session_id"].is_null() {
        recorded.stubs = json!({});
    }
    for (key, values) in [("states", states), ("gates", gates), ("shell", shell)] {
        if !values.is_empty() {
            recorded.stubs[key] = values.into();
        }
    }
    recorded
}

/// Returns whether the result of a tool is an external input.
fn has_stubs(tool: &str) -> bool {
    !matches!(tool, tool::SET | tool::RETURN | tool::FAIL | tool::GATE | tool::SLEEP)
}

#[cfg(test)]
mod tests {
    use steplatch_daemon::TerminalTools;

    use super::*;

    fn event(seq: u64, event_type: &str, data: &Value) -> RunEvent {
        RunEvent {
            seq,
            run_id: "run_1".to_owned(),
            workflow_id: "w".to_owned(),
            event_type: event_type.to_owned(),
            data: data.as_object().unwrap().clone(),
            timestamp: String::new(),
        }
    }

    #[test]
    fn run_consists_of_its_external_inputs() {
        let document = json!({"initial_state": "look", "arguments": {"DIR": "where"}, "states": {
            "look": {"action": {"tool": "run_command", "params": {"command": "ls {DIR}"}},
                     "transitions": [{"condition": "success", "next_state": "ask"}]},
            "ask": {"action": {"tool": "gate", "params": {"prompt": "go?"}},
                    "transitions": [{"condition": {}, "next_state": "end"}]},
            "end": {"action": {"tool": "return"}}}});
        let definition = Definition::parse(&document, &TerminalTools).unwrap();
        let events = [
            event(1, "workflow_started", &json!({"input": {"DIR": "/x"}, "session_id": null})),
            event(2, "contract_checked", &json!({"side": "arguments", "variables": {"DIR": "/x", "OTHER": "1"}})),
            event(
                3,
                "state_completed",
                &json!({"state": "look", "outcome": "finished", "result": {"output": "a"}, "elapsed_time": 2.0}),
            ),
            event(
                4,
                "state_completed",
                &json!({"state": "look", "outcome": "timed_out", "result": null, "elapsed_time": 9.0}),
            ),
            event(5, "gate_answered", &json!({"state": "ask", "answer": "yes"})),
            event(6, "state_completed", &json!({"state": "ask", "outcome": "finished", "result": {"answer": "yes"}})),
            event(7, "state_completed", &json!({"state": "gone", "outcome": "finished", "result": {}})),
        ];
        let RecordedRun { stubs, variables } = from_events(&events, &definition);
        assert_eq!(Value::Object(variables), json!({"DIR": "/x"}));
        assert_eq!(
            stubs,
            json!({"states": {"look": [{"output": "a", "elapsed_time": 2.0}, "timeout"]}, "gates": {"ask": ["yes"]},
                   "shell": {"DIR": "/x"}})
        );
    }
}
