//! The page of a program: the emulator with additional functions of DEC terminals and xterm.
//!
//! `alacritty_terminal` stores the cells and writes text into them. The page is a layer between the emulator and its
//! parser: it forwards the functions that the emulator implements, and performs the others on the emulator's grid.
//! Without left and right margins, text and line ends go directly to the emulator.
//!
//! Sources: DEC STD 070 ("Video Systems Reference Manual") for the behaviour of the sequences, and xterm's ctlseqs for
//! their forms and for differences of xterm. Rows and columns count from 0 here. Ranges include both ends if DEC's
//! ranges do.

mod allowance;
mod colours;
mod cursor;
mod erase;
mod links;
mod modes;
mod rectangles;
mod reports;
mod scroll;
#[cfg(test)]
mod tests;
mod titles;
mod write;

use alacritty_terminal::Term;
use alacritty_terminal::grid::{Cursor, Dimensions};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorShape, CursorStyle, Handler, Hyperlink, LineClearMode, Mode, NamedMode,
    NamedPrivateMode, PrivateMode, StandardCharset, TabulationClearMode,
};

use super::Size;
use super::control::Control;
use super::emulator::Outbox;
use allowance::DrawBudget;
pub(super) use colours::{Palette, default_colour};
pub(super) use links::Links;
pub use links::is_link_address;
use modes::ExtraModes;
use scroll::Shift;
use titles::Titles;

/// Number of scrolled lines that the emulator keeps, so that a taller screen shows recently scrolled lines. A line
/// takes 3 KB here; the history has the full text.
const SCROLLBACK_LINES: usize = 1000;

/// Columns between the default tab stops.
const TAB_INTERVAL: usize = 8;

/// Flag of a cell that selective erases keep. It is the bit after the emulator's own flags.
const PROTECTED: Flags = Flags::from_bits_retain(1 << 15);

/// Erases that keep protected cells: the selective erases of DEC (DECSED, DECSEL, DECSERA), or the ordinary erases of
/// ISO 6429 (ED, EL, ECH). As in xterm, the last protection that a program set decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Protection {
    #[default]
    Nothing,
    Dec,
    Iso,
}

/// A screen with margins, protected cells, tab stops, titles and colours.
pub(super) struct XtermScreen {
    term: Term<Outbox>,
    outbox: Outbox,
    /// The first row of the scroll region.
    top: usize,
    /// The last row of the scroll region.
    bottom: usize,
    /// The first and the last column of the scroll region, if left and right margins are on (DECLRMM).
    side_margins: Option<(usize, usize)>,
    tabs: Vec<bool>,
    protection: Protection,
    stored_modes: ExtraModes,
    /// True if origin mode was on at the save of the cursor, for the main and the alternate screen.
    saved_origin: [bool; 2],
    /// The saved cursor before the last save. With left and right margins, `CSI s` is not a save, so the page restores
    /// this cursor.
    saved_before: (Cursor<Cell>, bool),
    /// The position of the cursor before the last relative motion.
    moved_from: (usize, usize),
    /// The content of the alternate screen after mode 47. That mode does not clear the content.
    alternate: Option<Vec<Vec<Cell>>>,
    /// True if DECCARA and DECRARA change rectangles instead of ranges of text (DECSACE).
    attributes_in_rectangle: bool,
    palette: Palette,
    titles: Titles,
    links: Links,
    /// The conformance level (DECSCL), 1 to 4.
    level: u8,
    draw_budget: DrawBudget,
    /// Number of rows of the main screen that have scrolled off at the top.
    scrolled: u64,
    /// Number of resizes and resets; they change the rows of the screen.
    epoch: u64,
}

impl XtermScreen {
    pub(super) fn new(size: Size, outbox: &Outbox) -> Self {
        let config = Config {
            scrolling_history: SCROLLBACK_LINES,
            // The emulator's keyboard stack panics when it is full. The transcript implements the protocol instead.
            kitty_keyboard: false,
            ..Config::default()
        };
        Self {
            term: Term::new(config, &size, outbox.clone()),
            outbox: outbox.clone(),
            top: 0,
            bottom: usize::from(size.rows) - 1,
            side_margins: None,
            tabs: tab_stops(usize::from(size.cols)),
            protection: Protection::default(),
            stored_modes: ExtraModes::default(),
            saved_origin: [false; 2],
            saved_before: (Cursor::default(), false),
            moved_from: (0, 0),
            alternate: None,
            attributes_in_rectangle: false,
            palette: Palette::default(),
            titles: Titles::default(),
            links: Links::default(),
            level: MAX_LEVEL,
            draw_budget: DrawBudget::default(),
            scrolled: 0,
            epoch: 0,
        }
    }

