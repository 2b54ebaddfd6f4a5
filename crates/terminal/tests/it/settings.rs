//! User settings that interfere with the marks: read-only names, options, and hooks.

use std::time::Duration;

use steplatch_terminal::{Input, RunError, Wait};

use super::inner_shells::{gives, integrate, start};
use super::shells::{Session, World, request, until_prompt};

const PROMPT: &str = "PS1='$ '\n";

/// Commands with their outputs and exit codes in a shell with marks.
const COMMANDS: [(&str, &str, i32); 4] =
    [("true", "", 0), ("false", "", 1), ("echo hi", "hi\n", 0), ("echo a\nsh -c 'exit 3'", "a\n", 3)];

async fn check_commands(session: &Session, case: &str) {
    for (command, output, code) in COMMANDS {
        let result = session.try_command(command).await.unwrap_or_else(|error| panic!("{case}: {command}: {error}"));
        assert_eq!((result.output.as_str(), result.exit_code), (output, Some(code)), "{case}: {command}");
    }
}

#[tokio::test]
async fn readonly_variables_with_common_names_keep_exit_codes() {
    let names = ["status", "named", "entry", "entries", "place", "code", "key", "line", "n", "s"];
    let constants: String = names.map(|name| format!("readonly {name}=0\n")).concat();
    for (shell, file, text) in [
        ("bash", ".bashrc", format!("{PROMPT}{constants}PROMPT_COMMAND=(true x=1)\n")),
        ("zsh", ".zshrc", constants.replace("readonly status=0\n", "")),
    ] {
        let world = World::new();
        world.file(file, &text);
        let session = world.open(&[shell]).await;
        check_commands(&session, shell).await;
        session.type_in("false\n").await;
        assert_eq!(session.prompt().await.exit_code, Some(1), "{shell}");
    }
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.runs(constants.trim_end()).await;
    check_commands(&session, "a bash in which a person declares them").await;
    for (shell, text) in [
        ("bash --norc", constants.as_str()),
        ("zsh -f", "readonly c=0 code=0 n=0\n"),
        ("dash", "readonly s=0 n=0 l=0 r=0\n"),
    ] {
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        start(&session, &text.trim_end().replace('\n', "; ")).await;
        for (command, output, code) in COMMANDS.into_iter().filter(|(command, ..)| !command.contains('\n')) {
            assert_eq!(gives(&session, command).await, (output.into(), Some(code)), "{shell}: {command}");
        }
    }
}

#[tokio::test]
async fn bash_with_stopped_jobs_needs_a_second_exit() {
    for exit in ["exit 4", "exit"] {
        let world = World::new();
        world.file(".bashrc", PROMPT);
        let session = world.open(&["bash"]).await;
        session.runs("sleep 50 & kill -STOP $!; sleep 0.2").await;
        let result = session.runs(exit).await;
        assert!(result.output.contains("There are stopped jobs."), "{exit}: {result:?}");
        assert_eq!((result.exit_code, result.ended), (Some(1), None), "{exit}");
        assert_eq!(session.output_of("echo alive").await, ("alive\n".into(), Some(0)), "{exit}");
        // Another command runs before the second exit.
        let result = session.runs(exit).await;
        assert_eq!((result.exit_code, result.ended), (Some(1), None), "{exit}: {result:?}");
        let result = session.runs("exit 5").await;
        assert_eq!(result.ended.map(|exit| exit.code), Some(5), "{exit}: {result:?}");
        assert_eq!(result.output, "", "{exit}");
    }
}

#[tokio::test]
async fn refused_exit_of_bash_returns_its_message() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    let result = session.runs("exit 1 2").await;
    assert!(result.output.contains("too many arguments"), "{result:?}");
    assert_eq!(result.exit_code, Some(1));
    let result = session.runs("logout; echo $?").await;
    assert!(result.output.contains("not login shell") && result.output.ends_with("\n1\n"), "{result:?}");
}

