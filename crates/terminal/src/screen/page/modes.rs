//! Terminal modes: their state, and the effects of a change.
//!
//! Numbers and names follow xterm's ctlseqs (SM, RM, DECSET, DECRST, DECRQM, XTSAVE, XTRESTORE). A few modes are only
//! stored, because they have no effect on an emulator: the printer, the scrolling speed, the keyboard lock.

use std::collections::BTreeMap;

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Handler as _, PrivateMode};

use super::{XtermScreen, line};

const DECCOLM: u16 = 3;
const ALLOW_COLUMN_MODE: u16 = 40;
pub(super) const MORE_FIX: u16 = 41;
const REVERSE_WRAP: u16 = 45;
const EXTENDED_REVERSE_WRAP: u16 = 1045;

/// DEC modes that the page stores: DECCOLM, DECSCLM, DECSCNM, DECPFF, DECPEX, xterm's permission for DECCOLM and its
/// more(1) fix, DECNRCM, and both forms of reverse wraparound.
const STORED_MODES: [u16; 10] =
    [DECCOLM, 4, 5, 18, 19, ALLOW_COLUMN_MODE, MORE_FIX, 42, REVERSE_WRAP, EXTENDED_REVERSE_WRAP];

/// ANSI modes that the page stores: KAM and SRM.
const STORED_ANSI_MODES: [u16; 2] = [2, 12];

/// ECMA-48 modes that are permanently reset on DEC terminals: GATM, SRTM, VEM, HEM, PUM, FEAM, FETM, MATM, TTM,
/// SATM, TSM, EBM.
const ALWAYS_OFF_MODES: [u16; 12] = [1, 5, 7, 10, 11, 13, 14, 15, 16, 17, 18, 19];

/// Answer to DECRQM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModeState {
    Unknown = 0,
    On = 1,
    Off = 2,
    AlwaysOn = 3,
    AlwaysOff = 4,
}

impl From<Option<bool>> for ModeState {
    fn from(on: Option<bool>) -> Self {
        match on {
            None => Self::Unknown,
            Some(true) => Self::On,
            Some(false) => Self::Off,
        }
    }
}

/// Modes that the emulator does not store.
#[derive(Debug, Default)]
pub(super) struct ExtraModes {
    /// A bit for each of [`STORED_MODES`], followed by a bit for each of [`STORED_ANSI_MODES`].
    enabled: u16,
    /// Saved known DEC modes (XTSAVE).
    saved: BTreeMap<u16, bool>,
}

impl ExtraModes {
    fn bit(list: &[u16], offset: usize, mode: u16) -> Option<u16> {
        list.iter().position(|kept| *kept == mode).map(|index| 1 << (offset + index))
    }

    fn set(&mut self, bit: Option<u16>, enabled: bool) {
        match bit {
            Some(bit) if enabled => self.enabled |= bit,
            Some(bit) => self.enabled &= !bit,
            None => {}
        }
    }

    pub(super) fn is_set(&self, mode: u16) -> bool {
        self.dec_mode(mode) == Some(true)
    }

    pub(super) fn dec_mode(&self, mode: u16) -> Option<bool> {
        Self::bit(&STORED_MODES, 0, mode).map(|bit| self.enabled & bit != 0)
    }

    fn ansi_mode(&self, mode: u16) -> Option<bool> {
        Self::bit(&STORED_ANSI_MODES, STORED_MODES.len(), mode).map(|bit| self.enabled & bit != 0)
    }

    pub(super) fn set_ansi(&mut self, mode: u16, enabled: bool) {
        self.set(Self::bit(&STORED_ANSI_MODES, STORED_MODES.len(), mode), enabled);
    }

    fn set_dec(&mut self, mode: u16, enabled: bool) {
        self.set(Self::bit(&STORED_MODES, 0, mode), enabled);
    }

    /// Returns whether a cursor at the left margin wraps to the previous line, even if that line was not wrapped. This
    /// is mode 45 in xterm until patch 380, and mode 1045 since then.
    pub(super) fn reverse_wrap(&self) -> bool {
        self.is_set(REVERSE_WRAP) || self.is_set(EXTENDED_REVERSE_WRAP)
    }

