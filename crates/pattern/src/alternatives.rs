//! The outermost alternatives of a pattern, and the forms of the dialect in each of them.
//!
//! Alternatives are compared as they were read: flags, escapes and blanks of the verbose form make no difference.

use std::ops::Range;

use crate::error::PatternError;
use crate::pattern::{Pattern, parse};
use crate::syntax::{Category, ClassItem, Node, Syntax};

/// The alternatives of a pattern, in their order.
#[derive(Debug, Clone)]
pub struct Alternatives {
    flags: String,
    all: Vec<Alternative>,
}

/// One alternative of a pattern.
#[derive(Debug, Clone)]
pub struct Alternative {
    source: String,
    node: Node,
    ignores_case: bool,
    form: Option<Form>,
}

/// A form of the dialect that makes it hard to see what an alternative matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A group that captures, with a name or a number.
    Group,
    /// A look-ahead or a look-behind.
    LookAround,
    /// A reference to a group, or a condition on one.
    Reference,
    /// An atomic group, or a possessive repetition.
    Atomic,
    /// Flags of a part, or a comment.
    Remark,
}

impl Alternatives {
    /// Reads the alternatives of a pattern. A group without a number that is a whole alternative is opened.
    ///
    /// # Errors
    /// When the text breaks a rule of the dialect, or is too long.
    pub fn of(source: &str) -> Result<Self, PatternError> {
        let Syntax { root, flags, flags_end, alternations, remarks, .. } = parse(source)?;
        let root = match root {
            Node::IgnoreCase { node, .. } if flags.ignore_case => *node,
            root => root,
        };
        let mut found = Finder {
            source: source.chars().collect(),
            alternations: &alternations,
            remarks: &remarks,
            ignores_case: flags.ignore_case,
            all: Vec::new(),
        };
        let mut places = alternations.last().cloned().unwrap_or_default();
        if let Some(first) = places.first_mut() {
            first.start = first.start.max(flags_end);
        }
        match root {
            Node::Alternation(branches) if branches.len() == places.len() => {
                branches.into_iter().zip(places).for_each(|(node, place)| found.add(node, place));
            }
            root => found.add(root, flags_end..found.source.len()),
        }
        Ok(Self { flags: found.source[..flags_end].iter().collect(), all: found.all })
    }

    /// Returns the flags of the whole pattern, as they are written.
    #[must_use]
    pub fn flags_str(&self) -> &str {
        &self.flags
    }

    /// Returns the alternatives, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Alternative> {
        self.all.iter()
    }
}

struct Finder<'s> {
    source: Vec<char>,
    alternations: &'s [Vec<Range<usize>>],
    remarks: &'s [usize],
    ignores_case: bool,
    all: Vec<Alternative>,
}

impl Finder<'_> {
    fn add(&mut self, node: Node, place: Range<usize>) {
        if let Node::Alternation(branches) = &node
            && self.source[place.clone()].starts_with(&['(', '?', ':'])
        {
            let inside = place.start + 3..place.end.saturating_sub(1);
            let is_inside = |places: &&Vec<Range<usize>>| {
                let ends = places.first().zip(places.last());
                places.len() == branches.len() && ends.is_some_and(|(first, last)| inside == (first.start..last.end))
            };
            if let Some(places) = self.alternations.iter().find(is_inside) {
                branches.iter().cloned().zip(places.clone()).for_each(|(node, place)| self.add(node, place));
                return;
            }
        }
        let has_remark = self.remarks.iter().any(|at| place.contains(at));
        let form = form(&node).or(has_remark.then_some(Form::Remark));
        let source = self.source[place].iter().collect();
        self.all.push(Alternative { source, node, ignores_case: self.ignores_case, form });
    }
}

/// Returns the first form of a part that hides what it matches.
fn form(node: &Node) -> Option<Form> {
    match node {
        Node::Capture(_) => Some(Form::Group),
        Node::Look { .. } => Some(Form::LookAround),
        Node::Backref(_) | Node::Conditional { .. } => Some(Form::Reference),
        Node::Atomic(_) | Node::Repeat { mode: crate::syntax::RepeatMode::Possessive, .. } => Some(Form::Atomic),
        Node::Concat(nodes) | Node::Alternation(nodes) => nodes.iter().find_map(form),
        Node::Repeat { node, .. } => form(node),
        Node::IgnoreCase { node, .. } => form(node).or(Some(Form::Remark)),
        Node::Empty | Node::Literal(_) | Node::Any { .. } | Node::Class { .. } | Node::Anchor(_) => None,
    }
}

