//! Survival of terminals, their output, waits and inputs while the daemon is killed repeatedly.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns the process id of the daemon in `home`, which is not `last`; the agents start one whenever there is none.
pub(crate) fn next_daemon(home: &Home, last: i64) -> i64 {
    eventually_blocking("another daemon serves", || {
        let status = home.run(&["daemon", "status", "--json"]);
        if status.code == 0
            && let Some(pid) = status.json()["pid"].as_i64().filter(|pid| *pid != last)
        {
            return Ok(pid);
        }
        Err(status)
    })
}

pub(crate) fn kill(pid: i64) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// Returns the whole output of a terminal, read page by page.
pub(crate) fn whole_output(agent: &Agent, session: &str) -> String {
    let (mut output, mut offset) = (String::new(), 0);
    loop {
        let page = agent.call_tool(
            "get_screen_content",
            json!({"session_id": session, "content_mode": "history", "offset": offset, "limit": 1_000_000}),
        );
        let content = page["screen_content"].as_str().unwrap();
        let next = page["next_offset"].as_u64().unwrap();
        output.push_str(content);
        if page["truncated"] != true {
            return output;
        }
        assert!(next > offset);
        offset = next;
    }
}

/// Pauses for a random time of less than this number of milliseconds.
pub(crate) fn moment(most: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    std::thread::sleep(Duration::from_millis(u64::from(now.subsec_micros() % most)));
}

/// The terminals of [`printing_survives`].
pub(crate) const TERMINALS: usize = 20;

/// Makes [`TERMINALS`] terminals print `lines` lines each, with a pause after every `portion`, waits for their ends and
/// types into one more, while `disturb` ends what they depend on. No byte, no wait and no input may be lost or doubled.
/// Returns the printing terminals.
pub(crate) fn printing_survives(
    agent: &Agent,
    host: Option<&str>,
    (lines, portion): (usize, usize),
    disturb: impl FnOnce(),
) -> Vec<String> {
    let printing = format!(
        "read start; for ((n = 1; n <= {lines}; n++)); do echo line-$n; ((n % {portion})) || sleep 0.05; done; \
         echo finished-$((6 * 7)); read end"
    );
    let open = |command: &str| {
        let mut asked = json!({"command": ["bash", "-c", command]});
        host.inspect(|host| asked["host"] = (*host).into());
        let opened = agent.call_tool("open_terminal", asked);
        opened["session_id"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    };
    let sessions: Vec<String> = (0..TERMINALS).map(|_| open(&printing)).collect();
    let typed_into = open("stty -echo -icanon; sed -u s/typed/got/");
    for session in &sessions {
        let sent = agent.call_tool("send_input", json!({"session_id": session, "input_text": "\n"}));
        assert_eq!(sent["success"], true, "{sent}");
    }
    let waiting: Vec<_> = sessions
        .iter()
        .map(|session| {
            agent.begin("await_output", json!({"session_id": session, "pattern": "^finished-(\\d+)$", "timeout": 150}))
        })
        .collect();
    let ended = AtomicBool::new(false);
    let typed = std::thread::scope(|scope| {
        let typist = scope.spawn(|| {
            let mut typed = 0;
            while !ended.load(Ordering::Relaxed) {
                typed += 1;
                let text = format!("typed-{typed}\n");
                let sent = agent.call_tool(
                    "send_input",
                    json!({"session_id": typed_into, "input_text": text, "wait_for_quiet_ms": 0}),
                );
                assert_eq!(sent["success"], true, "{sent}");
            }
            typed
        });
        disturb();
        ended.store(true, Ordering::Relaxed);
        typist.join().unwrap()
    });
    for wait in waiting {
        let waited = wait.finish();
        assert_eq!((&waited["match_text"], &waited["groups"]), (&json!("finished-42"), &json!(["42"])), "{waited}");
    }
    let listed = agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(listed["total_sessions"], json!(TERMINALS + 1));
    for session in &sessions {
        let output = whole_output(agent, session);
        let printed: Vec<&str> = output.lines().filter(|line| line.starts_with("line-")).collect();
        let expected: Vec<String> = (1..=lines).map(|n| format!("line-{n}")).collect();
        assert!(printed == expected, "{} lines, of which some are lost or doubled", printed.len());
    }
    let seen = agent.call_tool(
        "await_output",
        json!({"session_id": typed_into, "pattern": format!("^got-{typed}$"), "since": 0, "timeout": 20}),
    );
    assert_eq!(seen["reason"], "match", "{seen}");
    let expected: Vec<String> = (1..=typed).map(|n| format!("got-{n}")).collect();
    let output = whole_output(agent, &typed_into);
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    sessions
}

#[test]
fn terminal_survives_ten_killed_daemons_without_loss() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let sessions = printing_survives(&agent, None, (8_000, 100), || {
        let mut last = 0;
        for _ in 0..10 {
            last = next_daemon(&home, last);
            // A random moment during the operation.
            moment(250);
            kill(last);
        }
    });
    let exit = agent.call_tool("exit_terminal", json!({"session_id": sessions[0]}));
    assert_eq!((&exit["success"], &exit["survivors"]), (&Value::Bool(true), &json!([])));
}

