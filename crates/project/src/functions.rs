//! Loaded files of functions, in their current state.
//!
//! Each request checks the files of a library, and reads and interprets a file again only after a change. If a file was
//! loaded from an original, the request also checks the original and adopts its valid changes. An unusable file is
//! reported with the reason.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use steplatch_ids::WorkflowName;
use steplatch_library::{
    CreateError, Declares, FileError, FoundFunctions, FunctionFile, Library, LookupError, Origin, Signature, Stamp,
};
use steplatch_python_api::Declaration;
use tokio::sync::Mutex as AsyncMutex;

use super::disk::BlockingPool;
use super::origin::Original;
use crate::error::{DiskError, TakeOverError, with_causes};
use crate::python;
use crate::workers::{Workers, WorkersError};

/// Maximum number of files of functions in one library.
const MAX_FILES: usize = 1000;

/// Maximum number of libraries with cached files.
const MAX_CACHED_LIBRARIES: usize = 16;

/// The loaded files of all libraries. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct FunctionFiles {
    workers: Workers,
    disk: BlockingPool,
    /// The most recently requested library is last.
    cache: Arc<Mutex<Vec<(PathBuf, SharedLibrary)>>>,
}

/// The state of one library, with exclusive access.
type SharedLibrary = Arc<AsyncMutex<CachedLibrary>>;

/// The files of functions in one library. Requests share one instance until a file in it changes.
#[derive(Debug, Default)]
pub(crate) struct FunctionLibrary {
    /// The library.
    pub(crate) directory: PathBuf,
    /// The files, by name.
    pub(crate) files: Vec<Arc<LoadedFile>>,
    /// Unreadable files, and the reasons.
    pub(crate) broken: Vec<(PathBuf, String)>,
}

/// A file of functions.
#[derive(Debug)]
pub struct LoadedFile {
    /// Name in the library, without the extension.
    pub name: WorkflowName,
    /// The path.
    pub(crate) path: PathBuf,
    /// The source text.
    pub(crate) text: Arc<str>,
    /// Digest of the text.
    pub hash: Signature,
    /// Declarations, or the error that makes the file unusable.
    pub(crate) declared: Result<Arc<[Declaration]>, String>,
    /// Source file of the loaded file.
    pub(crate) original: Option<PathBuf>,
    /// A note about the original for the library's users.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Default)]
struct CachedLibrary {
    library: Arc<FunctionLibrary>,
    /// States by file name.
    file_states: Arc<HashMap<String, FileState>>,
}

/// State of a file when it was last read.
#[derive(Debug, Clone)]
struct FileState {
    loaded: Arc<LoadedFile>,
    stamps: [Option<Stamp>; 2],
    original: Option<(PathBuf, Option<Stamp>)>,
    /// True if the timestamps would show a later change.
    is_settled: bool,
    /// Digest of the original's rejected text.
    rejected_hash: Option<Signature>,
}

/// The result of scanning a file of a library.
enum ScanResult {
    /// The file is unchanged.
    Unchanged(FileState),
    Changed(Box<ChangedFile>),
    Broken(PathBuf, String),
}

/// The contents of a changed file and of its original.
struct ChangedFile {
    found: FoundFunctions,
    file: FunctionFile,
    original: Option<Original>,
    is_settled: bool,
}

/// The result of checking a file's original.
enum OriginalCheck {
    /// The original has no new text.
    Unchanged,
    /// The original is rejected for this reason. Includes the digest of an invalid text.
    Rejected(String, Option<Signature>),
    /// The check of the text failed, for this reason.
    Failed(String),
    /// A valid new text, with its declarations.
    Changed(String, Arc<[Declaration]>),
}

impl LoadedFile {
    /// Returns whether the file declares this id.
    pub(super) fn declares(&self, id: &str) -> bool {
        self.declared.iter().flat_map(|declared| declared.iter()).any(|declared| declared.id == id)
    }
}

impl FunctionFiles {
    pub(crate) fn new(workers: Workers, disk: BlockingPool) -> Self {
        Self { workers, disk, cache: Arc::default() }
    }

    /// Returns the files of functions in the library at `directory`, in their current state.
    ///
    /// # Errors
    ///
    /// If disk access fails.
    pub(crate) async fn read_library(&self, directory: &Path) -> Result<Arc<FunctionLibrary>, DiskError> {
        let shared_library = self.shared_library(directory);
        let mut cached = shared_library.lock().await;
        let (library, states) = (Library::open(directory), cached.file_states.clone());
        let scanned = library.clone();
        let results = self.disk.run_read(move || scan_library(&scanned, &states)).await?;
        let mut file_states = HashMap::new();
        let mut files = Vec::new();
        let mut broken = Vec::new();
        for result in results {
            let state = match result {
                ScanResult::Unchanged(state) => state,
                ScanResult::Changed(changed) => self.load_file(&library, *changed, &cached.file_states).await,
                ScanResult::Broken(path, reason) => {
                    broken.push((path, reason));
                    continue;
                }
            };
            files.push(state.loaded.clone());
            file_states.insert(state.loaded.name.to_string(), state);
        }
        let before = &cached.library;
        let is_same = before.broken == broken
            && before.files.len() == files.len()
            && before.files.iter().zip(&files).all(|(left, right)| Arc::ptr_eq(left, right));
        if !is_same || before.directory != *directory {
            cached.library = Arc::new(FunctionLibrary { directory: directory.to_owned(), files, broken });
        }
        cached.file_states = Arc::new(file_states);
        Ok(cached.library.clone())
    }

