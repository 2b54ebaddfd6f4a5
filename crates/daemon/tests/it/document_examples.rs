//! The examples of documents 000 and 001, run as written: definitions, requests, replies and files.
//!
//! Definitions are in `documents/`. The name of a file has the document and the first line of the definition there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use steplatch_pattern::Pattern;
use steplatch_protocol::{Client, Hello, PROTOCOL_VERSION, connect};
use steplatch_testkit::{TestDaemon, eventually};
use tempfile::TempDir;

const CONDITIONS: &str = include_str!("documents/000_line_1637_conditions.jsonc");
const SIMPLE_TEST: &str = include_str!("documents/000_line_1671_simple_test.json");
const TEST_WITH_BRANCHING: &str = include_str!("documents/000_line_1710_test_with_branching.json");
const INTERACTIVE_DEBUG: &str = include_str!("documents/000_line_1794_interactive_debug.json");
const FULL_CI_PIPELINE: &str = include_str!("documents/000_line_1961_full_ci_pipeline.json");
const BUILD_PROJECT: &str = include_str!("documents/001_line_580_build_project.json");
const WORKFLOW_IDENTIFIER: &str = include_str!("documents/001_line_1035_workflow_identifier.jsonc");

/// The fields of `RunWorkflowResponse`: document 000, lines 182-195, and document 001, lines 1003-1012.
const RUN_FIELDS: [&str; 14] = [
    "success",
    "final_state",
    "states_executed",
    "total_elapsed_time",
    "execution_log",
    "final_variables",
    "session_id",
    "workflow_saved",
    "saved_workflow_name",
    "available_workflows",
    "recursion_depth",
    "error",
    "workflow_name",
    "workflow_signature",
];

/// The fields of `CreateWorkflowResponse`: document 001, lines 989-996.
const CREATE_FIELDS: [&str; 6] =
    ["success", "workflow_name", "stored_file", "workflow_signature", "validation_errors", "error"];

/// An agent with its own library, and with its own programs first in its PATH.
struct Agent {
    client: Client,
    directory: TempDir,
}

impl Agent {
    async fn connect(daemon: &TestDaemon, programs: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        fs::create_dir(path("bin")).unwrap();
        fs::create_dir(path("home")).unwrap();
        for (name, text) in programs {
            let program = format!("{}/{name}", path("bin"));
            fs::write(&program, text).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let search = format!("{}:{}", path("bin"), std::env::var("PATH").unwrap());
        let environment = [
            ("HOME", path("home")),
            ("PATH", search),
            ("STEPLATCH_LIBRARY", path("library")),
            ("LC_ALL", "C.UTF-8".into()),
        ];
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            client: "agent".to_owned(),
            cwd: Some(path("home")),
            environment: Some(environment.map(|(name, value)| (name.to_owned(), value)).into()),
            ..Hello::default()
        };
        let (client, _) = connect(daemon.paths(), hello).await.unwrap();
        Self { client, directory }
    }

    fn library(&self) -> PathBuf {
        self.directory.path().join("library")
    }

    /// Calls a verb with the parameters as written in a document.
    async fn call_tool(&self, verb: &str, params: Value) -> Value {
        let (reply, warnings) = self.client.call_raw(verb, params).await.unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        reply
    }

    async fn create(&self, definition: &Value) -> Value {
        let reply = self.call_tool("CREATE_WORKFLOW", json!({"workflow_definition": definition})).await;
        assert_has_fields(&reply, &CREATE_FIELDS);
        reply
    }

