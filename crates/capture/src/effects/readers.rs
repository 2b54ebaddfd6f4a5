//! Parts of a typed line that other shells parse differently from a bash script: history expansion, comments and
//! quotes.
//!
//! An interactive shell expands `!!` before it parses the line, an interactive zsh executes the text after a `#`, and
//! fish treats `\'` inside single quotes as an escaped quote.

use std::collections::VecDeque;
use std::ops::Range;

/// Parts of a line with a different meaning in other shells.
#[derive(Debug, Default)]
pub(super) struct OtherReadings {
    /// True if an interactive shell replaces a part of the line with an earlier one.
    pub(super) has_history_expansion: bool,
    /// True if fish ends a quoted text elsewhere than bash, and more text follows.
    pub(super) has_ambiguous_quotes: bool,
    /// Ranges of the comments, each from its `#` to the end of the line.
    comments: Vec<Range<usize>>,
}

impl OtherReadings {
    pub(super) fn from_line(line: &str) -> Self {
        let nested = Scanner::scan(line, true);
        // History expansion does not parse nested commands: a single quote inside double quotes is literal.
        let flat = Scanner::scan(line, false);
        Self { has_history_expansion: flat.has_history_expansion, ..nested }
    }

    /// Returns the commands that a shell without comments executes in the comments of a line.
    ///
    /// Words before the first separator are arguments in such a shell; here they become arguments of `true`.
    pub(super) fn commands_in_comments(&self, line: &str) -> Option<String> {
        let commands = self.comments.iter().map(|range| format!("true {}", escape_comment(&line[range.clone()])));
        Some(commands.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    }

    /// Returns the line with its comments escaped, as a shell without comments parses it.
    pub(super) fn escape_comments(&self, line: &str) -> String {
        let (mut text, mut end) = (String::new(), 0);
        for range in &self.comments {
            text.push_str(&line[end..range.start]);
            text.push_str(&escape_comment(&line[range.clone()]));
            end = range.end;
        }
        text + &line[end..]
    }
}

/// Escapes each `#` at the start of a word, so that the comment is parsed as words.
fn escape_comment(comment: &str) -> String {
    // In zsh, parentheses in arguments are a pattern unless they begin a nested command.
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

/// Quoting of a character of a line.
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
    /// Quoting of the line and of each open nested command.
    quoting_stack: Vec<Quoting>,
    /// True to track the quoting of nested commands.
    tracks_nesting: bool,
    /// Delimiters of the here-documents that start after this line, in order.
    heredoc_delimiters: VecDeque<String>,
}

impl Scanner {
    fn scan(text: &str, tracks_nesting: bool) -> OtherReadings {
        let mut scanner = Self {
            readings: OtherReadings::default(),
            quoting_stack: vec![Quoting::Unquoted],
            tracks_nesting,
            heredoc_delimiters: VecDeque::new(),
        };
        let mut start = 0;
        for line in text.split_inclusive(['\n', '\r']) {
            let is_unquoted = scanner.quoting() == Quoting::Unquoted;
            match scanner.heredoc_delimiters.front().filter(|_| is_unquoted) {
                Some(delimiter) if line.trim() == delimiter => drop(scanner.heredoc_delimiters.pop_front()),
                Some(_) => {
                    // Of all these readings, only history expansion applies to a here-document.
                    let has_expansion = Self::scan(line, false).has_history_expansion && !line.starts_with("#!");
                    scanner.readings.has_history_expansion |= has_expansion;
                }
                None => scanner.scan_line(text, start..start + line.len()),
            }
            start += line.len();
        }
        scanner.readings
    }

    fn quoting(&self) -> Quoting {
        self.quoting_stack.last().copied().unwrap_or(Quoting::Unquoted)
    }

    fn set_quoting(&mut self, quoting: Quoting) {
        if let Some(last) = self.quoting_stack.last_mut() {
            *last = quoting;
        }
    }

    fn scan_line(&mut self, text: &str, range: Range<usize>) {
        let line = &text[range.clone()];
        self.readings.has_history_expansion |= line.starts_with('^');
        let mut characters = line.char_indices().peekable();
        let (mut before_last, mut before) = (' ', ' ');
        while let Some((index, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            match (self.quoting(), character) {
                (Quoting::Single, '\'') => {
                    let backslashes =
                        text[..range.start + index].bytes().rev().take_while(|byte| *byte == b'\\').count();
                    let is_followed = !text[range.start + index + 1..].trim().is_empty();
                    self.readings.has_ambiguous_quotes |= backslashes % 2 == 1 && is_followed;
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
                (Quoting::Double | Quoting::Unquoted, '(') if self.tracks_nesting && before == '$' => {
                    self.quoting_stack.push(Quoting::Unquoted);
                }
                (Quoting::Double, _) => {}
                (Quoting::Unquoted, '(') if self.tracks_nesting => self.quoting_stack.push(Quoting::Unquoted),
                (Quoting::Unquoted, ')') if self.quoting_stack.len() > 1 => drop(self.quoting_stack.pop()),
                (Quoting::Unquoted, '\'') if before == '$' => self.set_quoting(Quoting::Escaped),
                (Quoting::Unquoted, '\'') => self.set_quoting(Quoting::Single),
                (Quoting::Unquoted, '"') => self.set_quoting(Quoting::Double),
                (Quoting::Unquoted, '#') if is_word_start(before) => {
                    if !line[index..].starts_with("#!") || index > 0 {
                        let comment = line[index..].trim_end_matches(['\n', '\r']);
                        self.readings.comments.push(range.start + index..range.start + index + comment.len());
                        self.readings.has_history_expansion |=
                            Self::scan(comment.trim_start_matches('#'), false).has_history_expansion;
                    }
                    return;
                }
                (Quoting::Unquoted, '<') if before == '<' && before_last != '<' && next != Some('<') => {
                    // In arithmetic, `<<` shifts a number.
                    let is_arithmetic = line[..index].rfind("((") > line[..index].rfind("))");
                    if !is_arithmetic {
                        self.heredoc_delimiters.extend(heredoc_delimiter(&line[index + 1..]));
                    }
                }
                (Quoting::Unquoted, _) => {}
            }
            (before_last, before) = (before, character);
        }
    }
}

/// Returns the delimiter of a here-document, from the text after `<<`.
fn heredoc_delimiter(text: &str) -> Option<String> {
    let word = text.trim_start_matches('-').trim_start_matches([' ', '\t']);
    let end = word.find(|character| is_word_start(character) || character == '\n').unwrap_or(word.len());
    let name = word[..end].replace(['\'', '"', '\\'], "");
    Some(name).filter(|name| !name.is_empty())
}
