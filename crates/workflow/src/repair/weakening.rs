//! Weakenings of a machine by a patch.
//!
//! The list names every change of a patch, except changes that certainly leave every check the same: words for people,
//! shorter time limits that end nothing but the run, arguments with a default and no export, and new states that do
//! and ask nothing, make no check old, and lead to where the run would have gone under the same condition. So the list may name
//! a change that does no harm, and never omits a harmful one. It shows texts to type, to run or to wait for whole.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::alternatives::{NewAlternative, matches_nearly_anything, new_alternatives};
use super::legible::{change, is_same, legible, value_text};
use super::paths::{Edge, document, edges, human_gates, is_human_gate, known_targets, reached_from, reached_without};
use super::unchecked::typed_unchecked_behind;
use crate::definition::{Definition, State};
use crate::question::AnsweredBy;
use crate::tool;

/// One thing that a patch weakens, or may weaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakening {
    /// Place, as a JSON pointer (RFC 6901) into the document before or after.
    pub place: String,
    /// The weakening, as a sentence without a full stop.
    pub what: String,
}

impl fmt::Display for Weakening {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.what, self.place)
    }
}

/// Fields of the document and of a state that are words for people.
const WORDS: [&str; 3] = ["name", "description", "$schema"];

/// Actions that change nothing outside the run: they ask, wait, look, set variables and end the run. Any other action acts.
const PASSIVE: [&str; 8] = [
    tool::GATE,
    tool::RETURN,
    tool::FAIL,
    tool::SLEEP,
    tool::SET,
    tool::AWAIT_OUTPUT,
    "get_screen_content",
    "list_terminal_sessions",
];

/// Actions that read a terminal and type nothing.
const READING: [&str; 2] = [tool::AWAIT_OUTPUT, "get_screen_content"];

/// Variables that a gate for a person shows.
const SHOWN_AT_GATES: [&str; 2] = ["match_text", "screen_content"];

/// Variables that the result of an action sets, and that states use under these names.
const RESULT_VARIABLES: [&str; 6] = ["answer", "exit_code", "match_text", "output", "screen_content", "error"];

/// Returns what the machine `after` weakens of the machine `before`. `recorded` has lines that programs printed when
/// the machine did its task: a new pattern must not match them.
#[must_use]
pub fn weakenings(before: &Definition, after: &Definition, recorded: &[String]) -> Vec<Weakening> {
    let mut comparison = Comparison { before, after, recorded, found: Vec::new() };
    comparison.documents();
    for state in before.states() {
        comparison.state(state);
    }
    comparison.new_states();
    comparison.found
}

struct Comparison<'a> {
    before: &'a Definition,
    after: &'a Definition,
    recorded: &'a [String],
    found: Vec<Weakening>,
}

impl<'a> Comparison<'a> {
    fn name(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.found.push(Weakening { place: place.into(), what: what.into() });
    }

    /// Compares what is not in a state.
    fn documents(&mut self) {
        let (Some(before), Some(after)) = (self.before.document().as_object(), self.after.document().as_object())
        else {
            return;
        };
        for key in keys(before, after).filter(|key| !WORDS.contains(key) && *key != "states") {
            let place = format!("/{key}");
            match (key, before.get(key), after.get(key)) {
                (_, before, after) if before == after => {}
                ("arguments" | "return_values", before, after) => self.contract(key, before, after),
                ("initial_state", ..) => {
                    let first = Edge { condition: Value::Null, to: Some(self.after.initial_state()) };
                    let known = known_targets(self.after, &first, |name| self.before.state(name).is_some());
                    if known.iter().any(|to| *to != Some(self.before.initial_state())) {
                        let [old, new] = [self.before, self.after].map(Definition::initial_state);
                        self.name(place, format!("a run no longer begins with '{old}', but with '{new}'"));
                    }
                }
                (_, Some(old), None) => self.name(place, format!("'{key}' is gone: it was {}", value_text(old))),
                (_, None, Some(new)) => self.name(place, format!("'{key}' is new: {}", value_text(new))),
                (_, old, new) => self.name(place, format!("'{key}' {}", change(old, new))),
            }
        }
    }

