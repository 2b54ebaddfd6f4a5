//! The path of a program's output to the screen and to the history.
//!
//! Owns the parser of the transcript and the screen emulator and synchronizes them: the transcript stops at each mark
//! of a prompt or command and at each sequence that the emulator does not implement.

use crate::characters::Utf8Assembler;
use crate::guard::ControlStringLimiter;
use crate::screen::control::Control;
use crate::screen::{Cursor, Screen, Size};
use crate::transcript::{Pause, Transcript};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Maximum size of a piece of output for the parsers, in bytes. A parser rescans the piece for each invalid byte, so
/// the size of the piece bounds the cost.
const MAX_PIECE_BYTES: usize = 4096;

/// The input path: from the bytes of a program to its screen and transcript.
pub(crate) struct OutputPipeline {
    guard: ControlStringLimiter,
    characters: Utf8Assembler,
    pub(crate) transcript: Transcript,
    pub(crate) screen: Box<dyn Screen>,
    /// The position of the cursor after the last prompt, and the size of the screen then.
    prompt_end: Option<(Cursor, Size)>,
    /// The first row of the last command's output, counted from the first row that scrolled off.
    pub(crate) command_row: u64,
    /// Sequences that turned off modes left on by ended programs.
    reset_sequences: Vec<u8>,
}

/// Both parsers during the intake of one read.
struct Parsers<'a> {
    transcript: &'a mut Transcript,
    screen: &'a mut dyn Screen,
    prompt_end: &'a mut Option<(Cursor, Size)>,
    command_row: &'a mut u64,
    reset_sequences: &'a mut Vec<u8>,
    /// A rectangle to fill, unless the next sequence covers it.
    fill: Option<Fill>,
}

impl Parsers<'_> {
    fn take_in(&mut self, piece: &[u8], replies: &mut impl Extend<u8>) {
        let mut rest = piece;
        while !rest.is_empty() {
            let (consumed, pause) = self.transcript.advance(rest);
            let bytes = &rest[..consumed];
            if let Some(Fill { control, mut following }) = self.fill.take() {
                following.extend_from_slice(bytes);
                let is_covered = matches!(&pause, Some(Pause::Control(next)) if next.covers(&control));
                match classify_sequence(&following) {
                    Sequence::Open if pause.is_none() => self.fill = Some(Fill { control, following }),
                    Sequence::Whole if is_covered => {}
                    _ => self.screen.perform(&control),
                }
            }
            match pause {
                Some(Pause::Repeat(requested)) => feed_repeats(self.screen, bytes, requested),
                _ => self.screen.feed(bytes),
            }
            replies.extend(self.screen.take_replies());
            match pause {
                None | Some(Pause::Repeat(_)) => {}
                Some(Pause::LineBegins) => *self.prompt_end = Some((self.screen.cursor(), self.screen.size())),
                Some(Pause::CommandBegins) => {
                    *self.command_row = self.screen.scrolled().0 + u64::from(self.screen.cursor().row);
                }
                Some(Pause::CommandEnded) => self.reset_leftover_modes(replies),
                Some(Pause::SoftReset) => self.screen.soft_reset(),
                Some(Pause::Overloaded) => self.screen.strip_combining(),
                Some(Pause::Control(control)) if control.fills().is_some() => {
                    self.fill = Some(Fill { control, following: Vec::new() });
                }
                Some(Pause::Control(control)) => {
                    self.screen.perform(&control);
                    replies.extend(self.screen.take_replies());
                }
                Some(Pause::KeyboardQuery(flags)) => replies.extend(format!("\x1b[?{flags}u").bytes()),
            }
            rest = &rest[consumed..];
        }
    }

    /// Turns off the modes that the ended program left on, as if the program had printed the sequences.
    fn reset_leftover_modes(&mut self, replies: &mut impl Extend<u8>) {
        let (screen, leftovers) = self.transcript.take_leftovers();
        self.take_in(screen.as_bytes(), replies);
        let modes = leftovers.turn_off(self.screen.cursor());
        self.take_in(modes.as_bytes(), replies);
        self.reset_sequences.extend_from_slice(screen.as_bytes());
        self.reset_sequences.extend_from_slice(modes.as_bytes());
    }
}

