//! Menus: rows that must stand there as they did, because the next input chooses from them.
//!
//! A person chooses an entry by its number, from printed rows, or by keys that move to it, from drawn rows. Either way
//! another row in between, above or below makes another choice of the same input, so all rows belong to the wait.

use steplatch_pattern::Pattern;

use crate::question::{Leeway, general, without_frame};
use crate::session_log::KnownFacts;
use crate::template::Binding;
use crate::turn::Act;

/// The entries that the program must show when the next input chooses one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Menu {
    /// The next input chooses nothing.
    #[default]
    None,
    /// Printed entries, of which one is chosen by its number.
    Printed(PrintedMenu),
    /// This printed row has the answer as a word, so comparisons skip it.
    Mentioned(String),
    /// Rows of a full screen that are too many to be compared, and their number.
    TooLarge(usize),
    /// Rows of the screen. Keys choose one of them.
    Drawn {
        /// The rows, top first.
        rows: Vec<String>,
        /// True if nothing stands below them.
        is_last: bool,
        /// Texts that stand out on the screen, such as the entry that is pointed at in colour.
        highlighted: Vec<String>,
    },
}

/// The last block of entries before a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedMenu {
    /// The typed answer.
    answer: String,
    /// The numbers or letters in it.
    keys: Vec<String>,
    /// The signs before and behind the number; none in a table.
    signs: Option<(&'static str, char)>,
    /// The label of the entry with the number.
    pub(crate) label: String,
    /// The rows from the last one with a word above the block, which says what is done with an entry.
    title: Vec<String>,
    /// The rows of the block.
    rows: Vec<String>,
    /// The rows between the block and the question.
    between: Vec<String>,
    /// True if another row with the number stands above the block.
    has_decoy: bool,
    /// True if the rows have the usual form of entries.
    pub(crate) is_usual: bool,
}

/// The line entered before a program drew: its row ends with the text, or is a question with a hidden answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entered {
    pub(crate) text: String,
    pub(crate) row: Option<String>,
}

/// Maximum number of rows of a full screen, or of a menu printed or drawn in place, that are compared.
const MAX_ROWS: usize = 60;

/// The sign at the place of the cursor in a row of the input log.
const CURSOR: char = '▏';

/// Name of the group of a pattern that finds another entry with the same number.
pub(crate) const ANOTHER_ENTRY: &str = "another_entry";

impl Menu {
    /// Returns the menu of a full screen. An input means there what the rows say: it moves, confirms, is that of a command, or goes
    /// into the field with the cursor.
    pub(crate) fn of_screen(screen: &str, highlighted: &[String], act: &Act) -> Self {
        let rows: Vec<String> = filled_rows(screen.lines());
        let highlighted = match is_choice(act) {
            true => highlighted.to_vec(),
            false => {
                let row_of_cursor = |row: &String| row.rsplit_once(": ").map(|(text, _)| text.to_owned());
                highlighted.iter().filter(|row| row.contains(CURSOR)).filter_map(row_of_cursor).collect()
            }
        };
        match rows.len() {
            0 => Self::None,
            _ if leaves(act) => Self::None,
            1..=MAX_ROWS => Self::Drawn { rows, is_last: false, highlighted },
            count => Self::TooLarge(count),
        }
    }

    /// Returns the rows that a program draws in place: those around the cursor, which stands behind `row`, down to the
    /// last one. They begin below the `entered` line. For a typed line, they begin with the row of the cursor.
    pub(crate) fn drawn(screen: &str, highlighted: &[String], row: &str, entered: &Entered, act: &Act) -> Self {
        let all: Vec<&str> = screen.lines().map(str::trim_end).collect();
        let Some(last) = all.iter().rposition(|row| !row.is_empty()) else { return Self::None };
        let row = row.trim_end();
        let cursor = all.iter().rposition(|one| !row.is_empty() && one.starts_with(row)).unwrap_or(last);
        let is_entered = |one: &str| {
            !entered.text.is_empty() && one.ends_with(&entered.text)
                || entered.row.as_deref().is_some_and(|row| !row.is_empty() && one == row)
        };
        let above = all[..cursor].iter().rposition(|one| one.is_empty() || is_entered(one));
        let first = match is_line(act) {
            true if !row.is_empty() => cursor,
            // The program draws elsewhere than it reads.
            true => all.iter().rposition(|one| is_entered(one)).map_or(0, |entered| entered + 1),
            false => above.map_or(0, |above| above + 1),
        };
        let rows = filled_rows(all[first.min(last)..=last].iter().copied());
        if rows.is_empty() || rows.len() > MAX_ROWS {
            return Self::None;
        }
        let highlighted = if is_line(act) { Vec::new() } else { rows_of(highlighted, &all, first) };
        Self::Drawn { rows, is_last: true, highlighted }
    }

