//! Golden files: stored and wire forms that must not change, for tests.
//!
//! A file holds one JSON value per line. Each line is parsed as the type and written again, and the result must be
//! identical byte for byte. Every variant of the type needs a line, so a new variant comes with a new line. A line is
//! never changed or removed while data in its form may still be read.
#![allow(clippy::panic, clippy::expect_used, reason = "in a test a panic is the message")]

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Place of the variant's name in the JSON of an enum.
#[derive(Debug, Clone, Copy)]
pub enum Tag {
    /// In this field of its object (`serde(tag = "…")`).
    Field(&'static str),
    /// As the only field of its object, or as a string: serde's default form.
    Outside,
}

impl Tag {
    /// Returns a value without a variant's name. No type can parse such a value.
    fn probe(self) -> Value {
        match self {
            Self::Field(name) => json!({ name: "?" }),
            Self::Outside => "?".into(),
        }
    }

    /// Returns the name of the variant of a value.
    fn variant_name(self, value: &Value) -> String {
        let name = match (self, value) {
            (Self::Field(name), value) => value[name].as_str(),
            (Self::Outside, Value::Object(fields)) => fields.keys().next().map(String::as_str),
            (Self::Outside, value) => value.as_str(),
        };
        name.unwrap_or_default().to_owned()
    }
}

/// Checks the lines of a golden file for an enum.
///
/// # Panics
/// If a line cannot be parsed or is serialized differently, or a variant has no line.
pub fn check_enum<T: Serialize + DeserializeOwned>(golden: &str, tag: Tag) {
    let mut missing = variants::<T>(tag);
    for line in golden.lines() {
        let value = check_line::<T>(line);
        missing.remove(&tag.variant_name(&value));
    }
    assert!(missing.is_empty(), "no line in the golden file for: {missing:?}");
}

/// Checks the lines of a golden file for a struct.
///
/// # Panics
/// If a line cannot be parsed, or is serialized differently.
pub fn check_struct<T: Serialize + DeserializeOwned>(golden: &str) {
    for line in golden.lines() {
        check_line::<T>(line);
    }
}

fn check_line<T: Serialize + DeserializeOwned>(line: &str) -> Value {
    let parsed: T = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let serialized = serde_json::to_string(&parsed).expect("a parsed value serializes");
    assert_eq!(serialized, line, "a line is serialized differently");
    serde_json::from_str(line).expect("the line is JSON")
}

/// Returns the names of the variants of an enum, from serde's error about an unknown name.
fn variants<T: DeserializeOwned>(tag: Tag) -> BTreeSet<String> {
    let Err(error) = serde_json::from_value::<T>(tag.probe()) else { panic!("a variant is named '?'") };
    let text = error.to_string();
    let (_, expected) = text.split_once("expected ").unwrap_or_else(|| panic!("serde names no variants: {text}"));
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Outside {
        One(u32),
        Two,
    }

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Inside {
        One { number: u32 },
        Two,
        Three,
    }

    const INSIDE: &str = "{\"kind\":\"one\",\"number\":1}\n{\"kind\":\"two\"}\n{\"kind\":\"three\"}\n";

    #[test]
    fn every_variant_needs_a_line_in_its_exact_form() {
        check_enum::<Outside>("{\"one\":1}\n\"two\"\n", Tag::Outside);
        check_enum::<Inside>(INSIDE, Tag::Field("kind"));
        for (changed, says) in [
            (INSIDE.replace("{\"kind\":\"two\"}\n", ""), "no line in the golden file for: {\"two\"}"),
            (INSIDE.replace("\"number\":1", "\"number\": 1"), "serialized differently"),
            (INSIDE.replace("number", "digit"), "missing field `number`"),
        ] {
            let panic = std::panic::catch_unwind(|| check_enum::<Inside>(&changed, Tag::Field("kind"))).unwrap_err();
            let message = panic.downcast_ref::<String>().unwrap();
            assert!(message.contains(says), "{message}");
        }
    }
}
