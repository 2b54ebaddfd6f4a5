//! The real program over HTTP, with MCP clients and the public test suite.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home, eventually_blocking};

use crate::clients;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A token that an operator might choose.
const TOKEN: &str = "a-token-that-only-this-test-knows-0123456789";

/// `steplatch mcp --http` in its own home, and a proxy that adds the token.
struct McpServer {
    program: Child,
    address: SocketAddr,
    home: Home,
}

impl McpServer {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let mut program = home
            .steplatch()
            .args(["mcp", "--http", "--port", "0", "--json"])
            .env("STEPLATCH_HTTP_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let startup: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let port = startup["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        let address = clients::token_proxy::start_proxy(SocketAddr::from(([127, 0, 0, 1], port)), TOKEN);
        Self { program, address, home }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Sends a request of 2026-07-28 and returns the connection of the response.
    fn send_request(&self, method: &str, name: Option<&str>, mut params: Value) -> TcpStream {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "progressToken": "how far",
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(self.address).unwrap();
        let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let address = self.address;
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    fn call_tool(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = read_last_message(self.send_request("tools/call", Some(tool), params));
        answer["result"]["structuredContent"].clone()
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

/// Returns the last message before the connection ends.
fn read_last_message(mut stream: TcpStream) -> Value {
    let mut output = String::new();
    stream.read_to_string(&mut output).unwrap();
    let message = output.lines().rev().find_map(|line| line.trim_start_matches("data: ").find('{').map(|_| line));
    let message = message.unwrap_or_else(|| panic!("no message: {output}"));
    serde_json::from_str(message.trim_start_matches("data: ")).unwrap_or_else(|error| panic!("{error}: {output}"))
}

fn run_story(script: &str, mode: &str) {
    let server = McpServer::new();
    clients::run_client_script(&server.home, "mcp-2", script, &[mode, &server.url()]);
}

#[test]
fn current_client_drives_a_terminal() {
    run_story("modern.py", "auto");
}

#[test]
fn current_client_with_handshake_drives_a_terminal() {
    run_story("modern.py", "legacy");
}

#[test]
fn current_client_asks_its_person() {
    run_story("people.py", "auto");
}

#[test]
fn current_client_with_handshake_asks_its_person() {
    run_story("people.py", "legacy");
}

#[test]
fn current_client_reads_resources_and_prompts() {
    run_story("offers.py", "auto");
}

#[test]
fn current_client_with_handshake_reads_resources_and_prompts() {
    run_story("offers.py", "legacy");
}

#[test]
fn inspector_has_no_complaints_in_either_era() {
    let server = McpServer::new();
    for era in ["modern", "legacy"] {
        let url = server.url();
        let server_arguments = ["--transport", "http", "--server-url", &url];
        let tools =
            clients::inspect_server(&server.home, &server_arguments, era, &["--method", "tools/list", "--strict"]);
        assert!(tools["tools"].as_array().unwrap().len() > 10);
        let list = ["--method", "tools/call", "--tool-name", "list_terminal_sessions"];
        let reply = clients::inspect_server(&server.home, &server_arguments, era, &list);
        assert_eq!(reply["structuredContent"]["sessions"], json!([]), "{reply}");
    }
}

/// The scenarios of the suite that need no special support, by revision.
const SCENARIOS: [(&str, &[&str]); 3] = [
    (
        "2026-07-28",
        &[
            "completion-complete",
            "tools-list",
            "server-sse-multiple-streams",
            "resources-list",
            "sep-2164-resource-not-found",
            "prompts-list",
            "dns-rebinding-protection",
            "caching",
            "input-required-result-unsupported-methods",
            "http-header-validation",
        ],
    ),
    (
        "2025-11-25",
        &[
            "server-initialize",
            "server-session-lifecycle",
            "ping",
            "completion-complete",
            "tools-list",
            "server-sse-multiple-streams",
            "resources-list",
            "prompts-list",
            "dns-rebinding-protection",
        ],
    ),
    (
        "2025-06-18",
        &["server-initialize", "server-session-lifecycle", "ping", "tools-list", "resources-list", "prompts-list"],
    ),
];

#[test]
fn public_conformance_suite_passes() {
    let server = McpServer::new();
    let suite =
        clients::installed_path(Path::new("mcp-suite/node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    for (revision, scenarios) in SCENARIOS {
        for scenario in scenarios {
            let mut node = clients::node(&server.home);
            node.arg(&suite).args(["server", "--url", &server.url(), "--spec-version", revision]);
            node.args(["--scenario", scenario, "-o"]).arg(server.home.path().join("results")).stdin(Stdio::null());
            let output = CommandOutput::from_process(&node.output().unwrap());
            let report = format!("{scenario} of {revision}:\n{}{}", output.stdout, output.stderr);
            assert_eq!(output.code, 0, "{report}");
            let passed = output.stdout.lines().find_map(|line| line.strip_prefix("Passed: ")).expect(&report);
            assert!(passed.contains(", 0 failed, 0 warnings") && !passed.starts_with('0'), "{report}");
        }
    }
}

#[test]
fn call_with_a_lost_connection_does_not_affect_its_run() {
    let server = McpServer::new();
    let machine = json!({"name": "waiting", "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {}}, "transitions": [
            {"condition": "success", "next_state": "wait"}]},
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "^go on", "timeout": 600}}}}});
    let call = json!({"name": "run_workflow", "arguments": {
        "workflow_definition": machine, "wait_seconds": 600, "save_on_success": false}});
    let answer = server.send_request("tools/call", Some("run_workflow"), call);
    let mut lines = BufReader::new(answer).lines();
    // Progress is sent only during the call.
    let progress = lines.find(|line| line.as_ref().unwrap().contains("notifications/progress")).unwrap().unwrap();
    assert!(progress.contains("state "), "{progress}");
    drop(lines);
    let runs = server.call_tool("list_runs", &json!({}))["runs"].clone();
    let run = runs[0]["run_id"].as_str().unwrap();
    assert_eq!(runs[0]["state"], "running", "{runs}");
    // The first progress may come before the terminal.
    let terminal = eventually_blocking("the terminal is open", || {
        let list = server.call_tool("list_terminal_sessions", &json!({}));
        Some(list["sessions"][0]["session_id"].clone()).filter(Value::is_string)
    });
    let input = json!({"session_id": terminal, "input_text": "printf 'go %s' on\n"});
    assert_eq!(server.call_tool("send_input", &input)["success"], true);
    let outcome = server.call_tool("get_run", &json!({"run_id": run, "wait_seconds": 20}));
    assert_eq!(outcome["status"], "completed", "{outcome}");
}
