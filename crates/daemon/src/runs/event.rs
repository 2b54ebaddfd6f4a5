//! A run's history as events for those who follow it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steplatch_protocol::RunEvent;
use steplatch_store::{Journal, Record};
use steplatch_workflow::{Event, Outcome};

use super::drive::ENTRY_VERSION;
use super::{Run, Shared};
use crate::connection::{Disconnected, Outgoing};
use crate::moment;

/// The events of one run for one who follows it.
#[derive(Debug)]
pub(crate) struct RunEvents {
    shared: Arc<Shared>,
    run: Arc<Run>,
    next: u64,
}

impl RunEvents {
    pub(super) fn new(shared: Arc<Shared>, run: Arc<Run>, from: u64) -> Self {
        Self { shared, run, next: from.max(1) }
    }

    /// Sends events in order, each once, until the run or the client is at its end. They are read from the
    /// history as fast as the client takes them, so a slow one holds up nobody.
    pub(crate) async fn forward(mut self, request_id: &Value, outgoing: &Outgoing) -> Result<(), Disconnected> {
        let mut progress = self.run.progress.clone();
        loop {
            let seen = progress.borrow_and_update().clone();
            let records = self.shared.journal.read(&self.run.id, self.next).await.unwrap_or_else(|error| {
                tracing::error!(run = %self.run.id, %error, "a history can not be followed");
                Vec::new()
            });
            for record in records {
                // The end of a run is told when what it leaves behind is cleared away.
                if record.seq > seen.seq {
                    break;
                }
                self.next = record.seq + 1;
                if let Some(mut event) = told(&self.run, &record) {
                    let mut data = Value::Object(std::mem::take(&mut event.data));
                    self.shared.secrets.mask_in(&mut data);
                    if let Value::Object(data) = data {
                        event.data = data;
                    }
                    outgoing.event(request_id, &event).await?;
                }
            }
            if seen.state.is_over() || progress.changed().await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Reads an entry of a history.
pub(super) fn read(record: &Record) -> Option<Event> {
    if record.version > ENTRY_VERSION {
        tracing::error!(version = record.version, "an entry of a history is newer than this daemon");
        return None;
    }
    serde_json::from_str(&record.text).map_err(|error| tracing::error!(%error, "an entry can not be read")).ok()
}

fn told(run: &Run, record: &Record) -> Option<RunEvent> {
    let event = read(record)?;
    let timestamp = moment::told(event.at());
    let (event_type, data) = match event {
        Event::Started { variables, limits, session_id, parent, .. } => (
            "workflow_started",
            json!({"input": variables, "session_id": session_id, "max_states": limits.max_states(),
                   "parent_run_id": parent.map(|step| step.run)}),
        ),
        Event::StateEntered { step, tool, params, .. } => {
            ("state_entered", json!({"state": step.place, "visit": step.visit, "tool": tool, "params": params}))
        }
        Event::StateCompleted { step, outcome, elapsed, .. } => {
            let (outcome, result) = match outcome {
                Outcome::Finished { result } => ("finished", Value::Object(result)),
                Outcome::TimedOut => ("timed_out", Value::Null),
                Outcome::Unknown => ("unknown", Value::Null),
            };
            (
                "state_completed",
                json!({"state": step.place, "visit": step.visit, "outcome": outcome, "result": result,
                       "elapsed_time": elapsed.as_secs_f64()}),
            )
        }
        Event::Transitioned { from, to, because, .. } => {
            ("transition", json!({"from": from, "to": to, "because": because}))
        }
        Event::GateOpened { step, choices, context, .. } => {
            let choices: Vec<_> = choices.into_iter().map(|choice| choice.description).collect();
            (
                "gate_waiting",
                json!({"gate_id": step.to_string(), "state": step.place, "choices": choices, "context": context}),
            )
        }
        Event::GateAnswered { step, choice, by, .. } => {
            ("gate_answered", json!({"gate_id": step.to_string(), "state": step.place, "answer": choice, "by": by}))
        }
        // Each request would be told twice: what came of all of them is what matters.
        Event::VariablesAsked { .. } | Event::VariablesTold { .. } => return None,
        Event::ContractChecked { side, values, holds, error, .. } => {
            ("contract_checked", json!({"side": side, "variables": values, "success": holds, "error": error}))
        }
        Event::Completed { .. } => ("workflow_completed", json!({})),
        Event::Failed { reason, error, .. } => ("workflow_failed", json!({"reason": reason, "error": error})),
        Event::Cancelled { reason, .. } => ("workflow_cancelled", json!({"reason": reason})),
    };
    let data = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    Some(RunEvent {
        seq: record.seq,
        run_id: run.id.to_string(),
        workflow_id: run.workflow.clone(),
        event_type: event_type.to_owned(),
        data,
        timestamp,
    })
}
