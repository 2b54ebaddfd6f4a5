//! The contract, spoken to a daemon in this process.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use steplatch_daemon::{Daemon, Options, RetentionPolicy, Substitutes, WorkerStarter};
use steplatch_host::Starter;
use steplatch_protocol::{
    AttachTerminal, AwaitOutput, AwaitReason, AwaitUntil, CallError, ContentMode, DaemonStatus, ErrorCode,
    ExitTerminal, GetScreenContent, GetVariables, Hello, ListTerminalSessions, ListWorkflowRuns, OpenTerminal,
    RunCommand, ScreenFormat, SendInput, SendSignal, SetVariables, WriteTerminal,
};
use steplatch_testkit::{TestDaemon, eventually, user_name};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

fn bash() -> OpenTerminal {
    OpenTerminal { shell: "bash".into(), cols: 80, rows: 24, wait_ready: true, ..Default::default() }
}

#[tokio::test]
async fn terminal_is_opened_used_read_and_closed() {
    let daemon = TestDaemon::new().await;
    let open_reply = daemon.call(OpenTerminal { name: Some("build".into()), ..bash() }).await;
    assert!(open_reply.success && open_reply.pid.is_some() && open_reply.timestamp.is_some());
    let send_reply = daemon
        .call(SendInput {
            session_id: "build".into(),
            input_text: "cd /; echo a$((1+1))\n".into(),
            until: Some(AwaitUntil::Prompt),
            ..Default::default()
        })
        .await;
    assert!(send_reply.success && send_reply.offset.is_some());
    assert_eq!((send_reply.exit_code, send_reply.process_running), (Some(0), Some(true)));
    let found = daemon
        .call(AwaitOutput {
            session_id: open_reply.session_id.clone(),
            pattern: r"a(\d)".into(),
            timeout: 10.0,
            ..Default::default()
        })
        .await;
    assert_eq!((found.match_text.as_deref(), found.groups), (Some("a2"), vec![Some("2".to_owned())]));
    let screen = daemon.call(GetScreenContent { session_id: "build".into(), ..Default::default() }).await;
    assert_eq!(screen.cwd.as_deref(), Some("/"));
    assert!(screen.screen_content.unwrap().contains("a2"));
    let listing = daemon.call(ListTerminalSessions {}).await;
    assert_eq!((listing.total_sessions, listing.sessions[0].opened_by.as_deref()), (1, Some("test")));
    let closed = daemon.call(ExitTerminal { session_id: open_reply.session_id, ..Default::default() }).await;
    assert_eq!((closed.message.as_str(), closed.survivors), ("Session destroyed", vec![]));
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    daemon.stop().await;
}

