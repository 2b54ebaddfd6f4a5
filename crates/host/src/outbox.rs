//! The write half of a connection. Writes frames whole, in order.
//!
//! Writes a frame directly if the socket has room, and queues it otherwise. Senders of events wait for room. A request
//! is refused, and not sent in part, if too many others wait. Answers neither wait nor are refused, because the server
//! reads no requests while many answers wait.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::wire::{append_frame, write_frame};

/// Number of queued bytes from which senders of events have to wait.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// Number of queued bytes of answers from which a server reads no further requests. Events stop earlier, so that a
/// client that is flooded with them can still type.
const MAX_UNREAD_BYTES: usize = 8 << 20;

/// Maximum size of the requests that wait for a peer that reads nothing, in bytes, and their maximum number. One
/// request fits whatever its size.
const MAX_WAITING_REQUEST_BYTES: usize = 32 << 20;
const MAX_WAITING_REQUESTS: usize = 4096;

/// Maximum multiple of these limits with the notes that cannot be refused; beyond it, the connection ends.
const MAX_NOTES_FACTOR: usize = 2;

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
    /// The frames in `bytes`, each with its number and its remaining length. The first one may have begun to leave.
    frames: VecDeque<(u64, usize)>,
    has_first_begun: bool,
    over: bool,
}

impl Unsent {
    fn exceeds(&self, factor: usize) -> bool {
        self.frames.len() > factor * MAX_WAITING_REQUESTS || self.bytes.len() > factor * MAX_WAITING_REQUEST_BYTES
    }

    /// Removes the first `count` bytes, which were written.
    fn advance(&mut self, mut count: usize) {
        self.bytes.drain(..count);
        while count > 0
            && let Some((_, length)) = self.frames.front_mut()
        {
            let written = count.min(*length);
            *length -= written;
            count -= written;
            self.has_first_begun = *length > 0;
            if *length == 0 {
                self.frames.pop_front();
            }
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(MAX_QUEUED_BYTES);
        }
    }

    /// Removes the last frame.
    fn take_back(&mut self) {
        if let Some((_, length)) = self.frames.pop_back() {
            self.bytes.truncate(self.bytes.len() - length);
        }
    }
}

/// The other side has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutboxClosed;

/// Reason why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestRefused {
    /// The other side has disconnected.
    Closed,
    /// It does not read, and this number of frames waits.
    Full(usize),
}

