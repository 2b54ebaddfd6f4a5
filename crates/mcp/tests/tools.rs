//! Workflows as tools, with a simulated daemon that lists them, line by line.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

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

/// The timeout of each wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A simulated daemon that knows only its tools.
struct Daemon {
    folder: tempfile::TempDir,
    state: Arc<Mutex<State>>,
    /// The events for all watchers; an empty line ends their connections.
    events: broadcast::Sender<String>,
    listening: Option<tokio::task::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    tools: Vec<Value>,
    /// The called verbs, without the first ones of each connection.
    asked: Vec<String>,
}

impl Daemon {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("fake-").tempdir_in("/tmp").unwrap();
        Self { folder, state: Arc::default(), events: broadcast::Sender::new(16), listening: None }
    }

    fn place(&self) -> DaemonPaths {
        DaemonPaths::new(self.folder.path().join("state"), self.folder.path().to_owned())
    }

    /// Returns a connection to the daemon. The connection cannot start a daemon.
    fn steady(&self) -> ReconnectingClient {
        let hello = Hello { client: "test".to_owned(), ..Hello::default() };
        ReconnectingClient::new(self.place(), Starter { program: PathBuf::from("/bin/false") }, hello)
    }

    fn has(&self, names: &[&str]) {
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
        self.state.lock().unwrap().asked.iter().filter(|asked| *asked == verb).count()
    }

    fn listen(&mut self) {
        let socket = self.place().socket();
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(socket).unwrap();
        let (state, events) = (self.state.clone(), self.events.clone());
        self.listening = Some(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer_request(stream, state.clone(), events.subscribe()));
            }
        }));
    }

    /// Ends the daemon, with all connections.
    fn die(&mut self) {
        self.listening.take().unwrap().abort();
        std::fs::remove_file(self.place().socket()).unwrap();
        let _ = self.events.send(String::new());
    }
}

async fn answer_request(
    stream: tokio::net::UnixStream,
    state: Arc<Mutex<State>>,
    mut events: broadcast::Receiver<String>,
) {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    let mut watched = None;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line.unwrap_or_default(),
            event = events.recv() => {
                let event = event.unwrap();
                if event.is_empty() {
                    return;
                }
                if let Some(id) = &watched {
                    let mut event: Value = serde_json::from_str(&event).unwrap();
                    event["type"] = "event".into();
                    event["request_id"] = Value::clone(id);
                    writing.write_all(format!("{event}\n").as_bytes()).await.unwrap();
                }
                continue;
            }
        };
        let Some(line) = line else { return };
        let asked: Value = serde_json::from_str(&line).unwrap();
        if asked["type"] != "command" {
            continue;
        }
        let verb = asked["command_type"].as_str().unwrap();
        let data = match verb {
            "HELLO" => json!({"protocol_version": 1, "version": "0", "pid": 1}),
            "WATCH" => {
                watched = Some(asked["request_id"].clone());
                json!({"success": true})
            }
            "LIST_TOOLS" => json!({"success": true, "tools": state.lock().unwrap().tools}),
            other => panic!("this daemon does not know {other}"),
        };
        state.lock().unwrap().asked.push(verb.to_owned());
        let answer = json!({"type": "result", "success": true, "data": data, "request_id": asked["request_id"]});
        writing.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

async fn names(contract: &Contract) -> Vec<String> {
    contract.tools().await.items.into_iter().map(|tool| tool.name.into_owned()).collect()
}

fn workflows(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).filter(|name| name.starts_with("workflow_")).collect()
}

async fn wait_for_change(changes: &mut broadcast::Receiver<ListChange>) {
    let change = tokio::time::timeout(WAIT_TIMEOUT, changes.recv()).await.expect("a change is reported").unwrap();
    assert_eq!(change, ListChange::Tools);
}

#[tokio::test]
async fn list_is_sorted_and_changes_are_reported() {
    let mut daemon = Daemon::new();
    daemon.has(&["workflow_b", "workflow_a"]);
    daemon.listen();
    let contract = Contract::new(daemon.steady());
    assert!(contract.tool("workflow_a").is_none() && contract.tool("run_workflow").is_some(), "nobody was asked yet");
    let listed = names(&contract).await;
    assert!(listed.is_sorted() && listed.contains(&"run_workflow".to_owned()), "{listed:?}");
    assert_eq!(workflows(&listed), ["workflow_a", "workflow_b"]);
    let tool = contract.tool("workflow_a").unwrap();
    assert_eq!(tool.input_schema["properties"]["place"]["type"], "string");
    assert!(tool.description.unwrap().contains("Source: remote far"));
    let hints = tool.annotations.unwrap();
    let hints = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint];
    assert_eq!(hints, [Some(false), Some(true), Some(false), Some(true)], "its effect is unknown");
    assert!(contract.tools().await.ttl_ms < 60_000);

    // Another server of the same daemon lists the tools in the same order, whatever the order in which the daemon lists
    // them.
    daemon.has(&["workflow_a", "workflow_b"]);
    let other = Contract::new(daemon.steady());
    assert_eq!(names(&other).await, listed);

    // An event without a change of the list causes no notification.
    let mut changes = contract.changes();
    let inspected = daemon.count_requests("LIST_TOOLS");
    daemon.announce_change(1);
    eventually("both look again", async || daemon.count_requests("LIST_TOOLS") >= inspected + 2).await;
    daemon.has(&["workflow_b", "workflow_c"]);
    daemon.announce_change(1);
    wait_for_change(&mut changes).await;
    assert!(changes.is_empty(), "once for one change");
    assert_eq!(workflows(&names(&contract).await), ["workflow_b", "workflow_c"]);
}

#[tokio::test]
async fn tools_remain_without_a_daemon_until_the_next_one() {
    let mut daemon = Daemon::new();
    daemon.has(&["workflow_a"]);
    daemon.listen();
    let contract = Contract::new(daemon.steady());
    let mut changes = contract.changes();
    wait_for_change(&mut changes).await;
    daemon.die();
    assert_eq!(workflows(&names(&contract).await), ["workflow_a"], "working entries stay");
    daemon.has(&["workflow_z"]);
    daemon.listen();
    wait_for_change(&mut changes).await;
    assert_eq!(workflows(&names(&contract).await), ["workflow_z"]);
    // The next daemon reports changes too.
    daemon.has(&[]);
    daemon.announce_change(1);
    wait_for_change(&mut changes).await;
    assert_eq!(workflows(&names(&contract).await), Vec::<&str>::new());
    assert_eq!(contract.tools().await.ttl_ms, 60_000);
}

#[tokio::test]
async fn workflow_cannot_take_the_name_of_a_tool() {
    let mut daemon = Daemon::new();
    daemon.has(&["run_workflow", "workflow_a"]);
    daemon.listen();
    let contract = Contract::new(daemon.steady());
    let listed = names(&contract).await;
    assert_eq!(listed.iter().filter(|name| *name == "run_workflow").count(), 1);
    assert!(contract.tool("run_workflow").unwrap().description.unwrap().starts_with("Run a workflow"));
}
