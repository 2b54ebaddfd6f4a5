//! Required initial variables of a run.
//!
//! A placeholder has a known name if that is an argument, a field of a state's result or a standard name. Any other
//! must be among the initial variables, which a definition does not list: it is a warning of the parser, and an error
//! at the start of a run without it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::{escaped, suggestion};
use super::{Definition, Problem, State, ToolCatalog, secret_variable};
use crate::contract::{Contract, ContractVariable, InvalidVariables, is_of_environment};
use crate::form::{Field, Form};
use crate::substitute::{self, Placeholder};
use crate::variables::STANDARD_NAMES;
use crate::{dialogue, groups, items, parallel, tool};

/// A variable in a placeholder that nothing in the definition gives a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NeededVariable {
    /// Its name, without the path into it.
    name: String,
    /// The place of the first text with it.
    pointer: String,
    /// The nearest known name, as `, did you mean 'x'?`, or a full stop.
    meant: String,
    /// True if only messages of `fail` have it, which appear as their author wrote them.
    is_optional: bool,
}

/// Fields that the result of every action may have.
const OF_EVERY_RESULT: [&str; 4] = ["success", "error", "timeout_occurred", "outcome_unknown"];

/// Returns the needed variables of these states, each once, with its first place.
pub(super) fn collect_needs(
    tools: &dyn ToolCatalog,
    arguments: &Contract,
    return_values: &Contract,
    states: &[State],
) -> Vec<NeededVariable> {
    let fields: Vec<(&str, Option<Vec<String>>)> =
        states.iter().map(|state| (state.name.as_str(), fields_of(tools, state))).collect();
    let waits = states.iter().filter(|state| tool::waits(&state.action.tool, &state.action.params));
    let patterns = waits.flat_map(|state| groups::patterns(state.action.params()));
    let sets = states.iter().filter(|state| state.action.tool == tool::SET);
    let set = sets.flat_map(|state| state.action.params.keys().map(String::as_str));
    let dialogues = states.iter().filter(|state| state.action.tool == tool::DIALOGUE);
    let patterns =
        patterns.filter_map(Value::as_str).chain(dialogues.flat_map(|state| dialogue::patterns(state.action.params())));
    // With several runs at once, only the parameters of its run know an item.
    let in_turn = states.iter().filter(|state| state.for_each_at_once().is_none());
    let items = in_turn.filter_map(State::for_each).map(|for_each| for_each.name.as_str());
    let named: Vec<&str> = patterns.flat_map(groups::names_in).chain(set).chain(items).collect();
    let is_known = |name: &str| {
        let of_state = |(state, fields): &(&str, Option<Vec<String>>)| {
            let field = name.strip_prefix(state).and_then(|rest| rest.strip_prefix('_'));
            field.is_some_and(|field| match fields {
                Some(fields) => fields.iter().any(|known| known == field),
                None => !field.is_empty(),
            })
        };
        STANDARD_NAMES.contains(&name)
            || named.contains(&name)
            || arguments.get(name).is_some()
            || fields.iter().any(of_state)
    };
    let mut needs: Vec<NeededVariable> = Vec::new();
    let of_states = states.iter().flat_map(|state| {
        let is_optional = state.action.tool == tool::FAIL;
        let item = state.for_each_at_once().map(|(for_each, _)| for_each.name.as_str());
        let params = format!("/states/{}/action/", escaped(&state.name));
        let is_item =
            move |one: &Placeholder<'_>, pointer: &str| Some(one.root()) == item && pointer.starts_with(&params);
        let found = placeholders(state).into_iter().filter(move |(one, pointer)| !is_item(one, pointer));
        found.map(move |found| (is_optional, found))
    });
    let of_returned = return_values.iter().flat_map(|value| {
        let pointer = format!("/return_values/{}/from", escaped(value.name()));
        let found = value.from.as_deref().into_iter().flat_map(substitute::placeholders);
        found.map(move |one| (false, (one, pointer.clone())))
    });
    for (is_optional, (placeholder, pointer)) in of_states.chain(of_returned) {
        let name = placeholder.root();
        if placeholder.may_stay || placeholder.is_secret() || is_known(name) {
            continue;
        }
        if let Some(needed) = needs.iter_mut().find(|needed| needed.name == name) {
            needed.is_optional &= is_optional;
            continue;
        }
        let of_states = fields
            .iter()
            .flat_map(|(state, fields)| fields.iter().flatten().map(move |field| format!("{state}_{field}")));
        let known: Vec<String> = arguments
            .names()
            .chain(named.iter().copied())
            .chain(STANDARD_NAMES.iter().copied())
            .map(str::to_owned)
            .chain(of_states)
            .collect();
        let meant = Some(suggestion(name, known.iter().map(String::as_str))).filter(|meant| !meant.is_empty());
        let meant = meant.unwrap_or_else(|| ".".to_owned());
        needs.push(NeededVariable { name: name.to_owned(), pointer, meant, is_optional });
    }
    needs
}

