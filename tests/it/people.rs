//! Gates for people, answered in an MCP client, depending on its capabilities.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Era, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn gate_run_arguments(params: &Value) -> Value {
    let machine = json!({"name": "asking", "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": params}}}});
    json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false})
}

fn release_arguments() -> Value {
    gate_run_arguments(&json!({"prompt": "Release?", "choices": ["yes", "no"]}))
}

fn elicitation_capability() -> Value {
    json!({"elicitation": {}})
}

/// Returns the waiting runs of a home.
fn list_waiting_runs(home: &Home) -> Vec<String> {
    let gates = home.run(&["gates", "list", "--json"]).json();
    gates["gates"].as_array().unwrap().iter().map(|gate| gate["run_id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the answer to a run's gate, with its author and client.
fn read_recorded_answer(home: &Home, run: &str) -> Value {
    let events = home.run(&["runs", "events", run, "--follow", "--json"]).expect_success();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut answers = events.into_iter().filter(|event| event["event_type"] == "gate_answered");
    let answer = answers.next().unwrap_or_else(|| panic!("{run} has no answer"));
    assert!(answers.next().is_none(), "only one answer is recorded");
    answer["data"].clone()
}

#[test]
fn accepted_dialog_of_an_earlier_client_is_the_answer() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Handshake, &home, elicitation_capability());
    let call = agent.begin("run_workflow", release_arguments());
    let dialog = agent.await_request();
    assert_eq!(dialog["method"], "elicitation/create");
    assert!(dialog["params"]["message"].as_str().unwrap().starts_with("Release?"), "{dialog}");
    let decision = &dialog["params"]["requestedSchema"]["properties"]["decision"];
    assert_eq!((&decision["enum"], decision.get("default")), (&json!(["yes", "no"]), None));
    agent.send_response(&dialog, json!({"action": "accept", "content": {"decision": "no"}}));
    let outcome = call.finish();
    assert_eq!(
        (&outcome["status"], &outcome["final_variables"]["answer"]),
        (&json!("completed"), &json!("no")),
        "{outcome}"
    );
    let answer = read_recorded_answer(&home, outcome["run_id"].as_str().unwrap());
    assert_eq!(answer["through"], "mcp elicitation in test agent");
}

#[test]
fn dialog_without_a_decision_leaves_the_gate_open() {
    let home = Home::new(STEPLATCH);
    for result in [
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "decline", "content": {"decision": "yes"}}),
    ] {
        let agent = Agent::with_capabilities(Era::Handshake, &home, elicitation_capability());
        let call = agent.begin("run_workflow", release_arguments());
        let dialog = agent.await_request();
        agent.send_response(&dialog, result.clone());
        let waiting = call.finish();
        assert_eq!(waiting["status"], "waiting", "{result} {waiting}");
        let run = waiting["run_id"].as_str().unwrap();
        let next_step = waiting["next_step"].as_str().unwrap();
        let command = format!("steplatch gates answer {run}/ask/1@");
        assert!(next_step.contains("still open") && next_step.contains(&command), "{next_step}");
        // A second read of the run does not repeat the dialog.
        let second_read = agent.call_tool("get_run", json!({"run_id": run}));
        assert_eq!(second_read["status"], "waiting");
        assert!(second_read["next_step"].as_str().unwrap().contains("gates answer"), "{second_read}");
        home.run(&["gates", "answer", run, "yes"]).expect_success();
        assert_eq!(read_recorded_answer(&home, run)["through"], "cli");
    }
}

