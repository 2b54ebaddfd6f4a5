//! Initial variables that a run requires.
//!
//! A placeholder is known if it names an argument, a field of a state's result or a standard variable. Any other name
//! must be an initial variable, and a definition does not declare initial variables. The parser warns about such a
//! name, and a run cannot start without a value for it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::{escaped, suggestion};
use super::{Definition, Problem, State, ToolCatalog};
use crate::contract::{Contract, ContractVariable, InvalidVariables, is_environment_variable};
use crate::form::{Field, Form};
use crate::substitute::{self, Placeholder};
use crate::variables::STANDARD_NAMES;
use crate::{dialogue, groups, items, parallel, tool};

/// A placeholder variable that the definition does not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NeededVariable {
    /// The name of the variable, without a path into its value.
    name: String,
    /// The JSON pointer to the first text with the placeholder.
    pointer: String,
    /// Suggestion that ends the sentence: `, did you mean 'x'?`, or a full stop.
    suggestion: String,
    /// True if only messages of `fail` use the variable. They keep placeholders without a value.
    is_optional: bool,
}

/// Fields that the result of every action may have.
const COMMON_RESULT_FIELDS: [&str; 4] = ["success", "error", "timeout_occurred", "outcome_unknown"];

/// Collects the initial variables that these states need, each once with the pointer to its first use.
pub(super) fn collect_needs(
    tools: &dyn ToolCatalog,
    arguments: &Contract,
    return_values: &Contract,
    states: &[State],
) -> Vec<NeededVariable> {
    let fields: Vec<(&str, Option<Vec<String>>)> =
        states.iter().map(|state| (state.name.as_str(), result_fields(tools, state))).collect();
    let waits = states.iter().filter(|state| tool::waits(&state.action.tool, &state.action.params));
    let patterns = waits.flat_map(|state| groups::patterns(state.action.params()));
    let sets = states.iter().filter(|state| state.action.tool == tool::SET);
    let assigned = sets.flat_map(|state| state.action.params.keys().map(String::as_str));
    let dialogues = states.iter().filter(|state| state.action.tool == tool::DIALOGUE);
    let patterns =
        patterns.filter_map(Value::as_str).chain(dialogues.flat_map(|state| dialogue::patterns(state.action.params())));
    // In a parallel `for_each`, the item is visible only in the parameters of its own run.
    let sequential = states.iter().filter(|state| state.for_each_parallel().is_none());
    let items = sequential.filter_map(State::for_each).map(|for_each| for_each.name.as_str());
    let assigned_names: Vec<&str> = patterns.flat_map(groups::group_names_in).chain(assigned).chain(items).collect();
    let is_known = |name: &str| {
        let is_field_of_state = |(state, fields): &(&str, Option<Vec<String>>)| {
            let field = name.strip_prefix(state).and_then(|rest| rest.strip_prefix('_'));
            field.is_some_and(|field| match fields {
                Some(fields) => fields.iter().any(|known| known == field),
                None => !field.is_empty(),
            })
        };
        STANDARD_NAMES.contains(&name)
            || assigned_names.contains(&name)
            || arguments.get(name).is_some()
            || fields.iter().any(is_field_of_state)
    };
    let mut needs: Vec<NeededVariable> = Vec::new();
    let in_states = states.iter().flat_map(|state| {
        let is_optional = state.action.tool == tool::FAIL;
        let item = state.for_each_parallel().map(|(for_each, _)| for_each.name.as_str());
        let params = format!("/states/{}/action/", escaped(&state.name));
        let is_item = move |placeholder: &Placeholder<'_>, pointer: &str| {
            Some(placeholder.root()) == item && pointer.starts_with(&params)
        };
        let unbound =
            placeholders(state).into_iter().filter(move |(placeholder, pointer)| !is_item(placeholder, pointer));
        unbound.map(move |placeholder| (is_optional, placeholder))
    });
    let in_return_values = return_values.iter().flat_map(|value| {
        let pointer = format!("/return_values/{}/from", escaped(value.name()));
        let placeholders = value.from.as_deref().into_iter().flat_map(substitute::placeholders);
        placeholders.map(move |placeholder| (false, (placeholder, pointer.clone())))
    });
    for (is_optional, (placeholder, pointer)) in in_states.chain(in_return_values) {
        let name = placeholder.root();
        if placeholder.may_stay || placeholder.is_secret() || is_known(name) {
            continue;
        }
        if let Some(needed) = needs.iter_mut().find(|needed| needed.name == name) {
            needed.is_optional &= is_optional;
            continue;
        }
        let state_fields = fields
            .iter()
            .flat_map(|(state, fields)| fields.iter().flatten().map(move |field| format!("{state}_{field}")));
        let known: Vec<String> = arguments
            .names()
            .chain(assigned_names.iter().copied())
            .chain(STANDARD_NAMES.iter().copied())
            .map(str::to_owned)
            .chain(state_fields)
            .collect();
        let suggestion =
            Some(suggestion(name, known.iter().map(String::as_str))).filter(|suggestion| !suggestion.is_empty());
        let suggestion = suggestion.unwrap_or_else(|| ".".to_owned());
        needs.push(NeededVariable { name: name.to_owned(), pointer, suggestion, is_optional });
    }
    needs
}

