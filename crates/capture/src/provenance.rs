//! Values from an earlier output: a port, an identifier, a version.
//!
//! A typed word came from an earlier output if it looks like data, stands in that output and was in no earlier input.
//! The state that printed it reads it with a group, and the typed text has a variable in its place.
//!
//! The row of the value identifies it: the words around it, or those of the rows above or below, which no other row has.
//! A run in which a second row looks so stops. Rows that look alike, as in a list of hashes, identify no value: the value
//! is typed unchanged, and only below the recorded rows.

use std::collections::{BTreeSet, HashMap, HashSet};

use steplatch_pattern::Pattern;

use crate::machine::{DIRECTORIES, has_word};
use crate::question::{Leeway, general};
use crate::session_log::KnownFacts;
use crate::template::{Binding, stands_alone};
use crate::turn::{Act, Turn};

/// A value that a turn prints and a later one types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extraction {
    /// The turn that prints it.
    pub(crate) source: usize,
    /// The first turn that types it.
    pub(crate) usage: usize,
    /// The value, and the name of its variable.
    pub(crate) binding: Binding,
    /// The pattern with a group of that name, or of the recorded rows.
    pub(crate) pattern: String,
    /// True if the value is read; false if other rows look like that of the value, so that the recorded rows must be there.
    pub(crate) is_read: bool,
}

/// Names of the groups of a pattern that find another row that looks like the one with the value.
pub(crate) const OTHER_ROWS: [&str; 2] = ["another_row", "another_row_below"];

/// Returns the values that later inputs take from earlier outputs, in the order of their use. `bindings` are known
/// values: arguments and known text of the machine.
pub(crate) fn extractions(turns: &[Turn], bindings: &[Binding], facts: &KnownFacts) -> Vec<Extraction> {
    let mut found: Vec<Extraction> = Vec::new();
    let places = Places::from_turns(turns);
    for (usage, turn) in turns.iter().enumerate() {
        let text = typed_text(&turn.act);
        for word in data_words(text) {
            let is_known = bindings.iter().any(|binding| binding.value == word)
                || found.iter().any(|one| one.binding.value == word)
                || found.iter().any(|one| one.usage == usage && one.binding.value.contains(word))
                || places
                    .typed(word)
                    .any(|before| before < usage && contains_word(typed_text(&turns[before].act), word));
            if is_known {
                continue;
            }
            let source = places.printed(word).rev().filter(|source| *source < usage).find_map(|source| {
                let lines: Vec<&str> = printed(&turns[source]).lines().collect();
                let rows = rows_with(&lines, word);
                // The answer to a question that offers the word is the person's choice, not a value from the output.
                let is_source = !rows.is_empty() && (source + 1 < usage || !is_offered(turn, word));
                is_source.then_some((source, lines, rows))
            });
            let Some((source, lines, rows)) = source else { continue };
            // The output before the first input of a value does not depend on it.
            let is_shown = |binding: &&Binding| {
                let is_typed = |turn: &Turn| contains_word(typed_text(&turn.act), &binding.value);
                DIRECTORIES.contains(&binding.name.as_str()) || turns[..=source].iter().any(is_typed)
            };
            let shown: Vec<Binding> = bindings.iter().filter(is_shown).cloned().collect();
            let output = Output { lines: &lines, word, bindings: &shown, facts };
            let (row, at) = rows[0];
            let read = rows.iter().find_map(|(row, at)| {
                let name = name_of(&lines[*row][..*at], &found, bindings);
                output.reading(*row, *at, &name).map(|pattern| (name, pattern))
            });
            let is_read = read.is_some();
            let (name, pattern) =
                read.unwrap_or_else(|| (name_of(&lines[row][..at], &found, bindings), output.recorded_rows(row, at)));
            let binding = Binding { value: word.to_owned(), name };
            found.push(Extraction { source, usage, binding, pattern, is_read });
        }
    }
    found
}

/// The turns in which typed words of data may stand, by their longest part with a digit: so one reading of each text is
/// enough.
struct Places<'t> {
    typed: HashMap<&'t str, Vec<usize>>,
    printed: HashMap<&'t str, Vec<usize>>,
}

