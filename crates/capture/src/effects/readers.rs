//! Parts of a typed line that not every shell reads as a script in bash does: history expansion, comments and quotes.
//!
//! An interactive shell expands `!!` before it reads the line, zsh runs the text after a `#`, and fish reads `\'` inside
//! single quotes as a quote.

use std::collections::VecDeque;
use std::ops::Range;

/// Parts of a line with another meaning for another reader.
#[derive(Debug, Default)]
pub(super) struct OtherReadings {
    /// True if an interactive shell replaces a part by an earlier line.
    pub(super) has_history_expansion: bool,
    /// True if a quoted text ends elsewhere in fish, and more text follows it.
    pub(super) has_other_quotes: bool,
    /// The comments, each from its `#` to the end of its line.
    comments: Vec<Range<usize>>,
}

impl OtherReadings {
    pub(super) fn of_line(line: &str) -> Self {
        let nested = Scanner::scan(line, true);
        // The expansion of the history reads no nested commands: in double quotes, a single quote is text.
        let flat = Scanner::scan(line, false);
        Self { has_history_expansion: flat.has_history_expansion, ..nested }
    }

    /// Returns the commands in the comments of a line. A shell without comments reads the text up to the first
    /// separator as arguments.
    pub(super) fn commands_in_comments(&self, line: &str) -> Option<String> {
        let commands = self.comments.iter().map(|range| format!("true {}", without_comment(&line[range.clone()])));
        Some(commands.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    }

    /// Returns the line for a shell without comments.
    pub(super) fn line_without_comments(&self, line: &str) -> String {
        let (mut text, mut end) = (String::new(), 0);
        for range in &self.comments {
            text.push_str(&line[end..range.start]);
            text.push_str(&without_comment(&line[range.clone()]));
            end = range.end;
        }
        text + &line[end..]
    }
}

/// Returns a comment as words: each `#` at the start of a word is quoted.
fn without_comment(comment: &str) -> String {
    // Elsewhere, parentheses in arguments are a pattern of zsh.
    let has_commands = ["$(", "<(", ">(", "=("].iter().any(|start| comment.contains(start));
    let (mut text, mut before) = (String::new(), ' ');
    for character in comment.chars() {
        if character == '#' && is_word_start(before) || "()".contains(character) && !has_commands {
            text.push('\\');
        }
        text.push(character);
        before = character;
    }
    text
}

fn is_word_start(before: char) -> bool {
    before.is_whitespace() || ";&|()<>".contains(before)
}

/// Quoting at a place of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Unquoted,
    Single,
    /// `$'…'`
    Escaped,
    Double,
}

struct Scanner {
    readings: OtherReadings,
    /// Quoting of the line and of the nested commands that are open.
    quoting: Vec<Quoting>,
    is_nested: bool,
    /// Ends of the here-documents that begin after the line.
    heredocs: VecDeque<String>,
}

impl Scanner {
    fn scan(text: &str, is_nested: bool) -> OtherReadings {
        let mut scanner = Self {
            readings: OtherReadings::default(),
            quoting: vec![Quoting::Unquoted],
            is_nested,
            heredocs: VecDeque::new(),
        };
        let mut start = 0;
        for line in text.split_inclusive(['\n', '\r']) {
            let is_unquoted = scanner.quoting() == Quoting::Unquoted;
            match scanner.heredocs.front().filter(|_| is_unquoted) {
                Some(end) if line.trim() == end => drop(scanner.heredocs.pop_front()),
                Some(_) => {
                    // Only the expansion of the history reads a here-document.
                    let body = Self::scan(line, false).has_history_expansion && !line.starts_with("#!");
                    scanner.readings.has_history_expansion |= body;
                }
                None => scanner.scan_line(text, start..start + line.len()),
            }
            start += line.len();
        }
        scanner.readings
    }

    fn quoting(&self) -> Quoting {
        self.quoting.last().copied().unwrap_or(Quoting::Unquoted)
    }

    fn set_quoting(&mut self, quoting: Quoting) {
        if let Some(last) = self.quoting.last_mut() {
            *last = quoting;
        }
    }

    fn scan_line(&mut self, text: &str, range: Range<usize>) {
        let line = &text[range.clone()];
        self.readings.has_history_expansion |= line.starts_with('^');
        let mut characters = line.char_indices().peekable();
        let (mut before_last, mut before) = (' ', ' ');
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            match (self.quoting(), character) {
                (Quoting::Single, '\'') => {
                    let backslashes = text[..range.start + at].bytes().rev().take_while(|byte| *byte == b'\\').count();
                    let is_followed = !text[range.start + at + 1..].trim().is_empty();
                    self.readings.has_other_quotes |= backslashes % 2 == 1 && is_followed;
                    self.set_quoting(Quoting::Unquoted);
                }
                (Quoting::Single, _) => {}
                (_, '\\') => {
                    characters.next();
                    (before_last, before) = (' ', 'x');
                    continue;
                }
                (Quoting::Escaped, '\'') | (Quoting::Double, '"') => self.set_quoting(Quoting::Unquoted),
                (Quoting::Escaped, _) => {}
                (quoting, '!') => {
                    let is_text = next.is_none_or(|next| next.is_whitespace() || "=(".contains(next))
                        || next == Some('"') && quoting == Quoting::Double
                        || before == '$'
                        || before == '['
                        || before == '{' && before_last == '$';
                    self.readings.has_history_expansion |= !is_text;
                }
                (Quoting::Double | Quoting::Unquoted, '(') if self.is_nested && before == '$' => {
                    self.quoting.push(Quoting::Unquoted);
                }
                (Quoting::Double, _) => {}
                (Quoting::Unquoted, '(') if self.is_nested => self.quoting.push(Quoting::Unquoted),
                (Quoting::Unquoted, ')') if self.quoting.len() > 1 => drop(self.quoting.pop()),
                (Quoting::Unquoted, '\'') if before == '$' => self.set_quoting(Quoting::Escaped),
                (Quoting::Unquoted, '\'') => self.set_quoting(Quoting::Single),
                (Quoting::Unquoted, '"') => self.set_quoting(Quoting::Double),
                (Quoting::Unquoted, '#') if is_word_start(before) => {
                    if !line[at..].starts_with("#!") || at > 0 {
                        let comment = line[at..].trim_end_matches(['\n', '\r']);
                        self.readings.comments.push(range.start + at..range.start + at + comment.len());
                        self.readings.has_history_expansion |=
                            Self::scan(comment.trim_start_matches('#'), false).has_history_expansion;
                    }
                    return;
                }
                (Quoting::Unquoted, '<') if before == '<' && before_last != '<' && next != Some('<') => {
                    // In arithmetic, it shifts a number.
                    let is_arithmetic = line[..at].rfind("((") > line[..at].rfind("))");
                    if !is_arithmetic {
                        self.heredocs.extend(heredoc_end(&line[at + 1..]));
                    }
                }
                (Quoting::Unquoted, _) => {}
            }
            (before_last, before) = (before, character);
        }
    }
}

/// Returns the word that ends a here-document, from the text after `<<`.
fn heredoc_end(text: &str) -> Option<String> {
    let word = text.trim_start_matches('-').trim_start_matches([' ', '\t']);
    let end = word.find(|character| is_word_start(character) || character == '\n').unwrap_or(word.len());
    let name = word[..end].replace(['\'', '"', '\\'], "");
    Some(name).filter(|name| !name.is_empty())
}
