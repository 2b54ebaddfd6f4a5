//! Highlights of a full screen: the selected item of a menu, the focused button, a marked line.
//!
//! Plain text loses this information. A program draws such parts in a style that is rare on its screen.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Colour, CursorCell, Picture, Run, Style, Underline};

/// A part of a screen that stands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Highlight {
    /// Row, counted from 0.
    pub row: u16,
    /// Text of the part, or of the whole row if the part has no text.
    pub text: String,
}

/// Maximum number of highlights, and maximum characters of each.
const MAX_HIGHLIGHTS: usize = 8;
const MAX_HIGHLIGHT_CHARS: usize = 80;

/// Maximum number of rows with a highlight's background. A more frequent background belongs to the screen or a window.
const MAX_BACKGROUND_ROWS: usize = 3;

/// Minimum ratio of the screen's cells to the cells of one highlight background.
const MIN_AREA_RATIO: usize = 10;

/// Maximum width of a mark without text, such as the box of a checklist, in cells.
const MAX_MARK_COLS: u16 = 3;

/// The background of a cell: the colour behind its text, and true for inverse text.
type Background = (Colour, bool);

fn background(run: &Run) -> Background {
    if run.style.inverse { (run.style.fg, true) } else { (run.style.bg, false) }
}

/// Extent of one background on a screen.
#[derive(Debug, Default)]
struct Extent {
    cells: usize,
    rows: usize,
    last_row: Option<usize>,
}

/// Returns the highlighted parts of a screen, from top to bottom.
#[must_use]
pub fn highlights(picture: &Picture) -> Vec<Highlight> {
    let mut extents: HashMap<Background, Extent> = HashMap::new();
    for (row, runs) in picture.rows.iter().enumerate() {
        for run in runs {
            let extent = extents.entry(background(run)).or_default();
            extent.cells += usize::from(run.cols);
            if extent.last_row.replace(row) != Some(row) {
                extent.rows += 1;
            }
        }
    }
    let area = usize::from(picture.cols) * picture.rows.len();
    let plain = (Colour::Default, false);
    let stands_out = |run: &Run| {
        let background = background(run);
        let is_rare = |extent: &Extent| extent.rows <= MAX_BACKGROUND_ROWS && extent.cells * MIN_AREA_RATIO < area;
        background != plain && !run.style.hidden && extents.get(&background).is_some_and(is_rare)
    };
    let rows = (0u16..).zip(&picture.rows);
    let found = rows.filter_map(|(row, runs)| {
        let text = highlighted_text(runs, &stands_out).or_else(|| marked_row_text(runs, &stands_out))?;
        Some(Highlight { row, text: text.chars().take(MAX_HIGHLIGHT_CHARS).collect() })
    });
    found.take(MAX_HIGHLIGHTS).collect()
}

/// Returns the highlighted parts of what a program draws in place, from top to bottom: of the rows at the cursor, down
/// from an empty row or the echo of the last typed line. These parts have a rare background, or, if the program hides the cursor as menus do, are the only row
/// in a style of its own among rows in one other style.
#[must_use]
pub fn highlights_in_place(picture: &Picture, typed_line: Option<&str>) -> Vec<Highlight> {
    let is_empty = |runs: &Vec<Run>| runs.iter().all(|run| run.text.trim().is_empty());
    let last = match picture.cursor {
        Some(cursor) => usize::from(cursor.row),
        None => picture.rows.iter().rposition(|runs| !is_empty(runs)).unwrap_or(0),
    };
    let end = picture.rows[..picture.rows.len().min(last + 1)]
        .iter()
        .rposition(|runs| !is_empty(runs))
        .map_or(0, |row| row + 1);
    // A list may stand below the line that is typed to filter it.
    let end = end + picture.rows[end..].iter().take_while(|runs| !is_empty(runs)).count();
    // An echo stands after a prompt.
    let is_echo = |runs: &Vec<Run>, line: &str| {
        let text = row_text(runs, None);
        text.strip_suffix(line).is_some_and(|prompt| !prompt.trim().is_empty())
    };
    let typed_line = typed_line.map(str::trim).filter(|line| !line.is_empty());
    let is_above = |runs: &Vec<Run>| is_empty(runs) || typed_line.is_some_and(|line| is_echo(runs, line));
    let begin = picture.rows[..end].iter().rposition(is_above).map_or(0, |row| row + 1);
    let rows = picture.rows.iter().enumerate();
    let drawn = rows.map(|(row, runs)| if (begin..end).contains(&row) { runs.clone() } else { Vec::new() });
    let drawn = Picture { rows: drawn.collect(), ..picture.clone() };
    let found = highlights(&drawn);
    if !found.is_empty() || picture.cursor.is_some() {
        return found;
    }
    distinct_row(&drawn.rows[begin..end], begin).into_iter().collect()
}

