//! The question of a `gate` action, and the actors that may answer it.

mod error;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::form::{Field, Form};
use crate::substitute;
use crate::variables::STANDARD_FIELDS;
pub use error::InvalidApprovers;
pub(crate) use error::InvalidQuestion;

/// Maximum number of choices.
const MAX_CHOICES: usize = 20;

/// Maximum number of groups of approvers.
const MAX_GROUPS: usize = 10;

/// Maximum time limit of a gate, in seconds: a year.
const MAX_TIMEOUT_SECONDS: f64 = 31_536_000.0;

/// Actors that may answer a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// Only a person.
    #[default]
    Human,
    /// The agent that runs the workflow, or a person.
    Agent,
    /// A person or an agent: the first answer counts.
    Anyone,
}

impl AnsweredBy {
    const ALL: [(&'static str, Self); 3] = [("human", Self::Human), ("agent", Self::Agent), ("anyone", Self::Anyone)];

    /// Returns the name in a definition.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, who)| *who == self).map_or("human", |(name, _)| name)
    }
}

/// The question of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub prompt: String,
    /// The choices. Without them, any text is an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The form to fill in instead of choices, in the form of [`Form::schema`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    /// Actors that may answer.
    pub answered_by: AnsweredBy,
    /// Groups of approvers that notifications reach, each with the seconds until then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub approvers: BTreeMap<String, u64>,
}

impl Question {
    /// Parses the parameters of an action, with all variables replaced, into the question and its timeout.
    ///
    /// # Errors
    /// Returns the first problem of the parameters.
    pub(crate) fn read(params: &Map<String, Value>) -> Result<(Self, Option<Duration>), InvalidQuestion> {
        if let Some(problem) = problems(params, |_| false).into_iter().next() {
            return Err(problem);
        }
        let text = |key: &str| non_null_param(params, key).map(substitute::as_text);
        let choices = non_null_param(params, "choices").and_then(Value::as_array);
        let answered_by = text("answered_by").unwrap_or_default();
        let question = Self {
            prompt: text("prompt").unwrap_or_default(),
            choices: choices.into_iter().flatten().map(substitute::as_text).collect(),
            form: non_null_param(params, "form").and_then(|form| Form::read(form).ok()).map(|form| form.schema()),
            answered_by: AnsweredBy::ALL
                .into_iter()
                .find(|(name, _)| *name == answered_by)
                .map(|(_, who)| who)
                .unwrap_or_default(),
            approvers: read_approvers(params.get("approvers"), params.get("escalate_after")).unwrap_or_default(),
        };
        Ok((question, non_null_param(params, "timeout").and_then(parse_timeout)))
    }

    /// Returns whether `answer` is valid: one of the choices, a correctly filled form as JSON, or any text.
    #[must_use]
    pub fn accepts(&self, answer: &str) -> bool {
        match &self.form {
            Some(_) => self.parse_form_answer(answer).is_some(),
            None => self.choices.is_empty() || self.choices.iter().any(|choice| choice == answer),
        }
    }

    /// Returns the form fields of `answer`, if there is a form and the answer is valid for it.
    #[must_use]
    pub fn parse_form_answer(&self, answer: &str) -> Option<Map<String, Value>> {
        let form = Form::read(self.form.as_ref()?).ok()?;
        form.fill(serde_json::from_str::<Value>(answer).ok()?.as_object()?).ok()
    }
}

/// Result fields of a gate in addition to the standard fields, and to a reason, which a form may have as a field.
const RESULT_FIELDS: [&str; 2] = ["by", "through"];

/// Returns whether a part of a value is open.
fn contains_open(value: &Value, is_open: &impl Fn(&Value) -> bool) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|value| contains_open(value, is_open)),
        Value::Array(items) => items.iter().any(|value| contains_open(value, is_open)),
        plain => is_open(plain),
    }
}

fn non_null_param<'p>(params: &'p Map<String, Value>, key: &str) -> Option<&'p Value> {
    params.get(key).filter(|value| !value.is_null())
}

fn parse_timeout(value: &Value) -> Option<Duration> {
    let number: f64 = substitute::as_text(value).trim().parse().ok()?;
    (0.0..=MAX_TIMEOUT_SECONDS).contains(&number).then(|| Duration::from_secs_f64(number))
}

