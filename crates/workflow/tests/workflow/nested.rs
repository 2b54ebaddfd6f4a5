//! Child runs.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_workflow::{
    Child, ChildEnd, ChildWorkflow, Effect, Event, Input, Limits, Outcome, Start, child_outcome, resume,
};

use crate::machine::{Machine, definition, fields, problems, start};

fn nesting_machine(params: &Value) -> Value {
    json!({
        "initial_state": "nest",
        "states": {
            "nest": {"action": {"tool": "run_workflow", "params": params},
                     "transitions": [{"condition": "failure", "next_state": "mend"}]},
            "mend": {"action": {"tool": "sleep", "params": {"seconds": 0}}}
        }
    })
}

fn one_sleep() -> Value {
    json!({"initial_state": "rest", "states": {"rest": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}})
}

/// Returns the run that the last decision starts.
fn child(run: &Machine) -> &Child {
    let mut children = run.last.effects.iter().filter_map(|effect| match effect {
        Effect::StartRun { child, .. } => Some(&**child),
        _ => None,
    });
    children.next().unwrap_or_else(|| panic!("a child in {:?}", run.last))
}

#[test]
fn child_receives_only_its_arguments() {
    let document = nesting_machine(&json!({
        "workflow_name": "{which}", "initial_variables": {"WHO": "{user}", "N": 3}, "max_states": "7",
        "execution_timeout": 60, "keep_terminals": true
    }));
    let variables = fields(&json!({"user": "ana", "which": "build", "other": "x"}));
    let run = Machine::start_with(&document, Start { session_id: Some("term_1".into()), variables, ..start() });
    let expected = Child {
        workflow: ChildWorkflow::Named("build".parse().unwrap()),
        session_id: Some("term_1".into()),
        inherits: true,
        variables: [("WHO".into(), "ana".into()), ("N".into(), "3".into())].into(),
        limits: Limits::new(7, 60.0).unwrap(),
        keep_terminals: true,
        save_on_success: true,
        depth: 1,
    };
    assert_eq!(*child(&run), expected);
    assert_eq!(run.history.current().unwrap().limit, None, "the limit of the child run applies");
    assert_eq!(resume(&run.history, run.now)[1], run.last.effects[1]);
}

#[test]
fn child_works_in_its_opened_terminal_unless_one_is_named() {
    let opening = json!({"initial_state": "open", "states": {"open": {"action": {"tool": "open_terminal"}}}});
    let start = Start { session_id: Some("term_1".into()), ..start() };
    let terminal = |params: &Value, inner: &Value| {
        let run = Machine::start_with(&nesting_machine(params), start.clone());
        child(&run).terminal(&definition(inner)).map(str::to_owned)
    };
    let without_terminal = json!({"workflow_name": "build"});
    assert_eq!(terminal(&without_terminal, &one_sleep()).as_deref(), Some("term_1"));
    assert_eq!(terminal(&without_terminal, &opening), None);
    let with_terminal = json!({"workflow_name": "build", "session_id": "term_2"});
    assert_eq!(terminal(&with_terminal, &opening).as_deref(), Some("term_2"));
}

#[test]
fn placeholders_of_an_inline_definition_belong_to_the_child() {
    let mut inner = one_sleep();
    inner["states"]["rest"]["action"]["params"]["seconds"] = "{pause}".into();
    let document = nesting_machine(&json!({"workflow_definition": inner, "session_id": "{pause}"}));
    let run = Machine::start_with(&document, Start { variables: fields(&json!({"pause": "9"})), ..start() });
    assert_eq!(child(&run).workflow, ChildWorkflow::Inline(inner));
    assert_eq!(child(&run).session_id.as_deref(), Some("9"));
}

