//! `steplatch workflow history NAME`: the versions of a machine.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, ForgetWorkflowVersions, ListWorkflowVersions, WorkflowVersion};

use crate::failure::Failure;
use crate::print::{self, QUIET, visible};
use crate::{completion, daemon_client};

/// List the versions of a workflow, each with its time, author and reason
///
/// The library keeps a version whenever the behaviour of a workflow changes: the newest 50, even after the removal of
/// the workflow. 'show NAME@2' shows a version, 'diff NAME' the last changes, and 'revert NAME' restores the previous
/// version.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Name of the workflow
    #[arg(add = completion::workflows())]
    name: String,
    /// Forget all versions but the current one
    #[arg(long)]
    forget: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl History {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let name = self.name;
        if self.forget {
            return forget(paths, name, self.json).await;
        }
        let reply = daemon_client::ask(paths, ListWorkflowVersions { name }).await?;
        if let Some(error) = reply.error.clone() {
            return Err(Failure::usage(error).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        let head = ["VERSION", "SAVED", "BY", "THROUGH", "WHY"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(reply.versions.iter().map(row)).collect();
        print::table(&rows).lines().try_for_each(print::line)?;
        if reply.versions.iter().all(|version| !version.is_current) {
            let name = &reply.workflow_name;
            print::line(format!(
                "{QUIET}{name} was removed; restore it with: steplatch workflow revert {name}{QUIET:#}"
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Forgets all versions of a workflow except the current one.
pub(super) async fn forget(paths: &DaemonPaths, name: String, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ForgetWorkflowVersions { name }).await?;
    if let Some(error) = reply.error.clone() {
        return Err(Failure::usage(error).with(&reply));
    }
    if json {
        print::json(&reply)?;
    } else {
        let versions = if reply.forgotten == 1 { "version" } else { "versions" };
        print::line(format!("forgot {} {versions} of {}", reply.forgotten, reply.workflow_name))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(version: &WorkflowVersion) -> Vec<String> {
    let WorkflowVersion { version, is_current, saved_at, by, through, reason, .. } = version;
    let text = |text: &Option<String>| text.as_deref().map(visible).unwrap_or_default();
    let saved = match saved_at {
        Some(saved) => print::ago(saved),
        None => "unknown".to_owned(),
    };
    let author = if saved_at.is_none() && by.is_none() { "edited file, or older".to_owned() } else { text(by) };
    let current_mark = if *is_current { " now" } else { "" };
    vec![format!("{version}{current_mark}"), saved, author, text(through), text(reason)]
}