impl OutputPipeline {
    pub(crate) fn new(mut transcript: Transcript, screen: Box<dyn Screen>) -> Self {
        transcript.set_size(screen.size());
        Self {
            guard: ControlStringLimiter::default(),
            characters: Utf8Assembler::default(),
            transcript,
            screen,
            prompt_end: None,
            command_row: 0,
            reset_sequences: Vec::new(),
        }
    }

    /// Returns the screen's text from the end of the prompt to the end of the cursor's row. `None` without a known
    /// prompt.
    pub(crate) fn text_after_prompt(&self) -> Option<String> {
        self.rows_after_prompt().map(|rows| rows.concat())
    }

    /// Returns the text from the last prompt to the cursor. Excludes text after the cursor, because an earlier program
    /// may have printed it. `None` if a row before the cursor's row is not full, because such a row may be output of a
    /// background program.
    pub(crate) fn text_before_cursor(&self) -> Option<String> {
        let columns = usize::from(self.screen.size().cols);
        let (prompt, _) = self.prompt_end?;
        let cursor = self.screen.cursor();
        // Most commands begin at an empty line, where no text of the screen is needed.
        if (cursor.row, cursor.col) == (prompt.row, prompt.col) {
            return Some(String::new());
        }
        let mut rows = self.rows_after_prompt()?;
        let last = rows.pop()?;
        let first_column = |index: usize| if index == 0 { usize::from(prompt.col) } else { 0 };
        if rows.iter().enumerate().any(|(index, row)| first_column(index) + row.width() < columns) {
            return None;
        }
        let columns_before_cursor = usize::from(cursor.col).saturating_sub(first_column(rows.len()));
        Some(rows.concat() + split_at_column(&last, columns_before_cursor).0)
    }

    /// Returns the text of each row from the last prompt to the row of the cursor, if the prompt is known.
    fn rows_after_prompt(&self) -> Option<Vec<String>> {
        let (prompt, size) = self.prompt_end?;
        let cursor_row = self.screen.cursor().row;
        if size != self.screen.size() || cursor_row < prompt.row {
            return None;
        }
        let text = self.screen.text();
        let rows = text.lines().skip(prompt.row.into()).take(usize::from(cursor_row - prompt.row) + 1);
        let rows_of_text = rows.enumerate().map(|(index, row)| {
            let first_column = if index == 0 { usize::from(prompt.col) } else { 0 };
            split_at_column(row, first_column).1.to_owned()
        });
        Some(rows_of_text.collect())
    }

    /// Changes the size of the screen.
    pub(crate) fn resize(&mut self, size: Size) {
        self.screen.resize(size);
        self.transcript.set_size(size);
    }

    /// Takes in the bytes of one read. Answers to the program's queries go to `replies`.
    pub(crate) fn take_in(&mut self, bytes: &[u8], replies: &mut impl Extend<u8>) {
        let (guard, characters) = (&mut self.guard, &mut self.characters);
        let mut parsers = Parsers {
            transcript: &mut self.transcript,
            screen: self.screen.as_mut(),
            prompt_end: &mut self.prompt_end,
            command_row: &mut self.command_row,
            reset_sequences: &mut self.reset_sequences,
            fill: None,
        };
        parsers.screen.begin_portion();
        guard.pass(bytes, |passed| characters.pass(passed, MAX_PIECE_BYTES, |piece| parsers.take_in(piece, replies)));
        if let Some(Fill { control, .. }) = parsers.fill {
            parsers.screen.perform(&control);
        }
    }

    /// Takes the sequences since the last call that turned off modes left on by ended programs.
    pub(crate) fn take_turned_off(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.reset_sequences)
    }

    /// Accepts an announced prompt that ends at the cursor.
    pub(crate) fn confirm_prompt(&mut self) {
        self.transcript.confirm_prompt();
        self.prompt_end = Some((self.screen.cursor(), self.screen.size()));
    }

    /// Returns whether the bytes so far end outside a control string.
    pub(crate) fn is_outside_of_strings(&self) -> bool {
        self.guard.is_outside()
    }

    /// Draws output that does not go to the history: a prompt redrawn in the same place.
    pub(crate) fn draw(&mut self, bytes: &[u8], replies: &mut impl Extend<u8>) {
        let (screen, characters) = (&mut self.screen, &mut self.characters);
        self.guard.pass(bytes, |passed| characters.pass(passed, MAX_PIECE_BYTES, |piece| screen.feed(piece)));
        replies.extend(self.screen.take_replies());
    }
}

