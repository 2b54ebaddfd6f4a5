//! Runs that functions start.

use serde_json::{Value, json};
use steplatch_testkit::eventually_blocking;

use crate::functions::story::{Story, count_lines, event_types, wait_for_content};

const NESTED: &str = "\
import asyncio
async def child(ctx):
    verdict = await ctx.gate(f'{ctx.params[\"name\"]}?')
    return [ctx.input, verdict]
async def broken(ctx):
    raise ValueError('so it is')
async def deeper(ctx):
    try:
        return await ctx.run_workflow('deeper', input=(ctx.input or 0) + 1)
    except RuntimeError as error:
        return [ctx.input, str(error)]
async def story(ctx):
    both = await asyncio.gather(
        ctx.run_workflow('child', input=1, params={'name': 'one'}),
        ctx.run_workflow('child', input=2, params={'name': 'two'}))
    failed = []
    try:
        await ctx.run_workflow('broken')
    except RuntimeError as error:
        failed.append(str(error))
    try:
        await ctx.run_workflow('child', params={'name': 'late'}, timeout=0.2)
    except TimeoutError as error:
        failed.append(str(error))
    try:
        await ctx.run_workflow('nothing')
    except ValueError as error:
        failed.append(str(error))
    return [both, failed]
Workflow(id='child', session=session, fn=child)
Workflow(id='broken', session=session, fn=broken)
Workflow(id='deeper', session=session, fn=deeper)
Workflow(id='story', session=session, fn=story)
";

