//! Runs that outlive their daemon, in daemons in this process.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_daemon::RetentionPolicy;
use steplatch_protocol::{
    AnswerGate, CancelWorkflow, DaemonStatus, GetRun, GetWorkflowRun, ListTerminalSessions, ListWorkflowRuns, RunReply,
    RunWorkflow, SendInput, Subscribe,
};
use steplatch_store::{Append, Journal, SqliteJournal, SqliteOptions};
use steplatch_testkit::{ManualClock, TestDaemon, Timestamp, eventually, user_name};

fn sleeping_machine(seconds: f64) -> Value {
    json!({
        "initial_state": "sleep",
        "states": {"sleep": {"action": {"tool": "sleep", "params": {"seconds": seconds}}, "timeout": 300}},
    })
}

/// Returns a machine that requests a judgement and continues accordingly.
fn judged_machine() -> Value {
    json!({
        "name": "judged",
        "initial_state": "look",
        "states": {
            "look": {
                "action": {"tool": "list_terminal_sessions"},
                "transitions": [
                    {"condition": {"description": "it is good"}, "next_state": "good"},
                    {"condition": {"description": "it is bad"}, "next_state": "bad"},
                ],
            },
            "good": {"action": {"tool": "sleep", "params": {"seconds": 0.01}}},
            "bad": {"action": {"tool": "sleep", "params": {"seconds": 0.01}}},
        },
    })
}

