//! Function nodes in the run's own file: they share one heap with the function that calls them (003 L1610-1637).

use serde_json::{Value, json};

use crate::functions::story::{Story, count_lines, event_types, wait_for_content};

#[test]
fn node_variables_are_shared_by_functions_of_one_run() {
    let story = Story::with_source(
        "import asyncio\nseen = []\ntotal = 0\n\
         def notes(ctx):\n    global total\n    seen.append(ctx.input)\n    total += 1\n    return total\n\
         async def deeper(ctx):\n    await ctx.run('notes', ctx.input + ' deeper')\n    return [len(seen), total]\n\
         async def story(ctx):\n    await ctx.run('notes', 'first')\n    \
             await asyncio.gather(ctx.run('deeper', 'a'), ctx.run('deeper', 'b'))\n    \
             await ctx.run_parallel([('notes', 'c'), ('notes', 'd')])\n    await ctx.gate('Go on?')\n    \
             await ctx.run('notes', 'last')\n    return [seen, total]\n\
         FunctionNode(id='notes', session=session, fn=notes)\nFunctionNode(id='deeper', session=session, fn=deeper)\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    let run = story.start(60.0);
    story.kill_daemon();
    story.answer_gate(&run, "yes").expect_success();
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(outcome["result"], json!([["first", "a deeper", "b deeper", "c", "d", "last"], 6]), "{outcome}");
    let other_run = story.start(60.0);
    story.answer_gate(&other_run, "yes").expect_success();
    assert_eq!(story.get_run(&other_run, 60.0)["result"][1], 6, "another run has its own variables");
    // A call keeps its events, and the calls of its node refer to its number.
    let events = story.events(&run);
    let event_data = |kind: &str, node: &str| -> Vec<Value> {
        let matching = events.iter().filter(|event| event["event_type"] == kind && event["data"]["node_id"] == node);
        matching.map(|event| event["data"].clone()).collect()
    };
    let deeper_calls: Vec<Value> =
        event_data("node_started", "deeper").iter().map(|data| data["call"].clone()).collect();
    let parent_calls: Vec<Value> =
        event_data("node_started", "notes").iter().map(|data| data["within"].clone()).collect();
    assert_eq!(parent_calls[1..3], deeper_calls[..], "{events:?}");
    assert_eq!(event_data("node_completed", "notes").len(), 6);
    assert_eq!(event_data("node_completed", "deeper")[0]["result"]["node_type"], "function");
}

#[test]
fn graph_steps_and_external_calls_have_their_own_heap() {
    let story = Story::with_source(
        "counter = {'value': 0}\n\
         def counts(ctx):\n    counter['value'] += 1\n    return counter['value']\n\
         async def story(ctx):\n    own = [(await ctx.run('counts'))['output'] for _ in range(2)]\n    \
             graph = await ctx.run_graph('twice')\n    return [own, graph['output'], counter['value']]\n\
         FunctionNode(id='counts', session=session, fn=counts)\n\
         Graph(id='twice', session=session, steps=[Step(id='a', node='counts'), Step(id='b', node='counts', depends_on=['a'])])\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    assert_eq!(story.start(60.0)["result"], json!([[1, 2], 1, 2]));
}

#[test]
fn slow_nested_paused_or_cancelled_node_is_an_ordinary_call() {
    let story = Story::with_source(
        "import asyncio\nseen = []\n\
         async def slow(ctx):\n    seen.append('begun')\n    await ctx.run('command')\n    seen.append('never')\n\
         async def deep(ctx):\n    below = await ctx.run('deep')\n    return below['error'] if not below['success'] else below['output']\n\
         async def story(ctx):\n    try:\n        await ctx.run('slow', timeout=2)\n    except TimeoutError as error:\n        seen.append(str(error))\n    \
             seen.append((await ctx.run('deep'))['output'])\n    await ctx.gate('Well?')\n    seen.append((await ctx.run('quick', 1))['output'])\n    return seen\n\
         BashNode(id='command', session=session, command='trap \"echo >>ended; exit\" TERM; echo >begun; while true; do sleep 0.05; done')\n\
         FunctionNode(id='slow', session=session, fn=slow)\nFunctionNode(id='deep', session=session, fn=deep)\n\
         FunctionNode(id='quick', session=session, fn=lambda ctx: ctx.input)\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    let run = story.start(60.0);
    wait_for_content(&story.path("begun"));
    assert_eq!(count_lines(&story.path("ended")), 1, "the calls of a node end with the node");
    let id = run["run_id"].as_str().unwrap();
    story.home.run(&["runs", "pause", id]).expect_success();
    story.answer_gate(&run, "yes").expect_success();
    let quick_calls = || story.events(&run).iter().filter(|event| event["data"]["node_id"] == "quick").count();
    assert_eq!(quick_calls(), 0, "a paused run starts no calls");
    story.home.run(&["runs", "resume", id]).expect_success();
    let outcome = story.get_run(&run, 60.0);
    let timeout_message = "Node 'slow' took longer than 2 s";
    assert_eq!(
        outcome["result"],
        json!(["begun", timeout_message, "Maximum recursion depth (16) exceeded", 1]),
        "{outcome}"
    );
    assert!(event_types(&story.events(&run)).contains(&"node_timeout"));
}

#[test]
fn variables_survive_a_kill_at_any_instant() {
    for pause in [5_u64, 23, 47] {
        let story = Story::with_source(
            "import asyncio\nsum = {'value': 0}\n\
             async def adds(ctx):\n    drawn = await ctx.run('identity', ctx.input)\n    await ctx.sleep(0.01)\n    sum['value'] += drawn['output']\n    return {'output': sum['value']}\n\
             async def story(ctx):\n    last = 0\n    for at in range(12):\n        \
                 both = await asyncio.gather(ctx.run('adds', at), ctx.run('adds', 100))\n        last = max(one['output'] for one in both)\n    return [last, sum['value']]\n\
             FunctionNode(id='adds', session=session, fn=adds)\nWorkflow(id='story', session=session, fn=story)\n",
        );
        let run = story.start(0.0);
        for kill in 0..8 {
            std::thread::sleep(std::time::Duration::from_millis(pause * (kill % 3 + 1)));
            story.get_run(&run, 0.0);
            story.kill_daemon();
        }
        let outcome = story.get_run(&run, 60.0);
        assert_eq!(outcome["result"], json!([1266, 1266]), "{outcome}");
    }
}

// 003 L1504-1515: a dict with the keys of a result is used as the result.
#[test]
fn function_may_return_a_result() {
    let story = Story::with_source(
        "returned = {\n    'output': {'output': 1},\n    'failed': {'success': False, 'output': 2, 'error': 'so it is', 'error_type': 'tool', 'attributes': {'a': 1}},\n    \
             'silent': {'success': False, 'output': None},\n    'odd': {'output': 1, 'error_type': 'odd', 'error': 'x'},\n    \
             'no output': {'success': False, 'error': 'x'},\n    'more': {'output': 1, 'and': 2},\n    'other types': {'output': 1, 'success': 'yes'},\n}\n\
         def gives(ctx):\n    return returned[ctx.input]\n\
         async def story(ctx):\n    told = {}\n    for name in returned:\n        result = await ctx.run('gives', name)\n        \
             told[name] = [result['success'], result['output'], result['error'], result['error_type'], result['attributes'], result['node_id']]\n    \
             graph = await ctx.run_graph('one', 'failed')\n    told['graph'] = [graph['success'], graph['attributes']['steps']['a']['error']]\n    return told\n\
         FunctionNode(id='gives', session=session, fn=gives)\n\
         Graph(id='one', session=session, steps=[Step(id='a', node='gives', input='{input}')])\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    let outcome = story.start(60.0);
    let result = &outcome["result"];
    assert_eq!(result["output"], json!([true, 1, null, null, {}, "gives"]), "{outcome}");
    assert_eq!(result["failed"], json!([false, 2, "so it is", "tool", {"a": 1}, "gives"]));
    assert_eq!(result["silent"], json!([false, null, "The function reported a failure.", "exception", {}, "gives"]));
    assert_eq!(result["odd"], json!([false, 1, "x", "exception", {}, "gives"]));
    for unrecognized in ["no output", "more", "other types"] {
        assert_eq!(
            (&result[unrecognized][0], result[unrecognized][1].is_object()),
            (&json!(true), true),
            "{unrecognized}: {result}"
        );
    }
    assert_eq!(result["graph"], json!([false, "so it is"]), "{outcome}");
}
