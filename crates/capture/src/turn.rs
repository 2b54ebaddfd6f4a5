//! Turns: an input, with the output and the state of the program before the next one.
//!
//! A command that ended without further input is one turn. A program that asked has a turn for the line that started it
//! and one for each answer.

use steplatch_protocol::{InputKind, InputRecord};

use crate::LeftOut;
use crate::session_log::{MASK, Moment, SessionLog};

/// An input, with its output and the state of the program behind it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    /// Which log it is of.
    pub(crate) log: usize,
    /// When it was typed (ISO 8601, UTC), for the order between terminals.
    pub(crate) timestamp: String,
    /// The number of its entry.
    pub(crate) number: u64,
    pub(crate) act: Act,
    /// Waits of the client that ended with a match, in order.
    pub(crate) waits: Vec<SeenWait>,
    pub(crate) ending: Ending,
    /// What was printed up to the next input.
    pub(crate) printed: String,
    /// Seconds to the end of the command, or of the last wait.
    pub(crate) elapsed: Option<f64>,
    /// The rows of the screen that it was typed into, of a full-screen program.
    pub(crate) screen: Option<String>,
    /// It was typed at the prompt of a shell.
    pub(crate) at_prompt: bool,
    /// What must be shown, in this order, because the next input chooses from it: the rows of a menu, or its line with the
    /// number that is typed.
    pub(crate) menu: Vec<String>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// A command that needed no input.
    Command { command: String, directory: Option<String>, exit_code: Option<i32>, output: String },
    /// Text was typed, and keys after it.
    Typed { text: String, keys: Vec<String> },
    /// Something was typed that is not shown, behind this row.
    Hidden { entered: bool, row: String },
}

/// A wait of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenWait {
    pub(crate) pattern: String,
    /// The match ends where the next input was typed.
    pub(crate) reaches_input: bool,
}

/// What a program did at the end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The shell was at its prompt again.
    Prompt { exit_code: Option<i32> },
    /// The program asked with this line, without an end.
    Question(String),
    /// The program read a line without showing it.
    Password(String),
    /// A full-screen program showed these rows.
    Screen(String),
    /// The log ends here.
    Open,
}

/// Returns the turns of a log, and the inputs that are none.
pub(crate) fn turns(index: usize, log: &SessionLog) -> (Vec<Turn>, Vec<LeftOut>) {
    let mut reader = Reader { index, moments: &log.moments, turns: Vec::new(), left_out: Vec::new(), open: None };
    let mut at = 0;
    while at < log.moments.len() {
        at = reader.take(at);
    }
    let mut turns = reader.turns;
    for turn in &mut turns {
        turn.printed.truncate(floor(&turn.printed, LONGEST_PRINT));
    }
    (turns, reader.left_out)
}

/// The most bytes of a turn's output that are looked at.
const LONGEST_PRINT: usize = 64 << 10;

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

struct Reader<'r> {
    index: usize,
    moments: &'r [Moment],
    turns: Vec<Turn>,
    left_out: Vec<LeftOut>,
    /// The exit code of the command that the program in progress belongs to, once it has ended: a conversation is open.
    open: Option<Option<i32>>,
}

fn is_typed(input: &InputRecord) -> bool {
    matches!(input.kind, InputKind::Typed | InputKind::Attached | InputKind::Hidden)
}

fn is_input(input: &InputRecord) -> bool {
    is_typed(input) || input.kind == InputKind::Command
}

fn is_at_prompt(input: &InputRecord) -> bool {
    input.context == "prompt"
}

