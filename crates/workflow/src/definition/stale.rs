//! Warnings about patterns that may match old output: `pattern_match` searches the whole screen, and the screen may
//! still show the output of an earlier state.

use super::document::escaped;
use super::{Problem, State, reach};
use crate::{groups, tool};

/// Returns a warning for every pattern that a state searches on the screen and that an earlier state, or an earlier
/// visit, may already have found there.
pub(super) fn warnings(states: &[State]) -> Vec<Problem> {
    let waits = states.iter().filter(|state| matches!(state.action.tool(), tool::SEND_INPUT | tool::AWAIT_OUTPUT));
    waits.flat_map(|state| state_warnings(state, states)).collect()
}

fn state_warnings(state: &State, states: &[State]) -> Vec<Problem> {
    let own_patterns: Vec<&str> =
        groups::patterns(state.action.params()).filter_map(serde_json::Value::as_str).collect();
    let mut warnings = Vec::new();
    for (index, transition) in state.transitions.iter().enumerate() {
        let tests = &transition.condition.tests;
        let Some(pattern) = tests.iter().filter_map(|test| test.pattern()).find(|(_, found)| *found) else { continue };
        let (pattern, _) = pattern;
        // The wait of this state was only for this pattern, and has found it in new output.
        if own_patterns[..] == [pattern] && tests.iter().any(|test| test.requires_success() || test.excludes_timeout())
        {
            continue;
        }
        let Some(earlier) = states.iter().find(|earlier| may_precede(earlier, pattern, state, states)) else {
            continue;
        };
        let source = if earlier.name == state.name {
            "an earlier visit".to_owned()
        } else {
            format!("state '{}'", earlier.name)
        };
        let message = format!(
            "may still be on the screen since {source} found it; compare what this state's wait matched: \
             {{\"field_contains\": {{\"match_text\": …}}}}, or {{\"field_equals\": {{\"pattern\": …}}}} for several patterns"
        );
        let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
        warnings.push(Problem::warning(pointer, message));
    }
    warnings
}

/// Returns whether the state `from` may have found a pattern on the screen before the run reaches the state `to`.
fn may_precede(from: &State, pattern: &str, to: &State, states: &[State]) -> bool {
    // The output of a command is not on the screen.
    if from.action.tool == tool::RUN_COMMAND {
        return false;
    }
    let awaits_pattern = groups::patterns(from.action.params()).any(|known| known.as_str() == Some(pattern));
    from.transitions.iter().any(|transition| {
        let mut patterns = transition.condition.tests.iter().filter_map(|test| test.pattern());
        let tests_pattern = patterns.any(|(known, found)| found && known == pattern);
        (tests_pattern || (awaits_pattern && from.name != to.name))
            && reach::reachable_states(&transition.next_state, states).contains(to.name.as_str())
    })
}
