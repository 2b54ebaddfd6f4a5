//! Loaded files of functions, in their current state.
//!
//! The file in the library counts. Each request checks it, and reads and interprets it again only when it has changed.
//! If another file is its original, the request checks that too, and takes over valid changes. Reports an unusable file
//! with the reason.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use steplatch_ids::WorkflowName;
use steplatch_library::{
    CreateError, Declares, FileError, FoundFunctions, FunctionFile, Library, LookupError, Origin, Signature, Stamp,
};
use steplatch_python_api::Declaration;
use tokio::sync::Mutex as Turn;

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
    /// The most recently requested one is the last one.
    kept: Arc<Mutex<Vec<(PathBuf, Place)>>>,
}

/// The state of one library, with exclusive access.
type Place = Arc<Turn<CachedLibraries>>;

/// The files of functions in one library. Requests share one instance until something in it changes.
#[derive(Debug, Default)]
pub(crate) struct FunctionLibrary {
    /// The library.
    pub(crate) folder: PathBuf,
    /// The files, by name.
    pub(crate) files: Vec<Arc<LoadedFile>>,
    /// Unreadable files, and the reasons.
    pub(crate) broken: Vec<(PathBuf, String)>,
}

/// A file of functions.
#[derive(Debug)]
pub struct LoadedFile {
    /// Its name in the library, without the ending.
    pub name: WorkflowName,
    /// Its path.
    pub(crate) path: PathBuf,
    /// Its source text.
    pub(crate) text: Arc<str>,
    pub hash: Signature,
    /// Its declarations, or the reason why it is unusable.
    pub(crate) declared: Result<Arc<[Declaration]>, String>,
    /// The source file of its load.
    pub(crate) original: Option<PathBuf>,
    /// A note about the original for the library's users.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Default)]
struct CachedLibraries {
    shelf: Arc<FunctionLibrary>,
    /// By the names of the files.
    seen: Arc<HashMap<String, FileState>>,
}

/// The state of a file at its last reading.
#[derive(Debug, Clone)]
struct FileState {
    loaded: Arc<LoadedFile>,
    stamps: [Option<Stamp>; 2],
    original: Option<(PathBuf, Option<Stamp>)>,
    /// True if the timestamps would show a later change.
    settled: bool,
    /// Digest of the original's rejected text.
    refused: Option<Signature>,
}

/// The result of scanning a file of a library.
enum ScanResult {
    /// The file is unchanged.
    Same(FileState),
    Read(Box<Read>),
    Broken(PathBuf, String),
}

struct Read {
    found: FoundFunctions,
    file: FunctionFile,
    original: Option<Original>,
    settled: bool,
}

/// The check of a file's original.
enum Newer {
    /// Nothing new.
    No,
    /// A rejected text: the reason, and its digest.
    Wrong(String, Option<Signature>),
    /// The check of the text failed, for this reason.
    Unknown(String),
    Text(String, Arc<[Declaration]>),
}

impl LoadedFile {
    /// Returns whether it declares this id.
    pub(super) fn declares(&self, id: &str) -> bool {
        self.declared.iter().flat_map(|declared| declared.iter()).any(|declared| declared.id == id)
    }
}

impl FunctionFiles {
    pub(crate) fn new(workers: Workers, disk: BlockingPool) -> Self {
        Self { workers, disk, kept: Arc::default() }
    }

    /// Returns the files of functions in the library at `folder`, in their current state.
    ///
    /// # Errors
    ///
    /// If the disk does not answer.
    pub(crate) async fn read_library(&self, folder: &Path) -> Result<Arc<FunctionLibrary>, DiskError> {
        let place = self.place(folder);
        let mut kept = place.lock().await;
        let (library, seen) = (Library::open(folder), kept.seen.clone());
        let looking = library.clone();
        let looked = self.disk.reading(move || look(&looking, &seen)).await?;
        let mut now = HashMap::new();
        let mut files = Vec::new();
        let mut broken = Vec::new();
        for looked in looked {
            let seen = match looked {
                ScanResult::Same(seen) => seen,
                ScanResult::Read(read) => self.read(&library, *read, &kept.seen).await,
                ScanResult::Broken(path, reason) => {
                    broken.push((path, reason));
                    continue;
                }
            };
            files.push(seen.loaded.clone());
            now.insert(seen.loaded.name.to_string(), seen);
        }
        let before = &kept.shelf;
        let is_same = before.broken == broken
            && before.files.len() == files.len()
            && before.files.iter().zip(&files).all(|(one, other)| Arc::ptr_eq(one, other));
        if !is_same || before.folder != *folder {
            kept.shelf = Arc::new(FunctionLibrary { folder: folder.to_owned(), files, broken });
        }
        kept.seen = Arc::new(now);
        Ok(kept.shelf.clone())
    }

