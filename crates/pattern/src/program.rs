//! A read pattern, as instructions for the backtracking engine.

use std::collections::HashMap;
use std::sync::Arc;

use crate::set::Set;
use crate::syntax::{Anchor, Category, ClassItem, Node, RepeatMode, Width};
use crate::translate;

/// A pattern as a list of instructions. A run begins at the first.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    /// Number of positions and counts that a run keeps. The first ones are the bounds of the groups, group 0 first.
    pub(crate) slots: usize,
    /// The characters of a word for `\b`.
    pub(crate) word: Arc<Set>,
    /// The bytes that a match can begin with; `None` when it may be empty.
    pub(crate) first_bytes: Option<Box<[bool; 256]>>,
}

/// One instruction. Without another target, the next one follows.
#[derive(Debug)]
pub(crate) enum Step {
    /// Takes one character.
    One(CharMatcher),
    /// Takes a repetition of one kind of character.
    Many { one: CharMatcher, min: u32, max: u32, mode: RepeatMode },
    /// Requires a position.
    Anchor(Anchor),
    /// Continues at `first`, and at `second` if that fails.
    Split { first: usize, second: usize },
    /// Continues at another step.
    Jump(usize),
    /// Saves the position.
    Save(usize),
    /// Begins a loop: no iteration yet.
    Enter { count: usize, last: usize },
    /// Iterates a loop once more, or leaves it.
    Loop(LoopStep),
    /// Runs the next steps up to their [`Step::Accept`] independently, and continues at `end`.
    Atomic { end: usize },
    /// Like `Atomic`, but takes no characters; begins `back` characters earlier.
    Look { back: u64, negated: bool, end: usize },
    /// Takes the text of a group again.
    Backref { group: usize, ignore_case: bool },
    /// Continues at `otherwise` if a group took no part.
    Condition { group: usize, otherwise: usize },
    /// The end of the pattern, or of an independent part.
    Accept,
}

/// The decision of a loop to iterate or to end.
#[derive(Debug)]
pub(crate) struct LoopStep {
    /// The slot that counts the iterations.
    pub(crate) count: usize,
    /// The slot with the start of the last iteration.
    pub(crate) last: usize,
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) lazy: bool,
    /// The step after the loop.
    pub(crate) exit: usize,
}

/// One kind of character.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CharMatcher {
    Character(char),
    Any,
    AnyButNewline,
    Set(Arc<Set>),
}

impl CharMatcher {
    /// Returns whether a character is of this kind.
    pub(crate) fn takes(&self, character: char) -> bool {
        match self {
            Self::Character(expected) => character == *expected,
            Self::Any => true,
            Self::AnyButNewline => character != '\n',
            Self::Set(set) => set.contains(character),
        }
    }
}

/// Compiles a pattern with this many groups.
pub(crate) fn compile(root: &Node, groups: usize) -> Program {
    let mut compiler = Compiler {
        sets: Sets::default(),
        steps: Vec::new(),
        slots: 2 * (groups + 1),
        next_group: 1,
        widths: vec![Width::UNKNOWN; groups],
    };
    compiler.node(root, false);
    compiler.steps.push(Step::Accept);
    let mut first_bytes = Box::new([false; 256]);
    let may_be_empty = compiler.sets.first(root, false, &mut first_bytes);
    let word = ClassItem::Category { kind: Category::Word, negated: false, ascii: false };
    Program {
        steps: compiler.steps,
        slots: compiler.slots,
        word: compiler.sets.read(translate::write_class(false, &[word])),
        first_bytes: (!may_be_empty).then_some(first_bytes),
    }
}

/// The sets of a pattern, each read once: reading all letters of all scripts takes its time.
#[derive(Default)]
struct Sets(HashMap<String, Arc<Set>>);

impl Sets {
    fn read(&mut self, written: String) -> Arc<Set> {
        self.0.entry(written).or_insert_with_key(|written| Arc::new(Set::read(written))).clone()
    }

    /// Returns the kind of character that a part takes, when it takes just one.
    fn one(&mut self, node: &Node, ignore_case: bool) -> Option<CharMatcher> {
        Some(match node {
            Node::Literal(character) if ignore_case => {
                let mut written = String::from("(?i:");
                translate::write_literal(*character, &mut written);
                CharMatcher::Set(self.read(written + ")"))
            }
            Node::Literal(character) => CharMatcher::Character(*character),
            Node::Any { newline: true } => CharMatcher::Any,
            Node::Any { newline: false } => CharMatcher::AnyButNewline,
            Node::Class { negated, items } => {
                let written = translate::write_class(*negated, items);
                CharMatcher::Set(self.read(if ignore_case { format!("(?i:{written})") } else { written }))
            }
            _ => return None,
        })
    }

