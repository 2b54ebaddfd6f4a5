//! The parser of `arguments` and `return_values`.

use serde_json::Value;

use super::document::{Diagnostics, JsonPath, Object, kind, suggestion_or_known};
use super::shape::{MAX_VARIABLE_NAME_CHARS, MAX_VARIABLES, VARIABLE_KEYS};
use super::{Problem, State};
use crate::contract::{Contract, ContractVariable, KEYWORDS, ValueSchema, is_environment_variable};
use crate::variables::may_be_named;
use crate::{dialogue, substitute};

/// The key of the contract side whose variables a run exports.
pub(super) const ARGUMENTS: &str = "arguments";

impl Diagnostics {
    /// Reads one side of a contract, whose key is `what`.
    pub(super) fn read_contract(&mut self, document: &Object<'_>, what: &str) -> Contract {
        let Some(field) = document.get(what) else { return Contract::default() };
        let Some(entries) = self.read_free_object(&field, &format!("'{what}'")) else { return Contract::default() };
        let count = entries.fields.len();
        if count > MAX_VARIABLES {
            let message = format!("'{what}' has at most {MAX_VARIABLES} variables, not {count}");
            self.error(&entries.pointer, message);
        }
        for (name, field) in entries.iter() {
            let is_same = |(other, _): &(&String, JsonPath<'_>)| *other != name && other.eq_ignore_ascii_case(name);
            if let Some((other, _)) = entries.iter().find(is_same).filter(|(other, _)| *other < name) {
                self.error(&field.pointer, format!("the names '{other}' and '{name}' differ in case only"));
            }
        }
        Contract {
            variables: entries.iter().filter_map(|(name, field)| self.read_variable(what, name, &field)).collect(),
        }
    }

    /// Reports names that are both arguments and return values.
    pub(super) fn check_disjoint(&mut self, document: &Object<'_>, arguments: &Contract, return_values: &Contract) {
        let Some(field) = document.get("return_values") else { return };
        for name in return_values.names().filter(|name| arguments.get(name).is_some()) {
            let message = format!("Environment variables cannot be both arguments and return values: {name}");
            self.error(&format!("{}/{}", field.pointer, super::document::escaped(name)), message);
        }
    }

    /// Warns about secret arguments that no state can use, because they are not exported, and no placeholder refers to
    /// them.
    pub(super) fn warn_unused_secrets(&mut self, document: &Object<'_>, arguments: &Contract, states: &[State]) {
        let Some(field) = document.get(ARGUMENTS) else { return };
        for name in arguments
            .iter()
            .filter(|argument| argument.is_secret() && !argument.is_exported())
            .map(ContractVariable::name)
        {
            let uses = |text: &str| {
                substitute::placeholders(text)
                    .any(|placeholder| placeholder.root() == name && !placeholder.is_for_shell)
            };
            let is_answer = |state: &State| dialogue::secret_names(&state.action.params).any(|(_, used)| used == name);
            if !states.iter().any(|state| state.texts().into_iter().any(uses) || is_answer(state)) {
                let message = format!(
                    "the secret argument '{name}' is not exported, and no state uses {{{name}}}; write {{{name}|sh}} where it \
                     is typed, or add \"export\": true if programs are to find it in their environment"
                );
                let pointer = format!("{}/{}", field.pointer, super::document::escaped(name));
                self.problems.push(Problem::warning(pointer, message));
            }
        }
    }

    fn read_variable(&mut self, what: &str, name: &str, field: &JsonPath<'_>) -> Option<ContractVariable> {
        let is_argument = what == ARGUMENTS;
        let is_letter = |byte: u8| if is_argument { byte.is_ascii_alphabetic() } else { byte.is_ascii_uppercase() };
        let well_formed = (1..=MAX_VARIABLE_NAME_CHARS).contains(&name.len())
            && name.bytes().next().is_some_and(is_letter)
            && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit() || byte == b'_');
        if !well_formed {
            let kind = if is_argument { "Argument" } else { "Environment variable" };
            let capitals = if is_argument { "" } else { "be uppercase, " };
            let message = format!(
                "{kind} '{name}' must {capitals}start with letter, contain only letters, numbers, and underscores, and have at \
                 most {MAX_VARIABLE_NAME_CHARS} characters"
            );
            self.error(&field.pointer, message);
        } else if !may_be_named(name) {
            self.error(&field.pointer, format!("'{name}' is a variable of every run: give the argument another name"));
        }
        if let Value::String(description) = field.value {
            return Some(ContractVariable {
                name: name.to_owned(),
                description: Some(description.clone()),
                required: true,
                default: None,
                secret: false,
                export: None,
                from: None,
                schema: None,
            });
        }
        let object = self.read_object(field, "a variable of a contract", &VARIABLE_KEYS)?;
        if let Some(field) = object.get("name")
            && let Some(declared_name) = self.read_text(&field, "'name'")
            && declared_name != name
        {
            self.error(&field.pointer, format!("'name' must be the variable's key '{name}', not '{declared_name}'"));
        }
        let description = object.get("description").and_then(|field| self.read_text(&field, "'description'"));
        let required = object.get("required").and_then(|field| self.read_boolean(&field, "'required'"));
        let secret = object.get("secret").and_then(|field| self.read_boolean(&field, "'secret'"));
        let export = object.get("export").and_then(|field| {
            if what != ARGUMENTS {
                self.error(
                    &field.pointer,
                    "'export' belongs to an argument; a return value is only read from the shell",
                );
            }
            let export = self.read_boolean(&field, "'export'");
            if export == Some(true) && !is_environment_variable(name) {
                self.error(&field.pointer, "an argument is exported only if its name is in capital letters");
            }
            export
        });
        let from = object.get("from").and_then(|field| {
            if what == ARGUMENTS {
                self.error(
                    &field.pointer,
                    "'from' belongs to a return value; an argument is given, or has a 'default'",
                );
            }
            self.read_text(&field, "'from'").map(str::to_owned)
        });
        let default = object.get("default").and_then(|field| self.read_default_value(&field));
        let schema = object.get("schema").and_then(|field| self.read_value_schema(&field));
        if let Some(field) = object.get("default").filter(|field| field.value.is_array() || field.value.is_object())
            && object
                .get("schema")
                .is_none_or(|schema| !matches!(schema.value["type"].as_str(), Some("array" | "object")))
        {
            let message =
                format!("'default' must be a string, not {}, unless its schema has that type", kind(field.value));
            self.error(&field.pointer, message);
        }
        if let (Some(schema), Some(default), Some(field)) = (&schema, &default, object.get("default"))
            && let Some(problem) = schema.problem(default)
        {
            self.error(&field.pointer, format!("the default {problem}, as its schema has it"));
        }
        Some(ContractVariable {
            name: name.to_owned(),
            description: description.map(str::to_owned),
            required: required.unwrap_or(true),
            default,
            secret: secret.unwrap_or(false),
            export,
            from,
            schema,
        })
    }

    fn read_default_value(&mut self, field: &JsonPath<'_>) -> Option<String> {
        match field.value {
            Value::String(text) if text.contains('\0') => {
                self.error(&field.pointer, "'default' contains a NUL, which no variable can hold");
                None
            }
            Value::Null => {
                self.error(&field.pointer, format!("'default' must be a string, not {}", kind(field.value)));
                None
            }
            value => Some(substitute::as_text(value)),
        }
    }

    fn read_value_schema(&mut self, field: &JsonPath<'_>) -> Option<ValueSchema> {
        let object = self.read_free_object(field, "'schema'")?;
        let mut is_valid = true;
        for keyword in object.fields.keys().filter(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
            let suggestion = suggestion_or_known(keyword, KEYWORDS.iter().copied());
            let message = format!("'{keyword}' is not supported in the schema of a variable{suggestion}");
            self.error(&format!("{}/{}", object.pointer, super::document::escaped(keyword)), message);
            is_valid = false;
        }
        match ValueSchema::read(object.fields) {
            Ok(schema) => is_valid.then_some(schema),
            Err(invalid) => {
                self.error(&format!("{}/{}", object.pointer, invalid.keyword), invalid.message);
                None
            }
        }
    }
}
