//! Rules of the contract about runs that no other test covers, in a daemon in this process.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_daemon::RetentionPolicy;
use steplatch_protocol::{
    AnswerGate, CancelWorkflow, CreateWorkflow, ExecuteWorkflow, GetRun, GetWorkflowRun, ListTerminalSessions,
    ListWorkflowRuns, PauseWorkflow, ResumeWorkflow, RunRecord, RunWorkflow, Subscribe,
};
use steplatch_testkit::{ManualClock, TestDaemon, Timestamp, eventually};

fn machine(name: &str, states: Value) -> Value {
    json!({"name": name, "description": "for a test", "initial_state": "first", "states": states})
}

fn sleeping_machine(seconds: f64) -> Value {
    machine("nap", json!({"first": {"action": {"tool": "sleep", "params": {"seconds": seconds}}}}))
}

fn asking_machine(after: &str) -> Value {
    let asks = json!({"tool": "gate", "params": {"prompt": "Go on?", "answered_by": "anyone"}});
    let mut states = json!({"first": {"action": asks, "transitions": [{"condition": "success", "next_state": after}]}});
    states[after] = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
    machine("asking", states)
}

fn start_request(definition: Value) -> RunWorkflow {
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

async fn newest_event(daemon: &TestDaemon, run: &str) -> u64 {
    daemon
        .client()
        .subscribe(Subscribe { run_id: run.to_owned(), from_seq: None, ..Subscribe::default() })
        .await
        .unwrap()
        .0
        .newest_seq
}

#[tokio::test]
async fn run_can_be_cancelled_after_each_of_its_events() {
    let daemon = TestDaemon::new().await;
    // Returns a machine that opens a terminal, types into it, and waits, so there are always resources to clean up.
    let busy = machine(
        "busy",
        json!({
            "first": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "nest"}]},
            "nest": {"action": {"tool": "run_workflow", "params": {"workflow_definition": sleeping_machine(0.05)}},
                     "transitions": [{"condition": "success", "next_state": "wait"}]},
            "wait": {"action": {"tool": "await_output", "params": {"pattern": "never", "timeout": 60}}, "timeout": 60},
        }),
    );
    let mut runs = Vec::new();
    // Each cancel is one event later, from the start to the last state.
    for count in 0.. {
        let started = daemon.call(start_request(busy.clone())).await;
        assert_eq!(started.status, "running", "the start returns at once, with the id: {started:?}");
        let follow = Subscribe { run_id: started.run_id.clone(), from_seq: Some(1), ..Subscribe::default() };
        let (_, mut events) = daemon.client().subscribe(follow).await.unwrap();
        let mut last = Value::Null;
        for _ in 0..count {
            last = events.next().await.expect("events continue until the run has finished");
        }
        let cancelled = daemon.call(CancelWorkflow { run_id: started.run_id.clone() }).await;
        assert_eq!((cancelled.success, cancelled.state.as_str()), (true, "cancelled"), "after {last}: {cancelled:?}");
        runs.push(started.run_id);
        if (&last["event_type"], &last["data"]["state"]) == (&json!("state_entered"), &json!("wait")) {
            break;
        }
    }
    assert!(runs.len() > 6, "{} runs", runs.len());
    for run in &runs {
        let record = record(&daemon, run).await;
        assert!(record.state == "cancelled" && record.completed_at.is_some(), "{record:?}");
    }
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    let running = ListWorkflowRuns { state: Some("running".to_owned()), ..ListWorkflowRuns::default() };
    assert_eq!(daemon.call(running).await.runs, [], "no nested run remains");
    daemon.stop().await;
}

