//! MCP over HTTP (Streamable HTTP, in both eras of the protocol).
//!
//! The service that mounts this one does the authentication, above all the check of a token.

mod sessions;

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use steplatch_protocol::{MAX_LINE, ReconnectingClient};
use tokio_util::sync::CancellationToken;

use crate::contract::Contract;
use crate::offer::ServerBackend;
use crate::questions::ANSWER_TIMEOUT;
use crate::seal::Seals;
use crate::server::{Server, Shared};
pub use sessions::Sessions;

/// Lifetime of a session (before 2026-07-28) without a message from its client. A gate may be open
/// in the meantime, for example overnight.
const KEEP_ALIVE: Duration = Duration::from_secs(24 * 3600);

// The end of a session during a question to its client's person would abort the call.
const _: () = assert!(KEEP_ALIVE.as_secs() > 2 * ANSWER_TIMEOUT.as_secs());

/// Maximum number of sessions at the same time.
const MAX_SESSIONS: usize = 256;

/// The limits on requests.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The host names under which a client may reach the service, with or without a port.
    pub hosts: Vec<String>,
    /// The origins of web pages that may make calls, with a port or `:*`; an empty list permits none. Clients other
    /// than web pages send no origin.
    pub origins: Vec<String>,
    /// The longest accepted body, in bytes.
    pub longest_body: usize,
    /// Its cancellation ends all sessions and requests.
    pub ended: CancellationToken,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            origins: ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"].map(str::to_owned).to_vec(),
            longest_body: MAX_LINE,
            ended: CancellationToken::new(),
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

/// Offers `offer` to MCP clients over the same server.
#[must_use]
pub fn http_service_of<O: ServerBackend>(offer: O, options: HttpOptions) -> HttpService<O> {
    service(Shared { offer, seals: Seals::new(None) }, options)
}

fn service<O: ServerBackend>(shared: Shared<O>, options: HttpOptions) -> HttpService<O> {
    let HttpOptions { hosts, origins, longest_body, ended } = options;
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(KEEP_ALIVE);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(longest_body)
        .with_cancellation_token(ended.clone());
    let shared = Arc::new(shared);
    let server = move || Ok(Server::new(shared.clone(), ended.clone()));
    StreamableHttpService::new(server, Arc::new(Sessions::new(sessions, MAX_SESSIONS)), config)
}
