//! Placeholders that are known at the start of a run and at the entry of a state.

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{FailureReason, Start, Status};

use crate::machine::{Machine, definition, fields, start};

fn typing_machine(text: &str) -> Value {
    json!({
        "arguments": {"PROJECT": "where to build", "MODE": {"default": "debug"}, "NOTE": {"required": false}},
        "initial_state": "look",
        "states": {
            "look": {
                "action": {"tool": "get_screen_content"},
                "transitions": [
                    {"condition": {"field_equals": {"message": "skip"}}, "next_state": "type"},
                    {"condition": "success", "next_state": "wait"}
                ]
            },
            "wait": {
                "action": {"tool": "await_output", "params": {"pattern": "x"}},
                "transitions": [{"condition": "success", "next_state": "type"}]
            },
            "type": {"action": {"tool": "send_input", "params": {"input_text": text}}}
        }
    })
}

fn warnings(document: &Value) -> String {
    definition(document).warnings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns the error of starting a machine with these variables, with an empty shell environment.
fn start_error(document: &Value, variables: &Value) -> String {
    let checked = definition(document).check_start(&fields(variables), |_| false);
    checked.err().map(|error| error.to_string()).unwrap_or_default()
}

fn start_with_variables(variables: &Value) -> Start {
    Start { session_id: Some("term_1".into()), variables: fields(variables), ..start() }
}

/// Returns a run of [`typing_machine`] whose shell has `PROJECT`, before the state that types.
fn typing_run(text: &str, first: &Value) -> Machine {
    let mut run = Machine::start_with(&typing_machine(text), start_with_variables(&json!({"PROJECT": "/src"})));
    run.shell_reports(&json!({}));
    run.shell_reports(&json!({"MODE": null, "NOTE": null}));
    run.shell_reports(&json!({}));
    run.result(first);
    run
}

#[test]
fn unset_name_is_a_warning_with_place_and_nearest_name() {
    for known in [
        "{PROJECT} {MODE|sh} {NOTE} {session_id} {run_id} {wait_match_text} {look_anything} {wait_groups.1}",
        "${HOME} ${UNKNOWN} %{http_code} {{nobody}} a{2,3} {} {a,b} awk '{print $1}' {{.Names}} {\"a\": 1}",
    ] {
        assert_eq!(warnings(&typing_machine(known)), "", "{known}");
    }
    expect![[r#"
        /states/type/action/params/input_text: warning: {PROJCT} is neither an argument nor a result of a state, did you mean 'PROJECT'? Start runs with it: add PROJCT to initial_variables. To use it as literal text, write {{PROJCT}}
        /states/type/action/params/input_text: warning: {print} is neither an argument nor a result of a state. Start runs with it: add print to initial_variables. To use it as literal text, write {{print}}"#]]
    .assert_eq(&warnings(&typing_machine("cd {PROJCT|sh}; awk '{print}' {PROJCT}")));
    let mut document = typing_machine("x");
    document["states"]["wait"]["transitions"][0]["condition"] = json!({"pattern_match": "v{version|regex}"});
    expect!["/states/wait/transitions/0/condition: warning: {version} is neither an argument nor a result of a state. Start runs with it: add version to initial_variables. To use it as literal text, write {{version}}"]
        .assert_eq(&warnings(&document));
}

#[test]
fn missing_variables_prevent_the_start() {
    let document = typing_machine("cd {PROJECT} && {command}");
    assert_eq!(start_error(&document, &json!({"PROJECT": "/src", "command": "make"})), "");
    expect!["Invalid arguments, so nothing was started: argument PROJECT (where to build) is missing; add PROJECT to initial_variables; {command} at /states/type/action/params/input_text has no value. Add command to initial_variables, or write {{command}} for literal text"]
        .assert_eq(&start_error(&document, &json!({"NOTE": "x"})));
    let in_shell = definition(&document).check_start(&fields(&json!({"command": "make"})), |name| name == "PROJECT");
    assert_eq!(in_shell, Ok(()));

    // A state that opens the terminal may set the argument.
    let mut document = typing_machine("x");
    document["states"]["look"]["action"] =
        json!({"tool": "open_terminal", "params": {"environment": {"PROJECT": "/src"}}});
    assert_eq!(start_error(&document, &json!({})), "");

    let mut document = typing_machine("x");
    document["arguments"] =
        json!({"VERSION": {"schema": {"pattern": "^\\d+$"}}, "KEY": {"secret": true, "schema": {"minLength": 3}}});
    expect![[r#"Invalid arguments, so nothing was started: VERSION="1.2" must match the pattern '^\d+$'; KEY=•••••• must have at least 3 characters"#]]
        .assert_eq(&start_error(&document, &json!({"VERSION": "1.2", "KEY": "x"})));
}

#[test]
fn nested_workflow_needs_its_missing_variables() {
    let nested = |passed_variables: Value| {
        json!({
            "initial_state": "nest",
            "states": {"nest": {"action": {"tool": "run_workflow", "params": {
                "workflow_definition": {"initial_state": "type", "states": {
                    "type": {"action": {"tool": "send_input", "params": {"input_text": "{command}"}}}
                }},
                "initial_variables": passed_variables
            }}}}
        })
    };
    assert_eq!(warnings(&nested(json!({"command": "make"}))), "");
    let place =
        "/states/nest/action/params/workflow_definition/states/type/action/params/input_text: warning: {command}";
    assert!(warnings(&nested(json!({"comand": "make"}))).starts_with(place));
    assert!(warnings(&nested(Value::Null)).starts_with(place));
}

#[test]
fn unresolved_placeholder_fails_the_run_before_its_action() {
    let run = typing_run("{wait_match_text}", &json!({"success": true, "message": "skip"}));
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::UnresolvedVariable, .. }));
    expect!["State 'type': {wait_match_text} has no value: state 'wait' has not been executed. If it is meant as text, write {{wait_match_text}}"]
        .assert_eq(run.error());
    assert_eq!((run.history.final_state(), run.history.states_executed()), (Some("look"), 1));

    let run = typing_run("{NOTE}", &json!({"success": true, "message": "skip"}));
    expect!["State 'type': {NOTE} has no value: the argument was not given, and has no default. If it is meant as text, write {{NOTE}}"]
        .assert_eq(run.error());

    let mut run = typing_run("{wait_groups.1}", &json!({"success": true}));
    run.result(&json!({"success": true, "match_text": "x"}));
    expect!["State 'type': {wait_groups.1} has no value: the last result of state 'wait' does not have it. If it is meant as text, write {{wait_groups.1}}"]
        .assert_eq(run.error());
}

#[test]
fn unresolved_condition_fails_the_run_when_reached() {
    let mut document = typing_machine("x");
    document["states"]["look"]["transitions"] = json!([
        {"condition": {"field_equals": {"message": "skip"}}, "next_state": "type"},
        {"condition": {"field_contains": {"screen_content": "{wait_match_text}"}}, "next_state": "wait"}
    ]);
    let reached = |message: &str| {
        let mut run =
            Machine::start_with(&document, start_with_variables(&json!({"PROJECT": "/src", "MODE": "x", "NOTE": "x"})));
        run.shell_reports(&json!({}));
        run.result(&json!({"success": true, "message": message, "screen_content": "x"}));
        run
    };
    assert_eq!(reached("skip").state(), "type");
    assert!(reached("go").error().starts_with("State 'look': {wait_match_text} has no value: state 'wait'"));
}

#[test]
fn fail_message_keeps_unresolved_placeholders() {
    let mut document = typing_machine("x");
    document["states"]["type"]["action"] =
        json!({"tool": "fail", "params": {"message": "broken: {wait_error} {nobody}"}});
    assert!(warnings(&document).contains("{nobody} is neither an argument"));
    assert_eq!(start_error(&document, &json!({"PROJECT": "/src"})), "");
    let mut run =
        Machine::start_with(&document, start_with_variables(&json!({"PROJECT": "/src", "MODE": "x", "NOTE": "x"})));
    run.shell_reports(&json!({}));
    run.result(&json!({"success": true, "message": "skip"}));
    assert_eq!(run.params()["message"], "broken: {wait_error} {nobody}");
}

#[test]
fn arguments_and_their_defaults_fill_placeholders() {
    let run = typing_run("{PROJECT} {MODE} {MODE|sh} ${MODE}", &json!({"success": true, "message": "skip"}));
    assert_eq!(run.params()["input_text"], "/src debug debug ${MODE}");

    // A value of the shell takes precedence over a default.
    let mut run = Machine::start_with(&typing_machine("{PROJECT} {MODE} {NOTE}"), start_with_variables(&json!({})));
    run.shell_reports(&json!({"PROJECT": "/here", "MODE": "release", "NOTE": "n"}));
    run.result(&json!({"success": true, "message": "skip"}));
    assert_eq!(run.params()["input_text"], "/here release n");

    // A default is known before there is a shell to query.
    let mut document = typing_machine("{MODE}");
    document["arguments"] = json!({"DIR": {"default": "/tmp"}});
    document["states"]["look"]["action"] = json!({"tool": "open_terminal", "params": {"working_directory": "{DIR}"}});
    document["states"]["type"]["action"]["params"]["input_text"] = "x".into();
    let run = Machine::start(&document);
    assert_eq!(run.params()["working_directory"], "/tmp");
}

#[test]
fn wait_groups_are_variables_by_number_and_by_name() {
    let mut document = typing_machine("{wait_groups.1}/{wait_groups.patch|sh}/{patch}/{wait_groups.0}");
    document["states"]["wait"]["action"]["params"]["pattern"] = r"v(\d+)(?:\.(?P<patch>\d+))?(?P<rest>-.*)?".into();
    document["states"]["wait"]["transitions"] =
        json!([{"condition": {"field_equals": {"groups.1": "4"}}, "next_state": "type"}]);
    assert_eq!(warnings(&document), "");
    let mut run =
        Machine::start_with(&document, start_with_variables(&json!({"PROJECT": "/src", "MODE": "x", "NOTE": "x"})));
    run.shell_reports(&json!({}));
    run.result(&json!({"success": true}));
    run.result(&json!({"success": true, "match_text": "v4.2", "groups": ["4", "2", null]}));
    assert_eq!(run.params()["input_text"], "4/2/2/v4.2");
    assert_eq!(run.history.variables().get("rest"), Some(&Value::Null));

    document["states"]["wait"]["transitions"][0]["condition"] = json!({"field_equals": {"groups.0": "4"}});
    expect!["/states/wait/transitions/0/condition: warning: 'groups.0' is the whole match; groups are counted from 1, 'groups.1' is the first"]
        .assert_eq(&warnings(&document));
}

#[test]
fn secret_reference_is_replaced() {
    let document = json!({"initial_state": "type", "states": {
        "type": {"action": {"tool": "run_command", "params": {"command": "login {secret:TOKEN|sh} {secret:} {note}"}}}}});
    assert_eq!(definition(&document).secrets().collect::<Vec<_>>(), ["TOKEN"]);
    // The content of a variable is not a reference.
    let variables = json!({"secret:TOKEN": "it's", "note": "{secret:TOKEN}"});
    assert_eq!(start_error(&document, &variables), "");
    let run = Machine::start_with(&document, start_with_variables(&variables));
    assert_eq!(run.params()["command"], r"login 'it'\''s' {secret:} {secret:TOKEN}");
    assert!(!run.history.variables().to_map().contains_key("secret:TOKEN"), "reports omit secrets");
    // A run from before such references has no value for them.
    let run = Machine::start_with(&document, start_with_variables(&json!({"note": "x"})));
    assert_eq!(run.params()["command"], "login {secret:TOKEN|sh} {secret:} x");
}

#[test]
fn answer_of_a_dialogue_may_be_a_secret_reference() {
    let document = json!({"arguments": {"PW": {"secret": true}}, "initial_state": "a", "states": {"a": {"action": {
        "tool": "dialogue", "params": {"rules": [{"when": "x", "secret": "PW"}, {"when": "y", "secret": "db_password"}]}}}}});
    assert_eq!(definition(&document).secrets().collect::<Vec<_>>(), ["db_password"]);
    assert_eq!(warnings(&document), "");
}
