//! Marks of the main screen at the reads of clients, to find the rows that have changed since.
//!
//! If a program prints line after line, the new output is the text since the last read. A program that moves the cursor
//! to other rows changes older text; its new output is the rows that differ or have scrolled off. A mark stores a hash
//! of each row, some hundred bytes in total.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use super::{CommandOutput, Excerpt, Limit, Part, ScreenLine, excerpt};
use crate::history::{History, Zone};
use crate::intake::OutputPipeline;
use crate::lines::settled;
use crate::screen::Screen;
use crate::transcript::{Mark, Motion, OffsetMark};

/// Maximum number of marks. A new mark replaces the oldest.
const MAX_MARKS: usize = 64;

/// Maximum number of scrolled rows to compare.
const MAX_ROWS_ABOVE: usize = 1000;

/// The marks of one terminal.
#[derive(Debug, Default)]
pub(super) struct ScreenMarks {
    hasher: RandomState,
    /// Oldest first.
    marks: VecDeque<ScreenMark>,
    /// The version of the next mark. The mark is added before the screen changes.
    requested_version: Option<u64>,
    /// The last version with the program's drawing above the lowest row.
    last_motion: u64,
    /// The last version with drawing above the lowest row by a program other than the shell at its prompt.
    last_output_motion: u64,
    /// The output of the last command, until the next command begins.
    ended: Option<EndedOutput>,
}

/// The output of an ended command, recorded because a shell may draw its prompt over these rows.
#[derive(Debug)]
struct EndedOutput {
    /// The version of the screen at the last input before the end.
    input_version: u64,
    /// Offset of its end.
    offset: u64,
    /// Offset of the later output of the shell.
    shell_output_start: u64,
    /// The content of the rows that a program drew on.
    rows: Option<Vec<String>>,
}

#[derive(Debug)]
struct ScreenMark {
    version: u64,
    scrolled: (u64, u64),
    rows: Box<[u64]>,
}

/// The rows since a mark.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RowsSince {
    /// Lines of the screen, and of the rows that scrolled off since the mark. A wrapped line has several rows.
    pub(super) lines: Vec<ScreenLine>,
    /// Number of scrolled rows with unknown content.
    pub(super) lost_rows: u64,
    /// Index of the line with the cursor, if the cursor is visible and the line has text.
    cursor_line: Option<usize>,
}

impl RowsSince {
    /// Returns the changed lines starting at the output of the last command, and the line of the cursor, because the
    /// program may have drawn it anywhere.
    pub(super) fn changed_below_command(self, intake: &OutputPipeline) -> impl Iterator<Item = String> {
        let (scrolled, _) = intake.screen.scrolled();
        let first = i128::from(intake.command_row) - i128::from(scrolled);
        let cursor_line = self.cursor_line;
        let is_changed = |line: &ScreenLine| line.is_changed && i128::from(line.row) >= first;
        // Include unchanged rows between changed rows, such as empty rows.
        let first = self.lines.iter().position(is_changed).unwrap_or(self.lines.len());
        let after_last = self.lines.iter().rposition(is_changed).map_or(0, |last| last + 1);
        let lines = self.lines.into_iter().enumerate();
        let changed =
            lines.filter(move |(index, _)| (first..after_last).contains(index) || Some(*index) == cursor_line);
        changed.map(|(_, line)| line.text)
    }
}

impl ScreenMarks {
    /// Records a version with the program's drawing above the lowest row. A motion of the shell at its prompt does not
    /// count for the output of commands.
    pub(super) fn add_motion(&mut self, version: u64, motion: Motion) {
        if motion.at_prompt || motion.in_output {
            self.last_motion = version;
        }
        if motion.in_output {
            self.last_output_motion = version;
        }
    }

    /// Records the start and the end of commands. An end mark is the last output so far. `input` is the version of the
    /// screen at the last input.
    pub(super) fn follow(&mut self, offset_mark: &OffsetMark, input: u64, intake: &OutputPipeline) {
        match offset_mark.mark {
            Mark::CommandStarted => self.ended = None,
            // fish repeats the end mark at its prompt, after its hooks.
            Mark::CommandEnded(_) if self.ended.as_ref().is_none_or(|ended| ended.input_version != input) => {
                let rows = self.moved_rows_since(input, intake).filter(|rows| rows.lost_rows == 0);
                let rows = rows.map(|rows| rows.changed_below_command(intake).collect());
                let shell_output_start = intake.transcript.history().end();
                let offset = offset_mark.offset;
                self.ended = Some(EndedOutput { input_version: input, offset, shell_output_start, rows });
            }
            _ => {}
        }
    }

