//! Completion of ids and names by the shell, selection of omitted ids from a list, and manual pages.

use serde_json::Value;
use steplatch_testkit::{Agent, CommandOutput, Home, Person};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns bash's completions of the last word.
fn complete(home: &Home, words: &[&str]) -> Vec<String> {
    let mut program = home.steplatch();
    let last = words.len() - 1;
    let index = last.to_string();
    program.env("STEPLATCH_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index).env("_CLAP_IFS", "\n");
    program.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
    let output = CommandOutput::from_process(&program.arg("--").args(words).output().unwrap());
    output.expect_success().lines().map(str::to_owned).collect()
}

#[test]
fn ids_and_names_are_completed_from_the_running_daemon() {
    let home = Home::new(STEPLATCH);
    assert!(complete(&home, &["steplatch", "wat"]) == ["watch"]);
    assert_eq!(complete(&home, &["steplatch", "runs", "show", "run_"]), [""; 0], "completion does not start a daemon");
    assert!(!home.path().join("state").exists());

    let id = home.run(&["terminal", "open", "--name", "my-build"]).expect_success();
    for command in ["attach", "send", "run", "wait", "screen", "record", "close"] {
        assert_eq!(complete(&home, &["steplatch", "terminal", command, "my-"]), ["my-build"], "{command}");
    }
    assert_eq!(complete(&home, &["steplatch", "terminal", "screen", &id[..8]]), [id.trim()]);
    let workflow_file = home.path().join("ask.json");
    std::fs::write(
        &workflow_file,
        r#"{"name": "ask", "description": "for a test", "initial_state": "a", "states": {"a": {"action": {"tool": "gate", "params": {"prompt": "Go?"}}}}}"#,
    )
    .unwrap();
    home.run(&["workflow", "load", workflow_file.to_str().unwrap()]).expect_success();
    let run = home.run(&["run", "ask", "--detach"]).expect_success().trim().to_owned();
    assert_eq!(home.run(&["runs", "wait", &run]).code, 3);
    for command in [["runs", "show"], ["runs", "cancel"], ["runs", "wait"]] {
        let words = ["steplatch", command[0], command[1], "run_"];
        assert_eq!(complete(&home, &words), [run.as_str()], "{command:?}");
    }
    assert_eq!(
        complete(&home, &["steplatch", "runs", "show", &run[4..9]]),
        [&run[4..]],
        "the prefix of a run id is optional"
    );
    assert_eq!(complete(&home, &["steplatch", "gates", "answer", "run_"]), [format!("{run}/a/1")]);
    assert_eq!(complete(&home, &["steplatch", "run", "as"]), ["ask", "ask.json"]);
    assert_eq!(complete(&home, &["steplatch", "watch", "my-"]), ["my-build"]);
    let other_state_dir = ["steplatch", "--state-dir", "/nonexistent", "runs", "show", "run_"];
    assert_eq!(complete(&home, &other_state_dir), [""; 0], "completion uses the requested state directory");
}

#[test]
fn omitted_id_is_the_only_one_or_picked_from_a_list() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    let without_terminals = home.run(&["terminal", "screen"]);
    assert!(without_terminals.code == 2, "{without_terminals:?}");
    let hint = "list terminals with: steplatch terminal list";
    assert!(without_terminals.stderr.contains(hint), "{without_terminals:?}");
    assert_eq!(home.run(&["runs", "show"]).code, 2, "selection needs a terminal");
    home.run(&["terminal", "open", "--name", "one", "--", "sh", "-c", "echo first; cat"]).expect_success();
    home.run(&["terminal", "wait", "one", "-p", "first"]).expect_success();
    let person = Person::runs(&agent, &home, STEPLATCH, "terminal screen");
    let screen = person.expect_text("exit-code-0");
    assert!(screen.contains("first") && !screen.contains("by number"), "{screen}");

    home.run(&["terminal", "open", "--name", "two", "--", "sh", "-c", "echo second; cat"]).expect_success();
    home.run(&["terminal", "wait", "two", "-p", "second"]).expect_success();
    let list = home.run(&["terminal", "list", "--json"]).json();
    let names = list["sessions"].as_array().unwrap().iter().map(|session| session["name"].clone());
    let number = names.collect::<Vec<Value>>().iter().position(|name| name == "two").unwrap() + 1;
    let person = Person::runs(&agent, &home, STEPLATCH, "terminal screen");
    person.expect_text("terminal, by number:");
    person.type_in(&number.to_string());
    assert!(person.expect_text("exit-code-0").contains("second"));
    let person = Person::runs(&agent, &home, STEPLATCH, "terminal screen");
    person.expect_text("terminal, by number:");
    person.type_in("9");
    assert!(person.expect_text("exit-code-2").contains("no terminal was selected"));
}

#[test]
fn attaching_explains_how_to_detach() {
    let (outer, home) = (Home::new(STEPLATCH), Home::new(STEPLATCH));
    let agent = Agent::new(&outer);
    home.run(&["terminal", "open", "--name", "one", "--", "cat"]).expect_success();
    let person = Person::runs(&agent, &home, STEPLATCH, "terminal attach one");
    person.expect_screen(r"\(ctrl-\\ detaches\)");
    person.press("ctrl-\\");
    assert!(person.expect_text("exit-code-0").contains("detached; the terminal keeps running"));
}

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::new(STEPLATCH);
    home.run(&["man", "pages/man1"]).expect_success();
    let pages = home.path().join("pages/man1");
    let page = std::fs::read_to_string(pages.join("steplatch-terminal-wait.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("Exit codes:"), "{page}");
    assert!(pages.join("steplatch.1").exists() && pages.join("steplatch-worker.1").exists());
    assert!(!home.path().join("state").exists(), "the manual needs no daemon");
}
