//! The calls of a function, and their answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of the exception that a cancelled function receives where it waits.
pub const CANCELLED: &str = "asyncio.CancelledError";

/// One call or one line of output that a function made through its context or with `print`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The number within the execution, from 1. It is the same on every replay, and therefore identifies the step.
    pub ordinal: u64,
    /// The `run` call whose function node the execution executes, as its answer; see
    /// [`Execution::inline`](crate::Execution::inline).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
    /// The requested action.
    #[serde(flatten)]
    pub kind: CallKind,
}

/// A request. Times are in seconds; `None` means without a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum CallKind {
    /// Run a node. The answer is its result, even if it failed; `TimeoutError` after `timeout`, `ValueError` if the
    /// node does not exist.
    Run {
        /// Id of the node.
        node: String,
        /// Input of the node.
        input: Value,
        /// Maximum time to wait.
        timeout: Option<f64>,
        /// Other keyword arguments of the call.
        kwargs: Map<String, Value>,
    },
    /// Ask a person. The answer is their text; `TimeoutError` after `timeout`.
    Gate {
        /// Text of the question.
        prompt: String,
        /// Maximum time to wait.
        timeout: Option<f64>,
        /// The allowed answers; `None` allows any text.
        choices: Option<Vec<String>>,
        /// A form to fill in, for front-ends that can show one.
        form: Option<Value>,
        /// The kind of person who may answer.
        answered_by: Option<String>,
        /// Additional data for the decision.
        context: Option<Value>,
        /// True if the answer is a dict with the answer, its author and their reason.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        with_reason: bool,
        /// Groups of notification rules that send at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approvers: Option<Box<Value>>,
        /// Groups of notification rules that send later, with seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        escalate_after: Option<Box<Value>>,
    },
    /// Start a run of another workflow. The answer is its result, or an exception if the run did not complete.
    RunWorkflow {
        /// Id of the workflow.
        workflow: String,
        /// Input of the run.
        input: Value,
        /// Parameters of the run.
        params: Map<String, Value>,
        /// Maximum time to wait.
        timeout: Option<f64>,
    },
    /// Run a graph. The answer is its result.
    RunGraph {
        /// Id of the graph.
        graph: String,
        /// Input of the graph.
        input: Value,
        /// Maximum time to wait.
        timeout: Option<f64>,
    },
    /// Wait durably. The answer may be any value.
    Sleep {
        /// Time to wait.
        seconds: f64,
    },
    /// Read the clock. The answer is the number of seconds since 1970 in UTC.
    Now {},
    /// Draw a random number. The answer is at least 0 and less than 1.
    Random {},
    /// Emit an event. It has no answer.
    Emit {
        /// Type of the event.
        event_type: String,
        /// Data of the event.
        data: Value,
    },
    /// Output since the last call. It has no answer.
    Log {
        /// The output, without its final newline.
        text: String,
    },
    /// The end of a function node that the execution itself executes. This call has no answer; the caller answers the
    /// `run` call next.
    Ended {
        /// Ordinal of the `run` call.
        of: u64,
        /// The value that the function returned; null if it raised.
        #[serde(default)]
        output: Value,
        /// The name and message of the exception that the function raised.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// True if the function raised because it was cancelled.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cancelled: bool,
    },
}

/// Error in a call of a function, for its author.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCall {
    /// A parameter is not a string.
    #[error("{parameter} of ctx.{call} must be a string")]
    NotString {
        /// Name of the parameter.
        parameter: &'static str,
        /// Name of the context's method.
        call: String,
    },
    /// The type of an event is blank.
    #[error("event_type of ctx.emit must not be empty")]
    EmptyEventType,
    /// A time is not a number of seconds, or is negative.
    #[error("{parameter} of ctx.{call} must be a number of seconds from 0, not {given}")]
    NotSeconds {
        /// Name of the parameter.
        parameter: &'static str,
        /// Name of the context's method.
        call: String,
        /// The invalid value.
        given: Value,
    },
    /// The context has no such method, or the method has other parameters.
    #[error("ctx.{call} cannot be called like this: {cause}")]
    Form {
        /// Name of the context's method.
        call: String,
        /// The cause.
        cause: serde_json::Error,
    },
}