#[test]
fn dialog_is_withdrawn_when_answered_elsewhere_or_abandoned() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Handshake, &home, elicitation_capability());
    let call = agent.begin("run_workflow", release_arguments());
    let dialog = agent.await_request();
    let run = list_waiting_runs(&home).pop().unwrap();
    home.run(&["gates", "answer", &run, "yes"]).expect_success();
    let outcome = call.finish();
    assert_eq!((&outcome["status"], &outcome["final_variables"]["answer"]), (&json!("completed"), &json!("yes")));
    let withdrawal = agent.await_request();
    assert_eq!(
        (&withdrawal["method"], &withdrawal["params"]["requestId"]),
        (&json!("notifications/cancelled"), &dialog["id"])
    );

    let call = agent.begin("run_workflow", release_arguments());
    let dialog = agent.await_request();
    agent.cancel(&call);
    let withdrawal = agent.await_request();
    assert_eq!(withdrawal["params"]["requestId"], dialog["id"], "{withdrawal}");
    // A late answer has no effect.
    agent.send_response(&dialog, json!({"action": "accept", "content": {"decision": "yes"}}));
    let run = list_waiting_runs(&home).pop().unwrap();
    assert_eq!(agent.call_tool("list_runs", json!({"state": "waiting"}))["runs"][0]["run_id"], json!(run));
}

#[test]
fn invalid_form_is_shown_again_with_its_errors() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Handshake, &home, elicitation_capability());
    let form = json!({"properties": {
        "version": {"type": "string", "minLength": 3},
        "place": {"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]},
    }, "required": ["version"]});
    let call = agent.begin("run_workflow", gate_run_arguments(&json!({"prompt": "Which?", "form": form})));
    let dialog = agent.await_request();
    let property = &dialog["params"]["requestedSchema"]["properties"]["place"];
    assert_eq!(
        (&property["enum"], &property["enumNames"]),
        (&json!(["eu", "us"]), &json!(["Europe (eu)", "America (us)"]))
    );
    agent.send_response(&dialog, json!({"action": "accept", "content": {"version": "1", "place": "us"}}));
    let second_dialog = agent.await_request();
    let message = second_dialog["params"]["message"].as_str().unwrap();
    assert!(message.contains("'version' must have at least 3 characters, not 1"), "{message}");
    agent.send_response(&second_dialog, json!({"action": "accept", "content": {"version": "1.2", "place": "us"}}));
    let outcome = call.finish();
    assert_eq!(outcome["final_variables"]["ask_version"], "1.2", "{outcome}");
}

/// Returns the parts of a round that requests input: the message to show, and the state to carry.
fn input_parts(answer: &Value) -> (Value, String) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string(), "{answer}");
    let question = result["inputRequests"]["gate"].clone();
    assert_eq!(question["method"], "elicitation/create");
    (question["params"].clone(), result["requestState"].as_str().unwrap().to_owned())
}

fn carried_arguments(state: &str, response: Value) -> Value {
    json!({"requestState": state, "inputResponses": {"gate": response}})
}

