//! SavedMachine workflows: found by name, kept, counted.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use steplatch_access::Caller;
use steplatch_ids::{RunId, WorkflowName};
use steplatch_library::{CreateError, FolderError, Kept, Library, LookupError, Metadata, Signature, Stored};

use crate::disk::BlockingPool;
use crate::folders::{LibraryPaths, LibrarySearch};
use crate::functions::FunctionFiles;
use crate::project::{FunctionWorkflow, Project};
use crate::projects::Projects;
use crate::workers::Workers;

/// How many names are told to somebody who asked for one that is not there.
const NAMES_TOLD: usize = 20;

/// How many names there are in a list of what is available.
const NAMES_LISTED: usize = 50;

/// The saved workflows of everybody. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workflows {
    pub(crate) disk: BlockingPool,
    pub(crate) functions: FunctionFiles,
    pub(crate) projects: Projects,
}

/// A saved workflow, whichever way it is written.
#[derive(Debug, Clone)]
pub enum WorkflowRef {
    /// A machine.
    Machine(SavedMachine),
    /// A function.
    Function(Box<FunctionWorkflow>),
}

/// A saved machine, as runs need it.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedMachine {
    /// Its name.
    pub name: WorkflowName,
    /// What it says; whether it is valid was not looked at.
    pub definition: Value,
    /// What its runs are counted under.
    pub(crate) signature: Signature,
    /// Where it lies, and its runs are counted.
    pub folder: PathBuf,
}

/// What runs ask of the library.
impl Workflows {
    /// Returns the workflow that `caller` means by `name`: of the project they are in, else of their own.
    ///
    /// # Errors
    /// In whole sentences: when there is none, with the names that there are; or when its file is broken.
    pub async fn find(&self, caller: &Caller, name: &str) -> Result<WorkflowRef, String> {
        let project = self.projects.of(caller).await?;
        let (asker, name) = (LibrarySearch::of(caller), name.to_owned());
        let find = move || look_up(&asker.folders(), &project, &name).map(WorkflowRef::from);
        self.disk.reading(find).await.flatten()
    }

    /// Returns what `caller` means by each of these names, as [`Self::find`], in their order.
    ///
    /// # Errors
    /// In a whole sentence, when the disk does not answer.
    pub async fn find_each(
        &self,
        caller: &Caller,
        names: Vec<String>,
    ) -> Result<Vec<Result<WorkflowRef, String>>, String> {
        let project = self.projects.of(caller).await?;
        let asker = LibrarySearch::of(caller);
        let find = move || {
            let folders = asker.folders();
            names.iter().map(|name| look_up(&folders, &project, name).map(WorkflowRef::from)).collect()
        };
        self.disk.reading(find).await
    }

    /// Returns the names that `caller` may use, sorted, the first 50 of them. A library that can not be read has none.
    pub async fn available(&self, caller: &Caller) -> Vec<String> {
        let mut names = self.names(caller).await;
        names.truncate(NAMES_LISTED);
        names
    }

    /// Returns all names that `caller` may use, sorted. A library that can not be read has none.
    pub async fn names(&self, caller: &Caller) -> Vec<String> {
        let Ok(project) = self.projects.of(caller).await else { return Vec::new() };
        let asker = LibrarySearch::of(caller);
        self.disk.reading(move || names(&asker.folders(), &project)).await.unwrap_or_default()
    }

    /// Returns the folder in which workflows of `caller` are saved. Blocks for a few looks at the file system.
    pub fn folder(&self, caller: &Caller) -> PathBuf {
        LibrarySearch::of(caller).folders().first
    }

    /// Keeps a definition that ran to its end in `folder`, unless one that does the same is there.
    ///
    /// # Errors
    /// In a whole sentence, when it can not be written.
    pub async fn keep(&self, folder: &Path, definition: Value) -> Result<Kept, String> {
        let library = Library::open(folder);
        let shelf = self.functions.of(folder).await?;
        let kept = self.disk.writing(move || {
            let has = |name: &str| shelf.files.iter().any(|file| file.declares(name));
            library.keep_proven(&definition, None, &|name| has(name.as_str()))
        });
        let kept = kept.await?;
        kept.map_err(|error| words(&error))
    }