    pub(super) fn term(&self) -> &Term<Outbox> {
        &self.term
    }

    pub(super) fn palette(&self) -> &Palette {
        &self.palette
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the scroll region, and true for positions relative to it (DECOM).
    pub(super) fn area(&self) -> Area {
        Area { rows: (self.top, self.bottom), columns: self.side_margins, origin: self.origin() }
    }

    /// Returns the number of rows that have scrolled off, and the epoch of this count.
    pub(super) fn scrolled(&self) -> (u64, u64) {
        (self.scrolled, self.epoch)
    }

    /// Counts rows that scroll off at the top of the main screen.
    fn record_scrolled(&mut self, count: usize) {
        if self.top == 0 && !self.has(TermMode::ALT_SCREEN) {
            self.scrolled += count.min(self.bottom + 1) as u64;
        }
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.epoch += 1;
        self.term.resize(size);
        let columns = usize::from(size.cols);
        self.reset_margins();
        let mut tabs = tab_stops(columns);
        for (tab, previous) in tabs.iter_mut().zip(&self.tabs) {
            *tab = *previous;
        }
        self.tabs = tabs;
        self.alternate = None;
    }

    /// Removes combining characters from the cells at the cursor.
    pub(super) fn strip_combining(&mut self) {
        let (row, column) = self.cursor_position();
        for column in column.saturating_sub(2)..=column {
            self.cell(row, column).extra = None;
        }
    }

    /// Performs a sequence that the emulator lacks.
    pub(super) fn perform(&mut self, control: &Control) {
        match control {
            Control::Csi { marks, action, params } => self.csi(*marks, *action, params),
            Control::Escape(byte) => match byte {
                b'6' => self.back_index(),
                b'9' => self.forward_index(),
                b'V' => self.protect(Protection::Iso, true),
                _ => self.protect(Protection::Iso, false),
            },
            Control::Setting(name) => self.report_setting(name),
            Control::Capabilities(names) => self.report_capabilities(names),
            Control::Colours { params, bell } => {
                let replies = self.palette.perform(params, *bell);
                self.outbox.reply(&replies);
            }
        }
    }

    fn csi(&mut self, marks: [u8; 2], action: u8, params: &[u16]) {
        let first = params.first().copied().unwrap_or(0);
        match (marks, action) {
            ([0, 0], b'a') => self.move_by((0, usize::from(first.max(1)))),
            ([0, 0], b'e') => self.move_by((usize::from(first.max(1)), 0)),
            ([0, 0], b's') => self.set_side_margins(params),
            ([0, 0], b't') => self.window_operation(params),
            ([b'?', 0], b'J') => self.erase_screen_selectively(first),
            ([b'?', 0], b'K') => self.erase_line_selectively(first),
            ([b'?', 0], b'n') => self.report_device(params),
            ([b'?', 0], b'r') => self.restore_modes(params),
            ([b'?', 0], b's') => self.save_modes(params),
            ([b'>', 0], b'q') => self.report_version(),
            ([b'"', 0], b'p') => self.set_level(first),
            ([b'"', 0], b'q') => self.protect(Protection::Dec, first == 1),
            ([b'$', 0], _) if self.level < 4 => {}
            ([b'$', 0], b'r') => self.change_attributes(params, false),
            ([b'$', 0], b't') => self.change_attributes(params, true),
            ([b'$', 0], b'v') => self.copy_rectangle(params),
            ([b'$', 0], b'x') => self.fill_rectangle(params),
            ([b'$', 0], b'z') => self.erase_rectangle(params, false),
            ([b'$', 0], b'{') => self.erase_rectangle(params, true),
            ([b'*', 0], b'x') => self.attributes_in_rectangle = first == 2,
            ([b'*', 0], b'y') => self.report_checksum(params),
            ([b'\'', 0], _) if self.level < 4 => {}
            ([b'\'', 0], b'}') => self.insert_columns(usize::from(first.max(1))),
            ([b'\'', 0], b'~') => self.delete_columns(usize::from(first.max(1))),
            ([b' ', 0], b'@') => self.shift_area(Shift::Left(usize::from(first.max(1)))),
            ([b' ', 0], b'A') => self.shift_area(Shift::Right(usize::from(first.max(1)))),
            _ => {}
        }
    }

    /// Resets modes to their defaults without changing the shown text (DECSTR).
    pub(super) fn soft_reset(&mut self) {
        let position = self.cursor_position();
        self.reset_margins();
        self.side_margins = None;
        for mode in [NamedPrivateMode::Origin, NamedPrivateMode::CursorKeys] {
            self.term.unset_private_mode(mode.into());
        }
        // DEC's default does not wrap lines, but xterm and its programs expect wrapped lines.
        for mode in [NamedPrivateMode::ShowCursor, NamedPrivateMode::LineWrap] {
            self.term.set_private_mode(mode.into());
        }
        self.term.unset_mode(NamedMode::Insert.into());
        self.term.unset_keypad_application_mode();
        self.protection = Protection::Nothing;
        self.stored_modes.soft_reset();
        self.attributes_in_rectangle = false;
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.template = Cell::default();
        cursor.charsets = Default::default();
        self.term.set_active_charset(CharsetIndex::G0);
        self.term.grid_mut().saved_cursor = Cursor::default();
        self.saved_origin = [false; 2];
        self.move_cursor_to(position.0, position.1);
    }

    fn set_level(&mut self, level: u16) {
        if let Some(level) = level.checked_sub(60).filter(|level| (1..=5).contains(level)) {
            // The manuals of the VT300 and later call this a hard reset.
            self.reset_state();
            self.level = (level as u8).min(MAX_LEVEL);
        }
    }

    fn rows(&self) -> usize {
        self.term.screen_lines()
    }

    fn columns(&self) -> usize {
        self.term.columns()
    }

    /// Returns the row and the column of the cursor.
    fn cursor_position(&self) -> (usize, usize) {
        let point = self.term.grid().cursor.point;
        (usize::try_from(point.line.0).unwrap_or(0), point.column.0)
    }

    /// Moves the cursor to a position, or to the nearest position on the screen.
    fn move_cursor_to(&mut self, row: usize, column: usize) {
        let (row, column) = (row.min(self.rows() - 1), column.min(self.columns() - 1));
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.point.line = line(row);
        cursor.point.column = Column(column);
        cursor.input_needs_wrap = false;
    }

    fn cell(&mut self, row: usize, column: usize) -> &mut Cell {
        &mut self.term.grid_mut()[line(row)][Column(column)]
    }

    fn has(&self, mode: TermMode) -> bool {
        self.term.mode().contains(mode)
    }

    fn origin(&self) -> bool {
        self.has(TermMode::ORIGIN)
    }

    /// Returns the first and the last column of the scroll region, or of the screen without side margins.
    fn left_and_right(&self) -> (usize, usize) {
        self.side_margins.unwrap_or((0, self.columns() - 1))
    }

    fn is_between_side_margins(&self, column: usize) -> bool {
        let (left, right) = self.left_and_right();
        (left..=right).contains(&column)
    }

    fn is_in_area(&self, (row, column): (usize, usize)) -> bool {
        (self.top..=self.bottom).contains(&row) && self.is_between_side_margins(column)
    }

    /// Returns the cell that an erased cell becomes.
    fn blank(&self) -> Cell {
        self.term.grid().cursor.template.bg.into()
    }

    /// Returns the origin of positions: a row and a column.
    fn home(&self) -> (usize, usize) {
        if self.origin() { (self.top, self.left_and_right().0) } else { (0, 0) }
    }

    fn reset_margins(&mut self) {
        self.top = 0;
        self.bottom = self.rows() - 1;
        if self.side_margins.is_some() {
            self.side_margins = Some((0, self.columns() - 1));
        }
        let position = self.cursor_position();
        let wraps = self.term.grid().cursor.input_needs_wrap;
        self.term.set_scrolling_region(1, None);
        self.move_cursor_to(position.0, position.1);
        self.term.grid_mut().cursor.input_needs_wrap = wraps;
    }

    /// Performs DECSLRM. The same sequence is SCOSC while left and right margins are off.
    fn set_side_margins(&mut self, params: &[u16]) {
        if self.side_margins.is_none() {
            return;
        }
        // The emulator has performed SCOSC and saved the cursor: restore the earlier save.
        let (cursor, origin) = self.saved_before.clone();
        self.term.grid_mut().saved_cursor = cursor;
        self.saved_origin[self.screen_index()] = origin;
        let columns = self.columns();
        let parameter = |index: usize| params.get(index).map(|param| usize::from(*param)).filter(|param| *param > 0);
        let left_margin = parameter(0).unwrap_or(1);
        let right_margin = parameter(1).unwrap_or(columns).min(columns);
        if left_margin < right_margin {
            self.side_margins = Some((left_margin - 1, right_margin - 1));
            let home = self.home();
            self.move_cursor_to(home.0, home.1);
        }
    }

    /// Returns the index of the shown screen: main (0) or alternate (1).
    fn screen_index(&self) -> usize {
        usize::from(self.has(TermMode::ALT_SCREEN))
    }
}

/// Maximum conformance level: level 4, as in a VT420.
const MAX_LEVEL: u8 = 4;

/// The scroll region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    /// The first and the last row.
    pub(super) rows: (usize, usize),
    /// The first and the last column, if there are left and right margins.
    pub(super) columns: Option<(usize, usize)>,
    /// True if positions count from its first row and column.
    pub(super) origin: bool,
}

