//! What the contract says of runs, and no other test holds, in a daemon in this process.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_daemon::KeptRuns;
use steplatch_protocol::{
    AnswerGate, CancelWorkflow, CreateWorkflow, ExecuteWorkflow, GetRun, GetWorkflowRun, ListTerminalSessions,
    ListWorkflowRuns, PauseWorkflow, ResumeWorkflow, RunRecord, RunWorkflow, Subscribe,
};
use steplatch_testkit::TestDaemon;

fn machine(name: &str, states: Value) -> Value {
    json!({"name": name, "description": "for a test", "initial_state": "first", "states": states})
}

fn napping(seconds: f64) -> Value {
    machine("nap", json!({"first": {"action": {"tool": "sleep", "params": {"seconds": seconds}}}}))
}

fn asking(after: &str) -> Value {
    let asks = json!({"tool": "gate", "params": {"prompt": "Go on?", "answered_by": "anyone"}});
    let mut states = json!({"first": {"action": asks, "transitions": [{"condition": "success", "next_state": after}]}});
    states[after] = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
    machine("asking", states)
}

fn starting(definition: Value) -> RunWorkflow {
    RunWorkflow {
        workflow_definition: Some(definition),
        save_on_success: false,
        wait_seconds: Some(0.0),
        ..RunWorkflow::default()
    }
}

async fn record(daemon: &TestDaemon, run: &str) -> RunRecord {
    daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await.run.unwrap()
}

async fn newest(daemon: &TestDaemon, run: &str) -> u64 {
    daemon
        .client()
        .subscribe(Subscribe { run_id: run.to_owned(), from_seq: None, ..Subscribe::default() })
        .await
        .unwrap()
        .0
        .newest_seq
}

#[tokio::test]
async fn a_run_is_cancelled_at_every_instant_right_after_its_start() {
    let daemon = TestDaemon::new().await;
    // Opens a terminal, types into it, and waits: there is something to clear away whenever the end comes.
    let busy = machine(
        "busy",
        json!({
            "first": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "nest"}]},
            "nest": {"action": {"tool": "run_workflow", "params": {"workflow_definition": napping(0.05)}},
                     "transitions": [{"condition": "success", "next_state": "wait"}]},
            "wait": {"action": {"tool": "await_output", "params": {"pattern": "never", "timeout": 60}}, "timeout": 60},
        }),
    );
    let mut runs = Vec::new();
    for instant in 0..24u64 {
        let begun = daemon.call(starting(busy.clone())).await;
        assert_eq!(begun.status, "running", "the start returns at once, with the id: {begun:?}");
        // From no time at all to well after the last state began.
        tokio::time::sleep(Duration::from_millis(instant * instant)).await;
        let cancelled = daemon.call(CancelWorkflow { run_id: begun.run_id.clone() }).await;
        assert_eq!(
            (cancelled.success, cancelled.state.as_str()),
            (true, "cancelled"),
            "after {instant}: {cancelled:?}"
        );
        runs.push(begun.run_id);
    }
    for run in &runs {
        let record = record(&daemon, run).await;
        assert!(record.state == "cancelled" && record.completed_at.is_some(), "{record:?}");
    }
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    let running = ListWorkflowRuns { state: Some("running".to_owned()), ..ListWorkflowRuns::default() };
    assert_eq!(daemon.call(running).await.runs, [], "no run below is left either");
    daemon.stop().await;
}

