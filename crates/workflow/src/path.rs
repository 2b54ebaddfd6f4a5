//! Paths into values: `items.0.name`.

use serde_json::Value;

/// Returns the part of a value at a path of field names and zero-based list indices.
pub(crate) fn value_at_path<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}
