//! The project of a caller, and its current declarations.
//!
//! The library checks the loaded files. This module reads other files on request, and caches them until they change.
//! Threads that may block do all of it, a few at a time and with a time limit.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use steplatch_access::Caller;
use steplatch_protocol::DEFAULT_SESSION;
use tokio::sync::Semaphore;

use super::project::{FILES, Project};
use crate::error::{DiskError, SessionError};
use crate::folders::{LibrarySearch, is_in_project};
use crate::functions::{FunctionFiles, FunctionLibrary};
use crate::text_file;

/// Maximum number of cached projects.
const MAX_CACHED_PROJECTS: usize = 16;

/// Number of threads that read at the same time.
const READERS: usize = 4;

/// Time limit of reading the files of a project.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Age below which a changed file may change again without a difference in its timestamps.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// All projects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Projects {
    functions: FunctionFiles,
    readers: Arc<Semaphore>,
    /// The most recently requested one is the last one.
    kept: Arc<Mutex<Vec<CachedProject>>>,
}

#[derive(Debug)]
struct CachedProject {
    stamps: [Option<FileFingerprint>; 2],
    shelves: Vec<Arc<FunctionLibrary>>,
    project: Arc<Project>,
}

/// The data that identify an unchanged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileFingerprint {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Projects {
    pub(crate) fn new(functions: FunctionFiles) -> Self {
        Self { functions, readers: Arc::new(Semaphore::new(READERS)), kept: Arc::default() }
    }

    /// Returns the declarations of the caller's project. A project without declarations has `identity` only.
    ///
    /// # Errors
    ///
    /// If the disk does not answer.
    #[boxed]
    pub async fn find_project(&self, caller: &Caller) -> Result<Arc<Project>, DiskError> {
        let asker = LibrarySearch::for_caller(caller);
        let (libraries, folder) = self.looked_at(caller, move || (asker.libraries(), asker.with_file(&FILES))).await?;
        let mut shelves = Vec::with_capacity(libraries.len());
        for library in &libraries {
            shelves.push(self.functions.read_library(library).await?);
        }
        let kept = self.kept.clone();
        let folder = folder.or_else(|| home(&shelves)).unwrap_or_else(|| caller.folder.clone());
        self.looked_at(caller, move || current(&kept, folder, shelves)).await
    }

    /// Checks that a session name refers to the caller's project: `default` does, and the name of its directory.
    ///
    /// # Errors
    ///
    /// If it does not, or the disk does not answer.
    #[boxed]
    pub async fn session(&self, caller: &Caller, name: &str) -> Result<(), SessionError> {
        if name == DEFAULT_SESSION
            || self.find_project(caller).await?.folder.file_name().is_some_and(|folder| folder == name)
        {
            return Ok(());
        }
        Err(SessionError::NotFound { name: name.chars().take(80).collect() })
    }

    async fn looked_at<T: Send + 'static>(
        &self,
        caller: &Caller,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        let readers = self.readers.clone();
        let looking = async move {
            let turn = readers.acquire_owned().await.expect("the semaphore is never closed");
            tokio::task::spawn_blocking(move || {
                // Released when the work has finished, which may be long after the caller's time limit.
                let _turn = turn;
                look()
            })
            .await
        };
        match tokio::time::timeout(READ_TIMEOUT, looking).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(DiskError::ProjectInterrupted(error)),
            Err(_) => Err(DiskError::ProjectTimeout { folder: caller.folder.clone(), limit: READ_TIMEOUT }),
        }
    }
}

/// Returns the directory of a project with only loaded files as its identity.
fn home(shelves: &[Arc<FunctionLibrary>]) -> Option<PathBuf> {
    let first = shelves.first().filter(|shelf| !shelf.files.is_empty() && is_in_project(&shelf.folder))?;
    first.folder.parent().map(Path::to_owned)
}

/// Returns the project in `folder`, read again unless its files and the loaded files are unchanged.
fn current(kept: &Mutex<Vec<CachedProject>>, folder: PathBuf, shelves: Vec<Arc<FunctionLibrary>>) -> Arc<Project> {
    let stamps = FILES.map(|name| stamp(&folder.join(name)));
    {
        let mut kept = kept.lock();
        if let Some(place) = kept.iter().position(|kept| kept.project.folder == folder) {
            let known = kept.remove(place);
            let is_loaded = known.shelves.len() == shelves.len()
                && known.shelves.iter().zip(&shelves).all(|(one, other)| Arc::ptr_eq(one, other));
            if known.stamps == stamps && is_loaded {
                let project = known.project.clone();
                kept.push(known);
                return project;
            }
        }
    }
    let files = FILES.iter().zip(&stamps).filter(|(_, stamp)| stamp.is_some()).map(|(name, _)| folder.join(name));
    let files = files.map(|file| (file.clone(), text_file::read(&file))).collect();
    let project = Arc::new(Project::from_files(folder, files, &shelves));
    if stamps.iter().flatten().all(FileFingerprint::is_settled) {
        let mut kept = kept.lock();
        if kept.len() >= MAX_CACHED_PROJECTS {
            kept.remove(0);
        }
        kept.push(CachedProject { stamps, shelves, project: project.clone() });
    }
    project
}

/// Returns the fingerprint of a file; `None` if it does not exist.
fn stamp(file: &Path) -> Option<FileFingerprint> {
    let found = fs::metadata(file).ok()?;
    let changed = (found.ctime(), found.ctime_nsec());
    Some(FileFingerprint { device: found.dev(), inode: found.ino(), size: found.size(), changed })
}

impl FileFingerprint {
    fn is_settled(&self) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // `changed` has whole seconds only, so up to one more second is unknown.
        SystemTime::now().duration_since(changed).is_ok_and(|since| since > SETTLE_TIME * 2)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_read_again_only_once_a_file_of_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, file) = (Mutex::default(), folder.path().join("steplatch.json"));
        let ids = |project: &Project| project.nodes.keys().cloned().collect::<Vec<_>>().join(" ");
        let look = || current(&kept, folder.path().to_owned(), Vec::new());
        fs::write(&file, r#"{"nodes": {"one": {"type": "identity"}}}"#).unwrap();
        assert_eq!(ids(&look()), "identity one");
        fs::write(&file, r#"{"nodes": {"two": {"type": "identity"}}}"#).unwrap();
        assert_eq!(ids(&look()), "identity two", "of the same length, at nearly the same time");
        fs::remove_file(&file).unwrap();
        let (first, second) = (look(), look());
        assert_eq!(ids(&first), "identity");
        assert!(Arc::ptr_eq(&first, &second), "what did not change is kept");
        for at in 0..2 * MAX_CACHED_PROJECTS {
            current(&kept, folder.path().join(at.to_string()), Vec::new());
        }
        assert_eq!(kept.lock().len(), MAX_CACHED_PROJECTS);
    }

    #[test]
    fn what_is_no_text_of_a_reasonable_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let reason = |project: &Project| project.broken[0].reason.clone();
        let look = || current(&Mutex::default(), folder.path().to_owned(), Vec::new());
        let file = folder.path().join("steplatch.toml");
        fs::create_dir(&file).unwrap();
        assert_eq!(reason(&look()), "it is a directory");
        fs::remove_dir(&file).unwrap();
        fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
        assert_eq!(reason(&look()), "it has more than 1024 KB, the limit");
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(reason(&look()), "it is not UTF-8");
    }
}
