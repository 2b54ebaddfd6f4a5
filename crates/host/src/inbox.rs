//! The read half of a connection, the same for both sides: splits bytes into frames.

use std::io;

use tokio::net::UnixStream;

use crate::wire::{BadFrame, first_frame};

/// Bytes that there is always room for.
const PORTION: usize = 64 << 10;

/// Reads frames and hands each to `take`, with its number and its body, until the other side is gone or sends an
/// invalid frame.
pub(crate) async fn read_frames(stream: &UnixStream, mut take: impl FnMut(u64, &[u8])) {
    let mut bytes = Vec::new();
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        bytes.reserve(PORTION);
        match stream.try_read_buf(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        if let Err(error) = take_frames(&mut bytes, &mut take) {
            tracing::warn!(%error, "a frame of the peer violates the protocol");
            return;
        }
    }
}

/// Takes all whole frames out of `bytes` and hands each to `take`, with its number and its body.
///
/// # Errors
/// If a frame is invalid, so that what follows cannot be read either. Those before it are taken.
pub(crate) fn take_frames(bytes: &mut Vec<u8>, mut take: impl FnMut(u64, &[u8])) -> Result<(), BadFrame> {
    let mut taken = 0;
    while let Some((length, number, body)) = first_frame(&bytes[taken..])? {
        take(number, &bytes[taken..][body]);
        taken += length;
    }
    bytes.drain(..taken);
    Ok(())
}
