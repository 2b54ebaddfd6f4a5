//! Requests of clients that disappear, over real sockets and with real programs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use steplatch_files::{FileDigest, FileWritten, WriteTarget};
use steplatch_link::{Hello, Session, SessionId, greet};
use steplatch_patience::eventually;
use steplatch_terminal::{CommandRequest, CommandResult, Description, Limit, Options, RunError, Size, Spec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;
use crate::client::Host;
use crate::relay::connect_link;
use crate::wire::{OpenRefused, OpenRequest, OpenedTerminal, PlacePolicy, Role, write_frame};

/// Reply to a command.
type CommandReply = Result<CommandResult, RunError>;

/// A terminal host with the listening end of its socket.
struct TestHost {
    directory: tempfile::TempDir,
}

impl TestHost {
    fn new(options: Options) -> Self {
        let directory = tempfile::Builder::new().prefix("host-").tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(directory.path().join("host.sock")).unwrap();
        let identity = Identity { version: "1".to_owned() };
        tokio::spawn(serve(listener, Terminals::new(options).unwrap(), identity, Arc::default()));
        Self { directory }
    }

    async fn client(&self) -> Host {
        self.connect(Role::Visitor).await
    }

    async fn connect(&self, role: Role) -> Host {
        Host::connect(&self.directory.path().join("host.sock"), role, &(Arc::new(|_| {}) as _)).await.unwrap()
    }

    /// Sends a request as a client that is killed before the answer.
    async fn request_and_disconnect(&self, request: &HostRequest) {
        let mut stream = UnixStream::connect(self.directory.path().join("host.sock")).await.unwrap();
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 7, request);
        stream.write_all(&bytes).await.unwrap();
    }
}

fn open(step: &str, command: &[&str]) -> HostRequest {
    HostRequest::Open(Box::new(request(step, command)))
}

/// Opens a shell for a single command and waits some time for a place.
fn open_for_command(step: &str, wait: Duration) -> HostRequest {
    HostRequest::Open(Box::new(request(step, &["bash", "--norc"]).at(PlacePolicy::ForCommand(wait))))
}

fn request(step: &str, command: &[&str]) -> OpenRequest {
    let spec = Spec {
        arguments: command.iter().map(Into::into).collect(),
        command: command.join(" "),
        directory: "/".into(),
        inherited: std::env::vars_os().collect(),
        environment: Vec::new(),
        size: Size { cols: 80, rows: 24 },
        name: None,
        opened_by: None,
        step: Some(step.to_owned()),
    };
    spec.into()
}

/// Runs a line in a shell without integration.
fn run(terminal: &TerminalId, step: &str, command: &str) -> HostRequest {
    let request = CommandRequest {
        command: command.to_owned(),
        working_directory: None,
        timeout: Duration::from_secs(60),
        limit: Limit::HeadAndTail(1000),
        input: false,
        integrate: false,
        step: Some(step.to_owned()),
        approved_at: None,
        by: None,
    };
    HostRequest::Terminal(terminal.clone(), TerminalRequest::Run(request))
}

async fn open_terminal(client: &Host, request: &HostRequest) -> TerminalId {
    let result: Result<OpenedTerminal, OpenRefused> = client.ask(request).await.unwrap();
    let id = result.unwrap().id;
    let ready = TerminalRequest::Ready(
        steplatch_terminal::Quiet::for_duration(Duration::from_millis(300)),
        Duration::from_secs(60),
    );
    let _: steplatch_terminal::View = client.ask(&HostRequest::Terminal(id.clone(), ready)).await.unwrap();
    id
}

async fn list(client: &Host) -> Vec<Description> {
    client.ask(&HostRequest::List).await.unwrap()
}

/// A host ignores the requests of a superseded daemon but keeps its connection: closing it would signal the end of the
/// host.
#[tokio::test]
async fn new_daemon_supersedes_only_its_predecessor() {
    let host = TestHost::new(Options::default());
    let (observer, first) = (host.client().await, host.connect(Role::Daemon).await);
    let before = open_terminal(&first, &open("run/open/1", &["cat"])).await;
    let second = host.connect(Role::Daemon).await;
    let (superseded_request, current_request) = (open("run/open/2", &["cat"]), open("run/open/3", &["cat"]));
    let third = tokio::select! {
        reply = first.ask::<Result<OpenedTerminal, OpenRefused>>(&superseded_request) => panic!("{reply:?}"),
        third = open_terminal(&second, &current_request) => third,
    };
    let mut terminal_ids: Vec<TerminalId> = list(&observer).await.into_iter().map(|terminal| terminal.id).collect();
    terminal_ids.sort();
    let mut expected = [before, third];
    expected.sort();
    assert_eq!(terminal_ids, expected);
    assert!(!first.is_lost());
}