    /// Collects the bytes that a match of a part can begin with, and returns whether it may be empty.
    fn first(&mut self, node: &Node, ignore_case: bool, bytes: &mut [bool; 256]) -> bool {
        if let Some(one) = self.one(node, ignore_case) {
            let beyond = match &one {
                CharMatcher::Character(character) => !character.is_ascii(),
                CharMatcher::Any | CharMatcher::AnyButNewline => true,
                CharMatcher::Set(set) => set.has_others(),
            };
            for byte in 0..=255u8 {
                bytes[usize::from(byte)] |= if byte < 128 { one.takes(byte.into()) } else { beyond };
            }
            return false;
        }
        match node {
            Node::Concat(nodes) => nodes.iter().all(|node| self.first(node, ignore_case, bytes)),
            // No branch may be skipped: each adds its bytes.
            Node::Alternation(branches) => {
                let empty: Vec<bool> = branches.iter().map(|branch| self.first(branch, ignore_case, bytes)).collect();
                empty.contains(&true)
            }
            Node::Repeat { node, min, .. } => self.first(node, ignore_case, bytes) || *min == 0,
            Node::Capture(node) | Node::Atomic(node) => self.first(node, ignore_case, bytes),
            Node::IgnoreCase { on, node } => self.first(node, *on, bytes),
            Node::Conditional { yes, no, .. } => {
                let (yes, no) = (self.first(yes, ignore_case, bytes), self.first(no, ignore_case, bytes));
                yes || no
            }
            // Its group may be in a look-ahead, and take anything.
            Node::Backref(_) => {
                bytes.fill(true);
                true
            }
            Node::Empty
            | Node::Anchor(_)
            | Node::Look { .. }
            | Node::Literal(_)
            | Node::Any { .. }
            | Node::Class { .. } => true,
        }
    }
}

struct Compiler {
    sets: Sets,
    steps: Vec<Step>,
    slots: usize,
    next_group: usize,
    widths: Vec<Width>,
}

impl Compiler {
    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    /// Adds a step whose target is not known yet, and returns its index.
    fn hole(&mut self) -> usize {
        self.steps.push(Step::Jump(0));
        self.steps.len() - 1
    }

    fn node(&mut self, node: &Node, ignore_case: bool) {
        if let Some(one) = self.sets.one(node, ignore_case) {
            self.steps.push(Step::One(one));
            return;
        }
        match node {
            Node::Empty | Node::Literal(_) | Node::Any { .. } | Node::Class { .. } => {}
            Node::Anchor(anchor) => self.steps.push(Step::Anchor(*anchor)),
            Node::Concat(nodes) => nodes.iter().for_each(|node| self.node(node, ignore_case)),
            Node::Alternation(branches) => self.alternation(branches, ignore_case),
            Node::Repeat { node, min, max, mode } => {
                let max = max.unwrap_or(u32::MAX);
                match (self.sets.one(node, ignore_case), mode) {
                    (Some(one), mode) => self.steps.push(Step::Many { one, min: *min, max, mode: *mode }),
                    (None, RepeatMode::Possessive) => {
                        self.alone(
                            |end| Step::Atomic { end },
                            |this| {
                                this.repeat(node, *min, max, false, ignore_case);
                            },
                        );
                    }
                    (None, mode) => self.repeat(node, *min, max, *mode == RepeatMode::Lazy, ignore_case),
                }
            }
            Node::Capture(node) => {
                let group = self.next_group;
                self.next_group += 1;
                self.steps.push(Step::Save(2 * group));
                self.node(node, ignore_case);
                self.steps.push(Step::Save(2 * group + 1));
                self.widths[group - 1] = Width::from_node(node, &self.widths);
            }
            Node::IgnoreCase { on, node } => self.node(node, *on),
            Node::Atomic(node) => self.alone(|end| Step::Atomic { end }, |this| this.node(node, ignore_case)),
            Node::Look { behind, negated, node } => {
                // The parser accepts only look-behinds of one width.
                let back = if *behind { Width::from_node(node, &self.widths).min_width } else { 0 };
                let negated = *negated;
                self.alone(|end| Step::Look { back, negated, end }, |this| this.node(node, ignore_case));
            }
            Node::Backref(group) => self.steps.push(Step::Backref { group: *group, ignore_case }),
            Node::Conditional { group, yes, no } => {
                let condition = self.hole();
                self.node(yes, ignore_case);
                let leave = self.hole();
                self.steps[condition] = Step::Condition { group: *group, otherwise: self.steps.len() };
                self.node(no, ignore_case);
                self.steps[leave] = Step::Jump(self.steps.len());
            }
        }
    }

    fn alternation(&mut self, branches: &[Node], ignore_case: bool) {
        let mut leave = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            if index + 1 == branches.len() {
                self.node(branch, ignore_case);
            } else {
                let split = self.hole();
                self.node(branch, ignore_case);
                leave.push(self.hole());
                self.steps[split] = Step::Split { first: split + 1, second: self.steps.len() };
            }
        }
        for jump in leave {
            self.steps[jump] = Step::Jump(self.steps.len());
        }
    }

    fn repeat(&mut self, node: &Node, min: u32, max: u32, lazy: bool, ignore_case: bool) {
        let (count, last) = (self.slot(), self.slot());
        self.steps.push(Step::Enter { count, last });
        let head = self.hole();
        self.node(node, ignore_case);
        self.steps.push(Step::Jump(head));
        self.steps[head] = Step::Loop(LoopStep { count, last, min, max, lazy, exit: self.steps.len() });
    }

    /// Compiles an independent part.
    fn alone(&mut self, begin: impl FnOnce(usize) -> Step, part: impl FnOnce(&mut Self)) {
        let hole = self.hole();
        part(self);
        self.steps.push(Step::Accept);
        self.steps[hole] = begin(self.steps.len());
    }
}
