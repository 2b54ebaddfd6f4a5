//! The recent output of a terminal with its times, from which a recording is made after the fact.
//!
//! Owns blocks of output as printed. Each block begins with text that draws the screen of that moment, so that dropping
//! the oldest block loses only that block. Output within one window of time is one event; where a window has more than
//! a person could see, the screen at its end replaces it. The log is bounded; it never reads a clock.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::replay::SequenceState;
use crate::screen::Size;

/// Length of a window, in milliseconds: output has the time at which its window began.
pub const RECORDING_WINDOW_MILLIS: u64 = 50;

/// Maximum output of a window, in bytes.
const MAX_WINDOW_BYTES: usize = 16 << 10;

/// Maximum output and number of events of a block.
const MAX_BLOCK_BYTES: usize = 64 << 10;
const MAX_BLOCK_EVENTS: usize = 2_000;

/// Maximum size of all blocks: compressed, with their events, and as text.
const MAX_COMPRESSED_BYTES: usize = 512 << 10;
const MAX_TEXT_BYTES: usize = 3 << 20;

/// A recording of the recent output of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecording {
    /// The events, oldest first. The first one draws the screen at the beginning.
    pub events: Vec<RecordedOutput>,
    /// True if older output is no longer held.
    pub is_cut: bool,
}

/// An event of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedOutput {
    /// Time, in milliseconds since 1970.
    pub at_millis: u64,
    /// The event.
    pub change: RecordedChange,
}

/// A change of a recorded terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedChange {
    /// The program printed this text.
    Printed(String),
    /// The screen in place of much output, as text that draws it on an empty screen.
    Redrawn(String),
    /// The screen has this size.
    Resized(Size),
}

/// The screen of a terminal at the time of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentScreen<S: Fn() -> String> {
    pub(crate) size: Size,
    pub(crate) is_alternate: bool,
    /// Returns text that draws it on an empty screen.
    pub(crate) snapshot: S,
}

/// The log.
#[derive(Debug)]
pub(crate) struct OutputLog {
    is_off: bool,
    sealed: VecDeque<SealedBlock>,
    open: Option<Block>,
    compressed_bytes: usize,
    text_bytes: usize,
    is_cut: bool,
    window: Option<Window>,
    sequence: SequenceState,
    /// True if a snapshot of the alternate screen stands for output. It lacks the screen below, which is drawn when the
    /// program returns to it.
    lacks_main_screen: bool,
}

/// Output that no event has yet.
#[derive(Debug)]
struct Window {
    begin_millis: u64,
    /// Index of its output in the text of the block.
    begin: usize,
    /// True if its output was too much and is not held.
    is_excess: bool,
}

#[derive(Debug, Default)]
struct Block {
    text: Vec<u8>,
    events: Vec<Event>,
}

#[derive(Debug)]
struct SealedBlock {
    compressed: Box<[u8]>,
    text_bytes: usize,
    events: Box<[Event]>,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    at_millis: u64,
    kind: EventKind,
}

#[derive(Debug, Clone, Copy)]
enum EventKind {
    /// So many bytes of the block's text.
    Printed(usize),
    /// So many bytes of the block's text, which draw a screen.
    Redrawn(usize),
    Resized(Size),
}

impl SealedBlock {
    fn bytes(&self) -> usize {
        self.compressed.len() + size_of_val(&*self.events)
    }
}

