//! MCP nodes with an independent server: the protocol authors' test server for clients.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::node;
use serde_json::{Value, json};
use steplatch_nodes::{Call, ErrorType, NodeEnvironment, Nodes};
use steplatch_patience::{eventually, free_port};

fn nodes() -> Nodes {
    let secrets = BTreeMap::from([("KEY".to_owned(), "hunter22".to_owned())]);
    let node_environment =
        NodeEnvironment { secrets: Arc::new(secrets), ..NodeEnvironment::of_this_process().unwrap() };
    Nodes::new(node_environment)
}

/// Returns the server's program, in the target directory like this test program.
fn everything_server() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = "mcp-server/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let found = exe.ancestors().map(|directory| directory.join(path)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no MCP server is installed; run cargo xtask test, which installs it"))
}

/// A server that appends its process id to `file` at each start.
fn server(file: &Path) -> Value {
    let script = "echo $$ >> \"$1\"; exec node \"$2\" stdio";
    json!({"command": "sh", "args": ["-c", script, "sh", file, everything_server()], "env": {"WITH_KEY": "{secret:KEY}"}})
}

fn pids(file: &Path) -> Vec<i32> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(|line| line.parse().unwrap()).collect()
}

fn is_running(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/status")).exists()
        && !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") Z ")
}

async fn wait_for_end(pid: i32) {
    eventually(&format!("process {pid} ends"), async || !is_running(pid)).await;
}

#[tokio::test]
async fn tool_is_called_with_declared_arguments_or_the_input() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let nodes = nodes();
    let declared = node(json!({"id": "sum", "type": "mcp", "server": server(&file), "tool": "get-sum",
        "args": {"a": "{input}", "b": 2}}));
    let result = nodes.run(&declared, Call::new(40)).await;
    assert!(result.success, "{result:?}");
    assert_eq!(result.output, "The sum of 40 and 2 is 42.");
    assert_eq!(result.attributes["args"], json!({"a": 40, "b": 2}));

    let echo = node(json!({"id": "echo", "type": "mcp", "server": server(&file), "tool": "echo"}));
    let result = nodes.run(&echo, Call::new(json!({"message": "hi"}))).await;
    assert_eq!(result.output, "Echo: hi");

    let any = node(json!({"id": "any", "type": "mcp", "server": server(&file)}));
    let request = json!({"tool": "get-structured-content", "args": {"location": "New York"}});
    let result = nodes.run(&any, Call::new(request)).await;
    assert!(result.output["temperature"].is_number(), "{result:?}");

    let result = nodes.run(&any, Call::new(json!({"tool": "get-env"}))).await;
    let text = result.output.as_str().unwrap();
    assert!(text.contains("\"WITH_KEY\": \"••••••\"") && !text.contains("hunter22"), "{text}");
    assert_eq!(pids(&file).len(), 1, "equal declarations share a server");
    nodes.close().await;
    assert!(!is_running(pids(&file)[0]));
}

#[tokio::test]
async fn refusal_by_a_server_is_a_failure_of_the_tool() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = nodes();
    let any = node(json!({"id": "any", "type": "mcp", "server": server(&directory.path().join("pids"))}));
    for (input, kind) in [
        (json!({"tool": "no-such-tool"}), ErrorType::Tool),
        (json!({"tool": "get-sum", "args": {"a": "x"}}), ErrorType::Tool),
        (json!({"tool": "get-sum", "args": [1]}), ErrorType::InvalidInput),
        (json!("get-sum"), ErrorType::InvalidInput),
    ] {
        let result = nodes.run(&any, Call::new(input.clone())).await;
        assert_eq!((result.success, result.error_type), (false, Some(kind)), "{input}: {result:?}");
        assert!(!result.error.unwrap().is_empty());
    }
    nodes.close().await;
}