    /// Returns the declarations of a file.
    ///
    /// # Errors
    ///
    /// If the file is invalid, or cannot be checked.
    pub(super) async fn load_declarations(&self, file: &str, text: &str) -> Result<Vec<Declaration>, WorkersError> {
        self.workers.load(file, text).await
    }

    fn shared_library(&self, directory: &Path) -> SharedLibrary {
        let mut cache = self.cache.lock();
        let known = cache.iter().position(|(known, _)| known == directory).map(|index| cache.remove(index));
        if known.is_none() && cache.len() >= MAX_CACHED_LIBRARIES {
            cache.remove(0);
        }
        let (directory, library) = known.unwrap_or_else(|| (directory.to_owned(), SharedLibrary::default()));
        cache.push((directory, library.clone()));
        library
    }

    /// Interprets a changed file and takes over changes of its original.
    async fn load_file(
        &self,
        library: &Library,
        changed: ChangedFile,
        previous_states: &HashMap<String, FileState>,
    ) -> FileState {
        let ChangedFile { found, mut file, original, mut is_settled } = changed;
        let previous_state = previous_states.get(file.name.as_str());
        let (mut note, mut rejected_hash, mut declared) = (None, None, None);
        if let Some(original) = &original {
            match self.check_original(&file, original, previous_state).await {
                OriginalCheck::Unchanged => {}
                OriginalCheck::Rejected(reason, text) => (note, rejected_hash) = (Some(reason), text),
                OriginalCheck::Failed(reason) => (note, is_settled) = (Some(reason), false),
                OriginalCheck::Changed(text, declares) => {
                    match self.take_over(library, &file, &text, &declares).await {
                        Ok(updated_file) => {
                            (file, declared) = (updated_file, Some(Ok(declares)));
                            // The text was just written by this call, not read from the disk.
                            is_settled = false;
                        }
                        Err(error) => note = Some(format!("its original has changed and is not taken over: {error}")),
                    }
                }
            }
        }
        let known_file = previous_state
            .map(|previous_state| &previous_state.loaded)
            .filter(|known| known.hash == file.metadata.hash);
        let declared = match (declared, known_file) {
            (Some(declared), _) => declared,
            // A check that could not run earlier may succeed now.
            (None, Some(known))
                if known.declared.is_ok() || previous_state.is_some_and(|previous_state| previous_state.is_settled) =>
            {
                known.declared.clone()
            }
            (None, _) => match self.load_declarations(&file_name(&file.name), &file.text).await {
                Ok(declared) => Ok(declared.into()),
                Err(error) => {
                    is_settled &= !matches!(error, WorkersError::WorkerExited(_));
                    Err(error.to_string())
                }
            },
        };
        let path = library.function_path(&file.name);
        let original_path = original.as_ref().map(|original| original.path.clone());
        let is_same = |known: &&Arc<LoadedFile>| {
            let declares_the_same = match (&known.declared, &declared) {
                (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
                (Err(one), Err(other)) => one == other,
                _ => false,
            };
            declares_the_same && known.note == note && known.original == original_path
        };
        let loaded = match known_file.filter(is_same) {
            Some(known) => known.clone(),
            None => Arc::new(LoadedFile {
                name: file.name,
                path,
                text: file.text.into(),
                hash: file.metadata.hash,
                declared,
                original: original_path,
                note,
            }),
        };
        let stamps = [found.stamp, found.metadata_stamp];
        let original = original.map(|original| (original.path, original.stamp));
        FileState { loaded, stamps, original, is_settled, rejected_hash }
    }

    /// Checks the original of a file for changes to take over.
    async fn check_original(
        &self,
        file: &FunctionFile,
        original: &Original,
        before: Option<&FileState>,
    ) -> OriginalCheck {
        let path = original.path.display();
        let Some(origin) = &file.metadata.origin else { return OriginalCheck::Unchanged };
        let text = match &original.text {
            Ok(text) => text,
            Err(reason) => {
                let reason = format!("it was loaded from {path}, which is no longer followed: {reason}");
                return OriginalCheck::Rejected(reason, None);
            }
        };
        let hash = Signature::of_text(text);
        if hash == origin.hash {
            return OriginalCheck::Unchanged;
        }
        // If both texts are equal, only the recorded digest of the original is outdated.
        if file.metadata.is_edited() && hash != file.metadata.hash {
            let reason = format!(
                "it was edited here, and so was its original {path}; to take that one: steplatch workflow load --overwrite"
            );
            return OriginalCheck::Rejected(reason, None);
        }
        if let Some(before) = before.filter(|before| before.rejected_hash.as_ref() == Some(&hash)) {
            return OriginalCheck::Rejected(before.loaded.note.clone().unwrap_or_default(), Some(hash));
        }
        let rejected = |reason: String| {
            let reason =
                format!("its original {path} is not valid any more, and what was loaded before counts:\n{reason}");
            OriginalCheck::Rejected(reason, Some(hash.clone()))
        };
        let name = file_name(&file.name);
        match self.load_declarations(&name, text).await {
            Ok(declared) => match python::problems(&declared, &name, text).first() {
                None => OriginalCheck::Changed(text.clone(), declared.into()),
                Some(problem) => rejected(problem.message.clone()),
            },
            Err(WorkersError::WorkerExited(exited)) => {
                OriginalCheck::Failed(format!("its original {path} has changed: {exited}"))
            }
            Err(error) => rejected(error.to_string()),
        }
    }

    async fn take_over(
        &self,
        library: &Library,
        file: &FunctionFile,
        text: &str,
        declared: &[Declaration],
    ) -> Result<FunctionFile, TakeOverError> {
        let (library, text, declares) = (library.clone(), text.to_owned(), summarize(declared));
        let (name, replaced_hash) = (file.name.clone(), file.metadata.hash.clone());
        let origin = file.metadata.origin.as_ref().map(|origin| origin.file.clone());
        let saved = self.disk.run_write(move || {
            let origin = origin.map(|file| Origin { file, hash: Signature::of_text(&text) });
            library.keep_functions(&name, &text, origin, declares, Some(&replaced_hash))
        });
        match saved.await? {
            Ok(file) => Ok(file),
            Err(CreateError::Exists { .. }) => Err(TakeOverError::Conflict),
            Err(error) => Err(TakeOverError::Library(error)),
        }
    }
}

/// Returns the summary of declarations that the library stores.
pub(super) fn summarize(declared: &[Declaration]) -> Vec<Declares> {
    let infos = declared.iter().map(python::declaration_info);
    infos.map(|info| Declares { id: info.id, kind: info.kind, description: info.description }).collect()
}

pub(super) fn file_name(name: &WorkflowName) -> String {
    format!("{name}.py")
}

/// Scans all files of functions in a library and reads the changed files. Blocks.
fn scan_library(library: &Library, states: &HashMap<String, FileState>) -> Vec<ScanResult> {
    let mut found = match library.functions() {
        Ok(found) => found,
        Err(error) => return vec![ScanResult::Broken(library.directory().to_owned(), with_causes(&error))],
    };
    let omitted = found.split_off(found.len().min(MAX_FILES));
    let mut results: Vec<ScanResult> =
        found.into_iter().filter_map(|found| scan_file(library, found, states)).collect();
    if let Some(first) = omitted.first() {
        let reason =
            format!("there are more than {MAX_FILES} files of functions; this file and later ones are ignored");
        results.push(ScanResult::Broken(library.directory().join(&first.file), reason));
    }
    results
}

/// Scans one file; `None` after its removal.
fn scan_file(library: &Library, found: FoundFunctions, states: &HashMap<String, FileState>) -> Option<ScanResult> {
    let path = library.directory().join(&found.file);
    let name = match &found.name {
        Ok(name) => name.clone(),
        Err(error) => return Some(ScanResult::Broken(path, FileError::Name(error.clone()).to_string())),
    };
    let is_same = |state: &&FileState| {
        let original = state.original.as_ref().is_none_or(|(path, stamp)| Stamp::at(path) == *stamp);
        state.is_settled && state.stamps == [found.stamp.clone(), found.metadata_stamp.clone()] && original
    };
    if let Some(state) = states.get(name.as_str()).filter(is_same) {
        return Some(ScanResult::Unchanged(state.clone()));
    }
    match library.function_file(&name) {
        Ok(file) => {
            let original = file.metadata.origin.as_ref().map(|origin| Original::read(library.directory(), origin));
            let stamps =
                [&found.stamp, &found.metadata_stamp, &original.as_ref().and_then(|original| original.stamp.clone())];
            let is_settled = stamps.into_iter().flatten().all(Stamp::is_settled);
            Some(ScanResult::Changed(Box::new(ChangedFile { found, file, original, is_settled })))
        }
        Err(LookupError::NotFound { .. }) => None,
        Err(LookupError::Broken { reason, .. }) => Some(ScanResult::Broken(path, reason.to_string())),
        Err(error @ LookupError::Directory(_)) => Some(ScanResult::Broken(path, with_causes(&error))),
    }
}
