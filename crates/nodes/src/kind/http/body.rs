//! The bodies of HTTP responses, read up to a bound.

use reqwest::Response;

/// The read part of a body.
#[derive(Debug, Default)]
pub(crate) struct Bounded {
    pub(crate) bytes: Vec<u8>,
    /// There was more.
    pub(crate) is_cut: bool,
}

/// Reads a body, at most `max_bytes` bytes of it.
pub(crate) async fn read(mut response: Response, max_bytes: usize) -> reqwest::Result<Bounded> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = max_bytes - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(Bounded { bytes, is_cut: true });
        }
    }
    Ok(Bounded { bytes, is_cut: false })
}
