//! Workers are processes, and a crash affects only one worker.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steplatch_python_api::client::{ConversationError, WorkerError, WorkerEvent, WorkerProtocol};
use steplatch_python_api::wire::{Ask, Begin, Reply};
use steplatch_python_api::{Answer, CallKind, Entry, FailureKind, Limits, Progress, State};

use crate::blocking::Worker;
use crate::story::{start_of, workflow};

fn worker(memory: usize) -> Worker {
    Worker::start(Command::new(env!("CARGO_BIN_EXE_steplatch-python-worker")).arg(memory.to_string()))
        .expect("a worker starts")
}

fn begin(execution: u64, body: &str, history: Vec<Entry>) -> Ask {
    // Generous, so that a busy machine does not decide which limit is exceeded.
    begin_within(Duration::from_secs(120), execution, body, history)
}

fn begin_within(time: Duration, execution: u64, body: &str, history: Vec<Entry>) -> Ask {
    let limits = Limits { time, memory: 16 << 20, ..Limits::default() };
    let start = start_of("it", json!(null));
    let (file, text) = ("flow.py".to_owned(), workflow(body));
    Ask::Begin(Box::new(Begin { execution, file, text, start, limits, history }))
}

fn answer(execution: u64, ordinal: u64, value: Value) -> Ask {
    Ask::Answer { execution, ordinal, answer: Answer::Value(value) }
}

fn progress(reply: Reply) -> Progress {
    match reply {
        Reply::Progressed(progress) => progress,
        reply => panic!("no progress: {reply:?}"),
    }
}

const POLITE: &str = "name = await ctx.gate('Who?')\nreturn f'hello {name}'";

#[test]
fn excessive_execution_fails_alone() {
    let mut worker = worker(512);
    let before = progress(worker.ask(begin(1, POLITE, Vec::new())).expect("the worker runs"));
    assert_eq!(before.state, State::Waiting(vec![1]));
    let bad = [
        ("def deeper(n):\n    return deeper(n)\nreturn deeper(0)", FailureKind::Recursion),
        ("x = []\nwhile True:\n    x.append('y' * 1000 + str(len(x)))", FailureKind::Memory),
        ("return 'x' * (1 << 40)", FailureKind::Memory),
        ("return 10 ** (1 << 33)", FailureKind::Memory),
        ("x = []\nfor _ in range(50000):\n    x = [x]\nreturn x", FailureKind::NotJson),
        ("x = {}\nfor _ in range(50000):\n    x = {'x': x}\nimport json\nreturn json.dumps(x)", FailureKind::Recursion),
        ("a, b = [], []\nfor _ in range(50000):\n    a, b = [a], [b]\nreturn a == b", FailureKind::Recursion),
        ("while True:\n    ctx.emit('x', 'y')", FailureKind::Calls),
        ("while True:\n    ctx.emit('x', 'y' * 1000000)", FailureKind::Told),
        ("import re\nreturn bool(re.match(r'(?=(a+)+$)(a|a)*\\1b', 'a' * 60 + 'c'))", FailureKind::Raised),
    ];
    for (at, (body, kind)) in bad.iter().enumerate() {
        match progress(worker.ask(begin(3 + at as u64, body, Vec::new())).expect("the worker runs")).state {
            State::Failed(failure) => assert_eq!(failure.kind, *kind, "{body}: {failure}"),
            state => panic!("{body}: {state:?}"),
        }
    }
    let endless = begin_within(Duration::from_secs(2), 2, "while True:\n    pass", Vec::new());
    match progress(worker.ask(endless).expect("the worker runs")).state {
        State::Failed(failure) => {
            assert_eq!(failure.kind, FailureKind::Time, "{failure}");
            assert!(failure.message.contains("limit of 2s"), "{failure}");
        }
        state => panic!("{state:?}"),
    }
    let after = progress(worker.ask(answer(1, 1, json!("ana"))).expect("the worker runs"));
    assert_eq!(after.state, State::Completed(json!("hello ana")));
    assert_eq!(
        worker.ask(answer(1, 1, json!("ana"))).expect("the worker runs"),
        Reply::Unknown,
        "the execution has ended"
    );
}

#[test]
fn each_execution_has_its_own_memory() {
    let mut worker = worker(512);
    // Ten executions together use more than the limit of one.
    let body = "x = ['y' * 1000 + str(n) for n in range(6000)]\nawait ctx.gate('Go on?')\nx += ['z' * 1000 + str(n) for n in range(int(await ctx.run('n')))]\nreturn len(x)";
    for execution in 0..10 {
        progress(worker.ask(begin(execution, body, Vec::new())).expect("the worker runs"));
    }
    for (execution, more) in [(3, 100), (4, 20000)] {
        progress(worker.ask(answer(execution, 1, json!(""))).expect("the worker runs"));
        let state = progress(worker.ask(answer(execution, 2, json!(more))).expect("the worker runs")).state;
        match state {
            State::Completed(length) => assert_eq!((more, length), (100, json!(6100))),
            State::Failed(failure) => assert_eq!((more, failure.kind), (20000, FailureKind::Memory), "{failure}"),
            State::Waiting(_) => panic!("it still waits"),
        }
    }
}

