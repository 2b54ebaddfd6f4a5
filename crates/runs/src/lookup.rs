//! Lookup of the run that a client names.
//! A client's text becomes a [`RunId`] only here. All other code refers to runs by their ids.

use steplatch_ids::RunId;
use steplatch_store::StorageError;

/// Maximum length of an unknown id in an error, in characters.
const MAX_ID_CHARS: usize = 80;

/// Failure to find a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunLookupError {
    /// The journal is unreadable.
    #[error("the runs cannot be read: {0}")]
    Unreadable(#[from] StorageError),
    /// No run has the id, or the string is not an id.
    #[error("Workflow run '{id}' not found; list_runs lists the runs")]
    NotFound {
        /// The unknown id, at most 80 characters.
        id: String,
    },
}

impl RunLookupError {
    /// Returns the error for a text that names no run.
    pub(crate) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(MAX_ID_CHARS).collect() }
    }
}

/// Reads the id of a run.
///
/// # Errors
///
/// If the text is not an id, so that no run has it.
pub(crate) fn parse_run_id(text: &str) -> Result<RunId, RunLookupError> {
    text.parse().map_err(|_| RunLookupError::not_found(text))
}
