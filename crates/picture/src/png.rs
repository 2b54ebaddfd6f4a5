//! The PNG form of a screen.

use std::collections::HashMap;

use png::{BitDepth, ColorType, Compression, Encoder};
use steplatch_terminal::{CursorShape, Picture, Underline};

use crate::canvas::{Area, CELL_HEIGHT, CELL_WIDTH, Canvas};
use crate::glyphs::{BASELINE, Glyphs};
use crate::look::{Look, Patch, rows};
use crate::size::TooLarge;

/// Width of the margin around the cells, in pixels.
const MARGIN: i32 = 8;

/// Offset of each row of an italic letter to the right of the row below, in pixels.
const SLANT: f32 = 0.2;

/// Returns the screen as an image: 10 by 20 pixels for each cell, and a margin of 8.
///
/// # Errors
/// If the screen has more than 60,000 cells.
pub fn png(picture: &Picture) -> Result<Vec<u8>, TooLarge> {
    TooLarge::check(picture.cols, picture.rows.len())?;
    Ok(encode(&paint(picture)))
}

pub(crate) fn paint(picture: &Picture) -> Canvas {
    let width = i32::from(picture.cols) * CELL_WIDTH + 2 * MARGIN;
    let height = picture.rows.len() as i32 * CELL_HEIGHT + 2 * MARGIN;
    let mut canvas = Canvas::new(width, height, picture.background);
    let mut glyphs = Glyphs::default();
    let rows: Vec<Vec<Patch<'_>>> = rows(picture).collect();
    // All backgrounds first: a letter may extend into the next cell.
    for (row, patch) in numbered_patches(&rows) {
        canvas.fill(patch_area(row, patch), patch.look.bg);
    }
    for (row, patch) in numbered_patches(&rows) {
        let area = patch_area(row, patch);
        paint_underline(&mut canvas, area, &patch.look);
        if !patch.look.hidden {
            for (col, text) in &patch.cells {
                let x = MARGIN + i32::from(*col) * CELL_WIDTH;
                for character in text.chars() {
                    if let Some(stencil) = glyphs.stencil(character, patch.wide, patch.look.bold) {
                        let slant = if patch.look.italic { SLANT } else { 0.0 };
                        canvas.paint_stencil(x, area.y, stencil, patch.look.fg, slant, BASELINE - 4);
                    }
                }
            }
        }
        if patch.look.strike {
            canvas.fill(Area { y: area.y + BASELINE - 5, height: 1, ..area }, patch.look.fg);
        }
        match patch.look.cursor {
            Some((CursorShape::Bar, colour)) => canvas.fill(Area { width: 2, ..area }, colour),
            Some((_, colour)) => canvas.fill(Area { y: area.y + CELL_HEIGHT - 2, height: 2, ..area }, colour),
            None => {}
        }
    }
    canvas
}

fn numbered_patches<'a>(rows: &'a [Vec<Patch<'a>>]) -> impl Iterator<Item = (usize, &'a Patch<'a>)> {
    rows.iter().enumerate().flat_map(|(row, patches)| patches.iter().map(move |patch| (row, patch)))
}

fn patch_area(row: usize, patch: &Patch<'_>) -> Area {
    let cells = Area { x: MARGIN, y: MARGIN, width: i32::from(patch.cols) * CELL_WIDTH, height: CELL_HEIGHT };
    cells.moved(i32::from(patch.col) * CELL_WIDTH, row as i32 * CELL_HEIGHT)
}

fn paint_underline(canvas: &mut Canvas, cells: Area, look: &Look) {
    let colour = look.underline_colour;
    let line = Area { y: cells.y + BASELINE + 1, height: 1, ..cells };
    let mut draw_dashes = |period: i32, length: i32| {
        for x in (0..line.width).step_by(period as usize) {
            canvas.fill(Area { x: line.x + x, width: length, ..line }, colour);
        }
    };
    match look.underline {
        Underline::None => {}
        Underline::Single => canvas.fill(line, colour),
        Underline::Double => {
            canvas.fill(line, colour);
            canvas.fill(line.moved(0, 2), colour);
        }
        Underline::Dotted => draw_dashes(2, 1),
        Underline::Dashed => draw_dashes(5, 3),
        Underline::Curled => {
            for x in 0..line.width {
                let height = 1.0 + (x as f32 * std::f32::consts::TAU / CELL_WIDTH as f32).sin();
                let (integer, fraction) = (height.floor() as i32, height - height.floor());
                canvas.blend(line.x + x, line.y + integer, colour, ((1.0 - fraction) * 255.0) as u8);
                canvas.blend(line.x + x, line.y + integer + 1, colour, (fraction * 255.0) as u8);
            }
        }
    }
}

