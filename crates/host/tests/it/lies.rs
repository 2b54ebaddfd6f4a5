//! Lies of remote hosts at each layer: the relay, the link, the frames, and the answers of the terminal host. A row of
//! a table is a lie, with its required consequence.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_files::FileRequest;
use steplatch_host::{
    AskError, AttachEvent, CLIENT_CONNECT_TIMEOUT, ConnectFailure, CopyOptions, DialedTargets, HostRequest,
    HostedTerminal, Hosts, HostsError, MachineSecretSink, OpenSsh, PlacePolicy, RemoteError, RemoteHostConfig,
    RemoteHostState, Role, SshEnvironment, Starter, TerminalRequest, TransferError, Transport,
};
use steplatch_ids::TerminalId;
use steplatch_liar::{Liar, Lie, Lies, SOCKET, answer, record, secret_frames, to_msgpack, with};
use steplatch_patience::eventually;
use steplatch_terminal::{CommandRequest, Input, Limit, Part, SecretText, Signal, Spec};
use tempfile::TempDir;
use tokio::time::Instant;

use super::hosts::{spec, wait};
use super::remote::directory;

/// All secrets reported by the machine.
#[derive(Debug, Default)]
struct SecretLog(Mutex<Vec<(String, SecretText)>>);

impl MachineSecretSink for SecretLog {
    fn place(&self, _: &TerminalId, _: &str) {}

    fn hide_on(&self, machine: &str, secret: SecretText) {
        self.0.lock().unwrap().push((machine.to_owned(), secret));
    }

    fn forget(&self, _: &TerminalId) {}
}

/// A daemon's hosts, with a lying machine as `box`.
struct Scene {
    liar: Liar,
    hosts: Hosts,
    secret_log: Arc<SecretLog>,
    directory: TempDir,
}

fn config(name: &str) -> RemoteHostConfig {
    RemoteHostConfig { name: name.to_owned(), ssh: "ana@box".to_owned() }
}

async fn local_hosts(directory: &Path) -> Hosts {
    let on_secret = |secret| panic!("a machine hides {secret:?} everywhere");
    Hosts::find(Role::Visitor, directory, directory, Starter::InProcess(Box::default()), "1", on_secret).await.unwrap()
}

impl Scene {
    async fn new(lies: Lies) -> Self {
        Self::with_liar(Liar::new(lies)).await
    }

    async fn with_liar(liar: Liar) -> Self {
        let (directory, secret_log) = (directory(), Arc::<SecretLog>::default());
        let hosts = local_hosts(directory.path()).await;
        hosts.enable_remote(liar.setup(directory.path().join("machines"), secret_log.clone()));
        hosts.configure_remotes(&[config("box")]);
        Self { liar, hosts, secret_log, directory }
    }

