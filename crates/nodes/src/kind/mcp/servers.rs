//! The pool of running MCP servers, by their declarations.
//!
//! The first call that needs a server starts it, and the first call after its death starts it again. Equal declarations
//! share one.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::McpServer;
use super::server::Server;
use crate::context::NodeEnvironment;
use crate::kind::HttpClient;
use crate::outcome::Failure;
use crate::template::TemplateValues;

/// Maximum number of servers at once; one more ends the least recently used one.
const MAX_SERVERS: usize = 32;

pub(crate) struct Servers {
    web: HttpClient,
    /// In order of use, the most recently used last.
    places: Mutex<Vec<Arc<Place>>>,
}

/// The slot of one server. A caller that starts the server holds the lock, so that it starts once.
struct Place {
    declared: Value,
    server: tokio::sync::Mutex<Option<Arc<Server>>>,
}

impl Servers {
    pub(crate) fn new(web: HttpClient) -> Self {
        Self { web, places: Mutex::default() }
    }

    /// Returns a server that runs, and starts it if need be.
    pub(crate) async fn get(
        &self,
        declared: &McpServer,
        filling: &TemplateValues,
        node_environment: &NodeEnvironment,
    ) -> Result<Arc<Server>, Failure> {
        // Filled in, because a changed secret needs another server.
        let key = filling.value(&serde_json::to_value(declared).unwrap_or_default());
        let place = self.place(key);
        let mut server = place.server.lock().await;
        if let Some(running) = server.as_ref().filter(|running| running.is_alive()) {
            return Ok(running.clone());
        }
        *server = None;
        let started = Arc::new(Server::start(declared, filling, node_environment, &self.web).await?);
        *server = Some(started.clone());
        Ok(started)
    }

    fn place(&self, declared: Value) -> Arc<Place> {
        let mut places = self.places.lock();
        let found = places.iter().position(|place| place.declared == declared).map(|index| places.remove(index));
        let place = found.unwrap_or_else(|| Arc::new(Place { declared, server: tokio::sync::Mutex::new(None) }));
        if places.len() == MAX_SERVERS {
            // Calls in progress hold their server until their end.
            places.remove(0);
        }
        places.push(place.clone());
        place
    }

    /// Removes a lost server, so that no call uses it again.
    pub(crate) async fn forget(&self, lost: &Arc<Server>) {
        for place in self.all() {
            let mut server = place.server.lock().await;
            if server.as_ref().is_some_and(|server| Arc::ptr_eq(server, lost)) {
                *server = None;
            }
        }
    }

    /// Ends all servers, and returns when those without calls in progress have ended.
    pub(crate) async fn close(&self) {
        for place in self.all() {
            let server = place.server.lock().await.take();
            if let Some(server) = server.and_then(Arc::into_inner) {
                server.end().await;
            }
        }
    }

    fn all(&self) -> Vec<Arc<Place>> {
        self.places.lock().clone()
    }
}
