//! `steplatch ui` for a person in their own terminal.

use std::fs;

use serde_json::json;
use steplatch_testkit::{Agent, Home, eventually_blocking};

use crate::desk::Desk;
use crate::older_daemon;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const RELEASE: &str = r#"{"name": "release", "initial_state": "build", "states": {
    "build": {"action": {"tool": "run_command", "params": {"command": "echo built 漢字"}}, "transitions": [{"condition": {}, "next_state": "ask"}]},
    "ask": {"action": {"tool": "gate", "params": {"prompt": "Release {input}?", "choices": ["yes", "no"]}}}
}}"#;

const SLEEPS: &str = r#"{"name": "sleeps", "initial_state": "rest", "states": {
    "rest": {"action": {"tool": "sleep", "params": {"seconds": 1000}}, "timeout": 1500}
}}"#;

const DETACH: &str = "\x1c";

fn home() -> Home {
    let home = Home::new(STEPLATCH);
    fs::write(home.path().join("release.json"), RELEASE).unwrap();
    fs::write(home.path().join("sleeps.json"), SLEEPS).unwrap();
    home
}

async fn open_ui(home: &Home, arguments: &str, size: (u16, u16), environment: &[(&str, &str)]) -> Desk {
    let command = format!("{STEPLATCH} ui {arguments}; echo left with $?; stty -a | grep -o ' -*icanon '; sleep 1000");
    Desk::start(home, home.path(), &command, size, environment).await
}

/// Confirms an action once its key works: Enter right after a letter belongs to typed text.
async fn confirm_action(desk: &Desk) {
    desk.expect_screen("^ enter yes ").await;
    desk.press("\r").await;
}

fn start_run(home: &Home, file: &str) -> String {
    let started_run = home.run(&["run", file, "--detach", "-i", "input=1.2", "--json"]).json();
    started_run["run_id"].as_str().unwrap().to_owned()
}

fn is_in_state(home: &Home, run: &str, state: &str) -> bool {
    let list = home.run(&["runs", "list", "--state", state, "--json"]).json();
    list["runs"].as_array().unwrap().iter().any(|candidate| candidate["run_id"] == run)
}

#[tokio::test]
async fn new_user_answers_attaches_cancels_and_quits() {
    let home = home();
    let desk = open_ui(&home, "", (80, 24), &[]).await;
    desk.expect_screen("nothing waits for you").await;
    // A new run appears without a key.
    let run = start_run(&home, "release.json");
    desk.expect_screen("1 question waits for you").await;
    home.run(&["terminal", "open", "--name", "build"]).expect_success();
    desk.expect_screen("› build +at prompt").await;
    desk.press("\x1b[H\r").await;
    desk.expect_screen("release asks").await;
    desk.expect_screen("a begins an answer").await;
    desk.press("a").await;
    desk.expect_screen("your answer, by number or text:").await;
    desk.press("3\r").await;
    desk.expect_screen("invalid answer '3'; choose yes or no").await;
    desk.press("1\r").await;
    desk.expect_screen("answered: yes; run_\\w+ is now").await;
    desk.expect_screen("✓ release +completed(.*\\n)*.*select ").await;
    let events = home.run(&["runs", "events", &run, "--json"]).expect_success();
    let event = events.lines().find(|line| line.contains("gate_answered")).unwrap();
    assert!(event.contains("\"through\":\"ui\"") && event.contains("\"proof\":\"terminal\""), "{event}");

    // Attach, type, and return: the picture contains the typed text.
    desk.press("\x1b[H\r").await;
    desk.expect_screen("^\\S+[$#] *$").await;
    desk.press("echo hello $((20+3))\r").await;
    desk.expect_screen("^hello 23").await;
    desk.press(DETACH).await;
    desk.expect_screen("you left build; it keeps running").await;
    desk.expect_screen("^ hello 23").await;
    // The key after the return goes to the list, and the attached terminal has taken none.
    desk.press("?").await;
    desk.expect_screen("Help; any key goes back").await;
    desk.press("x").await;

    let sleeps = start_run(&home, "sleeps.json");
    desk.expect_screen("▸ sleeps +running").await;
    desk.press(&format!("g{}\r", &sleeps[..8])).await;
    desk.expect_screen("▸ rest +sleep").await;
    desk.resize(100, 30).await;
    desk.expect_screen("▸ rest +sleep").await;
    desk.press("c").await;
    desk.expect_screen("Cancel sleeps run_\\w+\\?").await;
    desk.press("y").await;
    confirm_action(&desk).await;
    desk.expect_screen(" cancelled ").await;
    assert!(is_in_state(&home, &sleeps, "cancelled"));
    desk.press("\x1b").await;
    desk.expect_screen("✗ sleeps +cancelled").await;
    desk.press("q").await;
    desk.expect_screen("^left with 0\n icanon").await;
}