    /// Returns the menu that an input chooses from by numbers, as `2) Paris`, `(2) Paris`, `[2] Paris`, `2. Paris` or
    /// `2 Paris`, or by numbers or letters that each row has in another form. The last printed line is the question.
    ///
    /// Enter alone chooses the default: the default in the question, or else the row with the pointer.
    pub(crate) fn printed(printed: &str, act: &Act) -> Self {
        let Act::Typed { text, .. } = act else { return Self::None };
        let question = printed.trim_end().lines().next_back().unwrap_or_default();
        let (answer, default) = (text.trim(), default_of(question));
        match (answer.is_empty(), default) {
            (false, _) => Self::chosen(printed, answer),
            (true, Some(default)) => match Self::chosen(printed, default) {
                Self::Mentioned(_) => Self::None,
                menu => menu,
            },
            (true, None) => Self::pointed_at(printed),
        }
    }

    fn chosen(printed: &str, answer: &str) -> Self {
        let usual = Self::usual(printed, answer);
        if usual == Self::None { Self::of_any_form(printed, answer) } else { usual }
    }

    /// Returns the block of rows of which one is pointed at, as `* 0  /usr/bin/vim`, with the rows up to the question.
    fn pointed_at(printed: &str) -> Self {
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let lines = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default();
        let Some(row) = lines.iter().rposition(|line| is_pointed_at(line)) else { return Self::None };
        let first = lines[..row].iter().rposition(|line| line.trim().is_empty()).map_or(0, |blank| blank + 1);
        let last = lines[row..].iter().position(|line| line.trim().is_empty()).map_or(lines.len(), |blank| row + blank);
        let block = &lines[first..last];
        let beside = [row.checked_sub(1), Some(row + 1)].into_iter().flatten().filter_map(|at| lines.get(at));
        let is_list = block.iter().filter(|line| is_pointed_at(line)).count() > 1;
        let has_others = || beside.into_iter().any(|line| line.starts_with("  ") && !line.trim().is_empty());
        if !is_default(lines[row]) && (is_list || !has_others()) {
            return Self::None;
        }
        let title = title_above(lines, first);
        Self::Printed(PrintedMenu {
            answer: String::new(),
            keys: Vec::new(),
            signs: None,
            label: lines[row].trim().to_owned(),
            rows: texts(&lines[first..]),
            title: texts(&lines[title..first]),
            between: Vec::new(),
            has_decoy: true,
            is_usual: false,
        })
    }

    fn usual(printed: &str, answer: &str) -> Self {
        let numbers: Vec<&str> = split_words(answer).collect();
        if numbers.is_empty() || !numbers.iter().all(|word| is_number(word) && value(word).len() <= 3) {
            return Self::None;
        }
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let Some((question, lines)) = lines.split_last() else { return Self::None };
        let is_offered = |entry: &Entry<'_>| numbers.iter().any(|number| value(number) == value(entry.number));
        if entries(question, true).iter().any(is_offered) {
            // The comparison of the question takes all of its words.
            return Self::None;
        }
        // One row that begins with a number is no table.
        let is_table = lines.iter().filter(|line| bare_number(line).is_some()).count() > 1;
        let Some(last) = lines.iter().rposition(|line| !entries(line, is_table).is_empty()) else { return Self::None };
        let Some(chosen) = lines.iter().rposition(|line| entries(line, is_table).iter().any(is_offered)) else {
            return Self::None;
        };
        // Within a block, an indented row continues the label above it.
        let is_of_block =
            |line: &str| !entries(line, is_table).is_empty() || line.starts_with([' ', '\t']) || line.is_empty();
        let mut first = lines[..last].iter().rposition(|line| !is_of_block(line)).map_or(0, |above| above + 1);
        while entries(lines[first], is_table).is_empty() {
            first += 1;
        }
        let Some(entry) = entries(lines[chosen], is_table).into_iter().rfind(is_offered) else { return Self::None };
        let (keys, signs, label) = (keys_of(&numbers), entry.signs, entry.label.to_owned());
        // The chosen entry is in a block above the last one: the comparison takes that block, and what stands below it.
        let (first, last) = if chosen < first { (chosen, chosen) } else { (first, last) };
        let (rows, between) = (texts(&lines[first..=last]), texts(&lines[last + 1..]));
        // The first line is the input that the program got before.
        let title = title_above(lines, first).max(1).min(first);
        let has_decoy = is_mentioned(&keys, lines.get(1..title).unwrap_or_default());
        // The label is that of the answer only where this is the number alone.
        let (signs, label) = if answer == entry.number { (signs, label) } else { (None, String::new()) };
        Self::Printed(PrintedMenu {
            answer: answer.to_owned(),
            keys,
            signs,
            label,
            title: texts(&lines[title..first]),
            rows,
            between,
            has_decoy,
            is_usual: true,
        })
    }

