//! The parser of patterns, by the rules of Python's `re`.
//!
//! The parser follows CPython's `re._parser` (3.11): it accepts the same patterns, and refuses the others at the same
//! position. Flags are resolved while parsing: the tree keeps only the flag "ignore case". Source:
//! <https://github.com/python/cpython/blob/3.11/Lib/re/_parser.py>.

use std::ops::Range;

/// A parsed pattern.
#[derive(Debug)]
pub(crate) struct Syntax {
    /// The whole pattern.
    pub(crate) root: Node,
    /// The name of each group, group 1 first.
    pub(crate) names: Vec<Option<String>>,
    /// The flags of the whole pattern.
    pub(crate) flags: Flags,
    /// The end of the flags of the whole pattern, in characters from its start.
    pub(crate) flags_end: usize,
    /// The ranges of the branches of each alternation, in characters. Alternations are in the order of their ends, so
    /// the whole pattern is last. A single branch is also an alternation.
    pub(crate) alternations: Vec<Vec<Range<usize>>>,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// The empty string.
    Empty,
    /// One character.
    Literal(char),
    /// Any character; with `newline`, a line feed too.
    Any { newline: bool },
    /// One character of a set.
    Class { negated: bool, items: Vec<ClassItem> },
    /// A position between characters.
    Anchor(Anchor),
    /// A sequence.
    Concat(Vec<Node>),
    /// The first branch that leads to a match.
    Alternation(Vec<Node>),
    /// A repetition.
    Repeat { node: Box<Node>, min: u32, max: Option<u32>, mode: RepeatMode },
    /// A capturing group. Numbers follow the order in the pattern.
    Capture(Box<Node>),
    /// A part that ignores case if `on`.
    IgnoreCase { on: bool, node: Box<Node> },
    /// A part that is not backtracked into after its match.
    Atomic(Box<Node>),
    /// Look-ahead or look-behind.
    Look { behind: bool, negated: bool, node: Box<Node> },
    /// A repetition of the text of a group.
    Backref(usize),
    /// The branch `yes` if a group matched, otherwise `no`.
    Conditional { group: usize, yes: Box<Node>, no: Box<Node> },
}

/// An entry of a set of characters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClassItem {
    /// From one character to another, both included.
    Range(char, char),
    /// A letter class, such as `\d`.
    Category { kind: Category, negated: bool, ascii: bool },
}

/// A class of characters that a letter denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    /// `\d`
    Digit,
    /// `\s`
    Space,
    /// `\w`
    Word,
}

/// A position between characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// `^`
    LineStart,
    /// `$`
    LineEnd,
    /// `\A`, and `^` without the flag `m`
    TextStart,
    /// `\Z`
    TextEnd,
    /// `$` without the flag `m`: a line feed at the very end may follow.
    TextEndOrLastNewline,
    /// `\b`, `\B`
    WordBoundary { negated: bool, ascii: bool },
}

/// A repetition's order of trying its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatMode {
    /// As many as possible first.
    Greedy,
    /// As few as possible first.
    Lazy,
    /// As many as possible, without backtracking.
    Possessive,
}

/// A broken rule of the dialect, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Position in characters from the start of the pattern.
    pub(crate) position: usize,
    /// The broken rule, as a fragment.
    pub(crate) reason: String,
}

/// Maximum nesting depth of groups. The limit of the linear engine is 64, and functions recurse over the tree.
const MAX_GROUP_DEPTH: usize = 40;

/// Parses a pattern.
pub(crate) fn parse(source: &str) -> Result<Syntax, SyntaxError> {
    let mut parser = Parser::new(source);
    let mut flags = Flags { multi_line: true, ..Flags::default() };
    let root = parser.parse_alternation(&mut flags, 0, true)?;
    if parser.peek().is_some() {
        return Err(syntax_error(parser.position, "unbalanced parenthesis"));
    }
    if let Some((position, group)) = parser.conditions.iter().find(|(_, group)| *group > parser.names.len()) {
        return Err(syntax_error(*position, format!("invalid group reference {group}")));
    }
    let root = if flags.ignore_case { with_ignore_case(true, root) } else { root };
    let Parser { names, flags_end, alternations, .. } = parser;
    Ok(Syntax { root, names, flags, flags_end, alternations })
}

