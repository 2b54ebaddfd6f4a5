//! Cleaning of foreign text for people, terminals and models.
//!
//! Models read the texts of a service and terminals print them. Cleaned text contains nothing invisible: no terminal
//! escape, and no instruction to a model that a person would not see.

/// Returns a text on one line without anything invisible: terminal escapes, control characters, direction marks, and
/// characters without a width. Collapses whitespace. Shortens a text of more than `max_chars` characters and adds an
/// ellipsis.
#[must_use]
pub fn clean(text: &str, max_chars: usize) -> String {
    let mut cleaned = String::new();
    let mut length = 0;
    let mut has_pending_space = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if is_whitespace(character) {
            has_pending_space = length > 0;
            continue;
        }
        if begins_escape(character) {
            characters = skip_escape(character, characters);
            continue;
        }
        if is_invisible(character) {
            continue;
        }
        let needed = 1 + usize::from(has_pending_space);
        if length + needed > max_chars {
            shorten(&mut cleaned, length, max_chars);
            break;
        }
        if std::mem::take(&mut has_pending_space) {
            cleaned.push(' ');
        }
        cleaned.push(character);
        length += needed;
    }
    cleaned
}

/// Adds an ellipsis to a text of `length` characters, within `max_chars`.
fn shorten(text: &mut String, length: usize, max_chars: usize) {
    if length == max_chars {
        text.pop();
    }
    if max_chars > 0 {
        text.truncate(text.trim_end().len());
        text.push('…');
    }
}

/// Returns whether a text contains anything invisible.
#[must_use]
pub(crate) fn has_invisible(text: &str) -> bool {
    text.chars().any(|character| is_invisible(character) && !matches!(character, '\n' | '\t' | '\r'))
}

fn is_whitespace(character: char) -> bool {
    // The blank Braille pattern looks like a space, but Unicode does not classify it as whitespace.
    character.is_whitespace() || character == '\u{2800}'
}

/// Returns whether a character is invisible: control characters, annotations between lines, noncharacters, and
/// characters that Unicode lets displays ignore, such as direction marks, joiners, selectors and tags
/// (`Default_Ignorable_Code_Point` in <https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt>).
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            u32::from(character),
            0x00AD
                | 0x034F
                | 0x061C
                | 0x115F..=0x1160
                | 0x17B4..=0x17B5
                | 0x180B..=0x180F
                | 0x200B..=0x200F
                | 0x2028..=0x202E
                | 0x2060..=0x206F
                | 0x3164
                | 0xFDD0..=0xFDEF
                | 0xFE00..=0xFE0F
                | 0xFEFF
                | 0xFFA0
                | 0xFFF0..=0xFFFB
                | 0xFFFE..=0xFFFF
                | 0x1BCA0..=0x1BCA3
                | 0x1D173..=0x1D17A
                | 0xE0000..=0xE0FFF
        )
}

/// Returns whether a character begins an escape: ESC, or a character of C1 that is short for ESC and a letter.
fn begins_escape(character: char) -> bool {
    matches!(character, '\u{1b}' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
}

/// Returns the characters after a control sequence (ECMA-48, 5.3 to 5.6) that begins with `first`. An unterminated
/// string extends to the end, as in a terminal.
fn skip_escape(first: char, mut characters: std::str::Chars<'_>) -> std::str::Chars<'_> {
    let before = characters.clone();
    let kind = match first {
        '\u{1b}' => match characters.next() {
            Some('[') => '\u{9b}',
            Some(']' | 'P' | 'X' | '^' | '_') => '\u{9d}',
            Some(intermediate @ ' '..='/') => intermediate,
            Some('0'..='~') => return characters,
            // No sequence: the loop examines the following characters one by one.
            _ => return before,
        },
        other => other,
    };
    match kind {
        '\u{9b}' => loop {
            let before = characters.clone();
            match characters.next() {
                Some(' '..='?') => {}
                Some('@'..='~') => return characters,
                _ => return before,
            }
        },
        ' '..='/' => loop {
            let before = characters.clone();
            match characters.next() {
                Some(' '..='/') => {}
                Some('0'..='~') => return characters,
                _ => return before,
            }
        },
        _ => loop {
            match characters.next() {
                Some('\u{1b}') => {
                    let mut next_characters = characters.clone();
                    if next_characters.next() == Some('\\') {
                        return next_characters;
                    }
                }
                Some('\u{7}' | '\u{9c}') | None => return characters,
                Some(_) => {}
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        let cases = [
            ("plain", "plain"),
            ("  two \t\r\n words  ", "two words"),
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b]0;owned\x07title", "title"),
            ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\u{9b}31mred", "red"),
            ("\u{9d}52;c;AAAA\u{9c}clip", "clip"),
            ("\x1bPq#0\x1b\\after", "after"),
            ("\x1b(Bset", "set"),
            ("\x1bcreset", "reset"),
            ("a\x1b]0;never ended", "a"),
            ("a\x1b", "a"),
            ("a\x1b[12;", "a"),
            ("a\x1b[12\u{7}b", "ab"),
            ("nul\0bell\x07del\x7f", "nulbelldel"),
            ("pay\u{202e}gnp.exe", "paygnp.exe"),
            ("ze\u{200b}ro\u{200d}wi\u{feff}dth\u{ad}", "zerowidth"),
            ("tags\u{e0049}\u{e0067}\u{e006e}", "tags"),
            ("line\u{2028}separator\u{3000}wide", "line separator wide"),
            ("\u{2800}\u{2800}braille", "braille"),
            ("Größe 日本 👍", "Größe 日本 👍"),
            ("\u{1b}\u{1b}[1mtwice", "twice"),
        ];
        for (raw, cleaned) in cases {
            assert_eq!(clean(raw, 100), cleaned, "{raw:?}");
        }
    }

    #[test]
    fn overlong_text_ends_with_an_ellipsis() {
        assert_eq!(clean("abcdef", 6), "abcdef");
        assert_eq!(clean("abcdefg", 6), "abcde…");
        assert_eq!(clean("abcd efgh", 6), "abcd…");
        assert_eq!(clean("ab cd ef", 6), "ab cd…");
        assert_eq!(clean("abcdef   ", 6), "abcdef");
        assert_eq!(clean("日本語日本語", 3), "日本…");
        assert_eq!(clean("ab", 0), "");
    }

    proptest! {
        #[test]
        fn cleaning_is_bounded_and_idempotent(text in "\\PC*|(.|[\u{1b}\u{9b}\u{9d}\u{7}\\[\\]\\\\;\u{200b}\u{e0041} ])*", max_chars in 0usize..50) {
            let once = clean(&text, max_chars);
            prop_assert!(once.chars().count() <= max_chars);
            prop_assert!(!once.chars().any(is_invisible));
            prop_assert!(!once.contains("  ") && once.trim() == once);
            prop_assert_eq!(clean(&once, max_chars), once.clone());
        }
    }
}