    fn contract(&mut self, side: &str, before: Option<&Value>, after: Option<&Value>) {
        let empty = Map::new();
        let [before, after] = [before, after].map(|side| side.and_then(Value::as_object).unwrap_or(&empty));
        let what = if side == "arguments" { "argument" } else { "return value" };
        for (name, old) in before {
            let place = format!("/{side}/{}", pointer(name));
            match after.get(name) {
                None => self.name(place, format!("the {what} '{name}' is gone")),
                Some(new) if without_words(new) != without_words(old) => {
                    self.name(place, format!("the {what} '{name}' {}", change(Some(old), Some(new))));
                }
                // A person types the secret that these words request.
                Some(new) if new != old && new.get("secret") == Some(&Value::Bool(true)) => {
                    let words = change(old.get("description"), new.get("description"));
                    self.name(
                        place,
                        format!("the secret '{name}' is requested in other words: its description {words}"),
                    );
                }
                Some(_) => {}
            }
        }
        if side == "arguments" {
            return self.new_arguments();
        }
        for name in after.keys().filter(|name| !before.contains_key(*name)) {
            self.name(format!("/{side}/{}", pointer(name)), format!("the run also returns the value of '{name}'"));
        }
    }

    /// Names new arguments that change what the machine did so far: an exported one is in the environment of its programs,
    /// and one may have the name of a variable that the machine has from elsewhere.
    fn new_arguments(&mut self) {
        let (before, after) = (self.before, self.after);
        let is_new = |name: &str| before.arguments().iter().all(|known| known.name() != name);
        for argument in after.arguments().iter().filter(|argument| is_new(argument.name())) {
            let (name, place) = (argument.name(), format!("/arguments/{}", pointer(argument.name())));
            if argument.is_exported() {
                let value = value_text(&Value::from(argument.default()));
                self.name(
                    &place,
                    format!(
                        "the new argument '{name}' is in the environment of the programs, as {value}: add export: false"
                    ),
                );
            }
            if variables(before).contains(name) {
                self.name(&place, format!("the new argument '{name}' has the name of a variable that is used already"));
            }
            if let Some(gate) = human_gates(after).find(|_| SHOWN_AT_GATES.contains(&name)) {
                self.name(&place, format!("the new argument '{name}' is shown at the gate '{}'", gate.name()));
            }
        }
    }

    fn state(&mut self, before: &'a State) {
        let name = before.name();
        let place = format!("/states/{}", pointer(name));
        let Some(after) = self.after.state(name) else {
            let is_gate = human_gates(self.before).any(|gate| gate.name() == name);
            return self.name(place, format!("the {} '{name}' is gone", if is_gate { "gate" } else { "state" }));
        };
        let (Some(old), Some(new)) = (document(self.before, name), document(self.after, name)) else { return };
        for key in keys(old, new).filter(|key| !WORDS.contains(key)) {
            let place = format!("{place}/{key}");
            match (key, old.get(key), new.get(key)) {
                ("action", Some(old), Some(new)) => self.action(&place, before, old, new),
                (_, before, after) if before == after => {}
                // Compared by where they lead.
                ("transitions" | "on_timeout" | "on_exhausted", ..) => {}
                ("timeout" | "max_visits", old, new) => self.limit(&place, (before, key), old, new),
                ("on_unknown", _, Some(new)) if *new == "ask" => {
                    let what = "asks where its failure ended the run so far: an agent may choose where the run goes on";
                    self.name(place, format!("'{name}' {what}"));
                }
                ("on_unknown", Some(old), _) if *old == "ask" => {
                    self.name(place, format!("'{name}' no longer asks when it finds nothing that it expects"));
                }
                (_, old, new) => self.name(place, format!("'{key}' of '{name}' {}", change(old, new))),
            }
        }
        self.ways(&place, before, after);
    }

    /// Names a raised limit, and a lowered one where the run continues after it.
    fn limit(&mut self, place: &str, (state, key): (&State, &str), old: Option<&Value>, new: Option<&Value>) {
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        // An action without a limit has the usual one.
        let usual = tool::DEFAULT_TIMEOUT.as_secs_f64();
        let is_lower = match (number(old), number(new)) {
            (Some(old), Some(new)) => new <= old,
            (None, Some(new)) if old.is_none() => key == "max_visits" || new <= usual,
            _ => false,
        };
        let [old, new] = [old, new].map(|value| value.map_or_else(|| "no limit".to_owned(), value_text));
        if !is_lower {
            return self.name(place, format!("the limit '{key}' was {old} and is {new}"));
        }
        let goes_on = match key {
            "max_visits" => state.on_exhausted().is_some(),
            // Where it asks, an agent may choose where the run goes on.
            _ => state.action().tool() == tool::GATE || state.asks_when_unknown() || may_go_on_late(state),
        };
        if goes_on {
            self.name(place, format!("'{}' is left sooner: the limit '{key}' was {old} and is {new}", state.name()));
        }
    }

