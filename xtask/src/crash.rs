//! `cargo xtask crash`: faults at random instants, on the real program, while runs of every kind act on files.
//!
//! The simulation runs the code of the product on simulated time. This chore tests the program itself: it kills and
//! restarts the daemon, stops the terminal host, and cuts the connections to a remote host. It counts repeated, lost
//! and truncated effects.

use std::process::Command;

use crate::repository::Repository;
use crate::{programs, step};

/// Builds the program and disturbs it. The arguments go to the script: `--faults N`, `--workers N`, `--load N`, `--seed S`,
/// `--kinds KIND,…`.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    step::work("programs that are disturbed", || programs::ensure(programs::FOR_HOSTS))?;
    let build = ["build", "--release", "--locked", "--bin", "steplatch"];
    step::run("build", &mut repository.cargo(&build))?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/bench/crash.py"));
    script.arg("--steplatch").arg(repository.target().join("release/steplatch"));
    script.arg("--folder").arg(repository.target());
    step::run("faults", script.args(arguments))
}