#[tokio::test]
async fn a_run_that_is_over_stays_as_it_ended_whatever_is_wanted_of_it() {
    let daemon = TestDaemon::new().await;
    let failing = machine("failing", json!({"first": {"action": {"tool": "fail", "params": {"message": "no"}}}}));
    let cancelled = daemon.call(starting(napping(600.0))).await.run_id;
    daemon.call(CancelWorkflow { run_id: cancelled.clone() }).await;
    let runs = [daemon.run(napping(0.0)).await.run_id, daemon.run(failing).await.run_id, cancelled];
    let mut before = Vec::new();
    for run in &runs {
        before.push((record(&daemon, run).await, newest(&daemon, run).await));
    }
    let states: Vec<&str> = before.iter().map(|(record, _)| record.state.as_str()).collect();
    assert_eq!(states, ["completed", "failed", "cancelled"]);
    for run_id in runs.clone() {
        let over = daemon.call(CancelWorkflow { run_id: run_id.clone() }).await;
        assert!(over.success && over.message.starts_with("Run was already over"), "{over:?}");
        assert!(!daemon.call(PauseWorkflow { run_id: run_id.clone() }).await.success);
        assert!(!daemon.call(ResumeWorkflow { run_id: run_id.clone() }).await.success);
        assert!(
            !daemon
                .call(AnswerGate { run_id, gate_id: None, answer: "yes".to_owned(), ..AnswerGate::default() })
                .await
                .success
        );
    }
    let daemon = daemon.restarted().await;
    for (run, before) in runs.iter().zip(before) {
        assert_eq!((record(&daemon, run).await, newest(&daemon, run).await), before);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_run_goes_on_with_the_definition_that_it_began_with() {
    let daemon = TestDaemon::new().await;
    let save = |definition: Value| CreateWorkflow { workflow_definition: definition, overwrite_existing: true };
    assert!(daemon.call(save(asking("old"))).await.success);
    let named =
        || RunWorkflow { workflow_name: Some("asking".to_owned()), wait_seconds: Some(20.0), ..RunWorkflow::default() };
    let begun = daemon.call(named()).await;
    assert_eq!(begun.status, "waiting", "{begun:?}");
    assert!(daemon.call(save(asking("new"))).await.success);
    let daemon = daemon.restarted().await;
    for (run, end) in [(begun, "old"), (daemon.call(named()).await, "new")] {
        let answer =
            AnswerGate { run_id: run.run_id.clone(), gate_id: None, answer: "yes".to_owned(), ..AnswerGate::default() };
        assert!(daemon.call(answer).await.success);
        let over = daemon.call(GetRun { run_id: run.run_id, wait_seconds: Some(20.0) }).await;
        assert_eq!(over.final_state.as_deref(), Some(end));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn of_many_starts_at_once_under_one_key_there_is_one_run() {
    let daemon = TestDaemon::new().await;
    let starts: Vec<_> = (0..20)
        .map(|_| {
            let verb = RunWorkflow { idempotency_key: Some("monday".to_owned()), ..starting(napping(0.01)) };
            let client = daemon.client().clone();
            tokio::spawn(async move { client.call(verb).await.unwrap().run_id })
        })
        .collect();
    let mut runs = BTreeSet::new();
    for start in starts {
        runs.insert(start.await.unwrap());
    }
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(daemon.call(ListWorkflowRuns::default()).await.runs.len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn finished_runs_are_forgotten_by_age_and_those_under_way_never() {
    let daemon = TestDaemon::keeping(KeptRuns { most: 1000, time: Some(Duration::ZERO), disk: None }).await;
    let waiting = daemon.call(starting(asking("rest"))).await.run_id;
    let finished = daemon.run(napping(0.0)).await.run_id;
    // Some are forgotten whenever so many have ended.
    for _ in 0..60 {
        daemon.run(napping(0.0)).await;
    }
    loop {
        let runs = daemon.call(ListWorkflowRuns { limit: Some(1000), ..ListWorkflowRuns::default() }).await.runs;
        let known = |id: &str| runs.iter().any(|run| run.run_id == id);
        assert!(known(&waiting));
        if !known(&finished) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let gone = daemon.call(GetRun { run_id: finished.clone(), wait_seconds: None }).await;
    assert!(gone.error.unwrap().starts_with(&format!("Run '{finished}' not found")));
    daemon.stop().await;
}

#[tokio::test]
async fn a_saved_workflow_is_executed_by_its_name_with_and_without_waiting() {
    let daemon = TestDaemon::new().await;
    let nap = machine("nap", json!({"first": {"action": {"tool": "sleep", "params": {"seconds": "{input}"}}}}));
    let create = CreateWorkflow { workflow_definition: nap, overwrite_existing: false };
    assert!(daemon.call(create).await.success);
    let execute = |input: Value, wait: bool| ExecuteWorkflow {
        workflow_id: "nap".to_owned(),
        input,
        wait,
        ..ExecuteWorkflow::default()
    };
    let over = daemon.call(execute(json!(0.01), true)).await;
    assert_eq!((over.success, over.state.as_str(), over.result), (true, "completed", Some(json!({}))));
    let running = daemon.call(execute(json!("60"), false)).await;
    assert_eq!((running.success, running.state.as_str(), &running.result), (true, "running", &None));
    daemon.call(CancelWorkflow { run_id: running.run_id }).await;
    let unknown = daemon.call(ExecuteWorkflow { workflow_id: "nup".to_owned(), ..ExecuteWorkflow::default() }).await;
    assert!(!unknown.success && unknown.error.unwrap().contains("nup"));
}
