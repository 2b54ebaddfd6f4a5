//! Errors of sessions and their messages.

use steplatch_clock as clock;
use steplatch_host::{
    AskError, HostsError, InvalidPattern, OpenRefused, Refusal, SendError, SignalError, TerminalError,
};
use steplatch_picture::TooLarge;
use steplatch_terminal::{InputError, LockHolder, VariablesError};
use tokio::task::JoinError;

use crate::signals::UnknownSignal;

/// Reason why an operation failed.
#[derive(Debug)]
pub(super) enum SessionError {
    /// The terminal or its host did not answer.
    HostRequest(AskError),
    /// An error with its message.
    Message(String),
    /// No request was sent to the terminal host, with a message.
    NotAsked(String),
    /// The outcome is unknown, with a message.
    InDoubt(String),
}

impl SessionError {
    /// Returns `Some(true)` if the outcome is unknown. With `is_repeated`, an earlier daemon may have begun the
    /// operation, so that only an answer of its terminal host makes the outcome certain.
    pub(super) fn outcome_unknown(&self, is_repeated: bool) -> Option<bool> {
        let unknown = match self {
            Self::InDoubt(_) => true,
            // The input may have ended the terminal.
            Self::HostRequest(AskError::Refused(Refusal::NoTerminal)) => is_repeated,
            Self::HostRequest(error) => error.is_outcome_unknown() || (is_repeated && !error.is_answer()),
            Self::NotAsked(_) => is_repeated,
            Self::Message(_) => false,
        };
        unknown.then_some(true)
    }

    /// Converts the error to an unknown outcome, unless the terminal host has answered.
    pub(super) fn in_doubt(self) -> Self {
        match self {
            Self::HostRequest(error) if !error.is_answer() => Self::InDoubt(error.to_string()),
            Self::NotAsked(message) => Self::InDoubt(message),
            other => other,
        }
    }
}

impl From<HostsError> for SessionError {
    fn from(error: HostsError) -> Self {
        match error {
            HostsError::HostRequest(error) => Self::HostRequest(error),
            // A host of an older version has discarded the result of the step.
            HostsError::Refused(refusal @ OpenRefused::OpenedBefore { .. }) => Self::InDoubt(refusal.to_string()),
            HostsError::Refused(refused) => Self::Message(describe_open_error(refused)),
            error @ (HostsError::NotStarted(_) | HostsError::Remote(_)) => Self::NotAsked(error.to_string()),
        }
    }
}

impl From<AskError> for SessionError {
    fn from(error: AskError) -> Self {
        Self::HostRequest(error)
    }
}

/// Maximum number of sessions in an error message.
const MAX_SUGGESTED_SESSIONS: usize = 10;

/// Error for a session that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The name is empty.
    #[error("session_id is required; list_terminal_sessions lists the sessions")]
    Unnamed,
    /// The terminal host of the session has ended.
    #[error("Session '{session}' was lost: its terminal host{} (pid {pid}) has exited; open another one with open_terminal", .machine.as_ref().map(|machine| format!(" on '{machine}'")).unwrap_or_default())]
    Lost {
        /// The session.
        session: String,
        /// The process id of the host.
        pid: u32,
        /// The remote host, unless the terminal was on this computer.
        machine: Option<String>,
    },
    /// There is no such session.
    #[error("Session '{session}' not found; {}", alternatives(.open))]
    NotFound {
        /// The name, at most 80 characters.
        session: String,
        /// The open sessions, by id and name.
        open: Vec<String>,
    },
    /// The terminal host of the session does not answer.
    #[error(transparent)]
    Host(AskError),
}

impl LookupError {
    /// Returns whether the session is certainly closed, or was never open.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Unnamed | Self::Lost { .. } | Self::NotFound { .. } => true,
            Self::Host(error) => matches!(error, AskError::HostLost { .. } | AskError::RemoteHostLost { .. }),
        }
    }

    /// Returns whether the host of the session is disconnected.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Host(AskError::NotConnected { .. }))
    }
}

fn alternatives(open: &[String]) -> String {
    match open {
        [] => "no sessions are open: open one with open_terminal".to_owned(),
        sessions if sessions.len() <= MAX_SUGGESTED_SESSIONS => format!("open sessions: {}", sessions.join(", ")),
        sessions => {
            let more = sessions.len() - MAX_SUGGESTED_SESSIONS;
            format!("open sessions: {} and {more} more", sessions[..MAX_SUGGESTED_SESSIONS].join(", "))
        }
    }
}

