//! The open connections, up to a limit.
//!
//! An idle connection occupies a place. When there is no free place, a new connection replaces the one idle for the
//! longest, first those without a token so far. A connection with a request in progress never closes for that. A crowd
//! of idle connections therefore cannot block other clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: BTreeMap<u64, Arc<Connection>>,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The number of requests in progress.
    answering: AtomicUsize,
    quiet_since: Mutex<Instant>,
    /// True if one of its requests had the token.
    known: AtomicBool,
    /// Notified when the head of the first request has arrived.
    pub(crate) spoke: Notify,
    /// Cancelled when the connection must make room.
    pub(crate) gives_way: CancellationToken,
}

/// The place of a connection, held while it is open.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    pub(crate) connection: Arc<Connection>,
}

/// A request in progress, until the end of its response.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Connection>);

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Open> {
        self.open.lock()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().all.len()
    }

    /// Gives a new connection a place. `None` when all connections have requests in progress.
    pub(crate) fn seat(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut open = self.lock();
        if open.all.len() >= self.most {
            let quiet = open.all.iter().filter(|(_, one)| !one.is_answering());
            let (&number, _) = quiet.min_by_key(|(_, one)| (one.known.load(Ordering::Relaxed), one.quiet_since()))?;
            if let Some(connection) = open.all.remove(&number) {
                connection.gives_way.cancel();
            }
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            answering: AtomicUsize::new(0),
            quiet_since: Mutex::new(Instant::now()),
            known: AtomicBool::new(false),
            spoke: Notify::new(),
            gives_way: CancellationToken::new(),
        });
        open.all.insert(number, connection.clone());
        Some(ConnectionSlot { connections: self.clone(), number, connection })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
    }
}

impl Connection {
    fn quiet_since(&self) -> Instant {
        *self.quiet_since.lock()
    }

    /// Returns whether a request is in progress.
    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }

    /// Records that a request had the token.
    pub(crate) fn is_known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }

    /// Counts a request until the drop of the guard.
    pub(crate) fn answers(self: &Arc<Self>) -> Answering {
        self.answering.fetch_add(1, Ordering::Relaxed);
        self.spoke.notify_one();
        Answering(self.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        *self.0.quiet_since.lock() = Instant::now();
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quietest_gives_way_and_who_is_answered_does_not() {
        let connections = Connections::new(3);
        let (first, second, third) =
            (connections.seat().unwrap(), connections.seat().unwrap(), connections.seat().unwrap());
        first.connection.is_known();
        let answering = second.connection.answers();
        let fourth = connections.seat().unwrap();
        assert!(third.connection.gives_way.is_cancelled(), "a stranger before somebody who is known");
        let _fifth = connections.seat().unwrap();
        assert!(fourth.connection.gives_way.is_cancelled() && !first.connection.gives_way.is_cancelled());
        let _asked = (first.connection.answers(), _fifth.connection.answers());
        assert!(connections.seat().is_none(), "all are being answered");
        drop(answering);
        assert!(connections.seat().is_some());
        assert!(second.connection.gives_way.is_cancelled());
    }

    #[test]
    fn a_place_is_free_once_its_connection_is_gone() {
        let connections = Connections::new(1);
        let one = connections.seat().unwrap();
        let _answering = one.connection.answers();
        assert!(connections.seat().is_none());
        drop(one);
        assert_eq!(connections.count(), 0);
        assert!(connections.seat().is_some());
    }
}