    async fn runs(&self, params: Value) -> Value {
        let reply = self.call_tool("RUN_WORKFLOW", params).await;
        assert_has_fields(&reply, &RUN_FIELDS);
        let log = reply["execution_log"].as_array().unwrap().iter();
        for timestamp in log.map(|entry| entry["timestamp"].as_str().unwrap_or_else(|| panic!("no text: {entry}"))) {
            // Document 000, line 476, and document 001, lines 768, 807 and 861:
            // `datetime.now(timezone.utc).isoformat()`.
            let iso = Pattern::new(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z").unwrap();
            assert!(iso.is_match(timestamp).unwrap(), "{timestamp}");
        }
        reply
    }

    async fn opens_a_terminal(&self) -> String {
        let reply = self.call_tool("OPEN_TERMINAL", json!({"shell": "bash", "wait_ready": true})).await;
        assert_eq!(reply["success"], true, "{reply}");
        reply["session_id"].as_str().unwrap().to_owned()
    }

    /// Types a command and waits for its end.
    async fn run_command(&self, session: &str, command: &str) -> String {
        self.call_tool("SEND_INPUT", json!({"session_id": session, "input_text": format!("{command}\n")})).await;
        let reply = self.call_tool("AWAIT_OUTPUT", json!({"session_id": session, "until": "prompt"})).await;
        assert_eq!((&reply["success"], &reply["exit_code"]), (&json!(true), &json!(0)), "{reply}");
        reply["screen_content"].as_str().unwrap().to_owned()
    }
}

fn assert_has_fields(reply: &Value, fields: &[&str]) {
    for field in fields {
        assert!(reply.get(field).is_some(), "no {field} in {reply}");
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Reads JSON with the comments in the documents.
fn read_with_comments(text: &str) -> Value {
    let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    read(&lines.collect::<Vec<_>>().join("\n"))
}

fn phases(reply: &Value) -> Vec<&str> {
    reply["execution_log"].as_array().unwrap().iter().map(|entry| entry["phase"].as_str().unwrap()).collect()
}

fn states(reply: &Value) -> Vec<&str> {
    let log = reply["execution_log"].as_array().unwrap().iter();
    log.filter(|entry| entry["phase"] == "execution").map(|entry| entry["state"].as_str().unwrap()).collect()
}

/// A machine with one state, whose result is the text.
fn repeating_machine(name: &str, text: &str) -> Value {
    let action = json!({"tool": "run_node", "params": {"node_id": "identity", "input": text}});
    json!({"name": name, "description": "Repeats a text", "initial_state": "repeat", "states": {"repeat": {"action": action}}})
}

/// Document 000, lines 1669-1706, 2061-2082 (automatic saving, the same logic once, by name), 52 and 66 (a duplicate
/// has no saved name).
#[tokio::test]
async fn simple_workflow_of_document_000_line_1671() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let request = json!({"workflow_definition": read(SIMPLE_TEST)});
    let result = agent.runs(request.clone()).await;
    assert_eq!(
        (&result["success"], &result["final_state"], &result["states_executed"]),
        (&json!(true), &json!("cleanup"), &json!(3))
    );
    assert_eq!(
        (&result["workflow_saved"], &result["saved_workflow_name"]),
        (&json!(true), &json!("simple_test")),
        "{result}"
    );
    assert_eq!((&result["available_workflows"], &result["error"]), (&json!(["simple_test"]), &Value::Null));
    assert!(result["final_variables"]["session_id"].is_string(), "{result}");
    assert!(agent.library().join("simple_test.json").exists());

    let second_reply = agent.runs(request).await;
    assert_eq!((&second_reply["success"], &second_reply["workflow_saved"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&second_reply["saved_workflow_name"], &second_reply["duplicate_of"]),
        (&Value::Null, &json!("simple_test")),
        "{second_reply}"
    );

    let by_name_reply = agent.runs(json!({"workflow_name": "simple_test"})).await;
    assert_eq!((&by_name_reply["success"], &by_name_reply["workflow_saved"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&by_name_reply["saved_workflow_name"], by_name_reply.get("duplicate_of")),
        (&Value::Null, None),
        "{by_name_reply}"
    );
    daemon.stop().await;
}

/// Document 000, lines 1709-1790.
#[tokio::test]
async fn branching_workflow_of_document_000_line_1710() {
    let daemon = TestDaemon::new().await;
    for (printed, way) in [("  12 passing (3ms)", "tests_passed"), ("  2 failing", "tests_failed")] {
        let npm = format!("#!/bin/sh\necho '{printed}'\n");
        let agent = Agent::connect(&daemon, &[("npm", &npm)]).await;
        let result = agent.runs(json!({"workflow_definition": read(TEST_WITH_BRANCHING), "wait_seconds": 60})).await;
        assert_eq!((&result["success"], &result["final_state"]), (&json!(true), &json!("cleanup")), "{result}");
        assert_eq!(states(&result), ["start_session", "run_tests", "wait_for_results", way, "cleanup"]);
    }
    daemon.stop().await;
}

/// Document 000, lines 1793-1957: a person at the terminal decides how a debugger continues.
#[tokio::test]
async fn interactive_workflow_of_document_000_line_1794() {
    let daemon = TestDaemon::new().await;
    // A debugger that passes unknown commands to the shell, so that the example's `read` prompts the person.
    let python = "#!/bin/bash\nprintf '(Pdb) '\nwhile IFS= read -r line; do\n  case \"$line\" in\n    q) exit 0 ;;\n    \
                  *) eval \"$line\" ;;\n  esac\n  printf '(Pdb) '\ndone\n";
    let agent = Agent::connect(&daemon, &[("python", python)]).await;
    let start_reply = agent.runs(json!({"workflow_definition": read(INTERACTIVE_DEBUG), "wait_seconds": 0})).await;
    assert_eq!((&start_reply["success"], &start_reply["status"]), (&json!(false), &json!("running")));
    let session = eventually("the terminal is open", async || {
        let listing = agent.call_tool("LIST_TERMINAL_SESSIONS", json!({})).await;
        listing["sessions"][0]["session_id"].as_str().map(str::to_owned)
    });
    let session = session.await;
    let request = json!({"session_id": session, "pattern": r"q=quit\): $", "timeout": 60, "since": 0});
    let request = agent.call_tool("AWAIT_OUTPUT", request).await;
    assert!(request["match_text"].is_string(), "{request}");
    agent.call_tool("SEND_INPUT", json!({"session_id": session, "input_text": "q\n"})).await;
    let reply = agent.call_tool("GET_RUN", json!({"run_id": start_reply["run_id"], "wait_seconds": 60})).await;
    assert_eq!((&reply["success"], &reply["final_state"]), (&json!(true), &json!("cleanup")), "{reply}");
    assert_eq!(states(&reply)[3..], ["prompt_user", "capture_choice", "quit_debug", "cleanup"]);
    daemon.stop().await;
}

/// Document 000, lines 1959-2055.
#[tokio::test]
async fn pipeline_of_document_000_line_1961() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    for (name, text) in [
        ("code_linting", "{target_dir}"),
        ("test_suite", "{test_type}"),
        ("build_production", "built"),
        ("production_deploy", "{environment}"),
        ("notify_failure", "{stage}: {message}"),
    ] {
        assert_eq!(agent.create(&repeating_machine(name, text)).await["success"], true);
    }
    let request = json!({"workflow_definition": read(FULL_CI_PIPELINE), "save_on_success": false, "wait_seconds": 60});
    let good = agent.runs(request.clone()).await;
    assert_eq!((&good["success"], &good["final_state"]), (&json!(true), &json!("deploy")), "{good}");
    assert_eq!(states(&good), ["run_linting", "run_tests", "build_project", "deploy"]);
    assert_eq!((&good["recursion_depth"], &good["saved_workflow_name"]), (&json!(1), &Value::Null));

    let fails = json!({"tool": "fail", "params": {"message": "two tests failed"}});
    let failing = json!({
        "name": "test_suite", "description": "Fails", "initial_state": "test", "states": {"test": {"action": fails}}
    });
    let create_request = json!({"workflow_definition": failing, "overwrite_existing": true});
    assert_eq!(agent.call_tool("CREATE_WORKFLOW", create_request).await["success"], true);
    let bad = agent.runs(request).await;
    assert_eq!((&bad["success"], &bad["final_state"]), (&json!(true), &json!("tests_failed")), "{bad}");
    let notified = &bad["execution_log"]
        .as_array()
        .unwrap()
        .iter()
        .rfind(|entry| entry["phase"] == "execution")
        .unwrap()["result"];
    let below = agent.call_tool("GET_RUN", json!({"run_id": notified["run_id"]})).await;
    let message = "testing: Unit tests failed - check test results";
    assert_eq!(below["final_variables"]["repeat_output"], message, "{below}");
    daemon.stop().await;
}

/// Document 000, lines 2080-2089.
#[tokio::test]
async fn requests_of_document_000_line_2080_run_saved_workflows() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    for (name, text) in [("my_saved_workflow", "done"), ("parameterized_workflow", "{env} {version}")] {
        assert_eq!(agent.create(&repeating_machine(name, text)).await["success"], true);
    }
    let saved = agent.runs(json!({"workflow_name": "my_saved_workflow"})).await;
    assert_eq!(
        (&saved["success"], &saved["final_variables"]["repeat_output"]),
        (&json!(true), &json!("done")),
        "{saved}"
    );
    let variables = json!({"env": "production", "version": "v1.2.3"});
    let result = agent.runs(json!({"workflow_name": "parameterized_workflow", "initial_variables": variables})).await;
    assert_eq!(
        (&result["success"], &result["final_variables"]["repeat_output"]),
        (&json!(true), &json!("production v1.2.3")),
        "{result}"
    );
    daemon.stop().await;
}

/// Document 000, lines 1635-1645: every condition of the table, in one object.
#[tokio::test]
async fn conditions_of_document_000_line_1637() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let mut definition = repeating_machine("conditions", "x");
    definition["states"]["repeat"]["transitions"] =
        json!([{"condition": read_with_comments(CONDITIONS), "next_state": "repeat"}]);
    let created = agent.create(&definition).await;
    assert_eq!((&created["success"], &created["validation_errors"]), (&json!(true), &json!([])), "{created}");
    daemon.stop().await;
}

/// Document 000, lines 70-90 (the files of a library), 104 (a run by name counts) and 116-121 (what a list shows).
#[tokio::test]
async fn library_of_document_000_line_70_is_listed_and_run() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let (name, created) = ("workflow1", "2025-08-03T12:00:00.123456+00:00");
    let definition = repeating_machine(name, "first");
    let metadata = json!({
        "hash": "0123456789abcdef", "created": created, "success_count": 1, "last_execution": created, "total_states": 1
    });
    let index = json!({
        "workflows": {name: {
            "file": "workflow1.json", "hash": "0123456789abcdef", "description": "Repeats a text", "created": created,
            "success_count": 1
        }},
        "created": created, "version": "1.0"
    });
    fs::create_dir(agent.library()).unwrap();
    let file = agent.library().join("workflow1.json");
    fs::write(&file, json!({"definition": definition, "metadata": metadata}).to_string()).unwrap();
    fs::write(agent.library().join("index.json"), index.to_string()).unwrap();
    let listing = agent.call_tool("LIST_WORKFLOWS", json!({})).await;
    let workflow = &listing["workflows"][0];
    let reported = (&workflow["name"], &workflow["description"], &workflow["created"], &workflow["success_count"]);
    assert_eq!(reported, (&json!(name), &json!("Repeats a text"), &json!(created), &json!(1)), "{listing}");
    assert_eq!(agent.runs(json!({"workflow_name": name})).await["success"], true);
    let stored = read(&fs::read_to_string(file).unwrap());
    assert_eq!((&stored["metadata"]["success_count"], &stored["metadata"]["created"]), (&json!(2), &json!(created)));
    // Line 77: the states of the execution.
    assert_eq!(stored["metadata"]["total_states"], 1);
    daemon.stop().await;
}

