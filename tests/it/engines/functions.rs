//! The cases about functions, the same for every engine.

use rustix::process::Signal;
use serde_json::{Value, json};
use steplatch_testkit::eventually_blocking;

use super::rig::{Rig, kill};

/// A node that appends its input to the file `noted`.
const NOTE: &str = "BashNode(id='note', session=session, command='echo {input|sh} >>noted; echo said {input|sh}')";

/// Starts a run of a function with this body and returns its id.
fn start_function(rig: &Rig, body: &str, declarations: &str, arguments: Value) -> String {
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    rig.begin_file(
        &format!(
            "import asyncio\nasync def story(ctx):\n{body}\n{declarations}\nWorkflow(id=\"story\", session=session, fn=story)\n"
        ),
        arguments,
    )
}

fn read_notes(rig: &Rig) -> Vec<String> {
    std::fs::read_to_string(rig.home.path().join("noted")).unwrap_or_default().lines().map(str::to_owned).collect()
}

pub(super) fn function_survives_crashes_at_its_gate_and_repeats_nothing(rig: &Rig) {
    let run = start_function(
        rig,
        "before = await ctx.run('note', ctx.params['word'])\n\
         drawn = [ctx.random(), ctx.now()]\n\
         verdict = await ctx.gate('Publish?', choices=['publish', 'stop'], timeout=86400)\n\
         after = await ctx.run('note', verdict)\n\
         return [before['output'].strip(), after['output'].strip(), 0 <= drawn[0] < 1, drawn[1] > 1e9]",
        NOTE,
        json!({"initial_variables": {"word": "first"}}),
    );
    let gate = rig.wait_for_gate(&run);
    rig.crash();
    rig.recover();
    assert_eq!(rig.wait_for_gate(&run), gate);
    let invalid_answer = rig.home.run(&["gates", "answer", &gate, "perhaps"]);
    assert!(invalid_answer.stderr.contains("invalid answer; choose"), "{invalid_answer:?}");
    rig.answer_gate(&gate, "publish");
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["result"], json!(["said first", "said publish", true, true]), "{outcome}");
    assert_eq!(read_notes(rig), ["first", "publish"]);
    let late_answer = rig.home.run(&["gates", "answer", &gate, "stop"]);
    assert!(late_answer.code != 0 && late_answer.stderr.contains("answered"), "{late_answer:?}");
}

pub(super) fn gathered_calls_of_a_function_run_in_parallel(rig: &Rig) {
    let run = start_function(
        rig,
        "async def slept(seconds):\n    await ctx.sleep(seconds)\n    return seconds\n\
         async def late():\n    try:\n        return await ctx.gate('Anybody?', timeout=0.5)\n    except TimeoutError:\n        return 'nobody'\n\
         one, two, three, four = await asyncio.gather(\n    ctx.run('meets', 'a b'), ctx.run('meets', 'b a'), slept(0.3), late())\n\
         graph = await ctx.run_graph('twice', 'x')\n\
         return [one['success'], two['success'], three, four, graph['output'].strip()]",
        // The two calls wait for each other. The first attempt of the graph's step fails.
        "BashNode(id='meets', session=session, command='set -- {input}; touch met-$1; until [ -e met-$2 ]; do sleep 0.01; done')\n\
         BashNode(id='second', session=session, command='[ -e tried ] && echo done; s=$?; touch tried; exit $s')\n\
         Graph(id='twice', session=session, steps=[{'id': 'only', 'node': 'second', 'on_error': {'policy': 'retry', 'count': 2, 'delay': 0.2}}])",
        json!({}),
    );
    // A wait for the end also returns at the gate.
    eventually_blocking("the run has ended", || rig.get_run(&run)["status"] == "completed");
    let outcome = rig.get_run(&run);
    assert_eq!(outcome["result"], json!([true, true, 0.3, "nobody", "done"]), "{outcome}");
}

pub(super) fn function_waits_for_its_started_run(rig: &Rig) {
    let run = start_function(
        rig,
        "return 'told ' + await ctx.run_workflow('inner', 'in')",
        "async def inner(ctx):\n    answer = await ctx.gate('Go on?')\n    return ctx.input + ' and ' + answer\n\
         Workflow(id='inner', session=session, fn=inner)\n",
        json!({"workflow_name": "story"}),
    );
    let gate = rig.wait_for_gate(&run);
    rig.crash();
    rig.recover();
    assert_eq!(rig.get_run(&run)["status"], "waiting");
    rig.answer_gate(&gate, "out");
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["result"], "told in and out", "{outcome}");
}

pub(super) fn machine_and_function_wait_for_each_other(rig: &Rig) {
    let outer = json!({"initial_state": "nest", "states": {
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "between", "initial_variables": {"WORD": "deep"}}},
                 "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": "{nest_result}"}}}}});
    let inner = json!({"name": "below", "description": "Returns a word.", "initial_state": "found",
        "arguments": {"WORD": {"description": "a word", "export": false}},
        "states": {"found": {"action": {"tool": "return", "params": {"result": "{WORD} below"}}}}});
    let inner_file = rig.home.path().join("below.json");
    std::fs::write(&inner_file, inner.to_string()).unwrap();
    let function_file = rig.home.path().join("between.py");
    let text = "async def between(ctx):\n    found = await ctx.run_workflow('below', params={'WORD': ctx.params['WORD']})\n\
                \x20   return found['result'] + ', between'\nWorkflow(id='between', session=session, fn=between)\n";
    std::fs::write(&function_file, text).unwrap();
    rig.home.run(&["workflow", "load", inner_file.to_str().unwrap()]).expect_success();
    rig.home.run(&["workflow", "load", function_file.to_str().unwrap()]).expect_success();
    let outcome = rig.wait_for_end(&rig.begin(outer));
    assert_eq!(
        (&outcome["status"], &outcome["result"]),
        (&json!("completed"), &json!("deep below, between")),
        "{outcome}"
    );
}

