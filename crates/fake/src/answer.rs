//! Configurable responses of the fake service.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

/// A response that replaces the usual one.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The usual response, after a delay.
    After(Duration),
    /// This status and error message, without performing the request.
    Refuse(u16, String),
    /// Status 429 without performing the request, with this `Retry-After` header: seconds or a date.
    Busy(String),
    /// This status, with the request's token in the body, without performing the request.
    Echo(u16),
    /// This JSON instead of the usual body; the request is performed.
    Json(Value),
    /// This text instead of JSON; the request is performed.
    Text(String),
    /// JSON of this many bytes; the request is performed.
    Huge(usize),
    /// A redirect with this status to this location, without performing the request.
    Redirect(u16, String),
    /// No response, after the request is performed.
    Hang,
    /// A closed connection without a response, after the request is performed.
    Cut,
    /// This error status, after the request is performed.
    FailAfter(u16),
}

impl Answer {
    /// Returns whether the request is performed.
    pub(crate) fn performs_request(&self) -> bool {
        !matches!(self, Self::Refuse(..) | Self::Busy(_) | Self::Echo(_) | Self::Redirect(..))
    }

    /// Returns this response to a request whose usual response is `usual`.
    pub(crate) async fn into_response(self, usual: Response, authorization: &str) -> Response {
        let status_code = |status: u16| StatusCode::from_u16(status).expect("the status is a valid HTTP status");
        match self {
            Self::After(time) => {
                tokio::time::sleep(time).await;
                usual
            }
            Self::Refuse(status, message) => {
                (status_code(status), axum::Json(serde_json::json!({ "error": message }))).into_response()
            }
            Self::Busy(when) => {
                let mut response = (StatusCode::TOO_MANY_REQUESTS, "busy").into_response();
                response.headers_mut().insert(
                    header::RETRY_AFTER,
                    HeaderValue::try_from(when).expect("the value is a valid header value"),
                );
                response
            }
            Self::Echo(status) => {
                let message = format!("no rights for {authorization}, sorry");
                (status_code(status), axum::Json(serde_json::json!({ "error": message, "debug": [authorization] })))
                    .into_response()
            }
            Self::Json(json) => axum::Json(json).into_response(),
            Self::Text(text) => text.into_response(),
            Self::Huge(bytes) => axum::Json(["x".repeat(bytes)]).into_response(),
            Self::Redirect(status, to) => {
                let mut response = status_code(status).into_response();
                response
                    .headers_mut()
                    .insert(header::LOCATION, HeaderValue::try_from(to).expect("the value is a valid header value"));
                response
            }
            Self::Hang => std::future::pending().await,
            Self::Cut => cut(),
            Self::FailAfter(status) => (status_code(status), "failed").into_response(),
        }
    }
}

/// Closes the connection of the request without a response. The server keeps each connection in a separate task, and a
/// task that unwinds like this prints nothing on standard error.
pub(crate) fn cut() -> Response {
    std::panic::resume_unwind(Box::new("the test closes the connection"))
}
