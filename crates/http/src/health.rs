//! The health of this server, the daemon and the remote services.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use steplatch_protocol::{DaemonStatus, DaemonStatusReply, ListRemoteWorkflows, RemoteInfo};

use crate::admission::Caller;
use crate::app::App;

/// Health of the server. A client without the token receives only the status of the server.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// True if requests can be executed
    success: bool,
    /// ok; degraded if a remote service does not respond; unavailable if the daemon does not respond
    status: &'static str,
    /// Version of this server
    version: Option<&'static str>,
    /// Status of the daemon
    daemon: Option<DaemonStatusReply>,
    /// The remote services
    remotes: Option<Vec<RemoteInfo>>,
    /// Number of open connections
    connections: Option<usize>,
    /// Number of clients that follow a run
    event_streams: Option<usize>,
    /// Error message, if the daemon does not respond
    error: Option<String>,
    /// Error code
    code: Option<&'static str>,
}

/// Returns the response to `/health`.
pub(crate) async fn report_health(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>) -> Response {
    if caller == Caller::Unknown {
        return Json(Health { success: true, status: "ok", ..Health::default() }).into_response();
    }
    let health = Health {
        version: Some(env!("CARGO_PKG_VERSION")),
        connections: Some(app.connections.count()),
        event_streams: Some(app.streams.open_count()),
        ..Health::default()
    };
    let statuses = async {
        let daemon = app.daemon.call(DaemonStatus {}).await?;
        let remotes = app.daemon.call(ListRemoteWorkflows::default()).await?.remotes;
        Ok::<_, steplatch_protocol::AskError>((daemon, remotes))
    };
    match statuses.await {
        Ok((daemon, remotes)) => {
            let all_reachable = remotes.iter().all(|remote| remote.reachable || !remote.enabled);
            let status = if all_reachable { "ok" } else { "degraded" };
            let health = Health { success: true, status, daemon: Some(daemon), remotes: Some(remotes), ..health };
            Json(health).into_response()
        }
        Err(error) => {
            let (error, code) = (Some(error.to_string()), Some("daemon_unavailable"));
            let health = Health { status: "unavailable", error, code, ..health };
            (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
        }
    }
}
