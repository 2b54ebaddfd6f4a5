//! Functions and graphs called as nodes.

use serde_json::{Value, json};
use steplatch_testkit::eventually_blocking;

use crate::functions::story::{Story, count_lines, event_types};

#[test]
fn function_is_a_node_with_calls_of_the_run() {
    let story = Story::with_source(
        "import asyncio\n\
         async def double(ctx):\n    \"\"\"Twice the input.\"\"\"\n    said = await ctx.run('say', ctx.input)\n    return said['output'].strip() * ctx.params.get('times', 2)\n\
         async def broken(ctx):\n    raise ValueError('so it is')\n\
         async def endless(ctx):\n    await ctx.gate('Anybody?')\n\
         async def deeper(ctx):\n    below = await ctx.run('deeper', ctx.input + 1)\n    return below['error'] if not below['success'] else below['output']\n\
         async def story(ctx):\n    \
             two, three = await asyncio.gather(ctx.run('double', 'ab'), ctx.run('double', 'c', times=3))\n    \
             bad = await ctx.run('broken')\n    \
             try:\n        await ctx.run('endless', timeout=0.1)\n    except TimeoutError as error:\n        late = str(error)\n    \
             deep = await ctx.run('deeper', 0)\n    \
             return [two['output'], three['output'], bad['success'], bad['error_type'], bad['error'], late, deep['output']]\n\
         BashNode(id='say', session=session, command='echo {input|sh}')\n\
         for fn in [double, broken, endless, deeper]:\n    pass\n\
         FunctionNode(id='double', session=session, fn=double)\n\
         FunctionNode(id='broken', session=session, fn=broken)\n\
         FunctionNode(id='endless', session=session, fn=endless)\n\
         FunctionNode(id='deeper', session=session, fn=deeper)\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    // A wait ends at its gate.
    let run = story.get_run(&story.start(0.0), 0.0);
    eventually_blocking("the run has ended", || story.get_run(&run, 0.0)["status"] == "completed");
    let outcome = story.get_run(&run, 0.0);
    let result = &outcome["result"];
    assert_eq!((&result[0], &result[1]), (&json!("abab"), &json!("ccc")));
    assert_eq!((&result[2], &result[3]), (&json!(false), &json!("exception")));
    assert!(result[4].as_str().unwrap().contains("ValueError: so it is"), "{result}");
    assert_eq!(result[5], "Node 'endless' took longer than 0.1 s");
    assert_eq!(result[6], "Maximum recursion depth (16) exceeded");
    let events = story.events(&outcome);
    assert!(
        event_types(&events).contains(&"gate_cancelled"),
        "the gate closes with its node: {:?}",
        event_types(&events)
    );
    let is_nested = |event: &&Value| event["data"]["node_id"] == "say" && event["data"]["within"].is_u64();
    assert_eq!(events.iter().filter(is_nested).filter(|event| event["event_type"] == "node_started").count(), 2);
}

const GRAPH: &str = "\
async def shout(ctx):
    return ctx.input.upper()
async def story(ctx):
    graph = await ctx.run_graph('release', 'v1')
    try:
        await ctx.run_graph('nothing')
    except ValueError as error:
        unknown = str(error)
    again = await ctx.run('release', 'v2')
    missing = await ctx.run_graph('missing')
    return [graph, unknown, again['output'], missing['error']]
FunctionNode(id='shout', session=session, fn=shout)
BashNode(id='say', session=session, command='printf %s {input|sh}; date +%s.%N >>times; sleep 0.5')
BashNode(id='flaky', session=session, command='echo >>tried; test $(wc -l <tried) -ge 3 && printf fine')
Graph(id='release', session=session, steps=[
    Step(id='one', node='say', input='{input} one'),
    Step(id='two', node='say', input='{input} two'),
    Step(id='three', node='flaky', on_error={'policy': 'retry', 'count': 3, 'delay': 0.01}),
    Step(id='loud', node='shout', input='{one}, {two}, {three}'),
])
Graph(id='missing', session=session, steps=[Step(id='a', node='nope')])
Workflow(id='story', session=session, fn=story)
";

#[test]
fn graph_runs_in_parallel_with_policies_and_function_steps() {
    let story = Story::with_source(GRAPH);
    let run = story.start(60.0);
    assert_eq!(run["status"], "completed", "{run}");
    let graph = &run["result"][0];
    assert_eq!(graph["output"], "V1 ONE, V1 TWO, FINE", "{graph}");
    assert_eq!(graph["attributes"]["steps"]["three"]["attempts"], 3);
    assert_eq!(graph["attributes"]["final_step_id"], "loud");
    assert_eq!(run["result"][1], "Graph 'nothing' not found in session");
    assert_eq!(run["result"][2], "V2 ONE, V2 TWO, FINE");
    assert_eq!(run["result"][3], "Step 'a' failed: Node 'nope' not found in session");
    let events = story.events(&run);
    let types = event_types(&events);
    let expected = [
        "graph_started",
        "node_started",
        "graph_step_retry",
        "graph_step_completed",
        "graph_completed",
        "node_completed",
    ];
    let mut rest = types.iter();
    assert!(expected.iter().all(|expected| rest.any(|event| event == expected)), "{types:?}");
    // The second step began before the first ended.
    let start_index = |step: &str| events.iter().position(|event| event["data"]["step_id"] == step).unwrap();
    let end_index = |step: &str| {
        events
            .iter()
            .position(|event| event["data"]["step_id"] == step && event["event_type"] == "node_completed")
            .unwrap()
    };
    assert!(start_index("two") < end_index("one") && start_index("one") < end_index("two"));
    assert_eq!(count_lines(&story.path("times")), 4);
}

#[test]
fn project_graph_has_its_own_run() {
    let story = Story::with_body("return (await ctx.run('greet', 'you'))['output']", "");
    let toml = "[nodes.hello]\ntype = \"bash\"\ncommand = \"printf 'hello %s in %s' {input|sh} \\\"$(basename \\\"$PWD\\\")\\\"\"\n\
                [graphs.greet]\nsteps = [{id = \"say\", node = \"hello\", input = \"{input}\"}]\n";
    std::fs::write(story.home.path().join("steplatch.toml"), toml).unwrap();
    let directory_name = story.home.path().file_name().unwrap().to_str().unwrap().to_owned();
    let output = story.home.run(&["graph", "run", "greet", "me", "--json"]).json();
    assert_eq!(output["output"], format!("hello me in {directory_name}"), "{output}");
    let run = story.home.run(&["runs", "show", output["run_id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(run["state"], "completed", "{run}");
    let outcome = story.start(60.0);
    assert_eq!(outcome["result"], format!("hello you in {directory_name}"), "{outcome}");
}
