//! The output of a terminal as text, by offset.
//!
//! Owns the text of one terminal with its escapes removed: compact, bounded by budgets of bytes, and addressed by
//! *offsets*. An offset counts bytes of text since the terminal opened, and never moves. The newest part stays
//! uncompressed, for waits to search in; older parts are compressed blocks. Beyond the memory budget the oldest blocks
//! move to disk, if there is a directory for them. Beyond the disk budget the history drops them, and readers learn
//! where the text now begins. A failing disk loses only the blocks on it.
//!
//! Two control characters stay in the text because readers of lines need them: `\r` (the following text overwrites the
//! line from its start; twice: after an erasure of the line) and `\x08` (one cell back).
//! [`lines::settled`](crate::lines) computes the final lines from them.

mod spill;

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use spill::{BlockPosition, Spill};

/// Minimum size of the uncompressed newest text, in bytes, if the history has that much.
pub(crate) const MIN_HOT_BYTES: usize = 128 * 1024;

/// Maximum length of a history's text, as a multiple of its budget.
const MAX_TEXT_PER_BUDGET: usize = 4;

/// Disk storage of the blocks that exceed the memory budget.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    /// Directory of the unnamed file.
    pub(crate) directory: PathBuf,
    /// Maximum size of the file, in bytes.
    pub(crate) budget: usize,
}

/// Kind of a stretch of text, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Output of programs, and all text without marks of a shell.
    Output,
    /// The shell's prompt.
    Prompt,
    /// A command line in progress: the echo of the input, and its editing.
    Input,
    /// Drawn by a full-screen program on the alternate screen.
    Alternate,
}

/// The text of one terminal since its opening.
#[derive(Debug)]
pub(crate) struct History {
    /// Older text, oldest first: `on_disk` blocks on disk, then blocks in memory.
    sealed: VecDeque<SealedBlock>,
    on_disk: usize,
    in_memory: BlockTotals,
    spilled: BlockTotals,
    hot: String,
    /// Offset of the first byte of `hot`.
    hot_start: u64,
    /// Beginning of each zone, in order; the last zone is still open.
    zones: VecDeque<(u64, Zone)>,
    budget: usize,
    disk: Option<Disk>,
    /// Created on first use: few terminals print that much.
    spill: Option<Spill>,
    /// True if a read from the disk failed. The next [`Self::settle`] drops the blocks on disk.
    has_read_error: AtomicBool,
    /// Number of bytes decompressed for readers, for tests.
    #[cfg(test)]
    pub(crate) decompressed: std::sync::atomic::AtomicUsize,
}

/// Total sizes of some blocks, in bytes.
#[derive(Debug, Default)]
struct BlockTotals {
    /// Size of the compressed blocks.
    compressed_bytes: usize,
    /// Size of the text.
    text_bytes: usize,
}

impl BlockTotals {
    fn add(&mut self, block: &SealedBlock) {
        self.compressed_bytes += block.content.length();
        self.text_bytes += block.length;
    }

    fn remove(&mut self, block: &SealedBlock) {
        self.compressed_bytes -= block.content.length();
        self.text_bytes -= block.length;
    }

    fn exceeds(&self, budget: usize) -> bool {
        // Limit the uncompressed size as well, because readers process it.
        self.compressed_bytes > budget || self.text_bytes > budget.saturating_mul(MAX_TEXT_PER_BUDGET)
    }
}

/// A block of older text: LZ4 block format, <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>.
#[derive(Debug)]
struct SealedBlock {
    start: u64,
    length: usize,
    newlines: usize,
    content: RetainedOutput,
}

/// Compressed bytes of a block, in memory or on disk.
#[derive(Debug)]
enum RetainedOutput {
    Memory(Box<[u8]>),
    Disk(BlockPosition),
}

impl RetainedOutput {
    fn length(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Disk(position) => position.length(),
        }
    }
}

impl SealedBlock {
    fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

impl History {
    /// Creates an empty history without a disk. The budget is about `budget` bytes of compressed text, in addition to
    /// the newest 128 to 256 KiB.
    #[must_use]
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            sealed: VecDeque::new(),
            on_disk: 0,
            in_memory: BlockTotals::default(),
            spilled: BlockTotals::default(),
            hot: String::new(),
            hot_start: 0,
            zones: VecDeque::from([(0, Zone::Output)]),
            budget,
            disk: None,
            spill: None,
            has_read_error: AtomicBool::new(false),
            #[cfg(test)]
            decompressed: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Adds disk storage for the blocks that exceed the memory budget.
    #[must_use]
    pub(crate) fn with_disk(self, disk: Option<Disk>) -> Self {
        Self { disk: disk.filter(|disk| disk.budget > 0), ..self }
    }