    /// Requests a mark of the screen, now at this version. [`complete`](Self::complete) adds it. No mark is looked up
    /// before the next change of the screen, so a reply does not wait for the hashes.
    pub(super) fn request(&mut self, version: u64) {
        self.requested_version = Some(version);
    }

    /// Adds the requested mark, before the screen changes. Adds none while a full-screen program hides the rows of the
    /// main screen.
    pub(super) fn complete(&mut self, screen: &dyn Screen) {
        let Some(version) = self.requested_version.take() else { return };
        if screen.modes().alternate_screen {
            return;
        }
        if self.marks.len() == MAX_MARKS {
            self.marks.pop_front();
        }
        let rows = screen.text().lines().map(|row| self.hasher.hash_one(row)).collect();
        self.marks.push_back(ScreenMark { version, scrolled: screen.scrolled(), rows });
    }

    /// Returns a part of the output. If the program drew on several rows, the new output is the lines of the screen,
    /// and the output since the last input is the changed lines below the command line. `input` is the version of the
    /// screen at the last input.
    pub(super) fn excerpt(
        &self,
        intake: &OutputPipeline,
        part: Part,
        (input_offset, input): (u64, u64),
        limit: Limit,
    ) -> Excerpt {
        let since = match part {
            Part::New { version, .. } => Some(version),
            Part::SinceInput => Some(input),
            Part::From(_) | Part::RawFrom(_) | Part::Tail(_) => None,
        };
        let text = || excerpt::read_part(intake.transcript.history(), part, input_offset, limit);
        if part == Part::SinceInput
            && let Some(ended) = self.ended.as_ref().filter(|ended| ended.input_version == input)
            && let Some(excerpt) = ended.excerpt(intake.transcript.history(), input_offset, limit)
        {
            return excerpt;
        }
        let rows = match part {
            Part::SinceInput => since.and_then(|since| self.moved_rows_since(since, intake)),
            _ => since
                .filter(|since| self.last_motion > *since)
                .and_then(|since| self.rows_since(since, intake.screen.as_ref())),
        };
        let Some(rows) = rows else { return text() };
        let end = intake.transcript.history().end();
        if rows.lost_rows > 0 {
            // Return the text of the history, and the screen as its end.
            let screen = rows.lines.into_iter().filter(|line| line.row >= 0).map(|line| line.text);
            let tail = Some(excerpt::join_lines(screen, end, Limit::Head(usize::MAX)).head);
            return Excerpt { tail, ..text() };
        }
        match part {
            Part::SinceInput => excerpt::join_lines(rows.changed_below_command(intake), end, limit),
            _ => Excerpt { rows: Some(rows.lines), ..Excerpt::from_text(String::new(), end) },
        }
    }

    /// Returns the rows since a version of the screen. `None` unless a program other than the shell at its prompt has
    /// drawn above the lowest row since, and the version has a mark.
    pub(super) fn moved_rows_since(&self, version: u64, intake: &OutputPipeline) -> Option<RowsSince> {
        (self.last_output_motion > version).then(|| self.rows_since(version, intake.screen.as_ref())).flatten()
    }