/// Returns the only row in a style of its own at the end of a list whose other rows have one style.
fn distinct_row(rows: &[Vec<Run>], first: usize) -> Option<Highlight> {
    let style = |runs: &Vec<Run>| match word_styles(runs).as_slice() {
        [style] => Some(style.clone()),
        _ => None,
    };
    let styles: Vec<Option<String>> = rows.iter().map(style).collect();
    let begin = styles.iter().rposition(Option::is_none).map_or(0, |index| index + 1);
    let list = &styles[begin..];
    let count = |style: &Option<String>| list.iter().filter(|other| *other == style).count();
    // Of two rows, the plain one is not selected.
    let is_selected = |style: &&Option<String>| {
        count(style) == 1 && (list.len() > 2 || style.as_ref().is_some_and(|style| style != PLAIN))
    };
    let selected: Vec<usize> = (0..list.len()).filter(|index| is_selected(&&list[*index])).collect();
    let ([index], true) = (selected.as_slice(), list.len() > 1) else { return None };
    let others = list.iter().enumerate().filter(|(other, _)| other != index).map(|(_, style)| style);
    let has_one_style = others.collect::<std::collections::HashSet<_>>().len() == 1;
    let row = begin + index;
    has_one_style.then(|| Highlight {
        row: u16::try_from(first + row).unwrap_or(u16::MAX),
        text: row_text(&rows[row], None).chars().take(MAX_HIGHLIGHT_CHARS).collect(),
    })
}

/// Returns the highlighted text of a row. `None` for parts without letters or digits, such as frames and shadows.
fn highlighted_text(runs: &[Run], stands_out: &impl Fn(&Run) -> bool) -> Option<String> {
    let mut text = String::new();
    let mut end = 0;
    for run in runs.iter().filter(|run| stands_out(run)) {
        if !text.is_empty() && run.col > end {
            text.push(' ');
        }
        text.push_str(&run.text);
        end = run.col + run.cols;
    }
    let text = text.trim();
    text.chars().any(char::is_alphanumeric).then(|| text.to_owned())
}

/// Returns the text of a row with a highlighted mark without text, such as the box of a checklist: `[ ] alpha`.
fn marked_row_text(runs: &[Run], stands_out: &impl Fn(&Run) -> bool) -> Option<String> {
    let touches = |text: Option<char>| text.is_some_and(|sign| !sign.is_whitespace());
    let is_mark = |window: &[Run]| match window {
        [before, mark, after] => {
            let adjoins = before.col + before.cols == mark.col && mark.col + mark.cols == after.col;
            let within = touches(before.text.chars().next_back()) && touches(after.text.chars().next());
            mark.cols <= MAX_MARK_COLS && adjoins && within && stands_out(mark)
        }
        _ => false,
    };
    if !runs.windows(3).any(is_mark) {
        return None;
    }
    let text: String = runs.iter().map(|run| run.text.as_str()).collect();
    Some(text.trim_matches(is_blank_or_frame).to_owned()).filter(|text| !text.is_empty())
}

/// Marker at the place of the cursor in a row of [`styled_rows`].
const CURSOR_MARKER: char = '▏';

/// Maximum characters of a row of [`styled_rows`].
const MAX_ROW_CHARS: usize = 200;

