//! The outline of a contract for replies and logs, read from the document itself.
//!
//! The outline of an invalid document contains its readable parts.

use serde_json::{Map, Value, json};

/// Returns the contract of a workflow: `{arguments, return_values, description}`. Both sides have the form of
/// [`contract_variables`]; a missing description is an empty string.
#[must_use]
pub fn workflow_signature(document: &Value) -> Map<String, Value> {
    let side = |key: &str| Value::Object(document.get(key).map(contract_variables).unwrap_or_default());
    Map::from_iter([
        ("arguments".to_owned(), side("arguments")),
        ("return_values".to_owned(), side("return_values")),
        ("description".to_owned(), description_text(document).into()),
    ])
}

/// Returns the variables of one side of a contract in the order of the document: `{NAME: {name, description, required,
/// default?, secret?, schema?}}`.
///
/// `required` is false if the variable has a default. The outline omits the default of a secret.
#[must_use]
pub fn contract_variables(side: &Value) -> Map<String, Value> {
    let entries = side.as_object().into_iter().flatten();
    entries.filter_map(|(name, entry)| Some((name.clone(), Value::Object(variable(name, entry)?)))).collect()
}

fn variable(name: &str, entry: &Value) -> Option<Map<String, Value>> {
    if !entry.is_string() && !entry.is_object() {
        return None;
    }
    let non_null = |key: &str| entry.get(key).filter(|value| !value.is_null());
    let boolean = |key: &str| non_null(key).and_then(Value::as_bool);
    let secret = boolean("secret").unwrap_or(false);
    let required = boolean("required").unwrap_or(true) && non_null("default").is_none();
    let mut variable = Map::from_iter([
        ("name".to_owned(), name.into()),
        ("description".to_owned(), entry.as_str().unwrap_or_else(|| description_text(entry)).into()),
        ("required".to_owned(), required.into()),
    ]);
    if let Some(default) = non_null("default").filter(|_| !secret) {
        variable.insert("default".to_owned(), json!(crate::substitute::as_text(default)));
    }
    if secret {
        variable.insert("secret".to_owned(), true.into());
    }
    if let Some(schema) = non_null("schema") {
        variable.insert("schema".to_owned(), schema.clone());
    }
    Some(variable)
}

fn description_text(value: &Value) -> &str {
    value.get("description").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_has_the_form_of_document_001_line_1255() {
        // Document 001, lines 1255-1259: {name: var.model_dump()}, with `name`, `description` and `required`.
        let document = json!({
            "name": "build",
            "description": "Builds",
            "arguments": {
                "PROJECT_ROOT": "Path to project directory",
                "BUILD_TYPE": {"name": "BUILD_TYPE", "description": "Build type", "required": true},
                "MODE": {"default": "debug", "schema": {"enum": ["debug", "release"]}},
                "TOKEN": {"default": "hunter2!", "secret": true, "required": false},
                "ODD": 3,
            },
        });
        let expected = json!({
            "arguments": {
                "PROJECT_ROOT": {"name": "PROJECT_ROOT", "description": "Path to project directory", "required": true},
                "BUILD_TYPE": {"name": "BUILD_TYPE", "description": "Build type", "required": true},
                "MODE": {
                    "name": "MODE", "description": "", "required": false, "default": "debug",
                    "schema": {"enum": ["debug", "release"]},
                },
                "TOKEN": {"name": "TOKEN", "description": "", "required": false, "secret": true},
            },
            "return_values": {},
            "description": "Builds",
        });
        assert_eq!(Value::Object(workflow_signature(&document)), expected);
    }
}
