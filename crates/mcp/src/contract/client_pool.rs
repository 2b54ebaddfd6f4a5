//! Connections to the daemon, one for each client name, so that a client's terminals and runs carry its name.
//!
//! The first client uses the initial connection: over standard input, there is no other.

use parking_lot::Mutex;
use steplatch_protocol::ReconnectingClient;

/// Maximum number of named clients. A new one replaces the oldest, except the first.
const MAX_CLIENTS: usize = 64;

/// Maximum client name length, in characters.
const MAX_NAME_CHARS: usize = 80;

/// The connections to the daemon.
#[derive(Debug)]
pub(super) struct ClientPool {
    initial: ReconnectingClient,
    named: Mutex<Vec<(String, ReconnectingClient)>>,
}

impl ClientPool {
    pub(super) fn new(initial: ReconnectingClient) -> Self {
        Self { initial, named: Mutex::default() }
    }

    /// Returns the connection for requests without a client name.
    pub(super) fn unnamed(&self) -> &ReconnectingClient {
        &self.initial
    }

    /// Returns the connection of the named client.
    pub(super) fn client(&self, name: Option<String>) -> ReconnectingClient {
        let Some(name) = name else { return self.initial.clone() };
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let mut named = self.named.lock();
        if let Some((_, client)) = named.iter().find(|(known_name, _)| *known_name == name) {
            return client.clone();
        }
        let client = match named.is_empty() {
            true => self.initial.for_caller(&name),
            false => self.initial.with_own_connection(&name),
        };
        if named.len() == MAX_CLIENTS {
            // Keep the first client: another name must not take over its connection, the initial one.
            named.remove(1);
        }
        named.push((name, client.clone()));
        client
    }
}
