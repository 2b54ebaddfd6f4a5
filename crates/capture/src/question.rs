//! Patterns for the output of programs: a question without an end of line, a row of a full screen, a menu.
//!
//! A pattern replaces text that varies between runs with its class, never with any word: a number with any number, the
//! name of a month with the name of any month. `classes` defines the classes that a [`Leeway`] permits.

mod classes;

use crate::session_log::KnownFacts;
use crate::template::{Binding, Use, template};
pub(crate) use classes::{
    Leeway, TEMPORARY_DIRECTORIES, UUID_GROUPS, count_switches, replace_varying_words, without_classes,
};

/// Returns the pattern of a question at the end of the output.
pub(crate) fn question(line: &str, bindings: &[Binding], facts: &KnownFacts, leeway: Leeway) -> String {
    // Only line ends follow a complete line.
    let end = if line.ends_with(['\n', '\t']) { r"\s*\Z" } else { r" *\Z" };
    let line = line.trim_end();
    let begin = line.len() - line.trim_start().len();
    let (spinner, text) = without_spinner(&line[begin..]);
    let mut body = general_pattern(text, bindings, facts, leeway);
    if body.is_empty() {
        return String::new();
    }
    // A pattern of classes alone would match too many lines.
    if classes::without_classes(&body).trim_matches([' ', '+']).is_empty() {
        body = escape(text);
    }
    let indent = match &line[..begin] {
        "" => "",
        blanks if blanks.contains('\t') => r"[ \t]*",
        _ => " *",
    };
    format!("^{indent}{spinner}{body}{end}")
}

/// Characters of spinners at the beginning of a row.
const SPINNER: &str = r"|/-\\⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏◐◓◑◒";

/// Returns the pattern of a spinner at the beginning of a row, and the rest of the row.
fn without_spinner(row: &str) -> (String, &str) {
    match row.split_once(' ') {
        Some((character, rest)) if character.chars().count() == 1 && SPINNER.contains(character) => {
            (format!("[{SPINNER}] "), rest)
        }
        _ => (String::new(), row),
    }
}

/// Words that do not name the subject of a question.
const GENERIC_QUESTION_WORDS: [&str; 36] = [
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

/// Returns whether a question names its subject: it has a word of three or more letters that is not generic.
pub(crate) fn names_subject(line: &str) -> bool {
    let line = line.to_lowercase();
    let words: Vec<&str> =
        line.split(|character: char| !character.is_alphabetic()).filter(|word| word.chars().count() > 2).collect();
    let requests_key = words.contains(&"press") || words.contains(&"hit");
    let is_generic = |word: &&str| {
        GENERIC_QUESTION_WORDS.contains(word) || requests_key && matches!(*word, "continue" | "return" | "any" | "hit")
    };
    !words.iter().all(is_generic)
}

/// Maximum number of compared characters of a row. Of a longer row, only the end is compared. It may wrap to the next
/// row.
const MAX_ROW_CHARS: usize = 40;

/// The known part of the last row of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LastRow {
    /// The whole row.
    Whole(String),
    /// A line after the prompt of a shell. The prompt is not in the log.
    AfterPrompt(String),
}

impl LastRow {
    /// Returns the pattern of a screen that ends with this row.
    pub(crate) fn pattern(&self, bindings: &[Binding], facts: &KnownFacts) -> String {
        let literal = |text: &str| general_pattern(text, bindings, facts, Leeway::Nothing);
        let (Self::Whole(row) | Self::AfterPrompt(row)) = self;
        let row = row.trim();
        let count = row.chars().count();
        if count > MAX_ROW_CHARS {
            let end = row.char_indices().nth(count - MAX_ROW_CHARS).map_or(row, |(start, _)| &row[start..]);
            let pattern = literal(end);
            let characters =
                || end.chars().map(|character| escape(&character.to_string())).collect::<Vec<_>>().join(r"\n?");
            return format!(r"{}\s*\Z", if pattern == escape(end) { characters() } else { pattern });
        }
        let prefix = match self {
            Self::Whole(_) => "^ *",
            // A prompt ends with punctuation, such as `$ `. The recording does not have the prompt.
            Self::AfterPrompt(_) => r"(?:^|[^\w\s][ \t]?)",
        };
        format!(r"{prefix}{}\s*\Z", literal(row))
    }
}

/// Returns the pattern of consecutive rows of a screen, with the rows of `output` above them. If `is_last`, the screen
/// is empty below them.
pub(crate) fn rows(
    output: &[String],
    rows: &[String],
    bindings: &[Binding],
    facts: &KnownFacts,
    leeway: Leeway,
    is_last: bool,
) -> String {
    let output = output.iter().map(|row| general_pattern(row, bindings, facts, Leeway::Data));
    let end = format!(r" *{FRAME}\n{FRAME}");
    // An editor fills the rest of its window with rows of one character.
    let is_filler = |row: &str| row.chars().count() == 1 && !row.contains(char::is_alphanumeric);
    let patterns = rows.chunk_by(|row, next| row == next && is_filler(row)).map(|equal_rows| {
        let row = |row: &String| general_pattern(row, bindings, facts, leeway);
        match equal_rows {
            [first, _, ..] => format!("(?:{0}{end})*{0}", row(first)),
            _ => equal_rows.iter().map(row).collect(),
        }
    });
    format!(
        "^{FRAME}{}{}",
        output.chain(patterns).collect::<Vec<_>>().join(&end),
        if is_last { format!(r" *{FRAME}\Z") } else { String::new() }
    )
}

