//! Questions of runs to the person at this terminal.
//!
//! Owns standard input while a command watches a run: a thread reads lines, beginning with the first question. The
//! thread runs until the end of the process, and the next [`Person`] receives lines from the same thread. A line read
//! before a question appeared does not answer that question.

use std::borrow::Cow;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use serde_json::Value;
use steplatch_protocol::{GateInfo, WITHOUT_ANSWER};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr as _;

use crate::print::{self, QUIET, STRONG, visible, wrapped};

/// Maximum time between two Ctrl-C at a question that cancel the run. A single Ctrl-C leaves the question open.
pub(crate) const SECOND_INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of shown lines of a question's content. A longer question has no inline prompt: `gates show`
/// shows it in a pager.
const MAX_CONTENT_LINES: usize = 40;

/// The person at this terminal.
#[derive(Debug, Default)]
pub(crate) struct Person {
    lines: Option<mpsc::Receiver<(Instant, String)>>,
    /// Time of the current question's appearance. Earlier lines belong to other questions.
    asked_at: Option<Instant>,
    /// Present while the input is hidden.
    echo_off: Option<EchoOff>,
}

impl Person {
    /// Returns the person, if standard input and output are terminals.
    pub(crate) fn at_terminal() -> Option<Self> {
        (io::stdin().is_terminal() && io::stdout().is_terminal()).then(Self::default)
    }

    /// Discards the input from before the question that is about to appear.
    pub(crate) fn listen(&mut self) {
        // Ignore a failure: earlier input is then treated as an answer.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        match &mut self.lines {
            Some(lines) => while lines.try_recv().is_ok() {},
            None => {
                let mut lines = read_lines();
                while lines.try_recv().is_ok() {}
                self.lines = Some(lines);
            }
        }
        self.asked_at = Some(Instant::now());
    }

    /// Discards input like [`Self::listen`], and hides the next input. [`Self::end_question`] restores the echo.
    pub(crate) fn listen_without_echo(&mut self) {
        self.listen();
        self.echo_off = self.echo_off.take().or_else(EchoOff::begin);
    }

    /// Restores the echo after an answered or obsolete question. Between attempts at a passphrase, the echo stays off
    /// to hide a passphrase that is typed early.
    pub(crate) fn end_question(&mut self) {
        self.echo_off = None;
    }

    /// Returns the next line. `None` if the person closed the input. Cancellation-safe.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            let (read_at, line) = self.lines.get_or_insert_with(read_lines).recv().await?;
            // The thread may have read the line before the question appeared.
            if self.asked_at.is_none_or(|asked_at| read_at >= asked_at) {
                return Some(line);
            }
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // Keep the receiver, because a second thread would compete with the first one.
        if let (Some(lines), Ok(mut slot)) = (self.lines.take(), UNUSED_LINES.lock()) {
            *slot = Some(lines);
        }
    }
}

/// Receiver of the reading thread's lines while no [`Person`] uses it.
static UNUSED_LINES: Mutex<Option<mpsc::Receiver<(Instant, String)>>> = Mutex::new(None);

/// Starts a thread that reads lines from standard input, or continues with an existing one. The thread ends with the
/// input or the program.
fn read_lines() -> mpsc::Receiver<(Instant, String)> {
    if let Some(lines) = UNUSED_LINES.lock().ok().and_then(|mut slot| slot.take()) {
        return lines;
    }
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send((Instant::now(), line)).is_err() {
                return;
            }
        }
    });
    lines
}

/// Parses a choice: its text in any case, or its number. A `#` before the number distinguishes the number from the text
/// of another choice. Without choices, any text is an answer. Returns the choice and its number, from 1.
pub(crate) fn parse_choice(gate: &GateInfo, line: &str) -> Result<(String, Option<usize>), String> {
    let line = line.trim();
    let choices = &gate.choices;
    if choices.is_empty() && !line.is_empty() {
        return Ok((line.to_owned(), None));
    }
    let parse_number =
        |number: &str| number.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < choices.len());
    // Only a unique match counts, because several choices may have the same text.
    let find_unique = |matches: &dyn Fn(&str) -> bool| {
        let mut indexes = (0..choices.len()).filter(|index| matches(&choices[*index]));
        indexes.next().filter(|_| indexes.next().is_none())
    };
    let by_text = find_unique(&|choice| choice == line)
        .or_else(|| find_unique(&|choice| choice.to_lowercase() == line.to_lowercase()));
    let index = match (by_text, parse_number(line), line.strip_prefix('#').and_then(parse_number)) {
        (Some(text), Some(number), _) if text != number => {
            return Err(format!(
                "'{line}' is the text of choice {} and the number of another one; answer #{} or #{line}",
                text + 1,
                text + 1
            ));
        }
        (by_text, by_number, after_hash) => by_text.or(by_number).or(after_hash),
    };
    match index {
        Some(index) => Ok((choices[index].clone(), Some(index + 1))),
        None if line.is_empty() => Err("nothing was answered".to_owned()),
        None => {
            let quoted =
                if line.chars().count() <= MAX_QUOTED_CHARS { format!(" '{}'", visible(line)) } else { String::new() };
            let expected = if choices.len() == 1 { "1".to_owned() } else { list_choices(choices) };
            Err(format!("invalid answer{quoted}; choose {expected}"))
        }
    }
}

