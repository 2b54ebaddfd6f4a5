//! Lines typed while the terminal's echo was off (passwords), for redaction in output.
//!
//! A program that reads a password switches the echo off and still reads whole lines (sudo, ssh,
//! `read -s`, getpass). This module notes each line typed then as a secret, and components that
//! return text hide it. Line editors switch the echo off too, but read key by key, and are not
//! meant.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steplatch_ids::TerminalId;
use tokio::sync::broadcast;

/// Maximum length of a collected line, as the kernel's own limit (termios(3), canonical mode).
const MAX_LINE_BYTES: usize = 4096;

/// A text to hide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretText {
    /// The terminal in whose text to hide it; none to hide it everywhere.
    pub terminal: Option<TerminalId>,
    /// The text.
    pub text: String,
}

/// The lines typed unseen in all terminals of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HiddenInputLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lines: Mutex<Vec<SecretText>>,
    news: broadcast::Sender<SecretText>,
}

/// Maximum number of remembered texts; the oldest is forgotten first.
const MAX_TEXTS: usize = 1000;

impl Default for HiddenInputLog {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { lines: Mutex::default(), news: broadcast::Sender::new(64) }) }
    }
}

impl HiddenInputLog {
    /// Records a text to hide, and announces it to followers unless it is known already.
    pub fn record_text(&self, hidden: SecretText) {
        let mut lines = self.shared.lines.lock();
        if hidden.text.is_empty() || lines.contains(&hidden) {
            return;
        }
        if lines.len() == MAX_TEXTS {
            lines.remove(0);
        }
        lines.push(hidden.clone());
        // Sent under the lock, so that no follower receives it before readers can see it. There may be no follower.
        let _ = self.shared.news.send(hidden);
    }

    /// Forgets the lines typed in a closed terminal: its text is no longer readable.
    pub(crate) fn forget(&self, terminal: &TerminalId) {
        let mut lines = self.shared.lines.lock();
        lines.retain(|hidden| hidden.terminal.as_ref() != Some(terminal));
    }

    /// Returns all texts noted so far, and a receiver of new ones.
    #[must_use]
    pub fn follow(&self) -> (Vec<SecretText>, broadcast::Receiver<SecretText>) {
        let lines = self.shared.lines.lock();
        (lines.clone(), self.shared.news.subscribe())
    }
}

/// The line in progress, typed unseen, as its program will receive it.
#[derive(Debug, Default)]
pub(crate) struct HiddenLine {
    bytes: Vec<u8>,
    /// The next key is not a key but a character.
    literal: bool,
}

impl HiddenLine {
    /// Takes in what a client types in `terminal` while it echoes nothing; gives every finished line to `hidden_log`.
    pub(crate) fn take_in(&mut self, typed: &[u8], terminal: &TerminalId, hidden_log: &HiddenInputLog) {
        for &byte in typed {
            if std::mem::take(&mut self.literal) {
                self.push(byte);
                continue;
            }
            match byte {
                // The end of the line, or of the input (VEOF).
                b'\r' | b'\n' | 0x04 => self.finish(terminal, hidden_log),
                // Erase a character, a word, or the line, and take the next key as it is: the terminal's own keys,
                // unless a program changed them (VERASE, VWERASE, VKILL, VINTR, VLNEXT).
                0x7f | 0x08 => self.erase(),
                0x17 => self.erase_word(),
                0x15 | 0x03 => self.bytes.clear(),
                0x16 => self.literal = true,
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
        let word = text.trim_end().trim_end_matches(|character: char| character.is_alphanumeric() || character == '_');
        // A word of other characters goes as a whole too, as the terminal has it.
        let kept = if word.len() == text.trim_end().len() {
            word.trim_end_matches(|character: char| !character.is_whitespace())
        } else {
            word
        };
        self.bytes.truncate(kept.len().min(self.bytes.len()));
    }

    fn erase(&mut self) {
        while let Some(byte) = self.bytes.pop() {
            // A character of UTF-8 goes with all of its bytes.
            if byte & 0xc0 != 0x80 {
                break;
            }
        }
    }

    /// Ends the line: a key ends it, or the program shows typed text again. The text typed until then is a secret.
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

    fn noted(typed: &[&[u8]]) -> Vec<String> {
        let (hidden_log, mut line, terminal) = (HiddenInputLog::default(), HiddenLine::default(), TerminalId::random());
        for part in typed {
            line.take_in(part, &terminal, &hidden_log);
        }
        hidden_log.follow().0.into_iter().map(|hidden| hidden.text).collect()
    }

    #[test]
    fn lines_are_noted_as_their_program_gets_them() {
        assert_eq!(noted(&[b"hun", b"ter2\r", b"other\n"]), ["hunter2", "other"]);
        assert_eq!(noted(&[b"hunx\x7fter2\r"]), ["hunter2"]);
        assert_eq!(noted(&["wrongé\x7f\x15right\r".as_bytes()]), ["right"]);
        assert_eq!(noted(&[b"wrong word\x17RightPass1\r"]), ["wrong RightPass1"]);
        assert_eq!(noted(&[b"ended\x04", b"a\x16\x17b\r"]), ["ended", "a\x17b"]);
        assert_eq!(noted(&[b"unfinished"]), [""; 0]);
        assert_eq!(noted(&[b"\r\r"]), [""; 0]);
    }

    #[test]
    fn who_follows_hears_of_each_once() {
        let hidden_log = HiddenInputLog::default();
        let hidden = |text: &str| SecretText { terminal: None, text: text.to_owned() };
        hidden_log.record_text(hidden("one"));
        let (known, mut news) = hidden_log.follow();
        hidden_log.record_text(hidden("one"));
        hidden_log.record_text(hidden("two"));
        assert_eq!((known, news.try_recv().unwrap()), (vec![hidden("one")], hidden("two")));
        assert!(news.try_recv().is_err());
    }
}
