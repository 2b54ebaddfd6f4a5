//! Patterns that may match the text of an earlier state again: `pattern_match` searches the whole screen, on which old
//! output may still be.

use super::document::escaped;
use super::{Problem, State, reach};
use crate::{groups, tool};

/// Returns a warning for every pattern that a state searches on the screen after its input, and that may be there since
/// an earlier state, or an earlier visit.
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
        // A wait for this pattern alone has just found it.
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

/// Returns whether a state that has found a pattern in a terminal may lead to another one.
fn may_precede(from: &State, pattern: &str, to: &State, states: &[State]) -> bool {
    // The output of its command is not on a screen.
    if from.action.tool == tool::RUN_COMMAND {
        return false;
    }
    let waited_for = groups::patterns(from.action.params()).any(|known| known.as_str() == Some(pattern));
    from.transitions.iter().any(|transition| {
        let mut patterns = transition.condition.tests.iter().filter_map(|test| test.pattern());
        let found = patterns.any(|(known, found)| found && known == pattern);
        (found || (waited_for && from.name != to.name))
            && reach::reached(&transition.next_state, states).contains(to.name.as_str())
    })
}