impl Reader<'_> {
    /// Takes the entry at `at`, and returns the position of the next one.
    fn take(&mut self, at: usize) -> usize {
        let moments = self.moments;
        let input = &moments[at].input;
        match input.kind {
            InputKind::Wait => {
                self.wait(at);
                at + 1
            }
            InputKind::Resize => {
                // Each time that a person attaches the terminal changes its size.
                if !self.moments[..at].iter().any(|moment| moment.input.kind == InputKind::Resize) {
                    self.leave_out("changes of size".to_owned(), "a machine opens its terminals in one size");
                }
                at + 1
            }
            InputKind::Signal if input.signal == Some(2) => {
                self.push(at, Act::Typed { text: String::new(), keys: vec!["ctrl-c".to_owned()] });
                at + 1
            }
            InputKind::Signal => {
                let signal = input.signal.unwrap_or_default();
                self.leave_out(format!("signal {signal}"), "no action sends this signal");
                at + 1
            }
            InputKind::Command => {
                self.command(at);
                at + 1
            }
            // Belongs to an input that is no longer in the log.
            InputKind::Entered => at + 1,
            InputKind::Typed | InputKind::Attached | InputKind::Hidden if is_at_prompt(input) => self.line(at),
            InputKind::Typed | InputKind::Attached | InputKind::Hidden => {
                let act = act_of(input);
                self.push(at, act);
                at + 1
            }
        }
    }

    fn leave_out(&mut self, input: String, reason: &str) {
        self.left_out.push(LeftOut { input, reason: reason.to_owned() });
    }

    /// Returns the next input behind an entry.
    fn next_input(&self, at: usize) -> Option<&Moment> {
        self.moments[at + 1..].iter().find(|moment| is_input(&moment.input))
    }

    /// Whether the command of an entry got input before it ended.
    fn is_conversation(&self, at: usize) -> bool {
        let Some(next) = self.next_input(at) else { return self.moments[at].input.reason.as_deref() != Some("ended") };
        let ends =
            self.moments[at].input.output_end.filter(|_| self.moments[at].input.reason.as_deref() == Some("ended"));
        !is_at_prompt(&next.input) && ends.is_none_or(|end| next.input.offset < end)
    }

    fn command(&mut self, at: usize) {
        let moment = &self.moments[at];
        let InputRecord { text, working_directory, exit_code, error, .. } = &moment.input;
        let command = text.clone().unwrap_or_default();
        if let Some(error) = error {
            return self.leave_out(command, &format!("it was not run: {error}"));
        }
        if self.is_conversation(at) {
            self.open = Some(*exit_code);
            let directory = working_directory.as_ref().map(|directory| format!("cd {} && ", quoted(directory)));
            let text = format!("{}{command}\n", directory.unwrap_or_default());
            return self.push(at, Act::Typed { text, keys: Vec::new() });
        }
        let output = moment.output.clone().unwrap_or_else(|| moment.printed.clone());
        let directory = working_directory.clone();
        self.push(at, Act::Command { command, directory, exit_code: *exit_code, output });
    }

    /// Takes what was typed at a prompt, up to the lines that the shell took.
    fn line(&mut self, at: usize) -> usize {
        let (mut typed, mut taken) = (Vec::new(), Vec::new());
        let mut next = at;
        while let Some(moment) = self.moments.get(next) {
            let input = &moment.input;
            match input.kind {
                InputKind::Entered => taken.push(next),
                InputKind::Wait => {}
                _ if is_typed(input) && is_at_prompt(input) && taken.is_empty() => typed.push(next),
                _ => break,
            }
            next += 1;
        }
        let is_hidden = typed.iter().any(|at| self.moments[*at].input.kind == InputKind::Hidden);
        let text: String = typed.iter().map(|at| edited(&self.moments[*at].input)).collect();
        if taken.is_empty() {
            let what = if is_hidden { "something that is not shown".to_owned() } else { text.trim().to_owned() };
            let is_enter = what.is_empty();
            if !is_enter {
                self.leave_out(what, "the line was not entered");
            }
            return next;
        }
        let is_plain = typed.iter().all(|at| is_plain(&self.moments[*at].input)) && taken.len() == 1;
        let text = if is_plain { shown_lines(&text, &self.printed_from(at)) } else { text };
        for (index, &entered) in taken.iter().enumerate() {
            let is_last = index + 1 == taken.len();
            let input = &self.moments[entered].input;
            let line = if is_plain { Some(text.trim_end_matches('\n').to_owned()) } else { input.text.clone() };
            let is_conversation = is_last && self.is_conversation(entered);
            if is_conversation {
                self.open = Some(input.exit_code);
            }
            let begin = if index == 0 { at } else { entered };
            match line.filter(|_| !is_hidden) {
                None => self.push(begin, Act::Hidden { entered: true, row: "command".to_owned() }),
                Some(line) if is_conversation => {
                    self.push(begin, Act::Typed { text: format!("{line}\n"), keys: Vec::new() });
                }
                Some(command) => {
                    let output = self.moments[entered].output.clone().unwrap_or_default();
                    let act = Act::Command { command, directory: None, exit_code: input.exit_code, output };
                    self.push(begin, act);
                }
            }
            if let Some(turn) = self.turns.last_mut() {
                turn.elapsed = input.elapsed_time.or(turn.elapsed);
            }
        }
        for wait in at..next {
            if self.moments[wait].input.kind == InputKind::Wait {
                self.wait(wait);
            }
        }
        next
    }

    /// Adds the wait of an entry to the turn that it followed.
    fn wait(&mut self, at: usize) {
        let next = self.next_input(at).map(|next| next.input.offset);
        let input = &self.moments[at].input;
        let Some(turn) = self.turns.last_mut() else { return };
        turn.elapsed = seconds_between(&turn.timestamp, &input.timestamp).or(turn.elapsed);
        let (Some("match"), Some(pattern)) = (input.reason.as_deref(), input.pattern.clone()) else { return };
        let end = input.output_end.unwrap_or(input.offset);
        let reaches_input = next.is_some_and(|next| next <= end + 2);
        if turn.waits.last().is_none_or(|last| last.pattern != pattern) {
            turn.waits.push(SeenWait { pattern, reaches_input });
        }
    }

    fn push(&mut self, at: usize, act: Act) {
        let input = &self.moments[at].input;
        let printed = self.printed_from(at);
        let ending = match act {
            Act::Command { exit_code, .. } => Ending::Prompt { exit_code },
            Act::Typed { .. } | Act::Hidden { .. } => self.ending(at, &printed),
        };
        let menu = match (&ending, self.next_input(at)) {
            (Ending::Screen(rows), Some(next)) => menu_rows(rows, &next.input),
            (Ending::Question(_), Some(next)) => numbered_line(&printed, &next.input).into_iter().collect(),
            _ => Vec::new(),
        };
        self.turns.push(Turn {
            menu,
            log: self.index,
            timestamp: input.timestamp.clone(),
            number: input.number,
            act,
            waits: Vec::new(),
            ending,
            printed,
            elapsed: input.elapsed_time,
            screen: input.screen.clone(),
            at_prompt: is_at_prompt(input),
        });
    }

    /// Returns what was printed from an entry up to the next input.
    fn printed_from(&self, at: usize) -> String {
        let mut printed = self.moments[at].printed.clone();
        let rest = self.moments[at + 1..].iter().take_while(|moment| !is_input(&moment.input));
        printed.extend(rest.map(|moment| moment.printed.as_str()));
        printed
    }

    /// Returns what the program did between an entry and the next input.
    fn ending(&self, at: usize, printed: &str) -> Ending {
        // A line that the shell took stands behind what was typed.
        let behind = self.moments[at + 1..].iter().find(|moment| is_input(&moment.input));
        let echoed = behind.and_then(|moment| question_of_echo(&moment.input, &moment.printed));
        let Some(next) = behind.map(|moment| &moment.input) else {
            let reason = |moment: &Moment| (moment.input.kind == InputKind::Wait).then(|| moment.input.reason.clone());
            let last_wait = self.moments[at + 1..].iter().rev().find_map(reason).flatten();
            let row = |moment: &Moment| (moment.input.kind == InputKind::Wait).then(|| moment.input.row.clone());
            let last_row = self.moments[at + 1..].iter().rev().find_map(row).flatten();
            return match (self.open, last_wait.as_deref()) {
                (Some(Some(code)), _) => Ending::Prompt { exit_code: Some(code) },
                (_, Some("prompt")) => Ending::Prompt { exit_code: None },
                (_, Some("input")) => Ending::Question(last_row.unwrap_or_default()),
                _ => Ending::Open,
            };
        };
        match next.context.as_str() {
            "prompt" => Ending::Prompt { exit_code: self.open.flatten() },
            "full_screen" => Ending::Screen(next.screen.clone().unwrap_or_default()),
            context => {
                if let Some(question) = echoed {
                    return Ending::Question(question.to_owned());
                }
                let row = next.row.clone().unwrap_or_default();
                // The screen has the last row of a question that is longer than a row.
                let line = printed.rsplit('\n').next().unwrap_or_default();
                let question = if line.trim_end().ends_with(row.trim()) && line.len() <= LONGEST_QUESTION {
                    line.to_owned()
                } else {
                    row
                };
                let asked = if question.trim().is_empty() { asking_line(printed) } else { None };
                let question = asked.unwrap_or(question);
                if context == "password" { Ending::Password(question) } else { Ending::Question(question) }
            }
        }
    }
}

