//! Rectangles of cells: copied, filled, erased, and their checksum (DEC STD 070, "Rectangular Area Operations").

use std::ops::Range;

use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::Flags;

use super::{PROTECTED, Protection, XtermScreen, line};

/// The attributes that rectangle operations can change. The screen does not support blinking.
const CHANGEABLE_FLAGS: Flags = Flags::BOLD.union(Flags::UNDERLINE).union(Flags::INVERSE);

/// Rows and columns of the screen.
struct Rectangle {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Rectangle {
    fn cells(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

fn param(params: &[u16], index: usize) -> Option<usize> {
    params.get(index).map(|param| usize::from(*param)).filter(|param| *param > 0)
}

/// Changes or reverses the attribute with an SGR number.
fn change_flags(flags: &mut Flags, attribute: u16, reverses: bool) {
    let flag_of = |attribute| match attribute {
        0 => CHANGEABLE_FLAGS,
        1 => Flags::BOLD,
        4 => Flags::UNDERLINE,
        7 => Flags::INVERSE,
        _ => Flags::empty(),
    };
    match attribute {
        _ if reverses => flags.toggle(flag_of(attribute)),
        0 => flags.remove(CHANGEABLE_FLAGS),
        22 | 24 | 27 => flags.remove(flag_of(if attribute == 22 { 1 } else { attribute - 20 })),
        _ => flags.insert(flag_of(attribute)),
    }
}

impl XtermScreen {
    /// Parses a rectangle. `None` if it contains no cells.
    fn rectangle(&self, params: &[u16]) -> Option<Rectangle> {
        Some(self.corners(params)).filter(|area| !area.rows.is_empty() && !area.columns.is_empty())
    }

    /// Parses top, left, bottom and right, counted from the origin, and clips them to the available area.
    fn corners(&self, params: &[u16]) -> Rectangle {
        let (first_row, first_column) = self.home();
        let (end_row, end_column) = match self.origin() {
            true => (self.bottom + 1, self.left_and_right().1 + 1),
            false => (self.rows(), self.columns()),
        };
        let begin = |index: usize, offset: usize| offset + param(params, index).unwrap_or(1) - 1;
        let end = |index: usize, offset: usize, end: usize| {
            param(params, index).map_or(end, |value| offset.saturating_add(value).min(end))
        };
        let rows = begin(0, first_row)..end(2, first_row, end_row);
        let columns = begin(1, first_column)..end(3, first_column, end_column);
        Rectangle { rows, columns }
    }

    /// Performs DECFRA. Parameters: the character, then the rectangle. The cells get the current attributes.
    pub(super) fn fill_rectangle(&mut self, params: &[u16]) {
        // Ignore control characters. Codes from 160 are Latin-1, as in Unicode.
        let character = params.first().copied().filter(|code| matches!(code, 32..=126 | 160..=255));
        let Some(character) = character.and_then(|code| char::from_u32(code.into())) else { return };
        let Some(area) = self.rectangle(&params[1..]).filter(|area| self.may_draw(area.cells())) else { return };
        let mut cell = self.term.grid().cursor.template.clone();
        cell.c = character;
        for row in area.rows.clone() {
            let columns = Column(area.columns.start)..Column(area.columns.end);
            self.term.grid_mut()[line(row)][columns].fill(cell.clone());
        }
        self.clear_split_halves_in(area.rows);
    }

    /// Performs DECERA, or DECSERA to keep protected cells.
    pub(super) fn erase_rectangle(&mut self, params: &[u16], is_selective: bool) {
        let Some(area) = self.rectangle(params).filter(|area| self.may_draw(area.cells())) else { return };
        let keep = is_selective && self.protection == Protection::Dec;
        for row in area.rows {
            self.erase(row, area.columns.clone(), keep);
        }
    }

    /// Performs DECCRA. Parameters: the rectangle, its page, the target of its top left cell, and the target page.
    /// There is only one page.
    pub(super) fn copy_rectangle(&mut self, params: &[u16]) {
        let Some(source) = self.rectangle(params) else { return };
        let (first_row, first_column) = self.home();
        let target_row = first_row + param(params, 5).unwrap_or(1) - 1;
        let target_column = first_column + param(params, 6).unwrap_or(1) - 1;
        let (end_row, end_column) = match self.origin() {
            true => (self.bottom + 1, self.left_and_right().1 + 1),
            false => (self.rows(), self.columns()),
        };
        let width = source.columns.len().min(end_column.saturating_sub(target_column));
        let height = source.rows.len().min(end_row.saturating_sub(target_row));
        if width == 0 || height == 0 || !self.may_draw(2 * width * height) {
            return;
        }
        let columns = Column(source.columns.start)..Column(source.columns.start + width);
        // Copy all cells first, because source and target may overlap.
        let copied_rows: Vec<_> =
            source.rows.take(height).map(|row| self.term.grid()[line(row)][columns.clone()].to_vec()).collect();
        for (row, cells) in (target_row..).zip(&copied_rows) {
            self.term.grid_mut()[line(row)][Column(target_column)..Column(target_column + width)]
                .clone_from_slice(cells);
        }
        self.clear_split_halves_in(target_row..target_row + height);
    }

    /// Performs DECCARA or DECRARA. Parameters: the start, the end, and the attributes to change or to reverse. The
    /// area is the rectangle between start and end, or the text from start to end (DECSACE).
    pub(super) fn change_attributes(&mut self, params: &[u16], reverses: bool) {
        let area = self.corners(params);
        let attributes = match params.get(4..) {
            None | Some([]) => &[0],
            Some(attributes) => attributes,
        };
        if !self.may_draw(area.rows.len() * self.columns() * attributes.len()) {
            return;
        }
        let full_row = match self.origin() {
            true => self.left_and_right().0..self.left_and_right().1 + 1,
            false => 0..self.columns(),
        };
        for row in area.rows.clone() {
            let mut columns = area.columns.clone();
            if !self.attributes_in_rectangle {
                columns.start = if row == area.rows.start { columns.start } else { full_row.start };
                columns.end = if row + 1 == area.rows.end { columns.end } else { full_row.end };
            }
            if columns.is_empty() {
                continue;
            }
            for cell in &mut self.term.grid_mut()[line(row)][Column(columns.start)..Column(columns.end)] {
                for attribute in attributes {
                    change_flags(&mut cell.flags, *attribute, reverses);
                }
            }
        }
    }

    /// Replies to DECRQCRA. Parameters: an id, a page, and the rectangle. The reply is the sum of all characters
    /// without their attributes, negated as on DEC's terminals.
    pub(super) fn report_checksum(&mut self, params: &[u16]) {
        let id = params.first().copied().unwrap_or(0);
        let area = self.rectangle(params.get(2..).unwrap_or_default());
        let mut sum = 0u16;
        if let Some(area) = area {
            if !self.may_draw(area.cells()) {
                return;
            }
            for row in area.rows {
                for cell in &self.term.grid()[line(row)][Column(area.columns.start)..Column(area.columns.end)] {
                    sum = sum.wrapping_add(cell.c as u32 as u16);
                }
            }
        }
        self.outbox.reply(format!("\x1bP{id}!~{:04X}\x1b\\", sum.wrapping_neg()).as_bytes());
    }

    /// Returns whether new text is protected (DECSCA, SPA).
    pub(super) fn protects(&self) -> bool {
        self.term.grid().cursor.template.flags.contains(PROTECTED)
    }
}
