//! The glyphs of characters, each from the first source that has it.
//!
//! Lines and blocks are drawn (`shapes.rs`). Text comes from DejaVu Sans Mono, emoji from Noto Emoji, and other
//! characters from GNU Unifont, whose bitmaps of 8 by 16 and 16 by 16 pixels fit the cells; wider ones are halved. A
//! character without a glyph is a box.

use std::collections::HashMap;
use std::sync::LazyLock;

use ab_glyph::{Font as _, FontRef, Point, PxScale, ScaleFont as _};

use crate::canvas::{Area, CELL_HEIGHT, CELL_WIDTH, Stencil};
use crate::shapes;

/// The baseline of letters, as a row of pixels from the top of a cell.
pub(crate) const BASELINE: i32 = 16;

struct Fonts {
    regular: FontRef<'static>,
    bold: FontRef<'static>,
    emoji: FontRef<'static>,
}

static FONTS: LazyLock<Fonts> = LazyLock::new(|| {
    let font = |bytes| FontRef::try_from_slice(bytes).expect("the embedded font is valid");
    Fonts {
        regular: font(include_bytes!("../fonts/DejaVuSansMono.ttf")),
        bold: font(include_bytes!("../fonts/DejaVuSansMono-Bold.ttf")),
        emoji: font(include_bytes!("../fonts/NotoEmoji-Regular.ttf")),
    }
});

/// Stencils of characters, each made on first use.
#[derive(Default)]
pub(crate) struct Glyphs {
    stencils: HashMap<(char, bool, bool), Option<Stencil>>,
}

/// Source of a glyph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Drawn,
    Text,
    Emoji,
    Bitmap,
    Missing,
}

impl Glyphs {
    /// Returns the stencil of a character in one cell, or in two if `is_wide`. `None` for an invisible character.
    pub(crate) fn stencil(&mut self, character: char, is_wide: bool, is_bold: bool) -> Option<&Stencil> {
        self.stencils
            .entry((character, is_wide, is_bold))
            .or_insert_with(|| make_stencil(character, is_wide, is_bold))
            .as_ref()
    }
}

