//! A transport that shuts down cleanly.
//!
//! The guard wraps the real transport to work around three faults of the protocol library: a notification as the first
//! message ends the process; the library awaits the end of input for five seconds while a request is in flight; and the
//! end of input before the first request is an error. The guard drops notifications before the first real request, and
//! at the end of input it cancels a token that every request in flight observes.

use std::borrow::Cow;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

/// A wrapper around a transport.
#[derive(Debug)]
pub(crate) struct Guard<T> {
    inner: T,
    shutdown: CancellationToken,
    has_request: bool,
}

impl<T> Guard<T> {
    /// Wraps `inner`; cancels `shutdown` at the end of input.
    pub(crate) fn new(inner: T, shutdown: CancellationToken) -> Self {
        Self { inner, shutdown, has_request: false }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Guard<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.shutdown.cancel();
                return None;
            };
            match &message {
                JsonRpcMessage::Request(request) => {
                    // Ping and discover only probe the server; the next message may belong to either protocol version.
                    let is_probe =
                        matches!(request.request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_));
                    self.has_request |= !is_probe;
                    return Some(message);
                }
                _ if self.has_request => return Some(message),
                _ => tracing::debug!("dropped a message before the first request"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
