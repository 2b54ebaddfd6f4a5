//! The kinds of answers of the fake service.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

/// A way to answer that is not the usual one.
#[derive(Debug, Clone)]
pub enum Answer {
    /// As usual, after a while.
    After(Duration),
    /// With this status and these words, without performing the request.
    Refuse(u16, String),
    /// Status 429 without performing the request, with the time of a retry: seconds or a date, as in the header.
    Busy(String),
    /// This status, with the request's token in the body.
    Echo(u16),
    /// With this JSON in the place of the usual one; the request is performed.
    Json(Value),
    /// With this text in the place of JSON; the request is performed.
    Text(String),
    /// With this number of bytes of JSON; the request is performed.
    Huge(usize),
    /// With a redirect of this status to there, without performing the request.
    Redirect(u16, String),
    /// Not at all, after the request is performed.
    Hang,
    /// The request is performed; then the connection ends without an answer.
    Cut,
    /// The request is performed; the answer has an error status.
    FailAfter(u16),
}

impl Answer {
    /// Returns whether the request is performed.
    pub(crate) fn does(&self) -> bool {
        !matches!(self, Self::Refuse(..) | Self::Busy(_) | Self::Echo(_) | Self::Redirect(..))
    }

    /// Answers so a request that would usually be answered `usual`.
    pub(crate) async fn give(self, usual: Response, authorization: &str) -> Response {
        let code = |status: u16| StatusCode::from_u16(status).expect("a status of HTTP");
        match self {
            Self::After(time) => {
                tokio::time::sleep(time).await;
                usual
            }
            Self::Refuse(status, words) => {
                (code(status), axum::Json(serde_json::json!({ "error": words }))).into_response()
            }
            Self::Busy(when) => {
                let mut response = (StatusCode::TOO_MANY_REQUESTS, "busy").into_response();
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::try_from(when).expect("a header"));
                response
            }
            Self::Echo(status) => {
                let words = format!("no rights for {authorization}, sorry");
                (code(status), axum::Json(serde_json::json!({ "error": words, "debug": [authorization] })))
                    .into_response()
            }
            Self::Json(json) => axum::Json(json).into_response(),
            Self::Text(text) => text.into_response(),
            Self::Huge(bytes) => axum::Json(["x".repeat(bytes)]).into_response(),
            Self::Redirect(status, to) => {
                let mut response = code(status).into_response();
                response.headers_mut().insert(header::LOCATION, HeaderValue::try_from(to).expect("a header"));
                response
            }
            Self::Hang => std::future::pending().await,
            Self::Cut => cut(),
            Self::FailAfter(status) => (code(status), "failed").into_response(),
        }
    }
}

/// Ends the connection of the request without an answer. The server keeps each connection in a separate task, and a
/// task that unwinds like this prints nothing on standard error.
pub(crate) fn cut() -> Response {
    std::panic::resume_unwind(Box::new("the connection is cut, as the test wants it"))
}
