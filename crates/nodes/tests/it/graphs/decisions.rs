//! Order, policies and results, decision by decision.

use serde_json::{Value, json};
use steplatch_nodes::graph::{Effect, GraphInput, Progress, StepOutcome, decide, hold, resume};
use steplatch_nodes::{ErrorType, Node};
use steplatch_workflow::Timestamp;

use crate::graphs::execution::{GraphExecution, done, failed, graph_node, graph_of};

fn step(id: &str, after: &[&str]) -> Value {
    json!({"id": id, "node": id, "depends_on": after})
}

#[test]
fn steps_run_once_their_dependencies_have_ended() {
    let steps = json!([step("d", &["b", "c"]), step("b", &["a"]), step("c", &["a"]), step("a", &[])]);
    let mut execution = GraphExecution::begin(graph_node(steps), "in");
    assert_eq!(execution.open, ["a1"]);
    assert_eq!(execution.finish("a", done("A")), ["b1", "c1"]);
    assert_eq!(execution.finish("c", done("C")), ["b1"]);
    assert_eq!(execution.finish("b", done("B")), ["d1"]);
    assert_eq!(execution.finish("d", done("D")), Vec::<String>::new());
    let result = execution.result();
    assert_eq!((result.success, &result.output, &result.input), (true, &json!("D"), &json!("in")));
    assert_eq!(result.attributes["execution_order"], json!(["a", "b", "c", "d"]));
    assert_eq!(result.attributes["final_step_id"], "d");
    assert_eq!(result.attributes["steps"]["b"]["output"], "B");
    assert_eq!(result.attributes["steps"]["b"]["status"], "completed");
}

#[test]
fn inputs_take_outputs_and_determine_dependencies() {
    let steps = json!([
        {"id": "report", "node": "n", "input": "{log|sh} by {input} {{log}} {other} ${HOME}"},
        {"id": "whole", "node": "n", "input": {"all": "{log}", "text": "<{log}>"}},
        {"id": "log", "node": "n"}
    ]);
    let mut execution = GraphExecution::begin(graph_node(steps), "ana");
    assert_eq!(execution.open, ["log1"]);
    assert_eq!(execution.last_input("log"), "ana");
    execution.finish("log", done("it's {input}"));
    assert_eq!(execution.last_input("report"), "'it'\\''s {input}' by ana {log} {other} ${HOME}");
    assert_eq!(execution.last_input("whole"), json!({"all": "it's {input}", "text": "<it's {input}>"}));
    execution.finish("report", done(Value::Null));
    execution.finish("whole", done(json!({"n": 1})));
    assert_eq!(execution.result().output, json!({"n": 1}), "the output is that of the last declared step");
}

#[test]
fn only_dependents_of_a_failed_step_are_skipped() {
    let steps = json!([step("a", &[]), step("b", &["a"]), step("c", &["b"]), step("x", &[]), step("y", &["x"])]);
    let mut execution = GraphExecution::begin(graph_node(steps), Value::Null);
    assert_eq!(execution.open, ["a1", "x1"]);
    assert_eq!(execution.finish("a", failed("no disk")), ["x1"]);
    assert_eq!(execution.finish("x", done(1)), ["y1"]);
    execution.finish("y", done(2));
    let result = execution.result();
    assert_eq!(result.error.as_deref(), Some("Step 'a' failed: no disk"));
    assert_eq!((result.success, result.error_type), (false, Some(ErrorType::Step)));
    let steps = &result.attributes["steps"];
    assert_eq!(
        (&steps["c"]["status"], &steps["c"]["error"]),
        (&json!("not_run"), &json!("Step 'a', on which it depends, failed."))
    );
    assert_eq!((&steps["a"]["status"], &steps["a"]["error_type"]), (&json!("failed"), &json!("exit_code")));
    assert_eq!(steps["y"]["output"], 2);
    assert_eq!(result.attributes["execution_order"], json!(["a", "x", "y"]));
}

