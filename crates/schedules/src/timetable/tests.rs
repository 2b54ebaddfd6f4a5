use std::path::PathBuf;

use proptest::prelude::*;
use steplatch_clock::parse_iso8601;

use super::*;

fn at(text: &str) -> Timestamp {
    parse_iso8601(text).unwrap()
}

fn nightly(missed: MissedPolicy, overlap: OverlapPolicy) -> Schedule {
    Schedule {
        name: "nightly".to_owned(),
        trigger: Trigger::Cron { expression: "30 2 * * *".to_owned(), zone: Some("Europe/Berlin".to_owned()) },
        missed,
        overlap,
        jitter_seconds: 0,
        created: at("2026-03-27T12:00:00Z"),
        request: Value::Null,
        directory: PathBuf::from("/"),
        environment: BTreeMap::new(),
    }
}

fn with(schedule: Schedule) -> Timetable {
    let mut timetable = Timetable::default();
    timetable.add(schedule, false).unwrap();
    timetable
}

/// Returns the timetable of the next process.
fn restarted(timetable: &mut Timetable) -> Timetable {
    let text = serde_json::to_string(timetable.state_to_store()).unwrap();
    Timetable::new(TimetableState::read(&text).unwrap())
}

/// Advances to `now` and returns the times of the started runs, which have not ended then.
fn start_due(timetable: &mut Timetable, now: &str) -> Vec<String> {
    let now = at(now);
    timetable.advance(now);
    let mut started = Vec::new();
    for step in timetable.begin_due(now) {
        if let Step::Start { schedule, firing } = step {
            let time = steplatch_clock::to_iso8601(firing.scheduled)[..16].to_owned();
            timetable.finish_start(&schedule, &firing.key, Ok(format!("run_{}", firing.key)), now);
            started.push(format!("{time} +{}", firing.missed));
        }
    }
    started
}

fn end(timetable: &mut Timetable) {
    for run in timetable.active_runs() {
        timetable.record_end(&run, "completed");
    }
}

#[test]
fn three_missed_nights_start_one_run_or_none() {
    // The second of these nights is that to summer time.
    for (missed, expected) in [
        (MissedPolicy::CatchUp, vec!["2026-03-28T01:30 +2"]),
        (MissedPolicy::Latest, vec!["2026-03-30T00:30 +2"]),
        (MissedPolicy::Skip, vec![]),
    ] {
        let mut timetable = restarted(&mut with(nightly(missed, OverlapPolicy::Skip)));
        assert_eq!(start_due(&mut timetable, "2026-03-30T09:00:00Z"), expected, "{missed:?}");
        assert!(start_due(&mut timetable, "2026-03-30T09:00:01Z").is_empty());
        end(&mut timetable);
        assert_eq!(start_due(&mut timetable, "2026-03-31T00:30:00Z"), ["2026-03-31T00:30 +0"], "{missed:?}");
        let entry = timetable.entry("nightly").unwrap();
        assert_eq!(entry.missed, if missed == MissedPolicy::Skip { 3 } else { 0 });
    }
}

#[test]
fn time_comes_once_at_the_end_of_summer_time() {
    let schedule =
        Schedule { created: at("2026-10-24T12:00:00Z"), ..nightly(MissedPolicy::Skip, OverlapPolicy::Queue) };
    let mut timetable = with(schedule);
    assert_eq!(start_due(&mut timetable, "2026-10-25T00:30:00Z"), ["2026-10-25T00:30 +0"]);
    end(&mut timetable);
    assert!(start_due(&mut timetable, "2026-10-25T01:30:00Z").is_empty());
    assert_eq!(start_due(&mut timetable, "2026-10-26T01:30:05Z"), ["2026-10-26T01:30 +0"]);
}

#[test]
fn restart_in_the_minute_of_a_time_misses_nothing() {
    let mut timetable = restarted(&mut with(nightly(MissedPolicy::Skip, OverlapPolicy::Skip)));
    assert_eq!(start_due(&mut timetable, "2026-03-28T01:30:40Z"), ["2026-03-28T01:30 +0"]);
}

