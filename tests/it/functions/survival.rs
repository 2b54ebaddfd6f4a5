//! Functions whose daemon is killed repeatedly.

use std::time::Duration;

use serde_json::Value;
use steplatch_testkit::eventually_blocking;

use crate::functions::story::Story;

/// Commands in sequence and in parallel, in a graph, in a function node and in a nested run, and gates.
const WORK: &str = "\
import asyncio
async def part(ctx):
    first = await ctx.run('note', f'{ctx.input} first')
    second = await ctx.run('note', f'{ctx.input} second')
    return [first['output'] or first['error_type'], second['output'] or second['error_type']]
async def child(ctx):
    noted = await ctx.run('note', 'child')
    verdict = await ctx.gate('Child?')
    return [noted['output'] or noted['error_type'], verdict]
async def story(ctx):
    told = []
    for at in range(3):
        noted = await ctx.run('note', f'row {at}')
        told.append(noted['output'] or noted['error_type'])
    for noted in await ctx.run_parallel([('note', f'lane {at}') for at in range(3)]):
        told.append(noted['output'] or noted['error_type'])
    graph = await ctx.run_graph('steps', 'graph')
    for step in ['one', 'two', 'three']:
        noted = graph['attributes']['steps'][step]
        told.append(noted.get('output') or noted.get('error_type') or noted['status'])
    parts = await ctx.run('part', 'part')
    told.extend(parts['output'])
    told.extend(await ctx.run_workflow('child'))
    told.append(await ctx.gate('Done?'))
    return told
BashNode(id='note', session=session, command='echo {input|sh} >>noted; sleep 0.03; printf %s {input|sh}')
FunctionNode(id='part', session=session, fn=part)
Graph(id='steps', session=session, steps=[
    Step(id='one', node='note', input='{input} one'),
    Step(id='two', node='note', input='{input} two'),
    Step(id='three', node='note', input='{input} three', depends_on=['one'], on_error='skip'),
])
Workflow(id='child', session=session, fn=child)
Workflow(id='story', session=session, fn=story)
";

#[test]
fn kill_at_any_instant_changes_no_result_and_repeats_nothing() {
    let expected = [
        "row 0",
        "row 1",
        "row 2",
        "lane 0",
        "lane 1",
        "lane 2",
        "graph one",
        "graph two",
        "graph three",
        "part first",
        "part second",
        "child",
        "yes",
        "yes",
    ];
    let passphrase = "open sesame\n";
    // With a passphrase, the runs are sealed at every gate, and locked after every kill at a gate.
    for (pause, is_sealed) in
        [(3_u64, false), (17, false), (40, false), (61, false), (83, false), (7, true), (29, true)]
    {
        let story = Story::with_source(WORK);
        if is_sealed {
            story.home.run_with_input(&["approver", "set", "--stdin"], passphrase).expect_success();
        }
        let run = story.start_with(serde_json::json!({"workflow_name": "story", "wait_seconds": 0}));
        let mut kills = 0;
        let outcome = loop {
            std::thread::sleep(Duration::from_millis(pause * (kills % 3 + 1)));
            if kills < 12 {
                story.kill_daemon();
                kills += 1;
            }
            let run_state = story.get_run(&run, if kills < 12 { 0.0 } else { 30.0 });
            match run_state["status"].as_str().unwrap() {
                "waiting" if is_sealed => {
                    drop(story.home.approve(run["run_id"].as_str().unwrap(), "yes", passphrase));
                }
                "waiting" => drop(story.answer_gate(&run, "yes")),
                "running" => {}
                _ => break run_state,
            }
        };
        assert_eq!(outcome["status"], "completed", "{outcome}");
        let results: Vec<&Value> = outcome["result"].as_array().unwrap().iter().collect();
        assert_eq!(results.len(), expected.len(), "{outcome}");
        for (result, expected) in results.iter().zip(expected) {
            let known = ["unknown", "not_run", "skipped"].contains(&result.as_str().unwrap_or("skipped"));
            assert!(**result == *expected || known, "{result} rather than {expected}: {outcome}");
        }
        let notes = std::fs::read_to_string(story.path("noted")).unwrap();
        let mut lines: Vec<&str> = notes.lines().collect();
        lines.sort_unstable();
        let total = lines.len();
        lines.dedup();
        assert_eq!(lines.len(), total, "a command was run twice after kills every {pause} ms: {notes}");
        let events = story.events(&outcome);
        let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    }
}

