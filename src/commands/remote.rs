//! `steplatch remote …`: the state of the remote services.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use steplatch_protocol::{
    DaemonPaths, ListRemoteWorkflows, ListRemoteWorkflowsReply, RefreshWorkflows, RefreshWorkflowsReply, RemoteInfo,
    RemoteWorkflowInfo,
};

use crate::daemon_client;
use crate::failure::Failure;
use crate::print::{self, visible};

#[derive(Debug, Subcommand)]
pub(crate) enum Remote {
    /// List remote workflow services, their status and workflows
    List(ServiceSelection),
    /// Fetch the workflow lists again and report changes
    Refresh(ServiceSelection),
}

#[derive(Debug, Args)]
pub(crate) struct ServiceSelection {
    /// Only this service
    #[arg(add = crate::completion::remotes())]
    remote: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Remote {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List(ServiceSelection { remote, json }) => {
                let reply = daemon_client::ask(paths, ListRemoteWorkflows { remote }).await?;
                if !reply.success {
                    return Err(Failure::work(reply.error.clone().unwrap_or_default()).with(&reply));
                }
                if json {
                    print::json(&reply)?;
                    return Ok(ExitCode::SUCCESS);
                }
                list(&reply)
            }
            Self::Refresh(ServiceSelection { remote, json }) => {
                let reply = daemon_client::ask(paths, RefreshWorkflows { remote }).await?;
                if !reply.success {
                    return Err(Failure::work(reply.error.clone().unwrap_or_default()).with(&reply));
                }
                if json {
                    print::json(&reply)?;
                } else if reply.remotes.is_empty() {
                    print::remark(NO_SERVICES);
                } else {
                    let RefreshWorkflowsReply { added, updated, removed, unchanged, .. } = reply;
                    print::line(format!("{added} added, {updated} updated, {removed} removed, {unchanged} unchanged"))?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Message if no service is configured.
const NO_SERVICES: &str =
    "no remote service is configured; add a [[remote]] to the configuration (steplatch config show names its file)";

fn list(reply: &ListRemoteWorkflowsReply) -> Result<ExitCode, Failure> {
    let ListRemoteWorkflowsReply { remotes, workflows, .. } = reply;
    if remotes.is_empty() {
        print::remark(NO_SERVICES);
        return Ok(ExitCode::SUCCESS);
    }
    let head =
        ["SERVICE", "STATE", "WORKFLOWS", "RUNNING", "QUEUED", "LAST LIST", "ADDRESS"].map(str::to_owned).to_vec();
    let rows = remotes.iter().map(|remote| {
        vec![
            remote.name.clone(),
            describe_state(remote).to_owned(),
            remote.workflows.to_string(),
            remote.running.to_string(),
            remote.queued.to_string(),
            remote.last_discovery.as_deref().map_or_else(|| "never".to_owned(), print::ago),
            visible(&remote.base_url),
        ]
    });
    print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    for remote in remotes {
        if let Some(error) = &remote.error {
            print::remark(&format!("{}: {}", remote.name, visible(error)));
        }
        for skipped in &remote.skipped {
            print::remark(&format!("{}: {}", remote.name, visible(skipped)));
        }
    }
    if !workflows.is_empty() {
        print::line("")?;
        let head = ["TOOL", "SERVICE", "VERSION", "WAITS", "DESCRIPTION"].map(str::to_owned).to_vec();
        let rows = workflows.iter().map(row);
        print::line(print::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    }
    let changed = workflows.iter().filter_map(|workflow| Some((workflow, workflow.changed.as_deref()?)));
    for (workflow, changed) in changed {
        let (tool, ago) = (&workflow.tool, print::ago(changed));
        print::remark(&format!(
            "{tool}: the service changed its title, description or schema {ago}; check it before you trust it"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe_state(remote: &RemoteInfo) -> &'static str {
    match (remote.enabled, remote.reachable) {
        (false, _) => "disabled",
        (true, true) => "reachable",
        // The first request has neither succeeded nor failed yet.
        (true, false) if remote.error.is_none() => "being asked",
        (true, false) => "not reachable",
    }
}

fn row(workflow: &RemoteWorkflowInfo) -> Vec<String> {
    let waits = if workflow.execution_type == "sync" { "to its end" } else { "as asked" };
    vec![
        workflow.tool.clone(),
        workflow.remote.clone(),
        visible(&workflow.version),
        waits.to_owned(),
        visible(&workflow.description),
    ]
}
