//! Forms: structured answers to a gate.
//!
//! A form is a JSON Schema of an object whose fields are plain values, as MCP clients support it
//! (<https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>). Machines, functions and the clients
//! that fill in a form all use this module, so that they accept the same forms.

mod field;
mod format;
mod kind;

use serde_json::{Map, Value, json};

use crate::definition::suggestion_or_known;

pub use field::{Field, InvalidField};

/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 20;

/// The keys of a form.
const FORM_KEYS: [&str; 6] = ["type", "title", "description", "properties", "required", "$schema"];

/// Maximum field name length, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Fields to fill in, in the order of the document.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    fields: Vec<Field>,
}

impl Form {
    /// Reads a form.
    ///
    /// # Errors
    /// Returns all problems, as fragments that name their field.
    pub fn read(schema: &Value) -> Result<Self, Vec<String>> {
        let example = r#"{"type": "object", "properties": {"version": {"type": "string"}}, "required": ["version"]}"#;
        let Value::Object(document) = schema else {
            return Err(vec![format!("'form' must be an object such as {example}")]);
        };
        let Some(Value::Object(properties)) = document.get("properties") else {
            return Err(vec![format!("'form' needs 'properties', as in {example}")]);
        };
        let mut problems = Vec::new();
        for key in document.keys() {
            if !FORM_KEYS.contains(&key.as_str()) {
                let hint = suggestion_or_known(key, FORM_KEYS.into_iter());
                problems.push(format!("'form' has an unknown key '{key}'{hint}"));
            }
        }
        if document.get("type").is_some_and(|kind| kind != "object") {
            problems.push("'type' of 'form' must be \"object\"".to_owned());
        }
        if properties.is_empty() || properties.len() > MAX_FIELDS {
            problems.push(format!("'form' must have 1 to {MAX_FIELDS} fields, not {}", properties.len()));
        }
        let mut required = Vec::new();
        match document.get("required") {
            None | Some(Value::Null) => {}
            Some(Value::Array(names)) => {
                for name in names {
                    match name.as_str() {
                        Some(known) if properties.contains_key(known) => required.push(known),
                        _ => problems.push(format!("'required' names {name}, which is not a field of the form")),
                    }
                }
            }
            Some(_) => problems.push("'required' must be a list of field names".to_owned()),
        }
        let mut fields = Vec::new();
        for (name, schema) in properties {
            if !is_name(name) {
                problems.push(format!(
                    "field '{name}' is not a valid name: a name begins with a letter and has at most {MAX_NAME_CHARS} \
                     letters, digits, '_' and '-'"
                ));
                continue;
            }
            match Field::read(name, schema, required.contains(&name.as_str())) {
                Ok(field) => fields.push(field),
                Err(found) => problems.extend(found.iter().map(|problem| format!("field '{name}' {problem}"))),
            }
        }
        if problems.is_empty() { Ok(Self { fields }) } else { Err(problems) }
    }

