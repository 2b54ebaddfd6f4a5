//! Detection of an input that follows another input without a check of the first input's effect.

use std::collections::BTreeSet;

use serde_json::Value;

use super::alternatives::matches_nearly_anything;
use crate::definition::{Definition, State, Transition};
use crate::tool;

/// Returns a state that types after the state `input` without a check of that input's effect. A command needs no check,
/// because a shell that is not at its prompt refuses commands.
pub(super) fn typed_unchecked_after<'d>(definition: &'d Definition, input: &'d State) -> Option<&'d str> {
    if input.action().tool() != tool::SEND_INPUT {
        return None;
    }
    let mut visited = BTreeSet::from([input.name()]);
    let mut pending: Vec<&str> = unchecked_targets(input).collect();
    while let Some(name) = pending.pop() {
        let Some(state) = definition.state(name).filter(|_| visited.insert(name)) else { continue };
        match state.action().tool() {
            tool::SEND_INPUT => return Some(name),
            // A person or an agent sees the output.
            tool::GATE => {}
            _ => pending.extend(unchecked_targets(state)),
        }
    }
    None
}

/// Returns the targets that a state may lead to without a match of its wait.
fn unchecked_targets(state: &State) -> impl Iterator<Item = &str> {
    let has_check = has_specific_wait(state);
    let unchecked =
        state.transitions().iter().filter(move |transition| !(has_check && transition.condition().demands_output()));
    unchecked.map(Transition::next_state).chain(state.on_timeout()).chain(state.on_exhausted())
}

/// Returns whether a state waits for the end of a command, or for a specific text.
fn has_specific_wait(state: &State) -> bool {
    let params = state.action().params();
    let until = params.get("until").and_then(Value::as_str);
    let pattern = params.get("pattern").into_iter();
    let patterns = params.get("patterns").and_then(Value::as_array).into_iter().flatten();
    let mut patterns = pattern.chain(patterns).peekable();
    let awaits_end = state.action().tool() == tool::RUN_COMMAND || matches!(until, Some("prompt" | "exit"));
    let is_specific = |pattern: &Value| pattern.as_str().is_some_and(|pattern| !matches_nearly_anything(pattern));
    awaits_end || (patterns.peek().is_some() && patterns.all(is_specific))
}
