//! `steplatch workflow graph`

use std::process::ExitCode;

use clap::Args;
use steplatch_workflow::mermaid;

use super::source;
use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// File with the workflow, in JSON, or the name of a saved one
    #[arg(value_name = "FILE|NAME")]
    workflow: String,
}

impl Graph {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let definition = source::definition(&self.workflow)?;
        print::exactly(&mermaid(&definition))?;
        Ok(ExitCode::SUCCESS)
    }
}
