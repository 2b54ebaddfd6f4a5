//! Schedules of the test command: the same ones every time. `cargo xtask simulate` tries others.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use super::*;

/// Number of schedules that have to break no rule.
const SCHEDULES: u64 = 1500;

/// Maximum number of schedules within which each mutation has to be found.
const SCHEDULES_PER_MUTATION: u64 = 1000;

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
    assert!(total.runs > 3000 && total.effects > 6000 && total.faults > 4000, "{total:?}");
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
fn every_wrong_rule_is_found() {
    let mutations = [
        Mutation::OpeningEndsWithItsConnection,
        Mutation::ClosedBeforeRecorded,
        Mutation::SettledBeforeRecorded,
        Mutation::NothingSettledAtStart,
        Mutation::NodesRepeated,
        Mutation::HostEndsWithResults,
        Mutation::LostHostForgotten,
    ];
    for mutation in mutations {
        let found = (0..SCHEDULES_PER_MUTATION).find(|seed| simulate(*seed, Some(mutation)).is_err());
        assert!(found.is_some(), "{mutation:?} is not found");
    }
}
