//! The result of a call of a node: always a value, also when it failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::host::MAX_OUTPUT_BYTES;
use crate::kind::NodeType;
use crate::node::Node;

/// The result of a call of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    /// True if it succeeded.
    pub success: bool,
    /// Its output; of a failed call, the output until the failure.
    pub output: Value,
    /// The error message, as a whole sentence.
    pub error: Option<String>,
    /// Kind of the failure.
    pub error_type: Option<ErrorType>,
    /// Kind of the node.
    pub node_type: NodeType,
    /// The node's id.
    pub node_id: String,
    /// The input of the call.
    pub input: Value,
    /// Further facts, by the kind of node.
    pub attributes: Map<String, Value>,
}

/// Kind of a failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The node could not do anything with its input.
    InvalidInput,
    /// A secret that the declaration refers to is not to be had.
    Secret,
    /// It could not begin: no such program, folder or address.
    NotStarted,
    /// It ended with an exit code other than 0, or by a signal.
    ExitCode,
    /// It took longer than it may.
    Timeout,
    /// A client ended it.
    Interrupted,
    /// The other side can not be reached, or was lost.
    Connection,
    /// The other side answered with a status that is no success.
    Status,
    /// The tool reports a failure.
    Tool,
    /// The answer of the other side violates the protocol.
    Protocol,
    /// There was more than is taken.
    TooLarge,
    /// It is unknown whether it was done; it is not done again.
    Unknown,
    /// A node that it consists of failed.
    Step,
    /// A function raised an exception, or went beyond its limits.
    Exception,
    /// Nodes of this kind are not performed here.
    Unsupported,
}

/// A result as a function writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Returned {
    output: Value,
    success: Option<bool>,
    error: Option<String>,
    error_type: Option<String>,
    attributes: Option<Map<String, Value>>,
}

/// The outcome that an executor returns, without the node and the input.
#[derive(Debug)]
pub(crate) struct ExecutorOutcome {
    pub(crate) output: Value,
    pub(crate) failure: Option<Failure>,
    pub(crate) attributes: Map<String, Value>,
}

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorType,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: ErrorType, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl ExecutorOutcome {
    pub(crate) fn success(output: impl Into<Value>) -> Self {
        Self { output: output.into(), failure: None, attributes: Map::new() }
    }

    /// Adds the output of a command: without the newlines that it ends in, as in a shell's `$(…)`; `stdout` has them.
    pub(crate) fn printed(mut self, text: String) -> Self {
        self.output = text.trim_end_matches('\n').into();
        self.with("stdout", text)
    }

    /// Makes this the outcome of a command that printed more than [`MAX_OUTPUT_BYTES`]. Its ends have other names than
    /// the whole, so that no reader takes a part for it.
    pub(crate) fn printed_too_much(mut self, head: String, tail: String, left_out: u64) -> Self {
        self.failure.get_or_insert_with(|| {
            let message = format!(
                "The command printed more than {MAX_OUTPUT_BYTES} bytes, which is all that an output may have; redirect it to a file."
            );
            Failure::new(ErrorType::TooLarge, message)
        });
        self.with("stdout_head", head).with("stdout_tail", tail).with("stdout_left_out", left_out)
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.to_owned(), value.into());
        self
    }
}

impl From<Failure> for ExecutorOutcome {
    fn from(failure: Failure) -> Self {
        Self { output: Value::Null, failure: Some(failure), attributes: Map::new() }
    }
}

impl NodeResult {
    pub(crate) fn from_outcome(node: &Node, input: Value, came: ExecutorOutcome) -> Self {
        let (error_type, error) = came.failure.map(|failure| (failure.kind, failure.message)).unzip();
        Self {
            success: error.is_none(),
            output: came.output,
            error,
            error_type,
            node_type: node.kind.node_type(),
            node_id: node.id.to_string(),
            input,
            attributes: came.attributes,
        }
    }

    /// Returns the result of a call that has only an error.
    #[must_use]
    pub fn failed(node: &Node, input: Value, kind: ErrorType, message: impl Into<String>) -> Self {
        Self::from_outcome(node, input, Failure::new(kind, message).into())
    }

    /// Returns the result of a function that returned `output`: that itself where it is an object with `output` and with no
    /// fields but `success`, `output`, `error`, `error_type` and `attributes`; else one that has it as its output.
    #[must_use]
    pub fn returned(node: &Node, input: Value, output: Value) -> Self {
        let Ok(Returned { success, output, error, error_type, attributes }) = Returned::deserialize(&output) else {
            return Self::succeeded(node, input, output);
        };
        let known = |name: String| serde_json::from_value(name.into()).unwrap_or(ErrorType::Exception);
        let mut result = Self::succeeded(node, input, output);
        result.success = success.unwrap_or(error.is_none());
        result.error = error;
        result.error_type = error_type.map(known);
        result.attributes = attributes.unwrap_or_default();
        if !result.success {
            result.error.get_or_insert_with(|| "The function returned that it failed.".to_owned());
            result.error_type.get_or_insert(ErrorType::Exception);
        }
        result
    }

    /// Returns the result of a call that succeeded.
    #[must_use]
    pub fn succeeded(node: &Node, input: Value, output: impl Into<Value>) -> Self {
        Self::from_outcome(node, input, ExecutorOutcome::success(output))
    }
}
