//! Nodes and graphs that machines call, in a daemon in this process.

use std::path::PathBuf;

use serde_json::{Value, json};
use steplatch_protocol::{GetRun, ListWorkflowRuns, RunReply};
use steplatch_testkit::{TestDaemon, eventually};

const DECLARED: &str = r#"
[nodes.shout]
type = "bash"
command = "echo -n {input|sh} | tr a-z A-Z"

[nodes.refuse]
type = "bash"
command = "echo no >&2; exit 3"

[nodes.slow]
type = "bash"
command = "echo $$ >>slow.pids; sleep 600"

[graphs.twice]
steps = [
    { id = "one", node = "shout", input = "{input} a" },
    { id = "two", node = "shout", input = "{one} b" },
]

[graphs.long]
steps = [{ id = "only", node = "slow" }]
"#;

fn directory(daemon: &TestDaemon) -> PathBuf {
    daemon.paths().state().parent().unwrap().to_owned()
}

async fn project() -> TestDaemon {
    let daemon = TestDaemon::new().await;
    std::fs::write(directory(&daemon).join("steplatch.toml"), DECLARED).unwrap();
    daemon
}

/// Returns a machine that calls a tool, and then enters one of several states, depending on the outcome.
fn calling_machine(tool: &str, params: &Value, ways: &Value) -> Value {
    let rest = || json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
    let mut states = json!({"call": {"action": {"tool": tool, "params": params}, "transitions": ways}});
    for way in ways.as_array().unwrap() {
        states[way["next_state"].as_str().unwrap()] = rest();
    }
    json!({"name": "calling", "initial_state": "call", "states": states})
}

/// Returns the result of the first action of a run.
fn result(run: &RunReply) -> &Value {
    &run.execution_log[0]["result"]
}

fn recorded_pids(daemon: &TestDaemon) -> Vec<i32> {
    let text = std::fs::read_to_string(directory(daemon).join("slow.pids")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
async fn conditions_and_variables_see_the_fields_of_a_result() {
    let daemon = project().await;
    let good = json!([{"condition": {"field_equals": {"output": "HELLO", "node_type": "bash"}}, "next_state": "good"}]);
    let mut definition = calling_machine("run_node", &json!({"node_id": "shout", "input": "hello"}), &good);
    definition["states"]["good"] = json!({
        "action": {"tool": "run_node", "params": {"node_id": "identity", "input": {"said": "{call_output}", "of": [1]}}}
    });
    let run = daemon.run(definition).await;
    assert_eq!((run.status.as_str(), run.final_state.as_deref()), ("completed", Some("good")), "{:?}", run.error);
    assert_eq!(run.execution_log[2]["result"]["output"], json!({"said": "HELLO", "of": [1]}));

    let bad =
        json!([{"condition": {"field_equals": {"attributes.exit_code": 3}, "success": false}, "next_state": "bad"}]);
    let run = daemon.run(calling_machine("run_node", &json!({"node_id": "refuse"}), &bad)).await;
    assert_eq!(run.final_state.as_deref(), Some("bad"), "{run:#?}");
    let run = daemon.run(calling_machine("run_node", &json!({"node_id": "refuse"}), &json!([]))).await;
    assert_eq!(run.status, "failed", "a node that fails makes the action fail");
    assert!(run.error.unwrap().starts_with("State 'call' failed: "));
}

#[tokio::test]
async fn graph_has_its_own_run_with_the_same_result() {
    let daemon = project().await;
    let run = daemon.run(calling_machine("run_graph", &json!({"graph_id": "twice", "input": "x"}), &json!([]))).await;
    assert_eq!(run.status, "completed", "{:?}", run.error);
    assert_eq!(result(&run)["output"], "X A B");
    let runs = daemon.call(ListWorkflowRuns::default()).await.runs;
    assert!(runs.iter().any(|listed| *listed.run_id == result(&run)["run_id"] && listed.workflow_id == "twice"));
    let node = daemon.run(calling_machine("run_graph", &json!({"graph_id": "shout"}), &json!([]))).await;
    assert!(node.error.unwrap().contains("'shout' is a node of type bash, not a graph"));
}

#[tokio::test]
async fn invalid_call_is_refused_in_advance_or_named() {
    let daemon = project().await;
    let run = daemon.run(calling_machine("run_node", &json!({"node_id": "shoot"}), &json!([]))).await;
    assert!(run.error.as_ref().unwrap().contains("Node 'shoot' not found, did you mean 'shout'?"), "{run:?}");
    let run = daemon.run(calling_machine("run_node", &json!({"nod_id": "shout"}), &json!([]))).await;
    assert_eq!(run.final_state.as_deref(), Some("definition_invalid"));
    let error = run.error.unwrap();
    assert!(error.contains("/states/call/action/params") && error.contains("node_id"), "{error}");
}

#[tokio::test]
async fn call_ends_with_its_timeout_and_with_its_run() {
    let daemon = project().await;
    let timeout_transition = json!([{"condition": {"field_equals": {"error_type": "timeout"}}, "next_state": "late"}]);
    let run =
        daemon.run(calling_machine("run_node", &json!({"node_id": "slow", "timeout": 0.3}), &timeout_transition)).await;
    assert_eq!(run.final_state.as_deref(), Some("late"), "{run:#?}");
    let mut limited = calling_machine("run_graph", &json!({"graph_id": "long"}), &json!([]));
    limited["states"]["call"]["timeout"] = json!(0.5);
    let run = daemon.run(limited).await;
    assert_eq!(run.error.as_deref(), Some("State 'call' timed out after 0.5s"));
    let run = daemon.begin(calling_machine("run_node", &json!({"node_id": "slow"}), &json!([]))).await;
    eventually("all three nodes run", async || recorded_pids(&daemon).len() == 3).await;
    daemon.call(steplatch_protocol::CancelWorkflow { run_id: run }).await;
    eventually("all nodes end", async || !recorded_pids(&daemon).into_iter().any(is_running)).await;
    let under_way = ListWorkflowRuns { state: Some("running".to_owned()), ..ListWorkflowRuns::default() };
    assert_eq!(daemon.call(under_way).await.runs, []);
    daemon.stop().await;
}

#[tokio::test]
async fn interrupted_call_is_in_doubt_and_not_repeated() {
    let daemon = project().await;
    let doubt = json!([{"condition": {"outcome_unknown": true}, "next_state": "doubt"}]);
    let node = daemon.begin(calling_machine("run_node", &json!({"node_id": "slow"}), &doubt)).await;
    let failed = json!([{"condition": {"success": false, "outcome_unknown": false}, "next_state": "failed"}]);
    let graph = daemon.begin(calling_machine("run_graph", &json!({"graph_id": "long"}), &failed)).await;
    eventually("both nodes run", async || recorded_pids(&daemon).len() == 2).await;
    let daemon = daemon.restarted().await;
    let wait_for_end = |run: &str| GetRun { run_id: run.to_owned(), wait_seconds: Some(30.0), ..GetRun::default() };
    let node = daemon.call(wait_for_end(&node)).await;
    assert_eq!((node.status.as_str(), node.final_state.as_deref()), ("completed", Some("doubt")), "{:?}", node.error);
    // The graph's run continued, with its step in doubt as its result.
    let graph = daemon.call(wait_for_end(&graph)).await;
    assert_eq!(
        (graph.status.as_str(), graph.final_state.as_deref()),
        ("completed", Some("failed")),
        "{:?}",
        graph.error
    );
    assert!(result(&graph)["run_id"].is_string(), "{graph:#?}");
    assert_eq!(recorded_pids(&daemon).len(), 2, "each node was called once");
    daemon.stop().await;
}
