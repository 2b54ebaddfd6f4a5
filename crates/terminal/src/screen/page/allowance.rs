//! A limit on the cells that a few bytes may draw.
//!
//! `CSI 65535 b` draws 65,535 characters for eight bytes, and a rectangle is as large as the screen. Each terminal has
//! one task, and all tasks share few threads, so the bytes of one read may draw only a limited number of cells. The
//! screen ignores drawing beyond the limit. Useful output does not reach the limit.

use super::XtermScreen;

/// Maximum number of cells drawn by the bulk sequences of one read. Takes about a millisecond.
const MAX_CELLS_PER_READ: usize = 200_000;

/// Number of full screens that one read may always draw, for screens of any size.
const MIN_SCREENS_PER_READ: usize = 2;

/// Cost of a character between left and right margins, in ordinary characters.
const SIDE_MARGIN_COST: usize = 32;

/// Number of cells that the current read may still draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct DrawBudget(usize);

impl Default for DrawBudget {
    fn default() -> Self {
        Self(MAX_CELLS_PER_READ)
    }
}

impl XtermScreen {
    fn cells(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Resets the budget at the beginning of a read.
    pub(in super::super) fn renew_draw_budget(&mut self) {
        self.draw_budget = DrawBudget(MAX_CELLS_PER_READ.max(MIN_SCREENS_PER_READ * self.cells()));
    }

    /// Deducts `cells` from the budget. Returns false if the budget is too small.
    pub(super) fn may_draw(&mut self, cells: usize) -> bool {
        let remaining = self.draw_budget.0.checked_sub(cells);
        self.draw_budget.0 = remaining.unwrap_or(0);
        remaining.is_some()
    }

    /// Returns the number of repetitions of a character (REP) to draw and deducts their cost: at most `requested`, a
    /// full screen, and the remaining budget.
    pub(in super::super) fn grant_repeats(&mut self, requested: u16) -> u16 {
        let cost = if self.side_margins.is_some() { SIDE_MARGIN_COST } else { 1 };
        let granted = usize::from(requested).min(self.cells()).min(self.draw_budget.0 / cost);
        self.draw_budget.0 -= granted * cost;
        u16::try_from(granted).unwrap_or(requested)
    }
}