/// Pattern of the text between the rows of a menu: white space, empty rows and frames.
const FRAME: &str = r"[\s\u2500-\u259f]*";

/// Returns the pattern of a part of a row, with variables and classes.
pub(crate) fn general_pattern(text: &str, bindings: &[Binding], facts: &KnownFacts, leeway: Leeway) -> String {
    template(text, bindings, Use::Pattern, |part| classes::generalise(part, facts, leeway)).0
}

/// Escapes only the special characters of patterns, because people read a captured pattern.
pub(crate) fn escape(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Returns the row that distinguishes a full screen from the previous one: the new row with the most letters.
pub(crate) fn landmark<'s>(before: Option<&str>, screen: &'s str) -> Option<&'s str> {
    let rows_before: Vec<&str> = before.into_iter().flat_map(str::lines).map(str::trim).collect();
    let letters = |row: &str| row.chars().filter(|character| character.is_alphabetic()).count();
    let rows = screen.lines().map(without_frame);
    let mut best: Option<&str> = None;
    for row in rows {
        let is_new = !rows_before.iter().any(|row_before| row_before.contains(row));
        if is_new && letters(row) >= 3 && best.is_none_or(|best| letters(row) > letters(best)) {
            best = Some(row);
        }
    }
    best
}

/// Returns a row without the frame around it.
pub(crate) fn without_frame(row: &str) -> &str {
    row.trim_matches(|character: char| character.is_whitespace() || is_frame(character))
}

/// Returns whether a character draws a line, a box or a block.
pub(crate) fn is_frame(character: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&character)
}

/// Returns whether a pattern matches in text. `^` and `$` match at each line, as in a wait.
pub(crate) fn matches_in(pattern: &str, text: &str) -> bool {
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
    fn variable_part_of_a_question_becomes_its_class() {
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
            let pattern_text = question(line, &[], &facts(), Leeway::Data);
            assert_eq!(pattern_text, pattern, "{line}");
            let pattern = steplatch_pattern::Pattern::new(&pattern_text).unwrap();
            assert!(pattern.is_match(line).unwrap(), "{pattern_text} {line:?}");
        }
        let date = question("Last login: Tue Nov 24 04:21: ", &[], &facts(), Leeway::Data);
        assert!(date.contains("(?:Mon(?:day)?|") && date.contains("|Nov(?:ember)?|"), "{date}");
        assert!(
            matches_in(&date, "Last login: Fri May 1 14:00: ") && !matches_in(&date, "Last login: xx Nov 2 14:00: ")
        );
        // A bare class would match everywhere.
        assert_eq!(question("12 ", &[], &facts(), Leeway::Data), r"^12 *\Z");
        assert_eq!(question("1f3a9b2c ", &[], &facts(), Leeway::Data), r"^1f3a9b2c *\Z");
        assert_eq!(question("[12] ", &[], &facts(), Leeway::Data), r"^\[\d+\] *\Z");
        assert_eq!(question("  ", &[], &facts(), Leeway::Data), "");
    }

    #[test]
    fn value_in_a_question_becomes_its_variable() {
        let bindings = [Binding { value: "shop".to_owned(), name: "name".to_owned() }];
        let question = question("package name: (shop) ", &bindings, &facts(), Leeway::Data);
        assert_eq!(question, r"^package name: \({name|regex}\) *\Z");
    }

    #[test]
    fn complete_line_must_be_the_last_line() {
        let question = question("Pick from 1 to 4\n", &[], &facts(), Leeway::Data);
        assert_eq!(question, r"^Pick from \d+ to \d+\s*\Z");
        assert!(matches_in(&question, "3. x\nPick from 1 to 3\n"));
    }

    #[test]
    fn last_row_is_compared_as_a_whole() {
        let bindings = [Binding { value: "shop".to_owned(), name: "name".to_owned() }];
        let pattern = |row: LastRow| row.pattern(&bindings, &facts());
        let line = |text: &str| LastRow::AfterPrompt(text.to_owned());
        assert_eq!(pattern(line("sh x.sh shop")), r"(?:^|[^\w\s][ \t]?)sh x\.sh {name|regex}\s*\Z");
        assert!(matches_in(&pattern(line("sh x.sh")), "ana@mill:~$ sh x.sh\n"));
        assert!(!matches_in(&pattern(line("sh x.sh")), "ana@mill:~$ sh x.sh\nErase sh x.sh"));
        let answer = pattern(LastRow::Whole("Keep logs? y".to_owned()));
        assert!(matches_in(&answer, "$ sh x.sh\nKeep logs? y\n"), "{answer}");
        for question in ["Type ok to delete the directory", "Erase all of /var/history", "Erase? Keep logs? y"] {
            assert!(!matches_in(&answer, &format!("Keep logs? y\n{question}")), "{answer} {question}");
        }
        let long = pattern(line(&format!("sh x.sh {}", "argument ".repeat(6).trim())));
        assert!(matches_in(&long, "$ sh x.sh argument argument argument ar\ngument argument argument\n\n"), "{long}");
        assert!(
            !matches_in(&long, "$ sh x.sh argument argument argument argument argument argument\nErase all?"),
            "{long}"
        );
    }

    #[test]
    fn new_row_identifies_a_screen() {
        assert_eq!(landmark(Some("│ Welcome │\n<Ok>"), "│ Which disk? │\n<Ok>"), Some("Which disk?"));
        assert_eq!(landmark(None, "~\n~"), None);
    }
}
