//! Machines written by their authors from the agents' documentation alone: each machine is valid without warnings and
//! does its work with real programs. Each broken variant is reported with its place.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use steplatch_protocol::{Decide, GetRun, RunReply, RunWorkflow};
use steplatch_sessions::TerminalTools;
use steplatch_testkit::TestDaemon;
use steplatch_workflow::Definition;

const RELEASE: &str = include_str!("trials/release.json");
const RESTORE: &str = include_str!("trials/restore.json");
const DEPLOY: &str = include_str!("trials/deploy.json");
const BISECT: &str = include_str!("trials/bisect.json");
const INSTALL: &str = include_str!("trials/install.json");
const LOGIN: &str = include_str!("trials/login.json");

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the warnings and errors of a document, one per line.
fn problems(document: &Value) -> String {
    match Definition::parse(document, &TerminalTools) {
        Ok(definition) => definition.warnings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        Err(problems) => problems.to_string(),
    }
}

async fn run(daemon: &TestDaemon, text: &str, variables: &[(&str, &str)]) -> RunReply {
    let document = document(text);
    assert_eq!(problems(&document), "");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    let verb = RunWorkflow {
        workflow_definition: Some(document),
        initial_variables: Some(variables.collect()),
        wait_seconds: Some(60.0),
        ..RunWorkflow::default()
    };
    daemon.call(verb).await
}

/// Answers the gate of a run and waits for its end.
async fn answer_gate(daemon: &TestDaemon, run: &RunReply, answer: &str) -> RunReply {
    assert_eq!(run.status, "waiting", "{:?} {run:?}", run.error);
    let verb = Decide { run_id: run.run_id.clone(), answer: answer.to_owned(), ..Decide::default() };
    let decided = daemon.call(verb).await;
    assert!(decided.success, "{decided:?}");
    daemon.call(GetRun { run_id: run.run_id.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await
}

fn shell(directory: &Path, script: &str) {
    let done = Command::new("sh").arg("-ec").arg(script).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

const GIT: &str = "git init -q . && git config user.email a@b.c && git config user.name a";

#[tokio::test]
async fn release_is_tested_and_tagged_unless_uncommitted() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    shell(
        directory.path(),
        &format!("{GIT} && echo 1 > VERSION && echo exit 0 > test.sh && git add . && git commit -qm a"),
    );
    let variables = [("REPO", directory.path().to_str().unwrap()), ("VERSION", "1.2.3")];
    let released = run(&daemon, RELEASE, &variables).await;
    assert_eq!(released.result, Some(json!({"tag": "v1.2.3"})), "{released:?}");
    fs::write(directory.path().join("VERSION"), "x").unwrap();
    let refusal = run(&daemon, RELEASE, &variables).await;
    assert!(refusal.error.unwrap().contains("not committed:  M VERSION"));
    let unfit = run(&daemon, RELEASE, &[variables[0], ("VERSION", "1.2")]).await;
    assert_eq!((unfit.final_state.as_deref(), unfit.states_executed), (Some("validation_failed"), 0));
    daemon.stop().await;
}

#[tokio::test]
async fn backup_is_restored_once_approved() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    shell(directory.path(), "mkdir store && echo 1 > store/data");
    let store = directory.path().join("store");
    let waiting = run(&daemon, RESTORE, &[("DIR", store.to_str().unwrap())]).await;
    fs::remove_file(store.join("data")).unwrap();
    let restored = answer_gate(&daemon, &waiting, "restore").await;
    assert_eq!(restored.status, "completed", "{restored:?}");
    assert_eq!(restored.return_values["FILES"], "1");
    assert!(store.join("data").exists());
    daemon.stop().await;
}

#[tokio::test]
async fn unhealthy_service_is_rolled_back_after_eight_attempts() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let healthy = "echo x >> tries; test $(wc -l < tries) -ge 3 && echo fine";
    fs::write(directory.path().join("healthy.sh"), healthy).unwrap();
    shell(directory.path(), "touch deploy.sh; echo 'touch back' > rollback.sh");
    let path = directory.path().to_str().unwrap();
    let deployed = run(&daemon, DEPLOY, &[("DIR", path)]).await;
    assert_eq!(deployed.result, Some(json!({"health": "fine"})), "{deployed:?}");
    fs::write(directory.path().join("healthy.sh"), "echo x >> all; echo sick; exit 1").unwrap();
    let failed = run(&daemon, DEPLOY, &[("DIR", path)]).await;
    assert!(failed.error.unwrap().contains("not healthy after 8 tries: sick"));
    assert!(directory.path().join("back").exists());
    assert_eq!(fs::read_to_string(directory.path().join("all")).unwrap().lines().count(), 8);
    daemon.stop().await;
}

