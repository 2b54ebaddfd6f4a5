//! A run's history as events for those who follow it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::RunEvent;
use steplatch_sessions::{Disconnected, EventSink};
use steplatch_store::{Journal, ReadError, Record};
use steplatch_workflow::{By, ChildEnd, Event, History, Outcome};

use super::run::{Progress, Run};
use super::{function, remote};
use crate::seal::Seal;
use crate::shared::Shared;

/// The events of one run for one who follows it.
#[derive(Debug)]
pub struct RunEvents {
    shared: Arc<Shared>,
    run: Arc<Run>,
    next: u64,
    /// How many are told yet, where somebody wants only some.
    left: Option<u64>,
}

/// Entries of a history that are read at once: whoever follows slowly holds no more of it in memory.
const PIECE: usize = 256;

impl RunEvents {
    pub(super) fn new(shared: Arc<Shared>, run: Arc<Run>, from: u64, at_most: Option<u64>) -> Self {
        Self { shared, run, next: from.max(1), left: at_most }
    }

    /// Returns the number of the newest event so far; 0 where nothing was told yet.
    ///
    /// # Errors
    /// When the history can not be read.
    pub(super) async fn newest(&self) -> Result<u64, Unreadable> {
        let last = self.run.progress().seq;
        let mut back = 1;
        loop {
            // Few entries in a row are told to nobody, so the end of the history is nearly always enough.
            let from = (last + 1).saturating_sub(back).max(1);
            let told = self.shared.told_of(&self.run, from, usize::MAX).await?;
            let seen = (from..=last).zip(&told).filter(|(_, event)| event.is_some()).map(|(seq, _)| seq);
            match seen.last() {
                Some(newest) => return Ok(newest),
                None if from == 1 => return Ok(0),
                None => back *= 8,
            }
        }
    }

