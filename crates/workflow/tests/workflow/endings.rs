//! Limits on visits, and finally states.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{Effect, FailureReason, History, Input, Limits, Outcome, Start, Status, resume};

use crate::machine::{Machine, definition, problems, start};

/// A machine with up to three attempts that stops a server at the end.
fn retrying_machine() -> Value {
    json!({
        "initial_state": "open",
        "finally": "stop",
        "return_values": {"URL": {"required": false}},
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "try"}]},
            "try": {
                "action": {"tool": "run_command", "params": {"command": "try {visits}"}},
                "max_visits": 3,
                "on_exhausted": "give_up",
                "transitions": [
                    {"condition": "success", "next_state": "done"},
                    {"condition": {"field_equals": {"output": "{visits}"}}, "next_state": "done"},
                    {"condition": "failure", "next_state": "try"}
                ]
            },
            "give_up": {"action": {"tool": "fail", "params": {"message": "three times: {error}"}}},
            "done": {"action": {"tool": "send_input", "params": {"input_text": "ok {visits}"}}},
            "stop": {"action": {"tool": "run_command", "params": {"command": "kill %1"}}, "transitions": [
                {"condition": {}, "next_state": "close"}
            ]},
            "close": {"action": {"tool": "exit_terminal"}}
        }
    })
}

fn run_with_terminal() -> Machine {
    let mut run = Machine::start(&retrying_machine());
    run.result(&json!({"success": true, "session_id": "term_1"}));
    run
}

fn failed_result() -> Value {
    json!({"success": true, "exit_code": 1, "output": "x"})
}

/// Performs the states after the finally state.
fn run_finally(run: &mut Machine) {
    assert_eq!(run.state(), "stop");
    run.result(&json!({"success": true, "exit_code": 0}));
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert_eq!(History::from_iter(&run.events), run.history);
}

#[test]
fn visits_are_limited_and_counted() {
    let mut run = run_with_terminal();
    for visit in 1..=3 {
        assert_eq!((run.state(), &run.params()["command"]), ("try", &json!(format!("try {visit}"))));
        run.result(&failed_result());
    }
    assert_eq!((run.state(), run.because()), ("give_up", "state 'try' was visited 3 times"));

    let mut run = run_with_terminal();
    run.result(&failed_result());
    run.result(&json!({"success": true, "exit_code": 1, "output": "2"}));
    assert_eq!((run.state(), &run.params()["input_text"]), ("done", &json!("ok 1")), "the state counts its own visits");

    let mut document = retrying_machine();
    document["states"]["try"].as_object_mut().unwrap().remove("on_exhausted");
    document.as_object_mut().unwrap().remove("finally");
    let mut run = Machine::start(&document);
    run.result(&json!({"success": true, "session_id": "term_1"}));
    (0..3).for_each(|_| drop(run.result(&failed_result()).clone()));
    expect!["State 'try' was visited 3 times (max_visits), and no state follows"].assert_eq(run.error());
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::TooManyStates, .. }));
}

#[test]
fn mutually_exhausted_states_end_the_run() {
    let state = |to: &str| {
        json!({"action": {"tool": "list_terminal_sessions"}, "max_visits": 1, "on_exhausted": to,
               "transitions": [{"condition": {}, "next_state": to}]})
    };
    let mut run = Machine::start(&json!({"initial_state": "a", "states": {"a": state("b"), "b": state("a")}}));
    run.succeed();
    run.succeed();
    assert!(run.error().contains("visited 1 times"), "{}", run.error());
}

#[test]
fn finally_state_runs_before_completion_or_failure() {
    let mut run = run_with_terminal();
    run.result(&json!({"success": true, "exit_code": 0, "output": ""}));
    run.succeed();
    // The return values are read while the terminal is open.
    run.shell_reports(&json!({"URL": "http://x"}));
    run_finally(&mut run);
    assert!(run.completed(), "{:?}", run.history.status());
    assert_eq!((run.history.return_values()["URL"].as_str(), run.history.final_state()), ("http://x", Some("done")));

    let mut run = run_with_terminal();
    run.result(&json!({"success": true, "exit_code": 0, "output": ""}));
    run.result(&json!({"success": false, "error": "gone"}));
    assert_eq!(run.because(), "the run is about to end");
    run_finally(&mut run);
    expect!["State 'done' failed: gone"].assert_eq(run.error());
    assert_eq!(run.history.final_state(), Some("done"));
}

#[test]
fn finally_failure_fails_a_completing_run_only() {
    let mut document = retrying_machine();
    document.as_object_mut().unwrap().remove("return_values");
    document["states"]["stop"]["transitions"] = json!([]);
    let mut run = Machine::start(&document);
    run.result(&json!({"success": true, "session_id": "term_1"}));
    run.result(&json!({"success": true, "exit_code": 0, "output": ""}));
    run.succeed();
    run.result(&failed_result());
    expect!["State 'stop' failed: the command ended with exit code 1: x"].assert_eq(run.error());
    assert_eq!(run.closed(), ["term_1"]);

    let mut run = Machine::start(&document);
    run.result(&json!({"success": false, "error": "no terminal"}));
    run.result(&failed_result());
    expect!["State 'open' failed: no terminal"].assert_eq(run.error());
}