#[tokio::test]
async fn prompts_without_expansion_add_nothing_to_an_output() {
    let world = World::new();
    world.file(".bashrc", &format!("{PROMPT}shopt -u promptvars\n"));
    let session = world.open(&["bash"]).await;
    check_commands(&session, "from the start").await;
    assert_eq!(session.output_of("echo \"Hi!\"").await, ("Hi!\n".into(), Some(0)));
    assert!(matches!(session.try_command("echo )").await, Err(RunError::NothingRan { .. })));
    assert!(!session.view().await.screen.contains("steplatch"), "{}", session.view().await.screen);
    session.runs("shopt -s promptvars").await;
    check_commands(&session, "in use again").await;
    assert_eq!(session.output_of("echo \"$histchars!\"").await, ("!\n".into(), Some(0)));
    session.runs("shopt -u promptvars").await;
    check_commands(&session, "out of use again").await;
    assert!(!session.view().await.screen.contains("steplatch"), "{}", session.view().await.screen);
}

#[tokio::test]
async fn prompt_without_a_command_end_is_not_an_outcome() {
    for (setting, command, output) in [
        ("shopt -s extdebug; trap false DEBUG", "touch made", ""),
        ("enable -n printf", "echo one; sh -c 'exit 3'", "one\n"),
        ("true", "unset PROMPT_COMMAND; echo one; sh -c 'exit 3'", "one\n"),
    ] {
        let world = World::new();
        world.file(".bashrc", PROMPT);
        let session = world.open(&["bash"]).await;
        session.try_command(setting).await.unwrap();
        let result = session.try_command(command).await.unwrap_or_else(|error| panic!("{setting}: {error}"));
        assert_eq!((result.output.as_str(), result.exit_code), (output, None), "{setting}");
        assert!(result.is_unreported, "{setting}: {result:?}");
        assert!(!world.home.path().join("made").exists());
    }
}

#[tokio::test]
async fn output_through_a_pipe_is_reported_as_such() {
    for (shell, is_piped, redirection) in [
        ("bash", true, "exec > >(cat)"),
        ("bash", true, "exec 2> >(cat >&2)"),
        ("bash", false, "exec 2>/dev/null"),
        ("zsh", true, "exec > >(cat)"),
        ("zsh", false, "exec 2>/dev/null"),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        assert!(!session.runs("echo before").await.is_piped);
        session.runs(redirection).await;
        let result = session.runs("echo on its way").await;
        assert_eq!((result.is_piped, result.exit_code), (is_piped, Some(0)), "{shell}: {redirection}: {result:?}");
        session.runs("exec >/dev/tty 2>&1").await;
        // The previous prompt may still be in transit.
        session.prompt().await;
        let result = session.runs("echo back").await;
        assert_eq!((result.is_piped, result.output.as_str()), (false, "back\n"), "{shell}: {redirection}");
    }
}

#[tokio::test]
async fn late_start_mark_through_a_pipe_begins_no_command() {
    let slowly = "perl -e 'while (sysread STDIN, $b, 65536) { select undef, undef, undef, 0.3; syswrite STDERR, $b }'";
    for is_inner in [false, true] {
        let world = World::new();
        world.file(".bashrc", PROMPT);
        let session = world.open(&["bash"]).await;
        if is_inner {
            start(&session, "PS1='$ ' bash --norc").await;
        }
        let request = |command: &str| if is_inner { integrate(command) } else { request(command) };
        let redirection = format!("exec 2> >({slowly})");
        let commands = [
            ("true", 0),
            (&redirection, 0),
            ("echo a", 0),
            ("sh -c 'exit 3'", 3),
            ("exec 2>/dev/tty", 0),
            ("sh -c 'exit 4'", 4),
        ];
        // After the last redirection, the prompt precedes its line. An inner bash lacks the marks for that.
        for (command, code) in commands.into_iter().take(if is_inner { 4 } else { 6 }) {
            let result = session.0.run(request(command)).await.unwrap_or_else(|error| panic!("{command}: {error}"));
            assert_eq!((result.exit_code, result.timed_out), (Some(code), false), "{is_inner}, {command}: {result:?}");
            // All output in transit arrives.
            tokio::time::sleep(Duration::from_millis(700)).await;
            let view = session.view().await;
            assert_eq!(view.busy, Some(false), "{is_inner}, {command}:\n{}", view.screen);
        }
    }
}