/// Reads the groups of approvers of a gate, each with the seconds until notifications reach it: `approvers` is a name or
/// a list of names, which are reached at once, and `escalate_after` has names with seconds.
///
/// # Errors
/// If one of the two has another form.
pub fn read_approvers(
    approvers: Option<&Value>,
    escalate_after: Option<&Value>,
) -> Result<BTreeMap<String, u64>, InvalidApprovers> {
    let is_name = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let at_once = match approvers.filter(|value| !value.is_null()) {
        None => Some(Vec::new()),
        Some(Value::String(name)) => Some(vec![name.clone()]),
        Some(Value::Array(names)) => names.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    let at_once = at_once.filter(|names| names.iter().all(|name| is_name(name)) && names.len() <= MAX_GROUPS);
    let later: Option<Vec<(String, u64)>> = match escalate_after.filter(|value| !value.is_null()) {
        None => Some(Vec::new()),
        Some(Value::Object(groups)) => groups
            .iter()
            .map(|(name, value)| Some((name.clone(), parse_timeout(value)?.as_secs())).filter(|_| is_name(name)))
            .collect(),
        Some(_) => None,
    };
    let later = later.filter(|groups| groups.len() <= MAX_GROUPS).ok_or(InvalidApprovers::EscalateAfter)?;
    let mut groups = BTreeMap::from_iter(later);
    groups.extend(at_once.ok_or(InvalidApprovers::Approvers)?.into_iter().map(|name| (name, 0)));
    Ok(groups)
}

/// Returns the problems of the parameters. Ignores open values, whose variables are not replaced yet.
pub(crate) fn problems(params: &Map<String, Value>, is_open: impl Fn(&Value) -> bool) -> Vec<InvalidQuestion> {
    let mut problems = Vec::new();
    match non_null_param(params, "prompt") {
        None => problems.push(InvalidQuestion::NoPrompt),
        Some(prompt) if substitute::as_text(prompt).trim().is_empty() => problems.push(InvalidQuestion::EmptyPrompt),
        Some(_) => {}
    }
    match non_null_param(params, "choices") {
        None => {}
        Some(Value::Array(choices)) => {
            let texts: Vec<String> = choices.iter().map(substitute::as_text).collect();
            if texts.is_empty() || texts.len() > MAX_CHOICES {
                problems.push(InvalidQuestion::ChoiceCount);
            } else if texts.iter().any(|text| text.trim().is_empty()) || !choices.iter().all(Value::is_string) {
                problems.push(InvalidQuestion::ChoiceType);
            } else if (1..texts.len())
                .any(|index| texts[..index].iter().any(|known| known.trim() == texts[index].trim()))
            {
                // A person could not distinguish the choices.
                problems.push(InvalidQuestion::SameChoices);
            }
        }
        Some(value) if is_open(value) => {}
        Some(_) => problems.push(InvalidQuestion::ChoicesType),
    }
    if let Some(form) = non_null_param(params, "form").filter(|form| !contains_open(form, &is_open)) {
        if non_null_param(params, "choices").is_some() {
            problems.push(InvalidQuestion::ChoicesAndForm);
        }
        match Form::read(form) {
            Err(found) => problems.extend(found.into_iter().map(InvalidQuestion::Form)),
            Ok(form) => {
                let is_reserved = |name: &str| STANDARD_FIELDS.contains(&name) || RESULT_FIELDS.contains(&name);
                let reserved = form.fields().iter().map(Field::name).filter(|name| is_reserved(name));
                problems.extend(reserved.map(|name| InvalidQuestion::ReservedField(name.to_owned())));
            }
        }
    }
    if let Some(value) =
        non_null_param(params, "timeout").filter(|value| !is_open(value) && parse_timeout(value).is_none())
    {
        problems.push(InvalidQuestion::Timeout(value.clone()));
    }
    if let Some(value) = non_null_param(params, "answered_by").filter(|value| !is_open(value))
        && !AnsweredBy::ALL.iter().any(|(name, _)| *value == *name)
    {
        problems.push(InvalidQuestion::AnsweredBy(value.clone()));
    }
    let [approvers, escalate_after] = ["approvers", "escalate_after"]
        .map(|key| non_null_param(params, key).filter(|value| !contains_open(value, &is_open)));
    problems.extend(read_approvers(approvers, escalate_after).err().map(InvalidQuestion::Approvers));
    problems
}