/// Document 001, lines 17-47, 430-462 and 578-655: the contract is created, its variables are set, the workflow runs in
/// the agent's terminal, and the agent reads the results.
#[tokio::test]
async fn build_of_document_001_line_580_is_checked_twice() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[("make", "#!/bin/sh\necho \"made $1 in $PWD\"\n")]).await;
    let definition = read(BUILD_PROJECT);
    let created = agent.create(&definition).await;
    let signature = json!({
        "arguments": definition["arguments"], "return_values": definition["return_values"],
        "description": definition["description"]
    });
    // Lines 1161-1172.
    assert_eq!((&created["success"], &created["workflow_name"]), (&json!(true), &json!("build_project")), "{created}");
    assert_eq!((&created["stored_file"], &created["workflow_signature"]), (&json!("build_project.json"), &signature));
    assert_eq!((&created["validation_errors"], &created["error"]), (&json!([]), &Value::Null));
    let path = agent.library().join("build_project.json");
    assert_eq!(created["path"], path.display().to_string());

    // Lines 452-462: what a list shows.
    let listing = agent.call_tool("LIST_WORKFLOWS", json!({})).await;
    let workflow = &listing["workflows"][0];
    assert_has_fields(workflow, &["name", "file", "description", "created"]);
    assert_eq!(
        (&workflow["arguments"], &workflow["return_values"]),
        (&signature["arguments"], &signature["return_values"])
    );
    assert_eq!(
        (&workflow["run_count"], &workflow["last_run"], &workflow["state_count"]),
        (&json!(0), &Value::Null, &json!(2))
    );

    // Lines 35-41 and 756-778: nothing happens while variables are missing.
    let session = agent.opens_a_terminal().await;
    let request = json!({"workflow_name": "build_project", "session_id": session});
    let refusal = agent.runs(request.clone()).await;
    assert_eq!((&refusal["success"], &refusal["states_executed"]), (&json!(false), &json!(0)));
    assert_eq!(refusal["final_state"], "validation_failed");
    assert_eq!(
        refusal["error"],
        "Missing required environment variables: PROJECT_ROOT, BUILD_TYPE. Set them with: export PROJECT_ROOT=value, export \
         BUILD_TYPE=value"
    );
    assert_eq!((&refusal["workflow_name"], &refusal["session_id"]), (&json!("build_project"), &json!(session)));
    assert_eq!(refusal["workflow_signature"], signature);
    let check = &refusal["execution_log"][0];
    assert_eq!(check["phase"], "pre_execution_validation");
    // Lines 740-745.
    let missing = |variable: &str| json!({"variable": variable, "status": "missing", "required": true});
    let result = json!({
        "valid": false, "missing_vars": ["PROJECT_ROOT", "BUILD_TYPE"],
        "validation_log": [missing("PROJECT_ROOT"), missing("BUILD_TYPE")], "validation_type": "arguments"
    });
    assert_eq!(check["validation_result"], result);

    // Lines 646-650.
    let root = agent.directory.path().join("home");
    agent.run_command(&session, &format!("export PROJECT_ROOT={} BUILD_TYPE=release", root.display())).await;
    let asks = agent.runs(request).await;
    // The condition of lines 623-625 is a description, judged by a person or an agent.
    assert_eq!((&asks["success"], &asks["status"], &asks["error"]), (&json!(false), &json!("waiting"), &Value::Null));
    let choice = "Check if build completed successfully";
    assert_eq!(asks["pending_gate"]["choices"][0], choice, "{asks}");
    assert!(asks["next_step"].as_str().unwrap().contains("decide {"), "{asks}");
    let made = json!({"session_id": session, "pattern": "made release", "since": 0});
    assert!(agent.call_tool("AWAIT_OUTPUT", made).await["match_text"].is_string());
    let answer = json!({"run_id": asks["run_id"], "answer": choice});
    assert_eq!(agent.call_tool("DECIDE", answer).await["success"], true);
    let reply = agent.call_tool("GET_RUN", json!({"run_id": asks["run_id"], "wait_seconds": 60})).await;
    assert_eq!(
        (&reply["success"], &reply["status"], &reply["error"]),
        (&json!(true), &json!("completed"), &Value::Null),
        "{reply}"
    );
    assert_eq!((&reply["states_executed"], &reply["session_id"]), (&json!(2), &json!(session)));
    assert_eq!(
        phases(&reply),
        ["pre_execution_validation", "execution", "transition", "execution", "transition", "post_execution_validation"]
    );
    let log = &reply["execution_log"];
    assert_eq!(log[0]["validation_result"]["valid"], true);
    // Lines 832-843.
    assert_has_fields(&log[1], &["state", "tool", "params", "result", "tool_success", "timestamp"]);
    // Lines 855-874.
    let transition = |entry: &Value| {
        ["from_state", "to_state", "condition_met"]
            .map(|key| entry.get(key).cloned().unwrap_or_else(|| json!("absent")))
    };
    assert_eq!(transition(&log[2]), [json!("start_build"), json!("set_results"), json!(true)]);
    assert_eq!(transition(&log[4]), [json!("set_results"), Value::Null, json!(false)]);
    assert_eq!(log[4]["message"], "No matching transition condition");
    // Lines 877-889: BUILD_TIME is not required, but set.
    let present = |variable: &str, required| json!({"variable": variable, "status": "present", "required": required});
    let result = json!({
        "valid": true, "missing_vars": [],
        "validation_log": [present("BUILD_STATUS", true), present("BUILD_OUTPUT", true), present("BUILD_TIME", false)],
        "validation_type": "return_values"
    });
    assert_eq!(log[5]["validation_result"], result);
    // Lines 652-655.
    let screen = agent.run_command(&session, "echo \"Build status: $BUILD_STATUS, in $BUILD_TIME\"").await;
    assert!(screen.contains("Build status: SUCCESS, in 45"), "{screen}");
    daemon.stop().await;
}

