//! Transitions that expect a wait to succeed although it found nothing, as it did before version 5 of the rules.

use super::document::escaped;
use super::{Problem, State, Transition};
use crate::condition::Test;
use crate::{groups, tool};

/// Returns a warning for every transition of a wait that relies on a wait without a match being a success.
pub(super) fn warnings(states: &[State]) -> Vec<Problem> {
    states.iter().filter(|state| state.action.tool == tool::AWAIT_OUTPUT).flat_map(of_state).collect()
}

fn of_state(state: &State) -> Vec<Problem> {
    let mut warnings = Vec::new();
    let mut is_matched = false;
    for (index, transition) in state.transitions.iter().enumerate() {
        let tests = &transition.condition.tests;
        let needs_success = tests.iter().any(Test::requires_success);
        let message = if needs_success && tests.iter().any(Test::requires_timeout) {
            Some("never holds: a wait that finds nothing has failed; leave 'success' out")
        } else if needs_success && is_matched {
            Some(
                "is not taken when the wait finds nothing: that is a failure; write \"timeout\" for it, or {} for every \
                 other end",
            )
        } else {
            None
        };
        warnings.extend(message.map(|message| {
            let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
            Problem::warning(pointer, message)
        }));
        let is_only = state.transitions.len() == 1 && state.on_timeout.is_none();
        if is_only && tests.is_empty() && transition.condition.description.is_none() && !waits_for_quiet(state) {
            let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
            let message = "is taken also when the wait finds nothing; write \"success\" for what it waits for, and a \
                           transition for \"timeout\"";
            warnings.push(Problem::warning(pointer, message));
        }
        if transition.condition.fields().any(|field| field == "groups.0") {
            let pointer = format!("/states/{}/transitions/{index}/condition", escaped(&state.name));
            let message = "'groups.0' is the whole match; groups are counted from 1, 'groups.1' is the first";
            warnings.push(Problem::warning(pointer, message));
        }
        is_matched |= takes_matches(state, transition);
    }
    warnings
}

/// Returns whether the wait is for silence, or looks for nothing in particular.
fn waits_for_quiet(state: &State) -> bool {
    groups::patterns(&state.action.params).next().is_none()
}

/// Returns whether a transition takes every wait that found what it waited for, so that a later one is for the others.
fn takes_matches(state: &State, transition: &Transition) -> bool {
    let pattern = state.action.params.get("pattern").and_then(serde_json::Value::as_str);
    let is_sure = |test: &Test| {
        test.excludes_timeout() || test.pattern().is_some_and(|(found, is_found)| is_found && Some(found) == pattern)
    };
    let condition = &transition.condition;
    let (sure, other): (Vec<_>, Vec<_>) = condition.tests.iter().partition(|test| is_sure(test));
    condition.description.is_none() && !sure.is_empty() && other.iter().all(|test| test.requires_success())
}
