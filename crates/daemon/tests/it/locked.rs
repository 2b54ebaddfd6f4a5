//! Locked runs: while a run waits for a person, only the approver's passphrase opens what the run needs to continue.

use serde_json::{Value, json};
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, CancelWorkflow, Client, Decide, GetApprover, GetGate, GetRun, GetScreenContent,
    GetWorkflowRun, ListTerminalSessions, Passphrase, RunEvent, RunReply, RunWorkflow, SendInput, SetApprover,
    Subscribe, UnlockRuns, UnlockRunsReply,
};
use steplatch_testkit::{TestDaemon, eventually};

const SECRET: &str = "deploy-key-4711";

fn to_passphrase(text: &str) -> Option<Passphrase> {
    Some(Passphrase(text.to_owned()))
}

async fn set_passphrase(client: &Client, passphrase: Option<&str>, current: Option<&str>) {
    let verb = SetApprover { passphrase: passphrase.and_then(to_passphrase), current: current.and_then(to_passphrase) };
    let reply = client.call(verb).await.unwrap();
    assert!(reply.success, "{reply:?}");
}

async fn unlock(client: &Client, passphrase: &str) -> UnlockRunsReply {
    client.call(UnlockRuns { passphrase: to_passphrase(passphrase) }).await.unwrap()
}

/// Returns a machine that opens a terminal, requests approval, and types a given secret. `answered_by` is the approver.
fn deploying_machine(answered_by: &str) -> Value {
    json!({"name": "deploy", "initial_state": "open",
        "arguments": {"KEY": {"secret": true}},
        "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                 "transitions": [{"condition": "success", "next_state": "ask"}]},
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Deploy?", "answered_by": answered_by}},
                "transitions": [{"condition": "success", "next_state": "go"}]},
        "go": {"action": {"tool": "send_input", "params": {
                   "input_text": "K={KEY}; echo ${#K}-${K:0:3}-$USER\n", "secret": true}},
               "transitions": [{"condition": "success", "next_state": "see"}]},
        "see": {"action": {"tool": "await_output", "params": {"pattern": "15-dep-test", "timeout": 60}},
                "transitions": [{"condition": "success", "next_state": "done"}]},
        "done": {"action": {"tool": "exit_terminal", "params": {}}},
    }})
}

