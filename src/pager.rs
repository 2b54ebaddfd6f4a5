//! Paged display of long texts at a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::print;

/// The default pager, with the options that pass styles on and quit after one screen (less(1), as git sets it).
const USUAL: &str = "less";
const OPTIONS: (&str, &str) = ("LESS", "FRX");

/// Shows lines with the pager in `PAGER` if standard output is a terminal; else, or if there is no pager, prints them.
///
/// # Errors
/// If writing to standard output fails.
pub(crate) fn show(lines: &[String]) -> io::Result<()> {
    if io::stdout().is_terminal() && paged(&print::as_printed(lines)) {
        return Ok(());
    }
    lines.iter().try_for_each(print::line)
}

/// Shows a text with a pager. Returns whether that worked.
fn paged(text: &str) -> bool {
    let named = std::env::var("PAGER").ok().filter(|named| !named.trim().is_empty());
    let command = named.as_deref().unwrap_or(USUAL);
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return false };
    let mut pager = Command::new(program);
    pager.args(words).stdin(Stdio::piped());
    if std::env::var_os(OPTIONS.0).is_none() {
        pager.env(OPTIONS.0, OPTIONS.1);
    }
    let Ok(mut pager) = pager.spawn() else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // The person may quit before the end.
        let _ = input.write_all(text.as_bytes());
    }
    pager.wait().is_ok_and(|ended| ended.success())
}
