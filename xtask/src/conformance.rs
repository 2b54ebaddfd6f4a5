//! `cargo xtask conformance`: results of public test suites.
//!
//! The results go into `docs/conformance.md`, between two marks for each suite. The text around the marks stays.

mod mcp;
mod terminals;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::repository::Repository;

/// Runs one of the suites.
pub(crate) fn run(repository: &Repository, arguments: &[&str]) -> anyhow::Result<()> {
    match arguments {
        ["mcp"] => mcp::run(repository),
        ["mcp", ..] => bail!("The suite for MCP servers takes no options: cargo xtask conformance mcp."),
        arguments => terminals::run(repository, arguments),
    }
}

/// Writes the results of a suite into the document.
fn write(document: &Path, suite: &str, results: &str) -> anyhow::Result<()> {
    let begin = format!("<!-- what `cargo xtask {suite}` found begins here -->\n");
    let end = format!("<!-- what `cargo xtask {suite}` found ends here -->\n");
    let text = fs::read_to_string(document).with_context(|| format!("{} could not be read.", document.display()))?;
    let (before, remainder) = text.split_once(&begin).with_context(|| format!("The document has lost {begin}"))?;
    let (_, after) = remainder.split_once(&end).with_context(|| format!("The document has lost {end}"))?;
    let text = format!("{before}{begin}\n{results}\n{end}{after}");
    fs::write(document, text).with_context(|| format!("{} could not be written.", document.display()))
}