impl OutputLog {
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            is_off: !is_on,
            sealed: VecDeque::new(),
            open: None,
            compressed_bytes: 0,
            text_bytes: 0,
            is_cut: false,
            window: None,
            sequence: SequenceState::Outside,
            lacks_main_screen: false,
        }
    }

    /// Records output before the screen draws it.
    pub(crate) fn record(&mut self, at_millis: u64, bytes: &[u8], screen: &CurrentScreen<impl Fn() -> String>) {
        if self.is_off || bytes.is_empty() {
            return;
        }
        // A screen can replace output only between sequences.
        let is_between = self.sequence == SequenceState::Outside;
        let is_over = |window: &Window| {
            at_millis.saturating_sub(window.begin_millis) >= RECORDING_WINDOW_MILLIS || at_millis < window.begin_millis
        };
        if is_between && self.window.as_ref().is_some_and(is_over) {
            self.close_window(screen);
        }
        let is_full = |block: &Block| block.text.len() >= MAX_BLOCK_BYTES || block.events.len() >= MAX_BLOCK_EVENTS;
        if self.window.is_none() && self.open.as_ref().is_none_or(is_full) {
            self.seal();
            let mut block = Block::default();
            block.events.push(Event { at_millis, kind: EventKind::Resized(screen.size) });
            block.redraw(at_millis, &(screen.snapshot)());
            self.lacks_main_screen = screen.is_alternate;
            self.open = Some(block);
        }
        let Some(block) = &mut self.open else { return };
        let window =
            self.window.get_or_insert(Window { begin_millis: at_millis, begin: block.text.len(), is_excess: false });
        if !window.is_excess {
            block.text.extend_from_slice(bytes);
            if block.text.len() - window.begin > MAX_WINDOW_BYTES {
                block.text.truncate(window.begin);
                window.is_excess = true;
            }
        }
        self.sequence = self.sequence.after(bytes);
    }

    /// Records the new size of the screen.
    pub(crate) fn record_size(&mut self, at_millis: u64, screen: &CurrentScreen<impl Fn() -> String>) {
        self.close_window(screen);
        if let Some(block) = &mut self.open {
            block.events.push(Event { at_millis, kind: EventKind::Resized(screen.size) });
        }
    }

    /// Makes an event of the output of the window.
    fn close_window(&mut self, screen: &CurrentScreen<impl Fn() -> String>) {
        let (Some(window), Some(block)) = (self.window.take(), &mut self.open) else { return };
        let has_returned = self.lacks_main_screen && !screen.is_alternate;
        if window.is_excess || has_returned {
            block.text.truncate(window.begin);
            block.redraw(window.begin_millis, &(screen.snapshot)());
            self.lacks_main_screen = screen.is_alternate;
        } else {
            let printed = EventKind::Printed(block.text.len() - window.begin);
            block.events.push(Event { at_millis: window.begin_millis, kind: printed });
        }
    }

    fn seal(&mut self) {
        let Some(Block { text, events }) = self.open.take() else { return };
        let compressed = lz4_flex::block::compress(&text).into_boxed_slice();
        let block = SealedBlock { compressed, text_bytes: text.len(), events: events.into_boxed_slice() };
        self.compressed_bytes += block.bytes();
        self.text_bytes += block.text_bytes;
        self.sealed.push_back(block);
        while self.compressed_bytes > MAX_COMPRESSED_BYTES || self.text_bytes > MAX_TEXT_BYTES {
            let Some(oldest) = self.sealed.pop_front() else { break };
            self.compressed_bytes -= oldest.bytes();
            self.text_bytes -= oldest.text_bytes;
            self.is_cut = true;
        }
    }

    /// Returns the recording until now.
    pub(crate) fn recording(&mut self, screen: &CurrentScreen<impl Fn() -> String>) -> OutputRecording {
        self.close_window(screen);
        let mut events = Vec::new();
        for block in &self.sealed {
            // A block that cannot be decompressed would be a defect; its output counts as lost.
            match lz4_flex::block::decompress(&block.compressed, block.text_bytes) {
                Ok(text) => add_events(&mut events, &text, &block.events),
                Err(_) => self.is_cut = true,
            }
        }
        if let Some(block) = &self.open {
            add_events(&mut events, &block.text, &block.events);
        }
        OutputRecording { events, is_cut: self.is_cut }
    }
}

impl Block {
    fn redraw(&mut self, at_millis: u64, screen: &str) {
        self.text.extend_from_slice(screen.as_bytes());
        self.events.push(Event { at_millis, kind: EventKind::Redrawn(screen.len()) });
    }
}

/// Adds the events of a block. A character that is divided between two events belongs to the second one.
fn add_events(all: &mut Vec<RecordedOutput>, text: &[u8], events: &[Event]) {
    let (mut next, mut carried) = (0, 0);
    for Event { at_millis, kind } in events {
        let change = match kind {
            EventKind::Printed(length) => {
                let end = (next + length).min(text.len());
                let bytes = &text[next - carried..end];
                (next, carried) = (end, incomplete_bytes(bytes));
                RecordedChange::Printed(String::from_utf8_lossy(&bytes[..bytes.len() - carried]).into_owned())
            }
            EventKind::Redrawn(length) => {
                let end = (next + length).min(text.len());
                let screen = String::from_utf8_lossy(&text[next..end]).into_owned();
                // The rest of a divided character has no text of its own.
                (next, carried) = (end, 0);
                RecordedChange::Redrawn(screen)
            }
            EventKind::Resized(size) => RecordedChange::Resized(*size),
        };
        all.push(RecordedOutput { at_millis: *at_millis, change });
    }
}