/// Formats the reason of an answer, to follow the answer.
pub(crate) fn format_reason(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(", because {}", visible(reason)) }
}

/// Text between a choice and its reason.
pub(crate) const REASON_WORD: &str = " because ";

/// Maximum length of an invalid answer that an error quotes. A longer answer may be a passphrase that was typed too
/// early: passphrases have at least six characters.
const MAX_QUOTED_CHARS: usize = 5;

/// Returns the longest prefix of a typed line that begins a choice or its number, possibly with a reason, and the number
/// of characters after the prefix. These characters may belong to a passphrase that is typed too early.
pub(crate) fn choice_prefix<'l>(choices: &[String], line: &'l str) -> (&'l str, usize) {
    let numbers = (1..=choices.len()).map(|number| number.to_string());
    let answers: Vec<String> = choices.iter().map(|choice| choice.to_lowercase()).chain(numbers).collect();
    let is_reason_prefix = |part: &str| {
        let rests = answers.iter().filter_map(|answer| part.strip_prefix(answer.as_str()));
        let mut rests = rests.map(|rest| rest.strip_prefix(',').unwrap_or(rest));
        rests.any(|rest| REASON_WORD.starts_with(rest) || rest.starts_with(REASON_WORD))
    };
    let is_choice_prefix = |part: &str| {
        let part = part.trim_start().to_lowercase();
        if is_reason_prefix(&part) {
            return true;
        }
        let number = part.strip_prefix('#').unwrap_or(&part);
        part.is_empty()
            || number.is_empty()
            || number.parse::<usize>().is_ok_and(|number| (1..=choices.len()).contains(&number))
            || choices.iter().any(|choice| choice.to_lowercase().starts_with(&part))
    };
    let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
    let end = ends.take_while(|end| choices.is_empty() || is_choice_prefix(&line[..*end])).last().unwrap_or(0);
    (&line[..end], line[end..].chars().count())
}

/// Maximum number of choices that an error lists. Of more choices, only the numbers are stated.
const MAX_LISTED_CHOICES: usize = 4;

/// Formats choices for an error message: `restore, keep or stop`, or `1 to 9` if they are many or long.
fn list_choices(choices: &[String]) -> String {
    let width: usize = choices.iter().map(|choice| choice.width()).sum();
    if choices.len() > MAX_LISTED_CHOICES || width > 60 {
        return format!("1 to {}", choices.len());
    }
    let choices: Vec<String> = choices.iter().map(|choice| visible(choice)).collect();
    match choices.split_last() {
        Some((last, others @ [_, ..])) => format!("{} or {last}", others.join(", ")),
        _ => choices.concat(),
    }
}

/// Formats an answer on one line: text, or the values of a form.
pub(crate) fn format_answer(answer: &Value) -> String {
    let fields = match answer {
        // A machine stores the answer to a form as JSON text.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => fields,
            _ => return visible(text),
        },
        Value::Object(fields) => fields.clone(),
        value => return visible(&value.to_string()),
    };
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={}", visible(text)),
        value => format!("{name}={value}"),
    };
    fields.iter().filter(|(_, value)| !value.is_null()).map(field).collect::<Vec<_>>().join(" ")
}

/// Formats a question as lines: the prompt, the content to judge, and the choices.
pub(crate) fn gate_lines(gate: &GateInfo, width: Option<usize>) -> Vec<String> {
    // Leave the last column free, because some terminals wrap a line that fills it.
    let width = width.map(|width| width.clamp(20, 120) - 1);
    let room = |indent: usize| width.map_or(usize::MAX, |width| width - indent);
    let mut lines: Vec<String> = Vec::new();
    for (index, line) in wrapped(&gate.prompt, room(4)).into_iter().enumerate() {
        // The mark distinguishes lines of the prompt from choices.
        let mark = if index == 0 { "?" } else { "│" };
        lines.push(format!("  {STRONG}{mark} {line}{STRONG:#}"));
    }
    for line in bounded_content(gate) {
        // Wrap the text instead of truncating it, because the answer depends on all of it.
        let indent: String = line.chars().take_while(|character| *character == ' ').collect();
        let rows = wrapped(line.trim_start(), room(6 + indent.len()));
        lines.extend(rows.into_iter().map(|row| format!("    {QUIET}│{QUIET:#} {indent}{row}")));
    }
    for remark in gate.remarks() {
        lines.extend(wrapped(&remark, room(4)).into_iter().map(|row| format!("    {QUIET}{row}{QUIET:#}")));
    }
    let digits = gate.choices.len().to_string().len();
    for (index, choice) in gate.choices.iter().enumerate() {
        let number = (index + 1).to_string();
        for (row, line) in wrapped(choice, room(6 + digits)).into_iter().enumerate() {
            let number = if row == 0 { number.as_str() } else { "" };
            lines.push(format!("    {number:>digits$}  {line}"));
        }
    }
    lines
}

