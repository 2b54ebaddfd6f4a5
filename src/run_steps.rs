//! What the states of a run did, read from its events: to compare it with a recording or with another run.

use serde_json::Value;
use steplatch_capture::GoldenStep;
use steplatch_protocol::{DaemonPaths, FollowError, RunEvent};

use crate::failure::Failure;
use crate::front;

/// Reads the events of a run so far.
///
/// # Errors
/// When there is no such run, or no daemon can be reached.
pub(crate) async fn events(place: &DaemonPaths, run: &str) -> Result<Vec<RunEvent>, Failure> {
    let unknown = |error| match error {
        FollowError::Unknown(_) => Failure::usage(format!("there is no run '{run}'; steplatch runs list has them")),
        error => Failure::from(error),
    };
    let daemon = front::steady(place)?;
    let mut following = daemon.follow(run, 1);
    let newest = following.newest_seq().await.map_err(unknown)?;
    let mut events: Vec<RunEvent> = Vec::new();
    while events.last().is_none_or(|event| event.seq < newest) {
        let Some(event) = following.next().await.map_err(unknown)? else { break };
        events.push(event);
    }
    Ok(events)
}

/// Returns what the states of a run did, in order. Only commands have an output that can be compared.
pub(crate) fn steps(events: &[RunEvent]) -> Vec<GoldenStep> {
    let step = |event: &RunEvent| {
        let result = event.data.get("result").unwrap_or(&Value::Null);
        GoldenStep {
            state: event.data.get("state").and_then(Value::as_str).unwrap_or_default().to_owned(),
            prints: result["output"].as_str().unwrap_or_default().to_owned(),
            exit_code: result["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()),
            answer: result["answer"].as_str().map(str::to_owned),
            has_output: result["output"].is_string(),
        }
    };
    events.iter().filter(|event| event.event_type == "state_completed").map(step).collect()
}

/// Returns the states in which the run asked where it goes on, because they found nothing that they expect.
pub(crate) fn asked(events: &[RunEvent]) -> Vec<String> {
    let state = |event: &&RunEvent| event.data.get("state").and_then(Value::as_str).unwrap_or_default().to_owned();
    // A judgement names nobody who may answer: it is no question of the workflow's own.
    let is_unknown = |event: &&RunEvent| event.event_type == "gate_waiting" && !event.data.contains_key("answered_by");
    events.iter().filter(is_unknown).map(|event| state(&event)).collect()
}

/// Returns what a run was started with.
pub(crate) fn input(events: &[RunEvent]) -> Value {
    let started = events.iter().find(|event| event.event_type == "workflow_started");
    started.and_then(|event| event.data.get("input").cloned()).unwrap_or(Value::Null)
}

/// Returns the seconds that each state took, by its position among the completed ones.
pub(crate) fn times(events: &[RunEvent]) -> Vec<f64> {
    let time = |event: &RunEvent| event.data.get("elapsed_time").and_then(Value::as_f64).unwrap_or_default();
    events.iter().filter(|event| event.event_type == "state_completed").map(time).collect()
}
