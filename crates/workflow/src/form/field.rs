//! One field of a form.

use serde_json::{Number, Value, json};

use super::format::Format;
use super::kind::{Kind, Offered, read_choices, read_number, read_text};

/// A field of a form, for a plain value.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    name: String,
    title: Option<String>,
    description: Option<String>,
    required: bool,
    default: Option<Value>,
    kind: Kind,
}

/// Problem with the value of a field, as a fragment that follows the field's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// The field requires text.
    #[error("must be filled in")]
    Missing,
    /// The field requires a value of another kind.
    #[error("must be filled in: {expected}")]
    MissingKind {
        /// Description of the accepted values.
        expected: String,
    },
    /// The value has another type or format, or is out of bounds.
    #[error("must be {expected}, not {actual}")]
    Wrong {
        /// Description of the accepted values.
        expected: String,
        /// The value as JSON; at most 100 characters.
        actual: String,
    },
    /// The text is too short or too long.
    #[error("must have {expected} characters, not {actual}")]
    Length {
        /// Description of the accepted lengths.
        expected: String,
        /// The length of the text, in characters.
        actual: u64,
    },
}

impl Field {
    pub(super) fn read(name: &str, schema: &Value, required: bool) -> Result<Self, Vec<String>> {
        let Value::Object(schema) = schema else {
            return Err(vec![r#"must be an object such as {"type": "string"}"#.to_owned()]);
        };
        let offers = schema.contains_key("enum") || schema.contains_key("oneOf");
        let mut problems = Vec::new();
        let (word, keys): (_, &[&str]) = match schema.get("type").and_then(Value::as_str) {
            Some("string") => ("string", &["minLength", "maxLength", "format", "enum", "enumNames", "oneOf"]),
            None if offers && !schema.contains_key("type") => ("string", &["enum", "enumNames", "oneOf"]),
            Some(word @ ("number" | "integer")) => (word, &["minimum", "maximum"]),
            Some("boolean") => ("boolean", &[]),
            _ => {
                let kind = schema.get("type").unwrap_or(&Value::Null);
                return Err(vec![format!("has type {kind}; a field is a string, number, integer or boolean")]);
            }
        };
        let known = || ["type", "title", "description", "default"].iter().chain(keys);
        for key in schema.keys().filter(|key| !known().any(|known| known == key)) {
            let known: Vec<&str> = known().copied().collect();
            problems.push(format!("has an unknown key '{key}'; a {word} has {}", known.join(", ")));
        }
        let text = |key: &str, problems: &mut Vec<String>| match schema.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                problems.push(format!("has {key} {other}, which is not a string"));
                None
            }
        };
        let (title, description) = (text("title", &mut problems), text("description", &mut problems));
        let kind = match word {
            "boolean" => Kind::Boolean,
            "string" if offers => Kind::Choice(read_choices(schema, &mut problems)),
            "string" => read_text(schema, &mut problems),
            _ => read_number(schema, word == "integer", &mut problems),
        };
        let mut field = Self { name: name.to_owned(), title, description, required, default: None, kind };
        if problems.is_empty()
            && let Some(default) = schema.get("default").filter(|default| !default.is_null())
        {
            match field.parse_value(default) {
                Ok(default) => field.default = Some(default),
                Err(problem) => problems.push(format!("has an invalid default: {problem}")),
            }
        }
        if problems.is_empty() { Ok(field) } else { Err(problems) }
    }

