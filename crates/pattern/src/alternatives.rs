//! The outermost alternatives of a pattern.
//!
//! Alternatives are compared in their parsed form, so escapes and the whitespace of a verbose pattern do not matter.

use std::ops::Range;

use crate::error::PatternError;
use crate::pattern::parse;
use crate::syntax::{Node, Syntax};

/// The alternatives of a pattern, in source order.
#[derive(Debug, Clone)]
pub struct Alternatives {
    flags: String,
    alternatives: Vec<Alternative>,
}

/// One alternative of a pattern.
#[derive(Debug, Clone)]
pub struct Alternative {
    source: String,
    node: Node,
    ignores_case: bool,
}

impl Alternatives {
    /// Parses the alternatives of a pattern. An alternative that is a non-capturing group is replaced by its own
    /// alternatives.
    ///
    /// # Errors
    /// If the pattern breaks a rule of the dialect, or is too long.
    pub fn parse(source: &str) -> Result<Self, PatternError> {
        let Syntax { root, flags, flags_end, alternations, .. } = parse(source)?;
        let root = match root {
            Node::IgnoreCase { node, .. } if flags.ignore_case => *node,
            root => root,
        };
        let mut finder = Finder {
            source: source.chars().collect(),
            alternations: &alternations,
            ignores_case: flags.ignore_case,
            alternatives: Vec::new(),
        };
        let mut ranges = alternations.last().cloned().unwrap_or_default();
        if let Some(first) = ranges.first_mut() {
            first.start = first.start.max(flags_end);
        }
        match root {
            Node::Alternation(branches) if branches.len() == ranges.len() => {
                branches.into_iter().zip(ranges).for_each(|(node, range)| finder.add(node, range));
            }
            root => finder.add(root, flags_end..finder.source.len()),
        }
        Ok(Self { flags: finder.source[..flags_end].iter().collect(), alternatives: finder.alternatives })
    }

    /// Returns the source of the flags of the whole pattern.
    #[must_use]
    pub fn flags_str(&self) -> &str {
        &self.flags
    }

    /// Returns the alternatives, in source order.
    pub fn iter(&self) -> impl Iterator<Item = &Alternative> {
        self.alternatives.iter()
    }
}

struct Finder<'s> {
    source: Vec<char>,
    alternations: &'s [Vec<Range<usize>>],
    ignores_case: bool,
    alternatives: Vec<Alternative>,
}

impl Finder<'_> {
    fn add(&mut self, node: Node, range: Range<usize>) {
        if let Node::Alternation(branches) = &node
            && self.source[range.clone()].starts_with(&['(', '?', ':'])
        {
            let inner = range.start + 3..range.end.saturating_sub(1);
            let is_inner = |ranges: &&Vec<Range<usize>>| {
                let bounds = ranges.first().zip(ranges.last());
                ranges.len() == branches.len() && bounds.is_some_and(|(first, last)| inner == (first.start..last.end))
            };
            if let Some(ranges) = self.alternations.iter().find(is_inner) {
                branches.iter().cloned().zip(ranges.clone()).for_each(|(node, range)| self.add(node, range));
                return;
            }
        }
        let source = self.source[range].iter().collect();
        self.alternatives.push(Alternative { source, node, ignores_case: self.ignores_case });
    }
}

impl PartialEq for Alternative {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && self.ignores_case == other.ignores_case
    }
}

impl Alternative {
    /// Returns the source of the alternative.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(pattern: &str) -> Vec<String> {
        Alternatives::parse(pattern).unwrap().iter().map(|alternative| alternative.as_str().to_owned()).collect()
    }

    #[test]
    fn group_is_opened_only_if_it_is_the_whole_pattern() {
        assert_eq!(sources("(?:a|b)"), ["a", "b"]);
        assert_eq!(sources("(?:a|b)(?:c|d)"), ["(?:a|b)(?:c|d)"]);
        assert_eq!(sources(r"a\|b|[|]"), [r"a\|b", "[|]"]);
        assert_eq!(sources("(?:a|b)|c"), ["a", "b", "c"]);
        assert_eq!(sources("(?m)(?:a|(?:b|c))"), ["a", "b", "c"]);
        assert_eq!(sources("(?s:a|b)|(a|b)"), ["(?s:a|b)", "(a|b)"]);
        assert_eq!(sources("Zz(?#|)|w"), ["Zz(?#|)", "w"]);
        assert_eq!(sources("[]|]|x"), ["[]|]", "x"]);
        assert_eq!(sources(""), [""]);
    }

    #[test]
    fn alternatives_are_compared_by_their_matches() {
        let first_alternative = |pattern: &str| Alternatives::parse(pattern).unwrap().alternatives.remove(0);
        assert_eq!(first_alternative("(?:ab)"), first_alternative("ab"));
        assert_eq!(first_alternative("(?x) a b # c"), first_alternative("ab"));
        assert_eq!(first_alternative(r"\x41"), first_alternative("A"));
        assert_ne!(first_alternative("(?i)a"), first_alternative("a"));
    }
}