/// Starts a machine with the secret and waits until its gate is open.
async fn start_until_gate(daemon: &TestDaemon, definition: Value) -> RunReply {
    let variables = [("KEY".to_owned(), SECRET.into())].into();
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        initial_variables: Some(variables),
        wait_seconds: Some(60.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let waiting = daemon.call(verb).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    waiting
}

/// Returns the private part of a run in the journal.
fn private_part(daemon: &TestDaemon, run: &RunReply) -> String {
    let journal = rusqlite::Connection::open(daemon.paths().journal()).unwrap();
    let select = "SELECT private FROM runs WHERE run = ?1";
    journal.query_row(select, [&run.run_id], |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default()
}

/// Waits until the private part of a run is stored sealed or in plain text.
async fn wait_until_stored(daemon: &TestDaemon, run: &RunReply, is_sealed: bool) {
    eventually(if is_sealed { "the run is stored sealed" } else { "the run is stored plain" }, async || {
        let private = private_part(daemon, run);
        if private.starts_with("sealed:") == is_sealed { Ok(()) } else { Err(private) }
    })
    .await;
}

/// Returns whether any file in the state directory contains a text.
fn is_in_any_file(daemon: &TestDaemon, text: &str) -> bool {
    let files = std::fs::read_dir(daemon.paths().state()).unwrap().flatten().filter(|file| file.path().is_file());
    let mut bytes = files.map(|file| std::fs::read(file.path()).unwrap());
    bytes.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

async fn answer_gate(client: &Client, run: &RunReply, passphrase: Option<&str>) -> AnswerGateReply {
    let passphrase = passphrase.and_then(to_passphrase);
    let run_id = run.run_id.clone();
    client.call(AnswerGate { run_id, answer: "yes".to_owned(), passphrase, ..AnswerGate::default() }).await.unwrap()
}

async fn wait_for_end(daemon: &TestDaemon, run: &RunReply) -> RunReply {
    daemon.call(GetRun { run_id: run.run_id.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await
}

async fn is_locked(daemon: &TestDaemon, run: &RunReply) -> bool {
    daemon.call(GetWorkflowRun { run_id: run.run_id.clone() }).await.run.unwrap().locked
}

#[tokio::test]
async fn copied_state_cannot_pass_a_gate() {
    // redteam M14: a copy of the journal without approver.json was answered, and deployed with the person's key.
    let daemon = TestDaemon::new().await;
    set_passphrase(&daemon.person_named("ann").await, Some("open sesame"), None).await;
    let waiting = start_until_gate(&daemon, deploying_machine("human")).await;
    wait_until_stored(&daemon, &waiting, true).await;
    // Text stored before the question is removed from the database's log as well.
    eventually("the secret is in no file", async || !is_in_any_file(&daemon, SECRET)).await;
    std::fs::remove_file(daemon.paths().state().join("approver.json")).unwrap();
    let copy = daemon.restarted().await;
    let ann = copy.person_named("ann").await;
    for passphrase in [None, Some("open sesame")] {
        let refusal = answer_gate(&ann, &waiting, passphrase).await;
        assert!(!refusal.success && refusal.error.as_ref().unwrap().contains("locked"), "{refusal:?}");
    }
    // A passphrase set by the attacker does not help either.
    set_passphrase(&ann, Some("open barley"), None).await;
    assert!(!answer_gate(&ann, &waiting, Some("open barley")).await.success);
    assert!(!unlock(&ann, "open barley").await.success);
    let now = copy.call(GetRun { run_id: waiting.run_id.clone(), wait_seconds: None, ..GetRun::default() }).await;
    assert_eq!(now.status, "waiting");
    assert!(now.next_step.unwrap().contains("steplatch approver unlock"));
    // The run can be cancelled.
    assert!(copy.call(CancelWorkflow { run_id: waiting.run_id.clone() }).await.success);
    assert!(!is_locked(&copy, &waiting).await);
    copy.stop().await;
}

#[tokio::test]
async fn passphrase_unlocks_runs_of_an_earlier_daemon() {
    let daemon = TestDaemon::new().await;
    set_passphrase(&daemon.person_named("ann").await, Some("open sesame"), None).await;
    let (waiting, finished) = (
        start_until_gate(&daemon, deploying_machine("human")).await,
        start_until_gate(&daemon, deploying_machine("human")).await,
    );
    let agent_run = start_until_gate(&daemon, deploying_machine("agent")).await;
    let displayed_text = waiting.pending_gate.clone().unwrap();
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;
    assert!(is_locked(&daemon, &waiting).await && !is_locked(&daemon, &agent_run).await);
    let gate = daemon.call(GetGate { run_id: waiting.run_id.clone(), gate_id: None }).await;
    assert!(gate.error.as_ref().unwrap().contains("steplatch approver unlock"), "{gate:?}");

    // A gate for an agent needs no person.
    assert!(!private_part(&daemon, &agent_run).starts_with("sealed:"));
    let decides = |run: &RunReply| Decide { run_id: run.run_id.clone(), answer: "yes".to_owned(), ..Decide::default() };
    assert!(daemon.call(decides(&agent_run)).await.success);
    assert_eq!(wait_for_end(&daemon, &agent_run).await.status, "completed");
    let refusal = daemon.call(decides(&waiting)).await;
    assert!(refusal.error.as_ref().unwrap().contains("locked") && !refusal.passphrase_wanted, "{refusal:?}");

    let missing = answer_gate(&ann, &waiting, None).await;
    assert!(!missing.success && missing.passphrase_wanted, "{missing:?}");
    let agent = daemon.client().call(UnlockRuns { passphrase: to_passphrase("open sesame") }).await.unwrap();
    assert!(agent.error.unwrap().contains("opened by a person"));
    let wrong = unlock(&ann, "open barley").await;
    assert!(!wrong.success && wrong.passphrase_wanted, "{wrong:?}");
    eventually("the passphrase is checked again", async || {
        unlock(&ann, "open sesame").await.retry_after_seconds.is_none()
    })
    .await;
    assert!(!is_locked(&daemon, &finished).await);
    let gate = daemon.call(GetGate { run_id: waiting.run_id.clone(), gate_id: None }).await.gate.unwrap();
    assert_eq!(
        (&gate.gate_id, &gate.digest, &gate.prompt),
        (&displayed_text.gate_id, &displayed_text.digest, &displayed_text.prompt)
    );
    for run in [&waiting, &finished] {
        let answer_reply = answer_gate(&ann, run, Some("open sesame")).await;
        assert!(answer_reply.success, "{answer_reply:?}");
        let reply = wait_for_end(&daemon, run).await;
        assert_eq!(reply.status, "completed", "{reply:?}");
    }
    assert_eq!(unlock(&ann, "open sesame").await.runs, 0);
    daemon.stop().await;
}

#[tokio::test]
async fn answer_with_the_passphrase_opens_its_own_run() {
    let daemon = TestDaemon::new().await;
    set_passphrase(&daemon.person_named("ann").await, Some("open sesame"), None).await;
    let waiting = start_until_gate(&daemon, nesting_machine("above", &deploying_machine("human"))).await;
    let gate = waiting.pending_gate.clone().unwrap();
    wait_until_stored(&daemon, &waiting, true).await;
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;
    let (run_id, gate_id, digest) = (waiting.run_id.clone(), Some(gate.gate_id), Some(gate.digest));
    let answer = AnswerGate { run_id, gate_id, digest, answer: "yes".to_owned(), ..AnswerGate::default() };
    let answer_reply = ann.call(AnswerGate { passphrase: to_passphrase("open sesame"), ..answer }).await.unwrap();
    assert!(answer_reply.success, "{answer_reply:?}");
    let reply = wait_for_end(&daemon, &waiting).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn waiting_runs_are_sealed_while_a_passphrase_is_set() {
    let daemon = TestDaemon::new().await;
    let ann = daemon.person_named("ann").await;
    let waiting = start_until_gate(&daemon, deploying_machine("human")).await;
    assert!(private_part(&daemon, &waiting).contains(SECRET));
    set_passphrase(&ann, Some("open sesame"), None).await;
    wait_until_stored(&daemon, &waiting, true).await;
    // A new passphrase opens the run, and the old passphrase no longer does.
    set_passphrase(&ann, Some("open barley"), Some("open sesame")).await;
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;
    assert!(is_locked(&daemon, &waiting).await);
    assert!(!unlock(&ann, "open sesame").await.success);
    // Removing the passphrase first opens all runs.
    eventually("the passphrase is checked again", async || {
        let verb = SetApprover { passphrase: None, current: to_passphrase("open barley") };
        let reply = ann.call(verb).await.unwrap();
        assert!(reply.success || reply.retry_after_seconds.is_some(), "{reply:?}");
        if reply.success { Ok(()) } else { Err(reply) }
    })
    .await;
    wait_until_stored(&daemon, &waiting, false).await;
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;
    assert!(!is_locked(&daemon, &waiting).await);
    assert!(answer_gate(&ann, &waiting, None).await.success);
    assert_eq!(wait_for_end(&daemon, &waiting).await.status, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn terminals_of_a_locked_run_stay_held_without_secrets() {
    let mut definition = deploying_machine("human");
    definition["states"]["open"]["transitions"][0]["next_state"] = "show".into();
    definition["states"]["show"] = json!({
        "action": {"tool": "send_input", "params": {"input_text": "K={KEY}; echo \"shown: $K.\"\n"}},
        "transitions": [{"condition": "success", "next_state": "shown"}]});
    definition["states"]["shown"] = json!({
        "action": {"tool": "await_output", "params": {"pattern": "shown: [^$].*\\.", "timeout": 60}},
        "transitions": [{"condition": "success", "next_state": "ask"}]});
    let daemon = TestDaemon::new().await;
    set_passphrase(&daemon.person_named("ann").await, Some("open sesame"), None).await;
    let waiting = start_until_gate(&daemon, definition).await;
    let session_id = waiting.session_id.clone().unwrap();
    wait_until_stored(&daemon, &waiting, true).await;
    let daemon = daemon.restarted().await;
    let screen = daemon.call(GetScreenContent { session_id: session_id.clone(), ..Default::default() }).await;
    let screen = screen.screen_content.unwrap();
    assert!(screen.contains("shown:") && !screen.contains(SECRET), "{screen}");
    let typed_input =
        SendInput { session_id: session_id.clone(), input_text: "echo $K\n".into(), ..SendInput::default() };
    let refusal = daemon.call(typed_input).await;
    assert!(refusal.error.as_ref().unwrap().contains("waits for a person who judges this terminal"), "{refusal:?}");
    // A run cancelled while locked leaves no terminal.
    assert!(daemon.call(CancelWorkflow { run_id: waiting.run_id.clone() }).await.success);
    let terminals = daemon.call(ListTerminalSessions::default()).await;
    assert!(terminals.sessions.is_empty(), "{terminals:?}");
    daemon.stop().await;
}

/// Returns a machine that runs another machine.
fn nesting_machine(name: &str, inner: &Value) -> Value {
    json!({"name": name, "initial_state": "call", "arguments": {"KEY": {"secret": true}},
        "states": {"call": {"action": {"tool": "run_workflow",
            "params": {"workflow_definition": inner, "initial_variables": {"KEY": "{KEY}"}}}}}})
}

/// Returns every unfinished run, and whether its private part is sealed.
fn sealed_runs(daemon: &TestDaemon) -> Vec<bool> {
    let journal = rusqlite::Connection::open(daemon.paths().journal()).unwrap();
    let mut select = journal.prepare("SELECT private FROM runs WHERE finished_at IS NULL ORDER BY number").unwrap();
    let private = select.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
    private.map(|text| text.unwrap().unwrap_or_default().starts_with("sealed:")).collect()
}

async fn wait_until_sealed(daemon: &TestDaemon, runs: usize) {
    eventually(&format!("all {runs} runs are sealed"), async || {
        let sealed = sealed_runs(daemon);
        if sealed == vec![true; runs] { Ok(()) } else { Err(sealed) }
    })
    .await;
}

#[tokio::test]
async fn nested_runs_are_sealed_again_after_being_opened() {
    let daemon = TestDaemon::new().await;
    set_passphrase(&daemon.person_named("ann").await, Some("open sesame"), None).await;
    let top =
        start_until_gate(&daemon, nesting_machine("top", &nesting_machine("middle", &deploying_machine("human"))))
            .await;
    wait_until_sealed(&daemon, 3).await;
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;
    // Two people at the same time: both replies report no more locked runs.
    let (first, second) = tokio::join!(unlock(&ann, "open sesame"), unlock(&ann, "open sesame"));
    assert!(first.success && second.success && first.runs + second.runs == 3, "{first:?} {second:?}");
    wait_until_sealed(&daemon, 3).await;
    assert!(answer_gate(&ann, &top, Some("open sesame")).await.success);
    assert_eq!(wait_for_end(&daemon, &top).await.status, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn subscriber_of_a_locked_run_sees_its_end_and_cancel_is_deep() {
    let daemon = TestDaemon::new().await;
    set_passphrase(&daemon.person_named("ann").await, Some("open sesame"), None).await;
    let (first, second) = (
        start_until_gate(&daemon, deploying_machine("human")).await,
        start_until_gate(&daemon, nesting_machine("top", &deploying_machine("human"))).await,
    );
    wait_until_sealed(&daemon, 3).await;
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;
    let cancelled = daemon.call(CancelWorkflow { run_id: second.run_id.clone() }).await;
    assert!(cancelled.success, "{cancelled:?}");
    assert_eq!(sealed_runs(&daemon), [true], "the nested run has also finished");
    let looks = GetRun { run_id: first.run_id.clone(), wait_seconds: Some(60.0), ..GetRun::default() };
    let waiting = daemon.person_named("bob").await;
    let waiting = tokio::spawn(async move { waiting.call(looks).await.unwrap() });
    let subscribe = Subscribe { run_id: first.run_id.clone(), from_seq: None, ..Subscribe::default() };
    let (reply, mut events) = daemon.client().subscribe(subscribe).await.unwrap();
    assert!(reply.success);
    assert!(answer_gate(&ann, &first, Some("open sesame")).await.success);
    let mut last: Option<RunEvent> = None;
    while !last.as_ref().is_some_and(RunEvent::is_last) {
        last = Some(serde_json::from_value(events.next().await.unwrap()).unwrap());
    }
    let output = waiting.await.unwrap();
    assert!(["waiting", "completed"].contains(&output.status.as_str()) && output.error.is_none(), "{output:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn daemon_killed_before_storing_plain_runs_leaves_them_open() {
    let daemon = TestDaemon::new().await;
    let ann = daemon.person_named("ann").await;
    set_passphrase(&ann, Some("open sesame"), None).await;
    let waiting = start_until_gate(&daemon, deploying_machine("human")).await;
    wait_until_stored(&daemon, &waiting, true).await;
    let sealed = private_part(&daemon, &waiting);
    set_passphrase(&ann, None, Some("open sesame")).await;
    wait_until_stored(&daemon, &waiting, false).await;
    let paths = daemon.paths().clone();
    let daemon = daemon.restarted_with(|| {
        let journal = rusqlite::Connection::open(paths.journal()).unwrap();
        let changed = journal.execute("UPDATE runs SET private = ?2 WHERE run = ?1", [&waiting.run_id, &sealed]);
        assert_eq!(changed.unwrap(), 1);
    });
    let daemon = daemon.await;
    assert!(!is_locked(&daemon, &waiting).await && !daemon.call(GetApprover {}).await.is_set);
    wait_until_stored(&daemon, &waiting, false).await;
    let cancelled = daemon.call(CancelWorkflow { run_id: waiting.run_id.clone() }).await;
    assert!(cancelled.success, "{cancelled:?}");
    daemon.stop().await;
}