/// Formats the content to judge as lines: a screen, and the fields of the question.
pub(crate) fn content_lines(gate: &GateInfo) -> Vec<String> {
    let mut lines = Vec::new();
    let parts = gate.context_to_judge();
    for (name, text) in &parts {
        let text = in_local_time(gate, name, text);
        // A single screen needs no name.
        if parts.len() == 1 && ["screen_content", "match_text"].contains(name) {
            lines.extend(text.lines().map(visible));
            continue;
        }
        let mut rows = text.lines();
        match (rows.next(), rows.next()) {
            (first, None) => lines.push(visible(&format!("{name}: {}", first.unwrap_or_default()))),
            _ => {
                lines.push(visible(&format!("{name}:")));
                lines.extend(text.lines().map(|line| format!("  {}", visible(line))));
            }
        }
    }
    lines
}

/// Formats the time limit of the gate in local time, in the field of the context that states the limit. Other fields
/// stay unchanged, because the daemon did not write them.
fn in_local_time<'t>(gate: &GateInfo, name: &str, text: &'t str) -> Cow<'t, str> {
    match &gate.expires_at {
        Some(expiry) if name == WITHOUT_ANSWER => match text.strip_prefix(&format!("after {expiry}, ")) {
            Some(consequence) => format!("after {}, {consequence}", print::local_time(expiry)).into(),
            None => text.into(),
        },
        _ => text.into(),
    }
}

/// Returns whether the content of a question and its prompt with the choices, fit the limit of lines on this terminal.
pub(crate) fn is_shown_whole(gate: &GateInfo) -> bool {
    let room = print::width().unwrap_or(120).clamp(20, 120) - 8;
    let rows = |text: &str| wrapped(text, room).len();
    let content_rows: usize = content_lines(gate).iter().map(|line| rows(line)).sum();
    let choices: usize = gate.choices.iter().map(|choice| rows(choice)).sum();
    let form = gate.form.as_ref().map_or(0, |form| rows(&form.to_string()));
    !gate.shortened && content_rows <= MAX_CONTENT_LINES && rows(&gate.prompt) + choices + form <= MAX_CONTENT_LINES
}

/// Returns the content of a question up to a limit, followed by the command that shows all content.
pub(crate) fn bounded_content(gate: &GateInfo) -> Vec<String> {
    let mut lines = content_lines(gate);
    if is_shown_whole(gate) {
        return lines;
    }
    lines.truncate(MAX_CONTENT_LINES);
    lines.push(format!("… this is not all; read it with: steplatch gates show {}", gate.gate_id));
    lines
}

/// Guard that switches off the echo of standard input. Dropping it restores the echo.
#[derive(Debug)]
struct EchoOff {
    original_mode: Termios,
}

