//! Two captures of one procedure: what differs between them is an argument, or changes from one time to the next.
//!
//! Aligns the turns of both first, as a comparison of files aligns lines: turns that do the same with other values are
//! a pair. Within a pair, typed words that differ are values of arguments, and the waits generalise printed words that
//! differ.

use std::collections::BTreeMap;

use crate::menu::Menu;
use crate::question::stands_in;
use crate::template::{Binding, replaced};
use crate::turn::{Act, Ending, Turn};
use crate::variation::normalised;

/// The common part of two captures, from the first one's point of view.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Alignment {
    /// Values with other typed text in the second capture.
    pub(crate) arguments: Vec<Difference>,
    /// Printed words that are others in the second capture and no argument's value, with those others, by turn.
    pub(crate) varying: BTreeMap<usize, Vec<(String, String)>>,
    /// The turn of the second capture that does the same, by turn.
    pub(crate) pairs: BTreeMap<usize, usize>,
    /// Decisions that a person or an agent has to make.
    pub(crate) undecided: Vec<String>,
}

/// A value that is another one in the second capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The name of the argument.
    pub(crate) name: String,
    /// The value in the first capture.
    pub(crate) value: String,
    /// The value in the second one.
    pub(crate) other: String,
    /// The turns in which it differs. Elsewhere, the same text is no value of the argument.
    pub(crate) turns: Vec<usize>,
}

/// Maximum number of compared turns of each capture. A machine has fewer states.
const MAX_TURNS: usize = 400;

/// Aligns turns with those of another capture: all of each, and the positions of those that are part of the procedure.
/// `is_known` states whether a value and its other one are known: an input, or read off an earlier output in both.
pub(crate) fn align(
    (turns, kept): (&[Turn], &[usize]),
    (others, kept_others): (&[Turn], &[usize]),
    is_known: impl Fn(&str, &str) -> bool,
) -> Alignment {
    let (kept, kept_others) = (&kept[..kept.len().min(MAX_TURNS)], &kept_others[..kept_others.len().min(MAX_TURNS)]);
    let steps: Vec<Step<'_>> = kept.iter().map(|index| Step::from_turn(turns, *index)).collect();
    let other_steps: Vec<Step<'_>> = kept_others.iter().map(|index| Step::from_turn(others, *index)).collect();
    let mut made = Alignment::default();
    let pairs = pairs(&steps, &other_steps);
    for (one, other) in &pairs {
        made.pairs.insert(steps[*one].index, other_steps[*other].index);
        made.typed(&steps[*one], &other_steps[*other], &is_known);
    }
    for (one, other) in &pairs {
        made.printed(&steps[*one], &other_steps[*other]);
    }
    for (_, step) in steps.iter().enumerate().filter(|(at, _)| !pairs.iter().any(|(one, _)| one == at)) {
        made.undecided.push(format!(
            "{} was done in this capture and not in the other one: take it out where it is not needed",
            step.describe()
        ));
    }
    for (_, step) in other_steps.iter().enumerate().filter(|(at, _)| !pairs.iter().any(|(_, other)| other == at)) {
        made.undecided.push(format!(
            "{} was done in the other capture and not in this one: it is no part of the workflow",
            step.describe()
        ));
    }
    made
}

/// A turn, and what stood before it.
struct Step<'t> {
    index: usize,
    turn: &'t Turn,
    /// The question that it answers; empty without one.
    asked: &'t str,
}

impl<'t> Step<'t> {
    fn from_turn(turns: &'t [Turn], index: usize) -> Self {
        let turn = &turns[index];
        let before = turns[..index].iter().rev().find(|before| before.log == turn.log);
        let asked = match before.map(|before| &before.ending) {
            Some(Ending::Question(line) | Ending::Password(line)) if !turn.at_prompt => line.trim(),
            _ => "",
        };
        Self { index, turn, asked }
    }

    /// Returns the typed text, without the end of its line.
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

