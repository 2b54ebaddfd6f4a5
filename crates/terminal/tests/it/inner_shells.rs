//! Nested shells and interpreters: their commands, exit codes and variables.

use steplatch_patience::eventually;
use steplatch_terminal::{CommandRequest, InputWait, Limit, Part, Reason, RunError, Variable, Wait};

use super::shells::{SHELLS, Session, World, request, until_prompt};

/// Shells entered from another shell, with their prompts.
pub(crate) const INNER: [&str; 6] = ["dash", "busybox sh", "bash --norc", "zsh -f", "fish", "bash --norc --noediting"];

pub(crate) fn integrate(command: &str) -> CommandRequest {
    CommandRequest { integrate: true, input: true, ..request(command) }
}

pub(crate) fn entry(command: &str) -> CommandRequest {
    CommandRequest { input: true, ..request(command) }
}

pub(crate) fn until_input() -> Wait {
    Wait { input: Some(InputWait::Known), ..until_prompt() }
}

/// Starts a program in a shell and waits until it requests input.
pub(crate) async fn start(session: &Session, program: &str) {
    session.type_in(&format!("{program}\n")).await;
    let (waited, view) = session.waits(until_input()).await;
    assert_eq!(waited.reason, Reason::Input, "{program}:\n{}", view.screen);
}

pub(crate) async fn gives(session: &Session, command: &str) -> (String, Option<i32>) {
    let result = session.0.run(integrate(command)).await.unwrap_or_else(|error| panic!("{command}: {error}"));
    assert!(!result.timed_out && result.asks.is_none(), "{command}: {result:?}");
    (result.output, result.exit_code)
}

