//! Terminal hosts in this process, over real sockets, with changing clients.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, WaitOptions, kill_process, waitpid};
use steplatch_host::{
    AskError, AttachEvent, HostState, HostedTerminal, Hosts, HostsError, OpenRefused, Refusal, Role, SendError, Stage,
    Starter, WaitRequest,
};
use steplatch_patience::eventually;
use steplatch_terminal::{
    Closing, HoldKey, Input, InputError, LockHolder, SecretText, Settle, Size, Spec, Target, Until, View, Waited,
};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::Builder::new().prefix("hosts-").tempdir_in("/tmp").unwrap()
}

async fn hosts(directory: &Path, version: &str) -> Hosts {
    hosts_with_sink(directory, version, |_| {}).await
}

async fn hosts_with_sink(
    directory: &Path,
    version: &str,
    on_secret: impl Fn(SecretText) + Send + Sync + 'static,
) -> Hosts {
    let notes = directory.join("notes");
    std::fs::create_dir_all(&notes).unwrap();
    Hosts::find(Role::Visitor, directory, &notes, Starter::InProcess(Box::default()), version, on_secret).await.unwrap()
}

pub(crate) fn spec(command: &[&str]) -> Spec {
    Spec {
        arguments: command.iter().map(Into::into).collect(),
        command: command.join(" "),
        directory: "/".into(),
        inherited: std::env::vars_os().collect(),
        environment: Vec::new(),
        size: Size { cols: 80, rows: 24 },
        name: None,
        opened_by: None,
        step: None,
    }
}

async fn open_terminal(hosts: &Hosts, command: &[&str]) -> HostedTerminal {
    hosts.open(spec(command)).await.unwrap().0
}

/// A wait for this pattern in the output, from the beginning.
pub(crate) fn wait(pattern: &str) -> WaitRequest {
    WaitRequest {
        patterns: vec![pattern.to_owned()],
        target: Target::Output,
        since: Some(0),
        input: None,
        until: Until::Match,
        timeout: Duration::from_secs(60),
        by: None,
        ..WaitRequest::default()
    }
}

async fn wait_for_output(terminal: &HostedTerminal, pattern: &str) -> (Waited, View) {
    let (waited, view) = terminal.wait(wait(pattern)).await.unwrap();
    assert!(waited.found.is_some(), "no {pattern:?} on:\n{}", view.screen);
    (waited, view)
}

fn text_input(text: &str) -> Input {
    Input { text: text.to_owned(), ..Input::default() }
}

#[tokio::test]
async fn later_client_finds_terminals_unchanged() {
    let directory = directory();
    let first = hosts(directory.path(), "1").await;
    let terminal = open_terminal(&first, &["sh", "-c", "echo here; read x; echo got $x; exit 7"]).await;
    wait_for_output(&terminal, "here").await;
    drop(first);
    let second = hosts(directory.path(), "1").await;
    assert_eq!(second.list().await.len(), 1);
    let found = second.get(terminal.id().as_str()).await.unwrap().unwrap();
    found.send(text_input("word\n")).await.unwrap();
    wait_for_output(&found, "got word").await;
    let (_, view) = wait_for_output(&found, "here").await;
    let ended = view.exit.or(found
        .wait(WaitRequest {
            patterns: Vec::new(),
            target: Target::Output,
            since: None,
            input: None,
            until: Until::Exit,
            timeout: Duration::from_secs(60),
            by: None,
            ..WaitRequest::default()
        })
        .await
        .unwrap()
        .0
        .exit);
    assert_eq!(ended.unwrap().code, 7);
    second.shut_down().await;
}