/// Document 001, lines 19-27 (an abridged request) and 1115-1122 (a refusal has every field).
#[tokio::test]
async fn contract_of_document_001_line_20_requires_states() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let mut definition = json!({
        "name": "build_project",
        "arguments": {"PROJECT_ROOT": "Path to project directory"},
        "return_values": {"BUILD_STATUS": "Success/failure status", "BUILD_OUTPUT": "Build logs"}
    });
    let refusal = agent.create(&definition).await;
    assert_eq!(
        (&refusal["success"], &refusal["stored_file"], &refusal["workflow_signature"]),
        (&json!(false), &json!(""), &json!({}))
    );
    let error = refusal["error"].as_str().unwrap();
    assert!(error.starts_with("Workflow definition does not match current MCP tool schema."), "{error}");
    let problems = refusal["validation_errors"].to_string();
    for missing in ["/description", "initial_state", "states"] {
        assert!(problems.contains(missing), "no {missing} in {problems}");
    }
    let complete_definition = repeating_machine("build_project", "built");
    for key in ["description", "initial_state", "states"] {
        definition[key] = complete_definition[key].clone();
    }
    let created = agent.create(&definition).await;
    let argument = json!({"name": "PROJECT_ROOT", "description": "Path to project directory", "required": true});
    assert_eq!(created["workflow_signature"]["arguments"], json!({"PROJECT_ROOT": argument}), "{created}");
    // Lines 1146-1155.
    let second_reply = agent.create(&definition).await;
    assert_eq!((&second_reply["workflow_name"], &second_reply["stored_file"]), (&json!("build_project"), &json!("")));
    assert_eq!(second_reply["workflow_signature"], json!({}));
    assert_eq!(second_reply["validation_errors"], json!(["Workflow 'build_project' already exists"]));
    assert_eq!(
        second_reply["error"],
        "Workflow 'build_project' already exists. Use overwrite_existing=true to replace."
    );
    daemon.stop().await;
}

