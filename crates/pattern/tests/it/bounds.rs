//! Every search has bounded work, and errors name the position to fix.

use std::time::{Duration, Instant};

use expect_test::expect;
use proptest::prelude::*;
use steplatch_pattern::{Pattern, PatternError};

fn error_message(pattern: &str) -> String {
    Pattern::new(pattern).expect_err("the pattern is refused").to_string()
}

#[test]
fn error_names_pattern_reason_and_position() {
    expect!["pattern 'ab(c' does not compile: unclosed group at position 2"].assert_eq(&error_message("ab(c"));
    expect!["pattern 'é[a' does not compile: unterminated character set at position 1"]
        .assert_eq(&error_message("é[a"));
    expect![r"pattern '\q' does not compile: bad escape \q at position 0"].assert_eq(&error_message(r"\q"));
    expect!["pattern '*' does not compile: nothing to repeat at position 0"].assert_eq(&error_message("*"));
}

#[test]
fn overlong_pattern_is_refused_with_an_excerpt() {
    let long = "x".repeat(10_001);
    assert!(matches!(Pattern::new(&long), Err(PatternError::TooLarge { .. })));
    let message = error_message(&long);
    assert!(message.ends_with("…' is too large: 10001 bytes, the maximum is 10000"), "{message}");
    assert!(message.len() < 400);
}

#[test]
fn pattern_too_large_to_compile_is_refused_quickly() {
    for pattern in [r"(?:a{1000}){1000}", r"\w{9999}", r"(?:(?:\w{99}){99}){99}"] {
        let started = Instant::now();
        assert!(matches!(Pattern::new(pattern), Err(PatternError::TooLarge { .. })), "{pattern}");
        assert!(started.elapsed() < Duration::from_secs(60), "{pattern}");
    }
}

#[test]
fn deeply_nested_pattern_is_refused() {
    let deep = format!("{}a{}", "(".repeat(3000), ")".repeat(3000));
    expect!["groups nested too deeply at position 40"]
        .assert_eq(error_message(&deep).rsplit("compile: ").next().unwrap());
}

#[test]
fn catastrophic_pattern_without_lookaround_is_fast() {
    let text = format!("{}!", "a".repeat(5_000));
    assert_eq!(Pattern::new("(a+)+$").unwrap().is_match(&text), Ok(false));
}

#[test]
fn catastrophic_pattern_with_back_references_is_abandoned() {
    let text = format!("{}!c", "a".repeat(60));
    let error = Pattern::new(r"(a*)*\1c").unwrap().is_match(&text).unwrap_err();
    expect![[r"pattern '(a*)*\1c' takes too much work on this text"]].assert_eq(&error.to_string());
}

#[test]
fn search_work_is_bounded_with_lookahead() {
    let text = format!("{}Q", "lorem ipsu".repeat(30_000));
    for pattern in [
        r"(?=.*zzz)(?!y)\w|zzz",
        r"(?:(?=.*zz1)|(?=.*zz2)|.)*QQ(?!x)|Q(?=z)",
        r"(?s)(?:(?!.*zzz).)+(?<=z)",
        r"(\w+\s?)+\1{50}Q(?=x)",
        r"(?=((?:\w+\s?)*)z)Q|Q(?=q)",
        r"(?:(?:a|l|o|r|e|m|\s|[ipsu])*)*+Q(?=q)",
    ] {
        let pattern = Pattern::new(pattern).unwrap_or_else(|error| panic!("{error}"));
        let started = Instant::now();
        let _ = pattern.is_match(&text);
        assert!(started.elapsed() < Duration::from_secs(60), "{pattern:?} took {:?}", started.elapsed());
    }
}

#[test]
fn ordinary_lookaround_is_found_in_a_megabyte() {
    let text = format!("{}undone\nstep 7 done: ok\n", "undone and unready\n".repeat(55_000));
    for (pattern, expected) in [
        (r"(?<!un)done", "done"),
        (r"^step (\d) (?!failed)\w+: ok", "step 7 done: ok"),
        (r"\b(?!and|un)[a-z]\w+", "step"),
        (r"(?=.*ok$)\S+ \d", "step 7"),
        (r"(\w)\1(?= *7)|(?<=7 )\w+", "done"),
    ] {
        let found = Pattern::new(pattern).unwrap().find_at(&text, 0).unwrap().map(|found| &text[found.range]);
        assert_eq!(found, Some(expected), "{pattern}");
    }
}

#[test]
fn groups_are_found_by_number_and_by_name() {
    for source in [r"(?P<key>\w+)=(\d+)?", r"(?P<key>\w+)=(\d+)?(?!x)"] {
        let pattern = Pattern::new(source).unwrap();
        assert_eq!(pattern.group_names(), [Some("key".to_owned()), None]);
        let found = pattern.find_at("é a=1 b=", 0).unwrap().unwrap();
        assert_eq!((found.range, found.groups), (3..6, vec![Some(3..4), Some(5..6)]));
        let found = pattern.find_at("é a=1 b=", 6).unwrap().unwrap();
        assert_eq!((found.range, found.groups), (7..9, vec![Some(7..8), None]));
    }
}

#[test]
fn lookbehind_sees_text_before_the_search_start() {
    let find = |pattern: &str, from| {
        Pattern::new(pattern).unwrap().find_at("one two\ntwo", from).unwrap().map(|found| found.range.start)
    };
    assert_eq!(find("two", 4), Some(4));
    assert_eq!(find("two", 5), Some(8));
    assert_eq!(find("^two", 4), Some(8), "'^' matches at the start of a line, not of the search");
    assert_eq!(find(r"\bwo", 5), None);
    assert_eq!(find("(?<=t)wo", 5), Some(5));
    assert_eq!(find("two", 99), None);
}

#[test]
fn search_within_a_character_starts_at_the_next() {
    for source in [".", "(?=.)."] {
        let pattern = Pattern::new(source).unwrap();
        assert_eq!(pattern.find_at("éa", 1).unwrap().map(|found| found.range), Some(2..3));
        assert_eq!(pattern.find_at("é", 1).unwrap(), None);
    }
}

/// Patterns that are mostly well formed and texts they may match.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", "é", ".", "^", "$", "(", ")", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i)", "(?P<n>", "(?P=n)",
        "(?(1)", "|", "*", "+", "?", "{2}", "{,3}", "{", "}", "[", "[^", "]", "-", r"\1", r"\b", r"\d", r"\W", r"\Z",
        r"\x41", r"\", "0", "7", "#", " ", "\n",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_a_pattern_or_an_error(source in any::<String>(), text in any::<String>(), from in 0usize..40) {
        if let Ok(pattern) = Pattern::new(&source) {
            let _ = pattern.find_at(&text, from);
        }
    }

    #[test]
    fn match_lies_within_the_text(source in pieces(), text in "[ab é0\n]{0,12}", from in 0usize..14) {
        let pattern = match Pattern::new(&source) {
            Ok(pattern) => pattern,
            Err(PatternError::Invalid { position, .. }) => {
                prop_assert!(position <= source.chars().count());
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        if let Ok(Some(found)) = pattern.find_at(&text, from) {
            prop_assert!(found.range.start >= from);
            prop_assert!(text.get(found.range).is_some());
            prop_assert_eq!(found.groups.len(), pattern.group_names().len());
            prop_assert!(found.groups.into_iter().flatten().all(|group| text.get(group).is_some()));
        }
    }
}
