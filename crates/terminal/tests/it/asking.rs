//! Waits and commands that end where the program requests input.

use std::time::Duration;

use steplatch_terminal::{CommandRequest, Input, InputContext, InputReading, InputWait, Reason, Target, Until, Wait};

use super::shells::{SHELLS, World, request, until_prompt};

fn until_input() -> Wait {
    Wait { input: Some(InputWait::Known), ..until_prompt() }
}

fn start_asking(command: &str) -> CommandRequest {
    CommandRequest { input: true, ..request(command) }
}

#[tokio::test]
async fn wait_for_input_ends_at_a_question_after_exec() {
    for shell in SHELLS {
        for program in ["sh -c 'read -p \"Name? \" x'", "python3 -q", "sh", "cat"] {
            let world = World::new();
            let session = world.open(&[shell]).await;
            session.type_in(&format!("exec {program}\n")).await;
            let wait = Wait { input: Some(InputWait::KnownOrQuiet), ..until_prompt() };
            for _ in 0..2 {
                let (waited, view) = session.waits(wait.clone()).await;
                let outcome = (waited.reason, waited.replaced_by);
                assert_eq!(outcome, (Reason::Input, None), "{shell}, {program}:\n{}", view.screen);
            }
        }
    }
}

#[tokio::test]
async fn wait_for_the_prompt_ends_at_a_question_and_at_the_prompt() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in("python3 -q\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Input, "{shell}: {}", view.screen);
        assert!(view.screen.trim_end().ends_with(">>>"), "{shell}: {}", view.screen);
        assert_eq!((view.busy, view.exit_code, view.awaiting_input), (Some(true), None, Some(true)), "{shell}");
        session.type_in("import time; time.sleep(0.5); input('Name? ')\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Input, "{shell}");
        assert!(view.screen.trim_end().ends_with("Name?"), "{shell}: {}", view.screen);
        session.type_in("x\nexit(3)\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(3)), "{shell}");
    }
}

#[tokio::test]
async fn command_waiting_for_input_returns_and_keeps_running() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let result = session.0.run(start_asking("sh -c 'printf \"Sure? \"; read answer; exit 4'")).await.unwrap();
        let asks = result.asks.unwrap_or_else(|| panic!("{shell}: {}", result.output));
        assert_eq!((result.output.as_str(), result.exit_code, result.timed_out), ("Sure? ", None, false), "{shell}");
        assert_eq!((asks.program.as_deref(), asks.full_screen, asks.password), (Some("sh"), false, false), "{shell}");
        session.type_in("yes\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.exit_code), (Reason::Prompt, Some(4)), "{shell}");
        let result = session.0.run(start_asking("seq 1 200 | less -X")).await.unwrap();
        assert_eq!(result.asks.and_then(|asks| asks.program).as_deref(), Some("less"), "{shell}");
        session.type_in("q").await;
        session.prompt().await;
        let result = session.0.run(start_asking("sleep 0.5; echo done")).await.unwrap();
        assert_eq!((result.output.as_str(), result.exit_code, result.asks), ("done\n", Some(0), None), "{shell}");
    }
}

#[tokio::test]
async fn unentered_line_is_reported_and_does_not_end_a_command() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in("sleep 5; false").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.typed.as_deref()), (Reason::Input, Some("sleep 5; false")), "{shell}");
        session.type_in("\u{3}").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!((waited.reason, view.typed), (Reason::Prompt, None), "{shell}");
    }
}

#[tokio::test]
async fn unmarked_shell_waits_for_input_at_its_prompt() {
    let world = World::new();
    let session = world.open(&["dash"]).await;
    session.type_in("sleep 0.4; echo over\n").await;
    let (waited, view) = session.waits(until_input()).await;
    assert_eq!(waited.reason, Reason::Input, "{}", view.screen);
    assert!(view.screen.contains("\nover\n"), "{}", view.screen);
}

