//! Verbs over HTTP: their parameters, their replies, and the meaning of each status.

use serde_json::{Value, json};

use crate::http::client::{HttpServer, gate_workflow, sleeping_workflow};

#[test]
fn workflow_is_saved_run_shown_and_removed() {
    let server = HttpServer::new();
    let (status, reply) = server.post("/api/v1/workflows", json!({"workflow_definition": sleeping_workflow(2, 0.0)}));
    assert_eq!((status, &reply["workflow_name"]), (200, &json!("resting")), "{reply}");
    let (status, conflict) =
        server.post("/api/v1/workflows", json!({"workflow_definition": sleeping_workflow(3, 0.0)}));
    assert_eq!((status, &conflict["code"]), (409, &json!("conflict")), "{conflict}");
    let (status, invalid) = server.post("/api/v1/workflows", json!({"workflow_definition": {"name": "x"}}));
    assert_eq!((status, &invalid["code"]), (422, &json!("refused")));
    assert!(!invalid["validation_errors"].as_array().unwrap().is_empty(), "{invalid}");

    let (status, list) = server.get("/api/v1/workflows?containing=rest&limit=5");
    assert_eq!((status, &list["workflows"][0]["name"], &list["total"]), (200, &json!("resting"), &json!(1)));
    let (status, description) = server.get("/api/v1/workflows/resting");
    assert_eq!((status, &description["definition"]["initial_state"]), (200, &json!("s1")));

    let (status, run) = server.post("/api/v1/workflows/resting/runs", json!({"input": {"a": 1}, "wait": true}));
    assert_eq!((status, &run["state"]), (200, &json!("completed")), "{run}");
    let id = run["run_id"].as_str().unwrap();
    let (status, record) = server.get(&format!("/api/v1/runs/{id}/record"));
    assert_eq!((status, &record["run"]["workflow_id"]), (200, &json!("resting")));
    let (status, runs) = server.get("/api/v1/runs?workflow_id=resting&state=completed");
    assert_eq!((status, runs["runs"].as_array().unwrap().len()), (200, 1));

    let (status, _) = server.request("DELETE", "/api/v1/workflows/resting", None);
    assert_eq!(status, 200);
    for (method, path) in [("DELETE", "/api/v1/workflows/resting"), ("GET", "/api/v1/workflows/resting")] {
        let (status, missing) = server.request(method, path, None);
        assert_eq!(
            (status, &missing["success"], &missing["code"]),
            (404, &json!(false), &json!("not_found")),
            "{missing}"
        );
    }
    let (status, missing) = server.post("/api/v1/workflows/resting/runs", json!({}));
    assert_eq!((status, &missing["code"]), (404, &json!("not_found")), "{missing}");
}

#[test]
fn missing_resources_and_conflicts_have_different_statuses() {
    let server = HttpServer::new();
    let status = |method: &str, path: &str, body: Value| server.request(method, path, Some(&body)).0;
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
        let (found, reply) = match body {
            Value::Null => server.request(method, path, None),
            body => server.request(method, path, Some(&body)),
        };
        assert_eq!(
            (found, &reply["success"], &reply["code"]),
            (404, &json!(false), &json!("not_found")),
            "{path}: {reply}"
        );
    }
    let run = server.start_run(&gate_workflow("anyone"));
    let waiting = server.wait_for_run(&run);
    assert_eq!((&waiting["status"], &waiting["success"]), (&json!("waiting"), &json!(false)));
    let (found, reply) = server.get(&format!("/api/v1/runs/{run}"));
    assert_eq!(
        (found, &reply["success"], &reply["code"]),
        (200, &json!(false), &Value::Null),
        "a request for an unfinished run succeeds"
    );
    assert!(reply["next_step"].as_str().unwrap().contains("get_run"), "{reply}");
    let run = server.start_run(&sleeping_workflow(1, 0.0));
    assert_eq!(server.wait_for_run(&run)["status"], "completed");
    let path = |rest: &str| format!("/api/v1/runs/{run}/{rest}");
    assert_eq!(status("POST", &path("pause"), json!({})), 409, "the run has ended");
    assert_eq!(status("POST", &path("decide"), json!({"answer": "yes"})), 409, "the run has no open gate");
    assert_eq!(status("POST", &path("cancel"), json!({})), 200, "cancelling a finished run has no effect");
    let failing = json!({"name": "failing", "initial_state": "f", "states": {"f": {"action": {"tool": "fail", "params": {"message": "no"}}}}});
    let run = server.start_run(&failing);
    let (found, failed) = server.get(&format!("/api/v1/runs/{run}?wait_seconds=30"));
    assert_eq!(
        (found, &failed["status"], &failed["success"]),
        (200, &json!("failed"), &json!(false)),
        "a request for a failed run succeeds"
    );
    assert!(failed["code"].is_null());
    assert_eq!(server.get("/api/v1/runs?state=bogus").0, 422);
}

