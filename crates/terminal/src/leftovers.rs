//! Modes that a program left on in a terminal when it ended, and the sequences that turn them off.
//!
//! Owns no screen: printed modes go in, and a text comes out that a screen, a transcript and the terminals of viewers
//! receive alike. Names and numbers are those of xterm's ctlseqs.

use crate::screen::Cursor;

/// DEC modes, and whether a shell expects them on at its prompt.
const MODES: [(u16, bool); 25] = [
    // DECCKM: cursor keys of applications.
    (1, false),
    // DECSCNM: reverse video.
    (5, false),
    // DECOM: positions count from the scroll region.
    (ORIGIN, false),
    // DECAWM: lines wrap.
    (7, true),
    // The mouse, in all forms.
    (9, false),
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    // DECTCEM: the visible cursor.
    (25, true),
    // Reports of focus, of the size, and of the colour scheme.
    (1004, false),
    (2048, false),
    (2031, false),
    // The keypad of applications.
    (66, false),
    // DECLRMM: margins at the left and right.
    (SIDE_MARGINS, false),
    // Bracketed paste: a shell turns it on with each line that it reads.
    (2004, false),
    // Synchronized output.
    (2026, false),
    // What clears or wraps: reverse wraparound.
    (45, false),
    // The alternate screen.
    (47, false),
    (1047, false),
    (1049, false),
];

const ORIGIN: u16 = 6;
const SIDE_MARGINS: u16 = 69;

/// Modes that give a program its own screen.
const SCREENS: [u16; 3] = [47, 1047, 1049];

/// Differences from the state that a shell expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Leftovers {
    /// A bit for each of [`MODES`].
    modes: u32,
    inserts: bool,
    keypad: bool,
    characters: bool,
    shifted: bool,
    margins: bool,
    other_keys: bool,
}

impl Leftovers {
    /// The ANSI mode in which new characters move the rest of their row (IRM).
    pub(crate) const INSERT: u16 = 4;

    /// Records that a DEC mode went on or off.
    pub(crate) fn set(&mut self, mode: u16, on: bool) {
        if let Some(index) = MODES.iter().position(|(known, _)| *known == mode) {
            let bit = 1 << index;
            self.modes = if on == MODES[index].1 { self.modes & !bit } else { self.modes | bit };
        }
    }

    pub(crate) fn insert(&mut self, on: bool) {
        self.inserts = on;
    }

    /// Records DECKPAM or DECKPNM.
    pub(crate) fn keypad(&mut self, on: bool) {
        self.keypad = on;
    }

    /// Records the character set for letters: another than ASCII, or ASCII.
    pub(crate) fn characters(&mut self, other: bool) {
        self.characters = other;
    }

    /// Records SO or SI.
    pub(crate) fn shift(&mut self, out: bool) {
        self.shifted = out;
    }

    /// Records a scroll region, or the whole screen.
    pub(crate) fn margins(&mut self, set: bool) {
        self.margins = set;
    }

    /// Records modifyOtherKeys.
    pub(crate) fn other_keys(&mut self, on: bool) {
        self.other_keys = on;
    }

    fn is_left(&self, mode: u16) -> bool {
        MODES.iter().position(|(known, _)| *known == mode).is_some_and(|index| self.modes >> index & 1 == 1)
    }

    /// Returns the sequence that takes the screen away from a program that has its own, and records that.
    pub(crate) fn leave_screen(&mut self) -> String {
        let left: Vec<u16> = SCREENS.into_iter().filter(|mode| self.is_left(*mode)).collect();
        left.iter().for_each(|mode| self.set(*mode, false));
        // One is enough, and 1049 puts the cursor back.
        left.last().map(|mode| format!("\x1b[?{mode}l")).unwrap_or_default()
    }

    /// Returns the sequences that turn the rest off, on a screen whose cursor is at `cursor`.
    pub(crate) fn turn_off(&self, cursor: Cursor) -> String {
        let mut sequences = String::new();
        for (mode, on) in MODES {
            if self.is_left(mode) {
                sequences.push_str(&format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }));
            }
        }
        for (is_left, sequence) in [
            (self.inserts, "\x1b[4l"),
            (self.keypad, "\x1b>"),
            (self.characters, "\x1b(B"),
            (self.shifted, "\x0f"),
            (self.other_keys, "\x1b[>4;0m"),
            (self.margins, "\x1b[r"),
        ] {
            if is_left {
                sequences.push_str(sequence);
            }
        }
        // These move the cursor to the first row. The program had put it among its own rows, which would be after the
        // prompt.
        if self.margins || self.is_left(ORIGIN) || self.is_left(SIDE_MARGINS) {
            sequences.push_str(&format!("\x1b[{};{}H\x1b[J", cursor.row + 1, cursor.col + 1));
        }
        sequences
    }
}
