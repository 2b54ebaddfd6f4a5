//! Turns: each input, with the output and the state of the program before the next input.
//!
//! A command that ended without further input is one turn. A program with questions has one turn for the line that
//! started it, and one for each answer.

use std::borrow::Cow;

use steplatch_protocol::{InputKind, InputRecord};

use crate::OmittedInput;
use crate::act::{Act, is_at_prompt, is_input, is_typed};
use crate::drawing::{Entered, heading_index, is_open_question};
use crate::effects::starts_with_stem;
use crate::menu::{Menu, trimmed_lines};
use crate::question::{LastRow, Leeway, is_frame, without_frame};
use crate::session_log::{MASK, Moment, SessionLog};
use crate::typed_ahead::{
    input_keys, is_question, later_question, move_lines_to_prompt, split_inputs, without_answered_question,
};

/// An input, with its output and the state of the program after it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    /// Index of the log.
    pub(crate) log_index: usize,
    /// Time of the input (ISO 8601, UTC), for the order between terminals.
    pub(crate) timestamp: String,
    /// Number of the log entry.
    pub(crate) number: u64,
    pub(crate) act: Act,
    /// Waits of the client that ended with a match, in order.
    pub(crate) waits: Vec<SeenWait>,
    pub(crate) ending: Ending,
    /// Output up to the next input.
    pub(crate) printed: String,
    /// Time in seconds until the end of the command or of the last wait.
    pub(crate) elapsed: Option<f64>,
    /// The rows of the screen before the input, in a full-screen program.
    pub(crate) screen: Option<String>,
    /// True for an input at the prompt of a shell.
    pub(crate) at_prompt: bool,
    /// The entries that the program must show because the next input chooses one of them.
    pub(crate) menu: Menu,
    /// The heading above the question, and the rows between them.
    pub(crate) rows_above: Vec<String>,
    /// Permitted variation of the question in the next run. It depends on the answer.
    pub(crate) leeway: Leeway,
    /// The text of the answer.
    pub(crate) answer: String,
    /// Reading mode of the program at the next input.
    pub(crate) next_read: NextRead,
    /// Number of keys typed at once for a program that reads keys, or else 0.
    pub(crate) key_count: usize,
}

/// Reading mode of a program at the time of the next input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NextRead {
    /// There is no next input.
    #[default]
    None,
    /// A line with an echo.
    Line,
    /// Input with an echo.
    Shown,
    /// A line without an echo.
    Hidden,
    /// Unknown: with or without an echo.
    Any,
}

impl NextRead {
    fn from_input(input: &InputRecord, is_imported: bool) -> Self {
        match input.context.as_str() {
            _ if interrupts(input) && input.awaited != Some(true) => Self::None,
            // An imported recording does not have the mode.
            "password" if is_imported => Self::Any,
            "password" => Self::Hidden,
            // A program that reads keys takes Enter after a line as the answer to its next question.
            "program" if input.reads_lines && input.awaited != Some(false) && is_typed_line(input) => Self::Line,
            "program" => Self::Shown,
            _ => Self::None,
        }
    }

    /// Returns the parameter of a wait.
    pub(crate) fn parameter(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Line => Some("line"),
            Self::Shown => Some("shown"),
            Self::Hidden => Some("hidden"),
            Self::Any => Some("any"),
        }
    }
}

/// A wait of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenWait {
    pub(crate) pattern: String,
    /// True if the match ends at the position of the next input.
    pub(crate) reaches_input: bool,
}

/// State of a program at the end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The shell was at its prompt.
    Prompt { exit_code: Option<i32> },
    /// The program printed this question, without an end of line.
    Question(String),
    /// The program read a line without showing it.
    Password(String),
    /// The program printed nothing between this row and the next input.
    Silent(LastRow),
    /// A full-screen program showed these rows.
    Screen(String),
    /// The log ends here.
    Open,
}

/// Returns the turns of a log, and the omitted inputs.
pub(crate) fn read_turns(log_index: usize, log: &SessionLog) -> (Vec<Turn>, Vec<OmittedInput>) {
    let moments = split_inputs(&log.moments);
    let moments = move_lines_to_prompt(&moments);
    let mut reader = Reader {
        log_index,
        moments: &moments,
        is_imported: log.is_imported,
        has_resized: false,
        turns: Vec::new(),
        omitted_inputs: Vec::new(),
        open_command: None,
    };
    let mut entry_index = 0;
    while entry_index < moments.len() {
        entry_index = reader.read_entry(entry_index);
    }
    let mut turns = reader.turns;
    for turn in &mut turns {
        turn.printed.truncate(floor_boundary(&turn.printed, MAX_PRINTED_BYTES));
    }
    (turns, reader.omitted_inputs)
}