#[test]
fn current_client_is_asked_by_a_result_and_repeats_the_call() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let (question, state) = input_parts(&agent.begin("run_workflow", release_arguments()).answer());
    assert!(question["message"].as_str().unwrap().starts_with("Release?"));
    assert_eq!(question["requestedSchema"]["properties"]["decision"]["enum"], json!(["yes", "no"]));
    let runs = list_waiting_runs(&home);
    assert_eq!(runs.len(), 1);
    let acceptance = json!({"action": "accept", "content": {"decision": "yes"}});
    let outcome =
        agent.call_again("run_workflow", &release_arguments(), &carried_arguments(&state, acceptance.clone())).finish();
    assert_eq!(
        (&outcome["status"], &outcome["final_variables"]["answer"]),
        (&json!("completed"), &json!("yes")),
        "{outcome}"
    );
    assert_eq!(outcome["run_id"], json!(runs[0]), "the repeated call starts no other run");
    assert_eq!(read_recorded_answer(&home, &runs[0])["through"], "mcp elicitation in test agent");

    // A replayed state is refused, and no run is started.
    let replay =
        agent.call_again("run_workflow", &release_arguments(), &carried_arguments(&state, acceptance)).answer();
    assert_eq!(replay["error"]["code"], -32602);
    assert!(replay["error"]["message"].as_str().unwrap().contains("used before"), "{replay}");
    assert_eq!(agent.call_tool("list_runs", json!({}))["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn question_of_a_run_called_through_more_tools_is_answered() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let arguments = json!({"tool": "run_workflow", "arguments": release_arguments()});
    let (_, state) = input_parts(&agent.begin("more_tools", arguments.clone()).answer());
    let acceptance = json!({"action": "accept", "content": {"decision": "yes"}});
    let outcome = agent.call_again("more_tools", &arguments, &carried_arguments(&state, acceptance)).finish();
    assert_eq!(outcome["status"], "completed", "{outcome}");
}

#[test]
fn carried_state_outlives_its_server_and_counts_once() {
    let home = Home::new(STEPLATCH);
    let (_, state) = {
        let agent = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
        input_parts(&agent.begin("run_workflow", release_arguments()).answer())
    };
    let acceptance = json!({"action": "accept", "content": {"decision": "yes"}});
    let next = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let outcome =
        next.call_again("run_workflow", &release_arguments(), &carried_arguments(&state, acceptance.clone())).finish();
    assert_eq!(outcome["status"], "completed", "{outcome}");
    // A third server has not seen the state used. The gate is closed, so the server only returns the result of the run.
    let third = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let repeated =
        third.call_again("run_workflow", &release_arguments(), &carried_arguments(&state, acceptance)).finish();
    assert_eq!((&repeated["status"], &repeated["run_id"]), (&json!("completed"), &outcome["run_id"]), "{repeated}");
    let runs = third.call_tool("list_runs", json!({}))["runs"].as_array().unwrap().len();
    assert_eq!(runs, 1, "no second run was started");
}

#[test]
fn carried_state_is_valid_only_unchanged_and_for_its_call() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let (_, state) = input_parts(&agent.begin("run_workflow", release_arguments()).answer());
    let acceptance = json!({"action": "accept", "content": {"decision": "yes"}});
    let expect_refusal = |tool: &str, arguments: &Value, carried: &Value| {
        let answer = agent.call_again(tool, arguments, carried).answer();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let middle = state.len() / 2;
    let replacement = if &state[middle..=middle] == "A" { "B" } else { "A" };
    let tampered = format!("{}{replacement}{}", &state[..middle], &state[middle + 1..]);
    assert!(
        expect_refusal("run_workflow", &release_arguments(), &carried_arguments(&tampered, acceptance.clone()))
            .contains("is not from this server")
    );
    let arguments = gate_run_arguments(&json!({"prompt": "Release?", "choices": ["yes", "no"], "timeout": 5}));
    assert!(
        expect_refusal("run_workflow", &arguments, &carried_arguments(&state, acceptance.clone()))
            .contains("is not from this server")
    );
    assert!(
        expect_refusal("list_runs", &json!({}), &carried_arguments(&state, acceptance.clone()))
            .contains("is not from this server")
    );
    let stateless = json!({"inputResponses": {"gate": acceptance}});
    assert!(expect_refusal("run_workflow", &release_arguments(), &stateless).contains("requestState"));
    // The server of another home cannot open the state.
    let another_home = Home::new(STEPLATCH);
    let other_agent = Agent::with_capabilities(Era::Stateless, &another_home, elicitation_capability());
    let answer = other_agent
        .call_again("run_workflow", &release_arguments(), &carried_arguments(&state, acceptance.clone()))
        .answer();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(list_waiting_runs(&home).len(), 1, "no gate was answered and no run was started");

    // Without a response, or with an invalid one, the question is asked again.
    let repeated = agent.call_again("run_workflow", &release_arguments(), &json!({"requestState": state})).answer();
    let (_, state) = input_parts(&repeated);
    let repeated = agent
        .call_again("run_workflow", &release_arguments(), &carried_arguments(&state, json!({"noise": 1})))
        .answer();
    let (_, state) = input_parts(&repeated);
    let decline_reply = agent
        .call_again("run_workflow", &release_arguments(), &carried_arguments(&state, json!({"action": "decline"})))
        .finish();
    assert_eq!(decline_reply["status"], "waiting");
    assert!(decline_reply["next_step"].as_str().unwrap().contains("was declined"), "{decline_reply}");
    // A closed dialog cannot be accepted afterwards.
    assert!(
        expect_refusal("run_workflow", &release_arguments(), &carried_arguments(&state, acceptance))
            .contains("used before")
    );
}

#[test]
fn several_rounds_of_one_call_answer_gates_and_a_form() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Stateless, &home, json!({"elicitation": {"form": {}}}));
    let arguments = json!({"wait_seconds": 60, "save_on_success": false, "workflow_definition": {
        "name": "two", "initial_state": "one", "states": {
            "one": {"action": {"tool": "gate", "params": {"prompt": "One?"}},
                    "transitions": [{"condition": "success", "next_state": "two"}]},
            "two": {"action": {"tool": "gate", "params": {"prompt": "Two?", "form": {
                "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"],
            }}}},
        },
    }});
    let (question, state) = input_parts(&agent.begin("run_workflow", arguments.clone()).answer());
    assert!(question["requestedSchema"]["properties"]["answer"].is_object(), "{question}");
    let text_response = json!({"action": "accept", "content": {"answer": "as you like"}});
    let (question, state) =
        input_parts(&agent.call_again("run_workflow", &arguments, &carried_arguments(&state, text_response)).answer());
    assert!(question["message"].as_str().unwrap().starts_with("Two?"), "{question}");
    let invalid_response = json!({"action": "accept", "content": {"count": 0}});
    let (question, state) = input_parts(
        &agent.call_again("run_workflow", &arguments, &carried_arguments(&state, invalid_response)).answer(),
    );
    assert!(question["message"].as_str().unwrap().contains("'count' must be at least 1, not 0"), "{question}");
    let valid_response = json!({"action": "accept", "content": {"count": 3}});
    let outcome = agent.call_again("run_workflow", &arguments, &carried_arguments(&state, valid_response)).finish();
    let variables = &outcome["final_variables"];
    assert_eq!((&variables["one_answer"], &variables["two_count"]), (&json!("as you like"), &json!(3)), "{outcome}");
}

