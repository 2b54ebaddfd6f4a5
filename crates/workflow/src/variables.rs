//! The variables of a run.
//!
//! The variables have layers, and the first layer with a name wins: names from a `set` and from named groups of waits,
//! the results of each state's action (`{STATE_FIELD}`), the standard names set by the last action, the initial
//! variables of the run, arguments from the shell, and defaults of arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::contract::is_environment_variable;
use crate::groups;
use crate::rules::Rules;
use crate::substitute::{Lookup, SECRET};
use crate::tool::{self, OUTPUT};

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

/// Names that every run has as variables: [`STANDARD_FIELDS`], and the variables that the run itself sets.
pub(crate) static STANDARD_NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| STANDARD_FIELDS.iter().chain(&[OUTPUT, VISITS, "run_id", "workflow_name"]).copied().collect());

/// The name of the variable with the number of visits to the current state.
pub(crate) const VISITS: &str = "visits";

/// Returns the result fields that every state of a run may use under their own name. Version 5 of the rules added the
/// output.
fn standard_fields(rules: Rules) -> impl Iterator<Item = &'static str> {
    STANDARD_FIELDS.iter().copied().chain(rules.has_output().then_some(OUTPUT))
}

/// The variables of a run after its last event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Variables {
    rules: Rules,
    /// Values from a `set`, and from named groups of waits. A null counts only if no other layer has the name.
    named: BTreeMap<String, Value>,
    /// Results of states, by `STATE_FIELD`.
    by_state: BTreeMap<String, Value>,
    standard: BTreeMap<String, Value>,
    /// Fields of the last result with any of [`EVIDENCE_FIELDS`], for the person at a gate.
    evidence: Map<String, Value>,
    /// Number of visits to the current state. Lists of variables omit it.
    visits: Option<Value>,
    initial: Map<String, Value>,
    /// Checked arguments, without the initial variables. Before version 5, only arguments without an export.
    arguments: BTreeMap<String, Value>,
    /// Defaults of arguments. A default applies until its argument has another value.
    defaults: BTreeMap<String, Value>,
    /// Names of the contract with the shell. The shell expands `${NAME}`.
    of_shell: BTreeSet<String>,
}

impl Variables {
    /// Returns the variables of a run that follows `rules` and begins with `initial`.
    pub(crate) fn begin(rules: Rules, initial: Map<String, Value>) -> Self {
        Self { rules, initial, ..Self::default() }
    }

