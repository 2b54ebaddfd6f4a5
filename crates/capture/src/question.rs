//! Patterns of what programs show: a question without an end, a row of a full screen.
//!
//! What changes from one time to the next (numbers, times, identifiers, temporary paths, names of hosts) is generalised.

use crate::session_log::Surroundings;
use crate::template::{Binding, Use, template};

/// Returns the pattern of a line that asks: it stands at the end of what was printed.
pub(crate) fn question(line: &str, bindings: &[Binding], around: &Surroundings) -> String {
    // A line that has ended is followed by nothing but line ends.
    let end = if line.ends_with('\n') { r"\s*\Z" } else { r" *\Z" };
    let line = line.trim_end();
    let begin = line.len() - line.trim_start().len();
    let body = general(&line[begin..], bindings, around);
    // A pattern without any text of its own would be found in every line.
    let says_nothing = body.replace(r"\S+", "").replace(r"\d+", "").trim_matches([' ', '+']).is_empty();
    if says_nothing { String::new() } else { format!("^{}{body}{end}", if begin > 0 { " *" } else { "" }) }
}

/// Returns the pattern of the entry of a menu: its number and its label as they are, for another label is another choice.
/// Only what is another one the next time anyway is generalised.
pub(crate) fn entry(entry: &str, bindings: &[Binding], around: &Surroundings) -> String {
    let (number, label) = entry.split_once(' ').unwrap_or((entry, ""));
    // A number without a sign behind it is one only at the beginning of its row.
    let begin = match number.chars().next_back() {
        Some(last) if last.is_ascii_digit() => r"^[^\w\n]*",
        _ if number.starts_with(|first: char| first.is_ascii_digit()) => r"\b",
        _ => "",
    };
    let label = template(label.trim(), bindings, Use::Pattern, |part| generalised(part, around, Numbers::Kept)).0;
    format!(r"{begin}{} +{label}(?:  |\t| *$)", escaped(number))
}

/// Returns the pattern of the rows of a menu, in their order.
pub(crate) fn menu(rows: &[String], bindings: &[Binding], around: &Surroundings) -> String {
    rows.iter().map(|row| general(row, bindings, around)).collect::<Vec<_>>().join(ANYTHING)
}

/// Any text, over lines.
pub(crate) const ANYTHING: &str = r"[\s\S]*?";

/// Returns the pattern of a part of a row.
pub(crate) fn general(text: &str, bindings: &[Binding], around: &Surroundings) -> String {
    template(text, bindings, Use::Pattern, |part| generalised(part, around, Numbers::Any)).0
}

/// What numbers become in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// Any number.
    Any,
    /// The same number.
    Kept,
}

/// Escapes a text and generalises its words.
fn generalised(text: &str, around: &Surroundings, numbers: Numbers) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut pattern = String::with_capacity(text.len() + 16);
    let (mut word, mut index) = (String::new(), 0);
    let mut flush = |word: &mut String, pattern: &mut String| {
        let is_date = !word.is_empty() && numbers == Numbers::Any && is_part_of_date(&words, index);
        index += usize::from(!word.is_empty());
        let made = if is_date { date_name(word) } else { word_pattern(word, around, numbers) };
        pattern.push_str(&made);
        word.clear();
    };
    for sign in text.chars() {
        if sign.is_whitespace() {
            flush(&mut word, &mut pattern);
            if !pattern.ends_with(" +") {
                pattern.push_str(if pattern.ends_with(' ') { "+" } else { " " });
            }
        } else {
            word.push(sign);
        }
    }
    flush(&mut word, &mut pattern);
    pattern
}

/// The names of months and days of the week, as programs write dates in English.
const DATE_NAMES: [&str; 19] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Whether a word is the name of a month or a day, whole or its first three letters.
fn is_date_name(word: &str) -> bool {
    let word = word.trim_matches(AROUND).to_ascii_lowercase();
    DATE_NAMES.iter().any(|name| word == *name || (word.len() == 3 && name.starts_with(&word)))
}

