//! Machines that call nodes while the daemon is killed, on the real binary.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const DECLARED: &str = r#"
[nodes.note]
type = "bash"
command = "echo {input|sh} >>noted; sleep {input|sh}"

[graphs.both]
steps = [{ id = "one", node = "note", input = "0.01" }, { id = "two", node = "note", input = "0.02" }]
"#;

/// Returns a machine that calls nodes and a graph in sequence, and returns the calls with an unknown outcome.
fn noting_machine() -> Value {
    let ways = |next: &str| json!([{"condition": {"outcome_unknown": true}, "next_state": "doubt"}, {"condition": "success", "next_state": next}]);
    let note = |seconds: &str, next: &str| json!({"action": {"tool": "run_node", "params": {"node_id": "note", "input": seconds}}, "transitions": ways(next)});
    json!({"name": "noting", "initial_state": "graph", "states": {
        "graph": {"action": {"tool": "run_graph", "params": {"graph_id": "both"}}, "transitions": ways("quick")},
        "quick": note("0.03", "same"),
        "same": {"action": {"tool": "run_node", "params": {"node_id": "identity", "input": "{quick_input}"}},
                 "transitions": ways("slow")},
        "slow": note("60", "end"),
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
        "doubt": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }})
}

fn noted(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn node_of_a_killed_daemon_is_in_doubt_and_not_called_again() {
    let home = Home::new(STEPLATCH);
    std::fs::write(home.path().join("steplatch.toml"), DECLARED).unwrap();
    let agent = Agent::new(&home);
    let started = agent.call_tool("run_workflow", json!({"workflow_definition": noting_machine(), "wait_seconds": 0}));
    let file = home.path().join("noted");
    eventually_blocking("the longest node begins", || {
        let noted = noted(&file);
        if noted.last().is_some_and(|line| line == "60") { Ok(()) } else { Err(noted) }
    });
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let ended = agent.call_tool("get_run", json!({"run_id": started["run_id"], "wait_seconds": 60}));
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("doubt")), "{ended}");
    let mut noted = noted(&file);
    // The steps of the graph run in parallel.
    noted[..2].sort();
    assert_eq!(noted, ["0.01", "0.02", "0.03", "60"], "each once");
    let shown = home.run(&["runs", "events", started["run_id"].as_str().unwrap()]).expect_success();
    assert!(shown.contains("slow  outcome unknown"), "{shown}");
}