/// Returns the possible fields of the result of a state. `None` if any field is possible.
fn result_fields(tools: &dyn ToolCatalog, state: &State) -> Option<Vec<String>> {
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
                // A form with placeholders is not known until the state is entered.
                Some(Err(_)) => return None,
                Some(Ok(form)) => form.fields().iter().map(Field::name).collect(),
                None => Vec::new(),
            };
            texts(&[&["answer", "by", "through", "reason"], &names[..]].concat())
        }
        // Functions and remote workflows may return any fields.
        tool::RUN_WORKFLOW => return None,
        other => tools.fields(other)?,
    };
    if action.tool() == tool::RUN_COMMAND {
        fields.push(tool::RAW_OUTPUT.to_owned());
    }
    if tool::waits(action.tool(), action.params()) {
        // An input that waits returns the fields of a wait, too.
        fields.extend(texts(&tool::WAIT_FIELDS));
    }
    fields.extend(texts(&COMMON_RESULT_FIELDS));
    if state.for_each().is_some() {
        fields.extend(texts(&[items::RESULTS, items::FAILED]));
    }
    Some(fields)
}

/// Returns the placeholders of a state, each with its JSON pointer.
fn placeholders(state: &State) -> Vec<(Placeholder<'_>, String)> {
    let pointer_of_state = format!("/states/{}", escaped(&state.name));
    let mut texts = Vec::new();
    for (pointer, value) in state.replaceable_params() {
        collect_texts(value, format!("{pointer_of_state}/action/params{pointer}"), &mut texts);
    }
    if let Some(for_each) = state.for_each() {
        collect_texts(&for_each.items, format!("{pointer_of_state}/for_each"), &mut texts);
    }
    for (index, transition) in state.transitions.iter().enumerate() {
        let pointer = format!("{pointer_of_state}/transitions/{index}/condition");
        texts.extend(transition.condition.texts().into_iter().map(|text| (text, pointer.clone())));
    }
    let placeholders_in = |(text, pointer): (_, String)| {
        substitute::placeholders(text).map(move |placeholder| (placeholder, pointer.clone()))
    };
    let placeholders = texts.into_iter().flat_map(placeholders_in);
    if state.action.tool != tool::DIALOGUE {
        return placeholders.collect();
    }
    let (params_pointer, params) = (format!("{pointer_of_state}/action/params"), &state.action.params);
    let is_answer = |pointer: &str| pointer.strip_prefix(&params_pointer).is_some_and(dialogue::is_answer);
    let is_known = |(placeholder, pointer): &(Placeholder<'_>, String)| {
        is_answer(pointer) && dialogue::comes_from_question(params, placeholder.root())
    };
    placeholders.filter(|placeholder| !is_known(placeholder)).collect()
}

