//! The stubs of a rehearsal: results of actions, written by an author.
//!
//! A list supplies one entry for each use, in order. More uses than entries are an error. A value outside a list is the
//! answer for every use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::PRINTS;
use crate::definition::{
    Definition, Diagnostics, JsonPath, Problem, Problems, STUB_KEYS, ToolCatalog, kind, suggestion,
};
use crate::event::NONE_OF_THESE;
use crate::tool;
use crate::variables::STANDARD_FIELDS;

/// Stubbed answers, checked against the machine that they are for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stubs {
    pub(super) states: BTreeMap<String, Answers<Stub>>,
    pub(super) tools: BTreeMap<String, Answers<Stub>>,
    pub(super) gates: BTreeMap<String, Answers<String>>,
    pub(super) shell: BTreeMap<String, String>,
    pub(super) session_id: Option<String>,
    /// Default time limit of a wait for output, if the tool has one.
    pub(super) default_wait_timeout: Option<Duration>,
}

/// The keys of a stub file.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "this type is described, never built")]
pub(crate) struct StubFile {
    states: Option<Map<String, Value>>,
    tools: Option<Map<String, Value>>,
    gates: Option<Map<String, Value>>,
    shell: Option<BTreeMap<String, String>>,
    session_id: Option<String>,
}

/// The answers to repeated uses of one stub.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answers<T> {
    /// One answer for every use.
    Always(T),
    /// One answer for each use, in order.
    InOrder(Vec<T>),
}

impl<T> Answers<T> {
    /// Returns the answer for a use; the first use has index 0.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        match self {
            Self::Always(answer) => Some(answer),
            Self::InOrder(answers) => answers.get(index),
        }
    }

    /// Returns the number of answers, if it is limited.
    pub(super) fn count(&self) -> Option<usize> {
        match self {
            Self::Always(_) => None,
            Self::InOrder(answers) => Some(answers.len()),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        match self {
            Self::Always(answer) => std::slice::from_ref(answer).iter(),
            Self::InOrder(answers) => answers.iter(),
        }
    }
}

/// The outcome of one action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stub {
    /// The action returns these fields in addition to the default fields of its tool.
    Result(Map<String, Value>),
    /// The action times out.
    Timeout,
    /// The outcome is unknown: the action may have happened or not.
    OutcomeUnknown,
}

/// The words for outcomes without fields.
const OUTCOME_WORDS: [&str; 2] = ["timeout", "outcome_unknown"];

/// Known fields of results in addition to the standard fields.
const OTHER_FIELDS: [&str; 18] = [
    "timeout_occurred",
    "reason",
    "status",
    "return_values",
    "sessions",
    "states_executed",
    "open_terminals",
    "output",
    "error_type",
    "node_id",
    "node_type",
    "input",
    "attributes",
    "groups",
    "pattern",
    "answers",
    "answered",
    PRINTS,
];

impl Stubs {
    /// Reads stubs: an object with the optional keys `states` and `tools` (results by name), `gates` (answers by
    /// state), `shell` (variables) and `session_id` (the given terminal of the run).
    ///
    /// # Errors
    /// Returns all problems at once: unknown states, tools, variables and keys, and answers that a gate does not offer.
    pub fn read(document: &Value, definition: &Definition, tools: &dyn ToolCatalog) -> Result<Self, Problems> {
        let mut reader =
            StubReader { definition, diagnostics: Diagnostics::default(), fields: known_fields(definition) };
        let stubs = reader.read_file(&JsonPath { value: document, pointer: String::new() }, tools);
        if reader.diagnostics.problems.is_empty() { Ok(stubs) } else { Err(Problems::new(reader.diagnostics.problems)) }
    }

    /// Same as [`Self::read`], for the text of a file.
    ///
    /// # Errors
    /// As for [`Self::read`]. If the text is not JSON, returns one problem with line and column.
    pub fn from_text(text: &str, definition: &Definition, tools: &dyn ToolCatalog) -> Result<Self, Problems> {
        match serde_json::from_str(text) {
            Ok(document) => Self::read(&document, definition, tools),
            Err(error) => Err(Problems::new(vec![Problem::error("", format!("this is not JSON: {error}"))])),
        }
    }
}

