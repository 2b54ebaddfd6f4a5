//! Parallel child runs: `parallel`, and `for_each` with `max_parallel`.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_ids::RunId;
use steplatch_workflow::{
    ChildEnd, ChildWorkflow, Decision, Effect, Event, Input, Limits, Outcome, RehearsalEnd, Start, Stubs, rehearse,
    resume,
};

use crate::machine::{Machine, definition, fields, problems, start};

fn parallel_machine(params: &Value) -> Value {
    json!({
        "initial_state": "fan",
        "states": {
            "fan": {"action": {"tool": "parallel", "params": params},
                    "transitions": [{"condition": "success", "next_state": "done"}, {"condition": "failure", "next_state": "sorry"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{fan_results}"}}},
            "sorry": {"action": {"tool": "return", "params": {"result": {"failed": "{fan_failed}", "why": "{fan_error}"}}}}
        }
    })
}

/// Returns the branches whose runs the last decision starts.
fn started_branches(run: &Machine) -> Vec<u32> {
    let step = |effect: &Effect| match effect {
        Effect::StartRun { step, .. } => Some(step.visit),
        _ => None,
    };
    run.last.effects.iter().filter_map(step).collect()
}

fn abandoned(effects: &[Effect]) -> Vec<u32> {
    let step = |effect: &Effect| match effect {
        Effect::Abandon { step } => Some(step.visit),
        _ => None,
    };
    effects.iter().filter_map(step).collect()
}

/// Delivers the outcome of a branch, and of the state if it ends. Returns the effects and events of the first.
fn end_branch(run: &mut Machine, number: usize, result: &Value) -> Decision {
    let step = run.step().part(number);
    run.wait(Duration::from_secs(1));
    let decision = run.input(Input::Outcome { step, outcome: Outcome::Finished { result: fields(result) } }).clone();
    let own = run.history.current().map(|current| current.step.clone());
    let known = decision.effects.iter().find_map(|effect| match effect {
        Effect::Answer { step, outcome } if Some(step) == own.as_ref() => Some(outcome.clone()),
        _ => None,
    });
    if let Some(outcome) = known {
        assert_eq!(
            resume(&run.history, run.now).last(),
            decision.effects.iter().find(|effect| matches!(effect, Effect::Answer { .. }))
        );
        run.outcome(outcome);
    }
    decision
}

fn completed(value: &str) -> Value {
    json!({"success": true, "status": "completed", "run_id": format!("run_{value}"), "result": value, "final_variables": {"x": 1}})
}

fn failed(error: &str) -> Value {
    json!({"success": false, "status": "failed", "error": error})
}

/// Delivers the answer that is known without performing an action.
fn returned_value(run: &mut Machine) -> Value {
    let known = run.last.effects.iter().find_map(|effect| match effect {
        Effect::Answer { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    run.outcome(known.expect("the outcome is known"));
    run.history.result().cloned().expect("the run has a result")
}

fn three_branches(more: &Value) -> Value {
    let mut params = json!({"workflows": [
        {"workflow_name": "a", "initial_variables": {"HOST": "{host}"}}, {"workflow_name": "b"}, {"workflow_name": "c"}
    ]});
    params.as_object_mut().expect("the value is an object").extend(fields(more));
    parallel_machine(&params)
}

fn begin(document: &Value) -> Machine {
    let variables = fields(&json!({"host": "alpha"}));
    Machine::start_with(document, Start { session_id: Some("term_1".into()), variables, ..start() })
}

#[test]
fn branches_start_as_others_end_and_results_keep_their_order() {
    let mut run = begin(&three_branches(&json!({"max_parallel": 2})));
    let fan = run.step();
    assert_eq!(started_branches(&run), [1, 2]);
    let [_, Effect::StartRun { child, .. }, _] = &run.last.effects[..] else { panic!("{:?}", run.last) };
    assert_eq!(child.workflow, ChildWorkflow::Named("a".parse().unwrap()));
    assert_eq!(child.variables["HOST"], "alpha");
    assert_eq!(child.session_id, None, "two runs do not type into one terminal");
    end_branch(&mut run, 2, &completed("two"));
    assert_eq!(started_branches(&run), [3]);
    assert_eq!(resume(&run.history, run.now).len(), 3, "the deadline and the two branches in progress");
    end_branch(&mut run, 3, &completed("three"));
    end_branch(&mut run, 3, &completed("again"));
    assert_eq!(run.last.events, [], "a repeated outcome has no effect");
    assert_eq!(run.state(), "fan");
    end_branch(&mut run, 1, &completed("one"));
    assert_eq!(run.state(), "done");
    assert_eq!(returned_value(&mut run), json!(["one", "two", "three"]));
    assert_eq!(
        run.history.variables().get("fan_runs").unwrap()[1],
        json!({"index": 1, "status": "completed", "run_id": RunId::started_by(&fan.part(2)).as_str()})
    );
    let branch_result = run.events.iter().find_map(|event| match event {
        Event::BranchEnded { result, .. } => Some(result.clone()),
        _ => None,
    });
    assert!(!branch_result.unwrap().contains_key("final_variables"), "only the child's own record has its variables");
}

#[test]
fn every_branch_ends_unless_the_first_failure_counts() {
    let named_branches = json!({"workflows": {"unit": {"workflow_name": "a"}, "lint": {"workflow_name": "b"}}});
    let mut run = begin(&parallel_machine(&named_branches));
    let decision = end_branch(&mut run, 1, &failed("no luck"));
    assert_eq!((run.state(), abandoned(&decision.effects)), ("fan", vec![]));
    end_branch(&mut run, 2, &completed("clean"));
    assert_eq!(run.state(), "sorry");
    let mut result = returned_value(&mut run);
    let run_id = result["failed"][0].as_object_mut().unwrap().remove("run_id").unwrap();
    assert!(run_id.as_str().unwrap().starts_with("run_"), "{run_id}");
    assert_eq!(
        result,
        json!({"failed": [{"name": "unit", "error": "no luck"}], "why": "1 of 2 workflows did not complete: unit: no luck"})
    );
    assert_eq!(run.history.variables().get("fan_results"), Some(&json!({"unit": null, "lint": "clean"})));

    let mut run = begin(&three_branches(&json!({"max_parallel": 2, "fail_fast": true})));
    let step = run.step().part(2);
    run.input(Input::ChildBegan { step: step.clone(), workflow: "b".into() });
    let decision = end_branch(&mut run, 1, &failed("no"));
    assert_eq!(abandoned(&decision.effects), [2]);
    let cancelled = Event::ChildEnded {
        at: decision.events[0].time(),
        step,
        workflow: "b".into(),
        end: ChildEnd::Cancelled,
        error: None,
    };
    assert!(decision.events.contains(&cancelled), "{:?}", decision.events);
    assert_eq!(run.state(), "sorry");
    let runs = run.history.variables().get("fan_runs").cloned().unwrap();
    assert_eq!([&runs[1]["status"], &runs[2]["status"]], ["cancelled", "not_started"]);
}

#[test]
fn terminals_of_ended_branches_are_closed_and_unused() {
    let closed = |effects: &[Effect]| {
        let session = |effect: &Effect| match effect {
            Effect::CloseTerminal { session_id } => Some(session_id.clone()),
            _ => None,
        };
        effects.iter().filter_map(session).collect::<Vec<_>>()
    };
    let branch_result = |session: &str, success: bool| json!({"success": success, "status": "x", "open_terminals": [session], "result": 1});
    let params = json!({"workflows": [
        {"workflow_name": "a"}, {"workflow_name": "b", "keep_terminals": true}, {"workflow_name": "c", "keep_terminals": true}
    ]});
    let mut document = parallel_machine(&params);
    document["states"]["sorry"] = json!({"action": {"tool": "run_command", "params": {"command": "ls"}}});
    let mut run = Machine::start(&document);
    assert_eq!(closed(&end_branch(&mut run, 1, &branch_result("term_a", true)).effects), ["term_a"]);
    assert_eq!(
        closed(&end_branch(&mut run, 2, &branch_result("term_b", true)).effects),
        [""; 0],
        "a branch with keep_terminals keeps its terminal"
    );
    end_branch(&mut run, 3, &branch_result("term_c", false));
    assert_eq!(run.params(), json!({"command": "ls"}), "the command runs in a separate shell");
    run.input(Input::Cancel { reason: "enough".into() });
    assert_eq!(run.closed(), ["term_a", "term_b"], "closing twice is harmless; one of a failed branch is kept");
}

#[test]
fn parallel_items_share_one_stored_definition() {
    let inner = json!({"name": "inner", "initial_state": "a", "states": {"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let document = json!({
        "initial_state": "each",
        "states": {"each": {
            "for_each": {"items": ["a", "b"], "max_parallel": 2},
            "action": {"tool": "run_workflow", "params": {"workflow_definition": inner, "initial_variables": {"X": "{item}"}}}
        }}
    });
    let run = Machine::start(&document);
    assert_eq!(run.params().to_string().matches("inner").count(), 1, "{}", run.params());
    let [_, Effect::StartRun { child, .. }, _] = &run.last.effects[..] else { panic!("{:?}", run.last) };
    assert_eq!(child.workflow, ChildWorkflow::Inline(inner));
    assert_eq!(child.variables["X"], "a");
    let mut document = document;
    document["states"]["each"]["transitions"] =
        json!([{"condition": {"field_contains": {"error": "{item}"}}, "next_state": "each"}]);
    let warnings: Vec<String> =
        definition(&document).warnings().iter().map(|warning| warning.message.clone()).collect();
    assert!(warnings.iter().any(|warning| warning.contains("item")), "{warnings:?}");
}

#[test]
fn nothing_starts_while_the_run_is_paused() {
    let mut run = begin(&three_branches(&json!({"max_parallel": 1})));
    let step = run.step().part(1);
    run.input(Input::ChildBegan { step: step.clone(), workflow: "a".into() });
    run.input(Input::Pause { by: "ana".into(), above: false });
    assert!(run.last.effects.contains(&Effect::PauseChild { step, by: "ana".into() }));
    end_branch(&mut run, 1, &completed("one"));
    assert_eq!(started_branches(&run), [0; 0]);
    assert_eq!(resume(&run.history, run.now), [], "nothing is in progress");
    run.input(Input::Resume { by: "ana".into(), above: false });
    assert_eq!(started_branches(&run), [2]);
    let cancelled = run.input(Input::Cancel { reason: "enough".into() });
    assert_eq!(abandoned(&cancelled.effects), [2]);
}

#[test]
fn clock_stops_while_any_branch_waits_for_an_answer() {
    let mut run = begin(&three_branches(&json!({})));
    let waits = |run: &mut Machine, number, waits| {
        let step = run.step().part(number);
        run.input(Input::ChildWaits { step, waits }).effects.clone()
    };
    assert_eq!(waits(&mut run, 1, true), [Effect::DisarmDeadline]);
    assert_eq!(waits(&mut run, 2, true), []);
    let time_left = run.history.time_left(run.now);
    run.wait(Duration::from_secs(3600));
    assert_eq!(waits(&mut run, 1, false), []);
    assert_eq!(run.history.time_left(run.now), time_left);
    end_branch(&mut run, 2, &failed("cancelled at its gate"));
    assert!(matches!(run.last.effects[..], [Effect::ArmDeadline { .. }]), "{:?}", run.last.effects);
}

#[test]
fn time_limit_of_the_state_bounds_all_branches() {
    let mut document = three_branches(&json!({}));
    document["states"]["fan"]["timeout"] = 60.into();
    document["states"]["fan"]["on_timeout"] = "late".into();
    document["states"]["late"] = json!({"action": {"tool": "sleep", "params": {"seconds": 1}}});
    let mut run = begin(&document);
    run.wait(Duration::from_secs(60));
    let step = run.step().part(2);
    let effects = run.input(Input::Outcome { step, outcome: Outcome::TimedOut }).effects.clone();
    assert_eq!((run.state(), abandoned(&effects)), ("late", vec![1, 3]));
}

#[test]
fn list_of_items_runs_in_parallel() {
    let each = |for_each: &Value| {
        json!({
            "initial_state": "each",
            "states": {"each": {
                "for_each": for_each,
                "action": {"tool": "run_workflow", "params": {"workflow_name": "ping", "initial_variables": {"HOST": "{item}"}}}
            }}
        })
    };
    let mut run = begin(&each(&json!({"items": "a\nb\nc\n", "max_parallel": 2})));
    assert_eq!(started_branches(&run), [1, 2]);
    for (number, value) in [(2, "B"), (1, "A"), (3, "C")] {
        end_branch(&mut run, number, &completed(value));
    }
    assert!(run.completed());
    assert_eq!(run.history.variables().get("each_results"), Some(&json!(["A", "B", "C"])));
    let mut run = begin(&each(&json!({"items": [], "max_parallel": 2})));
    let [_, Effect::Answer { outcome, .. }] = &run.last.effects[..] else { panic!("{:?}", run.last) };
    run.outcome(outcome.clone());
    assert!(run.completed());
    assert_eq!(run.history.variables().get("each_results"), Some(&json!([])));
}

#[test]
fn problems_are_named_with_their_place() {
    expect_test::expect![[r#"
        /states/fan/action/params/max_paralel: unknown key 'max_paralel' in a parallel, did you mean 'max_parallel'?
        /states/fan/action/params/workflows/b: Either 'workflow_definition' or 'workflow_name' must be provided
        /states/fan/action/params/workflows/c/workflow_name: '../c' is not a workflow name (1 to 64 letters, digits, '_' or '-', not beginning with '-')"#]]
    .assert_eq(&problems(&parallel_machine(&json!({
        "workflows": {"a": {"workflow_name": "a"}, "b": {}, "c": {"workflow_name": "../c"}}, "max_paralel": 2
    }))));
    expect_test::expect!["/states/fan/action/params/max_parallel: 'max_parallel' must be a whole number from 1 to 32"]
        .assert_eq(&problems(&parallel_machine(&json!({"workflows": [], "max_parallel": 99}))));
    let document = json!({
        "initial_state": "each",
        "states": {"each": {"for_each": {"items": ["a"], "max_parallel": 2}, "action": {"tool": "sleep", "params": {"seconds": 1}}}}
    });
    expect_test::expect!["/states/each/for_each/max_parallel: only a run_workflow can process several items at once: put the states into a workflow of their own, which gets a terminal for each item"]
        .assert_eq(&problems(&document));
}

#[test]
fn branches_complete_in_a_rehearsal_unless_stubbed() {
    let variables = fields(&json!({"host": "alpha", "which": "../no"}));
    let rehearsal_of = |document: &Value, stubs: &Value| {
        let stubs = Stubs::read(stubs, &definition(document), &crate::machine::Tools).expect("the stubs are valid");
        rehearse(&definition(document), &stubs, variables.clone(), Limits::default())
    };
    let document = three_branches(&json!({}));
    let rehearsal = rehearsal_of(&document, &json!({}));
    assert_eq!((&rehearsal.end, rehearsal.final_state.as_deref()), (&RehearsalEnd::Completed, Some("done")));
    let failed = json!({"states": {"fan": {"success": false, "failed": [1], "error": "no"}}});
    assert_eq!(rehearsal_of(&document, &failed).final_state.as_deref(), Some("sorry"));
    // A workflow that cannot start fails its branch, as in a run.
    let invalid_machine = parallel_machine(
        &json!({"workflows": [{"workflow_name": "{which}"}, {"workflow_name": "{which}"}, {"workflow_name": "a"}]}),
    );
    assert_eq!(rehearsal_of(&invalid_machine, &json!({})).final_state.as_deref(), Some("sorry"));
}
