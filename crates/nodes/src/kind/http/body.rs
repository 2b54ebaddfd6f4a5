//! Bodies of HTTP responses, read up to a maximum size.

use reqwest::Response;

/// The beginning of a body, up to the maximum size.
#[derive(Debug, Default)]
pub(crate) struct BoundedBody {
    pub(crate) bytes: Vec<u8>,
    /// True if the body exceeds the maximum size.
    pub(crate) is_cut: bool,
}

/// Reads a body of at most `max_bytes` bytes.
pub(crate) async fn read_body(mut response: Response, max_bytes: usize) -> reqwest::Result<BoundedBody> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let remaining = max_bytes - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(remaining)]);
        if chunk.len() > remaining {
            return Ok(BoundedBody { bytes, is_cut: true });
        }
    }
    Ok(BoundedBody { bytes, is_cut: false })
}
