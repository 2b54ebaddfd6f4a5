//! The alternatives of a pattern: whether one pattern is another one with more of them.

use steplatch_pattern::Pattern;

/// Texts that a pattern of one question or result does not match: a question, a prompt, a counter. A pattern that does
/// matches nearly anything.
const UNRELATED: [&str; 16] = [
    "",
    "x",
    "0",
    "Lorem ipsum: dolor sit amet 1",
    "Zorp the quux? ",
    "Zorp the quux? [y/N] ",
    "Zorp the quux (yes/no)? ",
    "Quux: ",
    "Quux [12]: ",
    "quux> ",
    "quux@zorp:~/quux$ ",
    "[root@zorp quux]# ",
    ">>> ",
    "(12/34) zorping quux... 56%",
    "Zorp\nquux\n",
    "Zorp: quux zorp quux, zorp quux zorp; quux zorp quux zorp quux. Zorp quux zorp, quux zorp quux zorp quux zorp quux.",
];

/// Lines of programs that fail. A pattern that matches one lets a failure pass.
const FAILURES: [&str; 12] = [
    "error: quux",
    "zorp: Error: quux",
    "ERROR quux",
    "Quux failed",
    "FAILED quux",
    "fatal: quux",
    "quux: Permission denied",
    "quux: No such file or directory",
    "quux: command not found",
    "Traceback (most recent call last):",
    "Aborted",
    "quux timed out",
];

/// Why a pattern is not simply another one with more alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotWider {
    /// An alternative is gone, or was changed.
    Other,
    /// A new alternative matches nearly anything.
    Anything(String),
    /// A new alternative matches lines of programs that fail.
    Failure(String),
    /// A new alternative has a group, which sets a variable or moves the numbers of other groups.
    Group(String),
    /// A new alternative matches a line that was recorded, and that the pattern did not match so far.
    Recorded { alternative: String, line: String },
    /// A new alternative does not compile, or takes too much work.
    Uncompared(String),
}

/// Checks that `after` is `before` with more alternatives, none of which matches what was `recorded` otherwise.
pub(super) fn is_wider(before: &str, after: &str, recorded: &[String]) -> Result<(), NotWider> {
    let ((flags, before_rest), (new_flags, after_rest)) = (flags(before), flags(after));
    let (known, given) = (alternatives(before_rest), alternatives(after_rest));
    if flags != new_flags || !known.iter().all(|alternative| given.contains(alternative)) {
        return Err(NotWider::Other);
    }
    let matches = |pattern: &str, text: &str| {
        let pattern = Pattern::new(&format!("{flags}{}", without_variables(pattern)));
        pattern.ok().and_then(|pattern| pattern.is_match(text).ok())
    };
    for alternative in given.iter().filter(|alternative| !known.contains(alternative)) {
        let uncompared = || NotWider::Uncompared((*alternative).to_owned());
        if has_group(alternative) {
            return Err(NotWider::Group((*alternative).to_owned()));
        }
        for text in UNRELATED {
            if matches(alternative, text).ok_or_else(uncompared)? {
                return Err(NotWider::Anything((*alternative).to_owned()));
            }
        }
        for text in FAILURES {
            if matches(alternative, text).ok_or_else(uncompared)? {
                return Err(NotWider::Failure((*alternative).to_owned()));
            }
        }
        for line in recorded {
            if matches(alternative, line).ok_or_else(uncompared)? && matches(before_rest, line) != Some(true) {
                return Err(NotWider::Recorded { alternative: (*alternative).to_owned(), line: line.clone() });
            }
        }
    }
    Ok(())
}

/// Whether a pattern, or one of its alternatives, matches nearly anything. One that cannot be compared counts as one.
pub(super) fn matches_nearly_anything(pattern: &str) -> bool {
    let (flags, rest) = flags(pattern);
    alternatives(rest).into_iter().any(|alternative| {
        let pattern = Pattern::new(&format!("{flags}{}", without_variables(alternative)));
        pattern.map_or(true, |pattern| UNRELATED.iter().any(|text| pattern.is_match(text).unwrap_or(true)))
    })
}

/// Splits the flags off the beginning of a pattern: `(?mi)`.
fn flags(pattern: &str) -> (&str, &str) {
    let is_flags = |flags: &str| !flags.is_empty() && flags.chars().all(|flag| flag.is_ascii_alphabetic());
    match pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')')) {
        Some((flags, rest)) if is_flags(flags) => (&pattern[..pattern.len() - rest.len()], rest),
        _ => ("", pattern),
    }
}

/// Returns the outermost alternatives of a pattern. A group that is the whole pattern, or a whole alternative, is opened.
fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut found, mut from) = (Vec::new(), 0);
    let (mut depth, mut in_class, mut is_escaped) = (0usize, false, false);
    for (at, sign) in pattern.char_indices() {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' if in_class => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.push(&pattern[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&pattern[from..]);
    match found[..] {
        [only] => inside_group(only).map_or(found, alternatives),
        _ => found.into_iter().flat_map(|one| inside_group(one).map_or_else(|| vec![one], alternatives)).collect(),
    }
}

