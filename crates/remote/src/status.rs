//! The status of a run at its service, and the result of the run.

use serde_json::{Map, Number, Value, json};

use crate::answer_error::AnswerError;
use crate::entry::parse_id;
use crate::text::clean;

/// Maximum length of the service's word for a state.
const MAX_WORD_CHARS: usize = 60;
/// Maximum length of a service's error message.
const MAX_ERROR_CHARS: usize = 2_000;

/// The status of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// The service's word for the state, in upper case and cleaned: `RUNNING`, `COMPLETED`, `FAILED`, `CANCELLED`, or
    /// another one.
    pub word: String,
    /// The meaning of the word.
    pub state: State,
    /// The input of the run, as the service has it.
    pub input: Value,
    /// The output so far.
    pub output: Value,
    /// The error that the service reports outside the output.
    pub error: Value,
    /// The question that the run waits for at its service: `output.pending_gate`.
    pub pending_gate: Option<Value>,
    /// Id of the workflow, as the service repeats it: `workflow_id`.
    pub workflow: Option<String>,
    /// Correlation id of the start, if the service repeats it: `correlationId`.
    pub correlation: Option<String>,
    /// Progress in percent, 0 to 100, if the service reports it.
    pub progress: Option<Number>,
    /// Start time, in milliseconds since 1970.
    pub start_time: Option<i64>,
    /// End time, in milliseconds since 1970.
    pub end_time: Option<i64>,
    /// Creation time, in milliseconds since 1970.
    pub create_time: Option<i64>,
    /// Time of the last change, in milliseconds since 1970.
    pub update_time: Option<i64>,
}

/// Meaning of the service's word for a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The run is in progress. Unknown words also mean this state.
    Running,
    /// The run completed.
    Completed,
    /// The run failed.
    Failed,
    /// The run was cancelled.
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
    /// If the answer has no status, as a fragment without a full stop.
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
        let find_field = |snake: &str, camel: &str| {
            [snake, camel].iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()))
        };
        let time = |snake: &str, camel: &str| find_field(snake, camel).and_then(parse_time);
        Ok(Self {
            word,
            state,
            input: value("input"),
            output,
            error: value("error"),
            pending_gate,
            workflow: parse_id(find_field("workflow_id", "originalWorkflowId")),
            correlation: parse_id(find_field("correlation_id", "correlationId")),
            progress: fields.get("progress").and_then(parse_progress),
            start_time: time("start_time", "startTime"),
            end_time: time("end_time", "endTime"),
            create_time: time("create_time", "createTime"),
            update_time: time("update_time", "updateTime"),
        })
    }

    /// Returns the error of the service: `output.error`, `output.message`, or `error` next to the output; otherwise a
    /// general message.
    #[must_use]
    pub fn error_message(&self) -> String {
        let message = output_message(&self.output).or_else(|| parse_message(&self.error));
        message.unwrap_or_else(|| match self.state {
            State::Cancelled => "Workflow execution was cancelled".to_owned(),
            _ => DEFAULT_ERROR.to_owned(),
        })
    }
}

const DEFAULT_ERROR: &str = "Workflow execution failed";

/// Returns the error in an output: its `error` or `message`; otherwise a general message.
#[must_use]
pub fn error_message(output: &Value) -> String {
    output_message(output).unwrap_or_else(|| DEFAULT_ERROR.to_owned())
}

fn output_message(output: &Value) -> Option<String> {
    ["error", "message"].iter().find_map(|name| parse_message(output.get(*name)?))
}

/// Parses a message: a text, or the `message` of an object. Other values are formatted as JSON.
fn parse_message(value: &Value) -> Option<String> {
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

/// Parses a time: milliseconds since 1970, or text in RFC 3339.
fn parse_time(value: &Value) -> Option<i64> {
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

/// Parses a percentage: a number from 0 to 100, possibly as text.
fn parse_progress(value: &Value) -> Option<Number> {
    let number = match value {
        Value::Number(number) => number.clone(),
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok()?,
        _ => return None,
    };
    number.as_f64().is_some_and(|percent| (0.0..=100.0).contains(&percent)).then_some(number)
}

/// Ids of a run at its service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// Id of the workflow.
    pub workflow: String,
    /// Correlation id of the start, from the service.
    pub correlation: String,
    /// Id of the run.
    pub instance: String,
}

/// The local end of a run that did not end at its service: the run timed out, was cancelled, or failed to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalEnd<'a> {
    /// The status of the result: `FAILED`, `CANCELLED`, or `UNKNOWN` if it is unknown whether the service started the
    /// run.
    pub status: &'a str,
    /// The error, in place of the service's message.
    pub error: &'a str,
}

/// Returns the result of a run. `status` is the last received status. A `local` end replaces the word and the error of
/// the status. Without either, the run is `RUNNING`.
#[must_use]
pub fn result(ids: &Ids, status: Option<&Status>, local: Option<LocalEnd<'_>>) -> Value {
    let error = match (local, status) {
        (Some(local), _) => Some(local.error.to_owned()),
        (None, Some(status)) if matches!(status.state, State::Failed | State::Cancelled) => {
            Some(status.error_message())
        }
        _ => None,
    };
    let word = local.map(|local| local.status).or_else(|| status.map(|status| status.word.as_str()));
    let duration = |status: &Status| Some(status.end_time?.saturating_sub(status.start_time?));
    let mut result = Map::new();
    let is_success = error.is_none() && status.is_some_and(|status| status.state == State::Completed);
    result.insert("success".to_owned(), is_success.into());
    result.insert("status".to_owned(), word.unwrap_or("RUNNING").into());
    result.insert("correlationId".to_owned(), ids.correlation.as_str().into());
    result.insert("workflowInstanceId".to_owned(), ids.instance.as_str().into());
    result.insert("originalWorkflowId".to_owned(), ids.workflow.as_str().into());
    result.insert("input".to_owned(), status.map(|status| status.input.clone()).unwrap_or_default());
    result.insert("output".to_owned(), status.map(|status| status.output.clone()).unwrap_or_default());
    if let Some(error) = error {
        result.insert("error".to_owned(), error.into());
    }
    result.insert("startTime".to_owned(), json!(status.and_then(|status| status.start_time)));
    result.insert("endTime".to_owned(), json!(status.and_then(|status| status.end_time)));
    result.insert("createTime".to_owned(), json!(status.and_then(|status| status.create_time)));
    result.insert("updateTime".to_owned(), json!(status.and_then(|status| status.update_time)));
    result.insert("executionDuration".to_owned(), json!(status.and_then(duration)));
    Value::Object(result)
}

/// The answer of a service to a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedRun {
    /// Correlation id of the start, from the service.
    pub correlation_id: String,
    /// Id of the run, for status requests.
    pub workflow_instance: String,
}

impl StartedRun {
    /// Reads the answer to a start: `correlation_id` and `workflow_id`, both required.
    ///
    /// # Errors
    ///
    /// If an id is missing or invalid, as a fragment without a full stop.
    pub fn read(answer: &Value) -> Result<Self, AnswerError> {
        let id = |field: &'static str| parse_id(answer.get(field)).ok_or(AnswerError::NoId { field });
        Ok(Self { correlation_id: id("correlation_id")?, workflow_instance: id("workflow_id")? })
    }
}

#[cfg(test)]
mod tests;
