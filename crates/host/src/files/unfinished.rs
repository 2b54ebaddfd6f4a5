//! Unfinished copies of files that clients send. A copy that its client does not finish is removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_files::{WriteTarget, disk};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time after the last piece until an unfinished file is removed. Longer than a client waits for a lost connection.
const UNFINISHED_TIMEOUT: Duration = Duration::from_secs(600);

/// The unfinished files of a terminal host. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnfinishedFiles {
    /// Unfinished files, each with the signal for a further piece.
    files: Arc<Mutex<HashMap<WriteTarget, Arc<Notify>>>>,
}

impl UnfinishedFiles {
    /// Records a piece of a file. Removes the file if no piece follows within [`UNFINISHED_TIMEOUT`].
    pub(crate) fn touch(&self, target: &WriteTarget) {
        let mut files = self.files.lock();
        if let Some(piece_signal) = files.get(target) {
            piece_signal.notify_one();
            return;
        }
        let piece_signal = Arc::new(Notify::new());
        files.insert(target.clone(), piece_signal.clone());
        drop(files);
        let (unfinished, target) = (self.clone(), target.clone());
        tokio::spawn(async move {
            while timeout(UNFINISHED_TIMEOUT, piece_signal.notified()).await.is_ok() {
                if !unfinished.files.lock().contains_key(&target) {
                    return;
                }
            }
            if unfinished.take(&target) {
                crate::blocking::blocking(move || disk::abandon(&target)).await;
            }
        });
    }

    /// Forgets a finished or abandoned file.
    pub(crate) fn forget(&self, target: &WriteTarget) {
        self.take(target);
    }

    fn take(&self, target: &WriteTarget) -> bool {
        let piece_signal = self.files.lock().remove(target);
        // End the task of the file.
        if let Some(piece_signal) = &piece_signal {
            piece_signal.notify_one();
        }
        piece_signal.is_some()
    }

    /// Removes all unfinished files, at the end of the host.
    pub(crate) fn remove_all(&self) {
        self.files.lock().drain().for_each(|(target, _)| disk::abandon(&target));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin_copy(files: &UnfinishedFiles, directory: &std::path::Path) -> (WriteTarget, std::path::PathBuf) {
        let target = WriteTarget { path: directory.join("file"), transfer: "t1".to_owned() };
        files.touch(&target);
        disk::write(&target, 0, b"half").unwrap();
        (target, directory.join(".steplatch-t1.part"))
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_file_is_removed_after_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let files = UnfinishedFiles::default();
        let (target, part) = begin_copy(&files, directory.path());
        tokio::time::sleep(UNFINISHED_TIMEOUT / 2).await;
        files.touch(&target);
        tokio::time::sleep(UNFINISHED_TIMEOUT * 3 / 4).await;
        assert!(part.exists(), "a piece came meanwhile");
        tokio::time::sleep(UNFINISHED_TIMEOUT / 2).await;
        // The clock is paused, but a separate thread removes the file.
        for _ in 0..1000 {
            if !part.exists() {
                break;
            }
            crate::blocking::blocking(|| std::thread::sleep(Duration::from_millis(5))).await;
        }
        assert!(!part.exists());
        assert!(files.files.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn finished_file_stays_and_host_end_removes_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let files = UnfinishedFiles::default();
        let (target, part) = begin_copy(&files, directory.path());
        files.forget(&target);
        tokio::time::sleep(UNFINISHED_TIMEOUT * 2).await;
        assert!(part.exists());
        files.touch(&target);
        files.remove_all();
        assert!(!part.exists());
    }
}
