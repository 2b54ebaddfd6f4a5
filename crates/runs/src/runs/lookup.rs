//! Lookup of the run that a client names.

use std::sync::Arc;

use steplatch_ids::RunId;

use crate::lookup::{RunLookupError, parse_run_id};
use crate::run::Run;
use crate::runs::Runs;

impl Runs {
    /// Returns the run that a client names by this text.
    ///
    /// # Errors
    ///
    /// If there is no such run, or reading the journal fails.
    pub(crate) async fn find_by_text(&self, text: &str) -> Result<Arc<Run>, RunLookupError> {
        self.find(&parse_run_id(text)?).await
    }

    /// Returns the run with this id, in progress or finished.
    ///
    /// # Errors
    ///
    /// If there is no such run, or reading the journal fails.
    pub(crate) async fn find(&self, id: &RunId) -> Result<Arc<Run>, RunLookupError> {
        self.shared.find(id).await?.ok_or_else(|| RunLookupError::not_found(id.as_str()))
    }
}
