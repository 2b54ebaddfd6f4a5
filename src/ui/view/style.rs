//! The styles of the full screen. Colours come from the terminal's palette; the other attributes work without colours.

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

/// Returns the style for the meaning of a state.
pub(super) fn tone_style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Waiting => WAITS,
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Quiet => QUIET,
    }
}

/// Returns the symbol and the style for the state of a step.
pub(super) fn step_style(state: StepState) -> (&'static str, Style) {
    match state {
        StepState::Running => ("▸", ACCENT),
        StepState::Waiting => ("?", WAITS),
        StepState::Succeeded => ("✓", GOOD),
        StepState::Failed => ("✗", BAD),
        StepState::TimedOut => ("◌", BAD),
        StepState::Unknown => ("?", BAD),
    }
}
