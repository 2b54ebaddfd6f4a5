//! Excerpts: parts of the output, truncated to a size limit.
//!
//! A part may be a gigabyte long while its reader requests ten thousand characters. So ranges of offsets describe a
//! part, and only the required text at its two ends is read. The omitted middle is counted in bytes, because a count of
//! characters would require reading it.

use std::ops::Range;

use super::{Excerpt, Limit, Part};
use crate::history::{History, Zone, ceil_char_boundary, floor_char_boundary};
use crate::lines::{as_printed, render_line, settled};

/// Returns `part` of `history`, without output drawn by full-screen programs.
pub(super) fn read_part(history: &History, part: Part, input_offset: u64, limit: Limit) -> Excerpt {
    let history_start = history.start();
    let (pieces, dropped_before) = match part {
        Part::From(offset) | Part::RawFrom(offset) => {
            (Pieces::from(history, offset, |_, _| true), (offset < history_start).then_some(history_start))
        }
        Part::SinceInput => {
            return read_since_input(history, input_offset..history.end(), input_offset, limit, settled);
        }
        Part::New { from, reach, .. } => return read_new(history, from, reach, limit),
        // A tail does not include dropped output.
        Part::Tail(count) => (Pieces::from(history, history_start, |_, _| true).last_lines(history, count), None),
    };
    let format = match part {
        Part::RawFrom(_) => str::to_owned,
        // Clients join pages, so keep the spaces at the ends of lines.
        Part::From(_) => as_printed,
        Part::SinceInput | Part::New { .. } | Part::Tail(_) => settled,
    };
    read_limited(history, &pieces, history.end(), dropped_before, limit, format)
}

/// Returns the text within `range`, without the echo of the input at `input_offset`.
pub(super) fn read_since_input(
    history: &History,
    range: Range<u64>,
    input_offset: u64,
    limit: Limit,
    format: fn(&str) -> String,
) -> Excerpt {
    let (start, end) = (range.start, range.end.max(range.start));
    let is_typed = |start, zone| zone == Zone::Input && start <= input_offset;
    let pieces = Pieces::within(history, start..end, |start, zone| !is_typed(start, zone));
    let dropped_before = Some(history.start()).filter(|history_start| start < *history_start);
    read_limited(history, &pieces, end, dropped_before, limit, format)
}

/// Maximum number of bytes to read of a line before an offset, to find its new part.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Returns the output that is new to a client that has read up to `from`. Of a partly read line, returns the unread
/// part, or the whole line if the read part has changed.
fn read_new(history: &History, from: u64, reach: usize, limit: Limit) -> Excerpt {
    let history_start = history.start();
    let from = from.clamp(history_start, history.end());
    let search_start = from.saturating_sub(MAX_LINE_BYTES).max(history_start);
    let line_start = history.newline_from_end(search_start..from, 1).map_or(search_start, |newline| newline + 1);
    let text_in = |range: Range<u64>| {
        let pieces = Pieces::within(history, range.clone(), |_, _| true);
        pieces.head(history, usize::try_from(range.end - range.start).unwrap_or(usize::MAX)).raw
    };
    let read_text = text_in(line_start..from);
    let mut excerpt =
        read_limited(history, &Pieces::from(history, from, |_, _| true), history.end(), None, limit, str::to_owned);
    let (first_line, rest) = match excerpt.head.find('\n') {
        Some(end) => excerpt.head.split_at(end),
        None => (excerpt.head.as_str(), ""),
    };
    let (before, current) = (render_line(&read_text), render_line(&(read_text.clone() + first_line)));
    let known = before.text_in_columns(0..before.width());
    let is_continued = current.width() >= before.width() && current.text_in_columns(0..before.width()) == known;
    let begin = if is_continued { before.width() } else { 0 };
    let new_text = current.text_in_columns(begin..current.width().max(begin));
    let head = format!("{}{}", new_text.trim_end(), settled(rest));
    excerpt.before = settled(&text_in(line_start.saturating_sub(reach as u64).max(history_start)..line_start));
    if is_continued {
        excerpt.before.push_str(&known);
    }
    excerpt.head = head;
    excerpt.tail = excerpt.tail.map(|tail| settled(&tail));
    excerpt
}

/// Joins lines to an excerpt of at most `limit`.
pub(super) fn join_lines(lines: impl Iterator<Item = String>, end: u64, limit: Limit) -> Excerpt {
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.trim_end();
    let (Limit::Head(max_chars) | Limit::HeadAndTail(max_chars)) = limit;
    if text.chars().nth(max_chars).is_none() {
        return Excerpt::from_text(text.to_owned(), end);
    }
    let (head, tail) = match limit {
        Limit::Head(_) => (cut_before(text, max_chars), text.len()),
        Limit::HeadAndTail(_) => (cut_before(text, max_chars / 2), cut_after(text, max_chars - max_chars / 2)),
    };
    let left_out = (tail - head) as u64;
    let tail = matches!(limit, Limit::HeadAndTail(_)).then(|| text[tail..].to_owned());
    Excerpt { tail, left_out, ..Excerpt::from_text(text[..head].to_owned(), end) }
}