    fn action(&mut self, place: &str, of: &State, old: &Value, new: &Value) {
        let state = of.name();
        let tool = |action: &Value| action.get("tool").cloned().unwrap_or_default();
        if tool(old) != tool(new) {
            let does = self.after.state(state).map(|state| self.deed(state)).unwrap_or_default();
            return self
                .name(format!("{place}/tool"), format!("'{state}' did {} and now {does}", value_text(&tool(old))));
        }
        let is_gate = tool(old) == tool::GATE;
        let empty = Map::new();
        let [old, new] = [old, new].map(|action| action.get("params").and_then(Value::as_object).unwrap_or(&empty));
        for key in keys(old, new) {
            let place = format!("{place}/params/{}", pointer(key));
            match (key, old.get(key), new.get(key)) {
                (_, old, new) if is_same(old, new) => {}
                ("timeout", old, new) => self.limit(&place, (of, key), old, new),
                ("answered_by", old, new) if is_gate => {
                    let who = |value: Option<&Value>| {
                        value.and_then(Value::as_str).unwrap_or(AnsweredBy::Human.name()).to_owned()
                    };
                    self.name(
                        place,
                        format!("the gate '{state}' is answered by {}, and was by {}", who(new), who(old)),
                    );
                }
                (_, old, new) if is_gate => {
                    self.name(place, format!("the gate '{state}' asks something else: '{key}' {}", change(old, new)));
                }
                ("pattern" | "patterns", Some(old), Some(new)) => match self.new_alternatives(old, new) {
                    Some(all) => {
                        let then = self.typed_next(state);
                        for one in all {
                            let (why, sources) = (legible(&one.reason()), self.sources(&one.text));
                            self.name(&place, format!("'{state}' waits for something else: {why}{sources}{then}"));
                        }
                    }
                    None => {
                        let change = format!("the pattern {}{}", change(Some(old), Some(new)), self.typed_next(state));
                        self.name(place, format!("'{state}' waits for something else: {change}"));
                    }
                },
                (_, old, new) => {
                    let sources = new.map(|new| self.sources(&new.to_string())).unwrap_or_default();
                    let change = change(old, new);
                    self.name(place, format!("'{state}' does something else: '{key}' {change}{sources}"));
                }
            }
        }
    }

    /// Returns the alternatives that a pattern has in addition to the present ones, or that a list of patterns has
    /// behind the present ones: conditions identify the matching one by its text. `None` where it is another pattern.
    fn new_alternatives(&self, old: &Value, new: &Value) -> Option<Vec<NewAlternative>> {
        fn texts(value: &Value) -> Option<Vec<&str>> {
            match value {
                Value::String(pattern) => Some(vec![pattern]),
                Value::Array(all) => all.iter().map(Value::as_str).collect(),
                _ => None,
            }
        }
        let (known, given) = (texts(old)?, texts(new)?);
        let is_list = old.is_array();
        let is_longer = new.is_array() == is_list && (!is_list || given.starts_with(&known));
        new_alternatives(&known, &given, self.recorded).filter(|_| is_longer)
    }

    /// Returns the next typed text behind a state, where nothing but passive states stand in between, as the end of a
    /// sentence.
    fn typed_next(&self, name: &str) -> String {
        let typed = |name: &&str| {
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
        let typed: Vec<String> = self.beyond(name, |name| self.targets(name)).iter().filter_map(typed).collect();
        if typed.is_empty() { String::new() } else { format!(", and then {}", typed.join(", or ")) }
    }

    /// Returns the sources of the variables' values in a text, as far as the patch states them, as the end of a sentence.
    fn sources(&self, text: &str) -> String {
        let mut sentence = String::new();
        let mut known = BTreeSet::new();
        let mut open: Vec<String> = variables_in(text).into_iter().collect();
        while let Some(name) = open.pop().filter(|_| sentence.len() < MAX_SOURCES_BYTES) {
            if !known.insert(name.clone()) {
                continue;
            }
            let default = |definition: &'a Definition| {
                definition.arguments().iter().find(|one| one.name() == name).and_then(|one| one.default())
            };
            let given = default(self.after).filter(|given| default(self.before) != Some(*given));
            let given = given.map(|value| (Value::from(value), "by default".to_owned()));
            let set =
                self.after.states().iter().filter(|state| state.action().tool() == tool::SET).filter_map(|state| {
                    let value = |state: &State| state.action().params().get(&name).cloned();
                    let value_before = self.before.state(state.name()).and_then(value);
                    let value = value(state).filter(|value| Some(value) != value_before.as_ref())?;
                    Some((value, format!("by '{}'", state.name())))
                });
            for (value, by) in given.into_iter().chain(set) {
                sentence.push_str(&format!(", where {{{name}}} is {} {by}", value_text(&value)));
                open.extend(variables_in(&value.to_string()));
            }
        }
        sentence
    }

