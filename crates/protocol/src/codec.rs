//! Lines of JSON on a stream of bytes.
//!
//! A line is bounded. One that is longer is read to its end and reported, and
//! the connection lives: a single mistake must not cost everything else on it.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Maximum length of a line in bytes: a screenful is 10 KB, a large workflow 1 MB.
pub const MAX_LINE: usize = 16 << 20;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// As it came.
    Bytes(Vec<u8>),
    /// The line was longer than the reader's bound and was dropped.
    TooLong,
}

/// Reads lines.
#[derive(Debug)]
pub struct LineReader<R> {
    stream: R,
    most: usize,
    line: Vec<u8>,
    skipping: bool,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    /// Reads lines of at most [`MAX_LINE`] bytes from `stream`.
    pub fn new(stream: R) -> Self {
        Self::with_longest(stream, MAX_LINE)
    }

    /// Reads lines of at most `most` bytes from `stream`.
    pub fn with_longest(stream: R, most: usize) -> Self {
        Self { stream, most, line: Vec::new(), skipping: false }
    }

    /// Returns the next line; `None` at the end of the stream. Safe to drop and call again.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.stream.fill_buf().await?;
            if available.is_empty() {
                // A line without an end was cut off in the middle, so it is dropped.
                return Ok(None);
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if !self.skipping {
                self.line.extend_from_slice(&available[..end.unwrap_or(available.len())]);
            }
            self.stream.consume(taken);
            if self.line.len() > self.most {
                self.skipping = true;
                self.line = Vec::new();
            }
            if end.is_some() {
                if std::mem::take(&mut self.skipping) {
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
    async fn a_line_that_is_too_long_is_reported_and_the_next_one_is_read() {
        let bytes: &[u8] = b"short\nthis one is far too long\n\nlast\ncut off";
        let mut reader = LineReader::with_longest(bytes, 10);
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
