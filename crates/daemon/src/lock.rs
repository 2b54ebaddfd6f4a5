//! The lock on a state directory: one directory has one daemon.
//! The kernel releases the lock (flock(2)) when its owner exits. The file names the owner, for people and clients.
//!
//! An flock belongs to the open file description, and a forked child shares the description until its `exec`. So
//! closing our descriptor does not release the lock during the start of a child; [`StateLock`] unlocks explicitly, and
//! [`StateLock::acquire`] retries for a short time, because a killed daemon cannot unlock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use steplatch_protocol::{DaemonPaths, DaemonRecord};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Time for retries before the lock is considered owned: longer than a child takes from fork to exec.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// Time between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The ownership of a state directory. Released when dropped.
#[derive(Debug)]
pub(crate) struct StateLock {
    file: File,
    path: PathBuf,
}

/// Watch of the locked file. Once the file is gone, another daemon may own the directory.
///
/// Does not watch the directory itself, because the journal there changes all the time.
pub(crate) struct LockWatch {
    /// Stops the watch on drop. `None` if the system's limit of watches is reached.
    _watcher: Option<RecommendedWatcher>,
    changed: mpsc::Receiver<()>,
}

impl std::fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockWatch").finish_non_exhaustive()
    }
}

/// State of the path of a locked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockFileState {
    /// The path is unchanged.
    Same,
    /// The file was removed, perhaps with its directory.
    Removed,
    /// Another file has the path, because the directory was recreated.
    Replaced,
}

/// Reason for a failure to acquire a state directory.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon owns the directory.
    #[error("a daemon (pid {}, version {}) already owns '{state}' and listens on '{}'; stop it with: steplatch daemon stop", .owner.pid, .owner.version, .owner.socket.display())]
    Owned {
        /// Path of the state directory.
        state: String,
        /// The other daemon.
        owner: DaemonRecord,
    },
    /// A process without a record owns the directory.
    #[error("another process owns '{state}'")]
    OwnedByUnknown {
        /// Path of the state directory.
        state: String,
    },
    /// A system call failed.
    #[error("the state directory '{state}' cannot be locked: {source}")]
    System {
        /// Path of the state directory.
        state: String,
        /// The cause.
        source: io::Error,
    },
}

