//! Saved workflows: finds them by name, saves them, and counts their runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_access::Caller;
use steplatch_ids::{RunId, WorkflowName};
use steplatch_library::{Author, Library, LookupError, Metadata, SaveOutcome, Signature, Stored};

use crate::directories::{LibraryPaths, LibrarySearch};
use crate::disk::BlockingPool;
use crate::error::{DiskError, FindError, KeepError, WorkflowNotFound, with_causes};
use crate::functions::FunctionFiles;
use crate::project::{FunctionWorkflow, Project};
use crate::projects::Projects;
use crate::workers::Workers;

/// Maximum number of names in a list of available workflows.
const MAX_LISTED_NAMES: usize = 50;

/// All saved workflows. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workflows {
    pub(crate) disk: BlockingPool,
    pub(crate) functions: FunctionFiles,
    pub(crate) projects: Projects,
}

/// A saved workflow of either kind.
#[derive(Debug, Clone)]
pub enum WorkflowRef {
    /// A machine.
    Machine(SavedMachine),
    /// A function.
    Function(Box<FunctionWorkflow>),
}

/// A saved machine to run.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedMachine {
    /// The name.
    pub name: WorkflowName,
    /// The unvalidated definition.
    pub definition: Value,
    /// Digest for counting its runs.
    pub(crate) signature: Signature,
    /// The directory of the library that contains the workflow and counts its runs.
    pub directory: PathBuf,
}

/// The interface for runs.
impl Workflows {
    /// Returns the workflow that `name` refers to for `caller`: the workflow in the caller's project, otherwise the
    /// user's own.
    ///
    /// # Errors
    ///
    /// If there is no such workflow (with the available names), its file is broken, or the disk does not answer.
    #[boxed]
    pub async fn find(&self, caller: &Caller, name: &str) -> Result<WorkflowRef, FindError> {
        let project = self.projects.find_project(caller).await?;
        let (library_search, name) = (LibrarySearch::for_caller(caller), name.to_owned());
        let find = move || look_up(&library_search.directories(), &project, &name).map(WorkflowRef::from);
        self.disk.run_read(find).await?
    }

    /// Finds the workflows with these names for `caller`, like [`Self::find`], in their order.
    ///
    /// # Errors
    ///
    /// If disk access fails.
    #[boxed]
    pub async fn find_each(
        &self,
        caller: &Caller,
        names: Vec<String>,
    ) -> Result<Vec<Result<WorkflowRef, FindError>>, DiskError> {
        let project = self.projects.find_project(caller).await?;
        let library_search = LibrarySearch::for_caller(caller);
        let find = move || {
            let directories = library_search.directories();
            names.iter().map(|name| look_up(&directories, &project, name).map(WorkflowRef::from)).collect()
        };
        self.disk.run_read(find).await
    }

    /// Returns the first 50 names that `caller` may use, sorted. An unreadable library has no names.
    #[boxed]
    pub async fn available(&self, caller: &Caller) -> Vec<String> {
        let mut names = self.names(caller).await;
        names.truncate(MAX_LISTED_NAMES);
        names
    }

    /// Returns all names that `caller` may use, sorted. An unreadable library has no names.
    #[boxed]
    pub async fn names(&self, caller: &Caller) -> Vec<String> {
        let Ok(project) = self.projects.find_project(caller).await else { return Vec::new() };
        let library_search = LibrarySearch::for_caller(caller);
        self.disk.run_read(move || available_names(&library_search.directories(), &project)).await.unwrap_or_default()
    }

    /// Returns the directory for saving workflows of `caller`. Blocks for a few file system calls.
    pub fn directory(&self, caller: &Caller) -> PathBuf {
        LibrarySearch::for_caller(caller).directories().first
    }

    /// Saves a definition that ran to completion in the library at `directory`, unless the library has an equivalent
    /// definition.
    ///
    /// # Errors
    ///
    /// If writing it fails.
    #[boxed]
    pub async fn keep_definition(&self, directory: &Path, definition: Arc<Value>) -> Result<SaveOutcome, KeepError> {
        let library = Library::open(directory);
        let functions = self.functions.read_library(directory).await?;
        let saved = self.disk.run_write(move || {
            let is_function = |name: &str| functions.files.iter().any(|file| file.declares(name));
            let author = Author { through: Some("run".to_owned()), ..Author::default() };
            library.keep_proven(&definition, None, &|name| is_function(name.as_str()), &author)
        });
        saved.await?.map_err(KeepError::Library)
    }

    /// Returns the metadata of a saved workflow, if it exists.
    #[boxed]
    pub async fn metadata(&self, directory: &Path, name: &WorkflowName) -> Option<Metadata> {
        let (library, name) = (Library::open(directory), name.clone());
        let stored = self.disk.run_read(move || library.get(&name)).await.ok()?.ok()?;
        Some(stored.metadata)
    }

    /// Counts a finished run. A failed write is logged, and does not fail the run.
    #[boxed]
    pub async fn record_run(
        &self,
        directory: &Path,
        name: &WorkflowName,
        signature: &Signature,
        succeeded: bool,
        states: u64,
        at: SystemTime,
    ) {
        let (library, saved, signature) = (Library::open(directory), name.clone(), signature.clone());
        let recorded = self.disk.run_write(move || library.record_run(&saved, &signature, succeeded, states, at)).await;
        match recorded {
            Ok(Ok(_)) => {}
            // A client removed the workflow during the run.
            Ok(Err(LookupError::NotFound { .. })) => {
                tracing::debug!(workflow = %name, "a run belongs to no saved workflow");
            }
            Ok(Err(error)) => tracing::warn!(workflow = %name, error = with_causes(&error), "a run was not counted"),
            Err(error) => tracing::warn!(workflow = %name, error = %error, "a run was not counted"),
        }
    }
}

