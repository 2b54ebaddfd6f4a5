//! Sessions of clients with a protocol version before 2026-07-28.
//!
//! A session outlives a long silence of its client, because a question may be waiting for a person. Many clients never
//! close their session, so the number of sessions is limited: a new session closes the least recently used one.

use std::collections::HashMap;

use futures_core::Stream;
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{RestoreOutcome, ServerSseMessage, SessionId, SessionManager};

/// The sessions of clients.
#[derive(Debug)]
pub struct Sessions {
    inner: LocalSessionManager,
    max_sessions: usize,
    usage: Mutex<SessionUsage>,
}

/// The last use of each session, as the value of a counter of uses.
#[derive(Debug, Default)]
struct SessionUsage {
    counter: u64,
    last_use: HashMap<SessionId, u64>,
}

impl Sessions {
    pub(super) fn new(inner: LocalSessionManager, max_sessions: usize) -> Self {
        Self { inner, max_sessions, usage: Mutex::default() }
    }

    /// Records the use of a session, if it exists.
    fn touch(&self, id: &SessionId) {
        let mut usage = self.usage.lock();
        usage.counter += 1;
        let counter = usage.counter;
        if let Some(last_use) = usage.last_use.get_mut(id) {
            *last_use = counter;
        }
    }

    /// Adds a new session. Returns the sessions to close to make room for it.
    fn admit(&self, id: &SessionId) -> Vec<SessionId> {
        let mut usage = self.usage.lock();
        usage.counter += 1;
        let mut evicted_ids = Vec::new();
        while usage.last_use.len() >= self.max_sessions.max(1) {
            let Some(oldest) = usage.last_use.iter().min_by_key(|(_, last_use)| **last_use).map(|(id, _)| id.clone())
            else {
                break;
            };
            usage.last_use.remove(&oldest);
            evicted_ids.push(oldest);
        }
        let counter = usage.counter;
        usage.last_use.insert(id.clone(), counter);
        evicted_ids
    }
}

type Error = <LocalSessionManager as SessionManager>::Error;
type Transport = <LocalSessionManager as SessionManager>::Transport;

impl SessionManager for Sessions {
    type Error = Error;
    type Transport = Transport;

    async fn create_session(&self) -> Result<(SessionId, Transport), Error> {
        let (id, transport) = self.inner.create_session().await?;
        for evicted_id in self.admit(&id) {
            tracing::info!("closing the least recently used session to make room");
            if let Err(error) = self.inner.close_session(&evicted_id).await {
                tracing::debug!(%error, "a session ended with an error");
            }
        }
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        self.usage.lock().last_use.remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.touch(id);
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Error> {
        self.touch(id);
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.touch(id);
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        self.touch(id);
        self.inner.resume(id, last_event_id).await
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Transport>, Error> {
        self.inner.restore_session(id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn least_recently_used_session_is_closed() {
        let sessions = Sessions::new(LocalSessionManager::default(), 2);
        let (first, _first) = sessions.create_session().await.unwrap();
        let (second, _second) = sessions.create_session().await.unwrap();
        sessions.touch(&first);
        let (third, _third) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&first).await.unwrap() && sessions.has_session(&third).await.unwrap());
        assert!(!sessions.has_session(&second).await.unwrap());
        // A closed session makes room for a new one.
        sessions.close_session(&first).await.unwrap();
        let (fourth, _fourth) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&third).await.unwrap() && sessions.has_session(&fourth).await.unwrap());
    }
}
