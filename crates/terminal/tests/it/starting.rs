//! Slowly starting shells and programs, and shells whose prompts cannot be changed.

use std::time::Duration;

use steplatch_patience::eventually;
use steplatch_terminal::{CommandRequest, CommandResult, Input, InputError, InputWait, Reason, RunError, Wait};

use super::inner_shells::{entry, until_input};
use super::shells::{Session, World, request, until_prompt};

async fn open_at_once(world: &World, command: &[&str]) -> Session {
    Session(world.terminals.open(world.spec(command)).await.unwrap().terminal)
}

#[tokio::test]
async fn first_command_waits_for_a_starting_shell() {
    for (shell, file) in [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/config.fish")] {
        let world = World::new();
        world.file(file, "sleep 3\n");
        let session = open_at_once(&world, &[shell]).await;
        assert_eq!(session.output_of("echo a").await, ("a\n".into(), Some(0)), "{shell}");
    }
}

#[tokio::test]
async fn entry_waits_for_a_starting_program() {
    let world = World::new();
    let session = open_at_once(&world, &["sh", "-c", "sleep 3; exec python3 -q"]).await;
    assert_eq!(session.0.run(entry("20 + 1")).await.unwrap().output, "21\n");
    // In a shell: a starting inner shell, and a shell that replaces it by exec.
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
        session.type_in(&format!("{typed}\n")).await;
        session.wait_until("it starts", |view| view.busy != Some(false) && view.awaiting_input == Some(false)).await;
        let result =
            session.0.run(entry("echo inside")).await.unwrap_or_else(|error| panic!("{shell}, {typed}: {error}"));
        assert_eq!(result.output, "inside\n", "{typed}");
    }
}

#[tokio::test]
async fn entry_waits_until_the_start_of_the_command_is_read() {
    // The terminal receives the request and the output in a random order.
    for shell in ["bash", "zsh"].repeat(5) {
        let world = World::new();
        let until = |name: &str| format!("until [ -e {name} ]; do sleep 0.01; done");
        let begins = format!("[ -z \"$SLOW\" ] || {{ touch began; {}; }}", until("go"));
        world.file(".bashrc", &format!("PS0='$({})'; PS1='in$ '; {begins}\n", until("start")));
        world.file(".zshrc", &format!("preexec() {{ {} }}; PS1='in$ '\n", until("start")));
        let session = world.open(&[shell]).await;
        session.type_in("SLOW=1 bash\n").await;
        session
            .wait_until("the line is taken", |view| view.screen.trim_end().ends_with("bash") && view.cursor.col == 0)
            .await;
        world.file("start", "");
        // This thread also runs the terminal, so that the terminal reads nothing meanwhile.
        while !world.home.path().join("began").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let run = session.0.run(entry("echo inside"));
        tokio::pin!(run);
        expect_waiting(&mut run, &session).await;
        world.file("go", "");
        assert_eq!(run.await.unwrap().output, "inside\n", "{shell}");
    }
}

/// An interpreter that writes its prompt in pieces, like readline, and starts to read right after the last piece.
const PIECES: &str = "
import os, random, time
chance = random.Random(7)
while True:
    time.sleep(0.02)
    os.write(1, b'>>>')
    written = time.perf_counter() + chance.random() * 1e-3
    while time.perf_counter() < written:
        pass
    os.write(1, b' ')
    os.write(1, os.read(0, 4096)[:-1][::-1] + b'\\n')
";

#[tokio::test]
async fn prompt_written_in_pieces_is_read_to_its_end() {
    let world = World::new();
    world.file("pieces.py", PIECES);
    let session = open_at_once(&world, &["python3", "pieces.py"]).await;
    for round in 0..60 {
        let result = session.0.run(entry("abc")).await.unwrap();
        assert_eq!((result.output.as_str(), result.asks), ("cba\n", None), "{round}");
        session.type_in("x\n").await;
    }
}

/// Panics if a request for a command is answered before the terminal has received another request.
async fn expect_waiting(
    run: &mut std::pin::Pin<&mut impl Future<Output = Result<CommandResult, RunError>>>,
    session: &Session,
) {
    for looks in [true, false] {
        tokio::select! {
            biased;
            ran = &mut *run => panic!("it was not waited for: {ran:?}"),
            _ = session.view(), if looks => {}
            () = std::future::ready(()), if !looks => {}
        }
    }
}

