//! What a patch weakens.
//!
//! Whatever a patch changes is named, except what is known to leave every check as it was: words for people, a pattern with
//! more alternatives that are held by words, shorter time limits that end nothing but the run, arguments with a default that are not
//! exported, and new states that do nothing and lead to where the run would have gone under the same condition. So a name may be given
//! to a change that does no harm, and never the other way round.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::alternatives::{NotWider, is_wider};
use super::paths::{Edge, document, edges, human_gates, known_targets, reached_without};
use super::unchecked::typed_unchecked_behind;
use crate::definition::{Definition, State};
use crate::tool;

/// One thing that a patch weakens, or may weaken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakening {
    /// Where, as a JSON pointer (RFC 6901) into the document before or after.
    pub place: String,
    /// What, as a sentence without a full stop.
    pub what: String,
}

impl fmt::Display for Weakening {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.what, self.place)
    }
}

/// The longest value that a sentence shows, in characters.
const LONGEST_SHOWN: usize = 120;

/// The most characters of what a new state does that a sentence shows, and how many of them are its end.
const LONGEST_ACTION: usize = 1000;
const SHOWN_END: usize = 200;

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

/// Variables that the result of an action sets, and that states use under these names.
const RESULT_VARIABLES: [&str; 6] = ["answer", "exit_code", "match_text", "output", "screen_content", "error"];

/// Returns what the machine `after` weakens of the machine `before`. `recorded` has lines that programs printed when the
/// machine did what it was made for: a new pattern must not match them.
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
                        self.name(place, format!("a run no longer begins with '{}'", self.before.initial_state()));
                    }
                }
                (_, Some(old), Some(new)) => {
                    self.name(place, format!("'{key}' was {} and is {}", shown(old), shown(new)));
                }
                (_, Some(_), None) => self.name(place, format!("'{key}' is gone")),
                (_, None, _) => self.name(place, format!("'{key}' is new")),
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
                    self.name(place, format!("the {what} '{name}' was {} and is {}", shown(old), shown(new)));
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
                self.name(
                    &place,
                    format!("the new argument '{name}' is in the environment of the programs: add export: false"),
                );
            }
            if variables(before).contains(name) {
                self.name(&place, format!("the new argument '{name}' has the name of a variable that is used already"));
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
                (_, before, after) if before == after => {}
                // Compared by where they lead.
                ("transitions" | "on_timeout" | "on_exhausted", ..) => {}
                ("action", Some(old), Some(new)) => self.action(&place, before, old, new),
                ("timeout" | "max_visits", old, new) => self.limit(&place, (before, key), old, new),
                ("on_unknown", _, Some(new)) if *new == "ask" => {}
                ("on_unknown", Some(old), _) if *old == "ask" => {
                    self.name(place, format!("'{name}' no longer asks when it finds nothing that it expects"));
                }
                (_, old, new) => {
                    let [old, new] = [old, new].map(|value| value.map_or_else(|| "nothing".to_owned(), shown));
                    self.name(place, format!("'{key}' of '{name}' was {old} and is {new}"));
                }
            }
        }
        self.ways(&place, before, after);
    }

    /// Names a limit that is raised, and one that is lowered where the run goes on once it is passed.
    fn limit(&mut self, place: &str, (state, key): (&State, &str), old: Option<&Value>, new: Option<&Value>) {
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        // An action without a limit has the usual one.
        let usual = tool::USUAL_LIMIT.as_secs_f64();
        let is_lower = match (number(old), number(new)) {
            (Some(old), Some(new)) => new <= old,
            (None, Some(new)) if old.is_none() => key == "max_visits" || new <= usual,
            _ => false,
        };
        if !is_lower {
            let [old, new] = [old, new].map(|value| value.map_or_else(|| "no limit".to_owned(), shown));
            return self.name(place, format!("the limit '{key}' was {old} and is {new}"));
        }
        let goes_on = match key {
            "max_visits" => state.on_exhausted().is_some(),
            _ => state.action().tool() == tool::GATE || may_go_on_late(state),
        };
        if goes_on {
            let [old, new] = [old, new].map(|value| value.map_or_else(|| "no limit".to_owned(), shown));
            self.name(place, format!("'{}' is left sooner: the limit '{key}' was {old} and is {new}", state.name()));
        }
    }

    fn action(&mut self, place: &str, of: &State, old: &Value, new: &Value) {
        let state = of.name();
        let tool = |action: &Value| action.get("tool").cloned().unwrap_or_default();
        if tool(old) != tool(new) {
            let (old, new) = (shown(&tool(old)), shown(&tool(new)));
            return self.name(format!("{place}/tool"), format!("'{state}' did {old} and does {new}"));
        }
        if tool(old) == tool::GATE {
            return self.name(format!("{place}/params"), format!("the gate '{state}' asks something else"));
        }
        let empty = Map::new();
        let [old, new] = [old, new].map(|action| action.get("params").and_then(Value::as_object).unwrap_or(&empty));
        for key in keys(old, new) {
            let place = format!("{place}/params/{}", pointer(key));
            match (key, old.get(key), new.get(key)) {
                (_, old, new) if old == new => {}
                ("timeout", old, new) => self.limit(&place, (of, key), old, new),
                ("pattern" | "patterns", Some(old), Some(new)) => {
                    if let Err(why) = self.is_wider(old, new) {
                        let why = match why {
                            NotWider::Other => format!("the pattern was {} and is {}", shown(old), shown(new)),
                            why => why.reason(cut),
                        };
                        self.name(place, format!("'{state}' waits for something else: {why}"));
                    }
                }
                (_, old, new) => {
                    let [old, new] = [old, new].map(|value| value.map_or_else(|| "nothing".to_owned(), shown));
                    self.name(place, format!("'{state}' does something else: '{key}' was {old} and is {new}"));
                }
            }
        }
    }

    /// Checks that a pattern has only more alternatives, or that a list has more patterns behind those that are there: which
    /// one was found, conditions say by its text.
    fn is_wider(&self, old: &Value, new: &Value) -> Result<(), NotWider> {
        fn texts(value: &Value) -> Option<Vec<&str>> {
            match value {
                Value::String(pattern) => Some(vec![pattern]),
                Value::Array(all) => all.iter().map(Value::as_str).collect(),
                _ => None,
            }
        }
        let is_list = old.is_array();
        match (texts(old), texts(new)) {
            (Some(old), Some(given)) if new.is_array() == is_list && (!is_list || given.starts_with(&old)) => {
                is_wider(&old, &given, self.recorded)
            }
            _ => Err(NotWider::Other),
        }
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
                    ("pattern" | "pattern_match", Some(given)) => value == given || self.is_wider(value, given).is_ok(),
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
            // A wait that is returned to from new states types nothing twice.
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
                self.name(&place, format!("the new state '{name}' may set {{{variable}}}, which the workflow uses"));
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

    /// Names each new state that acts, with what it does, and the gates for a person that it passes by.
    fn new_states(&mut self) {
        let gates: Vec<(&str, _)> =
            human_gates(self.before).map(|gate| (gate.name(), reached_without(self.after, gate.name()))).collect();
        let is_new = |state: &&State| self.before.state(state.name()).is_none();
        for state in self.after.states().iter().filter(is_new) {
            if !PASSIVE.contains(&state.action().tool()) {
                let (name, place) = (state.name(), format!("/states/{}", pointer(state.name())));
                self.name(&place, format!("the new state '{name}' acts: {}", deed(state)));
                for (gate, _) in gates.iter().filter(|(_, reached)| reached.contains(name)) {
                    self.name(&place, format!("the new state '{name}' acts without the gate '{gate}'"));
                }
            }
            self.new_state(state);
        }
    }
}

