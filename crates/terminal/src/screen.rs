//! The screen that a program draws on, behind a small trait.
//!
//! The interface of the emulator is not stable, so all other code uses it only
//! through [`Screen`]: bytes are its input, values its output. Readers receive
//! copies, never a shared screen.

pub(crate) mod control;
mod emulator;
mod highlights;
mod page;
mod paint;
mod picture;

use serde::{Deserialize, Serialize};
use std::time::Instant;

use control::Control;
pub(crate) use emulator::Emulator;
pub use highlights::{Highlight, highlights};
pub(crate) use highlights::{row_of_cursor, styled_rows};
pub use page::is_link_address;
pub use picture::{Colour, CursorCell, CursorShape, Picture, Rgb, Run, Style, Underline};

/// Size of a screen, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Cells in a row.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

impl Size {
    /// The smallest and the largest number of rows or columns of a terminal.
    pub const BOUNDS: std::ops::RangeInclusive<u16> = 2..=1000;

    /// Returns this size if both sides are within [`Size::BOUNDS`].
    #[must_use]
    pub fn checked(self) -> Option<Self> {
        (Self::BOUNDS.contains(&self.cols) && Self::BOUNDS.contains(&self.rows)).then_some(self)
    }
}

impl Default for Size {
    fn default() -> Self {
        Self { cols: 120, rows: 40 }
    }
}

/// The position of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Row, counted from 0 at the top.
    pub row: u16,
    /// Column, counted from 0 at the left.
    pub col: u16,
    /// True if the program shows it.
    pub visible: bool,
}

/// Mouse events that the program requests (modes 1000, 1002 and 1003).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MouseReports {
    /// Nothing.
    #[default]
    None,
    /// Buttons.
    Buttons,
    /// Buttons, and movement with a pressed button.
    Drags,
    /// Buttons and every movement.
    Moves,
}

impl MouseReports {
    /// Returns whether it requests none.
    #[must_use]
    pub fn are_none(&self) -> bool {
        *self == Self::None
    }
}

/// The modes of keyboard and screen that the program has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Modes {
    /// Cursor keys go out as `ESC O A` rather than `ESC [ A` (DECCKM).
    pub application_cursor: bool,
    /// Pasted text needs `ESC [ 200 ~` before it and `ESC [ 201 ~` after it.
    pub bracketed_paste: bool,
    /// A full-screen program has the alternate screen.
    pub alternate_screen: bool,
    /// Mouse events that the program requests.
    #[serde(default, skip_serializing_if = "MouseReports::are_none")]
    pub mouse: MouseReports,
    /// Mouse reports use the encoding without limits (mode 1006).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sgr_mouse: bool,
    /// On the alternate screen, the wheel does not count as arrow keys (mode 1007 is off).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wheel_is_quiet: bool,
}

/// A terminal's screen.
pub(crate) trait Screen: Send {
    /// Draws what a program printed.
    fn feed(&mut self, bytes: &[u8]);
    /// Puts modes back to their defaults without touching the shown text (DECSTR).
    fn soft_reset(&mut self);
    /// Performs a sequence that the emulator lacks, at its place in the output.
    fn perform(&mut self, control: &Control);
    /// Begins the output of one read, which limits the cells that few bytes may draw.
    fn begin_portion(&mut self);
    /// Returns the number of `asked` repetitions of a character to draw: no more than the screen can show, and than the
    /// portion has left.
    fn grant_repeats(&mut self, asked: u16) -> u16;
    /// Removes excess combining characters from the cells at the cursor.
    fn relieve(&mut self);
    /// Changes the size, and wraps the lines of the main screen to it.
    fn resize(&mut self, size: Size);
    /// Takes the answers to the program's queries, as bytes to write to it.
    fn take_replies(&mut self) -> Vec<u8>;
    /// The current size.
    fn size(&self) -> Size;
    /// The title that the program set, or an empty text.
    fn title(&self) -> String;
    /// The current cursor.
    fn cursor(&self) -> Cursor;
    /// The current modes.
    fn modes(&self) -> Modes;
    /// A row as plain text, blanks at the right cut; empty if there is none. Costs far less than all rows.
    fn row(&self, index: u16) -> String;
    /// The rows as plain text, blanks at the right and empty rows at the bottom cut.
    fn text(&self) -> String;
    /// Returns the number of rows of the main screen that have scrolled off, and the epoch of this count. A resize or a
    /// reset begins a new epoch.
    fn scrolled(&self) -> (u64, u64);
    /// Returns up to `above` rows of the scrollback and those of the screen, each with a flag that is true if its line
    /// continues in the next row. Rows without the flag have no trailing blanks.
    fn rows_from(&self, above: usize) -> Vec<(String, bool)>;
    /// The rows as text with colours (SGR sequences), cut likewise.
    fn ansi(&self) -> String;
    /// The cells with their colours, as data for a painter.
    fn picture(&self) -> Picture;
    /// The cells of at most `max_rows` rows that scrolled away and are still known, and below them those of the screen.
    fn scrollback(&self, max_rows: usize) -> Picture;
    /// Escape sequences that show exactly this state on a terminal of the same size, cursor and modes included.
    fn snapshot(&self) -> String;
    /// Escape sequences from which a new screen of the same size continues as this one would; `None` while it depends
    /// on more than they can express.
    fn keyframe(&self) -> Option<String>;
    /// Returns the number of restarts of the emulator because it failed on a program's output.
    #[cfg_attr(not(test), expect(dead_code, reason = "laws for the parsers ask for it"))]
    fn failures(&self) -> u32;
    /// Returns the latest time to show output that a program holds back (synchronized update, mode 2026).
    fn held_until(&self) -> Option<Instant>;
    /// Shows the held output.
    fn release(&mut self);
}
