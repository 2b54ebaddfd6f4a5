//! The write half of a connection. Writes whole frames in order.
//!
//! Writes a frame directly if the socket has room and queues it otherwise. Senders of events wait while the queue is
//! long. A request is refused as a whole if too many frames wait. Answers neither wait nor are refused: the server
//! stops reading requests while many answers wait.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::wire::{append_frame, write_frame};

/// Maximum number of queued bytes; beyond it, senders of events wait.
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// Maximum number of queued bytes of a server that reads further requests. Higher than [`MAX_QUEUED_BYTES`], so that a
/// client can still type while it is flooded with events.
const MAX_UNREAD_ANSWER_BYTES: usize = 8 << 20;

/// Maximum size in bytes of the queued requests to a peer that does not read. An empty queue accepts any request.
const MAX_WAITING_REQUEST_BYTES: usize = 32 << 20;

/// Maximum number of queued requests to a peer that does not read.
const MAX_WAITING_REQUESTS: usize = 4096;

/// Maximum queue of notes, as a multiple of the limits of requests; beyond it, the connection ends.
const MAX_NOTES_FACTOR: usize = 2;

/// Queue of frames to the other side. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stream: Arc<UnixStream>,
    unsent: Mutex<Unsent>,
    /// Signals that there are bytes to write, or that the connection has ended.
    bytes_queued: Notify,
    /// Signals that the queue is shorter, or that the connection has ended.
    room_freed: Notify,
}

#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    /// Numbers and remaining lengths of the frames in `bytes`.
    frames: VecDeque<(u64, usize)>,
    /// True if a part of the first frame was written.
    has_first_begun: bool,
    is_closed: bool,
}

impl Unsent {
    fn exceeds(&self, factor: usize) -> bool {
        self.frames.len() > factor * MAX_WAITING_REQUESTS || self.bytes.len() > factor * MAX_WAITING_REQUEST_BYTES
    }

