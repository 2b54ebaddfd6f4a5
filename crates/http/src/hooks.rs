//! Requests that start runs of schedules, with the token of the schedule in place of the server's.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use steplatch_protocol::{FireSchedule, FireScheduleReply};

use crate::app::App;
use crate::execute::parse_body;
use crate::refusal::Refusal;

/// Address of a hook.
pub(crate) const ROUTE: &str = "/hooks/{name}";

/// Maximum size of the body of a request, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024;

/// Headers with the name of a request, which a sender repeats when it sends the request again: of Stripe and others,
/// of Standard Webhooks, and of GitHub.
const KEY_HEADERS: [&str; 3] = ["idempotency-key", "webhook-id", "x-github-delivery"];

/// Returns whether this is the address of a hook, whose handler checks the token.
pub(crate) fn is_hook(method: &Method, path: &str) -> bool {
    *method == Method::POST && path.strip_prefix("/hooks/").is_some_and(|name| !name.contains('/'))
}

/// Starts a run of a schedule.
pub(crate) async fn fire(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let Path(name) = name.map_err(|error| Refusal::invalid(error.body_text()))?;
    let unauthorized = || {
        let error = "This request needs the token of the schedule: send 'Authorization: Bearer TOKEN'. 'steplatch \
                     schedule add --webhook' prints it";
        Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", error)
    };
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(unauthorized()) };
    let (scheme, token) = value.to_str().ok().and_then(|value| value.split_once(' ')).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(unauthorized());
    }
    let fire = |key, arguments| FireSchedule { name, token: Some(token.trim().to_owned()), key, arguments };
    let verb = match read_request(&headers, &body) {
        Ok((key, arguments)) => fire(Some(key), arguments),
        Err(refusal) => {
            // Without a key, nothing starts: a client without the token learns no more than that.
            let reply = app.daemon.call(fire(None, None)).await?;
            return Err(if reply.status == "unauthorized" { unauthorized() } else { refusal });
        }
    };
    let reply = app.daemon.call(verb).await?;
    Ok((status_of(&reply)?, Json(reply)).into_response())
}

/// Reads the key and the arguments of a request.
fn read_request(headers: &HeaderMap, body: &[u8]) -> Result<(String, Option<Map<String, Value>>), Refusal> {
    if body.len() > MAX_BODY_BYTES {
        let error = format!("The body has more than {MAX_BODY_BYTES} bytes");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error));
    }
    let keys: Vec<_> = KEY_HEADERS.iter().flat_map(|name| headers.get_all(*name)).collect();
    let [key] = keys[..] else {
        return Err(Refusal::invalid(
            "This request needs one header Idempotency-Key, webhook-id or X-GitHub-Delivery: a request that is sent \
             again with the same one starts no second run",
        ));
    };
    let key = key.to_str().map_err(|_| Refusal::invalid("The key of a request has only visible ASCII characters"))?;
    let arguments = parse_body(headers, body)?;
    Ok((key.to_owned(), Some(arguments).filter(|arguments| !arguments.is_empty())))
}

/// Returns the status of a reply.
///
/// # Errors
/// If the request starts no run.
fn status_of(reply: &FireScheduleReply) -> Result<StatusCode, Refusal> {
    let error = || reply.error.clone().unwrap_or_default();
    match reply.status.as_str() {
        "started" | "waiting" => Ok(StatusCode::ACCEPTED),
        "repeated" => Ok(StatusCode::OK),
        "unauthorized" => Err(Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", error())),
        "left_out" => Err(Refusal::new(StatusCode::CONFLICT, "conflict", error())),
        _ => Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", error())),
    }
}
