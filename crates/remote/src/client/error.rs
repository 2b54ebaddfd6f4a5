//! The errors of requests to a service.

use std::time::Duration;

/// Error when creating a client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The address is not a URL of a service.
    #[error("'{0}' is not the URL of a service")]
    Url(String),
}

/// A failed request. The message contains no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// True if a later request may succeed: the service was unreachable or busy, failed, or sent an invalid answer.
    /// False if the service refused the request.
    pub is_temporary: bool,
    /// Time until the service accepts requests again, as the service reports it; not bounded.
    pub retry_after: Option<Duration>,
    /// Status of the answer, if there was one.
    pub status: Option<u16>,
    /// Description of the failure, in complete sentences.
    pub message: String,
}

impl RequestError {
    pub(super) fn permanent(message: impl Into<String>) -> Self {
        Self { is_temporary: false, retry_after: None, status: None, message: message.into() }
    }

    pub(super) fn temporary(message: impl Into<String>) -> Self {
        Self { is_temporary: true, ..Self::permanent(message) }
    }
}

/// A start that returned no run. The message contains no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Nothing started: the client did not send the request, or the service refused it.
    #[error("{message}")]
    Refused {
        /// Description of the failure, in complete sentences.
        message: String,
        /// Status of the answer, if there was one. With 429 the service is busy, and the start may be retried.
        status: Option<u16>,
        /// Time until the service accepts requests again; not bounded.
        retry_after: Option<Duration>,
    },
    /// The run may have started. Do not retry the start automatically.
    #[error("{message}")]
    Unknown {
        /// Description of the failure, in complete sentences.
        message: String,
    },
}

impl StartError {
    /// Returns whether nothing started only because the service is busy.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { status: Some(429), .. })
    }
}

/// A request that failed before its answer arrived.
#[derive(Debug)]
pub(super) enum SendError {
    /// The service did not receive the request.
    NotSent(String),
    /// The service may have received the request.
    Lost(String),
}

impl SendError {
    pub(super) fn from_error(error: &reqwest::Error, limit: Duration) -> Self {
        // The request was not sent: looking up the name or connecting failed, or the request is invalid.
        if error.is_connect() || error.is_builder() {
            return Self::NotSent(format!("The service cannot be reached: {}.", root_cause(error)));
        }
        if error.is_timeout() {
            return Self::Lost(format!("The service did not answer within {} seconds.", limit.as_secs_f64()));
        }
        Self::Lost(format!("The connection to the service was lost: {}.", root_cause(error)))
    }
}

impl From<SendError> for RequestError {
    fn from(error: SendError) -> Self {
        let (SendError::NotSent(message) | SendError::Lost(message)) = error;
        Self::temporary(message)
    }
}

/// Returns the innermost cause, without the URL, because the caller knows it.
pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let message =
        if std::ptr::addr_eq(cause, error) { "the request could not be created".to_owned() } else { cause.to_string() };
    crate::text::clean(&message, 300).trim_end_matches('.').to_owned()
}