    /// Returns the offset of the oldest stored text: 0 until the budget is exceeded.
    #[must_use]
    pub(crate) fn start(&self) -> u64 {
        self.sealed.front().map_or(self.hot_start, |block| block.start)
    }

    /// Returns the offset after the newest text.
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

    /// Returns whether the next character begins a line.
    #[must_use]
    pub(crate) fn at_line_start(&self) -> bool {
        self.hot.is_empty() || self.hot.ends_with('\n')
    }

    /// Returns the uncompressed part of the current line.
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

    /// Begins `zone` at the end of the text.
    pub(crate) fn begin_zone(&mut self, zone: Zone) {
        let end = self.end();
        match self.zones.back_mut() {
            Some((_, last)) if *last == zone => {}
            Some((start, last)) if *start == end => {
                // Remove an empty zone.
                *last = zone;
                let is_repeated = self.zones.len() >= 2 && self.zones[self.zones.len() - 2].1 == zone;
                if is_repeated {
                    self.zones.pop_back();
                }
            }
            _ => self.zones.push_back((end, zone)),
        }
    }

    /// Changes the kind of the current zone.
    pub(crate) fn change_zone(&mut self, zone: Zone) {
        if let Some((_, last)) = self.zones.back_mut() {
            *last = zone;
        }
    }

    /// Returns the zones that overlap `range`, clipped to it, in order.
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

    /// Compresses older text, moves blocks beyond the memory budget to disk, and drops blocks beyond the disk budget.
    ///
    /// Call it once per portion of output, not per character.
    pub(crate) fn settle(&mut self) {
        if self.has_read_error.swap(false, Ordering::Relaxed) {
            self.drop_disk_blocks();
        }
        while self.hot.len() >= 2 * MIN_HOT_BYTES {
            let block_end = floor_char_boundary(&self.hot, MIN_HOT_BYTES);
            let text = &self.hot[..block_end];
            let block = SealedBlock {
                start: self.hot_start,
                length: block_end,
                newlines: text.bytes().filter(|&byte| byte == b'\n').count(),
                content: RetainedOutput::Memory(lz4_flex::block::compress(text.as_bytes()).into_boxed_slice()),
            };
            self.in_memory.add(&block);
            self.sealed.push_back(block);
            self.hot.drain(..block_end);
            self.hot_start += block_end as u64;
        }
        while self.in_memory.exceeds(self.budget) && self.on_disk < self.sealed.len() {
            if !self.spill_oldest() {
                // The text has no gaps: all blocks older than a dropped one are dropped, too.
                self.drop_disk_blocks();
                self.drop_oldest();
            }
        }
        let start = self.start();
        while self.zones.len() >= 2 && self.zones[1].0 <= start {
            self.zones.pop_front();
        }
        // Limit the number of zones.
        while self.zones.len() > MAX_ZONES {
            self.zones.pop_front();
        }
    }

    /// Moves the oldest block in memory to disk. Returns true on success.
    fn spill_oldest(&mut self) -> bool {
        let Some(disk) = &self.disk else { return false };
        let budget = disk.budget;
        if self.spill.is_none() {
            match Spill::new(&disk.directory, disk.budget) {
                Ok(spill) => self.spill = Some(spill),
                Err(error) => {
                    tracing::warn!(%error, folder = %disk.directory.display(), "failed to create the file for older output");
                    self.disk = None;
                    return false;
                }
            }
        }
        let Some(RetainedOutput::Memory(bytes)) = self.sealed.get_mut(self.on_disk).map(|block| &mut block.content)
        else {
            return false;
        };
        let bytes = std::mem::take(bytes);
        let position = loop {
            let Some(spill) = self.spill.as_mut().filter(|spill| spill.could_hold(bytes.len())) else { break None };
            if !spill.has_room_for(bytes.len()) {
                self.drop_oldest();
                continue;
            }
            match spill.write(&bytes) {
                Ok(position) => break Some(position),
                // On a full disk, the file keeps its current size.
                Err(error) if spill.stop_growing() => {
                    tracing::warn!(%error, "failed to write older output to disk: less of it is stored");
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to write older output to disk: its blocks are dropped");
                    self.disk = None;
                    break None;
                }
            }
        };
        // `drop_oldest` may have changed the index of the block.
        let block = &mut self.sealed[self.on_disk];
        block.content = RetainedOutput::Memory(bytes);
        let Some(position) = position else { return false };
        self.in_memory.remove(block);
        block.content = RetainedOutput::Disk(position);
        self.spilled.add(block);
        self.on_disk += 1;
        while self.spilled.exceeds(budget) && self.on_disk > 0 {
            self.drop_oldest();
        }
        true
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.sealed.pop_front() else { return };
        match oldest.content {
            RetainedOutput::Memory(_) => self.in_memory.remove(&oldest),
            RetainedOutput::Disk(position) => {
                self.spilled.remove(&oldest);
                self.on_disk -= 1;
                if let Some(spill) = &mut self.spill {
                    spill.drop_oldest(position);
                }
            }
        }
    }

