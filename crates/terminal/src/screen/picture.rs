//! A screen as plain data: the contents of its cells, and their colours.
//!
//! For components that paint a screen (as HTML, as an image), in this process or another one.
//! Colours are as the program set them; [`Picture::rgb`] returns their RGB values on this screen.

use std::fmt;

use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, CursorShape as EmulatedShape, NamedColor, Rgb as EmulatedRgb};
use serde::{Deserialize, Serialize};

use super::Cursor;
use super::emulator::push_cell;
use super::page::{Links, Palette, default_colour};

/// Content of a screen at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Cells in a row.
    pub cols: u16,
    /// The rows from top to bottom. Runs omit blank cells, except for spaces between words.
    pub rows: Vec<Vec<Run>>,
    /// The position of the cursor, unless the program hides it.
    pub cursor: Option<CursorCell>,
    /// The default colour of text.
    pub foreground: Rgb,
    /// The default background of cells.
    pub background: Rgb,
    /// Colours of the palette that the program has changed, by their indices.
    pub palette: Vec<(u8, Rgb)>,
}

/// Adjacent cells of one row with the same style.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Column of the first cell, counted from 0.
    pub col: u16,
    /// Number of columns of the run.
    pub cols: u16,
    /// True if each of its characters takes two columns.
    pub wide: bool,
    /// One character for each cell, or all characters of a single cell with combining characters.
    pub text: String,
    /// Style of the cells.
    pub style: Style,
    /// The address that the program gave the text (OSC 8), in printable ASCII.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// Style of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Style {
    /// Colour of the text.
    pub fg: Colour,
    /// Colour of the background.
    pub bg: Colour,
    /// True for bold text.
    pub bold: bool,
    /// True for text of reduced brightness.
    pub dim: bool,
    /// True for italic text.
    pub italic: bool,
    /// Line under the text.
    pub underline: Underline,
    /// Colour of the underline, if it differs from the text.
    pub underline_colour: Option<Colour>,
    /// True for a line through the text.
    pub strike: bool,
    /// True if text and background have swapped colours.
    pub inverse: bool,
    /// True for invisible text.
    pub hidden: bool,
}

/// A colour as a program set it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Colour {
    /// The default colour of the screen.
    #[default]
    Default,
    /// An index of the palette: 16 named colours, a cube of 216, 24 greys.
    Indexed(u8),
    /// A direct colour.
    Rgb(Rgb),
}

/// Red, green and blue, each from 0 to 255. Displayed as `#rrggbb`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// Kinds of lines under text (SGR 4:0 to 4:5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Underline {
    /// No line.
    #[default]
    None,
    /// One line.
    Single,
    /// Two lines.
    Double,
    /// A wave.
    Curled,
    /// Dots.
    Dotted,
    /// Dashes.
    Dashed,
}

/// The position and the appearance of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CursorCell {
    /// Row, counted from 0 at the top.
    pub row: u16,
    /// Column, counted from 0 at the left. The first column of a wide character.
    pub col: u16,
    /// True on a character of two columns.
    pub wide: bool,
    /// The shape (DECSCUSR).
    pub shape: CursorShape,
    /// The colour, if the program has set it.
    pub colour: Option<Rgb>,
}

/// Shapes of the cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CursorShape {
    /// A full cell.
    #[default]
    Block,
    /// A line under the cell.
    Underline,
    /// A line before the cell.
    Bar,
}

impl Picture {
    /// Returns the RGB value of `colour` on this screen, or `default` for the default colour.
    #[must_use]
    pub fn rgb(&self, colour: Colour, default: Rgb) -> Rgb {
        match colour {
            Colour::Default => default,
            Colour::Rgb(rgb) => rgb,
            Colour::Indexed(index) => {
                let changed = self.palette.iter().find(|(changed, _)| *changed == index);
                changed.map_or_else(|| default_colour(index.into()).into(), |(_, rgb)| *rgb)
            }
        }
    }
}

impl Run {
    /// Returns whether a cell at `col` can extend this run: it is adjacent, or only spaces without a visible style are
    /// between.
    fn can_extend_to(&self, col: u16) -> bool {
        self.col + self.cols == col || !(self.wide || self.style.shows_on_blanks())
    }

    /// Returns the column and the text of each cell.
    pub fn cells(&self) -> impl Iterator<Item = (u16, &str)> {
        let step = if self.wide { 2 } else { 1 };
        let combined = self.cols == step;
        let ends = self.text.char_indices().map(move |(at, character)| (at, at + character.len_utf8()));
        let whole_text = combined.then_some((0, self.text.len()));
        let cells = ends.filter(move |_| !combined).chain(whole_text);
        cells.enumerate().map(move |(index, (from, to))| (self.col + index as u16 * step, &self.text[from..to]))
    }
}

impl From<EmulatedRgb> for Rgb {
    fn from(EmulatedRgb { r, g, b }: EmulatedRgb) -> Self {
        Self(r, g, b)
    }
}

