//! A [`Screen`] based on `alacritty_terminal`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::{Charsets, Dimensions};
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CursorShape as EmulatedShape, Processor};
use parking_lot::Mutex;

use super::control::Control;
use super::page::XtermScreen;
use super::{Cursor, Modes, MouseReports, Picture, Screen, Size, paint, picture};

/// A screen drawn by `alacritty_terminal`.
pub(crate) struct Emulator {
    page: XtermScreen,
    processor: Processor,
    outbox: Outbox,
    size: Size,
    failures: u32,
    /// Cached text of the screen, until its next change. Each reply to a client reads it several times.
    text: OnceLock<String>,
}

/// Replies and the title from the emulator.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<EmulatorReplies>>);

#[derive(Default)]
struct EmulatorReplies {
    replies: Vec<u8>,
    title: String,
}

impl Outbox {
    fn with<R>(&self, act: impl FnOnce(&mut EmulatorReplies) -> R) -> R {
        // Ignore an earlier panic under the lock: at worst, a reply is incomplete.
        act(&mut self.0.lock())
    }

    /// Adds a reply to the pending replies.
    pub(super) fn reply(&self, bytes: &[u8]) {
        self.with(|outbox| outbox.replies.extend_from_slice(bytes));
    }

    pub(super) fn set_title(&self, title: String) {
        self.with(|outbox| outbox.title = title);
    }

    pub(super) fn title(&self) -> String {
        self.with(|outbox| outbox.title.clone())
    }
}

impl EventListener for Outbox {
    fn send_event(&self, event: Event) {
        // The page answers queries for colours, sizes and titles. Programs have no access to the clipboard. The other
        // events concern windows.
        if let Event::PtyWrite(text) = event {
            self.reply(text.as_bytes());
        }
    }
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.cols)
    }
}

impl Emulator {
    /// Creates an empty screen.
    #[must_use]
    pub(crate) fn new(size: Size) -> Self {
        let outbox = Outbox::default();
        Self {
            page: XtermScreen::new(size, &outbox),
            processor: Processor::new(),
            outbox,
            size,
            failures: 0,
            text: OnceLock::new(),
        }
    }

    /// Runs code of the emulator that handles foreign input and catches its panics.
    ///
    /// A bug in the emulator must not end the terminal: a panic clears the screen, but not the history.
    fn catch_failure(&mut self, act: impl FnOnce(&mut XtermScreen, &mut Processor)) {
        self.text.take();
        let (page, processor) = (&mut self.page, &mut self.processor);
        if catch_unwind(AssertUnwindSafe(|| act(page, processor))).is_err() {
            self.failures += 1;
            tracing::error!("the emulator failed on a program's output; the screen is reset");
            self.page = XtermScreen::new(self.size, &self.outbox);
            self.processor = Processor::new();
        }
    }

    /// Performs an action on the page that the emulator's parser does not support.
    ///
    /// First draws the output that a synchronized update holds back.
    fn after_held_output(&mut self, act: impl FnOnce(&mut XtermScreen)) {
        self.catch_failure(|page, processor| {
            if processor.sync_timeout().sync_timeout().is_some() {
                processor.stop_sync(page);
            }
            act(page);
        });
    }

    fn rows(&self) -> impl Iterator<Item = &[Cell]> + '_ {
        let grid = self.page.term().grid();
        (0..i32::from(self.size.rows)).map(move |row| {
            let row = &grid[Line(row)];
            &row[Column(0)..Column(usize::from(self.size.cols))]
        })
    }
}

impl Screen for Emulator {
    fn feed(&mut self, bytes: &[u8]) {
        self.catch_failure(|page, processor| processor.advance(page, bytes));
    }

    fn soft_reset(&mut self) {
        self.after_held_output(XtermScreen::soft_reset);
    }

    fn perform(&mut self, control: &Control) {
        self.after_held_output(|page| page.perform(control));
    }

    fn begin_portion(&mut self) {
        // The emulator draws the output of a synchronized update immediately, even if it arrived in several portions.
        if self.held_until().is_none() {
            self.page.renew_draw_budget();
        }
    }