#[test]
fn children_are_listed_and_answered_through_their_parent() {
    let story = Story::with_source(NESTED);
    let waiting = story.start_with(json!({"workflow_name": "story", "wait_seconds": 60}));
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let run = waiting["run_id"].as_str().unwrap();
    // Both children wait before any is answered, even after the daemon is killed.
    let gates = || -> Vec<Value> {
        let list = story.home.run(&["runs", "list", "--json"]).json();
        let parent = list["runs"].as_array().unwrap().iter().find(|entry| entry["run_id"] == run).unwrap();
        parent["pending_gates"].as_array().cloned().unwrap_or_default()
    };
    eventually_blocking("both children wait at a gate", || gates().len() == 2);
    story.kill_daemon();
    eventually_blocking("both children wait at a gate again", || gates().len() == 2);
    let ambiguous = story.answer_gate(&waiting, "which?");
    assert!(!ambiguous.stderr.is_empty(), "{ambiguous:?}");
    for gate in gates() {
        let prompt = gate["prompt"].as_str().unwrap();
        assert_ne!(gate["run_id"], run, "the gate belongs to the child");
        let gate = gate["gate_id"].as_str().unwrap();
        story.home.run(&["gates", "answer", run, "--gate", gate, &format!("to {prompt}")]).expect_success();
    }
    // The other child waits until its timeout.
    eventually_blocking("the run has ended", || story.get_run(&waiting, 0.0)["status"] == "completed");
    let outcome = story.get_run(&waiting, 0.0);
    assert_eq!(outcome["result"][0], json!([[1, "to one?"], [2, "to two?"]]));
    let errors = outcome["result"][1].as_array().unwrap();
    assert!(errors[0].as_str().unwrap().contains("ValueError: so it is"), "{errors:?}");
    assert_eq!(errors[1], "Workflow 'child' took longer than 0.2 s");
    assert!(errors[2].as_str().unwrap().contains("nothing"), "{errors:?}");
    let list = story.home.run(&["runs", "list", "--json"]).json();
    let is_child = |entry: &&Value| entry["parent_run_id"] == run;
    let mut states: Vec<&str> =
        list["runs"].as_array().unwrap().iter().filter(is_child).map(|run| run["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["cancelled", "completed", "completed", "failed"]);
    let events = story.events(&outcome);
    for expected in ["nested_workflow_started", "nested_workflow_completed", "nested_workflow_failed"] {
        assert!(event_types(&events).contains(&expected), "{expected} in {:?}", event_types(&events));
    }
}

#[test]
fn nesting_depth_of_runs_is_limited() {
    let story = Story::with_source(NESTED);
    let outcome = story.start_with(json!({"workflow_name": "deeper", "wait_seconds": 60}));
    assert_eq!(outcome["status"], "completed", "{outcome}");
    assert_eq!(outcome["result"], json!([16, "Maximum recursion depth (16) exceeded"]));
}

#[test]
fn cancelled_parent_cancels_its_children_first() {
    let story = Story::with_source(NESTED);
    let waiting = story.start_with(json!({"workflow_name": "story", "wait_seconds": 60}));
    let cancel_reply = story.agent.call_tool("cancel_run", json!({"run_id": waiting["run_id"]}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    let list = story.home.run(&["runs", "list", "--json"]).json();
    let states: Vec<&Value> = list["runs"].as_array().unwrap().iter().map(|run| &run["state"]).collect();
    assert!(states.len() >= 2 && states.iter().all(|state| *state == "cancelled"), "{list}");
}

#[test]
fn function_starts_a_saved_machine() {
    let story = Story::with_body(
        "made = await ctx.run_workflow('make', params={'word': 'seven'})\nreturn [made['status'], made['return_values']]",
        "",
    );
    let machine = json!({
        "name": "make", "description": "Says a word", "initial_state": "open",
        "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                     "transitions": [{"condition": {"success": true}, "next_state": "say"}]},
            "say": {"action": {"tool": "send_input", "params": {"input_text": "echo {word} >>said\n"}},
                    "transitions": [{"condition": {"success": true}, "next_state": "wait"}]},
            "wait": {"action": {"tool": "await_output", "params": {"until": "prompt", "timeout": 20}},
                     "transitions": [{"condition": {"success": true}, "next_state": "close"}]},
            "close": {"action": {"tool": "exit_terminal"}}
        }
    });
    let file = story.path("make.json");
    std::fs::write(&file, machine.to_string()).unwrap();
    story.home.run(&["workflow", "load", file.to_str().unwrap()]).expect_success();
    let outcome = story.start(60.0);
    assert_eq!(outcome["result"][0], "completed", "{outcome}");
    assert_eq!(std::fs::read_to_string(story.path("said")).unwrap(), "seven\n");
}

#[test]
fn resuming_a_parent_keeps_directly_paused_children_paused() {
    let story = Story::with_source(
        "async def child(ctx):\n    await ctx.gate('Go on?', context={'what': 'the child', 'lines': 'one\\ntwo'})\n    \
             return (await ctx.run('note', 'child'))['output']\n\
         async def story(ctx):\n    return await ctx.run_workflow('child')\n\
         BashNode(id='note', session=session, command='echo {input|sh} >>noted; printf done')\n\
         Workflow(id='child', session=session, fn=child)\nWorkflow(id='story', session=session, fn=story)\n",
    );
    let waiting = story.start_with(json!({"workflow_name": "story", "wait_seconds": 60}));
    let run = waiting["run_id"].as_str().unwrap();
    let list = story.home.run(&["gates", "list"]).expect_success();
    assert_eq!(list.matches("Go on?").count(), 1, "the gate belongs to the child: {list}");
    assert!(list.contains("what: the child") && list.contains("│   two"), "{list}");
    story.home.run(&["runs", "pause", run]).expect_success();
    story.kill_daemon();
    story.answer_gate(&waiting, "yes").expect_success();
    let child = waiting["pending_gate"]["run_id"].as_str().unwrap();
    let run_record = |run: &str| story.home.run(&["runs", "show", run, "--json"]).json();
    eventually_blocking("the answer is taken", || {
        run_record(child)["pending_gates"].as_array().is_none_or(Vec::is_empty)
    });
    assert!(run_record(child)["paused"].is_object(), "{}", run_record(child));
    assert_eq!(count_lines(&story.path("noted")), 0);
    // The child was paused with its parent, so it is resumed with the parent. A run that was paused directly is not
    // resumed.
    story.home.run(&["runs", "resume", run]).expect_success();
    assert_eq!(story.get_run(&waiting, 60.0)["result"], "done");
    assert_eq!(count_lines(&story.path("noted")), 1);
}

/// Starts 503 runs that wait at gates and emits the error that refuses the rest. The runs are state machines, because
/// these are cheap.
const START_MANY: &str = "\
import asyncio
async def story(ctx):
    async def one():
        try:
            await ctx.run_workflow('waits')
        except RuntimeError as error:
            ctx.emit('refused', {'why': str(error)})
    await asyncio.gather(*[one() for _ in range(503)])
Workflow(id='story', session=session, fn=story)
";

/// Returns a story with the function `START_MANY` and its state machine.
fn start_many_story() -> Story {
    let story = Story::with_source(START_MANY);
    let gate = json!({"action": {"tool": "gate", "params": {"prompt": "Go on?"}}});
    let waiting = json!({"name": "waits", "description": "Waits", "initial_state": "ask", "states": {"ask": gate}});
    let create_reply = story.agent.call_tool("create_workflow", json!({"workflow_definition": waiting}));
    assert_eq!(create_reply["success"], true, "{create_reply}");
    story
}

/// Waits until this number of starts below `run` were refused.
fn wait_for_refusals(story: &Story, run: &Value, times: usize) {
    let refusals = || {
        let events = story.events(run);
        events.into_iter().filter(|event| event["event_type"] == "refused").collect::<Vec<_>>()
    };
    eventually_blocking("the rest is refused", || refusals().len() == times);
    assert_eq!(refusals()[0]["data"]["why"], "500 runs are in progress below one run, which is the limit");
}

/// Cancels a run and waits until all runs below it have ended. This may take longer than the cancel itself.
fn cancel_all(story: &Story, run: &Value) {
    let reply = story.agent.call_tool("cancel_run", json!({"run_id": run["run_id"]}));
    assert_eq!(reply["run_id"], run["run_id"], "{reply}");
    eventually_blocking("the run is cancelled", || match story.get_run(run, 0.0)["status"].as_str() {
        Some("cancelled") => Ok(()),
        other => Err(other.map(str::to_owned)),
    });
}

#[test]
fn concurrent_descendants_of_a_run_are_limited() {
    let story = start_many_story();
    let run = story.start_with(json!({"workflow_name": "story", "wait_seconds": 0}));
    wait_for_refusals(&story, &run, 3);
    cancel_all(&story, &run);
}

#[test]
fn descendant_limit_covers_runs_below_a_machine() {
    let story = start_many_story();
    story.home.run(&["workflow", "load", "story.py"]).expect_success();
    let definition = json!({"initial_state": "nest", "states": {
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "story"}}, "timeout": 300},
    }});
    let arguments = json!({"workflow_definition": definition, "wait_seconds": 0, "save_on_success": false});
    let parent = story.agent.call_tool("run_workflow", arguments);
    let child = || {
        let started_run =
            story.events(&parent).into_iter().find(|event| event["event_type"] == "nested_workflow_started");
        started_run.map(|event| json!({"run_id": event["data"]["child_run_id"]}))
    };
    let child = eventually_blocking("the function has begun", child);
    // One of the 500 is the function itself.
    wait_for_refusals(&story, &child, 4);
    cancel_all(&story, &parent);
}

