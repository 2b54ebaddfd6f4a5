//! Agents that have nothing but the MCP tools: they start runs, are told how far those are, lose them and find them again.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Era, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A workflow that waits in its second state until `file` is there, and ends in its third.
fn waiting_for(name: &str, file: &str) -> Value {
    let command = format!("until [ -e {file} ]; do sleep 0.05; done; echo it-is-there");
    json!({"name": name, "initial_state": "open", "states": {
        "open": {
            "action": {"tool": "open_terminal", "params": {"command": ["bash", "-c", command]}},
            "transitions": [{"condition": {"success": true}, "next_state": "watch"}],
        },
        "watch": {
            "action": {"tool": "await_output", "params": {"pattern": "it-is-there", "timeout": 100}},
            "transitions": [{"condition": {"success": true}, "next_state": "close"}],
        },
        "close": {"action": {"tool": "exit_terminal", "params": {}}},
    }})
}

/// A workflow that asks what holds after its first state.
fn judged() -> Value {
    json!({"name": "judged", "initial_state": "look", "states": {
        "look": {
            "action": {"tool": "sleep", "params": {"seconds": 0.1}},
            "transitions": [
                {"condition": {"description": "it is clean"}, "next_state": "release"},
                {"condition": {"description": "it is broken"}, "next_state": "repair"},
            ],
        },
        "release": {"action": {"tool": "sleep", "params": {"seconds": 0.1}}},
        "repair": {"action": {"tool": "sleep", "params": {"seconds": 0.1}}},
    }})
}

fn starts(agent: &Agent, definition: Value, wait: f64) -> Value {
    agent.calls("run_workflow", json!({"workflow_definition": definition, "wait_seconds": wait}))
}

/// The only run of the workflow called `name`.
fn run_of(agent: &Agent, name: &str) -> String {
    let listed = agent.calls("list_runs", json!({"workflow_id": name}));
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{listed}");
    runs[0]["run_id"].as_str().unwrap().to_owned()
}

/// Whether what was told grew each time.
fn grew(progress: &[(f64, String)]) -> bool {
    progress.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

fn an_agent_is_told_how_far_its_run_is(era: Era) {
    let home = Home::new(STEPLATCH);
    let agent = Agent::of(era, &home);
    let arguments = json!({"workflow_definition": waiting_for("told", "go"), "wait_seconds": 60});
    let call = agent.begins_with_progress("run_workflow", arguments);
    let mut told = vec![call.progress()];
    while told.last().unwrap().1 != "state 2: watch (await_output)" {
        told.push(call.progress());
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let (rest, ended) = call.ends_with_progress();
    assert_eq!((&ended["status"], &ended["states_executed"]), (&json!("completed"), &json!(3)), "{ended}");
    told.extend(rest);
    assert!(grew(&told), "{told:?}");
    // The newest takes the place of what could not be told in time; whether the first and last are told depends on how
    // long they took.
    assert!(told.len() <= 3 && told.iter().all(|(_, message)| message.starts_with("state ")), "{told:?}");

    let silent = agent.begins("run_workflow", json!({"workflow_definition": waiting_for("untold", "go")}));
    let (told, ended) = silent.ends_with_progress();
    assert_eq!((told, &ended["status"]), (vec![], &json!("completed")), "nothing is told to who did not ask");
}

#[test]
fn an_agent_of_yesterday_is_told_how_far_its_run_is() {
    an_agent_is_told_how_far_its_run_is(Era::Handshake);
}

#[test]
fn an_agent_of_today_is_told_how_far_its_run_is() {
    an_agent_is_told_how_far_its_run_is(Era::Stateless);
}

#[test]
fn a_run_with_many_states_is_told_of_a_few_times_a_second() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let definition = json!({"name": "busy", "initial_state": "turn", "states": {"turn": {
        "action": {"tool": "sleep", "params": {"seconds": 0.01}},
        "transitions": [{"condition": {"success": true}, "next_state": "turn"}],
    }}});
    let began = Instant::now();
    let call =
        agent.begins_with_progress("run_workflow", json!({"workflow_definition": definition, "wait_seconds": 60}));
    let (told, ended) = call.ends_with_progress();
    let most = 2 + began.elapsed().as_millis() / 250;
    assert_eq!(ended["states_executed"], 100, "{ended}");
    assert!(grew(&told) && told.len() > 1 && told.len() as u128 <= most, "{told:?}");
}

#[test]
fn parameters_that_are_wrong_are_refused_alike_with_and_without_a_token() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    for arguments in [json!({"wait_seconds": 1}), json!({"workflow_definition": {"states": {}}})] {
        let told = agent.begins_with_progress("run_workflow", arguments.clone()).ends();
        let untold = agent.calls("run_workflow", arguments);
        assert_eq!((&told["success"], &told["error"]), (&json!(false), &untold["error"]));
        assert!(told["error"].is_string());
    }
}

