//! Contracts with the shell: the variables that a workflow needs, and the variables that it sets.
//!
//! An argument is an environment variable that must be set before the first state. A return value is a variable that
//! must be set after the last state. This module finds missing variables, applies defaults and validates values. The
//! driver queries the shell.

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

/// Replacement text for a secret.
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
    /// Template for a return value, with variables.
    pub(crate) from: Option<String>,
    pub(crate) schema: Option<ValueSchema>,
}

impl ContractVariable {
    /// Returns the variable's name, such as `PROJECT_ROOT`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the author's description of the variable.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns whether the variable must be set.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Returns the default, for a shell without a value.
    #[must_use]
    pub fn default(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Returns whether the value is a secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// Returns whether a run exports an argument into the environment of its terminal, for all programs there. A secret
    /// is exported only if its declaration has `"export": true`, a name with lower-case letters never. The placeholder
    /// `{NAME}` works in all cases.
    #[must_use]
    pub fn is_exported(&self) -> bool {
        self.export.unwrap_or(!self.secret) && is_environment_variable(&self.name)
    }

    /// Returns the value of `export` in the declaration, if present.
    #[must_use]
    pub fn declared_export(&self) -> Option<bool> {
        self.export
    }

    /// Returns the schema of the value.
    #[must_use]
    pub fn schema(&self) -> Option<&ValueSchema> {
        self.schema.as_ref()
    }

    /// Returns whether a run cannot continue without a query of the variable's value.
    fn needs_query(&self) -> bool {
        self.required || self.default.is_some()
    }
}

/// Converts `text` to the value of a document's argument: a list or an object if the argument's schema requires one.
pub(crate) fn typed_argument(document: &Value, name: &str, text: &str) -> Value {
    let argument = document.get("arguments").and_then(|arguments| arguments.get(name));
    let kind = argument.and_then(|argument| argument.get("schema")?.get("type")?.as_str());
    typed(kind, text).unwrap_or_else(|| text.into())
}

/// Returns whether a contract variable is also an environment variable: its name has no lower-case letters.
#[must_use]
pub fn is_environment_variable(name: &str) -> bool {
    !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

impl Contract {
    /// Returns the variables, in the order of the document.
    pub fn iter(&self) -> std::slice::Iter<'_, ContractVariable> {
        self.variables.iter()
    }

    /// Returns whether the contract has no variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    /// Returns the variable with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ContractVariable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Returns the values of the variables with `from`, if the variables in `from` have values.
    pub(crate) fn derived_values(&self, variables: &dyn Lookup) -> BTreeMap<String, String> {
        let value = |variable: &ContractVariable| {
            let from = variable.from.as_deref()?;
            let is_resolved = substitute::unresolved_in(from, variables).is_none();
            is_resolved.then(|| (variable.name.clone(), substitute::text(from, variables)))
        };
        self.variables.iter().filter_map(value).collect()
    }

    /// Returns the names of the variables that are read from the shell.
    pub(crate) fn names_in_shell(&self) -> impl Iterator<Item = &str> {
        let is_in_shell =
            |variable: &&ContractVariable| variable.from.is_none() && is_environment_variable(&variable.name);
        self.variables.iter().filter(is_in_shell).map(|variable| variable.name.as_str())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }

    /// Returns the contract variables that `initial` has, with their values as strings.
    pub(crate) fn initial_values(&self, initial: &Map<String, Value>) -> BTreeMap<String, String> {
        let value = |name: &str| Some((name.to_owned(), substitute::as_text(initial.get(name)?)));
        self.names().filter_map(value).collect()
    }

    /// Returns the arguments that a run exports.
    pub(crate) fn exported(&self, rules: Rules, mut values: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let is_exported = |name: &str| self.get(name).is_some_and(ContractVariable::is_exported);
        values.retain(|name, _| rules.exports_secrets() || is_exported(name));
        values
    }

    /// Returns the arguments whose values replace `{NAME}`: all arguments, or before version 5 arguments without an
    /// export.
    pub(crate) fn substituted(&self, rules: Rules, mut values: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let is_exported = |name: &str| self.get(name).is_none_or(ContractVariable::is_exported);
        values.retain(|name, _| rules.fills_arguments() || (!rules.exports_secrets() && !is_exported(name)));
        values
    }

    /// Returns a sentence for each initial variable that does not match its schema. No sentence reveals a secret.
    pub(crate) fn violations(&self, initial: &Map<String, Value>) -> Vec<String> {
        let values = self.initial_values(initial);
        let problem = |variable: &ContractVariable| {
            let value = values.get(&variable.name)?;
            let problem = variable.schema.as_ref()?.problem(value)?;
            let excerpt: String = value.chars().take(MAX_SHOWN_CHARS).collect();
            let excerpt = if variable.secret { HIDDEN.to_owned() } else { format!("{excerpt:?}") };
            Some(format!("{}={excerpt} {problem}", variable.name))
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

    /// Returns whether a run must end after a failed query of these variables.
    pub(crate) fn needs(&self, names: &[String]) -> bool {
        names.iter().filter_map(|name| self.get(name)).any(ContractVariable::needs_query)
    }

    /// Returns a sentence for each value that does not match its schema.
    pub(crate) fn schema_problems(&self, known: &BTreeMap<String, String>) -> Vec<String> {
        let problem = |variable: &ContractVariable| {
            let problem = variable.schema.as_ref()?.problem(known.get(&variable.name)?)?;
            Some(format!("{} {problem}", variable.name))
        };
        self.variables.iter().filter_map(problem).collect()
    }
}

impl<'a> IntoIterator for &'a Contract {
    type Item = &'a ContractVariable;
    type IntoIter = std::slice::Iter<'a, ContractVariable>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
