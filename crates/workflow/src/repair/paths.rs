//! The ways of a machine: where each of its states leads and when, seen past states that another machine does not have.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::definition::{Definition, State};
use crate::question::AnsweredBy;
use crate::tool;

/// One way out of a state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge<'d> {
    /// Its condition, as its author wrote it.
    pub(super) condition: Value,
    /// State that it leads to; `None` is the completion of the run.
    pub(super) to: Option<&'d str>,
}

/// Returns the document of a state.
pub(super) fn document<'d>(definition: &'d Definition, state: &str) -> Option<&'d Map<String, Value>> {
    definition.document().get("states")?.get(state)?.as_object()
}

/// Returns the ways out of a state, in the order of their checks.
pub(super) fn edges<'d>(definition: &'d Definition, state: &'d State) -> Vec<Edge<'d>> {
    let written = document(definition, state.name()).and_then(|document| document.get("transitions"));
    let written = written.and_then(Value::as_array).into_iter().flatten();
    let transitions = state.transitions().iter().zip(written).map(|(transition, written)| {
        let mut condition = written.clone();
        if let Some(fields) = condition.as_object_mut() {
            fields.shift_remove("next_state");
        }
        Edge { condition, to: Some(transition.next_state()) }
    });
    let late = state.on_timeout().map(|to| Edge { condition: "on_timeout".into(), to: Some(to) });
    let exhausted = state.on_exhausted().map(|to| Edge { condition: "on_exhausted".into(), to: Some(to) });
    let ends = state.ends().completes.then(|| Edge { condition: json!("end"), to: None });
    transitions.chain(late).chain(exhausted).chain(ends).collect()
}

/// Returns where an edge leads past states that are not `known`: to known ones, or to the completion of the run.
pub(super) fn known_targets<'d>(
    definition: &'d Definition,
    edge: &Edge<'d>,
    known: impl Fn(&str) -> bool,
) -> BTreeSet<Option<&'d str>> {
    let (mut targets, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![edge.to]);
    while let Some(to) = open.pop() {
        match to {
            Some(name) if !known(name) => {
                if let (Some(state), true) = (definition.state(name), seen.insert(name)) {
                    open.extend(edges(definition, state).into_iter().map(|edge| edge.to));
                }
            }
            known => _ = targets.insert(known),
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

/// Returns the states that a run reaches without passing through `avoided`, from its beginning or from its finally
/// state.
pub(super) fn reached_without<'d>(definition: &'d Definition, avoided: &str) -> BTreeSet<&'d str> {
    let begins = [definition.initial_state()].into_iter().chain(definition.finally_state());
    reached_from(definition, begins, avoided)
}

/// Returns the states on the ways from these without passing through `avoided`.
pub(super) fn reached_from<'d>(
    definition: &'d Definition,
    begins: impl IntoIterator<Item = &'d str>,
    avoided: &str,
) -> BTreeSet<&'d str> {
    let (mut seen, mut open): (BTreeSet<&'d str>, Vec<&'d str>) = (BTreeSet::new(), begins.into_iter().collect());
    while let Some(name) = open.pop() {
        if let (Some(state), true) = (definition.state(name), name != avoided && seen.insert(name)) {
            open.extend(edges(definition, state).into_iter().filter_map(|edge| edge.to));
        }
    }
    seen
}
