//! Comparison of two captures of one procedure: differences become arguments, or text that waits generalise.
//!
//! The turns of both captures are aligned first, like the lines of two files in a diff: turns with the same action and
//! different values are a pair. Within a pair, typed words that differ are values of arguments, and the waits
//! generalise printed words that differ.

use std::collections::BTreeMap;

use crate::act::Act;
use crate::menu::Menu;
use crate::question::matches_in;
use crate::template::{Binding, replace_word};
use crate::turn::{Ending, Turn};
use crate::variation::remove_volatile_text;

/// The alignment of two captures. Turns are indices of the first capture, except where noted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Alignment {
    /// Values whose typed text differs in the second capture.
    pub(crate) arguments: Vec<Difference>,
    /// Printed words that differ in the second capture and are not argument values, with their counterparts, by turn.
    pub(crate) varying: BTreeMap<usize, Vec<(String, String)>>,
    /// The turn of the second capture with the same action, by turn.
    pub(crate) pairs: BTreeMap<usize, usize>,
    /// Decisions that a person or an agent has to make.
    pub(crate) undecided: Vec<String>,
}

/// A value that differs in the second capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The name of the argument.
    pub(crate) name: String,
    /// The value in the first capture.
    pub(crate) value: String,
    /// The value in the second capture.
    pub(crate) other_value: String,
    /// The turns with different values. In other turns, the same text is not a value of the argument.
    pub(crate) turns: Vec<usize>,
}

/// Maximum number of compared turns of each capture. A machine has fewer states.
const MAX_TURNS: usize = 400;

/// Aligns the turns of two captures. A capture has all its turns, and the indices of the turns in the procedure.
/// `is_known` returns true for an input, and for a value that is read from an earlier output in both captures.
pub(crate) fn align(
    (turns, procedure_turns): (&[Turn], &[usize]),
    (other_turns, other_procedure_turns): (&[Turn], &[usize]),
    is_known: impl Fn(&str, &str) -> bool,
) -> Alignment {
    let steps: Vec<Step<'_>> =
        procedure_turns.iter().take(MAX_TURNS).map(|index| Step::from_turn(turns, *index)).collect();
    let other_steps: Vec<Step<'_>> =
        other_procedure_turns.iter().take(MAX_TURNS).map(|index| Step::from_turn(other_turns, *index)).collect();
    let mut alignment = Alignment::default();
    let pairs = align_steps(&steps, &other_steps);
    for (index, other_index) in &pairs {
        alignment.pairs.insert(steps[*index].index, other_steps[*other_index].index);
        alignment.compare_typed(&steps[*index], &other_steps[*other_index], &is_known);
    }
    for (index, other_index) in &pairs {
        alignment.compare_printed(&steps[*index], &other_steps[*other_index]);
    }
    for (_, step) in steps.iter().enumerate().filter(|(index, _)| !pairs.iter().any(|(paired, _)| paired == index)) {
        alignment
            .undecided
            .push(format!("{} is only in this capture: remove it if the workflow does not need it", step.describe()));
    }
    for (_, step) in
        other_steps.iter().enumerate().filter(|(index, _)| !pairs.iter().any(|(_, paired)| paired == index))
    {
        alignment
            .undecided
            .push(format!("{} is only in the other capture: it is not part of the workflow", step.describe()));
    }
    alignment
}

/// A turn, and the question before it.
struct Step<'t> {
    index: usize,
    turn: &'t Turn,
    /// The question that the turn answers, or an empty string.
    question: &'t str,
}

impl<'t> Step<'t> {
    fn from_turn(turns: &'t [Turn], index: usize) -> Self {
        let turn = &turns[index];
        let previous = turns[..index].iter().rev().find(|previous| previous.log_index == turn.log_index);
        let question = match previous.map(|previous| &previous.ending) {
            Some(Ending::Question(line) | Ending::Password(line)) if !turn.at_prompt => line.trim(),
            _ => "",
        };
        Self { index, turn, question }
    }

    /// Returns the typed text, without its line end.
    fn text(&self) -> &'t str {
        match &self.turn.act {
            Act::Command { command, .. } => command.trim(),
            Act::Typed { text, .. } => text.trim_end_matches('\n'),
            Act::Hidden { .. } => "",
        }
    }

    fn keys(&self) -> &'t [String] {
        if let Act::Typed { keys, .. } = &self.turn.act { keys } else { &[] }
    }

    /// Returns whether the turn is a command for a shell or an interpreter. A command is compared word by word, an
    /// answer as one text.
    fn is_command(&self) -> bool {
        self.turn.at_prompt
            || matches!(self.turn.act, Act::Command { .. })
            || !self.question.contains(|character: char| character.is_alphabetic())
    }

    fn describe(&self) -> String {
        match &self.turn.act {
            Act::Hidden { row, .. } => format!("a secret at '{}'", row.trim()),
            Act::Command { .. } | Act::Typed { .. } if self.text().trim().is_empty() => {
                let keys = if self.keys().is_empty() { "enter".to_owned() } else { self.keys().join(" ") };
                format!("the key {keys}")
            }
            Act::Command { .. } | Act::Typed { .. } => format!("'{}'", self.text().trim()),
        }
    }
}