    /// Returns the name of the field: its key in the answer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the label of the field for people: its title, or its name.
    #[must_use]
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the field's description, if it has one.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns whether the value is secret: invisible during input, and absent from records.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Text { format: Some(Format::Password), .. })
    }

    /// Returns whether the form requires a value for the field.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Returns the default as text for people; `None` without a default.
    #[must_use]
    pub fn default_in_words(&self) -> Option<String> {
        self.default.as_ref().map(|default| match default {
            Value::String(text) => match &self.kind {
                Kind::Choice(offered) => {
                    let offered = offered.iter().find(|offered| offered.value == *text);
                    offered.map_or_else(|| text.clone(), Offered::display_label)
                }
                _ => text.clone(),
            },
            Value::Bool(truth) => if *truth { "yes" } else { "no" }.to_owned(),
            other => other.to_string(),
        })
    }

    /// Returns the titles and values of the choices; empty for a field that takes any value.
    #[must_use]
    pub fn choices(&self) -> Vec<String> {
        match &self.kind {
            Kind::Choice(offered) => offered.iter().map(Offered::display_label).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a short description of the accepted values, such as "a whole number from 1 to 9".
    #[must_use]
    pub fn constraint(&self) -> String {
        match &self.kind {
            Kind::Text { format: Some(format), .. } => format.describe().to_owned(),
            Kind::Text { min, max, .. } => match lengths(*min, *max) {
                Some(lengths) => format!("a text of {lengths} characters"),
                None => "a text".to_owned(),
            },
            Kind::Choice(offered) => format!("one of {}", values(offered)),
            Kind::Number { is_whole_number, min, max } => {
                let kind = if *is_whole_number { "a whole number" } else { "a number" };
                match range(*min, *max) {
                    Some(range) => format!("{kind} {range}"),
                    None => kind.to_owned(),
                }
            }
            Kind::Boolean => "yes or no".to_owned(),
        }
    }

    /// Returns the value that a person typed as a line. A choice may be given by its number; an empty line means the
    /// default.
    ///
    /// # Errors
    /// If the field does not accept the value.
    pub fn typed(&self, line: &str) -> Result<Value, InvalidField> {
        let line = line.trim();
        if line.is_empty() {
            return self.value_or_default(None);
        }
        let text = Value::from(line);
        match (&self.kind, self.parse_value(&text)) {
            (Kind::Choice(offered), Err(problem)) => {
                let number = line.parse::<usize>().ok().and_then(|number| offered.get(number.checked_sub(1)?));
                number.map(|offered| offered.value.as_str().into()).ok_or(problem)
            }
            (_, parsed) => parsed,
        }
    }

    /// Returns the parsed value, or the default if there is no value.
    pub(super) fn value_or_default(&self, value: Option<&Value>) -> Result<Value, InvalidField> {
        let is_empty = |value: &&Value| match value {
            Value::Null => true,
            // Clients return empty texts for unfilled fields.
            Value::String(text) if text.is_empty() => {
                self.required || !matches!(self.kind, Kind::Text { min: None, format: None, .. })
            }
            _ => false,
        };
        match value.filter(|value| !is_empty(value)) {
            Some(value) => self.parse_value(value),
            None => match &self.default {
                Some(default) => Ok(default.clone()),
                None if !self.required => Ok(Value::Null),
                None if matches!(self.kind, Kind::Text { format: None, .. }) => Err(InvalidField::Missing),
                None => Err(InvalidField::MissingKind { expected: self.constraint() }),
            },
        }
    }

    fn parse_value(&self, value: &Value) -> Result<Value, InvalidField> {
        let wrong_value = |expected: String| {
            let actual = value.to_string().chars().take(100).collect();
            Err(InvalidField::Wrong { expected, actual })
        };
        match &self.kind {
            Kind::Text { min, max, format } => {
                let Value::String(text) = value else { return wrong_value("a text".to_owned()) };
                let length = text.chars().count() as u64;
                if let Some(lengths) = lengths(*min, *max)
                    && (min.is_some_and(|min| length < min) || max.is_some_and(|max| length > max))
                {
                    return Err(InvalidField::Length { expected: lengths, actual: length });
                }
                match format {
                    Some(format) if !format.holds(text) => wrong_value(format.describe().to_owned()),
                    _ => Ok(value.clone()),
                }
            }
            Kind::Choice(offered) => {
                let text = value.as_str().unwrap_or_default();
                let has_title =
                    |offered: &&Offered| offered.title.as_deref() == Some(text) || offered.display_label() == text;
                let found = offered.iter().find(|offered| offered.value == text);
                match found.or_else(|| offered.iter().find(has_title)) {
                    Some(found) => Ok(found.value.as_str().into()),
                    None => wrong_value(format!("one of {}", values(offered))),
                }
            }
            Kind::Number { is_whole_number, min, max } => {
                let kind = if *is_whole_number { "a whole number" } else { "a number" };
                let number = number(value).filter(|number| !is_whole_number || is_whole(number));
                let Some(number) = number else { return wrong_value(kind.to_owned()) };
                let size = number.as_f64().unwrap_or_default();
                match range(*min, *max) {
                    Some(range) if min.is_some_and(|min| size < min) || max.is_some_and(|max| size > max) => {
                        Err(InvalidField::Wrong { expected: range, actual: number.to_string() })
                    }
                    _ if *is_whole_number => Ok(whole_number(&number)),
                    _ => Ok(Value::Number(number)),
                }
            }
            Kind::Boolean => match value {
                Value::Bool(_) => Ok(value.clone()),
                Value::String(text) => match text.trim().to_lowercase().as_str() {
                    "yes" | "y" | "true" => Ok(true.into()),
                    "no" | "n" | "false" => Ok(false.into()),
                    _ => wrong_value("yes or no".to_owned()),
                },
                _ => wrong_value("yes or no".to_owned()),
            },
        }
    }

    pub(super) fn schema(&self) -> Value {
        let mut schema = match &self.kind {
            Kind::Text { min, max, format } => {
                let mut schema = json!({"type": "string"});
                set(&mut schema, "minLength", *min);
                set(&mut schema, "maxLength", *max);
                set(&mut schema, "format", format.map(Format::name));
                schema
            }
            Kind::Choice(offered) if offered.iter().all(|offered| offered.title.is_none()) => {
                let values: Vec<&str> = offered.iter().map(|offered| offered.value.as_str()).collect();
                json!({"type": "string", "enum": values})
            }
            Kind::Choice(offered) => {
                let offered: Vec<Value> = offered
                    .iter()
                    .map(|offered| json!({"const": offered.value, "title": offered.display_label()}))
                    .collect();
                json!({"type": "string", "oneOf": offered})
            }
            Kind::Number { is_whole_number, min, max } => {
                let mut schema = json!({"type": if *is_whole_number { "integer" } else { "number" }});
                set(&mut schema, "minimum", min.map(|min| bound(min, *is_whole_number)));
                set(&mut schema, "maximum", max.map(|max| bound(max, *is_whole_number)));
                schema
            }
            Kind::Boolean => json!({"type": "boolean"}),
        };
        set(&mut schema, "title", self.title.as_deref());
        set(&mut schema, "description", self.description.as_deref());
        set(&mut schema, "default", self.default.clone());
        schema
    }
}

fn set(schema: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        schema[key] = value.into();
    }
}

