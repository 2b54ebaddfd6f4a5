//! The state of a stream: sent bytes that the other side has not yet consumed, and received bytes that are not yet
//! delivered. The state outlives the connections. Performs no I/O.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::record::{MAX_DATA_BYTES, Record};

/// Maximum number of sent bytes that the other side has not consumed.
pub const WINDOW: usize = 1 << 20;

/// Number of unreported consumed bytes that requires a report.
const MAX_UNREPORTED_BYTES: u64 = (WINDOW / 8) as u64;

/// Protocol violation of the other side. The stream cannot continue afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The other side has consumed or received more than this side sent, or less than it has reported before.
    #[error("the other side of the link sent an impossible position of the stream ({0})")]
    Position(u64),
    /// The other side has sent more than fits into the window.
    #[error("the other side of the link exceeded the window")]
    Window,
    /// The other side has sent a greeting in the middle of a connection.
    #[error("the other side of the link sent a second greeting")]
    Greeting,
}

/// Effect of a received record on the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The session continues.
    More,
    /// The other side has ended the session.
    Close,
}

/// One side of a stream.
#[derive(Debug, Default)]
pub struct Session {
    /// Sent and queued bytes that the other side has not consumed.
    outgoing: BytesMut,
    /// The position of the first byte of `outgoing` in the stream.
    peer_consumed: u64,
    /// Number of bytes of `outgoing` that were given to the current connection.
    sent: usize,
    /// The position after the last byte that was given to any connection.
    max_sent: u64,
    /// Received bytes that are not yet delivered.
    incoming: BytesMut,
    /// The position after the last delivered byte.
    consumed: u64,
    /// The value of `consumed` that the other side knows.
    reported: u64,
}

