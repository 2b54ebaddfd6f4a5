//! Pool of a few blocking threads that work on files, with a time limit.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::error::DiskError;

/// Maximum number of threads that read files at the same time.
const MAX_READERS: usize = 8;

/// Maximum number of threads that write files at the same time. Most of them wait for a library's lock.
pub(super) const MAX_WRITERS: usize = 4;

/// Time limit for work on a library. Only another process holds its lock for longer.
pub(super) const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// The threads that work on libraries. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct BlockingPool {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    timeout: Duration,
}

impl BlockingPool {
    pub(crate) fn new() -> Self {
        Self {
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            writers: Arc::new(Semaphore::new(MAX_WRITERS)),
            timeout: DISK_TIMEOUT,
        }
    }

    /// Returns a handle to the same threads, with another time limit.
    #[cfg(test)]
    pub(super) fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// Runs work that only reads.
    ///
    /// # Errors
    /// If the work exceeds the time limit.
    pub(crate) async fn run_read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        self.run_blocking(self.readers.clone(), work).await
    }

    /// Runs work that waits for a library's lock.
    ///
    /// # Errors
    /// If the work exceeds the time limit.
    pub(crate) async fn run_write<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        self.run_blocking(self.writers.clone(), work).await
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        semaphore: Arc<Semaphore>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        let work = async {
            let permit = semaphore.acquire_owned().await.expect("the semaphore is never closed");
            tokio::task::spawn_blocking(move || {
                // Released when the work finishes, possibly long after the caller's time limit.
                let _permit = permit;
                work()
            })
            .await
        };
        match tokio::time::timeout(self.timeout, work).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(DiskError::LibraryInterrupted(error)),
            Err(_) => Err(DiskError::LibraryTimeout { limit: self.timeout }),
        }
    }
}