/// Returns the names of result fields that are known, or that conditions of the machine test.
fn known_fields(definition: &Definition) -> BTreeSet<String> {
    let transitions = definition.states().iter().flat_map(crate::State::transitions);
    let fields = transitions.flat_map(|transition| transition.condition().fields());
    let tested_fields = fields.filter_map(|field| field.split('.').next().map(str::to_owned));
    STANDARD_FIELDS.iter().chain(&OTHER_FIELDS).map(|field| (*field).to_owned()).chain(tested_fields).collect()
}

struct StubReader<'d> {
    definition: &'d Definition,
    diagnostics: Diagnostics,
    fields: BTreeSet<String>,
}

impl StubReader<'_> {
    fn read_file(&mut self, place: &JsonPath<'_>, tools: &dyn ToolCatalog) -> Stubs {
        let Some(file) = self.diagnostics.read_object(place, "a stub file", &STUB_KEYS) else {
            return Stubs::default();
        };
        let definition = self.definition;
        let states = || definition.states().iter().map(crate::State::name);
        let seconds =
            tools.schema(tool::AWAIT_OUTPUT).and_then(|schema| schema["properties"]["timeout"]["default"].as_f64());
        let default_wait_timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let mut stubs = Stubs { default_wait_timeout, ..Stubs::default() };
        if let Some(place) = file.get("states") {
            stubs.states = self.by_name(&place, "state", states().collect(), "in this workflow", Self::read_stub);
        }
        if let Some(place) = file.get("tools") {
            let mut known = tools.tools();
            known.extend(tool::MACHINE_TOOLS.iter().map(|tool| (*tool).to_owned()));
            let known = known.iter().map(String::as_str).collect();
            stubs.tools = self.by_name(&place, "tool", known, "that a workflow can use", Self::read_stub);
        }
        if let Some(place) = file.get("gates") {
            let has_gate = |name: &&str| {
                definition.state(name).is_some_and(|state| opens_gate(state) || !choices(state).is_empty())
            };
            let known = states().filter(has_gate).collect();
            stubs.gates = self.by_name(&place, "state", known, "with a gate", Self::read_answer);
            self.check_gate_answers(&stubs.gates);
        }
        if let Some(place) = file.get("shell") {
            stubs.shell = self.read_shell(&place);
        }
        if let Some(place) = file.get("session_id") {
            stubs.session_id = self.diagnostics.read_text(&place, "'session_id'").map(str::to_owned);
        }
        stubs
    }

    /// Reads stubs by the names of states, tools or gates. Unknown names are errors.
    fn by_name<T>(
        &mut self,
        place: &JsonPath<'_>,
        what: &str,
        known: Vec<&str>,
        where_from: &str,
        read: impl Fn(&mut Self, &JsonPath<'_>) -> Option<T>,
    ) -> BTreeMap<String, Answers<T>> {
        let mut by_name = BTreeMap::new();
        let Some(object) = self.diagnostics.read_free_object(place, "this") else { return by_name };
        for (name, place) in object.iter() {
            if !known.contains(&name.as_str()) {
                let hint = suggestion(name, known.iter().copied());
                self.diagnostics.error(&place.pointer, format!("there is no {what} '{name}' {where_from}{hint}"));
                continue;
            }
            let answers = if place.value.is_array() {
                let items = self.diagnostics.read_list(&place, "this");
                Some(Answers::InOrder(items.iter().filter_map(|item| read(self, item)).collect()))
            } else {
                read(self, &place).map(Answers::Always)
            };
            by_name.extend(answers.map(|answers| (name.clone(), answers)));
        }
        by_name
    }

    fn read_stub(&mut self, place: &JsonPath<'_>) -> Option<Stub> {
        match place.value {
            Value::String(word) if word == OUTCOME_WORDS[0] => Some(Stub::Timeout),
            Value::String(word) if word == OUTCOME_WORDS[1] => Some(Stub::OutcomeUnknown),
            Value::String(word) => {
                let hint = suggestion(word, OUTCOME_WORDS.into_iter());
                let message = format!(
                    "'{word}' is not an outcome; use an object with fields, or one of {}{hint}",
                    OUTCOME_WORDS.join(", ")
                );
                self.diagnostics.error(&place.pointer, message);
                None
            }
            Value::Object(fields) => {
                for field in fields.keys().filter(|field| !self.fields.contains(*field)).collect::<Vec<_>>() {
                    // Any unknown field is allowed, but a name similar to a known field is a typing mistake.
                    let hint = suggestion(field, self.fields.iter().map(String::as_str));
                    if !hint.is_empty() {
                        self.diagnostics.error(&place.pointer, format!("no known field is named '{field}'{hint}"));
                    }
                }
                if let Some(elapsed) = fields.get("elapsed_time")
                    && !elapsed.as_f64().is_some_and(|seconds| (0.0..=MAX_ELAPSED_SECONDS).contains(&seconds))
                {
                    let message = format!(
                        "'elapsed_time' must be a number of seconds from 0 to {MAX_ELAPSED_SECONDS}, not {elapsed}"
                    );
                    self.diagnostics.error(&place.pointer, message);
                }
                Some(Stub::Result(fields.clone()))
            }
            other => {
                let message = format!(
                    "a result must be an object with fields, or one of {}, not {}",
                    OUTCOME_WORDS.join(", "),
                    kind(other)
                );
                self.diagnostics.error(&place.pointer, message);
                None
            }
        }
    }

    fn read_answer(&mut self, place: &JsonPath<'_>) -> Option<String> {
        // The answer to a form is an object.
        if place.value.is_object() {
            return Some(place.value.to_string());
        }
        self.diagnostics.read_text(place, "the answer to a gate").map(str::to_owned)
    }

    /// Reports answers that their gate does not offer according to the definition.
    fn check_gate_answers(&mut self, gates: &BTreeMap<String, Answers<String>>) {
        for (name, answers) in gates {
            let Some(state) = self.definition.state(name) else { continue };
            let choices = choices(state);
            // The choices of a `gate` action are checked during the rehearsal.
            if opens_gate(state) {
                continue;
            }
            // A choice with a variable is not known yet.
            if choices.iter().any(|choice| choice.contains('{')) {
                continue;
            }
            let possible = || choices.iter().copied().chain([NONE_OF_THESE]);
            for answer in answers.iter().filter(|answer| !possible().any(|choice| choice == *answer)) {
                let offered: Vec<String> = possible().map(|choice| format!("'{choice}'")).collect();
                let message = format!("state '{name}' does not offer '{answer}'; it offers {}", offered.join(", "));
                self.diagnostics.error(&format!("/gates/{name}"), message);
            }
        }
    }

    fn read_shell(&mut self, place: &JsonPath<'_>) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        let Some(object) = self.diagnostics.read_free_object(place, "'shell'") else { return variables };
        let contract = || self.definition.arguments().names().chain(self.definition.return_values().names());
        for (name, place) in object.iter() {
            let value = match place.value {
                Value::String(text) => text.clone(),
                scalar @ (Value::Number(_) | Value::Bool(_)) => scalar.to_string(),
                other => {
                    let message = format!("the value of a variable must be a string, not {}", kind(other));
                    self.diagnostics.error(&place.pointer, message);
                    continue;
                }
            };
            if contract().any(|known| known == name) {
                variables.insert(name.clone(), value);
            } else {
                let hint = suggestion(name, contract());
                let message = format!("'{name}' is neither an argument nor a return value of this workflow{hint}");
                self.diagnostics.error(&place.pointer, message);
            }
        }
        variables
    }
}

/// Maximum duration of a stubbed action: more than the time limit of any run.
const MAX_ELAPSED_SECONDS: f64 = 100_000.0;

/// Returns whether the action of a state opens a gate.
fn opens_gate(state: &crate::State) -> bool {
    state.action().tool() == tool::GATE
}

/// Returns the descriptions that a state's gate offers, with placeholders.
fn choices(state: &crate::State) -> Vec<&str> {
    state.transitions().iter().filter_map(|transition| transition.condition().description()).collect()
}
