//! A screen as escape sequences, for clients that read colours and for attached terminals.
//!
//! Uses sequences of ECMA-48 (SGR, CUP) and xterm's private modes
//! (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>).

use std::fmt::Write as _;

use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, NamedColor};

use super::Cursor;
use super::emulator::push_cell;
use super::page::{Area, Links};
use super::picture::MAX_ROW_ADDRESS_BYTES;

/// Returns the rows with their colours, without trailing spaces and rows that show nothing.
pub(super) fn rows<'a>(rows: impl Iterator<Item = &'a [Cell]>) -> String {
    let mut out = String::new();
    let mut written_bytes = 0;
    for (index, row) in rows.enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if paint_row(&mut out, row, None) {
            written_bytes = out.len();
        }
    }
    out.truncate(written_bytes);
    out
}

/// Paints a whole screen: clears it, draws every row at its position, and sets the modes, the cursor and the attributes of
/// the text that follows, which are those of the cell `pen`.
pub(super) fn snapshot<'a>(
    rows: impl Iterator<Item = &'a [Cell]>,
    (cursor, pen): (Cursor, &Cell),
    mode: TermMode,
    area: Area,
    links: &Links,
) -> String {
    let mut out = String::from("\x1b[!p\x1b[?7l");
    out.push_str(if mode.contains(TermMode::ALT_SCREEN) { "\x1b[?1049h" } else { "\x1b[?1049l" });
    out.push_str("\x1b[m\x1b[2J");
    for (index, row) in rows.enumerate() {
        let mut line = String::new();
        if paint_row(&mut line, row, Some(links)) {
            let _ = write!(out, "\x1b[{};1H{line}", index + 1);
        }
    }
    let private_modes = [
        (TermMode::LINE_WRAP, "7"),
        (TermMode::APP_CURSOR, "1"),
        (TermMode::BRACKETED_PASTE, "2004"),
        (TermMode::MOUSE_REPORT_CLICK, "1000"),
        (TermMode::MOUSE_DRAG, "1002"),
        (TermMode::MOUSE_MOTION, "1003"),
        (TermMode::SGR_MOUSE, "1006"),
        (TermMode::FOCUS_IN_OUT, "1004"),
    ];
    for (flag, number) in private_modes {
        let _ = write!(out, "\x1b[?{number}{}", if mode.contains(flag) { 'h' } else { 'l' });
    }
    out.push_str(if mode.contains(TermMode::APP_KEYPAD) { "\x1b=" } else { "\x1b>" });
    let origin = area.write(&mut out);
    let row = usize::from(cursor.row).saturating_sub(origin.0) + 1;
    let column = usize::from(cursor.col).saturating_sub(origin.1) + 1;
    let _ = write!(out, "\x1b[{row};{column}H");
    out.push_str(if cursor.visible { "\x1b[?25h" } else { "\x1b[?25l" });
    let style = Style::from_cell(pen);
    if style != Style::default() {
        style.write(&mut out);
    }
    out
}

impl Area {
    /// Appends the margins and origin mode. Returns the new origin of positions: a row and a column.
    fn write(self, out: &mut String) -> (usize, usize) {
        // A write to a `String` does not fail.
        let _ = write!(out, "\x1b[{};{}r", self.rows.0 + 1, self.rows.1 + 1);
        if let Some((left, right)) = self.columns {
            let _ = write!(out, "\x1b[?69h\x1b[{};{}s", left + 1, right + 1);
        }
        if !self.origin {
            return (0, 0);
        }
        out.push_str("\x1b[?6h");
        (self.rows.0, self.columns.map_or(0, |(left, _)| left))
    }
}

/// Returns the parameters of the SGR sequence that sets the attributes of a cell.
pub(super) fn attributes(cell: &Cell) -> String {
    let mut sequence = String::new();
    Style::from_cell(cell).write(&mut sequence);
    sequence.trim_start_matches("\x1b[").trim_end_matches('m').to_owned()
}

