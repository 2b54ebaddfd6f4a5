//! Commands run unchanged, and only their shell reports their start and end.

use steplatch_terminal::RunError;

use super::inner_shells::{entry, gives, integrate, start};
use super::shells::{SHELLS, Session, World};

/// Conveniences that people configure for typed lines.
const CONVENIENCES: [(&str, &str, &str); 3] = [
    ("bash", ".bashrc", "set -H; shopt -s histverify\n"),
    ("zsh", ".zshrc", "setopt correct correct_all; alias -g G='| wc -l'; alias -g '%%'=x\n"),
    ("fish", ".config/fish/config.fish", "set -g fish_greeting\nabbr -a gco echo expanded\n"),
];

#[tokio::test]
async fn commands_are_neither_expanded_nor_corrected() {
    for (shell, file, text) in CONVENIENCES {
        let world = World::new();
        world.file(file, text);
        let session = world.open(&[shell]).await;
        session.output_of("echo a line before").await;
        for (command, output, code) in [
            ("echo \"a!b\" !! !$ '!x'", "a!b !! !$ !x\n", 0),
            ("python3 -c \"print('Hello!')\"", "Hello!\n", 0),
            ("echo \"hi!\"", "hi!\n", 0),
            ("echo one # two !x", "one\n", 0),
            ("echo G %%", "G %%\n", 0),
            ("printf '%s\\n' 'x!y' \\\n  !!", "x!y\n!!\n", 0),
        ] {
            // fish treats a variable without a name like other shells treat history events.
            if shell == "fish" && command.contains("!$") {
                continue;
            }
            assert_eq!(session.output_of(command).await, (output.into(), Some(code)), "{shell}: {command}");
        }
        for command in ["gco", "ecoh x", "^a^b"] {
            let result = session.runs(command).await;
            assert_eq!(result.exit_code, Some(127), "{shell}: {command}: {result:?}");
        }
        // Lines typed by a person behave as usual.
        match shell {
            "bash" => {
                session.type_in("echo \"x!!\"\n").await;
                session.prompt().await;
                let screen = session.view().await.screen;
                assert!(screen.contains("x^a^b"), "the event is looked up:\n{screen}");
            }
            "zsh" => {
                session.type_in("echo one two G\n").await;
                session.expect_text("^ *1$").await;
            }
            _ => {
                session.type_in("gco \n").await;
                session.expect_text("^expanded$").await;
            }
        }
    }
}

#[tokio::test]
async fn command_without_effect_has_no_outcome() {
    for (shell, command, complaint) in [
        ("bash", "# a comment", ""),
        ("zsh", "# a comment\n# and another", ""),
        ("fish", "# a comment\n# and another", ""),
        ("bash", "echo )(", "syntax error"),
        ("zsh", "echo )(", "parse error"),
        ("zsh", "echo one\necho )(\necho two", "parse error"),
        ("fish", "echo )(", "Unexpected"),
        // Statements before and after an error are valid.
        ("fish", "touch ran; echo $x$/; touch ran", "not a valid variable"),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for before in ["true", "false"] {
            session.output_of(before).await;
            match session.try_command(command).await {
                Err(RunError::NothingRan { shell_message }) => {
                    assert!(
                        shell_message.contains(complaint) && (shell == "fish" || shell_message.lines().count() < 2),
                        "{shell}: {command}: {shell_message:?}"
                    );
                    assert_eq!(shell_message.is_empty(), complaint.is_empty(), "{shell}: {shell_message:?}");
                }
                other => panic!("{shell}: {command}: {other:?}"),
            }
        }
        assert_eq!(session.output_of("echo after").await, ("after\n".into(), Some(0)), "{shell}");
        assert!(!std::path::Path::new(world.home()).join("ran").exists(), "{shell}: {command}");
        // A typed line has no exit code either. zsh has no comments there, and fish leaves the line in place.
        if shell == "bash" {
            session.type_in(&format!("{command}\n")).await;
            assert_eq!(session.prompt().await.exit_code, None, "{shell}: {command}");
        }
    }
    let world = World::new();
    let session = world.open(&["bash"]).await;
    for before in ["true", "sh -c 'exit 2'"] {
        session.output_of(before).await;
        let result = session.try_command("echo )(\necho two").await;
        assert!(
            matches!(&result, Err(RunError::PartlyRan { shell_message }) if shell_message.contains("syntax error")),
            "{result:?}"
        );
        session.output_of("sh -c 'exit 2'").await;
        assert_eq!(session.output_of("echo all").await, ("all\n".into(), Some(0)));
    }
    session.type_in("echo \"a!nothing\"\n").await;
    assert_eq!(session.prompt().await.exit_code, None, "an unknown history event has no exit code");
}

