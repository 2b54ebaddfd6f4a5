//! Secrets by reference: a declaration contains `{secret:NAME}`, and only the target of the call receives the value.
//!
//! The search for references covers the author's declaration, never an input: an agent that writes `{secret:TOKEN}`
//! into its text sends exactly that text. This module removes the values from the results of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;

use serde_json::{Map, Value};
use steplatch_workflow::filtered_forms;

use crate::outcome::{ErrorType, Failure};

/// The placeholder that replaces a secret.
pub const MASK: &str = "••••••";

/// Minimum length of a masked value, in characters; shorter values occur in any text.
const MIN_SECRET_CHARS: usize = 4;

/// A source of secrets.
pub trait Secrets: Send + Sync {
    /// Returns the value of a secret, or the reason why there is none.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// A future that resolves to the value of a secret.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// A fixed set of secrets, by name.
impl Secrets for BTreeMap<String, String> {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let value = self.get(name).cloned();
        Box::pin(std::future::ready(value.ok_or_else(|| format!("secret {name} was not found"))))
    }
}

/// Returns the values of secrets, by name.
pub(crate) async fn resolve_all(
    names: impl IntoIterator<Item = String>,
    secrets: &dyn Secrets,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for name in names {
        let value = secrets.resolve(&name).await;
        values.insert(name, value.map_err(|error| Failure::new(ErrorType::Secret, error))?);
    }
    Ok(values)
}

/// A part of declared text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    Text(&'t str),
    /// Name of a secret, and its filter with `|`; an empty text without one.
    Secret(&'t str, &'t str),
}

/// Splits a text at its references.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut text_start, mut position) = (0, 0);
    while let Some(offset) = text[position..].find(REFERENCE_START) {
        let reference_start = position + offset;
        let name = &text[reference_start + REFERENCE_START.len()..];
        let length = name.find(|character: char| !is_name_char(character)).unwrap_or(name.len());
        position = reference_start + REFERENCE_START.len() + length;
        let is_filter = |filter: &&str| name[length..].strip_prefix(*filter).is_some_and(|rest| rest.starts_with('}'));
        if length > 0
            && let Some(filter) = FILTERS.into_iter().find(is_filter)
        {
            if text_start < reference_start {
                parts.push(Part::Text(&text[text_start..reference_start]));
            }
            parts.push(Part::Secret(&name[..length], filter));
            position += filter.len() + 1;
            text_start = position;
        }
    }
    if text_start < text.len() {
        parts.push(Part::Text(&text[text_start..]));
    }
    parts
}

const REFERENCE_START: &str = "{secret:";

/// Ends of a reference, as in machines.
const FILTERS: [&str; 4] = ["", "|sh", "|json", "|regex"];

fn is_name_char(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '/')
}

/// Returns the names of the secrets that the strings of a declaration refer to.
pub(crate) fn names(declared: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(declared, &mut found);
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => found.extend(parts(text).into_iter().filter_map(|part| match part {
            Part::Secret(name, _) => Some(name.to_owned()),
            Part::Text(_) => None,
        })),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Values to mask in results, the longest first, so that a value that contains another is masked completely.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretMask(Vec<String>);

impl SecretMask {
    pub(crate) fn new<'a>(values: impl Iterator<Item = &'a String>) -> Self {
        let mut hidden: Vec<String> = values
            .filter(|value| value.chars().count() >= MIN_SECRET_CHARS)
            .flat_map(|value| {
                let escaped = Value::String(value.clone()).to_string();
                let forms = [value.clone(), escaped[1..escaped.len() - 1].to_owned(), percent_encode(value)];
                forms.into_iter().chain(filtered_forms(value))
            })
            .collect();
        hidden.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
        hidden.dedup();
        Self(hidden)
    }

    pub(crate) fn text(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| if text.contains(secret) { text.replace(secret, MASK) } else { text })
    }

    pub(crate) fn value(&self, value: Value) -> Value {
        if self.0.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.map(fields)),
            Value::Number(number) if self.0.contains(&number.to_string()) => MASK.into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    pub(crate) fn map(&self, fields: Map<String, Value>) -> Map<String, Value> {
        if self.0.is_empty() {
            return fields;
        }
        fields.into_iter().map(|(name, field)| (self.text(name), self.value(field))).collect()
    }
}

/// Percent-encodes text for a part of a URL: all but the unreserved characters of RFC 3986, 2.3.
pub(crate) fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_differ_from_similar_texts() {
        use Part::{Secret, Text};
        for (text, expected) in [
            ("Bearer {secret:GH_TOKEN}", vec![Text("Bearer "), Secret("GH_TOKEN", "")]),
            ("{secret:a|sh} {secret:a|SH}", vec![Secret("a", "|sh"), Text(" {secret:a|SH}")]),
            ("{secret:a/b.c-d}{secret:e}", vec![Secret("a/b.c-d", ""), Secret("e", "")]),
            ("{secret:}{secret:no end", vec![Text("{secret:}{secret:no end")]),
            ("{secret:{secret:x}}", vec![Text("{secret:"), Secret("x", ""), Text("}")]),
            ("{input} {secrets:x}", vec![Text("{input} {secrets:x}")]),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn values_are_removed_from_every_part_of_a_result() {
        let mask = SecretMask::new(["tok\"en&1".to_owned(), "ab".to_owned(), "4711".to_owned()].iter());
        let result = json!({"a": ["x tok\"en&1 y", {"tok\"en&1": 4711}], "url": "?k=tok%22en%261", "json": "tok\\\"en&1", "ab": "ab"});
        let expected =
            json!({"a": [format!("x {MASK} y"), {MASK: MASK}], "url": format!("?k={MASK}"), "json": MASK, "ab": "ab"});
        assert_eq!(mask.value(result), expected);
    }
}
