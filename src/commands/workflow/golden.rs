//! The golden transcript of a workflow, beside its file.

use std::path::{Path, PathBuf};

use steplatch_capture::Golden;
use steplatch_ids::WorkflowName;
use steplatch_protocol::{DaemonPaths, DescribeWorkflow};

use super::source;
use crate::failure::Failure;
use crate::front;

/// Reads the golden transcript of a file or of a saved workflow. None where there is none.
///
/// # Errors
/// If it is unreadable, with the line.
pub(super) async fn read(workflow: &str, paths: &DaemonPaths) -> Result<Option<Golden>, Failure> {
    let Some(file) = file(workflow, paths).await? else { return Ok(None) };
    let golden = path(&file);
    let text = match std::fs::read_to_string(&golden) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::usage(format!("'{}' cannot be read: {error}", golden.display()))),
    };
    let read = Golden::read(&text);
    read.map(Some).map_err(|error| Failure::usage(format!("'{}' is no recording: {error}", golden.display())))
}

/// Returns the file of the recording of a workflow's file.
pub(super) fn path(file: &Path) -> PathBuf {
    file.with_extension("golden.jsonl")
}

/// Returns the file of a workflow.
async fn file(workflow: &str, paths: &DaemonPaths) -> Result<Option<PathBuf>, Failure> {
    if source::is_given_as_file(workflow) || workflow.parse::<WorkflowName>().is_err() {
        return Ok(Some(workflow.into()));
    }
    let reply = front::ask(paths, DescribeWorkflow { name: workflow.to_owned() }).await?;
    Ok(reply.file.map(PathBuf::from))
}