/// Programs whose first argument names their operation.
const PROGRAMS_WITH_SUBCOMMANDS: [&str; 18] = [
    "apt",
    "apt-get",
    "aws",
    "brew",
    "cargo",
    "docker",
    "gh",
    "git",
    "helm",
    "kubectl",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "systemctl",
    "terraform",
    "yarn",
];

/// Returns the similarity of two steps, from 0 (different) to 10 (equal).
fn similarity(step: &Step<'_>, other_step: &Step<'_>) -> u32 {
    if step.turn.log_index != other_step.turn.log_index {
        return 0;
    }
    match (&step.turn.act, &other_step.turn.act) {
        (Act::Hidden { row, .. }, Act::Hidden { row: other_row, .. }) => 5 + equal_word_tenths(row, other_row) / 2,
        (Act::Hidden { .. }, _) | (_, Act::Hidden { .. }) => 0,
        _ if step.turn.at_prompt != other_step.turn.at_prompt => 0,
        _ if step.text() == other_step.text() && step.keys() == other_step.keys() => {
            9 + u32::from(step.question == other_step.question)
        }
        _ if !step.is_command() || !other_step.is_command() => {
            match equal_word_tenths(step.question, other_step.question) {
                share if share >= 5 && step.keys() == other_step.keys() => share,
                _ => 0,
            }
        }
        _ => {
            let (words, other_words) = (split_words(step.text()), split_words(other_step.text()));
            let is_same_program = !words.is_empty() && words.first() == other_words.first();
            let has_subcommand = words.first().is_some_and(|program| PROGRAMS_WITH_SUBCOMMANDS.contains(program));
            let is_same = is_same_program && (!has_subcommand || words.get(1) == other_words.get(1));
            if is_same { equal_word_tenths(step.text(), other_step.text()).max(1) } else { 0 }
        }
    }
}

/// Returns the share of equal words at both ends of two texts, in tenths.
fn equal_word_tenths(left: &str, right: &str) -> u32 {
    let (left, right) = (split_words(left), split_words(right));
    let max_words = left.len().max(right.len());
    let min_words = left.len().min(right.len());
    let equal = if left.len() == right.len() {
        left.iter().zip(&right).filter(|(left, right)| left == right).count()
    } else {
        let begin = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
        let end = left.iter().rev().zip(right.iter().rev()).take_while(|(left, right)| left == right).count();
        begin + end.min(min_words - begin)
    };
    (equal * 10).checked_div(max_words).and_then(|tenths| u32::try_from(tenths).ok()).unwrap_or(10)
}

/// Returns the pairs of steps with the same action, in their order, with the greatest sum of similarities.
fn align_steps(steps: &[Step<'_>], other_steps: &[Step<'_>]) -> Vec<(usize, usize)> {
    let width = other_steps.len() + 1;
    let mut similarities = vec![0; steps.len() * other_steps.len()];
    // The greatest sum of the steps starting at a pair of positions.
    let mut best_sums = vec![0_u32; (steps.len() + 1) * width];
    for index in (0..steps.len()).rev() {
        for other_index in (0..other_steps.len()).rev() {
            let similarity = similarity(&steps[index], &other_steps[other_index]);
            similarities[index * other_steps.len() + other_index] = similarity;
            let skipped = best_sums[(index + 1) * width + other_index].max(best_sums[index * width + other_index + 1]);
            let paired = if similarity > 0 { similarity + best_sums[(index + 1) * width + other_index + 1] } else { 0 };
            best_sums[index * width + other_index] = skipped.max(paired);
        }
    }
    let (mut index, mut other_index, mut pairs) = (0, 0, Vec::new());
    while index < steps.len() && other_index < other_steps.len() {
        let similarity = similarities[index * other_steps.len() + other_index];
        let sum = best_sums[index * width + other_index];
        if similarity > 0 && sum == similarity + best_sums[(index + 1) * width + other_index + 1] {
            pairs.push((index, other_index));
            (index, other_index) = (index + 1, other_index + 1);
        } else if sum == best_sums[(index + 1) * width + other_index] {
            index += 1;
        } else {
            other_index += 1;
        }
    }
    pairs
}