/// The most rows of a full screen that are a menu. A screen with more shows what changes, such as processes or files.
const LONGEST_MENU: usize = 16;

/// Returns the rows with text of a screen on which an input moves to an entry.
fn menu_rows(screen: &str, input: &InputRecord) -> Vec<String> {
    let Act::Typed { text, keys } = act_of(input) else { return Vec::new() };
    let moves = |key: &String| matches!(key.as_str(), "up" | "down" | "left" | "right" | "tab" | "pageup" | "pagedown");
    if !text.is_empty() || !keys.iter().any(moves) {
        return Vec::new();
    }
    let rows = screen.lines().map(crate::question::without_frame);
    let rows: Vec<String> = rows.filter(|row| row.chars().any(char::is_alphabetic)).map(str::to_owned).collect();
    if rows.len() > LONGEST_MENU { Vec::new() } else { rows }
}

/// Returns the entry of a printed menu that an input chooses by its number: the number and its label, as `2) Paris`,
/// `(2) Paris`, `[2] Paris`, `2. Paris` or `2 Paris`.
fn numbered_line(printed: &str, input: &InputRecord) -> Option<String> {
    let Act::Typed { text, .. } = act_of(input) else { return None };
    let number = text.trim();
    if number.is_empty() || number.len() > 3 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let marked = |line: &str| {
        let (begin, end) = line.match_indices(number).find_map(|(at, _)| marked_number(line, at, number.len()))?;
        label(&line[end..]).map(|label| format!("{} {label}", &line[begin..end]))
    };
    let bare = |line: &str| {
        let (found, rest) = bare_number(line)?;
        label(rest).filter(|_| found == number).map(|label| format!("{number} {label}"))
    };
    let is_table = || printed.lines().filter(|line| bare_number(line).is_some()).count() > 1;
    let marked = printed.lines().rev().find_map(marked);
    marked.or_else(|| printed.lines().rev().find_map(bare).filter(|_| is_table()))
}

