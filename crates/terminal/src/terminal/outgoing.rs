//! Queue of input for the kernel, with pauses until a program has read the preceding bytes.
//!
//! **Escape keys.** A terminal sends Alt-Q as the bytes of Escape and Q. So a program treats a byte shortly after
//! Escape as part of the same key: vim waits 100 ms (`ttimeoutlen`), Node, readline and `prompt_toolkit` 500 ms,
//! ncurses 1,000 ms (`ESCDELAY`). A person does not type that fast, but the keys of one request follow at once. The
//! pause ends early if the program responds to the escape key.
//!
//! **Lines typed ahead.** When a program switches to canonical mode, the kernel joins all unread input to one line. So
//! a line after Enter at a line editor waits until the editor has released the terminal, or reads again.
//!
//! **Signals.** The kernel holds one pending signal of a kind for a program, and drops the next one. So a key that
//! sends the same signal again waits.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Maximum pause after a lone escape byte: longer than programs wait for the rest of a key.
const MAX_ESCAPE_PAUSE: Duration = Duration::from_millis(1050);

/// Minimum pause after a lone escape byte if the program responds to it.
const MIN_ESCAPE_PAUSE: Duration = Duration::from_millis(150);

/// Maximum delay of the echo of the preceding keys after a lone escape byte.
const ECHO_TIME: Duration = Duration::from_millis(60);

/// Minimum silence after the response to an escape key; it ends the pause.
const ANSWER_SILENCE: Duration = Duration::from_millis(60);

/// Pause after a lone escape byte for programs that wait 500 ms for the rest of a key.
const READLINE_ESCAPE_PAUSE: Duration = Duration::from_millis(550);

/// Maximum pause after the end of a line.
const MAX_LINE_PAUSE: Duration = Duration::from_millis(300);

/// Maximum pause after the end of a line while the reader is busy. On a busy machine, the reader reads the line late.
const MAX_BUSY_LINE_PAUSE: Duration = Duration::from_secs(5);

/// Pause between two keys that send the same signal. Shells handle a signal between two commands.
const SIGNAL_PAUSE: Duration = Duration::from_millis(150);

/// Silence after the response of a line editor to Enter. After it, the editor reads the next line.
const LINE_SILENCE: Duration = Duration::from_millis(30);

/// Names of programs, or of their main threads, that wait 500 ms for the rest of a key: readline (`keyseq-timeout`),
/// zsh (`KEYTIMEOUT`), Node (`escapeCodeTimeout`), and `prompt_toolkit` (`ttimeoutlen`).
const READLINE_PROGRAMS: &[&str] =
    &["MainThread", "bash", "bun", "deno", "ipython", "node", "python", "python3", "zsh"];

/// The reader of an escape key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapeReader {
    /// The program waits for the rest of a key like readline, regardless of its output.
    Readline,
    /// The program also prints without input, so output is not a response.
    Noisy,
    /// The program prints only after input, so output is a response.
    Quiet,
}

impl EscapeReader {
    /// Returns the reader for a foreground program. `is_noisy` is true if the program has printed output other than an
    /// echo.
    pub(super) fn from_program_name(name: Option<&str>, is_noisy: bool) -> Self {
        match name {
            Some(name) if READLINE_PROGRAMS.contains(&name) => Self::Readline,
            _ if is_noisy => Self::Noisy,
            _ => Self::Quiet,
        }
    }
}

/// A key with a pause after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PausedKey {
    /// A key that ends in a lone escape byte.
    Escape,
    /// Enter at a line editor, with another line after it.
    Enter,
    /// A key that sends a signal, with another key after it that sends the same signal.
    Signal,
}

/// The reader of a key with a pause after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseReader {
    Escape(EscapeReader),
    /// A line editor that reads a line.
    LineEditor,
    /// A program that handles a signal.
    SignalHandler,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    since: Instant,
    until: Instant,
    reader: PauseReader,
}

