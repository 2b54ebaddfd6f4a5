//! `steplatch man`: manual pages, generated from the grammar of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Arguments;
use crate::failure::Failure;
use crate::print;

/// Write the manual pages of all commands to a directory
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Man {
    /// Directory for the pages, which is created if it does not exist
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
}

const HELP: &str = "\
Example, for man(1) to find them:
  steplatch man ~/.local/share/man/man1";

impl Man {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let directory = &self.directory;
        let to_failure =
            |error: std::io::Error| Failure::usage(format!("'{}' cannot be written: {error}", directory.display()));
        std::fs::create_dir_all(directory).map_err(to_failure)?;
        clap_mangen::generate_to(Arguments::grammar(), directory).map_err(to_failure)?;
        print::remark(&format!("the pages are in {}", directory.display()));
        Ok(ExitCode::SUCCESS)
    }
}
