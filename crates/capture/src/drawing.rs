//! Rows that a program draws in place: the first row, and the question.
//!
//! A menu consists of all rows since the last entered line: its question, hints, entries and the empty rows between
//! them. If the question is recognised, the rows above it are output.

use crate::question::{is_frame, names_subject};

/// A line entered before a program drew a menu.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entered {
    /// The end of the row: the line at a shell prompt, or the question and the answer.
    pub(crate) text: String,
    /// The row before the answer; `None` at the prompt of a shell.
    pub(crate) row: Option<String>,
}

/// Maximum number of rows of a line that the terminal has wrapped.
const MAX_WRAPPED_ROWS: usize = 5;

impl Entered {
    /// Returns whether the line ends in a row of a screen.
    fn ends_at(&self, lines: &[&str], index: usize) -> bool {
        match &self.row {
            None => self.prompt_at(lines, index).is_some(),
            Some(_) => {
                let line = lines[index];
                self.is_unchanged(line) || self.is_redrawn(line) || self.is_hidden() && is_masked(line)
            }
        }
    }

    /// Returns whether a row shows the question with its entered answer.
    fn is_unchanged(&self, line: &str) -> bool {
        let row = self.row.as_deref().unwrap_or_default();
        text_before_end(line, &self.text).is_some() || !row.is_empty() && line == row
    }

    /// Returns whether the row before the answer has a word.
    fn has_words(&self) -> bool {
        self.row.as_deref().is_some_and(|row| row.contains(char::is_alphanumeric))
    }

    /// Returns the prompt before a line that ends in a row of a screen.
    fn prompt_at(&self, lines: &[&str], index: usize) -> Option<String> {
        if let Some(prompt) = text_before_end(lines[index], &self.text) {
            return Some(prompt.to_owned());
        }
        let without_whitespace = |text: &str| text.split_whitespace().collect::<String>();
        let text = without_whitespace(&self.text);
        let mut joined_rows = String::new();
        for line in lines[..=index].iter().rev().take(MAX_WRAPPED_ROWS) {
            joined_rows.insert_str(0, &without_whitespace(line));
            if joined_rows.len() >= text.len() {
                return joined_rows.strip_suffix(&text).filter(|_| line.len() < joined_rows.len()).map(str::to_owned);
            }
            if joined_rows.is_empty() || !text.ends_with(&joined_rows) {
                return None;
            }
        }
        None
    }

    /// Returns whether a row is the answered question in its final form: with another sign before it, without its
    /// default, and perhaps with other words for the answer.
    fn is_redrawn(&self, line: &str) -> bool {
        let row = self.row.as_deref().unwrap_or_default();
        let question: Vec<&str> = split_words(row.split('(').next().unwrap_or_default()).collect();
        let words: Vec<&str> = split_words(line).collect();
        !question.is_empty() && words.starts_with(&question) && (self.is_hidden() || words.len() > question.len())
    }

    /// Returns whether the answer is hidden, or empty.
    fn is_hidden(&self) -> bool {
        self.row.as_deref() == Some(self.text.trim_end())
    }
}

/// Characters that a program shows in place of a secret.
const SECRET_MARKS: [char; 3] = ['*', '•', '▪'];

/// Returns whether a row has only [`SECRET_MARKS`], perhaps after a frame.
fn is_masked(line: &str) -> bool {
    let text = line.trim_start_matches(|character: char| is_frame(character) || character == ' ');
    !text.is_empty() && text.trim_end_matches(SECRET_MARKS).is_empty()
}

/// Returns the text before `end` at the end of a line. `end` does not begin within a word.
fn text_before_end<'l>(line: &'l str, end: &str) -> Option<&'l str> {
    let before = line.strip_suffix(end).filter(|_| !end.is_empty())?;
    (!before.ends_with(char::is_alphanumeric) || !end.starts_with(char::is_alphanumeric)).then_some(before)
}

/// Returns the index of the first row that a program drew after the last entered line. `cursor` is the cursor row.
///
/// A question or the cursor is below the entered line. Any other row with its text is a refused answer whose question
/// is still open, or an entry of the menu.
pub(crate) fn first_row(lines: &[&str], entered: &[Entered], cursor: Option<usize>) -> usize {
    let is_answered = |row: usize| {
        let is_above_cursor = cursor.is_some_and(|cursor| row < cursor);
        let is_answer = || entered.iter().any(|line| line.has_words() && line.is_unchanged(lines[row]));
        (row + 1..lines.len()).any(|index| is_open_question(lines, index)) || is_above_cursor && is_answer()
    };
    let ends: Vec<usize> =
        (0..lines.len()).rev().filter(|row| entered.iter().any(|line| line.ends_at(lines, *row))).collect();
    // An entry after a pointer looks like a line after a short prompt.
    let is_prompt = |prompt: &str| !matches!(prompt.trim(), "" | ">" | "❯" | "→" | "*" | "-");
    let is_command = |row: usize| {
        let mut commands = entered.iter().filter(|line| line.row.is_none());
        commands.any(|line| line.prompt_at(lines, row).as_deref().is_some_and(is_prompt))
    };
    let command = || ends.iter().find(|row| is_command(**row)).or(ends.last());
    ends.iter().find(|row| is_answered(**row)).or_else(command).map_or(0, |row| row + 1)
}

