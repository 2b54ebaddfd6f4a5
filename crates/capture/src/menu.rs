//! Menus: rows that a wait requires unchanged, because the next input chooses one of them.
//!
//! A number chooses an entry of printed rows, and keys choose an entry of drawn rows. If a row is added, removed or
//! moved, the same input makes another choice, so the wait compares all rows.

use steplatch_pattern::Pattern;

use crate::act::Act;
use crate::drawing::{Entered, drawn_question, first_row, heading_index, plain_prompt, split_words};
use crate::question::{Leeway, general_pattern, is_frame, names_subject, without_frame};
use crate::session_log::KnownFacts;
use crate::template::Binding;

/// The entries that the program must show when the next input chooses one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Menu {
    /// The next input chooses nothing.
    #[default]
    None,
    /// Printed entries. A number chooses one of them.
    Printed(PrintedMenu),
    /// A printed row that contains the answer as a word but is not clearly an entry. It is not compared.
    Mentioned(String),
    /// A full screen with too many rows to compare, and their number.
    TooLarge(usize),
    /// Rows of the screen. Keys choose one of them.
    Drawn {
        /// The rows, top first.
        rows: Vec<String>,
        /// Number of rows at the top that are output above the question.
        output_rows: usize,
        /// True if the screen is empty below the rows.
        is_last: bool,
        /// Highlighted texts of the screen, such as the selected entry.
        highlighted: Vec<String>,
    },
}

/// The last block of entries before a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedMenu {
    /// The typed answer.
    answer: String,
    /// The keys in the answer: numbers or letters.
    keys: Vec<String>,
    /// The delimiters before and after the number; `None` in a table.
    delimiters: Option<(&'static str, char)>,
    /// The label of the entry with the number.
    pub(crate) label: String,
    /// The rows from the last heading to the block. They state the purpose of the entries.
    title: Vec<String>,
    /// The rows of the block.
    rows: Vec<String>,
    /// The rows between the block and the question.
    rows_between: Vec<String>,
    /// True if a row above the block contains the key.
    has_key_above: bool,
    /// True if the rows are entries with a number, such as `2) Paris`.
    pub(crate) is_numbered: bool,
}

/// Maximum number of compared rows of a full screen.
const MAX_ROWS: usize = 60;

/// The mark at the position of the cursor in a row of the input log.
const CURSOR_MARK: char = '▏';

/// Name of the group of a pattern that matches another entry with the same number.
pub(crate) const ANOTHER_ENTRY: &str = "another_entry";

impl Menu {
    /// Returns the menu of a full screen. The rows decide the meaning of an input: it moves, confirms, runs a command,
    /// or goes into the field with the cursor.
    pub(crate) fn from_screen(screen: &str, highlighted: &[String], act: &Act) -> Self {
        let rows: Vec<String> = filled_rows(screen.lines());
        let highlighted = match is_choice(act) {
            true => highlighted.to_vec(),
            false => {
                let cursor_row = |row: &String| row.rsplit_once(": ").map(|(text, _)| text.to_owned());
                highlighted.iter().filter(|row| row.contains(CURSOR_MARK)).filter_map(cursor_row).collect()
            }
        };
        match rows.len() {
            0 => Self::None,
            _ if is_exit_key(act) => Self::None,
            1..=MAX_ROWS => Self::Drawn { rows, output_rows: 0, is_last: false, highlighted },
            count => Self::TooLarge(count),
        }
    }

    /// Returns the menu of the rows that a program draws in place. The menu begins after the last line in `entered`, or
    /// with its question. For a typed line, the menu begins with the cursor row if that row names the subject of the
    /// question; `row` is the text before the cursor.
    pub(crate) fn from_rows_in_place(
        screen: &str,
        highlighted: &[String],
        row: &str,
        entered: &[Entered],
        act: &Act,
    ) -> Self {
        let lines: Vec<&str> = screen.trim_end().lines().map(str::trim_end).collect();
        let row = row.trim_end();
        let cursor = lines.iter().rposition(|line| !row.is_empty() && line.starts_with(row));
        let is_question = names_subject(row) && !row.starts_with(is_frame);
        let question_at_cursor = cursor.filter(|_| is_line(act) && is_question);
        let rows_of_drawing = || {
            let first = first_row(&lines, entered, cursor);
            let (drawn_lines, is_styled) = (&lines[first..], !highlighted_from(highlighted, &lines, first).is_empty());
            match drawn_question(drawn_lines) {
                Some(question) if question.is_complete => (first + question.row, first + question.row),
                Some(question) => (first, first + question.row),
                None => match plain_prompt(drawn_lines, cursor.and_then(|row| row.checked_sub(first))) {
                    Some(row) if !is_styled && !has_movement_key(act) => (first + row, lines.len() - 1),
                    _ => (first, first),
                },
            }
        };
        let (first, question) = question_at_cursor.map_or_else(rows_of_drawing, |row| (row, row));
        let output = filled_rows(lines[first..question].iter().copied());
        let output_rows = output.len();
        let rows: Vec<String> = output.into_iter().chain(filled_rows(lines[question..].iter().copied())).collect();
        if rows.is_empty() {
            return Self::None;
        }
        let highlighted = if is_line(act) { Vec::new() } else { highlighted_from(highlighted, &lines, first) };
        Self::Drawn { rows, output_rows, is_last: true, highlighted }
    }

    /// Returns the printed menu of an input that chooses an entry: numbered as in `2) Paris`, `(2) Paris`, `[2] Paris`,
    /// `2. Paris` or `2 Paris`, or with numbers or letters in another form. The last printed line is the question.
    ///
    /// Enter alone chooses the default of the question, or else the row with the pointer.
    pub(crate) fn printed(printed: &str, act: &Act) -> Self {
        let Act::Typed { text, .. } = act else { return Self::None };
        let question = printed.trim_end().lines().next_back().unwrap_or_default();
        let (answer, default) = (text.trim(), default_answer(question));
        match (answer.is_empty(), default) {
            (false, _) => Self::find_menu(printed, answer),
            (true, Some(default)) => match Self::find_menu(printed, default) {
                Self::Mentioned(_) => Self::None,
                menu => menu,
            },
            (true, None) => Self::menu_with_pointer(printed),
        }
    }