#[test]
fn workflow_edited_after_approval_is_not_run() {
    // redteam M6, for a function: by a literal name, and by a computed one.
    for name in ["'deploy'", "ctx.params['name']"] {
        let story = Story::with_body(
            &format!(
                "await ctx.gate('Deploy?', choices=['yes'])\n\
                 try:\n    return (await ctx.run_workflow({name}))['final_state']\n\
                 except Exception as error:\n    return str(error)"
            ),
            "",
        );
        let save_definition = |last: &str| {
            let state = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
            let machine =
                json!({"name": "deploy", "description": "Deploys", "initial_state": last, "states": {last: state}});
            let arguments = json!({"workflow_definition": machine, "overwrite_existing": true});
            assert_eq!(story.agent.call_tool("create_workflow", arguments)["success"], true);
        };
        let start_waiting_run = || {
            let waiting = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"name": "deploy"}}));
            assert_eq!(waiting["status"], "waiting", "{waiting}");
            waiting
        };
        save_definition("approved");
        let (first, second) = (start_waiting_run(), start_waiting_run());
        story.answer_gate(&first, "yes").expect_success();
        assert_eq!(story.get_run(&first, 60.0)["result"], "approved");
        save_definition("evil");
        story.kill_daemon();
        story.answer_gate(&second, "yes").expect_success();
        let result = story.get_run(&second, 60.0)["result"].to_string();
        assert!(result.contains("Workflow 'deploy' was changed after this run was started"), "{name}: {result}");
    }
}