    /// Performs DECSTR: like xterm, resets the modes that affect text output.
    pub(super) fn soft_reset(&mut self) {
        for mode in [REVERSE_WRAP, EXTENDED_REVERSE_WRAP, 42] {
            self.set_dec(mode, false);
        }
        for mode in STORED_ANSI_MODES {
            self.set_ansi(mode, false);
        }
    }
}

impl XtermScreen {
    /// Sets or resets a DEC mode and applies its side effects.
    pub(super) fn change_mode(&mut self, mode: PrivateMode, enabled: bool) {
        match mode.raw() {
            DECCOLM => {
                if self.stored_modes.is_set(ALLOW_COLUMN_MODE) {
                    self.set_column_mode(enabled);
                }
            }
            6 => {
                self.set_origin(enabled);
                let home = self.home();
                self.move_cursor_to(home.0, home.1);
            }
            47 | 1047 => self.show_alternate(enabled, mode.raw() == 47),
            66 if enabled => self.term.set_keypad_application_mode(),
            66 => self.term.unset_keypad_application_mode(),
            69 => {
                if self.level >= 4 {
                    self.side_margins = enabled.then(|| (0, self.columns() - 1));
                }
            }
            1048 if enabled => self.save_cursor(),
            1048 => self.restore_cursor(),
            1049 => self.show_alternate_with_saved_cursor(enabled),
            kept if STORED_MODES.contains(&kept) => self.stored_modes.set_dec(kept, enabled),
            _ if enabled => self.term.set_private_mode(mode),
            _ => self.term.unset_private_mode(mode),
        }
    }

    /// Performs DECCOLM: clears the screen and the margins. Keeps the width, because only clients set it.
    fn set_column_mode(&mut self, enabled: bool) {
        self.stored_modes.set_dec(DECCOLM, enabled);
        self.side_margins = None;
        self.reset_margins();
        self.erase_rows(0..self.rows(), false);
        self.move_cursor_to(0, 0);
    }

    /// Performs modes 47 and 1047. Both keep the cursor position. Only 47 keeps the content of the alternate screen.
    fn show_alternate(&mut self, enabled: bool, keeps_contents: bool) {
        if self.has(TermMode::ALT_SCREEN) == enabled {
            return;
        }
        let cursor = self.term.grid().cursor.clone();
        if !enabled {
            self.alternate = keeps_contents.then(|| self.all_cells());
        }
        self.term.swap_alt();
        self.term.grid_mut().cursor = cursor;
        if enabled && let Some(cells) = self.alternate.take() {
            for (row, cells) in cells.into_iter().enumerate() {
                self.term.grid_mut()[line(row)][..].clone_from_slice(&cells);
            }
        }
    }

    fn all_cells(&self) -> Vec<Vec<alacritty_terminal::term::cell::Cell>> {
        let columns = self.columns();
        (0..self.rows()).map(|row| self.term.grid()[line(row)][..Column(columns)].to_vec()).collect()
    }

    /// Performs mode 1049: saves the cursor of the main screen, and restores it with the main screen.
    fn show_alternate_with_saved_cursor(&mut self, enabled: bool) {
        if self.has(TermMode::ALT_SCREEN) == enabled {
            return;
        }
        self.alternate = None;
        if enabled {
            self.saved_origin[0] = self.origin();
        } else {
            // `set_origin` moves the cursor, so call it before the swap of the screens.
            self.set_origin(self.saved_origin[0]);
        }
        self.term.swap_alt();
    }

