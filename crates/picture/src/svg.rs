//! An animated SVG of several screens, without a script: text stays text, and any browser plays it.
//!
//! Equal rows are drawn once and used by every frame. Each character of foreign text is escaped.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use steplatch_terminal::{CursorShape, Picture, Underline};

use crate::html::escape;
use crate::look::{Look, Patch, rows};

/// Size of a cell, in pixels.
const CELL_WIDTH: usize = 9;
const CELL_HEIGHT: usize = 19;

/// Distance of the base line from the top of a cell, in pixels.
const BASELINE: usize = 14;

/// Returns the screens as one image that repeats.
#[must_use]
pub fn svg(frames: &[(&Picture, Duration)]) -> String {
    let Some((first, _)) = frames.first() else { return String::new() };
    let (width, height) = (usize::from(first.cols) * CELL_WIDTH, first.rows.len() * CELL_HEIGHT);
    let total: Duration = frames.iter().map(|(_, duration)| *duration).sum();
    let mut output = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-8 -8 {} {}\" width=\"{}\" height=\"{}\" \
         font-family=\"'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"15\">\n<style>text{{white-space:pre}}\
         .f{{visibility:hidden;animation:{:.2}s step-end infinite}}",
        width + 16,
        height + 16,
        width + 16,
        height + 16,
        total.as_secs_f64().max(0.01)
    );
    let mut begin = Duration::ZERO;
    for (index, (_, duration)) in frames.iter().enumerate() {
        let percent = |time: Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64().max(0.01);
        let (from, to) = (percent(begin), percent(begin + *duration));
        // Writing to a String does not fail.
        let _ = match index {
            _ if frames.len() == 1 => write!(output, "#f0{{visibility:visible}}"),
            0 => write!(output, "@keyframes k0{{0%{{visibility:visible}}{to:.3}%{{visibility:hidden}}}}"),
            _ => write!(
                output,
                "@keyframes k{index}{{0%{{visibility:hidden}}{from:.3}%{{visibility:visible}}{to:.3}%{{visibility:hidden}}}}"
            ),
        };
        let _ = write!(output, "#f{index}{{animation-name:k{index}}}");
        begin += *duration;
    }
    output.push_str("</style>\n<defs>\n");
    let mut row_ids: HashMap<String, usize> = HashMap::new();
    let mut screens: Vec<Vec<(usize, usize)>> = Vec::new();
    for (picture, _) in frames {
        let mut uses = Vec::new();
        for (row, patches) in rows(picture).enumerate() {
            let drawn = draw_row(&patches, picture);
            if drawn.is_empty() {
                continue;
            }
            let next = row_ids.len();
            let id = *row_ids.entry(drawn).or_insert_with_key(|drawn| {
                let _ = writeln!(output, "<g id=\"r{next}\">{drawn}</g>");
                next
            });
            uses.push((row, id));
        }
        screens.push(uses);
    }
    let _ = writeln!(
        output,
        "</defs>\n<rect x=\"-8\" y=\"-8\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
        width + 16,
        height + 16,
        first.background
    );
    for (index, uses) in screens.iter().enumerate() {
        let _ = write!(output, "<g id=\"f{index}\" class=\"f\">");
        for (row, id) in uses {
            let _ = write!(output, "<use href=\"#r{id}\" y=\"{}\"/>", row * CELL_HEIGHT);
        }
        output.push_str("</g>\n");
    }
    output.push_str("</svg>\n");
    output
}

