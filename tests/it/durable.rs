//! Durability of runs: daemons and terminal hosts are killed in the meantime, on the real binary.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

pub(crate) fn kill(pid: &Value) {
    let pid = i32::try_from(pid.as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Returns the status of the daemon, starting one if none runs.
fn ensure_daemon(home: &Home) -> Value {
    // The killed daemon may still answer while it dies.
    loop {
        home.run(&["daemon", "start"]);
        let status = home.run(&["daemon", "status", "--json"]);
        if status.code == 0 {
            return status.json();
        }
    }
}

/// Returns a random duration of at most this number of milliseconds.
fn random_duration(milliseconds: u32) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Duration::from_millis(u64::from(now.subsec_micros() % milliseconds))
}

/// Returns a state machine that types numbered lines into a program and waits for each answer. The program appends each
/// line to `file`, and answers once a file named after the line exists.
fn numbered_lines(lines: usize, file: &Path) -> Value {
    let program = format!(
        "stty -echo; echo ready; while read -r line; do echo \"$line\" >>{}; \
         until [ -e {}/\"$line\" ]; do sleep 0.01; done; echo \"got-$line\"; done",
        file.display(),
        file.parent().unwrap().display(),
    );
    let on_success = |to: String| json!([{"condition": "success", "next_state": to}]);
    let mut states = Map::new();
    states.insert(
        "open".into(),
        json!({
            "action": {"tool": "open_terminal", "params": {"command": ["bash", "-c", program]}},
            "transitions": on_success("ready".into()),
        }),
    );
    states.insert(
        "ready".into(),
        json!({
            "action": {"tool": "await_output", "params": {"pattern": "^ready", "since": 0, "timeout": 60}},
            "transitions": on_success("type_1".into()), "timeout": 120,
        }),
    );
    for line in 1..=lines {
        let next = if line == lines { "close".to_owned() } else { format!("type_{}", line + 1) };
        states.insert(
            format!("type_{line}"),
            json!({
                "action": {"tool": "send_input", "params": {"input_text": format!("line-{line}\n")}},
                "transitions": [
                    {"condition": {"outcome_unknown": true}, "next_state": "in_doubt"},
                    {"condition": "success", "next_state": format!("wait_{line}")},
                ],
            }),
        );
        states.insert(
            format!("wait_{line}"),
            json!({
                "action": {"tool": "await_output", "params": {"pattern": format!("^got-line-{line}$"), "timeout": 60}},
                "transitions": on_success(next), "timeout": 120,
            }),
        );
    }
    states.insert("close".into(), json!({"action": {"tool": "exit_terminal"}}));
    states.insert("in_doubt".into(), json!({"action": {"tool": "list_terminal_sessions"}}));
    json!({"name": "numbered", "description": "Types numbered lines", "initial_state": "open", "states": states})
}

fn read_lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn twenty_lines_are_typed_once_while_daemons_are_killed() {
    const LINES: usize = 20;
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let file = home.path().join("lines");
    let definition = numbered_lines(LINES, &file);
    let started_run = agent.call_tool(
        "run_workflow",
        json!({"workflow_definition": definition, "wait_seconds": 0, "max_states": 200, "save_on_success": false}),
    );
    let run = started_run["run_id"].as_str().unwrap();
    // A client waits for the end across all restarts of the daemon.
    let pending_call = agent.begin("get_run", json!({"run_id": run, "wait_seconds": 150}));
    // Each daemon lives for two answered lines, and is killed at a random moment then, or while it waits for the third.
    for first in (1..LINES).step_by(2) {
        let daemon = ensure_daemon(&home);
        for line in [first, first + 1] {
            std::fs::write(home.path().join(format!("line-{line}")), "").unwrap();
        }
        std::thread::sleep(random_duration(120));
        kill(&daemon["pid"]);
    }
    ensure_daemon(&home);
    let outcome = pending_call.finish();
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("close")), "{outcome}");
    let expected: Vec<String> = (1..=LINES).map(|line| format!("line-{line}")).collect();
    assert_eq!(read_lines(&file), expected);
    assert_eq!(outcome["states_executed"], json!(2 * LINES + 3));
    // The events are numbered without a gap, across all daemons.
    let events = home.run(&["daemon", "status", "--json"]).json();
    assert_eq!(events["runs"], 0);
}

