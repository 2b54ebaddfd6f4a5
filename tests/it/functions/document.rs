//! The commands, records and events of document 003, for a client written from that document: JSON lines on the
//! socket, without a HELLO.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use steplatch_testkit::eventually_blocking;

use crate::functions::story::{Story, event_types};

/// A client of the daemon's socket.
struct Socket {
    lines: BufReader<UnixStream>,
    last_request_id: u64,
}

impl Socket {
    fn connect(story: &Story) -> Self {
        // Starts a daemon if there is none.
        story.home.run(&["runs", "list"]).expect_success();
        let status = story.home.run(&["daemon", "status", "--json"]).json();
        let stream = UnixStream::connect(status["socket"].as_str().unwrap()).unwrap();
        Self { lines: BufReader::new(stream), last_request_id: 0 }
    }

    /// Returns the result of a command, with its envelope.
    fn send(&mut self, command_type: &str, params: Value) -> Value {
        self.last_request_id += 1;
        let line = json!({"type": "command", "command_type": command_type, "params": params, "request_id": self.last_request_id});
        writeln!(self.lines.get_mut(), "{line}").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Returns the data of a successful command.
    fn request(&mut self, command_type: &str, params: Value) -> Value {
        let mut result = self.send(command_type, params);
        assert_eq!((&result["success"], &result["error"]), (&json!(true), &Value::Null), "{result}");
        result["data"].take()
    }

    /// Returns the error of a refused command.
    fn expect_refusal(&mut self, command_type: &str, params: Value) -> String {
        let result = self.send(command_type, params);
        assert_eq!(result["success"], false, "{result}");
        result["error"].as_str().unwrap().to_owned()
    }

    /// Returns the record of a run.
    fn run_record(&mut self, run: &Value) -> Value {
        self.request("GET_WORKFLOW_RUN", json!({"session_id": "default", "run_id": run}))["run"].take()
    }

    /// Returns the record of a run once it is in a state.
    fn wait_for_state(&mut self, run: &Value, state: &str) -> Value {
        eventually_blocking(&format!("the run is {state}"), || {
            let record = self.run_record(run);
            if record["state"] == state { Ok(record) } else { Err(record) }
        })
    }
}

/// Returns a story whose workflow is in the library.
fn load_story(body: &str, nodes: &str) -> Story {
    let story = Story::with_body(body, nodes);
    story.home.run(&["workflow", "load", story.file.to_str().unwrap()]).expect_success();
    story
}

// 003 L470-491, L726-741 and L982-1023: a run is {run_id, workflow_id, state, started_at, completed_at, result, error,
// pending_gate}, null for absent values. 003 L910-922, L972 and L1217-1222: every command takes session_id. 003
// L126-139 and L975-980: a workflow is {id, description, created_at}.
#[test]
fn document_client_starts_a_run_and_reads_its_result() {
    let story = load_story(
        "answer = await ctx.gate('Go on?', choices=['a', 'b', 'c'])\nreturn {'input': ctx.input, 'n': ctx.params['n'], 'answer': answer}",
        "",
    );
    let mut socket = Socket::connect(&story);
    let list = socket.request("LIST_WORKFLOWS", json!({"session_id": "default"}));
    let info = &list["workflows"][0];
    assert_eq!((&info["id"], &info["description"]), (&json!("story"), &json!("")), "{list}");
    assert!(info["created_at"].as_str().unwrap().starts_with("20"), "{list}");
    let started_run = socket.request(
        "EXECUTE_WORKFLOW",
        json!({"session_id": "default", "workflow_id": "story", "input": "text in", "params": {"n": 3}, "wait": false}),
    );
    let run = &started_run["run_id"];
    let waiting = socket.wait_for_state(run, "waiting");
    let keys = ["run_id", "workflow_id", "state", "started_at", "completed_at", "result", "error", "pending_gate"];
    assert!(keys.iter().all(|key| waiting.get(key).is_some()), "{waiting}");
    assert_eq!((&waiting["run_id"], &waiting["workflow_id"]), (run, &json!("story")));
    assert_eq!(
        (&waiting["completed_at"], &waiting["result"], &waiting["error"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert_eq!(
        (&waiting["input"], &waiting["params"]),
        (&json!("text in"), &json!({"n": 3})),
        "the input is unchanged"
    );
    assert_eq!(waiting["pending_gate"]["choices"], json!(["a", "b", "c"]));
    // 003 L674: the text of a choice outside the list.
    let answer_params = |answer: &str| json!({"session_id": "default", "run_id": run, "answer": answer});
    let mut person = Socket::connect(&story);
    person.request("HELLO", json!({"protocol_version": 1, "client": "ana", "person": true}));
    assert_eq!(
        person.expect_refusal("ANSWER_GATE", answer_params("d")),
        "Invalid choice 'd'. Must be one of: ['a', 'b', 'c']"
    );
    // 003 L1038: the answer is a required parameter.
    let without_answer = json!({"session_id": "default", "run_id": run});
    assert!(person.expect_refusal("ANSWER_GATE", without_answer).starts_with("answer is required"));
    assert_eq!(person.request("ANSWER_GATE", answer_params("b"))["success"], true);
    let outcome = socket.wait_for_state(run, "completed");
    let result = json!({"input": "text in", "n": 3, "answer": "b"});
    assert_eq!(
        (&outcome["result"], &outcome["error"], &outcome["pending_gate"]),
        (&result, &json!(null), &json!(null))
    );
    assert!(outcome["completed_at"].as_str() > outcome["started_at"].as_str(), "{outcome}");
    let runs = socket.request("LIST_WORKFLOW_RUNS", json!({"session_id": "default", "workflow_id": "story"}));
    assert_eq!(runs["runs"], json!([outcome]), "the list has the same record");
    // Another daemon reads the run from the journal, and replies identically.
    story.kill_daemon();
    let mut socket = Socket::connect(&story);
    assert_eq!(socket.run_record(run), outcome);
    assert_eq!(socket.request("LIST_WORKFLOW_RUNS", json!({}))["runs"], json!([outcome]));
    // 003 L1045 and L997
    let refusal = socket.expect_refusal(
        "ANSWER_GATE",
        json!({"session_id": "default", "run_id": started_run["run_id"], "answer": "a"}),
    );
    assert!(refusal.starts_with("The gate was already answered by"), "{refusal}");
    let unknown = socket.expect_refusal("GET_WORKFLOW_RUN", json!({"session_id": "default", "run_id": "nope"}));
    assert!(unknown.starts_with("Workflow run 'nope' not found"), "{unknown}");
}

// 003 L910-922 and L972: the session of nodes and workflows; `default` exists; unknown: `Session not found: x`.
#[test]
fn session_is_the_project_and_other_names_are_not_found() {
    let story = load_story("await ctx.sleep(1000)", "");
    let mut socket = Socket::connect(&story);
    let name = story.home.path().file_name().unwrap().to_str().unwrap();
    let started_run =
        socket.request("EXECUTE_WORKFLOW", json!({"session_id": name, "workflow_id": "story", "workspace": "default"}));
    let run = &started_run["run_id"];
    for (command, params) in [
        ("EXECUTE_WORKFLOW", json!({"workflow_id": "story"})),
        ("LIST_WORKFLOWS", json!({})),
        ("GET_WORKFLOW_RUN", json!({"run_id": run})),
        ("LIST_WORKFLOW_RUNS", json!({})),
        ("ANSWER_GATE", json!({"run_id": run, "answer": "x"})),
        ("CANCEL_WORKFLOW", json!({"run_id": run})),
    ] {
        for field in ["session_id", "workspace"] {
            let mut params = params.clone();
            params[field] = "elsewhere".into();
            assert_eq!(socket.expect_refusal(command, params), "Session not found: elsewhere", "{command} {field}");
        }
    }
    // 003 L1045
    let refusal = socket.expect_refusal("ANSWER_GATE", json!({"session_id": name, "run_id": run, "answer": "x"}));
    assert_eq!(refusal, "Run is not waiting for input (state: running)");
    assert_eq!(socket.request("CANCEL_WORKFLOW", json!({"session_id": name, "run_id": run}))["success"], true);
    assert_eq!(socket.run_record(run)["state"], "cancelled");
}

// 003 L617 and L944-957: with wait, a failed run is a successful command; error is str(e).
#[test]
fn failed_run_has_its_exception_and_traceback() {
    let story = load_story("raise ValueError('bad')", "");
    let mut socket = Socket::connect(&story);
    let params = json!({"session_id": "default", "workflow_id": "story", "wait": true});
    let failed_run = socket.request("EXECUTE_WORKFLOW", params);
    assert_eq!((&failed_run["state"], &failed_run["error"]), (&json!("failed"), &json!("bad")), "{failed_run}");
    let traceback = failed_run["traceback"].as_str().unwrap();
    assert!(traceback.starts_with("Traceback") && traceback.ends_with("ValueError: bad"), "{traceback}");
    let record = socket.run_record(&failed_run["run_id"]);
    assert_eq!(
        (&record["error"], &record["traceback"], &record["result"]),
        (&json!("bad"), &json!(traceback), &json!(null))
    );
    let last = story.events(&failed_run).pop().unwrap();
    assert_eq!((&last["data"]["error"], &last["data"]["run_id"]), (&json!("bad"), &failed_run["run_id"]), "{last}");
    // People see where the exception was raised.
    let output = story.home.run(&["runs", "show", failed_run["run_id"].as_str().unwrap()]).expect_success();
    assert!(output.contains("in story") && output.contains("ValueError: bad"), "{output}");
}

// design/runs.md: a run may have its own time limit (`timeout`, without the time at gates).
#[test]
fn run_may_have_its_own_time_limit() {
    let story = load_story("await ctx.sleep(1000)", "");
    let mut socket = Socket::connect(&story);
    for field in ["timeout", "execution_timeout"] {
        let params = json!({"workflow_id": "story", "wait": true, field: 1});
        let failed_run = socket.request("EXECUTE_WORKFLOW", params);
        assert_eq!(failed_run["state"], "failed", "{failed_run}");
        assert_eq!(failed_run["error"], "the run was at work for 1 s, which is its limit");
    }
}

// 003 L309-344, L391-413, L579-582, L603-606 and L728: the data of events.
#[test]
fn events_carry_the_data_of_the_document() {
    let story = Story::with_body(
        "await ctx.run('identity', 'x')\n\
         await ctx.run('fails')\n\
         try:\n    await ctx.run('slow', timeout=0.2)\nexcept TimeoutError:\n    pass\n\
         try:\n    await ctx.gate('Anybody?', timeout=0.25)\nexcept TimeoutError:\n    pass\n\
         try:\n    await ctx.run('nothing')\nexcept ValueError:\n    pass\n\
         return 7",
        "BashNode(id='fails', session=session, command='exit 3')\n\
         BashNode(id='slow', session=session, command='sleep 1000')",
    );
    let run = story.start(60.0);
    eventually_blocking("the gate has expired", || story.get_run(&run, 0.0)["status"] != "waiting");
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    let events = story.events(&outcome);
    let data = |event_type: &str, node: &str| {
        let is_match =
            |event: &&Value| event["event_type"] == event_type && (node.is_empty() || event["data"]["node_id"] == node);
        events.iter().find(is_match).unwrap_or_else(|| panic!("no {event_type} of {node}: {events:?}"))["data"].clone()
    };
    let started_run = data("workflow_started", "");
    assert_eq!((&started_run["run_id"], &started_run["workflow_id"]), (&outcome["run_id"], &json!("story")));
    assert_eq!(data("node_completed", "identity")["success"], true);
    assert_eq!(data("node_completed", "fails")["success"], false, "a failed result is not an error");
    assert_eq!(data("node_timeout", "slow")["timeout"], 0.2);
    assert!(data("node_error", "nothing")["error"].as_str().unwrap().contains("not found"));
    assert_eq!(data("gate_waiting", "")["choices"], Value::Null, "without choices");
    assert_eq!(data("gate_timeout", "")["timeout"], 0.25);
    let completed = data("workflow_completed", "");
    assert_eq!((&completed["run_id"], &completed["result"]), (&outcome["run_id"], &json!(7)));
}

// 003 L728-741 and docs/machines_reference.md: a cancel at a gate emits gate_cancelled.
#[test]
fn cancel_at_a_gate_cancels_the_gate_first() {
    let story = Story::with_body("await ctx.gate('Go on?')", "");
    let waiting = story.start(60.0);
    let cancel_reply = story.agent.call_tool("cancel_run", json!({"run_id": waiting["run_id"]}));
    assert_eq!(cancel_reply["success"], true, "{cancel_reply}");
    let events = story.events(&waiting);
    assert_eq!(event_types(&events), ["workflow_started", "gate_waiting", "gate_cancelled", "workflow_cancelled"]);
    assert_eq!(events[2]["data"]["gate_id"], events[1]["data"]["gate_id"]);
    assert_eq!(events[3]["data"]["run_id"], waiting["run_id"]);
}