#[test]
fn retries_wait_longer_each_time_and_end() {
    let steps = json!([{"id": "a", "node": "n", "on_error": {"policy": "retry", "count": 3, "delay": 2, "backoff": 3, "timeout": 9}}, step("b", &["a"])]);
    let mut execution = GraphExecution::begin(graph_node(steps.clone()), Value::Null);
    let Effect::Run { timeout, .. } = &execution.effects[0] else { panic!("{:?}", execution.effects) };
    assert_eq!(timeout.map(|timeout| timeout.as_secs()), Some(9));
    assert_eq!(execution.finish("a", failed("1")), ["a@2"]);
    assert_eq!(execution.finish_delay("a"), ["a2"]);
    assert_eq!(execution.finish("a", StepOutcome::TimedOut), ["a@8"]);
    assert_eq!(execution.finish_delay("a"), ["a3"]);
    assert_eq!(execution.finish("a", failed("3")), ["a@26"]);
    assert_eq!(execution.finish_delay("a"), ["a4"]);
    execution.finish("a", failed("4"));
    let result = execution.result();
    assert_eq!(result.error.as_deref(), Some("Step 'a' failed: 4"));
    assert_eq!(result.attributes["steps"]["a"]["attempts"], 4);

    let mut execution = GraphExecution::begin(graph_node(steps), Value::Null);
    execution.finish("a", failed("1"));
    execution.finish_delay("a");
    assert_eq!(execution.finish("a", done("A")), ["b1"]);
    execution.finish("b", done("B"));
    assert!(execution.result().success);
}

#[test]
fn step_can_be_skipped_with_a_value() {
    let steps = json!([
        {"id": "a", "node": "n", "on_error": {"policy": "skip", "value": [1]}},
        {"id": "b", "node": "n", "input": "{a}"}
    ]);
    let mut execution = GraphExecution::begin(graph_node(steps), Value::Null);
    execution.finish("a", failed("x"));
    assert_eq!(execution.last_input("b"), json!([1]));
    execution.finish("b", done(2));
    let result = execution.result();
    assert!(result.success);
    let skipped = &result.attributes["steps"]["a"];
    assert_eq!(
        (&skipped["status"], &skipped["output"], &skipped["error"]),
        (&json!("skipped"), &json!([1]), &json!("x"))
    );
}

#[test]
fn fallback_gets_the_same_input_and_its_failure_counts() {
    let on_error = json!({"policy": "retry", "count": 1, "delay": 0, "then": {"policy": "fallback", "node": "plan_b"}});
    let steps = json!([{"id": "a", "node": "plan_a", "input": "x{input}", "on_error": on_error}]);
    for (outcome, success) in [(done("B"), true), (failed("b"), false), (StepOutcome::Unknown, false)] {
        let mut execution = GraphExecution::begin(graph_node(steps.clone()), 1);
        execution.finish("a", failed("1"));
        execution.finish_delay("a");
        assert_eq!(execution.finish("a", failed("2")), ["a3"]);
        let Some(Effect::Run { node, input, .. }) = execution.effects.last() else { panic!() };
        assert_eq!((node.as_str(), input), ("plan_b", &json!("x1")));
        execution.finish("a", outcome);
        assert_eq!(execution.progress.ended(), Some(success));
    }
}

#[test]
fn possibly_performed_call_is_not_repeated() {
    let retry = json!({"policy": "retry", "count": 5});
    let mut execution =
        GraphExecution::begin(graph_node(json!([{"id": "a", "node": "n", "on_error": retry}])), Value::Null);
    assert_eq!(execution.finish("a", StepOutcome::Unknown), Vec::<String>::new());
    let result = execution.result();
    assert_eq!(result.attributes["steps"]["a"]["error_type"], "unknown");
    let otherwise = json!({"policy": "retry", "count": 5, "then": "skip"});
    let mut execution =
        GraphExecution::begin(graph_node(json!([{"id": "a", "node": "n", "on_error": otherwise}])), Value::Null);
    execution.finish("a", StepOutcome::Unknown);
    assert!(execution.result().success);
}

