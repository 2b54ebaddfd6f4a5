//! Warnings about transitions that treat a wait without a match as a success, like the rules before version 5.

use super::document::escaped;
use super::{Problem, State, Transition};
use crate::condition::Test;
use crate::{groups, tool};

/// Returns a warning for each transition of a wait that treats a wait without a match as a success.
pub(super) fn warnings(states: &[State]) -> Vec<Problem> {
    states.iter().filter(|state| state.action.tool == tool::AWAIT_OUTPUT).flat_map(state_warnings).collect()
}

fn state_warnings(state: &State) -> Vec<Problem> {
    let mut warnings = Vec::new();
    let mut matches_are_covered = false;
    for (index, transition) in state.transitions.iter().enumerate() {
        let tests = &transition.condition.tests;
        let needs_success = tests.iter().any(Test::requires_success);
        let message = if needs_success && tests.iter().any(Test::requires_timeout) {
            Some("never holds: a wait that finds nothing fails; remove 'success'")
        } else if needs_success && matches_are_covered {
            Some(
                "is not taken if the wait finds nothing, because that is a failure; use the condition \"timeout\" for it, \
                 or {} for all other results",
            )
        } else {
            None
        };
        warnings.extend(message.map(|message| {
            let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
            Problem::warning(pointer, message)
        }));
        let is_only_transition = state.transitions.len() == 1 && state.on_timeout.is_none();
        if is_only_transition
            && tests.is_empty()
            && transition.condition.description.is_none()
            && !waits_for_quiet(state)
        {
            let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
            let message = "is also taken if the wait finds nothing; use the condition \"success\" here, and add a \
                           transition for \"timeout\"";
            warnings.push(Problem::warning(pointer, message));
        }
        if transition.condition.fields().any(|field| field == "groups.0") {
            let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
            let message = "'groups.0' is the whole match; groups are counted from 1, 'groups.1' is the first";
            warnings.push(Problem::warning(pointer, message));
        }
        matches_are_covered |= covers_matches(state, transition);
    }
    warnings
}

/// Returns whether the wait is for quiet output, or has no pattern.
fn waits_for_quiet(state: &State) -> bool {
    groups::patterns(&state.action.params).next().is_none()
}

/// Returns whether a transition is taken for every match of the wait, so that later transitions handle other results.
fn covers_matches(state: &State, transition: &Transition) -> bool {
    let pattern = state.action.params.get("pattern").and_then(serde_json::Value::as_str);
    let holds_on_match = |test: &Test| {
        test.excludes_timeout() || test.pattern().is_some_and(|(found, is_found)| is_found && Some(found) == pattern)
    };
    let condition = &transition.condition;
    let (holding, others): (Vec<_>, Vec<_>) = condition.tests.iter().partition(|test| holds_on_match(test));
    condition.description.is_none() && !holding.is_empty() && others.iter().all(|test| test.requires_success())
}
