//! Drawing of the list: open questions, terminals and runs.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::style::{QUIET, REVERSED, STRONG, WAITS, tone_style};
use super::{draw_header, draw_keys, draw_notice, preview, write};
use crate::print::{fitted, padded};
use crate::ui::layout::ListLayout;
use crate::ui::model::{DaemonState, ListLine, Model, Row, Section, asks_for_secret, lines};

/// Maximum widths of the columns for names and states.
const MAX_NAME_COLUMNS: usize = 40;
const MAX_STATE_COLUMNS: usize = 20;

pub(super) fn draw(model: &Model, buffer: &mut Buffer) -> Option<Position> {
    let layout = ListLayout::for_size(model.cols, model.rows);
    let list = model.list();
    let waiting = list.iter().filter(|row| row.id.section == Section::Gates).count();
    let title = match waiting {
        0 => vec![Span::styled(" steplatch ", STRONG), Span::raw(" nothing waits for you ")],
        1 => vec![Span::styled(" steplatch ", STRONG), Span::styled(" 1 question waits for you ", WAITS)],
        many => {
            vec![Span::styled(" steplatch ", STRONG), Span::styled(format!(" {many} questions wait for you "), WAITS)]
        }
    };
    draw_header(model, buffer, layout.header, title);
    draw_list(model, &list, buffer, layout.list);
    let selected = list.get(model.selected_index(&list));
    if let Some(area) = layout.preview {
        preview::draw(model, selected, buffer, area);
    }
    let cursor = draw_notice(model, buffer, layout.notice);
    draw_keys(model, buffer, layout.keys, &command_keys(model, selected));
    cursor
}

fn draw_list(model: &Model, list: &[Row], buffer: &mut Buffer, area: Rect) {
    let width = usize::from(area.width);
    let selected = model.selected_index(list);
    let widest =
        |cell_width: fn(&Row) -> usize, max_width: usize| list.iter().map(cell_width).max().unwrap_or(0).min(max_width);
    let name_columns = widest(|row| row.name.width(), MAX_NAME_COLUMNS.min(width * 2 / 5));
    let state_columns = widest(|row| row.state.width(), MAX_STATE_COLUMNS.min(width / 4));
    for (row_area, line) in area.rows().zip(lines(list).into_iter().skip(model.top)) {
        match line {
            ListLine::Heading(section, count) => {
                write(
                    buffer,
                    row_area,
                    &Line::from(vec![
                        Span::styled(format!(" {} ", section.title()), STRONG),
                        Span::styled(heading_detail(model, section, count), QUIET),
                    ]),
                );
            }
            ListLine::Row(index) => {
                let row = &list[index];
                let cell = |text: &str, columns: usize| padded(&fitted(text, columns), columns);
                let style = tone_style(row.tone);
                let line = Line::from(vec![
                    Span::styled(format!("  {} ", row.mark), style),
                    Span::raw(cell(&row.name, name_columns)),
                    Span::raw("  "),
                    Span::styled(cell(&row.state, state_columns), style),
                    Span::styled(format!("  {}", row.detail), QUIET),
                ]);
                write(buffer, row_area, &line);
                if index == selected {
                    // Dim text is hard to read on the background of the selection.
                    buffer.set_style(row_area, REVERSED.remove_modifier(Modifier::DIM));
                }
            }
        }
    }
}

/// Returns the text after the title of a section: the number of rows, or advice.
fn heading_detail(model: &Model, section: Section, count: usize) -> String {
    let is_filtered = !model.filter.text().is_empty();
    match (count, section) {
        (0, _) if is_filtered => "no row matches".to_owned(),
        (0, _) if model.daemon != DaemonState::Connected => String::new(),
        (0, Section::Gates) => "nothing".to_owned(),
        (0, Section::Terminals) => "none; open one with: steplatch terminal open".to_owned(),
        (0, Section::Runs) => "none; start one with: steplatch run".to_owned(),
        (count, _) => count.to_string(),
    }
}

fn command_keys(model: &Model, selected: Option<&Row>) -> Vec<(&'static str, &'static str)> {
    if model.typing.is_some() {
        return vec![("enter", "takes it"), ("esc", "leaves it")];
    }
    let mut keys = vec![("↑↓", "select")];
    let terminal = selected.and_then(|row| model.terminal_of(&row.id));
    keys.extend(match selected.map(|row| row.id.section) {
        Some(Section::Gates) if terminal.is_some_and(asks_for_secret) => {
            let mut keys = vec![("enter", "type the password"), ("t", "take over")];
            if terminal.is_some_and(|terminal| terminal.secret_request.is_some()) {
                keys.insert(1, ("r", "refuse"));
            }
            keys
        }
        Some(Section::Gates) if terminal.is_some() => vec![("enter", "attach"), ("t", "take over")],
        Some(Section::Gates) => vec![("enter", "read and answer"), ("c", "cancel its run")],
        Some(Section::Terminals) => vec![("enter", "attach"), ("t", "take over")],
        Some(Section::Runs) => vec![("enter", "open"), ("p", "pause/resume"), ("c", "cancel"), ("r", "run again")],
        None => Vec::new(),
    });
    if model.daemon == DaemonState::Away {
        keys.push(("s", "start the daemon"));
    }
    keys.extend([("q", "leave"), ("?", "help"), ("/", "filter"), ("tab", "section"), ("g", "go to id")]);
    keys
}