    /// Returns the menu whose rows have the answer and other short words at the same place, with all rows between it and the
    /// question. Letters may be typed in the other case.
    fn of_any_form(printed: &str, answer: &str) -> Self {
        let words: Vec<&str> = split_words(answer).collect();
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let Some((_, lines)) = lines.split_last() else { return Self::None };
        // The first line is the input that the program got before.
        let lines = lines.get(1..).unwrap_or_default();
        let is_answer = |word: &str| words.iter().any(|answer| is_same_key(answer, word));
        let is_of = |place: Place, line: &str| {
            place.key(line).is_some_and(|key| !is_answer(key) && words.iter().any(|answer| is_alike(key, answer)))
        };
        let are_keys = !words.is_empty() && words.iter().all(|word| is_key(word));
        let chosen = PLACES.into_iter().filter(|_| are_keys).find_map(|place| {
            let is_chosen = |line: &&str| place.key(line).is_some_and(is_answer);
            let chosen = lines.iter().rposition(is_chosen)?;
            let is_of_menu = |line: &&str| is_of(place, line) || words.len() > 1 && is_chosen(line);
            let beside = [chosen.checked_sub(1), Some(chosen + 1)].into_iter().flatten();
            beside.filter_map(|at| lines.get(at)).any(is_of_menu).then(|| {
                let is_of_block = |line: &str| is_of(place, line) || place.key(line).is_some_and(is_answer);
                lines[..chosen].iter().rposition(|line| !is_of_block(line)).map_or(0, |above| above + 1)
            })
        });
        // Several entries in one row, as `[S]mall / [F]ull`.
        let is_entry = |line: &str| words.iter().any(|word| is_marked(word, line) || is_in_columns(word, line));
        let marked = || lines.iter().rposition(|line| are_keys && is_entry(line));
        // A word that begins a row, as `purge  removes all`.
        let is_word = words.len() == 1 && answer.chars().count() > 1 && !is_number(answer);
        let named = || lines.iter().rposition(|line| is_word && Place::First.key(line).is_some_and(is_answer));
        let Some(first) = chosen.or_else(marked).or_else(named) else {
            let mentions = |line: &&&str| split_words(line).any(is_answer);
            let is_telling = answer.chars().count() > 1 || is_number(answer);
            let row = lines.iter().rfind(mentions).filter(|_| is_telling && words.len() == 1);
            return row.map_or(Self::None, |row| Self::Mentioned(row.trim().to_owned()));
        };
        let filled = lines[first..].iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let row = lines[first..].iter().rfind(|line| split_words(line).any(is_answer)).unwrap_or(&lines[first]);
        let label = split_words(row).filter(|word| !is_answer(word)).collect::<Vec<_>>().join(" ");
        let keys = keys_of(&words);
        let title = title_above(lines, first);
        Self::Printed(PrintedMenu {
            answer: answer.to_owned(),
            signs: None,
            label,
            title: texts(&lines[title..first]),
            rows: filled.map(str::to_owned).collect(),
            between: Vec::new(),
            has_decoy: is_mentioned(&keys, &lines[..title]),
            keys,
            is_usual: false,
        })
    }
}

impl PrintedMenu {
    /// Returns the entry that is chosen.
    pub(crate) fn entry(&self) -> String {
        let (open, close) = self.signs.map_or(("", String::new()), |(open, close)| (open, close.to_string()));
        format!("{open}{}{close} {}", self.answer, self.label).trim_end().to_owned()
    }

    /// Returns whether another row may choose another entry by the same answer.
    pub(crate) fn may_have_another(&self) -> bool {
        self.has_decoy && !self.keys.is_empty()
    }

    /// Returns whether the pattern has the group [`ANOTHER_ENTRY`].
    pub(crate) fn finds_another(&self) -> bool {
        !self.has_decoy
    }

