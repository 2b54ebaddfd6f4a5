//! A signal that something happened in any terminal, for clients that show the states of terminals.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts the events that may change the state of a terminal: output, input, an opening, an end, a hold. Cheap to
/// clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity(Arc<watch::Sender<u64>>);

impl Activity {
    /// Counts one event.
    pub(crate) fn record_event(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns a receiver of the count.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
