//! Runs that start at a state of an earlier run.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_ids::RunId;
use steplatch_workflow::{
    Effect, Event, History, Input, RecordedPart, Start, Status, TakeOverError, Timestamp, begin_from,
};

use crate::machine::{Machine, definition, fields, start};

fn state(tool: &str, params: &Value, next: Option<&str>) -> Value {
    let transitions = next.map_or_else(|| json!([]), |next| json!([{"condition": "success", "next_state": next}]));
    json!({"action": {"tool": tool, "params": params}, "transitions": transitions})
}

/// Three commands: the second and the third use the output of the previous one.
fn commands() -> Value {
    json!({"name": "release", "initial_state": "build", "states": {
        "build": state("run_command", &json!({"command": "make"}), Some("test")),
        "test": state("run_command", &json!({"command": "test {build_output}"}), Some("ship")),
        "ship": state("run_command", &json!({"command": "ship {build_output} {test_output}"}), None),
    }})
}

fn result(output: &str) -> Value {
    json!({"success": true, "exit_code": 0, "output": output})
}

/// Returns a run of the commands that failed in the last one.
fn failed_run() -> Machine {
    let mut run = Machine::start(&commands());
    run.result(&result("v1"));
    run.result(&result("green"));
    run.result(&json!({"success": false, "exit_code": 1, "output": "no route"}));
    assert!(matches!(run.history.status(), Status::Failed { .. }), "{:?}", run.history.status());
    run
}

fn rerun_start() -> Start {
    Start { run: "run_fedcba9876543210".parse::<RunId>().expect("the run id is valid"), ..start() }
}

const LATER: Timestamp = Timestamp(1_800_000_000_000_000);

#[test]
fn rerun_has_earlier_results_without_performing_them() {
    let run = failed_run();
    let part = RecordedPart::before(&run.events, &run.definition, "ship", 1).unwrap();
    assert_eq!(part.states_to_repeat(&run.events).into_iter().collect::<Vec<_>>(), ["ship"]);
    let started = begin_from(&run.definition, rerun_start(), part, LATER);
    let history = History::from_iter(&started.events);
    let current = history.current().expect("the run is in a state");
    assert_eq!(current.params, fields(&json!({"command": "ship v1 green"})));
    assert_eq!((current.step.place.as_str(), current.step.run.as_str()), ("ship", "run_fedcba9876543210"));
    let performed: Vec<_> = started.effects.iter().filter(|effect| matches!(effect, Effect::Perform { .. })).collect();
    assert!(matches!(performed[..], [Effect::Perform { step, .. }] if step.place == "ship"), "{performed:?}");
    // The time limit starts anew with the run.
    assert_eq!(history.time_left(LATER), rerun_start().limits.execution_timeout());
    assert!(started.events.iter().all(|event| event.time() == LATER));
    assert_eq!(history.states_executed(), 3);
}

#[test]
fn changed_earlier_state_is_refused_and_later_one_accepted() {
    let run = failed_run();
    let mut document = commands();
    document["states"]["ship"]["action"]["params"]["command"] = "deploy {build_output}".into();
    let repaired = definition(&document);
    let part = RecordedPart::before(&run.events, &repaired, "ship", 1).unwrap();
    let started = begin_from(&repaired, rerun_start(), part, LATER);
    let history = History::from_iter(&started.events);
    assert_eq!(history.current().unwrap().params, fields(&json!({"command": "deploy v1"})));
    document["states"]["test"]["action"]["params"]["command"] = "true".into();
    let error = RecordedPart::before(&run.events, &definition(&document), "ship", 1).unwrap_err();
    assert!(matches!(&error, TakeOverError::Changed { changed, .. } if changed == "test"), "{error}");
    assert!(RecordedPart::before(&run.events, &definition(&document), "test", 1).is_ok());
    document["arguments"] = json!({"VERSION": {"default": "2"}});
    let error = RecordedPart::before(&run.events, &definition(&document), "test", 1).unwrap_err();
    assert_eq!(error, TakeOverError::OtherBeginning("arguments"));
}

#[test]
fn unvisited_state_is_named_with_the_visited_ones() {
    let run = failed_run();
    for (state, visit) in [("ship", 2), ("shop", 1)] {
        let error = RecordedPart::before(&run.events, &run.definition, state, visit).unwrap_err().to_string();
        assert!(error.contains(state) && error.contains("build, test, ship"), "{error}");
    }
}

