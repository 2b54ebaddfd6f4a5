//! Patterns of what programs show: a question without an end, a row of a full screen, a menu.
//!
//! A pattern generalises text that changes from one time to the next to its class, never to any word: a number to a
//! number, the name of a month to the name of a month. `classes` decides, within the [`Leeway`].

mod classes;

use crate::session_log::KnownFacts;
use crate::template::{Binding, Use, template};
pub(crate) use classes::{Leeway, varying_words, without_classes};

/// Returns the pattern of a line that asks: it stands at the end of the output.
pub(crate) fn question(line: &str, bindings: &[Binding], facts: &KnownFacts, leeway: Leeway) -> String {
    // Only line ends follow a complete line.
    let end = if line.ends_with(['\n', '\t']) { r"\s*\Z" } else { r" *\Z" };
    let line = line.trim_end();
    let begin = line.len() - line.trim_start().len();
    let (spinner, text) = without_spinner(&line[begin..]);
    let mut body = general(text, bindings, facts, leeway);
    if body.is_empty() {
        return String::new();
    }
    // A pattern without any text of its own would match every line.
    if classes::without_classes(&body).trim_matches([' ', '+']).is_empty() {
        body = escaped(text);
    }
    let indent = match &line[..begin] {
        "" => "",
        blanks if blanks.contains('\t') => r"[ \t]*",
        _ => " *",
    };
    format!("^{indent}{spinner}{body}{end}")
}

/// Signs of which a program draws one after the other at the beginning of a row while it works.
const SPINNER: &str = r"|/-\\⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏◐◓◑◒";

/// Returns the pattern of a sign of a spinner at the beginning of a row, and the rest of the row.
fn without_spinner(row: &str) -> (String, &str) {
    match row.split_once(' ') {
        Some((sign, rest)) if sign.chars().count() == 1 && SPINNER.contains(sign) => (format!("[{SPINNER}] "), rest),
        _ => (String::new(), row),
    }
}

/// Words of questions that do not name their subject: it stands above them.
const OF_ANY_QUESTION: [&str; 36] = [
    "and",
    "answer",
    "are",
    "certain",
    "choice",
    "choose",
    "confirm",
    "correct",
    "default",
    "enter",
    "for",
    "from",
    "input",
    "key",
    "number",
    "okay",
    "one",
    "option",
    "pick",
    "please",
    "press",
    "really",
    "right",
    "select",
    "selection",
    "sure",
    "that",
    "the",
    "this",
    "type",
    "value",
    "want",
    "with",
    "yes",
    "you",
    "your",
];

/// Returns whether a question names its subject: a word of three letters or more that not every question has.
pub(crate) fn names_subject(line: &str) -> bool {
    let line = line.to_lowercase();
    let words: Vec<&str> =
        line.split(|sign: char| !sign.is_alphabetic()).filter(|word| word.chars().count() > 2).collect();
    let is_pressed = words.contains(&"press") || words.contains(&"hit");
    let is_of_any = |word: &&str| {
        OF_ANY_QUESTION.contains(word) || is_pressed && matches!(*word, "continue" | "return" | "any" | "hit")
    };
    !words.iter().all(is_of_any)
}

/// Maximum number of characters of a row that are compared; of a longer one its end, which may continue in the next row.
const MAX_ROW_CHARS: usize = 40;

/// The last row of a screen, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LastRow {
    /// The whole row.
    Whole(String),
    /// A line at the prompt of a shell, which is not in the log.
    BehindPrompt(String),
}

impl LastRow {
    /// Returns the pattern of a screen that ends with this row.
    pub(crate) fn pattern(&self, bindings: &[Binding], facts: &KnownFacts) -> String {
        let literal = |text: &str| general(text, bindings, facts, Leeway::Nothing);
        let (Self::Whole(row) | Self::BehindPrompt(row)) = self;
        let row = row.trim();
        let count = row.chars().count();
        if count > MAX_ROW_CHARS {
            let end = row.char_indices().nth(count - MAX_ROW_CHARS).map_or(row, |(at, _)| &row[at..]);
            let pattern = literal(end);
            let signs = || end.chars().map(|sign| escaped(&sign.to_string())).collect::<Vec<_>>().join(r"\n?");
            return format!(r"{}\s*\Z", if pattern == escaped(end) { signs() } else { pattern });
        }
        let begin = match self {
            Self::Whole(_) => "^ *",
            // Prompts end with a sign, such as `$ `. Text with this line in it does not. The recording has no prompts.
            Self::BehindPrompt(_) => r"(?:^|[^\w\s][ \t]?)",
        };
        format!(r"{begin}{}\s*\Z", literal(row))
    }
}