    /// Returns what is kept about a saved workflow, if it is there.
    pub async fn metadata(&self, folder: &Path, name: &WorkflowName) -> Option<Metadata> {
        let (library, name) = (Library::open(folder), name.clone());
        let stored = self.disk.reading(move || library.get(&name)).await.ok()?.ok()?;
        Some(stored.metadata)
    }

    /// Counts a run that is over. What can not be written is logged: it is no reason for a run to fail.
    pub async fn note(
        &self,
        folder: &Path,
        name: &WorkflowName,
        signature: &Signature,
        succeeded: bool,
        states: u64,
        at: SystemTime,
    ) {
        let (library, saved, signature) = (Library::open(folder), name.clone(), signature.clone());
        let noted = self.disk.writing(move || library.note_run(&saved, &signature, succeeded, states, at)).await;
        match noted {
            Ok(Ok(_)) => {}
            // Somebody removed it while it ran.
            Ok(Err(LookupError::NotFound { .. })) => tracing::debug!(workflow = %name, "a run of no saved workflow"),
            Ok(Err(error)) => tracing::warn!(workflow = %name, error = words(&error), "a run was not counted"),
            Err(error) => tracing::warn!(workflow = %name, error, "a run was not counted"),
        }
    }
}

impl Workflows {
    /// Begins with nothing in mind. Files of functions are read by `workers`.
    pub fn new(workers: Workers) -> Self {
        let disk = BlockingPool::new();
        let functions = FunctionFiles::new(workers, disk.clone());
        let projects = Projects::new(functions.clone());
        Self { disk, functions, projects }
    }

    /// Returns what projects declare, which these workflows are part of.
    pub fn projects(&self) -> &Projects {
        &self.projects
    }

    /// Whether `run`, one of the function `id`, was counted, as far as the last of them are remembered.
    pub async fn has_counted(&self, folder: &Path, file: &WorkflowName, id: &str, run: &RunId) -> bool {
        let (library, name, id, run) = (Library::open(folder), file.clone(), id.to_owned(), run.to_string());
        let file = self.disk.reading(move || library.function_file(&name)).await;
        let counts = file.ok().and_then(Result::ok).and_then(|mut file| file.metadata.workflows.remove(&id));
        counts.is_some_and(|counts| counts.has_counted(&run))
    }

    /// Counts `run`, one of a function, that is over, unless it was counted. What can not be written is logged.
    pub async fn note_function(
        &self,
        folder: &Path,
        file: &WorkflowName,
        (id, run): (&str, &RunId),
        hash: &Signature,
        succeeded: bool,
        at: SystemTime,
    ) {
        let (library, name, workflow, run) = (Library::open(folder), file.clone(), id.to_owned(), run.to_string());
        let hash = hash.clone();
        let note = move || library.note_function_run(&name, &workflow, &run, &hash, succeeded, at);
        let noted = self.disk.writing(note).await;
        match noted {
            Ok(Ok(_)) => {}
            Ok(Err(LookupError::NotFound { .. })) => tracing::debug!(workflow = id, "a run of no saved workflow"),
            Ok(Err(error)) => tracing::warn!(workflow = id, error = words(&error), "a run was not counted"),
            Err(error) => tracing::warn!(workflow = id, error, "a run was not counted"),
        }
    }
}

/// What a name means.
pub(crate) enum ResolvedWorkflow<'p> {
    /// A machine, and the library that has it.
    Machine(Library, Box<Stored>),
    Function(&'p FunctionWorkflow),
}

impl From<ResolvedWorkflow<'_>> for WorkflowRef {
    fn from(meant: ResolvedWorkflow<'_>) -> Self {
        match meant {
            ResolvedWorkflow::Machine(library, stored) => {
                let Stored { name, definition, metadata } = *stored;
                let folder = library.folder().to_owned();
                Self::Machine(SavedMachine { name, definition, signature: metadata.hash, folder })
            }
            ResolvedWorkflow::Function(workflow) => Self::Function(Box::new(workflow.clone())),
        }
    }
}

