//! The open connections, up to a limit.
//!
//! Above the limit, a new connection replaces the connection with the longest idle time; connections without
//! credentials are replaced first. They have a lower limit of their own, to bound the memory that strangers occupy. A
//! connection with a request in progress is not replaced, unless a client without credentials still sends it. Idle and
//! slow connections therefore cannot block other clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections without credentials. An idle connection occupies about 12 kB.
const MAX_UNKNOWN_CONNECTIONS: usize = 512;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    max_connections: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next_number: u64,
    by_number: BTreeMap<u64, Arc<Connection>>,
}

impl OpenConnections {
    fn has_max_unknown(&self) -> bool {
        let unknown = || self.by_number.values().filter(|connection| !connection.is_known());
        self.by_number.len() >= MAX_UNKNOWN_CONNECTIONS && unknown().count() >= MAX_UNKNOWN_CONNECTIONS
    }
}

/// State of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Number of requests in progress.
    requests: AtomicUsize,
    idle_since: Mutex<Instant>,
    /// True while a client without credentials sends a body.
    is_receiving: AtomicBool,
    /// True if a request of the connection, or its socket, had credentials.
    is_known: AtomicBool,
    /// Notified when the head of the first request has arrived.
    pub(crate) first_request: Notify,
    /// Cancelled when another connection replaces this one.
    pub(crate) replaced: CancellationToken,
}

/// Slot of an open connection.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) connection: Arc<Connection>,
}

/// Counts a request as in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<Connection>);

/// Marks a connection as receiving a body until it is dropped.
#[derive(Debug)]
pub(crate) struct ReceivingGuard(Arc<Connection>);

impl Drop for ReceivingGuard {
    fn drop(&mut self) {
        self.0.is_receiving.store(false, Ordering::Relaxed);
    }
}

impl Connections {
    pub(crate) fn new(max_connections: usize) -> Arc<Self> {
        Arc::new(Self { max_connections, open: Mutex::default() })
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, OpenConnections> {
        self.open.lock()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Returns a slot for a new connection. `None` if all connections have requests in progress.
    pub(crate) fn open_slot(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut open = self.lock();
        let is_full = open.by_number.len() >= self.max_connections;
        if is_full || open.has_max_unknown() {
            let replaceable = open.by_number.iter().filter(|(_, connection)| connection.is_replaceable());
            let (&number, _) = replaceable
                .filter(|(_, connection)| is_full || !connection.is_known())
                .min_by_key(|(_, connection)| (connection.is_known(), connection.idle_since()))?;
            if let Some(connection) = open.by_number.remove(&number) {
                connection.replaced.cancel();
            }
        }
        let number = open.next_number;
        open.next_number += 1;
        let connection = Arc::new(Connection {
            requests: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            is_receiving: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            first_request: Notify::new(),
            replaced: CancellationToken::new(),
        });
        open.by_number.insert(number, connection.clone());
        Some(ConnectionSlot { connections: self.clone(), number, connection })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
    }
}

impl Connection {
    fn idle_since(&self) -> Instant {
        *self.idle_since.lock()
    }

    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Returns whether a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Returns whether another connection may replace this one: it is idle, or an unknown client still sends a request.
    fn is_replaceable(&self) -> bool {
        !self.is_busy() || self.is_receiving.load(Ordering::Relaxed)
    }

    /// Records that an unknown client sends a body, until the guard is dropped.
    pub(crate) fn receive_body(self: &Arc<Self>) -> ReceivingGuard {
        self.is_receiving.store(true, Ordering::Relaxed);
        ReceivingGuard(self.clone())
    }

    /// Records that a request or the socket had credentials.
    pub(crate) fn mark_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// Counts a request as in progress until the guard is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.first_request.notify_one();
        RequestGuard(self.clone())
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        *self.0.idle_since.lock() = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_idle_connection_is_replaced_but_never_a_busy_one() {
        let connections = Connections::new(3);
        let (first, second, third) =
            (connections.open_slot().unwrap(), connections.open_slot().unwrap(), connections.open_slot().unwrap());
        first.connection.mark_known();
        let request_guard = second.connection.begin_request();
        let fourth = connections.open_slot().unwrap();
        assert!(third.connection.replaced.is_cancelled(), "a connection without credentials is replaced first");
        let fifth = connections.open_slot().unwrap();
        assert!(fourth.connection.replaced.is_cancelled() && !first.connection.replaced.is_cancelled());
        let _request_guards = (first.connection.begin_request(), fifth.connection.begin_request());
        assert!(connections.open_slot().is_none(), "all connections have a request in progress");
        let receiving = second.connection.receive_body();
        drop(receiving);
        assert!(connections.open_slot().is_none(), "the body has arrived");
        drop(request_guard);
        assert!(connections.open_slot().is_some());
        assert!(second.connection.replaced.is_cancelled());
    }

    /// A client without credentials that sends its body slowly occupies no connection.
    #[test]
    fn slow_body_of_an_unknown_client_is_replaced() {
        let connections = Connections::new(1);
        let slow = connections.open_slot().unwrap();
        let (_request, _receiving) = (slow.connection.begin_request(), slow.connection.receive_body());
        assert!(connections.open_slot().is_some() && slow.connection.replaced.is_cancelled());
    }

    #[test]
    fn connections_without_credentials_have_a_lower_limit() {
        let connections = Connections::new(4096);
        let known = connections.open_slot().unwrap();
        known.connection.mark_known();
        let unknown: Vec<_> = (0..MAX_UNKNOWN_CONNECTIONS).map(|_| connections.open_slot().unwrap()).collect();
        let further = connections.open_slot().unwrap();
        assert!(unknown[0].connection.replaced.is_cancelled() && !known.connection.replaced.is_cancelled());
        further.connection.mark_known();
        let _further = connections.open_slot().unwrap();
        assert!(!unknown[1].connection.replaced.is_cancelled(), "a connection with credentials counts no longer");
        let _requests: Vec<_> = unknown.iter().map(|slot| slot.connection.begin_request()).collect();
        let last = connections.open_slot().unwrap();
        let _request = last.connection.begin_request();
        assert!(connections.open_slot().is_none(), "a known connection makes no room for a stranger");
        assert!(!known.connection.replaced.is_cancelled());
    }

    #[test]
    fn slot_is_free_once_its_connection_is_closed() {
        let connections = Connections::new(1);
        let slot = connections.open_slot().unwrap();
        let _request_guard = slot.connection.begin_request();
        assert!(connections.open_slot().is_none());
        drop(slot);
        assert_eq!(connections.count(), 0);
        assert!(connections.open_slot().is_some());
    }
}