/// Maximum length of the output of a turn.
const MAX_PRINTED_BYTES: usize = 64 << 10;

fn floor_boundary(text: &str, end: usize) -> usize {
    (0..=end.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

/// Reader of the entries of a log.
struct Reader<'r> {
    log_index: usize,
    moments: &'r [Moment],
    is_imported: bool,
    /// True if the omitted inputs include a change of size.
    has_resized: bool,
    turns: Vec<Turn>,
    omitted_inputs: Vec<OmittedInput>,
    /// Exit code of the last command that received input: `Some(None)` while it runs, `None` without such a command.
    open_command: Option<Option<i32>>,
}

impl Reader<'_> {
    /// Reads an entry and returns the index of the next entry.
    fn read_entry(&mut self, entry_index: usize) -> usize {
        let moments = self.moments;
        let input = &moments[entry_index].input;
        match input.kind {
            InputKind::Wait => {
                self.add_wait(entry_index);
                entry_index + 1
            }
            InputKind::Resize => {
                self.omit_resize();
                entry_index + 1
            }
            InputKind::Signal if input.signal == Some(2) => {
                self.push_turn(entry_index, Act::Typed { text: String::new(), keys: vec!["ctrl-c".to_owned()] });
                entry_index + 1
            }
            InputKind::Signal => {
                let signal = input.signal.unwrap_or_default();
                self.omit_input(format!("signal {signal}"), "no action sends this signal");
                entry_index + 1
            }
            InputKind::Command => {
                self.add_command(entry_index);
                entry_index + 1
            }
            InputKind::Entered => {
                self.omit_untyped_line(entry_index);
                entry_index + 1
            }
            InputKind::Typed | InputKind::Attached | InputKind::Hidden if is_at_prompt(input) => {
                self.read_line(entry_index)
            }
            InputKind::Typed | InputKind::Attached | InputKind::Hidden => {
                let act = input_act(input);
                self.push_turn(entry_index, act);
                entry_index + 1
            }
        }
    }

    /// Omits a line that a shell read but no client typed: a program put it into its own terminal. A line before all
    /// inputs belongs to an input that the log no longer contains.
    fn omit_untyped_line(&mut self, entry_index: usize) {
        let Some(line) = self.moments[entry_index].input.text.as_deref().filter(|line| !line.trim().is_empty()) else {
            return;
        };
        let before = &self.moments[..entry_index];
        let has_earlier_input = before.iter().any(|moment| is_input(&moment.input));
        let is_typed = |moment: &Moment| match moment.input.kind {
            InputKind::Hidden => true,
            _ => moment.input.text.as_deref().is_some_and(|text| is_input(&moment.input) && text.contains(line.trim())),
        };
        if has_earlier_input && !before.iter().any(is_typed) {
            self.omit_input(line.to_owned(), "a program typed it, and will type it again in each run");
        }
    }

    /// Omits all changes of size as one input: the size changes each time a person attaches the terminal.
    fn omit_resize(&mut self) {
        if !self.has_resized {
            self.has_resized = true;
            self.omit_input("changes of size".to_owned(), "a machine opens its terminals in one size");
        }
    }

    fn omit_input(&mut self, input: String, reason: &str) {
        self.omitted_inputs.push(OmittedInput { input, reason: reason.to_owned() });
    }

    /// Returns the next input after an entry.
    fn next_input(&self, entry_index: usize) -> Option<&Moment> {
        self.moments[entry_index + 1..].iter().find(|moment| is_input(&moment.input))
    }

    /// Returns whether the command of an entry got input before its end.
    fn is_conversation(&self, entry_index: usize) -> bool {
        let Some(next) = self.next_input(entry_index) else {
            return self.moments[entry_index].input.reason.as_deref() != Some("ended");
        };
        let command_end = self.moments[entry_index]
            .input
            .output_end
            .filter(|_| self.moments[entry_index].input.reason.as_deref() == Some("ended"));
        // The output does not include a full screen, or a menu that Enter alone closes. A line that was typed ahead is
        // not an answer.
        let is_answer = next.input.context == "full_screen" || next.input.awaited == Some(true);
        let is_before = |end| next.input.offset < end || is_answer && next.input.offset == end;
        !is_at_prompt(&next.input) && command_end.is_none_or(is_before)
    }

    fn add_command(&mut self, entry_index: usize) {
        let moment = &self.moments[entry_index];
        let InputRecord { text, working_directory, exit_code, error, .. } = &moment.input;
        let command = text.clone().unwrap_or_default();
        if let Some(error) = error {
            return self.omit_input(command, &format!("it was not run: {error}"));
        }
        if self.is_conversation(entry_index) {
            self.open_command = Some(*exit_code);
            let directory = working_directory.as_ref().map(|directory| format!("cd {} && ", quoted(directory)));
            let text = format!("{}{command}\n", directory.unwrap_or_default());
            return self.push_turn(entry_index, Act::Typed { text, keys: Vec::new() });
        }
        let output = moment.output.clone().unwrap_or_else(|| moment.printed.clone());
        let directory = working_directory.clone();
        self.push_turn(entry_index, Act::Command { command, directory, exit_code: *exit_code, output });
    }

    /// Reads the text typed at a prompt, up to the lines that the shell read.
    fn read_line(&mut self, entry_index: usize) -> usize {
        let (mut typed_entries, mut entered_lines) = (Vec::new(), Vec::new());
        let mut next = entry_index;
        while let Some(moment) = self.moments.get(next) {
            let input = &moment.input;
            match input.kind {
                InputKind::Entered => entered_lines.push(next),
                InputKind::Wait => {}
                // A change of size does not end the line.
                InputKind::Resize => self.omit_resize(),
                _ if is_typed(input) && is_at_prompt(input) && entered_lines.is_empty() => typed_entries.push(next),
                _ => break,
            }
            next += 1;
        }
        let is_hidden =
            typed_entries.iter().any(|entry_index| self.moments[*entry_index].input.kind == InputKind::Hidden);
        let text: String =
            typed_entries.iter().map(|entry_index| edited_text(&self.moments[*entry_index].input)).collect();
        if entered_lines.is_empty() {
            let shown_text = if is_hidden { "text without an echo".to_owned() } else { text.trim().to_owned() };
            let is_enter = shown_text.is_empty();
            if !is_enter {
                self.omit_input(shown_text, "the line was not entered");
            }
            return next;
        }
        let is_plain = typed_entries.iter().all(|entry_index| is_plain(&self.moments[*entry_index].input))
            && entered_lines.len() == 1;
        let text = if is_plain { mask_hidden_lines(&text, &self.printed_from(entry_index)) } else { text };
        for (index, &line_entry) in entered_lines.iter().enumerate() {
            let is_last = index + 1 == entered_lines.len();
            let input = &self.moments[line_entry].input;
            let line = if is_plain { Some(text.trim_end_matches('\n').to_owned()) } else { input.text.clone() };
            let is_conversation = is_last && self.is_conversation(line_entry);
            if is_conversation {
                self.open_command = Some(input.exit_code);
            }
            let begin = if index == 0 { entry_index } else { line_entry };
            match line.filter(|_| !is_hidden) {
                None => self.push_turn(begin, Act::Hidden { entered: true, row: "command".to_owned() }),
                Some(line) if is_conversation => {
                    self.push_turn(begin, Act::Typed { text: format!("{line}\n"), keys: Vec::new() });
                }
                Some(command) => {
                    let output = self.moments[line_entry].output.clone().unwrap_or_default();
                    let act = Act::Command { command, directory: None, exit_code: input.exit_code, output };
                    self.push_turn(begin, act);
                }
            }
            if let Some(turn) = self.turns.last_mut() {
                turn.elapsed = input.elapsed_time.or(turn.elapsed);
            }
        }
        for index in entry_index..next {
            if self.moments[index].input.kind == InputKind::Wait {
                self.add_wait(index);
            }
        }
        next
    }

    /// Adds the wait of an entry to the turn before it.
    fn add_wait(&mut self, entry_index: usize) {
        let next = self.next_input(entry_index).map(|next| next.input.offset);
        let input = &self.moments[entry_index].input;
        let Some(turn) = self.turns.last_mut() else { return };
        turn.elapsed = seconds_between(&turn.timestamp, &input.timestamp).or(turn.elapsed);
        let (Some("match"), Some(pattern)) = (input.reason.as_deref(), input.pattern.clone()) else { return };
        let end = input.output_end.unwrap_or(input.offset);
        let reaches_input = next.is_some_and(|next| next <= end + 2);
        if turn.waits.last().is_none_or(|last| last.pattern != pattern) {
            turn.waits.push(SeenWait { pattern, reaches_input });
        }
    }

    fn push_turn(&mut self, entry_index: usize, act: Act) {
        let input = &self.moments[entry_index].input;
        let mut printed = self.printed_from(entry_index);
        let ending = match act {
            Act::Command { exit_code, .. } => Ending::Prompt { exit_code },
            Act::Typed { .. } | Act::Hidden { .. } => self.ending_after(entry_index, &printed),
        };
        let next = self.next_input(entry_index).map(|next| &next.input);
        // A replay of the recording compares the whole row, including the input at its end.
        if let Ending::Silent(LastRow::Whole(row) | LastRow::AfterPrompt(row)) = &ending {
            printed = format!("{row}\n");
        }
        // A run does not type ahead, so it finds the question at this position.
        if let (Ending::Question(question), Some(false)) = (&ending, next.and_then(|next| next.awaited))
            && !printed.trim_end().ends_with(question.trim_end())
        {
            printed.push_str(question);
        }
        let menu = next.map(|next| self.menu_of_next_input(entry_index, &ending, &printed, next)).unwrap_or_default();
        let leeway = match (&ending, next) {
            // A number that chooses an entry is not data.
            _ if matches!(menu, Menu::Printed(_)) => Leeway::Identifiers,
            (Ending::Question(line), Some(next)) => {
                question_leeway(&input_act(next), &drawn_text(&menu).unwrap_or(line.clone()))
            }
            (Ending::Screen(rows), Some(next)) => question_leeway(&input_act(next), rows),
            (Ending::Password(_), Some(_)) => Leeway::Identifiers,
            _ => Leeway::Data,
        };
        let next_read = next.map(|next| NextRead::from_input(next, self.is_imported)).unwrap_or_default();
        let rows_above = match &ending {
            Ending::Question(question) | Ending::Password(question) => rows_above(&printed, question),
            Ending::Prompt { .. } | Ending::Silent(_) | Ending::Screen(_) | Ending::Open => Vec::new(),
        };
        self.turns.push(Turn {
            menu,
            rows_above,
            leeway,
            answer: next.and_then(|next| next.text.clone()).unwrap_or_default().trim().to_owned(),
            next_read,
            log_index: self.log_index,
            timestamp: input.timestamp.clone(),
            number: input.number,
            act,
            waits: Vec::new(),
            ending,
            printed,
            elapsed: input.elapsed_time,
            screen: input.screen.clone(),
            at_prompt: is_at_prompt(input),
            key_count: if self.is_imported { 0 } else { input_keys(input).map_or(0, |keys| keys.len()) },
        });
    }

    /// Returns the menu of the next input, if that input chooses an entry.
    fn menu_of_next_input(&self, entry_index: usize, ending: &Ending, printed: &str, next: &InputRecord) -> Menu {
        let act = input_act(next);
        match (ending, &next.screen) {
            (Ending::Screen(rows), _) => Menu::from_screen(rows, &next.highlighted, &act),
            (Ending::Question(_) | Ending::Password(_), Some(screen)) => {
                let entered = self.lines_since_prompt(entry_index);
                Menu::from_rows_in_place(
                    screen,
                    &next.highlighted,
                    next.row.as_deref().unwrap_or_default(),
                    &entered,
                    &act,
                )
            }
            (Ending::Question(_), None) => Menu::printed(printed, &act),
            _ => Menu::None,
        }
    }

    /// Returns the lines entered from the last prompt up to an entry.
    fn lines_since_prompt(&self, entry_index: usize) -> Vec<Entered> {
        let prompt = self.moments[..=entry_index].iter().rposition(|moment| is_at_prompt(&moment.input)).unwrap_or(0);
        self.moments[prompt..=entry_index].iter().filter_map(|moment| entered_line(&moment.input)).collect()
    }

    /// Returns the output from an entry up to the next input.
    fn printed_from(&self, entry_index: usize) -> String {
        let mut printed = self.moments[entry_index].printed.clone();
        let rest = self.moments[entry_index + 1..].iter().take_while(|moment| !is_input(&moment.input));
        printed.extend(rest.map(|moment| moment.printed.as_str()));
        printed
    }

    /// Returns the question of the input after an entry, if that input was typed ahead.
    fn later_question_after(&self, entry_index: usize) -> Option<String> {
        let next = (entry_index + 1..self.moments.len()).find(|index| is_input(&self.moments[*index].input))?;
        later_question(self.moments, next)
    }

    /// Returns the last row of the screen, if the program printed nothing after the input of an entry.
    fn silent_row(&self, entry_index: usize, printed: &str) -> Option<LastRow> {
        let typed_text = |input: &InputRecord| match input_act(input) {
            Act::Typed { text, .. } => text.trim().to_owned(),
            Act::Command { .. } | Act::Hidden { .. } => String::new(),
        };
        let printed = printed.trim();
        if !printed.is_empty() && printed != typed_text(&self.moments[entry_index].input) {
            return None;
        }
        let row = (0..=entry_index).rev().find_map(|index| {
            let Moment { input, printed, .. } = &self.moments[index];
            let last = printed.lines().map(str::trim).rfind(|line| !line.is_empty());
            let row_before_cursor = || {
                let row = input.row.clone().filter(|row| !row.trim().is_empty());
                row.or_else(|| later_question(self.moments, index)).unwrap_or_default()
            };
            let text = if is_input(input) { typed_text(input) } else { String::new() };
            let (first, last_typed) = text.rsplit_once('\n').unwrap_or(("", &text));
            match last {
                // The echo of the input, after the text before the cursor.
                Some(last) if !text.is_empty() && last == last_typed.trim() => Some(match is_at_prompt(input) {
                    true => LastRow::AfterPrompt(last.to_owned()),
                    false if first.is_empty() => LastRow::Whole(format!("{}{last}", row_before_cursor())),
                    false => LastRow::Whole(last.to_owned()),
                }),
                Some(last) => Some(LastRow::Whole(last.to_owned())),
                // Hidden text, and keys without an echo.
                None => Some(row_before_cursor())
                    .filter(|row| is_input(input) && !row.trim().is_empty())
                    .map(LastRow::Whole),
            }
        });
        row.filter(|(LastRow::Whole(row) | LastRow::AfterPrompt(row))| row.len() <= MAX_QUESTION_BYTES)
    }

    /// Returns the state of the program between an entry and the next input.
    fn ending_after(&self, entry_index: usize, printed: &str) -> Ending {
        let next_moment = self.moments[entry_index + 1..].iter().find(|moment| is_input(&moment.input));
        let question_before_echo = next_moment.and_then(|moment| question_of_echo(&moment.input, &moment.printed));
        let Some(next) = next_moment.map(|moment| &moment.input) else {
            let reason = |moment: &Moment| (moment.input.kind == InputKind::Wait).then(|| moment.input.reason.clone());
            let last_wait = self.moments[entry_index + 1..].iter().rev().find_map(reason).flatten();
            let row = |moment: &Moment| (moment.input.kind == InputKind::Wait).then(|| moment.input.row.clone());
            let last_row = self.moments[entry_index + 1..].iter().rev().find_map(row).flatten();
            return match (self.open_command, last_wait.as_deref()) {
                (Some(Some(code)), _) => Ending::Prompt { exit_code: Some(code) },
                (_, Some("prompt")) => Ending::Prompt { exit_code: None },
                (_, Some("input")) => Ending::Question(last_row.unwrap_or_default()),
                _ => Ending::Open,
            };
        };
        match next.context.as_str() {
            "prompt" => Ending::Prompt { exit_code: self.open_command.flatten() },
            "full_screen" => Ending::Screen(next.screen.clone().unwrap_or_default()),
            context => {
                // If the program waited for the input, its question is before the cursor.
                if let Some(question) = question_before_echo.filter(|_| next.awaited != Some(true)) {
                    return Ending::Question(question.to_owned());
                }
                let row = next.row.clone().unwrap_or_default();
                // The screen row has only the end of a question that is longer than a row.
                let line = printed.rsplit('\n').next().unwrap_or_default();
                let question = question_before_cursor(line, row);
                let question = without_answered_question(self.moments, entry_index, &question).to_owned();
                // A program that does not wait does not read a key that interrupts.
                let is_read = !interrupts(next) || next.awaited == Some(true);
                let is_ahead = is_read && next.awaited == Some(false);
                let is_blank = question.trim().is_empty();
                // The question for typed-ahead input follows the input.
                let question_ahead = |question: &str| {
                    let is_open = is_ahead && !is_question(question);
                    if is_open { self.later_question_after(entry_index) } else { None }
                };
                if is_blank && let Some(row) = self.silent_row(entry_index, printed) {
                    return question_ahead("").map_or(Ending::Silent(row), Ending::Question);
                }
                let asking_row = if is_blank { asking_line(printed, is_read && !is_ahead) } else { None };
                let last_line = || if is_blank && is_read { asking_line(printed, true) } else { None };
                let question = asking_row.or_else(|| question_ahead(&question)).or_else(last_line).unwrap_or(question);
                if context == "password" { Ending::Password(question) } else { Ending::Question(question) }
            }
        }
    }
}

