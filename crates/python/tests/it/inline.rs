//! Function nodes that an execution runs itself, and cancelled executions.

use serde_json::json;
use steplatch_python::{Execution, Program};
use steplatch_python_api::{Answer, CallKind, FailureKind, Limits, Progress, State};

use crate::test_execution::{TestExecution, load, start_of};

/// Answers the calls of ended functions with their results, as a daemon does. Returns descriptions of all calls made.
fn answer_ended(run: &mut TestExecution) -> Vec<String> {
    let mut calls = run.new_calls();
    loop {
        let ended = run.progress.calls.iter().find_map(|call| match &call.kind {
            CallKind::Ended { of, output, error, cancelled } => Some((*of, output.clone(), error.clone(), *cancelled)),
            _ => None,
        });
        match ended {
            Some((of, _, Some(error), true)) => run.answer(of, Answer::cancelled(error)),
            Some((of, _, Some(error), _)) => run.answer_value(of, json!({"success": false, "error": error})),
            Some((of, output, None, _)) => run.answer_value(of, json!({"success": true, "output": output})),
            None => return calls,
        };
        calls.extend(run.new_calls());
    }
}

fn assert_replays(program: &Program, run: &TestExecution) {
    for length in 0..=run.history.len() {
        let prefix = run.history[..length].to_vec();
        let replayed = Execution::replay(program, &start_of("it", json!("in")), &Limits::default(), prefix, || ());
        let (execution, Progress { calls, .. }) =
            replayed.unwrap_or_else(|divergence| panic!("{length}: {divergence}"));
        if length == run.history.len() {
            assert_eq!((execution.state(), calls), (run.execution.state(), Vec::new()));
        }
    }
}

// 003 L1611-1637: the node and the workflow share the module's variables.
#[test]
fn inline_node_shares_the_variables_of_the_module() {
    let program = load(
        "counter = {'value': 0}\n\
         FunctionNode(id='increment', session=session, fn=lambda ctx: counter.__setitem__('value', counter['value'] + 1) or counter['value'])\n\
         async def it(ctx):\n    seen = []\n    while counter['value'] < 3:\n        seen.append((await ctx.run('increment', None))['output'])\n    return [seen, counter.__getitem__('value')]\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    for round in 0..3 {
        run.inline(1 + 2 * round);
        answer_ended(&mut run);
    }
    assert_eq!(run.result(), json!([[1, 2, 3], 3]));
    assert_replays(&program, &run);
}