impl PartialEq for Alternative {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && self.ignores_case == other.ignores_case
    }
}

impl Alternative {
    /// Returns the alternative as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Returns the form that hides what it matches, if it has one.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        self.form
    }

    fn compiled(&self, node: Node) -> Result<Pattern, PatternError> {
        let node = if self.ignores_case { Node::IgnoreCase { on: true, node: Box::new(node) } } else { node };
        Pattern::of(&self.source, &node, Vec::new())
    }

    /// Returns what the alternative takes one after the other, in each of its ways: where it has alternatives itself,
    /// there are several. `None` where there are too many.
    fn ways(&self) -> Option<Vec<Vec<Piece<'_>>>> {
        ways(&self.node)
    }

    /// Returns whether each match begins and ends with a word of at least so many letters, or with fixed text and blanks
    /// beside such a word. `is_open` names characters that stand for any text.
    #[must_use]
    pub fn is_held_by_words(&self, letters: usize, is_open: impl Fn(char) -> bool) -> bool {
        let is_held = |pieces: &mut dyn Iterator<Item = &Piece<'_>>| {
            let mut word = 0;
            for (index, piece) in pieces.enumerate() {
                match piece {
                    Piece::Open(_) => return false,
                    Piece::Character(open) if is_open(*open) => return false,
                    // A number goes on.
                    Piece::Character(digit) if index == 0 && digit.is_numeric() => return false,
                    Piece::Character(letter) if letter.is_alphabetic() => word += 1,
                    Piece::Character(_) | Piece::Blanks => word = 0,
                    Piece::Place => {}
                }
                if word == letters {
                    return true;
                }
            }
            false
        };
        let all = self.ways().unwrap_or_default();
        !all.is_empty() && all.iter().all(|way| is_held(&mut way.iter()) && is_held(&mut way.iter().rev()))
    }

    /// Returns the words of its texts, also of those in parts that may be left out.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut open = Vec::new();
        let mut ways = self.ways().unwrap_or_default();
        while let Some(way) = ways.pop() {
            let mut word = String::new();
            for piece in way.iter().chain([&Piece::Blanks]) {
                match piece {
                    Piece::Character(letter) if letter.is_alphabetic() => word.push(*letter),
                    Piece::Place => {}
                    Piece::Open(Node::Repeat { node, .. } | Node::Atomic(node) | Node::Look { node, .. }) => {
                        open.push(&**node);
                    }
                    _ => {}
                }
                if !matches!(piece, Piece::Character(_) | Piece::Place)
                    || matches!(piece, Piece::Character(sign) if !sign.is_alphabetic())
                {
                    words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                }
            }
            ways.extend(open.drain(..).filter_map(self::ways).flatten());
        }
        words
    }

    /// Returns whether a part of it takes any of several letters, so that words that are not written in it match. Digits of
    /// hexadecimal numbers make no words.
    #[must_use]
    pub fn takes_unwritten_words(&self) -> bool {
        let takes = |node: &Node| {
            let pattern = self.compiled(node.clone());
            pattern.map_or(true, |pattern| {
                "gGkKoOtTwWzZ".chars().any(|letter| pattern.is_match(letter.encode_utf8(&mut [0; 4])) != Ok(false))
            })
        };
        let mut open = vec![&self.node];
        while let Some(node) = open.pop() {
            match node {
                Node::Class { negated: false, items } if matches!(items[..], [ClassItem::Range(from, to)] if from == to) =>
                    {}
                Node::Any { .. } | Node::Class { .. } if takes(node) => return true,
                Node::Concat(nodes) | Node::Alternation(nodes) => open.extend(nodes),
                Node::Repeat { node, .. }
                | Node::Capture(node)
                | Node::IgnoreCase { node, .. }
                | Node::Atomic(node)
                | Node::Look { node, .. } => open.push(node),
                Node::Conditional { yes, no, .. } => open.extend([&**yes, no]),
                Node::Any { .. }
                | Node::Class { .. }
                | Node::Empty
                | Node::Literal(_)
                | Node::Anchor(_)
                | Node::Backref(_) => {}
            }
        }
        false
    }
}