#[tokio::test]
async fn inner_shell_is_integrated_at_its_prompt_and_left_again() {
    for shell in INNER {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        let before = session.view().await.screen;
        session.0.run(integrate("")).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
        let view = session.view().await;
        assert_eq!(view.screen, before, "{shell}: no part of it is visible");
        assert_eq!((view.busy, view.awaiting_input), (Some(false), Some(true)), "{shell}");
        assert_eq!(gives(&session, "echo hi").await, ("hi\n".into(), Some(0)), "{shell}");
        assert_eq!(gives(&session, "sh -c 'exit 3'").await, (String::new(), Some(3)), "{shell}");
        assert_eq!(gives(&session, "printf abc").await, ("abc".into(), Some(0)), "{shell}");
        assert_eq!(gives(&session, "cd /tmp").await.1, Some(0), "{shell}");
        assert_eq!(session.view().await.cwd.as_deref(), Some("/tmp"), "{shell}");
        assert_eq!(gives(&session, "seq 1 3").await.0, "1\n2\n3\n", "{shell}");
        // A line editor that knows the width of its prompt does not wrap the line.
        assert_eq!(
            gives(&session, "echo one; echo two; sleep 0.1; echo three").await.0,
            "one\ntwo\nthree\n",
            "{shell}"
        );
        // Waits for the prompt and the exit codes of that shell.
        session.type_in("sleep 0.2; sh -c 'exit 4'\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(4)), "{shell}:\n{}", view.screen);
        // A command that requests input returns early.
        let result = session.0.run(integrate("sh -c 'printf \"Name: \"; read name; exit 5'")).await.unwrap();
        assert!(result.asks.is_some() && result.output == "Name: ", "{shell}: {result:?}");
        session.type_in("ana\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(5)), "{shell}:\n{}", view.screen);
        // Back in the outer shell.
        session.type_in("exit\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Prompt, "{shell}:\n{}", view.screen);
        assert_eq!(session.output_of("echo back; false").await, ("back\n".into(), Some(1)), "{shell}");
        let text = session.0.read(Part::From(0), Limit::Head(usize::MAX)).await.unwrap().head;
        assert!(!text.contains("steplatch"), "{shell}: {text}");
    }
}

#[tokio::test]
async fn inner_bash_history_has_no_trace_of_the_integration() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "env -u HISTCONTROL bash --norc").await;
    assert_eq!(gives(&session, "echo one").await.0, "one\n");
    assert_eq!(session.0.variables(vec!["HISTCONTROL".into()]).await.unwrap()[0].1, None);
    let (history, _) = gives(&session, "history 3").await;
    assert!(history.contains("echo one") && !history.contains("steplatch") && !history.contains("printf"), "{history}");
}

#[tokio::test]
async fn variables_of_an_inner_shell_are_read_and_set() {
    for shell in INNER {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        session.0.run(integrate("")).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
        let before = session.view().await.screen;
        session.0.set_variables(vec![("GREETING".into(), "it's $HOME".into())], true).await.unwrap();
        let reported = session.0.variables(vec!["GREETING".into(), "NOT_SET".into()]).await.unwrap();
        let greeting = Variable { value: "it's $HOME".into(), exported: true };
        assert_eq!(reported, [("GREETING".into(), Some(greeting)), ("NOT_SET".into(), None)], "{shell}");
        assert_eq!(session.view().await.screen, before, "{shell}");
        assert_eq!(gives(&session, "sh -c 'echo \"$GREETING\"'").await.0, "it's $HOME\n", "{shell}");
    }
}

#[tokio::test]
async fn shell_as_the_terminals_program_can_be_integrated() {
    for shell in ["dash", "bash --norc", "busybox sh"] {
        let world = World::new();
        let command: Vec<&str> = shell.split(' ').collect();
        let session = world.open(&command).await;
        assert_eq!(gives(&session, "echo hi; false").await, ("hi\n".into(), Some(1)), "{shell}");
        // A shell within it, and back.
        start(&session, "PS1='> ' dash").await;
        session.type_in("PS1='inner$ '\n").await;
        session.waits(until_input()).await;
        assert_eq!(gives(&session, "echo inner").await, ("inner\n".into(), Some(0)), "{shell}");
        session.type_in("exit 6\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(6)), "{shell}:\n{}", view.screen);
        assert_eq!(gives(&session, "echo outer").await.0, "outer\n", "{shell}");
    }
}

#[tokio::test]
async fn command_in_an_unmarked_shell_ends_at_its_prompt() {
    for shell in INNER {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='inner$ ' {shell}")).await;
        for (command, output) in
            [("echo hi", "hi\n"), ("sleep 0.3; echo late", "late\n"), ("printf abc", "abc"), ("true", "")]
        {
            let result =
                session.0.run(entry(command)).await.unwrap_or_else(|error| panic!("{shell}: {command}: {error}"));
            // zsh fills the line before its prompt, and fish marks it.
            let output_is = result.output == output || (command == "printf abc" && result.output.starts_with(output));
            assert!(output_is && !result.timed_out, "{shell}: {command}: {result:?}");
            assert_eq!(result.exit_code, None, "{shell}: {command}");
        }
        let result = session.0.run(entry("cat")).await.unwrap();
        assert!(result.asks.is_some(), "{shell}: {result:?}");
        session.type_in("\u{3}").await;
        session.waits(until_input()).await;
        let result = session.0.run(entry("exit 7")).await.unwrap();
        assert_eq!(result.exit_code, Some(7), "{shell}: the outer shell reports its end: {result:?}");
        assert_eq!(session.output_of("echo back").await.0, "back\n", "{shell}");
    }
}

#[tokio::test]
async fn interpreter_entry_is_run_and_its_output_returned() {
    let cases: [(&str, &[(&str, &str)]); 6] = [
        (
            "python3 -q",
            &[
                ("1 + 1", "2\n"),
                ("x = 5", ""),
                ("print('a'); print('b')", "a\nb\n"),
                ("for i in range(2): print(i)", "0\n1\n"),
                ("def f(n):\n    return n * x", ""),
                ("f(3)", "15\n"),
                ("import time; time.sleep(0.3); print('late')", "late\n"),
                ("print('no end', end='')", "no end"),
            ],
        ),
        ("bc -q", &[("1+1", "2\n"), ("2^10", "1024\n")]),
        ("sqlite3", &[("select 1;", "1\n"), ("select 2,\n3;", "2|3\n")]),
        ("gdb -q", &[("print 1+1", "$1 = 2\n"), ("echo no end", "no end")]),
        (
            "ipython3 --no-banner",
            &[
                ("1 + 1", "Out[1]: 2\n"),
                ("for i in range(2):\n    print(i)\n    x = i", "0\n1\n"),
                ("x", "Out[3]: 1\n"),
                ("y = 2", ""),
            ],
        ),
        ("node", &[("1+1", "2\n"), ("let y = 4", "undefined\n"), ("y * 2", "8\n")]),
    ];
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for (program, entries) in cases {
            start(&session, program).await;
            for (text, output) in entries {
                let result =
                    session.0.run(entry(text)).await.unwrap_or_else(|error| panic!("{program}: {text}: {error}"));
                assert_eq!(
                    (result.output.as_str(), result.exit_code, result.timed_out),
                    (*output, None, false),
                    "{program}: {text}"
                );
            }
            // The program requests a confirmation at the end of input.
            session.type_in(if program.starts_with("ipython") { "exit\n" } else { "\u{4}" }).await;
            let (waited, view) = session.waits(until_input()).await;
            assert_eq!(waited.reason, Reason::Prompt, "{program}:\n{}", view.screen);
        }
        assert_eq!(session.output_of("echo back").await.0, "back\n", "{shell}");
    }
}

#[tokio::test]
async fn asking_entry_returns_and_incomplete_entry_is_withdrawn() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "python3 -q").await;
    let result = session.0.run(entry("input('Name: ')")).await.unwrap();
    assert!(result.asks.is_some() && result.output == "Name: ", "{result:?}");
    session.type_in("ana\n").await;
    session.waits(until_input()).await;
    for part in ["print(", "def f():", "class A:\n    def m(self):", "for x in [1]:\n"] {
        assert_eq!(session.0.run(entry(part)).await, Err(RunError::Incomplete), "{part}");
    }
    assert_eq!(session.0.run(entry("'still ' + 'there'")).await.unwrap().output, "'still there'\n");
    let elsewhere = CommandRequest { working_directory: Some("/".into()), ..entry("1") };
    assert_eq!(session.0.run(elsewhere).await, Err(RunError::NoDirectory));
    assert_eq!(session.0.run(integrate("")).await, Err(RunError::Unintegrated));
    // A line for shells is not typed into an interpreter.
    let result = session.0.run(integrate("2 + 2")).await.unwrap();
    assert_eq!((result.output.as_str(), result.exit_code), ("4\n", None));
    let result = session.0.run(entry("exit(3)")).await.unwrap();
    assert_eq!(result.exit_code, Some(3), "{result:?}");
}

