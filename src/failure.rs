//! What a person is told when a command did not work, and the exit code.

use std::process::ExitCode;

use steplatch_protocol::{AskError, CallError, ConnectError, FollowError};

use crate::print;

/// The work failed: a run, an action, a daemon that does not answer.
pub(crate) const FAILED: u8 = 1;

/// The command was not understood, or what it names is not there or not valid.
pub(crate) const USAGE: u8 = 2;

/// A command that did not work.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The work failed; `message` says what and what to do.
    pub(crate) fn work(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED }
    }

    /// What was asked can not be done as it was asked.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    /// The system refused something.
    pub(crate) fn system(what: &str, error: &std::io::Error) -> Self {
        Self::work(format!("{what}: {error}"))
    }

    /// Says so on standard error and returns the exit code.
    pub(crate) fn tell(self) -> ExitCode {
        print::error(&self.message);
        ExitCode::from(self.code)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::work(error.to_string())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Lost => {
                Self::work("the daemon went away in the middle; see how it is with: steplatch daemon status".to_owned())
            }
            error => Self::work(error.to_string()),
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Connect(error) => error.into(),
            AskError::Call(error) => error.into(),
        }
    }
}

impl From<FollowError> for Failure {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Connect(error) => error.into(),
            FollowError::Call(error) => error.into(),
            FollowError::Unknown(error) => Self::work(error),
            FollowError::Garbled(cause) => Self::work(format!("an event of the run can not be read: {cause}")),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever read our output has seen enough.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Self::work(error.to_string())
    }
}
