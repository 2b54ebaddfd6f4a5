//! The outcome of an executor, and the kinds of failures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum bytes of a command's output: of each stream on this machine, of both streams on another machine. A command
/// with a longer output fails.
pub const MAX_OUTPUT_BYTES: usize = 512 << 10;

/// Kind of a failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The node could not do anything with its input.
    InvalidInput,
    /// A secret that the declaration refers to is not to be had.
    Secret,
    /// The call could not begin: no such program, folder or address.
    NotStarted,
    /// The call ended with an exit code other than 0, or by a signal.
    ExitCode,
    /// The call exceeded its time limit.
    Timeout,
    /// A client ended it.
    Interrupted,
    /// The other side cannot be reached, or was lost.
    Connection,
    /// The other side answered with a status that is not a success.
    Status,
    /// The tool reports a failure.
    Tool,
    /// The answer of the other side violates the protocol.
    Protocol,
    /// There was more than is taken.
    TooLarge,
    /// The call may have been done or not; it is not repeated.
    Unknown,
    /// A node that it consists of failed.
    Step,
    /// A function raised an exception, or went beyond its limits.
    Exception,
    /// Nodes of this kind are not performed here.
    Unsupported,
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

    /// Adds the output of a command, without its final newlines, like a shell's `$(…)`; `stdout` includes them.
    pub(crate) fn with_output(mut self, text: String) -> Self {
        self.output = text.trim_end_matches('\n').into();
        self.with("stdout", text)
    }

    /// Adds the ends of an output longer than [`MAX_OUTPUT_BYTES`], which fails the command. The ends have other names
    /// than a whole output, so that no reader confuses them.
    pub(crate) fn with_excess_output(mut self, head: String, tail: String, omitted_bytes: u64) -> Self {
        self.failure.get_or_insert_with(|| {
            let message = format!(
                "The command printed more than {MAX_OUTPUT_BYTES} bytes, which is all that an output may have; redirect it to a file."
            );
            Failure::new(ErrorType::TooLarge, message)
        });
        self.with("stdout_head", head).with("stdout_tail", tail).with("stdout_left_out", omitted_bytes)
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
