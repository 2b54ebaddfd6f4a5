//! Ended runs that are run again, entirely or from a state on.

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, Person};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A machine that writes a line for each command, and ships once there is a route.
fn release_machine(home: &Home) -> Value {
    let at = |name: &str| home.path().join(name).display().to_string();
    let state = |command: String, next: Option<&str>| {
        let transitions = next.map_or_else(|| json!([]), |next| json!([{"condition": "success", "next_state": next}]));
        json!({"action": {"tool": "run_command", "params": {"command": command}}, "transitions": transitions})
    };
    let log = at("log");
    let document = json!({"name": "release", "description": "Builds and ships", "initial_state": "build",
    "arguments": {"VERSION": {"description": "Version to release"}},
    "states": {
        "build": state(format!("echo build {{VERSION}} >> {log}; echo artifact-{{VERSION}}"), Some("ship")),
        "ship": state(format!("echo ship {{build_output}} >> {log}; test -e {}", at("route")), None),
    }});
    std::fs::write(at("release.json"), document.to_string()).unwrap();
    document
}

fn log(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn failed_run_restarts_at_the_failed_state() {
    let home = Home::new(STEPLATCH);
    release_machine(&home);
    let failed = home.run(&["run", "release.json", "-i", "VERSION=7", "--json"]);
    let failed = parse_json(&failed.stdout);
    assert_eq!(failed["status"], "failed", "{failed}");
    let run = failed["run_id"].as_str().unwrap();
    std::fs::write(home.path().join("route"), "").unwrap();
    let seen = home.run(&["run", "--again", run, "--from", "ship"]);
    assert!(seen.stderr.contains(&format!("the steps before 'ship' are taken over from {run}")), "{seen:?}");
    let again = parse_json(&home.run(&["run", "--again", run, "--from", "ship", "--json"]).expect_success());
    assert_eq!(again["status"], "completed", "{again}");
    assert_eq!(log(&home), ["build 7", "ship artifact-7", "ship artifact-7", "ship artifact-7"]);
    let shown = home.run(&["runs", "show", again["run_id"].as_str().unwrap()]).expect_success();
    assert!(shown.contains(&format!("{run} from ship")), "{shown}");
    // The views mark the step that the earlier run performed.
    let is_of_earlier = |text: &str, state: &str, is_end: bool| {
        let mut lines = text.lines().filter(|line| line.contains(state) && line.contains("taken over") == is_end);
        lines.next().is_some()
    };
    let events = home.run(&["runs", "events", again["run_id"].as_str().unwrap()]).expect_success();
    for text in [&shown, &events] {
        assert!(is_of_earlier(text, "build", true) && is_of_earlier(text, "ship ", false), "{text}");
    }
    assert_eq!(shown.matches("taken over").count(), 1, "{shown}");
    let entries = again["execution_log"].as_array().unwrap();
    let taken = |entry: &&Value| entry["taken_over"] == true;
    let states: Vec<&str> = entries.iter().filter(taken).filter_map(|entry| entry["state"].as_str()).collect();
    assert!(!states.is_empty() && states.iter().all(|state| *state == "build"), "{again}");
    // The whole run with its input, with another definition, and by name.
    home.run(&["workflow", "load", "release.json"]).expect_success();
    home.run(&["run", "--again", run, "release", "--json"]).expect_success();
    assert_eq!(log(&home)[4..], ["build 7", "ship artifact-7"]);
    // Another version makes another run.
    home.run(&["run", "--again", run, "-i", "VERSION=8", "--json"]).expect_success();
    assert_eq!(log(&home)[6..], ["build 8", "ship artifact-8"]);
}

#[test]
fn refused_rerun_names_the_next_step() {
    let home = Home::new(STEPLATCH);
    let document = release_machine(&home);
    let agent = Agent::new(&home);
    let runs = |arguments: Value| agent.call_tool("run_workflow", arguments);
    let failed =
        runs(json!({"workflow_definition": document, "initial_variables": {"VERSION": "7"}, "wait_seconds": 60}));
    let run = failed["run_id"].clone();
    let before = log(&home);
    let again = |fields: Value| {
        let mut again = json!({"run_id": run});
        again.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        again
    };
    let mut changed = document.clone();
    changed["states"]["build"]["action"]["params"]["command"] = "true".into();
    let mut destroys = document.clone();
    destroys["states"]["ship"]["action"]["params"]["command"] = "rm -rf /nonexistent-steplatch-test".into();
    for (arguments, expected) in [
        (json!({"again": again(json!({"from_state": "shop"}))}), "it entered: build, ship"),
        (
            json!({"again": again(json!({"from_state": "ship"})), "initial_variables": {"VERSION": "8"}}),
            "without from_state",
        ),
        (
            json!({"again": again(json!({"from_state": "ship"})), "workflow_definition": changed}),
            "'build' came before 'ship' and has changed",
        ),
        (
            json!({"again": again(json!({"from_state": "ship"})), "workflow_definition": destroys}),
            "repeat_irreversible",
        ),
        (json!({"again": {"run_id": "run_0000000000000000"}}), "not found"),
    ] {
        let reply = runs(arguments.clone());
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(reply["success"] == false && error.contains(expected), "{arguments}: {reply}");
    }
    assert_eq!(log(&home), before, "nothing ran");
}

#[test]
fn rerun_cannot_start_after_an_answer_or_in_a_closed_terminal() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let runs = |arguments: Value| agent.call_tool("run_workflow", arguments);
    let to = |next: &str| json!([{"condition": "success", "next_state": next}]);
    let failed =
        runs(json!({"wait_seconds": 60, "workflow_definition": {"name": "typed", "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}}, "transitions": to("fails")},
        "fails": {"action": {"tool": "run_command", "params": {"command": "false"}}}}}}));
    let reply = runs(json!({"again": {"run_id": failed["run_id"], "from_state": "fails"}}));
    assert!(reply["error"].as_str().unwrap_or_default().contains("begin at 'open' or before it"), "{reply}");
    let waiting = runs(
        json!({"wait_seconds": 60, "workflow_definition": {"name": "asks", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": "Ship?", "choices": ["yes", "no"], "answered_by": "human"}}, "transitions": to("fails")},
        "fails": {"action": {"tool": "run_command", "params": {"command": "false"}}}}}}),
    );
    let running = runs(json!({"again": {"run_id": waiting["run_id"], "from_state": "ask"}}));
    assert!(running["error"].as_str().unwrap_or_default().contains("has not ended"), "{running}");
    home.run(&["gates", "answer", waiting["run_id"].as_str().unwrap(), "yes"]).expect_success();
    drop(agent.call_tool("get_run", json!({"run_id": waiting["run_id"], "wait_seconds": 60})));
    let reply = runs(json!({"again": {"run_id": waiting["run_id"], "from_state": "fails"}}));
    assert!(reply["error"].as_str().unwrap_or_default().contains("begin at 'ask'"), "{reply}");
    let asks = runs(json!({"again": {"run_id": waiting["run_id"], "from_state": "ask"}, "wait_seconds": 60}));
    assert_eq!(asks["status"], "waiting", "{asks}");
}