#[tokio::test]
async fn command_output_is_never_a_shell_mark() {
    for (shell, prints) in [
        ("bash", "echo \"${PS1@P}${PS0@P}${PS2@P}\"; echo -e \"$PS1\""),
        ("zsh", "echo $PS1; print -P $PS1 $PS2; print -P \"$PROMPT_EOL_MARK\""),
        ("fish", "fish_prompt"),
        ("zsh", "for hook in $precmd_functions; do $hook; done"),
        ("fish", "emit fish_prompt; emit fish_postexec x; emit fish_cancel"),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for command in [format!("{prints}; sleep 0.3; echo LATE; false"), format!("{prints}; echo LATE; false")] {
            for _ in 0..3 {
                let result = session.runs(&command).await;
                assert!(
                    result.output.ends_with("LATE\n") && result.exit_code == Some(1),
                    "{shell}: {command}: {result:?}"
                );
            }
        }
    }
    for shell in ["dash", "busybox sh", "ksh", "bash --norc", "zsh -f"] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        gives(&session, "true").await;
        let (output, code) = gives(&session, "echo \"$PS1\"; echo \"$PS2\"; sleep 0.3; echo LATE; false").await;
        assert!(output.ends_with("LATE\n") && code == Some(1), "{shell}: {output:?} {code:?}");
    }
}

#[tokio::test]
async fn history_event_is_refused_by_an_expanding_shell() {
    for (shell, refuses) in
        [("bash --norc", true), ("zsh -f", true), ("tcsh -f", true), ("dash", false), ("fish", false)]
    {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='inner$ ' {shell}")).await;
        session.0.run(entry("echo before")).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
        let result = session.0.run(entry("echo \"x!echo\"")).await;
        match refuses {
            true => assert_eq!(result, Err(RunError::Expanded), "{shell}"),
            false => assert_eq!(result.unwrap().output, "x!echo\n", "{shell}"),
        }
        if shell != "tcsh -f" {
            let result = session.0.run(integrate("echo \"x!echo\"")).await.unwrap();
            assert_eq!((result.output.as_str(), result.exit_code), ("x!echo\n", Some(0)), "{shell}");
        }
    }
}

#[tokio::test]
async fn hook_output_is_not_command_output() {
    for (shell, file, hook) in [
        ("bash", ".bashrc", "PROMPT_COMMAND='echo hook-says'"),
        ("bash", ".bashrc", "PROMPT_COMMAND=('echo hook-says' 'printf more')"),
        ("bash", ".bash_profile", "PROMPT_COMMAND='echo hook-says'"),
        ("zsh", ".zshrc", "precmd() { print hook-says }"),
        ("zsh", ".zshrc", "one() { print hook-says }; precmd_functions=(one)"),
        ("zsh", ".zshrc", "PROMPT_EOL_MARK=; precmd() { print; print hook-says }"),
        ("fish", ".config/fish/config.fish", "function hook --on-event fish_prompt; echo hook-says; end"),
    ] {
        let world = World::new();
        world.file(file, &format!("{hook}\n"));
        let session = match file {
            ".bash_profile" => world.open(&["bash", "-l"]).await,
            _ => world.open(&[shell]).await,
        };
        for (command, output, code) in
            [("echo a", "a\n", 0), ("true", "", 0), ("printf abc", "abc", 0), ("false", "", 1)]
        {
            assert_eq!(session.output_of(command).await, (output.into(), Some(code)), "{shell}, {hook}: {command}");
        }
        let screen = session.view().await.screen;
        assert!(screen.contains("hook-says"), "{shell}, {hook}:\n{screen}");
    }
    // Replacing the hook list keeps the values that hooks see.
    let world = World::new();
    world.file(".bashrc", "PROMPT_COMMAND='echo old ${PIPESTATUS[*]} $?'\n");
    let session = world.open(&["bash"]).await;
    assert_eq!(session.output_of("true | sh -c 'exit 4'").await, (String::new(), Some(4)));
    let screen = session.view().await.screen;
    assert!(screen.contains("old 0 4 4"), "{screen}");
    for (set, printed) in
        [("PROMPT_COMMAND='echo new'", "new"), ("PROMPT_COMMAND=\"$PROMPT_COMMAND; echo more\"", "new\nmore")]
    {
        session.runs(set).await;
        assert_eq!(session.output_of("clear; echo a").await, ("a\n".into(), Some(0)), "{set}");
        let screen = session.view().await.screen;
        assert!(screen.starts_with(&format!("a\n{printed}\n")) && !screen.contains("old"), "{set}:\n{screen}");
    }
}