    fn grant_repeats(&mut self, requested: u16) -> u16 {
        self.page.grant_repeats(requested)
    }

    fn strip_combining(&mut self) {
        self.catch_failure(|page, _| page.strip_combining());
    }

    fn resize(&mut self, size: Size) {
        self.size = size;
        self.catch_failure(|page, _| page.resize(size));
    }

    fn take_replies(&mut self) -> Vec<u8> {
        self.outbox.with(|outbox| std::mem::take(&mut outbox.replies))
    }

    fn size(&self) -> Size {
        self.size
    }

    fn title(&self) -> String {
        self.outbox.title()
    }

    fn cursor(&self) -> Cursor {
        let Point { line, column } = self.page.term().grid().cursor.point;
        Cursor {
            row: u16::try_from(line.0).unwrap_or(0),
            col: u16::try_from(column.0).unwrap_or(0),
            visible: self.page.term().mode().contains(TermMode::SHOW_CURSOR),
        }
    }

    fn modes(&self) -> Modes {
        let mode = self.page.term().mode();
        Modes {
            application_cursor: mode.contains(TermMode::APP_CURSOR),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            alternate_screen: mode.contains(TermMode::ALT_SCREEN),
            mouse: match mode {
                _ if mode.contains(TermMode::MOUSE_MOTION) => MouseReports::Moves,
                _ if mode.contains(TermMode::MOUSE_DRAG) => MouseReports::Drags,
                _ if mode.contains(TermMode::MOUSE_REPORT_CLICK) => MouseReports::Buttons,
                _ => MouseReports::None,
            },
            sgr_mouse: mode.contains(TermMode::SGR_MOUSE),
            wheel_is_quiet: !mode.contains(TermMode::ALTERNATE_SCROLL),
        }
    }

    fn row(&self, index: u16) -> String {
        let mut out = String::new();
        if let Some(row) = self.rows().nth(index.into()) {
            push_row(&mut out, row);
        }
        out
    }

    fn text(&self) -> String {
        let format = || {
            let mut out = String::with_capacity(1024);
            for (index, row) in self.rows().enumerate() {
                if index > 0 {
                    out.push('\n');
                }
                push_row(&mut out, row);
            }
            out.truncate(out.trim_end_matches('\n').len());
            out
        };
        self.text.get_or_init(format).clone()
    }

    fn scrolled(&self) -> (u64, u64) {
        let (scrolled, epoch) = self.page.scrolled();
        (scrolled, epoch + (u64::from(self.failures) << 32))
    }

    fn rows_from(&self, above: usize) -> Vec<(String, bool)> {
        let grid = self.page.term().grid();
        let above = i32::try_from(grid.history_size().min(above)).unwrap_or(i32::MAX);
        let width = usize::from(self.size.cols);
        let visible_rows = |row: i32| {
            let cells = &grid[Line(row)][Column(0)..Column(width)];
            let is_wrapped = cells.last().is_some_and(|last| last.flags.contains(Flags::WRAPLINE));
            let mut text = String::new();
            if is_wrapped {
                cells.iter().for_each(|cell| push_cell(&mut text, cell));
            } else {
                push_row(&mut text, cells);
            }
            (text, is_wrapped)
        };
        (-above..i32::from(self.size.rows)).map(visible_rows).collect()
    }

    fn ansi(&self) -> String {
        paint::rows(self.rows())
    }

    fn picture(&self) -> Picture {
        let shape = self.page.term().cursor_style().shape;
        picture::from_rows(self.rows(), self.size.cols, self.cursor(), shape, self.page.palette(), self.page.links())
    }

    fn scrollback(&self, max_rows: usize) -> Picture {
        let grid = self.page.term().grid();
        let above = i32::try_from(grid.history_size().min(max_rows)).unwrap_or(i32::MAX);
        let width = usize::from(self.size.cols);
        let rows = (-above..i32::from(self.size.rows)).map(|row| &grid[Line(row)][Column(0)..Column(width)]);
        let hidden = Cursor { visible: false, ..self.cursor() };
        let shape = self.page.term().cursor_style().shape;
        picture::from_rows(rows, self.size.cols, hidden, shape, self.page.palette(), self.page.links())
    }

