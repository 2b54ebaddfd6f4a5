//! `steplatch workflow list`: the workflows of the library.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, ListWorkflows, ListWorkflowsReply, WorkflowInfo};

use crate::failure::Failure;
use crate::print::{BAD, GOOD, QUIET, STRONG};
use crate::{daemon_client, print};

/// Maximum number of workflows that the daemon lists.
const MAX_WORKFLOWS: u32 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only entries with this text in their name or description
    containing: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply =
            daemon_client::ask(paths, ListWorkflows { containing: self.containing, limit: MAX_WORKFLOWS }).await?;
        if !reply.success {
            return Err(Failure::work(reply.error.as_deref().unwrap_or("the library cannot be read")).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        } else {
            show(&reply)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(reply: &ListWorkflowsReply) -> std::io::Result<()> {
    let ListWorkflowsReply { workflows, total, broken, library, .. } = reply;
    if workflows.is_empty() && broken.is_empty() {
        print::remark(&format!(
            "no workflows are saved; steplatch workflow load FILE saves one in {library} (steplatch examples lists some)"
        ));
    }
    if !workflows.is_empty() {
        let head = ["NAME", "KIND", "STATUS", "RUNS", "LAST RUN", "DESCRIPTION"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(workflows.iter().map(row)).collect();
        for (index, line) in print::table(&rows).lines().enumerate() {
            let line = print::width().map_or_else(|| line.to_owned(), |width| print::fitted(line, width));
            let workflow = index.checked_sub(1).and_then(|index| workflows.get(index));
            print::line(colour_row(&line, workflow))?;
        }
        print::remark(&format!("in {}", directories(workflows).join(" and ")));
    }
    for (file, note) in notes(workflows) {
        print::remark(&format!("{file}: {}", print::visible_lines(note, "  ")));
    }
    if workflows.len() < *total {
        print::remark(&format!("{} of {total} are shown; add a text to search for", workflows.len()));
    }
    for broken in broken {
        let reason = print::visible_lines(&broken.reason, "  ");
        print::line(format!("{BAD}broken{BAD:#} {}: {reason}", broken.file))?;
    }
    Ok(())
}

fn row(workflow: &WorkflowInfo) -> Vec<String> {
    let WorkflowInfo { name, kind, description, status, run_count, success_count, last_run, hidden, .. } = workflow;
    let runs = if *run_count == 0 { "-".to_owned() } else { format!("{success_count}/{run_count}") };
    let status = if *hidden { "hidden".to_owned() } else { status.clone() };
    let last_run = last_run.as_deref().map_or_else(|| "-".to_owned(), print::ago);
    // Show only the first line, because a description may be long.
    let description = description.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
    vec![name.clone(), kind.clone(), status, runs, last_run, print::visible(description)]
}

fn colour_row(line: &str, workflow: Option<&WorkflowInfo>) -> String {
    match workflow {
        None => format!("{STRONG}{line}{STRONG:#}"),
        Some(workflow) if workflow.hidden => format!("{QUIET}{line}{QUIET:#}"),
        Some(workflow) if workflow.status == "proven" => line.replacen("proven", &format!("{GOOD}proven{GOOD:#}"), 1),
        Some(_) => line.to_owned(),
    }
}

/// Returns the remarks about files, each once.
fn notes(workflows: &[WorkflowInfo]) -> Vec<(&str, &str)> {
    let mut notes: Vec<(&str, &str)> = Vec::new();
    for workflow in workflows {
        let note = workflow.note.as_deref().map(|note| (workflow.file.as_str(), note));
        notes.extend(note.filter(|note| !notes.contains(note)));
    }
    notes
}

/// Returns the directories of the workflows without duplicates.
fn directories(workflows: &[WorkflowInfo]) -> Vec<String> {
    let mut directories: Vec<String> = Vec::new();
    for workflow in workflows {
        let directory = workflow.file.rsplit_once('/').map_or("", |(directory, _)| directory);
        if !directories.iter().any(|known| known == directory) {
            directories.push(directory.to_owned());
        }
    }
    directories
}
