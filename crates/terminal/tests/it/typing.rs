//! Input that arrives unchanged, or is refused before the first byte: long lines, entries of several lines, keys after
//! Escape.

use steplatch_patience::eventually;
use steplatch_terminal::{CommandRequest, Input, InputError, Limit, Part, Reason, RunError, Wait};

use super::inner_shells::{entry, start, until_input};
use super::shells::{Session, World, request, until_prompt};

/// Maximum length of a line that the kernel buffers for a program that reads whole lines, in bytes.
const MAX_LINE_BYTES: usize = 4095;

async fn send_input(session: &Session, text: &str) -> Result<(), InputError> {
    session.0.send(Input { text: text.to_owned(), ..Input::default() }).await.map(drop)
}

fn is_too_long<T>(sent: &Result<T, InputError>) -> bool {
    matches!(sent, Err(InputError::LineTooLong(_)))
}

#[tokio::test]
async fn line_too_long_for_the_kernel_is_refused() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    for reader in ["cat > typed", "head -1 > typed", "dash -c 'read -r line; printf %s \"$line\" > typed'"] {
        start(&session, reader).await;
        let before = session.view().await.screen;
        assert!(is_too_long(&send_input(&session, &format!("{}\n", "x".repeat(MAX_LINE_BYTES + 1))).await), "{reader}");
        assert!(
            is_too_long(&send_input(&session, &format!("short\n{}", "x".repeat(MAX_LINE_BYTES + 1))).await),
            "{reader}"
        );
        assert_eq!(session.view().await.screen, before, "{reader}: nothing was typed");
        // Two parts of one line count together.
        send_input(&session, "abc").await.unwrap();
        assert!(is_too_long(&send_input(&session, &"x".repeat(MAX_LINE_BYTES - 2)).await), "{reader}");
        send_input(&session, &format!("{}\n", "x".repeat(MAX_LINE_BYTES - 3))).await.unwrap();
        if reader.starts_with("cat") {
            send_input(&session, "\u{4}").await.unwrap();
        }
        session.prompt().await;
        assert_eq!(session.output_of("tr -d '\\n' < typed | wc -c").await.0, format!("{MAX_LINE_BYTES}\n"), "{reader}");
    }
}

#[tokio::test]
async fn secret_too_long_for_the_kernel_is_refused() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "sh -c 'stty -echo; printf \"Password: \"; read word; stty echo; echo $word | wc -c'").await;
    let secret = Input { text: format!("{}\n", "p".repeat(5000)), secret: true, ..Input::default() };
    assert!(is_too_long(&session.0.send(secret).await));
    send_input(&session, "right\n").await.unwrap();
    session.prompt().await;
    assert!(session.view().await.screen.contains("Password: 6\n"), "{}", session.view().await.screen);
}

#[tokio::test]
async fn command_too_long_for_an_editorless_shell_is_refused() {
    let long = |name: &str| format!("echo {} > /dev/null; touch {name}", "a".repeat(MAX_LINE_BYTES));
    for shell in ["dash", "bash --norc --noediting"] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        let result = session.0.run(entry(&long("made-by-accident"))).await;
        assert!(matches!(result, Err(RunError::LineTooLong(_))), "{shell}: {result:?}");
        let result = session.0.run(entry(&format!("true\n{}", long("made-by-accident")))).await;
        assert!(matches!(result, Err(RunError::LineTooLong(_))), "{shell}: {result:?}");
        assert_eq!(session.0.run(entry("ls")).await.unwrap().output, "", "{shell}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.runs(&long("made")).await;
        assert_eq!(session.output_of("ls made").await.0, "made\n", "{shell}");
    }
    let world = World::new();
    let session = world.open(&["bash"]).await;
    start(&session, "python3 -q").await;
    let result = session.0.run(entry(&format!("len('{}')", "a".repeat(2 * MAX_LINE_BYTES)))).await.unwrap();
    assert_eq!(result.output, format!("{}\n", 2 * MAX_LINE_BYTES), "a shell with a line editor accepts long lines");
}

