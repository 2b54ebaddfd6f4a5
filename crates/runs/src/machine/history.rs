//! The history of a machine, read for its driver and for followers.

use serde_json::{Value, json};
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::RunEvent;
use steplatch_store::Record;
use steplatch_workflow::{AnsweredBy, ChildEnd, Event, History, Outcome};

use crate::engine_state::Engine;
use crate::event::{Unreadable, add_author, envelope};
use crate::run::{Run, RunStatus};
use crate::seal::Seal;

/// Reads an entry of a history. A mark unknown to the seal remains hidden.
pub(crate) fn read(record: Record, seal: &Seal) -> Result<Event, Unreadable> {
    let text = seal.open(record.text);
    serde_json::from_str(&text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
}

/// Returns whether a machine with these entries leaves its terminals open when it fails.
pub(crate) fn keeps_terminals(records: &[Record]) -> bool {
    let first = records.first().map(|first| read(first.clone(), &Seal::default()));
    matches!(first, Some(Ok(Event::Started { keep_terminals: true, .. })))
}

/// Maximum bytes of entries to parse inline. A separate thread parses a longer history.
const MAX_INLINE_BYTES: usize = 256 * 1024;

impl Engine {
    /// Returns the events of a run, starting at entry number `from`. A mark unknown to the seal remains hidden.
    pub(crate) async fn events_of(&self, run: &RunId, from: u64, seal: &Seal) -> Result<Vec<Event>, Unreadable> {
        let records = self.journal.read(run, from).await?;
        self.read_all(records, seal).await
    }

    pub(crate) async fn read_all(&self, records: Vec<Record>, seal: &Seal) -> Result<Vec<Event>, Unreadable> {
        let parse_all =
            |records: Vec<Record>, seal: &Seal| records.into_iter().map(|record| read(record, seal)).collect();
        if records.iter().map(|record| record.text.len()).sum::<usize>() < MAX_INLINE_BYTES {
            return parse_all(records, seal);
        }
        let seal = seal.clone();
        self.run_blocking(move || parse_all(records, &seal)).await
    }

    /// Returns the events for a machine's followers from these records. The first record is entry number `from`.
    pub(crate) async fn machine_events(
        &self,
        run: &Run,
        from: u64,
        records: Vec<Record>,
    ) -> Result<Vec<Option<RunEvent>>, Unreadable> {
        let events = self.read_all(records, &Seal::default()).await?;
        let mut all = Vec::with_capacity(events.len());
        for (seq, event) in (from..).zip(events) {
            // Looks up data from earlier entries; few events need such data.
            let earlier_field = match &event {
                Event::GateExpired { step, .. } => Some(("timeout", self.gate_timeout(&run.id, step).await?)),
                Event::Completed { .. } => Some(("result", self.return_values(run).await?)),
                _ => None,
            };
            let mut event = to_run_event(run, seq, event);
            if let (Some(event), Some((name, value))) = (&mut event, earlier_field) {
                event.data.insert(name.to_owned(), value);
            }
            all.push(event);
        }
        Ok(all)
    }

    /// Returns the waiting time of a machine's gate, in seconds.
    async fn gate_timeout(&self, run: &RunId, gate: &StepId) -> Result<Value, Unreadable> {
        let timeout = self.events_of(run, 1, &Seal::default()).await?.into_iter().find_map(|event| match event {
            Event::GateAsked { at, step, expires_at, .. } if step == *gate => expires_at.map(|until| until.since(at)),
            _ => None,
        });
        Ok(json!(timeout.map(|limit| limit.as_secs_f64())))
    }

    /// Returns the return values of a completed machine.
    async fn return_values(&self, run: &Run) -> Result<Value, Unreadable> {
        let RunStatus { result, result_shortened, .. } = run.progress();
        match result.filter(|_| !result_shortened) {
            Some(result) => Ok(Value::clone(&result)),
            None => {
                let events = self.events_of(&run.id, 1, &Seal::default()).await?;
                Ok(result_value(&History::from_iter(&events)))
            }
        }
    }
}

/// Returns the result of a completed machine: the result of a `return`, else its return values.
pub(super) fn result_value(history: &History) -> Value {
    history.result().cloned().unwrap_or_else(|| json!(history.return_values()))
}

fn to_run_event(run: &Run, seq: u64, event: Event) -> Option<RunEvent> {
    let timestamp = clock::to_iso8601(event.time());
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
        Event::ItemsBegan { state, name, items, .. } => {
            ("items_began", json!({"state": state, "as": name, "items": items}))
        }
        Event::QuestionAnswered { step, answer, .. } => {
            let mut data = json!({"state": step.place, "match_text": answer.match_text, "rule": answer.rule});
            if !answer.secret {
                data["input_text"] = answer.input_text.into();
                data["keys"] = answer.keys.into();
            }
            ("question_answered", data)
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
            add_author(&mut data, Some(by));
            ("gate_answered", data)
        }
        Event::GateCancelled { step, .. } => {
            ("gate_cancelled", json!({"gate_id": step.to_string(), "state": step.place}))
        }
        Event::PatchProposed { step, proposal, .. } => (
            "gate_waiting",
            json!({"gate_id": step.to_string(), "state": proposal.state, "prompt": proposal.prompt(),
                   "choices": proposal.answers().collect::<Vec<_>>(), "answered_by": AnsweredBy::Human,
                   "context": proposal.context(), "patch": proposal.patch}),
        ),
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
        Event::BranchBegan { step, name, .. } => {
            ("branch_began", nested(&step, json!({"branch": step.visit, "name": name})))
        }
        Event::BranchEnded { step, name, result, .. } => {
            ("branch_ended", nested(&step, json!({"branch": step.visit, "name": name, "result": result})))
        }
        Event::ChildWaits { step, .. } => ("nested_workflow_waiting", nested(&step, json!({}))),
        Event::ChildGoesOn { step, .. } => ("nested_workflow_resumed", nested(&step, json!({}))),
        // Followers see only the common result of requests for variables, and a withheld action at its release.
        Event::VariablesAsked { .. }
        | Event::VariablesTold { .. }
        | Event::HeldBack { .. }
        | Event::FinallyBegan { .. }
        | Event::ScreensKept { .. }
        // The record of the run lists it among its repairs.
        | Event::PatchSaved { .. }
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

fn nested(step: &StepId, mut data: Value) -> Value {
    // A branch is a part of its state's step: "state/visit/branch".
    data["state"] = step.place.split('/').next().into();
    data["child_run_id"] = RunId::started_by(step).as_str().into();
    data
}
