//! The responses of a service, read up to a bound and without the token.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde_json::Value;

use super::error::AskError;
use crate::answer_error::AnswerError;
use crate::config::Secret;
use crate::text::clean;

/// Maximum length of a service's error.
const MAX_ERROR_CHARS: usize = 300;

/// Length of an answer that takes a while to read.
const LONG_ANSWER_BYTES: usize = 128 * 1024;

/// An answer of any status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    /// Target of its redirect.
    pub(super) location: Option<String>,
    /// `None` if it is longer than the bound.
    pub(super) body: Option<Vec<u8>>,
    /// The token to remove from it.
    pub(super) token: Option<Secret>,
}

/// Reads a body; `None` if it is longer than `max_bytes` bytes, and it reads no more of it then.
pub(super) async fn read(mut response: Response, max_bytes: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > max_bytes {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

/// Reads when a service accepts requests again: seconds, or a date (RFC 9110, 10.2.3).
pub(super) fn retry_after(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

impl Answer {
    /// Returns the JSON in it, without the token; else a fragment that describes the body.
    pub(super) fn json(&self) -> Result<Value, AnswerError> {
        let Some(body) = &self.body else { return Err(AnswerError::TooLong) };
        let json = serde_json::from_slice(body).map_err(|_| AnswerError::NotJson)?;
        Ok(match &self.token {
            Some(token) => token.mask_value(json),
            None => json,
        })
    }

    /// Reads the JSON in it, on another thread if there is much of it.
    ///
    /// # Errors
    ///
    /// An error that passes, if it makes no sense.
    pub(super) async fn read<T: Send + 'static>(
        self,
        read: fn(Value) -> Result<T, AnswerError>,
    ) -> Result<T, AskError> {
        let is_long = self.body.as_ref().is_some_and(|body| body.len() > LONG_ANSWER_BYTES);
        let read = move || self.json().and_then(read).map_err(|error| self.nonsense(&error));
        if is_long { super::apart(read).await } else { read() }
    }

    /// Returns the error for a successful response that makes no sense.
    fn nonsense(&self, error: &AnswerError) -> AskError {
        let words = format!("The service answered {}, and {error}.", self.status.as_u16());
        AskError { status: Some(self.status.as_u16()), ..AskError::passing(words) }
    }

    /// Returns the error for a redirect to where the token must not go.
    pub(super) fn elsewhere(&self) -> AskError {
        let words = "The service redirects to another address, which is not followed because it would get the token.";
        AskError { status: Some(self.status.as_u16()), ..AskError::lasting(words) }
    }

    /// Returns the error for a response with an unexpected status.
    pub(super) fn error(&self) -> AskError {
        let status = self.status.as_u16();
        AskError {
            passing: matches!(status, 408 | 425 | 429 | 500..=599),
            retry_after: self.retry_after,
            status: Some(status),
            words: self.error_text(),
        }
    }

    /// Returns the error text of a response, in the service's own words if it has some.
    pub(super) fn error_text(&self) -> String {
        let reason = self.status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let own = self.own_words().map(|words| format!(": {words}")).unwrap_or_default();
        let stop = if own.ends_with(['.', '!', '?', '…']) { "" } else { "." };
        format!("The service answered {}{reason}{own}{stop}", self.status.as_u16())
    }

    fn own_words(&self) -> Option<String> {
        let words = match self.json() {
            Ok(Value::Object(fields)) => {
                let named =
                    ["error", "message", "detail", "title"].iter().find_map(|name| match fields.get(*name)? {
                        Value::String(words) => Some(words.clone()),
                        Value::Object(inner) => inner.get("message")?.as_str().map(str::to_owned),
                        _ => None,
                    });
                named.unwrap_or_else(|| Value::Object(fields).to_string())
            }
            Ok(Value::Null) => return None,
            Ok(Value::String(words)) => words,
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
        // Cleaned-out characters could have been in the middle of the token.
        let words = clean(&words, MAX_ERROR_CHARS);
        let words = self.token.as_ref().map_or_else(|| words.clone(), |token| token.mask(&words));
        (!words.is_empty()).then_some(words)
    }
}
