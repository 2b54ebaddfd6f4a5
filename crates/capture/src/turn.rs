//! Turns: an input, with the output and the state of the program before the next one.
//!
//! A command that ended without further input is one turn. A program with questions has a turn for the line that
//! started it and one for each answer.

use std::borrow::Cow;

use steplatch_protocol::{InputKind, InputRecord};

use crate::OmittedInput;
use crate::act::{Act, is_at_prompt, is_input, is_typed};
use crate::ahead::{
    is_question, keys_of, later_question, move_lines_to_prompt, split_inputs, without_answered_question,
};
use crate::drawing::{Entered, asks, heading_index};
use crate::effects::starts_with_stem;
use crate::menu::{Menu, trimmed_lines};
use crate::question::{LastRow, Leeway, is_frame, without_frame};
use crate::session_log::{MASK, Moment, SessionLog};

/// An input, with its output and the state of the program after it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    /// Index of its log.
    pub(crate) log: usize,
    /// Time of the input (ISO 8601, UTC), for the order between terminals.
    pub(crate) timestamp: String,
    /// The number of its entry.
    pub(crate) number: u64,
    pub(crate) act: Act,
    /// Waits of the client that ended with a match, in order.
    pub(crate) waits: Vec<SeenWait>,
    pub(crate) ending: Ending,
    /// Output up to the next input.
    pub(crate) printed: String,
    /// Seconds to the end of the command, or of the last wait.
    pub(crate) elapsed: Option<f64>,
    /// The rows of the screen before the input, of a full-screen program.
    pub(crate) screen: Option<String>,
    /// True for an input at the prompt of a shell.
    pub(crate) at_prompt: bool,
    /// The entries that the program must show because the next input chooses one of them.
    pub(crate) menu: Menu,
    /// The heading above the question, and the rows between them.
    pub(crate) above: Vec<String>,
    /// Permitted variation of the question in the next run, by its answer.
    pub(crate) leeway: Leeway,
    /// The text of its answer.
    pub(crate) answer: String,
    /// Mode in which the program reads the next input.
    pub(crate) reads: NextRead,
    /// Number of keys pressed at once, for a program that reads keys.
    pub(crate) key_count: usize,
}

/// Mode in which the program read the next input, at the time of that input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NextRead {
    /// There is no next input.
    #[default]
    None,
    /// It reads a line with an echo.
    Line,
    /// It reads input with an echo.
    Shown,
    /// It reads a line without an echo.
    Hidden,
    /// Unknown: with or without an echo.
    Any,
}

impl NextRead {
    fn from_input(input: &InputRecord, is_imported: bool) -> Self {
        match input.context.as_str() {
            _ if interrupts(input) && input.awaited != Some(true) => Self::None,
            // A recording by another program does not have the mode.
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
    /// The program read input without output after this row.
    Silent(LastRow),
    /// A full-screen program showed these rows.
    Screen(String),
    /// The log ends here.
    Open,
}

/// Returns the turns of a log, and the inputs that are no turns.
pub(crate) fn read_turns(index: usize, log: &SessionLog) -> (Vec<Turn>, Vec<OmittedInput>) {
    let moments = split_inputs(&log.moments);
    let moments = move_lines_to_prompt(&moments);
    let mut reader = Reader {
        index,
        moments: &moments,
        is_imported: log.is_imported,
        has_resized: false,
        turns: Vec::new(),
        omitted_inputs: Vec::new(),
        open_command: None,
    };
    let mut at = 0;
    while at < moments.len() {
        at = reader.read_entry(at);
    }
    let mut turns = reader.turns;
    for turn in &mut turns {
        turn.printed.truncate(floor_boundary(&turn.printed, MAX_PRINTED_BYTES));
    }
    (turns, reader.omitted_inputs)
}

/// Maximum bytes of the output of a turn.
const MAX_PRINTED_BYTES: usize = 64 << 10;

fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Reader of the entries of a log.
struct Reader<'r> {
    index: usize,
    moments: &'r [Moment],
    is_imported: bool,
    /// True if the omitted inputs have a change of size.
    has_resized: bool,
    turns: Vec<Turn>,
    omitted_inputs: Vec<OmittedInput>,
    /// Exit code of the running command that got input, once the command has ended; `None` without such a command.
    open_command: Option<Option<i32>>,
}

impl Reader<'_> {
    /// Reads the entry at `at`, and returns the index of the next one.
    fn read_entry(&mut self, at: usize) -> usize {
        let moments = self.moments;
        let input = &moments[at].input;
        match input.kind {
            InputKind::Wait => {
                self.add_wait(at);
                at + 1
            }
            InputKind::Resize => {
                self.omit_resize();
                at + 1
            }
            InputKind::Signal if input.signal == Some(2) => {
                self.push_turn(at, Act::Typed { text: String::new(), keys: vec!["ctrl-c".to_owned()] });
                at + 1
            }
            InputKind::Signal => {
                let signal = input.signal.unwrap_or_default();
                self.omit_input(format!("signal {signal}"), "no action sends this signal");
                at + 1
            }
            InputKind::Command => {
                self.add_command(at);
                at + 1
            }
            InputKind::Entered => {
                self.omit_untyped_line(at);
                at + 1
            }
            InputKind::Typed | InputKind::Attached | InputKind::Hidden if is_at_prompt(input) => self.read_line(at),
            InputKind::Typed | InputKind::Attached | InputKind::Hidden => {
                let act = act_of(input);
                self.push_turn(at, act);
                at + 1
            }
        }
    }

