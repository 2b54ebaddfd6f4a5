//! Everything a terminal has printed, as text, by position.
//!
//! Owns the text of one terminal with its escapes removed: compact, bounded by a
//! byte budget, and addressed by *offsets*, which count bytes of text since the
//! terminal opened and never move. The newest part is kept as it is, for waits
//! to search in; older parts are compressed blocks; the oldest are dropped once
//! the budget is spent, and readers are told where the text now begins.
//!
//! Two control characters stay in the text because lines need them to be read
//! back: `\r` (the line is written over from its start, twice: the line was
//! erased first) and `\x08` (one cell back). [`lines::settled`](crate::lines)
//! turns them into what a person saw in the end.

use std::collections::VecDeque;
use std::ops::Range;

/// How much of the newest text is kept uncompressed, at least, once there is as much.
pub(crate) const HOT: usize = 128 * 1024;

/// How much longer than its budget the text may be that a history holds.
const LONGEST_TO_BUDGET: usize = 4;

/// What a stretch of text is, so far as the terminal could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// What programs print. Everything is, where no shell integration says otherwise.
    Output,
    /// The shell's prompt.
    Prompt,
    /// A command line being typed: the echo of what was sent, and its editing.
    Input,
    /// Drawn by a full-screen program on the alternate screen.
    Alternate,
}

/// The text of one terminal since it was opened.
#[derive(Debug)]
pub(crate) struct History {
    sealed: VecDeque<Sealed>,
    sealed_bytes: usize,
    sealed_text: usize,
    hot: String,
    /// Offset of the first byte of `hot`.
    hot_start: u64,
    /// Where each zone begins, in order; the last one is still open.
    zones: VecDeque<(u64, Zone)>,
    budget: usize,
}

/// A block of older text: LZ4 block format, <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>.
#[derive(Debug)]
struct Sealed {
    start: u64,
    length: usize,
    newlines: usize,
    compressed: Box<[u8]>,
}

impl Sealed {
    fn text(&self) -> String {
        let bytes = lz4_flex::block::decompress(&self.compressed, self.length)
            .expect("a block that this process compressed decompresses");
        String::from_utf8(bytes).expect("blocks are cut between characters")
    }
}

