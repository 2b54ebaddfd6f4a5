//! Typing and waiting in one call, replies with only new output, and commands that ask.

use serde_json::json;
use steplatch_daemon::Configuration;
use steplatch_protocol::{
    AwaitMode, AwaitOutput, AwaitReason, AwaitUntil, ContentMode, ExitTerminal, GetRun, GetScreenContent, RunCommand,
    RunDetail, RunWorkflow, ScreenMode, ScreenPart, SendInput, Since,
};

use steplatch_testkit::TestDaemon;

fn input(session: &str, text: &str) -> SendInput {
    SendInput { session_id: session.to_owned(), input_text: text.to_owned(), ..SendInput::default() }
}

fn until(session: &str, text: &str, until: AwaitUntil) -> SendInput {
    let screen = Some(ScreenMode::Auto);
    SendInput { until: Some(until), timeout: Some(60.0), screen, ..input(session, text) }
}

/// Returns the request to run a command in a terminal.
fn command_in(session: &str, command: &str) -> RunCommand {
    RunCommand {
        session_id: Some(session.to_owned()),
        command: command.to_owned(),
        timeout: 60.0,
        ..RunCommand::default()
    }
}

#[tokio::test]
async fn one_call_types_waits_for_prompt_and_returns_new_output() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let send_reply = daemon.call(until(&session.id, "echo first; (exit 3)\n", AwaitUntil::Prompt)).await;
    let wait_reply = send_reply.waited.unwrap();
    assert_eq!((send_reply.success, wait_reply.reason, send_reply.exit_code), (true, AwaitReason::Prompt, Some(3)));
    let text = send_reply.screen_content.unwrap();
    assert!(text.contains("\nfirst\n"), "{text}");
    let send_reply = daemon.call(until(&session.id, "echo second\n", AwaitUntil::Prompt)).await;
    let text = send_reply.screen_content.unwrap();
    assert!(text.contains("second") && !text.contains("first"), "{text}");
    assert_eq!(send_reply.screen_part, Some(ScreenPart::New));
    daemon.stop().await;
}

#[tokio::test]
async fn wait_for_the_prompt_returns_at_a_question() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let asks = "python3 -c 'input(\"Really? \")'\n";
    let send_reply = daemon.call(until(&session.id, asks, AwaitUntil::Prompt)).await;
    assert_eq!(send_reply.waited.unwrap().reason, AwaitReason::Input);
    assert_eq!((send_reply.awaiting_input, send_reply.busy, send_reply.exit_code), (Some(true), Some(true), None));
    assert!(send_reply.screen_content.unwrap().trim_end().ends_with("Really?"));
    let send_reply = daemon.call(until(&session.id, "yes\n", AwaitUntil::Input)).await;
    assert_eq!((send_reply.waited.unwrap().reason, send_reply.exit_code), (AwaitReason::Prompt, Some(0)));
    daemon.stop().await;
}

#[tokio::test]
async fn shell_replaced_by_another_program_has_not_exited() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    // `python3` may be a wrapper script.
    let program =
        daemon.call(until(&session.id, "py=$(python3 -c 'import sys; print(sys.executable)')\n", AwaitUntil::Prompt));
    assert_eq!(program.await.exit_code, Some(0));
    let send_reply = daemon.call(until(&session.id, "exec \"$py\" -q\n", AwaitUntil::Prompt)).await;
    assert_eq!((send_reply.waited.unwrap().reason, send_reply.exit_code), (AwaitReason::Replaced, None));
    let wait = |until| AwaitOutput { session_id: session.id.clone(), timeout: 60.0, until, ..AwaitOutput::default() };
    let reply = daemon.call(wait(AwaitUntil::Prompt)).await;
    assert_eq!((reply.reason, reply.exit_code, reply.timeout_occurred), (AwaitReason::Replaced, None, false));
    let error = reply.error.unwrap();
    let begin = error.split_once(" replaced the shell").unwrap_or_else(|| panic!("{error}")).0;
    assert!(begin.starts_with("python3") && error.contains("until: \"input\""), "{error}");
    let reply = daemon.call(wait(AwaitUntil::Input)).await;
    assert_eq!((reply.reason, reply.error), (AwaitReason::Input, None));
    let send_reply = daemon.call(until(&session.id, "print(6 * 7)\n", AwaitUntil::Input)).await;
    assert!(send_reply.screen_content.unwrap().contains("\n42\n"));
    daemon.stop().await;
}