/// Returns the pattern of the rows that stand on the screen where a program draws in place, in their order, with nothing
/// between them. `is_last` is whether nothing stands below them.
pub(crate) fn rows(rows: &[String], bindings: &[Binding], facts: &KnownFacts, leeway: Leeway, is_last: bool) -> String {
    let end = format!(r" *{FRAME}\n{FRAME}");
    // An editor fills its window with rows of one sign, as many as there is room for.
    let is_filler = |row: &str| row.chars().count() == 1 && !row.contains(char::is_alphanumeric);
    let patterns = rows.chunk_by(|one, next| one == next && is_filler(one)).map(|alike| {
        let row = |row: &String| general(row, bindings, facts, leeway);
        match alike {
            [first, _, ..] => format!("(?:{0}{end})*{0}", row(first)),
            _ => alike.iter().map(row).collect(),
        }
    });
    format!(
        "^{FRAME}{}{}",
        patterns.collect::<Vec<_>>().join(&end),
        if is_last { format!(r" *{FRAME}\Z") } else { String::new() }
    )
}

/// Pattern of the surroundings of a menu's rows: blanks, empty rows and the signs of frames.
const FRAME: &str = r"[\s\u2500-\u259f]*";

/// Returns the pattern of a part of a row.
pub(crate) fn general(text: &str, bindings: &[Binding], facts: &KnownFacts, leeway: Leeway) -> String {
    template(text, bindings, Use::Pattern, |part| classes::generalised(part, facts, leeway)).0
}

/// Escapes what means something in a pattern, and nothing else: people read a captured pattern.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for sign in text.chars() {
        if r"\.+*?()|[]{}^$".contains(sign) {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern
}

/// Returns the row that distinguishes a full screen from the one before: text that was not there, and as much of it as
/// possible.
pub(crate) fn landmark<'s>(before: Option<&str>, screen: &'s str) -> Option<&'s str> {
    let before: Vec<&str> = before.into_iter().flat_map(str::lines).map(str::trim).collect();
    let letters = |row: &str| row.chars().filter(|sign| sign.is_alphabetic()).count();
    let rows = screen.lines().map(without_frame);
    let mut best: Option<&str> = None;
    for row in rows {
        let is_new = !before.iter().any(|old| old.contains(row));
        if is_new && letters(row) >= 3 && best.is_none_or(|best| letters(row) > letters(best)) {
            best = Some(row);
        }
    }
    best
}

/// Returns a row without the frame around it.
pub(crate) fn without_frame(row: &str) -> &str {
    row.trim_matches(|sign: char| sign.is_whitespace() || is_frame(sign))
}

/// Returns whether a sign draws a line, a box or a block.
fn is_frame(sign: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&sign)
}

