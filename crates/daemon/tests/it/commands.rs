//! Commands as actions of machines, in real shells.

use serde_json::{Value, json};
use steplatch_protocol::{GetRun, ListTerminalSessions, RunWorkflow};
use steplatch_testkit::{TestDaemon, eventually};

fn command(text: &str, transitions: &Value) -> Value {
    json!({"action": {"tool": "run_command", "params": {"command": text, "timeout": 60}}, "transitions": transitions})
}

fn on_success(state: &str) -> Value {
    json!([{"condition": "success", "next_state": state}])
}

#[tokio::test]
async fn commands_run_in_the_terminal_or_a_separate_shell() {
    let daemon = TestDaemon::new().await;
    let states = json!({
        "alone": command("V=lost; printf '%s' \"it's\"", &on_success("open")),
        "open": {"action": {"tool": "open_terminal"}, "transitions": on_success("set")},
        "set": command("V=kept{{}}; seq 3", &on_success("show")),
        "show": command("echo \"$V\" {alone_output|sh}; echo {set_output|sh} | wc -l; false", &json!([
            {"condition": {"field_equals": {"exit_code": 1}, "pattern_match": "^kept"}, "next_state": "close"}
        ])),
        "close": {"action": {"tool": "exit_terminal"}}
    });
    let reply = daemon.run(json!({"initial_state": "alone", "states": states})).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    assert_eq!(reply.final_variables["set_output"], "1\n2\n3");
    assert_eq!(reply.final_variables["show_output"], "kept{{}} it's\n3");
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);

    let failing = json!({"initial_state": "build", "states": {"build": command("echo oh no >&2; exit 3", &json!([]))}});
    let reply = daemon.run(failing).await;
    assert_eq!(reply.status, "failed", "{reply:?}");
    let error = reply.error.unwrap();
    assert!(error.starts_with("State 'build' failed: "), "{error}");
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0, "a failed run leaves no shell open");
    daemon.stop().await;
}

#[tokio::test]
async fn command_across_a_daemon_restart_runs_once() {
    let daemon = TestDaemon::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let text = format!("echo once >> {0}; until test -e {1}; do sleep 0.05; done; cat {0}", path("log"), path("go"));
    let verb = RunWorkflow {
        workflow_definition: Some(json!({"initial_state": "build", "states": {"build": command(&text, &json!([]))}})),
        wait_seconds: Some(0.0),
        ..RunWorkflow::default()
    };
    let started = daemon.call(verb).await;
    eventually("the command runs", async || std::fs::read_to_string(path("log")).is_ok_and(|text| !text.is_empty()))
        .await;
    let daemon = daemon.restarted().await;
    std::fs::write(path("go"), "").unwrap();
    let reply = daemon.call(GetRun { run_id: started.run_id, wait_seconds: Some(60.0), ..GetRun::default() }).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    assert_eq!(reply.final_variables["build_output"], "once");
    daemon.stop().await;
}

#[tokio::test]
async fn finally_state_cleans_up_after_failure_and_restart() {
    let daemon = TestDaemon::new().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let states = json!({
        "make": command(&format!("touch {}", path("made")), &on_success("fail")),
        "fail": {"action": {"tool": "fail", "params": {"message": "no"}}},
        "clean": command(&format!("until test -e {}; do sleep 0.05; done; rm {}", path("go"), path("made")), &json!([])),
    });
    let verb = RunWorkflow {
        workflow_definition: Some(json!({"initial_state": "make", "finally": "clean", "states": states})),
        wait_seconds: Some(0.0),
        ..RunWorkflow::default()
    };
    let started = daemon.call(verb).await;
    let cleaning = async || {
        let run = daemon.call(GetRun { run_id: started.run_id.clone(), ..GetRun::default() }).await;
        run.states_executed == 3
    };
    eventually("the run cleans up", cleaning).await;
    let daemon = daemon.restarted().await;
    std::fs::write(path("go"), "").unwrap();
    let reply = daemon.call(GetRun { run_id: started.run_id, wait_seconds: Some(60.0), ..GetRun::default() }).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("failed", Some("fail")), "{reply:?}");
    assert_eq!(reply.error.as_deref(), Some("State 'fail' failed: no"));
    assert!(!directory.path().join("made").exists());
    daemon.stop().await;
}