/// Returns the texts of the rows that are not plain, each with the styles of its words from left to right, such as
/// `beta: bold` or `Keep  Delete  Quit: plain, inverse, plain`. Adjacent words with one style are counted (`plain ×2`);
/// a row with a single style shows only its name. The row of the cursor contains a marker.
///
/// A wait compares these texts. Any style may mark the selected entry, because a plain row can be the selected one
/// among dim rows.
#[must_use]
pub(crate) fn styled_rows(picture: &Picture, rows: Range<usize>) -> Vec<String> {
    let styled = |row: usize| {
        let runs = &picture.rows[row];
        let (styles, cursor) = (word_styles(runs), cursor_in(picture, row));
        let is_plain = styles.iter().all(|style| style == PLAIN);
        let is_compared = !styles.is_empty() && (!is_plain || cursor.is_some());
        is_compared.then(|| format!("{}: {}", row_text(runs, cursor), styles.join(", ")))
    };
    (rows.start..rows.end.min(picture.rows.len())).filter_map(styled).collect()
}

/// Returns the text of the cursor's row, with a marker at the cursor, if it is one of `rows`.
pub(crate) fn row_of_cursor(picture: &Picture, rows: &Range<usize>) -> Option<String> {
    let cursor = picture.cursor?;
    let row = usize::from(cursor.row);
    let runs = picture.rows.get(row).filter(|_| rows.contains(&row))?;
    Some(row_text(runs, Some(cursor)))
}

fn cursor_in(picture: &Picture, row: usize) -> Option<CursorCell> {
    picture.cursor.filter(|cursor| usize::from(cursor.row) == row)
}

/// Returns the styles of the words of a row. Punctuation between letters is treated as a word, as in `y/n`. A word in
/// several styles counts once in each.
fn word_styles(runs: &[Run]) -> Vec<String> {
    let mut styles: Vec<(String, usize)> = Vec::new();
    // The kind of the previous character; `None` after a space.
    let (mut last_kind, mut end) = (None, 0);
    for run in runs {
        let style = style_name(&run.style);
        last_kind = last_kind.filter(|_| run.col <= end);
        end = run.col + run.cols;
        for sign in run.text.chars() {
            let kind = (!is_separator(sign)).then(|| sign.is_alphanumeric());
            let is_new = std::mem::replace(&mut last_kind, kind) != kind;
            match styles.last_mut() {
                _ if kind.is_none() => {}
                Some((last, count)) if *last == style => *count += usize::from(is_new),
                _ => styles.push((style.clone(), 1)),
            }
        }
    }
    if let [(style, _)] = styles.as_slice() {
        return vec![style.clone()];
    }
    let name = |(style, count)| if count == 1 { style } else { format!("{style} ×{count}") };
    styles.into_iter().map(name).collect()
}

fn row_text(runs: &[Run], cursor: Option<CursorCell>) -> String {
    let mut cells: Vec<char> = Vec::new();
    for run in runs {
        cells.resize(cells.len().max(usize::from(run.col)), ' ');
        // A wide character takes two cells.
        let is_single = run.text.chars().count() == usize::from(run.cols);
        cells
            .extend(run.text.chars().flat_map(|sign| [Some(sign), (!is_single && run.wide).then_some('\0')]).flatten());
    }
    if let Some(cursor) = cursor {
        let mut column = usize::from(cursor.col);
        // Place the marker after the word, so that the length of a variable value does not affect the comparison.
        let is_word = |cell: Option<&char>| cell.is_some_and(|sign| sign.is_alphanumeric());
        while column > 0 && is_word(cells.get(column - 1)) && is_word(cells.get(column)) {
            column += 1;
        }
        cells.resize(cells.len().max(column), ' ');
        cells.insert(column, CURSOR_MARKER);
    }
    let text: String = cells.into_iter().filter(|sign| *sign != '\0').take(MAX_ROW_CHARS).collect();
    text.trim_matches(is_separator).to_owned()
}

/// Returns whether a character is a space or draws a frame or block.
fn is_blank_or_frame(sign: char) -> bool {
    sign.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&sign)
}

/// Returns whether a character separates words. The cursor's marker draws a block and does not separate words.
fn is_separator(sign: char) -> bool {
    sign != CURSOR_MARKER && is_blank_or_frame(sign)
}

/// Name of the style of unstyled text.
const PLAIN: &str = "plain";

