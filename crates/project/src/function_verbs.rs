//! Handlers for functions in the verbs about saved workflows.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use steplatch_ids::WorkflowName;
use steplatch_library::{Counts, FunctionMetadata, Library, LookupError};
use steplatch_protocol::{
    BrokenWorkflow, DeclarationInfo, DeleteWorkflowReply, DescribeWorkflowReply, FunctionSource, WorkflowInfo,
    WorkflowMetadata,
};
use steplatch_python_api::Kind;

use super::directories::LibraryPaths;
use super::functions::LoadedFile;
use super::python;
use super::verbs::{MAX_DESCRIPTION_CHARS, status_name};
use crate::error::DeleteError;
use crate::node_verbs::display_path;
use crate::project::{FunctionWorkflow, Project};
use crate::workflows::not_found;

/// Lists the functions of a project. `machines` in its library take precedence over functions of the same name.
pub(super) fn list(directories: &LibraryPaths, project: &Project, machines: &[WorkflowName]) -> Vec<WorkflowInfo> {
    let mut metadata_by_path: BTreeMap<&Path, (FunctionMetadata, Option<String>)> = BTreeMap::new();
    let infos = project.workflows().map(|workflow| {
        let loaded = &workflow.loaded;
        let (metadata, problem) = metadata_by_path.entry(&loaded.path).or_insert_with(|| load_metadata(workflow));
        let counts = metadata.workflows.get(&workflow.id).cloned().unwrap_or_default();
        let Counts { status, run_count, success_count, last_run, .. } = counts;
        let description = workflow.description.as_deref();
        let is_machine = || machines.iter().any(|machine| machine.as_str() == workflow.id);
        WorkflowInfo {
            name: workflow.id.clone(),
            created_at: Some(metadata.created.clone()).filter(|created| !created.is_empty()),
            kind: "function".to_owned(),
            description: description.map(|text| text.chars().take(MAX_DESCRIPTION_CHARS).collect()),
            status: status_name(status).to_owned(),
            run_count,
            success_count,
            last_run,
            created: metadata.created.clone(),
            file: display_path(&loaded.path),
            // Only a manual change or git can add a machine with the same name to a library.
            hidden: workflow.library == directories.first && is_machine(),
            note: loaded.note.clone().or_else(|| problem.clone()),
            ..WorkflowInfo::default()
        }
    });
    infos.collect()
}

/// Lists the loaded files that cannot be used.
pub(super) fn list_broken(directories: &LibraryPaths, project: &Project) -> Vec<BrokenWorkflow> {
    let in_libraries = project.broken.iter().filter(|broken| {
        let directory = broken.file.parent();
        directories.iter().any(|known| directory == Some(known) || broken.file == known)
    });
    let workflows = in_libraries.map(|broken| BrokenWorkflow {
        file: display_path(&broken.file),
        reason: match &broken.name {
            Some(id) => format!("'{id}': {}", broken.reason),
            None => broken.reason.clone(),
        },
    });
    workflows.collect()
}

/// Returns the full description of a function.
pub(super) fn describe(workflow: &FunctionWorkflow) -> DescribeWorkflowReply {
    let loaded = &workflow.loaded;
    let (metadata, problem) = load_metadata(workflow);
    let counts = metadata.workflows.get(&workflow.id).cloned().unwrap_or_default();
    DescribeWorkflowReply {
        success: true,
        name: Some(workflow.id.clone()),
        kind: Some("function".to_owned()),
        description: workflow.description.clone(),
        file: Some(display_path(&loaded.path)),
        metadata: Some(WorkflowMetadata {
            hash: loaded.hash.to_string(),
            created: metadata.created,
            version: metadata.version,
            status: status_name(counts.status).to_owned(),
            run_count: counts.run_count,
            success_count: counts.success_count,
            last_run: counts.last_run,
            total_states: 0,
        }),
        source: Some(FunctionSource {
            text: loaded.text.to_string(),
            line: workflow.line,
            declares: workflow.declared().iter().map(python::declaration_info).collect(),
            loaded_from: loaded.original.as_deref().map(display_path),
            note: loaded.note.clone().or(problem),
            metadata: declared_metadata(workflow),
        }),
        ..DescribeWorkflowReply::default()
    }
}

