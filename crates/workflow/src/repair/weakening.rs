//! Weakenings of a machine by a patch.
//!
//! The list contains every change of a patch, except changes that cannot affect a check: descriptions, shorter time
//! limits that only end the run, arguments with a default and no export, and new states that neither act nor ask, do
//! not delay a check, and lead to the same state under the same condition. So the list may contain a harmless change,
//! but never omits a harmful one. Texts to type, to run or to wait for are complete in the list.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::alternatives::{NewAlternative, matches_nearly_anything, new_alternatives};
use super::legible::{change, is_same, legible, value_text};
use super::paths::{Edge, document, edges, human_gates, is_human_gate, known_targets, reached_from, reached_without};
use super::unchecked::typed_unchecked_after;
use crate::definition::{Definition, State};
use crate::question::AnsweredBy;
use crate::tool;

/// A change by a patch that weakens the machine, or may weaken it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakening {
    /// JSON pointer (RFC 6901) into the document before or after the patch.
    pub path: String,
    /// The weakening, as a sentence without a full stop.
    pub what: String,
}

impl fmt::Display for Weakening {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.what, self.path)
    }
}

/// Fields of the document and of a state that only describe it.
const DESCRIPTIVE_FIELDS: [&str; 3] = ["name", "description", "$schema"];

/// Actions without an effect outside the run: they ask, wait, read, set variables or end the run. All other tools act.
const PASSIVE_TOOLS: [&str; 8] = [
    tool::GATE,
    tool::RETURN,
    tool::FAIL,
    tool::SLEEP,
    tool::SET,
    tool::AWAIT_OUTPUT,
    "get_screen_content",
    "list_terminal_sessions",
];

/// Actions that read a terminal without typing.
const READING_TOOLS: [&str; 2] = [tool::AWAIT_OUTPUT, "get_screen_content"];

/// Variables that a gate for a person displays.
const GATE_VARIABLES: [&str; 3] = ["match_text", "output", "screen_content"];

/// Standard variables that the result of an action may set.
const RESULT_VARIABLES: [&str; 6] = ["answer", "exit_code", "match_text", "output", "screen_content", "error"];

/// Returns the weakenings of the machine `before` by the machine `after`. `recorded` has lines of the recorded output.
/// A new pattern must not match these lines.
#[must_use]
pub fn weakenings(before: &Definition, after: &Definition, recorded: &[String]) -> Vec<Weakening> {
    let mut comparison = Comparison { before, after, recorded, weakenings: Vec::new() };
    comparison.compare_documents();
    for state in before.states() {
        comparison.compare_state(state);
    }
    comparison.report_new_states();
    comparison.weakenings
}

/// Comparison of a machine before and after a patch.
struct Comparison<'a> {
    before: &'a Definition,
    after: &'a Definition,
    recorded: &'a [String],
    weakenings: Vec<Weakening>,
}

impl<'a> Comparison<'a> {
    fn report(&mut self, path: impl Into<String>, what: impl Into<String>) {
        self.weakenings.push(Weakening { path: path.into(), what: what.into() });
    }

    /// Compares the documents without their states.
    fn compare_documents(&mut self) {
        let (Some(before), Some(after)) = (self.before.document().as_object(), self.after.document().as_object())
        else {
            return;
        };
        for key in keys(before, after).filter(|key| !DESCRIPTIVE_FIELDS.contains(key) && *key != "states") {
            let path = format!("/{key}");
            match (key, before.get(key), after.get(key)) {
                (_, before, after) if before == after => {}
                ("arguments" | "return_values", before, after) => self.compare_contract(key, before, after),
                ("initial_state", ..) => {
                    let first = Edge { condition: Value::Null, to: Some(self.after.initial_state()) };
                    let known = known_targets(self.after, &first, |name| self.before.state(name).is_some());
                    if known.iter().any(|to| *to != Some(self.before.initial_state())) {
                        let [old, new] = [self.before, self.after].map(Definition::initial_state);
                        self.report(path, format!("a run no longer begins with '{old}', but with '{new}'"));
                    }
                }
                (_, Some(old), None) => self.report(path, format!("'{key}' is gone: it was {}", value_text(old))),
                (_, None, Some(new)) => self.report(path, format!("'{key}' is new: {}", value_text(new))),
                (_, old, new) => self.report(path, format!("'{key}' {}", change(old, new))),
            }
        }
    }