#[test]
fn run_that_has_not_ended_is_handled_by_the_policy() {
    let night = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    let mut skipping = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::Skip));
    assert_eq!(night.map(|now| start_due(&mut skipping, now).len()), [1, 0, 0]);
    assert_eq!(skipping.entry("nightly").unwrap().overlapped, 2);

    let mut queueing = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::Queue));
    assert_eq!(night.map(|now| start_due(&mut queueing, now).len()), [1, 0, 0]);
    assert_eq!(queueing.next_time(), Some(at("2026-03-31T00:30:00Z")));
    let mut queueing = restarted(&mut queueing);
    for expected in ["2026-03-29T01:00 +0", "2026-03-30T00:30 +0"] {
        end(&mut queueing);
        assert_eq!(start_due(&mut queueing, night[2]), [expected]);
    }

    let mut cancelling = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::CancelPrevious));
    assert_eq!(start_due(&mut cancelling, night[0]).len(), 1);
    cancelling.advance(at(night[1]));
    let run_id = cancelling.active_runs().into_iter().next().unwrap();
    let cancel = || vec![Step::Cancel { schedule: "nightly".to_owned(), run_id: run_id.clone() }];
    assert_eq!(cancelling.begin_due(at(night[1])), cancel());
    assert!(cancelling.begin_due(at(night[1])).is_empty());
    // The cancellation fails, and is tried again a second later.
    cancelling.fail_cancel("nightly", &run_id, at(night[1]));
    assert!(cancelling.begin_due(at(night[1])).is_empty());
    assert_eq!(cancelling.begin_due(at("2026-03-29T01:00:01Z")), cancel());
    cancelling.record_end(&run_id, "cancelled");
    assert_eq!(start_due(&mut cancelling, "2026-03-29T01:00:02Z"), ["2026-03-29T01:00 +0"]);
}

#[test]
fn failed_start_is_repeated_only_for_a_temporary_reason() {
    let mut timetable = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::Skip));
    let now = at("2026-03-28T01:30:00Z");
    let fail = |timetable: &mut Timetable, now: Timestamp, is_temporary: bool| {
        timetable.advance(now);
        let steps = timetable.begin_due(now);
        let [Step::Start { schedule, firing }] = &steps[..] else { panic!("{steps:?}") };
        let failure = StartFailure { error: "no space".to_owned(), is_temporary };
        timetable.finish_start(schedule, &firing.key, Err(failure), now)
    };
    assert!(!fail(&mut timetable, now, true));
    assert!(timetable.begin_due(now).is_empty());
    assert_eq!(timetable.next_time(), Some(now.after(Duration::from_secs(1))));
    assert!(!fail(&mut timetable, now.after(Duration::from_secs(1)), true));
    assert_eq!(timetable.next_time(), Some(now.after(Duration::from_secs(3))));
    assert!(fail(&mut timetable, now.after(Duration::from_secs(3)), false));
    let entry = timetable.entry("nightly").unwrap();
    assert_eq!((entry.failures, entry.last.as_ref().unwrap().error.as_deref()), (1, Some("no space")));
    assert_eq!(timetable.next_time(), Some(at("2026-03-29T01:00:00Z")));
}

#[test]
fn paused_schedule_misses_nothing() {
    let mut timetable = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::Skip));
    timetable.set_paused("nightly", true, at("2026-03-27T13:00:00Z")).unwrap();
    assert_eq!(timetable.next_time(), None);
    let mut timetable = restarted(&mut timetable);
    assert!(start_due(&mut timetable, "2026-03-30T09:00:00Z").is_empty());
    // A person starts it.
    timetable.fire("nightly", Firing::requested("manual".to_owned(), None, at("2026-03-30T09:00:00Z"))).unwrap();
    assert_eq!(start_due(&mut timetable, "2026-03-30T09:00:00Z").len(), 1);
    end(&mut timetable);
    timetable.set_paused("nightly", false, at("2026-03-30T10:00:00Z")).unwrap();
    assert!(start_due(&mut timetable, "2026-03-30T10:00:00Z").is_empty());
    assert_eq!(start_due(&mut timetable, "2026-03-31T00:30:00Z").len(), 1);
}

#[test]
fn clock_that_was_ahead_stops_nothing() {
    let mut timetable = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::Queue));
    assert_eq!(start_due(&mut timetable, "2030-01-01T00:00:00Z").len(), 1);
    end(&mut timetable);
    assert!(start_due(&mut timetable, "2026-03-28T01:00:00Z").is_empty());
    assert_eq!(start_due(&mut timetable, "2026-03-28T01:30:00Z"), ["2026-03-28T01:30 +0"]);
}

#[test]
fn jitter_delays_each_time_by_a_constant() {
    let schedule = Schedule { jitter_seconds: 600, ..nightly(MissedPolicy::CatchUp, OverlapPolicy::Skip) };
    let delays: Vec<_> = (0..200).map(|night| schedule.delay_of(Timestamp(night * 86_400_000_000))).collect();
    assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(600)));
    assert!(delays.iter().min() < Some(&Duration::from_secs(60)));
    assert!(delays.iter().max() > Some(&Duration::from_secs(540)));
    let time = at("2026-03-28T01:30:00Z");
    let mut timetable = with(schedule.clone());
    timetable.advance(time);
    assert_eq!(timetable.next_time(), Some(time.after(schedule.delay_of(time))));
}