#[tokio::test]
async fn older_host_keeps_its_terminals_and_opens_no_new_ones() {
    let directory = directory();
    let before = hosts(directory.path(), "1").await;
    let old = before.open(Spec { name: Some("old".into()), ..spec(&["cat"]) }).await.unwrap().0;
    let after = hosts(directory.path(), "2").await;
    let new = open_terminal(&after, &["cat"]).await;
    let states: Vec<_> =
        after.status().await.into_iter().map(|host| (host.version, host.terminals, host.state)).collect();
    assert_eq!(states, [("1".into(), 1, HostState::Older), ("2".into(), 1, HostState::Current)]);
    for (terminal, word) in [(&old, "one"), (&new, "two")] {
        let found = after.get(terminal.id().as_str()).await.unwrap().unwrap();
        found.send(text_input(&format!("{word}\n"))).await.unwrap();
        wait_for_output(&found, word).await;
    }
    assert_eq!(after.get("old").await.unwrap().unwrap().id(), old.id());
    let result = after.open(Spec { name: Some("old".into()), ..spec(&["cat"]) }).await;
    assert!(matches!(result, Err(HostsError::Refused(OpenRefused::NameTaken { .. }))), "{result:?}");
    // The host ends with its last terminal, and removes its socket.
    old.close(Closing::default()).await.unwrap();
    eventually("the older host has exited", async || {
        let files = std::fs::read_dir(directory.path()).unwrap().flatten().map(|file| file.path());
        let sockets = files.filter(|path| path.extension().is_some_and(|extension| extension == "sock")).count();
        if sockets > 1 { Err(sockets) } else { Ok(()) }
    })
    .await;
    assert_eq!(after.list().await.len(), 1);
    after.shut_down().await;
}

#[tokio::test]
async fn host_of_another_protocol_version_is_only_listed() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let directory = directory();
    let listener = tokio::net::UnixListener::bind(directory.path().join("host-00000001.sock")).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        // {"Ok": {"wire": 99, "version": "9.0", "pid": 4194303, "terminals": 3}}
        let body = b"\x81\xa2Ok\x84\xa4wire\x63\xa7version\xa39.0\xa3pid\xce\x00\x3f\xff\xff\xa9terminals\x03";
        stream.write_all(&u32::try_from(body.len() + 8).unwrap().to_be_bytes()).await.unwrap();
        stream.write_all(&head[4..]).await.unwrap();
        stream.write_all(body).await.unwrap();
        std::future::pending::<()>().await;
    });
    let hosts = hosts(directory.path(), "1").await;
    let terminal = open_terminal(&hosts, &["cat"]).await;
    let states: Vec<_> =
        hosts.status().await.into_iter().map(|host| (host.version, host.terminals, host.state)).collect();
    assert_eq!(states, [("9.0".into(), 3, HostState::Foreign), ("1".into(), 1, HostState::Current)]);
    assert_eq!(hosts.list().await.len(), 1);
    terminal.close(Closing::default()).await.unwrap();
}

/// A stopped process, killed at the end of the test.
struct StoppedProcess(std::process::Child);

impl StoppedProcess {
    fn new() -> Self {
        let process = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&process);
        kill_process(pid, rustix::process::Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        Self(process)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        // The test may have ended it already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Listens in `directory` as a host with this process id and version 1. Greets its client and then stays silent.
fn stopped_host(directory: &Path, socket: &str, pid: u32) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let listener = tokio::net::UnixListener::bind(directory.join(socket)).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        // {"Ok": {"wire": 1, "version": "1", "pid": …, "terminals": 3}}
        let mut body = b"\x81\xa2Ok\x84\xa4wire\x01\xa7version\xa11\xa3pid\xce".to_vec();
        body.extend(pid.to_be_bytes());
        body.extend(b"\xa9terminals\x03");
        stream.write_all(&u32::try_from(body.len() + 8).unwrap().to_be_bytes()).await.unwrap();
        stream.write_all(&head[4..]).await.unwrap();
        stream.write_all(&body).await.unwrap();
        std::future::pending::<()>().await;
    });
}

#[tokio::test(start_paused = true)]
async fn stopped_host_does_not_delay_requests_to_all_hosts() {
    let directory = directory();
    let process = StoppedProcess::new();
    let pid = process.0.id();
    stopped_host(directory.path(), "host-00000001.sock", pid);
    let hosts = hosts(directory.path(), "1").await;
    assert_eq!(hosts.status().await.len(), 1);
    assert!(hosts.list().await.is_empty());
    let silent = AskError::HostSilent { pid };
    assert_eq!(hosts.get("db").await.unwrap_err(), silent, "the stopped host may have a terminal with this name");
    assert_eq!(
        hosts.opened_by("run/open/1").await.unwrap_err(),
        silent,
        "the stopped host may have opened the terminal"
    );
    let secret = |text: &str| SecretText { terminal: None, text: text.into() };
    hosts.remember(&[secret("one"), secret("two")]).await;
}