/// Returns what a state does, in words: its action with all of its parameters.
fn deed(state: &State) -> String {
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
    let count = text.chars().count();
    if count <= LONGEST_ACTION {
        return text;
    }
    // The end is shown as well: what matters may stand there.
    let head: String = text.chars().take(LONGEST_ACTION - SHOWN_END).collect();
    let tail: String = text.chars().skip(count - SHOWN_END).collect();
    format!("{head} … {} more characters … {tail}", count - LONGEST_ACTION)
}

/// Returns the names of the variables that the texts of a machine have.
fn variables(definition: &Definition) -> BTreeSet<String> {
    let text = definition.document().to_string();
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

/// Whether a run may go on from a state because less time has brought less output: by `on_timeout`, or under a condition
/// that demands nothing.
fn may_go_on_late(state: &State) -> bool {
    state.on_timeout().is_some()
        || state.transitions().iter().any(|transition| !transition.condition().demands_output())
}

/// Returns when an edge is taken, in words.
fn when(condition: &Value) -> String {
    match condition.as_str() {
        Some("on_timeout") => "when its time is up".to_owned(),
        Some("on_exhausted") => "when it was visited as often as it may be".to_owned(),
        Some("end") => "by itself".to_owned(),
        _ => format!("on {}", shown(condition)),
    }
}

fn without_words(variable: &Value) -> Value {
    let mut variable = variable.clone();
    if let Some(fields) = variable.as_object_mut() {
        WORDS.iter().for_each(|word| drop(fields.shift_remove(*word)));
    }
    variable
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn pointer(key: &str) -> String {
    crate::definition::escaped(key)
}