fn bound(bound: f64, is_whole_number: bool) -> Value {
    match Number::from_f64(bound) {
        Some(number) if is_whole_number => whole_number(&number),
        Some(number) => Value::Number(number),
        None => Value::Null,
    }
}

fn values(offered: &[Offered]) -> String {
    offered.iter().map(|offered| offered.value.as_str()).collect::<Vec<_>>().join(", ")
}

fn lengths(min: Option<u64>, max: Option<u64>) -> Option<String> {
    match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}")),
        (Some(min), None) => Some(format!("at least {min}")),
        (None, Some(max)) => Some(format!("at most {max}")),
        (None, None) => None,
    }
}

fn range(min: Option<f64>, max: Option<f64>) -> Option<String> {
    match (min, max) {
        (Some(min), Some(max)) => Some(format!("from {min} to {max}")),
        (Some(min), None) => Some(format!("at least {min}")),
        (None, Some(max)) => Some(format!("at most {max}")),
        (None, None) => None,
    }
}

fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let text = text.trim();
            text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?))
        }
        _ => None,
    }
}

/// The largest integer of the range that an f64 represents exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.as_f64().is_some_and(|size| size.fract() == 0.0 && size.abs() <= MAX_EXACT_INTEGER)
}

/// Returns a whole number in the notation without a fraction.
fn whole_number(number: &Number) -> Value {
    match number.as_i64() {
        Some(integer) => integer.into(),
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and small enough: `is_whole` was asked")]
        None => (number.as_f64().unwrap_or_default() as i64).into(),
    }
}
