//! States executed once for each item of a list.

use serde_json::{Value, json};
use steplatch_workflow::{Effect, FailureReason, History, Input, Outcome, Status};

use crate::machine::{Machine, definition, problems};

fn pinging_machine(for_each: &Value) -> Value {
    json!({
        "initial_state": "list",
        "states": {
            "list": {"action": {"tool": "run_command", "params": {"command": "ls"}},
                "transitions": [{"condition": "success", "next_state": "ping"}]},
            "ping": {
                "for_each": for_each,
                "max_visits": 1,
                "on_exhausted": "done",
                "action": {"tool": "run_command", "params": {"command": "ping {item|sh}"}},
                "transitions": [
                    {"condition": "success", "next_state": "done"},
                    {"condition": {"field_equals": {"exit_code": 7}}, "next_state": "ping"}
                ]
            },
            "done": {"action": {"tool": "return", "params": {"result": {"all": "{ping_results}", "last": "{item}"}}}}
        }
    })
}

fn command_result(output: &str) -> Value {
    json!({"success": true, "exit_code": 0, "output": output})
}

/// Delivers the outcome of an action that need not be performed.
fn answer(run: &mut Machine) {
    let known = run.last.effects.iter().find_map(|effect| match effect {
        Effect::Answer { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    run.outcome(known.expect("the outcome is known"));
}

/// Returns a run whose first state printed three lines.
fn listed_run(for_each: &Value) -> Machine {
    let mut run = Machine::start(&pinging_machine(for_each));
    run.result(&command_result("a\n\nb c\nd\n"));
    run
}

#[test]
fn state_runs_for_each_line_and_has_all_results() {
    let mut run = listed_run(&json!("{list_output}"));
    for (number, command) in [(1, "ping a"), (2, "ping 'b c'"), (3, "ping d")] {
        assert_eq!((run.state(), &run.params()["command"]), ("ping", &json!(command)));
        assert_eq!(run.history.current().unwrap().step.visit, number, "each item has its own step");
        if number > 1 {
            assert_eq!(run.because(), format!("item {number} of 3"));
        }
        run.result(&command_result(&format!("{number}")));
    }
    assert_eq!(run.state(), "done");
    answer(&mut run);
    assert_eq!(run.history.result(), Some(&json!({"all": ["1", "2", "3"], "last": "d"})));
    assert_eq!(History::from_iter(&run.events), run.history, "a replay gives the same history");
}

#[test]
fn empty_list_does_nothing_and_succeeds() {
    let mut definition = pinging_machine(&json!({"items": "{list_output}", "as": "item"}));
    definition["states"]["done"]["action"]["params"]["result"] = json!("{ping_results}");
    let mut run = Machine::start(&definition);
    run.result(&command_result("\n"));
    answer(&mut run);
    assert_eq!(run.state(), "done");
    answer(&mut run);
    assert_eq!(run.history.status(), &Status::Completed);
    assert!(
        !run.log().iter().any(|entry| format!("{entry:?}").contains("ping \"")),
        "an empty list performs no action"
    );
    assert_eq!(run.history.variables().get("ping_results"), Some(&json!([])));
}

#[test]
fn failed_item_ends_the_list_and_a_transition_can_restart_it() {
    let mut run = listed_run(&json!(["x", "y"]));
    run.result(&command_result("1"));
    run.result(&json!({"success": true, "exit_code": 2, "output": "no"}));
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::ActionFailed, .. }));
    assert_eq!(run.history.variables().get("ping_results"), Some(&json!(["1", "no"])));

    let mut definition = pinging_machine(&json!(["x", "y"]));
    definition["states"]["ping"].as_object_mut().unwrap().remove("max_visits");
    definition["states"]["ping"].as_object_mut().unwrap().remove("on_exhausted");
    let mut run = Machine::start(&definition);
    run.result(&command_result(""));
    run.result(&command_result("1"));
    run.result(&json!({"success": true, "exit_code": 7, "output": "again"}));
    assert_eq!(run.params()["command"], "ping x", "the list restarts at its first item");
    run.result(&command_result("1"));
    run.result(&command_result("2"));
    assert_eq!(run.state(), "done");
}

#[test]
fn pause_between_items_resumes_at_the_next_one() {
    let mut run = listed_run(&json!(["x", "y"]));
    run.input(Input::Pause { by: "ana".to_owned(), above: false });
    run.result(&command_result("1"));
    assert_eq!(run.history.current(), None, "the next item is deferred");
    run.input(Input::Resume { by: "ana".to_owned(), above: false });
    assert_eq!(run.params()["command"], "ping y");
    run.result(&command_result("2"));
    assert_eq!(run.state(), "done");
    assert_eq!(History::from_iter(&run.events), run.history);
}

#[test]
fn unknown_outcome_of_an_item_is_not_a_success() {
    let mut run = listed_run(&json!(["x", "y"]));
    run.outcome(Outcome::Unknown);
    assert!(matches!(run.history.status(), Status::Failed { .. }), "{:?}", run.history.status());
}

#[test]
fn overlong_or_invalid_list_fails_before_any_action() {
    let mut run = Machine::start(&pinging_machine(&json!({"items": "{list_output}", "max_items": 2})));
    run.result(&command_result("a\nb\nc\n"));
    let Status::Failed { reason: FailureReason::BadParameters, error } = run.history.status() else {
        panic!("{:?}", run.history.status())
    };
    assert_eq!(error, "State 'ping': for_each has 3 items, more than the 2 that max_items allows");
    let mut run = Machine::start(&pinging_machine(&json!("{list_exit_code}")));
    run.result(&command_result("a"));
    let Status::Failed { error, .. } = run.history.status() else { panic!("{:?}", run.history.status()) };
    assert_eq!(error, "State 'ping': for_each needs a list or lines, not 0");
}

#[test]
fn problems_are_named_with_their_place() {
    for (for_each, pointer, message) in [
        (json!(5), "/states/ping/for_each", "must be an object"),
        (json!({"as": "x"}), "/states/ping/for_each", "'items' is missing"),
        (json!({"items": 3}), "/states/ping/for_each/items", "must be a list, or text"),
        (json!({"items": [], "as": "exit_code"}), "/states/ping/for_each/as", "not a valid item name"),
        (json!({"items": [], "max_items": 0}), "/states/ping/for_each/max_items", "from 1 to 1000"),
        (json!({"items": ["a", "b"], "max_items": 1}), "/states/ping/for_each", "exceed the max_items of 1"),
        (json!({"items": [], "each": 1}), "/states/ping/for_each/each", "unknown key"),
    ] {
        let found = problems(&pinging_machine(&for_each));
        let is_it = |problem: &str| problem.contains(pointer) && problem.contains(message);
        assert!(found.lines().any(is_it), "{for_each}: {found}");
    }
    let mut gate = pinging_machine(&json!(["x"]));
    gate["states"]["ping"]["action"] = json!({"tool": "gate", "params": {"prompt": "?", "choices": ["y"]}});
    assert!(problems(&gate).contains("a gate cannot be repeated for several items"));
    let unknown = definition(&pinging_machine(&json!("{lists}")));
    let warnings: Vec<String> = unknown.warnings().iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|warning| warning.contains("/states/ping/for_each") && warning.contains("{lists}")));
}
