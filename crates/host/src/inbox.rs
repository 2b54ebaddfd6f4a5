//! The read half of a connection, the same for both sides: splits bytes into frames.

use std::io;

use tokio::net::UnixStream;

use crate::wire::first_frame;

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
        let mut taken = 0;
        loop {
            match first_frame(&bytes[taken..]) {
                Ok(Some((length, number, body))) => {
                    take(number, &bytes[taken..][body]);
                    taken += length;
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "the other side does not speak as it should");
                    return;
                }
            }
        }
        bytes.drain(..taken);
    }
}
