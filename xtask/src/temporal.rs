//! Requirements of runs on Temporal: the worker, and the server.
//!
//! The worker is a separate workspace in `temporal`: it has three hundred packages that nothing else needs, and no
//! other build pays for them. The build output is in `temporal` of the target directory.

use std::path::PathBuf;
use std::process::Command;

use crate::check;
use crate::python::TEMPORAL_SERVER;
use crate::repository::Repository;
use crate::step;

/// Installs the development server and builds the worker for tests. Returns whether the worker builds: without its
/// packages or the server, this skips the dependent tests and prints a message.
///
/// # Errors
/// If the worker does not compile.
pub(crate) fn ensure(repository: &Repository) -> anyhow::Result<bool> {
    if let Err(error) = step::work("server of Temporal", || TEMPORAL_SERVER.ensure(repository)) {
        eprintln!("xtask: SKIPPED: the cases of engines on Temporal, which need its server: {error:#}");
    }
    if step::run("packages of the worker of Temporal", &mut cargo(repository, &["fetch", "--locked"])).is_err() {
        eprintln!("xtask: SKIPPED: the worker of Temporal and its tests, because its packages are not available");
        return Ok(false);
    }
    step::run("worker of Temporal", &mut cargo(repository, &["build", "--locked"]))?;
    Ok(true)
}

/// Checks the format of the worker's sources and lints them.
pub(crate) fn format_and_lints(repository: &Repository) -> anyhow::Result<()> {
    step::run("format of the worker of Temporal", &mut cargo(repository, &["fmt", "--check"]))?;
    let mut lints = cargo(repository, &["build", "--all-targets", "--locked", "--quiet"]);
    check::lint_in_build(&mut lints);
    step::run("lints of the worker of Temporal", &mut lints)
}

/// Runs the tests of the worker: they replay recorded histories and need no server.
pub(crate) fn test(repository: &Repository) -> anyhow::Result<()> {
    step::run("tests of the worker of Temporal", &mut cargo(repository, &["test", "--locked", "--quiet"]))
}

/// Builds the worker with optimisations and returns its program.
pub(crate) fn build_release(repository: &Repository) -> anyhow::Result<PathBuf> {
    step::run("build of the worker of Temporal", &mut cargo(repository, &["build", "--release", "--locked"]))?;
    Ok(target(repository).join("release/steplatch-temporal"))
}

/// Returns the program of the development server.
pub(crate) fn server(repository: &Repository) -> PathBuf {
    TEMPORAL_SERVER.programs(repository).join("temporal")
}

fn target(repository: &Repository) -> PathBuf {
    repository.target().join("temporal")
}

/// Returns a command of cargo in the workspace of the worker.
fn cargo(repository: &Repository, arguments: &[&str]) -> Command {
    let mut command = repository.cargo(arguments);
    command.current_dir(repository.root().join("temporal"));
    command.env("CARGO_TARGET_DIR", target(repository));
    command
}