    /// Returns the schema in canonical form.
    #[must_use]
    pub fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.fields.iter().map(|field| (field.name().to_owned(), field.schema())).collect();
        let required: Vec<&str> = self.fields.iter().filter(|field| field.is_required()).map(Field::name).collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        schema
    }

    /// Returns the fields, in the order of the document.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the answer with the given values: all fields in the form's order, with the value, the default or null.
    /// Converts strings to the types of the fields.
    ///
    /// # Errors
    /// Returns the problems of the fields, as fragments.
    pub fn fill(&self, values: &Map<String, Value>) -> Result<Map<String, Value>, Vec<String>> {
        let mut problems = Vec::new();
        let mut answer = Map::new();
        for field in &self.fields {
            match field.value_or_default(values.get(field.name())) {
                Ok(value) => drop(answer.insert(field.name().to_owned(), value)),
                Err(problem) => problems.push(format!("'{}' {problem}", field.name())),
            }
        }
        let names = || self.fields.iter().map(Field::name);
        for name in values.keys().filter(|name| !names().any(|known| known == *name)) {
            let known = names().collect::<Vec<_>>().join(", ");
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            problems.push(format!("'{name}' is not a field of the form, which has {known}"));
        }
        if problems.is_empty() { Ok(answer) } else { Err(problems) }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_CHARS
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release_form() -> Form {
        Form::read(&json!({
            "type": "object",
            "properties": {
                "version": {"type": "string", "title": "Version", "minLength": 3, "maxLength": 8},
                "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
                "share": {"type": "number"},
                "loud": {"type": "boolean", "default": false},
                "where": {"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]},
            },
            "required": ["version", "where"],
        }))
        .unwrap()
    }

    fn fill(given: &Value) -> Result<Value, Vec<String>> {
        release_form().fill(given.as_object().unwrap()).map(Value::Object)
    }

    #[test]
    fn answer_has_every_field_in_order_with_defaults() {
        let filled = fill(&json!({"where": "eu", "version": "1.2"})).unwrap();
        let expected = json!({"version": "1.2", "count": 2, "share": null, "loud": false, "where": "eu"});
        assert_eq!(filled.to_string(), expected.to_string());
    }

    #[test]
    fn strings_are_converted_to_the_type_of_their_field() {
        let values = json!({"version": "1.2", "where": "America", "count": "7", "share": " 0.5", "loud": "YES"});
        let expected = json!({"version": "1.2", "count": 7, "share": 0.5, "loud": true, "where": "us"});
        assert_eq!(fill(&values).unwrap(), expected);
        assert_eq!(fill(&json!({"version": "1.2", "where": "us", "count": 3.0})).unwrap()["count"], json!(3));
    }

    #[test]
    fn each_invalid_field_is_reported_with_its_requirement() {
        let result = fill(&json!({"version": "1", "count": 10, "share": "half", "loud": 1, "where": "mars", "x": 1}));
        assert_eq!(
            result.unwrap_err(),
            [
                "'version' must have 3 to 8 characters, not 1",
                "'count' must be from 1 to 9, not 10",
                "'share' must be a number, not \"half\"",
                "'loud' must be yes or no, not 1",
                "'where' must be one of eu, us, not \"mars\"",
                "'x' is not a field of the form, which has version, count, share, loud, where",
            ]
        );
        assert_eq!(
            fill(&json!({"count": 1.5, "version": null})).unwrap_err(),
            [
                "'version' must be filled in",
                "'count' must be a whole number, not 1.5",
                "'where' must be filled in: one of eu, us"
            ]
        );
        assert_eq!(fill(&json!({"version": [], "where": "eu"})).unwrap_err(), ["'version' must be a text, not []"]);
    }

    #[test]
    fn reported_form_is_read_back_unchanged() {
        let form = release_form();
        assert_eq!(Form::read(&form.schema()).unwrap(), form);
        let titled_choices = json!({"properties": {"a": {"enum": ["x", "y"], "enumNames": ["An x", "A y"]}}});
        let form = Form::read(&titled_choices).unwrap();
        assert_eq!(
            form.schema(),
            json!({"type": "object", "properties": {"a": {"type": "string", "oneOf": [
                {"const": "x", "title": "An x (x)"}, {"const": "y", "title": "A y (y)"}
            ]}}})
        );
        assert_eq!(Form::read(&form.schema()).unwrap(), form);
        let reread_form = Form::read(&form.schema()).unwrap();
        let field = &reread_form.fields()[0];
        assert_eq!(field.choices(), ["An x (x)", "A y (y)"], "choices have their titles and values");
        for line in ["1", "x", "An x", "An x (x)"] {
            assert_eq!(field.typed(line).unwrap(), "x", "{line}");
        }
    }

    #[test]
    fn problems_of_a_form_are_reported_for_each_field() {
        let error = |form: Value| Form::read(&form).unwrap_err().join("\n");
        assert!(error(json!("version")).starts_with("'form' must be an object such as {"));
        assert!(error(json!({"version": {"type": "string"}})).starts_with("'form' needs 'properties'"));
        assert_eq!(error(json!({"properties": {}})), "'form' must have 1 to 20 fields, not 0");
        let form = json!({
            "type": "array", "surprise": 1, "required": ["nobody"],
            "properties": {
                "1st": {"type": "string"},
                "list": {"type": "array"},
                "nested": {"type": "object"},
                "text": {"type": "string", "minimum": 1},
                "few": {"type": "string", "minLength": 5, "maxLength": 4},
                "twice": {"enum": ["a", "a"]},
                "swapped": {"enum": ["yes", "no"], "enumNames": ["no", "Never"]},
                "day": {"type": "string", "format": "date", "default": "tomorrow"},
                "kind": {"type": "string", "format": "phone"},
                "whole": {"type": "integer", "default": 0.5},
                "bare": "string",
            },
        });
        assert_eq!(
            error(form).lines().collect::<Vec<_>>(),
            [
                "'form' has an unknown key 'surprise', known are type, title, description, properties, required, $schema",
                "'type' of 'form' must be \"object\"",
                "'required' names \"nobody\", which is not a field of the form",
                "field '1st' is not a valid name: a name begins with a letter and has at most 64 letters, digits, '_' and '-'",
                "field 'list' has type \"array\"; a field is a string, number, integer or boolean",
                "field 'nested' has type \"object\"; a field is a string, number, integer or boolean",
                "field 'text' has an unknown key 'minimum'; a string has type, title, description, default, minLength, \
                 maxLength, format, enum, enumNames, oneOf",
                "field 'few' has a minLength above its maxLength",
                "field 'twice' offers 'a' twice",
                "field 'swapped' shows 'no' for 'yes', and also offers that value",
                "field 'day' has an invalid default: must be a date such as 2026-01-31, not \"tomorrow\"",
                "field 'kind' has format \"phone\"; formats are email, uri, date, date-time, password",
                "field 'whole' has an invalid default: must be a whole number, not 0.5",
                "field 'bare' must be an object such as {\"type\": \"string\"}",
            ]
        );
    }
}
