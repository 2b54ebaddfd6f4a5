//! Modes left on by ended programs, and the shell that resumes.

use steplatch_terminal::{Input, Output};
use tokio::sync::broadcast::error::TryRecvError;

use super::shells::{SHELLS, World};

/// Modes of programs that end without resetting them.
const LEFT_ON: [&str; 13] = [
    "\\033[?1049h",
    "\\033[?47h",
    "\\033[>1u",
    "\\033[?1049h\\033[>5u",
    "\\033[>4;2m",
    "\\033[?1000;1002;1006;1004h",
    "\\033[?1h\\033=",
    "\\033[5;10r",
    "\\033[5;10r\\033[?6h",
    "\\033(0\\016",
    "\\033[?25l\\033[?7l",
    "\\033[4h",
    "\\033[?2026h",
];

#[tokio::test]
async fn modes_of_ended_programs_are_reset() {
    for shell in SHELLS {
        for left_on in LEFT_ON {
            let world = World::new();
            let session = world.open(&[shell]).await;
            session.output_of("true").await;
            let before = session.view().await;
            let mut viewer = session.0.attach().await.unwrap();
            session.output_of(&format!("printf '{left_on}'")).await;
            let ran = session.output_of("echo back qqq").await;
            assert_eq!(ran, ("back qqq\n".into(), Some(0)), "{shell}: {left_on}");
            let history = session.history().await;
            assert!(history.contains("back qqq\n"), "{shell}: {left_on}");
            let view = session.wait_until("the cursor is shown", |view| view.cursor.visible).await;
            assert!(view.screen.contains("back qqq"), "{shell}: {left_on}:\n{}", view.screen);
            assert_eq!(view.modes, before.modes, "{shell}: {left_on}");
            // A watching person's terminal is reset as well. Read it before the long output below, because a slow
            // viewer loses the beginning of that output.
            let mut viewer_bytes = Vec::new();
            loop {
                match viewer.output.try_recv() {
                    Ok(Output::Bytes(bytes)) => viewer_bytes.extend_from_slice(&bytes),
                    Ok(_) => {}
                    Err(TryRecvError::Empty) => break,
                    Err(error) => panic!("{shell}: {left_on}: {error}"),
                }
            }
            let viewer_output = String::from_utf8_lossy(&viewer_bytes).into_owned();
            let off = match left_on {
                "\\033[?1049h" => "\x1b[?1049l",
                "\\033[?47h" => "\x1b[?47l",
                "\\033[>1u" => "\x1b[<16u",
                "\\033[>4;2m" => "\x1b[>4;0m",
                "\\033(0\\016" => "\x1b(B\x0f",
                "\\033[4h" => "\x1b[4l",
                _ => "",
            };
            assert!(viewer_output.contains(off), "{shell}: {left_on}: {viewer_output:?}");
            // An interrupted program leaves modes on, too.
            session.type_in("sleep 60\n").await;
            session.wait_for_foreground_change(shell).await;
            session.0.send(Input { keys: vec!["ctrl-c".into()], ..Input::default() }).await.unwrap();
            session.prompt().await;
            // All rows scroll.
            session.output_of("seq 1 200").await;
            let screen = session.view().await.screen;
            assert!(screen.starts_with("178\n") || screen.starts_with("179\n"), "{shell}: {left_on}:\n{screen}");
        }
    }
}

#[tokio::test]
async fn killed_full_screen_program_leaves_no_screen() {
    for shell in SHELLS {
        let world = World::new();
        world.file("text", "some text\n");
        let session = world.open(&[shell]).await;
        // It sends no query to the terminal, because an unread answer would become input for the shell.
        session.type_in("vim -u NONE -N --cmd 'set t_RV= t_u7= t_RF= t_RB=' text\n").await;
        session
            .wait_until("vim has the screen", |view| view.modes.alternate_screen && view.screen.contains("some"))
            .await;
        session.0.signal(steplatch_terminal::Signal::KILL).await.unwrap().unwrap();
        session.prompt().await;
        assert_eq!(session.output_of("echo back").await, ("back\n".into(), Some(0)), "{shell}");
        assert!(!session.view().await.modes.alternate_screen, "{shell}");
    }
}

#[tokio::test]
async fn control_keys_are_bytes_while_the_terminal_collects_lines() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for (key, code) in [("ctrl-c", 130), ("ctrl-\\", 131), ("ctrl-d", 0)] {
            session.type_in("printf '\\033[>1u'; cat\n").await;
            session.wait_until("cat reads", |view| view.busy == Some(true) && view.awaiting_input == Some(true)).await;
            session.0.send(Input { keys: vec![key.into()], ..Input::default() }).await.unwrap();
            assert_eq!(session.prompt().await.exit_code, Some(code), "{shell}: {key}");
        }
        session.type_in("printf '\\033[>1u'; cat\n").await;
        session.wait_until("cat reads", |view| view.busy == Some(true) && view.awaiting_input == Some(true)).await;
        session.0.send(Input { keys: vec!["ctrl-z".into()], ..Input::default() }).await.unwrap();
        session.prompt().await;
        let jobs = session.output_of("jobs").await.0;
        assert!(["topped", "uspended"].iter().any(|state| jobs.contains(state)), "{shell}: ctrl-z: {jobs}");
        session.output_of("kill -9 %1").await;
    }
}
