//! `steplatch workflow graph FILE`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use steplatch_daemon::TerminalTools;
use steplatch_workflow::{Definition, mermaid};

use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// File with the workflow, in JSON
    file: PathBuf,
}

impl Graph {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::usage(format!("'{}' can not be read: {error}", self.file.display())))?;
        let definition = Definition::from_text(&text, &TerminalTools).map_err(|problems| {
            Failure::usage(format!("the workflow in '{}' is not valid:\n{problems}", self.file.display()))
        })?;
        print::exactly(&mermaid(&definition))?;
        Ok(ExitCode::SUCCESS)
    }
}
