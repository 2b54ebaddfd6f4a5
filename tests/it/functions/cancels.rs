//! Cancellation of functions: `asyncio.CancelledError` is raised where the function waits (003 L364-366, 608).

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::eventually_blocking;

use crate::functions::story::{Story, event_types, wait_for_content};

fn cancel(story: &Story, run: &Value) {
    let cancel_reply = story.agent.call_tool("cancel_run", json!({"run_id": run["run_id"]}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
}

const NOTE: &str = "BashNode(id='note', session=session, command='echo {input|sh} >>noted')";

fn read_notes(story: &Story) -> String {
    std::fs::read_to_string(story.path("noted")).unwrap_or_default()
}

#[test]
fn cancelled_function_cleans_up_after_its_command_exits() {
    let story = Story::with_body(
        "import asyncio\n\
         try:\n    await ctx.run('slow')\nexcept Exception as error:\n    await ctx.run('note', 'an ordinary exception')\n\
         except asyncio.CancelledError as error:\n    await ctx.run('note', str(error))\nfinally:\n    await ctx.run('note', 'finally')",
        &format!(
            "BashNode(id='slow', session=session, command='trap \"echo ended >>noted; exit\" TERM; echo >begun; while true; do sleep 0.1; done')\n{NOTE}"
        ),
    );
    let run = story.start(0.0);
    wait_for_content(&story.path("begun"));
    cancel(&story, &run);
    assert_eq!(read_notes(&story), "ended\nthe run was cancelled\nfinally\n");
    let events = story.events(&run);
    assert_eq!(event_types(&events).last(), Some(&"workflow_cancelled"));
}

#[test]
fn gate_closes_and_all_gathered_calls_clean_up() {
    let story = Story::with_source(&format!(
        "import asyncio\n\
         async def asks(ctx, what):\n    try:\n        return await ctx.gate(what)\n    finally:\n        await ctx.run('note', what)\n\
         async def node(ctx):\n    await asks(ctx, 'node')\n\
         async def story(ctx):\n    try:\n        await asyncio.gather(asks(ctx, 'one'), asks(ctx, 'two'), ctx.run('node'))\n    finally:\n        ctx.emit('over')\n\
         FunctionNode(id='node', session=session, fn=node)\n{NOTE}\nWorkflow(id='story', session=session, fn=story)\n"
    ));
    let run = story.start(60.0);
    eventually_blocking("all three gates wait", || {
        event_types(&story.events(&run)).iter().filter(|event| **event == "gate_waiting").count() == 3
    });
    cancel(&story, &run);
    let mut lines: Vec<String> = read_notes(&story).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["node", "one", "two"]);
    let events = story.events(&run);
    let types = event_types(&events);
    assert_eq!(types.iter().filter(|event| **event == "gate_cancelled").count(), 3, "{types:?}");
    assert!(types.contains(&"over"), "{types:?}");
    let late_answer = story.answer_gate(&run, "yes");
    assert_ne!(late_answer.code, 0, "{late_answer:?}");
}

#[test]
fn cancelled_function_always_finishes_as_cancelled() {
    for (then, reason) in [
        ("return 'done'", "cancelled on request"),
        ("raise ValueError('no')", "cancelled on request; its function failed during the cancellation"),
        ("raise", "cancelled on request"),
        ("while True:\n        pass", "cancelled on request"),
    ] {
        let story =
            Story::with_body(&format!("try:\n    await ctx.gate('Well?')\nexcept BaseException:\n    {then}"), "");
        let run = story.start(60.0);
        cancel(&story, &run);
        let last = story.events(&run).pop().unwrap();
        assert_eq!(last["event_type"], "workflow_cancelled");
        let actual = last["data"]["reason"].as_str().unwrap();
        assert!(actual.starts_with(reason), "{actual}");
    }
    // The function raises the error itself, as in the document.
    let story = Story::with_body("import asyncio\nraise asyncio.CancelledError()", "");
    assert_eq!(story.start(60.0)["status"], "cancelled");
}

#[test]
fn unresponsive_function_ends_at_its_limit_or_a_second_cancel() {
    let story = Story::with_body(
        "told = 0\nwhile True:\n    try:\n        await ctx.gate('Again?')\n    except BaseException:\n        ctx.emit('told')",
        "",
    );
    let run = story.start(60.0);
    cancel(&story, &run);
    assert_eq!(event_types(&story.events(&run)).iter().filter(|event| **event == "told").count(), 1);

    let run = story.start(60.0);
    let id = run["run_id"].as_str().unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| story.home.run(&["runs", "cancel", id]));
        eventually_blocking("the function was notified", || event_types(&story.events(&run)).contains(&"told"));
        story.home.run(&["runs", "cancel", id]).expect_success();
        assert_eq!(story.get_run(&run, 0.0)["status"], "cancelled");
        first.join().unwrap().expect_success();
    });
}

#[test]
fn paused_function_cleans_up_without_the_held_answers() {
    let story = Story::with_body(
        "try:\n    word = await ctx.gate('Word?')\n    await ctx.run('note', word)\nfinally:\n    await ctx.run('note', 'finally')",
        NOTE,
    );
    let run = story.start(60.0);
    story.home.run(&["runs", "pause", run["run_id"].as_str().unwrap()]).expect_success();
    story.answer_gate(&run, "never").expect_success();
    cancel(&story, &run);
    assert_eq!(read_notes(&story), "finally\n");
}

