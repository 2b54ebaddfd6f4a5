//! Features available to functions, and the errors of failing functions.

use expect_test::expect;
use serde_json::json;
use steplatch_python_api::{Answer, FailureKind};

use crate::test_execution::{TestExecution, load, start_of, workflow};

const RELEASE_NOTES: &str = include_str!("release_notes.py");

fn node(output: &str) -> serde_json::Value {
    json!({ "success": true, "output": output, "error": null })
}

#[test]
fn example_of_the_contract_runs_unchanged() {
    let program = load(RELEASE_NOTES);
    let declaration = &program.declarations()[0];
    assert_eq!(declaration.description.as_deref(), Some("Draft release notes and let a person have the last word."));
    assert_eq!(declaration.line, Some(18));

    let mut run = TestExecution::start(&program, &start_of("release_notes", json!(null)));
    assert_eq!(run.new_calls(), [r#"1 ctx.run(node="git_log", input="HEAD~20..HEAD")"#]);
    run.answer_value(1, node("fix: a"));
    assert_eq!(run.new_calls(), [r#"2 ctx.run(node="writer", input="Write release notes for:\nfix: a")"#]);
    run.answer_value(2, node("We fixed a."));
    assert_eq!(
        run.new_calls(),
        [
            r#"3 ctx.emit(event_type="draft_ready", data={"length":11})"#,
            r#"4 ctx.gate(prompt="Publish these notes?", timeout=86400.0, choices=["publish","again","stop"])"#,
        ]
    );
    run.answer_value(4, json!("again"));
    assert_eq!(run.new_calls(), [r#"5 ctx.run(node="writer", input="Make it shorter:\nWe fixed a.")"#]);
    run.answer_value(5, node("Fixed a."));
    run.answer_value(6, json!("publish"));
    assert_eq!(run.result(), json!("Fixed a."));

    let mut undecided = TestExecution::start(&program, &start_of("release_notes", json!(null)));
    undecided.answer_value(1, node("x"));
    undecided.answer_value(2, node("y"));
    for round in 0..5 {
        undecided.answer_value(4 + 2 * round, json!("again"));
        undecided.answer_value(5 + 2 * round, node("y"));
    }
    expect![[r#"
        Traceback (most recent call last):
          File "flow.py", line 16, in release_notes
            raise ValueError("five drafts, no agreement")
        ValueError: five drafts, no agreement"#]]
    .assert_eq(&undecided.failure().to_string());
}

#[test]
fn timeout_can_be_caught_by_either_name() {
    for name in ["TimeoutError", "asyncio.TimeoutError"] {
        let mut run = TestExecution::start_body(&format!(
            "try:\n    return await ctx.gate('Well?', timeout=0)\nexcept {name} as error:\n    return f'late: {{error}}'"
        ));
        run.answer(1, Answer::timed_out("nobody answered"));
        assert_eq!(run.result(), json!("late: nobody answered"), "{name}");
    }
}

#[test]
fn uncaught_exception_fails_the_run_at_its_call() {
    let mut run = TestExecution::start_body("x = 1\nreturn await ctx.run('nope', x)");
    run.answer(1, Answer::refused("Node 'nope' not found in session"));
    expect![[r#"
        Traceback (most recent call last):
          File "flow.py", line 4, in it
            return await ctx.run('nope', x)
                   ^^^^^^^^^^^^^^^^^^^^^^^^
        ValueError: Node 'nope' not found in session"#]]
    .assert_eq(&run.failure().to_string());
    assert_eq!(run.failure().kind, FailureKind::Raised);
}

#[test]
fn gathered_calls_are_made_together_and_answered_in_any_order() {
    let mut run = TestExecution::start_body("return await asyncio.gather(ctx.run('a'), ctx.run('b'), ctx.run('c'))");
    assert_eq!(run.waiting(), [1, 2, 3]);
    run.answer_value(3, json!("c"));
    run.answer_value(1, json!("a"));
    assert_eq!(run.waiting(), [2]);
    run.answer_value(2, json!("b"));
    assert_eq!(run.result(), json!(["a", "b", "c"]));
}

#[test]
fn failure_is_raised_immediately_and_the_other_calls_continue() {
    let mut run = TestExecution::start_body(
        "try:\n    await asyncio.gather(ctx.run('a'), ctx.run('b'))\n\
         except ValueError as error:\n    return await ctx.run('c', str(error))",
    );
    run.answer(2, Answer::refused("no b"));
    assert_eq!(run.new_calls(), [r#"3 ctx.run(node="c", input="no b")"#]);
    assert_eq!(run.waiting(), [1, 3]);
    let progress = run.answer_value(3, json!("c"));
    assert_eq!(progress.abandoned, [1], "the call is no longer awaited");
    assert_eq!(run.result(), json!("c"));
    assert!(run.answer_value(1, json!("too late")).calls.is_empty());
}

#[test]
fn exception_can_be_caught_in_one_gathered_function() {
    let mut run = TestExecution::start_body(
        "async def careful(node):\n    try:\n        return await ctx.run(node, timeout=1)\n    except asyncio.TimeoutError:\n        \
         return 'late'\nreturn await asyncio.gather(careful('a'), careful('b'))",
    );
    run.answer(2, Answer::timed_out("b took too long"));
    run.answer_value(1, json!("a"));
    assert_eq!(run.result(), json!(["a", "late"]));
}

#[test]
fn parallel_calls_keep_their_order_and_limit() {
    let mut run = TestExecution::start_body("return await ctx.run_parallel([('a', 1), ('b', 2), ('c', 3)], limit=2)");
    assert_eq!(run.waiting(), [1, 2]);
    run.answer(2, Answer::refused("Node 'b' not found in session"));
    assert_eq!(run.new_calls(), [r#"3 ctx.run(node="c", input=3)"#]);
    run.answer_value(3, json!("third"));
    run.answer_value(1, json!("first"));
    let result = run.result();
    assert_eq!((&result[0], &result[2]), (&json!("first"), &json!("third")));
    assert_eq!(result[1]["success"], json!(false));
    assert_eq!(result[1]["error"], json!("Node 'b' not found in session"));
    assert_eq!(result[1]["error_type"], json!("ValueError"));

    assert_eq!(TestExecution::start_body("return await ctx.run_parallel([])").result(), json!([]));
}

#[test]
fn each_context_method_makes_its_own_call() {
    let mut run = TestExecution::start_body(
        "ctx.state['n'] = 1\nprint('hello', 'you')\nprint('there')\nt = ctx.now()\nr = ctx.random()\n\
         await ctx.sleep(1.5)\nw = await ctx.run_workflow('other', {'a': 1}, params={'p': 2}, timeout=3)\n\
         g = await ctx.run_graph('graph', 'x')\nprint('bye', end='')\nreturn [t, r, w, g, ctx.state, ctx.input, ctx.params]",
    );
    assert_eq!(run.new_calls(), [r#"1 print(text="hello you\nthere")"#, "2 ctx.now()"]);
    run.answer_value(2, json!(1700000000.5));
    run.answer_value(3, json!(0.25));
    assert_eq!(run.new_calls(), ["4 ctx.sleep(seconds=1.5)"]);
    run.answer_value(4, json!(null));
    assert_eq!(
        run.new_calls(),
        [r#"5 ctx.run_workflow(workflow="other", input={"a":1}, params={"p":2}, timeout=3.0)"#]
    );
    run.answer_value(5, json!("w"));
    assert_eq!(run.new_calls(), [r#"6 ctx.run_graph(graph="graph", input="x")"#]);
    run.answer_value(6, json!("g"));
    assert_eq!(run.new_calls(), [r#"7 print(text="bye")"#]);
    assert_eq!(run.result(), json!([1700000000.5, 0.25, "w", "g", { "n": 1 }, "in", {}]));
}

#[test]
fn answer_during_a_blocking_call_is_kept() {
    let mut run = TestExecution::start_body(
        "async def timed():\n    await ctx.run('a')\n    return ctx.now()\nreturn await asyncio.gather(timed(), ctx.run('b'))",
    );
    run.answer_value(1, json!(null));
    assert_eq!(run.waiting(), [2, 3]);
    run.answer_value(2, json!("b"));
    assert_eq!(run.waiting(), [3]);
    run.answer_value(3, json!(7));
    assert_eq!(run.result(), json!([7, "b"]));
}

#[test]
fn closures_dataclasses_and_the_standard_library_work() {
    let run = TestExecution::start_body(
        "import json, re, math\nfrom dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int\n    y: int = 2\n\
         def adder(n):\n    return lambda m: n + m\np = Point(1)\nwhile p.x < 5:\n    p.x += 1\n\
         return {'p': [p.x, p.y], 'sum': adder(2)(3), 'json': json.loads('[1]'), 're': re.findall('a+', 'baab'),\
          'sorted': sorted({3, 1, 2}), 'pi': math.floor(math.pi)}",
    );
    assert_eq!(run.result(), json!({ "p": [5, 2], "sum": 5, "json": [1], "re": ["aa"], "sorted": [1, 2, 3], "pi": 3 }));
}

#[test]
fn non_json_value_is_reported_with_its_path() {
    for (body, message) in [
        ("return {'a': [1, {2}]}", r#"the result is not JSON: at ["a"][1] it has a set; sorted(…) makes a list of it"#),
        ("return float('nan')", "the result is not JSON: it is the number NaN, which JSON does not have"),
        ("return it", "the result is not JSON: it is"),
    ] {
        let failure = TestExecution::start_body(body).failure();
        assert_eq!(failure.kind, FailureKind::NotJson);
        assert!(failure.message.starts_with(message), "{}", failure.message);
    }
    // A function can catch the error about a non-JSON argument.
    let run = TestExecution::start_body(
        "try:\n    await ctx.run('a', {1, 2})\nexcept TypeError as error:\n    return str(error)",
    );
    assert_eq!(run.result(), json!("input of ctx.run is not JSON: it is a set; sorted(…) makes a list of it"));
    let run = TestExecution::start_body(
        "try:\n    await ctx.gate('x', timeout=-1)\nexcept TypeError as error:\n    return str(error)",
    );
    assert_eq!(run.result(), json!("timeout of ctx.gate must be a number of seconds from 0, not -1"));
}

#[test]
fn function_node_is_executed_like_a_workflow() {
    let program = load(
        "async def shout(ctx):\n    return ctx.input.upper()\nFunctionNode(id='shout', session=session, fn=shout)\n",
    );
    assert_eq!(TestExecution::start(&program, &start_of("shout", json!("hey"))).result(), json!("HEY"));
}

#[test]
fn unknown_function_is_named_in_the_error() {
    let run = TestExecution::start(&load(&workflow("return 1")), &start_of("other", json!(null)));
    assert_eq!(run.failure().kind, FailureKind::Unknown);
    assert_eq!(run.failure().message, "the file declares no workflow or function node 'other'");
}

#[test]
fn files_and_clocks_are_inaccessible() {
    for body in
        ["open('/etc/passwd').read()", "from datetime import datetime\ndatetime.now()", "import os\nos.getenv('HOME')"]
    {
        let failure = TestExecution::start_body(body).failure();
        assert!(failure.message.starts_with("a workflow has no files"), "{body}: {failure}");
    }
}
