//! Long texts for a person at a terminal, page by page.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::print;

/// The pager of those who named none, with what it needs to pass styles on and to end by itself after one screen (less(1), as
/// git sets it).
const USUAL: &str = "less";
const OPTIONS: (&str, &str) = ("LESS", "FRX");

/// Shows lines with the pager in `PAGER` if standard output is a terminal; else, or if there is no pager, prints them.
///
/// # Errors
/// When standard output can not be written.
pub(crate) fn show(lines: &[String]) -> io::Result<()> {
    if io::stdout().is_terminal() && paged(&print::as_printed(lines)) {
        return Ok(());
    }
    lines.iter().try_for_each(print::line)
}

/// Has a pager show a text. Returns whether one did.
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
        // A person may leave before the end.
        let _ = input.write_all(text.as_bytes());
    }
    pager.wait().is_ok_and(|ended| ended.success())
}
