//! What only Temporal can show: a server that comes and goes, and workers of which any may end.

use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use steplatch_testkit::eventually_blocking;

use super::rig::{Rig, kill};

fn then(next: &str) -> Value {
    json!([{"condition": "success", "next_state": next}])
}

/// Returns a random number below `bound`.
fn unforeseen(bound: u32) -> u32 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_micros() % bound
}

/// Returns a machine that runs numbered commands. Each appends its number to `counted` once, when a file of its name is there.
fn counting(commands: usize) -> Value {
    let mut states = Map::new();
    let open = json!({"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": then("type_1")});
    states.insert("open".into(), open);
    for number in 1..=commands {
        let next = if number == commands { "end".to_owned() } else { format!("type_{}", number + 1) };
        let command =
            format!("echo {number} >>counted; until [ -e go-{number} ]; do sleep 0.01; done; echo {number} >>ended");
        let action = json!({"tool": "run_command",
            "params": {"session_id": "{session_id}", "command": command, "timeout": 600}});
        let transitions = json!([{"condition": {"outcome_unknown": true}, "next_state": "in_doubt"},
                                 {"condition": "success", "next_state": next}]);
        states.insert(format!("type_{number}"), json!({"action": action, "timeout": 600, "transitions": transitions}));
    }
    for last in ["end", "in_doubt"] {
        states.insert(last.into(), json!({"action": {"tool": "sleep", "params": {"seconds": 0}}}));
    }
    json!({"name": "counting", "initial_state": "open", "states": states})
}

fn counted(rig: &Rig, file: &str) -> Vec<String> {
    std::fs::read_to_string(rig.home.path().join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn commands_run_once_each_while_workers_server_and_daemon_are_killed_fifty_times() {
    const KILLS: usize = 50;
    const COMMANDS: usize = KILLS / 2;
    let Some(rig) = Rig::of_temporal("commands_run_once_each_while_all_is_killed") else { return };
    let run = rig.begins(counting(COMMANDS));
    for number in 1..=KILLS {
        if number % 2 == 0 {
            std::fs::write(rig.home.path().join(format!("go-{}", number / 2)), "").unwrap();
        }
        // Kills in the middle of what follows from the last command, or while the next one is waited for.
        std::thread::sleep(Duration::from_millis(unforeseen(400).into()));
        match unforeseen(3) {
            0 => {
                rig.kills_worker();
                rig.start_worker();
            }
            1 => {
                rig.kills_server();
                rig.start_server();
            }
            _ => kill(&rig.daemon()["pid"], Signal::KILL),
        }
    }
    let ended = rig.ended(&run);
    assert_eq!((&ended["status"], &ended["final_state"]), (&json!("completed"), &json!("end")), "{ended}");
    let expected: Vec<String> = (1..=COMMANDS).map(|number| number.to_string()).collect();
    assert_eq!(counted(&rig, "counted"), expected);
    assert_eq!(counted(&rig, "ended"), expected);
}

#[test]
fn a_server_that_is_away_at_the_start_and_in_the_middle_is_named_and_nothing_is_lost() {
    let Some(rig) = Rig::of_temporal("a_server_that_is_away_is_named") else { return };
    let asking = json!({"initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": then("end")},
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    rig.kills_server();
    let run = rig.begins(asking);
    let trouble = format!("Temporal at {} is not reached", rig.address());
    eventually_blocking("the run says what it waits for", || {
        rig.home.runs(&["runs", "show", &run]).stdout.contains(&trouble)
    });
    rig.start_server();
    let gate = rig.gate(&run);
    eventually_blocking("the run is on Temporal", || !rig.home.runs(&["runs", "show", &run]).stdout.contains(&trouble));
    rig.kills_server();
    let refused = rig.home.runs(&["gates", "answer", &gate, "yes"]);
    assert!(refused.code != 0 && refused.stderr.contains("not stored yet"), "{}{}", refused.stdout, refused.stderr);
    rig.start_server();
    // The worker may have passed the first one on after all.
    eventually_blocking("the gate is answered", || {
        let said = rig.home.runs(&["gates", "answer", &gate, "yes"]);
        said.code == 0 || said.stderr.contains("already")
    });
    assert_eq!(rig.ended(&run)["final_state"], "end");
}

#[test]
fn without_a_worker_a_start_is_refused_and_the_next_step_named() {
    let Some(rig) = Rig::of_temporal("without_a_worker_a_start_is_refused") else { return };
    rig.kills_worker();
    let end =
        json!({"initial_state": "end", "states": {"end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let refused = eventually_blocking("the daemon knows that the worker is gone", || {
        Some(rig.asks_for_run(end.clone(), json!({}))).filter(|reply| reply["success"] == false)
    });
    assert!(refused["error"].as_str().unwrap().contains("steplatch worker --temporal"), "{refused}");
    let here = rig.home.path().join("end.json");
    std::fs::write(&here, end.to_string()).unwrap();
    let run = rig.home.runs(&["run", here.to_str().unwrap(), "--on", "sqlite"]);
    assert_eq!(run.code, 0, "the daemon's own engine needs no worker: {}", run.stderr);
}

#[test]
fn what_the_server_stores_has_no_definition_no_output_and_no_secret() {
    let Some(rig) = Rig::of_temporal("what_the_server_stores_is_sealed") else { return };
    let definition = json!({
        "name": "sealed", "initial_state": "open",
        "arguments": {"TOKEN": {"description": "a token", "secret": true, "export": true}},
        "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": then("type")},
            "type": {"action": {"tool": "run_command", "params": {"session_id": "{session_id}",
                "command": "printf %s \"$TOKEN\" >told; echo prin''ted-words"}}, "transitions": then("end")},
            "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let run = rig.begins_with(definition, json!({"initial_variables": {"TOKEN": "hunter2-never-stored"}}));
    assert_eq!(rig.ended(&run)["status"], "completed");
    assert_eq!(counted(&rig, "told"), ["hunter2-never-stored"]);
    rig.kills_server();
    let stored = rig.stored();
    let has = |text: &str| stored.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(&run) && has("sealed"), "the names of the run and of its workflow are there, to be found");
    for text in ["hunter2-never-stored", "printed-words", "run_command"] {
        assert!(!has(text), "{text}");
    }
}

#[test]
fn an_input_that_is_not_sealed_is_refused_and_named() {
    let Some(rig) = Rig::of_temporal("an_input_that_is_not_sealed_is_refused") else { return };
    let asking = json!({"initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}, "transitions": then("end")},
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let run = rig.begins(asking);
    let gate = rig.gate(&run);
    let step = format!("{run}/ask/1");
    let answer = json!({"input": {"kind": "gate_answered", "step": step, "choice": "yes", "by": {"who": "mallory"}}});
    let sent = ["workflow", "signal", "--workflow-id", &run, "--name", "notify", "--input", &answer.to_string()];
    assert_eq!(rig.asks_server(&sent).code, 0);
    eventually_blocking("the worker says what it refuses", || {
        std::fs::read_to_string(rig.worker_log()).unwrap().contains("a payload is not sealed")
    });
    assert_eq!(rig.gate(&run), gate, "nobody has answered");
    // The signal stays in the history, so the run goes on only without it.
    assert_eq!(rig.asks_server(&["workflow", "terminate", "--workflow-id", &run]).code, 0);
    eventually_blocking("the run is over here as well", || rig.run(&run)["status"] == "cancelled");
}
