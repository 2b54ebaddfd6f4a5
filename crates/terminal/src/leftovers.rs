//! Modes that a program left on in a terminal when it ended, and the sequences that turn them off.
//!
//! Records the modes that a program sets. The returned sequences go to the screen, the transcript and the terminals of
//! viewers. Names and numbers follow xterm's ctlseqs.

use crate::screen::Cursor;

/// DEC modes. The flag of a mode is true if a shell expects the mode on at its prompt.
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
    // Reverse wraparound.
    (45, false),
    // The alternate screen.
    (47, false),
    (1047, false),
    (1049, false),
];

const ORIGIN: u16 = 6;
const SIDE_MARGINS: u16 = 69;

/// Modes that give a program its own screen.
const ALTERNATE_SCREEN_MODES: [u16; 3] = [47, 1047, 1049];

/// Differences from the state that a shell expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Leftovers {
    /// A bit for each of [`MODES`].
    modes: u32,
    insert_mode: bool,
    keypad: bool,
    other_charset: bool,
    shifted_out: bool,
    margins: bool,
    other_keys: bool,
}

impl Leftovers {
    /// Insert mode (IRM), an ANSI mode: new characters shift the rest of their row.
    pub(crate) const INSERT: u16 = 4;

    /// Records that a DEC mode went on or off.
    pub(crate) fn set(&mut self, mode: u16, enabled: bool) {
        if let Some(index) = MODES.iter().position(|(known, _)| *known == mode) {
            let bit = 1 << index;
            self.modes = if enabled == MODES[index].1 { self.modes & !bit } else { self.modes | bit };
        }
    }

    /// Records insert mode (IRM).
    pub(crate) fn record_insert(&mut self, enabled: bool) {
        self.insert_mode = enabled;
    }

    /// Records DECKPAM or DECKPNM.
    pub(crate) fn record_keypad(&mut self, enabled: bool) {
        self.keypad = enabled;
    }

    /// Records the character set for letters: true for a set other than ASCII.
    pub(crate) fn record_charset(&mut self, other: bool) {
        self.other_charset = other;
    }

    /// Records SO (true) or SI.
    pub(crate) fn record_shift(&mut self, out: bool) {
        self.shifted_out = out;
    }

    /// Records a scroll region (true) or its removal.
    pub(crate) fn record_margins(&mut self, set: bool) {
        self.margins = set;
    }

    /// Records modifyOtherKeys.
    pub(crate) fn record_other_keys(&mut self, enabled: bool) {
        self.other_keys = enabled;
    }

    fn is_left_on(&self, mode: u16) -> bool {
        MODES.iter().position(|(known, _)| *known == mode).is_some_and(|index| self.modes >> index & 1 == 1)
    }

    /// Leaves the alternate screen: returns the sequence, and records that the modes are off.
    pub(crate) fn leave_screen(&mut self) -> String {
        let active_modes: Vec<u16> = ALTERNATE_SCREEN_MODES.into_iter().filter(|mode| self.is_left_on(*mode)).collect();
        active_modes.iter().for_each(|mode| self.set(*mode, false));
        // One sequence is enough. Prefer 1049, because it restores the cursor.
        active_modes.last().map(|mode| format!("\x1b[?{mode}l")).unwrap_or_default()
    }

    /// Returns the sequences that turn the remaining modes off, on a screen with this cursor.
    pub(crate) fn turn_off(&self, cursor: Cursor) -> String {
        let mut sequences = String::new();
        for (mode, on) in MODES {
            if self.is_left_on(mode) {
                sequences.push_str(&format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }));
            }
        }
        for (is_left, sequence) in [
            (self.insert_mode, "\x1b[4l"),
            (self.keypad, "\x1b>"),
            (self.other_charset, "\x1b(B"),
            (self.shifted_out, "\x0f"),
            (self.other_keys, "\x1b[>4;0m"),
            (self.margins, "\x1b[r"),
        ] {
            if is_left {
                sequences.push_str(sequence);
            }
        }
        // These sequences move the cursor to the first row. Restore the cursor, and clear the program's rows after it;
        // otherwise they would follow the prompt.
        if self.margins || self.is_left_on(ORIGIN) || self.is_left_on(SIDE_MARGINS) {
            sequences.push_str(&format!("\x1b[{};{}H\x1b[J", cursor.row + 1, cursor.col + 1));
        }
        sequences
    }
}
