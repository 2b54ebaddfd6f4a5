//! Motions of the cursor and its saved position.
//!
//! Motions that begin inside the margins stop at them (DEC STD 070), except for HPR and VPR. The emulator stores the
//! saved state, except for origin mode.

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Handler as _, NamedPrivateMode};

use super::XtermScreen;

impl XtermScreen {
    /// Moves relative to the start of the last relative motion, past margins (HPR, VPR).
    pub(super) fn move_by(&mut self, (rows, columns): (usize, usize)) {
        let (row, column) = self.moved_from;
        let (last_row, last_column) = match self.origin() {
            true => (self.bottom, self.left_and_right().1),
            false => (self.rows() - 1, self.columns() - 1),
        };
        self.move_cursor_to((row + rows).min(last_row), (column + columns).min(last_column));
    }

    /// Returns the target column of a carriage return. A cursor left of the left margin stays left of it.
    pub(super) fn line_start(&self) -> usize {
        let left_margin = self.left_and_right().0;
        if self.cursor_position().1 < left_margin && !self.origin() { 0 } else { left_margin }
    }

    /// Moves back to the left margin at most, or to previous lines with reverse wraparound.
    pub(super) fn step_back(&mut self, mut count: usize) {
        let wraps = self.stored_modes.reverse_wrap() && self.has(TermMode::LINE_WRAP);
        let (mut row, mut column) = self.cursor_position();
        if wraps && self.term.grid().cursor.input_needs_wrap {
            // The logical position of the cursor is after the last column.
            count -= 1;
        }
        let (left, right) = self.left_and_right();
        // Limit the motion to one round of the screen.
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
        self.move_cursor_to(row, column);
    }

    pub(super) fn tab_forward(&mut self, count: usize) {
        let (_, column) = self.cursor_position();
        let right = self.left_and_right().1;
        let last = if column <= right { right } else { self.columns() - 1 };
        let stops = (column + 1..last).filter(|column| self.tabs[*column]);
        let last_stop = stops.take(count).enumerate().last();
        let target = match last_stop {
            Some((index, stop)) if index + 1 == count => stop,
            _ => last,
        };
        self.term.grid_mut().cursor.point.column = Column(target.max(column));
    }

    pub(super) fn save_cursor(&mut self) {
        let screen_index = self.screen_index();
        self.saved_before = (self.term.grid().saved_cursor.clone(), self.saved_origin[screen_index]);
        self.saved_origin[screen_index] = self.origin();
        self.term.save_cursor_position();
    }

    pub(super) fn restore_cursor(&mut self) {
        let origin = self.saved_origin[self.screen_index()];
        self.set_origin(origin);
        self.term.restore_cursor_position();
        let wraps = self.term.grid().cursor.input_needs_wrap;
        let (row, column) = self.cursor_position();
        self.move_cursor_to(row, column);
        self.term.grid_mut().cursor.input_needs_wrap = wraps;
    }

    pub(super) fn set_origin(&mut self, enabled: bool) {
        match enabled {
            true => self.term.set_private_mode(NamedPrivateMode::Origin.into()),
            false => self.term.unset_private_mode(NamedPrivateMode::Origin.into()),
        }
    }
}
