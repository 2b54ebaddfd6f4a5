//! Parsed patterns, compiled to instructions for the backtracking engine.

use std::collections::HashMap;
use std::sync::Arc;

use crate::set::Set;
use crate::syntax::{Anchor, Category, ClassItem, Node, RepeatMode, Width};
use crate::translate;

/// A pattern as a list of instructions. A run begins at the first one.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    /// Number of slots for positions and counts. The first slots are the bounds of the groups, group 0 first.
    pub(crate) slot_count: usize,
    /// The word characters, for `\b`.
    pub(crate) word: Arc<Set>,
    /// The bytes that can begin a match; `None` if a match may be empty.
    pub(crate) first_bytes: Option<Box<[bool; 256]>>,
}

/// One instruction. The next instruction follows unless the step names a target.
#[derive(Debug)]
pub(crate) enum Step {
    /// Matches one character.
    One(CharMatcher),
    /// Matches a repetition of one kind of character.
    Many { matcher: CharMatcher, min: u32, max: u32, mode: RepeatMode },
    /// Requires a kind of position.
    Anchor(Anchor),
    /// Continues at `first`, and at `second` if that fails.
    Split { first: usize, second: usize },
    /// Continues at another step.
    Jump(usize),
    /// Saves the position in a slot.
    Save(usize),
    /// Begins a loop: resets its slots.
    Enter { count_slot: usize, start_slot: usize },
    /// Starts the next iteration of a loop, or leaves the loop.
    Loop(LoopStep),
    /// Runs the next steps up to their [`Step::Accept`] independently, and continues at `end`.
    Atomic { end: usize },
    /// Like `Atomic`, but consumes no characters, and begins `back` characters earlier.
    Look { back: u64, negated: bool, end: usize },
    /// Matches the text of a group again.
    Backref { group: usize, ignore_case: bool },
    /// Continues at `otherwise` if a group did not match.
    Condition { group: usize, otherwise: usize },
    /// The end of the pattern, or of an independent part.
    Accept,
}

/// The head of a loop: iterates or ends the loop.
#[derive(Debug)]
pub(crate) struct LoopStep {
    /// The slot that counts the iterations.
    pub(crate) count_slot: usize,
    /// The slot with the start of the last optional iteration.
    pub(crate) start_slot: usize,
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
    pub(crate) fn matches(&self, character: char) -> bool {
        match self {
            Self::Character(expected) => character == *expected,
            Self::Any => true,
            Self::AnyButNewline => character != '\n',
            Self::Set(set) => set.contains(character),
        }
    }
}

/// Compiles a pattern with `group_count` groups.
pub(crate) fn compile(root: &Node, group_count: usize) -> Program {
    let mut compiler = Compiler {
        sets: Sets::default(),
        steps: Vec::new(),
        slot_count: 2 * (group_count + 1),
        next_group: 1,
        widths: vec![Width::UNKNOWN; group_count],
    };
    compiler.compile_node(root, false);
    compiler.steps.push(Step::Accept);
    let mut first_bytes = Box::new([false; 256]);
    let may_be_empty = compiler.sets.collect_first_bytes(root, false, &mut first_bytes);
    let word = ClassItem::Category { kind: Category::Word, negated: false, ascii: false };
    Program {
        steps: compiler.steps,
        slot_count: compiler.slot_count,
        word: compiler.sets.get_or_parse(translate::write_class(false, &[word])),
        first_bytes: (!may_be_empty).then_some(first_bytes),
    }
}

/// The sets of a pattern by their notation. Each set is parsed only once, because parsing the letters of all scripts is
/// slow.
#[derive(Default)]
struct Sets(HashMap<String, Arc<Set>>);

impl Sets {
    fn get_or_parse(&mut self, notation: String) -> Arc<Set> {
        self.0.entry(notation).or_insert_with_key(|notation| Arc::new(Set::parse(notation))).clone()
    }

    /// Returns the kind of character that a part matches, if the part always matches a single one.
    fn char_matcher(&mut self, node: &Node, ignore_case: bool) -> Option<CharMatcher> {
        Some(match node {
            Node::Literal(character) if ignore_case => {
                let mut notation = String::from("(?i:");
                translate::write_literal(*character, &mut notation);
                CharMatcher::Set(self.get_or_parse(notation + ")"))
            }
            Node::Literal(character) => CharMatcher::Character(*character),
            Node::Any { newline: true } => CharMatcher::Any,
            Node::Any { newline: false } => CharMatcher::AnyButNewline,
            Node::Class { negated, items } => {
                let notation = translate::write_class(*negated, items);
                CharMatcher::Set(self.get_or_parse(if ignore_case { format!("(?i:{notation})") } else { notation }))
            }
            _ => return None,
        })
    }