#[tokio::test]
async fn terminal_is_found_while_another_host_is_stopped() {
    let directory = directory();
    let process = StoppedProcess::new();
    let pid = process.0.id();
    stopped_host(directory.path(), "host-00000001.sock", pid);
    // The stopped host is the older of the two.
    tokio::time::pause();
    let hosts = hosts(directory.path(), "2").await;
    tokio::time::resume();
    let terminal = hosts.open(Spec { name: None, step: Some("run/open/1".into()), ..spec(&["cat"]) }).await.unwrap().0;
    let found = hosts.opened_by("run/open/1").await.unwrap().unwrap();
    assert_eq!(found.id(), terminal.id());
    tokio::time::pause();
    let result = hosts.open(Spec { name: Some("db".into()), ..spec(&["cat"]) }).await;
    let Err(HostsError::HostRequest(AskError::HostSilent { pid: silent_pid })) = result else { panic!("{result:?}") };
    assert_eq!(silent_pid, pid, "the stopped host may have a terminal with this name");
}

#[tokio::test(start_paused = true)]
async fn stopped_host_is_resumed_and_ended_at_shutdown() {
    use std::os::unix::process::ExitStatusExt as _;

    let directory = directory();
    let mut process = StoppedProcess::new();
    stopped_host(directory.path(), "host-00000001.sock", process.0.id());
    let hosts = hosts(directory.path(), "1").await;
    hosts.shut_down().await;
    assert_eq!(process.0.wait().unwrap().signal(), Some(rustix::process::Signal::TERM.as_raw()));
}

