//! Templates: the texts of a declaration, filled with the input of a call and with secrets.
//!
//! One pass inserts inputs and secrets, so that neither can inject the other: an input that contains `{secret:NAME}`
//! stays unchanged.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steplatch_workflow::substitute::{self, Lookup};

use crate::outcome::Failure;
use crate::secrets::{Part, SecretMask, Secrets, names, parts, percent_encode, resolve_all};

/// Values for the texts of one call.
#[derive(Debug)]
pub(crate) struct TemplateValues {
    input: Value,
    secrets: BTreeMap<String, String>,
}

/// Lookup of `{input}`, and of `{field}` if the input is an object. A field named `input` takes precedence over the
/// whole input.
struct InputFields<'a>(&'a Value);

impl Lookup for InputFields<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        let field = self.0.as_object().and_then(|fields| fields.get(name));
        field.or_else(|| (name == "input").then_some(self.0))
    }
}

/// Like [`InputFields`], with values that are percent-encoded for a URL.
struct EncodedFields(BTreeMap<String, Value>);

impl Lookup for EncodedFields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl TemplateValues {
    /// Resolves the secrets that `declared` refers to.
    pub(crate) async fn new(declared: &Value, input: &Value, secrets: &dyn Secrets) -> Result<Self, Failure> {
        Ok(Self { input: input.clone(), secrets: resolve_all(names(declared), secrets).await? })
    }

    pub(crate) fn input(&self) -> &Value {
        &self.input
    }

    /// Returns the values that must not occur in a result.
    pub(crate) fn secret_mask(&self) -> SecretMask {
        SecretMask::new(self.secrets.values())
    }

    /// Returns a text with the input and the secrets filled in.
    pub(crate) fn text(&self, template: &str) -> String {
        self.fill(template, |text| substitute::text(text, &InputFields(&self.input)), str::to_owned)
    }

    /// Returns a URL with percent-encoded values, except for a placeholder at its beginning.
    pub(crate) fn url(&self, template: &str) -> String {
        let begins_with_placeholder = template.starts_with("{input") || template.starts_with("{secret:");
        let head = if begins_with_placeholder { template.find('}').map_or(0, |end| end + 1) } else { 0 };
        let mut fields = BTreeMap::new();
        for (name, value) in self.input.as_object().into_iter().flatten() {
            fields.insert(name.clone(), percent_encode(&substitute::as_text(value)).into());
        }
        let encode_input = || percent_encode(&substitute::as_text(&self.input)).into();
        fields.entry("input".to_owned()).or_insert_with(encode_input);
        let encoded = EncodedFields(fields);
        let tail = self.fill(&template[head..], |text| substitute::text(text, &encoded), percent_encode);
        self.text(&template[..head]) + &tail
    }

    /// Returns a value with its texts filled in; a text that is only a placeholder, like `{input}`, keeps the type.
    pub(crate) fn value(&self, template: &Value) -> Value {
        match template {
            Value::String(text) if parts(text).iter().any(|part| matches!(part, Part::Secret(..))) => {
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

    fn secret(&self, name: &str) -> &str {
        self.secrets.get(name).map_or("", String::as_str)
    }

    fn fill(&self, template: &str, text: impl Fn(&str) -> String, secret: impl Fn(&str) -> String) -> String {
        let fill_part = |part: Part<'_>| match part {
            Part::Text(template) => text(template),
            Part::Secret(name, "") => secret(self.secret(name)),
            Part::Secret(name, filter) => {
                let value = serde_json::json!({"value": self.secret(name)});
                substitute::text(&format!("{{value{filter}}}"), &InputFields(&value))
            }
        };
        parts(template).into_iter().map(fill_part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template_values(input: Value) -> TemplateValues {
        TemplateValues { input, secrets: BTreeMap::from([("KEY".to_owned(), "s3cret/&".to_owned())]) }
    }

    #[test]
    fn input_cannot_insert_a_secret() {
        let template_values = template_values(json!("{secret:KEY} {input}"));
        assert_eq!(template_values.text("<{input}> {secret:KEY}"), "<{secret:KEY} {input}> s3cret/&");
        assert_eq!(template_values.text("{secret:KEY|sh}"), "'s3cret/&'");
        assert_eq!(template_values.value(&json!({"a": "{input}"})), json!({"a": "{secret:KEY} {input}"}));
    }

    #[test]
    fn value_inserted_into_a_url_is_percent_encoded() {
        let template_values = template_values(json!({"city": "São/Paulo?a=b", "n": 3}));
        assert_eq!(
            template_values.url("http://x/{city}?n={n}&k={secret:KEY}"),
            "http://x/S%C3%A3o%2FPaulo%3Fa%3Db?n=3&k=s3cret%2F%26"
        );
        assert_eq!(
            super::tests::template_values(json!("http://y/a?b")).url("{input}&c={input}"),
            "http://y/a?b&c=http%3A%2F%2Fy%2Fa%3Fb"
        );
    }

    #[test]
    fn standalone_value_keeps_its_type() {
        let template_values = template_values(json!({"n": 3}));
        assert_eq!(template_values.value(&json!(["{n}", "{n}!", "{input}"])), json!([3, "3!", {"n": 3}]));
    }

    #[tokio::test]
    async fn missing_secret_is_reported_by_name() {
        let known: BTreeMap<String, String> = BTreeMap::new();
        let error = TemplateValues::new(&json!({"h": ["{secret:NOPE}"]}), &Value::Null, &known).await.unwrap_err();
        assert_eq!(error.message, "secret NOPE was not found");
    }
}