/// Returns the question before the cursor, from the end of the output and the row of the screen.
fn question_before_cursor(line: &str, row: String) -> String {
    let expanded = expand_tabs(line);
    let [end, row_end] = [expanded.trim_end(), row.trim_end()];
    if line.len() > MAX_QUESTION_BYTES || !end.ends_with(row.trim()) {
        return row;
    }
    // A tab at the end of the output moves the cursor, but is not in the log.
    let is_moved = row_end.ends_with(end) && row.len() - row_end.len() > expanded.len() - end.len();
    if is_moved { format!("{line}\t") } else { line.to_owned() }
}

/// Returns a line with each tab replaced by spaces up to the next multiple of eight columns.
fn expand_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let mut expanded = String::new();
    let mut column = 0;
    for character in line.chars() {
        let width = if character == '\t' { 8 - column % 8 } else { 1 };
        column += width;
        if character == '\t' {
            expanded.extend(std::iter::repeat_n(' ', width));
        } else {
            expanded.push(character);
        }
    }
    Cow::Owned(expanded)
}

/// Returns the rows of a menu that a program draws.
fn drawn_text(menu: &Menu) -> Option<String> {
    if let Menu::Drawn { rows, .. } = menu { Some(rows.join("\n")) } else { None }
}

/// Returns the heading above the question at the end of an output, and the rows between them. The first line is the
/// echo of the previous input.
fn rows_above(printed: &str, question: &str) -> Vec<String> {
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    match lines.split_last() {
        Some((last, [_, lines @ ..])) if last.trim() == question.trim() => {
            trimmed_lines(&lines[subject_index(lines, question)..])
        }
        _ => Vec::new(),
    }
}