    fn find_menu(printed: &str, answer: &str) -> Self {
        let numbered = Self::numbered_menu(printed, answer);
        if numbered == Self::None { Self::menu_in_any_form(printed, answer) } else { numbered }
    }

    /// Returns the block of rows with a pointer, such as `* 0  /usr/bin/vim`, and the rows up to the question.
    fn menu_with_pointer(printed: &str) -> Self {
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let lines = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default();
        let Some(row) = lines.iter().rposition(|line| has_pointer(line)) else { return Self::None };
        let first = lines[..row].iter().rposition(|line| line.trim().is_empty()).map_or(0, |blank| blank + 1);
        let last = lines[row..].iter().position(|line| line.trim().is_empty()).map_or(lines.len(), |blank| row + blank);
        let block = &lines[first..last];
        let neighbours = [row.checked_sub(1), Some(row + 1)].into_iter().flatten().filter_map(|index| lines.get(index));
        let is_list = block.iter().filter(|line| has_pointer(line)).count() > 1;
        let has_others = || neighbours.into_iter().any(|line| line.starts_with("  ") && !line.trim().is_empty());
        if !is_default(lines[row]) && (is_list || !has_others()) {
            return Self::None;
        }
        let title = heading_index(lines, first);
        Self::Printed(PrintedMenu {
            answer: String::new(),
            keys: Vec::new(),
            delimiters: None,
            label: lines[row].trim().to_owned(),
            rows: trimmed_lines(&lines[first..]),
            title: trimmed_lines(&lines[title..first]),
            rows_between: Vec::new(),
            has_key_above: true,
            is_numbered: false,
        })
    }

    /// Returns the menu whose entries begin with a number.
    fn numbered_menu(printed: &str, answer: &str) -> Self {
        let numbers: Vec<&str> = split_words(answer).collect();
        if numbers.is_empty() || !numbers.iter().all(|word| is_number(word) && without_leading_zeros(word).len() <= 3) {
            return Self::None;
        }
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let Some((question, lines)) = lines.split_last() else { return Self::None };
        let is_offered = |entry: &Entry<'_>| {
            numbers.iter().any(|number| without_leading_zeros(number) == without_leading_zeros(entry.number))
        };
        if entries(question, true).iter().any(is_offered) {
            // The wait compares all words of the question.
            return Self::None;
        }
        // A single row that begins with a number is not a table.
        let is_table = lines.iter().filter(|line| bare_number(line).is_some()).count() > 1;
        let Some(last) = lines.iter().rposition(|line| !entries(line, is_table).is_empty()) else { return Self::None };
        let Some(chosen) = lines.iter().rposition(|line| entries(line, is_table).iter().any(is_offered)) else {
            return Self::None;
        };
        // Within a block, an indented row continues the label above it.
        let is_in_block =
            |line: &str| !entries(line, is_table).is_empty() || line.starts_with([' ', '\t']) || line.is_empty();
        let mut first = lines[..last].iter().rposition(|line| !is_in_block(line)).map_or(0, |above| above + 1);
        while entries(lines[first], is_table).is_empty() {
            first += 1;
        }
        let Some(entry) = entries(lines[chosen], is_table).into_iter().rfind(is_offered) else { return Self::None };
        let (keys, delimiters, label) = (key_forms(&numbers), entry.delimiters, entry.label.to_owned());
        // If the chosen entry is in a block above the last one, the wait compares the rows starting at that entry.
        let (first, last) = if chosen < first { (chosen, chosen) } else { (first, last) };
        let (rows, rows_between) = (trimmed_lines(&lines[first..=last]), trimmed_lines(&lines[last + 1..]));
        // The first line is the echo of the previous input.
        let title = heading_index(lines, first).max(1).min(first);
        let has_key_above = is_mentioned(&keys, lines.get(1..title).unwrap_or_default());
        // The label belongs to the answer only if the answer is the number alone.
        let (delimiters, label) = if answer == entry.number { (delimiters, label) } else { (None, String::new()) };
        Self::Printed(PrintedMenu {
            answer: answer.to_owned(),
            keys,
            delimiters,
            label,
            title: trimmed_lines(&lines[title..first]),
            rows,
            rows_between,
            has_key_above,
            is_numbered: true,
        })
    }

    /// Returns the menu of rows with the answer or other short words at one position, with all rows up to the question.
    /// Ignores case.
    fn menu_in_any_form(printed: &str, answer: &str) -> Self {
        let words: Vec<&str> = split_words(answer).collect();
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let Some((_, lines)) = lines.split_last() else { return Self::None };
        // The first line is the echo of the previous input.
        let lines = lines.get(1..).unwrap_or_default();
        let is_answer = |word: &str| words.iter().any(|answer| is_same_key(answer, word));
        let has_sibling_key = |position: KeyPosition, line: &str| {
            position
                .key(line)
                .is_some_and(|key| !is_answer(key) && words.iter().any(|answer| may_be_siblings(key, answer)))
        };
        let are_keys = !words.is_empty() && words.iter().all(|word| is_key(word));
        let first_row = KEY_POSITIONS.into_iter().filter(|_| are_keys).find_map(|position| {
            let is_chosen = |line: &&str| position.key(line).is_some_and(is_answer);
            let chosen = lines.iter().rposition(is_chosen)?;
            let is_menu_row = |line: &&str| has_sibling_key(position, line) || words.len() > 1 && is_chosen(line);
            let neighbours = [chosen.checked_sub(1), Some(chosen + 1)].into_iter().flatten();
            neighbours.filter_map(|index| lines.get(index)).any(is_menu_row).then(|| {
                let is_in_block =
                    |line: &str| has_sibling_key(position, line) || position.key(line).is_some_and(is_answer);
                lines[..chosen].iter().rposition(|line| !is_in_block(line)).map_or(0, |above| above + 1)
            })
        });
        // Several entries in one row, such as `[S]mall / [F]ull`.
        let is_entry = |line: &str| words.iter().any(|word| is_marked(word, line) || is_in_columns(word, line));
        let row_with_marks = || lines.iter().rposition(|line| are_keys && is_entry(line));
        // A word that begins a row, such as `purge  removes all`.
        let is_word = words.len() == 1 && answer.chars().count() > 1 && !is_number(answer);
        let row_with_word =
            || lines.iter().rposition(|line| is_word && KeyPosition::First.key(line).is_some_and(is_answer));
        let Some(first) = first_row.or_else(row_with_marks).or_else(row_with_word) else {
            let mentions = |line: &&&str| split_words(line).any(is_answer);
            let is_distinctive = answer.chars().count() > 1 || is_number(answer);
            let row = lines.iter().rfind(mentions).filter(|_| is_distinctive && words.len() == 1);
            return row.map_or(Self::None, |row| Self::Mentioned(row.trim().to_owned()));
        };
        let filled = lines[first..].iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let row = lines[first..].iter().rfind(|line| split_words(line).any(is_answer)).unwrap_or(&lines[first]);
        let label = split_words(row).filter(|word| !is_answer(word)).collect::<Vec<_>>().join(" ");
        let keys = key_forms(&words);
        let title = heading_index(lines, first);
        Self::Printed(PrintedMenu {
            answer: answer.to_owned(),
            delimiters: None,
            label,
            title: trimmed_lines(&lines[title..first]),
            rows: filled.map(str::to_owned).collect(),
            rows_between: Vec::new(),
            has_key_above: is_mentioned(&keys, &lines[..title]),
            keys,
            is_numbered: false,
        })
    }
}

