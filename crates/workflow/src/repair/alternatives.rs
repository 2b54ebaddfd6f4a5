//! The alternatives of a pattern: whether one pattern is another one with more of them.

use steplatch_pattern::{Alternative, Alternatives, Form, Pattern};

use crate::substitute;

/// Texts that a pattern of one question or result does not match: a question, a prompt, a counter. A pattern that does
/// matches nearly anything.
const UNRELATED: [&str; 17] = [
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

/// Beginnings of words that say that something is taken away.
const DESTRUCTIVE: [&str; 34] = [
    "abort",
    "cancel",
    "delet",
    "destr",
    "disabl",
    "discard",
    "downgrad",
    "drop",
    "empt",
    "eras",
    "flush",
    "forc",
    "format",
    "irrevers",
    "kill",
    "lose",
    "losing",
    "loss",
    "lost",
    "overwr",
    "permanent",
    "prun",
    "purg",
    "remov",
    "replac",
    "reset",
    "revert",
    "revok",
    "shred",
    "terminat",
    "truncat",
    "uninstall",
    "wipe",
    "wiping",
];

/// The fewest letters of a word that holds an alternative at an end.
const MIN_WORD_LETTERS: usize = 3;

/// The first mark of a variable. Patterns that have such a character themselves are not compared.
const FIRST_MARK: char = '\u{e000}';

/// Why a pattern is not simply another one with more alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotWider {
    /// An alternative is gone, or was changed.
    Other,
    /// A new alternative matches nearly anything.
    Anything(String),
    /// A new alternative matches lines of programs that fail.
    Failure(String),
    /// A new alternative has a form that hides what it matches. A group sets a variable or moves the numbers of others.
    Form { alternative: String, form: Form },
    /// A new alternative has a value that may be a pattern itself.
    Value { alternative: String, value: String },
    /// A new alternative has, or takes, a word that says that something is taken away.
    Destructive { alternative: String, word: String },
    /// A new alternative matches a line that was recorded, and that the pattern did not match so far.
    Recorded { alternative: String, line: String },
    /// A new alternative does not begin and end with a word.
    Open(String),
    /// A new alternative takes too much work.
    Uncompared(String),
}

/// Patterns with marks in place of their variables.
struct Marks<'p> {
    /// Placeholders, as they are written.
    known: Vec<&'p str>,
}

impl<'p> Marks<'p> {
    fn is_mark(sign: char) -> bool {
        ('\u{e000}'..='\u{f8ff}').contains(&sign)
    }

    /// Returns the alternatives of a pattern, with a mark in place of each variable.
    fn alternatives(&mut self, pattern: &'p str) -> Option<Alternatives> {
        if pattern.contains(Self::is_mark) {
            return None;
        }
        let mut is_full = false;
        let marked = substitute::marked(pattern, |written| {
            let at = self.known.iter().position(|known| *known == written).unwrap_or_else(|| {
                self.known.push(written);
                self.known.len() - 1
            });
            let mark = u32::try_from(at).ok().and_then(|at| char::from_u32(u32::from(FIRST_MARK) + at));
            mark.filter(|mark| Self::is_mark(*mark)).unwrap_or_else(|| {
                is_full = true;
                FIRST_MARK
            })
        });
        Alternatives::of(&marked).ok().filter(|_| !is_full)
    }

    fn placeholder(&self, mark: char) -> Option<&'p str> {
        self.known.get(usize::try_from(u32::from(mark).checked_sub(u32::from(FIRST_MARK))?).ok()?).copied()
    }

    /// Returns a text with its variables as they are written.
    fn written(&self, text: &str) -> String {
        let one = |sign: char| self.placeholder(sign).map_or_else(|| sign.to_string(), str::to_owned);
        text.chars().map(one).collect()
    }
}

