//! Validation of arguments against a schema.

use jsonschema::{Draft, PatternOptions};
use serde_json::{Value, json};

use crate::text::clean;

/// Maximum size of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Maximum number of reported violations.
const MAX_VIOLATIONS: usize = 100;
/// Maximum length of a problem. A problem may contain a value.
const MAX_PROBLEM_CHARS: usize = 300;

/// A compiled schema. Callers compile a schema for each call, in about a millisecond: storing compiled foreign schemas
/// could take megabytes.
#[derive(Debug, Clone)]
pub struct Validator(jsonschema::Validator);

/// A schema that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(String);

/// A value that a schema does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer of the value (RFC 6901); empty for the arguments themselves.
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
    /// Compiles a schema as JSON Schema 2020-12, regardless of its declared version. The schema must not refer to other
    /// documents. A foreign schema must be [cleaned](super::clean()) first, or a validation may be slow.
    ///
    /// # Errors
    ///
    /// If the value is not a schema, or has a pattern that `regex` does not support (look-around or back-references).
    pub fn new(schema: &Value) -> Result<Self, InvalidSchema> {
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let options = jsonschema::options().with_draft(Draft::Draft202012).with_pattern_options(patterns).offline();
        let compiled = options.build(schema);
        compiled.map(Self).map_err(|error| InvalidSchema(clean(&error.to_string(), MAX_PROBLEM_CHARS)))
    }

    /// Returns the violations of the schema, up to a hundred, sorted by their JSON Pointers.
    #[must_use]
    pub fn validate(&self, arguments: &Value) -> Vec<Violation> {
        let violations = self.0.iter_errors(arguments).take(MAX_VIOLATIONS).map(|error| Violation {
            path: error.instance_path().as_str().to_owned(),
            problem: clean(&error.to_string(), MAX_PROBLEM_CHARS),
        });
        let mut violations: Vec<Violation> = violations.collect();
        violations.sort_by(|left, right| (&left.path, &left.problem).cmp(&(&right.path, &right.problem)));
        violations
    }
}

/// Returns whether a pattern is valid and can be searched in linear time.
pub(super) fn is_linear_pattern(pattern: &str) -> bool {
    Validator::new(&json!({ "pattern": pattern })).is_ok()
}
