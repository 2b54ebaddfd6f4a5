//! Agents that only use the MCP tools: they start runs, receive progress, lose runs and find them again.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Era, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns a workflow that waits in its second state until `file` exists and ends in its third state.
fn waiting_workflow(name: &str, file: &str) -> Value {
    let command = format!("until [ -e {file} ]; do sleep 0.05; done; echo it-is-there");
    json!({"name": name, "initial_state": "open", "states": {
        "open": {
            "action": {"tool": "open_terminal", "params": {"command": ["bash", "-c", command]}},
            "transitions": [{"condition": {"success": true}, "next_state": "watch"}],
        },
        "watch": {
            "action": {"tool": "await_output", "params": {"pattern": "it-is-there", "timeout": 100}},
            "transitions": [{"condition": {"success": true}, "next_state": "close"}],
        },
        "close": {"action": {"tool": "exit_terminal", "params": {}}},
    }})
}

/// Returns a workflow with a judgement after its first state.
fn judged_workflow() -> Value {
    json!({"name": "judged", "initial_state": "look", "states": {
        "look": {
            "action": {"tool": "sleep", "params": {"seconds": 0.1}},
            "transitions": [
                {"condition": {"description": "it is clean"}, "next_state": "release"},
                {"condition": {"description": "it is broken"}, "next_state": "repair"},
            ],
        },
        "release": {"action": {"tool": "sleep", "params": {"seconds": 0.1}}},
        "repair": {"action": {"tool": "sleep", "params": {"seconds": 0.1}}},
    }})
}

fn start_run(agent: &Agent, definition: Value, wait: f64) -> Value {
    agent.call_tool("run_workflow", json!({"workflow_definition": definition, "wait_seconds": wait}))
}

/// Returns the id of the only run of the workflow called `name`.
fn find_run(agent: &Agent, name: &str) -> String {
    let list = agent.call_tool("list_runs", json!({"workflow_id": name}));
    let runs = list["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{list}");
    runs[0]["run_id"].as_str().unwrap().to_owned()
}

/// Returns whether the progress increased with each message.
fn has_grown(progress: &[(f64, String)]) -> bool {
    progress.windows(2).all(|pair| pair[0].0 < pair[1].0)
}

fn check_progress_reports(era: Era) {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_era(era, &home);
    let arguments = json!({"workflow_definition": waiting_workflow("told", "go"), "wait_seconds": 60});
    let call = agent.start_call_with_progress("run_workflow", arguments);
    let mut messages = vec![call.progress()];
    while messages.last().unwrap().1 != "state 2: watch (await_output)" {
        messages.push(call.progress());
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let (rest, outcome) = call.result_with_progress();
    assert_eq!((&outcome["status"], &outcome["states_executed"]), (&json!("completed"), &json!(3)), "{outcome}");
    messages.extend(rest);
    assert!(has_grown(&messages), "{messages:?}");
    // A newer message replaces a pending one; whether the first and last are sent depends on timing.
    assert!(messages.len() <= 3 && messages.iter().all(|(_, message)| message.starts_with("state ")), "{messages:?}");

    let silent = agent.begin("run_workflow", json!({"workflow_definition": waiting_workflow("untold", "go")}));
    let (messages, outcome) = silent.result_with_progress();
    assert_eq!((messages, &outcome["status"]), (vec![], &json!("completed")), "nothing is sent without a request");
}

#[test]
fn earlier_protocol_agent_receives_progress() {
    check_progress_reports(Era::Handshake);
}

#[test]
fn current_protocol_agent_receives_progress() {
    check_progress_reports(Era::Stateless);
}

#[test]
fn run_with_many_states_reports_progress_a_few_times_a_second() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let definition = json!({"name": "busy", "initial_state": "turn", "states": {"turn": {
        "action": {"tool": "sleep", "params": {"seconds": 0.01}},
        "transitions": [{"condition": {"success": true}, "next_state": "turn"}],
    }}});
    let arguments = json!({"workflow_definition": definition, "wait_seconds": 60, "max_states": 1000});
    let start = Instant::now();
    let call = agent.start_call_with_progress("run_workflow", arguments);
    // The run continues until it is cancelled, so that a slow machine can send progress more than once.
    let mut messages: Vec<_> = (0..3).map(|_| call.progress()).collect();
    let cancel_reply = agent.call_tool("cancel_run", json!({"run_id": find_run(&agent, "busy")}));
    assert_eq!(cancel_reply["success"], true, "{cancel_reply}");
    let (rest, outcome) = call.result_with_progress();
    let max_messages = 2 + start.elapsed().as_millis() / 250;
    messages.extend(rest);
    assert_eq!(outcome["status"], "cancelled", "{outcome}");
    assert!(has_grown(&messages) && messages.len() as u128 <= max_messages, "{messages:?}");
}

