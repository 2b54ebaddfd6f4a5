//! One step of a chore, and the line that tells what it came to.

use std::fmt;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::Context as _;

/// A step whose command did not succeed. Its line is printed already.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The exit code to end with.
    pub(crate) code: u8,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a step failed with exit code {}", self.code)
    }
}

impl std::error::Error for Failed {}

/// Runs a command as the step called `name`; its output goes where ours goes.
pub(crate) fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
    command_with(name, command, |command| Ok(command.status()?))
}

/// Runs a command as a step, in a way of the caller's own.
pub(crate) fn command_with(
    name: &str,
    command: &mut Command,
    act: impl FnOnce(&mut Command) -> anyhow::Result<ExitStatus>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let program = command.get_program().to_owned();
    let status = act(command).with_context(|| format!("{} could not be run.", program.display()))?;
    tell(name, began, status.success());
    if status.success() {
        return Ok(());
    }
    // A command that a signal ended has no code of its own.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failed { code }.into())
}

/// Does something that is no command, as the step called `name`.
pub(crate) fn work<T>(name: &str, act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let began = Instant::now();
    let result = act();
    tell(name, began, result.is_ok());
    result
}

fn tell(name: &str, began: Instant, succeeded: bool) {
    let outcome = if succeeded { "done" } else { "FAILED" };
    eprintln!("xtask: {name}: {outcome} in {:.1} s", began.elapsed().as_secs_f64());
}
