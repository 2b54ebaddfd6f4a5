//! The status of a run at its service, and the result made from it.

use serde_json::{Map, Number, Value, json};

use crate::answer_error::AnswerError;
use crate::entry::id;
use crate::text::clean;

/// Maximum length of a word for a state.
const MAX_WORD_CHARS: usize = 60;
/// Maximum length of a service's error.
const MAX_ERROR_CHARS: usize = 2_000;

/// The status of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The word of the service in upper case, cleaned: `RUNNING`, `COMPLETED`, `FAILED`, `CANCELLED`, or another one.
    pub word: String,
    /// Its meaning here.
    pub state: State,
    /// The input of the run, as the service has it.
    pub input: Value,
    /// Its output so far.
    pub output: Value,
    /// The error that the service reports outside the output.
    pub error: Value,
    /// The question that the run waits on at its service: `output.pending_gate`.
    pub pending_gate: Option<Value>,
    /// Id of the workflow, as the service repeats it: `workflow_id`.
    pub workflow: Option<String>,
    /// Correlation id of the start, if the service repeats it: `correlationId`.
    pub correlation: Option<String>,
    /// Progress in percent, 0 to 100, if the service reports it.
    pub progress: Option<Number>,
    /// Start time, in milliseconds since 1970.
    pub start_time: Option<i64>,
    /// End time.
    pub end_time: Option<i64>,
    /// Creation time.
    pub create_time: Option<i64>,
    /// Time of the last change.
    pub update_time: Option<i64>,
}

/// Meaning of the word for a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In progress; an unknown word counts as this.
    Running,
    /// Completed.
    Completed,
    /// Failed.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl State {
    /// Returns whether the status is final.
    #[must_use]
    pub fn is_over(self) -> bool {
        self != Self::Running
    }
}

impl Status {
    /// Reads a status answer. Accepts words in any case, and `CANCELED` for `CANCELLED`. Accepts fields of two words in
    /// both spellings: `start_time`, as services write it, and `startTime`.
    ///
    /// # Errors
    ///
    /// If there is no status in it, as a fragment without a full stop.
    pub fn read(answer: &Value) -> Result<Self, AnswerError> {
        let Value::Object(fields) = answer else { return Err(AnswerError::NotObject) };
        let Some(Value::String(word)) = fields.get("status") else { return Err(AnswerError::NoStatus) };
        let word = clean(word, MAX_WORD_CHARS).to_uppercase();
        if word.is_empty() {
            return Err(AnswerError::EmptyStatus);
        }
        let word = if word == "CANCELED" { "CANCELLED".to_owned() } else { word };
        let state = match word.as_str() {
            "COMPLETED" => State::Completed,
            "FAILED" => State::Failed,
            "CANCELLED" => State::Cancelled,
            _ => State::Running,
        };
        let value = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let output = value("output");
        let pending_gate = output.get("pending_gate").filter(|gate| !gate.is_null() && !state.is_over()).cloned();
        let either = |snake: &str, camel: &str| {
            [snake, camel].iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()))
        };
        let time = |snake: &str, camel: &str| either(snake, camel).and_then(time);
        Ok(Self {
            word,
            state,
            input: value("input"),
            output,
            error: value("error"),
            pending_gate,
            workflow: id(either("workflow_id", "originalWorkflowId")),
            correlation: id(either("correlation_id", "correlationId")),
            progress: fields.get("progress").and_then(progress),
            start_time: time("start_time", "startTime"),
            end_time: time("end_time", "endTime"),
            create_time: time("create_time", "createTime"),
            update_time: time("update_time", "updateTime"),
        })
    }

    /// Returns the reason that the run did not complete, in the words of the service: `output.error`, else
    /// `output.message`, else `error` beside the output. Without any, a sentence with the known facts only.
    #[must_use]
    pub fn failure_words(&self) -> String {
        let words = own_words(&self.output).or_else(|| read_words(&self.error));
        words.unwrap_or_else(|| match self.state {
            State::Cancelled => "Workflow execution was cancelled".to_owned(),
            _ => UNSAID.to_owned(),
        })
    }
}

const UNSAID: &str = "Workflow execution failed";

/// Returns the error in an output: its `error`, else its `message`, else that the workflow failed.
#[must_use]
pub fn failure_words(output: &Value) -> String {
    own_words(output).unwrap_or_else(|| UNSAID.to_owned())
}

