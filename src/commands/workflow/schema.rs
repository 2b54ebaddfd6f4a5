//! `steplatch workflow schema`: the JSON Schema of workflows.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_daemon::TerminalTools;
use steplatch_workflow::{documentation, schema};

use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Print the documentation in Markdown instead
    #[arg(long)]
    documentation: bool,
    /// Print JSON: the schema, or with --documentation an object with the text
    #[arg(long)]
    json: bool,
}

impl Schema {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.documentation && self.json {
            print::json(&json!({ "documentation": documentation(&TerminalTools) }))?;
        } else if self.documentation {
            print::unchanged(&documentation(&TerminalTools))?;
        } else {
            print::json(&schema(&TerminalTools))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
