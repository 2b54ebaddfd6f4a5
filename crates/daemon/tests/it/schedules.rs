//! Schedules, with a clock that the tests move.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_protocol::{
    AddSchedule, CreateWorkflow, FireSchedule, GetRun, ListSchedules, ListWorkflowRuns, MissedTimes, Overlap,
    PauseSchedule, RemoveSchedule, RunRecord, RunWorkflow, ScheduleInfo,
};
use steplatch_testkit::{ManualClock, TestDaemon, Timestamp, eventually};

/// Noon of 2026-03-27, two days before summer time begins in Berlin.
const NOON: Timestamp = Timestamp(1_774_612_800_000_000);

/// Saves a workflow that waits for an answer if `asks`, and ends at once otherwise.
async fn save(daemon: &TestDaemon, asks: bool) {
    let gate = json!({"action": {"tool": "gate", "params": {"prompt": "Continue?", "choices": ["yes"], "answered_by": "agent"}},
        "transitions": []});
    let action = json!({"action": {"tool": "set", "params": {"variables": {"done": "yes"}}}, "transitions": []});
    let definition = json!({
        "name": "backup",
        "description": "Backs a day up",
        "arguments": {"day": {"description": "the day", "required": false, "default": "none"}},
        "initial_state": "work",
        "states": {"work": if asks { gate } else { action }},
    });
    let saved =
        daemon.call(CreateWorkflow { workflow_definition: definition, overwrite_existing: false, reason: None }).await;
    assert!(saved.success, "{saved:?}");
}

fn nightly() -> AddSchedule {
    let run = RunWorkflow {
        workflow_name: Some("backup".to_owned()),
        initial_variables: Some([("day".to_owned(), json!("{scheduled_at}"))].into()),
        ..RunWorkflow::default()
    };
    AddSchedule {
        name: "nightly".to_owned(),
        run: Box::new(run),
        cron: Some("30 2 * * *".to_owned()),
        timezone: Some("Europe/Berlin".to_owned()),
        ..AddSchedule::default()
    }
}

async fn add(daemon: &TestDaemon, schedule: AddSchedule) {
    let added = daemon.call(schedule).await;
    assert!(added.success, "{added:?}");
}

async fn runs(daemon: &TestDaemon) -> Vec<RunRecord> {
    daemon.call(ListWorkflowRuns::default()).await.runs
}

async fn info(daemon: &TestDaemon) -> ScheduleInfo {
    daemon.call(ListSchedules { name: Some("nightly".to_owned()) }).await.schedules.remove(0)
}

/// Waits until a schedule has started `count` runs, and returns their times.
async fn started(daemon: &TestDaemon, count: usize) -> Vec<String> {
    eventually("the runs have started and ended", async || {
        let runs = runs(daemon).await;
        let info = info(daemon).await;
        let is_last = |run: &RunRecord| info.last.as_ref().and_then(|last| last.run_id.as_ref()) == Some(&run.run_id);
        let is_settled = runs.iter().all(|run| run.state == "completed")
            && info.active_run_id.is_none()
            && runs.first().is_none_or(is_last);
        if runs.len() == count && is_settled { Ok(()) } else { Err((runs, info)) }
    })
    .await;
    let runs = runs(daemon).await;
    assert!(runs.iter().all(|run| run.schedule.as_deref() == Some("nightly")));
    let mut days: Vec<String> = runs.iter().map(|run| run.input["day"].as_str().unwrap().to_owned()).collect();
    days.sort();
    days
}

#[tokio::test]
async fn three_missed_nights_are_caught_up_once_or_not_at_all() {
    for (missed, expected) in [
        (MissedTimes::CatchUp, Some("2026-03-28T01:30:00.000Z")),
        (MissedTimes::Latest, Some("2026-03-30T00:30:00.000Z")),
        (MissedTimes::Skip, None),
    ] {
        let clock = ManualClock::new(NOON);
        let daemon = TestDaemon::with_clock(&clock).await;
        save(&daemon, false).await;
        add(&daemon, AddSchedule { missed, ..nightly() }).await;
        let daemon = daemon.restarted_with(|| clock.advance(Duration::from_secs(3 * 86_400))).await;
        let caught_up = started(&daemon, usize::from(expected.is_some())).await;
        assert_eq!(caught_up, Vec::from_iter(expected.map(str::to_owned)), "{missed:?}");
        let listed = info(&daemon).await;
        assert_eq!(listed.missed_times, if expected.is_none() { 3 } else { 0 });
        assert_eq!(listed.last.map(|last| last.missed_times), expected.map(|_| 2));
        assert_eq!(listed.next_start.as_deref(), Some("2026-03-31T00:30:00.000Z"));
        // Another restart in the same day changes nothing, and the next night comes on time.
        let daemon = daemon.restarted().await;
        clock.advance(Duration::from_secs(45_000));
        let days = started(&daemon, 1 + usize::from(expected.is_some())).await;
        assert_eq!(days.last().map(String::as_str), Some("2026-03-31T00:30:00.000Z"));
        daemon.stop().await;
    }
}

