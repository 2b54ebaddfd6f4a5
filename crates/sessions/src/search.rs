//! Line-by-line search in the output of a terminal.

use std::ops::Range;

use steplatch_host::HostedTerminal;
use steplatch_pattern::Pattern;
use steplatch_protocol::SearchMatch;
use steplatch_terminal::{Excerpt, Limit, Part, settled};

use steplatch_access::Redactor;

use crate::error::SessionError;

/// Maximum number of characters of one read.
const MAX_WINDOW_CHARS: usize = 1 << 20;

/// Maximum number of matches in a reply to a client.
pub(crate) const MAX_MATCHES: usize = 20;

/// Default number of lines before and after a match.
const DEFAULT_CONTEXT_LINES: u32 = 2;

/// Maximum number of lines before and after a match.
const MAX_CONTEXT_LINES: u32 = 50;

/// The matches of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchResults {
    pub(crate) matches: Vec<SearchMatch>,
    /// Offset to continue from, if there may be more matches.
    pub(crate) next: Option<u64>,
    /// Offset of the oldest stored output, if it is after the start of the search.
    pub(crate) lost_before: Option<u64>,
}

/// Searches the output after `offset`. The pattern must also match the masked text, so that it cannot reveal a secret.
/// Returns at most `max_bytes` bytes and `max_matches` lines.
pub(crate) async fn search(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    source: &str,
    context: Option<u32>,
    offset: u64,
    max_bytes: usize,
    max_matches: usize,
) -> Result<SearchResults, SessionError> {
    let pattern = Pattern::new(source).map_err(|error| error.to_string())?;
    let context = context.unwrap_or(DEFAULT_CONTEXT_LINES).min(MAX_CONTEXT_LINES) as usize;
    let mut results = SearchResults::default();
    let (mut from, mut result_bytes) = (offset, 0);
    loop {
        let read = terminal.read(Part::RawFrom(from), Limit::Head(MAX_WINDOW_CHARS)).await?;
        results.lost_before = results.lost_before.or(read.dropped_before);
        let window = Window::new(&read, from);
        let (lines, text) = (&window.lines, &window.text);
        for (index, line) in lines.iter().enumerate() {
            let line_text = &text[line.text_range.clone()];
            if pattern.find_at(line_text, 0).map_err(|error| error.to_string())?.is_none() {
                continue;
            }
            let masked = secrets.masked_portion(text, line.text_range.clone());
            if pattern.find_at(&masked, 0).map_err(|error| error.to_string())?.is_none() {
                continue;
            }
            let offset = window.offset(terminal, line.begin).await?;
            let (first, last) = (index.saturating_sub(context), (index + context).min(lines.len() - 1));
            let context_text = secrets.masked_portion(text, lines[first].text_range.start..lines[last].text_range.end);
            result_bytes += context_text.len();
            if results.matches.len() == max_matches || (result_bytes > max_bytes && !results.matches.is_empty()) {
                results.next = Some(offset);
                return Ok(results);
            }
            results.matches.push(SearchMatch { offset, text: context_text });
        }
        if window.is_last || read.next <= from {
            return Ok(results);
        }
        // The next window begins with the last line if that line continues after this window.
        let next = match window.continued_line {
            Some(begin) => window.offset(terminal, begin).await?,
            None => read.next,
        };
        // A remote host may report any offset, and an earlier one would repeat the search forever.
        if next <= from {
            return Ok(results);
        }
        from = next;
    }
}

/// A part of the output, with its lines in their final form.
#[derive(Debug)]
struct Window<'r> {
    /// The output as printed.
    raw: &'r str,
    /// The offset.
    begin: u64,
    /// True if no output is missing in the window, such as the drawing of a full-screen program.
    is_whole: bool,
    is_last: bool,
    text: String,
    lines: Vec<Line>,
    /// Start in `raw` of the line that continues after the window.
    continued_line: Option<usize>,
}

/// A line of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Start in the printed output.
    begin: usize,
    /// Range in the text.
    text_range: Range<usize>,
}

impl<'r> Window<'r> {
    fn new(read: &'r Excerpt, from: u64) -> Self {
        let begin = read.dropped_before.map_or(from, |dropped| dropped.max(from));
        let (raw, is_last) = (read.head.as_str(), read.left_out == 0);
        let (mut text, mut lines, mut position) = (String::with_capacity(raw.len()), Vec::new(), 0);
        for line in raw.split('\n') {
            let text_start = text.len();
            text.push_str(&settled(line));
            lines.push(Line { begin: position, text_range: text_start..text.len() });
            text.push('\n');
            position += line.len() + 1;
        }
        // A window of one long line has no other line to end with.
        let continued_line = if !is_last && lines.len() > 1 { lines.pop().map(|line| line.begin) } else { None };
        let is_whole = read.next == begin + raw.len() as u64;
        Self { raw, begin, is_whole, is_last, text, lines, continued_line }
    }

    /// Returns the offset of the line that begins at `position`.
    async fn offset(&self, terminal: &HostedTerminal, position: usize) -> Result<u64, SessionError> {
        if self.is_whole || position == 0 {
            return Ok(self.begin + position as u64);
        }
        let before = self.raw[..position].chars().count();
        Ok(terminal.read(Part::RawFrom(self.begin), Limit::Head(before)).await?.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str, left_out: u64) -> Excerpt {
        let next = 10 + head.len() as u64;
        Excerpt { head: head.to_owned(), tail: None, left_out, next, ..Excerpt::default() }
    }

    fn lines(head: &str, left_out: u64) -> Vec<(usize, String)> {
        let read = read(head, left_out);
        let window = Window::new(&read, 10);
        window.lines.iter().map(|line| (line.begin, window.text[line.text_range.clone()].to_owned())).collect()
    }

    #[test]
    fn window_omits_an_unfinished_last_line() {
        let line = |begin: usize, text: &str| (begin, text.to_owned());
        assert_eq!(lines("a\nbc\n", 0), [line(0, "a"), line(2, "bc"), line(5, "")]);
        assert_eq!(lines("a\nbc", 9), [line(0, "a")]);
        assert_eq!(lines("abc", 9), [line(0, "abc")]);
        assert_eq!(lines("get  10%\rget 100%\ndone", 0), [line(0, "get 100%"), line(18, "done")]);
    }
}