#[test]
fn invalid_parameters_are_refused_with_and_without_a_token() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    for arguments in [json!({"wait_seconds": 1}), json!({"workflow_definition": {"states": {}}})] {
        let reply_with_token = agent.start_call_with_progress("run_workflow", arguments.clone()).finish();
        let reply = agent.call_tool("run_workflow", arguments);
        assert_eq!((&reply_with_token["success"], &reply_with_token["error"]), (&json!(false), &reply["error"]));
        assert!(reply_with_token["error"].is_string());
    }
}

#[test]
fn run_outlives_its_agent_and_is_found_by_another() {
    let home = Home::new(STEPLATCH);
    let (first, second) = (Agent::new(&home), Agent::new(&home));
    // Two calls in progress: one is cancelled, and the agent of the other ends.
    for (name, agent) in [("taken_back", &first), ("lost", &second)] {
        let arguments = json!({"workflow_definition": waiting_workflow(name, "go"), "wait_seconds": 100});
        let call = agent.start_call_with_progress("run_workflow", arguments);
        while call.progress().1 != "state 2: watch (await_output)" {}
        if name == "taken_back" {
            agent.cancel(&call);
        }
    }
    assert_eq!(
        first.call_tool("list_runs", json!({}))["runs"].as_array().unwrap().len(),
        2,
        "the agent is still connected"
    );
    drop((first, second));

    let finder = Agent::with_era(Era::Stateless, &home);
    let running_runs = finder.call_tool("list_runs", json!({"state": "running"}));
    assert_eq!(running_runs["runs"].as_array().unwrap().len(), 2, "{running_runs}");
    let (withdrawn, lost) = (find_run(&finder, "taken_back"), find_run(&finder, "lost"));
    let cancel_reply = finder.call_tool("cancel_run", json!({"run_id": lost}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    let wait = finder.start_call_with_progress("get_run", json!({"run_id": withdrawn, "wait_seconds": 100}));
    // A client that joins later receives the current state.
    while wait.progress().1 != "state 2: watch (await_output)" {}
    std::fs::write(home.path().join("go"), "").unwrap();
    let outcome = wait.finish();
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("close")), "{outcome}");
    let lost_run = finder.call_tool("get_run", json!({"run_id": lost}));
    assert_eq!(lost_run["status"], "cancelled");
}

#[test]
fn another_agent_can_answer_a_judgement() {
    let home = Home::new(STEPLATCH);
    let starter = Agent::new(&home);
    let arguments = json!({"workflow_definition": judged_workflow(), "wait_seconds": 100});
    let (messages, waiting_run) = starter.start_call_with_progress("run_workflow", arguments).result_with_progress();
    assert_eq!(
        messages.last().unwrap().1,
        "waits for an answer: Which condition holds after state 'look'?",
        "{messages:?}"
    );
    assert_eq!(waiting_run["status"], "waiting", "{waiting_run}");
    assert_eq!(waiting_run["pending_gate"]["choices"], json!(["it is clean", "it is broken", "none of these"]));
    let run = waiting_run["run_id"].as_str().unwrap();
    drop(starter);

    let judge = Agent::with_era(Era::Stateless, &home);
    let waiting_runs = judge.call_tool("list_runs", json!({"state": "waiting"}));
    assert_eq!(
        (&waiting_runs["runs"][0]["run_id"], &waiting_runs["runs"][0]["pending_gates"][0]["run_id"]),
        (&json!(run), &json!(run))
    );
    let refusal = judge.call_tool("decide", json!({"run_id": run, "answer": "perhaps"}));
    assert!(refusal["error"].as_str().unwrap().starts_with("Invalid choice 'perhaps'. Must be one of:"), "{refusal}");
    let accepted = judge.call_tool("decide", json!({"run_id": run, "answer": "it is broken"}));
    assert_eq!(accepted["success"], true, "{accepted}");
    let outcome = judge.call_tool("get_run", json!({"run_id": run, "wait_seconds": 100}));
    assert_eq!((&outcome["status"], &outcome["final_state"]), (&json!("completed"), &json!("repair")), "{outcome}");
    let late_reply = judge.call_tool("decide", json!({"run_id": run, "answer": "it is clean"}));
    assert_eq!(late_reply["success"], false, "{late_reply}");
}

