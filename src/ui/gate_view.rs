//! An opened question. The person reads it by scrolling and then answers line by line.
//!
//! Pure. There is no default answer. An answer is possible only once the end of the question has been on the screen,
//! and 0.8 seconds have passed without a key since the question appeared or changed, or the window received the focus.

use std::time::Duration;

use steplatch_protocol::GateInfo;

use super::layout::GateLayout;
use super::line_input::LineInput;
use crate::gate_prompt::{GatePrompt, form_fields};
use crate::print::{self, wrapped};
use crate::question::content_lines;

/// Minimum time between the appearance of a question and its answer.
pub(crate) const ANSWER_DELAY: Duration = Duration::from_millis(800);

/// Progress of an answer.
#[derive(Debug, Clone)]
pub(crate) enum AnswerStep {
    /// The person reads the question.
    Reading,
    /// The person types a line of the answer.
    Typing(LineInput),
    /// The answer was sent.
    Sent,
    /// The question was answered or withdrawn elsewhere.
    Closed,
}

/// A question on the screen.
#[derive(Debug, Clone)]
pub(crate) struct GateView {
    pub(crate) prompt: GatePrompt,
    pub(crate) workflow: String,
    pub(crate) step: AnswerStep,
    pub(crate) scroll: usize,
    /// Earliest time of an answer, since the start of the full screen.
    pub(crate) answerable_from: Duration,
    /// True if the last line was on the screen.
    pub(crate) was_read: bool,
    /// True if the screen has no room for the question and its answer.
    pub(crate) is_cramped: bool,
    /// Error of the last line, or a notice of a change.
    pub(crate) remark: Option<String>,
}

impl GateView {
    pub(crate) fn new(gate: GateInfo, workflow: String, now: Duration) -> Self {
        Self {
            prompt: GatePrompt::scrolled(gate),
            workflow,
            step: AnswerStep::Reading,
            scroll: 0,
            answerable_from: now + ANSWER_DELAY,
            was_read: false,
            is_cramped: false,
            remark: None,
        }
    }

    pub(crate) fn gate(&self) -> &GateInfo {
        self.prompt.gate()
    }

    /// Shows a changed question from its beginning.
    pub(crate) fn replace(&mut self, gate: GateInfo, now: Duration) {
        let workflow = std::mem::take(&mut self.workflow);
        *self = Self::new(gate, workflow, now);
        self.remark = Some("the question has changed; this is its current form".to_owned());
    }

    /// Accepts no answer for [`ANSWER_DELAY`].
    pub(crate) fn pause_answers(&mut self, now: Duration) {
        self.answerable_from = now + ANSWER_DELAY;
    }

    /// Extends the pause after a key, because the key may belong to the earlier content.
    pub(crate) fn extend_pause(&mut self, now: Duration) {
        if now < self.answerable_from {
            self.pause_answers(now);
        }
    }

    /// Returns the layout of a screen that shows the question.
    pub(crate) fn layout(&self, cols: u16, rows: u16) -> GateLayout {
        let remark = remark_lines(self, usize::from(cols.saturating_sub(4))).len().max(1);
        GateLayout::for_size(cols, rows, u16::try_from(remark).unwrap_or(u16::MAX).saturating_add(3))
    }

    /// Scrolls to the field for the next line, in an area of `height` lines.
    pub(crate) fn show_field(&mut self, width: usize, height: usize) {
        let Some(field) = self.prompt.field_index() else { return };
        let lines = question_lines(self.gate(), width);
        let mut fields = lines.iter().enumerate().filter(|(_, line)| matches!(line, QuestionLine::Field(_)));
        if let Some((line, _)) = fields.nth(field) {
            self.scroll = line.min(lines.len().saturating_sub(height));
        }
    }

    /// Scrolls by `lines`, in an area of `height` lines.
    pub(crate) fn scroll_by(&mut self, lines: isize, width: usize, height: usize) {
        let max_scroll = question_lines(self.gate(), width).len().saturating_sub(height);
        self.scroll = self.scroll.saturating_add_signed(lines).min(max_scroll);
        self.was_read |= self.scroll == max_scroll;
    }

    /// Returns the reason that the question accepts no answer now, if there is one.
    pub(crate) fn refusal(&self, now: Duration) -> Option<&'static str> {
        match self.step {
            AnswerStep::Closed => Some("the question is closed"),
            AnswerStep::Sent => Some("the answer is on its way"),
            _ if self.is_cramped => Some("this terminal is too small; make it larger"),
            _ if self.gate().shortened => Some("the question was shortened; answer it with: steplatch gates answer"),
            _ if !self.was_read => Some("scroll to its end first"),
            _ if now < self.answerable_from => Some("it has just appeared"),
            _ => None,
        }
    }
}