    /// Returns the rows since a version with a mark. `None` without a mark, or if the size of the screen has changed.
    fn rows_since(&self, version: u64, screen: &dyn Screen) -> Option<RowsSince> {
        let mark = self.marks.iter().rev().find(|mark| mark.version == version)?;
        let (scrolled, epoch) = screen.scrolled();
        if mark.scrolled.1 != epoch || screen.modes().alternate_screen {
            return None;
        }
        let scrolled_rows = scrolled.checked_sub(mark.scrolled.0)?;
        let rows = screen.rows_from(usize::try_from(scrolled_rows).unwrap_or(usize::MAX).min(MAX_ROWS_ABOVE));
        let first_screen_row = rows.len() - usize::from(screen.size().rows);
        // `rows` is shorter if the program has erased the scrollback.
        let unknown_rows = scrolled_rows.saturating_sub(MAX_ROWS_ABOVE as u64);
        let blank = self.hasher.hash_one("");
        let mut lines: Vec<ScreenLine> = Vec::new();
        let mut is_continuation = false;
        let cursor = Some(screen.cursor())
            .filter(|cursor| cursor.visible)
            .map(|cursor| first_screen_row + usize::from(cursor.row));
        let mut cursor_line = None;
        for (index, (text, continues)) in rows.into_iter().enumerate() {
            let marked_row = index as u64 + scrolled_rows - first_screen_row as u64;
            let old_hash = usize::try_from(marked_row)
                .ok()
                .and_then(|marked_row| mark.rows.get(marked_row).copied())
                .unwrap_or(blank);
            let is_changed = self.hasher.hash_one(text.trim_end()) != old_hash;
            match lines.last_mut().filter(|_| is_continuation) {
                Some(line) => {
                    line.text.push_str(&text);
                    line.is_changed |= is_changed;
                }
                None => lines.push(ScreenLine { row: index as i64 - first_screen_row as i64, text, is_changed }),
            }
            is_continuation = continues;
            if cursor == Some(index) {
                cursor_line = Some(lines.len() - 1);
            }
        }
        // The line of the cursor is considered changed, because a new question may repeat the text of an earlier
        // question.
        let cursor_line = cursor_line.filter(|line| !lines[*line].text.trim().is_empty());
        if let Some(line) = cursor_line {
            lines[line].is_changed = true;
        }
        Some(RowsSince { lines, lost_rows: unknown_rows, cursor_line })
    }
}

