//! Saved workflows, for whoever asks: found by name, listed, saved, counted.
//!
//! Owns which library is meant ([`folders`]) and the words in which it fails. All
//! work on files is done on threads that may block, a few at a time and not for
//! ever, so that a folder that hangs holds up nothing else. Readers and writers
//! take turns apart: a reader needs no lock, and waits for none.

mod folders;
mod verbs;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use steplatch_ids::WorkflowName;
use steplatch_library::{CreateError, FolderError, Kept, Library, LookupError, Signature, Stored};
use tokio::sync::Semaphore;

use crate::caller::Caller;
pub(crate) use folders::Asker;
use folders::Folders;

/// How many threads read files at the same time.
const READERS: usize = 8;

/// How many threads write files at the same time; they stand in line for a lock anyway.
const WRITERS: usize = 4;

/// How long a library may take. A lock that somebody else holds for longer is not one of ours.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many names are told to somebody who asked for one that is not there.
const NAMES_TOLD: usize = 20;

/// How many names there are in a list of what is available.
const NAMES_LISTED: usize = 50;

/// The saved workflows of everybody. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Workflows {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    patience: Duration,
}

/// A saved workflow, as runs need it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saved {
    /// Its name.
    pub(crate) name: WorkflowName,
    /// What it says; whether it is valid was not looked at.
    pub(crate) definition: Value,
    /// What its runs are counted under.
    pub(crate) signature: Signature,
    /// Where it lies, and its runs are counted.
    pub(crate) folder: PathBuf,
}

/// What runs ask of the library.
impl Workflows {
    /// Returns the workflow that `caller` means by `name`: of the project they are in, else of their own.
    ///
    /// # Errors
    /// In whole sentences: when there is none, with the names that there are; or when its file is broken.
    pub(crate) async fn find(&self, caller: &Caller, name: &str) -> Result<Saved, String> {
        let (asker, name) = (Asker::of(caller), name.to_owned());
        self.reading(move || {
            let (library, stored) = look_up(&asker.folders(), &name)?;
            let Stored { name, definition, metadata } = stored;
            Ok(Saved { name, definition, signature: metadata.hash, folder: library.folder().to_owned() })
        })
        .await
        .flatten()
    }

    /// Returns the names that `caller` may use, sorted, the first 50 of them. A library that can not be read has none.
    pub(crate) async fn available(&self, caller: &Caller) -> Vec<String> {
        let asker = Asker::of(caller);
        let mut names = self.reading(move || names(&asker.folders())).await.unwrap_or_default();
        names.truncate(NAMES_LISTED);
        names
    }

    /// Returns the folder in which workflows of `caller` are saved. Blocks for a few looks at the file system.
    pub(crate) fn folder(&self, caller: &Caller) -> PathBuf {
        Asker::of(caller).folders().first
    }

    /// Keeps a definition that ran to its end in `folder`, unless one that does the same is there.
    ///
    /// # Errors
    /// In a whole sentence, when it can not be written.
    pub(crate) async fn keep(&self, folder: &Path, definition: Value) -> Result<Kept, String> {
        let library = Library::open(folder);
        let kept = self.writing(move || library.keep_proven(&definition, None)).await?;
        kept.map_err(|error| words(&error))
    }

    /// Whether a run that was over at that time was counted, as far as the last of them tells.
    pub(crate) async fn is_noted(&self, folder: &Path, name: &WorkflowName, at: SystemTime) -> bool {
        let (library, name) = (Library::open(folder), name.clone());
        let noted = self.reading(move || library.get(&name)).await;
        noted.ok().and_then(Result::ok).is_some_and(|stored| stored.metadata.counts(at))
    }

    /// Counts a run that is over. What can not be written is logged: it is no reason for a run to fail.
    pub(crate) async fn note(
        &self,
        folder: &Path,
        name: &WorkflowName,
        signature: &Signature,
        succeeded: bool,
        states: u64,
        at: SystemTime,
    ) {
        let (library, saved, signature) = (Library::open(folder), name.clone(), signature.clone());
        let noted = self.writing(move || library.note_run(&saved, &signature, succeeded, states, at)).await;
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
    pub(crate) fn new() -> Self {
        Self {
            readers: Arc::new(Semaphore::new(READERS)),
            writers: Arc::new(Semaphore::new(WRITERS)),
            patience: PATIENCE,
        }
    }

    /// Does work that changes nothing.
    async fn reading<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
        self.on_disk(self.readers.clone(), work).await
    }

    /// Does work that waits for the lock of a library.
    async fn writing<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
        self.on_disk(self.writers.clone(), work).await
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        turns: Arc<Semaphore>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let done = async {
            let turn = turns.acquire_owned().await.expect("the semaphore is never closed");
            tokio::task::spawn_blocking(move || {
                // Given back when the work is over, which may be long after nobody waits for it.
                let _turn = turn;
                work()
            })
            .await
        };
        match tokio::time::timeout(self.patience, done).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(format!("The library of workflows could not be asked: {error}.")),
            Err(_) => Err(format!(
                "The library of workflows did not answer for {} s, so it is not known what came of this: its disk \
                 hangs, or another program holds its lock (the file .lock in its folder).",
                self.patience.as_secs()
            )),
        }
    }
}

/// Returns what `name` means, and where it lies.
fn look_up(folders: &Folders, name: &str) -> Result<(Library, Stored), String> {
    let Ok(wanted) = name.parse::<WorkflowName>() else { return Err(not_found(folders, name)) };
    for folder in folders.iter() {
        let library = Library::open(folder);
        match library.get(&wanted) {
            Ok(stored) => return Ok((library, stored)),
            Err(LookupError::NotFound { .. }) => {}
            // Another one of the name is not what is meant, even if it could be read.
            Err(error @ LookupError::Broken { .. }) => {
                let error = words(&error);
                return Err(format!("Workflow '{wanted}' can not be read: {error}. Correct or remove the file."));
            }
            Err(error) => return Err(words(&error)),
        }
    }
    Err(not_found(folders, name))
}

/// Returns the names of all that can be asked for, sorted.
fn names(folders: &Folders) -> Vec<String> {
    // A library that can not be read is told about where it is listed; here, it has nothing to offer.
    let listed = folders.iter().filter_map(|folder| Library::open(folder).list().ok());
    let mut names: Vec<String> =
        listed.flat_map(|listing| listing.entries).map(|entry| entry.name.to_string()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn not_found(folders: &Folders, name: &str) -> String {
    let names = names(folders);
    let shown: String = name.chars().take(80).collect();
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
trait Trouble: std::error::Error {
    /// Returns what is wrong with the folder, if that is it.
    fn with_folder(&self) -> Option<&FolderError>;
}

impl Trouble for FolderError {
    fn with_folder(&self) -> Option<&FolderError> {
        Some(self)
    }
}

impl Trouble for CreateError {
    fn with_folder(&self) -> Option<&FolderError> {
        if let Self::Folder(error) = self { Some(error) } else { None }
    }
}

impl Trouble for LookupError {
    fn with_folder(&self) -> Option<&FolderError> {
        if let Self::Folder(error) = self { Some(error) } else { None }
    }
}

/// Says what went wrong with a library, why, and what to do where that is known.
fn words(error: &impl Trouble) -> String {
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
