//! Characters drawn without a font, so that they fill their cells exactly and join their neighbours: box drawing
//! (U+2500 to U+257F), block elements (U+2580 to U+259F), braille patterns (U+2800 to U+28FF) and the separators of
//! Powerline (U+E0B0 to U+E0B7).
//!
//! Names and shapes follow the charts, <https://www.unicode.org/charts/PDF/U2500.pdf>.

use crate::canvas::{Area, CELL_HEIGHT, CELL_WIDTH, Stencil};

/// The pixel in the middle of a cell, where lines cross.
const MIDDLE: (i32, i32) = ((CELL_WIDTH - 1) / 2, (CELL_HEIGHT - 1) / 2);

/// Pixels between the middle and each line of a double line.
const DOUBLE_LINE_OFFSET: i32 = 2;

/// Additional thickness of a heavy line on each side, in pixels.
const HEAVY_EXTRA: i32 = 1;

/// Returns whether `character` is drawn.
pub(crate) fn is_drawn(character: char) -> bool {
    matches!(character, '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}' | '\u{e0b0}'..='\u{e0b7}')
}

/// Draws a character accepted by [`is_drawn`].
pub(crate) fn draw(character: char) -> Stencil {
    let mut cell = Cell::default();
    match character {
        '\u{2500}'..='\u{257f}' => cell.draw_line(character),
        '\u{2580}'..='\u{259f}' => cell.draw_block(character),
        '\u{2800}'..='\u{28ff}' => cell.draw_braille(character as u32 - 0x2800),
        _ => cell.draw_powerline(character),
    }
    Stencil { area: Area { x: 0, y: 0, width: CELL_WIDTH, height: CELL_HEIGHT }, coverage: cell.0.concat() }
}

/// Kind of a line from the middle of a cell to one of its sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    None,
    Light,
    Heavy,
    Double,
}

/// The arms of U+2500 to U+257F: left, right, up and down; 1 is light, 2 heavy, 3 double. Characters without arms have
/// only zeros.
const ARMS: [&[u8; 4]; 128] = [
    b"1100", b"2200", b"0011", b"0022", b"0000", b"0000", b"0000", b"0000", // ─━│┃┄┅┆┇
    b"0000", b"0000", b"0000", b"0000", b"0101", b"0201", b"0102", b"0202", // ┈┉┊┋┌┍┎┏
    b"1001", b"2001", b"1002", b"2002", b"0110", b"0210", b"0120", b"0220", // ┐┑┒┓└┕┖┗
    b"1010", b"2010", b"1020", b"2020", b"0111", b"0211", b"0121", b"0112", // ┘┙┚┛├┝┞┟
    b"0122", b"0221", b"0212", b"0222", b"1011", b"2011", b"1021", b"1012", // ┠┡┢┣┤┥┦┧
    b"1022", b"2021", b"2012", b"2022", b"1101", b"2101", b"1201", b"2201", // ┨┩┪┫┬┭┮┯
    b"1102", b"2102", b"1202", b"2202", b"1110", b"2110", b"1210", b"2210", // ┰┱┲┳┴┵┶┷
    b"1120", b"2120", b"1220", b"2220", b"1111", b"2111", b"1211", b"2211", // ┸┹┺┻┼┽┾┿
    b"1121", b"1112", b"1122", b"2121", b"1221", b"2112", b"1212", b"2221", // ╀╁╂╃╄╅╆╇
    b"2212", b"2122", b"1222", b"2222", b"0000", b"0000", b"0000", b"0000", // ╈╉╊╋╌╍╎╏
    b"3300", b"0033", b"0301", b"0103", b"0303", b"3001", b"1003", b"3003", // ═║╒╓╔╕╖╗
    b"0310", b"0130", b"0330", b"3010", b"1030", b"3030", b"0311", b"0133", // ╘╙╚╛╜╝╞╟
    b"0333", b"3011", b"1033", b"3033", b"3301", b"1103", b"3303", b"3310", // ╠╡╢╣╤╥╦╧
    b"1130", b"3330", b"3311", b"1133", b"3333", b"0000", b"0000", b"0000", // ╨╩╪╫╬╭╮╯
    b"0000", b"0000", b"0000", b"0000", b"1000", b"0010", b"0100", b"0001", // ╰╱╲╳╴╵╶╷
    b"2000", b"0020", b"0200", b"0002", b"1200", b"0012", b"2100", b"0021", // ╸╹╺╻╼╽╾╿
];