#[test]
fn concurrency_limit_of_steps_is_respected() {
    let document = json!({"id": "g", "type": "graph", "max_parallel": 2,
        "steps": [{"id": "a", "node": "n", "on_error": {"policy": "retry", "count": 1, "delay": 1}}, step("b", &[]), step("c", &[]), step("d", &[])]});
    let mut execution = GraphExecution::begin(Node::parse(&document).unwrap(), Value::Null);
    assert_eq!(execution.open, ["a1", "b1"]);
    // A step that waits for its next attempt takes no slot, and may find none free when its delay ends.
    assert_eq!(execution.finish("a", failed("x")), ["b1", "a@1", "c1"]);
    assert_eq!(execution.finish_delay("a"), ["b1", "c1"]);
    assert_eq!(execution.finish("b", done(1)), ["c1", "a2"]);
    assert_eq!(execution.finish("a", done(1)), ["c1", "d1"]);
}

#[test]
fn successor_learns_the_pending_calls() {
    let steps = json!([
        {"id": "a", "node": "n", "input": "go", "on_error": {"policy": "retry", "count": 2, "delay": 7, "timeout": 3}},
        {"id": "b", "node": "m"},
        step("c", &["a"])
    ]);
    let mut execution = GraphExecution::begin(graph_node(steps), 5);
    let resumed_effects = |execution: &GraphExecution| {
        let progress = Progress::from_history(graph_of(&execution.node), &execution.history);
        resume(graph_of(&execution.node), &progress)
    };
    let [Effect::Run { step, attempt: 1, input, again: true, timeout: Some(_), .. }, Effect::Run { again: true, .. }] =
        &resumed_effects(&execution)[..]
    else {
        panic!("{:?}", resumed_effects(&execution))
    };
    assert_eq!((step.as_str(), input), ("a", &json!("go")));
    execution.finish("a", failed("x"));
    execution.finish("b", done(1));
    let [Effect::Wait { step, until }] = &resumed_effects(&execution)[..] else {
        panic!("{:?}", resumed_effects(&execution))
    };
    assert_eq!((step.as_str(), until.0), ("a", 7_000_000));
    execution.finish_delay("a");
    execution.finish("a", done(1));
    execution.finish("c", done(1));
    assert_eq!(resumed_effects(&execution), []);
}

#[test]
fn unexpected_input_changes_nothing() {
    let mut execution = GraphExecution::begin(graph_node(json!([step("a", &[]), step("b", &["a"])])), Value::Null);
    let before = execution.history.clone();
    let attempt_end =
        |step: &str, attempt| GraphInput::AttemptEnded { step: step.parse().unwrap(), attempt, outcome: done(1) };
    for input in [
        GraphInput::Start { input: json!(2) },
        attempt_end("a", 2),
        attempt_end("b", 1),
        attempt_end("nobody", 1),
        GraphInput::DelayOver { step: "a".parse().unwrap() },
    ] {
        execution.apply_input(input);
        assert_eq!(execution.history, before);
    }
    execution.finish("a", done(1));
    let before = execution.history.clone();
    execution.apply_input(attempt_end("a", 1));
    assert_eq!(execution.history, before, "a repeated end counts once");
}

#[test]
fn held_step_starts_after_resuming() {
    let node = graph_node(json!([step("a", &[]), step("b", &["a"])]));
    let graph = graph_of(&node);
    let mut progress = Progress::new(graph);
    let now = Timestamp(0);
    for event in decide(graph, &progress.clone(), GraphInput::Start { input: Value::Null }, now).events {
        progress.apply(&event);
    }
    let attempt_end = GraphInput::AttemptEnded { step: "a".parse().unwrap(), attempt: 1, outcome: done(1) };
    let held_decision = hold(graph, &progress, attempt_end, now);
    assert!(held_decision.effects.is_empty(), "{held_decision:?}");
    held_decision.events.iter().for_each(|event| progress.apply(event));
    assert!(resume(graph, &progress).is_empty(), "nothing is in progress");
    let decision = decide(graph, &progress, GraphInput::Continue, now);
    assert!(matches!(&decision.effects[..], [Effect::Run { step, .. }] if step.as_str() == "b"), "{decision:?}");
    decision.events.iter().for_each(|event| progress.apply(event));
    assert_eq!(
        decide(graph, &progress, GraphInput::Continue, now),
        Default::default(),
        "the graph continues only once"
    );
}