    fn compare_contract(&mut self, side: &str, before: Option<&Value>, after: Option<&Value>) {
        let empty = Map::new();
        let [before, after] = [before, after].map(|side| side.and_then(Value::as_object).unwrap_or(&empty));
        let what = if side == "arguments" { "argument" } else { "return value" };
        for (name, old) in before {
            let path = format!("/{side}/{}", pointer(name));
            match after.get(name) {
                None => self.report(path, format!("the {what} '{name}' is gone")),
                Some(new) if without_descriptions(new) != without_descriptions(old) => {
                    self.report(path, format!("the {what} '{name}' {}", change(Some(old), Some(new))));
                }
                // The description tells a person which secret to type.
                Some(new) if new != old && new.get("secret") == Some(&Value::Bool(true)) => {
                    let words = change(old.get("description"), new.get("description"));
                    self.report(
                        path,
                        format!("the secret '{name}' is requested in other words: its description {words}"),
                    );
                }
                Some(_) => {}
            }
        }
        if side == "arguments" {
            return self.report_new_arguments();
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            self.report(format!("/{side}/{}", pointer(name)), format!("the run also returns the value of '{name}'"));
        }
    }

    /// Reports new arguments with an effect on existing states: exported arguments are in the environment of programs,
    /// and an argument may have the name of an existing variable.
    fn report_new_arguments(&mut self) {
        let (before, after) = (self.before, self.after);
        let is_new = |name: &str| before.arguments().iter().all(|known| known.name() != name);
        for argument in after.arguments().iter().filter(|argument| is_new(argument.name())) {
            let (name, path) = (argument.name(), format!("/arguments/{}", pointer(argument.name())));
            if argument.is_exported() {
                let value = value_text(&Value::from(argument.default()));
                self.report(
                    &path,
                    format!(
                        "the new argument '{name}' is in the environment of the programs, as {value}: add export: false"
                    ),
                );
            }
            if variables(before).contains(name) {
                self.report(
                    &path,
                    format!("the new argument '{name}' has the name of a variable that is used already"),
                );
            }
            if let Some(gate) = human_gates(after).find(|_| GATE_VARIABLES.contains(&name)) {
                self.report(&path, format!("the new argument '{name}' is shown at the gate '{}'", gate.name()));
            }
        }
    }

    fn compare_state(&mut self, before: &'a State) {
        let name = before.name();
        let path = format!("/states/{}", pointer(name));
        let Some(after) = self.after.state(name) else {
            let is_gate = human_gates(self.before).any(|gate| gate.name() == name);
            return self.report(path, format!("the {} '{name}' is gone", if is_gate { "gate" } else { "state" }));
        };
        let (Some(old), Some(new)) = (document(self.before, name), document(self.after, name)) else { return };
        for key in keys(old, new).filter(|key| !DESCRIPTIVE_FIELDS.contains(key)) {
            let path = format!("{path}/{key}");
            match (key, old.get(key), new.get(key)) {
                ("action", Some(old), Some(new)) => self.compare_action(&path, before, old, new),
                (_, before, after) if before == after => {}
                // `compare_transitions` compares the targets.
                ("transitions" | "on_timeout" | "on_exhausted", ..) => {}
                ("timeout" | "max_visits", old, new) => self.compare_limit(&path, (before, key), old, new),
                ("on_unknown", _, Some(new)) if *new == "ask" => {
                    let what = "asks how to continue where its failure used to end the run: an agent may choose the next state";
                    self.report(path, format!("'{name}' {what}"));
                }
                ("on_unknown", Some(old), _) if *old == "ask" => {
                    self.report(path, format!("'{name}' no longer asks when it finds nothing that it expects"));
                }
                (_, old, new) => self.report(path, format!("'{key}' of '{name}' {}", change(old, new))),
            }
        }
        self.compare_transitions(&path, before, after);
    }