#[tokio::test]
async fn finished_run_restarts_at_a_step_after_confirmation() {
    let home = home();
    let path = |name: &str| home.path().join(name).display().to_string();
    let commands =
        [format!("echo built >> {}", path("log")), format!("rm -rf {}; test -e {}", path("old"), path("route"))];
    let [build, ship] = commands.map(|command| json!({"tool": "run_command", "params": {"command": command}}));
    let to_ship = json!([{"condition": "success", "next_state": "ship"}]);
    let machine = json!({"name": "ships", "initial_state": "build", "states": {
        "build": {"action": build, "transitions": to_ship}, "ship": {"action": ship}}});
    fs::write(home.path().join("ships.json"), machine.to_string()).unwrap();
    let failed_run = home.run(&["run", "ships.json", "--json"]).stdout;
    let failed_run: serde_json::Value = serde_json::from_str(&failed_run).unwrap();
    let run = failed_run["run_id"].as_str().unwrap();
    fs::write(path("route"), "").unwrap();
    let desk = open_ui(&home, run, (100, 24), &[]).await;
    desk.expect_screen("r run again from here").await;
    desk.expect_screen("ship +run_command").await;
    desk.press("r").await;
    desk.expect_screen("Run ships run_\\w+ again from 'ship'\\?").await;
    confirm_action(&desk).await;
    desk.expect_screen("Repeat it\\? .*rm -rf").await;
    desk.press("y").await;
    confirm_action(&desk).await;
    desk.expect_screen("runs run_\\w+ again").await;
    desk.expect_screen("ships run_\\w+ completed").await;
    desk.expect_screen("build +run_command +taken over").await;
    assert_eq!(fs::read_to_string(path("log")).unwrap(), "built\n", "the first state is taken over");
}

#[tokio::test]
async fn form_is_filled_in_by_field_and_passphrase_stays_hidden() {
    let home = home();
    home.run_with_input(&["approver", "set", "--stdin"], "correct horse\n").expect_success();
    let form = r#"{"name": "fill", "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": {
        "prompt": "Where to?", "form": {"properties": {"place": {"type": "string", "enum": ["eu", "us"]},
        "count": {"type": "integer", "default": 2}}, "required": ["place"]}}}}}}"#;
    fs::write(home.path().join("fill.json"), form).unwrap();
    let run = start_run(&home, "fill.json");
    let desk = open_ui(&home, "", (80, 24), &[]).await;
    desk.expect_screen("1 question waits for you").await;
    desk.press("\x1b[H\r").await;
    desk.expect_screen("a begins an answer\\n.*the approver's passphrase is asked for after the answer").await;
    desk.press("a").await;
    desk.expect_screen("1  eu\\n.*2  us\\n(.*\\n)*.*place \\(by number or text\\):").await;
    desk.press("2\r").await;
    desk.expect_screen("count \\(a whole number; 2 if left empty\\):").await;
    desk.press("\r").await;
    desk.expect_screen("the approver's passphrase:").await;
    desk.press("wrong\r").await;
    desk.expect_screen("Wrong passphrase").await;
    desk.press("correct horse").await;
    let screen = desk.expect_screen("› •{13}").await;
    assert!(!screen.contains("horse"), "{screen}");
    desk.press("\r").await;
    desk.expect_screen("answered: place=us count=2; run_").await;
    let events = home.run(&["runs", "events", &run, "--json"]).expect_success();
    let event = events.lines().find(|line| line.contains("gate_answered")).unwrap();
    assert!(event.contains("\"proof\":\"passphrase\""), "{event}");
}

#[tokio::test]
async fn takeover_holds_a_terminal_until_returned() {
    let home = home();
    let terminal = home.run(&["terminal", "open", "--name", "mine"]).expect_success();
    let desk = open_ui(&home, "", (80, 24), &[]).await;
    desk.expect_screen("› mine +at prompt").await;
    desk.press("t").await;
    confirm_action(&desk).await;
    desk.expect_screen("^\\S+[$#] *$").await;
    let refusal = home.run(&["terminal", "send", terminal.trim(), "no", "-e"]);
    assert!(refusal.code != 0 && refusal.stderr.contains("held"), "{}", refusal.stderr);
    desk.press(DETACH).await;
    desk.expect_screen("you left mine and gave it back").await;
    home.run(&["terminal", "send", "mine", "echo again", "-e"]).expect_success();
    desk.expect_screen("^ again").await;
}

