//! The schema of a variable's value: a JSON Schema for a string.
//!
//! Shell variables are strings, so this module supports the JSON Schema keywords that apply to strings. `type` reads
//! a string as a number, a boolean, a list or an object (the last two as JSON). Other keywords are refused, not ignored.
//! JSON Schema 2020-12, <https://json-schema.org/draft/2020-12/json-schema-validation>.

use serde_json::{Map, Value};
use steplatch_pattern::Pattern;

use crate::substitute;

/// The supported keywords; the last three do not constrain the value.
pub(crate) const KEYWORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "items",
    "minItems",
    "maxItems",
    "title",
    "description",
    "examples",
];

/// A JSON Schema of a variable's value.
#[derive(Debug, Clone)]
pub struct ValueSchema {
    kind: Kind,
    allowed: Option<Vec<String>>,
    pattern: Option<Pattern>,
    length: (Option<u64>, Option<u64>),
    range: (Option<f64>, Option<f64>),
    items: Option<Box<ValueSchema>>,
    item_count: (Option<u64>, Option<u64>),
}

/// The type of the value that a string denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    List,
    Object,
}

/// Parses the list or object that `kind` requires from a string with JSON; `None` if `kind` requires neither.
pub(crate) fn typed(kind: Option<&str>, text: &str) -> Option<Value> {
    let value = || serde_json::from_str::<Value>(text).ok();
    match kind? {
        "array" => value().filter(Value::is_array),
        "object" => value().filter(Value::is_object),
        _ => None,
    }
}

/// Reason a schema is invalid, with the invalid keyword.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidSchema {
    pub(crate) keyword: &'static str,
    pub(crate) message: String,
}

impl InvalidSchema {
    fn new(keyword: &'static str, message: impl Into<String>) -> Self {
        Self { keyword, message: message.into() }
    }
}

/// Two schemas are equal if their rules are equal.
impl PartialEq for ValueSchema {
    fn eq(&self, other: &Self) -> bool {
        let pattern = |schema: &Self| schema.pattern.as_ref().map(|pattern| pattern.as_str().to_owned());
        (self.kind, &self.allowed, pattern(self), self.length, self.range, &self.items, self.item_count)
            == (other.kind, &other.allowed, pattern(other), other.length, other.range, &other.items, other.item_count)
    }
}