#[tokio::test]
async fn wait_starts_with_the_input() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let verb = SendInput {
        pattern: Some(r"^n=(\d+)".to_owned()),
        screen: Some(ScreenMode::None),
        ..input(&session.id, "echo n=$((6 * 7)); sleep 60\n")
    };
    let send_reply = daemon.call(verb).await;
    let wait_reply = send_reply.waited.unwrap();
    assert_eq!((wait_reply.match_text.as_deref(), wait_reply.groups), (Some("n=42"), vec![Some("42".to_owned())]));
    assert_eq!(send_reply.screen_content, None);
    daemon.stop().await;
}

#[tokio::test]
async fn invalid_wait_of_an_input_is_refused_before_typing() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let both = SendInput { wait_for_quiet_ms: Some(100), ..until(&session.id, "echo typed\n", AwaitUntil::Prompt) };
    let limit_only = SendInput { timeout: Some(3.0), ..input(&session.id, "echo typed\n") };
    let broken = SendInput { pattern: Some("(".to_owned()), ..input(&session.id, "echo typed\n") };
    for verb in [both, limit_only, broken] {
        let refusal = daemon.call(verb).await;
        assert!(!refusal.success && refusal.error.is_some(), "{refusal:?}");
    }
    assert!(!session.screen().await.contains("typed"));
    daemon.stop().await;
}

#[tokio::test]
async fn unentered_line_is_reported_and_password_at_prompt_refused() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let send_reply = daemon.call(until(&session.id, "sleep 5; false", AwaitUntil::Prompt)).await;
    assert_eq!(
        (send_reply.waited.unwrap().reason, send_reply.typed.as_deref()),
        (AwaitReason::Input, Some("sleep 5; false"))
    );
    daemon.call(until(&session.id, "\u{3}", AwaitUntil::Prompt)).await;
    let secret = SendInput { secret: true, ..input(&session.id, "hunter2!\n") };
    let refusal = daemon.call(secret).await;
    assert!(!refusal.success && refusal.error.unwrap().contains("at its prompt"));
    assert!(!session.screen().await.contains("hunter2!"));
    daemon.stop().await;
}

#[tokio::test]
async fn interactive_command_returns_at_once() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let run = |command: &str| command_in(&session.id, command);
    let question_reply = daemon.call(run("read -p 'Name? ' name")).await;
    assert!(
        question_reply.awaiting_input && !question_reply.timed_out && !question_reply.success,
        "{question_reply:?}"
    );
    assert_eq!((question_reply.output.as_str(), question_reply.exit_code), ("Name? ", None));
    daemon.call(until(&session.id, "x\n", AwaitUntil::Prompt)).await;
    let paged = daemon.call(run("seq 1 300 | less")).await;
    assert!(paged.awaiting_input && paged.error.unwrap().contains("'less'"));
    assert!(paged.screen_content.unwrap().starts_with("1\n2\n3\n"));
    let remaining = daemon.call(until(&session.id, "q", AwaitUntil::Prompt)).await;
    assert_eq!(remaining.exit_code, Some(0));
    // A command in a fresh shell: the shell stays open for the answer.
    let fresh = RunCommand { command: "read -s -p 'PIN: ' pin".to_owned(), timeout: 60.0, ..RunCommand::default() };
    let fresh = daemon.call(fresh).await;
    assert!(fresh.password && fresh.session_id.is_some(), "{fresh:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn truncated_output_can_be_read_further_and_searched() {
    let daemon = TestDaemon::new().await;
    let verb =
        RunCommand { command: "seq 1 3000".to_owned(), limit: Some(100), timeout: 60.0, ..RunCommand::default() };
    let result = daemon.call(verb).await;
    assert!(result.truncated && result.success);
    let session_id = result.session_id.unwrap();
    let search = GetScreenContent {
        session_id: session_id.clone(),
        search: Some("^1234$".to_owned()),
        context: Some(1),
        ..GetScreenContent::default()
    };
    let found = daemon.call(search).await;
    let matches = found.matches.unwrap();
    assert_eq!(matches.iter().map(|found| found.text.as_str()).collect::<Vec<_>>(), ["1233\n1234\n1235"]);
    let many =
        GetScreenContent { session_id, search: Some("7".to_owned()), context: Some(0), ..GetScreenContent::default() };
    let found = daemon.call(many.clone()).await;
    assert_eq!((found.matches.unwrap().len(), found.truncated), (20, true));
    let on = daemon.call(GetScreenContent { offset: found.next_offset, ..many }).await;
    assert_eq!(on.matches.unwrap().len(), 20);
    daemon.stop().await;
}