/// Document 001, lines 1033-1101: the example of the tool's description. It omits its states `handle_error` and
/// `failure`.
#[tokio::test]
async fn example_of_document_001_line_1035_runs_with_all_states() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let mut definition = read_with_comments(WORKFLOW_IDENTIFIER);
    let refusal = agent.create(&definition).await;
    let problems = refusal["validation_errors"].to_string();
    for state in [
        "State 'start' references non-existent state 'handle_error'",
        "State 'check_result' references non-existent state 'failure'",
    ] {
        assert!(problems.contains(state), "{refusal}");
    }
    for state in ["handle_error", "failure"] {
        definition["states"][state] = json!({"action": {"tool": "list_terminal_sessions"}});
    }
    assert_eq!(agent.create(&definition).await["success"], true);
    let session = agent.opens_a_terminal().await;
    // The word that the example types is a shell function that prints nothing.
    agent.run_command(&session, "command() { echo Build complete: SUCCESS; }; export ENV_VAR_NAME=x").await;
    let result =
        agent.runs(json!({"workflow_name": "workflow_identifier", "session_id": session, "wait_seconds": 60})).await;
    assert_eq!((&result["success"], &result["final_state"]), (&json!(true), &json!("success")), "{result}");
    assert_eq!(states(&result), ["start", "check_result", "success"]);
    assert_eq!(result["return_values"], json!({"RESULT_VAR": "SUCCESS"}));
    daemon.stop().await;
}