#[test]
fn names_and_limits() {
    let mut timetable = with(nightly(MissedPolicy::CatchUp, OverlapPolicy::Skip));
    let again = || nightly(MissedPolicy::Skip, OverlapPolicy::Skip);
    assert_eq!(timetable.add(again(), false).unwrap_err(), TimetableError::Exists("nightly".to_owned()));
    timetable.add(again(), true).unwrap();
    for number in 1..MAX_SCHEDULES {
        timetable.add(Schedule { name: number.to_string(), ..again() }, false).unwrap();
    }
    let one_more = Schedule { name: "one-more".to_owned(), ..again() };
    assert_eq!(timetable.add(one_more, false).unwrap_err(), TimetableError::TooMany);
    assert!(timetable.entry("nightly").is_ok());
    timetable.remove("nightly").unwrap();
    assert!(timetable.entry("nightly").unwrap_err().to_string().starts_with("there is no schedule 'nightly'; "));
    let bytes = serde_json::to_string(timetable.state_to_store()).unwrap().len();
    assert!(bytes < MAX_SCHEDULES * 1024, "{bytes}");
}

#[test]
fn requests_with_the_same_key_start_one_run() {
    let hook = Trigger::Webhook { token_digest: String::new() };
    let mut timetable = with(Schedule { trigger: hook, ..nightly(MissedPolicy::CatchUp, OverlapPolicy::Queue) });
    let now = at("2026-03-28T00:00:00Z");
    for key in ["a", "a", "b"] {
        timetable.fire("nightly", Firing::requested(key.to_owned(), None, now)).unwrap();
    }
    assert_eq!(start_due(&mut timetable, "2026-03-28T00:00:00Z").len(), 1);
    assert_eq!(timetable.entry("nightly").unwrap().run_of("a"), Some("run_a"));
    assert_eq!(timetable.entry("nightly").unwrap().run_of("b"), None);
    let mut timetable = restarted(&mut timetable);
    end(&mut timetable);
    assert_eq!(start_due(&mut timetable, "2026-03-28T00:00:00Z").len(), 1);
    assert_eq!(timetable.entry("nightly").unwrap().run_of("a"), Some("run_a"));
}

proptest! {
    /// The process is killed before a start, after it, and before the result is stored.
    #[test]
    fn each_time_starts_one_run_whatever_is_killed(
        moves in prop::collection::vec((1_u64..200_000, 0..4_u8), 1..60),
        overlap in prop::sample::select(vec![OverlapPolicy::Skip, OverlapPolicy::Queue, OverlapPolicy::CancelPrevious]),
        missed in prop::sample::select(vec![MissedPolicy::CatchUp, MissedPolicy::Latest]),
    ) {
        let schedule = nightly(missed, overlap);
        let mut now = schedule.created;
        let mut timetable = with(schedule);
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        let (mut decided, mut left_out) = (0, 0);
        for (seconds, kill) in moves {
            now = now.after(Duration::from_secs(seconds));
            timetable.advance(now);
            let mut stored = restarted(&mut timetable);
            let times = timetable.entry("nightly").unwrap().waiting.len();
            for step in timetable.begin_due(now) {
                match step {
                    Step::Start { schedule, firing } if kill != 1 => {
                        *runs.entry(firing.key.clone()).or_default() += 1;
                        // The journal returns the run of an earlier start with the key.
                        timetable.finish_start(&schedule, &firing.key, Ok(firing.key.clone()), now);
                        decided += 1;
                    }
                    Step::Start { .. } => {}
                    Step::Cancel { run_id, .. } => timetable.record_end(&run_id, "cancelled"),
                    Step::LeftOut { .. } => left_out += 1,
                }
            }
            prop_assert!(times <= MAX_WAITING);
            if (1..=2).contains(&kill) {
                // What follows the stored state is lost.
                stored.advance(now);
                timetable = stored;
            } else {
                end(&mut timetable);
            }
        }
        prop_assert!(decided + left_out >= runs.len());
        // A start is repeated only after a kill, and then under the same key.
        let dates: BTreeSet<_> = runs.keys().map(|key| key.parse::<i64>().unwrap() / 86_400_000_000).collect();
        prop_assert_eq!(dates.len(), runs.len());
    }
}