/// Returns the name of a style.
fn style_name(style: &Style) -> String {
    let colour = |colour: Colour| match colour {
        Colour::Default => None,
        Colour::Indexed(number) => Some(number.to_string()),
        Colour::Rgb(rgb) => Some(format!("#{:02x}{:02x}{:02x}", rgb.0, rgb.1, rgb.2)),
    };
    let flags = [
        (style.bold, "bold"),
        (style.dim, "dim"),
        (style.italic, "italic"),
        (style.underline != Underline::None, "underlined"),
        (style.strike, "struck"),
        (style.inverse, "inverse"),
        (style.hidden, "hidden"),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned());
    let colours = [colour(style.fg), colour(style.bg).map(|background| format!("on {background}"))];
    let words: Vec<String> = flags.chain(colours.into_iter().flatten()).collect();
    if words.is_empty() { PLAIN.to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::super::{Rgb, Style};
    use super::*;

    fn run(col: u16, text: &str, style: Style) -> Run {
        Run { col, cols: text.chars().count() as u16, wide: false, text: text.to_owned(), style, link: None }
    }

    fn picture(rows: Vec<Vec<Run>>) -> Picture {
        let (foreground, background) = (Rgb(255, 255, 255), Rgb(0, 0, 0));
        Picture { cols: 80, rows, cursor: None, foreground, background, palette: Vec::new() }
    }

    #[test]
    fn selected_menu_line_is_highlighted_but_not_its_window() {
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
        let mut rows = rows;
        rows.extend(std::iter::repeat_n(Vec::new(), 10));
        let found = highlights(&picture(rows));
        let reported: Vec<(u16, &str)> = found.iter().map(|found| (found.row, found.text.as_str())).collect();
        assert_eq!(reported, [(2, "[*] beta"), (4, "Ready")]);
    }

    #[test]
    fn mark_without_text_is_reported_with_its_row() {
        let window = Style { bg: Colour::Indexed(7), ..Style::default() };
        let mark = Style { bg: Colour::Indexed(1), ..Style::default() };
        let row = vec![run(0, "│ [", window), run(3, " ", mark), run(4, "] alpha │", window)];
        let mut rows = vec![vec![run(0, "│ window │", window)]; 6];
        rows.push(row);
        // A shadow next to the window is not a mark.
        rows.push(vec![run(0, "│", window), run(1, "  ", mark)]);
        let found = highlights(&picture(rows));
        assert_eq!(found, [Highlight { row: 6, text: "[ ] alpha".to_owned() }]);
    }

    #[test]
    fn each_style_of_a_row_and_the_cursor_are_named() {
        let plain = Style::default();
        let styles = [
            (Style { bold: true, ..plain }, "bold"),
            (Style { dim: true, ..plain }, "dim"),
            (Style { italic: true, ..plain }, "italic"),
            (Style { underline: Underline::Single, ..plain }, "underlined"),
            (Style { strike: true, ..plain }, "struck"),
            (Style { inverse: true, ..plain }, "inverse"),
            (Style { fg: Colour::Indexed(6), ..plain }, "6"),
            (Style { bg: Colour::Indexed(4), bold: true, ..plain }, "bold on 4"),
            (Style { fg: Colour::Rgb(Rgb(0, 200, 0)), ..plain }, "#00c800"),
        ];
        for (style, name) in styles {
            let rows = vec![vec![run(0, "alpha", plain)], vec![run(2, "beta", style)], vec![run(0, "gamma", plain)]];
            assert_eq!(styled_rows(&picture(rows.clone()), 0..3), [format!("beta: {name}")]);
            assert_eq!(styled_rows(&picture(rows), 0..1), [""; 0], "rows outside the range are omitted");
        }
        let bold = Style { bold: true, ..plain };
        let inverse = Style { inverse: true, ..plain };
        let buttons = |styles: [Style; 3]| {
            let texts = [(0, "Sure? "), (6, "Keep"), (12, "Delete it"), (23, "Quit")];
            let styles = [plain].into_iter().chain(styles);
            let row = texts.into_iter().zip(styles).map(|((col, text), style)| run(col, text, style)).collect();
            styled_rows(&picture(vec![row]), 0..1).concat()
        };
        // Different choices in a row have different positions, and so do two together.
        let texts = "Sure? Keep  Delete it  Quit";
        assert_eq!(buttons([inverse, plain, plain]), format!("{texts}: plain ×2, inverse, plain ×3"));
        assert_eq!(buttons([plain, inverse, plain]), format!("{texts}: plain ×3, inverse ×2, plain"));
        assert_eq!(buttons([inverse, inverse, plain]), format!("{texts}: plain ×2, inverse ×3, plain"));
        let defaults = |before: &str, text: &str, after: &str| {
            let [at, end] = [before.len() as u16, (before.len() + text.len()) as u16];
            let row = vec![run(0, before, plain), run(at, text, bold), run(end, after, plain)];
            styled_rows(&picture(vec![row]), 0..1).concat()
        };
        assert_eq!(defaults("", "y", "/n/q/?"), "y/n/q/?: bold, plain ×5");
        assert_eq!(defaults("y/", "n", "/q/?"), "y/n/q/?: plain ×2, bold, plain ×3");
        assert_eq!(defaults("y/n/", "q", "/?"), "y/n/q/?: plain ×4, bold, plain");
        let row = vec![run(0, "Yes", bold), run(5, "No", plain)];
        assert_eq!(styled_rows(&picture(vec![row.clone()]), 0..1), ["Yes  No: bold, plain"]);
        let at = |col: u16| {
            let cursor =
                CursorCell { row: 0, col, wide: false, shape: super::super::CursorShape::default(), colour: None };
            let picture =
                Picture { cursor: Some(cursor), ..picture(vec![vec![run(0, "Name: shop", plain)], row.clone()]) };
            assert_eq!(row_of_cursor(&picture, &(1..2)), None, "rows outside the range are omitted");
            (styled_rows(&picture, 0..1).concat(), row_of_cursor(&picture, &(0..1)))
        };
        for (col, text) in
            [(0, "▏Name: shop"), (6, "Name: ▏shop"), (8, "Name: shop▏"), (10, "Name: shop▏"), (12, "Name: shop  ▏")]
        {
            assert_eq!(at(col), (format!("{text}: plain"), Some(text.to_owned())));
        }
    }

    #[test]
    fn menu_drawn_in_place_has_its_selected_row() {
        let cyan = Style { fg: Colour::Indexed(6), ..Style::default() };
        let bold = Style { bold: true, ..Style::default() };
        let inverse = Style { inverse: true, ..Style::default() };
        let line = |text: &str, style| vec![run(0, text, style)];
        let question = vec![run(0, "?", cyan), run(2, "Pick one", bold)];
        let old = line("old selection", inverse);
        let plain = Style::default();
        let cases = [
            (vec![line("a", plain), line("> b", cyan), line("c", plain)], vec![(3, "> b")]),
            (vec![line("a", cyan), line("b", plain)], vec![(2, "a")]),
            (vec![line("a", plain), line("b", bold)], vec![(3, "b")]),
            (vec![line("a", cyan), line("b", bold)], vec![]),
            (vec![line("a", plain), line("b", plain)], vec![]),
            (vec![line("a", cyan), line("b", bold), line("c", plain)], vec![]),
            (vec![line("a", plain), line("b", inverse), line("c", plain)], vec![(3, "b")]),
        ];
        for (menu, expected) in cases {
            let rows = [vec![old.clone(), Vec::new()], vec![question.clone()], menu].concat();
            // The first rows are older output.
            let found = highlights_in_place(&picture(rows.clone()), None);
            let found: Vec<(u16, &str)> = found.iter().map(|part| (part.row - 1, part.text.as_str())).collect();
            assert_eq!(found, expected, "{rows:?}");
        }
        // A program that shows its cursor may print text in any style.
        let mut shown = picture(vec![line("a", plain), line("> b", cyan), line("c", plain)]);
        shown.cursor =
            Some(CursorCell { row: 2, col: 1, wide: false, shape: super::super::CursorShape::Block, colour: None });
        assert_eq!(highlights_in_place(&shown, None), []);
        shown.rows[1] = line("> b", inverse);
        assert_eq!(highlights_in_place(&shown, None).len(), 1);
        // Output above the last typed line is older.
        shown.rows[2] = line("$ ./menu", plain);
        assert_eq!(highlights_in_place(&shown, Some("./menu\n")), []);
        assert_eq!(highlights_in_place(&picture(Vec::new()), Some("a")), []);
    }

    #[test]
    fn plain_text_has_no_highlights() {
        let bold = Style { bold: true, fg: Colour::Indexed(2), ..Style::default() };
        assert_eq!(highlights(&picture(vec![vec![run(0, "text", bold)], vec![]])), []);
    }
}
