//! Schedules on the real binary: killed daemons, and requests over HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_testkit::{Home, eventually_blocking};

use crate::durable::kill;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Number of killed daemons.
const KILLS: u64 = 12;

/// Writes a workflow that appends the variable `day` to the file `days`.
fn write_workflow(home: &Home) {
    let command = format!("echo {{day}} >> {}/days", home.path().display());
    let workflow = json!({
        "name": "backup",
        "arguments": {"day": {"description": "the day"}},
        "initial_state": "write",
        "states": {"write": {
            "action": {"tool": "run_command", "params": {"command": command}},
            "transitions": [{"condition": "success", "next_state": "end"}],
        }, "end": {"action": {"tool": "set", "params": {"done": "yes"}}, "transitions": []}},
    });
    std::fs::write(home.path().join("backup.json"), workflow.to_string()).unwrap();
}

fn schedules(home: &Home) -> Value {
    eventually_blocking("the schedules are listed", || {
        let listed = home.run(&["schedule", "list", "--json"]);
        // A killed daemon may still accept a connection.
        (listed.code == 0).then(|| listed.json()["schedules"].clone())
    })
}

#[test]
fn killed_daemons_start_each_run_once() {
    let home = Home::new(STEPLATCH);
    write_workflow(&home);
    let add = [
        "schedule",
        "add",
        "often",
        "--every",
        "1s",
        "--overlap",
        "queue",
        "-w",
        "backup.json",
        "-i",
        "day={scheduled_at}",
    ];
    home.run(&add).expect_success();
    let mut last = None;
    for number in 0..KILLS {
        // Each daemon begins a start, and is killed at another moment of it.
        eventually_blocking("a start begins", || {
            let started = schedules(&home)[0]["last"]["scheduled_at"].clone();
            (started.is_string() && Some(&started) != last.as_ref()).then(|| last = Some(started))
        });
        std::thread::sleep(Duration::from_millis(number * 97 % 1000));
        kill(&home.run(&["daemon", "status", "--json"]).json()["pid"]);
    }
    eventually_blocking("the schedule is paused", || {
        (home.run(&["schedule", "pause", "often"]).code == 0).then_some(())
    });
    let runs = eventually_blocking("all runs have ended", || {
        let runs = home.run(&["runs", "list", "--limit", "1000", "--json"]).json()["runs"].as_array().unwrap().clone();
        let is_settled = schedules(&home)[0]["active_run_id"].is_null();
        (is_settled && runs.iter().all(|run| run["state"] == "completed")).then_some(runs)
    });
    let days: BTreeSet<String> = runs.iter().map(|run| run["input"]["day"].as_str().unwrap().to_owned()).collect();
    assert_eq!(days.len(), runs.len(), "a time has two runs");
    assert!(runs.len() as u64 >= KILLS, "{runs:?}");
    assert!(runs.iter().all(|run| run["schedule"] == "often"), "{runs:?}");
    let written = std::fs::read_to_string(home.path().join("days")).unwrap();
    let lines: BTreeSet<String> = written.lines().map(str::to_owned).collect();
    assert_eq!((lines.len(), lines), (written.lines().count(), days));
}

#[test]
fn person_adds_lists_and_removes_schedules() {
    let home = Home::new(STEPLATCH);
    write_workflow(&home);
    let empty = home.run(&["schedule", "list"]);
    assert!(empty.stderr.contains("there are no schedules; add one"), "{}", empty.stderr);
    let nightly =
        ["schedule", "add", "nightly", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "-w", "backup.json"];
    let missing = home.run(&nightly);
    assert!(missing.code != 0 && missing.stderr.contains("argument day (the day) is missing"), "{}", missing.stderr);
    let added = home.run(&[&nightly[..], &["-i", "day=monday"]].concat()).expect_success();
    assert!(added.starts_with("added 'nightly': cron 30 2 * * * (Europe/Berlin)\nnext: "), "{added}");
    let run = home.run(&["schedule", "run", "nightly"]).expect_success();
    eventually_blocking("the run has completed", || {
        let runs = home.run(&["runs", "list", "--json"]).json()["runs"].clone();
        (runs[0]["run_id"] == run.trim() && runs[0]["state"] == "completed").then_some(())
    });
    home.run(&["schedule", "pause", "nightly"]).expect_success();
    let listed = home.run(&["schedule", "list"]).expect_success();
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row.last()), ("nightly", Some(&"completed")), "{listed}");
    assert!(row.contains(&"paused"), "{listed}");
    home.run(&["schedule", "rm", "nightly"]).expect_success();
    let unknown = home.run(&["schedule", "run", "nightly"]);
    assert!(unknown.stderr.contains("there is no schedule 'nightly'"), "{}", unknown.stderr);
}