fn tab_stops(columns: usize) -> Vec<bool> {
    (0..columns).map(|column| column % TAB_INTERVAL == 0).collect()
}

fn line(row: usize) -> Line {
    // A screen has at most a thousand rows.
    Line(row as i32)
}

// The default methods do nothing. Colours and the stack of titles arrive as controls, with more details. Programs have
// no access to the clipboard.
impl Handler for XtermScreen {
    #[inline]
    fn input(&mut self, character: char) {
        match self.side_margins {
            None => {
                let cursor = &self.term.grid().cursor;
                let (before, was_full) = (cursor.point, cursor.input_needs_wrap);
                self.term.input(character);
                let cursor = &self.term.grid().cursor;
                let is_wrapped = cursor.point.column < before.column || was_full && !cursor.input_needs_wrap;
                if is_wrapped && usize::try_from(before.line.0) == Ok(self.bottom) {
                    self.record_scrolled(1);
                }
            }
            Some((left, right)) => self.input_between_sides(character, left, right),
        }
    }

    #[inline]
    fn linefeed(&mut self) {
        self.index();
        if self.has(TermMode::LINE_FEED_NEW_LINE) {
            self.carriage_return();
        }
    }

    #[inline]
    fn carriage_return(&mut self) {
        match self.side_margins {
            None => self.term.carriage_return(),
            Some(_) => {
                let column = self.line_start();
                self.move_cursor_to(self.cursor_position().0, column);
            }
        }
    }

