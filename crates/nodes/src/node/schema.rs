//! The JSON Schema of declarations, from the same types that read them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::read::Common;
use crate::kind::NodeType;

/// Returns the JSON Schema (2020-12) of a node's declaration.
///
/// The schema accepts every declaration that [`Node::parse`](super::Node::parse) accepts. It does not check patterns
/// and the order of steps.
#[must_use]
pub fn schema() -> Value {
    let kinds: Vec<Value> = NodeType::ALL.iter().map(|(kind, word)| kind_schema(*kind, word)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Node",
        "oneOf": kinds
    })
}

fn kind_schema(kind: NodeType, word: &str) -> Value {
    let settings = kind.schema();
    let common = schema_of::<Common>();
    let mut properties = Map::new();
    properties.insert("type".to_owned(), json!({"const": word}));
    let mut required = vec![json!("id"), json!("type")];
    for part in [&common, &settings] {
        properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
        required.extend(part["required"].as_array().into_iter().flatten().filter(|key| *key != "id").cloned());
    }
    json!({
        "type": "object",
        "description": settings["description"],
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}

/// Returns the schema of a policy in object form.
pub(crate) fn policy_object_schema<T: JsonSchema>(word: &str) -> Value {
    let mut schema = schema_of::<T>();
    let mut properties = Map::new();
    properties.insert("policy".to_owned(), json!({"const": word}));
    properties.extend(schema["properties"].as_object().cloned().unwrap_or_default());
    let mut required = vec![json!("policy")];
    required.extend(schema["required"].as_array().into_iter().flatten().cloned());
    schema["properties"] = properties.into();
    schema["required"] = required.into();
    schema["additionalProperties"] = false.into();
    if let Some(fields) = schema.as_object_mut() {
        fields.shift_remove("$schema");
        fields.shift_remove("title");
    }
    schema
}

/// Returns the JSON Schema of a type, with all references inlined.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