/// Creates the picture of `rows` with `cols` cells each.
pub(super) fn from_rows<'a>(
    rows: impl Iterator<Item = &'a [Cell]>,
    cols: u16,
    cursor: Cursor,
    shape: EmulatedShape,
    palette: &Palette,
    links: &Links,
) -> Picture {
    let mut cursor_cell = None;
    let rows = rows
        .enumerate()
        .map(|(index, row)| {
            if cursor.visible && index == usize::from(cursor.row) {
                cursor_cell = cursor_cell_at(row, cursor, shape);
            }
            runs(row, links)
        })
        .collect();
    Picture {
        cols,
        rows,
        cursor: cursor_cell.map(|cursor_cell| CursorCell { colour: palette.cursor().map(Rgb::from), ..cursor_cell }),
        foreground: palette.foreground().into(),
        background: palette.background().into(),
        palette: palette.changed().map(|(index, colour)| (index, colour.into())).collect(),
    }
}

fn cursor_cell_at(row: &[Cell], cursor: Cursor, shape: EmulatedShape) -> Option<CursorCell> {
    let shape = match shape {
        EmulatedShape::Block | EmulatedShape::HollowBlock => CursorShape::Block,
        EmulatedShape::Underline => CursorShape::Underline,
        EmulatedShape::Beam => CursorShape::Bar,
        EmulatedShape::Hidden => return None,
    };
    let flags = |col: u16| row.get(usize::from(col)).map_or(Flags::empty(), |cell| cell.flags);
    let is_second_half = flags(cursor.col).contains(Flags::WIDE_CHAR_SPACER);
    let col = if is_second_half { cursor.col.saturating_sub(1) } else { cursor.col };
    Some(CursorCell { row: cursor.row, col, wide: flags(col).contains(Flags::WIDE_CHAR), shape, colour: None })
}

/// Maximum total size of the addresses in a row, in bytes. The row omits further addresses.
pub(super) const MAX_ROW_ADDRESS_BYTES: usize = 16 * 1024;

fn runs(row: &[Cell], links: &Links) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut address_bytes = 0;
    // A cell with combining characters is a separate run, because a run has one character for each cell.
    let mut is_closed = false;
    for (col, cell) in row.iter().enumerate() {
        if cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            continue;
        }
        let (col, style) = (col as u16, Style::from_cell(cell));
        let has_combining = cell.zerowidth().is_some_and(|marks| !marks.is_empty());
        if matches!(cell.c, ' ' | '\t') && !has_combining && !style.shows_on_blanks() {
            continue;
        }
        let wide = cell.flags.contains(Flags::WIDE_CHAR);
        let cols = if wide { 2 } else { 1 };
        let link = cell.hyperlink();
        let link = link.as_ref().and_then(|link| links.address(link));
        match runs.last_mut() {
            Some(run)
                if !is_closed
                    && !has_combining
                    && run.style == style
                    && run.wide == wide
                    && run.link.as_deref() == link
                    && run.can_extend_to(col) =>
            {
                let gap = col - run.col - run.cols;
                run.text.extend(std::iter::repeat_n(' ', usize::from(gap)));
                push_cell(&mut run.text, cell);
                run.cols += gap + cols;
            }
            _ => {
                let mut text = String::new();
                push_cell(&mut text, cell);
                address_bytes += link.map_or(0, str::len);
                let link = link.filter(|_| address_bytes <= MAX_ROW_ADDRESS_BYTES).map(str::to_owned);
                runs.push(Run { col, cols, wide, text, style, link });
            }
        }
        is_closed = has_combining;
    }
    runs
}

impl Style {
    fn from_cell(cell: &Cell) -> Self {
        let has = |flag| cell.flags.contains(flag);
        let underlines = [
            (Flags::UNDERLINE, Underline::Single),
            (Flags::DOUBLE_UNDERLINE, Underline::Double),
            (Flags::UNDERCURL, Underline::Curled),
            (Flags::DOTTED_UNDERLINE, Underline::Dotted),
            (Flags::DASHED_UNDERLINE, Underline::Dashed),
        ];
        Self {
            fg: cell.fg.into(),
            bg: cell.bg.into(),
            bold: has(Flags::BOLD),
            dim: has(Flags::DIM),
            italic: has(Flags::ITALIC),
            underline: underlines.into_iter().find(|(flag, _)| has(*flag)).map(|(_, kind)| kind).unwrap_or_default(),
            underline_colour: cell.underline_color().map(Colour::from),
            strike: has(Flags::STRIKEOUT),
            inverse: has(Flags::INVERSE),
            hidden: has(Flags::HIDDEN),
        }
    }

    fn shows_on_blanks(&self) -> bool {
        self.bg != Colour::Default || self.inverse || self.strike || self.underline != Underline::None
    }
}

