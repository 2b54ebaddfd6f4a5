//! Values that a run computes and returns: `set`, `return`, and return values made of variables.

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{Effect, History, Outcome, Start, child_outcome};

use crate::machine::{Machine, definition, fields, problems, start};

fn transitions_to(state: &str) -> Value {
    json!([{"condition": "success", "next_state": state}])
}

fn machine(states: Value) -> Value {
    json!({"initial_state": "look", "states": states})
}

fn look(next: &str) -> Value {
    json!({"action": {"tool": "await_output", "params": {"pattern": "load (?P<load>\\S+)"}}, "transitions": transitions_to(next)})
}

fn matched_result() -> Value {
    json!({"success": true, "match_text": "load 0.5", "groups": ["0.5"]})
}

/// Delivers known results until the run requests an action.
fn perform_known(run: &mut Machine) {
    while let Some(Effect::Answer { outcome, .. }) =
        run.last.effects.iter().find(|effect| matches!(effect, Effect::Answer { .. })).cloned()
    {
        run.outcome(outcome);
    }
}

fn warnings(document: &Value) -> String {
    definition(document).warnings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn set_takes_values_of_any_type_and_return_ends_the_run() {
    let document = machine(json!({
        "look": look("set"),
        "set": {"action": {"tool": "set", "params": {
            "user": "{load}", "deep": {"list": ["{look_groups.1}", 2, null]}, "ok": true
        }}, "transitions": transitions_to("again")},
        "again": {"action": {"tool": "set", "params": {"ok": "{ok}", "user": null}}, "transitions": transitions_to("done")},
        "done": {"action": {"tool": "return", "params": {"result": {"who": "{user}", "all": "{deep}", "one": "{deep.list.1}", "ok": "{ok}"}}}}
    }));
    assert_eq!(warnings(&document), "");
    let mut run = Machine::start_with(&document, Start { variables: fields(&json!({"user": "ana"})), ..start() });
    run.result(&matched_result());
    perform_known(&mut run);
    assert!(run.completed(), "{:?}", run.history.status());
    let result = json!({"who": "ana", "all": {"list": ["0.5", 2, null]}, "one": 2, "ok": true});
    assert_eq!(run.history.result(), Some(&result));
    assert_eq!(History::from_iter(&run.events), run.history);
    let Outcome::Finished { result: of_child } = child_outcome(&run.history, "completed") else { panic!() };
    assert_eq!(of_child["result"], result);
}

#[test]
fn return_value_is_made_of_variables_without_a_shell() {
    let mut document = machine(json!({
        "look": look("close"),
        "close": {"action": {"tool": "exit_terminal"}}
    }));
    document["return_values"] = json!({"LOAD": {"from": "{look_groups.load}", "schema": {"pattern": "^[0-9.]+$"}}});
    assert_eq!(warnings(&document), "");
    let start_in_terminal = || Start { session_id: Some("term_1".into()), ..start() };
    let mut run = Machine::start_with(&document, start_in_terminal());
    run.result(&matched_result());
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert!(run.completed(), "{:?}", run.history.status());
    assert_eq!(run.history.return_values()["LOAD"], "0.5");

    let mut run = Machine::start_with(&document, start_in_terminal());
    run.result(&json!({"success": true, "match_text": "load high", "groups": ["high"]}));
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert!(run.error().starts_with("Return values are not as they must be: LOAD"), "{}", run.error());

    // One value from a variable, and one from the shell.
    document["return_values"]["REST"] = "of the shell".into();
    document["states"]["close"] = json!({"action": {"tool": "get_screen_content"}});
    let mut run = Machine::start_with(&document, start_in_terminal());
    run.result(&matched_result());
    run.result(&json!({"success": true}));
    run.shell_reports(&json!({"REST": "x"}));
    assert!(run.completed(), "{:?}", run.history.status());
    assert_eq!(serde_json::to_value(run.history.return_values()).unwrap(), json!({"LOAD": "0.5", "REST": "x"}));

    // An unset variable makes it missing.
    document["return_values"] = json!({"LOAD": {"from": "{load}"}});
    document["states"]["look"]["action"]["params"]["pattern"] = "x|(?P<load>y)".into();
    document["initial_state"] = "close".into();
    let mut run = Machine::start_with(&document, start_in_terminal());
    run.result(&json!({"success": true}));
    assert!(run.error().starts_with("Workflow failed to set required return values: LOAD"), "{}", run.error());
}

#[test]
fn return_values_without_a_shell_are_a_warning() {
    let mut document = machine(json!({"look": look("close"), "close": {"action": {"tool": "exit_terminal"}}}));
    document["return_values"] = json!({"LOAD": "the load"});
    expect![[r#"/return_values/LOAD: warning: LOAD is read from the shell after the last state, but state 'close' closes the terminal and may be the last state; build it from variables: {"from": "{STATE_FIELD}"}"#]]
        .assert_eq(&warnings(&document));
    document["states"] =
        json!({"look": {"action": {"tool": "open_terminal", "params": {"shell": "/usr/bin/python3"}}}});
    expect![[r#"/return_values/LOAD: warning: LOAD is read from the shell after the last state, but '/usr/bin/python3', which state 'look' opens, does not report variables; build it from variables: {"from": "{STATE_FIELD}"}"#]]
        .assert_eq(&warnings(&document));
    document["states"]["look"]["action"]["params"]["shell"] = "/bin/zsh".into();
    assert_eq!(warnings(&document), "");
}

#[test]
fn invalid_set_and_return_have_places() {
    let document = json!({
        "arguments": {"A": {"from": "{x}"}},
        "initial_state": "empty",
        "states": {
            "empty": {"action": {"tool": "set"}, "transitions": transitions_to("names")},
            "names": {"action": {"tool": "set", "params": {"1st": 1, "error": 2, "a b": 3, "fine-1": 4}}, "transitions": transitions_to("back")},
            "back": {"action": {"tool": "return", "params": {"value": 1}}, "transitions": transitions_to("empty")}
        }
    });
    expect![[r#"
        /arguments/A/from: 'from' belongs to a return value; an argument is given, or has a 'default'
        /states/empty/action/params: a set must name the variables: {"name": value, …}
        /states/names/action/params/1st: '1st' is not a valid variable name: use letters, digits, '_' and '-', with a letter or '_' first
        /states/names/action/params/error: 'error' is reserved for results of actions; choose another name
        /states/names/action/params/a b: 'a b' is not a valid variable name: use letters, digits, '_' and '-', with a letter or '_' first
        /states/back/action/params/value: unknown key 'value' in a return, known is only result
        /states/back/transitions: a return ends the run, so it has no transitions
        /states/empty: warning: State 'empty' cannot reach an end: every path from it continues
        /states/names: warning: State 'names' cannot reach an end: every path from it continues
        /states/back: warning: State 'back' cannot reach an end: every path from it continues"#]]
    .assert_eq(&problems(&document));
}

#[test]
fn input_with_a_wait_is_judged_like_a_wait() {
    let document = machine(json!({
        "look": {
            "action": {"tool": "send_input", "params": {"input_text": "uptime\n", "pattern": "load (?P<load>\\S+)", "timeout": 90}},
            "transitions": transitions_to("next")
        },
        "next": {"action": {"tool": "sleep", "params": {"seconds": "{load}"}}}
    }));
    let waited = |waited: Value| json!({"success": true, "waited": waited});
    let mut run = Machine::start(&document);
    assert_eq!(run.history.current().unwrap().limit, None, "the wait has its own limit");
    run.result(&waited(json!({"reason": "match", "match_text": "load 0.5", "groups": ["0.5"]})));
    assert_eq!(run.params(), json!({"seconds": "0.5"}));
    let mut run = Machine::start(&document);
    run.result(&waited(json!({"reason": "timeout", "elapsed_time": 90.0})));
    expect!["State 'look' failed: /load (?P<load>\\S+)/ did not appear within 90s"].assert_eq(run.error());
}
