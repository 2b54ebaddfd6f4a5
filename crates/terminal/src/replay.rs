//! A screen that draws recorded output again.
//!
//! A replay has the parsers and the emulator of a live terminal, so that it shows the same screens. Answers to queries
//! in the output are discarded. A keyframe is text that restores the screen in another replay of the same size. A
//! keyframe excludes the scrollback, the saved cursor and tab stops.

use crate::history::History;
use crate::intake::OutputPipeline;
use crate::output_log::RecordedChange;
use crate::screen::{Emulator, Modes, Picture, Size};
use crate::transcript::Transcript;

/// Size of a replay's history, in bytes. No code reads its text.
const HISTORY_BYTES: usize = 64 * 1024;

const ESC: u8 = 0x1b;

/// A screen that draws recorded output.
pub struct Replay {
    pipeline: OutputPipeline,
    sequence_state: SequenceState,
}

/// State of the escape sequence at the end of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceState {
    /// Outside a sequence.
    Outside,
    /// After `ESC` and intermediate bytes.
    Escape,
    /// In a control sequence, before its final byte.
    Sequence,
    /// In a string (DCS, OSC, SOS, PM, APC), before its terminator.
    Text,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Replay {
    /// Creates an empty screen.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let transcript = Transcript::new(History::new(HISTORY_BYTES), None);
        let pipeline = OutputPipeline::new(transcript, Box::new(Emulator::new(size)));
        Self { pipeline, sequence_state: SequenceState::Outside }
    }

    /// Draws output.
    pub fn draw(&mut self, text: &str) {
        self.pipeline.take_in(text.as_bytes(), &mut DiscardReplies);
        self.sequence_state = self.sequence_state.after(text.as_bytes());
    }

    /// Applies a change of a recording.
    pub fn apply(&mut self, change: &RecordedChange) {
        match change {
            RecordedChange::Printed(text) => self.draw(text),
            RecordedChange::Redrawn(screen) => {
                *self = Self::new(self.size());
                self.draw(screen);
            }
            RecordedChange::Resized(size) => self.resize(*size),
        }
    }

    /// Returns text that draws this screen on an empty one of the same size, without the screen below the alternate one.
    #[must_use]
    pub fn snapshot(&self) -> String {
        self.pipeline.screen.snapshot()
    }

    /// Changes the size.
    pub fn resize(&mut self, size: Size) {
        self.pipeline.screen.resize(size);
    }

    /// Returns the size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.pipeline.screen.size()
    }

    /// Returns the cells with their colours.
    #[must_use]
    pub fn picture(&self) -> Picture {
        self.pipeline.screen.picture()
    }

    /// Returns the modes that the output has set.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.pipeline.screen.modes()
    }

    /// Returns the title that the output has set.
    #[must_use]
    pub fn title(&self) -> String {
        self.pipeline.screen.title()
    }

    /// Returns whether the output holds back a change of the screen (mode 2026).
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.pipeline.screen.held_until().is_some()
    }

    /// Shows the held output.
    pub fn release(&mut self) {
        self.pipeline.screen.release();
    }

    /// Returns text that restores this screen in a new replay of the same size. `None` if text cannot express the
    /// state, such as within a sequence, on the alternate screen, or with a changed palette or rendition.
    #[must_use]
    pub fn keyframe(&self) -> Option<String> {
        let is_outside = self.sequence_state == SequenceState::Outside && self.pipeline.is_outside_of_strings();
        is_outside.then(|| self.pipeline.screen.keyframe()).flatten()
    }
}

impl SequenceState {
    /// Returns the state after `bytes` have followed.
    pub(crate) fn after(self, bytes: &[u8]) -> Self {
        let (before, rest) = match memchr::memrchr(ESC, bytes) {
            Some(last) => (Self::Escape, &bytes[last + 1..]),
            None => (self, bytes),
        };
        let next_state = |state, byte: &u8| match (state, byte) {
            (Self::Outside, _) => None,
            (_, 0x18 | 0x1a) | (Self::Text, 0x07) | (Self::Sequence, 0x40..=0x7e) => Some(Self::Outside),
            (Self::Escape, b'[') => Some(Self::Sequence),
            (Self::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Some(Self::Text),
            (Self::Escape, 0x30..=0x7e) => Some(Self::Outside),
            (within, _) => Some(within),
        };
        // No `ESC` follows, so the state stays outside.
        rest.iter().try_fold(before, next_state).unwrap_or(Self::Outside)
    }
}

/// Discards the answers to queries.
struct DiscardReplies;

impl Extend<u8> for DiscardReplies {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, _: T) {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: Size = Size { cols: 12, rows: 5 };

    /// Output in pieces that a generator can shuffle.
    const PIECES: [&str; 26] = [
        "\x1b]8;;https://example.org/a\x1b\\",
        "\x1b]8;;\x07",
        "word",
        " ",
        "\r\n",
        "\r",
        "\x08",
        "\t",
        "\x1b[K",
        "\x1b[2J",
        "\x1b[C",
        "\x1b[2;3H",
        "\x1b[1;31m",
        "\x1b[m",
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[?25l",
        "\x1b[?25h",
        "漢",
        "e\u{301}",
        "\x1b]2;title\x07",
        "\x1b",
        "[4",
        "m",
        "\x1b[2;4r",
        "\x1b]4;1;#102030\x1b\\",
    ];

    fn shown_screen(replay: &Replay) -> (Picture, String, Modes) {
        (replay.picture(), replay.title(), replay.modes())
    }

    #[test]
    fn keyframe_is_outside_sequences_and_on_the_main_screen() {
        for (output, has_one) in [
            ("plain", true),
            ("\x1b[1mbold", false),
            ("\x1b[1mbold\x1b[m", true),
            ("\x1b[1", false),
            ("\x1b", false),
            ("\x1b]2;tit", false),
            ("\x1b]2;title\x07", true),
            ("\x1bPq", false),
            ("\x1bPq\x1b\\", true),
            ("\x1b[?1049h", false),
            ("\x1b[?1049h\x1b[?1049l", true),
            ("\x1b[?2026hx", false),
            ("\x1b]11;#102030\x07", false),
            ("\x1b(0", false),
            ("\x1b(0\x1b(B", true),
        ] {
            let mut replay = Replay::new(SIZE);
            replay.draw(output);
            assert_eq!(replay.keyframe().is_some(), has_one, "{output:?}");
            for (at, _) in output.char_indices().skip(1) {
                let mut cut = Replay::new(SIZE);
                cut.draw(&output[..at]);
                cut.draw(&output[at..]);
                assert_eq!(cut.keyframe().is_some(), has_one, "{output:?} cut at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn replay_from_a_keyframe_equals_replay_from_the_start(
            before in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30),
            after in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..20),
        ) {
            let mut original = Replay::new(SIZE);
            for piece in before {
                original.draw(piece);
            }
            if let Some(keyframe) = original.keyframe() {
                let mut resumed = Replay::new(SIZE);
                resumed.draw(&keyframe);
                prop_assert_eq!(shown_screen(&resumed), shown_screen(&original));
                for piece in after {
                    resumed.draw(piece);
                    original.draw(piece);
                    prop_assert_eq!(shown_screen(&resumed), shown_screen(&original), "{:?}", piece);
                }
            }
        }
    }
}
