//! The events of runs, as followers receive them, in a daemon in this process.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_protocol::{AnswerGate, CancelWorkflow, GetRun, RunReply, RunWorkflow, Subscribe};
use steplatch_testkit::TestDaemon;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

fn machine(name: &str, states: Value) -> Value {
    json!({"name": name, "initial_state": "first", "states": states})
}

fn sleeping_machine(name: &str) -> Value {
    machine(name, json!({"first": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}))
}

/// A machine whose only state runs another one.
fn nesting_machine(inner: &Value) -> Value {
    let action = json!({"tool": "run_workflow", "params": {"workflow_definition": inner}});
    machine("outer", json!({"first": {"action": action}}))
}

async fn start_run(daemon: &TestDaemon, definition: Value) -> RunReply {
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        max_states: Some(1000),
        save_on_success: false,
        wait_seconds: Some(0.0),
        ..RunWorkflow::default()
    };
    daemon.call(verb).await
}

/// Returns the events of a finished run, and the reported number of the newest event.
async fn event_history(daemon: &TestDaemon, run: &str) -> (Vec<Value>, u64) {
    let subscribe = Subscribe { run_id: run.to_owned(), from_seq: None, ..Subscribe::default() };
    let (reply, mut received) = daemon.client().subscribe(subscribe).await.unwrap();
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Value| event["seq"].as_u64() < Some(reply.newest_seq)) {
        events.push(tokio::time::timeout(Duration::from_secs(60), received.next()).await.unwrap().unwrap());
    }
    (events, reply.newest_seq)
}

fn event_names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn answer_event_precedes_the_closing_of_terminals() {
    let daemon = TestDaemon::new().await;
    let gate = json!({"tool": "gate", "params": {"prompt": "Go?", "choices": ["yes", "no"], "answered_by": "agent"}});
    // The shell ignores terminating signals, so closing it takes time.
    let command = "trap '' HUP TERM";
    let asking = machine(
        "asking",
        json!({
            "first": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                      "transitions": [{"condition": "success", "next_state": "stay"}]},
            "stay": {"action": {"tool": "run_command", "params": {"command": command}},
                     "transitions": [{"condition": "success", "next_state": "ask"}]},
            "ask": {"action": gate}
        }),
    );
    let run = start_run(&daemon, asking).await.run_id;
    let waiting = daemon.call(GetRun { run_id: run.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    let answer = AnswerGate { run_id: run.clone(), answer: "yes".to_owned(), ..AnswerGate::default() };
    assert!(daemon.call(answer).await.success);
    let (events, _) = event_history(&daemon, &run).await;
    assert!(event_names(&events).contains(&"gate_answered"), "{:?}", event_names(&events));
    daemon.stop().await;
}

#[tokio::test]
async fn run_reports_the_run_it_starts_and_its_end() {
    let daemon = TestDaemon::new().await;
    let run = daemon.run(nesting_machine(&sleeping_machine("inner"))).await;
    let (events, newest) = event_history(&daemon, &run.run_id).await;
    let expected = [
        "workflow_started",
        "state_entered",
        "nested_workflow_started",
        "nested_workflow_completed",
        "state_completed",
        "workflow_completed",
    ];
    assert_eq!(event_names(&events), expected);
    assert_eq!(newest, 6);
    let child = events[1]["data"]["child_run_id"].clone();
    let data = json!({"workflow_id": "inner", "state": "first", "child_run_id": child});
    assert_eq!((&events[2]["data"], &events[3]["data"]), (&data, &data));

    let failing = machine("inner", json!({"first": {"action": {"tool": "fail", "params": {"message": "no"}}}}));
    let run = daemon.run(nesting_machine(&failing)).await;
    let (events, _) = event_history(&daemon, &run.run_id).await;
    assert_eq!(events[3]["event_type"], "nested_workflow_failed");
    assert_eq!(events[3]["data"]["error"], "State 'first' failed: no");

    let run = daemon.run(nesting_machine(&json!({"name": "inner", "initial_state": "first", "states": {}}))).await;
    assert_eq!(run.final_state.as_deref(), Some("definition_invalid"), "a run that did not start reports nothing");
}

#[tokio::test]
async fn cancel_ends_the_gate_and_the_nested_run() {
    let daemon = TestDaemon::new().await;
    let asking = machine("inner", json!({"first": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}}}));
    let run = start_run(&daemon, nesting_machine(&asking)).await.run_id;
    let waiting = daemon.call(GetRun { run_id: run.clone(), wait_seconds: Some(20.0), ..GetRun::default() }).await;
    let gate = waiting.pending_gate.unwrap();
    assert!(daemon.call(CancelWorkflow { run_id: run.clone() }).await.success);
    let (events, _) = event_history(&daemon, &run).await;
    let end = ["nested_workflow_waiting", "nested_workflow_cancelled", "workflow_cancelled"];
    assert_eq!(event_names(&events)[3..], end);
    let (events, _) = event_history(&daemon, &gate.run_id).await;
    assert_eq!(event_names(&events)[2..], ["gate_waiting", "gate_cancelled", "workflow_cancelled"]);
    assert_eq!(events[3]["data"]["gate_id"], gate.gate_id.as_str());
}

/// The last event of a run that loops until its limit.
const END: &str = "workflow_failed";

#[tokio::test]
async fn slow_reader_holds_up_no_run_and_receives_every_event() {
    let daemon = TestDaemon::new().await;
    let looping = machine(
        "looping",
        json!({
            "first": {"action": {"tool": "gate", "params": {"prompt": "Go on?", "answered_by": "anyone"}},
                      "transitions": [{"condition": "success", "next_state": "look"}]},
            "look": {"action": {"tool": "list_terminal_sessions", "params": {}},
                     "transitions": [{"condition": "success", "next_state": "look"}]},
        }),
    );
    let run = start_run(&daemon, looping).await.run_id;
    let mut deaf = UnixStream::connect(daemon.paths().socket()).await.unwrap();
    let asks = json!({"type": "command", "command_type": "SUBSCRIBE", "params": {"run_id": run}, "request_id": 1});
    deaf.write_all(format!("{asks}\n").as_bytes()).await.unwrap();
    let missing_reply = UnixStream::connect(daemon.paths().socket()).await.unwrap();
    let (_, mut going) = missing_reply.into_split();
    going.write_all(format!("{asks}\n").as_bytes()).await.unwrap();
    drop(going);
    daemon.call(GetRun { run_id: run.clone(), wait_seconds: Some(20.0), ..GetRun::default() }).await;
    let answer = steplatch_protocol::AnswerGate {
        run_id: run.clone(),
        gate_id: None,
        answer: "yes".to_owned(),
        ..Default::default()
    };
    assert!(daemon.call(answer).await.success);
    let reply = daemon.call(GetRun { run_id: run.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await;
    assert_eq!((reply.status.as_str(), reply.states_executed), ("failed", 1000), "{:?}", reply.error);

    let mut lines = BufReader::new(deaf).lines();
    let mut received: Vec<(u64, String)> = Vec::new();
    while received.last().is_none_or(|(_, name)| name != END) {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.unwrap().unwrap().unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "event" {
            received.push((event["seq"].as_u64().unwrap(), event["event_type"].as_str().unwrap().to_owned()));
        }
    }
    let (events, newest) = event_history(&daemon, &run).await;
    let reported: Vec<(u64, String)> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .zip(event_names(&events).into_iter().map(str::to_owned))
        .collect();
    assert_eq!(received, reported);
    assert!(newest > 2900 && reported.len() == usize::try_from(newest).unwrap(), "{newest} events without a gap");
}
