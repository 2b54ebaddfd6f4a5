//! What stands out on a full screen: the selected item of a menu, the focused button, a marked line.
//!
//! Plain text does not show it. A program draws such parts in a style that little else on its screen has.

use std::collections::HashMap;

use steplatch_protocol::HighlightInfo;
use steplatch_terminal::{Colour, Picture, Run};

/// The most parts that are named, and characters of each.
const MOST: usize = 8;
const LONGEST: usize = 80;

/// A ground that more than one in so many of the drawn cells has is the screen's own, or that of a window.
const COMMON: usize = 4;

/// The ground of a cell: what is behind its text.
fn ground(run: &Run) -> (Colour, bool) {
    if run.style.inverse { (run.style.fg, true) } else { (run.style.bg, false) }
}

/// Returns the parts of a screen that stand out, from top to bottom.
pub(crate) fn highlights(picture: &Picture) -> Vec<HighlightInfo> {
    let mut cells: HashMap<(Colour, bool), usize> = HashMap::new();
    for run in picture.rows.iter().flatten() {
        *cells.entry(ground(run)).or_default() += usize::from(run.cols);
    }
    let drawn: usize = cells.values().sum();
    let plain = (Colour::Default, false);
    let stands_out = |run: &Run| {
        let ground = ground(run);
        ground != plain && !run.style.hidden && cells.get(&ground).is_some_and(|count| count * COMMON < drawn)
    };
    let mut found: Vec<HighlightInfo> = Vec::new();
    for (row, runs) in (0u16..).zip(&picture.rows) {
        let mut text = String::new();
        let mut end = 0;
        for run in runs {
            // Neighbours on the same ground are one part, however their text is coloured.
            if stands_out(run) {
                if !text.is_empty() && run.col > end {
                    text.push(' ');
                }
                text.push_str(&run.text);
            } else if !run.text.trim().is_empty() && !text.trim().is_empty() {
                text.push_str("  ");
            }
            end = run.col + run.cols;
        }
        let text: String = text.trim().chars().take(LONGEST).collect();
        // Frames and shadows are drawn, not written.
        if text.chars().any(char::is_alphanumeric) {
            found.push(HighlightInfo { row, text });
        }
    }
    found.truncate(MOST);
    found
}

#[cfg(test)]
mod tests {
    use steplatch_terminal::{Rgb, Style};

    use super::*;

    fn run(col: u16, text: &str, style: Style) -> Run {
        Run { col, cols: text.chars().count() as u16, wide: false, text: text.to_owned(), style }
    }

    fn picture(rows: Vec<Vec<Run>>) -> Picture {
        let (foreground, background) = (Rgb(255, 255, 255), Rgb(0, 0, 0));
        Picture { cols: 80, rows, cursor: None, foreground, background, palette: Vec::new() }
    }

    #[test]
    fn the_selected_line_of_a_menu_stands_out_and_its_window_does_not() {
        let window = Style { bg: Colour::Indexed(7), ..Style::default() };
        let selected = Style { bg: Colour::Indexed(1), ..Style::default() };
        let inverse = Style { inverse: true, ..Style::default() };
        let rows = vec![
            vec![run(0, "┌──────────────────────────────┐", window)],
            vec![run(0, "│  [ ] alpha                   │", window)],
            vec![run(0, "│ ", window), run(2, "[*]", selected), run(6, "beta", selected), run(30, " │", window)],
            vec![run(0, "└──────────────────────────────┘", window)],
            vec![run(0, "Ready", inverse)],
        ];
        let found = highlights(&picture(rows));
        let told: Vec<(u16, &str)> = found.iter().map(|found| (found.row, found.text.as_str())).collect();
        assert_eq!(told, [(2, "[*] beta"), (4, "Ready")]);
    }

    #[test]
    fn plain_text_has_nothing_that_stands_out() {
        let bold = Style { bold: true, fg: Colour::Indexed(2), ..Style::default() };
        assert_eq!(highlights(&picture(vec![vec![run(0, "text", bold)], vec![]])), []);
    }
}
