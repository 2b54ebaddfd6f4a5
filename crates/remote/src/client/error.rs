//! The errors of requests to a service.

use std::time::Duration;

/// Reason for a failure to make a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetUpError {
    /// The service is nowhere.
    #[error("'{0}' is no URL of a service")]
    Url(String),
}

/// A request without an answer. The words are whole sentences, and contain no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct AskError {
    /// True if the failure is temporary: the service was not reachable, was busy, failed or sent nonsense. Otherwise it
    /// refused.
    pub passing: bool,
    /// Time until it accepts requests again, as it reports it; not bounded.
    pub retry_after: Option<Duration>,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Description of the failure.
    pub words: String,
}

impl AskError {
    pub(super) fn lasting(words: impl Into<String>) -> Self {
        Self { passing: false, retry_after: None, status: None, words: words.into() }
    }

    pub(super) fn passing(words: impl Into<String>) -> Self {
        Self { passing: true, ..Self::lasting(words) }
    }
}

/// A start that gave no known run. The words are whole sentences, and contain no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Nothing started: the client did not send the request, or the service refused it.
    #[error("{words}")]
    Refused {
        /// Description of the failure.
        words: String,
        /// The status of the answer, if there was one. With 429 the service is busy, and a retry of the start is
        /// possible.
        status: Option<u16>,
        /// Time until it accepts requests again; not bounded.
        retry_after: Option<Duration>,
    },
    /// The run may have started, or not. Do not repeat it automatically.
    #[error("{words}")]
    Unknown {
        /// Description of the failure.
        words: String,
    },
}

impl StartError {
    /// Returns whether nothing started only because the service is busy.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { status: Some(429), .. })
    }
}

/// A request without an answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The service received nothing of it.
    NotSent(String),
    /// The service may have received it.
    Lost(String),
}

impl Trouble {
    pub(super) fn from_error(error: &reqwest::Error, limit: Duration) -> Self {
        // Connecting, including the name lookup, precedes all sending. An invalid request does not leave either.
        if error.is_connect() || error.is_builder() {
            return Self::NotSent(format!("The service cannot be reached: {}.", causes(error)));
        }
        if error.is_timeout() {
            return Self::Lost(format!("The service did not answer within {} seconds.", limit.as_secs_f64()));
        }
        Self::Lost(format!("The connection to the service was lost: {}.", causes(error)))
    }
}

impl From<Trouble> for AskError {
    fn from(trouble: Trouble) -> Self {
        let (Trouble::NotSent(words) | Trouble::Lost(words)) = trouble;
        Self::passing(words)
    }
}

/// Returns the innermost cause. Leaves out the URL: the caller has it.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let words =
        if std::ptr::addr_eq(last, error) { "the request could not be made".to_owned() } else { last.to_string() };
    crate::text::clean(&words, 300).trim_end_matches('.').to_owned()
}
