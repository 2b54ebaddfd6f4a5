//! Graphs that cannot run are refused with the reason.

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_nodes::{Node, NodeId};

use crate::graphs::execution::{graph_node, graph_of};

fn problems(document: &Value) -> String {
    Node::parse(document).expect_err("the declaration is invalid").to_string()
}

fn step_problems(steps: Value) -> String {
    problems(&json!({"id": "g", "type": "graph", "steps": steps}))
}

#[test]
fn cycles_unknown_and_self_dependencies_are_refused() {
    expect!["/steps/1/depends_on: steps depend on each other in a circle: b → d → c → b"].assert_eq(&step_problems(
        json!([
            {"id": "a", "node": "n"},
            {"id": "b", "node": "n", "depends_on": ["a", "d"]},
            {"id": "c", "node": "n", "depends_on": ["b"]},
            {"id": "d", "node": "n", "input": "{c}"}
        ]),
    ));
    expect![[r#"
        /steps/2/id: two steps are called 'build'
        /steps/3/id: a step cannot be called 'input', which is the graph's input
        /steps/0/depends_on/0: step 'fetch' depends on itself
        /steps/1/depends_on/0: step 'build' depends on 'fetchh', which does not exist, did you mean 'fetch'?
        /steps/1/input: step 'build' takes its own output as its input"#]]
    .assert_eq(&step_problems(json!([
        {"id": "fetch", "node": "n", "depends_on": ["fetch"]},
        {"id": "build", "node": "n", "depends_on": ["fetchh"], "input": "{build}"},
        {"id": "build", "node": "n"},
        {"id": "input", "node": "n"}
    ])));
    expect!["/steps: a graph has 1 to 500 steps, not 0"].assert_eq(&step_problems(json!([])));
}

#[test]
fn all_problems_of_steps_are_reported_at_once() {
    expect![[r#"
        /steps/0/dependson: unknown key 'dependson' in a step, did you mean 'depends_on'?
        /steps/0: 'node' is missing
        /steps/0/on_error: unknown policy 'retri', did you mean 'retry'?
        /steps/1/id: '1st' is not an id: a letter, then letters, digits, '_' or '-', 64 in all at most
        /steps/1/on_error/tries: unknown key 'tries' in policy retry, known are count, delay, backoff, timeout, then
        /steps/1/on_error: 'count' is missing
        /steps/2/on_error/count: 0 is not a number from 1 to 100
        /steps/2/on_error/backoff: 0.5 is not a number from 1 to 10
        /steps/2/on_error/then: the policy after the retries cannot be a retry
        /steps/3: a step must be an object"#]]
    .assert_eq(&step_problems(json!([
        {"id": "a", "dependson": [], "on_error": "retri"},
        {"id": "1st", "node": "n", "on_error": {"policy": "retry", "tries": 3}},
        {"id": "c", "node": "n", "on_error": {"policy": "retry", "count": 0, "backoff": 0.5, "then": {"policy": "retry", "count": 1}}},
        "a"
    ])));
}

#[test]
fn missing_nodes_are_named() {
    let node = graph_node(json!([
        {"id": "a", "node": "biuld"},
        {"id": "b", "node": "build", "on_error": {"policy": "fallback", "node": "plan_b"}}
    ]));
    let problems: Vec<String> =
        graph_of(&node).check_nodes(&["build", "test"]).iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "/steps/0/node: step 'a' calls node 'biuld', which does not exist, did you mean 'build'?",
            "/steps/1/on_error/node: step 'b' calls node 'plan_b', which does not exist"
        ]
    );
}

#[test]
fn graph_round_trips_through_text() {
    let document = json!({"id": "g", "type": "graph", "description": "d", "timeout": 5.0, "max_parallel": 2, "steps": [
        {"id": "a", "node": "n", "on_error": "skip"},
        {"id": "b", "node": "n", "depends_on": ["a"], "input": {"x": ["{a}"]},
         "on_error": {"policy": "retry", "count": 2, "timeout": 1, "then": {"policy": "fallback", "node": "m"}}}
    ]});
    let node = Node::parse(&document).unwrap();
    let written = serde_json::to_value(&node).unwrap();
    assert_eq!(Node::parse(&written).unwrap(), node, "{written}");
    let before: Vec<&str> = graph_of(&node).dependencies(&"b".parse().unwrap()).map(NodeId::as_str).collect();
    assert_eq!((before, graph_of(&node).final_step().id.as_str()), (vec!["a"], "b"));
}
