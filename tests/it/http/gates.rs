//! Answers to gates over HTTP, and the conditions for counting them as a person's.

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::http::client::{HttpServer, gate_workflow};

fn wait_for_gate_path(server: &HttpServer, run: &str) -> String {
    let waiting = server.wait_for_run(run);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let id = waiting["pending_gate"]["gate_id"].as_str().unwrap();
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("/api/v1/runs/{run}/gates/{}", id.bytes().map(escape).collect::<String>())
}

#[test]
fn token_holder_answers_questions_for_anyone() {
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("anyone"));
    let gate = wait_for_gate_path(&server, &run);
    let (status, refusal) = server.post(&gate, json!({"answer": "perhaps"}));
    assert_eq!((status, &refusal["misread"]), (422, &json!(true)), "{refusal}");
    assert_eq!(server.post(&gate, json!({"answer": "yes"})).0, 200);
    assert_eq!(server.wait_for_run(&run)["status"], "completed");
    let (status, late_reply) = server.post(&gate, json!({"answer": "no"}));
    assert_eq!((status, &late_reply["code"]), (409, &json!("conflict")), "{late_reply}");
}

#[test]
fn gate_for_people_requires_their_passphrase() {
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("human"));
    let gate = wait_for_gate_path(&server, &run);
    let answer = |passphrase: Value| {
        let mut body = json!({"answer": "yes"});
        if !passphrase.is_null() {
            body["passphrase"] = passphrase;
        }
        server.post(&gate, body)
    };
    let (status, refusal) = answer(Value::Null);
    assert_eq!(
        (status, &refusal["success"]),
        (409, &json!(false)),
        "the token alone does not prove a person: {refusal}"
    );
    assert_eq!(server.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"})).0, 409);
    let (status, refusal) = answer(json!("anything"));
    assert_eq!(status, 409, "no passphrase is set that could prove a person: {refusal}");

    let mut approver = server.home.steplatch();
    let mut approver =
        approver.args(["approver", "set", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    approver.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    assert!(approver.wait().unwrap().success());
    let (status, refusal) = answer(Value::Null);
    assert!(status == 409 || status == 403, "{refusal}");
    let (status, refusal) = answer(json!("battery staple"));
    assert_eq!((status, &refusal["code"]), (403, &json!("passphrase_wanted")), "{refusal}");
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    // A wrong passphrase delays the next one, by a second at first.
    let mut reply = answer(json!("correct horse"));
    while reply.0 == 403 && reply.1["retry_after_seconds"].is_u64() {
        reply = answer(json!("correct horse"));
    }
    assert_eq!(reply.0, 200, "{}", reply.1);
    assert_eq!(server.wait_for_run(&run)["status"], "completed");
    let event =
        server.follow(&run, &[]).collect_rest().into_iter().find(|event| event.kind == "gate_answered").unwrap();
    assert_eq!(event.data["data"]["through"], "http", "{event:?}");
}

/// An MCP client with dialogs. It answers each dialog itself.
const CLIENT: &str = r#"
import http.client, json, sys
port, token, run, source = sys.argv[1:]
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "somebody", "version": "1"}}
headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json",
           "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
           "Mcp-Method": "tools/call", "Mcp-Name": "get_run"}

def call(**more):
    params = {"name": "get_run", "arguments": {"run_id": run, "wait_seconds": 5}, "_meta": meta, **more}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    way = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60, source_address=(source, 0))
    way.request("POST", "/mcp", body, headers)
    text = way.getresponse().read().decode()
    lines = [line.removeprefix("data: ") for line in text.splitlines() if '"result"' in line]
    return json.loads(lines[-1])["result"]

asked = call()
key = next(iter(asked["inputRequests"]))
done = call(requestState=asked["requestState"], inputResponses={key: {"action": "accept", "content": {"decision": "yes"}}})
print("it", done["structuredContent"]["status"] + ":", done["structuredContent"].get("next_step", ""))
"#;

#[test]
fn http_dialog_is_trusted_unless_from_an_agent_terminal() {
    let server = HttpServer::new();
    let script = server.home.path().join("client.py");
    std::fs::write(&script, CLIENT).unwrap();
    let (port, script) = (server.port.to_string(), script.display().to_string());
    server.home.run(&["terminal", "open", "--name", "agent"]).expect_success();
    // redteam H4: from an address of this computer that is not the server's.
    let sources = ["127.0.0.1".to_owned(), "127.0.0.2".to_owned()].into_iter().chain(external_address());
    for source in sources {
        // A client is asked once about a gate.
        let run = server.start_run(&gate_workflow("human"));
        server.wait_for_run(&run);
        let command = format!("python3 {script} {port} {} {run} {source}", server.token);
        let terminal_output = server.home.run(&["terminal", "run", "agent", "sh", "-c", &command]);
        assert!(
            terminal_output.stdout.contains("it waiting:")
                && terminal_output.stdout.contains("a terminal that steplatch keeps"),
            "{source}: {terminal_output:?}"
        );
        assert_eq!(server.wait_for_run(&run)["status"], "waiting");
    }

    // A client outside of steplatch's terminals is trusted.
    let run = server.start_run(&gate_workflow("human"));
    server.wait_for_run(&run);
    let mut client = std::process::Command::new("python3");
    let output = client.args([&script, &port, &server.token, &run, "127.0.0.1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("it completed:"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns an address of this computer other than loopback, if there is one. Sends no packet.
fn external_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip().to_string())
}

#[test]
fn dialog_answered_by_a_node_does_not_count() {
    // redteam H5: a node of type http posted the answer of a dialog that was never shown.
    let server = HttpServer::new();
    let run = server.start_run(&gate_workflow("human"));
    server.wait_for_run(&run);
    let headers = json!({
        "Authorization": format!("Bearer {}", server.token),
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "get_run",
    });
    let url = format!("http://127.0.0.1:{}/mcp", server.port);
    let project_file = json!({"nodes": {"post": {"type": "http", "method": "POST", "url": url, "headers": headers, "body": "{input}"}}});
    std::fs::write(server.home.path().join("steplatch.json"), project_file.to_string()).unwrap();
    let post_call = |extra: Value| {
        let mut params = json!({
            "name": "get_run",
            "arguments": {"run_id": run, "wait_seconds": 1},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
                "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
            },
        });
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let reply = server.home.run(&["nodes", "run", "post", &body, "--json"]).json();
        assert_eq!(reply["success"], true, "{reply}");
        let text = reply["output"].as_str().unwrap().to_owned();
        let line = text.lines().rfind(|line| line.contains("\"result\"")).unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str::<Value>(line.trim_start_matches("data: ")).unwrap()["result"].take()
    };
    let mut result = post_call(json!({}));
    if let Some(requests) = result["inputRequests"].as_object() {
        let key = requests.keys().next().unwrap();
        let acceptance = json!({key: {"action": "accept", "content": {"decision": "yes"}}});
        result = post_call(json!({"requestState": result["requestState"], "inputResponses": acceptance}));
    }
    assert_eq!(result["structuredContent"]["status"], "waiting", "{result}");
    let next_step = result["structuredContent"]["next_step"].as_str().unwrap();
    assert!(next_step.contains("was started by steplatch"), "{next_step}");
    assert_eq!(server.wait_for_run(&run)["status"], "waiting");
}