#[test]
fn recording_continues_in_the_next_daemon() {
    let home = Home::new(STEPLATCH);
    home.run(&["terminal", "open", "--name", "shown", "--", "bash", "--norc"]).expect_success();
    let mut recorder = home.steplatch();
    recorder.args(["terminal", "record", "shown", "shown.cast"]).stderr(Stdio::piped());
    let mut recorder = recorder.spawn().unwrap();
    let mut reported = BufReader::new(recorder.stderr.take().unwrap()).lines();
    assert!(reported.next().unwrap().unwrap().starts_with("recording term_"));
    home.run(&["terminal", "send", "shown", "-e", "echo before-$((1 + 1))"]).expect_success();
    let first = next_daemon(&home, 0);
    kill(first);
    home.run(&["terminal", "send", "shown", "-e", "echo after-$((1 + 1))"]).expect_success();
    home.run(&["terminal", "send", "shown", "-e", "exit 3"]).expect_success();
    assert!(reported.next().unwrap().unwrap().starts_with("recorded "));
    assert!(recorder.wait().unwrap().success());
    let recorded = std::fs::read_to_string(home.path().join("shown.cast")).unwrap();
    // As printed, or on the screen that the recorder received.
    assert!(recorded.contains("before-2") && recorded.contains("after-2"), "{recorded}");
    let last: (f64, String, String) = serde_json::from_str(recorded.lines().last().unwrap()).unwrap();
    assert_eq!((last.1.as_str(), last.2.as_str()), ("x", "3"), "{recorded}");
}

/// Types `command` into a terminal and returns the printed number.
fn number_printed(agent: &Agent, session: &str, command: &str) -> i32 {
    let sent = agent.call_tool("send_input", json!({"session_id": session, "input_text": format!("{command}\n")}));
    let waited = agent.call_tool(
        "await_output",
        json!({"session_id": session, "pattern": "number (\\d+)", "since": sent["offset"], "timeout": 20}),
    );
    waited["groups"][0].as_str().unwrap_or_else(|| panic!("{waited}")).parse().unwrap()
}

fn is_running(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn detached_process_is_ended_with_its_terminal_or_named() {
    // An orphan in another session, with an empty environment, that ignores terminating signals.
    const STRAY: &str = "(env -i setsid bash -c 'trap \"\" HUP TERM; echo number $$; exec sleep 1000' &)";
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let open = || agent.call_tool("open_terminal", json!({}))["session_id"].as_str().unwrap().to_owned();
    let (first, second) = (open(), open());
    let stray = number_printed(&agent, &second, STRAY);
    let closed = agent.call_tool("exit_terminal", json!({"session_id": first}));
    assert_eq!(closed["survivors"], json!([{"pid": stray, "name": "sleep", "doubtful": true}]), "either may be its");
    assert!(is_running(stray));
    let closed = agent.call_tool("exit_terminal", json!({"session_id": second}));
    assert_eq!(closed["survivors"], json!([]), "nobody else's any more");
    assert!(!is_running(stray));
}

#[test]
fn process_named_like_a_daemon_is_ended_with_its_terminal() {
    // redteam L2: a process controls its own name and arguments.
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let folder = home.path().join("copied");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy("/bin/bash", folder.join("steplatch")).unwrap();
    std::fs::write(folder.join("daemon"), "trap '' HUP TERM; echo number $$; while :; do sleep 100; done\n").unwrap();
    let opened = agent.call_tool("open_terminal", json!({"working_directory": folder}));
    let session = opened["session_id"].as_str().unwrap();
    let stray = number_printed(&agent, session, "(env -i setsid ./steplatch daemon serve &)");
    let closed = agent.call_tool("exit_terminal", json!({"session_id": session}));
    assert_eq!((&closed["survivors"], is_running(stray)), (&json!([]), false), "{closed}");
}

#[test]
fn superseded_daemon_ends_without_changing_the_state() {
    // redteam L4: the first daemon stayed forever, and its clients had to wait.
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let opened = agent.call_tool("open_terminal", json!({}));
    let status = home.run(&["daemon", "status", "--json"]).json();
    let first = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    std::fs::remove_file(std::path::Path::new(status["state_dir"].as_str().unwrap()).join("daemon.lock")).unwrap();
    let mut second = home.steplatch().args(["daemon", "serve"]).stdin(Stdio::null()).spawn().unwrap();
    next_daemon(&home, first.into());
    // The agent is still connected to the first daemon, which cannot record the run.
    let machine = json!({"name": "short", "initial_state": "only", "states": {
        "only": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }});
    let arguments = json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false});
    let result = agent.call_tool("run_workflow", arguments.clone());
    eventually_blocking(&format!("the first daemon ends: {result}"), || !is_running(first));
    assert_eq!(agent.call_tool("run_workflow", arguments)["status"], "completed");
    let listed = agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(listed["sessions"][0]["session_id"], opened["session_id"], "the terminal is the next daemon's");
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn terminals_are_found_after_the_runtime_directory_is_lost() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let opened = agent.call_tool("open_terminal", json!({"command": ["cat"]}));
    let session = opened["session_id"].as_str().unwrap();
    drop(agent);
    // As at a logout: the directory is removed, but the processes remain.
    let runtime = home.path().join("steplatch");
    std::fs::remove_dir_all(&runtime).unwrap();
    let listed = home.run(&["terminal", "list", "--json"]).json();
    assert_eq!(listed["sessions"][0]["session_id"], session, "the daemon listens again");
    // First without a daemon, and then from another directory.
    for elsewhere in [false, true] {
        kill(home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap());
        std::fs::remove_dir_all(&runtime).unwrap();
        let mut list = home.steplatch();
        if elsewhere {
            list.env("XDG_RUNTIME_DIR", home.path().join("other"));
        }
        let listed = CommandOutput::of(&list.args(["terminal", "list", "--json"]).output().unwrap()).json();
        assert_eq!(listed["sessions"][0]["session_id"], session, "the host listens again, and is found");
    }
}

