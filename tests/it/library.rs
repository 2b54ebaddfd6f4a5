//! One workflow library with many concurrent writers: the real program, over MCP and on the command line.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Calling, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn sleeping_workflow(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("Sleeps as {name}"),
        "initial_state": "sleep",
        "states": {"sleep": {"action": {"tool": "sleep", "params": {"seconds": 0.1}}}},
    })
}

/// Returns the names in a list of workflows.
fn names(list: &Value) -> BTreeSet<String> {
    let workflows = list["workflows"].as_array().unwrap_or_else(|| panic!("{list}"));
    workflows.iter().map(|workflow| workflow["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_daemons_save_forty_workflows_and_lose_none() {
    const PER_AGENT: usize = 20;
    let shared = tempfile::tempdir().unwrap();
    let library = shared.path().join("library");
    let environment = [("STEPLATCH_LIBRARY", library.to_str().unwrap())];
    let homes = [Home::new(STEPLATCH), Home::new(STEPLATCH)];
    let agents = homes.each_ref().map(|home| Agent::with(home, &environment));
    let workflow_name = |agent: usize, number: usize| format!("flow_{agent}_{number:02}");

    let mut calls: Vec<Calling> = Vec::new();
    for number in 0..PER_AGENT {
        for (index, agent) in agents.iter().enumerate() {
            let definition = json!({"workflow_definition": sleeping_workflow(&workflow_name(index, number))});
            calls.push(agent.begin("create_workflow", definition));
        }
    }
    for call in calls {
        let create_reply = call.finish();
        assert_eq!(create_reply["success"], true, "{create_reply}");
    }
    let expected: BTreeSet<_> =
        (0..PER_AGENT).flat_map(|number| [workflow_name(0, number), workflow_name(1, number)]).collect();
    for agent in &agents {
        assert_eq!(names(&agent.call_tool("list_workflows", json!({}))), expected);
    }

    // Exactly one of the competing agents succeeds.
    let competing_calls = agents.iter().cycle().take(PER_AGENT);
    let competing_calls: Vec<_> = competing_calls
        .map(|agent| agent.begin("create_workflow", json!({"workflow_definition": sleeping_workflow("one")})))
        .collect();
    let winners =
        competing_calls.into_iter().map(Calling::finish).filter(|create_reply| create_reply["success"] == true);
    assert_eq!(winners.count(), 1);

    for index in ["", "{\"format\": 1, \"files\": 7}"] {
        fs::write(library.join("index.json"), index).unwrap();
        assert_eq!(names(&agents[0].call_tool("list_workflows", json!({}))).len(), 2 * PER_AGENT + 1);
        let rebuilt_index: Value = serde_json::from_slice(&fs::read(library.join("index.json")).unwrap()).unwrap();
        assert_eq!(rebuilt_index["files"].as_array().unwrap().len(), 2 * PER_AGENT + 1, "the index is rebuilt");
    }
}

#[test]
fn invalid_workflow_is_reported_and_the_others_are_saved() {
    let home = Home::new(STEPLATCH);
    let project = home.path().join("project");
    fs::create_dir_all(project.join(".git")).unwrap();
    let library = project.join(".terminal_control_workflows");
    let big_file = home.path().join("big.json");
    let mut definition = sleeping_workflow("big");
    definition["states"]["sleep"]["action"]["params"]["note"] = "x".repeat(10 << 20).into();
    fs::write(&big_file, definition.to_string()).unwrap();
    let good_file = home.path().join("good.json");
    fs::write(&good_file, sleeping_workflow("good").to_string()).unwrap();
    let run_workflow_command = |words: &[&str]| {
        let output = home.steplatch().current_dir(&project).arg("workflow").args(words).output().unwrap();
        steplatch_testkit::CommandOutput::from_process(&output)
    };

    let output = run_workflow_command(&["load", big_file.to_str().unwrap(), good_file.to_str().unwrap()]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("big.json: the definition takes 1048"), "{output:?}");
    assert!(output.stdout.contains("good.json: saved as good in "), "{output:?}");
    fs::write(library.join("broken.json"), "{").unwrap();
    let list = run_workflow_command(&["list"]).expect_success();
    let lines: Vec<_> = list.lines().collect();
    assert!(lines[0].starts_with("NAME  KIND     STATUS  RUNS  LAST RUN  DESCRIPTION"), "{list}");
    assert!(lines[1].starts_with("good  machine  draft   -     -         Sleeps as good"), "{list}");
    assert!(lines[2].starts_with("broken ") && lines[2].contains("broken.json: this is not JSON"), "{list}");
    let output = run_workflow_command(&["show", "good"]).expect_success();
    assert!(output.starts_with("good\nSleeps as good\n"), "{output}");
    assert!(output.contains("sleep*  sleep  end"), "{output}");
    assert_eq!(run_workflow_command(&["show", "good", "--json"]).json()["definition"], sleeping_workflow("good"));
    assert_eq!(run_workflow_command(&["lint", "good"]).expect_success(), "good: ok\n");
    assert_eq!(run_workflow_command(&["lint", "broken"]).code, 2);

    let agent = Agent::with(&home, &[("STEPLATCH_LIBRARY", library.to_str().unwrap())]);
    let huge_call = agent.begin("create_workflow", json!({"workflow_definition": definition}));
    let mut long_call = definition.clone();
    long_call["description"] = "x".repeat(7 << 20).into();
    let long_call = agent.begin("create_workflow", json!({"workflow_definition": long_call}));
    let invalid_name = agent.call_tool("describe_workflow", json!({"name": "../good"}));
    assert!(invalid_name["error"].as_str().unwrap().contains("is not a workflow name"), "{invalid_name}");
    let broken_file = agent.call_tool("describe_workflow", json!({"name": "broken"}));
    assert!(
        broken_file["error"].as_str().unwrap().contains("broken.json' is broken: this is not JSON"),
        "{broken_file}"
    );
    let huge_call = huge_call.finish();
    assert!(
        huge_call["validation_errors"][0].as_str().unwrap().ends_with("more than the maximum of 1048576"),
        "{huge_call}"
    );
    let refusal = long_call.refusal();
    assert_eq!(refusal, "create_workflow: the request takes 17 MB; at most 16 MB can be sent");
    let request = json!({"workflow_definition": sleeping_workflow("by_agent"), "colour": "red"});
    assert_eq!(
        agent.begin("create_workflow", request).refusal(),
        "create_workflow: unknown field 'colour', the fields are workflow_definition, overwrite_existing, reason"
    );
    let create_reply =
        agent.call_tool("create_workflow", json!({"workflow_definition": sleeping_workflow("by_agent")}));
    assert_eq!(create_reply["success"], true, "{create_reply}");

    let remove_reply = run_workflow_command(&["rm", "by_agent", "nobody", "broken"]);
    assert_eq!(remove_reply.code, 2, "{remove_reply:?}");
    assert!(remove_reply.stderr.contains("Workflow 'nobody' not found. Available workflows: good"), "{remove_reply:?}");
    assert_eq!(remove_reply.stdout.lines().count(), 2, "{remove_reply:?}");
    assert_eq!(names(&run_workflow_command(&["list", "--json"]).json()), ["good".to_owned()].into());
}

#[test]
fn workflow_versions_are_listed_compared_and_restored() {
    let home = Home::new(STEPLATCH);
    let file = home.path().join("nap.json");
    let write = |seconds: f64| {
        let mut nap = sleeping_workflow("nap");
        nap["states"]["sleep"]["action"]["params"]["seconds"] = json!(seconds);
        fs::write(&file, nap.to_string()).unwrap();
    };
    let file_name = file.to_str().unwrap();
    write(0.1);
    home.run(&["workflow", "load", file_name]).expect_success();
    assert!(home.run(&["workflow", "diff", "nap"]).stderr.contains("no version before the current one"));
    // An agent changes the workflow.
    let agent = Agent::new(&home);
    let mut slower = sleeping_workflow("nap");
    slower["states"]["sleep"]["action"]["params"]["seconds"] = json!(9);
    let create = json!({"workflow_definition": slower, "overwrite_existing": true, "reason": "it was too short"});
    assert_eq!(agent.call_tool("create_workflow", create)["version"], 2);

    let history = home.run(&["workflow", "history", "nap"]).expect_success();
    let lines: Vec<&str> = history.lines().collect();
    assert!(
        lines[1].starts_with("2 now") && lines[1].contains("test agent") && lines[1].ends_with("it was too short"),
        "{history}"
    );
    assert!(lines[2].starts_with("1 ") && lines[2].contains(" cli"), "{history}");
    let difference = home.run(&["workflow", "diff", "nap"]).expect_success();
    assert!(difference.starts_with("--- nap@1\n+++ nap@2\n@@ "), "{difference}");
    assert!(difference.contains("-          \"seconds\": 0.1\n+          \"seconds\": 9\n"), "{difference}");
    let reverse = home.run(&["workflow", "diff", "nap@2", "nap@1", "--json"]).json();
    let pointer = "/states/sleep/action/params/seconds";
    assert_eq!(reverse["changes"], json!([{"path": pointer, "before": 9, "after": 0.1}]));
    let record = home.run(&["workflow", "show", "nap@1", "--json"]).json();
    assert_eq!((&record["metadata"]["version"], record["definition"].pointer(pointer)), (&json!(1), Some(&json!(0.1))));
    let missing = home.run(&["workflow", "show", "nap@7"]);
    assert!(missing.stderr.contains("workflow 'nap' has no version 7; there are 2, 1"), "{missing:?}");

    // A restored version is a new version, and a removed workflow keeps its versions.
    let output = home.run(&["workflow", "revert", "nap", "--reason", "too long"]).expect_success();
    assert_eq!(output.trim(), "nap is version 3, which equals 1");
    let list = home.run(&["workflow", "list", "--json"]).json();
    assert_eq!(list["workflows"][0]["version"], 3, "{list}");
    let remove_reply = home.run(&["workflow", "rm", "nap"]);
    assert!(remove_reply.stderr.contains("steplatch workflow revert nap"), "{remove_reply:?}");
    assert!(home.run(&["workflow", "history", "nap"]).expect_success().contains("nap was removed"));
    home.run(&["workflow", "revert", "nap", "2"]).expect_success();
    let versions = home.run(&["workflow", "history", "nap", "--json"]).json();
    let version = |index: usize, key: &str| versions["versions"][index][key].clone();
    assert_eq!((version(0, "version"), version(0, "reason")), (json!(4), json!("as version 2")));
    assert_eq!((version(1, "version"), version(1, "reason")), (json!(3), json!("as version 1: too long")));
    assert_eq!(home.run(&["run", "nap@1"]).code, 2, "only the current version can be run");
    home.run(&["workflow", "rm", "--purge", "nap"]).expect_success();
    assert!(home.run(&["workflow", "history", "nap"]).stderr.contains("not found"));
}