#[tokio::test]
async fn ended_run_ignores_later_requests() {
    let daemon = TestDaemon::new().await;
    let failing = machine("failing", json!({"first": {"action": {"tool": "fail", "params": {"message": "no"}}}}));
    let cancelled = daemon.call(start_request(sleeping_machine(600.0))).await.run_id;
    daemon.call(CancelWorkflow { run_id: cancelled.clone() }).await;
    let runs = [daemon.run(sleeping_machine(0.0)).await.run_id, daemon.run(failing).await.run_id, cancelled];
    let mut before = Vec::new();
    for run in &runs {
        before.push((record(&daemon, run).await, newest_event(&daemon, run).await));
    }
    let states: Vec<&str> = before.iter().map(|(record, _)| record.state.as_str()).collect();
    assert_eq!(states, ["completed", "failed", "cancelled"]);
    for run_id in runs.clone() {
        let reply = daemon.call(CancelWorkflow { run_id: run_id.clone() }).await;
        assert!(reply.success && reply.message.starts_with("Run was already over"), "{reply:?}");
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
        assert_eq!((record(&daemon, run).await, newest_event(&daemon, run).await), before);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn run_continues_with_its_original_definition() {
    let daemon = TestDaemon::new().await;
    let save =
        |definition: Value| CreateWorkflow { workflow_definition: definition, overwrite_existing: true, reason: None };
    assert!(daemon.call(save(asking_machine("old"))).await.success);
    let named =
        || RunWorkflow { workflow_name: Some("asking".to_owned()), wait_seconds: Some(20.0), ..RunWorkflow::default() };
    let started = daemon.call(named()).await;
    assert_eq!(started.status, "waiting", "{started:?}");
    assert!(daemon.call(save(asking_machine("new"))).await.success);
    let daemon = daemon.restarted().await;
    for (run, end) in [(started, "old"), (daemon.call(named()).await, "new")] {
        let answer =
            AnswerGate { run_id: run.run_id.clone(), gate_id: None, answer: "yes".to_owned(), ..AnswerGate::default() };
        assert!(daemon.call(answer).await.success);
        let reply = daemon.call(GetRun { run_id: run.run_id, wait_seconds: Some(20.0), ..GetRun::default() }).await;
        assert_eq!(reply.final_state.as_deref(), Some(end));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn concurrent_starts_with_one_key_give_one_run() {
    let daemon = TestDaemon::new().await;
    let starts: Vec<_> = (0..20)
        .map(|_| {
            let verb =
                RunWorkflow { idempotency_key: Some("monday".to_owned()), ..start_request(sleeping_machine(0.01)) };
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
async fn finished_runs_expire_and_unfinished_runs_do_not() {
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    let kept_for = RetentionPolicy::default().time.expect("finished runs have a maximum age by default");
    let waiting = daemon.call(start_request(asking_machine("rest"))).await.run_id;
    let finished = daemon.run(sleeping_machine(0.0)).await.run_id;
    clock.advance(Duration::from_secs(1));
    let younger = daemon.run(sleeping_machine(0.0)).await.run_id;
    clock.advance(kept_for - Duration::from_millis(500));
    // Runs are deleted only after a number of runs have ended.
    for _ in 0..60 {
        daemon.run(sleeping_machine(0.0)).await;
    }
    eventually("the finished run is forgotten", async || {
        let runs = daemon.call(ListWorkflowRuns { limit: Some(1000), ..ListWorkflowRuns::default() }).await.runs;
        let known = |id: &str| runs.iter().any(|run| run.run_id == id);
        assert!(known(&waiting) && known(&younger));
        !known(&finished)
    })
    .await;
    let missing_reply = daemon.call(GetRun { run_id: finished.clone(), wait_seconds: None, ..GetRun::default() }).await;
    assert!(missing_reply.error.unwrap().starts_with(&format!("Workflow run '{finished}' not found")));
    daemon.stop().await;
}

#[tokio::test]
async fn saved_workflow_runs_by_name_with_and_without_waiting() {
    let daemon = TestDaemon::new().await;
    let nap = machine("nap", json!({"first": {"action": {"tool": "sleep", "params": {"seconds": "{input}"}}}}));
    let create = CreateWorkflow { workflow_definition: nap, overwrite_existing: false, reason: None };
    assert!(daemon.call(create).await.success);
    let execute = |input: Value, wait: bool| ExecuteWorkflow {
        workflow_id: "nap".to_owned(),
        input,
        wait,
        ..ExecuteWorkflow::default()
    };
    let reply = daemon.call(execute(json!(0.01), true)).await;
    assert_eq!((reply.success, reply.state.as_str(), reply.result), (true, "completed", Some(json!({}))));
    let running = daemon.call(execute(json!("60"), false)).await;
    assert_eq!((running.success, running.state.as_str(), &running.result), (true, "running", &None));
    daemon.call(CancelWorkflow { run_id: running.run_id }).await;
    let unknown = daemon.call(ExecuteWorkflow { workflow_id: "nup".to_owned(), ..ExecuteWorkflow::default() }).await;
    assert!(!unknown.success && unknown.error.unwrap().contains("nup"));
}

// 003 L470-491: the record of a run has its eight keys, null if absent, for machines too. 003 L910-922: the command
// names the session. design/runs.md: its own limit.
#[tokio::test]
async fn machine_record_has_its_result_and_arguments() {
    let daemon = TestDaemon::new().await;
    let definition = machine(
        "returns",
        json!({
            "first": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "set"}]},
            "set": {
                "action": {"tool": "send_input", "params": {"input_text": "GREETING={input|sh}\n"}},
                "transitions": [{"condition": "success", "next_state": "ready"}],
            },
            "ready": {"action": {"tool": "await_output", "params": {"until": "prompt", "timeout": 20}}},
        }),
    );
    let definition = json!({"return_values": {"GREETING": "what is said"}, "arguments": {"PIN": {"secret": true}},
                            "name": definition["name"], "description": definition["description"],
                            "initial_state": definition["initial_state"], "states": definition["states"]});
    let created =
        daemon.call(CreateWorkflow { workflow_definition: definition, overwrite_existing: false, reason: None }).await;
    assert!(created.success, "{created:?}");
    let arguments = json!({"PIN": 917, "n": 3});
    let execute = ExecuteWorkflow {
        workflow_id: "returns".to_owned(),
        session_id: Some("default".to_owned()),
        input: json!("hello"),
        params: arguments.as_object().cloned(),
        wait: true,
        ..ExecuteWorkflow::default()
    };
    let reply = daemon.call(execute.clone()).await;
    assert_eq!((reply.state.as_str(), &reply.error), ("completed", &None), "{reply:?}");
    let reported = serde_json::to_value(record(&daemon, &reply.run_id).await).unwrap();
    for key in ["run_id", "workflow_id", "state", "started_at", "completed_at", "result", "error", "pending_gate"] {
        assert!(reported.get(key).is_some(), "{key} of {reported}");
    }
    assert_eq!((&reported["result"], &reported["error"]), (&json!({"GREETING": "hello"}), &Value::Null));
    assert_eq!((&reported["input"], &reported["params"]), (&json!("hello"), &json!({"PIN": "••••••", "n": 3})));
    let events = events(&daemon, &reply.run_id).await;
    let (first, last) = (&events[0]["data"], &events.last().unwrap()["data"]);
    assert_eq!((&first["run_id"], &first["workflow_id"]), (&json!(reply.run_id), &json!("returns")));
    assert_eq!((&last["run_id"], &last["result"]), (&json!(reply.run_id), &json!({"GREETING": "hello"})));
    let daemon = daemon.restarted().await;
    let listing = daemon.call(ListWorkflowRuns::default()).await.runs.remove(0);
    assert_eq!(serde_json::to_value(listing).unwrap(), reported, "another daemon reports the same record");
    let elsewhere = ExecuteWorkflow { session_id: Some("elsewhere".to_owned()), ..execute.clone() };
    assert_eq!(daemon.call(elsewhere).await.error.unwrap(), "Session not found: elsewhere");
    // A machine can still use a terminal.
    let terminal = daemon.bash().await.id;
    let execution = daemon.call(ExecuteWorkflow { session_id: Some(terminal.clone()), ..execute }).await;
    assert_eq!(execution.state, "completed", "{execution:?}");
    daemon.stop().await;
}

async fn events(daemon: &TestDaemon, run: &str) -> Vec<Value> {
    let verb = Subscribe { run_id: run.to_owned(), from_seq: Some(1), ..Subscribe::default() };
    let (_, mut reported) = daemon.client().subscribe(verb).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = reported.next().await {
        let is_last = event["event_type"]
            .as_str()
            .is_some_and(|kind| matches!(kind, "workflow_completed" | "workflow_failed" | "workflow_cancelled"));
        events.push(event);
        if is_last {
            break;
        }
    }
    events
}

// 003 L391-413: `gate_timeout {gate_id, timeout}`, and choices are null without choices.
#[tokio::test]
async fn machine_gate_events_have_a_limit_and_no_choices() {
    let daemon = TestDaemon::new().await;
    let asks = json!({"tool": "gate", "params": {"prompt": "Go on?", "timeout": 1.5}});
    let started = daemon.call(start_request(machine("asks", json!({"first": {"action": asks}})))).await;
    let events = events(&daemon, &started.run_id).await;
    let data = |kind: &str| &events.iter().find(|event| event["event_type"] == kind).unwrap()["data"];
    assert_eq!(data("gate_waiting")["choices"], Value::Null);
    assert_eq!(data("gate_timeout")["timeout"], 1.5, "{events:?}");
    assert_eq!(data("workflow_failed")["run_id"], json!(started.run_id));
    daemon.stop().await;
}

// Lists show a part of a long result, and the record shows all of it.
#[tokio::test]
async fn long_result_is_truncated_in_lists_only() {
    let daemon = TestDaemon::new().await;
    let mut definition = machine(
        "long",
        json!({
            "first": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "set"}]},
            "set": {
                "action": {"tool": "send_input", "params": {"input_text": "LONG=$(printf %5000s | tr ' ' x)\n"}},
                "transitions": [{"condition": "success", "next_state": "ready"}],
            },
            "ready": {"action": {"tool": "await_output", "params": {"until": "prompt", "timeout": 20}}},
        }),
    );
    definition["return_values"] = json!({"LONG": "long"});
    let started = daemon.call(start_request(definition)).await;
    let reply =
        daemon.call(GetRun { run_id: started.run_id.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    let listing = daemon.call(ListWorkflowRuns::default()).await.runs.remove(0);
    assert!(listing.result_shortened && listing.result["LONG"].as_str().unwrap().len() < 1000, "{listing:?}");
    let daemon = daemon.restarted().await;
    let full_record = record(&daemon, &started.run_id).await;
    assert_eq!((full_record.result_shortened, full_record.result["LONG"].as_str().unwrap().len()), (false, 5000));
    daemon.stop().await;
}
