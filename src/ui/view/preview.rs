//! Drawing of the preview of the selected row: the question, the screen of the terminal, or the run.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::gate::styled_line;
use super::style::{QUIET, WAITS};
use super::{draw_border, write, write_all};
use crate::print;
use crate::ui::gate_view::{describe_waiting, question_lines};
use crate::ui::model::{DaemonState, Model, Row, Section};
use crate::ui::picture::{Picture, run_style};
use crate::ui::steps::value_lines;

pub(super) fn draw(model: &Model, selected: Option<&Row>, buffer: &mut Buffer, area: Rect) {
    let Some(row) = selected else { return };
    match row.id.section {
        Section::Gates if model.terminal_of(&row.id).is_some() => draw_terminal(model, row, buffer, area),
        Section::Gates => match model.gate(&row.id.id) {
            Some((run, gate)) => {
                let title =
                    format!("{} asks; {}", print::visible(&run.workflow_id), describe_waiting(gate, &model.now));
                let inside = draw_border(buffer, area, &title);
                let lines = question_lines(gate, usize::from(inside.width));
                write_all(buffer, inside, lines.iter().map(styled_line));
            }
            None => {
                let inside = draw_border(buffer, area, &row.name);
                write(buffer, inside, &Line::raw(row.detail.clone()));
            }
        },
        Section::Terminals => draw_terminal(model, row, buffer, area),
        Section::Runs => {
            let inside = draw_border(buffer, area, &format!("{} {}", row.name, row.id.id));
            let Some(run) = model.run(&row.id.id) else { return };
            let mut lines = vec![Line::styled(row.state.clone(), super::style::tone_style(row.tone))];
            let mut add_field = |name: &'static str, value: &serde_json::Value| {
                for (index, line) in value_lines(value).into_iter().enumerate() {
                    let name = if index == 0 { name } else { "" };
                    lines.push(Line::from(vec![Span::styled(format!("{name:<8}"), QUIET), Span::raw(line)]));
                }
            };
            add_field("input", &run.input);
            add_field("params", &serde_json::Value::Object(run.params.clone()));
            add_field("result", &run.result);
            add_field("error", &run.traceback.as_deref().or(run.error.as_deref()).unwrap_or_default().into());
            for gate in &run.pending_gates {
                lines.push(Line::raw(""));
                lines.extend(question_lines(gate, usize::from(inside.width)).iter().map(styled_line));
            }
            write_all(buffer, inside, lines.into_iter());
        }
    }
}

/// Draws the request for a password, if there is one, and the screen of a terminal.
fn draw_terminal(model: &Model, row: &Row, buffer: &mut Buffer, area: Rect) {
    let session = model.terminal(&row.id.id);
    let size = session.map(|session| format!(" {}x{}", session.cols, session.rows)).unwrap_or_default();
    let title = session.and_then(|session| session.title.as_deref()).map(print::visible);
    let title = title.filter(|title| !title.is_empty()).map(|title| format!(", {title}")).unwrap_or_default();
    let mut inside = draw_border(buffer, area, &format!("{}: {}{size}{title}", row.name, row.state));
    if let Some(request) = session.and_then(|session| session.secret_request.as_ref()) {
        let who = request.requested_by.as_deref().unwrap_or("an agent");
        let reason = request.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = print::visible(&format!("{who} waits for the password{reason}"));
        write(buffer, inside, &Line::styled(text, WAITS));
        inside = Rect { y: inside.y + inside.height.min(1), height: inside.height.saturating_sub(1), ..inside };
    }
    match model.picture.as_ref().filter(|picture| picture.terminal == row.id.id) {
        Some(picture) => draw_picture(picture, buffer, inside),
        None if model.daemon == DaemonState::Away => {
            write(buffer, inside, &Line::styled("its screen is shown once the daemon is back", QUIET));
        }
        None => {}
    }
}

/// Draws the screen of a terminal: the first columns, and the rows around the cursor.
fn draw_picture(picture: &Picture, buffer: &mut Buffer, area: Rect) {
    let first = picture.first_row(area.height);
    for (cell_area, row) in area.rows().zip(picture.rows.iter().skip(usize::from(first))) {
        for steplatch_protocol::ScreenRun(col, cols, text, style) in &row.runs {
            draw_cells(buffer, cell_area, *col, *cols, text, run_style(style));
        }
    }
    if let Some(cursor) = &picture.state.cursor
        && cursor.row >= first
        && cursor.row - first < area.height
        && cursor.col < area.width
    {
        let cell_area = Rect { x: area.x + cursor.col, y: area.y + cursor.row - first, width: 1, height: 1 };
        buffer.set_style(cell_area, Style::new().add_modifier(Modifier::REVERSED));
    }
}

/// Draws cells with the same style. All characters occupy one column, all occupy two, or the text is one cell.
fn draw_cells(buffer: &mut Buffer, row: Rect, col: u16, cols: u16, text: &str, style: Style) {
    let count = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    let cells: Vec<(u16, String)> = match () {
        () if count == cols => text.chars().map(|character| (1, character.to_string())).collect(),
        () if count.checked_mul(2) == Some(cols) => text.chars().map(|character| (2, character.to_string())).collect(),
        () => vec![(cols, text.to_owned())],
    };
    let mut x = col;
    for (width, symbol) in cells {
        if x + width > row.width {
            return;
        }
        for offset in x..x + width {
            let cell = &mut buffer[(row.x + offset, row.y)];
            cell.reset();
            cell.set_style(style);
        }
        // Remove control characters, because they would have an effect on this terminal.
        let symbol: String = symbol.chars().filter(|character| !print::is_harmful(*character)).collect();
        buffer[(row.x + x, row.y)].set_symbol(if symbol.is_empty() { " " } else { &symbol });
        x += width;
    }
}
