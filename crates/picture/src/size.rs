//! Maximum size of a painted screen.

use std::error::Error;
use std::fmt;

/// Maximum number of painted cells: 600 by 100, or 12 million pixels. They take 50 MB during the painting.
const MAX_CELLS: usize = 60_000;

/// Error for a screen with too many cells to paint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Number of cells of the screen.
    pub cells: usize,
}

impl TooLarge {
    /// Checks that a screen of this size can be painted, before its cells are collected.
    ///
    /// # Errors
    /// If the screen has more than 60,000 cells.
    pub fn check(cols: u16, rows: usize) -> Result<(), Self> {
        let cells = usize::from(cols) * rows;
        if cells > MAX_CELLS { Err(Self { cells }) } else { Ok(()) }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a screen of {} cells is too large to be painted; up to {MAX_CELLS} are", self.cells)
    }
}

impl Error for TooLarge {}
