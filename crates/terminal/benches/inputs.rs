//! Cost of the log of inputs: the time of an input with and without the log, alternately, and the memory of a full log.
//!
//! A program echoes nothing and answers each line, like a shell; an input ends with its answer. Prints one row of a
//! table for each.
#![allow(clippy::print_stdout, reason = "the program reports measurements")]

use std::time::{Duration, Instant};

use steplatch_pattern::Pattern;
use steplatch_terminal::{Input, Opened, Options, Size, Spec, Target, Terminal, Terminals, Until, Wait};

/// Turns, and inputs of each in a turn.
const TURNS: usize = 40;
const INPUTS: usize = 100;

/// Inputs that fill a log: more than it holds.
const FILLING: usize = 5_000;

/// A program that answers each line with a line.
const PROGRAM: &str = r#"while read -r line; do echo "<$line>"; done"#;

async fn open_terminal(logs_inputs: bool) -> (Terminals, Terminal) {
    let terminals = Terminals::new(Options { logs_inputs, ..Options::default() }).expect("terminals");
    let spec = Spec {
        arguments: ["bash", "--norc", "-c", PROGRAM].map(Into::into).into(),
        command: "bash".to_owned(),
        directory: "/".into(),
        inherited: std::env::vars_os().collect(),
        environment: Vec::new(),
        size: Size::default(),
        name: None,
        opened_by: None,
        step: None,
    };
    let Opened { terminal, .. } = terminals.open(spec).await.expect("bash starts");
    (terminals, terminal)
}

/// Types a line and waits for its answer, like `send_input`. Returns the duration.
async fn input(terminal: &Terminal, line: &str) -> Duration {
    let began = Instant::now();
    let sent =
        terminal.send(Input { text: format!("{line}\n"), by: Some("agent".to_owned()), ..Input::default() }).await;
    let from = sent.expect("bash reads").offset;
    let wait = Wait {
        patterns: vec![Pattern::new(&format!("<{line}>")).expect("the pattern compiles")],
        target: Target::Output,
        since: Some(from),
        input: None,
        until: Until::Match,
        timeout: Duration::from_secs(10),
        by: None,
        ..Wait::default()
    };
    let (waited, view) = terminal.wait(wait).await.expect("the terminal is open");
    assert!(waited.found.is_some(), "no output arrived:\n{}", view.screen);
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// Returns the resident memory of this process in KiB, see proc_pid_status(5).
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the field exists");
    line.trim().trim_end_matches(" kB").parse().expect("the field is a number")
}

#[tokio::main]
async fn main() {
    let ((_with, logged), (_without, bare)) = (open_terminal(true).await, open_terminal(false).await);
    let (mut with_log, mut without_log) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        for number in 0..INPUTS {
            let line = format!("line-{turn}-{number}");
            // Which of the two is first changes from one input to the next.
            if number % 2 == 0 {
                with_log.push(input(&logged, &line).await);
                without_log.push(input(&bare, &line).await);
            } else {
                without_log.push(input(&bare, &line).await);
                with_log.push(input(&logged, &line).await);
            }
        }
    }
    let (with_log, without_log) = (median(with_log), median(without_log));
    println!(
        "| an input and its answer, with the log of inputs (µs) | {with_log:.1} | {without_log:.1} without it | ≤ 2 % more | {:+.1} % |",
        (with_log / without_log - 1.0) * 100.0
    );
    let mut memory_growth = [0, 0];
    for (place, logs_inputs) in [(1, false), (0, true)] {
        let (_terminals, terminal) = open_terminal(logs_inputs).await;
        input(&terminal, "first").await;
        let before = resident();
        for number in 0..FILLING {
            // No answer is waited for, because the texts are the largest part of a full log.
            let text = format!("{number:->256}\n");
            terminal.send(Input { text, by: Some("agent".to_owned()), ..Input::default() }).await.expect("bash reads");
        }
        input(&terminal, "last").await;
        memory_growth[place] = resident() - before;
    }
    println!(
        "| memory of a terminal after {FILLING} inputs of 256 bytes (KiB more) | {} | {} without the log | ≤ 1024 more | {:+} |",
        memory_growth[0],
        memory_growth[1],
        memory_growth[0] - memory_growth[1]
    );
}
