//! Terminals on a remote host, over relays in this process whose connections are cut.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steplatch_host::{
    AskError, CLIENT_CONNECT_TIMEOUT, Channel, ConnectFailure, DialFuture, HostedTerminal, Hosts, HostsError,
    MachineSecretSink, NoQuestions, PlacePolicy, Relay, RemoteHostConfig, RemoteHostState, RemoteSetup, Role, Starter,
    Transport,
};
use steplatch_ids::{RunId, TerminalId};
use steplatch_patience::eventually;
use steplatch_terminal::{Input, Limit, Part, SecretText, Settle, Spec};
use tempfile::TempDir;

use super::hosts::wait;

/// A remote machine in this process. Its terminal host runs as long as this value.
#[derive(Debug)]
pub(super) struct RemoteMachine {
    directory: PathBuf,
    /// The local ends of all connections so far.
    connections: Mutex<Vec<std::os::unix::net::UnixStream>>,
    pub(super) dialed: AtomicUsize,
    is_away: AtomicBool,
    /// Number of upcoming connections that fail.
    pub(super) failures: AtomicUsize,
}

impl RemoteMachine {
    /// Cuts every connection.
    pub(super) fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            // Ignore the error, because an ended connection cannot be cut.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
        if is_away {
            self.cut();
        }
    }
}

#[derive(Debug)]
struct RemoteTransport(Arc<RemoteMachine>);

impl Transport for RemoteTransport {
    fn dial<'a>(&'a self, _: &'a RemoteHostConfig, _: &'a str) -> DialFuture<'a> {
        Box::pin(async move {
            self.0.dialed.fetch_add(1, Ordering::Relaxed);
            let one_less = |left: usize| left.checked_sub(1);
            let fails = self.0.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
            if fails || self.0.is_away.load(Ordering::Relaxed) {
                return Err(ConnectFailure::Connection("no route to host".to_owned()));
            }
            let (local_end, remote_end) = std::os::unix::net::UnixStream::pair().unwrap();
            self.0.connections.lock().unwrap().push(local_end.try_clone().unwrap());
            let relay = Relay {
                directory: self.0.directory.clone(),
                starter: Starter::InProcess(Box::default()),
                version: "1".to_owned(),
            };
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let input = BufReader::new(remote_end.try_clone().unwrap());
                // The connection may be cut at any moment.
                let _ = runtime.block_on(relay.serve(input, remote_end.try_clone().unwrap()));
                let _ = remote_end.shutdown(Shutdown::Both);
            });
            Ok(Channel::from_stream(local_end, ()).unwrap())
        })
    }
}

pub(super) fn directory() -> TempDir {
    tempfile::Builder::new().prefix("remote-").tempdir_in("/tmp").unwrap()
}

/// A terminal host in this process.
async fn start_host(directory: &Path) -> Hosts {
    let host = Hosts::find(Role::Visitor, directory, directory, Starter::InProcess(Box::default()), "1", |_| {})
        .await
        .unwrap();
    host.prepare().await.unwrap();
    host
}

/// Starts a remote machine with a terminal host. The second value keeps the host alive.
pub(super) async fn start_remote() -> (Arc<RemoteMachine>, Hosts, TempDir) {
    let directory = directory();
    let host = start_host(directory.path()).await;
    let machine = RemoteMachine {
        directory: directory.path().to_owned(),
        connections: Mutex::default(),
        dialed: AtomicUsize::default(),
        is_away: AtomicBool::default(),
        failures: AtomicUsize::default(),
    };
    (Arc::new(machine), host, directory)
}

/// A sink for machines without secrets.
#[derive(Debug)]
struct IgnoredSecrets;

impl MachineSecretSink for IgnoredSecrets {
    fn place(&self, _: &TerminalId, _: &str) {}

    fn hide_on(&self, _: &str, _: SecretText) {}

    fn forget(&self, _: &TerminalId) {}
}