#[tokio::test]
async fn bisection_finds_the_commit_and_resets_the_repository() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let commits = "for i in 1 2 3 4 5 6; do echo $i > n; git add .; git commit -qm $i; git tag c$i; done";
    shell(directory.path(), &format!("{GIT} && echo 'test $(cat n) -lt 4' > test.sh && git add . && {commits}"));
    let found = run(&daemon, BISECT, &[("REPO", directory.path().to_str().unwrap()), ("GOOD", "c1")]).await;
    assert_eq!(found.status, "completed", "{:?} {:?}", found.error, found.last_screen);
    let fourth = Command::new("git").args(["rev-parse", "c4"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(found.return_values["CULPRIT"], String::from_utf8_lossy(&fourth.stdout).trim());
    assert!(!directory.path().join(".git/BISECT_LOG").exists(), "the finally state has reset it");
    daemon.stop().await;
}

#[tokio::test]
async fn installer_is_answered_in_any_order() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let script = "printf 'Port [8080]: '; read p; test -n \"$KEYLESS\" || { printf 'Licence key: '; stty -echo; read k; stty echo; echo; }
        printf 'Accept the licence? '; read l; echo \"$p $k $l\" > answers; echo Installed 2.0";
    fs::write(directory.path().join("install.sh"), script).unwrap();
    let variables = [("DIR", directory.path().to_str().unwrap()), ("LICENCE_KEY", "abc-def-ghi")];
    let installed = run(&daemon, INSTALL, &variables).await;
    assert_eq!(installed.result, Some(json!({"version": "2.0", "answers": 3})), "{installed:?}");
    assert_eq!(fs::read_to_string(directory.path().join("answers")).unwrap(), "8080 abc-def-ghi yes\n");
    assert!(!serde_json::to_string(&installed).unwrap().contains("abc-def-ghi"));
    fs::write(directory.path().join("install.sh"), "printf 'Accept the licence? '; read l; echo Failed: $l").unwrap();
    let failed = run(&daemon, INSTALL, &variables).await;
    assert_eq!(failed.error.as_deref(), Some("State 'broken' failed: the installer failed"));
    daemon.stop().await;
}

#[tokio::test]
async fn login_trusts_a_new_key_once_approved() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let ssh = directory.path().join("ssh");
    let script = format!(
        "#!/bin/sh\nif ! test -e {0}/known; then printf 'Continue (yes/no)? '; read a; test \"$a\" = yes || exit 255; touch {0}/known; fi
         printf 'ana@%s password: ' \"$1\"; stty -echo; read p; stty echo; echo; test \"$p\" = hunter2 || exit 255
         while printf 'remote$ ' && read c; do test \"$c\" = uptime && echo ' 10:00 up, load average: 0.42, 0.1'; done",
        directory.path().display()
    );
    fs::write(&ssh, script).unwrap();
    shell(directory.path(), "chmod +x ssh");
    let variables = |password: &'static str| [("SSH", ssh.to_str().unwrap()), ("HOST", "box"), ("PW", password)];
    let waiting = run(&daemon, LOGIN, &variables("hunter2")).await;
    let read = answer_gate(&daemon, &waiting, "yes").await;
    assert_eq!((read.status.as_str(), &read.return_values["LOAD"]), ("completed", &json!("0.42")), "{read:?}");
    let known = run(&daemon, LOGIN, &variables("hunter2")).await;
    assert_eq!((known.status.as_str(), known.states_executed), ("completed", 3), "{known:?}");
    let wrong = run(&daemon, LOGIN, &variables("wrong-one")).await;
    assert!(wrong.error.unwrap().contains("the program ended with exit code 255 before /yes/no/ or"));
    daemon.stop().await;
}

