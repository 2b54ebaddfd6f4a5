//! The classes of words that vary between runs, and their patterns.
//!
//! | a word | becomes, with [`Leeway::Data`] | with [`Leeway::Identifiers`] |
//! |---|---|---|
//! | a number that is not an ordinal | any number | itself |
//! | the name of a month or a day, in a date | any such name | itself |
//! | the name of the host, or of its user before an `@` | a name | itself |
//! | a key's fingerprint, `SHA256:…` | any fingerprint | itself |
//! | a hexadecimal identifier of seven digits or more, or a UUID | one of the same length, with a digit and a letter | the same |
//! | a random part of a name in a temporary directory | as many letters and digits, with one of each | the same |
//! | a word that differs in two recordings | the common part of both | the same |
//!
//! All other text is literal. With [`Leeway::Nothing`], all text is literal.

use crate::session_log::KnownFacts;
use crate::template::stands_alone;

use super::escape;

/// Permitted variation of text in the next run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leeway {
    /// Every class: the answer is data, such as a port or a name.
    Data,
    /// Identifiers only: the answer may be yes or no, or is a secret, so each word of the question counts.
    Identifiers,
    /// No variation: the answer chooses an entry of the text.
    Nothing,
}

/// The pattern of any number.
const NUMBER: &str = r"\d+";

/// The pattern of a number that had decimals.
const DECIMAL: &str = r"\d+(?:\.\d+)?";

/// The pattern of the name of a host or a user.
const NAME: &str = r"[\w.-]+";

/// The pattern of the fingerprint of a key.
const FINGERPRINT: &str = "[A-Za-z0-9+/=]+";

/// Minimum number of digits of a hexadecimal identifier that is not a UUID.
const MIN_IDENTIFIER_DIGITS: usize = 7;

/// The number of digits in each group of a UUID.
pub(crate) const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// The pattern of a word of letters.
const LETTERS: &str = r"[^\W\d_]+";

/// The pattern of any word.
const WORD: &str = r"\S+";

/// The pattern of the names of months, whole and short, as programs write them in English.
const MONTHS: &str = "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)";

/// Pattern for the names of weekdays.
const DAYS: &str = "(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)";

/// Directories of temporary files.
pub(crate) const TEMPORARY_DIRECTORIES: [&str; 4] = ["/tmp/", "/var/tmp/", "/run/user/", "/dev/shm/"];

/// Returns the text of a pattern without its classes. An escaped character is not a class.
pub(crate) fn without_classes(pattern: &str) -> String {
    let classes = [MONTHS, DAYS, DECIMAL, NUMBER, NAME, LETTERS, WORD];
    let pattern = classes.into_iter().fold(pattern.to_owned(), |rest, class| rest.replace(class, ""));
    let (mut text, mut rest) = (String::new(), pattern.as_str());
    while let Some(character) = rest.chars().next() {
        let looks_ahead = rest.starts_with("(?=") || rest.starts_with("(?!");
        let class = looks_ahead.then(|| group_length(rest)).or_else(|| {
            [("[", "]"), ("{", "}")].into_iter().find_map(|(begin, end)| {
                let content = rest.strip_prefix(begin)?;
                // Other braces are variables.
                let is_count = begin != "{" || content.starts_with(|character: char| character.is_ascii_digit());
                is_count.then_some(begin.len() + content.find(end)? + end.len())
            })
        });
        let length =
            character.len_utf8() + usize::from(character == '\\') * rest.chars().nth(1).map_or(0, char::len_utf8);
        let length = class.unwrap_or_else(|| {
            text.push_str(&rest[..length]);
            length
        });
        rest = &rest[length..];
    }
    text
}

