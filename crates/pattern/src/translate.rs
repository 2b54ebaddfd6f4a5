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

/// Returns a looser pattern for the linear engine: it matches everywhere that `node` does, and possibly elsewhere.
///
/// A text without a match of the looser pattern contains no match of `node`, and no match of `node` begins before the
/// first match of the looser pattern.
pub(crate) fn loosen(node: &Node) -> Node {
    let loosen_all = |nodes: &[Node]| nodes.iter().map(loosen).collect();
    match node {
        Node::Look { .. } | Node::Anchor(Anchor::TextEndOrLastNewline) => Node::Empty,
        Node::Backref(_) => {
            let any_character = Box::new(Node::Any { newline: true });
            Node::Repeat { node: any_character, min: 0, max: None, mode: RepeatMode::Lazy }
        }
        Node::Conditional { yes, no, .. } => Node::Alternation(vec![loosen(yes), loosen(no)]),
        Node::Atomic(node) | Node::Capture(node) => loosen(node),
        Node::Repeat { node, min, max, mode } => {
            let mode = if *mode == RepeatMode::Lazy { RepeatMode::Lazy } else { RepeatMode::Greedy };
            Node::Repeat { node: Box::new(loosen(node)), min: *min, max: *max, mode }
        }
        Node::Concat(nodes) => Node::Concat(loosen_all(nodes)),
        Node::Alternation(nodes) => Node::Alternation(loosen_all(nodes)),
        Node::IgnoreCase { on, node } => Node::IgnoreCase { on: *on, node: Box::new(loosen(node)) },
        Node::Empty | Node::Literal(_) | Node::Any { .. } | Node::Class { .. } | Node::Anchor(_) => node.clone(),
    }
}

/// Returns the notation of a pattern that needs no backtracking.
pub(crate) fn translate(root: &Node) -> String {
    let mut translation = Translation(String::new());
    translation.write_node(root);
    translation.0
}

/// Returns the notation of a set.
pub(crate) fn write_class(negated: bool, items: &[ClassItem]) -> String {
    let mut output = String::from(if negated { "[^" } else { "[" });
    for item in items {
        match item {
            ClassItem::Range(from, to) => {
                write_literal(*from, &mut output);
                if from != to {
                    output.push('-');
                    write_literal(*to, &mut output);
                }
            }
            ClassItem::Category { kind, negated, ascii } => output.push_str(category_notation(*kind, *negated, *ascii)),
        }
    }
    output.push(']');
    output
}

/// Writes a literal character.
pub(crate) fn write_literal(character: char, output: &mut String) {
    if r"\.+*?()|[]{}^$#&-~".contains(character) {
        output.push('\\');
    }
    output.push(character);
}

/// Writer of a translated pattern.
struct Translation(String);

impl Translation {
    fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn write_enclosed(&mut self, open: &str, node: &Node) {
        self.push(open);
        self.write_node(node);
        self.push(")");
    }

    fn write_node(&mut self, node: &Node) {
        match node {
            Node::Literal(character) => write_literal(*character, &mut self.0),
            Node::Any { newline: true } => self.push("(?s:.)"),
            Node::Any { newline: false } => self.push(r"[^\n]"),
            Node::Class { negated, items } => self.push(&write_class(*negated, items)),
            Node::Anchor(anchor) => self.push(match anchor {
                Anchor::LineStart => "(?m:^)",
                Anchor::LineEnd => "(?m:$)",
                Anchor::TextStart => r"\A",
                Anchor::TextEnd => r"\z",
                // `loosen` removes it before the translation.
                Anchor::TextEndOrLastNewline => "",
                Anchor::WordBoundary { negated: false, ascii: false } => r"(?:\b)",
                Anchor::WordBoundary { negated: true, ascii: false } => r"(?:\B)",
                Anchor::WordBoundary { negated: false, ascii: true } => r"(?-u:\b)",
                Anchor::WordBoundary { negated: true, ascii: true } => r"(?-u:\B)",
            }),
            Node::Concat(nodes) => nodes.iter().for_each(|node| self.write_part(node)),
            Node::Alternation(branches) => {
                for (index, branch) in branches.iter().enumerate() {
                    self.push(if index == 0 { "" } else { "|" });
                    self.write_part(branch);
                }
            }
            Node::Repeat { node, min, max, mode } => self.write_repeat(node, *min, *max, *mode),
            Node::Capture(node) => self.write_enclosed("(", node),
            Node::IgnoreCase { on: true, node } => self.write_enclosed("(?i:", node),
            Node::IgnoreCase { on: false, node } => self.write_enclosed("(?-i:", node),
            // The empty part has no notation, and the other parts need backtracking.
            Node::Empty | Node::Atomic(_) | Node::Look { .. } | Node::Backref(_) | Node::Conditional { .. } => {}
        }
    }

    /// Writes a part of a sequence or an alternation.
    fn write_part(&mut self, node: &Node) {
        match node {
            Node::Alternation(_) => self.write_enclosed("(?:", node),
            node => self.write_node(node),
        }
    }

    fn write_repeat(&mut self, node: &Node, min: u32, max: Option<u32>, mode: RepeatMode) {
        match node {
            Node::Literal(_) | Node::Any { .. } | Node::Class { .. } | Node::Capture(_) => self.write_node(node),
            node => self.write_enclosed("(?:", node),
        }
        match (min, max) {
            (0, None) => self.push("*"),
            (1, None) => self.push("+"),
            (0, Some(1)) => self.push("?"),
            (min, None) => self.write_format(format_args!("{{{min},}}")),
            (min, Some(max)) => self.write_format(format_args!("{{{min},{max}}}")),
        }
        if mode == RepeatMode::Lazy {
            self.push("?");
        }
    }

    fn write_format(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a string cannot fail");
    }
}

/// Returns the notation of a letter class, such as `\d`, inside a set.
fn category_notation(kind: Category, negated: bool, ascii: bool) -> &'static str {
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
