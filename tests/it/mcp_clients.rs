//! Third-party MCP clients against the real program.
//!
//! The scripts in `clients` contain the steps and the expectations; this file provides the program, its own daemon, and
//! an empty home.

use serde_json::Value;
use steplatch_testkit::Home;

use crate::clients;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn run_story(client: &str, script: &str, arguments: &[&str]) {
    let home = Home::new(STEPLATCH);
    clients::run_client_script(&home, client, script, &[arguments, &[STEPLATCH, "mcp"]].concat());
}

#[test]
fn current_client_drives_a_terminal() {
    run_story("mcp-2", "modern.py", &["auto"]);
}

#[test]
fn current_client_with_handshake_drives_a_terminal() {
    run_story("mcp-2", "modern.py", &["legacy"]);
}

#[test]
fn current_client_asks_its_person() {
    run_story("mcp-2", "people.py", &["auto"]);
}

#[test]
fn current_client_with_handshake_asks_its_person() {
    run_story("mcp-2", "people.py", &["legacy"]);
}

#[test]
fn current_client_reads_resources_and_prompts() {
    run_story("mcp-2", "offers.py", &["auto"]);
}

#[test]
fn current_client_with_handshake_reads_resources_and_prompts() {
    run_story("mcp-2", "offers.py", &["legacy"]);
}

#[test]
fn earlier_client_drives_a_terminal() {
    run_story("mcp-1", "legacy.py", &[]);
}

#[test]
fn server_ends_with_its_input_and_writes_only_the_protocol() {
    run_story("mcp-2", "raw.py", &[]);
}

#[test]
fn inspector_has_no_complaints_in_either_era() {
    let home = Home::new(STEPLATCH);
    for era in ["modern", "legacy"] {
        let inspect = |request: &[&str]| clients::inspect_server(&home, &[STEPLATCH, "mcp"], era, request);
        let tools = inspect(&["--method", "tools/list", "--strict"]);
        let is_run_workflow = |tool: &&Value| tool["name"] == "run_workflow";
        assert_eq!(tools["tools"].as_array().unwrap().iter().filter(is_run_workflow).count(), 1);
        let reply = inspect(&["--method", "tools/call", "--tool-name", "list_terminal_sessions"]);
        assert_eq!(reply["structuredContent"]["total_sessions"], 0, "{reply}");
        let templates = inspect(&["--method", "resources/templates/list"]);
        assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 5);
        let resources = inspect(&["--method", "resources/list"]);
        let uris: Vec<&Value> =
            resources["resources"].as_array().unwrap().iter().map(|resource| &resource["uri"]).collect();
        assert_eq!(uris, ["skill://steplatch/SKILL.md"], "{resources}");
        assert_eq!(inspect(&["--method", "prompts/list"])["prompts"].as_array().unwrap().len(), 2);
        let prompt = ["--method", "prompts/get", "--prompt-name", "author_workflow", "--prompt-args", "goal=Release"];
        assert!(inspect(&prompt)["messages"][0]["content"]["text"].as_str().unwrap().contains("Release"));
    }
}
