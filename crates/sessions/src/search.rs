//! Searching the output of a terminal by line.

use steplatch_host::HostedTerminal;
use steplatch_pattern::Pattern;
use steplatch_protocol::SearchMatch;
use steplatch_terminal::{Limit, Part};

use steplatch_access::Redactor;

use crate::trouble::SessionError;

/// Characters that are read at once.
const WINDOW: usize = 1 << 20;

/// The most matches of a reply.
const MOST: usize = 20;

/// The default number of lines around a match, and the largest.
const CONTEXT: u32 = 2;
const MOST_CONTEXT: u32 = 50;

/// The matches of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SearchResults {
    pub(crate) matches: Vec<SearchMatch>,
    /// The position to search on from, where there may be more.
    pub(crate) next: Option<u64>,
}

/// Searches the output from `offset` on, with secrets masked before the pattern sees them: a pattern must not reveal
/// what a text does not. Returns at most `most` characters.
pub(crate) async fn search(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    source: &str,
    context: Option<u32>,
    offset: u64,
    most: usize,
) -> Result<SearchResults, SessionError> {
    let pattern = Pattern::new(source).map_err(|error| error.to_string())?;
    let context = context.unwrap_or(CONTEXT).min(MOST_CONTEXT) as usize;
    let mut found = SearchResults::default();
    let (mut from, mut size) = (offset, 0);
    loop {
        let window = terminal.read(Part::From(from), Limit::Head(WINDOW)).await?;
        let begin = window.dropped_before.map_or(from, |dropped| dropped.max(from));
        let is_last = window.left_out == 0;
        let lines = lines_of(&window.head, is_last);
        for (index, (start, line)) in lines.iter().enumerate() {
            if pattern.find_at(line, 0).map_err(|error| error.to_string())?.is_none() {
                continue;
            }
            let masked = secrets.masked_portion(&window.head, *start..start + line.len());
            if pattern.find_at(&masked, 0).map_err(|error| error.to_string())?.is_none() {
                continue;
            }
            let (first, last) = (index.saturating_sub(context), (index + context).min(lines.len() - 1));
            let range = lines[first].0..lines[last].0 + lines[last].1.len();
            let text = secrets.masked_portion(&window.head, range);
            size += text.len();
            if found.matches.len() == MOST || (size > most && !found.matches.is_empty()) {
                found.next = Some(begin + *start as u64);
                return Ok(found);
            }
            found.matches.push(SearchMatch { offset: begin + *start as u64, text });
        }
        if is_last || window.next <= from {
            return Ok(found);
        }
        // The last line of a window may go on behind it.
        let whole = lines.last().map_or(window.head.len(), |(start, line)| start + line.len() + 1);
        from = if whole > 1 { begin + whole as u64 } else { window.next };
    }
}

/// Returns the lines of a text with the positions at which they begin; the last one only where nothing follows.
fn lines_of(text: &str, is_last: bool) -> Vec<(usize, &str)> {
    let mut start = 0;
    let mut lines: Vec<(usize, &str)> = text
        .split('\n')
        .map(|line| {
            let at = start;
            start += line.len() + 1;
            (at, line)
        })
        .collect();
    // A window that is one long line is searched as it is.
    if !is_last && lines.len() > 1 {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_positions_and_the_last_one_of_a_window_is_left_for_the_next() {
        assert_eq!(lines_of("a\nbc\n", true), [(0, "a"), (2, "bc"), (5, "")]);
        assert_eq!(lines_of("a\nbc", false), [(0, "a")]);
        assert_eq!(lines_of("abc", false), [(0, "abc")]);
    }
}
