//! Contracts with the shell: the variables that a workflow needs, and those that it leaves.
//!
//! An argument is an environment variable that must be set before the first state, a return value one that must be set
//! after the last. This module decides what is missing, which defaults apply and which values do not fit. The driver
//! queries the shell.

mod error;
mod outline;
mod schema;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::rules::Rules;
use crate::substitute::{self, Lookup};
pub use error::InvalidVariables;
pub use outline::{contract_variables, workflow_signature};
pub use schema::ValueSchema;
pub(crate) use schema::{KEYWORDS, typed};

/// The placeholder that replaces a secret.
pub(crate) const HIDDEN: &str = "••••••";

/// Maximum number of characters of a value that an error shows.
const MAX_SHOWN_CHARS: usize = 80;

/// The variables of one side of a contract, in the order of the document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contract {
    pub(crate) variables: Vec<ContractVariable>,
}

/// One environment variable of a contract.
#[derive(Debug, Clone, PartialEq)]
pub struct ContractVariable {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
    pub(crate) default: Option<String>,
    pub(crate) secret: bool,
    pub(crate) export: Option<bool>,
    /// Of a return value: the text with variables that is its value.
    pub(crate) from: Option<String>,
    pub(crate) schema: Option<ValueSchema>,
}

impl ContractVariable {
    /// Returns the variable's name, such as `PROJECT_ROOT`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the purpose of the variable, in the author's words.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns whether the variable must be set.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Returns the value for a shell that has none.
    #[must_use]
    pub fn default(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Returns whether the value is to stay hidden.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// Returns whether an argument has an export into the environment of the run's terminal, where every program finds
    /// it. A secret has one only if its declaration has `"export": true`, a name with lower-case letters never.
    /// `{NAME}` becomes its value either way.
    #[must_use]
    pub fn is_exported(&self) -> bool {
        self.export.unwrap_or(!self.secret) && is_of_environment(&self.name)
    }

    /// Returns the declaration's setting about export into the environment of the run's terminal, if it has one.
    #[must_use]
    pub fn declared_export(&self) -> Option<bool> {
        self.export
    }

    /// Returns the required form of the value.
    #[must_use]
    pub fn schema(&self) -> Option<&ValueSchema> {
        self.schema.as_ref()
    }

    /// Returns whether a run cannot continue without knowing the variable's value.
    fn matters(&self) -> bool {
        self.required || self.default.is_some()
    }
}

/// Returns the value that a text means as an argument of a document: a list or an object where its schema demands one.
pub(crate) fn typed_argument(document: &Value, name: &str, text: &str) -> Value {
    let argument = document.get("arguments").and_then(|arguments| arguments.get(name));
    let kind = argument.and_then(|argument| argument.get("schema")?.get("type")?.as_str());
    typed(kind, text).unwrap_or_else(|| text.into())
}

/// Returns whether a variable of a contract is one of the environment too: its name is in capitals.
#[must_use]
pub fn is_of_environment(name: &str) -> bool {
    !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

impl Contract {
    /// Returns the variables, in the order of the document.
    pub fn iter(&self) -> std::slice::Iter<'_, ContractVariable> {
        self.variables.iter()
    }

    /// Returns whether there is nothing to check.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Returns the variable of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ContractVariable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Returns the values of variables made from other variables, if these have values.
    pub(crate) fn made_of(&self, variables: &dyn Lookup) -> BTreeMap<String, String> {
        let value = |variable: &ContractVariable| {
            let from = variable.from.as_deref()?;
            let is_resolved = substitute::unresolved_in(from, variables).is_none();
            is_resolved.then(|| (variable.name.clone(), substitute::text(from, variables)))
        };
        self.variables.iter().filter_map(value).collect()
    }

    /// Returns the names of the variables that the shell has.
    pub(crate) fn names_in_shell(&self) -> impl Iterator<Item = &str> {
        let is_in_shell = |variable: &&ContractVariable| variable.from.is_none() && is_of_environment(&variable.name);
        self.variables.iter().filter(is_in_shell).map(|variable| variable.name.as_str())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }

    /// Returns the variables that `initial` has a value for, as texts.
    pub(crate) fn initial_values(&self, initial: &Map<String, Value>) -> BTreeMap<String, String> {
        let value = |name: &str| Some((name.to_owned(), substitute::as_text(initial.get(name)?)));
        self.names().filter_map(value).collect()
    }

    /// Returns those of the arguments that a run exports.
    pub(crate) fn exported(&self, rules: Rules, mut values: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let is_exported = |name: &str| self.get(name).is_some_and(ContractVariable::is_exported);
        values.retain(|name, _| rules.exports_secrets() || is_exported(name));
        values
    }

    /// Returns those of the arguments whose values replace `{NAME}`: all of them; before version 5, those without an
    /// export.
    pub(crate) fn substituted(&self, rules: Rules, mut values: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let is_exported = |name: &str| self.get(name).is_none_or(ContractVariable::is_exported);
        values.retain(|name, _| rules.fills_arguments() || (!rules.exports_secrets() && !is_exported(name)));
        values
    }

    /// Returns the initial variables that do not fit their schemas, one sentence each. The sentences have no values of
    /// secrets.
    pub(crate) fn violations(&self, initial: &Map<String, Value>) -> Vec<String> {
        let values = self.initial_values(initial);
        let problem = |variable: &ContractVariable| {
            let value = values.get(&variable.name)?;
            let problem = variable.schema.as_ref()?.problem(value)?;
            let shown: String = value.chars().take(MAX_SHOWN_CHARS).collect();
            let shown = if variable.secret { HIDDEN.to_owned() } else { format!("{shown:?}") };
            Some(format!("{}={shown} {problem}", variable.name))
        };
        self.variables.iter().filter_map(problem).collect()
    }

    /// Returns the defaults of the variables without a value.
    pub(crate) fn defaults(&self, known: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let unset = self.variables.iter().filter(|variable| !known.contains_key(&variable.name));
        unset.filter_map(|variable| Some((variable.name.clone(), variable.default.clone()?))).collect()
    }

    /// Returns the required variables that have neither a value nor a default.
    pub(crate) fn missing(&self, known: &BTreeMap<String, String>) -> Vec<&str> {
        let missing = |variable: &&ContractVariable| {
            variable.required && variable.default.is_none() && !known.contains_key(&variable.name)
        };
        self.variables.iter().filter(missing).map(ContractVariable::name).collect()
    }

    /// Returns whether a run has to end after a failed query of these variables.
    pub(crate) fn needs(&self, names: &[String]) -> bool {
        names.iter().filter_map(|name| self.get(name)).any(ContractVariable::matters)
    }

    /// Returns the problems of the values, one sentence for each that does not fit its schema.
    pub(crate) fn unfit(&self, known: &BTreeMap<String, String>) -> Vec<String> {
        let unfit = |variable: &ContractVariable| {
            let problem = variable.schema.as_ref()?.problem(known.get(&variable.name)?)?;
            Some(format!("{} {problem}", variable.name))
        };
        self.variables.iter().filter_map(unfit).collect()
    }
}

impl<'a> IntoIterator for &'a Contract {
    type Item = &'a ContractVariable;
    type IntoIter = std::slice::Iter<'a, ContractVariable>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
