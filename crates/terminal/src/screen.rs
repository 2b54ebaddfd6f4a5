//! The screen of a program, behind a small trait.
//!
//! The interface of the emulator is not stable, so all other code uses the emulator only through [`Screen`]: its input
//! is bytes, its output is values. Readers receive copies, never a shared screen.

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
pub use highlights::{Highlight, highlights, highlights_in_place};
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
    /// The minimum and maximum number of rows or columns of a terminal.
    pub const BOUNDS: std::ops::RangeInclusive<u16> = 2..=1000;

    /// Returns this size if rows and columns are within [`Size::BOUNDS`].
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
    /// True if the program shows the cursor.
    pub visible: bool,
}

/// Mouse events that the program requests (modes 1000, 1002 and 1003).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MouseReports {
    /// No events.
    #[default]
    None,
    /// Presses and releases of buttons.
    Buttons,
    /// Buttons, and movements with a pressed button.
    Drags,
    /// Buttons and all movements.
    Moves,
}

impl MouseReports {
    /// Returns whether the program requests no mouse events.
    #[must_use]
    pub fn are_none(&self) -> bool {
        *self == Self::None
    }
}

/// The modes of keyboard and screen that the program has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Modes {
    /// True if cursor keys are sent as `ESC O A` rather than `ESC [ A` (DECCKM).
    pub application_cursor: bool,
    /// True if `ESC [ 200 ~` and `ESC [ 201 ~` enclose pasted text.
    pub bracketed_paste: bool,
    /// True on the alternate screen of full-screen programs.
    pub alternate_screen: bool,
    /// Mouse events that the program requests.
    #[serde(default, skip_serializing_if = "MouseReports::are_none")]
    pub mouse: MouseReports,
    /// True if mouse reports use the encoding without position limits (mode 1006).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sgr_mouse: bool,
    /// True if the wheel is not treated as arrow keys on the alternate screen (mode 1007 is off).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wheel_is_quiet: bool,
}

/// A terminal's screen.
pub(crate) trait Screen: Send {
    /// Draws the output of a program.
    fn feed(&mut self, bytes: &[u8]);
    /// Resets modes to their defaults without changing the shown text (DECSTR).
    fn soft_reset(&mut self);
    /// Performs a sequence that the emulator lacks, at its position in the output.
    fn perform(&mut self, control: &Control);
    /// Begins the output of one read and renews the number of cells that the output may draw.
    fn begin_portion(&mut self);
    /// Returns the number of repetitions of a character to draw: at most `requested`, the cells of the screen, and the
    /// remaining cells of the portion.
    fn grant_repeats(&mut self, requested: u16) -> u16;
    /// Removes excess combining characters from the cells at the cursor.
    fn strip_combining(&mut self);
    /// Changes the size and rewraps the lines of the main screen.
    fn resize(&mut self, size: Size);
    /// Takes the answers to the program's queries, as bytes to write to the program.
    fn take_replies(&mut self) -> Vec<u8>;
    /// Returns the current size.
    fn size(&self) -> Size;
    /// Returns the title that the program set, or an empty text.
    fn title(&self) -> String;
    /// Returns the current cursor.
    fn cursor(&self) -> Cursor;
    /// Returns the current modes.
    fn modes(&self) -> Modes;
    /// Returns a row as plain text without trailing spaces; empty for a missing row. Much cheaper than [`Self::text`].
    fn row(&self, index: u16) -> String;
    /// Returns the rows as plain text, without trailing spaces and empty rows at the bottom.
    fn text(&self) -> String;
    /// Returns the number of rows of the main screen that have scrolled off, and the epoch of this count. A resize or a
    /// reset begins a new epoch.
    fn scrolled(&self) -> (u64, u64);
    /// Returns up to `above` rows of the scrollback and all rows of the screen. The flag of a row is true if its line
    /// continues in the next row. Rows without the flag have no trailing spaces.
    fn rows_from(&self, above: usize) -> Vec<(String, bool)>;
    /// Returns the rows as text with colours (SGR sequences), trimmed like [`Self::text`].
    fn ansi(&self) -> String;
    /// Returns the cells with their colours, as data for a painter.
    fn picture(&self) -> Picture;
    /// Returns the cells of up to `max_rows` rows of the scrollback, followed by the cells of the screen.
    fn scrollback(&self, max_rows: usize) -> Picture;
    /// Returns escape sequences that reproduce this state, with cursor and modes, on a terminal of the same size.
    fn snapshot(&self) -> String;
    /// Returns escape sequences that restore this screen in a new screen of the same size. `None` if they cannot
    /// express the current state.
    fn keyframe(&self) -> Option<String>;
    /// Returns the number of resets of the emulator after a failure on a program's output.
    #[cfg_attr(not(test), expect(dead_code, reason = "laws for the parsers ask for it"))]
    fn failures(&self) -> u32;
    /// Returns the latest time to show output that a program holds back (synchronized update, mode 2026).
    fn held_until(&self) -> Option<Instant>;
    /// Shows the held output.
    fn release(&mut self);
}
