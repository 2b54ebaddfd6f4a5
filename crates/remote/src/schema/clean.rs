//! The cleaning of foreign schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::references;
use super::validator::{Validator, is_pattern};
use crate::text;

/// Maximum length of a schema.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum depth of schemas in schemas.
const MAX_DEPTH: usize = 24;
/// Maximum length of a description in a schema.
const MAX_TEXT_CHARS: usize = 500;
/// Maximum number of reported changes.
const MAX_NOTES: usize = 20;

/// Maximum number of patterns in a schema; each takes up to a few milliseconds to compile.
const MAX_PATTERNS: usize = 50;

const PATTERNS: &str = "patterns that could take long, or are none, are left out";

/// A schema of an object, safe for checks and for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    /// The schema; of an object.
    pub schema: Value,
    /// Omitted parts of the service's schema, each a fragment without a full stop; empty for a schema that was fine.
    pub notes: Vec<String>,
}

impl Cleaned {
    fn anything(reason: impl Into<String>) -> Self {
        Self { schema: json!({ "type": "object" }), notes: vec![reason.into()] }
    }
}

/// Makes a foreign schema safe. Omits unusable parts, so that the cleaned schema accepts at least what the original one
/// accepts; a schema of another type becomes the schema of any object.
///
/// Left out are references to other documents, unknown keywords, hidden text, patterns that need backtracking, circular
/// references, and everything that is too large or does not make sense.
#[must_use]
pub fn clean(raw: &Value) -> Cleaned {
    let fields = match raw {
        Value::Object(fields) => fields,
        Value::Null => return Cleaned::anything("the service gives no schema"),
        _ => return Cleaned::anything("the schema is no object"),
    };
    if raw.to_string().len() > MAX_SCHEMA_BYTES {
        return Cleaned::anything(format!("the schema is longer than {MAX_SCHEMA_BYTES} bytes"));
    }
    let is_object = match fields.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        return Cleaned::anything("the schema is not that of an object");
    }
    let Ok(left_out) = references::to_leave_out(raw) else {
        return Cleaned::anything("the references of the schema multiply without end");
    };
    let mut cleaning = Cleaning { left_out, notes: Vec::new(), patterns: 0 };
    let mut schema = cleaning.schema(raw, "", 0);
    if !cleaning.notes.is_empty() {
        loosen(&mut schema);
    }
    if let Value::Object(fields) = &mut schema {
        // First, because that is where readers look for it.
        fields.shift_remove("type");
        fields.shift_insert(0, "type".to_owned(), "object".into());
    }
    match Validator::new(&schema) {
        Ok(_) => Cleaned { schema, notes: cleaning.notes },
        Err(unusable) => Cleaned::anything(format!("the schema is invalid: {unusable}")),
    }
}

/// Takes out of a schema what could forbid more now that other parts of it allow more: negations, conditions and counts.
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

/// Kind of the value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Schemas,
    NamedSchemas,
    /// Texts for people and models.
    Text,
    /// A value for comparing arguments.
    Constant,
    /// A list of such values.
    Constants,
    /// Values that only help.
    Hint,
    Pattern,
    Reference,
    /// Numbers, booleans, names of types.
    Plain,
    /// Names of properties.
    Names,
}

/// The keywords of 2020-12 that say something about an input, and two that older schemas use in their place.
pub(super) fn kind(keyword: &str) -> Option<Kind> {
    Some(match keyword {
        "additionalProperties"
        | "items"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Kind::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Kind::Schemas,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => Kind::NamedSchemas,
        "title" | "description" => Kind::Text,
        "const" => Kind::Constant,
        "enum" => Kind::Constants,
        "default" | "examples" => Kind::Hint,
        "pattern" => Kind::Pattern,
        "$ref" => Kind::Reference,
        "required" => Kind::Names,
        "type" | "format" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
        | "minLength" | "maxLength" | "minItems" | "maxItems" | "uniqueItems" | "minContains" | "maxContains"
        | "minProperties" | "maxProperties" | "dependentRequired" | "deprecated" | "readOnly" | "writeOnly" => {
            Kind::Plain
        }
        _ => return None,
    })
}

struct Cleaning {
    /// Unfollowed references, by their places.
    left_out: BTreeSet<String>,
    /// Omitted parts of the service's schema.
    notes: Vec<String>,
    /// Number of checked patterns.
    patterns: usize,
}

impl Cleaning {
    fn add_note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns whether a pattern stays.
    fn keeps(&mut self, pattern: &str) -> bool {
        self.patterns += 1;
        let is_kept = self.patterns <= MAX_PATTERNS && !text::has_unseen(pattern) && is_pattern(pattern);
        if !is_kept {
            self.add_note(PATTERNS);
        }
        is_kept
    }