impl CallKind {
    /// Returns whether the call has an answer, immediately or later.
    #[must_use]
    pub fn wants_answer(&self) -> bool {
        !matches!(self, Self::Emit { .. } | Self::Log { .. } | Self::Ended { .. })
    }

    /// Returns whether the function blocks until the answer arrives, rather than awaiting it.
    pub fn stops(&self) -> bool {
        matches!(self, Self::Now {} | Self::Random {})
    }

    /// Reads a request of the prelude. The error is for the author of the function.
    ///
    /// # Errors
    /// If a parameter is missing, or has another type or value than the call takes.
    pub fn read(call: &str, mut parameters: Map<String, Value>) -> Result<Self, InvalidCall> {
        let method_name = || display_name(call).to_owned();
        for (name, python_name) in
            [("node", "node_id"), ("workflow", "id"), ("graph", "id"), ("event_type", "event_type")]
        {
            if parameters.get(name).is_some_and(|value| !value.is_string()) {
                return Err(InvalidCall::NotString { parameter: python_name, call: method_name() });
            }
        }
        if parameters.get("event_type").and_then(Value::as_str).is_some_and(|name| name.trim().is_empty()) {
            return Err(InvalidCall::EmptyEventType);
        }
        for name in ["timeout", "seconds"] {
            let Some(value) = parameters.get(name) else { continue };
            let is_unlimited = name == "timeout" && value.is_null();
            if !is_unlimited && value.as_f64().is_none_or(|seconds| seconds < 0.0) {
                return Err(InvalidCall::NotSeconds { parameter: name, call: method_name(), given: value.clone() });
            }
        }
        parameters.insert("call".to_owned(), Value::String(call.to_owned()));
        serde_json::from_value(Value::Object(parameters))
            .map_err(|cause| InvalidCall::Form { call: method_name(), cause })
    }

    /// Returns a description for the report of a divergence.
    #[must_use]
    pub fn describe(&self) -> String {
        let fields = match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        let (mut name, mut parts) = (String::new(), Vec::new());
        for (field, value) in &fields {
            if field == "call" {
                name = value.as_str().unwrap_or_default().to_owned();
            } else if !value.is_null() && *value != Value::Object(Map::new()) {
                parts.push(format!("{field}={}", shorten(value)));
            }
        }
        let dot = if ["log", "ended"].contains(&name.as_str()) { "" } else { "ctx." };
        format!("{dot}{}({})", display_name(&name), parts.join(", "))
    }
}

/// Returns a value as JSON, shortened to 60 characters.
fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn display_name(call: &str) -> &str {
    match call {
        "log" => "print",
        "ended" => "return",
        call => call,
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A value.
    Value(Value),
    /// An exception. The function may catch it.
    Raise {
        /// Name of the exception, such as `TimeoutError`. An unknown name is raised as `RuntimeError`.
        exception: String,
        /// Message of the exception.
        message: String,
    },
}

impl Answer {
    /// Returns the exception for a timeout: `TimeoutError`, the same class as `asyncio.TimeoutError`.
    #[must_use]
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::Raise { exception: "TimeoutError".to_owned(), message: message.into() }
    }

    /// Returns the exception that a cancelled function receives where it waits.
    #[must_use]
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::Raise { exception: CANCELLED.to_owned(), message: message.into() }
    }

    /// Returns the exception for an invalid request, such as a node that does not exist.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Raise { exception: "ValueError".to_owned(), message: message.into() }
    }
}

/// One entry of the history of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The function made a call.
    Called(Call),
    /// A call was answered. The order of answers matters: it decides which of two functions continues first.
    Answered {
        /// Ordinal of the call.
        ordinal: u64,
        /// The answer.
        answer: Answer,
    },
    /// The execution took over a `run` call: it executes the function node itself.
    Inlined {
        /// Ordinal of the call.
        ordinal: u64,
    },
    /// The function was cancelled: everything that it waited for raised `asyncio.CancelledError`, all at once.
    Cancelled,
}
