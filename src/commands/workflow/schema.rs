//! `steplatch workflow schema`

use std::process::ExitCode;

use clap::Args;
use steplatch_daemon::TerminalTools;
use steplatch_workflow::{documentation, schema};

use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Print a page to read instead, in Markdown
    #[arg(long)]
    documentation: bool,
}

impl Schema {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.documentation {
            print::exactly(&documentation(&TerminalTools))?;
        } else {
            print::json(&schema(&TerminalTools))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