async fn start_run(daemon: &TestDaemon, definition: Value) -> RunReply {
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        wait_seconds: Some(0.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    daemon.call(verb).await
}

/// Waits for the end of a run that may be at a gate and returns its reply.
async fn final_reply(daemon: &TestDaemon, run: &str) -> RunReply {
    eventually("the run has ended", async || {
        let inspected = daemon.call(GetRun { run_id: run.to_owned(), wait_seconds: None, ..GetRun::default() }).await;
        if ["waiting", "running"].contains(&inspected.status.as_str()) { Err(inspected) } else { Ok(inspected) }
    })
    .await
}

async fn wait_for_end(daemon: &TestDaemon, run: &str) -> RunReply {
    daemon.call(GetRun { run_id: run.to_owned(), wait_seconds: Some(60.0), ..GetRun::default() }).await
}

#[tokio::test]
async fn gate_survives_a_restart_and_takes_one_answer() {
    let daemon = TestDaemon::new().await;
    let started = start_run(&daemon, judged_machine()).await;
    let waiting = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!((waiting.status.as_str(), waiting.success), ("waiting", false), "{waiting:?}");
    let gate = waiting.pending_gate.unwrap();
    assert_eq!(gate.choices, ["it is good", "it is bad", "none of these"]);
    let daemon = daemon.restarted().await;
    let record = daemon.call(GetWorkflowRun { run_id: started.run_id.clone() }).await.run.unwrap();
    assert_eq!((record.state.as_str(), record.pending_gate.as_ref()), ("waiting", Some(&gate)));
    let answer = |answer: &str| AnswerGate {
        run_id: started.run_id.clone(),
        gate_id: Some(gate.gate_id.clone()),
        answer: answer.to_owned(),
        ..AnswerGate::default()
    };
    let refusal = daemon.call(answer("it is ugly")).await;
    let error = "Invalid choice 'it is ugly'. Must be one of: ['it is good', 'it is bad', 'none of these']";
    assert_eq!(refusal.error.as_deref(), Some(error));
    let answer_reply = daemon.call(answer("it is bad")).await;
    assert!(answer_reply.success, "{answer_reply:?}");
    let reply = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("completed", Some("bad")));
    let unnamed = AnswerGate { gate_id: None, ..answer("it is good") };
    let reported = daemon.call(unnamed).await.error.unwrap();
    let late_reply = daemon.call(answer("it is good")).await.error.unwrap();
    assert_eq!(reported, late_reply, "without a gate name, the last gate is reported");
    assert!(
        late_reply.starts_with("The gate was already answered by test (socket) at 20")
            && late_reply.ends_with(": it is bad"),
        "{late_reply}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn question_for_a_person_rejects_agents_and_expires() {
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    let definition = json!({
        "initial_state": "ask",
        "states": {
            "ask": {
                "action": {"tool": "gate", "params": {"prompt": "Ship it?", "choices": ["ship", "stop"], "timeout": 3600}},
                "transitions": [{"condition": {"field_equals": {"answer": "ship"}}, "next_state": "how"}],
                "on_timeout": "late",
            },
            "how": {"action": {"tool": "gate", "params": {"prompt": "How?", "answered_by": "anyone"}}},
            "late": {"action": {"tool": "fail", "params": {"message": "nobody answered"}}},
        },
    });
    let started = start_run(&daemon, definition.clone()).await;
    let gate = wait_for_end(&daemon, &started.run_id).await.pending_gate.unwrap();
    assert_eq!((gate.prompt.as_str(), gate.answered_by.as_str()), ("Ship it?", "human"));
    assert!(gate.expires_at.is_some());
    let answer = |answer: &str| AnswerGate {
        run_id: started.run_id.clone(),
        answer: answer.to_owned(),
        ..AnswerGate::default()
    };
    let refusal = daemon.call(answer("ship")).await;
    assert!(
        refusal.error.unwrap().starts_with("This gate waits for a person"),
        "the test's client claims not to be a person"
    );
    let ann = daemon.person_named("ann").await;
    assert!(ann.call(answer("perhaps")).await.unwrap().error.unwrap().contains("Must be one of: ['ship', 'stop']"));
    let answer_reply = ann.call(answer("ship")).await.unwrap();
    assert!(answer_reply.success, "{answer_reply:?}");
    let waiting_run = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!(waiting_run.pending_gate.unwrap().prompt, "How?");
    assert!(daemon.call(answer("with great care")).await.success, "any client may answer with any text");
    let reply = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!(reply.status, "completed");
    assert_eq!(
        (&reply.final_variables["ask_by"], &reply.final_variables["answer"]),
        (&json!(user_name()), &json!("with great care"))
    );

    let started = start_run(&daemon, definition).await;
    wait_for_end(&daemon, &started.run_id).await;
    let expires = clock.now().after(Duration::from_secs(3600));
    clock.advance(Duration::from_secs(3000));
    let daemon = daemon.restarted().await;
    let inspected =
        daemon.call(GetRun { run_id: started.run_id.clone(), wait_seconds: None, ..GetRun::default() }).await;
    assert_eq!(inspected.status, "waiting");
    assert_eq!(clock.sleepers(), [expires], "the remaining time is unchanged");
    clock.advance(Duration::from_secs(600));
    let final_run = final_reply(&daemon, &started.run_id).await;
    assert_eq!(final_run.error.as_deref(), Some("State 'late' failed: nobody answered"));
    daemon.stop().await;
}

#[tokio::test]
async fn only_one_of_two_concurrent_answers_is_accepted() {
    let daemon = TestDaemon::new().await;
    let started = start_run(&daemon, judged_machine()).await;
    wait_for_end(&daemon, &started.run_id).await;
    let answer = |answer: &str| AnswerGate {
        run_id: started.run_id.clone(),
        answer: answer.to_owned(),
        ..AnswerGate::default()
    };
    let (ann, bob) = (daemon.person_named("ann").await, daemon.person_named("bob").await);
    let (anns_reply, bobs_reply) = tokio::join!(ann.call(answer("it is good")), bob.call(answer("it is bad")));
    let (anns_reply, bobs_reply) = (anns_reply.unwrap(), bobs_reply.unwrap());
    assert_ne!(anns_reply.success, bobs_reply.success, "{anns_reply:?} {bobs_reply:?}");
    let refusal = if anns_reply.success { bobs_reply } else { anns_reply };
    let error = refusal.error.unwrap();
    assert!(error.contains("answered by") || error.contains("not waiting for input"), "{error}");
    daemon.stop().await;
}

#[tokio::test]
async fn run_sleeps_until_its_original_wake_time() {
    let clock = ManualClock::new(Timestamp(1_700_000_000_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    let started = start_run(&daemon, sleeping_machine(200.0)).await;
    let wakes = clock.now().after(Duration::from_secs(200));
    let sleeps = async || clock.sleepers().contains(&wakes);
    eventually("the run sleeps", sleeps).await;
    clock.advance(Duration::from_secs(150));
    let daemon = daemon.restarted().await;
    eventually("the run sleeps until its original wake time", sleeps).await;
    clock.advance(Duration::from_secs(49));
    let inspected =
        daemon.call(GetRun { run_id: started.run_id.clone(), wait_seconds: None, ..GetRun::default() }).await;
    assert_eq!((inspected.status.as_str(), sleeps().await), ("running", true), "{inspected:?}");
    clock.advance(Duration::from_secs(1));
    let reply = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    let entry = reply.execution_log.iter().find(|entry| entry["phase"] == "execution").unwrap();
    assert_eq!(entry["elapsed_time"], 200.0, "the time under both daemons counts");
    daemon.stop().await;
}

#[tokio::test]
async fn parent_and_child_continue_and_a_step_starts_one_child() {
    let daemon = TestDaemon::new().await;
    let parent = json!({
        "name": "parent",
        "initial_state": "call",
        "states": {"call": {"action": {"tool": "run_workflow", "params": {"workflow_definition": sleeping_machine(1.0)}}}},
    });
    let started = start_run(&daemon, parent).await;
    let (_, mut events) = daemon
        .client()
        .subscribe(Subscribe { run_id: started.run_id.clone(), from_seq: Some(1), ..Subscribe::default() })
        .await
        .unwrap();
    let child = loop {
        let event = events.next().await.unwrap();
        if event["event_type"] == "state_entered" {
            break event["data"]["child_run_id"].as_str().unwrap().to_owned();
        }
    };
    // The child exists shortly after the state was entered.
    eventually("the child exists", async || daemon.call(GetWorkflowRun { run_id: child.clone() }).await.run).await;
    drop(events);
    let daemon = daemon.restarted().await.restarted().await;
    let reply = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!((reply.status.as_str(), reply.recursion_depth), ("completed", 1), "{reply:?}");
    let all = daemon.call(ListWorkflowRuns::default()).await.runs;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].run_id, child);
    assert_eq!(all[0].parent_run_id.as_ref(), Some(&started.run_id));
    daemon.stop().await;
}

#[tokio::test]
async fn nested_gate_is_answered_through_the_top_run() {
    let daemon = TestDaemon::new().await;
    let nested = |name: &str, inner: Value| {
        json!({
            "name": name,
            "initial_state": "call",
            "states": {"call": {"action": {"tool": "run_workflow", "params": {"workflow_definition": inner}}}},
        })
    };
    let started = start_run(&daemon, nested("outer", nested("middle", judged_machine()))).await;
    let waiting = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    let gate = waiting.pending_gate.unwrap();
    assert_ne!(gate.run_id, started.run_id, "the gate belongs to the innermost run");
    let daemon = daemon.restarted().await;
    let waiting = ListWorkflowRuns { state: Some("waiting".to_owned()), ..ListWorkflowRuns::default() };
    let waiting = daemon.call(waiting).await.runs;
    assert_eq!(waiting.len(), 3);
    assert!(waiting.iter().all(|run| run.pending_gate.as_ref() == Some(&gate)), "{waiting:#?}");
    let answer =
        AnswerGate { run_id: started.run_id.clone(), answer: "it is good".to_owned(), ..AnswerGate::default() };
    let answer_reply = daemon.call(answer).await;
    assert!(answer_reply.success, "{answer_reply:?}");
    let reply = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!((reply.status.as_str(), reply.recursion_depth), ("completed", 2), "{reply:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn choice_with_a_secret_is_answered_by_its_masked_text() {
    let daemon = TestDaemon::new().await;
    let mut definition = judged_machine();
    definition["arguments"] = json!({"TOKEN": {"description": "a token", "secret": true}});
    definition["states"]["look"]["transitions"][0]["condition"]["description"] = "{TOKEN} is shown".into();
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        initial_variables: Some([("TOKEN".to_owned(), "very-secret".into())].into()),
        ..RunWorkflow::default()
    };
    let waiting = daemon.call(verb).await;
    let gate = waiting.pending_gate.unwrap();
    assert_eq!(gate.choices[0], "•••••• is shown");
    let daemon = daemon.restarted().await;
    let answer =
        AnswerGate { run_id: waiting.run_id.clone(), answer: gate.choices[0].clone(), ..AnswerGate::default() };
    let answer_reply = daemon.call(answer).await;
    assert!(answer_reply.success, "{answer_reply:?}");
    let reply = wait_for_end(&daemon, &waiting.run_id).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("completed", Some("good")));
    daemon.stop().await;
}

