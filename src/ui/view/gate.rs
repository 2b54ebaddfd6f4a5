//! Drawing of an opened question and its answer.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::style::{ACCENT, BAD, QUIET, STRONG, WAITS};
use super::{draw_header, draw_input, draw_keys, write, write_all};
use crate::print::{fitted, visible, wrapped};
use crate::question::choice_prefix;
use crate::ui::gate_view::{AnswerStep, GateView, QuestionLine, describe_waiting, question_lines, remark_lines};
use crate::ui::model::Model;

/// Text shown if the screen is too small for a question.
const CRAMPED_TEXT: &str =
    "This terminal is too small for a question and its answer. Make it larger; nothing is answered here.";

/// Styles a line of a question.
pub(super) fn styled_line(line: &QuestionLine) -> Line<'static> {
    match line {
        QuestionLine::Prompt(text) => Line::styled(text.clone(), STRONG),
        QuestionLine::Content(text) => Line::from(vec![Span::styled("│ ", QUIET), Span::raw(text.clone())]),
        QuestionLine::Remark(text) => Line::styled(text.clone(), WAITS),
        QuestionLine::Choice(text) | QuestionLine::Field(text) => Line::styled(text.clone(), ACCENT),
        QuestionLine::Description(text) => Line::raw(text.clone()),
        QuestionLine::Blank => Line::raw(""),
    }
}

pub(super) fn draw(model: &Model, view: &GateView, buffer: &mut Buffer) -> Option<Position> {
    let layout = view.layout(model.cols, model.rows);
    let gate = view.gate();
    let title = vec![
        Span::styled(format!(" {} asks ", visible(&view.workflow)), STRONG),
        Span::raw(format!(" {} ", describe_waiting(gate, &model.now))),
    ];
    draw_header(model, buffer, layout.header, title);
    if layout.is_cramped {
        let area = layout.question.union(layout.answer);
        let lines = wrapped(CRAMPED_TEXT, usize::from(area.width).max(1));
        write_all(buffer, area, lines.into_iter().map(|line| Line::styled(line, WAITS)));
        return None;
    }
    let width = usize::from(layout.question.width);
    let lines = question_lines(gate, width);
    let height = usize::from(layout.question.height);
    let lines_below = lines.len().saturating_sub(view.scroll + height);
    write_all(buffer, layout.question, lines.iter().skip(view.scroll).map(styled_line));
    let cursor = draw_answer(model, view, lines_below, buffer, layout.answer);
    let keys: &[(&str, &str)] = match view.step {
        AnswerStep::Typing(_) => &[("enter", "gives the answer"), ("esc", "leaves it open"), ("↑↓", "scroll")],
        AnswerStep::Reading => {
            &[("a", "answer"), ("↑↓ space", "scroll"), ("esc", "back, leaves it open"), ("?", "help")]
        }
        AnswerStep::Sent | AnswerStep::Closed => &[("esc", "back"), ("↑↓ space", "scroll"), ("?", "help")],
    };
    draw_keys(model, buffer, layout.keys, keys);
    cursor
}

fn draw_answer(
    model: &Model,
    view: &GateView,
    lines_below: usize,
    buffer: &mut Buffer,
    area: Rect,
) -> Option<Position> {
    let mut rows = area.rows();
    let width = usize::from(area.width);
    let rule = if lines_below > 0 { format!("── {lines_below} more lines below ") } else { "──".to_owned() };
    let rule = format!("{rule}{}", "─".repeat(width.saturating_sub(rule.width())));
    write(buffer, rows.next()?, &Line::styled(rule, QUIET));
    let mut cursor = None;
    match &view.step {
        AnswerStep::Typing(line) => {
            write(buffer, rows.next()?, &Line::styled(fitted(&view.prompt.prompt(), width), STRONG));
            let (visible_prefix, hidden_chars) = match view.prompt.is_secret() {
                true => ("", line.text().chars().count()),
                false => choice_prefix(&view.gate().choices, line.text()),
            };
            let shown_text = format!("{}{}", visible(visible_prefix), "•".repeat(hidden_chars));
            cursor = Some(draw_input(buffer, rows.next()?, "› ", &shown_text));
        }
        AnswerStep::Reading => {
            let (text, style) = match view.refusal(model.elapsed) {
                Some("it has just appeared") => ("it takes an answer in a moment".to_owned(), QUIET),
                Some(reason) => (format!("no answer yet: {reason}"), QUIET),
                None => ("a begins an answer".to_owned(), ACCENT),
            };
            write(buffer, rows.next()?, &Line::styled(text, style));
            let proof = if gate_is_for_people(view) && model.needs_passphrase {
                "the approver's passphrase is asked for after the answer"
            } else {
                ""
            };
            write(buffer, rows.next()?, &Line::styled(proof, QUIET));
        }
        AnswerStep::Sent => write(buffer, rows.next()?, &Line::styled("the answer is on its way", ACCENT)),
        AnswerStep::Closed => write(buffer, rows.next()?, &Line::styled("closed", QUIET)),
    }
    let style: Style = if matches!(view.step, AnswerStep::Closed) { WAITS } else { BAD };
    for (row, remark) in rows.zip(remark_lines(view, width)) {
        write(buffer, row, &Line::styled(remark, style));
    }
    cursor
}

fn gate_is_for_people(view: &GateView) -> bool {
    view.gate().answered_by == "human"
}
