//! The tests of conditions.
//!
//! A test is a variant of [`Test`], its keys are fields of [`ConditionKeys`], and its words are variants of [`Word`].
//! The functions of [`Test`] read, evaluate and describe the test. No other module names a test.

use std::fmt;

use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;
use serde_json::{Map, Value};
use steplatch_pattern::Pattern;

use super::{ConditionError, Ending, check_resolved};
use crate::definition::{Diagnostics, JsonPath, MAX_DESCRIPTION_CHARS, OutcomeKind};
use crate::path::value_at_path;
use crate::substitute::{self, Lookup};
use crate::tool;

/// All keys of a condition must hold.
#[derive(JsonSchema)]
#[schemars(rename = "Condition", deny_unknown_fields)]
#[allow(dead_code, reason = "this type is described, never built")]
pub(crate) struct ConditionKeys {
    /// Success of the action must equal this value
    success: Option<bool>,
    /// The pattern (Python's re) is found in match_text, a space, and screen_content, or in one of them by itself; without both, on the screen of the terminal
    pattern_match: Option<String>,
    /// The pattern is not found
    pattern_not_match: Option<String>,
    /// Each field of the result equals the value; dots reach into objects
    field_equals: Option<Map<String, Value>>,
    /// Each field of the result contains the text
    #[schemars(default, schema_with = "texts")]
    field_contains: Option<Map<String, Value>>,
    /// True if the state timed out, or an await_output ended without a match
    timeout_occurred: Option<bool>,
    /// True if it is not known whether the action happened
    outcome_unknown: Option<bool>,
    /// Text that a person or an agent judges
    #[schemars(length(min = 1, max = MAX_DESCRIPTION_CHARS))]
    description: Option<String>,
}

/// A condition in one word.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The action succeeded
    Success,
    /// The action failed
    Failure,
    /// The pattern is found
    PatternMatch,
    /// The pattern is not found
    PatternNoMatch,
    /// The state timed out, or an await_output ended without a match
    Timeout,
}

/// One test of a condition.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Success(bool),
    Pattern { pattern: PatternText, found: bool },
    FieldEquals { field: String, value: Value },
    FieldContains { field: String, text: String },
    TimeoutOccurred(bool),
    OutcomeUnknown(bool),
}

/// A pattern, compiled in advance if it has no variables.
#[derive(Debug, Clone)]
pub(crate) enum PatternText {
    Compiled(Pattern),
    /// The pattern has variables, and is compiled during a run.
    Template(String),
}

fn texts(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean"]}})
}

impl Word {
    /// Returns the word with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::deserialize(IntoDeserializer::<Error>::into_deserializer(name)).ok()
    }

    /// Returns whether a pattern accompanies the word.
    pub(super) fn takes_pattern(self) -> bool {
        matches!(self, Self::PatternMatch | Self::PatternNoMatch)
    }

    /// Returns the test that the word denotes. `read_pattern` reads its pattern.
    pub(super) fn test(self, read_pattern: impl FnOnce() -> Option<PatternText>) -> Option<Test> {
        Some(match self {
            Self::Success => Test::Success(true),
            Self::Failure => Test::Success(false),
            Self::Timeout => Test::TimeoutOccurred(true),
            Self::PatternMatch => Test::Pattern { pattern: read_pattern()?, found: true },
            Self::PatternNoMatch => Test::Pattern { pattern: read_pattern()?, found: false },
        })
    }
}

impl Test {
    /// Reads one key of a condition: several tests if the key names several fields, `None` if it is invalid.
    pub(super) fn read(key: &str, place: &JsonPath<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<Self>> {
        let quoted = format!("'{key}'");
        let test = match key {
            "success" => Self::Success(diagnostics.read_boolean(place, &quoted)?),
            "timeout_occurred" => Self::TimeoutOccurred(diagnostics.read_boolean(place, &quoted)?),
            "outcome_unknown" => Self::OutcomeUnknown(diagnostics.read_boolean(place, &quoted)?),
            "pattern_match" => Self::Pattern { pattern: PatternText::read(place, &quoted, diagnostics)?, found: true },
            "pattern_not_match" => {
                Self::Pattern { pattern: PatternText::read(place, &quoted, diagnostics)?, found: false }
            }
            "field_equals" => {
                let fields = diagnostics.read_free_object(place, &quoted)?;
                let test = |(field, place): (&String, JsonPath<'_>)| Self::FieldEquals {
                    field: field.clone(),
                    value: place.value.clone(),
                };
                return Some(fields.iter().map(test).collect());
            }
            "field_contains" => {
                let fields = diagnostics.read_free_object(place, &quoted)?;
                let tests: Vec<_> =
                    fields.iter().map(|(field, place)| Self::read_contains(field, &place, diagnostics)).collect();
                return tests.into_iter().collect();
            }
            // The unknown key is already reported.
            _ => return None,
        };
        Some(vec![test])
    }

    fn read_contains(field: &str, place: &JsonPath<'_>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let text = match place.value {
            Value::Bool(_) | Value::Number(_) => place.value.to_string(),
            _ => diagnostics.read_text(place, "the value of 'field_contains'")?.to_owned(),
        };
        Some(Self::FieldContains { field: field.to_owned(), text })
    }

