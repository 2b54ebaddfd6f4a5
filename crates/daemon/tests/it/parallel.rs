//! Parallel nested workflows in real terminals.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use steplatch_protocol::{
    AnswerGate, CancelWorkflow, GetRun, GetWorkflowRun, ListTerminalSessions, ListWorkflowRuns, PauseWorkflow,
    ResumeWorkflow, RunReply,
};
use steplatch_testkit::{TestDaemon, eventually};

/// A workflow that notes its word, waits for a file, and returns its word in capitals.
fn noting_workflow(directory: &Path) -> Value {
    let directory = directory.display();
    let command = format!(
        "echo {{WORD}} >> {directory}/log; until test -e {directory}/go; do sleep 0.05; done; echo {{WORD}} | tr a-z A-Z"
    );
    json!({
        "name": "noting", "initial_state": "open", "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                     "transitions": [{"condition": "success", "next_state": "note"}]},
            "note": {"action": {"tool": "run_command", "params": {"command": command, "timeout": 60}},
                     "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{note_output}"}}}
        }
    })
}

fn asking_workflow() -> Value {
    json!({
        "name": "asking", "initial_state": "ask", "states": {
            "ask": {"action": {"tool": "gate", "params": {"prompt": "{WHO}?", "choices": ["yes", "no"], "answered_by": "agent"}},
                    "transitions": [{"condition": {"field_equals": {"answer": "yes"}}, "next_state": "done"},
                                    {"condition": {}, "next_state": "no"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{WHO} agrees"}}},
            "no": {"action": {"tool": "fail", "params": {"message": "{WHO} does not agree"}}}
        }
    })
}

async fn wait_for_end(daemon: &TestDaemon, run: &str) -> RunReply {
    daemon.call(GetRun { run_id: run.to_owned(), wait_seconds: Some(60.0), ..GetRun::default() }).await
}

/// Returns the lines of the log, sorted.
fn logged_lines(directory: &Path) -> Vec<String> {
    let mut lines: Vec<String> =
        fs::read_to_string(directory.join("log")).unwrap_or_default().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn parallel_runs_of_a_list_work_once_across_a_restart() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let definition = json!({
        "name": "each", "initial_state": "each", "states": {
            "each": {"for_each": {"items": "a\nb\nc", "as": "word", "max_parallel": 2},
                     "action": {"tool": "run_workflow", "params": {
                         "workflow_definition": noting_workflow(directory.path()), "initial_variables": {"WORD": "{word}"}}},
                     "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{each_results}"}}}
        }
    });
    let run = daemon.begin(definition).await;
    eventually("two of them have begun", async || logged_lines(directory.path()) == ["a", "b"]).await;
    let daemon = daemon.restarted().await;
    let open = daemon.call(ListTerminalSessions::default()).await;
    assert_eq!(open.sessions.len(), 2, "each nested run has its own terminal: {open:?}");
    assert_eq!(logged_lines(directory.path()), ["a", "b"], "the third run waits for a free place");
    fs::write(directory.path().join("go"), "").unwrap();
    let reply = wait_for_end(&daemon, &run).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    assert_eq!(reply.result, Some(json!(["A", "B", "C"])), "{reply:?}");
    assert_eq!(logged_lines(directory.path()), ["a", "b", "c"], "no run is repeated");
    let open = daemon.call(ListTerminalSessions::default()).await;
    assert!(open.sessions.is_empty(), "no terminal is left open: {open:?}");
    daemon.stop().await;
}

fn two_questions() -> Value {
    let branch = |who: &str| json!({"workflow_definition": asking_workflow(), "initial_variables": {"WHO": who}});
    json!({
        "name": "both", "initial_state": "both", "states": {
            "both": {"action": {"tool": "parallel", "params": {"workflows": {"ana": branch("ana"), "bob": branch("bob")}}},
                     "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{both_results}"}}}
        }
    })
}

/// Waits until both nested runs are at their gates and returns them: Ana's first.
async fn wait_at_gates(daemon: &TestDaemon, run: &str) -> Vec<String> {
    let waiting = || ListWorkflowRuns { state: Some("waiting".to_owned()), ..ListWorkflowRuns::default() };
    eventually("both wait", async || daemon.call(waiting()).await.runs.len() == 3).await;
    let mut below: Vec<(String, String)> = Vec::new();
    for waiting in daemon.call(waiting()).await.runs {
        if waiting.parent_run_id.as_deref() == Some(run) {
            below.push((waiting.pending_gate.unwrap().prompt, waiting.run_id));
        }
    }
    below.sort();
    below.into_iter().map(|(_, run)| run).collect()
}

async fn answer(daemon: &TestDaemon, run: &str, answer: &str) {
    let verb = AnswerGate { run_id: run.to_owned(), answer: answer.to_owned(), ..AnswerGate::default() };
    let reply = daemon.call(verb).await;
    assert!(reply.success, "{reply:?}");
}

#[tokio::test]
async fn gates_of_nested_runs_are_answered_also_after_a_restart() {
    let daemon = TestDaemon::new().await;
    let run = daemon.begin(two_questions()).await;
    let [ana, bob] = &wait_at_gates(&daemon, &run).await[..] else { panic!("there are not exactly two gates") };
    answer(&daemon, bob, "yes").await;
    eventually("one is left", async || {
        let verb = ListWorkflowRuns { state: Some("waiting".to_owned()), ..ListWorkflowRuns::default() };
        daemon.call(verb).await.runs.len() == 2
    })
    .await;
    let daemon = daemon.restarted().await;
    // Answered through the outermost run: only one gate is left below it.
    answer(&daemon, &run, "yes").await;
    let reply = wait_for_end(&daemon, &run).await;
    assert_eq!(reply.result, Some(json!({"ana": "ana agrees", "bob": "bob agrees"})), "{reply:?}");
    assert_ne!(ana, bob);
    daemon.stop().await;
}

#[tokio::test]
async fn nested_failure_is_named_and_the_other_runs_end() {
    let daemon = TestDaemon::new().await;
    let run = daemon.begin(two_questions()).await;
    let [ana, bob] = &wait_at_gates(&daemon, &run).await[..] else { panic!("there are not exactly two gates") };
    answer(&daemon, ana, "no").await;
    answer(&daemon, bob, "yes").await;
    let reply = wait_for_end(&daemon, &run).await;
    assert_eq!(reply.status, "failed", "{reply:?}");
    let error = reply.error.unwrap();
    assert!(error.contains("1 of 2 workflows did not complete: ana:") && error.contains("does not agree"), "{error}");
    daemon.stop().await;
}

#[tokio::test]
async fn pause_and_cancel_reach_all_nested_runs() {
    let daemon = TestDaemon::new().await;
    let run = daemon.begin(two_questions()).await;
    let below = wait_at_gates(&daemon, &run).await;
    let is_paused =
        async |run: &str| daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await.run.unwrap().paused.is_some();
    daemon.call(PauseWorkflow { run_id: run.clone() }).await;
    for below in &below {
        eventually("it is paused", async || is_paused(below).await).await;
    }
    daemon.call(ResumeWorkflow { run_id: run.clone() }).await;
    for below in &below {
        eventually("it continues", async || !is_paused(below).await).await;
    }
    daemon.call(CancelWorkflow { run_id: run.clone() }).await;
    assert_eq!(wait_for_end(&daemon, &run).await.status, "cancelled");
    for below in &below {
        assert_eq!(wait_for_end(&daemon, below).await.status, "cancelled");
    }
    daemon.stop().await;
}
