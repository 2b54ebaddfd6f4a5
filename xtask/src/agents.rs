//! `cargo xtask agents`: records the screens of AI agents' programs that the tests of the crate `terminal` recognise.

use std::process::Command;

use crate::repository::Repository;
use crate::{npm, step};

/// Installs the programs and records all of them, or those with these names.
pub(crate) fn run(repository: &Repository, names: &[&str]) -> anyhow::Result<()> {
    step::work("programs from npm", || npm::ensure_agents(repository))?;
    step::run("build", &mut repository.cargo(&["build", "--locked", "--bin", "steplatch"]))?;
    let mut script = Command::new("python3");
    script.arg(repository.root().join("xtask/agents/record.py"));
    script.arg("--steplatch").arg(repository.target().join("debug/steplatch"));
    script.arg("--agents").arg(repository.target().join("agents/node_modules"));
    script.arg("--node").arg(npm::node(repository).get_program());
    script.arg("--folder").arg(repository.root().join("crates/terminal/tests/agent_screens"));
    step::run("recordings", script.args(names))
}
