//! Import: logs of inputs made of recordings by other programs, as captures of lower trust.
//!
//! A recording is read as a [`Timeline`], by `script` or `expect` here, or by the reader of asciicast files. [`imported`]
//! makes the log of it. What a terminal of steplatch knows is concluded from texts: where the shell was at its prompt, which lines were entered,
//! and which input was not echoed and is a secret. Exit codes are unknown. Pure; foreign input never panics.

mod expect;
mod lines;
mod script;

use serde::{Deserialize, Serialize};
use steplatch_protocol::{InputKind, InputRecord};

pub use expect::expect_script;
pub use script::{ScriptFiles, ScriptLogs, script_files, script_recording};

use crate::LeftOut;
use crate::session_log::{Moment, SessionLog};
use lines::Lines;

/// The most entries of a log.
const MOST_ENTRIES: usize = 4096;

/// The most bytes of text that one entry keeps: half from its beginning and half from its end.
const MOST_PRINTED: usize = 32 << 10;

/// What stands in texts in place of a secret.
const MASK: &str = "••••••";

/// Something that happened in a recorded terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimelineEvent {
    /// A program printed this.
    Output(String),
    /// This was typed, as a terminal sends it.
    Input(String),
    /// The screen has another size.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// The program ended.
    Exit(i32),
}

/// What a recording of another program has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The command line that was recorded; empty for the shell.
    pub command: String,
    /// The events, each with the seconds since the beginning.
    pub events: Vec<(f64, TimelineEvent)>,
    /// Parts of the recording that were not understood.
    pub left_out: Vec<LeftOut>,
    /// What a person has to decide.
    pub undecided: Vec<String>,
}

/// A log that was made of a recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The log.
    pub log: SessionLog,
    /// Parts of the recording that are not in it.
    pub left_out: Vec<LeftOut>,
    /// What a person has to decide.
    pub undecided: Vec<String>,
}

/// Returns the log of a recording. `name` is what replies call it. Typed text that was not echoed is not in it.
#[must_use]
pub fn imported(name: &str, timeline: Timeline) -> Imported {
    let mut reader = Reader::default();
    let mut exit = None;
    let is_shell = is_shell(&timeline.command);
    let (left_out, mut undecided) = (timeline.left_out, timeline.undecided);
    if !is_shell {
        reader.starts(&timeline.command);
    }
    for (seconds, event) in timeline.events {
        reader.now = seconds;
        match event {
            TimelineEvent::Output(text) => reader.prints(&text),
            TimelineEvent::Input(text) => reader.reads(&text),
            TimelineEvent::Resize { cols, rows } => reader.resizes(cols, rows),
            TimelineEvent::Exit(code) => exit = Some(code),
        }
    }
    reader.flush();
    if reader.is_full {
        let sentence = format!("'{name}' has more than {MOST_ENTRIES} inputs: the rest was not read");
        undecided.push(sentence);
    }
    if reader.was_full_screen {
        undecided.push(
            "what a full-screen program showed is not in an imported log: check what its states wait for".to_owned(),
        );
    }
    let shell = if is_shell { timeline.command } else { String::new() };
    let moments = reader.moments(is_shell, exit);
    let log = SessionLog { terminal: name.to_owned(), shell, directory: String::new(), moments, is_imported: true };
    Imported { log, left_out, undecided }
}

/// Whether a command line begins a shell that a terminal can be opened with.
fn is_shell(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or("bash").rsplit('/').next().unwrap_or_default();
    let runs = words.any(|word| !word.starts_with("--") && word.starts_with('-') && word.contains('c'));
    matches!(program, "bash" | "sh" | "zsh" | "dash" | "fish" | "ksh") && !runs
}

/// An input before it is known what came of it.
#[derive(Debug)]
struct RawInput {
    text: String,
    row: String,
    /// Bytes of the printed text before it.
    begin: usize,
    seconds: f64,
    /// When the program last printed before the next input.
    answered: f64,
    in_full_screen: bool,
    size: Option<(u16, u16)>,
}

#[derive(Debug, Default)]
struct Reader {
    lines: Lines,
    now: f64,
    pending: Option<RawInput>,
    /// Lines that were printed when the last key was pressed.
    lines_then: usize,
    inputs: Vec<RawInput>,
    is_full: bool,
    was_full_screen: bool,
}

