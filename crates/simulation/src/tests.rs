//! Schedules of the test command: the same ones every time. `cargo xtask simulate` tries others.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use super::*;

/// Number of random schedules that have to break no rule.
const SCHEDULES: u64 = 600;

/// Number of schedules in which a mutation without a committed seed is searched.
const SEARCHED: u64 = 3000;

/// Seeds at which each wrong rule is found, replayed exactly. A change of what is generated changes them: the test
/// names the new ones.
const FOUND: [(Mutation, u64); 12] = [
    (Mutation::OpeningEndsWithItsConnection, 4),
    (Mutation::ClosedBeforeRecorded, 6),
    (Mutation::SettledBeforeRecorded, 35),
    (Mutation::NothingSettledAtStart, 40),
    (Mutation::NodesRepeated, 9),
    (Mutation::HostEndsWithResults, 6),
    (Mutation::LostHostForgotten, 1667),
    (Mutation::CallsBeforeRecorded, 24),
    (Mutation::ReplayWithoutLastAnswer, 138),
    (Mutation::CopiesWrittenByDaemon, 85),
    (Mutation::RepliesLostWhileStopped, 116),
    (Mutation::LimitsLostAtStart, 94),
];

#[test]
fn no_schedule_breaks_a_rule() {
    let mut total = Report::default();
    for seed in 0..SCHEDULES {
        let report = simulate(seed, None).unwrap_or_else(|violation| panic!("{violation}"));
        total.runs += report.runs;
        total.effects += report.effects;
        total.faults += report.faults;
        total.unknown += report.unknown;
    }
    // Schedules in which nothing happens would prove nothing.
    assert!(total.runs > 1500 && total.effects > 3000 && total.faults > 2000, "{total:?}");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..50 {
        assert_eq!(simulate(seed, None).unwrap(), simulate(seed, None).unwrap());
        let broken = |seed| simulate(seed, Some(Mutation::NodesRepeated)).map_err(|violation| violation.to_string());
        assert_eq!(broken(seed), broken(seed));
    }
}

#[test]
fn every_wrong_rule_is_found_at_its_seed() {
    let mut wrong = Vec::new();
    for mutation in Mutation::ALL {
        let committed = FOUND.iter().find(|(known, _)| *known == mutation).map(|(_, seed)| *seed);
        let is_found = |seed: &u64| simulate(*seed, Some(mutation)).is_err();
        match committed.filter(is_found) {
            // The rule of the product holds in the same schedule.
            Some(seed) => drop(simulate(seed, None).unwrap_or_else(|violation| panic!("{violation}"))),
            None => {
                let found = (0..SEARCHED).find(is_found);
                wrong.push(format!("{mutation:?} is found at the seed {found:?}, and not at {committed:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One fault at each instant between the request of an action and the end of its run.
#[test]
fn no_fault_at_any_instant_of_an_action_breaks_a_rule() {
    let (mut schedules, mut effects) = (0_u32, 0);
    for (action, is_remote, faults) in scenarios() {
        let undisturbed = Interruption { action, is_remote, fault: Fault::KillDaemon, instant: u32::MAX };
        let report = interrupt(undisturbed, None).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.instants > 3, "{action}: {report:?}");
        for fault in faults {
            for instant in 0..=report.instants {
                let interruption = Interruption { fault, instant, ..undisturbed };
                let report = interrupt(interruption, None).unwrap_or_else(|violation| panic!("{violation}"));
                schedules += 1;
                effects += report.effects;
            }
        }
    }
    assert!(schedules > 4000 && effects > 15_000, "{schedules} schedules with {effects} effects");
}
