//! Returns free memory to the system.
//!
//! glibc keeps freed memory in one heap for each thread: after 200 flooding terminals had closed, a host still held ten
//! times the memory that it needs. `malloc_trim(3)` returns all free pages, even free pages between used ones. An
//! allocator that returns memory by itself (jemalloc, mimalloc) requires a C compiler and affects every allocation, for
//! a benefit only at the close of a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::process::return_free_memory;

/// Delay before memory is returned, because a return scans the whole heap. More memory may become free in the meantime.
const RETURN_DELAY: Duration = Duration::from_millis(500);

/// Returns memory after a large release, once for all releases within half a second. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct MemoryReturn {
    is_due: Arc<AtomicBool>,
}

impl MemoryReturn {
    /// Records a large release of memory and schedules its return on a thread that may block.
    pub fn record_freed(&self) {
        if self.is_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let is_due = self.is_due.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RETURN_DELAY).await;
            is_due.store(false, Ordering::Relaxed);
            // Ignore the error, because the runtime is shutting down.
            let _ = tokio::task::spawn_blocking(return_free_memory).await;
        });
    }
}