#[tokio::test]
async fn terminal_held_by_another_person_can_be_taken_when_free() {
    let home = home();
    home.run(&["terminal", "open", "--name", "mine"]).expect_success();
    let first = open_ui(&home, "", (80, 24), &[]).await;
    first.expect_screen("› mine +at prompt").await;
    first.press("t").await;
    confirm_action(&first).await;
    first.expect_screen("^\\S+[$#] *$").await;
    let second = open_ui(&home, "", (80, 24), &[]).await;
    second.expect_screen("● mine +held by \\w+").await;
    second.press("t").await;
    confirm_action(&second).await;
    second.expect_screen("has held this terminal since").await;
    first.press(DETACH).await;
    first.expect_screen("you left mine and gave it back").await;
    second.expect_screen("› mine +at prompt").await;
    second.press("t").await;
    confirm_action(&second).await;
    second.expect_screen("^\\S+[$#] *$").await;
    second.press(DETACH).await;
    second.expect_screen("you left mine and gave it back").await;
}

#[tokio::test]
async fn locked_run_explains_unlocking_before_its_question() {
    let home = home();
    home.run_with_input(&["approver", "set", "--stdin"], "open sesame\n").expect_success();
    let run = start_run(&home, "release.json");
    eventually_blocking("the run asks", || is_in_state(&home, &run, "waiting"));
    let desk = open_ui(&home, "", (80, 24), &[]).await;
    desk.expect_screen("1 question waits for you").await;
    home.run(&["daemon", "restart"]).expect_success();
    desk.expect_screen("release is locked").await;
    desk.press("\x1b[H\r").await;
    let screen = desk.expect_screen("the run is locked; unlock it with: steplatch approver unlock").await;
    assert!(!screen.contains("Release 1.2?"), "{screen}");
    home.run_with_input(&["approver", "unlock", "--stdin"], "open sesame\n").expect_success();
    desk.expect_screen("\\? Release 1.2\\?").await;
    desk.press("\x1b[H\r").await;
    desk.expect_screen("a begins an answer").await;
    desk.press("a").await;
    desk.expect_screen("your answer, by number or text:").await;
    desk.press("1\r").await;
    desk.expect_screen("the approver's passphrase:").await;
    desk.press("open sesame\r").await;
    desk.expect_screen("answered: yes; run_").await;
}

#[tokio::test]
async fn older_daemon_is_shown_in_part_and_the_next_in_full() {
    let home = home();
    home.run(&["terminal", "open", "--name", "build"]).expect_success();
    older_daemon::put_in_front_of(&home, &["WATCH_TERMINALS", "WATCH_SCREEN"]);
    let desk = open_ui(&home, "", (110, 24), &[]).await;
    desk.expect_screen("› build +at prompt").await;
    desk.expect_screen("no screen is shown: the daemon is of an older version; restart it").await;
    start_run(&home, "sleeps.json");
    desk.expect_screen("▸ sleeps +running").await;
    desk.press("\x1b[H\r").await;
    desk.expect_screen("^\\S+[$#] *$").await;
    desk.press("echo hello $((20+3))\r").await;
    desk.expect_screen("^hello 23").await;
    desk.press(DETACH).await;
    desk.expect_screen("you left build; it keeps running").await;
    home.run(&["daemon", "restart"]).expect_success();
    desk.expect_screen("^ hello 23").await;
}

#[tokio::test]
async fn daemon_without_the_required_verbs_is_reported_as_older() {
    let home = home();
    home.run(&["daemon", "start"]).expect_success();
    older_daemon::put_in_front_of(&home, &["WATCH"]);
    let desk = open_ui(&home, "", (110, 24), &[]).await;
    desk.expect_screen(
        "the daemon is of an older version; restart it, its terminals stay open: steplatch daemon restart",
    )
    .await;
    home.run(&["daemon", "restart"]).expect_success();
    desk.expect_screen("nothing waits for you").await;
    desk.press("q").await;
    desk.expect_screen("^left with 0\n icanon").await;
}

#[test]
fn agent_terminal_cannot_answer_a_gate_in_the_ui() {
    let home = home();
    let agent = Agent::new(&home);
    let run = start_run(&home, "release.json");
    eventually_blocking("the run asks", || is_in_state(&home, &run, "waiting"));
    let terminal =
        agent.call_tool("open_terminal", json!({"command": [STEPLATCH, "ui"], "name": "ui", "cols": 100, "rows": 30}));
    assert_eq!(terminal["success"], true, "{terminal}");
    let expect_screen = |pattern: &str| {
        let wait = json!({"session_id": "ui", "pattern": pattern, "target": "screen", "timeout": 60, "screen": "full"});
        let reply = agent.call_tool("await_output", wait);
        assert_eq!(reply["reason"], "match", "no {pattern:?} on:\n{}", reply["screen_content"]);
    };
    let type_text = |text: &str| {
        let reply = agent.call_tool("send_input", json!({"session_id": "ui", "input_text": text}));
        assert_eq!(reply["success"], true, "{reply}");
    };
    expect_screen("1 question waits for you");
    type_text("\n");
    expect_screen("a begins an answer");
    type_text("a1");
    expect_screen("› 1");
    type_text("\n");
    expect_screen("agent may type; answer it in a terminal of your own");
    assert!(is_in_state(&home, &run, "waiting"));
}

