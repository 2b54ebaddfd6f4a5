//! Terminals named by the states that a run may execute after a question.
//!
//! A run works with its given terminal, with terminals that it opened, and with terminals that its states name. A
//! person who answers must also see the named terminals, because the approved command may run there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::child::DEFINITION;
use crate::definition::{Definition, State};
use crate::history::{GateRequest, History};
use crate::substitute;

/// The parameter that names a terminal.
const SESSION_ID: &str = "session_id";

/// Terminals that states name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalsAhead {
    /// The ids or names, with variables replaced.
    pub sessions: Vec<String>,
    /// Names with variables that have no value yet, with placeholders.
    pub computed: Vec<String>,
}

/// Returns the terminals named by the states that a run may execute after its open gate. Empty for a run without a
/// gate.
#[must_use]
pub fn terminals_ahead(definition: &Definition, history: &History) -> TerminalsAhead {
    let mut ahead = TerminalsAhead::default();
    let Some(gate) = history.gate() else { return ahead };
    let from: Vec<&str> = match &gate.asks {
        GateRequest::Answer { .. } => vec![gate.step.place.as_str()],
        GateRequest::Judgement { .. } => definition.states().iter().map(State::name).collect(),
        GateRequest::Patch { proposal, .. } => {
            // If accepted, the patched machine replaces this one.
            if let Some(states) = proposal.definition.get("states") {
                ahead.add(states, history, false);
            }
            definition.states().iter().map(State::name).collect()
        }
    };
    for state in reachable_states(definition, from) {
        for (name, value) in state.action().params() {
            match value {
                Value::String(text) if name == SESSION_ID => ahead.add_name(text, history, false),
                nested => ahead.add(nested, history, name == DEFINITION),
            }
        }
    }
    ahead
}

/// Returns the states that a run may execute starting at `from`, including `from`.
fn reachable_states<'d>(definition: &'d Definition, from: Vec<&'d str>) -> Vec<&'d State> {
    let (mut visited, mut pending) = (BTreeSet::new(), from);
    pending.extend(definition.finally_state());
    while let Some(name) = pending.pop() {
        if let (Some(state), true) = (definition.state(name), visited.insert(name)) {
            pending.extend(state.targets());
            if state.asks_when_unknown() {
                // Any state may follow.
                pending.extend(definition.states().iter().map(State::name));
            }
        }
    }
    definition.states().iter().filter(|state| visited.contains(state.name())).collect()
}

impl TerminalsAhead {
    /// Adds the terminals that a value names, at any depth. Ignores placeholders of a nested definition.
    fn add(&mut self, value: &Value, history: &History, is_nested: bool) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item, history, is_nested)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(text) if name == SESSION_ID => self.add_name(text, history, is_nested),
                        other => self.add(other, history, is_nested || name == DEFINITION),
                    }
                }
            }
            _ => {}
        }
    }

    fn add_name(&mut self, text: &str, history: &History, is_nested: bool) {
        let has_placeholder = substitute::has_placeholder(text);
        if is_nested && has_placeholder {
            return;
        }
        let is_known = !has_placeholder || substitute::unresolved_in(text, history.variables()).is_none();
        let (names, name) = match is_known {
            true => (&mut self.sessions, substitute::text(text, history.variables())),
            false => (&mut self.computed, text.to_owned()),
        };
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
}