#[test]
fn secrets_of_a_run_are_given_again() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    let runs = |arguments: Value| agent.call_tool("run_workflow", arguments);
    let document = json!({"name": "login", "initial_state": "use", "arguments": {"TOKEN": {"secret": true}}, "states": {
        "use": {"action": {"tool": "run_command", "params": {"command": "test $(printf %s {TOKEN|sh} | wc -c) = 14"}}}}});
    let first = runs(
        json!({"workflow_definition": document, "initial_variables": {"TOKEN": "swordfish-4711"}, "wait_seconds": 60}),
    );
    assert_eq!(first["status"], "completed", "{first}");
    let refused = runs(json!({"again": {"run_id": first["run_id"]}}));
    assert!(refused["error"].as_str().unwrap_or_default().contains("TOKEN"), "{refused}");
    let again = json!({"run_id": first["run_id"], "from_state": "use"});
    let second = runs(json!({"again": again, "initial_variables": {"TOKEN": "swordfish-4711"}, "wait_seconds": 60}));
    assert_eq!(second["status"], "completed", "{second}");
}

#[test]
fn person_deletes_the_records_of_ended_runs() {
    let home = Home::new(STEPLATCH);
    release_machine(&home);
    let run = || {
        let run = parse_json(&home.run(&["run", "release.json", "-i", "VERSION=7", "--json"]).stdout);
        run["run_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (run(), run());
    // No agent removes what it did, neither by the command line nor over MCP.
    let refused = home.run(&["runs", "delete", &first]);
    assert!(refused.code != 0 && refused.stderr.contains("by a person"), "{refused:?}");
    let agent = Agent::new(&home);
    let person = Person::runs(&agent, &home, STEPLATCH, &format!("runs delete {} {second} {first}", &first[..12]));
    person.expect_text(&format!("{second}: Record deleted"));
    assert!(!home.run(&["runs", "list"]).expect_success().contains("release"));
    let missing = home.run(&["runs", "show", &first]);
    assert!(missing.code != 0 && missing.stderr.contains("not found"), "{missing:?}");
}