#[tokio::test]
async fn unabandoned_entry_is_reported_with_its_row() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "sqlite3").await;
    match session.0.run(entry("select 'open")).await {
        Err(RunError::Unfinished { row }) => assert!(row.contains("...>"), "{row:?}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(session.0.run(entry("select 1;")).await, Err(RunError::Busy { .. })));
    session.type_in("';\n").await;
    session.waits(until_input()).await;
    assert_eq!(session.0.run(entry("select 1 + 1;")).await.unwrap().output, "2\n");
}

#[tokio::test]
async fn question_is_not_a_prompt_and_gets_no_command() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "read -p 'Continue? [Y/n] ' answer").await;
    assert!(matches!(session.0.run(integrate("rm -rf x")).await, Err(RunError::Busy { .. })));
    assert!(matches!(session.0.run(entry("yes")).await, Err(RunError::Busy { .. })));
}

#[tokio::test]
async fn non_shell_is_not_integrated_and_keeps_its_output() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(
        &session,
        "PS1='% ' sh -c 'printf \"tool$ \"; while read line; do echo \"unknown: ${#line}\"; printf \"tool$ \"; done'",
    )
    .await;
    assert_eq!(session.0.run(integrate("status")).await, Err(RunError::Unintegrated));
    let view = session.view().await;
    assert!(view.screen.contains("unknown: "), "its output is shown:\n{}", view.screen);
}

#[tokio::test]
async fn text_at_an_unmarked_prompt_is_kept() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "PS1='ana@box:~$ ' bash --norc").await;
    for (text, keys) in [("rm -rf build", "\u{1}"), ("cat foo >", "")] {
        session.type_in(&format!("{text}{keys}")).await;
        session.wait_until("the line is drawn", |view| view.screen.trim_end().ends_with(text)).await;
        for request in [entry("ls"), integrate("ls")] {
            // Until the line editor reads again, the shell is busy.
            eventually("the line is found", async || match session.0.run(request.clone()).await {
                Err(RunError::HalfTyped { text: typed }) => typed == text,
                Err(RunError::Busy { .. }) => false,
                other => panic!("{text}: {other:?}"),
            })
            .await;
        }
        session.type_in("\u{3}").await;
        session.waits(until_input()).await;
    }
    assert_eq!(session.0.run(entry("echo still")).await.unwrap().output, "still\n");
}

