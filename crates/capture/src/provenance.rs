//! Values from an earlier output: a port, an identifier, a version.
//!
//! A typed word comes from an earlier output if the word looks like data, that output contains the word, and no earlier
//! input does. A state reads the value from the output with a group, and a variable replaces the value in the typed
//! text.
//!
//! Unique words around a value, or in the rows above or below, identify the value. A run stops if a second row matches.
//! Similar rows, as in a list of hashes, do not identify a value: it is typed unchanged, and only after the recorded
//! rows.

use std::collections::{BTreeSet, HashMap, HashSet};

use steplatch_pattern::Pattern;

use crate::act::Act;
use crate::question::{
    Leeway, TEMPORARY_DIRECTORIES, UUID_GROUPS, count_switches, escape, general_pattern, without_classes,
};
use crate::session_log::KnownFacts;
use crate::template::{Binding, VERSION_SIGNS, is_word_character, stands_alone};
use crate::turn::Turn;

/// Variables for the directories that are known before any input.
pub(crate) const DIRECTORIES: [&str; 2] = ["PWD", "HOME"];

/// A value that a turn prints and a later turn types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extraction {
    /// The turn that prints the value.
    pub(crate) source: usize,
    /// The first turn that types the value.
    pub(crate) usage: usize,
    /// The value, and the name of its variable.
    pub(crate) binding: Binding,
    /// The pattern with a group named after the variable, or the pattern of the recorded rows.
    pub(crate) pattern: String,
    /// True if the machine reads the value; false if similar rows exist, so that the machine requires the recorded
    /// rows.
    pub(crate) is_read: bool,
}

/// Names of the groups of a pattern that match another row similar to the row with the value.
pub(crate) const OTHER_ROWS: [&str; 2] = ["another_row", "another_row_below"];

/// Returns the values that later inputs take from earlier outputs, in the order of their use. `bindings` are the known
/// values: arguments and directories.
pub(crate) fn find_extractions(turns: &[Turn], bindings: &[Binding], facts: &KnownFacts) -> Vec<Extraction> {
    let mut extractions: Vec<Extraction> = Vec::new();
    let occurrences = Occurrences::from_turns(turns);
    for (usage, turn) in turns.iter().enumerate() {
        let text = typed_text(&turn.act);
        for word in data_words(text) {
            let is_known = bindings.iter().any(|binding| binding.value == word)
                || extractions.iter().any(|earlier| earlier.binding.value == word)
                || extractions.iter().any(|earlier| earlier.usage == usage && earlier.binding.value.contains(word))
                || occurrences
                    .turns_typing(word)
                    .any(|earlier| earlier < usage && contains_word(typed_text(&turns[earlier].act), word));
            if is_known {
                continue;
            }
            let source = occurrences.turns_printing(word).rev().filter(|source| *source < usage).find_map(|source| {
                let lines: Vec<&str> = printed(&turns[source]).lines().collect();
                let rows = rows_with(&lines, word);
                // The answer to the question with the word is a choice of the person, not a value from the output.
                let is_source = !rows.is_empty() && (source + 1 < usage || !is_answer(turn, word));
                is_source.then_some((source, lines, rows))
            });
            let Some((source, lines, rows)) = source else { continue };
            // Output that was printed before a value was first typed cannot contain it as a variable.
            let is_printable = |binding: &&Binding| {
                let is_typed = |turn: &Turn| contains_word(typed_text(&turn.act), &binding.value);
                DIRECTORIES.contains(&binding.name.as_str()) || turns[..=source].iter().any(is_typed)
            };
            let printable: Vec<Binding> = bindings.iter().filter(is_printable).cloned().collect();
            let output = Output { lines: &lines, word, bindings: &printable, facts };
            let (row, column) = rows[0];
            let reading_pattern = rows.iter().find_map(|(row, column)| {
                let name = variable_name(&lines[*row][..*column], &extractions, bindings);
                output.reading_pattern(*row, *column, &name).map(|pattern| (name, pattern))
            });
            let is_read = reading_pattern.is_some();
            let (name, pattern) = reading_pattern.unwrap_or_else(|| {
                (
                    variable_name(&lines[row][..column], &extractions, bindings),
                    output.recorded_rows_pattern(row, column),
                )
            });
            let binding = Binding { value: word.to_owned(), name };
            extractions.push(Extraction { source, usage, binding, pattern, is_read });
        }
    }
    extractions
}

