//! Text output with left and right margins: lines wrap at the right margin and continue at the left margin.

use alacritty_terminal::index::Column;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{Handler as _, NamedMode};
use unicode_width::UnicodeWidthChar as _;

use super::{Shift, XtermScreen, line};

impl XtermScreen {
    /// Writes a character with left and right margins.
    #[cold]
    pub(super) fn input_between_sides(&mut self, character: char, left: usize, right: usize) {
        let Some(width) = character.width() else { return };
        if width == 0 {
            self.term.input(character);
            return;
        }
        let wraps = self.has(TermMode::LINE_WRAP);
        if self.term.grid().cursor.input_needs_wrap && wraps {
            self.next_line(left);
        }
        let edge = |column: usize, last: usize| if column <= right { right } else { last };
        let last = self.columns() - 1;
        if width == 2 && self.cursor_position().1 == edge(self.cursor_position().1, last) {
            if !wraps {
                self.term.grid_mut().cursor.input_needs_wrap = true;
                return;
            }
            self.next_line(left);
        }
        let (row, column) = self.cursor_position();
        let edge = edge(column, last);
        let is_insert_mode = self.has(TermMode::INSERT);
        if is_insert_mode {
            self.shift_cells(row, column, edge, Shift::Right(width));
            self.term.unset_mode(NamedMode::Insert.into());
        }
        self.term.grid_mut().cursor.input_needs_wrap = false;
        self.term.input(character);
        if is_insert_mode {
            self.term.set_mode(NamedMode::Insert.into());
        }
        if column + width > edge {
            let cursor = &mut self.term.grid_mut().cursor;
            cursor.point.line = line(row);
            cursor.point.column = Column(edge);
            cursor.input_needs_wrap = true;
        }
    }

    pub(super) fn next_line(&mut self, left: usize) {
        self.index();
        let row = self.cursor_position().0;
        self.move_cursor_to(row, left);
    }
}
