//! JSON Schemas of verbs, in the plain form that every client accepts.
//!
//! Some clients reject the correct schemas of `schemars`, which have `$schema` and `title` everywhere, formats of
//! Rust's integers, and `null` as a second type of optional fields. Here an optional field is simply absent from
//! `required`. JSON Schema 2020-12, <https://json-schema.org/draft/2020-12>.

mod offered;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

pub use offered::offered;

use crate::Verb;

/// Returns the schema of a verb's parameters, with the description of the verb.
#[must_use]
pub fn parameters<V: Verb>() -> Value {
    plain_schema::<V>(true)
}

/// Returns the schema of a verb's reply.
#[must_use]
pub fn reply<V: Verb>() -> Value {
    plain_schema::<V::Reply>(false)
}

fn plain_schema<T: schemars::JsonSchema>(describe_fields: bool) -> Value {
    let generator = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        // Clients expect `properties` even for an object without fields.
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    if !describe_fields {
        // Models do not read the descriptions of replies, which would lengthen every list of tools.
        keep_shape_only(&mut schema);
    }
    schema
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(simplify),
        Value::Object(object) => {
            for keyword in ["$schema", "title", "format"] {
                if object.get(keyword).is_some_and(Value::is_string) {
                    object.remove(keyword);
                }
            }
            if object.get("default").is_some_and(|default| default.is_null() || default == "") {
                object.remove("default");
            }
            if let Some(Value::String(description)) = object.get_mut("description") {
                *description = join_lines(description);
            }
            remove_null(object);
            enumerate_constants(object);
            for (name, inner) in object.iter_mut() {
                if name == "properties" {
                    // These keys are names of fields; a field may be called "title".
                    if let Value::Object(fields) = inner {
                        fields.values_mut().for_each(simplify);
                    }
                } else if !matches!(name.as_str(), "enum" | "const" | "default" | "required") {
                    simplify(inner);
                }
            }
        }
        _ => {}
    }
}

/// Joins the lines of each paragraph, which were wrapped at the width of the source file.
fn join_lines(text: &str) -> String {
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split('\n').map(str::trim).collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Removes null from types: `["integer", "null"]` becomes `"integer"`, and `anyOf` loses its null.
///
/// A field that is marked `nullable` is always present; its schema states that it may be null.
fn remove_null(object: &mut Map<String, Value>) {
    if object.remove("nullable").is_some() {
        if object.contains_key("anyOf") {
            return;
        }
        let kind = object.remove("type").and_then(|kind| kind.get(0).cloned()).unwrap_or_default();
        object.insert("anyOf".into(), serde_json::json!([{ "type": kind }, { "type": "null" }]));
        return;
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

/// Replaces `oneOf` with described constants with an `enum`.
fn enumerate_constants(object: &mut Map<String, Value>) {
    let constant_values = |choices: &Value| -> Option<Vec<Value>> {
        choices.as_array()?.iter().map(|choice| choice.get("const").cloned()).collect()
    };
    if let Some(values) = object.get("oneOf").and_then(constant_values) {
        object.remove("oneOf");
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), Value::Array(values));
    }
}

/// Removes all but names, types and `required`, which suffice to validate a reply.
fn keep_shape_only(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(keep_shape_only),
        Value::Object(object) => {
            // A field may be called "description" or "default"; its schema is an object.
            object.retain(|keyword, value| {
                value.is_object() || !matches!(keyword.as_str(), "description" | "default" | "minimum" | "maximum")
            });
            object.values_mut().for_each(keep_shape_only);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn parameters_have_a_plain_schema() {
        let schema = serde_json::to_string_pretty(&parameters::<crate::ExitTerminal>()).unwrap();
        expect![[r#"
            {
              "type": "object",
              "properties": {
                "session_id": {
                  "type": "string",
                  "description": "Terminal to close"
                },
                "signal": {
                  "type": "string",
                  "description": "Signal to begin with (default: HUP)"
                },
                "force": {
                  "type": "boolean",
                  "description": "Kill at once, without a signal to exit"
                }
              },
              "required": [
                "session_id"
              ],
              "description": "Close a terminal and end everything that was started in it, background jobs included."
            }"#]]
        .assert_eq(&schema);
    }

    #[test]
    fn schemas_avoid_features_unsupported_by_clients() {
        for verb in crate::VERBS {
            for schema in [(verb.parameters)(), (verb.reply)()] {
                let text = schema.to_string();
                for keyword in ["$schema", "$ref", "$defs", "\"format\":\"", "\"title\":\"", "nullable"] {
                    assert!(!text.contains(keyword), "{} has {keyword}: {text}", verb.name);
                }
                assert_eq!(schema["type"], "object", "{}", verb.name);
            }
            assert!(!(verb.parameters)().to_string().contains("\"null\""), "{}", verb.name);
        }
    }
}
