//! State machines that call nodes while the daemon is killed, on the real binary.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const PROJECT_FILE: &str = r#"
[nodes.note]
type = "bash"
command = "echo {input|sh} >>noted; sleep {input|sh}"

[graphs.both]
steps = [{ id = "one", node = "note", input = "0.01" }, { id = "two", node = "note", input = "0.02" }]
"#;

/// Returns a state machine that calls a graph and nodes in sequence, with a transition for unknown outcomes.
fn node_calling_workflow() -> Value {
    let transitions = |next: &str| json!([{"condition": {"outcome_unknown": true}, "next_state": "doubt"}, {"condition": "success", "next_state": next}]);
    let note = |seconds: &str, next: &str| json!({"action": {"tool": "run_node", "params": {"node_id": "note", "input": seconds}}, "transitions": transitions(next)});
    json!({"name": "noting", "initial_state": "graph", "states": {
        "graph": {"action": {"tool": "run_graph", "params": {"graph_id": "both"}}, "transitions": transitions("quick")},
        "quick": note("0.03", "same"),
        "same": {"action": {"tool": "run_node", "params": {"node_id": "identity", "input": "{quick_input}"}},
                 "transitions": transitions("slow")},
        "slow": note("60", "end"),
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
        "doubt": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }})
}

fn read_notes(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn interrupted_node_call_is_uncertain_and_not_repeated() {
    let home = Home::new(STEPLATCH);
    std::fs::write(home.path().join("steplatch.toml"), PROJECT_FILE).unwrap();
    let agent = Agent::new(&home);
    let run =
        agent.call_tool("run_workflow", json!({"workflow_definition": node_calling_workflow(), "wait_seconds": 0}));
    let file = home.path().join("noted");
    eventually_blocking("the longest node begins", || {
        let notes = read_notes(&file);
        if notes.last().is_some_and(|line| line == "60") { Ok(()) } else { Err(notes) }
    });
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let outcome = agent.call_tool("get_run", json!({"run_id": run["run_id"], "wait_seconds": 60}));
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("doubt")), "{outcome}");
    let mut notes = read_notes(&file);
    // The steps of the graph run in parallel.
    notes[..2].sort();
    assert_eq!(notes, ["0.01", "0.02", "0.03", "60"], "each node ran once");
    let events = home.run(&["runs", "events", run["run_id"].as_str().unwrap()]).expect_success();
    assert!(events.contains("slow  outcome unknown"), "{events}");
}