    /// Adds the bytes that can begin a match of a part and returns whether such a match may be empty.
    fn collect_first_bytes(&mut self, node: &Node, ignore_case: bool, bytes: &mut [bool; 256]) -> bool {
        if let Some(matcher) = self.char_matcher(node, ignore_case) {
            let matches_non_ascii = match &matcher {
                CharMatcher::Character(character) => !character.is_ascii(),
                CharMatcher::Any | CharMatcher::AnyButNewline => true,
                CharMatcher::Set(set) => set.has_non_ascii(),
            };
            for byte in 0..=255u8 {
                bytes[usize::from(byte)] |= if byte < 128 { matcher.matches(byte.into()) } else { matches_non_ascii };
            }
            return false;
        }
        match node {
            Node::Concat(nodes) => nodes.iter().all(|node| self.collect_first_bytes(node, ignore_case, bytes)),
            // Collect before the check, because each branch must add its bytes.
            Node::Alternation(branches) => {
                let may_be_empty: Vec<bool> =
                    branches.iter().map(|branch| self.collect_first_bytes(branch, ignore_case, bytes)).collect();
                may_be_empty.contains(&true)
            }
            Node::Repeat { node, min, .. } => self.collect_first_bytes(node, ignore_case, bytes) || *min == 0,
            Node::Capture(node) | Node::Atomic(node) => self.collect_first_bytes(node, ignore_case, bytes),
            Node::IgnoreCase { on, node } => self.collect_first_bytes(node, *on, bytes),
            Node::Conditional { yes, no, .. } => {
                let (yes, no) = (
                    self.collect_first_bytes(yes, ignore_case, bytes),
                    self.collect_first_bytes(no, ignore_case, bytes),
                );
                yes || no
            }
            // The group may be in a look-ahead, so its text may begin with any byte.
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
    slot_count: usize,
    next_group: usize,
    widths: Vec<Width>,
}

impl Compiler {
    fn new_slot(&mut self) -> usize {
        self.slot_count += 1;
        self.slot_count - 1
    }

    /// Adds a placeholder for a step whose target is not known yet and returns its index.
    fn add_placeholder(&mut self) -> usize {
        self.steps.push(Step::Jump(0));
        self.steps.len() - 1
    }

    fn compile_node(&mut self, node: &Node, ignore_case: bool) {
        if let Some(matcher) = self.sets.char_matcher(node, ignore_case) {
            self.steps.push(Step::One(matcher));
            return;
        }
        match node {
            Node::Empty | Node::Literal(_) | Node::Any { .. } | Node::Class { .. } => {}
            Node::Anchor(anchor) => self.steps.push(Step::Anchor(*anchor)),
            Node::Concat(nodes) => nodes.iter().for_each(|node| self.compile_node(node, ignore_case)),
            Node::Alternation(branches) => self.compile_alternation(branches, ignore_case),
            Node::Repeat { node, min, max, mode } => {
                let max = max.unwrap_or(u32::MAX);
                match (self.sets.char_matcher(node, ignore_case), mode) {
                    (Some(matcher), mode) => self.steps.push(Step::Many { matcher, min: *min, max, mode: *mode }),
                    (None, RepeatMode::Possessive) => {
                        self.compile_independent(
                            |end| Step::Atomic { end },
                            |this| {
                                this.compile_repeat(node, *min, max, false, ignore_case);
                            },
                        );
                    }
                    (None, mode) => self.compile_repeat(node, *min, max, *mode == RepeatMode::Lazy, ignore_case),
                }
            }
            Node::Capture(node) => {
                let group = self.next_group;
                self.next_group += 1;
                self.steps.push(Step::Save(2 * group));
                self.compile_node(node, ignore_case);
                self.steps.push(Step::Save(2 * group + 1));
                self.widths[group - 1] = Width::from_node(node, &self.widths);
            }
            Node::IgnoreCase { on, node } => self.compile_node(node, *on),
            Node::Atomic(node) => {
                self.compile_independent(|end| Step::Atomic { end }, |this| this.compile_node(node, ignore_case));
            }
            Node::Look { behind, negated, node } => {
                // The parser accepts only look-behinds of a fixed width.
                let back = if *behind { Width::from_node(node, &self.widths).min_width } else { 0 };
                let negated = *negated;
                self.compile_independent(
                    |end| Step::Look { back, negated, end },
                    |this| this.compile_node(node, ignore_case),
                );
            }
            Node::Backref(group) => self.steps.push(Step::Backref { group: *group, ignore_case }),
            Node::Conditional { group, yes, no } => {
                let condition = self.add_placeholder();
                self.compile_node(yes, ignore_case);
                let end_jump = self.add_placeholder();
                self.steps[condition] = Step::Condition { group: *group, otherwise: self.steps.len() };
                self.compile_node(no, ignore_case);
                self.steps[end_jump] = Step::Jump(self.steps.len());
            }
        }
    }

    fn compile_alternation(&mut self, branches: &[Node], ignore_case: bool) {
        let mut end_jumps = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            if index + 1 == branches.len() {
                self.compile_node(branch, ignore_case);
            } else {
                let split = self.add_placeholder();
                self.compile_node(branch, ignore_case);
                end_jumps.push(self.add_placeholder());
                self.steps[split] = Step::Split { first: split + 1, second: self.steps.len() };
            }
        }
        for jump in end_jumps {
            self.steps[jump] = Step::Jump(self.steps.len());
        }
    }

    fn compile_repeat(&mut self, node: &Node, min: u32, max: u32, lazy: bool, ignore_case: bool) {
        let (count_slot, start_slot) = (self.new_slot(), self.new_slot());
        self.steps.push(Step::Enter { count_slot, start_slot });
        let head = self.add_placeholder();
        self.compile_node(node, ignore_case);
        self.steps.push(Step::Jump(head));
        self.steps[head] = Step::Loop(LoopStep { count_slot, start_slot, min, max, lazy, exit: self.steps.len() });
    }

    /// Compiles an independent part: `first_step` makes its first step from the index of its end.
    fn compile_independent(&mut self, first_step: impl FnOnce(usize) -> Step, compile_part: impl FnOnce(&mut Self)) {
        let placeholder = self.add_placeholder();
        compile_part(self);
        self.steps.push(Step::Accept);
        self.steps[placeholder] = first_step(self.steps.len());
    }
}
