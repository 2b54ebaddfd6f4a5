//! Worker processes, and the effects of their crashes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steplatch_python_api::client::{ConversationError, WorkerError, WorkerEvent, WorkerProtocol};
use steplatch_python_api::wire::{Begin, Reply, Request};
use steplatch_python_api::{Answer, CallKind, Entry, FailureKind, Limits, Progress, State};

use crate::blocking::Worker;
use crate::test_execution::{start_of, workflow};

fn worker(memory: usize) -> Worker {
    Worker::start(Command::new(env!("CARGO_BIN_EXE_steplatch-python-worker")).arg(memory.to_string()))
        .expect("a worker starts")
}

fn begin(execution: u64, body: &str, history: Vec<Entry>) -> Request {
    // A generous limit, so that other limits are exceeded first even on a busy host.
    begin_with_time_limit(Duration::from_secs(120), execution, body, history)
}

fn begin_with_time_limit(time: Duration, execution: u64, body: &str, history: Vec<Entry>) -> Request {
    let limits = Limits { time, memory: 16 << 20, ..Limits::default() };
    let start = start_of("it", json!(null));
    let (file, text) = ("flow.py".to_owned(), workflow(body));
    Request::Begin(Box::new(Begin { execution, file, text, start, limits, history }))
}

fn answer(execution: u64, ordinal: u64, value: Value) -> Request {
    Request::Answer { execution, ordinal, answer: Answer::Value(value) }
}

fn progress(reply: Reply) -> Progress {
    match reply {
        Reply::Progressed(progress) => progress,
        reply => panic!("no progress: {reply:?}"),
    }
}

const GREETING: &str = "name = await ctx.gate('Who?')\nreturn f'hello {name}'";

#[test]
fn excessive_execution_does_not_affect_others() {
    let mut worker = worker(512);
    let before = progress(worker.request(begin(1, GREETING, Vec::new())).expect("the worker responds"));
    assert_eq!(before.state, State::Waiting(vec![1]));
    let excessive = [
        ("def deeper(n):\n    return deeper(n)\nreturn deeper(0)", FailureKind::Recursion),
        ("x = []\nwhile True:\n    x.append('y' * 1000 + str(len(x)))", FailureKind::Memory),
        ("return 'x' * (1 << 40)", FailureKind::Memory),
        ("return 10 ** (1 << 33)", FailureKind::Memory),
        ("x = []\nfor _ in range(50000):\n    x = [x]\nreturn x", FailureKind::NotJson),
        ("x = {}\nfor _ in range(50000):\n    x = {'x': x}\nimport json\nreturn json.dumps(x)", FailureKind::Recursion),
        ("a, b = [], []\nfor _ in range(50000):\n    a, b = [a], [b]\nreturn a == b", FailureKind::Recursion),
        ("while True:\n    ctx.emit('x', 'y')", FailureKind::Calls),
        ("while True:\n    ctx.emit('x', 'y' * 1000000)", FailureKind::SentBytes),
        ("import re\nreturn bool(re.match(r'(?=(a+)+$)(a|a)*\\1b', 'a' * 60 + 'c'))", FailureKind::Raised),
    ];
    for (index, (body, kind)) in excessive.iter().enumerate() {
        match progress(worker.request(begin(3 + index as u64, body, Vec::new())).expect("the worker responds")).state {
            State::Failed(failure) => assert_eq!(failure.kind, *kind, "{body}: {failure}"),
            state => panic!("{body}: {state:?}"),
        }
    }
    let endless = begin_with_time_limit(Duration::from_secs(2), 2, "while True:\n    pass", Vec::new());
    match progress(worker.request(endless).expect("the worker responds")).state {
        State::Failed(failure) => {
            assert_eq!(failure.kind, FailureKind::Time, "{failure}");
            assert!(failure.message.contains("limit of 2s"), "{failure}");
        }
        state => panic!("{state:?}"),
    }
    let after = progress(worker.request(answer(1, 1, json!("ana"))).expect("the worker responds"));
    assert_eq!(after.state, State::Completed(json!("hello ana")));
    assert_eq!(
        worker.request(answer(1, 1, json!("ana"))).expect("the worker responds"),
        Reply::Unknown,
        "the execution has ended"
    );
}

#[test]
fn each_execution_has_its_own_memory_limit() {
    let mut worker = worker(512);
    // Ten executions together use more than the limit of one.
    let body = "x = ['y' * 1000 + str(n) for n in range(6000)]\nawait ctx.gate('Go on?')\nx += ['z' * 1000 + str(n) for n in range(int(await ctx.run('n')))]\nreturn len(x)";
    for execution in 0..10 {
        progress(worker.request(begin(execution, body, Vec::new())).expect("the worker responds"));
    }
    for (execution, more) in [(3, 100), (4, 20000)] {
        progress(worker.request(answer(execution, 1, json!(""))).expect("the worker responds"));
        let state = progress(worker.request(answer(execution, 2, json!(more))).expect("the worker responds")).state;
        match state {
            State::Completed(length) => assert_eq!((more, length), (100, json!(6100))),
            State::Failed(failure) => assert_eq!((more, failure.kind), (20000, FailureKind::Memory), "{failure}"),
            State::Waiting(_) => panic!("the execution still waits"),
        }
    }
}