impl Workflows {
    /// Creates the set of workflows with an empty cache. `workers` interpret files of functions.
    pub fn new(workers: Workers) -> Self {
        let disk = BlockingPool::new();
        let functions = FunctionFiles::new(workers, disk.clone());
        let projects = Projects::new(functions.clone());
        Self { disk, functions, projects }
    }

    /// Returns the projects, whose declarations include these workflows.
    pub fn projects(&self) -> &Projects {
        &self.projects
    }

    /// Returns whether `run`, a run of the function `id`, is among the last counted runs.
    #[boxed]
    pub async fn has_counted(&self, directory: &Path, file: &WorkflowName, id: &str, run: &RunId) -> bool {
        let (library, name, id, run) = (Library::open(directory), file.clone(), id.to_owned(), run.to_string());
        let file = self.disk.run_read(move || library.function_file(&name)).await;
        let counts = file.ok().and_then(Result::ok).and_then(|mut file| file.metadata.workflows.remove(&id));
        counts.is_some_and(|counts| counts.has_counted(&run))
    }

    /// Counts `run`, a finished run of a function, once. Logs a failed write.
    #[boxed]
    pub async fn record_function(
        &self,
        directory: &Path,
        file: &WorkflowName,
        (id, run): (&str, &RunId),
        hash: &Signature,
        succeeded: bool,
        at: SystemTime,
    ) {
        let (library, name, workflow, run) = (Library::open(directory), file.clone(), id.to_owned(), run.to_string());
        let hash = hash.clone();
        let record = move || library.record_function_run(&name, &workflow, &run, &hash, succeeded, at);
        let recorded = self.disk.run_write(record).await;
        match recorded {
            Ok(Ok(_)) => {}
            Ok(Err(LookupError::NotFound { .. })) => {
                tracing::debug!(workflow = id, "a run belongs to no saved workflow");
            }
            Ok(Err(error)) => tracing::warn!(workflow = id, error = with_causes(&error), "a run was not counted"),
            Err(error) => tracing::warn!(workflow = id, error = %error, "a run was not counted"),
        }
    }
}

/// The workflow that a name refers to.
pub(crate) enum ResolvedWorkflow<'p> {
    /// A machine, and the library that has it.
    Machine(Library, Box<Stored>),
    Function(&'p FunctionWorkflow),
}

impl From<ResolvedWorkflow<'_>> for WorkflowRef {
    fn from(resolved: ResolvedWorkflow<'_>) -> Self {
        match resolved {
            ResolvedWorkflow::Machine(library, stored) => {
                let Stored { name, definition, metadata } = *stored;
                let directory = library.directory().to_owned();
                Self::Machine(SavedMachine { name, definition, signature: metadata.hash, directory })
            }
            ResolvedWorkflow::Function(workflow) => Self::Function(Box::new(workflow.clone())),
        }
    }
}

/// Returns the workflow that `name` refers to.
pub(crate) fn look_up<'p>(
    directories: &LibraryPaths,
    project: &'p Project,
    name: &str,
) -> Result<ResolvedWorkflow<'p>, FindError> {
    let Ok(workflow_name) = name.parse::<WorkflowName>() else { return Err(not_found(directories, project, name)) };
    for directory in directories.iter() {
        let library = Library::open(directory);
        match library.get(&workflow_name) {
            Ok(stored) => return Ok(ResolvedWorkflow::Machine(library, Box::new(stored))),
            Err(LookupError::NotFound { .. }) => {
                if let Some(workflow) = project.workflow(name).filter(|workflow| workflow.library == directory) {
                    return Ok(ResolvedWorkflow::Function(workflow));
                }
            }
            // A broken file hides all other workflows of the same name.
            Err(cause @ LookupError::Broken { .. }) => return Err(FindError::Broken { name: workflow_name, cause }),
            Err(error) => return Err(FindError::Library(error)),
        }
    }
    Err(not_found(directories, project, name))
}

/// Returns the names of all available workflows, sorted.
fn available_names(directories: &LibraryPaths, project: &Project) -> Vec<String> {
    // Ignore an unreadable library; listings report it.
    let listings = directories.iter().filter_map(|directory| Library::open(directory).list().ok());
    let mut names: Vec<String> =
        listings.flat_map(|listing| listing.entries).map(|entry| entry.name.to_string()).collect();
    names.extend(project.workflows().map(|workflow| workflow.id.clone()));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the error for a name that refers to no usable workflow.
pub(crate) fn not_found(directories: &LibraryPaths, project: &Project, name: &str) -> FindError {
    let short_name: String = name.chars().take(80).collect();
    if let Some(broken) = project.broken.iter().find(|broken| broken.name.as_deref() == Some(name)) {
        let (file, reason) = (broken.file.clone(), broken.reason.clone());
        return FindError::Declaration { name: short_name, file, reason };
    }
    let available = available_names(directories, project);
    let (invalid, nearest) = match name.parse::<WorkflowName>() {
        Err(invalid) => (Some(invalid), None),
        Ok(_) => (None, nearest(name, &available).cloned()),
    };
    FindError::NotFound(Box::new(WorkflowNotFound { name: short_name, invalid, nearest, available }))
}

/// Returns the name that is probably intended.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n String> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
    let candidates = names.iter().map(|candidate| (distance(candidate), candidate));
    candidates
        .filter(|(distance, candidate)| distance * 3 <= candidate.len().max(3))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
