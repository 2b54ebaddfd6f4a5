//! Dialogues with real programs, in real terminals.

use std::fs;

use serde_json::{Value, json};
use steplatch_protocol::{GetRun, GetWorkflowRun, RunReply, RunWorkflow};
use steplatch_testkit::{TestDaemon, eventually};

/// An installer with questions. It notes the answers; `$1` is the directory of its notes.
const INSTALLER: &str = r#"#!/bin/bash
set -e
read -r -p 'Do you accept the licence? ' licence
echo "licence=$licence" >> "$1/log"
until test -e "$1/go"; do sleep 0.05; done
read -r -s -p 'Password: ' password
echo
echo "password=$password" >> "$1/log"
read -r -p "Type 'wipe-7' to confirm: " word
echo "word=$word" >> "$1/log"
if test -n "$2"; then read -r -p "$2" more; echo "more=$more" >> "$1/log"; fi
echo "Installed version 1.2"
"#;

struct Installer {
    directory: tempfile::TempDir,
}

impl Installer {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("install.sh"), INSTALLER).unwrap();
        Self { directory }
    }

    fn resume(&self) {
        fs::write(self.directory.path().join("go"), "").unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// A machine that runs the installer. `more` is a further question at its end.
    fn machine(&self, more: &str, until: &Value) -> Value {
        let directory = self.directory.path().display();
        let params = json!({
            "input_text": format!("bash {directory}/install.sh {directory} '{more}'\n"),
            "rules": [{"when": "licence\\? $", "type": "yes\n"},
                      {"when": "Password: ", "secret": "PW", "times": 1},
                      {"when": "Type '(?P<word>[\\w-]+)'", "type": "{word}\n"}],
            "until": until, "timeout": 60
        });
        json!({
            "arguments": {"PW": {"secret": true}}, "initial_state": "open", "states": {
                "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                         "transitions": [{"condition": "success", "next_state": "install"}]},
                "install": {"action": {"tool": "dialogue", "params": params},
                            "transitions": [{"condition": "success", "next_state": "done"}]},
                "done": {"action": {"tool": "return", "params": {"result": {
                    "version": "{install_groups.1}", "answers": "{install_answers}", "word": "{word}"}}}}
            }
        })
    }

    fn verb(&self, more: &str, until: &Value) -> RunWorkflow {
        RunWorkflow {
            workflow_definition: Some(self.machine(more, until)),
            initial_variables: Some([("PW".to_owned(), "pass word".into())].into_iter().collect()),
            wait_seconds: Some(60.0),
            ..RunWorkflow::default()
        }
    }
}

async fn wait_for_end(daemon: &TestDaemon, run: RunReply) -> RunReply {
    daemon.call(GetRun { run_id: run.run_id, wait_seconds: Some(60.0), ..GetRun::default() }).await
}

#[tokio::test]
async fn installer_is_answered_once_across_a_daemon_restart() {
    let (daemon, installer) = (TestDaemon::new().await, Installer::new());
    let verb = RunWorkflow { wait_seconds: Some(0.0), ..installer.verb("", &json!("^Installed version (\\S+)")) };
    let started = daemon.call(verb).await;
    eventually("the first question is answered", async || installer.log().contains("licence=")).await;
    let daemon = daemon.restarted().await;
    installer.resume();
    let run = wait_for_end(&daemon, started).await;
    assert_eq!(run.status, "completed", "{run:?}");
    assert_eq!(run.result, Some(json!({"version": "1.2", "answers": 3, "word": "wipe-7"})), "{run:?}");
    assert_eq!(installer.log(), "licence=yes\npassword=pass word\nword=wipe-7\n");
    let reported = serde_json::to_string(&run).unwrap();
    assert!(!reported.contains("pass word"), "{reported}");
    let record = daemon.call(GetWorkflowRun { run_id: run.run_id }).await;
    assert!(!serde_json::to_string(&record).unwrap().contains("pass word"));
    daemon.stop().await;
}

#[tokio::test]
async fn unmatched_question_ends_a_dialogue() {
    let (daemon, installer) = (TestDaemon::new().await, Installer::new());
    installer.resume();
    let run = daemon.call(installer.verb("Overwrite it? [y/N] ", &json!("^Installed"))).await;
    assert_eq!(run.status, "failed", "{run:?}");
    let error = run.error.unwrap();
    assert!(error.starts_with("State 'install' failed: the program asks a question that no rule answers: "), "{error}");
    assert!(error.ends_with("Overwrite it? [y/N]"), "{error}");
    daemon.stop().await;
}

