//! Runs of remote workflows as events and reports.

use serde_json::{Value, json};
use steplatch_access::Redactor;
use steplatch_clock as clock;
use steplatch_protocol::{RunEvent, RunReply};
use steplatch_services::RemoteIds;
use steplatch_store::Record;
use steplatch_workflow::Outcome;

use super::entry::{Entry, RemoteStart};
use super::state::{Phase, State};
use crate::child::outcome_with;
use crate::definition_source::DefinitionSource;
use crate::engine_state::Engine;
use crate::event::{Unreadable, envelope};
use crate::result_error::ResultError;
use crate::run::{Run, RunStatus};
use crate::seal::Seal;

/// Returns an entry as an event; `None` if followers do not see the entry.
pub(crate) fn event(run: &Run, record: &Record) -> Result<Option<RunEvent>, Unreadable> {
    let entry = Entry::read(record, &Seal::default())?;
    let at = entry.time();
    let (event_type, data) = match entry {
        Entry::Began(began) => {
            let RemoteStart { service, workflow_id, input, .. } = *began;
            ("workflow_started", json!({"input": input, "remote": service, "remote_workflow_id": workflow_id}))
        }
        Entry::Queued { .. } => ("remote_queued", json!({})),
        // The outcome of the start produces an event.
        Entry::Starting { .. } => return Ok(None),
        Entry::NotStarted { error, retry_at, .. } => {
            ("remote_refused", json!({"error": error, "again_at": clock::to_iso8601(retry_at)}))
        }
        Entry::Started { correlation_id, instance, .. } => {
            ("remote_started", json!({"correlation_id": correlation_id, "workflow_instance_id": instance}))
        }
        Entry::StatusChanged { status, gate, .. } => ("remote_status", json!({"status": status, "pending_gate": gate})),
        Entry::Paused { by, .. } => ("workflow_paused", json!({"by": by})),
        Entry::Resumed { by, .. } => ("workflow_resumed", json!({"by": by})),
        Entry::Cancelling { reason, timed_out, .. } => {
            ("remote_cancelling", json!({"reason": reason, "time_limit": timed_out}))
        }
        Entry::Completed { result, .. } => ("workflow_completed", json!({"result": result})),
        Entry::Failed { error, result, .. } => {
            ("workflow_failed", json!({"reason": "failed", "error": error, "result": result}))
        }
        Entry::Cancelled { reason, result, .. } => ("workflow_cancelled", json!({"reason": reason, "result": result})),
    };
    Ok(Some(envelope(run, record.seq, event_type, data, clock::to_iso8601(at))))
}

/// Returns the report of a run with this progress.
///
/// # Errors
///
/// If reading an entry fails.
pub(crate) fn report(
    run: &Run,
    progress: RunStatus,
    records: &[Record],
    secrets: &Redactor,
) -> Result<RunReply, Unreadable> {
    let mut state = State::default();
    for record in records {
        state.apply(&Entry::read(record, &Seal::default())?);
    }
    let next_step = match progress.state.is_over() {
        true => None,
        false => next_step(&state, &run.header.workflow),
    };
    let result = state.end.map(|end| secrets.masked_value(end.result));
    Ok(RunReply {
        result: result.filter(|_| progress.state.is_over()),
        next_step: secrets.masked_if(next_step),
        ..run.reply(&progress, secrets)
    })
}

/// Returns the reason for the run's wait, if no action here can end the wait.
fn next_step(state: &State, tool: &str) -> Option<String> {
    if let Some(gate) = state.gate() {
        let prompt: String =
            gate.get("prompt").and_then(Value::as_str).unwrap_or("a question").chars().take(500).collect();
        return Some(format!(
            "The run waits for an answer at its service (in the service's words: {prompt}). Answer there; then the run continues."
        ));
    }
    match &state.phase {
        Phase::ToStart if state.queued => {
            Some(format!("{tool} is queued: its service is at its limit of concurrent runs."))
        }
        Phase::ToStartAt(retry_at) => Some(format!(
            "The service has not started the run yet; the next attempt is at {}.",
            clock::to_iso8601(*retry_at)
        )),
        _ => None,
    }
}

/// Returns the result of a finished run, as the service reported it. The result contains its secrets only while the run
/// is in memory.
///
/// # Errors
///
/// If reading the history fails.
pub(crate) async fn result_of(shared: &Engine, run: &Run) -> Result<Value, ResultError> {
    if let Some(returned) = run.progress().returned {
        return Ok(Value::clone(&returned));
    }
    let records = shared.journal.read(&run.id, 1).await.map_err(Unreadable::from)?;
    let mut state = State::default();
    for record in &records {
        state.apply(&Entry::read(record, &Seal::default())?);
    }
    Ok(state.end.map(|end| end.result).unwrap_or_default())
}

/// Returns the ids of a run at its service; `None` if the service has not started it.
pub(crate) async fn remote_ids(shared: &Engine, run: &Run) -> Option<RemoteIds> {
    let DefinitionSource::Remote { service } = &run.header.source else { return None };
    let records = shared.journal.read(&run.id, 1).await.ok()?;
    records.iter().rev().find_map(|record| match Entry::read(record, &Seal::default()) {
        Ok(Entry::Started { instance, correlation_id, .. }) => {
            Some(RemoteIds { service: service.clone(), instance, correlation: correlation_id })
        }
        _ => None,
    })
}

/// Returns the outcome of a finished run for a waiting machine.
pub(crate) async fn outcome_of(shared: &Engine, run: &Run) -> Outcome {
    outcome_with(run, Some(result_of(shared, run).await))
}