#[tokio::test]
async fn ended_server_is_restarted_and_its_call_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let nodes = nodes();
    let any = node(json!({"id": "any", "type": "mcp", "server": server(&file)}));
    let echo = || Call::new(json!({"tool": "echo", "args": {"message": "hi"}}));
    assert!(nodes.run(&any, echo()).await.success);
    let first = pids(&file)[0];

    let long = json!({"tool": "trigger-long-running-operation", "args": {"duration": 1000, "steps": 2}});
    let mut under_way = Box::pin(nodes.run(&any, Call::new(long)));
    // Calls are sent in order, so the first is in progress once the second is answered.
    let echoed = tokio::select! {
        biased;
        result = &mut under_way => panic!("{result:?}"),
        result = nodes.run(&any, echo()) => result,
    };
    assert!(echoed.success);
    Command::new("kill").args(["-9", &first.to_string()]).status().unwrap();
    let result = under_way.await;
    assert_eq!(result.error_type, Some(ErrorType::Unknown), "{result:?}");
    assert!(result.error.unwrap().starts_with("The connection to the server was lost during the call"));

    let result = nodes.run(&any, echo()).await;
    assert!(result.success, "{result:?}");
    assert_eq!(pids(&file).len(), 2);
    nodes.close().await;
    wait_for_end(pids(&file)[1]).await;
}

#[tokio::test]
async fn interrupted_call_leaves_the_server_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let nodes = nodes();
    let any = node(json!({"id": "any", "type": "mcp", "server": server(&file)}));
    let echo = || Call::new(json!({"tool": "echo", "args": {"message": "hi"}}));
    assert!(nodes.run(&any, echo()).await.success);
    let long = json!({"tool": "trigger-long-running-operation", "args": {"duration": 1000, "steps": 2}});
    let call = Call { timeout: Some(Duration::from_millis(200)), ..Call::new(long) };
    assert_eq!(nodes.run(&any, call).await.error_type, Some(ErrorType::Timeout));
    assert!(nodes.run(&any, echo()).await.success);
    assert_eq!(pids(&file).len(), 1);
    drop(nodes);
    wait_for_end(pids(&file)[0]).await;
}

#[tokio::test]
async fn failed_server_start_is_reported_with_its_output() {
    let nodes = nodes();
    let silent = json!({"command": "sh", "args": ["-c", "echo 'no licence, {secret:KEY}' >&2; exit 1"]});
    let result =
        nodes.run(&node(json!({"id": "s", "type": "mcp", "server": silent, "tool": "x"})), Call::default()).await;
    assert_eq!(result.error_type, Some(ErrorType::NotStarted));
    let error = result.error.unwrap();
    assert_eq!(error, "The MCP server did not start: it exited before it answered. Its output: no licence, ••••••");
    let missing = json!({"command": "no-such-program-here"});
    let result =
        nodes.run(&node(json!({"id": "m", "type": "mcp", "server": missing, "tool": "x"})), Call::default()).await;
    assert_eq!(
        result.error.as_deref(),
        Some("The program could not be started: program 'no-such-program-here' was not found.")
    );
}

/// The same server over HTTP. It runs while this value exists.
struct OverHttp {
    child: Child,
    url: String,
}

impl OverHttp {
    async fn start(port: Option<u16>) -> Self {
        let port = port.unwrap_or_else(free_port);
        let mut child = Command::new("node")
            .arg(everything_server())
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = tokio::task::spawn_blocking(move || {
            let found = output.find(|line| line.as_ref().unwrap().contains("listening"));
            // The server keeps writing, and a pipe without a reader would block it.
            std::thread::spawn(move || output.for_each(drop));
            found.is_some()
        });
        assert!(listening.await.unwrap(), "the server exited instead of listening");
        Self { child, url: format!("http://127.0.0.1:{port}/mcp") }
    }

    fn port(&self) -> u16 {
        self.url.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse().unwrap()
    }
}

impl Drop for OverHttp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn server_at_an_address_is_called_and_reconnected() {
    let server = OverHttp::start(None).await;
    let nodes = nodes();
    let declared = json!({"url": server.url, "headers": {"X-Key": "{secret:KEY}"}});
    let sum = node(
        json!({"id": "sum", "type": "mcp", "server": declared, "tool": "get-sum", "args": {"a": 1, "b": "{input}"}}),
    );
    let result = nodes.run(&sum, Call::new(2)).await;
    assert_eq!(result.output, "The sum of 1 and 2 is 3.", "{result:?}");
    let port = server.port();
    drop(server);
    let result = nodes.run(&sum, Call::new(2)).await;
    assert!(!result.success, "{result:?}");
    let result = nodes.run(&sum, Call::new(2)).await;
    assert_eq!(result.error_type, Some(ErrorType::Connection));
    assert!(result.error.unwrap().starts_with("The server cannot be reached: Connection refused"));
    let _server = OverHttp::start(Some(port)).await;
    let result = nodes.run(&sum, Call::new(3)).await;
    assert_eq!(result.output, "The sum of 1 and 3 is 4.", "{result:?}");
}
