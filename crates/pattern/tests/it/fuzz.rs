//! User patterns on program output: a pattern, a zero byte, and a text.

use steplatch_fuzz::Target;
use steplatch_pattern::{Match, Pattern, PatternError, escape};

/// Checks that a match lies within its text.
fn check(found: &Match, pattern: &Pattern, text: &str, from: usize) {
    assert!(found.range.start >= from && text.get(found.range.clone()).is_some(), "{found:?}");
    assert_eq!(found.groups.len(), pattern.group_names().len());
    assert!(found.groups.iter().flatten().all(|group| text.get(group.clone()).is_some()), "{found:?}");
}

#[test]
fn patterns() {
    let target = Target {
        corpus: concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/patterns"),
        dictionary: &[
            "(?:",
            "(?=",
            "(?!",
            "(?<=",
            "(?<!",
            "(?>",
            "(?i)",
            "(?s:",
            "(?-i:",
            "(?x)",
            "(?a)",
            "(?P<n>",
            "(?P=n)",
            "(?P>n)",
            "(?(1)",
            "(?(n)",
            "(?#",
            ")",
            "|",
            "*",
            "+",
            "?",
            "*?",
            "+?",
            "??",
            "*+",
            "++",
            "?+",
            "{2}",
            "{,3}",
            "{2,}",
            "{1,2}?",
            "{65535}",
            "[",
            "[^",
            "]",
            "[]",
            "-",
            "\\1",
            "\\2",
            "\\b",
            "\\B",
            "\\d",
            "\\D",
            "\\w",
            "\\W",
            "\\s",
            "\\S",
            "\\A",
            "\\Z",
            "\\x41",
            "\\u00e9",
            "\\U0001f44d",
            "\\N{DIGIT ONE}",
            "\\0",
            "\\07",
            "\\",
            "&&",
            "--",
            "~~",
            "[[:alpha:]]",
            "^",
            "$",
            ".",
            "\0",
            "\n",
            "é",
            "ß",
            "ſ",
            "K",
            "İ",
            "👍",
        ],
        max_bytes: 300,
    };
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let (source, text) = text.split_once('\0').unwrap_or((&text, "a word é\n12 words"));
        let literal = Pattern::new(&escape(text));
        if let Ok(literal) = literal {
            let found =
                literal.find_at(text, 0).expect("searching for a literal is cheap").expect("a literal matches itself");
            assert_eq!(found.range, 0..text.len(), "escaped as {}", escape(text));
        }
        let pattern = match Pattern::new(source) {
            Ok(pattern) => pattern,
            Err(error) => {
                if let PatternError::Invalid { position, .. } = &error {
                    assert!(*position <= source.chars().count(), "{error}");
                }
                let shape = error.to_string();
                return shape.rsplit(": ").next().unwrap_or_default().split(' ').take(3).collect::<String>();
            }
        };
        assert_eq!(pattern.as_str(), source);
        let Ok(found) = pattern.find_at(text, 0) else { return "too much work".to_owned() };
        assert_eq!(pattern.is_match(text), Ok(found.is_some()));
        for from in 0..=text.len().min(20) + 1 {
            let Ok(later) = pattern.find_at(text, from) else { continue };
            if let Some(later) = &later {
                check(later, &pattern, text, from);
            }
            // The first match is found from every position up to its start.
            if found.as_ref().is_none_or(|found| from <= found.range.start) {
                assert_eq!(later, found, "from {from}");
            }
        }
        // An always true look-around selects the other engine.
        if let Ok(other) = Pattern::new(&format!("(?:{source})(?=)"))
            && let Ok(again) = other.find_at(text, 0)
        {
            let start = |found: &Option<Match>| found.as_ref().map(|found| found.range.start);
            assert_eq!(start(&again), start(&found), "both engines find the same match");
        }
        let letters: String = source.chars().filter(|letter| !letter.is_alphanumeric()).take(6).collect();
        format!("{letters} {}", found.is_some())
    });
}
