//! Workflows as tools, listed by a simulated daemon.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_mcp::offer::ListChange;
use steplatch_mcp::{Contract, ServerBackend as _};
use steplatch_patience::eventually;
use steplatch_protocol::{DaemonPaths, Hello, ReconnectingClient, Starter};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::sync::broadcast;

/// Timeout of each wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A simulated daemon that only lists tools.
struct SimulatedDaemon {
    directory: tempfile::TempDir,
    state: Arc<Mutex<State>>,
    /// Events for all watchers; an empty line closes their connections.
    events: broadcast::Sender<String>,
    listener_task: Option<tokio::task::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    tools: Vec<Value>,
    /// Names of the requested verbs.
    verbs: Vec<String>,
}

impl SimulatedDaemon {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("fake-").tempdir_in("/tmp").unwrap();
        Self { directory, state: Arc::default(), events: broadcast::Sender::new(16), listener_task: None }
    }

    fn paths(&self) -> DaemonPaths {
        DaemonPaths::new(self.directory.path().join("state"), self.directory.path().to_owned())
    }

    /// Returns a client that cannot start a daemon.
    fn client(&self) -> ReconnectingClient {
        let hello = Hello { client: "test".to_owned(), ..Hello::default() };
        ReconnectingClient::new(self.paths(), Starter { program: PathBuf::from("/bin/false") }, hello)
    }

    fn set_tools(&self, names: &[&str]) {
        let tool = |name: &&str| {
            json!({"name": name, "title": name, "description": "Does something. Source: remote far.", "source": "remote",
                "workflow_id": name, "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}}})
        };
        self.state.lock().unwrap().tools = names.iter().map(tool).collect();
    }

    fn announce_change(&self, times: usize) {
        for _ in 0..times {
            self.events.send(json!({"changed": "tools"}).to_string()).unwrap();
        }
    }

    fn count_requests(&self, verb: &str) -> usize {
        self.state.lock().unwrap().verbs.iter().filter(|name| *name == verb).count()
    }

    fn listen(&mut self) {
        let socket = self.paths().socket();
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (state, events) = (self.state.clone(), self.events.clone());
        self.listener_task = Some(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve_connection(stream, state.clone(), events.subscribe()));
            }
        }));
    }

    /// Stops the daemon and closes all connections.
    fn stop(&mut self) {
        self.listener_task.take().unwrap().abort();
        std::fs::remove_file(self.paths().socket()).unwrap();
        let _ = self.events.send(String::new());
    }
}

async fn serve_connection(
    stream: tokio::net::UnixStream,
    state: Arc<Mutex<State>>,
    mut events: broadcast::Receiver<String>,
) {
    let (read_half, mut write_half) = stream.into_split();
    let mut lines = BufReader::new(read_half).lines();
    let mut watch_id = None;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line.unwrap_or_default(),
            event = events.recv() => {
                let event = event.unwrap();
                if event.is_empty() {
                    return;
                }
                if let Some(id) = &watch_id {
                    let mut event: Value = serde_json::from_str(&event).unwrap();
                    event["type"] = "event".into();
                    event["request_id"] = Value::clone(id);
                    write_half.write_all(format!("{event}\n").as_bytes()).await.unwrap();
                }
                continue;
            }
        };
        let Some(line) = line else { return };
        let request: Value = serde_json::from_str(&line).unwrap();
        if request["type"] != "command" {
            continue;
        }
        let verb = request["command_type"].as_str().unwrap();
        let data = match verb {
            "HELLO" => json!({"protocol_version": 1, "version": "0", "pid": 1}),
            "WATCH" => {
                watch_id = Some(request["request_id"].clone());
                json!({"success": true})
            }
            "LIST_TOOLS" => json!({"success": true, "tools": state.lock().unwrap().tools}),
            other => panic!("unexpected request: {other}"),
        };
        state.lock().unwrap().verbs.push(verb.to_owned());
        let result = json!({"type": "result", "success": true, "data": data, "request_id": request["request_id"]});
        write_half.write_all(format!("{result}\n").as_bytes()).await.unwrap();
    }
}

