//! The edges between states of a machine, and the states that they reach.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::definition::{Definition, State};
use crate::question::AnsweredBy;
use crate::tool;

/// One edge from a state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge<'d> {
    /// The condition in the document.
    pub(super) condition: Value,
    /// The next state; `None` if the run completes.
    pub(super) to: Option<&'d str>,
}

/// Returns the document of a state.
pub(super) fn document<'d>(definition: &'d Definition, state: &str) -> Option<&'d Map<String, Value>> {
    definition.document().get("states")?.get(state)?.as_object()
}

/// Returns the edges from a state, in the order of evaluation.
pub(super) fn edges<'d>(definition: &'d Definition, state: &'d State) -> Vec<Edge<'d>> {
    let documents = document(definition, state.name()).and_then(|document| document.get("transitions"));
    let documents = documents.and_then(Value::as_array).into_iter().flatten();
    let transitions = state.transitions().iter().zip(documents).map(|(transition, document)| {
        let mut condition = document.clone();
        if let Some(fields) = condition.as_object_mut() {
            fields.shift_remove("next_state");
        }
        Edge { condition, to: Some(transition.next_state()) }
    });
    let on_timeout = state.on_timeout().map(|to| Edge { condition: "on_timeout".into(), to: Some(to) });
    let on_exhausted = state.on_exhausted().map(|to| Edge { condition: "on_exhausted".into(), to: Some(to) });
    let ends = state.ends().completes.then(|| Edge { condition: json!("end"), to: None });
    transitions.chain(on_timeout).chain(on_exhausted).chain(ends).collect()
}

/// Returns the targets of an edge through states that are not known: known states, or `None` for the completion of the
/// run.
pub(super) fn known_targets<'d>(
    definition: &'d Definition,
    edge: &Edge<'d>,
    is_known: impl Fn(&str) -> bool,
) -> BTreeSet<Option<&'d str>> {
    let (mut targets, mut visited, mut pending) = (BTreeSet::new(), BTreeSet::new(), vec![edge.to]);
    while let Some(to) = pending.pop() {
        match to {
            Some(name) if !is_known(name) => {
                if let (Some(state), true) = (definition.state(name), visited.insert(name)) {
                    pending.extend(edges(definition, state).into_iter().map(|edge| edge.to));
                }
            }
            target => _ = targets.insert(target),
        }
    }
    targets
}

/// Returns the states that are gates for a person.
pub(super) fn human_gates(definition: &Definition) -> impl Iterator<Item = &State> {
    definition.states().iter().filter(|state| is_human_gate(state))
}

/// Returns whether a state is a gate for a person.
pub(super) fn is_human_gate(state: &State) -> bool {
    let who = state.action().params().get("answered_by").and_then(Value::as_str);
    state.action().tool() == tool::GATE && who.is_none_or(|who| who == AnsweredBy::Human.name())
}

/// Returns the states that a run reaches from its initial state or its finally state, without passing through
/// `avoided`.
pub(super) fn reached_without<'d>(definition: &'d Definition, avoided: &str) -> BTreeSet<&'d str> {
    let starts = [definition.initial_state()].into_iter().chain(definition.finally_state());
    reached_from(definition, starts, avoided)
}

/// Returns the states that are reachable from `starts` without passing through `avoided`, including `starts`.
pub(super) fn reached_from<'d>(
    definition: &'d Definition,
    starts: impl IntoIterator<Item = &'d str>,
    avoided: &str,
) -> BTreeSet<&'d str> {
    let (mut visited, mut pending): (BTreeSet<&'d str>, Vec<&'d str>) = (BTreeSet::new(), starts.into_iter().collect());
    while let Some(name) = pending.pop() {
        if let (Some(state), true) = (definition.state(name), name != avoided && visited.insert(name)) {
            pending.extend(edges(definition, state).into_iter().filter_map(|edge| edge.to));
        }
    }
    visited
}