#[tokio::test]
async fn abandoned_opening_completes_once_for_later_clients() {
    let host = TestHost::new(Options::default());
    let request = open("run/open/1", &["cat"]);
    let mut ids = Vec::new();
    for _ in 0..20 {
        host.request_and_disconnect(&request).await;
    }
    for _ in 0..3 {
        let client = host.client().await;
        let result: Result<OpenedTerminal, OpenRefused> = client.ask(&request).await.unwrap();
        ids.push(result.unwrap().id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(list(&host.client().await).await.len(), 1);
}

const STEP: &str = "run_p4vawdxx5897paed/build/1";

#[tokio::test]
async fn abandoned_command_runs_once_and_keeps_its_result() {
    let host = TestHost::new(Options::default());
    let client = host.client().await;
    let id = open_terminal(&client, &open_for_command(STEP, Duration::from_secs(60))).await;
    let file = host.directory.path().join("ran");
    let request = run(&id, STEP, &format!("echo x >> {} && echo done", file.display()));
    for _ in 0..20 {
        host.request_and_disconnect(&request).await;
    }
    let result: CommandReply = client.ask(&request).await.unwrap();
    let closed: steplatch_terminal::Closed =
        client.ask(&HostRequest::Terminal(id.clone(), TerminalRequest::Close(None))).await.unwrap();
    assert!(closed.survivors.is_empty());
    let repeated_result: CommandReply = host.client().await.ask(&request).await.unwrap();
    assert_eq!(repeated_result, result);
    assert!(result.unwrap().output.contains("done"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n");
    assert_eq!(client.unsettled().await.unwrap(), [STEP]);
    client.settle(STEP);
    assert!(client.unsettled().await.unwrap().is_empty());
    // A late request runs nothing and does not report a success.
    let late_reply = client.ask::<CommandReply>(&request).await;
    assert_eq!(late_reply.unwrap_err(), crate::AskError::Refused(Refusal::OutcomeUnknown));
}

#[tokio::test]
async fn single_command_shell_closes_only_after_its_step_is_settled() {
    let host = TestHost::new(Options::default());
    let client = host.client().await;
    let id = open_terminal(&client, &open_for_command(STEP, Duration::from_secs(60))).await;
    let result: CommandReply = client.ask(&run(&id, STEP, "echo done")).await.unwrap();
    result.unwrap();
    drop(client);
    let client = host.client().await;
    assert_eq!(list(&client).await.len(), 1);
    assert_eq!(client.unsettled().await.unwrap(), [STEP]);
    client.settle("run_p4vawdxx5897paed/");
    eventually("the shell of the command is closed", async || list(&client).await.is_empty()).await;
}

#[tokio::test]
async fn abandoned_opening_leaves_no_terminal() {
    let host = TestHost::new(Options::default());
    let client = host.client().await;
    for number in 0..20 {
        let (step, second_client) = (format!("run_p4vawdxx5897paed/build/{number}"), host.client().await);
        let asking = tokio::spawn({
            let request = open_for_command(&step, Duration::from_secs(60));
            async move { second_client.ask::<Result<OpenedTerminal, OpenRefused>>(&request).await }
        });
        eventually("the opening has begun", async || client.unsettled().await.unwrap() == [step.clone()]).await;
        client.settle(&step);
        asking.await.unwrap().unwrap().unwrap();
        eventually("the terminal is closed", async || list(&client).await.is_empty()).await;
    }
}

#[tokio::test]
async fn single_command_shell_waits_for_a_place() {
    let host = TestHost::new(Options { max_terminals: 1, ..Options::default() });
    let client = host.client().await;
    let first = open_terminal(&client, &open("run_p4vawdxx5897paed/open/1", &["cat"])).await;
    let refusal: Result<OpenedTerminal, OpenRefused> =
        client.ask(&open_for_command(STEP, Duration::from_millis(100))).await.unwrap();
    let refusal = refusal.unwrap_err();
    assert_eq!(refusal.to_string(), "1 terminals are open, which is the limit, and none was closed within 0.1 s");
    let waiting = tokio::spawn({
        let client = host.client().await;
        async move { open_terminal(&client, &open_for_command(STEP, Duration::from_secs(60))).await }
    });
    eventually("the opening waits", async || client.unsettled().await.unwrap().contains(&STEP.to_owned())).await;
    let other_opening: Result<OpenedTerminal, OpenRefused> = client.ask(&open("other", &["cat"])).await.unwrap();
    assert_eq!(
        other_opening.unwrap_err(),
        OpenRefused::TooMany { max_terminals: 1 },
        "an opening without a wait is refused at once"
    );
    let _: steplatch_terminal::Closed =
        client.ask(&HostRequest::Terminal(first, TerminalRequest::Close(None))).await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test]
async fn terminal_closes_once_for_its_step_and_keeps_the_result() {
    let host = TestHost::new(Options::default());
    let client = host.client().await;
    let terminal = open_terminal(&client, &open("run_p4vawdxx5897paed/open/1", &["cat"])).await;
    let step = "run_p4vawdxx5897paed/close/1";
    let close = HostRequest::Terminal(terminal.clone(), TerminalRequest::CloseOnce(None, step.to_owned()));
    // The requesting client is killed before the answer, and later clients repeat the request.
    host.request_and_disconnect(&close).await;
    eventually("the terminal is closed", async || list(&client).await.is_empty()).await;
    let mut replies = Vec::new();
    for _ in 0..3 {
        let closed: steplatch_terminal::Closed = host.client().await.ask(&close).await.unwrap();
        assert!(closed.exit.is_some(), "the reply has the exit of the program: {closed:?}");
        replies.push(serde_json::to_value(closed).unwrap());
    }
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    assert_eq!(client.unsettled().await.unwrap(), ["run_p4vawdxx5897paed/close/1", "run_p4vawdxx5897paed/open/1"]);
    let _: () = client.ask(&HostRequest::Settle(vec![step.to_owned()])).await.unwrap();
    // A close by another step finds no terminal, and reports that.
    let other =
        HostRequest::Terminal(terminal, TerminalRequest::CloseOnce(None, "run_p4vawdxx5897paed/close/2".to_owned()));
    let late_reply: Result<steplatch_terminal::Closed, _> = client.ask(&other).await;
    assert_eq!(late_reply.unwrap_err(), crate::AskError::Refused(Refusal::NoTerminal));
}

#[tokio::test]
async fn file_is_put_in_place_once_for_its_step() {
    let host = TestHost::new(Options::default());
    let path = host.directory.path().join("file");
    let put = async |transfer: &str| {
        let target = WriteTarget { path: path.clone(), transfer: transfer.to_owned() };
        let client = host.client().await;
        let bytes = b"ours".to_vec();
        let write = FileRequest::Write { target: target.clone(), offset: 0, bytes };
        let _: Result<(), FileError> = client.ask(&HostRequest::File(write)).await.unwrap();
        let (length, digest) = (4, FileDigest::from_content(b"ours"));
        let finish =
            FileRequest::Finish { target, length, digest, mode: None, replace: true, step: Some(STEP.to_owned()) };
        client.ask::<Result<FileWritten, FileError>>(&HostRequest::File(finish)).await.unwrap().unwrap()
    };
    let written = put("t1").await;
    std::fs::write(&path, "changed by others").unwrap();
    assert_eq!(put("t2").await, written);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed by others");
    let client = host.client().await;
    let recorded: Result<Option<FileWritten>, FileError> =
        client.ask(&HostRequest::File(FileRequest::Written(STEP.to_owned()))).await.unwrap();
    assert_eq!(recorded.unwrap(), Some(written));
    let file_count = || std::fs::read_dir(host.directory.path()).unwrap().count();
    eventually("the second copy is removed", async || file_count() == 2).await;
}

/// Returns the greeting of a new session.
async fn greeting() -> Vec<u8> {
    let hello = Hello { client: SessionId::random(), session: SessionId::random(), received: 0, is_new: true };
    let (client_stream, mut server_stream) = tokio::io::duplex(1 << 10);
    let (mut reader, mut writer) = tokio::io::split(client_stream);
    let (mut session, mut rest, mut bytes) = (Session::new(), BytesMut::new(), Vec::new());
    tokio::select! {
        read = server_stream.read_buf(&mut bytes) => read.unwrap(),
        result = greet(&mut session, hello, &mut reader, &mut writer, &mut rest) => panic!("{result:?}"),
    };
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn relay_output_after_the_answer_belongs_to_the_link() {
    let host = TestHost::new(Options::default());
    for _ in 0..200 {
        let (socket, bytes) = (host.directory.path().join("host.sock"), greeting().await);
        let answer = move || {
            let mut stream = connect_link(&socket).unwrap();
            stream.write_all(&bytes).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.read(&mut [0; 1]).unwrap()
        };
        assert_eq!(
            tokio::task::spawn_blocking(answer).await.unwrap(),
            1,
            "the link receives the byte after the answer"
        );
    }
}
