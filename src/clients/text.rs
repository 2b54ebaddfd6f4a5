//! Edits of text at a few positions.

use std::fmt;
use std::ops::Range;

/// A range of text, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Splice {
    pub(super) fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        Self { range, text: text.into() }
    }

    pub(super) fn insert(position: usize, text: impl Into<String>) -> Self {
        Self::new(position..position, text)
    }
}

/// Returns `text` with `splices` applied in any order. The splices must not overlap.
pub(super) fn apply_splices(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.range.start);
    let mut out = String::with_capacity(text.len() + splices.iter().map(|splice| splice.text.len()).sum::<usize>());
    let mut position = 0;
    for Splice { range, text: replacement } in splices {
        out.push_str(&text[position..range.start]);
        out.push_str(&replacement);
        position = range.end;
    }
    out.push_str(&text[position..]);
    out
}

/// Splits a byte order mark from the text of a document. Some editors write such a mark.
pub(super) fn split_mark(text: &str) -> (&str, &str) {
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    text.split_at(start)
}

/// Returns the line end of text, as found at its first line.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(newline) if text[..newline].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Returns the beginning of the line that contains `position`.
pub(super) fn line_start(text: &str, position: usize) -> usize {
    text[..position].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the beginning of the line after the line that contains `position`.
pub(super) fn next_line(text: &str, position: usize) -> usize {
    text[position..].find('\n').map_or(text.len(), |newline| position + newline + 1)
}

/// Returns whether text has only whitespace.
pub(super) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Returns the whitespace at the beginning of a line.
pub(super) fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Error for text that the client cannot read, or that does not permit the change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Unreadable {
    /// Line and column, counted from 1, if the problem has a position.
    place: Option<(usize, usize)>,
    problem: String,
}

impl Unreadable {
    pub(super) fn at(text: &str, position: usize, problem: impl Into<String>) -> Self {
        let position = text.floor_char_boundary(position);
        let line = text[..position].matches('\n').count() + 1;
        let column = text[line_start(text, position)..position].chars().count() + 1;
        Self { place: Some((line, column)), problem: problem.into() }
    }

    pub(super) fn without_place(problem: impl Into<String>) -> Self {
        Self { place: None, problem: problem.into() }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(formatter, "line {line}, column {column}: {}", self.problem),
            None => formatter.write_str(&self.problem),
        }
    }
}
