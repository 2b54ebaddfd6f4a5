//! Paged display of long texts at a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::print;

/// The default pager.
const DEFAULT_PAGER: &str = "less";
/// Variable with the default options of less(1).
const LESS_VARIABLE: &str = "LESS";
/// Options that keep styles and quit after one screen, as git sets them.
const LESS_OPTIONS: &str = "FRX";

/// Shows lines with the pager in `PAGER` if standard output is a terminal. Otherwise, or if the pager fails, prints
/// the lines.
///
/// # Errors
/// If writing to standard output fails.
pub(crate) fn show(lines: &[String]) -> io::Result<()> {
    if io::stdout().is_terminal() && run_pager(&print::as_printed(lines)) {
        return Ok(());
    }
    lines.iter().try_for_each(print::line)
}

/// Shows text in the pager. Returns whether the pager ran and succeeded.
fn run_pager(text: &str) -> bool {
    let configured = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let command = configured.as_deref().unwrap_or(DEFAULT_PAGER);
    let mut command_words = command.split_whitespace();
    let Some(program) = command_words.next() else { return false };
    let mut pager = Command::new(program);
    pager.args(command_words).stdin(Stdio::piped());
    if std::env::var_os(LESS_VARIABLE).is_none() {
        pager.env(LESS_VARIABLE, LESS_OPTIONS);
    }
    let Ok(mut pager) = pager.spawn() else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // Ignore a failure, because the person may quit before the end.
        let _ = input.write_all(text.as_bytes());
    }
    pager.wait().is_ok_and(|status| status.success())
}