/// Whether a word is such a name with a number or another such name beside it: `May` alone is a word.
fn is_part_of_date(words: &[&str], index: usize) -> bool {
    let is_date =
        |word: &&str| is_date_name(word) || word.trim_matches(AROUND).starts_with(|sign: char| sign.is_ascii_digit());
    let beside = [index.checked_sub(1), Some(index + 1)];
    words.get(index).is_some_and(|word| is_date_name(word))
        && beside.into_iter().flatten().filter_map(|at| words.get(at)).any(is_date)
}

/// Returns the pattern of a name of a date, whichever it is.
fn date_name(word: &str) -> String {
    let core = word.trim_matches(AROUND);
    let begin = word.find(core).unwrap_or(0);
    format!("{}[A-Za-z]+{}", escaped(&word[..begin]), escaped(&word[begin + core.len()..]))
}

/// Signs around a word that are no part of what changes.
const AROUND: &[char] = &['(', ')', '[', ']', '\'', '"', ',', ':', ';', '?', '!', '<', '>', '`', '…'];

fn word_pattern(word: &str, around: &Surroundings, numbers: Numbers) -> String {
    let digits = |text: &str| if numbers == Numbers::Any { digits(text) } else { escaped(text) };
    let core = word.trim_matches(AROUND);
    if core.is_empty() {
        return digits(word);
    }
    let begin = word.find(core).unwrap_or(0);
    let (before, after) = (&word[..begin], &word[begin + core.len()..]);
    let core = if changes(core, around) {
        // What a prompt ends with is not part of the name that changes.
        let end = core.rfind(|sign: char| !"#$%>:~".contains(sign)).map_or(0, |at| at + 1);
        let end = (end..=core.len()).find(|at| core.is_char_boundary(*at)).unwrap_or(core.len());
        format!(r"\S+{}", digits(&core[end..]))
    } else {
        digits(core)
    };
    format!("{}{core}{}", escaped(before), escaped(after))
}

/// Whether a word is another one the next time: an identifier, a temporary path, a name of this machine or its user.
fn changes(word: &str, around: &Surroundings) -> bool {
    let is_hex = |word: &str| {
        word.len() >= 7
            && word.chars().all(|sign| sign.is_ascii_hexdigit() || sign == '-')
            && word.contains(|sign: char| sign.is_ascii_digit())
    };
    let contains = |name: &str| name.len() >= 3 && word.contains(name);
    let is_varying = |varying: &String| varying.trim_matches(AROUND) == word;
    is_hex(word)
        || around.varying.iter().any(is_varying)
        || ["/tmp/", "/var/tmp/", "/run/user/", "/dev/shm/"].iter().any(|begin| word.starts_with(begin))
        || contains(&around.home)
        || contains(&around.directory)
        || contains(&around.host)
        || (word.contains('@') && word.starts_with(&around.user) && !around.user.is_empty())
        || word.starts_with("SHA256:")
}

/// Escapes a text, with any number in place of each number. A single digit within a word of letters stays: `y1`, `utf8`.
fn digits(text: &str) -> String {
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let length = rest.chars().take_while(char::is_ascii_digit).count();
        if length > 0 {
            let in_word = pattern.ends_with(char::is_alphabetic) && length == 1;
            pattern.push_str(if in_word { &rest[..1] } else { r"\d+" });
            rest = &rest[length..];
        } else {
            pattern.push_str(&escaped(sign.encode_utf8(&mut [0; 4])));
            rest = &rest[sign.len_utf8()..];
        }
    }
    pattern
}

/// Escapes what means something in a pattern, and nothing else: a captured pattern is read by people.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for sign in text.chars() {
        if r"\.+*?()|[]{}^$".contains(sign) {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern
}

/// Returns the row of a full screen that tells it from the one before: text that was not there, and as much of it as
/// possible.
pub(crate) fn landmark<'s>(before: Option<&str>, screen: &'s str) -> Option<&'s str> {
    let before: Vec<&str> = before.into_iter().flat_map(str::lines).map(str::trim).collect();
    let letters = |row: &str| row.chars().filter(|sign| sign.is_alphabetic()).count();
    let rows = screen.lines().map(without_frame);
    let mut best: Option<&str> = None;
    for row in rows {
        let is_new = !before.iter().any(|old| old.contains(row));
        if is_new && letters(row) >= 3 && best.is_none_or(|best| letters(row) > letters(best)) {
            best = Some(row);
        }
    }
    best
}