    /// Returns the pattern of the rows up to the question, with a group that finds another entry with the same number
    /// above them.
    pub(crate) fn pattern(&self, bindings: &[Binding], facts: &KnownFacts) -> String {
        let title = self.title.iter().map(|row| general(row, bindings, facts, Leeway::Identifiers));
        let rows = self.rows.iter().chain(&self.between);
        let rows: Vec<String> = title.chain(rows.map(|row| general(row, bindings, facts, Leeway::Nothing))).collect();
        let another = match self.finds_another() {
            true => format!(r"(?P<{ANOTHER_ENTRY}>{}[\s\S]*)?", mention(&self.keys)),
            false => String::new(),
        };
        format!(r"{another}^[^\S\n]*{}\s*\n", rows.join(r"\s*\n\s*"))
    }
}

/// Returns the default that a question names in brackets, as `Choice [1]: ` or `Mirror (default: 2): `. Brackets with several
/// words offer them.
fn default_of(question: &str) -> Option<&str> {
    let inside =
        question.rsplit(['[', '(', '<']).filter_map(|part| part.split_once([']', ')', '>']).map(|(inside, _)| inside));
    let mut defaults = inside.filter_map(|inside| {
        let words: Vec<&str> = split_words(inside).collect();
        match words[..] {
            [only] if only == inside.trim() => Some(only),
            [.., name, default] if name.eq_ignore_ascii_case("default") || name == "is" => Some(default),
            _ => None,
        }
    });
    defaults.next()
}

/// Signs that point at a row.
const POINTERS: [&str; 8] = ["* ", "> ", "→ ", "❯ ", "► ", "▶ ", "=> ", "-> "];

fn is_pointed_at(line: &str) -> bool {
    if is_default(line) {
        return true;
    }
    let row = line.trim_start();
    POINTERS.iter().any(|sign| row.starts_with(sign)) && row.contains(char::is_alphabetic)
}

/// Returns whether a row says what Enter alone takes: as the default, or with a mark as `[x] logs`.
fn is_default(line: &str) -> bool {
    const MARKS: [&str; 6] = ["[x] ", "[X] ", "[*] ", "(x) ", "(*) ", "(X) "];
    let row = line.trim_start();
    MARKS.iter().any(|mark| row.starts_with(mark)) || split_words(row).any(|word| word.eq_ignore_ascii_case("default"))
}

/// Returns the place of the last row with a word above a row, which says what the rows below are for.
pub(crate) fn title_above(lines: &[&str], row: usize) -> usize {
    let has_word =
        |line: &&str| split_words(line).any(|word| word.chars().filter(|sign| sign.is_alphabetic()).count() > 2);
    lines[..row].iter().rposition(has_word).unwrap_or(row)
}

/// Returns the lines with text.
pub(crate) fn texts(lines: &[&str]) -> Vec<String> {
    let filled = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
    filled.map(str::to_owned).collect()
}

