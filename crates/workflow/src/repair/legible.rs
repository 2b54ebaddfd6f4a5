//! Display of values and their changes, safe against hostile texts.
//!
//! A hostile text may push its important part out of sight, or look like another text. So a count replaces a long run
//! of blank characters, and a code replaces an invisible character or a character that resembles a Latin letter.

use serde_json::Value;

/// Minimum number of consecutive blank characters that a count replaces.
const MIN_COUNTED_BLANKS: usize = 4;

/// Maximum length of changed texts that are displayed with their common parts, in characters.
const MAX_COMMON_CHARS: usize = 120;

/// Number of characters displayed before and after the difference of two texts.
const CONTEXT_CHARS: usize = 20;

/// Cyrillic and Greek letters that look like Latin letters.
const LOOK_ALIKES: &str = "асеорхуіѕјԁһԛԝҮАВСЕНІЈКМОРЅТХαονρικυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ";

/// Returns whether two values are equal, with the keys of their objects in the same order: the branches of a `parallel`
/// begin in that order.
pub(super) fn is_same(old: Option<&Value>, new: Option<&Value>) -> bool {
    old == new && old.map(Value::to_string) == new.map(Value::to_string)
}

/// Returns a value as JSON, in the form of [`legible`].
pub(super) fn value_text(value: &Value) -> String {
    legible(&value.to_string())
}

/// Returns text (possibly JSON) with long runs of spaces replaced by counts, and invisible characters and letters that
/// resemble Latin letters replaced by codes.
pub(super) fn legible(text: &str) -> String {
    legible_characters(&split_characters(text))
}

/// Returns a description of a value's change. For long values, the description contains only their difference.
pub(super) fn change(old: Option<&Value>, new: Option<&Value>) -> String {
    let reordering = if is_reordered(old, new) { "is in another order: it " } else { "" };
    let [old, new] = [old, new].map(|value| value.map_or_else(|| "nothing".to_owned(), Value::to_string));
    let (old, new) = (split_characters(&old), split_characters(&new));
    let min_length = old.len().min(new.len());
    let common_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let common_end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(min_length - common_start)
        .take_while(|(old, new)| old == new)
        .count();
    let changed_part = |characters: &[&str]| {
        let (from, to) =
            (common_start.saturating_sub(CONTEXT_CHARS), characters.len() - common_end.saturating_sub(CONTEXT_CHARS));
        let [from, to] = if old.len().max(new.len()) > MAX_COMMON_CHARS { [from, to] } else { [0, characters.len()] };
        let [before, after] = [from > 0, to < characters.len()].map(|is_cut| if is_cut { "…" } else { "" });
        format!("{before}{}{after}", legible_characters(&characters[from..to]))
    };
    format!("{reordering}was {} and is {}", changed_part(&old), changed_part(&new))
}

/// Returns whether two lists or objects have the same parts, in a different order.
fn is_reordered(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            let sorted = |items: &[Value]| {
                let mut items: Vec<String> = items.iter().map(Value::to_string).collect();
                items.sort();
                items
            };
            old.len() > 1 && sorted(old) == sorted(new)
        }
        (Some(Value::Object(old)), Some(Value::Object(new))) => old == new,
        _ => false,
    }
}

/// Splits text into its characters. An escape sequence is treated as one character.
fn split_characters(text: &str) -> Vec<&str> {
    let (mut characters, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let length = match rest.strip_prefix('\\').and_then(|escaped| escaped.chars().next()) {
            Some('u') if rest.get(2..6).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit())) => 6,
            Some(escaped) => 1 + escaped.len_utf8(),
            None => first.len_utf8(),
        };
        let (character, remainder) = rest.split_at(length);
        characters.push(character);
        rest = remainder;
    }
    characters
}

fn legible_characters(characters: &[&str]) -> String {
    let (mut output, mut rest) = (String::new(), characters);
    while let Some(first) = rest.first() {
        let blank_count = rest.iter().take_while(|character| is_blank(character)).count();
        let word_length = rest.iter().take_while(|character| is_letter(character)).count();
        if blank_count >= MIN_COUNTED_BLANKS {
            let has_line_ends =
                rest[..blank_count].iter().any(|character| ["\\n", "\\r", "\n", "\r"].contains(character));
            output
                .push_str(&format!("[{blank_count} blanks{}]", if has_line_ends { " with ends of lines" } else { "" }));
        } else if word_length > 0 {
            let may_mislead =
                rest[..word_length].iter().all(|character| character.is_ascii() || is_look_alike(character))
                    || rest[..word_length].iter().any(|character| character.is_ascii());
            let code = |character: &str| {
                if may_mislead && is_look_alike(character) { code(character) } else { character.to_owned() }
            };
            output.extend(rest[..word_length].iter().map(|character| code(character)));
        } else {
            let is_invisible_text = first.chars().all(is_invisible);
            output.push_str(&if is_invisible_text { code(first) } else { (*first).to_owned() });
        }
        rest = &rest[if blank_count >= MIN_COUNTED_BLANKS { blank_count } else { word_length.max(1) }..];
    }
    output
}

