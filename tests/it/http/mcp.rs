//! MCP over HTTP, protected by the same checks as every other address.

use serde_json::{Value, json};

use crate::http::client::{HttpServer, STEPLATCH};

/// Sends a request of 2026-07-28 and returns the status and the response message.
fn send_request(
    server: &HttpServer,
    token: Option<&str>,
    method: &str,
    name: Option<&str>,
    mut params: Value,
) -> (u16, Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    headers.extend(name.map(|name| ("mcp-name", name)));
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let response = server.send("POST", "/mcp", &headers, body.as_bytes());
    let status = response.status;
    let text = response.text();
    // The answer is the body, or the data of an event in it.
    let message = text.lines().find_map(|line| {
        let line = line.strip_prefix("data: ").unwrap_or(line);
        serde_json::from_str(line.trim()).ok().filter(Value::is_object)
    });
    (status, message.unwrap_or_else(|| panic!("no answer: {status} {text}")))
}

#[test]
fn tools_require_the_token() {
    for server in [HttpServer::new(), HttpServer::mcp_only()] {
        let token = Some(server.token.as_str());
        let (status, list) = send_request(&server, token, "tools/list", None, json!({}));
        assert_eq!(status, 200, "{list}");
        assert!(list["result"]["tools"].as_array().unwrap().len() > 10, "{list}");
        let call = json!({"name": "run_command", "arguments": {"command": "echo $((6*7))"}});
        let (status, reply) = send_request(&server, token, "tools/call", Some("run_command"), call.clone());
        assert_eq!((status, &reply["result"]["structuredContent"]["output"]), (200, &json!("42\n")), "{reply}");
        let (status, refusal) = send_request(&server, None, "tools/call", Some("run_command"), call);
        assert_eq!((status, &refusal["code"]), (401, &json!("unauthorized")));
    }
}

#[test]
fn mcp_only_server_offers_nothing_else() {
    let server = HttpServer::mcp_only();
    for path in ["/api/v1/runs", "/metrics", "/events/workflow/x"] {
        assert_eq!(server.get(path).0, 404, "{path}");
        assert_eq!(server.send("GET", path, &[], b"").status, 401, "{path}");
    }
    let home = steplatch_testkit::Home::new(STEPLATCH);
    let output = home.run(&["mcp", "--port", "1"]);
    assert!(output.code == 2 && output.stderr.contains("--http"), "{}", output.stderr);
}