    async fn open_as(&self, spec: Spec) -> Result<HostedTerminal, HostsError> {
        Ok(self.hosts.open_on(spec, Some("box"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await?.0)
    }

    async fn open(&self) -> HostedTerminal {
        self.open_as(spec(&["bash"])).await.unwrap()
    }

    async fn check(&self) -> Result<(), RemoteError> {
        self.hosts.check_remote("box", Duration::from_secs(30)).await.map(drop)
    }
}

/// Returns the reason for the refusal of an answer.
fn refusal<T: std::fmt::Debug>(answer: Result<T, impl Into<AskError> + std::fmt::Debug>, lie: &str) -> &'static str {
    match answer.map_err(Into::into) {
        Err(AskError::Implausible { host, what }) if host == "box" => what,
        other => panic!("{lie}: {other:?}"),
    }
}

fn ask_error<E: std::fmt::Debug>(error: steplatch_host::TerminalError<E>) -> AskError {
    match error {
        steplatch_host::TerminalError::HostRequest(error) => error,
        error @ steplatch_host::TerminalError::Refused(_) => panic!("{error:?}"),
    }
}

fn transfer_error(error: TransferError) -> AskError {
    match error {
        TransferError::HostRequest(error) => error,
        other => panic!("{other:?}"),
    }
}

fn is_view(request: &TerminalRequest) -> bool {
    matches!(request, TerminalRequest::View(_))
}

/// Lies about answers to requests to a terminal.
#[tokio::test(flavor = "multi_thread")]
async fn impossible_answer_fails_only_its_request() {
    enum Request {
        View,
        Picture,
        Scrollback,
        Rows,
        Read,
        Send,
        Wait,
        Run,
        Inputs,
        Pieces,
        Variables,
        State,
        FewRows,
    }
    use Request::{FewRows, Inputs, Picture, Pieces, Read, Rows, Run, Scrollback, Send, State, Variables, View, Wait};

    const HUGE: u64 = u64::MAX;
    let (view, picture, delta) = (answer::view, answer::picture, answer::delta);
    let run = |pointer: &str, value: Value| with(picture(), &format!("/rows/0/1{pointer}"), value);
    let waited = |pointer: &str, value: Value| with(json!({"Ok": [answer::waited(), view()]}), pointer, value);
    let ran = |pointer: &str, value: u64| json!({"Ok": with(answer::command(), pointer, value)});
    let logged = |action: Value| json!([with(answer::input(), "/action", action)]);
    let rows = |rows: Value| {
        let delta = with(with(delta(), "/height", 24), "/rows", rows);
        with(delta, "/update/picture/rows", json!([[], []]))
    };
    let size = "a size that no terminal has";
    let offset = "an offset that no output has";
    let range = "a range that ends before it begins";
    let time = "a time that no clock shows";
    let lies: Vec<(&str, Request, Value, &str)> = vec![
        ("a view without columns", View, with(view(), "/size/cols", 0), size),
        ("a view of 65,535 rows", View, with(view(), "/size/rows", 65_535), size),
        ("a view with an impossible end offset", View, with(view(), "/end", HUGE), offset),
        (
            "a screen that its size cannot hold",
            View,
            with(with(view(), "/size", json!({"cols": 2, "rows": 2})), "/screen", "x".repeat(2000)),
            "a screen that is larger than its size",
        ),
        ("no columns", Picture, with(picture(), "/cols", 0), "a picture without columns, or with too many"),
        ("65,535 columns", Picture, with(picture(), "/cols", 65_535), "a picture without columns, or with too many"),
        ("no rows", Picture, with(picture(), "/rows", json!([])), "a picture without rows, or with too many"),
        (
            "3,000 rows",
            Scrollback,
            with(picture(), "/rows", json!(vec![json!([]); 3000])),
            "a picture without rows, or with too many",
        ),
        ("cells beside the screen", Picture, run("/col", json!(79)), "cells beside the screen"),
        ("a column whose end overflows", Picture, run("/col", json!(65_535)), "cells beside the screen"),
        ("cells on top of each other", Picture, run("/col", json!(1)), "cells on top of each other"),
        ("cells without columns", Picture, run("/cols", json!(0)), "cells on top of each other"),
        (
            "a cell with too much text",
            Picture,
            run("/text", json!("x".repeat(10_000))),
            "more text than fits in its cells",
        ),
        (
            "a palette of a thousand colours",
            Picture,
            with(picture(), "/palette", json!(vec![json!([1, [0, 0, 0]]); 1000])),
            "a palette with too many colours",
        ),
        ("a screen of 65,535 rows", Rows, with(delta(), "/height", 65_535), size),
        ("fewer rows than there are", Rows, with(delta(), "/height", 24), "rows that are missing"),
        ("rows in disorder", Rows, rows(json!([3, 2])), "rows that are not in order"),
        ("rows below the screen", Rows, rows(json!([2, 24])), "rows below the screen"),
        ("rows without numbers", Rows, rows(json!([2])), "rows without their numbers"),
        ("output that continues at the maximum offset", Read, with(answer::excerpt(), "/next", HUGE), offset),
        (
            "output that was dropped before it was printed",
            Read,
            with(answer::excerpt(), "/dropped_before", HUGE),
            offset,
        ),
        ("input at the maximum offset", Send, json!({"Ok": {"offset": HUGE, "view": view()}}), offset),
        (
            "an input with an impossible view",
            Send,
            json!({"Ok": {"offset": 0, "view": with(view(), "/size/cols", 1)}}),
            size,
        ),
        ("a match that ends before it begins", Wait, waited("/Ok/0/found/range", json!({"start": 9, "end": 2})), range),
        (
            "a match of an unrequested pattern",
            Wait,
            waited("/Ok/0/found/pattern", json!(7)),
            "a match of a pattern that was not given",
        ),
        ("a match without its text", Wait, waited("/Ok/0/found", Value::Null), "a match without its text"),
        (
            "more lines than rows",
            View,
            with(view(), "/screen", "x\n".repeat(25)),
            "a screen that is larger than its size",
        ),
        (
            "endless text at the prompt",
            View,
            with_field(view(), "typed", json!("x".repeat(400_000))),
            "a text that is too long",
        ),
        (
            "endless lines that were not entered",
            Run,
            json!({"Ok": with_field(answer::command(), "not_entered", json!("x\n".repeat(200_000)))}),
            "a text that is too long",
        ),
        ("an input at an impossible time", Inputs, json!([with(answer::input(), "/at", impossible_time())]), time),
        (
            "a holder since an impossible time",
            Run,
            json!({"Err": {"Held": {"name": "ana", "since": impossible_time()}}}),
            time,
        ),
        (
            "a match with thousands of groups",
            Wait,
            waited("/Ok/0/found/groups", json!(vec![Value::Null; 9000])),
            "a match with too many groups",
        ),
        ("a command that ended before it began", Run, ran("/offset", 9), range),
        ("a command that ends at the maximum offset", Run, ran("/end", HUGE), offset),
        ("a size in the log that no terminal has", Inputs, logged(json!({"Resized": {"cols": 0, "rows": 9}})), size),
        (
            "a logged command that ended before it began",
            Inputs,
            logged(json!({"Command": {"command": {"text": "ls"}, "directory": null,
                "outcome": {"Ended": {"exit_code": 0, "begin": 9, "end": 2}}}})),
            range,
        ),
        ("a log of a million inputs", Inputs, json!(vec![answer::input(); 10_001]), "a list that is too long"),
        (
            "an input with the number 0",
            Inputs,
            json!([with(answer::input(), "/number", 0)]),
            "an input with the number 0",
        ),
        ("an input twice", Inputs, json!([answer::input(), answer::input()]), "a log of inputs that is not in order"),
        ("fewer texts than were requested", Pieces, json!([]), "more or fewer texts than were requested"),
        (
            "a variable twice",
            Variables,
            json!({"Ok": [["W", {"value": "1", "exported": true}], ["W", null]]}),
            "more variables than were requested",
        ),
        ("an endless change of state", State, json!({"Err": "x".repeat(900_000)}), "a reason that is too long"),
        (
            "more rows above the screen than were requested",
            FewRows,
            with(picture(), "/rows", json!(vec![json!([]); 1006])),
            "more rows than were requested",
        ),
        ("more texts than were requested", Pieces, json!(["", "", ""]), "more or fewer texts than were requested"),
    ];
    for (name, request, lie, expected) in lies {
        let scene =
            Scene::new(Lies::in_terminal_replies(|ask| !matches!(ask, TerminalRequest::Describe), Lie::Value(lie)))
                .await;
        let terminal = scene.open().await;
        let what = match request {
            View => refusal(terminal.view(false).await, name),
            Picture => refusal(terminal.picture().await, name),
            Scrollback => refusal(terminal.scrollback(1000).await, name),
            Rows => refusal(terminal.watch_rows(None).await, name),
            Read => refusal(terminal.read(Part::From(0), Limit::Head(100)).await, name),
            Send => match terminal.send(Input { text: "x".to_owned(), ..Input::default() }).await {
                Err(steplatch_host::SendError::HostRequest(error)) => {
                    assert!(error.is_outcome_unknown(), "{name}: the input may have been typed");
                    refusal(Err::<(), _>(error), name)
                }
                other => panic!("{name}: {other:?}"),
            },
            Wait => refusal(terminal.wait(wait("ab")).await.map_err(ask_error), name),
            Run => refusal(terminal.run(command()).await.map_err(ask_error), name),
            Inputs => refusal(terminal.inputs(0).await, name),
            Variables => refusal(terminal.variables(vec!["W".to_owned()]).await.map_err(ask_error), name),
            State => refusal(terminal.check_state("gate".to_owned()).await.map_err(ask_error), name),
            FewRows => refusal(terminal.scrollback(5).await, name),
            Pieces => refusal(terminal.pieces(vec![(0, 1), (1, 2)], 10).await, name),
        };
        assert_eq!(what, expected, "{name}");
    }
}

/// A time that cannot be formatted.
fn impossible_time() -> Value {
    json!({"secs_since_epoch": i64::MAX, "nanos_since_epoch": 0})
}

/// Returns an answer with a changed field.
fn with_field(mut answer: Value, field: &str, value: Value) -> Value {
    answer[field] = value;
    answer
}

fn command() -> CommandRequest {
    CommandRequest {
        command: "true".to_owned(),
        working_directory: None,
        timeout: Duration::from_secs(5),
        limit: Limit::Head(100),
        input: false,
        integrate: false,
        step: None,
        approved_at: None,
        by: None,
    }
}

/// Lies by omission: missing parts have defaults.
#[tokio::test(flavor = "multi_thread")]
async fn control_characters_in_answers_are_replaced() {
    let text = "a\u{1b}]52;c;aGk=\u{7}b\u{9b}6n\u{7f}";
    let plain = "a\u{fffd}]52;c;aGk=\u{fffd}b\u{fffd}6n\u{fffd}";
    let reply = move |ask: &HostRequest| {
        let HostRequest::Terminal(_, ask) = ask else { return None };
        let style = with(answer::picture(), "/rows/0/0/text", text);
        Some(Lie::Value(match ask {
            TerminalRequest::View(true) => {
                with(answer::view(), "/screen", format!("\u{1b}[1;31mred\u{1b}[m\u{1b}[6n{text}"))
            }
            TerminalRequest::View(false) => {
                let view = with(with(answer::view(), "/screen", format!("{text}\n")), "/title", format!("t\n{text}"));
                with(view, "/cursor", json!({"row": 65_535, "col": 65_535, "visible": true}))
            }
            TerminalRequest::Read(..) => with(answer::excerpt(), "/head", text),
            TerminalRequest::Run(_) => json!({"Ok": with(answer::command(), "/output", text)}),
            TerminalRequest::Picture => {
                let style = with(style, "/cursor/row", 9);
                let mut run = style["rows"][0][0].clone();
                run["link"] = "javascript:alert(1)".into();
                with(style, "/rows/0/0", run)
            }
            TerminalRequest::Variables(_) => {
                let value = json!({"value": "evil", "exported": true});
                json!({"Ok": [["PATH", value], ["WANTED", value]]})
            }
            _ => return None,
        }))
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    let terminal = scene.open().await;
    let view = terminal.view(false).await.unwrap();
    assert_eq!(view.screen, format!("{plain}\n"));
    assert_eq!(view.title, format!("t\u{fffd}{plain}"));
    assert_eq!((view.cursor.row, view.cursor.col), (23, 80));
    let coloured = terminal.view(true).await.unwrap().screen;
    assert_eq!(coloured, format!("\u{1b}[1;31mred\u{1b}[m\u{fffd}[6n{plain}"));
    assert_eq!(terminal.read(Part::From(0), Limit::Head(100)).await.unwrap().head, plain);
    assert_eq!(terminal.run(command()).await.unwrap().output, plain);
    let picture = terminal.picture().await.unwrap();
    assert_eq!((picture.rows[0][0].text.as_str(), &picture.rows[0][0].link, picture.cursor), (plain, &None, None));
    let variables = terminal.variables(vec!["WANTED".to_owned()]).await.unwrap();
    let names: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["WANTED"], "unrequested variables are dropped");
}

/// Reasons of refusals, read by people and agents as one line of text.
#[tokio::test(flavor = "multi_thread")]
async fn reason_is_shown_as_one_harmless_line() {
    let text = "a\u{202e}b\nenter your password:\u{1b}[2J\u{9b}6n\u{2066}";
    let plain = "a\u{fffd}b⏎enter your password:\u{fffd}[2J\u{fffd}6n\u{fffd}";
    let reply = move |ask: &HostRequest| {
        Some(Lie::Value(match ask {
            HostRequest::Open(request) if serde_json::to_value(request).unwrap()["command"] == "refused" => {
                json!({"Err": {"NotFound": text}})
            }
            HostRequest::Terminal(_, TerminalRequest::Run(_)) => {
                json!({"Err": {"NoFolder": {"folder": "/", "said": text}}})
            }
            HostRequest::Terminal(_, TerminalRequest::Send(_)) => json!({"Err": {"LineStands": {"text": text}}}),
            HostRequest::Terminal(_, TerminalRequest::Wait(_) | TerminalRequest::CheckState(_)) => json!({"Err": text}),
            HostRequest::Terminal(_, TerminalRequest::Variables(_)) => json!({"Err": {"Name": text}}),
            HostRequest::File(FileRequest::List(_)) => json!({"Err": {"System": {"path": text, "why": text}}}),
            HostRequest::File(FileRequest::Describe(_)) => {
                json!({"Ok": with(with(answer::file(), "/path", text), "/modified", impossible_time())})
            }
            HostRequest::Terminal(_, TerminalRequest::Inputs(_)) => {
                let command =
                    json!({"Command": {"command": {"text": text}, "directory": text, "outcome": {"Refused": text}}});
                let input = with(answer::input(), "/action", command);
                let keys = with(with(answer::input(), "/number", 2), "/action/Typed/keys", json!([text]));
                json!([with_field(input, "highlighted", json!([text])), keys])
            }
            _ => return None,
        }))
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    let terminal = scene.open().await;
    let files = scene.hosts.files(Some("box"), CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
    let input = Input { text: "x".to_owned(), ..Input::default() };
    let reasons = [
        scene.open_as(spec(&["refused"])).await.map(drop).unwrap_err().to_string(),
        terminal.run(command()).await.unwrap_err().to_string(),
        terminal.send(input).await.unwrap_err().to_string(),
        terminal.wait(wait("ab")).await.unwrap_err().to_string(),
        terminal.variables(vec!["W".to_owned()]).await.unwrap_err().to_string(),
        terminal.check_state("gate".to_owned()).await.unwrap_err().to_string(),
        files.list("site".into()).await.unwrap_err().to_string(),
    ];
    for reason in reasons {
        assert!(reason.contains(plain), "{reason:?}");
    }
    let facts = files.describe("a".into()).await.unwrap();
    assert_eq!((facts.path.contains(['\u{202e}', '\n', '\u{1b}']), facts.modified), (false, None));
    let inputs = format!("{:?}", terminal.inputs(0).await.unwrap());
    assert!(!inputs.contains("\\u{1b}") && !inputs.contains("\\u{9b}"), "{inputs}");
}

/// Lies about the request in answers about one terminal: gates and holds rely on its name.
#[tokio::test(flavor = "multi_thread")]
async fn answer_cannot_change_the_request() {
    let view = || with_field(answer::view(), "name", json!("production"));
    let reply = move |ask: &HostRequest| {
        let HostRequest::Terminal(_, ask) = ask else { return None };
        Some(Lie::Value(match ask {
            TerminalRequest::Describe => {
                let described = with(answer::description(&TerminalId::random()), "/name", "production");
                with(with(described, "/command", "ssh production"), "/opened_by", "ana (a person)")
            }
            TerminalRequest::View(_) | TerminalRequest::Ready(..) => view(),
            TerminalRequest::Send(_) => json!({"Ok": {"offset": 0, "view": view()}}),
            TerminalRequest::Wait(_) => json!({"Ok": [answer::waited(), view()]}),
            _ => return None,
        }))
    };
    let liar = Liar::new(Lies::in_replies(reply));
    let scene = Scene::with_liar(liar).await;
    let requested = Spec { name: Some("work".to_owned()), step: Some("step".to_owned()), ..spec(&["bash"]) };
    let terminal = scene.open_as(requested).await.unwrap();
    let by_name = scene.hosts.get("work").await.unwrap().unwrap();
    let by_step = scene.hosts.opened_by("step").await.unwrap().unwrap();
    for terminal in [terminal, by_name, by_step] {
        let described = terminal.describe().await.unwrap();
        assert_eq!((&described.id, described.name.as_deref()), (terminal.id(), Some("work")));
        assert_eq!((described.command.as_str(), described.opened_by), ("bash", None));
        let sent = terminal.send(Input { text: "x".to_owned(), ..Input::default() }).await.unwrap();
        let names = [
            terminal.view(false).await.unwrap().name,
            terminal.view(true).await.unwrap().name,
            terminal.wait(wait("ab")).await.unwrap().1.name,
            sent.view.unwrap().name,
        ];
        assert!(names.iter().all(|name| name.as_deref() == Some("work")), "{names:?}");
    }
}

/// Lies about files written by a step.
#[tokio::test(flavor = "multi_thread")]
async fn file_is_written_only_as_requested() {
    let other = json!({"path": "/etc/passwd", "mode": 0o644, "replaced": false, "unchanged": false,
        "content": [7, "07".repeat(32)]});
    let step = "run_0123456789abcdef/put/1";
    for (name, is_finish) in [("a step that was never begun", false), ("another content", true)] {
        let other = other.clone();
        let reply = move |ask: &HostRequest| match ask {
            HostRequest::File(FileRequest::Finish { .. }) if is_finish => Some(Lie::Value(json!({"Ok": other}))),
            HostRequest::File(FileRequest::Written(_)) if !is_finish => Some(Lie::Value(json!({"Ok": other}))),
            _ => None,
        };
        let scene = Scene::new(Lies::in_replies(reply)).await;
        let files = scene.hosts.files(Some("box"), CLIENT_CONNECT_TIMEOUT, Some(step.to_owned())).await.unwrap();
        let put = files.put(Path::new("run.sh"), b"mine", None, true).await;
        match is_finish {
            true => assert_eq!(
                refusal(put.map_err(transfer_error), name),
                "a written file whose content differs from what was sent"
            ),
            false => assert_eq!((put.unwrap().length, name), (4, name)),
        }
    }
}

/// Connections that end immediately.
#[tokio::test(start_paused = true)]
async fn disconnecting_machine_is_contacted_once_a_second() {
    let liar = Liar::new(Lies::default());
    let scene = Scene::with_liar(liar.clone()).await;
    scene.open().await;
    let (began, before) = (Instant::now(), liar.dial_count());
    while began.elapsed() < Duration::from_secs(600) {
        let last = liar.dial_count();
        liar.drop_connections();
        while liar.dial_count() == last {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let dial_count = liar.dial_count() - before;
    // Two connections for each pause: one for the unknown session, and one for a new session.
    assert!((100..1300).contains(&dial_count), "{dial_count} in ten minutes");
}

/// Lists that cause unanswered look-ups.
#[tokio::test(start_paused = true)]
async fn unanswered_lookups_do_not_delay_a_list() {
    let reply = |ask: &HostRequest| match ask {
        HostRequest::Open(request) => {
            let step = serde_json::to_value(request).unwrap()["step"].as_str().unwrap().to_owned();
            step.starts_with("lost").then_some(Lie::Silence)
        }
        HostRequest::OpenedBy(_) => Some(Lie::Silence),
        HostRequest::List => Some(Lie::Value(json!([answer::description(&TerminalId::random())]))),
        _ => None,
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    scene.open().await;
    for number in 0..16 {
        let opening = scene.open_as(Spec { step: Some(format!("lost{number}")), ..spec(&["bash"]) });
        assert!(tokio::time::timeout(Duration::from_secs(5), opening).await.is_err());
    }
    for _ in 0..3 {
        let began = Instant::now();
        scene.hosts.list().await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

/// Lies about the form of an answer.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_answer_leaves_the_outcome_unknown() {
    let of_another_type = json!({"Ok": {"offset": 0, "view": null}});
    let view = to_msgpack(&json!({"Ok": answer::view()}));
    let groups = json!({"Ok": {"Ok": [{"found": {"groups": vec![Value::Null; 1_000_000]}}]}});
    let lies: [(&str, Lie); 9] = [
        ("a million values of a byte", Lie::Body(to_msgpack(&groups))),
        ("another type", Lie::Value(of_another_type)),
        ("a number", Lie::Value(json!(7))),
        ("nothing", Lie::Body(Vec::new())),
        ("half of an answer", Lie::Body(view[..view.len() / 2].to_vec())),
        ("bytes that are not a message", Lie::Body(vec![0xc1; 100])),
        // An array of four billion elements and a text of four gigabytes, without any content.
        ("an array without its elements", Lie::Body(vec![0x81, 0xa2, b'O', b'k', 0xdd, 0xff, 0xff, 0xff, 0xff])),
        ("a text without its bytes", Lie::Body(vec![0x81, 0xa2, b'O', b'k', 0xdb, 0xff, 0xff, 0xff, 0xff])),
        ("a million nested arrays", Lie::Body(vec![0x91; 1_000_000])),
    ];
    for (name, lie) in lies {
        let scene = Scene::new(Lies::in_terminal_replies(is_view, lie)).await;
        let error = scene.open().await.view(false).await.unwrap_err();
        assert!(matches!(error, AskError::Garbled(_)) && error.is_outcome_unknown(), "{name}: {error:?}");
    }
    // The second answer belongs to no request.
    let scene = Scene::new(Lies::in_terminal_replies(is_view, Lie::Twice(answer::view()))).await;
    let terminal = scene.open().await;
    for _ in 0..3 {
        assert_eq!(terminal.view(false).await.unwrap().screen, "$ ");
    }
}

/// Lies about the requested amount.
#[tokio::test(flavor = "multi_thread")]
async fn overlong_answer_fails_only_its_request() {
    let (long, more) = ("x".repeat(101), "more text than was requested");
    let of = |ask: fn(&TerminalRequest) -> bool, value: Value| Lies::in_terminal_replies(ask, Lie::Value(value));
    let is_run = |ask: &TerminalRequest| matches!(ask, TerminalRequest::Run(_));
    let is_wait = |ask: &TerminalRequest| matches!(ask, TerminalRequest::Wait(_));
    let ran = |lie: Value| async move {
        let terminal = Scene::new(of(is_run, lie)).await;
        let answer = terminal.open().await.run(command()).await.map_err(ask_error);
        refusal(answer, "a command")
    };
    assert_eq!(ran(json!({"Ok": with(answer::command(), "/output", long.clone())})).await, more);
    assert_eq!(ran(json!({"Ok": with(answer::command(), "/tail", long.clone())})).await, more);
    assert_eq!(
        ran(json!({"Err": {"NotIntegrated": {"program": "x".repeat(200_000)}}})).await,
        "a reason that is too long"
    );
    let read =
        Scene::new(of(|ask| matches!(ask, TerminalRequest::Read(..)), with(answer::excerpt(), "/head", long.clone())));
    assert_eq!(refusal(read.await.open().await.read(Part::From(0), Limit::Head(100)).await, "output"), more);
    let pieces = Scene::new(of(|ask| matches!(ask, TerminalRequest::Pieces(..)), json!([long])));
    assert_eq!(refusal(pieces.await.open().await.pieces(vec![(0, 1)], 100).await, "pieces"), more);
    let found = with(json!({"Ok": [answer::waited(), answer::view()]}), "/Ok/0/found/text", "x".repeat(5 << 20));
    let waited = Scene::new(of(is_wait, found)).await.open().await.wait(wait("ab")).await.map_err(ask_error);
    assert_eq!(refusal(waited, "a match"), "a match that is too long");

    // A far too large answer is not even stored, and the connection continues.
    let scene = Scene::new(Lies::in_terminal_replies(is_view, Lie::Body(vec![0x91; 20 << 20]))).await;
    let terminal = scene.open().await;
    let error = terminal.view(false).await.unwrap_err();
    assert!(error.is_outcome_unknown() && error.to_string().contains("longer than the answer"), "{error}");
    terminal.describe().await.unwrap();
    assert_eq!(scene.liar.dial_count(), 1);
    // An error quotes only a short text.
    let scene = Scene::new(Lies::in_terminal_replies(is_view, Lie::Value(json!({"x".repeat(500_000): 1})))).await;
    let error = scene.open().await.view(false).await.unwrap_err();
    assert!(error.to_string().len() < 1000, "{}", error.to_string().len());
}

/// Lists of millions of entries, each of a few bytes.
#[tokio::test(flavor = "multi_thread")]
async fn endless_list_is_refused_without_using_memory() {
    let list = |entry: &[u8], count: u32| {
        let mut body = vec![0x81, 0xa2, b'O', b'k', 0xdd];
        body.extend(count.to_be_bytes());
        body.extend(entry.repeat(count as usize));
        body
    };
    let secrets = {
        let mut body = vec![0x81, 0xa2, b'O', b'k', 0x81, 0xa7];
        body.extend(b"secrets");
        body.extend(&list(&[0x92, 0xc0, 0xa0], 5_000_000)[4..]);
        body
    };
    let lie = move |ask: &HostRequest| matches!(ask, HostRequest::Hello { .. }).then(|| Lie::Body(secrets.clone()));
    let failed = Scene::new(Lies::in_replies(lie)).await.check().await.unwrap_err();
    assert!(failed.to_string().contains("longer than the answer"), "{failed}");

    let (many, endless) = (list(&[0xa0], 1_000_000), list(&[0xa0], 20_000_000));
    let is_endless = Arc::new(AtomicBool::new(false));
    let endless_now = is_endless.clone();
    let lie = move |ask: &HostRequest| match ask {
        HostRequest::Unsettled if endless_now.load(Ordering::Relaxed) => Some(Lie::Body(endless.clone())),
        HostRequest::Unsettled => Some(Lie::Body(many.clone())),
        HostRequest::List => Some(Lie::Body(list(&[0x80], 3_000_000))),
        _ => None,
    };
    let scene = Scene::new(Lies::in_replies(lie)).await;
    let terminal = scene.open().await;
    assert_eq!(scene.hosts.unsettled(&mut std::collections::BTreeSet::new()).await, [""; 0]);
    is_endless.store(true, Ordering::Relaxed);
    assert_eq!(scene.hosts.unsettled(&mut std::collections::BTreeSet::new()).await, [""; 0]);
    let terminal_ids: Vec<_> = scene.hosts.list().await.into_iter().map(|listed| listed.description.id).collect();
    assert_eq!(terminal_ids, [terminal.id().clone()], "the list has the last known state");
    terminal.view(false).await.unwrap();
    assert_eq!(scene.liar.dial_count(), 1, "the connection is kept");
}

/// Lies about the end of a frame and answers that end the session.
#[tokio::test(flavor = "multi_thread")]
async fn host_with_repeated_disconnects_is_abandoned() {
    let lies = [
        ("a frame of four gigabytes", Lie::Frames(vec![0xff; 12])),
        ("a frame without a number", Lie::Frames(vec![0, 0, 0, 3, 1, 2, 3])),
        ("the end of the session", Lie::End),
    ];
    for (name, lie) in lies {
        let scene = Scene::new(Lies::in_terminal_replies(is_view, lie)).await;
        let terminal = scene.open().await.with_connect_timeout(Duration::from_secs(60));
        let error = terminal.view(false).await.unwrap_err();
        assert!(matches!(error, AskError::ConnectionLost { .. }), "{name}: {error:?}");
        let views = scene
            .liar
            .received_asks()
            .into_iter()
            .filter(|ask| matches!(ask, HostRequest::Terminal(_, ask) if is_view(ask)));
        assert_eq!(views.count(), 4, "{name}");
        // An operation that may be repeated only under its step is not reported as failed.
        let scene =
            Scene::new(Lies::in_terminal_replies(|ask| matches!(ask, TerminalRequest::Send(_)), Lie::End)).await;
        let error = scene.open().await.send(Input { text: "x".to_owned(), ..Input::default() }).await.unwrap_err();
        let steplatch_host::SendError::HostRequest(error) = error else { panic!("{name}: {error:?}") };
        assert!(error.is_outcome_unknown(), "{name}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_times_out() {
    let silent = |ask: &HostRequest| match ask {
        HostRequest::Terminal(..) | HostRequest::List => Some(Lie::Silence),
        _ => None,
    };
    let scene = Scene::new(Lies::in_replies(silent)).await;
    let terminal = scene.open().await;
    let seconds = async |request: Pin<Box<dyn Future<Output = ()> + '_>>| {
        let began = Instant::now();
        request.await;
        began.elapsed().as_secs_f64()
    };
    let silent = AskError::RemoteHostSilent { host: "box".to_owned() };
    let viewed = seconds(Box::pin(async { assert_eq!(terminal.view(false).await.unwrap_err(), silent) })).await;
    let attached = seconds(Box::pin(async { assert_eq!(terminal.attach().await.unwrap_err(), silent) })).await;
    let typed = seconds(Box::pin(async {
        let input = Input { text: "x".to_owned(), ..Input::default() };
        let steplatch_host::SendError::HostRequest(error) = terminal.send(input).await.unwrap_err() else {
            panic!("refused")
        };
        assert!(error.is_outcome_unknown(), "{error:?}");
    }));
    assert!(viewed < 31.0 && attached < 61.0 && typed.await < 61.0, "{viewed} {attached}");
    // A list shows the last known state of the terminal, and that its machine does not answer. Only the first list
    // waits long.
    for limit in [11.0, 2.5, 2.5] {
        let listed = seconds(Box::pin(async {
            let [listed] = &scene.hosts.list().await[..] else { panic!("one terminal") };
            assert_eq!(&listed.description.id, terminal.id());
            assert!(listed.place.as_ref().unwrap().lost_since.is_some());
        }));
        assert!(listed.await < limit, "{limit}");
    }
}

/// A machine whose host reads nothing while its link stays alive. Each row is a request, with the number of such
/// requests that fill the queue.
#[tokio::test(start_paused = true)]
async fn queue_for_a_stalled_machine_is_bounded() {
    // The limits of the queue, plus the bytes in transit in the link and its sockets.
    const MAX_BYTES: usize = (32 << 20) + (4 << 20);
    const MAX_MESSAGES: usize = 4096;
    let text = |length: usize| Input { text: "x".repeat(length), ..Input::default() };
    for (name, length, limit) in
        [("many bytes", 256 << 10, MAX_BYTES / (256 << 10)), ("many messages", 2000, MAX_MESSAGES + (4 << 20) / 2000)]
    {
        let deaf = |ask: &HostRequest| matches!(ask, HostRequest::Terminal(..)).then_some(Lie::Deafness);
        let scene = Scene::new(Lies::in_replies(deaf)).await;
        let terminal = scene.open().await;
        let requests: Vec<_> = (0..2 * limit)
            .map(|_| {
                let (terminal, input) = (terminal.clone(), text(length));
                tokio::spawn(async move { terminal.send(input).await.unwrap_err() })
            })
            .collect();
        let (mut unsent, mut unknown) = (0, 0);
        for request in requests {
            match request.await.unwrap() {
                steplatch_host::SendError::HostRequest(error @ AskError::NotReading { .. }) => {
                    let words = error.to_string();
                    assert!(
                        words.contains("host 'box'")
                            && words.contains("was not sent")
                            && words.contains("hosts check box"),
                        "{words}"
                    );
                    assert!(!error.is_outcome_unknown());
                    unsent += 1;
                }
                steplatch_host::SendError::HostRequest(error) => {
                    assert!(error.is_outcome_unknown(), "{name}: {error:?}");
                    unknown += 1;
                }
                error => panic!("{name}: {error:?}"),
            }
        }
        assert!(unknown <= limit && unsent >= limit, "{name}: {unsent} refused, {unknown} of {limit} kept");
        // Abandoned requests no longer wait.
        let error = terminal.send(text(length)).await.unwrap_err();
        assert!(
            matches!(error, steplatch_host::SendError::HostRequest(AskError::RemoteHostSilent { .. })),
            "{name}: {error:?}"
        );
        assert_eq!(scene.liar.dial_count(), 1, "{name}: the connection was made once");
    }
}

/// Lies in a host's greeting, and the error of each.
#[tokio::test(start_paused = true)]
async fn silent_host_is_reported_within_half_a_minute() {
    let greeting = |lie: fn() -> Lie| move |ask: &HostRequest| matches!(ask, HostRequest::Hello { .. }).then(lie);
    let silent = Scene::new(Lies::in_replies(greeting(|| Lie::Silence))).await.check().await.unwrap_err();
    assert!(silent.to_string().contains("does not answer"), "{silent}");
    // The head of a long answer without its content.
    let started = || Lie::Frames([60_u32 << 20, 0, 1].map(u32::to_be_bytes).concat());
    let slow = Scene::new(Lies::in_replies(greeting(started))).await.check().await.unwrap_err();
    assert!(slow.to_string().contains("does not answer"), "{slow}");
    let version = with(answer::hello(), "/version", "9.\u{202e}0");
    let scene = Scene::new(Lies::in_replies(move |ask: &HostRequest| {
        matches!(ask, HostRequest::Hello { .. }).then(|| Lie::Value(with(version.clone(), "/wire", 99)))
    }))
    .await;
    let old = scene.check().await.unwrap_err();
    assert!(old.to_string().contains("version 9.0, protocol 99"), "{old}");
}

/// Lies about the owner of an id.
#[tokio::test(flavor = "multi_thread")]
async fn remote_host_cannot_claim_other_terminals() {
    let victim: Arc<Mutex<Option<TerminalId>>> = Arc::default();
    let claimed = victim.clone();
    // The liar knows every name, step and list.
    let reply = move |ask: &HostRequest| {
        let victim = claimed.lock().unwrap().clone()?;
        Some(Lie::Value(match ask {
            HostRequest::Find(_) | HostRequest::OpenedBy(_) => json!(victim),
            HostRequest::Open(_) => json!({"Ok": answer::opened(&victim)}),
            HostRequest::List => json!([with(answer::description(&victim), "/name", "mine")]),
            _ => return None,
        }))
    };
    let liar = Liar::new(Lies::in_replies(reply));
    let scene = Scene::with_liar(liar.clone()).await;
    let _there = scene.open_as(Spec { name: Some("there".to_owned()), ..spec(&["bash"]) }).await.unwrap();
    let (local_terminal, _) = scene.hosts.open(Spec { name: Some("mine".to_owned()), ..spec(&["cat"]) }).await.unwrap();
    *victim.lock().unwrap() = Some(local_terminal.id().clone());
    // The machine is not even contacted.
    for name in ["mine", local_terminal.id().as_str()] {
        let found = scene.hosts.get(name).await.unwrap().unwrap();
        found.send(Input { text: "secret\n".to_owned(), ..Input::default() }).await.unwrap();
    }
    assert_eq!(scene.hosts.get("no such name").await.unwrap().map(|found| found.id().clone()), None);
    assert!(scene.hosts.opened_by("no such step").await.unwrap().is_none());
    // The liar cannot open a terminal with the id of a local one.
    let result = scene.open_as(Spec { step: Some("step".to_owned()), ..spec(&["bash"]) }).await;
    let Err(HostsError::HostRequest(error)) = result else { panic!("{result:?}") };
    assert_eq!(refusal(Err::<(), _>(error), "the id of a local terminal"), "the id of a terminal of another machine");
    // The liar's list is empty, so the terminal opened there is considered closed.
    let terminals = scene.hosts.list().await;
    let ids: Vec<_> = terminals.iter().map(|listed| (&listed.description.id, listed.place.is_some())).collect();
    assert_eq!(ids, [(local_terminal.id(), false)]);
    assert!(scene.hosts.get("there").await.unwrap().is_none());
    // The request may have opened a terminal. Only the machine knows that terminal, and does not report it.
    let error = scene.hosts.opened_by("step").await.unwrap_err();
    assert_eq!(refusal(Err::<(), _>(error), "the id of a local terminal"), "the id of a terminal of another machine");
    let requests = scene.liar.received_asks();
    assert!(!requests.iter().any(|ask| matches!(ask, HostRequest::Find(_))), "{requests:?}");
    let typed = requests.iter().filter(|ask| matches!(ask, HostRequest::Terminal(_, TerminalRequest::Send(_))));
    assert_eq!(typed.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminals_of_two_machines_are_distinct() {
    let victim: Arc<Mutex<Option<TerminalId>>> = Arc::default();
    let claimed = victim.clone();
    let reply = move |ask: &HostRequest| match ask {
        HostRequest::Open(_) => Some(Lie::Value(json!({"Ok": answer::opened(claimed.lock().unwrap().as_ref()?)}))),
        HostRequest::List => Some(Lie::Value(json!([answer::description(claimed.lock().unwrap().as_ref()?)]))),
        _ => None,
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    scene.hosts.configure_remotes(&[config("box"), config("other")]);
    // Both names lead to the liar, and it answers the second request with the first terminal.
    let first = scene.open_as(Spec { name: Some("first".to_owned()), ..spec(&["bash"]) }).await.unwrap();
    *victim.lock().unwrap() = Some(first.id().clone());
    let second = scene.hosts.open_on(spec(&["bash"]), Some("other"), CLIENT_CONNECT_TIMEOUT, PlacePolicy::AtOnce).await;
    assert!(matches!(second, Err(HostsError::HostRequest(AskError::Implausible { .. }))), "{second:?}");
    let result = scene.open_as(spec(&["bash"])).await;
    let Err(HostsError::HostRequest(error)) = result else { panic!("{result:?}") };
    assert_eq!(refusal(Err::<(), _>(error), "the same id twice"), "the id of a terminal that was opened before");
    let terminals = scene.hosts.list().await;
    let places: Vec<_> = terminals.iter().map(|listed| listed.place.as_ref().unwrap().host.as_str()).collect();
    assert_eq!(places, ["box"]);
}

/// Lies about the request: names, commands and times of terminals come from this installation.
#[tokio::test(flavor = "multi_thread")]
async fn list_cannot_change_the_notes_of_this_installation() {
    let names: Arc<Mutex<Option<TerminalId>>> = Arc::default();
    let known = names.clone();
    let reply = move |ask: &HostRequest| {
        let (HostRequest::List, Some(id)) = (ask, known.lock().unwrap().clone()) else { return None };
        let renamed = with(with(answer::description(&id), "/name", "production"), "/command", "ssh production");
        let renamed = with(with(renamed, "/opened_by", "ana"), "/title", "a title\u{1b}]0;x\u{7}");
        Some(Lie::Value(json!([renamed, answer::description(&TerminalId::random())])))
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    let terminal = scene.open_as(Spec { name: Some("work".to_owned()), ..spec(&["bash"]) }).await.unwrap();
    *names.lock().unwrap() = Some(terminal.id().clone());
    let [listed] = &scene.hosts.list().await[..] else { panic!("one terminal") };
    let described = &listed.description;
    assert_eq!((described.name.as_deref(), described.command.as_str()), (Some("work"), "bash"));
    assert_eq!((described.opened_by.as_deref(), described.title.as_str()), (None, "a title\u{fffd}]0;x\u{fffd}"));
    assert!(scene.hosts.get("production").await.unwrap().is_none());
    assert!(scene.hosts.get("work").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_of_an_unanswered_opening_is_found_by_its_step() {
    let is_deaf = Arc::new(AtomicBool::new(true));
    let deaf = is_deaf.clone();
    let reply = move |ask: &HostRequest| match ask {
        // The terminal opens, but the answer is lost.
        HostRequest::Open(_) if deaf.load(Ordering::Relaxed) => Some(Lie::Silence),
        _ => None,
    };
    let liar = Liar::new(Lies::in_replies(reply));
    let scene = Scene::with_liar(liar.clone()).await;
    let opening = scene.open_as(Spec { step: Some("step".to_owned()), ..spec(&["bash"]) });
    let request_received = eventually("the terminal was requested", async || {
        liar.received_asks().iter().any(|ask| matches!(ask, HostRequest::Open(_))).then_some(()).ok_or("not yet")
    });
    tokio::select! {
        opened = opening => panic!("{opened:?}"),
        () = request_received => {}
    }
    is_deaf.store(false, Ordering::Relaxed);
    // The honest answer of the terminal's host.
    let again = scene.open_as(Spec { step: Some("step".to_owned()), ..spec(&["bash"]) }).await.unwrap();
    let found = scene.hosts.opened_by("step").await.unwrap().unwrap();
    assert_eq!(found.id(), again.id());
    // The next daemon finds it, too.
    let notes = scene.directory.path().join("machines");
    let next = local_hosts(directory().path()).await;
    next.enable_remote(liar.setup(notes, Arc::<SecretLog>::default()));
    next.configure_remotes(&[config("box")]);
    let found = next.opened_by("step").await.unwrap().unwrap();
    assert_eq!(found.id(), again.id());
}

/// Sequences that act on a person's terminal instead of drawing on it.
#[tokio::test(flavor = "multi_thread")]
async fn remote_sequences_do_not_affect_a_persons_terminal() {
    let lies = [
        ("the clipboard", "\u{1b}]52;c;aGk=\u{7}"),
        ("a question for the clipboard", "\u{1b}]52;c;?\u{1b}\\"),
        ("a title", "\u{1b}]0;a title\u{7}"),
        ("a tmux title", "\u{1b}ka title\u{1b}\\"),
        ("DA", "\u{1b}[c"),
        ("DA2", "\u{1b}[>c"),
        ("DA3", "\u{1b}[=0c"),
        ("DECID", "\u{1b}Z"),
        ("DSR", "\u{1b}[6n"),
        ("DECDSR", "\u{1b}[?6n"),
        ("ENQ", "\u{5}"),
        ("OSC 11", "\u{1b}]11;?\u{1b}\\"),
        ("OSC 4", "\u{1b}]4;1;?\u{7}"),
        ("DECRQSS", "\u{1b}P$qm\u{1b}\\"),
        ("XTGETTCAP", "\u{1b}P+q544e\u{1b}\\"),
        ("XTVERSION", "\u{1b}[>q"),
        ("DECRQM", "\u{1b}[?2026$p"),
        ("a kitty picture", "\u{1b}_Gi=1,a=q;AAAA\u{1b}\\"),
        ("an iTerm2 file", "\u{1b}]1337;File=name=eA==;size=1:eA==\u{7}"),
        ("a notification", "\u{1b}]777;notify;a;b\u{7}"),
        ("the window size", "\u{1b}[14t"),
        ("a C1 control", "\u{9b}6n"),
        ("a dtterm title", "\u{1b}]l a title\u{1b}\\"),
        ("a title without a number", "\u{1b}];a title\u{7}"),
        ("a Konsole title", "\u{1b}]30;a title\u{7}"),
        ("typing by kitty", "\u{1b}P@kitty-echo|bHMK\u{1b}\\"),
        ("a report of each change of colours", "\u{1b}[?2031h"),
        ("a locked keyboard", "\u{1b}[2h"),
        ("a window operation", "\u{1b}[8;5;5t"),
    ];
    for (name, lie) in lies {
        let around = format!("a{lie}b");
        let bytes = |text: &[u8]| json!({"Bytes": text});
        let (first, last) = around.as_bytes().split_at(around.len() / 2);
        let mut events: Vec<Value> = vec![bytes(around.as_bytes()), bytes(first), bytes(last)];
        // Byte by byte after an unterminated sequence: a full redraw starts over.
        events.extend(around.as_bytes().chunks(1).map(bytes));
        events.push(bytes(b"\x1b]52;c;"));
        events.push(json!({"Redrawn": around}));
        events.push(bytes(b"c"));
        events.push(json!({"Resized": {"cols": 65_535, "rows": 0}}));
        events.push(json!("Closed"));
        let reply = json!({"snapshot": around, "size": {"cols": 80, "rows": 24}});
        let lies = Lies::in_terminal_replies(|ask| matches!(ask, TerminalRequest::Attach), Lie::Events(reply, events));
        let scene = Scene::new(lies).await;
        let mut attached = scene.open().await.attach().await.unwrap();
        assert_eq!(attached.snapshot, "ab", "{name}");
        let (mut output, mut screens) = (Vec::new(), Vec::new());
        loop {
            match attached.next().await.unwrap() {
                AttachEvent::Bytes(bytes) => output.extend(bytes),
                AttachEvent::Redrawn(screen) => screens.push(screen),
                AttachEvent::Closed => break,
                other => panic!("{name}: {other:?}"),
            }
        }
        assert_eq!(
            (String::from_utf8_lossy(&output).as_ref(), screens.as_slice()),
            ("abababc", &["ab".to_owned()][..]),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_screen_size_prevents_attaching() {
    let reply = json!({"snapshot": "", "size": {"cols": 65_535, "rows": 65_535}});
    let scene =
        Scene::new(Lies::in_terminal_replies(|ask| matches!(ask, TerminalRequest::Attach), Lie::Value(reply))).await;
    assert_eq!(refusal(scene.open().await.attach().await, "attach"), "a size that no terminal has");
}

/// Lies about directories.
#[tokio::test(flavor = "multi_thread")]
async fn listed_name_is_one_path_component() {
    let entry = |name: &str| json!({"name": name, "kind": "File", "size": 3});
    let expected_error = "a directory with an entry whose name is not a name of a file";
    let mut lies: Vec<(String, Value, &str)> = Vec::new();
    for name in ["", ".", "..", "/", "/etc/passwd", "../../evil", "a/b", "a/", "./a", "a\0b", &"x".repeat(1000)] {
        lies.push((format!("{name:.20?}"), json!([entry("fine"), entry(name)]), expected_error));
    }
    lies.push(("a name twice".to_owned(), json!([entry("a"), entry("a")]), "a directory with two entries of one name"));
    let duplicate = json!([{"name": "a", "kind": "Directory", "size": 0}, entry("a")]);
    lies.push(("a file and a directory".to_owned(), duplicate, "a directory with two entries of one name"));
    let huge = json!([{"name": "a", "kind": "File", "size": u64::MAX}]);
    lies.push(("a huge file".to_owned(), huge, "a file that is larger than any file system"));
    let overlong_list: Value = (0..=100_000).map(|number| entry(&number.to_string())).collect();
    lies.push(("a hundred thousand and one".to_owned(), overlong_list, "a list that is too long"));
    for (name, lie, expected) in lies {
        let reply = move |ask: &HostRequest| match ask {
            HostRequest::File(FileRequest::List(_)) => Some(Lie::Value(json!({"Ok": lie}))),
            _ => None,
        };
        let scene = Scene::new(Lies::in_replies(reply)).await;
        let files = scene.hosts.files(Some("box"), CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
        let result = files.list("site".into()).await.map_err(transfer_error);
        assert_eq!(refusal(result, &name), expected, "{name}");
    }
    // Unusual names are valid names, and names that are not UTF-8 may look alike.
    let unusual_names = json!([entry("…"), entry("a\nb\u{1b}[31m"), entry("-rf"), entry("..."),
        {"name": "\u{fffd}", "kind": null, "size": 1}, {"name": "\u{fffd}", "kind": null, "size": 2}]);
    let reply = move |ask: &HostRequest| match ask {
        HostRequest::File(FileRequest::List(_)) => Some(Lie::Value(json!({"Ok": unusual_names}))),
        _ => None,
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    let files = scene.hosts.files(Some("box"), CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
    assert_eq!(files.list("site".into()).await.unwrap().len(), 6);
}

/// Lies about the content of a file.
#[tokio::test(flavor = "multi_thread")]
async fn copy_is_bounded_by_its_announced_size() {
    let piece = |length: usize| json!({"Ok": {"bytes": vec![7; length]}});
    let more = "'/srv/a' changed while it was read";
    let lies: Vec<(&str, Value, Value, &str)> = vec![
        ("more than was requested", answer::file(), piece(4), "more of a file than was requested"),
        ("a megabyte instead of a byte", with(answer::file(), "/size", 1), piece(1 << 20), "more of a file"),
        (
            "a file without a length that does not end",
            with(answer::file(), "/size", 0),
            json!("as many as wanted"),
            "at most",
        ),
        ("nothing of a file of three bytes", answer::file(), piece(0), more),
        ("an impossible file size", with(answer::file(), "/size", u64::MAX), piece(3), "larger than any file system"),
        ("a directory", with(answer::file(), "/kind", "Directory"), piece(3), "is a directory"),
        ("a device", with(answer::file(), "/kind", "Other"), piece(3), "is not a regular file"),
        ("invalid bytes", answer::file(), json!({"Ok": {"bytes": [999]}}), "cannot be read"),
    ];
    for (name, facts, piece, expected) in lies {
        let reply = move |ask: &HostRequest| match ask {
            HostRequest::File(FileRequest::Describe(_)) => Some(Lie::Value(json!({"Ok": facts}))),
            HostRequest::File(FileRequest::Read { limit, .. }) if piece.is_string() => {
                Some(Lie::Value(json!({"Ok": {"bytes": vec![7; *limit]}})))
            }
            HostRequest::File(FileRequest::Read { .. }) => Some(Lie::Value(piece.clone())),
            _ => None,
        };
        let scene = Scene::new(Lies::in_replies(reply)).await;
        let remote_files = scene.hosts.files(Some("box"), CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
        let local_files = scene.hosts.files(None, CLIENT_CONNECT_TIMEOUT, None).await.unwrap();
        let inbox = scene.directory.path().join("inbox");
        std::fs::create_dir(&inbox).unwrap();
        let copied = async {
            let facts = remote_files.describe("a".into()).await?;
            let options = CopyOptions { mode: None, replace: true, limit: 1 << 20 };
            remote_files.copy((Path::new("a"), &facts), (&local_files, &inbox.join("a")), options, |_| {}).await
        };
        let error = copied.await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        eventually("the unfinished copy is removed", async || match std::fs::read_dir(&inbox).unwrap().count() {
            0 => Ok(()),
            file_count => Err(file_count),
        })
        .await;
    }
}

/// Lies of the relay.
#[tokio::test(flavor = "multi_thread")]
async fn lying_relay_is_not_connected() {
    let open = |socket: &str| format!("{}\n", json!({"open": {"socket": socket, "is_current": true}}));
    let unknown_host = "the relay names a host other than the requested one, or none";
    let none = "the connection ended without output";
    let lies: Vec<(&str, String, &str)> = vec![
        ("a path", open("../../etc/host-1.sock"), unknown_host),
        ("an absolute path", open("/etc/passwd"), unknown_host),
        ("an empty name", open(""), unknown_host),
        ("a name with an escape", open("host-\u{1b}[31m.sock"), unknown_host),
        ("a name without end", open(&format!("host-{}.sock", "1".repeat(10_000))), unknown_host),
        ("a failure in colours", format!("{}\n", json!({"failed": "\u{1b}[31mred\u{7}"})), "not started: [31mred"),
        ("a failure without end", format!("{}\n", json!({"failed": "x".repeat(60_000)})), "xxx"),
        ("no JSON", "{\"open\":\n".to_owned(), none),
        ("another answer", "{\"hello\":1}\n".to_owned(), none),
        ("a line without end", "x".repeat(100_000), none),
        ("bytes", "\u{0}\u{0}\u{0}\n".to_owned(), none),
        ("a host that has ended", "\"gone\"\n".to_owned(), "the relay found no terminal host"),
    ];
    for (name, line, expected) in lies {
        let relay = Box::new(move |_, _: &str| Some(line.clone()));
        let scene = Scene::new(Lies { relay: Some(relay), ..Lies::default() }).await;
        let error = scene.check().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.len() < 400 && !error.contains(char::is_control), "{name}: {error}");
    }
    for (name, greeting) in [
        ("no greeting", String::from("Welcome to box!\n")),
        ("a greeting without end", "x".repeat(200_000)),
        ("an invalid greeting", String::from("steplatch-relay {\n")),
    ] {
        let scene = Scene::new(Lies { greeting: Some(greeting), ..Lies::default() }).await;
        // The first connection still waits for a greeting, and has received no request.
        let checked = tokio::time::timeout(Duration::from_secs(2), scene.check()).await;
        assert!(!matches!(checked, Ok(Ok(()))), "{name}");
        assert!(scene.liar.received_asks().is_empty(), "{name}");
    }
    for before in ["Welcome to box!\n", "Welcome", "\u{1b}[1mno mail\u{1b}[0m \r"] {
        let greeting = format!("{before}steplatch-relay {}\n", json!({"version": "9.9.9"}));
        let scene = Scene::new(Lies { greeting: Some(greeting), ..Lies::default() }).await;
        scene.check().await.unwrap_or_else(|error| panic!("{before:?}: {error}"));
    }
    let greeting = format!("steplatch-relay {}\n", json!({"version": format!("\u{1b}[31m{}", "9".repeat(1000))}));
    let scene = Scene::new(Lies { greeting: Some(greeting), ..Lies::default() }).await;
    scene.check().await.unwrap();
    let version = scene.hosts.remote_status()[0].version.clone().unwrap();
    assert_eq!(version, "9.9.9");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_that_needs_a_person_is_reported_while_waiting() {
    let is_settled = Arc::new(AtomicBool::new(true));
    let settled = is_settled.clone();
    let failed = format!("{}\n", json!({"failed": "the host key has changed"}));
    let relay = move |_, _: &str| (!settled.load(Ordering::Relaxed)).then(|| failed.clone());
    let waiting = |ask: &TerminalRequest| matches!(ask, TerminalRequest::Wait(_));
    let scene =
        Scene::new(Lies { relay: Some(Box::new(relay)), ..Lies::in_terminal_replies(waiting, Lie::Silence) }).await;
    let terminal = scene.open().await.with_connect_timeout(Duration::from_secs(600));
    let wait = tokio::spawn({
        let terminal = terminal.clone();
        async move { terminal.wait(wait("never")).await }
    });
    eventually("the wait has begun", async || {
        let is_wait = |ask: &HostRequest| matches!(ask, HostRequest::Terminal(_, TerminalRequest::Wait(_)));
        scene.liar.received_asks().iter().any(is_wait).then_some(()).ok_or("not yet")
    })
    .await;
    is_settled.store(false, Ordering::Relaxed);
    scene.liar.drop_connections();
    eventually("the loss is noticed", async || match &scene.hosts.remote_status()[0].state {
        RemoteHostState::Lost { .. } => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // A session waits two minutes for its next connection.
    let before_it_ends = Duration::from_secs(60);
    let checked = tokio::time::timeout(before_it_ends, scene.hosts.check_remote("box", Duration::from_secs(600))).await;
    let Err(RemoteError::Failed { reason: ConnectFailure::Host(reason), .. }) = checked.unwrap() else {
        panic!("a failure")
    };
    assert_eq!(reason, "the host key has changed");
    let waited = tokio::time::timeout(before_it_ends, wait).await.unwrap().unwrap().map_err(ask_error);
    assert!(matches!(waited, Err(AskError::NotConnected { .. })), "{waited:?}");
    // An earlier problem does not count once resolved; the first check notices that.
    is_settled.store(true, Ordering::Relaxed);
    scene.check().await.unwrap();
    terminal.view(false).await.unwrap();
}

/// Lies about the number of hosts.
#[tokio::test(flavor = "multi_thread")]
async fn machine_with_thousands_of_hosts_has_few_connections() {
    let sockets: Vec<String> = (0..2000).map(|number| format!("host-{number:08x}.sock")).collect();
    let relay = move |_, _: &str| {
        Some(format!("{}\n", json!({"open": {"socket": SOCKET, "is_current": true, "others": sockets}})))
    };
    let scene = Scene::new(Lies { relay: Some(Box::new(relay)), ..Lies::default() }).await;
    scene.check().await.unwrap();
    scene.open().await;
    assert_eq!((scene.liar.dial_count(), scene.liar.connection_count()), (1, 1));

    // Each connection reaches another host, and none of them opens terminals.
    let relay = |number: usize, request: &str| {
        let wanted = request.trim().strip_prefix("{\"open\":\"").and_then(|rest| rest.strip_suffix("\"}"));
        let socket = wanted.map_or_else(|| format!("host-{number:08x}.sock"), str::to_owned);
        Some(format!("{}\n", json!({"open": {"socket": socket, "is_current": false}})))
    };
    let scene = Scene::new(Lies { relay: Some(Box::new(relay)), ..Lies::default() }).await;
    for _ in 0..30 {
        scene.check().await.unwrap();
    }
    assert!(scene.liar.dial_count() >= 30);
    eventually("few connections are left", async || match scene.liar.connection_count() {
        0..=9 => Ok(()),
        many => Err(many),
    })
    .await;
}

#[derive(Debug)]
struct NoVariables;

impl SshEnvironment for NoVariables {
    fn variables(&self, _: &RemoteHostConfig) -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), std::env::var_os("PATH").unwrap())]
    }
}

/// Neither this `ssh` nor its children end by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_ssh_is_killed_with_its_children() {
    let directory = directory();
    let program = directory.path().join("ssh");
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' -G '*) exit 1;; esac\ntrap '' HUP TERM\nsleep 600 &\necho $$ $! >> {}/pids\nwait\n",
        directory.path().display()
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ssh = OpenSsh {
        program: program.into(),
        version: "1".to_owned(),
        environment: Arc::new(NoVariables),
        dialed: DialedTargets::default(),
    };
    let pids = || -> Vec<String> {
        let text = std::fs::read_to_string(directory.path().join("pids")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    for round in 1..=5 {
        let connection = ssh.dial(&config("box"), "client").await.unwrap();
        eventually("ssh has started", async || if pids().len() == 2 * round { Ok(()) } else { Err(pids()) }).await;
        drop(connection);
    }
    eventually("every process was reaped", async || {
        let remaining_pids: Vec<_> = pids().into_iter().filter(|pid| Path::new("/proc").join(pid).exists()).collect();
        if remaining_pids.is_empty() { Ok(()) } else { Err(remaining_pids) }
    })
    .await;
}

/// Lies of the link.
#[tokio::test(flavor = "multi_thread")]
async fn lying_link_is_refused_and_affects_no_other_host() {
    let number = |number: u64| number.to_be_bytes();
    let welcome = record(b'W', &number(0));
    let after = |record: Vec<u8>| [welcome.clone(), record].concat();
    let flood: Vec<u8> = (0..17).flat_map(|_| record(b'D', &vec![0; 64 << 10])).collect();
    let lies: Vec<(&str, Vec<u8>)> = vec![
        ("another program", b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
        ("a record of an unknown kind", record(b'Z', b"")),
        ("a record of four gigabytes", vec![b'D', 0xff, 0xff, 0xff, 0xff]),
        ("a welcome without a number", record(b'W', b"")),
        ("a welcome to bytes that were never sent", record(b'W', &number(5))),
        ("a welcome at the maximum number", record(b'W', &number(u64::MAX))),
        ("the greeting of a client", record(b'H', &[0; 49])),
        ("a refusal", record(b'R', &[1])),
        ("a refusal of an unknown kind", record(b'R', &[200])),
        ("the end instead of a welcome", record(b'X', b"")),
        ("data instead of a welcome", record(b'D', b"x")),
        ("a second welcome", after(welcome.clone())),
        ("a refusal after the welcome", after(record(b'R', &[0]))),
        ("an immediate end", after(record(b'X', b""))),
        ("bytes that were consumed and never sent", after(record(b'C', &number(1 << 40)))),
        ("all numbers consumed", after(record(b'C', &number(u64::MAX)))),
        ("data without bytes", after(record(b'D', b""))),
        ("more than the window", after(flood)),
        ("a frame of four gigabytes", after(record(b'D', &[0xff; 12]))),
        ("a frame without a number", after(record(b'D', &[0, 0, 0, 1, 7]))),
    ];
    for (name, bytes) in lies {
        let scene = Scene::new(Lies { link: Some(bytes), ..Lies::default() }).await;
        // An ended session is followed by a new one, but a protocol violation would recur.
        let may_pass = matches!(name, "a refusal" | "an immediate end");
        let timeout = if may_pass { Duration::from_millis(300) } else { Duration::from_secs(600) };
        let opening = scene.hosts.open_on(spec(&["cat"]), Some("box"), timeout, PlacePolicy::AtOnce);
        let result = tokio::time::timeout(Duration::from_secs(60), opening).await;
        let result = result.unwrap_or_else(|_| panic!("{name}: not reported at once"));
        let Err(HostsError::Remote(RemoteError::Failed { reason, .. })) = result else { panic!("{name}: {result:?}") };
        assert_eq!(may_pass, !matches!(reason, ConnectFailure::Protocol(_)), "{name}: {reason}");
        let (terminal, _) = scene.hosts.open(spec(&["echo", "well"])).await.unwrap();
        assert!(terminal.wait(wait("well")).await.unwrap().0.found.is_some(), "{name}");
        assert!(scene.liar.connection_count() <= 1, "{name}");
        // Not immediately again: only a few connections in this time.
        assert!(scene.liar.dial_count() < 10, "{name}: {}", scene.liar.dial_count());
    }
}

/// Lies of a host's greeting.
#[tokio::test(flavor = "multi_thread")]
async fn greeting_of_an_unsupported_host_is_reported() {
    let hello = |pointer: &'static str, value: Value| {
        Lies::in_replies(move |ask| match ask {
            HostRequest::Hello { .. } => Some(Lie::Value(with(answer::hello(), pointer, value.clone()))),
            _ => None,
        })
    };
    let scene = Scene::new(hello("/wire", json!(99))).await;
    let Err(RemoteError::Failed { reason: ConnectFailure::TooOld { message, .. }, .. }) = scene.check().await else {
        panic!("a host of another protocol");
    };
    assert_eq!(message, "version 9.9.9, protocol 99 instead of 1");
    let scene =
        Scene::new(hello("/version", json!(format!("\u{1b}]0;x\u{7}{}  36  good (verified)", "9".repeat(100_000)))))
            .await;
    scene.check().await.unwrap();
    let version = scene.hosts.remote_status()[0].version.clone().unwrap();
    assert!(version.starts_with("]0;x9") && version.len() == 32 && !version.contains(' '), "{version}");
    let scene = Scene::new(hello("/pid", json!("a pid"))).await;
    let error = scene.check().await.unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_secrets_affect_only_that_machine() {
    let secrets = (0..51_000).map(|number| json!({"terminal": null, "text": format!("WORD-{number}")}));
    let in_hello = json!([{"terminal": null, "text": "DELETE"}]);
    let lies = Lies {
        frames: secret_frames(secrets),
        ..Lies::in_replies(move |ask| match ask {
            HostRequest::Hello { .. } => Some(Lie::Value(with(answer::hello(), "/secrets", in_hello.clone()))),
            _ => None,
        })
    };
    // The sink for this computer's secrets panics.
    let scene = Scene::new(lies).await;
    scene.open().await;
    let received = scene.secret_log.0.lock().unwrap();
    assert_eq!(received.len(), 51_001);
    assert!(received.iter().all(|(machine, _)| machine == "box"));
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_process_id_signals_no_local_process() {
    let mut victim = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = victim.id();
    let reply = move |ask: &HostRequest| match ask {
        HostRequest::Hello { .. } => Some(Lie::Value(with(answer::hello(), "/pid", pid))),
        HostRequest::Open(_) => {
            Some(Lie::Value(json!({"Ok": with(answer::opened(&TerminalId::random()), "/pid", pid)})))
        }
        HostRequest::Terminal(_, TerminalRequest::Close(_)) => {
            let survivor = json!({"pid": pid, "name": "sleep\u{1b}[31m", "doubtful": false});
            Some(Lie::Value(json!({"exit": {"code": i32::MIN, "signal": 9999}, "survivors": [survivor]})))
        }
        _ => None,
    };
    let scene = Scene::new(Lies::in_replies(reply)).await;
    let terminal = scene.open().await;
    terminal.signal(Signal::KILL).await.unwrap();
    let closed = terminal.close(steplatch_terminal::Closing { signal: Some(Signal::KILL) }).await.unwrap();
    assert_eq!(closed.survivors[0].name, "sleep\u{fffd}[31m");
    scene.hosts.record_closed(terminal.id()).await;
    assert!(!scene.hosts.processes().contains(&pid), "a remote process ID is not a local terminal host");
    scene.hosts.shut_down().await;
    assert_eq!(victim.try_wait().unwrap(), None);
    victim.kill().unwrap();
    victim.wait().unwrap();
}