#[tokio::test]
async fn errors_name_the_problem_and_the_remedy() {
    let daemon = TestDaemon::with(steplatch_terminal::Options { max_terminals: 2, ..Default::default() }).await;
    let no_terminal =
        daemon.call(SendInput { session_id: "ghost".into(), input_text: "x".into(), ..Default::default() }).await;
    assert_eq!(
        no_terminal.error.unwrap(),
        "Session 'ghost' not found; no sessions are open: open one with open_terminal"
    );
    let shell = daemon.call(OpenTerminal { shell: "no-such-shell".into(), ..bash() }).await;
    assert_eq!(shell.error.unwrap(), "program 'no-such-shell' was not found; install it, or give its full path");
    let directory = daemon.call(OpenTerminal { working_directory: Some("/no/such".into()), ..bash() }).await;
    assert_eq!(directory.error.unwrap(), "working_directory '/no/such' does not exist");
    let terminal = daemon.call(OpenTerminal { name: Some("one".into()), ..bash() }).await;
    let answer_reply = daemon.call(OpenTerminal { name: Some("one".into()), ..bash() }).await;
    assert_eq!(
        answer_reply.error.unwrap(),
        format!("the name 'one' is taken by {}; choose another one", terminal.session_id)
    );
    let id = terminal.session_id.clone();
    let like_id = daemon.call(OpenTerminal { name: Some(id.clone()), ..bash() }).await;
    assert_eq!(like_id.error.unwrap(), format!("the name '{id}' looks like a session_id; choose another one"));
    let control = daemon.call(OpenTerminal { name: Some("a\x1b[31m".into()), ..bash() }).await;
    assert_eq!(control.error.unwrap(), "a name has 1 to 64 characters, and no control characters");
    let two = daemon.call(bash()).await;
    let many = daemon.call(bash()).await;
    assert!(many.error.unwrap().starts_with("2 terminals are open, which is the limit; close one with exit_terminal"));
    let ghost = daemon.call(GetScreenContent { session_id: "ghost".into(), ..Default::default() }).await;
    let expected =
        format!("Session 'ghost' not found; open sessions: {} (one), {}", terminal.session_id, two.session_id);
    assert_eq!(ghost.error.unwrap(), expected);
    let pattern = daemon
        .call(AwaitOutput { session_id: "one".into(), pattern: "(open".into(), timeout: 5.0, ..Default::default() })
        .await;
    assert!(!pattern.success);
    assert!(pattern.error.unwrap().starts_with("pattern '(open' does not compile"));
    let key = daemon
        .call(SendInput { session_id: "one".into(), keys: Some(vec!["hyper-q".into()]), ..Default::default() })
        .await;
    assert!(key.error.unwrap().starts_with("'hyper-q' is not a key"));
    let signal = daemon.call(SendSignal { session_id: "one".into(), signal: "BOOM".into() }).await;
    assert!(signal.error.unwrap().starts_with("'BOOM' is not a signal"));
    let missing_reply = daemon.call(ExitTerminal { session_id: "ghost".into(), ..Default::default() }).await;
    assert_eq!((missing_reply.success, missing_reply.message.as_str()), (false, "Session not found"));
    let state = daemon.call(ListWorkflowRuns { state: Some("bogus".into()), ..Default::default() }).await;
    let error = "Invalid state: bogus; states are pending, running, waiting, completed, failed, cancelled";
    assert_eq!(state.error.as_deref(), Some(error));
    let since = daemon.call(ListWorkflowRuns { since: Some("2h".into()), ..Default::default() }).await;
    let error = "since must be a timestamp in ISO 8601, such as 2026-01-31T12:00:00Z, not '2h'";
    assert_eq!(since.error.as_deref(), Some(error));
    daemon.stop().await;
}

#[tokio::test]
async fn terminal_of_an_ended_program_stays_readable() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("echo last words; exit 5\n").await;
    let reply = session.wait_for("never", 10.0).await;
    assert_eq!((reply.reason, reply.exit_code), (AwaitReason::Exit, Some(5)));
    let read = daemon.call(GetScreenContent { session_id: session.id.clone(), ..Default::default() }).await;
    assert_eq!((read.process_running, read.exit_code), (false, Some(5)));
    assert!(read.screen_content.unwrap().contains("last words"));
    let send_reply = session.type_in("more\n").await;
    assert_eq!(send_reply.error.unwrap(), "its program has ended with exit code 5");
}