/// Returns whether a stored entry of a run has a text.
fn is_stored(daemon: &TestDaemon, run: &str, text: &str) -> bool {
    let journal = rusqlite::Connection::open(daemon.paths().journal()).unwrap();
    let select = "SELECT count(*) FROM records JOIN runs USING (number) WHERE run = ?1 AND instr(text, ?2) > 0";
    journal.query_row(select, [run, text], |row| row.get::<_, i64>(0)).unwrap() > 0
}

#[tokio::test]
async fn secret_typed_elsewhere_is_sealed_in_earlier_entries() {
    let daemon = TestDaemon::new().await;
    let definition = json!({
        "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"command": ["cat"]}}, "transitions": [{"condition": "success", "next_state": "type"}]},
            "type": {"action": {"tool": "send_input", "params": {"input_text": "value open-sesame-7\n"}}, "transitions": [{"condition": "success", "next_state": "see"}]},
            "see": {"action": {"tool": "await_output", "params": {"pattern": "value (?P<value>\\S+)"}}, "transitions": [{"condition": "success", "next_state": "each"}]},
            "each": {"for_each": ["{see_match_text}"], "action": {"tool": "set", "params": {"found": "{item}"}}, "transitions": [{"condition": "success", "next_state": "ask"}]},
            "ask": {"action": {"tool": "gate", "params": {"prompt": "Go?", "answered_by": "anyone"}}, "transitions": [{"condition": "success", "next_state": "use"}]},
            "use": {"action": {"tool": "await_output", "params": {"pattern": "{match_text}", "timeout": 10}}},
        },
    });
    let started = start_run(&daemon, definition).await;
    let waiting = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!(waiting.status, "waiting", "{waiting:?}");
    assert!(is_stored(&daemon, &started.run_id, "open-sesame-7"), "the text is not yet known as a secret");
    let elsewhere = daemon.bash().await;
    let typed_input = SendInput {
        session_id: elsewhere.id.clone(),
        input_text: "open-sesame-7".to_owned(),
        secret: true,
        ..SendInput::default()
    };
    assert!(daemon.call(typed_input).await.success);
    let sealed = || !is_stored(&daemon, &started.run_id, "open-sesame-7");
    eventually("the entries of the waiting run are sealed", async || sealed()).await;
    let daemon = daemon.restarted().await;
    let answer = AnswerGate { run_id: started.run_id.clone(), answer: "yes".to_owned(), ..AnswerGate::default() };
    assert!(daemon.call(answer).await.success);
    let reply = wait_for_end(&daemon, &started.run_id).await;
    assert_eq!(reply.status, "completed", "the run continues with the value: {reply:?}");
    assert!(!serde_json::to_string(&reply).unwrap().contains("open-sesame-7"));
    assert!(!is_stored(&daemon, &started.run_id, "open-sesame-7"));
    daemon.stop().await;
}

