//! The interface of an interpreter.
//!
//! A program runs until it makes a call, until all of its tasks wait, or until its end. A stopped program is a paused
//! value that the execution resumes. The only implementation is in [`monty`].

pub(crate) mod monty;

use std::time::Duration;

use serde_json::Value;
use steplatch_python_api::{Failure, InvalidCall, Limits};

use crate::value::JsonError;

/// A file, compiled and ready to be run any number of times.
pub(crate) trait Compiled {
    /// Runs the program up to its first stop.
    fn start(&self, initial_value: &Value, limits: &Limits) -> Step;
}

/// A paused program.
pub(crate) trait Paused: Send {
    /// Runs the program up to its next stop.
    fn resume(self: Box<Self>, resume: Resume<'_>) -> Step;

    /// Sets the maximum computing time between two calls, beginning with the next call.
    fn set_time_limit(&mut self, time: Duration);

    /// Compresses the program during its pause. A compressed program can still be resumed.
    fn park(self: Box<Self>) -> Box<dyn Paused>;
}

/// Instruction for resuming a program.
pub(crate) enum Resume<'a> {
    /// The call returns this value.
    Return(&'a Value),
    /// The call raises this exception.
    Raise {
        /// The name of the exception.
        exception: &'a str,
        /// Message of the exception.
        message: &'a str,
    },
    /// The call returns an awaitable.
    Later,
    /// The answer awaited under this number has arrived. Only for a program that is [`Stop::Waiting`] for it.
    Arrived(u32, Arrival<'a>),
    /// All awaitables with these numbers raise an exception, at once. Only for a program that is [`Stop::Waiting`].
    AllRaise(&'a [u32], (&'a str, &'a str)),
    /// The program ends with an exception that it cannot catch.
    Abort(&'a str),
}

/// Input for a program that waits.
#[derive(Clone, Copy)]
pub(crate) enum Arrival<'a> {
    /// A value.
    Value(&'a Value),
    /// An exception, by its name and message.
    Raise(&'a str, &'a str),
    /// The program executes the function node itself, as the answer to this call.
    Inline(u64),
}

/// Error in a call of a function, for its author.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The function called the host without its context.
    #[error("workflows call out through their context only")]
    NoContext,
    /// The result of the function is not JSON.
    #[error("the result is not JSON: {0}")]
    Result(JsonError),
    /// A parameter is not JSON.
    #[error("{parameter} of ctx.{call} is not JSON: {cause}")]
    Parameter {
        /// Name of the parameter.
        parameter: String,
        /// The method of the context.
        call: String,
        /// The cause.
        cause: JsonError,
    },
    /// The parameters do not fit the call.
    #[error(transparent)]
    Call(#[from] InvalidCall),
}

/// Result of running a program up to a stop.
pub(crate) struct Step {
    /// Output of the program since the last stop.
    pub(crate) printed: String,
    /// The reason for the stop.
    pub(crate) stop: Stop,
}

/// Reason for the stop of a program.
pub(crate) enum Stop {
    /// The function makes a call.
    Called {
        /// The number of an answer that arrives later.
        number: u32,
        /// The arguments, or an error if they are not JSON.
        arguments: Result<Value, RequestError>,
        /// The paused program.
        paused: Box<dyn Paused>,
    },
    /// All tasks of the program wait for at least one of these calls.
    Waiting {
        /// The numbers of calls, in order.
        numbers: Vec<u32>,
        /// The paused program.
        paused: Box<dyn Paused>,
    },
    /// The function returned.
    Returned(Result<Value, JsonError>),
    /// The function failed.
    Failed(Failure),
}