#[tokio::test]
async fn commander_opens_the_ui_and_continues() {
    let home = home();
    let command = format!("{STEPLATCH} commander; sleep 1000");
    let desk = Desk::start(&home, home.path(), &command, (100, 30), &[]).await;
    desk.expect_screen("/help teaches, Ctrl-D leaves").await;
    desk.press("%./release.json 1.2\r").await;
    desk.expect_screen("Release 1.2\\?(.*\n)*.*your answer, by number or text:").await;
    desk.press("/ui 0\r").await;
    desk.expect_screen("^ ✓ build  run_command").await;
    desk.press("a").await;
    desk.expect_screen("a begins an answer").await;
    desk.press("a2\r").await;
    desk.expect_screen("answered: no; run_").await;
    desk.press("\x1b").await;
    desk.expect_screen("✓ release +completed(.*\\n)*.*select ").await;
    desk.press("q").await;
    desk.expect_screen("✓ completed in").await;
    desk.press("@identity still here\r").await;
    desk.expect_screen("^still here").await;
}

#[tokio::test]
async fn killed_daemon_is_reported_and_the_next_one_is_shown() {
    let home = home();
    let run = start_run(&home, "sleeps.json");
    let desk = open_ui(&home, &run[4..8], (80, 24), &[]).await;
    desk.expect_screen("▸ rest +sleep").await;
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    desk.expect_screen("the daemon is away").await;
    desk.press("s").await;
    desk.expect_screen("the daemon is back").await;
    desk.expect_screen("▸ rest +sleep").await;
    desk.press("p").await;
    confirm_action(&desk).await;
    desk.expect_screen(" paused ").await;
    desk.press("p").await;
    confirm_action(&desk).await;
    desk.expect_screen(" running ").await;
}

#[tokio::test]
async fn signals_restore_the_terminal_and_suspension_resumes() {
    let home = home();
    for (signal, code) in [("TERM", 143), ("HUP", 129)] {
        let command = format!(
            "{STEPLATCH} ui & echo $! >ui.pid; fg >/dev/null; echo left with $?; stty -a | grep -o ' -*icanon '; sleep 1000"
        );
        let desk = Desk::start(&home, home.path(), &format!("set -m; {command}"), (80, 24), &[]).await;
        desk.expect_screen("nothing waits for you").await;
        let pid = fs::read_to_string(home.path().join("ui.pid")).unwrap();
        let kill_status =
            std::process::Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status().unwrap();
        assert!(kill_status.success());
        desk.expect_screen(&format!("^left with {code}\n icanon")).await;
    }
    let command =
        format!("set -m; {STEPLATCH} ui; stty -a | grep -o ' -*icanon '; read -p 'suspended '; fg; sleep 1000");
    let desk = Desk::start(&home, home.path(), &command, (80, 24), &[]).await;
    desk.expect_screen("nothing waits for you").await;
    desk.press("\x1a").await;
    let screen = desk.expect_screen("^ icanon\n(.*\n)*suspended").await;
    assert!(!screen.contains("nothing waits for you"), "{screen}");
    desk.press("\r").await;
    desk.expect_screen("nothing waits for you").await;
    desk.press("?").await;
    desk.expect_screen("Help; any key goes back").await;
}

#[tokio::test]
async fn no_colour_setting_disables_colours() {
    let home = home();
    home.run(&["terminal", "open", "--name", "red"]).expect_success();
    home.run(&["terminal", "send", "red", r"printf '\e[31mred\e[42mgreen\e[m\n'", "-e"]).expect_success();
    for (environment, is_coloured) in [(&[][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let desk = open_ui(&home, "", (80, 24), environment).await;
        desk.expect_screen("^ redgreen").await;
        let screen = desk.styled_screen().await;
        assert_eq!(screen.contains("\x1b[0;31mred"), is_coloured, "{screen:?}");
    }
}

#[tokio::test]
async fn ui_without_a_terminal_names_alternatives() {
    let home = home();
    let refusal = home.run(&["ui"]);
    assert_eq!(refusal.code, 2, "{}", refusal.stderr);
    assert!(refusal.stderr.contains("ui needs a terminal"), "{}", refusal.stderr);
    eventually_blocking("no daemon was started", || home.run(&["daemon", "status"]).code != 0);
}
