//! The cards of states: their text, and their size.

use steplatch_workflow::{Definition, State, tool};
use unicode_width::UnicodeWidthStr as _;

use super::subject::subject;
use super::{End, ends, on_exhausted, on_timeout};

/// Maximum width of a line on a card, in character cells.
const MAX_LINE_COLS: usize = 38;

/// Width of a character in pixels, in the monospaced type of lines and in the bold type of names.
const CHARACTER_WIDTH: f64 = 7.3;
const BOLD_CHARACTER_WIDTH: f64 = 8.2;

const MIN_WIDTH: f64 = 132.0;
const PADDING: f64 = 12.0;

/// Pixels from the top of a card to its first row.
pub(super) const HEAD_HEIGHT: f64 = 46.0;

/// Height of a row in pixels.
pub(super) const ROW_HEIGHT: f64 = 20.0;

/// The drawing of a state.
#[derive(Debug, Clone)]
pub(super) struct Card {
    pub(super) name: Line,
    pub(super) tool: Line,
    pub(super) kind: Kind,
    pub(super) rows: Vec<Row>,
    pub(super) width: f64,
    pub(super) height: f64,
    /// True if a run can reach the state.
    pub(super) is_reachable: bool,
}

/// The kind of a state, shown by the shape of its card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// The state runs another workflow.
    Nested,
    /// A gate decides its transition.
    Judged,
}

/// A possible continuation after a state. Rows are in the order of evaluation.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) target: RowTarget,
}

/// The continuation of a run after a row's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowTarget {
    /// To another state, by its number; `is_timeout` is true for a time-out.
    To { state: usize, is_timeout: bool },
    /// The run completes.
    Completes,
    /// The run fails.
    Fails,
}

/// A line of text, truncated if it is too long.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) displayed: String,
    /// The complete text, if `displayed` is truncated.
    pub(super) full_text: Option<String>,
}

impl Line {
    pub(super) fn new(text: &str) -> Self {
        let text: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        if text.width() <= MAX_LINE_COLS {
            return Self { displayed: text, full_text: None };
        }
        let mut displayed = String::new();
        for character in text.chars() {
            displayed.push(character);
            if displayed.width() >= MAX_LINE_COLS {
                break;
            }
        }
        displayed.push('…');
        Self { displayed, full_text: Some(text) }
    }

    /// Returns the complete text.
    pub(super) fn full(&self) -> &str {
        self.full_text.as_deref().unwrap_or(&self.displayed)
    }
}

/// Returns the cards of a machine, in the order of its states.
pub(super) fn cards(definition: &Definition) -> Vec<Card> {
    let states = definition.states();
    let number = |name: &str| states.iter().position(|state| state.name() == name);
    states.iter().map(|state| card(state, &number)).collect()
}

fn card(state: &State, number: &impl Fn(&str) -> Option<usize>) -> Card {
    let mut rows = Vec::new();
    for transition in state.transitions() {
        let condition = transition.condition();
        let is_timeout = condition.requires_timeout();
        // Every target exists: the definition was checked.
        let Some(state) = number(transition.next_state()) else { continue };
        rows.push(Row { line: Line::new(&condition.to_string()), target: RowTarget::To { state, is_timeout } });
    }
    let timeout_label = on_timeout(state);
    if let Some(state) = state.on_timeout().and_then(number) {
        rows.push(Row { line: Line::new(timeout_label), target: RowTarget::To { state, is_timeout: true } });
    }
    if let Some(target) = state.on_exhausted().and_then(number) {
        rows.push(Row {
            line: Line::new(&on_exhausted(state)),
            target: RowTarget::To { state: target, is_timeout: true },
        });
    }
    for End { when, completes } in ends(state) {
        let (end, target) = if completes { ("completes", RowTarget::Completes) } else { ("fails", RowTarget::Fails) };
        let line = if when.is_empty() { end.to_owned() } else { format!("{when}: {end}") };
        rows.push(Row { line: Line::new(&line), target });
    }
    let has_description = state.transitions().iter().any(|transition| transition.condition().description().is_some());
    let kind = match state.action().tool() {
        tool::RUN_WORKFLOW | tool::PARALLEL => Kind::Nested,
        "gate" => Kind::Judged,
        _ if has_description => Kind::Judged,
        _ => Kind::Plain,
    };
    let tool = format!("{} {}", state.action().tool(), subject(state));
    Card::new(Line::new(state.name()), Line::new(tool.trim_end()), kind, rows)
}

/// Returns the target states of a card's rows, without duplicates.
pub(super) fn targets(card: &Card) -> Vec<usize> {
    let mut targets: Vec<usize> = Vec::new();
    for row in &card.rows {
        if let RowTarget::To { state, .. } = row.target
            && !targets.contains(&state)
        {
            targets.push(state);
        }
    }
    targets
}

impl Card {
    /// Creates the card with these texts, in the size that they need.
    pub(super) fn new(name: Line, tool: Line, kind: Kind, rows: Vec<Row>) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a card has few characters and few rows")]
        let line_width =
            |line: &Line, character_width: f64| line.displayed.width() as f64 * character_width + 2.0 * PADDING;
        let row_widths = rows.iter().map(|row| line_width(&row.line, CHARACTER_WIDTH) + ROW_HEIGHT);
        let width = row_widths
            .chain([line_width(&name, BOLD_CHARACTER_WIDTH), line_width(&tool, CHARACTER_WIDTH), MIN_WIDTH])
            .fold(0.0, f64::max);
        #[allow(clippy::cast_precision_loss, reason = "a card has few characters and few rows")]
        let height = HEAD_HEIGHT + ROW_HEIGHT * rows.len() as f64 + 6.0;
        Self { name, tool, kind, rows, width: width.ceil(), height, is_reachable: true }
    }
}