    /// Sends events in order, each once, until the run or the client is at its end. They are read from the
    /// history as fast as the client takes them, so a slow one holds up nobody.
    pub async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let mut progress = self.run.follow();
        loop {
            let (last, is_over) = {
                let seen = progress.borrow_and_update();
                (seen.seq, seen.state.is_over())
            };
            // The end of a run is told when what it leaves behind is cleared away.
            while self.next <= last && self.left != Some(0) {
                let piece = usize::try_from(last - self.next + 1).map_or(PIECE, |left| left.min(PIECE));
                let events = match self.shared.told_of(&self.run, self.next, piece).await {
                    Ok(events) => events,
                    Err(error) => {
                        tracing::error!(run = %self.run.id, %error, "a history can not be followed");
                        let data = json!({"error": format!("the history can not be read: {error}")});
                        let event = envelope(&self.run, self.next, RunEvent::UNREADABLE, data, clock::now_iso8601());
                        return sink.event(request_id, &event).await;
                    }
                };
                if events.is_empty() {
                    // It was forgotten meanwhile.
                    return Ok(());
                }
                for told in events {
                    self.next += 1;
                    let Some(mut event) = told else { continue };
                    self.shared.secrets.mask_fields(&mut event.data);
                    sink.event(request_id, &event).await?;
                    self.left = self.left.map(|left| left.saturating_sub(1));
                    if self.left == Some(0) {
                        return Ok(());
                    }
                }
            }
            if is_over || progress.changed().await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Why an entry of a history can not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// The journal does not give it.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// It says something that this version does not know.
    #[error("entry {seq} says what this version does not know: {cause}")]
    Unknown { seq: u64, cause: serde_json::Error },
}

/// Reads an entry of a history. What a seal does not know stays hidden.
pub(super) fn read(record: Record, seal: &Seal) -> Result<Event, Unreadable> {
    let text = seal.open(record.text);
    serde_json::from_str(&text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
}

/// Text of entries that is read at once; more of it is read where it holds up nobody.
const READ_AT_ONCE: usize = 256 * 1024;

impl Shared {
    /// Returns what happened in a run, from entry number `from` on. What a seal does not know stays hidden.
    pub(super) async fn events_of(&self, run: &RunId, from: u64, seal: &Seal) -> Result<Vec<Event>, Unreadable> {
        let records = self.journal.read(run, from).await?;
        self.read_all(records, seal).await
    }

    async fn read_all(&self, records: Vec<Record>, seal: &Seal) -> Result<Vec<Event>, Unreadable> {
        let all = |records: Vec<Record>, seal: &Seal| records.into_iter().map(|record| read(record, seal)).collect();
        if records.iter().map(|record| record.text.len()).sum::<usize>() < READ_AT_ONCE {
            return all(records, seal);
        }
        let seal = seal.clone();
        self.at_length(move || all(records, &seal)).await
    }

    /// Does work that takes its time on a thread that may, a few at once.
    pub(super) async fn at_length<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.readers.clone().acquire_owned().await.expect("the semaphore is never closed");
        let working = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        match working.await {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Shared {
    /// Returns what who follows a run is told, for at most so many entries from number `from` on.
    async fn told_of(&self, run: &Run, from: u64, at_most: usize) -> Result<Vec<Option<RunEvent>>, Unreadable> {
        let records = self.journal.read_some(&run.id, from, at_most).await?;
        if run.is_function() {
            return records.iter().map(|record| function::event(run, record)).collect();
        }
        if run.is_remote() {
            return records.iter().map(|record| remote::event(run, record)).collect();
        }
        let events = self.read_all(records, &Seal::default()).await?;
        let mut all = Vec::with_capacity(events.len());
        for (seq, event) in (from..).zip(events) {
            // What stands in earlier entries is looked up, which few events need.
            let looked_up = match &event {
                Event::GateExpired { step, .. } => Some(("timeout", self.limit_of_gate(&run.id, step).await?)),
                Event::Completed { .. } => Some(("result", self.returned_by(run).await?)),
                _ => None,
            };
            let mut event = told(run, seq, event);
            if let (Some(event), Some((name, value))) = (&mut event, looked_up) {
                event.data.insert(name.to_owned(), value);
            }
            all.push(event);
        }
        Ok(all)
    }

    /// Returns the seconds for which a gate of a machine waited for its answer.
    async fn limit_of_gate(&self, run: &RunId, gate: &StepId) -> Result<Value, Unreadable> {
        let asked = self.events_of(run, 1, &Seal::default()).await?.into_iter().find_map(|event| match event {
            Event::GateAsked { at, step, expires_at, .. } if step == *gate => expires_at.map(|until| until.since(at)),
            _ => None,
        });
        Ok(json!(asked.map(|limit| limit.as_secs_f64())))
    }

    /// Returns the return values of a machine that is completed.
    async fn returned_by(&self, run: &Run) -> Result<Value, Unreadable> {
        let Progress { result, result_shortened, .. } = run.progress();
        match result.filter(|_| !result_shortened) {
            Some(result) => Ok(Value::clone(&result)),
            None => {
                let events = self.events_of(&run.id, 1, &Seal::default()).await?;
                Ok(json!(History::from_iter(&events).return_values()))
            }
        }
    }
}

fn told(run: &Run, seq: u64, event: Event) -> Option<RunEvent> {
    let timestamp = clock::to_iso8601(event.at());
    let (event_type, data) = match event {
        Event::Started { variables, limits, session_id, parent, .. } => (
            "workflow_started",
            json!({"input": variables, "session_id": session_id, "max_states": limits.max_states(),
                   "parent_run_id": parent.map(|step| step.run)}),
        ),
        Event::StateEntered { step, tool, params, .. } => {
            let mut data = json!({"state": step.place, "visit": step.visit, "tool": tool, "params": params});
            if tool == "run_workflow" {
                data["child_run_id"] = RunId::started_by(&step).as_str().into();
            }
            ("state_entered", data)
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
        Event::GateAsked { step, question, context, expires_at, .. } => (
            "gate_waiting",
            json!({"gate_id": step.to_string(), "state": step.place, "prompt": question.prompt,
                   "choices": Some(question.choices).filter(|choices| !choices.is_empty()), "form": question.form, "answered_by": question.answered_by,
                   "expires_at": expires_at.map(clock::to_iso8601), "context": context}),
        ),
        Event::GateExpired { step, .. } => ("gate_timeout", json!({"gate_id": step.to_string(), "state": step.place})),
        Event::GateAnswered { step, choice, by, .. } => {
            let mut data = json!({"gate_id": step.to_string(), "state": step.place, "answer": choice});
            tell_by(&mut data, Some(by));
            ("gate_answered", data)
        }
        Event::GateCancelled { step, .. } => {
            ("gate_cancelled", json!({"gate_id": step.to_string(), "state": step.place}))
        }
        Event::ChildStarted { step, workflow, .. } => {
            ("nested_workflow_started", nested(&step, json!({"workflow_id": workflow})))
        }
        Event::ChildEnded { step, workflow, end, error, .. } => {
            let event_type = match end {
                ChildEnd::Completed => "nested_workflow_completed",
                ChildEnd::Failed => "nested_workflow_failed",
                ChildEnd::Cancelled => "nested_workflow_cancelled",
            };
            let data = match error {
                Some(error) => json!({"workflow_id": workflow, "error": error}),
                None => json!({"workflow_id": workflow}),
            };
            (event_type, nested(&step, data))
        }
        Event::ChildWaits { step, .. } => ("nested_workflow_waiting", nested(&step, json!({}))),
        Event::ChildGoesOn { step, .. } => ("nested_workflow_resumed", nested(&step, json!({}))),
        // Each request would be told twice: what came of all of them is what matters. What is held back is told when it
        // is let go.
        Event::VariablesAsked { .. }
        | Event::VariablesTold { .. }
        | Event::HeldBack { .. }
        | Event::ScreenRead { .. } => {
            return None;
        }
        Event::ContractChecked { side, values, holds, error, .. } => {
            ("contract_checked", json!({"side": side, "variables": values, "success": holds, "error": error}))
        }
        Event::Paused { by, .. } => ("workflow_paused", json!({"by": by})),
        Event::Resumed { by, .. } => ("workflow_resumed", json!({"by": by})),
        Event::Completed { .. } => ("workflow_completed", json!({})),
        Event::Failed { reason, error, .. } => ("workflow_failed", json!({"reason": reason, "error": error})),
        Event::Cancelled { reason, .. } => ("workflow_cancelled", json!({"reason": reason})),
    };
    Some(envelope(run, seq, event_type, data, timestamp))
}

/// Adds to what is told of a run that a step started which one it is.
/// Adds to the data of an answer who gave it.
pub(super) fn tell_by(data: &mut Value, by: Option<By>) {
    let By { who, through, proof, shown } = by.unwrap_or_default();
    data["by"] = who.into();
    data["through"] = through.into();
    for (name, value) in [("proof", proof.map(|proof| proof.name().to_owned())), ("shown", shown)] {
        if let Some(value) = value {
            data[name] = value.into();
        }
    }
}

fn nested(step: &StepId, mut data: Value) -> Value {
    data["state"] = step.place.as_str().into();
    data["child_run_id"] = RunId::started_by(step).as_str().into();
    data
}

pub(super) fn envelope(run: &Run, seq: u64, event_type: &str, data: Value, timestamp: String) -> RunEvent {
    RunEvent {
        seq,
        run_id: run.id.to_string(),
        workflow_id: run.about.workflow.clone(),
        event_type: event_type.to_owned(),
        data: match data {
            Value::Object(data) => with_ids(run, event_type, data),
            _ => Map::new(),
        },
        timestamp,
    }
}

/// Adds to the beginning and the end of a run which one it is: some who follow many look at the data alone.
fn with_ids(run: &Run, event_type: &str, data: Map<String, Value>) -> Map<String, Value> {
    let mut ids = match event_type {
        "workflow_started" => Map::from_iter([("workflow_id".to_owned(), run.about.workflow.clone().into())]),
        "workflow_completed" | "workflow_failed" | "workflow_cancelled" => Map::new(),
        _ => return data,
    };
    ids.insert("run_id".to_owned(), run.id.as_str().into());
    ids.extend(data);
    ids
}