    /// Omits a line that a shell read and no client typed: a program put it into its own terminal. A line before all
    /// inputs belongs to an input that is no longer in the log.
    fn omit_untyped_line(&mut self, at: usize) {
        let Some(line) = self.moments[at].input.text.as_deref().filter(|line| !line.trim().is_empty()) else { return };
        let before = &self.moments[..at];
        let has_earlier_input = before.iter().any(|moment| is_input(&moment.input));
        let is_typed = |moment: &Moment| match moment.input.kind {
            InputKind::Hidden => true,
            _ => moment.input.text.as_deref().is_some_and(|text| is_input(&moment.input) && text.contains(line.trim())),
        };
        if has_earlier_input && !before.iter().any(is_typed) {
            self.omit_input(line.to_owned(), "a program typed it, and will type it again in each run");
        }
    }

    /// Omits the changes of size, as one entry: each time a person attaches the terminal, its size changes.
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
    fn next_input(&self, at: usize) -> Option<&Moment> {
        self.moments[at + 1..].iter().find(|moment| is_input(&moment.input))
    }

    /// Returns whether the command of an entry got input before its end.
    fn is_conversation(&self, at: usize) -> bool {
        let Some(next) = self.next_input(at) else { return self.moments[at].input.reason.as_deref() != Some("ended") };
        let command_end =
            self.moments[at].input.output_end.filter(|_| self.moments[at].input.reason.as_deref() == Some("ended"));
        // The output does not include a full screen, or a menu that Enter alone closes. A line that was typed ahead is
        // not an answer.
        let answers = next.input.context == "full_screen" || next.input.awaited == Some(true);
        let is_before = |end| next.input.offset < end || answers && next.input.offset == end;
        !is_at_prompt(&next.input) && command_end.is_none_or(is_before)
    }

    fn add_command(&mut self, at: usize) {
        let moment = &self.moments[at];
        let InputRecord { text, working_directory, exit_code, error, .. } = &moment.input;
        let command = text.clone().unwrap_or_default();
        if let Some(error) = error {
            return self.omit_input(command, &format!("it was not run: {error}"));
        }
        if self.is_conversation(at) {
            self.open_command = Some(*exit_code);
            let directory = working_directory.as_ref().map(|directory| format!("cd {} && ", quoted(directory)));
            let text = format!("{}{command}\n", directory.unwrap_or_default());
            return self.push_turn(at, Act::Typed { text, keys: Vec::new() });
        }
        let output = moment.output.clone().unwrap_or_else(|| moment.printed.clone());
        let directory = working_directory.clone();
        self.push_turn(at, Act::Command { command, directory, exit_code: *exit_code, output });
    }