/// A daemon's hosts, with the remote machine as `box`.
pub(super) async fn local_hosts(directory: &Path, machine: &Arc<RemoteMachine>) -> Hosts {
    let hosts = Hosts::find(Role::Visitor, directory, directory, Starter::InProcess(Box::default()), "1", |_| {})
        .await
        .unwrap();
    let transport = Arc::new(RemoteTransport(machine.clone()));
    hosts.enable_remote(RemoteSetup {
        notes: directory.join("machines"),
        transport,
        questions: Arc::new(NoQuestions),
        secrets: Arc::new(IgnoredSecrets),
    });
    hosts.configure_remotes(&[RemoteHostConfig { name: "box".to_owned(), ssh: "ana@box".to_owned() }]);
    hosts
}

/// Cuts each connection shortly after it is made, until the task is aborted.
pub(super) fn cut_repeatedly(machine: &Arc<RemoteMachine>) -> tokio::task::JoinHandle<()> {
    let machine = machine.clone();
    tokio::spawn(async move {
        // A busy machine occasionally needs a longer pause for a connection to make progress.
        for pause in [20, 20, 20, 200].into_iter().cycle() {
            let before = machine.dialed.load(Ordering::Relaxed);
            machine.cut();
            // The next cut comes after the next connection.
            while machine.dialed.load(Ordering::Relaxed) == before {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    })
}

fn spec(command: &[&str]) -> Spec {
    Spec { inherited: vec![("HERE_ONLY".into(), "1".into())], ..super::hosts::spec(command) }
}

async fn open_terminal(hosts: &Hosts, command: &[&str]) -> HostedTerminal {
    hosts.open_on(spec(command), Some("box"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await.unwrap().0
}

/// Answers each line.
const ANSWERS: &[&str] = &["sh", "-c", "echo begins; while read line; do echo got $line; done"];

async fn wait_for_output(terminal: &HostedTerminal, pattern: &str) {
    let (waited, view) = terminal.wait(wait(pattern)).await.unwrap();
    assert!(waited.found.is_some(), "no {pattern:?} on:\n{}", view.screen);
}

fn text_input(text: &str, step: &str) -> Input {
    let settle = Some(Settle { quiet: Duration::ZERO, timeout: Duration::ZERO });
    Input { text: text.to_owned(), step: Some(step.to_owned()), settle, ..Input::default() }
}

async fn output(terminal: &HostedTerminal) -> String {
    terminal.read(Part::From(0), Limit::Head(1_000_000)).await.unwrap().head
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_terminal_works_like_a_local_one() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    assert_eq!(hosts.remote_status()[0].state, RemoteHostState::Idle);
    let terminal = open_terminal(&hosts, &["sh", "-c", "echo here:$HERE_ONLY; read x; echo got $x; sleep 1000"]).await;
    wait_for_output(&terminal, "here:\n").await;
    terminal.send(text_input("word\n", "one")).await.unwrap();
    wait_for_output(&terminal, "got word").await;
    let [listed] = &hosts.list().await[..] else { panic!("one terminal") };
    assert_eq!((&listed.description.id, listed.place.as_ref().unwrap().host.as_str()), (terminal.id(), "box"));
    assert_eq!(listed.place.as_ref().unwrap().lost_since, None);
    assert_eq!(hosts.get(terminal.id().as_str()).await.unwrap().unwrap().id(), terminal.id());
    let status = hosts.remote_status();
    assert_eq!((&status[0].state, status[0].terminals), (&RemoteHostState::Connected, 1));
    let unknown =
        hosts.open_on(spec(&["cat"]), Some("nowhere"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no host 'nowhere'; known hosts: box");
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_lose_no_output_and_type_nothing_twice() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    // An echo would appear within the output of cat.
    let terminal = open_terminal(&hosts, &["sh", "-c", "stty -echo; echo begins; exec cat"]).await;
    wait_for_output(&terminal, "begins\n").await;
    let waiting = tokio::spawn({
        let terminal = terminal.clone();
        async move { terminal.wait(wait("line 199")).await }
    });
    let cutter = cut_repeatedly(&machine);
    for number in 0..200 {
        // Half of the inputs have no step, so only the session keeps them from being lost or typed twice.
        let step = (number % 2 == 0).then(|| number.to_string());
        terminal.send(Input { step, ..text_input(&format!("line {number}\n"), "") }).await.unwrap();
    }
    assert!(waiting.await.unwrap().unwrap().0.found.is_some());
    cutter.abort();
    let lines: String = (0..200).map(|number| format!("line {number}\n")).collect();
    let expected = format!("begins\n{lines}");
    eventually("every line arrived once and in order", async || {
        let output = output(&terminal).await;
        if output == expected { Ok(()) } else { Err(output) }
    })
    .await;
    assert!(machine.dialed.load(Ordering::Relaxed) > 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_daemon_finds_terminals_and_types_a_step_once() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let first = local_hosts(directory.path(), &machine).await;
    let terminal = open_terminal(&first, ANSWERS).await;
    terminal.send(text_input("once\n", "step-1")).await.unwrap();
    wait_for_output(&terminal, "got once").await;
    let id = terminal.id().clone();
    drop((terminal, first));
    let second = local_hosts(directory.path(), &machine).await;
    let terminal = second.get(id.as_str()).await.unwrap().unwrap();
    terminal.send(text_input("once\n", "step-1")).await.unwrap();
    terminal.send(text_input("twice\n", "step-2")).await.unwrap();
    wait_for_output(&terminal, "got twice").await;
    assert_eq!(output(&terminal).await.matches("got once").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_machine_is_reported_with_its_terminals() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    let terminal = open_terminal(&hosts, ANSWERS).await.with_connect_timeout(Duration::from_millis(50));
    machine.set_away(true);
    eventually("the lost connection is noticed", async || match &hosts.remote_status()[0].state {
        RemoteHostState::Lost { .. } => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let error = terminal.describe().await.unwrap_err();
    assert!(matches!(&error, AskError::NotConnected { host, .. } if host == "box"), "{error}");
    assert!(error.to_string().contains("host 'box' is not connected since"), "{error}");
    let [listed] = &hosts.list().await[..] else { panic!("one terminal") };
    assert!(listed.place.as_ref().unwrap().lost_since.is_some());
    let result = hosts.open_on(spec(&["cat"]), Some("nowhere"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await;
    assert!(matches!(result, Err(HostsError::Remote(_))));
    // A run is patient and continues once the machine is back.
    let waiting_terminal = terminal.clone().with_connect_timeout(Duration::from_secs(60));
    let typing = tokio::spawn(async move { waiting_terminal.send(text_input("back\n", "step")).await });
    machine.set_away(false);
    typing.await.unwrap().unwrap();
    wait_for_output(&terminal.with_connect_timeout(Duration::from_secs(60)), "got back").await;
    assert_eq!(hosts.check_remote("box", Duration::from_secs(60)).await.unwrap().state, RemoteHostState::Connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminals_of_an_ended_host_are_lost_and_a_new_host_starts() {
    let (machine, host, _remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    let terminal = open_terminal(&hosts, &["cat"]).await.with_connect_timeout(Duration::from_secs(60));
    host.shut_down().await;
    // A terminal that is ending may still answer that it is closed.
    eventually("the host is reported as lost", async || match terminal.describe().await {
        Err(AskError::RemoteHostLost { host, .. }) if host == "box" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    eventually("the terminal is reported as lost", async || {
        hosts.lost_host(terminal.id().as_str()).map(drop).ok_or("not lost")
    })
    .await;
    assert!(hosts.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn step_of_an_ended_host_is_not_repeated_by_another() {
    let (machine, host, remote_directory) = start_remote().await;
    let directory = directory();
    let run = RunId::random().to_string();
    let [open, write] = ["a/1", "b/1"].map(|step| format!("{run}/{step}"));
    let opening = Spec { step: Some(open.clone()), ..spec(ANSWERS) };
    let first = local_hosts(directory.path(), &machine).await;
    first.open_on(opening.clone(), Some("box"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await.unwrap();
    let written = directory.path().join("written");
    let timeout = Duration::from_secs(60);
    let files = first.files(Some("box"), timeout, Some(write.clone())).await.unwrap();
    files.put(&written, b"once", None, true).await.unwrap();
    drop((files, first));
    std::fs::remove_file(&written).unwrap();
    host.shut_down().await;
    let _other = start_host(remote_directory.path()).await;

    let second = local_hosts(directory.path(), &machine).await;
    eventually("the end of the host is noticed", async || {
        let unsettled = second.unsettled(&mut BTreeSet::new()).await;
        (unsettled == [open.clone(), write.clone()]).then_some(()).ok_or(unsettled)
    })
    .await;
    let result = second.open_on(opening, Some("box"), timeout, PlacePolicy::AtOnce).await;
    let is_unknown = |error: &HostsError| matches!(error, HostsError::HostRequest(error) if error.is_outcome_unknown());
    assert!(result.as_ref().is_err_and(is_unknown), "{result:?}");
    let result = second.files(Some("box"), timeout, Some(write)).await;
    assert!(result.as_ref().is_err_and(is_unknown), "{result:?}");
    assert!(!written.exists());
    // Once the outcome is stored, their notes are removed.
    second.settle(&format!("{run}/"));
    assert_eq!(second.unsettled(&mut BTreeSet::new()).await, [""; 0]);
    second.open_on(spec(ANSWERS), Some("box"), timeout, PlacePolicy::AtOnce).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_request_survives_temporary_failures() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let hosts = local_hosts(directory.path(), &machine).await;
    let failing = |count: usize| machine.failures.store(count, Ordering::Relaxed);
    failing(1);
    let error =
        hosts.open_on(spec(ANSWERS), Some("box"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await.unwrap_err();
    assert_eq!(error.to_string(), "host 'box' was not reached: no route to host");
    failing(1);
    let checked = hosts.check_remote("box", Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(checked.to_string(), error.to_string(), "a check reports the first failure");
    failing(2);
    hosts.open_on(spec(ANSWERS), Some("box"), Duration::from_secs(60), PlacePolicy::AtOnce).await.unwrap();
    // A request waits for a lost session, but a person does not.
    machine.set_away(true);
    eventually("the lost connection is noticed", async || match &hosts.remote_status()[0].state {
        RemoteHostState::Lost { .. } => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let checked = hosts.check_remote("box", Duration::from_secs(60)).await.unwrap_err();
    assert!(checked.to_string().contains("no route to host"), "{checked}");
}

/// An earlier daemon requested the terminal, and this daemon cannot reach its host.
#[tokio::test(flavor = "multi_thread")]
async fn unreachable_machine_does_not_lose_a_request() {
    let (machine, _host, _remote_directory) = start_remote().await;
    let directory = directory();
    let step = format!("{}/a/1", RunId::random());
    let opening = Spec { step: Some(step.clone()), name: Some("work".to_owned()), ..spec(ANSWERS) };
    let first = local_hosts(directory.path(), &machine).await;
    let terminal =
        first.open_on(opening.clone(), Some("box"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await.unwrap().0;
    let id = terminal.id().clone();
    drop((terminal, first));
    // The answer was lost, so only the request is noted.
    forget_answers(directory.path());
    machine.set_away(true);
    let second = local_hosts(directory.path(), &machine).await;
    let result = second.open_on(opening.clone(), Some("box"), Duration::from_millis(300), PlacePolicy::AtOnce).await;
    assert!(matches!(&result, Err(HostsError::HostRequest(AskError::NotConnected { .. }))), "{result:?}");
    assert!(second.has_requested_opening(&step));
    machine.set_away(false);
    for _ in 0..2 {
        // The name belongs to the step's own terminal.
        let again =
            second.open_on(opening.clone(), Some("box"), Duration::from_secs(60), PlacePolicy::AtOnce).await.unwrap();
        assert_eq!(again.0.id(), &id, "the repeated step finds its terminal");
    }
    second.record_repeated(&step);
    assert!(second.is_repeated(&step));
    second.settle(&step);
    assert!(!second.is_repeated(&step));
}

/// Changes the notes of the machine as if the daemon had been killed before the answer to its request for a terminal.
fn forget_answers(directory: &Path) {
    let file = directory.join("machines/box.machine");
    let mut notes: serde_json::Value = steplatch_liar::from_msgpack(&std::fs::read(&file).unwrap());
    for opening in notes["openings"].as_object_mut().unwrap().values_mut() {
        opening["terminal"] = serde_json::Value::Null;
    }
    notes["terminals"] = serde_json::json!({});
    std::fs::write(&file, steplatch_liar::to_msgpack(&notes)).unwrap();
}
