//! A screen as a PNG image.

use std::collections::HashMap;

use png::{BitDepth, ColorType, Compression, Encoder};
use steplatch_terminal::{CursorShape, Picture, Underline};

use crate::canvas::{Area, CELL_HEIGHT, CELL_WIDTH, Canvas};
use crate::glyphs::{BASELINE, Glyphs};
use crate::look::{Look, Patch, rows};

/// Pixels around the cells.
const MARGIN: i32 = 8;

/// How far each row of an italic letter lies to the right of the one below it.
const SLANT: f32 = 0.2;

/// Returns the screen as an image: 10 by 20 pixels for each cell, and a margin of 8.
#[must_use]
pub fn png(picture: &Picture) -> Vec<u8> {
    encoded(&painted(picture))
}

fn painted(picture: &Picture) -> Canvas {
    let width = i32::from(picture.cols) * CELL_WIDTH + 2 * MARGIN;
    let height = picture.rows.len() as i32 * CELL_HEIGHT + 2 * MARGIN;
    let mut canvas = Canvas::new(width, height, picture.background);
    let mut glyphs = Glyphs::default();
    let rows: Vec<Vec<Patch<'_>>> = rows(picture).collect();
    // All grounds first: a letter may reach a little into the next cell.
    for (row, patch) in numbered(&rows) {
        canvas.fill(ground(row, patch), patch.look.bg);
    }
    for (row, patch) in numbered(&rows) {
        let area = ground(row, patch);
        underline(&mut canvas, area, &patch.look);
        if !patch.look.hidden {
            for (col, text) in &patch.cells {
                let x = MARGIN + i32::from(*col) * CELL_WIDTH;
                for character in text.chars() {
                    if let Some(stencil) = glyphs.of(character, patch.wide, patch.look.bold) {
                        let slant = if patch.look.italic { SLANT } else { 0.0 };
                        canvas.stencil(x, area.y, stencil, patch.look.fg, slant, BASELINE - 4);
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

fn numbered<'a>(rows: &'a [Vec<Patch<'a>>]) -> impl Iterator<Item = (usize, &'a Patch<'a>)> {
    rows.iter().enumerate().flat_map(|(row, patches)| patches.iter().map(move |patch| (row, patch)))
}

fn ground(row: usize, patch: &Patch<'_>) -> Area {
    let cells = Area { x: MARGIN, y: MARGIN, width: i32::from(patch.cols) * CELL_WIDTH, height: CELL_HEIGHT };
    cells.moved(i32::from(patch.col) * CELL_WIDTH, row as i32 * CELL_HEIGHT)
}

fn underline(canvas: &mut Canvas, cells: Area, look: &Look) {
    let colour = look.underline_colour;
    let line = Area { y: cells.y + BASELINE + 1, height: 1, ..cells };
    let mut pieces = |every: i32, length: i32| {
        for x in (0..line.width).step_by(every as usize) {
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
        Underline::Dotted => pieces(2, 1),
        Underline::Dashed => pieces(5, 3),
        Underline::Curled => {
            for x in 0..line.width {
                let height = 1.0 + (x as f32 * std::f32::consts::TAU / CELL_WIDTH as f32).sin();
                let (whole, part) = (height.floor() as i32, height - height.floor());
                canvas.blend(line.x + x, line.y + whole, colour, ((1.0 - part) * 255.0) as u8);
                canvas.blend(line.x + x, line.y + whole + 1, colour, (part * 255.0) as u8);
            }
        }
    }
}

/// Writes the pixels down: by number where there are few colours, which makes the file a third as large.
fn encoded(canvas: &Canvas) -> Vec<u8> {
    let (pixels, _) = canvas.pixels.as_chunks::<3>();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, canvas.width as u32, canvas.height as u32);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let written = match numbers(pixels) {
        Some((palette, numbers)) => {
            encoder.set_color(ColorType::Indexed);
            encoder.set_palette(palette.concat());
            encoder.write_header().and_then(|mut writer| writer.write_image_data(&numbers))
        }
        None => {
            encoder.set_color(ColorType::Rgb);
            encoder.write_header().and_then(|mut writer| writer.write_image_data(&canvas.pixels))
        }
    };
    written.expect("an image of a sensible size can be written to memory");
    bytes
}

fn numbers(pixels: &[[u8; 3]]) -> Option<(Vec<[u8; 3]>, Vec<u8>)> {
    let (mut palette, mut known) = (Vec::new(), HashMap::new());
    let mut numbers = Vec::with_capacity(pixels.len());
    let mut last = None;
    for pixel in pixels {
        let number = match last {
            Some((same, number)) if same == pixel => number,
            _ => *known.entry(*pixel).or_insert_with(|| {
                palette.push(*pixel);
                palette.len() - 1
            }),
        };
        last = Some((pixel, number));
        numbers.push(u8::try_from(number).ok()?);
    }
    Some((palette, numbers))
}