#[tokio::test]
async fn long_output_is_truncated_in_the_middle_and_readable() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("seq 1 5000; echo over_$((1+1))\n").await;
    session.expect_text("over_2").await;
    let read = |offset, limit| GetScreenContent {
        session_id: session.id.clone(),
        content_mode: ContentMode::History,
        offset,
        limit,
        ..Default::default()
    };
    let full_reply = daemon.call(read(None, None)).await;
    let text = full_reply.screen_content.unwrap();
    let omitted = full_reply.omitted.unwrap();
    let tail = omitted.tail.unwrap();
    assert!(full_reply.truncated && text.len() + tail.len() <= 10_000);
    assert!(text.contains("\n10\n") && tail.contains("over_2"));
    // Neither part contains our text, and the omitted lines are between them.
    let after_prompt = text.split_once("\n1\n").unwrap().1;
    assert!(
        after_prompt
            .lines()
            .chain(tail.split("over_2").next().unwrap().lines())
            .all(|line| line.parse::<u32>().is_ok())
    );
    assert_eq!(omitted.offset, full_reply.next_offset.unwrap());
    let (mut offset, mut pages) = (0, String::new());
    loop {
        let part = daemon.call(read(Some(offset), Some(3000))).await;
        pages.push_str(&part.screen_content.unwrap());
        offset = part.next_offset.unwrap();
        if !part.truncated {
            break;
        }
    }
    let lines: Vec<u32> = pages.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(lines, (1..=5000).collect::<Vec<_>>());
    assert!(
        pages.contains("seq 1 5000") && pages.contains("\n5000\nover_2\n"),
        "the pages are exactly the printed text"
    );
    let tail = GetScreenContent { content_mode: ContentMode::Tail, line_count: Some(3), ..read(None, None) };
    let tail = daemon.call(tail).await.screen_content.unwrap();
    assert!(tail.starts_with("5000\nover_2\n"), "{tail}");
}

#[tokio::test]
async fn secret_is_masked_wherever_it_reappears() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("read -p 'secret: ' s; echo \"got $s\"\n").await;
    let input_reply = daemon
        .call(SendInput {
            session_id: session.id.clone(),
            input_text: "hunter2!\n".into(),
            secret: true,
            ..Default::default()
        })
        .await;
    assert!(!input_reply.screen_content.unwrap().contains("hunter2"));
    assert_eq!(session.expect_text("got .*").await, "got ••••••");
    assert!(!session.screen().await.contains("hunter2"));
}

#[tokio::test]
async fn html_and_png_screens_mask_secrets() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let secret =
        SendInput { session_id: session.id.clone(), input_text: "hunter2!".into(), secret: true, ..Default::default() };
    daemon.call(secret).await;
    session.type_in(r" ; clear; printf '\033[1;31mred <b>\033[m hunter2!\n'; echo over_$((1+1))").await;
    session.type_in("\n").await;
    session.expect_text("over_2").await;
    let read = |format, content_mode| GetScreenContent {
        session_id: session.id.clone(),
        content_mode,
        format,
        ..Default::default()
    };
    let html = daemon.call(read(ScreenFormat::Html, ContentMode::Screen)).await.screen_content.unwrap();
    assert!(html.contains("color:#cd0000;font-weight:bold;\">red &lt;b&gt;</span>"), "{html}");
    assert!(!html.contains("hunter2") && html.contains("••••••••"), "{html}");
    let painted = daemon.call(read(ScreenFormat::Png, ContentMode::Screen)).await;
    let image = STANDARD.decode(painted.png.unwrap()).unwrap();
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n") && image.len() > 1000);
    assert_eq!((painted.success, painted.screen_content), (true, None));
    for (format, name) in [(ScreenFormat::Html, "html"), (ScreenFormat::Png, "png"), (ScreenFormat::Ansi, "ansi")] {
        let error = daemon.call(read(format, ContentMode::Tail)).await.error.unwrap();
        assert!(error.starts_with(&format!("format {name} is for content_mode screen;")), "{error}");
    }
}

#[tokio::test]
async fn wait_in_several_terminals_ends_at_the_match() {
    let daemon = TestDaemon::new().await;
    let (first, second) = (daemon.bash().await, daemon.bash().await);
    second.type_in("sleep 0.1; echo done_$((1+1))\n").await;
    let found = daemon
        .call(AwaitOutput {
            session_ids: Some(vec![first.id.clone(), second.id.clone()]),
            patterns: Some(vec!["never".into(), "done_2".into()]),
            timeout: 10.0,
            ..Default::default()
        })
        .await;
    assert_eq!((found.session_id, found.match_text.as_deref()), (second.id, Some("done_2")));
    assert_eq!(found.pattern.as_deref(), Some("done_2"));
}