fn syntax_error(position: usize, reason: impl Into<String>) -> SyntaxError {
    SyntaxError { position, reason: reason.into() }
}

/// The inline flags at a position. The flag "ignore case" of groups is in the tree instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    pub(crate) ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    verbose: bool,
    ascii: bool,
}

struct Parser {
    characters: Vec<char>,
    position: usize,
    names: Vec<Option<String>>,
    /// The numbers of the groups that are not closed yet.
    open_groups: Vec<usize>,
    /// The width of each group; unknown until the group is closed.
    widths: Vec<Width>,
    /// Number of groups before the outermost enclosing look-behind.
    groups_before_look_behind: Option<usize>,
    /// The position and the group number of each condition. The group may follow later in the pattern.
    conditions: Vec<(usize, usize)>,
    flags_end: usize,
    alternations: Vec<Vec<Range<usize>>>,
}

/// The kind of a part. It determines whether a quantifier may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Atom,
    Anchor,
    Repeat,
}

/// Meaning of one escape.
enum Escape {
    Character(char),
    Category(ClassItem),
    Anchor(Anchor),
    Backref(usize),
}

impl Parser {
    fn new(source: &str) -> Self {
        Self {
            characters: source.chars().collect(),
            position: 0,
            names: Vec::new(),
            open_groups: Vec::new(),
            widths: Vec::new(),
            groups_before_look_behind: None,
            conditions: Vec::new(),
            flags_end: 0,
            alternations: Vec::new(),
        }
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.position += usize::from(next.is_some());
        next
    }

    fn accept(&mut self, expected: char) -> bool {
        let accepted = self.peek() == Some(expected);
        self.position += usize::from(accepted);
        accepted
    }

    fn take_while(&mut self, max_chars: usize, is_accepted: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while text.len() < max_chars {
            match self.peek() {
                Some(next) if is_accepted(next) => text.push(next),
                _ => break,
            }
            self.position += 1;
        }
        text
    }