impl Difference {
    /// Returns the value with its variable.
    pub(crate) fn binding(&self) -> Binding {
        Binding { value: self.value.clone(), name: self.name.clone() }
    }
}

impl Alignment {
    /// Returns the values of all arguments.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = Binding> {
        self.arguments.iter().map(Difference::binding)
    }

    /// Returns whether the outputs of both captures differ only in values of arguments and volatile text.
    pub(crate) fn is_same_output(&self, output: &str, other_output: &str) -> bool {
        let expected = self
            .arguments
            .iter()
            .fold(output.to_owned(), |output, argument| replace_word(&output, &argument.value, &argument.other_value));
        remove_volatile_text(&expected) == remove_volatile_text(other_output)
    }

    /// Returns whether a pattern of the machine, with the values of the other capture, matches the output of its turn
    /// `other`.
    pub(crate) fn is_found_in(&self, pattern: &str, other: &Turn) -> bool {
        let mut pattern = pattern.to_owned();
        for argument in &self.arguments {
            pattern = pattern
                .replace(&format!("{{{}|regex}}", argument.name), &steplatch_pattern::escape(&argument.other_value));
        }
        // The other capture has no values for the remaining variables.
        while let Some((before, after)) = pattern.split_once("|regex}") {
            let Some((before, _)) = before.rsplit_once('{') else { break };
            pattern = format!("{before}.+{after}");
        }
        let screen = match (&other.ending, &other.menu) {
            (Ending::Screen(rows), _) => rows.clone(),
            (_, Menu::Drawn { rows, .. }) => rows.join("\n"),
            _ => String::new(),
        };
        let output = if let Act::Command { output, .. } = &other.act { output.as_str() } else { "" };
        let pattern = pattern.replace("{{", "{").replace("}}", "}");
        [other.printed.as_str(), output, screen.as_str()].iter().any(|text| matches_in(&pattern, text))
    }

    /// Compares the typed text of a pair of steps.
    fn compare_typed(&mut self, step: &Step<'_>, other_step: &Step<'_>, is_known: &impl Fn(&str, &str) -> bool) {
        if step.keys() != other_step.keys() {
            self.undecided.push(format!(
                "{} has different keys in the other capture: {}",
                step.describe(),
                other_step.describe()
            ));
        }
        if let (Act::Command { exit_code: Some(code), .. }, Act::Command { exit_code: Some(other_code), .. }) =
            (&step.turn.act, &other_step.turn.act)
            && code != other_code
        {
            self.undecided.push(format!(
                "{} ended with exit code {code} in this capture, with {other_code} in the other one",
                step.describe()
            ));
        }
        if step.text() == other_step.text() {
            return;
        }
        let differences = if step.is_command() {
            differences(step.text(), other_step.text())
        } else {
            vec![(step.text().trim(), other_step.text().trim())]
        };
        for (value, other_value) in differences {
            if value == other_value {
                continue;
            }
            if value.is_empty() || other_value.is_empty() {
                self.undecided.push(format!(
                    "{} is {} in the other capture: select the input for the workflow",
                    step.describe(),
                    other_step.describe()
                ));
                continue;
            }
            if is_known(value, other_value) {
                continue;
            }
            if self.is_explained_by_arguments(step.index, value, other_value) {
                continue;
            }
            let is_value = |word: &str| self.arguments.iter().any(|known| known.value == word);
            let base = if step.is_command() {
                name_in_command(step.text(), value)
            } else {
                question_name(step.question, is_value)
            };
            let base = argument_name(&base);
            let is_taken = |name: &String| self.arguments.iter().any(|known| known.name == *name);
            let numbered = (2..).map(|number| format!("{base}_{number}"));
            let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(base);
            self.arguments.push(Difference {
                name,
                value: value.to_owned(),
                other_value: other_value.to_owned(),
                turns: vec![step.index],
            });
        }
    }

    /// Compares the parts of the outputs of two steps that waits match.
    fn compare_printed(&mut self, step: &Step<'_>, other_step: &Step<'_>) {
        let mut lines = Vec::new();
        if let (
            Ending::Question(line) | Ending::Password(line),
            Ending::Question(other_line) | Ending::Password(other_line),
        ) = (&step.turn.ending, &other_step.turn.ending)
        {
            lines.push((line.as_str(), other_line.as_str()));
        }
        if !step.turn.waits.is_empty() {
            lines.extend(similar_lines(&step.turn.printed, &other_step.turn.printed));
        }
        let pairs = lines.iter().flat_map(|(line, other_line)| differences(line, other_line));
        for (word, other_word) in pairs.filter(|(word, other_word)| !word.is_empty() && !other_word.is_empty()) {
            if !self.is_explained_by_arguments(step.index, word, other_word) {
                self.varying.entry(step.index).or_default().push((word.to_owned(), other_word.to_owned()));
            }
        }
    }

    /// Returns whether two texts differ only in values of known arguments. Records this turn for these arguments.
    fn is_explained_by_arguments(&mut self, turn: usize, text: &str, other_text: &str) -> bool {
        let mut explained = text.to_owned();
        let mut used_arguments = Vec::new();
        for (index, argument) in self.arguments.iter().enumerate() {
            let replaced_text = replace_word(&explained, &argument.value, &argument.other_value);
            if replaced_text != explained {
                used_arguments.push(index);
                explained = replaced_text;
            }
        }
        let is_explained = explained == other_text;
        for index in used_arguments.into_iter().filter(|_| is_explained) {
            let argument = &mut self.arguments[index];
            if !argument.turns.contains(&turn) {
                argument.turns.push(turn);
            }
        }
        is_explained
    }
}

