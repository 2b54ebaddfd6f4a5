//! Requests that every address refuses.

use std::io::{Read as _, Write as _};

use rustix::process::Signal;
use serde_json::json;
use steplatch_http::{MAX_BODY_BYTES, ROUTES};

use crate::http::client::{Response, Serving, asking, resting};

/// Returns every address, with values for its parameters, and whether it requires no token.
fn addresses() -> Vec<(&'static str, String, bool)> {
    let own = [
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
        ("GET", "/nowhere", false),
    ];
    let own = own.into_iter().map(|(method, path, open)| (method, path.to_owned(), open));
    let table = ROUTES.iter().map(|route| (route.method.name(), route.address(), false));
    own.chain(table)
        .map(|(method, path, open)| {
            let filled: Vec<&str> =
                path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
            (method, filled.join("/"), open)
        })
        .collect()
}

#[test]
fn every_address_refuses_unauthorised_requests() {
    let serving = Serving::new();
    let bearer = format!("Bearer {}", serving.token);
    let token = ("authorization", bearer.as_str());
    let addresses = addresses();
    assert!(addresses.len() > 45, "the table is walked");
    // The OpenAPI document lists all addresses except MCP's.
    let document = serving.get("/api/openapi.json").1;
    let documented: usize =
        document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(documented + 2, addresses.len());
    for (method, path, open) in addresses {
        let refused = |headers: &[(&str, &str)], wanted: u16, code: &str| {
            let response = serving.send(method, &path, headers, b"");
            assert_eq!(response.status, wanted, "{method} {path} {headers:?}");
            if wanted == 401 {
                assert!(response.header("www-authenticate").unwrap().starts_with("Bearer"), "{path}");
            }
            let reported = response.json();
            assert_eq!((&reported["success"], &reported["code"]), (&json!(false), &json!(code)), "{method} {path}");
            assert!(reported["error"].as_str().unwrap().len() > 20, "{reported}");
        };
        if !open {
            refused(&[], 401, "unauthorized");
            refused(&[("authorization", "Bearer slt_0123456789abcdef")], 401, "unauthorized");
            let in_query = serving.send(method, &format!("{path}?token={}", serving.token), &[], b"");
            assert_eq!(in_query.status, 401, "a token in an address does not count: {path}");
        }
        refused(&[token, ("origin", "https://evil.example")], 403, "forbidden_origin");
        refused(&[token, ("origin", "null")], 403, "forbidden_origin");
        refused(&[token, ("host", "evil.example")], 403, "forbidden_host");
        let length = (MAX_BODY_BYTES + 1).to_string();
        refused(&[token, ("content-type", "application/json"), ("content-length", &length)], 413, "payload_too_large");
    }
}

#[test]
fn body_without_a_length_is_read_only_up_to_the_limit() {
    let serving = Serving::new();
    let mut stream = serving.connect();
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nhost: localhost:{}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n",
        serving.port, serving.token
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
    assert_eq!(serving.get("/api/v1/runs").0, 200, "and other clients are answered");
}