#[test]
fn waiting_calls_are_answered_by_the_next_daemon() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let arguments = |name: &str| json!({"workflow_definition": waiting_workflow(name, "go"), "wait_seconds": 100});
    let call_with_progress = agent.start_call_with_progress("run_workflow", arguments("told"));
    while call_with_progress.progress().1 != "state 2: watch (await_output)" {}
    let call_without_progress = agent.begin("run_workflow", arguments("untold"));
    for _ in 0..3 {
        // The calls are in progress, or being repeated.
        let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].as_i64();
        kill_process(Pid::from_raw(pid.unwrap().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
        assert_eq!(agent.call_tool("get_run", json!({"run_id": find_run(&agent, "told")}))["status"], "running");
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let (progress, outcome) = call_with_progress.result_with_progress();
    assert_eq!((&outcome["status"], &outcome["states_executed"]), (&json!("completed"), &json!(3)), "{outcome}");
    assert!(progress.iter().all(|(_, message)| message == "state 3: close (exit_terminal)"), "{progress:?}");
    assert_eq!(call_without_progress.finish()["status"], "completed");
    // No run was started twice.
    assert_eq!(agent.call_tool("list_runs", json!({}))["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn long_wait_sends_progress_on_request() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let terminal = agent.call_tool("open_terminal", json!({"command": ["cat"]}));
    let arguments = json!({"session_id": terminal["session_id"], "pattern": "never", "timeout": 5.5});
    let (messages, result) = agent.start_call_with_progress("await_output", arguments).result_with_progress();
    assert_eq!(
        (messages, &result["reason"]),
        (vec![(1.0, "waiting for 5 s".to_owned())], &json!("timeout")),
        "{result}"
    );
}

#[test]
fn start_without_waiting_returns_at_once() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let start = Instant::now();
    let run = start_run(&agent, waiting_workflow("later", "go"), 0.0);
    assert_eq!(run["status"], "running", "{run}");
    assert!(start.elapsed() < Duration::from_secs(30), "the start does not wait for the run");
}

#[test]
fn agent_writes_and_reuses_a_workflow_with_tools_only() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    // The agent reads the schema of workflows, and writes one with two mistakes.
    let schema = agent.call_tool("get_workflow_schema", json!({"topic": "actions"}));
    assert!(schema["documentation"].as_str().unwrap().contains("await_output"));
    assert!(schema["available_tools"].as_array().unwrap().contains(&json!("send_input")));
    let mut greeting = json!({
        "name": "greeting",
        "description": "Asks a program its name and answers with it",
        "initial_state": "open",
        "states": {
            "open": {
                "action": {"tool": "open_terminal", "params": {"command": [
                    "bash", "-c", "read -p 'who? ' name; test -e hold && sleep 300; echo \"hello $name\"; read end"
                ]}},
                "transitions": [{"condition": "success", "next_state": "anwser"}],
            },
            "answer": {
                "action": {"tool": "send_input", "params": {"input_txt": "{name}\n"}},
                "transitions": [{"condition": "success", "next_state": "hear"}],
            },
            "hear": {
                "action": {"tool": "await_output", "params": {"pattern": "hello (\\w+)", "timeout": 60}},
                "transitions": [{"condition": {"pattern_match": "hello"}, "next_state": "close"}],
                "timeout": 90,
            },
            "close": {"action": {"tool": "exit_terminal"}},
        },
    });
    let refusal = agent.call_tool("create_workflow", json!({"workflow_definition": greeting}));
    let problems = refusal["validation_errors"].to_string();
    assert_eq!(refusal["success"], false);
    assert!(problems.contains("State 'open' references non-existent state 'anwser'"), "{problems}");
    assert!(problems.contains("/states/answer/action/params/input_txt"), "{problems}");
    greeting["states"]["open"]["transitions"][0]["next_state"] = "answer".into();
    greeting["states"]["answer"]["action"]["params"] = json!({"input_text": "{name}\n"});
    let create_reply = agent.call_tool("create_workflow", json!({"workflow_definition": greeting}));
    assert_eq!(
        (&create_reply["success"], &create_reply["workflow_name"]),
        (&json!(true), &json!("greeting")),
        "{create_reply}"
    );

    // The agent runs the workflow by its name, and thereby proves it.
    let by_name = |name: &str, wait: f64| json!({"workflow_name": "greeting", "initial_variables": {"name": name}, "wait_seconds": wait});
    let result = agent.call_tool("run_workflow", by_name("ada", 60.0));
    assert_eq!((&result["status"], &result["final_state"]), (&json!("completed"), &json!("close")), "{result}");
    assert_eq!(result["final_variables"]["hear_match_text"], "hello ada");
    assert_eq!(result["available_workflows"], json!([]), "a library is listed by list_workflows, not by each reply");
    assert_eq!(result["workflow_signature"], create_reply["workflow_signature"]);
    let description = agent.call_tool("describe_workflow", json!({"name": "greeting"}));
    assert_eq!(
        (&description["metadata"]["status"], &description["metadata"]["run_count"]),
        (&json!("proven"), &json!(1))
    );

    // A hanging run: the agent drops the call, finds the run again, watches it and cancels it.
    std::fs::write(home.path().join("hold"), "").unwrap();
    let dropped_call = agent.begin("run_workflow", by_name("bob", 300.0));
    let run = loop {
        let running_runs = agent.call_tool("list_runs", json!({"workflow_id": "greeting", "state": "running"}));
        if let [run] = running_runs["runs"].as_array().unwrap().as_slice() {
            break run["run_id"].as_str().unwrap().to_owned();
        }
    };
    agent.cancel(&dropped_call);
    let inspection = loop {
        let inspection = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 0}));
        if inspection["states_executed"] == 3 {
            break inspection;
        }
    };
    assert_eq!(inspection["status"], "running");
    let pending_call = agent.begin("get_run", json!({"run_id": run, "wait_seconds": 120}));
    let cancel_reply = agent.call_tool("cancel_run", json!({"run_id": run}));
    assert_eq!(
        (&cancel_reply["success"], &cancel_reply["state"]),
        (&json!(true), &json!("cancelled")),
        "{cancel_reply}"
    );
    assert_eq!(pending_call.finish()["status"], "cancelled", "waiting callers are notified");
    assert_eq!(agent.call_tool("list_terminal_sessions", json!({}))["total_sessions"], 0);

    // Later, another agent uses the same workflow: directly, and nested in its own.
    std::fs::remove_file(home.path().join("hold")).unwrap();
    drop(agent);
    let agent = Agent::new(&home);
    let list = agent.call_tool("list_workflows", json!({}));
    assert_eq!(list["workflows"][0]["name"], "greeting");
    let outer = json!({
        "name": "again_and_again",
        "initial_state": "greet",
        "states": {
            "greet": {
                "action": {"tool": "run_workflow", "params": {
                    "workflow_name": "greeting", "initial_variables": {"name": "eve"}
                }},
                "transitions": [{"condition": {"field_equals": {"workflow_final_state": "close"}}, "next_state": "again"}],
            },
            "again": {"action": {"tool": "run_workflow", "params": {"workflow_name": "again_and_again"}}},
        },
    });
    let reply = agent.call_tool("create_workflow", json!({"workflow_definition": {
        "description": "Greets until it is too deep", "name": outer["name"], "initial_state": outer["initial_state"],
        "states": outer["states"]
    }}));
    assert_eq!(reply["success"], true, "{reply}");
    let result = agent.call_tool("run_workflow", json!({"workflow_name": "again_and_again", "wait_seconds": 120}));
    assert_eq!((&result["status"], &result["recursion_depth"]), (&json!("failed"), &json!(5)), "{result}");
    assert!(result["error"].as_str().unwrap().contains("Maximum recursion depth (5) exceeded"), "{result}");
    let description = agent.call_tool("describe_workflow", json!({"name": "greeting"}));
    assert_eq!(description["metadata"]["success_count"], 6, "one earlier run, and one on each of five levels");
    assert_eq!(agent.call_tool("delete_workflow", json!({"name": "again_and_again"}))["success"], true);
    let missing = agent.call_tool("run_workflow", json!({"workflow_name": "again_and_again"}));
    assert_eq!(missing["final_state"], "workflow_not_found");
    assert!(missing["error"].as_str().unwrap().contains("Available workflows: greeting"), "{missing}");
}