#[test]
fn dropped_large_answers_do_not_accumulate() {
    let mut worker = worker(512);
    // The process uses more than the limit of one execution, which would reveal wrong accounting.
    let body = "x = ['y' * 1000 + str(n) for n in range(12000)]\nawait ctx.gate('Go on?')";
    for execution in 10..14 {
        progress(worker.ask(begin(execution, body, Vec::new())).expect("the worker runs"));
    }
    let body = "total = 0\nfor n in range(40):\n    total += len(await ctx.run('n', 'x' * 500000))\nreturn total";
    progress(worker.ask(begin(1, body, Vec::new())).expect("the worker runs"));
    for ordinal in 1..=39 {
        let now = progress(worker.ask(answer(1, ordinal, json!("y".repeat(1 << 20)))).expect("the worker runs"));
        assert!(matches!(now.state, State::Waiting(_)), "{:?}", now.state);
        assert_eq!(now.calls.last().map(|call| call.ordinal), Some(ordinal + 1));
    }
    let state = progress(worker.ask(answer(1, 40, json!("y"))).expect("the worker runs")).state;
    assert_eq!(state, State::Completed(json!((39 << 20) + 1)));
    // Values that are kept do add up.
    let body = "kept = []\nfor n in range(40):\n    kept.append(await ctx.run('n'))";
    progress(worker.ask(begin(2, body, Vec::new())).expect("the worker runs"));
    let fails = (1..=40).find_map(|ordinal| {
        match progress(worker.ask(answer(2, ordinal, json!("y".repeat(1 << 20)))).expect("the worker runs")).state {
            State::Failed(failure) => Some((ordinal, failure.kind)),
            _ => None,
        }
    });
    let (ordinal, kind) = fails.expect("it fails");
    assert_eq!(kind, FailureKind::Memory);
    assert!((12..=18).contains(&ordinal), "after {ordinal} MiB of 16");
}

#[test]
fn ended_worker_gives_a_reason_and_another_one_continues() {
    let mut first = worker(24);
    let started = progress(first.ask(begin(1, POLITE, Vec::new())).expect("the worker runs"));
    // More than the limit of the whole process, in one allocation that the interpreter cannot foresee.
    let limits = Limits { memory: 1 << 40, ..Limits::default() };
    let text = workflow("x = list(range(1000000))\nwhile True:\n    x = x + x");
    let (file, start) = ("flow.py".to_owned(), start_of("it", json!(null)));
    let greedy = Ask::Begin(Box::new(Begin { execution: 2, file, text, start, limits, history: Vec::new() }));
    match first.ask(greedy) {
        Err(WorkerError::Memory) => {}
        other => panic!("it lives: {other:?}"),
    }
    assert_eq!(first.conversation().busy_with(), Some(Some(2)), "that execution is to blame");
    let mut second = worker(24);
    let history = started.calls.into_iter().map(Entry::Called).collect();
    let again = progress(second.ask(begin(1, POLITE, history)).expect("the worker runs"));
    assert_eq!((again.calls.len(), again.state), (0, State::Waiting(vec![1])));
    let end = progress(second.ask(answer(1, 1, json!("bo"))).expect("the worker runs"));
    assert_eq!(end.state, State::Completed(json!("hello bo")));
}

