//! A workflow that a person means by a file or by its name.

use std::path::{Path, PathBuf};

use steplatch_daemon::TerminalTools;
use steplatch_ids::WorkflowName;
use steplatch_library::{Library, LookupError};
use steplatch_workflow::Definition;

use crate::failure::Failure;

/// The folder of saved workflows, in a project.
const FOLDER: &str = ".terminal_control_workflows";

/// Returns the workflow in a file or, where `workflow` is the name of none, the one that is saved under that name.
pub(super) fn definition(workflow: &str) -> Result<Definition, Failure> {
    let file = Path::new(workflow);
    match workflow.parse::<WorkflowName>() {
        Ok(name) if !file.exists() => saved(&name),
        _ => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("'{workflow}' can not be read: {error}")))?;
            Definition::from_text(&text, &TerminalTools)
                .map_err(|problems| Failure::usage(format!("the workflow in '{workflow}' is not valid:\n{problems}")))
        }
    }
}

/// Returns a workflow of the library that is meant in this folder. The only place here that knows how one is
/// found by its name; DESCRIBE_WORKFLOW is to answer it.
fn saved(name: &WorkflowName) -> Result<Definition, Failure> {
    let here = std::env::current_dir().map_err(|error| Failure::system("this folder has no name", &error))?;
    let Some(folder) = library_above(&here) else {
        return Err(Failure::usage(format!(
            "there is neither a file nor a saved workflow '{name}': no folder {FOLDER} in '{}' or above",
            here.display()
        )));
    };
    let library = Library::open(&folder);
    let stored = library.get(name).map_err(|error| {
        let known = if matches!(error, LookupError::NotFound { .. }) { available(&library) } else { String::new() };
        Failure::usage(format!("'{name}' is no file, and {error}{known}"))
    })?;
    Definition::parse(&stored.definition, &TerminalTools)
        .map_err(|problems| Failure::usage(format!("the saved workflow '{name}' is not valid:\n{problems}")))
}

/// Says which workflows there are; nothing where none can be listed.
fn available(library: &Library) -> String {
    let names: Vec<String> = library
        .list()
        .map(|listing| listing.entries.iter().map(|entry| entry.name.to_string()).collect())
        .unwrap_or_default();
    if names.is_empty() { "; it is empty".to_owned() } else { format!("; it has {}", names.join(", ")) }
}

fn library_above(here: &Path) -> Option<PathBuf> {
    here.ancestors().map(|folder| folder.join(FOLDER)).find(|folder| folder.is_dir())
}
