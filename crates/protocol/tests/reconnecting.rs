//! Requests and subscriptions across restarts of the daemon. The daemons are simulated: a script states the point at
//! which each connection is closed.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, CallError, CancelWorkflow, ConnectError, DaemonPaths, FollowError, GetRun, Hello, ListWorkflowRuns,
    PROTOCOL_VERSION, ReconnectingClient, RunWorkflow, SendSignal, Starter,
};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Behaviour of a daemon on one connection.
#[derive(Debug, Clone)]
enum Behaviour {
    CloseAtOnce,
    /// Closes the connection during the handshake.
    CloseAfterHello(HelloStage),
    /// Reads a request and closes the connection after this many bytes of the reply.
    CloseWithinReply(usize),
    /// Sends this reply and these events for one request and closes the connection.
    Reply(Value, Vec<Value>),
    /// Same as `Reply`, but keeps the connection open.
    ReplyAndStay(Value, Vec<Value>),
}

/// Progress of the handshake at which the connection is closed.
#[derive(Debug, Clone, Copy)]
enum HelloStage {
    Read,
    Replied,
}

/// A simulated daemon that follows a script, and the requests that it received.
struct ScriptedDaemon {
    paths: DaemonPaths,
    requests: Arc<Mutex<Vec<Value>>>,
    _directory: TempDir,
}

