//! Schedules with random seeds, for as long as requested, or every fault at every instant of every action:
//! `steplatch-simulation --minutes N`, `--seed S`, `--first COUNT` (seeds starting at 0) or `--actions`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers, whose report is its output")]

use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use steplatch_simulation::{Fault, Interruption, Report, Violation, interrupt, scenarios, simulate};

/// Sums of the schedules so far.
#[derive(Default)]
struct Totals {
    schedules: u64,
    effects: u64,
    faults: u64,
}

impl Totals {
    fn add(&mut self, report: Report) {
        self.schedules += 1;
        self.effects += u64::from(report.effects);
        self.faults += u64::from(report.faults);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<u64>().ok();
    let simulated = match arguments.as_slice() {
        [name, value] if name == "--minutes" => number(value).map(random_schedules),
        [name, value] if name == "--seed" => number(value).map(|seed| schedules([seed])),
        [name, value] if name == "--first" => number(value).map(|count| schedules(0..count)),
        [name] if name == "--actions" => Some(all_interruptions()),
        _ => None,
    };
    match simulated {
        Some(Ok(Totals { schedules, effects, faults })) => {
            println!("{schedules} schedules with {effects} effects and {faults} faults broke no rule");
            ExitCode::SUCCESS
        }
        Some(Err(violation)) => {
            eprintln!("{violation}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("usage: steplatch-simulation --minutes N | --seed S | --first COUNT | --actions");
            ExitCode::from(2)
        }
    }
}

/// Simulates the schedules of successive seeds, starting at a random one, until the time is up.
fn random_schedules(minutes: u64) -> Result<Totals, Violation> {
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    // The standard library draws the keys of its hashers from the system.
    let first_seed = RandomState::new().hash_one(());
    schedules((0..).map(|number| first_seed.wrapping_add(number)).take_while(|_| Instant::now() < deadline))
}

/// Simulates the schedules of these seeds.
fn schedules(seeds: impl IntoIterator<Item = u64>) -> Result<Totals, Violation> {
    let mut totals = Totals::default();
    for seed in seeds {
        totals.add(simulate(seed)?);
    }
    Ok(totals)
}

/// Simulates every fault at every instant of every action.
fn all_interruptions() -> Result<Totals, Violation> {
    let mut totals = Totals::default();
    for (action, is_remote, faults) in scenarios() {
        let undisturbed = Interruption { action, is_remote, fault: Fault::KillDaemon, instant: u32::MAX };
        let instants = interrupt(undisturbed)?.instants;
        for fault in faults {
            for instant in 0..=instants {
                totals.add(interrupt(Interruption { fault, instant, ..undisturbed })?);
            }
        }
    }
    Ok(totals)
}
