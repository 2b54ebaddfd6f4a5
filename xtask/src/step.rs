//! One step of a chore, and the line that shows its outcome.

use std::fmt;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::Context as _;

/// A step whose command failed and whose line is printed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The exit code of the chore.
    pub(crate) code: u8,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a step failed with exit code {}", self.code)
    }
}

impl std::error::Error for Failed {}

/// Runs a command as the step called `name`, with inherited output.
pub(crate) fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
    command_with(name, command, |command| Ok(command.status()?))
}

/// Runs a command as a step, with a function of the caller.
pub(crate) fn command_with(
    name: &str,
    command: &mut Command,
    act: impl FnOnce(&mut Command) -> anyhow::Result<ExitStatus>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let program = command.get_program().to_owned();
    let status = act(command).with_context(|| format!("{} could not be run.", program.display()))?;
    report_step(name, began, status.success());
    if status.success() {
        return Ok(());
    }
    // A command that was killed by a signal has no exit code.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failed { code }.into())
}

/// Runs a function as the step called `name`.
pub(crate) fn work<T>(name: &str, task: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let began = Instant::now();
    let result = task();
    report_step(name, began, result.is_ok());
    result
}

fn report_step(name: &str, began: Instant, has_succeeded: bool) {
    let outcome = if has_succeeded { "done" } else { "FAILED" };
    eprintln!("xtask: {name}: {outcome} in {:.1} s", began.elapsed().as_secs_f64());
}