#[test]
fn client_without_dialogs_learns_where_to_answer() {
    let home = Home::new(STEPLATCH);
    for (era, capabilities) in [
        (Era::Handshake, json!({})),
        (Era::Stateless, json!({})),
        (Era::Stateless, json!({"elicitation": {"url": {}}})),
    ] {
        let agent = Agent::with_capabilities(era, &home, capabilities);
        let waiting = agent.call_tool("run_workflow", release_arguments());
        assert_eq!(waiting["status"], "waiting");
        let run = waiting["run_id"].as_str().unwrap();
        let next_step = waiting["next_step"].as_str().unwrap();
        assert!(next_step.contains(&format!("steplatch gates answer {run}/ask/1@")), "{next_step}");
        // The printed command works.
        let command: Vec<&str> =
            next_step.split("steplatch ").nth(1).unwrap().split(". ").next().unwrap().split(' ').collect();
        let mut program = home.steplatch();
        program.env_remove("STEPLATCH_STATE_DIR").args(&command).arg("yes");
        let output = program.output().unwrap();
        assert!(output.status.success(), "{command:?} {output:?}");
        assert_eq!(agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}))["status"], "completed");
    }
}

#[test]
fn gate_for_an_agent_and_gate_for_a_person_stay_separate() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let for_agents = gate_run_arguments(&json!({"prompt": "Good?", "choices": ["yes", "no"], "answered_by": "agent"}));
    let waiting = agent.call_tool("run_workflow", for_agents);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let next_step = waiting["next_step"].as_str().unwrap();
    assert!(next_step.contains("with decide {") && !next_step.contains("steplatch gates"), "{next_step}");
    let reply = agent.call_tool("decide", json!({"run_id": waiting["run_id"], "answer": "yes"}));
    assert_eq!(reply["success"], true, "{reply}");
    assert_eq!(read_recorded_answer(&home, waiting["run_id"].as_str().unwrap())["through"], "mcp decide");

    let (_, _) = input_parts(&agent.begin("run_workflow", release_arguments()).answer());
    let run = list_waiting_runs(&home).pop().unwrap();
    // No parameter makes an agent's answer count as a person's.
    let refusal = agent
        .begin(
            "decide",
            json!({"run_id": run, "answer": "yes", "passphrase": "x", "person": true, "surface": "mcp elicitation"}),
        )
        .refusal();
    assert!(refusal.starts_with("decide: unknown field 'passphrase', "), "{refusal}");
    let refusal = agent.call_tool("decide", json!({"run_id": run, "answer": "yes"}));
    assert!(refusal["error"].as_str().unwrap().starts_with("This gate waits for a person"), "{refusal}");
    assert_eq!(list_waiting_runs(&home).len(), 1);
}

