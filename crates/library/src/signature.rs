//! The signature of a definition: definitions with equal signatures are equivalent.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

/// Largest integer of the range that `f64` represents exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The SHA-256 of a definition without its `name`, `description` and `$schema`, in a canonical form.
///
/// The form is JSON without white space, with the keys of every object sorted by their UTF-8 bytes, and integers
/// without a fraction, so that neither the order of keys nor `30.0` for `30` makes a difference. Only the branches of a
/// `parallel` keep their order, because they start in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signature(String);

impl Signature {
    /// Returns the signature of `definition`.
    #[must_use]
    pub fn of_value(definition: &Value) -> Self {
        let mut text = String::new();
        match definition {
            Value::Object(fields) => {
                let behaviour_fields =
                    fields.iter().filter(|(key, _)| !["name", "description", "$schema"].contains(&key.as_str()));
                write_fields(behaviour_fields, None, &mut text);
            }
            value => write_canonical(value, None, &mut text),
        }
        Self::hash_text(&text)
    }

    /// Returns the signature of an unchanged text: the SHA-256 of its UTF-8 bytes.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self::hash_text(text)
    }

    fn hash_text(text: &str) -> Self {
        let mut digits = String::with_capacity(64);
        for byte in Sha256::digest(text) {
            let _ = write!(digits, "{byte:02x}");
        }
        Self(digits)
    }

    /// Returns all 64 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 16 digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        // An edited file may have any text as its hash.
        self.0.get(..16).unwrap_or(&self.0)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends a value in the canonical form. `branches` are the branches of an enclosing `parallel`. They keep their
/// order.
fn write_canonical(value: &Value, branches: Option<&Value>, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let workflows = fields.get("params").and_then(|params| params.get("workflows"));
            let own_branches = workflows.filter(|_| fields.get("tool").is_some_and(|tool| tool == "parallel"));
            match branches.filter(|branches| std::ptr::eq(*branches, value)) {
                Some(_) => write_in_order(fields.iter(), None, text),
                None => write_fields(fields.iter(), own_branches.or(branches), text),
            }
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, branches, text);
            }
            text.push(']');
        }
        Value::Number(number) => drop(write!(text, "{}", canonical_number(number.clone()))),
        Value::Null | Value::Bool(_) | Value::String(_) => drop(write!(text, "{value}")),
    }
}

fn write_fields<'v>(
    fields: impl Iterator<Item = (&'v String, &'v Value)>,
    branches: Option<&Value>,
    text: &mut String,
) {
    let mut fields: Vec<_> = fields.collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    write_in_order(fields.into_iter(), branches, text);
}

fn write_in_order<'v>(
    fields: impl Iterator<Item = (&'v String, &'v Value)>,
    branches: Option<&Value>,
    text: &mut String,
) {
    text.push('{');
    for (index, (key, value)) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}:", Value::String(key.clone()));
        write_canonical(value, branches, text);
    }
    text.push('}');
}

fn canonical_number(number: Number) -> Number {
    match number.as_f64() {
        // The conversion is exact, because the number is an integer, and small enough.
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < MAX_EXACT => Number::from(float as i64),
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn signature_ignores_names_key_order_and_number_format() {
        let left = json!({"name": "a", "description": "x", "initial_state": "s", "states": {"s": {"timeout": 30.0, "p": [1, 2]}}});
        let right = json!({"states": {"s": {"p": [1, 2], "timeout": 30}}, "initial_state": "s"});
        assert_eq!(Signature::of_value(&left), Signature::of_value(&right));
        assert_eq!(Signature::of_value(&left).short().len(), 16);
    }

    #[test]
    fn signature_depends_on_behaviour() {
        let base = json!({"initial_state": "s", "states": {"s": {"p": [1, 2], "name": "inner"}}});
        for other in [
            json!({"initial_state": "t", "states": {"s": {"p": [1, 2], "name": "inner"}}}),
            json!({"initial_state": "s", "states": {"s": {"p": [2, 1], "name": "inner"}}}),
            json!({"initial_state": "s", "states": {"s": {"p": [1, 2.5], "name": "inner"}}}),
            json!({"initial_state": "s", "states": {"s": {"p": ["1", 2], "name": "inner"}}}),
            json!({"initial_state": "s", "states": {"s": {"p": [1, 2]}}}),
        ] {
            assert_ne!(Signature::of_value(&base), Signature::of_value(&other), "{other}");
        }
    }

    #[test]
    fn signature_depends_on_branch_order_but_not_key_order() {
        let signature = |branches: &str| {
            let text = format!(
                r#"{{"states": {{"s": {{"action": {{"tool": "parallel", "params": {{"workflows": {branches}}}}}}}}}}}"#
            );
            Signature::of_value(&serde_json::from_str(&text).unwrap())
        };
        let base =
            signature(r#"{"dump": {"workflow_name": "dump", "session_id": "a"}, "wipe": {"workflow_name": "wipe"}}"#);
        let keys = r#"{"dump": {"session_id": "a", "workflow_name": "dump"}, "wipe": {"workflow_name": "wipe"}}"#;
        assert_eq!(signature(keys), base);
        let order = r#"{"wipe": {"workflow_name": "wipe"}, "dump": {"workflow_name": "dump", "session_id": "a"}}"#;
        assert_ne!(signature(order), base);
    }

    #[test]
    fn canonical_form_is_stable() {
        // Stored files are compared in this form; a different form would turn all of them into drafts.
        let signature = Signature::of_value(&json!({"name": "n", "b": 1.0, "a": {"d": "ä\n", "c": null}}));
        let expected = Sha256::digest(r#"{"a":{"c":null,"d":"ä\n"},"b":1}"#);
        assert_eq!(signature.as_str(), expected.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
}
