//! Schedules with random seeds, for as long as requested: `steplatch-simulation --minutes N` or `--seed S`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers, whose report is its output")]

use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use steplatch_simulation::simulate;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().ok();
    let (minutes, first) = match arguments.as_slice() {
        [name, value] if name == "--minutes" => (number(value), None),
        [name, value] if name == "--seed" => (Some(0), number(value)),
        _ => (None, None),
    };
    let Some(minutes) = minutes else {
        eprintln!("usage: steplatch-simulation --minutes N | --seed S");
        return ExitCode::from(2);
    };
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    // The standard library draws the keys of its hashers from the system.
    let mut seed = first.unwrap_or_else(|| RandomState::new().hash_one(()));
    let (mut schedules, mut effects, mut faults) = (0_u64, 0_u64, 0_u64);
    loop {
        match simulate(seed, None) {
            Ok(report) => {
                schedules += 1;
                effects += u64::from(report.effects);
                faults += u64::from(report.faults);
            }
            Err(violation) => {
                eprintln!("{violation}");
                return ExitCode::FAILURE;
            }
        }
        if Instant::now() >= until {
            break;
        }
        seed = seed.wrapping_add(1);
    }
    println!("{schedules} schedules with {effects} effects and {faults} faults broke no rule");
    ExitCode::SUCCESS
}
