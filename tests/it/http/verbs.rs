//! Verbs over HTTP: their parameters, their replies, and the meaning of each status.

use serde_json::{Value, json};

use crate::http::client::{Serving, asking, resting};

#[test]
fn workflow_is_saved_run_shown_and_removed() {
    let serving = Serving::new();
    let (status, saved) = serving.post("/api/v1/workflows", json!({"workflow_definition": resting(2, 0.0)}));
    assert_eq!((status, &saved["workflow_name"]), (200, &json!("resting")), "{saved}");
    let (status, again) = serving.post("/api/v1/workflows", json!({"workflow_definition": resting(3, 0.0)}));
    assert_eq!((status, &again["code"]), (409, &json!("conflict")), "{again}");
    let (status, wrong) = serving.post("/api/v1/workflows", json!({"workflow_definition": {"name": "x"}}));
    assert_eq!((status, &wrong["code"]), (422, &json!("refused")));
    assert!(!wrong["validation_errors"].as_array().unwrap().is_empty(), "{wrong}");

    let (status, listed) = serving.get("/api/v1/workflows?containing=rest&limit=5");
    assert_eq!((status, &listed["workflows"][0]["name"], &listed["total"]), (200, &json!("resting"), &json!(1)));
    let (status, shown) = serving.get("/api/v1/workflows/resting");
    assert_eq!((status, &shown["definition"]["initial_state"]), (200, &json!("s1")));

    let (status, run) = serving.post("/api/v1/workflows/resting/runs", json!({"input": {"a": 1}, "wait": true}));
    assert_eq!((status, &run["state"]), (200, &json!("completed")), "{run}");
    let id = run["run_id"].as_str().unwrap();
    let (status, record) = serving.get(&format!("/api/v1/runs/{id}/record"));
    assert_eq!((status, &record["run"]["workflow_id"]), (200, &json!("resting")));
    let (status, runs) = serving.get("/api/v1/runs?workflow_id=resting&state=completed");
    assert_eq!((status, runs["runs"].as_array().unwrap().len()), (200, 1));

    let (status, _) = serving.ask("DELETE", "/api/v1/workflows/resting", None);
    assert_eq!(status, 200);
    for (method, path) in [("DELETE", "/api/v1/workflows/resting"), ("GET", "/api/v1/workflows/resting")] {
        let (status, gone) = serving.ask(method, path, None);
        assert_eq!((status, &gone["success"], &gone["code"]), (404, &json!(false), &json!("not_found")), "{gone}");
    }
    let (status, gone) = serving.post("/api/v1/workflows/resting/runs", json!({}));
    assert_eq!((status, &gone["code"]), (404, &json!("not_found")), "{gone}");
}

#[test]
fn missing_things_differ_from_impossible_actions() {
    let serving = Serving::new();
    let status = |method: &str, path: &str, body: Value| serving.ask(method, path, Some(&body)).0;
    for (method, path, body) in [
        ("POST", "/api/v1/runs/run_x/cancel", json!({})),
        ("POST", "/api/v1/runs/run_x/pause", json!({})),
        ("POST", "/api/v1/runs/run_x/decide", json!({"answer": "yes"})),
        ("POST", "/api/v1/runs/run_x/gates/g", json!({"answer": "yes"})),
        ("POST", "/api/v1/terminals/term_x/input", json!({"input_text": "x"})),
        ("POST", "/api/v1/terminals/term_x/resize", json!({"cols": 80, "rows": 24})),
        ("POST", "/api/v1/nodes/nobody/run", json!({"input": 1})),
        ("POST", "/api/v1/graphs/nothing/run", json!({})),
        ("POST", "/api/v1/tools/workflow_nothing/call", json!({})),
        ("POST", "/api/v1/runs", json!({"workflow_name": "nothing"})),
        ("GET", "/api/v1/runs/run_x", Value::Null),
        ("GET", "/api/v1/runs/run_x/record", Value::Null),
        ("GET", "/api/v1/runs/run_x/events", Value::Null),
        ("GET", "/api/v1/terminals/term_x", Value::Null),
        ("GET", "/api/v1/terminals/term_x/variables?names=A", Value::Null),
        ("GET", "/api/v1/nodes/nobody", Value::Null),
        ("GET", "/api/v1/remotes/workflows/w/runs/run_x", Value::Null),
        ("DELETE", "/api/v1/terminals/term_x", Value::Null),
    ] {
        let (found, told) = match body {
            Value::Null => serving.ask(method, path, None),
            body => serving.ask(method, path, Some(&body)),
        };
        assert_eq!(
            (found, &told["success"], &told["code"]),
            (404, &json!(false), &json!("not_found")),
            "{path}: {told}"
        );
    }
    let run = serving.starts(&asking("anyone"));
    let waiting = serving.wait_for(&run);
    assert_eq!((&waiting["status"], &waiting["success"]), (&json!("waiting"), &json!(false)));
    let (found, told) = serving.get(&format!("/api/v1/runs/{run}"));
    assert_eq!(
        (found, &told["success"], &told["code"]),
        (200, &json!(false), &Value::Null),
        "a run that goes on is told"
    );
    assert!(told["next_step"].as_str().unwrap().contains("get_run"), "{told}");
    let run = serving.starts(&resting(1, 0.0));
    assert_eq!(serving.wait_for(&run)["status"], "completed");
    let path = |rest: &str| format!("/api/v1/runs/{run}/{rest}");
    assert_eq!(status("POST", &path("pause"), json!({})), 409, "the run has ended");
    assert_eq!(status("POST", &path("decide"), json!({"answer": "yes"})), 409, "it asks nothing");
    assert_eq!(status("POST", &path("cancel"), json!({})), 200, "which does no harm");
    let failing = json!({"name": "failing", "initial_state": "f", "states": {"f": {"action": {"tool": "fail", "params": {"message": "no"}}}}});
    let run = serving.starts(&failing);
    let (found, failed) = serving.get(&format!("/api/v1/runs/{run}?wait_seconds=30"));
    assert_eq!(
        (found, &failed["status"], &failed["success"]),
        (200, &json!("failed"), &json!(false)),
        "a run that failed is told"
    );
    assert!(failed["code"].is_null());
    assert_eq!(serving.get("/api/v1/runs?state=bogus").0, 422);
}