/// Returns the first row of a prompt in plain output, such as `Press any key to continue`. The prompt is the paragraph
/// at the cursor, with the last row above it that has a word. `None` if the prompt names a subject, or a row may be an
/// entry.
pub(crate) fn plain_prompt(lines: &[&str], cursor: Option<usize>) -> Option<usize> {
    let last = lines.len().checked_sub(1)?;
    let is_end = |end: char| end.is_alphanumeric() || ".,:;!?)%…".contains(end);
    let is_plain = |line: &&str| line.is_empty() || line.starts_with(char::is_alphanumeric) && line.ends_with(is_end);
    if cursor != Some(last) || names_subject(lines[last]) || !lines.iter().all(is_plain) {
        return None;
    }
    let paragraph = lines[..last].iter().rposition(|line| line.is_empty()).map_or(0, |blank| blank + 1);
    Some(paragraph.min(heading_index(lines, last)))
}

/// The question in the rows of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DrawnQuestion {
    /// Index of the row.
    pub(crate) row: usize,
    /// True if the question names its subject, so that the rows above it are not compared.
    pub(crate) is_complete: bool,
}

/// Returns the question in the rows of a drawing: the last question with a mark, or else the first without one.
pub(crate) fn drawn_question(lines: &[&str]) -> Option<DrawnQuestion> {
    let marked = (0..lines.len()).rev().find(|row| is_marked_question(lines, *row));
    if let Some(row) = marked {
        return Some(DrawnQuestion { row, is_complete: names_subject(lines[row]) });
    }
    let row = lines.iter().position(|line| is_unmarked_question(line))?;
    // A row that ends with a colon may be the heading of a group of entries.
    let is_alone = lines[..row].last().is_none_or(|above| above.is_empty()) && lines[row].contains(['?', '？']);
    Some(DrawnQuestion { row, is_complete: is_alone && !lines[row].starts_with(is_frame) && names_subject(lines[row]) })
}

/// Returns whether a row of a screen is an open question.
pub(crate) fn is_open_question(lines: &[&str], row: usize) -> bool {
    is_marked_question(lines, row) || is_unmarked_question(lines[row])
}

/// Marks that prompt libraries draw before an open question. Answered questions have other marks.
const QUESTION_MARKS: [&str; 3] = ["? ", "◆ ", "▲ "];

/// Returns whether a row is a question with a mark. The help of a program may have such a row too, such as `? more`.
fn is_marked_question(lines: &[&str], row: usize) -> bool {
    let Some(text) = QUESTION_MARKS.iter().find_map(|mark| lines[row].strip_prefix(mark)) else { return false };
    let next = lines[row + 1..].iter().find(|line| !line.is_empty());
    text.contains(['?', '？'])
        || next.is_some_and(|next| text.contains([':', '：', '›']) || !next.starts_with(char::is_alphanumeric))
}

/// Returns whether a row is a question without a mark. Unlike an entry, the row is not indented. It may end with a hint
/// in brackets.
fn is_unmarked_question(line: &str) -> bool {
    let is_border = |character: char| is_frame(character) || character == ' ';
    let mut text = if line.starts_with(is_frame) { line.trim_matches(is_border) } else { line.trim_end() };
    if !text.starts_with(|first: char| first.is_alphanumeric() || first == '¿') {
        return false;
    }
    for (open, close) in [('(', ')'), ('[', ']')] {
        if text.ends_with(close) {
            text = text.rsplit_once(open).map_or(text, |(before, _)| before).trim_end();
        }
    }
    text.trim_end_matches(['›', ' ']).ends_with(['?', ':', '？', '：'])
}

/// Returns the index of the last row with a word above `row`: the heading of the rows below it.
pub(crate) fn heading_index(lines: &[&str], row: usize) -> usize {
    let has_word = |line: &&str| {
        split_words(line).any(|word| word.chars().filter(|character| character.is_alphabetic()).count() > 2)
    };
    lines[..row].iter().rposition(has_word).unwrap_or(row)
}

/// Returns the words of a line: letters and digits.
pub(crate) fn split_words(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    line.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}