#[tokio::test]
async fn multi_line_entry_runs_whole_with_its_full_output() {
    let cases: [(&str, &[(&str, &str)]); 5] = [
        (
            "python3 -q",
            &[
                ("print(1)\nprint(2)\nprint(3)", "1\n2\n3\n"),
                ("def f():\n    a = 1\n\n    b = 2\n    return a + b\n\nprint(f())", "3\n"),
                ("def g():\n    return 4\nprint(g())", "4\n"),
                ("for i in range(2): print(i)\nprint('end')", "0\n1\nend\n"),
                ("try:\n    1 / 0\n\nexcept ZeroDivisionError:\n    print('caught')\nprint('on')", "caught\non\n"),
                ("x = '''a\n\nb'''\nprint(x)", "a\n\nb\n"),
                ("class A:\n\n    def m(self):\n\n        return 7\n\nA().m()", "7\n"),
            ],
        ),
        ("node", &[("console.log(1)\n\nconsole.log(2)", "1\nundefined\n2\nundefined\n"), ("[1,\n2].length", "2\n")]),
        ("sqlite3", &[("select 1;\nselect\n2;\n\nselect 3;", "1\n2\n3\n")]),
        ("PS1='$ ' dash", &[("echo 1\necho 2", "1\n2\n"), ("cat <<E\none\n\ntwo\nE\necho end", "one\n\ntwo\nend\n")]),
        ("gdb -q", &[("print 1\nprint 2", "$1 = 1\n$2 = 2\n")]),
    ];
    let world = World::new();
    let session = world.open(&["bash"]).await;
    for (program, entries) in cases {
        start(&session, program).await;
        for (text, output) in entries {
            let result = session.0.run(entry(text)).await.unwrap_or_else(|error| panic!("{program}: {text}: {error}"));
            assert_eq!(
                (result.output.as_str(), result.timed_out, &result.not_entered),
                (*output, false, &None),
                "{program}: {text}"
            );
        }
        session.type_in("\u{4}").await;
        session.waits(until_input()).await;
    }
}

#[tokio::test]
async fn empty_line_repeating_the_last_entry_is_refused() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    for program in ["gdb -q", "printf 'x = 1\\ny = 2\\n' > two.py; python3 -m pdb two.py"] {
        start(&session, program).await;
        let result = session.0.run(entry("print(1)\n\nprint(2)")).await;
        assert!(matches!(result, Err(RunError::EmptyLine { .. })), "{program}: {result:?}");
        session.type_in("\u{4}").await;
        session.waits(until_input()).await;
    }
}

#[tokio::test]
async fn line_after_a_question_does_not_answer_it() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    for (program, text, rest) in [
        ("python3 -q", "name = input('Name: ')\nprint('hi ' + name)", "print('hi ' + name)"),
        ("PS1='$ ' dash", "printf 'Name: '; read name\nrm -f $name\necho gone", "rm -f $name\necho gone"),
    ] {
        start(&session, program).await;
        let result = session.0.run(entry(text)).await.unwrap();
        assert!(result.asks.is_some() && result.output == "Name: ", "{program}: {result:?}");
        assert_eq!(result.not_entered.as_deref(), Some(rest), "{program}");
        session.type_in("ana\n").await;
        session.waits(until_input()).await;
        session.type_in("\u{4}").await;
        session.waits(until_input()).await;
    }
}

#[tokio::test]
async fn escape_and_the_next_key_arrive_as_two_keys() {
    let world = World::new();
    let node = "node -e \"const r = require('readline'); r.emitKeypressEvents(process.stdin); process.stdin.setRawMode(true); \
                process.stdin.on('keypress', (_, k) => { console.log('<' + (k.meta ? 'meta-' : '') + k.name + '>'); \
                if (k.name === 'q') process.exit(); }); console.log('ready');\"";
    let session = world.open(&["bash"]).await;
    session.type_in(&format!("{node}\n")).await;
    session.wait_until("it reads keys", |view| view.screen.contains("\nready")).await;
    let keys = ["escape", "down", "escape", "x", "q"].map(str::to_owned).to_vec();
    session.0.send(Input { text: "a".to_owned(), keys, ..Input::default() }).await.unwrap();
    session.prompt().await;
    let screen = session.view().await.screen;
    assert!(screen.contains("<a>\n<meta-escape>\n<down>\n<meta-escape>\n<x>\n<q>"), "{screen}");
    // readline in vi mode: Escape, then a movement.
    session.output_of("set -o vi").await;
    let keys = ["escape", "0", "i", "e", "c", "h", "o", "space", "enter"].map(str::to_owned).to_vec();
    session.0.send(Input { text: "word".to_owned(), keys, ..Input::default() }).await.unwrap();
    session.prompt().await;
    assert!(session.view().await.screen.contains("\nword\n"), "{}", session.view().await.screen);
}