    #[inline]
    fn terminal_attribute(&mut self, attribute: Attr) {
        if attribute == Attr::Reset {
            // Protection is not a rendition: SGR 0 leaves it unchanged.
            let protected = self.term.grid().cursor.template.flags & PROTECTED;
            self.term.terminal_attribute(attribute);
            self.term.grid_mut().cursor.template.flags.insert(protected);
        } else {
            self.term.terminal_attribute(attribute);
        }
    }

    fn goto(&mut self, row: i32, column: usize) {
        let row = usize::try_from(row).unwrap_or(0);
        if self.origin() {
            let (left, right) = self.left_and_right();
            self.move_cursor_to((self.top + row).min(self.bottom), (left + column).min(right));
        } else {
            self.move_cursor_to(row, column);
        }
    }

    fn goto_line(&mut self, row: i32) {
        let column = self.cursor_position().1.saturating_sub(self.home().1);
        self.goto(row, column);
    }

    fn goto_col(&mut self, column: usize) {
        let row = self.cursor_position().0.saturating_sub(self.home().0);
        self.goto(row as i32, column);
    }

    fn move_up(&mut self, count: usize) {
        let (row, column) = self.cursor_position();
        let stop = if row >= self.top { self.top } else { 0 };
        self.move_cursor_to(row.saturating_sub(count).max(stop), column);
    }

