//! The events of a run, and where it asked.

use serde_json::Value;
use steplatch_protocol::{DaemonPaths, FollowError, RunEvent};

use crate::failure::Failure;
use crate::front;

/// Reads the events of a run so far.
///
/// # Errors
/// If there is no such run, or no daemon answers.
pub(crate) async fn events(paths: &DaemonPaths, run: &str) -> Result<Vec<RunEvent>, Failure> {
    let unknown = |error| match error {
        FollowError::Unknown(_) => Failure::usage(format!("there is no run '{run}'; steplatch runs list has them")),
        error => Failure::from(error),
    };
    let daemon = front::steady(paths)?;
    let mut following = daemon.follow(run, 1);
    let newest = following.newest_seq().await.map_err(unknown)?;
    let mut events: Vec<RunEvent> = Vec::new();
    while events.last().is_none_or(|event| event.seq < newest) {
        let Some(event) = following.next().await.map_err(unknown)? else { break };
        events.push(event);
    }
    Ok(events)
}

/// Returns the states in which the run asked for its next state, because they found nothing that they expect.
pub(crate) fn asking_states(events: &[RunEvent]) -> Vec<String> {
    let state = |event: &&RunEvent| event.data.get("state").and_then(Value::as_str).unwrap_or_default().to_owned();
    // A judgement names no answerer: it is not the workflow's own question.
    let is_unknown = |event: &&RunEvent| event.event_type == "gate_waiting" && !event.data.contains_key("answered_by");
    events.iter().filter(is_unknown).map(|event| state(&event)).collect()
}
