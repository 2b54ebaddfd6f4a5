//! One field of a form.

use serde_json::{Number, Value, json};

use super::format::Format;
use super::kind::{Kind, Offered, offered, read_number, read_text};

/// A plain value to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    name: String,
    title: Option<String>,
    description: Option<String>,
    required: bool,
    default: Option<Value>,
    kind: Kind,
}

/// Requirement on a field of a form, as a fragment that follows its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// The field requires a text.
    #[error("must be filled in")]
    Missing,
    /// The field requires a value of another kind.
    #[error("must be filled in: {wanted}")]
    MissingKind {
        /// Description of the values that the field takes.
        wanted: String,
    },
    /// The value has another type or format, or is out of bounds.
    #[error("must be {wanted}, not {given}")]
    Wrong {
        /// Description of the values that the field takes.
        wanted: String,
        /// The value as JSON; at most 100 characters.
        given: String,
    },
    /// The text is too short or too long.
    #[error("must have {wanted} characters, not {given}")]
    Length {
        /// The lengths that the field takes, in words.
        wanted: String,
        /// The length of the text, in characters.
        given: u64,
    },
}

impl Field {
    pub(super) fn read(name: &str, about: &Value, required: bool) -> Result<Self, Vec<String>> {
        let Value::Object(about) = about else {
            return Err(vec![r#"must be an object such as {"type": "string"}"#.to_owned()]);
        };
        let offers = about.contains_key("enum") || about.contains_key("oneOf");
        let mut problems = Vec::new();
        let (word, keys): (_, &[&str]) = match about.get("type").and_then(Value::as_str) {
            Some("string") => ("string", &["minLength", "maxLength", "format", "enum", "enumNames", "oneOf"]),
            None if offers && !about.contains_key("type") => ("string", &["enum", "enumNames", "oneOf"]),
            Some(word @ ("number" | "integer")) => (word, &["minimum", "maximum"]),
            Some("boolean") => ("boolean", &[]),
            _ => {
                let kind = about.get("type").unwrap_or(&Value::Null);
                return Err(vec![format!("has type {kind}; a field is a string, number, integer or boolean")]);
            }
        };
        let known = || ["type", "title", "description", "default"].iter().chain(keys);
        for key in about.keys().filter(|key| !known().any(|known| known == key)) {
            let known: Vec<&str> = known().copied().collect();
            problems.push(format!("has an unknown key '{key}'; a {word} has {}", known.join(", ")));
        }
        let text = |key: &str, problems: &mut Vec<String>| match about.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                problems.push(format!("has {key} {other}, which is no text"));
                None
            }
        };
        let (title, description) = (text("title", &mut problems), text("description", &mut problems));
        let kind = match word {
            "boolean" => Kind::Truth,
            "string" if offers => Kind::Choice(offered(about, &mut problems)),
            "string" => read_text(about, &mut problems),
            _ => read_number(about, word == "integer", &mut problems),
        };
        let mut field = Self { name: name.to_owned(), title, description, required, default: None, kind };
        if problems.is_empty()
            && let Some(default) = about.get("default").filter(|default| !default.is_null())
        {
            match field.parse_value(default) {
                Ok(default) => field.default = Some(default),
                Err(problem) => problems.push(format!("has a default that it does not take: {problem}")),
            }
        }
        if problems.is_empty() { Ok(field) } else { Err(problems) }
    }

