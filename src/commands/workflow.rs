//! `steplatch workflow …`: the library of workflows.

mod capture;
mod diff;
mod export;
mod golden;
mod graph;
mod history;
mod import;
mod lint;
mod list;
mod load;
mod prove;
mod recorded;
mod remove;
mod revert;
mod schema;
mod show;
mod source;
mod test;

use std::process::ExitCode;

use clap::Subcommand;
use steplatch_protocol::DaemonPaths;

use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// List saved workflows of this project and of the user
    List(list::List),
    /// Show a saved workflow: its arguments, its states and how its runs went
    Show(show::Show),
    Capture(capture::Capture),
    Import(import::Import),
    /// Save workflows, to run them by name
    Load(load::Load),
    /// Remove saved workflows
    Rm(remove::Remove),
    History(history::History),
    Diff(diff::Diff),
    Revert(revert::Revert),
    /// Check workflows and report all problems
    Lint(lint::Lint),
    /// Draw a workflow as a Mermaid diagram or an SVG picture
    Graph(graph::Graph),
    Test(test::Test),
    Prove(prove::Prove),
    Export(export::Export),
    /// Print the JSON Schema of workflows
    Schema(schema::Schema),
}

impl Workflow {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List(command) => command.run(paths).await,
            Self::Show(command) => command.run(paths).await,
            Self::Capture(command) => command.run(paths).await,
            Self::Import(command) => command.run(paths).await,
            Self::Load(command) => command.run(paths).await,
            Self::Rm(command) => command.run(paths).await,
            Self::History(command) => command.run(paths).await,
            Self::Diff(command) => command.run(paths).await,
            Self::Revert(command) => command.run(paths).await,
            Self::Lint(command) => command.run(paths).await,
            Self::Graph(command) => command.run(paths).await,
            Self::Test(command) => command.run(paths).await,
            Self::Prove(command) => command.run(paths).await,
            Self::Export(command) => command.run(paths).await,
            Self::Schema(command) => command.run(),
        }
    }
}
