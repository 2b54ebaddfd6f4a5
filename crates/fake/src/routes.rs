//! The routes of the REST dialect.

use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, State as Extract};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::state::{RecordedRequest, Route};
use crate::{Shared, TOKEN, answer, mcp};

pub(crate) fn router(shared: Shared) -> Router {
    Router::new().fallback(serve).with_state(shared)
}

/// Route of a request, with the parameters from its path.
struct RequestTarget {
    route: Route,
    workflow: String,
    run: String,
}

/// Determines the route and parameters of a request.
fn parse_target(method: &str, path: &str) -> Option<RequestTarget> {
    let to_target = |route, workflow: &str, run: &str| {
        Some(RequestTarget { route, workflow: percent_decode(workflow), run: percent_decode(run) })
    };
    if path == "/mcp" {
        return to_target(Route::Mcp, "", "");
    }
    let at = path.find("/api/v1/service/workflows/")? + "/api/v1/service/workflows/".len();
    match (method, path[at..].split('/').collect::<Vec<_>>().as_slice()) {
        ("GET", ["mcp"]) => to_target(Route::List, "", ""),
        ("POST", [workflow, "start"]) => to_target(Route::Start, workflow, ""),
        ("GET", [workflow, "runs", run, "status"]) => to_target(Route::Status, workflow, run),
        ("POST", [workflow, "runs", run, "cancel"]) => to_target(Route::Cancel, workflow, run),
        _ => None,
    }
}

/// Percent-decodes a path segment.
fn percent_decode(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut remaining_bytes = segment.bytes();
    while let Some(byte) = remaining_bytes.next() {
        let mut digit = || char::from(remaining_bytes.next().unwrap()).to_digit(16).unwrap();
        bytes.push(if byte == b'%' { (digit() * 16 + digit()) as u8 } else { byte });
    }
    String::from_utf8(bytes).unwrap()
}

async fn serve(
    Extract(shared): Extract<Shared>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    if shared.state().is_down {
        return answer::cut();
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let headers: std::collections::BTreeMap<String, String> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let target_route = parse_target(parts.method.as_str(), parts.uri.path());
    let authorization = headers.get("authorization").cloned().unwrap_or_default();
    let host = headers.get("host").cloned().unwrap_or_default();
    let response = {
        let mut state = shared.state();
        state.requests.push(RecordedRequest {
            route: target_route.as_ref().map(|target_route| target_route.route),
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: headers.clone(),
            body: body.clone(),
            at: std::time::Instant::now(),
            from,
        });
        let is_known = authorization == format!("Api-Key {TOKEN}") || authorization == format!("Bearer {TOKEN}");
        match target_route {
            None => Err((StatusCode::NOT_FOUND, Json(json!({ "error": "no such route" }))).into_response()),
            Some(_) if !is_known => {
                Err((StatusCode::UNAUTHORIZED, Json(json!({ "error": "not with this token" }))).into_response())
            }
            Some(target_route) => {
                let configured = state.configured_answer(target_route.route);
                let performs_request = configured.as_ref().is_none_or(crate::Answer::performs_request);
                let usual_response = if performs_request {
                    usual_response(&mut state, &target_route, &parts.uri, &host, &headers, &body)
                } else {
                    StatusCode::NO_CONTENT.into_response()
                };
                Ok((configured, usual_response))
            }
        }
    };
    shared.count_request();
    match response {
        Err(response) | Ok((None, response)) => response,
        Ok((Some(configured), usual_response)) => configured.into_response(usual_response, &authorization).await,
    }
}

/// Performs the request and returns the usual response.
fn usual_response(
    state: &mut crate::state::State,
    target: &RequestTarget,
    uri: &axum::http::Uri,
    host: &str,
    headers: &std::collections::BTreeMap<String, String>,
    body: &Value,
) -> Response {
    let not_found = || (StatusCode::NOT_FOUND, Json(json!({ "error": "no such run" }))).into_response();
    match target.route {
        Route::List => {
            let page = uri.query().and_then(|query| query.strip_prefix("page=")?.parse().ok()).unwrap_or(1);
            Json(state.list_page(page, &format!("http://{host}{}", uri.path()))).into_response()
        }
        Route::Start => {
            let workflow_exists = state.entries.iter().any(|entry| match entry.get("id") {
                Some(Value::String(id)) => *id == target.workflow,
                Some(id) => id.as_i64().is_some() && id.as_i64() == target.workflow.parse().ok(),
                None => false,
            });
            if !workflow_exists {
                return (StatusCode::NOT_FOUND, Json(json!({ "error": "no such workflow" }))).into_response();
            }
            let key = headers.get("idempotency-key").cloned().unwrap_or_default();
            Json(state.start_run(&target.workflow, body, &key)).into_response()
        }
        Route::Status => state
            .next_status(&target.workflow, &target.run)
            .map_or_else(not_found, |status| Json(status).into_response()),
        Route::Cancel => {
            state.cancel_run(&target.workflow, &target.run).map_or_else(not_found, |done| Json(done).into_response())
        }
        // The server sends no messages on its own and has no sessions to end.
        Route::Mcp if body.is_null() => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Route::Mcp => match mcp::reply(state, body) {
            Some(reply) => ([(header::CONTENT_TYPE, "application/json")], reply.to_string()).into_response(),
            None => StatusCode::ACCEPTED.into_response(),
        },
    }
}
