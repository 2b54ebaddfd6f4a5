//! The MCP servers that are kept running, by how they were declared.
//!
//! A server is started by the first call that needs it, and again by the first one
//! after it died. Declarations that are the same share one.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::server::Server;
use crate::http::Web;
use crate::node::McpServer;
use crate::nodes::Surroundings;
use crate::result::Failure;
use crate::template::Filling;

/// Servers that are kept at once; one more ends the one that was not asked for longest.
const MOST: usize = 32;

pub(crate) struct Servers {
    web: Web,
    /// The one that was asked last is the last one.
    places: Mutex<Vec<Arc<Place>>>,
}

/// Where a server is, while it runs. Whoever starts it holds the lock, so that it is started once.
struct Place {
    declared: Value,
    server: tokio::sync::Mutex<Option<Arc<Server>>>,
}

impl Servers {
    pub(crate) fn new(web: Web) -> Self {
        Self { web, places: Mutex::default() }
    }

    /// Returns a server that runs, and starts it if need be.
    pub(crate) async fn get(
        &self,
        declared: &McpServer,
        filling: &Filling,
        surroundings: &Surroundings,
    ) -> Result<Arc<Server>, Failure> {
        // Filled in, because a secret that was changed needs another server.
        let key = filling.value(&serde_json::to_value(declared).unwrap_or_default());
        let place = self.place(key);
        let mut server = place.server.lock().await;
        if let Some(running) = server.as_ref().filter(|running| running.is_alive()) {
            return Ok(running.clone());
        }
        *server = None;
        let started = Arc::new(Server::start(declared, filling, surroundings, &self.web).await?);
        *server = Some(started.clone());
        Ok(started)
    }

    fn place(&self, declared: Value) -> Arc<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let found = places.iter().position(|place| place.declared == declared).map(|index| places.remove(index));
        let place = found.unwrap_or_else(|| Arc::new(Place { declared, server: tokio::sync::Mutex::new(None) }));
        if places.len() == MOST {
            // Calls that are under way hold their server until they are done.
            places.remove(0);
        }
        places.push(place.clone());
        place
    }

    /// Sees to it that a server that was lost is not asked again.
    pub(crate) async fn forget(&self, lost: &Arc<Server>) {
        for place in self.all() {
            let mut server = place.server.lock().await;
            if server.as_ref().is_some_and(|server| Arc::ptr_eq(server, lost)) {
                *server = None;
            }
        }
    }

    /// Ends all servers, and returns when those that nobody is calling have ended.
    pub(crate) async fn close(&self) {
        for place in self.all() {
            let server = place.server.lock().await.take();
            if let Some(server) = server.and_then(Arc::into_inner) {
                server.end().await;
            }
        }
    }

    fn all(&self) -> Vec<Arc<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
