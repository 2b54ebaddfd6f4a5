//! `steplatch workflow …`

mod graph;
mod lint;
mod schema;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// Say everything that is wrong with workflows, and where
    Lint(lint::Lint),
    /// Draw a workflow as a diagram in Mermaid's language
    Graph(graph::Graph),
    /// Print the JSON Schema of workflows
    Schema(schema::Schema),
}

impl Workflow {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Lint(command) => command.run(),
            Self::Graph(command) => command.run(),
            Self::Schema(command) => command.run(),
        }
    }
}