impl Reader {
    /// Begins with a command that no shell of the recording shows.
    fn starts(&mut self, command: &str) {
        self.lines.put("$ ");
        self.reads(&format!("{command}\r"));
        self.lines.put(&format!("{command}\r\n"));
    }

    fn prints(&mut self, text: &str) {
        self.lines.put(text);
        self.was_full_screen |= self.lines.is_full_screen();
        let now = self.now;
        if let Some(last) = self.inputs.last_mut() {
            last.answered = now;
        }
    }

    fn reads(&mut self, text: &str) {
        // The program went on without Enter.
        if self.pending.is_some() && self.lines.count() > self.lines_then {
            self.flush();
        }
        for sign in text.chars() {
            if self.pending.is_none() {
                self.pending = Some(self.input(String::new(), None));
            }
            let Some(pending) = &mut self.pending else { continue };
            pending.text.push(sign);
            if matches!(sign, '\r' | '\n' | '\x03' | '\x04' | '\x1a') || pending.text.len() >= MOST_PRINTED {
                self.flush();
            }
        }
        self.lines_then = self.lines.count();
    }

    fn resizes(&mut self, cols: u16, rows: u16) {
        self.flush();
        let input = self.input(String::new(), Some((cols, rows)));
        self.add(input);
    }

    fn input(&self, text: String, size: Option<(u16, u16)>) -> RawInput {
        RawInput {
            text,
            row: self.lines.row().to_owned(),
            begin: self.lines.len(),
            seconds: self.now,
            answered: self.now,
            in_full_screen: self.lines.is_full_screen(),
            size,
        }
    }

    fn flush(&mut self) {
        if let Some(input) = self.pending.take() {
            self.add(input);
        }
    }

    fn add(&mut self, input: RawInput) {
        self.is_full |= self.inputs.len() >= MOST_ENTRIES;
        if !self.is_full {
            self.inputs.push(input);
        }
    }

