//! The line that the program is writing, and the cursor's column in the line.
//!
//! Motions of the cursor within a line write no text. They take effect with the next character: the history receives
//! backspaces for a motion to the left, the existing text for a motion to the right, and spaces after the end of the
//! line. Motions without a following character change nothing. This module renders the line only when it needs a
//! column, and renders each character once.

use crate::history::History;
use crate::lines::{RenderedLine, next_tab_stop};

/// Maximum number of columns of a tracked line. No person edits a longer line.
const MAX_COLUMNS: usize = 4096;

/// The line that the program is writing.
#[derive(Debug, Default)]
pub(super) struct OpenLine {
    /// The number of earlier lines. Consecutive lines may begin at the same offset.
    number: u64,
    /// Offset of its first character.
    start: u64,
    /// The rendered text from `start` to `rendered_to`.
    rendered: RenderedLine,
    /// Offset of the end of the rendered text; 0 before the first use.
    rendered_to: u64,
    /// True if the line is too long to track.
    is_too_long: bool,
    /// Column of the next character, if it does not follow the last character.
    target: Option<usize>,
    /// True if the line contains a tab, so that it may have more columns than characters.
    has_tabs: bool,
    /// True if the cursor has moved back in the line, so that an erase may remove text.
    is_rewound: bool,
    /// True if the line began in the middle of a row, or on a row with text.
    is_floating: bool,
    /// Number of columns of the screen; 0 if unknown. Without columns, no line wraps.
    columns: usize,
}

/// A part of a line that the screen shows in one row.
#[derive(Debug, Clone, Copy)]
struct Row {
    begin: usize,
    /// The column of the cursor in the line.
    cursor: usize,
    end: usize,
}

impl OpenLine {
    /// Sets the number of columns of the screen.
    pub(super) fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Returns the number of columns of the screen, or 0 if unknown.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Begins a line at the end of the history.
    pub(super) fn begin(&mut self, history: &History) {
        self.number += 1;
        self.start = history.end();
        if self.rendered_to != 0 {
            self.rendered.clear();
            self.rendered_to = 0;
        }
        self.target = None;
        (self.is_too_long, self.has_tabs, self.is_rewound, self.is_floating) = (false, false, false, false);
    }

    /// Records that the line begins in the middle of a row, or on a row with text.
    pub(super) fn set_floating(&mut self) {
        self.is_floating = true;
    }

    pub(super) fn is_floating(&self) -> bool {
        self.is_floating
    }

    /// Returns whether the cursor has moved since the last character.
    pub(super) fn is_moved(&self) -> bool {
        self.target.is_some()
    }

    /// Returns whether the line is wider than the screen.
    pub(super) fn is_wrapped(&mut self, history: &History) -> bool {
        !self.fits(history) && self.render(history) && self.rendered.width() > self.columns
    }

    /// Returns whether the cursor is after the last column of a row, where it stays until the next character.
    pub(super) fn is_full(&mut self, history: &History) -> bool {
        let is_shorter = !self.has_tabs && history.end() - self.start < self.columns as u64;
        if self.columns == 0 || self.is_moved() || is_shorter {
            return false;
        }
        self.column(history).is_some_and(|column| column > 0 && column % self.columns == 0)
    }

    /// Returns the number of rows of the line below the cursor.
    pub(super) fn rows_below(&mut self, history: &History) -> usize {
        if self.fits(history) || !self.is_moved() && !self.is_rewound {
            return 0;
        }
        let Some(row) = self.row(history).filter(|_| self.render(history)) else { return 0 };
        self.rendered.width().saturating_sub(row.end).div_ceil(self.columns)
    }

    /// Returns whether the row below the cursor contains only a space at its beginning. Line editors draw such a row
    /// after a full row, to move the cursor to the next row.
    pub(super) fn is_blank_below(&mut self, history: &History) -> bool {
        let Some(row) = self.row(history).filter(|_| self.render(history)) else { return false };
        let width = self.rendered.width();
        width == row.end + 1 && self.rendered.text_in_columns(row.end..width) == " "
    }

    /// Returns whether the next tab stop is certainly within the row.
    fn has_room_for_tab(&mut self, history: &History) -> bool {
        let is_short = !self.has_tabs && history.end() - self.start + 8 < self.columns as u64;
        self.columns == 0
            || is_short
            || self.row(history).is_some_and(|row| {
                next_tab_stop(row.cursor - row.begin) < self.columns && row.cursor - row.begin < self.columns - 1
            })
    }