impl From<Color> for Colour {
    fn from(colour: Color) -> Self {
        match colour {
            Color::Spec(rgb) => Self::Rgb(rgb.into()),
            Color::Indexed(index) => Self::Indexed(index),
            Color::Named(name) => match name as usize {
                index @ 0..=15 => Self::Indexed(index as u8),
                index if (NamedColor::DimBlack as usize..=NamedColor::DimWhite as usize).contains(&index) => {
                    Self::Indexed((index - NamedColor::DimBlack as usize) as u8)
                }
                _ => Self::Default,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Emulator, Size};
    use super::*;
    use crate::history::History;
    use crate::intake::OutputPipeline;
    use crate::transcript::Transcript;

    fn picture(bytes: &str) -> Picture {
        let screen = Emulator::new(Size { cols: 20, rows: 3 });
        // Colours arrive through the transcript.
        let mut intake = OutputPipeline::new(Transcript::new(History::new(1 << 20), None), Box::new(screen));
        intake.take_in(bytes.as_bytes(), &mut Vec::new());
        intake.screen.picture()
    }

    fn summary(runs: &[Run]) -> Vec<(u16, u16, &str)> {
        runs.iter().map(|run| (run.col, run.cols, run.text.as_str())).collect()
    }

    #[test]
    fn cells_with_equal_style_form_a_run() {
        let picture = picture("ab\x1b[1;31mcd\x1b[m  e f\x1b[4m \x1b[Cg\r\n\x1b[m\x1b[44m  \x1b[m");
        assert_eq!(summary(&picture.rows[0]), [(0, 2, "ab"), (2, 2, "cd"), (6, 3, "e f"), (9, 1, " "), (11, 1, "g")]);
        let bold_red = Style { fg: Colour::Indexed(1), bold: true, ..Style::default() };
        assert_eq!(picture.rows[0][1].style, bold_red);
        assert_eq!(summary(&picture.rows[1]), [(0, 2, "  ")], "spaces with a background are visible");
        assert!(picture.rows[2].is_empty());
    }

    #[test]
    fn wide_and_combined_characters_keep_their_columns() {
        let picture = picture("a漢字e\u{301}b");
        assert_eq!(summary(&picture.rows[0]), [(0, 1, "a"), (1, 4, "漢字"), (5, 1, "e\u{301}"), (6, 1, "b")]);
        let cells: Vec<_> = picture.rows[0].iter().flat_map(Run::cells).collect();
        assert_eq!(cells, [(0, "a"), (1, "漢"), (3, "字"), (5, "e\u{301}"), (6, "b")]);
    }

    #[test]
    fn cursor_covers_a_whole_wide_character() {
        let cursor = picture("漢\x1b[1;2H\x1b[4 q").cursor.unwrap();
        assert_eq!((cursor.row, cursor.col, cursor.wide, cursor.shape), (0, 0, true, CursorShape::Underline));
        assert_eq!(picture("\x1b[?25l").cursor, None);
    }

    #[test]
    fn linked_text_is_a_separate_run() {
        let picture = picture(
            "a\x1b]8;;https://example.org/a;b\x1b\\bc\x1b]8;id=x;https://example.org/d\x07d\x1b]8;;javascript:x\x07e\x1b]8;;\x07f",
        );
        let runs: Vec<_> = picture.rows[0].iter().map(|run| (run.text.as_str(), run.link.as_deref())).collect();
        assert_eq!(
            runs,
            [("a", None), ("bc", Some("https://example.org/a;b")), ("d", Some("https://example.org/d")), ("ef", None)]
        );
    }

    #[test]
    fn addresses_of_a_row_are_bounded() {
        let cell = |number: usize| format!("\x1b]8;;https://example.org/{number}{}\x07x", "y".repeat(1900));
        let picture = picture(&(0..20).map(cell).collect::<String>());
        let bytes: usize = picture.rows[0].iter().filter_map(|run| run.link.as_ref()).map(String::len).sum();
        assert!(bytes > 10_000 && bytes <= MAX_ROW_ADDRESS_BYTES, "{bytes}");
        assert_eq!(picture.rows[0].iter().map(|run| run.text.len()).sum::<usize>(), 20);
    }

    #[test]
    fn colours_are_those_set_by_the_program() {
        let picture = picture("\x1b]4;1;rgb:01/02/03\x1b\\\x1b]11;#101112\x1b\\\x1b[31;48;5;196mx\x1b[38;2;9;8;7my");
        let style = |run: usize| picture.rows[0][run].style;
        assert_eq!(picture.background, Rgb(16, 17, 18));
        assert_eq!(picture.rgb(style(0).fg, picture.foreground), Rgb(1, 2, 3));
        assert_eq!(picture.rgb(style(0).bg, picture.background).to_string(), "#ff0000");
        assert_eq!(style(1).fg, Colour::Rgb(Rgb(9, 8, 7)));
    }
}