/// Returns where a number with its signs, as `(2)`, `2.` or `2:`, begins and ends.
fn marked_number(line: &str, at: usize, length: usize) -> Option<(usize, usize)> {
    let (before, after) = (&line[..at], &line[at + length..]);
    let sign = after.chars().next().filter(|sign| ").]:".contains(*sign))?;
    let open = match sign {
        ')' => before.ends_with('('),
        ']' => before.ends_with('['),
        _ => false,
    };
    let begin = at - usize::from(open);
    let is_apart = line[..begin].chars().next_back().is_none_or(char::is_whitespace);
    let end = at + length + sign.len_utf8();
    (is_apart && line[end..].starts_with(char::is_whitespace)).then_some((begin, end))
}

/// Returns the number that a row of a table begins with, behind a mark of the usual choice, and the rest of the row.
fn bare_number(line: &str) -> Option<(&str, &str)> {
    let row = line.trim_start_matches(|sign: char| sign.is_whitespace() || "*>→".contains(sign));
    let digits = row.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = row.split_at(digits);
    let is_row = (1..=3).contains(&digits) && rest.starts_with(char::is_whitespace) && label(rest).is_some();
    is_row.then_some((number, rest))
}

/// Returns the label of an entry, up to the next column: entries stand in columns where there is room.
fn label(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    let label = rest.split("  ").next().unwrap_or_default().split('\t').next().unwrap_or_default().trim();
    label.chars().any(char::is_alphabetic).then_some(label)
}