/// Maximum number of rows between a question and its answer row, if that row has no word.
const MAX_ROWS_BELOW_QUESTION: usize = 5;

/// Returns the index of the row that names the subject of the question after these lines: the last row with a word. If
/// `question_row` is only a frame or a sign such as `> `, that word may be a placeholder, and the question is above it.
fn subject_index(lines: &[&str], question_row: &str) -> usize {
    let heading = heading_index(lines, lines.len());
    if question_row.contains(char::is_alphanumeric) || question_row.trim().is_empty() {
        return heading;
    }
    let mut filled = (0..lines.len()).rev().filter(|row| !lines[*row].trim().is_empty());
    if without_frame(question_row).is_empty() {
        let is_outside = |row: &usize| !lines[*row].trim_start().starts_with(is_frame);
        return filled.clone().find(is_outside).or_else(|| filled.next_back()).map_or(heading, |row| row.min(heading));
    }
    let open_question = filled.take(MAX_ROWS_BELOW_QUESTION).find(|row| is_open_question(lines, *row));
    open_question.map_or(heading, |row| row.min(heading))
}

/// Returns the permitted variation of a question in the next run. An answer with a digit, a path or an address is data,
/// and its question may have other numbers. Any other word may mean yes or no in some language, and the meaning of an
/// offered word or key depends on the whole question.
fn question_leeway(answer: &Act, question: &str) -> Leeway {
    let Act::Typed { text, .. } = answer else { return Leeway::Identifiers };
    let is_data = |line: &str| {
        let has_data_character = line.contains(|character: char| character.is_numeric() || "/@".contains(character));
        has_data_character && line.trim().chars().count() > 1 && !offers(question, line)
    };
    if is_binding(question) {
        return Leeway::Identifiers;
    }
    if !text.trim().is_empty() && text.trim().lines().all(is_data) { Leeway::Data } else { Leeway::Identifiers }
}