#[tokio::test]
async fn exit_message_of_a_shell_is_not_output() {
    for (command, output, code) in [
        ("echo hi; exit 7", "hi\n", 7),
        ("printf hi; exit 7", "hi", 7),
        ("trap 'echo bye' EXIT; echo hi; exit 7", "hi\nbye\n", 7),
        ("echo exit; exit", "exit\n", 0),
        ("set -e; echo exit; false", "exit\n", 1),
        ("(exit 3); echo $?; exit", "3\n", 0),
        ("f() { exit 4; }; echo \"$(exit 5)$?\"; f", "5\n", 4),
    ] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        let result = session.runs(command).await;
        assert_eq!((result.output.as_str(), result.exit_code), (output, Some(code)), "{command}: {result:?}");
    }
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        assert_eq!(session.runs("echo hi; exit 7").await.output, "hi\n", "{shell}");
    }
}

#[tokio::test]
async fn earlier_prompt_does_not_end_a_wait() {
    for (shell, file, slow) in [
        ("bash", ".bashrc", "PROMPT_COMMAND='sleep 0.4'"),
        ("zsh", ".zshrc", "precmd() { sleep 0.4 }"),
        ("zsh", ".zshrc", "unset zle_bracketed_paste; precmd() { sleep 0.4 }"),
        ("fish", ".config/fish/config.fish", "function slow --on-event fish_prompt; sleep 0.4; end"),
    ] {
        let world = World::new();
        world.file(file, &format!("{slow}\n"));
        // Typed before the first prompt, and between a command and the next prompt.
        let terminal = world.terminals.open(world.spec(&[shell])).await.unwrap().terminal;
        let session = Session(terminal);
        for word in ["first", "second"] {
            session.type_in(&format!("sleep 0.6; echo {word} DO''NE\n")).await;
            session.prompt().await;
            let printed = session.history().await;
            assert!(printed.contains(&format!("{word} DONE")), "{shell}, {slow}: {word}:\n{printed}");
            session.type_in("true\n").await;
        }
    }
}

#[tokio::test]
async fn bash_with_redirected_prompts_runs_commands() {
    let world = World::new();
    for elsewhere in ["/dev/null", "errors"] {
        let session = world.open(&["bash"]).await;
        for before in ["true", "false"] {
            session.output_of(before).await;
            let result = session.runs(&format!("exec 2>{elsewhere}; echo one; ls /nowhere")).await;
            assert_eq!((result.output.as_str(), result.exit_code), ("one\n", Some(2)), "{elsewhere}");
            assert_eq!(session.output_of("echo two; sh -c 'exit 3'").await, ("two\n".into(), Some(3)), "{elsewhere}");
            session.type_in("echo three; false\n").await;
            assert_eq!(session.prompt().await.exit_code, Some(1), "{elsewhere}");
            assert_eq!(session.output_of("exec 2>/dev/tty").await, (String::new(), Some(0)), "{elsewhere}");
            assert_eq!(session.output_of("ls /nowhere 2>&1 | wc -l").await, ("1\n".into(), Some(0)), "{elsewhere}");
        }
    }
    // Output passed on by another program arrives at any time.
    let session = world.open(&["bash"]).await;
    session.runs("exec > >(tee copy) 2>&1").await;
    for code in [0, 3, 0, 1] {
        assert_eq!(session.output_of(&format!("echo code; sh -c 'exit {code}'")).await.1, Some(code));
    }
    // The marks of output that tee passes on after the prompt would begin a command.
    session.runs("exec >/dev/tty 2>&1; wait $!").await;
    assert_eq!(session.output_of("grep -c 'code$' copy").await, ("4\n".into(), Some(0)));
}