/// What an alternative takes at one place.
#[derive(Debug, Clone)]
enum Piece<'n> {
    /// This character.
    Character(char),
    /// Blanks, any number of them.
    Blanks,
    /// Nothing: a place between characters.
    Place,
    /// Anything else.
    Open(&'n Node),
}

/// The most ways of an alternative that are looked at.
const MAX_WAYS: usize = 64;

/// The most characters of a set that are ways of their own, as in `[Yy]`.
const MAX_CHARACTERS: usize = 4;

/// The most repetitions of a part that are written out.
const MAX_REPETITIONS: u32 = 3;

fn ways(node: &Node) -> Option<Vec<Vec<Piece<'_>>>> {
    fn one(piece: Piece<'_>) -> Option<Vec<Vec<Piece<'_>>>> {
        Some(vec![vec![piece]])
    }
    match node {
        Node::Empty => Some(vec![Vec::new()]),
        Node::Literal(' ' | '\t') => one(Piece::Blanks),
        Node::Literal(character) => one(Piece::Character(*character)),
        Node::Class { negated: false, items } if items.iter().all(is_blank) => one(Piece::Blanks),
        Node::Class { negated: false, items } if items.len() <= MAX_CHARACTERS => {
            let single = |item: &ClassItem| match item {
                ClassItem::Range(from, to) if from == to => Some(vec![Piece::Character(*from)]),
                _ => None,
            };
            items.iter().map(single).collect::<Option<Vec<_>>>().or_else(|| one(Piece::Open(node)))
        }
        Node::Anchor(_) => one(Piece::Place),
        Node::Concat(nodes) => nodes.iter().try_fold(vec![Vec::new()], |begun, node| joined(&begun, &ways(node)?)),
        Node::Alternation(nodes) => {
            let all = nodes.iter().map(ways).collect::<Option<Vec<_>>>()?.concat();
            (all.len() <= MAX_WAYS).then_some(all)
        }
        Node::Repeat { node: inner, min, max, .. } => {
            let once = ways(inner)?;
            if once.iter().flatten().all(|piece| matches!(piece, Piece::Blanks | Piece::Place)) {
                return one(Piece::Blanks);
            }
            if *max == Some(*min) && *min <= MAX_REPETITIONS {
                return (0..*min).try_fold(vec![Vec::new()], |begun, _| joined(&begun, &once));
            }
            one(Piece::Open(node))
        }
        Node::Capture(node) | Node::IgnoreCase { node, .. } => ways(node),
        Node::Any { .. }
        | Node::Class { .. }
        | Node::Atomic(_)
        | Node::Look { .. }
        | Node::Backref(_)
        | Node::Conditional { .. } => one(Piece::Open(node)),
    }
}

