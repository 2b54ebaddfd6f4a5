//! The pool of running MCP servers, by their declarations.
//!
//! The first call that needs a server starts it, and the first call after a crash restarts it. Equal declarations
//! share a server.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::McpServer;
use super::server::Server;
use crate::context::NodeEnvironment;
use crate::kind::HttpClient;
use crate::outcome::Failure;
use crate::template::TemplateValues;

/// Maximum number of running servers; another server replaces the least recently used one.
const MAX_SERVERS: usize = 32;

pub(crate) struct Servers {
    http_client: HttpClient,
    /// In order of use, the most recently used last.
    slots: Mutex<Vec<Arc<ServerSlot>>>,
}

/// The slot of one server. A caller that starts the server holds the lock, so that the server starts only once.
struct ServerSlot {
    declared: Value,
    server: tokio::sync::Mutex<Option<Arc<Server>>>,
}

impl Servers {
    pub(crate) fn new(http_client: HttpClient) -> Self {
        Self { http_client, slots: Mutex::default() }
    }

    /// Returns a running server; starts it if needed.
    pub(crate) async fn get(
        &self,
        declared: &McpServer,
        template_values: &TemplateValues,
        node_environment: &NodeEnvironment,
    ) -> Result<Arc<Server>, Failure> {
        // The key contains the secrets, because a changed secret needs another server.
        let key = template_values.value(&serde_json::to_value(declared).unwrap_or_default());
        let slot = self.slot(key);
        let mut server = slot.server.lock().await;
        if let Some(running) = server.as_ref().filter(|running| running.is_alive()) {
            return Ok(running.clone());
        }
        *server = None;
        let started = Arc::new(Server::start(declared, template_values, node_environment, &self.http_client).await?);
        *server = Some(started.clone());
        Ok(started)
    }

    fn slot(&self, declared: Value) -> Arc<ServerSlot> {
        let mut slots = self.slots.lock();
        let found = slots.iter().position(|slot| slot.declared == declared).map(|index| slots.remove(index));
        let slot = found.unwrap_or_else(|| Arc::new(ServerSlot { declared, server: tokio::sync::Mutex::new(None) }));
        if slots.len() == MAX_SERVERS {
            // Calls in progress keep their server until they finish.
            slots.remove(0);
        }
        slots.push(slot.clone());
        slot
    }

    /// Removes a lost server, so that no call uses it again.
    pub(crate) async fn forget(&self, lost: &Arc<Server>) {
        for slot in self.all() {
            let mut server = slot.server.lock().await;
            if server.as_ref().is_some_and(|server| Arc::ptr_eq(server, lost)) {
                *server = None;
            }
        }
    }

    /// Stops all servers and returns when the servers without calls in progress have stopped.
    pub(crate) async fn close(&self) {
        for slot in self.all() {
            let server = slot.server.lock().await.take();
            if let Some(server) = server.and_then(Arc::into_inner) {
                server.end().await;
            }
        }
    }

    fn all(&self) -> Vec<Arc<ServerSlot>> {
        self.slots.lock().clone()
    }
}