impl Session {
    /// Begins a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of received bytes, delivered or not.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.consumed + self.incoming.len() as u64
    }

    /// Continues over a new connection. The other side has received `peer_received` bytes.
    ///
    /// # Errors
    /// If that position is impossible.
    pub fn resume(&mut self, peer_received: u64) -> Result<(), Violation> {
        let sent = peer_received.checked_sub(self.peer_consumed).and_then(|sent| usize::try_from(sent).ok());
        match sent {
            // The other side cannot have received bytes that were never sent.
            Some(sent) if peer_received <= self.max_sent => {
                self.sent = sent;
                // Report all consumed bytes again, because the last connection may have lost reports.
                self.reported = 0;
                Ok(())
            }
            _ => Err(Violation::Position(peer_received)),
        }
    }

    /// Returns the number of bytes that fit into the queue.
    pub(crate) fn room(&self) -> usize {
        WINDOW.saturating_sub(self.outgoing.len())
    }

    /// Queues bytes, at most as many as fit.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room(), "the caller checks the room first");
        self.outgoing.extend_from_slice(bytes);
    }

    /// Returns whether all queued bytes were given to the connection.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent == self.outgoing.len()
    }

    /// Returns the next bytes for the connection and counts them as sent.
    pub(crate) fn next_data(&mut self) -> Option<&[u8]> {
        let start = self.sent;
        let end = self.outgoing.len().min(start + MAX_DATA_BYTES);
        self.sent = end;
        self.max_sent = self.max_sent.max(self.peer_consumed + end as u64);
        (start < end).then(|| &self.outgoing[start..end])
    }

    /// Processes a received record.
    pub(crate) fn take(&mut self, record: Record) -> Result<Received, Violation> {
        match record {
            Record::Data(bytes) => self.take_data(&bytes)?,
            Record::Consumed(count) => self.take_consumed(count)?,
            Record::Close => return Ok(Received::Close),
            Record::Hello(_) | Record::Welcome(_) | Record::Refused(_) => return Err(Violation::Greeting),
        }
        Ok(Received::More)
    }

    fn take_data(&mut self, bytes: &Bytes) -> Result<(), Violation> {
        if self.incoming.len() + bytes.len() > WINDOW {
            return Err(Violation::Window);
        }
        self.incoming.extend_from_slice(bytes);
        Ok(())
    }

    fn take_consumed(&mut self, count: u64) -> Result<(), Violation> {
        let consumed = count.checked_sub(self.peer_consumed).and_then(|consumed| usize::try_from(consumed).ok());
        match consumed {
            // The other side cannot have consumed bytes that this connection has not sent.
            Some(consumed) if consumed <= self.sent => {
                self.outgoing.advance(consumed);
                self.sent -= consumed;
                self.peer_consumed = count;
                Ok(())
            }
            _ => Err(Violation::Position(count)),
        }
    }

    /// Returns the bytes to deliver.
    pub(crate) fn incoming(&self) -> &[u8] {
        &self.incoming
    }

    /// Records the delivery of `count` bytes.
    pub(crate) fn deliver(&mut self, count: usize) {
        self.incoming.advance(count);
        self.consumed += count as u64;
    }

    /// Returns whether a report of the consumed bytes is due, so that the other side does not run out of room.
    pub(crate) fn owes_report(&self) -> bool {
        self.consumed - self.reported >= MAX_UNREPORTED_BYTES
    }

    /// Returns the report of the consumed bytes.
    pub(crate) fn report(&mut self) -> Record {
        self.reported = self.consumed;
        Record::Consumed(self.consumed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lost_report_is_repeated_over_the_next_connection() {
        let mut session = Session::new();
        session.take(Record::Data(Bytes::from(vec![0; WINDOW]))).unwrap();
        session.deliver(WINDOW);
        assert!(session.owes_report());
        assert_eq!(session.report(), Record::Consumed(WINDOW as u64));
        assert!(!session.owes_report());
        session.resume(0).unwrap();
        assert!(session.owes_report(), "the other side may have no room");
    }

    /// An event of two connected sessions.
    #[derive(Debug, Clone)]
    enum Event {
        /// One side queues up to this number of bytes, if there is room.
        Push(bool, usize),
        /// One side sends its next record.
        Send(bool),
        /// The oldest record in transit to this side arrives.
        Arrive(bool),
        /// One side delivers this number of bytes.
        Deliver(bool, usize),
        /// One side reports.
        Report(bool),
        /// The connection is cut and replaced: all records in transit are lost.
        Cut,
    }

    fn event() -> impl Strategy<Value = Event> {
        let side = any::<bool>;
        prop_oneof![
            (side(), 1_usize..20_000).prop_map(|(side, count)| Event::Push(side, count)),
            side().prop_map(Event::Send),
            side().prop_map(Event::Send),
            side().prop_map(Event::Arrive),
            side().prop_map(Event::Arrive),
            (side(), 1_usize..20_000).prop_map(|(side, count)| Event::Deliver(side, count)),
            side().prop_map(Event::Report),
            Just(Event::Cut),
        ]
    }

    #[derive(Default)]
    struct Side {
        session: Session,
        pushed: u64,
        delivered: u64,
        in_transit: VecDeque<Record>,
    }

    /// Returns the byte at a position of one side's stream.
    fn byte(side: bool, position: u64) -> u8 {
        let salt = if side { 31 } else { 17 };
        (position.wrapping_mul(salt) >> 3) as u8 ^ position as u8
    }

    impl Side {
        fn deliver(&mut self, from: bool, count: usize) {
            let count = count.min(self.session.incoming().len());
            for (offset, received) in self.session.incoming()[..count].iter().enumerate() {
                assert_eq!(*received, byte(from, self.delivered + offset as u64), "at {}", self.delivered);
            }
            self.session.deliver(count);
            self.delivered += count as u64;
        }

        fn push(&mut self, side: bool, count: usize) {
            let count = count.min(self.session.room());
            let bytes: Vec<u8> = (0..count as u64).map(|offset| byte(side, self.pushed + offset)).collect();
            self.session.push(&bytes);
            self.pushed += count as u64;
        }

        fn send(&mut self) -> bool {
            let Some(data) = self.session.next_data() else { return false };
            let record = Record::Data(Bytes::copy_from_slice(data));
            self.in_transit.push_back(record);
            true
        }
    }

    proptest! {
        #[test]
        fn reconnections_neither_lose_nor_repeat_bytes(
            events in proptest::collection::vec(event(), 1..200),
        ) {
            let mut sides = [Side::default(), Side::default()];
            for event in events {
                match event {
                    Event::Push(side, count) => sides[usize::from(side)].push(side, count),
                    Event::Send(side) => drop(sides[usize::from(side)].send()),
                    Event::Arrive(side) => {
                        if let Some(record) = sides[usize::from(!side)].in_transit.pop_front() {
                            prop_assert_eq!(sides[usize::from(side)].session.take(record), Ok(Received::More));
                        }
                    }
                    Event::Deliver(side, count) => sides[usize::from(side)].deliver(!side, count),
                    Event::Report(side) => {
                        let report = sides[usize::from(side)].session.report();
                        sides[usize::from(side)].in_transit.push_back(report);
                    }
                    Event::Cut => {
                        let received = sides.each_ref().map(|side| side.session.received());
                        for (side, received) in sides.iter_mut().zip([received[1], received[0]]) {
                            side.in_transit.clear();
                            prop_assert_eq!(side.session.resume(received), Ok(()));
                        }
                    }
                }
                for side in &sides {
                    prop_assert!(side.session.outgoing.len() <= WINDOW && side.session.incoming.len() <= WINDOW);
                }
            }
            // The last connection is not cut, and delivers the remaining bytes.
            for _ in 0..1000 {
                for sender in [0, 1] {
                    while sides[sender].send() {}
                    let report = sides[sender].session.report();
                    sides[sender].in_transit.push_back(report);
                    while let Some(record) = sides[sender].in_transit.pop_front() {
                        prop_assert_eq!(sides[1 - sender].session.take(record), Ok(Received::More));
                    }
                    sides[1 - sender].deliver(sender == 1, usize::MAX);
                }
                if sides.iter().all(|side| side.session.outgoing.is_empty()) {
                    break;
                }
            }
            prop_assert_eq!((sides[0].delivered, sides[1].delivered), (sides[1].pushed, sides[0].pushed));
        }
    }

    #[test]
    fn impossible_positions_are_rejected() {
        let mut session = Session::new();
        session.push(b"abc");
        assert_eq!(session.take(Record::Consumed(1)), Err(Violation::Position(1)), "nothing has been sent");
        assert_eq!(session.resume(1), Err(Violation::Position(1)), "nothing has been sent over any connection");
        assert_eq!(session.next_data(), Some(&b"abc"[..]));
        assert_eq!(session.take(Record::Consumed(2)), Ok(Received::More));
        assert_eq!(session.take(Record::Consumed(1)), Err(Violation::Position(1)));
        assert_eq!(session.resume(1), Err(Violation::Position(1)));
        assert_eq!(session.resume(4), Err(Violation::Position(4)));
        assert_eq!(session.resume(2), Ok(()));
        assert_eq!(session.next_data(), Some(&b"c"[..]));
        assert_eq!(session.take(Record::Welcome(0)), Err(Violation::Greeting));
    }

    #[test]
    fn bytes_beyond_the_window_are_rejected() {
        let mut session = Session::new();
        let portion = Bytes::from(vec![0; MAX_DATA_BYTES]);
        for _ in 0..WINDOW / MAX_DATA_BYTES {
            assert_eq!(session.take(Record::Data(portion.clone())), Ok(Received::More));
        }
        assert_eq!(session.take(Record::Data(portion.slice(..1))), Err(Violation::Window));
    }
}
