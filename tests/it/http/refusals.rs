//! Requests that every address refuses.

use std::io::{Read as _, Write as _};

use rustix::process::Signal;
use serde_json::json;
use steplatch_http::{MAX_BODY_BYTES, ROUTES};

use crate::http::client::{HttpServer, Response, gate_workflow, sleeping_workflow};

/// Returns every address with values for its parameters, and `true` if it requires no token.
fn addresses() -> Vec<(&'static str, String, bool)> {
    let fixed_routes = [
        ("GET", "/health", true),
        ("GET", "/api/openapi.json", true),
        ("GET", "/metrics", false),
        ("GET", "/events/workflow/{run_id}", false),
        ("GET", "/api/v1/runs/{run_id}/events", false),
        ("GET", "/api/v1/service/workflows/mcp", false),
        ("POST", "/api/v1/service/workflows/{id}/start", false),
        ("GET", "/api/v1/service/workflows/{id}/runs/{run_id}/status", false),
        ("POST", "/api/v1/service/workflows/{id}/runs/{run_id}/cancel", false),
        ("POST", "/mcp", false),
        ("POST", "/hooks/{name}", false),
        ("GET", "/nowhere", false),
    ];
    let fixed_routes = fixed_routes.into_iter().map(|(method, path, open)| (method, path.to_owned(), open));
    let table = ROUTES.iter().map(|route| (route.method.name(), route.address(), false));
    fixed_routes
        .chain(table)
        .map(|(method, path, open)| {
            let segments: Vec<&str> =
                path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
            (method, segments.join("/"), open)
        })
        .collect()
}

#[test]
fn every_address_refuses_unauthorised_requests() {
    let server = HttpServer::new();
    let bearer = format!("Bearer {}", server.token);
    let token = ("authorization", bearer.as_str());
    let addresses = addresses();
    assert!(addresses.len() > 45, "the route table is included");
    // The OpenAPI document lists all addresses except MCP's.
    let document = server.get("/api/openapi.json").1;
    let documented_count: usize =
        document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(documented_count + 2, addresses.len());
    for (method, path, open) in addresses {
        let check_refusal = |headers: &[(&str, &str)], expected: u16, code: &str| {
            let response = server.send(method, &path, headers, b"");
            assert_eq!(response.status, expected, "{method} {path} {headers:?}");
            if expected == 401 {
                assert!(response.header("www-authenticate").unwrap().starts_with("Bearer"), "{path}");
            }
            let body = response.json();
            assert_eq!((&body["success"], &body["code"]), (&json!(false), &json!(code)), "{method} {path}");
            assert!(body["error"].as_str().unwrap().len() > 20, "{body}");
        };
        if !open {
            check_refusal(&[], 401, "unauthorized");
            check_refusal(&[("authorization", "Bearer slt_0123456789abcdef")], 401, "unauthorized");
            let in_query = server.send(method, &format!("{path}?token={}", server.token), &[], b"");
            assert_eq!(in_query.status, 401, "a token in an address does not count: {path}");
        }
        check_refusal(&[token, ("origin", "https://evil.example")], 403, "forbidden_origin");
        check_refusal(&[token, ("origin", "null")], 403, "forbidden_origin");
        check_refusal(&[token, ("host", "evil.example")], 403, "forbidden_host");
        let length = (MAX_BODY_BYTES + 1).to_string();
        check_refusal(
            &[token, ("content-type", "application/json"), ("content-length", &length)],
            413,
            "payload_too_large",
        );
    }
}

#[test]
fn body_without_a_length_is_read_only_up_to_the_limit() {
    let server = HttpServer::new();
    let mut stream = server.connect();
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n",
        server.port, server.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    // More than the limit, without an end.
    let mut sent = 0;
    while sent <= MAX_BODY_BYTES + 2 * chunk.len() && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    let response = Response::read(stream);
    assert_eq!((response.status, response.header("connection")), (413, Some("close")));
    assert_eq!(server.get("/api/v1/runs").0, 200, "other clients are still answered");
}