/// Maximum number of compared lines of the output of a turn.
const MAX_LINES: usize = 200;

/// Returns the pairs of differing but similar lines, if both outputs have the same number of lines.
fn similar_lines<'t>(output: &'t str, other_output: &'t str) -> Vec<(&'t str, &'t str)> {
    let count = output.lines().count();
    if count != other_output.lines().count() || count > MAX_LINES {
        return Vec::new();
    }
    output
        .lines()
        .zip(other_output.lines())
        .filter(|(line, other)| line != other && equal_word_tenths(line, other) >= 5)
        .collect()
}

/// Returns the parts of two texts that differ: word by word if both have the same number of words, otherwise the text
/// between the words that are equal at both ends.
fn differences<'t>(text: &'t str, other_text: &'t str) -> Vec<(&'t str, &'t str)> {
    let (words, other_words) = (split_words(text), split_words(other_text));
    if words.len() == other_words.len() {
        let pairs = words.into_iter().zip(other_words).filter(|(word, other)| word != other);
        return pairs.map(|(word, other)| strip_equal_parts(word, other)).collect();
    }
    let begin = words.iter().zip(&other_words).take_while(|(word, other)| word == other).count();
    let min_words = words.len().min(other_words.len());
    let end = words.iter().rev().zip(other_words.iter().rev()).take_while(|(word, other)| word == other).count();
    let end = end.min(min_words - begin);
    vec![(words_text(text, &words, begin, end), words_text(other_text, &other_words, begin, end))]
}

/// Returns the text of the words starting at index `begin`, without the last `end` words.
fn words_text<'t>(text: &'t str, words: &[&'t str], begin: usize, end: usize) -> &'t str {
    let Some(part) = words.get(begin..words.len() - end) else { return "" };
    let offset = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    match (part.first(), part.last()) {
        (Some(first), Some(last)) => &text[offset(first)..offset(last) + last.len()],
        _ => "",
    }
}

/// Separators of the parts of a word, as in options, paths, addresses and lists.
const PART_SEPARATORS: [char; 5] = ['=', '/', ':', '@', ','];

/// Returns the parts of two words that differ, without quotes and without equal parts at both ends.
fn strip_equal_parts<'t>(left: &'t str, right: &'t str) -> (&'t str, &'t str) {
    let begin = common_parts_length(left.chars(), right.chars());
    let (left, right) = (&left[begin..], &right[begin..]);
    let end = common_parts_length(left.chars().rev(), right.chars().rev());
    let (left, right) = (&left[..left.len() - end], &right[..right.len() - end]);
    (strip_quotes(left), strip_quotes(right))
}

/// Returns the length in bytes of the longest common beginning that ends with a separator.
fn common_parts_length(left: impl Iterator<Item = char>, right: impl Iterator<Item = char>) -> usize {
    let (mut length, mut complete_parts) = (0, 0);
    for (character, _) in left.zip(right).take_while(|(character, right)| character == right) {
        length += character.len_utf8();
        if PART_SEPARATORS.contains(&character) {
            complete_parts = length;
        }
    }
    complete_parts
}

fn strip_quotes(word: &str) -> &str {
    let word = word.trim_matches(['(', ')', '[', ']', ',', ':', ';', '?', '!', '<', '>']);
    let is_quoted = |quote| word.len() >= 2 && word.starts_with(quote) && word.ends_with(quote);
    if is_quoted('"') || is_quoted('\'') { &word[1..word.len() - 1] } else { word }
}

