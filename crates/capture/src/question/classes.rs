//! The classes of words that are others the next time, and the pattern of each.
//!
//! | a word | becomes, with [`Leeway::Data`] | with [`Leeway::Identifiers`] |
//! |---|---|---|
//! | a number, but no ordinal | any number | itself |
//! | the name of a month or a day, in a date | any such name | itself |
//! | the name of this machine, or of its user before an `@` | a name | itself |
//! | a key's fingerprint, `SHA256:…` | any fingerprint | itself |
//! | a hexadecimal identifier of seven digits or more, or a UUID | one of the same length, with a digit and a letter | the same |
//! | a random part of a name in a temporary directory | as many letters and digits, with one of each | the same |
//! | a word that two recordings have otherwise | what both have in common | the same |
//!
//! All other text is literal; with [`Leeway::Nothing`], all text is.

use crate::session_log::KnownFacts;
use crate::template::stands_alone;

use super::escaped;

/// Permitted variation of a text the next time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leeway {
    /// Every class: the answer is data, such as a port or a name.
    Data,
    /// Identifiers only: the answer may be yes or no, or is a secret, so each word of the question counts.
    Identifiers,
    /// Nothing: the answer chooses from it.
    Nothing,
}

/// The pattern of any number.
const NUMBER: &str = r"\d+";

/// The pattern of a number that had decimals.
const DECIMAL: &str = r"\d+(?:\.\d+)?";

/// The pattern of the name of a machine or a user.
const NAME: &str = r"[\w.-]+";

/// The pattern of the fingerprint of a key.
const FINGERPRINT: &str = "[A-Za-z0-9+/=]+";

/// The fewest digits of a hexadecimal identifier that is no UUID.
const MIN_IDENTIFIER_DIGITS: usize = 7;

/// The digits in the groups of a UUID.
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// The pattern of a word of letters.
const LETTERS: &str = r"[^\W\d_]+";

/// The pattern of any word.
const WORD: &str = r"\S+";

/// The pattern of the names of months, whole and short, as programs write them in English.
const MONTHS: &str = "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)";

/// The pattern of the names of days of the week.
const DAYS: &str = "(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)";

/// Directories with names for one time.
const TEMPORARY: [&str; 4] = ["/tmp/", "/var/tmp/", "/run/user/", "/dev/shm/"];

/// Returns the text of a pattern without its classes. An escaped sign is no class.
pub(crate) fn without_classes(pattern: &str) -> String {
    let classes = [MONTHS, DAYS, DECIMAL, NUMBER, NAME, LETTERS, WORD];
    let pattern = classes.into_iter().fold(pattern.to_owned(), |rest, class| rest.replace(class, ""));
    let (mut text, mut rest) = (String::new(), pattern.as_str());
    while let Some(sign) = rest.chars().next() {
        let looks_ahead = rest.starts_with("(?=") || rest.starts_with("(?!");
        let class = looks_ahead.then(|| group_length(rest)).or_else(|| {
            [("[", "]"), ("{", "}")].into_iter().find_map(|(begin, end)| {
                let inside = rest.strip_prefix(begin)?;
                // Otherwise it is a variable.
                let is_count = begin != "{" || inside.starts_with(|sign: char| sign.is_ascii_digit());
                is_count.then_some(begin.len() + inside.find(end)? + end.len())
            })
        });
        let length = sign.len_utf8() + usize::from(sign == '\\') * rest.chars().nth(1).map_or(0, char::len_utf8);
        let length = class.unwrap_or_else(|| {
            text.push_str(&rest[..length]);
            length
        });
        rest = &rest[length..];
    }
    text
}