    /// Returns whether the test holds only after a time-out.
    pub(crate) fn requires_timeout(&self) -> bool {
        matches!(self, Self::TimeoutOccurred(true))
    }

    /// Returns whether the test holds after an outcome; `None` if this depends on the run.
    pub(crate) fn is_decided_by(&self, outcome: OutcomeKind) -> Option<bool> {
        match self {
            Self::Success(expected) => Some(outcome.is_success() == *expected),
            Self::TimeoutOccurred(expected) => {
                Some(matches!(outcome, OutcomeKind::TimedOut | OutcomeKind::FoundNothing) == *expected)
            }
            Self::OutcomeUnknown(expected) => Some((outcome == OutcomeKind::Unknown) == *expected),
            Self::Pattern { .. } | Self::FieldEquals { .. } | Self::FieldContains { .. } => None,
        }
    }

    /// Returns whether the test holds only if the action succeeded.
    pub(crate) fn requires_success(&self) -> bool {
        matches!(self, Self::Success(true))
    }

    /// Returns whether the test requires output of the action: less time for the action cannot make the test hold.
    pub(crate) fn demands_output(&self) -> bool {
        match self {
            Self::Success(expected) => *expected,
            Self::TimeoutOccurred(expected) => !*expected,
            Self::Pattern { found, .. } => *found,
            Self::FieldEquals { value, .. } => {
                !value.is_null() && *value != false && *value != "timeout" && *value != "quiet"
            }
            Self::FieldContains { .. } => true,
            Self::OutcomeUnknown(_) => false,
        }
    }

    /// Returns whether the test holds only if no time-out occurred.
    pub(crate) fn excludes_timeout(&self) -> bool {
        matches!(self, Self::TimeoutOccurred(false))
    }

    /// Returns the pattern of the test, and true if it must be found.
    pub(crate) fn pattern(&self) -> Option<(&str, bool)> {
        match self {
            Self::Pattern { pattern, found } => Some((pattern.source(), *found)),
            _ => None,
        }
    }

    /// Returns the field of a result that the test examines.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::FieldEquals { field, .. } | Self::FieldContains { field, .. } => Some(field),
            _ => None,
        }
    }

    /// Returns all strings with variables to replace.
    pub(super) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Pattern { pattern: PatternText::Template(text), .. } | Self::FieldContains { text, .. } => vec![text],
            Self::FieldEquals { value, .. } => substitute::texts_in(value),
            _ => Vec::new(),
        }
    }

    /// Returns the reason that the test holds, or `None` if it does not.
    pub(super) fn holds(&self, ending: Ending<'_>, variables: &impl Lookup) -> Result<Option<String>, ConditionError> {
        for text in self.texts() {
            check_resolved(ending.rules, text, variables)?;
        }
        let (holds, reason) = match self {
            Self::Success(expected) => {
                let reason = if *expected { "the action succeeded" } else { "the action failed" };
                (tool::succeeded(ending.result) == *expected, reason.to_owned())
            }
            Self::Pattern { pattern, found } => {
                let compiled = match pattern {
                    PatternText::Compiled(pattern) => pattern.clone(),
                    PatternText::Template(template) => Pattern::new(&substitute::text(template, variables))?,
                };
                let verdict = if *found { "was found" } else { "was not found" };
                (ending.is_match(&compiled)? == *found, format!("pattern '{}' {verdict}", compiled.as_str()))
            }
            Self::FieldEquals { field, value } => {
                let expected = substitute::value(value, variables, true);
                let reason = format!("{field} equals {expected}");
                let without_newlines = expected.as_str().map(|text| Value::from(text.trim_end_matches('\n')));
                let is_output = field == tool::OUTPUT && ending.trimmed_output().is_some();
                let expected = without_newlines.filter(|_| is_output).unwrap_or(expected);
                (is_equal(result_field(ending.result, field).unwrap_or(&Value::Null), &expected), reason)
            }
            Self::FieldContains { field, text } => {
                let expected = substitute::text(text, variables);
                let actual =
                    result_field(ending.result, field).filter(|value| !value.is_null()).map(substitute::as_text);
                // The command also printed the newline at the end of the last line.
                let newline =
                    ending.trimmed_output().filter(|_| field == tool::OUTPUT).map(|_| "\n").unwrap_or_default();
                let contains = actual.is_some_and(|actual| (actual + newline).contains(&expected));
                (contains, format!("{field} contains '{expected}'"))
            }
            Self::TimeoutOccurred(expected) => {
                let reason = if *expected { "time ran out" } else { "time did not run out" };
                ((ending.timed_out || ending.found_nothing) == *expected, reason.to_owned())
            }
            Self::OutcomeUnknown(expected) => {
                let reason = if *expected { "the outcome is unknown" } else { "the outcome is known" };
                (ending.unknown == *expected, reason.to_owned())
            }
        };
        Ok(holds.then_some(reason))
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success(true) => f.write_str("success"),
            Self::Success(false) => f.write_str("failure"),
            Self::Pattern { pattern, found } => {
                write!(f, "{}/{}/", if *found { "" } else { "not " }, pattern.source())
            }
            Self::FieldEquals { field, value } => write!(f, "{field} = {}", substitute::as_text(value)),
            Self::FieldContains { field, text } => write!(f, "{field} contains {text}"),
            Self::TimeoutOccurred(true) => f.write_str("timeout"),
            Self::TimeoutOccurred(false) => f.write_str("no timeout"),
            Self::OutcomeUnknown(true) => f.write_str("outcome unknown"),
            Self::OutcomeUnknown(false) => f.write_str("outcome known"),
        }
    }
}

