//! Commands that wait: `terminal wait`, `runs wait`, `gates wait` and `watch`.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use steplatch_testkit::Home;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn home() -> Home {
    let home = Home::new(STEPLATCH);
    let machines = [
        ("nap", json!({"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}})),
        ("broken", json!({"a": {"action": {"tool": "fail", "params": {"message": "it broke"}}}})),
        ("ask", json!({"a": {"action": {"tool": "gate", "params": {"prompt": "Deploy?", "choices": ["yes", "no"]}}}})),
        ("above", json!({"a": {"action": {"tool": "run_workflow", "params": {"workflow_name": "ask"}}}})),
    ];
    for (name, states) in machines {
        let machine = json!({"name": name, "description": "for a test", "initial_state": "a", "states": states});
        let file = home.path().join(format!("{name}.json"));
        std::fs::write(&file, machine.to_string()).unwrap();
        home.run(&["workflow", "load", file.to_str().unwrap()]).expect_success();
    }
    home
}

/// Starts a run of a saved workflow and returns its id.
fn start_run(home: &Home, workflow: &str) -> String {
    home.run(&["run", workflow, "--detach"]).expect_success().trim().to_owned()
}

/// A command that prints a line for each event.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn of(home: &Home, arguments: &[&str]) -> Self {
        let mut child = home.steplatch().args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next line as soon as it is printed.
    fn line(&mut self) -> String {
        self.lines.next().expect("a further line").unwrap()
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Returns the exit code.
    fn finish(mut self) -> i32 {
        assert!(self.lines.next().is_none(), "no line is left");
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore the error: it has ended unless the test failed or it watches endlessly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn wait_for_a_terminal_ends_at_a_match_a_prompt_or_its_end() {
    let home = home();
    home.run(&["terminal", "open", "--name", "one"]).expect_success();
    let mut matched = Running::of(&home, &["terminal", "wait", "one", "--pattern", r"go \w+"]);
    home.run(&["terminal", "send", "one", "-e", "echo go $((40+2))"]).expect_success();
    assert_eq!(matched.line(), "one  match  go 42");
    assert_eq!(matched.finish(), 0);

    home.run(&["terminal", "send", "one", "-e", "false"]).expect_success();
    let failed = home.run(&["terminal", "wait", "one"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, "one  prompt  exit code 1\n"));
    let json = home.run(&["terminal", "wait", "one", "--json"]);
    assert_eq!((&json.json()["terminal"], &json.json()["reason"]), (&json!("one"), &json!("prompt")));

    let late = home.run(&["terminal", "wait", "one", "-p", "never", "--timeout", "0.1", "--json"]);
    assert_eq!((late.code, &late.json()["timed_out"]), (124, &json!(true)), "{late:?}");
    assert!(late.stderr.contains("timed out; still waiting for: one"), "{late:?}");

    home.run(&["terminal", "open", "--name", "two", "--", "sh", "-c", "read line; exit 3"]).expect_success();
    let asks = home.run(&["terminal", "wait", "two"]);
    assert_eq!((asks.code, asks.stdout.as_str()), (3, "two  input\n"), "{asks:?}");
    assert_eq!(home.run(&["terminal", "wait", "two", "--until", "input"]).code, 0);
    let mut first = Running::of(&home, &["terminal", "wait", "one", "two", "--until", "exit", "--any"]);
    home.run(&["terminal", "send", "two", "-e", "on"]).expect_success();
    assert_eq!(first.line(), "two  exit  exit code 3");
    assert_eq!(first.finish(), 1);
    let gone = home.run(&["terminal", "wait", "three"]);
    assert!(gone.code == 1 && gone.stderr.contains("terminal 'three' not found"), "{gone:?}");
}

#[test]
fn wait_for_runs_ends_with_them_or_at_a_gate() {
    let home = home();
    assert!(home.run(&["runs", "wait"]).stderr.contains("no run is in progress"));
    let (good, bad, asks) = (start_run(&home, "nap"), start_run(&home, "broken"), start_run(&home, "ask"));
    let waited = home.run(&["runs", "wait", &good]);
    assert_eq!(waited.code, 0, "{waited:?}");
    assert!(waited.stdout.starts_with(&format!("{good}  nap  completed  in ")), "{waited:?}");
    let waited = home.run(&["runs", "wait", &bad, &good]);
    assert!(waited.code == 1 && waited.stdout.contains("failed") && waited.stdout.contains("it broke"), "{waited:?}");
    let waited = home.run(&["runs", "wait", &good, &asks]);
    assert_eq!(waited.code, 3, "{waited:?}");
    let answer = format!("waiting  Deploy? (yes | no), answer with: steplatch gates answer {asks}/a/1@");
    assert!(waited.stdout.contains(&answer), "{waited:?}");
    let waited = home.run(&["runs", "wait", "--through-gates", "--timeout", "0.1"]);
    assert!(waited.code == 124 && waited.stderr.contains(&asks), "{waited:?}");

    let mut through = Running::of(&home, &["runs", "wait", &asks, "--through-gates", "--json"]);
    home.answer_gate(&asks, "yes").expect_success();
    assert_eq!(through.json()["state"], "completed");
    assert_eq!(through.finish(), 0);
    // A gate of a nested run is also a gate of its parent.
    let above = start_run(&home, "above");
    assert_eq!(home.run(&["runs", "wait", &above]).code, 3);
}

#[test]
fn wait_for_a_gate_ends_when_one_opens() {
    let home = home();
    let none = home.run(&["gates", "wait", "--timeout", "0.1"]);
    assert!(none.code == 124 && none.stderr.contains("no gate is open"), "{none:?}");
    let mut waiting = Running::of(&home, &["gates", "wait", "--human"]);
    let asks = start_run(&home, "ask");
    let line = waiting.line();
    assert!(line.starts_with(&format!("{asks}/a/1  ask  Deploy? (yes | no), answer with: ")), "{line}");
    assert_eq!(waiting.finish(), 0);
    assert_eq!(home.run(&["gates", "wait", &asks, "--json"]).json()["gate_id"], format!("{asks}/a/1"));
    let good = start_run(&home, "nap");
    let ended = home.run(&["gates", "wait", &good]);
    assert!(ended.code == 1 && ended.stderr.contains("the runs ended without an open gate"), "{ended:?}");
}

#[test]
fn events_are_watched_line_by_line_across_a_daemon_restart() {
    let home = home();
    home.run(&["terminal", "open", "--name", "shell"]).expect_success();
    home.run(&["terminal", "wait", "shell", "--until", "prompt"]).expect_success();
    let asks = start_run(&home, "ask");
    let mut all = Running::of(&home, &["watch", "--json"]);
    let mut named = Running::of(&home, &["watch", &asks[..10], "shell"]);
    assert_eq!((&all.json()["event"], "gate"), (&json!("gate"), "gate"), "what holds at the start is an event");
    let mut first = [named.line(), named.line()];
    first.sort_by_key(|line| line.contains("gate"));
    assert!(first[0].contains("  shell ") && first[0].contains("prompt"), "{first:?}");
    assert!(first[1].contains(&asks) && first[1].contains("ask: Deploy? (yes | no)"), "{first:?}");

    home.run(&["daemon", "restart"]).expect_success();
    home.answer_gate(&asks, "yes").expect_success();
    let events = [all.json(), all.json()];
    assert_eq!((&events[0]["event"], &events[1]["event"]), (&json!("closed"), &json!("completed")), "{events:?}");
    assert!(named.line().contains("closed") && named.line().contains("completed"));
    home.run(&["terminal", "send", "shell", "-e", "exit 4"]).expect_success();
    let last = named.line();
    assert!(last.contains("exit") && last.ends_with("exit code 4"), "{last}");
    assert_eq!(named.finish(), 1, "its program failed");
    let ended = all.json();
    assert_eq!(
        (&ended["event"], &ended["terminal"], &ended["exit_code"]),
        (&json!("exit"), &json!("shell"), &json!(4))
    );
    home.run(&["terminal", "open", "--name", "later"]).expect_success();
    let opened = [all.json(), all.json()];
    assert_eq!([&opened[0]["event"], &opened[1]["event"]], ["opened", "prompt"], "{opened:?}");
    assert_eq!(opened[1]["terminal"], "later");
    home.run(&["terminal", "close", "later"]).expect_success();
    let closed = all.json();
    assert_eq!((&closed["event"], &closed["terminal"]), (&json!("closed"), &json!("later")));

    let good = start_run(&home, "nap");
    let (started, mut run) = (all.json(), vec![]);
    assert_eq!((&started["event"], &started["run_id"]), (&json!("started"), &json!(good)));
    while run.last() != Some(&json!("completed")) {
        run.push(all.json()["event"].clone());
    }
}

#[test]
fn watch_may_end_at_the_first_event() {
    let home = home();
    let (asks, bad) = (start_run(&home, "ask"), start_run(&home, "broken"));
    assert_eq!(home.run(&["runs", "wait", &bad]).code, 1);
    assert_eq!(home.run(&["watch", "--any", &bad]).code, 1);
    assert_eq!(home.run(&["watch", "--any", &asks]).code, 3);
    home.run(&["terminal", "open", "--name", "log"]).expect_success();
    let late = home.run(&["watch", "--any", "log", "--pattern", "ERROR", "--timeout", "0.1"]);
    assert!(late.code == 124 && late.stderr.contains("timed out; nothing happened"), "{late:?}");
    let mut watched = Running::of(&home, &["watch", "--any", "log", "--pattern", "ERR.R"]);
    home.run(&["terminal", "send", "log", "-e", "echo ERR''OR"]).expect_success();
    assert!(watched.line().ends_with("match      ERROR"));
    assert_eq!(watched.finish(), 0);
    let unknown = home.run(&["watch", "nothing"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no terminal 'nothing'"), "{unknown:?}");
}
