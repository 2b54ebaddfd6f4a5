//! Events of runs as they happen.

use serde_json::{Value, json};

use crate::http::client::{Event, Serving, asking, resting};

#[test]
fn events_arrive_once_in_order_until_the_run_ends() {
    let serving = Serving::new();
    let run = serving.starts(&asking("anyone"));
    let mut events = serving.follow(&run, &[]);
    let mut seen: Vec<Event> = Vec::new();
    while seen.last().is_none_or(|event| event.kind != "gate_waiting") {
        seen.push(events.next().unwrap());
    }
    // The daemon is killed while the stream is open.
    serving.kill_daemon();
    // An answer is never sent twice, so one that falls into the gap would be reported as unknown.
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
    let (status, answered) = serving.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"}));
    assert_eq!(status, 200, "{answered}");
    seen.extend(events.rest());
    assert_eq!(seen[0].kind, "workflow_started");
    assert_eq!(seen.last().unwrap().kind, "workflow_completed");
    assert!(seen.is_sorted_by(|one, next| one.id < next.id), "{seen:?}");
    for event in &seen {
        assert_eq!((&event.data["seq"], &event.data["event_type"]), (&json!(event.id), &json!(event.kind)));
    }
    let other: Vec<Event> = serving.follow(&run, &[]).rest();
    assert_eq!(other, seen, "a late client sees the same");
}

#[test]
fn returning_client_continues_at_its_position() {
    let serving = Serving::new();
    let run = serving.starts(&resting(5, 0.0));
    assert_eq!(serving.wait_for(&run)["status"], "completed");
    let all = serving.follow(&run, &[]).rest();
    let middle = all[all.len() / 2].id;
    let rest = serving.follow(&run, &[("last-event-id", &middle.to_string())]).rest();
    assert_eq!(rest, all.iter().filter(|event| event.id > middle).cloned().collect::<Vec<_>>());
    let bearer = format!("Bearer {}", serving.token);
    let token = ("authorization", bearer.as_str());
    let last = all.last().unwrap().id.to_string();
    let ended = serving.send("GET", &format!("/events/workflow/{run}"), &[token, ("last-event-id", &last)], b"");
    assert_eq!(ended.status, 204, "so that browsers do not return");
    let wanted = |query: &str| serving.send("GET", &format!("/api/v1/runs/{run}/events{query}"), &[token], b"").status;
    assert_eq!((wanted("?from_seq=3"), wanted("?from_seq=x"), wanted("?from=3")), (200, 400, 400));
    let bad = serving.send("GET", &format!("/events/workflow/{run}"), &[token, ("last-event-id", "x")], b"");
    assert_eq!(bad.status, 400);
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
fn slow_reader_delays_nothing_and_misses_nothing() {
    let serving = Serving::new();
    std::fs::write(serving.home.path().join("chatty.py"), CHATTY).unwrap();
    let file = serving.home.path().join("chatty.py").display().to_string();
    let (status, loaded) = serving.post("/api/v1/functions", json!({"file": file}));
    assert_eq!(status, 200, "{loaded}");
    let (status, run) = serving.post("/api/v1/workflows/chatty/runs", json!({}));
    assert_eq!(status, 200, "{run}");
    let run = run["run_id"].as_str().unwrap();
    // This stream of seven megabytes is not read before the run has ended.
    let slow = serving.follow(run, &[]);
    let quick = serving.follow(run, &[]).rest();
    assert_eq!(serving.wait_for(run)["status"], "completed");
    let slow = slow.rest();
    let said = |events: &[Event]| -> Vec<Value> {
        events.iter().filter(|event| event.kind == "said").map(|event| event.data["data"]["number"].clone()).collect()
    };
    assert_eq!(said(&slow), (0..700).map(|number| json!(number)).collect::<Vec<_>>());
    assert_eq!(slow, quick);
}
