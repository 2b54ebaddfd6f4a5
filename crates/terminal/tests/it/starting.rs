//! Shells and programs that take their time to start, and shells whose prompts cannot be changed.

use std::time::Duration;

use steplatch_terminal::{CommandRequest, InputWait, Reason, RunError, Wait};

use super::inner_shells::{entry, until_input};
use super::shells::{Session, World, request, until_prompt};

async fn open_at_once(world: &World, command: &[&str]) -> Session {
    Session(world.terminals.open(world.spec(command)).await.unwrap().terminal)
}

#[tokio::test]
async fn the_first_command_waits_for_a_shell_that_starts() {
    for (shell, file) in [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/config.fish")] {
        let world = World::new();
        world.file(file, "sleep 3\n");
        let session = open_at_once(&world, &[shell]).await;
        assert_eq!(session.gives("echo a").await, ("a\n".into(), Some(0)), "{shell}");
    }
}

#[tokio::test]
async fn an_entry_waits_for_a_program_that_starts() {
    let world = World::new();
    let session = open_at_once(&world, &["sh", "-c", "sleep 3; exec python3 -q"]).await;
    assert_eq!(session.0.run(entry("20 + 1")).await.unwrap().output, "21\n");
    // In a shell: an inner one that starts, and one that takes its place.
    for (typed, shell) in [
        ("SLOW=1 bash", "bash"),
        ("exec env SLOW=1 zsh", "zsh"),
        ("env SLOW=1 nice bash", "bash"),
        ("(sleep 0.2; SLOW=1 exec bash)", "bash"),
    ] {
        let world = World::new();
        world.file(".bashrc", "PS1='in$ '; [ -z \"$SLOW\" ] || sleep 3\n");
        world.file(".zshrc", "PS1='in$ '; [ -z \"$SLOW\" ] || sleep 3\n");
        let session = world.open(&["bash"]).await;
        session.types(&format!("{typed}\n")).await;
        session.comes_to("it starts", |view| view.busy != Some(false) && view.awaiting_input == Some(false)).await;
        let ran = session.0.run(entry("echo inside")).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
        assert_eq!(ran.output, "inside\n", "{typed}");
    }
}

#[tokio::test]
async fn a_prompt_that_does_not_come_is_reported_as_that() {
    let world = World::new();
    let short = || CommandRequest { timeout: Duration::from_secs(1), ..request("echo a") };
    let session = open_at_once(&world, &["sleep", "600"]).await;
    assert_eq!(session.0.run(short()).await, Err(RunError::NoPrompt { program: Some("sleep".into()) }));
    world.file(".bashrc", "sleep 600\n");
    let session = open_at_once(&world, &["bash"]).await;
    assert!(matches!(session.0.run(short()).await, Err(RunError::NoPrompt { .. })));
    // A question is none, and the command is not kept for its time.
    world.file(".bashrc", "read -p 'Name? ' name\n");
    let session = open_at_once(&world, &["bash"]).await;
    session.sees("^Name\\? ").await;
    assert!(matches!(session.tries("echo a").await, Err(RunError::NotIntegrated { .. })));
}

#[tokio::test]
async fn a_shell_whose_prompts_are_read_only_takes_commands() {
    for (shell, file, rc, code) in [
        ("bash", ".bashrc", "PS1='ro> '; readonly PS1", Some(3)),
        ("bash", ".bashrc", "PS1='ro> '; readonly PS0 PS1 PS2", Some(3)),
        ("bash", ".bashrc", "readonly PS0", Some(3)),
        ("bash", ".bashrc", "readonly PROMPT_COMMAND=true PS0", Some(3)),
        ("bash", ".bashrc", "PS1='ana@ro$ '; readonly PS1 PROMPT_COMMAND=true", None),
        ("zsh", ".zshrc", "PS1='ro> '; typeset -r PS1 PS2", Some(3)),
        ("zsh", ".zshrc", "typeset -r PROMPT_EOL_MARK=%", Some(3)),
    ] {
        let world = World::new();
        world.file(file, &format!("{rc}\n"));
        let session = open_at_once(&world, &[shell]).await;
        for (command, output, code) in [("echo a", "a\n", code.map(|_| 0)), ("sh -c 'echo b; exit 3'", "b\n", code)] {
            let ran = session.0.run(entry(command)).await.unwrap_or_else(|error| panic!("{shell}, {rc}: {error}"));
            assert_eq!((ran.output.as_str(), ran.exit_code, ran.timed_out), (output, code, false), "{shell}, {rc}");
        }
        let screen = session.view().await.screen;
        assert!(!screen.contains("readonly") && !screen.contains("read-only"), "{shell}, {rc}:\n{screen}");
    }
}

#[tokio::test]
async fn a_prompt_within_another_terminal_is_seen() {
    let world = World::new();
    world.file(".bashrc", "PS1='ana@in:~$ '\n");
    world.file(".screenrc", "startup_message off\n");
    for program in ["screen", "tmux -f /dev/null new", "script -q /dev/null"] {
        let session = world.open(&["bash"]).await;
        let until = Wait { input: Some(InputWait::KnownOrQuiet), ..until_prompt() };
        session.types(&format!("SHELL=/bin/bash {program}\n")).await;
        let (waited, view) = session.waits(until.clone()).await;
        assert_eq!(waited.reason, Reason::Input, "{program}:\n{}", view.screen);
        session.types("echo within; true\n").await;
        let (waited, view) = session.waits(until).await;
        assert!(waited.reason == Reason::Input && view.screen.contains("\nwithin"), "{program}:\n{}", view.screen);
        session.types("exit\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Prompt, "{program}:\n{}", view.screen);
    }
}
