//! Labels on a screen: the cell of a button, menu entry or link with a given text.
//!
//! A label is a text of its own: blanks, brackets, a frame or another background separate it from the text beside it. A
//! text that is only a part of a longer one, or that a window or the edge of the screen may have cut, is no label, so
//! that a click never reaches an entry of another name.

use serde::{Deserialize, Serialize};

use crate::screen::{Colour, Picture, Run};

/// Maximum number of places in an error.
const MAX_PLACES: usize = 8;

/// Maximum length of a screen text in an error, in characters.
const MAX_TEXT_CHARS: usize = 60;

/// Characters that separate a label from text before it.
const OPENERS: &str = "([{<|\"'`";

/// Characters that separate a label from text after it.
const CLOSERS: &str = ")]}>|\"'`:";

/// Brackets around a label: the opening and the closing one.
const BRACKETS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

/// Characters that stand for the removed end of a text.
const ELLIPSES: &str = "…~";

/// A cell of the screen, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenCell {
    /// The row.
    pub row: u16,
    /// The column.
    pub col: u16,
}

/// Reason why no single label has a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum LabelError {
    /// No row has the text.
    #[error("'{label}' is not on the screen now; read the screen, and name a label as it is drawn there")]
    Missing {
        /// The text.
        label: String,
    },
    /// The text is a part of a longer text only.
    #[error(
        "'{label}' is on the screen only as a part of '{text}'; name the whole label, or the cell as click@{},{}",
        .cell.row, .cell.col
    )]
    Part {
        /// The text.
        label: String,
        /// The longer text.
        text: String,
        /// The beginning of the text.
        cell: ScreenCell,
    },
    /// The text may be the rest of a longer text.
    #[error(
        "'{label}' touches the edge of its window or of the screen, so another label may be cut there; if it is the \
         right one, name its cell: click@{},{}",
        .cell.row, .cell.col
    )]
    Cut {
        /// The text.
        label: String,
        /// The beginning of the text.
        cell: ScreenCell,
    },
    /// Several labels have the text.
    #[error("'{label}' is on the screen {count} times; name the cell of one, such as {}", format_places(.places))]
    Repeated {
        /// The text.
        label: String,
        /// Number of labels.
        count: usize,
        /// Beginnings of the first labels.
        places: Vec<ScreenCell>,
    },
}

fn format_places(places: &[ScreenCell]) -> String {
    let places: Vec<String> = places.iter().map(|cell| format!("click@{},{}", cell.row, cell.col)).collect();
    places.join(" or ")
}

/// A character on the screen.
#[derive(Debug, Clone, Copy)]
struct Glyph {
    sign: char,
    /// Column of its cell.
    col: u16,
    /// The colour behind it, and true for inverse text. `None` for a cell without text.
    background: Option<(Colour, bool)>,
}

/// Relation of a text to the text beside it on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Border {
    /// The text ends there.
    Clear,
    /// The text may continue behind a window or the edge of the screen.
    Cut,
    /// The text continues.
    Joined,
}

/// Returns the cell in the middle of the only label with this text. Blanks around `label` are ignored.
///
/// # Errors
/// If the text is missing, repeated, cut, or part of a longer text.
pub(crate) fn find_label(picture: &Picture, label: &str) -> Result<ScreenCell, LabelError> {
    let label = label.trim();
    let missing = || LabelError::Missing { label: label.chars().take(MAX_TEXT_CHARS).collect() };
    let wanted: Vec<char> = label.chars().collect();
    let rows: Vec<Vec<Glyph>> = picture.rows.iter().map(|runs| glyphs(runs, picture.cols)).collect();
    let (mut found, mut parts, mut cut) = (Vec::new(), Vec::new(), Vec::new());
    for (row, line) in rows.iter().enumerate() {
        for start in 0..=line.len().saturating_sub(wanted.len()) {
            let end = start + wanted.len();
            if wanted.is_empty()
                || end > line.len()
                || !line[start..end].iter().map(|glyph| glyph.sign).eq(label.chars())
            {
                continue;
            }
            let cell = |index: usize| ScreenCell { row: row as u16, col: line[index].col };
            let borders =
                [border_before(&rows, row, start), border_after(&rows, row, end), brackets_around(line, start, end)];
            if borders.contains(&Border::Joined) {
                parts.push((cell(start), longer_text(line, start, end)));
            } else if borders.contains(&Border::Cut) {
                cut.push(cell(start));
            } else {
                found.push((cell(start), cell(start + (wanted.len() - 1) / 2)));
            }
        }
    }
    let label = label.to_owned();
    match (found.as_slice(), cut.first(), parts.into_iter().next()) {
        // A cut text may be the wanted label as well.
        ([(_, middle)], None, _) => Ok(*middle),
        ([], Some(cell), _) => Err(LabelError::Cut { label, cell: *cell }),
        ([], None, Some((cell, text))) => Err(LabelError::Part { label, text, cell }),
        ([], None, None) => Err(missing()),
        _ => {
            let places = found.iter().map(|(start, _)| *start).chain(cut.iter().copied());
            let count = found.len() + cut.len();
            Err(LabelError::Repeated { label, count, places: places.take(MAX_PLACES).collect() })
        }
    }
}

