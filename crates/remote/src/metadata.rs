//! Metadata of a workflow: additional fields from its service. These fields are untrusted, so this module cleans and
//! limits them.

use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Value};

use crate::text;

/// Maximum size of all fields together, as JSON.
const MAX_METADATA_BYTES: usize = 8 * 1024;
/// Maximum depth of objects and arrays, including the outermost. Deeper values are omitted.
const MAX_DEPTH: usize = 8;
/// Maximum length of the name of a field.
const MAX_NAME_CHARS: usize = 100;
/// Maximum length of a text.
const MAX_TEXT_CHARS: usize = 1_000;

/// Returns the fields of `metadata`, cleaned. Takes fields in their order, and omits fields beyond the maximum size.
/// `None` if `metadata` is not an object, or no field remains.
pub(crate) fn clean(metadata: &Value) -> Option<Map<String, Value>> {
    let Value::Object(fields) = metadata else { return None };
    let mut cleaned = Map::new();
    // Size of the two braces.
    let mut bytes = 2;
    for (name, value) in fields {
        let Some((name, value)) = clean_field(name, value, MAX_DEPTH) else { continue };
        // Size with a colon and a comma.
        let field_bytes = Value::from(name.as_str()).to_string().len() + value.to_string().len() + 2;
        if bytes + field_bytes <= MAX_METADATA_BYTES && !cleaned.contains_key(&name) {
            bytes += field_bytes;
            cleaned.insert(name, value);
        }
    }
    (!cleaned.is_empty()).then_some(cleaned)
}

/// Reads fields from a file. An older version may have written the file without cleaning the fields.
pub(crate) fn read<'de, D: Deserializer<'de>>(stored: D) -> Result<Option<Map<String, Value>>, D::Error> {
    Ok(clean(&Value::deserialize(stored)?))
}

/// Cleans a field whose value may have up to `levels` levels.
fn clean_field(name: &str, value: &Value, levels: usize) -> Option<(String, Value)> {
    let name = text::clean(name, MAX_NAME_CHARS);
    (!name.is_empty()).then_some(())?;
    Some((name, clean_value(value, levels - 1)?))
}

fn clean_value(value: &Value, levels: usize) -> Option<Value> {
    match value {
        Value::String(text) => Some(text::clean(text, MAX_TEXT_CHARS).into()),
        Value::Array(_) | Value::Object(_) if levels == 0 => None,
        Value::Array(values) => Some(values.iter().filter_map(|inner| clean_value(inner, levels - 1)).collect()),
        Value::Object(fields) => {
            Some(Value::Object(fields.iter().filter_map(|(name, value)| clean_field(name, value, levels)).collect()))
        }
        scalar => Some(scalar.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_kept_without_invisible_characters() {
        let raw = json!({
            "team": "core\u{1b}[31m\u{202e}", "tags": ["a\u{0}", 1, null], "owner": {"na\u{200b}me": "ada", "\u{200b}": 1},
            "\u{7}": "the name has no visible characters"
        });
        let cleaned = json!({"team": "core", "tags": ["a", 1, null], "owner": {"name": "ada"}});
        assert_eq!(clean(&raw).map(Value::Object), Some(cleaned));
        for empty in [json!(null), json!([1]), json!("text"), json!({}), json!({"\u{200b}": 1})] {
            assert_eq!(clean(&empty), None, "{empty}");
        }
    }

    #[test]
    fn metadata_is_bounded() {
        let long = json!({"a": "x".repeat(5_000), "b".repeat(500): 1});
        let cleaned = clean(&long).unwrap();
        assert_eq!(cleaned["a"].as_str().unwrap().chars().count(), MAX_TEXT_CHARS);
        assert!(cleaned.keys().all(|name| name.chars().count() <= MAX_NAME_CHARS), "{cleaned:?}");

        let mut many: Map<String, Value> = (0..2_000).map(|n| (format!("field {n}"), json!("日本"))).collect();
        many.insert("list".to_owned(), json!(vec!["x"; 100_000]));
        let cleaned = clean(&Value::Object(many)).unwrap();
        assert!(cleaned.contains_key("field 0") && !cleaned.contains_key("list"));
        assert!(Value::Object(cleaned).to_string().len() <= MAX_METADATA_BYTES);

        let deep = (0..100).fold(json!(1), |inner, _| json!({"in": inner}));
        let levels = serde_json::to_string(&clean(&deep)).unwrap().matches('{').count();
        assert_eq!(levels, MAX_DEPTH);
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        let raw = json!({"a": {"b": [["\u{9b}31mred", {"c": "y".repeat(2_000)}]]}});
        let once = Value::Object(clean(&raw).unwrap());
        assert_eq!(clean(&once).map(Value::Object), Some(once));
    }
}
