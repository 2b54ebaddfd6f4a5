//! The redaction of secrets in the report of a rehearsal.
//!
//! People see a rehearsal, logs of tests contain it, and its stubs may come from a real run. The values of variables
//! that a contract declares secret, and secret inputs, are hidden wherever they occur, including in quoted forms. A
//! secret with fewer than [`MIN_SECRET_CHARS`] characters would hide parts of any text, so the redaction hides it only
//! if it is the whole text, and in fields with the name of its variable.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Rehearsal, RehearsalEnd, RehearsalStep};
use crate::contract::HIDDEN;
use crate::definition::Definition;
use crate::parallel;
use crate::substitute::{as_text, filtered_forms};

/// Minimum number of characters of a secret to hide it inside other text.
const MIN_SECRET_CHARS: usize = 4;

/// The secrets of one rehearsal.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Names of variables whose values are secret.
    names: BTreeSet<String>,
    /// Texts that are hidden inside any text.
    texts: BTreeSet<String>,
    /// Texts that are hidden only if they are the whole text.
    short_texts: BTreeSet<String>,
}

impl Secrets {
    /// Collects the names and the defaults of the secret variables in a workflow's contract.
    pub(super) fn from_definition(definition: &Definition) -> Self {
        let mut secrets = Self::default();
        let contract = definition.arguments().iter().chain(definition.return_values());
        for variable in contract.filter(|variable| variable.is_secret()) {
            secrets.names.insert(variable.name().to_owned());
            variable.default().iter().for_each(|default| secrets.learn(default));
        }
        secrets
    }

    /// Collects the values of secret variables among these.
    pub(super) fn learn_values<'v>(&mut self, variables: impl Iterator<Item = (&'v String, String)>) {
        let secret: Vec<String> =
            variables.filter(|(name, _)| self.names.contains(*name)).map(|(_, value)| value).collect();
        secret.iter().for_each(|value| self.learn(value));
    }

    /// Collects secrets from an action's parameters: a secret input, and the secrets of a nested workflow.
    pub(super) fn learn_params(&mut self, params: &Map<String, Value>) {
        if is_secret_input(params)
            && let Some(input) = params.get("input_text")
        {
            self.learn(&as_text(input));
        }
        for (_, branch) in parallel::entries(params).unwrap_or_default() {
            branch.as_object().into_iter().for_each(|branch| self.learn_params(branch));
        }
        if let Some(nested) = params.get("workflow_definition") {
            self.learn_nested(nested);
            let initial_variables = params.get("initial_variables").and_then(Value::as_object).into_iter().flatten();
            self.learn_values(initial_variables.map(|(name, value)| (name, as_text(value))));
        }
    }

    /// Collects the secret variables of a nested workflow, at any depth. The workflow may be invalid.
    fn learn_nested(&mut self, document: &Value) {
        for contract in ["arguments", "return_values"] {
            for (name, variable) in document[contract].as_object().into_iter().flatten() {
                if variable["secret"] == true {
                    self.names.insert(name.clone());
                    self.learn(&as_text(&variable["default"]));
                }
            }
        }
        for state in document["states"].as_object().into_iter().flat_map(Map::values) {
            if let Some(params) = state["action"]["params"].as_object() {
                self.learn_params(params);
            }
        }
    }

    /// Collects a secret line by line, because a screen shows it in lines.
    fn learn(&mut self, secret: &str) {
        for line in secret.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.chars().count() < MIN_SECRET_CHARS {
                self.short_texts.insert(line.to_owned());
                continue;
            }
            let quoted = Value::from(line).to_string();
            self.texts.extend(filtered_forms(line));
            // Without its quotes, the JSON form may be part of a longer JSON text.
            self.texts.insert(quoted[1..quoted.len() - 1].to_owned());
            self.texts.insert(line.to_owned());
        }
    }

    /// Returns a rehearsal with its secrets hidden.
    pub(super) fn redact(&self, mut rehearsal: Rehearsal) -> Rehearsal {
        for step in &mut rehearsal.path {
            match step {
                RehearsalStep::State { params, result, .. } => {
                    self.hide_fields(params);
                    self.hide_fields(result);
                }
                RehearsalStep::Transition { because, .. } => self.hide(because),
                RehearsalStep::Gate { choices, answer, .. } => {
                    choices.iter_mut().for_each(|choice| self.hide(choice));
                    self.hide(answer);
                }
                RehearsalStep::Contract { variables, error, .. } => {
                    self.hide_variables(variables.iter_mut());
                    error.iter_mut().for_each(|error| self.hide(error));
                }
            }
        }
        match &mut rehearsal.end {
            RehearsalEnd::Completed => {}
            RehearsalEnd::Failed { error } | RehearsalEnd::Stuck { error } => self.hide(error),
        }
        self.hide_variables(rehearsal.return_values.iter_mut());
        rehearsal
    }

    fn hide_variables<'v>(&self, variables: impl Iterator<Item = (&'v String, &'v mut String)>) {
        for (name, value) in variables {
            if self.names.contains(name) {
                HIDDEN.clone_into(value);
            } else {
                self.hide(value);
            }
        }
    }

    fn hide_fields(&self, fields: &mut Map<String, Value>) {
        let is_secret = is_secret_input(fields);
        for (name, value) in fields {
            match value {
                // A secret input is hidden as a whole, even if it is short.
                Value::String(typed) if is_secret && name == "input_text" => HIDDEN.clone_into(typed),
                Value::Null | Value::Bool(_) | Value::Object(_) => self.hide_in(value),
                scalar if self.names.contains(name) => *scalar = HIDDEN.into(),
                other => self.hide_in(other),
            }
        }
    }

    fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.hide(text),
            Value::Number(number) => {
                let text = number.to_string();
                if self.texts.contains(&text) || self.short_texts.contains(&text) {
                    *value = HIDDEN.into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(fields) => self.hide_fields(fields),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Hides secrets in one pass. Of several secrets at one position, it hides the longest, so that no part remains.
    fn hide(&self, text: &mut String) {
        if self.short_texts.contains(text.trim()) {
            HIDDEN.clone_into(text);
            return;
        }
        if !self.texts.iter().any(|secret| text.contains(secret)) {
            return;
        }
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(character) = rest.chars().next() {
            let matching = self.texts.iter().filter(|secret| rest.starts_with(secret.as_str()));
            let length = if let Some(secret) = matching.max_by_key(|secret| secret.len()) {
                hidden.push_str(HIDDEN);
                secret.len()
            } else {
                hidden.push(character);
                character.len_utf8()
            };
            rest = &rest[length..];
        }
        *text = hidden;
    }
}

/// Returns whether parameters mark their input as secret.
fn is_secret_input(params: &Map<String, Value>) -> bool {
    params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true")
}