/// Document 001, lines 436-446 (a stored file), 451-469 (the index next to it) and 511-523 (a run is counted).
#[tokio::test]
async fn library_of_document_001_line_436_is_listed_and_run() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let definition = json!({
        "name": "build_project", "description": "Build a software project", "arguments": {}, "return_values": {},
        "initial_state": "look",
        "states": {"look": {"action": {"tool": "list_terminal_sessions", "params": {}}, "transitions": []}}
    });
    let created = "2025-08-03T12:00:00.123456+00:00";
    let metadata = json!({"created": created, "run_count": 0, "last_run": null, "version": "1.0"});
    fs::create_dir(agent.library()).unwrap();
    let file = agent.library().join("build_project.json");
    fs::write(&file, json!({"definition": definition, "metadata": metadata}).to_string()).unwrap();
    fs::write(
        agent.library().join(".index.jsonl"),
        "{\"name\": \"build_project\", \"file\": \"build_project.json\"}\n",
    )
    .unwrap();
    let listing = agent.call_tool("LIST_WORKFLOWS", json!({})).await;
    assert_eq!((&listing["total"], &listing["broken"]), (&json!(1), &json!([])), "{listing}");
    assert_eq!(
        (&listing["workflows"][0]["created"], &listing["workflows"][0]["state_count"]),
        (&json!(created), &json!(1))
    );
    let described = agent.call_tool("DESCRIBE_WORKFLOW", json!({"name": "build_project"})).await;
    assert_eq!((&described["definition"], &described["metadata"]["version"]), (&definition, &json!(1)), "{described}");
    assert_eq!(agent.runs(json!({"workflow_name": "build_project"})).await["success"], true);
    let stored = read(&fs::read_to_string(file).unwrap());
    assert_eq!((&stored["metadata"]["run_count"], &stored["metadata"]["version"]), (&json!(1), &json!("1.0")));
    daemon.stop().await;
}