#[tokio::test]
async fn wait_can_be_for_the_prompt_or_for_quiet() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("sleep 0.1; false\n").await;
    let until = |until| AwaitOutput { session_id: session.id.clone(), until, timeout: 10.0, ..Default::default() };
    let prompt = daemon.call(until(AwaitUntil::Prompt)).await;
    assert_eq!((prompt.reason, prompt.exit_code), (AwaitReason::Prompt, Some(1)));
    assert_eq!(daemon.call(until(AwaitUntil::Quiet)).await.reason, AwaitReason::Quiet);
    let timeout_reply = daemon.call(until(AwaitUntil::Match)).await;
    assert!(timeout_reply.error.unwrap().starts_with("pattern is required"));
}

#[tokio::test]
async fn new_subscriber_sees_the_screen_and_then_new_output() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("echo before\n").await;
    let attach = AttachTerminal { session_id: session.id.clone(), hold_key: None, masked: false };
    let (joined, mut events) = daemon.client().subscribe(attach).await.unwrap();
    assert!(joined.success && joined.snapshot.contains("before"));
    // "echo after" and Enter, as a person's terminal sends them.
    let bytes = "ZWNobyBhZnRlcg0=".to_owned();
    assert!(
        daemon.call(WriteTerminal { session_id: session.id.clone(), bytes, ..WriteTerminal::default() }).await.success
    );
    session.expect_text("^after$").await;
    let event = events.next().await.unwrap();
    assert_eq!(event["event_type"], "terminal_output");
    daemon.call(ExitTerminal { session_id: session.id, ..Default::default() }).await;
    while let Some(event) = events.next().await {
        if event["event_type"] == "terminal_ended" {
            return;
        }
    }
    panic!("no event reported the end");
}

#[tokio::test]
async fn recording_subscriber_receives_no_secrets() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let output_of = |events: Vec<Value>| -> String {
        let bytes = events.iter().filter_map(|event| STANDARD.decode(event["bytes"].as_str()?).ok());
        String::from_utf8(bytes.flatten().collect()).unwrap()
    };
    daemon
        .call(SendInput {
            session_id: session.id.clone(),
            input_text: "true hunter2!\n".into(),
            secret: true,
            ..Default::default()
        })
        .await;
    let secret =
        SendInput { session_id: session.id.clone(), input_text: "hunter2!".into(), secret: true, ..Default::default() };
    daemon.call(secret).await;
    session.type_in("\u{15}clear; echo it is hunter2!\n").await;
    session.expect_text("^it is").await;
    let attach = AttachTerminal { session_id: session.id.clone(), masked: true, hold_key: None };
    let (joined, mut events) = daemon.client().subscribe(attach).await.unwrap();
    assert!(joined.snapshot.contains("it is ••••••••"), "{}", joined.snapshot);
    // Printed in two parts: the first may begin a secret, and the rest does not continue it.
    session.type_in(r#"for part in hunt er2 '! and hunt'; do printf '%s' "$part"; sleep 0.02; done; echo _over"#).await;
    session.type_in("\n").await;
    session.expect_text("_over$").await;
    let mut reported = Vec::new();
    let all = loop {
        reported.push(events.next().await.unwrap());
        let output = output_of(reported.clone());
        if output.contains("hunt_over") {
            break output;
        }
    };
    assert!(all.contains("•••••••• and hunt_over") && !all.contains("hunter2"), "{all}");
    // A possible beginning of a secret is sent with what follows, and with the end at the latest.
    session.type_in("echo; printf hun; exec true\n").await;
    let mut last = output_of(vec![events.next().await.unwrap()]);
    while !last.trim_end_matches("\x1b[?2004l\r").ends_with("\nhun") {
        last.push_str(&output_of(vec![events.next().await.unwrap()]));
    }
}

