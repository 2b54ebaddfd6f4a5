//! `cargo xtask laws`: property tests with new random seeds, for a requested time.
//!
//! The test command runs property tests with one fixed seed (`.cargo/config.toml`), so that it is deterministic. This
//! chore finds new counterexamples: it runs every property test repeatedly, each round with its own seed, and stops at
//! the first failure. `proptest` writes the shrunk case into `proptest-regressions`; commit it with the fix.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::repository::Repository;
use crate::sources::rust_sources;
use crate::step;

/// The environment variable with proptest's seed.
const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";
/// The default duration of the chore, in minutes.
const DEFAULT_MINUTES: u64 = 10;

/// Runs all property tests until the time has passed or one fails.
///
/// `--minutes N` sets the time; the current round runs to its end. `--seed S` runs one round with that seed.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (minutes, seed) = match arguments {
        [] => (DEFAULT_MINUTES, None),
        ["--minutes", minutes] => (minutes.parse().context("--minutes needs a whole number.")?, None),
        ["--seed", seed] => (0, Some(seed.parse().context("--seed needs a whole number.")?)),
        _ => bail!("Usage: cargo xtask laws [--minutes N | --seed S]"),
    };
    let laws = find_property_tests(repository.root())?;
    let names: BTreeSet<&String> = laws.values().flatten().collect();
    eprintln!("xtask: {} property tests in {} packages", names.len(), laws.len());
    // The whole workspace, because a selection of packages would enable other features and cause a rebuild. Doc tests
    // are omitted, because they have no properties.
    let mut arguments = vec!["test", "--locked", "--quiet", "--workspace", "--lib", "--tests"];
    let built = [arguments.as_slice(), &["--no-run"]].concat();
    step::run("build", &mut repository.cargo(&built))?;
    arguments.push("--");
    arguments.extend(names.iter().map(|name| name.as_str()));
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    for round in 1.. {
        let seed = seed.unwrap_or_else(random);
        let mut command = repository.cargo(&arguments);
        command.env(SEED_VARIABLE, seed.to_string()).stdout(std::process::Stdio::null());
        let name = format!("round {round}, seed {seed}");
        step::run(&name, &mut command).inspect_err(|_| {
            eprintln!("xtask: reproduce it with: cargo xtask laws --seed {seed}");
            eprintln!("xtask: commit the files that proptest wrote into proptest-regressions with the fix");
        })?;
        if Instant::now() >= until {
            break;
        }
    }
    Ok(())
}

/// Returns an unpredictable number: the standard library draws the keys of its hashers from the system.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Returns the names of all property tests, by package.
fn find_property_tests(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut packages = vec![("steplatch".to_owned(), root.to_owned())];
    for package in std::fs::read_dir(root.join("crates")).context("The crates cannot be listed.")? {
        let package = package?;
        packages.push((format!("steplatch-{}", package.file_name().to_string_lossy()), package.path()));
    }
    let mut laws = BTreeMap::new();
    for (package, package_directory) in packages {
        let mut names = BTreeSet::new();
        for directory in ["src", "tests"] {
            for source in rust_sources(&package_directory.join(directory))? {
                let text = std::fs::read_to_string(&source)
                    .with_context(|| format!("{} cannot be read.", source.display()))?;
                names.extend(property_tests(&text));
            }
        }
        if !names.is_empty() {
            laws.insert(package, names);
        }
    }
    Ok(laws)
}

/// Returns the names of the tests in the `proptest!` blocks of a formatted source.
fn property_tests(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut end: Option<String> = None;
    let mut is_test = false;
    for line in source.lines() {
        let text = line.trim_start();
        if end.is_none() && text.ends_with("proptest! {") {
            end = Some(format!("{}}}", &line[..line.len() - text.len()]));
        } else if end.as_deref() == Some(line) {
            end = None;
        } else if end.is_some() {
            if text == "#[test]" {
                is_test = true;
            } else if let Some((name, _)) = text.strip_prefix("fn ").and_then(|rest| rest.split_once('('))
                && std::mem::take(&mut is_test)
            {
                names.push(name.to_owned());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_of_a_proptest_block_are_found() {
        let source = "\
#[test]
fn plain() {}

proptest::proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    // Helper functions may occur there too.
    #[test]
    fn first(bytes in any::<u8>()) {
        fn helper(of: u8) {}
    }

    #[test]
    #[cfg(unix)]
    fn second(
        bytes in any::<u8>(),
    ) {
    }
}

fn other() {}
";
        assert_eq!(property_tests(source), ["first", "second"]);
    }

    #[test]
    fn tests_of_the_workflow_crate_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let laws = find_property_tests(root).unwrap();
        assert!(
            laws["steplatch-workflow"].contains("crash_at_any_instant_repeats_nothing_and_the_run_ends"),
            "{laws:?}"
        );
    }
}