#[tokio::test]
async fn typed_ahead_lines_reach_the_program_of_the_first_line() {
    // A line editor keeps carriage returns, and a program receives the unread rest unchanged.
    let shells = ["bash", "zsh", "fish"].map(|shell| (shell, None));
    let inner = ["bash --norc", "bash --posix", "zsh -f", "fish -N", "dash", "ksh", "tcsh -f"]
        .map(|inner| ("bash", Some(inner)));
    let rows = [
        ("head -n 2 > typed", "one\ntwo"),
        ("sh -c 'read a; read b; printf \"%s\\n\" \"$a\" \"$b\" > typed'", "one\ntwo"),
        ("python3 -c 'open(\"typed\", \"w\").write(input() + \"\\n\" + input() + \"\\n\")'", "one\ntwo"),
    ];
    for (shell, inner) in shells.into_iter().chain(inner) {
        let world = World::new();
        let session = world.open(&[shell]).await;
        if let Some(inner) = inner {
            start(&session, inner).await;
        }
        for (command, answers) in rows {
            session.type_in(&format!("{command}\n{answers}\ntouch after\n")).await;
            let row = format!("{shell} {inner:?}: {command}");
            let [typed, after] = ["typed", "after"].map(|name| std::path::Path::new(world.home()).join(name));
            // Lines typed while `touch` runs would go to a program that reads whole lines.
            eventually(&row, async || {
                let view = session.view().await;
                if after.exists() && view.awaiting_input == Some(true) { Ok(()) } else { Err(view.screen) }
            })
            .await;
            assert_eq!(std::fs::read_to_string(&typed).unwrap(), "one\ntwo\n", "{row}");
            std::fs::remove_file(&after).unwrap();
        }
    }
}

/// The line editor of busybox keeps 1 KB of a line: it drops the rest and executes the beginning.
#[tokio::test]
async fn line_too_long_for_busybox_is_refused() {
    for shell in ["busybox sh", "./sh"] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        session.output_of("ln -s \"$(command -v busybox)\" sh").await;
        start(&session, shell).await;
        refuses_long_lines(&session).await;
        let wide = CommandRequest { integrate: true, input: true, ..request(&format!("echo {}", "a".repeat(200))) };
        assert!(matches!(session.0.run(wide).await, Err(RunError::Wrapped { .. })), "its echo looks like output");
    }
}

/// Checks that a shell at its prompt receives no line that the line editor of busybox would cut, and runs no part of
/// such a line.
pub(crate) async fn refuses_long_lines(session: &Session) {
    for integrates in [false, true] {
        let request =
            CommandRequest { integrate: integrates, input: true, ..request(&format!("echo {}", "a".repeat(1100))) };
        let result = session.0.run(request).await;
        assert!(
            matches!(result, Err(RunError::LineTooLong(_) | RunError::Wrapped { .. } | RunError::Unintegrated)),
            "run, {integrates}: {result:?}"
        );
        let typed = Input { text: format!("echo {}\n", "a".repeat(1100)), ..Input::default() };
        assert!(matches!(session.0.send(typed).await, Err(InputError::LineTooLong(_))), "typed, {integrates}");
    }
}

