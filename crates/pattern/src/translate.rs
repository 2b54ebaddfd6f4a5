//! The translation of a parsed pattern for the linear engine.
//!
//! Every character and set is written unambiguously, and every flag is resolved, so nothing depends on the engine's own
//! defaults.

use std::fmt::Write as _;

use crate::syntax::{Anchor, Category, ClassItem, Node, RepeatMode};

/// Returns whether only the backtracking engine can run a pattern.
pub(crate) fn needs_backtracking(node: &Node) -> bool {
    match node {
        Node::Look { .. } | Node::Backref(_) | Node::Atomic(_) | Node::Conditional { .. } => true,
        Node::Repeat { mode: RepeatMode::Possessive, .. } => true,
        Node::Anchor(anchor) => *anchor == Anchor::TextEndOrLastNewline,
        Node::Concat(nodes) | Node::Alternation(nodes) => nodes.iter().any(needs_backtracking),
        Node::Repeat { node, .. } | Node::Capture(node) | Node::IgnoreCase { node, .. } => needs_backtracking(node),
        Node::Empty | Node::Literal(_) | Node::Any { .. } | Node::Class { .. } => false,
    }
}

/// Returns a pattern that the linear engine can run and that matches wherever this one does, and more often.
///
/// Where the other finds nothing, this one finds nothing, and no match begins before the first of the other's.
pub(crate) fn loosened(node: &Node) -> Node {
    let all = |nodes: &[Node]| nodes.iter().map(loosened).collect();
    match node {
        Node::Look { .. } | Node::Anchor(Anchor::TextEndOrLastNewline) => Node::Empty,
        Node::Backref(_) => {
            let any = Box::new(Node::Any { newline: true });
            Node::Repeat { node: any, min: 0, max: None, mode: RepeatMode::Lazy }
        }
        Node::Conditional { yes, no, .. } => Node::Alternation(vec![loosened(yes), loosened(no)]),
        Node::Atomic(node) | Node::Capture(node) => loosened(node),
        Node::Repeat { node, min, max, mode } => {
            let mode = if *mode == RepeatMode::Lazy { RepeatMode::Lazy } else { RepeatMode::Greedy };
            Node::Repeat { node: Box::new(loosened(node)), min: *min, max: *max, mode }
        }
        Node::Concat(nodes) => Node::Concat(all(nodes)),
        Node::Alternation(nodes) => Node::Alternation(all(nodes)),
        Node::IgnoreCase { on, node } => Node::IgnoreCase { on: *on, node: Box::new(loosened(node)) },
        Node::Empty | Node::Literal(_) | Node::Any { .. } | Node::Class { .. } | Node::Anchor(_) => node.clone(),
    }
}

/// Writes a pattern that needs no backtracking.
pub(crate) fn translate(root: &Node) -> String {
    let mut translation = Translation(String::new());
    translation.node(root);
    translation.0
}

/// Writes a set.
pub(crate) fn class(negated: bool, items: &[ClassItem]) -> String {
    let mut written = String::from(if negated { "[^" } else { "[" });
    for item in items {
        match item {
            ClassItem::Range(from, to) => {
                literal(*from, &mut written);
                if from != to {
                    written.push('-');
                    literal(*to, &mut written);
                }
            }
            ClassItem::Category { kind, negated, ascii } => written.push_str(category(*kind, *negated, *ascii)),
        }
    }
    written.push(']');
    written
}

/// Writes a literal character.
pub(crate) fn literal(character: char, written: &mut String) {
    if r"\.+*?()|[]{}^$#&-~".contains(character) {
        written.push('\\');
    }
    written.push(character);
}

struct Translation(String);

impl Translation {
    fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn enclosed(&mut self, open: &str, node: &Node) {
        self.push(open);
        self.node(node);
        self.push(")");
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Literal(character) => literal(*character, &mut self.0),
            Node::Any { newline: true } => self.push("(?s:.)"),
            Node::Any { newline: false } => self.push(r"[^\n]"),
            Node::Class { negated, items } => self.push(&class(*negated, items)),
            Node::Anchor(anchor) => self.push(match anchor {
                Anchor::LineStart => "(?m:^)",
                Anchor::LineEnd => "(?m:$)",
                Anchor::TextStart => r"\A",
                Anchor::TextEnd => r"\z",
                // Loosened before it comes here.
                Anchor::TextEndOrLastNewline => "",
                Anchor::WordBoundary { negated: false, ascii: false } => r"(?:\b)",
                Anchor::WordBoundary { negated: true, ascii: false } => r"(?:\B)",
                Anchor::WordBoundary { negated: false, ascii: true } => r"(?-u:\b)",
                Anchor::WordBoundary { negated: true, ascii: true } => r"(?-u:\B)",
            }),
            Node::Concat(nodes) => nodes.iter().for_each(|node| self.part(node)),
            Node::Alternation(branches) => {
                for (index, branch) in branches.iter().enumerate() {
                    self.push(if index == 0 { "" } else { "|" });
                    self.part(branch);
                }
            }
            Node::Repeat { node, min, max, mode } => self.repeat(node, *min, *max, *mode),
            Node::Capture(node) => self.enclosed("(", node),
            Node::IgnoreCase { on: true, node } => self.enclosed("(?i:", node),
            Node::IgnoreCase { on: false, node } => self.enclosed("(?-i:", node),
            // Nothing is written for nothing, and the others need backtracking.
            Node::Empty | Node::Atomic(_) | Node::Look { .. } | Node::Backref(_) | Node::Conditional { .. } => {}
        }
    }

    /// Writes a part beside others.
    fn part(&mut self, node: &Node) {
        match node {
            Node::Alternation(_) => self.enclosed("(?:", node),
            node => self.node(node),
        }
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, mode: RepeatMode) {
        match node {
            Node::Literal(_) | Node::Any { .. } | Node::Class { .. } | Node::Capture(_) => self.node(node),
            node => self.enclosed("(?:", node),
        }
        match (min, max) {
            (0, None) => self.push("*"),
            (1, None) => self.push("+"),
            (0, Some(1)) => self.push("?"),
            (min, None) => self.write(format_args!("{{{min},}}")),
            (min, Some(max)) => self.write(format_args!("{{{min},{max}}}")),
        }
        if mode == RepeatMode::Lazy {
            self.push("?");
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes any text");
    }
}

/// Returns the notation of a class with a letter inside a set.
fn category(kind: Category, negated: bool, ascii: bool) -> &'static str {
    match (kind, negated, ascii) {
        (Category::Digit, false, false) => r"\d",
        (Category::Digit, true, false) => r"\D",
        (Category::Space, false, false) => r"\s",
        (Category::Space, true, false) => r"\S",
        (Category::Word, false, false) => r"\w",
        (Category::Word, true, false) => r"\W",
        (Category::Digit, false, true) => "[0-9]",
        (Category::Digit, true, true) => "[^0-9]",
        (Category::Space, false, true) => r"[\t\n\v\f\r ]",
        (Category::Space, true, true) => r"[^\t\n\v\f\r ]",
        (Category::Word, false, true) => "[0-9A-Za-z_]",
        (Category::Word, true, true) => "[^0-9A-Za-z_]",
    }
}
