//! Finding the run that a client names.
//!
//! The text of a client becomes a [`RunId`] here, once. The code below names runs by their ids.

use std::sync::Arc;

use steplatch_ids::RunId;
use steplatch_store::StorageError;

use crate::run::Run;
use crate::runs::Runs;

/// Maximum characters of an unknown id that an error repeats.
const MAX_ID_CHARS: usize = 80;

/// Failure to find a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunLookupError {
    /// The journal is unreadable.
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
    /// Returns the error that this names no run.
    pub(crate) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(MAX_ID_CHARS).collect() }
    }
}

/// Reads the id of a run.
///
/// # Errors
///
/// If the text is not an id, so that no run has it.
pub(crate) fn run_id(text: &str) -> Result<RunId, RunLookupError> {
    text.parse().map_err(|_| RunLookupError::not_found(text))
}

impl Runs {
    /// Returns the run that a client names by this text.
    ///
    /// # Errors
    ///
    /// If there is none, or reading the journal fails.
    pub(crate) async fn find_by_text(&self, text: &str) -> Result<Arc<Run>, RunLookupError> {
        self.find(&run_id(text)?).await
    }

    /// Returns the run with this id, in progress or finished.
    ///
    /// # Errors
    ///
    /// If there is none, or reading the journal fails.
    pub(crate) async fn find(&self, id: &RunId) -> Result<Arc<Run>, RunLookupError> {
        self.shared.find(id).await?.ok_or_else(|| RunLookupError::not_found(id.as_str()))
    }
}