/// Index of the turns that may contain typed data words, so that each text is searched once. The key is the longest
/// part of the word that contains a digit.
struct Occurrences<'t> {
    typed: HashMap<&'t str, Vec<usize>>,
    printed: HashMap<&'t str, Vec<usize>>,
}

impl<'t> Occurrences<'t> {
    fn from_turns(turns: &'t [Turn]) -> Self {
        let words = turns.iter().flat_map(|turn| data_words(typed_text(&turn.act)));
        let indexed_parts: HashSet<&str> = words.map(longest_part).collect();
        let index_texts = |text: fn(&Turn) -> &str| {
            let mut turns_by_part: HashMap<&'t str, Vec<usize>> = HashMap::new();
            for (index, turn) in turns.iter().enumerate() {
                for part in parts(text(turn)).map(without_version_sign).filter(|part| indexed_parts.contains(part)) {
                    let turns = turns_by_part.entry(part).or_default();
                    if turns.last() != Some(&index) {
                        turns.push(index);
                    }
                }
            }
            turns_by_part
        };
        Self { typed: index_texts(|turn| typed_text(&turn.act)), printed: index_texts(printed) }
    }

    /// Returns the turns that may type a word, in order.
    fn turns_typing(&self, word: &str) -> impl DoubleEndedIterator<Item = usize> {
        self.typed.get(longest_part(word)).into_iter().flatten().copied()
    }

    /// Returns the turns that may print a word, in order.
    fn turns_printing(&self, word: &str) -> impl DoubleEndedIterator<Item = usize> {
        self.printed.get(longest_part(word)).into_iter().flatten().copied()
    }
}

/// Returns the parts of text that consist of letters, digits and `_`.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !is_word_character(character))
}

fn longest_part(word: &str) -> &str {
    parts(word)
        .map(without_version_sign)
        .filter(|part| part.contains(|character: char| character.is_ascii_digit()))
        .max_by_key(|part| part.len())
        .unwrap_or("")
}

fn typed_text(act: &Act) -> &str {
    match act {
        Act::Command { command, .. } => command,
        Act::Typed { text, .. } => text,
        Act::Hidden { .. } => "",
    }
}

/// Returns the output of a turn, without the echo of typed text, if known. Keys and hidden text have no echo.
fn printed(turn: &Turn) -> &str {
    let text = match &turn.act {
        Act::Command { output, .. } => return output,
        Act::Typed { text, .. } => text.lines().next().unwrap_or_default().trim_end(),
        Act::Hidden { .. } => "",
    };
    let (first, rest) = turn.printed.split_once('\n').unwrap_or((&turn.printed, ""));
    let is_echo = turn.at_prompt || !text.is_empty() && first.contains(text);
    if is_echo { rest } else { &turn.printed }
}

/// Returns whether a turn answers a question with this word alone.
fn is_answer(turn: &Turn, word: &str) -> bool {
    matches!(&turn.act, Act::Typed { text, .. } if !turn.at_prompt && text.trim() == word)
}

/// Returns the words of text that may be data: numbers of three or more digits, versions, identifiers and paths with
/// digits. Each word comes before its parts.
fn data_words(text: &str) -> Vec<&str> {
    let is_separator = |character: char| character.is_whitespace() || "'\"`()[]{}<>;|&=,$".contains(character);
    let mut words = BTreeSet::new();
    let mut ordered = Vec::new();
    for word in text.split(is_separator) {
        let word = word.trim_end_matches(['.', ':', '!', '?']);
        // Parts such as the port of an address, or the last name of a path.
        let parts: Vec<&str> = word.split([':', '/', '@']).collect();
        let shorter = parts.iter().copied().filter(|part| part.len() < word.len());
        let joined = parts.iter().flat_map(|part| joined_values(part));
        for candidate in std::iter::once(word).chain(shorter).chain(joined) {
            if is_data(candidate) && words.insert(candidate) {
                ordered.push(candidate);
            }
        }
    }
    ordered
}