    /// Returns its name, which the answer has it under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its label for a person.
    #[must_use]
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Returns the field's description, if it has one.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns whether its value is secret: invisible during its input, and absent from records.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Text { format: Some(Format::Password), .. })
    }

    /// Returns whether the form requires a value for it.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Describes the default, as the value of an empty field; `None` without a default.
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

    /// Returns the choices, each with its title and its value; empty for a field that takes any value.
    #[must_use]
    pub fn choices(&self) -> Vec<String> {
        match &self.kind {
            Kind::Choice(offered) => offered.iter().map(Offered::display_label).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the accepted values of the field, in a few words, such as "a whole number from 1 to 9".
    #[must_use]
    pub fn constraint(&self) -> String {
        match &self.kind {
            Kind::Text { format: Some(format), .. } => format.describe().to_owned(),
            Kind::Text { least, most, .. } => match lengths(*least, *most) {
                Some(lengths) => format!("a text of {lengths} characters"),
                None => "a text".to_owned(),
            },
            Kind::Choice(offered) => format!("one of {}", values(offered)),
            Kind::Number { whole, least, most } => {
                let kind = if *whole { "a whole number" } else { "a number" };
                match range(*least, *most) {
                    Some(range) => format!("{kind} {range}"),
                    None => kind.to_owned(),
                }
            }
            Kind::Truth => "yes or no".to_owned(),
        }
    }

    /// Returns the value that a person's line means: a choice also by its number, and the value itself when the line is
    /// empty.
    ///
    /// # Errors
    /// What it must be.
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
            (_, understood) => understood,
        }
    }

    /// Returns the given value, or the default in its absence.
    pub(super) fn value_or_default(&self, given: Option<&Value>) -> Result<Value, InvalidField> {
        let empty = |value: &&Value| match value {
            Value::Null => true,
            // An unfilled form comes back with empty texts.
            Value::String(text) if text.is_empty() => {
                self.required || !matches!(self.kind, Kind::Text { least: None, format: None, .. })
            }
            _ => false,
        };
        match given.filter(|value| !empty(value)) {
            Some(value) => self.parse_value(value),
            None => match &self.default {
                Some(default) => Ok(default.clone()),
                None if !self.required => Ok(Value::Null),
                None if matches!(self.kind, Kind::Text { format: None, .. }) => Err(InvalidField::Missing),
                None => Err(InvalidField::MissingKind { wanted: self.constraint() }),
            },
        }
    }

    fn parse_value(&self, value: &Value) -> Result<Value, InvalidField> {
        let wrong_value = |wanted: String| {
            let given = value.to_string().chars().take(100).collect();
            Err(InvalidField::Wrong { wanted, given })
        };
        match &self.kind {
            Kind::Text { least, most, format } => {
                let Value::String(text) = value else { return wrong_value("a text".to_owned()) };
                let length = text.chars().count() as u64;
                if let Some(lengths) = lengths(*least, *most)
                    && (least.is_some_and(|least| length < least) || most.is_some_and(|most| length > most))
                {
                    return Err(InvalidField::Length { wanted: lengths, given: length });
                }
                match format {
                    Some(format) if !format.holds(text) => wrong_value(format.describe().to_owned()),
                    _ => Ok(value.clone()),
                }
            }
            Kind::Choice(offered) => {
                let text = value.as_str().unwrap_or_default();
                let titled =
                    |offered: &&Offered| offered.title.as_deref() == Some(text) || offered.display_label() == text;
                let found = offered.iter().find(|offered| offered.value == text);
                match found.or_else(|| offered.iter().find(titled)) {
                    Some(found) => Ok(found.value.as_str().into()),
                    None => wrong_value(format!("one of {}", values(offered))),
                }
            }
            Kind::Number { whole, least, most } => {
                let kind = if *whole { "a whole number" } else { "a number" };
                let number = number(value).filter(|number| !whole || is_whole(number));
                let Some(number) = number else { return wrong_value(kind.to_owned()) };
                let size = number.as_f64().unwrap_or_default();
                match range(*least, *most) {
                    Some(range) if least.is_some_and(|least| size < least) || most.is_some_and(|most| size > most) => {
                        Err(InvalidField::Wrong { wanted: range, given: number.to_string() })
                    }
                    _ if *whole => Ok(whole_number(&number)),
                    _ => Ok(Value::Number(number)),
                }
            }
            Kind::Truth => match value {
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
            Kind::Text { least, most, format } => {
                let mut schema = json!({"type": "string"});
                set(&mut schema, "minLength", *least);
                set(&mut schema, "maxLength", *most);
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
            Kind::Number { whole, least, most } => {
                let mut schema = json!({"type": if *whole { "integer" } else { "number" }});
                set(&mut schema, "minimum", least.map(|least| bound(least, *whole)));
                set(&mut schema, "maximum", most.map(|most| bound(most, *whole)));
                schema
            }
            Kind::Truth => json!({"type": "boolean"}),
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

fn bound(bound: f64, whole: bool) -> Value {
    match Number::from_f64(bound) {
        Some(number) if whole => whole_number(&number),
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

/// The largest bound up to which an f64 represents every whole number exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.as_f64().is_some_and(|size| size.fract() == 0.0 && size.abs() <= MAX_EXACT_INTEGER)
}

/// The same number, written without a fraction.
fn whole_number(number: &Number) -> Value {
    match number.as_i64() {
        Some(whole) => whole.into(),
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and small enough: `is_whole` was asked")]
        None => (number.as_f64().unwrap_or_default() as i64).into(),
    }
}