    /// Returns whether it is a command for a shell or interpreter, compared by parts. The comparison of an answer takes
    /// all of it.
    fn is_command(&self) -> bool {
        self.turn.at_prompt
            || matches!(self.turn.act, Act::Command { .. })
            || !self.asked.contains(|sign: char| sign.is_alphabetic())
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
const WITH_SUBCOMMANDS: [&str; 18] = [
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

/// Returns how much two steps do the same, from 0 (not at all) to 10.
fn likeness(one: &Step<'_>, other: &Step<'_>) -> u32 {
    if one.turn.log != other.turn.log {
        return 0;
    }
    match (&one.turn.act, &other.turn.act) {
        (Act::Hidden { row, .. }, Act::Hidden { row: other, .. }) => 5 + share(row, other) / 2,
        (Act::Hidden { .. }, _) | (_, Act::Hidden { .. }) => 0,
        _ if one.turn.at_prompt != other.turn.at_prompt => 0,
        _ if one.text() == other.text() && one.keys() == other.keys() => 9 + u32::from(one.asked == other.asked),
        _ if !one.is_command() || !other.is_command() => match share(one.asked, other.asked) {
            share if share >= 5 && one.keys() == other.keys() => share,
            _ => 0,
        },
        _ => {
            let (words, other_words) = (split_words(one.text()), split_words(other.text()));
            let is_same_program = !words.is_empty() && words.first() == other_words.first();
            let has_subcommand = words.first().is_some_and(|program| WITH_SUBCOMMANDS.contains(program));
            let is_same = is_same_program && (!has_subcommand || words.get(1) == other_words.get(1));
            if is_same { share(one.text(), other.text()).max(1) } else { 0 }
        }
    }
}

/// Returns the share of equal words at the beginnings and ends of two texts, from 0 to 10.
fn share(one: &str, other: &str) -> u32 {
    let (one, other) = (split_words(one), split_words(other));
    let longest = one.len().max(other.len());
    let shortest = one.len().min(other.len());
    let same = if one.len() == other.len() {
        one.iter().zip(&other).filter(|(one, other)| one == other).count()
    } else {
        let begin = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
        let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
        begin + end.min(shortest - begin)
    };
    (same * 10).checked_div(longest).and_then(|share| u32::try_from(share).ok()).unwrap_or(10)
}

/// Returns the pairs of steps that do the same, in their order, with the greatest sum of likeness.
fn pairs(one: &[Step<'_>], other: &[Step<'_>]) -> Vec<(usize, usize)> {
    let width = other.len() + 1;
    let mut likenesses = vec![0; one.len() * other.len()];
    // The greatest sum from a pair of positions to the ends.
    let mut sums = vec![0_u32; (one.len() + 1) * width];
    for at in (0..one.len()).rev() {
        for with in (0..other.len()).rev() {
            let like = likeness(&one[at], &other[with]);
            likenesses[at * other.len() + with] = like;
            let skipped = sums[(at + 1) * width + with].max(sums[at * width + with + 1]);
            let paired = if like > 0 { like + sums[(at + 1) * width + with + 1] } else { 0 };
            sums[at * width + with] = skipped.max(paired);
        }
    }
    let (mut at, mut with, mut pairs) = (0, 0, Vec::new());
    while at < one.len() && with < other.len() {
        let like = likenesses[at * other.len() + with];
        let sum = sums[at * width + with];
        if like > 0 && sum == like + sums[(at + 1) * width + with + 1] {
            pairs.push((at, with));
            (at, with) = (at + 1, with + 1);
        } else if sum == sums[(at + 1) * width + with] {
            at += 1;
        } else {
            with += 1;
        }
    }
    pairs
}

impl Difference {
    /// Returns the value with the variable that stands for it.
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
    pub(crate) fn is_same_output(&self, output: &str, other: &str) -> bool {
        let with_others =
            self.arguments.iter().fold(output.to_owned(), |output, one| replaced(&output, &one.value, &one.other));
        normalised(&with_others) == normalised(other)
    }

    /// Returns whether a machine's pattern, with the other capture's values, matches the output of that capture's turn.
    pub(crate) fn is_found_in(&self, pattern: &str, other: &Turn) -> bool {
        let mut pattern = pattern.to_owned();
        for argument in &self.arguments {
            pattern =
                pattern.replace(&format!("{{{}|regex}}", argument.name), &steplatch_pattern::escape(&argument.other));
        }
        // The other capture does not have the other variables.
        while let Some((before, rest)) = pattern.split_once("|regex}") {
            let Some((before, _)) = before.rsplit_once('{') else { break };
            pattern = format!("{before}.+{rest}");
        }
        let screen = match (&other.ending, &other.menu) {
            (Ending::Screen(rows), _) => rows.clone(),
            (_, Menu::Drawn { rows, .. }) => rows.join("\n"),
            _ => String::new(),
        };
        let output = if let Act::Command { output, .. } = &other.act { output.as_str() } else { "" };
        let pattern = pattern.replace("{{", "{").replace("}}", "}");
        [other.printed.as_str(), output, screen.as_str()].iter().any(|text| stands_in(&pattern, text))
    }

    /// Compares what a pair of steps types.
    fn typed(&mut self, one: &Step<'_>, other: &Step<'_>, is_known: &impl Fn(&str, &str) -> bool) {
        if one.keys() != other.keys() {
            self.undecided.push(format!(
                "{} has other keys in the other capture: {}",
                one.describe(),
                other.describe()
            ));
        }
        if let (Act::Command { exit_code: Some(code), .. }, Act::Command { exit_code: Some(other_code), .. }) =
            (&one.turn.act, &other.turn.act)
            && code != other_code
        {
            self.undecided.push(format!(
                "{} ended with exit code {code} in this capture, with {other_code} in the other one",
                one.describe()
            ));
        }
        if one.text() == other.text() {
            return;
        }
        let differences = if one.is_command() {
            differences(one.text(), other.text())
        } else {
            vec![(one.text().trim(), other.text().trim())]
        };
        for (value, other_value) in differences {
            if value == other_value {
                continue;
            }
            if value.is_empty() || other_value.is_empty() {
                self.undecided.push(format!(
                    "{} is {} in the other capture: decide which one the workflow types",
                    one.describe(),
                    other.describe()
                ));
                continue;
            }
            if is_known(value, other_value) {
                continue;
            }
            if self.explains(one.index, value, other_value) {
                continue;
            }
            let is_value = |word: &str| self.arguments.iter().any(|known| known.value == word);
            let base = if one.is_command() {
                name_in_command(one.text(), value)
            } else {
                name_of_question(one.asked, is_value)
            };
            let base = argument_name(&base);
            let is_taken = |name: &String| self.arguments.iter().any(|known| known.name == *name);
            let numbered = (2..).map(|number| format!("{base}_{number}"));
            let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(base);
            self.arguments.push(Difference {
                name,
                value: value.to_owned(),
                other: other_value.to_owned(),
                turns: vec![one.index],
            });
        }
    }

    /// Compares those parts of the outputs of two steps that a wait matches.
    fn printed(&mut self, one: &Step<'_>, other: &Step<'_>) {
        let mut lines = Vec::new();
        if let (
            Ending::Question(line) | Ending::Password(line),
            Ending::Question(other_line) | Ending::Password(other_line),
        ) = (&one.turn.ending, &other.turn.ending)
        {
            lines.push((line.as_str(), other_line.as_str()));
        }
        if !one.turn.waits.is_empty() {
            lines.extend(lines_alike(&one.turn.printed, &other.turn.printed));
        }
        let all = lines.iter().flat_map(|(line, other_line)| differences(line, other_line));
        for (word, other_word) in all.filter(|(word, other_word)| !word.is_empty() && !other_word.is_empty()) {
            if !self.explains(one.index, word, other_word) {
                self.varying.entry(one.index).or_default().push((word.to_owned(), other_word.to_owned()));
            }
        }
    }

    /// Returns whether a text is another one only by values of known arguments, which then differ in this turn, too.
    fn explains(&mut self, turn: usize, text: &str, other: &str) -> bool {
        let mut explained = text.to_owned();
        let mut used = Vec::new();
        for (index, known) in self.arguments.iter().enumerate() {
            let with = replaced(&explained, &known.value, &known.other);
            if with != explained {
                used.push(index);
                explained = with;
            }
        }
        let is_explained = explained == other;
        for index in used.into_iter().filter(|_| is_explained) {
            let known = &mut self.arguments[index];
            if !known.turns.contains(&turn) {
                known.turns.push(turn);
            }
        }
        is_explained
    }
}

/// Maximum number of compared lines of a turn's output.
const MAX_LINES: usize = 200;

/// Returns the lines of two outputs that differ at the same place, where both have as many.
fn lines_alike<'t>(one: &'t str, other: &'t str) -> Vec<(&'t str, &'t str)> {
    let count = one.lines().count();
    if count != other.lines().count() || count > MAX_LINES {
        return Vec::new();
    }
    one.lines().zip(other.lines()).filter(|(one, other)| one != other && share(one, other) >= 5).collect()
}

/// Returns the parts of two texts that differ. As many words: word by word; otherwise what stands between the words that
/// they begin and end with.
fn differences<'t>(one: &'t str, other: &'t str) -> Vec<(&'t str, &'t str)> {
    let (words, other_words) = (split_words(one), split_words(other));
    if words.len() == other_words.len() {
        let pairs = words.into_iter().zip(other_words).filter(|(word, other)| word != other);
        return pairs.map(|(word, other)| narrowed(word, other)).collect();
    }
    let begin = words.iter().zip(&other_words).take_while(|(word, other)| word == other).count();
    let shortest = words.len().min(other_words.len());
    let end = words.iter().rev().zip(other_words.iter().rev()).take_while(|(word, other)| word == other).count();
    let end = end.min(shortest - begin);
    vec![(between(one, &words, begin, end), between(other, &other_words, begin, end))]
}

/// Returns the part of a text from its word `begin` to before its last `end` ones.
fn between<'t>(text: &'t str, words: &[&'t str], begin: usize, end: usize) -> &'t str {
    let Some(part) = words.get(begin..words.len() - end) else { return "" };
    let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    match (part.first(), part.last()) {
        (Some(first), Some(last)) => &text[place(first)..place(last) + last.len()],
        _ => "",
    }
}

/// Signs at which a word has parts: options, paths, addresses, lists.
const PARTS: [char; 5] = ['=', '/', ':', '@', ','];

/// Returns the parts of two words that differ, without quotes and without whole parts that are the same.
fn narrowed<'t>(one: &'t str, other: &'t str) -> (&'t str, &'t str) {
    let begin = same_parts(one.chars(), other.chars());
    let (one, other) = (&one[begin..], &other[begin..]);
    let end = same_parts(one.chars().rev(), other.chars().rev());
    let (one, other) = (&one[..one.len() - end], &other[..other.len() - end]);
    (unquoted(one), unquoted(other))
}

/// Returns the length, in bytes, of what two words begin with that ends with a sign between parts.
fn same_parts(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    let (mut length, mut whole) = (0, 0);
    for (sign, _) in one.zip(other).take_while(|(sign, other)| sign == other) {
        length += sign.len_utf8();
        if PARTS.contains(&sign) {
            whole = length;
        }
    }
    whole
}

fn unquoted(word: &str) -> &str {
    let word = word.trim_matches(['(', ')', '[', ']', ',', ':', ';', '?', '!', '<', '>']);
    let is_quoted = |quote| word.len() >= 2 && word.starts_with(quote) && word.ends_with(quote);
    if is_quoted('"') || is_quoted('\'') { &word[1..word.len() - 1] } else { word }
}

/// Returns the words of a text. What stands in quotes is no border.
fn split_words(text: &str) -> Vec<&str> {
    let (mut words, mut begin, mut quote) = (Vec::new(), None, None);
    for (at, sign) in text.char_indices() {
        if sign.is_whitespace() && quote.is_none() {
            words.extend(begin.take().map(|begin| &text[begin..at]));
            continue;
        }
        begin = begin.or(Some(at));
        match quote {
            Some(open) if open == sign => quote = None,
            // An apostrophe within a word of a sentence opens nothing.
            None if matches!(sign, '"' | '\'') && text[at + 1..].contains(sign) => quote = Some(sign),
            _ => {}
        }
    }
    words.extend(begin.map(|begin| &text[begin..]));
    words
}

/// Words of questions that name nothing.
const EMPTY_WORDS: [&str; 21] = [
    "a", "an", "and", "are", "choose", "do", "enter", "for", "is", "of", "or", "please", "should", "the", "this", "to",
    "want", "what", "which", "you", "your",
];

/// Returns the name of an argument that a line requests: its first words with a meaning.
pub(crate) fn name_of_question(line: &str, is_value: impl Fn(&str) -> bool) -> String {
    let line = line.split(['(', '[']).find(|part| part.contains(char::is_alphabetic)).unwrap_or_default();
    let words = line.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let says: Vec<String> = words
        .filter(|word| !is_value(word) && !EMPTY_WORDS.contains(&word.to_ascii_lowercase().as_str()))
        .map(str::to_ascii_uppercase)
        .take(3)
        .collect();
    if says.is_empty() { "ANSWER".to_owned() } else { says.join("_") }
}

/// Returns a name that an argument may have: it begins with a letter.
fn argument_name(name: &str) -> String {
    let name = name.trim_start_matches('_');
    if name.starts_with(|first: char| first.is_ascii_uppercase()) { name.to_owned() } else { format!("INPUT_{name}") }
}

/// Returns the name of an argument in a command: that of its option, or the word before it.
fn name_in_command(command: &str, value: &str) -> String {
    let words = split_words(command);
    let at = words.iter().position(|word| word.contains(value)).unwrap_or(0);
    let own = words.get(at).copied().unwrap_or_default();
    let option = own.split_once('=').map(|(option, _)| option);
    let before = at.checked_sub(1).and_then(|before| words.get(before)).copied();
    let name = option.or(before).unwrap_or_default().trim_matches('-');
    let name: String =
        name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_uppercase() } else { '_' }).collect();
    match (option, at) {
        _ if name.trim_matches('_').len() < 2 => "VALUE".to_owned(),
        (None, 1) => format!("{name}_ARGUMENT"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_what_differs_between_them() {
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
    fn arguments_are_named_after_what_asks_for_them() {
        let name = |line| name_of_question(line, |word| word == "shop");
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
        assert_eq!(argument_name(&name_of_question("2nd disk? ", |_| false)), "INPUT_2ND_DISK");
    }
}
