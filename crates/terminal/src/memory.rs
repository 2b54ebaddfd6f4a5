//! Returns free memory to the system.
//!
//! glibc keeps freed memory for later, in one heap for each thread: after 200 flooding terminals had closed, a host
//! still had ten times what it needs. `malloc_trim(3)` gives all free pages back, also those between used ones. An
//! allocator that does so on its own (jemalloc, mimalloc) is C to build and costs every allocation of every program for
//! a benefit at the close of a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::process::give_memory_back;

/// Pause before giving memory back, in which more may become free: giving back looks at all of the heap.
const AFTER: Duration = Duration::from_millis(500);

/// Gives memory back after a large release, once for all releases within half a second. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct MemoryReturn {
    is_due: Arc<AtomicBool>,
}

impl MemoryReturn {
    /// Records a large release of memory. Gives it back soon, on a thread that may block.
    pub fn record_freed(&self) {
        if self.is_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let is_due = self.is_due.clone();
        tokio::spawn(async move {
            tokio::time::sleep(AFTER).await;
            is_due.store(false, Ordering::Relaxed);
            // Without a runtime to block there is no memory that matters any more.
            let _ = tokio::task::spawn_blocking(give_memory_back).await;
        });
    }
}