#[test]
fn answer_during_a_pause_is_delivered_once_across_kills() {
    for kill_after_resume in [false, true] {
        let story = Story::with_source(
            "import asyncio\n\
             async def asks(ctx):\n    word = await ctx.gate('Word?')\n    return (await ctx.run('note', word))['output']\n\
             async def works(ctx):\n    slow = await ctx.run('slow')\n    return [slow['error_type'] or slow['output'], (await ctx.run('note', 'after'))['output']]\n\
             async def story(ctx):\n    both = await asyncio.gather(asks(ctx), works(ctx))\n    await ctx.gate('Done?')\n    return both\n\
             BashNode(id='slow', session=session, command='echo >>begun; while [ ! -e go ]; do sleep 0.02; done; printf slow')\n\
             BashNode(id='note', session=session, command='echo {input|sh} >>noted; printf %s {input|sh}')\n\
             Workflow(id='story', session=session, fn=story)\n",
        );
        let run = story.start(60.0);
        crate::functions::story::wait_for_content(&story.path("begun"));
        let id = run["run_id"].as_str().unwrap();
        story.home.run(&["runs", "pause", id]).expect_success();
        story.answer_gate(&run, "yes").expect_success();
        std::fs::write(story.path("go"), "").unwrap();
        let event_types = || story.events(&run).iter().map(|event| event["event_type"].clone()).collect::<Vec<_>>();
        eventually_blocking("the command has ended", || event_types().iter().any(|event| event == "node_completed"));
        assert!(!story.path("noted").exists(), "a paused run starts no calls");
        if !kill_after_resume {
            story.kill_daemon();
        }
        story.home.run(&["runs", "resume", id]).expect_success();
        eventually_blocking("the run waits at its last gate", || {
            event_types().iter().filter(|event| *event == "gate_waiting").count() == 2
        });
        // The next daemon's replay finds the answers in place in the journal.
        story.kill_daemon();
        story.answer_gate(&run, "yes").expect_success();
        let outcome = story.get_run(&run, 60.0);
        assert_eq!(outcome["result"], serde_json::json!(["yes", ["slow", "after"]]), "{outcome}");
        assert_eq!(crate::functions::story::count_lines(&story.path("noted")), 2);
    }
}

#[test]
fn busy_function_is_cancelled_paused_and_limited() {
    let body = "while True:\n    await ctx.run('identity', 1)";
    let story = Story::with_body(body, "");
    let run = story.start(0.0);
    let pause_output = story.home.run(&["runs", "pause", run["run_id"].as_str().unwrap()]);
    assert!(pause_output.stdout.contains("paused"), "{pause_output:?}");
    story.home.run(&["runs", "resume", run["run_id"].as_str().unwrap()]).expect_success();
    let cancel_reply = story.agent.call_tool("cancel_run", serde_json::json!({"run_id": run["run_id"]}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    let limited_run = story.start_with(serde_json::json!({"wait_seconds": 60, "execution_timeout": 1}));
    assert_eq!(limited_run["status"], "failed", "{limited_run}");
    assert!(limited_run["error"].as_str().unwrap().contains("at work for 1 s"), "{limited_run}");
}

#[test]
fn computing_function_is_cancelled_before_it_ends() {
    let story = Story::with_body("await ctx.run('identity', 1)\nwhile True:\n    pass", "");
    let run = story.start(0.0);
    eventually_blocking("the function computes", || {
        story.events(&run).iter().any(|event| event["event_type"] == "node_started")
    });
    let cancel_reply = story.agent.call_tool("cancel_run", serde_json::json!({"run_id": run["run_id"]}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    assert_eq!(story.get_run(&run, 0.0)["status"], "cancelled", "the run is cancelled before its time limit");
}

#[test]
fn locked_run_keeps_results_of_children_until_answered() {
    let passphrase = "open sesame\n";
    let story = Story::with_source(
        "import asyncio\n\
         async def sub(ctx):\n    return (await ctx.run('slow'))['output'] or 'unknown'\n\
         async def story(ctx):\n    return await asyncio.gather(ctx.run_workflow('sub'), ctx.gate('Release?'))\n\
         BashNode(id='slow', session=session, command='echo >>begun; while [ ! -e go ]; do sleep 0.02; done; printf slow')\n\
         Workflow(id='sub', session=session, fn=sub)\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    story.home.run_with_input(&["approver", "set", "--stdin"], passphrase).expect_success();
    let run = story.start_with(serde_json::json!({"workflow_name": "story", "wait_seconds": 0}));
    crate::functions::story::wait_for_content(&story.path("begun"));
    let id = run["run_id"].as_str().unwrap();
    let gate = || {
        let record = story.home.run(&["runs", "show", id, "--json"]).json();
        record["pending_gates"][0]["gate_id"].as_str().map(str::to_owned)
    };
    eventually_blocking("the run asks", || gate().is_some());
    let gate = gate().unwrap();
    story.home.run(&["daemon", "restart"]).expect_success();
    let inspection = story.get_run(&run, 0.0);
    assert!(inspection["next_step"].as_str().unwrap().contains("steplatch approver unlock"), "{inspection}");
    std::fs::write(story.path("go"), "").unwrap();
    // The nested run ends, and is kept until the parent has the result, regardless of the retention.
    let has_child_in = |state: &str| {
        let runs = story.home.run(&["runs", "list", "--json"]).json();
        runs["runs"].as_array().unwrap().iter().any(|run| run["workflow_id"] == "sub" && run["state"] == state)
    };
    eventually_blocking("the nested run has ended", || has_child_in("completed"));
    story.home.run(&["daemon", "restart"]).expect_success();
    let output = story.home.run_with_input(&["gates", "answer", &gate, "yes", "--passphrase-stdin"], passphrase);
    assert!(output.code == 0 && output.stdout.contains("answered: yes"), "{output:?}");
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    let result = outcome["result"].as_array().unwrap();
    assert!(["slow", "unknown"].contains(&result[0].as_str().unwrap()) && result[1] == "yes", "{outcome}");
    assert_eq!(crate::functions::story::count_lines(&story.path("begun")), 1, "the command is not repeated");
}
