//! Commands that only read, by the list in the settings.

use std::fs;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn home_with_list(list: &str) -> Home {
    let home = Home::new(STEPLATCH);
    let directory = home.path().join(".config/steplatch");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), format!("[mcp]\nread_commands = {}\n", Value::from(list))).unwrap();
    fs::write(home.path().join("a b"), "hello\n").unwrap();
    home
}

fn listed(agent: &Agent) -> Option<Value> {
    let list = agent.send_request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap().clone();
    tools.into_iter().find(|tool| tool["name"] == "read_command")
}

#[test]
fn listed_command_runs_without_a_shell_and_others_do_not() {
    let home = home_with_list("cat **; sleep *; printf *; seq *; ls; sh late");
    let agent = Agent::new(&home);
    let tool = listed(&agent).unwrap();
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert_eq!(tool["annotations"]["destructiveHint"], false);
    assert!(tool["description"].as_str().unwrap().ends_with("cat **; sleep *; printf *; seq *; ls; sh late"), "{tool}");
    let run = |arguments: Value| agent.begin("read_command", arguments).answer()["result"].clone();
    let read = |command: Value| run(json!({"command": command, "working_directory": home.path()}));

    let reply = read(json!(["cat", "a b"]));
    assert_eq!(reply["structuredContent"]["output"], "hello\n", "{reply}");
    assert_eq!(reply["structuredContent"]["exit_code"], 0);
    let reply = read(json!(["cat", "$(touch made)", "; touch made"]))["structuredContent"].clone();
    assert_eq!((&reply["success"], &reply["exit_code"]), (&json!(true), &json!(1)), "{reply}");
    assert!(reply["error_output"].as_str().unwrap().contains("$(touch made)"), "{reply}");
    assert!(!home.path().join("made").exists());
    // The standard input is empty.
    assert_eq!(read(json!(["cat"]))["structuredContent"]["output"], "");

    for command in [json!(["touch", "made"]), json!(["cat", "-n", "a b"]), json!(["ls", "made"]), json!([])] {
        let reply = read(command.clone());
        assert_eq!(reply["isError"], true, "{command}: {reply}");
        assert!(reply.to_string().contains("not on the user's list and was not run"), "{command}: {reply}");
    }
    // A process in the background prints after the end of the command: all of it, or an error.
    let script = home.path().join("late");
    fs::write(&script, "(sleep 0.7; echo late) & exit 0\n").unwrap();
    assert_eq!(read(json!(["sh", "late"]))["structuredContent"]["output"], "late\n");
    let reply = run(json!({"command": ["sh", "late"], "working_directory": home.path(), "timeout": 0.2}));
    assert!(reply["isError"] == true && reply.to_string().contains("did not end within 0.2 s"), "{reply}");
    let reply = run(json!({"command": ["sleep", "600"], "timeout": 0.2}));
    assert!(reply.to_string().contains("did not end within 0.2 s"), "{reply}");
    let reply = read(json!(["seq", "9999"]))["structuredContent"].clone();
    let (output, omitted) = (reply["output"].as_str().unwrap(), reply["omitted_bytes"].as_u64().unwrap());
    let whole: String = (1..=9999).map(|number| format!("{number}\n")).collect();
    assert!(whole.starts_with(output) && whole.len() as u64 == output.len() as u64 + omitted, "{reply}");
    let reply = read(json!(["seq", "99999999"]));
    assert!(reply["isError"] == true && reply.to_string().contains("printed more than 4 MB"), "{reply}");
}

#[test]
fn tool_is_offered_only_with_a_list() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    assert_eq!(listed(&agent), None);
    let reply = agent.begin("read_command", json!({"command": ["ls"]})).answer();
    assert!(reply["result"].to_string().contains("no command is on the list"), "{reply}");
    let home = home_with_list("git ** log");
    let failed = home.run(&["daemon", "start"]);
    assert!(failed.stderr.contains("mcp.read_commands") && failed.stderr.contains("'git ** log'"), "{failed:?}");
}