    fn drop_disk_blocks(&mut self) {
        while self.on_disk > 0 {
            self.drop_oldest();
        }
    }

    /// Returns the text of a block; `None` if it is on a disk that fails.
    fn block_text(&self, block: &SealedBlock) -> Option<String> {
        #[cfg(test)]
        self.decompressed.fetch_add(block.length, Ordering::Relaxed);
        let text = match &block.content {
            RetainedOutput::Memory(bytes) => Ok(decompress(bytes, block.length).expect("a block in memory is intact")),
            // Do not trust bytes from a disk.
            RetainedOutput::Disk(position) => self.spill.as_ref()?.read(*position).and_then(|bytes| {
                decompress(&bytes, block.length).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
            }),
        };
        let log_error = |error: &std::io::Error| {
            if !self.has_read_error.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "failed to read older output from disk");
            }
        };
        text.inspect_err(log_error).ok()
    }

    /// Returns the blocks that overlap `range`.
    fn blocks(&self, range: &Range<u64>) -> impl DoubleEndedIterator<Item = &SealedBlock> {
        let first = self.sealed.partition_point(|block| block.end() <= range.start);
        let stop = self.sealed.partition_point(|block| block.start < range.end).max(first);
        self.sealed.range(first..stop)
    }

    /// Returns the stored text of `range`, clipped to whole characters, with its start offset.
    #[must_use]
    pub(crate) fn read(&self, range: Range<u64>) -> (u64, String) {
        let from = range.start.max(self.start());
        let end = range.end.min(self.end());
        let mut text = String::new();
        let mut text_start = from;
        if from >= end {
            return (from.min(self.end()), text);
        }
        let mut append_overlap = |start: u64, block: &str| {
            let stop = start + block.len() as u64;
            if stop <= from || start >= end {
                return;
            }
            let low = ceil_char_boundary(block, from.saturating_sub(start) as usize);
            let high = floor_char_boundary(block, (end.min(stop) - start) as usize);
            if low < high {
                if text.is_empty() {
                    text_start = start + low as u64;
                }
                text.push_str(&block[low..high]);
            }
        };
        // An unreadable block separates the text before it from the text after it: the returned text begins after it.
        let mut blocks: Vec<(u64, String)> = Vec::new();
        for block in self.blocks(&(from..end)).rev() {
            let Some(block_text) = self.block_text(block) else { break };
            blocks.push((block.start, block_text));
        }
        for (start, block) in blocks.into_iter().rev() {
            append_overlap(start, &block);
        }
        append_overlap(self.hot_start, &self.hot);
        (text_start, text)
    }

    /// Returns the uncompressed newest text, with the offset of its first byte.
    #[must_use]
    pub(crate) fn newest(&self) -> (u64, &str) {
        (self.hot_start, &self.hot)
    }

    /// Returns the offset of the `nth` newline of `range`, counted from its end and from 1. The error is the number of
    /// newlines if there are fewer.
    ///
    /// Counts blocks entirely within the range without decompressing them.
    pub(crate) fn newline_from_end(&self, range: Range<u64>, nth: usize) -> Result<u64, usize> {
        let range = range.start.max(self.start())..range.end.min(self.end());
        if nth == 0 || range.is_empty() {
            return Err(0);
        }
        let mut counted = match nth_newline(self.hot_start, &self.hot, &range, nth) {
            Ok(found) => return Ok(found),
            Err(counted) => counted,
        };
        for block in self.blocks(&range).rev() {
            if range.start <= block.start && block.end() <= range.end && counted + block.newlines < nth {
                counted += block.newlines;
                continue;
            }
            let Some(text) = self.block_text(block) else { return Err(counted) };
            match nth_newline(block.start, &text, &range, nth - counted) {
                Ok(found) => return Ok(found),
                Err(more) => counted += more,
            }
        }
        Err(counted)
    }

    /// Returns the memory for text, in bytes, without the fixed part.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.in_memory.compressed_bytes + self.hot.capacity()
    }
}