/// Whether a pattern has a group that captures, with a name or a number.
fn has_group(pattern: &str) -> bool {
    let (mut in_class, mut is_escaped) = (false, false);
    pattern.char_indices().any(|(at, sign)| {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' if in_class => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => return !pattern[at + 1..].starts_with('?') || pattern[at + 1..].starts_with("?P<"),
            _ => {}
        }
        false
    })
}

/// Returns what a pattern has in its group, if it is one group that captures nothing.
fn inside_group(pattern: &str) -> Option<&str> {
    let inside = pattern.strip_prefix("(?:")?.strip_suffix(')')?;
    let (mut depth, mut in_class, mut is_escaped) = (0isize, false, false);
    for sign in inside.chars() {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' if in_class => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        // The group ends before the pattern does.
        if depth < 0 {
            return None;
        }
    }
    (depth == 0 && !is_escaped && !in_class).then_some(inside)
}

/// Returns a pattern with its variables replaced by any text: their values are those of a run.
fn without_variables(pattern: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(pattern.len()), pattern);
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let end = from.find('}').filter(|end| {
            let name = &from[1..*end];
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        });
        let Some(end) = end else {
            text.push('{');
            rest = &from[1..];
            continue;
        };
        text.push_str(".+");
        rest = &from[end + 1..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_alternatives_are_wider_and_anything_else_is_another_pattern() {
        let wider = |before, after| is_wider(before, after, &["Building 3 of 7".to_owned()]);
        assert_eq!(wider("Continue", "Continue|Proceed"), Ok(()));
        assert_eq!(wider("(?m)^a b|c d$", "(?m)^a b|(?:Do you|May we) agree|c d$"), Ok(()));
        assert_eq!(wider("Continue", "(?:Continue)|(?:Proceed [|] now)"), Ok(()));
        assert_eq!(wider("Continue", "Proceed"), Err(NotWider::Other));
        assert_eq!(wider("Continue", "Cont|inue"), Err(NotWider::Other));
        assert_eq!(wider("(?m)Continue", "Continue|Proceed"), Err(NotWider::Other));
        assert_eq!(wider("Continue", "Continue|.*"), Err(NotWider::Anything(".*".to_owned())));
        assert_eq!(wider("Continue", "Continue|"), Err(NotWider::Anything(String::new())));
        assert_eq!(wider("Continue", "Continue|[a-z]"), Err(NotWider::Anything("[a-z]".to_owned())));
        assert!(matches!(wider("Continue", r"Continue|Building \d"), Err(NotWider::Recorded { .. })));
        assert!(wider("Continue", r"Continue|(Proceed").is_err());
        assert_eq!(wider("Hello {NAME}", "Hello {NAME}|Welcome {NAME}"), Ok(()));
        assert_eq!(wider(r"(?m)^Building (?:\d)", r"(?m)^Building (?:\d)|^Building"), Ok(()), "it was matched before");
    }

    #[test]
    fn an_alternative_for_any_question_for_failures_or_with_a_group_is_named() {
        let wider = |after: &str| is_wider("Continue", &format!("Continue|{after}"), &[]);
        for anything in ["", "(?:)", "(?:Proceed|)", "x*", ".", r"\n", r"\s", "^", "$", r"\Z", "(?!zzz)", "(?s).{100}"]
        {
            let wider = wider(anything);
            assert!(matches!(wider, Err(NotWider::Anything(_))), "{anything:?}: {wider:?}");
            assert!(matches_nearly_anything(&format!("Continue|{anything}")), "{anything:?}");
        }
        assert!(!matches_nearly_anything(r"^Continue\? \[y/n\] *\Z|^Proceed\? *\Z"));
        for anything in [r"\? *\Z", r"\? \[y/N\]", ": *$", r"[$#>] *\Z", r"\d+%", r"\(yes/no\)", r"\[\d+\]"] {
            assert_eq!(wider(anything), Err(NotWider::Anything(anything.to_owned())), "{anything}");
        }
        for failure in ["(?i)error", "[Ff]ailed", "denied$", "^Aborted", "not found"] {
            assert!(matches!(wider(failure), Err(NotWider::Failure(_) | NotWider::Uncompared(_))), "{failure}");
        }
        for group in [r"port (\d+)", r"port (?P<PORT>\d+)"] {
            assert_eq!(wider(group), Err(NotWider::Group(group.to_owned())));
        }
        assert_eq!(wider(r"\(port\) [(] (?:one|two)"), Ok(()));
    }

    #[test]
    fn a_group_is_opened_only_where_it_is_the_whole() {
        assert_eq!(alternatives("(?:a|b)"), ["a", "b"]);
        assert_eq!(alternatives("(?:a|b)(?:c|d)"), ["(?:a|b)(?:c|d)"]);
        assert_eq!(alternatives(r"a\|b|[|]"), [r"a\|b", "[|]"]);
        assert_eq!(alternatives("(?:a|b)|c"), ["a", "b", "c"]);
    }
}
