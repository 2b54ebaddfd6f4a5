//! A limit for the part of a terminal's output in a reply.

use serde::{Deserialize, Serialize};

/// Maximum number of characters to return, and the part to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// The beginning, up to this number of characters.
    Head(usize),
    /// The beginning and the end, together up to this number of characters.
    HeadAndTail(usize),
}

impl Limit {
    /// Returns the maximum number of characters.
    #[must_use]
    pub fn chars(self) -> usize {
        match self {
            Self::Head(max_chars) | Self::HeadAndTail(max_chars) => max_chars,
        }
    }

    /// Returns the maximum number of bytes of a text within the limit.
    #[must_use]
    pub fn max_bytes(self) -> usize {
        self.chars().saturating_mul(4)
    }
}
