//! `steplatch runs pause` and `resume`, while the daemon is killed, on the real binary.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn kill_daemon(home: &Home) {
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

fn daemon_pid(home: &Home) -> Value {
    home.run(&["daemon", "status", "--json"]).json()["pid"].clone()
}

/// Returns a state machine that types one number per state into a shell. The shell records each number once a file with
/// that name exists.
fn counting_workflow(states: usize) -> Value {
    let on_success = |to: String| json!([{"condition": "success", "next_state": to}]);
    let mut all_states =
        json!({"open": {"action": {"tool": "open_terminal"}, "transitions": on_success("type_1".to_owned())}});
    for number in 1..=states {
        let wait = format!("^wrote-{number}$");
        let line =
            format!("until [ -e go-{number} ]; do sleep 0.01; done; echo {number} >>counted; echo wrote-{number}\n");
        all_states[format!("type_{number}")] = json!({
            "action": {"tool": "send_input", "params": {"input_text": line}},
            "transitions": on_success(format!("wait_{number}")),
        });
        let next = if number == states { "close".to_owned() } else { format!("type_{}", number + 1) };
        all_states[format!("wait_{number}")] = json!({
            "action": {"tool": "await_output", "params": {"pattern": wait, "timeout": 120}}, "timeout": 240,
            "transitions": on_success(next),
        });
    }
    all_states["close"] = json!({"action": {"tool": "exit_terminal"}});
    json!({"name": "counting", "initial_state": "open", "states": all_states})
}

#[test]
fn paused_run_does_everything_once_across_kills() {
    const STATES: usize = 12;
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let started_run = agent.call_tool(
        "run_workflow",
        json!({"workflow_definition": counting_workflow(STATES), "wait_seconds": 0, "save_on_success": false}),
    );
    let run = started_run["run_id"].as_str().unwrap();
    let allow_state = |number: usize| std::fs::write(home.path().join(format!("go-{number}")), "").unwrap();
    for first in (1..STATES).step_by(2) {
        allow_state(first);
        let output = home.run(&["runs", "pause", run, "--json"]).json();
        assert_eq!(output[0]["success"], true, "{output}");
        let killed_pid = daemon_pid(&home);
        kill_daemon(&home);
        let inspection = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 0}));
        assert!(inspection["paused"]["since"].is_string(), "{inspection}");
        assert_ne!(daemon_pid(&home), killed_pid);
        let output = home.run(&["runs", "resume", run]);
        assert_eq!(output.expect_success(), format!("{run}: Run resumed\n"));
        allow_state(first + 1);
    }
    let outcome = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert_eq!(outcome["final_state"], "close", "{outcome}");
    let recorded = std::fs::read_to_string(home.path().join("counted")).unwrap();
    let expected: Vec<String> = (1..=STATES).map(|number| number.to_string()).collect();
    assert_eq!(recorded.lines().collect::<Vec<_>>(), expected);
    let second_pause = home.run(&["runs", "pause", run, "--json"]).json();
    assert_eq!(second_pause[0]["error"], "Run was already over: completed", "{second_pause}");
}

#[test]
fn paused_runs_are_shown_and_listed_and_functions_pause_too() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let definition = json!({"initial_state": "ask", "name": "asking", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}}}});
    let started_run = agent.call_tool("run_workflow", json!({"workflow_definition": definition, "wait_seconds": 60}));
    let run = started_run["run_id"].as_str().unwrap();
    home.run(&["runs", "pause", run]).expect_success();
    assert!(home.run(&["runs", "list"]).expect_success().contains("asking    waiting, paused"));
    assert!(home.run(&["runs", "show", run]).expect_success().contains("  paused    by "));
    let output = home.run(&["runs", "resume", run, "run_0123456789abcdef"]);
    assert!(
        output.code == 1
            && output.stderr.contains("run_0123456789abcdef: Workflow run 'run_0123456789abcdef' not found")
    );
    assert!(!home.run(&["runs", "show", run]).expect_success().contains("  paused    by "), "the other run continues");

    let file = home.path().join("story.py");
    let text = "async def story(ctx):\n    said = await ctx.gate('Well?')\n    ctx.emit('after')\n    return said\n\nWorkflow(id='story', session=session, fn=story)\n";
    std::fs::write(&file, text).unwrap();
    let started_run = agent.call_tool("run_workflow", json!({"workflow_file": file, "wait_seconds": 60}));
    let run = started_run["run_id"].as_str().unwrap();
    home.run(&["runs", "pause", run]).expect_success();
    home.run(&["gates", "answer", run, "well enough"]).expect_success();
    kill_daemon(&home);
    let inspection = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 0}));
    assert!(inspection["status"] == "running" && inspection["paused"]["since"].is_string(), "{inspection}");
    home.run(&["runs", "resume", run]).expect_success();
    let outcome = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert_eq!(outcome["result"], "well enough", "{outcome}");
    let output = home.run(&["runs", "events", run]).expect_success();
    let events: Vec<&str> = output.lines().map(|line| line.split_whitespace().nth(2).unwrap()).collect();
    let expected =
        ["workflow_started", "gate_waiting", "workflow_paused", "gate_answered", "workflow_resumed", "after"];
    assert_eq!(events, [&expected[..], &["workflow_completed"]].concat());
}
