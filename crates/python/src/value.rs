//! Values between the interpreter and JSON.

use monty_types::MontyObject;
use num_bigint::BigInt;
use serde_json::{Map, Number, Value};

/// Maximum nesting depth of a value. JSON readers accept up to 128 levels, and a message contains the value.
const MAX_DEPTH: usize = 100;

/// Error of a value that is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    /// The value has too many levels.
    #[error("it is nested more deeply than {MAX_DEPTH} levels")]
    TooDeep,
    /// The whole value has another type.
    #[error("it is {found}")]
    Whole {
        /// Type or value, and how to convert it; at most 200 characters.
        found: String,
    },
    /// A part of the value has another type.
    #[error("at {location} it has {found}")]
    Part {
        /// The keys and indexes that lead to the part, as Python spells them.
        location: String,
        /// Type or value, and how to convert it; at most 200 characters.
        found: String,
    },
}

/// Returns the value as JSON, or an error that names the part that is not JSON.
pub(crate) fn to_json(object: &MontyObject) -> Result<Value, JsonError> {
    convert(object, &mut Vec::new())
}

enum Part<'a> {
    Key(&'a str),
    Index(usize),
}

fn convert<'a>(object: &'a MontyObject, path: &mut Vec<Part<'a>>) -> Result<Value, JsonError> {
    if path.len() > MAX_DEPTH {
        return Err(JsonError::TooDeep);
    }
    match object {
        MontyObject::None => Ok(Value::Null),
        MontyObject::Bool(value) => Ok(Value::Bool(*value)),
        MontyObject::Int(value) => Ok(Value::from(*value)),
        MontyObject::BigInt(value) => match u64::try_from(value) {
            Ok(value) => Ok(Value::from(value)),
            Err(_) => json_error(path, "a number that is too large for JSON as others read it"),
        },
        MontyObject::Float(value) => match Number::from_f64(*value) {
            Some(value) => Ok(Value::Number(value)),
            None => json_error(path, &format!("the number {value}, which JSON does not have")),
        },
        MontyObject::String(value) => Ok(Value::String(value.clone())),
        MontyObject::List(items) | MontyObject::Tuple(items) | MontyObject::NamedTuple { values: items, .. } => {
            let mut converted = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                path.push(Part::Index(index));
                converted.push(convert(item, path)?);
                path.pop();
            }
            Ok(Value::Array(converted))
        }
        MontyObject::Dict(pairs) => {
            let mut converted = Map::new();
            for (key, item) in pairs {
                let name = match key {
                    MontyObject::String(name) => name.clone(),
                    // `json.dumps` converts integer keys in the same way.
                    MontyObject::Int(number) => number.to_string(),
                    other => {
                        return json_error(path, &format!("a dict with the key {other}, and only strings can be keys"));
                    }
                };
                path.push(match key {
                    MontyObject::String(name) => Part::Key(name),
                    _ => Part::Key("…"),
                });
                converted.insert(name, convert(item, path)?);
                path.pop();
            }
            Ok(Value::Object(converted))
        }
        MontyObject::Set(_) | MontyObject::FrozenSet(_) => json_error(path, "a set; sorted(…) makes a list of it"),
        MontyObject::Bytes(_) => json_error(path, "bytes; .decode() makes a string of them"),
        MontyObject::Cycle(..) => json_error(path, "a value that contains itself"),
        MontyObject::ClassInstance(instance) => {
            json_error(path, &format!("an object of the class {}", instance.class_type.name))
        }
        MontyObject::Date(_) | MontyObject::DateTime(_) | MontyObject::Time(_) => {
            json_error(path, "a date or time; .isoformat() makes a string of it")
        }
        other => json_error(path, &other.to_string()),
    }
}

fn json_error(path: &[Part<'_>], found: &str) -> Result<Value, JsonError> {
    let mut location = String::new();
    for part in path {
        match part {
            Part::Key(key) => location.push_str(&format!("[{key:?}]")),
            Part::Index(index) => location.push_str(&format!("[{index}]")),
        }
    }
    let found = found.chars().take(200).collect();
    Err(if location.is_empty() { JsonError::Whole { found } } else { JsonError::Part { location, found } })
}

/// Returns the approximate length of a value as JSON text, in bytes.
pub(crate) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| text_bytes(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => fields.iter().map(|(name, item)| name.len() + text_bytes(item) + 4).sum::<usize>() + 2,
    }
}

/// Converts a JSON value to a value of the interpreter.
pub(crate) fn from_json(value: &Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => MontyObject::Int(value),
            (None, Some(value)) => MontyObject::BigInt(BigInt::from(value)),
            (None, None) => MontyObject::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => MontyObject::String(text.clone()),
        Value::Array(items) => MontyObject::List(items.iter().map(from_json).collect()),
        Value::Object(fields) => MontyObject::dict(
            fields
                .iter()
                .map(|(name, value)| (MontyObject::String(name.clone()), from_json(value)))
                .collect::<Vec<_>>(),
        ),
    }
}
