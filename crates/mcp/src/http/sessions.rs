//! The sessions of clients of before 2026-07-28.
//!
//! A session outlives a long silence of its client, because a question may wait for a person in the meantime, and many
//! clients never close theirs. There is therefore a maximum number of sessions: a new one closes the least recently
//! used one.

use std::collections::HashMap;

use futures_core::Stream;
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{RestoreOutcome, ServerSseMessage, SessionId, SessionManager};

/// The sessions, and the last use of each.
#[derive(Debug)]
pub struct Sessions {
    inner: LocalSessionManager,
    most: usize,
    used: Mutex<Used>,
}

/// The order of use; numbers grow with each use.
#[derive(Debug, Default)]
struct Used {
    now: u64,
    last: HashMap<SessionId, u64>,
}

impl Sessions {
    pub(super) fn new(inner: LocalSessionManager, most: usize) -> Self {
        Self { inner, most, used: Mutex::default() }
    }

    /// Records the use of a session, if it exists.
    fn touch(&self, id: &SessionId) {
        let mut used = self.used.lock();
        used.now += 1;
        let now = used.now;
        if let Some(last) = used.last.get_mut(id) {
            *last = now;
        }
    }

    /// Adds a new session. Returns the sessions to close to make room for it.
    fn enter(&self, id: &SessionId) -> Vec<SessionId> {
        let mut used = self.used.lock();
        used.now += 1;
        let mut leaving = Vec::new();
        while used.last.len() >= self.most.max(1) {
            let Some(oldest) = used.last.iter().min_by_key(|(_, last)| **last).map(|(id, _)| id.clone()) else { break };
            used.last.remove(&oldest);
            leaving.push(oldest);
        }
        let now = used.now;
        used.last.insert(id.clone(), now);
        leaving
    }
}

type Error = <LocalSessionManager as SessionManager>::Error;
type Transport = <LocalSessionManager as SessionManager>::Transport;

impl SessionManager for Sessions {
    type Error = Error;
    type Transport = Transport;

    async fn create_session(&self) -> Result<(SessionId, Transport), Error> {
        let (id, transport) = self.inner.create_session().await?;
        for leaving in self.enter(&id) {
            tracing::info!("the least recently used session is closed to make room");
            if let Err(error) = self.inner.close_session(&leaving).await {
                tracing::debug!(%error, "a session did not end well");
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
        self.used.lock().last.remove(id);
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
    async fn the_session_that_was_used_the_longest_ago_gives_way() {
        let sessions = Sessions::new(LocalSessionManager::default(), 2);
        let (first, _first) = sessions.create_session().await.unwrap();
        let (second, _second) = sessions.create_session().await.unwrap();
        sessions.touch(&first);
        let (third, _third) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&first).await.unwrap() && sessions.has_session(&third).await.unwrap());
        assert!(!sessions.has_session(&second).await.unwrap());
        // Closing a session makes room.
        sessions.close_session(&first).await.unwrap();
        let (fourth, _fourth) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&third).await.unwrap() && sessions.has_session(&fourth).await.unwrap());
    }
}