    /// Parses branches up to the closing parenthesis or the end. With `is_whole`, flags of the whole pattern may begin
    /// the first branch.
    fn parse_alternation(&mut self, flags: &mut Flags, depth: usize, is_whole: bool) -> Result<Node, SyntaxError> {
        let mut start = self.position;
        let mut branches = vec![self.parse_branch(flags, depth, is_whole)?];
        let mut ranges = vec![start..self.position];
        while self.accept('|') {
            start = self.position;
            branches.push(self.parse_branch(flags, depth, false)?);
            ranges.push(start..self.position);
        }
        self.alternations.push(ranges);
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternation(branches) })
    }

    fn parse_branch(&mut self, flags: &mut Flags, depth: usize, may_set_flags: bool) -> Result<Node, SyntaxError> {
        let mut nodes: Vec<(Node, PartKind)> = Vec::new();
        while let Some(next) = self.peek() {
            let start = self.position;
            let part = match next {
                '|' | ')' => break,
                ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' if flags.verbose => {
                    self.position += 1;
                    continue;
                }
                '#' if flags.verbose => {
                    while self.next().is_some_and(|skipped| skipped != '\n') {}
                    continue;
                }
                '*' | '+' | '?' => {
                    self.position += 1;
                    let (min, max) = match next {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.parse_repeat(nodes.pop(), min, max, start)?
                }
                '{' => match self.parse_counts(start)? {
                    Some((min, max)) => self.parse_repeat(nodes.pop(), min, max, start)?,
                    None => (Node::Literal('{'), PartKind::Atom),
                },
                '(' => {
                    self.position += 1;
                    match self.parse_group(flags, depth, may_set_flags && nodes.is_empty(), start)? {
                        Some(group) => (group, PartKind::Atom),
                        None => continue,
                    }
                }
                '[' => {
                    self.position += 1;
                    (self.parse_class(*flags, start)?, PartKind::Atom)
                }
                '\\' => match self.parse_escape(*flags, false)? {
                    Escape::Character(character) => (Node::Literal(character), PartKind::Atom),
                    Escape::Category(item) => (Node::Class { negated: false, items: vec![item] }, PartKind::Atom),
                    Escape::Anchor(anchor) => (Node::Anchor(anchor), PartKind::Anchor),
                    Escape::Backref(group) => (Node::Backref(group), PartKind::Atom),
                },
                '.' => {
                    self.position += 1;
                    (Node::Any { newline: flags.dot_all }, PartKind::Atom)
                }
                '^' => {
                    self.position += 1;
                    let anchor = if flags.multi_line { Anchor::LineStart } else { Anchor::TextStart };
                    (Node::Anchor(anchor), PartKind::Anchor)
                }
                '$' => {
                    self.position += 1;
                    let anchor = if flags.multi_line { Anchor::LineEnd } else { Anchor::TextEndOrLastNewline };
                    (Node::Anchor(anchor), PartKind::Anchor)
                }
                literal => {
                    self.position += 1;
                    (Node::Literal(literal), PartKind::Atom)
                }
            };
            nodes.push(part);
        }
        let mut nodes: Vec<Node> =
            nodes.into_iter().map(|(node, _)| node).filter(|node| *node != Node::Empty).collect();
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Concat(nodes),
        })
    }

    /// Parses `{…}` if it is a quantifier. As in Python, any other brace is a literal.
    fn parse_counts(&mut self, start: usize) -> Result<Option<(u32, Option<u32>)>, SyntaxError> {
        self.position += 1;
        if self.peek() == Some('}') {
            return Ok(None);
        }
        let is_digit = |character: char| character.is_ascii_digit();
        let low = self.take_while(usize::MAX, is_digit);
        let high = if self.accept(',') { self.take_while(usize::MAX, is_digit) } else { low.clone() };
        if !self.accept('}') {
            self.position = start + 1;
            return Ok(None);
        }
        let number = |digits: &str| match digits {
            "" => Ok(None),
            digits => digits
                .parse::<u32>()
                .map(Some)
                .map_err(|_| syntax_error(start + 1, "the repetition number is too large")),
        };
        let (min, max) = (number(&low)?.unwrap_or(0), number(&high)?);
        if max.is_some_and(|max| max < min) {
            return Err(syntax_error(start + 1, "min repeat greater than max repeat"));
        }
        Ok(Some((min, max)))
    }

    fn parse_repeat(
        &mut self,
        item: Option<(Node, PartKind)>,
        min: u32,
        max: Option<u32>,
        start: usize,
    ) -> Result<(Node, PartKind), SyntaxError> {
        let node = match item {
            None | Some((_, PartKind::Anchor)) => return Err(syntax_error(start, "nothing to repeat")),
            Some((_, PartKind::Repeat)) => return Err(syntax_error(start, "multiple repeat")),
            Some((node, PartKind::Atom)) => node,
        };
        let mode = if self.accept('?') {
            RepeatMode::Lazy
        } else if self.accept('+') {
            RepeatMode::Possessive
        } else {
            RepeatMode::Greedy
        };
        Ok((repeat_node(node, min, max, mode), PartKind::Repeat))
    }

    /// Parses a group after its opening parenthesis; `None` for a comment, and for flags of the whole pattern.
    fn parse_group(
        &mut self,
        flags: &mut Flags,
        depth: usize,
        may_set_flags: bool,
        start: usize,
    ) -> Result<Option<Node>, SyntaxError> {
        if depth >= MAX_GROUP_DEPTH {
            return Err(syntax_error(start, "groups nested too deeply"));
        }
        let mut inner = *flags;
        if !self.accept('?') {
            return self.parse_capture(None, inner, depth, start).map(Some);
        }
        let kind = self.next().ok_or_else(|| syntax_error(self.position, "unexpected end of pattern"))?;
        let node = match kind {
            'P' if self.accept('<') => {
                let name = self.parse_name('>', "group name")?;
                return self.parse_capture(Some(name), inner, depth, start).map(Some);
            }
            'P' if self.accept('=') => {
                let position = self.position;
                let name = self.parse_name(')', "group name")?;
                let group = self
                    .find_group(&name)
                    .ok_or_else(|| syntax_error(position, format!("unknown group name '{name}'")))?;
                self.check_reference(group, position)?;
                return Ok(Some(Node::Backref(group)));
            }
            'P' => {
                let extension = self.peek().map(String::from).unwrap_or_default();
                return Err(syntax_error(start + 1, format!("unknown extension ?P{extension}")));
            }
            '#' => {
                while let Some(next) = self.next() {
                    if next == ')' {
                        return Ok(None);
                    }
                }
                return Err(syntax_error(start, "missing ), unterminated comment"));
            }
            ':' => self.parse_alternation(&mut inner, depth + 1, false)?,
            '>' => Node::Atomic(Box::new(self.parse_alternation(&mut inner, depth + 1, false)?)),
            '=' | '!' => {
                let node = Box::new(self.parse_alternation(&mut inner, depth + 1, false)?);
                Node::Look { behind: false, negated: kind == '!', node }
            }
            '<' => match self.next() {
                Some(kind @ ('=' | '!')) => self.parse_look_behind(kind == '!', inner, depth, start)?,
                Some(other) => return Err(syntax_error(start + 1, format!("unknown extension ?<{other}"))),
                None => return Err(syntax_error(self.position, "unexpected end of pattern")),
            },
            '(' => self.parse_conditional(inner, depth)?,
            'a' | 'i' | 'L' | 'm' | 's' | 'u' | 'x' | '-' => {
                self.position -= 1;
                match self.parse_flags(&mut inner)? {
                    Scope::Group { ignore_case } => {
                        let node = self.parse_alternation(&mut inner, depth + 1, false)?;
                        match ignore_case {
                            Some(on) => with_ignore_case(on, node),
                            None => node,
                        }
                    }
                    Scope::Whole if may_set_flags => {
                        *flags = inner;
                        self.flags_end = self.position;
                        return Ok(None);
                    }
                    Scope::Whole => return Err(syntax_error(start, "global flags not at the start of the expression")),
                }
            }
            other => return Err(syntax_error(start + 1, format!("unknown extension ?{other}"))),
        };
        self.expect_close(start)?;
        Ok(Some(node))
    }

    fn parse_capture(
        &mut self,
        name: Option<String>,
        mut flags: Flags,
        depth: usize,
        start: usize,
    ) -> Result<Node, SyntaxError> {
        if let Some(duplicate) = name.as_deref().filter(|name| self.find_group(name).is_some()) {
            return Err(syntax_error(start + 4, format!("redefinition of group name '{duplicate}'")));
        }
        self.names.push(name);
        self.widths.push(Width::UNKNOWN);
        let number = self.names.len();
        self.open_groups.push(number);
        let node = self.parse_alternation(&mut flags, depth + 1, false)?;
        self.expect_close(start)?;
        self.open_groups.pop();
        self.widths[number - 1] = Width::from_node(&node, &self.widths);
        Ok(Node::Capture(Box::new(node)))
    }

    fn parse_look_behind(
        &mut self,
        negated: bool,
        mut flags: Flags,
        depth: usize,
        start: usize,
    ) -> Result<Node, SyntaxError> {
        let is_outermost = self.groups_before_look_behind.is_none();
        if is_outermost {
            self.groups_before_look_behind = Some(self.names.len());
        }
        let node = self.parse_alternation(&mut flags, depth + 1, false)?;
        if is_outermost {
            self.groups_before_look_behind = None;
        }
        let width = Width::from_node(&node, &self.widths);
        if Some(width.min_width) == width.max_width {
            Ok(Node::Look { behind: true, negated, node: Box::new(node) })
        } else {
            Err(syntax_error(start, "look-behind requires fixed-width pattern"))
        }
    }

    /// Checks Python's rule for references: the group is closed, and begins before any enclosing look-behind.
    fn check_reference(&self, group: usize, position: usize) -> Result<(), SyntaxError> {
        if self.open_groups.contains(&group) {
            return Err(syntax_error(position, "cannot refer to an open group"));
        }
        match self.groups_before_look_behind {
            Some(group_count) if group > group_count => {
                Err(syntax_error(position, "cannot refer to group defined in the same lookbehind subpattern"))
            }
            _ => Ok(()),
        }
    }

    fn parse_conditional(&mut self, mut flags: Flags, depth: usize) -> Result<Node, SyntaxError> {
        let position = self.position;
        let name = self.take_until(')', "group name")?;
        let group = if is_identifier(&name) {
            self.find_group(&name).ok_or_else(|| syntax_error(position, format!("unknown group name '{name}'")))?
        } else {
            match name.parse::<usize>() {
                Ok(0) => return Err(syntax_error(position, "bad group number")),
                Ok(group) if name.bytes().all(|byte| byte.is_ascii_digit()) => group,
                _ => return Err(syntax_error(position, format!("bad character in group name '{name}'"))),
            }
        };
        if self.groups_before_look_behind.is_some() {
            if group > self.names.len() {
                return Err(syntax_error(position, "cannot refer to an open group"));
            }
            self.check_reference(group, position)?;
        }
        self.conditions.push((position, group));
        let yes = self.parse_branch(&mut flags, depth + 1, false)?;
        let no = if self.accept('|') { self.parse_branch(&mut flags, depth + 1, false)? } else { Node::Empty };
        if self.peek() == Some('|') {
            return Err(syntax_error(self.position, "conditional backref with more than two branches"));
        }
        if yes == Node::Empty && no == Node::Empty {
            return Ok(Node::Empty);
        }
        Ok(Node::Conditional { group, yes: Box::new(yes), no: Box::new(no) })
    }

    fn expect_close(&mut self, start: usize) -> Result<(), SyntaxError> {
        if self.accept(')') { Ok(()) } else { Err(syntax_error(start, "unclosed group")) }
    }

    fn find_group(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.as_deref() == Some(name)).map(|index| index + 1)
    }

    fn parse_name(&mut self, terminator: char, what: &str) -> Result<String, SyntaxError> {
        let position = self.position;
        let name = self.take_until(terminator, what)?;
        if is_identifier(&name) {
            Ok(name)
        } else {
            Err(syntax_error(position, format!("bad character in group name '{name}'")))
        }
    }

    fn take_until(&mut self, terminator: char, what: &str) -> Result<String, SyntaxError> {
        let position = self.position;
        let text = self.take_while(usize::MAX, |character| character != terminator);
        let closed = self.accept(terminator);
        if text.is_empty() {
            Err(syntax_error(position, format!("missing {what}")))
        } else if closed {
            Ok(text)
        } else {
            Err(syntax_error(position, format!("missing {terminator}, unterminated name")))
        }
    }

    /// Parses flags and their end: `)` for the whole pattern, `:` for a group.
    fn parse_flags(&mut self, flags: &mut Flags) -> Result<Scope, SyntaxError> {
        let (mut added, mut removed, mut negative) = (String::new(), String::new(), false);
        loop {
            let position = self.position;
            let expected = if negative { "missing :" } else { "missing -, : or )" };
            match self.next() {
                Some(')') if !negative => break,
                Some(':') if !negative || !removed.is_empty() => break,
                Some('-') if !negative => negative = true,
                Some('a' | 'u' | 'L') if negative => {
                    return Err(syntax_error(position, "bad inline flags: cannot turn off flags 'a', 'u' and 'L'"));
                }
                Some(flag @ ('i' | 'm' | 's' | 'x')) if negative => removed.push(flag),
                Some(flag @ ('a' | 'i' | 'L' | 'm' | 's' | 'u' | 'x')) => {
                    if added.chars().any(|other| other != flag && "auL".contains(other) && "auL".contains(flag)) {
                        return Err(syntax_error(
                            position,
                            "bad inline flags: flags 'a', 'u' and 'L' are incompatible",
                        ));
                    }
                    added.push(flag);
                }
                Some(other) if other.is_alphabetic() => return Err(syntax_error(position, "unknown flag")),
                Some(_) if negative && removed.is_empty() => return Err(syntax_error(position, "missing flag")),
                _ => return Err(syntax_error(position, expected)),
            }
        }
        if let Some(flag) = added.chars().find(|flag| removed.contains(*flag)) {
            return Err(syntax_error(self.position - 1, format!("bad inline flags: flag '{flag}' turned on and off")));
        }
        let is_whole = self.characters[self.position - 1] == ')';
        let mut ignore_case = None;
        for (letters, on) in [(&added, true), (&removed, false)] {
            for letter in letters.chars() {
                match letter {
                    'i' => ignore_case = Some(on),
                    'm' => flags.multi_line = on,
                    's' => flags.dot_all = on,
                    'x' => flags.verbose = on,
                    'a' => flags.ascii = true,
                    'u' => flags.ascii = false,
                    // `L` (locale) is not supported; the pattern still matches text.
                    _ => {}
                }
            }
        }
        if is_whole {
            flags.ignore_case |= ignore_case.is_some();
            return Ok(Scope::Whole);
        }
        Ok(Scope::Group { ignore_case })
    }

    fn parse_class(&mut self, flags: Flags, start: usize) -> Result<Node, SyntaxError> {
        let unclosed = || syntax_error(start, "unterminated character set");
        let negated = self.accept('^');
        let mut items = Vec::new();
        let mut is_first = true;
        loop {
            let position = self.position;
            let from = match self.peek().ok_or_else(unclosed)? {
                ']' if !is_first => {
                    self.position += 1;
                    break;
                }
                _ => self.parse_class_member(flags)?,
            };
            is_first = false;
            if self.peek() != Some('-') {
                items.push(from);
                continue;
            }
            self.position += 1;
            match self.peek().ok_or_else(unclosed)? {
                ']' => {
                    self.position += 1;
                    items.push(from);
                    items.push(ClassItem::Range('-', '-'));
                    break;
                }
                _ => {
                    let to = self.parse_class_member(flags)?;
                    match (from, to) {
                        (ClassItem::Range(low, _), ClassItem::Range(high, _)) if low <= high => {
                            items.push(ClassItem::Range(low, high));
                        }
                        _ => {
                            let range: String = self.characters[position..self.position].iter().collect();
                            return Err(syntax_error(position, format!("bad character range {range}")));
                        }
                    }
                }
            }
        }
        Ok(Node::Class { negated, items })
    }

    fn parse_class_member(&mut self, flags: Flags) -> Result<ClassItem, SyntaxError> {
        if self.peek() == Some('\\') {
            return match self.parse_escape(flags, true)? {
                Escape::Character(character) => Ok(ClassItem::Range(character, character)),
                Escape::Category(item) => Ok(item),
                Escape::Anchor(_) | Escape::Backref(_) => {
                    Err(syntax_error(self.position, "bad escape in a character set"))
                }
            };
        }
        let character = self.next().ok_or_else(|| syntax_error(self.position, "unterminated character set"))?;
        Ok(ClassItem::Range(character, character))
    }

    /// Parses an escape; the parser is at its backslash.
    fn parse_escape(&mut self, flags: Flags, in_class: bool) -> Result<Escape, SyntaxError> {
        let start = self.position;
        self.position += 1;
        let letter = self.next().ok_or_else(|| syntax_error(start, "bad escape (end of pattern)"))?;
        let category = |kind, negated| Ok(Escape::Category(ClassItem::Category { kind, negated, ascii: flags.ascii }));
        let character = |character| Ok(Escape::Character(character));
        match letter {
            'd' | 'D' => category(Category::Digit, letter == 'D'),
            's' | 'S' => category(Category::Space, letter == 'S'),
            'w' | 'W' => category(Category::Word, letter == 'W'),
            'b' if in_class => character('\u{8}'),
            'b' | 'B' if !in_class => {
                Ok(Escape::Anchor(Anchor::WordBoundary { negated: letter == 'B', ascii: flags.ascii }))
            }
            'A' if !in_class => Ok(Escape::Anchor(Anchor::TextStart)),
            // Python 3.14 calls the end `\z` too, as other dialects do.
            'Z' | 'z' if !in_class => Ok(Escape::Anchor(Anchor::TextEnd)),
            'a' => character('\u{7}'),
            'f' => character('\u{c}'),
            'n' => character('\n'),
            'r' => character('\r'),
            't' => character('\t'),
            'v' => character('\u{b}'),
            'x' => self.parse_hexadecimal(start, 2).map(Escape::Character),
            'u' => self.parse_hexadecimal(start, 4).map(Escape::Character),
            'U' => self.parse_hexadecimal(start, 8).map(Escape::Character),
            'N' => Err(syntax_error(start, r"characters by name (\N{…}) are not supported, write \uXXXX")),
            '0'..='9' => self.parse_digits(start, in_class),
            letter if letter.is_ascii_alphabetic() => Err(syntax_error(start, format!("bad escape \\{letter}"))),
            other => character(other),
        }
    }

    fn parse_hexadecimal(&mut self, start: usize, count: usize) -> Result<char, SyntaxError> {
        let digits = self.take_while(count, |character| character.is_ascii_hexdigit());
        let escape_source = || self.characters[start..self.position].iter().collect::<String>();
        if digits.len() != count {
            return Err(syntax_error(start, format!("incomplete escape {}", escape_source())));
        }
        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
        code.ok_or_else(|| syntax_error(start, format!("bad escape {} (no such character)", escape_source())))
    }

    /// Parses an octal escape or a group reference; the number of digits distinguishes them.
    fn parse_digits(&mut self, start: usize, in_class: bool) -> Result<Escape, SyntaxError> {
        let is_octal = |character: char| ('0'..='7').contains(&character);
        self.position = start + 1;
        let leading_zero = self.peek() == Some('0');
        let digits = self.take_while(3, is_octal);
        if leading_zero || digits.len() == 3 || (in_class && !digits.is_empty()) {
            let code = u32::from_str_radix(&digits, 8).ok().filter(|code| *code <= 0o377).and_then(char::from_u32);
            return code
                .map(Escape::Character)
                .ok_or_else(|| syntax_error(start, format!("octal escape value \\{digits} outside of range 0-0o377")));
        }
        self.position = start + 1;
        let digits = self.take_while(2, |character| character.is_ascii_digit());
        if in_class {
            return Err(syntax_error(start, format!("bad escape \\{}", &digits[..1])));
        }
        match digits.parse() {
            Ok(group) if group <= self.names.len() => {
                self.check_reference(group, start)?;
                Ok(Escape::Backref(group))
            }
            _ => Err(syntax_error(start + 1, format!("invalid group reference {digits}"))),
        }
    }
}