/// The four sides in the order of [`ARMS`], each with the opposite side and its two neighbours. Left and right have the
/// neighbours up and down, and vice versa.
const SIDES: [(usize, usize, usize, usize); 4] = [(0, 1, 2, 3), (1, 0, 2, 3), (2, 3, 0, 1), (3, 2, 0, 1)];

#[derive(Debug)]
struct Cell([[u8; CELL_WIDTH as usize]; CELL_HEIGHT as usize]);

impl Default for Cell {
    fn default() -> Self {
        Self([[0; CELL_WIDTH as usize]; CELL_HEIGHT as usize])
    }
}

impl Cell {
    fn fill(&mut self, x: std::ops::Range<i32>, y: std::ops::Range<i32>, coverage: u8) {
        for row in y.start.max(0)..y.end.min(CELL_HEIGHT) {
            for column in x.start.max(0)..x.end.min(CELL_WIDTH) {
                self.0[row as usize][column as usize] = coverage;
            }
        }
    }

    /// Covers each pixel by its part inside a shape. `distance` returns the distance of a point to the edge, negative
    /// inside.
    fn shade(&mut self, distance: impl Fn(f32, f32) -> f32) {
        for (y, row) in self.0.iter_mut().enumerate() {
            for (x, pixel) in row.iter_mut().enumerate() {
                let covered = (0.5 - distance(x as f32 + 0.5, y as f32 + 0.5)).clamp(0.0, 1.0);
                *pixel = (*pixel).max((covered * 255.0) as u8);
            }
        }
    }

    fn draw_line(&mut self, character: char) {
        let index = character as usize - 0x2500;
        match index {
            0x04..=0x0b | 0x4c..=0x4f => self.draw_dashes(index),
            0x6d..=0x70 => self.draw_arc(index),
            0x71 => self.draw_diagonal(false),
            0x72 => self.draw_diagonal(true),
            0x73 => {
                self.draw_diagonal(false);
                self.draw_diagonal(true);
            }
            _ => {
                let arms = ARMS[index].map(|digit| match digit {
                    b'1' => Arm::Light,
                    b'2' => Arm::Heavy,
                    b'3' => Arm::Double,
                    _ => Arm::None,
                });
                for side in SIDES {
                    self.draw_arm(arms, side);
                }
            }
        }
    }

    fn draw_arm(
        &mut self,
        arms: [Arm; 4],
        (side, opposite, first_neighbour, second_neighbour): (usize, usize, usize, usize),
    ) {
        let crossing = [arms[first_neighbour], arms[second_neighbour]];
        let double_count = crossing.iter().filter(|arm| **arm == Arm::Double).count();
        let is_straight = arms[opposite] != Arm::None;
        // Pixels of a single line beyond the middle, so that it fills corners and meets double lines.
        let single_reach = match double_count {
            0 if crossing.contains(&Arm::Heavy) => HEAVY_EXTRA,
            0 => 0,
            _ if is_straight => 0,
            1 => DOUBLE_LINE_OFFSET,
            _ => -DOUBLE_LINE_OFFSET,
        };
        let double_reach = |neighbour: Arm, other_neighbour: Arm| match (neighbour, other_neighbour) {
            (Arm::Double, _) => -DOUBLE_LINE_OFFSET,
            (Arm::None, Arm::Double) => DOUBLE_LINE_OFFSET,
            _ => 0,
        };
        match arms[side] {
            Arm::None => {}
            Arm::Light => self.draw_stroke(side, 0, 0, single_reach),
            Arm::Heavy => self.draw_stroke(side, 0, HEAVY_EXTRA, single_reach),
            Arm::Double => {
                self.draw_stroke(side, -DOUBLE_LINE_OFFSET, 0, double_reach(crossing[0], crossing[1]));
                self.draw_stroke(side, DOUBLE_LINE_OFFSET, 0, double_reach(crossing[1], crossing[0]));
            }
        }
    }

    /// Draws a line from a side of the cell to `reach` pixels beyond the middle. The line is shifted by `offset`
    /// pixels, and widened by `extra` pixels on both sides.
    fn draw_stroke(&mut self, side: usize, offset: i32, extra: i32, reach: i32) {
        let (x, y) = MIDDLE;
        let across = |middle: i32| middle + offset - extra..middle + offset + extra + 1;
        match side {
            0 => self.fill(0..x + reach + 1, across(y), 255),
            1 => self.fill(x - reach..CELL_WIDTH, across(y), 255),
            2 => self.fill(across(x), 0..y + reach + 1, 255),
            _ => self.fill(across(x), y - reach..CELL_HEIGHT, 255),
        }
    }