impl EndedOutput {
    /// Returns the output since an input, followed by the later output of the shell. `None` if the text exceeds the
    /// limit or is incomplete.
    fn excerpt(&self, history: &History, input_offset: u64, limit: Limit) -> Option<Excerpt> {
        let read = |range, format| excerpt::read_since_input(history, range, input_offset, limit, format);
        let mut output = match &self.rows {
            Some(rows) => excerpt::join_lines(rows.iter().cloned(), self.shell_output_start, limit),
            None => read(input_offset..self.offset, excerpt::settle_keeping_spaces),
        };
        let shell_output = match self.rows {
            Some(_) => self.shell_output_start..history.end(),
            None => self.offset..history.end(),
        };
        let shell_output = read(shell_output, settled);
        let is_complete = |part: &Excerpt| part.left_out == 0 && part.tail.is_none() && part.dropped_before.is_none();
        if !is_complete(&output) || !is_complete(&shell_output) {
            return None;
        }
        let is_divided = output.head.is_empty() || output.head.ends_with('\n') || self.rows.is_none();
        if !is_divided && !shell_output.head.is_empty() {
            output.head.push('\n');
        }
        let has_prompts = || history.zones(input_offset..self.offset).any(|(_, zone)| zone == Zone::Prompt);
        let command_output = match &self.rows {
            None if has_prompts() => {
                let output = input_offset..self.offset;
                CommandOutput::Text(excerpt::read_printed(history, &[output], Zone::Output, limit).head)
            }
            _ => CommandOutput::Prefix(output.head.len() as u64),
        };
        output.head.push_str(&shell_output.head);
        let is_within = output.head.chars().nth(limit.chars()).is_none();
        is_within.then(|| Excerpt { command_output: Some(command_output), next: history.end(), ..output })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::screen::{Emulator, Size};
    use crate::terminal::task::split_at_command_ends;
    use crate::transcript::Transcript;

    const COLS: usize = 12;
    const ROWS: usize = 5;

    /// A piece of program output.
    #[derive(Debug, Clone)]
    enum Piece {
        Text(String),
        LineEnd,
        LineFeed,
        Return,
        Back,
        /// A sequence with a number.
        Csi(usize, char),
        To(usize, usize),
        Save,
        Restore,
    }

    impl Piece {
        fn bytes(&self) -> Vec<u8> {
            match self {
                Self::Text(text) => text.clone(),
                Self::LineEnd => "\r\n".to_owned(),
                Self::LineFeed => "\n".to_owned(),
                Self::Return => "\r".to_owned(),
                Self::Back => "\x08".to_owned(),
                Self::Csi(count, action) => format!("\x1b[{count}{action}"),
                Self::To(row, column) => format!("\x1b[{};{}H", row + 1, column + 1),
                Self::Save => "\x1b7".to_owned(),
                Self::Restore => "\x1b8".to_owned(),
            }
            .into_bytes()
        }
    }

    /// The simplest possible screen: it keeps every row.
    #[derive(Debug, Clone)]
    struct Reference {
        rows: Vec<[char; COLS]>,
        /// Rows whose line wraps into the next row.
        wrapped: Vec<bool>,
        top: usize,
        row: usize,
        column: usize,
        /// The last column was written, and the next character goes to the next row.
        is_full: bool,
        saved: (usize, usize, bool),
    }

    impl Reference {
        fn new() -> Self {
            Self {
                rows: vec![[' '; COLS]; ROWS],
                wrapped: vec![false; ROWS],
                top: 0,
                row: 0,
                column: 0,
                is_full: false,
                saved: (0, 0, false),
            }
        }

        fn absolute_row(&self) -> usize {
            self.top + self.row
        }

        fn down(&mut self) {
            if self.row + 1 < ROWS {
                self.row += 1;
            } else {
                self.top += 1;
                self.rows.push([' '; COLS]);
                self.wrapped.push(false);
            }
        }

        fn place(&mut self, row: usize, column: usize) {
            (self.row, self.column, self.is_full) = (row.min(ROWS - 1), column.min(COLS - 1), false);
        }

        fn print(&mut self, piece: &Piece) {
            let (row, column) = (self.row, self.column);
            match piece {
                Piece::Text(text) => {
                    for character in text.chars() {
                        if self.is_full {
                            let at = self.absolute_row();
                            self.wrapped[at] = true;
                            self.down();
                            (self.column, self.is_full) = (0, false);
                        }
                        let at = self.absolute_row();
                        self.rows[at][self.column] = character;
                        self.is_full = self.column + 1 == COLS;
                        self.column = (self.column + 1).min(COLS - 1);
                    }
                }
                Piece::LineEnd => {
                    (self.column, self.is_full) = (0, false);
                    self.down();
                }
                Piece::LineFeed => self.down(),
                Piece::Return => (self.column, self.is_full) = (0, false),
                Piece::Back => self.place(row, column.saturating_sub(1)),
                Piece::To(row, column) => self.place(*row, *column),
                Piece::Save => self.saved = (row, column, self.is_full),
                Piece::Restore => (self.row, self.column, self.is_full) = self.saved,
                Piece::Csi(count, action) => {
                    let at = self.absolute_row();
                    let number = (*count).max(1);
                    if matches!(action, 'K' | 'J' | 'X' | '@' | 'P') && !(*action == 'K' && *count == 0 && self.is_full)
                    {
                        // A row stays wrapped as long as its last cell is kept.
                        let is_last_kept = match action {
                            'K' if *count == 1 => column + 1 < COLS,
                            'X' => column + number < COLS,
                            _ => false,
                        };
                        self.wrapped[at] &= is_last_kept;
                    }
                    let cells = &mut self.rows[at];
                    match action {
                        'A' => self.place(row.saturating_sub(number), column),
                        'B' => self.place(row + number, column),
                        'C' => self.place(row, column + number),
                        'D' => self.place(row, column.saturating_sub(number)),
                        'G' => self.place(row, number - 1),
                        'K' => match count {
                            0 if self.is_full => {}
                            0 => cells[column..].fill(' '),
                            1 => cells[..=column].fill(' '),
                            _ => cells.fill(' '),
                        },
                        'J' => {
                            cells[column..].fill(' ');
                            let end = self.top + ROWS;
                            self.rows[at + 1..end].fill([' '; COLS]);
                            self.wrapped[at + 1..end].fill(false);
                        }
                        'X' => cells[column..(column + number).min(COLS)].fill(' '),
                        '@' => {
                            let number = number.min(COLS - column);
                            cells[column..].rotate_right(number);
                            cells[column..column + number].fill(' ');
                            self.is_full = false;
                        }
                        'P' => {
                            let number = number.min(COLS - column);
                            cells[column..].rotate_left(number);
                            cells[COLS - number..].fill(' ');
                            self.is_full = false;
                        }
                        other => panic!("{other} is unknown"),
                    }
                }
            }
        }

        fn text(&self, row: usize) -> String {
            self.rows.get(row).map(|cells| cells.iter().collect::<String>().trim_end().to_owned()).unwrap_or_default()
        }

        /// Returns the lines starting at a row, without empty lines at the end.
        fn lines(&self, from: usize) -> Vec<String> {
            let mut lines: Vec<String> = Vec::new();
            for row in from..self.rows.len() {
                let text: String = self.rows[row].iter().collect();
                match lines.last_mut().filter(|_| row > from && self.wrapped[row - 1]) {
                    Some(line) => line.push_str(&text),
                    None => lines.push(text),
                }
            }
            lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
            while lines.last().is_some_and(String::is_empty) {
                lines.pop();
            }
            lines
        }

        /// The first row of the line of the cursor.
        fn line_of_cursor(&self) -> usize {
            let mut row = self.absolute_row();
            while row > 0 && self.wrapped[row - 1] {
                row -= 1;
            }
            row
        }
    }

    /// A terminal with a client that reads it occasionally.
    struct WatchedTerminal {
        intake: OutputPipeline,
        marks: ScreenMarks,
        version: u64,
        seen: (u64, u64),
        input: (u64, u64),
    }

    impl WatchedTerminal {
        fn new() -> Self {
            Self::with(None, Size { cols: COLS as u16, rows: ROWS as u16 })
        }

        fn with(nonce: Option<&str>, size: Size) -> Self {
            let transcript = Transcript::new(History::new(1 << 20), nonce.map(str::to_owned));
            let intake = OutputPipeline::new(transcript, Box::new(Emulator::new(size)));
            let mut watched = Self { intake, marks: ScreenMarks::default(), version: 0, seen: (0, 0), input: (0, 0) };
            watched.read_new();
            watched
        }

        fn print(&mut self, bytes: &[u8]) {
            for part in split_at_command_ends(bytes, !self.intake.is_outside_of_strings()) {
                self.marks.complete(self.intake.screen.as_ref());
                self.intake.take_in(part, &mut Vec::new());
                self.version += 1;
                self.marks.add_motion(self.version, self.intake.transcript.take_motion());
                for marked in self.intake.transcript.take_marks() {
                    self.marks.follow(&marked, self.input.1, &self.intake);
                }
            }
        }

        /// Records an input: the output since an input begins here.
        fn enter(&mut self) {
            self.marks.request(self.version);
            self.input = (self.intake.transcript.history().end(), self.version);
        }

        fn since_input(&self) -> Excerpt {
            self.marks.excerpt(&self.intake, Part::SinceInput, self.input, Limit::HeadAndTail(100_000))
        }

        fn read_new(&mut self) -> Excerpt {
            let (from, version) = self.seen;
            let part = Part::New { from, version, reach: 0 };
            let excerpt = self.marks.excerpt(&self.intake, part, self.input, Limit::HeadAndTail(100_000));
            self.marks.request(self.version);
            self.seen = (self.intake.transcript.history().end(), self.version);
            excerpt
        }
    }

    fn piece() -> impl Strategy<Value = Piece> {
        prop_oneof![
            6 => "[a-z ]{1,9}".prop_map(Piece::Text),
            4 => Just(Piece::LineEnd),
            1 => Just(Piece::LineFeed),
            2 => Just(Piece::Return),
            2 => Just(Piece::Back),
            4 => (1..14usize, prop::sample::select(vec!['C', 'D', 'G'])).prop_map(|(count, action)| Piece::Csi(count, action)),
            3 => (0..3usize).prop_map(|which| Piece::Csi(which, 'K')),
            2 => (1..5usize, prop::sample::select(vec!['X', '@', 'P'])).prop_map(|(count, action)| Piece::Csi(count, action)),
            1 => (1..4usize, prop::sample::select(vec!['A', 'B'])).prop_map(|(count, action)| Piece::Csi(count, action)),
            1 => Just(Piece::Csi(0, 'J')),
            1 => (0..ROWS, 0..COLS).prop_map(|(row, column)| Piece::To(row, column)),
            1 => Just(Piece::Save),
            1 => Just(Piece::Restore),
        ]
    }

    /// Checks the text shown to a client: every row changed since its last read, and nothing misleading.
    fn check(shown: &Excerpt, before: &Reference, now: &Reference) -> Result<(), TestCaseError> {
        let changed: Vec<usize> =
            (before.top..now.rows.len()).filter(|row| before.text(*row) != now.text(*row)).collect();
        if let Some(lines) = &shown.rows {
            let first = |line: &ScreenLine| (now.top as i64 + line.row) as usize;
            for (index, line) in lines.iter().enumerate() {
                let end = lines.get(index + 1).map_or(now.rows.len(), first);
                let rows = first(line)..end;
                let text: String = rows.clone().flat_map(|row| now.rows[row]).collect();
                prop_assert_eq!(line.text.trim_end(), text.trim_end());
                let is_changed = rows.clone().any(|row| changed.contains(&row));
                let has_cursor = rows.contains(&now.absolute_row()) && !text.trim().is_empty();
                prop_assert_eq!(line.is_changed, is_changed || has_cursor, "rows {:?}", rows);
            }
            let known = lines.first().map_or(0, first)..now.rows.len();
            prop_assert!(changed.iter().all(|row| known.contains(row)), "{changed:?} of {known:?}");
            return Ok(());
        }
        if changed.is_empty() && shown.head.trim().is_empty() {
            return Ok(());
        }
        let line = before.line_of_cursor();
        prop_assert!(changed.iter().all(|row| *row >= line), "rows {changed:?} before {line}");
        prop_assert_eq!(&shown.tail, &None);
        let (shown, mut lines) = (shown.head.trim_end(), now.lines(line));
        let was = before.lines(line).first().cloned().unwrap_or_default();
        let mut reported: Vec<&str> = shown.split('\n').collect();
        let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
        let reported_first = reported.remove(0);
        // The open line is either continued or shown again in full.
        let is_continued = first.strip_suffix(reported_first).is_some_and(|known| known.trim_end() == was.trim_end());
        prop_assert!(reported_first == first || is_continued, "{reported_first:?} of {first:?}, which was {was:?}");
        prop_assert_eq!(reported, lines);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// For any output, any cuts and any reads, the client is shown the current form of every row that has changed
        /// since its last look.
        #[test]
        fn client_is_shown_every_changed_row(
            portions in prop::collection::vec((prop::collection::vec(piece(), 0..8), any::<bool>()), 1..10),
        ) {
            let (mut watched, mut reference) = (WatchedTerminal::new(), Reference::new());
            let mut before = reference.clone();
            for (pieces, looks) in portions {
                for piece in pieces {
                    watched.print(&piece.bytes());
                    reference.print(&piece);
                }
                let screen = watched.intake.screen.text();
                let expected: Vec<String> = (reference.top..reference.top + ROWS).map(|row| reference.text(row)).collect();
                let expected = expected.join("\n");
                prop_assert_eq!(screen.as_str(), expected.trim_end_matches('\n'), "the screen equals the reference");
                if looks {
                    let excerpt = watched.read_new();
                    check(&excerpt, &before, &reference).map_err(|error| {
                        TestCaseError::fail(format!("{error}\nbefore {before:?}\nnow {reference:?}\nshown {excerpt:?}"))
                    })?;
                    before = reference.clone();
                }
            }
        }
    }

    const PROMPT: &str = "\x1b]133;A;k=n1\x07~\r\n$ \x1b]133;B;k=n1\x07";
    const COMMAND: &str = "x\r\n\x1b]133;C;k=n1\x07";

    fn ended(number: usize) -> String {
        format!("\x1b]133;D;0;k=n1;n={number}\x07{PROMPT}")
    }

    /// Returns the replies to clients after an input at a prompt and the output of `portions`: the text since the
    /// input, the output of the commands, and the new output.
    fn client_replies<'a>(portions: impl IntoIterator<Item = &'a [u8]>) -> (String, Option<CommandOutput>, String) {
        let mut watched = WatchedTerminal::with(Some("n1"), Size { cols: 30, rows: 12 });
        watched.print(ended(1).as_bytes());
        watched.read_new();
        watched.enter();
        portions.into_iter().for_each(|portion| watched.print(portion));
        let since_input = watched.since_input();
        assert_eq!(since_input.tail, None);
        (since_input.head, since_input.command_output, format!("{:?}", watched.read_new()))
    }

