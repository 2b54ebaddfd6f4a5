//! The failure of a command: the message for people and programs, and the exit code.
//!
//! With `--json`, a failure is also printed as an object on standard output, by this module for every command.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use steplatch_protocol::{AskError, CallError, ConnectError, FollowError};

use crate::print;

/// Exit code of a command that exceeded its time limit, as in timeout(1).
pub(crate) const TIMED_OUT: u8 = 124;

/// Exit code if the work failed: a run, an action, or a request to the daemon.
pub(crate) const FAILED: u8 = 1;

/// Exit code if the command line is invalid, or names something missing or invalid.
pub(crate) const USAGE: u8 = 2;

/// Reports an invalid command line or prints the requested help, and exits.
pub(crate) fn exit_with_usage(error: &clap::Error) -> ExitCode {
    // The arguments are not parsed, so search for the flag. Arguments after `--` belong to another program.
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let first_paragraph = text.split("\n\n").next().unwrap_or_default().trim();
        let failure = Failure::usage(first_paragraph.strip_prefix("error: ").unwrap_or(first_paragraph));
        failure.print_json();
    }
    // clap prints the message, with colours and a reference to the help.
    error.exit()
}

/// Failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
    /// Further fields of the JSON object.
    reply: Option<Value>,
}

impl Failure {
    /// Creates a failure of the work. `message` states the failure and the remedy.
    pub(crate) fn work(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILED, reply: None }
    }

    /// Creates a failure of an invalid request.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE, reply: None }
    }

    /// Creates a failure of a wait whose time limit has passed. `message` states the unmet condition.
    pub(crate) fn timed_out(message: impl std::fmt::Display) -> Self {
        let reply = serde_json::json!({ "timed_out": true });
        Self { message: format!("timed out; {message}"), code: TIMED_OUT, reply: Some(reply) }
    }

    /// Creates a failure of a system call.
    pub(crate) fn system(context: &str, error: &std::io::Error) -> Self {
        Self::work(format!("{context}: {error}"))
    }

    /// Adds the fields of the daemon's reply to the JSON object.
    pub(crate) fn with(mut self, reply: &impl Serialize) -> Self {
        // Omit a reply that cannot be serialized; the message remains.
        self.reply = serde_json::to_value(reply).ok();
        self
    }

    /// Returns the message for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Prints the failure on standard error, and with `json` also on standard output. Returns the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        if json {
            self.print_json();
        }
        print::error(&self.message);
        ExitCode::from(self.code)
    }

    fn print_json(&self) {
        if let Err(error) = print::json_line(&self.document()) {
            // Standard output may be closed. The exit code still reports the failure.
            tracing::debug!(%error, "standard output cannot be written");
        }
    }

    /// Returns the JSON object: the fields of the reply, `success` with false, and `error`, by default with the
    /// message.
    fn document(&self) -> Value {
        let mut document = match &self.reply {
            Some(Value::Object(fields)) => fields.clone(),
            _ => serde_json::Map::new(),
        };
        document.insert("success".to_owned(), false.into());
        let lacks_error = document.get("error").is_none_or(Value::is_null);
        if lacks_error {
            document.insert("error".to_owned(), self.message.as_str().into());
        }
        Value::Object(document)
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
                Self::work("the connection to the daemon was lost; check it with: steplatch daemon status".to_owned())
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
            FollowError::Garbled(cause) => Self::work(format!("an event of the run cannot be read: {cause}")),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // The reader of the output has closed the pipe.
            std::io::ErrorKind::BrokenPipe => std::process::exit(0),
            std::io::ErrorKind::StorageFull => Self::system("the output cannot be written", &error),
            _ => Self::work(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_document_has_the_reason_of_the_failure() {
        let plain = Failure::work("the daemon went away");
        assert_eq!(plain.document(), json!({"success": false, "error": "the daemon went away"}));
        let reply = json!({"success": false, "error": "no 'x'", "available": ["y"]});
        assert_eq!(
            Failure::usage("there is no 'x'").with(&reply).document(),
            reply,
            "the daemon's error text is unchanged"
        );
        let failure = Failure::work("closed").with(&json!({"pid": null, "error": null}));
        assert_eq!(failure.document(), json!({"pid": null, "error": "closed", "success": false}));
    }
}
