//! Parts of the output, cut to a size that a reader can take.

use std::ops::Range;

use super::{Excerpt, Limit, Part};
use crate::history::{History, Zone, ceil_char_boundary, floor_char_boundary};
use crate::lines::{as_printed, settled};

/// Returns `part` of `history`. What full-screen programs drew is no part of it.
pub(super) fn of(history: &History, part: Part, input_offset: u64, limit: Limit) -> Excerpt {
    let (asked, from, text) = match part {
        Part::From(offset) => (offset, offset, Text::between(history, offset..history.end(), |_, _| true)),
        Part::SinceInput => {
            let typed = |start, zone| zone == Zone::Input && start <= input_offset;
            let text = Text::between(history, input_offset..history.end(), |start, zone| !typed(start, zone));
            (input_offset, input_offset, text)
        }
        Part::Tail(count) => tail(history, count),
    };
    let dropped = asked < history.start() && from < history.start();
    cut(history, &text, dropped, limit, settled)
}

/// Returns what stands in `range` and in zones that are `wanted`, as it was printed.
pub(super) fn as_printed_in(history: &History, range: Range<u64>, wanted: Zone, limit: Limit) -> Excerpt {
    let dropped = range.start < history.start();
    let end = range.end;
    let text = Text::between(history, range, |_, zone| zone == wanted);
    let excerpt = cut(history, &text, dropped, limit, as_printed);
    Excerpt { next: excerpt.next.min(end), ..excerpt }
}

/// Cuts `text` to `limit` and has `shown` make it readable.
fn cut(history: &History, text: &Text, dropped: bool, limit: Limit, shown: fn(&str) -> String) -> Excerpt {
    let dropped_before = dropped.then_some(history.start());
    let end = history.end();
    let raw = text.raw.as_str();
    match limit {
        Limit::Head(most) | Limit::HeadAndTail(most) if raw.chars().nth(most).is_none() => {
            Excerpt { head: shown(raw), tail: None, left_out: 0, next: end, dropped_before }
        }
        Limit::Head(most) => {
            let cut = cut_before(raw, most);
            let left_out = raw[cut..].chars().count();
            Excerpt { head: shown(&raw[..cut]), tail: None, left_out, next: text.offset(cut, end), dropped_before }
        }
        Limit::HeadAndTail(most) => {
            let cut = cut_before(raw, most / 2);
            let resume = cut_after(raw, most - most / 2).max(cut);
            Excerpt {
                head: shown(&raw[..cut]),
                tail: Some(shown(&raw[resume..])),
                left_out: raw[cut..resume].chars().count(),
                next: text.offset(cut, end),
                dropped_before,
            }
        }
    }
}

/// The last `count` lines. Drawn lines do not count, so it may take more than one look back.
fn tail(history: &History, count: usize) -> (u64, u64, Text) {
    let mut reach = count;
    loop {
        let from = history.last_lines(reach);
        let mut text = Text::between(history, from..history.end(), |_, _| true);
        let lines = text.raw.lines().count();
        if lines < count && from > history.start() {
            reach = reach.saturating_mul(4);
            continue;
        }
        if let Some(surplus) = lines.checked_sub(count).filter(|surplus| *surplus > 0) {
            let skipped = text.raw.split_inclusive('\n').take(surplus).map(str::len).sum();
            text = text.without_first(skipped);
        }
        // A tail does not ask for what was dropped.
        return (history.start(), from, text);
    }
}

/// Text with what is needed to find the offset of each of its bytes.
struct Text {
    raw: String,
    /// Where in `raw` each piece begins, and its offset.
    pieces: Vec<(usize, u64)>,
}

impl Text {
    fn between(history: &History, range: Range<u64>, wanted: impl Fn(u64, Zone) -> bool) -> Self {
        let range = range.start.clamp(history.start(), history.end())..range.end;
        let mut text = Self { raw: String::new(), pieces: Vec::new() };
        for (piece, zone) in history.zones(range) {
            if zone != Zone::Alternate && wanted(piece.start, zone) {
                let (offset, read) = history.read(piece);
                text.pieces.push((text.raw.len(), offset));
                text.raw.push_str(&read);
            }
        }
        text
    }

    fn without_first(self, bytes: usize) -> Self {
        // Of pieces that are gone whole, the last one counts: it reaches to where the text now begins.
        let pieces = self.pieces.iter().map(|&(at, offset)| match at.checked_sub(bytes) {
            Some(at) => (at, offset),
            None => (0, offset + (bytes - at) as u64),
        });
        Self { pieces: pieces.collect(), raw: self.raw[bytes..].to_owned() }
    }

    fn offset(&self, at: usize, end: u64) -> u64 {
        let piece = self.pieces.iter().rev().find(|(begins, _)| *begins <= at);
        piece.map_or(end, |(begins, offset)| offset + (at - begins) as u64)
    }
}

/// Where to cut so that at most `most` characters stand before: behind a line, where there is one.
fn cut_before(text: &str, most: usize) -> usize {
    let limit = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    let line = text[..floor_char_boundary(text, limit)].rfind('\n').map(|newline| newline + 1);
    line.filter(|line| *line > limit / 2).unwrap_or(limit)
}

/// Where to cut so that at most `most` characters stand behind: before a line, where there is one.
fn cut_after(text: &str, most: usize) -> usize {
    let limit = text.char_indices().rev().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    let from = ceil_char_boundary(text, limit);
    let line = text[from..].find('\n').map(|newline| from + newline + 1);
    line.filter(|line| text.len() - *line > (text.len() - from) / 2).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(lines: usize) -> History {
        let mut history = History::new(1 << 20);
        for line in 0..lines {
            history.push_str(&format!("line {line}\n"));
        }
        history
    }

    #[test]
    fn a_short_part_is_whole() {
        let excerpt = of(&counted(3), Part::From(0), 0, Limit::HeadAndTail(1000));
        assert_eq!((excerpt.head.as_str(), excerpt.tail, excerpt.left_out), ("line 0\nline 1\nline 2\n", None, 0));
    }

    #[test]
    fn a_long_part_keeps_its_ends_and_says_what_is_missing() {
        let history = counted(1000);
        let excerpt = of(&history, Part::From(0), 0, Limit::HeadAndTail(100));
        let tail = excerpt.tail.unwrap();
        assert!(excerpt.head.ends_with("line 6\n"), "{}", excerpt.head);
        assert!(tail.starts_with("line 995\n") && tail.ends_with("line 999\n"), "{tail}");
        assert_eq!(excerpt.left_out, history.end() as usize - excerpt.head.len() - tail.len());
    }

    #[test]
    fn reading_on_from_where_it_was_cut_gives_everything_once() {
        let history = counted(500);
        let (mut whole, mut from) = (String::new(), 0);
        while from < history.end() {
            let excerpt = of(&history, Part::From(from), 0, Limit::Head(77));
            assert!(excerpt.next > from);
            whole.push_str(&excerpt.head);
            from = excerpt.next;
        }
        assert_eq!(whole, history.read(0..history.end()).1);
    }

    #[test]
    fn a_tail_has_exactly_so_many_lines_whatever_was_drawn_between() {
        let mut history = counted(100);
        history.begin_zone(Zone::Alternate);
        history.push_str(&"drawn\n".repeat(300));
        history.begin_zone(Zone::Output);
        history.push_str("after\n");
        let excerpt = of(&history, Part::Tail(3), 0, Limit::Head(1000));
        assert_eq!(excerpt.head, "line 98\nline 99\nafter\n");
        assert_eq!(of(&history, Part::Tail(1000), 0, Limit::Head(100_000)).head.lines().count(), 101);
    }
}
