//! Readers of JSON values that collect problems with JSON pointers.

use serde_json::{Map, Value};

use super::Problem;

/// A value and the JSON pointer to it.
#[derive(Debug, Clone)]
pub(crate) struct JsonPath<'v> {
    pub(crate) value: &'v Value,
    pub(crate) pointer: String,
}

/// Problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    pub(crate) problems: Vec<Problem>,
}

impl Diagnostics {
    pub(crate) fn error(&mut self, pointer: &str, message: impl Into<String>) {
        self.problems.push(Problem::error(pointer, message));
    }

    /// Reads an object whose keys are all known; reports any other key.
    pub(crate) fn read_object<'v>(&mut self, field: &JsonPath<'v>, what: &str, known: &[String]) -> Option<Object<'v>> {
        let mut object = self.read_free_object(field, what)?;
        for key in object.fields.keys().filter(|key| !known.contains(key)) {
            let similar = meant_key(key, known);
            let message = format!("unknown key '{key}' in {what}{}", hint(key, similar, known));
            self.error(&format!("{}/{}", field.pointer, escaped(key)), message);
            object.meant_keys.extend(similar.map(str::to_owned));
        }
        Some(object)
    }

    /// Reads an object whose keys are chosen by its author.
    pub(crate) fn read_free_object<'v>(&mut self, field: &JsonPath<'v>, what: &str) -> Option<Object<'v>> {
        match field.value {
            Value::Object(fields) => Some(Object { fields, pointer: field.pointer.clone(), meant_keys: Vec::new() }),
            other => {
                self.error(&field.pointer, format!("{what} must be an object, not {}", kind(other)));
                None
            }
        }
    }

    /// Reads a required field.
    pub(crate) fn read_required<'v>(&mut self, object: &Object<'v>, key: &str) -> Option<JsonPath<'v>> {
        let field = object.get(key);
        if field.is_none() {
            self.report_missing(object, key, "");
        }
        field
    }

    /// Reports a missing field, unless an already reported unknown key is a misspelling of the field's key. `advice`
    /// follows the message.
    pub(crate) fn report_missing(&mut self, object: &Object<'_>, key: &str, advice: &str) {
        if !object.meant_keys.iter().any(|meant| meant == key) {
            self.error(&object.pointer, format!("'{key}' is missing{advice}"));
        }
    }

    pub(crate) fn read_text<'v>(&mut self, field: &JsonPath<'v>, what: &str) -> Option<&'v str> {
        let text = field.value.as_str();
        if text.is_none() {
            self.error(&field.pointer, format!("{what} must be a string, not {}", kind(field.value)));
        }
        text
    }

    pub(crate) fn read_boolean(&mut self, field: &JsonPath<'_>, what: &str) -> Option<bool> {
        let boolean = field.value.as_bool();
        if boolean.is_none() {
            self.error(&field.pointer, format!("{what} must be true or false, not {}", kind(field.value)));
        }
        boolean
    }

    pub(crate) fn read_list<'v>(&mut self, field: &JsonPath<'v>, what: &str) -> Vec<JsonPath<'v>> {
        if let Value::Array(items) = field.value {
            let item = |(index, value)| JsonPath { value, pointer: format!("{}/{index}", field.pointer) };
            return items.iter().enumerate().map(item).collect();
        }
        self.error(&field.pointer, format!("{what} must be a list, not {}", kind(field.value)));
        Vec::new()
    }
}

/// A JSON object and the pointer to it.
#[derive(Debug, Clone)]
pub(crate) struct Object<'v> {
    pub(crate) fields: &'v Map<String, Value>,
    pub(crate) pointer: String,
    /// The known keys that unknown keys of the object probably mean.
    meant_keys: Vec<String>,
}

