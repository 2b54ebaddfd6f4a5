//! JSON Schemas of verbs, in the plain form that every client accepts.
//!
//! `schemars` writes correct schemas that some clients stumble over: `$schema`
//! and `title` everywhere, formats of Rust's integers, and `null` as a second
//! type of everything optional. Here a field that may be left out is simply not
//! required. JSON Schema 2020-12, <https://json-schema.org/draft/2020-12>.

mod offered;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

pub use offered::offered;

use crate::Verb;

/// Returns the schema of a verb's parameters; its `description` is the verb's.
#[must_use]
pub fn parameters<V: Verb>() -> Value {
    plain::<V>(true)
}

/// Returns the schema of a verb's reply.
#[must_use]
pub fn reply<V: Verb>() -> Value {
    plain::<V::Reply>(false)
}

fn plain<T: schemars::JsonSchema>(describe_fields: bool) -> Value {
    let generator = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        // An object without fields is still an object to those who look for them.
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    if !describe_fields {
        // A model does not read these, and every client pays for their bytes in every list.
        keep_shape_only(&mut schema);
    }
    schema
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(simplify),
        Value::Object(object) => {
            for word in ["$schema", "title", "format"] {
                if object.get(word).is_some_and(Value::is_string) {
                    object.remove(word);
                }
            }
            if object.get("default").is_some_and(|default| default.is_null() || default == "") {
                object.remove("default");
            }
            if let Some(Value::String(description)) = object.get_mut("description") {
                *description = flowing(description);
            }
            unite_null(object);
            enumerate_constants(object);
            for (name, inner) in object.iter_mut() {
                if name == "properties" {
                    // These keys are names of fields, which may be called "title".
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

/// Joins the lines of each paragraph: where they broke was the width of a source file.
fn flowing(text: &str) -> String {
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split('\n').map(str::trim).collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// `["integer", "null"]` becomes `"integer"`, and a choice between something and null becomes the something.
///
/// A field that is marked `nullable` is always present; its schema states that it may be null.
fn unite_null(object: &mut Map<String, Value>) {
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

/// A choice between described constants becomes an `enum`.
fn enumerate_constants(object: &mut Map<String, Value>) {
    let constants = |choices: &Value| -> Option<Vec<Value>> {
        choices.as_array()?.iter().map(|choice| choice.get("const").cloned()).collect()
    };
    if let Some(values) = object.get("oneOf").and_then(constants) {
        object.remove("oneOf");
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), Value::Array(values));
    }
}

/// Leaves names, types and what is required: enough to check a reply against.
fn keep_shape_only(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(keep_shape_only),
        Value::Object(object) => {
            // A field may be called "description" or "default"; its schema is an object.
            object.retain(|word, value| {
                value.is_object() || !matches!(word.as_str(), "description" | "default" | "minimum" | "maximum")
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
    fn a_schema_is_plain() {
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
                  "description": "Kill at once, without asking the programs to end"
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
    fn no_schema_has_what_clients_stumble_over() {
        for verb in crate::VERBS {
            for schema in [(verb.parameters)(), (verb.reply)()] {
                let text = schema.to_string();
                for word in ["$schema", "$ref", "$defs", "\"format\":\"", "\"title\":\"", "nullable"] {
                    assert!(!text.contains(word), "{} has {word}: {text}", verb.name);
                }
                assert_eq!(schema["type"], "object", "{}", verb.name);
            }
            assert!(!(verb.parameters)().to_string().contains("\"null\""), "{}", verb.name);
        }
    }
}
