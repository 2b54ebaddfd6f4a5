//! Waits and commands after inputs that enter no line: the outcome of an earlier line does not count, and typed text
//! remains.

use std::time::Duration;

use steplatch_terminal::{Input, Reason, RunError, View, Wait, Waited};

use super::inner_shells::{start, until_input};
use super::shells::{SHELLS, Session, World, request, until_prompt};

/// Sends an input as a client and waits for the prompt after it.
async fn send_and_wait(session: &Session, input: Input) -> (Waited, View) {
    let sent = session.0.send(Input { by: Some("agent".to_owned()), ..input }).await.unwrap();
    let wait = Wait { since: Some(sent.offset), by: Some("agent".to_owned()), line: sent.line, ..until_prompt() };
    session.waits(wait).await
}

/// Returns the reason and the exit code of such a wait.
async fn send(session: &Session, input: Input) -> (Reason, Option<i32>) {
    let (waited, view) = send_and_wait(session, input).await;
    (waited.reason, view.exit_code)
}

fn typed(text: &str) -> Input {
    Input { text: text.to_owned(), ..Input::default() }
}

fn pressed(key: &str) -> Input {
    Input { keys: vec![key.to_owned()], ..Input::default() }
}

#[tokio::test]
async fn key_during_a_command_is_followed_by_the_next_prompt() {
    let asking = "sh -c 'printf \"key? \"; stty -icanon; read -r x; stty icanon; sleep 0.3; exit 7'";
    let trapping = "sh -c 'trap \"sleep 0.3; exit 5\" INT; sleep 60'";
    for shell in SHELLS {
        for (command, input, code) in [
            (asking, typed("y\n"), 7),
            (asking, pressed("enter"), 7),
            (trapping, pressed("ctrl-c"), 5),
            ("sh -c 'cat >/dev/null; sleep 0.3; exit 6'", pressed("ctrl-d"), 6),
        ] {
            let world = World::new();
            let session = world.open(&[shell]).await;
            assert_eq!(send(&session, typed("true\n")).await, (Reason::Prompt, Some(0)), "{shell}");
            let mut run = request(command);
            (run.input, run.timeout) = (true, Duration::from_millis(700));
            session.0.run(run).await.unwrap();
            assert_eq!(send(&session, input).await, (Reason::Prompt, Some(code)), "{shell}: {command}");
        }
    }
}

#[tokio::test]
async fn enter_after_program_keys_runs_nothing_and_succeeds() {
    for shell in SHELLS {
        for line in ["\n", "# a comment\n", "  \n"] {
            let world = World::new();
            let session = world.open(&[shell]).await;
            session.runs("setopt interactive_comments 2>/dev/null; true").await;
            session.type_in("seq 500 | less\n").await;
            session.wait_until("the pager waits", |view| view.modes.alternate_screen).await;
            assert_eq!(send(&session, typed("q")).await.0, Reason::Prompt, "{shell}");
            let (waited, view) = send_and_wait(&session, typed(line)).await;
            assert!(!waited.ran_nothing, "{shell}, {line:?}:\n{}", view.screen);
        }
    }
}

#[tokio::test]
async fn two_lines_of_one_client_have_their_own_exit_codes() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let lines = ["sh -c 'sleep 0.3; exit 3'\n", "sh -c 'sleep 0.3; exit 4'\n"];
        let (first, second) = tokio::join!(send(&session, typed(lines[0])), send(&session, typed(lines[1])));
        assert_eq!((first, second), ((Reason::Prompt, Some(3)), (Reason::Prompt, Some(4))), "{shell}");
    }
}

#[tokio::test]
async fn ctrl_c_at_an_unentered_line_leads_to_the_next_prompt() {
    // On a busy machine, fish occasionally misses Ctrl-C.
    for shell in SHELLS.into_iter().filter(|shell| *shell != "fish") {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for _ in 0..10 {
            session.type_in("sleep 5; false").await;
            session.wait_until("the line is shown", |view| view.screen.ends_with("sleep 5; false")).await;
            assert_eq!(send(&session, pressed("ctrl-c")).await.0, Reason::Prompt, "{shell}");
            let view = session.view().await;
            assert_eq!(view.typed, None, "{shell}:\n{}", view.screen);
            assert!(!view.screen.ends_with("sleep 5; false"), "{shell}:\n{}", view.screen);
        }
        for keys in ["ctrl-c", "ctrl-u"] {
            session.type_in("sleep 5; false").await;
            session.wait_until("the line is shown", |view| view.screen.ends_with("sleep 5; false")).await;
            session.0.send(pressed(keys)).await.unwrap();
            assert_eq!(session.output_of("echo hi").await, ("hi\n".into(), Some(0)), "{shell}, {keys}");
        }
    }
}

#[tokio::test]
async fn command_is_not_joined_to_text_at_the_prompt() {
    // Text that clients type while a command runs.
    let ahead = ["bash", "zsh", "fish"].map(|shell| (shell, "", "sleep 0.5", "echo AHEAD "));
    let inner = ["bash --norc", "dash"].map(|inner| ("bash", inner, "sleep 0.5", "echo AHEAD "));
    // Text inserted by the shell itself.
    let put = [("zsh", "", "print -z 'echo PUT '", ""), ("fish", "", "commandline 'echo PUT '", "")];
    for (shell, inner, command, text) in ahead.into_iter().chain(inner).chain(put) {
        let world = World::new();
        let session = world.open(&[shell]).await;
        if !inner.is_empty() {
            start(&session, inner).await;
        }
        session.type_in(&format!("{command}\n")).await;
        if text.is_empty() {
            session.wait_until("the text is at the prompt", |view| view.screen.ends_with("echo PUT")).await;
        } else {
            session.type_in(text).await;
            tokio::time::sleep(Duration::from_millis(800)).await;
        }
        let result = session.0.run(request("echo hi; false")).await;
        let is_refused = matches!(result, Err(RunError::HalfTyped { .. } | RunError::Busy { .. }));
        assert!(is_refused, "{shell} {inner}: {result:?}");
        session.0.send(pressed("ctrl-c")).await.unwrap();
        session.waits(until_input()).await;
        let result = session.0.run(request("echo hi")).await.unwrap();
        assert_eq!(result.output, "hi\n", "{shell} {inner}");
    }
}
