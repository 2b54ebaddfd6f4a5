//! Drawing of an opened run: the steps on the left, input and output of the selected step on the right, and the
//! question at the bottom.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::gate::styled_line;
use super::style::{QUIET, REVERSED, STRONG, step_style};
use super::{draw_border, draw_header, draw_keys, draw_notice, write, write_all};
use crate::print::{self, fitted, padded, visible, wrapped};
use crate::run_changes::has_ended;
use crate::ui::gate_view::question_lines;
use crate::ui::layout::RunLayout;
use crate::ui::model::{DaemonState, Model, RunView};
use crate::ui::steps::{Step, value_lines};

pub(super) fn draw(model: &Model, view: &RunView, buffer: &mut Buffer) {
    let run = model.run(&view.run_id);
    let gate = run.and_then(|run| run.pending_gates.first());
    let layout = RunLayout::for_size(model.cols, model.rows, gate.is_some());
    let name = run.map(|run| visible(&run.workflow_id)).unwrap_or_default();
    let state = run.map_or("", |run| if run.paused.is_some() { "paused" } else { run.state.as_str() });
    let duration = run.and_then(|run| {
        print::elapsed_between(&run.started_at, Some(run.completed_at.as_deref().unwrap_or(&model.now)))
            .map(print::duration)
    });
    let title = vec![
        Span::styled(format!(" {name} "), STRONG),
        Span::raw(format!("{} {state} {} ", view.run_id, duration.unwrap_or_default())),
    ];
    draw_header(model, buffer, layout.header, title);
    let steps = &view.steps.steps;
    let selected = view.step.unwrap_or_else(|| view.steps.most_informative()).min(steps.len().saturating_sub(1));
    let height = usize::from(layout.steps.height).max(1);
    let top = (selected + 1).saturating_sub(height);
    for (row, (index, step)) in layout.steps.rows().zip(steps.iter().enumerate().skip(top)) {
        draw_step(model, step, buffer, row, index == selected);
    }
    if steps.is_empty() {
        let text = if view.steps.has_ended { " it has no steps" } else { " no step yet" };
        write(buffer, layout.steps, &Line::styled(text, QUIET));
    }
    draw_values(model, view, steps.get(selected), buffer, layout.step);
    if let (Some(area), Some(gate)) = (layout.gate, gate) {
        let count = run.map_or(1, |run| run.pending_gates.len());
        let remark = if count > 1 { format!(", the first of {count}") } else { String::new() };
        let inside = draw_border(buffer, area, &format!("waits for an answer{remark}; a reads and answers it"));
        write_all(buffer, inside, question_lines(gate, usize::from(inside.width)).iter().map(styled_line));
    }
    draw_notice(model, buffer, layout.notice);
    let mut keys = vec![("↑↓", "step"), ("space", "scroll")];
    if gate.is_some() {
        keys.push(("a", "answer"));
    }
    if steps.get(selected).is_some_and(|step| step.child.is_some()) {
        keys.push(("enter", "open its run"));
    }
    if run.is_some_and(|run| !has_ended(run)) {
        keys.extend([("p", "pause/resume"), ("c", "cancel"), ("b", "background")]);
    }
    if run.is_some_and(has_ended) {
        keys.push(("r", "run again from here"));
    }
    if model.daemon == DaemonState::Away {
        keys.push(("s", "start the daemon"));
    }
    keys.extend([("t", "its terminal"), ("esc", "back"), ("?", "help")]);
    draw_keys(model, buffer, layout.keys, &keys);
}

fn draw_step(model: &Model, step: &Step, buffer: &mut Buffer, row: Rect, is_selected: bool) {
    let (mark, style) = step_style(step.state);
    let time = match step.is_taken_over {
        true => "taken over".to_owned(),
        false => step_duration(model, step).map(print::duration).unwrap_or_default(),
    };
    let room = usize::from(row.width).saturating_sub(4 + time.width() + 1);
    let name = fitted(&format!("{}  {}", step.name, step.kind), room);
    let line = Line::from(vec![
        Span::styled(format!(" {mark} "), style),
        Span::raw(padded(&name, room)),
        Span::styled(format!(" {time}"), QUIET),
    ]);
    write(buffer, row, &line);
    if is_selected {
        buffer.set_style(Rect { width: row.width.saturating_sub(1), ..row }, REVERSED);
    }
}

fn step_duration(model: &Model, step: &Step) -> Option<Duration> {
    print::elapsed_between(&step.began, Some(step.ended.as_deref().unwrap_or(&model.now)))
}

/// Draws the input and output of a step, and the log and result of the run where they belong.
fn draw_values(model: &Model, view: &RunView, step: Option<&Step>, buffer: &mut Buffer, area: Rect) {
    let title = step.map_or_else(|| "the run".to_owned(), |step| format!("{} {}", step.name, step.kind));
    let inside = draw_border(buffer, area, &title);
    if inside.is_empty() {
        return;
    }
    let width = usize::from(inside.width);
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut add_section = |name: &'static str, texts: Vec<String>| {
        if !texts.is_empty() {
            lines.push(Line::styled(name, QUIET));
            lines.extend(texts.iter().flat_map(|text| wrapped_row(text, width)).map(Line::raw));
        }
    };
    if let Some(step) = step {
        add_section("input", value_lines(&step.input));
        add_section("log", step.log.clone());
        add_section("output", value_lines(&step.output));
    }
    let run = model.run(&view.run_id).filter(|_| step.is_none() || view.steps.has_ended);
    if let Some(run) = run {
        if step.is_none() {
            add_section("input of the run", value_lines(&run.input));
        }
        add_section("result of the run", value_lines(&run.result));
        let error = run.traceback.as_deref().or(run.error.as_deref()).unwrap_or_default();
        add_section("error of the run", value_lines(&error.into()));
    }
    let max_scroll = lines.len().saturating_sub(usize::from(inside.height));
    write_all(buffer, inside, lines.into_iter().skip(view.scroll.min(max_scroll)));
}

/// Wraps a line. Every row begins with the indent of the line.
fn wrapped_row(text: &str, width: usize) -> Vec<String> {
    let indent: String = text.chars().take_while(|character| *character == ' ').take(width / 2).collect();
    let room = width.saturating_sub(indent.len()).max(1);
    wrapped(text.trim_start(), room).into_iter().map(|row| format!("{indent}{row}")).collect()
}
