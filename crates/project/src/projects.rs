//! The project of a caller, and its current declarations.
//!
//! [`FunctionFiles`] checks the loaded files. This module reads the declaration files on request, and caches a project
//! until a file changes. A few blocking threads do this work, with a time limit.

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

use super::project::{DECLARATION_FILES, Project};
use crate::directories::{LibrarySearch, is_in_project};
use crate::error::{DiskError, SessionError};
use crate::functions::{FunctionFiles, FunctionLibrary};
use crate::text_file;

/// Maximum number of cached projects.
const MAX_CACHED_PROJECTS: usize = 16;

/// Maximum number of threads that read files at the same time.
const MAX_READERS: usize = 4;

/// Time limit for reading the files of a project.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum age of a settled file. A younger file may change again without a visible change of its timestamps.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// All projects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Projects {
    functions: FunctionFiles,
    readers: Arc<Semaphore>,
    /// The most recently requested project is last.
    cache: Arc<Mutex<Vec<CachedProject>>>,
}

#[derive(Debug)]
struct CachedProject {
    fingerprints: [Option<FileFingerprint>; 2],
    libraries: Vec<Arc<FunctionLibrary>>,
    project: Arc<Project>,
}

/// Metadata of a file that changes whenever the file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileFingerprint {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

impl Projects {
    pub(crate) fn new(functions: FunctionFiles) -> Self {
        Self { functions, readers: Arc::new(Semaphore::new(MAX_READERS)), cache: Arc::default() }
    }

    /// Returns the declarations of the caller's project. A project without declarations has `identity` only.
    ///
    /// # Errors
    ///
    /// If disk access fails.
    #[boxed]
    pub async fn find_project(&self, caller: &Caller) -> Result<Arc<Project>, DiskError> {
        let library_search = LibrarySearch::for_caller(caller);
        let (library_directories, directory) = self
            .run_read(caller, move || {
                (library_search.libraries(), library_search.directory_with_file(&DECLARATION_FILES))
            })
            .await?;
        let mut libraries = Vec::with_capacity(library_directories.len());
        for library in &library_directories {
            libraries.push(self.functions.read_library(library).await?);
        }
        let cache = self.cache.clone();
        let directory =
            directory.or_else(|| project_of_library(&libraries)).unwrap_or_else(|| caller.directory.clone());
        self.run_read(caller, move || load_project(&cache, directory, libraries)).await
    }

    /// Checks that a session name refers to the caller's project: `default`, or the name of the project's directory.
    ///
    /// # Errors
    ///
    /// If the name is another one, or disk access fails.
    #[boxed]
    pub async fn check_session(&self, caller: &Caller, name: &str) -> Result<(), SessionError> {
        if name == DEFAULT_SESSION
            || self.find_project(caller).await?.directory.file_name().is_some_and(|directory| directory == name)
        {
            return Ok(());
        }
        Err(SessionError::NotFound { name: name.chars().take(80).collect() })
    }

    async fn run_read<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        let readers = self.readers.clone();
        let work = async move {
            let permit = readers.acquire_owned().await.expect("the semaphore is never closed");
            tokio::task::spawn_blocking(move || {
                // Released when the work finishes, possibly long after the caller's time limit.
                let _permit = permit;
                work()
            })
            .await
        };
        match tokio::time::timeout(READ_TIMEOUT, work).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(DiskError::ProjectInterrupted(error)),
            Err(_) => Err(DiskError::ProjectTimeout { directory: caller.directory.clone(), limit: READ_TIMEOUT }),
        }
    }
}

/// Returns the directory of a project that declares nothing outside its library.
fn project_of_library(libraries: &[Arc<FunctionLibrary>]) -> Option<PathBuf> {
    let first = libraries.first().filter(|library| !library.files.is_empty() && is_in_project(&library.directory))?;
    first.directory.parent().map(Path::to_owned)
}

/// Returns the project in `directory`. Reads the project's files again only after a change of these or of the loaded
/// files.
fn load_project(
    cache: &Mutex<Vec<CachedProject>>,
    directory: PathBuf,
    libraries: Vec<Arc<FunctionLibrary>>,
) -> Arc<Project> {
    let fingerprints = DECLARATION_FILES.map(|name| fingerprint(&directory.join(name)));
    {
        let mut cache = cache.lock();
        if let Some(index) = cache.iter().position(|cached| cached.project.directory == directory) {
            let cached = cache.remove(index);
            let is_loaded = cached.libraries.len() == libraries.len()
                && cached.libraries.iter().zip(&libraries).all(|(left, right)| Arc::ptr_eq(left, right));
            if cached.fingerprints == fingerprints && is_loaded {
                let project = cached.project.clone();
                cache.push(cached);
                return project;
            }
        }
    }
    let files = DECLARATION_FILES
        .iter()
        .zip(&fingerprints)
        .filter(|(_, fingerprint)| fingerprint.is_some())
        .map(|(name, _)| directory.join(name));
    let files = files.map(|file| (file.clone(), text_file::read(&file))).collect();
    let project = Arc::new(Project::from_files(directory, files, &libraries));
    if fingerprints.iter().flatten().all(FileFingerprint::is_settled) {
        let mut cache = cache.lock();
        if cache.len() >= MAX_CACHED_PROJECTS {
            cache.remove(0);
        }
        cache.push(CachedProject { fingerprints, libraries, project: project.clone() });
    }
    project
}

/// Returns the fingerprint of a file; `None` if it does not exist.
fn fingerprint(file: &Path) -> Option<FileFingerprint> {
    let metadata = fs::metadata(file).ok()?;
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Some(FileFingerprint { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), changed })
}

impl FileFingerprint {
    fn is_settled(&self) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // The nanoseconds are ignored, so the file may be up to one second younger.
        SystemTime::now().duration_since(changed).is_ok_and(|since| since > SETTLE_TIME * 2)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn project_is_reloaded_only_after_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let (cache, file) = (Mutex::default(), directory.path().join("steplatch.json"));
        let ids = |project: &Project| project.nodes.keys().cloned().collect::<Vec<_>>().join(" ");
        let load = || load_project(&cache, directory.path().to_owned(), Vec::new());
        fs::write(&file, r#"{"nodes": {"one": {"type": "identity"}}}"#).unwrap();
        assert_eq!(ids(&load()), "identity one");
        fs::write(&file, r#"{"nodes": {"two": {"type": "identity"}}}"#).unwrap();
        assert_eq!(ids(&load()), "identity two", "a change of equal length at nearly the same time is detected");
        fs::remove_file(&file).unwrap();
        let (first, second) = (load(), load());
        assert_eq!(ids(&first), "identity");
        assert!(Arc::ptr_eq(&first, &second), "unchanged parts are kept");
        for at in 0..2 * MAX_CACHED_PROJECTS {
            load_project(&cache, directory.path().join(at.to_string()), Vec::new());
        }
        assert_eq!(cache.lock().len(), MAX_CACHED_PROJECTS);
    }

    #[test]
    fn overlong_or_binary_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let reason = |project: &Project| project.broken[0].reason.clone();
        let load = || load_project(&Mutex::default(), directory.path().to_owned(), Vec::new());
        let file = directory.path().join("steplatch.toml");
        fs::create_dir(&file).unwrap();
        assert_eq!(reason(&load()), "it is a directory");
        fs::remove_dir(&file).unwrap();
        fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
        assert_eq!(reason(&load()), "it has more than 1024 KB, the limit");
        fs::write(&file, b"\xff").unwrap();
        assert_eq!(reason(&load()), "it is not UTF-8");
    }
}