/// Returns the words of text. White space in quotes does not separate words.
fn split_words(text: &str) -> Vec<&str> {
    let (mut words, mut begin, mut quote) = (Vec::new(), None, None);
    for (index, character) in text.char_indices() {
        if character.is_whitespace() && quote.is_none() {
            words.extend(begin.take().map(|begin| &text[begin..index]));
            continue;
        }
        begin = begin.or(Some(index));
        match quote {
            Some(open) if open == character => quote = None,
            // An apostrophe within a word is not a quote.
            None if matches!(character, '"' | '\'') && text[index + 1..].contains(character) => quote = Some(character),
            _ => {}
        }
    }
    words.extend(begin.map(|begin| &text[begin..]));
    words
}

/// Words of questions that do not name their subject.
const FILLER_WORDS: [&str; 21] = [
    "a", "an", "and", "are", "choose", "do", "enter", "for", "is", "of", "or", "please", "should", "the", "this", "to",
    "want", "what", "which", "you", "your",
];

/// Returns a name for the argument that a question requests: the first words that name its subject.
pub(crate) fn question_name(line: &str, is_value: impl Fn(&str) -> bool) -> String {
    let line = line.split(['(', '[']).find(|part| part.contains(char::is_alphabetic)).unwrap_or_default();
    let words = line.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name_words: Vec<String> = words
        .filter(|word| !is_value(word) && !FILLER_WORDS.contains(&word.to_ascii_lowercase().as_str()))
        .map(str::to_ascii_uppercase)
        .take(3)
        .collect();
    if name_words.is_empty() { "ANSWER".to_owned() } else { name_words.join("_") }
}

/// Returns a valid argument name, beginning with a letter.
fn argument_name(name: &str) -> String {
    let name = name.trim_start_matches('_');
    if name.starts_with(|first: char| first.is_ascii_uppercase()) { name.to_owned() } else { format!("INPUT_{name}") }
}

/// Returns a name for an argument of a command: its option, or the word before it.
fn name_in_command(command: &str, value: &str) -> String {
    let words = split_words(command);
    let index = words.iter().position(|word| word.contains(value)).unwrap_or(0);
    let value_word = words.get(index).copied().unwrap_or_default();
    let option = value_word.split_once('=').map(|(option, _)| option);
    let previous_word = index.checked_sub(1).and_then(|previous| words.get(previous)).copied();
    let name = option.or(previous_word).unwrap_or_default().trim_matches('-');
    let name: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' })
        .collect();
    match (option, index) {
        _ if name.trim_matches('_').len() < 2 => "VALUE".to_owned(),
        (None, 1) => format!("{name}_ARGUMENT"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_between_words_are_found() {
        assert_eq!(split_words("git commit -m 'two words' x"), ["git", "commit", "-m", "'two words'", "x"]);
        assert_eq!(split_words("it's done"), ["it's", "done"]);
        assert_eq!(differences("git commit -m 'a fix'", "git commit -m \"other\""), [("a fix", "other")]);
        assert_eq!(differences("curl -o out http://h:81/a/b", "curl -o out http://h:82/a/b"), [("81", "82")]);
        assert_eq!(differences("make --jobs=2 all", "make --jobs=3 all"), [("2", "3")]);
        assert_eq!(differences("git tag v1.2", "git tag v1.3"), [("v1.2", "v1.3")]);
        assert_eq!(differences("add one two end", "add three end"), [("one two", "three")]);
        assert_eq!(differences("add end", "add three end"), [("", "three")]);
    }

    #[test]
    fn arguments_are_named_after_their_question() {
        let name = |line| question_name(line, |word| word == "shop");
        assert_eq!(name("Licence for shop: [MIT]"), "LICENCE");
        assert_eq!(name("package name: (demo)"), "PACKAGE_NAME");
        assert_eq!(name("What is your name?"), "NAME");
        assert_eq!(name("[sudo] ?"), "SUDO");
        assert_eq!(name(">"), "ANSWER");
        assert_eq!(name_in_command("make --jobs=2", "2"), "JOBS");
        assert_eq!(name_in_command("git tag v1", "v1"), "TAG");
        assert_eq!(name_in_command("mkdir demo", "demo"), "MKDIR_ARGUMENT");
        assert_eq!(name_in_command("git commit -m 'a fix'", "a fix"), "VALUE");
        assert_eq!(argument_name(&name_in_command("(Pdb) make", "make")), "PDB__ARGUMENT");
        assert_eq!(argument_name(&question_name("2nd disk? ", |_| false)), "INPUT_2ND_DISK");
    }
}
