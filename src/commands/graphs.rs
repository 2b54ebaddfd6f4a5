//! `steplatch graph …`: list, show and run graphs.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use steplatch_protocol::{DaemonPaths, ListGraphs, ListGraphsReply, NodeReply, RunGraph};

use super::nodes::{NodeInput, print_sources, print_table};
use crate::daemon_client;
use crate::failure::Failure;
use crate::print::{self, visible};

#[derive(Debug, Subcommand)]
pub(crate) enum Graphs {
    /// List the graphs that this project declares, in steplatch.toml or steplatch.json
    List(List),
    /// Run a graph and print the output of its last step; exit code 0 if it succeeded, 1 if it failed
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only entries with this text in their name or description
    containing: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Name of the graph
    #[arg(add = crate::completion::graphs())]
    name: String,
    #[command(flatten)]
    given: NodeInput,
}

impl Graphs {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List(command) => command.run(paths).await,
            Self::Run(Run { name, given }) => {
                let (input, timeout) = (given.input()?, given.timeout()?);
                let reply = daemon_client::ask(paths, RunGraph { graph_id: name, input, timeout }).await?;
                steps(&reply).iter().for_each(|line| print::remark(line));
                given.print_reply(&reply)
            }
        }
    }
}

impl List {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, ListGraphs { containing: self.containing }).await?;
        if !reply.success {
            return Err(Failure::work(reply.error.as_deref().unwrap_or("the graphs cannot be listed")).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        let ListGraphsReply { graphs, broken, files, directory, .. } = &reply;
        let rows = graphs.iter().map(|graph| {
            let description = visible(graph.description.as_deref().unwrap_or_default());
            vec![graph.id.clone(), graph.steps.len().to_string(), description]
        });
        print_table(["NAME", "STEPS", "DESCRIPTION"], rows)?;
        if graphs.is_empty() && !files.is_empty() {
            print::remark(
                "no graph is declared; write one as [graphs.NAME] with steps = [{ id = \"…\", node = \"…\" }]",
            );
        }
        print_sources(files, directory, broken)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns a line with the outcome of each step, in the order of their starts. Steps that did not start come last.
pub(crate) fn steps(reply: &NodeReply) -> Vec<String> {
    let Some(steps) = reply.attributes.get("steps").and_then(Value::as_object) else { return Vec::new() };
    let order = reply.attributes.get("execution_order").and_then(Value::as_array);
    let started_steps: Vec<&str> = order.into_iter().flatten().filter_map(Value::as_str).collect();
    let not_started = steps.keys().map(String::as_str).filter(|step| !started_steps.contains(step));
    let rows = started_steps.iter().copied().chain(not_started).filter_map(|name| {
        let step = steps.get(name)?;
        let attempts = step["attempts"].as_u64().filter(|attempts| *attempts > 1);
        let attempts = attempts.map(|attempts| format!("({attempts} attempts)"));
        let error = step["error"].as_str().unwrap_or_default();
        let errors = attempts.into_iter().chain(Some(visible(error))).collect::<Vec<_>>().join(" ");
        Some(vec![name.to_owned(), step["status"].as_str().unwrap_or_default().replace('_', " "), errors])
    });
    print::table(&rows.collect::<Vec<_>>()).lines().map(str::to_owned).collect()
}
