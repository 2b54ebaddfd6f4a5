//! The read half of a connection, the same for both sides: splits bytes into frames.

use std::io;

use tokio::net::UnixStream;

use crate::outbox::Outbox;
use crate::wire::{BadFrame, HEAD, frame_head};

/// Minimum room for the next read.
const MIN_ROOM_BYTES: usize = 64 << 10;

/// Room that stays after a large frame, in bytes.
const MAX_SPARE: usize = 1 << 20;

/// Reads frames and hands each to `take`, with its number and its body, until the other side disconnects or sends an
/// invalid frame. It does not keep the body of a frame that is longer than `limit` of its number, and hands the frame
/// over without it. Reads nothing while many answers wait in `answers`. Calls `on_read` for each read, also within a frame.
pub(crate) async fn read_frames(
    stream: &UnixStream,
    answers: Option<&Outbox>,
    on_read: impl Fn(),
    limit: impl Fn(u64) -> usize,
    mut take: impl FnMut(u64, Option<&[u8]>),
) {
    let mut frames = FrameBuffer::default();
    loop {
        if let Some(answers) = answers {
            answers.await_room().await;
        }
        if stream.readable().await.is_err() {
            return;
        }
        frames.bytes.reserve(MIN_ROOM_BYTES);
        match stream.try_read_buf(&mut frames.bytes) {
            Ok(0) => return,
            Ok(_) => on_read(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        if let Err(error) = frames.take(&limit, &mut take) {
            tracing::warn!(%error, "a frame of the peer violates the protocol");
            return;
        }
    }
}

/// Received bytes that no caller has taken.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Number of the next bytes that belong to a frame that is too long.
    skipped: usize,
}

impl FrameBuffer {
    /// Takes all whole frames, as [`read_frames`] does.
    ///
    /// # Errors
    /// If a frame is invalid, so that the bytes after it are unreadable as well. Takes the frames before it.
    pub(crate) fn take(
        &mut self,
        limit: impl Fn(u64) -> usize,
        mut take: impl FnMut(u64, Option<&[u8]>),
    ) -> Result<(), BadFrame> {
        let mut taken = self.skipped.min(self.bytes.len());
        self.skipped -= taken;
        while let Some((length, number)) = frame_head(&self.bytes[taken..])? {
            let rest = &self.bytes[taken..];
            if length - HEAD > limit(number) {
                take(number, None);
                let available = length.min(rest.len());
                self.skipped = length - available;
                taken += available;
            } else if rest.len() >= length {
                take(number, Some(&rest[HEAD..length]));
                taken += length;
            } else {
                break;
            }
        }
        self.bytes.drain(..taken);
        if self.bytes.is_empty() {
            self.bytes.shrink_to(MAX_SPARE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::write_frame;

    proptest::proptest! {
        /// A frame that is longer than its limit is neither kept nor lost, and those around it arrive, wherever they are cut.
        #[test]
        fn a_frame_that_is_too_long_is_left_out_wherever_it_is_cut(
            lengths in proptest::collection::vec(0_usize..300, 1..8),
            portion in 1_usize..400,
        ) {
            const LIMIT: usize = 100;
            let (mut sent, mut expected) = (Vec::new(), Vec::new());
            for (number, length) in (1_u64..).zip(lengths) {
                let begins = sent.len();
                write_frame(&mut sent, number, &"x".repeat(length));
                let body = sent[begins + HEAD..].to_vec();
                expected.push((number, (body.len() <= LIMIT).then_some(body)));
            }
            let (mut buffer, mut received) = (FrameBuffer::default(), Vec::new());
            for portion in sent.chunks(portion) {
                buffer.bytes.extend_from_slice(portion);
                let take = |number, body: Option<&[u8]>| received.push((number, body.map(<[u8]>::to_vec)));
                buffer.take(|_| LIMIT, take).unwrap();
                proptest::prop_assert!(buffer.bytes.len() <= LIMIT + HEAD);
            }
            proptest::prop_assert_eq!(received, expected);
        }
    }
}