/// A program that runs another program in the foreground at its start, and regains the foreground late.
const LATE: &str = "
import os, signal, sys, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
terminal = os.open('/dev/tty', os.O_RDWR)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | (0 if os.environ['REAPS'] == '1' else os.WNOWAIT))
open('ended', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
os.tcsetpgrp(terminal, os.getpgrp())
";

#[tokio::test]
async fn entry_waits_for_a_program_to_regain_the_foreground() {
    for reaps in ["0", "1"] {
        let world = World::new();
        world.file("late.py", LATE);
        let session = world.open(&["bash"]).await;
        session.type_in(&format!("REAPS={reaps} PYTHONSTARTUP=late.py python3 -q\n")).await;
        eventually("the other program has ended", async || world.home.path().join("ended").exists()).await;
        // A new process may still become any program.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let run = session.0.run(entry("20 + 1"));
        tokio::pin!(run);
        expect_waiting(&mut run, &session).await;
        world.file("go", "");
        assert_eq!(run.await.unwrap().output, "21\n", "{reaps}");
    }
}

#[tokio::test]
async fn missing_prompt_is_reported_as_such() {
    let world = World::new();
    let short = || CommandRequest { timeout: Duration::from_secs(1), ..request("echo a") };
    let session = open_at_once(&world, &["sleep", "600"]).await;
    assert_eq!(session.0.run(short()).await, Err(RunError::NoPrompt { program: Some("sleep".into()) }));
    world.file(".bashrc", "sleep 600\n");
    let session = open_at_once(&world, &["bash"]).await;
    assert!(matches!(session.0.run(short()).await, Err(RunError::NoPrompt { .. })));
    // A question is not a prompt, and the command does not wait for its timeout.
    world.file(".bashrc", "read -p 'Name? ' name\n");
    let session = open_at_once(&world, &["bash"]).await;
    session.expect_text("^Name\\? ").await;
    assert!(matches!(session.try_command("echo a").await, Err(RunError::NotIntegrated { .. })));
}

#[tokio::test]
async fn shell_with_readonly_prompts_takes_commands() {
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
            let result = session.0.run(entry(command)).await.unwrap_or_else(|error| panic!("{shell}, {rc}: {error}"));
            assert_eq!(
                (result.output.as_str(), result.exit_code, result.timed_out),
                (output, code, false),
                "{shell}, {rc}"
            );
        }
        let screen = session.view().await.screen;
        assert!(!screen.contains("readonly") && !screen.contains("read-only"), "{shell}, {rc}:\n{screen}");
    }
}

/// The outer terminal does not have the modes of the program that reads in the inner one.
#[tokio::test]
async fn line_too_long_for_a_multiplexed_program_is_refused() {
    let world = World::new();
    world.file(".screenrc", "startup_message off\n");
    for program in ["screen", "tmux -f /dev/null new"] {
        let session = world.open(&["bash"]).await;
        let until = Wait { input: Some(InputWait::KnownOrQuiet), ..until_prompt() };
        session.type_in(&format!("SHELL=/bin/dash {program}\n")).await;
        let (waited, view) = session.waits(until.clone()).await;
        assert_eq!(waited.reason, Reason::Input, "{program}:\n{}", view.screen);
        for bytes in [1100, 4104] {
            let typed = Input { text: format!("echo {}\n", "a".repeat(bytes)), ..Input::default() };
            assert!(matches!(session.0.send(typed).await, Err(InputError::LineTooLong(_))), "{program}: {bytes}");
        }
        session.type_in("echo short\n").await;
        let (_, view) = session.waits(until).await;
        assert!(view.screen.contains("\nshort"), "{program}:\n{}", view.screen);
        session.type_in("exit\n").await;
        session.waits(until_input()).await;
    }
}

#[tokio::test]
async fn prompt_within_a_multiplexer_is_recognised() {
    let world = World::new();
    world.file(".bashrc", "PS1='ana@in:~$ '\n");
    world.file(".screenrc", "startup_message off\n");
    for program in ["screen", "tmux -f /dev/null new", "script -q /dev/null"] {
        let session = world.open(&["bash"]).await;
        let until = Wait { input: Some(InputWait::KnownOrQuiet), ..until_prompt() };
        session.type_in(&format!("SHELL=/bin/bash {program}\n")).await;
        let (waited, view) = session.waits(until.clone()).await;
        assert_eq!(waited.reason, Reason::Input, "{program}:\n{}", view.screen);
        session.type_in("echo within; true\n").await;
        let (waited, view) = session.waits(until).await;
        assert!(waited.reason == Reason::Input && view.screen.contains("\nwithin"), "{program}:\n{}", view.screen);
        session.type_in("exit\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Prompt, "{program}:\n{}", view.screen);
    }
}