async fn tool_names(contract: &Contract) -> Vec<String> {
    contract.tools(None).await.items.into_iter().map(|tool| tool.name.into_owned()).collect()
}

fn workflow_names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).filter(|name| name.starts_with("workflow_")).collect()
}

async fn wait_for_change(changes: &mut broadcast::Receiver<ListChange>) {
    let change = tokio::time::timeout(WAIT_TIMEOUT, changes.recv()).await.expect("a change is reported").unwrap();
    assert_eq!(change, ListChange::Tools);
}

#[tokio::test]
async fn list_is_sorted_and_changes_are_reported() {
    let mut daemon = SimulatedDaemon::new();
    daemon.set_tools(&["workflow_b", "workflow_a"]);
    daemon.listen();
    let contract = Contract::new(daemon.client());
    assert!(
        contract.tool("workflow_a").is_none() && contract.tool("run_workflow").is_some(),
        "the list was not fetched yet"
    );
    let names = tool_names(&contract).await;
    assert!(names.is_sorted() && names.contains(&"run_workflow".to_owned()), "{names:?}");
    assert_eq!(workflow_names(&names), ["workflow_a", "workflow_b"]);
    let tool = contract.tool("workflow_a").unwrap();
    assert_eq!(tool.input_schema["properties"]["place"]["type"], "string");
    assert!(tool.description.unwrap().contains("Source: remote far"));
    let hints = tool.annotations.unwrap();
    let hints = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint];
    assert_eq!(hints, [Some(false), Some(true), Some(false), Some(true)], "the workflow's effects are unknown");
    assert!(contract.tools(None).await.ttl_ms < 60_000);

    // Another server of the same daemon lists the tools in the same order, regardless of the daemon's order.
    daemon.set_tools(&["workflow_a", "workflow_b"]);
    let other_contract = Contract::new(daemon.client());
    assert_eq!(tool_names(&other_contract).await, names);

    // An event without a change of the list causes no notification.
    let mut changes = contract.changes();
    let request_count = daemon.count_requests("LIST_TOOLS");
    daemon.announce_change(1);
    eventually("both servers fetch the list again", async || daemon.count_requests("LIST_TOOLS") >= request_count + 2)
        .await;
    daemon.set_tools(&["workflow_b", "workflow_c"]);
    daemon.announce_change(1);
    wait_for_change(&mut changes).await;
    assert!(changes.is_empty(), "one change causes one notification");
    assert_eq!(workflow_names(&tool_names(&contract).await), ["workflow_b", "workflow_c"]);
}

#[tokio::test]
async fn tools_stay_listed_until_the_next_daemon_starts() {
    let mut daemon = SimulatedDaemon::new();
    daemon.set_tools(&["workflow_a"]);
    daemon.listen();
    let contract = Contract::new(daemon.client());
    let mut changes = contract.changes();
    wait_for_change(&mut changes).await;
    daemon.stop();
    assert_eq!(workflow_names(&tool_names(&contract).await), ["workflow_a"], "the cached tools stay listed");
    daemon.set_tools(&["workflow_z"]);
    daemon.listen();
    wait_for_change(&mut changes).await;
    assert_eq!(workflow_names(&tool_names(&contract).await), ["workflow_z"]);
    // The next daemon reports changes too.
    daemon.set_tools(&[]);
    daemon.announce_change(1);
    wait_for_change(&mut changes).await;
    assert_eq!(workflow_names(&tool_names(&contract).await), Vec::<&str>::new());
    assert_eq!(contract.tools(None).await.ttl_ms, 60_000);
}

#[tokio::test]
async fn workflow_cannot_replace_a_tool() {
    let mut daemon = SimulatedDaemon::new();
    daemon.set_tools(&["run_workflow", "workflow_a"]);
    daemon.listen();
    let contract = Contract::new(daemon.client());
    let names = tool_names(&contract).await;
    assert_eq!(names.iter().filter(|name| *name == "run_workflow").count(), 1);
    assert!(contract.tool("run_workflow").unwrap().description.unwrap().starts_with("Run a workflow"));
}
