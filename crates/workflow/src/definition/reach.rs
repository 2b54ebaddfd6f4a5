//! Warnings about unreachable states, and about states without a path to an end.

use std::collections::BTreeSet;

use super::document::escaped;
use super::{Problem, State};

/// Returns the states that a run reaches from `initial`, including `initial`.
pub(super) fn reachable_states<'s>(initial: &'s str, states: &'s [State]) -> BTreeSet<&'s str> {
    closure(vec![initial], |from| states.iter().filter(|state| state.name == *from).flat_map(State::targets).collect())
}

/// Returns a warning for every unreachable state, and for every state without a path to an end.
pub(super) fn warnings(initial: &str, finally_state: Option<&str>, states: &[State]) -> Vec<Problem> {
    let reached = closure(std::iter::once(initial).chain(finally_state).collect(), |from| {
        states.iter().filter(|state| state.name == *from).flat_map(State::targets).collect()
    });
    // A missing target is already reported, and the intended path of the state is unknown.
    let has_missing_target =
        |state: &&State| state.targets().any(|target| states.iter().all(|known| known.name != target));
    let can_end = closure(
        states
            .iter()
            .filter(|state| state.may_end() || has_missing_target(state))
            .map(|state| state.name.as_str())
            .collect(),
        |to| {
            let leads_there = |state: &&State| state.targets().any(|target| target == to);
            states.iter().filter(leads_there).map(|state| state.name.as_str()).collect()
        },
    );
    let mut warnings = Vec::new();
    for State { name, .. } in states {
        let pointer = format!("/states/{}", escaped(name));
        if !reached.contains(name.as_str()) {
            let message = format!("State '{name}' cannot be reached from the initial state '{initial}'");
            warnings.push(Problem::warning(pointer, message));
        } else if !can_end.contains(name.as_str()) {
            let message = format!("State '{name}' cannot reach an end: every path from it continues");
            warnings.push(Problem::warning(pointer, message));
        }
    }
    warnings
}

impl State {
    /// Returns the states that this state leads to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        self.transitions
            .iter()
            .map(|transition| transition.next_state.as_str())
            .chain(self.on_timeout())
            .chain(self.on_exhausted())
    }
}

/// Returns the transitive closure of `next` from the states `start`, including them.
fn closure<'s>(start: Vec<&'s str>, next: impl Fn(&str) -> Vec<&'s str>) -> BTreeSet<&'s str> {
    let mut reached = BTreeSet::new();
    let mut pending = start;
    while let Some(name) = pending.pop() {
        if reached.insert(name) {
            pending.extend(next(name));
        }
    }
    reached
}