#[test]
fn a_run_goes_on_without_whoever_started_it_and_is_found_by_another_agent() {
    let home = Home::new(STEPLATCH);
    let (first, second) = (Agent::new(&home), Agent::new(&home));
    // One call is taken back, and one is lost with its agent; both were under way.
    for (name, agent) in [("taken_back", &first), ("lost", &second)] {
        let arguments = json!({"workflow_definition": waiting_for(name, "go"), "wait_seconds": 100});
        let call = agent.begins_with_progress("run_workflow", arguments);
        while call.progress().1 != "state 2: watch (await_output)" {}
        if name == "taken_back" {
            agent.cancels(&call);
        }
    }
    assert_eq!(first.calls("list_runs", json!({}))["runs"].as_array().unwrap().len(), 2, "the agent can go on");
    drop((first, second));

    let finder = Agent::of(Era::Stateless, &home);
    let running = finder.calls("list_runs", json!({"state": "running"}));
    assert_eq!(running["runs"].as_array().unwrap().len(), 2, "{running}");
    let (taken_back, lost) = (run_of(&finder, "taken_back"), run_of(&finder, "lost"));
    let cancelled = finder.calls("cancel_run", json!({"run_id": lost}));
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    let wait = finder.begins_with_progress("get_run", json!({"run_id": taken_back, "wait_seconds": 100}));
    // One that joins later is told where the run is.
    while wait.progress().1 != "state 2: watch (await_output)" {}
    std::fs::write(home.path().join("go"), "").unwrap();
    let ended = wait.ends();
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("close")), "{ended}");
    let again = finder.calls("get_run", json!({"run_id": lost}));
    assert_eq!(again["status"], "cancelled");
}

#[test]
fn an_agent_is_asked_to_judge_and_another_one_answers() {
    let home = Home::new(STEPLATCH);
    let asked = Agent::new(&home);
    let arguments = json!({"workflow_definition": judged(), "wait_seconds": 100});
    let (told, waits) = asked.begins_with_progress("run_workflow", arguments).ends_with_progress();
    assert_eq!(told.last().unwrap().1, "waits for an answer: What holds after state 'look'?", "{told:?}");
    assert_eq!(waits["status"], "waiting", "{waits}");
    assert_eq!(waits["pending_gate"]["choices"], json!(["it is clean", "it is broken", "none of these"]));
    let run = waits["run_id"].as_str().unwrap();
    drop(asked);

    let judge = Agent::of(Era::Stateless, &home);
    let open = judge.calls("list_runs", json!({"state": "waiting"}));
    assert_eq!(
        (&open["runs"][0]["run_id"], &open["runs"][0]["pending_gates"][0]["run_id"]),
        (&json!(run), &json!(run))
    );
    let refused = judge.calls("decide", json!({"run_id": run, "answer": "perhaps"}));
    assert!(refused["error"].as_str().unwrap().contains("none of the choices"), "{refused}");
    let taken = judge.calls("decide", json!({"run_id": run, "answer": "it is broken"}));
    assert_eq!(taken["success"], true, "{taken}");
    let ended = judge.calls("get_run", json!({"run_id": run, "wait_seconds": 100}));
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("repair")), "{ended}");
    let late = judge.calls("decide", json!({"run_id": run, "answer": "it is clean"}));
    assert_eq!(late["success"], false, "{late}");
}

#[test]
fn calls_that_wait_for_a_run_are_answered_over_the_next_daemon() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let arguments = |name: &str| json!({"workflow_definition": waiting_for(name, "go"), "wait_seconds": 100});
    let told = agent.begins_with_progress("run_workflow", arguments("told"));
    while told.progress().1 != "state 2: watch (await_output)" {}
    let untold = agent.begins("run_workflow", arguments("untold"));
    for _ in 0..3 {
        // The calls are under way, or are being asked again.
        let pid = home.runs(&["daemon", "status", "--json"]).json()["pid"].as_i64();
        kill_process(Pid::from_raw(pid.unwrap().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        assert_eq!(agent.calls("get_run", json!({"run_id": run_of(&agent, "told")}))["status"], "running");
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let (progress, ended) = told.ends_with_progress();
    assert_eq!((&ended["status"], &ended["states_executed"]), (&json!("completed"), &json!(3)), "{ended}");
    assert!(progress.iter().all(|(_, message)| message == "state 3: close (exit_terminal)"), "{progress:?}");
    assert_eq!(untold.ends()["status"], "completed");
    // None was started twice.
    assert_eq!(agent.calls("list_runs", json!({}))["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_long_wait_for_output_shows_signs_of_life_to_who_wants_them() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let opened = agent.calls("open_terminal", json!({"command": ["cat"]}));
    let arguments = json!({"session_id": opened["session_id"], "pattern": "never", "timeout": 5.5});
    let (told, waited) = agent.begins_with_progress("await_output", arguments).ends_with_progress();
    assert_eq!((told, &waited["reason"]), (vec![(1.0, "waiting since 5 s".to_owned())], &json!("timeout")), "{waited}");
}

#[test]
fn starting_without_waiting_returns_at_once() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let began = Instant::now();
    let started = starts(&agent, waiting_for("later", "go"), 0.0);
    assert_eq!(started["status"], "running", "{started}");
    assert!(began.elapsed() < Duration::from_secs(10), "it waits for a file that nobody makes");
}
