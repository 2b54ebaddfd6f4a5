//! Images of screens: HTML that keeps the grid, PNG, and animations of several screens as PNG and SVG.
//!
//! Pure: converts a [`Picture`](steplatch_terminal::Picture) to text or bytes. The fonts are part of the program, so
//! the result is the same on every machine. The separate crate keeps the fonts out of the terminals' host.
//!
//! `ab_glyph` rasterises the glyphs: it has no load time, is small and maintained. `fontdue` takes 11 ms to load this
//! font, because it prepares every glyph. `swash` costs five times as much to build, and its text shaping is
//! unnecessary for a grid of cells.

mod apng;
mod canvas;
mod glyphs;
mod html;
mod look;
mod png;
mod shapes;
mod size;
mod svg;

pub use apng::apng;
pub use html::html;
pub use png::png;
pub use size::TooLarge;
pub use svg::svg;