/// Returns the characters of a row, with blanks for cells without text. Hidden text is blank.
fn glyphs(runs: &[Run], cols: u16) -> Vec<Glyph> {
    let blank = |col| Glyph { sign: ' ', col, background: None };
    let mut line: Vec<Glyph> = Vec::new();
    let mut next_col = 0;
    for run in runs {
        line.extend((next_col..run.col).map(blank));
        next_col = run.col.saturating_add(run.cols);
        let background = if run.style.inverse { (run.style.fg, true) } else { (run.style.bg, false) };
        if run.style.hidden {
            line.extend((run.col..next_col).map(blank));
            continue;
        }
        let width = if run.wide { 2 } else { 1 };
        let has_one_cell = run.cols == width;
        for (index, sign) in run.text.chars().enumerate() {
            // All characters of a single cell are combined.
            let offset = if has_one_cell { 0 } else { (index as u16).saturating_mul(width) };
            line.push(Glyph { sign, col: run.col.saturating_add(offset), background: Some(background) });
        }
    }
    line.extend((next_col..cols).map(blank));
    line
}

/// Returns whether a character draws a line of a frame or a block.
fn is_frame(sign: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&sign)
}

fn is_blank_or_frame(glyph: Option<&Glyph>) -> bool {
    glyph.is_none_or(|glyph| glyph.sign.is_whitespace() || is_frame(glyph.sign))
}

fn border_before(rows: &[Vec<Glyph>], row: usize, start: usize) -> Border {
    let line = &rows[row];
    let before = |distance: usize| start.checked_sub(distance).and_then(|index| line.get(index));
    let Some(nearest) = before(1) else { return Border::Clear };
    let own = line[start].background;
    let window = |glyph: &Glyph| frame_border(rows, row, glyph, CONNECTED_RIGHT);
    if !nearest.sign.is_whitespace() {
        return window(nearest).unwrap_or_else(|| opening_border(line, start - 1, own, true));
    }
    match before(2) {
        None => Border::Clear,
        Some(second) if second.sign.is_whitespace() => Border::Clear,
        Some(second) => window(second).unwrap_or_else(|| {
            // The bullet of a list, or a checkbox with at most one character.
            let is_bullet =
                !second.sign.is_alphanumeric() && is_blank_or_frame(before(3)) && is_blank_or_frame(before(4));
            let opens = |distance| before(distance).is_some_and(|glyph| "([{<".contains(glyph.sign));
            let is_checkbox = ")]}>".contains(second.sign) && (opens(3) || opens(4));
            match is_bullet || is_checkbox || second.sign == '|' {
                true => Border::Clear,
                false => opening_border(line, start - 2, own, false),
            }
        }),
    }
}

fn border_after(rows: &[Vec<Glyph>], row: usize, end: usize) -> Border {
    let line = &rows[row];
    let Some(nearest) = line.get(end) else { return Border::Cut };
    let own = line[end - 1].background;
    if is_frame(nearest.sign) || ELLIPSES.contains(nearest.sign) {
        return Border::Cut;
    }
    let window = |glyph: &Glyph| frame_border(rows, row, glyph, CONNECTED_LEFT);
    if !nearest.sign.is_whitespace() {
        return window(nearest).unwrap_or_else(|| closing_border(line, end, own, true));
    }
    match line.get(end + 1) {
        None => Border::Clear,
        Some(second) if second.sign.is_whitespace() => Border::Clear,
        Some(second) if ELLIPSES.contains(second.sign) => Border::Cut,
        Some(second) => window(second).unwrap_or_else(|| {
            // An arrow after the label.
            let is_arrow = !second.sign.is_alphanumeric()
                && is_blank_or_frame(line.get(end + 2))
                && is_blank_or_frame(line.get(end + 3));
            match is_arrow || second.sign == '|' {
                true => Border::Clear,
                false => closing_border(line, end + 1, own, false),
            }
        }),
    }
}