impl Outbox {
    pub(crate) fn new(stream: Arc<UnixStream>) -> Self {
        let shared = Shared { stream, unsent: Mutex::default(), filled: Notify::new(), emptied: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Sends a frame, or queues it if there is no room.
    pub(crate) fn send_message(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        self.send(number, |unsent| write_frame(unsent, number, body), |_| false).map_err(|_| OutboxClosed)
    }

    /// Sends a frame with an encoded body.
    pub(crate) fn send_body(&self, number: u64, body: &[u8]) -> Result<(), OutboxClosed> {
        let write = |unsent: &mut Vec<u8>| append_frame(unsent, number, |out| out.extend_from_slice(body));
        self.send(number, write, |_| false).map_err(|_| OutboxClosed)
    }

    /// Sends a request, unless too many frames wait already.
    pub(crate) fn send_request(&self, number: u64, body: &impl Serialize) -> Result<(), RequestRefused> {
        self.send(number, |unsent| write_frame(unsent, number, body), |unsent| unsent.exceeds(1))
    }

    /// Sends a note that cannot be refused. Ends the connection if the other side has read too little for too long: the
    /// next connection begins with what the other side has kept.
    pub(crate) fn send_note(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        let sent =
            self.send(number, |unsent| write_frame(unsent, number, body), |unsent| unsent.exceeds(MAX_NOTES_FACTOR));
        if let Err(RequestRefused::Full(waiting)) = sent {
            tracing::warn!(waiting, "a terminal host reads nothing, and its connection ends");
            self.close();
        }
        sent.map_err(|_| OutboxClosed)
    }

    /// Removes a queued frame of which nothing was written. Returns whether there was one.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        let mut unsent = self.lock();
        let mut begin = 0;
        for (at, &(queued, length)) in unsent.frames.iter().enumerate() {
            if queued == number && (at > 0 || !unsent.has_first_begun) {
                unsent.bytes.drain(begin..begin + length);
                unsent.frames.remove(at);
                return true;
            }
            begin += length;
        }
        false
    }

    /// Waits until a server may read further requests, or the other side has disconnected.
    pub(crate) async fn await_room(&self) {
        // A reader finds the end by itself.
        let _ = self.await_fewer_than(MAX_UNREAD_BYTES).await;
    }

    /// Waits until fewer than `max_bytes` are queued.
    async fn await_fewer_than(&self, max_bytes: usize) -> Result<(), OutboxClosed> {
        loop {
            let emptied = self.shared.emptied.notified();
            {
                let unsent = self.lock();
                if unsent.over {
                    return Err(OutboxClosed);
                }
                if unsent.bytes.len() < max_bytes {
                    return Ok(());
                }
            }
            emptied.await;
        }
    }

    fn send(
        &self,
        number: u64,
        write: impl FnOnce(&mut Vec<u8>),
        is_full: impl FnOnce(&Unsent) -> bool,
    ) -> Result<(), RequestRefused> {
        let mut unsent = self.lock();
        if unsent.over {
            return Err(RequestRefused::Closed);
        }
        let begins = unsent.bytes.len();
        write(&mut unsent.bytes);
        let length = unsent.bytes.len() - begins;
        unsent.frames.push_back((number, length));
        if begins > 0 && is_full(&unsent) {
            unsent.take_back();
            return Err(RequestRefused::Full(unsent.frames.len()));
        }
        if begins == 0 && self.write_some(&mut unsent).is_err() {
            return Err(RequestRefused::Closed);
        }
        if begins == 0 && !unsent.bytes.is_empty() {
            self.shared.filled.notify_one();
        }
        Ok(())
    }

    /// Sends a frame when few bytes wait for the other side.
    pub(crate) async fn send_paced(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        self.await_fewer_than(MAX_QUEUED_BYTES).await?;
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
        unsent.frames = VecDeque::new();
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
        unsent.advance(written);
        if unsent.bytes.len() < MAX_UNREAD_BYTES {
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
    async fn a_request_to_a_peer_that_reads_nothing_is_refused_at_the_limit_and_may_be_taken_back() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(ours));
        let long = "x".repeat(1 << 20);
        let sent = (1..).take_while(|number| outbox.send_request(*number, &long).is_ok()).count() as u64;
        assert_eq!(outbox.send_request(100, &long), Err(RequestRefused::Full(sent as usize)));
        assert!(outbox.lock().bytes.len() <= MAX_WAITING_REQUEST_BYTES);
        // Of the first one, a part has left.
        assert_eq!((outbox.withdraw(1), outbox.withdraw(2), outbox.withdraw(2)), (false, true, false));
        outbox.send_request(101, &"last").unwrap();
        let short = (200..).take_while(|number| outbox.send_request(*number, &"x").is_ok()).count();
        assert_eq!(
            (short as u64 + sent, outbox.lock().frames.len()),
            (MAX_WAITING_REQUESTS as u64, MAX_WAITING_REQUESTS)
        );
        // A note is not refused, and too many of them end the connection.
        let notes = (0..).take_while(|_| outbox.send_note(0, &"x").is_ok()).count();
        assert_eq!((notes, outbox.send_note(0, &"x")), (MAX_WAITING_REQUESTS, Err(OutboxClosed)));
        let mut read = Vec::new();
        drop(outbox);
        theirs.read_to_end(&mut read).await.unwrap();
        assert!(read.len() < 1 << 20, "nothing was sent but the beginning of the first one");
    }

    #[tokio::test]
    async fn frames_that_were_taken_back_leave_the_others_whole() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(ours));
        let text = |number: u64| format!("{number}").repeat(100_000);
        (1..=9).for_each(|number| outbox.send_request(number, &text(number)).unwrap());
        assert!([4, 9, 6].into_iter().all(|number| outbox.withdraw(number)));
        let writer = outbox.clone();
        tokio::spawn(async move { writer.write_on().await });
        let mut expected = Vec::new();
        [1, 2, 3, 5, 7, 8].into_iter().for_each(|number| write_frame(&mut expected, number, &text(number)));
        let mut read = vec![0; expected.len()];
        theirs.read_exact(&mut read).await.unwrap();
        assert!(read == expected);
        assert!(outbox.lock().frames.is_empty());
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
