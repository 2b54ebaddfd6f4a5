//! Atomic replacement of files in a directory, under a lock on the whole directory.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::{DirectoryError, FileError};

const LOCK_FILE: &str = ".lock";
/// Prefix of the names of unfinished files.
const UNFINISHED_PREFIX: &str = ".unfinished-";
/// Text of the `.gitignore` that is written with the directory, so that users need not write one.
const GITIGNORE_TEXT: &str = "/index.json\n/.lock\n/.unfinished-*\n";

/// The lock, released on drop. It belongs to an open file, so it also excludes other threads of this process.
#[derive(Debug)]
pub(crate) struct DirectoryLock<'f> {
    directory: &'f Path,
    file: File,
}

/// Identity and timestamps of a file, to detect that it was replaced or edited.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    size: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Minimum age of a settled file. A younger file may change again without a change of its timestamps.
const SETTLE_TIME: Duration = Duration::from_secs(2);

impl Stamp {
    /// Returns the stamp of the regular file at `path`. Blocks.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        stamp(path)
    }

    /// Returns whether the last change is old enough that another change would alter the timestamps.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // The time has whole seconds only, so the change may be up to one second later.
        SystemTime::now().duration_since(changed).is_ok_and(|since| since > SETTLE_TIME)
    }

    fn from_metadata(metadata: &fs::Metadata) -> Self {
        Self {
            size: metadata.size(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file of the directory, not yet read.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) name: OsString,
    pub(crate) path: PathBuf,
    /// `None` for anything but a regular file, and for a dangling link.
    pub(crate) stamp: Option<Stamp>,
}

impl<'f> DirectoryLock<'f> {
    /// Waits for the lock, after creating the directory if it is missing.
    pub(crate) fn wait(directory: &'f Path) -> Result<Self, DirectoryError> {
        create_directory(directory)?;
        let file = open_lock_file(directory)?;
        loop {
            match file.lock() {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DirectoryError::from_io(&directory.join(LOCK_FILE), error)),
            }
        }
        let locked = Self { directory, file };
        locked.remove_unfinished();
        Ok(locked)
    }

    /// Takes the lock of an existing directory, if it is free.
    pub(crate) fn try_lock(directory: &'f Path) -> Option<Self> {
        let file = open_lock_file(directory).ok()?;
        file.try_lock().ok()?;
        Some(Self { directory, file })
    }

    /// Replaces a file atomically: a reader sees the old or the new file, even after a crash.
    pub(crate) fn replace(&self, name: &str, text: &[u8]) -> Result<(), DirectoryError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.directory.join(format!("{UNFINISHED_PREFIX}{}-{count}", std::process::id()));
        let target = self.directory.join(name);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&unfinished)?;
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&unfinished, &target)?;
            sync_directory(target.parent().unwrap_or(self.directory))
        };
        write().map_err(|cause| {
            // The file may not exist. If the removal fails, the next writer removes the file.
            let _ = fs::remove_file(&unfinished);
            DirectoryError::from_io(&target, cause)
        })
    }

    /// Removes a file. Returns whether it existed.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, DirectoryError> {
        let file = self.directory.join(name);
        match fs::remove_file(&file).and_then(|()| sync_directory(file.parent().unwrap_or(self.directory))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(DirectoryError::from_io(&file, error)),
        }
    }

    /// Creates a subdirectory, unless it exists.
    pub(crate) fn create_directory(&self, name: &str) -> Result<(), DirectoryError> {
        let directory = self.directory.join(name);
        if directory.is_dir() {
            return Ok(());
        }
        let created =
            fs::create_dir(&directory).and_then(|()| sync_directory(directory.parent().unwrap_or(self.directory)));
        created.map_err(|error| DirectoryError::from_io(&directory, error))
    }

    /// Removes the unfinished files of killed writers; the lock excludes live ones.
    fn remove_unfinished(&self) {
        let Ok(files) = fs::read_dir(self.directory) else { return };
        for file in files.flatten() {
            if file.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX) {
                // Ignore the error, because an unfinished file does no harm.
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

impl Drop for DirectoryLock<'_> {
    fn drop(&mut self) {
        // Closing is not enough, because a forked child that has not reached its `exec` shares the open file and its
        // lock. If this fails, the kernel releases the lock when the last holder closes the file.
        let _ = self.file.unlock();
    }
}

/// Makes changes to a directory's entries durable.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn create_directory(directory: &Path) -> Result<(), DirectoryError> {
    if directory.is_dir() {
        return Ok(());
    }
    let failed = |cause| DirectoryError::from_io(&directory.join(LOCK_FILE), cause);
    fs::create_dir_all(directory).map_err(failed)?;
    fs::write(directory.join(".gitignore"), GITIGNORE_TEXT).map_err(failed)
}

fn open_lock_file(directory: &Path) -> Result<File, DirectoryError> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    file.map_err(|cause| DirectoryError::from_io(&path, cause))
}

/// Returns the visible files of the directory with this suffix, by name; none if there is no directory.
pub(crate) fn files(directory: &Path, suffix: &str) -> Result<Vec<FoundFile>, DirectoryError> {
    let failed = |cause| DirectoryError::from_io(&directory.join("."), cause);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for file in entries {
        let file = file.map_err(failed)?;
        let name = file.file_name();
        let text = name.to_string_lossy();
        if text.ends_with(suffix) && !text.starts_with('.') {
            files.push(FoundFile { stamp: stamp(&file.path()), path: file.path(), name });
        }
    }
    files.sort_unstable_by(|first, second| first.name.cmp(&second.name));
    Ok(files)
}

/// Returns the stamp of a regular file.
pub(crate) fn stamp(file: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(file).ok()?;
    metadata.is_file().then(|| Stamp::from_metadata(&metadata))
}

/// Reads a regular file of at most `max_bytes` bytes; `None` if it does not exist.
///
/// # Errors
/// The defect of the file.
pub(crate) fn read(path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>, FileError> {
    // Check this first, because opening a pipe blocks until a writer opens it.
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(FileError::NotFile),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(FileError::Unreadable(error)),
    }
    let mut text = Vec::new();
    let result = File::open(path).and_then(|file| file.take(max_bytes as u64 + 1).read_to_end(&mut text));
    match result {
        Ok(_) if text.len() > max_bytes => Err(FileError::TooLarge { max_bytes }),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::Unreadable(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_lock_is_free_despite_a_forked_child() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::wait(directory.path()).unwrap();
        let _forked = first.file.try_clone().unwrap();
        drop(first);
        assert!(DirectoryLock::try_lock(directory.path()).is_some());
    }
}