    fn snapshot(&self) -> String {
        let (term, links) = (self.page.term(), self.page.links());
        let pen = &term.grid().cursor.template;
        paint::snapshot(self.rows(), (self.cursor(), pen), *term.mode(), self.page.area(), links)
    }

    fn keyframe(&self) -> Option<String> {
        let (term, cursor) = (self.page.term(), &self.page.term().grid().cursor);
        let is_plain = cursor.template == Cell::default() && cursor.charsets == Charsets::default();
        // The alternate screen hides the main screen.
        let has_hidden_state =
            term.mode().intersects(TermMode::ALT_SCREEN | TermMode::INSERT) || cursor.input_needs_wrap;
        if !is_plain || has_hidden_state || !self.page.palette().is_default() || self.held_until().is_some() {
            return None;
        }
        let style = term.cursor_style();
        let shape = match style.shape {
            EmulatedShape::Underline => 4,
            EmulatedShape::Beam => 6,
            _ => 2,
        } - u8::from(style.blinking);
        Some(format!("\x1b]2;{}\x1b\\\x1b[{shape} q{}", self.title(), self.snapshot()))
    }

    fn failures(&self) -> u32 {
        self.failures
    }

    fn held_until(&self) -> Option<Instant> {
        self.processor.sync_timeout().sync_timeout()
    }

    fn release(&mut self) {
        self.catch_failure(|page, processor| processor.stop_sync(page));
    }
}

/// Appends a row without trailing spaces.
fn push_row(out: &mut String, row: &[Cell]) {
    let begin = out.len();
    // Skip trailing spaces first, because they are most cells of a screen.
    let end = row.iter().rposition(|cell| cell.c != ' ' || cell.extra.is_some()).map_or(0, |last| last + 1);
    for cell in &row[..end] {
        push_cell(out, cell);
    }
    out.truncate(begin + out[begin..].trim_end().len());
}

