//! Paused runs, in a daemon in this process.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_protocol::{
    AnswerGate, CancelWorkflow, GetRun, GetWorkflowRun, ListTerminalSessions, PauseWorkflow, PauseWorkflowReply,
    ResumeWorkflow, RunRecord, RunReply, RunWorkflow, Subscribe,
};
use steplatch_testkit::{ManualClock, TestDaemon, Timestamp, eventually};

/// Returns a machine that opens a terminal, waits for what a person types there, and continues.
fn listening_machine() -> Value {
    json!({
        "name": "listening", "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "wait"}]},
            "wait": {"action": {"tool": "await_output", "params": {"pattern": "^go-on", "timeout": 60}}, "timeout": 60,
                     "transitions": [{"condition": {"pattern_match": "go-on"}, "next_state": "type"}]},
            "type": {"action": {"tool": "send_input", "params": {"input_text": "echo typed-$((40 + 2))\n"}}},
        },
    })
}

fn nesting_machine(inner: &Value) -> Value {
    let action = json!({"tool": "run_workflow", "params": {"workflow_definition": inner}});
    json!({"name": "outer", "initial_state": "nest", "states": {"nest": {"action": action}}})
}

async fn pause(daemon: &TestDaemon, run: &str) -> PauseWorkflowReply {
    daemon.call(PauseWorkflow { run_id: run.to_owned() }).await
}

async fn resume(daemon: &TestDaemon, run: &str) -> PauseWorkflowReply {
    daemon.call(ResumeWorkflow { run_id: run.to_owned() }).await
}

async fn record(daemon: &TestDaemon, run: &str) -> RunRecord {
    daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await.run.unwrap()
}

async fn wait_for_end(daemon: &TestDaemon, run: &str) -> RunReply {
    daemon.call(GetRun { run_id: run.to_owned(), wait_seconds: Some(30.0), ..GetRun::default() }).await
}

/// Waits until a run sends this event and returns its data.
async fn wait_for_event(daemon: &TestDaemon, run: &str, event_type: &str, state: Option<&str>) -> Value {
    let (_, mut events) = daemon
        .client()
        .subscribe(Subscribe { run_id: run.to_owned(), from_seq: None, ..Subscribe::default() })
        .await
        .unwrap();
    loop {
        let event = events.next().await.expect("the expected event arrives");
        if event["event_type"] == event_type && state.is_none_or(|state| event["data"]["state"] == state) {
            return event["data"].clone();
        }
    }
}

/// Types into the only open terminal.
async fn type_line(daemon: &TestDaemon, text: &str) {
    let sessions = daemon.call(ListTerminalSessions {}).await.sessions;
    let session_id = sessions[0].session_id.clone();
    let verb = steplatch_protocol::SendInput { session_id, input_text: text.to_owned(), ..Default::default() };
    assert!(daemon.call(verb).await.success);
}

#[tokio::test]
async fn paused_run_finishes_its_step_and_stays_paused() {
    let daemon = TestDaemon::new().await;
    let run = daemon.begin(listening_machine()).await;
    wait_for_event(&daemon, &run, "state_entered", Some("wait")).await;
    let paused = pause(&daemon, &run).await;
    assert!(paused.success && paused.message.starts_with("Run paused"), "{paused:?}");
    assert_eq!((paused.state.as_str(), paused.paused.as_ref().unwrap().by.as_str()), ("running", "test"));
    let second_reply = daemon.person_named("ana").await.call(PauseWorkflow { run_id: run.clone() }).await.unwrap();
    assert_eq!((second_reply.success, second_reply.message.as_str()), (true, "Run was already paused by test"));
    assert_eq!(second_reply.paused, paused.paused);

    let daemon = daemon.restarted().await;
    assert_eq!(record(&daemon, &run).await.paused, paused.paused);
    type_line(&daemon, "echo go-on\n").await;
    wait_for_event(&daemon, &run, "state_completed", Some("wait")).await;
    let daemon = daemon.restarted().await;
    let inspected = daemon.call(GetRun { run_id: run.clone(), wait_seconds: Some(0.5), ..GetRun::default() }).await;
    assert_eq!(
        (inspected.status.as_str(), inspected.states_executed),
        ("running", 2),
        "a paused run makes no progress"
    );
    assert_eq!(inspected.paused, paused.paused);

    let resumed = resume(&daemon, &run).await;
    assert_eq!((resumed.success, resumed.message.as_str(), resumed.paused), (true, "Run resumed", None));
    let final_reply = wait_for_end(&daemon, &run).await;
    assert_eq!(
        (final_reply.status.as_str(), final_reply.final_state.as_deref()),
        ("completed", Some("type")),
        "{:?}",
        final_reply.error
    );
    assert_eq!(final_reply.paused, None);
    assert_eq!(wait_for_event(&daemon, &run, "workflow_resumed", None).await, json!({"by": "test"}));
    for reply in [pause(&daemon, &run).await, resume(&daemon, &run).await] {
        assert_eq!((reply.success, reply.error.as_deref()), (false, Some("Run was already over: completed")));
    }
    let unknown = pause(&daemon, "run_x").await;
    assert!(unknown.error.unwrap().starts_with("Workflow run 'run_x' not found"));
    daemon.stop().await;
}

