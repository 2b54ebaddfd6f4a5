//! `cargo xtask simulate`: schedules of faults with random seeds, for a requested time, or each fault at each instant of
//! each action.
//!
//! The test command simulates the same schedules every time. This chore tries other schedules, and prints the seed and
//! the schedule of the first failure. Add that seed to `crates/simulation/src/tests.rs` with the fix.
//!
//! With `--mutations` it checks the simulation itself: each patch in `crates/simulation/mutations` undoes a repair of
//! the product, and a schedule must find the resulting fault.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::repository::Repository;
use crate::step;

/// The default duration of the chore, in minutes.
const MINUTES: &str = "10";

/// The directory of the patches.
const MUTATIONS: &str = "crates/simulation/mutations";

/// Maximum number of schedules until one of them finds the fault.
const MAX_MUTATION_SCHEDULES: u64 = 400;

/// Simulates until the time has passed or a schedule breaks a rule.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let arguments = match arguments {
        [] => vec!["--minutes", MINUTES],
        ["--actions"] => vec!["--actions"],
        ["--mutations"] => return find_mutations(repository),
        [name @ ("--minutes" | "--seed"), value] if value.parse::<u64>().is_ok() => vec![*name, *value],
        _ => bail!("Usage: cargo xtask simulate [--minutes N | --seed S | --actions | --mutations]"),
    };
    let run = ["run", "--locked", "--quiet", "--release", "--package", "steplatch-simulation", "--"];
    step::run("simulate", &mut repository.cargo(&[run.as_slice(), &arguments].concat()))
}

/// Returns the patches, in order.
fn mutations(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(root.join(MUTATIONS))?.map(|file| Ok(file?.path()));
    let mut files: Vec<PathBuf> = files.collect::<anyhow::Result<_>>()?;
    files.sort();
    Ok(files)
}

/// Applies each patch alone to a copy of the repository and simulates until a schedule breaks a rule.
fn find_mutations(repository: &Repository) -> anyhow::Result<()> {
    let copy = repository.target().join("mutations");
    let git = |directory: &Path, arguments: &[&str]| -> anyhow::Result<()> {
        let status = Command::new("git").args(arguments).current_dir(directory).status()?;
        ensure!(status.success(), "git {} failed in {}.", arguments.join(" "), directory.display());
        Ok(())
    };
    if copy.exists() {
        std::fs::remove_dir_all(&copy)?;
    }
    let text = copy.to_str().context("The path of the target directory is not UTF-8.")?;
    git(repository.root(), &["clone", "--quiet", "--shared", ".", text])?;
    let mut missed = Vec::new();
    for patch in mutations(repository.root())? {
        let path = patch.to_str().context("The path of the repository is not UTF-8.")?;
        git(&copy, &["checkout", "--quiet", "."])?;
        git(&copy, &["apply", path])?;
        let count = MAX_MUTATION_SCHEDULES.to_string();
        let run = ["run", "--locked", "--quiet", "--package", "steplatch-simulation", "--", "--first", &count];
        let simulated = repository.cargo(&run).current_dir(&copy).output()?;
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        let report = String::from_utf8_lossy(&simulated.stderr);
        match simulated.status.code() {
            Some(0) => missed.push(name.into_owned()),
            Some(1) => println!("{name}: {}", report.lines().next().unwrap_or_default()),
            _ => bail!("The simulation of {name} does not run:\n{report}"),
        }
    }
    ensure!(missed.is_empty(), "{MAX_MUTATION_SCHEDULES} schedules do not find: {}.", missed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A patch whose lines have changed would undo nothing.
    #[test]
    fn each_mutation_applies() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let patches = mutations(root).unwrap();
        assert!(patches.len() > 4, "{patches:?}");
        for patch in patches {
            let applied =
                Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root).output().unwrap();
            assert!(applied.status.success(), "{}: {}", patch.display(), String::from_utf8_lossy(&applied.stderr));
        }
    }
}
