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

/// Draws the state. Returns the place of the cursor in a line of input.
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
fn header(model: &Model, buffer: &mut Buffer, place: Rect, title: Vec<Span<'_>>) {
    if place.is_empty() {
        return;
    }
    let (state, style) = match model.daemon {
        DaemonState::Here => ("", QUIET),
        DaemonState::Coming => ("looking for the daemon ", QUIET),
        DaemonState::Away => ("the daemon is away ", BAD),
    };
    buffer.set_style(place, REVERSED);
    let room = usize::from(place.width).saturating_sub(state.width());
    write(buffer, Rect { width: u16::try_from(room).unwrap_or(place.width), ..place }, &Line::from(title));
    let at = place.x + place.width.saturating_sub(u16::try_from(state.width()).unwrap_or(0));
    buffer.set_stringn(at, place.y, state, usize::from(place.width), style.patch(REVERSED));
}

/// Draws the remark, the question to confirm, or the line of input. Returns the cursor of the latter.
fn notice(model: &Model, buffer: &mut Buffer, place: Rect) -> Option<Position> {
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
        Some(Typing::Filter) => return Some(typed(buffer, place, " filter: ", model.filter.text())),
        Some(Typing::GoTo(line)) => return Some(typed(buffer, place, " go to the id that begins with: ", line.text())),
        None => {}
    }
    if let Some(notice) = &model.notice {
        let style = if notice.is_error { BAD } else { ACCENT };
        write(buffer, place, &Line::styled(fitted(&format!(" {}", notice.text), room), style));
    } else if !model.filter.text().is_empty() && model.opened.is_empty() {
        let text = format!(" only what has '{}'; esc shows all", model.filter.text());
        write(buffer, place, &Line::styled(fitted(&text, room), QUIET));
    }
    None
}

/// Draws a prompt and its input; of a long line its end. Returns the cursor.
fn typed(buffer: &mut Buffer, place: Rect, prompt: &str, text: &str) -> Position {
    let room = usize::from(place.width).saturating_sub(1);
    let prompt = fitted(prompt, room / 2);
    let room = room.saturating_sub(prompt.width());
    let mut shown = text;
    while shown.width() > room {
        let mut characters = shown.chars();
        characters.next();
        shown = characters.as_str();
    }
    let (x, y) = buffer.set_stringn(place.x, place.y, &prompt, usize::from(place.width), STRONG);
    let (x, _) = buffer.set_stringn(x, y, shown, room, ratatui::style::Style::new());
    Position { x, y: place.y }
}

/// Returns the keys that confirm an action, once they do, and the others.
fn confirming_keys(model: &Model, confirmation: &Confirmation) -> Vec<(&'static str, &'static str)> {
    let yes = match confirmation.keys {
        [Key::Enter] if model.continues_text(Key::Enter) => ("enter", "in a moment"),
        [Key::Enter] => ("enter", "yes"),
        _ => ("y, enter", "yes"),
    };
    vec![yes, ("any other key", "no")]
}

/// Draws the row of keys: as many as there is room for.
fn keys(model: &Model, buffer: &mut Buffer, place: Rect, keys: &[(&str, &str)]) {
    if place.is_empty() {
        return;
    }
    if model.is_quiet() {
        write(buffer, place, &Line::styled(" what is typed is ignored until no key was pressed for a moment", QUIET));
        return;
    }
    let confirming = model.confirmation.as_ref().map(|confirmation| confirming_keys(model, confirmation));
    let keys = confirming.as_deref().unwrap_or(keys);
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, does) in keys {
        let width = 1 + key.width() + 1 + does.width() + 1;
        if used + width > usize::from(place.width) {
            break;
        }
        used += width;
        spans.extend([
            Span::raw(" "),
            Span::styled(*key, STRONG),
            Span::raw(" "),
            Span::styled(*does, QUIET),
            Span::raw(" "),
        ]);
    }
    write(buffer, place, &Line::from(spans));
}

/// Draws a border with a title, and returns what is inside.
fn border(buffer: &mut Buffer, place: Rect, title: &str) -> Rect {
    if place.width < 4 || place.height < 2 {
        return Rect { width: 0, height: 0, ..place };
    }
    let line = "─".repeat(usize::from(place.width));
    buffer.set_stringn(place.x, place.y, &line, usize::from(place.width), QUIET);
    let title = fitted(&format!(" {title} "), usize::from(place.width) - 3);
    buffer.set_stringn(place.x + 1, place.y, &title, usize::from(place.width) - 2, STRONG);
    Rect { x: place.x + 1, y: place.y + 1, width: place.width - 2, height: place.height - 1 }
}

/// Draws a line at the top of a place, with an ellipsis where it is cut.
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

/// Draws lines from the top of a place.
fn write_all<'l>(buffer: &mut Buffer, place: Rect, lines: impl Iterator<Item = Line<'l>>) {
    for (row, line) in place.rows().zip(lines) {
        write(buffer, row, &line);
    }
}

#[cfg(test)]
mod tests;