/// Stems of English words in questions whose answer removes something or is binding, even a code or a number.
const BINDING_STEMS: [&str; 34] = [
    "delet", "destr", "drop", "purg", "wip", "eras", "remov", "overwrit", "truncat", "format", "reformat", "confirm",
    "terminat", "kill", "pay", "send", "revok", "sell", "buy", "bought", "burn", "withdraw", "donat", "transfer",
    "zap", "grant", "credit", "debit", "charg", "inject", "shut", "lost", "lose", "discard",
];

fn is_binding(question: &str) -> bool {
    let question = question.to_lowercase();
    let mut words = question.split(|character: char| !character.is_alphanumeric());
    words.any(|word| starts_with_stem(&BINDING_STEMS, word))
}

/// Returns whether a question contains the answer as whole words, or the number of the answer.
fn offers(question: &str, answer: &str) -> bool {
    let [question, answer] = [question, answer.trim()].map(str::to_lowercase);
    let numbers = |text: &str| -> Vec<String> {
        let found = text.split(|character: char| !character.is_ascii_digit()).filter(|digits| !digits.is_empty());
        found.map(|digits| digits.trim_start_matches('0').to_owned()).collect()
    };
    if matches!(&numbers(&answer)[..], [number] if numbers(&question).contains(number)) {
        return true;
    }
    let is_in_word = |character: Option<char>, neighbour: Option<char>| {
        character.is_some_and(char::is_alphanumeric) && neighbour.is_some_and(char::is_alphanumeric)
    };
    question.match_indices(&answer).any(|(start, found)| {
        let (before, after) = (&question[..start], &question[start + found.len()..]);
        !is_in_word(before.chars().next_back(), found.chars().next())
            && !is_in_word(found.chars().next_back(), after.chars().next())
    })
}