impl ValueSchema {
    /// Reads a schema whose keywords are all known.
    pub(crate) fn read(fields: &Map<String, Value>) -> Result<Self, InvalidSchema> {
        let kind = match fields.get("type").map(|kind| kind.as_str().unwrap_or_default()) {
            None | Some("string") => Kind::Text,
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            Some("array") => Kind::List,
            Some("object") => Kind::Object,
            Some(_) => {
                let message = "'type' must be string, integer, number, boolean, array or object";
                return Err(InvalidSchema::new("type", message));
            }
        };
        let scalar = |keyword: &'static str, value: &Value| match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(substitute::as_text(value)),
            _ => {
                Err(InvalidSchema::new(keyword, format!("'{keyword}' must contain only strings, numbers or booleans")))
            }
        };
        let allowed = match (fields.get("const"), fields.get("enum")) {
            (Some(value), _) => Some(vec![scalar("const", value)?]),
            (None, Some(Value::Array(values))) if !values.is_empty() => {
                Some(values.iter().map(|value| scalar("enum", value)).collect::<Result<_, _>>()?)
            }
            (None, Some(_)) => return Err(InvalidSchema::new("enum", "'enum' must be a list of values")),
            (None, None) => None,
        };
        let pattern = match fields.get("pattern").map(|pattern| pattern.as_str().map(Pattern::new)) {
            None => None,
            Some(None) => return Err(InvalidSchema::new("pattern", "'pattern' must be a string")),
            Some(Some(Err(error))) => return Err(InvalidSchema::new("pattern", error.to_string())),
            Some(Some(Ok(pattern))) => Some(pattern),
        };
        let length = |keyword: &'static str| match fields.get(keyword).map(Value::as_u64) {
            Some(None) => Err(InvalidSchema::new(keyword, format!("'{keyword}' must be a non-negative whole number"))),
            length => Ok(length.flatten()),
        };
        let bound = |keyword: &'static str| match fields.get(keyword).map(Value::as_f64) {
            Some(None) => Err(InvalidSchema::new(keyword, format!("'{keyword}' must be a number"))),
            bound => Ok(bound.flatten()),
        };
        let items = match fields.get("items") {
            None => None,
            Some(Value::Object(items)) => match items.keys().find(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
                Some(keyword) => {
                    return Err(InvalidSchema::new("items", format!("'{keyword}' is not supported in 'items'")));
                }
                None => Some(Box::new(Self::read(items)?)),
            },
            Some(_) => return Err(InvalidSchema::new("items", "'items' must be a schema")),
        };
        let list_keyword = ["items", "minItems", "maxItems"].into_iter().find(|keyword| fields.contains_key(*keyword));
        if let Some(keyword) = list_keyword.filter(|_| kind != Kind::List) {
            return Err(InvalidSchema::new(keyword, format!("'{keyword}' requires \"type\": \"array\"")));
        }
        Ok(Self {
            kind,
            allowed,
            pattern,
            length: (length("minLength")?, length("maxLength")?),
            range: (bound("minimum")?, bound("maximum")?),
            items,
            item_count: (length("minItems")?, length("maxItems")?),
        })
    }

    /// Returns the problem of a value, as the rest of a sentence that begins with the variable's name.
    pub(crate) fn problem(&self, value: &str) -> Option<String> {
        let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        match self.kind {
            Kind::Text => {}
            Kind::Integer if number.is_none_or(|number| number.fract() != 0.0) => {
                return Some("must be a whole number".to_owned());
            }
            Kind::Number if number.is_none() => return Some("must be a number".to_owned()),
            Kind::Boolean if !matches!(value, "true" | "false") => return Some("must be true or false".to_owned()),
            Kind::List => match typed(Some("array"), value) {
                Some(Value::Array(items)) => return self.items_problem(&items),
                _ => return Some(r#"must be a list, as JSON: ["a", "b"]"#.to_owned()),
            },
            Kind::Object if typed(Some("object"), value).is_none() => {
                return Some(r#"must be an object, as JSON: {"key": "value"}"#.to_owned());
            }
            Kind::Integer | Kind::Number | Kind::Boolean | Kind::Object => {}
        }
        if let Some(allowed) = &self.allowed
            && !allowed.iter().any(|allowed| allowed == value)
        {
            return Some(format!("must be {}", allowed.join(" or ")));
        }
        let characters = value.chars().count() as u64;
        match self.length {
            (Some(min), _) if characters < min => return Some(format!("must have at least {min} characters")),
            (_, Some(max)) if characters > max => return Some(format!("must have at most {max} characters")),
            _ => {}
        }
        match (self.range, number) {
            ((Some(min), _), Some(number)) if number < min => return Some(format!("must be at least {min}")),
            ((_, Some(max)), Some(number)) if number > max => return Some(format!("must be at most {max}")),
            _ => {}
        }
        let pattern = self.pattern.as_ref()?;
        match pattern.is_match(value) {
            Ok(true) => None,
            Ok(false) => Some(format!("must match the pattern '{}'", pattern.as_str())),
            Err(error) => Some(format!("cannot be checked: {error}")),
        }
    }
}

impl ValueSchema {
    fn items_problem(&self, items: &[Value]) -> Option<String> {
        let count = items.len() as u64;
        match self.item_count {
            (Some(min), _) if count < min => return Some(format!("must have at least {min} items")),
            (_, Some(max)) if count > max => return Some(format!("must have at most {max} items")),
            _ => {}
        }
        let schema = self.items.as_ref()?;
        let mut problems = items.iter().enumerate().filter_map(|(index, item)| {
            // Items have JSON types: `Kind::Text` requires a string.
            let has_json_type = schema.kind != Kind::Text || item.is_string();
            let problem = if has_json_type {
                schema.problem(&substitute::as_text(item))
            } else {
                Some("must be a string".to_owned())
            };
            Some(format!("has item {index}, which {}", problem?))
        });
        problems.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: &Value) -> Result<ValueSchema, InvalidSchema> {
        ValueSchema::read(value.as_object().expect("the value is an object"))
    }

    #[test]
    fn value_is_checked_as_a_string() {
        for (words, value, expected) in [
            (json!({}), "anything", None),
            (json!({"type": "integer", "minimum": 1, "maximum": 9}), "5", None),
            (json!({"type": "integer"}), "5.5", Some("must be a whole number")),
            (json!({"type": "integer"}), "", Some("must be a whole number")),
            (json!({"type": "number", "minimum": 1}), "0.5", Some("must be at least 1")),
            (json!({"type": "number", "maximum": 1}), "2e0", Some("must be at most 1")),
            (json!({"type": "number"}), "inf", Some("must be a number")),
            (json!({"type": "boolean"}), "yes", Some("must be true or false")),
            (json!({"enum": ["debug", "release", 3]}), "3", None),
            (json!({"enum": ["debug", "release"]}), "Debug", Some("must be debug or release")),
            (json!({"const": true}), "false", Some("must be true")),
            (json!({"pattern": "^/"}), "home", Some("must match the pattern '^/'")),
            (json!({"pattern": "^/"}), "/home", None),
            (json!({"minLength": 2}), "é", Some("must have at least 2 characters")),
            (json!({"maxLength": 2}), "éé", None),
            (json!({"maxLength": 1}), "éé", Some("must have at most 1 characters")),
            (json!({"type": "array"}), r#"["a", 2]"#, None),
            (json!({"type": "array"}), "a,b", Some(r#"must be a list, as JSON: ["a", "b"]"#)),
            (json!({"type": "array"}), "{}", Some(r#"must be a list, as JSON: ["a", "b"]"#)),
            (json!({"type": "array", "minItems": 1}), "[]", Some("must have at least 1 items")),
            (json!({"type": "array", "items": {"type": "string"}}), r#"["a"]"#, None),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                r#"["a", 2]"#,
                Some("has item 1, which must be a string"),
            ),
            (
                json!({"type": "array", "items": {"type": "integer", "minimum": 1}}),
                "[1, 0]",
                Some("has item 1, which must be at least 1"),
            ),
            (json!({"type": "object"}), r#"{"a": [1]}"#, None),
            (json!({"type": "object"}), "[1]", Some(r#"must be an object, as JSON: {"key": "value"}"#)),
        ] {
            let schema = schema(&words).unwrap();
            assert_eq!(schema.problem(value).as_deref(), expected, "{value} under {words}");
        }
    }

    #[test]
    fn invalid_schema_names_its_keyword() {
        for (words, word) in [
            (json!({"type": "null"}), "type"),
            (json!({"type": ["string"]}), "type"),
            (json!({"items": {}}), "items"),
            (json!({"type": "array", "items": {"contains": 1}}), "items"),
            (json!({"type": "array", "items": [1]}), "items"),
            (json!({"type": "string", "maxItems": 1}), "maxItems"),
            (json!({"enum": []}), "enum"),
            (json!({"enum": [[]]}), "enum"),
            (json!({"const": {}}), "const"),
            (json!({"pattern": "("}), "pattern"),
            (json!({"pattern": 1}), "pattern"),
            (json!({"minLength": -1}), "minLength"),
            (json!({"maximum": "9"}), "maximum"),
        ] {
            assert_eq!(schema(&words).unwrap_err().keyword, word, "{words}");
        }
    }
}
