//! Benchmarks of rendering a screen as HTML and PNG.
//!
//! The screen is full, 120 by 40: coloured text with lines around it, and a part in Chinese, so that every source of
//! glyphs is used.
#![allow(missing_docs, reason = "the macros of Criterion make public items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use steplatch_terminal::{Colour, CursorCell, CursorShape, Picture, Rgb, Run, Style};

fn full_screen() -> Picture {
    let rows = (0..40u16).map(|row| {
        (0..12u16)
            .map(|part| {
                let style =
                    Style { fg: Colour::Indexed((row * 12 + part) as u8), bold: part % 3 == 0, ..Style::default() };
                let wide = part == 11;
                let text = if wide {
                    "漢字終端画"
                } else {
                    ["│ fn main(", "─┼─ 100 % ", "word Émile"][usize::from(part % 3)]
                };
                Run { col: part * 10, cols: 10, wide, text: text.to_owned(), style, link: None }
            })
            .collect()
    });
    Picture {
        cols: 120,
        rows: rows.collect(),
        cursor: Some(CursorCell { row: 20, col: 15, wide: false, shape: CursorShape::Block, colour: None }),
        foreground: Rgb(220, 220, 220),
        background: Rgb(30, 30, 30),
        palette: Vec::new(),
    }
}

fn painting(criterion: &mut Criterion) {
    let picture = full_screen();
    let mut group = criterion.benchmark_group("painting");
    group.bench_function("html", |bencher| bencher.iter(|| steplatch_picture::html(black_box(&picture))));
    group.bench_function("png", |bencher| {
        bencher.iter(|| steplatch_picture::png(black_box(&picture)).map_or(0, |image| image.len()));
    });
    group.finish();
}

criterion_group!(benches, painting);
criterion_main!(benches);
