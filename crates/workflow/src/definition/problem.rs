//! Problems in a definition.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One problem in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A JSON pointer into the document; empty for the whole document.
    pub pointer: String,
    /// The mistake, and the correct form.
    pub message: String,
    /// The severity: a workflow with an error cannot run.
    pub severity: Severity,
}

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The workflow cannot run.
    Error,
    /// The workflow can run, but its author should check this part.
    Warning,
}

impl Problem {
    /// Returns a problem that prevents the workflow from running.
    #[must_use]
    pub fn error(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), severity: Severity::Error }
    }

    /// Returns a problem that does not prevent the workflow from running.
    #[must_use]
    pub fn warning(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), severity: Severity::Warning }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.message)
    }
}

/// The problems in a definition: at least one error, and the warnings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Returns these problems as one error.
    #[must_use]
    pub fn new(problems: Vec<Problem>) -> Self {
        Self(problems)
    }

    /// Returns the problems, in the order of the checks.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// One line for each problem.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Error for Problems {}