    fn draw_dashes(&mut self, index: usize) {
        let count = match index {
            0x04..=0x07 => 3,
            0x08..=0x0b => 4,
            _ => 2,
        };
        let extra = if index % 2 == 1 { HEAVY_EXTRA } else { 0 };
        let is_vertical = index & 2 != 0;
        let length = if is_vertical { CELL_HEIGHT } else { CELL_WIDTH };
        let (x, y) = MIDDLE;
        for dash in 0..count {
            let (begin, end) = (dash * length / count, (dash + 1) * length / count);
            // A gap follows each dash, so that the dashes of neighbouring cells are even.
            let along = begin..end - ((end - begin) / 3).max(1);
            if is_vertical {
                self.fill(x - extra..x + extra + 1, along, 255);
            } else {
                self.fill(along, y - extra..y + extra + 1, 255);
            }
        }
    }

    fn draw_arc(&mut self, index: usize) {
        let (x, y) = (MIDDLE.0 as f32 + 0.5, MIDDLE.1 as f32 + 0.5);
        let radius = x;
        let (right, down) = match index {
            0x6d => (true, true),
            0x6e => (false, true),
            0x6f => (false, false),
            _ => (true, false),
        };
        let centre = (if right { x + radius } else { x - radius }, if down { y + radius } else { y - radius });
        self.shade(|px, py| {
            let is_in_quarter = (if right { px <= centre.0 } else { px >= centre.0 })
                && (if down { py <= centre.1 } else { py >= centre.1 });
            let distance = ((px - centre.0).hypot(py - centre.1) - radius).abs() - 0.5;
            if is_in_quarter { distance } else { 1.0 }
        });
        let (column, row) = MIDDLE;
        let radius_pixels = radius as i32;
        if down {
            self.fill(column..column + 1, row + radius_pixels + 1..CELL_HEIGHT, 255);
        } else {
            self.fill(column..column + 1, 0..row - radius_pixels + 1, 255);
        }
        if right {
            self.fill(column + radius_pixels + 1..CELL_WIDTH, row..row + 1, 255);
        }
    }

    fn draw_diagonal(&mut self, is_falling: bool) {
        let (width, height) = (CELL_WIDTH as f32, CELL_HEIGHT as f32);
        let length = width.hypot(height);
        self.shade(|x, y| {
            let x = if is_falling { x } else { width - x };
            ((x * height - y * width) / length).abs() - 0.6
        });
    }

    fn draw_block(&mut self, character: char) {
        let (width, height) = (CELL_WIDTH, CELL_HEIGHT);
        let eighths = |whole: i32, parts: i32| (whole * parts + 4) / 8;
        let index = character as i32 - 0x2580;
        match index {
            0x00 => self.fill(0..width, 0..height / 2, 255),
            0x01..=0x08 => self.fill(0..width, height - eighths(height, index)..height, 255),
            0x09..=0x0f => self.fill(0..eighths(width, 16 - index), 0..height, 255),
            0x10 => self.fill(width / 2..width, 0..height, 255),
            0x11..=0x13 => self.fill(0..width, 0..height, (index - 0x10) as u8 * 64),
            0x14 => self.fill(0..width, 0..eighths(height, 1), 255),
            0x15 => self.fill(width - eighths(width, 1)..width, 0..height, 255),
            _ => {
                // Upper left, upper right, lower left, lower right.
                const QUARTERS: [u8; 10] =
                    [0b0010, 0b0001, 0b1000, 0b1011, 0b1001, 0b1110, 0b1101, 0b0100, 0b0110, 0b0111];
                let quarters = QUARTERS[(index - 0x16) as usize];
                for (bit, x, y) in [(8, 0, 0), (4, 1, 0), (2, 0, 1), (1, 1, 1)] {
                    if quarters & bit != 0 {
                        let (left, top) = (x * width / 2, y * height / 2);
                        self.fill(left..left + width / 2, top..top + height / 2, 255);
                    }
                }
            }
        }
    }

    fn draw_braille(&mut self, dots: u32) {
        // The bit of each dot, by row: the last row was added later.
        const BITS: [(u32, u32); 4] = [(0, 3), (1, 4), (2, 5), (6, 7)];
        for (row, (left, right)) in BITS.into_iter().enumerate() {
            for (column, bit) in [left, right].into_iter().enumerate() {
                if dots >> bit & 1 == 1 {
                    let (x, y) = (column as i32 * 5 + 2, row as i32 * 5 + 2);
                    self.fill(x..x + 2, y..y + 2, 255);
                }
            }
        }
    }

