//! Properties of runs in the contract that no other test covers, on the real binary.

use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn write(home: &Home, name: &str, text: &str) {
    std::fs::write(home.path().join(name), text).unwrap();
}

fn function(body: &str) -> String {
    format!("async def story(ctx):\n    {body}\n\nWorkflow(id='story', session=session, fn=story)\n")
}

#[test]
fn non_json_result_fails_only_its_run_with_a_message() {
    let home = Home::new(STEPLATCH);
    let agent = Agent::new(&home);
    write(&home, "other.py", &function("return await ctx.gate('Well?')"));
    let other =
        agent.call_tool("run_workflow", json!({"workflow_file": home.path().join("other.py"), "wait_seconds": 60}));
    assert_eq!(other["status"], "waiting");
    for (body, message) in
        [("return {1, 2}", "the result is not JSON: it is a set"), ("return ctx", "the result is not JSON: it is")]
    {
        write(&home, "story.py", &function(body));
        let output = home.run(&["run", "story.py", "--json"]);
        let reply: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!((output.code, &reply["status"]), (1, &json!("failed")), "{output:?}");
        assert!(reply["error"].as_str().unwrap().contains(message), "{reply}");
    }
    let run = other["run_id"].as_str().unwrap();
    home.run(&["gates", "answer", run, "very"]).expect_success();
    let ended = agent.call_tool("get_run", json!({"run_id": run, "wait_seconds": 60}));
    assert_eq!(ended["result"], "very");
}

/// Returns the error of a run that failed.
fn error(said: &CommandOutput) -> String {
    assert_eq!(said.code, 1, "{said:?}");
    let reply: Value = serde_json::from_str(&said.stdout).unwrap();
    reply["error"].as_str().unwrap().to_owned()
}

#[test]
fn run_has_the_time_limit_of_the_command_line() {
    let home = Home::new(STEPLATCH);
    let machine = json!({"initial_state": "nap", "states": {"nap": {
        "action": {"tool": "sleep", "params": {"seconds": 600}}, "timeout": 300}}});
    write(&home, "nap.json", &machine.to_string());
    let output = home.run(&["run", "nap.json", "--timeout", "1", "--json"]);
    assert_eq!(error(&output), "Workflow execution timeout (1.0s) exceeded in state 'nap'");
    write(&home, "nap.py", &function("await ctx.sleep(600)"));
    let output = home.run(&["run", "nap.py", "--timeout", "1", "--json"]);
    assert_eq!(error(&output), "the run was at work for 1 s, which is its limit");
    let wrong = home.run(&["run", "nap.json", "--timeout", "0.5"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("from 1 to 7200"), "{wrong:?}");
}