/// Returns the length of the group that a pattern of ours begins with.
fn group_length(pattern: &str) -> usize {
    let mut depth = 0;
    let end = pattern.find(|sign: char| {
        depth += match sign {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map_or(pattern.len(), |end| end + 1)
}

/// Escapes a text and generalises its words.
pub(super) fn generalised(text: &str, facts: &KnownFacts, leeway: Leeway) -> String {
    if leeway == Leeway::Nothing {
        let mut pattern = String::with_capacity(text.len() + 16);
        words_into(&mut pattern, text, facts, leeway);
        return pattern;
    }
    let mut pattern = String::with_capacity(text.len() + 16);
    let (mut plain, mut at) = (0, 0);
    while at < text.len() {
        let found = facts.varying.iter().filter(|(word, _)| {
            !word.is_empty() && text[at..].starts_with(word) && stands_alone(text, at, at + word.len())
        });
        let Some((word, other)) = found.max_by_key(|(word, _)| word.len()) else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        words_into(&mut pattern, &text[plain..at], facts, leeway);
        pattern.push_str(&class_of_both(word, other));
        at += word.len();
        plain = at;
    }
    words_into(&mut pattern, &text[plain..], facts, leeway);
    pattern
}

/// Puts the class of each word that two recordings have otherwise in its place in a pattern.
pub(crate) fn varying_words(pattern: String, facts: &KnownFacts) -> String {
    let replaced = |pattern: String, (word, other): &(String, String)| {
        crate::template::replaced(&pattern, &escaped(word), &class_of_both(word, other))
    };
    facts.varying.iter().fold(pattern, replaced)
}

/// Appends the words of a text to a pattern.
fn words_into(pattern: &mut String, text: &str, facts: &KnownFacts, leeway: Leeway) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (mut rest, mut index) = (text, 0);
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start().len();
        if blanks > 0 {
            let is_plain = rest[..blanks].bytes().all(|byte| byte == b' ');
            let is_joined = pattern.ends_with(' ');
            pattern.push_str(match (is_plain, blanks) {
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
        pattern.push_str(&if is_date { date_name(word) } else { word_pattern(word, facts, leeway) });
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
    let word = word.trim_matches(AROUND).to_ascii_lowercase();
    DATE_NAMES.iter().position(|name| word == *name || (word.len() == 3 && name.starts_with(&word)))
}

/// Returns whether a word is such a name with a number or another such name beside it: `May` alone is a word.
fn is_part_of_date(words: &[&str], index: usize) -> bool {
    let is_number = |word: &str| {
        let word = word.trim_matches(AROUND);
        word.starts_with(|sign: char| sign.is_ascii_digit()) && !word.contains(char::is_alphabetic)
    };
    let is_date = |word: &&str| date_name_index(word).is_some() || is_number(word);
    let beside = [index.checked_sub(1), Some(index + 1)];
    words.get(index).is_some_and(|word| date_name_index(word).is_some())
        && beside.into_iter().flatten().filter_map(|at| words.get(at)).any(is_date)
}

/// Returns the pattern of the name of a month or a day, whichever it is.
fn date_name(word: &str) -> String {
    const MONTHS_OF_YEAR: usize = 12;
    let core = word.trim_matches(AROUND);
    let begin = word.find(core).unwrap_or(0);
    let names = if date_name_index(word).is_some_and(|at| at < MONTHS_OF_YEAR) { MONTHS } else { DAYS };
    let names = match core.chars().all(char::is_uppercase) {
        true => names.to_uppercase(),
        false if core.starts_with(char::is_lowercase) => names.to_lowercase(),
        false => names.to_owned(),
    };
    format!("{}{names}{}", escaped(&word[..begin]), escaped(&word[begin + core.len()..]))
}

/// Signs around a word that are no part of what changes.
const AROUND: &[char] = &['(', ')', '[', ']', '\'', '"', ',', ':', ';', '?', '!', '<', '>', '`', '…'];

fn word_pattern(word: &str, facts: &KnownFacts, leeway: Leeway) -> String {
    let core = word.trim_matches(AROUND);
    if core.is_empty() || leeway == Leeway::Nothing {
        return escaped(word);
    }
    let begin = word.find(core).unwrap_or(0);
    let (before, after) = (&word[..begin], &word[begin + core.len()..]);
    // The sign at the end of a prompt or a sentence is not part of a name that changes.
    let end = core.trim_end_matches(['#', '$', '%', '>', ':', '~', '.']).len();
    let (name, end) = core.split_at(end);
    let class = class_of(name, facts, leeway).unwrap_or_else(|| numbers(name, leeway));
    format!("{}{class}{}{}", escaped(before), numbers(end, leeway), escaped(after))
}

/// Returns the pattern of a word that is another one the next time.
fn class_of(word: &str, facts: &KnownFacts, leeway: Leeway) -> Option<String> {
    if let Some(class) = hexadecimal(word) {
        return Some(class);
    }
    if let Some(begin) = TEMPORARY.iter().find(|begin| word.starts_with(**begin)) {
        return Some(format!("{}{}", escaped(begin), path(&word[begin.len()..], leeway)));
    }
    if leeway != Leeway::Data {
        return None;
    }
    if word.starts_with("SHA256:") {
        return Some(format!("SHA256:{FINGERPRINT}"));
    }
    name_of_machine(word, facts)
}

/// Returns the pattern of a word with the name of this machine or of its user in it.
fn name_of_machine(word: &str, facts: &KnownFacts) -> Option<String> {
    let KnownFacts { user, host, .. } = facts;
    let at = word.find('@').filter(|at| !user.is_empty() && word[..*at] == *user);
    let (user, rest) = at.map_or(("", word), |at| word.split_at(at));
    let found = rest.match_indices(host.as_str()).map(|(at, _)| at).find(|at| stands_alone(rest, *at, at + host.len()));
    let rest = match found.filter(|_| host.len() >= MIN_HOST_BYTES) {
        Some(at) => {
            let behind = &rest[at + host.len()..];
            format!("{}{NAME}{}", numbers(&rest[..at], Leeway::Data), numbers(behind, Leeway::Data))
        }
        None if user.is_empty() => return None,
        None => numbers(rest, Leeway::Data),
    };
    Some(format!("{}{rest}", if user.is_empty() { "" } else { NAME }))
}

/// Minimum length of a machine's name for a search, in bytes.
const MIN_HOST_BYTES: usize = 3;

/// Returns the pattern of a hexadecimal identifier, such as a hash or a UUID: another one of the same length and the same case, with a
/// digit and a letter. A number alone is none, nor is a word.
fn hexadecimal(word: &str) -> Option<String> {
    let groups: Vec<&str> = word.split('-').collect();
    let any = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_identifier = lengths == UUID_GROUPS || lengths.len() == 1 && word.len() >= MIN_IDENTIFIER_DIGITS;
    if !is_identifier
        || !groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
        || !any(u8::is_ascii_digit)
        || !any(u8::is_ascii_alphabetic)
        || lengths.len() == 1 && is_written(word)
    {
        return None;
    }
    let letters = match (any(u8::is_ascii_lowercase), any(u8::is_ascii_uppercase)) {
        (true, true) => "A-Fa-f",
        (false, true) => "A-F",
        _ => "a-f",
    };
    Some(identifiers(letters, if groups.len() > 1 { "-" } else { "" }, &lengths))
}

/// Returns whether a hexadecimal word is not random: a date, a number with a unit or an exponent, or a name with a number.
fn is_written(word: &str) -> bool {
    let switches = switches(word);
    let lower = word.to_ascii_lowercase();
    let middle = lower.trim_matches(|sign: char| sign.is_ascii_digit());
    switches < 2
        || switches == 2
            && lower.starts_with(|sign: char| sign.is_ascii_digit())
            && matches!(middle, "e" | "feb" | "dec")
}

/// Returns how often letters follow digits, or digits letters.
fn switches(word: &str) -> usize {
    let signs: Vec<bool> = word.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.is_ascii_digit()).collect();
    signs.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Returns the pattern of groups of digits and these letters, with a digit and a letter among them.
fn identifiers(letters: &str, dash: &str, lengths: &[usize]) -> String {
    let groups: Vec<String> = lengths.iter().map(|length| format!("[0-9{letters}]{{{length}}}")).collect();
    // No date, and no number with a unit, with an exponent or behind a name.
    let between = if letters == "A-F" { "E|FEB|DEC" } else { "[Ee]|[Ff]eb|[Dd]ec" };
    let unwritten = match lengths.len() {
        1 => format!(r"(?!\d+(?:[{letters}]+|(?:{between})\d+)\b|[{letters}]+\d+\b)"),
        _ => String::new(),
    };
    format!("{unwritten}(?=[{letters}{dash}]*[0-9])(?=[0-9{dash}]*[{letters}]){}", groups.join("-"))
}

/// Returns the pattern of a path in a temporary directory: it generalises random parts of its names.
fn path(path: &str, leeway: Leeway) -> String {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let (mut pattern, mut rest) = (String::new(), path);
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !is_part(sign)).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        if let Some(class) = hexadecimal(part) {
            pattern.push_str(&class);
        } else if is_random(part) {
            pattern.push_str(&format!("{SWITCHING}[0-9A-Za-z_]{{{}}}", part.len()));
        } else {
            pattern.push_str(&numbers(part, leeway));
        }
        let sign = behind.chars().next().map_or(0, char::len_utf8);
        pattern.push_str(&escaped(&behind[..sign]));
        rest = &behind[sign..];
    }
    pattern
}

/// Returns whether a part of a name is random, as `mktemp` makes it: letters and digits in no order that a person
/// writes, as `build2` and `oldBuild` are.
fn is_random(part: &str) -> bool {
    const MIN_RANDOM_BYTES: usize = 6;
    part.len() >= MIN_RANDOM_BYTES && switches(part) >= MIN_SWITCHES
}

/// Number of changes between letters and digits that a name has which is made at random: a name that a person gives has fewer, such as
/// `stage1_db`.
const MIN_SWITCHES: usize = 3;

/// The pattern in front of a name that has as many changes.
pub(super) const SWITCHING: &str = "(?=[0-9_]*[A-Za-z][A-Za-z_]*[0-9][0-9_]*[A-Za-z][A-Za-z_]*[0-9]|[A-Za-z_]*[0-9][0-9_]*[A-Za-z][A-Za-z_]*[0-9][0-9_]*[A-Za-z])";

/// Returns the pattern of a word that two recordings have otherwise: what both have in common.
fn class_of_both(one: &str, other: &str) -> String {
    let alphabetic = |word: &str| word.chars().all(char::is_alphabetic);
    let shape = numbers(one, Leeway::Data);
    let both = |is: fn(&str) -> bool| is(one) && is(other);
    if shape == numbers(other, Leeway::Data) {
        return shape;
    }
    if let (Some(class), Some(of_other)) = (hexadecimal(one), hexadecimal(other)) {
        let is_as_long = one.len() == other.len() && !one.contains('-');
        return match class == of_other {
            true => class,
            false if is_as_long => identifiers("A-Fa-f", "", &[one.len()]),
            false => r"[0-9A-Fa-f-]+".to_owned(),
        };
    }
    if both(|word| word.starts_with('/')) {
        let parent = |word: &str| word.rfind('/').map_or(0, |at| at + 1);
        let (begin, of_other) = (&one[..parent(one)], &other[..parent(other)]);
        return format!(r"{}[^\s/]+", if begin == of_other { escaped(begin) } else { r"/\S*".to_owned() });
    }
    if alphabetic(one) && alphabetic(other) { LETTERS } else { WORD }.to_owned()
}

/// Ends of ordinal numbers.
const ORDINAL_ENDS: [&str; 4] = ["st", "nd", "rd", "th"];

/// Returns the length of the decimals that a text begins with: a version or an address has more parts.
fn decimals(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('.')?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &digits[length..];
    let is_last = !rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|sign: char| sign.is_ascii_digit()));
    (length > 0 && is_last).then_some(1 + length)
}

/// Escapes a text, with any number in place of each number where those may differ. A single digit within a word of letters
/// stays: `y1`, `utf8`. So does an ordinal, which says which one is meant: `2nd`.
fn numbers(text: &str, leeway: Leeway) -> String {
    if leeway != Leeway::Data {
        return escaped(text);
    }
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let length = rest.chars().take_while(char::is_ascii_digit).count();
        if length > 0 {
            let behind = rest[length..].to_ascii_lowercase();
            let is_ordinal = ORDINAL_ENDS
                .iter()
                .any(|end| behind.strip_prefix(end).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)));
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
            pattern.push_str(&escaped(sign.encode_utf8(&mut [0; 4])));
            rest = &rest[sign.len_utf8()..];
        }
    }
    pattern
}