impl PrintedMenu {
    /// Returns the text of the chosen entry.
    pub(crate) fn entry(&self) -> String {
        let (open, close) = self.delimiters.map_or(("", String::new()), |(open, close)| (open, close.to_string()));
        format!("{open}{}{close} {}", self.answer, self.label).trim_end().to_owned()
    }

    /// Returns whether the same answer may also choose a row above the block.
    pub(crate) fn may_have_same_key(&self) -> bool {
        self.has_key_above && !self.keys.is_empty()
    }

    /// Returns whether the pattern has the group [`ANOTHER_ENTRY`].
    pub(crate) fn excludes_same_key(&self) -> bool {
        !self.has_key_above
    }

    /// Returns the pattern of the rows up to the question, with a group that matches another entry with the same number
    /// above them.
    pub(crate) fn pattern(&self, bindings: &[Binding], facts: &KnownFacts) -> String {
        let title = self.title.iter().map(|row| general_pattern(row, bindings, facts, Leeway::Identifiers));
        let rows = self.rows.iter().chain(&self.rows_between);
        let rows: Vec<String> =
            title.chain(rows.map(|row| general_pattern(row, bindings, facts, Leeway::Nothing))).collect();
        let another = match self.excludes_same_key() {
            true => format!(r"(?P<{ANOTHER_ENTRY}>{}[\s\S]*)?", key_pattern(&self.keys)),
            false => String::new(),
        };
        format!(r"{another}^[^\S\n]*{}\s*\n", rows.join(r"\s*\n\s*"))
    }
}

/// Returns the default in the brackets of a question, as in `Choice [1]: ` or `Mirror (default: 2): `. Brackets with
/// several words offer these words.
fn default_answer(question: &str) -> Option<&str> {
    let content = question
        .rsplit(['[', '(', '<'])
        .filter_map(|part| part.split_once([']', ')', '>']).map(|(content, _)| content));
    let mut defaults = content.filter_map(|content| {
        let words: Vec<&str> = split_words(content).collect();
        match words[..] {
            [word] if word == content.trim() => Some(word),
            [.., name, default] if name.eq_ignore_ascii_case("default") || name == "is" => Some(default),
            _ => None,
        }
    });
    defaults.next()
}

/// Marks at the beginning of the selected row.
const POINTERS: [&str; 8] = ["* ", "> ", "→ ", "❯ ", "► ", "▶ ", "=> ", "-> "];

fn has_pointer(line: &str) -> bool {
    if is_default(line) {
        return true;
    }
    let row = line.trim_start();
    POINTERS.iter().any(|pointer| row.starts_with(pointer)) && row.contains(char::is_alphabetic)
}

/// Returns whether a row is the choice of Enter alone: the default, or a row with a mark such as `[x] logs`.
fn is_default(line: &str) -> bool {
    const MARKS: [&str; 6] = ["[x] ", "[X] ", "[*] ", "(x) ", "(*) ", "(X) "];
    let row = line.trim_start();
    MARKS.iter().any(|mark| row.starts_with(mark)) || split_words(row).any(|word| word.eq_ignore_ascii_case("default"))
}

/// Returns the lines with text, trimmed.
pub(crate) fn trimmed_lines(lines: &[&str]) -> Vec<String> {
    let filled = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    filled.map(str::to_owned).collect()
}

