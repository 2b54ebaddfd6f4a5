//! The variables of a run.
//!
//! Three layers, the first that knows a name wins: what each state's action
//! returned (`{STATE_FIELD}`), the standard names as the last action left them,
//! and what the run was started with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::substitute::Lookup;

/// Result fields that every state may use under their own name.
pub(crate) const STANDARD_FIELDS: &[&str] = &[
    "session_id",
    "match_text",
    "screen_content",
    "success",
    "error",
    "timestamp",
    "elapsed_time",
    "shell",
    "web_url",
    "process_running",
    "total_sessions",
    "message",
    "exit_code",
    "answer",
    "workflow_final_state",
    "workflow_saved",
    "saved_workflow_name",
];

/// The variables of a run, as of its last event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variables {
    by_state: BTreeMap<String, Value>,
    standard: BTreeMap<String, Value>,
    initial: Map<String, Value>,
    /// Names of the contract with the shell, where `${NAME}` is for the shell to expand.
    of_shell: BTreeSet<String>,
}

impl Variables {
    pub(crate) fn new(initial: Map<String, Value>) -> Self {
        Self { initial, ..Self::default() }
    }

    /// Leaves `${NAME}` to the shell for these names, also when there is a variable of that name.
    pub(crate) fn leave_to_shell<'n>(&mut self, names: impl Iterator<Item = &'n String>) {
        self.of_shell.extend(names.cloned());
    }

    /// Returns what the run was started with.
    pub(crate) fn initial(&self) -> &Map<String, Value> {
        &self.initial
    }

    /// Returns the value of a variable, by the order of the layers.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.by_state.get(name).or_else(|| self.standard.get(name)).or_else(|| self.initial.get(name))
    }

    /// Returns every variable and its value, as the order of the layers has it.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut all = self.shared();
        all.extend(self.by_state.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }

    /// As [`Self::to_map`], but of the variables that belong to a state only those of `state`.
    pub(crate) fn to_map_after(&self, state: &str, result: &Map<String, Value>) -> Map<String, Value> {
        let mut all = self.shared();
        all.extend(result.iter().map(|(field, value)| (format!("{state}_{field}"), value.clone())));
        all
    }

    fn shared(&self) -> Map<String, Value> {
        let mut shared = self.initial.clone();
        shared.extend(self.standard.iter().map(|(name, value)| (name.clone(), value.clone())));
        shared
    }

    /// Sets a standard variable.
    pub(crate) fn set_standard(&mut self, name: &str, value: impl Into<Value>) {
        self.standard.insert(name.to_owned(), value.into());
    }

    /// Takes over what an action returned.
    pub(crate) fn record(&mut self, state: &str, result: &Map<String, Value>) {
        for name in STANDARD_FIELDS {
            if let Some(value) = standard_value(name, result) {
                self.set_standard(name, value.clone());
            }
        }
        self.by_state.extend(result.iter().map(|(field, value)| (format!("{state}_{field}"), value.clone())));
    }

    /// Returns these variables as [`Self::record`] would leave them, without a copy.
    pub(crate) fn after<'a>(&'a self, state: &'a str, result: &'a Map<String, Value>) -> After<'a> {
        After { before: self, state, result }
    }
}

impl Lookup for Variables {
    fn get(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn is_of_shell(&self, name: &str) -> bool {
        self.of_shell.contains(name)
    }
}

/// The value that a result gives a standard name. An action without an error clears the last one's.
fn standard_value<'a>(name: &str, result: &'a Map<String, Value>) -> Option<&'a Value> {
    match result.get(name) {
        None if name == "error" => Some(&Value::Null),
        value => value,
    }
}

/// Variables and one more result on top.
#[derive(Clone, Copy)]
pub(crate) struct After<'a> {
    before: &'a Variables,
    state: &'a str,
    result: &'a Map<String, Value>,
}

impl Lookup for After<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        let of_this_state = || self.result.get(name.strip_prefix(self.state)?.strip_prefix('_')?);
        let standard = || if STANDARD_FIELDS.contains(&name) { standard_value(name, self.result) } else { None };
        of_this_state().or_else(|| self.before.by_state.get(name)).or_else(standard).or_else(|| self.before.get(name))
    }

    fn is_of_shell(&self, name: &str) -> bool {
        self.before.is_of_shell(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_state_s_own_variable_comes_before_a_standard_one_and_that_before_an_initial_one() {
        let mut variables = Variables::new(map(&json!({"match_text": "initial", "match_x": "initial", "user": "ana"})));
        assert_eq!(variables.get("match_text"), Some(&json!("initial")));
        variables.record("look", &map(&json!({"match_text": "standard", "success": true})));
        assert_eq!(variables.get("match_text"), Some(&json!("standard")));
        assert_eq!(variables.get("look_match_text"), Some(&json!("standard")));
        variables.record("match", &map(&json!({"text": "of the state", "x": 1})));
        assert_eq!(variables.get("match_text"), Some(&json!("of the state")));
        assert_eq!(variables.get("match_x"), Some(&json!(1)));
        assert_eq!(variables.get("user"), Some(&json!("ana")));
    }

    #[test]
    fn an_error_is_gone_after_the_next_action_and_a_match_is_not() {
        let mut variables = Variables::default();
        variables.record("a", &map(&json!({"success": false, "error": "broken", "match_text": "x"})));
        variables.record("b", &map(&json!({"success": true})));
        assert_eq!(variables.get("error"), Some(&Value::Null));
        assert_eq!(variables.get("a_error"), Some(&json!("broken")));
        assert_eq!(variables.get("match_text"), Some(&json!("x")));
    }

    #[test]
    fn looking_ahead_sees_what_recording_leaves() {
        let mut variables = Variables::new(map(&json!({"user": "ana", "b_x": "initial", "success": "initial"})));
        variables.record("a", &map(&json!({"success": false, "error": "broken", "b_x": 1, "message": "m"})));
        for (state, result) in [
            ("b", json!({"success": true, "x": 2, "match_text": null})),
            ("a", json!({"b_x": 3, "error": "again"})),
            ("a_b", json!({"x": 4, "screen_content": "$"})),
        ] {
            let result = map(&result);
            let mut recorded = variables.clone();
            recorded.record(state, &result);
            let ahead = variables.after(state, &result);
            for name in recorded.to_map().keys().map(String::as_str).chain(["nobody", "b_", "_"]) {
                assert_eq!(ahead.get(name), recorded.get(name), "{name} after {state}");
            }
        }
    }
}
