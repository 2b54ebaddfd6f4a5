//! Restoring an execution from its history.

use std::fmt::Write;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;
use steplatch_python::{Execution, Program};
use steplatch_python_api::{Answer, CallKind, Entry, Limits, Start, State};

use crate::story::{Story, load, start_of, workflow};

/// One action of a function.
#[derive(Debug, Clone)]
enum Piece {
    Run,
    /// A function node of the file, which the execution performs itself.
    Node,
    Catch,
    Emit,
    Print,
    Now,
    Branch(Vec<Piece>, Vec<Piece>),
    Gather(Vec<Vec<Piece>>),
    Parallel(usize, usize),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let leaf = prop_oneof![
        3 => Just(Piece::Run),
        2 => Just(Piece::Node),
        2 => Just(Piece::Catch),
        1 => Just(Piece::Emit),
        1 => Just(Piece::Print),
        1 => Just(Piece::Now),
        1 => (1..5usize, 1..4usize).prop_map(|(calls, limit)| Piece::Parallel(calls, limit)),
    ];
    let piece = leaf.prop_recursive(3, 24, 4, |inner| {
        let some = prop::collection::vec(inner, 1..4);
        prop_oneof![
            (some.clone(), some.clone()).prop_map(|(yes, no)| Piece::Branch(yes, no)),
            prop::collection::vec(some, 1..4).prop_map(Piece::Gather),
        ]
    });
    prop::collection::vec(piece, 1..5)
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

/// Formats actions as Python code.
fn write(pieces: &[Piece], indentation: usize, names: &mut usize, text: &mut String) {
    let tab = "    ".repeat(indentation);
    for piece in pieces {
        *names += 1;
        let name = *names;
        let written = match piece {
            Piece::Run => writeln!(text, "{tab}seen.append(await ctx.run('n{name}', len(seen)))"),
            Piece::Node => writeln!(text, "{tab}seen.append(await ctx.run('node', len(seen)))"),
            Piece::Catch => writeln!(
                text,
                "{tab}try:\n{tab}    seen.append(await ctx.gate('g{name}', timeout=1))\n\
                 {tab}except asyncio.TimeoutError:\n{tab}    seen.append('late')"
            ),
            Piece::Emit => writeln!(text, "{tab}ctx.emit('e{name}', seen)"),
            Piece::Print => writeln!(text, "{tab}print('p{name}', seen)"),
            Piece::Now => writeln!(text, "{tab}seen.append(ctx.now())"),
            Piece::Parallel(calls, limit) => writeln!(
                text,
                "{tab}seen.append(await ctx.run_parallel([(f'p{name}_{{i}}', i) for i in range({calls})], limit={limit}))"
            ),
            Piece::Branch(yes, no) => {
                writeln!(text, "{tab}if len(str(seen)) % 2 == 0:").expect("a string takes everything");
                write(yes, indentation + 1, names, text);
                writeln!(text, "{tab}else:").expect("a string takes everything");
                write(no, indentation + 1, names, text);
                Ok(())
            }
            Piece::Gather(functions) => {
                for (at, pieces) in functions.iter().enumerate() {
                    writeln!(text, "{tab}async def f{name}_{at}():").expect("a string takes everything");
                    write(pieces, indentation + 1, names, text);
                    writeln!(text, "{tab}    return len(seen)").expect("a string takes everything");
                }
                let all: Vec<String> = (0..functions.len()).map(|at| format!("f{name}_{at}()")).collect();
                writeln!(text, "{tab}seen.append(await asyncio.gather({}))", all.join(", "))
            }
        };
        written.expect("a string takes everything");
    }
}

/// Executes a function to its end, with answers by `choices`. Returns the history, with the state after each answer and
/// after the start.
fn play(program: &Program, start: &Start, choices: &[(usize, u8)], parking: bool) -> (Vec<Entry>, Vec<State>) {
    let mut story = Story::begin(program, start);
    let mut states = vec![story.execution.state().clone()];
    let (mut inlined, mut ended) = (Vec::new(), Vec::new());
    for (which, what) in choices.iter().cycle().take(400) {
        ended.extend(story.progress.calls.iter().filter_map(|call| match call.kind {
            CallKind::Ended { of, .. } => Some(of),
            _ => None,
        }));
        let State::Waiting(waiting) = story.execution.state() else { break };
        let ordinal = waiting[which % waiting.len()];
        let is_node = story.history.iter().any(|entry| match entry {
            Entry::Called(call) => call.ordinal == ordinal && call.kind.describe().contains(r#"node="node""#),
            _ => false,
        });
        if is_node && !inlined.contains(&ordinal) {
            inlined.push(ordinal);
            story.inline(ordinal);
            states.push(story.execution.state().clone());
            continue;
        }
        // The node sometimes times out before it ends.
        if is_node && !ended.contains(&ordinal) && what % 4 != 0 {
            continue;
        }
        let answer = match what % 4 {
            0 => Answer::timed_out(format!("late {ordinal}")),
            1 => Answer::Value(json!(f64::from(*what) / 7.0 + ordinal as f64 * 0.1)),
            2 => Answer::Value(json!({ "success": true, "output": [ordinal, null, "x"] })),
            _ => Answer::Value(json!("text")),
        };
        if parking {
            story.execution.park();
        }
        story.answer(ordinal, answer);
        states.push(story.execution.state().clone());
    }
    (story.history, states)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_history_prefix_restores_the_function(
        pieces in pieces(),
        choices in prop::collection::vec((0..8usize, any::<u8>()), 1..40),
    ) {
        let mut body = "seen = []\n".to_owned();
        write(&pieces, 0, &mut 0, &mut body);
        body.push_str("return [seen, shared]");
        let program = load(&format!("{NODE}{}", workflow(&body)));
        let start = start_of("it", json!(null));
        let (history, states) = play(&program, &start, &choices, false);
        prop_assert_eq!(&(history.clone(), states.clone()), &play(&program, &start, &choices, true), "parked meanwhile");
        // As read from a journal.
        let text = serde_json::to_string(&history).expect("a history is JSON");
        let read: Vec<Entry> = serde_json::from_str(&text).expect("it was written like this");
        prop_assert_eq!(&read, &history);
        for length in 0..=history.len() {
            let (known, rest) = read.split_at(length);
            let (execution, progress) =
                Execution::replay(&program, &start, &Limits::default(), known.to_vec(), || ()).expect("it follows");
            // Calls whose entries were lost are made again, with the same numbers.
            let lost: Vec<_> = rest.iter().map_while(|entry| match entry {
                Entry::Called(call) => Some(call.clone()),
                Entry::Answered { .. } | Entry::Inlined { .. } | Entry::Cancelled => None,
            }).collect();
            prop_assert_eq!(&progress.calls, &lost);
            let answers = known.iter().filter(|entry| !matches!(entry, Entry::Called(_))).count();
            prop_assert_eq!(execution.state(), &states[answers]);
        }
    }
}

#[test]
fn replayed_execution_continues() {
    let program = load(&workflow("a = await ctx.run('a')\nb = await ctx.run('b', a)\nreturn [a, b]"));
    let start = start_of("it", json!(null));
    let mut first = Story::begin(&program, &start);
    first.value(1, json!(1));
    let (mut second, progress) =
        Execution::replay(&program, &start, &Limits::default(), first.history, || ()).expect("it follows");
    assert!(progress.calls.is_empty());
    assert_eq!(second.answer(2, Answer::Value(json!(2))).state, State::Completed(json!([1, 2])));
}

#[test]
fn edited_function_shows_the_first_difference() {
    let start = start_of("it", json!(null));
    let program = load(&workflow("await ctx.run('a', 'x')\nawait ctx.run('b')\nreturn 1"));
    let mut run = Story::begin(&program, &start);
    run.value(1, json!(null));
    let against = |body: &str, history: &[Entry]| {
        let edited = load(&workflow(body));
        match Execution::replay(&edited, &start, &Limits::default(), history.to_vec(), || ()) {
            Ok((_, progress)) => panic!("it followed: {progress:?}"),
            Err(divergence) => divergence.to_string(),
        }
    };
    expect![[r#"
        the function no longer follows its history, beginning with call 1.
          recorded: ctx.run(node="a", input="x")
          now:      ctx.run(node="a", input="y")
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&against("await ctx.run('a', 'y')\nawait ctx.run('b')", &run.history));
    expect![[r#"
        the function no longer follows its history, beginning with call 2.
          recorded: ctx.run(node="b", input="")
          now:      no call; it is at its end
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&against("await ctx.run('a', 'x')\nreturn 1", &run.history));
    expect![[r#"
        the function no longer follows its history, beginning with call 2.
          recorded: ctx.run(node="b", input="")
          now:      no call; it fails: ZeroDivisionError: division by zero
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&against("await ctx.run('a', 'x')\nreturn 1 // 0", &run.history));
    expect![[r#"
        the function no longer follows its history, beginning with call 2.
          recorded: no call before the next answer
          now:      ctx.run(node="c", input="")
        Was it edited while it ran? Start a new run, or put the file back as it was."#]]
    .assert_eq(&against("await asyncio.gather(ctx.run('a', 'x'), ctx.run('c'))\nawait ctx.run('b')", &run.history));
}

#[test]
fn history_of_an_older_prelude_is_followed() {
    // Written by a worker from before callers executed their function nodes.
    let older: serde_json::Value = serde_json::from_str(include_str!("older.json")).expect("it is JSON");
    let program = load(older["file"].as_str().expect("a file"));
    let history: Vec<Entry> = serde_json::from_value(older["history"].clone()).expect("a history");
    let replayed = Execution::replay(&program, &start_of("it", json!(null)), &Limits::default(), history, || ());
    let (execution, progress) = replayed.unwrap_or_else(|divergence| panic!("{divergence}"));
    assert!(progress.calls.is_empty());
    assert_eq!(*execution.state(), State::Completed(older["result"].clone()));
}

#[test]
fn sets_and_hashes_are_the_same_every_time() {
    let program = load(&workflow(
        "class A:\n    pass\ns = {'b', 'a', 'c', 1, 2.5, None}\nreturn [str(s), hash('x') == hash('x'), str(sorted(['b', 'a'])), len(repr(A()))]",
    ));
    let start = start_of("it", json!(null));
    let first = Story::begin(&program, &start).result();
    for _ in 0..5 {
        assert_eq!(Story::begin(&program, &start).result(), first);
    }
}