/// Minimum and maximum length of a part in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Width {
    pub(crate) min_width: u64,
    /// `None` if the length is unlimited.
    pub(crate) max_width: Option<u64>,
}

impl Width {
    const NOTHING: Self = Self { min_width: 0, max_width: Some(0) };
    const ONE: Self = Self { min_width: 1, max_width: Some(1) };
    pub(crate) const UNKNOWN: Self = Self { min_width: 0, max_width: None };

    pub(crate) fn from_node(node: &Node, groups: &[Self]) -> Self {
        match node {
            Node::Empty | Node::Anchor(_) | Node::Look { .. } => Self::NOTHING,
            Node::Literal(_) | Node::Any { .. } | Node::Class { .. } => Self::ONE,
            Node::Concat(nodes) => {
                nodes.iter().map(|node| Self::from_node(node, groups)).fold(Self::NOTHING, Self::then)
            }
            Node::Alternation(branches) => {
                let widths = branches.iter().map(|branch| Self::from_node(branch, groups));
                widths.reduce(Self::or).unwrap_or(Self::NOTHING)
            }
            Node::Repeat { node, min, max, .. } => {
                let once = Self::from_node(node, groups);
                let max_width = match once.max_width {
                    Some(0) => Some(0),
                    max_width => max_width.zip(*max).map(|(max_width, max)| max_width.saturating_mul(u64::from(max))),
                };
                Self { min_width: once.min_width.saturating_mul(u64::from(*min)), max_width }
            }
            Node::Capture(node) | Node::IgnoreCase { node, .. } | Node::Atomic(node) => Self::from_node(node, groups),
            Node::Backref(group) => groups.get(group - 1).copied().unwrap_or(Self::UNKNOWN),
            Node::Conditional { yes, no, .. } => Self::from_node(yes, groups).or(Self::from_node(no, groups)),
        }
    }