/// Returns the numbers, versions, dates and hashes that a word joins with other text by `-` or `.`, or that follow a
/// `v`: `1.4.2` in `v1.4.2` and in `app-1.4.2.tar.gz`. A version may have another number after `-`.
fn joined_values(word: &str) -> Vec<&str> {
    let mut values = runs_of_numbers(word);
    let versions: Vec<&str> = values.iter().flat_map(|run| run.split('-')).filter(|part| part.contains('.')).collect();
    values.extend(versions);
    values.retain(|value| value.len() < word.len());
    values
}

/// Returns the longest runs of numbers joined by `-` or `.` in a word, and its hashes.
fn runs_of_numbers(word: &str) -> Vec<&str> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut end = 0;
    for part in word.split(['-', '.']) {
        let number = without_version_sign(part);
        let begin = end + part.len() - number.len();
        end += part.len();
        match runs.last_mut() {
            Some((_, run_end)) if is_number(part) && *run_end + 1 == begin => *run_end = end,
            _ if is_number(number) || is_hash(part) => runs.push((begin, end)),
            _ => {}
        }
        end += 1;
    }
    runs.into_iter().map(|(begin, end)| &word[begin..end]).collect()
}

/// Returns a version without the `v` before it, and other text unchanged.
fn without_version_sign(word: &str) -> &str {
    let rest = word.strip_prefix(VERSION_SIGNS);
    rest.filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit())).unwrap_or(word)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether text is a hash, such as of a commit. Decimal digits alone are a number.
fn is_hash(text: &str) -> bool {
    text.len() >= MIN_HASH_BYTES && is_hexadecimal(text) && !is_number(text)
}

pub(crate) fn is_data(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_option = word.starts_with('-');
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let is_constant = matches!(word, "127.0.0.1" | "0.0.0.0" | "::1");
    let is_distinctive = if is_number { digits >= 3 } else { digits >= 1 && word.len() >= 4 };
    is_distinctive && !is_option && !is_constant && word.len() <= 200
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| stands_alone(text, start, start + word.len()))
}

/// Returns the indices of the lines that contain the word, last first, each with the column of the word.
fn rows_with(lines: &[&str], word: &str) -> Vec<(usize, usize)> {
    let column = |line: &str| {
        let mut matches = line.match_indices(word).map(|(start, _)| start);
        matches.find(|start| stands_alone(line, *start, start + word.len())).filter(|_| line.len() <= MAX_LINE_BYTES)
    };
    (0..lines.len()).rev().filter_map(|row| column(lines[row]).map(|column| (row, column))).collect()
}

/// Maximum length of a line that becomes a pattern.
const MAX_LINE_BYTES: usize = 400;

/// Returns the name of a variable, from the last word before its value.
fn variable_name(before: &str, extractions: &[Extraction], bindings: &[Binding]) -> String {
    let is_name = |word: &&str| {
        word.len() >= 2 && word.chars().all(|character| character.is_ascii_alphabetic() || character == '_')
    };
    let words = before.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    let last_word = words.rev().take(4).find(is_name).map(str::to_ascii_lowercase);
    let base = match last_word.as_deref() {
        None | Some("http" | "https" | "localhost" | "on" | "at" | "in" | "is" | "to" | "of" | "the" | "tmp") => {
            if before.ends_with(':') && before.contains("://") {
                "port".to_owned()
            } else {
                "value".to_owned()
            }
        }
        Some(name) => format!("read_{name}"),
    };
    let is_taken = |name: &str| {
        extractions.iter().any(|earlier| earlier.binding.name == name)
            || bindings.iter().any(|binding| binding.name == name)
    };
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(base)
}