    /// Returns whether the line is certainly no wider than the screen.
    fn fits(&self, history: &History) -> bool {
        self.columns == 0 || !self.has_tabs && history.end() - self.start <= self.columns as u64
    }

    /// Renders the text since the last call. Returns false for a line that is too long to track.
    fn render(&mut self, history: &History) -> bool {
        if self.is_too_long {
            return false;
        }
        let (hot_start, hot) = history.newest();
        let from = self.rendered_to.max(self.start);
        let Some(text) = from.checked_sub(hot_start).and_then(|at| hot.get(at as usize..)) else {
            self.is_too_long = true;
            return false;
        };
        self.rendered.put_all(text);
        self.rendered_to = history.end();
        self.is_too_long = self.rendered.width() > MAX_COLUMNS;
        !self.is_too_long
    }

    /// Returns the column of the cursor in the line.
    pub(super) fn column(&mut self, history: &History) -> Option<usize> {
        if let Some(target) = self.target {
            return Some(target);
        }
        self.render(history).then(|| self.rendered.column())
    }

    fn row(&mut self, history: &History) -> Option<Row> {
        let is_moved = self.is_moved();
        let column = self.column(history)?;
        if self.columns == 0 {
            return Some(Row { begin: 0, cursor: column, end: usize::MAX });
        }
        // After the last column of a row, the cursor stays on it until the next character.
        let is_full = !is_moved && column > 0 && column % self.columns == 0;
        let begin = if is_full { column - self.columns } else { column / self.columns * self.columns };
        Some(Row { begin, cursor: column.min(begin + self.columns - 1), end: begin + self.columns })
    }

    /// Moves the cursor to the first column of its row.
    pub(super) fn return_to_start(&mut self, history: &History) {
        if self.fits(history) {
            self.target = Some(0);
        } else if let Some(row) = self.row(history) {
            self.target = Some(row.begin);
        } else {
            self.target = Some(0);
        }
    }

    /// Moves the cursor to the left. In a line that is too long to track, moves by characters instead of columns.
    pub(super) fn move_left(&mut self, history: &mut History, count: usize) {
        match self.row(history) {
            Some(row) => self.target = Some(row.cursor.saturating_sub(count).max(row.begin)),
            None => (0..count.min(256)).for_each(|_| history.push('\x08')),
        }
        self.is_rewound = true;
    }

    /// Moves the cursor up. Returns false if the line has too few rows above the cursor.
    pub(super) fn move_up(&mut self, history: &History, count: usize) -> bool {
        let Some(row) = self.row(history) else { return false };
        let Some(target) = count.checked_mul(self.columns).and_then(|columns| row.begin.checked_sub(columns)) else {
            return false;
        };
        if self.columns == 0 {
            return false;
        }
        self.target = Some(target + row.cursor - row.begin);
        self.is_rewound = true;
        true
    }

    /// Moves the cursor to the right, at most to the last column.
    pub(super) fn move_right(&mut self, history: &History, count: usize) {
        if let Some(row) = self.row(history) {
            self.target = Some(row.cursor.saturating_add(count).min(row.end - 1));
        }
    }

    /// Moves the cursor to a column of its row, counted from 0.
    pub(super) fn move_to(&mut self, history: &History, column: usize) {
        if let Some(row) = self.row(history) {
            self.target = Some(row.begin.saturating_add(column).min(row.end - 1));
            self.is_rewound = true;
        }
    }

    /// Moves the cursor to the next tab stop, if it is within the line. Returns true for a tab stop within the line,
    /// and true if the row has room for the tab.
    pub(super) fn move_to_tab(&mut self, history: &History) -> (bool, bool) {
        let has_room = self.has_room_for_tab(history);
        (self.is_tab_stop_in_line(history), has_room)
    }

    fn is_tab_stop_in_line(&mut self, history: &History) -> bool {
        if !self.is_moved() && !self.is_rewound {
            self.has_tabs = true;
            return false;
        }
        if let Some(row) = self.row(history)
            && self.render(history)
            && row.cursor < self.rendered.width()
        {
            self.target = Some((row.begin + next_tab_stop(row.cursor - row.begin)).min(row.end - 1));
            return true;
        }
        self.has_tabs = true;
        false
    }

    /// Discards a motion.
    pub(super) fn discard_motion(&mut self) {
        self.target = None;
    }

    /// Moves the cursor to an earlier column of the line.
    pub(super) fn restore(&mut self, column: usize) {
        self.target = Some(column);
        self.is_rewound = true;
    }