impl StateLock {
    /// Acquires the lock of a state directory and writes this process into it. Retries for 200 ms while another process
    /// holds the lock.
    pub(crate) async fn acquire(paths: &DaemonPaths) -> Result<Self, LockError> {
        let state = paths.state().display().to_string();
        let system_error = |source| LockError::System { state: state.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(paths.lock())
            .map_err(system_error)?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => tokio::time::sleep(RETRY_PAUSE).await,
                Err(TryLockError::WouldBlock) => {
                    return Err(match paths.running() {
                        Some(owner) => LockError::Owned { state, owner },
                        None => LockError::OwnedByUnknown { state },
                    });
                }
                Err(TryLockError::Error(error)) => return Err(system_error(error)),
            }
        }
        let mut lock = Self { file, path: paths.lock() };
        let owner = DaemonRecord {
            pid: std::process::id(),
            socket: paths.socket(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        lock.write(&owner).map_err(system_error)?;
        Ok(lock)
    }

    /// Begins to watch the locked file.
    pub(crate) fn watch(&self) -> LockWatch {
        let (sender, changed) = mpsc::channel(1);
        let open_sender = sender.clone();
        let watcher = notify::recommended_watcher(move |_: notify::Result<notify::Event>| {
            // One message covers several changes.
            let _ = sender.try_send(());
        });
        let watcher = watcher.and_then(|mut watcher| {
            // The watch detects a removal although the file is open here: its number of links changes.
            watcher.watch(&self.path, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watcher {
            Ok(watcher) => LockWatch { _watcher: Some(watcher), changed },
            Err(error) => {
                tracing::warn!(%error, "failed to watch the state directory; its removal will not be detected");
                // Keep the channel open and silent.
                std::mem::forget(open_sender);
                LockWatch { _watcher: None, changed }
            }
        }
    }

    /// Waits until the locked file is removed or replaced. Cancel-safe.
    pub(crate) async fn wait_until_lost(&self, watch: &mut LockWatch) -> LockFileState {
        loop {
            match self.file_state() {
                LockFileState::Same => {}
                changed => return changed,
            }
            if watch.changed.recv().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    fn file_state(&self) -> LockFileState {
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(locked), Ok(current)) if (locked.dev(), locked.ino()) == (current.dev(), current.ino()) => {
                LockFileState::Same
            }
            (Ok(_), Ok(_)) => LockFileState::Replaced,
            (Ok(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => LockFileState::Removed,
            // An inaccessible file is considered unchanged.
            _ => LockFileState::Same,
        }
    }

    fn write(&mut self, owner: &DaemonRecord) -> io::Result<()> {
        let text = serde_json::to_string(owner).map_err(io::Error::other)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Clear the record of the owner, because it would be misleading. If clearing fails, the lock is still released
        // below.
        let _ = self.file.set_len(0);
        // Closing is not enough, because a forked child that has not reached its `exec` holds the same lock. The kernel
        // releases it in any case when the last holder closes.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(directory: &tempfile::TempDir) -> DaemonPaths {
        DaemonPaths::new(directory.path().to_owned(), directory.path().to_owned())
    }

    /// Simulates a forked child that shares the lock until its `exec`: another descriptor of the same open file.
    fn shared_with_fork(lock: &StateLock) -> File {
        lock.file.try_clone().unwrap()
    }

    #[tokio::test]
    async fn dropped_lock_is_free_despite_a_forked_child() {
        let directory = tempfile::tempdir().unwrap();
        let first = StateLock::acquire(&paths(&directory)).await.unwrap();
        let _forked = shared_with_fork(&first);
        drop(first);
        let second_file = OpenOptions::new().read(true).open(paths(&directory).lock()).unwrap();
        second_file.try_lock().unwrap();
    }

    #[tokio::test]
    async fn removed_or_recreated_state_directory_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let lock = StateLock::acquire(&paths(&directory)).await.unwrap();
        let mut watch = lock.watch();
        tokio::select! {
            biased;
            lost = lock.wait_until_lost(&mut watch) => panic!("{lost:?}"),
            () = std::future::ready(()) => {}
        }
        std::fs::remove_dir_all(directory.path()).unwrap();
        assert_eq!(lock.wait_until_lost(&mut watch).await, LockFileState::Removed);
        std::fs::create_dir(directory.path()).unwrap();
        let other = StateLock::acquire(&paths(&directory)).await.unwrap();
        assert_eq!(lock.wait_until_lost(&mut watch).await, LockFileState::Replaced);
        drop(other);
    }

    #[tokio::test]
    async fn moved_lock_file_is_detected_and_a_write_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let lock = StateLock::acquire(&paths(&directory)).await.unwrap();
        let mut watch = lock.watch();
        std::fs::write(paths(&directory).lock(), "x").unwrap();
        watch.changed.recv().await.unwrap();
        assert_eq!(lock.file_state(), LockFileState::Same);
        std::fs::rename(paths(&directory).lock(), directory.path().join("elsewhere")).unwrap();
        assert_eq!(lock.wait_until_lost(&mut watch).await, LockFileState::Removed);
    }

    #[tokio::test(start_paused = true)]
    async fn acquire_waits_for_a_briefly_held_lock() {
        let directory = tempfile::tempdir().unwrap();
        let killed = StateLock::acquire(&paths(&directory)).await.unwrap();
        let forked = shared_with_fork(&killed);
        // A killed daemon closes its descriptor without unlocking.
        std::mem::forget(killed);
        tokio::spawn(async move {
            tokio::time::sleep(LOCK_TIMEOUT / 2).await;
            forked.unlock().unwrap();
        });
        StateLock::acquire(&paths(&directory)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn permanently_held_lock_is_refused_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let _held = StateLock::acquire(&paths(&directory)).await.unwrap();
        let error = StateLock::acquire(&paths(&directory)).await.unwrap_err();
        let LockError::Owned { owner, .. } = error else { panic!("{error:?}") };
        assert_eq!(owner.pid, std::process::id());
    }
}
