//! Work on files, on threads that may block: a few at a time, with a time limit.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::DiskError;

/// Number of threads that read files at the same time.
const READERS: usize = 8;

/// The number of threads that write files at the same time; they wait for the library's lock anyway.
pub(super) const WRITERS: usize = 4;

/// Time limit of work on a library. A lock that another process holds for longer is not the daemon's own.
pub(super) const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// The threads that work on libraries. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct BlockingPool {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    patience: Duration,
}

impl BlockingPool {
    pub(crate) fn new() -> Self {
        Self {
            readers: Arc::new(Semaphore::new(READERS)),
            writers: Arc::new(Semaphore::new(WRITERS)),
            patience: DISK_TIMEOUT,
        }
    }

    /// Returns the same threads, for a caller with this time limit.
    #[cfg(test)]
    pub(super) fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Does work that changes nothing.
    ///
    /// # Errors
    /// If it takes too long.
    pub(crate) async fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        self.on_disk(self.readers.clone(), work).await
    }

    /// Does work that waits for the lock of a library.
    ///
    /// # Errors
    /// If it takes too long.
    pub(crate) async fn writing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        self.on_disk(self.writers.clone(), work).await
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        turns: Arc<Semaphore>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        let done = async {
            let turn = turns.acquire_owned().await.expect("the semaphore is never closed");
            tokio::task::spawn_blocking(move || {
                // Released when the work has finished, which may be long after the caller's time limit.
                let _turn = turn;
                work()
            })
            .await
        };
        match tokio::time::timeout(self.patience, done).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(DiskError::LibraryInterrupted(error)),
            Err(_) => Err(DiskError::LibraryTimeout { limit: self.patience }),
        }
    }
}
