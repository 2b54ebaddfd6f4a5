//! `cargo xtask simulate`: schedules of faults with random seeds, for as long as requested, or each fault at each instant of
//! each action.
//!
//! The test command simulates the same schedules every time. This chore tries others, and prints the seed and the schedule of
//! the first one that breaks a rule. Add that seed to `crates/simulation/src/tests.rs` with the fix.

use anyhow::bail;

use crate::repository::Repository;
use crate::step;

/// The default duration of the chore, in minutes.
const MINUTES: &str = "10";

/// Simulates until the time is up or a schedule breaks a rule.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let arguments = match arguments {
        [] => vec!["--minutes", MINUTES],
        ["--actions"] => vec!["--actions"],
        [name @ ("--minutes" | "--seed"), value] if value.parse::<u64>().is_ok() => vec![*name, *value],
        _ => bail!("Usage: cargo xtask simulate [--minutes N | --seed S | --actions]"),
    };
    let run = ["run", "--locked", "--quiet", "--release", "--package", "steplatch-simulation", "--"];
    step::run("simulate", &mut repository.cargo(&[run.as_slice(), &arguments].concat()))
}