/// Feeds `bytes` up to their final REP, with the granted number of repetitions.
fn feed_repeats(screen: &mut dyn Screen, bytes: &[u8], requested: u16) {
    let Some((last, before)) = bytes.split_last() else { return };
    screen.feed(before);
    let granted = screen.grant_repeats(requested);
    if granted == requested && granted > 0 {
        return screen.feed(&[*last]);
    }
    // CAN cancels the sequence.
    screen.feed(b"\x18");
    if granted > 0 {
        screen.feed(format!("\x1b[{granted}b").as_bytes());
    }
}

/// A rectangle to fill, and the output after it so far: the beginning of a sequence.
struct Fill {
    control: Control,
    following: Vec<u8>,
}

/// Classification of bytes as a control sequence.
enum Sequence {
    /// The beginning of a control sequence (CSI).
    Open,
    /// One complete control sequence.
    Whole,
    Other,
}

fn classify_sequence(bytes: &[u8]) -> Sequence {
    let are_parameter_bytes = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, 0x20..=0x3f));
    match bytes {
        [0x1b] | [0x1b, b'['] => Sequence::Open,
        [0x1b, b'[', rest @ .., _] if !are_parameter_bytes(rest) => Sequence::Other,
        [0x1b, b'[', .., 0x20..=0x3f] => Sequence::Open,
        [0x1b, b'[', .., 0x40..=0x7e] => Sequence::Whole,
        _ => Sequence::Other,
    }
}

