//! Reruns of finished runs, entirely or starting at a state.

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, Person};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Writes and returns a state machine that logs a line for each command and ships once there is a route.
fn write_release_workflow(home: &Home) -> Value {
    let path = |name: &str| home.path().join(name).display().to_string();
    let state = |command: String, next: Option<&str>| {
        let transitions = next.map_or_else(|| json!([]), |next| json!([{"condition": "success", "next_state": next}]));
        json!({"action": {"tool": "run_command", "params": {"command": command}}, "transitions": transitions})
    };
    let log = path("log");
    let document = json!({"name": "release", "description": "Builds and ships", "initial_state": "build",
    "arguments": {"VERSION": {"description": "Version to release"}},
    "states": {
        "build": state(format!("echo build {{VERSION}} >> {log}; echo artifact-{{VERSION}}"), Some("ship")),
        "ship": state(format!("echo ship {{build_output}} >> {log}; test -e {}", path("route")), None),
    }});
    std::fs::write(path("release.json"), document.to_string()).unwrap();
    document
}

fn read_log(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn failed_run_restarts_at_the_failed_state() {
    let home = Home::new(STEPLATCH);
    write_release_workflow(&home);
    let failed_run = home.run(&["run", "release.json", "-i", "VERSION=7", "--json"]);
    let failed_run = parse_json(&failed_run.stdout);
    assert_eq!(failed_run["status"], "failed", "{failed_run}");
    let run = failed_run["run_id"].as_str().unwrap();
    std::fs::write(home.path().join("route"), "").unwrap();
    let output = home.run(&["run", "--again", run, "--from", "ship"]);
    assert!(output.stderr.contains(&format!("the steps before 'ship' are taken over from {run}")), "{output:?}");
    let rerun = parse_json(&home.run(&["run", "--again", run, "--from", "ship", "--json"]).expect_success());
    assert_eq!(rerun["status"], "completed", "{rerun}");
    assert_eq!(read_log(&home), ["build 7", "ship artifact-7", "ship artifact-7", "ship artifact-7"]);
    let record = home.run(&["runs", "show", rerun["run_id"].as_str().unwrap()]).expect_success();
    assert!(record.contains(&format!("{run} from ship")), "{record}");
    // The views mark the step that the earlier run performed.
    let has_line = |text: &str, state: &str, is_end: bool| {
        let mut lines = text.lines().filter(|line| line.contains(state) && line.contains("taken over") == is_end);
        lines.next().is_some()
    };
    let events = home.run(&["runs", "events", rerun["run_id"].as_str().unwrap()]).expect_success();
    for text in [&record, &events] {
        assert!(has_line(text, "build", true) && has_line(text, "ship ", false), "{text}");
    }
    assert_eq!(record.matches("taken over").count(), 1, "{record}");
    let entries = rerun["execution_log"].as_array().unwrap();
    let is_taken_over = |entry: &&Value| entry["taken_over"] == true;
    let states: Vec<&str> = entries.iter().filter(is_taken_over).filter_map(|entry| entry["state"].as_str()).collect();
    assert!(!states.is_empty() && states.iter().all(|state| *state == "build"), "{rerun}");
    // The whole run with its input, with another definition, and by name.
    home.run(&["workflow", "load", "release.json"]).expect_success();
    home.run(&["run", "--again", run, "release", "--json"]).expect_success();
    assert_eq!(read_log(&home)[4..], ["build 7", "ship artifact-7"]);
    // Another version makes another run.
    home.run(&["run", "--again", run, "-i", "VERSION=8", "--json"]).expect_success();
    assert_eq!(read_log(&home)[6..], ["build 8", "ship artifact-8"]);
}

#[test]
fn refused_rerun_names_the_next_step() {
    let home = Home::new(STEPLATCH);
    let document = write_release_workflow(&home);
    let agent = Agent::new(&home);
    let run_workflow = |arguments: Value| agent.call_tool("run_workflow", arguments);
    let failed_run = run_workflow(
        json!({"workflow_definition": document, "initial_variables": {"VERSION": "7"}, "wait_seconds": 60}),
    );
    let run = failed_run["run_id"].clone();
    let before = read_log(&home);
    let rerun_of = |fields: Value| {
        let mut rerun = json!({"run_id": run});
        rerun.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        rerun
    };
    let mut changed_document = document.clone();
    changed_document["states"]["build"]["action"]["params"]["command"] = "true".into();
    let mut destructive = document.clone();
    destructive["states"]["ship"]["action"]["params"]["command"] = "rm -rf /nonexistent-steplatch-test".into();
    for (arguments, expected) in [
        (json!({"again": rerun_of(json!({"from_state": "shop"}))}), "it entered: build, ship"),
        (
            json!({"again": rerun_of(json!({"from_state": "ship"})), "initial_variables": {"VERSION": "8"}}),
            "without from_state",
        ),
        (
            json!({"again": rerun_of(json!({"from_state": "ship"})), "workflow_definition": changed_document}),
            "'build' came before 'ship' and has changed",
        ),
        (
            json!({"again": rerun_of(json!({"from_state": "ship"})), "workflow_definition": destructive}),
            "repeat_irreversible",
        ),
        (json!({"again": {"run_id": "run_0000000000000000"}}), "not found"),
    ] {
        let reply = run_workflow(arguments.clone());
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(reply["success"] == false && error.contains(expected), "{arguments}: {reply}");
    }
    assert_eq!(read_log(&home), before, "no command was run");
}

#[test]
fn rerun_cannot_start_after_an_answer_or_in_a_closed_terminal() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let run_workflow = |arguments: Value| agent.call_tool("run_workflow", arguments);
    let transitions_to = |next: &str| json!([{"condition": "success", "next_state": next}]);
    let failed_run = run_workflow(
        json!({"wait_seconds": 60, "workflow_definition": {"name": "typed", "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": transitions_to("fails")},
        "fails": {"action": {"tool": "run_command", "params": {"command": "false"}}}}}}),
    );
    let reply = run_workflow(json!({"again": {"run_id": failed_run["run_id"], "from_state": "fails"}}));
    assert!(reply["error"].as_str().unwrap_or_default().contains("begin at 'open' or before it"), "{reply}");
    let waiting = run_workflow(
        json!({"wait_seconds": 60, "workflow_definition": {"name": "asks", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Ship?", "choices": ["yes", "no"], "answered_by": "human"}}, "transitions": transitions_to("fails")},
        "fails": {"action": {"tool": "run_command", "params": {"command": "false"}}}}}}),
    );
    let refusal = run_workflow(json!({"again": {"run_id": waiting["run_id"], "from_state": "ask"}}));
    assert!(refusal["error"].as_str().unwrap_or_default().contains("has not finished"), "{refusal}");
    home.run(&["gates", "answer", waiting["run_id"].as_str().unwrap(), "yes"]).expect_success();
    drop(agent.call_tool("get_run", json!({"run_id": waiting["run_id"], "wait_seconds": 60})));
    let reply = run_workflow(json!({"again": {"run_id": waiting["run_id"], "from_state": "fails"}}));
    assert!(reply["error"].as_str().unwrap_or_default().contains("begin at 'ask'"), "{reply}");
    let rerun = run_workflow(json!({"again": {"run_id": waiting["run_id"], "from_state": "ask"}, "wait_seconds": 60}));
    assert_eq!(rerun["status"], "waiting", "{rerun}");
}

