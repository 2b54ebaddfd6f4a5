//! Graphs of real commands, driven.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use steplatch_nodes::graph::{Driver, DriverError, GraphEvent, StepCall, StepOutcome, drive};
use steplatch_nodes::{Call, ErrorType, Node, NodeResult, Nodes, Surroundings};
use steplatch_workflow::Timestamp;

use crate::story::{graph_node, graph_of};

/// Keeps the history in memory and runs whatever node as a bash command of its input.
struct Shells {
    nodes: Nodes,
    shell: Node,
    history: Mutex<Vec<GraphEvent>>,
    calls: Mutex<Vec<StepCall>>,
    began: Instant,
}

impl Shells {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            nodes: Nodes::new(Surroundings::of_this_process().unwrap()),
            shell: Node::parse(&json!({"id": "sh", "type": "bash"})).unwrap(),
            history: Mutex::default(),
            calls: Mutex::default(),
            began: Instant::now(),
        })
    }
}

impl Driver for Shells {
    async fn append(&self, events: &[GraphEvent]) -> Result<(), DriverError> {
        self.history.lock().unwrap().extend_from_slice(events);
        Ok(())
    }

    async fn call(&self, call: StepCall) -> StepOutcome {
        self.calls.lock().unwrap().push(call.clone());
        if call.again {
            return StepOutcome::Unknown;
        }
        let asked = Call { interrupt: call.interrupt, ..Call::new(call.input) };
        StepOutcome::Finished { result: Box::new(self.nodes.run(&self.shell, asked).await) }
    }

    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.began.elapsed().as_micros()).unwrap())
    }
}

async fn run(shells: &Arc<Shells>, node: &Node, call: Call) -> NodeResult {
    let history = shells.history.lock().unwrap().clone();
    drive(shells.clone(), node, graph_of(node), &history, call).await.unwrap()
}

#[tokio::test]
async fn steps_that_do_not_depend_on_each_other_run_at_the_same_time() {
    // Each waits until the other two have begun, so that none ends unless all run at once.
    let folder = tempfile::tempdir().unwrap();
    let meets = |own: &str| {
        let at = folder.path().display();
        format!(
            "cd {at}; touch {own}; for i in $(seq 600); do [ -e a -a -e b -a -e c ] && echo {own} && exit 0; sleep 0.05; done; exit 1"
        )
    };
    let node = graph_node(json!([
        {"id": "a", "node": "sh", "input": meets("a")},
        {"id": "b", "node": "sh", "input": meets("b")},
        {"id": "c", "node": "sh", "input": meets("c")},
        {"id": "sum", "node": "sh", "input": "echo {a|sh} {b|sh} {c|sh}"}
    ]));
    let shells = Shells::new();
    let result = run(&shells, &node, Call::default()).await;
    assert!(result.success, "{result:?}");
    assert_eq!(result.output, "a b c\n".replace(' ', "\n ").replace("c\n", "c\n\n"));
}

#[tokio::test]
async fn three_commands_side_by_side_take_little_more_than_one() {
    let steps = |count: usize| {
        let step = |index| json!({"id": format!("s{index}"), "node": "sh", "input": "sleep 0.6"});
        graph_node((0..count).map(step).collect())
    };
    let time = async |node: &Node| {
        let began = Instant::now();
        assert!(run(&Shells::new(), node, Call::default()).await.success);
        began.elapsed().as_secs_f64()
    };
    // Beside one another on the same machine, so that its noise is in both.
    let (one, three) = (time(&steps(1)).await, time(&steps(3)).await);
    println!("one command of 0.6 s: {one:.3} s, three: {three:.3} s");
    assert!(three < one * 2.0, "one: {one:.3} s, three: {three:.3} s");
}

#[tokio::test]
async fn a_step_that_fails_at_first_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let command = format!("cd {}; echo x >> tries; [ $(wc -l < tries) -ge 3 ] && echo fine", folder.path().display());
    let on_error = json!({"policy": "retry", "count": 4, "delay": 0.01});
    let node = graph_node(json!([{"id": "a", "node": "sh", "input": command, "on_error": on_error}]));
    let result = run(&Shells::new(), &node, Call::default()).await;
    assert_eq!((&result.output, &result.attributes["steps"]["a"]["attempts"]), (&json!("fine\n"), &json!(3)));
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_ended_before_the_next_one() {
    let on_error = json!({"policy": "retry", "count": 1, "delay": 0, "timeout": 0.2, "then": {"policy": "skip", "value": "gave up"}});
    let node = graph_node(json!([{"id": "a", "node": "sh", "input": "sleep 1000", "on_error": on_error}]));
    let result = run(&Shells::new(), &node, Call::default()).await;
    assert_eq!((result.success, &result.output), (true, &json!("gave up")));
    assert_eq!(result.attributes["steps"]["a"]["attempts"], 2);
}

#[tokio::test]
async fn a_graph_that_is_ended_says_how_far_it_came() {
    let node = graph_node(
        json!([{"id": "a", "node": "sh", "input": "echo A"}, {"id": "b", "node": "sh", "input": "sleep 1000; {a}"}]),
    );
    let limit = std::time::Duration::from_millis(500);
    let result = run(&Shells::new(), &node, Call { timeout: Some(limit), ..Call::default() }).await;
    assert_eq!((result.error_type, result.output), (Some(ErrorType::Timeout), Value::Null));
    let steps = &result.attributes["steps"];
    assert_eq!((&steps["a"]["output"], &steps["b"]["status"]), (&json!("A\n"), &json!("running")));
}

#[tokio::test]
async fn whoever_takes_over_goes_on_from_the_history_and_does_nothing_twice() {
    let steps = json!([
        {"id": "a", "node": "sh", "input": "echo A"},
        {"id": "b", "node": "sh", "input": "sleep 1000; {a}", "on_error": {"policy": "skip", "value": "?"}},
        {"id": "c", "node": "sh", "input": "echo {a|sh} {b}"}
    ]);
    let node = graph_node(steps);
    let first = Shells::new();
    let limit = std::time::Duration::from_millis(500);
    run(&first, &node, Call { timeout: Some(limit), ..Call::default() }).await;
    let second = Shells::new();
    *second.history.lock().unwrap() = first.history.lock().unwrap().clone();
    let result = run(&second, &node, Call::default()).await;
    assert_eq!((result.success, &result.output), (true, &json!("A\n ?\n")));
    let calls = second.calls.lock().unwrap();
    let made: Vec<(&str, bool)> = calls.iter().map(|call| (call.step.as_str(), call.again)).collect();
    assert_eq!(made, [("b", true), ("c", false)]);
}
