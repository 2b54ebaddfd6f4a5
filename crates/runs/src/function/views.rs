//! Runs of functions as events and reports.

use serde_json::{Map, Value, json};
use steplatch_access::Redactor;
use steplatch_clock as clock;
use steplatch_nodes::NodeId;
use steplatch_nodes::graph::{Ending, GraphEvent, StepOutcome};
use steplatch_protocol::{RunEvent, RunReply};
use steplatch_python_api::{Answer, CallKind};
use steplatch_store::Record;

use super::calls::{ROOT, child_run_id};
use super::entry::{CallLabel, Entry, event_name};
use super::gate::{HUMAN, plain_answer, step};
use super::history::FunctionState;
use crate::event::{Unreadable, add_author, envelope};
use crate::run::{Run, RunStatus};
use crate::seal::Seal;
use crate::time_span::TimeSpan;

/// Returns an entry as an event; `None` if followers do not see the entry.
pub(crate) fn event(run: &Run, record: &Record) -> Result<Option<RunEvent>, Unreadable> {
    let gate_id = |number: u64| step(&run.id, number).map(|step| step.to_string());
    let (at, event_type, data) = match Entry::read(record, &Seal::default())? {
        Entry::Started(started) => {
            let data = json!({"input": started.input, "params": started.params, "file": started.file});
            (started.at, "workflow_started".to_owned(), data)
        }
        Entry::Called { at, number, frame, within: inner, call } => {
            let frame = inner.unwrap_or(frame);
            let (event_type, data) = match call.kind {
                CallKind::Run { node, input, .. } | CallKind::RunGraph { graph: node, input, .. } => (
                    "node_started".to_owned(),
                    in_frame(frame, json!({"node_id": node, "call": number, "input": input})),
                ),
                CallKind::RunWorkflow { workflow, input, params, .. } => {
                    let data = json!({"workflow_id": workflow, "call": number, "input": input, "params": params,
                                      "child_run_id": child_run_id(&run.id, number)});
                    ("nested_workflow_started".to_owned(), in_frame(frame, data))
                }
                CallKind::Gate { prompt, choices, form, answered_by, context, .. } => (
                    "gate_waiting".to_owned(),
                    json!({"gate_id": gate_id(number), "state": "gate", "prompt": prompt,
                           "choices": choices, "form": form,
                           "answered_by": answered_by.as_deref().unwrap_or(HUMAN), "context": context}),
                ),
                CallKind::Emit { event_type, data } => (event_name(&event_type), data),
                CallKind::Log { text } => ("log".to_owned(), json!({"text": text})),
                CallKind::Sleep { .. } | CallKind::Now {} | CallKind::Random {} | CallKind::Ended { .. } => {
                    return Ok(None);
                }
            };
            (at, event_type, data)
        }
        Entry::Answered { at, number, answer, by, label, timeout } => {
            let (event_type, data) = match label {
                CallLabel::Other => return Ok(None),
                CallLabel::Gate => match answer {
                    Answer::Value(answer) => {
                        let answer = by.as_ref().map_or(answer.clone(), |by| plain_answer(answer, by));
                        let mut data = json!({"gate_id": gate_id(number), "state": "gate", "answer": answer});
                        add_author(&mut data, by);
                        ("gate_answered", data)
                    }
                    Answer::Raise { .. } => {
                        ("gate_timeout", json!({"gate_id": gate_id(number), "state": "gate", "timeout": timeout}))
                    }
                },
                CallLabel::Node(node) => match answer {
                    Answer::Value(result) => {
                        let success = result.get("success") == Some(&Value::Bool(true));
                        let data = json!({"node_id": node, "call": number, "success": success, "result": result});
                        ("node_completed", data)
                    }
                    Answer::Raise { exception, message } if exception == "TimeoutError" => {
                        let data = json!({"node_id": node, "call": number, "timeout": timeout, "error": message});
                        ("node_timeout", data)
                    }
                    Answer::Raise { message, .. } => {
                        ("node_error", json!({"node_id": node, "call": number, "error": message}))
                    }
                },
                CallLabel::Run { workflow, run } => match answer {
                    Answer::Value(result) => (
                        "nested_workflow_completed",
                        json!({"workflow_id": workflow, "child_run_id": run, "call": number, "result": result}),
                    ),
                    Answer::Raise { message, .. } => (
                        "nested_workflow_failed",
                        json!({"workflow_id": workflow, "child_run_id": run, "call": number, "error": message}),
                    ),
                },
            };
            (at, event_type.to_owned(), data)
        }
        Entry::Abandoned { at, number, label } => match label {
            CallLabel::Gate => (at, "gate_cancelled".to_owned(), json!({"gate_id": gate_id(number), "state": "gate"})),
            CallLabel::Node(node) => {
                let data = json!({"node_id": node, "call": number, "error": "the call was abandoned"});
                (at, "node_error".to_owned(), data)
            }
            CallLabel::Run { workflow, run } => {
                let data = json!({"workflow_id": workflow, "child_run_id": run, "call": number});
                (at, "nested_workflow_cancelled".to_owned(), data)
            }
            CallLabel::Other => return Ok(None),
        },
        Entry::Graph { at, frame, number, event, node, timeout } => {
            let (event_type, data) = graph_event(frame, number, event, node, timeout);
            (at, event_type.to_owned(), data)
        }
        Entry::Paused { at, by, .. } => (at, "workflow_paused".to_owned(), json!({"by": by})),
        Entry::Resumed { at, by } => (at, "workflow_resumed".to_owned(), json!({"by": by})),
        Entry::ChildWaits { .. } | Entry::ChildContinues { .. } => return Ok(None),
        Entry::AnswerDelivered { .. }
        | Entry::Inlined { .. }
        | Entry::Cancelling { .. }
        | Entry::Interrupted { .. } => {
            return Ok(None);
        }
        Entry::Completed { at, result } => (at, "workflow_completed".to_owned(), json!({"result": result})),
        Entry::Failed { at, error, traceback, result } => {
            let mut data = json!({"reason": "failed", "error": error});
            if let Some(result) = result {
                data["result"] = result.clone();
            }
            if let Some(traceback) = traceback {
                data["traceback"] = traceback.into();
            }
            (at, "workflow_failed".to_owned(), data)
        }
        Entry::Cancelled { at, reason } => (at, "workflow_cancelled".to_owned(), json!({"reason": reason})),
    };
    let data = match data {
        Value::Object(data) => Value::Object(data),
        Value::Null => Value::Object(Map::new()),
        other => json!({"data": other}),
    };
    Ok(Some(envelope(run, record.seq, &event_type, data, clock::to_iso8601(at))))
}

