//! The action `run_command`.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{Effect, History, Outcome, Start, wants_screen};

use crate::machine::{Machine, fields, start};

/// Returns a machine that runs a command and types its output, unless the command failed.
fn building_machine(params: &Value, transitions: &Value) -> Value {
    json!({
        "initial_state": "build",
        "states": {
            "build": {"action": {"tool": "run_command", "params": params}, "transitions": transitions},
            "next": {"action": {"tool": "send_input", "params": {"input_text": "{build_output|sh} {output} {exit_code}"}}}
        }
    })
}

fn make_machine(transitions: &Value) -> Value {
    building_machine(&json!({"command": "make"}), transitions)
}

fn start_in_terminal() -> Start {
    Start { session_id: Some("term_1".into()), ..start() }
}

fn to_next(condition: Value) -> Value {
    json!([{"condition": condition, "next_state": "next"}])
}

#[test]
fn output_and_exit_code_of_a_command_are_variables() {
    let mut run = Machine::start_with(&make_machine(&to_next(json!("success"))), start_in_terminal());
    assert_eq!(run.params(), json!({"command": "make", "session_id": "term_1"}));
    run.result(&json!({"success": true, "session_id": "term_1", "output": "it's\n", "exit_code": 0}));
    assert_eq!(run.params()["input_text"], "'it'\\''s' it's 0");
}

#[test]
fn nonzero_exit_code_fails_the_run_unless_a_transition_holds() {
    let failed_result = json!({"success": true, "output": "cc x.c\nx.c: no such file\n", "exit_code": 2});
    let mut run = Machine::start_with(&make_machine(&to_next(json!("success"))), start_in_terminal());
    run.result(&failed_result);
    expect!["State 'build' failed: the command ended with exit code 2: x.c: no such file"].assert_eq(run.error());
    for taken in
        [json!("failure"), json!({"field_equals": {"exit_code": 2}}), json!({"pattern_match": "^x\\.c: no"}), json!({})]
    {
        let mut run = Machine::start_with(&make_machine(&to_next(taken.clone())), start_in_terminal());
        run.result(&failed_result);
        assert_eq!(run.state(), "next", "{taken}");
        assert_eq!(run.history.variables().get("build_success"), Some(&json!(false)));
    }
    let mut document = make_machine(&json!([]));
    document["states"]["build"]["on_timeout"] = "next".into();
    let mut run = Machine::start_with(&document, start_in_terminal());
    run.result(&failed_result);
    assert_eq!((run.state(), run.because()), ("next", "the action failed"));
}

#[test]
fn patterns_are_searched_in_the_output_of_a_command() {
    let document = make_machine(&to_next(json!({"pattern_match": "^ok$"})));
    let mut run = Machine::start_with(&document, start_in_terminal());
    let result = json!({"success": true, "output": "1\nok\n2\n", "exit_code": 0});
    let outcome = Outcome::Finished { result: fields(&result) };
    assert_eq!(wants_screen(&run.definition, &run.history, &run.step(), &outcome), None);
    run.outcome(outcome);
    assert_eq!(run.state(), "next");
}

#[test]
fn command_has_the_time_limit_of_its_state() {
    let limits = |params: Value, timeout: Value| {
        let mut document = building_machine(&params, &json!([]));
        document["states"]["build"]["timeout"] = timeout;
        let run = Machine::start_with(&document, start_in_terminal());
        (run.params()["timeout"].clone(), run.history.current().unwrap().limit)
    };
    assert_eq!(
        limits(json!({"command": "make"}), Value::Null),
        (Value::Null, None),
        "a command has its own default limit"
    );
    assert_eq!(
        limits(json!({"command": "make"}), json!(200)),
        (json!(200.0), None),
        "the command times out itself, so its output is kept"
    );
    assert_eq!(limits(json!({"command": "make", "timeout": 9}), Value::Null), (json!(9), None));
    let own = limits(json!({"command": "make", "timeout": 9}), json!(5));
    assert_eq!(own, (json!(9), Some(Duration::from_secs(5))));

    let mut run = Machine::start_with(&make_machine(&to_next(json!("timeout"))), start_in_terminal());
    run.result(
        &json!({"success": false, "timed_out": true, "output": "half", "exit_code": null, "error": "time was up"}),
    );
    assert_eq!((run.state(), run.because()), ("next", "time ran out"));
}

#[test]
fn command_without_a_terminal_gets_a_temporary_shell() {
    let mut run = Machine::start(&make_machine(&json!([])));
    assert_eq!(run.params(), json!({"command": "make"}));
    // The command continues in its shell after its timeout, and the run fails.
    run.result(
        &json!({"success": false, "timed_out": true, "session_id": "term_7", "output": "", "error": "time was up"}),
    );
    assert_eq!(run.closed(), ["term_7"]);
    assert_eq!(History::from_iter(&run.events), run.history);

    let mut run = Machine::start(&make_machine(&json!([])));
    let step = run.step();
    run.outcome(Outcome::TimedOut);
    assert!(run.last.effects.contains(&Effect::CloseOpened { step }), "{:?}", run.last.effects);

    // After the run's terminal was closed, no terminal can be named.
    let mut document = make_machine(&to_next(json!("success")));
    document["states"]["close"] = json!({
        "action": {"tool": "exit_terminal"}, "transitions": [{"condition": "success", "next_state": "build"}]
    });
    document["initial_state"] = "close".into();
    let mut run = Machine::start_with(&document, start_in_terminal());
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert_eq!(run.params(), json!({"command": "make"}));
}