#[tokio::test]
async fn environment_and_directory_are_the_clients() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("echo \"[$HOME|$PWD|$TERM]\"\n").await;
    let output = session.expect_text(r"\[(.*)\|(.*)\|xterm-256color\]").await;
    let home = output.trim_matches(['[', ']']).split('|').next().unwrap().to_owned();
    assert!(output.starts_with(&format!("[{home}|{home}|")), "{output}");
    let with = OpenTerminal { environment: Some([("GREETING".to_owned(), "hi".to_owned())].into()), ..bash() };
    let session = daemon.open(with).await;
    session.type_in("echo \"<$GREETING>\"\n").await;
    session.expect_text("^<hi>$").await;
}

async fn exchange(daemon: &TestDaemon, lines: &str, answers: usize) -> Vec<Value> {
    let mut stream = UnixStream::connect(daemon.paths().socket()).await.unwrap();
    stream.write_all(lines.as_bytes()).await.unwrap();
    let mut reader = BufReader::new(stream).lines();
    let mut messages = Vec::new();
    while messages.len() < answers {
        let line = tokio::time::timeout(Duration::from_secs(60), reader.next_line()).await.unwrap().unwrap().unwrap();
        messages.push(serde_json::from_str(&line).unwrap());
    }
    messages
}

#[tokio::test]
async fn invalid_messages_are_answered_and_the_connection_stays() {
    let daemon = TestDaemon::new().await;
    let lines = "{\n{\"type\":\"wish\"}\n{\"type\":\"command\",\"command_type\":\"FLY\",\"request_id\":\"a\"}\n\
                 {\"type\":\"command\",\"command_type\":\"SEND_INPUT\",\"params\":{},\"request_id\":2}\n\
                 {\"type\":\"command\",\"command_type\":\"DAEMON_STATUS\",\"request_id\":3}\n";
    let answers = exchange(&daemon, lines, 5).await;
    assert_eq!(answers[0], json!({"type": "error", "error": "Invalid JSON"}));
    assert_eq!(answers[1]["error"], "Invalid message");
    assert_eq!((&answers[2]["error_code"], &answers[2]["request_id"]), (&json!("unknown_command"), &json!("a")));
    assert_eq!(answers[3]["error"], "session_id is required");
    assert_eq!((&answers[4]["success"], &answers[4]["data"]["clients"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn client_of_a_newer_version_learns_the_spoken_version() {
    let daemon = TestDaemon::new().await;
    let refused_reply = daemon.client().call(Hello { protocol_version: 99, ..Default::default() }).await;
    let Err(CallError::Refused(refusal)) = refused_reply else { panic!("{refused_reply:?}") };
    assert_eq!(refusal.code, ErrorCode::UnsupportedProtocol);
    assert!(refusal.error.contains("speaks protocol 1, this client speaks 99; restart it with"), "{}", refusal.error);
}

#[tokio::test]
async fn second_daemon_on_the_same_state_is_refused() {
    let daemon = TestDaemon::new().await;
    let options = Options {
        paths: daemon.paths().clone(),
        host: Starter::InProcess(Box::default()),
        workers: WorkerStarter::Disabled,
        runs: RetentionPolicy::default(),
        configuration: tokio::sync::watch::channel(steplatch_daemon::Configuration::default()).1,
        clock: steplatch_daemon::Clock::system(),
        substitutes: Substitutes::default(),
    };
    let error = Daemon::start(options).await.unwrap_err().to_string();
    let expected = format!("a daemon (pid {}, version ", std::process::id());
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("already owns") && error.contains("steplatch daemon stop"), "{error}");
}

#[tokio::test]
async fn terminals_outlive_their_clients() {
    let daemon = TestDaemon::new().await;
    let open =
        "{\"type\":\"command\",\"command_type\":\"OPEN_TERMINAL\",\"params\":{\"name\":\"kept\"},\"request_id\":1}\n";
    assert_eq!(exchange(&daemon, open, 1).await[0]["success"], true);
    let terminal = daemon
        .call(SendInput { session_id: "kept".into(), input_text: "echo here\n".into(), ..Default::default() })
        .await;
    assert!(terminal.success, "{:?}", terminal.error);
}

#[tokio::test]
async fn wait_ends_when_its_client_disconnects() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let mut stream = UnixStream::connect(daemon.paths().socket()).await.unwrap();
    let wait = json!({"type": "command", "command_type": "AWAIT_OUTPUT", "request_id": 1,
                      "params": {"session_id": session.id, "pattern": "never", "timeout": 3000}});
    stream.write_all(format!("{wait}\n").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut remaining_bytes = Vec::new();
    // The daemon also closes the connection, instead of waiting for fifty minutes.
    tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut remaining_bytes)).await.unwrap().unwrap();
    assert_eq!(daemon.call(DaemonStatus {}).await.clients, 1);
}

#[tokio::test]
async fn stopping_closes_terminals_and_connections() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("echo pid_$$\n").await;
    let pid = session.expect_text(r"pid_\d+").await.trim_start_matches("pid_").to_owned();
    let socket = daemon.paths().socket();
    daemon.stop().await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "bash exits with the daemon");
    assert!(!socket.exists());
}