    fn move_down(&mut self, count: usize) {
        let (row, column) = self.cursor_position();
        self.moved_from = (row, column);
        let stop = if row <= self.bottom { self.bottom } else { self.rows() - 1 };
        self.move_cursor_to((row + count).min(stop), column);
    }

    fn move_forward(&mut self, count: usize) {
        let (row, column) = self.cursor_position();
        self.moved_from = (row, column);
        let right = self.left_and_right().1;
        let stop = if column <= right { right } else { self.columns() - 1 };
        self.move_cursor_to(row, (column + count).min(stop));
    }

    fn move_backward(&mut self, count: usize) {
        self.step_back(count);
    }

    fn move_down_and_cr(&mut self, count: usize) {
        self.move_down(count);
        let column = self.line_start();
        self.move_cursor_to(self.cursor_position().0, column);
    }

    fn move_up_and_cr(&mut self, count: usize) {
        self.move_up(count);
        let column = self.line_start();
        self.move_cursor_to(self.cursor_position().0, column);
    }

    fn backspace(&mut self) {
        self.step_back(1);
    }

    fn newline(&mut self) {
        self.linefeed();
    }

    fn reverse_index(&mut self) {
        let (row, column) = self.cursor_position();
        if row == self.top {
            if self.is_between_side_margins(column) {
                self.scroll_down(1);
            }
        } else {
            self.move_cursor_to(row.saturating_sub(1), column);
        }
    }

    fn scroll_up(&mut self, count: usize) {
        self.scroll_rows_up(self.top, count);
    }

    fn scroll_down(&mut self, count: usize) {
        self.scroll_rows_down(self.top, count);
    }

    fn insert_blank_lines(&mut self, count: usize) {
        let position = self.cursor_position();
        if self.is_in_area(position) {
            self.scroll_rows_down(position.0, count);
        }
    }

    fn delete_lines(&mut self, count: usize) {
        let position = self.cursor_position();
        if self.is_in_area(position) {
            self.scroll_rows_up(position.0, count);
        }
    }

    fn insert_blank(&mut self, count: usize) {
        let (row, column) = self.cursor_position();
        if self.is_between_side_margins(column) {
            self.shift_cells(row, column, self.left_and_right().1, Shift::Right(count));
            self.term.grid_mut().cursor.input_needs_wrap = false;
        }
    }

    fn delete_chars(&mut self, count: usize) {
        let (row, column) = self.cursor_position();
        if self.is_between_side_margins(column) {
            self.shift_cells(row, column, self.left_and_right().1, Shift::Left(count));
            self.term.grid_mut().cursor.input_needs_wrap = false;
        }
    }

    fn erase_chars(&mut self, count: usize) {
        let (row, column) = self.cursor_position();
        let end = column.saturating_add(count).min(self.columns());
        self.erase(row, column..end, self.protection == Protection::Iso);
    }

    fn clear_line(&mut self, mode: LineClearMode) {
        // Keep the last character of a line that has just become full: many programs erase the rest of each line.
        if matches!(mode, LineClearMode::Right) && self.term.grid().cursor.input_needs_wrap {
            return;
        }
        if self.protection == Protection::Iso {
            return self.erase_line(&mode, true);
        }
        let (row, column) = self.cursor_position();
        let first_kept = match mode {
            LineClearMode::Right => column.checked_sub(1),
            LineClearMode::Left => Some(column + 1),
            LineClearMode::All => None,
        };
        self.term.clear_line(mode);
        let wide = Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER;
        let cells = &self.term.grid()[line(row)][..];
        if first_kept.and_then(|column| cells.get(column)).is_some_and(|cell| cell.flags.intersects(wide)) {
            self.clear_split_halves(row);
        }
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        self.erase_screen(&mode, self.protection == Protection::Iso);
    }

    fn decaln(&mut self) {
        self.reset_margins();
        self.move_cursor_to(0, 0);
        self.term.decaln();
    }

    fn put_tab(&mut self, count: u16) {
        if self.term.grid().cursor.input_needs_wrap && self.stored_modes.is_set(modes::MORE_FIX) {
            self.next_line(self.left_and_right().0);
        }
        self.tab_forward(usize::from(count));
    }

