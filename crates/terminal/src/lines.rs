//! Renders the final text of lines.
//!
//! A line of history may contain overwritten text (progress bars, edited command lines). These functions interpret `\r`
//! and `\x08` like a screen and return the text that remains visible.

use unicode_width::UnicodeWidthChar as _;

/// Columns between tab stops.
const TAB_INTERVAL: usize = 8;

/// Filler of the second column of a wide character.
const WIDE_FILLER: char = '\0';

/// Filler of the columns of a tab after its first column.
const TAB_FILLER: char = '\x01';

/// Returns `text` with the final content of every line, without trailing spaces.
#[must_use]
pub fn settled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        if line.contains(['\r', '\x08']) {
            out.push_str(render_line(line).text().trim_end());
        } else {
            out.push_str(line.trim_end());
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    out
}

/// Returns `text` as printed, except that overwritten lines have their final content.
#[must_use]
pub(crate) fn as_printed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.contains(['\r', '\x08']) {
            let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
            out.push_str(render_line(body).text().trim_end());
            out.push_str(end);
        } else {
            out.push_str(line);
        }
    }
    out
}

/// A line after all overwriting, and the position of its cursor, in columns.
#[derive(Debug, Default)]
pub(crate) struct RenderedLine {
    /// Character of each column. The columns after the first one of a wide character or a tab have a filler.
    cells: Vec<char>,
    /// Combining characters, by their columns.
    combining: Vec<(usize, char)>,
    column: usize,
    ends_with_return: bool,
}

impl RenderedLine {
    /// Returns the column of the cursor, counted from 0.
    pub(crate) fn column(&self) -> usize {
        self.column
    }

    /// Returns the number of written columns.
    pub(crate) fn width(&self) -> usize {
        self.cells.len()
    }

    /// Empties the line.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.combining.clear();
        (self.column, self.ends_with_return) = (0, false);
    }

    /// Appends more of the line, without `\n`.
    pub(crate) fn put_all(&mut self, text: &str) {
        text.chars().for_each(|character| self.put(character));
    }

    fn put(&mut self, character: char) {
        match character {
            '\r' if self.ends_with_return => self.clear(),
            '\r' => self.column = 0,
            '\x08' => self.column = self.column.saturating_sub(1),
            '\t' => {
                let end = next_tab_stop(self.column);
                // Within the line, a tab moves the cursor and writes nothing.
                if self.column >= self.cells.len() {
                    self.cells.resize(self.column, ' ');
                    self.cells.push('\t');
                    self.cells.resize(end, TAB_FILLER);
                }
                self.column = end;
            }
            _ => match character.width().unwrap_or(1) {
                0 => self.combine(character),
                width => self.draw(character, width),
            },
        }
        self.ends_with_return = character == '\r';
    }

    fn draw(&mut self, character: char, width: usize) {
        let end = self.column + width;
        if self.column >= self.cells.len() {
            self.cells.resize(self.column, ' ');
            self.cells.push(character);
            self.cells.resize(end, WIDE_FILLER);
        } else {
            self.cells.resize(self.cells.len().max(end), ' ');
            // Blank the other half of an overwritten wide character.
            if self.cells[self.column] == WIDE_FILLER {
                self.cells[self.column - 1] = ' ';
            }
            if self.cells.get(end) == Some(&WIDE_FILLER) {
                self.cells[end] = ' ';
            }
            self.combining.retain(|(column, _)| !(self.column..end).contains(column));
            self.cells[self.column] = character;
            self.cells[self.column + 1..end].fill(WIDE_FILLER);
        }
        self.column = end;
    }

    fn combine(&mut self, character: char) {
        let Some(before) = self.column.checked_sub(1).filter(|before| *before < self.cells.len()) else { return };
        let column = if self.cells[before] == WIDE_FILLER { before - 1 } else { before };
        self.combining.push((column, character));
    }

    /// Returns the text in a range of columns. Spaces fill the range after the end of the line, and replace half of a
    /// wide character.
    pub(crate) fn text_in_columns(&self, columns: std::ops::Range<usize>) -> String {
        let mut out = String::with_capacity(columns.len());
        let mut column = columns.start;
        while column < columns.end {
            let cell = self.cells.get(column).copied().unwrap_or(' ');
            let follows = |filler: char, end: usize| {
                end <= columns.end
                    && self.cells.get(column + 1..end).is_some_and(|rest| rest.iter().all(|filled| *filled == filler))
            };
            let end = match cell {
                '\t' if follows(TAB_FILLER, next_tab_stop(column)) => next_tab_stop(column),
                cell if cell.width() == Some(2) && follows(WIDE_FILLER, column + 2) => column + 2,
                _ => column + 1,
            };
            let is_whole =
                end > column + 1 || (!matches!(cell, '\t' | WIDE_FILLER | TAB_FILLER) && cell.width() != Some(2));
            out.push(if is_whole { cell } else { ' ' });
            if is_whole && !self.combining.is_empty() {
                out.extend(self.combining.iter().filter(|(at, _)| *at == column).map(|(_, combining)| combining));
            }
            column = end;
        }
        out
    }

    fn text(&self) -> String {
        self.text_in_columns(0..self.cells.len())
    }
}

/// Returns the column of the first tab stop after a column.
pub(crate) fn next_tab_stop(column: usize) -> usize {
    (column / TAB_INTERVAL + 1) * TAB_INTERVAL
}

/// Renders one line without `\n`.
pub(crate) fn render_line(line: &str) -> RenderedLine {
    let mut out = RenderedLine::default();
    out.put_all(line);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_tabs_and_accents_take_screen_columns() {
        assert_eq!(settled("漢字\rab字\n"), "ab字\n");
        assert_eq!(settled("漢字\ra\n"), "a 字\n");
        assert_eq!(settled("a漢\x08b"), "a b");
        assert_eq!(settled("e\u{301}x\x08\x08o"), "ox");
        assert_eq!(settled("a\tb\rA"), "A\tb");
        assert_eq!(settled("a\tb\r\x08A\tB"), "A\tB", "a tab moves the cursor and overwrites nothing");
        assert_eq!(settled("a\tb\x08\x08\x08xy"), "a     xyb");
    }

    #[test]
    fn progress_bar_shows_its_last_state() {
        assert_eq!(settled("get:  10%\rget: 100%\ndone\n"), "get: 100%\ndone\n");
    }

    #[test]
    fn shorter_text_overwrites_only_the_start_of_a_line() {
        assert_eq!(settled("abcdef\rxy"), "xycdef");
    }

    #[test]
    fn erased_line_starts_over() {
        assert_eq!(settled("abcdef\r\rxy"), "xy");
    }

    #[test]
    fn backspaces_move_back_and_spaces_erase() {
        assert_eq!(settled("lx\x08 \x08s\n"), "ls\n");
        assert_eq!(settled("\x08\x08a"), "a");
    }

    #[test]
    fn as_printed_keeps_trailing_spaces() {
        assert_eq!(as_printed("a  \n\n\tb "), "a  \n\n\tb ");
        assert_eq!(as_printed("get:  10%\rget: 100%\nno end"), "get: 100%\nno end");
    }

    #[test]
    fn trailing_spaces_are_cut_and_empty_lines_kept() {
        assert_eq!(settled("a  \n\n  b \n"), "a\n\n  b\n");
    }
}