impl History {
    /// Begins an empty history that holds at most about `budget` bytes of compressed text
    /// besides the newest 128 to 256 KiB.
    #[must_use]
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            sealed: VecDeque::new(),
            sealed_bytes: 0,
            sealed_text: 0,
            hot: String::new(),
            hot_start: 0,
            zones: VecDeque::from([(0, Zone::Output)]),
            budget,
        }
    }

    /// Offset of the oldest text that is still held: 0 until the budget is spent.
    #[must_use]
    pub(crate) fn start(&self) -> u64 {
        self.sealed.front().map_or(self.hot_start, |block| block.start)
    }

    /// Offset just behind the newest text.
    #[must_use]
    pub(crate) fn end(&self) -> u64 {
        self.hot_start + self.hot.len() as u64
    }

    /// Appends one character.
    pub(crate) fn push(&mut self, character: char) {
        self.hot.push(character);
    }

    /// Appends text.
    pub(crate) fn push_str(&mut self, text: &str) {
        self.hot.push_str(text);
    }

    /// Whether the next character begins a line.
    #[must_use]
    pub(crate) fn at_line_start(&self) -> bool {
        self.hot.is_empty() || self.hot.ends_with('\n')
    }

    /// Returns the line being written, as far back as it is uncompressed.
    #[must_use]
    pub(crate) fn open_line(&self) -> &str {
        let start = self.hot.rfind('\n').map_or(0, |newline| newline + 1);
        &self.hot[start..]
    }

    /// Returns the zone that new text belongs to.
    #[must_use]
    pub(crate) fn zone(&self) -> Zone {
        self.zones.back().map_or(Zone::Output, |&(_, zone)| zone)
    }

    /// Makes all text from here on part of `zone`.
    pub(crate) fn begin_zone(&mut self, zone: Zone) {
        let end = self.end();
        match self.zones.back_mut() {
            Some((_, last)) if *last == zone => {}
            Some((start, last)) if *start == end => {
                // Nothing was written in the zone that ends here: it never was.
                *last = zone;
                let doubled = self.zones.len() >= 2 && self.zones[self.zones.len() - 2].1 == zone;
                if doubled {
                    self.zones.pop_back();
                }
            }
            _ => self.zones.push_back((end, zone)),
        }
    }

    /// Makes the stretch that is being written part of `zone`: it turns out to be something else.
    pub(crate) fn turn_zone(&mut self, zone: Zone) {
        if let Some((_, last)) = self.zones.back_mut() {
            *last = zone;
        }
    }

    /// Returns the zones that lie in `range`, clipped to it, in order.
    pub(crate) fn zones(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Zone)> + '_ {
        let first = self.zones.partition_point(|&(start, _)| start <= range.start).saturating_sub(1);
        let end = self.end();
        (first..self.zones.len())
            .map_while(move |index| {
                let (start, zone) = self.zones[index];
                let stop = self.zones.get(index + 1).map_or(end, |&(next, _)| next);
                let clipped = start.max(range.start)..stop.min(range.end);
                (start < range.end).then_some((clipped, zone))
            })
            .filter(|(clipped, _)| !clipped.is_empty())
    }

    /// Compresses what is no longer new and drops what the budget no longer covers.
    ///
    /// Called once per portion of output rather than per character, so that pushing stays cheap.
    pub(crate) fn settle(&mut self) {
        while self.hot.len() >= 2 * HOT {
            let cut = floor_char_boundary(&self.hot, HOT);
            let text = &self.hot[..cut];
            let block = Sealed {
                start: self.hot_start,
                length: cut,
                newlines: text.bytes().filter(|&byte| byte == b'\n').count(),
                compressed: lz4_flex::block::compress(text.as_bytes()).into_boxed_slice(),
            };
            self.sealed_bytes += block.compressed.len();
            self.sealed_text += block.length;
            self.sealed.push_back(block);
            self.hot.drain(..cut);
            self.hot_start += cut as u64;
        }
        // Text of which little is left when it is compressed is still as long when it is read.
        let longest = self.budget.saturating_mul(LONGEST_TO_BUDGET);
        while self.sealed_bytes > self.budget || self.sealed_text > longest {
            let Some(oldest) = self.sealed.pop_front() else { break };
            self.sealed_bytes -= oldest.compressed.len();
            self.sealed_text -= oldest.length;
        }
        let start = self.start();
        while self.zones.len() >= 2 && self.zones[1].0 <= start {
            self.zones.pop_front();
        }
        // Marks without text between them would otherwise grow without a bound of their own.
        while self.zones.len() > MOST_ZONES {
            self.zones.pop_front();
        }
    }

    /// Returns the text of `range`, clipped to what is held and to whole characters,
    /// with the offset at which it begins.
    #[must_use]
    pub(crate) fn read(&self, range: Range<u64>) -> (u64, String) {
        let from = range.start.max(self.start());
        let to = range.end.min(self.end());
        let mut text = String::new();
        let mut begins = from;
        if from >= to {
            return (from.min(self.end()), text);
        }
        let mut take = |start: u64, block: &str| {
            let stop = start + block.len() as u64;
            if stop <= from || start >= to {
                return;
            }
            let low = ceil_char_boundary(block, from.saturating_sub(start) as usize);
            let high = floor_char_boundary(block, (to.min(stop) - start) as usize);
            if low < high {
                if text.is_empty() {
                    begins = start + low as u64;
                }
                text.push_str(&block[low..high]);
            }
        };
        for block in &self.sealed {
            if block.start < to && block.start + block.length as u64 > from {
                take(block.start, &block.text());
            }
        }
        take(self.hot_start, &self.hot);
        (begins, text)
    }

    /// Returns the newest text as it lies in memory, with the offset of its first byte.
    #[must_use]
    pub(crate) fn newest(&self) -> (u64, &str) {
        (self.hot_start, &self.hot)
    }

    /// Offset at which the last `count` lines begin. A line that is still open counts as one.
    #[must_use]
    pub(crate) fn last_lines(&self, count: usize) -> u64 {
        if count == 0 {
            return self.end();
        }
        // The newline that ends the last line does not begin another one.
        let mut wanted = count + usize::from(self.at_line_start());
        if let Some(position) = nth_newline_from_end(&self.hot, wanted) {
            return self.hot_start + position as u64 + 1;
        }
        wanted -= self.hot.bytes().filter(|&byte| byte == b'\n').count();
        for block in self.sealed.iter().rev() {
            if block.newlines >= wanted {
                let position = nth_newline_from_end(&block.text(), wanted)
                    .expect("a block has as many newlines as were counted when it was made");
                return block.start + position as u64 + 1;
            }
            wanted -= block.newlines;
        }
        self.start()
    }

    /// Bytes of memory held for text, without the fixed part.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.sealed_bytes + self.hot.capacity()
    }
}