    /// Reads the text typed at a prompt, up to the lines that the shell read.
    fn read_line(&mut self, at: usize) -> usize {
        let (mut typed, mut entered_lines) = (Vec::new(), Vec::new());
        let mut next = at;
        while let Some(moment) = self.moments.get(next) {
            let input = &moment.input;
            match input.kind {
                InputKind::Entered => entered_lines.push(next),
                InputKind::Wait => {}
                // A change of size does not end the line.
                InputKind::Resize => self.omit_resize(),
                _ if is_typed(input) && is_at_prompt(input) && entered_lines.is_empty() => typed.push(next),
                _ => break,
            }
            next += 1;
        }
        let is_hidden = typed.iter().any(|at| self.moments[*at].input.kind == InputKind::Hidden);
        let text: String = typed.iter().map(|at| edited_text(&self.moments[*at].input)).collect();
        if entered_lines.is_empty() {
            let what = if is_hidden { "text without an echo".to_owned() } else { text.trim().to_owned() };
            let is_enter = what.is_empty();
            if !is_enter {
                self.omit_input(what, "the line was not entered");
            }
            return next;
        }
        let is_plain = typed.iter().all(|at| is_plain(&self.moments[*at].input)) && entered_lines.len() == 1;
        let text = if is_plain { mask_hidden_lines(&text, &self.printed_from(at)) } else { text };
        for (index, &entered) in entered_lines.iter().enumerate() {
            let is_last = index + 1 == entered_lines.len();
            let input = &self.moments[entered].input;
            let line = if is_plain { Some(text.trim_end_matches('\n').to_owned()) } else { input.text.clone() };
            let is_conversation = is_last && self.is_conversation(entered);
            if is_conversation {
                self.open_command = Some(input.exit_code);
            }
            let begin = if index == 0 { at } else { entered };
            match line.filter(|_| !is_hidden) {
                None => self.push_turn(begin, Act::Hidden { entered: true, row: "command".to_owned() }),
                Some(line) if is_conversation => {
                    self.push_turn(begin, Act::Typed { text: format!("{line}\n"), keys: Vec::new() });
                }
                Some(command) => {
                    let output = self.moments[entered].output.clone().unwrap_or_default();
                    let act = Act::Command { command, directory: None, exit_code: input.exit_code, output };
                    self.push_turn(begin, act);
                }
            }
            if let Some(turn) = self.turns.last_mut() {
                turn.elapsed = input.elapsed_time.or(turn.elapsed);
            }
        }
        for wait in at..next {
            if self.moments[wait].input.kind == InputKind::Wait {
                self.add_wait(wait);
            }
        }
        next
    }