#[tokio::test]
async fn abandoned_socket_is_removed() {
    let directory = directory();
    let socket = directory.path().join("host-00000001.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let hosts = hosts(directory.path(), "1").await;
    assert!(!socket.exists());
    assert!(hosts.get("term_0000000000").await.unwrap().is_none());
}

#[tokio::test]
async fn input_with_a_step_is_typed_once_for_any_client() {
    let directory = directory();
    let first = hosts(directory.path(), "1").await;
    let terminal =
        open_terminal(&first, &["sh", "-c", "stty -echo; echo ready; while read x; do echo \"<$x>\"; done"]).await;
    wait_for_output(&terminal, "ready").await;
    let settle = Some(Settle { quiet: Duration::from_millis(20), timeout: Duration::from_secs(5) });
    let input = Input { step: Some("run/say/1".into()), settle, ..text_input("word\n") };
    assert_eq!(terminal.stage("run/say/1").await.unwrap(), None);
    let sent = terminal.send(input.clone()).await.unwrap();
    wait_for_output(&terminal, "<word>").await;
    drop(first);
    let second = hosts(directory.path(), "1").await;
    let repeated = second.get(terminal.id().as_str()).await.unwrap().unwrap();
    let reported = repeated.send(input).await.unwrap();
    assert_eq!(reported.offset, sent.offset);
    assert_eq!(repeated.stage("run/say/1").await.unwrap(), Some(Stage::Done));
    repeated.send(text_input("end\n")).await.unwrap();
    let (_, view) = wait_for_output(&repeated, "<end>").await;
    assert_eq!(view.screen.matches("<word>").count(), 1, "{}", view.screen);
    second.shut_down().await;
}

#[tokio::test]
async fn interrupted_input_is_in_doubt_and_not_typed_again() {
    let directory = directory();
    let hosts = hosts(directory.path(), "1").await;
    // No program reads the input, and the line discipline buffers at most 4 kB.
    let terminal = open_terminal(&hosts, &["sh", "-c", "stty raw -echo; echo ready; sleep 1000"]).await;
    wait_for_output(&terminal, "ready").await;
    let minute = Duration::from_secs(60);
    let settle = Some(Settle { quiet: minute, timeout: minute });
    let input = Input { step: Some("s".into()), settle, ..text_input(&"x".repeat(200_000)) };
    let typing = tokio::spawn({
        let (terminal, input) = (terminal.clone(), input.clone());
        async move { terminal.send(input).await }
    });
    eventually("the input is accepted", async || terminal.stage("s").await.unwrap() == Some(Stage::Intent)).await;
    terminal.signal(steplatch_terminal::Signal::KILL).await.unwrap();
    for sent in [typing.await.unwrap(), terminal.send(input).await] {
        assert!(matches!(sent, Err(SendError::Input(InputError::InDoubt))), "{sent:?}");
    }
    hosts.shut_down().await;
}

#[tokio::test]
async fn step_opens_one_terminal() {
    let directory = directory();
    let hosts = hosts(directory.path(), "1").await;
    let new = Spec { step: Some("run/open/1".into()), ..spec(&["cat"]) };
    let terminal = hosts.open(new.clone()).await.unwrap().0;
    let again = hosts.open(new.clone()).await.unwrap().0;
    assert_eq!(terminal.id(), again.id());
    assert_eq!(hosts.list().await.len(), 1);
    terminal.close(Closing::default()).await.unwrap();
    // The result of the step is known although its terminal has closed since.
    let (again, _) = hosts.open(new).await.unwrap();
    assert_eq!(again.id(), terminal.id());
    assert!(hosts.list().await.is_empty());
    assert_eq!(again.describe().await.unwrap_err(), AskError::Refused(Refusal::NoTerminal));
    // A failed opening had no effect, so it may be retried.
    let missing = Spec { step: Some("run/open/2".into()), ..spec(&["no-such-program"]) };
    for _ in 0..2 {
        let failed = hosts.open(missing.clone()).await;
        assert!(matches!(failed, Err(HostsError::Refused(OpenRefused::NotFound(_)))), "{failed:?}");
    }
    hosts.shut_down().await;
}

/// A client of an updated daemon repeats a step that the host of the previous version has performed.
#[tokio::test]
async fn repeated_step_belongs_to_the_older_host_of_its_client() {
    let directory = directory();
    let before = hosts(directory.path(), "1").await;
    let new = |step: &str| Spec { step: Some(step.into()), ..spec(&["cat"]) };
    let (open, closed) = (before.open(new("open")).await.unwrap().0, before.open(new("closed")).await.unwrap().0);
    closed.close(Closing::default()).await.unwrap();
    let after = hosts(directory.path(), "2").await;
    for (step, terminal) in [("open", &open), ("closed", &closed)] {
        after.record_repeated(step);
        assert_eq!(after.open(new(step)).await.unwrap().0.id(), terminal.id());
    }
    after.record_repeated("other");
    let terminal = after.open(new("other")).await.unwrap().0;
    assert_eq!(after.list().await.len(), 2);
    // A host without terminals still keeps its results.
    open.close(Closing::default()).await.unwrap();
    let later = hosts(directory.path(), "2").await;
    later.record_repeated("closed");
    assert_eq!(later.open(new("closed")).await.unwrap().0.id(), closed.id());
    assert_eq!(later.list().await.len(), 1);
    terminal.close(Closing::default()).await.unwrap();
    later.shut_down().await;
}

#[tokio::test]
async fn person_holding_a_terminal_types_alone_across_daemons() {
    let directory = directory();
    let first = hosts(directory.path(), "1").await;
    let terminal = open_terminal(&first, &["cat"]).await;
    let key = HoldKey("secret".into());
    let ann = LockHolder { name: "ann".into(), since: SystemTime::now() };
    assert_eq!(terminal.hold(ann.clone(), key.clone()).await, Ok(()));
    drop(first);
    let second = hosts(directory.path(), "1").await;
    let again = second.get(terminal.id().as_str()).await.unwrap().unwrap();
    let result = again.send(text_input("x")).await;
    assert_eq!(result.unwrap_err(), SendError::Input(InputError::Held(ann.clone())));
    assert_eq!(again.hold(ann.clone(), key.clone()).await, Ok(()), "the holder may take the terminal again");
    again.send(Input { holder: Some(key.clone()), ..text_input("hers\n") }).await.unwrap();
    wait_for_output(&again, "^hers$").await;
    again.give_back(key).await.unwrap();
    assert_eq!(again.handed_back().await.unwrap().unwrap().holder, ann);
    assert!(again.handed_back().await.unwrap().is_none(), "the handover is reported once");
    again.send(text_input("mine\n")).await.unwrap();
    second.shut_down().await;
}

#[tokio::test]
async fn hidden_input_is_reported_to_the_serving_daemon() {
    let directory = directory();
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = reported.clone();
    let first = hosts_with_sink(directory.path(), "1", move |secret| note.lock().unwrap().push(secret.text)).await;
    let terminal =
        open_terminal(&first, &["sh", "-c", "stty -echo; printf 'Password: '; read p; stty echo; echo; echo in; cat"])
            .await;
    wait_for_output(&terminal, "Password").await;
    terminal.send(text_input("hunter2\n")).await.unwrap();
    wait_for_output(&terminal, "^in$").await;
    terminal.send(text_input("seen\n")).await.unwrap();
    wait_for_output(&terminal, "seen").await;
    first.remember(&[SecretText { terminal: None, text: "given".into() }]).await;
    assert_eq!(*reported.lock().unwrap(), ["hunter2", "given"]);
    let later: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = later.clone();
    let second = hosts_with_sink(directory.path(), "1", move |secret| note.lock().unwrap().push(secret.text)).await;
    assert_eq!(*later.lock().unwrap(), ["hunter2", "given"]);
    second.shut_down().await;
}

#[tokio::test]
async fn attached_client_sees_screen_output_and_end() {
    let directory = directory();
    let hosts = hosts(directory.path(), "1").await;
    let terminal = open_terminal(&hosts, &["sh", "-c", "echo before; read x; echo after; exit 3"]).await;
    wait_for_output(&terminal, "before").await;
    let mut attached = terminal.attach().await.unwrap();
    assert!(attached.snapshot.contains("before"));
    terminal.send(text_input("\n")).await.unwrap();
    let mut bytes = Vec::new();
    let exit = loop {
        match attached.next().await.unwrap() {
            AttachEvent::Bytes(more) => bytes.extend(more),
            AttachEvent::Ended(exit) => break exit,
            other => panic!("{other:?}"),
        }
    };
    assert!(String::from_utf8_lossy(&bytes).contains("after\r\n"));
    assert_eq!(exit.code, 3);
    terminal.close(Closing::default()).await.unwrap();
    let error = terminal.view(false).await.unwrap_err();
    assert_eq!(error, AskError::Refused(Refusal::NoTerminal));
    hosts.shut_down().await;
    assert!(matches!(terminal.view(false).await, Err(AskError::HostLost { .. })));
}

#[tokio::test]
async fn slow_viewer_receives_a_redrawn_screen() {
    let directory = directory();
    let hosts = hosts(directory.path(), "1").await;
    let terminal = open_terminal(&hosts, &["sh", "-c", "read x; seq 1 200000; echo the end; read x"]).await;
    let mut attached = terminal.attach().await.unwrap();
    terminal.send(text_input("\n")).await.unwrap();
    wait_for_output(&terminal, "the end").await;
    let mut redrawn = None;
    while redrawn.is_none() {
        if let AttachEvent::Redrawn(snapshot) = attached.next().await.unwrap() {
            redrawn = Some(snapshot);
        }
    }
    assert!(redrawn.unwrap().contains("the end"));
    hosts.shut_down().await;
}

/// The record of an ended host stays until its steps are settled, but makes no later step uncertain.
#[tokio::test]
async fn ended_host_makes_no_later_step_uncertain() {
    let directory = directory();
    let (before, since) = ("run_p4vawdxx5897paed/a/1", "run_p4vawdxx5897paed/b/1");
    let note = serde_json::json!({"socket": directory.path().join("host-1.sock"), "pid": 1});
    let notes = directory.path().join("notes");
    std::fs::create_dir_all(&notes).unwrap();
    std::fs::write(notes.join("host-1.note"), steplatch_liar::to_msgpack(&note)).unwrap();
    let next = async |pending: &str, are_all: bool| {
        let next = hosts(directory.path(), "1").await;
        next.mark_uncertain([pending.to_owned()].into(), are_all);
        next
    };
    // While some steps are unknown, the host may have performed any step.
    for _ in 0..2 {
        let daemon = next(before, false).await;
        assert!(daemon.is_in_doubt(before) && daemon.is_in_doubt(since));
    }
    assert!(next(before, true).await.is_in_doubt(before));
    let daemon = next(since, true).await;
    assert!(daemon.is_in_doubt(before) && !daemon.is_in_doubt(since));
    daemon.settle(since);
    let daemon = next(before, true).await;
    assert!(!daemon.is_in_doubt(before), "the record is removed with the last awaited step");
}
