//! `steplatch runs events` while the daemon is killed, on the real binary.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns a state machine with two gates.
fn two_gate_workflow() -> Value {
    let gate_state = |prompt: &str, next: &str| {
        json!({"action": {"tool": "gate", "params": {"prompt": prompt, "answered_by": "anyone"}},
               "transitions": [{"condition": "success", "next_state": next}]})
    };
    json!({"name": "asking", "initial_state": "one", "states": {
        "one": gate_state("One?", "two"), "two": gate_state("Two?", "rest"),
        "rest": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }})
}

fn nesting_workflow() -> Value {
    json!({"name": "outer", "initial_state": "nest", "states": {"nest": {
        "action": {"tool": "run_workflow", "params": {"workflow_definition": two_gate_workflow()}},
    }}})
}

fn start_run(agent: &Agent, definition: Value) -> Value {
    let arguments = json!({"workflow_definition": definition, "wait_seconds": 60, "save_on_success": false});
    let waiting = agent.call_tool("run_workflow", arguments);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    waiting
}

fn kill_daemon(home: &Home) {
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// A follower of a run in a separate process.
struct Follower {
    process: Child,
    lines: BufReader<ChildStdout>,
    events: Vec<Value>,
}

impl Follower {
    fn spawn(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.steplatch();
        command.args(["runs", "events", "--json"]).args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines, events: Vec::new() }
    }

    /// Reads until an event satisfies the condition.
    fn receive(&mut self, is_wanted: impl Fn(&Value) -> bool) {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            let event: Value = serde_json::from_str(&line).expect("each line is an event");
            self.events.push(event);
            if is_wanted(self.events.last().unwrap()) {
                return;
            }
        }
    }

    /// Reads to the end and returns all events.
    fn finish(mut self) -> Vec<Value> {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success());
        self.events.extend(rest.lines().map(|line| serde_json::from_str(line).unwrap()));
        self.events
    }
}

fn is_gate(prompt: &str) -> impl Fn(&Value) -> bool {
    move |event| event["event_type"] == "gate_waiting" && event["data"]["prompt"] == prompt
}

fn event_texts(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|event| format!("{} {}", event["workflow_id"].as_str().unwrap(), event["event_type"].as_str().unwrap()))
        .collect()
}

#[test]
fn follower_receives_each_event_once_across_killed_daemons() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let run = start_run(&agent, two_gate_workflow())["run_id"].as_str().unwrap().to_owned();
    let mut follower = Follower::spawn(&home, &[&run, "--follow"]);
    follower.receive(is_gate("One?"));
    kill_daemon(&home);
    home.answer_gate(&run, "yes").expect_success();
    follower.receive(is_gate("Two?"));
    kill_daemon(&home);
    home.answer_gate(&run, "yes").expect_success();
    let received = follower.finish();
    assert_eq!(received.last().unwrap()["event_type"], "workflow_completed");
    let numbers: Vec<u64> = received.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no event is lost or repeated");
    // A late follower receives the same events, starting at any number.
    assert_eq!(Follower::spawn(&home, &[&run]).finish(), received);
    for (from, rest) in received.iter().enumerate() {
        let late_events = Follower::spawn(&home, &[&run, "--from", &(from + 1).to_string(), "--follow"]).finish();
        assert_eq!((&late_events[0], late_events.len()), (rest, received.len() - from));
    }
    let past_end = home.run(&["runs", "events", &run, "--from", "99"]);
    assert_eq!((past_end.code, past_end.stdout.as_str()), (0, ""));
}

#[test]
fn nested_events_appear_at_their_start_even_while_running() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let run = start_run(&agent, nesting_workflow())["run_id"].as_str().unwrap().to_owned();
    let current_events = Follower::spawn(&home, &[&run, "--nested"]).finish();
    assert!(current_events.iter().any(is_gate("One?")), "{:?}", event_texts(&current_events));
    let mut follower = Follower::spawn(&home, &[&run, "--nested", "--follow"]);
    follower.receive(is_gate("One?"));
    home.answer_gate(&run, "yes").expect_success();
    follower.receive(is_gate("Two?"));
    kill_daemon(&home);
    home.answer_gate(&run, "yes").expect_success();
    let received = event_texts(&follower.finish());
    let inner = ["workflow_started", "state_entered", "gate_waiting", "gate_answered", "state_completed", "transition"]
        .into_iter()
        .chain(["state_entered", "gate_waiting", "gate_answered", "state_completed", "transition"])
        .chain(["state_entered", "state_completed", "workflow_completed"]);
    let events_of = |name: &str| -> Vec<String> {
        let lines = received.iter().filter(|line| line.starts_with(name));
        lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    assert_eq!(events_of("asking "), inner.collect::<Vec<_>>());
    let outer = events_of("outer ");
    let without_waits: Vec<&str> = outer
        .iter()
        .map(String::as_str)
        .filter(|name| !matches!(*name, "nested_workflow_waiting" | "nested_workflow_resumed"))
        .collect();
    let expected = ["workflow_started", "state_entered", "nested_workflow_started", "nested_workflow_completed"];
    assert_eq!(without_waits, [&expected[..], &["state_completed", "workflow_completed"]].concat());
    let position = |line: &str| received.iter().position(|received| received == line).unwrap();
    assert!(position("outer nested_workflow_started") < position("asking workflow_started"), "{received:#?}");
    assert!(position("asking workflow_completed") < position("outer nested_workflow_completed"), "{received:#?}");
}