    /// Reports a raised limit, and a lowered limit that lets the run continue.
    fn compare_limit(&mut self, path: &str, (state, key): (&State, &str), old: Option<&Value>, new: Option<&Value>) {
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        // A state without a limit has the default limit.
        let default_limit = tool::DEFAULT_TIMEOUT.as_secs_f64();
        let is_lower = match (number(old), number(new)) {
            (Some(old), Some(new)) => new <= old,
            (None, Some(new)) if old.is_none() => key == "max_visits" || new <= default_limit,
            _ => false,
        };
        let [old, new] = [old, new].map(|value| value.map_or_else(|| "no limit".to_owned(), value_text));
        if !is_lower {
            return self.report(path, format!("the limit '{key}' was {old} and is {new}"));
        }
        let continues = match key {
            "max_visits" => state.on_exhausted().is_some(),
            // At the gate of an asking state, an agent may choose how the run continues.
            _ => state.action().tool() == tool::GATE || state.asks_when_unknown() || may_continue_late(state),
        };
        if continues {
            self.report(path, format!("'{}' is left sooner: the limit '{key}' was {old} and is {new}", state.name()));
        }
    }

    fn compare_action(&mut self, path: &str, before: &State, old: &Value, new: &Value) {
        let state = before.name();
        let tool = |action: &Value| action.get("tool").cloned().unwrap_or_default();
        if tool(old) != tool(new) {
            let action = self.after.state(state).map(|state| self.describe_action(state)).unwrap_or_default();
            return self
                .report(format!("{path}/tool"), format!("'{state}' did {} and now {action}", value_text(&tool(old))));
        }
        let is_gate = tool(old) == tool::GATE;
        let empty = Map::new();
        let [old, new] = [old, new].map(|action| action.get("params").and_then(Value::as_object).unwrap_or(&empty));
        for key in keys(old, new) {
            let path = format!("{path}/params/{}", pointer(key));
            match (key, old.get(key), new.get(key)) {
                (_, old, new) if is_same(old, new) => {}
                ("timeout", old, new) => self.compare_limit(&path, (before, key), old, new),
                ("answered_by", old, new) if is_gate => {
                    let who = |value: Option<&Value>| {
                        value.and_then(Value::as_str).unwrap_or(AnsweredBy::Human.name()).to_owned()
                    };
                    self.report(
                        path,
                        format!("the gate '{state}' is answered by {}, and was by {}", who(new), who(old)),
                    );
                }
                (_, old, new) if is_gate => {
                    self.report(path, format!("the gate '{state}' asks something else: '{key}' {}", change(old, new)));
                }
                ("pattern" | "patterns", Some(old), Some(new)) => match self.new_alternatives(old, new) {
                    Some(alternatives) => {
                        let then = self.next_typed_text(state);
                        for alternative in alternatives {
                            let (reason, sources) = (legible(&alternative.reason()), self.sources(&alternative.text));
                            self.report(&path, format!("'{state}' waits for something else: {reason}{sources}{then}"));
                        }
                    }
                    None => {
                        let change =
                            format!("the pattern {}{}", change(Some(old), Some(new)), self.next_typed_text(state));
                        self.report(path, format!("'{state}' waits for something else: {change}"));
                    }
                },
                (_, old, new) => {
                    let sources = new.map(|new| self.sources(&new.to_string())).unwrap_or_default();
                    let change = change(old, new);
                    self.report(path, format!("'{state}' does something else: '{key}' {change}{sources}"));
                }
            }
        }
    }

    /// Returns the alternatives added to patterns, and the patterns added at the end of a list. In a list, existing
    /// patterns must stay the same, because conditions compare them by text. `None` for any other change.
    fn new_alternatives(&self, old: &Value, new: &Value) -> Option<Vec<NewAlternative>> {
        fn texts(value: &Value) -> Option<Vec<&str>> {
            match value {
                Value::String(pattern) => Some(vec![pattern]),
                Value::Array(items) => items.iter().map(Value::as_str).collect(),
                _ => None,
            }
        }
        let (old_texts, new_texts) = (texts(old)?, texts(new)?);
        let is_list = old.is_array();
        let is_longer = new.is_array() == is_list && (!is_list || new_texts.starts_with(&old_texts));
        new_alternatives(&old_texts, &new_texts, self.recorded).filter(|_| is_longer)
    }