    #[test]
    fn prompt_over_the_last_row_is_not_in_the_output() {
        for (output, expected) in [
            ("one\r\n\r\n\r\nfour\x1b[A\r\n", "one\n\n\nfour\n"),
            ("one\r\ntwo\x1b[A\x1b[G", "one\ntwo\n"),
            ("one\r\ntwo\r\n\x1b[2A", "one\ntwo\n"),
            ("one\r\ntwo\r", "one\ntwo"),
            ("one\r\ntwo\x1b[4h\x1b[4l\r\n", "one\ntwo\n"),
            ("one\r\ntwo\r\n", "one\ntwo\n"),
        ] {
            let bytes = format!("{COMMAND}{output}{}", ended(2)).into_bytes();
            for portion in [1, 7, bytes.len()] {
                let (text, command_output, _) = client_replies(bytes.chunks(portion));
                let output = command_output.unwrap().text(&text).unwrap().to_owned();
                let prompt = text.strip_prefix(&output).unwrap();
                assert_eq!(
                    (output.trim_end(), prompt.trim_start()),
                    (expected.trim_end(), "~\n$"),
                    "{output:?} by {portion}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// The replies to clients do not depend on the cuts of the output of commands.
        #[test]
        fn client_replies_are_the_same_for_any_division(
            commands in prop::collection::vec(prop::collection::vec(unusual_piece(), 0..10), 1..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut bytes = Vec::new();
            for (index, pieces) in commands.iter().enumerate() {
                bytes.extend(COMMAND.bytes());
                pieces.iter().for_each(|piece| bytes.extend(piece));
                bytes.extend(ended(index + 2).bytes());
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let begins = std::iter::once(0).chain(cuts.iter().copied());
            let portions = begins.zip(&cuts).map(|(begin, end)| &bytes[begin..*end]);
            let expected = client_replies([bytes.as_slice()]);
            prop_assert_eq!(&client_replies(portions), &expected);
            prop_assert_eq!(&client_replies(bytes.chunks(1)), &expected);
        }
    }

    /// A piece of program output, or a sequence with modes that place characters elsewhere.
    fn unusual_piece() -> impl Strategy<Value = Vec<u8>> {
        const ODD: [&str; 12] = [
            "\x1b[4h",
            "\x1b[4l",
            "\x1b[?7l",
            "\x1b[?7h",
            "\x1b[?1049h",
            "\x1b[?1049l",
            "\x1b[2;4r",
            "\x1b[r",
            "\x1bM",
            "\t",
            "\x1b[2J",
            "\x1b[20h",
        ];
        prop_oneof![
            5 => piece().prop_map(|piece| piece.bytes()),
            1 => prop::sample::select(ODD.to_vec()).prop_map(|odd| odd.as_bytes().to_vec()),
        ]
    }

    #[test]
    fn question_crossed_by_the_cursor_is_shown() {
        // inquirer up to version 9 ends each drawing like this.
        let mut watched = WatchedTerminal::new();
        watched.print(b"$ x\r\n? Name (a) \x1b[11D\x1b[11C");
        assert_eq!(watched.read_new().head, "$ x\n? Name (a)");
        watched.print(b"\x1b[2K\x1b[G? Name b\x1b[8D\x1b[8C");
        assert_eq!(watched.read_new().head, "? Name b");
    }

    #[test]
    fn question_equal_to_an_earlier_one_is_shown() {
        let mut watched = WatchedTerminal::new();
        watched.print(b"\x1b[4;2HSure? ");
        watched.read_new();
        watched.print(b"y\r\n\x1b[1;1H$ x\x1b[4;2HSure? \x1b[K");
        let excerpt = watched.read_new();
        let changed = excerpt.rows.unwrap().into_iter().filter(|line| line.is_changed).map(|line| line.text);
        assert!(changed.map(|text| text.trim().to_owned()).any(|text| text == "Sure?"));
    }

    #[test]
    fn output_that_scrolled_far_is_shown_with_its_last_screen() {
        let mut watched = WatchedTerminal::new();
        let lines: String = (0..2000).map(|line| format!("{line}\r\n")).collect();
        watched.print(format!("{lines}a\r\nb\x1b[1Aé").as_bytes());
        let excerpt = watched.read_new();
        assert!(excerpt.head.starts_with("0\n1\n") && excerpt.rows.is_none(), "{excerpt:?}");
        assert_eq!(excerpt.tail.as_deref(), Some("1997\n1998\n1999\naé\nb"));
    }
}