/// Returns the numbers or letters of an answer, as they are in rows: letters in both cases, numbers also without leading zeros.
fn keys_of(words: &[&str]) -> Vec<String> {
    let forms = words
        .iter()
        .flat_map(|word| [(*word).to_owned(), word.to_lowercase(), word.to_uppercase(), value(word).to_owned()]);
    let mut keys: Vec<String> = forms.collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Returns a number without leading zeros, or another word.
fn value(word: &str) -> &str {
    let value = word.trim_start_matches('0');
    if value.is_empty() && !word.is_empty() { "0" } else { value }
}

/// Returns whether two words choose the same entry.
fn is_same_key(one: &str, other: &str) -> bool {
    match is_number(one) && is_number(other) {
        true => value(one) == value(other),
        false => one.to_lowercase() == other.to_lowercase(),
    }
}

/// Returns whether a row marks a letter or number as the key of an entry: `[F]ull`, `(f)`, `f)`, `f = full`.
fn is_marked(key: &str, row: &str) -> bool {
    row.char_indices().any(|(at, _)| {
        let (before, rest) = row.split_at(at);
        let length = rest.chars().take_while(|sign| sign.is_alphanumeric()).map(char::len_utf8).sum();
        let (word, after) = rest.split_at(length);
        let is_apart = !before.ends_with(char::is_alphanumeric);
        let after = after.trim_start_matches(' ');
        is_apart && length > 0 && is_same_key(word, key) && after.starts_with([')', ']', '>', '}', '=', ':'])
    })
}

/// Returns whether a row has entries in columns, each with its number or letter first, one of them with this one.
fn is_in_columns(key: &str, row: &str) -> bool {
    let cells: Vec<&str> =
        row.split(['\t', '|']).flat_map(|part| part.split("  ")).filter(|cell| !cell.trim().is_empty()).collect();
    let keys: Vec<Option<&str>> = cells.iter().map(|cell| Place::First.key(cell).filter(|key| is_key(key))).collect();
    cells.len() > 1 && keys.iter().all(Option::is_some) && keys.iter().flatten().any(|one| is_same_key(one, key))
}

/// Returns the pattern of a number or letter that stands alone, as that of an entry in any form does.
fn mention(keys: &[String]) -> String {
    let keys = if let [key] = keys { key.clone() } else { format!("(?:{})", keys.join("|")) };
    format!(r"(?<![^\W_]|[.,-]){keys}(?![^\W_]|[.,]\d)")
}

/// Returns whether one of these numbers or letters stands alone in these lines.
fn is_mentioned(keys: &[String], lines: &[&str]) -> bool {
    Pattern::new(&mention(keys)).is_ok_and(|mark| mark.is_match(&lines.join("\n")).unwrap_or(true))
}

/// The place of the number or letter in a row of a menu, among its words.
#[derive(Debug, Clone, Copy)]
enum Place {
    First,
    /// As in `Press 2 to install`.
    Second,
    Last,
}

const PLACES: [Place; 3] = [Place::First, Place::Second, Place::Last];

impl Place {
    fn key(self, row: &str) -> Option<&str> {
        match self {
            Self::First => split_words(row).next(),
            Self::Second => split_words(row).nth(1),
            Self::Last => split_words(row).next_back(),
        }
    }
}

/// Returns the words of a line: letters and digits.
fn split_words(line: &str) -> impl DoubleEndedIterator<Item = &str> {
    line.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The most signs of the number or letter of an entry.
const MAX_KEY_CHARS: usize = 4;

/// Returns whether a word may be the number or letter of an entry: a number, or a letter, with a number at the most.
fn is_key(word: &str) -> bool {
    let letters = word.chars().filter(|sign| sign.is_alphabetic()).count();
    word.chars().count() <= MAX_KEY_CHARS && letters <= 1
}

/// Returns whether two words may be those of two entries of one menu.
fn is_alike(one: &str, other: &str) -> bool {
    let begins_with_letter = |word: &str| word.starts_with(char::is_alphabetic);
    is_key(one) && is_key(other) && begins_with_letter(one) == begins_with_letter(other)
}

/// An entry of a printed menu.
struct Entry<'l> {
    number: &'l str,
    signs: Option<(&'static str, char)>,
    label: &'l str,
}

/// Returns the entries of a line: several stand in columns where there is room.
fn entries(line: &str, is_table: bool) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = line[at..].find(|sign: char| sign.is_ascii_digit()).map(|begin| at + begin) {
        let length = line[begin..].bytes().take_while(u8::is_ascii_digit).count();
        at = begin + length;
        let Some((signs, end)) = signs_of(line, begin, length).filter(|_| length <= 3) else { continue };
        if let Some(label) = label(&line[end..]) {
            found.push(Entry { number: &line[begin..at], signs: Some(signs), label });
        }
    }
    if found.is_empty()
        && is_table
        && let Some((number, rest)) = bare_number(line)
        && let Some(label) = label(rest)
    {
        found.push(Entry { number, signs: None, label });
    }
    found
}

/// Returns the signs of a number, as those of `(2)`, `2.` or `2:`, and where the last one ends.
fn signs_of(line: &str, at: usize, length: usize) -> Option<((&'static str, char), usize)> {
    let (before, after) = (&line[..at], &line[at + length..]);
    let sign = after.chars().next().filter(|sign| ").]:".contains(*sign))?;
    let open = match sign {
        ')' if before.ends_with('(') => "(",
        ']' if before.ends_with('[') => "[",
        _ => "",
    };
    let is_apart = line[..at - open.len()].chars().next_back().is_none_or(char::is_whitespace);
    let end = at + length + sign.len_utf8();
    (is_apart && line[end..].starts_with(char::is_whitespace)).then_some(((open, sign), end))
}

/// Returns the number that a row of a table begins with, behind a mark of the usual choice, and the rest of the row.
fn bare_number(line: &str) -> Option<(&str, &str)> {
    let row = line.trim_start_matches(|sign: char| sign.is_whitespace() || "*>→".contains(sign));
    let digits = row.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = row.split_at(digits);
    let is_row = (1..=3).contains(&digits) && rest.starts_with(char::is_whitespace) && label(rest).is_some();
    is_row.then_some((number, rest))
}

/// Returns the label of an entry, up to the next column.
fn label(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    let label = rest.split("  ").next().unwrap_or_default().split('\t').next().unwrap_or_default().trim();
    label.chars().any(char::is_alphabetic).then_some(label)
}

/// Returns the rows with styles that stand at `first` on a screen or below, of those of the whole screen. They are in its order.
fn rows_of(highlighted: &[String], screen: &[&str], first: usize) -> Vec<String> {
    let mut next = 0;
    let mut is_below = |row: &&String| {
        let text = row.rsplit_once(": ").map_or(row.as_str(), |(text, _)| text).replace(CURSOR, "");
        let at = screen[next..].iter().position(|one| without_frame(one) == without_frame(&text)).map(|at| next + at);
        next = at.map_or(next, |at| at + 1);
        at.is_none_or(|at| at >= first)
    };
    highlighted.iter().filter(|row| is_below(row)).cloned().collect()
}

/// Returns the rows with text, without frames.
fn filled_rows<'r>(rows: impl Iterator<Item = &'r str>) -> Vec<String> {
    rows.map(without_frame).filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

/// Keys that leave a full screen or a part of it, and choose nothing.
const LEAVING: [&str; 4] = ["escape", "esc", "ctrl-c", "ctrl-d"];

/// Returns whether an input chooses from what a full screen shows: keys that move or confirm, a letter or a number. Longer text is
/// data.
fn is_choice(act: &Act) -> bool {
    let Act::Typed { text, .. } = act else { return false };
    let typed = text.trim_end_matches(['\n', '\r']);
    typed.chars().count() <= 1 || is_number(typed.trim())
}

/// Returns whether an input leaves a full screen or a part of it: `q`, or keys.
fn leaves(act: &Act) -> bool {
    let Act::Typed { text, keys } = act else { return false };
    let is_key = text.is_empty() && keys.iter().all(|key| LEAVING.contains(&key.as_str()));
    text.eq_ignore_ascii_case("q") || is_key
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
    use crate::question::{rows as pattern_of_rows, stands_in};

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
    fn what_an_input_chooses_from_is_known() {
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
        assert_eq!(entry("3 files changed\nHow many? ", "3\n"), None, "one row is no table");
        for (printed, text) in [(menu, "4\n"), (menu, "Paris\n"), ("size 12) x\n? ", "2\n"), ("", "1\n")] {
            assert_eq!(entry(printed, text), None, "{printed:?} {text:?}");
        }
    }

    /// Returns whether a menu that was recorded with the first output is chosen from where a program prints the second.
    fn goes_on(recorded: &str, text: &str, printed: &str) -> bool {
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
    fn another_row_in_between_above_or_below_is_another_menu() {
        let menu = "sh x\nWelcome\n1) small\n2) full\n#? ";
        assert!(goes_on(menu, "2\n", menu) && goes_on(menu, "2\n", "Hello\nWelcome\n\n 1) small\n 2) full\n#? "));
        for (program, printed) in [
            ("another title", "Uninstall\n1) small\n2) full\n#? "),
            ("old entries above", "1) small\n2) full\nobsolete, new menu:\n1) full\n2) wipe\n#? "),
            ("old entries below", "1) full\n2) wipe\nremoved entries:\n1) small\n2) full\n#? "),
            ("old entries below, in other signs", "[1] full\n[2] wipe\nremoved:\n1) small\n2) full\n#? "),
            ("old entries below, without a word", "1) full\n2) wipe\n\n1) small\n2) full\n#? "),
            ("an entry before them", "Welcome\n0) none\n2) full\n#? "),
            ("an entry in between", "Welcome\n1) small\n1a) medium\n2) full\n#? "),
            ("an entry behind them", "Welcome\n1) small\n2) full\n3) wipe\n#? "),
            ("a renamed entry", "Welcome\n1) tiny\n2) full\n#? "),
            ("a longer label", "Welcome\n1) small\n2) full wipe\n#? "),
            ("a row in between", "Welcome\n1) small\n2) full\nThe numbers are reversed.\n#? "),
            ("another question", "Welcome\n1) small\n2) full\nErase: "),
            ("the entry alone above", "2) full erasure\n1) small\n2) full\n#? "),
        ] {
            assert!(!goes_on(menu, "2\n", printed), "{program}");
        }
        let table = "x\n  0   vim   30\n* 1   nano   10\nNumber: ";
        assert!(goes_on(table, "1\n", table));
        assert!(!goes_on(
            table,
            "1\n",
            "  0   vim   30\n* 1   wipe   10\nold:\n  0   vim   30\n* 1   nano   10\nNumber: "
        ));
        let wide = "x\n1) Ubuntu 20.04\t2) Ubuntu 22.04\nChoose [1-2]: ";
        assert!(goes_on(wide, "2\n", wide) && !goes_on(wide, "2\n", &wide.replace("22.04", "24.04")));
        assert!(!goes_on(wide, "2\n", &wide.replace("[1-2]", "[0-2]")));
        // A number above the menu that was there when it was recorded is no reason to stop.
        let steps = "x\nStep 2: choose\n1) small\n2) full\n#? ";
        assert!(goes_on(steps, "2\n", steps));
    }

    #[test]
    fn enter_chooses_the_default_that_stands_there() {
        let named = "sh x\nMirror\n1) keep\n2) erase\nChoice [1]: ";
        let word = "sh x\nkeep  all files\nerase all files\nMode (default: keep): ";
        let pointed = "sh x\nEditor:\n* 0  /usr/bin/vim\n  1  /bin/nano\n\nPress enter to keep the current choice[*]: ";
        for (recorded, changes) in [
            (named, &[("keep\n2) erase", "erase\n2) keep"), ("keep", "wipe"), ("Mirror", "Erase"), ("[1]", "[2]")][..]),
            (word, &[("keep  all files", "keep  none"), ("keep)", "erase)")]),
            (
                "sh x\nKeep or erase\n[x] logs\n[ ] data\nEnter to delete: ",
                &[("[ ]", "[x]"), ("[x]", "[ ]"), ("data", "all")],
            ),
            ("sh x\nDefault: keep\nAction: ", &[("keep", "erase")]),
            ("sh x\nkeep (default)\nerase\nMode: ", &[("keep (default)\nerase", "keep\nerase (default)")]),
            (pointed, &[("* 0", "  0"), ("vim", "rm"), ("nano", "ed"), ("Editor", "Eraser")]),
        ] {
            assert!(
                goes_on(recorded, "\n", recorded) && goes_on(recorded, "\n", &recorded.replace("sh x", "sh x\nHello"))
            );
            for (part, other) in changes {
                assert!(!goes_on(recorded, "\n", &recorded.replace(part, other)), "{recorded} {other}");
            }
        }
        // What is only listed above is no menu.
        for printed in
            ["x\n* one\n* two\nGo? [Y/n] ", "x\n  one\n  two\nGo? [Y/n] ", "x\n1) a\nGo? [Y/n] ", "x\n> a\nGo? "]
        {
            assert_eq!(Menu::printed(printed, &typed("\n")), Menu::None, "{printed}");
        }
    }

    fn drawn(screen: &str, row: &str, act: &Act) -> Vec<String> {
        match Menu::drawn(screen, &[], row, &Entered { text: "node x.js".to_owned(), row: None }, act) {
            Menu::Drawn { rows, .. } => rows,
            Menu::None | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Printed(_) => Vec::new(),
        }
    }

    #[test]
    fn a_menu_that_is_drawn_in_place_is_all_of_its_rows() {
        let screen = "$ ls\nold\n$ node x.js\n? Where to? \n❯ dev\n  staging\n  prod\n↑↓ navigate • ⏎ select\n";
        let rows = ["? Where to?", "❯ dev", "staging", "prod", "↑↓ navigate • ⏎ select"];
        for keys in [&["down", "enter"][..], &["enter"], &["space"]] {
            assert_eq!(drawn(screen, "? Where to? ", &pressed(keys)), rows);
            assert_eq!(drawn(screen, "", &pressed(keys)), rows, "a hidden cursor");
        }
        let pattern = pattern_of_rows(&rows.map(str::to_owned), &[], &KnownFacts::default(), Leeway::Identifiers, true);
        assert!(stands_in(&pattern, screen), "{pattern}");
        for (program, changed) in [
            ("other order", screen.replace("  staging\n  prod", "  prod\n  staging")),
            ("an entry more", screen.replace("  staging", "  test\n  staging")),
            ("an entry at the end", screen.replace("  prod", "  prod\n  wipe")),
            ("an entry at the beginning", screen.replace("❯ dev", "❯ wipe\n  dev")),
            ("another entry is pointed at", screen.replace("❯ dev\n  staging", "  dev\n❯ staging")),
            ("a row below", format!("{screen}\nReally? ")),
        ] {
            assert!(!stands_in(&pattern, &changed), "{program}");
        }
        let line = typed("demo\n");
        let asks = "$ node x.js\n✔ Where to? staging\n? Project name? (demo)\n";
        assert_eq!(drawn(asks, "? Project name? ", &line), ["? Project name? (demo)"]);
    }

    #[test]
    fn an_answer_in_another_form_chooses_from_the_same_rows() {
        let menu = "sh x\n1) logs\n2) cache\n3) temp files\nRemove which? ";
        for answer in ["3", "1,3", "1 3", "1-3", "3.", "3)", "#3", "03", "+3"] {
            let typed = format!("{answer}\n");
            assert!(goes_on(menu, &typed, menu), "{answer}");
            assert!(!goes_on(menu, &typed, &menu.replace("temp files", "the database")), "{answer}");
        }
        for (menu, answer, entry, other) in [
            ("sh x\nA) small\nB) full\nWhich? ", "b", "full", "wipe"),
            ("sh x\n[S]mall/[F]ull\nWhich? ", "f", "[F]ull", "[F]ormat"),
            ("sh x\nsmall (S)\nfull (F)\nWhich? ", "f", "full", "wipe"),
            ("sh x\na - logs\nb - cache\nWhich? ", "a,b", "cache", "database"),
            ("sh x\ns = small, f = full\nWhich? ", "F", "full", "wipe"),
            ("sh x\n1 base   2 extra   3 all\nSet: ", "2", "extra", "wipe"),
        ] {
            let typed = format!("{answer}\n");
            assert!(goes_on(menu, &typed, menu), "{menu}");
            assert!(!goes_on(menu, &typed, &menu.replace(entry, other)), "{menu}");
        }
    }

    #[test]
    fn lists_of_other_programs_are_menus_too() {
        for (screen, row, row_count) in [
            ("$ node x.js\n? Deploy (Use arrow keys)\n » staging\n   production\n", "? Deploy", 3),
            ("$ node x.js\n? Which? \n❯◯ a 1\n ◉ b 2\n", "? Which? ", 3),
            ("$ node x.js\nChoose:\n> one\n  two\n  three\n\n", "", 4),
            ("$ node x.js\n  gamma\n  beta\n> alpha\n  3/3\n> ", "> ", 5),
            ("$ node x.js\n◆  Pick a project type.\n│  ● TypeScript\n│  ○ JavaScript\n└\n", "", 3),
        ] {
            let rows = drawn(screen, row, &pressed(&["down", "enter"]));
            assert_eq!(rows.len(), row_count, "{rows:?}");
            let pattern = pattern_of_rows(&rows, &[], &KnownFacts::default(), Leeway::Identifiers, true);
            assert!(stands_in(&pattern, screen), "{pattern} {screen}");
        }
    }

    #[test]
    fn the_rows_of_a_full_screen_are_a_menu_for_keys_that_choose() {
        let screen = "┌ Setup ┐\n│ Which? │\n│ de Berlin │\n│ 12 │\n";
        let rows = |act: &Act| match Menu::of_screen(screen, &[], act) {
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
        assert!(matches!(Menu::of_screen(&"a row\n".repeat(60), &[], &pressed(&["down"])), Menu::Drawn { .. }));
        assert_eq!(Menu::of_screen(&"a row\n".repeat(61), &[], &pressed(&["down"])), Menu::TooLarge(61));
        // Text goes into the field with the cursor, whatever the other rows look like.
        let styles = ["de Berlin: inverse".to_owned(), "Name: ▏: plain".to_owned()];
        let highlighted = |act: &Act| match Menu::of_screen("de Berlin\nName:", &styles, act) {
            Menu::Drawn { highlighted, .. } => highlighted.len(),
            Menu::None | Menu::Mentioned(_) | Menu::TooLarge(_) | Menu::Printed(_) => 0,
        };
        assert_eq!((highlighted(&typed("box\n")), highlighted(&pressed(&["enter"]))), (1, 2));
    }

    #[test]
    fn the_styles_of_a_menu_are_those_of_its_rows() {
        let screen = "$ ls\n> alpha\n$ node x.js\n? Where to? \n> alpha\n  beta\n";
        let styles = ["$ ls: bold", "> alpha: 6", "? Where to?: bold", "> alpha: 6"].map(str::to_owned);
        let entered = Entered { text: "node x.js".to_owned(), row: None };
        let menu = Menu::drawn(screen, &styles, "", &entered, &pressed(&["enter"]));
        let Menu::Drawn { highlighted, .. } = menu else { panic!("it is a menu: {menu:?}") };
        assert_eq!(highlighted, ["? Where to?: bold", "> alpha: 6"]);
    }
}
