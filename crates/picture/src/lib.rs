//! Images of screens: HTML that keeps the grid, and PNG.
//!
//! Pure: a [`Picture`](steplatch_terminal::Picture) goes in, text or bytes come out, the same on every machine, because
//! the fonts are part of the program. It is a separate crate so that the terminals' host need not contain fonts.
//!
//! Glyphs are rasterised by `ab_glyph`: no load time, small and maintained. `fontdue` takes 11 ms to load this font (it
//! prepares every glyph), `swash` shapes text, which a grid of cells does not need, and is five times as much to build.

mod canvas;
mod glyphs;
mod html;
mod look;
mod png;
mod shapes;
mod size;

pub use html::html;
pub use png::png;
pub use size::TooLarge;
