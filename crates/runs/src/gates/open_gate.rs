//! An open gate of a run of any kind.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steplatch_access::{MASK, Redactor};
use steplatch_clock as clock;
use steplatch_ids::StepId;
use steplatch_library::Signature;
use steplatch_protocol::{GateInfo, WITHOUT_ANSWER, with_collapsed_blanks};
use steplatch_workflow::{AnsweredBy, Gate, Timestamp};

use crate::machine::{MAX_TEXT_CHARS, shorten};
use crate::run::Run;

/// Number of hexadecimal digits of a digest: 128 bits, so that a client cannot construct two questions with the same
/// digest.
const DIGEST_DIGITS: usize = 32;

/// Names of the context field that lists the targets of the run's hosts.
const HOSTS_FIELD: &str = "hosts";
const OTHER_HOSTS_FIELD: &str = "hosts of the run";

/// A gate that waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct OpenGate {
    /// Step of the gate, as answers name it.
    pub(crate) step: StepId,
    pub(crate) opened_at: Timestamp,
    pub(crate) prompt: String,
    /// The accepted answers; any text if empty.
    pub(crate) choices: Vec<String>,
    /// Choices that only a person may take, although an agent may answer the gate.
    pub(crate) choices_for_person: Vec<String>,
    /// The form to fill in instead.
    pub(crate) form: Option<Value>,
    pub(crate) answered_by: AnsweredBy,
    /// Groups of approvers, each with the seconds until notifications reach it.
    pub(crate) approvers: BTreeMap<String, u64>,
    pub(crate) context: Map<String, Value>,
    /// Deadline for an answer.
    pub(crate) expires_at: Option<Timestamp>,
    /// Next state of the run after the deadline.
    pub(crate) on_timeout: Option<String>,
}

impl From<&Gate> for OpenGate {
    fn from(gate: &Gate) -> Self {
        Self {
            step: gate.step.clone(),
            opened_at: gate.opened_at,
            prompt: gate.prompt(),
            choices: gate.choices().into_iter().map(str::to_owned).collect(),
            choices_for_person: gate.choices_for_person().into_iter().map(str::to_owned).collect(),
            form: gate.form().cloned(),
            answered_by: gate.answered_by(),
            approvers: gate.approvers(),
            context: gate.context.clone(),
            expires_at: gate.expires_at(),
            on_timeout: None,
        }
    }
}

impl OpenGate {
    pub(crate) fn is_for_person(&self) -> bool {
        self.answered_by == AnsweredBy::Human
    }

    /// Returns the full gate for clients, with secrets hidden. A digest covers the gate and the definitions of the run.
    /// A secret that the daemon learns later changes the digest.
    pub(crate) fn info(&self, run: &Run, secrets: &Redactor) -> GateInfo {
        let displayed = |text: &String| with_collapsed_blanks(&secrets.masked(text.clone()));
        let mut info = GateInfo {
            gate_id: self.step.to_string(),
            run_id: self.step.run.to_string(),
            prompt: displayed(&self.prompt),
            choices: self.choices.iter().map(displayed).collect(),
            choices_for_person: self.choices_for_person.iter().map(displayed).collect(),
            form: self.form.clone(),
            answered_by: self.answered_by.name().to_owned(),
            approvers: self.approvers.clone(),
            created_at: clock::to_iso8601(self.opened_at),
            expires_at: self.expires_at.map(clock::to_iso8601),
            context: self.context.clone(),
            ..GateInfo::default()
        };
        if self.is_for_person() && !run.header.hosts.is_empty() {
            // A function may have a field of that name. Such a field stays unchanged.
            let name = if info.context.contains_key(HOSTS_FIELD) { OTHER_HOSTS_FIELD } else { HOSTS_FIELD };
            info.context.insert(name.to_owned(), run.header.hosts.join("\n").into());
        }
        if let Some(at) = info.expires_at.as_ref().filter(|_| self.is_for_person()) {
            let consequence = match &self.on_timeout {
                Some(state) => format!("the run goes on with '{state}'"),
                None => "it counts as unanswered".to_owned(),
            };
            info.context.insert(WITHOUT_ANSWER.to_owned(), format!("after {at}, {consequence}").into());
        }
        secrets.mask_fields(&mut info.context);
        if let Some(form) = &mut info.form {
            secrets.mask_in(form);
            collapse_blanks(form);
        }
        let definition = (&run.header.signature, &run.header.pins);
        let GateInfo { gate_id, prompt, choices, form, answered_by, context, .. } = &info;
        let all = serde_json::json!([gate_id, prompt, choices, form, answered_by, context, definition]).to_string();
        info.masked = all.contains(MASK);
        info.digest = Signature::of_text(&all).as_str()[..DIGEST_DIGITS].to_owned();
        info
    }
}

/// Collapses white space in the titles and descriptions of a form. Other strings are answers, and stay unchanged.
fn collapse_blanks(form: &mut Value) {
    match form {
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| match value {
            Value::String(text) if ["title", "description"].contains(&key.as_str()) => {
                *text = with_collapsed_blanks(text);
            }
            Value::String(_) => {}
            value => collapse_blanks(value),
        }),
        Value::Array(items) => items.iter_mut().for_each(collapse_blanks),
        _ => {}
    }
}

/// Shortens a gate for reports.
pub(crate) fn shorten_for_report(mut info: GateInfo) -> GateInfo {
    let mut context = Value::Object(std::mem::take(&mut info.context));
    shorten(&mut context, MAX_TEXT_CHARS, "/context", &mut info.shortened_values);
    if let Value::Object(context) = context {
        info.context = context;
    }
    info.shortened = !info.shortened_values.is_empty();
    info
}