/// Maximum number of rows above and below a value that identify it: a commit has its message four rows below its hash.
const MAX_ROWS_ABOVE: usize = 3;
const MAX_ROWS_BELOW: usize = 4;

/// Maximum number of recorded rows that a pattern requires.
const MAX_RECORDED_ROWS: usize = 60;

/// Pattern of the text between two rows.
const ROW_SEPARATOR: &str = r"\s*\n\s*";

/// An output with a value.
struct Output<'o> {
    lines: &'o [&'o str],
    word: &'o str,
    bindings: &'o [Binding],
    facts: &'o KnownFacts,
}

impl Output<'_> {
    /// Returns the pattern that captures the value at this position in the group `name` and has a group that matches
    /// another similar row. `None` if similar rows have similar neighbours, so that nothing identifies the row.
    fn reading_pattern(&self, row: usize, column: usize, name: &str) -> Option<String> {
        let row_with = |group: &str, bindings: &[Binding]| self.row_with_group(row, column, group, bindings);
        let class = value_pattern(self.word);
        let row_pattern = format!("^ *{} *$", row_with(&class, &[]));
        let is_similar: Vec<bool> = self.lines.iter().map(|line| matches_at_start(&row_pattern, line)).collect();
        let is_filled = |row: &usize| !self.lines[*row].trim().is_empty();
        let above = (0..row).rev().filter(is_filled).take(MAX_ROWS_ABOVE).take_while(|row| !is_similar[*row]);
        let below =
            (row + 1..self.lines.len()).filter(is_filled).take(MAX_ROWS_BELOW).take_while(|row| !is_similar[*row]);
        let row_class = |row: &usize, bindings: &[Binding]| {
            general_pattern(self.lines[*row].trim(), bindings, self.facts, Leeway::Data)
        };
        let pattern = |window: &[usize], group: &str, bindings: &[Binding]| {
            let rows_above = window.iter().filter(|index| **index < row).map(|index| row_class(index, bindings));
            let rows_below = window.iter().filter(|index| **index > row).map(|index| row_class(index, bindings));
            let rows: Vec<String> = rows_above.chain([row_with(group, bindings)]).chain(rows_below).collect();
            format!("^ *{} *$", rows.join(ROW_SEPARATOR))
        };
        let windows = [above.collect::<Vec<usize>>(), below.collect()].into_iter().flat_map(|rows| {
            (1..=rows.len()).map(move |count| {
                let mut window = rows[..count].to_vec();
                window.sort_unstable();
                window
            })
        });
        let has_words =
            |window: &Vec<usize>| window.is_empty() || window.iter().any(|row| has_word(&row_class(row, &[])));
        let window = std::iter::once(Vec::new()).chain(windows).filter(has_words).find(|window| {
            let matching_rows = self.matching_rows(&pattern(window, &class, &[]));
            matching_rows == [window.first().copied().unwrap_or(row).min(row)]
        })?;
        let other_row = pattern(&window, &class, self.bindings);
        let [other_group, _] = OTHER_ROWS;
        let pattern = pattern(&window, &format!("(?P<{name}>{class})"), self.bindings);
        Some(format!(r"{pattern}(?P<{other_group}>[\s\S]*{other_row})?"))
    }

    /// Returns the pattern of the recorded rows, from the first to the last row that is similar to the row of the
    /// value, with groups that match another similar row. If the rows are too far apart, the pattern has only one of
    /// them.
    fn recorded_rows_pattern(&self, row: usize, column: usize) -> String {
        let row_pattern = format!("^ *{} *$", self.row_with_group(row, column, &value_pattern(self.word), &[]));
        let similar: Vec<usize> =
            (0..self.lines.len()).filter(|row| matches_at_start(&row_pattern, self.lines[*row])).collect();
        let (first, last) = (similar.first().copied().unwrap_or(row), similar.last().copied().unwrap_or(row));
        let is_long = last - first >= MAX_RECORDED_ROWS;
        let rows = if is_long { row..row + 1 } else { first..last + 1 };
        let rows = rows.map(|row| self.lines[row].trim()).filter(|line| !line.is_empty());
        let rows =
            rows.map(|line| general_pattern(line, self.bindings, self.facts, Leeway::Nothing)).collect::<Vec<_>>();
        let rows = format!("^ *{} *$", rows.join(ROW_SEPARATOR));
        if is_long {
            return rows;
        }
        let [above, below] = OTHER_ROWS;
        let other_row = format!("^ *{} *$", self.row_with_group(row, column, &value_pattern(self.word), self.bindings));
        format!(r"(?P<{above}>{other_row}[\s\S]*)?{rows}(?P<{below}>[\s\S]*{other_row})?")
    }

    /// Returns the pattern of a row with a group in place of the value.
    fn row_with_group(&self, row: usize, column: usize, group: &str, bindings: &[Binding]) -> String {
        let line = self.lines[row];
        let part = |text: &str| general_pattern(text, bindings, self.facts, Leeway::Data);
        format!("{}{group}{}", part(line[..column].trim_start()), part(line[column + self.word.len()..].trim_end()))
    }

    /// Returns the indices of the first rows of a pattern's matches.
    fn matching_rows(&self, pattern: &str) -> Vec<usize> {
        let text = |row: usize| self.lines[row..].iter().take(1 + MAX_ROWS_BELOW * 4).copied().collect::<Vec<_>>();
        let is_match =
            |row: &usize| !self.lines[*row].trim().is_empty() && matches_at_start(pattern, &text(*row).join("\n"));
        (0..self.lines.len()).filter(is_match).collect()
    }
}

