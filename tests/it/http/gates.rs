//! Answers to gates over HTTP, and whether they count as a person's.

use std::io::Write as _;
use std::net::UdpSocket;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::http::client::{Serving, asking};

fn gate(serving: &Serving, run: &str) -> String {
    let waiting = serving.wait_for(run);
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
    let serving = Serving::new();
    let run = serving.starts(&asking("anyone"));
    let gate = gate(&serving, &run);
    let (status, wrong) = serving.post(&gate, json!({"answer": "perhaps"}));
    assert_eq!((status, &wrong["misread"]), (422, &json!(true)), "{wrong}");
    assert_eq!(serving.post(&gate, json!({"answer": "yes"})).0, 200);
    assert_eq!(serving.wait_for(&run)["status"], "completed");
    let (status, late) = serving.post(&gate, json!({"answer": "no"}));
    assert_eq!((status, &late["code"]), (409, &json!("conflict")), "{late}");
}

#[test]
fn gate_for_people_requires_their_passphrase() {
    let serving = Serving::new();
    let run = serving.starts(&asking("human"));
    let gate = gate(&serving, &run);
    let answer = |passphrase: Value| {
        let mut body = json!({"answer": "yes"});
        if !passphrase.is_null() {
            body["passphrase"] = passphrase;
        }
        serving.post(&gate, body)
    };
    let (status, refused) = answer(Value::Null);
    assert_eq!((status, &refused["success"]), (409, &json!(false)), "the token alone is a program's: {refused}");
    assert_eq!(serving.post(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"})).0, 409);
    let (status, refused) = answer(json!("anything"));
    assert_eq!(status, 409, "where none is set, none makes a person: {refused}");

    let mut set = serving.home.steplatch();
    let mut set = set.args(["approver", "set", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    set.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    assert!(set.wait().unwrap().success());
    let (status, refused) = answer(Value::Null);
    assert!(status == 409 || status == 403, "{refused}");
    let (status, refused) = answer(json!("battery staple"));
    assert_eq!((status, &refused["code"]), (403, &json!("passphrase_wanted")), "{refused}");
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
    // A wrong passphrase delays the next one, by a second at first.
    let mut taken = answer(json!("correct horse"));
    while taken.0 == 403 && taken.1["retry_after_seconds"].is_u64() {
        taken = answer(json!("correct horse"));
    }
    assert_eq!(taken.0, 200, "{}", taken.1);
    assert_eq!(serving.wait_for(&run)["status"], "completed");
    let answered = serving.follow(&run, &[]).rest().into_iter().find(|event| event.kind == "gate_answered").unwrap();
    assert_eq!(answered.data["data"]["through"], "http", "{answered:?}");
}

/// An MCP client with dialogs that it answers itself.
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
fn http_dialog_is_trusted_unless_from_a_held_terminal() {
    let serving = Serving::new();
    let script = serving.home.path().join("client.py");
    std::fs::write(&script, CLIENT).unwrap();
    let (port, script) = (serving.port.to_string(), script.display().to_string());
    serving.home.run(&["terminal", "open", "--name", "agent"]).expect_success();
    // redteam H4: from an address of this machine that is not the server's.
    let sources = ["127.0.0.1".to_owned(), "127.0.0.2".to_owned()].into_iter().chain(own_address());
    for source in sources {
        // A client is asked once about a gate.
        let run = serving.starts(&asking("human"));
        serving.wait_for(&run);
        let typed = format!("python3 {script} {port} {} {run} {source}", serving.token);
        let inside = serving.home.run(&["terminal", "run", "agent", "sh", "-c", &typed]);
        assert!(
            inside.stdout.contains("it waiting:") && inside.stdout.contains("a terminal that steplatch keeps"),
            "{source}: {inside:?}"
        );
        assert_eq!(serving.wait_for(&run)["status"], "waiting");
    }

    // A client outside of steplatch's terminals is trusted.
    let run = serving.starts(&asking("human"));
    serving.wait_for(&run);
    let mut outside = std::process::Command::new("python3");
    let said = outside.args([&script, &port, &serving.token, &run, "127.0.0.1"]).output().unwrap();
    let reported = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(reported.contains("it completed:"), "{reported}{}", String::from_utf8_lossy(&said.stderr));
}

/// Returns an address of this machine other than loopback, if there is one. Sends no packet.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip().to_string())
}

#[test]
fn daemon_itself_cannot_show_a_person_a_dialog() {
    // redteam H5: a node of type http posted the answer of a dialog that was never shown.
    let serving = Serving::new();
    let run = serving.starts(&asking("human"));
    serving.wait_for(&run);
    let headers = json!({
        "Authorization": format!("Bearer {}", serving.token),
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "get_run",
    });
    let url = format!("http://127.0.0.1:{}/mcp", serving.port);
    let declared = json!({"nodes": {"post": {"type": "http", "method": "POST", "url": url, "headers": headers, "body": "{input}"}}});
    std::fs::write(serving.home.path().join("steplatch.json"), declared.to_string()).unwrap();
    let posts = |more: Value| {
        let mut params = json!({
            "name": "get_run",
            "arguments": {"run_id": run, "wait_seconds": 1},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
                "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
            },
        });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let called = serving.home.run(&["nodes", "run", "post", &body, "--json"]).json();
        assert_eq!(called["success"], true, "{called}");
        let text = called["output"].as_str().unwrap().to_owned();
        let line = text.lines().rfind(|line| line.contains("\"result\"")).unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str::<Value>(line.trim_start_matches("data: ")).unwrap()["result"].take()
    };
    let mut result = posts(json!({}));
    if let Some(requests) = result["inputRequests"].as_object() {
        let key = requests.keys().next().unwrap();
        let accepted = json!({key: {"action": "accept", "content": {"decision": "yes"}}});
        result = posts(json!({"requestState": result["requestState"], "inputResponses": accepted}));
    }
    assert_eq!(result["structuredContent"]["status"], "waiting", "{result}");
    let next_step = result["structuredContent"]["next_step"].as_str().unwrap();
    assert!(next_step.contains("was started by steplatch"), "{next_step}");
    assert_eq!(serving.wait_for(&run)["status"], "waiting");
}
