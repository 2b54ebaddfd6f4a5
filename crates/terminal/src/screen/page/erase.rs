//! Erases, and protection of cells from them (ED, EL, DECSED, DECSEL, DECSCA, SPA, EPA).

use std::ops::Range;

use alacritty_terminal::grid::GridCell as _;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::{ClearMode, Handler as _, LineClearMode};

use super::{PROTECTED, Protection, XtermScreen, line};

impl XtermScreen {
    pub(super) fn protect(&mut self, protection: Protection, enabled: bool) {
        if enabled || protection == Protection::Dec {
            self.protection = protection;
        }
        self.term.grid_mut().cursor.template.flags.set(PROTECTED, enabled);
    }

    /// Erases cells of a row. With `keep_protected`, skips protected cells.
    pub(super) fn erase(&mut self, row: usize, columns: Range<usize>, keep_protected: bool) {
        let blank = self.blank();
        let end = columns.end.min(self.columns());
        let start = columns.start.min(end);
        if !keep_protected && start == 0 && end == self.columns() {
            // Faster: the emulator erases only the written part of a row.
            let template = self.term.grid().cursor.template.clone();
            return self.term.grid_mut()[line(row)].reset(&template);
        }
        for cell in &mut self.term.grid_mut()[line(row)][Column(start)..Column(end)] {
            if !(keep_protected && cell.flags.contains(PROTECTED)) {
                *cell = blank.clone();
            }
        }
        self.clear_split_halves(row);
    }

    /// Clears halves of wide characters whose other half is erased.
    pub(super) fn clear_split_halves(&mut self, row: usize) {
        let columns = self.columns();
        let row = &mut self.term.grid_mut()[line(row)][..];
        for column in 0..columns {
            let is_left_half = row[column].flags.contains(Flags::WIDE_CHAR)
                && !row.get(column + 1).is_some_and(|next| next.flags.contains(Flags::WIDE_CHAR_SPACER));
            let is_right_half = row[column].flags.contains(Flags::WIDE_CHAR_SPACER)
                && !(column > 0 && row[column - 1].flags.contains(Flags::WIDE_CHAR));
            if is_left_half || is_right_half {
                row[column] = row[column].bg.into();
            }
        }
    }

    pub(super) fn erase_line(&mut self, mode: &LineClearMode, keep_protected: bool) {
        let (row, column) = self.cursor_position();
        let columns = match mode {
            LineClearMode::Right => column..self.columns(),
            LineClearMode::Left => 0..column + 1,
            LineClearMode::All => 0..self.columns(),
        };
        self.erase(row, columns, keep_protected);
    }

    pub(super) fn erase_rows(&mut self, rows: Range<usize>, keep_protected: bool) {
        for row in rows {
            self.erase(row, 0..self.columns(), keep_protected);
        }
    }

    pub(super) fn erase_screen(&mut self, mode: &ClearMode, keep_protected: bool) {
        let row = self.cursor_position().0;
        match mode {
            ClearMode::Below => {
                self.erase_line(&LineClearMode::Right, keep_protected);
                self.erase_rows(row + 1..self.rows(), keep_protected);
            }
            ClearMode::Above => {
                self.erase_rows(0..row, keep_protected);
                self.erase_line(&LineClearMode::Left, keep_protected);
            }
            ClearMode::All if keep_protected => self.erase_rows(0..self.rows(), true),
            // The emulator moves the rows to the scrollback, or clears the scrollback.
            ClearMode::All => {
                let is_written = |row: &usize| self.term.grid()[line(*row)][..].iter().any(|cell| !cell.is_empty());
                let written_rows = (0..self.rows()).rev().find(is_written).map_or(0, |last| last + 1);
                if !self.has(TermMode::ALT_SCREEN) {
                    self.scrolled += written_rows as u64;
                }
                self.term.clear_screen(ClearMode::All);
            }
            ClearMode::Saved => self.term.clear_screen(ClearMode::Saved),
        }
    }

    pub(super) fn erase_screen_selectively(&mut self, mode: u16) {
        let keep = self.protection == Protection::Dec;
        match mode {
            0 => self.erase_screen(&ClearMode::Below, keep),
            1 => self.erase_screen(&ClearMode::Above, keep),
            2 => self.erase_rows(0..self.rows(), keep),
            _ => {}
        }
    }

    pub(super) fn erase_line_selectively(&mut self, mode: u16) {
        let keep = self.protection == Protection::Dec;
        match mode {
            0 => self.erase_line(&LineClearMode::Right, keep),
            1 => self.erase_line(&LineClearMode::Left, keep),
            2 => self.erase_line(&LineClearMode::All, keep),
            _ => {}
        }
    }
}
