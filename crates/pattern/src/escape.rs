//! Escaping of literal text.

/// Returns a pattern that matches exactly `text`, as Python's `re.escape` does.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;
    use proptest::prelude::*;

    #[test]
    fn escapes_the_same_characters_as_python() {
        assert_eq!(escape("a.b (c) [1-2] é"), r"a\.b\ \(c\)\ \[1\-2\]\ é");
    }

    proptest! {
        #[test]
        fn escaped_text_matches_only_itself(text in any::<String>()) {
            let pattern = Pattern::new(&escape(&text)).unwrap();
            let haystack = format!("{text}{text}");
            let found = pattern.find_at(&haystack, 0).unwrap().unwrap();
            prop_assert_eq!(found.range, 0..text.len());
        }
    }
}
