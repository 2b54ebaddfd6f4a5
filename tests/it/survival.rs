//! Survival of terminals, their output, waits and inputs while the daemon is killed repeatedly.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns the process id of the next daemon in `home`, other than `last`. The agents start a daemon whenever there is
/// none.
pub(crate) fn wait_for_next_daemon(home: &Home, last: i64) -> i64 {
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
pub(crate) fn read_whole_output(agent: &Agent, session: &str) -> String {
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

/// Sleeps for a random time below `max_milliseconds`.
pub(crate) fn sleep_randomly(max_milliseconds: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    std::thread::sleep(Duration::from_millis(u64::from(now.subsec_micros() % max_milliseconds)));
}

/// The terminals of [`check_output_survives`].
pub(crate) const TERMINALS: usize = 20;

/// Makes [`TERMINALS`] terminals print `lines` lines each, with a pause after every `portion`, waits for their ends and
/// types into one more, while `disturb` terminates the processes that they depend on. No byte, no wait and no input may
/// be lost or repeated. Returns the printing terminals.
pub(crate) fn check_output_survives(
    agent: &Agent,
    host: Option<&str>,
    (lines, portion): (usize, usize),
    disturb: impl FnOnce(),
) -> Vec<String> {
    let command = format!(
        "read start; for ((n = 1; n <= {lines}; n++)); do echo line-$n; ((n % {portion})) || sleep 0.05; done; \
         echo finished-$((6 * 7)); read end"
    );
    let open = |command: &str| {
        let mut parameters = json!({"command": ["bash", "-c", command]});
        host.inspect(|host| parameters["host"] = (*host).into());
        let terminal = agent.call_tool("open_terminal", parameters);
        terminal["session_id"].as_str().unwrap_or_else(|| panic!("{terminal}")).to_owned()
    };
    let sessions: Vec<String> = (0..TERMINALS).map(|_| open(&command)).collect();
    let typed_session = open("stty -echo -icanon; sed -u s/typed/got/");
    for session in &sessions {
        let reply = agent.call_tool("send_input", json!({"session_id": session, "input_text": "\n"}));
        assert_eq!(reply["success"], true, "{reply}");
    }
    let pending_waits: Vec<_> = sessions
        .iter()
        .map(|session| {
            agent.begin("await_output", json!({"session_id": session, "pattern": "^finished-(\\d+)$", "timeout": 150}))
        })
        .collect();
    let is_done = AtomicBool::new(false);
    let typed_count = std::thread::scope(|scope| {
        let typist = scope.spawn(|| {
            let mut typed_count = 0;
            while !is_done.load(Ordering::Relaxed) {
                typed_count += 1;
                let text = format!("typed-{typed_count}\n");
                let reply = agent.call_tool(
                    "send_input",
                    json!({"session_id": typed_session, "input_text": text, "wait_for_quiet_ms": 0}),
                );
                assert_eq!(reply["success"], true, "{reply}");
            }
            typed_count
        });
        disturb();
        is_done.store(true, Ordering::Relaxed);
        typist.join().unwrap()
    });
    for wait in pending_waits {
        let reply = wait.finish();
        assert_eq!((&reply["match_text"], &reply["groups"]), (&json!("finished-42"), &json!(["42"])), "{reply}");
    }
    let list = agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(list["total_sessions"], json!(TERMINALS + 1));
    for session in &sessions {
        let output = read_whole_output(agent, session);
        let printed_lines: Vec<&str> = output.lines().filter(|line| line.starts_with("line-")).collect();
        let expected: Vec<String> = (1..=lines).map(|n| format!("line-{n}")).collect();
        assert!(printed_lines == expected, "{} lines, of which some are lost or repeated", printed_lines.len());
    }
    let reply = agent.call_tool(
        "await_output",
        json!({"session_id": typed_session, "pattern": format!("^got-{typed_count}$"), "since": 0, "timeout": 20}),
    );
    assert_eq!(reply["reason"], "match", "{reply}");
    let expected: Vec<String> = (1..=typed_count).map(|n| format!("got-{n}")).collect();
    let output = read_whole_output(agent, &typed_session);
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    sessions
}

#[test]
fn terminal_survives_ten_killed_daemons_without_loss() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let sessions = check_output_survives(&agent, None, (8_000, 100), || {
        let mut last = 0;
        for _ in 0..10 {
            last = wait_for_next_daemon(&home, last);
            // A random moment during the operation.
            sleep_randomly(250);
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
    let mut recorder_lines = BufReader::new(recorder.stderr.take().unwrap()).lines();
    assert!(recorder_lines.next().unwrap().unwrap().starts_with("recording term_"));
    home.run(&["terminal", "send", "shown", "-e", "echo before-$((1 + 1))"]).expect_success();
    let first = wait_for_next_daemon(&home, 0);
    kill(first);
    home.run(&["terminal", "send", "shown", "-e", "echo after-$((1 + 1))"]).expect_success();
    home.run(&["terminal", "send", "shown", "-e", "exit 3"]).expect_success();
    assert!(recorder_lines.next().unwrap().unwrap().starts_with("recorded "));
    assert!(recorder.wait().unwrap().success());
    let recording = std::fs::read_to_string(home.path().join("shown.cast")).unwrap();
    // As printed, or on the screen that the recorder received.
    assert!(recording.contains("before-2") && recording.contains("after-2"), "{recording}");
    let last: (f64, String, String) = serde_json::from_str(recording.lines().last().unwrap()).unwrap();
    assert_eq!((last.1.as_str(), last.2.as_str()), ("x", "3"), "{recording}");
}

/// Types `command` into a terminal and returns the printed number.
fn run_and_read_number(agent: &Agent, session: &str, command: &str) -> i32 {
    let reply = agent.call_tool("send_input", json!({"session_id": session, "input_text": format!("{command}\n")}));
    let match_reply = agent.call_tool(
        "await_output",
        json!({"session_id": session, "pattern": "number (\\d+)", "since": reply["offset"], "timeout": 20}),
    );
    match_reply["groups"][0].as_str().unwrap_or_else(|| panic!("{match_reply}")).parse().unwrap()
}

fn is_running(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn detached_process_is_terminated_or_reported() {
    // An orphan in another session, with an empty environment, that ignores terminating signals.
    const STRAY: &str = "(env -i setsid bash -c 'trap \"\" HUP TERM; echo number $$; exec sleep 1000' &)";
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let open = || agent.call_tool("open_terminal", json!({}))["session_id"].as_str().unwrap().to_owned();
    let (first, second) = (open(), open());
    let stray_pid = run_and_read_number(&agent, &second, STRAY);
    let close_reply = agent.call_tool("exit_terminal", json!({"session_id": first}));
    assert_eq!(
        close_reply["survivors"],
        json!([{"pid": stray_pid, "name": "sleep", "doubtful": true}]),
        "either terminal may own the process"
    );
    assert!(is_running(stray_pid));
    let close_reply = agent.call_tool("exit_terminal", json!({"session_id": second}));
    assert_eq!(close_reply["survivors"], json!([]), "no other terminal may own the process");
    assert!(!is_running(stray_pid));
}

#[test]
fn process_named_like_a_daemon_is_terminated() {
    // redteam L2: a process controls its own name and arguments.
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let directory = home.path().join("copied");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy("/bin/bash", directory.join("steplatch")).unwrap();
    std::fs::write(directory.join("daemon"), "trap '' HUP TERM; echo number $$; while :; do sleep 100; done\n")
        .unwrap();
    let terminal = agent.call_tool("open_terminal", json!({"working_directory": directory}));
    let session = terminal["session_id"].as_str().unwrap();
    let stray_pid = run_and_read_number(&agent, session, "(env -i setsid ./steplatch daemon serve &)");
    let close_reply = agent.call_tool("exit_terminal", json!({"session_id": session}));
    assert_eq!((&close_reply["survivors"], is_running(stray_pid)), (&json!([]), false), "{close_reply}");
}

#[test]
fn superseded_daemon_exits_without_changing_the_state() {
    // redteam L4: the first daemon stayed forever, and its clients had to wait.
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let terminal = agent.call_tool("open_terminal", json!({}));
    let status = home.run(&["daemon", "status", "--json"]).json();
    let first = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    std::fs::remove_file(std::path::Path::new(status["state_dir"].as_str().unwrap()).join("daemon.lock")).unwrap();
    let mut second = home.steplatch().args(["daemon", "serve"]).stdin(Stdio::null()).spawn().unwrap();
    wait_for_next_daemon(&home, first.into());
    // The agent is still connected to the first daemon, and that daemon cannot record the run.
    let machine = json!({"name": "short", "initial_state": "only", "states": {
        "only": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }});
    let arguments = json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false});
    let result = agent.call_tool("run_workflow", arguments.clone());
    eventually_blocking(&format!("the first daemon exits: {result}"), || !is_running(first));
    assert_eq!(agent.call_tool("run_workflow", arguments)["status"], "completed");
    let list = agent.call_tool("list_terminal_sessions", json!({}));
    assert_eq!(list["sessions"][0]["session_id"], terminal["session_id"], "the next daemon has the terminal");
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn recorded_process_id_of_another_daemon_is_left_alone() {
    // A container that starts again with kept state gives the recorded id to a new process.
    let (home, other) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let status = |home: &Home| {
        home.run(&["daemon", "start"]).expect_success();
        home.run(&["daemon", "status", "--json"]).json()
    };
    let (own, reused) = (status(&home), status(&other));
    let own_pid = i32::try_from(own["pid"].as_i64().unwrap()).unwrap();
    kill(own_pid.into());
    eventually_blocking("the daemon has exited", || !is_running(own_pid));
    let lock = std::path::Path::new(own["state_dir"].as_str().unwrap()).join("daemon.lock");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
    record["pid"] = reused["pid"].clone();
    std::fs::write(&lock, record.to_string()).unwrap();
    assert_ne!(status(&home)["pid"], own["pid"]);
    assert_eq!(status(&other)["pid"], reused["pid"]);
}

#[test]
fn terminals_are_found_after_the_runtime_directory_is_lost() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let terminal = agent.call_tool("open_terminal", json!({"command": ["cat"]}));
    let session = terminal["session_id"].as_str().unwrap();
    drop(agent);
    // As at a logout: the directory is removed, but the processes remain.
    let runtime = home.path().join("steplatch");
    std::fs::remove_dir_all(&runtime).unwrap();
    let listing = home.run(&["terminal", "list", "--json"]).json();
    assert_eq!(listing["sessions"][0]["session_id"], session, "the daemon listens again");
    // First without a daemon, and then from another directory.
    for uses_other_directory in [false, true] {
        kill(home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap());
        std::fs::remove_dir_all(&runtime).unwrap();
        let mut list = home.steplatch();
        if uses_other_directory {
            list.env("XDG_RUNTIME_DIR", home.path().join("other"));
        }
        let listing = CommandOutput::from_process(&list.args(["terminal", "list", "--json"]).output().unwrap()).json();
        assert_eq!(listing["sessions"][0]["session_id"], session, "the host listens again, and is found");
    }
}

#[test]
fn daemon_started_in_a_terminal_outlives_it() {
    let (outer, inner) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let outer_session = outer.run(&["terminal", "open"]).expect_success();
    let environment: Vec<String> =
        inner.environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let command = format!("env {} {STEPLATCH} terminal open -- cat", environment.join(" "));
    let inner_session = outer.run(&["terminal", "run", outer_session.trim(), &command]).expect_success();
    let close_output = outer.run(&["terminal", "close", outer_session.trim()]);
    assert!(!close_output.stderr.contains("process"), "{}", close_output.stderr);
    let list = inner.run(&["terminal", "list", "--json"]).json();
    assert_eq!(list["sessions"][0]["session_id"], inner_session.trim());
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
    let started_run = agent.call_tool("run_workflow", json!({"workflow_definition": machine, "wait_seconds": 0}));
    let call = agent.begin("run_command", append("call"));
    kill(daemon);
    wait_for_next_daemon(&home, daemon);
    // Other requests are not delayed, and neither are new runs.
    let other_reply = agent.call_tool("run_command", append("other"));
    assert_eq!(other_reply["success"], true, "{other_reply}");
    let open_definition = json!({"initial_state": "open", "states": {"open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}}}});
    let open_outcome =
        agent.call_tool("run_workflow", json!({"workflow_definition": open_definition, "wait_seconds": 60}));
    assert_eq!(open_outcome["status"], "completed", "{open_outcome}");
    signal(Signal::CONT);
    let call_reply = call.answer();
    let run = json!({"run_id": started_run["run_id"], "wait_seconds": 60});
    let outcome = agent.call_tool("get_run", run);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    // Only the request that the stopped host had not read may have an unknown outcome.
    match call_reply["outcome_unknown"] == true {
        true => assert!(lines == ["call", "one", "other", "two"] || lines == ["one", "other", "two"], "{lines:?}"),
        false => assert_eq!(lines, ["call", "one", "other", "two"], "{call_reply}"),
    }
}