#[test]
fn request_with_a_key_is_performed_once() {
    let server = HttpServer::new();
    let body = json!({"workflow_definition": sleeping_workflow(1, 0.0), "wait_seconds": 0, "save_on_success": false});
    let start =
        |key: &str, body: &Value| server.request_with("POST", "/api/v1/runs", &[("idempotency-key", key)], Some(body));
    let (first, second) = (start("deploy 7", &body), start("deploy 7", &body));
    assert_eq!((first.0, &first.1["run_id"]), (200, &second.1["run_id"]));
    assert_ne!(start("deploy 8", &body).1["run_id"], first.1["run_id"]);
    let other_arguments =
        json!({"workflow_definition": gate_workflow("anyone"), "wait_seconds": 0, "save_on_success": false});
    let (status, refusal) = start("deploy 7", &other_arguments);
    assert_eq!(status, 409, "{refusal}");
    let mut body_with_key = body.clone();
    body_with_key["idempotency_key"] = json!("another");
    assert_eq!(start("deploy 9", &body_with_key).0, 400);
    // A verb that does not store the key refuses it.
    let signal = json!({"signal": "INT"});
    let key = [("idempotency-key", "k")];
    assert_eq!(server.request_with("POST", "/api/v1/terminals/x/signal", &key, Some(&signal)).0, 400);
    assert_eq!(server.request_with("GET", "/api/v1/runs", &key, None).0, 200, "a read ignores the key");
}

#[test]
fn terminal_is_opened_used_and_closed() {
    let server = HttpServer::new();
    let (status, reply) = server.post("/api/v1/terminals", json!({"shell": "bash", "name": "build"}));
    assert_eq!(status, 200, "{reply}");
    let (status, reply) = server.post("/api/v1/terminals/build/input", json!({"input_text": "echo $((6*7))\n"}));
    assert_eq!(status, 200, "{reply}");
    let (status, reply) = server.post("/api/v1/terminals/build/await", json!({"pattern": "^42$", "timeout": 20}));
    assert_eq!((status, &reply["match_text"]), (200, &json!("42")), "{reply}");
    let (status, run) = server.post("/api/v1/terminals/build/command", json!({"command": "X=1; echo hi"}));
    assert_eq!((status, &run["output"], &run["exit_code"]), (200, &json!("hi\n"), &json!(0)), "{run}");
    let (status, reply) = server.get("/api/v1/terminals/build/variables?names=X&names=NOT_SET");
    assert_eq!(
        (status, &reply["variables"]["X"]["value"], &reply["variables"]["NOT_SET"]),
        (200, &json!("1"), &Value::Null),
        "{reply}"
    );
    let update = server.request("PUT", "/api/v1/terminals/build/variables", Some(&json!({"variables": {"Y": "2"}})));
    assert_eq!(update.0, 200, "{}", update.1);
    let (status, screen) = server.get("/api/v1/terminals/build?content_mode=tail&line_count=3");
    assert!(status == 200 && screen["screen_content"].as_str().unwrap().contains("hi"), "{screen}");
    assert_eq!(server.get("/api/v1/terminals").1["total_sessions"], 1);
    assert_eq!(server.request("DELETE", "/api/v1/terminals/build?force=true", None).0, 200);
    assert_eq!(server.get("/api/v1/terminals/build").0, 404);
}

#[test]
fn requests_succeed_after_a_daemon_crash() {
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("anyone"));
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    server.kill_daemon();
    let (status, reply) = server.get(&format!("/api/v1/runs/{run}"));
    assert_eq!((status, &reply["status"]), (200, &json!("waiting")), "{reply}");
    let (status, health) = server.get("/health");
    assert_eq!(server.get("/api/v1/status").1["success"], true);
    assert_eq!((status, &health["status"], &health["daemon"]["runs"]), (200, &json!("ok"), &json!(1)), "{health}");
    let public_health = server.send("GET", "/health", &[], b"").json();
    assert_eq!(
        public_health,
        json!({"success": true, "status": "ok"}),
        "without the token, only the status is reported"
    );
}

#[test]
fn metrics_use_prometheus_text_format() {
    let server = HttpServer::new();
    server.get("/api/v1/runs");
    let bearer = format!("Bearer {}", server.token);
    let response = server.send("GET", "/metrics", &[("authorization", &bearer)], b"");
    assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = response.text();
    let has_line = |line: &str| text.lines().any(|candidate| candidate == line);
    assert!(has_line(r#"steplatch_http_requests_total{method="GET",route="/api/v1/runs",status="200"} 1"#), "{text}");
    assert!(has_line("steplatch_daemon_up 1") && has_line("# TYPE steplatch_http_connections gauge"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("steplatch_") && value.parse::<f64>().is_ok(), "{line}");
    }
}
