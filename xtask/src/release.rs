//! `cargo xtask release`: the tag of a release.
//!
//! The tag has the changes of its version as its message. Pushing it starts the workflow that publishes the packages.

use std::process::Command;

use anyhow::{Context as _, bail};

use crate::repository::Repository;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tags the current commit with the version of the manifest.
///
/// The work tree must be clean, and `CHANGELOG.md` must have the date of the version.
pub(crate) fn run(repository: &Repository) -> anyhow::Result<()> {
    if !git(repository, &["status", "--porcelain"])?.is_empty() {
        bail!("The work tree has changes; commit or stash them.");
    }
    let tag = format!("v{VERSION}");
    if !git(repository, &["tag", "--list", &tag])?.is_empty() {
        bail!("{tag} exists; raise the version in Cargo.toml.");
    }
    let changelog = std::fs::read_to_string(repository.root().join("CHANGELOG.md"))?;
    let changes = find_changes(&changelog, VERSION)?;
    let message = format!("steplatch {VERSION}\n\n{changes}");
    git(repository, &["tag", "--annotate", "--cleanup=verbatim", "--message", &message, &tag])?;
    println!("{tag} is at {}", git(repository, &["log", "-1", "--format=%h %s"])?.trim());
    println!("publish it with: git push origin {tag}");
    Ok(())
}

/// Returns the text of a version in the changelog, below a heading such as `## 0.1.0, 2026-12-24`.
fn find_changes<'t>(changelog: &'t str, version: &str) -> anyhow::Result<&'t str> {
    let beginning = format!("## {version}, ");
    let at = changelog.find(&beginning).with_context(|| format!("CHANGELOG.md has no heading '{beginning}DATE'."))?;
    let (date, rest) = changelog[at + beginning.len()..].split_once('\n').context("CHANGELOG.md ends early.")?;
    let is_date = date.len() == 10 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if !is_date {
        bail!("CHANGELOG.md says '{}' about {version}; write the date of the release instead.", date.trim());
    }
    Ok(rest.split("\n## ").next().unwrap_or_default().trim())
}

fn git(repository: &Repository, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(repository.root()).output()?;
    if !output.status.success() {
        bail!("git {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_version_has_its_date_and_its_changes() {
        let changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0, 2026-12-24\n\n- one\n- two\n\n## 0.1.0, not yet released\n\n- old\n";
        assert_eq!(find_changes(changelog, "0.2.0").unwrap(), "- one\n- two");
        let error = |version| find_changes(changelog, version).unwrap_err().to_string();
        assert_eq!(
            error("0.1.0"),
            "CHANGELOG.md says 'not yet released' about 0.1.0; write the date of the release instead."
        );
        assert_eq!(error("0.3.0"), "CHANGELOG.md has no heading '## 0.3.0, DATE'.");
    }
}