    /// Removes the first `count` bytes after their writing.
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
    fn remove_last_frame(&mut self) {
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
    /// The other side does not read, and this number of frames waits.
    Full(usize),
}

impl Outbox {
    pub(crate) fn new(stream: Arc<UnixStream>) -> Self {
        let shared =
            Shared { stream, unsent: Mutex::default(), bytes_queued: Notify::new(), room_freed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Sends a frame, or queues it if the socket has no room.
    pub(crate) fn send_message(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        self.send(number, |unsent| write_frame(unsent, number, body), |_| false).map_err(|_| OutboxClosed)
    }

    /// Sends a frame with an encoded body.
    pub(crate) fn send_body(&self, number: u64, body: &[u8]) -> Result<(), OutboxClosed> {
        let write = |unsent: &mut Vec<u8>| append_frame(unsent, number, |out| out.extend_from_slice(body));
        self.send(number, write, |_| false).map_err(|_| OutboxClosed)
    }

    /// Sends a request, unless too many frames wait.
    pub(crate) fn send_request(&self, number: u64, body: &impl Serialize) -> Result<(), RequestRefused> {
        self.send(number, |unsent| write_frame(unsent, number, body), |unsent| unsent.exceeds(1))
    }

    /// Sends a note that cannot be refused. Ends the connection if the other side has read too little for too long.
    pub(crate) fn send_note(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        let sent =
            self.send(number, |unsent| write_frame(unsent, number, body), |unsent| unsent.exceeds(MAX_NOTES_FACTOR));
        if let Err(RequestRefused::Full(waiting)) = sent {
            tracing::warn!(waiting, "a terminal host reads nothing, and its connection ends");
            self.close();
        }
        sent.map_err(|_| OutboxClosed)
    }

    /// Removes a queued frame if none of its bytes was written. Returns whether there was such a frame.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        let mut unsent = self.lock();
        let mut offset = 0;
        for (index, &(queued, length)) in unsent.frames.iter().enumerate() {
            if queued == number && (index > 0 || !unsent.has_first_begun) {
                unsent.bytes.drain(offset..offset + length);
                unsent.frames.remove(index);
                return true;
            }
            offset += length;
        }
        false
    }

    /// Waits until a server may read further requests, or the other side has disconnected.
    pub(crate) async fn await_room(&self) {
        // Ignore the error, because the reader notices the end of the connection itself.
        let _ = self.await_fewer_than(MAX_UNREAD_ANSWER_BYTES).await;
    }

    /// Waits until fewer than `max_bytes` are queued.
    async fn await_fewer_than(&self, max_bytes: usize) -> Result<(), OutboxClosed> {
        loop {
            let room_freed = self.shared.room_freed.notified();
            {
                let unsent = self.lock();
                if unsent.is_closed {
                    return Err(OutboxClosed);
                }
                if unsent.bytes.len() < max_bytes {
                    return Ok(());
                }
            }
            room_freed.await;
        }
    }

    fn send(
        &self,
        number: u64,
        write: impl FnOnce(&mut Vec<u8>),
        is_full: impl FnOnce(&Unsent) -> bool,
    ) -> Result<(), RequestRefused> {
        let mut unsent = self.lock();
        if unsent.is_closed {
            return Err(RequestRefused::Closed);
        }
        let queued_bytes = unsent.bytes.len();
        write(&mut unsent.bytes);
        let length = unsent.bytes.len() - queued_bytes;
        unsent.frames.push_back((number, length));
        if queued_bytes > 0 && is_full(&unsent) {
            unsent.remove_last_frame();
            return Err(RequestRefused::Full(unsent.frames.len()));
        }
        if queued_bytes == 0 && self.write_some(&mut unsent).is_err() {
            return Err(RequestRefused::Closed);
        }
        if queued_bytes == 0 && !unsent.bytes.is_empty() {
            self.shared.bytes_queued.notify_one();
        }
        Ok(())
    }

    /// Sends a frame once few bytes are queued.
    pub(crate) async fn send_paced(&self, number: u64, body: &impl Serialize) -> Result<(), OutboxClosed> {
        self.await_fewer_than(MAX_QUEUED_BYTES).await?;
        self.send_message(number, body)
    }

    /// Writes the queued bytes whenever the socket has room, until the connection ends.
    pub(crate) async fn write_queued(&self) {
        loop {
            let bytes_queued = self.shared.bytes_queued.notified();
            let has_bytes = {
                let unsent = self.lock();
                if unsent.is_closed {
                    return;
                }
                !unsent.bytes.is_empty()
            };
            if !has_bytes {
                bytes_queued.await;
                continue;
            }
            if self.shared.stream.writable().await.is_err() || self.write_some(&mut self.lock()).is_err() {
                return self.close();
            }
        }
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        self.end(&mut self.lock());
    }

    fn end(&self, unsent: &mut Unsent) {
        unsent.is_closed = true;
        unsent.bytes = Vec::new();
        unsent.frames = VecDeque::new();
        self.shared.bytes_queued.notify_one();
        self.shared.room_freed.notify_waiters();
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
        if unsent.bytes.len() < MAX_UNREAD_ANSWER_BYTES {
            self.shared.room_freed.notify_waiters();
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
    async fn frame_without_room_is_written_later() {
        let (stream, mut peer_stream) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(stream));
        let writer = outbox.clone();
        tokio::spawn(async move { writer.write_queued().await });
        let long = "x".repeat(700_000);
        outbox.send_message(1, &long).unwrap();
        outbox.send_message(2, &long).unwrap();
        let paced_outbox = outbox.clone();
        // This message has no room until the other side reads.
        let reported = tokio::spawn(async move { paced_outbox.send_paced(3, &"last").await });
        let mut read = vec![0; 2 * (700_000 + 5 + 12) + 12 + 5];
        peer_stream.read_exact(&mut read).await.unwrap();
        assert!(read.ends_with(b"last"));
        assert_eq!(reported.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn request_to_a_stalled_peer_is_refused_and_can_be_withdrawn() {
        let (stream, mut peer_stream) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(stream));
        let long = "x".repeat(1 << 20);
        let sent = (1..).take_while(|number| outbox.send_request(*number, &long).is_ok()).count() as u64;
        assert_eq!(outbox.send_request(100, &long), Err(RequestRefused::Full(sent as usize)));
        assert!(outbox.lock().bytes.len() <= MAX_WAITING_REQUEST_BYTES);
        // Part of the first request was already sent.
        assert_eq!((outbox.withdraw(1), outbox.withdraw(2), outbox.withdraw(2)), (false, true, false));
        outbox.send_request(101, &"last").unwrap();
        let short = (200..).take_while(|number| outbox.send_request(*number, &"x").is_ok()).count();
        assert_eq!(
            (short as u64 + sent, outbox.lock().frames.len()),
            (MAX_WAITING_REQUESTS as u64, MAX_WAITING_REQUESTS)
        );
        // A note is never refused, but too many notes end the connection.
        let notes = (0..).take_while(|_| outbox.send_note(0, &"x").is_ok()).count();
        assert_eq!((notes, outbox.send_note(0, &"x")), (MAX_WAITING_REQUESTS, Err(OutboxClosed)));
        let mut read = Vec::new();
        drop(outbox);
        peer_stream.read_to_end(&mut read).await.unwrap();
        assert!(read.len() < 1 << 20, "only the beginning of the first request was sent");
    }

    #[tokio::test]
    async fn withdrawn_frames_leave_the_others_intact() {
        let (stream, mut peer_stream) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(stream));
        let text = |number: u64| format!("{number}").repeat(100_000);
        (1..=9).for_each(|number| outbox.send_request(number, &text(number)).unwrap());
        assert!([4, 9, 6].into_iter().all(|number| outbox.withdraw(number)));
        let writer = outbox.clone();
        tokio::spawn(async move { writer.write_queued().await });
        let mut expected = Vec::new();
        [1, 2, 3, 5, 7, 8].into_iter().for_each(|number| write_frame(&mut expected, number, &text(number)));
        let mut read = vec![0; expected.len()];
        peer_stream.read_exact(&mut read).await.unwrap();
        assert!(read == expected);
        assert!(outbox.lock().frames.is_empty());
    }

    #[tokio::test]
    async fn sender_to_a_disconnected_peer_is_not_kept() {
        let (stream, peer_stream) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(Arc::new(stream));
        drop(peer_stream);
        assert_eq!(outbox.send_message(1, &"x"), Err(OutboxClosed));
        assert_eq!(outbox.send_paced(1, &"x").await, Err(OutboxClosed));
    }
}
