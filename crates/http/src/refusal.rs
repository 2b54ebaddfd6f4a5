//! The response to a refused request.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use steplatch_protocol::{AskError, CallError, ErrorCode};

/// A refused request.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Refusal {
    /// Always false
    success: bool,
    /// Error message, with a suggested next step
    error: String,
    /// Error code: unauthorized, not_found, invalid_parameters …
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
            "This request needs the token: send 'Authorization: Bearer TOKEN'. 'steplatch serve token' shows its file";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", error)
    }

    pub(crate) fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_parameters", error)
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", error)
    }

    pub(crate) fn unknown_address() -> Self {
        Self::not_found("This address does not exist; /api/openapi.json lists the valid ones")
    }

    pub(crate) fn wrong_method() -> Self {
        let error = "This address does not allow this method; see the header Allow, and /api/openapi.json";
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
                // The daemon is older than this front-end.
                ErrorCode::UnknownCommand => Self::new(StatusCode::NOT_IMPLEMENTED, "not_known", refusal.error),
                ErrorCode::Internal => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", refusal.error),
            },
            AskError::Call(CallError::Lost) => unavailable(
                "The connection to the daemon was lost during this request, so its outcome is unknown; check it before \
                 repeating the request"
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
            // Otherwise the parser would read the rest of the body as the next request.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
