//! Cleaning of foreign schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keyword::{Kind, kind};
use super::references;
use super::validator::{Validator, is_linear_pattern};
use crate::text;

/// Maximum size of a schema.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum depth of nested schemas.
const MAX_DEPTH: usize = 24;
/// Maximum length of a description in a schema.
const MAX_TEXT_CHARS: usize = 500;
/// Maximum number of reported changes.
const MAX_NOTES: usize = 20;

/// Maximum number of patterns in a schema; each takes up to a few milliseconds to compile.
const MAX_PATTERNS: usize = 50;

const PATTERN_NOTE: &str = "slow or invalid patterns are omitted";

/// A schema of an object, safe for validation and for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanedSchema {
    /// The schema of an object.
    pub schema: Value,
    /// Omitted parts of the service's schema, each as a fragment without a full stop.
    pub notes: Vec<String>,
}

impl CleanedSchema {
    fn any_object(reason: impl Into<String>) -> Self {
        Self { schema: json!({ "type": "object" }), notes: vec![reason.into()] }
    }
}

/// Cleans a foreign schema. The cleaned schema accepts all values that the original one accepts; a schema of another
/// type becomes the schema of any object.
///
/// Omits references to other documents, circular references, unknown keywords, hidden text, patterns that need
/// backtracking, and all parts that are invalid or too large.
#[must_use]
pub fn clean(raw: &Value) -> CleanedSchema {
    let fields = match raw {
        Value::Object(fields) => fields,
        Value::Null => return CleanedSchema::any_object("the service has no schema"),
        _ => return CleanedSchema::any_object("the schema is not an object"),
    };
    if raw.to_string().len() > MAX_SCHEMA_BYTES {
        return CleanedSchema::any_object(format!("the schema is longer than {MAX_SCHEMA_BYTES} bytes"));
    }
    let is_object = match fields.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        return CleanedSchema::any_object("the schema does not describe an object");
    }
    let Ok(unusable_references) = references::unusable_references(raw) else {
        return CleanedSchema::any_object("the references of the schema expand without limit");
    };
    let mut cleaner = Cleaner { unusable_references, notes: Vec::new(), pattern_count: 0 };
    let mut schema = cleaner.clean_schema(raw, "", 0);
    if !cleaner.notes.is_empty() {
        loosen(&mut schema);
    }
    if let Value::Object(fields) = &mut schema {
        // The type comes first, where readers expect it.
        fields.shift_remove("type");
        fields.shift_insert(0, "type".to_owned(), "object".into());
    }
    match Validator::new(&schema) {
        Ok(_) => CleanedSchema { schema, notes: cleaner.notes },
        Err(error) => CleanedSchema::any_object(format!("the schema is invalid: {error}")),
    }
}

/// Removes negations, conditions and counts: without the omitted parts, they could forbid valid values.
fn loosen(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for keyword in ["not", "if", "then", "else", "maxContains", "unevaluatedItems", "unevaluatedProperties"] {
        fields.shift_remove(keyword);
    }
    if let Some(choices) = fields.shift_remove("oneOf")
        && !fields.contains_key("anyOf")
    {
        fields.insert("anyOf".to_owned(), choices);
    }
    for (keyword, value) in fields {
        match (kind(keyword), value) {
            (Some(Kind::Schema), value) => loosen(value),
            (Some(Kind::Schemas), Value::Array(schemas)) => schemas.iter_mut().for_each(loosen),
            (Some(Kind::NamedSchemas), Value::Object(named)) => named.values_mut().for_each(loosen),
            _ => {}
        }
    }
}

struct Cleaner {
    /// Omitted references, as JSON Pointers.
    unusable_references: BTreeSet<String>,
    /// Omitted parts of the service's schema.
    notes: Vec<String>,
    /// Number of checked patterns.
    pattern_count: usize,
}

impl Cleaner {
    fn add_note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns whether a pattern is usable. Adds a note if it is not.
    fn check_pattern(&mut self, pattern: &str) -> bool {
        self.pattern_count += 1;
        let is_kept = self.pattern_count <= MAX_PATTERNS && !text::has_invisible(pattern) && is_linear_pattern(pattern);
        if !is_kept {
            self.add_note(PATTERN_NOTE);
        }
        is_kept
    }

