//! The kinds of values that a field of a form accepts.

use serde_json::{Map, Value};

use super::format::Format;

/// Maximum number of choices of a field.
const MAX_CHOICES: usize = 100;

/// Kind of the values that a field accepts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Text { min: Option<u64>, max: Option<u64>, format: Option<Format> },
    Choice(Vec<Offered>),
    Number { is_whole_number: bool, min: Option<f64>, max: Option<f64> },
    Boolean,
}

/// A choice, with its title for people.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offered {
    pub(super) value: String,
    pub(super) title: Option<String>,
}

impl Offered {
    fn new(value: &str, title: Option<&str>) -> Self {
        // A form from a client has the value in the title, as `display_label` writes it.
        let without_value = |title: &str| title.strip_suffix(&format!(" ({value})")).unwrap_or(title).to_owned();
        Self { value: value.to_owned(), title: title.map(without_value) }
    }

    /// Returns the label of the choice for people: the title, followed by the value of the answer.
    pub(super) fn display_label(&self) -> String {
        match &self.title {
            Some(title) if *title != self.value => format!("{title} ({})", self.value),
            _ => self.value.clone(),
        }
    }
}

/// Reads the constraints of text.
pub(super) fn read_text(schema: &Map<String, Value>, problems: &mut Vec<String>) -> Kind {
    let mut length = |key: &str| match schema.get(key) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let length = value.as_u64();
            if length.is_none() {
                problems.push(format!("has {key} {value}, which is not a number of characters"));
            }
            length
        }
    };
    let (min, max) = (length("minLength"), length("maxLength"));
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        problems.push("has a minLength above its maxLength".to_owned());
    }
    let format = schema.get("format").filter(|format| !format.is_null()).and_then(|word| {
        let format = word.as_str().and_then(Format::from_name);
        if format.is_none() {
            problems.push(format!("has format {word}; formats are {}", Format::ALL.map(Format::name).join(", ")));
        }
        format
    });
    Kind::Text { min, max, format }
}

/// Reads the constraints of a number.
pub(super) fn read_number(schema: &Map<String, Value>, is_whole_number: bool, problems: &mut Vec<String>) -> Kind {
    let mut bound = |key: &str| match schema.get(key) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let bound = value.as_f64();
            if bound.is_none() {
                problems.push(format!("has {key} {value}, which is not a number"));
            }
            bound
        }
    };
    let (min, max) = (bound("minimum"), bound("maximum"));
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        problems.push("has a minimum above its maximum".to_owned());
    }
    Kind::Number { is_whole_number, min, max }
}

/// Reads the choices of a field.
pub(super) fn read_choices(schema: &Map<String, Value>, problems: &mut Vec<String>) -> Vec<Offered> {
    let mut offered: Vec<Offered> = Vec::new();
    if let Some(list) = schema.get("oneOf") {
        for item in list.as_array().into_iter().flatten() {
            match item.get("const").and_then(Value::as_str) {
                Some(value) => {
                    offered.push(Offered::new(value, item.get("title").and_then(Value::as_str)));
                }
                None => problems.push(format!("offers {item}, which has no string for 'const'")),
            }
        }
    } else {
        let titles = schema.get("enumNames").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, item) in schema.get("enum").and_then(Value::as_array).into_iter().flatten().enumerate() {
            match item.as_str() {
                Some(value) => {
                    offered.push(Offered::new(value, titles.get(index).and_then(Value::as_str)));
                }
                None => problems.push(format!("offers {item}, which is not a string")),
            }
        }
    }
    if problems.is_empty() && (offered.is_empty() || offered.len() > MAX_CHOICES) {
        problems.push(format!("offers {}; 1 to {MAX_CHOICES} choices are allowed", offered.len()));
    }
    let duplicate =
        (1..offered.len()).find(|index| offered[..*index].iter().any(|before| before.value == offered[*index].value));
    if let Some(index) = duplicate {
        problems.push(format!("offers '{}' twice", offered[index].value));
    }
    for choice in &offered {
        let has_value_of_title =
            |other: &&Offered| other.value != choice.value && choice.title.as_ref() == Some(&other.value);
        if let Some(other) = offered.iter().find(has_value_of_title) {
            problems.push(format!("shows '{}' for '{}', and also offers that value", other.value, choice.value));
        }
    }
    offered
}
