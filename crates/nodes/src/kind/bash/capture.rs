//! Captured output of one stream of a program: complete up to [`MAX_OUTPUT_BYTES`], otherwise its beginning and end.

use std::collections::VecDeque;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::outcome::MAX_OUTPUT_BYTES;

/// Bytes kept from the beginning, and from the end.
const HEAD_BYTES: usize = MAX_OUTPUT_BYTES / 2;
const TAIL_BYTES: usize = MAX_OUTPUT_BYTES - HEAD_BYTES;

/// The output of one stream of a program so far.
#[derive(Debug)]
pub(super) struct Capture {
    stream: Option<Receiver>,
    kept: CapturedOutput,
}

/// The text of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CapturedText {
    /// All of it.
    Whole(String),
    /// Its beginning and its end, and how many bytes lie between them.
    Ends { head: String, tail: String, left_out: u64 },
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
    left_out: u64,
}

impl Capture {
    pub(super) fn new(stream: Option<Receiver>) -> Self {
        Self { stream, kept: CapturedOutput::default() }
    }

    /// Reads until the stream ends. Cancel-safe: a cancelled read keeps its bytes, and the next one continues.
    pub(super) async fn read(&mut self) {
        let mut buffer = vec![0; 16 << 10];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => self.stream = None,
                Ok(count) => self.kept.push(&buffer[..count]),
            }
        }
    }

    /// Returns the captured output.
    pub(super) fn text(&self) -> CapturedText {
        self.kept.text()
    }
}

impl CapturedOutput {
    fn push(&mut self, bytes: &[u8]) {
        let room = (HEAD_BYTES - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    fn text(&self) -> CapturedText {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            return CapturedText::Whole(String::from_utf8_lossy(&[&self.head[..], &tail[..]].concat()).into_owned());
        }
        // Characters cut in two count as omitted.
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&tail);
        let cut = |character| character == char::REPLACEMENT_CHARACTER;
        let (head, tail) = (head.trim_end_matches(cut), tail.trim_start_matches(cut));
        CapturedText::Ends { head: head.to_owned(), tail: tail.to_owned(), left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept_and_what_lies_between_is_counted() {
        let mut kept = CapturedOutput::default();
        let all: Vec<u8> =
            (0..HEAD_BYTES + TAIL_BYTES + 3000).map(|index| b'a' + u8::try_from(index % 26).unwrap()).collect();
        for piece in all.chunks(1777) {
            kept.push(piece);
        }
        assert_eq!(kept.left_out, 3000);
        assert_eq!(kept.head, all[..HEAD_BYTES]);
        assert_eq!(kept.tail, &all[HEAD_BYTES + 3000..]);
        assert!(matches!(kept.text(), CapturedText::Ends { left_out: 3000, .. }));
    }

    #[test]
    fn a_character_across_head_and_tail_stays_whole_where_nothing_is_left_out() {
        let mut kept = CapturedOutput::default();
        kept.push(&vec![b'x'; HEAD_BYTES - 1]);
        kept.push("é!".as_bytes());
        assert!(matches!(kept.text(), CapturedText::Whole(text) if text.ends_with("xé!")));
    }
}