/// Returns the code of a character.
fn code(character: &str) -> String {
    character.chars().map(|character| character.escape_unicode().to_string()).collect()
}

fn is_letter(character: &str) -> bool {
    character.chars().all(|character| character.is_alphanumeric() && !is_invisible(character))
}

/// Returns whether a character takes up space but is not visible.
fn is_blank(character: &str) -> bool {
    let is_empty = |character: char| character.is_whitespace() || (is_invisible(character) && !character.is_control());
    ["\\n", "\\r", "\\t", "\\f"].contains(&character) || character.chars().all(is_empty)
}

/// Returns whether a character has no visible form: a control character, a blank other than the space, a character that
/// reorders, hides or strikes through other characters, or a letter without a glyph.
fn is_invisible(character: char) -> bool {
    match character {
        ' '..='~' => false,
        '\u{334}'..='\u{338}' | '\u{20d0}'..='\u{20ff}' => true,
        '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{34f}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => true,
        // After a letter, `escape_debug` does not escape combining marks.
        other => String::from_iter(['x', other]).escape_debug().count() > 2,
    }
}

fn is_look_alike(character: &str) -> bool {
    let is_one = |character: char| {
        LOOK_ALIKES.contains(character)
            || matches!(character, '\u{ff01}'..='\u{ff5e}' | '\u{2100}'..='\u{214f}' | '\u{2160}'..='\u{217f}' | '\u{1d400}'..='\u{1d7ff}')
    };
    !character.is_ascii() && character.chars().all(is_one)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hidden_shifted_or_lookalike_text_is_counted_or_coded() {
        for (text, shown) in [
            ("make  dist", r#""make  dist""#),
            ("a\n\tb", r#""a\n\tb""#),
            ("a    b", r#""a[4 blanks]b""#),
            ("a\n  \n  b", r#""a[6 blanks with ends of lines]b""#),
            ("a\u{a0}\u{2800}\u{3164}\u{200b}\u{3000}b", r#""a[5 blanks]b""#),
            ("a\\n\\n\\n\\nb", r#""a\\n\\n\\n\\nb""#),
            ("a\u{202e}b", r#""a\u{202e}b""#),
            ("a\u{1b}[8m", r#""a\u001b[8m""#),
            ("x\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}", r#""x\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}""#),
            ("n\u{336}o", r#""n\u{336}o""#),
            ("yes\u{fe0f}\u{e0041}", r#""yes\u{fe0f}\u{e0041}""#),
            ("m\u{430}ke", r#""m\u{430}ke""#),
            ("\u{441}\u{440}", r#""\u{441}\u{440}""#),
            ("\u{ff52}\u{ff4d}", r#""\u{ff52}\u{ff4d}""#),
            ("Продолжить? grün gru\u{308}n 日本 ✓ ที่ é", "\"Продолжить? grün gru\u{308}n 日本 ✓ ที่ é\""),
        ] {
            assert_eq!(value_text(&json!(text)), shown, "{text:?}");
        }
    }

    #[test]
    fn change_shows_the_differing_part_or_a_mere_reordering() {
        let text = |old: &Value, new: &Value| change(Some(old), Some(new));
        assert_eq!(text(&json!("a"), &json!("b")), r#"was "a" and is "b""#);
        assert_eq!(text(&json!([1, 2]), &json!([2, 1])), "is in another order: it was [1,2] and is [2,1]");
        let ordered = |text: &str| serde_json::from_str::<Value>(text).expect("the text is JSON");
        let (left, right) = (ordered(r#"{"a":1,"b":2}"#), ordered(r#"{"b":2,"a":1}"#));
        assert!(!is_same(Some(&left), Some(&right)) && is_same(Some(&left), Some(&left)));
        assert_eq!(text(&left, &right), r#"is in another order: it was {"a":1,"b":2} and is {"b":2,"a":1}"#);
        // Truncating a long text keeps an escaped character whole.
        let long = |end: &str| json!(format!("{}{}{end}", "x".repeat(130), "\\n".repeat(20)));
        assert!(text(&long("a"), &long("b")).starts_with(r#"was …\\n\\n"#), "{}", text(&long("a"), &long("b")));
    }
}
