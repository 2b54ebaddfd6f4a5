//! Requests and subscriptions across restarts of the daemon. The daemons are simulated: each connection follows a
//! script that says where it hangs up.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

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
    HangUpAtOnce,
    HangUpInstead(HelloStage),
    /// Greets, reads a request, and hangs up after this many bytes of its reply.
    HangUpWithin(usize),
    /// Answers one request with this reply and these events, and hangs up.
    Answer(Value, Vec<Value>),
    /// Same as `Answer`, but keeps the connection open.
    AnswerAndStay(Value, Vec<Value>),
}

/// Handling of the hello before the connection ends.
#[derive(Debug, Clone, Copy)]
enum HelloStage {
    Read,
    Answered,
}

/// A daemon that follows a script, and the requests that it received.
struct ScriptedDaemon {
    place: DaemonPaths,
    requests: Arc<Mutex<Vec<Value>>>,
    _folder: TempDir,
}

impl ScriptedDaemon {
    fn new(script: impl IntoIterator<Item = Behaviour>) -> Self {
        let folder = tempfile::Builder::new().prefix("played-").tempdir_in("/tmp").unwrap();
        let place = DaemonPaths::new(folder.path().join("state"), folder.path().to_owned());
        std::fs::create_dir_all(place.socket().parent().unwrap()).unwrap();
        let listener = UnixListener::bind(place.socket()).unwrap();
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (seen, mut script): (_, VecDeque<Behaviour>) = (requests.clone(), script.into_iter().collect());
        tokio::spawn(async move {
            // The listener, and with it the daemon, ends with the script.
            while let Some(behaviour) = script.pop_front() {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve_connection(stream, behaviour, seen.clone()));
            }
        });
        Self { place, requests, _folder: folder }
    }

    /// A client whose daemons start immediately, or not at all.
    fn client(&self, starter: &str) -> ReconnectingClient {
        let hello = Hello { protocol_version: PROTOCOL_VERSION, client: "test".to_owned(), ..Hello::default() };
        ReconnectingClient::new(self.place.clone(), Starter { program: starter.into() }, hello)
    }

    fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// Names of the requested verbs.
    fn verbs(&self) -> Vec<String> {
        self.requests().iter().map(|request| request["command_type"].as_str().unwrap().to_owned()).collect()
    }
}

async fn serve_connection(stream: UnixStream, behaviour: Behaviour, requests: Arc<Mutex<Vec<Value>>>) {
    if matches!(behaviour, Behaviour::HangUpAtOnce) {
        return;
    }
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    let hello: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(hello["command_type"], "HELLO");
    if matches!(behaviour, Behaviour::HangUpInstead(HelloStage::Read)) {
        return;
    }
    let greeting = json!({"protocol_version": PROTOCOL_VERSION, "version": "0", "pid": 1});
    let output = format!("{}\n", result_line(&hello, &greeting));
    writing.write_all(output.as_bytes()).await.unwrap();
    if matches!(behaviour, Behaviour::HangUpInstead(HelloStage::Answered)) {
        return;
    }
    let Some(line) = lines.next_line().await.unwrap() else { return };
    let question: Value = serde_json::from_str(&line).unwrap();
    requests.lock().unwrap().push(question.clone());
    let stays = matches!(behaviour, Behaviour::AnswerAndStay(..));
    let (reply, events) = match behaviour {
        Behaviour::Answer(reply, events) | Behaviour::AnswerAndStay(reply, events) => (reply, events),
        Behaviour::HangUpWithin(bytes) => {
            let reply = result_line(&question, &json!({"success": true})).to_string();
            let _ = writing.write_all(&reply.as_bytes()[..bytes]).await;
            return;
        }
        Behaviour::HangUpAtOnce | Behaviour::HangUpInstead(_) => unreachable!("it hung up above"),
    };
    let mut output = format!("{}\n", result_line(&question, &reply));
    for mut event in events {
        event["type"] = "event".into();
        event["request_id"] = question["request_id"].clone();
        output.push_str(&format!("{event}\n"));
    }
    let _ = writing.write_all(output.as_bytes()).await;
    if stays {
        // Until the client has disconnected.
        while let Ok(Some(_)) = lines.next_line().await {}
    }
}

fn result_line(question: &Value, data: &Value) -> Value {
    json!({"type": "result", "success": true, "data": data, "request_id": question["request_id"]})
}