impl<'t> Places<'t> {
    fn from_turns(turns: &'t [Turn]) -> Self {
        let words = turns.iter().flat_map(|turn| data_words(typed_text(&turn.act)));
        let wanted: HashSet<&str> = words.map(longest_part).collect();
        let noted = |text: fn(&Turn) -> &str| {
            let mut places: HashMap<&'t str, Vec<usize>> = HashMap::new();
            for (index, turn) in turns.iter().enumerate() {
                for part in parts(text(turn)).filter(|part| wanted.contains(part)) {
                    let turns = places.entry(part).or_default();
                    if turns.last() != Some(&index) {
                        turns.push(index);
                    }
                }
            }
            places
        };
        Self { typed: noted(|turn| typed_text(&turn.act)), printed: noted(printed) }
    }

    /// Returns the turns that may type a word, in order.
    fn typed(&self, word: &str) -> impl DoubleEndedIterator<Item = usize> {
        self.typed.get(longest_part(word)).into_iter().flatten().copied()
    }

    /// Returns the turns that may print a word, in order.
    fn printed(&self, word: &str) -> impl DoubleEndedIterator<Item = usize> {
        self.printed.get(longest_part(word)).into_iter().flatten().copied()
    }
}

/// Returns the parts of a text that have letters and digits only.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !(sign.is_alphanumeric() || sign == '_'))
}

fn longest_part(word: &str) -> &str {
    parts(word)
        .filter(|part| part.contains(|sign: char| sign.is_ascii_digit()))
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

/// Returns the output of a turn, without the echo of typed text, if known.
fn printed(turn: &Turn) -> &str {
    match &turn.act {
        Act::Command { output, .. } => output,
        Act::Typed { .. } | Act::Hidden { .. } => turn.printed.split_once('\n').map_or("", |(_, rest)| rest),
    }
}

/// Returns whether the answer is a word of the question before it.
fn is_offered(turn: &Turn, word: &str) -> bool {
    matches!(&turn.act, Act::Typed { text, .. } if !turn.at_prompt && text.trim() == word)
}

/// Returns the words of a text that may be data: numbers of three digits and more, versions, identifiers and paths with
/// digits in them.
fn data_words(text: &str) -> Vec<&str> {
    let separates = |sign: char| sign.is_whitespace() || "'\"`()[]{}<>;|&=,$".contains(sign);
    let mut words = BTreeSet::new();
    let mut ordered = Vec::new();
    for whole in text.split(separates) {
        let whole = whole.trim_end_matches(['.', ':', '!', '?']);
        // A port within an address, the last part of a path.
        let parts = whole.split([':', '/', '@']).filter(|part| part.len() < whole.len());
        for word in std::iter::once(whole).chain(parts) {
            if is_data(word) && words.insert(word) {
                ordered.push(word);
            }
        }
    }
    ordered
}

fn is_data(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_option = word.starts_with('-');
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let is_constant = matches!(word, "127.0.0.1" | "0.0.0.0" | "::1");
    let says_enough = if is_number { digits >= 3 } else { digits >= 1 && word.len() >= 4 };
    says_enough && !is_option && !is_constant && word.len() <= 200
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| stands_alone(text, at, at + word.len()))
}

/// Returns the lines that have the word, last first, and where.
fn rows_with(lines: &[&str], word: &str) -> Vec<(usize, usize)> {
    let at = |line: &str| {
        let mut found = line.match_indices(word).map(|(at, _)| at);
        found.find(|at| stands_alone(line, *at, at + word.len())).filter(|_| line.len() <= MAX_LINE_BYTES)
    };
    (0..lines.len()).rev().filter_map(|row| at(lines[row]).map(|at| (row, at))).collect()
}

/// Maximum length of the line of a pattern, in bytes.
const MAX_LINE_BYTES: usize = 400;