#[tokio::test]
async fn report_of_a_long_run_is_bounded() {
    let daemon = TestDaemon::new().await;
    let text = "x".repeat(3_000);
    let definition = json!({
        "initial_state": "again",
        "states": {"again": {
            "action": {"tool": "fail", "params": {"message": format!("{text} {{number}}")}},
            "transitions": [{"condition": "failure", "next_state": "again"}],
        }},
    });
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        max_states: Some(1000),
        wait_seconds: Some(120.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!((reply.status.as_str(), reply.states_executed), ("failed", 1000), "{:?}", reply.error);
    assert_eq!(reply.execution_log.len(), 61);
    assert_eq!(reply.execution_log[10]["phase"], "left_out");
    assert!(reply.execution_log[10]["message"].as_str().unwrap().starts_with("1941 entries are left out"));
    assert_eq!(reply.execution_log[60]["phase"], "error");
    let full_text = format!("{text} ");
    for entry in reply.execution_log.iter().filter(|entry| entry["phase"] == "execution") {
        let message = entry["result"]["error"].as_str().unwrap();
        assert!(
            message.len() < full_text.len() && full_text.starts_with(message),
            "the beginning of it, and nothing else: {message}"
        );
    }
    let left_out = |path: &str| {
        let shortened = reply.shortened_values.iter().find(|value| value.path == path);
        shortened.unwrap_or_else(|| panic!("{path}: {:?}", reply.shortened_values)).left_out
    };
    assert_eq!(left_out("/execution_log"), 1941);
    let message = reply.final_variables["error"].as_str().unwrap();
    assert!(
        full_text.starts_with(message) && left_out("/final_variables/error") >= 3_000 - message.len() as u64,
        "{message}"
    );
    let bytes = serde_json::to_string(&reply).unwrap().len();
    assert!(bytes < 100_000, "{bytes}");
    daemon.stop().await;
}

#[tokio::test]
async fn nested_run_with_its_own_terminal_leaves_its_parents_alone() {
    let daemon = TestDaemon::new().await;
    let bash = daemon.bash().await;
    let inner = json!({
        "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "type"}]},
            "type": {
                "action": {"tool": "send_input", "params": {"input_text": "echo inner-$((40 + 2))\n"}},
                "transitions": [{"condition": "success", "next_state": "see"}],
            },
            "see": {
                "action": {"tool": "await_output", "params": {"pattern": "inner-42"}},
                "transitions": [{"condition": {"pattern_match": "inner-42"}, "next_state": "close"}],
            },
            "close": {"action": {"tool": "exit_terminal"}},
        },
    });
    let outer = json!({
        "initial_state": "call",
        "states": {
            "call": {
                "action": {"tool": "run_workflow", "params": {"workflow_definition": inner}},
                "transitions": [{"condition": "success", "next_state": "type"}],
            },
            "type": {"action": {"tool": "send_input", "params": {"input_text": "echo outer-$((40 + 2))\n"}}},
        },
    });
    let verb = RunWorkflow {
        workflow_definition: Some(outer),
        session_id: Some(bash.id.clone()),
        wait_seconds: Some(60.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!(reply.status, "completed", "{:?}", reply.error);
    bash.expect_text("outer-42").await;
    assert!(!bash.screen().await.contains("inner"), "{}", bash.screen().await);
    daemon.stop().await;
}

#[tokio::test]
async fn repeated_key_returns_the_run_it_started() {
    let daemon = TestDaemon::new().await;
    let verb = || RunWorkflow {
        workflow_definition: Some(sleeping_machine(0.01)),
        idempotency_key: Some("deploy 7".to_owned()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let (first, second) = tokio::join!(daemon.call(verb()), daemon.call(verb()));
    assert_eq!((first.run_id.as_str(), first.status.as_str()), (second.run_id.as_str(), second.status.as_str()));
    let step = RunWorkflow { idempotency_key: None, ..verb() };
    let question_reply = daemon.client().call_once(&step, "a step of a client").await.unwrap();
    let daemon = daemon.restarted().await;
    assert_eq!(daemon.call(verb()).await.run_id, first.run_id);
    let second_reply = daemon.client().call_once(&step, "a step of a client").await.unwrap();
    assert_eq!(
        (second_reply.run_id.as_str(), second_reply.status.as_str()),
        (question_reply.run_id.as_str(), "completed")
    );
    assert_ne!(question_reply.run_id, first.run_id);
    let second = daemon.call(RunWorkflow { workflow_definition: Some(sleeping_machine(0.02)), ..verb() }).await;
    let error = format!(
        "idempotency_key 'deploy 7' belongs to run {} of 'unnamed', which had a different request",
        first.run_id
    );
    assert!(second.error.as_ref().is_some_and(|error_text| error_text.starts_with(&error)), "{second:?}");
    assert_eq!(daemon.call(ListWorkflowRuns::default()).await.runs.len(), 2);
    daemon.stop().await;
}

#[tokio::test]
async fn finished_runs_are_evicted_by_count_and_running_ones_never() {
    let daemon = TestDaemon::keeping(RetentionPolicy { max_runs: 3, time: None, disk: None }).await;
    let long = start_run(&daemon, sleeping_machine(200.0)).await;
    // Enough runs to make the daemon check the limit.
    for _ in 0..5 {
        let tenth = (0..10).map(|_| daemon.run(sleeping_machine(0.001)));
        let mut last = String::new();
        for run in tenth.collect::<Vec<_>>() {
            last = run.await.run_id;
        }
        assert!(!last.is_empty());
    }
    eventually("three finished runs are kept", async || {
        let runs = daemon.call(ListWorkflowRuns { limit: Some(1000), ..ListWorkflowRuns::default() }).await.runs;
        let finished = runs.iter().filter(|run| run.state == "completed").count();
        if finished > 3 { Err(finished) } else { Ok(()) }
    })
    .await;
    assert_eq!(daemon.call(GetWorkflowRun { run_id: long.run_id }).await.run.unwrap().state, "running");
    daemon.stop().await;
}

/// A run that begins with half a megabyte of incompressible text.
fn incompressible_run(seed: u64, seconds: f64) -> RunWorkflow {
    let mut state = seed;
    let mut character = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b' ' + u8::try_from((state >> 33) % 90).unwrap())
    };
    let text: String = (0..500_000).map(|_| character()).collect();
    RunWorkflow {
        workflow_definition: Some(sleeping_machine(seconds)),
        initial_variables: Some([("text".to_owned(), text.into())].into()),
        wait_seconds: Some(if seconds > 1.0 { 0.0 } else { 30.0 }),
        save_on_success: false,
        ..RunWorkflow::default()
    }
}

#[tokio::test]
async fn full_journal_evicts_the_oldest_and_keeps_unfinished_runs() {
    let daemon = TestDaemon::keeping(RetentionPolicy { max_runs: 1000, time: None, disk: Some(4 << 20) }).await;
    let waiting = start_run(&daemon, judged_machine()).await.run_id;
    wait_for_end(&daemon, &waiting).await;
    let first = daemon.call(incompressible_run(0, 0.001)).await;
    assert_eq!(first.status, "completed", "{:?}", first.error);
    for seed in 1..30 {
        let run = daemon.call(incompressible_run(seed, 0.001)).await;
        assert_eq!(run.status, "completed", "{:?}", run.error);
    }
    let forgotten = daemon.call(GetRun { run_id: first.run_id, wait_seconds: None, ..GetRun::default() }).await;
    assert!(forgotten.error.unwrap().contains("not found"), "the oldest run was deleted");
    // No run in progress is deleted.
    let refusal = loop {
        let started = daemon.call(incompressible_run(77, 300.0)).await;
        if started.run_id.is_empty() {
            break started;
        }
    };
    let error = "the run was not started, because it cannot be stored: no disk space is left for the journal; \
                 free some, or raise runs.disk_mb";
    assert_eq!(refusal.error.as_deref(), Some(error));
    let running = ListWorkflowRuns { state: Some("running".to_owned()), ..ListWorkflowRuns::default() };
    let running = daemon.call(running).await.runs;
    assert!(!running.is_empty());
    for run in running {
        // The final entries of the runs are small, and fit once one of the runs has finished.
        let cancelled = daemon.call(CancelWorkflow { run_id: run.run_id }).await;
        assert!(cancelled.success, "{cancelled:?}");
    }
    let answer = AnswerGate { run_id: waiting.clone(), answer: "it is good".to_owned(), ..AnswerGate::default() };
    assert!(daemon.call(answer).await.success);
    assert_eq!(wait_for_end(&daemon, &waiting).await.status, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn unreadable_run_is_named_and_can_be_abandoned() {
    let daemon = TestDaemon::new().await;
    let strange = start_run(&daemon, sleeping_machine(100.0)).await;
    let other_run = start_run(&daemon, judged_machine()).await;
    wait_for_end(&daemon, &other_run.run_id).await;
    let path = daemon.paths().journal();
    let run: steplatch_ids::RunId = strange.run_id.parse().unwrap();
    let restarting = daemon.restarted().await;
    // A daemon of a later version ran in between.
    let journal = SqliteJournal::open(&path, &SqliteOptions::default()).unwrap();
    let last = journal.find(&run).await.unwrap().unwrap().last;
    let entry = json!({"event": "teleported", "at": 1}).to_string();
    journal.write(Append::new(run.clone(), last, 1, vec![entry])).await.unwrap();
    journal.close();
    let daemon = restarting.restarted().await;
    assert_eq!(daemon.call(DaemonStatus {}).await.runs, 1);
    let record = daemon.call(GetWorkflowRun { run_id: strange.run_id.clone() }).await.run.unwrap();
    assert_eq!(record.state, "running");
    let error = record.error.unwrap();
    assert!(error.starts_with("its history cannot be read: this version cannot read entry 3"), "{error}");
    let inspected =
        daemon.call(GetRun { run_id: strange.run_id.clone(), wait_seconds: Some(30.0), ..GetRun::default() }).await;
    assert!(inspected.error.unwrap().contains("entry 3"));
    let cancelled = daemon.call(CancelWorkflow { run_id: strange.run_id.clone() }).await;
    assert_eq!((cancelled.success, cancelled.state.as_str()), (true, "cancelled"), "{cancelled:?}");
    let second_reply = daemon.call(CancelWorkflow { run_id: strange.run_id.clone() }).await;
    assert_eq!(second_reply.message, "Run was already over: cancelled");
    let answer =
        AnswerGate { run_id: other_run.run_id.clone(), answer: "it is good".to_owned(), ..AnswerGate::default() };
    assert!(daemon.call(answer).await.success);
    assert_eq!(wait_for_end(&daemon, &other_run.run_id).await.status, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn run_of_an_older_daemon_continues_by_its_rules() {
    let definition = json!({
        "initial_state": "ask",
        "states": {
            "ask": {
                "action": {"tool": "gate", "params": {"prompt": "Go?", "answered_by": "anyone"}},
                "transitions": [{"condition": "success", "next_state": "break"}],
            },
            "break": {"action": {"tool": "fail", "params": {"message": "broken"}}, "on_timeout": "mend"},
            "mend": {"action": {"tool": "sleep", "params": {"seconds": 0}}},
        },
    });
    let daemon = TestDaemon::new().await;
    let (old, new) = (start_run(&daemon, definition.clone()).await.run_id, start_run(&daemon, definition).await.run_id);
    for run in [&old, &new] {
        assert_eq!(wait_for_end(&daemon, run).await.status, "waiting");
    }
    let id: steplatch_ids::RunId = old.parse().unwrap();
    let journal = SqliteJournal::open(&daemon.paths().journal(), &SqliteOptions::default()).unwrap();
    let records = journal.read(&id, 1).await.unwrap();
    let mut started: Value = serde_json::from_str(&records[0].text).unwrap();
    started["semantics_version"] = json!(3);
    let last = journal.find(&id).await.unwrap().unwrap().last;
    let redacted = vec![(1, started.to_string())];
    journal.write(Append { redacted, ..Append::new(id, last, 1, Vec::new()) }).await.unwrap();
    journal.close();
    let daemon = daemon.restarted().await;
    for (run, state, status) in [(old, "break", "failed"), (new, "mend", "completed")] {
        let answer = AnswerGate { run_id: run.clone(), answer: "yes".to_owned(), ..AnswerGate::default() };
        assert!(daemon.call(answer).await.success);
        let reply = wait_for_end(&daemon, &run).await;
        assert_eq!((reply.final_state.as_deref(), reply.status.as_str()), (Some(state), status), "{reply:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn next_daemon_closes_the_terminal_of_a_cancelled_run() {
    let daemon = TestDaemon::new().await;
    // The program prints endlessly, so that its opening lasts until its time limit.
    let prints = json!({
        "initial_state": "open",
        "states": {"open": {"action": {"tool": "open_terminal", "params": {
            "command": ["bash", "-c", "while :; do echo again; sleep 0.01; done"],
        }}}},
    });
    let started = start_run(&daemon, prints).await;
    let terminals = async |daemon: &TestDaemon| daemon.call(ListTerminalSessions {}).await.sessions.len();
    eventually("the terminal exists", async || terminals(&daemon).await > 0).await;
    // The cancel was recorded, but the daemon ended before it closed the terminal being opened.
    let run: steplatch_ids::RunId = started.run_id.parse().unwrap();
    let journal = SqliteJournal::open(&daemon.paths().journal(), &SqliteOptions::default()).unwrap();
    let last = journal.find(&run).await.unwrap().unwrap().last;
    let entry = json!({"event": "cancelled", "at": 1, "reason": "enough"}).to_string();
    journal.write(Append::new(run, last, 1, vec![entry])).await.unwrap();
    journal.close();
    let daemon = daemon.restarted().await;
    assert_eq!(wait_for_end(&daemon, &started.run_id).await.status, "cancelled");
    assert_eq!(terminals(&daemon).await, 0, "the terminal closes before the run counts as finished");
    daemon.stop().await;
}

#[tokio::test]
async fn daemon_ends_when_its_state_directory_or_lock_is_removed() {
    let daemon = TestDaemon::new().await;
    std::fs::remove_dir_all(daemon.paths().state()).unwrap();
    daemon.finish().await;
    let daemon = TestDaemon::new().await;
    std::fs::remove_file(daemon.paths().lock()).unwrap();
    daemon.finish().await;
}
