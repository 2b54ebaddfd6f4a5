//! Time from a program's print to the return of a wait for it, in one process.
//!
//! A shell prints the current time, and the benchmark compares that time with the time of the return. It prints
//! `median_ms=… p95_ms=… rounds=…` for the table of `cargo xtask bench terminals`.
#![allow(clippy::print_stdout, reason = "the program reports measurements")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use steplatch_pattern::Pattern;
use steplatch_terminal::{Input, Opened, Options, Size, Spec, Target, Terminals, Until, Wait};

const ROUNDS: usize = 200;

/// A program that sleeps after each empty line, so that the wait begins before the print.
const PROGRAM: &str = r#"while read -r; do sleep 0.01; echo "AT_${EPOCHREALTIME/,/.}_"; done"#;

#[tokio::main]
async fn main() {
    let terminals = Terminals::new(Options::default()).expect("terminals");
    let spec = Spec {
        arguments: ["bash", "-c", PROGRAM].map(Into::into).into(),
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
    let pattern = Pattern::new(r"AT_(\d+\.\d+)_").expect("the pattern compiles");
    let mut delays = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        terminal.send(Input { text: "\n".to_owned(), ..Input::default() }).await.expect("bash reads");
        let wait = Wait {
            patterns: vec![pattern.clone()],
            target: Target::Output,
            since: None,
            input: None,
            until: Until::Match,
            timeout: Duration::from_secs(10),
            by: None,
            ..Wait::default()
        };
        let (waited, view) = terminal.wait(wait).await.expect("the terminal is open");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_secs_f64();
        let found = waited.found.unwrap_or_else(|| panic!("no output arrived:\n{}", view.screen));
        let printed: f64 = found.groups[0].as_deref().and_then(|text| text.parse().ok()).expect("the output is a time");
        delays.push((now - printed) * 1e3);
    }
    delays.sort_by(f64::total_cmp);
    println!("median_ms={:.4} p95_ms={:.4} rounds={ROUNDS}", delays[ROUNDS / 2], delays[ROUNDS * 95 / 100]);
}