/// Words that a line begins with that asks for an answer.
const ASKING_WORDS: [&str; 7] = ["choose", "enter", "input", "pick", "press", "select", "type"];

/// Returns the last line of an output that asks, of a program that reads the answer on a line of its own, with the end of
/// the line. The first line is the input that the program got before.
fn asking_line(printed: &str) -> Option<String> {
    let (_, reply) = printed.split_once('\n')?;
    let line = reply.trim_end().lines().next_back()?.trim();
    let first = line.split(|sign: char| !sign.is_alphabetic()).next().unwrap_or_default().to_ascii_lowercase();
    let asks = line.ends_with([':', '?']) || ASKING_WORDS.contains(&first.as_str());
    (asks && line.len() <= LONGEST_QUESTION).then(|| format!("{line}\n"))
}

/// Returns the question that a program asked when it took an input that was typed while it still printed: the beginning of
/// the line that the input was echoed in. None where the echo is the first that was printed, as of a program that waited.
fn question_of_echo<'m>(input: &InputRecord, printed: &'m str) -> Option<&'m str> {
    let typed = input.text.as_deref().filter(|_| input.kind == InputKind::Typed && input.context == "program")?;
    let typed = typed.lines().next().map(str::trim).filter(|typed| !typed.is_empty())?;
    let (first, rest) = printed.split_once('\n')?;
    if first.trim().starts_with(typed) {
        return None;
    }
    let questions = rest.lines().filter_map(|line| line.trim_end().strip_suffix(typed));
    let is_question = |line: &&str| !line.trim().is_empty() && line.len() <= LONGEST_QUESTION;
    questions.into_iter().next().filter(is_question)
}

/// The longest line that is taken for a question, in bytes.
const LONGEST_QUESTION: usize = 400;

/// Whether what was typed is text alone, with Enter at its end at the most.
fn is_plain(input: &InputRecord) -> bool {
    let text = input.text.as_deref().unwrap_or_default();
    let is_plain = |text: &str| !text.chars().any(|sign| sign.is_control() && sign != '\n');
    input.kind == InputKind::Typed
        && !input.cut
        && is_plain(text)
        && input.keys.iter().all(|key| matches!(key.as_str(), "enter" | "return"))
}

fn act_of(input: &InputRecord) -> Act {
    match input.kind {
        InputKind::Hidden => {
            Act::Hidden { entered: !input.keys.is_empty(), row: input.row.clone().unwrap_or_default() }
        }
        InputKind::Attached => {
            let (text, keys) = crate::template::typed_keys(input.text.as_deref().unwrap_or_default());
            Act::Typed { text, keys }
        }
        _ => Act::Typed { text: input.text.clone().unwrap_or_default(), keys: input.keys.clone() },
    }
}

