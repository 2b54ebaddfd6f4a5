//! Lines typed while the terminal's echo was off (passwords), for redaction in output.
//!
//! A program that reads a password switches the echo off and still reads whole lines (sudo, ssh, `read -s`, getpass).
//! This module records each such line as a secret, and components that return text hide it. Line editors also switch
//! the echo off, but read key by key; their lines are not secrets.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steplatch_ids::TerminalId;
use tokio::sync::broadcast;

/// Maximum length of a collected line, in bytes: the kernel's limit (termios(3), canonical mode).
const MAX_LINE_BYTES: usize = 4096;

/// A secret to hide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretText {
    /// The terminal whose output hides the secret; `None` for all terminals.
    pub terminal: Option<TerminalId>,
    /// The text.
    pub text: String,
}

/// The lines typed without echo in all terminals of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HiddenInputLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lines: Mutex<Vec<SecretText>>,
    new_texts: broadcast::Sender<SecretText>,
}

/// Maximum number of stored texts. A new text replaces the oldest.
const MAX_TEXTS: usize = 1000;

impl Default for HiddenInputLog {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { lines: Mutex::default(), new_texts: broadcast::Sender::new(64) }) }
    }
}

impl HiddenInputLog {
    /// Records a text to hide and sends it to followers, unless it is already stored.
    pub fn record_text(&self, hidden: SecretText) {
        let mut lines = self.shared.lines.lock();
        if hidden.text.is_empty() || lines.contains(&hidden) {
            return;
        }
        if lines.len() == MAX_TEXTS {
            lines.remove(0);
        }
        lines.push(hidden.clone());
        // Send under the lock, because a new follower gets the text from the list or the channel, not both. Ignore the
        // error, because there may be no follower.
        let _ = self.shared.new_texts.send(hidden);
    }

    /// Forgets the lines typed in a closed terminal: its text is no longer readable.
    pub(crate) fn forget(&self, terminal: &TerminalId) {
        let mut lines = self.shared.lines.lock();
        lines.retain(|hidden| hidden.terminal.as_ref() != Some(terminal));
    }

    /// Returns all stored texts, and a receiver of new texts.
    #[must_use]
    pub fn follow(&self) -> (Vec<SecretText>, broadcast::Receiver<SecretText>) {
        let lines = self.shared.lines.lock();
        (lines.clone(), self.shared.new_texts.subscribe())
    }
}

/// The line being typed without echo, as the program will receive it.
#[derive(Debug, Default)]
pub(crate) struct HiddenLine {
    bytes: Vec<u8>,
    /// True if the next key is text, even if it is an editing key.
    next_is_literal: bool,
}

impl HiddenLine {
    /// Takes in the bytes typed in `terminal` while its echo is off and records each finished line in `hidden_log`.
    pub(crate) fn take_in(&mut self, typed: &[u8], terminal: &TerminalId, hidden_log: &HiddenInputLog) {
        for &byte in typed {
            if std::mem::take(&mut self.next_is_literal) {
                self.push(byte);
                continue;
            }
            match byte {
                // The end of the line, or of the input (VEOF).
                b'\r' | b'\n' | 0x04 => self.finish(terminal, hidden_log),
                // The terminal's default editing keys erase a character, a word or the line, or quote the next key
                // (VERASE, VWERASE, VKILL, VINTR, VLNEXT). A program may have changed them.
                0x7f | 0x08 => self.erase(),
                0x17 => self.erase_word(),
                0x15 | 0x03 => self.bytes.clear(),
                0x16 => self.next_is_literal = true,
                byte => self.push(byte),
            }
        }
    }

    fn push(&mut self, byte: u8) {
        if self.bytes.len() < MAX_LINE_BYTES {
            self.bytes.push(byte);
        }
    }

    fn erase_word(&mut self) {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let before_word =
            text.trim_end().trim_end_matches(|character: char| character.is_alphanumeric() || character == '_');
        // Like the terminal, erase a word of other characters as a whole.
        let remaining = if before_word.len() == text.trim_end().len() {
            before_word.trim_end_matches(|character: char| !character.is_whitespace())
        } else {
            before_word
        };
        self.bytes.truncate(remaining.len().min(self.bytes.len()));
    }

    fn erase(&mut self) {
        while let Some(byte) = self.bytes.pop() {
            // Remove all bytes of a UTF-8 character.
            if byte & 0xc0 != 0x80 {
                break;
            }
        }
    }

    /// Records the line as a secret, at a key that ends it or when the program switches the echo on.
    pub(crate) fn finish(&mut self, terminal: &TerminalId, hidden_log: &HiddenInputLog) {
        if !self.bytes.is_empty() {
            let text = String::from_utf8_lossy(&self.bytes).into_owned();
            hidden_log.record_text(SecretText { terminal: Some(terminal.clone()), text });
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded_lines(typed: &[&[u8]]) -> Vec<String> {
        let (hidden_log, mut line, terminal) = (HiddenInputLog::default(), HiddenLine::default(), TerminalId::random());
        for part in typed {
            line.take_in(part, &terminal, &hidden_log);
        }
        hidden_log.follow().0.into_iter().map(|hidden| hidden.text).collect()
    }

    #[test]
    fn lines_are_recorded_as_received_by_the_program() {
        assert_eq!(recorded_lines(&[b"hun", b"ter2\r", b"other\n"]), ["hunter2", "other"]);
        assert_eq!(recorded_lines(&[b"hunx\x7fter2\r"]), ["hunter2"]);
        assert_eq!(recorded_lines(&["wrongé\x7f\x15right\r".as_bytes()]), ["right"]);
        assert_eq!(recorded_lines(&[b"wrong word\x17RightPass1\r"]), ["wrong RightPass1"]);
        assert_eq!(recorded_lines(&[b"ended\x04", b"a\x16\x17b\r"]), ["ended", "a\x17b"]);
        assert_eq!(recorded_lines(&[b"unfinished"]), [""; 0]);
        assert_eq!(recorded_lines(&[b"\r\r"]), [""; 0]);
    }

    #[test]
    fn follower_receives_each_line_once() {
        let hidden_log = HiddenInputLog::default();
        let hidden = |text: &str| SecretText { terminal: None, text: text.to_owned() };
        hidden_log.record_text(hidden("one"));
        let (known, mut new_texts) = hidden_log.follow();
        hidden_log.record_text(hidden("one"));
        hidden_log.record_text(hidden("two"));
        assert_eq!((known, new_texts.try_recv().unwrap()), (vec![hidden("one")], hidden("two")));
        assert!(new_texts.try_recv().is_err());
    }
}
