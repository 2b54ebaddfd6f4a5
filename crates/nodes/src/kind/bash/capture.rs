//! Captured output of one stream of a program: complete up to [`MAX_OUTPUT_BYTES`], otherwise its head and tail.

use std::collections::VecDeque;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::outcome::MAX_OUTPUT_BYTES;

/// Number of bytes kept from the beginning.
const HEAD_BYTES: usize = MAX_OUTPUT_BYTES / 2;

/// Number of bytes kept from the end.
const TAIL_BYTES: usize = MAX_OUTPUT_BYTES - HEAD_BYTES;

/// The output of one stream of a program so far.
#[derive(Debug)]
pub(super) struct Capture {
    stream: Option<Receiver>,
    captured: CapturedOutput,
}

/// The text of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CapturedText {
    /// The complete output.
    Whole(String),
    /// The head and the tail, with the number of omitted bytes.
    Ends { head: String, tail: String, omitted_bytes: u64 },
}

impl CapturedText {
    /// Returns the last line that is not empty, for an error.
    pub(super) fn last_line(&self) -> Option<String> {
        let (Self::Whole(text) | Self::Ends { tail: text, .. }) = self;
        super::last_line(text).map(|line| line.chars().take(500).collect())
    }
}

#[derive(Debug, Default)]
struct CapturedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
}

impl Capture {
    pub(super) fn new(stream: Option<Receiver>) -> Self {
        Self { stream, captured: CapturedOutput::default() }
    }

    /// Reads until the stream ends. Cancel-safe: a cancelled read keeps its bytes, and the next one continues.
    pub(super) async fn read(&mut self) {
        let mut buffer = vec![0; 16 << 10];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => self.stream = None,
                Ok(count) => self.captured.push(&buffer[..count]),
            }
        }
    }

    /// Returns the captured output.
    pub(super) fn text(&self) -> CapturedText {
        self.captured.text()
    }
}

impl CapturedOutput {
    fn push(&mut self, bytes: &[u8]) {
        let head_room = (HEAD_BYTES - self.head.len()).min(bytes.len());
        let (first, tail_bytes) = bytes.split_at(head_room);
        self.head.extend_from_slice(first);
        self.tail.extend(tail_bytes);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.omitted_bytes += excess as u64;
    }

    fn text(&self) -> CapturedText {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.omitted_bytes == 0 {
            return CapturedText::Whole(String::from_utf8_lossy(&[&self.head[..], &tail[..]].concat()).into_owned());
        }
        // Drop characters that were cut in two.
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&tail);
        let is_cut_char = |character| character == char::REPLACEMENT_CHARACTER;
        let (head, tail) = (head.trim_end_matches(is_cut_char), tail.trim_start_matches(is_cut_char));
        CapturedText::Ends { head: head.to_owned(), tail: tail.to_owned(), omitted_bytes: self.omitted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_head_and_tail_and_counts_the_middle() {
        let mut captured = CapturedOutput::default();
        let all: Vec<u8> =
            (0..HEAD_BYTES + TAIL_BYTES + 3000).map(|index| b'a' + u8::try_from(index % 26).unwrap()).collect();
        for piece in all.chunks(1777) {
            captured.push(piece);
        }
        assert_eq!(captured.omitted_bytes, 3000);
        assert_eq!(captured.head, all[..HEAD_BYTES]);
        assert_eq!(captured.tail, &all[HEAD_BYTES + 3000..]);
        assert!(matches!(captured.text(), CapturedText::Ends { omitted_bytes: 3000, .. }));
    }

    #[test]
    fn character_split_between_head_and_tail_stays_whole() {
        let mut captured = CapturedOutput::default();
        captured.push(&vec![b'x'; HEAD_BYTES - 1]);
        captured.push("é!".as_bytes());
        assert!(matches!(captured.text(), CapturedText::Whole(text) if text.ends_with("xé!")));
    }
}