/// Maximum total size of the texts, in bytes.
const MAX_PIECES_BYTES: usize = 4 << 20;

/// Returns the settled text with the trailing spaces of an unfinished last line. The spaces may be part of a question
/// that a pattern matches.
pub(super) fn settle_keeping_spaces(raw: &str) -> String {
    let mut text = settled(raw);
    if !text.is_empty() && !text.ends_with([' ', '\n']) {
        text.extend(raw.chars().rev().take_while(|sign| *sign == ' '));
    }
    text
}

/// Returns the settled text of each range, shortened to its beginning and end if it is longer than `max_chars`
/// characters. Ranges beyond [`MAX_PIECES_BYTES`] in total are empty.
pub(super) fn read_ranges(history: &History, ranges: &[(u64, u64)], max_chars: usize) -> Vec<String> {
    let mut remaining = MAX_PIECES_BYTES;
    let text = |(begin, end): &(u64, u64)| {
        let pieces = Pieces::within(history, *begin..(*end).max(*begin), |_, _| true);
        let excerpt = read_limited(
            history,
            &pieces,
            *end,
            None,
            Limit::HeadAndTail(max_chars.min(remaining)),
            settle_keeping_spaces,
        );
        let text = match excerpt.tail {
            Some(tail) => format!("{}\n…\n{tail}", excerpt.head),
            None => excerpt.head,
        };
        remaining = remaining.saturating_sub(text.len());
        text
    };
    ranges.iter().map(text).collect()
}

/// Returns the printed text of `ranges`, in order, restricted to `output_zone`.
pub(super) fn read_printed(history: &History, ranges: &[Range<u64>], output_zone: Zone, limit: Limit) -> Excerpt {
    let history_start = history.start();
    let dropped_before = ranges.first().is_some_and(|range| range.start < history_start).then_some(history_start);
    let end = ranges.last().map_or(history_start, |range| range.end);
    let pieces =
        ranges.iter().flat_map(|range| Pieces::within(history, range.clone(), |_, zone| zone == output_zone).0);
    let pieces = Pieces(pieces.collect());
    read_limited(history, &pieces, end, dropped_before, limit, as_printed)
}

/// Reads at most `limit` of `pieces`, up to `end`, and formats the text with `format`.
fn read_limited(
    history: &History,
    pieces: &Pieces,
    end: u64,
    dropped_before: Option<u64>,
    limit: Limit,
    format: fn(&str) -> String,
) -> Excerpt {
    let max_chars = limit.chars();
    let text = pieces.head(history, max_chars.saturating_add(1));
    let raw = text.raw.as_str();
    if raw.chars().nth(max_chars).is_none() {
        return Excerpt { dropped_before, ..Excerpt::from_text(format(raw), end) };
    }
    let total = pieces.bytes();
    match limit {
        Limit::Head(_) => {
            let cut = cut_before(raw, max_chars);
            let left_out = total.saturating_sub(cut as u64);
            Excerpt { left_out, dropped_before, ..Excerpt::from_text(format(&raw[..cut]), text.offset(cut)) }
        }
        Limit::HeadAndTail(_) => {
            let cut = cut_before(raw, max_chars / 2);
            let end = pieces.tail(history, max_chars - max_chars / 2);
            let tail_start = cut_after(&end, max_chars - max_chars / 2);
            let kept_bytes = (cut + end.len() - tail_start) as u64;
            let (tail, left_out) = (Some(format(&end[tail_start..])), total.saturating_sub(kept_bytes));
            Excerpt { tail, left_out, dropped_before, ..Excerpt::from_text(format(&raw[..cut]), text.offset(cut)) }
        }
    }
}

/// Minimum number of bytes of a read, to avoid many small reads of multi-byte characters.
const MIN_READ_BYTES: u64 = 4096;

/// Ranges of a part, without its text.
struct Pieces(Vec<Range<u64>>);

impl Pieces {
    /// Returns the included ranges of the history after `start`, without text of full-screen programs.
    fn from(history: &History, start: u64, is_included: impl Fn(u64, Zone) -> bool) -> Self {
        Self::within(history, start..history.end(), is_included)
    }

