//! `steplatch tour`, typed word for word by a person in their own terminal.

use std::fs;

use steplatch_testkit::Home;

use crate::desk::{Desk, escape_regex};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns the commands of the page, each with its keys.
fn parse_commands() -> Vec<(String, Option<String>)> {
    let page = include_str!("../../docs/tour.md");
    let mut commands = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let (language, lines) = block.split_once('\n').unwrap();
        let answer = language.strip_prefix("sh answer=").map(|answer| match answer {
            "\"\\x1c\"" => "\x1c".to_owned(),
            answer => format!("{}\r", answer.trim_matches('"')),
        });
        commands.extend(lines.lines().map(|line| (line.to_owned(), answer.clone())));
    }
    commands
}

/// Patterns of the screen before an answer of the person, or at the end of a command.
const EXPECTED_SCREENS: [(&str, &str); 8] = [
    ("terminal run", "^[A-Z][a-z]+day$"),
    ("terminal attach", "^[A-Z][a-z]+day\\n\\S+[$#] *$"),
    ("-e 'sh setup.sh'", "Continue\\? \\[y/n\\]$"),
    ("-e y", "^Installed"),
    ("run release", "your answer, by number or text: *$"),
    ("gates answer", "your answer, by number or text: *$"),
    ("runs wait", "tour-setup +completed"),
    ("workflow history", "2 now .*repair +The installer asks in other words"),
];

#[tokio::test]
async fn tour_page_commands_work_to_the_end() {
    let home = Home::new(STEPLATCH);
    let temporary = home.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let command = format!("TMPDIR={} {STEPLATCH} tour; echo left with $?; sleep 1000", temporary.display());
    let desk = Desk::start(&home, home.path(), &command, (100, 50), &[]).await;
    // Other commands of the person, and failed commands, end no step.
    desk.expect_screen("A terminal  1 of 6").await;
    desk.press("echo $((40+2)); false\r").await;
    desk.expect_screen("^42\\nexit status: 1\\n\\$ steplatch terminal open").await;
    let commands = parse_commands();
    assert!(commands.len() > 12, "{commands:?}");
    for (command, answer) in &commands {
        let pattern =
            EXPECTED_SCREENS.iter().find(|(part, _)| command.contains(part)).map_or("", |(_, pattern)| *pattern);
        desk.expect_screen(&format!("^\\$ {}$", escape_regex(command))).await;
        desk.press(&format!("{command}\r")).await;
        desk.expect_screen(pattern).await;
        if let Some(answer) = answer {
            desk.press(answer).await;
        }
    }
    desk.expect_screen("this was the tour(.*\\n)*left with 0$").await;
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the directory of the tour is removed");
    let terminals = home.run(&["terminal", "list"]).expect_success();
    assert!(!terminals.contains("tour"), "{terminals}");
    let runs = home.run(&["runs", "list"]).expect_success();
    assert!(runs.contains("completed, repaired") && !runs.contains("failed"), "{runs}");
}

#[test]
fn tour_without_a_terminal_refers_to_the_page() {
    let home = Home::new(STEPLATCH);
    let refusal = home.run(&["tour"]);
    assert_eq!(refusal.code, 2);
    assert!(refusal.stderr.contains("'steplatch docs tour' shows it as a page"), "{}", refusal.stderr);
}