/// Returns whether a pattern matches at the beginning of text. True if the match needs too much work.
fn matches_at_start(pattern: &str, text: &str) -> bool {
    let pattern = Pattern::new(&format!(r"(?m)\A(?:{pattern})"));
    pattern.is_ok_and(|pattern| pattern.is_match(text).unwrap_or(true))
}

/// Returns the pattern of another value of the same kind: a number, a hash, a UUID, a version, an address, or a word
/// with other numbers and random parts in the same places. It does not match `none`, an option or another directory.
fn value_pattern(word: &str) -> String {
    const NUMBER: &str = "[0-9]+";
    let groups: Vec<usize> = word.split('-').map(str::len).collect();
    if is_hash(word) {
        return "[0-9A-Fa-f]{7,}".to_owned();
    }
    if groups == UUID_GROUPS && word.split('-').all(is_hexadecimal) {
        let groups: Vec<String> = groups.iter().map(|length| format!("[0-9A-Fa-f]{{{length}}}")).collect();
        return groups.join("-");
    }
    let numbers: Vec<&str> = word.split('.').collect();
    // A version may have more or fewer parts; an address has four.
    if matches!(numbers.len(), 2 | 3) && numbers.iter().all(|number| is_number(number)) {
        return format!(r"{NUMBER}(?:\.{NUMBER}){{1,2}}");
    }
    if let Some(directory) = TEMPORARY_DIRECTORIES.iter().find(|directory| word.starts_with(**directory)) {
        let parts = word[directory.len()..].split('/').map(|part| if part.is_empty() { "" } else { r"[\w.+-]*\w" });
        return format!("{}{}", escape(directory), parts.collect::<Vec<_>>().join("/"));
    }
    let (mut pattern, mut rest, mut follows_random_part) = (String::new(), word, false);
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|character| !is_word_character(character)).unwrap_or(rest.len()).max(first.len_utf8());
        let (part, after) = rest.split_at(length);
        rest = after;
        // Names that people choose, such as `build2`, change between letters and digits at most once.
        if count_switches(part) > 1 {
            follows_random_part = true;
            pattern.push_str(&format!("[0-9A-Za-z_]{{{}}}", part.chars().count()));
        } else if follows_random_part && part.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            pattern.push_str(&format!("[A-Za-z]{{{}}}", part.len()));
        } else {
            for piece in pieces(part) {
                pattern.push_str(&if is_number(piece) { NUMBER.to_owned() } else { escape(piece) });
            }
        }
    }
    pattern
}

