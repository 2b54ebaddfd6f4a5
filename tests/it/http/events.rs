//! Events of runs as they happen.

use serde_json::{Value, json};

use crate::http::client::{Event, HttpServer, gate_workflow, sleeping_workflow};

#[test]
fn events_arrive_once_in_order_until_the_run_ends() {
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("anyone"));
    let mut events = server.follow(&run, &[]);
    let mut received: Vec<Event> = Vec::new();
    while received.last().is_none_or(|event| event.kind != "gate_waiting") {
        received.push(events.next().unwrap());
    }
    // The daemon is killed while the stream is open.
    server.kill_daemon();
    // An answer is never sent twice, so one that falls into the gap would be reported as unknown.
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    let (status, reply) = server.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"}));
    assert_eq!(status, 200, "{reply}");
    received.extend(events.collect_rest());
    assert_eq!(received[0].kind, "workflow_started");
    assert_eq!(received.last().unwrap().kind, "workflow_completed");
    assert!(received.is_sorted_by(|event, next| event.id < next.id), "{received:?}");
    for event in &received {
        assert_eq!((&event.data["seq"], &event.data["event_type"]), (&json!(event.id), &json!(event.kind)));
    }
    let late_events: Vec<Event> = server.follow(&run, &[]).collect_rest();
    assert_eq!(late_events, received, "a late client receives the same events");
}

#[test]
fn returning_client_continues_at_its_position() {
    let server = HttpServer::new();
    let run = server.start_run(&sleeping_workflow(5, 0.0));
    assert_eq!(server.wait_for_run(&run)["status"], "completed");
    let all_events = server.follow(&run, &[]).collect_rest();
    let middle = all_events[all_events.len() / 2].id;
    let remaining_events = server.follow(&run, &[("last-event-id", &middle.to_string())]).collect_rest();
    assert_eq!(remaining_events, all_events.iter().filter(|event| event.id > middle).cloned().collect::<Vec<_>>());
    let bearer = format!("Bearer {}", server.token);
    let token = ("authorization", bearer.as_str());
    let last = all_events.last().unwrap().id.to_string();
    let response = server.send("GET", &format!("/events/workflow/{run}"), &[token, ("last-event-id", &last)], b"");
    assert_eq!(response.status, 204, "status 204 stops browsers from reconnecting");
    let event_status =
        |query: &str| server.send("GET", &format!("/api/v1/runs/{run}/events{query}"), &[token], b"").status;
    assert_eq!((event_status("?from_seq=3"), event_status("?from_seq=x"), event_status("?from=3")), (200, 400, 400));
    let invalid = server.send("GET", &format!("/events/workflow/{run}"), &[token, ("last-event-id", "x")], b"");
    assert_eq!(invalid.status, 400);
}

/// A function that emits more events than all intermediate buffers hold.
const CHATTY: &str = r#"
async def chatty(ctx: WorkflowContext) -> str:
    """Says much."""
    for i in range(700):
        ctx.emit("said", {"number": i, "text": "x" * 10000})
        await ctx.sleep(0)
    return "done"

Workflow(id="chatty", session=session, fn=chatty)
"#;

#[test]
fn slow_reader_misses_no_event_and_delays_no_other() {
    let server = HttpServer::new();
    std::fs::write(server.home.path().join("chatty.py"), CHATTY).unwrap();
    let file = server.home.path().join("chatty.py").display().to_string();
    let (status, reply) = server.post("/api/v1/functions", json!({"file": file}));
    assert_eq!(status, 200, "{reply}");
    let (status, run) = server.post("/api/v1/workflows/chatty/runs", json!({}));
    assert_eq!(status, 200, "{run}");
    let run = run["run_id"].as_str().unwrap();
    // This stream of seven megabytes is not read before the run has finished.
    let slow_events = server.follow(run, &[]);
    let quick_events = server.follow(run, &[]).collect_rest();
    assert_eq!(server.wait_for_run(run)["status"], "completed");
    let slow_events = slow_events.collect_rest();
    let numbers = |events: &[Event]| -> Vec<Value> {
        events.iter().filter(|event| event.kind == "said").map(|event| event.data["data"]["number"].clone()).collect()
    };
    assert_eq!(numbers(&slow_events), (0..700).map(|number| json!(number)).collect::<Vec<_>>());
    assert_eq!(slow_events, quick_events);
}