    /// Returns the unique number of the line.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Writes the motion to the column of the next character.
    pub(super) fn write_motion(&mut self, history: &mut History) {
        let Some(target) = self.target.take() else { return };
        if target == 0 {
            // A return at the beginning of a line changes nothing. fish prints a return before each output.
            if history.at_line_start() {
                return;
            }
            if !history.newest().1.ends_with('\r') {
                history.push('\r');
            }
            self.is_rewound = true;
            return;
        }
        if !self.render(history) {
            return;
        }
        let cursor = self.rendered.column();
        if target < cursor {
            (target..cursor).for_each(|_| history.push('\x08'));
            self.is_rewound = true;
        } else if target > cursor {
            let between = self.rendered.text_in_columns(cursor..target.min(cursor + MAX_COLUMNS));
            history.push_str(&between);
        }
    }

    /// Erases from the cursor to the end of its row, or the entire row.
    pub(super) fn erase_to_end(&mut self, history: &mut History, entire_row: bool) {
        let at_end = !self.is_moved() && !self.is_rewound;
        if at_end && !entire_row || history.at_line_start() {
            return;
        }
        let Some(row) = self.row(history).filter(|_| self.render(history)) else { return };
        // After the last column, there is nothing to erase.
        let is_full = self.column(history) != Some(row.cursor);
        let (width, begin) = (self.rendered.width(), if entire_row { row.begin } else { row.cursor });
        if width <= begin || is_full && !entire_row {
            return;
        }
        let mut line = self.rendered.text_in_columns(0..begin);
        let continues_below = width > row.end;
        if continues_below {
            line.extend(std::iter::repeat_n(' ', row.end - begin));
            line.push_str(&self.rendered.text_in_columns(row.end..width));
        }
        history.push_str("\r\r");
        history.push_str(&line);
        // The first column of a row differs from the position after the previous row.
        let is_row_start = row.begin > 0 && row.cursor == row.begin;
        self.target = (row.cursor != begin || continues_below || is_row_start).then_some(row.cursor);
        self.is_rewound = continues_below;
    }

    /// Replaces the columns starting at `start` with `text`, without moving the cursor. A cursor after the last column of
    /// a row stays there if `text` ends there.
    fn replace(&mut self, history: &mut History, row: Row, start: usize, text: &str) {
        let Some(column) = self.column(history) else { return };
        let is_full = column != row.cursor;
        self.target = Some(start);
        self.write_motion(history);
        history.push_str(text);
        let ends_there = is_full && self.column(history) == Some(column);
        self.target = (!ends_there).then_some(row.cursor);
        self.is_rewound = true;
    }

    /// Erases from the beginning of the row to the cursor.
    pub(super) fn erase_to_cursor(&mut self, history: &mut History) {
        if let Some(row) = self.row(history).filter(|_| self.render(history)) {
            let width = self.rendered.width();
            if width > row.begin {
                let end = (row.cursor + 1).min(width);
                self.replace(history, row, row.begin, &" ".repeat(end - row.begin));
            }
        }
    }

    /// Erases `count` characters starting at the cursor.
    pub(super) fn erase_characters(&mut self, history: &mut History, count: usize) {
        if let Some(row) = self.row(history).filter(|_| self.render(history)) {
            let end = row.cursor.saturating_add(count).min(row.end).min(self.rendered.width());
            if end > row.cursor {
                self.replace(history, row, row.cursor, &" ".repeat(end - row.cursor));
            }
        }
    }

    /// Deletes `count` characters starting at the cursor; the following text of the row moves to the left.
    pub(super) fn delete_characters(&mut self, history: &mut History, count: usize) {
        if let Some(row) = self.row(history).filter(|_| self.render(history)) {
            let end = row.end.min(self.rendered.width());
            if end > row.cursor {
                let from = row.cursor.saturating_add(count).min(end);
                let following = self.rendered.text_in_columns(from..end) + &" ".repeat(from - row.cursor);
                self.replace(history, row, row.cursor, &following);
            }
        }
    }

    /// Inserts `count` spaces at the cursor; the following text of the row moves to the right.
    pub(super) fn insert_blanks(&mut self, history: &mut History, count: usize) {
        if let Some(row) = self.row(history).filter(|_| self.render(history)) {
            let width = self.rendered.width();
            if width > row.cursor {
                let count = count.min(row.end - row.cursor).min(MAX_COLUMNS);
                let end = width.min(row.end - count).max(row.cursor);
                let following = " ".repeat(count) + &self.rendered.text_in_columns(row.cursor..end);
                self.replace(history, row, row.cursor, &following);
            }
        }
    }
}