/// Every point at which a daemon can be lost before its reply is read.
fn loss_points() -> Vec<Behaviour> {
    vec![
        Behaviour::HangUpAtOnce,
        Behaviour::HangUpInstead(HelloStage::Read),
        Behaviour::HangUpInstead(HelloStage::Answered),
        Behaviour::HangUpWithin(0),
        Behaviour::HangUpWithin(20),
    ]
}

fn event(seq: u64, event_type: &str) -> Value {
    json!({"seq": seq, "run_id": "run_x", "workflow_id": "w", "event_type": event_type, "data": {}, "timestamp": "t"})
}

#[tokio::test]
async fn harmless_request_is_repeated_after_every_loss() {
    let answer = Behaviour::Answer(json!({"success": true, "runs": []}), vec![]);
    let daemon = ScriptedDaemon::new(loss_points().into_iter().chain([answer]));
    let reply = daemon.client("/bin/true").call(ListWorkflowRuns::default()).await.unwrap();
    assert!(reply.success);
    let verbs = daemon.verbs();
    assert!((3..=4).contains(&verbs.len()), "once for each reachable connection: {verbs:?}");
}

#[tokio::test]
async fn keyed_request_is_repeated_as_the_same_step() {
    let answer = Behaviour::Answer(json!({"success": true, "run_id": "run_x", "status": "running"}), vec![]);
    let daemon = ScriptedDaemon::new([Behaviour::HangUpWithin(0), Behaviour::HangUpWithin(10), answer]);
    let client = daemon.client("/bin/true");
    let reply = client.call(RunWorkflow { wait_seconds: Some(0.0), ..RunWorkflow::default() }).await.unwrap();
    assert_eq!(reply.run_id, "run_x");
    let requests = daemon.requests();
    let steps: Vec<&str> = requests.iter().map(|request| request["step"].as_str().unwrap()).collect();
    assert!(steps.len() == 3 && steps.iter().all(|step| *step == steps[0]), "{steps:?}");
}

#[tokio::test]
async fn unrepeatable_request_is_not_repeated_once_sent() {
    let daemon = ScriptedDaemon::new([
        Behaviour::HangUpAtOnce,
        Behaviour::HangUpInstead(HelloStage::Read),
        Behaviour::HangUpWithin(0),
        Behaviour::Answer(json!({"success": true}), vec![]),
    ]);
    let signal = json!({"session_id": "term_x", "signal": "INT"});
    let signal: SendSignal = serde_json::from_value(signal).unwrap();
    let lost = daemon.client("/bin/true").call(signal).await.unwrap_err();
    assert!(matches!(lost, AskError::Call(CallError::Lost)), "{lost}");
    assert_eq!(daemon.verbs(), ["SEND_SIGNAL"]);
}

#[tokio::test]
async fn elapsed_time_is_not_waited_again() {
    let daemon = ScriptedDaemon::new([
        Behaviour::HangUpWithin(3),
        Behaviour::Answer(json!({"success": true, "run_id": "run_x", "status": "running"}), vec![]),
    ]);
    let verb = GetRun { run_id: "run_x".to_owned(), wait_seconds: Some(30.0), ..GetRun::default() };
    daemon.client("/bin/true").call(verb).await.unwrap();
    let waiting: Vec<f64> =
        daemon.requests().iter().map(|request| request["params"]["wait_seconds"].as_f64().unwrap()).collect();
    assert_eq!(waiting[0], 30.0);
    assert!(waiting[1] < 30.0 && waiting[1] > 20.0, "{waiting:?}");
}

#[tokio::test]
async fn permanently_silent_daemon_is_abandoned() {
    let daemon = ScriptedDaemon::new((0..100).map(|_| Behaviour::HangUpWithin(0)));
    let cancel = CancelWorkflow { run_id: "run_x".to_owned() };
    let lost = daemon.client("/bin/true").call(cancel).await.unwrap_err();
    assert!(matches!(lost, AskError::Call(CallError::Lost)), "{lost}");
    assert_eq!(daemon.verbs().len(), 21, "the first time and twenty more");
}