/// Returns a word for a POSIX shell, in quotes where it needs them.
fn quoted(word: &str) -> String {
    let is_plain = |sign: char| sign.is_alphanumeric() || "/._-+~@%:,=".contains(sign);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns lines that were typed at once at a prompt, with a mask in place of those behind the first one that were not shown:
/// the program that the first one started may have read them without an echo, as a password.
fn shown_lines(text: &str, printed: &str) -> String {
    if !text.trim_end_matches('\n').contains('\n') {
        return text.to_owned();
    }
    let without_blanks = |text: &str| text.chars().filter(|sign| !sign.is_whitespace()).collect::<String>();
    let printed = without_blanks(printed);
    let line = |(index, line): (usize, &str)| {
        let is_shown = index == 0 || printed.contains(&without_blanks(line));
        if is_shown { line.to_owned() } else { format!("{MASK}{}", if line.ends_with('\n') { "\n" } else { "" }) }
    };
    text.split_inclusive('\n').enumerate().map(line).collect()
}

/// Returns the text of an input, as a line editor leaves it.
fn edited(input: &InputRecord) -> String {
    match act_of(input) {
        Act::Typed { mut text, keys } => {
            if keys.iter().any(|key| key == "enter" || key == "return") {
                text.push('\n');
            }
            text
        }
        Act::Command { .. } | Act::Hidden { .. } => String::new(),
    }
}

/// Returns the seconds between two moments of one day or two, as ISO 8601 in UTC writes them.
pub(crate) fn seconds_between(from: &str, to: &str) -> Option<f64> {
    let seconds = |moment: &str| {
        let clock = moment.get(11..)?.trim_end_matches('Z').trim_end_matches("+00:00");
        let mut parts = clock.splitn(3, ':').map(|part| part.parse::<f64>().ok());
        Some(parts.next()?? * 3600.0 + parts.next()?? * 60.0 + parts.next()??)
    };
    let between = seconds(to)? - seconds(from)?;
    Some(if between < 0.0 { between + 86_400.0 } else { between })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_still_printed_asked_where_the_input_was_echoed() {
        let input = InputRecord {
            kind: InputKind::Typed,
            context: "program".to_owned(),
            text: Some("print n\n".to_owned()),
            ..InputRecord::default()
        };
        let question = |printed| question_of_echo(&input, printed);
        assert_eq!(question("(p=0x0, n=41) at crash.c:2\n2\tint at()\n(gdb) print n\n$1 = 41\n(gdb) "), Some("(gdb) "));
        assert_eq!(question("print n\n$1 = 41\n(gdb) print n\n"), None, "it waited");
        assert_eq!(question("41\n$1 = 41\n"), None, "it echoes nothing");
    }

    #[test]
    fn a_line_asks_although_it_has_ended() {
        let line = |printed| asking_line(printed);
        assert_eq!(line("sh x\n1. a\nPick a number from 1 to 4\n").as_deref(), Some("Pick a number from 1 to 4\n"));
        assert_eq!(line("sh x\nName:\n\n").as_deref(), Some("Name:\n"));
        assert_eq!(line("Name:\n"), None, "it is what was typed");
        assert_eq!(line("sh x\ncompiling\n"), None);
    }

    #[test]
    fn lines_behind_the_first_one_that_were_not_shown_are_masked() {
        assert_eq!(shown_lines("login\nhunter2\n", "$ login\nPassword: \nWelcome\n"), "login\n••••••\n");
        assert_eq!(shown_lines("cat <<E\na b\nE\n", "$ cat <<E\n> a  b\n> E\n"), "cat <<E\na b\nE\n");
        assert_eq!(shown_lines("make\n", ""), "make\n");
    }

    #[test]
    fn what_an_input_chooses_from_is_known() {
        let input = |text: &str, keys: &[&str]| InputRecord {
            kind: InputKind::Typed,
            text: Some(text.to_owned()).filter(|text| !text.is_empty()),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..InputRecord::default()
        };
        let entry = |printed, typed| numbered_line(printed, &input(typed, &[]));
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
        for (printed, typed) in [(menu, "4\n"), (menu, "Paris\n"), ("size 12) x\n", "2\n"), ("", "1\n")] {
            assert_eq!(entry(printed, typed), None, "{printed:?} {typed:?}");
        }
        let screen = "┌ Setup ┐\n│ Which? │\n│ de Berlin │\n│ 12 │\n";
        assert_eq!(menu_rows(screen, &input("", &["down", "enter"])), ["Setup", "Which?", "de Berlin"]);
        assert_eq!(menu_rows(screen, &input("", &["enter"])), Vec::<String>::new());
        assert_eq!(menu_rows(&"a row\n".repeat(17), &input("", &["down"])), Vec::<String>::new());
    }
}
