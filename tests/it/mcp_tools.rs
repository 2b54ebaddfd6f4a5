//! Lists of tools and forms of replies by client, and workflows that become tools while clients are connected.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::Digest as _;
use steplatch_daemon::Configuration;
use steplatch_mcp::{HttpOptions, http_service};
use steplatch_protocol::{Hello, ReconnectingClient, Starter};
use steplatch_testkit::{Agent, Era, Home, TestDaemon};

use crate::clients;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Runs the story with a client of this mode, against a daemon whose proven workflows are tools.
async fn run_story(mode: &'static str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap().to_owned();
    let configuration = Configuration { library_tools: true, ..Configuration::default() };
    let daemon = TestDaemon::configured(directory, configuration).await;
    let environment = [("HOME", path.clone()), ("PATH", std::env::var("PATH").unwrap())];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    let hello = Hello {
        client: "http".to_owned(),
        cwd: Some(path),
        environment: Some(BTreeMap::from(environment)),
        ..Hello::default()
    };
    let reconnecting_client =
        ReconnectingClient::new(daemon.paths().clone(), Starter { program: PathBuf::from("/bin/false") }, hello);

    let options = HttpOptions::default();
    let shutdown_token = options.shutdown.clone();
    let shutdown = shutdown_token.clone().cancelled_owned();
    let router = axum::Router::new().nest_service("/mcp", http_service(reconnecting_client, options));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server_task = tokio::spawn(async move { axum::serve(listener, router).with_graceful_shutdown(shutdown).await });
    let client = move || clients::run_client_script(&Home::new(STEPLATCH), "mcp-2", "tools.py", &[mode, &url]);
    tokio::task::spawn_blocking(client).await.unwrap();
    shutdown_token.cancel();
    server_task.await.unwrap().unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn current_client_learns_of_changed_tools_and_calls_them() {
    run_story("auto").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn current_client_with_handshake_learns_of_changed_tools() {
    run_story("legacy").await;
}

/// Returns the names of the tools that a client is offered.
fn listed_tools(agent: &Agent) -> Vec<String> {
    let list = agent.send_request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Calls a tool and returns the only text of the result, and its error flag.
fn call_for_text(agent: &Agent, tool: &str, arguments: Value) -> (String, bool) {
    let answer = agent.begin(tool, arguments).answer();
    let result = &answer["result"];
    let content = result["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(content.len(), 1, "{answer}");
    assert!(result.get("structuredContent").is_none(), "{answer}");
    (content[0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
}

#[test]
fn list_is_the_core_unless_the_client_loads_tools_on_demand() {
    let mut home = Home::new(STEPLATCH);
    for (era, name, is_core) in [
        (Era::Handshake, "claude-code", false),
        (Era::Stateless, "claude-code", false),
        (Era::Stateless, "copilot-cli", false),
        (Era::Handshake, "codex-mcp-client", true),
        (Era::Handshake, "gemini-cli-mcp-client", true),
        (Era::Handshake, "opencode", true),
        (Era::Handshake, "anything else", true),
    ] {
        let tools = listed_tools(&Agent::with_name(era, &home, name));
        assert_eq!(tools.contains(&"more_tools".to_owned()), is_core, "{name}: {tools:?}");
        assert_eq!(tools.contains(&"decide".to_owned()), !is_core, "{name}: {tools:?}");
        assert!(tools.contains(&"send_input".to_owned()) && tools.is_sorted(), "{name}: {tools:?}");
    }
    home.run(&["daemon", "stop"]).expect_success();
    home.set("STEPLATCH_MCP_TOOLS", "full");
    assert!(listed_tools(&Agent::with_name(Era::Handshake, &home, "opencode")).contains(&"decide".to_owned()));
    home.run(&["daemon", "stop"]).expect_success();
    home.set("STEPLATCH_MCP_TOOLS", "core");
    assert!(!listed_tools(&Agent::with_name(Era::Handshake, &home, "claude-code")).contains(&"decide".to_owned()));
}

#[test]
fn more_tools_lists_describes_and_calls_the_others() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let (list, is_error) = call_for_text(&agent, "more_tools", json!({}));
    assert!(
        !is_error && list.contains("decide: Answer a run's pending_gate") && !list.contains("send_input:"),
        "{list}"
    );
    let (description, _) = call_for_text(&agent, "more_tools", json!({"tool": "run_workflow"}));
    let description: Value = serde_json::from_str(&description).unwrap();
    assert!(description["arguments"]["properties"]["engine"].is_object(), "{description}");

    let file = home.path().join("note.txt");
    let put = json!({"path": file, "content": "hello"});
    let reply = agent.call_tool("more_tools", json!({"tool": "put_file", "arguments": put}));
    assert_eq!((&reply["success"], std::fs::read_to_string(&file).unwrap().as_str()), (&json!(true), "hello"));
    // `more_tools` also calls listed tools. An unlisted tool is also callable under its own name.
    let run = json!({"tool": "run_command", "arguments": {"command": "echo hi"}});
    assert_eq!(agent.call_tool("more_tools", run)["output"], "hi\n");
    assert_eq!(agent.call_tool("get_file", json!({"path": file}))["content"], "hello");
    for (arguments, part) in [
        (json!({"tool": "decyde", "arguments": {}}), "there is no tool 'decyde'; there are cancel_run, "),
        (json!({"tool": "more_tools", "arguments": {}}), "there is no tool 'more_tools'"),
        (json!({"tool": "get_file", "path": "x"}), "put it into arguments"),
    ] {
        let (error, is_error) = call_for_text(&agent, "more_tools", arguments);
        assert!(is_error && error.contains(part), "{error}");
    }
}

#[test]
fn known_client_receives_one_short_text() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::with_name(Era::Handshake, &home, "claude-code");
    let list = agent.send_request("tools/list", json!({}));
    assert!(!list.to_string().contains("outputSchema"), "a schema would require structured content");
    let (text, _) = call_for_text(&agent, "run_command", json!({"command": "printf 'one\\ntwo\\n'"}));
    assert_eq!(text, "{\"exit_code\":0}\none\ntwo\n");
    let (text, _) = call_for_text(&agent, "run_command", json!({"command": "(exit 3)"}));
    assert_eq!(text, "{\"exit_code\":3}\n");
    let (opened, _) = call_for_text(&agent, "open_terminal", json!({"shell": "sh", "environment": {"PS1": "% "}}));
    let opened: Value = serde_json::from_str(opened.lines().next().unwrap()).unwrap();
    let input = json!({"session_id": opened["session_id"], "input_text": "echo hi\n", "until": "prompt"});
    let (text, _) = call_for_text(&agent, "send_input", input);
    assert_eq!(text, "{\"waited\":\"input\"}\necho hi\nhi\n%");
    let (error, is_error) = call_for_text(&agent, "get_screen_content", json!({"session_id": "term_none"}));
    assert!(is_error && error.starts_with("Session 'term_none' not found"), "{error}");
    // Full replies: for `detail: "full"`, and for unknown clients.
    let machine = json!({"name": "empty", "initial_state": "a", "states": {"a": {"action": {"tool": "sleep", "params": {"seconds": 0}}}}});
    let run = json!({"workflow_definition": machine, "save_on_success": false, "detail": "full"});
    let reply = agent.call_tool("run_workflow", run.clone());
    assert!(reply["states_executed"].is_number() && reply["success"].is_boolean(), "{reply}");
    let reply = Agent::new(&home).call_tool("run_command", json!({"command": "true"}));
    assert_eq!((&reply["success"], &reply["timed_out"]), (&json!(true), &json!(false)), "{reply}");
}

#[test]
fn proven_workflow_is_a_skill_whose_files_have_their_digests() {
    let mut home = Home::new(STEPLATCH);
    let agent = Agent::with_era(Era::Stateless, &home);
    let skills = |agent: &Agent| agent.send_request("skills/list", json!({}))["result"]["skills"].clone();
    assert_eq!(skills(&agent).as_array().unwrap().len(), 1);
    let machine = json!({"name": "Say_Hello", "description": "Says hello", "arguments": {"WHO": "A name"}, "initial_state": "say",
        "states": {"say": {"action": {"tool": "run_command", "params": {"command": "echo hello {WHO}"}}}}});
    let run = json!({"workflow_definition": machine, "initial_variables": {"WHO": "ana"}, "wait_seconds": 60});
    assert_eq!(agent.call_tool("run_workflow", run)["status"], "completed");
    let listed = skills(&agent);
    let skill = &listed.as_array().unwrap()[1];
    assert_eq!(skill["uri"], "skill://say-hello/SKILL.md", "{listed:#}");
    let description = skill["frontmatter"]["description"].as_str().unwrap();
    assert!(description.starts_with("Says hello. Runs the proven workflow Say_Hello"), "{description}");
    for file in skill["resources"].as_array().unwrap() {
        let read = agent.send_request("resources/read", json!({"uri": file["uri"]}));
        let text = read["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        let digest = sha2::Sha256::digest(text.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file["digest"], format!("sha256:{digest}"), "{file}");
        assert_eq!(file["size"], text.len(), "{file}");
    }
    let got = agent.send_request("skills/get", json!({"uri": skill["uri"]}));
    assert_eq!(&got["result"]["skill"], skill);
    // Offered as a tool of its own, the workflow is also called through more_tools.
    let tool = json!({"tool": "workflow_say_hello", "arguments": {"WHO": "bo"}});
    let (error, is_error) = call_for_text(&agent, "more_tools", tool.clone());
    assert!(is_error && error.contains("there is no tool 'workflow_say_hello'"), "{error}");
    let gone = agent.send_request("skills/get", json!({"uri": "skill://nothing/SKILL.md"}));
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    drop(agent);
    home.run(&["daemon", "stop"]).expect_success();
    home.set("STEPLATCH_TOOLS_LIBRARY", "true");
    let reply = Agent::with_era(Era::Stateless, &home).call_tool("more_tools", tool);
    assert_eq!(reply["status"], "completed", "{reply}");
}
