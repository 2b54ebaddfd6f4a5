//! The new alternatives of a pattern compared with another pattern.

use steplatch_pattern::{Alternative, Alternatives, Pattern};

use crate::substitute;

/// Sample texts, such as questions, prompts and counters. A pattern that matches one of them matches nearly anything.
const UNRELATED_TEXTS: [&str; 17] = [
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
    "the and for with from this that you your are was were not all any can has have will use new now one yes out file name",
    "Zorp\nquux\n",
    "Zorp: quux zorp quux, zorp quux zorp; quux zorp quux zorp quux. Zorp quux zorp, quux zorp quux zorp quux zorp quux.",
];

/// The first of the characters that mark variables. Patterns with such a character cannot be compared.
const FIRST_MARK: char = '\u{e000}';

/// An alternative that another pattern does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewAlternative {
    /// The source of the alternative, with placeholders.
    pub(super) text: String,
    /// True if the alternative precedes an existing one, and so may match in its place.
    pub(super) precedes_known: bool,
    /// A warning about the alternative.
    pub(super) remark: Option<Remark>,
}

/// Reason to review a new alternative with care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remark {
    /// The alternative matches nearly anything, or cannot be compared.
    Anything,
    /// The alternative matches this recorded line, and the old pattern does not.
    Recorded(String),
    /// The alternative has a capturing group.
    Group,
    /// The alternative has an unquoted value. The value may be a pattern itself.
    Value(String),
}

/// The marks that replace placeholders in patterns.
struct Marks<'p> {
    /// The placeholders, in the order of their marks.
    placeholders: Vec<&'p str>,
}

impl<'p> Marks<'p> {
    fn is_mark(character: char) -> bool {
        ('\u{e000}'..='\u{f8ff}').contains(&character)
    }

    /// Returns the alternatives of a pattern, with a mark in place of each variable.
    fn alternatives(&mut self, pattern: &'p str) -> Option<Alternatives> {
        if pattern.contains(Self::is_mark) {
            return None;
        }
        let mut is_full = false;
        let marked_pattern = substitute::marked(pattern, |placeholder| {
            let index = self.placeholders.iter().position(|known| *known == placeholder).unwrap_or_else(|| {
                self.placeholders.push(placeholder);
                self.placeholders.len() - 1
            });
            let mark = u32::try_from(index).ok().and_then(|index| char::from_u32(u32::from(FIRST_MARK) + index));
            mark.filter(|mark| Self::is_mark(*mark)).unwrap_or_else(|| {
                is_full = true;
                FIRST_MARK
            })
        });
        Alternatives::parse(&marked_pattern).ok().filter(|_| !is_full)
    }

    fn placeholder(&self, mark: char) -> Option<&'p str> {
        self.placeholders.get(usize::try_from(u32::from(mark).checked_sub(u32::from(FIRST_MARK))?).ok()?).copied()
    }

    /// Returns text with its marks replaced by placeholders.
    fn unmark(&self, text: &str) -> String {
        let unmarked =
            |character: char| self.placeholder(character).map_or_else(|| character.to_string(), str::to_owned);
        text.chars().map(unmarked).collect()
    }
}