    fn draw_powerline(&mut self, character: char) {
        let (width, height) = (CELL_WIDTH as f32, CELL_HEIGHT as f32);
        let index = character as u32 - 0xe0b0;
        // 0 and 1 point to the right, 2 and 3 to the left. Odd numbers are lines. 4 to 7 are round.
        let (points_left, is_line, is_round) = (index & 2 != 0, index & 1 != 0, index >= 4);
        self.shade(|x, y| {
            let x = if points_left { width - x } else { x };
            let distance = if is_round {
                let (across, along) = (x / width, (y - height / 2.0) / (height / 2.0));
                (across.hypot(along) - 1.0) * width
            } else {
                let slope = (width * 2.0).hypot(height) / height;
                (x - width * (1.0 - (y - height / 2.0).abs() / (height / 2.0))) / slope
            };
            if is_line { (distance + 0.5).abs() - 0.6 } else { distance }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stencil: &Stencil, x: i32, y: i32) -> u8 {
        stencil.coverage[(y * CELL_WIDTH + x) as usize]
    }

    /// Returns whether each pixel of a side is covered: left, right, up, down.
    fn side(stencil: &Stencil, side: usize) -> Vec<bool> {
        let lit = |x, y| at(stencil, x, y) > 127;
        match side {
            0 => (0..CELL_HEIGHT).map(|y| lit(0, y)).collect(),
            1 => (0..CELL_HEIGHT).map(|y| lit(CELL_WIDTH - 1, y)).collect(),
            2 => (0..CELL_WIDTH).map(|x| lit(x, 0)).collect(),
            _ => (0..CELL_WIDTH).map(|x| lit(x, CELL_HEIGHT - 1)).collect(),
        }
    }

    #[test]
    fn every_line_meets_the_line_of_its_neighbour() {
        // The appearance of a side for each kind of arm, from the straight lines.
        let straight = [(b'1', '─', '│'), (b'2', '━', '┃'), (b'3', '═', '║')];
        for (index, arms) in ARMS.iter().enumerate() {
            let character = char::from_u32(0x2500 + index as u32).unwrap();
            let stencil = draw(character);
            if arms.iter().all(|arm| *arm == b'0') {
                continue;
            }
            for (number, arm) in arms.iter().enumerate() {
                let expected = straight
                    .iter()
                    .find(|(kind, ..)| kind == arm)
                    .map(|(_, flat, is_vertical)| side(&draw(if number < 2 { *flat } else { *is_vertical }), number));
                let found = side(&stencil, number);
                assert_eq!(found, expected.unwrap_or_else(|| vec![false; found.len()]), "{character}, side {number}");
            }
        }
        for (character, sides) in [('╭', [1, 3]), ('╮', [0, 3]), ('╯', [0, 2]), ('╰', [1, 2])] {
            for number in 0..4 {
                let line = draw(if number < 2 { '─' } else { '│' });
                let expected = sides.contains(&number).then(|| side(&line, number));
                let found = side(&draw(character), number);
                assert_eq!(found, expected.unwrap_or_else(|| vec![false; found.len()]), "{character}, side {number}");
            }
        }
    }

    #[test]
    fn lines_have_no_gaps() {
        for (index, arms) in ARMS.iter().enumerate().filter(|(_, arms)| !arms.contains(&b'3') && **arms != b"0000") {
            let stencil = draw(char::from_u32(0x2500 + index as u32).unwrap());
            let (x, y) = MIDDLE;
            assert!(at(&stencil, x, y) == 255, "the arms {arms:?} meet in the middle");
        }
    }

    #[test]
    fn blocks_fill_their_named_part() {
        let covered = |character| draw(character).coverage.iter().map(|pixel| u32::from(*pixel)).sum::<u32>() / 255;
        let all_pixels = (CELL_WIDTH * CELL_HEIGHT) as u32;
        for (character, share) in [
            ('█', all_pixels),
            ('▀', all_pixels / 2),
            ('▄', all_pixels / 2),
            ('▌', all_pixels / 2),
            ('▖', all_pixels / 4),
        ] {
            assert_eq!(covered(character), share, "{character}");
        }
        assert_eq!(covered('▙') + covered('▝'), all_pixels);
        assert_eq!((covered('⣿'), covered('⠀')), (32, 0));
    }
}