/// Returns the source of a character's glyph. `None` for an invisible character.
pub(crate) fn source(character: char, is_wide: bool) -> Option<Source> {
    // Whitespace, control characters, joiners, variation selectors, direction marks and other characters without a
    // glyph.
    let is_invisible = matches!(
        character,
        '\0'..=' ' | '\x7f'..='\u{a0}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3000}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    );
    if is_invisible {
        return None;
    }
    let is_in = |font: &FontRef<'static>| font.glyph_id(character).0 != 0;
    Some(if shapes::is_drawn(character) && !is_wide {
        Source::Drawn
    } else if !is_wide && is_in(&FONTS.regular) {
        Source::Text
    } else if is_in(&FONTS.emoji) {
        Source::Emoji
    } else if unifont::get_glyph(character).is_some() {
        Source::Bitmap
    } else if is_in(&FONTS.regular) {
        Source::Text
    } else {
        Source::Missing
    })
}

fn make_stencil(character: char, is_wide: bool, is_bold: bool) -> Option<Stencil> {
    let width = if is_wide { 2 * CELL_WIDTH } else { CELL_WIDTH };
    match source(character, is_wide)? {
        Source::Drawn => Some(shapes::draw(character)),
        Source::Text => {
            let font = if is_bold { &FONTS.bold } else { &FONTS.regular };
            let font = if font.glyph_id(character).0 == 0 { &FONTS.regular } else { font };
            outline_stencil(font, character, width)
        }
        Source::Emoji => fitted_stencil(&FONTS.emoji, character, width),
        Source::Bitmap => unifont::get_glyph(character).map(|glyph| bitmap_stencil(glyph, width, is_bold)),
        Source::Missing => Some(box_stencil(width)),
    }
}

/// Returns the stencil of a glyph of a monospaced font that is as wide as a cell.
fn outline_stencil(font: &FontRef<'static>, character: char, width: i32) -> Option<Stencil> {
    let units = font.h_advance_unscaled(font.glyph_id('0'));
    let scale = PxScale::from(font.height_unscaled() * CELL_WIDTH as f32 / units);
    let advance = font.as_scaled(scale).h_advance(font.glyph_id(character));
    // A few characters are wider than the rest of the font.
    let left = (width as f32 - advance.min(width as f32)) / 2.0;
    glyph_stencil(font, character, scale, Point { x: left, y: BASELINE as f32 })
}

/// Returns the stencil of a glyph of any font, in the middle of its cells, and as large as the cells allow.
fn fitted_stencil(font: &FontRef<'static>, character: char, width: i32) -> Option<Stencil> {
    const MARGIN: f32 = 0.5;
    let id = font.glyph_id(character);
    let units = font.units_per_em()?;
    let bounds = font.outline(id)?.bounds;
    let (glyph_width, glyph_height) = ((bounds.max.x - bounds.min.x).abs(), (bounds.max.y - bounds.min.y).abs());
    let max_size = (width as f32 - 2.0 * MARGIN, CELL_HEIGHT as f32 - 2.0 * MARGIN);
    // All glyphs have the same size, unless a glyph does not fit.
    let em = (0.8 * max_size.0 / units).min(max_size.0 / glyph_width).min(max_size.1 / glyph_height);
    let middle = ((bounds.max.x + bounds.min.x) / 2.0 * em, (bounds.max.y + bounds.min.y) / 2.0 * em);
    let position = Point { x: width as f32 / 2.0 - middle.0, y: CELL_HEIGHT as f32 / 2.0 + middle.1 };
    glyph_stencil(font, character, PxScale::from(em * font.height_unscaled()), position)
}

fn glyph_stencil(font: &FontRef<'static>, character: char, scale: PxScale, position: Point) -> Option<Stencil> {
    let outline = font.outline_glyph(font.glyph_id(character).with_scale_and_position(scale, position))?;
    let bounds = outline.px_bounds();
    let area = Area {
        x: bounds.min.x as i32,
        y: bounds.min.y as i32,
        width: bounds.width().ceil() as i32,
        height: bounds.height().ceil() as i32,
    };
    let mut coverage = vec![0; area.width.max(0) as usize * area.height.max(0) as usize];
    outline.draw(|x, y, share| {
        if let Some(pixel) = coverage.get_mut((y as i32 * area.width + x as i32) as usize) {
            // Light text on a dark background looks thinner than it is.
            *pixel = (share.clamp(0.0, 1.0).powf(0.8) * 255.0) as u8;
        }
    });
    Some(Stencil { area, coverage })
}

/// Returns the stencil of a bitmap in the middle of its cells. If the bitmap is too wide, two columns become one.
fn bitmap_stencil(glyph: &unifont::Glyph, width: i32, is_bold: bool) -> Stencil {
    const SIZE: i32 = 16;
    let columns = glyph.get_width() as i32;
    let is_squeezed = columns > width;
    let painted_columns = if is_squeezed { columns / 2 } else { columns };
    let area =
        Area { x: (width - painted_columns) / 2, y: (CELL_HEIGHT - SIZE) / 2, width: painted_columns, height: SIZE };
    let is_set = |x: i32, y: i32| x >= 0 && glyph.get_pixel(x as usize, y as usize);
    let coverage = (0..SIZE).flat_map(|y| (0..painted_columns).map(move |x| (x, y))).map(|(x, y)| {
        if is_squeezed {
            (u8::from(is_set(2 * x, y)) + u8::from(is_set(2 * x + 1, y))) * 127
        } else {
            u8::from(is_set(x, y) || (is_bold && is_set(x - 1, y))) * 255
        }
    });
    Stencil { area, coverage: coverage.collect() }
}

/// Returns the box for a character without a glyph.
fn box_stencil(width: i32) -> Stencil {
    let area = Area { x: 1, y: 3, width: width - 2, height: 14 };
    let is_edge = |x: i32, y: i32| x == 0 || y == 0 || x == area.width - 1 || y == area.height - 1;
    let pixels = (0..area.height).flat_map(|y| (0..area.width).map(move |x| (x, y)));
    Stencil { area, coverage: pixels.map(|(x, y)| u8::from(is_edge(x, y)) * 255).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_comes_from_the_first_font_with_it() {
        let expected = [
            ('a', false, Some(Source::Text)),
            ('é', false, Some(Source::Text)),
            ('я', false, Some(Source::Text)),
            ('✓', false, Some(Source::Text)),
            ('─', false, Some(Source::Drawn)),
            ('\u{e0b0}', false, Some(Source::Drawn)),
            ('漢', true, Some(Source::Bitmap)),
            ('한', true, Some(Source::Bitmap)),
            ('🦀', true, Some(Source::Emoji)),
            ('🫠', true, Some(Source::Emoji)),
            ('⚡', true, Some(Source::Emoji)),
            ('\u{12000}', false, Some(Source::Missing)),
            (' ', false, None),
            ('\u{200d}', false, None),
        ];
        for (character, wide, from) in expected {
            assert_eq!(source(character, wide), from, "{character:?}");
            let stencil = make_stencil(character, wide, false);
            assert_eq!(stencil.is_some(), from.is_some(), "{character:?}");
            assert!(stencil.is_none_or(|stencil| stencil.coverage.iter().any(|covered| *covered > 127)));
        }
    }

    #[test]
    fn glyphs_stay_in_their_cells() {
        for character in ['M', 'W', '@', 'g', 'Å', '|', '_', '漢', '🦀', '👨', '▶'] {
            let is_wide = matches!(character, '漢' | '🦀' | '👨');
            let Area { x, y, width, height } = make_stencil(character, is_wide, true).unwrap().area;
            let cells = if is_wide { 2 * CELL_WIDTH } else { CELL_WIDTH };
            assert!(x >= -1 && x + width <= cells + 1, "{character}: {x} and {width}");
            assert!(y >= -1 && y + height <= CELL_HEIGHT + 1, "{character}: {y} and {height}");
        }
    }
}
