//! Where things are: the sources, and what is built from them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The folders of this checkout.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    target: PathBuf,
    cargo: OsString,
}

impl Repository {
    /// Finds the folders from what cargo tells the programs it runs.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let own = std::env::var_os("CARGO_MANIFEST_DIR").context("Run the chores through cargo: cargo xtask.")?;
        let root = Path::new(&own).parent().context("The folder of xtask has no parent.")?.to_owned();
        // Where cargo put this program is where it puts the others, whichever setting decided it.
        let exe = std::env::current_exe().context("The system does not tell where this program lies.")?;
        let target = exe.ancestors().nth(2).context("This program does not lie in a target folder.")?.to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self { root, target, cargo })
    }

    /// Returns the folder of the sources.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of what is built.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Returns a call of the cargo that runs us, in the root folder.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}