/// Returns the metadata in a workflow's declaration.
fn declared_metadata(workflow: &FunctionWorkflow) -> Map<String, Value> {
    let declared = workflow.declared().iter().find(|declared| declared.id == workflow.id);
    match declared.map(|declared| declared.metadata.clone()) {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    }
}

/// Removes the file of a function, unless it declares other functions.
pub(super) fn delete(
    directories: &LibraryPaths,
    workflow: &FunctionWorkflow,
) -> Result<DeleteWorkflowReply, DeleteError> {
    let (id, file) = (&workflow.id, workflow.file());
    let declarations = workflow.declared();
    let other_workflows = declarations.iter().filter(|declared| declared.kind == Kind::Workflow && declared.id != *id);
    let other_workflows: Vec<String> = other_workflows.map(|declared| declared.id.clone()).collect();
    if !other_workflows.is_empty() {
        return Err(DeleteError::Shared { id: id.clone(), path: workflow.loaded.path.clone(), other_workflows, file });
    }
    let mut reply = remove_file(&workflow.library, &workflow.loaded, id)?;
    reply.removed_besides.retain(|declared| declared.id != *id);
    // A workflow of that name in the user's own library is no longer hidden.
    let own_library = directories.second.as_deref().filter(|second| **second != workflow.library).map(Library::open);
    let machine =
        own_library.zip(id.parse::<WorkflowName>().ok()).filter(|(own_library, name)| own_library.get(name).is_ok());
    reply.remaining = machine.map(|(own, name)| display_path(&own.file(&name)));
    Ok(reply)
}

/// Removes a file of functions with everything that it declares.
pub(super) fn delete_file(
    directories: &LibraryPaths,
    project: &Project,
    stem: &str,
) -> Result<DeleteWorkflowReply, DeleteError> {
    let name = format!("{stem}.py");
    let Ok(workflow) = stem.parse::<WorkflowName>() else { return Err(not_found(directories, project, &name).into()) };
    for directory in directories.iter() {
        let library = Library::open(directory);
        let file = library.function_path(&workflow);
        let loaded = project.loaded(&file).cloned();
        let reply = match &loaded {
            Some(loaded) => remove_file(directory, loaded, &name),
            None => match library.delete_functions(&workflow) {
                Ok(()) => Ok(DeleteWorkflowReply {
                    success: true,
                    workflow_name: name.clone(),
                    file: Some(display_path(&file)),
                    ..DeleteWorkflowReply::default()
                }),
                Err(LookupError::NotFound { .. }) => continue,
                Err(cause) => Err(DeleteError::Functions { name: name.clone(), cause }),
            },
        };
        return reply;
    }
    Err(DeleteError::NoFile { file: name })
}

fn remove_file(directory: &Path, loaded: &LoadedFile, name: &str) -> Result<DeleteWorkflowReply, DeleteError> {
    match Library::open(directory).delete_functions(&loaded.name) {
        // Another client has removed it already.
        Ok(()) | Err(LookupError::NotFound { .. }) => {}
        Err(cause) => return Err(DeleteError::Functions { name: name.to_owned(), cause }),
    }
    let declared = loaded.declared.iter().flat_map(|declared| declared.iter());
    Ok(DeleteWorkflowReply {
        success: true,
        workflow_name: name.to_owned(),
        file: Some(display_path(&loaded.path)),
        removed_besides: declared.map(python::declaration_info).collect::<Vec<DeclarationInfo>>(),
        ..DeleteWorkflowReply::default()
    })
}

/// Returns the library's metadata of a function's file, and the problem with it, if any.
fn load_metadata(workflow: &FunctionWorkflow) -> (FunctionMetadata, Option<String>) {
    match Library::open(&workflow.library).function_file(&workflow.loaded.name) {
        Ok(file) => {
            let problem = file.metadata_error.map(|reason| {
                let name = &workflow.loaded.name;
                format!("the run statistics in {name}.meta.json are invalid and were reset: {reason}")
            });
            (file.metadata, problem)
        }
        // The file has been removed since it was listed.
        Err(_) => (FunctionMetadata::default(), None),
    }
}