    fn move_forward_tabs(&mut self, count: u16) {
        self.tab_forward(usize::from(count));
    }

    fn move_backward_tabs(&mut self, count: u16) {
        let (row, column) = self.cursor_position();
        let stops = (0..column).rev().filter(|column| self.tabs[*column]);
        let target = stops.take(usize::from(count)).enumerate().last();
        let column = match target {
            Some((index, stop)) if index + 1 == usize::from(count) => stop,
            _ => 0,
        };
        self.move_cursor_to(row, column);
    }

    fn set_horizontal_tabstop(&mut self) {
        let column = self.cursor_position().1;
        self.tabs[column] = true;
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        match mode {
            TabulationClearMode::Current => {
                let column = self.cursor_position().1;
                self.tabs[column] = false;
            }
            TabulationClearMode::All => self.tabs.fill(false),
        }
    }

    fn set_tabs(&mut self, _interval: u16) {
        self.tabs = tab_stops(self.columns());
    }

    fn save_cursor_position(&mut self) {
        self.save_cursor();
    }

    fn restore_cursor_position(&mut self) {
        self.restore_cursor();
    }

    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        let rows = self.rows();
        let bottom = bottom.unwrap_or(rows).min(rows);
        if top >= bottom {
            return;
        }
        self.term.set_scrolling_region(top, Some(bottom));
        self.top = top - 1;
        self.bottom = bottom - 1;
        let home = self.home();
        self.move_cursor_to(home.0, home.1);
    }

    fn set_hyperlink(&mut self, link: Option<Hyperlink>) {
        // A text that is not an address ends the previous link.
        let link = link.and_then(|link| self.links.get_or_insert(&link.uri));
        self.term.grid_mut().cursor.template.set_hyperlink(link);
    }

    fn reset_state(&mut self) {
        self.epoch += 1;
        self.term.reset_state();
        let (palette, titles) = (std::mem::take(&mut self.palette), std::mem::take(&mut self.titles));
        self.top = 0;
        self.bottom = self.rows() - 1;
        self.side_margins = None;
        self.tabs = tab_stops(self.columns());
        self.protection = Protection::Nothing;
        self.stored_modes = ExtraModes::default();
        self.saved_origin = [false; 2];
        self.saved_before = (Cursor::default(), false);
        self.alternate = None;
        self.attributes_in_rectangle = false;
        self.palette = palette;
        self.titles = titles;
        self.level = MAX_LEVEL;
    }

    fn set_mode(&mut self, mode: Mode) {
        self.stored_modes.set_ansi(mode.raw(), true);
        self.term.set_mode(mode);
    }

    fn unset_mode(&mut self, mode: Mode) {
        self.stored_modes.set_ansi(mode.raw(), false);
        self.term.unset_mode(mode);
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        self.change_mode(mode, true);
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        self.change_mode(mode, false);
    }

    fn report_mode(&mut self, mode: Mode) {
        self.report_ansi_mode(mode.raw());
    }

    fn report_private_mode(&mut self, mode: PrivateMode) {
        self.report_dec_mode(mode.raw());
    }

    fn identify_terminal(&mut self, intermediate: Option<char>) {
        self.report_attributes(intermediate);
    }

    fn device_status(&mut self, what: usize) {
        self.report_status(what);
    }

    fn text_area_size_pixels(&mut self) {
        self.report_pixels();
    }

    fn text_area_size_chars(&mut self) {
        self.term.text_area_size_chars();
    }

    fn set_title(&mut self, title: Option<String>) {
        self.outbox.set_title(title.unwrap_or_default());
    }

    fn set_keypad_application_mode(&mut self) {
        self.term.set_keypad_application_mode();
    }

    fn unset_keypad_application_mode(&mut self) {
        self.term.unset_keypad_application_mode();
    }

    fn set_active_charset(&mut self, index: CharsetIndex) {
        self.term.set_active_charset(index);
    }

    fn configure_charset(&mut self, index: CharsetIndex, charset: StandardCharset) {
        self.term.configure_charset(index, charset);
    }

    fn set_cursor_style(&mut self, style: Option<CursorStyle>) {
        self.term.set_cursor_style(style);
    }

    fn set_cursor_shape(&mut self, shape: CursorShape) {
        self.term.set_cursor_shape(shape);
    }
}
