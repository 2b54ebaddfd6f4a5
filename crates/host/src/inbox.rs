//! The read half of a connection, for hosts and clients. Splits bytes into frames.

use std::io;

use tokio::net::UnixStream;

use crate::outbox::Outbox;
use crate::wire::{BadFrame, HEAD_BYTES, frame_head};

/// Minimum free capacity of the buffer for a read.
const MIN_ROOM_BYTES: usize = 64 << 10;

/// Maximum capacity of the buffer that is kept after a large frame.
const MAX_SPARE_BYTES: usize = 1 << 20;

/// Reads frames until the other side disconnects or sends an invalid frame. Passes the number and body of each frame to
/// `on_frame`; a body longer than `limit` of the number is dropped. Stops reading while many answers wait in `answers`.
/// Calls `on_read` after each read, even within a frame.
pub(crate) async fn read_frames(
    stream: &UnixStream,
    answers: Option<&Outbox>,
    on_read: impl Fn(),
    limit: impl Fn(u64) -> usize,
    mut on_frame: impl FnMut(u64, Option<&[u8]>),
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
        if let Err(error) = frames.take_frames(&limit, &mut on_frame) {
            tracing::warn!(%error, "a frame of the peer violates the protocol");
            return;
        }
    }
}

/// Received bytes of incomplete frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Number of bytes still to skip of a frame that is too long.
    unskipped_bytes: usize,
}

impl FrameBuffer {
    /// Removes all whole frames and passes them to `on_frame`, see [`read_frames`].
    ///
    /// # Errors
    /// If a frame is invalid: the bytes after it cannot be split. Passes on the frames before it.
    pub(crate) fn take_frames(
        &mut self,
        limit: impl Fn(u64) -> usize,
        mut on_frame: impl FnMut(u64, Option<&[u8]>),
    ) -> Result<(), BadFrame> {
        let mut consumed = self.unskipped_bytes.min(self.bytes.len());
        self.unskipped_bytes -= consumed;
        while let Some((length, number)) = frame_head(&self.bytes[consumed..])? {
            let rest = &self.bytes[consumed..];
            if length - HEAD_BYTES > limit(number) {
                on_frame(number, None);
                let available = length.min(rest.len());
                self.unskipped_bytes = length - available;
                consumed += available;
            } else if rest.len() >= length {
                on_frame(number, Some(&rest[HEAD_BYTES..length]));
                consumed += length;
            } else {
                break;
            }
        }
        self.bytes.drain(..consumed);
        if self.bytes.is_empty() {
            self.bytes.shrink_to(MAX_SPARE_BYTES);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::write_frame;

    proptest::proptest! {
        /// An overlong frame is skipped but reported, and the frames around it arrive, wherever the input is cut.
        #[test]
        fn too_long_frame_is_skipped_wherever_it_is_cut(
            lengths in proptest::collection::vec(0_usize..300, 1..8),
            portion in 1_usize..400,
        ) {
            const LIMIT: usize = 100;
            let (mut sent, mut expected) = (Vec::new(), Vec::new());
            for (number, length) in (1_u64..).zip(lengths) {
                let begins = sent.len();
                write_frame(&mut sent, number, &"x".repeat(length));
                let body = sent[begins + HEAD_BYTES..].to_vec();
                expected.push((number, (body.len() <= LIMIT).then_some(body)));
            }
            let (mut buffer, mut received) = (FrameBuffer::default(), Vec::new());
            for portion in sent.chunks(portion) {
                buffer.bytes.extend_from_slice(portion);
                let take = |number, body: Option<&[u8]>| received.push((number, body.map(<[u8]>::to_vec)));
                buffer.take_frames(|_| LIMIT, take).unwrap();
                proptest::prop_assert!(buffer.bytes.len() <= LIMIT + HEAD_BYTES);
            }
            proptest::prop_assert_eq!(received, expected);
        }
    }
}
