//! Templates: the texts of a declaration, filled in with the input of a call and with secrets.
//!
//! One pass fills in both, so that neither can inject the other: an input that contains `{secret:NAME}` stays that
//! text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steplatch_workflow::substitute::{self, Lookup};

use crate::outcome::{ErrorType, Failure};
use crate::secrets::{Hidden, Part, Secrets, names, parts, percent_encoded};

/// Values for the texts of one call.
#[derive(Debug)]
pub(crate) struct TemplateValues {
    input: Value,
    secrets: BTreeMap<String, String>,
}

/// `{input}` is the input; where that is an object, `{field}` is one of its fields, and `{input}` too if there is one of
/// that name.
struct InputFields<'a>(&'a Value);

impl Lookup for InputFields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        let field = self.0.as_object().and_then(|fields| fields.get(name));
        field.or_else(|| (name == "input").then_some(self.0))
    }
}

/// As [`InputFields`], for a part of a URL.
struct Encoded(BTreeMap<String, Value>);

impl Lookup for Encoded {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl TemplateValues {
    /// Resolves what `declared` refers to.
    pub(crate) async fn new(declared: &Value, input: &Value, secrets: &dyn Secrets) -> Result<Self, Failure> {
        let mut resolved = BTreeMap::new();
        for name in names(declared) {
            let Some(value) = secrets.resolve(&name).await else {
                let message = format!("Secret '{name}' is not known here; set it, or correct the reference to it.");
                return Err(Failure::new(ErrorType::Secret, message));
            };
            resolved.insert(name, value);
        }
        Ok(Self { input: input.clone(), secrets: resolved })
    }

    pub(crate) fn input(&self) -> &Value {
        &self.input
    }

    /// Returns the values that must not occur in a result.
    pub(crate) fn hidden(&self) -> Hidden {
        Hidden::new(self.secrets.values())
    }

    /// Returns a text with its input and secrets.
    pub(crate) fn text(&self, template: &str) -> String {
        self.with(template, |text| substitute::text(text, &InputFields(&self.input)), str::to_owned)
    }

    /// Returns a URL. Percent-encodes each value, except that of a placeholder at the beginning.
    pub(crate) fn url(&self, template: &str) -> String {
        let begins = template.starts_with("{input") || template.starts_with("{secret:");
        let head = if begins { template.find('}').map_or(0, |end| end + 1) } else { 0 };
        let mut known = BTreeMap::new();
        for (name, value) in self.input.as_object().into_iter().flatten() {
            known.insert(name.clone(), percent_encoded(&substitute::as_text(value)).into());
        }
        let whole = || percent_encoded(&substitute::as_text(&self.input)).into();
        known.entry("input".to_owned()).or_insert_with(whole);
        let encoded = Encoded(known);
        let tail = self.with(&template[head..], |text| substitute::text(text, &encoded), percent_encoded);
        self.text(&template[..head]) + &tail
    }

    /// Returns a value with its texts filled in; a text of nothing but `{input}` keeps the input's type.
    pub(crate) fn value(&self, template: &Value) -> Value {
        match template {
            Value::String(text) if parts(text).iter().any(|part| matches!(part, Part::Secret(_))) => {
                self.text(text).into()
            }
            Value::String(_) => substitute::value(template, &InputFields(&self.input), true),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.map(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
        }
    }

    pub(crate) fn map(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        fields.iter().map(|(name, field)| (name.clone(), self.value(field))).collect()
    }

    fn with(&self, template: &str, text: impl Fn(&str) -> String, secret: impl Fn(&str) -> String) -> String {
        let filled = |part: Part<'_>| match part {
            Part::Text(template) => text(template),
            Part::Secret(name) => secret(self.secrets.get(name).map_or("", String::as_str)),
        };
        parts(template).into_iter().map(filled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filling(input: Value) -> TemplateValues {
        TemplateValues { input, secrets: BTreeMap::from([("KEY".to_owned(), "s3cret/&".to_owned())]) }
    }

    #[test]
    fn an_input_cannot_bring_in_a_secret() {
        let filling = filling(json!("{secret:KEY} {input}"));
        assert_eq!(filling.text("<{input}> {secret:KEY}"), "<{secret:KEY} {input}> s3cret/&");
        assert_eq!(filling.value(&json!({"a": "{input}"})), json!({"a": "{secret:KEY} {input}"}));
    }

    #[test]
    fn what_is_filled_into_a_url_stays_one_part_of_it() {
        let filling = filling(json!({"city": "São/Paulo?a=b", "n": 3}));
        assert_eq!(
            filling.url("http://x/{city}?n={n}&k={secret:KEY}"),
            "http://x/S%C3%A3o%2FPaulo%3Fa%3Db?n=3&k=s3cret%2F%26"
        );
        assert_eq!(
            super::tests::filling(json!("http://y/a?b")).url("{input}&c={input}"),
            "http://y/a?b&c=http%3A%2F%2Fy%2Fa%3Fb"
        );
    }

    #[test]
    fn a_value_keeps_its_type_where_it_is_all_there_is() {
        let filling = filling(json!({"n": 3}));
        assert_eq!(filling.value(&json!(["{n}", "{n}!", "{input}"])), json!([3, "3!", {"n": 3}]));
    }

    #[tokio::test]
    async fn a_secret_that_is_not_there_is_named() {
        let known: BTreeMap<String, String> = BTreeMap::new();
        let failed = TemplateValues::new(&json!({"h": ["{secret:NOPE}"]}), &Value::Null, &known).await.unwrap_err();
        assert_eq!(failed.message, "Secret 'NOPE' is not known here; set it, or correct the reference to it.");
    }
}