/// Returns the length of the group at the beginning of a generated pattern.
fn group_length(pattern: &str) -> usize {
    let mut depth = 0;
    let end = pattern.find(|character: char| {
        depth += match character {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map_or(pattern.len(), |end| end + 1)
}

/// Escapes text and replaces words that vary with their classes.
pub(super) fn generalise(text: &str, facts: &KnownFacts, leeway: Leeway) -> String {
    if leeway == Leeway::Nothing {
        let mut pattern = String::with_capacity(text.len() + 16);
        append_words(&mut pattern, text, facts, leeway);
        return pattern;
    }
    let mut pattern = String::with_capacity(text.len() + 16);
    let (mut copied_end, mut index) = (0, 0);
    while index < text.len() {
        let varying = facts.varying.iter().filter(|(word, _)| {
            !word.is_empty() && text[index..].starts_with(word) && stands_alone(text, index, index + word.len())
        });
        let Some((word, other)) = varying.max_by_key(|(word, _)| word.len()) else {
            index += text[index..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        append_words(&mut pattern, &text[copied_end..index], facts, leeway);
        pattern.push_str(&common_class(word, other));
        index += word.len();
        copied_end = index;
    }
    append_words(&mut pattern, &text[copied_end..], facts, leeway);
    pattern
}

/// Replaces each word of a pattern that differs in two recordings with its class.
pub(crate) fn replace_varying_words(pattern: String, facts: &KnownFacts) -> String {
    let replace = |pattern: String, (word, other): &(String, String)| {
        crate::template::replace_word(&pattern, &escape(word), &common_class(word, other))
    };
    facts.varying.iter().fold(pattern, replace)
}

/// Appends the words of text to a pattern.
fn append_words(pattern: &mut String, text: &str, facts: &KnownFacts, leeway: Leeway) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (mut rest, mut index) = (text, 0);
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start().len();
        if blanks > 0 {
            let is_spaces = rest[..blanks].bytes().all(|byte| byte == b' ');
            let is_joined = pattern.ends_with(' ');
            pattern.push_str(match (is_spaces, blanks) {
                (true, 1) if is_joined => "+",
                (true, 1) => " ",
                (true, _) if is_joined => "+",
                (true, _) => " +",
                (false, _) => r"\s+",
            });
            rest = &rest[blanks..];
            continue;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_date = leeway == Leeway::Data && is_part_of_date(&words, index);
        pattern.push_str(&if is_date { date_name_pattern(word) } else { word_pattern(word, facts, leeway) });
        index += 1;
        rest = &rest[end..];
    }
}

/// The names of months and of days of the week, as programs write dates in English.
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

/// Returns the position of the name of a month or a day in [`DATE_NAMES`]: whole, or its first three letters.
fn date_name_index(word: &str) -> Option<usize> {
    let word = word.trim_matches(DELIMITERS).to_ascii_lowercase();
    DATE_NAMES.iter().position(|name| word == *name || (word.len() == 3 && name.starts_with(&word)))
}

/// Returns whether a word is the name of a month or a day, next to a number or another such name. `May` alone is an
/// ordinary word.
fn is_part_of_date(words: &[&str], index: usize) -> bool {
    let is_number = |word: &str| {
        let word = word.trim_matches(DELIMITERS);
        word.starts_with(|character: char| character.is_ascii_digit()) && !word.contains(char::is_alphabetic)
    };
    let is_date = |word: &&str| date_name_index(word).is_some() || is_number(word);
    let neighbours = [index.checked_sub(1), Some(index + 1)];
    words.get(index).is_some_and(|word| date_name_index(word).is_some())
        && neighbours.into_iter().flatten().filter_map(|index| words.get(index)).any(is_date)
}

/// Returns the pattern of the name of a month or a day, in the same case.
fn date_name_pattern(word: &str) -> String {
    const MONTHS_OF_YEAR: usize = 12;
    let core = word.trim_matches(DELIMITERS);
    let begin = word.find(core).unwrap_or(0);
    let names = if date_name_index(word).is_some_and(|index| index < MONTHS_OF_YEAR) { MONTHS } else { DAYS };
    let names = match core.chars().all(char::is_uppercase) {
        true => names.to_uppercase(),
        false if core.starts_with(char::is_lowercase) => names.to_lowercase(),
        false => names.to_owned(),
    };
    format!("{}{names}{}", escape(&word[..begin]), escape(&word[begin + core.len()..]))
}

/// Characters around a word that are not part of a varying text.
const DELIMITERS: &[char] = &['(', ')', '[', ']', '\'', '"', ',', ':', ';', '?', '!', '<', '>', '`', '…'];

fn word_pattern(word: &str, facts: &KnownFacts, leeway: Leeway) -> String {
    let core = word.trim_matches(DELIMITERS);
    if core.is_empty() || leeway == Leeway::Nothing {
        return escape(word);
    }
    let begin = word.find(core).unwrap_or(0);
    let (before, after) = (&word[..begin], &word[begin + core.len()..]);
    // A character at the end of a prompt or a sentence is not part of a varying name.
    let end = core.trim_end_matches(['#', '$', '%', '>', ':', '~', '.']).len();
    let (name, end) = core.split_at(end);
    let class = word_class(name, facts, leeway).unwrap_or_else(|| generalise_numbers(name, leeway));
    format!("{}{class}{}{}", escape(before), generalise_numbers(end, leeway), escape(after))
}

/// Returns the class pattern of a word that varies between runs.
fn word_class(word: &str, facts: &KnownFacts, leeway: Leeway) -> Option<String> {
    if let Some(class) = hexadecimal_pattern(word) {
        return Some(class);
    }
    if let Some(begin) = TEMPORARY_DIRECTORIES.iter().find(|begin| word.starts_with(**begin)) {
        return Some(format!("{}{}", escape(begin), path_pattern(&word[begin.len()..], leeway)));
    }
    if leeway != Leeway::Data {
        return None;
    }
    if word.starts_with("SHA256:") {
        return Some(format!("SHA256:{FINGERPRINT}"));
    }
    host_or_user_pattern(word, facts)
}

/// Returns the pattern of a word that contains the name of this host or its user.
fn host_or_user_pattern(word: &str, facts: &KnownFacts) -> Option<String> {
    let KnownFacts { user, host, .. } = facts;
    let user_end = word.find('@').filter(|end| !user.is_empty() && word[..*end] == *user);
    let (user, rest) = user_end.map_or(("", word), |end| word.split_at(end));
    let mut starts = rest.match_indices(host.as_str()).map(|(start, _)| start);
    let host_start = starts.find(|start| stands_alone(rest, *start, start + host.len()));
    let rest = match host_start.filter(|_| host.len() >= MIN_HOST_BYTES) {
        Some(start) => {
            let after = &rest[start + host.len()..];
            format!(
                "{}{NAME}{}",
                generalise_numbers(&rest[..start], Leeway::Data),
                generalise_numbers(after, Leeway::Data)
            )
        }
        None if user.is_empty() => return None,
        None => generalise_numbers(rest, Leeway::Data),
    };
    Some(format!("{}{rest}", if user.is_empty() { "" } else { NAME }))
}

/// Minimum length of a host name for its replacement.
const MIN_HOST_BYTES: usize = 3;

/// Returns the pattern of a hexadecimal identifier, such as a hash or a UUID: any of the same length and case, with a
/// digit and a letter. `None` for a number or a word.
fn hexadecimal_pattern(word: &str) -> Option<String> {
    let groups: Vec<&str> = word.split('-').collect();
    let any = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_identifier = lengths == UUID_GROUPS || lengths.len() == 1 && word.len() >= MIN_IDENTIFIER_DIGITS;
    if !is_identifier
        || !groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || !any(u8::is_ascii_digit)
        || !any(u8::is_ascii_alphabetic)
        || lengths.len() == 1 && is_not_random(word)
    {
        return None;
    }
    let letters = match (any(u8::is_ascii_lowercase), any(u8::is_ascii_uppercase)) {
        (true, true) => "A-Fa-f",
        (false, true) => "A-F",
        _ => "a-f",
    };
    Some(identifier_pattern(letters, if groups.len() > 1 { "-" } else { "" }, &lengths))
}

/// Returns whether a hexadecimal word is a date, a number with a unit or an exponent, or a name with a number.
fn is_not_random(word: &str) -> bool {
    let switches = count_switches(word);
    let lower = word.to_ascii_lowercase();
    let middle = lower.trim_matches(|character: char| character.is_ascii_digit());
    switches < 2
        || switches == 2
            && lower.starts_with(|character: char| character.is_ascii_digit())
            && matches!(middle, "e" | "feb" | "dec")
}

/// Returns the number of changes between letters and digits.
pub(crate) fn count_switches(word: &str) -> usize {
    let are_digits: Vec<bool> =
        word.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.is_ascii_digit()).collect();
    are_digits.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Returns the pattern of groups of digits and these letters, with a digit and a letter among them.
fn identifier_pattern(letters: &str, dash: &str, lengths: &[usize]) -> String {
    let groups: Vec<String> = lengths.iter().map(|length| format!("[0-9{letters}]{{{length}}}")).collect();
    // Excludes dates, numbers with a unit or an exponent, and names with a number.
    let between = if letters == "A-F" { "E|FEB|DEC" } else { "[Ee]|[Ff]eb|[Dd]ec" };
    let not_a_word = match lengths.len() {
        1 => format!(r"(?!\d+(?:[{letters}]+|(?:{between})\d+)\b|[{letters}]+\d+\b)"),
        _ => String::new(),
    };
    format!("{not_a_word}(?=[{letters}{dash}]*[0-9])(?=[0-9{dash}]*[{letters}]){}", groups.join("-"))
}

/// Returns the pattern of a path in a temporary directory, with its random parts generalised.
fn path_pattern(path: &str, leeway: Leeway) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let (mut pattern, mut rest) = (String::new(), path);
    while !rest.is_empty() {
        let end = rest.find(|character: char| !is_part(character)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        if let Some(class) = hexadecimal_pattern(part) {
            pattern.push_str(&class);
        } else if is_random(part) {
            pattern.push_str(&format!("{SWITCHING}[0-9A-Za-z_]{{{}}}", part.len()));
        } else {
            pattern.push_str(&generalise_numbers(part, leeway));
        }
        let character = after.chars().next().map_or(0, char::len_utf8);
        pattern.push_str(&escape(&after[..character]));
        rest = &after[character..];
    }
    pattern
}

/// Returns whether a part of a name is random, as in names by `mktemp`: letters and digits alternate, unlike in
/// `build2` and `oldBuild`.
fn is_random(part: &str) -> bool {
    const MIN_RANDOM_BYTES: usize = 6;
    part.len() >= MIN_RANDOM_BYTES && count_switches(part) >= MIN_SWITCHES
}

/// Minimum number of changes between letters and digits in a random name. Names by people, such as `stage1_db`, have
/// fewer.
const MIN_SWITCHES: usize = 3;

/// The lookahead for a name with at least [`MIN_SWITCHES`] changes.
pub(super) const SWITCHING: &str = "(?=[0-9_]*[A-Za-z][A-Za-z_]*[0-9][0-9_]*[A-Za-z][A-Za-z_]*[0-9]|[A-Za-z_]*[0-9][0-9_]*[A-Za-z][A-Za-z_]*[0-9][0-9_]*[A-Za-z])";

/// Returns the pattern of a word that differs in two recordings: the common part of both.
fn common_class(word: &str, other_word: &str) -> String {
    let alphabetic = |word: &str| word.chars().all(char::is_alphabetic);
    let shape = generalise_numbers(word, Leeway::Data);
    let both = |is: fn(&str) -> bool| is(word) && is(other_word);
    if shape == generalise_numbers(other_word, Leeway::Data) {
        return shape;
    }
    if let (Some(class), Some(other_class)) = (hexadecimal_pattern(word), hexadecimal_pattern(other_word)) {
        let has_same_length = word.len() == other_word.len() && !word.contains('-');
        return match class == other_class {
            true => class,
            false if has_same_length => identifier_pattern("A-Fa-f", "", &[word.len()]),
            false => r"[0-9A-Fa-f-]+".to_owned(),
        };
    }
    if both(|word| word.starts_with('/')) {
        let parent = |word: &str| word.rfind('/').map_or(0, |slash| slash + 1);
        let (begin, other_begin) = (&word[..parent(word)], &other_word[..parent(other_word)]);
        return format!(r"{}[^\s/]+", if begin == other_begin { escape(begin) } else { r"/\S*".to_owned() });
    }
    if alphabetic(word) && alphabetic(other_word) { LETTERS } else { WORD }.to_owned()
}

/// Ends of ordinal numbers.
const ORDINAL_ENDS: [&str; 4] = ["st", "nd", "rd", "th"];

/// Returns the length of the decimals at the beginning of text. `None` for a version or an address, because they have
/// more parts.
fn decimals(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('.')?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &digits[length..];
    let is_last =
        !rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()));
    (length > 0 && is_last).then_some(1 + length)
}

/// Escapes text and generalises its numbers if `leeway` permits. A single digit in a word, as in `y1` and `utf8`,
/// and an ordinal such as `2nd` remain.
fn generalise_numbers(text: &str, leeway: Leeway) -> String {
    if leeway != Leeway::Data {
        return escape(text);
    }
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = rest.chars().take_while(char::is_ascii_digit).count();
        if length > 0 {
            let after = rest[length..].to_ascii_lowercase();
            let is_ordinal = ORDINAL_ENDS
                .iter()
                .any(|end| after.strip_prefix(end).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)));
            let in_word = pattern.ends_with(char::is_alphabetic) && length == 1;
            let decimals = decimals(&rest[length..]).filter(|_| !text[..text.len() - rest.len()].ends_with('.'));
            let end = length + decimals.unwrap_or(0);
            match (is_ordinal || in_word, decimals) {
                (true, _) => pattern.push_str(&rest[..length]),
                (false, None) => pattern.push_str(NUMBER),
                (false, Some(_)) => pattern.push_str(DECIMAL),
            }
            rest = &rest[if is_ordinal || in_word { length } else { end }..];
        } else {
            pattern.push_str(&escape(character.encode_utf8(&mut [0; 4])));
            rest = &rest[character.len_utf8()..];
        }
    }
    pattern
}