#[tokio::test]
async fn match_is_found_once_after_redrawing() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let command = r"for n in $(seq 100); do printf 'get %s\r' $n; done; echo; printf '\e[?1049hdrawn\e[?1049l'; \
                    echo near_$((1)); seq 300000 | sed 's/.*/\r line &/'; echo far_$((1))";
    daemon.call(until(&session.id, &format!("{command}\n"), AwaitUntil::Prompt)).await;
    let reads =
        async |verb: GetScreenContent| daemon.call(GetScreenContent { session_id: session.id.clone(), ..verb }).await;
    for pattern in ["^get 100", "^near_1", "^ line 250000$", "^far_1"] {
        let search =
            GetScreenContent { search: Some(pattern.to_owned()), context: Some(0), ..GetScreenContent::default() };
        let matches = reads(search).await.matches.unwrap();
        assert_eq!(matches.len(), 1, "{pattern}: {matches:?}");
        let screen_request = GetScreenContent {
            content_mode: ContentMode::History,
            offset: Some(matches[0].offset),
            limit: Some(2000),
            ..GetScreenContent::default()
        };
        let text = reads(screen_request).await.screen_content.unwrap();
        assert!(text.starts_with(&matches[0].text), "{pattern}: {:?}, not {:?}", &text[..40], matches[0].text);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn wait_continues_after_the_last_match_of_the_client() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let other_terminal = daemon.bash().await;
    for text in ["echo a_$((1)); echo a_$((2))\n", "echo b_1\n"] {
        daemon.call(until(&session.id, text, AwaitUntil::Prompt)).await;
    }
    let wait = |since| AwaitOutput {
        session_id: session.id.clone(),
        pattern: r"a_\d".to_owned(),
        timeout: 5.0,
        since,
        ..AwaitOutput::default()
    };
    let first = daemon.call(wait(Some(Since::Offset(0)))).await;
    let second = daemon.call(wait(Some(Since::Last))).await;
    let reported = [first, second].map(|reply| reply.match_text.unwrap());
    assert_eq!(reported, ["a_1", "a_2"]);
    // Every one of several terminals.
    let all = AwaitOutput {
        session_ids: Some(vec![session.id.clone(), other_terminal.id.clone()]),
        until: AwaitUntil::Prompt,
        timeout: 60.0,
        mode: AwaitMode::All,
        ..AwaitOutput::default()
    };
    daemon.call(input(&session.id, "sleep 0.3; (exit 5)\n")).await;
    let final_reply = daemon.call(all).await;
    let mut codes: Vec<_> =
        final_reply.terminals.iter().map(|end| (end.session_id == session.id, end.exit_code)).collect();
    codes.sort_unstable();
    assert_eq!(codes, [(false, None), (true, Some(5))]);
    daemon.stop().await;
}

