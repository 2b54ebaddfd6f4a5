//! The final look of cells, with their colours and the cursor.

use steplatch_terminal::{CursorShape, Picture, Rgb, Run, Style, Underline};

/// Neighbouring cells with the same look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch<'a> {
    /// The content of each cell, with its column.
    pub(crate) cells: Vec<(u16, &'a str)>,
    pub(crate) col: u16,
    pub(crate) cols: u16,
    pub(crate) wide: bool,
    pub(crate) look: Look,
}

/// Look of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) fg: Rgb,
    pub(crate) bg: Rgb,
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) underline: Underline,
    pub(crate) underline_colour: Rgb,
    pub(crate) strike: bool,
    pub(crate) hidden: bool,
    /// The line of a cursor that is not a block, and its colour.
    pub(crate) cursor: Option<(CursorShape, Rgb)>,
}

/// Returns the painted parts of each row, from left to right.
pub(crate) fn rows(picture: &Picture) -> impl Iterator<Item = Vec<Patch<'_>>> {
    picture.rows.iter().enumerate().map(|(index, runs)| {
        let mut patches: Vec<Patch<'_>> = runs.iter().map(|run| patch(picture, run)).collect();
        if picture.cursor.is_some_and(|cursor| usize::from(cursor.row) == index) {
            add_cursor(picture, &mut patches);
        }
        patches
    })
}

fn patch<'a>(picture: &Picture, run: &'a Run) -> Patch<'a> {
    let look = look(picture, &run.style);
    Patch { cells: run.cells().collect(), col: run.col, cols: run.cols, wide: run.wide, look }
}

fn look(picture: &Picture, style: &Style) -> Look {
    let mut fg = picture.rgb(style.fg, picture.foreground);
    let mut bg = picture.rgb(style.bg, picture.background);
    if style.inverse {
        std::mem::swap(&mut fg, &mut bg);
    }
    if style.dim {
        fg = mix_colours(fg, bg, 160);
    }
    Look {
        fg,
        bg,
        bold: style.bold,
        italic: style.italic,
        underline: style.underline,
        underline_colour: style.underline_colour.map_or(fg, |colour| picture.rgb(colour, fg)),
        strike: style.strike,
        hidden: style.hidden,
        cursor: None,
    }
}

/// Returns the mix of two colours: a `share` of 255 is the colour `upper` alone.
pub(crate) fn mix_colours(upper: Rgb, lower: Rgb, share: u8) -> Rgb {
    let mix = |upper: u8, lower: u8| {
        let (upper, lower, share) = (u32::from(upper), u32::from(lower), u32::from(share));
        ((upper * share + lower * (255 - share) + 127) / 255) as u8
    };
    Rgb(mix(upper.0, lower.0), mix(upper.1, lower.1), mix(upper.2, lower.2))
}

/// Splits off the patch under the cursor, or adds a patch there, and gives it the look of the cursor.
fn add_cursor<'a>(picture: &Picture, patches: &mut Vec<Patch<'a>>) {
    let Some(cursor) = picture.cursor else { return };
    let (begin, end) = (cursor.col, cursor.col + if cursor.wide { 2 } else { 1 });
    let covered_index = patches.iter().position(|patch| patch.col <= begin && end <= patch.col + patch.cols);
    let (index, mut cell) = match covered_index {
        Some(index) => {
            let covered_patch = patches.remove(index);
            let part = |from: u16, to: u16| Patch {
                cells: covered_patch.cells.iter().copied().filter(|(col, _)| (from..to).contains(col)).collect(),
                col: from,
                cols: to.saturating_sub(from),
                ..covered_patch.clone()
            };
            let parts =
                [part(covered_patch.col, begin), part(begin, end), part(end, covered_patch.col + covered_patch.cols)];
            let left_count = usize::from(parts[0].cols > 0);
            let [left, cell, right] = parts;
            patches.splice(index..index, [left, right].into_iter().filter(|part| part.cols > 0));
            (index + left_count, cell)
        }
        None => {
            let index = patches.partition_point(|patch| patch.col < begin);
            let look = look(picture, &Style::default());
            (index, Patch { cells: vec![(begin, " ")], col: begin, cols: end - begin, wide: cursor.wide, look })
        }
    };
    let colour = cursor.colour.unwrap_or(cell.look.fg);
    match cursor.shape {
        CursorShape::Block => {
            let background = cell.look.bg;
            cell.look = Look { fg: background, bg: colour, underline_colour: background, ..cell.look };
        }
        shape @ (CursorShape::Underline | CursorShape::Bar) => cell.look.cursor = Some((shape, colour)),
    }
    patches.insert(index, cell);
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::{Colour, CursorCell};

    use super::*;

    fn picture(runs: Vec<Run>, cursor: Option<CursorCell>) -> Picture {
        Picture {
            cols: 10,
            rows: vec![runs],
            cursor,
            foreground: Rgb(200, 200, 200),
            background: Rgb(0, 0, 0),
            palette: Vec::new(),
        }
    }

    fn run(col: u16, text: &str) -> Run {
        Run { col, cols: text.len() as u16, wide: false, text: text.into(), style: Style::default(), link: None }
    }

    fn cursor(col: u16) -> Option<CursorCell> {
        Some(CursorCell { row: 0, col, wide: false, shape: CursorShape::Block, colour: None })
    }

    fn places(picture: &Picture) -> Vec<(u16, u16, bool)> {
        let patches = rows(picture).next().unwrap();
        patches.iter().map(|patch| (patch.col, patch.cols, patch.look.bg == picture.foreground)).collect()
    }

    #[test]
    fn cursor_is_within_before_and_after_runs() {
        assert_eq!(places(&picture(vec![run(2, "abc")], cursor(3))), [(2, 1, false), (3, 1, true), (4, 1, false)]);
        assert_eq!(places(&picture(vec![run(2, "abc")], cursor(2))), [(2, 1, true), (3, 2, false)]);
        assert_eq!(places(&picture(vec![run(2, "abc")], cursor(7))), [(2, 3, false), (7, 1, true)]);
        assert_eq!(places(&picture(vec![run(2, "abc")], cursor(0))), [(0, 1, true), (2, 3, false)]);
    }

    #[test]
    fn inverse_and_dim_change_the_colours() {
        let style = Style { fg: Colour::Rgb(Rgb(255, 0, 0)), inverse: true, dim: true, ..Style::default() };
        let picture = picture(vec![Run { style, ..run(0, "x") }], None);
        let look = rows(&picture).next().unwrap()[0].look;
        assert_eq!((look.bg, look.fg), (Rgb(255, 0, 0), Rgb(95, 0, 0)));
    }
}
