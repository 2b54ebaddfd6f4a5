//! Lines of JSON on a stream of bytes.
//!
//! The length of a line is limited. The reader skips a longer line and reports it;
//! the connection stays usable for the other requests.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Maximum line length, in bytes: a screenful is 10 KB, a large workflow 1 MB.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// One line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Content of the line.
    Bytes(Vec<u8>),
    /// The line was longer than the reader's limit and was skipped.
    TooLong,
}

/// Reader of lines with limited length.
#[derive(Debug)]
pub struct LineReader<R> {
    stream: R,
    max_bytes: usize,
    line: Vec<u8>,
    is_skipping: bool,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    /// Returns a reader of lines of at most [`MAX_LINE_BYTES`] bytes.
    pub fn new(stream: R) -> Self {
        Self::with_max_bytes(stream, MAX_LINE_BYTES)
    }

    /// Returns a reader of lines of at most `max_bytes` bytes.
    pub fn with_max_bytes(stream: R, max_bytes: usize) -> Self {
        Self { stream, max_bytes, line: Vec::new(), is_skipping: false }
    }

    /// Returns the next line; `None` at the end of the stream. Safe to drop and call again.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.stream.fill_buf().await?;
            if available.is_empty() {
                // Drop a last line without a line end, because it is incomplete.
                return Ok(None);
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let consumed_bytes = end.map_or(available.len(), |end| end + 1);
            if !self.is_skipping {
                self.line.extend_from_slice(&available[..end.unwrap_or(available.len())]);
            }
            self.stream.consume(consumed_bytes);
            if self.line.len() > self.max_bytes {
                self.is_skipping = true;
                self.line = Vec::new();
            }
            if end.is_some() {
                if std::mem::take(&mut self.is_skipping) {
                    return Ok(Some(Line::TooLong));
                }
                return Ok(Some(Line::Bytes(std::mem::take(&mut self.line))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn overlong_line_is_reported_and_skipped() {
        let bytes: &[u8] = b"short\nthis one is far too long\n\nlast\ncut off";
        let mut reader = LineReader::with_max_bytes(bytes, 10);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(line);
        }
        assert_eq!(
            lines,
            [Line::Bytes(b"short".into()), Line::TooLong, Line::Bytes(b"".into()), Line::Bytes(b"last".into())]
        );
    }
}