/// Names a value after the last word before it.
fn name_of(before: &str, found: &[Extraction], bindings: &[Binding]) -> String {
    let is_name = |word: &&str| word.len() >= 2 && word.chars().all(|sign| sign.is_ascii_alphabetic() || sign == '_');
    let words = before.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_'));
    let named = words.rev().take(4).find(is_name).map(str::to_ascii_lowercase);
    let base = match named.as_deref() {
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
        found.iter().any(|one| one.binding.name == name) || bindings.iter().any(|binding| binding.name == name)
    };
    let numbered = (2..).map(|number| format!("{base}_{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(base)
}

/// Maximum number of rows above a value, and below it, that identify it: a commit has its message four rows below its hash.
const MAX_ROWS_ABOVE: usize = 3;
const MAX_ROWS_BELOW: usize = 4;

/// Maximum number of recorded rows that must be there again.
const MAX_RECORDED_ROWS: usize = 60;

/// The pattern between two rows.
const BETWEEN: &str = r"\s*\n\s*";

/// An output with a value.
struct Output<'o> {
    lines: &'o [&'o str],
    word: &'o str,
    bindings: &'o [Binding],
    facts: &'o KnownFacts,
}

impl Output<'_> {
    /// Returns the pattern that reads the value at this place with a group of this name, with a group that finds another place
    /// that looks so. None where one does in the recording.
    fn reading(&self, row: usize, at: usize, name: &str) -> Option<String> {
        let value = |group: &str, bindings: &[Binding]| self.row(row, at, group, bindings);
        let any = class_of(self.word);
        let alone = format!("^ *{} *$", value(any, &[]));
        let is_alike: Vec<bool> = self.lines.iter().map(|line| is_at_beginning(&alone, line)).collect();
        let is_filled = |row: &usize| !self.lines[*row].trim().is_empty();
        let above = (0..row).rev().filter(is_filled).take(MAX_ROWS_ABOVE).take_while(|row| !is_alike[*row]);
        let below =
            (row + 1..self.lines.len()).filter(is_filled).take(MAX_ROWS_BELOW).take_while(|row| !is_alike[*row]);
        let general =
            |row: &usize, bindings: &[Binding]| general(self.lines[*row].trim(), bindings, self.facts, Leeway::Data);
        let pattern = |around: &[usize], group: &str, bindings: &[Binding]| {
            let begin = around.iter().filter(|one| **one < row).map(|one| general(one, bindings));
            let end = around.iter().filter(|one| **one > row).map(|one| general(one, bindings));
            let rows: Vec<String> = begin.chain([value(group, bindings)]).chain(end).collect();
            format!("^ *{} *$", rows.join(BETWEEN))
        };
        let windows = [above.collect::<Vec<usize>>(), below.collect()].into_iter().flat_map(|rows| {
            (1..=rows.len()).map(move |count| {
                let mut window = rows[..count].to_vec();
                window.sort_unstable();
                window
            })
        });
        let tells = |window: &Vec<usize>| window.is_empty() || window.iter().any(|row| has_word(&general(row, &[])));
        let window = std::iter::once(Vec::new()).chain(windows).filter(tells).find(|window| {
            let begins = self.places(&pattern(window, any, &[]));
            begins == [window.first().copied().unwrap_or(row).min(row)]
        })?;
        let another = pattern(&window, any, self.bindings);
        let [below, _] = OTHER_ROWS;
        let pattern = pattern(&window, &format!("(?P<{name}>{any})"), self.bindings);
        Some(format!(r"{pattern}(?P<{below}>[\s\S]*{another})?"))
    }

    /// Returns the pattern of the rows from the first to the last one that looks like that of the value, each with its own value, with
    /// groups that find another such row.
    fn recorded_rows(&self, row: usize, at: usize) -> String {
        let alone = format!("^ *{} *$", self.row(row, at, class_of(self.word), &[]));
        let alike: Vec<usize> = (0..self.lines.len()).filter(|row| is_at_beginning(&alone, self.lines[*row])).collect();
        let (first, last) = (alike.first().copied().unwrap_or(row), alike.last().copied().unwrap_or(row));
        let is_long = last - first >= MAX_RECORDED_ROWS;
        let rows = if is_long { row..row + 1 } else { first..last + 1 };
        let rows = rows.map(|row| self.lines[row].trim()).filter(|line| !line.is_empty());
        let rows = rows.map(|line| general(line, self.bindings, self.facts, Leeway::Nothing)).collect::<Vec<_>>();
        let rows = format!("^ *{} *$", rows.join(BETWEEN));
        if is_long {
            return rows;
        }
        let [above, below] = OTHER_ROWS;
        let another = format!("^ *{} *$", self.row(row, at, class_of(self.word), self.bindings));
        format!(r"(?P<{above}>{another}[\s\S]*)?{rows}(?P<{below}>[\s\S]*{another})?")
    }

    /// Returns the pattern of a row with a group in place of the value.
    fn row(&self, row: usize, at: usize, group: &str, bindings: &[Binding]) -> String {
        let line = self.lines[row];
        let part = |text: &str| general(text, bindings, self.facts, Leeway::Data);
        format!("{}{group}{}", part(line[..at].trim_start()), part(line[at + self.word.len()..].trim_end()))
    }

    /// Returns the rows at which a pattern begins to match.
    fn places(&self, pattern: &str) -> Vec<usize> {
        let text = |row: usize| self.lines[row..].iter().take(1 + MAX_ROWS_BELOW * 4).copied().collect::<Vec<_>>();
        let is_place =
            |row: &usize| !self.lines[*row].trim().is_empty() && is_at_beginning(pattern, &text(*row).join("\n"));
        (0..self.lines.len()).filter(is_place).collect()
    }
}

