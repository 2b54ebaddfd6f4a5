//! Changes of a text at a few places, which leave all else as it is.

use std::fmt;
use std::ops::Range;

/// A piece of a text, and what comes in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Splice {
    pub(super) fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        Self { range, text: text.into() }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Self {
        Self::new(at..at, text)
    }
}

/// Returns `text` with `splices`, which do not overlap, in any order.
pub(super) fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.range.start);
    let mut out = String::with_capacity(text.len() + splices.iter().map(|splice| splice.text.len()).sum::<usize>());
    let mut at = 0;
    for Splice { range, text: new } in splices {
        out.push_str(&text[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// How the lines of a text end: as its first one does.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Where the line of `at` begins.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Where the line after that of `at` begins.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Whether there is nothing to be seen in it.
pub(super) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// The blanks at the beginning of a line.
pub(super) fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// A text that is not what a client reads, or that can not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Unreadable {
    /// Line and column, from 1 on, where there is a place.
    place: Option<(usize, usize)>,
    problem: String,
}

impl Unreadable {
    pub(super) fn at(text: &str, at: usize, problem: impl Into<String>) -> Self {
        let at = text.floor_char_boundary(at);
        let line = text[..at].matches('\n').count() + 1;
        let column = text[line_start(text, at)..at].chars().count() + 1;
        Self { place: Some((line, column)), problem: problem.into() }
    }

    pub(super) fn whole(problem: impl Into<String>) -> Self {
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
