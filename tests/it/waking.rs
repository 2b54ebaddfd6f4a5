//! Commands that wait: `terminal wait`, `runs wait`, `gates wait` and `watch`.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use steplatch_testkit::Home;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn home() -> Home {
    let home = Home::new(STEPLATCH);
    let workflows = [
        ("nap", json!({"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}})),
        ("broken", json!({"a": {"action": {"tool": "fail", "params": {"message": "it broke"}}}})),
        ("ask", json!({"a": {"action": {"tool": "gate", "params": {"prompt": "Deploy?", "choices": ["yes", "no"]}}}})),
        ("above", json!({"a": {"action": {"tool": "run_workflow", "params": {"workflow_name": "ask"}}}})),
    ];
    for (name, states) in workflows {
        let definition = json!({"name": name, "description": "for a test", "initial_state": "a", "states": states});
        let file = home.path().join(format!("{name}.json"));
        std::fs::write(&file, definition.to_string()).unwrap();
        home.run(&["workflow", "load", file.to_str().unwrap()]).expect_success();
    }
    home
}

/// Starts a run of a saved workflow and returns its id.
fn start_run(home: &Home, workflow: &str) -> String {
    home.run(&["run", workflow, "--detach"]).expect_success().trim().to_owned()
}

/// A command that prints a line for each event.
struct FollowedCommand {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl FollowedCommand {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut child = home.steplatch().args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next line as soon as it is printed.
    fn next_line(&mut self) -> String {
        self.lines.next().expect("the command prints another line").unwrap()
    }

    fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next_line()).unwrap()
    }

    /// Waits until the command exits and returns its exit code.
    fn wait_for_exit(mut self) -> i32 {
        assert!(self.lines.next().is_none(), "all lines were read");
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for FollowedCommand {
    fn drop(&mut self) {
        // Ignore the error, because the command has exited unless the test failed or it watches endlessly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn terminal_wait_ends_at_a_match_a_prompt_or_an_exit() {
    let home = home();
    home.run(&["terminal", "open", "--name", "one"]).expect_success();
    let mut match_wait = FollowedCommand::start(&home, &["terminal", "wait", "one", "--pattern", r"go \w+"]);
    home.run(&["terminal", "send", "one", "-e", "echo go $((40+2))"]).expect_success();
    assert_eq!(match_wait.next_line(), "one  match  go 42");
    assert_eq!(match_wait.wait_for_exit(), 0);

    home.run(&["terminal", "send", "one", "-e", "false"]).expect_success();
    let failure = home.run(&["terminal", "wait", "one"]);
    assert_eq!((failure.code, failure.stdout.as_str()), (1, "one  prompt  exit code 1\n"));
    let json = home.run(&["terminal", "wait", "one", "--json"]);
    assert_eq!((&json.json()["terminal"], &json.json()["reason"]), (&json!("one"), &json!("prompt")));

    let timed_out = home.run(&["terminal", "wait", "one", "-p", "never", "--timeout", "0.1", "--json"]);
    assert_eq!((timed_out.code, &timed_out.json()["timed_out"]), (124, &json!(true)), "{timed_out:?}");
    assert!(timed_out.stderr.contains("timed out; still waiting for: one"), "{timed_out:?}");

    home.run(&["terminal", "open", "--name", "two", "--", "sh", "-c", "read line; exit 3"]).expect_success();
    let input_wait = home.run(&["terminal", "wait", "two"]);
    assert_eq!((input_wait.code, input_wait.stdout.as_str()), (3, "two  input\n"), "{input_wait:?}");
    assert_eq!(home.run(&["terminal", "wait", "two", "--until", "input"]).code, 0);
    let mut exit_wait = FollowedCommand::start(&home, &["terminal", "wait", "one", "two", "--until", "exit", "--any"]);
    home.run(&["terminal", "send", "two", "-e", "on"]).expect_success();
    assert_eq!(exit_wait.next_line(), "two  exit  exit code 3");
    assert_eq!(exit_wait.wait_for_exit(), 1);
    let missing = home.run(&["terminal", "wait", "three"]);
    assert!(missing.code == 1 && missing.stderr.contains("terminal 'three' not found"), "{missing:?}");
}

#[test]
fn runs_wait_ends_when_they_finish_or_reach_a_gate() {
    let home = home();
    assert!(home.run(&["runs", "wait"]).stderr.contains("no run is in progress"));
    let (completed_run, failed_run, waiting_run) =
        (start_run(&home, "nap"), start_run(&home, "broken"), start_run(&home, "ask"));
    let output = home.run(&["runs", "wait", &completed_run]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.starts_with(&format!("{completed_run}  nap  completed  in ")), "{output:?}");
    let output = home.run(&["runs", "wait", &failed_run, &completed_run]);
    assert!(output.code == 1 && output.stdout.contains("failed") && output.stdout.contains("it broke"), "{output:?}");
    let output = home.run(&["runs", "wait", &completed_run, &waiting_run]);
    assert_eq!(output.code, 3, "{output:?}");
    let answer = format!("waiting  Deploy? (yes | no), answer with: steplatch gates answer {waiting_run}/a/1@");
    assert!(output.stdout.contains(&answer), "{output:?}");
    let output = home.run(&["runs", "wait", "--through-gates", "--timeout", "0.1"]);
    assert!(output.code == 124 && output.stderr.contains(&waiting_run), "{output:?}");

    let mut gate_wait = FollowedCommand::start(&home, &["runs", "wait", &waiting_run, "--through-gates", "--json"]);
    home.answer_gate(&waiting_run, "yes").expect_success();
    assert_eq!(gate_wait.next_json()["state"], "completed");
    assert_eq!(gate_wait.wait_for_exit(), 0);
    // A gate of a nested run is also a gate of its parent.
    let outer = start_run(&home, "above");
    assert_eq!(home.run(&["runs", "wait", &outer]).code, 3);
}

#[test]
fn gates_wait_ends_when_a_gate_opens() {
    let home = home();
    let timed_out = home.run(&["gates", "wait", "--timeout", "0.1"]);
    assert!(timed_out.code == 124 && timed_out.stderr.contains("no gate is open"), "{timed_out:?}");
    let mut gate_wait = FollowedCommand::start(&home, &["gates", "wait", "--human"]);
    let waiting_run = start_run(&home, "ask");
    let line = gate_wait.next_line();
    assert!(line.starts_with(&format!("{waiting_run}/a/1  ask  Deploy? (yes | no), answer with: ")), "{line}");
    assert_eq!(gate_wait.wait_for_exit(), 0);
    assert_eq!(home.run(&["gates", "wait", &waiting_run, "--json"]).json()["gate_id"], format!("{waiting_run}/a/1"));
    let completed_run = start_run(&home, "nap");
    let output = home.run(&["gates", "wait", &completed_run]);
    assert!(output.code == 1 && output.stderr.contains("the runs ended without an open gate"), "{output:?}");
}

#[test]
fn events_are_watched_line_by_line_across_a_daemon_restart() {
    let home = home();
    home.run(&["terminal", "open", "--name", "shell"]).expect_success();
    home.run(&["terminal", "wait", "shell", "--until", "prompt"]).expect_success();
    let waiting_run = start_run(&home, "ask");
    let mut all_events = FollowedCommand::start(&home, &["watch", "--json"]);
    let mut named_events = FollowedCommand::start(&home, &["watch", &waiting_run[..10], "shell"]);
    assert_eq!(
        (&all_events.next_json()["event"], "gate"),
        (&json!("gate"), "gate"),
        "the initial state is reported as an event"
    );
    let mut first = [named_events.next_line(), named_events.next_line()];
    first.sort_by_key(|line| line.contains("gate"));
    assert!(first[0].contains("  shell ") && first[0].contains("prompt"), "{first:?}");
    assert!(first[1].contains(&waiting_run) && first[1].contains("ask: Deploy? (yes | no)"), "{first:?}");

    home.run(&["daemon", "restart"]).expect_success();
    home.answer_gate(&waiting_run, "yes").expect_success();
    let events = [all_events.next_json(), all_events.next_json()];
    assert_eq!((&events[0]["event"], &events[1]["event"]), (&json!("closed"), &json!("completed")), "{events:?}");
    assert!(named_events.next_line().contains("closed") && named_events.next_line().contains("completed"));
    home.run(&["terminal", "send", "shell", "-e", "exit 4"]).expect_success();
    let last = named_events.next_line();
    assert!(last.contains("exit") && last.ends_with("exit code 4"), "{last}");
    assert_eq!(named_events.wait_for_exit(), 1, "the program in the terminal failed");
    let exit_event = all_events.next_json();
    assert_eq!(
        (&exit_event["event"], &exit_event["terminal"], &exit_event["exit_code"]),
        (&json!("exit"), &json!("shell"), &json!(4))
    );
    home.run(&["terminal", "open", "--name", "later"]).expect_success();
    let open_events = [all_events.next_json(), all_events.next_json()];
    assert_eq!([&open_events[0]["event"], &open_events[1]["event"]], ["opened", "prompt"], "{open_events:?}");
    assert_eq!(open_events[1]["terminal"], "later");
    home.run(&["terminal", "close", "later"]).expect_success();
    let close_event = all_events.next_json();
    assert_eq!((&close_event["event"], &close_event["terminal"]), (&json!("closed"), &json!("later")));

    let completed_run = start_run(&home, "nap");
    let (start_event, mut run) = (all_events.next_json(), vec![]);
    assert_eq!((&start_event["event"], &start_event["run_id"]), (&json!("started"), &json!(completed_run)));
    while run.last() != Some(&json!("completed")) {
        run.push(all_events.next_json()["event"].clone());
    }
}

#[test]
fn watch_may_end_at_the_first_event() {
    let home = home();
    let (waiting_run, failed_run) = (start_run(&home, "ask"), start_run(&home, "broken"));
    assert_eq!(home.run(&["runs", "wait", &failed_run]).code, 1);
    assert_eq!(home.run(&["watch", "--any", &failed_run]).code, 1);
    assert_eq!(home.run(&["watch", "--any", &waiting_run]).code, 3);
    home.run(&["terminal", "open", "--name", "log"]).expect_success();
    let timed_out = home.run(&["watch", "--any", "log", "--pattern", "ERROR", "--timeout", "0.1"]);
    assert!(timed_out.code == 124 && timed_out.stderr.contains("timed out; nothing happened"), "{timed_out:?}");
    let mut pattern_watch = FollowedCommand::start(&home, &["watch", "--any", "log", "--pattern", "ERR.R"]);
    home.run(&["terminal", "send", "log", "-e", "echo ERR''OR"]).expect_success();
    assert!(pattern_watch.next_line().ends_with("match      ERROR"));
    assert_eq!(pattern_watch.wait_for_exit(), 0);
    let unknown = home.run(&["watch", "nothing"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no terminal 'nothing'"), "{unknown:?}");
}