/// Encodes the pixels. An image with few colours gets a palette, to make the file a third as large.
fn encode(canvas: &Canvas) -> Vec<u8> {
    let (pixels, _) = canvas.pixels.as_chunks::<3>();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, canvas.width as u32, canvas.height as u32);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let result = match palette_indices(pixels) {
        Some((palette, indices)) => {
            encoder.set_color(ColorType::Indexed);
            encoder.set_palette(palette.concat());
            encoder.write_header().and_then(|mut writer| writer.write_image_data(&indices))
        }
        None => {
            encoder.set_color(ColorType::Rgb);
            encoder.write_header().and_then(|mut writer| writer.write_image_data(&canvas.pixels))
        }
    };
    result.expect("writing an image to memory cannot fail");
    bytes
}

fn palette_indices(pixels: &[[u8; 3]]) -> Option<(Vec<[u8; 3]>, Vec<u8>)> {
    let (mut palette, mut indices_by_pixel) = (Vec::new(), HashMap::new());
    let mut indices = Vec::with_capacity(pixels.len());
    let mut last = None;
    for pixel in pixels {
        let index = match last {
            Some((last_pixel, index)) if last_pixel == pixel => index,
            _ => *indices_by_pixel.entry(*pixel).or_insert_with(|| {
                palette.push(*pixel);
                palette.len() - 1
            }),
        };
        last = Some((pixel, index));
        indices.push(u8::try_from(index).ok()?);
    }
    Some((palette, indices))
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::{Colour, CursorCell, Rgb, Run, Style};

    use super::*;

    const GROUND: Rgb = Rgb(10, 20, 30);

    fn screen(runs: Vec<Run>, cursor: Option<CursorCell>) -> Picture {
        let rows = vec![runs, Vec::new()];
        Picture { cols: 8, rows, cursor, foreground: Rgb(200, 210, 220), background: GROUND, palette: Vec::new() }
    }

    fn run(col: u16, text: &str, style: Style) -> Run {
        Run { col, cols: text.chars().count() as u16, wide: false, text: text.into(), style, link: None }
    }

    /// Decodes an image into its width and its colours.
    fn read(bytes: &[u8]) -> (i32, Vec<Rgb>) {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(
            (info.width as i32, info.height as i32),
            (8 * CELL_WIDTH + 2 * MARGIN, 2 * CELL_HEIGHT + 2 * MARGIN)
        );
        (info.width as i32, pixels.as_chunks::<3>().0.iter().map(|[r, g, b]| Rgb(*r, *g, *b)).collect())
    }

    /// The colours of the cell at a column of the first row.
    fn cell((width, pixels): &(i32, Vec<Rgb>), col: i32) -> Vec<Rgb> {
        let rows = (MARGIN..MARGIN + CELL_HEIGHT).map(|y| (y * width + MARGIN + col * CELL_WIDTH) as usize);
        rows.flat_map(|at| pixels[at..at + CELL_WIDTH as usize].to_vec()).collect()
    }

    #[test]
    fn cells_have_their_colours_at_their_positions() {
        let red = Style { bg: Colour::Rgb(Rgb(255, 0, 0)), ..Style::default() };
        let cursor = CursorCell { row: 0, col: 5, wide: false, shape: CursorShape::Block, colour: None };
        let image = read(&png(&screen(vec![run(1, " █", red), run(3, "M", Style::default())], Some(cursor))).unwrap());
        let only = |col, colour: Rgb| cell(&image, col).iter().all(|pixel| *pixel == colour);
        assert!(
            only(0, GROUND) && only(1, Rgb(255, 0, 0)) && only(2, Rgb(200, 210, 220)) && only(5, Rgb(200, 210, 220))
        );
        let inked = cell(&image, 3).iter().filter(|pixel| **pixel != GROUND).count();
        assert!((30..120).contains(&inked), "an M covers {inked} pixels of its cell");
    }

    #[test]
    fn hidden_text_is_not_painted_and_underlines_are() {
        let hidden = Style { hidden: true, ..Style::default() };
        let lined = Style { underline: Underline::Single, ..Style::default() };
        let image = read(&png(&screen(vec![run(0, "x", hidden), run(1, " ", lined)], None)).unwrap());
        assert!(cell(&image, 0).iter().all(|pixel| *pixel == GROUND));
        assert_eq!(cell(&image, 1).iter().filter(|pixel| **pixel == Rgb(200, 210, 220)).count(), CELL_WIDTH as usize);
    }

    #[test]
    fn screen_with_many_colours_needs_no_palette() {
        let style =
            |number: u16| Style { bg: Colour::Rgb(Rgb(number as u8, (number >> 8) as u8, 7)), ..Style::default() };
        let many = (0..8).map(|col| run(col, "@", style(col * 97))).collect();
        let image = read(&png(&screen(many, None)).unwrap());
        assert!(cell(&image, 7).contains(&Rgb(167, 2, 7)));
    }

    #[test]
    fn too_large_screen_is_refused() {
        let large = Picture { cols: 1000, rows: vec![Vec::new(); 61], ..screen(Vec::new(), None) };
        assert_eq!(png(&large).unwrap_err(), TooLarge { cells: 61_000 });
    }
}
