//! Runs of machines, in a daemon in this process.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_protocol::{
    CancelWorkflow, GetRun, GetWorkflowRun, ListTerminalSessions, ListWorkflowRuns, ListWorkflows, OpenTerminal,
    RunReply, RunWorkflow, Subscribe,
};
use steplatch_testkit::{TestDaemon, eventually};

/// Returns a state that runs an action and continues if it succeeded.
fn state(tool: &str, params: &Value, next: &str) -> Value {
    json!({"action": {"tool": tool, "params": params},
           "transitions": [{"condition": {"success": true}, "next_state": next}]})
}

fn last(tool: &str, params: &Value) -> Value {
    json!({"action": {"tool": tool, "params": params}})
}

fn machine(initial: &str, states: Value) -> Value {
    json!({"name": "test", "initial_state": initial, "states": states})
}

fn states_of(reply: &RunReply) -> Vec<&str> {
    let executed = reply.execution_log.iter().filter(|entry| entry["phase"] == "execution");
    executed.map(|entry| entry["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn machine_types_reads_output_and_branches() {
    let daemon = TestDaemon::new().await;
    let reply = daemon
        .run(machine(
            "open",
            json!({
                "open": state("open_terminal", &json!({}), "ask"),
                "ask": state("send_input", &json!({"input_text": "echo answer=$((6*7))\n"}), "read"),
                "read": {
                    "action": {"tool": "await_output", "params": {"pattern": "answer=(\\d+)"}},
                    "transitions": [
                        {"condition": {"pattern_match": "answer=41"}, "next_state": "wrong"},
                        {"condition": {"field_contains": {"match_text": "=42"}, "pattern_not_match": "4[0-1]"}, "next_state": "right"}
                    ]
                },
                "wrong": last("exit_terminal", &json!({})),
                "right": last("exit_terminal", &json!({})),
            }),
        ))
        .await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("completed", Some("right")), "{reply:#?}");
    assert_eq!(states_of(&reply), ["open", "ask", "read", "right"]);
    assert_eq!(reply.states_executed, 4);
    assert_eq!(reply.final_variables["read_match_text"], "answer=42");
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
}

#[tokio::test]
async fn variables_are_never_expanded_twice() {
    let daemon = TestDaemon::new().await;
    let definition = machine(
        "open",
        json!({
            "open": state("open_terminal", &json!({}), "say"),
            "say": state("send_input", &json!({"input_text": "printf '<%s>\\n' {text|sh} ${HOME:+x}{a,b}\n"}), "see"),
            "see": last("await_output", &json!({"pattern": "<xb>"})),
        }),
    );
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        initial_variables: Some([("text".to_owned(), "it's {see} $(id)".into())].into()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!(reply.status, "completed", "{:?}", reply.error);
    let screen = reply.final_variables["screen_content"].as_str().unwrap();
    assert!(screen.contains("<it's {see} $(id)>") && screen.contains("<xa>"), "{screen}");
}

#[tokio::test]
async fn endless_run_is_stopped_and_its_terminal_is_closed() {
    let daemon = TestDaemon::new().await;
    let definition = machine(
        "open",
        json!({"open": state("open_terminal", &json!({}), "again"), "again": state("sleep", &json!({"seconds": 0}), "again")}),
    );
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        max_states: Some(7),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!(reply.status, "failed");
    assert_eq!(reply.error.unwrap(), "Maximum states limit (7) reached - possible infinite loop");
    assert_eq!(reply.states_executed, 7);
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
}

#[tokio::test]
async fn timed_out_state_follows_its_transition_or_fails_the_run() {
    let daemon = TestDaemon::new().await;
    let slow = |on_timeout: Option<&str>| {
        let mut slow = json!({
            "action": {"tool": "await_output", "params": {"pattern": "never", "timeout": 60}},
            "timeout": 0.2,
        });
        if let Some(target) = on_timeout {
            slow["on_timeout"] = target.into();
        }
        machine(
            "open",
            json!({"open": state("open_terminal", &json!({}), "slow"), "slow": slow,
                               "late": last("exit_terminal", &json!({}))}),
        )
    };
    let caught = daemon.run(slow(Some("late"))).await;
    assert_eq!((caught.status.as_str(), caught.final_state.as_deref()), ("completed", Some("late")));
    let mut failing = slow(None);
    failing["states"].as_object_mut().unwrap().remove("late");
    let failed = daemon.run(failing).await;
    assert_eq!(failed.status, "failed");
    assert!(failed.error.as_deref().unwrap().contains("'slow' timed out after 0.2"), "{:?}", failed.error);
}

#[tokio::test]
async fn failed_run_names_the_state_and_the_error() {
    let daemon = TestDaemon::new().await;
    let reply =
        daemon.run(machine("open", json!({"open": last("open_terminal", &json!({"shell": "no-such-shell"}))}))).await;
    assert_eq!(reply.status, "failed");
    let error = reply.error.unwrap();
    assert!(error.contains("open") && error.contains("program 'no-such-shell' was not found"), "{error}");
}

#[tokio::test]
async fn invalid_definition_lists_every_problem_and_starts_nothing() {
    let daemon = TestDaemon::new().await;
    let reply = daemon
        .run(machine(
            "nowhere",
            json!({
                "a": {"action": {"tool": "send_input", "params": {"input_txt": "x", "wait_for_quiet_ms": "soon"}},
                      "transitions": [{"condition": {"pattern_match": "(open"}, "next_state": "b"}]},
            }),
        ))
        .await;
    assert_eq!((reply.success, reply.final_state.as_deref()), (false, Some("definition_invalid")));
    let error = reply.error.unwrap();
    for part in [
        "Initial state 'nowhere' not found in states",
        "State 'a' references non-existent state 'b'",
        "did you mean 'input_text'",
        "wait_for_quiet_ms must be a whole number, not 'soon'",
        "pattern '(open' does not compile",
    ] {
        assert!(error.contains(part), "no {part:?} in:\n{error}");
    }
    assert!(daemon.call(ListWorkflowRuns::default()).await.runs.is_empty());
}

#[tokio::test]
async fn start_returns_at_once_and_the_run_continues() {
    let daemon = TestDaemon::new().await;
    let definition = machine("wait", json!({"wait": last("sleep", &json!({"seconds": 0.3}))}));
    let verb = RunWorkflow { workflow_definition: Some(definition), wait_seconds: Some(0.0), ..RunWorkflow::default() };
    let started = daemon.call(verb).await;
    // Document 000, line 184, and document 001, line 680: `success` shows that the workflow has succeeded.
    assert_eq!((started.success, started.status.as_str(), started.error.as_deref()), (false, "running", None));
    assert!(started.next_step.unwrap().contains(&format!("get_run {{\"run_id\": \"{}\"", started.run_id)));
    let reply =
        daemon.call(GetRun { run_id: started.run_id.clone(), wait_seconds: Some(20.0), ..GetRun::default() }).await;
    assert_eq!((reply.success, reply.status.as_str(), reply.next_step), (true, "completed", None));
    let record = daemon.call(GetWorkflowRun { run_id: started.run_id }).await.run.unwrap();
    assert_eq!((record.state.as_str(), record.workflow_id.as_str()), ("completed", "test"));
    assert!(record.completed_at.is_some());
}

/// The run may end while a report reads its history.
#[tokio::test]
async fn report_shows_completion_only_after_the_end() {
    const STATES: u32 = 99;
    let daemon = TestDaemon::new().await;
    let mut states: serde_json::Map<String, Value> = (0..STATES)
        .map(|number| (format!("s{number}"), state("set", &json!({"n": number}), &format!("s{}", number + 1))))
        .collect();
    states.insert(format!("s{STATES}"), last("return", &json!({"result": "over"})));
    let verb = RunWorkflow {
        workflow_definition: Some(machine("s0", states.into())),
        max_states: Some(1000),
        wait_seconds: Some(0.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    for _ in 0..5 {
        let mut report = daemon.call(verb.clone()).await;
        while report.status == "running" {
            report = daemon.call(GetRun { run_id: report.run_id, ..GetRun::default() }).await;
        }
        assert_eq!(
            (report.status.as_str(), report.states_executed, &report.result),
            ("completed", STATES + 1, &Some(json!("over"))),
            "{report:#?}"
        );
    }
}

#[tokio::test]
async fn cancelled_run_abandons_its_wait_and_closes_its_terminal() {
    let daemon = TestDaemon::new().await;
    let definition = machine(
        "open",
        json!({"open": state("open_terminal", &json!({}), "wait"), "wait": last("await_output", &json!({"pattern": "never", "timeout": 3000}))}),
    );
    let verb = RunWorkflow { workflow_definition: Some(definition), wait_seconds: Some(0.0), ..RunWorkflow::default() };
    let run_id = daemon.call(verb).await.run_id;
    let (_, mut events) = daemon
        .client()
        .subscribe(Subscribe { run_id: run_id.clone(), from_seq: None, ..Subscribe::default() })
        .await
        .unwrap();
    while let Some(event) = events.next().await {
        if event["event_type"] == "state_entered" && event["data"]["state"] == "wait" {
            break;
        }
    }
    let cancelled = daemon.call(CancelWorkflow { run_id: run_id.clone() }).await;
    assert_eq!((cancelled.success, cancelled.message.as_str()), (true, "Run cancelled"));
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    let second_reply = daemon.call(CancelWorkflow { run_id }).await;
    assert_eq!((second_reply.success, second_reply.message.as_str()), (true, "Run was already over: cancelled"));
    let unknown = daemon.call(CancelWorkflow { run_id: "run_x".into() }).await;
    assert!(unknown.error.unwrap().starts_with("Workflow run 'run_x' not found"));
}

#[tokio::test]
async fn events_are_numbered_and_support_late_subscribers() {
    let daemon = TestDaemon::new().await;
    let definition = machine(
        "a",
        json!({"a": state("sleep", &json!({"seconds": 0}), "b"), "b": last("sleep", &json!({"seconds": 0}))}),
    );
    let run_id = daemon.run(definition).await.run_id;
    let expected = [
        "workflow_started",
        "state_entered",
        "state_completed",
        "transition",
        "state_entered",
        "state_completed",
        "workflow_completed",
    ];
    for from in [1, 4] {
        let subscribe = Subscribe { run_id: run_id.clone(), from_seq: Some(from), ..Subscribe::default() };
        let (_, mut events) = daemon.client().subscribe(subscribe).await.unwrap();
        for (index, kind) in expected.iter().enumerate().skip(from as usize - 1) {
            let event = tokio::time::timeout(Duration::from_secs(60), events.next()).await.unwrap().unwrap();
            assert_eq!((event["seq"].as_u64(), event["event_type"].as_str()), (Some(index as u64 + 1), Some(*kind)));
        }
    }
}

#[tokio::test]
async fn secret_of_a_run_is_in_no_event_or_report() {
    let daemon = TestDaemon::new().await;
    let definition = machine(
        "open",
        json!({
            "open": state("open_terminal", &json!({}), "ask"),
            "ask": state("send_input", &json!({"input_text": "read -p 'code: ' c; echo \"code was $c\"\n"}), "tell"),
            "tell": state("send_input", &json!({"input_text": "open-sesame\n", "secret": true}), "see"),
            "see": last("await_output", &json!({"pattern": "code was .*"})),
        }),
    );
    let reply = daemon.run(definition).await;
    assert_eq!(reply.status, "completed", "{:?}", reply.error);
    assert_eq!(reply.final_variables["match_text"], "code was ••••••");
    assert!(!serde_json::to_string(&reply).unwrap().contains("open-sesame"));
    let (_, mut events) = daemon
        .client()
        .subscribe(Subscribe { run_id: reply.run_id, from_seq: None, ..Subscribe::default() })
        .await
        .unwrap();
    while let Some(event) = events.next().await {
        assert!(!event.to_string().contains("open-sesame"), "{event}");
        if event["event_type"] == "workflow_completed" {
            return;
        }
    }
}

#[tokio::test]
async fn run_in_a_given_terminal_leaves_it_open() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let definition = machine("say", json!({"say": last("send_input", &json!({"input_text": "echo from the run\n"}))}));
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        session_id: Some(session.id.clone()),
        wait_seconds: Some(20.0),
        ..RunWorkflow::default()
    };
    assert_eq!(daemon.call(verb.clone()).await.status, "completed");
    assert!(session.screen().await.contains("from the run"));
    let ghost = daemon.call(RunWorkflow { session_id: Some("ghost".into()), ..verb }).await;
    assert!(ghost.error.unwrap().starts_with("Session 'ghost' not found"));
}

#[tokio::test]
async fn costly_pattern_fails_only_its_own_run() {
    let daemon = TestDaemon::new().await;
    let bash = daemon.bash().await;
    bash.type_in("clear; printf 'a%.0s' {1..60}; echo '!c'; echo shown-$((1 + 1))\n").await;
    bash.expect_text("^shown-2$").await;
    let exploding = json!({
        "initial_state": "look",
        "states": {"look": {
            "action": {"tool": "get_screen_content"},
            "transitions": [{"condition": {"pattern_match": "(a*)*\\1c"}, "next_state": "look"}],
        }},
    });
    let verb = RunWorkflow {
        workflow_definition: Some(exploding),
        session_id: Some(bash.id.clone()),
        wait_seconds: Some(60.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!(reply.status, "failed", "{reply:?}");
    let error = reply.error.unwrap();
    assert_eq!(error, r"State 'look': pattern '(a*)*\1c' takes too much work on this text");
    bash.type_in("echo on-$((1 + 2))\n").await;
    assert_eq!(bash.wait_for("^on-3$", 20.0).await.match_text.as_deref(), Some("on-3"), "the terminal still works");
}

#[tokio::test]
async fn thousand_concurrent_runs_of_five_steps_lose_nothing() {
    const RUNS: usize = 1_000;
    let daemon = TestDaemon::new().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let command = ["bash", "-c", &format!("exec cat >{}", file.path().display())].map(str::to_owned);
    let verb = OpenTerminal { command: Some(command.into()), cols: 80, rows: 24, ..OpenTerminal::default() };
    let cat = daemon.open(verb).await;
    let definition = machine(
        "first",
        json!({
            "first": state("send_input", &json!({"input_text": "first {number}\n", "wait_for_quiet_ms": 0}), "rest"),
            "rest": state("sleep", &json!({"seconds": 0.01}), "look"),
            "look": state("list_terminal_sessions", &json!({}), "second"),
            "second": state("send_input", &json!({"input_text": "second {number}\n", "wait_for_quiet_ms": 0}), "end"),
            "end": last("sleep", &json!({"seconds": 0})),
        }),
    );
    let runs: Vec<_> = (0..RUNS)
        .map(|number| {
            let client = daemon.client().clone();
            let verb = RunWorkflow {
                workflow_definition: Some(definition.clone()),
                session_id: Some(cat.id.clone()),
                initial_variables: Some([("number".to_owned(), number.to_string().into())].into()),
                save_on_success: false,
                wait_seconds: Some(120.0),
                ..RunWorkflow::default()
            };
            tokio::spawn(async move { client.call(verb).await.unwrap() })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for run in runs {
        let reply = run.await.unwrap();
        assert_eq!((reply.status.as_str(), reply.states_executed), ("completed", 5), "{:?}", reply.error);
        ids.insert(reply.run_id);
    }
    assert_eq!(ids.len(), RUNS);
    let listing = daemon.call(ListWorkflowRuns { limit: Some(1000), ..ListWorkflowRuns::default() }).await.runs;
    assert_eq!(listing.into_iter().map(|run| run.run_id).collect::<BTreeSet<_>>(), ids);
    // Every typed line arrived once, in any order.
    let lines = eventually("all lines are in the file", async || {
        let lines = std::fs::read_to_string(file.path()).unwrap();
        if lines.lines().count() < 2 * RUNS { Err(lines) } else { Ok(lines) }
    });
    let lines = lines.await;
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> =
        (0..RUNS).flat_map(|number| [format!("first {number}"), format!("second {number}")]).collect();
    expected.sort_unstable();
    assert!(lines == expected, "{} lines of {}", lines.len(), expected.len());
}

/// A machine that takes `ROOT` and `MODE` and returns `STATUS`, in its own or a given terminal.
fn contract(opens: bool) -> Value {
    let mut document = machine(
        if opens { "open" } else { "work" },
        json!({
            "open": state("open_terminal", &json!({}), "work"),
            "work": state("send_input", &json!({"input_text": "sleep 0.3; export STATUS=\"$ROOT in ${MODE}\"\n"}), "rest"),
            "rest": last("sleep", &json!({"seconds": 0})),
        }),
    );
    if !opens {
        document["states"].as_object_mut().unwrap().remove("open");
    }
    document["arguments"] = json!({"ROOT": "where to work", "MODE": {"default": "debug mode"}});
    document["return_values"] = json!({"STATUS": "what came of it"});
    document
}

fn with_root(definition: Value, session: Option<&str>) -> RunWorkflow {
    RunWorkflow {
        workflow_definition: Some(definition),
        session_id: session.map(str::to_owned),
        initial_variables: Some([("ROOT".to_owned(), "/it's here".into())].into()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    }
}

#[tokio::test]
async fn arguments_and_return_values_pass_without_a_trace() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    for session_id in [Some(session.id.as_str()), None] {
        let reply = daemon.call(with_root(contract(session_id.is_none()), session_id)).await;
        assert_eq!(reply.status, "completed", "{reply:#?}");
        assert_eq!(reply.return_values["STATUS"], "/it's here in debug mode");
        assert_eq!(reply.final_state.as_deref(), Some("rest"));
        let phases: Vec<_> = reply.execution_log.iter().map(|entry| entry["phase"].as_str().unwrap()).collect();
        assert_eq!(phases.first(), Some(if session_id.is_some() { &"pre_execution_validation" } else { &"execution" }));
        assert_eq!(phases.last(), Some(&"post_execution_validation"));
    }
    let screen = session.screen().await;
    assert!(!screen.contains("MODE=") && !screen.contains("debug mode"), "{screen}");
}

#[tokio::test]
async fn run_with_missing_arguments_types_nothing() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let verb = RunWorkflow { initial_variables: None, ..with_root(contract(false), Some(&session.id)) };
    let reply = daemon.call(verb).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("failed", Some("validation_failed")));
    assert_eq!(
        reply.error.as_deref(),
        Some("Missing required environment variables: ROOT. Set them with: export ROOT=value")
    );
    assert_eq!(reply.states_executed, 0);
    assert!(!session.screen().await.contains("STATUS"));
}

#[tokio::test]
async fn invalid_variable_is_refused_before_the_start() {
    let daemon = TestDaemon::new().await;
    let definition = json!({
        "name": "release",
        "arguments": {
            "VERSION": {"schema": {"pattern": "^\\d+\\.\\d+\\.\\d+$"}},
            "KEY": {"secret": true, "required": false, "schema": {"minLength": 20}}
        },
        "initial_state": "open",
        "states": {"open": {"action": {"tool": "open_terminal"}}}
    });
    let given =
        |version: &str| Some([("VERSION".to_owned(), version.into()), ("KEY".to_owned(), "too short".into())].into());
    let verb = RunWorkflow {
        workflow_definition: Some(definition.clone()),
        initial_variables: given("1.2"),
        ..RunWorkflow::default()
    };
    let refusal = daemon.call(verb).await;
    assert_eq!((refusal.run_id.as_str(), refusal.final_state.as_deref()), ("", Some("validation_failed")));
    assert_eq!(
        refusal.error.as_deref(),
        Some(
            "Invalid arguments, so nothing was started: VERSION=\"1.2\" must match the pattern '^\\d+\\.\\d+\\.\\d+$'; \
             KEY=•••••• must have at least 20 characters"
        )
    );
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    assert_eq!(daemon.call(ListWorkflowRuns::default()).await.runs.len(), 0);

    // The same for a nested run.
    let params = json!({"workflow_definition": definition, "initial_variables": {"VERSION": "1.2"}});
    let above = daemon.run(machine("nest", json!({"nest": last("run_workflow", &params)}))).await;
    assert_eq!((above.status.as_str(), above.states_executed), ("failed", 1), "{above:#?}");
    assert!(
        above.error.as_deref().unwrap().contains("Invalid arguments, so nothing was started: VERSION"),
        "{above:#?}"
    );
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
    daemon.stop().await;
}

#[tokio::test]
async fn missing_return_value_fails_and_another_program_is_named() {
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let mut definition = contract(false);
    definition["states"]["work"]["action"]["params"]["input_text"] = "true\n".into();
    let reply = daemon.call(with_root(definition.clone(), Some(&session.id))).await;
    assert_eq!(reply.final_state.as_deref(), Some("return_validation_failed"));
    assert_eq!(
        reply.error.as_deref(),
        Some("Workflow failed to set required return values: STATUS. Expected variables: STATUS")
    );
    definition["states"]["work"]["action"]["params"]["input_text"] = "exec cat\n".into();
    let reply = daemon.call(with_root(definition, Some(&session.id))).await;
    let error = reply.error.unwrap();
    assert!(error.contains("They could not be read") && error.contains("no shell"), "{error}");
}

#[tokio::test]
async fn secret_contract_variables_are_hidden_even_if_short() {
    let daemon = TestDaemon::new().await;
    let mut definition = contract(true);
    definition["arguments"]["ROOT"] = json!({"secret": true, "export": true});
    definition["return_values"] = json!({"STATUS": {"secret": true}, "PIN": {"secret": true}});
    definition["states"]["work"]["action"]["params"]["input_text"] =
        "export STATUS=$(echo \"$ROOT\" | rev) PIN=$(printf q=%s Z); clear\n".into();
    let reply = daemon.call(with_root(definition, None)).await;
    assert_eq!(reply.status, "completed", "{reply:#?}");
    assert_eq!(reply.return_values["STATUS"], "••••••");
    assert_eq!(reply.return_values["PIN"], "••••••");
    let reported = serde_json::to_string(&reply).unwrap();
    assert!(!reported.contains("it's here") && !reported.contains("ereh s'ti"), "{reported}");
    assert!(!reported.contains("q=Z"), "a secret too short to mask on screens is in no report: {reported}");
}

#[tokio::test]
async fn secret_too_short_to_mask_does_not_prevent_saving() {
    let daemon = TestDaemon::new().await;
    let mut definition = machine("rest", json!({"rest": last("sleep", &json!({"seconds": 0.01}))}));
    definition["arguments"] = json!({"PIN": {"secret": true}});
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        initial_variables: Some([("PIN".to_owned(), "a".into())].into()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!((reply.status.as_str(), reply.error.as_deref(), reply.workflow_saved), ("completed", None, true));
}

/// Returns a machine whose only state runs another machine.
fn nesting_machine(inner: &Value) -> Value {
    let mut outer = machine("nest", json!({"nest": last("run_workflow", &json!({"workflow_definition": inner}))}));
    outer["name"] = "outer".into();
    outer
}

#[tokio::test]
async fn nested_run_has_its_own_run_and_its_end_is_the_result() {
    let daemon = TestDaemon::new().await;
    let mut inner = contract(true);
    inner["name"] = "inner".into();
    let mut outer = nesting_machine(&inner);
    outer["states"]["nest"]["action"]["params"]["initial_variables"] = json!({"ROOT": "{place}"});
    let verb = RunWorkflow {
        workflow_definition: Some(outer),
        initial_variables: Some([("place".to_owned(), "/here".into())].into()),
        wait_seconds: Some(30.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(verb).await;
    assert_eq!((reply.status.as_str(), reply.recursion_depth), ("completed", 1), "{reply:#?}");
    let result = &reply.execution_log[0]["result"];
    assert_eq!(result["return_values"]["STATUS"], "/here in debug mode");
    assert_eq!((&result["workflow_final_state"], &result["workflow_name"]), (&json!("rest"), &json!("inner")));
    assert_eq!(result["open_terminals"].as_array().unwrap().len(), 1);
    let runs = daemon.call(ListWorkflowRuns::default()).await.runs;
    assert_eq!(runs.len(), 2);
    let inner = runs.iter().find(|run| run.workflow_id == "inner").unwrap();
    assert_eq!(inner.parent_run_id.as_deref(), Some(reply.run_id.as_str()));
    assert_eq!(inner.input, json!({"ROOT": "/here"}), "the nested run receives only its arguments");
}

#[tokio::test]
async fn failed_nested_run_fails_its_state_with_the_reason() {
    let daemon = TestDaemon::new().await;
    let inner = machine("open", json!({"open": last("open_terminal", &json!({"shell": "no-such-shell"}))}));
    let reply = daemon.run(nesting_machine(&inner)).await;
    assert_eq!(reply.status, "failed");
    let error = reply.error.unwrap();
    assert!(error.starts_with("State 'nest' failed: State 'open' failed: program 'no-such-shell'"), "{error}");
    let missing_workflow = json!({"nest": last("run_workflow", &json!({"workflow_name": "elsewhere"}))});
    let error = daemon.run(machine("nest", missing_workflow)).await.error.unwrap();
    assert!(error.contains("Workflow 'elsewhere' not found"), "{error}");
}

#[tokio::test]
async fn nested_run_ends_with_its_parent_and_with_its_state() {
    let daemon = TestDaemon::new().await;
    let inner = machine(
        "open",
        json!({"open": state("open_terminal", &json!({}), "wait"), "wait": last("sleep", &json!({"seconds": 600}))}),
    );
    let mut outer = nesting_machine(&inner);
    outer["states"]["nest"]["timeout"] = json!(1.5);
    let reply = daemon.run(outer).await;
    assert_eq!(reply.error.as_deref(), Some("State 'nest' timed out after 1.5s"));
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);

    let definition = nesting_machine(&nesting_machine(&inner));
    let verb = RunWorkflow { workflow_definition: Some(definition), wait_seconds: Some(0.0), ..RunWorkflow::default() };
    let run_id = daemon.call(verb).await.run_id;
    let innermost = loop {
        let runs = daemon.call(ListWorkflowRuns { state: Some("running".into()), ..Default::default() }).await.runs;
        // The nested run starts shortly after its parents; each poll is a reply of the daemon.
        if let Some(run) = runs.into_iter().find(|run| run.workflow_id == "test") {
            break run.run_id;
        }
    };
    let (_, mut events) = daemon
        .client()
        .subscribe(Subscribe { run_id: innermost.clone(), from_seq: None, ..Subscribe::default() })
        .await
        .unwrap();
    while let Some(event) = events.next().await {
        if event["event_type"] == "state_entered" && event["data"]["state"] == "wait" {
            break;
        }
    }
    daemon.call(CancelWorkflow { run_id }).await;
    assert_eq!(
        daemon.call(GetRun { run_id: innermost, wait_seconds: None, ..GetRun::default() }).await.status,
        "cancelled"
    );
    assert_eq!(daemon.call(ListTerminalSessions {}).await.total_sessions, 0);
}

/// The result of the state `nest` of a run.
fn nested(reply: &RunReply) -> &Value {
    let entry = reply.execution_log.iter().find(|entry| entry["phase"] == "execution" && entry["state"] == "nest");
    &entry.unwrap_or_else(|| panic!("{reply:#?}"))["result"]
}

fn in_own_terminal(name: &str, states: Value) -> Value {
    let initial = states.as_object().unwrap().keys().next().unwrap().clone();
    json!({"name": name, "initial_state": initial, "states": states})
}

#[tokio::test]
async fn workflow_can_be_called_after_its_terminal_was_closed() {
    // Document 000, lines 555-585: composition. The terminal is closed by the run itself, or by another client.
    let daemon = TestDaemon::new().await;
    let listing = in_own_terminal("listing", json!({"list": last("list_terminal_sessions", &json!({}))}));
    let nest = last("run_workflow", &json!({"workflow_definition": listing}));
    let definition = machine(
        "open",
        json!({
            "open": state("open_terminal", &json!({}), "close"),
            "close": state("exit_terminal", &json!({}), "nest"),
            "nest": nest,
        }),
    );
    let reply = daemon.run(definition).await;
    assert_eq!(reply.status, "completed", "{:?}", reply.error);
    assert_eq!(nested(&reply)["session_id"], Value::Null);

    let definition = machine(
        "open",
        json!({
            "open": state("open_terminal", &json!({}), "leave"),
            "leave": state("run_workflow", &json!({
                "session_id": "{session_id}",
                "workflow_definition": in_own_terminal("closing", json!({"close": last("exit_terminal", &json!({}))})),
            }), "nest"),
            "nest": nest,
        }),
    );
    let reply = daemon.run(definition).await;
    assert_eq!(reply.status, "completed", "{:?}", reply.error);
    daemon.stop().await;
}

#[tokio::test]
async fn nested_run_uses_the_terminal_of_its_parent() {
    // Document 000, lines 178-195, 578 and 640-656.
    let daemon = TestDaemon::new().await;
    let inner = in_own_terminal(
        "inner",
        json!({
            "open": state("open_terminal", &json!({}), "say"),
            "say": state("send_input", &json!({"input_text": "echo {word}-$((6*7))\n"}), "hear"),
            "hear": last("await_output", &json!({"pattern": "here-\\d+"})),
        }),
    );
    let mut nest = last("run_workflow", &json!({"workflow_definition": inner, "initial_variables": {"word": "here"}}));
    nest["transitions"] = json!([{"condition": {"field_equals": {"final_state": "hear"}}, "next_state": "type"}]);
    let definition = machine(
        "nest",
        json!({
            "nest": nest,
            "type": state("send_input", &json!({"input_text": "echo {nest_final_state}-$((6*9))\n"}), "see"),
            "see": last("await_output", &json!({"session_id": "{session_id}", "pattern": "hear-54"})),
        }),
    );
    let reply = daemon.run(definition).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("completed", Some("see")), "{reply:#?}");
    let result = nested(&reply);
    assert_eq!(result["final_variables"]["match_text"], "here-42");
    assert_eq!(result["final_variables"]["word"], "here");
    assert!(result["total_elapsed_time"].as_f64().unwrap() > 0.0);
    assert_eq!(result["session_id"].as_str(), reply.session_id.as_deref());
    assert_eq!(result["open_terminals"], json!([reply.session_id]));
    daemon.stop().await;
}

#[tokio::test]
async fn state_reads_the_log_of_its_nested_run_and_workflow_names() {
    // Document 000, lines 182-195 and 559-579: the action returns the tool's result.
    let daemon = TestDaemon::new().await;
    let child = |output: &str| {
        let command = format!("printf '%s' {output}");
        in_own_terminal("inner", json!({"say": last("run_command", &json!({"command": command}))}))
    };
    let nest = |inner: Value, message: &str| {
        let definition = json!({
            "nest": state("run_workflow", &json!({"workflow_definition": inner}), "look"),
            "look": last("fail", &json!({"message": message})),
        });
        daemon.run(machine("nest", definition))
    };
    let read = nest(child("hello"), "{nest_execution_log.0.result.output} {nest_available_workflows}").await;
    let names = "State 'look' failed: hello [\"inner\"]";
    assert_eq!(read.error.as_deref(), Some(names), "{read:#?}");
    assert_eq!(nested(&read)["available_workflows"], json!(["inner"]));
    assert_eq!(read.final_variables.get("nest_execution_log"), None, "the state's log entry has the log");

    // The nested run of a nested run keeps its log.
    let deep =
        in_own_terminal("outer", json!({"mid": last("run_workflow", &json!({"workflow_definition": child("deep")}))}));
    let read = nest(deep, "{nest_execution_log.0.result.status}").await;
    assert_eq!(read.error.as_deref(), Some("State 'look' failed: completed"), "{read:#?}");
    assert_eq!(nested(&read)["execution_log"][0]["result"].get("execution_log"), None);

    // A log is complete or omitted, and a state that reads an omitted log fails.
    let long = nest(child("$(printf '%070000d' 0)"), "{nest_execution_log.0.result.output}").await;
    assert_eq!(nested(&long)["log_omitted"], true, "{long:#?}");
    assert!(long.error.as_deref().is_some_and(|error| error.contains("nest_execution_log")), "{:?}", long.error);
    daemon.stop().await;
}

#[tokio::test]
async fn inline_workflow_is_saved_unless_disabled() {
    // Document 000, lines 164, 646-650 and 804-807.
    let daemon = TestDaemon::new().await;
    let inner = |name: &str| in_own_terminal(name, json!({"rest": last("sleep", &json!({"seconds": 0}))}));
    let outer = |name: &str, own: Value| {
        let nest = json!({"workflow_definition": inner(name), "save_on_success": own});
        // The second state fails with the variables, so that the outer run is not saved.
        machine(
            "nest",
            json!({
                "nest": state("run_workflow", &nest, "look"),
                "look": last("fail", &json!({"message": "{workflow_saved} {saved_workflow_name}"})),
            }),
        )
    };
    let run = async |name: &str, own: Value, save_on_success: bool| {
        let verb = RunWorkflow {
            workflow_definition: Some(outer(name, own)),
            save_on_success,
            wait_seconds: Some(30.0),
            ..RunWorkflow::default()
        };
        daemon.call(verb).await
    };
    let error = |reply: RunReply| reply.error.unwrap();
    assert_eq!(error(run("two", json!(false), true).await), "State 'look' failed: false ");
    assert_eq!(error(run("three", json!(true), false).await), "State 'look' failed: false ");
    assert_eq!(error(run("one", Value::Null, true).await), "State 'look' failed: true one");
    let second_reply = run("another", Value::Null, true).await;
    assert_eq!(nested(&second_reply)["duplicate_of"], "one");
    assert_eq!(error(second_reply), "State 'look' failed: false ");
    let saved = daemon.call(ListWorkflows::default()).await.workflows;
    assert_eq!(saved.iter().map(|workflow| workflow.name.as_str()).collect::<Vec<_>>(), ["one"]);
    daemon.stop().await;
}

#[tokio::test]
async fn initial_session_id_is_the_terminal_of_the_run() {
    // Document 000, lines 148 and 502.
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    let definition = machine("say", json!({"say": last("send_input", &json!({"input_text": "echo from the run\n"}))}));
    let with = |session: &str| RunWorkflow {
        workflow_definition: Some(definition.clone()),
        initial_variables: Some([("session_id".to_owned(), session.into())].into()),
        wait_seconds: Some(20.0),
        ..RunWorkflow::default()
    };
    let reply = daemon.call(with(&session.id)).await;
    assert_eq!((reply.status.as_str(), reply.session_id.as_deref()), ("completed", Some(session.id.as_str())));
    assert!(session.screen().await.contains("from the run"));
    let ghost = daemon.call(with("ghost")).await.error.unwrap();
    assert!(ghost.starts_with("Session 'ghost' not found"), "{ghost}");
    daemon.stop().await;
}

#[tokio::test]
async fn pattern_is_searched_on_screen_after_action_without_output() {
    // Document 001, lines 303-304; the first line of the screen matches alone (`^ok$`).
    let daemon = TestDaemon::new().await;
    let session = daemon.bash().await;
    session.type_in("clear; PS1=; printf 'o%s\\n' k\n").await;
    session.expect_text("(?m)^ok$").await;
    let looking = |tool: &str, params: Value| {
        let mut look = json!({"action": {"tool": tool, "params": params}, "transitions": [
            {"condition": {"pattern_match": "^nothing like that$"}, "next_state": "wrong"},
            {"condition": {"pattern_match": "^ok$"}, "next_state": "right"},
        ]});
        if tool == "await_output" {
            look["timeout"] = json!(0.2);
        }
        let states = json!({
            "look": look,
            "wrong": last("sleep", &json!({"seconds": 0})),
            "right": last("sleep", &json!({"seconds": 0})),
        });
        RunWorkflow {
            session_id: Some(session.id.clone()),
            wait_seconds: Some(20.0),
            workflow_definition: Some(machine("look", states)),
            ..RunWorkflow::default()
        }
    };
    for (tool, params) in [
        ("list_terminal_sessions", json!({})),
        ("sleep", json!({"seconds": 0})),
        ("await_output", json!({"pattern": "never"})),
        ("get_screen_content", json!({})),
    ] {
        let reply = daemon.call(looking(tool, params)).await;
        assert_eq!(reply.final_state.as_deref(), Some("right"), "{tool}: {reply:#?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn secret_argument_is_in_no_environment_and_can_be_typed() {
    let daemon = TestDaemon::new().await;
    let definition = |secret: Value| {
        let mut document = machine(
            "open",
            json!({
                "open": state("open_terminal", &json!({"shell": "bash"}), "ask"),
                "ask": state("send_input", &json!({
                    "input_text": "read -s word; printf '%s:%s:%s\\n' ${#word} \"$(env | grep -c ^PW=)\" done\n"
                }), "tell"),
                "tell": state("send_input", &json!({"input_text": "{PW}\n"}), "see"),
                "see": last("await_output", &json!({"pattern": "^\\d+:\\d+:done"})),
            }),
        );
        document["arguments"] = json!({"PW": secret});
        document
    };
    let run = async |secret: Value| {
        let verb = RunWorkflow {
            workflow_definition: Some(definition(secret)),
            initial_variables: Some([("PW".to_owned(), "open-sesame".into())].into()),
            wait_seconds: Some(30.0),
            ..RunWorkflow::default()
        };
        daemon.call(verb).await
    };
    for (secret, expected) in [
        // The case without a secret comes first: a secret of a run is masked by value from then on.
        (json!({"export": false}), "11:0:done"),
        (json!({"secret": true}), "11:0:done"),
        (json!({"secret": true, "export": true}), "11:1:done"),
    ] {
        let reply = run(secret.clone()).await;
        assert_eq!(reply.status, "completed", "{secret}: {reply:#?}");
        assert_eq!(reply.final_variables["see_match_text"], expected, "{secret}");
        let displayed_text = serde_json::to_string(&reply).unwrap().contains("open-sesame");
        assert_eq!(displayed_text, secret["secret"] != true, "{secret}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn secret_default_replaces_a_value_and_is_never_shown() {
    let daemon = TestDaemon::new().await;
    let mut definition = machine(
        "open",
        json!({
            "open": state("open_terminal", &json!({"shell": "bash"}), "say"),
            "say": state("send_input", &json!({"input_text": "printf '%s-%s\\n' {PW|sh} \"${PW-unset}\"\n"}), "see"),
            "see": last("await_output", &json!({"pattern": "^.*-unset"})),
        }),
    );
    definition["arguments"] = json!({"PW": {"secret": true, "default": "change me"}});
    let reply = daemon.run(definition.clone()).await;
    assert_eq!(reply.status, "completed", "{reply:#?}");
    assert_eq!(reply.final_variables["see_match_text"], "••••••-unset");
    assert!(!serde_json::to_string(&reply).unwrap().contains("change me"));
    let (_, mut events) = daemon
        .client()
        .subscribe(Subscribe { run_id: reply.run_id, from_seq: None, ..Subscribe::default() })
        .await
        .unwrap();
    while let Some(event) = events.next().await {
        assert!(!event.to_string().contains("change me"), "{event}");
        if event["event_type"] == "workflow_completed" {
            break;
        }
    }
    daemon.stop().await;
}