/// Returns the number of bytes of an incomplete character at the end.
fn incomplete_bytes(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let begin = tail.iter().rposition(|byte| *byte >= 0xc0);
    let is_incomplete =
        |begin: &usize| std::str::from_utf8(&tail[*begin..]).is_err_and(|error| error.error_len().is_none());
    begin.filter(is_incomplete).map_or(0, |begin| tail.len() - begin)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::Replay;

    const SIZE: Size = Size { cols: 20, rows: 6 };

    /// A terminal with its log.
    struct Recorded {
        screen: Replay,
        log: OutputLog,
        now: u64,
    }

    impl Recorded {
        fn new() -> Self {
            Self { screen: Replay::new(SIZE), log: OutputLog::new(true), now: 1_000 }
        }

        fn print(&mut self, text: &str) {
            self.log.record(self.now, text.as_bytes(), &current(&self.screen));
            self.screen.draw(text);
        }

        fn recording(&mut self) -> OutputRecording {
            self.log.recording(&current(&self.screen))
        }
    }

    fn current(screen: &Replay) -> CurrentScreen<impl Fn() -> String> {
        let is_alternate = screen.modes().alternate_screen;
        CurrentScreen { size: screen.size(), is_alternate, snapshot: || screen.snapshot() }
    }

    /// Draws a recording and returns its last screen.
    fn replayed(recording: &OutputRecording) -> Replay {
        let mut replay = Replay::new(SIZE);
        recording.events.iter().for_each(|event| replay.apply(&event.change));
        replay
    }

    #[test]
    fn output_of_one_window_is_one_event_with_its_time() {
        let mut terminal = Recorded::new();
        for (pause, text) in [(0, "a"), (10, "b"), (60, "c"), (500, "\u{e4}")] {
            terminal.now += pause;
            terminal.print(text);
        }
        let recording = terminal.recording();
        let printed = recording.events.iter().filter_map(|event| match &event.change {
            RecordedChange::Printed(text) => Some((event.at_millis, text.as_str())),
            _ => None,
        });
        assert_eq!(printed.collect::<Vec<_>>(), [(1_000, "ab"), (1_070, "c"), (1_570, "\u{e4}")]);
        assert!(!recording.is_cut);
    }

    #[test]
    fn flood_is_bounded_and_its_loss_is_reported() {
        let mut terminal = Recorded::new();
        // Lines that compress badly, more than a window may have, and blocks beyond the budget.
        let mut seed = 1_u64;
        for _ in 0..3_000 {
            let line: String = (0..400)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    char::from(b'!' + u8::try_from((seed >> 33) % 90).unwrap())
                })
                .collect();
            terminal.print(&format!("{line}\r\n"));
            terminal.now += 3;
        }
        let recording = terminal.recording();
        assert!(recording.is_cut);
        assert!(terminal.log.compressed_bytes <= MAX_COMPRESSED_BYTES && terminal.log.text_bytes <= MAX_TEXT_BYTES);
        assert_eq!(replayed(&recording).picture(), terminal.screen.picture());
        terminal.print(&"x".repeat(MAX_WINDOW_BYTES + 1));
        assert_eq!(replayed(&terminal.recording()).picture(), terminal.screen.picture());
    }

    #[test]
    fn log_that_is_off_records_nothing() {
        let mut log = OutputLog::new(false);
        let screen = Replay::new(SIZE);
        log.record(1, b"text", &current(&screen));
        assert_eq!(log.recording(&current(&screen)), OutputRecording::default());
    }

    proptest! {
        /// A replay ends with the screen of the terminal, however its output is divided, and however much there is.
        #[test]
        fn replay_of_a_recording_ends_with_the_same_screen(
            pieces in prop::collection::vec((prop::sample::select(vec![
                "word ", "\r\n", "\x1b[1;31mred", "\x1b[m", "\x1b[2J", "\x1b[H", "\x1b", "[3", "1m", "\u{6f22}", "\x1b[?1049h",
                "\x1b[?1049l", "\x1b]2;title\x07", "\x1b[2;4H", "FLOOD",
            ]), 0..90_u64), 0..80),
        ) {
            let mut terminal = Recorded::new();
            for (piece, pause) in pieces {
                terminal.now += pause;
                match piece {
                    "FLOOD" => terminal.print(&"flood\r\n".repeat(MAX_WINDOW_BYTES / 6)),
                    piece => terminal.print(piece),
                }
            }
            // A sequence that is open at the end belongs to neither screen.
            terminal.print("\x1b\\\x1b[m.");
            let recording = terminal.recording();
            let replay = replayed(&recording);
            let rows = |replay: &Replay| replay.picture().rows.iter().map(|runs| runs.iter().map(|run| run.text.clone()).collect::<String>()).collect::<Vec<_>>();
            prop_assert_eq!(rows(&replay), rows(&terminal.screen));
        }
    }
}
