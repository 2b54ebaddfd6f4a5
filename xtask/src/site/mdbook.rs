//! The program mdBook: its installation, its configuration and its command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use crate::programs;
use crate::repository::Repository;
use crate::step;

/// The version of mdBook. Its pages and their anchors differ between versions.
const VERSION: &str = "0.5.4";

/// The directory with the pages, in the configuration's directory.
pub(super) const SOURCE: &str = "src";

/// The configuration. Preprocessors are off, so that no page is read as a template, and so are the extensions of
/// Markdown that git hosts do not show.
pub(super) const CONFIGURATION: &str = r#"[book]
title = "Steplatch"
description = "Real terminals for AI agents and people, and durable workflows"
language = "en"
src = "src"

[build]
create-missing = false
use-default-preprocessors = false

[output.html]
smart-punctuation = false
definition-lists = false
no-section-label = true

[output.html.fold]
enable = true

[output.html.print]
enable = false
"#;

/// Returns the path of mdBook at [`VERSION`]. Uses the program in `PATH` if its version matches, else the program in
/// the target directory. Installs a missing program there.
pub(super) fn ensure(repository: &Repository) -> anyhow::Result<PathBuf> {
    let tools = repository.target().join("site-tools");
    let installed = tools.join("bin/mdbook");
    if let Some(program) = programs::find("mdbook").filter(|program| is_current(program)) {
        return Ok(program);
    }
    if is_current(&installed) {
        return Ok(installed);
    }
    eprintln!("xtask: installing mdbook {VERSION}; this takes some minutes");
    // Skip the features `serve` and `watch`, because they pull in half of the dependencies.
    let mut install = repository.cargo(&["install", "mdbook", "--locked", "--version", VERSION]);
    install.args(["--no-default-features", "--features", "search", "--quiet", "--root"]).arg(&tools);
    // Without this variable, cargo removes the build output of the installation.
    step::run("installation of mdbook", install.env_remove("CARGO_TARGET_DIR"))?;
    if !is_current(&installed) {
        bail!("mdbook was installed, but {} is not version {VERSION}.", installed.display());
    }
    Ok(installed)
}

/// Returns whether a program is mdBook at [`VERSION`].
fn is_current(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == format!("mdbook v{VERSION}").as_bytes())
}

/// Returns the command that makes a site of a directory with sources.
pub(super) fn build(mdbook: &Path, sources: &Path, site: &Path) -> Command {
    let mut command = Command::new(mdbook);
    command.arg("build").arg(sources).arg("--dest-dir").arg(site);
    command.env("MDBOOK_LOG", "warn").env("RUST_LOG", "warn");
    command
}