/// Checks that `after` is `before` with more alternatives, each of which is held at both ends by a word and matches nothing
/// that was `recorded` otherwise.
pub(super) fn is_wider<'p>(before: &[&'p str], after: &[&'p str], recorded: &[String]) -> Result<(), NotWider> {
    let mut marks = Marks { known: Vec::new() };
    let mut read = |patterns: &[&'p str]| -> Option<Vec<Alternatives>> {
        patterns.iter().map(|pattern| marks.alternatives(pattern)).collect()
    };
    let (Some(known), Some(given)) = (read(before), read(after)) else { return Err(NotWider::Other) };
    // Further patterns of a list follow those that are there.
    if known.len() > given.len() {
        return Err(NotWider::Other);
    }
    for (known, given) in known.iter().zip(&given) {
        let is_given = |alternative| given.iter().any(|given| given == alternative);
        if known.flags_str() != given.flags_str() || !known.iter().all(is_given) {
            return Err(NotWider::Other);
        }
    }
    let matches_known = |line: &str| {
        before
            .iter()
            .any(|pattern| Pattern::new(&without_variables(pattern)).is_ok_and(|one| one.is_match(line) == Ok(true)))
    };
    for (index, given) in given.iter().enumerate() {
        let known = known.get(index);
        let is_new = |one: &&Alternative| known.is_none_or(|known| known.iter().all(|known| known != *one));
        if known.is_none() && !given.flags_str().is_empty() {
            let alternative = after[index].to_owned();
            return Err(NotWider::Form { alternative, form: Form::Remark });
        }
        for alternative in given.iter().filter(is_new) {
            check(alternative, given.flags_str(), &marks, recorded, &matches_known)?;
        }
    }
    Ok(())
}

/// Checks a new alternative.
fn check(
    alternative: &Alternative,
    flags: &str,
    marks: &Marks<'_>,
    recorded: &[String],
    matches_known: &dyn Fn(&str) -> bool,
) -> Result<(), NotWider> {
    let written = || marks.written(alternative.as_str());
    let form = alternative.form();
    if let Some(form @ (Form::Group | Form::Reference)) = form {
        return Err(NotWider::Form { alternative: written(), form });
    }
    let mut values = alternative.as_str().chars().filter_map(|sign| marks.placeholder(sign));
    // Any other value may have parts of a pattern.
    if let Some(value) = values.find(|value| !value.ends_with("|regex}")) {
        return Err(NotWider::Value { alternative: written(), value: value.to_owned() });
    }
    let any = alternative.as_str().replace(Marks::is_mark, ".+");
    let pattern = Pattern::new(&format!("{flags}{any}")).map_err(|_| NotWider::Uncompared(written()))?;
    let matches = |text: &str| pattern.is_match(text).map_err(|_| NotWider::Uncompared(written()));
    for text in UNRELATED {
        if matches(text)? {
            return Err(NotWider::Anything(written()));
        }
    }
    for text in FAILURES {
        if matches(text)? {
            return Err(NotWider::Failure(written()));
        }
    }
    for line in recorded {
        if matches(line)? && !matches_known(line) {
            return Err(NotWider::Recorded { alternative: written(), line: line.clone() });
        }
    }
    if let Some(form) = form {
        return Err(NotWider::Form { alternative: written(), form });
    }
    let words = alternative.words();
    let is_destructive = |word: &&String| {
        let word = word.to_lowercase();
        DESTRUCTIVE.iter().any(|beginning| word.starts_with(beginning))
    };
    let word = words.iter().find(is_destructive).map(String::as_str);
    if let Some(word) = word.or_else(|| alternative.takes_unwritten_words().then_some("delete")) {
        return Err(NotWider::Destructive { alternative: written(), word: word.to_owned() });
    }
    if !alternative.is_held_by_words(MIN_WORD_LETTERS, Marks::is_mark) {
        return Err(NotWider::Open(written()));
    }
    Ok(())
}

/// Whether a pattern, or one of its alternatives, matches nearly anything. One that cannot be compared counts as one.
pub(super) fn matches_nearly_anything(pattern: &str) -> bool {
    let Ok(all) = Alternatives::of(&without_variables(pattern)) else { return true };
    all.iter().any(|alternative| {
        let pattern = Pattern::new(&format!("{}{}", all.flags_str(), alternative.as_str()));
        pattern.map_or(true, |pattern| UNRELATED.iter().any(|text| pattern.is_match(text).unwrap_or(true)))
    })
}

/// Returns a pattern with its variables replaced by any text: their values are those of a run.
fn without_variables(pattern: &str) -> String {
    substitute::marked(pattern, |_| FIRST_MARK).replace(FIRST_MARK, ".+")
}