/// Returns each way of the one before each way of the other, where there are not too many.
fn joined<'n>(begun: &[Vec<Piece<'n>>], next: &[Vec<Piece<'n>>]) -> Option<Vec<Vec<Piece<'n>>>> {
    let join = |begun: &Vec<Piece<'n>>| next.iter().map(|next| [&begun[..], next].concat()).collect::<Vec<_>>();
    (begun.len() * next.len() <= MAX_WAYS).then(|| begun.iter().flat_map(join).collect())
}

fn is_blank(item: &ClassItem) -> bool {
    match item {
        ClassItem::Range(from, to) => from == to && from.is_whitespace(),
        ClassItem::Category { kind, negated, .. } => *kind == Category::Space && !negated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pattern: &str) -> Vec<String> {
        Alternatives::of(pattern).unwrap().iter().map(|one| one.as_str().to_owned()).collect()
    }

    #[test]
    fn a_group_is_opened_only_where_it_is_the_whole() {
        assert_eq!(texts("(?:a|b)"), ["a", "b"]);
        assert_eq!(texts("(?:a|b)(?:c|d)"), ["(?:a|b)(?:c|d)"]);
        assert_eq!(texts(r"a\|b|[|]"), [r"a\|b", "[|]"]);
        assert_eq!(texts("(?:a|b)|c"), ["a", "b", "c"]);
        assert_eq!(texts("(?m)(?:a|(?:b|c))"), ["a", "b", "c"]);
        assert_eq!(texts("(?s:a|b)|(a|b)"), ["(?s:a|b)", "(a|b)"]);
        assert_eq!(texts("Zz(?#|)|w"), ["Zz(?#|)", "w"]);
        assert_eq!(texts("[]|]|x"), ["[]|]", "x"]);
        assert_eq!(texts(""), [""]);
    }

    #[test]
    fn alternatives_are_compared_by_what_they_match_and_not_by_how_they_are_written() {
        let one = |pattern: &str| Alternatives::of(pattern).unwrap().all.remove(0);
        assert_eq!(one("(?:ab)"), one("ab"));
        assert_eq!(one("(?x) a b # c"), one("ab"));
        assert_eq!(one(r"\x41"), one("A"));
        assert_ne!(one("(?i)a"), one("a"));
    }

    #[test]
    fn the_forms_that_hide_what_is_matched_are_found_wherever_they_stand() {
        let form = |pattern: &str| Alternatives::of(pattern).unwrap().all.pop().unwrap().form();
        for (pattern, expected) in [
            ("ok|port (1)", Some(Form::Group)),
            ("ok|port (?P<N>1)", Some(Form::Group)),
            ("ok|(?=port)port", Some(Form::LookAround)),
            ("ok|port(?<!x)", Some(Form::LookAround)),
            ("(a)|port (?P=x)".replace("(a)", "(?P<x>a)").as_str(), Some(Form::Reference)),
            ("(a)|port (?(1)b|c)", Some(Form::Reference)),
            ("ok|(?>port)", Some(Form::Atomic)),
            ("ok|port *+", Some(Form::Atomic)),
            ("ok|(?i:port)", Some(Form::Remark)),
            ("ok|port (?s:a|b)", Some(Form::Remark)),
            ("ok|port (?-s:a)", Some(Form::Remark)),
            ("ok|port(?#x)", Some(Form::Remark)),
            ("(?x)ok|port #x", Some(Form::Remark)),
            ("(?m)ok|port (?:a|b)", None),
            ("(?i)ok|port", None),
        ] {
            assert_eq!(form(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn an_alternative_is_held_where_it_begins_and_ends_with_fixed_words() {
        let held = |pattern: &str| {
            Alternatives::of(pattern).unwrap().iter().all(|one| one.is_held_by_words(3, |sign| sign == '\u{e000}'))
        };
        for pattern in [
            "Proceed",
            r"^Proceed with it\? *$",
            r"^Agree\? \[y/n\] *\Z",
            "(?:Do you|May we) agree",
            "Install .* packages",
            r"\(port\) [(] (?:one|two)",
            "(?:yes ){2}",
        ] {
            assert!(held(pattern), "{pattern}");
        }
        for pattern in [
            "w",
            "ok",
            ".*Proceed",
            "Proceed.*",
            "x?Proceed",
            r"\w+ Proceed now",
            "Proceed|",
            "(?:Proceed|.*) now",
            "(?:Proceed)?",
            "[^x]roceed or",
            "[A-Z]roceed",
            r"(?<=[^xr])\? \[y/N\] *\Z",
            "Proceed \u{e000}",
            "^$",
        ] {
            assert!(!held(pattern), "{pattern}");
        }
    }

    #[test]
    fn words_that_an_alternative_takes_are_known_also_where_they_are_not_written() {
        let one = |pattern: &str| Alternatives::of(pattern).unwrap().all.remove(0);
        for pattern in
            ["Proceed .* now", r"Proceed (?:\w+ ?)+", "Proceed [^?]+ now", "wi[a-z]e", r"\w{4}", r"\D", "[^a-f]"]
        {
            assert!(one(pattern).takes_unwritten_words(), "{pattern}");
        }
        for pattern in ["Proceed now", r"Proceed \d+ now", r"[0-9a-f]{7} \s*", "[[]y/N]", "[d]elete"] {
            assert!(!one(pattern).takes_unwritten_words(), "{pattern}");
        }
        let mut words = one("Proceed (?:and (?:wipe )?)*now").words();
        words.sort_unstable();
        assert_eq!(words, ["Proceed", "and", "now", "wipe"]);
        assert_eq!(one("[dD]elete").words(), ["Delete", "delete"]);
    }
}