#[tokio::test]
async fn hook_output_between_lines_is_not_command_output() {
    for (shell, file, text) in [
        ("bash", ".bashrc", "PS1='$ '\nPS0='[start \\t]\\n'\n"),
        ("bash", ".bashrc", "PS1='$ '\nset -v\n"),
        ("bash", ".bashrc", "PS1='$ '\nset -v\nPROMPT_COMMAND=true\n"),
        ("zsh", ".zshrc", "autoload -Uz add-zsh-hook\nlate() { add-zsh-hook preexec said }\nsaid() { print SAID }\n"),
    ] {
        let world = World::new();
        world.file(file, text);
        let session = world.open(&[shell]).await;
        if shell == "zsh" {
            session.runs("late").await;
        }
        for (command, output, code) in [("echo a", "a\n", 0), ("echo a; false", "a\n", 1)] {
            assert_eq!(session.output_of(command).await, (output.into(), Some(code)), "{text}: {command}");
        }
        if !text.contains("set -v") {
            assert_eq!(session.output_of("echo a\necho b\nfalse").await, ("a\nb\n".into(), Some(1)), "{text}");
        }
    }
}

#[tokio::test]
async fn replaced_hook_list_hides_no_zsh_command() {
    for list in ["preexec_functions=(pre)", "preexec_functions=()", "preexec_functions=(pre); precmd_functions=(pre)"] {
        let world = World::new();
        world.file(".zshrc", "PROMPT='z> '\npre() { : }\n");
        let session = world.open(&["zsh"]).await;
        session.type_in(&format!("{list}\n")).await;
        session.prompt().await;
        for lines in 1..4 {
            assert_eq!(session.output_of("echo x >> made").await, (String::new(), Some(0)), "{list}");
            let made = std::fs::read_to_string(world.home.path().join("made")).unwrap();
            assert_eq!(made.lines().count(), lines, "{list}");
        }
        assert_eq!(session.output_of("echo said; false").await, ("said\n".into(), Some(1)), "{list}");
    }
}

#[tokio::test]
async fn inner_shell_ending_at_errors_is_integrated_and_stays() {
    for (shell, options) in [
        ("bash --norc", "set -e"),
        ("bash --norc", "set -u"),
        ("bash --norc", "set -eu"),
        ("bash --norc", "set -euo pipefail"),
        ("zsh -f", "set -e"),
        ("zsh -f", "set -eu"),
        ("dash", "set -eu"),
        ("ksh", "set -eu"),
        ("fish", "true"),
    ] {
        let world = World::new();
        world.file(".bashrc", PROMPT);
        let session = world.open(&["bash"]).await;
        start(&session, &format!("WHERE=inner {shell}")).await;
        start(&session, options).await;
        for _ in 0..2 {
            let result = session.0.run(integrate("echo at-$WHERE")).await;
            let result = result.unwrap_or_else(|error| panic!("{shell}, {options}: {error}"));
            assert_eq!((result.output.as_str(), result.exit_code), ("at-inner\n", Some(0)), "{shell}, {options}");
        }
    }
}

#[tokio::test]
async fn shell_ending_at_its_integration_has_no_successor() {
    let world = World::new();
    world.file(".bashrc", PROMPT);
    let session = world.open(&["bash"]).await;
    // A program that resembles a shell, and ends at its first line.
    world.file("quits", "printf '$ '; read -r line; exit 3\n");
    start(&session, "sh quits").await;
    let error = session.0.run(integrate("touch made")).await.unwrap_err();
    assert!(matches!(error, RunError::ShellEnded), "{error:?}");
    assert!(!world.home.path().join("made").exists(), "{error}");
}

#[tokio::test]
async fn each_of_several_interrupts_arrives() {
    let world = World::new();
    let program =
        "trap 'n=$((n+1)); echo int $n; [ $n -lt 3 ] || exit 3' INT; n=0; echo up; while :; do sleep 0.05; done";
    world.file("counts", program);
    for shell in ["bash", "zsh"] {
        for input in [
            Input { keys: ["ctrl-c"; 3].map(str::to_owned).to_vec(), ..Input::default() },
            Input { text: "\u{3}\u{3}\u{3}".into(), ..Input::default() },
        ] {
            let session = world.open(&[shell]).await;
            session.type_in("sh counts\n").await;
            session.expect_text("(?m)^up$").await;
            session.0.send(input).await.unwrap();
            let wait = Wait { timeout: Duration::from_secs(10), ..until_prompt() };
            let (waited, view) = session.waits(wait).await;
            assert_eq!(view.exit_code, Some(3), "{shell}, {:?}:\n{}", waited.reason, view.screen);
        }
    }
}
