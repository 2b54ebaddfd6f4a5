//! Limits of executions.

use std::time::{Duration, Instant};

use serde_json::json;
use steplatch_python_api::{Failure, FailureKind, Limits};

use crate::test_execution::{TestExecution, load, load_failure, start_of, workflow};

fn run_with_limits(limits: &Limits, body: &str) -> TestExecution {
    TestExecution::start_with_limits(&load(&workflow(body)), &start_of("it", json!(null)), limits)
}

fn failure(limits: &Limits, body: &str) -> Failure {
    run_with_limits(limits, body).failure()
}

#[test]
fn endless_function_fails_at_its_time_limit_uncatchably() {
    let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
    let began = Instant::now();
    let failure = failure(
        &limits,
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
    );
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(failure.kind, FailureKind::Time, "{failure}");
    let message = "the function computed for longer than its limit of 50ms between two calls (before its first call)";
    assert_eq!(failure.message, message);
}

#[test]
fn time_limit_restarts_with_each_call() {
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let busy = "def busy():\n    total = 0\n    for i in range(2000):\n        total += i\n";
    let mut run = run_with_limits(&limits, &format!("{busy}while await ctx.run('more'):\n    busy()\nreturn 1"));
    let began = Instant::now();
    let mut ordinal = 1;
    // The total time exceeds the limit between two calls.
    while began.elapsed() < limits.time * 2 {
        run.answer_value(ordinal, json!(true));
        ordinal += 1;
    }
    run.answer_value(ordinal, json!(false));
    assert_eq!(run.result(), json!(1));
}

#[test]
fn endless_recursion_fails() {
    let failure = failure(&Limits::default(), "def deeper(n):\n    return deeper(n + 1)\nreturn deeper(0)");
    assert_eq!(failure.kind, FailureKind::Recursion, "{failure}");
    assert_eq!(failure.message, "the function calls itself more deeply than its limit of 500 levels");
    assert!(failure.frames.len() <= 20, "{} frames", failure.frames.len());
}

#[test]
fn endless_calls_fail() {
    let limits = Limits { calls: 100, ..Limits::default() };
    let mut run = run_with_limits(
        &limits,
        "while True:\n    try:\n        ctx.emit('again')\n    except BaseException:\n        pass",
    );
    assert_eq!(run.failure().kind, FailureKind::Calls, "{}", run.failure());
    assert_eq!(run.failure().message, "the function made more calls than its limit of 100 calls");
    assert_eq!(run.progress.calls.len(), 100);

    run = run_with_limits(&limits, "while True:\n    await ctx.run('a')");
    for ordinal in 1..=100 {
        run.answer_value(ordinal, json!(null));
    }
    assert_eq!(run.failure().kind, FailureKind::Calls);
}

#[test]
fn endless_printing_fails() {
    let failure = failure(&Limits::default(), "while True:\n    print('x' * 1000)");
    assert_eq!(failure.kind, FailureKind::SentBytes, "{failure}");
    let message = "the function prints more than its limit of 8192 KiB between two calls";
    assert!(failure.message.starts_with(message), "{failure}");
}

#[test]
fn endless_events_fail() {
    let limits = Limits { sent_bytes: 1 << 20, ..Limits::default() };
    let mut run = run_with_limits(
        &limits,
        "await ctx.run('a')\nwhile True:\n    try:\n        ctx.emit('x', ['y' * 10000])\n    except BaseException:\n        pass",
    );
    run.answer_value(1, json!(null));
    assert_eq!(run.failure().kind, FailureKind::SentBytes, "{}", run.failure());
    assert!((95..106).contains(&run.progress.calls.len()), "{} of 10 kB each", run.progress.calls.len());
    // The limit applies between two answers, so the total may exceed it.
    let mut run = run_with_limits(&limits, "for _ in range(20):\n    await ctx.run('a', 'y' * 100000)\nreturn 1");
    for ordinal in 1..=20 {
        run.answer_value(ordinal, json!(null));
    }
    assert_eq!(run.result(), json!(1));
}

#[test]
fn endless_file_is_rejected() {
    let failure = load_failure("while True:\n    pass\n");
    assert_eq!(failure.kind, FailureKind::Time);
}

#[test]
fn too_deeply_nested_file_is_rejected() {
    let deep = format!("x = {}1{}\n", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(load_failure(&deep).kind, FailureKind::Unreadable);
    let deep = format!("x = {}1\n", "-".repeat(50_000));
    assert_eq!(load_failure(&deep).kind, FailureKind::Unreadable);
}

#[test]
fn too_deeply_nested_result_is_rejected() {
    let failure = failure(&Limits::default(), "x = []\nfor _ in range(5000):\n    x = [x]\nreturn x");
    assert_eq!(failure.kind, FailureKind::NotJson, "{failure}");
}

#[test]
fn too_large_result_fails_the_execution() {
    let limits = Limits { sent_bytes: 1 << 20, ..Limits::default() };
    assert_eq!(failure(&limits, "return 'x' * 2_000_000").message, "the result is larger than its limit of 1024 KiB");
}