#[tokio::test]
async fn paused_run_is_cancelled_at_once_with_its_terminal() {
    let daemon = TestDaemon::new().await;
    let run = daemon.begin(listening_machine()).await;
    wait_for_event(&daemon, &run, "state_entered", Some("wait")).await;
    pause(&daemon, &run).await;
    type_line(&daemon, "echo go-on\n").await;
    wait_for_event(&daemon, &run, "state_completed", Some("wait")).await;
    let cancelled = daemon.call(CancelWorkflow { run_id: run.clone() }).await;
    assert_eq!((cancelled.state.as_str(), cancelled.message.as_str()), ("cancelled", "Run cancelled"));
    assert_eq!(record(&daemon, &run).await.paused, None);
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    daemon.stop().await;
}

#[tokio::test]
async fn time_limit_stops_at_a_gate_and_in_a_pause() {
    const HOUR: Duration = Duration::from_secs(3600);
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    let definition = json!({
        "initial_state": "ask",
        "states": {
            "ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?", "answered_by": "anyone"}},
                    "transitions": [{"condition": "success", "next_state": "long"}]},
            "long": {"action": {"tool": "sleep", "params": {"seconds": 250}}, "timeout": 300},
        },
    });
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        execution_timeout: Some(200.0),
        wait_seconds: Some(60.0),
        ..RunWorkflow::default()
    };
    let started = daemon.call(verb).await;
    assert_eq!(started.status, "waiting", "{started:?}");
    let run = started.run_id;
    // Both longer than the time limit: first at the gate, then paused.
    clock.advance(HOUR);
    pause(&daemon, &run).await;
    let answer = AnswerGate { run_id: run.clone(), gate_id: None, answer: "yes".to_owned(), ..AnswerGate::default() };
    assert!(daemon.call(answer).await.success);
    clock.advance(HOUR);
    let daemon = daemon.restarted().await;
    assert_eq!(record(&daemon, &run).await.state, "running");
    resume(&daemon, &run).await;
    let limit = clock.now().after(Duration::from_secs(200));
    eventually("the rest of the limit is the whole limit", async || {
        if clock.sleepers().first() == Some(&limit) { Ok(()) } else { Err(clock.sleepers()) }
    })
    .await;
    clock.advance(Duration::from_secs(199));
    assert_eq!(record(&daemon, &run).await.state, "running");
    clock.advance(Duration::from_secs(1));
    let reply = wait_for_end(&daemon, &run).await;
    assert_eq!(reply.error.as_deref(), Some("Workflow execution timeout (200.0s) exceeded in state 'long'"));
    daemon.stop().await;
}

#[tokio::test]
async fn nested_run_pauses_with_its_parent_or_alone() {
    let daemon = TestDaemon::new().await;
    let run = daemon.begin(nesting_machine(&listening_machine())).await;
    let reported = wait_for_event(&daemon, &run, "nested_workflow_started", None).await;
    let inner = reported["child_run_id"].as_str().unwrap().to_owned();
    wait_for_event(&daemon, &inner, "state_entered", Some("wait")).await;
    pause(&daemon, &run).await;
    assert_eq!(wait_for_event(&daemon, &inner, "workflow_paused", None).await, json!({"by": "test"}));
    let daemon = daemon.restarted().await;
    assert!(record(&daemon, &inner).await.paused.is_some());
    resume(&daemon, &run).await;
    wait_for_event(&daemon, &inner, "workflow_resumed", None).await;

    // The parent waits for the directly paused run, and resuming the parent does not resume it.
    pause(&daemon, &inner).await;
    wait_for_event(&daemon, &run, "nested_workflow_waiting", None).await;
    assert_eq!(record(&daemon, &run).await.state, "waiting");
    pause(&daemon, &run).await;
    resume(&daemon, &run).await;
    type_line(&daemon, "echo go-on\n").await;
    wait_for_event(&daemon, &inner, "state_completed", Some("wait")).await;
    assert!(record(&daemon, &inner).await.paused.is_some());
    resume(&daemon, &inner).await;
    let reply = wait_for_end(&daemon, &run).await;
    assert_eq!(reply.status, "completed", "{:?}", reply.error);
    daemon.stop().await;
}