impl EchoOff {
    /// Switches the echo off. `None` without a terminal, or if the terminal refuses.
    fn begin() -> Option<Self> {
        let original_mode = tcgetattr(io::stdin()).ok()?;
        let mut mode_without_echo = original_mode.clone();
        mode_without_echo.local_modes.remove(LocalModes::ECHO);
        // Still echo the line end, so that the next output begins on a new line.
        mode_without_echo.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &mode_without_echo).ok()?;
        Some(Self { original_mode })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // Ignore a failure, because the terminal has closed.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.original_mode);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gate(choices: &[&str]) -> GateInfo {
        GateInfo {
            prompt: "What holds?".to_owned(),
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            ..GateInfo::default()
        }
    }

    #[test]
    fn choice_is_selected_by_number_or_text() {
        let gate = gate(&["it is clean", "2", "none of these"]);
        let answers = [" It is clean ", "1", "3", "none of these"].map(|line| parse_choice(&gate, line).unwrap().0);
        assert_eq!(answers, ["it is clean", "it is clean", "none of these", "none of these"]);
        assert_eq!(parse_choice(&gate, "2").unwrap().0, "2", "text and number mean the same choice");
        for (line, refusal) in [
            ("0", "invalid answer '0'; choose it is clean, 2 or none of these"),
            ("4", "invalid answer '4'; choose it is clean, 2 or none of these"),
            ("", "nothing was answered"),
        ] {
            assert_eq!(parse_choice(&gate, line).unwrap_err(), refusal);
        }
    }

    #[test]
    fn ambiguous_answer_is_rejected() {
        let gate = gate(&["2", "1", "Yes", "yes"]);
        let error = parse_choice(&gate, "1").unwrap_err();
        assert_eq!(error, "'1' is the text of choice 2 and the number of another one; answer #2 or #1");
        let answers = ["#1", "#2", "3", "yes", "Yes"].map(|line| parse_choice(&gate, line).unwrap().0);
        assert_eq!(answers, ["2", "1", "Yes", "yes", "Yes"]);
        assert!(parse_choice(&gate, "YES").is_err(), "the case is ambiguous");
        let hidden = self::gate(&["drop ••••••", "drop ••••••"]);
        assert_eq!(parse_choice(&hidden, "2").unwrap().1, Some(2));
        assert!(parse_choice(&hidden, "drop ••••••").is_err(), "two choices have the same text");
    }

    #[test]
    fn typed_choice_and_its_reason_are_visible_and_other_text_is_not() {
        let choices = ["yes", "no"].map(str::to_owned);
        for (line, visible_text) in [
            ("n", "n"),
            ("2 because a test fails", "2 because a test fails"),
            ("no, because it is late", "no, because it is late"),
            ("no, bec", "no, bec"),
            ("correct horse", ""),
            ("nobody knows", "no"),
            ("3 because", ""),
        ] {
            assert_eq!(choice_prefix(&choices, line).0, visible_text, "{line}");
        }
    }

    #[test]
    fn full_content_is_shown_or_its_omission_reported() {
        let mut gate = gate(&["yes"]);
        gate.gate_id = "run_x/ask/1".to_owned();
        gate.context = json!({"screen_content": "$ make", "command": "rm -rf /"}).as_object().unwrap().clone();
        assert_eq!(bounded_content(&gate), ["screen_content: $ make", "command: rm -rf /"]);
        assert!(is_shown_whole(&gate) && !is_shown_whole(&GateInfo { shortened: true, ..gate.clone() }));
        gate.context = json!({"plan": "a step\n".repeat(50)}).as_object().unwrap().clone();
        let lines = bounded_content(&gate);
        assert!(!is_shown_whole(&gate) && lines.len() == 41);
        assert_eq!(lines[40], "… this is not all; read it with: steplatch gates show run_x/ask/1");
        let long_gate = GateInfo { prompt: "a\n".repeat(3000), ..self::gate(&["yes"]) };
        assert!(!is_shown_whole(&long_gate), "a long prompt is not shown in full");
        assert!(!is_shown_whole(&self::gate(&[&"x".repeat(54_000)])), "a long choice is not shown in full");
    }

    #[test]
    fn time_limit_of_a_gate_is_shown_in_local_time() {
        let at = "2026-11-30T04:15:18.959Z";
        let mut gate = GateInfo { expires_at: Some(at.to_owned()), ..gate(&["yes"]) };
        gate.context = json!({"command": format!("at {at}"), "without an answer": format!("after {at}, it counts as not answered")})
            .as_object()
            .unwrap()
            .clone();
        let limit = format!("without an answer: after {}, it counts as not answered", print::local_time(at));
        assert_eq!(content_lines(&gate), [format!("command: at {at}"), limit], "other fields are unchanged");
    }

    #[test]
    fn any_text_answers_a_question_without_choices() {
        assert_eq!(parse_choice(&gate(&[]), " go on \n").unwrap().0, "go on");
        assert!(parse_choice(&gate(&[]), "  ").is_err());
    }

    #[test]
    fn question_shows_its_screen_without_escapes() {
        let mut gate = gate(&["yes"]);
        let screen: String = (1..=20).map(|index| format!("line {index}\x1b[2J\n")).collect();
        gate.context = json!({"screen_content": format!("{screen}\n\n")}).as_object().unwrap().clone();
        let lines: Vec<String> =
            gate_lines(&gate, Some(40)).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(lines[0], "  ? What holds?");
        assert_eq!((lines[1].as_str(), lines[20].as_str()), ("    │ line 1␛[2J", "    │ line 20␛[2J"));
        assert_eq!(lines[21], "    1  yes");
        assert_eq!(lines.len(), 22);
    }

    #[test]
    fn choices_are_shown_in_full() {
        let gate = gate(&["the build is clean and so is everything", "abcdefghijklmnopqrstuvwxyz0123456789"]);
        let lines = gate_lines(&gate, Some(24));
        assert_eq!(
            lines[1..],
            [
                "    1  the build is",
                "       clean and so is",
                "       everything",
                "    2  abcdefghijklmnop",
                "       qrstuvwxyz012345",
                "       6789",
            ]
        );
    }
}