#[tokio::test]
async fn failure_to_start_a_daemon_is_reported_as_such() {
    let daemon = ScriptedDaemon::new([]);
    tokio::task::yield_now().await;
    let failed = daemon.client("/bin/false").call(ListWorkflowRuns::default()).await.unwrap_err();
    assert!(matches!(failed, AskError::Connect(ConnectError::NotStarted(_))), "{failed}");
    let missing = daemon.client("/no/such/program").call(ListWorkflowRuns::default()).await.unwrap_err();
    assert!(missing.to_string().contains("/no/such/program"), "{missing}");
}

#[tokio::test]
async fn events_of_a_run_arrive_once_and_in_order_across_daemons() {
    let subscribed = || json!({"success": true});
    let mut script = loss_points();
    script.extend([
        Behaviour::Answer(subscribed(), vec![event(1, "workflow_started"), event(2, "state_entered")]),
        Behaviour::HangUpWithin(0),
        // Event 3 is missing, and event 2 arrives a second time.
        Behaviour::Answer(subscribed(), vec![event(2, "state_entered"), event(4, "state_completed")]),
        Behaviour::Answer(subscribed(), vec![]),
        Behaviour::AnswerAndStay(subscribed(), vec![event(5, "workflow_completed")]),
    ]);
    let daemon = ScriptedDaemon::new(script);
    let mut follower = daemon.client("/bin/true").follow("run_x", 1);
    let mut seen = Vec::new();
    while let Some(event) = follower.next().await.unwrap() {
        seen.push(event.seq);
    }
    assert_eq!(seen, [1, 2, 4, 5]);
    let from: Vec<u64> =
        daemon.requests().iter().map(|request| request["params"]["from_seq"].as_u64().unwrap()).collect();
    let expected = [1, 3, 3, 5, 5];
    assert!(from.ends_with(&expected), "{from:?}");
    assert!(follower.next().await.unwrap().is_none(), "and no event follows the end");
}

#[tokio::test]
async fn unknown_run_ends_the_subscription_with_the_daemons_error() {
    let forgotten = json!({"success": false, "error": "Run 'run_x' not found; list_runs tells which there are"});
    let daemon = ScriptedDaemon::new([
        Behaviour::Answer(json!({"success": true}), vec![event(1, "workflow_started")]),
        Behaviour::Answer(forgotten, vec![]),
    ]);
    let mut follower = daemon.client("/bin/true").follow("run_x", 1);
    assert_eq!(follower.next().await.unwrap().unwrap().seq, 1);
    let error = follower.next().await.unwrap_err();
    assert!(matches!(&error, FollowError::Unknown(why) if why.contains("Run 'run_x' not found")), "{error}");
    assert!(follower.next().await.unwrap().is_none());
}

#[tokio::test]
async fn subscription_waits_for_a_run_to_begin() {
    let unknown = || Behaviour::Answer(json!({"success": false, "error": "Run 'run_x' not found"}), vec![]);
    let started = Behaviour::Answer(json!({"success": true}), vec![event(1, "workflow_started")]);
    let daemon = ScriptedDaemon::new([unknown(), unknown(), started, unknown()]);
    let mut follower = daemon.client("/bin/true").follow_from_its_beginning("run_x");
    assert_eq!(follower.next().await.unwrap().unwrap().seq, 1);
    let error = follower.next().await.unwrap_err();
    assert!(matches!(&error, FollowError::Unknown(_)), "it was known before: {error}");
}

#[tokio::test]
async fn dropped_subscription_is_cancelled() {
    let (sender, ended) = tokio::sync::oneshot::channel();
    let folder = tempfile::Builder::new().prefix("played-").tempdir_in("/tmp").unwrap();
    let place = DaemonPaths::new(folder.path().join("state"), folder.path().to_owned());
    std::fs::create_dir_all(place.socket().parent().unwrap()).unwrap();
    let listener = UnixListener::bind(place.socket()).unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let requests = Arc::default();
        serve_connection(
            stream,
            Behaviour::AnswerAndStay(json!({"success": true}), vec![event(1, "workflow_started")]),
            requests,
        )
        .await;
        sender.send(()).unwrap();
    });
    let hello = Hello { protocol_version: PROTOCOL_VERSION, ..Hello::default() };
    let client = ReconnectingClient::new(place, Starter { program: "/bin/true".into() }, hello);
    let mut follower = client.follow("run_x", 1);
    assert!(follower.next().await.unwrap().is_some());
    drop((follower, client));
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the connection ends").unwrap();
}