/// Adds the frame that makes a call, unless the frame is the run itself.
fn in_frame(frame: u64, mut data: Value) -> Value {
    if frame != ROOT {
        data["within"] = frame.into();
    }
    data
}

/// Returns the event for the graph that executes the call `frame`. `called` is the node whose call has an outcome,
/// `timeout` its time limit.
fn graph_event(
    frame: u64,
    number: Option<u64>,
    event: GraphEvent,
    called: Option<NodeId>,
    timeout: Option<TimeSpan>,
) -> (&'static str, Value) {
    match event {
        GraphEvent::Started { input } => ("graph_started", json!({"call": frame, "input": input})),
        GraphEvent::AttemptStarted { step, attempt, node, input } => (
            "node_started",
            json!({"node_id": node, "call": number, "within": frame, "step_id": step, "attempt": attempt, "input": input}),
        ),
        GraphEvent::AttemptEnded { step, attempt, outcome } => {
            let mut data =
                json!({"node_id": called, "call": number, "within": frame, "step_id": step, "attempt": attempt});
            let event_type = match outcome {
                StepOutcome::Finished { result } => {
                    data["node_id"] = result.node_id.as_str().into();
                    data["success"] = result.success.into();
                    data["result"] = json!(result);
                    "node_completed"
                }
                StepOutcome::TimedOut => {
                    data["timeout"] = json!(timeout);
                    data["error"] = "the call exceeded its time limit".into();
                    "node_timeout"
                }
                StepOutcome::Unknown => {
                    data["error"] = "it is unknown whether the call took place".into();
                    "node_error"
                }
            };
            (event_type, data)
        }
        GraphEvent::RetryPlanned { step, due } => {
            ("graph_step_retry", json!({"call": frame, "step_id": step, "due": clock::to_iso8601(due)}))
        }
        GraphEvent::RetryDue { step } => ("graph_step_again", json!({"call": frame, "step_id": step})),
        GraphEvent::FallbackPlanned { step } => ("graph_step_fallback", json!({"call": frame, "step_id": step})),
        GraphEvent::StepEnded { step, ending } => {
            let (event_type, reason) = match ending {
                Ending::Completed => ("graph_step_completed", Value::Null),
                Ending::Skipped { value } => ("graph_step_skipped", json!({"value": value})),
                Ending::Failed { error, .. } => ("graph_step_failed", json!({"error": error})),
                Ending::NotRun { because } => ("graph_step_not_run", json!({"because": because})),
            };
            let mut data = json!({"call": frame, "step_id": step});
            if let (Value::Object(data), Value::Object(reason)) = (&mut data, reason) {
                data.extend(reason);
            }
            (event_type, data)
        }
        GraphEvent::Ended { success: true } => ("graph_completed", json!({"call": frame})),
        GraphEvent::Ended { success: false } => ("graph_failed", json!({"call": frame})),
    }
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
    let (mut state, mut decided) = (FunctionState::default(), None);
    for record in records {
        let entry = Entry::read(record, &Seal::default())?;
        state.apply(&entry);
        if let Entry::Answered { answer: Answer::Value(answer), by: Some(by), .. } = entry {
            let answer = plain_answer(answer, &by);
            decided = by.decision(answer.as_str().unwrap_or("{"));
        }
    }
    Ok(RunReply {
        decided: secrets.masked_if(decided),
        result: state.end.and_then(|end| end.result).map(|result| secrets.masked_value(result)),
        ..run.reply(&progress, secrets)
    })
}
