//! Terminals that the states name in which a run may continue after a question.
//!
//! A run works with terminals that it got or has opened, and with terminals that its states name. A person who answers
//! has to see the latter as well: the approved command may run there.

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
    /// Their ids or names, with the values so far.
    pub sessions: Vec<String>,
    /// Names with later values, as their author wrote them.
    pub computed: Vec<String>,
}

/// Returns the terminals that the states name which a run may execute after its open gate. A run without a gate has none.
#[must_use]
pub fn terminals_ahead(definition: &Definition, history: &History) -> TerminalsAhead {
    let mut ahead = TerminalsAhead::default();
    let Some(gate) = history.gate() else { return ahead };
    let from: Vec<&str> = match &gate.asks {
        GateRequest::Answer { .. } => vec![gate.step.place.as_str()],
        GateRequest::Judgement { .. } => definition.states().iter().map(State::name).collect(),
        GateRequest::Patch { proposal, .. } => {
            // The accepted machine is not this one.
            if let Some(states) = proposal.definition.get("states") {
                ahead.add(states, history, false);
            }
            definition.states().iter().map(State::name).collect()
        }
    };
    for state in reached(definition, from) {
        for (name, value) in state.action().params() {
            match value {
                Value::String(text) if name == SESSION_ID => ahead.add_name(text, history, false),
                nested => ahead.add(nested, history, name == DEFINITION),
            }
        }
    }
    ahead
}

/// Returns the states that a run may execute starting at these, themselves included.
fn reached<'d>(definition: &'d Definition, from: Vec<&'d str>) -> Vec<&'d State> {
    let (mut seen, mut open) = (BTreeSet::new(), from);
    open.extend(definition.finally_state());
    while let Some(name) = open.pop() {
        if let (Some(state), true) = (definition.state(name), seen.insert(name)) {
            open.extend(state.targets());
            if state.asks_when_unknown() {
                // Any state may follow.
                open.extend(definition.states().iter().map(State::name));
            }
        }
    }
    definition.states().iter().filter(|state| seen.contains(state.name())).collect()
}

impl TerminalsAhead {
    /// Adds the terminals that a value names, at any depth. Placeholders of a nested definition are its own.
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