/// Returns the runs of digits and of other characters in a word.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let is_digit = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|character: char| character.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Returns, for each turn, the small numbers in its shell line that no earlier input contains, but an earlier output
/// contains in a row with words. Each number has the last such row. The machine types the numbers unchanged, because
/// most small numbers are equal by chance.
pub(crate) fn unread_numbers(turns: &[Turn]) -> Vec<Vec<(&str, &str)>> {
    let candidates: HashSet<&str> = turns.iter().flat_map(small_numbers).collect();
    let (mut typed_numbers, mut rows): (HashSet<&str>, HashMap<&str, &str>) = (HashSet::new(), HashMap::new());
    let mut unread = Vec::with_capacity(turns.len());
    for turn in turns {
        let untyped = small_numbers(turn).into_iter().filter(|number| !typed_numbers.contains(number));
        unread.push(untyped.filter_map(|number| rows.get(number).map(|row| (number, *row))).collect());
        typed_numbers.extend(parts(typed_text(&turn.act)).filter(|part| candidates.contains(part)));
        for row in printed(turn).lines().filter(|row| row.len() <= MAX_LINE_BYTES) {
            let mut numbers = parts(row).filter(|part| candidates.contains(part)).peekable();
            if numbers.peek().is_some() && has_plain_word(row) {
                rows.extend(numbers.map(|number| (number, row.trim())));
            }
        }
    }
    unread
}

/// Returns the numbers of one or two digits in the shell line of a turn.
fn small_numbers(turn: &Turn) -> Vec<&str> {
    if !turn.at_prompt {
        return Vec::new();
    }
    let is_in_word = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    let words = typed_text(&turn.act).split(|character: char| !is_in_word(character));
    let is_small_number = |word: &&str| matches!(word.len(), 1 | 2) && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers: Vec<&str> = words.filter(is_small_number).collect();
    numbers.dedup();
    numbers
}

/// Minimum length of a hash, such as of a commit.
const MIN_HASH_BYTES: usize = 7;

/// Returns whether a pattern has a word of three or more letters outside of its classes and variables.
pub(crate) fn has_word(pattern: &str) -> bool {
    has_plain_word(&without_classes(pattern).replace(r"\Z", ""))
}

