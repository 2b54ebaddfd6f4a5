//! Runs of functions, as they are told to who follows or asks.

use serde_json::{Map, Value, json};
use steplatch_protocol::{RunEvent, RunReply};
use steplatch_python::{Answer, CallKind};
use steplatch_store::Record;
use steplatch_workflow::By;

use super::entry::{Asked, Entry, told_as};
use super::gate::{HUMAN, step};
use super::history::Folded;
use crate::moment;
use crate::runs::event::{Unreadable, envelope};
use crate::runs::run::{Run, RunState};
use crate::secrets::Secrets;

/// Tells an entry as an event; one that says nothing to anybody else is `None`.
pub(in crate::runs) fn event(run: &Run, record: &Record) -> Result<Option<RunEvent>, Unreadable> {
    let gate_id = |ordinal: u64| step(&run.id, ordinal).map(|step| step.to_string());
    let (at, event_type, data) = match Entry::read(record)? {
        Entry::Started(started) => {
            let data = json!({"input": started.input, "params": started.params, "file": started.file});
            (started.at, "workflow_started".to_owned(), data)
        }
        Entry::Called { at, call } => {
            let (event_type, data) = match call.kind {
                CallKind::Run { node, input, .. } => {
                    ("node_started".to_owned(), json!({"node_id": node, "call": call.ordinal, "input": input}))
                }
                CallKind::Gate { prompt, choices, form, answered_by, context, .. } => (
                    "gate_waiting".to_owned(),
                    json!({"gate_id": gate_id(call.ordinal), "state": "gate", "prompt": prompt,
                           "choices": choices.unwrap_or_default(), "form": form,
                           "answered_by": answered_by.as_deref().unwrap_or(HUMAN), "context": context}),
                ),
                CallKind::Emit { event_type, data } => (told_as(&event_type), data),
                CallKind::Log { text } => ("log".to_owned(), json!({"text": text})),
                CallKind::Sleep { .. }
                | CallKind::Now {}
                | CallKind::Random {}
                | CallKind::RunWorkflow { .. }
                | CallKind::RunGraph { .. } => return Ok(None),
            };
            (at, event_type, data)
        }
        Entry::Answered { at, ordinal, answer, by, asked } => {
            let (event_type, data) = match asked {
                Asked::Other => return Ok(None),
                Asked::Gate => match answer {
                    Answer::Value(answer) => {
                        let (by, through) = by.map_or((None, None), |By { who, through }| (Some(who), through));
                        let data = json!({"gate_id": gate_id(ordinal), "state": "gate", "answer": answer, "by": by,
                                          "through": through});
                        ("gate_answered", data)
                    }
                    Answer::Raise { .. } => ("gate_timeout", json!({"gate_id": gate_id(ordinal), "state": "gate"})),
                },
                Asked::Node(node) => match answer {
                    Answer::Value(result) => {
                        let good = result.get("success") == Some(&Value::Bool(true));
                        let event_type = if good { "node_completed" } else { "node_error" };
                        (event_type, json!({"node_id": node, "call": ordinal, "result": result}))
                    }
                    Answer::Raise { exception, message } => {
                        let event_type = if exception == "TimeoutError" { "node_timeout" } else { "node_error" };
                        (event_type, json!({"node_id": node, "call": ordinal, "error": message}))
                    }
                },
            };
            (at, event_type.to_owned(), data)
        }
        Entry::Abandoned { at, ordinal, asked } => match asked {
            Asked::Gate => (at, "gate_cancelled".to_owned(), json!({"gate_id": gate_id(ordinal), "state": "gate"})),
            Asked::Node(node) => (
                at,
                "node_error".to_owned(),
                json!({"node_id": node, "call": ordinal,
                "error": "nobody waits for it any more"}),
            ),
            Asked::Other => return Ok(None),
        },
        Entry::Completed { at, result } => (at, "workflow_completed".to_owned(), json!({"result": result})),
        Entry::Failed { at, error } => (at, "workflow_failed".to_owned(), json!({"reason": "failed", "error": error})),
        Entry::Cancelled { at, reason } => (at, "workflow_cancelled".to_owned(), json!({"reason": reason})),
    };
    let data = match data {
        Value::Object(data) => Value::Object(data),
        Value::Null => Value::Object(Map::new()),
        other => json!({"data": other}),
    };
    Ok(Some(envelope(run, record.seq, &event_type, data, moment::told(at))))
}

/// Tells how far a run is.
///
/// # Errors
/// When an entry can not be read.
pub(in crate::runs) fn report(run: &Run, records: &[Record], secrets: &Secrets) -> Result<RunReply, Unreadable> {
    let progress = run.progress();
    let mut folded = Folded::default();
    for record in records {
        folded.apply(&Entry::read(record)?);
    }
    let ended = progress.ended.unwrap_or_else(moment::now);
    let mut result = folded.end.and_then(|end| end.result).unwrap_or_default();
    secrets.mask_in(&mut result);
    Ok(RunReply {
        success: matches!(progress.state, RunState::Running | RunState::Waiting | RunState::Completed),
        run_id: run.id.to_string(),
        status: progress.state.name().to_owned(),
        workflow_name: Some(run.about.workflow.clone()),
        total_elapsed_time: ended.since(run.about.started).as_secs_f64(),
        result: Some(result).filter(|_| progress.state == RunState::Completed),
        pending_gate: progress.questions.first().map(|question| question.info(secrets)),
        error: secrets.masked_if(progress.error.or(progress.trouble)),
        ..RunReply::default()
    })
}
