//! Layout of the screen: the areas of its parts for a size. Pure.

use ratatui::layout::Rect;

/// Minimum width for a preview next to the list.
const MIN_WIDE_COLS: u16 = 120;

/// Minimum height for a preview below the list.
const MIN_PREVIEW_ROWS: u16 = 20;

/// Minimum width for a preview below the list.
const MIN_PREVIEW_COLS: u16 = 50;

/// Areas of the screen with the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListLayout {
    pub(crate) header: Rect,
    pub(crate) list: Rect,
    /// Preview of the selected row, including its border.
    pub(crate) preview: Option<Rect>,
    /// Remarks and input.
    pub(crate) notice: Rect,
    pub(crate) keys: Rect,
}

impl ListLayout {
    pub(crate) fn for_size(cols: u16, rows: u16) -> Self {
        let (header, body, notice, keys) = split_rows(cols, rows);
        let (list, preview) = if cols >= MIN_WIDE_COLS && body.height >= 6 {
            let left_width = (cols * 9 / 20).min(90);
            // A blank column separates the list from the preview.
            let list = Rect { width: left_width - 1, ..body };
            (list, Some(Rect { x: left_width, width: cols - left_width, ..body }))
        } else if body.height + 3 >= MIN_PREVIEW_ROWS && cols >= MIN_PREVIEW_COLS {
            let upper_height = body.height * 9 / 20;
            let list = Rect { height: upper_height, ..body };
            (list, Some(Rect { y: body.y + upper_height, height: body.height - upper_height, ..body }))
        } else {
            (body, None)
        };
        Self { header, list, preview, notice, keys }
    }
}

/// Areas of the screen with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunLayout {
    pub(crate) header: Rect,
    pub(crate) steps: Rect,
    /// Input and output of the selected step, including the border.
    pub(crate) step: Rect,
    /// The question that the run waits for, including the border.
    pub(crate) gate: Option<Rect>,
    pub(crate) notice: Rect,
    pub(crate) keys: Rect,
}

impl RunLayout {
    pub(crate) fn for_size(cols: u16, rows: u16, has_gate: bool) -> Self {
        let (header, body, notice, keys) = split_rows(cols, rows);
        let gate_height = if has_gate && body.height >= 8 { 4 } else { 0 };
        let upper = Rect { height: body.height - gate_height, ..body };
        let gate = (gate_height > 0).then_some(Rect { y: body.y + upper.height, height: gate_height, ..body });
        let (steps, step) = if cols >= 60 {
            let left_width = (cols * 2 / 5).clamp(24, 60);
            (Rect { width: left_width, ..upper }, Rect { x: left_width, width: cols - left_width, ..upper })
        } else {
            let steps_height = upper.height / 2;
            (
                Rect { height: steps_height, ..upper },
                Rect { y: upper.y + steps_height, height: upper.height - steps_height, ..upper },
            )
        };
        Self { header, steps, step, gate, notice, keys }
    }
}

/// Areas of the screen with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GateLayout {
    pub(crate) header: Rect,
    /// The question, without a border.
    pub(crate) question: Rect,
    /// The prompt, the input, and remarks.
    pub(crate) answer: Rect,
    pub(crate) keys: Rect,
    /// True if the screen is too small to read and answer a question.
    pub(crate) is_cramped: bool,
}

/// Minimum width that shows a question. Narrower screens have no room for a word.
const MIN_GATE_COLS: u16 = 16;

/// Minimum number of rows for an answer: a rule, the prompt, the input, and a remark.
const MIN_ANSWER_ROWS: u16 = 4;

/// Minimum number of rows for a question.
const MIN_QUESTION_ROWS: u16 = 3;

impl GateLayout {
    /// Computes the layout, with at most `answer_rows` rows for the answer.
    pub(crate) fn for_size(cols: u16, rows: u16, answer_rows: u16) -> Self {
        let (header, body, notice, keys) = split_rows(cols, rows);
        let body = Rect { height: body.height + notice.height, ..body };
        let height = answer_rows.min((body.height / 2).max(MIN_ANSWER_ROWS)).min(body.height);
        let question = Rect { x: 2.min(cols), width: cols.saturating_sub(4), height: body.height - height, ..body };
        let answer = Rect { y: body.y + question.height, height, ..question };
        let is_cramped = cols < MIN_GATE_COLS || answer.height < MIN_ANSWER_ROWS || question.height < MIN_QUESTION_ROWS;
        Self { header, question, answer, keys, is_cramped }
    }
}

/// Splits the screen into the header row, the rows of the body, the row of remarks, and the row of keys.
fn split_rows(cols: u16, rows: u16) -> (Rect, Rect, Rect, Rect) {
    let row = |y: u16| Rect { x: 0, y, width: cols, height: u16::from(y < rows) };
    let body = Rect { x: 0, y: 1.min(rows), width: cols, height: rows.saturating_sub(3) };
    (row(0), body, row(rows.saturating_sub(2).max(1)), row(rows.saturating_sub(1).max(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_visible_at_any_size() {
        for cols in [0, 1, 2, 10, 40, 60, 80, 120, 160, 400] {
            for rows in [0, 1, 2, 3, 4, 10, 24, 50, 200] {
                let screen = Rect { x: 0, y: 0, width: cols, height: rows };
                let list = ListLayout::for_size(cols, rows);
                let run = RunLayout::for_size(cols, rows, true);
                let gate = GateLayout::for_size(cols, rows, 5);
                let parts =
                    [list.header, list.list, list.notice, list.keys, run.steps, run.step, gate.question, gate.answer];
                for part in parts.into_iter().chain(list.preview).chain(run.gate) {
                    let inside = part.is_empty() || screen.intersection(part) == part;
                    assert!(inside, "{part:?} of {cols}x{rows}");
                }
            }
        }
    }
}