/// Collects the strings in a value, each with its JSON pointer.
fn collect_texts<'v>(value: &'v Value, pointer: String, texts: &mut Vec<(&'v str, String)>) {
    match value {
        Value::String(text) => texts.push((text, pointer)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| collect_texts(item, format!("{pointer}/{index}"), texts));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| collect_texts(field, format!("{pointer}/{}", escaped(name)), texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the names of the secrets that these states use and that are not arguments.
pub(super) fn collect_secrets(arguments: &Contract, return_values: &Contract, states: &[State]) -> BTreeSet<String> {
    let texts =
        states.iter().flat_map(State::texts).chain(return_values.iter().filter_map(|value| value.from.as_deref()));
    let in_texts =
        texts.flat_map(substitute::placeholders).filter_map(|value| value.name.strip_prefix(substitute::SECRET));
    let dialogues = states.iter().filter(|state| state.action.tool == tool::DIALOGUE);
    let answers = dialogues.flat_map(|state| dialogue::secret_names(state.action.params()).map(|(_, name)| name));
    let answers = answers.filter(|name| arguments.get(name).is_none());
    in_texts.chain(answers).map(str::to_owned).collect()
}

impl NeededVariable {
    /// Returns the warning about this variable.
    pub(super) fn warning(&self) -> Problem {
        let Self { name, pointer, suggestion, .. } = self;
        let message = format!(
            "{{{name}}} is neither an argument nor a result of a state{suggestion} Start runs with it: add {name} to \
             initial_variables. To use it as literal text, write {{{{{name}}}}}"
        );
        Problem::warning(pointer, message)
    }

    fn violation(&self) -> String {
        let Self { name, pointer, suggestion, .. } = self;
        format!(
            "{{{name}}} at {pointer} has no value{suggestion} Add {name} to initial_variables, or write {{{{{name}}}}} for literal \
             text"
        )
    }
}

impl Definition {
    /// Returns the warnings of a nested definition, except warnings about the variables that it receives (`given`).
    pub(super) fn warnings_with(self, given: Option<&Value>) -> Vec<Problem> {
        let is_given = |name: &str| match given {
            None | Some(Value::Null) => false,
            Some(Value::Object(given)) => given.contains_key(name),
            // The variables are not known until the state is entered.
            Some(_) => true,
        };
        let resolved_warnings: Vec<Problem> =
            self.needs.iter().filter(|needed| is_given(&needed.name)).map(NeededVariable::warning).collect();
        self.warnings.into_iter().filter(|warning| !resolved_warnings.contains(warning)).collect()
    }

    /// Renames initial variables that differ from an argument only in case, unless the definition also uses their own
    /// names.
    pub fn rename_by_case(&self, variables: &mut Map<String, Value>) {
        for argument in self.arguments.iter().map(ContractVariable::name) {
            let is_meant = |name: &&String| {
                name.eq_ignore_ascii_case(argument) && !self.needs.iter().any(|needed| needed.name == **name)
            };
            if variables.contains_key(argument) {
                continue;
            }
            if let Some(name) = variables.keys().find(is_meant).cloned()
                && let Some(value) = variables.remove(&name)
            {
                variables.insert(argument.to_owned(), value);
            }
        }
    }

    /// Checks that a run can start with these variables: arguments match their schemas, and all needed variables are
    /// present, without secrets by reference. `is_in_shell` returns whether the run's shell may have a variable; such an argument needs no initial
    /// value.
    ///
    /// # Errors
    /// Returns all violations. The messages do not reveal secrets.
    pub fn check_start(
        &self,
        initial: &Map<String, Value>,
        is_in_shell: impl Fn(&str) -> bool,
    ) -> Result<(), InvalidVariables> {
        let mut violations = self.arguments.violations(initial);
        let missing = self.arguments.iter().filter(|argument| {
            let name = argument.name();
            argument.is_required()
                && argument.default().is_none()
                && !initial.contains_key(name)
                && !(is_environment_variable(name) && is_in_shell(name))
                && !self.sets_variable(name)
        });
        violations.extend(missing.map(|argument| {
            let name = argument.name();
            let description = argument.description().map(|about| format!(" ({about})")).unwrap_or_default();
            format!("argument {name}{description} is missing; add {name} to initial_variables")
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

    /// Returns whether a state opens a terminal.
    #[must_use]
    pub fn opens_terminal(&self) -> bool {
        self.states.iter().any(|state| state.action.tool == tool::OPEN_TERMINAL)
    }
}