    /// Returns the declarations of a file.
    ///
    /// # Errors
    ///
    /// Returns the reason that it is invalid.
    pub(super) async fn declared(&self, file: &str, text: &str) -> Result<Vec<Declaration>, WorkersError> {
        self.workers.load(file, text).await
    }

    fn place(&self, folder: &Path) -> Place {
        let mut kept = self.kept.lock();
        let known = kept.iter().position(|(known, _)| known == folder).map(|at| kept.remove(at));
        if known.is_none() && kept.len() >= MAX_CACHED_LIBRARIES {
            kept.remove(0);
        }
        let (folder, place) = known.unwrap_or_else(|| (folder.to_owned(), Place::default()));
        kept.push((folder, place.clone()));
        place
    }

    /// Returns the loaded form of a file and of its original.
    async fn read(&self, library: &Library, read: Read, before: &HashMap<String, FileState>) -> FileState {
        let Read { found, mut file, original, mut settled } = read;
        let before = before.get(file.name.as_str());
        let (mut note, mut refused, mut declared) = (None, None, None);
        if let Some(original) = &original {
            match self.newer(&file, original, before).await {
                Newer::No => {}
                Newer::Wrong(reason, text) => (note, refused) = (Some(reason), text),
                Newer::Unknown(reason) => (note, settled) = (Some(reason), false),
                Newer::Text(text, declares) => match self.take_over(library, &file, &text, &declares).await {
                    Ok(taken) => {
                        (file, declared) = (taken, Some(Ok(declares)));
                        // The text was just written by this call, not read from the disk.
                        settled = false;
                    }
                    Err(error) => note = Some(format!("its original has changed and is not taken over: {error}")),
                },
            }
        }
        let known = before.map(|before| &before.loaded).filter(|known| known.hash == file.metadata.hash);
        let declared = match (declared, known) {
            (Some(declared), _) => declared,
            // A check that failed to run may succeed by now.
            (None, Some(known)) if known.declared.is_ok() || before.is_some_and(|before| before.settled) => {
                known.declared.clone()
            }
            (None, _) => match self.declared(&file_name(&file.name), &file.text).await {
                Ok(declared) => Ok(declared.into()),
                Err(error) => {
                    settled &= !matches!(error, WorkersError::WorkerExited(_));
                    Err(error.to_string())
                }
            },
        };
        let path = library.function_path(&file.name);
        let place = original.as_ref().map(|original| original.path.clone());
        let is_same = |known: &&Arc<LoadedFile>| {
            let declares_the_same = match (&known.declared, &declared) {
                (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
                (Err(one), Err(other)) => one == other,
                _ => false,
            };
            declares_the_same && known.note == note && known.original == place
        };
        let loaded = match known.filter(is_same) {
            Some(known) => known.clone(),
            None => Arc::new(LoadedFile {
                name: file.name,
                path,
                text: file.text.into(),
                hash: file.metadata.hash,
                declared,
                original: place,
                note,
            }),
        };
        let stamps = [found.stamp, found.about];
        let original = original.map(|original| (original.path, original.stamp));
        FileState { loaded, stamps, original, settled, refused }
    }

    /// Returns whether the original of a file has changes to take over.
    async fn newer(&self, file: &FunctionFile, original: &Original, before: Option<&FileState>) -> Newer {
        let path = original.path.display();
        let Some(origin) = &file.metadata.origin else { return Newer::No };
        let text = match &original.text {
            Ok(text) => text,
            Err(reason) => {
                let reason = format!("it was loaded from {path}, which is not followed any more: {reason}");
                return Newer::Wrong(reason, None);
            }
        };
        let hash = Signature::of_text(text);
        if hash == origin.hash {
            return Newer::No;
        }
        // If both texts are the same, only the record of it is missing.
        if file.metadata.is_edited() && hash != file.metadata.hash {
            let reason = format!(
                "it was edited here, and so was its original {path}; to take that one: steplatch workflow load --overwrite"
            );
            return Newer::Wrong(reason, None);
        }
        if let Some(before) = before.filter(|before| before.refused.as_ref() == Some(&hash)) {
            return Newer::Wrong(before.loaded.note.clone().unwrap_or_default(), Some(hash));
        }
        let unreadable = |reason: String| {
            let reason =
                format!("its original {path} is not valid any more, and what was loaded before counts:\n{reason}");
            Newer::Wrong(reason, Some(hash.clone()))
        };
        let name = file_name(&file.name);
        match self.declared(&name, text).await {
            Ok(declared) => match python::problems(&declared, &name, text).first() {
                None => Newer::Text(text.clone(), declared.into()),
                Some(problem) => unreadable(problem.message.clone()),
            },
            Err(WorkersError::WorkerExited(exited)) => {
                Newer::Unknown(format!("its original {path} has changed: {exited}"))
            }
            Err(error) => unreadable(error.to_string()),
        }
    }

    async fn take_over(
        &self,
        library: &Library,
        file: &FunctionFile,
        text: &str,
        declared: &[Declaration],
    ) -> Result<FunctionFile, TakeOverError> {
        let (library, text, declares) = (library.clone(), text.to_owned(), declares(declared));
        let (name, over) = (file.name.clone(), file.metadata.hash.clone());
        let origin = file.metadata.origin.as_ref().map(|origin| origin.file.clone());
        let kept = self.disk.writing(move || {
            let origin = origin.map(|file| Origin { file, hash: Signature::of_text(&text) });
            library.keep_functions(&name, &text, origin, declares, Some(&over))
        });
        match kept.await? {
            Ok(kept) => Ok(kept),
            Err(CreateError::Exists { .. }) => Err(TakeOverError::Conflict),
            Err(error) => Err(TakeOverError::Library(error)),
        }
    }
}

/// Returns the library's summary of the declarations.
pub(super) fn declares(declared: &[Declaration]) -> Vec<Declares> {
    let short = declared.iter().map(python::declaration_info);
    short.map(|short| Declares { id: short.id, kind: short.kind, description: short.description }).collect()
}

pub(super) fn file_name(name: &WorkflowName) -> String {
    format!("{name}.py")
}

/// Scans all files of functions in a library, and reads those that have changed. Blocks.
fn look(library: &Library, seen: &HashMap<String, FileState>) -> Vec<ScanResult> {
    let mut found = match library.functions() {
        Ok(found) => found,
        Err(error) => return vec![ScanResult::Broken(library.folder().to_owned(), with_causes(&error))],
    };
    let rest = found.split_off(found.len().min(MAX_FILES));
    let mut looked: Vec<ScanResult> = found.into_iter().filter_map(|found| scan_file(library, found, seen)).collect();
    if let Some(first) = rest.first() {
        let reason = format!("there are more than {MAX_FILES} files of functions; from this one on they are left out");
        looked.push(ScanResult::Broken(library.folder().join(&first.file), reason));
    }
    looked
}

/// Scans one file; `None` after its removal.
fn scan_file(library: &Library, found: FoundFunctions, seen: &HashMap<String, FileState>) -> Option<ScanResult> {
    let path = library.folder().join(&found.file);
    let name = match &found.name {
        Ok(name) => name.clone(),
        Err(error) => return Some(ScanResult::Broken(path, FileError::Name(error.clone()).to_string())),
    };
    let is_same = |seen: &&FileState| {
        let original = seen.original.as_ref().is_none_or(|(path, stamp)| Stamp::at(path) == *stamp);
        seen.settled && seen.stamps == [found.stamp.clone(), found.about.clone()] && original
    };
    if let Some(seen) = seen.get(name.as_str()).filter(is_same) {
        return Some(ScanResult::Same(seen.clone()));
    }
    match library.function_file(&name) {
        Ok(file) => {
            let original = file.metadata.origin.as_ref().map(|origin| Original::read(library.folder(), origin));
            let stamps = [&found.stamp, &found.about, &original.as_ref().and_then(|original| original.stamp.clone())];
            let settled = stamps.into_iter().flatten().all(Stamp::is_settled);
            Some(ScanResult::Read(Box::new(Read { found, file, original, settled })))
        }
        Err(LookupError::NotFound { .. }) => None,
        Err(LookupError::Broken { reason, .. }) => Some(ScanResult::Broken(path, reason.to_string())),
        Err(error @ LookupError::Folder(_)) => Some(ScanResult::Broken(path, with_causes(&error))),
    }
}
