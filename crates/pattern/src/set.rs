//! Sets of characters with fast lookup.

use regex_syntax::hir::{Class, HirKind};

/// A set of characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// One bit for each ASCII character.
    ascii: u128,
    /// The ranges of characters outside ASCII, sorted and disjoint.
    non_ascii: Box<[(char, char)]>,
}

impl Set {
    /// Parses a set or a single character in the notation of [`crate::translate`].
    ///
    /// Returns the empty set for invalid notation. The translation never writes such notation.
    pub(crate) fn parse(source: &str) -> Self {
        let Ok(hir) = regex_syntax::parse(source) else { return Self::default() };
        match hir.kind() {
            HirKind::Literal(literal) => {
                let text = str::from_utf8(&literal.0).unwrap_or_default();
                Self::from_ranges(text.chars().map(|character| (character, character)))
            }
            HirKind::Class(Class::Unicode(class)) => {
                Self::from_ranges(class.ranges().iter().map(|range| (range.start(), range.end())))
            }
            HirKind::Class(Class::Bytes(class)) => {
                let range = |range: &regex_syntax::hir::ClassBytesRange| (range.start().into(), range.end().into());
                Self::from_ranges(class.ranges().iter().map(range))
            }
            _ => Self::default(),
        }
    }

    fn from_ranges(ranges: impl Iterator<Item = (char, char)>) -> Self {
        let (mut ascii, mut non_ascii) = (0u128, Vec::new());
        for (first, last) in ranges {
            for character in u32::from(first)..=u32::from(last).min(127) {
                ascii |= 1 << character;
            }
            if last > '\x7f' {
                non_ascii.push((first.max('\u{80}'), last));
            }
        }
        Self { ascii, non_ascii: non_ascii.into() }
    }

    /// Returns whether a character is in the set.
    pub(crate) fn contains(&self, character: char) -> bool {
        if character.is_ascii() {
            return self.ascii >> u32::from(character) & 1 == 1;
        }
        let index = self.non_ascii.partition_point(|(_, last)| *last < character);
        self.non_ascii.get(index).is_some_and(|(first, _)| *first <= character)
    }

    /// Returns whether the set has a character outside ASCII.
    pub(crate) fn has_non_ascii(&self) -> bool {
        !self.non_ascii.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_contains_exactly_its_members() {
        for (written, inside, outside) in [
            ("[a-cé]", "abcé", "dè\n"),
            (r"[^a\n]", "béZ", "a\n"),
            (r"[\d_]", "0_9٣", "a-"),
            ("(?i:k)", "kK\u{212a}", "x"),
            ("x", "x", "y"),
            (r"(?s:.)", "\nx", ""),
            (r"[^\s\S]", "", "a \n"),
        ] {
            let set = Set::parse(written);
            assert!(inside.chars().all(|character| set.contains(character)), "{written}");
            assert!(!outside.chars().any(|character| set.contains(character)), "{written}");
        }
    }
}
