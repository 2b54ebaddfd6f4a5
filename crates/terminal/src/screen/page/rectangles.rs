//! Rectangles of cells: copied, filled, erased, and their checksum (DEC STD 070,
//! "Rectangular Area Operations").

use std::ops::Range;

use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::Flags;

use super::{PROTECTED, Protection, XtermScreen, line};

/// The attributes that rectangles can have. Nothing blinks here.
const CHANGEABLE: Flags = Flags::BOLD.union(Flags::UNDERLINE).union(Flags::INVERSE);

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

/// Changes or reverses an attribute by its SGR number.
fn change(flags: &mut Flags, attribute: u16, reverses: bool) {
    let named = |attribute| match attribute {
        0 => CHANGEABLE,
        1 => Flags::BOLD,
        4 => Flags::UNDERLINE,
        7 => Flags::INVERSE,
        _ => Flags::empty(),
    };
    match attribute {
        _ if reverses => flags.toggle(named(attribute)),
        0 => flags.remove(CHANGEABLE),
        22 | 24 | 27 => flags.remove(named(if attribute == 22 { 1 } else { attribute - 20 })),
        _ => flags.insert(named(attribute)),
    }
}

impl XtermScreen {
    /// Reads a rectangle. Returns nothing where no cell would be in it.
    fn rectangle(&self, params: &[u16]) -> Option<Rectangle> {
        Some(self.corners(params)).filter(|area| !area.rows.is_empty() && !area.columns.is_empty())
    }

    /// Reads top, left, bottom and right, which count from the origin and are cut to what there is.
    fn corners(&self, params: &[u16]) -> Rectangle {
        let (first_row, first_column) = self.home();
        let (end_row, end_column) = match self.origin() {
            true => (self.bottom + 1, self.left_and_right().1 + 1),
            false => (self.rows(), self.columns()),
        };
        let begin = |index: usize, offset: usize| offset + param(params, index).unwrap_or(1) - 1;
        let end = |index: usize, offset: usize, end: usize| {
            param(params, index).map_or(end, |given| offset.saturating_add(given).min(end))
        };
        let rows = begin(0, first_row)..end(2, first_row, end_row);
        let columns = begin(1, first_column)..end(3, first_column, end_column);
        Rectangle { rows, columns }
    }

    /// DECFRA: the character, then the rectangle. The cells get the attributes of text written now.
    pub(super) fn fill_rectangle(&mut self, params: &[u16]) {
        // Control characters are not visible; DEC's right half is Latin-1, as Unicode's is.
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

    /// DECERA, and DECSERA, which leaves protected cells alone.
    pub(super) fn erase_rectangle(&mut self, params: &[u16], selectively: bool) {
        let Some(area) = self.rectangle(params).filter(|area| self.may_draw(area.cells())) else { return };
        let keep = selectively && self.protection == Protection::Dec;
        for row in area.rows {
            self.erase(row, area.columns.clone(), keep);
        }
    }

    /// DECCRA: the rectangle, its page, where its top left cell goes, and that page. There is one page.
    pub(super) fn copy_rectangle(&mut self, params: &[u16]) {
        let Some(source) = self.rectangle(params) else { return };
        let (first_row, first_column) = self.home();
        let top = first_row + param(params, 5).unwrap_or(1) - 1;
        let left = first_column + param(params, 6).unwrap_or(1) - 1;
        let (end_row, end_column) = match self.origin() {
            true => (self.bottom + 1, self.left_and_right().1 + 1),
            false => (self.rows(), self.columns()),
        };
        let width = source.columns.len().min(end_column.saturating_sub(left));
        let height = source.rows.len().min(end_row.saturating_sub(top));
        if width == 0 || height == 0 || !self.may_draw(2 * width * height) {
            return;
        }
        let columns = Column(source.columns.start)..Column(source.columns.start + width);
        // The two may overlap, so this takes everything before it writes anything.
        let taken: Vec<_> =
            source.rows.take(height).map(|row| self.term.grid()[line(row)][columns.clone()].to_vec()).collect();
        for (row, cells) in (top..).zip(&taken) {
            self.term.grid_mut()[line(row)][Column(left)..Column(left + width)].clone_from_slice(cells);
        }
        self.clear_split_halves_in(top..top + height);
    }

    /// DECCARA and DECRARA: a place to begin, one to end, and which attributes to change or to reverse there. The
    /// area between the places is a rectangle, or text from the one to the other (DECSACE).
    pub(super) fn change_attributes(&mut self, params: &[u16], reverses: bool) {
        let area = self.corners(params);
        let attributes = match params.get(4..) {
            None | Some([]) => &[0],
            Some(attributes) => attributes,
        };
        if !self.may_draw(area.rows.len() * self.columns() * attributes.len()) {
            return;
        }
        let whole = match self.origin() {
            true => self.left_and_right().0..self.left_and_right().1 + 1,
            false => 0..self.columns(),
        };
        for row in area.rows.clone() {
            let mut columns = area.columns.clone();
            if !self.attributes_in_rectangle {
                columns.start = if row == area.rows.start { columns.start } else { whole.start };
                columns.end = if row + 1 == area.rows.end { columns.end } else { whole.end };
            }
            if columns.is_empty() {
                continue;
            }
            for cell in &mut self.term.grid_mut()[line(row)][Column(columns.start)..Column(columns.end)] {
                for attribute in attributes {
                    change(&mut cell.flags, *attribute, reverses);
                }
            }
        }
    }

    /// DECRQCRA: an id, a page, and the rectangle. The answer is a number: the sum of all characters, negated
    /// as on DEC's terminals, without their attributes.
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

    /// Returns whether the screen protects text written now (DECSCA, SPA).
    pub(super) fn protects(&self) -> bool {
        self.term.grid().cursor.template.flags.contains(PROTECTED)
    }
}