/// Returns whether text has a word of more than two letters.
pub(crate) fn has_plain_word(text: &str) -> bool {
    text.split(|character: char| !character.is_alphabetic()).any(|word| word.chars().count() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_words_are_recognised() {
        assert_eq!(data_words("curl http://127.0.0.1:8123/x"), ["http://127.0.0.1:8123/x", "8123"]);
        assert_eq!(data_words("git show 1f3a9b2 -n3 y 7"), ["1f3a9b2"]);
        assert_eq!(data_words("git tag v1.4.2"), ["v1.4.2", "1.4.2"]);
        assert_eq!(data_words("mkdir rel-12.4"), ["rel-12.4", "12.4"]);
        let words = data_words("mv app-v1.4.2-20.tar.gz");
        assert_eq!(words, ["app-v1.4.2-20.tar.gz", "1.4.2-20", "1.4.2"]);
        assert_eq!(data_words("cat job-4711.log"), ["job-4711.log", "4711"]);
        assert_eq!(data_words("docker push web-1f3a9b2"), ["web-1f3a9b2", "1f3a9b2"]);
        assert_eq!(data_words("cat /var/log/2026-11-29.log")[2..], ["2026-11-29"]);
    }

    /// Returns the pattern for a value in an output, and whether it reads the value.
    fn pattern(output: &str, word: &str) -> (String, bool) {
        let lines: Vec<&str> = output.lines().collect();
        let output = Output { lines: &lines, word, bindings: &[], facts: &KnownFacts::default() };
        let rows = rows_with(&lines, word);
        let reading_pattern = rows.iter().find_map(|(row, at)| output.reading_pattern(*row, *at, "value"));
        let is_read = reading_pattern.is_some();
        (reading_pattern.unwrap_or_else(|| output.recorded_rows_pattern(rows[0].0, rows[0].1)), is_read)
    }

    /// Returns the value that a machine types when a program prints `text`. `None` if the run stops.
    fn typed_at(recorded: &str, word: &str, printed: &str) -> Option<String> {
        let (text, is_read) = pattern(recorded, word);
        let pattern = Pattern::new(&format!("(?m){text}")).unwrap();
        let found = pattern.find_at(printed, 0).unwrap()?;
        let group = |name: &str| {
            let at = pattern.group_names().iter().position(|known| known.as_deref() == Some(name))?;
            found.groups[at].clone().map(|range| printed[range].to_owned())
        };
        if OTHER_ROWS.iter().any(|name| group(name).is_some()) {
            return None;
        }
        if is_read { group("value") } else { Some(word.to_owned()) }
    }

    #[test]
    fn value_is_read_with_a_named_group() {
        let line = "Serving HTTP on 0.0.0.0 port 8123 (http://0.0.0.0:8123/) ...";
        let (_, at) = rows_with(&[line], "8123")[0];
        assert_eq!(variable_name(&line[..at], &[], &[]), "read_port");
        let row = r"Serving HTTP on \d+\.\d+\.\d+\.\d+ port GROUP \(http://\d+\.\d+\.\d+\.\d+:\d+/\) \.\.\.";
        let row = |group| format!("^ *{} *$", row.replace("GROUP", group));
        let (pattern, is_read) = pattern(line, "8123");
        assert!(is_read);
        assert_eq!(pattern, format!(r"{}(?P<another_row>[\s\S]*{})?", row("(?P<value>[0-9]+)"), row("[0-9]+")));
    }

    #[test]
    fn value_is_read_from_its_own_row_only() {
        let log = "3fa9c1d add page\n9b2e77a fix typo\n1c0ffee begin\n";
        let hashes = "commit 3fa9c1d\ncommit 9b2e77a\ncommit 1c0ffee\n";
        let full = "commit 3fa9c1d\nAuthor: a\n\n    add\n\ncommit 9b2e77a\nAuthor: a\n\n    fix\n";
        let table = "ID    NAME   STATE\n1182  web    running\n3345  db     running\n";
        let headed = "Active:\n  id 4711\nOld:\n  id 1200\n";
        // The recorded output, the value, the next output, and the value typed then.
        let cases = [
            (log, "9b2e77a", "77ab12c new one\n3fa9c1d add page\n9b2e77a fix typo\n1c0ffee begin\n", Some("9b2e77a")),
            (log, "9b2e77a", "8d3f00b fix typo\n3fa9c1d add page\n1c0ffee begin\n", Some("8d3f00b")),
            (log, "9b2e77a", "77ab12c new one\n3fa9c1d add page\n1c0ffee begin\n", None),
            (log, "9b2e77a", "77ab12c fix typo\n3fa9c1d add page\n9b2e77a fix typo\n", None),
            (log, "9b2e77a", "77ab12c fix typo again\n3fa9c1d add page\n", None),
            // Similar rows.
            (hashes, "9b2e77a", hashes, Some("9b2e77a")),
            (hashes, "9b2e77a", "commit 77ab12c\ncommit 3fa9c1d\ncommit 9b2e77a\n", None),
            (hashes, "3fa9c1d", "commit 77ab12c\ncommit 3fa9c1d\ncommit 9b2e77a\ncommit 1c0ffee\n", None),
            (hashes, "1c0ffee", "commit 3fa9c1d\ncommit 9b2e77a\ncommit 1c0ffee\ncommit 0aaaaa1\n", None),
            ("commit 3fa9c1d\ncommit 9b2e77a\n", "3fa9c1d", "commit 77ab12c\ncommit 3fa9c1d\ncommit 9b2e77a\n", None),
            ("commit 3fa9c1d\n", "3fa9c1d", "commit 77ab12c\n", Some("77ab12c")),
            ("commit 3fa9c1d\n", "3fa9c1d", "commit 77ab12c\ncommit 3fa9c1d\n", None),
            ("4711\n4712\n4713\n", "4712", "4700\n4711\n4712\n4713\n", None),
            ("4711\n", "4711", "4712\n", Some("4712")),
            // The neighbouring rows distinguish similar rows.
            (full, "9b2e77a", &format!("commit 77ab12c\nAuthor: a\n\n    new\n\n{full}"), Some("9b2e77a")),
            (full, "9b2e77a", "commit 77ab12c\nAuthor: a\n\n    new\n\ncommit 3fa9c1d\nAuthor: a\n\n    add\n", None),
            (headed, "1200", "Old:\n  id 1201\nActive:\n  id 1200\n", Some("1201")),
            (headed, "1200", "Active:\n  id 4711\n  id 4712\nOld:\n  id 1300\n", Some("1300")),
            (headed, "1200", "Active:\n  id 4711\n  id 1200\n", None),
            // All words of the row must match; its other numbers may differ.
            ("Created container 4711\n", "4711", "Created container 80 failed\nCreated container 81\n", Some("81")),
            ("Created container 4711\n", "4711", "Deleted container 80\n", None),
            ("Created container 4711\n", "4711", "Created container 80\nCreated container 81\n", None),
            (table, "3345", "ID    NAME   STATE\n4001  db     running\n1182  web    running\n", Some("4001")),
            (table, "3345", "ID    NAME   STATE\n1182  web    running\n4001  prod   running\n", None),
            ("job 4202 queued behind job 1701\n", "4202", "job 4203 queued behind job 1799\n", Some("4203")),
            ("job 4202 queued behind job 1701\n", "1701", "job 4203 queued behind job 1799\n", Some("1799")),
            ("key ab12cd34 (old)\nkey ef56ab78 (new)\n", "ef56ab78", "key 12341234 (new)\n", Some("12341234")),
            ("key ab12cd34 (old)\nkey ef56ab78 (new)\n", "ef56ab78", "key ef56ab78 (old)\n", None),
            // A value of another kind does not match.
            ("Latest version: 1.2.3\n", "1.2.3", "Latest version: 1.3\n", Some("1.3")),
            ("Latest version: 1.2.3\n", "1.2.3", "Latest version: none\n", None),
            ("Latest version: 1.2.3\n", "1.2.3", "Latest version: --force\n", None),
            ("Latest version: 1.2.3\n", "1.2.3", "Latest version: /etc/passwd\n", None),
            ("Address 10.0.0.17 assigned\n", "10.0.0.17", "Address 10.0.0.9 assigned\n", Some("10.0.0.9")),
            ("Address 10.0.0.17 assigned\n", "10.0.0.17", "Address not assigned\n", None),
            ("Wrote /srv/app/r17.tgz\n", "/srv/app/r17.tgz", "Wrote /srv/app/r18.tgz\n", Some("/srv/app/r18.tgz")),
            ("Wrote /srv/app/r17.tgz\n", "/srv/app/r17.tgz", "Wrote /srv/app/../../home\n", None),
            ("Wrote /srv/app/r17.tgz\n", "/srv/app/r17.tgz", "Wrote nothing\n", None),
            ("pod web-7d4b9c-x2x4z\n", "web-7d4b9c-x2x4z", "pod web-9f8c1a-ab3dk\n", Some("web-9f8c1a-ab3dk")),
            ("Created job 4712\n", "4712", "Created job \u{664}\u{667}\u{661}\u{662}\n", None),
            (
                "id 6ba7b810-9dad-11d1-80b4-00c04fd430c8\n",
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                "id 6ba7b810\n",
                None,
            ),
            ("latest: 1.4.2\nstable: 1.3.9\n", "1.3.9", "stable: 1.4.0\nlatest: 1.5.0\n", Some("1.4.0")),
        ];
        for (recorded, word, printed, expected) in cases {
            assert_eq!(typed_at(recorded, word, printed).as_deref(), expected, "{recorded} {word} {printed}");
            assert_eq!(typed_at(recorded, word, recorded).as_deref(), Some(word), "unchanged: {recorded} {word}");
        }
    }
}