#[tokio::test]
async fn secret_reference_reaches_the_command_and_no_report() {
    let daemon = TestDaemon::new().await;
    // The only client variable with a value known here.
    let home = daemon.paths().state().parent().unwrap().display().to_string();
    let states = json!({
        "count": command("printf %s {secret:HOME|sh} | wc -c; echo {secret:HOME}", &on_success("done")),
        "done": {"action": {"tool": "return", "params": {"result": "{count_output}"}}}
    });
    let reply = daemon.run(json!({"initial_state": "count", "states": states})).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    let reported = serde_json::to_string(&reply).unwrap();
    assert!(
        reported.contains("••••••") && !reported.contains(&home) && !reported.contains("secret:HOME\":"),
        "{reported}"
    );
    let missing = json!({"initial_state": "a", "states": {"a": command("echo {secret:NO_SUCH}", &json!([]))}});
    let refusal = daemon.run(missing).await;
    assert!(refusal.error.unwrap().contains("secret NO_SUCH was not found"));
    daemon.stop().await;
}

#[tokio::test]
async fn failed_run_keeps_the_last_screens_of_its_terminals() {
    let daemon = TestDaemon::new().await;
    let typing_state = |text: &str, next: &str| json!({"action": {"tool": "send_input", "params": {"input_text": text, "until": "prompt"}}, "transitions": on_success(next)});
    let open = |next: &str| json!({"action": {"tool": "open_terminal"}, "transitions": on_success(next)});
    let states = json!({
        "one": open("type"), "type": typing_state("echo in-the-$((1))st\n", "two"),
        "two": open("again"), "again": typing_state("echo in-the-$((2))nd\n", "fail"),
        "fail": {"action": {"tool": "fail", "params": {"message": "no"}}},
        "clean": typing_state("clear\n", "close"), "close": {"action": {"tool": "exit_terminal"}}
    });
    for finally in [Value::Null, "clean".into()] {
        let mut document = json!({"initial_state": "one", "states": states.clone()});
        if finally.is_null() {
            document["states"].as_object_mut().unwrap().retain(|name, _| name != "clean" && name != "close");
        } else {
            document["finally"] = finally;
        }
        let reply = daemon.run(document).await;
        assert_eq!(reply.status, "failed", "{reply:?}");
        assert!(reply.last_screen.as_deref().unwrap().contains("in-the-2nd"), "{reply:?}");
        let screens: Vec<&String> = reply.last_screens.values().collect();
        assert_eq!(screens.len(), 2, "{screens:?}");
        assert!(screens.iter().any(|screen| screen.contains("in-the-1st")), "{screens:?}");
        assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn state_runs_for_each_line_as_command_or_nested_run() {
    let daemon = TestDaemon::new().await;
    let nested = json!({"name": "greet", "initial_state": "greet", "states": {
        "greet": {"action": {"tool": "run_command", "params": {"command": "echo hello {WHO|sh}"}},
            "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": {"said": "{greet_output}"}}}}}});
    let definition = json!({"name": "all", "initial_state": "list", "states": {
        "list": {"action": {"tool": "run_command", "params": {"command": "printf 'ana\\nit is bob\\n'"}},
            "transitions": [{"condition": "success", "next_state": "shout"}]},
        "shout": {"for_each": "{list_output}",
            "action": {"tool": "run_command", "params": {"command": "echo {item|sh} | tr a-z A-Z"}},
            "transitions": [{"condition": "success", "next_state": "greet"}]},
        "greet": {"for_each": {"items": "{list_output}", "as": "who"},
            "action": {"tool": "run_workflow", "params": {
                "workflow_definition": nested, "initial_variables": {"WHO": "{who}"}}},
            "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": ["{shout_results}", "{greet_results}"]}}}}});
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        wait_seconds: Some(60.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    let greeted = [json!({"said": "hello ana"}), json!({"said": "hello it is bob"})];
    assert_eq!(reply.result, Some(json!([["ANA", "IT IS BOB"], greeted])));
    daemon.stop().await;
}