/// Returns a document with a changed part.
fn broken_document(text: &str, pointer: &str, value: Value) -> Value {
    let mut document = document(text);
    *document.pointer_mut(pointer).unwrap() = value;
    document
}

#[test]
fn each_broken_workflow_is_reported_with_its_place() {
    let deploys = json!([{"condition": {}, "next_state": "deploy"}]);
    let old_screen = json!({"initial_state": "ssh", "states": {
        "ssh": {"action": {"tool": "send_input", "params": {"input_text": "ssh host\n", "pattern": "yes/no|password:"}},
                "transitions": [{"condition": {"pattern_match": "yes/no"}, "next_state": "yes"}, {"condition": "success", "next_state": "end"}]},
        "yes": {"action": {"tool": "send_input", "params": {"input_text": "yes\n", "pattern": "yes/no|password:"}},
                "transitions": [{"condition": {"pattern_match": "yes/no"}, "next_state": "no"}, {"condition": "success", "next_state": "end"}]},
        "no": {"action": {"tool": "fail", "params": {"message": "again"}}}, "end": {"action": {"tool": "exit_terminal"}}}});
    let silent = json!({"initial_state": "wait", "states": {
        "wait": {"action": {"tool": "await_output", "params": {"pattern": "BUILD OK", "timeout": 2}}, "transitions": deploys},
        "deploy": {"action": {"tool": "run_command", "params": {"command": "echo DEPLOY"}}}}});
    let shut = json!({"return_values": {"LOAD": "the load"}, "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "close"}]},
        "close": {"action": {"tool": "exit_terminal"}}}});
    for (document, state, expected) in [
        (
            broken_document(RELEASE, "/states/tag/action/params/command", "git tag {nonexistent}".into()),
            "/states/tag/action/params/command",
            "{nonexistent} is neither an argument",
        ),
        (
            broken_document(BISECT, "/states/bisect/action/params/input_text", "git bisect run sh test.sh".into()),
            "/states/bisect/action/params/input_text",
            "the text is not entered",
        ),
        (
            broken_document(INSTALL, "/states/install/action/params/rules/0/type", "yes".into()),
            "/states/install/action/params/rules/0/type",
            "the text is not entered",
        ),
        (
            broken_document(INSTALL, "/states/install/action/params/rules/0", json!({"when": "x", "send": "yes\n"})),
            "/states/install/action/params/rules/0",
            "the rule has no answer",
        ),
        (
            broken_document(DEPLOY, "/states/ask/transitions/0", json!({"when": "success", "next": "done"})),
            "/states/ask/transitions/0/next",
            "did you mean 'next_state'?",
        ),
        (
            broken_document(DEPLOY, "/states/ask/transitions/0/condition", json!({"exit_code": 0})),
            "/states/ask/transitions/0/condition/exit_code",
            "field_equals",
        ),
        (
            broken_document(BISECT, "/return_values/CULPRIT/from", "{bisect_group.1}".into()),
            "/return_values/CULPRIT/from",
            "did you mean 'bisect_groups'?",
        ),
        (
            broken_document(DEPLOY, "/states/deploy/transitions/0/next_state", "asks".into()),
            "/states/deploy/transitions/0/next_state",
            "did you mean 'ask'?",
        ),
        (silent, "/states/wait/transitions/0/condition", "also taken if the wait finds nothing"),
        (old_screen, "/states/yes/transitions/0/condition", "may still be on the screen since state 'ssh' found it"),
        (shut, "/return_values/LOAD", "closes the terminal"),
    ] {
        let all = problems(&document);
        let found = all.lines().any(|line| line.starts_with(&format!("{state}: ")) && line.contains(expected));
        assert!(found, "{state}: {expected}\n{all}");
    }
}