#[test]
fn named_request_is_performed_once() {
    let serving = Serving::new();
    let body = json!({"workflow_definition": resting(1, 0.0), "wait_seconds": 0, "save_on_success": false});
    let start =
        |key: &str, body: &Value| serving.asks_with("POST", "/api/v1/runs", &[("idempotency-key", key)], Some(body));
    let (first, second) = (start("deploy 7", &body), start("deploy 7", &body));
    assert_eq!((first.0, &first.1["run_id"]), (200, &second.1["run_id"]));
    assert_ne!(start("deploy 8", &body).1["run_id"], first.1["run_id"]);
    let other = json!({"workflow_definition": asking("anyone"), "wait_seconds": 0, "save_on_success": false});
    let (status, refused) = start("deploy 7", &other);
    assert_eq!(status, 409, "{refused}");
    let mut named = body.clone();
    named["idempotency_key"] = json!("another");
    assert_eq!(start("deploy 9", &named).0, 400);
    // A verb that does not store the key refuses it.
    let signal = json!({"signal": "INT"});
    let key = [("idempotency-key", "k")];
    assert_eq!(serving.asks_with("POST", "/api/v1/terminals/x/signal", &key, Some(&signal)).0, 400);
    assert_eq!(serving.asks_with("GET", "/api/v1/runs", &key, None).0, 200, "reading twice is reading");
}

#[test]
fn terminal_is_driven() {
    let serving = Serving::new();
    let (status, opened) = serving.post("/api/v1/terminals", json!({"shell": "bash", "name": "build"}));
    assert_eq!(status, 200, "{opened}");
    let (status, sent) = serving.post("/api/v1/terminals/build/input", json!({"input_text": "echo $((6*7))\n"}));
    assert_eq!(status, 200, "{sent}");
    let (status, seen) = serving.post("/api/v1/terminals/build/await", json!({"pattern": "^42$", "timeout": 20}));
    assert_eq!((status, &seen["match_text"]), (200, &json!("42")), "{seen}");
    let (status, run) = serving.post("/api/v1/terminals/build/command", json!({"command": "X=1; echo hi"}));
    assert_eq!((status, &run["output"], &run["exit_code"]), (200, &json!("hi\n"), &json!(0)), "{run}");
    let (status, told) = serving.get("/api/v1/terminals/build/variables?names=X&names=NOT_SET");
    assert_eq!(
        (status, &told["variables"]["X"]["value"], &told["variables"]["NOT_SET"]),
        (200, &json!("1"), &Value::Null),
        "{told}"
    );
    let set = serving.ask("PUT", "/api/v1/terminals/build/variables", Some(&json!({"variables": {"Y": "2"}})));
    assert_eq!(set.0, 200, "{}", set.1);
    let (status, screen) = serving.get("/api/v1/terminals/build?content_mode=tail&line_count=3");
    assert!(status == 200 && screen["screen_content"].as_str().unwrap().contains("hi"), "{screen}");
    assert_eq!(serving.get("/api/v1/terminals").1["total_sessions"], 1);
    assert_eq!(serving.ask("DELETE", "/api/v1/terminals/build?force=true", None).0, 200);
    assert_eq!(serving.get("/api/v1/terminals/build").0, 404);
}

#[test]
fn killed_daemon_goes_unnoticed() {
    let serving = Serving::new();
    let run = serving.starts(&asking("anyone"));
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
    serving.kill_daemon();
    let (status, told) = serving.get(&format!("/api/v1/runs/{run}"));
    assert_eq!((status, &told["status"]), (200, &json!("waiting")), "{told}");
    let (status, health) = serving.get("/health");
    assert_eq!(serving.get("/api/v1/status").1["success"], true);
    assert_eq!((status, &health["status"], &health["daemon"]["runs"]), (200, &json!("ok"), &json!(1)), "{health}");
    let open = serving.send("GET", "/health", &[], b"").json();
    assert_eq!(open, json!({"success": true, "status": "ok"}), "without the token there is nothing more to learn");
}

#[test]
fn metrics_are_available_to_monitors() {
    let serving = Serving::new();
    serving.get("/api/v1/runs");
    let bearer = format!("Bearer {}", serving.token);
    let response = serving.send("GET", "/metrics", &[("authorization", &bearer)], b"");
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = response.text();
    let has = |line: &str| text.lines().any(|known| known == line);
    assert!(has(r#"steplatch_http_requests_total{method="GET",route="/api/v1/runs",status="200"} 1"#), "{text}");
    assert!(has("steplatch_daemon_up 1") && has("# TYPE steplatch_http_connections gauge"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("steplatch_") && value.parse::<f64>().is_ok(), "{line}");
    }
}