/// Returns a state machine of commands without a terminal. Each command appends its number to `file`: first in
/// sequence, then three in parallel.
fn numbered_commands(commands: usize, file: &Path) -> Value {
    let mut states = Map::new();
    let run =
        |name: &str| json!({"tool": "run_command", "params": {"command": format!("echo {name} >>{}", file.display())}});
    for command in 1..=commands {
        let name = format!("step_{command}");
        let action = match command % 3 {
            0 => {
                let child = |part: &str| {
                    json!({"workflow_definition": {"name": part, "initial_state": "only", "states": {
                        "only": {"action": run(&format!("{name}-{part}"))}}}})
                };
                json!({"tool": "parallel", "params": {"workflows": {"a": child("a"), "b": child("b"), "c": child("c")}}})
            }
            _ => run(&name),
        };
        let next = format!("step_{}", command + 1);
        let mut state = json!({"action": action});
        if command < commands {
            state["transitions"] = json!([{"condition": "success", "next_state": next}]);
        }
        states.insert(name, state);
    }
    json!({"name": "commands", "initial_state": "step_1", "states": states})
}

#[test]
fn commands_without_a_terminal_run_once_across_kills() {
    let home = Home::new(STEPLATCH);
    let file = home.path().join("done");
    let agent = Agent::new(&home);
    let request =
        json!({"workflow_definition": numbered_commands(12, &file), "wait_seconds": 0, "save_on_success": false});
    let run = agent.call_tool("run_workflow", request)["run_id"].clone();
    for _ in 0..12 {
        std::thread::sleep(random_duration(150));
        kill(&ensure_daemon(&home)["pid"]);
    }
    let outcome = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert_eq!(outcome["status"], "completed", "{outcome:#}");
    let parts = |command: usize| match command % 3 {
        0 => ["a", "b", "c"].map(|part| format!("step_{command}-{part}")).to_vec(),
        _ => vec![format!("step_{command}")],
    };
    let mut done = read_lines(&file);
    done.sort();
    let mut expected: Vec<String> = (1..=12).flat_map(parts).collect();
    expected.sort();
    assert_eq!(done, expected);
}

/// Returns a state machine that answers the numbered questions of a program with a dialogue. The program appends each
/// answer to `file`, and asks again once a file named after the answer exists.
fn numbered_questions(name: &str, questions: usize, file: &Path) -> Value {
    let script = format!(
        "for n in $(seq {questions}); do read -r -p \"{name} $n? \" word; echo \"$word\" >>{}; \
         until [ -e {}/\"$word\" ]; do sleep 0.01; done; done; echo asked-all",
        file.display(),
        file.parent().unwrap().display(),
    );
    json!({
        "name": name, "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"command": ["bash", "-c", script]}},
                     "transitions": [{"condition": "success", "next_state": "answer"}]},
            "answer": {"action": {"tool": "dialogue", "params": {
                "rules": [{"when": format!("{name} (\\d+)\\? $"), "type": format!("{name}-{{groups.1}}\n"), "times": questions}],
                "until": "asked-all", "timeout": 120, "max_answers": questions}},
                "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{answer_answers}"}}}
        }
    })
}

#[test]
fn two_dialogues_answer_each_question_once_across_kills() {
    const QUESTIONS: usize = 8;
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let file = |name: &str| home.path().join(format!("{name}s"));
    let branch = |name: &str| json!({"workflow_definition": numbered_questions(name, QUESTIONS, &file(name))});
    let definition = json!({
        "initial_state": "both",
        "states": {"both": {"action": {"tool": "parallel", "params": {
            "workflows": {"left": branch("left"), "right": branch("right")}}},
            "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{both_results}"}}}},
    });
    let started_run = agent.call_tool(
        "run_workflow",
        json!({"workflow_definition": definition, "wait_seconds": 0, "save_on_success": false}),
    );
    let pending_call = agent.begin("get_run", json!({"run_id": started_run["run_id"], "wait_seconds": 150}));
    for first in (1..=QUESTIONS).step_by(2) {
        let daemon = ensure_daemon(&home);
        for name in ["left", "right"] {
            for number in [first, first + 1] {
                std::fs::write(home.path().join(format!("{name}-{number}")), "").unwrap();
            }
        }
        std::thread::sleep(random_duration(300));
        kill(&daemon["pid"]);
    }
    ensure_daemon(&home);
    let outcome = pending_call.finish();
    assert_eq!(outcome["status"], "completed", "{outcome}");
    assert_eq!(outcome["result"], json!({"left": QUESTIONS, "right": QUESTIONS}), "{outcome}");
    for name in ["left", "right"] {
        let expected: Vec<String> = (1..=QUESTIONS).map(|number| format!("{name}-{number}")).collect();
        assert_eq!(read_lines(&file(name)), expected);
    }
}

