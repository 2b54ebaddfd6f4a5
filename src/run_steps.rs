//! The events of a run, and the states that ended with a question for the next state.

use serde_json::Value;
use steplatch_protocol::{DaemonPaths, FollowError, RunEvent};

use crate::daemon_client;
use crate::failure::Failure;

/// Reads the existing events of a run.
///
/// # Errors
/// If there is no such run, or the daemon is unreachable.
pub(crate) async fn read_events(paths: &DaemonPaths, run: &str) -> Result<Vec<RunEvent>, Failure> {
    let to_failure = |error| match error {
        FollowError::Unknown(_) => Failure::usage(format!("there is no run '{run}'; steplatch runs list has them")),
        error => Failure::from(error),
    };
    let daemon = daemon_client::reconnecting_client(paths)?;
    let mut follower = daemon.follow(run, 1);
    let newest = follower.newest_seq().await.map_err(to_failure)?;
    let mut events: Vec<RunEvent> = Vec::new();
    while events.last().is_none_or(|event| event.seq < newest) {
        let Some(event) = follower.next().await.map_err(to_failure)? else { break };
        events.push(event);
    }
    Ok(events)
}

/// Returns the states that ended with a question for the next state, because no expected screen appeared.
pub(crate) fn asking_states(events: &[RunEvent]) -> Vec<String> {
    let state = |event: &&RunEvent| event.data.get("state").and_then(Value::as_str).unwrap_or_default().to_owned();
    // A declared gate names the parties that may answer it; a question about the next state does not.
    let is_unknown = |event: &&RunEvent| event.event_type == "gate_waiting" && !event.data.contains_key("answered_by");
    events.iter().filter(is_unknown).map(|event| state(&event)).collect()
}
