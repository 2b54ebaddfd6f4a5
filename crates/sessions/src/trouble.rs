//! Errors of sessions, and their sentences.

use steplatch_clock as clock;
use steplatch_host::{AskError, HostsError, OpenRefused, Refusal, SendError, SignalError};
use steplatch_terminal::{InputError, LockHolder};

use crate::sessions::Sessions;

/// Why an operation was not performed.
#[derive(Debug)]
pub(super) enum SessionError {
    /// The terminal or its host did not answer.
    Ask(AskError),
    /// An error that already has its sentence.
    Words(String),
    /// The outcome is unknown, with a sentence.
    InDoubt(String),
}

impl SessionError {
    /// Returns that the outcome is unknown, if so.
    pub(super) fn outcome_unknown(&self) -> Option<bool> {
        matches!(self, Self::InDoubt(_) | Self::Ask(AskError::HostLost { .. })).then_some(true)
    }
}

impl From<HostsError> for SessionError {
    fn from(error: HostsError) -> Self {
        match error {
            HostsError::Ask(error) => Self::Ask(error),
            error => Self::Words(not_opened(error)),
        }
    }
}

impl From<AskError> for SessionError {
    fn from(error: AskError) -> Self {
        Self::Ask(error)
    }
}

impl From<String> for SessionError {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<SendError> for SessionError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Ask(error) => Self::Ask(error),
            SendError::Input(InputError::Held(holder)) => Self::Words(held(&holder)),
            SendError::Input(InputError::InDoubt) => Self::InDoubt(
                "this input was begun before and its program has ended since; how much of it arrived is not known"
                    .to_owned(),
            ),
            SendError::Input(error) => Self::Words(error.to_string()),
        }
    }
}

impl From<SignalError> for SessionError {
    fn from(error: SignalError) -> Self {
        match error {
            SignalError::Ask(error) => Self::Ask(error),
            ended @ SignalError::Ended(_) => Self::Words(ended.to_string()),
        }
    }
}

/// Says who holds a terminal, and what can be done meanwhile.
pub(super) fn held(holder: &LockHolder) -> String {
    format!(
        "{} has held this terminal since {}; reading and waiting go on, typing is possible once they hand it back",
        holder.name,
        clock::system_iso8601(holder.since),
    )
}

impl Sessions {
    /// Describes in a whole sentence what is wrong with `session`, and what to do.
    pub(super) async fn words(&self, session: &str, trouble: SessionError) -> String {
        match trouble {
            SessionError::Words(words) | SessionError::InDoubt(words) => words,
            SessionError::Ask(AskError::Refused(Refusal::NoTerminal)) => self.not_found(session).await,
            SessionError::Ask(error) => error.to_string(),
        }
    }
}

fn not_opened(error: HostsError) -> String {
    match error {
        HostsError::Refused(OpenRefused::TooMany { most }) => format!(
            "{most} terminals are open, which is the limit; close one with exit_terminal (list_terminal_sessions tells which there are)"
        ),
        HostsError::Refused(OpenRefused::NameTaken { name, by }) => {
            format!("the name '{name}' is taken by {by}; choose another one")
        }
        HostsError::Refused(OpenRefused::NotFound(program)) => {
            format!("program '{program}' was not found; install it, or give its full path")
        }
        HostsError::Refused(OpenRefused::NoFolder(folder)) => {
            format!("working_directory '{}' does not exist", folder.display())
        }
        error => error.to_string(),
    }
}
