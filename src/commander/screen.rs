//! Output of the conversation: appended, or printed above the line being edited.

use std::io;

use serde_json::Value;

use super::editor::Lines;
use super::format;
use crate::print::{self, BAD, QUIET, visible};
use crate::translation::for_people;

/// Output to a terminal, or to the standard streams of a script.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) lines: Lines,
}

impl Screen {
    /// Returns whether the output is interactive.
    pub(crate) fn is_watched(&self) -> bool {
        self.lines.are_edited()
    }

    /// Prints lines.
    pub(crate) fn say(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.is_watched() && self.lines.is_asked() {
            self.lines.print_above(print::as_printed(lines));
            return Ok(());
        }
        lines.iter().try_for_each(print::line)
    }

    /// Prints an error; for a script, on standard error.
    pub(crate) fn error(&mut self, message: &str) -> io::Result<()> {
        if !self.is_watched() {
            print::error(message);
            return Ok(());
        }
        let message = for_people(message);
        let mut lines = message.lines().map(visible);
        let first = format!("{BAD}error:{BAD:#} {}", lines.next().unwrap_or_default());
        let all: Vec<String> = std::iter::once(first).chain(lines).collect();
        self.say(&all)
    }

    /// Prints remarks; for a script, on standard error.
    pub(crate) fn notes(&mut self, lines: &[String]) -> io::Result<()> {
        if self.is_watched() {
            return self.say(lines);
        }
        lines.iter().for_each(|line| print::remark(line));
        Ok(())
    }

    /// Prints a remark.
    pub(crate) fn print_remark(&mut self, text: &str) -> io::Result<()> {
        let text = visible(text);
        if self.is_watched() { self.say(&[format!("{QUIET}{text}{QUIET:#}")]) } else { self.notes(&[text]) }
    }

    /// Prints the output of a call: unchanged to a program, without cursor movements to a person.
    pub(crate) fn output(&mut self, number: usize, value: &Value) -> io::Result<()> {
        if self.is_watched() {
            return self.say(&format::lines(&format::full_text(value), number));
        }
        match value {
            Value::Null => Ok(()),
            Value::String(text) if text.ends_with('\n') || text.is_empty() => print::exactly(text),
            other => print::line(format::full_text(other)),
        }
    }
}