    /// Returns whether a DEC mode is set; `None` for unknown modes.
    fn dec_mode(&self, mode: u16) -> Option<bool> {
        let flag = match mode {
            1 => TermMode::APP_CURSOR,
            6 => TermMode::ORIGIN,
            7 => TermMode::LINE_WRAP,
            25 => TermMode::SHOW_CURSOR,
            47 | 1047 | 1049 => TermMode::ALT_SCREEN,
            66 => TermMode::APP_KEYPAD,
            1000 => TermMode::MOUSE_REPORT_CLICK,
            1002 => TermMode::MOUSE_DRAG,
            1003 => TermMode::MOUSE_MOTION,
            1004 => TermMode::FOCUS_IN_OUT,
            1005 => TermMode::UTF8_MOUSE,
            1006 => TermMode::SGR_MOUSE,
            1007 => TermMode::ALTERNATE_SCROLL,
            1042 => TermMode::URGENCY_HINTS,
            2004 => TermMode::BRACKETED_PASTE,
            12 => return Some(self.term.cursor_style().blinking),
            69 => return (self.level >= 4).then_some(self.side_margins.is_some()),
            // The reply follows the held-back output, when the mode is already reset.
            2026 => return Some(false),
            other => return self.stored_modes.dec_mode(other),
        };
        Some(self.has(flag))
    }

    /// Replies to DECRQM for a DEC mode.
    pub(super) fn report_dec_mode(&self, mode: u16) {
        let state = match mode {
            // DECANM: there is no VT52 mode. DECARM: the terminal does not control key repeat.
            2 | 8 => ModeState::AlwaysOn,
            // DECHCCM: the screen shows all columns.
            60 => ModeState::AlwaysOff,
            mode => self.dec_mode(mode).into(),
        };
        self.report_mode_state("?", mode, state);
    }

    /// Replies to DECRQM for an ANSI mode.
    pub(super) fn report_ansi_mode(&self, mode: u16) {
        let state = match mode {
            4 => Some(self.has(TermMode::INSERT)).into(),
            20 => Some(self.has(TermMode::LINE_FEED_NEW_LINE)).into(),
            mode if ALWAYS_OFF_MODES.contains(&mode) => ModeState::AlwaysOff,
            mode => self.stored_modes.ansi_mode(mode).into(),
        };
        self.report_mode_state("", mode, state);
    }

    fn report_mode_state(&self, marker: &str, mode: u16, state: ModeState) {
        // DECRQM requires conformance level 3.
        if self.level >= 3 {
            self.outbox.reply(format!("\x1b[{marker}{mode};{}$y", state as u8).as_bytes());
        }
    }

    /// Performs XTSAVE. Excludes the choice of screen, because the transcript is not notified of a restored screen.
    pub(super) fn save_modes(&mut self, modes: &[u16]) {
        for mode in modes.iter().filter(|mode| !matches!(mode, 47 | 1047 | 1049)) {
            if let Some(on) = self.dec_mode(*mode) {
                self.stored_modes.saved.insert(*mode, on);
            }
        }
    }

    /// Performs XTRESTORE. Modes that were not saved stay unchanged.
    pub(super) fn restore_modes(&mut self, modes: &[u16]) {
        for mode in modes {
            if let Some(on) = self.stored_modes.saved.get(mode).copied()
                && self.dec_mode(*mode) != Some(on)
            {
                self.change_mode(private_mode(*mode), on);
            }
        }
    }
}

/// Returns the emulator's representation of a mode.
fn private_mode(mode: u16) -> PrivateMode {
    use alacritty_terminal::vte::ansi::NamedPrivateMode as Named;
    const NAMED: [Named; 17] = [
        Named::CursorKeys,
        Named::ColumnMode,
        Named::Origin,
        Named::LineWrap,
        Named::BlinkingCursor,
        Named::ShowCursor,
        Named::ReportMouseClicks,
        Named::ReportCellMouseMotion,
        Named::ReportAllMouseMotion,
        Named::ReportFocusInOut,
        Named::Utf8Mouse,
        Named::SgrMouse,
        Named::AlternateScroll,
        Named::UrgencyHints,
        Named::SwapScreenAndSetRestoreCursor,
        Named::BracketedPaste,
        Named::SyncUpdate,
    ];
    NAMED.into_iter().find(|named| *named as u16 == mode).map_or(PrivateMode::Unknown(mode), PrivateMode::Named)
}