#[tokio::test]
async fn silent_busy_program_does_not_wait_for_input() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.type_in("sleep 30\n").await;
    let patient = Wait { timeout: Duration::from_millis(600), until: Until::Match, ..until_input() };
    let guessing = Wait { input: Some(InputWait::KnownOrQuiet), timeout: Duration::from_secs(2), ..patient.clone() };
    // Typed but unread text is not a sign that the program reads.
    session.type_in("ahead\n").await;
    for wait in [patient, guessing] {
        assert_eq!(session.waits(wait).await.0.reason, Reason::Timeout);
    }
}

/// A wait for a text and for a program that reads in this mode.
fn until_reads(pattern: &str, reads: InputReading) -> Wait {
    let pattern = steplatch_pattern::Pattern::new(pattern).unwrap();
    Wait { patterns: vec![pattern], until: Until::Match, reads: Some(reads), ..until_prompt() }
}

#[tokio::test]
async fn wait_for_a_line_reader_does_not_end_at_a_key_reader() {
    let world = World::new();
    let lines = Wait { reads_lines: true, ..until_reads(r"^Go on\? *\Z", InputReading::Shown) };
    let rows = [
        ("printf 'Go on? '; read x", Reason::Match),
        ("read -e -p 'Go on? ' x", Reason::Match),
        // A single key answers this question, so Enter would answer the next one.
        ("printf 'Go on? '; read -n1 x", Reason::Input),
        ("printf '\\033[?1049h\\033[HErase all?\\033[2;1HGo on? '; read x", Reason::Input),
    ];
    for (script, reason) in rows {
        let session = world.open(&["bash"]).await;
        session.type_in(&format!("bash -c \"{script}\"\n")).await;
        let (waited, view) = session.waits(lines.clone()).await;
        assert_eq!(waited.reason, reason, "{script}: {}", view.screen);
    }
}

#[tokio::test]
async fn wait_compares_highlights_of_the_screen() {
    let world = World::new();
    let entries = ["keep", "delete", "cancel"];
    let draws = |chosen: usize, style: &str, other: &str| {
        let row = |(row, entry): (usize, &&str)| {
            format!("\\033[{}m{entry}\\033[0m\\r\\n", if row == chosen { style } else { other })
        };
        format!("\\033[H\\033[J{}", entries.iter().enumerate().map(row).collect::<String>())
    };
    let wait = |highlighted: &[&str]| Wait {
        target: Target::Screen,
        highlighted: highlighted.iter().map(|row| (*row).to_owned()).collect(),
        timeout: Duration::from_secs(2),
        ..until_reads("^keep\ndelete\ncancel", InputReading::Shown)
    };
    // The style of the selected entry, the style of the others, and the rows that a wait has for the first and the
    // second entry.
    let cases: [(&str, &str, &[&str], &[&str]); 5] = [
        // From machines of older versions.
        ("7", "0", &["keep"], &["delete"]),
        ("7", "0", &["keep: inverse"], &["delete: inverse"]),
        ("1", "0", &["keep: bold"], &["delete: bold"]),
        ("36", "0", &["keep: 6"], &["delete: 6"]),
        ("0", "2", &["delete: dim", "cancel: dim"], &["keep: dim", "cancel: dim"]),
    ];
    for (style, other, first, second) in cases {
        let session = world.open(&["bash"]).await;
        let [one, two] = [0, 1].map(|chosen| draws(chosen, style, other));
        session
            .type_in(&format!("sh -c \"stty -icanon; printf '{one}\\033[?25l'; head -c1; printf '{two}'; head -c1\"\n"))
            .await;
        let (waited, view) = session.waits(wait(first)).await;
        assert_eq!(waited.reason, Reason::Match, "{style} {}", view.screen);
        let (waited, _) = session.waits(wait(second)).await;
        assert!(waited.reason != Reason::Match && waited.found.is_none(), "{style}: another entry: {waited:?}");
        session.type_in("x").await;
        let (waited, view) = session.waits(wait(second)).await;
        assert_eq!(waited.reason, Reason::Match, "{style} {}", view.screen);
    }
}