    /// Leaves `${NAME}` to the shell for these names, even if the run has a variable with the name.
    pub(crate) fn leave_to_shell<'n>(&mut self, names: impl Iterator<Item = &'n String>) {
        self.of_shell.extend(names.filter(|name| is_environment_variable(name)).cloned());
    }

    /// Adds the defaults of arguments.
    pub(crate) fn add_defaults(&mut self, defaults: impl Iterator<Item = (String, Value)>) {
        self.defaults.extend(defaults);
    }

    /// Adds checked arguments.
    pub(crate) fn add_arguments(&mut self, values: impl Iterator<Item = (String, Value)>) {
        self.arguments.extend(values);
    }

    /// Returns the initial variables of the run.
    pub(crate) fn initial(&self) -> &Map<String, Value> {
        &self.initial
    }

    /// Returns the value of a variable, by the order of the layers.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.named_value(name).or_else(|| self.unnamed_value(name)).or_else(|| self.named.get(name))
    }

    /// Returns the value of a variable outside the layer of named values.
    fn unnamed_value(&self, name: &str) -> Option<&Value> {
        let initial_value =
            || self.initial.get(name).or_else(|| self.arguments.get(name)).or_else(|| self.defaults.get(name));
        let visits = || self.visits.as_ref().filter(|_| name == VISITS);
        self.by_state.get(name).or_else(|| self.standard.get(name)).or_else(visits).or_else(initial_value)
    }

    /// Returns the value in the layer of named values, unless it is null.
    fn named_value(&self, name: &str) -> Option<&Value> {
        self.named.get(name).filter(|value| !value.is_null())
    }

    /// Returns all variables with their values.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut variables = self.without_states();
        variables.extend(self.by_state.iter().map(|(name, value)| (name.clone(), value.clone())));
        variables
    }

    /// Same as [`Self::to_map`], but with the results of `state` only.
    pub(crate) fn to_map_after(&self, state: &str, result: &Map<String, Value>) -> Map<String, Value> {
        let mut variables = self.without_states();
        let state_variable = |field: &String| {
            let name = format!("{state}_{field}");
            let value = self.by_state.get(&name)?.clone();
            Some((name, value))
        };
        variables.extend(result.keys().filter_map(state_variable));
        variables
    }

    /// Returns the variables without results of states and without secrets by reference.
    fn without_states(&self) -> Map<String, Value> {
        let arguments = self.defaults.iter().chain(&self.arguments);
        let mut variables: Map<String, Value> = arguments.map(|(name, value)| (name.clone(), value.clone())).collect();
        let initial = self.initial.iter().filter(|(name, _)| !name.starts_with(SECRET));
        variables.extend(initial.map(|(name, value)| (name.clone(), value.clone())));
        variables.extend(self.standard.iter().map(|(name, value)| (name.clone(), value.clone())));
        for (name, value) in &self.named {
            if !value.is_null() || !variables.contains_key(name) {
                variables.insert(name.clone(), value.clone());
            }
        }
        variables
    }

    /// Sets a standard variable.
    pub(crate) fn set_standard(&mut self, name: &str, value: impl Into<Value>) {
        self.standard.insert(name.to_owned(), value.into());
    }

    /// Sets the current item of a state with several items.
    pub(crate) fn set_item(&mut self, name: String, item: Value) {
        self.named.insert(name, item);
    }

    /// Sets the number of visits of the current state.
    pub(crate) fn set_visits(&mut self, visits: u32) {
        self.visits = Some(visits.into());
    }

    /// Sets the variables from the result of an action. A null applies only to a name without a value.
    pub(crate) fn record(&mut self, state: &str, result: &Map<String, Value>) {
        let assigned = result.get(tool::ASSIGNED).and_then(Value::as_object).into_iter().flatten();
        self.named.extend(assigned.map(|(name, value)| (name.clone(), value.clone())));
        for (name, value) in groups::named_groups(result).filter(|(name, _)| may_be_named(name)) {
            if !value.is_null() || !self.named.contains_key(name) {
                self.named.insert(name.to_owned(), value.clone());
            }
        }
        for name in standard_fields(self.rules) {
            if let Some(value) = standard_value(name, result)
                && self.accepts(name, value)
            {
                self.set_standard(name, value.clone());
            }
        }
        if let Some(evidence) = evidence(result) {
            self.evidence = evidence;
        }
        for (field, value) in result {
            let name = format!("{state}_{field}");
            if self.accepts(&name, value) {
                self.by_state.insert(name, value.clone());
            }
        }
    }

    fn accepts(&self, name: &str, value: &Value) -> bool {
        self.rules.null_overwrites() || !value.is_null() || self.get(name).is_none()
    }

    /// Returns the variables after [`Self::record`] with this result, without a copy.
    pub(crate) fn after<'a>(&'a self, state: &'a str, result: &'a Map<String, Value>) -> After<'a> {
        After { before: self, state, result }
    }
}

impl Lookup for Variables {
    fn get(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }

    fn belongs_to_shell(&self, name: &str) -> bool {
        self.of_shell.contains(name)
    }

    fn has_paths(&self) -> bool {
        self.rules.has_paths()
    }

    fn evidence(&self) -> Map<String, Value> {
        self.evidence.clone()
    }
}

/// Fields of a result that show a person what happened.
const EVIDENCE_FIELDS: [&str; 3] = ["match_text", "output", "screen_content"];

/// Maximum length of a field of the evidence, in characters. Longer ones keep their end.
const MAX_EVIDENCE_CHARS: usize = 8000;

/// Returns the fields of a result that show a person what happened; `None` if it has none.
///
/// A gate shows the fields of one result only: the screen of an earlier state would not show what the last command
/// printed.
fn evidence(result: &Map<String, Value>) -> Option<Map<String, Value>> {
    let field = |name: &str| {
        let text = result.get(name)?.as_str().filter(|text| !text.trim().is_empty())?;
        let hidden = text.chars().count().saturating_sub(MAX_EVIDENCE_CHARS);
        let end: String = text.chars().skip(hidden).collect();
        let shown = if hidden == 0 { end } else { format!("[{hidden} characters before this are not shown]\n{end}") };
        Some((name.to_owned(), shown.into()))
    };
    let fields: Map<String, Value> = EVIDENCE_FIELDS.into_iter().filter_map(field).collect();
    (!fields.is_empty()).then_some(fields)
}

/// Returns whether a state may set a variable with this name. Standard names are reserved.
pub(crate) fn may_be_named(name: &str) -> bool {
    !STANDARD_NAMES.contains(&name)
}

/// Returns the value of a standard name in a result. A missing `error` is null.
fn standard_value<'a>(name: &str, result: &'a Map<String, Value>) -> Option<&'a Value> {
    match result.get(name) {
        None if name == "error" => Some(&Value::Null),
        value => value,
    }
}

/// Variables with one more result.
#[derive(Clone, Copy)]
pub(crate) struct After<'a> {
    before: &'a Variables,
    state: &'a str,
    result: &'a Map<String, Value>,
}