#[test]
fn result_of_a_child_is_the_result_of_the_action() {
    let mut inner = Machine::start_with(&one_sleep(), Start { depth: 2, ..start() });
    inner.succeed();
    let mut run = Machine::start(&nesting_machine(&json!({"workflow_name": "inner"})));
    run.outcome(child_outcome(&inner.history, "completed"));
    assert!(run.completed());
    assert_eq!(run.history.recursion_depth(), 2);
    let value = |name: &str| run.history.variables().get(name).cloned();
    assert_eq!(value("workflow_final_state"), Some("rest".into()));
    assert_eq!(value("nest_open_terminals"), Some(json!([])));

    let mut inner = Machine::start(&one_sleep());
    inner.input(Input::Cancel { reason: "enough".into() });
    let mut run = Machine::start(&nesting_machine(&json!({"workflow_name": "inner"})));
    run.outcome(child_outcome(&inner.history, "cancelled"));
    assert_eq!((run.state(), run.because()), ("mend", "the action failed"));
    assert_eq!(run.history.variables().get("nest_error"), Some(&json!("enough")));
}

#[test]
fn children_nest_at_most_five_levels_deep() {
    let at =
        |depth: u32| Machine::start_with(&nesting_machine(&json!({"workflow_name": "me"})), Start { depth, ..start() });
    assert_eq!(child(&at(4)).depth, 5);
    let mut run = at(5);
    let [_, Effect::Answer { step, outcome }] = &run.last.effects[..] else { panic!("{:?}", run.last) };
    assert_eq!(*step, run.step());
    run.outcome(outcome.clone());
    assert_eq!(run.history.variables().get("error"), Some(&json!("Maximum recursion depth (5) exceeded")));
    assert_eq!(run.state(), "mend");
}

#[test]
fn invalid_resolved_parameters_fail_the_action() {
    for (params, expected) in [
        (
            json!({"workflow_name": "{name}"}),
            "'../x' is not a workflow name (1 to 64 letters, digits, '_' or '-', not beginning with '-')",
        ),
        (json!({"workflow_name": "x", "max_states": "{name}"}), "'max_states' must be a number"),
        (json!({"workflow_name": "x", "initial_variables": "{name}"}), "'initial_variables' must be an object"),
    ] {
        let variables = fields(&json!({"name": "../x"}));
        let run = Machine::start_with(&nesting_machine(&params), Start { variables, ..start() });
        let Effect::Answer { outcome: Outcome::Finished { result }, .. } = &run.last.effects[1] else {
            panic!("{:?}", run.last)
        };
        assert_eq!((&result["success"], result["error"].as_str()), (&json!(false), Some(expected)));
    }
}