/// Vertical lines of frames.
const VERTICAL: &str = "│┃║┆┇┊┋╎╏";

/// Characters of frames that a horizontal line connects to the right.
const CONNECTED_RIGHT: &str = "┌┍┎┏┬┭┮┯┰┱┲┳├┝┞┟┠┡┢┣┼┽┾┿╀╁╂╃╄╅╆╇╈╉╊╋╒╓╔╤╥╦╞╟╠╪╫╬╭";

/// Characters of frames that a horizontal line connects to the left.
const CONNECTED_LEFT: &str = "┐┑┒┓┬┭┮┯┰┱┲┳┤┥┦┧┨┩┪┫┼┽┾┿╀╁╂╃╄╅╆╇╈╉╊╋╕╖╗╤╥╦╡╢╣╪╫╬╮";

/// Returns the relation to a line of a frame; `None` for other characters. The text ends at a side of its own window: a
/// line that a character of `connected` begins. Another line is a side of a window that lies over the text.
fn frame_border(rows: &[Vec<Glyph>], row: usize, glyph: &Glyph, connected: &str) -> Option<Border> {
    let sign_at = |row: usize| rows.get(row)?.iter().find(|other| other.col == glyph.col).map(|other| other.sign);
    if glyph.sign == '|' {
        // One in several rows is a line, with equal corners on all sides.
        let is_line = |row: Option<usize>| row.and_then(sign_at).is_some_and(|sign| "|+".contains(sign));
        return (is_line(row.checked_sub(1)) || is_line(Some(row + 1))).then_some(Border::Cut);
    }
    if !is_frame(glyph.sign) {
        return None;
    }
    // The title of a window stands in its horizontal line.
    if "─━═╌╍┄┅┈┉".contains(glyph.sign) {
        return Some(Border::Clear);
    }
    let corner = (0..row).rev().map(sign_at).find(|sign| !sign.is_some_and(|sign| VERTICAL.contains(sign)));
    match corner.flatten().is_some_and(|sign| connected.contains(sign)) {
        true => Some(Border::Clear),
        false => Some(Border::Cut),
    }
}

/// Returns true if the cell has a letter or a digit.
fn is_word(glyph: Option<&Glyph>) -> bool {
    glyph.is_some_and(|glyph| glyph.sign.is_alphanumeric())
}

/// Returns the relation to the character at `index`, before a text. It separates unless it stands within a word.
fn opening_border(line: &[Glyph], index: usize, own: Option<(Colour, bool)>, is_adjacent: bool) -> Border {
    let separates =
        OPENERS.contains(line[index].sign) && !is_word(index.checked_sub(1).and_then(|before| line.get(before)));
    let word = line[..=index].iter().rev();
    if separates { Border::Clear } else { background_border(word, own, is_adjacent) }
}

/// Returns the relation to the character at `index`, after a text.
fn closing_border(line: &[Glyph], index: usize, own: Option<(Colour, bool)>, is_adjacent: bool) -> Border {
    let is_blank = |index: usize| line.get(index).is_none_or(|glyph| glyph.sign.is_whitespace());
    let separates = match line[index].sign {
        // A shortcut or a value in another column follows; other text continues the label.
        ':' => is_blank(index + 1) && (is_blank(index + 2) || is_blank(index + 3)),
        // Without its opening bracket, it compares or points.
        '>' if !is_adjacent => is_blank(index + 1) && is_blank(index + 2),
        sign => CLOSERS.contains(sign) && !is_word(line.get(index + 1)),
    };
    if separates { Border::Clear } else { background_border(line[index..].iter(), own, is_adjacent) }
}

