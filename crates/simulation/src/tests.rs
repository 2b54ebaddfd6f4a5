//! Schedules of the test command, the same in every execution. `cargo xtask simulate` tries others.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use super::*;

/// Number of random schedules that must not break a rule.
const SCHEDULES: u64 = 24;

/// Seeds that find a fault in `mutations`, with the fault. `cargo xtask simulate --mutations` verifies this.
const FOUND: [(u64, &str); 5] = [
    (3, "an opening outside the ledger, or a result that is discarded before its record"),
    (14, "a shell that is closed before the result of its command is recorded"),
    (50, "the same, after another fault"),
    (58, "a step of a silent host that is taken to another one"),
    (125, "a terminal that opens after the end of its run"),
];

/// Further seeds, from faults found with earlier generators of schedules. The last four have terminals of nodes: on a
/// host that was stopped until after the end of the run, requested by an earlier daemon, on a host that was killed
/// before it answered, and together with a host that is stopped.
const FURTHER_SEEDS: [u64; 12] = [
    1,
    17,
    53,
    55,
    177,
    246,
    470,
    491,
    15_736_781_016_247_351_996,
    15_321_669_024_412_389_296,
    17_375_013_311_949_054_769,
    5_448_776_420_219_875_985,
];

/// Number of faults of each scenario, at instants spread over the whole scenario. The chore tries every fault at every
/// instant.
const FAULTS: u32 = 2;

#[test]
fn no_random_schedule_breaks_a_rule() {
    let mut total = Report::default();
    let found = FOUND.into_iter().map(|(seed, _)| seed).filter(|seed| *seed >= SCHEDULES);
    for seed in (0..SCHEDULES).chain(found).chain(FURTHER_SEEDS) {
        let report = simulate(seed).unwrap_or_else(|violation| panic!("{violation}"));
        total.runs += report.runs;
        total.effects += report.effects;
        total.faults += report.faults;
        total.unknown += report.unknown;
    }
    // Schedules without events would prove nothing.
    assert!(total.runs > 150 && total.effects > 300 && total.faults > 200, "{total:?}");
}

#[test]
fn seed_replays_exactly() {
    for seed in 0..3 {
        assert_eq!(without_names(schedule(seed)), without_names(schedule(seed)), "seed {seed}");
    }
}

/// Removes text that differs in each execution: terminal ids, step names of clients, temporary directories,
/// and texts of the journal.
fn without_names(schedule: Vec<String>) -> Vec<String> {
    const RANDOM_CHARS: usize = 26;
    let is_named = |word: &&str| !word.starts_with("term_") && !word.contains("/.tmp") && word.len() < RANDOM_CHARS;
    let line = |line: String| {
        let fixed = line.split('{').next().unwrap_or_default();
        fixed.split_whitespace().filter(is_named).collect::<Vec<_>>().join(" ")
    };
    schedule.into_iter().map(line).collect()
}

/// A fault between the request of an action and the end of the run.
#[test]
fn no_fault_during_an_action_breaks_a_rule() {
    let (mut schedules, mut effects) = (0_u32, 0);
    for (action, is_remote, faults) in scenarios() {
        let undisturbed = Interruption { action, is_remote, fault: Fault::KillDaemon, instant: u32::MAX };
        let report = interrupt(undisturbed).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.instants > 3, "{action}: {report:?}");
        for number in 0..FAULTS {
            // Use other faults for each action.
            let fault = faults[(schedules + number) as usize % faults.len()];
            let instant = report.instants * (number * 7 + schedules % 7) / (FAULTS * 7);
            let interruption = Interruption { fault, instant, ..undisturbed };
            let report = interrupt(interruption).unwrap_or_else(|violation| panic!("{violation}"));
            effects += report.effects;
        }
        schedules += FAULTS;
    }
    assert!(schedules > 50 && effects > 80, "{schedules} schedules with {effects} effects");
}