    /// Returns the states that one leads to in the patched machine.
    fn targets(&self, name: &str) -> Vec<&'a str> {
        let state = self.after.state(name);
        state.into_iter().flat_map(|state| edges(self.after, state)).filter_map(|edge| edge.to).collect()
    }

    /// Returns the states of the patched machine that lead to one.
    fn origins(&self, name: &str) -> Vec<&'a str> {
        let leads = |state: &&State| edges(self.after, state).iter().any(|edge| edge.to == Some(name));
        self.after.states().iter().filter(leads).map(State::name).collect()
    }

    /// Returns the first states on the ways from one, past passive states that are no gates for a person.
    fn beyond(&self, name: &str, next: impl Fn(&str) -> Vec<&'a str>) -> BTreeSet<&'a str> {
        let passes = |state: &State| PASSIVE.contains(&state.action().tool()) && !is_human_gate(state);
        let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), next(name));
        while let Some(name) = open.pop() {
            let Some(state) = self.after.state(name) else { continue };
            if !passes(state) {
                found.insert(name);
            } else if seen.insert(name) {
                open.extend(next(name));
            }
        }
        found
    }

    /// Returns whether a condition is another one, or has a pattern with more alternatives in its place.
    fn is_same_condition(&self, old: &Value, new: &Value) -> bool {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                let is_same = |(key, value): (&String, &Value)| match (key.as_str(), new.get(key)) {
                    // A pattern beside the word pattern_no_match holds less often with more alternatives.
                    ("pattern", Some(given)) if new.get("condition").is_some_and(|word| word != "pattern_match") => {
                        value == given
                    }
                    ("pattern" | "pattern_match", Some(given)) => {
                        value == given || self.new_alternatives(value, given).is_some()
                    }
                    ("condition", Some(given)) => self.is_same_condition(value, given),
                    (_, given) => given == Some(value),
                };
                old.len() == new.len() && old.iter().all(is_same)
            }
            _ => old == new,
        }
    }

    /// Compares where a state leads, past states that are new.
    fn ways(&mut self, place: &str, before: &'a State, after: &'a State) {
        let (old, new) = (edges(self.before, before), edges(self.after, after));
        let mut kept = vec![false; old.len()];
        let mut last = 0;
        for edge in &new {
            let targets = known_targets(self.after, edge, |name| self.before.state(name).is_some());
            // A wait that new states return to types nothing twice.
            let is_passive = PASSIVE.contains(&before.action().tool());
            for to in targets.into_iter().filter(|to| *to != Some(before.name()) || edge.to == *to || !is_passive) {
                let is_itself = to == Some(before.name());
                let same = old
                    .iter()
                    .position(|known| known.to == to && self.is_same_condition(&known.condition, &edge.condition));
                let to = to.map_or_else(|| "the end of the run".to_owned(), |name| format!("'{name}'"));
                match same {
                    Some(same) if old[same].condition != edge.condition => {
                        (kept[same], last) = (true, last.max(same));
                        let when = when(&edge.condition);
                        self.name(
                            format!("{place}/transitions"),
                            format!("'{}' leads to {to} more often than before: {when}", before.name()),
                        );
                    }
                    Some(same) if same < last => {
                        kept[same] = true;
                        self.name(
                            format!("{place}/transitions"),
                            format!("'{}' leads to {to} before other conditions are tried", before.name()),
                        );
                    }
                    Some(same) => {
                        kept[same] = true;
                        last = same;
                    }
                    // A wait for more, or a time limit, that returns to the state itself.
                    None if is_itself => self.again(place, before, edge),
                    None => {
                        let when = when(&edge.condition);
                        self.name(
                            format!("{place}/transitions"),
                            format!("'{}' now leads to {to} {when}", before.name()),
                        );
                    }
                }
            }
        }
        for (edge, _) in old.iter().zip(kept).filter(|(_, kept)| !kept) {
            let to = edge.to.map_or_else(|| "the end of the run".to_owned(), |name| format!("'{name}'"));
            let when = when(&edge.condition);
            self.name(format!("{place}/transitions"), format!("'{}' no longer leads to {to} {when}", before.name()));
        }
    }

    fn again(&mut self, place: &str, state: &State, edge: &Edge<'_>) {
        let (name, when) = (state.name(), when(&edge.condition));
        self.name(format!("{place}/transitions"), format!("'{name}' is now repeated {when}"));
    }

    /// Names what a new state changes for those that were there: the terminal that they work in, the values that they use.
    fn new_state(&mut self, state: &State) {
        let (name, place) = (state.name(), format!("/states/{}", pointer(state.name())));
        if state.action().tool() == tool::OPEN_TERMINAL {
            self.name(
                &place,
                format!("the new state '{name}' opens a terminal, in which states that name none work then"),
            );
        }
        if state.action().tool() == tool::GATE {
            let who = if is_human_gate(state) { "a person" } else { "an agent, or anyone," };
            let asked = value_text(&Value::from(state.action().params().clone()));
            self.name(&place, format!("the new state '{name}' asks {who} something: {asked}"));
        }
        self.passive_state(state, &place);
        if let Some(next) = typed_unchecked_behind(self.after, state) {
            self.name(&place, format!("'{next}' types behind the new state '{name}' whatever that brought about"));
        }
        let text = document(self.after, name).map(|state| Value::from(state.clone()).to_string()).unwrap_or_default();
        let sets =
            |variable: &String| text.contains(&format!("<{variable}>")) || text.contains(&format!("\"{variable}\""));
        let own = format!("{name}_");
        let sets_fields = ![tool::SLEEP, tool::SET, tool::RETURN, tool::FAIL].contains(&state.action().tool());
        // Every action sets these by its result.
        let is_of_result =
            |variable: &String| RESULT_VARIABLES.contains(&variable.as_str()) || variable.starts_with(&own);
        for variable in variables(self.before) {
            if sets(&variable) || (sets_fields && is_of_result(&variable)) {
                let value = state.action().params().get(&variable).filter(|_| state.action().tool() == tool::SET);
                let value = value.map(|value| format!(": {}", value_text(value))).unwrap_or_default();
                self.name(
                    &place,
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
            self.name(&place, format!("the new state '{name}' uses the secret '{secret}'"));
        }
    }

    /// Names a new state that types nothing where a person sees what it reads, where it reads a terminal that no other
    /// state names, and where it stands between a check and what the check is for.
    fn passive_state(&mut self, state: &State, place: &str) {
        let (tool, params, name) = (state.action().tool(), state.action().params(), state.name());
        if READING.contains(&tool) {
            let session = |state: &State| state.action().params().get("session_id").cloned();
            let is_other =
                |given: &Value| self.before.states().iter().all(|known| session(known).as_ref() != Some(given));
            if let Some(terminal) = session(state).filter(is_other) {
                self.name(place, format!("the new state '{name}' reads the terminal {}", value_text(&terminal)));
            }
            let reached = reached_from(self.after, [name], "");
            if let Some(gate) = human_gates(self.after).find(|gate| reached.contains(gate.name())) {
                let what = format!("what the new state '{name}' reads is shown at the gate '{}'", gate.name());
                self.name(place, what);
            }
        }
        let is_judgement = tool == tool::GATE && !is_human_gate(state);
        if !(READING.contains(&tool) || tool == tool::SLEEP || is_judgement) {
            return;
        }
        let (before, behind) =
            (self.beyond(name, |name| self.origins(name)), self.beyond(name, |name| self.targets(name)));
        let state_of = |name: &&str| self.after.state(name);
        let acts = behind.iter().filter_map(state_of).any(|state| !is_human_gate(state));
        let gate = before.iter().filter_map(state_of).find(|state| acts && is_human_gate(state)).map(State::name);
        if let Some(gate) = gate {
            let what = format!(
                "the new state '{name}' stands behind the gate '{gate}', before what is approved there is done"
            );
            self.name(place, what);
        }
        // A wait for another question checks anew, and a look takes no time.
        let pattern = params.get("pattern").and_then(Value::as_str);
        let checks = params.contains_key("reads") && pattern.is_some_and(|pattern| !matches_nearly_anything(pattern));
        let waits = |state: &State| state.action().params().keys().any(|key| key == "pattern" || key == "patterns");
        let types = |state: &&State| [tool::SEND_INPUT, tool::DIALOGUE].contains(&state.action().tool());
        let typed = behind.iter().filter_map(state_of).find(types).map(State::name);
        if let Some(typed) = typed
            && !checks
            && tool != "get_screen_content"
            && before.iter().filter_map(state_of).any(waits)
        {
            let what = format!("the new state '{name}' takes time behind a check, and '{typed}' types then");
            self.name(place, what);
        }
    }

    /// Names each new state that acts, with what it does, and the gates for a person that it passes by.
    fn new_states(&mut self) {
        let gates: Vec<(&str, _)> =
            human_gates(self.before).map(|gate| (gate.name(), reached_without(self.after, gate.name()))).collect();
        let is_new = |state: &&State| self.before.state(state.name()).is_none();
        for state in self.after.states().iter().filter(is_new) {
            if !PASSIVE.contains(&state.action().tool()) {
                let (name, place) = (state.name(), format!("/states/{}", pointer(state.name())));
                self.name(&place, format!("the new state '{name}' acts: {}", self.deed(state)));
                for (gate, _) in gates.iter().filter(|(_, reached)| reached.contains(name)) {
                    self.name(&place, format!("the new state '{name}' acts without the gate '{gate}'"));
                }
            }
            self.new_state(state);
        }
    }

    /// Returns what a state does, in words: its action with all of its parameters.
    fn deed(&self, state: &State) -> String {
        let (tool, params) = (state.action().tool(), state.action().params());
        // The parameter that says most, and the verb before it.
        let (verb, first) = match tool {
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
        let mut text = match params.get(first) {
            Some(value) => format!("{verb} {value}"),
            None if first.is_empty() => format!("{verb} {tool}"),
            None => verb.to_owned(),
        };
        let rest: Map<String, Value> =
            params.iter().filter(|(key, _)| *key != first).map(|(key, value)| (key.clone(), value.clone())).collect();
        if !rest.is_empty() {
            text = format!("{text}, with {}", Value::from(rest));
        }
        if let Some(each) = document(self.after, state.name()).and_then(|state| state.get("for_each")) {
            text = format!("{text}, for each of {each}");
        }
        format!("{}{}", legible(&text), self.sources(&text))
    }
}

/// Returns the names of the variables that the texts of a machine have.
fn variables(definition: &Definition) -> BTreeSet<String> {
    variables_in(&definition.document().to_string())
}

fn variables_in(text: &str) -> BTreeSet<String> {
    let name = |(at, _): (usize, &str)| {
        let rest = &text[at + 1..];
        let end = rest.find(|sign: char| !sign.is_alphanumeric() && sign != '_')?;
        Some(rest[..end].to_owned()).filter(|_| end > 0 && rest[end..].starts_with(['}', '|', '.', '[']))
    };
    text.match_indices('{').filter_map(name).collect()
}

/// Returns the keys of both, each once.
fn keys<'v>(before: &'v Map<String, Value>, after: &'v Map<String, Value>) -> impl Iterator<Item = &'v str> {
    before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))).map(String::as_str)
}

/// Returns whether a run may continue from a state because less time has brought less output: by `on_timeout`, or under
/// a condition that demands nothing.
fn may_go_on_late(state: &State) -> bool {
    state.on_timeout().is_some()
        || state.transitions().iter().any(|transition| !transition.condition().demands_output())
}

/// Returns the condition of an edge, in words.
fn when(condition: &Value) -> String {
    match condition.as_str() {
        Some("on_timeout") => "when its time is up".to_owned(),
        Some("on_exhausted") => "when it was visited as often as it may be".to_owned(),
        Some("end") => "by itself".to_owned(),
        _ => format!("on {}", value_text(condition)),
    }
}

fn without_words(variable: &Value) -> Value {
    let mut variable = variable.clone();
    if let Some(fields) = variable.as_object_mut() {
        WORDS.iter().for_each(|word| drop(fields.shift_remove(*word)));
    }
    variable
}

/// Maximum number of bytes of a sentence about where values come from, without the last one.
const MAX_SOURCES_BYTES: usize = 16 << 10;

fn pointer(key: &str) -> String {
    crate::definition::escaped(key)
}
