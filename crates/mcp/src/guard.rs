//! A transport that ends well.
//!
//! Around the real one, for three faults of the protocol library: a notification
//! as the first message ends the process; the end of input is waited on for five
//! seconds while anything is in flight; and the end of input before the first
//! request is an error. Here, notifications before the first real request are
//! dropped, and the end of input cancels a token that everything in flight heeds.

use std::borrow::Cow;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

/// Wraps a transport.
#[derive(Debug)]
pub(crate) struct Guard<T> {
    inner: T,
    ended: CancellationToken,
    begun: bool,
}

impl<T> Guard<T> {
    /// `ended` is cancelled when there is no more input.
    pub(crate) fn new(inner: T, ended: CancellationToken) -> Self {
        Self { inner, ended, begun: false }
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
                self.ended.cancel();
                return None;
            };
            match &message {
                JsonRpcMessage::Request(request) => {
                    // These two only ask who is there; what follows may be of either era.
                    let asks =
                        matches!(request.request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_));
                    self.begun |= !asks;
                    return Some(message);
                }
                _ if self.begun => return Some(message),
                _ => tracing::debug!("a message before the first request was dropped"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