/// Appends one row and resets the attributes after it. Returns false for a row that shows nothing.
///
/// With `links`, writes the hyperlinks as well.
fn paint_row(out: &mut String, row: &[Cell], links: Option<&Links>) -> bool {
    let is_visible = |cell: &Cell| {
        !matches!(cell.c, ' ' | '\t')
            || cell.zerowidth().is_some_and(|combined| !combined.is_empty())
            || cell.bg != Color::Named(NamedColor::Background)
            || cell.flags.intersects(Flags::INVERSE | Flags::ALL_UNDERLINES | Flags::STRIKEOUT)
    };
    let Some(last) = row.iter().rposition(is_visible) else { return false };
    let mut style = Style::default();
    let (mut address, mut address_bytes) = (None, 0);
    for cell in &row[..=last] {
        let link = links.and_then(|links| cell.hyperlink().and_then(|link| links.address(&link)));
        if link != address {
            address_bytes += link.map_or(0, str::len);
            let shown_address = link.filter(|_| address_bytes <= MAX_ROW_ADDRESS_BYTES).unwrap_or_default();
            // Writing to a String does not fail.
            let _ = write!(out, "\x1b]8;;{shown_address}\x1b\\");
            address = link;
        }
        let cell_style = Style::from_cell(cell);
        if cell_style != style {
            cell_style.write(out);
            style = cell_style;
        }
        push_cell(out, cell);
    }
    if address.is_some() {
        out.push_str("\x1b]8;;\x1b\\");
    }
    if style != Style::default() {
        out.push_str("\x1b[m");
    }
    true
}

#[derive(Clone, Copy, PartialEq)]
struct Style {
    fg: Color,
    bg: Color,
    flags: Flags,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            fg: Color::Named(NamedColor::Foreground),
            bg: Color::Named(NamedColor::Background),
            flags: Flags::empty(),
        }
    }
}

impl Style {
    fn from_cell(cell: &Cell) -> Self {
        const PAINTED_FLAGS: Flags = Flags::INVERSE
            .union(Flags::BOLD)
            .union(Flags::DIM)
            .union(Flags::ITALIC)
            .union(Flags::HIDDEN)
            .union(Flags::STRIKEOUT)
            .union(Flags::ALL_UNDERLINES);
        Self { fg: cell.fg, bg: cell.bg, flags: cell.flags.intersection(PAINTED_FLAGS) }
    }

    fn write(self, out: &mut String) {
        out.push_str("\x1b[0");
        let attributes = [
            (Flags::BOLD, ";1"),
            (Flags::DIM, ";2"),
            (Flags::ITALIC, ";3"),
            (Flags::INVERSE, ";7"),
            (Flags::HIDDEN, ";8"),
            (Flags::STRIKEOUT, ";9"),
            (Flags::UNDERLINE, ";4"),
            (Flags::DOUBLE_UNDERLINE, ";4:2"),
            (Flags::UNDERCURL, ";4:3"),
            (Flags::DOTTED_UNDERLINE, ";4:4"),
            (Flags::DASHED_UNDERLINE, ";4:5"),
        ];
        for (flag, code) in attributes {
            if self.flags.contains(flag) {
                out.push_str(code);
            }
        }
        write_colour(out, self.fg, 30, NamedColor::Foreground);
        write_colour(out, self.bg, 40, NamedColor::Background);
        out.push('m');
    }
}

/// Appends `;…` for a colour, and nothing for the default colour. `base` is 30 for text and 40 for the background.
fn write_colour(out: &mut String, colour: Color, base: usize, default: NamedColor) {
    // Writing to a String does not fail.
    let _ = match colour {
        Color::Named(name) if name == default => Ok(()),
        Color::Named(name) => match name as usize {
            index @ 0..=7 => write!(out, ";{}", base + index),
            index @ 8..=15 => write!(out, ";{}", base + 60 + index - 8),
            _ => Ok(()),
        },
        Color::Indexed(index) => write!(out, ";{};5;{index}", base + 8),
        Color::Spec(rgb) => write!(out, ";{};2;{};{};{}", base + 8, rgb.r, rgb.g, rgb.b),
    };
}
