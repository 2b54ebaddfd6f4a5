//! `steplatch workflow graph`: a workflow as a diagram.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use steplatch_diagram::{mermaid, svg};
use steplatch_protocol::DaemonPaths;

use super::source;
use crate::failure::Failure;
use crate::print;

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// File with the workflow, in JSON, or the name of a saved one
    #[arg(value_name = "FILE|NAME", add = crate::completion::files_and_workflows())]
    workflow: String,
    /// Draw an SVG picture instead
    #[arg(long)]
    svg: bool,
    /// File to write to
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Graph {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let definition = source::read_definition(&self.workflow, paths).await?;
        let (format, diagram) = if self.svg { ("svg", svg(&definition)) } else { ("mermaid", mermaid(&definition)) };
        if let Some(file) = &self.output {
            std::fs::write(file, &diagram)
                .map_err(|error| Failure::usage(format!("'{}' cannot be written: {error}", file.display())))?;
            if self.json {
                print::json(&json!({"format": format, "file": file}))?;
            }
        } else if self.json {
            print::json(&json!({ format: diagram }))?;
        } else {
            print::unchanged(&diagram)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
