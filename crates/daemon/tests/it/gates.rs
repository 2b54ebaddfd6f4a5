//! Gates from the perspective of the person or agent who answers: forms, records, timeouts, and the approver's
//! passphrase.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_daemon::Configuration;
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, Client, CreateWorkflow, Decide, ExitTerminal, GetApprover, GetGate, GetRun,
    GetScreenContent, ListWorkflowRuns, PasskeyAssertion, Passphrase, RunCommand, RunEvent, RunReply, RunWorkflow,
    SendInput, SendSignal, SetApprover, SetApproverReply, Subscribe,
};
use steplatch_testkit::{ManualClock, TestDaemon, Timestamp, eventually, user_name};
use steplatch_workflow::Proof;

/// Returns a machine with one gate.
fn asking_machine(params: Value) -> Value {
    json!({"name": "asking", "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": params}}}})
}

/// Starts a run and waits until it has an open gate or has finished.
async fn start_until_gate(daemon: &TestDaemon, params: Value) -> RunReply {
    let verb = RunWorkflow {
        workflow_definition: Some(asking_machine(params)),
        wait_seconds: Some(60.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    daemon.call(verb).await
}

/// Starts a run and waits until it has an open gate.
async fn start_and_wait(daemon: &TestDaemon, params: Value) -> RunReply {
    let waiting = start_until_gate(daemon, params).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    waiting
}

async fn wait_for_end(daemon: &TestDaemon, run: &RunReply) -> RunReply {
    daemon.call(GetRun { run_id: run.run_id.clone(), wait_seconds: Some(60.0), ..GetRun::default() }).await
}

fn answer(run: &RunReply, answer: &str) -> AnswerGate {
    AnswerGate { run_id: run.run_id.clone(), answer: answer.to_owned(), ..AnswerGate::default() }
}

fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Returns every event of a finished run.
async fn events_of(daemon: &TestDaemon, run: &RunReply) -> Vec<RunEvent> {
    let subscribe = Subscribe { run_id: run.run_id.clone(), from_seq: None, ..Subscribe::default() };
    let (reply, mut events) = daemon.client().subscribe(subscribe).await.unwrap();
    assert!(reply.success);
    let mut all: Vec<RunEvent> = Vec::new();
    while !all.last().is_some_and(RunEvent::is_last) {
        let event = eventually("the next event of the run", async || Some(events.next().await)).await;
        all.push(serde_json::from_value(event.unwrap()).unwrap());
    }
    all
}

fn count_events(events: &[RunEvent], event_type: &str) -> usize {
    events.iter().filter(|event| event.event_type == event_type).count()
}

#[tokio::test]
async fn form_is_checked_field_by_field_and_stays_open_until_valid() {
    let daemon = TestDaemon::new().await;
    let form = json!({"properties": {
        "version": {"type": "string", "title": "Version", "minLength": 3},
        "count": {"type": "integer", "minimum": 1, "default": 2},
        "loud": {"type": "boolean"},
    }, "required": ["version"]});
    let waiting_run = start_and_wait(&daemon, json!({"prompt": "Which?", "form": form, "answered_by": "anyone"})).await;
    let gate = waiting_run.pending_gate.clone().unwrap();
    assert_eq!(gate.form.unwrap()["properties"]["count"], json!({"type": "integer", "minimum": 1, "default": 2}));
    assert!(gate.choices.is_empty());
    let filled =
        |form: Value| Decide { run_id: waiting_run.run_id.clone(), form: Some(fields(&form)), ..Decide::default() };
    let wrong = daemon.call(filled(json!({"version": "1", "count": "many", "loud": "so"}))).await;
    assert_eq!(
        wrong.error.as_deref(),
        Some(
            "The form is not filled in well: 'version' must have at least 3 characters, not 1; 'count' must be a whole \
             number, not \"many\"; 'loud' must be yes or no, not \"so\""
        )
    );
    let text = daemon.call(answer(&waiting_run, "1.2.3")).await.error.unwrap();
    assert_eq!(text, "The gate has a form; answer it with an object with its fields: version, count, loud");
    assert_eq!(
        daemon
            .call(GetRun { run_id: waiting_run.run_id.clone(), wait_seconds: None, ..GetRun::default() })
            .await
            .status,
        "waiting"
    );
    let daemon = daemon.restarted().await;
    // As text that contains JSON, as often written by models.
    let answer_reply = daemon.call(answer(&waiting_run, r#"{"version": "1.2", "loud": "yes"}"#)).await;
    assert!(answer_reply.success, "{answer_reply:?}");
    let reply = wait_for_end(&daemon, &waiting_run).await;
    let variable = |name: &str| reply.final_variables[&format!("ask_{name}")].clone();
    assert_eq!(
        (variable("version"), variable("count"), variable("loud")),
        (json!("1.2"), json!(2), json!(true)),
        "{reply:?}"
    );
    let events = events_of(&daemon, &waiting_run).await;
    let waiting = events.iter().find(|event| event.event_type == "gate_waiting").unwrap();
    assert_eq!(waiting.data["form"]["required"], json!(["version"]));
    daemon.stop().await;
}

#[tokio::test]
async fn every_answer_names_its_author_and_channel() {
    let daemon = TestDaemon::new().await;
    let ann = daemon.person_named("ann").await;
    let by_ann = start_and_wait(&daemon, json!({"prompt": "Go?"})).await;
    assert!(ann.call(answer(&by_ann, "go")).await.unwrap().success);
    let reply = wait_for_end(&daemon, &by_ann).await;
    assert_eq!(
        (&reply.final_variables["ask_by"], &reply.final_variables["ask_through"]),
        (&json!(user_name()), &json!("cli")),
        "{reply:?}"
    );
    let events = events_of(&daemon, &by_ann).await;
    let answer_event = events.iter().find(|event| event.event_type == "gate_answered").unwrap();
    assert_eq!((&answer_event.data["by"], &answer_event.data["through"]), (&json!(user_name()), &json!("cli")));
    let late_reply = ann.call(answer(&by_ann, "stop")).await.unwrap().error.unwrap();
    assert!(
        late_reply.starts_with(&format!("The gate was already answered by {} (cli) at 20", user_name()))
            && late_reply.ends_with(": go"),
        "{late_reply}"
    );

    let decided = start_and_wait(&daemon, json!({"prompt": "Go?", "answered_by": "agent"})).await;
    let verb = Decide { run_id: decided.run_id.clone(), answer: "go".to_owned(), ..Decide::default() };
    assert!(daemon.call(verb).await.success);
    let events = events_of(&daemon, &decided).await;
    let answer_event = events.iter().find(|event| event.event_type == "gate_answered").unwrap();
    assert_eq!((&answer_event.data["by"], &answer_event.data["through"]), (&json!("test"), &json!("socket decide")));
    daemon.stop().await;
}

#[tokio::test]
async fn run_its_agent_and_the_record_get_the_reason_of_an_answer() {
    let daemon = TestDaemon::new().await;
    let ann = daemon.person_named("ann").await;
    let reasoned = |run: &RunReply, answer: &str, reason: &str| AnswerGate {
        reason: Some(reason.to_owned()),
        ..self::answer(run, answer)
    };
    let stopped = start_and_wait(&daemon, json!({"prompt": "Go?", "choices": ["go", "stop"]})).await;
    assert_eq!(stopped.decided, None);
    assert!(ann.call(reasoned(&stopped, "stop", "  a test\nfails ")).await.unwrap().success);
    let reply = wait_for_end(&daemon, &stopped).await;
    assert_eq!(reply.decided.as_deref(), Some("stop, because a test fails"));
    assert_eq!(reply.final_variables["ask_reason"], "a test fails");
    let events = events_of(&daemon, &stopped).await;
    let answered = events.iter().find(|event| event.event_type == "gate_answered").unwrap();
    assert_eq!((&answered.data["answer"], &answered.data["reason"]), (&json!("stop"), &json!("a test fails")));

    // A field of a form comes before the reason.
    let form = json!({"properties": {"reason": {"type": "string"}}, "required": ["reason"]});
    let filled = start_and_wait(&daemon, json!({"prompt": "Why?", "form": form})).await;
    assert!(ann.call(reasoned(&filled, r#"{"reason": "a field"}"#, "a line")).await.unwrap().success);
    let reply = wait_for_end(&daemon, &filled).await;
    assert_eq!(reply.final_variables["ask_reason"], "a field");
    assert_eq!(reply.decided.as_deref(), Some("answered, because a line"));

    let without = start_and_wait(&daemon, json!({"prompt": "Go?"})).await;
    let refusal = ann.call(reasoned(&without, "go", &"x".repeat(501))).await.unwrap();
    assert!(!refusal.success && refusal.misread, "{refusal:?}");
    assert!(ann.call(reasoned(&without, "go", " ")).await.unwrap().success);
    let reply = wait_for_end(&daemon, &without).await;
    assert_eq!((&reply.final_variables["ask_reason"], reply.decided), (&json!(""), None));
    daemon.stop().await;
}

#[tokio::test]
async fn agents_never_answer_questions_for_people() {
    let daemon = TestDaemon::new().await;
    let waiting = start_and_wait(&daemon, json!({"prompt": "Release?", "choices": ["yes", "no"]})).await;
    let verb = Decide { run_id: waiting.run_id.clone(), answer: "yes".to_owned(), ..Decide::default() };
    // Not even a client that claims to be a person may use this verb.
    let ann = daemon.person_named("ann").await;
    for reply in [daemon.call(verb.clone()).await, ann.call(verb).await.unwrap()] {
        assert!(!reply.success && reply.error.unwrap().starts_with("This gate waits for a person"));
    }
    assert!(ann.call(answer(&waiting, "yes")).await.unwrap().success);
    daemon.stop().await;
}

#[tokio::test]
async fn first_of_many_equal_answers_wins() {
    let daemon = TestDaemon::new().await;
    let waiting = start_and_wait(&daemon, json!({"prompt": "Go?"})).await;
    let mut people = Vec::new();
    for _ in 0..8 {
        people.push(daemon.person_named("ann").await);
    }
    let mut giving = tokio::task::JoinSet::new();
    for ann in people {
        let verb = answer(&waiting, "go");
        giving.spawn(async move { ann.call(verb).await.unwrap() });
    }
    let replies: Vec<AnswerGateReply> = giving.join_all().await;
    assert_eq!(replies.iter().filter(|reply| reply.success).count(), 1, "{replies:?}");
    for refused in replies.iter().filter(|reply| !reply.success) {
        assert!(
            refused.error.as_ref().unwrap().contains(&format!("already answered by {} (cli) at 20", user_name())),
            "{refused:?}"
        );
    }
    assert_eq!(count_events(&events_of(&daemon, &waiting).await, "gate_answered"), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn answer_and_timeout_at_the_same_instant_have_one_winner() {
    const INSTANT: Duration = Duration::from_micros(1);
    const ALMOST: Duration = Duration::from_micros(3_600_000_000 - 1);
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    let ann = daemon.person_named("ann").await;
    let asks = async || start_and_wait(&daemon, json!({"prompt": "Go?", "timeout": 3600})).await;
    let waiting = asks().await;
    clock.advance(ALMOST);
    assert_eq!(
        count_answers_and_timeouts(&daemon, &ann, &waiting).await,
        (1, 0),
        "an answer at the last instant is accepted"
    );
    let waiting = asks().await;
    clock.advance(ALMOST + INSTANT);
    events_of(&daemon, &waiting).await;
    assert_eq!(
        count_answers_and_timeouts(&daemon, &ann, &waiting).await,
        (0, 1),
        "an answer after the timeout is refused"
    );
    // The timeout races the answer, later in each round, until the timeout and the answer have won once each.
    let mut winners = BTreeSet::new();
    for round in 0..20 {
        let waiting = asks().await;
        clock.advance(ALMOST);
        let passes = async {
            for _ in 1..1 << round {
                tokio::task::yield_now().await;
            }
            clock.advance(INSTANT);
        };
        let (found, ()) = tokio::join!(count_answers_and_timeouts(&daemon, &ann, &waiting), passes);
        assert!([(1, 0), (0, 1)].contains(&found), "{found:?} answers and timeouts in the history");
        winners.insert(found);
        if winners.len() == 2 {
            break;
        }
    }
    assert_eq!(winners.len(), 2, "only {winners:?} was seen");
    daemon.stop().await;
}

/// Answers a gate and returns the number of answers and timeouts in the history of its run. The history agrees with the
/// reply.
async fn count_answers_and_timeouts(daemon: &TestDaemon, ann: &Client, asked: &RunReply) -> (usize, usize) {
    let reply = ann.call(answer(asked, "go")).await.unwrap();
    let events = events_of(daemon, asked).await;
    let (answers, timeouts) = (count_events(&events, "gate_answered"), count_events(&events, "gate_timeout"));
    assert_eq!(reply.success, answers == 1, "{reply:?} {events:?}");
    if !reply.success {
        let error = reply.error.unwrap();
        assert!(
            error.contains("time limit passed without an answer") || error.contains("not waiting for input"),
            "{error}"
        );
    }
    (answers, timeouts)
}

async fn set_passphrase(client: &Client, passphrase: Option<&str>, current: Option<&str>) -> SetApproverReply {
    let words = |text: &str| Passphrase(text.to_owned());
    client.call(SetApprover { passphrase: passphrase.map(words), current: current.map(words) }).await.unwrap()
}

#[tokio::test]
async fn passphrase_is_required_to_answer_for_people() {
    let daemon = TestDaemon::new().await;
    let ann = daemon.person_named("ann").await;
    assert!(set_passphrase(daemon.client(), Some("no person"), None).await.error.unwrap().contains("set by a person"));
    assert!(set_passphrase(&ann, Some("open sesame"), None).await.success);
    let approver = daemon.call(GetApprover {}).await;
    assert!(approver.is_set && approver.since.unwrap().starts_with("20"));
    let waiting_run = start_and_wait(&daemon, json!({"prompt": "Release?", "choices": ["yes", "no"]})).await;
    let daemon = daemon.restarted().await;
    let ann = daemon.person_named("ann").await;

    let missing = ann.call(answer(&waiting_run, "yes")).await.unwrap();
    assert!(!missing.success && missing.passphrase_wanted, "{missing:?}");
    let with = |passphrase: &str| AnswerGate {
        passphrase: Some(Passphrase(passphrase.to_owned())),
        ..answer(&waiting_run, "yes")
    };
    let wrong = ann.call(with("open barley")).await.unwrap();
    assert!(!wrong.success && wrong.passphrase_wanted, "{wrong:?}");
    let error = wrong.error.unwrap();
    assert_eq!(error, "Wrong passphrase; try again in 1 s");
    let hasty = ann.call(with("open sesame")).await.unwrap();
    assert_eq!((hasty.success, hasty.retry_after_seconds), (false, Some(1)), "{hasty:?}");
    assert!(hasty.error.unwrap().starts_with("The passphrase was not checked after earlier wrong ones"));
    eventually("the passphrase is checked again", async || {
        let reply = ann.call(with("open sesame")).await.unwrap();
        assert!(reply.success || reply.passphrase_wanted, "{reply:?}");
        if reply.success { Ok(()) } else { Err(reply) }
    })
    .await;
    assert_eq!(wait_for_end(&daemon, &waiting_run).await.status, "completed");

    // A question that agents may answer requires no passphrase.
    let decided = start_and_wait(&daemon, json!({"prompt": "Go?", "answered_by": "anyone"})).await;
    assert!(ann.call(answer(&decided, "go")).await.unwrap().success);

    let reported = serde_json::to_string(&events_of(&daemon, &waiting_run).await).unwrap();
    assert!(!reported.contains("sesame") && !reported.contains("barley"));
    let state = daemon.paths().state().to_owned();
    for file in std::fs::read_dir(state).unwrap().flatten().filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        let found = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(!found(b"sesame") && !found(b"barley"), "{}", file.path().display());
    }
    assert!(set_passphrase(&ann, None, Some("open sesame")).await.success);
    daemon.stop().await;
}

#[tokio::test]
async fn agent_cannot_type_while_a_person_judges_the_terminal() {
    // redteam H9: text typed at the prompt while the gate waited was executed with the approved command.
    let daemon = TestDaemon::new().await;
    let definition = json!({"name": "release", "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                 "transitions": [{"condition": "success", "next_state": "wait"}]},
        "wait": {"action": {"tool": "gate", "params": {"prompt": "Ready?", "answered_by": "agent"}},
                 "transitions": [{"condition": "success", "next_state": "ask"}]},
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Release?", "choices": ["yes"]}},
                "transitions": [{"condition": "success", "next_state": "go"}]},
        "go": {"action": {"tool": "send_input", "params": {"input_text": "echo released-$((40+2))\n"}},
               "transitions": [{"condition": "success", "next_state": "see"}]},
        "see": {"action": {"tool": "await_output", "params": {"pattern": "released-42"}}},
    }});
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        wait_seconds: Some(60.0),
        save_on_success: false,
        keep_terminals: true,
        ..RunWorkflow::default()
    };
    let waiting = daemon.call(verb).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    let session_id = waiting.session_id.clone().unwrap();
    let types =
        |text: &str| SendInput { session_id: session_id.clone(), input_text: text.into(), ..SendInput::default() };
    // Half a line before the gate: the run's action must begin on an empty line.
    assert!(daemon.call(types("echo EVIL; ")).await.success);
    let ready = Decide { run_id: waiting.run_id.clone(), answer: "ready".to_owned(), ..Decide::default() };
    assert!(daemon.call(ready).await.success);
    let waiting = wait_for_end(&daemon, &waiting).await;
    assert_eq!(waiting.pending_gate.as_ref().unwrap().prompt, "Release?");
    let refusal = [
        daemon.call(types("echo EVIL; ")).await.error,
        daemon
            .call(RunCommand {
                session_id: Some(session_id.clone()),
                command: "cd /".into(),
                timeout: 20.0,
                ..RunCommand::default()
            })
            .await
            .error,
        daemon.call(SendSignal { session_id: session_id.clone(), signal: "INT".into() }).await.error,
        Some(daemon.call(ExitTerminal { session_id: session_id.clone(), ..ExitTerminal::default() }).await.message),
    ];
    for error in refusal {
        assert!(
            error.as_ref().is_some_and(|error| error.contains("waits for a person who judges this terminal")),
            "{error:?}"
        );
    }
    // Another machine cannot bypass it.
    let around = json!({"name": "around", "initial_state": "type", "states": {
        "type": {"action": {"tool": "send_input", "params": {"input_text": "echo EVIL; "}}},
    }});
    let around = RunWorkflow {
        workflow_definition: Some(around),
        session_id: Some(session_id.clone()),
        wait_seconds: Some(60.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    assert_eq!(daemon.call(around).await.status, "failed");
    let person = daemon.person_named("person").await;
    assert!(person.call(types("echo looked; ")).await.unwrap().success, "a person may type in the held terminal");
    let look = GetGate { run_id: waiting.run_id.clone(), ..GetGate::default() };
    let gate = person.call(look).await.unwrap().gate.unwrap();
    let [typed] = &gate.typed[..] else { panic!("{gate:?}") };
    assert_eq!((&typed.session_id, &typed.by, typed.bytes), (&session_id, &user_name(), 13));
    assert!(gate.remarks()[0].starts_with(&format!("since the question, {} typed 13 bytes", user_name())));
    assert!(person.call(answer(&waiting, "yes")).await.unwrap().success);
    let reply = wait_for_end(&daemon, &waiting).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    let screen = daemon.call(GetScreenContent { session_id: session_id.clone(), ..GetScreenContent::default() }).await;
    let screen = screen.screen_content.unwrap_or_default();
    let printed = |text: &str| screen.lines().any(|line| line.trim() == text);
    assert!(printed("released-42") && !printed("EVIL") && !printed("looked"), "{screen}");
    assert!(daemon.call(types("echo later\n")).await.success, "the terminal is no longer held");
    daemon.stop().await;
}

#[tokio::test]
async fn setting_refuses_insufficiently_proven_answers() {
    let daemon = TestDaemon::new().await;
    let person = daemon.person_named("person").await;
    let waiting_run = start_and_wait(&daemon, json!({"prompt": "Release?", "choices": ["yes", "no"]})).await;
    // The client of this test has no terminal.
    for (proof, expected) in [
        (Proof::Dialog, "given in a dialog of an MCP client, or in a terminal of your own"),
        (Proof::Terminal, "typed in a terminal of your own"),
        (Proof::Passphrase, "given with the approver's passphrase"),
    ] {
        daemon.configure(Configuration { gate_proof: proof, ..Configuration::default() });
        let refusal = person.call(answer(&waiting_run, "yes")).await.unwrap().error.unwrap();
        assert!(
            refusal.contains(expected) && refusal.contains(&format!("gates.require = \"{}\"", proof.name())),
            "{refusal}"
        );
    }
    assert!(set_passphrase(&person, Some("open sesame"), None).await.success);
    let passphrase = Some(Passphrase("open sesame".to_owned()));
    let signed = PasskeyAssertion { credential_id: "none".to_owned(), ..PasskeyAssertion::default() };
    let refusal =
        person.call(AnswerGate { passkey: Some(Box::new(signed)), ..answer(&waiting_run, "yes") }).await.unwrap();
    assert!(refusal.error.unwrap().starts_with("This passkey is not registered"));
    let answer_reply = person.call(AnswerGate { passphrase, ..answer(&waiting_run, "yes") }).await.unwrap();
    assert!(answer_reply.success, "{answer_reply:?}");
    let events = events_of(&daemon, &waiting_run).await;
    let answer_event = events.iter().find(|event| event.event_type == "gate_answered").unwrap();
    assert_eq!(
        (&answer_event.data["proof"], &answer_event.data["required"]),
        (&json!("passphrase"), &json!("passphrase"))
    );
    // A stricter setting applies immediately, even to an open question.
    let waiting_run = start_and_wait(&daemon, json!({"prompt": "Release?", "choices": ["yes", "no"]})).await;
    daemon.configure(Configuration { gate_proof: Proof::Passkey, ..Configuration::default() });
    let passphrase = Some(Passphrase("open sesame".to_owned()));
    let refusal = person.call(AnswerGate { passphrase, ..answer(&waiting_run, "yes") }).await.unwrap().error.unwrap();
    assert!(refusal.contains("signed with a passkey on the page"), "{refusal}");
    // A question that agents may answer requires no proof.
    let decided = start_and_wait(&daemon, json!({"prompt": "Go?", "answered_by": "anyone"})).await;
    assert!(daemon.call(answer(&decided, "go")).await.success);
    daemon.stop().await;
}

#[tokio::test]
async fn waiting_runs_are_listed_page_by_page_without_gaps() {
    // redteam M10: the oldest gates were not listed beyond a thousand runs.
    let daemon = TestDaemon::new().await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(start_and_wait(&daemon, json!({"prompt": "Go?"})).await.run_id);
    }
    let (mut listing, mut before) = (Vec::new(), None);
    loop {
        let state = Some("waiting".to_owned());
        let page = ListWorkflowRuns { state, before: before.clone(), limit: Some(2), ..ListWorkflowRuns::default() };
        let page: Vec<String> = daemon.call(page).await.runs.into_iter().map(|run| run.run_id).collect();
        let Some(last) = page.last() else { break };
        before = Some(last.clone());
        listing.extend(page);
    }
    waiting.reverse();
    assert_eq!(listing, waiting, "runs are listed newest first");
    let unknown = ListWorkflowRuns { before: Some("run_x".to_owned()), ..ListWorkflowRuns::default() };
    assert!(daemon.call(unknown).await.error.unwrap().contains("there is no run 'run_x'"));
    daemon.stop().await;
}

/// Returns a machine that opens a gate and then performs `action` and fails if the action fails.
fn gate_then_act(action: &Value) -> Value {
    let ways = |next: &str| json!([{"condition": {"success": true}, "next_state": next}]);
    json!({"name": "approved", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Go?", "choices": ["yes"]}}, "transitions": ways("act")},
        "act": {"action": action, "transitions": ways("done")},
        "done": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
    }})
}

/// A machine that calls a node.
fn calls_node(name: &str, node: &str) -> Value {
    json!({"name": name, "description": "Calls a node", "initial_state": "only", "states": {
        "only": {"action": {"tool": "run_node", "params": {"node_id": node, "input": "x"}}},
    }})
}

/// Writes the nodes of a project; `command` is the command of its node `leaf`.
fn write_nodes(daemon: &TestDaemon, command: &str) {
    let declared = format!(
        "[nodes.leaf]\ntype = \"bash\"\ncommand = \"{command}\"\n\
         [nodes.other]\ntype = \"bash\"\ncommand = \"true # {command}\"\n\
         [graphs.tree]\nsteps = [{{ id = \"one\", node = \"leaf\" }}]\n"
    );
    std::fs::write(daemon.paths().state().parent().unwrap().join("steplatch.toml"), declared).unwrap();
}

/// The definition that changes after the gate was approved.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edit {
    Nothing,
    Unrelated,
    Leaf,
    Child,
}

#[tokio::test]
async fn run_uses_named_definitions_as_of_its_start() {
    // redteam M6: a definition edited after the approval was executed.
    let cases = [
        (
            json!({"tool": "run_node", "params": {"node_id": "leaf", "input": ""}}),
            Edit::Leaf,
            "Node 'leaf' was changed",
        ),
        (
            json!({"tool": "run_graph", "params": {"graph_id": "tree", "input": ""}}),
            Edit::Leaf,
            "Node 'leaf' was changed",
        ),
        (
            json!({"tool": "run_workflow", "params": {"workflow_name": "child"}}),
            Edit::Child,
            "Workflow 'child' was changed",
        ),
        // A node that only the child names, and a computed name.
        (json!({"tool": "run_workflow", "params": {"workflow_name": "child"}}), Edit::Leaf, "Node 'leaf' was changed"),
        (
            json!({"tool": "run_workflow", "params": {"workflow_name": "{which}"}}),
            Edit::Child,
            "Workflow 'child' was changed",
        ),
        (json!({"tool": "run_workflow", "params": {"workflow_name": "child"}}), Edit::Nothing, ""),
        (json!({"tool": "run_graph", "params": {"graph_id": "tree", "input": ""}}), Edit::Unrelated, ""),
    ];
    for (action, edit, expected) in cases {
        let mut daemon = TestDaemon::new().await;
        let creates = |name: &str, node: &str| CreateWorkflow {
            workflow_definition: calls_node(name, node),
            overwrite_existing: true,
            reason: None,
        };
        write_nodes(&daemon, "echo was approved");
        let created = daemon.call(creates("child", "leaf")).await;
        assert!(created.success, "{created:?}");
        let verb = RunWorkflow {
            workflow_definition: Some(gate_then_act(&action)),
            initial_variables: Some([("which".to_owned(), "child".into())].into()),
            wait_seconds: Some(60.0),
            save_on_success: false,
            ..RunWorkflow::default()
        };
        let waiting = daemon.call(verb.clone()).await;
        assert_eq!(waiting.status, "waiting", "{waiting:?}");
        match edit {
            Edit::Nothing => {}
            Edit::Unrelated => assert!(daemon.call(creates("unrelated", "other")).await.success),
            Edit::Leaf => write_nodes(&daemon, "echo EVIL"),
            Edit::Child => assert!(daemon.call(creates("child", "other")).await.success),
        }
        // The next daemon detects the change too.
        if action["tool"] != "run_graph" {
            daemon = daemon.restarted().await;
        }
        let person = daemon.person_named("person").await;
        assert!(person.call(answer(&waiting, "yes")).await.unwrap().success);
        let reply = wait_for_end(&daemon, &waiting).await;
        let text = serde_json::to_string(&reply).unwrap();
        if expected.is_empty() {
            assert!(reply.status == "completed" && text.contains("was approved"), "{edit:?} {reply:#?}");
        } else {
            assert!(
                reply.status == "failed" && text.contains(expected) && !text.contains("EVIL"),
                "{action} {reply:#?}"
            );
            // A run that starts now uses the current definitions.
            let second_reply = daemon.call(verb).await;
            let digests = [&waiting, &second_reply].map(|run| run.pending_gate.clone().unwrap().digest);
            assert_ne!(digests[0], digests[1], "the digest covers later steps");
            assert!(person.call(answer(&second_reply, "yes")).await.unwrap().success);
            assert_eq!(wait_for_end(&daemon, &second_reply).await.status, "completed");
        }
        daemon.stop().await;
    }
}
