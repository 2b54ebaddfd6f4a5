//! `cargo xtask fuzz`: targets of `crates/fuzz` with random mutations, for a requested time.
//!
//! A target is a directory `crates/CRATE/corpus/TARGET` and the test `fuzz::TARGET` of that crate. The test command
//! checks the corpus and a few fixed mutations. This chore finds new inputs that fail: the test writes them into the
//! corpus. If an input aborts the process, this chore takes that input from the file with the current input, and writes
//! it into the corpus.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::repository::Repository;
use crate::step;

/// The default duration for each target, in minutes.
const DEFAULT_MINUTES: u64 = 3;

/// A fuzzed test.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    name: String,
    package: String,
    corpus: PathBuf,
}

/// Runs one target or all of them and stops at the first that fails.
///
/// `--minutes N` sets the time for each target.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    let (name, minutes) = match arguments {
        [] => (None, DEFAULT_MINUTES),
        ["--minutes", minutes] => (None, parse_minutes(minutes)?),
        [name] => (Some(*name), DEFAULT_MINUTES),
        [name, "--minutes", minutes] | ["--minutes", minutes, name] => (Some(*name), parse_minutes(minutes)?),
        _ => bail!("Usage: cargo xtask fuzz [TARGET] [--minutes N]"),
    };
    let targets = targets(repository.root())?;
    let chosen: Vec<&Target> = targets.iter().filter(|target| name.is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        bail!("There is no target '{}'. There are: {}", name.unwrap_or_default(), names.join(", "));
    }
    for target in chosen {
        fuzz_target(repository, target, minutes)?;
    }
    Ok(())
}

fn parse_minutes(minutes: &str) -> anyhow::Result<u64> {
    minutes.parse().context("--minutes needs a whole number.")
}

fn fuzz_target(repository: &Repository, target: &Target, minutes: u64) -> anyhow::Result<()> {
    let test = format!("fuzz::{}", target.name);
    let current = repository.target().join(format!("fuzz-{}", target.name));
    let build = ["test", "--locked", "--quiet", "--package", &target.package, "--lib", "--tests"];
    step::run(&format!("build {}", target.name), &mut repository.cargo(&[&build[..], &["--no-run"]].concat()))?;
    // The corpus has the input of an earlier abort.
    let _ = std::fs::remove_file(&current);
    let mut command = repository.cargo(&[&build[..], &["--", "--nocapture", &test]].concat());
    command.env("STEPLATCH_FUZZ_SECONDS", (60 * minutes).to_string()).env("STEPLATCH_FUZZ_CURRENT", &current);
    command.stdout(std::process::Stdio::null());
    step::run(&format!("fuzz {}", target.name), &mut command).inspect_err(|_| {
        // A test that only panics removes the file.
        if let Ok(input) = std::fs::read(&current) {
            let file = target.corpus.join(format!("aborts-{:016x}", RandomState::new().hash_one(&input)));
            let outcome = std::fs::write(&file, &input)
                .map_or_else(|error| format!("not written: {error}"), |()| "commit the file with the fix".to_owned());
            eprintln!("xtask: the process was aborted by the input {}; {outcome}", file.display());
        }
    })
}

/// Returns the targets of all crates, by the directories of their corpora.
fn targets(root: &Path) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    for package in std::fs::read_dir(root.join("crates")).context("The crates cannot be listed.")? {
        let package = package?;
        let Ok(corpora) = std::fs::read_dir(package.path().join("corpus")) else { continue };
        for corpus in corpora {
            let corpus = corpus?;
            targets.push(Target {
                name: corpus.file_name().to_string_lossy().into_owned(),
                package: format!("steplatch-{}", package.file_name().to_string_lossy()),
                corpus: corpus.path(),
            });
        }
    }
    targets.sort_by(|first, second| first.name.cmp(&second.name));
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sources::rust_sources;

    #[test]
    fn corpora_and_tests_correspond() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let targets: BTreeSet<PathBuf> = targets(root).unwrap().into_iter().map(|target| target.corpus).collect();
        assert!(targets.len() > 4, "{targets:?}");
        let mut tests = BTreeSet::new();
        for package in std::fs::read_dir(root.join("crates")).unwrap() {
            let package = package.unwrap().path();
            let sources = ["src", "tests"].iter().flat_map(|directory| rust_sources(&package.join(directory)).unwrap());
            for source in sources.filter(|source| source.ends_with("fuzz.rs")) {
                let text = std::fs::read_to_string(source).unwrap();
                let names = text.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split_once('('));
                tests.extend(names.map(|(name, _)| package.join("corpus").join(name)));
            }
        }
        assert_eq!(targets, tests, "directories of corpora, and tests in files called fuzz.rs");
    }
}
