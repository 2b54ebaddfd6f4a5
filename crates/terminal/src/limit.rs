//! The length of a part of a terminal's output in a reply.

use serde::{Deserialize, Serialize};

/// Limit of the characters of a part to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// Its beginning, up to so many characters.
    Head(usize),
    /// Its beginning and its end, together up to so many characters.
    HeadAndTail(usize),
}

impl Limit {
    /// Returns the maximum number of characters.
    #[must_use]
    pub fn chars(self) -> usize {
        match self {
            Self::Head(most) | Self::HeadAndTail(most) => most,
        }
    }

    /// Returns the maximum number of bytes of a text with so many characters.
    #[must_use]
    pub fn max_bytes(self) -> usize {
        self.chars().saturating_mul(4)
    }
}