/// Several clients type ahead: each waits for the prompt after its own line, and receives the exit code of that line.
#[tokio::test]
async fn each_client_waits_for_the_prompt_after_its_own_line() {
    for shell in ["bash", "zsh", "fish"] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let lines = [
            ("one", "read x < gate; sh -c 'exit 1'"),
            ("two", "sh -c 'exit 2'"),
            ("three", "read x < gate; sh -c 'exit 3'"),
        ];
        session.output_of("mkfifo gate").await;
        let mut waiting = Vec::new();
        for (by, line) in lines {
            let input = Input { text: format!("{line}\n"), by: Some(by.to_owned()), ..Input::default() };
            let sent = session.0.send(input).await.unwrap();
            let wait = Wait { since: Some(sent.offset), by: Some(by.to_owned()), line: sent.line, ..until_prompt() };
            waiting.push((by, wait));
        }
        let open_gate = async || {
            let gate = std::path::Path::new(world.home()).join("gate");
            tokio::task::spawn_blocking(move || std::fs::write(gate, "x\n").unwrap()).await.unwrap();
        };
        let mut waiting = waiting.into_iter();
        let mut ends = async |code: i32| {
            let (by, wait) = waiting.next().unwrap();
            let (waited, view) = session.waits(wait).await;
            assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(code)), "{shell}: {by}\n{}", view.screen);
        };
        open_gate().await;
        // The third command still runs.
        ends(1).await;
        ends(2).await;
        open_gate().await;
        ends(3).await;
        // A later wait is for the prompt of the shell, whatever this client typed before.
        let typed = Input { text: "sh -c 'exit 5'\n".to_owned(), by: Some("two".to_owned()), ..Input::default() };
        let offset = session.0.send(typed).await.unwrap().offset;
        let wait = Wait { since: Some(offset), by: Some("one".to_owned()), ..until_prompt() };
        assert_eq!(session.waits(wait).await.1.exit_code, Some(5), "{shell}");
    }
}

/// A prompt with the time at the right margin, drawn from another row.
#[tokio::test]
async fn text_since_an_input_is_its_output_in_any_prompt_style() {
    let prompt = r"PS1='\w\[\e[s\e[1;60H\t\e[u\]\n> '";
    let world = World::new();
    world.file(".bashrc", &format!("{prompt}\n"));
    let session = world.open(&["bash"]).await;
    // A program that draws several rows is shown by its rows, with the empty rows in between.
    for (line, output) in [
        (r"printf 'a\n\n\nb\n'", "a\n\n\nb\n"),
        ("seq 50", "1\n2\n3\n"),
        ("echo same; echo same", "same\nsame\n"),
        (r"printf 'one\n\n\nfour\e[A\n'", "one\n\n\nfour\n"),
    ] {
        session.type_in(&format!("{line}\n")).await;
        session.prompt().await;
        let text = session.0.read(Part::SinceInput, Limit::Head(usize::MAX)).await.unwrap().head;
        assert!(text.starts_with(output), "{line}: {text:?}");
    }
}

/// Returns the installed Python interpreters, of all versions.
fn pythons() -> Vec<std::path::PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let versions = std::fs::read_dir(format!("{home}/.pyenv/versions")).into_iter().flatten().flatten();
    let directories =
        versions.map(|version| version.path().join("bin")).chain(["/usr/bin".into(), "/usr/local/bin".into()]);
    let minor = |name: &str| name.strip_prefix("python3.").and_then(|minor| minor.parse::<u32>().ok());
    let programs = directories.filter_map(|directory| std::fs::read_dir(directory).ok()).flatten().flatten();
    programs
        .filter(|program| program.file_name().to_str().and_then(minor).is_some_and(|minor| minor >= 6))
        .map(|program| program.path())
        .collect()
}

#[tokio::test]
async fn multi_line_entry_has_its_output_in_every_python() {
    let block = "def letter(word):\n    '''doc'''\n    if len(word) > 2:\n        for i, c in enumerate(word):\n            \
                 if i == 1:\n                print('in', c)\n\n    return len(word)\n\nprint(letter('abc'))";
    let pythons = pythons();
    assert!(!pythons.is_empty(), "a Python is installed");
    for python in pythons {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("{} -q", python.display())).await;
        for (text, output) in [
            ("print('a')", "a\n"),
            ("x = 1\nprint(x)", "1\n"),
            ("for i in range(2):\n    print(i)\n", "0\n1\n"),
            (block, "in b\n3\n"),
            ("print('one')\n\nprint('two')", "one\ntwo\n"),
            ("6*7", "42\n"),
            ("print()", "\n"),
        ] {
            let result =
                session.0.run(entry(text)).await.unwrap_or_else(|error| panic!("{}: {error}", python.display()));
            assert_eq!(result.output, output, "{}: {text}", python.display());
        }
    }
}