#[tokio::test]
async fn match_ends_a_wait_only_once_the_program_reads_input() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    // The text is gone before the program reads.
    for meanwhile in ["sleep 0.01", "sleep 0.3"] {
        let script = format!("printf 'Go on? '; {meanwhile}; printf '\\rErase all? '; read x");
        session.type_in(&format!("bash -c \"{script}\"\n")).await;
        let (waited, view) = session.waits(until_reads(r"^Go on\? *\Z", InputReading::Shown)).await;
        assert_eq!((waited.reason, waited.found), (Reason::Input, None), "{meanwhile}: {}", view.screen);
        session.type_in("n\n").await;
        session.prompt().await;
    }
    session.type_in("bash -c \"printf 'Go on? '; sleep 0.3; read x\"\n").await;
    let (waited, view) = session.waits(until_reads(r"^Go on\? *\Z", InputReading::Shown)).await;
    assert_eq!((waited.reason, view.awaiting_input), (Reason::Match, None), "{}", view.screen);
    assert_eq!(waited.found.unwrap().text, "Go on? ");
    session.type_in("y\n").await;
    session.prompt().await;
    // The program never reads.
    session.type_in("bash -c \"printf 'Go on? '; sleep 30\"\n").await;
    let short = Wait { timeout: Duration::from_millis(900), ..until_reads(r"^Go on\? *\Z", InputReading::Any) };
    let (waited, _) = session.waits(short).await;
    assert_eq!((waited.reason, waited.found), (Reason::Timeout, None));
}

#[tokio::test]
async fn wait_distinguishes_hidden_and_shown_questions() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    for (read, reads, reason) in [
        ("read x", InputReading::Shown, Reason::Match),
        ("read x", InputReading::Hidden, Reason::Input),
        ("read x", InputReading::Any, Reason::Match),
        ("read -s x", InputReading::Shown, Reason::Input),
        ("read -s x", InputReading::Hidden, Reason::Match),
        ("read -s x", InputReading::Any, Reason::Match),
        // Key by key, like line editors and menus.
        ("read -e x", InputReading::Shown, Reason::Match),
        ("read -n 1 x", InputReading::Shown, Reason::Match),
    ] {
        session.type_in(&format!("bash -c \"printf 'Value: '; {read}\"\n")).await;
        let (waited, view) = session.waits(until_reads(r"Value: *\Z", reads)).await;
        assert_eq!(waited.reason, reason, "{read} {reads:?}: {}", view.screen);
        session.type_in("v\n").await;
        session.prompt().await;
    }
}

#[tokio::test]
async fn log_has_the_row_at_keys_in_a_program_drawing_in_place() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    // Draws three rows, moves up to the first, and reads a key; then asks in a row that it has overwritten.
    let menu = r"printf 'Where to?\n> dev\n  prod\nkeys: up down'; printf '\e[3A\r\e[9C'; read -rsn 3 key; \
                 printf '\r\e[JWhere to? prod\nName? (demo)\nhint'; printf '\e[1A\r\e[6C'; read -rn 2 name";
    session.type_in(&format!("bash -c \"{}\"\n", menu.replace("\\\n", ""))).await;
    let waiting = until_reads("keys: up down", InputReading::Any);
    assert_eq!(session.waits(waiting).await.0.reason, Reason::Match);
    let down = Input { keys: vec!["down".to_owned()], ..Input::default() };
    session.0.send(down).await.unwrap();
    assert_eq!(session.waits(until_reads("hint", InputReading::Any)).await.0.reason, Reason::Match);
    session.type_in("ab").await;
    session.prompt().await;
    let log = session.0.inputs(0).await.unwrap();
    let typed: Vec<_> = log.iter().filter(|entry| matches!(entry.context, InputContext::Program { .. })).collect();
    let screens: Vec<&str> = typed.iter().filter_map(|entry| entry.screen.as_deref()).collect();
    assert_eq!(screens.len(), 2, "{typed:#?}");
    assert!(screens[0].ends_with("Where to?\n> dev\n  prod\nkeys: up down"), "{}", screens[0]);
    assert!(screens[1].ends_with("Where to? prod\nName? (demo)\nhint"), "{}", screens[1]);
    assert!(typed.iter().all(|entry| entry.awaited == Some(true)), "{typed:#?}");
    let rows: Vec<&InputContext> = typed.iter().map(|entry| &entry.context).collect();
    assert!(matches!(rows[1], InputContext::Program { row } if row == "Name? "), "{rows:?}");
}