    /// Returns the texts that are typed next after a state and its passive successors, as the end of a sentence.
    fn next_typed_text(&self, name: &str) -> String {
        let describe = |name: &&str| {
            let state = self.after.state(name)?;
            let param = |key| state.action().params().get(key).map(value_text);
            match state.action().tool() {
                tool::SEND_INPUT => match (param("input_text"), param("keys")) {
                    (Some(text), _) => Some(format!("'{name}' types {text}{}", self.sources(&text))),
                    (None, keys) => Some(format!("'{name}' presses {}", keys.unwrap_or_default())),
                },
                tool::DIALOGUE => Some(format!("'{name}' answers by rules")),
                _ => None,
            }
        };
        let descriptions: Vec<String> =
            self.active_neighbours(name, |name| self.targets(name)).iter().filter_map(describe).collect();
        if descriptions.is_empty() { String::new() } else { format!(", and then {}", descriptions.join(", or ")) }
    }

    /// Returns the values that the patch gives to the variables in text, with their sources, as the end of a
    /// sentence.
    fn sources(&self, text: &str) -> String {
        let mut sentence = String::new();
        let mut known = BTreeSet::new();
        let mut pending: Vec<String> = variables_in(text).into_iter().collect();
        while let Some(name) = pending.pop().filter(|_| sentence.len() < MAX_SOURCES_BYTES) {
            if !known.insert(name.clone()) {
                continue;
            }
            let default = |definition: &'a Definition| {
                definition
                    .arguments()
                    .iter()
                    .find(|argument| argument.name() == name)
                    .and_then(|argument| argument.default())
            };
            let new_default = default(self.after).filter(|new_default| default(self.before) != Some(*new_default));
            let new_default = new_default.map(|value| (Value::from(value), "by default".to_owned()));
            let assignments =
                self.after.states().iter().filter(|state| state.action().tool() == tool::SET).filter_map(|state| {
                    let value = |state: &State| state.action().params().get(&name).cloned();
                    let value_before = self.before.state(state.name()).and_then(value);
                    let value = value(state).filter(|value| Some(value) != value_before.as_ref())?;
                    Some((value, format!("by '{}'", state.name())))
                });
            for (value, by) in new_default.into_iter().chain(assignments) {
                sentence.push_str(&format!(", where {{{name}}} is {} {by}", value_text(&value)));
                pending.extend(variables_in(&value.to_string()));
            }
        }
        sentence
    }

    /// Returns the target states of a state in the patched machine.
    fn targets(&self, name: &str) -> Vec<&'a str> {
        let state = self.after.state(name);
        state.into_iter().flat_map(|state| edges(self.after, state)).filter_map(|edge| edge.to).collect()
    }

    /// Returns the states of the patched machine that lead to a state.
    fn origins(&self, name: &str) -> Vec<&'a str> {
        let leads = |state: &&State| edges(self.after, state).iter().any(|edge| edge.to == Some(name));
        self.after.states().iter().filter(leads).map(State::name).collect()
    }

    /// Returns the nearest states on the paths from a state that act or are gates for a person. `next` returns the
    /// neighbours in one direction.
    fn active_neighbours(&self, name: &str, next: impl Fn(&str) -> Vec<&'a str>) -> BTreeSet<&'a str> {
        let is_skipped = |state: &State| PASSIVE_TOOLS.contains(&state.action().tool()) && !is_human_gate(state);
        let (mut neighbours, mut visited, mut pending) = (BTreeSet::new(), BTreeSet::new(), next(name));
        while let Some(name) = pending.pop() {
            let Some(state) = self.after.state(name) else { continue };
            if !is_skipped(state) {
                neighbours.insert(name);
            } else if visited.insert(name) {
                pending.extend(next(name));
            }
        }
        neighbours
    }

    /// Returns whether two conditions are equal, or differ only in additional alternatives of a pattern.
    fn is_same_condition(&self, old: &Value, new: &Value) -> bool {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                let is_same = |(key, value): (&String, &Value)| match (key.as_str(), new.get(key)) {
                    // With `pattern_no_match`, more alternatives make a condition hold less often.
                    ("pattern", Some(new_value))
                        if new.get("condition").is_some_and(|word| word != "pattern_match") =>
                    {
                        value == new_value
                    }
                    ("pattern" | "pattern_match", Some(new_value)) => {
                        value == new_value || self.new_alternatives(value, new_value).is_some()
                    }
                    ("condition", Some(new_value)) => self.is_same_condition(value, new_value),
                    (_, new_value) => new_value == Some(value),
                };
                old.len() == new.len() && old.iter().all(is_same)
            }
            _ => old == new,
        }
    }

    /// Compares the targets of a state, following edges through new states.
    fn compare_transitions(&mut self, path: &str, before: &'a State, after: &'a State) {
        let (old, new) = (edges(self.before, before), edges(self.after, after));
        let mut is_kept = vec![false; old.len()];
        let mut last = 0;
        for edge in &new {
            let targets = known_targets(self.after, edge, |name| self.before.state(name).is_some());
            // New states may return to a passive state, because it types nothing.
            let is_passive = PASSIVE_TOOLS.contains(&before.action().tool());
            for target in
                targets.into_iter().filter(|target| *target != Some(before.name()) || edge.to == *target || !is_passive)
            {
                let is_itself = target == Some(before.name());
                let old_index = old
                    .iter()
                    .position(|known| known.to == target && self.is_same_condition(&known.condition, &edge.condition));
                let target = target.map_or_else(|| "the end of the run".to_owned(), |name| format!("'{name}'"));
                match old_index {
                    Some(old_index) if old[old_index].condition != edge.condition => {
                        (is_kept[old_index], last) = (true, last.max(old_index));
                        let when = describe_condition(&edge.condition);
                        self.report(
                            format!("{path}/transitions"),
                            format!("'{}' leads to {target} more often than before: {when}", before.name()),
                        );
                    }
                    Some(old_index) if old_index < last => {
                        is_kept[old_index] = true;
                        self.report(
                            format!("{path}/transitions"),
                            format!("'{}' leads to {target} before other conditions are tried", before.name()),
                        );
                    }
                    Some(old_index) => {
                        is_kept[old_index] = true;
                        last = old_index;
                    }
                    // The edge leads back to the state.
                    None if is_itself => self.report_repetition(path, before, edge),
                    None => {
                        let when = describe_condition(&edge.condition);
                        self.report(
                            format!("{path}/transitions"),
                            format!("'{}' now leads to {target} {when}", before.name()),
                        );
                    }
                }
            }
        }
        for (edge, _) in old.iter().zip(is_kept).filter(|(_, is_kept)| !is_kept) {
            let target = edge.to.map_or_else(|| "the end of the run".to_owned(), |name| format!("'{name}'"));
            let when = describe_condition(&edge.condition);
            self.report(
                format!("{path}/transitions"),
                format!("'{}' no longer leads to {target} {when}", before.name()),
            );
        }
    }

    fn report_repetition(&mut self, path: &str, state: &State, edge: &Edge<'_>) {
        let (name, when) = (state.name(), describe_condition(&edge.condition));
        self.report(format!("{path}/transitions"), format!("'{name}' is now repeated {when}"));
    }

    /// Reports the effects of a new state on existing states: on their terminal, and on the values that they use.
    fn report_new_state(&mut self, state: &State) {
        let (name, path) = (state.name(), format!("/states/{}", pointer(state.name())));
        if state.action().tool() == tool::OPEN_TERMINAL {
            self.report(
                &path,
                format!("the new state '{name}' opens a terminal, which becomes the terminal of states that name none"),
            );
        }
        if state.action().tool() == tool::GATE {
            let who = if is_human_gate(state) { "a person" } else { "an agent, or anyone," };
            let params = value_text(&Value::from(state.action().params().clone()));
            self.report(&path, format!("the new state '{name}' asks {who} something: {params}"));
        }
        self.report_position(state, &path);
        if let Some(next) = typed_unchecked_after(self.after, state) {
            self.report(&path, format!("'{next}' types after the new state '{name}' without a check of its effect"));
        }
        let text = document(self.after, name).map(|state| Value::from(state.clone()).to_string()).unwrap_or_default();
        let sets =
            |variable: &String| text.contains(&format!("<{variable}>")) || text.contains(&format!("\"{variable}\""));
        let prefix = format!("{name}_");
        let sets_fields = ![tool::SLEEP, tool::SET, tool::RETURN, tool::FAIL].contains(&state.action().tool());
        // The result of an action may set these variables.
        let is_of_result =
            |variable: &String| RESULT_VARIABLES.contains(&variable.as_str()) || variable.starts_with(&prefix);
        for variable in variables(self.before) {
            if sets(&variable) || (sets_fields && is_of_result(&variable)) {
                let value = state.action().params().get(&variable).filter(|_| state.action().tool() == tool::SET);
                let value = value.map(|value| format!(": {}", value_text(value))).unwrap_or_default();
                self.report(
                    &path,
                    format!("the new state '{name}' may set {{{variable}}}, which the workflow uses{value}"),
                );
            }
        }
        let arguments = self.before.arguments().iter().filter(|argument| argument.is_secret());
        let secrets: Vec<String> = arguments
            .map(|argument| argument.name().to_owned())
            .chain(self.after.secrets().map(crate::definition::secret_variable))
            .filter(|secret| {
                text.contains(&format!("{{{secret}")) || text.contains(&format!("\"secret\":\"{secret}\""))
            })
            .collect();
        for secret in secrets {
            self.report(&path, format!("the new state '{name}' uses the secret '{secret}'"));
        }
    }

    /// Reports a new state between a gate for a person and the approved action. For a state that types nothing, also
    /// reports three facts: a gate displays the result, no other state names the terminal, and the state delays a
    /// checked input.
    fn report_position(&mut self, state: &State, path: &str) {
        let (tool, params, name) = (state.action().tool(), state.action().params(), state.name());
        if READING_TOOLS.contains(&tool) {
            let session = |state: &State| state.action().params().get("session_id").cloned();
            let is_other = |session_id: &Value| {
                self.before.states().iter().all(|known| session(known).as_ref() != Some(session_id))
            };
            if let Some(terminal) = session(state).filter(is_other) {
                self.report(path, format!("the new state '{name}' reads the terminal {}", value_text(&terminal)));
            }
            let reached = reached_from(self.after, [name], "");
            if let Some(gate) = human_gates(self.after).find(|gate| reached.contains(gate.name())) {
                let what = format!("the result of the new state '{name}' is shown at the gate '{}'", gate.name());
                self.report(path, what);
            }
        }
        let (before, after) = (
            self.active_neighbours(name, |name| self.origins(name)),
            self.active_neighbours(name, |name| self.targets(name)),
        );
        let state_of = |name: &&str| self.after.state(name);
        let acts = after.iter().filter_map(state_of).any(|state| !is_human_gate(state));
        let gate = before.iter().filter_map(state_of).find(|state| acts && is_human_gate(state)).map(State::name);
        // A state there may change the environment of the approved action, or its text by setting a variable.
        if let Some(gate) = gate.filter(|_| !is_human_gate(state)) {
            let what = format!("the new state '{name}' is between the gate '{gate}' and the approved action");
            self.report(path, what);
        }
        let is_judgement = tool == tool::GATE && !is_human_gate(state);
        if !(READING_TOOLS.contains(&tool) || tool == tool::SLEEP || is_judgement) {
            return;
        }
        // A wait for a specific question is a new check, and reading the screen takes no time.
        let pattern = params.get("pattern").and_then(Value::as_str);
        let checks = params.contains_key("reads") && pattern.is_some_and(|pattern| !matches_nearly_anything(pattern));
        let waits = |state: &State| state.action().params().keys().any(|key| key == "pattern" || key == "patterns");
        let types = |state: &&State| [tool::SEND_INPUT, tool::DIALOGUE].contains(&state.action().tool());
        let input_state = after.iter().filter_map(state_of).find(types).map(State::name);
        if let Some(input_state) = input_state
            && !checks
            && tool != "get_screen_content"
            && before.iter().filter_map(state_of).any(waits)
        {
            let what = format!("the new state '{name}' takes time between a check and the input of '{input_state}'");
            self.report(path, what);
        }
    }

    /// Reports each new state that acts, with its action, and the gates for a person that a path to the state avoids.
    fn report_new_states(&mut self) {
        let gates: Vec<(&str, _)> =
            human_gates(self.before).map(|gate| (gate.name(), reached_without(self.after, gate.name()))).collect();
        let is_new = |state: &&State| self.before.state(state.name()).is_none();
        for state in self.after.states().iter().filter(is_new) {
            if !PASSIVE_TOOLS.contains(&state.action().tool()) {
                let (name, path) = (state.name(), format!("/states/{}", pointer(state.name())));
                self.report(&path, format!("the new state '{name}' acts: {}", self.describe_action(state)));
                for (gate, _) in gates.iter().filter(|(_, reached)| reached.contains(name)) {
                    self.report(&path, format!("the new state '{name}' acts without the gate '{gate}'"));
                }
            }
            self.report_new_state(state);
        }
    }

    /// Returns a description of a state's action with all parameters.
    fn describe_action(&self, state: &State) -> String {
        let (tool, params) = (state.action().tool(), state.action().params());
        // The main parameter, with its verb.
        let (verb, main_param) = match tool {
            tool::RUN_COMMAND => ("it runs", "command"),
            tool::SEND_INPUT if params.contains_key("input_text") => ("it types", "input_text"),
            tool::SEND_INPUT => ("it presses", "keys"),
            tool::OPEN_TERMINAL => ("it opens a terminal with", "shell"),
            tool::EXIT_TERMINAL => ("it closes the terminal", "session_id"),
            tool::PUT_FILE => ("it writes the file", "path"),
            tool::GET_FILE => ("it reads the file", "path"),
            tool::RUN_WORKFLOW => ("it starts the workflow", "workflow_name"),
            tool::PARALLEL => ("it starts at once", "workflows"),
            tool::DIALOGUE => ("it answers by rules", "rules"),
            "run_node" => ("it calls the node", "node_id"),
            "run_graph" => ("it calls the graph", "graph_id"),
            _ => ("it does", ""),
        };
        let mut text = match params.get(main_param) {
            Some(value) => format!("{verb} {value}"),
            None if main_param.is_empty() => format!("{verb} {tool}"),
            None => verb.to_owned(),
        };
        let other_params: Map<String, Value> = params
            .iter()
            .filter(|(key, _)| *key != main_param)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !other_params.is_empty() {
            text = format!("{text}, with {}", Value::from(other_params));
        }
        if let Some(each) = document(self.after, state.name()).and_then(|state| state.get("for_each")) {
            text = format!("{text}, for each of {each}");
        }
        format!("{}{}", legible(&text), self.sources(&text))
    }
}

