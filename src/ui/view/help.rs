//! Drawing of the help.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::style::{QUIET, STRONG};
use super::{draw_border, write_all};
use crate::attach::DetachKey;
use crate::ui::model::Model;

/// Keys and their actions. A row without a key is a heading.
const ROWS: [(&str, &str); 22] = [
    ("", "Everywhere"),
    ("↑ ↓, space", "select, scroll"),
    ("enter", "opens: reads a question, attaches to a terminal, shows a run"),
    ("esc", "back"),
    ("a", "answer the question of a run or gate"),
    ("p, enter", "pause a run, or resume it; c, y, enter: cancel it"),
    ("click, wheel", "selects, and opens the selected; scrolls; ctrl-y copies the id"),
    ("ctrl-z, ctrl-l", "suspend, draw again"),
    ("", "List"),
    ("tab", "the next section"),
    ("/", "filter by words"),
    ("g", "go to a run or terminal by the beginning of its id, or its name"),
    ("t, enter", "take a terminal over: attach, and nothing else can type"),
    ("q", "leave; terminals and runs continue"),
    ("", "Run"),
    ("enter", "the run that a step started; t, enter: its terminal"),
    ("r, enter", "run an ended run again, from the selected step on"),
    ("b", "leave it in the background; g comes back"),
    ("end", "follow the last step again"),
    ("", "Question"),
    ("a, text, enter", "answers it, once its end was on the screen"),
    ("esc", "leaves it open"),
];

pub(super) fn draw(model: &Model, buffer: &mut Buffer) {
    let screen = Rect { x: 0, y: 0, width: model.cols, height: model.rows };
    for position in screen.positions() {
        buffer[position].reset();
    }
    let inside = draw_border(buffer, screen, "Help; any key goes back");
    let rows = ROWS.iter().map(|(key, action)| match *key {
        "" => Line::styled(*action, STRONG),
        key => Line::from(vec![Span::styled(format!("  {key:<16}"), STRONG), Span::raw(*action)]),
    });
    let detach_line =
        Line::styled(format!("  An attached terminal is left with {}.", DetachKey::default().name()), QUIET);
    write_all(buffer, inside, rows.chain([detach_line]));
}