impl NotWider {
    /// Returns why a pattern counts as another one, as a fragment.
    pub(super) fn reason(&self, shown: impl Fn(&str) -> String) -> String {
        match self {
            Self::Other => "an alternative is gone or was changed, or the flags were".to_owned(),
            Self::Anything(alternative) => format!("'{}' matches nearly anything", shown(alternative)),
            Self::Failure(alternative) => format!("'{}' also matches lines of failures", shown(alternative)),
            Self::Form { alternative, form } => {
                let form = match form {
                    Form::Group => "a group, which may set a variable",
                    Form::LookAround => "a look-around, which hides what it matches",
                    Form::Reference => "a reference to a group, which hides what it matches",
                    Form::Atomic => "an atomic group, which hides what it matches",
                    Form::Remark => "flags of its own or a comment, which hide what it matches",
                };
                format!("'{}' has {form}", shown(alternative))
            }
            Self::Value { alternative, value } => {
                format!("'{}' has a value that may be a pattern, {value}", shown(alternative))
            }
            Self::Destructive { alternative, word } => {
                format!("'{}' also matches a question with '{word}'", shown(alternative))
            }
            Self::Recorded { alternative, line } => {
                format!("'{}' also matches '{}', which was recorded", shown(alternative), shown(line))
            }
            Self::Open(alternative) => format!(
                "'{}' does not begin and end with a word of {MIN_WORD_LETTERS} letters or more",
                shown(alternative)
            ),
            Self::Uncompared(alternative) => format!("'{}' cannot be compared", shown(alternative)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn more_alternatives_are_wider_and_anything_else_is_another_pattern() {
        let wider = |before, after| is_wider(&[before], &[after], &["Building 3 of 7".to_owned()]);
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
        assert_eq!(wider("Hello {NAME}", "Hello {NAME}|Welcome {NAME|regex} here"), Ok(()));
        assert_eq!(wider("^{PWD|regex}/x$", "^{PWD|regex}/x$|Proceed"), Ok(()));
        assert_eq!(wider("^{PWD|regex}/x$", "^{PWD}/x$|Proceed"), Err(NotWider::Other));
        assert_eq!(wider("^{PWD|regex}$", "^\u{e000}$|Proceed"), Err(NotWider::Other), "a mark is not forged");
        assert_eq!(wider("Continue", "(?x) Continue | Proceed"), Err(NotWider::Other));
        assert_eq!(wider("Continue", r"(?:\x43ontinue)|Proceed"), Ok(()), "it is written otherwise");
        assert_eq!(wider(r"(?m)^Building (?:\d)", r"(?m)^Building (?:\d)|^Building"), Ok(()), "it was matched before");
    }

    #[test]
    fn an_alternative_for_any_question_for_failures_or_with_a_group_is_named() {
        let wider = |after: &str| is_wider(&["Continue"], &[&format!("Continue|{after}")], &[]);
        for anything in ["", "(?:)", "(?:Proceed|)", "x*", ".", r"\n", r"\s", "^", "$", r"\Z", "(?!zzz)", ".{100}"] {
            let wider = wider(anything);
            assert!(matches!(wider, Err(NotWider::Anything(_))), "{anything:?}: {wider:?}");
            assert!(matches_nearly_anything(&format!("Continue|{anything}")), "{anything:?}");
        }
        assert!(!matches_nearly_anything(r"^Continue\? \[y/n\] *\Z|^Proceed\? *\Z"));
        for anything in [r"\? *\Z", r"\? \[y/N\]", ": *$", r"[$#>] *\Z", r"\d+%", r"\(yes/no\)", r"\[\d+\]"] {
            assert_eq!(wider(anything), Err(NotWider::Anything(anything.to_owned())), "{anything}");
        }
        assert_eq!(wider("(?i)error"), Err(NotWider::Other), "flags do not stand there");
        for failure in ["[Ee]rror", "[Ff]ailed", "denied$", "^Aborted", "not found"] {
            assert_eq!(wider(failure), Err(NotWider::Failure(failure.to_owned())), "{failure}");
        }
        for group in [r"port (\d+)", r"port (?P<PORT>\d+)"] {
            let form = Form::Group;
            assert_eq!(wider(group), Err(NotWider::Form { alternative: group.to_owned(), form }));
        }
        assert_eq!(wider(r"\(port\) [(] (?:one|two)"), Ok(()));
    }

    #[test]
    fn an_alternative_that_is_not_held_by_words_or_hides_what_it_matches_is_named() {
        let wider = |after: &str| is_wider(&["Continue"], &[&format!("Continue|{after}")], &[]);
        for form in [
            r"(?<=[^xr])\? \[y/N\] *\Z",
            r"(?s:v.*\?)",
            "(?i:WIPE|DESTROY|overwrite)",
            "Zz(?#|)",
            "(?:(?=w)w)",
            "Proceed (?=with)with it",
            "Proceed(?!x)",
            "(?>Proceed)",
            "Proceed *+now",
            "(?i:Proceed)",
            "(?-i:Proceed)",
            "Proceed (?x: w i t h) it",
        ] {
            assert!(
                matches!(wider(form), Err(NotWider::Form { .. } | NotWider::Anything(_))),
                "{form}: {:?}",
                wider(form)
            );
        }
        for open in [
            "qq",
            "Proceed 5",
            r"\d+ packages",
            "Proceed {X|regex}",
            "ok?ay then",
            "(?:Proceed)? then qq",
            "q[bc]",
            "Proceed *(?:then)*",
        ] {
            assert_eq!(wider(open), Err(NotWider::Open(open.to_owned())));
        }
        assert_eq!(wider("w"), Err(NotWider::Anything("w".to_owned())));
        assert!(matches!(wider("Proceed {X} now"), Err(NotWider::Value { .. })));
        for word in [
            "Delete it",
            "^Wiping the disk",
            "(?:Keep|Overwrite) them",
            "Really destroy",
            r"\x64elete it",
            "[d]elete it",
        ] {
            assert!(matches!(wider(word), Err(NotWider::Destructive { .. })), "{word}: {:?}", wider(word));
        }
        for takes in [
            r"Proceed \S+ now",
            "Proceed with.*installation",
            "Proceed wi[a-z]e now",
            r"Take [^\d]+ now",
            r"Take \w{4} now",
            "Take (?:wipe )?now",
        ] {
            assert!(matches!(wider(takes), Err(NotWider::Destructive { .. })), "{takes}: {:?}", wider(takes));
        }
        for fine in ["Proceed", r"^Proceed with the installation\? *$", r"^Install (?:\d+) packages\? \[[Y]/n\] *\Z"] {
            assert_eq!(wider(fine), Ok(()), "{fine}");
        }
        // The flags of a pattern hold for its new alternatives, and are no flags of theirs.
        assert_eq!(is_wider(&["(?i)continue"], &["(?i)continue|proceed"], &[]), Ok(()));
        assert!(is_wider(&["(?i)continue"], &["(?i)continue|DELETE it"], &[]).is_err());
        assert!(is_wider(&["Continue"], &["Continue", "(?i)proceed"], &[]).is_err(), "a further pattern of a list");
        assert_eq!(is_wider(&["Continue"], &["Continue", "Proceed"], &[]), Ok(()));
    }

    /// A part of a pattern, in each form of the dialect.
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

    /// Texts that a screen may have.
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
        fn what_a_new_alternative_matches_begins_and_ends_with_its_words_unless_it_is_named(
            new in part(), screen in screen(),
        ) {
            let after = format!("Continue|{new}");
            let Ok(pattern) = Pattern::new(&without_variables(&after)) else { return Ok(()) };
            if is_wider(&["Continue"], &[&after], &[]).is_err() {
                return Ok(());
            }
            if let Ok(Some(found)) = pattern.find_at(&screen, 0) {
                let text = &screen[found.range];
                let words: Vec<&str> = text.split(|sign: char| !sign.is_alphabetic()).filter(|word| word.len() > 2).collect();
                prop_assert!(!words.is_empty(), "{new:?} takes {text:?} of {screen:?}");
                for end in [words[0], words[words.len() - 1]] {
                    // Escapes are read: a word may be written with them.
                    let plain = after.replace(r"\x41", "A").replace(r"\u0042", "B").replace(r"\103", "C");
                    prop_assert!(plain.contains(end), "{new:?} takes {text:?}, and {end:?} is no word of it");
                }
                prop_assert!(!text.contains("wipe") && !text.contains("delete"), "{new:?} takes {text:?}");
            }
        }

        #[test]
        fn an_alternative_that_matches_more_is_named_unless_it_is_held_by_words(new in part(), screen in screen()) {
            let after = format!("Continue|{new}");
            let Ok(pattern) = Pattern::new(&without_variables(&after)) else { return Ok(()) };
            let matches_more = pattern.is_match(&screen) == Ok(true) && !screen.contains("Continue");
            // The oracle knows one form: letters and blanks between the ends of a line.
            let plain = new.chars().all(|sign| sign.is_alphabetic() || " ^$|".contains(sign));
            let is_held = |one: &str| one.split(' ').any(|word| word.trim_matches(['^', '$']).len() > 2);
            if matches_more && plain && !new.split('|').all(|one| one == "Continue" || is_held(one)) {
                prop_assert!(is_wider(&["Continue"], &[&after], &[]).is_err(), "{new:?}");
            }
        }
    }
}