#[test]
fn unnamed_workflow_is_not_run() {
    // A call that the static search misses is refused when the function makes it.
    for call in ["getattr(ctx, 'run_' + 'workflow')('deploy')", "ctx.run_work\u{fb02}ow('deploy')"] {
        let story = Story::with_body(
            &format!(
                "try:\n    return (await {call})['final_state']\nexcept Exception as error:\n    return str(error)"
            ),
            "",
        );
        let state = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
        let machine =
            json!({"name": "deploy", "description": "Deploys", "initial_state": "evil", "states": {"evil": state}});
        let create_reply = story.agent.call_tool("create_workflow", json!({"workflow_definition": machine}));
        assert_eq!(create_reply["success"], true, "{create_reply}");
        let result = story.start(60.0);
        assert_ne!(result["result"], "evil", "{call}: {result}");
    }
}

/// A state machine that leaves its terminal open.
const TERMINAL_OPENER: &str = r#"{"name": "opens", "description": "leaves a terminal open", "initial_state": "open", "states": {
    "open": {"action": {"tool": "open_terminal", "params": {"shell": "sh", "wait_ready": false}},
        "transitions": [{"condition": "success", "next_state": "end"}]},
    "end": {"action": {"tool": "return", "params": {"result": "opened"}}}}}"#;

const MACHINE_CALLER: &str = "\
async def story(ctx):
    first = await ctx.run_workflow('opens')
    await ctx.gate('Done?')
    return first['success']
Workflow(id='story', session=session, fn=story)
";

#[test]
fn function_end_closes_the_terminals_of_its_machine() {
    let story = Story::with_source(MACHINE_CALLER);
    let machine = story.path("opens.json");
    std::fs::write(&machine, TERMINAL_OPENER).unwrap();
    story.home.run(&["workflow", "load", machine.to_str().unwrap()]).expect_success();
    let waiting = story.start_with(json!({"workflow_name": "story", "wait_seconds": 60}));
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let open_terminals = || story.home.run(&["terminal", "list", "--json"]).json()["total_sessions"].clone();
    assert_eq!(open_terminals(), 1, "the function may pass the terminal to another machine");
    story.kill_daemon();
    story.answer_gate(&waiting, "yes").expect_success();
    eventually_blocking("the run has ended", || story.get_run(&waiting, 0.0)["status"] == "completed");
    eventually_blocking("the terminal is closed", || open_terminals() == 0);
}

const SHELL_STARTER: &str = "\
async def story(ctx):
    begun = await ctx.run('shell', 'echo begun >>begun; read line; echo $line')
    await ctx.gate('Done?')
    return begun['error_type']
PTYNode(id='shell', session=session, command='bash --norc')
Workflow(id='story', session=session, fn=story)
";

#[test]
fn run_end_closes_the_terminal_of_an_unknown_node_call() {
    let story = Story::with_source(SHELL_STARTER);
    let started_run = story.start_with(json!({"workflow_name": "story", "wait_seconds": 0}));
    wait_for_content(&story.path("begun"));
    story.kill_daemon();
    eventually_blocking("the run asks", || story.get_run(&started_run, 0.0)["status"] == "waiting");
    story.kill_daemon();
    eventually_blocking("the run asks again", || story.get_run(&started_run, 0.0)["status"] == "waiting");
    story.answer_gate(&started_run, "yes").expect_success();
    eventually_blocking("the run has ended", || story.get_run(&started_run, 0.0)["status"] == "completed");
    let open_terminals = || story.home.run(&["terminal", "list", "--json"]).json()["total_sessions"].clone();
    eventually_blocking("the terminal is closed", || open_terminals() == 0);
}
