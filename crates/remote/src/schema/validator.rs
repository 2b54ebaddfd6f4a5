//! The validation of arguments against a schema.

use jsonschema::{Draft, PatternOptions};
use serde_json::{Value, json};

use crate::text::clean;

/// Maximum size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Maximum number of reported violations.
const MAX_VIOLATIONS: usize = 100;
/// Maximum length of a problem; there may be a value in it.
const MAX_PROBLEM_CHARS: usize = 300;

/// A schema, ready for checks. Made in about a millisecond, so rather made for each call than kept: that of a foreign
/// schema may take megabytes.
#[derive(Debug, Clone)]
pub struct Validator(jsonschema::Validator);

/// Reason why a schema is unusable for validation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

/// Something that a schema does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its place: a JSON Pointer (RFC 6901), empty for the whole.
    pub path: String,
    /// The problem, without a full stop.
    pub problem: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() { "the arguments" } else { &self.path };
        write!(formatter, "{path}: {}", self.problem)
    }
}

impl Validator {
    /// Compiles a schema of JSON Schema 2020-12, whatever version it declares. It may refer to nothing outside of it. A
    /// foreign schema must be [cleaned](super::clean()) first, or a check may take long.
    ///
    /// # Errors
    ///
    /// If it is not a schema, or has a pattern that `regex` cannot search: one with look-around or back-references.
    pub fn new(schema: &Value) -> Result<Self, Unusable> {
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns).offline();
        let compiled = options.build(schema);
        compiled.map(Self).map_err(|error| Unusable(clean(&error.to_string(), MAX_PROBLEM_CHARS)))
    }

    /// Returns everything about the arguments that the schema does not allow, up to a hundred, in order of their places.
    #[must_use]
    pub fn validate(&self, arguments: &Value) -> Vec<Violation> {
        let violations = self.0.iter_errors(arguments).take(MAX_VIOLATIONS).map(|error| Violation {
            path: error.instance_path().as_str().to_owned(),
            problem: clean(&error.to_string(), MAX_PROBLEM_CHARS),
        });
        let mut violations: Vec<Violation> = violations.collect();
        violations.sort_by(|one, other| (&one.path, &one.problem).cmp(&(&other.path, &other.problem)));
        violations
    }
}

/// Returns whether a search for a pattern takes linear time.
pub(super) fn is_pattern(pattern: &str) -> bool {
    Validator::new(&json!({ "pattern": pattern })).is_ok()
}