/// Returns the forms that the keys of an answer have in rows: letters in both cases, numbers also without leading
/// zeros.
fn key_forms(words: &[&str]) -> Vec<String> {
    let forms = words.iter().flat_map(|word| {
        [(*word).to_owned(), word.to_lowercase(), word.to_uppercase(), without_leading_zeros(word).to_owned()]
    });
    let mut keys: Vec<String> = forms.collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Returns a number without leading zeros, or another word unchanged.
fn without_leading_zeros(word: &str) -> &str {
    let value = word.trim_start_matches('0');
    if value.is_empty() && !word.is_empty() { "0" } else { value }
}

/// Returns whether two words choose the same entry.
fn is_same_key(left: &str, right: &str) -> bool {
    match is_number(left) && is_number(right) {
        true => without_leading_zeros(left) == without_leading_zeros(right),
        false => left.to_lowercase() == right.to_lowercase(),
    }
}

/// Returns whether a row marks a letter or number as the key of an entry: `[F]ull`, `(f)`, `f)`, `f = full`.
fn is_marked(key: &str, row: &str) -> bool {
    row.char_indices().any(|(index, _)| {
        let (before, rest) = row.split_at(index);
        let length = rest.chars().take_while(|character| character.is_alphanumeric()).map(char::len_utf8).sum();
        let (word, after) = rest.split_at(length);
        let is_word_start = !before.ends_with(char::is_alphanumeric);
        let after = after.trim_start_matches(' ');
        is_word_start && length > 0 && is_same_key(word, key) && after.starts_with([')', ']', '>', '}', '=', ':'])
    })
}

/// Returns whether a row has entries in columns that begin with their keys, and an entry has this key.
fn is_in_columns(key: &str, row: &str) -> bool {
    let cells: Vec<&str> =
        row.split(['\t', '|']).flat_map(|part| part.split("  ")).filter(|cell| !cell.trim().is_empty()).collect();
    let keys: Vec<Option<&str>> =
        cells.iter().map(|cell| KeyPosition::First.key(cell).filter(|key| is_key(key))).collect();
    cells.len() > 1
        && keys.iter().all(Option::is_some)
        && keys.iter().flatten().any(|other_key| is_same_key(other_key, key))
}

/// Returns the pattern of a key that stands alone, in an entry of any form.
fn key_pattern(keys: &[String]) -> String {
    let keys = if let [key] = keys { key.clone() } else { format!("(?:{})", keys.join("|")) };
    format!(r"(?<![^\W_]|[.,-]){keys}(?![^\W_]|[.,]\d)")
}

/// Returns whether one of these keys stands alone in these lines.
fn is_mentioned(keys: &[String], lines: &[&str]) -> bool {
    Pattern::new(&key_pattern(keys)).is_ok_and(|pattern| pattern.is_match(&lines.join("\n")).unwrap_or(true))
}

/// Position of the key among the words of a menu row.
#[derive(Debug, Clone, Copy)]
enum KeyPosition {
    First,
    /// For example, in `Press 2 to install`.
    Second,
    Last,
}

const KEY_POSITIONS: [KeyPosition; 3] = [KeyPosition::First, KeyPosition::Second, KeyPosition::Last];

impl KeyPosition {
    fn key(self, row: &str) -> Option<&str> {
        match self {
            Self::First => split_words(row).next(),
            Self::Second => split_words(row).nth(1),
            Self::Last => split_words(row).next_back(),
        }
    }
}

/// Maximum length of a key in characters.
const MAX_KEY_CHARS: usize = 4;

/// Returns whether a word may be the key of an entry: digits, or one letter with or without digits.
fn is_key(word: &str) -> bool {
    let letters = word.chars().filter(|character| character.is_alphabetic()).count();
    word.chars().count() <= MAX_KEY_CHARS && letters <= 1
}

/// Returns whether two words may be the keys of two entries of one menu.
fn may_be_siblings(left: &str, right: &str) -> bool {
    let begins_with_letter = |word: &str| word.starts_with(char::is_alphabetic);
    is_key(left) && is_key(right) && begins_with_letter(left) == begins_with_letter(right)
}

/// An entry of a printed menu.
struct Entry<'l> {
    number: &'l str,
    delimiters: Option<(&'static str, char)>,
    label: &'l str,
}

/// Returns the entries of a line: several if they are in columns.
fn entries(line: &str, is_table: bool) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut index = 0;
    while let Some(begin) = line[index..].find(|character: char| character.is_ascii_digit()).map(|begin| index + begin)
    {
        let length = line[begin..].bytes().take_while(u8::is_ascii_digit).count();
        index = begin + length;
        let Some((delimiters, end)) = number_delimiters(line, begin, length).filter(|_| length <= 3) else { continue };
        if let Some(label) = label(&line[end..]) {
            entries.push(Entry { number: &line[begin..index], delimiters: Some(delimiters), label });
        }
    }
    if entries.is_empty()
        && is_table
        && let Some((number, rest)) = bare_number(line)
        && let Some(label) = label(rest)
    {
        entries.push(Entry { number, delimiters: None, label });
    }
    entries
}

