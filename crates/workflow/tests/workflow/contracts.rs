//! Contracts between a run and its shell.

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{Effect, FailureReason, History, Input, Outcome, Start, Status, resume};

use crate::machine::{Machine, definition, fields, problems, start};

fn contract(arguments: &Value, return_values: &Value) -> Value {
    json!({
        "arguments": arguments,
        "return_values": return_values,
        "initial_state": "make",
        "states": {"make": {"action": {"tool": "send_input", "params": {"input_text": "make\n"}}}}
    })
}

/// Same as [`contract`], in a terminal that the run opens.
fn contract_in_own_terminal(arguments: &Value, return_values: &Value) -> Value {
    let mut document = contract(arguments, return_values);
    document["initial_state"] = "open".into();
    document["states"]["open"] = json!({
        "action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "make"}]
    });
    document
}

fn start_with_variables(variables: &Value) -> Start {
    Start { session_id: Some("term_1".into()), variables: fields(variables), ..start() }
}

/// Returns the last request to the shell.
fn last_request(run: &Machine) -> String {
    let mut requests = run.last.effects.iter().filter_map(|effect| match effect {
        Effect::SetVariables { session_id, variables, .. } => Some(format!("set {variables:?} in {session_id}")),
        Effect::ReadVariables { session_id, names, .. } => Some(format!("read {names:?} in {session_id}")),
        _ => None,
    });
    requests.next().unwrap_or_else(|| "(nothing)".to_owned())
}

#[test]
fn contract_accepts_short_and_long_forms() {
    let definition = definition(&contract(
        &json!({
            "PROJECT_ROOT": "where to build",
            "MODE": {"name": "MODE", "required": false, "default": "debug", "schema": {"enum": ["debug", "release"]}},
            "JOBS": {"default": 4}
        }),
        &json!({"TOKEN": {"description": "a key", "secret": true}}),
    ));
    let reported: Vec<_> = definition
        .arguments()
        .iter()
        .chain(definition.return_values())
        .map(|argument| {
            (argument.name(), argument.description(), argument.is_required(), argument.default(), argument.is_secret())
        })
        .collect();
    assert_eq!(
        reported,
        [
            ("PROJECT_ROOT", Some("where to build"), true, None, false),
            ("MODE", None, false, Some("debug"), false),
            ("JOBS", None, true, Some("4"), false),
            ("TOKEN", Some("a key"), true, None, true),
        ]
    );
    assert!(definition.arguments().get("MODE").unwrap().schema().is_some());
}