/// Returns the fields that the result of a state may have; `None` where it may have any.
fn fields_of(tools: &dyn ToolCatalog, state: &State) -> Option<Vec<String>> {
    let action = state.action();
    let texts = |fields: &[&str]| fields.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut fields = match action.tool() {
        tool::SLEEP | tool::SET | tool::FAIL => Vec::new(),
        tool::RETURN => texts(&[tool::RESULT]),
        tool::DIALOGUE => texts(&dialogue::FIELDS),
        tool::PARALLEL => texts(&parallel::FIELDS),
        tool::GATE => {
            let form = action.params().get("form").map(Form::read);
            let names = match &form {
                // A form with placeholders is unknown before the entry of the state.
                Some(Err(_)) => return None,
                Some(Ok(form)) => form.fields().iter().map(Field::name).collect(),
                None => Vec::new(),
            };
            texts(&[&["answer", "by", "through"], &names[..]].concat())
        }
        // A function and a remote workflow have results of their own.
        tool::RUN_WORKFLOW => return None,
        other => tools.fields(other)?,
    };
    if action.tool() == tool::RUN_COMMAND {
        fields.push(tool::RAW_OUTPUT.to_owned());
    }
    if tool::waits(action.tool(), action.params()) {
        // An input that waits has the fields of a wait.
        fields.extend(texts(&tool::WAIT_FIELDS));
    }
    fields.extend(texts(&OF_EVERY_RESULT));
    if state.for_each().is_some() {
        fields.extend(texts(&[items::RESULTS, items::FAILED]));
    }
    Some(fields)
}