    /// Cleans the schema at a JSON Pointer.
    fn schema(&mut self, raw: &Value, at: &str, depth: usize) -> Value {
        let fields = match raw {
            Value::Bool(boolean) => return Value::Bool(*boolean),
            Value::Object(fields) if depth <= MAX_DEPTH => fields,
            Value::Object(_) => {
                self.add_note(format!("what is deeper than {MAX_DEPTH} levels is left out"));
                return json!({});
            }
            _ => {
                self.add_note("a part that is no schema is left out");
                return json!({});
            }
        };
        let mut kept = Map::new();
        for (keyword, value) in fields {
            // An older form, see below.
            if keyword == "items" && value.is_array() {
                continue;
            }
            let at = format!("{at}/{keyword}");
            let Some(kind) = kind(keyword) else {
                if matches!(keyword.as_str(), "$dynamicRef" | "$recursiveRef") {
                    self.add_note("references that depend on who refers are left out");
                }
                continue;
            };
            if let Some(cleaned) = self.keyword(&kind, value, &at, depth) {
                kept.insert(keyword.clone(), cleaned);
            }
        }
        // Before 2020-12, `items` could be a list, and another keyword applied to the items after it.
        if let Some(items @ Value::Array(_)) = fields.get("items") {
            if fields.contains_key("additionalItems") {
                self.add_note("additionalItems is left out");
            }
            if let Some(schemas) = self.keyword(&Kind::Schemas, items, &format!("{at}/items"), depth) {
                kept.insert("prefixItems".to_owned(), schemas);
            }
        }
        // It would apply to the omitted properties, and could forbid their values.
        let named = |fields: &Map<String, Value>, keyword: &str| {
            fields.get(keyword).and_then(Value::as_object).map_or(0, Map::len)
        };
        if ["properties", "patternProperties"].iter().any(|keyword| named(&kept, keyword) < named(fields, keyword)) {
            kept.shift_remove("additionalProperties");
        }
        Value::Object(kept)
    }

    fn keyword(&mut self, kind: &Kind, value: &Value, at: &str, depth: usize) -> Option<Value> {
        match (kind, value) {
            (Kind::Schema, Value::Object(_) | Value::Bool(_)) => Some(self.schema(value, at, depth + 1)),
            (Kind::Schemas, Value::Array(schemas)) if !schemas.is_empty() => {
                let schemas = schemas.iter().enumerate();
                Some(schemas.map(|(index, schema)| self.schema(schema, &format!("{at}/{index}"), depth + 1)).collect())
            }
            (Kind::NamedSchemas, Value::Object(named)) => {
                let mut kept = Map::new();
                for (name, schema) in named {
                    let is_pattern = at.ends_with("/patternProperties");
                    if !is_pattern && text::has_unseen(name) {
                        self.add_note("properties with hidden characters in their names are left out");
                    } else if !is_pattern || self.keeps(name) {
                        let schema = self.schema(schema, &references::below(at, name), depth + 1);
                        kept.insert(name.clone(), schema);
                    }
                }
                Some(Value::Object(kept))
            }
            (Kind::Text, Value::String(foreign)) => {
                let cleaned = text::clean(foreign, MAX_TEXT_CHARS);
                (!cleaned.is_empty()).then(|| cleaned.into())
            }
            (Kind::Constant | Kind::Constants, value) if hides(value) => {
                self.add_note("values with hidden characters are left out");
                None
            }
            (Kind::Pattern, Value::String(pattern)) => self.keeps(pattern).then(|| value.clone()),
            (Kind::Reference, Value::String(_)) => {
                let is_kept = !self.left_out.contains(at);
                if !is_kept {
                    self.add_note("references to elsewhere, to nothing or in a circle are left out");
                }
                is_kept.then(|| value.clone())
            }
            (Kind::Names | Kind::Plain, value) if hides(value) => {
                self.add_note("keywords with hidden characters in their values are left out");
                None
            }
            (Kind::Names, Value::Array(_)) | (Kind::Constant | Kind::Constants | Kind::Plain, _) => Some(value.clone()),
            (Kind::Hint, value) => (!hides(value)).then(|| value.clone()),
            _ => {
                self.add_note("keywords whose values make no sense are left out");
                None
            }
        }
    }
}

/// Returns whether a value contains anything invisible.
fn hides(value: &Value) -> bool {
    match value {
        Value::String(foreign) => text::has_unseen(foreign),
        Value::Array(values) => values.iter().any(hides),
        Value::Object(fields) => fields.iter().any(|(name, value)| text::has_unseen(name) || hides(value)),
        _ => false,
    }
}