/// Returns the alternatives of the patterns `after` that `before` does not have. `None` if there is any other change:
/// to an existing pattern or alternative, their order, or the flags. `recorded` has lines of the recording.
pub(super) fn new_alternatives<'p>(
    before: &[&'p str],
    after: &[&'p str],
    recorded: &[String],
) -> Option<Vec<NewAlternative>> {
    let mut marks = Marks { placeholders: Vec::new() };
    let mut parse_all = |patterns: &[&'p str]| -> Option<Vec<Alternatives>> {
        patterns.iter().map(|pattern| marks.alternatives(pattern)).collect()
    };
    let (known_patterns, new_patterns) = (parse_all(before)?, parse_all(after)?);
    // New patterns of a list follow the existing ones.
    if known_patterns.len() > new_patterns.len() {
        return None;
    }
    for (known, after_alternatives) in known_patterns.iter().zip(&new_patterns) {
        let places = known.iter().map(|known| after_alternatives.iter().position(|candidate| candidate == known));
        // The first matching alternative determines the match.
        let is_kept = places.collect::<Option<Vec<_>>>().is_some_and(|places| places.is_sorted());
        if known.flags_str() != after_alternatives.flags_str() || !is_kept {
            return None;
        }
    }
    let matches_known = |line: &String| {
        before.iter().any(|pattern| {
            Pattern::new(&without_variables(pattern)).is_ok_and(|compiled| compiled.is_match(line) == Ok(true))
        })
    };
    let unknown_lines: Vec<&String> = recorded.iter().filter(|line| !matches_known(line)).collect();
    let mut new = Vec::new();
    for (index, after_alternatives) in new_patterns.iter().enumerate() {
        let known = known_patterns.get(index);
        let is_known =
            |alternative: &&Alternative| known.is_some_and(|known| known.iter().any(|known| known == *alternative));
        let last_known = after_alternatives
            .iter()
            .enumerate()
            .filter(|(_, alternative)| is_known(alternative))
            .map(|(at, _)| at)
            .last();
        for (at, alternative) in after_alternatives.iter().enumerate().filter(|(_, alternative)| !is_known(alternative))
        {
            let (flags, text) = (after_alternatives.flags_str(), marks.unmark(alternative.as_str()));
            let remark = remark(flags, alternative.as_str(), &marks, &unknown_lines);
            let text = if known.is_none() { format!("{flags}{text}") } else { text };
            new.push(NewAlternative { text, precedes_known: last_known.is_some_and(|last| at < last), remark });
        }
    }
    Some(new)
}

fn remark(flags: &str, alternative: &str, marks: &Marks<'_>, unknown_lines: &[&String]) -> Option<Remark> {
    let any = alternative.replace(Marks::is_mark, ".+");
    let Ok(pattern) = Pattern::new(&format!("{flags}{any}")) else { return Some(Remark::Anything) };
    let matches = |text: &str| pattern.is_match(text).unwrap_or(true);
    if UNRELATED_TEXTS.iter().any(|text| matches(text)) {
        return Some(Remark::Anything);
    }
    if let Some(line) = unknown_lines.iter().find(|line| matches(line)) {
        return Some(Remark::Recorded((*line).clone()));
    }
    if !pattern.group_names().is_empty() {
        return Some(Remark::Group);
    }
    let mut values = alternative.chars().filter_map(|character| marks.placeholder(character));
    values.find(|value| !value.ends_with("|regex}")).map(|value| Remark::Value(value.to_owned()))
}

/// Returns whether an alternative of a pattern matches nearly anything. True for a pattern that cannot be compared.
pub(super) fn matches_nearly_anything(pattern: &str) -> bool {
    let Ok(all) = Alternatives::parse(&without_variables(pattern)) else { return true };
    all.iter().any(|alternative| {
        let pattern = Pattern::new(&format!("{}{}", all.flags_str(), alternative.as_str()));
        pattern.map_or(true, |pattern| UNRELATED_TEXTS.iter().any(|text| pattern.is_match(text).unwrap_or(true)))
    })
}

/// Returns a pattern with its variables replaced by `.+`, because their values are known only in a run.
fn without_variables(pattern: &str) -> String {
    substitute::marked(pattern, |_| FIRST_MARK).replace(FIRST_MARK, ".+")
}

impl NewAlternative {
    /// Returns the alternative and its remark, as a fragment of a sentence.
    pub(super) fn reason(&self) -> String {
        let text = &self.text;
        let before = if self.precedes_known { ", tried before a present one" } else { "" };
        let reason = match &self.remark {
            None => format!("'{text}' as well"),
            Some(Remark::Anything) => format!("'{text}' matches nearly anything"),
            Some(Remark::Recorded(line)) => format!("'{text}' also matches '{line}', which was recorded"),
            Some(Remark::Group) => format!("'{text}' has a group, which may set a variable"),
            Some(Remark::Value(value)) => format!("'{text}' has a value that may be a pattern, {value}"),
        };
        format!("{reason}{before}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the new alternatives in their notation.
    fn new(before: &str, after: &str) -> Option<Vec<String>> {
        let found = new_alternatives(&[before], &[after], &[])?;
        Some(found.into_iter().map(|alternative| alternative.text).collect())
    }

    #[test]
    fn only_added_alternatives_are_recognized() {
        let all = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(new("Continue", "Continue|Proceed"), all(&["Proceed"]));
        assert_eq!(new("(?m)^a b|c d$", "(?m)^a b|(?:Do you|May we) agree|c d$"), all(&["(?:Do you|May we) agree"]));
        assert_eq!(new("Continue", "(?:Continue)|(?:Proceed [|] now)"), all(&["(?:Proceed [|] now)"]));
        assert_eq!(new("Continue", "(?:a|Continue|(?:b|c))"), all(&["a", "b", "c"]));
        assert_eq!(new("Continue", "Continue|Continue|(?:Continue)"), all(&[]), "repeated alternatives are not new");
        assert_eq!(new("Continue", r"(?:\x43ontinue)|"), all(&[""]), "an escape does not make a new alternative");
        assert_eq!(new("Hello {NAME}", "Hello {NAME}|Welcome {NAME|regex} here"), all(&["Welcome {NAME|regex} here"]));
        for (before, after) in [
            ("Continue", "Proceed"),
            ("Continue", "Cont|inue"),
            ("a|ab", "ab|a"),
            ("a|ab|abc", "a|abc|new|ab"),
            ("(?m)Continue", "Continue|Proceed"),
            ("Continue", "(?x) Continue | Proceed"),
            ("Continue", "(?i)Continue|Proceed"),
            ("^{PWD|regex}/x$", "^{PWD}/x$|Proceed"),
            ("^{PWD|regex}$", "^\u{e000}$|Proceed"),
            ("Continue", "Continue|(Proceed"),
        ] {
            assert_eq!(new(before, after), None, "{before} {after}");
        }
        // The patterns of a list, each with its flags.
        let list = |after: &[&str]| new_alternatives(&["Continue"], after, &[]);
        assert_eq!(list(&["Continue", "(?i)proceed"]).unwrap()[0].text, "(?i)proceed");
        assert_eq!((list(&["Continue", "a|b"]).unwrap().len(), list(&[])), (2, None));
    }

    #[test]
    fn properties_of_a_new_alternative_are_reported() {
        let remark = |after: &str| {
            let recorded = ["Building 3 of 7".to_owned(), "Continue".to_owned()];
            new_alternatives(&["Continue"], &[&format!("Continue|{after}")], &recorded).unwrap()[0].remark.clone()
        };
        for anything in [
            "",
            "(?:)",
            "x*",
            ".",
            r"\n",
            r"\s",
            "^",
            "$",
            r"\Z",
            "(?!zzz)",
            ".{100}",
            r"\? *\Z",
            r"\? \[y/N\]",
            ": *$",
            r"[$#>] *\Z",
            r"\d+%",
            r"\(yes/no\)",
            r"\[\d+\]",
            ".*",
            "[a-z]",
            "w",
            "{X}",
        ] {
            assert_eq!(remark(anything), Some(Remark::Anything), "{anything:?}");
            assert!(matches_nearly_anything(&format!("Continue|{anything}")), "{anything:?}");
        }
        assert!(!matches_nearly_anything(r"^Continue\? \[y/n\] *\Z|^Proceed\? *\Z"));
        assert_eq!(remark(r"Building \d"), Some(Remark::Recorded("Building 3 of 7".to_owned())));
        assert_eq!(remark("Cont"), None, "the old pattern matches the line too");
        for group in [r"port (\d+)", r"port (?P<PORT>\d+)"] {
            assert_eq!(remark(group), Some(Remark::Group), "{group}");
        }
        assert_eq!(remark(r"\(port\) [(] (?:one|two)"), None);
        assert_eq!(remark("Proceed {X} now"), Some(Remark::Value("{X}".to_owned())));
        assert_eq!(remark("Proceed {X|regex} now"), None);
    }

    /// A part of a pattern, in every form of the dialect.
    fn part() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            prop::sample::select(vec![
                "Proceed",
                "wipe",
                "ok",
                "y",
                "5",
                " ",
                "\\?",
                ".",
                r"\d+",
                r"\w",
                r"\S*",
                r"\s",
                "[a-z]",
                "[^x]",
                "[ ]",
                "[]x]",
                "^",
                "$",
                r"\Z",
                r"\A",
                r"\b",
                r"\B",
                "(?#x)",
                "(?#|)",
                r"\x41",
                r"\u0042",
                r"\103",
                "{X|regex}",
                "{2}",
                "{X}",
                "|",
                "",
            ])
            .prop_map(str::to_owned),
            "[a-z ]{1,8}",
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            let joined = prop::collection::vec(inner.clone(), 1..4).prop_map(|all| all.concat());
            let wrapped = (
                inner,
                prop::sample::select(vec![
                    "(?:@)",
                    "(@)",
                    "(?P<n>@)",
                    "(?i:@)",
                    "(?s:@)",
                    "(?x: @ )",
                    "(?-i:@)",
                    "(?=@)",
                    "(?!@)",
                    "(?<=q)@",
                    "(?<!q)@",
                    "(?>@)",
                    "(?:@)?",
                    "(?:@)*",
                    "(?:@)+?",
                    "(?:@)++",
                    "(?:@){2}",
                    "(?:@|Agree)",
                    "@|wipe it",
                    "(?(1)@)",
                ]),
            );
            prop_oneof![joined, wrapped.prop_map(|(inner, form)| form.replace('@', &inner))]
        })
    }

    /// Texts of a screen.
    fn screen() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "Proceed",
            "Agree",
            "wipe",
            "it",
            "ok",
            "y",
            "5",
            "everything",
            "A",
            "B",
            "C",
            "?",
            "[y/N]",
            "\n",
            "delete",
            "Continue",
        ]);
        prop::collection::vec(word, 0..7).prop_map(|words| words.join(" "))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn pattern_that_matches_more_has_a_new_alternative(one in part(), screen in screen()) {
            let after = format!("Continue|{one}");
            let Ok(pattern) = Pattern::new(&without_variables(&after)) else { return Ok(()) };
            let matches_more = pattern.is_match(&screen) == Ok(true) && !screen.contains("Continue");
            if matches_more && let Some(new) = new("Continue", &after) {
                prop_assert!(!new.is_empty(), "{one:?} matches {screen:?}");
                for new in new {
                    prop_assert!(after.contains(&new), "{new:?} is part of the pattern's source");
                }
            }
        }
    }
}