impl PatternText {
    /// Reads a pattern and compiles it if it has no variables.
    pub(super) fn read(place: &JsonPath<'_>, what: &str, diagnostics: &mut Diagnostics) -> Option<Self> {
        let source = diagnostics.read_text(place, what)?;
        if substitute::has_placeholder(source) {
            return Some(Self::Template(source.to_owned()));
        }
        match Pattern::new(source) {
            Ok(pattern) => Some(Self::Compiled(pattern)),
            Err(error) => {
                diagnostics.error(&place.pointer, error.to_string());
                None
            }
        }
    }

    /// Returns the source of the pattern, with its placeholders.
    fn source(&self) -> &str {
        match self {
            Self::Compiled(pattern) => pattern.as_str(),
            Self::Template(template) => template,
        }
    }
}

/// Returns a field of a result. A name with dots that is not a field is a path into objects and lists.
fn result_field<'a>(result: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    result.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        value_at_path(result.get(first)?, rest)
    })
}

/// Returns whether two JSON values are equal. Numbers are compared by value, and a string also equals the number or
/// boolean with the same notation.
fn is_equal(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::String(text), scalar @ (Value::Number(_) | Value::Bool(_)))
        | (scalar @ (Value::Number(_) | Value::Bool(_)), Value::String(text)) => *text == substitute::as_text(scalar),
        (actual, expected) => actual == expected,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_compared_as_authors_expect() {
        for (result, field, expected, holds) in [
            (json!({"exit_code": 0}), "exit_code", json!(0), true),
            (json!({"exit_code": 0}), "exit_code", json!("0"), true),
            (json!({"exit_code": "0"}), "exit_code", json!(0), true),
            (json!({"exit_code": 1}), "exit_code", json!(1.0), true),
            (json!({"exit_code": 1}), "exit_code", json!("1.0"), false),
            (json!({"busy": true}), "busy", json!("true"), true),
            (json!({"busy": true}), "busy", json!(1), false),
            (json!({"name": "a"}), "name", json!("a"), true),
            (json!({"name": "a"}), "name", json!("A"), false),
            (json!({"error": null}), "error", json!(null), true),
            (json!({}), "error", json!(null), true),
            (json!({}), "error", json!(""), false),
            (json!({"cursor": {"row": 3}}), "cursor.row", json!(3), true),
            (json!({"cursor": {"row": 3}}), "cursor.column", json!(3), false),
            (json!({"cursor": {"row": 3}}), "cursor", json!({"row": 3}), true),
            (json!({"sessions": [{"state": "idle"}]}), "sessions.0.state", json!("idle"), true),
            (json!({"a.b": 1, "a": {"b": 2}}), "a.b", json!(1), true),
            (json!({"a": 1}), "a.b.c", json!(1), false),
        ] {
            let actual =
                result_field(result.as_object().expect("the value is an object"), field).unwrap_or(&Value::Null);
            assert_eq!(is_equal(actual, &expected), holds, "{field} of {result} equals {expected}");
        }
    }
}
