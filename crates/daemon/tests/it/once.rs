//! Effects that are performed once across restarts, in daemons in this process.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_protocol::{GetRun, ListTerminalSessions, RunCommand, RunReply, RunWorkflow};
use steplatch_testkit::{TestDaemon, eventually};

async fn start_run(daemon: &TestDaemon, definition: Value) -> String {
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        wait_seconds: Some(0.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let started = daemon.call(verb).await;
    assert_eq!(started.error, None, "{started:?}");
    started.run_id
}

async fn wait_for_end(daemon: &TestDaemon, run: &str) -> RunReply {
    eventually("the run has ended", async || {
        let run = GetRun { run_id: run.to_owned(), wait_seconds: None, ..GetRun::default() };
        let reply = daemon.call(run).await;
        if reply.status == "running" { Err(reply) } else { Ok(reply) }
    })
    .await
}

/// Waits for the ends of runs. All of them must complete.
async fn all_complete(daemon: &TestDaemon, ids: &[String]) {
    for id in ids {
        let reply = wait_for_end(daemon, id).await;
        assert_eq!((reply.status.as_str(), reply.error.as_deref()), ("completed", None), "{reply:?}");
    }
}

async fn assert_no_terminals(daemon: &TestDaemon) {
    eventually("no terminal is left", async || {
        let open = daemon.call(ListTerminalSessions {}).await.sessions;
        if open.is_empty() { Ok(()) } else { Err(open) }
    })
    .await;
}

/// Returns a machine that appends `count` lines to a file, each by a command in a separate shell. Every third line
/// comes from two parallel nested runs, and the last state replaces a file.
fn appending_machine(file: &str, name: usize, count: usize) -> Value {
    let line = |number: usize, branch: &str| json!({"tool": "run_command", "params": {"command": format!("echo {name}-{number}{branch} >> {file}; sleep 0.1; echo done")}});
    let state = |number: usize| {
        let next = if number == count { "put".to_owned() } else { format!("s{}", number + 1) };
        let branch = |branch| json!({"workflow_definition": {"initial_state": "say", "states": {"say": {"action": line(number, branch)}}}});
        let action = match number % 3 {
            0 => json!({"tool": "parallel", "params": {"workflows": {"a": branch("a"), "b": branch("b")}}}),
            _ => line(number, ""),
        };
        let transitions = json!([{"condition": "success", "next_state": next}]);
        (format!("s{number}"), json!({"action": action, "transitions": transitions}))
    };
    let mut states: serde_json::Map<String, Value> = (1..=count).map(state).collect();
    let put =
        json!({"action": {"tool": "put_file", "params": {"path": format!("{file}.{name}"), "content": "whole\n"}}});
    states.insert("put".to_owned(), put);
    json!({"initial_state": "s1", "states": states})
}

#[tokio::test]
async fn commands_in_separate_shells_run_once_across_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines").display().to_string();
    let mut daemon = TestDaemon::new().await;
    let (runs, count) = (4, 6);
    let mut ids = Vec::new();
    for name in 0..runs {
        ids.push(start_run(&daemon, appending_machine(&file, name, count)).await);
    }
    for pause in (0..12).map(|number| 30 + number * 17) {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        daemon = daemon.restarted().await;
    }
    all_complete(&daemon, &ids).await;
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected = (0..runs).flat_map(|name| {
        (1..=count).flat_map(move |number| {
            let branches: &[&str] = if number % 3 == 0 { &["a", "b"] } else { &[""] };
            branches.iter().map(move |branch| format!("{name}-{number}{branch}"))
        })
    });
    let mut expected: Vec<String> = expected.collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_no_terminals(&daemon).await;
    daemon.stop().await;
}

#[tokio::test]
async fn runs_wait_for_a_place_at_the_terminal_limit() {
    let options = steplatch_terminal::Options { max_terminals: 2, ..steplatch_terminal::Options::default() };
    let daemon = TestDaemon::with(options).await;
    let definition = json!({
        "initial_state": "say",
        "states": {"say": {"action": {"tool": "run_command", "params": {"command": "sleep 0.2; echo done"}}}},
    });
    let in_a_terminal = json!({
        "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"name": "{run_id}"}},
                     "transitions": [{"condition": "success", "next_state": "say"}]},
            "say": {"action": {"tool": "run_command", "params": {"session_id": "{run_id}", "command": "sleep 0.2; echo done"}}},
        },
    });
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(start_run(&daemon, definition.clone()).await);
        ids.push(start_run(&daemon, in_a_terminal.clone()).await);
    }
    all_complete(&daemon, &ids).await;
    assert_no_terminals(&daemon).await;
    daemon.stop().await;
}

#[tokio::test]
async fn client_calls_wait_for_a_place_at_the_terminal_limit() {
    let options = steplatch_terminal::Options { max_terminals: 4, ..steplatch_terminal::Options::default() };
    let daemon = TestDaemon::with(options).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..60 {
        let client = daemon.person_named("ann").await;
        let command = RunCommand { command: format!("echo done-{number}"), timeout: 120.0, ..RunCommand::default() };
        calls.spawn(async move { (number, client.call(command).await.unwrap()) });
    }
    for (number, reply) in calls.join_all().await {
        assert_eq!((reply.success, reply.output), (true, format!("done-{number}\n")), "{:?}", reply.error);
    }
    assert_no_terminals(&daemon).await;
    daemon.stop().await;
}

#[tokio::test]
async fn branches_wait_for_a_place_at_the_terminal_limit() {
    let options = steplatch_terminal::Options { max_terminals: 2, ..steplatch_terminal::Options::default() };
    let daemon = TestDaemon::with(options).await;
    let say = json!({
        "initial_state": "say",
        "states": {"say": {"action": {"tool": "run_command", "params": {"command": "sleep 0.1; echo done"}}}},
    });
    let branches = vec![json!({"workflow_definition": say}); 6];
    let parallel = json!({"tool": "parallel", "params": {"workflows": branches}});
    let each = json!({"tool": "run_workflow", "params": {"workflow_definition": say}});
    let definitions = [
        json!({"initial_state": "all", "states": {"all": {"action": parallel, "timeout": 120}}}),
        json!({"initial_state": "each", "states": {"each": {
            "for_each": {"items": ["a", "b", "c", "d", "e", "f"], "max_parallel": 5}, "action": each, "timeout": 120,
        }}}),
    ];
    let mut ids = Vec::new();
    for definition in definitions {
        ids.push(start_run(&daemon, definition).await);
    }
    all_complete(&daemon, &ids).await;
    assert_no_terminals(&daemon).await;
    daemon.stop().await;
}
