//! The paths of the checkout: the sources, and the build output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The directories of this checkout.
#[derive(Debug)]
pub(crate) struct Repository {
    root: PathBuf,
    target: PathBuf,
    cargo: OsString,
}

impl Repository {
    /// Derives the directories from the environment that cargo sets.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let manifest_dir =
            std::env::var_os("CARGO_MANIFEST_DIR").context("Run the chores through cargo: cargo xtask.")?;
        let root = Path::new(&manifest_dir).parent().context("The directory of xtask has no parent.")?.to_owned();
        // The directory of this program has all programs of the build, with any setting of the target directory.
        let exe = std::env::current_exe().context("The path of this program is unknown.")?;
        let target = exe.ancestors().nth(2).context("This program is not in a target directory.")?.to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self { root, target, cargo })
    }

    /// Returns the directory of the sources.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of the build output.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Returns a command of the cargo that runs this chore, in the root directory.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}
