//! The full screen as cells, drawn from its state. Pure.

mod gate;
mod help;
mod list;
mod preview;
mod run;
mod style;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::key::Key;
use super::model::{Confirmation, DaemonState, Model, Opened, Typing};
use crate::print::fitted;
use style::{ACCENT, BAD, QUIET, REVERSED, STRONG, WAITS};

/// Draws the state. Returns the position of the cursor in a line of input.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) -> Option<Position> {
    let cursor = match model.opened.last() {
        Some(Opened::Gate(view)) => gate::draw(model, view, buffer),
        Some(Opened::Run(view)) => {
            run::draw(model, view, buffer);
            None
        }
        None => list::draw(model, buffer),
    };
    if model.shows_help {
        help::draw(model, buffer);
        return None;
    }
    cursor
}

/// Draws the first row: a title, and the state of the daemon on the right.
fn draw_header(model: &Model, buffer: &mut Buffer, place: Rect, title: Vec<Span<'_>>) {
    if place.is_empty() {
        return;
    }
    let (state, style) = match model.daemon {
        DaemonState::Connected => ("", QUIET),
        DaemonState::Connecting => ("looking for the daemon ", QUIET),
        DaemonState::Away => ("the daemon is away ", BAD),
    };
    buffer.set_style(place, REVERSED);
    let room = usize::from(place.width).saturating_sub(state.width());
    write(buffer, Rect { width: u16::try_from(room).unwrap_or(place.width), ..place }, &Line::from(title));
    let state_col = place.x + place.width.saturating_sub(u16::try_from(state.width()).unwrap_or(0));
    buffer.set_stringn(state_col, place.y, state, usize::from(place.width), style.patch(REVERSED));
}

/// Draws the remark, the question to confirm, or the line of input. Returns the cursor of a line.
fn draw_notice(model: &Model, buffer: &mut Buffer, place: Rect) -> Option<Position> {
    if place.is_empty() {
        return None;
    }
    let room = usize::from(place.width);
    if let Some(confirmation) = &model.confirmation {
        let text = fitted(&format!(" {}", confirmation.question), room);
        write(buffer, place, &Line::styled(text, WAITS));
        return None;
    }
    match &model.typing {
        Some(Typing::Filter) => return Some(draw_input(buffer, place, " filter: ", model.filter.text())),
        Some(Typing::GoTo(line)) => {
            return Some(draw_input(buffer, place, " go to the id that begins with: ", line.text()));
        }
        None => {}
    }
    if let Some(notice) = &model.notice {
        let style = if notice.is_error { BAD } else { ACCENT };
        write(buffer, place, &Line::styled(fitted(&format!(" {}", notice.text), room), style));
    } else if !model.filter.text().is_empty() && model.opened.is_empty() {
        let text = format!(" only rows with '{}'; esc shows all", model.filter.text());
        write(buffer, place, &Line::styled(fitted(&text, room), QUIET));
    }
    None
}

/// Draws a prompt and its input, or the end of a long input. Returns the cursor.
fn draw_input(buffer: &mut Buffer, place: Rect, prompt: &str, text: &str) -> Position {
    let room = usize::from(place.width).saturating_sub(1);
    let prompt = fitted(prompt, room / 2);
    let room = room.saturating_sub(prompt.width());
    let mut visible_end = text;
    while visible_end.width() > room {
        let mut characters = visible_end.chars();
        characters.next();
        visible_end = characters.as_str();
    }
    let (x, y) = buffer.set_stringn(place.x, place.y, &prompt, usize::from(place.width), STRONG);
    let (x, _) = buffer.set_stringn(x, y, visible_end, room, ratatui::style::Style::new());
    Position { x, y: place.y }
}

/// Returns the keys that confirm an action, and those that withdraw it.
fn confirming_keys(model: &Model, confirmation: &Confirmation) -> Vec<(&'static str, &'static str)> {
    let yes = match confirmation.keys {
        [Key::Enter] if model.continues_text(Key::Enter) => ("enter", "in a moment"),
        [Key::Enter] => ("enter", "yes"),
        _ => ("y, enter", "yes"),
    };
    vec![yes, ("any other key", "no")]
}

/// Draws as many keys as the row has room for.
fn draw_keys(model: &Model, buffer: &mut Buffer, place: Rect, keys: &[(&str, &str)]) {
    if place.is_empty() {
        return;
    }
    if model.is_quiet() {
        write(buffer, place, &Line::styled(" typed text is ignored until no key was pressed for a moment", QUIET));
        return;
    }
    let confirming = model.confirmation.as_ref().map(|confirmation| confirming_keys(model, confirmation));
    let keys = confirming.as_deref().unwrap_or(keys);
    let mut spans = Vec::new();
    let mut used_cols = 0;
    for (key, action) in keys {
        let width = 1 + key.width() + 1 + action.width() + 1;
        if used_cols + width > usize::from(place.width) {
            break;
        }
        used_cols += width;
        spans.extend([
            Span::raw(" "),
            Span::styled(*key, STRONG),
            Span::raw(" "),
            Span::styled(*action, QUIET),
            Span::raw(" "),
        ]);
    }
    write(buffer, place, &Line::from(spans));
}

/// Draws a border with a title, and returns the area inside.
fn draw_border(buffer: &mut Buffer, place: Rect, title: &str) -> Rect {
    if place.width < 4 || place.height < 2 {
        return Rect { width: 0, height: 0, ..place };
    }
    let line = "─".repeat(usize::from(place.width));
    buffer.set_stringn(place.x, place.y, &line, usize::from(place.width), QUIET);
    let title = fitted(&format!(" {title} "), usize::from(place.width) - 3);
    buffer.set_stringn(place.x + 1, place.y, &title, usize::from(place.width) - 2, STRONG);
    Rect { x: place.x + 1, y: place.y + 1, width: place.width - 2, height: place.height - 1 }
}

/// Draws a line at the top of an area, with an ellipsis if it is cut.
fn write(buffer: &mut Buffer, place: Rect, line: &Line<'_>) {
    if place.is_empty() {
        return;
    }
    if line.width() <= usize::from(place.width) {
        buffer.set_line(place.x, place.y, line, place.width);
    } else {
        let (x, y) = buffer.set_line(place.x, place.y, line, place.width - 1);
        buffer.set_string(x, y, "…", QUIET);
    }
}

/// Draws lines from the top of an area.
fn write_all<'l>(buffer: &mut Buffer, place: Rect, lines: impl Iterator<Item = Line<'l>>) {
    for (row, line) in place.rows().zip(lines) {
        write(buffer, row, &line);
    }
}

#[cfg(test)]
mod tests;