#[test]
fn agent_cannot_answer_for_a_person_from_its_terminal() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let definition = json!({
        "initial_state": "ask",
        "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Release?", "choices": ["yes", "no"]}}}},
    });
    let run = start_run(&agent, definition, 30.0)["run_id"].as_str().unwrap().to_owned();
    let refusal = agent.call_tool("decide", json!({"run_id": run, "answer": "yes"}));
    assert!(refusal["error"].as_str().unwrap().contains("steplatch gates answer"), "{refusal}");
    // The agent types a person's command into its own terminal, from a grandchild process that outlives its parent.
    let terminal = agent.call_tool("open_terminal", json!({"shell": "bash"}));
    let session = terminal["session_id"].as_str().unwrap();
    let command = format!("(setsid {STEPLATCH} gates answer {run} yes >said 2>&1; echo over >>said) & disown\n");
    let _ = agent.call_tool("send_input", json!({"session_id": session, "input_text": command}));
    let output = eventually_blocking("the command ends", || {
        let output = std::fs::read_to_string(home.path().join("said")).unwrap_or_default();
        if output.contains("over") { Ok(output) } else { Err(output) }
    });
    assert!(output.contains("in a terminal that steplatch keeps"), "{output}");
    assert_eq!(agent.call_tool("get_run", json!({"run_id": run}))["status"], "waiting");
    // A person, at a terminal outside of steplatch.
    home.run(&["gates", "answer", &run, "yes"]).expect_success();
    assert_eq!(agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 20}))["status"], "completed");
}