/// Returns what `name` means, and where it lies.
pub(crate) fn look_up<'p>(
    folders: &LibraryPaths,
    project: &'p Project,
    name: &str,
) -> Result<ResolvedWorkflow<'p>, String> {
    let Ok(wanted) = name.parse::<WorkflowName>() else { return Err(not_found(folders, project, name)) };
    for folder in folders.iter() {
        let library = Library::open(folder);
        match library.get(&wanted) {
            Ok(stored) => return Ok(ResolvedWorkflow::Machine(library, Box::new(stored))),
            Err(LookupError::NotFound { .. }) => {
                if let Some(workflow) = project.workflow(name).filter(|workflow| workflow.library == folder) {
                    return Ok(ResolvedWorkflow::Function(workflow));
                }
            }
            // Another one of the name is not what is meant, even if it could be read.
            Err(error @ LookupError::Broken { .. }) => {
                let error = words(&error);
                return Err(format!("Workflow '{wanted}' can not be read: {error}. Correct or remove the file."));
            }
            Err(error) => return Err(words(&error)),
        }
    }
    Err(not_found(folders, project, name))
}

/// Returns the names of all that can be asked for, sorted.
fn names(folders: &LibraryPaths, project: &Project) -> Vec<String> {
    // A library that can not be read is told about where it is listed; here, it has nothing to offer.
    let listed = folders.iter().filter_map(|folder| Library::open(folder).list().ok());
    let mut names: Vec<String> =
        listed.flat_map(|listing| listing.entries).map(|entry| entry.name.to_string()).collect();
    names.extend(project.workflows().map(|workflow| workflow.id.clone()));
    names.sort_unstable();
    names.dedup();
    names
}

pub(crate) fn not_found(folders: &LibraryPaths, project: &Project, name: &str) -> String {
    let names = names(folders, project);
    let shown: String = name.chars().take(80).collect();
    if let Some(broken) = project.broken.iter().find(|broken| broken.name.as_deref() == Some(name)) {
        let (file, reason) = (broken.file.display(), &broken.reason);
        return format!("Workflow '{shown}' can not be used; correct its declaration in {file}:\n{reason}");
    }
    let mut error = format!("Workflow '{shown}' not found");
    if let Err(invalid) = name.parse::<WorkflowName>() {
        error = format!("{error}: {invalid}");
    } else if let Some(nearest) = nearest(name, &names) {
        error = format!("{error}. Did you mean '{nearest}'?");
        return format!("{error} Available workflows: {}", told(&names));
    }
    format!("{error}. Available workflows: {}", told(&names))
}

fn told(names: &[String]) -> String {
    match names {
        [] => "none; create_workflow saves one".to_owned(),
        few if few.len() <= NAMES_TOLD => few.join(", "),
        many => {
            let rest = many.len() - NAMES_TOLD;
            format!("{} and {rest} more; list_workflows lists them", many[..NAMES_TOLD].join(", "))
        }
    }
}

/// Returns the name that is probably meant.
fn nearest<'n>(name: &str, names: &'n [String]) -> Option<&'n String> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
    let near = names.iter().map(|candidate| (distance(candidate), candidate));
    near.filter(|(distance, candidate)| distance * 3 <= candidate.len().max(3)).min().map(|(_, candidate)| candidate)
}

/// What can go wrong with a library, whatever was asked of it.
pub(crate) trait FolderCause: std::error::Error {
    /// Returns what is wrong with the folder, if that is it.
    fn with_folder(&self) -> Option<&FolderError>;
}

impl FolderCause for FolderError {
    fn with_folder(&self) -> Option<&FolderError> {
        Some(self)
    }
}

impl FolderCause for CreateError {
    fn with_folder(&self) -> Option<&FolderError> {
        if let Self::Folder(error) = self { Some(error) } else { None }
    }
}

impl FolderCause for LookupError {
    fn with_folder(&self) -> Option<&FolderError> {
        if let Self::Folder(error) = self { Some(error) } else { None }
    }
}

/// Says what went wrong with a library, why, and what to do where that is known.
pub(crate) fn words(error: &impl FolderCause) -> String {
    let mut words = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        words = format!("{words}: {cause}");
        below = cause.source();
    }
    match error.with_folder() {
        Some(FolderError::ReadOnly { .. }) => {
            format!("{words}. Set STEPLATCH_LIBRARY to a folder that you may write, or change who may write this one.")
        }
        Some(FolderError::NoRoom { .. }) => format!("{words}. Make room there, and do it again."),
        Some(FolderError::Failed { .. }) | None => words,
    }
}

#[cfg(test)]
mod tests;