    /// Returns the entries of the log.
    fn moments(self, is_shell: bool, exit: Option<i32>) -> Vec<Moment> {
        let text = self.lines.into_text();
        let mut inputs = self.inputs;
        let prompt = inputs.iter().find(|input| input.size.is_none()).map(|input| input.row.clone());
        let prompt = prompt.unwrap_or_default();
        let is_prompt = |index: usize, row: &str| if is_shell { is_same_prompt(&prompt, row) } else { index == 0 };
        let at_prompt: Vec<bool> = inputs
            .iter()
            .enumerate()
            .map(|(index, input)| !input.in_full_screen && is_prompt(index, &input.row))
            .collect();
        // The shell was left at the end: a machine closes its terminal by itself.
        if is_shell && at_prompt.last() == Some(&true) {
            let last = inputs.last().map(|input| input.text.trim().to_owned()).unwrap_or_default();
            if matches!(last.as_str(), "exit" | "logout" | "\x04") {
                inputs.last_mut().into_iter().for_each(|input| input.text.clear());
            }
        }
        let begins: Vec<usize> = inputs.iter().map(|input| floor(&text, input.begin)).collect();
        let end_of = |index: usize| begins.get(index + 1).copied().unwrap_or(text.len());
        let mut secrets = Vec::new();
        let mut moments: Vec<Moment> = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            let printed = text.get(begins[index]..end_of(index)).unwrap_or_default();
            let mut record = InputRecord {
                timestamp: timestamp(input.seconds),
                offset: begins[index] as u64,
                row: Some(input.row.clone()),
                elapsed_time: Some((input.answered - input.seconds).max(0.0)),
                ..InputRecord::default()
            };
            if let Some((cols, rows)) = input.size {
                (record.kind, record.cols, record.rows) = (InputKind::Resize, Some(cols), Some(rows));
                moments.push(Moment { input: record, printed: shortened(printed), output: None });
                continue;
            }
            if input.text.is_empty() {
                continue;
            }
            let (typed, keys) = crate::template::typed_keys(&input.text);
            let line = typed.trim_end_matches('\n');
            let is_echoed = line.is_empty() || printed.lines().next().is_some_and(|first| first.contains(line));
            let echo = printed.lines().next().unwrap_or_default();
            let is_edited = input.text.contains(|sign: char| sign.is_control() && sign != '\r' && sign != '\n');
            // The editor of a shell shows another line than the keys that were pressed.
            let is_completed = is_edited && at_prompt[index] && !echo.trim().is_empty();
            let is_unseen = !input.in_full_screen && !is_completed;
            let is_hidden = !is_echoed && (is_unseen || asks_for_secret(&input.row));
            let context = match (at_prompt[index], input.in_full_screen, is_hidden) {
                (true, ..) => "prompt",
                (_, true, _) => "full_screen",
                (_, _, true) => "password",
                _ => "program",
            };
            context.clone_into(&mut record.context);
            if is_hidden {
                if line.len() >= 4 {
                    secrets.push(line.to_owned());
                }
                record.kind = InputKind::Hidden;
                record.keys = vec!["enter".to_owned(); usize::from(typed.ends_with('\n') || !keys.is_empty())];
            } else {
                record.text = Some(typed.clone());
                record.keys = keys;
            }
            let entered = (at_prompt[index] && (typed.contains('\n') || record.keys.iter().any(|key| key == "enter")))
                .then(|| {
                    let next = (index + 1..inputs.len()).find(|next| at_prompt[*next]);
                    let ends = next.map(|next| begins[next]).or_else(|| exit.map(|_| text.len()));
                    let output = text.get(begins[index]..ends.unwrap_or(text.len())).unwrap_or_default();
                    let output = output.split_once('\n').map_or("", |(_, rest)| rest);
                    // The prompt behind the output is none of it.
                    let output =
                        if next.is_some() { output.rsplit_once('\n').map_or("", |(rest, _)| rest) } else { output };
                    let answered = inputs[index..next.unwrap_or(inputs.len())].last().map_or(0.0, |last| last.answered);
                    let edited = Some(echo.to_owned()).filter(|echo| !echo.trim().is_empty() && is_edited);
                    let record = InputRecord {
                        kind: InputKind::Entered,
                        context: "prompt".to_owned(),
                        text: edited.or_else(|| Some(line.to_owned())).filter(|_| !is_hidden),
                        reason: Some(if ends.is_some() { "ended" } else { "running" }.to_owned()),
                        elapsed_time: Some((answered - input.seconds).max(0.0)),
                        output_begin: ends.map(|_| begins[index] as u64),
                        output_end: ends.map(|end| end as u64),
                        exit_code: exit.filter(|_| next.is_none() && !is_shell),
                        ..record.clone()
                    };
                    let record = InputRecord { keys: Vec::new(), ..record };
                    Moment { input: record, printed: shortened(printed), output: Some(shortened(output)) }
                });
            let printed = if entered.is_some() { String::new() } else { shortened(printed) };
            moments.push(Moment { input: record, printed, output: None });
            moments.extend(entered);
        }
        for (index, moment) in moments.iter_mut().enumerate() {
            moment.input.number = index as u64 + 1;
            for secret in &secrets {
                let masked = |text: &mut String| *text = text.replace(secret.as_str(), MASK);
                masked(&mut moment.printed);
                moment.output.iter_mut().for_each(masked);
                moment.input.text.iter_mut().for_each(masked);
                moment.input.row.iter_mut().for_each(masked);
            }
        }
        moments
    }
}

/// Whether a row asks for something that is typed without being shown.
fn asks_for_secret(row: &str) -> bool {
    let row = row.to_ascii_lowercase();
    ["password", "passphrase", "passcode", "secret", "token", "pin:"].iter().any(|word| row.contains(word))
}

/// Whether a row is the prompt of the shell again, in another directory perhaps.
fn is_same_prompt(prompt: &str, row: &str) -> bool {
    let (prompt, row) = (prompt.trim_end(), row.trim_end());
    let begin = |text: &str| text.split(['/', '~', ':', ' ']).next().unwrap_or_default().to_owned();
    let ends = |text: &str| text.chars().next_back();
    prompt == row || ends(prompt) == ends(row) && begin(prompt) == begin(row) && begin(row).len() >= 2
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns a text without its middle where it is long.
fn shortened(text: &str) -> String {
    if text.len() <= MOST_PRINTED {
        return text.to_owned();
    }
    let (head, tail) = (floor(text, MOST_PRINTED / 2), floor(text, text.len() - MOST_PRINTED / 2));
    format!("{}\n…\n{}", &text[..head], &text[tail..])
}

/// Returns a moment of a recording as ISO 8601, on a day of its own.
fn timestamp(seconds: f64) -> String {
    let milliseconds = (seconds.clamp(0.0, 86_399.0) * 1000.0) as u64;
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    format!("1970-01-01T{:02}:{:02}:{:02}.{rest:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests;
