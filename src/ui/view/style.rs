//! The styles of the full screen: the colours of the terminal's own palette, and what holds without colours.

use ratatui::style::{Color, Modifier, Style};

use crate::ui::model::Tone;
use crate::ui::steps::StepState;

pub(super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(super) const GOOD: Style = Style::new().fg(Color::Green);
pub(super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
pub(super) const WAITS: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
pub(super) const ACCENT: Style = Style::new().fg(Color::Cyan);

/// Returns the style of a state's meaning.
pub(super) fn of_tone(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Waits => WAITS,
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Quiet => QUIET,
    }
}

/// Returns the sign of a step's state and its style.
pub(super) fn of_step(state: StepState) -> (&'static str, Style) {
    match state {
        StepState::Running => ("▸", ACCENT),
        StepState::Waits => ("?", WAITS),
        StepState::Succeeded => ("✓", GOOD),
        StepState::Failed => ("✗", BAD),
        StepState::TimedOut => ("◌", BAD),
        StepState::Unknown => ("?", BAD),
    }
}
