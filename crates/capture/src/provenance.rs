//! Values from an earlier output: a port, an identifier, a version.
//!
//! A typed word came from an earlier output if it looks like data, stands in that output and was in no earlier input.
//! The state that printed it reads it with a group, and the typed text has a variable in its place.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::machine::DIRECTORIES;
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
    /// The pattern with a group of that name.
    pub(crate) pattern: String,
}

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
                let (line, at) = line_with(printed(&turns[source]), word)?;
                // The answer to a question that offers the word is the person's choice, not a value from the output.
                Some((source, line, at)).filter(|_| source + 1 < usage || !is_offered(turn, word))
            });
            let Some((source, line, at)) = source else { continue };
            let name = name_of(&line[..at], &found, bindings);
            // The output before the first input of a value does not depend on it.
            let is_shown = |binding: &&Binding| {
                let is_typed = |turn: &Turn| contains_word(typed_text(&turn.act), &binding.value);
                DIRECTORIES.contains(&binding.name.as_str()) || turns[..=source].iter().any(is_typed)
            };
            let shown: Vec<Binding> = bindings.iter().filter(is_shown).cloned().collect();
            let pattern = pattern_of(line, at, word, &name, &shown, facts);
            let binding = Binding { value: word.to_owned(), name };
            found.push(Extraction { source, usage, binding, pattern });
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

/// Returns the last line that has the word, and where.
fn line_with<'t>(text: &'t str, word: &str) -> Option<(&'t str, usize)> {
    text.lines().rev().find_map(|line| {
        let at = line.match_indices(word).map(|(at, _)| at).find(|at| stands_alone(line, *at, at + word.len()))?;
        Some((line, at)).filter(|(line, _)| line.len() <= MAX_LINE_BYTES)
    })
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

/// Returns the pattern of a line with a group in place of the word.
fn pattern_of(line: &str, at: usize, word: &str, name: &str, bindings: &[Binding], facts: &KnownFacts) -> String {
    let (before, after) = (line[..at].trim_start(), line[at + word.len()..].trim_end());
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let group = if is_number { r"\d+" } else { r"[\w.:/+-]*\w" };
    let begin = if before.len() < line[..at].len() || before.is_empty() { "^ *" } else { "^" };
    let before = general(before, bindings, facts, Leeway::Data);
    // The text behind the value is often data too; its first sign is enough to know where the value ends.
    let after: String = after.chars().take_while(|sign| !sign.is_alphanumeric()).take(3).collect();
    let after = general(&after, &[], facts, Leeway::Data);
    format!("{begin}{before}(?P<{name}>{group}){after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_data() {
        assert_eq!(data_words("curl http://127.0.0.1:8123/x"), ["http://127.0.0.1:8123/x", "8123"]);
        assert_eq!(data_words("git show 1f3a9b2 -n3 y 7"), ["1f3a9b2"]);
    }

    #[test]
    fn a_value_is_named_and_read_with_a_group() {
        let line = "Serving HTTP on 0.0.0.0 port 8123 (http://0.0.0.0:8123/) ...";
        let (_, at) = line_with(line, "8123").unwrap();
        assert_eq!(name_of(&line[..at], &[], &[]), "read_port");
        let pattern = pattern_of(line, at, "8123", "read_port", &[], &KnownFacts::default());
        assert_eq!(pattern, r"^Serving HTTP on \d+\.\d+\.\d+\.\d+ port (?P<read_port>\d+) \(");
        assert!(steplatch_pattern::Pattern::new(&pattern).unwrap().is_match(line).unwrap());
    }
}