impl Turn {
    /// Marks the answer to the question as data: it is the value of an argument.
    pub(crate) fn mark_answer_as_data(&mut self) {
        let (Ending::Question(question) | Ending::Screen(question)) = &self.ending else { return };
        let drawn_question = drawn_text(&self.menu);
        let question = drawn_question.as_ref().unwrap_or(question);
        if matches!(&self.menu, Menu::Printed(menu) if menu.is_numbered) {
            return;
        }
        if self.answer.chars().count() > 1 && !offers(question, &self.answer) {
            self.leeway = Leeway::Data;
        }
    }
}

/// First words of a line that requests an answer, if it is unknown whether the program reads input.
const ASKING_WORDS: [&str; 7] = ["choose", "enter", "input", "pick", "press", "select", "type"];

/// Returns the last line of an output, with its end, as the question of a program that reads the answer on a new line.
/// Unless the program reads input, the line must look like a question. The first line is the echo of the previous
/// input.
fn asking_line(printed: &str, is_reading: bool) -> Option<String> {
    let (_, reply) = printed.split_once('\n')?;
    let line = reply.trim_end().lines().next_back()?.trim_end();
    let first = line
        .trim_start()
        .split(|character: char| !character.is_alphabetic())
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let is_question = is_reading || line.ends_with([':', '?']) || ASKING_WORDS.contains(&first.as_str());
    (is_question && !line.is_empty() && line.len() <= MAX_QUESTION_BYTES).then(|| format!("{line}\n"))
}

