//! What can go wrong between here and a service.

use std::time::Duration;

/// A client that can not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetUpError {
    /// The service is nowhere.
    #[error("'{0}' is no URL of a service")]
    Url(String),
}

/// A question that was not answered. The words are whole sentences, and have no token in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct AskError {
    /// Whether the same question may be answered later: the service could not be reached, was busy, failed or said nonsense.
    /// Otherwise it refused.
    pub passing: bool,
    /// When it wants to be asked again, in its own words; not bounded.
    pub retry_after: Option<Duration>,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What happened.
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

/// A start that did not come to a run that is known. The words are whole sentences, and have no token in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Nothing was started: the request was not sent, or the service refused it.
    #[error("{words}")]
    Refused {
        /// What happened.
        words: String,
        /// The status of the answer, if there was one. With 429 the service is busy, and the start may be tried again.
        status: Option<u16>,
        /// When it wants to be asked again; not bounded.
        retry_after: Option<Duration>,
    },
    /// It may have been started, or not. It must not be tried again by itself.
    #[error("{words}")]
    Unknown {
        /// What happened.
        words: String,
    },
}

impl StartError {
    /// Returns whether nothing was started only because the service is busy.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { status: Some(429), .. })
    }
}

/// A request without an answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The service has seen nothing of it.
    NotSent(String),
    /// It may have.
    Lost(String),
}

impl Trouble {
    pub(super) fn of(error: &reqwest::Error, limit: Duration) -> Self {
        // Connecting comes before anything is sent, and looking up a name is a part of it. What can not even be made into a
        // request is not sent either.
        if error.is_connect() || error.is_builder() {
            return Self::NotSent(format!("The service can not be reached: {}.", causes(error)));
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

/// Returns the innermost cause. The URL is left out: whoever asked knows it.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let words =
        if std::ptr::addr_eq(last, error) { "the request could not be made".to_owned() } else { last.to_string() };
    crate::text::clean(&words, 300).trim_end_matches('.').to_owned()
}
