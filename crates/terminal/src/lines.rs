//! Computes what a line looked like in the end.
//!
//! A line of history may have been written over (progress bars, edited command lines). These
//! functions play `\r` and `\x08` back the way a screen would and return what remained visible.

/// Returns `text` with every line as it looked when it was finished, trailing blanks cut.
#[must_use]
pub fn settled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        if line.contains(['\r', '\x08']) {
            out.push_str(overlaid(line).text().trim_end());
        } else {
            out.push_str(line.trim_end());
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    out
}

/// Returns `text` as it was printed, except that lines which were written over look as they did in the end.
#[must_use]
pub(crate) fn as_printed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.contains(['\r', '\x08']) {
            let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
            out.push_str(overlaid(body).text().trim_end());
            out.push_str(end);
        } else {
            out.push_str(line);
        }
    }
    out
}

/// A line after everything was written over it, and the position of its cursor.
#[derive(Debug, Default)]
pub(crate) struct RenderedLine {
    cells: Vec<char>,
    column: usize,
}

impl RenderedLine {
    /// The characters that are left of the cursor.
    pub(crate) fn before_cursor(&self) -> impl Iterator<Item = char> + '_ {
        self.cells.iter().copied().chain(std::iter::repeat(' ')).take(self.column)
    }

    /// Whether there is anything at or behind the cursor.
    pub(crate) fn reaches_past_cursor(&self) -> bool {
        self.cells.len() > self.column
    }

    fn text(&self) -> String {
        self.cells.iter().collect()
    }
}

/// Plays one line (no `\n`) back. Columns count characters: wide and combining ones are not distinguished here, which
/// matters only where a line with them is written over.
pub(crate) fn overlaid(line: &str) -> RenderedLine {
    let mut out = RenderedLine::default();
    let mut returned = false;
    for character in line.chars() {
        match character {
            '\r' if returned => out.cells.clear(),
            '\r' => out.column = 0,
            '\x08' => out.column = out.column.saturating_sub(1),
            _ => {
                if out.column < out.cells.len() {
                    out.cells[out.column] = character;
                } else {
                    out.cells.resize(out.column, ' ');
                    out.cells.push(character);
                }
                out.column += 1;
            }
        }
        returned = character == '\r';
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_bar_shows_its_last_state() {
        assert_eq!(settled("get:  10%\rget: 100%\ndone\n"), "get: 100%\ndone\n");
    }

    #[test]
    fn a_shorter_text_leaves_the_rest_of_the_longer_one_standing() {
        assert_eq!(settled("abcdef\rxy"), "xycdef");
    }

    #[test]
    fn an_erased_line_begins_anew() {
        assert_eq!(settled("abcdef\r\rxy"), "xy");
    }

    #[test]
    fn backspaces_move_back_and_blanks_wipe() {
        assert_eq!(settled("lx\x08 \x08s\n"), "ls\n");
        assert_eq!(settled("\x08\x08a"), "a");
    }

    #[test]
    fn what_was_printed_keeps_its_blanks_and_its_end() {
        assert_eq!(as_printed("a  \n\n\tb "), "a  \n\n\tb ");
        assert_eq!(as_printed("get:  10%\rget: 100%\nno end"), "get: 100%\nno end");
    }

    #[test]
    fn trailing_blanks_are_cut_and_empty_lines_kept() {
        assert_eq!(settled("a  \n\n  b \n"), "a\n\n  b\n");
    }
}
