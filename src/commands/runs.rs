//! `steplatch runs …`: list, show, follow and control runs.

mod diff;
mod events;
mod patch;
mod pause;
mod show;
mod stories;
mod verify;
pub(super) mod wait;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use steplatch_ids::RunId;
use steplatch_protocol::{CancelWorkflow, DaemonPaths, DeleteRun, DeleteRunReply, ListWorkflowRuns, RunRecord};

use crate::failure::{FAILED, Failure};
use crate::translation::for_people;
use crate::{completion, daemon_client, pick, print};

/// Maximum number of runs per request.
const MAX_PAGE_RUNS: u32 = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first
    List(List),
    /// Show a run: its steps, what it waits for, its result
    Show {
        /// Run: its id or an unambiguous prefix; without one the only run, or one picked from a list
        #[arg(value_name = "RUN", add = completion::runs())]
        id: Option<String>,
        /// Print JSON, with the full log
        #[arg(long)]
        json: bool,
    },
    /// Print the events of a run, one a line
    Events(events::Events),
    Diff(diff::Diff),
    Patch(patch::Patch),
    Wait(wait::Wait),
    /// Pause runs after their current step
    Pause {
        /// Runs: ids or unambiguous prefixes
        #[arg(required = true, value_name = "RUN", add = completion::runs_in_progress())]
        ids: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume paused runs
    Resume {
        /// Runs: ids or unambiguous prefixes
        #[arg(required = true, value_name = "RUN", add = completion::runs_in_progress())]
        ids: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Verify(verify::Verify),
    /// Cancel runs
    Cancel {
        /// Runs: ids or unambiguous prefixes
        #[arg(required = true, value_name = "RUN", add = completion::runs_in_progress())]
        ids: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the records of runs that have ended, with the runs that they started
    Delete {
        /// Runs: ids or unambiguous prefixes
        #[arg(required = true, value_name = "RUN", add = completion::runs())]
        ids: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME", add = completion::workflows())]
    workflow: Option<String>,
    /// Only runs in this state: pending, running, waiting, completed, failed or cancelled
    #[arg(long, value_name = "STATE", add = completion::run_states())]
    state: Option<String>,
    /// Only runs that started at this time or later: an age (30m, 2h, 3d), a day, or a timestamp (ISO 8601)
    #[arg(long, value_name = "TIME", value_parser = super::moment::parse_moment)]
    since: Option<String>,
    /// Only runs that started before this time
    #[arg(long, value_name = "TIME", value_parser = super::moment::parse_moment)]
    until: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Runs {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List(command) => command.run(paths).await,
            Self::Show { id, json } => show::show(paths, &pick::run(paths, id).await?, json).await,
            Self::Events(command) => command.run(paths).await,
            Self::Wait(command) => command.run(paths).await,
            Self::Verify(command) => command.run(paths).await,
            Self::Diff(command) => command.run(paths).await,
            Self::Patch(command) => command.run(paths).await,
            Self::Pause { ids, json } => pause::pause(paths, &ids, json).await,
            Self::Resume { ids, json } => pause::resume(paths, &ids, json).await,
            Self::Cancel { ids, json } => cancel(paths, &ids, json).await,
            Self::Delete { ids, json } => delete(paths, &ids, json).await,
        }
    }
}

impl List {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let Self { workflow, state, since, until, limit, .. } = self;
        let has_filter = [&workflow, &state, &since, &until].into_iter().any(Option::is_some);
        let request = ListWorkflowRuns { workflow_id: workflow, state, since, until, before: None, limit: Some(limit) };
        let runs = request_runs(paths, request).await?;
        if self.json {
            print::json(&serde_json::json!({ "runs": runs }))?;
        } else if runs.is_empty() {
            print::remark(if has_filter {
                "no run matches"
            } else {
                "there are no runs; start one with: steplatch run FILE (steplatch examples lists some)"
            });
        } else {
            let head = ["ID", "WORKFLOW", "STATE", "STARTED", "DURATION", "DETAILS"].map(str::to_owned).to_vec();
            let rows: Vec<_> = std::iter::once(head).chain(runs.iter().map(format_row)).collect();
            for line in print::list(&rows, 2, print::width()) {
                print::line(line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Formats a run as a row of a table: its id, workflow, state, start, duration, and details.
pub(crate) fn format_row(run: &RunRecord) -> Vec<String> {
    let details = match (&run.pending_gate, &run.error) {
        (Some(gate), _) if run.pending_gates.len() > 1 => {
            format!("{} (and {} more)", gate.prompt, run.pending_gates.len() - 1)
        }
        (Some(gate), _) if gate.choices.is_empty() => gate.prompt.clone(),
        (Some(gate), _) => format!("{} ({} choices)", gate.prompt, gate.choices.len()),
        (None, Some(_)) if run.locked => "locked; unlock with: steplatch approver unlock".to_owned(),
        // The last line of a traceback names the exception.
        (None, Some(error)) => for_people(error.trim_end().lines().next_back().unwrap_or_default()),
        (None, None) => String::new(),
    };
    vec![
        run.run_id.clone(),
        run.workflow_id.clone(),
        describe_state(run),
        print::ago(&run.started_at),
        run_duration(run),
        print::visible(&details),
    ]
}

/// Describes the state of a run, including a pause and repairs.
fn describe_state(run: &RunRecord) -> String {
    let paused = run.paused.as_ref().map(|_| ", paused").unwrap_or_default();
    let repaired = if run.repairs.is_empty() { "" } else { ", repaired" };
    format!("{}{paused}{repaired}", run.state)
}

/// Returns the lines that show a run.
pub(crate) async fn describe(paths: &DaemonPaths, id: &str) -> Result<Vec<String>, Failure> {
    show::describe(paths, id).await
}

/// Returns the duration of a run, until now if it has not ended.
fn run_duration(run: &RunRecord) -> String {
    let time = print::elapsed_between(&run.started_at, run.completed_at.as_deref());
    time.map_or_else(|| "-".to_owned(), print::duration)
}

/// Returns the runs of a workflow or in a state, newest first.
pub(crate) async fn list_runs(
    paths: &DaemonPaths,
    workflow: Option<String>,
    state: Option<String>,
    limit: u32,
) -> Result<Vec<RunRecord>, Failure> {
    let request = ListWorkflowRuns { workflow_id: workflow, state, limit: Some(limit), ..ListWorkflowRuns::default() };
    request_runs(paths, request).await
}

/// Returns the runs that the daemon lists, newest first.
async fn request_runs(paths: &DaemonPaths, request: ListWorkflowRuns) -> Result<Vec<RunRecord>, Failure> {
    let reply = daemon_client::ask(paths, request).await?;
    if !reply.success {
        return Err(Failure::usage(reply.error.unwrap_or_else(|| "the daemon did not list the runs".into())));
    }
    Ok(reply.runs)
}

/// Returns all runs in a state, or in any state, newest first.
pub(crate) async fn all(paths: &DaemonPaths, state: Option<&str>) -> Result<Vec<RunRecord>, Failure> {
    let mut runs: Vec<RunRecord> = Vec::new();
    loop {
        let before = runs.last().map(|run| run.run_id.clone());
        let state = state.map(str::to_owned);
        let page = ListWorkflowRuns { state, before, limit: Some(MAX_PAGE_RUNS), ..ListWorkflowRuns::default() };
        let page = request_runs(paths, page).await?;
        let is_last = page.len() < MAX_PAGE_RUNS as usize;
        runs.extend(page);
        if is_last {
            return Ok(runs);
        }
    }
}

/// Returns the id of the run with this id or unambiguous prefix.
pub(crate) async fn find(paths: &DaemonPaths, prefix: &str) -> Result<String, Failure> {
    if prefix.parse::<RunId>().is_ok() {
        return Ok(prefix.to_owned());
    }
    let runs = all(paths, None).await?;
    let has_prefix = |run: &&RunRecord| {
        let digits = run.run_id.strip_prefix("run_").unwrap_or(&run.run_id);
        !prefix.is_empty() && (run.run_id.starts_with(prefix) || digits.starts_with(prefix))
    };
    let matches: Vec<&RunRecord> = runs.iter().filter(has_prefix).collect();
    match matches[..] {
        [run] => Ok(run.run_id.clone()),
        [] => Err(Failure::usage(format!(
            "no run id starts with '{}'; list runs with: steplatch runs list",
            print::visible(prefix)
        ))),
        _ => {
            let rows: Vec<_> = matches.iter().map(|run| format_row(run)).collect();
            let candidates = print::table(&rows).replace('\n', "\n  ");
            Err(Failure::usage(format!(
                "'{}' is ambiguous; it matches these runs:\n  {candidates}",
                print::visible(prefix)
            )))
        }
    }
}

/// Returns the failure for an unknown run.
pub(crate) fn not_found(id: &str) -> Failure {
    Failure::usage(format!("run '{id}' not found; list runs with: steplatch runs list"))
}

/// Returns the runs of some ids or prefixes. Looks all of them up first, so that an invalid id changes no run.
async fn find_all(paths: &DaemonPaths, ids: &[String]) -> Result<Vec<String>, Failure> {
    let mut runs = Vec::new();
    for id in ids {
        let run = find(paths, id).await?;
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    Ok(runs)
}

async fn delete(paths: &DaemonPaths, ids: &[String], json: bool) -> Result<ExitCode, Failure> {
    let mut replies = Vec::new();
    for run in find_all(paths, ids).await? {
        // A refusal by the daemon names no run.
        let reply = daemon_client::ask(paths, DeleteRun { run_id: run.clone() }).await?;
        replies.push(DeleteRunReply { run_id: run, ..reply });
    }
    for reply in &replies {
        if !reply.success {
            let reason = reply.error.as_deref().unwrap_or("no reason was given");
            print::error(&format!("run '{}' was not deleted: {}", reply.run_id, print::visible(reason)));
        } else if !json {
            let other_count = match reply.deleted.saturating_sub(1) {
                0 => String::new(),
                1 => ", with 1 run that it started".to_owned(),
                count => format!(", with {count} runs that it started"),
            };
            print::line(format!("{}: Record deleted{other_count}", reply.run_id))?;
        }
    }
    if json {
        print::json(&replies)?;
    }
    let is_complete = replies.iter().all(|reply| reply.success);
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn cancel(paths: &DaemonPaths, ids: &[String], json: bool) -> Result<ExitCode, Failure> {
    let mut replies = Vec::new();
    for run in find_all(paths, ids).await? {
        replies.push(daemon_client::ask(paths, CancelWorkflow { run_id: run }).await?);
    }
    let failed = replies.iter().any(|reply| !reply.success);
    for reply in &replies {
        if !reply.success {
            let reason = reply.error.as_deref().unwrap_or("no reason was given");
            print::error(&format!("run '{}' was not cancelled: {}", reply.run_id, print::visible(reason)));
        } else if !json {
            print::line(format!("{}: {}", reply.run_id, reply.message))?;
        }
    }
    if json {
        print::json(&replies)?;
    }
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
