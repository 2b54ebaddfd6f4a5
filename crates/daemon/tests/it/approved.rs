//! Attacks between a question and its answer: only the approved action is executed.

use serde_json::{Value, json};
use steplatch_daemon::Configuration;
use steplatch_host::RemoteHostConfig;
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, ExitTerminal, GateInfo, GetApprover, GetGate, GetRun, LowerRequirement, RunReply,
    RunWorkflow, SendInput, SendSignal,
};
use steplatch_testkit::TestDaemon;
use steplatch_workflow::Proof;

/// Returns a machine that asks a person and then performs these actions in order.
fn gated_machine(actions: &[Value]) -> Value {
    let mut states = serde_json::Map::new();
    let ask = json!({"tool": "gate", "params": {"prompt": "Release?", "choices": ["yes", "no"]}});
    let all: Vec<&Value> = std::iter::once(&ask).chain(actions).collect();
    for (index, action) in all.iter().enumerate() {
        let mut state = json!({"action": action});
        if index + 1 < all.len() {
            state["transitions"] = json!([{"condition": "success", "next_state": format!("s{}", index + 1)}]);
        }
        states.insert(format!("s{index}"), state);
    }
    json!({"name": "gated", "initial_state": "s0", "states": states})
}

fn command(line: &str) -> Value {
    json!({"tool": "run_command", "params": {"command": line}})
}

async fn start(daemon: &TestDaemon, definition: Value, session: Option<&str>) -> RunReply {
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        session_id: session.map(str::to_owned),
        wait_seconds: Some(60.0),
        save_on_success: false,
        keep_terminals: true,
        ..RunWorkflow::default()
    };
    let waiting = daemon.call(verb).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    waiting
}

async fn open_question(daemon: &TestDaemon, run: &RunReply) -> GateInfo {
    daemon.call(GetGate { run_id: run.run_id.clone(), ..GetGate::default() }).await.gate.unwrap()
}

/// Answers as a person, for the current content.
async fn approve(daemon: &TestDaemon, run: &RunReply) -> AnswerGateReply {
    let gate = open_question(daemon, run).await;
    let person = daemon.person_named("person").await;
    let answer = AnswerGate {
        run_id: gate.run_id,
        gate_id: Some(gate.gate_id),
        answer: "yes".to_owned(),
        digest: Some(gate.digest),
        ..AnswerGate::default()
    };
    person.call(answer).await.unwrap()
}

