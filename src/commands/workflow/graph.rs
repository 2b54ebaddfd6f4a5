//! `steplatch workflow graph`

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_workflow::mermaid;

use super::source;
use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// File with the workflow, in JSON, or the name of a saved one
    #[arg(value_name = "FILE|NAME")]
    workflow: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Graph {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let definition = source::definition(&self.workflow)?;
        let diagram = mermaid(&definition);
        if self.json {
            print::json(&json!({ "mermaid": diagram }))?;
        } else {
            print::exactly(&diagram)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