    fn then(self, next: Self) -> Self {
        let max_width = self.max_width.zip(next.max_width).map(|(left, right)| left.saturating_add(right));
        Self { min_width: self.min_width.saturating_add(next.min_width), max_width }
    }

    fn or(self, other: Self) -> Self {
        let max_width = self.max_width.zip(other.max_width).map(|(left, right)| left.max(right));
        Self { min_width: self.min_width.min(other.min_width), max_width }
    }
}

/// The part of a pattern that inline flags apply to.
enum Scope {
    Whole,
    Group { ignore_case: Option<bool> },
}

fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && characters.all(|next| next == '_' || next.is_alphanumeric())
}

fn with_ignore_case(on: bool, node: Node) -> Node {
    if node == Node::Empty { node } else { Node::IgnoreCase { on, node: Box::new(node) } }
}

/// Returns a repetition of a part. A zero-width part is not repeated, because each repetition would give the same
/// result, and the linear engine refuses such a repetition.
fn repeat_node(node: Node, min: u32, max: Option<u32>, mode: RepeatMode) -> Node {
    if !is_zero_width(&node) {
        return Node::Repeat { node: Box::new(node), min, max, mode };
    }
    if min > 0 || node == Node::Empty {
        return node;
    }
    Node::Alternation(if mode == RepeatMode::Lazy { vec![Node::Empty, node] } else { vec![node, Node::Empty] })
}

/// Returns whether a part matches only the empty string and captures nothing.
fn is_zero_width(node: &Node) -> bool {
    match node {
        Node::Empty | Node::Anchor(_) | Node::Look { .. } => true,
        Node::Concat(nodes) | Node::Alternation(nodes) => nodes.iter().all(is_zero_width),
        Node::IgnoreCase { node, .. } | Node::Atomic(node) | Node::Repeat { node, .. } => is_zero_width(node),
        Node::Conditional { yes, no, .. } => is_zero_width(yes) && is_zero_width(no),
        Node::Literal(_) | Node::Any { .. } | Node::Class { .. } | Node::Capture(_) | Node::Backref(_) => false,
    }
}