/// More changes of zone than any budget of real text has: about 1.5 MiB of marks.
const MOST_ZONES: usize = 100_000;

fn nth_newline_from_end(text: &str, nth: usize) -> Option<usize> {
    text.bytes().enumerate().rev().filter(|&(_, byte)| byte == b'\n').nth(nth - 1).map(|(position, _)| position)
}

/// The largest index of a character's start that is not above `index`.
pub(crate) fn floor_char_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// The smallest index of a character's start that is not below `index`.
pub(crate) fn ceil_char_boundary(text: &str, index: usize) -> usize {
    (index.min(text.len())..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(lines: usize, budget: usize) -> History {
        let mut history = History::new(budget);
        for line in 0..lines {
            history.push_str(&format!("line {line}\n"));
            history.settle();
        }
        history
    }

    #[test]
    fn two_hundred_thousand_lines_are_all_there() {
        let history = filled(200_000, 16 << 20);
        assert_eq!(history.start(), 0);
        let (_, text) = history.read(0..history.end());
        for (line, read) in text.lines().enumerate() {
            assert_eq!(read, format!("line {line}"));
        }
        assert!(history.memory() < 2 << 20, "2 MB of text take {} bytes", history.memory());
    }

    #[test]
    fn endless_output_stays_within_its_budget_and_says_where_it_begins() {
        let history = filled(500_000, 64 * 1024);
        assert!(history.memory() < 1 << 20, "held {} bytes", history.memory());
        assert!(history.start() > 0);
        let (begins, text) = history.read(0..history.end());
        assert_eq!(begins, history.start());
        assert!(text.ends_with("line 499999\n"));
    }

    #[test]
    fn the_last_lines_are_found_in_new_and_in_old_text() {
        let history = filled(100_000, 16 << 20);
        for count in [1, 2, 50, 40_000, 99_999] {
            let (_, text) = history.read(history.last_lines(count)..history.end());
            assert_eq!(text.lines().count(), count);
            assert!(text.starts_with(&format!("line {}\n", 100_000 - count)));
        }
        assert_eq!(history.last_lines(1_000_000), 0);
    }

    #[test]
    fn an_open_line_counts_as_one() {
        let mut history = History::new(1024);
        history.push_str("one\ntwo\nthr");
        assert_eq!(history.read(history.last_lines(1)..history.end()).1, "thr");
        assert_eq!(history.read(history.last_lines(2)..history.end()).1, "two\nthr");
    }

    #[test]
    fn zones_are_found_by_range() {
        let mut history = History::new(1024);
        history.begin_zone(Zone::Prompt);
        history.push_str("$ ");
        history.begin_zone(Zone::Input);
        history.push_str("ls\n");
        history.begin_zone(Zone::Output);
        history.push_str("a b c\n");
        let zones: Vec<_> = history.zones(1..history.end()).collect();
        assert_eq!(zones, [(1..2, Zone::Prompt), (2..5, Zone::Input), (5..11, Zone::Output)]);
        assert_eq!(history.zones(11..11).count(), 0);
    }

    #[test]
    fn a_zone_without_text_leaves_no_trace() {
        let mut history = History::new(1024);
        for _ in 0..1000 {
            history.begin_zone(Zone::Prompt);
            history.begin_zone(Zone::Input);
            history.begin_zone(Zone::Output);
        }
        history.push('x');
        assert_eq!(history.zones(0..1).collect::<Vec<_>>(), [(0..1, Zone::Output)]);
    }

    proptest! {
        #[test]
        fn any_range_reads_what_was_written_there(
            pieces in prop::collection::vec(("[a-zé漢\n]{0,30}", 0..800usize), 1..60),
            low in any::<prop::sample::Index>(),
            high in any::<prop::sample::Index>(),
        ) {
            let mut history = History::new(usize::MAX);
            let mut whole = String::new();
            for (piece, times) in &pieces {
                let piece = piece.repeat(*times);
                history.push_str(&piece);
                whole.push_str(&piece);
                history.settle();
            }
            prop_assert_eq!(history.end(), whole.len() as u64);
            let (low, high) = (low.index(whole.len() + 1), high.index(whole.len() + 1));
            let (begins, text) = history.read(low as u64..high as u64);
            if low < high {
                let (from, to) = (ceil_char_boundary(&whole, low), floor_char_boundary(&whole, high));
                if from < to {
                    prop_assert_eq!(begins, from as u64);
                    prop_assert_eq!(&text, &whole[from..to]);
                } else {
                    prop_assert_eq!(&text, "");
                }
            } else {
                prop_assert_eq!(&text, "");
            }
        }
    }
}
