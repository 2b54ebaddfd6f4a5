//! The history of runs.
//!
//! Owns what is remembered of a run: numbered records, appended and never changed.
//! A record is the text that its writer gave, with a version; what it means is the
//! writer's business. Only this crate writes histories, and a new [`Journal`] is
//! finished when [`conformance!`] passes for it.

mod conformance;
mod memory;

use std::future::Future;

use steplatch_ids::RunId;

pub use conformance::Scripted;
pub use memory::MemoryJournal;

/// One entry of a run's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number within the run, from 1 and without gaps.
    pub seq: u64,
    /// Version of what `text` is written in. Readers refuse versions that they do not know, by name.
    pub version: u16,
    /// The entry.
    pub text: String,
}

/// Why records were not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Somebody else wrote in between: the writer decided on a history that is not the newest.
    #[error("run {run} is at entry {is}, not at {expected}")]
    Conflict {
        /// The run.
        run: RunId,
        /// The entry that the writer believed to be the last.
        expected: u64,
        /// The last entry.
        is: u64,
    },
}

/// Where histories are kept.
pub trait Journal: Send + Sync + 'static {
    /// Appends `texts` to the history of `run`, all or none, behind its entry number `after` (0: none yet).
    /// Returns the number of the last entry once all of them are as durable as this journal makes them.
    fn append(
        &self,
        run: &RunId,
        after: u64,
        version: u16,
        texts: Vec<String>,
    ) -> impl Future<Output = Result<u64, AppendError>> + Send;

    /// Returns the entries of `run` from number `from` on, in order; none for a run that is not known.
    fn read(&self, run: &RunId, from: u64) -> impl Future<Output = Vec<Record>> + Send;

    /// Returns every run that has a history, in the order in which they began.
    fn runs(&self) -> impl Future<Output = Vec<RunId>> + Send;

    /// Drops the history of `run`.
    fn forget(&self, run: &RunId) -> impl Future<Output = ()> + Send;
}
