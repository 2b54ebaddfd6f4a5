//! The player of asciinema, which the tests play our recordings with.
//!
//! A package of npm in `player` of the target folder, beside a note of what was
//! installed.

use std::fs;
use std::process::Command;

use anyhow::Context as _;

use crate::clients::quietly;
use crate::repository::Repository;

const PACKAGE: &str = "asciinema-player@3.17.0";

/// Installs it, if it is not there yet.
pub(crate) fn ensure(repository: &Repository) -> anyhow::Result<()> {
    let folder = repository.target().join("player");
    let note = folder.join("installed");
    if fs::read_to_string(&note).is_ok_and(|installed| installed == PACKAGE) {
        return Ok(());
    }
    fs::create_dir_all(&folder).with_context(|| format!("{} could not be made.", folder.display()))?;
    let mut npm = Command::new("npm");
    // The player itself is one package; what it is built from is not needed, and no script has to run.
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&folder)
        .arg(PACKAGE);
    quietly(&mut npm)
        .with_context(|| format!("{PACKAGE} could not be installed; the network or a mirror is needed once."))?;
    fs::write(&note, PACKAGE).with_context(|| format!("{} could not be written.", note.display()))
}