/// Returns a row without the frame around it.
pub(crate) fn without_frame(row: &str) -> &str {
    row.trim_matches(|sign: char| sign.is_whitespace() || is_frame(sign))
}

/// Whether a sign draws a line, a box or a block.
fn is_frame(sign: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&sign)
}

/// Whether a pattern is found in a text, in which `^` and `$` are the ends of lines, as in a wait.
pub(crate) fn stands_in(pattern: &str, text: &str) -> bool {
    let pattern = steplatch_pattern::Pattern::new(&format!("(?m){pattern}"));
    pattern.is_ok_and(|pattern| pattern.is_match(text).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            home: "/home/ana".to_owned(),
            directory: "/home/ana/shop".to_owned(),
            user: "ana".to_owned(),
            host: "mill".to_owned(),
            ..Surroundings::default()
        }
    }

    #[test]
    fn what_changes_in_a_question_is_generalised() {
        let cases = [
            ("Continue? [Y/n] ", r"^Continue\? \[Y/n\] *\Z"),
            ("version: (1.0.0) ", r"^version: \(\d+\.\d+\.\d+\) *\Z"),
            ("Overwrite /tmp/x.81/a? ", r"^Overwrite \S+\? *\Z"),
            ("ana@mill's password: ", r"^\S+ password: *\Z"),
            ("ana@mill:~# ", r"^\S+:~# *\Z"),
            ("(Pdb) ", r"^\(Pdb\) *\Z"),
            ("commit 1f3a9b2c now? ", r"^commit \S+ now\? *\Z"),
            ("Last login: Tue Nov 24 04:21 ok? ", r"^Last login: [A-Za-z]+ [A-Za-z]+ \d+ \d+:\d+ ok\? *\Z"),
            ("May I sit on the Sun? ", r"^May I sit on the Sun\? *\Z"),
            ("    utf8   ok? ", r"^ *utf8 +ok\? *\Z"),
        ];
        for (line, pattern) in cases {
            let made = question(line, &[], &around());
            assert_eq!(made, pattern, "{line}");
            let pattern = steplatch_pattern::Pattern::new(&made).unwrap();
            assert!(pattern.is_match(line).unwrap(), "{made} {line:?}");
        }
    }

    #[test]
    fn a_value_in_a_question_is_its_variable() {
        let bindings = [Binding { value: "shop".to_owned(), name: "name".to_owned() }];
        assert_eq!(question("package name: (shop) ", &bindings, &around()), r"^package name: \({name|regex}\) *\Z");
    }

    #[test]
    fn an_entry_of_a_menu_stands_there_as_it_did() {
        let entry = |text| entry(text, &[], &around());
        assert_eq!(entry("2) Ubuntu 22.04"), r"\b2\) +Ubuntu 22\.04(?:  |\t| *$)");
        assert_eq!(entry("(2) /tmp/x.81"), r"\(2\) +\S+(?:  |\t| *$)");
        assert_eq!(entry("1 /bin/nano"), r"^[^\w\n]*1 +/bin/nano(?:  |\t| *$)");
        let shows = |text, screen| stands_in(&entry(text), screen);
        assert!(shows("2) Paris", "1) Berlin   2) Paris\n#? ") && !shows("2) Paris", "12) Paris\n"));
        assert!(!shows("2) Paris", "2) Paris Nord\n") && shows("2) Paris", "2) Paris\tx\n"));
        assert!(shows("[2] two", "[1] one\n[2] two\n") && !shows("(2) two", "[2] two\n"));
        assert!(shows("1 nano", "  0   vim\n* 1   nano   10\n") && !shows("1 nano", "  0 1 nano\n"));
    }

    #[test]
    fn a_line_that_has_ended_is_the_last_one() {
        assert_eq!(question("Pick from 1 to 4\n", &[], &around()), r"^Pick from \d+ to \d+\s*\Z");
        assert!(stands_in(&question("Pick from 1 to 4\n", &[], &around()), "3. x\nPick from 1 to 3\n"));
    }

    #[test]
    fn the_row_that_is_new_tells_a_screen() {
        assert_eq!(landmark(Some("│ Welcome │\n<Ok>"), "│ Which disk? │\n<Ok>"), Some("Which disk?"));
        assert_eq!(landmark(None, "~\n~"), None);
    }
}
