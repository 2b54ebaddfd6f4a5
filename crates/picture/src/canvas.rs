//! A canvas of pixels.

use steplatch_terminal::Rgb;

use crate::look::mix_colours;

/// Columns of pixels in a cell.
pub(crate) const CELL_WIDTH: i32 = 10;

/// Rows of pixels in a cell.
pub(crate) const CELL_HEIGHT: i32 = 20;

/// An image during its painting. Painting outside the image has no effect.
#[derive(Debug)]
pub(crate) struct Canvas {
    pub(crate) width: i32,
    pub(crate) height: i32,
    pub(crate) pixels: Vec<u8>,
}

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x: i32,
    pub(crate) y: i32,
    pub(crate) width: i32,
    pub(crate) height: i32,
}

/// Coverage of each pixel of a rectangle, from 0 to 255.
#[derive(Debug)]
pub(crate) struct Stencil {
    /// The rectangle, relative to the top left of the cell.
    pub(crate) area: Area,
    pub(crate) coverage: Vec<u8>,
}

impl Area {
    pub(crate) fn moved(self, x: i32, y: i32) -> Self {
        Self { x: self.x + x, y: self.y + y, ..self }
    }
}

impl Canvas {
    pub(crate) fn new(width: i32, height: i32, background: Rgb) -> Self {
        let pixels = [background.0, background.1, background.2].repeat(width as usize * height as usize);
        Self { width, height, pixels }
    }

    pub(crate) fn fill(&mut self, area: Area, colour: Rgb) {
        let (left, right) = (area.x.clamp(0, self.width), (area.x + area.width).clamp(0, self.width));
        let (top, bottom) = (area.y.clamp(0, self.height), (area.y + area.height).clamp(0, self.height));
        for y in top..bottom {
            let begin = (y * self.width + left) as usize * 3;
            let end = (y * self.width + right.max(left)) as usize * 3;
            for pixel in self.pixels[begin..end].as_chunks_mut::<3>().0 {
                *pixel = [colour.0, colour.1, colour.2];
            }
        }
    }

    pub(crate) fn blend(&mut self, x: i32, y: i32, colour: Rgb, coverage: u8) {
        if coverage == 0 || !(0..self.width).contains(&x) || !(0..self.height).contains(&y) {
            return;
        }
        let index = (y * self.width + x) as usize * 3;
        let old_colour = Rgb(self.pixels[index], self.pixels[index + 1], self.pixels[index + 2]);
        let Rgb(red, green, blue) = mix_colours(colour, old_colour, coverage);
        self.pixels[index..index + 3].copy_from_slice(&[red, green, blue]);
    }

    /// Paints through a stencil whose cell begins at (`x`, `y`). Each row moves to the right by `slant` pixels per row
    /// above `baseline`.
    pub(crate) fn paint_stencil(&mut self, x: i32, y: i32, stencil: &Stencil, colour: Rgb, slant: f32, baseline: i32) {
        let area = stencil.area;
        for row in 0..area.height {
            let shift = slant * (baseline - area.y - row) as f32;
            let (integer, fraction) = (shift.floor() as i32, shift - shift.floor());
            let line = &stencil.coverage[(row * area.width) as usize..((row + 1) * area.width) as usize];
            // A fractional shift divides each pixel between two neighbours.
            for column in 0..=area.width {
                let current = line.get(column as usize).copied().unwrap_or(0);
                let left = if column > 0 { line[column as usize - 1] } else { 0 };
                let coverage = f32::from(current) * (1.0 - fraction) + f32::from(left) * fraction;
                self.blend(x + area.x + integer + column, y + area.y + row, colour, coverage as u8);
            }
        }
    }
}
