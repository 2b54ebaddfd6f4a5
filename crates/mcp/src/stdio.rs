//! MCP over standard input and output.

use std::io;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use steplatch_protocol::{MAX_LINE_BYTES, ReconnectingClient};
use tokio::io::BufReader;
use tokio_util::sync::CancellationToken;

use crate::contract::Contract;
use crate::guard::Guard;
use crate::lines::Lines;
use crate::seal::Seals;
use crate::server::{Server, Shared};

/// Maximum message length. It exceeds the limit of requests to the daemon, so that the daemon, not the transport,
/// rejects a long request.
const MAX_MESSAGE_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Serves one client until the end of its input. That end is never an error.
///
/// Standard output carries the protocol and nothing else.
///
/// # Errors
/// If the client violates the protocol before the session has begun.
pub async fn serve_stdio(daemon: ReconnectingClient) -> io::Result<()> {
    let shutdown = CancellationToken::new();
    let (input, output) = stdio_pipes();
    let transport = Lines::new(BufReader::new(input), output, MAX_MESSAGE_BYTES);
    let seals = Seals::new(Some(daemon.paths().state().to_owned()));
    let shared = Shared { offer: Contract::new(daemon.clone()), seals };
    let server = Server::new(Arc::new(shared), shutdown.clone());
    // Connect early, so that the connection is ready for the first call.
    tokio::spawn(async move {
        if let Err(error) = daemon.client().await {
            tracing::warn!(%error, "the daemon cannot be reached");
        }
    });
    match Box::pin(server.serve(Guard::new(transport, shutdown))).await {
        Ok(service) => {
            // Only log the outcome, because the client has disconnected, and nothing is left to answer.
            let quit_reason = service.waiting().await;
            tracing::debug!(?quit_reason, "the client has disconnected");
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}