/// A line of a question, with its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuestionLine {
    /// A line of the question itself.
    Prompt(String),
    /// A line of the content to judge.
    Content(String),
    /// An additional remark for the person.
    Remark(String),
    /// A line of a choice. The first line begins with the number.
    Choice(String),
    /// The first line of a field of the form: the name and the constraint.
    Field(String),
    /// The description of a field.
    Description(String),
    Blank,
}

/// Formats a question with its content, choices and fields as lines of at most `width` columns.
pub(crate) fn question_lines(gate: &GateInfo, width: usize) -> Vec<QuestionLine> {
    let width = width.max(8);
    let mut lines: Vec<QuestionLine> = wrapped(&gate.prompt, width).into_iter().map(QuestionLine::Prompt).collect();
    let content = content_lines(gate);
    if !content.is_empty() {
        lines.push(QuestionLine::Blank);
    }
    for line in content {
        let indent: String = line.chars().take_while(|character| *character == ' ').take(width / 2).collect();
        let rows = wrapped(line.trim_start(), width - indent.len() - 2);
        lines.extend(rows.into_iter().map(|row| QuestionLine::Content(format!("{indent}{row}"))));
    }
    let remarks = gate.remarks();
    if !remarks.is_empty() {
        lines.push(QuestionLine::Blank);
    }
    lines.extend(remarks.iter().flat_map(|remark| wrapped(remark, width)).map(QuestionLine::Remark));
    if !gate.choices.is_empty() {
        lines.push(QuestionLine::Blank);
    }
    let digits = gate.choices.len().to_string().len();
    for (index, choice) in gate.choices.iter().enumerate() {
        let number = (index + 1).to_string();
        for (row, line) in wrapped(choice, width.saturating_sub(digits + 2).max(4)).into_iter().enumerate() {
            let number = if row == 0 { number.as_str() } else { "" };
            lines.push(QuestionLine::Choice(format!("{number:>digits$}  {line}")));
        }
    }
    for (prompt, lead) in form_fields(gate) {
        lines.push(QuestionLine::Blank);
        for (row, line) in wrapped(&prompt, width).into_iter().enumerate() {
            lines.push(if row == 0 { QuestionLine::Field(line) } else { QuestionLine::Description(line) });
        }
        let rows = lead.iter().flat_map(|line| wrapped(line, width - 2));
        lines.extend(rows.map(|row| QuestionLine::Description(format!("  {row}"))));
    }
    lines
}

/// Returns the remark of an opened question, wrapped to `width` columns.
pub(crate) fn remark_lines(view: &GateView, width: usize) -> Vec<String> {
    view.remark.as_deref().map(|remark| wrapped(remark, width.max(8))).unwrap_or_default()
}

/// Describes the age of a question, the permitted answerers and the deadline.
pub(crate) fn describe_waiting(gate: &GateInfo, now: &str) -> String {
    let since = print::ago_at(&gate.created_at, Some(now));
    let answerer = match gate.answered_by.as_str() {
        "human" => "a person answers",
        "agent" => "an agent answers, or a person",
        _ => "anyone answers",
    };
    let until =
        gate.expires_at.as_ref().map(|until| format!(", until {}", print::local_time(until))).unwrap_or_default();
    format!("asked {since}, {answerer}{until}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn question_accepts_no_answer_before_it_was_read() {
        let context = json!({"plan": "a step\n".repeat(60)}).as_object().unwrap().clone();
        let gate =
            GateInfo { prompt: "Deploy?".to_owned(), choices: vec!["yes".to_owned()], context, ..GateInfo::default() };
        let now = Duration::from_secs(5);
        let mut view = GateView::new(gate.clone(), "release".to_owned(), now);
        view.scroll_by(0, 60, 20);
        assert_eq!(view.refusal(now), Some("scroll to its end first"));
        view.scroll_by(1000, 60, 20);
        assert_eq!(view.refusal(now), Some("it has just appeared"));
        assert_eq!(view.refusal(now + ANSWER_DELAY), None);
        view.pause_answers(now + ANSWER_DELAY);
        assert_eq!(
            view.refusal(now + ANSWER_DELAY),
            Some("it has just appeared"),
            "answers pause after a change of focus"
        );
        view.replace(GateInfo { prompt: "Deploy now?".to_owned(), ..gate }, now + ANSWER_DELAY * 2);
        assert_eq!((view.scroll, view.was_read), (0, false), "a changed question must be read again");
    }

    #[test]
    fn question_is_shown_fully_without_active_content() {
        let context = json!({"command": "rm -rf /\x1b[2J"}).as_object().unwrap().clone();
        let gate =
            GateInfo { prompt: "Do it?".to_owned(), choices: vec!["yes".to_owned()], context, ..GateInfo::default() };
        assert_eq!(
            question_lines(&gate, 60),
            [
                QuestionLine::Prompt("Do it?".to_owned()),
                QuestionLine::Blank,
                QuestionLine::Content("command: rm -rf /␛[2J".to_owned()),
                QuestionLine::Blank,
                QuestionLine::Choice("1  yes".to_owned()),
            ]
        );
    }
}