#[test]
fn daemon_started_in_a_terminal_outlives_it() {
    let (outer, inner) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let opened = outer.run(&["terminal", "open"]).expect_success();
    let environment: Vec<String> =
        inner.environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let command = format!("env {} {STEPLATCH} terminal open -- cat", environment.join(" "));
    let kept = outer.run(&["terminal", "run", opened.trim(), &command]).expect_success();
    let closed = outer.run(&["terminal", "close", opened.trim()]);
    assert!(!closed.stderr.contains("process"), "{}", closed.stderr);
    let listed = inner.run(&["terminal", "list", "--json"]).json();
    assert_eq!(listed["sessions"][0]["session_id"], kept.trim());
}

/// The host is stopped while the next daemon starts, with unread requests of the previous one.
#[test]
fn input_to_a_stopped_host_happens_once_across_daemons() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let _opened = agent.call_tool("open_terminal", json!({"shell": "bash"}));
    let status = home.run(&["daemon", "status", "--json"]).json();
    let (daemon, host) = (status["pid"].as_i64().unwrap(), status["hosts"][0]["pid"].as_i64().unwrap());
    let signal = |signal| kill_process(Pid::from_raw(host.try_into().unwrap()).unwrap(), signal).unwrap();
    let file = home.path().join("lines");
    let append = |line: &str| json!({"command": format!("echo {line} >> {}", file.display())});
    signal(Signal::STOP);
    let state = |line: &str, next: Value| json!({"action": {"tool": "run_command", "params": append(line)}, "transitions": next});
    let machine = json!({"initial_state": "one", "states": {
        "one": state("one", json!([{"condition": "success", "next_state": "two"}])), "two": state("two", json!([]))}});
    let started = agent.call_tool("run_workflow", json!({"workflow_definition": machine, "wait_seconds": 0}));
    let call = agent.begin("run_command", append("call"));
    kill(daemon);
    next_daemon(&home, daemon);
    // Other requests are not delayed, and neither are new runs.
    let other = agent.call_tool("run_command", append("other"));
    assert_eq!(other["success"], true, "{other}");
    let opening = json!({"initial_state": "open", "states": {"open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}}}});
    let opened = agent.call_tool("run_workflow", json!({"workflow_definition": opening, "wait_seconds": 60}));
    assert_eq!(opened["status"], "completed", "{opened}");
    signal(Signal::CONT);
    let called = call.answer();
    let run = json!({"run_id": started["run_id"], "wait_seconds": 60});
    let ended = agent.call_tool("get_run", run);
    assert_eq!(ended["status"], "completed", "{ended}");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    // Only the request that the stopped host had not read may have an unknown outcome.
    match called["outcome_unknown"] == true {
        true => assert!(lines == ["call", "one", "other", "two"] || lines == ["one", "other", "two"], "{lines:?}"),
        false => assert_eq!(lines, ["call", "one", "other", "two"], "{called}"),
    }
}
