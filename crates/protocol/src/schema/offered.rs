//! Simplified schemas of foreign tools, in a form that common clients accept.
//!
//! Some model services refuse a whole list of tools because of one schema: one with a choice or a condition at its top
//! level, or with special characters in a property name. Arguments are still checked against the original schema.

use serde_json::{Map, Value};

/// Keywords that services refuse at the top level of a schema, and accept below it.
const REFUSED_KEYWORDS: [&str; 10] =
    ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties"];

/// Maximum length of the list of omitted properties, in characters.
const MAX_LISTED_CHARS: usize = 500;

/// Returns `schema` without the parts that common clients refuse. The result accepts at least the same arguments. Its
/// description names the omitted properties, which callers can still set.
#[must_use]
pub fn offered(schema: &Value) -> Map<String, Value> {
    let mut offered = schema.as_object().cloned().unwrap_or_default();
    offered.retain(|keyword, _| !REFUSED_KEYWORDS.contains(&keyword.as_str()));
    offered.insert("type".to_owned(), "object".into());
    let mut omitted_names = Vec::new();
    if let Some(Value::Object(properties)) = offered.get_mut("properties") {
        properties.retain(|name, _| {
            let is_plain = is_plain(name);
            if !is_plain {
                omitted_names.push(name.clone());
            }
            is_plain
        });
    }
    if let Some(Value::Array(required)) = offered.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(is_plain));
    }
    // Omitted properties and pattern properties would otherwise be treated as additional, and the client would refuse
    // them.
    if !omitted_names.is_empty() || schema.get("patternProperties").is_some() {
        offered.shift_remove("additionalProperties");
    }
    offered.shift_remove("unevaluatedProperties");
    if !omitted_names.is_empty() {
        let names: Vec<String> = omitted_names.iter().map(|name| format!("'{name}'")).collect();
        let names: String = names.join(", ").chars().take(MAX_LISTED_CHARS).collect();
        let description = offered.get("description").and_then(Value::as_str).map(|text| format!("{text} "));
        offered
            .insert("description".to_owned(), format!("{}Also takes {names}.", description.unwrap_or_default()).into());
    }
    offered
}

/// Returns whether a property may have this name: `^[a-zA-Z0-9_.-]{1,64}$`.
fn is_plain(name: &str) -> bool {
    let is_plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain_byte)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepted_schema_is_unchanged() {
        let schema = json!({
            "type": "object",
            "description": "Deploys",
            "properties": { "a.b-c_1": { "oneOf": [{ "type": "string" }, { "$ref": "#/$defs/x" }] } },
            "required": ["a.b-c_1"],
            "additionalProperties": false,
            "$defs": { "x": { "properties": { "Größe": {} } } },
        });
        assert_eq!(Value::Object(offered(&schema)), schema);
    }

    #[test]
    fn refused_parts_are_omitted() {
        let schema = json!({
            "properties": { "a": {}, "rule[]": {}, "größe": {} },
            "required": ["a", "größe"],
            "additionalProperties": false,
            "oneOf": [{ "required": ["a"] }, { "required": ["rule[]"] }],
            "if": { "required": ["a"] },
            "then": false,
        });
        let expected = json!({
            "properties": { "a": {} },
            "required": ["a"],
            "type": "object",
            "description": "Also takes 'rule[]', 'größe'.",
        });
        assert_eq!(Value::Object(offered(&schema)), expected);
        assert_eq!(Value::Object(offered(&json!(true))), json!({ "type": "object" }));
        let many_properties: Map<String, Value> = (0..1_000).map(|number| (format!("p {number}"), json!({}))).collect();
        let shortened = offered(&json!({ "properties": many_properties, "description": "Some." }));
        assert!(
            shortened["description"]
                .as_str()
                .is_some_and(|description| description.starts_with("Some. Also takes 'p 0', 'p 1'"))
        );
        assert!(shortened["description"].as_str().is_some_and(|description| description.len() < 600));
    }
}