fn draw_row(patches: &[Patch<'_>], picture: &Picture) -> String {
    let mut output = String::new();
    for patch in patches {
        let (x, width) = (usize::from(patch.col) * CELL_WIDTH, usize::from(patch.cols) * CELL_WIDTH);
        if patch.look.bg != picture.background {
            // Writing to a String does not fail.
            let _ = write!(
                output,
                "<rect x=\"{x}\" width=\"{width}\" height=\"{CELL_HEIGHT}\" fill=\"{}\"/>",
                patch.look.bg
            );
        }
    }
    for patch in patches.iter().filter(|patch| !patch.look.hidden) {
        draw_text(&mut output, patch, picture);
    }
    for patch in patches {
        let (x, width) = (usize::from(patch.col) * CELL_WIDTH, usize::from(patch.cols) * CELL_WIDTH);
        let _ = match patch.look.cursor {
            Some((CursorShape::Bar, colour)) => {
                write!(output, "<rect x=\"{x}\" width=\"2\" height=\"{CELL_HEIGHT}\" fill=\"{colour}\"/>")
            }
            Some((_, colour)) => {
                let top = CELL_HEIGHT - 2;
                write!(output, "<rect x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"2\" fill=\"{colour}\"/>")
            }
            None => Ok(()),
        };
    }
    output
}

fn draw_text(output: &mut String, patch: &Patch<'_>, picture: &Picture) {
    let is_blank = patch.cells.iter().all(|(_, text)| text.trim().is_empty());
    let Look { fg, bold, italic, underline, strike, .. } = patch.look;
    if is_blank && underline == Underline::None && !strike {
        return;
    }
    // Each character has its own position, because fonts of other machines have other widths.
    let positions: Vec<String> =
        patch.cells.iter().map(|(col, _)| (usize::from(*col) * CELL_WIDTH).to_string()).collect();
    let has_combined = patch.cells.iter().any(|(_, text)| text.chars().count() > 1);
    let positions = if has_combined { &positions[..1] } else { &positions[..] };
    let _ = write!(output, "<text y=\"{BASELINE}\" x=\"{}\"", positions.join(" "));
    if fg != picture.foreground || patch.look.bg != picture.background {
        let _ = write!(output, " fill=\"{fg}\"");
    } else {
        let _ = write!(output, " fill=\"{}\"", picture.foreground);
    }
    if bold {
        output.push_str(" font-weight=\"bold\"");
    }
    if italic {
        output.push_str(" font-style=\"italic\"");
    }
    match (underline, strike) {
        (Underline::None, false) => {}
        (Underline::None, true) => output.push_str(" text-decoration=\"line-through\""),
        (_, false) => output.push_str(" text-decoration=\"underline\""),
        (_, true) => output.push_str(" text-decoration=\"underline line-through\""),
    }
    output.push('>');
    for (_, text) in &patch.cells {
        escape(output, text);
    }
    output.push_str("</text>");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steplatch_terminal::{Rgb, Run, Style};

    use super::*;

    fn picture(rows: &[&str]) -> Picture {
        let run = |text: &&str| {
            let cols = text.chars().count() as u16;
            vec![Run { col: 0, cols, wide: false, text: (*text).to_owned(), style: Style::default(), link: None }]
        };
        let (foreground, background) = (Rgb(255, 255, 255), Rgb(0, 0, 0));
        let rows = rows.iter().map(run).collect();
        Picture { cols: 20, rows, cursor: None, foreground, background, palette: Vec::new() }
    }

    #[test]
    fn equal_rows_are_drawn_once() {
        let (first, second) = (picture(&["same", "one"]), picture(&["same", "two"]));
        let image = svg(&[(&first, Duration::from_secs(1)), (&second, Duration::from_secs(3))]);
        assert_eq!(image.matches(">same</text>").count(), 1);
        assert_eq!(image.matches("<use ").count(), 4);
        assert!(image.contains("4.00s step-end") && image.contains("25.000%{visibility:visible}"), "{image}");
        assert_eq!(svg(&[]), "");
    }

    proptest! {
        /// Text of a program is text of the image, and never an element or an attribute.
        #[test]
        fn foreign_text_is_escaped(text in "[ -~]{1,20}") {
            let screen = picture(&[&text]);
            let image = svg(&[(&screen, Duration::from_secs(1))]);
            let plain = svg(&[(&picture(&[&"x".repeat(text.len())]), Duration::from_secs(1))]);
            if !text.trim().is_empty() {
                prop_assert_eq!(image.matches('<').count(), plain.matches('<').count());
                prop_assert_eq!(image.matches('"').count(), plain.matches('"').count());
            }
        }
    }
}
