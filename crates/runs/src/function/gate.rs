//! Gates of functions.

use serde_json::{Map, Value, json};
use steplatch_ids::{RunId, StepId};
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_store::Record;
use steplatch_workflow::{AnsweredBy, By, Form, read_approvers};

use super::calls::{CallTarget, PendingCall, waits_for_answer};
use super::entry::{CallLabel, Entry};
use crate::event::Unreadable;
use crate::gates::{ClosedGate, GateEnd, OpenGate};
use crate::seal::Seal;
use crate::time_span::TimeSpan;

/// The default answerer.
pub(super) const HUMAN: &str = "human";

/// Answerers that a gate may name.
const ANSWERERS: [AnsweredBy; 3] = [AnsweredBy::Human, AnsweredBy::Agent, AnsweredBy::Anyone];

fn parse_answerer(answerer: &str) -> Option<AnsweredBy> {
    ANSWERERS.into_iter().find(|known| known.name() == answerer)
}

/// Returns the open gate of a call, if the call is a gate that waits.
pub(super) fn open_gate(run: &RunId, number: u64, open: &PendingCall) -> Option<OpenGate> {
    let (at, CallTarget::Call(Call { kind, .. })) = (open.at, &open.target) else { return None };
    let CallKind::Gate { prompt, choices, form, answered_by, context, timeout, approvers, escalate_after, .. } = kind
    else {
        return None;
    };
    if !waits_for_answer(kind) || gate_problem(kind).is_some() {
        return None;
    }
    Some(OpenGate {
        step: step(run, number)?,
        opened_at: at,
        prompt: prompt.clone(),
        choices: choices.clone().unwrap_or_default(),
        choices_for_person: Vec::new(),
        form: requested_form(form.as_ref()).and_then(|form| Form::read(form).ok()).map(|form| form.schema()),
        answered_by: answered_by.as_deref().map_or(Some(AnsweredBy::Human), parse_answerer)?,
        approvers: read_approvers(approvers.as_deref(), escalate_after.as_deref()).unwrap_or_default(),
        on_timeout: None,
        expires_at: timeout.and_then(|seconds| Some(at.after(TimeSpan::from_seconds(seconds).duration()?))),
        context: match context {
            None => Map::new(),
            Some(Value::Object(context)) => context.clone(),
            Some(other) => Map::from_iter([("context".to_owned(), other.clone())]),
        },
    })
}

/// Returns the name of a gate, as answers contain it. `None` if the number exceeds `u32`; no run has that many gates.
pub(super) fn step(run: &RunId, number: u64) -> Option<StepId> {
    Some(StepId { run: run.clone(), place: "gate".to_owned(), visit: u32::try_from(number).ok()? })
}

/// Returns whether a call waits for a person's answer.
pub(super) fn is_for_person(kind: &CallKind) -> bool {
    let CallKind::Gate { answered_by, .. } = kind else { return false };
    waits_for_answer(kind) && gate_problem(kind).is_none() && answered_by.as_deref().is_none_or(|who| who == HUMAN)
}

/// Returns the problem of a gate that a function opens, for the function's author.
pub(super) fn gate_problem(kind: &CallKind) -> Option<String> {
    let CallKind::Gate { prompt, choices, form, answered_by, approvers, escalate_after, .. } = kind else {
        return None;
    };
    if prompt.trim().is_empty() {
        return Some("ctx.gate needs a prompt".to_owned());
    }
    for (at, choice) in choices.iter().flatten().enumerate() {
        if choice.trim().is_empty() || choices.iter().flatten().take(at).any(|other| other == choice) {
            return Some(format!("a choice of ctx.gate is empty or repeated: '{choice}'"));
        }
    }
    if choices.as_ref().is_some_and(Vec::is_empty) {
        return Some("ctx.gate with choices needs at least one".to_owned());
    }
    if let Some(other) = answered_by.as_deref().filter(|answerer| parse_answerer(answerer).is_none()) {
        return Some(format!(
            "answered_by must be one of {}, not '{other}'",
            ANSWERERS.map(AnsweredBy::name).join(", ")
        ));
    }
    if let Err(error) = read_approvers(approvers.as_deref(), escalate_after.as_deref()) {
        return Some(error.to_string());
    }
    let form = requested_form(form.as_ref())?;
    if choices.is_some() {
        return Some("ctx.gate takes choices or a form, not both".to_owned());
    }
    Form::read(form).err().map(|problems| format!("the form of ctx.gate is not valid: {}", problems.join("; ")))
}

fn requested_form(form: Option<&Value>) -> Option<&Value> {
    form.filter(|form| !form.is_null())
}

/// Returns an answer as the function receives it: the fields of a form, or the text; in a dict with its author and
/// reason, if the function requests these.
pub(super) fn to_answer(kind: &CallKind, choice: String, by: &By) -> Answer {
    let CallKind::Gate { form, with_reason, .. } = kind else { return Answer::Value(choice.into()) };
    let answer = match requested_form(form.as_ref()) {
        Some(_) => serde_json::from_str(&choice).unwrap_or_else(|_| choice.into()),
        None => Value::from(choice),
    };
    Answer::Value(match with_reason {
        true => json!({"answer": answer, "by": by.name, "reason": by.reason.as_deref().unwrap_or_default()}),
        false => answer,
    })
}

/// Returns the answer that a person gave, from the answer that a function received.
pub(super) fn plain_answer(answer: Value, by: &By) -> Value {
    match answer {
        Value::Object(mut fields)
            if fields.len() == 3 && fields.contains_key("reason") && fields.get("by") == Some(&json!(by.name)) =>
        {
            fields.remove("answer").unwrap_or(Value::Object(fields))
        }
        answer => answer,
    }
}

/// Returns the gate that an entry closes, if any.
pub(crate) fn closed_gate(run: &RunId, record: &Record) -> Result<Option<ClosedGate>, Unreadable> {
    Ok(match Entry::read(record, &Seal::default())? {
        Entry::Answered { at, number, answer: Answer::Value(answer), by: Some(by), .. } => {
            let answer = plain_answer(answer, &by);
            let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
            step(run, number).map(|step| ClosedGate { step, end: GateEnd::Answered { at, answer, by } })
        }
        Entry::Answered { number, answer: Answer::Raise { .. }, label: CallLabel::Gate, .. } => {
            step(run, number).map(|step| ClosedGate { step, end: GateEnd::Expired })
        }
        Entry::Answered { number, label: CallLabel::Gate, .. } => {
            step(run, number).map(|step| ClosedGate { step, end: GateEnd::Other })
        }
        _ => None,
    })
}