/// Returns the relation to the characters on one side of a text, which do not separate. Another background does, another
/// colour does not: the letter of a shortcut has one. It may have a background, too, so letters beside a letter are of
/// the same word, unless they name a key such as F2.
fn background_border<'g>(
    mut beside: impl Iterator<Item = &'g Glyph> + Clone,
    own: Option<(Colour, bool)>,
    is_adjacent: bool,
) -> Border {
    let Some(nearest) = beside.clone().next() else { return Border::Clear };
    if nearest.background == own {
        return Border::Joined;
    }
    let is_of_word = |glyph: &&Glyph| glyph.sign.is_alphanumeric() && glyph.background == nearest.background;
    let is_letter = nearest.sign.is_alphabetic();
    let names_key = beside.by_ref().take_while(is_of_word).any(|glyph| glyph.sign.is_numeric());
    if is_adjacent && is_letter && !names_key { Border::Joined } else { Border::Clear }
}

/// Returns [`Border::Cut`] if a bracket stands on one side of a text only: a window without a frame may lie over the
/// rest of the label.
fn brackets_around(line: &[Glyph], start: usize, end: usize) -> Border {
    let sign = |index: Option<usize>| index.and_then(|index| line.get(index)).map(|glyph| glyph.sign);
    let is_blank = |sign: Option<char>| sign.is_none_or(char::is_whitespace);
    let near = |nearest: Option<usize>, second: Option<usize>| match sign(nearest) {
        first if is_blank(first) => sign(second),
        first => first,
    };
    let before = near(start.checked_sub(1), start.checked_sub(2));
    let after = near(Some(end), Some(end + 1));
    let opened = BRACKETS.iter().find(|(open, _)| before == Some(*open));
    let closed = BRACKETS.iter().find(|(_, close)| after == Some(*close));
    match (opened, closed) {
        // An arrow, or the bracket of a list.
        (None, Some((_, '>' | ')'))) | (Some(('<', _)), None) | (None, None) => Border::Clear,
        (opened, closed) if opened == closed => Border::Clear,
        _ => Border::Cut,
    }
}

