//! Properties of runs in the contract that no other test covers, on the real binary.

use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn write(home: &Home, name: &str, text: &str) {
    std::fs::write(home.path().join(name), text).unwrap();
}

fn function_source(body: &str) -> String {
    format!("async def story(ctx):\n    {body}\n\nWorkflow(id='story', session=session, fn=story)\n")
}

#[test]
fn non_json_result_fails_only_its_run_with_a_message() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    write(&home, "other.py", &function_source("return await ctx.gate('Well?')"));
    let waiting_run =
        agent.call_tool("run_workflow", json!({"workflow_file": home.path().join("other.py"), "wait_seconds": 60}));
    assert_eq!(waiting_run["status"], "waiting");
    for (body, message) in
        [("return {1, 2}", "the result is not JSON: it is a set"), ("return ctx", "the result is not JSON: it is")]
    {
        write(&home, "story.py", &function_source(body));
        let output = home.run(&["run", "story.py", "--json"]);
        let reply: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!((output.code, &reply["status"]), (1, &json!("failed")), "{output:?}");
        assert!(reply["error"].as_str().unwrap().contains(message), "{reply}");
    }
    let run = waiting_run["run_id"].as_str().unwrap();
    home.run(&["gates", "answer", run, "very"]).expect_success();
    let outcome = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert_eq!(outcome["result"], "very");
}

/// Returns the error of a run that failed.
fn run_error(output: &CommandOutput) -> String {
    assert_eq!(output.code, 1, "{output:?}");
    let reply: Value = serde_json::from_str(&output.stdout).unwrap();
    reply["error"].as_str().unwrap().to_owned()
}

#[test]
fn run_has_the_time_limit_of_the_command_line() {
    let home = Home::new(STEPLATCH);
    let machine = json!({"initial_state": "nap", "states": {"nap": {
        "action": {"tool": "sleep", "params": {"seconds": 600}}, "timeout": 300}}});
    write(&home, "nap.json", &machine.to_string());
    let output = home.run(&["run", "nap.json", "--timeout", "1", "--json"]);
    assert_eq!(run_error(&output), "Workflow execution timeout (1.0s) exceeded in state 'nap'");
    write(&home, "nap.py", &function_source("await ctx.sleep(600)"));
    let output = home.run(&["run", "nap.py", "--timeout", "1", "--json"]);
    assert_eq!(run_error(&output), "the run was at work for 1 s, which is its limit");
    let invalid = home.run(&["run", "nap.json", "--timeout", "0.5"]);
    assert!(invalid.code == 2 && invalid.stderr.contains("from 1 to 7200"), "{invalid:?}");
}
