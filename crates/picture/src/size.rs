//! The largest screen that is painted.

use std::error::Error;
use std::fmt;

/// Maximum number of cells that are painted: 600 by 100, or 12 million pixels, which take 50 MB while they are painted.
const MAX_CELLS: usize = 60_000;

/// A screen has too many cells to be painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// The cells that it has.
    pub cells: usize,
}

impl TooLarge {
    /// Checks whether a screen of this size can be painted, before its cells are collected.
    ///
    /// # Errors
    /// If it has more than 60,000 cells.
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