#[test]
fn nested_run_cleans_up_with_its_parent() {
    let story = Story::with_source(&format!(
        "async def child(ctx):\n    try:\n        await ctx.gate('Child?')\n    finally:\n        await ctx.run('note', 'child')\n\
         async def story(ctx):\n    try:\n        await ctx.run_workflow('child')\n    finally:\n        await ctx.run('note', 'parent')\n\
         {NOTE}\nWorkflow(id='child', session=session, fn=child)\nWorkflow(id='story', session=session, fn=story)\n"
    ));
    let run = story.start_with(json!({"workflow_name": "story", "wait_seconds": 60}));
    assert_eq!(run["status"], "waiting", "{run}");
    cancel(&story, &run);
    assert_eq!(read_notes(&story), "child\nparent\n");
}

#[test]
fn cancel_outlives_the_daemon() {
    let story = Story::with_body(
        "try:\n    await ctx.gate('Well?')\nfinally:\n    await ctx.run('slow')\n    await ctx.run('note', 'cleaned')",
        &format!(
            "BashNode(id='slow', session=session, command='echo once >>begun; while [ ! -e go ]; do sleep 0.02; done')\n{NOTE}"
        ),
    );
    let run = story.start(60.0);
    let id = run["run_id"].as_str().unwrap();
    std::thread::scope(|scope| {
        let cancel_call = scope.spawn(|| story.home.run(&["runs", "cancel", id]));
        wait_for_content(&story.path("begun"));
        story.kill_daemon();
        // No daemon is left to reply.
        drop(cancel_call.join().unwrap());
    });
    eventually_blocking("the run has ended", || story.get_run(&run, 0.0)["status"] == "cancelled");
    assert_eq!(read_notes(&story), "cleaned\n", "only the next command was run");
    assert_eq!(crate::functions::story::count_lines(&story.path("begun")), 1);
}

/// A command that records a termination request, and ignores it.
const STUBBORN: &str = "BashNode(id='slow', session=session, \
                        command='trap \"echo >asked\" TERM; echo >begun; while true; do sleep 0.05; done')";

/// Kills the daemon after it began to cancel the run, but before the function is notified, because its command is still
/// running.
fn cancel_and_kill_daemon(story: &Story, run: &Value) {
    wait_for_content(&story.path("begun"));
    let (id, daemon) = (run["run_id"].as_str().unwrap(), story.daemon_pid());
    std::thread::scope(|scope| {
        let cancel_call = scope.spawn(|| story.home.run(&["runs", "cancel", id]));
        wait_for_content(&story.path("asked"));
        kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
        // No daemon is left to reply.
        drop(cancel_call.join().unwrap());
    });
    eventually_blocking("the run has ended", || story.get_run(run, 0.0)["status"] == "cancelled");
}

#[test]
fn undelivered_cancel_outlives_the_daemon() {
    let story = Story::with_body(
        "import asyncio\ntry:\n    await ctx.run('slow')\nexcept asyncio.CancelledError:\n    await ctx.run('note', 'told')\n    raise",
        &format!("{STUBBORN}\n{NOTE}"),
    );
    let run = story.start(0.0);
    cancel_and_kill_daemon(&story, &run);
    assert_eq!(read_notes(&story), "told\n");
}

#[test]
fn held_answer_is_never_delivered_after_a_cancel() {
    let story = Story::with_source(&format!(
        "import asyncio\n\
         async def asks(ctx):\n    word = await ctx.gate('Word?')\n    await ctx.run('note', word)\n\
         async def story(ctx):\n    try:\n        await asyncio.gather(asks(ctx), ctx.run('slow'))\n    finally:\n        await ctx.run('note', 'finally')\n\
         {STUBBORN}\n{NOTE}\nWorkflow(id='story', session=session, fn=story)\n"
    ));
    let run = story.start(60.0);
    story.home.run(&["runs", "pause", run["run_id"].as_str().unwrap()]).expect_success();
    story.answer_gate(&run, "never").expect_success();
    cancel_and_kill_daemon(&story, &run);
    assert_eq!(read_notes(&story), "finally\n");
}

#[test]
fn closed_gate_is_not_cancelled_by_the_end_of_the_run() {
    let story = Story::with_body("return await ctx.gate('Go?', choices=['a', 'b'])", "");
    let run = story.start(60.0);
    story.answer_gate(&run, "a").expect_success();
    // The answer is accepted before the function continues.
    eventually_blocking("the run has ended", || event_types(&story.events(&run)).last() == Some(&"workflow_completed"));
    let events = story.events(&run);
    assert_eq!(event_types(&events), ["workflow_started", "gate_waiting", "gate_answered", "workflow_completed"]);

    for (body, end) in [
        ("return await ctx.gate('Go?', timeout=0.1)", "workflow_failed"),
        ("try:\n    await ctx.gate('Go?', timeout=0.1)\nexcept Exception:\n    return 1", "workflow_completed"),
    ] {
        let story = Story::with_body(body, "");
        let run = story.start(0.0);
        eventually_blocking("the run has ended", || event_types(&story.events(&run)).last() == Some(&end));
        assert_eq!(event_types(&story.events(&run)), ["workflow_started", "gate_waiting", "gate_timeout", end]);
    }
}