/// Same as [`History::newline_from_end`], for a `text` that begins at `start`.
fn nth_newline(start: u64, text: &str, range: &Range<u64>, nth: usize) -> Result<u64, usize> {
    let within = |offset: u64| offset.saturating_sub(start).min(text.len() as u64) as usize;
    let (low, high) = (within(range.start), within(range.end));
    let bytes = &text.as_bytes()[low..high.max(low)];
    let position = memchr::memrchr_iter(b'\n', bytes).nth(nth - 1);
    position.map(|at| start + (low + at) as u64).ok_or_else(|| memchr::memchr_iter(b'\n', bytes).count())
}

/// Maximum number of zones, about 1.5 MiB in total. Real text has fewer.
const MAX_ZONES: usize = 100_000;

fn decompress(bytes: &[u8], length: usize) -> Option<String> {
    String::from_utf8(lz4_flex::block::decompress(bytes, length).ok()?).ok()
}

/// Returns the largest character boundary that is at most `index`.
pub(crate) fn floor_char_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Returns the smallest character boundary that is at least `index`.
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
    fn history_keeps_two_hundred_thousand_lines() {
        let history = filled(200_000, 16 << 20);
        assert_eq!(history.start(), 0);
        let (_, text) = history.read(0..history.end());
        for (line, read) in text.lines().enumerate() {
            assert_eq!(read, format!("line {line}"));
        }
        assert!(history.memory() < 2 << 20, "2 MB of text take {} bytes", history.memory());
    }

    #[test]
    fn endless_output_stays_within_its_budget() {
        let history = filled(500_000, 64 * 1024);
        assert!(history.memory() < 1 << 20, "held {} bytes", history.memory());
        assert!(history.start() > 0);
        let (begins, text) = history.read(0..history.end());
        assert_eq!(begins, history.start());
        assert!(text.ends_with("line 499999\n"));
    }

    #[test]
    fn newlines_are_found_from_the_end_in_all_text() {
        let history = filled(100_000, 16 << 20);
        let text = history.read(0..history.end()).1;
        for nth in [1, 2, 50, 40_000, 99_999, 100_000] {
            let expected = memchr::memrchr_iter(b'\n', text.as_bytes()).nth(nth - 1).unwrap() as u64;
            assert_eq!(history.newline_from_end(0..history.end(), nth), Ok(expected));
        }
        assert_eq!(history.newline_from_end(0..history.end(), 100_001), Err(100_000));
        let half = history.end() / 2;
        let lines = text[..half as usize].matches('\n').count();
        assert_eq!(history.newline_from_end(0..half, lines + 1), Err(lines));
        assert_eq!(history.newline_from_end(7..14, 2), Err(1), "line 1 ends in the range, line 0 before it");
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
    fn empty_zone_is_removed() {
        let mut history = History::new(1024);
        for _ in 0..1000 {
            history.begin_zone(Zone::Prompt);
            history.begin_zone(Zone::Input);
            history.begin_zone(Zone::Output);
        }
        history.push('x');
        assert_eq!(history.zones(0..1).collect::<Vec<_>>(), [(0..1, Zone::Output)]);
    }

    /// Nearly incompressible text.
    fn noise(bytes: usize, seed: &mut u64) -> String {
        let mut next = || {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b' ' + (*seed >> 57) as u8 % 95)
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn on_disk(memory: usize, disk: usize) -> History {
        History::new(memory).with_disk(Some(Disk { directory: std::env::temp_dir(), budget: disk }))
    }

    #[test]
    fn text_beyond_memory_is_read_from_disk() {
        let mut history = on_disk(256 * 1024, 64 << 20);
        for line in 0..2_000_000 {
            history.push_str(&format!("line {line}\n"));
            if line % 1000 == 0 {
                history.settle();
            }
        }
        assert!(history.memory() < 1 << 20 && history.on_disk > 0);
        assert_eq!(history.start(), 0, "nothing was dropped");
        assert_eq!(history.read(0..14), (0, "line 0\nline 1\n".to_owned()));
        let (_, text) = history.read(0..history.end());
        assert!(text.lines().enumerate().all(|(line, read)| read == format!("line {line}")));
    }

    #[test]
    fn missing_directory_loses_only_the_oldest_output() {
        let disk = Disk { directory: "/no/such/folder".into(), budget: 1 << 20 };
        let mut history = History::new(100_000).with_disk(Some(disk));
        for _ in 0..20 {
            history.push_str(&noise(MIN_HOT_BYTES, &mut 1));
            history.settle();
        }
        assert!(history.start() > 0 && history.on_disk == 0);
        assert_eq!(history.read(history.start()..history.end()).1.len() as u64, history.end() - history.start());
    }

    #[test]
    fn full_disk_keeps_the_newest_output() {
        let mut history = on_disk(MIN_HOT_BYTES, 4 << 20);
        let (mut written, mut seed) = (String::new(), 7);
        let mut print = |history: &mut History, blocks: usize| {
            for _ in 0..blocks {
                let text = noise(MIN_HOT_BYTES, &mut seed);
                history.push_str(&text);
                written.push_str(&text);
                history.settle();
            }
            let (start, text) = history.read(0..history.end());
            assert_eq!(start, history.start());
            assert!(text == written[start as usize..], "the stored text equals the written text");
        };
        print(&mut history, 12);
        assert_eq!(history.start(), 0);
        history.spill.as_mut().unwrap().make_full();
        print(&mut history, 12);
        assert!(history.start() > 0 && history.on_disk > 5, "{} blocks on disk", history.on_disk);
    }

    #[test]
    fn failing_disk_loses_only_its_own_content() {
        let mut history = on_disk(3 * MIN_HOT_BYTES, 16 << 20);
        for _ in 0..20 {
            history.push_str(&noise(MIN_HOT_BYTES, &mut 3));
            history.settle();
        }
        let (stored_start, end) = (history.sealed[history.on_disk].start, history.end());
        history.spill.as_mut().unwrap().break_down();
        let (begins, text) = history.read(0..end);
        assert_eq!((begins, text.len() as u64), (stored_start, end - stored_start));
        history.settle();
        assert_eq!(history.start(), stored_start);
        for _ in 0..20 {
            history.push_str(&noise(MIN_HOT_BYTES, &mut 4));
            history.settle();
        }
        let start = history.start();
        assert!(start > stored_start && history.on_disk == 0);
        assert_eq!(history.read(0..history.end()).1.len() as u64, history.end() - start);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_kept_text_reads_back_exactly_within_both_budgets(
            pieces in prop::collection::vec((any::<u64>(), 0..400_000usize, any::<bool>()), 1..25),
            memory in 0..400_000usize,
            disk in 0..900_000usize,
        ) {
            let mut history = on_disk(memory, disk);
            let mut expected = String::new();
            for (mut seed, bytes, noisy) in pieces {
                let piece = if noisy { noise(bytes, &mut seed) } else { "漢字 é\n".repeat(bytes / 11) };
                history.push_str(&piece);
                expected.push_str(&piece);
                history.settle();
                let held = history.start();
                prop_assert!(history.in_memory.compressed_bytes <= memory);
                prop_assert!(history.in_memory.text_bytes <= memory.saturating_mul(MAX_TEXT_PER_BUDGET));
                if let Some(spill) = &history.spill {
                    prop_assert!(spill.used() == history.spilled.compressed_bytes as u64 && spill.file_length() <= disk as u64);
                }
                prop_assert_eq!(history.end(), expected.len() as u64);
                let (begins, text) = history.read(0..history.end());
                prop_assert_eq!(begins, held);
                prop_assert!(text == expected[held as usize..]);
            }
        }

        #[test]
        fn any_range_reads_the_written_text(
            pieces in prop::collection::vec(("[a-zé漢\n]{0,30}", 0..800usize), 1..60),
            low in any::<prop::sample::Index>(),
            high in any::<prop::sample::Index>(),
        ) {
            let mut history = History::new(usize::MAX);
            let mut expected = String::new();
            for (piece, times) in &pieces {
                let piece = piece.repeat(*times);
                history.push_str(&piece);
                expected.push_str(&piece);
                history.settle();
            }
            prop_assert_eq!(history.end(), expected.len() as u64);
            let (low, high) = (low.index(expected.len() + 1), high.index(expected.len() + 1));
            let (begins, text) = history.read(low as u64..high as u64);
            if low < high {
                let (from, to) = (ceil_char_boundary(&expected, low), floor_char_boundary(&expected, high));
                if from < to {
                    prop_assert_eq!(begins, from as u64);
                    prop_assert_eq!(&text, &expected[from..to]);
                } else {
                    prop_assert_eq!(&text, "");
                }
            } else {
                prop_assert_eq!(&text, "");
            }
        }
    }
}
