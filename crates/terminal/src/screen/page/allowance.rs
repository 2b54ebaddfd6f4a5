//! Limits how much a few bytes may draw.
//!
//! `CSI 65535 b` draws 65,535 characters for eight bytes, and a rectangle is as large as the
//! screen. One task serves each terminal and few threads serve all, so the bytes of one read may
//! draw a limited number of cells. The screen omits what exceeds that: no program that means to
//! show something comes near it.

use super::XtermScreen;

/// Cells that one read may have drawn by sequences that draw many. Takes about a millisecond.
const CELLS: usize = 200_000;

/// Full screens of any size that one read may draw in any case.
const SCREENS: usize = 2;

/// A character between left and right margins costs as much as this number of others.
const BETWEEN_SIDES: usize = 32;

/// Rest of the cells that one read may draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct DrawBudget(usize);

impl Default for DrawBudget {
    fn default() -> Self {
        Self(CELLS)
    }
}

impl XtermScreen {
    fn cells(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Another read begins.
    pub(in super::super) fn renew_allowance(&mut self) {
        self.allowance = DrawBudget(CELLS.max(SCREENS * self.cells()));
    }

    /// Takes the cost of drawing `cells` cells. Returns whether there is enough left for them.
    pub(super) fn may_draw(&mut self, cells: usize) -> bool {
        let left = self.allowance.0.checked_sub(cells);
        self.allowance.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns the number of `asked` repetitions of a character (REP) that the screen draws: at most a screen full of
    /// them.
    pub(in super::super) fn grant_repeats(&mut self, asked: u16) -> u16 {
        let each = if self.sides.is_some() { BETWEEN_SIDES } else { 1 };
        let granted = usize::from(asked).min(self.cells()).min(self.allowance.0 / each);
        self.allowance.0 -= granted * each;
        u16::try_from(granted).unwrap_or(asked)
    }
}