#[tokio::test]
async fn full_screen_returns_changed_and_highlighted_rows() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    // Two drawings of a menu, each until a key is pressed.
    let draws = r"printf '\e[?1049h\e[2J\e[H'; for i in 1 2 3 4 5 6 7 8; do printf 'row %s of the menu\r\n' $i; done; "
        .to_owned()
        + r"printf '\e[3;1H\e[7mrow 3 of the menu\e[m'; read -rsn1; "
        + r"printf '\e[3;1Hrow 3 of the menu\e[4;1H\e[7mrow 4 of the MENU\e[m'; read -rsn1; printf '\e[?1049l'"
        + "\n";
    let first = daemon.call(until(&session.id, &draws, AwaitUntil::Input)).await;
    assert!(first.alternate_screen && first.screen_part.is_none(), "{first:?}");
    let reported_rows = |reply: &steplatch_protocol::SendInputReply| {
        reply.highlighted.iter().map(|part| (part.row, part.text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(reported_rows(&first), [(2, "row 3 of the menu".to_owned())]);
    let second = daemon.call(until(&session.id, "x", AwaitUntil::Input)).await;
    assert_eq!(second.screen_part, Some(ScreenPart::Changed));
    assert_eq!(second.screen_content.as_deref(), Some("3| row 4 of the MENU"));
    assert_eq!(reported_rows(&second), [(3, "row 4 of the MENU".to_owned())]);
    daemon.stop().await;
}

#[tokio::test]
async fn run_is_reported_briefly_and_fully_on_request() {
    let daemon = TestDaemon::new().await;
    let mut states = serde_json::Map::new();
    states.insert(
        "open".into(),
        json!({"action": {"tool": "open_terminal"},
        "transitions": [{"condition": "success", "next_state": "s0"}]}),
    );
    for number in 0..6 {
        states.insert(
            format!("s{number}"),
            json!({"action": {"tool": "send_input", "params": {"input_text": "echo step\n"}},
            "transitions": [{"condition": "success", "next_state": format!("s{}", number + 1)}]}),
        );
    }
    states.insert("s6".into(), json!({"action": {"tool": "exit_terminal"}}));
    let definition = json!({"name": "brief", "initial_state": "open", "states": states});
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        wait_seconds: Some(60.0),
        save_on_success: false,
        detail: Some(RunDetail::Brief),
        ..RunWorkflow::default()
    };
    let brief = daemon.call(verb).await;
    assert!(brief.success, "{brief:?}");
    let size = serde_json::to_string(&brief).unwrap().len();
    assert!(size <= 2048, "{size} bytes");
    let full_reply = daemon.call(GetRun { run_id: brief.run_id.clone(), ..GetRun::default() }).await;
    assert!(full_reply.execution_log.len() > brief.execution_log.len());
    assert!(
        full_reply.execution_log.iter().any(|entry| entry.get("variables_after").is_some_and(|all| !all.is_null()))
    );
    daemon.stop().await;
}

#[tokio::test]
async fn pagers_and_editors_stay_closed_in_single_command_shells() {
    let daemon = TestDaemon::new().await;
    let run = |command: &str| RunCommand { command: command.to_owned(), timeout: 60.0, ..RunCommand::default() };
    let result = daemon.call(run("echo $PAGER $GIT_PAGER $GIT_EDITOR $DEBIAN_FRONTEND")).await;
    assert_eq!(result.output.trim(), "cat cat true noninteractive");
    daemon.configure(Configuration { command_pagers: true, ..Configuration::default() });
    let result = daemon.call(run("echo .$GIT_EDITOR.")).await;
    assert_eq!(result.output.trim(), "..");
    daemon.stop().await;
}

#[tokio::test]
async fn one_wait_accepts_terminals_and_runs() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let definition = json!({"name": "short", "initial_state": "nap", "states": {
        "nap": {"action": {"tool": "run_command", "params": {"command": "sleep 0.2"}},
            "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": 1}}},
    }});
    let start = |definition| RunWorkflow {
        workflow_definition: Some(definition),
        wait_seconds: Some(0.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let run = daemon.call(start(definition)).await.run_id;
    let both = AwaitOutput {
        session_id: session.id.clone(),
        pattern: "^ready$".to_owned(),
        run_ids: Some(vec![run.clone()]),
        timeout: 60.0,
        ..AwaitOutput::default()
    };
    let wait_reply = daemon.call(both.clone()).await;
    let reply = wait_reply.run.clone().unwrap_or_else(|| panic!("{run}: {wait_reply:?}"));
    assert_eq!(
        (wait_reply.reason, reply.run_id.as_str(), reply.status.as_str()),
        (AwaitReason::Run, &*run, "completed")
    );
    let gate = json!({"name": "asks", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go?", "choices": ["yes"]}}}}});
    let asks = daemon.call(start(gate)).await.run_id;
    let runs_only = AwaitOutput { run_ids: Some(vec![asks.clone()]), timeout: 60.0, ..AwaitOutput::default() };
    let wait_reply = daemon.call(runs_only).await;
    assert_eq!((wait_reply.reason, wait_reply.run.unwrap().status.as_str()), (AwaitReason::Run, "waiting"));
    let nap = json!({"name": "long", "initial_state": "nap", "states": {
        "nap": {"action": {"tool": "sleep", "params": {"seconds": 600}}}}});
    let long = daemon.call(start(nap)).await.run_id;
    daemon.call(until(&session.id, "echo ready\n", AwaitUntil::Prompt)).await;
    let wait_reply = daemon.call(AwaitOutput { run_ids: Some(vec![long.clone()]), ..both.clone() }).await;
    assert_eq!((wait_reply.reason, wait_reply.match_text.as_deref()), (AwaitReason::Match, Some("ready")));
    let late_request = AwaitOutput { run_ids: Some(vec![long]), timeout: 0.1, ..AwaitOutput::default() };
    let wait_reply = daemon.call(late_request).await;
    assert_eq!(
        (wait_reply.success, wait_reply.reason, wait_reply.timeout_occurred),
        (true, AwaitReason::Timeout, true)
    );
    let unknown = AwaitOutput { run_ids: Some(vec!["run_0000000000".to_owned()]), ..both };
    let refusal = daemon.call(unknown).await;
    assert!(!refusal.success && refusal.error.unwrap().contains("run_0000000000"));
    daemon.stop().await;
}

#[tokio::test]
async fn nested_shell_takes_commands_and_can_be_integrated() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let run = |command: &str, integrate: Option<bool>| RunCommand {
        session_id: Some(session.id.clone()),
        command: command.to_owned(),
        timeout: 60.0,
        integrate,
        ..RunCommand::default()
    };
    daemon.call(until(&session.id, "PS1='in$ ' dash\n", AwaitUntil::Prompt)).await;
    let result = daemon.call(run("echo one; false", None)).await;
    assert_eq!((result.success, result.output.as_str(), result.exit_code), (true, "one\n", None));
    // The output of that command was already returned.
    let send_reply = daemon.call(until(&session.id, "echo two\n", AwaitUntil::Prompt)).await;
    assert!(!send_reply.screen_content.unwrap().contains("one"));
    let result = daemon.call(run("", Some(true))).await;
    assert_eq!((result.success, result.output.as_str()), (true, ""));
    let result = daemon.call(run("false", None)).await;
    assert_eq!((result.success, result.exit_code), (true, Some(1)));
    let result = daemon.call(run("", None)).await;
    assert!(result.error.unwrap().contains("empty"));
    daemon.configure(Configuration { command_integration: true, ..Configuration::default() });
    daemon.call(until(&session.id, "PS1='in in$ ' dash\n", AwaitUntil::Prompt)).await;
    let result = daemon.call(run("false", None)).await;
    assert_eq!((result.success, result.exit_code), (true, Some(1)), "{result:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn input_to_a_terminal_closed_during_the_wait_was_sent() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let waiting = SendInput {
        pattern: Some("^never$".to_owned()),
        timeout: Some(60.0),
        ..input(&session.id, "echo begun; sleep 600\n")
    };
    let started = AwaitOutput {
        session_id: session.id.clone(),
        pattern: "^begun".to_owned(),
        timeout: 60.0,
        ..AwaitOutput::default()
    };
    let close = async {
        daemon.call(started).await;
        daemon.call(ExitTerminal { session_id: session.id.clone(), ..ExitTerminal::default() }).await
    };
    let (send_reply, closed) = tokio::join!(daemon.call(waiting), close);
    assert!(closed.success);
    // The input was sent, even if the wait did not see the end of the program.
    assert_eq!(send_reply.message, "Input sent", "{send_reply:?}");
    assert!(send_reply.waited.is_some_and(|waited| waited.reason == AwaitReason::Exit) || !send_reply.success);
    daemon.stop().await;
}

#[tokio::test]
async fn wait_does_not_match_earlier_returned_output() {
    let daemon = TestDaemon::new().await;
    let (session, other_session) = (daemon.bash().await, daemon.bash().await);
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo").display().to_string();
    // A writer that precedes the pipe would create a file.
    daemon.call(until(&session.id, &format!("mkfifo {fifo}\n"), AwaitUntil::Prompt)).await;
    // A reader that opens the pipe before the last writer has closed it reads nothing.
    let server = format!("while :; do read -r line < {fifo} && echo \"listening $line\"; done");
    daemon.call(input(&session.id, &format!("{server}\n"))).await;
    daemon.call(until(&other_session.id, &format!("echo 1 > {fifo}\n"), AwaitUntil::Prompt)).await;
    let wait = |since, timeout| AwaitOutput {
        session_id: session.id.clone(),
        pattern: r"^listening (\d+)".to_owned(),
        timeout,
        since,
        ..AwaitOutput::default()
    };
    // A match that arrived between two waits is found once.
    assert_eq!(daemon.call(wait(None, 20.0)).await.match_text.as_deref(), Some("listening 1"));
    let nothing = daemon.call(wait(None, 0.2)).await;
    assert_eq!((nothing.reason, nothing.match_text), (AwaitReason::Timeout, None));
    assert!(nothing.error.unwrap().contains(r#"since: "input""#));
    assert_eq!(daemon.call(wait(Some(Since::Input), 20.0)).await.match_text.as_deref(), Some("listening 1"));
    daemon.call(until(&other_session.id, &format!("echo 2 > {fifo}\n"), AwaitUntil::Prompt)).await;
    assert_eq!(daemon.call(wait(None, 20.0)).await.match_text.as_deref(), Some("listening 2"));
    // The wait of an input counts too.
    let typed_input =
        SendInput { pattern: Some(r"^found \d".to_owned()), ..input(&other_session.id, "echo found $((3 + 4))\n") };
    assert_eq!(daemon.call(typed_input).await.waited.unwrap().match_text.as_deref(), Some("found 7"));
    let next_wait = AwaitOutput {
        session_id: other_session.id.clone(),
        pattern: r"^found \d".to_owned(),
        timeout: 0.2,
        ..AwaitOutput::default()
    };
    assert_eq!(daemon.call(next_wait.clone()).await.reason, AwaitReason::Timeout);
    // The wait starts at the client's own next input.
    daemon.call(input(&other_session.id, "echo found $((1 + 1))\n")).await;
    let found = daemon.call(AwaitOutput { timeout: 20.0, ..next_wait }).await;
    assert_eq!(found.match_text.as_deref(), Some("found 2"));
    daemon.stop().await;
}

#[tokio::test]
async fn secret_masks_itself_but_not_the_surrounding_text() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let asks = "read -rsp 'Token: ' x; echo; echo first; echo \"token is $x here\"; read -rp 'Go on? [y/N] ' y";
    daemon.call(until(&session.id, &format!("{asks}\n"), AwaitUntil::Input)).await;
    let secret = SendInput { secret: true, ..until(&session.id, "tok-123456\n", AwaitUntil::Input) };
    let send_reply = daemon.call(secret).await;
    assert_eq!(send_reply.screen_content.as_deref().map(str::trim), Some("first\ntoken is •••••• here\nGo on? [y/N]"));
    assert_eq!(send_reply.warning, None);
    daemon.call(until(&session.id, "y\n", AwaitUntil::Prompt)).await;
    let asks = "read -rsp 'Password: ' x; echo; echo \"Bypass password check of $x?\"; read -r y";
    daemon.call(until(&session.id, &format!("{asks}\n"), AwaitUntil::Input)).await;
    let secret = SendInput { secret: true, ..until(&session.id, "pass\n", AwaitUntil::Input) };
    let send_reply = daemon.call(secret).await;
    assert_eq!(send_reply.screen_content.as_deref().map(str::trim), Some("Bypass password check of ••••••?"));
    assert!(send_reply.warning.unwrap().contains("whole word"));
    daemon.call(until(&session.id, "y\n", AwaitUntil::Prompt)).await;
    daemon.call(until(&session.id, "read -rsp 'Code: ' x; echo; echo \"code $x\"\n", AwaitUntil::Input)).await;
    let secret = SendInput { secret: true, ..until(&session.id, "yes\n", AwaitUntil::Prompt) };
    assert!(daemon.call(secret).await.warning.unwrap().contains("too short"));
    daemon.stop().await;
}

/// Each drawing ends its question by moving the cursor over the question, like programs that redraw a line.
#[tokio::test]
async fn question_is_in_every_reply_however_the_cursor_got_there() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    for (drawing, asks) in [
        (r"? Name (demo) \033[14D\033[14C", "? Name (demo)"),
        (r"? Name (demo)\r\033[13C", "? Name (demo)"),
        (r"? Name (demo)\033[1G\033[14G", "? Name (demo)"),
        (r"? Nam (demo)\010\010\010\010\010\010\010\033[@e\033[14G", "? Name (demo)"),
        (r"old text here\r\033[K? Name (demo)\0337\r\0338", "? Name (demo)"),
        (r"one\r\n? Nbme\r\nthree\033[A\r\033[3Ca\033[B\r\033[5C", "? Name"),
    ] {
        let session = daemon.bash().await;
        // The typed line does not contain the question.
        let file = directory.path().join("ask.sh").display().to_string();
        std::fs::write(&file, format!("printf '{drawing}'; read x\n")).unwrap();
        let question_reply = daemon.call(until(&session.id, &format!("bash {file}\n"), AwaitUntil::Input)).await;
        let text = question_reply.screen_content.unwrap();
        assert!(text.contains(asks), "{drawing}: {text:?}");
        let since = GetScreenContent {
            session_id: session.id.clone(),
            content_mode: ContentMode::SinceInput,
            ..GetScreenContent::default()
        };
        let text = daemon.call(since).await.screen_content.unwrap();
        assert!(text.contains(asks), "since the input, {drawing}: {text:?}");
        daemon.call(until(&session.id, "\n", AwaitUntil::Prompt)).await;
        let run = RunCommand {
            session_id: Some(session.id.clone()),
            command: format!("bash {file}"),
            timeout: 60.0,
            ..RunCommand::default()
        };
        let result = daemon.call(run).await;
        assert!(result.awaiting_input && result.output.contains(asks), "by run_command, {drawing}: {result:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn command_refused_at_an_editor_names_the_waiting_program() {
    let daemon = TestDaemon::new().await;
    for (starts, program, full_screen) in [
        (
            "env MANPAGER=cat python3 -c 'import subprocess; subprocess.run([\"vim\", \"-u\", \"NONE\", \"x\"])'\n",
            "vim",
            true,
        ),
        ("bash -c 'less /etc/services; :'\n", "less", true),
        ("bash -c 'python3 -c \"input(chr(63))\"; :'\n", "python3", false),
    ] {
        let session = daemon.bash().await;
        daemon.call(until(&session.id, starts, AwaitUntil::Input)).await;
        let run = RunCommand {
            session_id: Some(session.id.clone()),
            command: "echo typed".to_owned(),
            timeout: 20.0,
            ..RunCommand::default()
        };
        let refusal = daemon.call(run).await;
        let error = refusal.error.unwrap();
        assert!(refusal.awaiting_input && error.contains(&format!("'{program}'")), "{starts}: {error}");
        assert_eq!(error.contains("keys; press them"), full_screen, "{error}");
        assert!(!refusal.screen_content.unwrap().contains("echo typed"));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn leftover_screen_of_a_program_is_named_with_a_remedy() {
    let daemon = TestDaemon::new().await;
    for shell in ["dash", "bash --norc", "ksh"] {
        let session = daemon.bash().await;
        daemon.call(until(&session.id, &format!("{shell}\n"), AwaitUntil::Input)).await;
        // A killed full-screen program.
        daemon.call(until(&session.id, "sh -c 'tput smcup; kill -9 $$'\n", AwaitUntil::Input)).await;
        let run = || RunCommand {
            session_id: Some(session.id.clone()),
            command: "echo typed".to_owned(),
            timeout: 20.0,
            ..RunCommand::default()
        };
        let error = daemon.call(run()).await.error.unwrap();
        assert!(error.contains("tput rmcup"), "{shell}: {error}");
        daemon.call(until(&session.id, "tput rmcup\n", AwaitUntil::Input)).await;
        let result = daemon.call(run()).await;
        assert_eq!((result.output.trim(), result.error), ("typed", None), "{shell}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn wait_matched_only_by_typed_text_times_out() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let typed_input = SendInput {
        pattern: Some("DEPLOY_OK".to_owned()),
        timeout: Some(0.5),
        ..input(&session.id, "./deploy.sh && echo DEPLOY_OK\n")
    };
    let wait_reply = daemon.call(typed_input).await.waited.unwrap();
    assert_eq!((wait_reply.reason, wait_reply.match_text, wait_reply.in_echo), (AwaitReason::Timeout, None, true));
    let wait = AwaitOutput {
        session_id: session.id.clone(),
        pattern: "DEPLOY_OK".to_owned(),
        timeout: 0.2,
        since: Some(Since::Input),
        ..AwaitOutput::default()
    };
    let wait_reply = daemon.call(wait).await;
    assert_eq!((wait_reply.reason, wait_reply.match_text, wait_reply.in_echo), (AwaitReason::Timeout, None, true));
    assert!(wait_reply.timeout_occurred && wait_reply.error.unwrap().contains("only the text that was typed"));
    let machine = json!({"name": "deploy", "initial_state": "type", "states": {
        "type": {"action": {"tool": "send_input", "params": {"session_id": session.id, "input_text": "false && echo DEPLOY_OK\n",
            "pattern": "DEPLOY_OK", "timeout": 0.5}},
            "transitions": [{"condition": "success", "next_state": "done"}, {"condition": {}, "next_state": "failed"}]},
        "done": {"action": {"tool": "return", "params": {"result": "seen"}}},
        "failed": {"action": {"tool": "return", "params": {"result": "not seen"}}}}});
    let run = RunWorkflow { workflow_definition: Some(machine), ..RunWorkflow::default() };
    assert_eq!(daemon.call(run).await.result, Some(json!("not seen")));
    daemon.stop().await;
}

#[tokio::test]
async fn command_with_withheld_end_or_output_is_not_a_success() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let run = |command: &str| command_in(&session.id, command);
    daemon.call(run("exec > >(cat)")).await;
    let result = daemon.call(run("echo late")).await;
    assert_eq!((result.success, result.exit_code, result.outcome_unknown), (false, Some(0), None));
    assert!(result.error.unwrap().contains("pipe"));
    daemon.call(run("exec >/dev/tty")).await;
    let result = daemon.call(run("echo back")).await;
    assert_eq!((result.success, result.output.as_str(), result.error), (true, "back\n", None));
    daemon.call(run("shopt -s extdebug; trap false DEBUG")).await;
    let result = daemon.call(run("touch made")).await;
    assert_eq!(
        (result.success, result.exit_code, result.outcome_unknown, result.output.as_str()),
        (false, None, Some(true), "")
    );
    assert!(result.error.unwrap().contains("has not reported how the command ended"));
    daemon.stop().await;
}