/// Returns the text around a part of a row, up to two blanks.
fn longer_text(line: &[Glyph], start: usize, end: usize) -> String {
    let is_blank = |index: usize| line.get(index).is_none_or(|glyph| glyph.sign.is_whitespace());
    let (mut first, mut last) = (start, end);
    while first > 0 && !(is_blank(first - 1) && (first < 2 || is_blank(first - 2))) {
        first -= 1;
    }
    while last < line.len() && !(is_blank(last) && is_blank(last + 1)) {
        last += 1;
    }
    let text: String = line[first..last].iter().map(|glyph| glyph.sign).collect();
    text.trim().chars().take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::screen::{Rgb, Style};

    const COLS: u16 = 60;

    fn picture_of(rows: Vec<Vec<Run>>) -> Picture {
        let (foreground, background) = (Rgb(255, 255, 255), Rgb(0, 0, 0));
        Picture { cols: COLS, rows, cursor: None, foreground, background, palette: Vec::new() }
    }

    fn run(col: u16, text: &str, style: Style) -> Run {
        Run { col, cols: text.chars().count() as u16, wide: false, text: text.to_owned(), style, link: None }
    }

    fn plain(rows: &[&str]) -> Picture {
        picture_of(rows.iter().map(|text| vec![run(0, text, Style::default())]).collect())
    }

    fn found(rows: &[&str], label: &str) -> Option<(u16, u16)> {
        find_label(&plain(rows), label).ok().map(|cell| (cell.row, cell.col))
    }

    #[test]
    fn label_is_a_text_of_its_own() {
        let buttons = ["", "  Left   File   Command", " [ OK ]  <Cancel>  |Help|"];
        assert_eq!(found(&buttons, "OK"), Some((2, 3)));
        assert_eq!(found(&buttons, " Cancel "), Some((2, 12)));
        assert_eq!(found(&buttons, "Help"), Some((2, 21)));
        assert_eq!(found(&buttons, "File"), Some((1, 10)));
        assert_eq!(found(&["[x] Fast mode", "( ) Slow mode"], "Fast mode"), Some((0, 8)));
        assert_eq!(found(&["* inbox  ▸ drafts  "], "drafts"), Some((0, 13)));
        assert_eq!(found(&["Commit: c | Push: P"], "Push"), Some((0, 13)));
        for (row, label) in [
            ("[ Can't delete ]", "Can"),
            ("[ Don't ]", "Don"),
            ("[ Delete: all files ]", "Delete"),
            ("[ Delete > all ]", "Delete"),
            ("[ Delete\"all\" ]", "Delete"),
            ("un(Save)  not<Save>", "Save"),
            ("don'Save", "Save"),
            ("Save:all", "Save"),
            // The rest is covered.
            ("[ Save      ", "Save"),
            ("       Save ]", "Save"),
        ] {
            assert_eq!(found(&[row], label), None, "{label} in {row}");
        }
        for (rows, label) in [
            (["Delete all  Quit"], "Delete"),
            (["reOpen  Quit"], "Open"),
            (["Save & exit  Quit"], "exit"),
            (["Save & exit  Quit"], "Save"),
            (["Is it OK?  Quit"], "OK"),
            (["Save-as  Quit"], "Save"),
            (["Save as...  Quit"], "Save as"),
            (["(Do not) Save  Quit"], "Save"),
            (["Save (as copy)  Quit"], "Save"),
        ] {
            assert!(matches!(find_label(&plain(&rows), label), Err(LabelError::Part { .. })), "{rows:?} {label}");
        }
        assert!(matches!(find_label(&plain(&["Quit"]), "Exit"), Err(LabelError::Missing { .. })));
        assert!(matches!(find_label(&plain(&["Quit"]), " "), Err(LabelError::Missing { .. })));
        let error = find_label(&plain(&["OK  OK"]), "OK").unwrap_err();
        assert_eq!(
            error.to_string(),
            "'OK' is on the screen 2 times; name the cell of one, such as click@0,0 or click@0,4"
        );
    }

    #[test]
    fn cut_text_is_no_label() {
        let edge = format!("{}Delete", " ".repeat(usize::from(COLS) - 6));
        let window = ["┌─ Act ┐", "│ Save │ile  Edit", "│Delete│Open  Quit", "└──────┘ Now"];
        let table = ["+------+", "| Name |", "+------+"];
        for (rows, label) in [
            (vec![edge.as_str()], "Delete"),
            (vec!["Delete…  Quit"], "Delete"),
            (vec!["Delete~  Quit"], "Delete"),
            (window.to_vec(), "Delete"),
            (window.to_vec(), "Open"),
            (table.to_vec(), "Name"),
            (vec!["Delete …"], "Delete"),
            (vec!["     ┌────┐", "Save │    │"], "Save"),
            (vec!["OK  a", "OK…"], "OK"),
        ] {
            let error = find_label(&plain(&rows), label).unwrap_err();
            assert!(matches!(error, LabelError::Cut { .. } | LabelError::Repeated { .. }), "{rows:?}: {error}");
        }
        assert_eq!(found(&window, "Save"), Some((1, 3)));
        assert_eq!(found(&window, "Edit"), Some((1, 14)));
        assert_eq!(found(&["┌─────────┐", "│/etc     │"], "/etc"), Some((1, 2)));
    }

    #[test]
    fn background_separates_texts_and_a_colour_does_not() {
        let inverse = Style { inverse: true, ..Style::default() };
        let red = Style { fg: Colour::Indexed(1), ..Style::default() };
        let hidden = Style { hidden: true, ..Style::default() };
        let bar = vec![run(0, "F1", Style::default()), run(2, "Help", inverse), run(6, "F2", Style::default())];
        assert_eq!(find_label(&picture_of(vec![bar]), "Help"), Ok(ScreenCell { row: 0, col: 3 }));
        let shortcut = vec![run(0, "Delete ", Style::default()), run(7, "a", red), run(8, "ll", Style::default())];
        let picture = picture_of(vec![shortcut]);
        assert!(matches!(find_label(&picture, "Delete"), Err(LabelError::Part { .. })));
        assert_eq!(find_label(&picture, "Delete all"), Ok(ScreenCell { row: 0, col: 4 }));
        let invisible = picture_of(vec![vec![run(0, "OK", hidden)]]);
        assert!(matches!(find_label(&invisible, "OK"), Err(LabelError::Missing { .. })));
        let wide = Run { wide: true, cols: 4, ..run(4, "保存", Style::default()) };
        assert_eq!(find_label(&picture_of(vec![vec![wide]]), "保存"), Ok(ScreenCell { row: 0, col: 4 }));
    }

    /// An element that a program has drawn: its whole text, and the columns of its visible part.
    #[derive(Debug)]
    struct Element {
        text: String,
        row: u16,
        cols: std::ops::Range<u16>,
        is_whole: bool,
    }

    /// Draws elements beside each other, in brackets or with blanks between them. The edge of the screen, an ellipsis or
    /// a window may cut them, and some are hidden.
    fn draw(rows: &[Vec<(String, u8)>], window: Option<(u16, u16)>) -> (Picture, Vec<Element>) {
        let (mut lines, mut elements) = (Vec::new(), Vec::new());
        for (row, texts) in (0..).zip(rows) {
            let (mut runs, mut col) = (Vec::new(), 0);
            for (text, kind) in texts {
                let (shown, style, is_whole) = match kind {
                    0 => (format!("[ {text} ]"), Style::default(), true),
                    1 => (text.clone(), Style { hidden: true, ..Style::default() }, false),
                    2 => (format!("{}…", &text[..text.len() / 2]), Style::default(), false),
                    _ => (text.clone(), Style::default(), true),
                };
                let shown: String = shown.chars().take(usize::from(COLS.saturating_sub(col))).collect();
                let cols = shown.chars().count() as u16;
                let is_whole = is_whole && col + cols < COLS;
                elements.push(Element { text: text.clone(), row, cols: col..col + cols, is_whole });
                if cols > 0 {
                    runs.push(run(col, &shown, style));
                }
                col = (col + cols + 2).min(COLS);
            }
            lines.push(runs);
        }
        let Some((left, width)) = window else { return (picture_of(lines), elements) };
        // A window over all rows hides the cells below it.
        let right = (left + width).min(COLS - 1);
        for (row, runs) in lines.iter_mut().enumerate() {
            let line = glyphs(runs, COLS);
            let text: String = line
                .iter()
                .map(|glyph| match glyph.col {
                    col if col == left => {
                        if row == 0 {
                            '┌'
                        } else {
                            '│'
                        }
                    }
                    col if col == right => {
                        if row == 0 {
                            '┐'
                        } else {
                            '│'
                        }
                    }
                    col if (left..right).contains(&col) => {
                        if row == 0 {
                            '─'
                        } else {
                            ' '
                        }
                    }
                    _ => glyph.sign,
                })
                .collect();
            *runs = vec![run(0, &text, Style::default())];
        }
        for element in &mut elements {
            element.is_whole &= element.cols.end <= left || element.cols.start > right;
        }
        (picture_of(lines), elements)
    }

    proptest! {
        /// A found cell belongs to the only whole element with exactly this text, and to no other element.
        #[test]
        fn found_cell_belongs_to_the_only_label_of_this_text(
            rows in prop::collection::vec(
                prop::collection::vec(("(Save|Delete|Open|all|as)( (all|as|Open|now)){0,2}", 0..6_u8), 0..5), 1..6),
            window in prop::option::of((0..COLS - 2, 2..20_u16)),
            label in "(Save|Delete|Open|all|as)( (all|as|Open|now)){0,1}",
        ) {
            let (picture, elements) = draw(&rows, window);
            if let Ok(cell) = find_label(&picture, &label) {
                let hit: Vec<&Element> =
                    elements.iter().filter(|one| one.row == cell.row && one.cols.contains(&cell.col)).collect();
                prop_assert_eq!(hit.len(), 1);
                prop_assert_eq!(&hit[0].text, &label);
                prop_assert!(hit[0].is_whole, "{:?}", hit[0]);
                let same = elements.iter().filter(|one| one.is_whole && one.text == label).count();
                prop_assert_eq!(same, 1);
            } else if window.is_none() {
                // A whole label that is there once, and that no cut text resembles, is found.
                let same: Vec<&Element> = elements.iter().filter(|one| one.text == label).collect();
                if let [only] = same.as_slice() {
                    let is_prefix = |one: &Element| !one.is_whole && one.text.starts_with(&label);
                    prop_assert!(!only.is_whole || elements.iter().any(is_prefix), "{only:?}");
                }
            }
        }
    }
}
