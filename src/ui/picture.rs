//! The screen of a terminal as the daemon sends it: rows of cells, grouped by style. Pure.

use ratatui::style::{Color, Modifier, Style};
use steplatch_protocol::{ScreenChange, ScreenRow, ScreenState};

/// The known part of one terminal's screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) terminal: String,
    pub(crate) cols: u16,
    pub(crate) rows: Vec<ScreenRow>,
    pub(crate) state: ScreenState,
}

impl Picture {
    /// Creates an empty picture of a terminal.
    pub(crate) fn for_terminal(terminal: &str) -> Self {
        Self { terminal: terminal.to_owned(), ..Self::default() }
    }

    /// Applies a change of the screen.
    pub(crate) fn apply(&mut self, change: ScreenChange) {
        let ScreenChange { cols, rows, whole, changed, state } = change;
        if whole || cols != self.cols || usize::from(rows) != self.rows.len() {
            self.cols = cols;
            self.rows = (0..rows).map(|row| ScreenRow { row, ..ScreenRow::default() }).collect();
        }
        for row in changed {
            if let Some(known) = self.rows.get_mut(usize::from(row.row)) {
                *known = row;
            }
        }
        self.state = state;
    }

    /// Returns the index of the first row to show in an area of `height` rows: 0 if all rows fit; otherwise the area
    /// ends with the cursor or the last used row.
    pub(crate) fn first_row(&self, height: u16) -> u16 {
        let rows = u16::try_from(self.rows.len()).unwrap_or(u16::MAX);
        let used_rows = self.rows.iter().rposition(|row| !row.runs.is_empty()).map_or(0, |row| row + 1);
        let used_rows = u16::try_from(used_rows).unwrap_or(u16::MAX);
        let cursor = self.state.cursor.as_ref().map_or(used_rows, |cursor| cursor.row + 1);
        let last = if self.state.alternate { cursor.max(height) } else { used_rows.max(cursor) };
        last.min(rows).saturating_sub(height)
    }
}

/// Parses the style of a run of cells, as [`steplatch_protocol::ScreenRun`] describes it.
pub(crate) fn run_style(words: &str) -> Style {
    let mut style = Style::new();
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (sign, value) = word.split_at(1);
        style = match sign {
            "f" => colour(value).map_or(style, |colour| style.fg(colour)),
            "b" => colour(value).map_or(style, |colour| style.bg(colour)),
            "B" => style.add_modifier(Modifier::BOLD),
            "D" => style.add_modifier(Modifier::DIM),
            "I" => style.add_modifier(Modifier::ITALIC),
            "S" => style.add_modifier(Modifier::CROSSED_OUT),
            "R" => style.add_modifier(Modifier::REVERSED),
            "H" => style.add_modifier(Modifier::HIDDEN),
            "U" => style.add_modifier(Modifier::UNDERLINED),
            _ => style,
        };
    }
    style
}

fn colour(value: &str) -> Option<Color> {
    match value.strip_prefix('#') {
        Some(hex) if hex.len() == 6 => {
            let number = u32::from_str_radix(hex, 16).ok()?;
            let [_, red, green, blue] = number.to_be_bytes();
            Some(Color::Rgb(red, green, blue))
        }
        Some(_) => None,
        None => value.parse().ok().map(Color::Indexed),
    }
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::{ScreenCursor, ScreenRun};

    use super::*;

    #[test]
    fn styles_are_read_as_in_the_contract() {
        let style = Style::new().fg(Color::Indexed(9)).bg(Color::Rgb(255, 0, 16)).add_modifier(Modifier::BOLD);
        assert_eq!(run_style("f9,b#ff0010,B,W"), style);
        assert_eq!(run_style(""), Style::new());
        assert_eq!(run_style("fx,b#é12345"), Style::new(), "invalid entries are omitted");
    }

    #[test]
    fn too_high_picture_shows_the_rows_at_its_cursor() {
        let mut picture = Picture::for_terminal("term_a");
        let row =
            |row| ScreenRow { row, runs: vec![ScreenRun(0, 1, "x".to_owned(), String::new())], ..ScreenRow::default() };
        let cursor = |row| Some(ScreenCursor { row, col: 0, shape: "block".to_owned() });
        let state = ScreenState { cursor: cursor(29), ..ScreenState::default() };
        picture.apply(ScreenChange { cols: 80, rows: 40, whole: true, changed: (0..30).map(row).collect(), state });
        assert_eq!([picture.first_row(40), picture.first_row(30), picture.first_row(10)], [0, 0, 20]);
        picture.state.cursor = None;
        assert_eq!(picture.first_row(10), 20);
    }
}
