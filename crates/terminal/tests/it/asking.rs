//! Waits and commands that end where the program asks for input.

use std::time::Duration;

use steplatch_terminal::{CommandRequest, InputWait, Reason, Until, Wait};

use super::shells::{SHELLS, World, request, until_prompt};

fn until_input() -> Wait {
    Wait { input: Some(InputWait::Known), ..until_prompt() }
}

fn asked(command: &str) -> CommandRequest {
    CommandRequest { input: true, ..request(command) }
}

#[tokio::test]
async fn a_wait_for_the_prompt_ends_at_a_question_and_at_the_prompt() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.types("python3 -q\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Input, "{shell}: {}", view.screen);
        assert!(view.screen.trim_end().ends_with(">>>"), "{shell}: {}", view.screen);
        assert_eq!((view.busy, view.exit_code, view.awaiting_input), (Some(true), None, Some(true)), "{shell}");
        session.types("import time; time.sleep(0.5); input('Name? ')\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Input, "{shell}");
        assert!(view.screen.trim_end().ends_with("Name?"), "{shell}: {}", view.screen);
        session.types("x\nexit(3)\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(3)), "{shell}");
    }
}

#[tokio::test]
async fn a_command_that_asks_is_returned_from_and_left_running() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let ran = session.0.run(asked("sh -c 'printf \"Sure? \"; read answer; exit 4'")).await.unwrap();
        let asks = ran.asks.unwrap_or_else(|| panic!("{shell}: {}", ran.output));
        assert_eq!((ran.output.as_str(), ran.exit_code, ran.timed_out), ("Sure? ", None, false), "{shell}");
        assert_eq!((asks.program.as_deref(), asks.full_screen, asks.password), (Some("sh"), false, false), "{shell}");
        session.types("yes\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(4)), "{shell}");
        let ran = session.0.run(asked("seq 1 200 | less -X")).await.unwrap();
        assert_eq!(ran.asks.and_then(|asks| asks.program).as_deref(), Some("less"), "{shell}");
        session.types("q").await;
        session.prompt().await;
        let ran = session.0.run(asked("sleep 0.5; echo done")).await.unwrap();
        assert_eq!((ran.output.as_str(), ran.exit_code, ran.asks), ("done\n", Some(0), None), "{shell}");
    }
}

#[tokio::test]
async fn a_line_that_is_not_entered_is_reported_and_is_no_end_of_a_command() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.types("sleep 5; false").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.typed.as_deref()), (Reason::Input, Some("sleep 5; false")), "{shell}");
        session.types("\u{3}").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.typed), (Reason::Prompt, None), "{shell}");
    }
}

#[tokio::test]
async fn a_shell_without_marks_asks_at_its_prompt() {
    let world = World::new();
    let session = world.open(&["dash"]).await;
    session.types("sleep 0.4; echo over\n").await;
    let (waited, view) = session.waits(until_input()).await;
    assert_eq!(waited.reason, Reason::Input, "{}", view.screen);
    assert!(view.screen.contains("\nover\n"), "{}", view.screen);
}

#[tokio::test]
async fn a_program_that_works_in_silence_does_not_ask() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.types("sleep 30\n").await;
    let patient = Wait { timeout: Duration::from_millis(600), until: Until::Match, ..until_input() };
    let guessing = Wait { input: Some(InputWait::KnownOrQuiet), timeout: Duration::from_secs(2), ..patient.clone() };
    // What was typed and is not read yet is no sign that the program reads.
    session.types("ahead\n").await;
    for wait in [patient, guessing] {
        assert_eq!(session.waits(wait).await.0.reason, Reason::Timeout);
    }
}
