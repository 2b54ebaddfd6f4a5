//! Functions whose daemon is killed again and again.

use std::time::Duration;

use serde_json::Value;

use crate::story::Story;

/// Commands in a row, in parallel, in a graph, in a function node and in a nested run, and gates.
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
fn killed_at_any_instant_it_ends_the_same_and_runs_no_command_twice() {
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
    for pause in [3_u64, 17, 40, 61, 83] {
        let story = Story::whole(WORK);
        let run = story.begins_with(serde_json::json!({"workflow_name": "story", "wait_seconds": 0}));
        let mut kills = 0;
        let over = loop {
            std::thread::sleep(Duration::from_millis(pause * (kills % 3 + 1)));
            if kills < 12 {
                story.kills_the_daemon();
                kills += 1;
            }
            let now = story.looks(&run, if kills < 12 { 0.0 } else { 30.0 });
            match now["status"].as_str().unwrap() {
                "waiting" => drop(story.answers(&run, "yes")),
                "running" => {}
                _ => break now,
            }
        };
        assert_eq!(over["status"], "completed", "{over}");
        let told: Vec<&Value> = over["result"].as_array().unwrap().iter().collect();
        assert_eq!(told.len(), expected.len(), "{over}");
        for (told, expected) in told.iter().zip(expected) {
            let known = ["unknown", "not_run", "skipped"].contains(&told.as_str().unwrap_or("skipped"));
            assert!(**told == *expected || known, "{told} rather than {expected}: {over}");
        }
        let noted = std::fs::read_to_string(story.path("noted")).unwrap();
        let mut lines: Vec<&str> = noted.lines().collect();
        lines.sort_unstable();
        let all = lines.len();
        lines.dedup();
        assert_eq!(lines.len(), all, "a command was run twice after kills every {pause} ms: {noted}");
        let events = story.events(&over);
        let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    }
}
