//! Output of the conversation: appended, or printed above the line being edited.

use std::io;

use serde_json::Value;

use super::editor::Lines;
use super::format;
use crate::print::{self, BAD, QUIET, visible};
use crate::translation::for_people;

/// Prefix of an error message.
const ERROR_PREFIX: &str = "error:";

/// Width of a terminal that does not report one, in columns.
const DEFAULT_WIDTH: usize = 80;

/// Wraps text between words to the width of the terminal.
fn fitted_lines(text: &str) -> Vec<String> {
    print::wrapped(text, print::width().unwrap_or(DEFAULT_WIDTH))
}

/// Output to a terminal, or to the standard streams of a script.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) lines: Lines,
}

impl Screen {
    /// Returns whether the output is interactive.
    pub(crate) fn is_interactive(&self) -> bool {
        self.lines.has_editor()
    }

    /// Prints lines, above the line in the editor if there is one.
    pub(crate) fn print_lines(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.is_interactive() && self.lines.is_reading_line() {
            self.lines.print_above(print::as_printed(lines));
            return Ok(());
        }
        lines.iter().try_for_each(print::line)
    }

    /// Prints an error; for a script, on standard error.
    pub(crate) fn print_error(&mut self, message: &str) -> io::Result<()> {
        if !self.is_interactive() {
            print::error(message);
            return Ok(());
        }
        let mut lines = fitted_lines(&format!("{ERROR_PREFIX} {}", for_people(message)));
        if let Some(first) = lines.first_mut() {
            *first = format!("{BAD}{ERROR_PREFIX}{BAD:#}{}", first.strip_prefix(ERROR_PREFIX).unwrap_or_default());
        }
        self.print_lines(&lines)
    }

    /// Prints remarks; for a script, on standard error.
    pub(crate) fn print_remarks(&mut self, lines: &[String]) -> io::Result<()> {
        if self.is_interactive() {
            return self.print_lines(lines);
        }
        lines.iter().for_each(|line| print::remark(line));
        Ok(())
    }

    /// Prints a remark.
    pub(crate) fn print_remark(&mut self, text: &str) -> io::Result<()> {
        if self.is_interactive() {
            let lines: Vec<String> = fitted_lines(text).iter().map(|line| format!("{QUIET}{line}{QUIET:#}")).collect();
            self.print_lines(&lines)
        } else {
            self.print_remarks(&[visible(text)])
        }
    }

    /// Prints the output of a call: unchanged for a script, without control characters for a person.
    pub(crate) fn print_output(&mut self, number: usize, value: &Value) -> io::Result<()> {
        if self.is_interactive() {
            return self.print_lines(&format::lines(&format::full_text(value), number));
        }
        match value {
            Value::Null => Ok(()),
            Value::String(text) if text.ends_with('\n') || text.is_empty() => print::unchanged(text),
            other => print::line(format::full_text(other)),
        }
    }
}