/// Document 001, lines 1216-1241: the reply to an invalid request has every field, and its error begins with these
/// words.
#[tokio::test]
async fn invalid_request_is_answered_as_in_document_001_line_1217() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    assert_eq!(agent.create(&repeating_machine("there", "x")).await["success"], true);
    let missing = agent.runs(json!({"workflow_name": "nothing", "session_id": "current_session"})).await;
    let fields = ["success", "workflow_name", "session_id", "final_state", "states_executed", "workflow_signature"];
    let reported = fields.map(|field| missing[field].clone());
    let expected =
        [json!(false), json!("nothing"), json!("current_session"), json!("workflow_not_found"), json!(0), json!({})];
    assert_eq!(reported, expected, "{missing}");
    assert_eq!((&missing["execution_log"], &missing["available_workflows"]), (&json!([]), &json!(["there"])));
    assert_eq!(missing["error"], "Workflow 'nothing' not found. Available workflows: there");

    let invalid = json!({"definition": {"name": "inv", "initial_state": "a", "states": {}}, "metadata": {}});
    fs::write(agent.library().join("inv.json"), invalid.to_string()).unwrap();
    let refusal = agent.runs(json!({"workflow_name": "inv", "session_id": "current_session"})).await;
    let reported = fields.map(|field| refusal[field].clone());
    let expected =
        [json!(false), json!("inv"), json!("current_session"), json!("definition_invalid"), json!(0), json!({})];
    assert_eq!(reported, expected, "{refusal}");
    let error = refusal["error"].as_str().unwrap();
    assert!(error.starts_with("Workflow definition validation failed: the workflow 'inv' is not valid:\n"), "{error}");
    daemon.stop().await;
}

/// Document 000, lines 877-885: a run whose definition cannot be saved has succeeded, and gives the reason.
#[tokio::test]
async fn unwritable_library_is_reported_as_in_document_000_line_885() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    fs::write(agent.library(), "a file in place of the directory").unwrap();
    let result = agent.runs(json!({"workflow_definition": repeating_machine("unsaved", "x")})).await;
    assert_eq!(
        (&result["success"], &result["status"], &result["workflow_saved"]),
        (&json!(true), &json!("completed"), &json!(false))
    );
    assert_eq!((&result["saved_workflow_name"], &result["available_workflows"]), (&Value::Null, &json!([])));
    let error = result["error"].as_str().unwrap();
    assert!(error.starts_with("Workflow succeeded but saving failed: "), "{error}");
    assert!(error.contains("library"), "{error}");
    // The next daemon has the reason too.
    let inspected = agent.call_tool("GET_RUN", json!({"run_id": result["run_id"]})).await;
    assert_eq!(inspected["error"], result["error"]);
    daemon.stop().await;
}