#[test]
fn invalid_request_gets_a_readable_answer() {
    let server = HttpServer::new();
    let bearer = format!("Bearer {}", server.token);
    let send = |method: &str, path: &str, kind: &str, body: &str| {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let response = server.send(method, path, &headers, body.as_bytes());
        let allow = response.header("allow").map(str::to_owned);
        (response.status, response.json()["code"].as_str().unwrap().to_owned(), allow)
    };
    let code = |method, path, kind, body| {
        let (status, code, _) = send(method, path, kind, body);
        format!("{status} {code}")
    };
    let runs = "/api/v1/runs";
    assert_eq!(code("POST", runs, "application/json", "{"), "400 invalid_json");
    assert_eq!(code("POST", runs, "application/json", "[]"), "400 invalid_parameters");
    assert_eq!(code("POST", runs, "application/json", "{\"max_states\": \"many\"}"), "400 invalid_parameters");
    assert_eq!(code("POST", runs, "text/plain", "{}"), "415 unsupported_media_type");
    let deep = "[".repeat(100_000);
    assert_eq!(code("POST", runs, "application/json", &deep), "400 invalid_json");
    assert_eq!(code("GET", "/api/v1/runs?limit=-1", "", ""), "400 invalid_parameters");
    assert_eq!(code("GET", "/api/v1/runs?limit=1&limit=2", "", ""), "400 invalid_parameters");
    assert_eq!(code("GET", "/api/v1/runs?run=x", "", ""), "400 invalid_parameters");
    assert_eq!(code("GET", "/api/v1/runs/%ff", "", ""), "400 invalid_parameters");
    assert_eq!(code("POST", "/api/v1/runs?limit=1", "application/json", "{}"), "400 invalid_parameters");
    assert_eq!(code("GET", "/api/v2/runs", "", ""), "404 not_found");
    let (status, _, allow) = send("PUT", runs, "application/json", "{}");
    let allow = allow.unwrap();
    assert!(status == 405 && allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[test]
fn allowed_origin_may_send_requests_and_read_replies() {
    let server =
        HttpServer::with_arguments(&["--allow-origin", "https://page.example", "--allow-host", "steplatch.example"]);
    let origin = ("origin", "https://page.example");
    let preflight =
        [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")];
    let response = server.send("OPTIONS", "/api/v1/runs", &preflight, b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (204, Some("https://page.example")));
    assert!(response.header("access-control-allow-headers").unwrap().contains("authorization"));
    let bearer = format!("Bearer {}", server.token);
    let headers = [origin, ("authorization", bearer.as_str()), ("host", "steplatch.example")];
    let response = server.send("GET", "/api/v1/runs", &headers, b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, Some("https://page.example")));
    let response = server.send("OPTIONS", "/api/v1/runs", &[("origin", "https://evil.example"), preflight[1]], b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (403, None));
}

#[test]
fn server_logs_contain_no_token() {
    let mut server = HttpServer::with_full_log();
    assert_eq!(server.get("/api/v1/runs?limit=3").0, 200);
    let wrong_token = "Bearer slt_wrong_0123456789abcdef";
    assert_eq!(server.send("GET", "/api/v1/runs", &[("authorization", wrong_token)], b"").status, 401);
    let bearer = format!("Bearer {}", server.token);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    server.send("POST", "/mcp", &headers, ping.as_bytes());
    assert_eq!(server.stop(Signal::TERM), Some(0));
    let log = std::fs::read_to_string(server.home.path().join("log")).unwrap();
    assert!(log.contains("sent a response") && log.contains("/api/v1/runs"), "{log}");
    assert!(!log.contains("slt_"), "{log}");
}

#[test]
fn body_without_a_token_is_not_read() {
    let server = HttpServer::new();
    for path in ["/health", "/api/openapi.json"] {
        assert_eq!(server.send("GET", path, &[], b"{}").status, 401, "{path}");
        assert_eq!(server.send("GET", path, &[], b"").status, 200, "{path}");
    }
}

#[test]
fn new_token_applies_at_once() {
    let mut server = HttpServer::new();
    assert_eq!(server.get("/api/v1/runs").0, 200);
    let reply = server.home.run(&["serve", "token", "--new", "--json"]).json();
    assert_eq!(server.get("/api/v1/runs").0, 401);
    server.token = reply["token"].as_str().unwrap().to_owned();
    assert_eq!(server.get("/api/v1/runs").0, 200);
    let output = server.home.run(&["serve", "token"]).expect_success();
    assert_eq!(output.trim(), reply["file"].as_str().unwrap());
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn stream_of_an_old_token_ends_with_it() {
    // redteam L3: streams continued after the token was replaced.
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("human"));
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    let events = server.follow(&run, &[]);
    server.home.run(&["serve", "token", "--new"]).expect_success();
    server.home.answer_gate(&run, "yes").expect_success();
    let event_types: Vec<String> = events.collect_rest().into_iter().map(|event| event.kind).collect();
    assert!(!event_types.iter().any(|event_type| event_type == "gate_answered"), "{event_types:?}");
}

#[test]
fn environment_token_is_accepted_and_hidden_from_terminals() {
    let home = steplatch_testkit::Home::new(crate::http::client::STEPLATCH);
    let output = home.steplatch().args(["serve"]).env("STEPLATCH_HTTP_TOKEN", "short").output().unwrap();
    let output = steplatch_testkit::CommandOutput::from_process(&output);
    assert!(output.code == 2 && output.stderr.contains("STEPLATCH_HTTP_TOKEN must be"), "{}", output.stderr);
    let token = "a-token-of-the-environment";
    let mut process = home
        .steplatch()
        .args(["serve", "--port", "0", "--json"])
        .env("STEPLATCH_HTTP_TOKEN", token)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(process.stdout.take().unwrap()), &mut line).unwrap();
    let startup: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(startup["token"].is_null() && startup["token_file"].is_null() && !line.contains(token), "{line}");
    let port: u16 = startup["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let body = json!({"command": "env; tr '\\0' '\\n' < /proc/$PPID/environ"}).to_string();
    let head = format!(
        "POST /api/v1/commands HTTP/1.1\r\nhost: localhost:{port}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("STEPLATCH_STATE_DIR"), "{response}");
    assert!(!response.contains("STEPLATCH_HTTP_TOKEN"), "{response}");
}

#[test]
fn stopping_the_server_ends_streams_but_not_runs() {
    let mut server = HttpServer::new();
    let run = server.start_run(&sleeping_workflow(2, 300.0));
    let mut events = server.follow(&run, &[]);
    assert_eq!(events.next().unwrap().kind, "workflow_started");
    assert_eq!(server.stop(Signal::INT), Some(0));
    assert!(
        events.collect_rest().iter().all(|event| event.kind == "state_entered"),
        "the stream ends after a complete event"
    );
    let record = server.home.run(&["runs", "show", &run, "--json"]).json();
    assert_eq!(record["status"].as_str().or(record["state"].as_str()), Some("running"), "{record}");
    server.home.run(&["runs", "cancel", &run]).expect_success();
}