#[test]
fn dropped_large_answers_do_not_accumulate() {
    let mut worker = worker(512);
    // The process uses more than the limit of one execution, so that wrong accounting would fail this test.
    let body = "x = ['y' * 1000 + str(n) for n in range(12000)]\nawait ctx.gate('Go on?')";
    for execution in 10..14 {
        progress(worker.request(begin(execution, body, Vec::new())).expect("the worker responds"));
    }
    let body = "total = 0\nfor n in range(40):\n    total += len(await ctx.run('n', 'x' * 500000))\nreturn total";
    progress(worker.request(begin(1, body, Vec::new())).expect("the worker responds"));
    for ordinal in 1..=39 {
        let now =
            progress(worker.request(answer(1, ordinal, json!("y".repeat(1 << 20)))).expect("the worker responds"));
        assert!(matches!(now.state, State::Waiting(_)), "{:?}", now.state);
        assert_eq!(now.calls.last().map(|call| call.ordinal), Some(ordinal + 1));
    }
    let state = progress(worker.request(answer(1, 40, json!("y"))).expect("the worker responds")).state;
    assert_eq!(state, State::Completed(json!((39 << 20) + 1)));
    // Retained values do accumulate.
    let body = "kept = []\nfor n in range(40):\n    kept.append(await ctx.run('n'))";
    progress(worker.request(begin(2, body, Vec::new())).expect("the worker responds"));
    let failure = (1..=40).find_map(|ordinal| {
        match progress(worker.request(answer(2, ordinal, json!("y".repeat(1 << 20)))).expect("the worker responds"))
            .state
        {
            State::Failed(failure) => Some((ordinal, failure.kind)),
            _ => None,
        }
    });
    let (ordinal, kind) = failure.expect("the execution fails");
    assert_eq!(kind, FailureKind::Memory);
    assert!((12..=18).contains(&ordinal), "after {ordinal} MiB of 16");
}

#[test]
fn another_worker_continues_after_an_out_of_memory_exit() {
    let mut first = worker(24);
    let started = progress(first.request(begin(1, GREETING, Vec::new())).expect("the worker responds"));
    // More than the limit of the whole process, in one allocation that the interpreter cannot foresee.
    let limits = Limits { memory: 1 << 40, ..Limits::default() };
    let text = workflow("x = list(range(1000000))\nwhile True:\n    x = x + x");
    let (file, start) = ("flow.py".to_owned(), start_of("it", json!(null)));
    let greedy = Request::Begin(Box::new(Begin { execution: 2, file, text, start, limits, history: Vec::new() }));
    match first.request(greedy) {
        Err(WorkerError::Memory) => {}
        other => panic!("the worker has not exited: {other:?}"),
    }
    assert_eq!(first.protocol().busy_with(), Some(Some(2)), "that execution is the cause");
    let mut second = worker(24);
    let history = started.calls.into_iter().map(Entry::Called).collect();
    let restored = progress(second.request(begin(1, GREETING, history)).expect("the worker responds"));
    assert_eq!((restored.calls.len(), restored.state), (0, State::Waiting(vec![1])));
    let end = progress(second.request(answer(1, 1, json!("bo"))).expect("the worker responds"));
    assert_eq!(end.state, State::Completed(json!("hello bo")));
}

