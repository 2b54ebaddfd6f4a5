//! `steplatch runs pause` and `steplatch runs resume`.

use std::process::ExitCode;

use steplatch_protocol::{DaemonPaths, PauseWorkflow, PauseWorkflowReply, ResumeWorkflow};

use super::find;
use crate::failure::{FAILED, Failure};
use crate::{daemon_client, print};

/// Pauses runs.
pub(super) async fn pause(paths: &DaemonPaths, ids: &[String], json: bool) -> Result<ExitCode, Failure> {
    let mut replies = Vec::new();
    for run_id in find_all(paths, ids).await? {
        replies.push(daemon_client::ask(paths, PauseWorkflow { run_id }).await?);
    }
    print_replies(&replies, json)
}

/// Resumes runs.
pub(super) async fn resume(paths: &DaemonPaths, ids: &[String], json: bool) -> Result<ExitCode, Failure> {
    let mut replies = Vec::new();
    for run_id in find_all(paths, ids).await? {
        replies.push(daemon_client::ask(paths, ResumeWorkflow { run_id }).await?);
    }
    print_replies(&replies, json)
}

/// Resolves all ids, before any run changes, because an id may be invalid.
async fn find_all(paths: &DaemonPaths, ids: &[String]) -> Result<Vec<String>, Failure> {
    let mut runs = Vec::new();
    for id in ids {
        runs.push(find(paths, id).await?);
    }
    Ok(runs)
}

fn print_replies(replies: &[PauseWorkflowReply], json: bool) -> Result<ExitCode, Failure> {
    for reply in replies {
        match &reply.error {
            Some(error) => print::error(&format!("{}: {error}", reply.run_id)),
            None if json => {}
            None => print::line(format!("{}: {}", reply.run_id, reply.message))?,
        }
    }
    if json {
        print::json(&replies)?;
    }
    let failed = replies.iter().any(|reply| !reply.success);
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
