//! Motions of the cursor, and its saved position.
//!
//! Motions stop at margins when they begin inside of them (DEC STD 070); HPR
//! and VPR do not. The emulator has the saved state, except for origin mode.

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Handler as _, NamedPrivateMode};

use super::XtermScreen;

impl XtermScreen {
    /// Moves on from where the last relative motion began, past margins (HPR, VPR).
    pub(super) fn move_by(&mut self, (rows, columns): (usize, usize)) {
        let (row, column) = self.moved_from;
        let (last_row, last_column) = match self.origin() {
            true => (self.bottom, self.left_and_right().1),
            false => (self.rows() - 1, self.columns() - 1),
        };
        self.place((row + rows).min(last_row), (column + columns).min(last_column));
    }

    /// The column that a carriage return goes to: a cursor left of the left margin stays outside of it.
    pub(super) fn line_start(&self) -> usize {
        let left = self.left_and_right().0;
        if self.at().1 < left && !self.origin() { 0 } else { left }
    }

    /// Moves back, at most to the left margin, and with reverse-wraparound on to the line before.
    pub(super) fn step_back(&mut self, mut count: usize) {
        let wraps = self.stored_modes.reverse_wrap() && self.has(TermMode::LINE_WRAP);
        let (mut row, mut column) = self.at();
        if wraps && self.term.grid().cursor.input_needs_wrap {
            // The cursor is thought to be behind the last column.
            count -= 1;
        }
        let (left, right) = self.left_and_right();
        // No program means to go around the screen more than once.
        count = count.min(self.rows() * self.columns());
        if wraps && !self.may_draw(count) {
            return;
        }
        for _ in 0..count {
            let stop = if column >= left { left } else { 0 };
            if column > stop {
                column -= 1;
            } else if wraps {
                column = right;
                row = if row == self.top { self.bottom } else { row.checked_sub(1).unwrap_or(self.rows() - 1) };
            } else {
                break;
            }
        }
        self.place(row, column);
    }

    pub(super) fn tab_forward(&mut self, count: usize) {
        let (_, column) = self.at();
        let right = self.left_and_right().1;
        let last = if column <= right { right } else { self.columns() - 1 };
        let stops = (column + 1..last).filter(|column| self.tabs[*column]);
        let reached = stops.take(count).enumerate().last();
        let target = match reached {
            Some((index, stop)) if index + 1 == count => stop,
            _ => last,
        };
        self.term.grid_mut().cursor.point.column = Column(target.max(column));
    }

    pub(super) fn save_cursor(&mut self) {
        let which = self.which();
        self.saved_before = (self.term.grid().saved_cursor.clone(), self.saved_origin[which]);
        self.saved_origin[which] = self.origin();
        self.term.save_cursor_position();
    }

    pub(super) fn restore_cursor(&mut self) {
        let origin = self.saved_origin[self.which()];
        self.set_origin(origin);
        self.term.restore_cursor_position();
        let wraps = self.term.grid().cursor.input_needs_wrap;
        let (row, column) = self.at();
        self.place(row, column);
        self.term.grid_mut().cursor.input_needs_wrap = wraps;
    }

    pub(super) fn set_origin(&mut self, on: bool) {
        match on {
            true => self.term.set_private_mode(NamedPrivateMode::Origin.into()),
            false => self.term.unset_private_mode(NamedPrivateMode::Origin.into()),
        }
    }
}
