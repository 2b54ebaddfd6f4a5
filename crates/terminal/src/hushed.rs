//! Lines that were typed while nothing was echoed.
//!
//! A program that reads a password switches the echo off and still reads whole
//! lines (sudo, ssh, `read -s`, getpass). What is typed then is meant for nobody's
//! eyes, so each such line is noted here, for whoever returns text to hide. Line
//! editors switch the echo off too, but read key by key, and are not meant.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

/// The longest line that is collected, as the kernel's own limit (termios(3), canonical mode).
const LONGEST: usize = 4096;

/// The lines typed unseen in all terminals of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hushed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    lines: Mutex<Vec<String>>,
    news: broadcast::Sender<String>,
}

/// How many are remembered; the oldest is forgotten first.
const MOST: usize = 1000;

impl Default for Hushed {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { lines: Mutex::default(), news: broadcast::Sender::new(64) }) }
    }
}

impl Hushed {
    /// Notes a text that must not be seen; one that is known already is not told again.
    pub fn note(&self, line: &str) {
        if line.is_empty() {
            return;
        }
        let mut lines = self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.iter().any(|known| known == line) {
            return;
        }
        if lines.len() == MOST {
            lines.remove(0);
        }
        lines.push(line.to_owned());
        // Sent under the lock, so that nobody hears of it before it can be read. Nobody may be listening.
        let _ = self.shared.news.send(line.to_owned());
    }

    /// Returns everything noted so far, and what is noted from then on.
    #[must_use]
    pub fn follow(&self) -> (Vec<String>, broadcast::Receiver<String>) {
        let lines = self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
        (lines.clone(), self.shared.news.subscribe())
    }
}

/// The line that is being typed unseen, as its program will get it.
#[derive(Debug, Default)]
pub(crate) struct HushedLine {
    bytes: Vec<u8>,
}

impl HushedLine {
    /// Takes in what is typed while nothing is echoed; gives every finished line to `hushed`.
    pub(crate) fn take_in(&mut self, typed: &[u8], hushed: &Hushed) {
        for &byte in typed {
            match byte {
                b'\r' | b'\n' => self.finish(hushed),
                // Erase one character, or the line, as the terminal itself does by default.
                0x7f | 0x08 => self.erase(),
                0x15 | 0x03 => self.bytes.clear(),
                _ if self.bytes.len() < LONGEST => self.bytes.push(byte),
                _ => {}
            }
        }
    }

    fn erase(&mut self) {
        while let Some(byte) = self.bytes.pop() {
            // A character of UTF-8 goes with all of its bytes.
            if byte & 0xc0 != 0x80 {
                break;
            }
        }
    }

    fn finish(&mut self, hushed: &Hushed) {
        hushed.note(&String::from_utf8_lossy(&self.bytes));
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(typed: &[&[u8]]) -> Vec<String> {
        let (hushed, mut line) = (Hushed::default(), HushedLine::default());
        for part in typed {
            line.take_in(part, &hushed);
        }
        hushed.follow().0
    }

    #[test]
    fn lines_are_noted_as_their_program_gets_them() {
        assert_eq!(noted(&[b"hun", b"ter2\r", b"other\n"]), ["hunter2", "other"]);
        assert_eq!(noted(&[b"hunx\x7fter2\r"]), ["hunter2"]);
        assert_eq!(noted(&["wrongé\x7f\x15right\r".as_bytes()]), ["right"]);
        assert_eq!(noted(&[b"unfinished"]), [""; 0]);
        assert_eq!(noted(&[b"\r\r"]), [""; 0]);
    }

    #[test]
    fn who_follows_hears_of_each_once() {
        let hushed = Hushed::default();
        hushed.note("one");
        let (known, mut news) = hushed.follow();
        hushed.note("one");
        hushed.note("two");
        assert_eq!((known, news.try_recv().unwrap()), (vec!["one".to_owned()], "two".to_owned()));
        assert!(news.try_recv().is_err());
    }
}