impl Lookup for After<'_> {
    fn evidence(&self) -> Map<String, Value> {
        evidence(self.result).unwrap_or_else(|| self.before.evidence())
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let Self { before, state, result } = *self;
        let of_this_state = || result.get(name.strip_prefix(state)?.strip_prefix('_')?);
        let standard = || {
            let is_standard = standard_fields(before.rules).any(|standard| standard == name);
            is_standard.then(|| standard_value(name, result)).flatten()
        };
        let is_accepted = |value: &&Value| before.rules.null_overwrites() || !value.is_null();
        let group = || groups::named_group(result, name).filter(|_| may_be_named(name));
        let assigned = result.get(tool::ASSIGNED).and_then(|assigned| assigned.get(name));
        let named_value = || {
            group().filter(|text| !text.is_null()).or_else(|| before.named_value(name).filter(|_| assigned.is_none()))
        };
        assigned
            .filter(|value| !value.is_null())
            .or_else(named_value)
            .or_else(|| of_this_state().filter(is_accepted))
            .or_else(|| before.by_state.get(name))
            .or_else(|| standard().filter(is_accepted))
            .or_else(|| before.unnamed_value(name))
            .or_else(of_this_state)
            .or_else(standard)
            .or_else(|| group().or(assigned))
            .or_else(|| before.named.get(name))
    }

    fn belongs_to_shell(&self, name: &str) -> bool {
        self.before.belongs_to_shell(name)
    }

    fn has_paths(&self) -> bool {
        self.before.has_paths()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SEMANTICS_VERSION;
    use serde_json::json;

    const NOW: Rules = Rules::for_version(SEMANTICS_VERSION);

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().expect("the value is an object").clone()
    }

    #[test]
    fn variable_of_a_state_precedes_standard_and_initial_ones() {
        let mut variables =
            Variables::begin(NOW, map(&json!({"match_text": "initial", "match_x": "initial", "user": "ana"})));
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
    fn null_defines_but_never_overwrites_a_variable() {
        // Document 000, lines 653-661: a field is stored if it is not None.
        let mut variables = Variables::begin(NOW, map(&json!({"message": "given"})));
        variables.record("a", &map(&json!({"success": false, "error": "broken", "match_text": "x", "note": null})));
        variables.record("b", &map(&json!({"success": true, "error": null, "match_text": null, "message": null})));
        variables.record("a", &map(&json!({"success": true, "match_text": null})));
        assert_eq!(variables.get("error"), Some(&json!("broken")), "the error is available to later states");
        assert_eq!(variables.get("a_error"), Some(&json!("broken")));
        assert_eq!(variables.get("match_text"), Some(&json!("x")));
        assert_eq!(variables.get("a_match_text"), Some(&json!("x")));
        assert_eq!(variables.get("message"), Some(&json!("given")));
        assert_eq!((variables.get("a_note"), variables.get("b_error")), (Some(&Value::Null), Some(&Value::Null)));
    }

    #[test]
    fn version_3_run_clears_its_error_at_the_next_action() {
        let mut variables = Variables::begin(Rules::for_version(3), Map::new());
        variables.record("a", &map(&json!({"success": false, "error": "broken", "match_text": "x"})));
        variables.record("b", &map(&json!({"success": true, "match_text": null})));
        assert_eq!((variables.get("error"), variables.get("match_text")), (Some(&Value::Null), Some(&Value::Null)));
    }

    #[test]
    fn lookahead_equals_the_recorded_result() {
        for rules in [Rules::for_version(3), NOW] {
            assert_lookahead_matches_record(rules);
        }
    }

    fn assert_lookahead_matches_record(rules: Rules) {
        let initial = json!({"user": "ana", "b_x": "initial", "success": "initial", "message": "initial"});
        let mut variables = Variables::begin(rules, map(&initial));
        variables.record("a", &map(&json!({"success": false, "error": "broken", "b_x": 1, "message": "m"})));
        for (state, result) in [
            ("b", json!({"success": true, "x": 2, "match_text": null})),
            ("b", json!({"success": null, "x": null, "match_text": null, "message": null, "error": null})),
            ("match", json!({"text": null, "match_text": "m"})),
            ("screen", json!({"content": null, "screen_content": null})),
            ("a", json!({"b_x": 3, "error": "again"})),
            ("a_b", json!({"x": 4, "screen_content": "$"})),
            (
                "b",
                json!({"x": 2, "groups": {"0": "m", "1": "g", "user": "g", "fresh": null, "b_x": null, "error": "no"}}),
            ),
            ("b", json!({"x": 2, "groups": {"b_x": "g", "a_error": "g"}})),
            ("set", json!({"success": true, "assigned": {"b_x": 7, "fresh": null, "new": {"a": 1}}})),
        ] {
            let result = map(&result);
            let mut recorded = variables.clone();
            recorded.record(state, &result);
            let ahead = variables.after(state, &result);
            for name in recorded.to_map().keys().map(String::as_str).chain(["nobody", "b_", "_", "1", "fresh"]) {
                assert_eq!(ahead.get(name), recorded.get(name), "{name} after {state}");
            }
        }
    }
}