impl<'v> Object<'v> {
    /// Returns a field; a null field is considered missing.
    pub(crate) fn get(&self, key: &str) -> Option<JsonPath<'v>> {
        let value = self.fields.get(key).filter(|value| !value.is_null())?;
        Some(JsonPath { value, pointer: format!("{}/{}", self.pointer, escaped(key)) })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'v String, JsonPath<'v>)> {
        let field = |(key, value): (&'v String, &'v Value)| {
            (key, JsonPath { value, pointer: format!("{}/{}", self.pointer, escaped(key)) })
        };
        self.fields.iter().map(field)
    }
}

/// Returns a key as a part of a JSON pointer (RFC 6901).
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns a description of a value's kind.
pub(crate) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("the string {value}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Keys of other workflow languages, each with the corresponding key of this language.
const SYNONYMS: [(&str, &str); 25] = [
    ("next", "next_state"),
    ("target", "next_state"),
    ("to", "next_state"),
    ("goto", "next_state"),
    ("when", "condition"),
    ("if", "condition"),
    ("on", "condition"),
    ("cwd", "working_directory"),
    ("env", "environment"),
    ("args", "arguments"),
    ("inputs", "arguments"),
    ("outputs", "return_values"),
    ("start", "initial_state"),
    ("start_at", "initial_state"),
    ("pattern", "pattern_match"),
    ("exit_code", "field_equals"),
    ("contains", "field_contains"),
    ("next", "transitions"),
    ("when", "transitions"),
    ("goto", "transitions"),
    ("if", "transitions"),
    ("tool", "action"),
    ("params", "action"),
    ("parameters", "params"),
    ("steps", "states"),
];

/// Returns the known key that an unknown key probably means: a synonym, else a similarly spelled key.
pub(crate) fn meant_key<'k>(unknown: &str, known: &'k [String]) -> Option<&'k str> {
    let known = || known.iter().map(String::as_str);
    let lowercase = unknown.to_lowercase();
    let synonym = known().find(|known| SYNONYMS.contains(&(&lowercase, known)));
    synonym.or_else(|| nearest(unknown, known()))
}

/// Returns the end of a message about an unknown key: the key that it probably means, or all known keys.
pub(crate) fn hint(unknown: &str, similar: Option<&str>, known: &[String]) -> String {
    match similar {
        Some("field_equals") if SYNONYMS.contains(&(&unknown.to_lowercase(), "field_equals")) => {
            format!(", write {{\"field_equals\": {{\"{unknown}\": …}}}}")
        }
        Some(similar) => format!(", did you mean '{similar}'?"),
        None => all_known(known.iter().map(String::as_str)),
    }
}

/// Maximum size of a word, in bytes, in the search for misspellings.
const MAX_COMPARED_BYTES: usize = 128;

/// Returns the end of a message with the known word that an unknown word probably means: `, did you mean
/// 'transitions'?`
///
/// Returns an empty string if no word is similar enough.
pub fn suggestion<'k>(unknown: &str, known: impl Iterator<Item = &'k str>) -> String {
    nearest(unknown, known).map(|candidate| format!(", did you mean '{candidate}'?")).unwrap_or_default()
}

/// Same as [`suggestion`], but lists all known words if none is similar enough: `, known are name, states`.
pub fn suggestion_or_known<'k>(unknown: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let suggestion = suggestion(unknown, known.clone());
    if suggestion.is_empty() { all_known(known) } else { suggestion }
}

/// Returns the end of a message with all known words.
fn all_known<'k>(known: impl Iterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.collect();
    match known.as_slice() {
        [] => String::new(),
        [only] => format!(", known is only {only}"),
        known => format!(", known are {}", known.join(", ")),
    }
}

fn nearest<'k>(unknown: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // A long word is not a typing mistake, and the comparison of long words is slow.
    let is_comparable = |text: &str| text.len() <= MAX_COMPARED_BYTES;
    known
        .filter(|candidate| is_comparable(candidate) && is_comparable(unknown))
        .map(|candidate| (strsim::damerau_levenshtein(&unknown.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance * 3 <= candidate.len().max(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