#[test]
fn passphrase_disables_dialogs_in_favour_of_the_terminal() {
    let home = Home::new(STEPLATCH);
    let mut program = home.steplatch();
    let mut program =
        program.args(["approver", "set", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    program.stdin.take().unwrap().write_all(b"open sesame\n").unwrap();
    assert!(program.wait().unwrap().success());
    for era in [Era::Handshake, Era::Stateless] {
        let agent = Agent::with_capabilities(era, &home, elicitation_capability());
        let waiting = agent.call_tool("run_workflow", release_arguments());
        assert_eq!(waiting["status"], "waiting", "{waiting}");
        assert!(waiting["next_step"].as_str().unwrap().contains("passphrase"), "{waiting}");
    }
}

/// Returns a client that supports tasks and has these other capabilities.
fn agent_with_tasks(home: &Home, other_capabilities: Value) -> Agent {
    let mut capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    capabilities.as_object_mut().unwrap().extend(other_capabilities.as_object().unwrap().clone());
    Agent::with_capabilities(Era::Stateless, home, capabilities)
}

/// Polls a task until it is in this state.
fn wait_for_state(agent: &Agent, task: &str, status: &str) -> Value {
    eventually_blocking(&format!("the task is {status}"), || {
        let task_status = agent.send_request("tasks/get", json!({"taskId": task}))["result"].clone();
        if task_status["status"] == status { Ok(task_status) } else { Err(task_status) }
    })
}

/// Returns the question of a task, with its name.
fn task_question(task: &Value) -> (String, Value) {
    let questions = task["inputRequests"].as_object().unwrap();
    assert_eq!(questions.len(), 1, "{task}");
    let (key, question) = questions.iter().next().unwrap();
    (key.clone(), question["params"].clone())
}

fn respond(agent: &Agent, task: &str, key: &str, response: Value) {
    let reply = agent.send_request("tasks/update", json!({"taskId": task, "inputResponses": {key: response}}));
    assert!(reply["error"].is_null(), "{reply}");
}

#[test]
fn task_requests_input_and_ends_with_the_result() {
    let home = Home::new(STEPLATCH);
    let agent = agent_with_tasks(&home, elicitation_capability());
    let form = json!({"properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"]});
    let create_reply =
        agent.begin("run_workflow", gate_run_arguments(&json!({"prompt": "How many?", "form": form}))).answer();
    let create_reply = &create_reply["result"];
    assert_eq!(
        (&create_reply["resultType"], &create_reply["status"]),
        (&json!("task"), &json!("working")),
        "{create_reply}"
    );
    let task = create_reply["taskId"].as_str().unwrap();
    assert!(task.starts_with("run_") && create_reply["ttlMs"].is_null(), "{create_reply}");
    let waiting_task = wait_for_state(&agent, task, "input_required");
    assert!(waiting_task["_meta"]["io.modelcontextprotocol/serverInfo"]["name"].is_string(), "{waiting_task}");
    let (first, question) = task_question(&waiting_task);
    assert!(question["message"].as_str().unwrap().starts_with("How many?"));
    respond(&agent, task, &first, json!({"action": "accept", "content": {"count": 0}}));
    let (second, question) = task_question(&wait_for_state(&agent, task, "input_required"));
    assert_ne!(first, second, "each question has its own name");
    assert!(question["message"].as_str().unwrap().contains("'count' must be at least 1, not 0"), "{question}");
    // The first question is closed.
    respond(&agent, task, &first, json!({"action": "accept", "content": {"count": 7}}));
    respond(&agent, task, &second, json!({"action": "accept", "content": {"count": 3}}));
    let outcome = wait_for_state(&agent, task, "completed");
    let result = &outcome["result"]["structuredContent"];
    assert_eq!(
        (&result["status"], &result["final_variables"]["ask_count"]),
        (&json!("completed"), &json!(3)),
        "{outcome}"
    );
    assert_eq!(read_recorded_answer(&home, task)["through"], "mcp elicitation in test agent");
    // Another server returns the same result: a task is a run.
    assert_eq!(wait_for_state(&agent_with_tasks(&home, json!({})), task, "completed")["result"], outcome["result"]);
}

#[test]
fn task_with_a_declined_dialog_continues_with_a_hint() {
    let home = Home::new(STEPLATCH);
    let agent = agent_with_tasks(&home, elicitation_capability());
    let create_reply = agent.begin("run_workflow", release_arguments()).answer()["result"].clone();
    let task = create_reply["taskId"].as_str().unwrap();
    let (key, _) = task_question(&wait_for_state(&agent, task, "input_required"));
    respond(&agent, task, &key, json!({"action": "decline"}));
    let waiting = wait_for_state(&agent, task, "working");
    let message = waiting["statusMessage"].as_str().unwrap();
    assert!(message.contains(&format!("steplatch gates answer {task}")), "{message}");
    home.run(&["gates", "answer", task, "yes"]).expect_success();
    wait_for_state(&agent, task, "completed");

    let create_reply = agent.begin("run_workflow", release_arguments()).answer()["result"].clone();
    let task = create_reply["taskId"].as_str().unwrap();
    assert!(agent.send_request("tasks/cancel", json!({"taskId": task}))["error"].is_null());
    wait_for_state(&agent, task, "cancelled");
    assert!(
        agent.send_request("tasks/cancel", json!({"taskId": task}))["error"].is_null(),
        "a second cancel has no effect"
    );
}

#[test]
fn tasks_require_a_declared_capability_and_a_started_run() {
    let home = Home::new(STEPLATCH);
    let agent_without_tasks = Agent::with_capabilities(Era::Stateless, &home, elicitation_capability());
    let refusal = agent_without_tasks.send_request("tasks/get", json!({"taskId": "run_0123456789abcdef"}));
    assert_eq!(refusal["error"]["code"], -32021, "{refusal}");
    let agent = agent_with_tasks(&home, json!({}));
    let unknown = agent.send_request("tasks/get", json!({"taskId": "run_0123456789abcdef"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let invalid = agent.call_tool("run_workflow", json!({"workflow_definition": {"states": {}}}));
    assert_eq!(invalid["success"], false, "{invalid}");
    // For a client without dialogs, the reply names the place to answer.
    let create_reply = agent.begin("run_workflow", release_arguments()).answer()["result"].clone();
    let task = create_reply["taskId"].as_str().unwrap();
    eventually_blocking("the task has a message", || {
        !agent.send_request("tasks/get", json!({"taskId": task}))["result"]["statusMessage"].is_null()
    });
    let waiting = wait_for_state(&agent, task, "working");
    assert!(waiting["statusMessage"].as_str().unwrap().contains("gates answer"), "{waiting}");
}
