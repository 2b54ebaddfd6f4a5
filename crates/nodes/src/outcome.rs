//! The outcome of an executor, and the kinds of failures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum length of a command's output, in bytes: per stream on this computer, for both streams on a remote host. A
/// command with a longer output fails.
pub const MAX_OUTPUT_BYTES: usize = 512 << 10;

/// Kind of a failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The node cannot use its input.
    InvalidInput,
    /// A secret that the declaration refers to is not available.
    Secret,
    /// The call could not start: no such program, directory or address.
    NotStarted,
    /// The command exited with a code other than 0, or by a signal.
    ExitCode,
    /// The call exceeded its time limit.
    Timeout,
    /// A client interrupted the call.
    Interrupted,
    /// The server cannot be reached, or the connection was lost.
    Connection,
    /// The server responded with an unsuccessful status.
    Status,
    /// The tool reports a failure.
    Tool,
    /// The response violates the protocol.
    Protocol,
    /// The output or response exceeds its limit.
    TooLarge,
    /// The call may or may not have taken place; it is not repeated.
    Unknown,
    /// A step of the graph failed.
    Step,
    /// A function raised an exception, or exceeded its limits.
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

    /// Adds the ends of an output longer than [`MAX_OUTPUT_BYTES`]. Such an output fails the command. The ends have
    /// different names than a complete output, so that no reader confuses the two.
    pub(crate) fn with_excess_output(mut self, head: String, tail: String, omitted_bytes: u64) -> Self {
        self.failure.get_or_insert_with(|| {
            let message = format!(
                "The command printed more than {MAX_OUTPUT_BYTES} bytes, the limit of an output; redirect it to a file."
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