#[tokio::test]
async fn socket_and_directories_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = TestDaemon::new().await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&daemon.paths().socket()), 0o600);
    assert_eq!(mode(daemon.paths().runtime()), 0o700);
    assert_eq!(mode(daemon.paths().state()), 0o700);
    assert_eq!(mode(&daemon.paths().lock()), 0o600);
}

fn run(session: Option<&str>, command: &str) -> RunCommand {
    RunCommand {
        session_id: session.map(str::to_owned),
        command: command.into(),
        timeout: 20.0,
        ..RunCommand::default()
    }
}

#[tokio::test]
async fn exact_output_in_a_live_and_a_fresh_shell() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let result = daemon.call(run(Some(&session.id), "cd /tmp; x=7; printf 'a\\nb'; (exit 3)")).await;
    assert_eq!((result.success, result.output.as_str(), result.exit_code), (true, "a\nb", Some(3)), "{result:?}");
    let live_reply = daemon.call(run(Some(&session.id), "echo $PWD $x")).await;
    assert_eq!((live_reply.output.as_str(), live_reply.exit_code), ("/tmp 7\n", Some(0)));
    let fresh_reply = daemon.call(run(None, "echo x=$x; no-such-program")).await;
    assert!(
        fresh_reply.output.starts_with("x=\n") && fresh_reply.output.contains("not found"),
        "{}",
        fresh_reply.output
    );
    assert_eq!((fresh_reply.exit_code, fresh_reply.session_id), (Some(127), None));
    let slow = RunCommand { timeout: 2.0, ..run(None, "echo begun; sleep 1000") };
    let slow = daemon.call(slow).await;
    assert!(slow.timed_out && !slow.success && slow.output == "begun\n", "{slow:?}");
    let slow_session = slow.session_id.unwrap();
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 2, "the slow command still runs");
    let busy = daemon.call(run(Some(&slow_session), "echo more")).await;
    assert!(busy.error.unwrap().starts_with("the shell is busy, 'sleep' runs in the foreground"));
    let python = daemon
        .open(OpenTerminal {
            command: Some(vec!["python3".into(), "-q".into()]),
            cols: 80,
            rows: 24,
            wait_ready: true,
            ..Default::default()
        })
        .await;
    // A wrapper script may start the program and stay in the foreground until then.
    python.expect_text(">>> ").await;
    let entry = daemon.call(run(Some(&python.id), "print(1)")).await;
    assert_eq!((entry.success, entry.output.as_str(), entry.exit_code), (true, "1\n", None), "{entry:?}");
    python.type_in("input('Name: ')\n").await;
    python.expect_text("^Name: ").await;
    let elsewhere = daemon.call(run(Some(&python.id), "print(1)")).await;
    let error = elsewhere.error.unwrap();
    assert!(
        elsewhere.awaiting_input && error.contains("'python3' waits for input; type it with send_input"),
        "{error}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn shell_variables_are_read_and_set_without_a_trace() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("clear; unexported=$'two\\nlines'\n").await;
    session.expect_text("[$#] $").await;
    let before = session.screen().await;
    let set = SetVariables {
        session_id: session.id.clone(),
        variables: [("TARGET".to_owned(), "it's \"quoted\"".to_owned())].into(),
        export: true,
    };
    let set = daemon.call(set).await;
    assert!(set.success, "{:?}", set.error);
    let names = ["unexported", "TARGET", "NOT_THERE"].map(str::to_owned).to_vec();
    let reported = daemon.call(GetVariables { session_id: session.id.clone(), names }).await;
    let value =
        |name: &str| reported.variables[name].as_ref().map(|variable| (variable.value.as_str(), variable.exported));
    assert_eq!(value("unexported"), Some(("two\nlines", false)));
    assert_eq!(value("TARGET"), Some(("it's \"quoted\"", true)));
    assert_eq!(value("NOT_THERE"), None);
    assert_eq!(session.screen().await, before);
    let bad = daemon.call(GetVariables { session_id: session.id.clone(), names: vec!["a-b".into()] }).await;
    assert!(bad.error.unwrap().starts_with("'a-b' is not a valid variable name"));
    daemon.stop().await;
}

