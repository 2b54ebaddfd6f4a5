//! Connections to the daemon, one for each client name, so that the terminals and runs that a client opens carry its
//! name.
//!
//! The first client uses the initial connection, which is the only one over standard input.

use parking_lot::Mutex;
use steplatch_protocol::ReconnectingClient;

/// Maximum number of clients with a connection at the same time; one more drops the oldest.
const MAX_CLIENTS: usize = 64;

/// Maximum length of a client's name, in characters.
const MAX_NAME_CHARS: usize = 80;

/// The connections to the daemon.
#[derive(Debug)]
pub(super) struct ClientPool {
    first: ReconnectingClient,
    known: Mutex<Vec<(String, ReconnectingClient)>>,
}

impl ClientPool {
    pub(super) fn new(first: ReconnectingClient) -> Self {
        Self { first, known: Mutex::default() }
    }

    /// Returns the connection that belongs to no particular client.
    pub(super) fn unnamed(&self) -> &ReconnectingClient {
        &self.first
    }

    /// Returns the connection of the client of that name.
    pub(super) fn client(&self, name: Option<String>) -> ReconnectingClient {
        let Some(name) = name else { return self.first.clone() };
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let mut known = self.known.lock();
        if let Some((_, way)) = known.iter().find(|(known, _)| *known == name) {
            return way.clone();
        }
        let way = match known.is_empty() {
            true => self.first.for_caller(&name),
            false => self.first.apart(&name),
        };
        if known.len() == MAX_CLIENTS {
            // The first stays: its client would return on the same connection under another name.
            known.remove(1);
        }
        known.push((name, way.clone()));
        way
    }
}
