//! The response to a refused request.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use steplatch_protocol::{AskError, CallError, ErrorCode};

/// A request that was not carried out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Refusal {
    /// Always false
    success: bool,
    /// The error and its remedy, as a sentence
    error: String,
    /// The same in a word: unauthorized, not_found, invalid_parameters …
    code: &'static str,
    #[serde(skip)]
    #[schemars(skip)]
    status: StatusCode,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, error: impl Into<String>) -> Self {
        Self { success: false, error: error.into(), code, status }
    }

    pub(crate) fn unauthorized() -> Self {
        let error =
            "This needs the token: send it as 'Authorization: Bearer TOKEN'. 'steplatch serve token' shows where it is";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", error)
    }

    pub(crate) fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_parameters", error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", error)
    }

    pub(crate) fn no_such_route() -> Self {
        Self::not_found("There is nothing at this address; /api/openapi.json lists what there is")
    }

    pub(crate) fn method() -> Self {
        let error = "This address is not asked like that: see the header Allow, and /api/openapi.json";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", error)
    }
}

impl From<AskError> for Refusal {
    fn from(error: AskError) -> Self {
        let unavailable = |error: String| Self::new(StatusCode::SERVICE_UNAVAILABLE, "daemon_unavailable", error);
        match error {
            AskError::Call(CallError::Refused(refusal)) => match refusal.code {
                ErrorCode::InvalidParams => Self::invalid(refusal.error),
                ErrorCode::Stopping | ErrorCode::UnsupportedProtocol => unavailable(refusal.error),
                // Of an older daemon that a newer front-end found running.
                ErrorCode::UnknownCommand => Self::new(StatusCode::NOT_IMPLEMENTED, "not_known", refusal.error),
                ErrorCode::Internal => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", refusal.error),
            },
            AskError::Call(CallError::Lost) => unavailable(
                "The connection to the daemon was lost during this request, so its outcome is unknown; check it before \
                 doing it again"
                    .to_owned(),
            ),
            AskError::Call(error @ CallError::Garbled { .. }) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
            }
            AskError::Connect(error) => unavailable(error.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"steplatch\""));
            }
            // The parser would take an unread rest of a body for the next request.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