/// Splits a row before the first character that begins at or after a column.
fn split_at_column(row: &str, column: usize) -> (&str, &str) {
    let mut columns_left = column;
    let end = row.char_indices().find(|(_, character)| {
        let is_reached = columns_left == 0;
        columns_left = columns_left.saturating_sub(character.width().unwrap_or(0));
        is_reached
    });
    row.split_at(end.map_or(row.len(), |(index, _)| index))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::history::{History, Zone};
    use crate::screen::Emulator;

    /// Terminal output, in pieces that a generator can shuffle.
    const PIECES: [&[u8]; 37] = [
        b"word",
        b" ",
        b"\r\n",
        b"\r",
        b"\n",
        b"\x08",
        b"\t",
        b"\x1b[K",
        b"\x1b[2K",
        b"\x1b[C",
        b"\x1b[3D",
        b"\x1b[1G",
        b"\x1b[H",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b]133;A;k=n1\x07",
        b"\x1b]133;B;k=n1\x07",
        b"\x1b]133;C;k=n1\x07",
        b"\x1b]133;D;0;k=n1;n=1\x07",
        b"\x1b]133;D;0;k=n1;n=2\x07",
        b"\xe6\xbc\xa2",
        b"\xff",
        b"\x1b",
        b"\x1b[!p",
        b"e\xcc\x81",
        b"\x1b[?69h",
        b"\x1b[3;9s",
        b"\x1b[2;4r",
        b"\x1b[?6h",
        b"\x1b[37;1;1;2;2$x",
        b"\x1b[2'}",
        b"\x1bP$qm\x1b\\",
        b"\x1b]11;?\x1b\\",
        b"\x1b[1\"q",
        b"\x1b[?2J",
        b"\x1b[70b",
        b"\x1b[38;1;1;2;2$x",
    ];

    /// Returns the state left by `portions`: the text, its zones, and the screen.
    fn state_after(portions: &[&[u8]]) -> (String, Vec<(std::ops::Range<u64>, Zone)>, String) {
        let transcript = Transcript::new(History::new(1 << 20), Some("n1".into()));
        let mut intake = OutputPipeline::new(transcript, Box::new(Emulator::new(Size { cols: 30, rows: 8 })));
        for portion in portions {
            intake.take_in(portion, &mut Vec::new());
            intake.transcript.settle();
        }
        let history = intake.transcript.history();
        (history.read(0..history.end()).1, history.zones(0..history.end()).collect(), intake.screen.text())
    }

    /// The screen after `bytes`, and the duration.
    fn flood(size: Size, first: &str, unit: &str) -> (String, Duration) {
        let mut bytes = unit.repeat(16 * 1024 / unit.len()).into_bytes();
        bytes.truncate(16 * 1024);
        // The shortest of three durations: other processes use the machine too.
        let rounds = (0..3).map(|_| {
            let transcript = Transcript::new(History::new(1 << 20), None);
            let mut intake = OutputPipeline::new(transcript, Box::new(Emulator::new(size)));
            intake.take_in(first.as_bytes(), &mut Vec::new());
            let begin = Instant::now();
            intake.take_in(&bytes, &mut Vec::new());
            let duration = begin.elapsed();
            intake.take_in(b"\x18\x1b[1;1Hend", &mut Vec::new());
            (intake.screen.text(), duration)
        });
        rounds.min_by_key(|(_, duration)| *duration).expect("three rounds were measured")
    }

    #[test]
    fn bulk_sequences_draw_only_visible_cells() {
        for size in [Size::default(), Size { cols: 1000, rows: 200 }] {
            let (_, plain) = flood(size, "", "the quick brown fox jumps over the lazy dog\r\n");
            let line = |character: char| character.to_string().repeat(usize::from(size.cols));
            for (name, first, unit, last) in [
                ("REP", "x", "\x1b[65535b", Some('x')),
                ("REP between margins", "\x1b[?69h\x1b[1;90sx", "\x1b[65535b", None),
                ("REP of a combining character", "e\u{301}", "\x1b[65535b", None),
                ("DECFRA", "", "\x1b[65$x\x1b[66$x", Some('B')),
                ("DECFRA and text", "", "\x1b[66$xy", None),
                ("DECERA", "", "\x1b[$z", None),
                ("DECCRA", "", "\x1b[;;;;;2$v", None),
                ("ECH", "", "\x1b[65535X", None),
                ("ICH", "", "\x1b[65535@", None),
                ("IL", "", "\x1b[65535L", None),
                ("SU", "", "\x1b[65535S", None),
                ("SD between margins", "\x1b[?69h\x1b[1;90s", "\x1b[65535T", None),
                ("CUB around the screen", "\x1b[?45h", "\x1b[65535D", None),
                ("CHT", "", "\x1b[65535I", None),
                ("CBT", "", "\x1b[65535Z", None),
                ("ED", "", "\x1b[H\x1b[J", None),
            ] {
                let (screen, duration) = flood(size, first, unit);
                assert!(duration < 50 * plain, "{name} takes {duration:?}, plain text {plain:?}");
                assert!(screen.starts_with("end"), "{name}: {screen}");
                if let Some(last) = last {
                    let filled = screen.lines().skip(1).filter(|row| *row == line(last)).count();
                    assert!(filled + 2 >= usize::from(size.rows), "{name}: {filled} lines of\n{screen}");
                }
                assert!(screen.chars().count() <= usize::from(size.rows) * (usize::from(size.cols) + 1) + 3, "{name}");
            }
        }
    }

    #[test]
    fn rep_repeats_a_character_as_requested() {
        for (bytes, text) in [
            ("ab\x1b[3bc", "abbbbc"),
            ("a\x1b[bc", "aac"),
            ("\x1b[5b", ""),
            ("a\x1b[20b", &"a".repeat(21)),
            ("a\x1b[1;5b", "aa"),
            ("\x1b[?2026ha\x1b[3b\x1b[?2026l", "aaaa"),
        ] {
            assert_eq!(state_after(&[bytes.as_bytes()]).2, text, "{bytes:?}");
            let cut: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            assert_eq!(state_after(&cut).2, text, "{bytes:?}, byte by byte");
        }
    }

    proptest! {
        #[test]
        fn output_is_the_same_for_any_division(
            pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..60),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = pieces.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let begins = std::iter::once(0).chain(cuts.iter().copied());
            let portions: Vec<&[u8]> = begins.zip(&cuts).map(|(begin, end)| &bytes[begin..*end]).collect();
            prop_assert_eq!(state_after(&portions), state_after(&[&bytes]));
        }
    }
}