    /// Returns the included ranges of the history within `range`, without text of full-screen programs.
    fn within(history: &History, range: Range<u64>, is_included: impl Fn(u64, Zone) -> bool) -> Self {
        let (start, end) = (range.start, range.end.min(history.end()));
        let mut start = start.clamp(history.start().min(end), end);
        if start > history.start() {
            // An arbitrary offset may be in the middle of a character.
            start = history.read(start..end.min(start + 8)).0;
        }
        let zones = history.zones(start..end);
        let is_included = zones.filter(|(piece, zone)| *zone != Zone::Alternate && is_included(piece.start, *zone));
        Self(is_included.map(|(piece, _)| piece).collect())
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|piece| piece.end - piece.start).sum()
    }

    /// Keeps the last `count` lines. An unfinished line is treated as one.
    fn last_lines(mut self, history: &History, count: usize) -> Self {
        let Some(last) = self.0.last() else { return self };
        if count == 0 {
            return Self(Vec::new());
        }
        // The newline at the end of the last line does not begin another line.
        let has_final_newline = history.newline_from_end(last.end - 1..last.end, 1).is_ok();
        let mut remaining = count + usize::from(has_final_newline);
        for index in (0..self.0.len()).rev() {
            match history.newline_from_end(self.0[index].clone(), remaining) {
                Ok(newline) => {
                    self.0[index].start = newline + 1;
                    self.0.drain(..index);
                    self.0.retain(|piece| !piece.is_empty());
                    return self;
                }
                Err(seen) => remaining -= seen,
            }
        }
        self
    }

    /// Reads at least `characters` from the beginning, or the whole text.
    fn head(&self, history: &History, characters: usize) -> Text {
        let mut text = Text { raw: String::new(), pieces: Vec::new() };
        let mut missing = characters as u64;
        for piece in &self.0 {
            let mut from = piece.start;
            while from < piece.end && missing > 0 {
                let to = piece.end.min(from.saturating_add(missing.max(MIN_READ_BYTES)));
                let (begins, read) = history.read(from..to);
                text.pieces.push((text.raw.len(), begins));
                text.raw.push_str(&read);
                missing = missing.saturating_sub(read.chars().count() as u64);
                // An empty read means that the disk failed: skip the range.
                from = if read.is_empty() { to } else { begins + read.len() as u64 };
            }
        }
        text
    }

    /// Reads at least `characters` from the end, or the whole text.
    fn tail(&self, history: &History, characters: usize) -> String {
        let mut portions: Vec<String> = Vec::new();
        let mut missing = characters as u64;
        'enough: for piece in self.0.iter().rev() {
            let mut to = piece.end;
            while to > piece.start {
                if missing == 0 {
                    break 'enough;
                }
                let from = piece.start.max(to.saturating_sub(missing.max(MIN_READ_BYTES)));
                let (begins, read) = history.read(from..to);
                missing = missing.saturating_sub(read.chars().count() as u64);
                to = if read.is_empty() { from } else { begins };
                portions.push(read);
            }
        }
        portions.iter().rev().map(String::as_str).collect()
    }
}

/// Text with a map from its bytes to offsets of the history.
struct Text {
    raw: String,
    /// Beginning of each piece in `raw`, and its offset.
    pieces: Vec<(usize, u64)>,
}

impl Text {
    fn offset(&self, at: usize) -> u64 {
        let piece = self.pieces.iter().rev().find(|(begins, _)| *begins <= at);
        piece.map_or(0, |(begins, offset)| offset + (at - begins) as u64)
    }
}

/// Returns the position after at most `max_chars` characters, preferably after a newline.
fn cut_before(text: &str, max_chars: usize) -> usize {
    let limit = text.char_indices().nth(max_chars).map_or(text.len(), |(at, _)| at);
    let line = text[..floor_char_boundary(text, limit)].rfind('\n').map(|newline| newline + 1);
    line.filter(|line| *line > limit / 2).unwrap_or(limit)
}

