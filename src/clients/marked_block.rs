//! A block of lines between two marks in a file that belongs to others.

use std::ops::Range;

use super::edit::Outcome;
use super::text::{Splice, Unreadable, apply_splices, line_end, line_start, next_line};

/// The marks of a block. Only the lines between them change.
pub(super) struct MarkedBlock {
    /// The line before the block.
    pub(super) begin: &'static str,
    /// The beginning of that line, in all versions.
    pub(super) begin_mark: &'static str,
    /// The line after the block.
    pub(super) end: &'static str,
}

impl MarkedBlock {
    /// Adds the block to the text of a file, or replaces it.
    ///
    /// # Errors
    /// If the marks are incomplete.
    pub(super) fn add(&self, text: &str, lines: &str) -> Result<(Outcome, String), Unreadable> {
        let line_end = line_end(text);
        let block = format!("{}\n{lines}{}\n", self.begin, self.end).replace('\n', line_end);
        if let Some(range) = self.find(text)? {
            let previous = &text[range.clone()];
            if previous.trim_end() == block.trim_end() {
                return Ok((Outcome::Kept, text.to_owned()));
            }
            let previous = previous.to_owned();
            return Ok((Outcome::Changed { previous }, apply_splices(text, vec![Splice::new(range, block)])));
        }
        let gap = match text {
            "" => "",
            text if text.ends_with('\n') => line_end,
            _ => &line_end.repeat(2),
        };
        Ok((Outcome::Added, format!("{text}{gap}{block}")))
    }

    /// Removes the block and the empty line before it.
    ///
    /// # Errors
    /// If the marks are incomplete.
    pub(super) fn remove(&self, text: &str) -> Result<(Outcome, String), Unreadable> {
        let Some(range) = self.find(text)? else { return Ok((Outcome::Absent, text.to_owned())) };
        let before = line_start(text, range.start.saturating_sub(1));
        let start = if text[before..range.start].trim().is_empty() { before } else { range.start };
        Ok((Outcome::Removed, apply_splices(text, vec![Splice::new(start..range.end, "")])))
    }

    /// Returns the lines of the block with its marks.
    fn find(&self, text: &str) -> Result<Option<Range<usize>>, Unreadable> {
        let at_line = |mark: &str, from: usize| {
            let found = text[from..].match_indices(mark).map(|(position, _)| from + position);
            found.into_iter().find(|position| line_start(text, *position) == *position)
        };
        let Some(start) = at_line(self.begin_mark, 0) else { return Ok(None) };
        let Some(end) = at_line(self.end, start) else {
            return Err(Unreadable::at(text, start, format!("the block has no end, a line '{}'", self.end)));
        };
        if let Some(second) = at_line(self.begin_mark, start + 1) {
            return Err(Unreadable::at(text, second, "there is a second block; remove one of them"));
        }
        Ok(Some(start..next_line(text, end)))
    }
}