#[tokio::test]
async fn idle_terminal_is_closed_if_configured_but_not_while_watched() {
    let options = steplatch_terminal::Options { idle: Some(Duration::from_millis(300)), ..Default::default() };
    let daemon = TestDaemon::with(options).await;
    let (unused, watched) = (daemon.bash().await, daemon.bash().await);
    let attach = AttachTerminal { session_id: watched.id.clone(), ..AttachTerminal::default() };
    let (_, _events) = daemon.client().subscribe(attach).await.unwrap();
    let open = eventually("the unused terminal is closed", async || {
        let open = daemon.call(ListTerminalSessions {}).await.sessions;
        if open.iter().any(|session| session.session_id == unused.id) { Err(open) } else { Ok(open) }
    });
    let open = open.await;
    assert_eq!(open.iter().map(|session| &session.session_id).collect::<Vec<_>>(), [&watched.id]);
    daemon.stop().await;
}

#[tokio::test]
async fn takeover_names_the_person_and_then_the_changes() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let (person, user) = (daemon.person_named("ann").await, user_name());
    let attach = AttachTerminal { session_id: session.id.clone(), hold_key: Some("k".into()), masked: false };
    let (joined, events) = person.subscribe(attach).await.unwrap();
    assert!(joined.success, "{:?}", joined.error);
    let refusal = session.type_in("echo mine\n").await;
    assert!(!refusal.success);
    let error = refusal.error.unwrap();
    assert!(error.starts_with(&format!("{user} has held this terminal since 20")), "{error}");
    assert_eq!(daemon.call(ListTerminalSessions {}).await.sessions[0].held_by.as_deref(), Some(user.as_str()));
    let id = session.id.clone();
    let signalled = daemon.call(SendSignal { session_id: id.clone(), signal: "INT".into() }).await;
    assert!(signalled.error.unwrap().starts_with(&format!("{user} has held")), "signals count as writes");
    let closed = daemon.call(ExitTerminal { session_id: id.clone(), ..Default::default() }).await;
    assert!(!closed.success && closed.message.starts_with(&format!("{user} has held")), "{closed:?}");
    let result = daemon.call(run(Some(&id), "echo mine")).await;
    assert!(result.error.unwrap().starts_with(&format!("{user} has held")));
    let types = |text: &str, key: Option<&str>| {
        let bytes = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        person.call(WriteTerminal {
            session_id: session.id.clone(),
            bytes,
            hold_key: key.map(str::to_owned),
            ..WriteTerminal::default()
        })
    };
    assert!(types("echo hers\r", None).await.unwrap().error.is_some(), "input without the hold key is refused");
    assert!(types("cd /tmp; echo hers-$((40+2))\r", Some("k")).await.unwrap().success);
    session.expect_text("hers-42").await;
    let screen = daemon.call(GetScreenContent { session_id: session.id.clone(), ..Default::default() }).await;
    assert_eq!(screen.handed_back, None, "no note while the person holds the terminal");
    // Disconnecting has the same effect as handing back.
    drop(events);
    drop(person);
    let reported = loop {
        let send_reply = session.type_in("\n").await;
        if send_reply.success {
            break send_reply.handed_back.unwrap();
        }
    };
    assert_eq!(reported.by, user);
    assert!(reported.output.contains("hers-42"), "{}", reported.output);
    let screen = daemon.call(GetScreenContent { session_id: session.id.clone(), ..Default::default() }).await;
    assert_eq!(screen.handed_back, None, "the note is sent only once");
    daemon.stop().await;
}