#[test]
fn killed_worker_is_reported_with_its_exit_status() {
    let mut worker = worker(64);
    progress(worker.request(begin(1, GREETING, Vec::new())).expect("the worker responds"));
    let killed = Command::new("kill").args(["-9", &worker.process().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    match worker.request(answer(1, 1, json!("x"))) {
        Err(WorkerError::Ended(status)) => assert!(!status.success()),
        other => panic!("the worker has not exited: {other:?}"),
    }
}

#[test]
fn five_hundred_waiting_executions_use_little_memory() {
    let mut worker = worker(512);
    let text = include_str!("release_notes.py").to_owned();
    let mut memory_with = |execution| {
        let start = start_of("release_notes", json!(null));
        let (file, text, limits) = ("notes.py".to_owned(), text.clone(), Limits::default());
        let request = Request::Begin(Box::new(Begin { execution, file, text, start, limits, history: Vec::new() }));
        progress(worker.request(request).expect("the worker responds"));
        let node = |output: &str| json!({ "success": true, "output": output });
        progress(worker.request(answer(execution, 1, node("fix: a"))).expect("the worker responds"));
        let now = progress(worker.request(answer(execution, 2, node("We fixed a."))).expect("the worker responds"));
        assert!(matches!(now.calls[1].kind, CallKind::Gate { .. }));
        worker.protocol().memory()
    };
    let before = memory_with(0);
    let after = (1..=500).map(&mut memory_with).last().expect("500 executions");
    let each = (after - before) / 500;
    assert!(each < 20_000, "{each} bytes each");
    // A parked execution can be resumed.
    let end = progress(worker.request(answer(1, 4, json!("publish"))).expect("the worker responds"));
    assert_eq!(end.state, State::Completed(json!("We fixed a.")));
}

#[test]
fn worker_loads_files() {
    let mut worker = worker(64);
    let load = |text: &str| Request::Load { file: "flow.py".to_owned(), text: text.to_owned() };
    match worker.request(load(&workflow("return 1"))).expect("the worker responds") {
        Reply::Declares(declarations) => assert_eq!(declarations[0].id, "it"),
        reply => panic!("{reply:?}"),
    }
    match worker.request(load("def")).expect("the worker responds") {
        Reply::Refused(failure) => assert_eq!(failure.kind, FailureKind::Unreadable),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn long_replay_reports_that_the_worker_is_busy() {
    let busy = "def busy():\n    total = 0\n    for i in range(50000):\n        total += i\n    return total\n";
    let body = format!("{busy}while True:\n    for _ in range(int(await ctx.run('n'))):\n        busy()");
    let mut quick = worker(64);
    // The replay takes longer than a worker may be silent.
    let mut history = Vec::new();
    let mut now = progress(quick.request(begin(1, &body, Vec::new())).expect("the worker responds"));
    let began = Instant::now();
    let mut ordinal = 0;
    while began.elapsed() < Duration::from_secs(5) {
        ordinal += 1;
        history.extend(now.calls.drain(..).map(Entry::Called));
        history.push(Entry::Answered { ordinal, answer: Answer::Value(json!(2)) });
        now = progress(quick.request(answer(1, ordinal, json!(2))).expect("the worker responds"));
        assert!(matches!(now.state, State::Waiting(_)), "{:?}", now.state);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_steplatch-python-worker"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker starts");
    let mut protocol = WorkerProtocol::new();
    let (number, line) = protocol.add_request(begin(1, &body, history));
    child.stdin.as_mut().expect("a pipe").write_all(&line).expect("the worker reads");
    let mut alive_count = 0;
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        match protocol.receive(&line.expect("text")).expect("the line is valid") {
            WorkerEvent::Alive => alive_count += 1,
            WorkerEvent::Reply(replied, reply) => {
                assert_eq!((replied, progress(reply).calls), (number, now.calls.clone()));
                break;
            }
        }
    }
    // The first line was the worker's greeting.
    assert!(alive_count >= 2, "{alive_count} reports");
    assert_eq!(protocol.busy_with(), None);
    drop(child.stdin.take());
    assert!(child.wait().expect("the worker exits").success(), "the worker exits at the end of its input");
}

#[test]
fn mismatched_history_is_reported() {
    let mut worker = worker(64);
    let mut now = progress(worker.request(begin(1, GREETING, Vec::new())).expect("the worker responds"));
    let history: Vec<Entry> = now.calls.drain(..).map(Entry::Called).collect();
    match worker.request(begin(1, "return await ctx.gate('Why?')", history)).expect("the worker responds") {
        Reply::Diverged(divergence) => assert!(divergence.to_string().contains(r#"ctx.gate(prompt="Who?")"#)),
        reply => panic!("{reply:?}"),
    }
    assert_eq!(
        worker.request(answer(1, 1, json!("x"))).expect("the worker responds"),
        Reply::Unknown,
        "the diverged execution replaced the first one"
    );
    assert_eq!(worker.request(Request::Forget { execution: 1 }).expect("the worker responds"), Reply::Forgotten);
}

#[test]
fn invalid_worker_line_is_rejected() {
    let mut protocol = WorkerProtocol::new();
    assert_eq!(protocol.receive(r#"{"hello":{"wire":99}}"#), Err(ConversationError::Version(99)));
    assert_eq!(protocol.receive(r#"{"hello":{"wire":1}}"#), Ok(WorkerEvent::Alive));
    for line in [
        "",
        "[]",
        r#"{"hello":{"wire":1}}"#,
        r#"{"still_at":1}"#,
        r#"{"replied":{"number":1,"reply":"unknown","memory":0}}"#,
    ] {
        assert!(matches!(protocol.receive(line), Err(ConversationError::InvalidLine(_))), "{line}");
    }
}

#[test]
fn executions_are_identical_across_processes() {
    let body = "names = {f'name {n}' for n in range(200)} | {1, 2.5, None, (1, 'x')}\n\
                counts = {hash(name): name for name in names}\n\
                return [str(names), str(counts), [hash(n) for n in ('x', 1.5, (1, 2))], str(frozenset(names)), repr(it), repr(ctx)]";
    let states: Vec<State> = (0..3)
        .map(|_| progress(worker(64).request(begin(1, body, Vec::new())).expect("the worker responds")).state)
        .collect();
    assert!(matches!(&states[0], State::Completed(_)), "{:?}", states[0]);
    assert!(states.iter().all(|state| *state == states[0]));
}