#[test]
fn lost_terminal_follows_the_authors_transition() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let file = home.path().join("lines");
    // The program reads a line and stays silent, so typing waits for quiet output: the daemon is killed during that
    // wait.
    let definition = json!({
        "initial_state": "open",
        "states": {
            "open": {
                "action": {"tool": "open_terminal", "params": {"command": [
                    "bash", "-c", format!("stty -echo; read -r line; echo \"$line\" >>{}; while :; do echo busy; sleep 0.05; done", file.display())
                ]}},
                "transitions": [{"condition": "success", "next_state": "type"}],
            },
            "type": {
                "action": {"tool": "send_input", "params": {"input_text": "once\n", "wait_for_quiet_ms": 30_000}},
                "transitions": [{"condition": {"outcome_unknown": true}, "next_state": "in_doubt"}],
                "timeout": 60,
            },
            "in_doubt": {"action": {"tool": "sleep", "params": {"seconds": 0.1}}},
        },
    });
    let started_run = agent.call_tool("run_workflow", json!({"workflow_definition": definition, "wait_seconds": 0}));
    eventually_blocking("the line is typed", || !read_lines(&file).is_empty());
    let status = ensure_daemon(&home);
    kill(&status["pid"]);
    kill(&status["hosts"][0]["pid"]);
    let outcome = agent.call_tool("get_run", json!({"run_id": started_run["run_id"], "wait_seconds": 60}));
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("in_doubt")), "{outcome}");
    assert_eq!(read_lines(&file), ["once"]);
}

#[test]
fn finished_run_leaves_its_secrets_in_no_file() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let definition = json!({
        "arguments": {"TOKEN": {"description": "a token", "secret": true, "export": true},
                      "KEY": {"description": "one that no shell is told", "secret": true, "default": "d3fault-key-of-nobody"}},
        "return_values": {"MADE": {"description": "another one, known only at the end", "secret": true}},
        "initial_state": "pause",
        "states": {
            "pause": {
                "action": {"tool": "sleep", "params": {"seconds": 0.5}},
                "transitions": [{"condition": "success", "next_state": "open"}],
            },
            "open": {
                "action": {"tool": "open_terminal"},
                "transitions": [{"condition": "success", "next_state": "use"}],
            },
            "use": {
                "action": {"tool": "send_input", "params": {
                    "input_text": "printf %s \"$TOKEN\" | wc -c >used; MADE=$(cat made); echo made $MADE; : {word|sh} {KEY|sh}\n",
                }},
                "transitions": [{"condition": "success", "next_state": "done"}],
            },
            "done": {
                "action": {"tool": "await_output", "params": {"until": "prompt", "timeout": 20}},
                "transitions": [{"condition": "success", "next_state": "gone"}],
            },
            "gone": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
        },
    });
    let secret = "s3cret-value-that's-nowhere";
    let printed_secret = "another-s3cret-that-is-shown";
    std::fs::write(home.path().join("made"), printed_secret).unwrap();
    let started_run = agent.call_tool(
        "run_workflow",
        json!({"workflow_definition": definition, "initial_variables": {"TOKEN": secret, "word": secret}, "wait_seconds": 0,
               "save_on_success": false}),
    );
    kill(&ensure_daemon(&home)["pid"]);
    let request = json!({"run_id": started_run["run_id"], "wait_seconds": 60, "detail": "full"});
    let outcome = agent.call_tool("get_run", request);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    let secrets = ["that's-nowhere", "that'\\''s-nowhere", printed_secret, "d3fault-key-of-nobody"];
    let contains_secret = |run: &str| secrets.into_iter().any(|secret| run.contains(secret));
    assert!(outcome["final_variables"]["screen_content"].as_str().unwrap().contains("made ••••••"), "{outcome}");
    assert!(!contains_secret(&outcome.to_string()), "{outcome}");
    assert_eq!(std::fs::read_to_string(home.path().join("used")).unwrap().trim(), secret.len().to_string());
    // A new daemon knows no secrets, so it cannot show any.
    home.run(&["daemon", "stop"]).expect_success();
    let run = agent.call_tool("get_run", json!({"run_id": started_run["run_id"]}));
    assert!(!contains_secret(&run.to_string()), "{run}");
    home.run(&["daemon", "stop"]).expect_success();
    for entry in std::fs::read_dir(home.path().join("state")).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        for secret in secrets {
            let is_present = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_present, "{} contains '{secret}'", entry.path().display());
        }
    }
}