    /// Cleans the schema at a JSON Pointer.
    fn clean_schema(&mut self, raw: &Value, pointer: &str, depth: usize) -> Value {
        let fields = match raw {
            Value::Bool(boolean) => return Value::Bool(*boolean),
            Value::Object(fields) if depth <= MAX_DEPTH => fields,
            Value::Object(_) => {
                self.add_note(format!("parts deeper than {MAX_DEPTH} levels are omitted"));
                return json!({});
            }
            _ => {
                self.add_note("parts that are not schemas are omitted");
                return json!({});
            }
        };
        let mut cleaned = Map::new();
        for (keyword, value) in fields {
            // A list in an older schema is handled below.
            if keyword == "items" && value.is_array() {
                continue;
            }
            let pointer = format!("{pointer}/{keyword}");
            let Some(kind) = kind(keyword) else {
                if matches!(keyword.as_str(), "$dynamicRef" | "$recursiveRef") {
                    self.add_note("dynamic references are omitted");
                }
                continue;
            };
            if let Some(value) = self.clean_keyword(&kind, value, &pointer, depth) {
                cleaned.insert(keyword.clone(), value);
            }
        }
        // Before 2020-12, `items` could be a list, and another keyword applied to the items after it.
        if let Some(items @ Value::Array(_)) = fields.get("items") {
            if fields.contains_key("additionalItems") {
                self.add_note("additionalItems is omitted");
            }
            if let Some(schemas) = self.clean_keyword(&Kind::Schemas, items, &format!("{pointer}/items"), depth) {
                cleaned.insert("prefixItems".to_owned(), schemas);
            }
        }
        // This keyword would apply to the omitted properties, and could forbid their values.
        let count = |fields: &Map<String, Value>, keyword: &str| {
            fields.get(keyword).and_then(Value::as_object).map_or(0, Map::len)
        };
        if ["properties", "patternProperties"].iter().any(|keyword| count(&cleaned, keyword) < count(fields, keyword)) {
            cleaned.shift_remove("additionalProperties");
        }
        Value::Object(cleaned)
    }

    fn clean_keyword(&mut self, kind: &Kind, value: &Value, pointer: &str, depth: usize) -> Option<Value> {
        match (kind, value) {
            (Kind::Schema, Value::Object(_) | Value::Bool(_)) => Some(self.clean_schema(value, pointer, depth + 1)),
            (Kind::Schemas, Value::Array(schemas)) if !schemas.is_empty() => {
                let schemas = schemas.iter().enumerate();
                Some(
                    schemas
                        .map(|(index, schema)| self.clean_schema(schema, &format!("{pointer}/{index}"), depth + 1))
                        .collect(),
                )
            }
            (Kind::NamedSchemas, Value::Object(named)) => {
                let mut cleaned = Map::new();
                for (name, schema) in named {
                    let is_pattern = pointer.ends_with("/patternProperties");
                    if !is_pattern && text::has_invisible(name) {
                        self.add_note("properties with hidden characters in their names are omitted");
                    } else if !is_pattern || self.check_pattern(name) {
                        let schema = self.clean_schema(schema, &references::child_pointer(pointer, name), depth + 1);
                        cleaned.insert(name.clone(), schema);
                    }
                }
                Some(Value::Object(cleaned))
            }
            (Kind::Text, Value::String(text)) => {
                let cleaned = text::clean(text, MAX_TEXT_CHARS);
                (!cleaned.is_empty()).then(|| cleaned.into())
            }
            (Kind::Constant | Kind::Constants, value) if contains_invisible(value) => {
                self.add_note("values with hidden characters are omitted");
                None
            }
            (Kind::Pattern, Value::String(pattern)) => self.check_pattern(pattern).then(|| value.clone()),
            (Kind::Reference, Value::String(_)) => {
                let is_kept = !self.unusable_references.contains(pointer);
                if !is_kept {
                    self.add_note("references to other documents, missing or circular references are omitted");
                }
                is_kept.then(|| value.clone())
            }
            (Kind::Names | Kind::Plain, value) if contains_invisible(value) => {
                self.add_note("keywords with hidden characters in their values are omitted");
                None
            }
            (Kind::Names, Value::Array(_)) | (Kind::Constant | Kind::Constants | Kind::Plain, _) => Some(value.clone()),
            (Kind::Hint, value) => (!contains_invisible(value)).then(|| value.clone()),
            _ => {
                self.add_note("keywords with invalid values are omitted");
                None
            }
        }
    }
}

/// Returns whether a value contains anything invisible.
fn contains_invisible(value: &Value) -> bool {
    match value {
        Value::String(text) => text::has_invisible(text),
        Value::Array(values) => values.iter().any(contains_invisible),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| text::has_invisible(name) || contains_invisible(value))
        }
        _ => false,
    }
}