/// The bytes of one input.
#[derive(Debug, Default)]
pub(super) struct Keystrokes {
    pub(super) bytes: Vec<u8>,
    /// End of each key with a pause after it, in bytes, ascending.
    pauses: Vec<(usize, PausedKey)>,
}

impl Keystrokes {
    /// Appends text. Escape bytes in the text belong to the bytes after them, and so cause no pause.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
    }

    /// Appends the bytes of one key.
    pub(super) fn key(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        if key.last() == Some(&0x1b) {
            self.pauses.push((self.bytes.len(), PausedKey::Escape));
        }
    }

    /// Returns whether Enter is among the keys.
    pub(super) fn ends_line(&self) -> bool {
        self.bytes.contains(&b'\r')
    }

    /// Returns whether text follows the end of a line.
    pub(super) fn has_lines_ahead(&self) -> bool {
        self.bytes.iter().position(|byte| *byte == b'\r').is_some_and(|end| end + 1 < self.bytes.len())
    }

    /// Adds a pause after each Enter with a following line, for a line editor.
    ///
    /// With `keeps_returns`, replaces each Enter by a line feed, because line editors accept both. Otherwise, a program
    /// that the editor starts might read a carriage return in its line.
    pub(super) fn pause_between_lines(&mut self, keeps_returns: bool) {
        let length = self.bytes.len();
        let ends = self.bytes.iter_mut().enumerate().filter(|(_, byte)| **byte == b'\r');
        for (index, byte) in ends {
            if keeps_returns {
                *byte = b'\n';
            }
            if index + 1 < length {
                self.pauses.push((index + 1, PausedKey::Enter));
            }
        }
        self.pauses.sort_by_key(|(key_end, _)| *key_end);
    }

    /// Adds a pause after each character that sends a signal, if the same character follows later.
    pub(super) fn pause_between_signals(&mut self, characters: &[u8]) {
        for (index, byte) in self.bytes.iter().enumerate() {
            if *byte != 0 && characters.contains(byte) && self.bytes[index + 1..].contains(byte) {
                self.pauses.push((index + 1, PausedKey::Signal));
            }
        }
        self.pauses.sort_by_key(|(key_end, _)| *key_end);
    }
}

/// The queue of one terminal.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: VecDeque<u8>,
    /// Total number of bytes written to the kernel.
    written: u64,
    /// Positions of the pauses as values of `written`, ascending.
    pauses: VecDeque<(u64, PausedKey)>,
    pause: Option<Pause>,
}

impl Outgoing {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the total number of bytes written to the kernel.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Appends the typed keys.
    pub(super) fn type_in(&mut self, typed: &Keystrokes) {
        let queue_end = self.written + self.bytes.len() as u64;
        self.pauses.extend(typed.pauses.iter().map(|(key_end, key)| (queue_end + *key_end as u64, *key)));
        self.bytes.extend(&typed.bytes);
    }