/// Returns the position before the last `max_chars` characters, preferably at the start of a line.
fn cut_after(text: &str, max_chars: usize) -> usize {
    let limit = text.char_indices().rev().nth(max_chars.saturating_sub(1)).map_or(0, |(at, _)| at);
    let from = ceil_char_boundary(text, limit);
    let line = text[from..].find('\n').map(|newline| from + newline + 1);
    line.filter(|line| text.len() - *line > (text.len() - from) / 2).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::history::MIN_HOT_BYTES;

    fn numbered_lines(lines: usize) -> History {
        let mut history = History::new(1 << 20);
        for line in 0..lines {
            history.push_str(&format!("line {line}\n"));
        }
        history
    }

    #[test]
    fn short_part_is_complete() {
        let excerpt = read_part(&numbered_lines(3), Part::From(0), 0, Limit::HeadAndTail(1000));
        assert_eq!((excerpt.head.as_str(), excerpt.tail, excerpt.left_out), ("line 0\nline 1\nline 2\n", None, 0));
    }

    #[test]
    fn long_part_keeps_its_ends_and_names_the_gap() {
        let history = numbered_lines(1000);
        let excerpt = read_part(&history, Part::From(0), 0, Limit::HeadAndTail(100));
        let tail = excerpt.tail.unwrap();
        assert!(excerpt.head.ends_with("line 6\n"), "{}", excerpt.head);
        assert!(tail.starts_with("line 995\n") && tail.ends_with("line 999\n"), "{tail}");
        assert_eq!(excerpt.left_out, history.end() - (excerpt.head.len() + tail.len()) as u64);
    }

    #[test]
    fn reading_from_the_cut_returns_each_line_once() {
        let history = numbered_lines(500);
        let (mut text, mut from) = (String::new(), 0);
        while from < history.end() {
            let excerpt = read_part(&history, Part::From(from), 0, Limit::Head(77));
            assert!(excerpt.next > from);
            text.push_str(&excerpt.head);
            from = excerpt.next;
        }
        assert_eq!(text, history.read(0..history.end()).1);
    }

    #[test]
    fn tail_has_exactly_the_requested_number_of_lines() {
        let mut history = numbered_lines(100);
        history.begin_zone(Zone::Alternate);
        history.push_str(&"drawn\n".repeat(300));
        history.begin_zone(Zone::Output);
        history.push_str("after\n");
        let excerpt = read_part(&history, Part::Tail(3), 0, Limit::Head(1000));
        assert_eq!(excerpt.head, "line 98\nline 99\nafter\n");
        assert_eq!(read_part(&history, Part::Tail(1000), 0, Limit::Head(100_000)).head.lines().count(), 101);
    }

    #[test]
    fn only_the_ends_of_long_output_are_read() {
        let mut history = History::new(16 << 20);
        for line in 0..1_500_000 {
            history.push_str(&format!("line {line} of a long output\n"));
            if line % 1000 == 0 {
                history.settle();
            }
        }
        let held = history.end() - history.start();
        assert!(held > 30 << 20, "{held} bytes are held");
        let decompressed = |part, limit| {
            history.decompressed.store(0, Ordering::Relaxed);
            let excerpt = read_part(&history, part, 0, limit);
            assert!(excerpt.head.len() > 4000 && excerpt.left_out > 0 || part == Part::Tail(50));
            history.decompressed.load(Ordering::Relaxed)
        };
        // One block for the start, and one or two for ten thousand characters; the end is never compressed.
        assert!(decompressed(Part::From(0), Limit::HeadAndTail(10_000)) <= 3 * MIN_HOT_BYTES);
        assert!(decompressed(Part::From(held / 2), Limit::Head(10_000)) <= 4 * MIN_HOT_BYTES);
        assert_eq!(decompressed(Part::Tail(50), Limit::HeadAndTail(10_000)), 0);
        // A million lines are found by the counts of their blocks.
        assert!(decompressed(Part::Tail(1_000_000), Limit::HeadAndTail(10_000)) <= 5 * MIN_HOT_BYTES);
    }

    proptest! {
        #[test]
        fn excerpt_equals_the_cut_of_the_full_text(
            pieces in prop::collection::vec(("[a-zé漢\n ]{0,40}", 0..200usize, 0..4usize), 1..30),
            max_chars in 1..3000usize,
            lines in 0..200usize,
        ) {
            let zones = [Zone::Output, Zone::Input, Zone::Alternate, Zone::Prompt];
            let mut history = History::new(1 << 20);
            let mut text = String::new();
            for (piece, times, zone) in &pieces {
                history.begin_zone(zones[*zone]);
                let piece = piece.repeat(*times);
                history.push_str(&piece);
                if zones[*zone] != Zone::Alternate {
                    text.push_str(&piece);
                }
                history.settle();
            }
            let skipped = text.lines().count().saturating_sub(lines);
            let tail: String = text.split_inclusive('\n').skip(skipped).collect();
            for (part, text, format) in
                [(Part::From(0), &text, as_printed as fn(&str) -> String), (Part::Tail(lines), &tail, settled)]
            {
                let excerpt = read_part(&history, part, 0, Limit::HeadAndTail(max_chars));
                if text.chars().count() <= max_chars {
                    prop_assert_eq!(excerpt.head, format(text));
                    prop_assert_eq!((excerpt.tail, excerpt.left_out), (None, 0));
                } else {
                    let (cut, resume) = (cut_before(text, max_chars / 2), cut_after(text, max_chars - max_chars / 2));
                    prop_assert_eq!(excerpt.head, format(&text[..cut]));
                    prop_assert_eq!(excerpt.tail, Some(format(&text[resume..])));
                    prop_assert_eq!(excerpt.left_out, (resume - cut) as u64);
                }
            }
        }
    }
}