/// Document 000, lines 184 and 495, and document 001, lines 680 and 900: `success` shows that a run has completed. All
/// other replies name the next step.
#[tokio::test]
async fn only_completion_is_a_success_as_in_document_000_line_184() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let machine = |action: Value| json!({"initial_state": "only", "states": {"only": {"action": action}}});
    let start = |definition: Value, wait: f64| json!({"workflow_definition": definition, "save_on_success": false, "wait_seconds": wait});
    let nap = machine(json!({"tool": "sleep", "params": {"seconds": 60}}));
    let summarize = |reply: &Value| {
        let step = reply.get("next_step").map(|step| step.as_str().unwrap().to_owned()).unwrap_or_default();
        ((reply["success"].clone(), reply["status"].as_str().unwrap().to_owned()), step)
    };
    let running = agent.runs(start(nap.clone(), 0.0)).await;
    let (state, step) = summarize(&running);
    assert_eq!(state, (json!(false), "running".to_owned()), "{running}");
    let wait = format!("get_run {{\"run_id\": {}, \"wait_seconds\": 20}}", running["run_id"]);
    assert_eq!(step, format!("The run continues without you. Wait for its end with {wait}."));

    assert_eq!(agent.call_tool("PAUSE_WORKFLOW", json!({"run_id": running["run_id"]})).await["success"], true);
    let (state, step) = summarize(&agent.call_tool("GET_RUN", json!({"run_id": running["run_id"]})).await);
    assert_eq!(state, (json!(false), "running".to_owned()));
    let resume = format!("steplatch runs resume {}", running["run_id"].as_str().unwrap());
    assert!(step.starts_with("The run is paused by agent.") && step.contains(&resume), "{step}");

    assert_eq!(agent.call_tool("CANCEL_WORKFLOW", json!({"run_id": running["run_id"]})).await["success"], true);
    let (state, step) = summarize(&agent.call_tool("GET_RUN", json!({"run_id": running["run_id"]})).await);
    assert_eq!(
        (state, step.as_str()),
        (
            (json!(false), "cancelled".to_owned()),
            "The run was cancelled. Start it again with run_workflow if it is still wanted."
        )
    );

    for (answered_by, expected) in [("human", "steplatch gates answer run_"), ("agent", "decide {")] {
        let gate =
            json!({"tool": "gate", "params": {"prompt": "Go on?", "choices": ["yes"], "answered_by": answered_by}});
        let (state, step) = summarize(&agent.runs(start(machine(gate), 20.0)).await);
        assert_eq!(state, (json!(false), "waiting".to_owned()));
        assert!(step.contains(expected) && step.contains("get_run {"), "{step}");
    }
    let failed = agent.runs(start(machine(json!({"tool": "fail", "params": {"message": "no"}})), 20.0)).await;
    assert_eq!(summarize(&failed), ((json!(false), "failed".to_owned()), String::new()));
    let completed = agent.runs(start(machine(json!({"tool": "sleep", "params": {"seconds": 0}})), 20.0)).await;
    assert_eq!(summarize(&completed), ((json!(true), "completed".to_owned()), String::new()));
    assert_eq!((&completed["saved_workflow_name"], &completed["available_workflows"]), (&Value::Null, &json!([])));
    daemon.stop().await;
}

/// Document 001, lines 1345-1352.
#[tokio::test]
async fn schema_has_the_fields_of_document_001_line_1347() {
    let daemon = TestDaemon::new().await;
    let agent = Agent::connect(&daemon, &[]).await;
    let schema = agent.call_tool("GET_WORKFLOW_SCHEMA", json!({})).await;
    assert_has_fields(&schema, &["json_schema", "documentation", "available_tools", "schema_version"]);
    // Lines 88-95: no session is required, and defaults are shown.
    let page = schema["documentation"].as_str().unwrap();
    assert!(!page.contains("`session_id` | string, required"), "a machine has its session injected");
    assert!(page.contains("| `timeout` | number | Maximum wait in seconds (0.0 to 3600.0; default 10.0) |"), "{page}");
    daemon.stop().await;
}
