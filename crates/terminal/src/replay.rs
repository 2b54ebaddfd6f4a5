//! A screen that draws recorded output again.
//!
//! The parsers and the emulator are those of a live terminal, so that a replay shows the same. Answers to queries in
//! the output go nowhere. A keyframe is text from which another replay of the same size continues; what had scrolled
//! away before it, a saved cursor and tab stops are not part of one.

use crate::history::History;
use crate::intake::OutputPipeline;
use crate::screen::{Emulator, Modes, Picture, Size};
use crate::transcript::Transcript;

/// The text that a replay keeps, in bytes: nothing reads it.
const TEXT: usize = 64 * 1024;

const ESC: u8 = 0x1b;

/// A screen that draws recorded output.
pub struct Replay {
    pipeline: OutputPipeline,
    ending: Ending,
}

/// Place in a sequence at which the output ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Outside,
    /// Behind an escape, and intermediate bytes.
    Escape,
    /// In a control sequence: its last byte is missing.
    Sequence,
    /// In a string (DCS, OSC, SOS, PM, APC): its terminator is missing.
    Text,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Replay {
    /// Begins with an empty screen.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let transcript = Transcript::new(History::new(TEXT), None);
        let pipeline = OutputPipeline::new(transcript, Box::new(Emulator::new(size)));
        Self { pipeline, ending: Ending::Outside }
    }

    /// Draws output.
    pub fn draw(&mut self, text: &str) {
        self.pipeline.take_in(text.as_bytes(), &mut Nowhere);
        self.ending = self.ending.behind(text.as_bytes());
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

    /// Returns whether the output holds a change of the screen back (mode 2026).
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.pipeline.screen.held_until().is_some()
    }

    /// Shows the held output.
    pub fn release(&mut self) {
        self.pipeline.screen.release();
    }

    /// Returns text that has a new replay of the same size show this and go on from here; `None` where there is no such text:
    /// within a sequence, on the alternate screen, or between colours.
    #[must_use]
    pub fn keyframe(&self) -> Option<String> {
        let is_outside = self.ending == Ending::Outside && self.pipeline.is_outside_of_strings();
        is_outside.then(|| self.pipeline.screen.keyframe()).flatten()
    }
}

impl Ending {
    /// Returns the end of output that continues with `bytes`.
    fn behind(self, bytes: &[u8]) -> Self {
        let (before, rest) = match memchr::memrchr(ESC, bytes) {
            Some(last) => (Self::Escape, &bytes[last + 1..]),
            None => (self, bytes),
        };
        let after = |state, byte: &u8| match (state, byte) {
            (Self::Outside, _) => None,
            (_, 0x18 | 0x1a) | (Self::Text, 0x07) | (Self::Sequence, 0x40..=0x7e) => Some(Self::Outside),
            (Self::Escape, b'[') => Some(Self::Sequence),
            (Self::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Some(Self::Text),
            (Self::Escape, 0x30..=0x7e) => Some(Self::Outside),
            (within, _) => Some(within),
        };
        // Without a further escape, nothing begins once it is outside.
        rest.iter().try_fold(before, after).unwrap_or(Self::Outside)
    }
}

/// Takes the answers to queries, which nothing reads.
struct Nowhere;

impl Extend<u8> for Nowhere {
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

    fn shown(replay: &Replay) -> (Picture, String, Modes) {
        (replay.picture(), replay.title(), replay.modes())
    }

    #[test]
    fn a_keyframe_is_not_within_a_sequence_nor_above_another_screen() {
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
        fn a_replay_goes_on_from_a_keyframe_as_from_the_beginning(
            before in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..30),
            after in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..20),
        ) {
            let mut whole = Replay::new(SIZE);
            for piece in before {
                whole.draw(piece);
            }
            if let Some(keyframe) = whole.keyframe() {
                let mut again = Replay::new(SIZE);
                again.draw(&keyframe);
                prop_assert_eq!(shown(&again), shown(&whole));
                for piece in after {
                    again.draw(piece);
                    whole.draw(piece);
                    prop_assert_eq!(shown(&again), shown(&whole), "{:?}", piece);
                }
            }
        }
    }
}
