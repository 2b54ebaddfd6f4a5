//! The golden transcript (recording) of a workflow, stored next to the file of the workflow.

use std::path::{Path, PathBuf};

use steplatch_capture::Golden;
use steplatch_ids::WorkflowName;
use steplatch_protocol::{DaemonPaths, DescribeWorkflow};

use super::source;
use crate::daemon_client;
use crate::failure::Failure;

/// Reads the golden transcript of a file or of a saved workflow. `None` if there is no transcript.
///
/// # Errors
/// If the transcript is unreadable or invalid.
pub(super) async fn read(workflow: &str, paths: &DaemonPaths) -> Result<Option<Golden>, Failure> {
    let Some(file) = workflow_file(workflow, paths).await? else { return Ok(None) };
    let transcript = path(&file);
    let text = match std::fs::read_to_string(&transcript) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::usage(format!("'{}' cannot be read: {error}", transcript.display()))),
    };
    let parsed = Golden::read(&text);
    parsed.map(Some).map_err(|error| Failure::usage(format!("'{}' is not a recording: {error}", transcript.display())))
}

/// Returns the path of the transcript that belongs to a workflow's file.
pub(super) fn path(file: &Path) -> PathBuf {
    file.with_extension("golden.jsonl")
}

/// Returns the path of the file of a workflow.
async fn workflow_file(workflow: &str, paths: &DaemonPaths) -> Result<Option<PathBuf>, Failure> {
    if source::is_given_as_file(workflow) || workflow.parse::<WorkflowName>().is_err() {
        return Ok(Some(workflow.into()));
    }
    let reply = daemon_client::ask(paths, DescribeWorkflow { name: workflow.to_owned() }).await?;
    Ok(reply.file.map(PathBuf::from))
}