#[tokio::test]
async fn hidden_password_is_masked_wherever_it_reappears() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("read -rsp 'Password: ' word; echo; echo \"it is $word\"\n").await;
    session.expect_text("Password: $").await;
    session.type_in("hunter2 and more\n").await;
    let seen_text = session.expect_text("^it is .*").await;
    assert_eq!(seen_text, "it is ••••••");
    assert!(!session.screen().await.contains("hunter2"));
    let mode = ContentMode::History;
    let history = daemon
        .call(GetScreenContent { session_id: session.id.clone(), content_mode: mode, ..Default::default() })
        .await;
    assert!(!history.screen_content.unwrap().contains("hunter2"));
    let until = AwaitUntil::Prompt;
    daemon.call(AwaitOutput { session_id: session.id.clone(), until, timeout: 20.0, ..AwaitOutput::default() }).await;
    let listing = daemon.call(run(Some(&session.id), "mkdir -p ~/'hunter2 and more'; cd ~/'hunter2 and more'")).await;
    assert!(listing.success, "{listing:?}");
    let screen = daemon.call(GetScreenContent { session_id: session.id.clone(), ..Default::default() }).await;
    assert!(screen.cwd.unwrap().ends_with("/••••••"));
    let other_terminal = daemon.bash().await;
    let other_output = daemon.call(run(Some(&other_terminal.id), "echo hunter2 and more")).await;
    assert_eq!(other_output.output, "hunter2 and more\n", "words of the password are not masked in another terminal");
    daemon.stop().await;
}

#[tokio::test]
async fn secret_cannot_be_read_character_by_character() {
    let daemon = TestDaemon::new().await;
    let bash = daemon.bash().await;
    let secret = SendInput {
        session_id: bash.id.clone(),
        input_text: "echo before; echo FLOWTOKEN-99; echo after\n".to_owned(),
        ..SendInput::default()
    };
    // Registered as a secret before it is shown.
    let typed_input = SendInput { input_text: "FLOWTOKEN-99".to_owned(), secret: true, ..secret.clone() };
    daemon.call(typed_input).await;
    daemon.call(SendInput { input_text: "\u{15}".to_owned(), ..secret.clone() }).await;
    daemon.call(secret).await;
    bash.expect_text("(?m)^after").await;
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let page = daemon
            .call(GetScreenContent {
                session_id: bash.id.clone(),
                content_mode: ContentMode::History,
                offset: Some(offset),
                limit: Some(1),
                ..GetScreenContent::default()
            })
            .await;
        let next = page.next_offset.unwrap();
        if next == offset {
            break;
        }
        offset = next;
        let displayed_text = page.screen_content.unwrap();
        read.push_str(displayed_text.split("[…").next().unwrap_or_default());
    }
    let plain: String =
        read.chars().filter(|displayed_text| *displayed_text != '•' && !displayed_text.is_whitespace()).collect();
    assert!(plain.contains("before") && plain.contains("after"), "{read:?}");
    assert!(!plain.contains("TOKEN") && !plain.contains("-99"), "{read:?}");
    daemon.stop().await;
}