/// Returns the question of a program that got an input while it still printed: the text before the echo of the input.
/// `None` if the output begins with the echo, because the program waited.
fn question_of_echo<'m>(input: &InputRecord, printed: &'m str) -> Option<&'m str> {
    let typed = input.text.as_deref().filter(|_| input.kind == InputKind::Typed && input.context == "program")?;
    let typed = typed.lines().next().map(str::trim).filter(|typed| !typed.is_empty())?;
    let (first, rest) = printed.split_once('\n')?;
    if first.trim().starts_with(typed) {
        return None;
    }
    let questions = rest.lines().filter_map(|line| line.trim_end().strip_suffix(typed));
    let is_question = |line: &&str| !line.trim().is_empty() && line.len() <= MAX_QUESTION_BYTES;
    questions.into_iter().next().filter(is_question)
}

/// Maximum length of a question, in bytes.
const MAX_QUESTION_BYTES: usize = 2000;

/// Returns whether the input is only text, with at most Enter at its end.
fn is_plain(input: &InputRecord) -> bool {
    let text = input.text.as_deref().unwrap_or_default();
    let is_plain = |text: &str| !text.chars().any(|character| character.is_control() && character != '\n');
    input.kind == InputKind::Typed
        && !input.cut
        && is_plain(text)
        && input.keys.iter().all(|key| matches!(key.as_str(), "enter" | "return"))
}

/// Keys that send a signal to a program; the program does not read these keys.
const SIGNAL_KEYS: [&str; 3] = ["ctrl-c", "ctrl-z", "ctrl-\\"];

/// Returns whether an input consists of keys that signal a program.
fn interrupts(input: &InputRecord) -> bool {
    let Act::Typed { text, keys } = input_act(input) else { return false };
    text.is_empty() && !keys.is_empty() && keys.iter().all(|key| SIGNAL_KEYS.contains(&key.as_str()))
}

/// Returns whether an input is one line with Enter at its end.
fn is_typed_line(input: &InputRecord) -> bool {
    let Act::Typed { text, keys } = input_act(input) else { return false };
    text.ends_with(['\n', '\r']) || keys.last().is_some_and(|key| key == "enter" || key == "return")
}

/// Returns the line that an input enters, if any.
fn entered_line(input: &InputRecord) -> Option<Entered> {
    let text = input.text.as_deref().unwrap_or_default();
    let line = text.trim_end().lines().next_back().unwrap_or_default();
    if is_at_prompt(input) {
        return Some(Entered { text: line.to_owned(), row: None });
    }
    // The answer follows its question, unless it is hidden.
    let row = input.row.as_deref().unwrap_or_default();
    let is_entered = text.ends_with('\n') || matches!(input_act(input), Act::Hidden { entered: true, .. });
    is_entered.then(|| Entered { text: format!("{row}{line}"), row: Some(row.trim_end().to_owned()) })
}