/// Returns whether a pattern matches in a text, in which `^` and `$` are the ends of lines, as in a wait.
pub(crate) fn stands_in(pattern: &str, text: &str) -> bool {
    let pattern = steplatch_pattern::Pattern::new(&format!("(?m){pattern}"));
    pattern.is_ok_and(|pattern| pattern.is_match(text).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> KnownFacts {
        KnownFacts {
            home: "/home/ana".to_owned(),
            directory: "/home/ana/shop".to_owned(),
            user: "ana".to_owned(),
            host: "mill".to_owned(),
            ..KnownFacts::default()
        }
    }

    #[test]
    fn what_changes_in_a_question_is_generalised_to_its_class() {
        let hex = r"(?!\d+(?:[a-f]+|(?:[Ee]|[Ff]eb|[Dd]ec)\d+)\b|[a-f]+\d+\b)(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8}";
        let random = classes::SWITCHING.to_owned() + "[0-9A-Za-z_]{6}";
        let cases = [
            ("Continue? [Y/n] ", r"^Continue\? \[Y/n\] *\Z"),
            ("version: (1.0.0) ", r"^version: \(\d+\.\d+\.\d+\) *\Z"),
            ("Where is /tmp/x.81/a? ", r"^Where is /tmp/x\.\d+/a\? *\Z"),
            ("Where is /tmp/tmp.a8Xk2Q/old-build? ", &format!(r"^Where is /tmp/tmp\.{random}/old-build\? *\Z")),
            ("ana@mill's name: ", r"^[\w.-]+@[\w.-]+'s name: *\Z"),
            ("ana@mill:~# ", r"^[\w.-]+@[\w.-]+:~# *\Z"),
            ("ana@example.org: ", r"^[\w.-]+@example\.org: *\Z"),
            ("millions: ", r"^millions: *\Z"),
            ("(Pdb) ", r"^\(Pdb\) *\Z"),
            ("message of 1f3a9b2c: ", &format!(r"^message of {hex}: *\Z")),
            ("amount of 1234567: ", r"^amount of \d+: *\Z"),
            ("key SHA256:aB3/x+: ", r"^key SHA256:[A-Za-z0-9+/=]+: *\Z"),
            ("May I sit on the Sun? ", r"^May I sit on the Sun\? *\Z"),
            ("    utf8   ok? ", r"^ *utf8 +ok\? *\Z"),
            ("a\tb: ", r"^a\s+b: *\Z"),
        ];
        for (line, pattern) in cases {
            let made = question(line, &[], &facts(), Leeway::Data);
            assert_eq!(made, pattern, "{line}");
            let pattern = steplatch_pattern::Pattern::new(&made).unwrap();
            assert!(pattern.is_match(line).unwrap(), "{made} {line:?}");
        }
        let date = question("Last login: Tue Nov 24 04:21: ", &[], &facts(), Leeway::Data);
        assert!(date.contains("(?:Mon(?:day)?|") && date.contains("|Nov(?:ember)?|"), "{date}");
        assert!(stands_in(&date, "Last login: Fri May 1 14:00: ") && !stands_in(&date, "Last login: xx Nov 2 14:00: "));
        // Nothing but a class would be found everywhere.
        assert_eq!(question("12 ", &[], &facts(), Leeway::Data), r"^12 *\Z");
        assert_eq!(question("1f3a9b2c ", &[], &facts(), Leeway::Data), r"^1f3a9b2c *\Z");
        assert_eq!(question("[12] ", &[], &facts(), Leeway::Data), r"^\[\d+\] *\Z");
        assert_eq!(question("  ", &[], &facts(), Leeway::Data), "");
    }

    #[test]
    fn a_value_in_a_question_is_its_variable() {
        let bindings = [Binding { value: "shop".to_owned(), name: "name".to_owned() }];
        let question = question("package name: (shop) ", &bindings, &facts(), Leeway::Data);
        assert_eq!(question, r"^package name: \({name|regex}\) *\Z");
    }

    #[test]
    fn a_line_that_has_ended_is_the_last_one() {
        let question = question("Pick from 1 to 4\n", &[], &facts(), Leeway::Data);
        assert_eq!(question, r"^Pick from \d+ to \d+\s*\Z");
        assert!(stands_in(&question, "3. x\nPick from 1 to 3\n"));
    }

    #[test]
    fn the_last_row_is_whole_behind_a_prompt_or_the_end_of_a_longer_one() {
        let bindings = [Binding { value: "shop".to_owned(), name: "name".to_owned() }];
        let pattern = |row: LastRow| row.pattern(&bindings, &facts());
        let line = |text: &str| LastRow::BehindPrompt(text.to_owned());
        assert_eq!(pattern(line("sh x.sh shop")), r"(?:^|[^\w\s][ \t]?)sh x\.sh {name|regex}\s*\Z");
        assert!(stands_in(&pattern(line("sh x.sh")), "ana@mill:~$ sh x.sh\n"));
        assert!(!stands_in(&pattern(line("sh x.sh")), "ana@mill:~$ sh x.sh\nErase sh x.sh"));
        let answer = pattern(LastRow::Whole("Keep logs? y".to_owned()));
        assert!(stands_in(&answer, "$ sh x.sh\nKeep logs? y\n"), "{answer}");
        for other in ["Type ok to delete the directory", "Erase all of /var/history", "Erase? Keep logs? y"] {
            assert!(!stands_in(&answer, &format!("Keep logs? y\n{other}")), "{answer} {other}");
        }
        let long = pattern(line(&format!("sh x.sh {}", "argument ".repeat(6).trim())));
        assert!(stands_in(&long, "$ sh x.sh argument argument argument ar\ngument argument argument\n\n"), "{long}");
        assert!(
            !stands_in(&long, "$ sh x.sh argument argument argument argument argument argument\nErase all?"),
            "{long}"
        );
    }

    #[test]
    fn the_row_that_is_new_tells_a_screen() {
        assert_eq!(landmark(Some("│ Welcome │\n<Ok>"), "│ Which disk? │\n<Ok>"), Some("Which disk?"));
        assert_eq!(landmark(None, "~\n~"), None);
    }
}