/// Returns the delimiters of a number, as in `(2)`, `2.` or `2:`, and the index after the last one.
fn number_delimiters(line: &str, begin: usize, length: usize) -> Option<((&'static str, char), usize)> {
    let (before, after) = (&line[..begin], &line[begin + length..]);
    let delimiter = after.chars().next().filter(|delimiter| ").]:".contains(*delimiter))?;
    let open = match delimiter {
        ')' if before.ends_with('(') => "(",
        ']' if before.ends_with('[') => "[",
        _ => "",
    };
    let is_separate = line[..begin - open.len()].chars().next_back().is_none_or(char::is_whitespace);
    let end = begin + length + delimiter.len_utf8();
    (is_separate && line[end..].starts_with(char::is_whitespace)).then_some(((open, delimiter), end))
}

/// Returns the number at the beginning of a table row, after a mark of selection, and the rest of the row.
fn bare_number(line: &str) -> Option<(&str, &str)> {
    let row = line.trim_start_matches(|character: char| character.is_whitespace() || "*>→".contains(character));
    let digits = row.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = row.split_at(digits);
    let is_row = (1..=3).contains(&digits) && rest.starts_with(char::is_whitespace) && label(rest).is_some();
    is_row.then_some((number, rest))
}

/// Returns the label at the beginning of text, up to the next column.
fn label(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let label = text.split("  ").next().unwrap_or_default().split('\t').next().unwrap_or_default().trim();
    label.chars().any(char::is_alphabetic).then_some(label)
}

/// Returns the highlighted rows at or below row `first` of a screen, in screen order.
fn highlighted_from(highlighted: &[String], screen: &[&str], first: usize) -> Vec<String> {
    let mut next = 0;
    let mut is_below = |row: &&String| {
        let text = row.rsplit_once(": ").map_or(row.as_str(), |(text, _)| text).replace(CURSOR_MARK, "");
        let index = screen[next..]
            .iter()
            .position(|line| without_frame(line) == without_frame(&text))
            .map(|index| next + index);
        next = index.map_or(next, |index| index + 1);
        index.is_none_or(|index| index >= first)
    };
    highlighted.iter().filter(|row| is_below(row)).cloned().collect()
}

/// Returns the rows with text, without frames.
fn filled_rows<'r>(rows: impl Iterator<Item = &'r str>) -> Vec<String> {
    rows.map(without_frame).filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

/// Keys that close a full screen or a part of it, and choose nothing.
const EXIT_KEYS: [&str; 4] = ["escape", "esc", "ctrl-c", "ctrl-d"];

/// Returns whether an input chooses an entry of a full screen: keys that move or confirm, a letter or a number. Longer
/// text is data.
fn is_choice(act: &Act) -> bool {
    let Act::Typed { text, .. } = act else { return false };
    let typed = text.trim_end_matches(['\n', '\r']);
    typed.chars().count() <= 1 || is_number(typed.trim())
}

/// Returns whether an input closes a full screen or a part of it: `q`, or only exit keys.
fn is_exit_key(act: &Act) -> bool {
    let Act::Typed { text, keys } = act else { return false };
    let has_only_exit_keys = text.is_empty() && keys.iter().all(|key| EXIT_KEYS.contains(&key.as_str()));
    text.eq_ignore_ascii_case("q") || has_only_exit_keys
}

/// Returns whether an input has a key other than Enter and Space, such as an arrow key.
fn has_movement_key(act: &Act) -> bool {
    let Act::Typed { keys, .. } = act else { return false };
    keys.iter().any(|key| !matches!(key.as_str(), "enter" | "return" | "space"))
}

/// Returns whether an input is a line of text.
fn is_line(act: &Act) -> bool {
    match act {
        Act::Typed { text, .. } => text.ends_with('\n') && text.trim().chars().count() > 1 && !is_number(text.trim()),
        Act::Hidden { .. } => true,
        Act::Command { .. } => false,
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::{matches_in, rows as pattern_of_rows};

    fn typed(text: &str) -> Act {
        Act::Typed { text: text.to_owned(), keys: Vec::new() }
    }

    fn pressed(keys: &[&str]) -> Act {
        Act::Typed { text: String::new(), keys: keys.iter().map(|key| (*key).to_owned()).collect() }
    }

    fn entry(printed: &str, text: &str) -> Option<String> {
        match Menu::printed(printed, &typed(text)) {
            Menu::Printed(menu) => Some(menu.entry()),
            Menu::None | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Drawn { .. } => None,
        }
    }

    #[test]
    fn chosen_entry_is_found_in_a_printed_menu() {
        let menu = "1) Berlin   2) Paris\n3) New York\n#? ";
        assert_eq!(entry(menu, "2\n").as_deref(), Some("2) Paris"));
        assert_eq!(entry(menu, "3\n").as_deref(), Some("3) New York"));
        assert_eq!(entry("[1] one\n 12: dozen\nwhich? ", "12\n").as_deref(), Some("12: dozen"));
        assert_eq!(entry("(1) one  (2) two\nSelect (1): ", "2\n").as_deref(), Some("(2) two"));
        assert_eq!(entry("[1] one\n[2] two 2.1\nChoose [1-2]: ", "2\n").as_deref(), Some("[2] two 2.1"));
        assert_eq!(entry("1. one\n2. two\nPick a number from 1 to 2\n", "1\n").as_deref(), Some("1. one"));
        let table = "* 0            /usr/bin/vim   30   auto mode\n  1            /bin/nano      10   manual mode\nType a number: ";
        assert_eq!(entry(table, "1\n").as_deref(), Some("1 /bin/nano"));
        assert_eq!(entry(table, "0\n").as_deref(), Some("0 /usr/bin/vim"));
        assert_eq!(entry("3 files changed\nHow many? ", "3\n"), None, "a single row is not a table");
        for (printed, text) in [(menu, "4\n"), (menu, "Paris\n"), ("size 12) x\n? ", "2\n"), ("", "1\n")] {
            assert_eq!(entry(printed, text), None, "{printed:?} {text:?}");
        }
    }

    /// Returns whether a menu recorded with the output `recorded` accepts the choice when the program prints `printed`.
    fn continues(recorded: &str, text: &str, printed: &str) -> bool {
        let Menu::Printed(menu) = Menu::printed(recorded, &typed(text)) else { panic!("{recorded} is a menu") };
        let facts = KnownFacts::default();
        let question = recorded.trim_end().lines().next_back().unwrap_or_default();
        let question = crate::question::question(question, &[], &facts, Leeway::Identifiers);
        let pattern = format!("(?m){}{question}", menu.pattern(&[], &facts));
        let pattern = Pattern::new(&pattern).unwrap();
        let found = pattern.find_at(printed, 0).unwrap();
        let another = pattern.group_names().iter().position(|name| name.as_deref() == Some(ANOTHER_ENTRY));
        found.is_some_and(|found| another.is_none_or(|another| found.groups[another].is_none()))
    }

    #[test]
    fn changed_rows_make_another_menu() {
        let menu = "sh x\nWelcome\n1) small\n2) full\n#? ";
        assert!(continues(menu, "2\n", menu) && continues(menu, "2\n", "Hello\nWelcome\n\n 1) small\n 2) full\n#? "));
        for (program, printed) in [
            ("another title", "Uninstall\n1) small\n2) full\n#? "),
            ("old entries above", "1) small\n2) full\nobsolete, new menu:\n1) full\n2) wipe\n#? "),
            ("old entries below", "1) full\n2) wipe\nremoved entries:\n1) small\n2) full\n#? "),
            ("old entries below, in other signs", "[1] full\n[2] wipe\nremoved:\n1) small\n2) full\n#? "),
            ("old entries below, without a word", "1) full\n2) wipe\n\n1) small\n2) full\n#? "),
            ("an entry before them", "Welcome\n0) none\n2) full\n#? "),
            ("an entry in between", "Welcome\n1) small\n1a) medium\n2) full\n#? "),
            ("an entry after them", "Welcome\n1) small\n2) full\n3) wipe\n#? "),
            ("a renamed entry", "Welcome\n1) tiny\n2) full\n#? "),
            ("a longer label", "Welcome\n1) small\n2) full wipe\n#? "),
            ("a row in between", "Welcome\n1) small\n2) full\nThe numbers are reversed.\n#? "),
            ("another question", "Welcome\n1) small\n2) full\nErase: "),
            ("the entry alone above", "2) full erasure\n1) small\n2) full\n#? "),
        ] {
            assert!(!continues(menu, "2\n", printed), "{program}");
        }
        let table = "x\n  0   vim   30\n* 1   nano   10\nNumber: ";
        assert!(continues(table, "1\n", table));
        assert!(!continues(
            table,
            "1\n",
            "  0   vim   30\n* 1   wipe   10\nold:\n  0   vim   30\n* 1   nano   10\nNumber: "
        ));
        let wide = "x\n1) Ubuntu 20.04\t2) Ubuntu 22.04\nChoose [1-2]: ";
        assert!(continues(wide, "2\n", wide) && !continues(wide, "2\n", &wide.replace("22.04", "24.04")));
        assert!(!continues(wide, "2\n", &wide.replace("[1-2]", "[0-2]")));
        // A number above the menu does not stop the run if it is unchanged.
        let steps = "x\nStep 2: choose\n1) small\n2) full\n#? ";
        assert!(continues(steps, "2\n", steps));
    }

    #[test]
    fn enter_chooses_the_shown_default() {
        let mirror_menu = "sh x\nMirror\n1) keep\n2) erase\nChoice [1]: ";
        let mode_question = "sh x\nkeep  all files\nerase all files\nMode (default: keep): ";
        let editor_menu =
            "sh x\nEditor:\n* 0  /usr/bin/vim\n  1  /bin/nano\n\nPress enter to keep the current choice[*]: ";
        for (recorded, changes) in [
            (
                mirror_menu,
                &[("keep\n2) erase", "erase\n2) keep"), ("keep", "wipe"), ("Mirror", "Erase"), ("[1]", "[2]")][..],
            ),
            (mode_question, &[("keep  all files", "keep  none"), ("keep)", "erase)")]),
            (
                "sh x\nKeep or erase\n[x] logs\n[ ] data\nEnter to delete: ",
                &[("[ ]", "[x]"), ("[x]", "[ ]"), ("data", "all")],
            ),
            ("sh x\nDefault: keep\nAction: ", &[("keep", "erase")]),
            ("sh x\nkeep (default)\nerase\nMode: ", &[("keep (default)\nerase", "keep\nerase (default)")]),
            (editor_menu, &[("* 0", "  0"), ("vim", "rm"), ("nano", "ed"), ("Editor", "Eraser")]),
        ] {
            assert!(
                continues(recorded, "\n", recorded)
                    && continues(recorded, "\n", &recorded.replace("sh x", "sh x\nHello"))
            );
            for (part, other) in changes {
                assert!(!continues(recorded, "\n", &recorded.replace(part, other)), "{recorded} {other}");
            }
        }
        // A plain list above a question is not a menu.
        for printed in
            ["x\n* one\n* two\nGo? [Y/n] ", "x\n  one\n  two\nGo? [Y/n] ", "x\n1) a\nGo? [Y/n] ", "x\n> a\nGo? "]
        {
            assert_eq!(Menu::printed(printed, &typed("\n")), Menu::None, "{printed}");
        }
    }

    fn command() -> Entered {
        Entered { text: "node x.js".to_owned(), row: None }
    }

    fn drawn(screen: &str, row: &str, act: &Act) -> Vec<String> {
        match Menu::from_rows_in_place(screen, &[], row, &[command()], act) {
            Menu::Drawn { rows, .. } => rows,
            Menu::None | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Printed(_) => Vec::new(),
        }
    }

    #[test]
    fn menu_drawn_in_place_includes_all_rows() {
        let screen = "$ ls\nold\n$ node x.js\n? Where to? \n❯ dev\n  staging\n  prod\n↑↓ navigate • ⏎ select\n";
        let rows = ["? Where to?", "❯ dev", "staging", "prod", "↑↓ navigate • ⏎ select"];
        for keys in [&["down", "enter"][..], &["enter"], &["space"]] {
            assert_eq!(drawn(screen, "? Where to? ", &pressed(keys)), rows);
            assert_eq!(drawn(screen, "", &pressed(keys)), rows, "the cursor is hidden");
        }
        let pattern =
            pattern_of_rows(&[], &rows.map(str::to_owned), &[], &KnownFacts::default(), Leeway::Identifiers, true);
        assert!(matches_in(&pattern, screen), "{pattern}");
        for (program, changed) in [
            ("other order", screen.replace("  staging\n  prod", "  prod\n  staging")),
            ("an entry more", screen.replace("  staging", "  test\n  staging")),
            ("an entry at the end", screen.replace("  prod", "  prod\n  wipe")),
            ("an entry at the beginning", screen.replace("❯ dev", "❯ wipe\n  dev")),
            ("another entry is pointed at", screen.replace("❯ dev\n  staging", "  dev\n❯ staging")),
            ("a row below", format!("{screen}\nReally? ")),
        ] {
            assert!(!matches_in(&pattern, &changed), "{program}");
        }
        let line = typed("demo\n");
        let asks = "$ node x.js\n✔ Where to? staging\n? Project name? (demo)\n";
        assert_eq!(drawn(asks, "? Project name? ", &line), ["? Project name? (demo)"]);
    }

    /// A screen with rows drawn in place by a program.
    struct Layout {
        screen: &'static str,
        /// The row before the cursor.
        row: &'static str,
        act: Act,
        /// Rows of earlier questions in the program with their answers.
        answered: &'static [(&'static str, &'static str)],
        /// Number of rows, starting at the question, that must be unchanged.
        compared: usize,
        /// Parts above the question that may differ.
        free: &'static [(&'static str, &'static str)],
        /// Parts above the question that must not differ: the question does not name its subject, or is not recognised.
        fixed: &'static [(&'static str, &'static str)],
    }

    impl Layout {
        /// Returns whether the workflow answers on this screen.
        fn continues(&self, screen: &str, name: &str) -> bool {
            let answered_lines = self
                .answered
                .iter()
                .map(|(row, answer)| Entered { text: format!("{row}{answer}"), row: Some(row.trim_end().to_owned()) });
            let entered: Vec<Entered> = std::iter::once(command()).chain(answered_lines).collect();
            let menu = Menu::from_rows_in_place(self.screen, &[], self.row, &entered, &self.act);
            let Menu::Drawn { rows, output_rows, .. } = menu else { panic!("{} is drawn", self.screen) };
            let (output, rows) = rows.split_at(output_rows);
            let bindings = [Binding { value: "shop".to_owned(), name: "NAME".to_owned() }];
            let facts = KnownFacts::default();
            let pattern = pattern_of_rows(output, rows, &bindings, &facts, Leeway::Nothing, true);
            matches_in(&pattern.replace("{NAME|regex}", name), screen)
        }
    }

    fn layouts() -> Vec<Layout> {
        let keys = || pressed(&["down", "enter"]);
        let layout =
            |screen, compared| Layout { screen, row: "", act: keys(), answered: &[], compared, free: &[], fixed: &[] };
        vec![
            Layout {
                row: "↑↓ navigate • ⏎ select",
                answered: &[("? Project name? ", "shop")],
                free: &[("shop", "mill"), ("shop", "shop\nTook 3 s")],
                ..layout(
                    "$ ls\n$ node x.js\n✔ Project name? shop\n? Where?\n❯ dev\n  staging\n  prod\n\n↑↓ navigate • ⏎ select",
                    5,
                )
            },
            Layout {
                free: &[("12 ms", "940 ms")],
                ..layout("$ node x.js\nReady in 12 ms\n\nWhere to?\n\n> dev\n  staging\n\n\nkeys: up down", 4)
            },
            Layout {
                free: &[("12 ms", "940 ms")],
                fixed: &[("Checked", "Erased")],
                ..layout("$ node x.js\nChecked in 12 ms\nWhere to?\n> dev\n  staging\n\nkeys: up down", 4)
            },
            layout("$ node x.js\nUse the arrow keys.\n\n> dev\n  staging", 3),
            layout("$ node x.js\nPick one\n\nGroup A:\n  a v1\n\nGroup B:\n> b v2", 4),
            layout("$ node x.js\nPick one\n\nGroup A\n  a v1\n\nGroup B\n> b v2", 5),
            Layout { row: "> ", ..layout("$ node x.js\n\n\n  beta\n> alpha\n  2/2 ───\n>", 4) },
            Layout {
                row: "> ", act: typed("alp\n"), ..layout("$ node x.js\n\n\n  beta\n> alpha\n  2/2 ───\n>", 4)
            },
            Layout {
                row: "? Region? ",
                act: typed("us\n"),
                ..layout("$ node x.js\n? Region?\n❯ eu\n  us\n\n↑↓ navigate", 4)
            },
            layout("$ node x.js\n? Where? (Use arrow keys)\n » dev\n   staging", 3),
            layout("$ node x.js\n? Pick › - Space\nInstructions:\n    a: all\n◯   Red\n◉   Green", 5),
            layout("$ node x.js\n◆  Which parts?\n│  ◻ web\n│  ◼ api\n│  ↑/↓ to navigate\n└", 4),
            Layout {
                row: "? Where? ",
                answered: &[("? Name? ", "x")],
                ..layout("$ node x.js\n✔ Name? x\n? Where?\n❯ dev\n  prod", 3)
            },
            Layout {
                answered: &[("", "shop"), ("", "")],
                free: &[("shop", "mill"), ("▪▪▪▪", "▪▪▪▪▪▪"), ("12 s", "13 s")],
                fixed: &[("Installed", "Erased")],
                ..layout(
                    "$ node x.js\n◇  Project name?\n│  shop\n│\n◇  Token?\n│  ▪▪▪▪\n│\n◇  Installed in 12 s\n│\n◆  Go on?\n│  ● Yes / ○ No\n└",
                    2,
                )
            },
            Layout {
                act: typed("shop\n"),
                free: &[("hello", "welcome")],
                ..layout("$ node x.js\n┌  hello\n│\n◆  Project name?\n│  demo\n└", 2)
            },
            Layout {
                act: typed("shop\n"),
                answered: &[("", "xx")],
                ..layout("$ node x.js\n┌  hello\n│\n▲  Project name?\n│  xx█\n└  no x in names", 3)
            },
            Layout {
                act: Act::Hidden { entered: true, row: String::new() },
                ..layout("$ node x.js\n◆  Password of the server?\n│  _\n└", 2)
            },
            Layout { act: typed("shop\n"), ..layout("$ node x.js\n┃ Project name?\n┃ > demo\n\nenter submit", 3) },
            Layout {
                row: "┃ > ",
                act: typed("shop\n"),
                ..layout("$ node x.js\n┃ Project name\n┃ > demo\n┃ letters only", 3)
            },
            Layout { answered: &[("", "xx")], ..layout("$ node x.js\nProject name:\n> xx\n  no x in names", 3) },
            layout("$ node x.js\nTarget:\n❯ node x.js\n  wipe", 3),
            Layout {
                row: "Press a key to continue ",
                act: typed(" "),
                answered: &[("Port (27681): ", "9000")],
                free: &[("27681", "1200"), ("Port", "Address")],
                ..layout("$ node x.js\nPort (27681): 9000\nPress a key to continue", 1)
            },
            Layout {
                row: "Press a key to continue ",
                act: pressed(&["enter"]),
                free: &[("Loaded 3", "Read 12"), ("12 s", "13 s")],
                fixed: &[("Formats sda", "Formats sdb"), ("Took", "Erased")],
                ..layout("$ node x.js\nLoaded 3 files\n\nFormats sda\nTook 12 s\nPress a key to continue", 1)
            },
            Layout { row: "arrows move", ..layout("$ node x.js\nPick one\ndev <\nprod\n\narrows move", 4) },
            Layout {
                row: "Press Enter to select",
                act: pressed(&["enter"]),
                ..layout("$ node x.js\nPick one\ndev <\nprod\n\nPress Enter to select", 4)
            },
            layout("Long title of a list\n  one\n> two\n  three", 4),
        ]
    }

    #[test]
    fn every_row_after_the_question_is_compared() {
        for layout in layouts() {
            let screen = layout.screen;
            assert!(layout.continues(screen, "shop"), "unchanged: {screen}");
            assert!(layout.continues(&format!("$ ls\nold\n{screen}"), "shop"), "a row above: {screen}");
            let lines: Vec<&str> = screen.lines().collect();
            let is_filled = |row: &usize| !without_frame(lines[*row]).is_empty();
            let filled: Vec<usize> = (0..lines.len()).filter(is_filled).collect();
            let compared = &filled[filled.len() - layout.compared..];
            let changed = |change: &dyn Fn(&mut Vec<String>)| {
                let mut rows: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
                change(&mut rows);
                rows.join("\n")
            };
            for (index, row) in compared.iter().enumerate() {
                let removed = changed(&|rows| drop(rows.remove(*row)));
                let renamed = changed(&|rows| rows[*row] = rows[*row].replace(char::is_alphabetic, "z") + " z");
                let added = changed(&|rows| rows.insert(*row + 1, "  wipe".to_owned()));
                let mut variants = vec![removed, renamed, added];
                if let Some(next) = compared.get(index + 1).filter(|next| lines[**next] != lines[*row]) {
                    variants.push(changed(&|rows| rows.swap(*row, *next)));
                }
                for variant in variants {
                    assert!(!layout.continues(&variant, "shop"), "{screen}\n---\n{variant}");
                }
            }
            for (part, other) in layout.free {
                let changed = screen.replacen(part, other, 1);
                assert!(
                    layout.continues(&changed, "mill") || layout.continues(&changed, "shop"),
                    "{screen}\n---\n{changed}"
                );
            }
            for (part, other) in layout.fixed {
                assert!(!layout.continues(&screen.replacen(part, other, 1), "shop"), "{screen} {other}");
            }
        }
    }

    #[test]
    fn command_above_a_menu_may_wrap() {
        let command = format!("node x.js {}", "--option ".repeat(4).trim_end());
        let entered = [Entered { text: command, row: None }];
        let screen = "$ ls\n$ node x.js --option --op\ntion --option --option\nPick one\n> dev\n  prod";
        let menu = Menu::from_rows_in_place(screen, &[], "", &entered, &pressed(&["enter"]));
        let Menu::Drawn { rows, .. } = menu else { panic!("not a drawn menu: {menu:?}") };
        assert_eq!(rows, ["Pick one", "> dev", "prod"]);
    }

    #[test]
    fn answer_in_another_form_chooses_from_the_same_rows() {
        let menu = "sh x\n1) logs\n2) cache\n3) temp files\nRemove which? ";
        for answer in ["3", "1,3", "1 3", "1-3", "3.", "3)", "#3", "03", "+3"] {
            let line = format!("{answer}\n");
            assert!(continues(menu, &line, menu), "{answer}");
            assert!(!continues(menu, &line, &menu.replace("temp files", "the database")), "{answer}");
        }
        for (menu, answer, entry, other) in [
            ("sh x\nA) small\nB) full\nWhich? ", "b", "full", "wipe"),
            ("sh x\n[S]mall/[F]ull\nWhich? ", "f", "[F]ull", "[F]ormat"),
            ("sh x\nsmall (S)\nfull (F)\nWhich? ", "f", "full", "wipe"),
            ("sh x\na - logs\nb - cache\nWhich? ", "a,b", "cache", "database"),
            ("sh x\ns = small, f = full\nWhich? ", "F", "full", "wipe"),
            ("sh x\n1 base   2 extra   3 all\nSet: ", "2", "extra", "wipe"),
        ] {
            let line = format!("{answer}\n");
            assert!(continues(menu, &line, menu), "{menu}");
            assert!(!continues(menu, &line, &menu.replace(entry, other)), "{menu}");
        }
    }

    #[test]
    fn lists_of_various_programs_are_menus() {
        for (screen, row, row_count) in [
            ("$ node x.js\n? Deploy (Use arrow keys)\n » staging\n   production\n", "? Deploy", 3),
            ("$ node x.js\n? Which? \n❯◯ a 1\n ◉ b 2\n", "? Which? ", 3),
            ("$ node x.js\nChoose:\n> one\n  two\n  three\n\n", "", 4),
            ("$ node x.js\n  gamma\n  beta\n> alpha\n  3/3\n> ", "> ", 5),
            ("$ node x.js\n◆  Pick a project type.\n│  ● TypeScript\n│  ○ JavaScript\n└\n", "", 3),
        ] {
            let rows = drawn(screen, row, &pressed(&["down", "enter"]));
            assert_eq!(rows.len(), row_count, "{rows:?}");
            let pattern = pattern_of_rows(&[], &rows, &[], &KnownFacts::default(), Leeway::Identifiers, true);
            assert!(matches_in(&pattern, screen), "{pattern} {screen}");
        }
    }

    #[test]
    fn full_screen_rows_are_a_menu_for_choosing_keys() {
        let screen = "┌ Setup ┐\n│ Which? │\n│ de Berlin │\n│ 12 │\n";
        let rows = |act: &Act| match Menu::from_screen(screen, &[], act) {
            Menu::Drawn { rows, .. } => rows,
            Menu::None | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Printed(_) => Vec::new(),
        };
        assert_eq!(rows(&pressed(&["down", "enter"])), ["Setup", "Which?", "de Berlin", "12"]);
        for act in [&pressed(&["enter"]), &typed("d"), &typed("2"), &typed("\n"), &pressed(&["f10"]), &typed("q\n")] {
            assert_eq!(rows(act).len(), 4, "{act:?}");
        }
        for act in [&typed("my-box\n"), &typed(":wq\n"), &Act::Hidden { entered: true, row: String::new() }] {
            assert_eq!(rows(act).len(), 4, "{act:?}");
        }
        for act in [&typed("q"), &pressed(&["escape"])] {
            assert_eq!(rows(act), Vec::<String>::new(), "{act:?}");
        }
        assert!(matches!(Menu::from_screen(&"a row\n".repeat(60), &[], &pressed(&["down"])), Menu::Drawn { .. }));
        assert_eq!(Menu::from_screen(&"a row\n".repeat(61), &[], &pressed(&["down"])), Menu::TooLarge(61));
        // Text goes into the field at the cursor, whatever the other rows show.
        let styles = ["de Berlin: inverse".to_owned(), "Name: ▏: plain".to_owned()];
        let highlighted = |act: &Act| match Menu::from_screen("de Berlin\nName:", &styles, act) {
            Menu::Drawn { highlighted, .. } => highlighted.len(),
            Menu::None | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Printed(_) => 0,
        };
        assert_eq!((highlighted(&typed("box\n")), highlighted(&pressed(&["enter"]))), (1, 2));
    }

    #[test]
    fn menu_includes_only_styles_of_its_rows() {
        let screen = "$ ls\n> alpha\n$ node x.js\n? Where to? \n> alpha\n  beta\n";
        let styles = ["$ ls: bold", "> alpha: 6", "? Where to?: bold", "> alpha: 6"].map(str::to_owned);
        let menu = Menu::from_rows_in_place(screen, &styles, "", &[command()], &pressed(&["enter"]));
        let Menu::Drawn { highlighted, .. } = menu else { panic!("not a drawn menu: {menu:?}") };
        assert_eq!(highlighted, ["? Where to?: bold", "> alpha: 6"]);
    }
}