pub(super) fn paused_function_begins_nothing_and_continues_when_resumed(rig: &Rig) {
    let run = start_function(
        rig,
        "await ctx.run('slow')\nawait ctx.run('note', 'after')",
        &format!(
            "BashNode(id='slow', session=session, command='echo begun >>noted; until [ -e go ]; do sleep 0.01; done; echo >ended')\n{NOTE}"
        ),
        json!({}),
    );
    eventually_blocking("the node runs", || read_notes(rig) == ["begun"]);
    rig.home.run(&["runs", "pause", &run]).expect_success();
    std::fs::write(rig.home.path().join("go"), "").unwrap();
    eventually_blocking("the node has finished", || rig.home.path().join("ended").exists());
    eventually_blocking("the end of the node is recorded", || {
        rig.home.run(&["runs", "events", &run, "--json"]).stdout.contains("node_completed")
    });
    rig.crash();
    rig.recover();
    assert!(rig.get_run(&run)["paused"]["since"].is_string());
    assert_eq!(read_notes(rig), ["begun"]);
    rig.home.run(&["runs", "resume", &run]).expect_success();
    assert_eq!(rig.wait_for_end(&run)["status"], "completed");
    assert_eq!(read_notes(rig), ["begun", "after"]);
}

pub(super) fn cancelled_function_cleans_up_after_its_command_exits(rig: &Rig) {
    let run = start_function(
        rig,
        "try:\n    await ctx.run('slow')\nexcept asyncio.CancelledError as error:\n    await ctx.run('note', str(error))\n\
         finally:\n    await ctx.sleep(0.1)\n    await ctx.run('note', 'finally')",
        &format!(
            "BashNode(id='slow', session=session, command='trap \"echo ended >>noted; exit\" TERM; echo begun >>noted; while true; do sleep 0.1; done')\n{NOTE}"
        ),
        json!({}),
    );
    eventually_blocking("the node runs", || read_notes(rig) == ["begun"]);
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["status"], "cancelled", "{outcome}");
    assert_eq!(read_notes(rig), ["begun", "ended", "the run was cancelled", "finally"]);
}

pub(super) fn cancelled_function_ends_its_started_run_before_cleaning_up(rig: &Rig) {
    let run = start_function(
        rig,
        "try:\n    await ctx.run_workflow('inner')\nfinally:\n    await ctx.run('note', 'above')",
        &format!(
            "async def inner(ctx):\n    try:\n        await ctx.gate('Go on?')\n    finally:\n        await ctx.run('note', 'below')\n\
             Workflow(id='inner', session=session, fn=inner)\n{NOTE}"
        ),
        json!({"workflow_name": "story"}),
    );
    rig.wait_for_gate(&run);
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    assert_eq!(read_notes(rig), ["below", "above"]);
}

pub(super) fn function_can_be_cancelled_at_once(rig: &Rig) {
    let run = start_function(rig, "await ctx.gate('Go on?')", "", json!({}));
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    assert_eq!(rig.get_run(&run)["status"], "cancelled");
}

pub(super) fn function_ends_at_its_time_limit(rig: &Rig) {
    let run = start_function(rig, "await ctx.sleep(600)", "", json!({"execution_timeout": 1}));
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["status"], "failed", "{outcome}");
    assert!(outcome["error"].as_str().unwrap().contains("which is its limit"), "{outcome}");
}

pub(super) fn interrupted_node_is_not_run_again(rig: &Rig) {
    let run = start_function(
        rig,
        "result = await ctx.run('slow')\nreturn [result['success'], result['error_type']]",
        "BashNode(id='slow', session=session, command='echo begun >>noted; until [ -e go ]; do sleep 0.01; done')",
        json!({}),
    );
    eventually_blocking("the node runs", || read_notes(rig) == ["begun"]);
    let daemon = rig.daemon_status();
    rig.kill_worker();
    kill(&daemon["pid"], Signal::KILL);
    std::fs::write(rig.home.path().join("go"), "").unwrap();
    rig.recover();
    let outcome = rig.wait_for_end(&run);
    assert_eq!(outcome["result"], json!([false, "unknown"]), "{outcome}");
    assert_eq!(read_notes(rig), ["begun"]);
}

pub(super) fn long_outputs_of_short_calls_are_complete(rig: &Rig) {
    let run = start_function(
        rig,
        "many = await asyncio.gather(*[ctx.run('long') for _ in range(5)])\nawait ctx.gate('Go on?')\nreturn [len(one['output']) for one in many]",
        "BashNode(id='long', session=session, command='touch at-$$; until [ $(ls at-* | wc -l) -ge 5 ]; do sleep 0.01; done; head -c 500000 /dev/zero | tr \"\\\\0\" x')",
        json!({}),
    );
    let gate = rig.wait_for_gate(&run);
    rig.crash();
    rig.recover();
    rig.answer_gate(&gate, "yes");
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("completed"), &json!(vec![500_000; 5])), "{outcome}");
}

pub(super) fn busy_function_is_paused_and_cancelled(rig: &Rig) {
    let run =
        start_function(rig, "while True:\n    sum(range(30000))\n    await ctx.run('identity', 1)", "", json!({}));
    rig.home.run(&["runs", "pause", &run]).expect_success();
    assert!(rig.get_run(&run)["paused"]["since"].is_string());
    rig.home.run(&["runs", "resume", &run]).expect_success();
    assert!(rig.get_run(&run)["paused"].is_null());
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    assert_eq!(rig.wait_for_end(&run)["status"], "cancelled");
}
