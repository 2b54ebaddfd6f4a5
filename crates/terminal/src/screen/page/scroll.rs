//! Moves of the scroll region's content: rows up and down, columns left and right.
//!
//! IND, RI, SU, SD, IL and DL as in ECMA-48; DECIC, DECDC, DECBI and DECFI as in DEC STD 070. Without left and right
//! margins, the emulator moves the rows and keeps the rows that scroll off at the top in its scrollback.

use std::ops::Range;

use alacritty_terminal::index::Column;
use alacritty_terminal::vte::ansi::Handler as _;

use super::{XtermScreen, line};

/// Direction and distance of a shift of cells.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shift {
    Left(usize),
    Right(usize),
}

impl XtermScreen {
    /// Moves the cursor down, or scrolls at the bottom margin.
    pub(super) fn index(&mut self) {
        let (row, column) = self.cursor_position();
        if self.side_margins.is_none() {
            if row == self.bottom {
                self.record_scrolled(1);
            }
            return self.term.linefeed();
        }
        if row == self.bottom {
            if self.is_between_side_margins(column) {
                self.scroll_rows_up(self.top, 1);
            }
        } else if row + 1 < self.rows() {
            self.term.grid_mut().cursor.point.line += 1;
        }
    }

    /// Scrolls the rows from `from` to the bottom margin up.
    pub(super) fn scroll_rows_up(&mut self, from: usize, count: usize) {
        match self.side_margins {
            None if from == self.top => {
                self.record_scrolled(count);
                self.term.scroll_up(count);
            }
            None => self.scroll_whole_rows(from, |page| page.term.delete_lines(count)),
            Some((left, right)) => {
                let rows = from..self.bottom + 1;
                if !self.may_draw(rows.len() * (right + 1 - left)) {
                    return;
                }
                let count = count.min(rows.len());
                for row in rows.start..rows.end - count {
                    self.copy_cells(row + count, row, left..right + 1);
                }
                self.blank_cells(rows.end - count..rows.end, left..right + 1);
                self.clear_split_halves_in(rows);
            }
        }
    }

    /// Scrolls the rows from `from` to the bottom margin down.
    pub(super) fn scroll_rows_down(&mut self, from: usize, count: usize) {
        match self.side_margins {
            None if from == self.top => self.term.scroll_down(count),
            None => self.scroll_whole_rows(from, |page| page.term.insert_blank_lines(count)),
            Some((left, right)) => {
                let rows = from..self.bottom + 1;
                if !self.may_draw(rows.len() * (right + 1 - left)) {
                    return;
                }
                let count = count.min(rows.len());
                for row in (rows.start + count..rows.end).rev() {
                    self.copy_cells(row - count, row, left..right + 1);
                }
                self.blank_cells(rows.start..rows.start + count, left..right + 1);
                self.clear_split_halves_in(rows);
            }
        }
    }

    /// Scrolls in the emulator starting at row `from`. Moves the cursor there temporarily, because the emulator scrolls
    /// from the cursor's row.
    fn scroll_whole_rows(&mut self, from: usize, scroll: impl FnOnce(&mut Self)) {
        let cursor = self.term.grid().cursor.point;
        self.term.grid_mut().cursor.point.line = line(from);
        scroll(self);
        self.term.grid_mut().cursor.point = cursor;
    }

    fn copy_cells(&mut self, from: usize, to: usize, columns: Range<usize>) {
        let columns = Column(columns.start)..Column(columns.end);
        let cells = self.term.grid()[line(from)][columns.clone()].to_vec();
        self.term.grid_mut()[line(to)][columns].clone_from_slice(&cells);
    }

    fn blank_cells(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let blank = self.blank();
        for row in rows {
            self.term.grid_mut()[line(row)][Column(columns.start)..Column(columns.end)].fill(blank.clone());
        }
    }

    pub(super) fn clear_split_halves_in(&mut self, rows: Range<usize>) {
        for row in rows {
            self.clear_split_halves(row);
        }
    }

    /// Shifts the cells of a row between two columns. Cells that leave the range are lost.
    pub(super) fn shift_cells(&mut self, row: usize, from: usize, to: usize, shift: Shift) {
        let blank = self.blank();
        let cells = &mut self.term.grid_mut()[line(row)][Column(from)..Column(to + 1)];
        match shift {
            Shift::Left(count) => {
                let count = count.min(cells.len());
                cells.rotate_left(count);
                let remaining = cells.len() - count;
                cells[remaining..].fill(blank);
            }
            Shift::Right(count) => {
                let count = count.min(cells.len());
                cells.rotate_right(count);
                cells[..count].fill(blank);
            }
        }
        self.clear_split_halves(row);
    }

    fn shift_columns(&mut self, from: usize, shift: Shift) {
        let right = self.left_and_right().1;
        if !self.may_draw((self.bottom + 1 - self.top) * self.columns()) {
            return;
        }
        for row in self.top..=self.bottom {
            self.shift_cells(row, from, right, shift);
        }
    }

    /// Performs SL and SR: shifts the whole scroll region.
    pub(super) fn shift_area(&mut self, shift: Shift) {
        if self.is_in_area(self.cursor_position()) {
            self.shift_columns(self.left_and_right().0, shift);
        }
    }

    /// Performs DECIC.
    pub(super) fn insert_columns(&mut self, count: usize) {
        let position = self.cursor_position();
        if self.is_in_area(position) {
            self.shift_columns(position.1, Shift::Right(count));
        }
    }

    /// Performs DECDC.
    pub(super) fn delete_columns(&mut self, count: usize) {
        let position = self.cursor_position();
        if self.is_in_area(position) {
            self.shift_columns(position.1, Shift::Left(count));
        }
    }

    /// Performs DECBI: moves a column back, or shifts the region at the left margin.
    pub(super) fn back_index(&mut self) {
        let (row, column) = self.cursor_position();
        let left_margin = self.left_and_right().0;
        if column == left_margin {
            if self.is_in_area((row, column)) {
                self.shift_columns(left_margin, Shift::Right(1));
            }
        } else {
            self.move_cursor_to(row, column.saturating_sub(1));
        }
    }

    /// Performs DECFI: moves a column forward, or shifts the region at the right margin.
    pub(super) fn forward_index(&mut self) {
        let (row, column) = self.cursor_position();
        let (left, right) = self.left_and_right();
        if column == right {
            if self.is_in_area((row, column)) {
                self.shift_columns(left, Shift::Left(1));
            }
        } else {
            self.move_cursor_to(row, column + 1);
        }
    }
}
