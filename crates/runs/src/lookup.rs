//! Why a run that a client names is not found.

use steplatch_store::StorageError;

/// The most characters of an unknown id that an error repeats.
const LONGEST_ID: usize = 80;

/// Why a run is not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunLookupError {
    /// The journal cannot be read.
    #[error("the runs can not be read: {0}")]
    Unreadable(#[from] StorageError),
    /// No run has the id, or the text is not an id.
    #[error("Workflow run '{id}' not found; list_runs tells which there are")]
    NotFound {
        /// The text that names it, at most 80 characters.
        id: String,
    },
}

impl RunLookupError {
    /// Returns the error that no run has this id.
    pub(crate) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(LONGEST_ID).collect() }
    }
}