#[test]
fn rerun_requires_its_secrets_again() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let run_workflow = |arguments: Value| agent.call_tool("run_workflow", arguments);
    let document = json!({"name": "login", "initial_state": "use", "arguments": {"TOKEN": {"secret": true}}, "states": {
        "use": {"action": {"tool": "run_command", "params": {"command": "test $(printf %s {TOKEN|sh} | wc -c) = 14"}}}}});
    let first = run_workflow(
        json!({"workflow_definition": document, "initial_variables": {"TOKEN": "swordfish-4711"}, "wait_seconds": 60}),
    );
    assert_eq!(first["status"], "completed", "{first}");
    let refusal = run_workflow(json!({"again": {"run_id": first["run_id"]}}));
    assert!(refusal["error"].as_str().unwrap_or_default().contains("TOKEN"), "{refusal}");
    let again = json!({"run_id": first["run_id"], "from_state": "use"});
    let second =
        run_workflow(json!({"again": again, "initial_variables": {"TOKEN": "swordfish-4711"}, "wait_seconds": 60}));
    assert_eq!(second["status"], "completed", "{second}");
}

#[test]
fn person_deletes_the_records_of_finished_runs() {
    let home = Home::new(STEPLATCH);
    write_release_workflow(&home);
    let run = || {
        let run = parse_json(&home.run(&["run", "release.json", "-i", "VERSION=7", "--json"]).stdout);
        run["run_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (run(), run());
    // No agent removes its own records, neither on the command line nor over MCP.
    let refusal = home.run(&["runs", "delete", &first]);
    assert!(refusal.code != 0 && refusal.stderr.contains("by a person"), "{refusal:?}");
    assert!(refusal.stderr.contains(&format!("run '{first}' was not deleted")), "{refusal:?}");
    let agent = Agent::new(&home);
    let person = Person::runs(&agent, &home, STEPLATCH, &format!("runs delete {} {second} {first}", &first[..12]));
    person.expect_text(&format!("{second}: Record deleted"));
    assert!(!home.run(&["runs", "list"]).expect_success().contains("release"));
    let missing = home.run(&["runs", "show", &first]);
    assert!(missing.code != 0 && missing.stderr.contains("not found"), "{missing:?}");
}