#[tokio::test]
async fn run_that_waits_is_handled_by_the_rule() {
    let clock = ManualClock::new(NOON);
    let daemon = TestDaemon::with_clock(&clock).await;
    save(&daemon, true).await;
    let night = Duration::from_secs(86_400);
    let waiting = async |daemon: &TestDaemon, count: usize| {
        eventually("the run waits", async || {
            let waiting = runs(daemon).await.into_iter().filter(|run| run.state == "waiting").count();
            (waiting == count).then_some(())
        })
        .await;
    };
    add(&daemon, AddSchedule { overlap: Some(Overlap::Skip), ..nightly() }).await;
    clock.advance(night);
    waiting(&daemon, 1).await;
    clock.advance(night);
    eventually("the second start is left out", async || (info(&daemon).await.overlapped == 1).then_some(())).await;
    let refused = daemon.call(FireSchedule { name: "nightly".to_owned(), ..Default::default() }).await;
    assert_eq!((refused.success, refused.status.as_str()), (false, "left_out"), "{refused:?}");

    // The replaced schedule does not know that run; its next start waits for its own.
    add(&daemon, AddSchedule { overlap: Some(Overlap::Queue), replace: true, ..nightly() }).await;
    clock.advance(night);
    waiting(&daemon, 2).await;
    clock.advance(night);
    eventually("a start waits", async || (info(&daemon).await.waiting_starts == 1).then_some(())).await;
    let active = eventually("the run is known", async || info(&daemon).await.active_run_id).await;
    let queued = daemon.call(FireSchedule { name: "nightly".to_owned(), ..Default::default() }).await;
    assert_eq!((queued.success, queued.status.as_str(), queued.active_run_id), (true, "waiting", Some(active.clone())));

    // After a restart, the rule of a third schedule cancels the run.
    let daemon = daemon.restarted().await;
    assert_eq!(info(&daemon).await.waiting_starts, 2);
    add(&daemon, AddSchedule { overlap: Some(Overlap::CancelPrevious), replace: true, ..nightly() }).await;
    clock.advance(night);
    waiting(&daemon, 3).await;
    let active = eventually("the run is known", async || info(&daemon).await.active_run_id).await;
    clock.advance(night);
    eventually("the run is cancelled for the next one", async || {
        let run = daemon.call(GetRun { run_id: active.clone(), ..Default::default() }).await;
        (run.status == "cancelled" && info(&daemon).await.active_run_id.is_some_and(|now| now != active)).then_some(())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn repeated_request_starts_one_run() {
    let daemon = TestDaemon::new().await;
    save(&daemon, false).await;
    let hook = AddSchedule { cron: None, timezone: None, webhook: true, ..nightly() };
    let added = daemon.call(hook).await;
    let token = added.token.unwrap();
    let listed = daemon.call(ListSchedules::default()).await;
    assert!(!json!(listed).to_string().contains(&token));
    let stored = std::fs::read_to_string(daemon.paths().state().join("schedules.json")).unwrap();
    assert!(!stored.contains(&token));
    let fire = async |daemon: &TestDaemon, token: &str, key: &str, arguments: Value| {
        let arguments = arguments.as_object().cloned();
        let (name, token, key) = ("nightly".to_owned(), Some(token.to_owned()), Some(key.to_owned()));
        daemon.call(FireSchedule { name, token, key, arguments }).await
    };
    let wrong = fire(&daemon, "wrong", "a", Value::Null).await;
    assert_eq!((wrong.success, wrong.status.as_str()), (false, "unauthorized"));
    let set = fire(&daemon, &token, "a", json!({"day": "monday"})).await;
    assert_eq!(set.error.as_deref(), Some("the schedule sets 'day' itself; omit it in the request"));
    let first = fire(&daemon, &token, "a", Value::Null).await;
    assert_eq!((first.success, first.status.as_str()), (true, "started"), "{first:?}");
    eventually("the run has ended", async || info(&daemon).await.active_run_id.is_none().then_some(())).await;
    let repeated = fire(&daemon, &token, "a", Value::Null).await;
    assert_eq!((repeated.status.as_str(), &repeated.run_id), ("repeated", &first.run_id));
    let daemon = daemon.restarted().await;
    let repeated = fire(&daemon, &token, "a", Value::Null).await;
    assert_eq!((repeated.status.as_str(), &repeated.run_id), ("repeated", &first.run_id));
    let second = fire(&daemon, &token, "b", Value::Null).await;
    assert_eq!(second.status, "started");
    assert_eq!(runs(&daemon).await.len(), 2);
    daemon.stop().await;
}

#[tokio::test]
async fn changed_file_starts_a_run_also_if_no_daemon_saw_it() {
    let daemon = TestDaemon::new().await;
    save(&daemon, false).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("src/main.c");
    std::fs::create_dir(directory.path().join("src")).unwrap();
    std::fs::write(&file, "1").unwrap();
    let paths = Some(vec![directory.path().display().to_string()]);
    add(&daemon, AddSchedule { cron: None, timezone: None, paths, ..nightly() }).await;
    let missing = AddSchedule { cron: None, timezone: None, paths: Some(vec!["none".to_owned()]), ..nightly() };
    let refused = daemon.call(AddSchedule { name: "other".to_owned(), ..missing }).await;
    assert!(refused.error.unwrap().contains("none' cannot be watched"));
    let state = daemon.paths().state().join("schedules.json");
    eventually("the files were looked at", async || {
        std::fs::read_to_string(&state).unwrap().contains("files_digest").then_some(())
    })
    .await;
    std::fs::write(&file, "two").unwrap();
    started(&daemon, 1).await;
    std::fs::write(directory.path().join("src/new.c"), "").unwrap();
    started(&daemon, 2).await;
    let daemon = daemon.restarted_with(|| std::fs::remove_file(&file).unwrap()).await;
    started(&daemon, 3).await;
    daemon.stop().await;
}

#[tokio::test]
async fn mistakes_are_named_before_the_night() {
    let clock = ManualClock::new(NOON);
    let daemon = TestDaemon::with_clock(&clock).await;
    save(&daemon, false).await;
    let workflow =
        |name: &str| Box::new(RunWorkflow { workflow_name: Some(name.to_owned()), ..RunWorkflow::default() });
    for (schedule, error) in [
        (AddSchedule { run: workflow("nothing"), ..nightly() }, "'nothing' not found"),
        (AddSchedule { cron: Some("61 * * * *".to_owned()), ..nightly() }, "'61 * * * *' is not a cron expression: "),
        (AddSchedule { cron: Some("0 0 30 2 *".to_owned()), ..nightly() }, "has no future time"),
        (
            AddSchedule { timezone: Some("Europe/Atlantis".to_owned()), ..nightly() },
            "'Europe/Atlantis' is not a time zone",
        ),
        (AddSchedule { every: Some("10m".to_owned()), ..nightly() }, "exactly one trigger"),
        (AddSchedule { cron: None, ..nightly() }, "exactly one trigger"),
        (AddSchedule { jitter: Some("5 minutes".to_owned()), ..nightly() }, "the jitter '5 minutes' must be"),
        (AddSchedule { name: "a/b".to_owned(), ..nightly() }, "'a/b' is not a name"),
    ] {
        let reply = daemon.call(schedule).await;
        assert!(!reply.success && reply.error.as_ref().unwrap().contains(error), "{error}: {reply:?}");
    }
    add(&daemon, nightly()).await;
    let again = daemon.call(nightly()).await;
    assert_eq!(
        again.error.as_deref(),
        Some("a schedule 'nightly' exists; choose another name, or replace it with --replace")
    );
    // The workflow disappears later: the list reports it.
    let deleted = daemon.call(steplatch_protocol::DeleteWorkflow { name: "backup".to_owned() }).await;
    assert!(deleted.success, "{deleted:?}");
    clock.advance(Duration::from_secs(86_400));
    let error = eventually("the start has failed", async || info(&daemon).await.last.and_then(|last| last.error)).await;
    assert!(error.contains("'backup' not found"), "{error}");
    assert_eq!(info(&daemon).await.failed_starts, 1);
    let unknown = daemon.call(PauseSchedule { name: "other".to_owned(), paused: true }).await;
    assert_eq!(unknown.error.as_deref(), Some("there is no schedule 'other'; schedules are nightly"));
    assert!(daemon.call(RemoveSchedule { name: "nightly".to_owned() }).await.success);
    assert!(daemon.call(ListSchedules::default()).await.schedules.is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn many_schedules_start_at_the_same_time() {
    const COUNT: usize = 200;
    let clock = ManualClock::new(NOON);
    let daemon = TestDaemon::with_clock(&clock).await;
    save(&daemon, false).await;
    for number in 0..COUNT {
        add(&daemon, AddSchedule { name: format!("s{number}"), ..nightly() }).await;
    }
    clock.advance(Duration::from_secs(86_400));
    eventually("each has started its run", async || {
        let schedules = daemon.call(ListSchedules::default()).await.schedules;
        schedules.iter().all(|schedule| schedule.last.is_some()).then_some(())
    })
    .await;
    let verb = ListWorkflowRuns { limit: Some(1000), ..Default::default() };
    let names: BTreeSet<_> = daemon.call(verb).await.runs.into_iter().map(|run| run.schedule.unwrap()).collect();
    assert_eq!(names.len(), COUNT);
    daemon.stop().await;
}