/// Returns whether a pattern matches at the beginning of a text. One that needs too much work may do so.
fn is_at_beginning(pattern: &str, text: &str) -> bool {
    let pattern = Pattern::new(&format!(r"(?m)\A(?:{pattern})"));
    pattern.is_ok_and(|pattern| pattern.is_match(text).unwrap_or(true))
}

/// Returns the pattern of another value like this one.
fn class_of(word: &str) -> &'static str {
    let is_hash = word.bytes().all(|byte| byte.is_ascii_hexdigit()) && word.len() >= MIN_HASH_BYTES;
    match word.bytes().all(|byte| byte.is_ascii_digit()) {
        true => r"\d+",
        false if is_hash => "[0-9A-Fa-f]{7,}",
        false => r"[\w.:/+-]*\w",
    }
}

/// Minimum length of a hash, as of a commit.
const MIN_HASH_BYTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_data() {
        assert_eq!(data_words("curl http://127.0.0.1:8123/x"), ["http://127.0.0.1:8123/x", "8123"]);
        assert_eq!(data_words("git show 1f3a9b2 -n3 y 7"), ["1f3a9b2"]);
    }

    /// Returns the pattern for a value in an output, and whether it reads the value.
    fn pattern(output: &str, word: &str) -> (String, bool) {
        let lines: Vec<&str> = output.lines().collect();
        let output = Output { lines: &lines, word, bindings: &[], facts: &KnownFacts::default() };
        let rows = rows_with(&lines, word);
        let read = rows.iter().find_map(|(row, at)| output.reading(*row, *at, "value"));
        let is_read = read.is_some();
        (read.unwrap_or_else(|| output.recorded_rows(rows[0].0, rows[0].1)), is_read)
    }

    /// Returns the value that a machine types where a program prints this; none where the run stops.
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
    fn a_value_is_named_and_read_with_a_group() {
        let line = "Serving HTTP on 0.0.0.0 port 8123 (http://0.0.0.0:8123/) ...";
        let (_, at) = rows_with(&[line], "8123")[0];
        assert_eq!(name_of(&line[..at], &[], &[]), "read_port");
        let row = r"Serving HTTP on \d+\.\d+\.\d+\.\d+ port GROUP \(http://\d+\.\d+\.\d+\.\d+:\d+/\) \.\.\.";
        let row = |group| format!("^ *{} *$", row.replace("GROUP", group));
        let (pattern, is_read) = pattern(line, "8123");
        assert!(is_read);
        assert_eq!(pattern, format!(r"{}(?P<another_row>[\s\S]*{})?", row(r"(?P<value>\d+)"), row(r"\d+")));
    }

    #[test]
    fn a_value_is_read_off_its_own_row_and_off_no_other_one() {
        let log = "3fa9c1d add page\n9b2e77a fix typo\n1c0ffee begin\n";
        let hashes = "commit 3fa9c1d\ncommit 9b2e77a\ncommit 1c0ffee\n";
        let full = "commit 3fa9c1d\nAuthor: a\n\n    add\n\ncommit 9b2e77a\nAuthor: a\n\n    fix\n";
        let table = "ID    NAME   STATE\n1182  web    running\n3345  db     running\n";
        let headed = "Active:\n  id 4711\nOld:\n  id 1200\n";
        // The recorded output, the value, what is printed the next time, and what is typed then.
        let cases = [
            (log, "9b2e77a", "77ab12c new one\n3fa9c1d add page\n9b2e77a fix typo\n1c0ffee begin\n", Some("9b2e77a")),
            (log, "9b2e77a", "8d3f00b fix typo\n3fa9c1d add page\n1c0ffee begin\n", Some("8d3f00b")),
            (log, "9b2e77a", "77ab12c new one\n3fa9c1d add page\n1c0ffee begin\n", None),
            (log, "9b2e77a", "77ab12c fix typo\n3fa9c1d add page\n9b2e77a fix typo\n", None),
            (log, "9b2e77a", "77ab12c fix typo again\n3fa9c1d add page\n", None),
            // Rows that look alike.
            (hashes, "9b2e77a", hashes, Some("9b2e77a")),
            (hashes, "9b2e77a", "commit 77ab12c\ncommit 3fa9c1d\ncommit 9b2e77a\n", None),
            (hashes, "3fa9c1d", "commit 77ab12c\ncommit 3fa9c1d\ncommit 9b2e77a\ncommit 1c0ffee\n", None),
            (hashes, "1c0ffee", "commit 3fa9c1d\ncommit 9b2e77a\ncommit 1c0ffee\ncommit 0aaaaa1\n", None),
            ("commit 3fa9c1d\ncommit 9b2e77a\n", "3fa9c1d", "commit 77ab12c\ncommit 3fa9c1d\ncommit 9b2e77a\n", None),
            ("commit 3fa9c1d\n", "3fa9c1d", "commit 77ab12c\n", Some("77ab12c")),
            ("commit 3fa9c1d\n", "3fa9c1d", "commit 77ab12c\ncommit 3fa9c1d\n", None),
            ("4711\n4712\n4713\n", "4712", "4700\n4711\n4712\n4713\n", None),
            ("4711\n", "4711", "4712\n", Some("4712")),
            // The rows around tell them.
            (full, "9b2e77a", &format!("commit 77ab12c\nAuthor: a\n\n    new\n\n{full}"), Some("9b2e77a")),
            (full, "9b2e77a", "commit 77ab12c\nAuthor: a\n\n    new\n\ncommit 3fa9c1d\nAuthor: a\n\n    add\n", None),
            (headed, "1200", "Old:\n  id 1201\nActive:\n  id 1200\n", Some("1201")),
            (headed, "1200", "Active:\n  id 4711\n  id 4712\nOld:\n  id 1300\n", Some("1300")),
            (headed, "1200", "Active:\n  id 4711\n  id 1200\n", None),
            // All words of the row count, its other numbers do not.
            ("Created container 4711\n", "4711", "Created container 80 failed\nCreated container 81\n", Some("81")),
            ("Created container 4711\n", "4711", "Deleted container 80\n", None),
            ("Created container 4711\n", "4711", "Created container 80\nCreated container 81\n", None),
            (table, "3345", "ID    NAME   STATE\n4001  db     running\n1182  web    running\n", Some("4001")),
            (table, "3345", "ID    NAME   STATE\n1182  web    running\n4001  prod   running\n", None),
            ("job 4202 queued behind job 1701\n", "4202", "job 4203 queued behind job 1799\n", Some("4203")),
            ("job 4202 queued behind job 1701\n", "1701", "job 4203 queued behind job 1799\n", Some("1799")),
            ("key ab12cd34 (old)\nkey ef56ab78 (new)\n", "ef56ab78", "key 12341234 (new)\n", Some("12341234")),
            ("key ab12cd34 (old)\nkey ef56ab78 (new)\n", "ef56ab78", "key ef56ab78 (old)\n", None),
            ("latest: 1.4.2\nstable: 1.3.9\n", "1.3.9", "stable: 1.4.0\nlatest: 1.5.0\n", Some("1.4.0")),
        ];
        for (recorded, word, printed, expected) in cases {
            assert_eq!(typed_at(recorded, word, printed).as_deref(), expected, "{recorded} {word} {printed}");
            assert_eq!(typed_at(recorded, word, recorded).as_deref(), Some(word), "unchanged: {recorded} {word}");
        }
    }
}
