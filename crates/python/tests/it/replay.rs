//! Restoring executions from their histories.

use std::fmt::Write;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;
use steplatch_python::{Execution, Program};
use steplatch_python_api::{Answer, CallKind, Entry, Limits, Start, State};

use crate::test_execution::{TestExecution, load, start_of, workflow};

/// One action of a generated function.
#[derive(Debug, Clone)]
enum Action {
    Run,
    /// A function node of the file, run by the execution itself.
    Node,
    Catch,
    Emit,
    Print,
    Now,
    Branch(Vec<Action>, Vec<Action>),
    Gather(Vec<Vec<Action>>),
    Parallel(usize, usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let leaf = prop_oneof![
        3 => Just(Action::Run),
        2 => Just(Action::Node),
        2 => Just(Action::Catch),
        1 => Just(Action::Emit),
        1 => Just(Action::Print),
        1 => Just(Action::Now),
        1 => (1..5usize, 1..4usize).prop_map(|(calls, limit)| Action::Parallel(calls, limit)),
    ];
    let action = leaf.prop_recursive(3, 24, 4, |inner| {
        let nested = prop::collection::vec(inner, 1..4);
        prop_oneof![
            (nested.clone(), nested.clone()).prop_map(|(yes, no)| Action::Branch(yes, no)),
            prop::collection::vec(nested, 1..4).prop_map(Action::Gather),
        ]
    });
    prop::collection::vec(action, 1..5)
}

/// A function node with module variables and a call.
const NODE: &str = "\
shared = []
async def node(ctx):
    shared.append(ctx.input)
    shared.append(await ctx.run('within', len(shared)))
    ctx.emit('node', shared)
    return {'output': len(shared)}
FunctionNode(id='node', session=session, fn=node)
";

/// Writes actions as Python code.
fn write_actions(actions: &[Action], indentation: usize, last_name: &mut usize, text: &mut String) {
    let tab = "    ".repeat(indentation);
    for action in actions {
        *last_name += 1;
        let name = *last_name;
        let result = match action {
            Action::Run => writeln!(text, "{tab}seen.append(await ctx.run('n{name}', len(seen)))"),
            Action::Node => writeln!(text, "{tab}seen.append(await ctx.run('node', len(seen)))"),
            Action::Catch => writeln!(
                text,
                "{tab}try:\n{tab}    seen.append(await ctx.gate('g{name}', timeout=1))\n\
                 {tab}except asyncio.TimeoutError:\n{tab}    seen.append('late')"
            ),
            Action::Emit => writeln!(text, "{tab}ctx.emit('e{name}', seen)"),
            Action::Print => writeln!(text, "{tab}print('p{name}', seen)"),
            Action::Now => writeln!(text, "{tab}seen.append(ctx.now())"),
            Action::Parallel(calls, limit) => writeln!(
                text,
                "{tab}seen.append(await ctx.run_parallel([(f'p{name}_{{i}}', i) for i in range({calls})], limit={limit}))"
            ),
            Action::Branch(yes, no) => {
                writeln!(text, "{tab}if len(str(seen)) % 2 == 0:").expect("writing to a string succeeds");
                write_actions(yes, indentation + 1, last_name, text);
                writeln!(text, "{tab}else:").expect("writing to a string succeeds");
                write_actions(no, indentation + 1, last_name, text);
                Ok(())
            }
            Action::Gather(functions) => {
                for (at, actions) in functions.iter().enumerate() {
                    writeln!(text, "{tab}async def f{name}_{at}():").expect("writing to a string succeeds");
                    write_actions(actions, indentation + 1, last_name, text);
                    writeln!(text, "{tab}    return len(seen)").expect("writing to a string succeeds");
                }
                let calls: Vec<String> = (0..functions.len()).map(|at| format!("f{name}_{at}()")).collect();
                writeln!(text, "{tab}seen.append(await asyncio.gather({}))", calls.join(", "))
            }
        };
        result.expect("writing to a string succeeds");
    }
}

/// Executes a function to its end, with answers chosen by `choices`. Returns the history, and the states after the
/// start and after each answer.
fn execute(program: &Program, start: &Start, choices: &[(usize, u8)], parks: bool) -> (Vec<Entry>, Vec<State>) {
    let mut run = TestExecution::start(program, start);
    let mut states = vec![run.execution.state().clone()];
    let (mut inlined, mut ended) = (Vec::new(), Vec::new());
    for (wait_choice, answer_choice) in choices.iter().cycle().take(400) {
        ended.extend(run.progress.calls.iter().filter_map(|call| match call.kind {
            CallKind::Ended { of, .. } => Some(of),
            _ => None,
        }));
        let State::Waiting(waiting) = run.execution.state() else { break };
        let ordinal = waiting[wait_choice % waiting.len()];
        let is_node = run.history.iter().any(|entry| match entry {
            Entry::Called(call) => call.ordinal == ordinal && call.kind.describe().contains(r#"node="node""#),
            _ => false,
        });
        if is_node && !inlined.contains(&ordinal) {
            inlined.push(ordinal);
            run.inline(ordinal);
            states.push(run.execution.state().clone());
            continue;
        }
        // The node sometimes times out before it ends.
        if is_node && !ended.contains(&ordinal) && answer_choice % 4 != 0 {
            continue;
        }
        let answer = match answer_choice % 4 {
            0 => Answer::timed_out(format!("late {ordinal}")),
            1 => Answer::Value(json!(f64::from(*answer_choice) / 7.0 + ordinal as f64 * 0.1)),
            2 => Answer::Value(json!({ "success": true, "output": [ordinal, null, "x"] })),
            _ => Answer::Value(json!("text")),
        };
        if parks {
            run.execution.park();
        }
        run.answer(ordinal, answer);
        states.push(run.execution.state().clone());
    }
    (run.history, states)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_history_prefix_restores_the_function(
        actions in actions(),
        choices in prop::collection::vec((0..8usize, any::<u8>()), 1..40),
    ) {
        let mut body = "seen = []\n".to_owned();
        write_actions(&actions, 0, &mut 0, &mut body);
        body.push_str("return [seen, shared]");
        let program = load(&format!("{NODE}{}", workflow(&body)));
        let start = start_of("it", json!(null));
        let (history, states) = execute(&program, &start, &choices, false);
        prop_assert_eq!(&(history.clone(), states.clone()), &execute(&program, &start, &choices, true), "parking changes nothing");
        // Serialize and parse the history, as a journal does.
        let text = serde_json::to_string(&history).expect("a history is JSON");
        let parsed: Vec<Entry> = serde_json::from_str(&text).expect("the history can be parsed");
        prop_assert_eq!(&parsed, &history);
        for length in 0..=history.len() {
            let (prefix, remaining) = parsed.split_at(length);
            let (execution, progress) =
                Execution::replay(&program, &start, &Limits::default(), prefix.to_vec(), || ()).expect("the history matches");
            // Calls whose entries were lost are made again, with the same numbers.
            let lost: Vec<_> = remaining.iter().map_while(|entry| match entry {
                Entry::Called(call) => Some(call.clone()),
                Entry::Answered { .. } | Entry::Inlined { .. } | Entry::Cancelled => None,
            }).collect();
            prop_assert_eq!(&progress.calls, &lost);
            let answers = prefix.iter().filter(|entry| !matches!(entry, Entry::Called(_))).count();
            prop_assert_eq!(execution.state(), &states[answers]);
        }
    }
}

#[test]
fn replayed_execution_continues() {
    let program = load(&workflow("a = await ctx.run('a')\nb = await ctx.run('b', a)\nreturn [a, b]"));
    let start = start_of("it", json!(null));
    let mut first = TestExecution::start(&program, &start);
    first.answer_value(1, json!(1));
    let (mut second, progress) =
        Execution::replay(&program, &start, &Limits::default(), first.history, || ()).expect("the history matches");
    assert!(progress.calls.is_empty());
    assert_eq!(second.answer(2, Answer::Value(json!(2))).state, State::Completed(json!([1, 2])));
}

#[test]
fn divergence_shows_the_first_difference() {
    let start = start_of("it", json!(null));
    let program = load(&workflow("await ctx.run('a', 'x')\nawait ctx.run('b')\nreturn 1"));
    let mut run = TestExecution::start(&program, &start);
    run.answer_value(1, json!(null));
    let replay_edited = |body: &str, history: &[Entry]| {
        let edited = load(&workflow(body));
        match Execution::replay(&edited, &start, &Limits::default(), history.to_vec(), || ()) {
            Ok((_, progress)) => panic!("the edited function matches its history: {progress:?}"),
            Err(divergence) => divergence.to_string(),
        }
    };
    expect![[r#"
        the function no longer follows its history, beginning with call 1.
          recorded: ctx.run(node="a", input="x")
          now:      ctx.run(node="a", input="y")
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&replay_edited("await ctx.run('a', 'y')\nawait ctx.run('b')", &run.history));
    expect![[r#"
        the function no longer follows its history, beginning with call 2.
          recorded: ctx.run(node="b", input="")
          now:      no call; it is at its end
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&replay_edited("await ctx.run('a', 'x')\nreturn 1", &run.history));
    expect![[r#"
        the function no longer follows its history, beginning with call 2.
          recorded: ctx.run(node="b", input="")
          now:      no call; it fails: ZeroDivisionError: division by zero
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&replay_edited("await ctx.run('a', 'x')\nreturn 1 // 0", &run.history));
    expect![[r#"
        the function no longer follows its history, beginning with call 2.
          recorded: no call before the next answer
          now:      ctx.run(node="c", input="")
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&replay_edited(
        "await asyncio.gather(ctx.run('a', 'x'), ctx.run('c'))\nawait ctx.run('b')",
        &run.history,
    ));
}

#[test]
fn history_of_an_older_prelude_still_replays() {
    // Recorded by a worker from before executions could run function nodes themselves.
    let older: serde_json::Value = serde_json::from_str(include_str!("older.json")).expect("the file is JSON");
    let program = load(older["file"].as_str().expect("a file"));
    let history: Vec<Entry> = serde_json::from_value(older["history"].clone()).expect("a history");
    let replayed = Execution::replay(&program, &start_of("it", json!(null)), &Limits::default(), history, || ());
    let (execution, progress) = replayed.unwrap_or_else(|divergence| panic!("{divergence}"));
    assert!(progress.calls.is_empty());
    assert_eq!(*execution.state(), State::Completed(older["result"].clone()));
}

#[test]
fn sets_and_hashes_are_deterministic() {
    let program = load(&workflow(
        "class A:\n    pass\ns = {'b', 'a', 'c', 1, 2.5, None}\nreturn [str(s), hash('x') == hash('x'), str(sorted(['b', 'a'])), len(repr(A()))]",
    ));
    let start = start_of("it", json!(null));
    let first = TestExecution::start(&program, &start).result();
    for _ in 0..5 {
        assert_eq!(TestExecution::start(&program, &start).result(), first);
    }
}