/// Error from rendering a screen.
#[derive(Debug, thiserror::Error)]
pub(super) enum PaintError {
    /// The screen has too many cells.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The rendering thread ended.
    #[error("the screen could not be rendered: {0}")]
    Interrupted(#[from] JoinError),
}

impl From<PaintError> for SessionError {
    fn from(error: PaintError) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<UnknownSignal> for SessionError {
    fn from(error: UnknownSignal) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<String> for SessionError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

impl From<SendError> for SessionError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::HostRequest(error) => Self::HostRequest(error),
            SendError::Input(InputError::Held(holder)) => Self::Message(describe_holder(&holder)),
            SendError::Input(InputError::InDoubt) => Self::InDoubt(
                "this input was begun earlier and its program has ended since, so it is unknown how much of it arrived"
                    .to_owned(),
            ),
            SendError::Input(error) => Self::Message(error.to_string()),
        }
    }
}

impl From<SignalError> for SessionError {
    fn from(error: SignalError) -> Self {
        match error {
            SignalError::HostRequest(error) => Self::HostRequest(error),
            refusal @ SignalError::Ended(_) => Self::Message(refusal.to_string()),
        }
    }
}

impl From<TerminalError<VariablesError>> for SessionError {
    fn from(error: TerminalError<VariablesError>) -> Self {
        match error {
            TerminalError::HostRequest(error) => Self::HostRequest(error),
            TerminalError::Refused(VariablesError::Held(holder)) => Self::Message(describe_holder(&holder)),
            TerminalError::Refused(error) => Self::Message(error.to_string()),
        }
    }
}

impl From<TerminalError<LockHolder>> for SessionError {
    fn from(error: TerminalError<LockHolder>) -> Self {
        match error {
            TerminalError::HostRequest(error) => Self::HostRequest(error),
            TerminalError::Refused(holder) => Self::Message(describe_holder(&holder)),
        }
    }
}

impl From<TerminalError<InvalidPattern>> for SessionError {
    fn from(error: TerminalError<InvalidPattern>) -> Self {
        match error {
            TerminalError::HostRequest(error) => Self::HostRequest(error),
            TerminalError::Refused(InvalidPattern(message)) => Self::Message(message),
        }
    }
}

/// Describes the holder of a terminal and the operations that remain possible.
pub(super) fn describe_holder(holder: &LockHolder) -> String {
    format!(
        "{} has held this terminal since {}; it can be read and waited for, but accepts input only after they hand it \
         back",
        holder.name,
        clock::system_iso8601(holder.since),
    )
}

fn describe_open_error(refused: OpenRefused) -> String {
    match refused {
        OpenRefused::TooMany { max_terminals } => format!(
            "{max_terminals} terminals are open, which is the limit; close one with exit_terminal (list_terminal_sessions \
             lists them)"
        ),
        refusal @ OpenRefused::NonePlaced { .. } => {
            format!("{refusal}; close one with exit_terminal (list_terminal_sessions lists them)")
        }
        OpenRefused::NameTaken { name, by } => {
            format!("the name '{name}' is taken by {by}; choose another one")
        }
        OpenRefused::NotFound(program) => {
            format!("program '{program}' was not found; install it, or give its full path")
        }
        OpenRefused::NoDirectory(directory) => {
            format!("working_directory '{}' does not exist", directory.display())
        }
        refused => refused.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use steplatch_host::{ConnectFailure, RemoteError};

    use super::*;

    /// Without an answer of the terminal host, a step that an earlier daemon may have begun is never treated as not
    /// done.
    #[test]
    fn invalid_host_answer_leaves_a_repeated_step_unknown() {
        let host = || "box".to_owned();
        let away = AskError::NotConnected { host: host(), since: None, reason: "away".to_owned() };
        let unreached = RemoteError::Failed { host: host(), reason: ConnectFailure::Connection("away".to_owned()) };
        let before = OpenRefused::OpenedBefore { terminal: "term_aaaaaaaaaa".parse().unwrap() };
        let cases = [
            (SessionError::from(away), false, true),
            (AskError::HostSilent { pid: 1 }.into(), false, true),
            (AskError::NotReading { host: host(), waiting: 4096 }.into(), false, true),
            (HostsError::Remote(unreached).into(), false, true),
            (HostsError::Remote(RemoteError::Unknown { name: host(), hosts: Vec::new() }).into(), false, true),
            (HostsError::NotStarted(std::io::Error::other("full")).into(), false, true),
            (SessionError::NotAsked("it leads elsewhere".to_owned()), false, true),
            (AskError::Refused(Refusal::NoTerminal).into(), false, true),
            (AskError::ConnectionLost { host: host() }.into(), true, true),
            (AskError::Refused(Refusal::OutcomeUnknown).into(), true, true),
            (AskError::Refused(Refusal::Retiring).into(), false, false),
            (AskError::Refused(Refusal::NotUnderstood).into(), false, false),
            (HostsError::Refused(OpenRefused::TooMany { max_terminals: 50 }).into(), false, false),
            (HostsError::Refused(before).into(), true, true),
            (SessionError::Message("a name has 1 to 64 characters".to_owned()), false, false),
        ];
        for (error, first, repeated) in cases {
            let reported = (error.outcome_unknown(false), error.outcome_unknown(true));
            assert_eq!(reported, (first.then_some(true), repeated.then_some(true)), "{error:?}");
        }
    }
}
