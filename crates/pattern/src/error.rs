//! The errors of patterns.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Reason why a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern breaks a rule of the dialect; its author can fix it at `position`.
    #[error("pattern '{}' does not compile: {reason} at position {position}", Excerpt(.pattern))]
    Invalid {
        /// The pattern, unchanged.
        pattern: String,
        /// Position of the error, in characters from the start of the pattern.
        position: usize,
        /// The error, as a fragment: "unclosed group".
        reason: String,
    },
    /// The pattern is well formed, but no engine can run it.
    #[error("pattern '{}' is not supported: {reason}", Excerpt(.pattern))]
    Unsupported {
        /// The pattern, unchanged.
        pattern: String,
        /// The unsupported part, as a fragment.
        reason: String,
    },
    /// The pattern exceeds a size limit; its author can shorten it.
    #[error("pattern '{}' is too large: {reason}", Excerpt(.pattern))]
    TooLarge {
        /// The pattern, unchanged.
        pattern: String,
        /// The exceeded limit, as a fragment.
        reason: String,
    },
}

/// A search was aborted because it exceeded the bound on its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("pattern '{}' takes too much work on this text", Excerpt(.pattern))]
pub struct TooMuchWork {
    /// The pattern, unchanged.
    pub pattern: String,
}

/// A pattern, shortened for an error message.
struct Excerpt<'a>(&'a str);

/// Maximum length of the pattern in an error, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(MAX_EXCERPT_CHARS) {
            None => f.write_str(self.0),
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
        }
    }
}
