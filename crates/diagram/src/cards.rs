//! The cards of states: their text, and their size.

use steplatch_workflow::{Definition, State, tool};
use unicode_width::UnicodeWidthStr as _;

use super::subject::subject;
use super::{End, ends, on_exhausted, on_timeout};

/// Maximum length of a line on a card, in characters.
const MAX_LINE_CHARS: usize = 38;

/// Pixels of a character of the small monospaced type, and of the bold one of names.
const CHARACTER: f64 = 7.3;
const BOLD_CHARACTER: f64 = 8.2;

const MIN_WIDTH: f64 = 132.0;
const PADDING: f64 = 12.0;

/// Pixels from the top of a card to its first row.
pub(super) const HEAD: f64 = 46.0;

/// Pixels of a row.
pub(super) const ROW: f64 = 20.0;

/// The drawing of a state.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) name: Line,
    pub(super) tool: Line,
    pub(super) kind: Kind,
    pub(super) rows: Vec<Row>,
    pub(super) width: f64,
    pub(super) height: f64,
    /// True if a run can reach it.
    pub(super) reached: bool,
}

/// The kind of a state that its shape shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// The state runs another workflow.
    Nested,
    /// A gate decides its transition.
    Judged,
}

/// A possible end of a state, in the order of evaluation.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To another state, by its number; on a time-out or not.
    To { state: usize, late: bool },
    /// The run completes.
    Completes,
    /// The run fails.
    Fails,
}

/// A text, truncated if it is too long, with the complete text.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) shown: String,
    /// The complete text, if `shown` is truncated.
    pub(super) whole: Option<String>,
}

impl Line {
    fn new(text: &str) -> Self {
        let text: String = text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
        if text.width() <= MAX_LINE_CHARS {
            return Self { shown: text, whole: None };
        }
        let mut shown = String::new();
        for character in text.chars() {
            shown.push(character);
            if shown.width() >= MAX_LINE_CHARS {
                break;
            }
        }
        shown.push('…');
        Self { shown, whole: Some(text) }
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
        let late = condition.requires_timeout();
        // Every target exists: the definition was checked.
        let Some(state) = number(transition.next_state()) else { continue };
        rows.push(Row { line: Line::new(&condition.to_string()), way: Way::To { state, late } });
    }
    let late = on_timeout(state);
    if let Some(state) = state.on_timeout().and_then(number) {
        rows.push(Row { line: Line::new(late), way: Way::To { state, late: true } });
    }
    if let Some(target) = state.on_exhausted().and_then(number) {
        rows.push(Row { line: Line::new(&on_exhausted(state)), way: Way::To { state: target, late: true } });
    }
    for End { when, completes } in ends(state) {
        let (end, way) = if completes { ("completes", Way::Completes) } else { ("fails", Way::Fails) };
        let line = if when.is_empty() { end.to_owned() } else { format!("{when}: {end}") };
        rows.push(Row { line: Line::new(&line), way });
    }
    let judged = state.transitions().iter().any(|transition| transition.condition().description().is_some());
    let kind = match state.action().tool() {
        tool::RUN_WORKFLOW | tool::PARALLEL => Kind::Nested,
        "gate" => Kind::Judged,
        _ if judged => Kind::Judged,
        _ => Kind::Plain,
    };
    let tool = format!("{} {}", state.action().tool(), subject(state));
    let (name, tool) = (Line::new(state.name()), Line::new(tool.trim_end()));
    #[allow(clippy::cast_precision_loss, reason = "a card has few characters and few rows")]
    let line_width = |line: &Line, character_width: f64| line.shown.width() as f64 * character_width + 2.0 * PADDING;
    let lines = rows.iter().map(|row| line_width(&row.line, CHARACTER) + ROW);
    let width =
        lines.chain([line_width(&name, BOLD_CHARACTER), line_width(&tool, CHARACTER), MIN_WIDTH]).fold(0.0, f64::max);
    #[allow(clippy::cast_precision_loss, reason = "a card has few characters and few rows")]
    let height = HEAD + ROW * rows.len() as f64 + 6.0;
    Card { name, tool, kind, rows, width: width.ceil(), height, reached: true }
}
