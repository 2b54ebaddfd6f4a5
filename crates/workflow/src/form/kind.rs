//! The kinds of values that a field of a form accepts.

use serde_json::{Map, Value};

use super::format::Format;

/// Maximum number of choices that a field offers.
const MAX_OFFERED: usize = 100;

/// Kind of the values that a field accepts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Text { least: Option<u64>, most: Option<u64>, format: Option<Format> },
    Choice(Vec<Offered>),
    Number { whole: bool, least: Option<f64>, most: Option<f64> },
    Truth,
}

/// A choice, and its shown title.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offered {
    pub(super) value: String,
    pub(super) title: Option<String>,
}

impl Offered {
    fn new(value: &str, title: Option<&str>) -> Self {
        // A shown form has titles with their values.
        let bare = |title: &str| title.strip_suffix(&format!(" ({value})")).unwrap_or(title).to_owned();
        Self { value: value.to_owned(), title: title.map(bare) }
    }

    /// Returns its label for a person: also the value, since that is the answer.
    pub(super) fn display_label(&self) -> String {
        match &self.title {
            Some(title) if *title != self.value => format!("{title} ({})", self.value),
            _ => self.value.clone(),
        }
    }
}

/// Reads the constraints of a text.
pub(super) fn read_text(about: &Map<String, Value>, problems: &mut Vec<String>) -> Kind {
    let mut length = |key: &str| match about.get(key) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let length = value.as_u64();
            if length.is_none() {
                problems.push(format!("has {key} {value}, which is no number of characters"));
            }
            length
        }
    };
    let (least, most) = (length("minLength"), length("maxLength"));
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        problems.push("has a minLength above its maxLength".to_owned());
    }
    let format = about.get("format").filter(|format| !format.is_null()).and_then(|word| {
        let format = word.as_str().and_then(Format::from_name);
        if format.is_none() {
            problems.push(format!("has format {word}; formats are {}", Format::ALL.map(Format::name).join(", ")));
        }
        format
    });
    Kind::Text { least, most, format }
}

/// Reads the constraints of a number.
pub(super) fn read_number(about: &Map<String, Value>, whole: bool, problems: &mut Vec<String>) -> Kind {
    let mut bound = |key: &str| match about.get(key) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let bound = value.as_f64();
            if bound.is_none() {
                problems.push(format!("has {key} {value}, which is no number"));
            }
            bound
        }
    };
    let (least, most) = (bound("minimum"), bound("maximum"));
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        problems.push("has a minimum above its maximum".to_owned());
    }
    Kind::Number { whole, least, most }
}

/// Reads the choices.
pub(super) fn offered(about: &Map<String, Value>, problems: &mut Vec<String>) -> Vec<Offered> {
    let mut offered: Vec<Offered> = Vec::new();
    if let Some(list) = about.get("oneOf") {
        for item in list.as_array().into_iter().flatten() {
            match item.get("const").and_then(Value::as_str) {
                Some(value) => {
                    offered.push(Offered::new(value, item.get("title").and_then(Value::as_str)));
                }
                None => problems.push(format!("offers {item}, which has no text for 'const'")),
            }
        }
    } else {
        let titles = about.get("enumNames").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, item) in about.get("enum").and_then(Value::as_array).into_iter().flatten().enumerate() {
            match item.as_str() {
                Some(value) => {
                    offered.push(Offered::new(value, titles.get(index).and_then(Value::as_str)));
                }
                None => problems.push(format!("offers {item}, which is no text")),
            }
        }
    }
    if problems.is_empty() && (offered.is_empty() || offered.len() > MAX_OFFERED) {
        problems.push(format!("offers {}; 1 to {MAX_OFFERED} texts can be chosen from", offered.len()));
    }
    let same = (1..offered.len()).find(|at| offered[..*at].iter().any(|before| before.value == offered[*at].value));
    if let Some(at) = same {
        problems.push(format!("offers '{}' twice", offered[at].value));
    }
    for one in &offered {
        let is_meant = |other: &&Offered| other.value != one.value && one.title.as_ref() == Some(&other.value);
        if let Some(other) = offered.iter().find(is_meant) {
            problems.push(format!("shows '{}' for '{}', and offers that as well", other.value, one.value));
        }
    }
    offered
}
