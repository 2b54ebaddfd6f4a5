//! Search for secrets in text.
//!
//! A secret that is a short word, such as `pass`, is part of many other words. A search finds it only as a separate
//! word, but finds other secrets everywhere.

use std::ops::Range;

use super::MASK;

/// Maximum length of a short word, in characters.
const MAX_WORD_CHARS: usize = 7;

/// Returns whether a secret is hidden only as a whole word: it has at most 7 characters, all letters, and after the
/// first letter only capitals or only small letters. Encodings mix capitals and small letters.
pub fn is_short_word(secret: &str) -> bool {
    let is_letter = |character: char| character.is_lowercase() || character.is_uppercase();
    let after_first = || secret.chars().skip(1);
    !secret.is_empty()
        && secret.chars().count() <= MAX_WORD_CHARS
        && secret.chars().all(is_letter)
        && !(after_first().any(char::is_lowercase) && after_first().any(char::is_uppercase))
}

/// Returns whether a word spans the border between two parts of text.
fn is_word_split(before: &str, after: &str) -> bool {
    let is_word_character = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    is_word_character(before.chars().next_back()) && is_word_character(after.chars().next())
}

/// Returns whether `part` of `text` is only part of a word.
fn is_within_word(text: &str, part: &Range<usize>) -> bool {
    is_word_split(&text[..part.start], &text[part.start..]) || is_word_split(&text[..part.end], &text[part.end..])
}

/// Returns the ranges of `secret` in `text`, in order and without overlaps.
pub(super) fn secret_ranges<'a>(text: &'a str, secret: &'a str) -> impl Iterator<Item = Range<usize>> + use<'a> {
    let matches = (!secret.is_empty()).then(|| text.match_indices(secret)).into_iter().flatten();
    let ranges = matches.map(|(start, matched)| start..start + matched.len());
    // Evaluate at the first match, because most text has no match.
    let mut is_word = None;
    ranges.filter(move |part| !(*is_word.get_or_insert_with(|| is_short_word(secret)) && is_within_word(text, part)))
}

/// Returns whether `text` contains `secret`.
pub(super) fn contains_secret(text: &str, secret: &str) -> bool {
    secret_ranges(text, secret).next().is_some()
}

/// Replaces every occurrence of `secret` with the mask; `None` if there is none.
pub(super) fn replace_secret(text: &str, secret: &str) -> Option<String> {
    let mut masked = String::new();
    let mut position = 0;
    for part in secret_ranges(text, secret) {
        masked.push_str(&text[position..part.start]);
        masked.push_str(MASK);
        position = part.end;
    }
    (position > 0).then(|| masked + &text[position..])
}

/// Removes the first `length` bytes of a secret from the end of `text`, if `text` ends with them.
pub(super) fn strip_secret_prefix_at_end<'a>(text: &'a str, secret: &str, length: usize) -> Option<&'a str> {
    let before = text.strip_suffix(&secret[..length])?;
    (!is_short_word(secret) || !is_word_split(before, secret)).then_some(before)
}

/// Removes the part of a secret starting at byte `from` from the start of `text`, if `text` starts with it.
pub(super) fn strip_secret_suffix_at_start<'a>(text: &'a str, secret: &str, from: usize) -> Option<&'a str> {
    let after = text.strip_prefix(&secret[from..])?;
    (!is_short_word(secret) || !is_word_split(secret, after)).then_some(after)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_words_have_few_letters_in_one_case() {
        for word in ["pass", "Pass", "PASS", "secret", "geheim", "größer"] {
            assert!(is_short_word(word), "{word}");
        }
        for harmless in ["", "pass1", "pa-ss", "password", "cGFzcw", "hunter2", "pass word", "漢字パス"] {
            assert!(!is_short_word(harmless), "{harmless}");
        }
    }

    #[test]
    fn short_word_is_hidden_only_as_a_whole_word() {
        let masked = |text: &str| replace_secret(text, "pass").unwrap_or_else(|| text.to_owned());
        assert_eq!(masked("Bypass password check? pass, pass"), format!("Bypass password check? {MASK}, {MASK}"));
        assert_eq!(masked("my_pass=pass;compass pass1"), format!("my_{MASK}={MASK};compass pass1"));
        assert_eq!(replace_secret("xhunter2x", "hunter2"), Some(format!("x{MASK}x")));
    }

    proptest! {
        /// No text contains the secret afterwards, and everything else is unchanged.
        #[test]
        fn replaced_text_contains_no_secret(text in "[pas1 ._]{0,30}", secret in "pass|pas1|sas|s1 p") {
            let masked = replace_secret(&text, &secret).unwrap_or_else(|| text.clone());
            prop_assert!(!contains_secret(&masked, &secret), "{masked}");
            let unmasked: String = masked.split(MASK).collect();
            let count = secret_ranges(&text, &secret).count();
            prop_assert_eq!(unmasked.len() + count * secret.len(), text.len());
        }
    }
}