/// Returns the placeholders of a state, each with the place of its text.
fn placeholders(state: &State) -> Vec<(Placeholder<'_>, String)> {
    let at = format!("/states/{}", escaped(&state.name));
    let mut texts = Vec::new();
    for (pointer, value) in state.replaced_params() {
        texts_at(value, format!("{at}/action/params{pointer}"), &mut texts);
    }
    if let Some(for_each) = state.for_each() {
        texts_at(&for_each.items, format!("{at}/for_each"), &mut texts);
    }
    for (index, transition) in state.transitions.iter().enumerate() {
        let pointer = format!("{at}/transitions/{index}/condition");
        texts.extend(transition.condition.texts().into_iter().map(|text| (text, pointer.clone())));
    }
    let found = |(text, pointer): (_, String)| substitute::placeholders(text).map(move |one| (one, pointer.clone()));
    let found = texts.into_iter().flat_map(found);
    if state.action.tool != tool::DIALOGUE {
        return found.collect();
    }
    let (at, params) = (format!("{at}/action/params"), &state.action.params);
    let is_answer = |pointer: &str| pointer.strip_prefix(&at).is_some_and(dialogue::is_answer);
    let is_known =
        |(one, pointer): &(Placeholder<'_>, String)| is_answer(pointer) && dialogue::is_of_question(params, one.root());
    found.filter(|one| !is_known(one)).collect()
}

/// Collects the texts in a value, each with its place.
fn texts_at<'v>(value: &'v Value, pointer: String, texts: &mut Vec<(&'v str, String)>) {
    match value {
        Value::String(text) => texts.push((text, pointer)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| texts_at(item, format!("{pointer}/{index}"), texts));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| texts_at(field, format!("{pointer}/{}", escaped(name)), texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the names of the secrets that these states refer to, without those that are arguments.
pub(super) fn secrets(arguments: &Contract, return_values: &Contract, states: &[State]) -> BTreeSet<String> {
    let texts = states.iter().flat_map(State::texts).chain(return_values.iter().filter_map(|one| one.from.as_deref()));
    let of_texts = texts.flat_map(substitute::placeholders).filter_map(|one| one.name.strip_prefix(substitute::SECRET));
    let dialogues = states.iter().filter(|state| state.action.tool == tool::DIALOGUE);
    let answers = dialogues.flat_map(|state| dialogue::secret_names(state.action.params()).map(|(_, name)| name));
    let answers = answers.filter(|name| arguments.get(name).is_none());
    of_texts.chain(answers).map(str::to_owned).collect()
}

impl NeededVariable {
    /// Returns the warning that its run requires it.
    pub(super) fn warning(&self) -> Problem {
        let Self { name, pointer, meant, .. } = self;
        let message = format!(
            "{{{name}}} is no argument and no result of a state{meant} Runs must be started with it: add {name} to \
             initial_variables. If it is meant as text, write {{{{{name}}}}}"
        );
        Problem::warning(pointer, message)
    }

    fn violation(&self) -> String {
        let Self { name, pointer, meant, .. } = self;
        format!(
            "{{{name}}} at {pointer} has no value{meant} Add {name} to initial_variables, or write {{{{{name}}}}} if it is \
             meant as text"
        )
    }
}

impl Definition {
    /// Returns the warnings of a nested definition, without warnings about its given variables.
    pub(super) fn warnings_with(self, given: Option<&Value>) -> Vec<Problem> {
        let is_given = |name: &str| match given {
            None | Some(Value::Null) => false,
            Some(Value::Object(given)) => given.contains_key(name),
            // It is unknown before the entry of the state.
            Some(_) => true,
        };
        let unneeded: Vec<Problem> =
            self.needs.iter().filter(|needed| is_given(&needed.name)).map(NeededVariable::warning).collect();
        self.warnings.into_iter().filter(|warning| !unneeded.contains(warning)).collect()
    }

    /// Gives initial variables of a run the names of arguments, where they differ from those in case only and are no
    /// variables of the definition themselves.
    pub fn match_names(&self, given: &mut Map<String, Value>) {
        for argument in self.arguments.iter().map(ContractVariable::name) {
            let is_meant = |name: &&String| {
                name.eq_ignore_ascii_case(argument) && !self.needs.iter().any(|needed| needed.name == **name)
            };
            if given.contains_key(argument) {
                continue;
            }
            if let Some(name) = given.keys().find(is_meant).cloned()
                && let Some(value) = given.remove(&name)
            {
                given.insert(argument.to_owned(), value);
            }
        }
    }

    /// Checks that a run can start with these variables: variables of arguments fit their schemas, and every
    /// placeholder that nothing else gives a value is among them. `in_shell` answers whether the shell that the run
    /// will work in may have a variable; where it may not, the run requires a value of each required argument.
    ///
    /// # Errors
    /// With everything that is wrong. The messages have no values of secrets.
    pub fn check_start(
        &self,
        initial: &Map<String, Value>,
        in_shell: impl Fn(&str) -> bool,
    ) -> Result<(), InvalidVariables> {
        let mut violations = self.arguments.violations(initial);
        let missing = self.arguments.iter().filter(|argument| {
            let name = argument.name();
            argument.is_required()
                && argument.default().is_none()
                && !initial.contains_key(name)
                && !(is_of_environment(name) && in_shell(name))
                && !self.sets_variable(name)
        });
        violations.extend(missing.map(|argument| {
            let name = argument.name();
            let about = argument.description().map(|about| format!(" ({about})")).unwrap_or_default();
            format!("argument {name}{about} is missing; add {name} to initial_variables")
        }));
        let missing = self.secrets().filter(|name| !initial.contains_key(&secret_variable(name)));
        violations.extend(missing.map(|name| {
            format!("secret {name} was not found; set the variable {name} in the environment of the client that starts the run")
        }));
        let needed = self.needs.iter().filter(|needed| !needed.is_optional && !initial.contains_key(&needed.name));
        violations.extend(needed.map(NeededVariable::violation));
        if violations.is_empty() { Ok(()) } else { Err(InvalidVariables { violations }) }
    }

    /// Returns whether a state opens a terminal with this variable in its environment.
    fn sets_variable(&self, name: &str) -> bool {
        let environments = self.states.iter().filter(|state| state.action.tool == tool::OPEN_TERMINAL);
        let mut environments = environments.filter_map(|state| state.action.params.get("environment"));
        environments.any(|environment| environment.as_object().is_none_or(|set| set.contains_key(name)))
    }

    /// Returns whether one of its states opens a terminal.
    #[must_use]
    pub fn opens_terminal(&self) -> bool {
        self.states.iter().any(|state| state.action.tool == tool::OPEN_TERMINAL)
    }
}
