//! The arguments of a tool: converted by its schema, and checked against it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steplatch_protocol::ToolInfo;
use steplatch_remote::schema::Validator;

use crate::error::InvalidArguments;

/// Reads texts as the arguments of a tool: converts a text for which the schema has another type.
pub fn arguments(tool: &ToolInfo, variables: BTreeMap<String, Value>) -> Map<String, Value> {
    let kind = |name: &str| tool.input_schema.pointer(&format!("/properties/{}/type", pointer(name)))?.as_str();
    let value = |name: &str, value: Value| {
        let Value::String(text) = value else { return value };
        let is_meant = |value: &Value| match kind(name) {
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => false,
        };
        serde_json::from_str(&text).ok().filter(is_meant).unwrap_or(Value::String(text))
    };
    variables.into_iter().map(|(name, given)| (name.clone(), value(&name, given))).collect()
}

/// Escapes a key of an object for a JSON pointer (RFC 6901).
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Checks the arguments of a tool.
///
/// # Errors
///
/// Returns every violation, each with its place.
pub fn check(tool: &ToolInfo, arguments: &Map<String, Value>) -> Result<(), InvalidArguments> {
    // An invalid schema accepts anything, since the service checks its arguments itself.
    let Ok(validator) = Validator::new(&tool.input_schema) else { return Ok(()) };
    let violations = validator.validate(&Value::Object(arguments.clone()));
    if violations.is_empty() {
        return Ok(());
    }
    Err(InvalidArguments { tool: tool.name.clone(), violations })
}
