//! `cargo xtask clients`: the stories with the real clients that `steplatch setup` configures.
//!
//! These stories are separate from the test command, because the clients occupy more than 1 GB.

use crate::repository::Repository;
use crate::{npm, step};

/// Installs the clients and runs the stories.
pub(crate) fn run(repository: &Repository) -> anyhow::Result<()> {
    step::work("clients from npm", || npm::ensure_agents(repository))?;
    let stories = ["test", "--locked", "--package", "steplatch", "--test", "it", "real_clients::", "--", "--ignored"];
    step::run("stories", &mut repository.cargo(&stories))
}
