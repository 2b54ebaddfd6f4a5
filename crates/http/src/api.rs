//! The router of the API.

use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::rejection::{QueryRejection, RawPathParamsRejection};
use axum::extract::{Query, RawPathParams, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on, post};
use axum::{Extension, Router};
use steplatch_protocol::Peer;

use crate::admission::Caller;
use crate::app::App;
use crate::execute::{RequestInput, RouteHandler};
use crate::refusal::Refusal;
use crate::route::{BASE, Method, ROUTES};
use crate::{dialect, health, hooks, metrics, openapi, stream};

/// Returns all routes except MCP.
pub(crate) fn routes() -> Router<Arc<App>> {
    let mut router = Router::new()
        .route("/health", get(health::report_health))
        .route(hooks::ROUTE, post(hooks::fire))
        .route("/metrics", get(metrics::report_metrics))
        .route("/api/openapi.json", get(openapi_document))
        .route("/events/workflow/{run_id}", get(stream::stream_events))
        .route(&format!("{BASE}/runs/{{run_id}}/events"), get(stream::stream_events))
        .route(&format!("{}/mcp", dialect::BASE), get(dialect::list))
        .route(&format!("{}/{{id}}/start", dialect::BASE), post(dialect::start))
        .route(&format!("{}/{{id}}/runs/{{run_id}}/status", dialect::BASE), get(dialect::status))
        .route(&format!("{}/{{id}}/runs/{{run_id}}/cancel", dialect::BASE), post(dialect::cancel));
    for route in ROUTES {
        let handler = Arc::new(RouteHandler::new(route));
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Delete => MethodFilter::DELETE,
        };
        let handle_request = move |State(app): State<Arc<App>>,
                                   path: Result<RawPathParams, RawPathParamsRejection>,
                                   query: Result<Query<Vec<(String, String)>>, QueryRejection>,
                                   peer: Option<Extension<Peer>>,
                                   Extension(caller): Extension<Caller>,
                                   headers: HeaderMap,
                                   body: Bytes| {
            let handler = handler.clone();
            async move {
                let path = path.map_err(|error| Refusal::invalid(error.body_text()))?;
                let Query(query) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
                let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let peer = peer.map(|Extension(peer)| peer);
                let daemon = if caller == Caller::Page { &app.page_daemon } else { &app.daemon };
                let daemon = app.projects.client(daemon, caller, &headers).await?;
                handler.execute(&daemon, RequestInput { path, query, headers, body, peer, caller }).await
            }
        };
        router = router.route(&route.address(), on(filter, handle_request));
    }
    router
}

/// Returns the OpenAPI document.
async fn openapi_document() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi::document().to_string());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
