//! MCP over HTTP (Streamable HTTP, in both eras of the protocol).
//!
//! The mounting service authenticates the requests, above all by their token.

mod sessions;

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use steplatch_protocol::{MAX_LINE_BYTES, ReconnectingClient};
use tokio_util::sync::CancellationToken;

use crate::contract::Contract;
use crate::offer::ServerBackend;
use crate::questions::ANSWER_TIMEOUT;
use crate::seal::Seals;
use crate::server::{Server, Shared};
pub use sessions::Sessions;

/// Lifetime of a session (before 2026-07-28) without a message from its client. A gate may be open in the meantime, for
/// example overnight.
const KEEP_ALIVE: Duration = Duration::from_secs(24 * 3600);

// A session that expired during a question to its client's person would abort the call.
const _: () = assert!(KEEP_ALIVE.as_secs() > 2 * ANSWER_TIMEOUT.as_secs());

/// Maximum number of concurrent sessions.
const MAX_SESSIONS: usize = 256;

/// Options of the service: the accepted requests, and its shutdown.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Host names in accepted requests, with or without a port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may make requests, with a port or `:*`; an empty list permits none. Clients other than
    /// web pages send no origin.
    pub origins: Vec<String>,
    /// Maximum body size, in bytes.
    pub max_body_bytes: usize,
    /// Ends all sessions and requests when it is cancelled.
    pub shutdown: CancellationToken,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            origins: ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).to_vec(),
            max_body_bytes: MAX_LINE_BYTES,
            shutdown: CancellationToken::new(),
        }
    }
}

/// A service for requests to one path, to mount there.
pub type HttpService<O> = StreamableHttpService<Server<O>, Sessions>;

/// Offers the contract to MCP clients. The service is cheap to clone; all clones share one state.
#[must_use]
pub fn http_service(daemon: ReconnectingClient, options: HttpOptions) -> HttpService<Contract> {
    let seals = Seals::new(Some(daemon.paths().state().to_owned()));
    service(Shared { offer: Contract::new(daemon), seals }, options)
}

/// Offers `offer` to MCP clients with the same server implementation.
#[must_use]
pub fn http_service_of<O: ServerBackend>(offer: O, options: HttpOptions) -> HttpService<O> {
    service(Shared { offer, seals: Seals::new(None) }, options)
}

fn service<O: ServerBackend>(shared: Shared<O>, options: HttpOptions) -> HttpService<O> {
    let HttpOptions { hosts, origins, max_body_bytes, shutdown } = options;
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(KEEP_ALIVE);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(max_body_bytes)
        .with_cancellation_token(shutdown.clone());
    let shared = Arc::new(shared);
    let server = move || Ok(Server::new(shared.clone(), shutdown.clone()));
    StreamableHttpService::new(server, Arc::new(Sessions::new(sessions, MAX_SESSIONS)), config)
}