#[test]
fn answer_of_a_person_counts_for_one_run() {
    let mut document = commands();
    document["states"]["test"] =
        state("gate", &json!({"prompt": "Ship it?", "answered_by": "human", "choices": ["yes", "no"]}), Some("ship"));
    document["states"]["ship"]["action"]["params"]["command"] = "ship".into();
    let mut run = Machine::start(&document);
    run.result(&result("v1"));
    let step = run.history.gate().expect("a gate is open").step.clone();
    run.input(Input::GateAnswered { step, choice: "yes".to_owned(), by: "ana".into() });
    run.result(&json!({"success": false, "exit_code": 1, "output": ""}));
    let error = RecordedPart::before(&run.events, &run.definition, "ship", 1).unwrap_err();
    assert!(matches!(&error, TakeOverError::Approved { from, .. } if from == "test"), "{error}");
    // The question itself may be asked again.
    let part = RecordedPart::before(&run.events, &run.definition, "test", 1).unwrap();
    let started = begin_from(&run.definition, rerun_start(), part, LATER);
    assert_eq!(*History::from_iter(&started.events).status(), Status::Waiting);
}

#[test]
fn choice_reserved_for_a_person_counts_for_one_run() {
    let mut document = commands();
    document["states"]["build"]["transitions"] = json!([
        {"condition": {"description": "all is well", "success": true}, "next_state": "test"},
        {"condition": {"description": "delete the old one"}, "next_state": "ship"},
    ]);
    document["states"]["ship"]["action"]["params"]["command"] = "ship".into();
    for (choice, is_refused) in [("delete the old one", true), ("all is well", false)] {
        let mut run = Machine::start(&document);
        run.result(&result("v1"));
        let gate = run.events.iter_mut().find_map(|event| match event {
            Event::GateOpened { choices, .. } => Some(choices),
            _ => None,
        });
        // As for a state with "ask" whose choices lead to acting states.
        gate.expect("the run has opened a gate")[1].for_person = true;
        let step = run.history.gate().expect("a gate is open").step.clone();
        run.input(Input::GateAnswered { step, choice: choice.to_owned(), by: "ana".into() });
        let state = run.step().place;
        let part = RecordedPart::before(&run.events, &run.definition, &state, 1);
        assert_eq!(matches!(part, Err(TakeOverError::Approved { .. })), is_refused, "{choice}: {part:?}");
    }
}

#[test]
fn answer_in_a_nested_run_counts_as_a_persons() {
    let mut document = commands();
    document["states"]["test"] = state("run_workflow", &json!({"workflow_name": "ask"}), Some("ship"));
    document["states"]["ship"]["action"]["params"]["command"] = "ship".into();
    let mut run = Machine::start(&document);
    run.result(&result("v1"));
    let step = run.step();
    run.input(Input::ChildBegan { step: step.clone(), workflow: "ask".to_owned() });
    run.input(Input::ChildWaits { step: step.clone(), waits: true });
    run.input(Input::ChildWaits { step, waits: false });
    run.result(&json!({"success": true}));
    let error = RecordedPart::before(&run.events, &run.definition, "ship", 1).unwrap_err();
    assert!(matches!(&error, TakeOverError::Approved { from, .. } if from == "test"), "{error}");
}

#[test]
fn terminals_of_the_recorded_part_are_named() {
    let mut document = commands();
    document["states"]["build"] = state("open_terminal", &json!({"shell": "bash"}), Some("test"));
    document["states"]["test"]["action"]["params"]["command"] = "true".into();
    document["states"]["ship"]["action"]["params"]["command"] = "true".into();
    let mut run = Machine::start(&document);
    run.result(&json!({"success": true, "session_id": "session_1"}));
    run.result(&result(""));
    let part = RecordedPart::before(&run.events, &run.definition, "ship", 1).unwrap();
    let open = part.open_terminals(&run.events);
    assert_eq!(open, [("session_1".to_owned(), Some("build".to_owned()))]);
    let part = RecordedPart::before(&run.events, &run.definition, "build", 1).unwrap();
    assert_eq!(part.open_terminals(&run.events), []);
}

#[test]
fn pause_before_the_state_does_not_stop_the_rerun() {
    let mut run = Machine::start(&commands());
    run.input(Input::Pause { by: "ana".to_owned(), above: false });
    run.result(&result("v1"));
    run.wait(Duration::from_secs(3600));
    run.input(Input::Resume { by: "ana".to_owned(), above: false });
    run.result(&result("green"));
    let part = RecordedPart::before(&run.events, &run.definition, "test", 1).unwrap();
    let started = begin_from(&run.definition, rerun_start(), part, LATER);
    let history = History::from_iter(&started.events);
    assert_eq!(history.paused(), None);
    assert_eq!(history.current().unwrap().params, fields(&json!({"command": "test v1"})));
    assert!(started.events.iter().any(|event| matches!(event, Event::Resumed { .. })));
}