#[test]
fn every_contract_error_is_reported_with_its_place() {
    let document = contract(
        &json!({
            "9home": "a digit",
            "output": "a variable of every run",
            "both_Cases": "first",
            "both_cases": {"export": true},
            "PATH/X": "a slash",
            "A": {"name": "B", "descripton": "a typo", "required": "yes"},
            "C": 7,
            "D": {"default": ["x"], "secret": 1},
            "E": {"default": "blue", "schema": {"enum": ["red", "green"]}},
            "F": {"schema": {"type": "integer", "minimun": 1}},
            "G": {"schema": {"pattern": "("}},
            "BOTH": "here"
        }),
        &json!({"BOTH": "and there"}),
    );
    expect![[r#"
        /arguments/both_cases: the names 'both_Cases' and 'both_cases' differ in case only
        /arguments/9home: Argument '9home' must start with letter, contain only letters, numbers, and underscores, and have at most 64 characters
        /arguments/output: 'output' is a variable of every run: give the argument another name
        /arguments/both_cases/export: an argument is exported only if its name is in capital letters
        /arguments/PATH~1X: Argument 'PATH/X' must start with letter, contain only letters, numbers, and underscores, and have at most 64 characters
        /arguments/A/descripton: unknown key 'descripton' in a variable of a contract, did you mean 'description'?
        /arguments/A/name: 'name' must be the variable's key 'A', not 'B'
        /arguments/A/required: 'required' must be true or false, not the string "yes"
        /arguments/C: a variable of a contract must be an object, not 7
        /arguments/D/secret: 'secret' must be true or false, not 1
        /arguments/D/default: 'default' must be a string, not a list, unless its schema has that type
        /arguments/E/default: the default must be red or green, as its schema has it
        /arguments/F/schema/minimun: 'minimun' is not supported in the schema of a variable, did you mean 'minimum'?
        /arguments/G/schema/pattern: pattern '(' does not compile: unclosed group at position 0
        /return_values/BOTH: Environment variables cannot be both arguments and return values: BOTH"#]]
    .assert_eq(&problems(&document));

    let many = |count: usize| (0..count).map(|index| (format!("V{index}"), json!("x"))).collect::<Value>();
    definition(&contract(&many(20), &json!({})));
    expect!["/arguments: 'arguments' has at most 20 variables, not 21"]
        .assert_eq(&problems(&contract(&many(21), &json!(null))));
    expect!["/return_values: 'return_values' must be an object, not a list"]
        .assert_eq(&problems(&contract(&json!({}), &json!(["X"]))));
}

#[test]
fn lower_case_argument_is_substituted_but_not_exported() {
    let mut document = contract(&json!({"host": "where", "Port": {"default": "22"}, "USER": "x"}), &json!({}));
    document["states"]["make"]["action"]["params"]["input_text"] = "ssh -p {Port} {host} $USER".into();
    let mut run = Machine::start_with(&document, start_with_variables(&json!({"host": "web1"})));
    assert_eq!(last_request(&run), r#"read ["USER"] in term_1"#);
    run.shell_reports(&json!({"USER": "ana"}));
    assert_eq!(run.state(), "make");
    let input_text = run.last.effects.iter().find_map(|effect| match effect {
        Effect::Perform { params, .. } => params["input_text"].as_str().map(str::to_owned),
        _ => None,
    });
    assert_eq!(input_text.as_deref(), Some("ssh -p 22 web1 $USER"));
    // No shell can provide a value for a lower-case argument.
    let missing = definition(&document).check_start(&fields(&json!({})), |_| true).unwrap_err().to_string();
    assert!(missing.contains("argument host (where) is missing") && !missing.contains("USER"), "{missing}");
}

#[test]
fn argument_names_match_regardless_of_case() {
    let matched = |arguments: Value, given: Value| {
        let mut document = contract(&arguments, &json!({}));
        document["states"]["make"]["action"]["params"]["input_text"] = "{host} {free}".into();
        let mut initial = fields(&given);
        definition(&document).rename_by_case(&mut initial);
        Value::Object(initial)
    };
    let arguments = || json!({"PROJECT": "x", "host": "x"});
    let initial = json!({"project": "a", "HOST": "b", "other": "c"});
    assert_eq!(matched(arguments(), initial), json!({"PROJECT": "a", "host": "b", "other": "c"}));
    let exact = json!({"PROJECT": "a", "project": "b"});
    assert_eq!(matched(arguments(), exact.clone()), exact, "an exact match takes precedence");
    let needed = json!({"free": "a"});
    assert_eq!(
        matched(json!({"FREE": "x"}), needed.clone()),
        needed,
        "a variable that the definition uses keeps its name"
    );
}

#[test]
fn arguments_are_exported_and_replaced_before_the_first_state() {
    let arguments = json!({"ROOT": "x", "USER": "x", "MODE": {"default": "debug"}, "EXTRA": {"required": false}});
    let mut run = Machine::start_with(
        &contract(&arguments, &json!({})),
        start_with_variables(&json!({"ROOT": "/src", "other": "x"})),
    );
    assert_eq!(last_request(&run), r#"set {"ROOT": "/src"} in term_1"#);
    assert_eq!(run.history.states_executed(), 0);
    run.shell_reports(&json!({}));
    assert_eq!(last_request(&run), r#"read ["USER", "MODE", "EXTRA"] in term_1"#);
    run.shell_reports(&json!({"USER": "ana", "MODE": null, "EXTRA": null}));
    assert_eq!(last_request(&run), r#"set {"MODE": "debug"} in term_1"#);
    run.shell_reports(&json!({}));
    assert_eq!((run.state(), run.history.states_executed()), ("make", 1));
    run.succeed();
    assert!(run.completed());
    assert_eq!(
        serde_json::to_value(&run.log()[0]).unwrap(),
        json!({
            "phase": "pre_execution_validation", "success": true,
            "validation_result": {
                "valid": true,
                "missing_vars": [],
                "validation_log": [
                    {"variable": "ROOT", "status": "present", "required": true},
                    {"variable": "USER", "status": "present", "required": true},
                    {"variable": "MODE", "status": "present", "required": false},
                    {"variable": "EXTRA", "status": "missing", "required": false}
                ],
                "validation_type": "arguments"
            },
            "variables": {"MODE": "debug", "ROOT": "/src", "USER": "ana"}
        })
    );
}

#[test]
fn missing_argument_fails_the_run_before_typing() {
    let arguments = json!({"A": "x", "B": "x", "C": {"required": false}});
    let mut run = Machine::start_with(&contract(&arguments, &json!({})), start_with_variables(&json!({})));
    assert_eq!(last_request(&run), r#"read ["A", "B", "C"] in term_1"#);
    run.shell_reports(&json!({"A": null, "B": null, "C": "1"}));
    expect!["Missing required environment variables: A, B. Set them with: export A=value, export B=value"]
        .assert_eq(run.error());
    assert_eq!(run.history.final_state(), Some("validation_failed"));
    assert_eq!((run.history.states_executed(), run.history.last_state()), (0, None));
    assert!(matches!(run.history.status(), Status::Failed { reason: FailureReason::ArgumentsInvalid, .. }));
    let phases: Vec<_> = run.log().iter().map(|entry| serde_json::to_value(entry).unwrap()["phase"].clone()).collect();
    assert_eq!(phases, ["pre_execution_validation", "error"]);
}

#[test]
fn invalid_argument_values_are_reported() {
    let arguments = json!({"JOBS": {"schema": {"type": "integer", "minimum": 1}}, "MODE": {"schema": {"enum": ["a"]}}});
    let mut run = Machine::start_with(&contract(&arguments, &json!({})), start_with_variables(&json!({})));
    run.shell_reports(&json!({"JOBS": "many", "MODE": "b"}));
    expect!["Environment variables are not as they must be: JOBS must be a whole number, MODE must be a"]
        .assert_eq(run.error());
}

#[test]
fn unavailable_shell_fails_only_runs_that_need_it() {
    let busy = "the shell is busy, 'vim' runs in the foreground";
    let mut run = Machine::start_with(&contract(&json!({"A": "x"}), &json!({})), start_with_variables(&json!({})));
    run.shell_refuses(busy);
    expect!["Environment variables could not be checked: the shell is busy, 'vim' runs in the foreground"]
        .assert_eq(run.error());
    let mut run =
        Machine::start_with(&contract(&json!({"A": "x"}), &json!({})), start_with_variables(&json!({"A": "1"})));
    run.shell_refuses(busy);
    expect!["Environment variables could not be set: the shell is busy, 'vim' runs in the foreground"]
        .assert_eq(run.error());
    let mut run = Machine::start_with(
        &contract(&json!({"A": {"required": false}}), &json!({})),
        start_with_variables(&json!({})),
    );
    run.shell_refuses(busy);
    assert_eq!(run.state(), "make");
}

#[test]
fn run_opening_its_terminal_passes_arguments_and_reads_others() {
    let arguments = json!({"ROOT": "x", "USER": "x"});
    let mut document = contract_in_own_terminal(&arguments, &json!({}));
    document["states"]["open"]["action"]["params"] = json!({"environment": {"LANG": "C"}});
    let with = |variables: &Value| Start { variables: fields(variables), ..start() };
    let mut run = Machine::start_with(&document, with(&json!({"ROOT": "/src"})));
    assert_eq!(run.params(), json!({"environment": {"LANG": "C", "ROOT": "/src"}}));
    run.result(&json!({"success": true, "session_id": "term_7"}));
    assert_eq!(last_request(&run), r#"read ["USER"] in term_7"#);
    run.shell_reports(&json!({"USER": "ana"}));
    assert_eq!((run.state(), run.params()["session_id"].as_str()), ("make", Some("term_7")));

    // If every argument is given, the shell is not queried, so the program need not be a shell.
    let mut run = Machine::start_with(&document, with(&json!({"ROOT": "/src", "USER": "ana"})));
    run.result(&json!({"success": true, "session_id": "term_7"}));
    assert_eq!(run.state(), "make");

    let mut run = Machine::start_with(&document, with(&json!({})));
    run.result(&json!({"success": true, "session_id": "term_7"}));
    run.shell_reports(&json!({"USER": null, "ROOT": null}));
    assert_eq!(run.history.final_state(), Some("validation_failed"));
    assert_eq!(run.closed(), ["term_7"]);
}

#[test]
fn run_without_a_terminal_uses_the_given_arguments() {
    let mut document = contract(&json!({"A": "x", "B": {"default": "b"}}), &json!({}));
    document["states"]["make"]["action"] = json!({"tool": "sleep", "params": {"seconds": 0}});
    let run = Machine::start_with(&document, Start { variables: fields(&json!({"A": "1"})), ..start() });
    assert_eq!(run.state(), "make");
    let run = Machine::start(&document);
    expect!["Missing required environment variables: A. Set them with: export A=value"].assert_eq(run.error());
}

#[test]
fn return_values_are_read_after_the_last_state() {
    let returned = json!({"STATUS": "x", "COUNT": {"default": "0"}, "NOTE": {"required": false}});
    let mut run = Machine::start_with(&contract(&json!({}), &returned), start_with_variables(&json!({})));
    run.succeed();
    assert!(!run.history.is_over());
    assert_eq!(last_request(&run), r#"read ["STATUS", "COUNT", "NOTE"] in term_1"#);
    run.shell_reports(&json!({"STATUS": "green", "COUNT": null, "NOTE": null}));
    assert!(run.completed());
    assert_eq!(json!(run.history.return_values()), json!({"STATUS": "green", "COUNT": "0"}));
    assert_eq!(run.history.final_state(), Some("make"));

    let mut run =
        Machine::start_with(&contract(&json!({}), &json!({"X": "x", "Y": "y"})), start_with_variables(&json!({})));
    run.succeed();
    run.shell_reports(&json!({"X": null, "Y": "1"}));
    expect!["Workflow failed to set required return values: X. Expected variables: X, Y"].assert_eq(run.error());
    assert_eq!(run.history.final_state(), Some("return_validation_failed"));
    assert_eq!(json!(run.history.return_values()), json!({"Y": "1"}));
}

#[test]
fn unreadable_return_values_fail_the_run_only_if_required() {
    let ending = |returned: &Value| {
        let mut run = Machine::start(&contract_in_own_terminal(&json!({}), returned));
        run.result(&json!({"success": true, "session_id": "term_1"}));
        run.succeed();
        run
    };
    let mut run = ending(&json!({"X": "x"}));
    run.shell_refuses("its program has ended");
    expect!["Workflow failed to set required return values: X. Expected variables: X. They could not be read: its program has ended"].assert_eq(run.error());
    assert_eq!(run.closed(), ["term_1"]);
    let mut run = ending(&json!({"X": {"required": false}}));
    run.shell_refuses("its program has ended");
    assert!(run.completed());

    let mut document = contract(&json!({}), &json!({"X": "x"}));
    document["states"]["make"]["action"] = json!({"tool": "sleep", "params": {"seconds": 0}});
    let mut run = Machine::start(&document);
    run.succeed();
    expect!["Workflow failed to set required return values: X. Expected variables: X. They could not be read: the run has no open terminal to read them from"].assert_eq(run.error());
}

#[test]
fn failed_action_reads_no_return_values() {
    let mut run = Machine::start_with(&contract(&json!({}), &json!({"X": "x"})), start_with_variables(&json!({})));
    run.outcome(Outcome::TimedOut);
    assert_eq!(run.history.final_state(), Some("make"));
    assert!(run.history.is_over());
}

#[test]
fn shell_query_can_be_cancelled_and_repeats_after_a_restart() {
    let mut run = Machine::start_with(&contract(&json!({"A": "x"}), &json!({})), start_with_variables(&json!({})));
    let repeated_effects = resume(&run.history, run.now);
    assert_eq!(repeated_effects, run.last.effects);
    let step = run.history.exchange().unwrap().step.clone();
    assert_eq!(step.to_string(), "run_0123456789abcdef/@arguments/1");
    assert_eq!(History::from_iter(&run.events), run.history);
    run.input(Input::Cancel { reason: "enough".into() });
    assert_eq!(run.last.effects, [Effect::Abandon { step }]);
    assert!(run.history.is_over() && run.history.exchange().is_none());
}

#[test]
fn shell_expands_contract_names_and_braces_are_placeholders() {
    let mut document = contract(&json!({"ROOT": "x"}), &json!({"STATUS": {"required": false}}));
    document["states"]["make"]["action"]["params"]["input_text"] = "cd ${ROOT} # {ROOT} ${ROOT|sh} ${user}\n".into();
    let mut run = Machine::start_with(&document, start_with_variables(&json!({"ROOT": "/src", "user": "ana"})));
    run.shell_reports(&json!({}));
    assert_eq!(run.params()["input_text"], "cd ${ROOT} # /src $/src $ana\n");
}

/// Returns a machine that types its secret argument.
fn login_machine(entry: &Value) -> Value {
    let mut document = contract(&json!({"USER": "who", "PASSWORD": entry}), &json!({}));
    document["states"]["make"]["action"]["params"]["input_text"] = "login {USER} {PASSWORD|sh}\n".into();
    document
}

#[test]
fn secret_argument_is_exported_only_if_declared() {
    let variables = json!({"USER": "ana", "PASSWORD": "hunter2 x"});
    let mut run = Machine::start_with(&login_machine(&json!({"secret": true})), start_with_variables(&variables));
    assert_eq!(last_request(&run), r#"set {"USER": "ana"} in term_1"#);
    run.shell_reports(&json!({}));
    assert_eq!(run.params()["input_text"], "login ana 'hunter2 x'\n");
    let checked = serde_json::to_value(&run.log()[0]).unwrap();
    assert_eq!(
        checked["variables"],
        json!({"PASSWORD": "••••••", "USER": "ana"}),
        "a secret is checked like other arguments"
    );
    let status = |name: &str| json!({"variable": name, "status": "present", "required": true});
    assert_eq!(checked["validation_result"]["validation_log"], json!([status("USER"), status("PASSWORD")]));
    let exported = json!({"secret": true, "export": true});
    let run = Machine::start_with(&login_machine(&exported), start_with_variables(&variables));
    assert_eq!(last_request(&run), r#"set {"PASSWORD": "hunter2 x", "USER": "ana"} in term_1"#);
    let plain = Machine::start_with(&login_machine(&json!({"export": false})), start_with_variables(&variables));
    assert_eq!(last_request(&plain), r#"set {"USER": "ana"} in term_1"#);

    // The same for the environment of a terminal that the run opens.
    let mut document = contract_in_own_terminal(&json!({"USER": "who", "PASSWORD": {"secret": true}}), &json!({}));
    let with = |variables: &Value| Start { variables: fields(variables), ..start() };
    assert_eq!(Machine::start_with(&document, with(&variables)).params(), json!({"environment": {"USER": "ana"}}));
    document["arguments"]["PASSWORD"]["export"] = true.into();
    let environment = Machine::start_with(&document, with(&variables)).params()["environment"].clone();
    assert_eq!(environment, json!({"USER": "ana", "PASSWORD": "hunter2 x"}));
}

#[test]
fn secret_argument_without_a_value_is_read_from_the_shell() {
    // Document 001, lines 723-736: an argument is present if the shell of the session has it.
    let entry = json!({"secret": true, "schema": {"minLength": 3}});
    let mut run = Machine::start_with(&login_machine(&entry), start_with_variables(&json!({"USER": "ana"})));
    run.shell_reports(&json!({}));
    assert_eq!(last_request(&run), r#"read ["PASSWORD"] in term_1"#);
    run.shell_reports(&json!({"PASSWORD": "hunter2"}));
    assert_eq!(run.params()["input_text"], "login ana hunter2\n");
    assert_eq!(run.history.variables().get("PASSWORD"), Some(&json!("hunter2")));
    assert_eq!(History::from_iter(&run.events), run.history);

    let mut short = Machine::start_with(&login_machine(&entry), start_with_variables(&json!({"USER": "ana"})));
    short.shell_reports(&json!({}));
    short.shell_reports(&json!({"PASSWORD": "x"}));
    assert_eq!(short.history.final_state(), Some("validation_failed"));

    let mut missing = Machine::start_with(&login_machine(&entry), start_with_variables(&json!({"USER": "ana"})));
    missing.shell_reports(&json!({}));
    missing.shell_reports(&json!({"PASSWORD": null}));
    expect!["Missing required environment variables: PASSWORD. Set them with: export PASSWORD=value"]
        .assert_eq(missing.error());

    // The placeholder has the default as its value, and the default is not exported to the shell.
    let entry = json!({"secret": true, "default": "changeme"});
    let mut run = Machine::start_with(&login_machine(&entry), start_with_variables(&json!({"USER": "ana"})));
    run.shell_reports(&json!({}));
    run.shell_reports(&json!({"PASSWORD": null}));
    assert_eq!((run.state(), run.params()["input_text"].as_str()), ("make", Some("login ana changeme\n")));
}

#[test]
fn unusable_secret_argument_causes_a_warning() {
    let warnings = |document: &Value| {
        let reported: Vec<String> = definition(document).warnings().iter().map(ToString::to_string).collect();
        reported.join("\n")
    };
    let unused = "/arguments/PASSWORD: warning: the secret argument 'PASSWORD' is not exported, and no state uses \
                  {PASSWORD}; write {PASSWORD|sh} where it is typed, or add \"export\": true if programs are to find it in \
                  their environment";
    assert_eq!(warnings(&login_machine(&json!({"secret": true}))), "");
    let mut document = login_machine(&json!({"secret": true}));
    for (text, expected) in [
        ("deploy\n", unused),
        ("login ${PASSWORD}\n", unused),
        ("login {{PASSWORD}}\n", unused),
        ("login $ {PASSWORD}\n", ""),
    ] {
        document["states"]["make"]["action"]["params"]["input_text"] = text.into();
        assert_eq!(warnings(&document), expected, "{text}");
    }
    document["arguments"]["PASSWORD"]["export"] = true.into();
    assert_eq!(warnings(&document), "");
    document["arguments"]["PASSWORD"] = json!({"secret": true});
    document["states"]["make"]["action"]["params"]["input_text"] = "deploy\n".into();
    document["states"]["make"]["transitions"] =
        json!([{"condition": {"field_contains": {"screen_content": "{PASSWORD}"}}, "next_state": "make"}]);
    assert_eq!(warnings(&document), "");

    expect!["/return_values/TOKEN/export: 'export' belongs to an argument; a return value is only read from the shell"]
        .assert_eq(&problems(&contract(&json!({}), &json!({"TOKEN": {"export": true}}))));
}