/// Returns the names of the variables in the texts of a machine.
fn variables(definition: &Definition) -> BTreeSet<String> {
    variables_in(&definition.document().to_string())
}

fn variables_in(text: &str) -> BTreeSet<String> {
    let name = |(start, _): (usize, &str)| {
        let after = &text[start + 1..];
        let end = after.find(|character: char| !character.is_alphanumeric() && character != '_')?;
        Some(after[..end].to_owned()).filter(|_| end > 0 && after[end..].starts_with(['}', '|', '.', '[']))
    };
    text.match_indices('{').filter_map(name).collect()
}

/// Returns the keys of two objects, each once.
fn keys<'v>(before: &'v Map<String, Value>, after: &'v Map<String, Value>) -> impl Iterator<Item = &'v str> {
    before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))).map(String::as_str)
}

/// Returns whether a run may continue from a state without its output: by `on_timeout`, or under a condition that
/// requires no output.
fn may_continue_late(state: &State) -> bool {
    state.on_timeout().is_some()
        || state.transitions().iter().any(|transition| !transition.condition().demands_output())
}

/// Returns a description of an edge's condition.
fn describe_condition(condition: &Value) -> String {
    match condition.as_str() {
        Some("on_timeout") => "when its time is up".to_owned(),
        Some("on_exhausted") => "when it was visited as often as it may be".to_owned(),
        Some("end") => "by itself".to_owned(),
        _ => format!("on {}", value_text(condition)),
    }
}

fn without_descriptions(variable: &Value) -> Value {
    let mut variable = variable.clone();
    if let Some(fields) = variable.as_object_mut() {
        DESCRIPTIVE_FIELDS.iter().for_each(|word| drop(fields.shift_remove(*word)));
    }
    variable
}

/// Maximum size of a sentence about the sources of values, without its last source.
const MAX_SOURCES_BYTES: usize = 16 << 10;

fn pointer(key: &str) -> String {
    crate::definition::escaped(key)
}