#[test]
fn nested_definition_is_checked_with_the_outer_one() {
    let mut inner = one_sleep();
    inner["states"]["rest"]["transitions"] = json!([{"condition": {}, "next_state": "nowhere"}]);
    let document = nesting_machine(&json!({"workflow_definition": inner, "workflow_nam": "x", "max_states": 0}));
    expect![[r#"
        /states/nest/action/params/workflow_nam: unknown key 'workflow_nam' in a run_workflow, did you mean 'workflow_name'?
        /states/nest/action/params/max_states: max_states must be from 1 to 1000, not 0
        /states/nest/action/params/workflow_definition/states/rest/transitions/0/next_state: State 'rest' references non-existent state 'nowhere'"#]]
    .assert_eq(&problems(&document));
    expect!["/states/nest/action/params: Either 'workflow_definition' or 'workflow_name' must be provided"]
        .assert_eq(&problems(&nesting_machine(&json!({}))));
    expect![
        "/states/nest/action/params/workflow_name: Provide either 'workflow_definition' OR 'workflow_name', not both"
    ]
    .assert_eq(&problems(&nesting_machine(&json!({"workflow_definition": one_sleep(), "workflow_name": "x"}))));

    let mut document = one_sleep();
    for _ in 0..5 {
        document = nesting_machine(&json!({"workflow_definition": document}));
    }
    definition(&document);
    let problem = problems(&nesting_machine(&json!({"workflow_definition": document})));
    assert!(problem.ends_with("workflow_definition: workflows are nested at most 5 levels deep"), "{problem}");
}

#[test]
fn start_and_end_of_a_child_are_recorded_once() {
    let mut run = Machine::start(&nesting_machine(&json!({"workflow_name": "inner"})));
    let step = run.step();
    let began = Input::ChildBegan { step: step.clone(), workflow: "inner".into() };
    let at = run.now;
    let started = Event::ChildStarted { at, step: step.clone(), workflow: "inner".into() };
    assert_eq!(run.input(began.clone()).events, [started]);
    assert_eq!(run.input(began).events, [], "a repeated report by the next daemon has no effect");
    let mut stopped =
        Machine { history: run.history.clone(), ..Machine::start(&nesting_machine(&json!({"workflow_name": "x"}))) };
    stopped.now = at;
    let cancelled = stopped.input(Input::Cancel { reason: "enough".into() }).events.clone();
    let end = Event::ChildEnded { at, step, workflow: "inner".into(), end: ChildEnd::Cancelled, error: None };
    assert_eq!(cancelled, [end, Event::Cancelled { at, reason: "enough".into() }]);
    let failed = run.result(&json!({"success": false, "status": "failed", "error": "no"})).events.clone();
    assert!(
        matches!(&failed[0], Event::ChildEnded { end: ChildEnd::Failed, error: Some(error), .. } if error == "no"),
        "{failed:?}"
    );
    assert!(matches!(&failed[1], Event::StateCompleted { .. }), "{failed:?}");
}

#[test]
fn cancelling_or_timing_out_abandons_a_child() {
    let mut run = Machine::start(&nesting_machine(&json!({"workflow_name": "inner"})));
    let step = run.step();
    run.wait(Duration::from_secs(1800));
    run.input(Input::DeadlinePassed);
    assert_eq!(run.last.effects, [Effect::Abandon { step }]);
}

#[test]
fn waiting_time_of_a_child_does_not_count() {
    let hour = Duration::from_secs(3600);
    let mut run = Machine::start(&nesting_machine(&json!({"workflow_definition": one_sleep()})));
    let step = run.step();
    let waits = |waits| Input::ChildWaits { step: step.clone(), waits };
    assert_eq!(run.input(waits(false)).events, [], "a child that does not wait needs no event");
    assert_eq!(run.input(waits(true)).effects, [Effect::DisarmDeadline]);
    assert_eq!(run.input(waits(true)).events, [], "a repeated report has no effect");
    let time_left = run.history.time_left(run.now);
    run.wait(hour);
    assert_eq!(run.history.time_left(run.now), time_left);
    assert_eq!(run.input(Input::DeadlinePassed).events, [], "an outdated timer has no effect");
    assert!(!resume(&run.history, run.now).iter().any(|effect| matches!(effect, Effect::ArmDeadline { .. })));
    let [Effect::ArmDeadline { after }] = run.input(waits(false)).effects[..] else { panic!("{:?}", run.last) };
    assert!(after > Duration::from_secs(1790), "{after:?}");
    // A waiting child can also end by being cancelled.
    run.input(waits(true));
    run.wait(hour);
    let decision = run.result(&json!({"success": false, "status": "cancelled"}));
    assert!(matches!(decision.effects[0], Effect::ArmDeadline { after } if after > Duration::from_secs(1790)));
    assert_eq!(run.state(), "mend");
}

/// A machine that opens a terminal, closes it, runs another workflow, and types.
fn composed_machine() -> Value {
    let state = |tool: &str, params: Value, next: &str| json!({"action": {"tool": tool, "params": params}, "transitions": [{"condition": "success", "next_state": next}]});
    json!({
        "initial_state": "open",
        "states": {
            "open": state("open_terminal", json!({}), "close"),
            "close": state("exit_terminal", json!({}), "nest"),
            "nest": state("run_workflow", json!({"workflow_name": "inner"}), "type"),
            "type": {"action": {"tool": "send_input", "params": {"input_text": "{session_id}"}}}
        }
    })
}

#[test]
fn closed_terminal_is_passed_to_no_child() {
    // Document 000, lines 555-585: a workflow can contain other workflows after any other action.
    let mut run = Machine::start(&composed_machine());
    run.result(&json!({"success": true, "session_id": "term_1"}));
    run.result(&json!({"success": true, "session_id": "term_1"}));
    assert_eq!(run.params(), json!({"workflow_name": "inner"}));
    assert_eq!((child(&run).session_id.as_deref(), child(&run).inherits), (None, false));
    // A given terminal is forgotten too when another one is opened.
    let mut document = composed_machine();
    document["initial_state"] = "close".into();
    document["states"]["nest"] = json!({
        "action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "type"}]
    });
    let mut run = Machine::start_with(&document, Start { session_id: Some("term_mine".into()), ..start() });
    run.result(&json!({"success": true, "session_id": "term_mine"}));
    run.result(&json!({"success": true, "session_id": "term_2"}));
    assert_eq!(run.params()["session_id"], "term_2");
    run.result(&json!({"success": false}));
    assert_eq!(run.closed(), ["term_2"]);
}

#[test]
fn child_result_has_the_fields_of_its_run() {
    // Document 000, lines 178-195 and 578: the action returns the tool's result.
    let document = json!({
        "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "nest"}]},
            "nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "deeper"}}}
        }
    });
    let mut inner = Machine::start_with(&document, Start { variables: fields(&json!({"user": "ana"})), ..start() });
    inner.result(&json!({"success": true, "session_id": "term_1"}));
    inner.result(&json!({"success": true, "final_state": "z", "final_variables": {"x": 1}, "session_id": null}));
    let Outcome::Finished { result } = child_outcome(&inner.history, "completed") else { panic!("the run has ended") };
    assert_eq!((&result["final_state"], &result["workflow_final_state"]), (&json!("nest"), &json!("nest")));
    assert_eq!(result["session_id"], "term_1");
    assert_eq!(result["total_elapsed_time"], 0.5);
    let variables = &result["final_variables"];
    assert_eq!((&variables["user"], &variables["nest_final_state"]), (&json!("ana"), &json!("z")));
    assert_eq!(variables.get("nest_final_variables"), None, "variables of deeper runs are not passed on");

    let mut run = Machine::start(&nesting_machine(&json!({"workflow_name": "inner"})));
    run.outcome(Outcome::Finished { result });
    let value = |name: &str| run.history.variables().get(name).cloned();
    assert_eq!((value("nest_final_state"), value("session_id")), (Some(json!("nest")), Some(json!("term_1"))));
    // A terminal closed with the run is not passed on.
    let mut failed = Machine::start(&document);
    failed.result(&json!({"success": true, "session_id": "term_1"}));
    failed.result(&json!({"success": false, "error": "no"}));
    let Outcome::Finished { result } = child_outcome(&failed.history, "failed") else { panic!("the run has ended") };
    assert_eq!((&result["session_id"], &result["open_terminals"]), (&Value::Null, &json!([])));
}

#[test]
fn omitted_value_of_a_nested_run_is_named_with_its_limit() {
    let failed = |read: &str, result: &Value| {
        let mut document = nesting_machine(&json!({"workflow_name": "inner"}));
        document["states"]["nest"]["transitions"] = json!([{"condition": "success", "next_state": "read"}]);
        document["states"]["read"] = json!({"action": {"tool": "send_input", "params": {"input_text": read}}});
        document["states"].as_object_mut().unwrap().remove("mend");
        let mut run = Machine::start(&document);
        run.result(result);
        run.history.error().map(str::to_owned)
    };
    let result = json!({
        "success": true, "run_id": "run_0123456789abcdef", "final_variables": {"short": "x"},
        "omitted_variables": ["long"], "log_omitted": true
    });
    expect!["State 'read': {nest_final_variables.long} has no value: the variables of the nested run are longer than 64 KiB together, so the longest were left out, 'long' among them. Have that workflow return it, and read {nest_result} or {nest_return_values}, which are whole"]
        .assert_eq(&failed("{nest_final_variables.long}", &result).unwrap());
    expect!["State 'read': {nest_execution_log.0.result} has no value: the log of the nested run is longer than 64 KiB, so it was left out. Have that workflow return what you need, and read {nest_result} or {nest_return_values}; get_run of run_0123456789abcdef has the log"]
        .assert_eq(&failed("{nest_execution_log.0.result}", &result).unwrap());
    let other = failed("{nest_final_variables.other}", &result).unwrap();
    assert!(other.contains("does not have it. If it is meant as text"), "{other}");
    assert_eq!(failed("{nest_final_variables.short}", &result), None);
}

#[test]
fn open_terminal_of_a_child_passes_to_a_run_without_one() {
    // Document 000, lines 640-656: the session_id of a nested run is then the session_id of the run.
    let child_result = |opened: &Value| json!({"success": true, "status": "completed", "session_id": "term_7", "open_terminals": opened});
    let mut document = composed_machine();
    document["initial_state"] = "nest".into();
    let mut run = Machine::start(&document);
    run.result(&child_result(&json!(["term_7"])));
    assert_eq!(run.params(), json!({"input_text": "term_7", "session_id": "term_7"}));
    run.result(&json!({"success": false}));
    assert_eq!(run.closed(), ["term_7"], "the run owns the terminal that its child left open");

    // A terminal given to the child belongs to its owner.
    let mut run = Machine::start(&document);
    run.result(&child_result(&json!([])));
    assert_eq!(run.params()["session_id"], "term_7");
    run.result(&json!({"success": false}));
    assert_eq!(run.closed(), [""; 0]);

    // A run with a terminal keeps it, and `{session_id}` is the result of the last action.
    let mut run = Machine::start_with(&document, Start { session_id: Some("term_mine".into()), ..start() });
    run.result(&child_result(&json!(["term_7"])));
    assert_eq!(run.params(), json!({"input_text": "term_7", "session_id": "term_mine"}));
}

#[test]
fn arguments_are_exported_in_a_terminal_left_by_a_child() {
    let mut document = composed_machine();
    document["initial_state"] = "nest".into();
    document["arguments"] = json!({"ROOT": "where"});
    let mut run = Machine::start_with(&document, Start { variables: fields(&json!({"ROOT": "/src"})), ..start() });
    run.result(&json!({"success": true, "session_id": "term_7", "open_terminals": ["term_7"]}));
    let exports_variables = run.last.effects.iter().any(
        |effect| matches!(effect, Effect::SetVariables { session_id, variables, .. } if session_id == "term_7" && variables["ROOT"] == "/src"),
    );
    assert!(exports_variables, "the shell started before the run owned it: {:?}", run.last);
}

#[test]
fn inline_child_is_saved_unless_disabled() {
    // Document 000, lines 164 and 804-807: save_on_success is a parameter of a nested call too.
    let saves = |own: &Value, outer: bool| {
        let document = nesting_machine(&json!({"workflow_definition": one_sleep(), "save_on_success": own}));
        child(&Machine::start_with(&document, Start { save_on_success: outer, ..start() })).save_on_success
    };
    assert!(saves(&Value::Null, true) && saves(&json!(true), true));
    assert!(!saves(&json!(false), true) && !saves(&json!("false"), true));
    assert!(!saves(&Value::Null, false) && !saves(&json!(true), false));
}

#[test]
fn initial_session_id_is_the_terminal_of_the_run() {
    // Document 000, lines 148 and 502: there is no other way to pass a terminal.
    let with = |variables: Value, session_id: Option<&str>| {
        let session_id = session_id.map(str::to_owned);
        Machine::start_with(
            &nesting_machine(&json!({"workflow_name": "inner"})),
            Start { variables: fields(&variables), session_id, ..start() },
        )
    };
    let run = with(json!({"session_id": "term_9"}), None);
    assert_eq!((run.history.session_id(), child(&run).session_id.as_deref()), (Some("term_9"), Some("term_9")));
    assert_eq!(with(json!({"session_id": "term_9"}), Some("term_1")).history.session_id(), Some("term_1"));
    assert_eq!(with(json!({"session_id": ""}), None).history.session_id(), None);

    let params = json!({"workflow_name": "inner", "initial_variables": {"session_id": "{mine}"}});
    let variables = fields(&json!({"mine": "term_5"}));
    let run = Machine::start_with(
        &nesting_machine(&params),
        Start { session_id: Some("term_1".into()), variables, ..start() },
    );
    let opening = json!({"initial_state": "open", "states": {"open": {"action": {"tool": "open_terminal"}}}});
    assert_eq!(
        child(&run).terminal(&definition(&opening)),
        Some("term_5"),
        "the initial session_id counts as a named terminal"
    );
}
