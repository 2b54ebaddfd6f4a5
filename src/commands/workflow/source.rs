//! Resolution of a file or name to a workflow.

use std::path::{Path, PathBuf};

use steplatch_daemon::TerminalTools;
use steplatch_ids::WorkflowName;
use steplatch_protocol::{DaemonPaths, DescribeWorkflow};
use steplatch_workflow::{Definition, Problems};

use crate::commands::run::same_named_file;
use crate::daemon_client;
use crate::failure::Failure;

/// Content of a file or of a saved workflow.
pub(super) enum WorkflowSource {
    /// A workflow, valid or not.
    Workflow(Box<Result<Definition, Problems>>),
    /// A file of functions in the library.
    Function(PathBuf),
    /// Unreadable content, with the reason.
    Unreadable(String),
}

/// Reads the workflow in a file or, if `workflow` is not a file, the saved workflow of that name.
pub(super) async fn read(workflow: &str, paths: &DaemonPaths) -> Result<WorkflowSource, Failure> {
    // Only a name needs the daemon. A path with an extension is not a name.
    let is_name = !is_given_as_file(workflow) && workflow.parse::<WorkflowName>().is_ok();
    if !is_name {
        return Ok(match std::fs::read_to_string(workflow) {
            Ok(text) => WorkflowSource::Workflow(Box::new(Definition::from_text(&text, &TerminalTools))),
            Err(error) => WorkflowSource::Unreadable(format!("the file cannot be read: {error}")),
        });
    }
    let reply = daemon_client::ask(paths, DescribeWorkflow { name: workflow.to_owned() }).await?;
    Ok(match reply.definition {
        Some(definition) => WorkflowSource::Workflow(Box::new(Definition::parse(&definition, &TerminalTools))),
        None if reply.source.is_some() => WorkflowSource::Function(reply.file.unwrap_or_default().into()),
        None => {
            let error = reply.error.unwrap_or_else(|| "there is no such workflow".to_owned());
            WorkflowSource::Unreadable(match same_named_file(workflow) {
                Some(file) => format!("no workflow is saved by that name; did you mean the file {}", file.display()),
                None => format!("there is no file of that name. {error}"),
            })
        }
    })
}

/// Returns whether `workflow` is an existing file or pipe. A directory does not count, because programs may create a
/// directory with the name of a workflow.
pub(super) fn is_given_as_file(workflow: &str) -> bool {
    let path = Path::new(workflow);
    path.exists() && !path.is_dir()
}

/// Reads a workflow like [`read`] and fails unless it is a valid machine.
pub(super) async fn read_definition(workflow: &str, paths: &DaemonPaths) -> Result<Definition, Failure> {
    match read(workflow, paths).await? {
        WorkflowSource::Workflow(parsed) => {
            parsed.map_err(|problems| Failure::usage(format!("the workflow in '{workflow}' is not valid:\n{problems}")))
        }
        WorkflowSource::Function(file) => {
            let file = file.display();
            Err(Failure::usage(format!("'{workflow}' is a function, in {file}; only machines can be drawn and tested")))
        }
        WorkflowSource::Unreadable(error) => Err(Failure::usage(format!("'{workflow}': {error}"))),
    }
}