#[test]
fn invalid_request_gets_a_readable_answer() {
    let serving = Serving::new();
    let bearer = format!("Bearer {}", serving.token);
    let with = |method: &str, path: &str, kind: &str, body: &str| {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let response = serving.send(method, path, &headers, body.as_bytes());
        let allow = response.header("allow").map(str::to_owned);
        (response.status, response.json()["code"].as_str().unwrap().to_owned(), allow)
    };
    let code = |method, path, kind, body| {
        let (status, code, _) = with(method, path, kind, body);
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
    let (status, _, allow) = with("PUT", runs, "application/json", "{}");
    let allow = allow.unwrap();
    assert!(status == 405 && allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[test]
fn permitted_page_may_ask_and_read_the_answer() {
    let serving = Serving::with(&["--allow-origin", "https://page.example", "--allow-host", "steplatch.example"]);
    let origin = ("origin", "https://page.example");
    let asks = [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization")];
    let response = serving.send("OPTIONS", "/api/v1/runs", &asks, b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (204, Some("https://page.example")));
    assert!(response.header("access-control-allow-headers").unwrap().contains("authorization"));
    let bearer = format!("Bearer {}", serving.token);
    let headers = [origin, ("authorization", bearer.as_str()), ("host", "steplatch.example")];
    let response = serving.send("GET", "/api/v1/runs", &headers, b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (200, Some("https://page.example")));
    let response = serving.send("OPTIONS", "/api/v1/runs", &[("origin", "https://evil.example"), asks[1]], b"");
    assert_eq!((response.status, response.header("access-control-allow-origin")), (403, None));
}

#[test]
fn server_logs_contain_no_token() {
    let mut serving = Serving::with_full_log();
    assert_eq!(serving.get("/api/v1/runs?limit=3").0, 200);
    let wrong = "Bearer slt_wrong_0123456789abcdef";
    assert_eq!(serving.send("GET", "/api/v1/runs", &[("authorization", wrong)], b"").status, 401);
    let bearer = format!("Bearer {}", serving.token);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    serving.send("POST", "/mcp", &headers, list.as_bytes());
    assert_eq!(serving.finish(Signal::TERM), Some(0));
    let log = std::fs::read_to_string(serving.home.path().join("log")).unwrap();
    assert!(log.contains("answered") && log.contains("/api/v1/runs"), "{log}");
    assert!(!log.contains("slt_"), "{log}");
}

#[test]
fn body_without_a_token_is_not_read() {
    let serving = Serving::new();
    for path in ["/health", "/api/openapi.json"] {
        assert_eq!(serving.send("GET", path, &[], b"{}").status, 401, "{path}");
        assert_eq!(serving.send("GET", path, &[], b"").status, 200, "{path}");
    }
}

#[test]
fn new_token_applies_at_once() {
    let mut serving = Serving::new();
    assert_eq!(serving.get("/api/v1/runs").0, 200);
    let new = serving.home.run(&["serve", "token", "--new", "--json"]).json();
    assert_eq!(serving.get("/api/v1/runs").0, 401);
    serving.token = new["token"].as_str().unwrap().to_owned();
    assert_eq!(serving.get("/api/v1/runs").0, 200);
    let reported = serving.home.run(&["serve", "token"]).expect_success();
    assert_eq!(reported.trim(), new["file"].as_str().unwrap());
    assert_eq!(serving.finish(Signal::TERM), Some(0));
}

#[test]
fn stream_of_an_old_token_ends_with_it() {
    // redteam L3: streams continued after the token was replaced.
    let serving = Serving::new();
    let run = serving.starts(&asking("human"));
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
    let events = serving.follow(&run, &[]);
    serving.home.run(&["serve", "token", "--new"]).expect_success();
    serving.home.answer_gate(&run, "yes").expect_success();
    let reported: Vec<String> = events.rest().into_iter().map(|event| event.kind).collect();
    assert!(!reported.iter().any(|reported| reported == "gate_answered"), "{reported:?}");
}

#[test]
fn environment_token_opens_the_server_and_no_terminal_sees_it() {
    let home = steplatch_testkit::Home::new(crate::http::client::STEPLATCH);
    let refused = home.steplatch().args(["serve"]).env("STEPLATCH_HTTP_TOKEN", "short").output().unwrap();
    let said = steplatch_testkit::CommandOutput::of(&refused);
    assert!(said.code == 2 && said.stderr.contains("STEPLATCH_HTTP_TOKEN must be"), "{}", said.stderr);
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
    let reported: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(reported["token"].is_null() && reported["token_file"].is_null() && !line.contains(token), "{line}");
    let port: u16 = reported["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let body = json!({"command": "env; tr '\\0' '\\n' < /proc/$PPID/environ"}).to_string();
    let head = format!(
        "POST /api/v1/commands HTTP/1.1\r\nhost: localhost:{port}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("STEPLATCH_STATE_DIR"), "{said}");
    assert!(!said.contains("STEPLATCH_HTTP_TOKEN"), "{said}");
}

#[test]
fn ending_the_server_ends_streams_but_not_runs() {
    let mut serving = Serving::new();
    let run = serving.starts(&resting(2, 300.0));
    let mut events = serving.follow(&run, &[]);
    assert_eq!(events.next().unwrap().kind, "workflow_started");
    assert_eq!(serving.finish(Signal::INT), Some(0));
    assert!(events.rest().iter().all(|event| event.kind == "state_entered"), "the stream ends, whole");
    let reported = serving.home.run(&["runs", "show", &run, "--json"]).json();
    assert_eq!(reported["status"].as_str().or(reported["state"].as_str()), Some("running"), "{reported}");
    serving.home.run(&["runs", "cancel", &run]).expect_success();
}
