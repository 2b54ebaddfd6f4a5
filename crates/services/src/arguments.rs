//! Arguments of a tool: their conversion by its schema, and their validation.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steplatch_protocol::ToolInfo;
use steplatch_remote::schema::Validator;

use crate::error::InvalidArguments;

/// Returns the arguments of a tool. Converts strings if the schema has another type.
pub fn arguments(tool: &ToolInfo, variables: BTreeMap<String, Value>) -> Map<String, Value> {
    let expected_type =
        |name: &str| tool.input_schema.pointer(&format!("/properties/{}/type", escape_key(name)))?.as_str();
    let convert = |name: &str, value: Value| {
        let Value::String(text) = value else { return value };
        let has_type = |value: &Value| match expected_type(name) {
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => false,
        };
        serde_json::from_str(&text).ok().filter(has_type).unwrap_or(Value::String(text))
    };
    variables.into_iter().map(|(name, value)| (name.clone(), convert(&name, value))).collect()
}

/// Escapes a key of an object for a JSON pointer (RFC 6901).
fn escape_key(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Validates the arguments of a tool.
///
/// # Errors
///
/// If the arguments violate the schema.
pub fn check(tool: &ToolInfo, arguments: &Map<String, Value>) -> Result<(), InvalidArguments> {
    // An invalid schema accepts anything, since the service checks its arguments itself.
    let Ok(validator) = Validator::new(&tool.input_schema) else { return Ok(()) };
    let violations = validator.validate(&Value::Object(arguments.clone()));
    if violations.is_empty() {
        return Ok(());
    }
    Err(InvalidArguments { tool: tool.name.clone(), violations })
}