    /// Adds the wait of an entry to the turn before it.
    fn add_wait(&mut self, at: usize) {
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

    fn push_turn(&mut self, at: usize, act: Act) {
        let input = &self.moments[at].input;
        let mut printed = self.printed_from(at);
        let ending = match act {
            Act::Command { exit_code, .. } => Ending::Prompt { exit_code },
            Act::Typed { .. } | Act::Hidden { .. } => self.ending_after(at, &printed),
        };
        let next = self.next_input(at).map(|next| &next.input);
        // A replay of the recording compares the whole row, which ends with the input.
        if let Ending::Silent(LastRow::Whole(row) | LastRow::BehindPrompt(row)) = &ending {
            printed = format!("{row}\n");
        }
        // Without the input that was typed ahead, the question is at this position.
        if let (Ending::Question(question), Some(false)) = (&ending, next.and_then(|next| next.awaited))
            && !printed.trim_end().ends_with(question.trim_end())
        {
            printed.push_str(question);
        }
        let menu = next.map(|next| self.menu_of_next_input(at, &ending, &printed, next)).unwrap_or_default();
        let leeway = match (&ending, next) {
            // A number that chooses an entry is not data.
            _ if matches!(menu, Menu::Printed(_)) => Leeway::Identifiers,
            (Ending::Question(line), Some(next)) => {
                leeway_of(&act_of(next), &drawn_text(&menu).unwrap_or(line.clone()))
            }
            (Ending::Screen(rows), Some(next)) => leeway_of(&act_of(next), rows),
            (Ending::Password(_), Some(_)) => Leeway::Identifiers,
            _ => Leeway::Data,
        };
        let reads = next.map(|next| NextRead::from_input(next, self.is_imported)).unwrap_or_default();
        let above = match &ending {
            Ending::Question(question) | Ending::Password(question) => rows_above(&printed, question),
            Ending::Prompt { .. } | Ending::Silent(_) | Ending::Screen(_) | Ending::Open => Vec::new(),
        };
        self.turns.push(Turn {
            menu,
            above,
            leeway,
            answer: next.and_then(|next| next.text.clone()).unwrap_or_default().trim().to_owned(),
            reads,
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
            key_count: if self.is_imported { 0 } else { keys_of(input).map_or(0, |keys| keys.len()) },
        });
    }

    /// Returns the menu of which the next input chooses an entry.
    fn menu_of_next_input(&self, at: usize, ending: &Ending, printed: &str, next: &InputRecord) -> Menu {
        let act = act_of(next);
        match (ending, &next.screen) {
            (Ending::Screen(rows), _) => Menu::from_screen(rows, &next.highlighted, &act),
            (Ending::Question(_) | Ending::Password(_), Some(screen)) => {
                let entered = self.lines_since_prompt(at);
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

    /// Returns the lines that were entered up to an entry, from the last one at a prompt on.
    fn lines_since_prompt(&self, at: usize) -> Vec<Entered> {
        let prompt = self.moments[..=at].iter().rposition(|moment| is_at_prompt(&moment.input)).unwrap_or(0);
        self.moments[prompt..=at].iter().filter_map(|moment| entered_line(&moment.input)).collect()
    }

    /// Returns the output from an entry up to the next input.
    fn printed_from(&self, at: usize) -> String {
        let mut printed = self.moments[at].printed.clone();
        let rest = self.moments[at + 1..].iter().take_while(|moment| !is_input(&moment.input));
        printed.extend(rest.map(|moment| moment.printed.as_str()));
        printed
    }

    /// Returns the question of the input after an entry, if that input was typed ahead.
    fn later_question_after(&self, at: usize) -> Option<String> {
        let next = (at + 1..self.moments.len()).find(|index| is_input(&self.moments[*index].input))?;
        later_question(self.moments, next)
    }

    /// Returns the last row of the screen, if the program had no output since the input of an entry.
    fn silent_row(&self, at: usize, printed: &str) -> Option<LastRow> {
        let typed = |input: &InputRecord| match act_of(input) {
            Act::Typed { text, .. } => text.trim().to_owned(),
            Act::Command { .. } | Act::Hidden { .. } => String::new(),
        };
        let printed = printed.trim();
        if !printed.is_empty() && printed != typed(&self.moments[at].input) {
            return None;
        }
        let row = (0..=at).rev().find_map(|index| {
            let Moment { input, printed, .. } = &self.moments[index];
            let last = printed.lines().map(str::trim).rfind(|line| !line.is_empty());
            let before = || {
                let row = input.row.clone().filter(|row| !row.trim().is_empty());
                row.or_else(|| later_question(self.moments, index)).unwrap_or_default()
            };
            let text = if is_input(input) { typed(input) } else { String::new() };
            let (first, last_typed) = text.rsplit_once('\n').unwrap_or(("", &text));
            match last {
                // The echo of the input, after the text before the cursor.
                Some(last) if !text.is_empty() && last == last_typed.trim() => Some(match is_at_prompt(input) {
                    true => LastRow::BehindPrompt(last.to_owned()),
                    false if first.is_empty() => LastRow::Whole(format!("{}{last}", before())),
                    false => LastRow::Whole(last.to_owned()),
                }),
                Some(last) => Some(LastRow::Whole(last.to_owned())),
                // Hidden text, and keys without an echo.
                None => Some(before()).filter(|row| is_input(input) && !row.trim().is_empty()).map(LastRow::Whole),
            }
        });
        row.filter(|(LastRow::Whole(row) | LastRow::BehindPrompt(row))| row.len() <= MAX_QUESTION_BYTES)
    }

    /// Returns the state of the program between an entry and the next input.
    fn ending_after(&self, at: usize, printed: &str) -> Ending {
        // The line that the shell read follows the typed text.
        let next_moment = self.moments[at + 1..].iter().find(|moment| is_input(&moment.input));
        let echoed = next_moment.and_then(|moment| question_of_echo(&moment.input, &moment.printed));
        let Some(next) = next_moment.map(|moment| &moment.input) else {
            let reason = |moment: &Moment| (moment.input.kind == InputKind::Wait).then(|| moment.input.reason.clone());
            let last_wait = self.moments[at + 1..].iter().rev().find_map(reason).flatten();
            let row = |moment: &Moment| (moment.input.kind == InputKind::Wait).then(|| moment.input.row.clone());
            let last_row = self.moments[at + 1..].iter().rev().find_map(row).flatten();
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
                // A program that waited had printed its question before the cursor.
                if let Some(question) = echoed.filter(|_| next.awaited != Some(true)) {
                    return Ending::Question(question.to_owned());
                }
                let row = next.row.clone().unwrap_or_default();
                // Of a question that is longer than a row, the screen has only the last row.
                let line = printed.rsplit('\n').next().unwrap_or_default();
                let question = question_before_cursor(line, row);
                let question = without_answered_question(self.moments, at, &question).to_owned();
                // No program reads a key that interrupts.
                let is_read = !interrupts(next) || next.awaited == Some(true);
                let is_ahead = is_read && next.awaited == Some(false);
                let is_blank = question.trim().is_empty();
                // The question of an input that was typed ahead follows it.
                let later = |question: &str| {
                    let is_open = is_ahead && !is_question(question);
                    if is_open { self.later_question_after(at) } else { None }
                };
                if is_blank && let Some(row) = self.silent_row(at, printed) {
                    return later("").map_or(Ending::Silent(row), Ending::Question);
                }
                let asked = if is_blank { asking_line(printed, is_read && !is_ahead) } else { None };
                let last_line = || if is_blank && is_read { asking_line(printed, true) } else { None };
                let question = asked.or_else(|| later(&question)).or_else(last_line).unwrap_or(question);
                if context == "password" { Ending::Password(question) } else { Ending::Question(question) }
            }
        }
    }
}

/// Returns the question before the cursor, from the end of the output and the row of the screen.
fn question_before_cursor(line: &str, row: String) -> String {
    let shown = expand_tabs(line);
    let [end, row_end] = [shown.trim_end(), row.trim_end()];
    if line.len() > MAX_QUESTION_BYTES || !end.ends_with(row.trim()) {
        return row;
    }
    // A tab at the end of the output moves the cursor, but is not in the log.
    let is_moved = row_end.ends_with(end) && row.len() - row_end.len() > shown.len() - end.len();
    if is_moved { format!("{line}\t") } else { line.to_owned() }
}

/// Returns a line with blanks in place of tabs, up to the next multiple of eight columns.
fn expand_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let mut shown = String::new();
    let mut column = 0;
    for character in line.chars() {
        let width = if character == '\t' { 8 - column % 8 } else { 1 };
        column += width;
        if character == '\t' {
            shown.extend(std::iter::repeat_n(' ', width));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Returns the rows of a menu that a program draws.
fn drawn_text(menu: &Menu) -> Option<String> {
    if let Menu::Drawn { rows, .. } = menu { Some(rows.join("\n")) } else { None }
}

/// Returns the heading above the question at the end of an output, and the rows between them. The first line is the
/// previous input of the program.
fn rows_above(printed: &str, question: &str) -> Vec<String> {
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    match lines.split_last() {
        Some((last, [_, lines @ ..])) if last.trim() == question.trim() => {
            trimmed_lines(&lines[subject_index(lines, question)..])
        }
        _ => Vec::new(),
    }
}

/// Maximum number of rows between a question and the row without a word in which it is answered.
const MAX_ROWS_BELOW_QUESTION: usize = 5;

/// Returns the index of the row that names the subject of the question below these lines: the last row with a word. If
/// the last row of a prompt is a part of its frame, or a sign such as `> `, that word may be a placeholder, and the
/// question is above it.
fn subject_index(lines: &[&str], last: &str) -> usize {
    let heading = heading_index(lines, lines.len());
    if last.contains(char::is_alphanumeric) || last.trim().is_empty() {
        return heading;
    }
    let mut filled = (0..lines.len()).rev().filter(|row| !lines[*row].trim().is_empty());
    if without_frame(last).is_empty() {
        let is_outside = |row: &usize| !lines[*row].trim_start().starts_with(is_frame);
        return filled.clone().find(is_outside).or_else(|| filled.next_back()).map_or(heading, |row| row.min(heading));
    }
    let asked = filled.take(MAX_ROWS_BELOW_QUESTION).find(|row| asks(lines, *row));
    asked.map_or(heading, |row| row.min(heading))
}

/// Returns the permitted variation of a question in the next run. Only an answer with a digit, a path or an address is
/// data, so that its question may have other numbers. Any other word may mean yes or no in some language, and the
/// meaning of a word or key that the question offers depends on the whole question.
fn leeway_of(answer: &Act, question: &str) -> Leeway {
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

/// Stems of English words in questions whose answer removes something or is binding, even if it is a code or a number.
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
        let drawn = drawn_text(&self.menu);
        let question = drawn.as_ref().unwrap_or(question);
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
/// Unless the program `reads`, only a line that asks is one. The first line is the previous input of the program.
fn asking_line(printed: &str, reads: bool) -> Option<String> {
    let (_, reply) = printed.split_once('\n')?;
    let line = reply.trim_end().lines().next_back()?.trim_end();
    let first = line
        .trim_start()
        .split(|character: char| !character.is_alphabetic())
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let asks = reads || line.ends_with([':', '?']) || ASKING_WORDS.contains(&first.as_str());
    (asks && !line.is_empty() && line.len() <= MAX_QUESTION_BYTES).then(|| format!("{line}\n"))
}

/// Returns the question of a program that got an input while it still printed: the beginning of the line with the echo
/// of the input. `None` if the echo is first, because the program had waited.
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

/// Keys that signal a program, which does not read them.
const SIGNAL_KEYS: [&str; 3] = ["ctrl-c", "ctrl-z", "ctrl-\\"];

/// Returns whether an input consists of keys that signal a program.
fn interrupts(input: &InputRecord) -> bool {
    let Act::Typed { text, keys } = act_of(input) else { return false };
    text.is_empty() && !keys.is_empty() && keys.iter().all(|key| SIGNAL_KEYS.contains(&key.as_str()))
}

/// Returns whether an input is one line with Enter at its end.
fn is_typed_line(input: &InputRecord) -> bool {
    let Act::Typed { text, keys } = act_of(input) else { return false };
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
    let is_entered = text.ends_with('\n') || matches!(act_of(input), Act::Hidden { entered: true, .. });
    is_entered.then(|| Entered { text: format!("{row}{line}"), row: Some(row.trim_end().to_owned()) })
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

/// Returns a word for a POSIX shell, with quotes if necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+~@%:,=".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns lines typed at once at a prompt, with a mask for each line without an echo after the first one: the program
/// that the first one started may have read it as a password.
fn mask_hidden_lines(text: &str, printed: &str) -> String {
    if !text.trim_end_matches('\n').contains('\n') {
        return text.to_owned();
    }
    let without_blanks = |text: &str| text.chars().filter(|character| !character.is_whitespace()).collect::<String>();
    let printed = without_blanks(printed);
    let line = |(index, line): (usize, &str)| {
        let is_shown = index == 0 || printed.contains(&without_blanks(line));
        if is_shown { line.to_owned() } else { format!("{MASK}{}", if line.ends_with('\n') { "\n" } else { "" }) }
    };
    text.split_inclusive('\n').enumerate().map(line).collect()
}

/// Returns the text of an input after the corrections of a line editor.
fn edited_text(input: &InputRecord) -> String {
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
        let line = |printed| asking_line(printed, false);
        assert_eq!(line("sh x\n1. a\nPick a number from 1 to 4\n").as_deref(), Some("Pick a number from 1 to 4\n"));
        assert_eq!(line("sh x\nName:\n\n").as_deref(), Some("Name:\n"));
        assert_eq!(line("Name:\n"), None, "it is what was typed");
        assert_eq!(line("sh x\nItems:\n   Enter the name:\n").as_deref(), Some("   Enter the name:\n"));
        assert_eq!(line("sh x\ncompiling\n"), None, "it still printed");
        // Of a program that reads, the last output is the question.
        assert_eq!(asking_line("sh x\ncompiling\n", true).as_deref(), Some("compiling\n"));
        assert_eq!(asking_line("sh x\n\n", true), None);
    }

    #[test]
    fn a_word_of_the_question_and_a_binding_answer_are_no_data() {
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
            assert_eq!(leeway_of(&answer, question), Leeway::Identifiers, "{question}");
        }
        let answer = Act::Typed { text: "sda-1\n".to_owned(), keys: Vec::new() };
        assert_eq!(leeway_of(&answer, "Which of 9 disks, as sda-12? "), Leeway::Data);
    }

    #[test]
    fn lines_behind_the_first_one_that_were_not_shown_are_masked() {
        assert_eq!(mask_hidden_lines("login\nhunter2\n", "$ login\nPassword: \nWelcome\n"), "login\n••••••\n");
        assert_eq!(mask_hidden_lines("cat <<E\na b\nE\n", "$ cat <<E\n> a  b\n> E\n"), "cat <<E\na b\nE\n");
        assert_eq!(mask_hidden_lines("make\n", ""), "make\n");
    }
}
