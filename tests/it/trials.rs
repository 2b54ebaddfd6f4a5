//! Workflows written by their authors from the agents' documentation alone, and run by an agent.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const LINT: &str = include_str!("trials/lint.py");
const PUBLISH: &str = include_str!("trials/publish.py");
const LOGIN: &str = include_str!("../../crates/daemon/tests/it/trials/login.json");

/// Creates a home with the workflows' data, and an agent.
fn set_up() -> (Home, Agent) {
    let home = Home::new(STEPLATCH);
    let script = "mkdir src && printf 'ok \\n' > src/a && echo A title > title && echo body > body";
    assert!(Command::new("sh").arg("-c").arg(script).current_dir(home.path()).status().unwrap().success());
    let agent = Agent::new(&home);
    (home, agent)
}

fn start_function(home: &Home, agent: &Agent, name: &str, text: &str, directory: &str) -> Value {
    let file = home.path().join(format!("{name}.py"));
    fs::write(&file, text).unwrap();
    let directory = home.path().join(directory).display().to_string();
    let arguments = json!({"workflow_file": file, "workflow_name": name, "initial_variables": {"DIR": directory}});
    agent.call_tool("run_workflow", arguments)
}

/// Waits for the end of a run.
fn wait_for_run(agent: &Agent, run: &Value) -> Value {
    agent.call_tool("get_run", json!({"run_id": run["run_id"], "wait_seconds": 60}))
}

#[test]
fn linters_run_in_parallel_and_are_summed_up() {
    let (home, agent) = set_up();
    let started_run = start_function(&home, &agent, "lint", LINT, "src");
    let outcome = wait_for_run(&agent, &started_run);
    assert_eq!(outcome["result"], json!({"checked": 3, "failed": ["spaces"]}), "{outcome:#}");
}

#[test]
fn function_asks_with_a_form_and_abandons_a_call() {
    let (home, agent) = set_up();
    let waiting = start_function(&home, &agent, "publish", PUBLISH, ".");
    assert_eq!(waiting["status"], "waiting", "{waiting:#}");
    let reply = agent.call_tool("decide", json!({"run_id": waiting["run_id"], "form": {"copies": 2}}));
    assert_eq!(reply["success"], true, "{reply:#}");
    let outcome = wait_for_run(&agent, &waiting);
    let result = json!({"title": "A title", "copies": 2, "slow": "timed out", "letters": 4});
    assert_eq!(outcome["result"], result, "{outcome:#}");
}

#[test]
fn agent_logs_in_and_receives_output_without_the_password() {
    let (home, agent) = set_up();
    let ssh = home.path().join("ssh");
    let script = "printf 'password: '; stty -echo; read p; stty echo; echo
        while printf 'remote$ ' && read c; do test \"$c\" = uptime && echo 'load average: 0.42, 0.1'; done";
    fs::write(&ssh, script).unwrap();
    let definition: Value = serde_json::from_str(LOGIN).unwrap();
    let variables = json!({"SSH": "sh", "HOST": ssh, "PW": "hunter2-and-more"});
    let started_run =
        agent.call_tool("run_workflow", json!({"workflow_definition": definition, "initial_variables": variables}));
    let outcome = wait_for_run(&agent, &started_run);
    assert_eq!(
        (&outcome["status"], &outcome["return_values"]["LOAD"]),
        (&json!("completed"), &json!("0.42")),
        "{outcome:#}"
    );
    assert!(!outcome.to_string().contains("hunter2"));
    let events = home.run(&["runs", "events", outcome["run_id"].as_str().unwrap()]).expect_success();
    assert!(events.contains("question_answered") && events.contains("(secret)"), "{events}");
}

#[test]
fn recorded_run_is_rehearsed_with_its_external_inputs() {
    let home = Home::new(STEPLATCH);
    let machine = json!({"name": "tries", "arguments": {"DIR": "where"}, "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "run_command", "params": {"command": "echo x >> {DIR|sh}/tries; test $(wc -l < {DIR|sh}/tries) -ge 2"}},
                "transitions": [{"condition": "success", "next_state": "talk"}, {"condition": "failure", "next_state": "ask"}]},
        "talk": {"action": {"tool": "dialogue", "params": {"session_id": "{session_id}", "input_text": "read -p 'ok? ' a; echo got $a\n",
                 "rules": [{"when": "ok\\? $", "type": "yes\n"}], "until": "got (\\w+)"}},
                 "transitions": [{"condition": "success", "next_state": "done"}]},
        "done": {"action": {"tool": "return", "params": {"result": "{talk_groups.1}"}}}}});
    fs::write(home.path().join("tries.json"), machine.to_string()).unwrap();
    let terminal = home.run(&["terminal", "open", "--json"]).json();
    let directory = format!("DIR={}", home.path().display());
    let session = terminal["session_id"].as_str().unwrap();
    let run = home.run(&["run", "./tries.json", "-i", &directory, "--session", session, "--json"]).json();
    assert_eq!((&run["status"], &run["result"]), (&json!("completed"), &json!("yes")), "{run:#}");
    let id = run["run_id"].as_str().unwrap();
    let rehearsal = home.run(&["workflow", "test", "tries.json", "--from", id, "--json"]).json();
    assert_eq!(
        (&rehearsal["end"]["status"], &rehearsal["states_executed"]),
        (&json!("completed"), &json!(4)),
        "{rehearsal:#}"
    );
    assert_eq!(rehearsal["left_over"], json!([]), "{rehearsal:#}");
    let stubs = home.run(&["workflow", "test", "tries.json", "--from", id, "--print-stubs"]).json();
    assert_eq!(stubs["states"]["ask"].as_array().map(Vec::len), Some(2), "{stubs:#}");
    fs::write(home.path().join("stubs.json"), stubs.to_string()).unwrap();
    home.run(&["workflow", "test", "tries.json", "--stub", "stubs.json", "-i", &directory]).expect_success();
}

#[test]
fn agent_rehearses_a_machine_without_running_anything() {
    let (home, agent) = set_up();
    let definition: Value = serde_json::from_str(LOGIN).unwrap();
    let variables = json!({"SSH": "ssh", "HOST": "box", "PW": "hunter2-and-more"});
    let rehearse = |stubs: Value| {
        let arguments = json!({"workflow_definition": definition, "initial_variables": variables, "rehearse": stubs, "detail": "full"});
        agent.begin("run_workflow", arguments).answer()
    };
    let rehearsal = rehearse(json!({
        "states": {"login": {"prints": ["Continue (yes/no)?"]}, "enter": {"prints": ["password:", "remote$ "]},
                   "read": {"match_text": "load average: 0.5"}},
        "gates": {"trust": "yes"}
    }));
    let report = rehearsal["result"]["structuredContent"].clone();
    assert_eq!(
        (&report["status"], &report["return_values"]["LOAD"]),
        (&json!("completed"), &json!("0.5")),
        "{rehearsal:#}"
    );
    assert!(!rehearsal.to_string().contains("hunter2"), "{rehearsal:#}");
    let incomplete = rehearse(json!({"states": {"login": {"prints": ["Continue (yes/no)?"]}}})).to_string();
    assert!(incomplete.contains("the rehearsal needs more") && incomplete.contains("trust"), "{incomplete}");
    let misspelt = rehearse(json!({"states": {"logon": "timeout"}})).to_string();
    assert!(misspelt.contains("did you mean 'login'?"), "{misspelt}");
    assert_eq!(home.run(&["runs", "list", "--json"]).json()["runs"], json!([]));
}