#[test]
fn killed_worker_loses_only_itself() {
    let mut worker = worker(64);
    progress(worker.ask(begin(1, POLITE, Vec::new())).expect("the worker runs"));
    let killed = Command::new("kill").args(["-9", &worker.process().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    match worker.ask(answer(1, 1, json!("x"))) {
        Err(WorkerError::Ended(status)) => assert!(!status.success()),
        other => panic!("it lives: {other:?}"),
    }
}

#[test]
fn five_hundred_waiting_executions_take_little_memory() {
    let mut worker = worker(512);
    let text = include_str!("release_notes.py").to_owned();
    let mut at = |execution| {
        let start = start_of("release_notes", json!(null));
        let (file, text, limits) = ("notes.py".to_owned(), text.clone(), Limits::default());
        let ask = Ask::Begin(Box::new(Begin { execution, file, text, start, limits, history: Vec::new() }));
        progress(worker.ask(ask).expect("the worker runs"));
        let node = |output: &str| json!({ "success": true, "output": output });
        progress(worker.ask(answer(execution, 1, node("fix: a"))).expect("the worker runs"));
        let now = progress(worker.ask(answer(execution, 2, node("We fixed a."))).expect("the worker runs"));
        assert!(matches!(now.calls[1].kind, CallKind::Gate { .. }));
        worker.conversation().memory()
    };
    let before = at(0);
    let after = (1..=500).map(&mut at).last().expect("500 of them");
    let each = (after - before) / 500;
    assert!(each < 20_000, "{each} bytes each");
    // A parked execution can be resumed.
    let end = progress(worker.ask(answer(1, 4, json!("publish"))).expect("the worker runs"));
    assert_eq!(end.state, State::Completed(json!("We fixed a.")));
}

#[test]
fn file_is_read_in_a_worker_too() {
    let mut worker = worker(64);
    let load = |text: &str| Ask::Load { file: "flow.py".to_owned(), text: text.to_owned() };
    match worker.ask(load(&workflow("return 1"))).expect("the worker runs") {
        Reply::Declares(declared) => assert_eq!(declared[0].id, "it"),
        reply => panic!("{reply:?}"),
    }
    match worker.ask(load("def")).expect("the worker runs") {
        Reply::Refused(failure) => assert_eq!(failure.kind, FailureKind::Unreadable),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn long_replay_reports_that_it_is_alive() {
    let busy = "def busy():\n    total = 0\n    for i in range(50000):\n        total += i\n    return total\n";
    let body = format!("{busy}while True:\n    for _ in range(int(await ctx.run('n'))):\n        busy()");
    let mut quick = worker(64);
    // The total takes longer than a worker may be silent.
    let mut history = Vec::new();
    let mut now = progress(quick.ask(begin(1, &body, Vec::new())).expect("the worker runs"));
    let began = Instant::now();
    let mut ordinal = 0;
    while began.elapsed() < Duration::from_secs(5) {
        ordinal += 1;
        history.extend(now.calls.drain(..).map(Entry::Called));
        history.push(Entry::Answered { ordinal, answer: Answer::Value(json!(2)) });
        now = progress(quick.ask(answer(1, ordinal, json!(2))).expect("the worker runs"));
        assert!(matches!(now.state, State::Waiting(_)), "{:?}", now.state);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_steplatch-python-worker"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker starts");
    let mut conversation = WorkerProtocol::new();
    let (number, line) = conversation.ask(begin(1, &body, history));
    child.stdin.as_mut().expect("a pipe").write_all(&line).expect("it reads");
    let mut alive = 0;
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        match conversation.receive(&line.expect("text")).expect("it makes sense") {
            WorkerEvent::Alive => alive += 1,
            WorkerEvent::Reply(answered, reply) => {
                assert_eq!((answered, progress(reply).calls), (number, now.calls.clone()));
                break;
            }
        }
    }
    // The first line was the worker's greeting.
    assert!(alive >= 2, "{alive} signs");
    assert_eq!(conversation.busy_with(), None);
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success(), "nobody asks any more");
}

#[test]
fn unfollowed_history_is_reported() {
    let mut worker = worker(64);
    let mut now = progress(worker.ask(begin(1, POLITE, Vec::new())).expect("the worker runs"));
    let history: Vec<Entry> = now.calls.drain(..).map(Entry::Called).collect();
    match worker.ask(begin(1, "return await ctx.gate('Why?')", history)).expect("the worker runs") {
        Reply::Diverged(divergence) => assert!(divergence.to_string().contains(r#"ctx.gate(prompt="Who?")"#)),
        reply => panic!("{reply:?}"),
    }
    assert_eq!(
        worker.ask(answer(1, 1, json!("x"))).expect("the worker runs"),
        Reply::Unknown,
        "it took the place of another"
    );
    assert_eq!(worker.ask(Ask::Forget { execution: 1 }).expect("the worker runs"), Reply::Forgotten);
}

#[test]
fn impossible_worker_message_is_noticed() {
    let mut conversation = WorkerProtocol::new();
    assert_eq!(conversation.receive(r#"{"hello":{"wire":99}}"#), Err(ConversationError::Version(99)));
    assert_eq!(conversation.receive(r#"{"hello":{"wire":1}}"#), Ok(WorkerEvent::Alive));
    for line in [
        "",
        "[]",
        r#"{"hello":{"wire":1}}"#,
        r#"{"still_at":1}"#,
        r#"{"replied":{"number":1,"reply":"unknown","memory":0}}"#,
    ] {
        assert!(matches!(conversation.receive(line), Err(ConversationError::InvalidLine(_))), "{line}");
    }
}

#[test]
fn two_processes_behave_identically() {
    let body = "names = {f'name {n}' for n in range(200)} | {1, 2.5, None, (1, 'x')}\n\
                counts = {hash(name): name for name in names}\n\
                return [str(names), str(counts), [hash(n) for n in ('x', 1.5, (1, 2))], str(frozenset(names)), repr(it), repr(ctx)]";
    let states: Vec<State> =
        (0..3).map(|_| progress(worker(64).ask(begin(1, body, Vec::new())).expect("the worker runs")).state).collect();
    assert!(matches!(&states[0], State::Completed(_)), "{:?}", states[0]);
    assert!(states.iter().all(|state| *state == states[0]));
}