fn input_act(input: &InputRecord) -> Act {
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

/// Returns a word for a POSIX shell, with quotes if necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+~@%:,=".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Masks each line without an echo after the first of several lines typed together at a prompt: the program that the
/// first line started may have read such a line as a password.
fn mask_hidden_lines(text: &str, printed: &str) -> String {
    if !text.trim_end_matches('\n').contains('\n') {
        return text.to_owned();
    }
    let without_whitespace =
        |text: &str| text.chars().filter(|character| !character.is_whitespace()).collect::<String>();
    let printed = without_whitespace(printed);
    let line = |(index, line): (usize, &str)| {
        let is_shown = index == 0 || printed.contains(&without_whitespace(line));
        if is_shown { line.to_owned() } else { format!("{MASK}{}", if line.ends_with('\n') { "\n" } else { "" }) }
    };
    text.split_inclusive('\n').enumerate().map(line).collect()
}

/// Returns the text of an input, with a line end for Enter.
fn edited_text(input: &InputRecord) -> String {
    match input_act(input) {
        Act::Typed { mut text, keys } => {
            if keys.iter().any(|key| key == "enter" || key == "return") {
                text.push('\n');
            }
            text
        }
        Act::Command { .. } | Act::Hidden { .. } => String::new(),
    }
}

/// Returns the seconds between two times (ISO 8601, UTC) that are less than a day apart.
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
    fn question_of_a_printing_program_is_before_the_echo() {
        let input = InputRecord {
            kind: InputKind::Typed,
            context: "program".to_owned(),
            text: Some("print n\n".to_owned()),
            ..InputRecord::default()
        };
        let question = |printed| question_of_echo(&input, printed);
        assert_eq!(question("(p=0x0, n=41) at crash.c:2\n2\tint at()\n(gdb) print n\n$1 = 41\n(gdb) "), Some("(gdb) "));
        assert_eq!(question("print n\n$1 = 41\n(gdb) print n\n"), None, "the program waited for the input");
        assert_eq!(question("41\n$1 = 41\n"), None, "the output has no echo");
    }

    #[test]
    fn complete_line_can_be_a_question() {
        let line = |printed| asking_line(printed, false);
        assert_eq!(line("sh x\n1. a\nPick a number from 1 to 4\n").as_deref(), Some("Pick a number from 1 to 4\n"));
        assert_eq!(line("sh x\nName:\n\n").as_deref(), Some("Name:\n"));
        assert_eq!(line("Name:\n"), None, "the line is the echo of the input");
        assert_eq!(line("sh x\nItems:\n   Enter the name:\n").as_deref(), Some("   Enter the name:\n"));
        assert_eq!(line("sh x\ncompiling\n"), None, "the program was still printing");
        // The last output of a program that reads input is its question.
        assert_eq!(asking_line("sh x\ncompiling\n", true).as_deref(), Some("compiling\n"));
        assert_eq!(asking_line("sh x\n\n", true), None);
    }

    #[test]
    fn offered_words_and_binding_answers_are_not_data() {
        for (question, answer) in [
            ("Erase 2 of 9 disks? Type sda-1 to confirm: ", "sda-1"),
            ("Remove /srv/data and 3000 backups? Type the path: ", "/srv/data"),
            ("Wipe 30000 files? /yes or /no: ", "/yes"),
            ("Pay 5000 EUR to ana@example.org? Type the address again: ", "ana@example.org"),
            ("Drop 3 tables of shop_v2? Type its name: ", "shop_v2"),
            ("Erase 5 disks (type the number of disks): ", "05"),
            ("Y or N? (2 left) ", "Y2"),
            ("Confirm the deletion of 3 rows with the code: ", "7781-x"),
        ] {
            let answer = Act::Typed { text: format!("{answer}\n"), keys: Vec::new() };
            assert_eq!(question_leeway(&answer, question), Leeway::Identifiers, "{question}");
        }
        let answer = Act::Typed { text: "sda-1\n".to_owned(), keys: Vec::new() };
        assert_eq!(question_leeway(&answer, "Which of 9 disks, as sda-12? "), Leeway::Data);
    }

    #[test]
    fn hidden_lines_after_the_first_are_masked() {
        assert_eq!(mask_hidden_lines("login\nhunter2\n", "$ login\nPassword: \nWelcome\n"), "login\n••••••\n");
        assert_eq!(mask_hidden_lines("cat <<E\na b\nE\n", "$ cat <<E\n> a  b\n> E\n"), "cat <<E\na b\nE\n");
        assert_eq!(mask_hidden_lines("make\n", ""), "make\n");
    }
}
