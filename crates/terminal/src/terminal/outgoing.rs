//! Input that the kernel has not taken yet, in order, with a pause behind each escape key.
//!
//! A terminal sends Alt-Q as the bytes of Escape and Q. A program therefore takes a
//! byte that follows Escape at once for a part of the same key, and decides by time:
//! ncurses waits `ESCDELAY`, vim `ttimeoutlen`, most programs 20 to 50 ms. A person
//! never types that fast; keys that are sent in one request do.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long nothing follows a lone escape byte: longer than most programs wait for the rest of a key.
const ESCAPE_PAUSE: Duration = Duration::from_millis(60);

/// The bytes of one input.
#[derive(Debug, Default)]
pub(super) struct Keystrokes {
    pub(super) bytes: Vec<u8>,
    /// How many bytes there are up to the end of each key that ends in a lone escape byte, ascending.
    escapes: Vec<usize>,
}

impl Keystrokes {
    /// Appends text, whose escape bytes belong to what follows them.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
    }

    /// Appends the bytes of one key.
    pub(super) fn key(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        if key.last() == Some(&0x1b) {
            self.escapes.push(self.bytes.len());
        }
    }
}

/// The queue of one terminal.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: VecDeque<u8>,
    /// Bytes that were ever handed to the kernel.
    written: u64,
    /// Bytes that will have been written when a pause begins, ascending.
    pauses: VecDeque<u64>,
    paused_until: Option<Instant>,
}

impl Outgoing {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns how many bytes were ever handed to the kernel.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Appends what was typed.
    pub(super) fn type_in(&mut self, typed: &Keystrokes) {
        let before = self.written + self.bytes.len() as u64;
        self.pauses.extend(typed.escapes.iter().map(|upto| before + *upto as u64));
        self.bytes.extend(&typed.bytes);
    }

    /// Returns when the rest can be written, if a pause holds it back.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.paused_until.filter(|_| !self.is_empty())
    }

    /// Returns how long pauses delay the last byte of the queue from `now` on, when the kernel takes all at once.
    pub(super) fn delay(&self, now: Instant) -> Duration {
        let end = self.written + self.bytes.len() as u64;
        let begun = self.held_until().map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let to_come = self.pauses.iter().filter(|pause| **pause < end).count();
        begun + ESCAPE_PAUSE * u32::try_from(to_come).unwrap_or(u32::MAX)
    }

    /// Returns the next bytes to write: none while a pause lasts.
    pub(super) fn due(&mut self, now: Instant) -> &[u8] {
        if self.paused_until.is_some_and(|until| now < until) {
            return &[];
        }
        self.paused_until = None;
        let (front, _) = self.bytes.as_slices();
        let before_pause = self.pauses.front().and_then(|pause| usize::try_from(pause - self.written).ok());
        &front[..front.len().min(before_pause.unwrap_or(usize::MAX))]
    }

    /// Notes that the kernel took the first `count` bytes of [`Self::due`].
    pub(super) fn advance(&mut self, count: usize, now: Instant) {
        self.bytes.drain(..count);
        self.written += count as u64;
        while self.pauses.front().is_some_and(|pause| *pause <= self.written) {
            self.pauses.pop_front();
            self.paused_until = Some(now + ESCAPE_PAUSE);
        }
    }

    /// Drops what was not written: the program can no longer read it.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pauses.clear();
        self.paused_until = None;
    }
}

/// Appends bytes without a pause.
impl Extend<u8> for Outgoing {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        self.bytes.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes all that is due, and returns it.
    fn written(outgoing: &mut Outgoing, now: Instant) -> Vec<u8> {
        let mut written = Vec::new();
        loop {
            let due = outgoing.due(now).to_vec();
            if due.is_empty() {
                return written;
            }
            // The kernel may take less than it is offered.
            let count = due.len().min(3);
            written.extend_from_slice(&due[..count]);
            outgoing.advance(count, now);
        }
    }

    fn typed(keys: &[&[u8]]) -> Keystrokes {
        let mut typed = Keystrokes::default();
        keys.iter().for_each(|key| typed.key(key));
        typed
    }

    #[test]
    fn what_follows_an_escape_key_waits() {
        let (mut outgoing, start) = (Outgoing::default(), Instant::now());
        outgoing.type_in(&typed(&[b"hello", b"\x1b", b"q", b"\x1b\x1b", b"x"]));
        assert_eq!(outgoing.delay(start), 2 * ESCAPE_PAUSE);
        assert_eq!(written(&mut outgoing, start), b"hello\x1b");
        assert_eq!(outgoing.held_until(), Some(start + ESCAPE_PAUSE));
        assert_eq!(written(&mut outgoing, start + ESCAPE_PAUSE / 2), b"");
        assert_eq!(outgoing.delay(start + ESCAPE_PAUSE / 2), ESCAPE_PAUSE * 3 / 2);
        let later = start + ESCAPE_PAUSE;
        assert_eq!(written(&mut outgoing, later), b"q\x1b\x1b");
        assert_eq!(written(&mut outgoing, later + ESCAPE_PAUSE), b"x");
        assert_eq!((outgoing.written(), outgoing.held_until()), (10, None));
    }

    #[test]
    fn a_pause_reaches_into_the_next_input_and_holds_nothing_up_when_none_comes() {
        let (mut outgoing, start) = (Outgoing::default(), Instant::now());
        outgoing.type_in(&typed(&[b"\x1b"]));
        assert_eq!(written(&mut outgoing, start), b"\x1b");
        assert_eq!((outgoing.held_until(), outgoing.delay(start)), (None, Duration::ZERO));
        outgoing.type_in(&typed(&[b"q"]));
        assert_eq!(written(&mut outgoing, start), b"");
        assert_eq!(written(&mut outgoing, start + ESCAPE_PAUSE), b"q");
    }

    #[test]
    fn sequences_and_text_are_written_at_once() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        let mut keystrokes = Keystrokes::default();
        keystrokes.text(b"\x1b[200~\x1b");
        keystrokes.key(b"\x1b[A");
        keystrokes.key(b"\x1bq");
        outgoing.type_in(&keystrokes);
        outgoing.extend(*b"\x1b[c");
        assert_eq!(written(&mut outgoing, now), b"\x1b[200~\x1b\x1b[A\x1bq\x1b[c");
    }

    #[test]
    fn nothing_waits_once_it_is_cleared() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        outgoing.type_in(&typed(&[b"\x1b", b"q", b"\x1b"]));
        assert_eq!(written(&mut outgoing, now), b"\x1b");
        outgoing.clear();
        outgoing.extend(*b"abc");
        assert_eq!(written(&mut outgoing, now), b"abc");
    }
}
