//! The write half of a connection. Writes frames whole, in order.
//!
//! Writes a frame at once where the socket has room, without another task in between. Keeps bytes without room, and
//! writes them as room comes. Senders of events wait for that; answers do not, because there are as many of them as
//! requests.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::wire::{append_frame, write_frame};

/// Number of queued bytes from which senders of events have to wait.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// The queue of one side to the other. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stream: Arc<UnixStream>,
    unsent: Mutex<Unsent>,
    /// There is something to write, or the connection has ended.
    filled: Notify,
    /// There is room again, or the connection has ended.
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    over: bool,
}

/// The other side has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutboxClosed;

impl Outbox {
    pub(crate) fn new(stream: Arc<UnixStream>) -> Self {
        let shared = Shared { stream, unsent: Mutex::default(), filled: Notify::new(), emptied: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Sends a frame, or queues it if there is no room.
    pub(crate) fn send_message(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        self.send(|unsent| write_frame(unsent, number, body))
    }

    /// Sends a frame with an encoded body.
    pub(crate) fn send_body(&self, number: u64, body: &[u8]) -> Result<(), OutboxClosed> {
        self.send(|unsent| append_frame(unsent, number, |out| out.extend_from_slice(body)))
    }

    fn send(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), OutboxClosed> {
        let mut unsent = self.lock();
        if unsent.over {
            return Err(OutboxClosed);
        }
        let idle = unsent.bytes.is_empty();
        write(&mut unsent.bytes);
        if idle && self.write_some(&mut unsent).is_err() {
            return Err(OutboxClosed);
        }
        if idle && !unsent.bytes.is_empty() {
            self.shared.filled.notify_one();
        }
        Ok(())
    }

    /// Sends a frame once the other side is not far behind.
    pub(crate) async fn send_paced(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        loop {
            let emptied = self.shared.emptied.notified();
            {
                let unsent = self.lock();
                if unsent.over {
                    return Err(OutboxClosed);
                }
                if unsent.bytes.len() < MAX_QUEUED_BYTES {
                    break;
                }
            }
            emptied.await;
        }
        self.send_message(number, body)
    }

    /// Writes the queued bytes as room comes, until the connection ends.
    pub(crate) async fn write_on(&self) {
        loop {
            let filled = self.shared.filled.notified();
            let waits = {
                let unsent = self.lock();
                if unsent.over {
                    return;
                }
                !unsent.bytes.is_empty()
            };
            if !waits {
                filled.await;
                continue;
            }
            if self.shared.stream.writable().await.is_err() || self.write_some(&mut self.lock()).is_err() {
                return self.close();
            }
        }
    }

    /// Ends the connection: sends nothing more.
    pub(crate) fn close(&self) {
        self.end(&mut self.lock());
    }

    fn end(&self, unsent: &mut Unsent) {
        unsent.over = true;
        unsent.bytes = Vec::new();
        self.shared.filled.notify_one();
        self.shared.emptied.notify_waiters();
    }

    fn write_some(&self, unsent: &mut Unsent) -> Result<(), OutboxClosed> {
        let mut written = 0;
        while written < unsent.bytes.len() {
            match self.shared.stream.try_write(&unsent.bytes[written..]) {
                Ok(count @ 1..) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.end(unsent);
                    return Err(OutboxClosed);
                }
            }
        }
        unsent.bytes.drain(..written);
        if unsent.bytes.len() < MAX_QUEUED_BYTES {
            self.shared.emptied.notify_waiters();
        }
        Ok(())
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Unsent> {
        self.shared.unsent.lock()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn what_has_no_room_is_written_when_there_is_some() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(ours));
        let writer = outbox.clone();
        tokio::spawn(async move { writer.write_on().await });
        let long = "x".repeat(700_000);
        outbox.send_message(1, &long).unwrap();
        outbox.send_message(2, &long).unwrap();
        let late = outbox.clone();
        // There is no room for this one before the other side reads.
        let told = tokio::spawn(async move { late.send_paced(3, &"last").await });
        let mut read = vec![0; 2 * (700_000 + 5 + 12) + 12 + 5];
        theirs.read_exact(&mut read).await.unwrap();
        assert!(read.ends_with(b"last"));
        assert_eq!(told.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn who_tells_somebody_who_is_gone_is_not_kept() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(ours));
        drop(theirs);
        assert_eq!(outbox.send_message(1, &"x"), Err(OutboxClosed));
        assert_eq!(outbox.send_paced(1, &"x").await, Err(OutboxClosed));
    }
}