impl ScriptedDaemon {
    fn new(script: impl IntoIterator<Item = Behaviour>) -> Self {
        let (paths, directory) = temporary_paths();
        let listener = UnixListener::bind(paths.socket()).unwrap();
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (received, mut script): (_, VecDeque<Behaviour>) = (requests.clone(), script.into_iter().collect());
        tokio::spawn(async move {
            // The listener, and so the daemon, ends with the script.
            while let Some(behaviour) = script.pop_front() {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve_connection(stream, behaviour, received.clone()));
            }
        });
        Self { paths, requests, _directory: directory }
    }

    /// Returns a client that starts daemons with the program `starter`.
    fn client(&self, starter: &str) -> ReconnectingClient {
        let hello = Hello { protocol_version: PROTOCOL_VERSION, client: "test".to_owned(), ..Hello::default() };
        ReconnectingClient::new(self.paths.clone(), Starter { program: starter.into() }, hello)
    }

    fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the names of the requested verbs.
    fn verbs(&self) -> Vec<String> {
        self.requests().iter().map(|request| request["command_type"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns the paths of a daemon in a temporary directory, and the directory.
fn temporary_paths() -> (DaemonPaths, TempDir) {
    let directory = tempfile::Builder::new().prefix("played-").tempdir_in("/tmp").unwrap();
    let paths = DaemonPaths::new(directory.path().join("state"), directory.path().to_owned());
    std::fs::create_dir_all(paths.socket().parent().unwrap()).unwrap();
    (paths, directory)
}

async fn serve_connection(stream: UnixStream, behaviour: Behaviour, requests: Arc<Mutex<Vec<Value>>>) {
    if matches!(behaviour, Behaviour::CloseAtOnce) {
        return;
    }
    let (read_half, mut write_half) = stream.into_split();
    let mut lines = BufReader::new(read_half).lines();
    let hello: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(hello["command_type"], "HELLO");
    if matches!(behaviour, Behaviour::CloseAfterHello(HelloStage::Read)) {
        return;
    }
    let hello_reply = json!({"protocol_version": PROTOCOL_VERSION, "version": "0", "pid": 1});
    let output = format!("{}\n", result_line(&hello, &hello_reply));
    write_half.write_all(output.as_bytes()).await.unwrap();
    if matches!(behaviour, Behaviour::CloseAfterHello(HelloStage::Replied)) {
        return;
    }
    let Some(line) = lines.next_line().await.unwrap() else { return };
    let request: Value = serde_json::from_str(&line).unwrap();
    requests.lock().unwrap().push(request.clone());
    let keeps_open = matches!(behaviour, Behaviour::ReplyAndStay(..));
    let (reply, events) = match behaviour {
        Behaviour::Reply(reply, events) | Behaviour::ReplyAndStay(reply, events) => (reply, events),
        Behaviour::CloseWithinReply(bytes) => {
            let reply = result_line(&request, &json!({"success": true})).to_string();
            let _ = write_half.write_all(&reply.as_bytes()[..bytes]).await;
            return;
        }
        Behaviour::CloseAtOnce | Behaviour::CloseAfterHello(_) => unreachable!("the connection was closed above"),
    };
    let mut output = format!("{}\n", result_line(&request, &reply));
    for mut event in events {
        event["type"] = "event".into();
        event["request_id"] = request["request_id"].clone();
        output.push_str(&format!("{event}\n"));
    }
    let _ = write_half.write_all(output.as_bytes()).await;
    if keeps_open {
        // Wait until the client disconnects.
        while let Ok(Some(_)) = lines.next_line().await {}
    }
}

fn result_line(request: &Value, data: &Value) -> Value {
    json!({"type": "result", "success": true, "data": data, "request_id": request["request_id"]})
}

/// All points at which a connection can be lost before the reply is read.
fn loss_points() -> Vec<Behaviour> {
    vec![
        Behaviour::CloseAtOnce,
        Behaviour::CloseAfterHello(HelloStage::Read),
        Behaviour::CloseAfterHello(HelloStage::Replied),
        Behaviour::CloseWithinReply(0),
        Behaviour::CloseWithinReply(20),
    ]
}

fn run_event(seq: u64, event_type: &str) -> Value {
    json!({"seq": seq, "run_id": "run_x", "workflow_id": "w", "event_type": event_type, "data": {}, "timestamp": "t"})
}

#[tokio::test]
async fn idempotent_request_is_repeated_after_every_loss() {
    let reply = Behaviour::Reply(json!({"success": true, "runs": []}), vec![]);
    let daemon = ScriptedDaemon::new(loss_points().into_iter().chain([reply]));
    let reply = daemon.client("/bin/true").call(ListWorkflowRuns::default()).await.unwrap();
    assert!(reply.success);
    let verbs = daemon.verbs();
    assert!((3..=4).contains(&verbs.len()), "the request is sent once per established connection: {verbs:?}");
}

#[tokio::test]
async fn once_only_request_is_repeated_as_the_same_step() {
    let reply = Behaviour::Reply(json!({"success": true, "run_id": "run_x", "status": "running"}), vec![]);
    let daemon = ScriptedDaemon::new([Behaviour::CloseWithinReply(0), Behaviour::CloseWithinReply(10), reply]);
    let client = daemon.client("/bin/true");
    let reply = client.call(RunWorkflow { wait_seconds: Some(0.0), ..RunWorkflow::default() }).await.unwrap();
    assert_eq!(reply.run_id, "run_x");
    let requests = daemon.requests();
    let steps: Vec<&str> = requests.iter().map(|request| request["step"].as_str().unwrap()).collect();
    assert!(steps.len() == 3 && steps.iter().all(|step| *step == steps[0]), "{steps:?}");
}

#[tokio::test]
async fn non_idempotent_request_is_not_repeated_once_sent() {
    let daemon = ScriptedDaemon::new([
        Behaviour::CloseAtOnce,
        Behaviour::CloseAfterHello(HelloStage::Read),
        Behaviour::CloseWithinReply(0),
        Behaviour::Reply(json!({"success": true}), vec![]),
    ]);
    let signal: SendSignal = serde_json::from_value(json!({"session_id": "term_x", "signal": "INT"})).unwrap();
    let error = daemon.client("/bin/true").call(signal).await.unwrap_err();
    assert!(matches!(error, AskError::Call(CallError::Lost)), "{error}");
    assert_eq!(daemon.verbs(), ["SEND_SIGNAL"]);
}

#[tokio::test]
async fn repeated_request_waits_only_for_the_remaining_time() {
    let daemon = ScriptedDaemon::new([
        Behaviour::CloseWithinReply(3),
        Behaviour::Reply(json!({"success": true, "run_id": "run_x", "status": "running"}), vec![]),
    ]);
    let verb = GetRun { run_id: "run_x".to_owned(), wait_seconds: Some(30.0), ..GetRun::default() };
    daemon.client("/bin/true").call(verb).await.unwrap();
    let waits: Vec<f64> =
        daemon.requests().iter().map(|request| request["params"]["wait_seconds"].as_f64().unwrap()).collect();
    assert_eq!(waits[0], 30.0);
    assert!(waits[1] < 30.0 && waits[1] > 20.0, "{waits:?}");
}

#[tokio::test]
async fn retries_end_after_repeated_losses() {
    let daemon = ScriptedDaemon::new((0..100).map(|_| Behaviour::CloseWithinReply(0)));
    let cancel = CancelWorkflow { run_id: "run_x".to_owned() };
    let error = daemon.client("/bin/true").call(cancel).await.unwrap_err();
    assert!(matches!(error, AskError::Call(CallError::Lost)), "{error}");
    assert_eq!(daemon.verbs().len(), 21, "one request and twenty retries");
}

#[tokio::test]
async fn daemon_start_failure_is_reported() {
    let daemon = ScriptedDaemon::new([]);
    tokio::task::yield_now().await;
    let failure = daemon.client("/bin/false").call(ListWorkflowRuns::default()).await.unwrap_err();
    assert!(matches!(failure, AskError::Connect(ConnectError::NotStarted(_))), "{failure}");
    let missing_program = daemon.client("/no/such/program").call(ListWorkflowRuns::default()).await.unwrap_err();
    assert!(missing_program.to_string().contains("/no/such/program"), "{missing_program}");
}

#[tokio::test]
async fn events_of_a_run_arrive_once_and_in_order_across_daemons() {
    let subscribed = || json!({"success": true});
    let mut script = loss_points();
    script.extend([
        Behaviour::Reply(subscribed(), vec![run_event(1, "workflow_started"), run_event(2, "state_entered")]),
        Behaviour::CloseWithinReply(0),
        // Event 3 is missing, and event 2 arrives a second time.
        Behaviour::Reply(subscribed(), vec![run_event(2, "state_entered"), run_event(4, "state_completed")]),
        Behaviour::Reply(subscribed(), vec![]),
        Behaviour::ReplyAndStay(subscribed(), vec![run_event(5, "workflow_completed")]),
    ]);
    let daemon = ScriptedDaemon::new(script);
    let mut follower = daemon.client("/bin/true").follow("run_x", 1);
    let mut received_seqs = Vec::new();
    while let Some(event) = follower.next().await.unwrap() {
        received_seqs.push(event.seq);
    }
    assert_eq!(received_seqs, [1, 2, 4, 5]);
    let first_seqs: Vec<u64> =
        daemon.requests().iter().map(|request| request["params"]["from_seq"].as_u64().unwrap()).collect();
    let expected = [1, 3, 3, 5, 5];
    assert!(first_seqs.ends_with(&expected), "{first_seqs:?}");
    assert!(follower.next().await.unwrap().is_none(), "no event follows the last one");
}

#[tokio::test]
async fn unknown_run_ends_the_subscription_with_an_error() {
    let unknown = json!({"success": false, "error": "Run 'run_x' not found; list_runs tells which there are"});
    let daemon = ScriptedDaemon::new([
        Behaviour::Reply(json!({"success": true}), vec![run_event(1, "workflow_started")]),
        Behaviour::Reply(unknown, vec![]),
    ]);
    let mut follower = daemon.client("/bin/true").follow("run_x", 1);
    assert_eq!(follower.next().await.unwrap().unwrap().seq, 1);
    let error = follower.next().await.unwrap_err();
    assert!(matches!(&error, FollowError::Unknown(reason) if reason.contains("Run 'run_x' not found")), "{error}");
    assert!(follower.next().await.unwrap().is_none());
}

#[tokio::test]
async fn subscription_waits_until_the_run_begins() {
    let unknown = || Behaviour::Reply(json!({"success": false, "error": "Run 'run_x' not found"}), vec![]);
    let started_run = Behaviour::Reply(json!({"success": true}), vec![run_event(1, "workflow_started")]);
    let daemon = ScriptedDaemon::new([unknown(), unknown(), started_run, unknown()]);
    let mut follower = daemon.client("/bin/true").follow_from_its_beginning("run_x");
    assert_eq!(follower.next().await.unwrap().unwrap().seq, 1);
    let error = follower.next().await.unwrap_err();
    assert!(matches!(&error, FollowError::Unknown(_)), "a known run is not waited for again: {error}");
}

#[tokio::test]
async fn dropped_subscription_is_cancelled() {
    let (closed_sender, closed_receiver) = tokio::sync::oneshot::channel();
    let (paths, _directory) = temporary_paths();
    let listener = UnixListener::bind(paths.socket()).unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let requests = Arc::default();
        serve_connection(
            stream,
            Behaviour::ReplyAndStay(json!({"success": true}), vec![run_event(1, "workflow_started")]),
            requests,
        )
        .await;
        closed_sender.send(()).unwrap();
    });
    let hello = Hello { protocol_version: PROTOCOL_VERSION, ..Hello::default() };
    let client = ReconnectingClient::new(paths, Starter { program: "/bin/true".into() }, hello);
    let mut follower = client.follow("run_x", 1);
    assert!(follower.next().await.unwrap().is_some());
    drop((follower, client));
    tokio::time::timeout(Duration::from_secs(60), closed_receiver).await.expect("the connection is closed").unwrap();
}