#[test]
fn calls_of_a_node_name_their_enclosing_call() {
    let program = load(
        "async def outer(ctx):\n    a = await ctx.run('inner', ctx.input + 1, extra='x')\n    ctx.emit('between')\n    return [a['output'], ctx.params, ctx.state]\n\
         async def inner(ctx):\n    ctx.state['n'] = 1\n    b = await ctx.run('command', ctx.input)\n    return [b, ctx.params]\n\
         async def it(ctx):\n    ctx.state['n'] = 0\n    both = await ctx.run_parallel([('outer', 1), ('outer', 10)])\n    return [both[0]['output'], both[1]['output'], ctx.state]\n\
         FunctionNode(id='outer', session=session, fn=outer)\nFunctionNode(id='inner', session=session, fn=inner)\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    assert_eq!(run.waiting(), [1, 2]);
    run.inline(2);
    run.inline(1);
    let calls = run.history.iter().filter_map(|entry| match entry {
        steplatch_python_api::Entry::Called(call) => Some((call.ordinal, call.within)),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), [(1, None), (2, None), (3, Some(2)), (4, Some(1))]);
    run.inline(3);
    run.inline(4);
    assert_eq!(run.new_calls(), [r#"6 ctx.run(node="command", input=2)"#]);
    assert_eq!(run.progress.calls[0].within, Some(4));
    run.answer_value(6, json!("first"));
    answer_ended(&mut run);
    assert_eq!(run.waiting(), [2, 3, 5]);
    run.answer_value(5, json!("second"));
    answer_ended(&mut run);
    assert_eq!(
        run.result(),
        json!([[["first", {"extra": "x"}], {}, {}], [["second", {"extra": "x"}], {}, {}], {"n": 0}])
    );
    assert_replays(&program, &run);
}

#[test]
fn failing_node_does_not_fail_its_caller() {
    let program = load(
        "async def broken(ctx):\n    raise ValueError('so it is')\n\
         def deep(ctx):\n    return deep(ctx)\n\
         FunctionNode(id='broken', session=session, fn=broken)\n\
         FunctionNode(id='deep', session=session, fn=deep)\n\
         FunctionNode(id='sets', session=session, fn=lambda ctx: {1, 2})\n\
         async def it(ctx):\n    return [(await ctx.run(node))['error'] for node in ['broken', 'deep', 'sets']]\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    for round in 0..3 {
        run.inline(1 + 2 * round);
        answer_ended(&mut run);
    }
    let result = run.result();
    assert_eq!(result[0], "ValueError: so it is");
    assert!(result[1].as_str().unwrap_or_default().starts_with("RecursionError: "), "{result}");
    assert_eq!(result[2], "TypeError: the result is not JSON: it is a set; sorted(…) makes a list of it");
    assert_replays(&program, &run);
}

#[test]
fn early_answer_abandons_the_node() {
    let program = load(
        "told = []\n\
         async def slow(ctx):\n    told.append('begun')\n    await ctx.run('command')\n    told.append('never')\n\
         FunctionNode(id='slow', session=session, fn=slow)\n\
         async def it(ctx):\n    try:\n        await ctx.run('slow', timeout=1)\n    except TimeoutError as error:\n        told.append(str(error))\n    result = await ctx.run('slow')\n    told.append(result['output'])\n    await ctx.gate('Well?')\n    return told\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    run.inline(1);
    assert_eq!(run.waiting(), [1, 2]);
    run.answer(1, Answer::timed_out("too slow"));
    run.inline(3);
    run.answer_value(3, json!({"success": false, "output": "its own limit"}));
    run.answer_value(5, json!("yes"));
    assert_eq!(run.result(), json!(["begun", "too slow", "begun", "its own limit"]));
    assert_replays(&program, &run);
}

// 003 L364-366, 608: a cancel raises CancelledError where the function waits.
#[test]
fn cancellation_is_raised_in_waits_and_cleanup_runs() {
    for name in ["asyncio.CancelledError", "CancelledError", "BaseException"] {
        let program = load(&format!(
            "import asyncio\nfrom asyncio import CancelledError, gather\n\
             told = []\n\
             async def waits(ctx, name):\n    try:\n        await ctx.run(name)\n    except Exception:\n        told.append('no')\n    finally:\n        await ctx.run('cleans', name)\n\
             async def it(ctx):\n    try:\n        await gather(waits(ctx, 'a'), waits(ctx, 'b'), ctx.gate('c'))\n    except {name} as error:\n        ctx.emit('cleans', [told, str(error)])\n        raise\n\
             Workflow(id='it', session=session, fn=it)\n"
        ));
        let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
        assert_eq!(run.waiting(), [1, 2, 3]);
        run.cancel();
        assert_eq!(run.waiting(), [5, 6]);
        assert_eq!(
            run.new_calls(),
            [
                r#"4 ctx.emit(event_type="cleans", data=[[],"the run was cancelled"])"#,
                r#"5 ctx.run(node="cleans", input="a")"#,
                r#"6 ctx.run(node="cleans", input="b")"#,
            ],
            "{name}"
        );
        run.answer_value(6, json!(null));
        assert_eq!(run.waiting(), [5], "the function ends after all cleanup");
        run.answer_value(5, json!(null));
        assert_eq!(
            (run.failure().kind, run.failure().exception.as_str()),
            (FailureKind::Cancelled, "asyncio.CancelledError")
        );
        assert_replays(&program, &run);
    }
}

#[test]
fn cancellation_reaches_nodes_before_their_callers() {
    let program = load(
        "import asyncio\ntold = []\n\
         async def node(ctx):\n    try:\n        await ctx.sleep(1)\n    finally:\n        await ctx.run('cleans')\n        told.append('node')\n\
         FunctionNode(id='node', session=session, fn=node)\n\
         async def it(ctx):\n    try:\n        await ctx.run('node')\n    except asyncio.CancelledError:\n        return told + ['caller']\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    run.inline(1);
    run.cancel();
    assert_eq!(run.waiting(), [1, 3], "the call waits for the node's cleanup");
    run.answer_value(3, json!(null));
    answer_ended(&mut run);
    assert_eq!(run.result(), json!(["node", "caller"]));
    assert_replays(&program, &run);
}

#[test]
fn cancellation_waits_for_a_blocking_call() {
    let program = load(
        "async def it(ctx):\n    at = ctx.now()\n    try:\n        await ctx.run('a', at)\n    finally:\n        ctx.emit('cleans')\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    assert!(run.cancel().calls.is_empty());
    let progress = run.answer_value(1, json!(7));
    assert_eq!(progress.abandoned, [2], "the node is called and abandoned immediately");
    assert_eq!(run.failure().kind, FailureKind::Cancelled);
    assert_replays(&program, &run);
    assert!(matches!(run.execution.state(), State::Failed(_)));
}

#[test]
fn function_that_catches_a_cancellation_continues() {
    let program = load(
        "async def it(ctx):\n    try:\n        await ctx.gate('a')\n    except BaseException:\n        pass\n    return await ctx.gate('b')\n\
         Workflow(id='it', session=session, fn=it)\n",
    );
    let mut run = TestExecution::start(&program, &start_of("it", json!("in")));
    run.cancel();
    assert_eq!(run.waiting(), [2]);
    run.cancel();
    assert_eq!(run.failure().kind, FailureKind::Cancelled);
    assert_replays(&program, &run);
}