#[tokio::test]
async fn inner_shell_left_by_a_command_ends_that_command() {
    let world = World::new();
    let session = world.open(&["dash"]).await;
    start(&session, "PS1='in$ ' bash --norc").await;
    assert_eq!(gives(&session, "echo in").await.0, "in\n");
    let result = session.0.run(request("exit 3")).await.unwrap();
    assert!(!result.timed_out && result.asks.is_none(), "{result:?}");
    assert_eq!(session.0.run(entry("echo out")).await.unwrap().output, "out\n");
}

#[tokio::test]
async fn command_ending_an_inner_shell_has_output_and_exit_code() {
    for shell in INNER {
        for _ in 0..4 {
            let world = World::new();
            let session = world.open(&["bash"]).await;
            start(&session, &format!("PS1='$ ' {shell}")).await;
            session.0.run(integrate("")).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
            assert_eq!(gives(&session, "echo bye; exit 5").await, ("bye\n".into(), Some(5)), "{shell}");
            assert_eq!(session.output_of("echo back").await, ("back\n".into(), Some(0)), "{shell}");
        }
    }
}

#[tokio::test]
async fn last_line_of_a_killed_inner_bash_is_output() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "PS1='$ ' bash --norc").await;
    session.0.run(integrate("")).await.unwrap();
    let (output, exit_code) = gives(&session, "echo exit; kill -9 $$").await;
    assert!(output.starts_with("exit\n"), "{output:?}");
    assert_eq!(exit_code, Some(137));
}

#[tokio::test]
async fn background_interpreter_accepts_entries() {
    let rows = [
        (
            "node",
            ("await new Promise(done => setTimeout(() => done('late'), 700))", "'late'\n"),
            ("setTimeout(() => console.log('by' + 'itself'), 700); 1", "1\n"),
        ),
        (
            "python3 -q",
            ("import time, threading; time.sleep(0.7); 'late'", "'late'\n"),
            ("threading.Timer(0.7, lambda: print('by' + 'itself')).start()", ""),
        ),
    ];
    for (program, (late, result), (background, at_once)) in rows {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, program).await;
        for (entered, output) in [(late, result), (background, at_once)] {
            let ran = session.0.run(entry(entered)).await.unwrap();
            assert_eq!((ran.output.as_str(), ran.asks.is_some()), (output, false), "{program}: {entered}");
        }
        session.expect_text("byitself$").await;
        let ran = session.0.run(entry("1+1")).await.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert_eq!(ran.output, "2\n", "{program}");
    }
}

#[tokio::test]
async fn unmarked_inner_shell_adds_nothing_to_an_output() {
    let [long, larger] = [130, 6000].map(|letters| "w".repeat(letters));
    let [echo, largest] = [&long, &larger].map(|text| format!("echo {text}"));
    let [printed, all_printed] = [&long, &larger].map(|text| format!("{text}\n"));
    let rows = [
        ("printf nonl", "nonl"),
        ("printf 'one\\ntwo'", "one\ntwo"),
        (&echo, printed.as_str()),
        (&largest, all_printed.as_str()),
        ("if true; then\n\techo x\nfi", "x\n"),
        ("cat <<'END'\n\tone\nEND", "\tone\n"),
    ];
    for shell in ["bash --norc", "zsh -f", "dash", "ksh", "busybox sh", "fish -N"] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, shell).await;
        for (entered, output) in rows {
            match session.0.run(entry(entered)).await {
                Ok(ran) => assert_eq!(ran.output, output, "{shell}: {entered:?}"),
                Err(RunError::Control(_)) => {
                    assert!(entered.contains('\t') && matches!(shell, "ksh" | "busybox sh" | "fish -N"), "{shell}");
                }
                Err(RunError::Wrapped { .. }) if entered == echo => {
                    assert!(matches!(shell, "busybox sh" | "fish -N"), "{shell}");
                }
                Err(RunError::Wrapped { .. } | RunError::LineTooLong(_)) if entered == largest => {
                    assert!(matches!(shell, "zsh -f" | "dash" | "busybox sh" | "fish -N"), "{shell}");
                }
                Err(error) => panic!("{shell}: {entered:?}: {error}"),
            }
        }
    }
}
