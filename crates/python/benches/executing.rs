//! Benchmarks of an execution: its start, each call, its replay and its parking.

use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Map, json};
use steplatch_python::{Execution, Program};
use steplatch_python_api::wire::{Begin, Request};
use steplatch_python_api::{Answer, Entry, Limits, Start, State};

#[path = "../tests/it/blocking.rs"]
#[allow(dead_code, reason = "only tests use the other functions")]
mod blocking;

use blocking::Worker;

const RELEASE_NOTES: &str = include_str!("../tests/it/release_notes.py");

const MANY_CALLS: &str = "async def it(ctx):
    total = 0
    for n in range(ctx.input):
        result = await ctx.run('node', {'n': n})
        if result['success']:
            total += len(result['output'])
    return total

Workflow(id='it', session=session, fn=it)
";

fn start(id: &str, input: serde_json::Value) -> Start {
    Start { id: id.to_owned(), input, params: Map::new(), at: None }
}

fn result() -> Answer {
    Answer::Value(json!({ "success": true, "output": "some output of a command\n", "error": null, "attributes": {} }))
}

/// Executes this number of calls and returns their history.
fn history(program: &Program, call_count: u64) -> Vec<Entry> {
    let (mut execution, mut progress) = Execution::begin(program, &start("it", json!(call_count)), &Limits::default());
    let mut history = Vec::new();
    loop {
        history.extend(progress.calls.drain(..).map(Entry::Called));
        let State::Waiting(waiting) = &progress.state else { return history };
        let ordinal = waiting[0];
        history.push(Entry::Answered { ordinal, answer: result() });
        progress = execution.answer(ordinal, result());
    }
}

fn executing(criterion: &mut Criterion) {
    let limits = Limits::default();
    let notes = Program::load("notes.py", RELEASE_NOTES).expect("the file is valid");
    let many = Program::load("many.py", MANY_CALLS).expect("the file is valid");
    let mut group = criterion.benchmark_group("python");
    group.measurement_time(Duration::from_secs(3));
    group.bench_function("load a file", |bench| bench.iter(|| Program::load("notes.py", black_box(RELEASE_NOTES))));
    group.bench_function("begin", |bench| {
        bench.iter(|| Execution::begin(&notes, &start("release_notes", json!(null)), &limits));
    });
    group.bench_function("park and resume", |bench| {
        let (mut execution, _) =
            Execution::begin(&many, &start("it", json!(u32::MAX)), &Limits { calls: u64::MAX, ..limits.clone() });
        let mut ordinal = 0;
        bench.iter(|| {
            ordinal += 1;
            execution.park();
            execution.answer(ordinal, result())
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("a call", |bench| {
        let (mut execution, _) =
            Execution::begin(&many, &start("it", json!(u32::MAX)), &Limits { calls: u64::MAX, ..limits.clone() });
        let mut ordinal = 0;
        bench.iter(|| {
            ordinal += 1;
            execution.answer(ordinal, result())
        });
    });
    group.bench_function("a call, through the pipes of a worker", |bench| {
        let mut worker =
            Worker::start(&mut Command::new(env!("CARGO_BIN_EXE_steplatch-python-worker"))).expect("the worker starts");
        let begin = Begin {
            execution: 1,
            file: "many.py".to_owned(),
            text: MANY_CALLS.to_owned(),
            start: start("it", json!(u32::MAX)),
            limits: Limits { calls: u64::MAX, ..limits.clone() },
            history: Vec::new(),
        };
        worker.request(Request::Begin(Box::new(begin))).expect("the worker responds");
        let mut ordinal = 0;
        bench.iter(|| {
            ordinal += 1;
            worker.request(Request::Answer { execution: 1, ordinal, answer: result() }).expect("the worker responds")
        });
    });
    let history = history(&many, 10_000);
    group.throughput(Throughput::Elements(10_000));
    group.sample_size(10);
    group.bench_function("replay 10,000 calls", |bench| {
        bench.iter(|| Execution::replay(&many, &start("it", json!(10_000)), &limits, history.clone(), || ()));
    });
    group.finish();
}

criterion_group!(benches, executing);
criterion_main!(benches);