fn own_words(output: &Value) -> Option<String> {
    ["error", "message"].iter().find_map(|name| read_words(output.get(*name)?))
}

/// Reads words from text, or from an object that contains them. Shows other values unchanged.
fn read_words(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => clean(text, MAX_ERROR_CHARS),
        Value::Object(fields) => match fields.get("message") {
            Some(Value::String(message)) if !message.trim().is_empty() => clean(message, MAX_ERROR_CHARS),
            _ => clean(&value.to_string(), MAX_ERROR_CHARS),
        },
        other => clean(&other.to_string(), MAX_ERROR_CHARS),
    };
    (!text.is_empty()).then_some(text)
}

/// Reads a time: milliseconds since 1970, or text as in RFC 3339.
fn time(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => {
            number.as_i64().or_else(|| number.as_f64().filter(|number| number.abs() < 9e15).map(|number| number as i64))
        }
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| Some(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()))
        }
        _ => None,
    }
}

/// Reads a progress: a number from 0 to 100, also as text.
fn progress(value: &Value) -> Option<Number> {
    let number = match value {
        Value::Number(number) => number.clone(),
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok()?,
        _ => return None,
    };
    number.as_f64().is_some_and(|percent| (0.0..=100.0).contains(&percent)).then_some(number)
}

/// The ids of a run at its service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The workflow.
    pub workflow: String,
    /// The service's correlation id of the start.
    pub correlation: String,
    /// The run.
    pub instance: String,
}

/// End of a run here while its service reports no end: it ran out of time, was cancelled, or failed to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalEnd<'a> {
    /// The status of the result: `FAILED`, `CANCELLED`, or `UNKNOWN` if it is unknown whether the service started the
    /// run.
    pub status: &'a str,
    /// Reason, in the place of the service's words.
    pub error: &'a str,
}

/// Makes the result of a run. `status` is the last seen one. A `local` end takes the place of its word and its error.
/// Without both, the run is `RUNNING`.
#[must_use]
pub fn result(ids: &Ids, status: Option<&Status>, local: Option<LocalEnd<'_>>) -> Value {
    let words = match (local, status) {
        (Some(local), _) => Some(local.error.to_owned()),
        (None, Some(status)) if matches!(status.state, State::Failed | State::Cancelled) => {
            Some(status.failure_words())
        }
        _ => None,
    };
    let word = local.map(|local| local.status).or_else(|| status.map(|status| status.word.as_str()));
    let times = |status: &Status| Some(status.end_time?.saturating_sub(status.start_time?));
    let mut result = Map::new();
    let is_success = words.is_none() && status.is_some_and(|status| status.state == State::Completed);
    result.insert("success".to_owned(), is_success.into());
    result.insert("status".to_owned(), word.unwrap_or("RUNNING").into());
    result.insert("correlationId".to_owned(), ids.correlation.as_str().into());
    result.insert("workflowInstanceId".to_owned(), ids.instance.as_str().into());
    result.insert("originalWorkflowId".to_owned(), ids.workflow.as_str().into());
    result.insert("input".to_owned(), status.map(|status| status.input.clone()).unwrap_or_default());
    result.insert("output".to_owned(), status.map(|status| status.output.clone()).unwrap_or_default());
    if let Some(words) = words {
        result.insert("error".to_owned(), words.into());
    }
    result.insert("startTime".to_owned(), json!(status.and_then(|status| status.start_time)));
    result.insert("endTime".to_owned(), json!(status.and_then(|status| status.end_time)));
    result.insert("createTime".to_owned(), json!(status.and_then(|status| status.create_time)));
    result.insert("updateTime".to_owned(), json!(status.and_then(|status| status.update_time)));
    result.insert("executionDuration".to_owned(), json!(status.and_then(times)));
    Value::Object(result)
}

/// The answer of a service to a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedRun {
    /// The service's correlation id of the start.
    pub correlation_id: String,
    /// The id of the run, for status requests.
    pub workflow_instance: String,
}

impl StartedRun {
    /// Reads the answer to a start: `correlation_id` and `workflow_id`, both needed.
    ///
    /// # Errors
    ///
    /// What is missing, as a fragment without a full stop.
    pub fn read(answer: &Value) -> Result<Self, AnswerError> {
        let read = |field: &'static str| id(answer.get(field)).ok_or(AnswerError::NoId { field });
        Ok(Self { correlation_id: read("correlation_id")?, workflow_instance: read("workflow_id")? })
    }
}

#[cfg(test)]
mod tests;