    /// Returns the end of the current pause, if it holds bytes back.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.pause.map(|pause| pause.until).filter(|_| !self.is_empty())
    }

    /// Returns the maximum delay of the last byte in the queue after `now` due to pauses, if the kernel accepts all
    /// bytes and line editors are not busy.
    pub(super) fn delay(&self, now: Instant) -> Duration {
        let end = self.written + self.bytes.len() as u64;
        let current_pause = self.held_until().map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let queued_pauses = self.pauses.iter().filter(|(key_end, _)| *key_end < end).map(|(_, key)| match key {
            PausedKey::Escape => MAX_ESCAPE_PAUSE,
            PausedKey::Enter => MAX_LINE_PAUSE,
            PausedKey::Signal => SIGNAL_PAUSE,
        });
        current_pause + queued_pauses.sum::<Duration>()
    }

    /// Returns the next bytes to write; none during a pause.
    pub(super) fn due(&mut self, now: Instant) -> &[u8] {
        if self.pause.is_some_and(|pause| now < pause.until) {
            return &[];
        }
        self.pause = None;
        let (first_slice, _) = self.bytes.as_slices();
        let before_pause = self.pauses.front().and_then(|(key_end, _)| usize::try_from(key_end - self.written).ok());
        &first_slice[..first_slice.len().min(before_pause.unwrap_or(usize::MAX))]
    }

    /// Records that the kernel accepted the first `count` bytes of [`Self::due`]. Returns the last key in them that
    /// requires a pause, see [`Self::begin_pause`].
    #[must_use]
    pub(super) fn advance(&mut self, count: usize) -> Option<PausedKey> {
        self.bytes.drain(..count);
        self.written += count as u64;
        let passed = self.pauses.iter().take_while(|(key_end, _)| *key_end <= self.written).count();
        self.pauses.drain(..passed).next_back().map(|(_, key)| key)
    }

    /// Begins a pause, until `reader` has read the preceding key.
    pub(super) fn begin_pause(&mut self, now: Instant, reader: PauseReader) {
        let pause = match reader {
            PauseReader::Escape(EscapeReader::Readline) => READLINE_ESCAPE_PAUSE,
            PauseReader::Escape(_) => MAX_ESCAPE_PAUSE,
            PauseReader::LineEditor => MAX_LINE_PAUSE,
            PauseReader::SignalHandler => SIGNAL_PAUSE,
        };
        self.pause = Some(Pause { since: now, until: now + pause, reader });
    }

    /// Returns whether a line waits until a line editor has read the preceding line.
    pub(super) fn awaits_line_editor(&self) -> bool {
        self.pause.is_some_and(|pause| pause.reader == PauseReader::LineEditor)
    }

    /// Returns whether the pause for a line editor ends now.
    pub(super) fn is_line_pause_over(&self, now: Instant) -> bool {
        let is_over = |pause: Pause| now >= pause.until && now < pause.since + MAX_BUSY_LINE_PAUSE;
        self.awaits_line_editor() && self.pause.is_some_and(is_over)
    }

    /// Extends the pause, because the line editor neither reads nor has released the terminal.
    pub(super) fn prolong_pause(&mut self, now: Instant) {
        if let Some(pause) = &mut self.pause {
            pause.until = now + LINE_SILENCE;
        }
    }

    /// Ends the pause, because the line editor has released the terminal.
    pub(super) fn end_pause(&mut self) {
        self.pause = None;
    }

    /// Records output of the program: possibly the response to the key before the pause.
    pub(super) fn record_output(&mut self, now: Instant) {
        let Some(Pause { since, until, reader }) = &mut self.pause else { return };
        match reader {
            PauseReader::Escape(EscapeReader::Quiet) if now >= *since + ECHO_TIME => {
                *until = (now + ANSWER_SILENCE).clamp(*since + MIN_ESCAPE_PAUSE, *since + MAX_ESCAPE_PAUSE);
            }
            PauseReader::LineEditor => *until = (now + LINE_SILENCE).min(*since + MAX_LINE_PAUSE),
            PauseReader::Escape(_) | PauseReader::SignalHandler => {}
        }
    }

    /// Drops the unwritten bytes, because the program can no longer read them.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pauses.clear();
        self.pause = None;
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

    /// Writes and returns all due bytes.
    fn write_due(outgoing: &mut Outgoing, now: Instant) -> Vec<u8> {
        let mut written = Vec::new();
        loop {
            let due = outgoing.due(now).to_vec();
            if due.is_empty() {
                return written;
            }
            // The kernel may accept less than offered.
            let count = due.len().min(3);
            written.extend_from_slice(&due[..count]);
            match outgoing.advance(count) {
                Some(PausedKey::Escape) => outgoing.begin_pause(now, PauseReader::Escape(EscapeReader::Quiet)),
                Some(PausedKey::Enter) => outgoing.begin_pause(now, PauseReader::LineEditor),
                Some(PausedKey::Signal) => outgoing.begin_pause(now, PauseReader::SignalHandler),
                None => {}
            }
        }
    }

    #[test]
    fn next_key_with_the_same_signal_waits() {
        let now = Instant::now();
        let (mut outgoing, mut keys) = (Outgoing::default(), Keystrokes::default());
        keys.text(b"a\x03b\x1c\x03\x03c");
        keys.pause_between_signals(&[0x03, 0x1c, 0x1a]);
        outgoing.type_in(&keys);
        assert_eq!(outgoing.delay(now), 2 * SIGNAL_PAUSE);
        for (count, expected) in [b"a\x03".as_slice(), b"b\x1c\x03", b"\x03c", b""].into_iter().enumerate() {
            assert_eq!(write_due(&mut outgoing, now + SIGNAL_PAUSE * count as u32), expected, "{count}");
        }
        let mut raw = Keystrokes::default();
        raw.text(b"\x03\x03\0\0");
        raw.pause_between_signals(&[0; 3]);
        assert!(raw.pauses.is_empty(), "a program without signal keys receives the characters");
    }

    fn typed(keys: &[&[u8]]) -> Keystrokes {
        let mut typed = Keystrokes::default();
        keys.iter().for_each(|key| typed.key(key));
        typed
    }

    #[test]
    fn input_after_an_escape_key_waits() {
        let (mut outgoing, start) = (Outgoing::default(), Instant::now());
        outgoing.type_in(&typed(&[b"hello", b"\x1b", b"q", b"\x1b\x1b", b"x"]));
        assert_eq!(outgoing.delay(start), 2 * MAX_ESCAPE_PAUSE);
        assert_eq!(write_due(&mut outgoing, start), b"hello\x1b");
        assert_eq!(outgoing.held_until(), Some(start + MAX_ESCAPE_PAUSE));
        assert_eq!(write_due(&mut outgoing, start + MAX_ESCAPE_PAUSE / 2), b"");
        assert_eq!(outgoing.delay(start + MAX_ESCAPE_PAUSE / 2), MAX_ESCAPE_PAUSE * 3 / 2);
        let later = start + MAX_ESCAPE_PAUSE;
        assert_eq!(write_due(&mut outgoing, later), b"q\x1b\x1b");
        assert_eq!(write_due(&mut outgoing, later + MAX_ESCAPE_PAUSE), b"x");
        assert_eq!((outgoing.written(), outgoing.held_until()), (10, None));
    }

    #[test]
    fn pause_extends_to_the_next_input_only() {
        let (mut outgoing, start) = (Outgoing::default(), Instant::now());
        outgoing.type_in(&typed(&[b"\x1b"]));
        assert_eq!(write_due(&mut outgoing, start), b"\x1b");
        assert_eq!((outgoing.held_until(), outgoing.delay(start)), (None, Duration::ZERO));
        outgoing.type_in(&typed(&[b"q"]));
        assert_eq!(write_due(&mut outgoing, start), b"");
        assert_eq!(write_due(&mut outgoing, start + MAX_ESCAPE_PAUSE), b"q");
    }

    #[test]
    fn line_waits_for_a_busy_editor_within_a_limit() {
        let (mut outgoing, start) = (Outgoing::default(), Instant::now());
        let mut lines = typed(&[b"cat", b"\r", b"one", b"\r"]);
        lines.pause_between_lines(false);
        outgoing.type_in(&lines);
        assert_eq!(write_due(&mut outgoing, start), b"cat\r");
        let mut now = start;
        while !outgoing.is_line_pause_over(now) {
            now += Duration::from_millis(10);
        }
        assert_eq!(now, start + MAX_LINE_PAUSE);
        while outgoing.is_line_pause_over(now) {
            outgoing.prolong_pause(now);
            assert_eq!(write_due(&mut outgoing, now), b"");
            now = outgoing.held_until().unwrap();
        }
        assert!(now >= start + MAX_BUSY_LINE_PAUSE, "{:?}", now - start);
        assert_eq!(write_due(&mut outgoing, now), b"one\r");
    }

    #[test]
    fn response_of_a_quiet_program_ends_the_pause_early() {
        let milliseconds = Duration::from_millis;
        let until = |reader, outputs: &[u64]| {
            let (mut outgoing, start) = (Outgoing::default(), Instant::now());
            outgoing.type_in(&typed(&[b"\x1b", b"q"]));
            assert_eq!(outgoing.advance(1), Some(PausedKey::Escape));
            outgoing.begin_pause(start, PauseReader::Escape(reader));
            outputs.iter().for_each(|after| outgoing.record_output(start + milliseconds(*after)));
            (outgoing.held_until().unwrap() - start).as_millis()
        };
        assert_eq!(until(EscapeReader::Quiet, &[]), 1050);
        assert_eq!(until(EscapeReader::Quiet, &[5, 20]), 1050, "the echo of earlier input does not end the pause");
        assert_eq!(until(EscapeReader::Quiet, &[5, 70]), 150);
        assert_eq!(until(EscapeReader::Quiet, &[105]), 165);
        assert_eq!(until(EscapeReader::Quiet, &[105, 140, 200]), 260, "continuing output extends the pause");
        assert_eq!(until(EscapeReader::Noisy, &[105]), 1050, "output of a noisy program is not a response");
        assert_eq!(until(EscapeReader::Readline, &[105]), 550);
        assert_eq!(EscapeReader::from_program_name(Some("node"), false), EscapeReader::Readline);
        assert_eq!(EscapeReader::from_program_name(Some("vim"), false), EscapeReader::Quiet);
        assert_eq!(EscapeReader::from_program_name(None, true), EscapeReader::Noisy);
    }

    #[test]
    fn second_line_waits_until_the_line_editor_is_ready() {
        let (mut outgoing, start) = (Outgoing::default(), Instant::now());
        let mut keystrokes = Keystrokes::default();
        keystrokes.text(b"read x\rhello\rls");
        keystrokes.key(b"\r");
        assert!(keystrokes.has_lines_ahead());
        keystrokes.pause_between_lines(true);
        outgoing.type_in(&keystrokes);
        assert_eq!(outgoing.delay(start), 2 * MAX_LINE_PAUSE);
        assert_eq!(write_due(&mut outgoing, start), b"read x\n");
        assert!(outgoing.awaits_line_editor());
        outgoing.record_output(start + LINE_SILENCE);
        assert_eq!(
            outgoing.held_until(),
            Some(start + 2 * LINE_SILENCE),
            "the pause ends after the silence of the editor"
        );
        outgoing.end_pause();
        assert_eq!(write_due(&mut outgoing, start), b"hello\n");
        assert_eq!(write_due(&mut outgoing, start + MAX_LINE_PAUSE), b"ls\n");
        assert_eq!((outgoing.written(), outgoing.held_until()), (16, None));
    }

    #[test]
    fn single_line_is_not_typed_ahead() {
        for (text, has_more) in [("ls", false), ("ls\r", false), ("\r", false), ("ls\rx", true), ("\r\r", true)] {
            let mut keystrokes = Keystrokes::default();
            keystrokes.text(text.as_bytes());
            assert_eq!(keystrokes.has_lines_ahead(), has_more, "{text:?}");
        }
    }

    #[test]
    fn sequences_and_text_cause_no_pause() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        let mut keystrokes = Keystrokes::default();
        keystrokes.text(b"\x1b[200~\x1b");
        keystrokes.key(b"\x1b[A");
        keystrokes.key(b"\x1bq");
        outgoing.type_in(&keystrokes);
        outgoing.extend(*b"\x1b[c");
        assert_eq!(write_due(&mut outgoing, now), b"\x1b[200~\x1b\x1b[A\x1bq\x1b[c");
    }

    #[test]
    fn clear_ends_all_pauses() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        outgoing.type_in(&typed(&[b"\x1b", b"q", b"\x1b"]));
        assert_eq!(write_due(&mut outgoing, now), b"\x1b");
        outgoing.clear();
        outgoing.extend(*b"abc");
        assert_eq!(write_due(&mut outgoing, now), b"abc");
    }
}