#[test]
fn finally_state_has_its_own_time_and_states() {
    let limits = Limits::new(2, 100.0).unwrap();
    let mut run = Machine::start_with(&retrying_machine(), Start { limits, ..start() });
    run.result(&json!({"success": true, "session_id": "term_1"}));
    let step = run.step();
    run.wait(Duration::from_secs(200));
    run.input(Input::DeadlinePassed);
    assert!(run.last.effects.contains(&Effect::Abandon { step: step.clone() }), "{:?}", run.last.effects);
    assert!(run.last.effects.contains(&Effect::ArmDeadline { after: Duration::from_secs(60) }));
    run.input(Input::Outcome { step, outcome: Outcome::Unknown });
    assert_eq!(run.state(), "stop", "a late outcome has no effect");
    run.wait(Duration::from_secs(20));
    let resumed = resume(&run.history, run.now);
    assert!(resumed.contains(&Effect::ArmDeadline { after: Duration::from_secs(40) }), "{resumed:?}");
    run_finally(&mut run);
    expect!["Workflow execution timeout (100.0s) exceeded in state 'try'"].assert_eq(run.error());
}

#[test]
fn cancelled_or_unstarted_run_skips_its_finally_state() {
    let mut run = run_with_terminal();
    run.input(Input::Cancel { reason: "enough".into() });
    assert!(matches!(run.history.status(), Status::Cancelled { .. }));
    let mut document = retrying_machine();
    document["arguments"] = json!({"A": "needed"});
    document["states"]["open"]["action"] = json!({"tool": "list_terminal_sessions"});
    let run = Machine::start(&document);
    assert!(run.error().starts_with("Missing required"), "{}", run.error());
}

#[test]
fn invalid_visit_limits_and_finally_states_have_places() {
    let document = json!({
        "initial_state": "a",
        "finally": "b",
        "states": {
            "a": {"action": {"tool": "list_terminal_sessions"}, "on_exhausted": "c", "timeout": 7201},
            "d": {"action": {"tool": "list_terminal_sessions"}, "max_visits": 0, "on_exhausted": "a"}
        }
    });
    expect![[r#"
        /finally: the finally state 'b' is not in states, did you mean 'a'?
        /states/a/timeout: a timeout must be a number of seconds from 0.1 to 7200, not 7201
        /states/a/on_exhausted: 'on_exhausted' needs 'max_visits' beside it
        /states/a/on_exhausted: State 'a' exhausted target 'c' not found, did you mean 'a'?
        /states/d/max_visits: 'max_visits' must be a whole number from 1 to 1000, not 0
        /states/d/on_exhausted: 'on_exhausted' needs 'max_visits' beside it
        /states/d: warning: State 'd' cannot be reached from the initial state 'a'"#]]
    .assert_eq(&problems(&document));
    let warnings = definition(&retrying_machine()).warnings().to_vec();
    assert_eq!(warnings, []);
}

#[test]
fn completed_run_closes_its_opened_terminals() {
    let document = json!({"initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "nest"}]},
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "inner"}}, "transitions": [
            {"condition": "success", "next_state": "type"}
        ]},
        "type": {"action": {"tool": "send_input", "params": {"input_text": "x"}}}
    }});
    let completed = |start: Start| {
        let mut run = Machine::start_with(&document, start);
        run.result(&json!({"success": true, "session_id": "term_1"}));
        run.result(&json!({"success": true, "session_id": "term_1", "open_terminals": ["term_2"]}));
        assert_eq!(run.params()["session_id"], run.history.session_id().unwrap(), "the run uses its own terminal");
        run.succeed();
        assert!(run.completed());
        assert_eq!(History::from_iter(&run.events), run.history);
        run
    };
    let run = completed(start());
    assert_eq!(run.closed(), ["term_2", "term_1"]);
    let repeated_effects: Vec<Effect> = resume(&run.history, run.now);
    assert_eq!(repeated_effects, run.last.effects, "a restarted daemon repeats the effects");
    assert!(completed(Start { keep_terminals: true, ..start() }).closed().is_empty());
    let nested = Start { parent: Some("run_0123456789abcdea/nest/1".parse().unwrap()), depth: 1, ..start() };
    assert!(completed(nested).closed().is_empty(), "the parent run closes them");
    let run_in_given_terminal = completed(Start { session_id: Some("term_0".into()), ..start() });
    assert_eq!(run_in_given_terminal.closed(), ["term_2", "term_1"], "the given terminal stays open");
}
