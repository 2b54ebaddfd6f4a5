//! Drawing of the full screen's state into cells. Pure.

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
use crate::print::{self, fitted};
use style::{ACCENT, BAD, QUIET, REVERSED, STRONG, WAITS};

/// Draws the state. Returns the position of the cursor if a line is being typed.
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
fn draw_header(model: &Model, buffer: &mut Buffer, area: Rect, title: Vec<Span<'_>>) {
    if area.is_empty() {
        return;
    }
    let (state, style) = match model.daemon {
        DaemonState::Connected => ("", QUIET),
        DaemonState::Connecting => ("looking for the daemon ", QUIET),
        DaemonState::Away => ("the daemon is away ", BAD),
    };
    buffer.set_style(area, REVERSED);
    let room = usize::from(area.width).saturating_sub(state.width());
    write(buffer, Rect { width: u16::try_from(room).unwrap_or(area.width), ..area }, &Line::from(title));
    let state_col = area.x + area.width.saturating_sub(u16::try_from(state.width()).unwrap_or(0));
    buffer.set_stringn(state_col, area.y, state, usize::from(area.width), style.patch(REVERSED));
}

/// Draws the remark, the question to confirm, or the line of input. Returns the cursor of the line of input.
fn draw_notice(model: &Model, buffer: &mut Buffer, area: Rect) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    let room = usize::from(area.width);
    if let Some(confirmation) = &model.confirmation {
        let text = fitted(&format!(" {}", confirmation.question), room);
        write(buffer, area, &Line::styled(text, WAITS));
        return None;
    }
    match &model.typing {
        Some(Typing::Filter) => return Some(draw_input(buffer, area, " filter: ", model.filter.text())),
        Some(Typing::GoTo(line)) => {
            return Some(draw_input(buffer, area, " go to the id that begins with: ", line.text()));
        }
        Some(Typing::Secret { program, line, .. }) => {
            let prompt = format!(" password for {}: ", print::visible(program));
            return Some(draw_input(buffer, area, &prompt, &"•".repeat(line.text().chars().count())));
        }
        None => {}
    }
    if let Some(notice) = &model.notice {
        let style = if notice.is_error { BAD } else { ACCENT };
        write(buffer, area, &Line::styled(fitted(&format!(" {}", notice.text), room), style));
    } else if !model.filter.text().is_empty() && model.opened.is_empty() {
        let text = format!(" only rows with '{}'; esc shows all", model.filter.text());
        write(buffer, area, &Line::styled(fitted(&text, room), QUIET));
    }
    None
}

/// Draws a prompt and the input, or the end of a long input. Returns the position of the cursor.
fn draw_input(buffer: &mut Buffer, area: Rect, prompt: &str, text: &str) -> Position {
    let room = usize::from(area.width).saturating_sub(1);
    let prompt = fitted(prompt, room / 2);
    let room = room.saturating_sub(prompt.width());
    let mut visible_text = text;
    while visible_text.width() > room {
        let mut characters = visible_text.chars();
        characters.next();
        visible_text = characters.as_str();
    }
    let (x, y) = buffer.set_stringn(area.x, area.y, &prompt, usize::from(area.width), STRONG);
    let (x, _) = buffer.set_stringn(x, y, visible_text, room, ratatui::style::Style::new());
    Position { x, y: area.y }
}

/// Returns the keys that confirm or withdraw an action, with their descriptions.
fn describe_confirmation_keys(model: &Model, confirmation: &Confirmation) -> Vec<(&'static str, &'static str)> {
    let confirm = match confirmation.keys {
        [Key::Enter] if model.continues_text(Key::Enter) => ("enter", "in a moment"),
        [Key::Enter] => ("enter", "yes"),
        _ => ("y, enter", "yes"),
    };
    vec![confirm, ("any other key", "no")]
}

/// Draws as many keys as fit in the row.
fn draw_keys(model: &Model, buffer: &mut Buffer, area: Rect, keys: &[(&str, &str)]) {
    if area.is_empty() {
        return;
    }
    if model.is_quiet() {
        write(buffer, area, &Line::styled(" keys are ignored until you pause typing", QUIET));
        return;
    }
    let confirmation_keys =
        model.confirmation.as_ref().map(|confirmation| describe_confirmation_keys(model, confirmation));
    let keys = confirmation_keys.as_deref().unwrap_or(keys);
    let mut spans = Vec::new();
    let mut used_cols = 0;
    for (key, action) in keys {
        let width = 1 + key.width() + 1 + action.width() + 1;
        if used_cols + width > usize::from(area.width) {
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
    write(buffer, area, &Line::from(spans));
}

/// Draws a border with a title and returns the area inside.
fn draw_border(buffer: &mut Buffer, area: Rect, title: &str) -> Rect {
    if area.width < 4 || area.height < 2 {
        return Rect { width: 0, height: 0, ..area };
    }
    let line = "─".repeat(usize::from(area.width));
    buffer.set_stringn(area.x, area.y, &line, usize::from(area.width), QUIET);
    let title = fitted(&format!(" {title} "), usize::from(area.width) - 3);
    buffer.set_stringn(area.x + 1, area.y, &title, usize::from(area.width) - 2, STRONG);
    Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 1 }
}

/// Draws a line at the top of an area, with an ellipsis if the line is cut.
fn write(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if area.is_empty() {
        return;
    }
    if line.width() <= usize::from(area.width) {
        buffer.set_line(area.x, area.y, line, area.width);
    } else {
        let (x, y) = buffer.set_line(area.x, area.y, line, area.width - 1);
        buffer.set_string(x, y, "…", QUIET);
    }
}

/// Draws lines from the top of an area.
fn write_all<'l>(buffer: &mut Buffer, area: Rect, lines: impl Iterator<Item = Line<'l>>) {
    for (row, line) in area.rows().zip(lines) {
        write(buffer, row, &line);
    }
}

#[cfg(test)]
mod tests;