#[tokio::test]
async fn dialogue_without_end_pattern_ends_with_its_program() {
    let (daemon, installer) = (TestDaemon::new().await, Installer::new());
    installer.resume();
    let run = daemon.call(installer.verb("", &Value::Null)).await;
    // The machine returns a group of a pattern that its dialogue does not have.
    assert!(run.error.as_deref().unwrap().starts_with("State 'done': {install_groups.1} has no value"), "{run:?}");
    assert_eq!(installer.log(), "licence=yes\npassword=pass word\nword=wipe-7\n");
    fs::write(installer.directory.path().join("install.sh"), "read -p 'Type '\\''x'\\'' now' a; exit 3").unwrap();
    let run = daemon.call(installer.verb("", &Value::Null)).await;
    assert_eq!(run.status, "failed", "{run:?}");
    assert!(run.error.unwrap().contains("the program ended with exit code 3"));
    let run = daemon.call(installer.verb("", &json!("^Installed"))).await;
    assert!(run.error.unwrap().contains("the program ended with exit code 3 before /^Installed/ came"));
    daemon.stop().await;
}

#[tokio::test]
async fn echoed_answer_is_not_a_question() {
    let daemon = TestDaemon::new().await;
    let script = "read -p 'yes or no? ' a; read -p 'Sure? ' b; echo \"$a $b\" | tr a-z A-Z; exit 0";
    let run = daemon
        .run(json!({"initial_state": "open", "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"command": ["bash", "-c", script]}},
                     "transitions": [{"condition": "success", "next_state": "talk"}]},
            "talk": {"action": {"tool": "dialogue", "params": {"rules": [
                        {"when": "yes|no", "type": "yes\n"}, {"when": "Sure", "type": "no", "press": "enter"}]}},
                     "transitions": [{"condition": "success", "next_state": "done"}]},
            "done": {"action": {"tool": "return", "params": {"result": "{talk_answered}"}}}
        }}))
        .await;
    assert_eq!(run.status, "completed", "{run:?}");
    assert_eq!(
        run.result.unwrap(),
        json!([{"when": "yes|no", "match_text": "yes", "typed": "yes\n"},
               {"when": "Sure", "match_text": "Sure", "typed": "no", "keys": ["enter"]}])
    );
    daemon.stop().await;
}

#[tokio::test]
async fn answer_too_long_for_the_kernel_is_refused_before_typing() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let log = directory.path().join("log");
    let long = "x".repeat(5000);
    let script =
        format!("read -r -p 'Go? ' line; echo \"${{#line}} $line\" >> {}; read -r -p 'More? ' line", log.display());
    let question = json!({"command": ["bash", "-c", script]});
    let shell = json!({"command": ["dash"]});
    for (open, params) in [
        (question.clone(), json!({"rules": [{"when": "Go\\? $", "type": format!("{long}\n")}], "until": "More\\? $"})),
        (question, json!({"rules": [{"when": "Go\\? $", "secret": "PW"}], "until": "More\\? $"})),
        (
            shell,
            json!({"input_text": format!("echo {long}\n"), "rules": [{"when": "Go\\? $", "type": "y\n"}], "until": "More\\? $"}),
        ),
    ] {
        let machine = json!({
            "arguments": {"PW": {"secret": true}}, "initial_state": "open", "states": {
                "open": {"action": {"tool": "open_terminal", "params": open},
                         "transitions": [{"condition": "success", "next_state": "answer"}]},
                "answer": {"action": {"tool": "dialogue", "params": params}, "timeout": 60,
                           "transitions": [{"condition": "failure", "next_state": "see"}]},
                "see": {"action": {"tool": "get_screen_content"},
                        "transitions": [{"condition": "success", "next_state": "end"}]},
                "end": {"action": {"tool": "return", "params":
                    {"result": ["{answer_error}", "{see_screen_content}"]}}}
            }
        });
        let verb = RunWorkflow {
            workflow_definition: Some(machine),
            initial_variables: Some([("PW".to_owned(), long.as_str().into())].into_iter().collect()),
            wait_seconds: Some(60.0),
            ..RunWorkflow::default()
        };
        let reply = daemon.call(verb).await;
        assert_eq!(reply.status, "completed", "{:?}", reply.error);
        let result = reply.result.unwrap();
        let error = result[0].as_str().unwrap();
        assert!(error.contains("4095") && !error.contains("xxxx"), "{error}");
        assert!(!result[1].as_str().unwrap().contains('x'), "{result}");
        assert!(!log.exists());
    }
    daemon.stop().await;
}