async fn wait_for_end(daemon: &TestDaemon, run: &RunReply) -> RunReply {
    daemon.call(GetRun { run_id: run.run_id.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await
}

/// Approves, and returns the error of the run.
async fn approve_and_fail(daemon: &TestDaemon, run: &RunReply) -> String {
    let reply = approve(daemon, run).await;
    assert!(reply.success, "{reply:?}");
    let final_reply = wait_for_end(daemon, run).await;
    assert_eq!(final_reply.status, "failed", "{final_reply:?}");
    final_reply.error.unwrap_or_default()
}

async fn type_as_person(daemon: &TestDaemon, session: &str, text: &str) {
    let person = daemon.person_named("person").await;
    let verb = SendInput { session_id: session.to_owned(), input_text: text.to_owned(), ..SendInput::default() };
    assert!(person.call(verb).await.unwrap().success);
}

fn hosts(hosts: &[(&str, &str)]) -> Configuration {
    let config = |(name, ssh): &(&str, &str)| RemoteHostConfig { name: (*name).to_owned(), ssh: (*ssh).to_owned() };
    Configuration { hosts: hosts.iter().map(config).collect(), ..Configuration::default() }
}

#[tokio::test]
async fn host_redirected_since_the_start_receives_nothing() {
    let remote_command = json!({"tool": "run_command", "params": {"command": "deploy", "host": "box"}});
    let nested = json!({"initial_state": "n", "states": {"n": {"action": remote_command}}, "name": "nested"});
    let cases = [
        remote_command.clone(),
        json!({"tool": "open_terminal", "params": {"host": "box"}}),
        json!({"tool": "put_file", "params": {"host": "box", "path": "x", "content": "y"}}),
        json!({"tool": "get_file", "params": {"host": "box", "path": "x"}}),
        json!({"tool": "run_workflow", "params": {"workflow_definition": nested}}),
    ];
    for action in cases {
        let daemon = TestDaemon::configured(tempfile::tempdir().unwrap(), hosts(&[("box", "ana@box.invalid")])).await;
        let waiting = start(&daemon, gated_machine(std::slice::from_ref(&action)), None).await;
        let shown_hosts = open_question(&daemon, &waiting).await.context["hosts"].clone();
        assert!(
            shown_hosts.as_str().unwrap().starts_with("box: ana@box.invalid:22 (ssh ana@box.invalid)"),
            "{shown_hosts}"
        );
        daemon.configure(hosts(&[("box", "evil@elsewhere.invalid")]));
        let error = approve_and_fail(&daemon, &waiting).await;
        assert!(
            error.contains("Host 'box' has changed since") && error.contains("evil@elsewhere.invalid"),
            "{action}: {error}"
        );
        daemon.stop().await;
    }
}

/// The approved call of a node on a remote host, and of a graph with it.
#[tokio::test]
async fn node_on_a_redirected_host_is_not_called() {
    let declared = "[nodes.there]\ntype = \"bash\"\nhost = \"box\"\ncommand = \"deploy\"\n\
                    [graphs.all]\nsteps = [{ id = \"one\", node = \"there\" }]\n";
    let node = json!({"tool": "run_node", "params": {"node_id": "there", "input": "x"}});
    let graph = json!({"tool": "run_graph", "params": {"graph_id": "all", "input": "x"}});
    for action in [node, graph] {
        let daemon = TestDaemon::configured(tempfile::tempdir().unwrap(), hosts(&[("box", "ana@box.invalid")])).await;
        std::fs::write(daemon.paths().state().parent().unwrap().join("steplatch.toml"), declared).unwrap();
        let waiting = start(&daemon, gated_machine(std::slice::from_ref(&action)), None).await;
        daemon.configure(hosts(&[("box", "evil@elsewhere.invalid")]));
        let error = approve_and_fail(&daemon, &waiting).await;
        assert!(
            error.contains("Host 'box' has changed") && error.contains("evil@elsewhere.invalid"),
            "{action}: {error}"
        );
        daemon.stop().await;
    }
}

#[tokio::test]
async fn removed_added_or_computed_host_is_refused_by_name() {
    let at = |host: &str| json!({"tool": "run_command", "params": {"command": "deploy", "host": host}});
    for (before, after, host, expected) in [
        (&[("box", "ana@box.invalid")][..], &[][..], "box", "is no longer configured"),
        (&[], &[("new", "evil@elsewhere.invalid")], "new", "Host 'new' did not exist when this run was started"),
        (&[("box", "ana@box.invalid")], &[("box", "evil@elsewhere.invalid")], "{WHERE}", "Host 'box' has changed"),
    ] {
        let daemon = TestDaemon::configured(tempfile::tempdir().unwrap(), hosts(before)).await;
        let mut definition = gated_machine(&[at(host)]);
        definition["arguments"] = json!({"WHERE": {"default": "box"}});
        let waiting = start(&daemon, definition, None).await;
        daemon.configure(hosts(after));
        let error = approve_and_fail(&daemon, &waiting).await;
        assert!(error.contains(expected), "{host}: {error}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn question_shows_the_terminal_of_the_run() {
    let daemon = TestDaemon::new().await;
    let terminal = daemon.bash().await;
    let session = terminal.id.clone();
    terminal.type_in("make() { touch evil.txt; }\n").await;
    terminal.type_in("echo 'a\u{1b}[31mb\u{336}' >/dev/null; cd /tmp\n").await;
    let secret = SendInput {
        session_id: session.clone(),
        input_text: "TOKEN=hunter2-is-long\n".to_owned(),
        secret: true,
        ..SendInput::default()
    };
    daemon.call(secret).await;
    terminal.type_in("echo hunter2-is-long >/dev/null; echo shown\n").await;
    terminal.expect_text("^shown$").await;
    let waiting = start(&daemon, gated_machine(&[command("make release")]), Some(&session)).await;
    let gate = open_question(&daemon, &waiting).await;
    let terminal_text = gate.context["terminal"].as_str().unwrap();
    for part in [session.as_str(), "opened by test", "in /tmp", "make() { touch evil.txt; }", "are compared"] {
        assert!(terminal_text.contains(part), "no {part:?} in:\n{terminal_text}");
    }
    assert!(
        !terminal_text.contains("hunter2") && !terminal_text.contains('\u{1b}') && !terminal_text.contains('\u{336}'),
        "{terminal_text}"
    );
    // Every surface has to show this content, and the digest covers it.
    assert!(gate.context_to_judge().iter().any(|(name, _)| *name == "terminal"));
    assert!(approve(&daemon, &waiting).await.success);
    daemon.stop().await;
}

#[tokio::test]
async fn terminal_changed_during_review_refuses_first_input() {
    let typed_input = json!({"tool": "send_input", "params": {"input_text": "release\n"}});
    let read_first = json!({"tool": "get_screen_content", "params": {}});
    let dialogue =
        json!({"tool": "dialogue", "params": {"input_text": "release\n", "rules": [{"when": "x", "type": "y"}]}});
    let child = json!({"tool": "run_workflow", "params": {"workflow_definition":
        {"name": "child", "initial_state": "c", "states": {"c": {"action": command("release")}}}}});
    for actions in [
        vec![command("release")],
        vec![typed_input.clone()],
        vec![read_first, typed_input],
        vec![dialogue],
        vec![child],
    ] {
        let daemon = TestDaemon::new().await;
        let terminal = daemon.bash().await;
        let session = terminal.id.clone();
        terminal.type_in("release() { echo good; }; trap 'release() { echo evil; }' USR2; echo ready\n").await;
        terminal.expect_text("^ready$").await;
        let waiting = start(&daemon, gated_machine(&actions), Some(&session)).await;
        let terminal_text = open_question(&daemon, &waiting).await.context["terminal"].as_str().unwrap().to_owned();
        assert!(terminal_text.contains("automatically at SIGUSR2"), "{terminal_text}");
        let person = daemon.person_named("person").await;
        let signal = SendSignal { session_id: session.clone(), signal: "USR2".to_owned() };
        assert!(person.call(signal).await.unwrap().success);
        let error = approve_and_fail(&daemon, &waiting).await;
        assert!(error.contains("function release"), "{actions:?}: {error}");
        assert!(!terminal.screen().await.lines().any(|line| line.trim() == "evil"), "{actions:?}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn unchanged_terminal_takes_approved_input_after_restart() {
    let child = json!({"tool": "run_workflow", "params": {"workflow_definition": {
        "name": "child", "initial_state": "c", "arguments": {"WHAT": {"default": "it"}},
        "states": {"c": {"action": command("echo child-$WHAT")}}}}});
    let mut daemon = TestDaemon::new().await;
    for restarts in [false, true] {
        let session = daemon.bash().await.id.clone();
        let steps = [command("true"), command("new=1; cd /"), child.clone()];
        let waiting = start(&daemon, gated_machine(&steps), Some(&session)).await;
        if restarts {
            daemon = daemon.restarted().await;
        }
        assert!(approve(&daemon, &waiting).await.success);
        let reply = wait_for_end(&daemon, &waiting).await;
        assert_eq!(reply.status, "completed", "after a restart: {restarts}; {reply:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn refused_input_stays_refused_for_later_attempts() {
    let daemon = TestDaemon::new().await;
    let terminal = daemon.bash().await;
    let session = terminal.id.clone();
    let definition = json!({"name": "again", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Release?", "choices": ["yes"]}},
                "transitions": [{"condition": "success", "next_state": "go"}]},
        "go": {"action": command("echo first-$((1+1))"),
               "transitions": [{"condition": "failure", "next_state": "again"}]},
        "again": {"action": command("echo second-$((1+1))")},
    }});
    let waiting = start(&daemon, definition, Some(&session)).await;
    type_as_person(&daemon, &session, "cd /; echo moved\n").await;
    terminal.expect_text("^moved$").await;
    let error = approve_and_fail(&daemon, &waiting).await;
    assert!(error.contains("directory"), "{error}");
    let screen = terminal.screen().await;
    assert!(!screen.contains("first-2") && !screen.contains("second-2"), "{screen}");
    daemon.stop().await;
}

#[tokio::test]
async fn incomparable_content_is_reported_with_question_and_answer() {
    let daemon = TestDaemon::new().await;
    let terminal = daemon.bash().await;
    let session = terminal.id.clone();
    terminal.type_in("cat\n").await;
    terminal.type_in("in cat\n").await;
    terminal.expect_text("(?m)^in cat\\s+in cat$").await;
    let typed_input = json!({"tool": "send_input", "params": {"input_text": "rm -r x\n"}});
    let waiting = start(&daemon, gated_machine(std::slice::from_ref(&typed_input)), Some(&session)).await;
    let terminal_text = open_question(&daemon, &waiting).await.context["terminal"].as_str().unwrap().to_owned();
    assert!(terminal_text.contains("not compared before the next input: the state of 'cat'"), "{terminal_text}");
    let answer_reply = approve(&daemon, &waiting).await;
    assert!(
        answer_reply.success && answer_reply.remarks.iter().any(|remark| remark.contains("not compared")),
        "{answer_reply:?}"
    );
    assert_eq!(wait_for_end(&daemon, &waiting).await.status, "completed");
    // The program exits while a person reads, so the surrounding shell would run text meant for the program.
    let waiting = start(&daemon, gated_machine(&[typed_input]), Some(&session)).await;
    type_as_person(&daemon, &session, "\u{4}").await;
    let wait_request = steplatch_protocol::AwaitOutput {
        session_id: session.clone(),
        until: steplatch_protocol::AwaitUntil::Prompt,
        timeout: 60.0,
        ..Default::default()
    };
    daemon.call(wait_request).await;
    let error = approve_and_fail(&daemon, &waiting).await;
    assert!(error.contains("the program that waits for input"), "{error}");
    daemon.call(ExitTerminal { session_id: session, ..ExitTerminal::default() }).await;
    daemon.stop().await;
}

#[tokio::test]
async fn weaker_setting_requires_confirmation_by_a_person() {
    let require = |gate_proof: Proof| Configuration { gate_proof, ..Configuration::default() };
    let directory = tempfile::tempdir().unwrap();
    let daemon = TestDaemon::configured(directory, require(Proof::Terminal)).await;
    let waiting = start(&daemon, gated_machine(&[]), None).await;
    assert_eq!(open_question(&daemon, &waiting).await.requires.as_deref(), Some("terminal"));
    daemon.configure(require(Proof::None));
    let error = approve(&daemon, &waiting).await.error.unwrap();
    assert!(error.contains("gates.require = \"terminal\""), "{error}");
    // The weaker setting applies neither to a later question nor after a restart.
    let later = start(&daemon, gated_machine(&[]), None).await;
    assert!(approve(&daemon, &later).await.error.unwrap().contains("gates.require = \"terminal\""));
    let daemon = daemon.restarted().await;
    daemon.configure(require(Proof::None));
    assert!(approve(&daemon, &waiting).await.error.unwrap().contains("gates.require = \"terminal\""));
    let reported = daemon.call(GetApprover {}).await;
    assert_eq!((reported.requires.as_deref(), reported.unconfirmed.as_deref()), (Some("terminal"), Some("none")));
    // No program can confirm the setting: neither an agent nor a program without its own terminal.
    let person = daemon.person_named("person").await;
    assert!(!daemon.call(LowerRequirement::default()).await.success);
    assert!(!person.call(LowerRequirement::default()).await.unwrap().success);
    assert!(approve(&daemon, &waiting).await.error.unwrap().contains("gates.require = \"terminal\""));
    daemon.stop().await;
}
