//! Answers of a service, read up to a maximum length and without the token.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::error::RequestError;
use crate::answer_error::AnswerError;
use crate::config::Secret;
use crate::text::clean;

/// Maximum length of a service's error message.
const MAX_ERROR_CHARS: usize = 300;

/// Minimum length of an answer that is parsed on a blocking thread.
const MIN_LONG_ANSWER_BYTES: usize = 128 * 1024;

/// An answer of any status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    /// Target of the redirect, if the answer is one.
    pub(super) location: Option<String>,
    /// `None` if it is too long.
    pub(super) body: Option<Vec<u8>>,
    /// The token to remove from the answer.
    pub(super) token: Option<Secret>,
}

/// Reads a body. Stops and returns `None` if it is longer than `max_bytes`.
pub(super) async fn read_body(mut response: Response, max_bytes: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > max_bytes {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// Parses the time until a service accepts requests again: seconds, or a date (RFC 9110, 10.2.3).
pub(super) fn parse_retry_after(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

impl Answer {
    /// Parses the body as JSON and removes the token.
    pub(super) fn json(&self) -> Result<Value, AnswerError> {
        let Some(body) = &self.body else { return Err(AnswerError::TooLong) };
        let json = serde_json::from_slice(body).map_err(|_| AnswerError::NotJson)?;
        Ok(match &self.token {
            Some(token) => token.mask_value(json),
            None => json,
        })
    }

    /// Parses the body with `parse`, on a blocking thread if it is long.
    ///
    /// # Errors
    ///
    /// A temporary error, if the body is invalid.
    pub(super) async fn read<T: Send + 'static>(
        self,
        parse: fn(Value) -> Result<T, AnswerError>,
    ) -> Result<T, RequestError> {
        let is_long = self.body.as_ref().is_some_and(|body| body.len() > MIN_LONG_ANSWER_BYTES);
        let parse_body = move || self.json().and_then(parse).map_err(|error| self.invalid_body_error(&error));
        if is_long { crate::blocking::run_blocking(parse_body).await } else { parse_body() }
    }

    /// Returns the error for a successful answer with an invalid body.
    fn invalid_body_error(&self, error: &AnswerError) -> RequestError {
        let message = format!("The service answered {}, but {error}.", self.status.as_u16());
        RequestError { status: Some(self.status.as_u16()), ..RequestError::temporary(message) }
    }

    /// Returns the error for a redirect to another origin, because that origin must not receive the token.
    pub(super) fn redirect_error(&self) -> RequestError {
        let message =
            "The service redirects to another server, which is not contacted because it would receive the token.";
        RequestError { status: Some(self.status.as_u16()), ..RequestError::permanent(message) }
    }

    /// Returns the error for an answer with an unexpected status.
    pub(super) fn error(&self) -> RequestError {
        let status = self.status.as_u16();
        RequestError {
            is_temporary: matches!(status, 408 | 425 | 429 | 500..=599),
            retry_after: self.retry_after,
            status: Some(status),
            message: self.error_text(),
        }
    }

    /// Returns the error text of an answer, with the service's own message if there is one.
    pub(super) fn error_text(&self) -> String {
        let reason = self.status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let message = self.service_message().map(|message| format!(": {message}")).unwrap_or_default();
        let full_stop = if message.ends_with(['.', '!', '?', '…']) { "" } else { "." };
        format!("The service answered {}{reason}{message}{full_stop}", self.status.as_u16())
    }

    fn service_message(&self) -> Option<String> {
        let message = match self.json() {
            Ok(Value::Object(fields)) => {
                let member =
                    ["error", "message", "detail", "title"].iter().find_map(|name| match fields.get(*name)? {
                        Value::String(message) => Some(message.clone()),
                        Value::Object(inner) => inner.get("message")?.as_str().map(str::to_owned),
                        _ => None,
                    });
                member.unwrap_or_else(|| Value::Object(fields).to_string())
            }
            Ok(Value::Null) => return None,
            Ok(Value::String(message)) => message,
            Ok(other) => other.to_string(),
            Err(_) => {
                let text = String::from_utf8_lossy(self.body.as_deref()?).into_owned();
                // An HTML page adds nothing to its status.
                if text.trim_start().starts_with('<') {
                    return None;
                }
                self.token.as_ref().map_or_else(|| text.clone(), |token| token.mask(&text))
            }
        };
        // Cleaning may have removed characters from the middle of the token.
        let message = clean(&message, MAX_ERROR_CHARS);
        let message = self.token.as_ref().map_or_else(|| message.clone(), |token| token.mask(&message));
        (!message.is_empty()).then_some(message)
    }
}