/// Appends the text of a cell. The second half of a wide character has no text.
pub(super) fn push_cell(out: &mut String, cell: &Cell) {
    if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
        return;
    }
    out.push(match cell.c {
        // The emulator stores a tab in its first cell; show it as a space.
        '\t' => ' ',
        shown => shown,
    });
    out.extend(cell.zerowidth().into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen_after(cols: u16, rows: u16, bytes: &[u8]) -> Emulator {
        let mut screen = Emulator::new(Size { cols, rows });
        screen.feed(bytes);
        screen
    }

    #[test]
    fn rows_are_cut_at_the_right_and_at_the_bottom() {
        let screen = screen_after(10, 4, b"a  \r\n\r\n  b   \r\n");
        assert_eq!(screen.text(), "a\n\n  b");
        assert_eq!([0, 1, 2, 3, 4].map(|row| screen.row(row)), ["a", "", "  b", "", ""]);
    }

    #[test]
    fn scrolled_rows_are_above_the_screen_rows() {
        let screen = screen_after(10, 2, b"a\r\n\x1b[31mb\x1b[m\r\nc\r\nd");
        let texts = |picture: Picture| -> Vec<String> {
            picture.rows.iter().map(|runs| runs.iter().map(|run| run.text.as_str()).collect()).collect()
        };
        assert_eq!(texts(screen.scrollback(1000)), ["a", "b", "c", "d"]);
        assert_eq!(texts(screen.scrollback(1)), ["b", "c", "d"]);
        assert!(screen.scrollback(9).cursor.is_none());
    }

    #[test]
    fn mouse_modes_are_those_set_by_the_program() {
        let mouse = |bytes: &[u8]| screen_after(10, 2, bytes).modes();
        assert_eq!(mouse(b""), Modes::default());
        assert_eq!(mouse(b"\x1b[?1000h").mouse, MouseReports::Buttons);
        let vim = mouse(b"\x1b[?1006;1000h\x1b[?1002h");
        assert_eq!((vim.mouse, vim.sgr_mouse), (MouseReports::Drags, true));
        assert_eq!(mouse(b"\x1b[?1003h").mouse, MouseReports::Moves);
        assert_eq!(mouse(b"\x1b[?1003h\x1b[?1003l").mouse, MouseReports::None);
        assert!(mouse(b"\x1b[?1007l").wheel_is_quiet);
    }

    #[test]
    fn wide_and_combining_characters_stay_in_their_cells() {
        let screen = screen_after(20, 3, "漢字 e\u{301}! 👍|\r\n".as_bytes());
        assert_eq!(screen.text(), "漢字 e\u{301}! 👍|");
        let bar = screen_after(20, 3, "漢e\u{301}|".as_bytes());
        assert_eq!(bar.cursor().col, 4);
    }

    #[test]
    fn cursor_position_request_is_answered() {
        let mut screen = screen_after(20, 5, b"ab\x1b[6n");
        assert_eq!(screen.take_replies(), b"\x1b[1;3R");
        screen.feed(b"\x1b[c");
        assert_eq!(screen.take_replies(), b"\x1b[?64;6;21;22;28c");
    }

    #[test]
    fn soft_reset_keeps_the_text_and_the_cursor() {
        let mut screen = screen_after(20, 5, b"one\r\n\x1b[2;4r\x1b[?6h\x1b[?1h\x1b[?25l\x1b[2;3H");
        let before = screen.cursor();
        screen.soft_reset();
        assert_eq!((screen.cursor().row, screen.cursor().col), (before.row, before.col));
        assert!(screen.cursor().visible && !screen.modes().application_cursor);
        assert_eq!(screen.text(), "one");
    }

    #[test]
    fn excessive_combining_characters_are_removed() {
        let mut screen = screen_after(20, 5, format!("a{}", "\u{301}".repeat(1000)).as_bytes());
        screen.strip_combining();
        assert_eq!(screen.text(), "a");
    }

    #[test]
    fn endless_keyboard_requests_are_ignored() {
        let mut screen = screen_after(20, 5, b"x");
        screen.feed(&b"\x1b[>1u".repeat(10_000));
        assert_eq!(screen.text(), "x");
    }

    #[test]
    fn snapshot_reproduces_the_screen() {
        let original = screen_after(
            30,
            6,
            "plain \x1b[1;31mred\x1b[0m \x1b[48;2;1;2;3m\x1b[4mx\x1b[0m\r\n漢字\x1b[?1049h\x1b[2;5Halt\x1b[?1h"
                .as_bytes(),
        );
        let mut copy = Emulator::new(original.size());
        copy.feed(original.snapshot().as_bytes());
        assert_eq!(copy.text(), original.text());
        assert_eq!(copy.ansi(), original.ansi());
        assert_eq!(copy.cursor(), original.cursor());
        assert_eq!(copy.modes(), original.modes());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_and_sizes_leave_a_readable_screen(
            portions in proptest::collection::vec(
                (proptest::collection::vec(proptest::num::u8::ANY, 0..200), 2u16..200, 2u16..100),
                0..6,
            ),
        ) {
            let mut screen = Emulator::new(Size { cols: 20, rows: 5 });
            for (bytes, cols, rows) in portions {
                screen.feed(&bytes);
                screen.feed(b"\x1b[5;5H\x1b[L\x1b[2P\x1b[3@\x1b[X");
                screen.resize(Size { cols, rows });
                screen.strip_combining();
                let _ = (screen.text(), screen.ansi(), screen.snapshot(), screen.cursor(), screen.take_replies());
                let cells = screen.picture().rows.iter().flatten().map(|run| run.cells().count()).sum::<usize>();
                proptest::prop_assert!(cells <= usize::from(cols) * usize::from(rows));
            }
        }
    }

    #[test]
    fn resize_rewraps_lines() {
        let mut screen = screen_after(10, 5, b"abcdefgh\r\n$ ");
        screen.resize(Size { cols: 4, rows: 5 });
        assert!(screen.text().ends_with("efgh\n$"));
        screen.resize(Size { cols: 10, rows: 5 });
        assert_eq!(screen.text(), "abcdefgh\n$");
    }
}
