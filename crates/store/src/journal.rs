//! The interface of a journal, with its arguments and results.

use std::fmt::Debug;

use async_trait::async_trait;
use steplatch_ids::RunId;

use crate::{AppendError, ReadError, StorageError};

/// One entry of a run's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number within the run, starting at 1, without gaps.
    pub seq: u64,
    /// Format version of `text`. Readers refuse unknown versions with an error that names them.
    pub version: u16,
    /// The entry.
    pub text: String,
}

/// Summary of a run for lists, stored next to its history so that a list reads no histories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The state of the run, as a word defined by its writer; lists can be filtered by it.
    pub state: String,
    /// End time of the run, in milliseconds since 1970. Only such a run may be removed as finished.
    pub finished_at: Option<u64>,
    /// All other data, as JSON that its writer defines.
    pub text: String,
}

/// Entries to append atomically.
#[derive(Debug, Clone)]
pub struct Append {
    /// Run whose history to extend.
    pub run: RunId,
    /// The expected last entry (0: none yet).
    pub after: u64,
    /// Format version of `texts`.
    pub version: u16,
    /// The entries. If empty, only the summary of a known run changes.
    pub texts: Vec<String>,
    /// The new summary; without one, the previous summary remains.
    pub summary: Option<Summary>,
    /// Unique key for looking up this run.
    pub key: Option<String>,
    /// Data that the writer needs until the run has finished, such as secrets that no entry contains. New data replaces
    /// the previous data. A summary of a finished run removes the data.
    pub private: Option<String>,
    /// Replacement text for entries up to `after`, because the stored text contains secrets. Except for the secrets,
    /// their meaning must not change.
    pub redacted: Vec<(u64, String)>,
}

impl Append {
    /// Returns entries for a history, with neither summary nor key.
    #[must_use]
    pub fn new(run: RunId, after: u64, version: u16, texts: Vec<String>) -> Self {
        Self { run, after, version, texts, summary: None, key: None, private: None, redacted: Vec::new() }
    }

    /// Sets the summary.
    #[must_use]
    pub fn with_summary(self, summary: Summary) -> Self {
        Self { summary: Some(summary), ..self }
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the private data.
    #[must_use]
    pub fn with_private(self, private: impl Into<String>) -> Self {
        Self { private: Some(private.into()), ..self }
    }
}

/// The result of an [`Append`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The entries are stored.
    Written {
        /// Number of the last entry.
        last: u64,
    },
    /// The key already belongs to a run, so nothing was written.
    Existing {
        /// Run that owns the key; possibly the run of this append.
        run: RunId,
    },
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRun {
    /// The run.
    pub run: RunId,
    /// Position in the order of all starts; a journal never reuses a position.
    pub number: u64,
    /// Number of its last entry.
    pub last: u64,
    /// The newest summary.
    pub summary: Option<Summary>,
}

/// Filter of a list of runs. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs whose summary has this state.
    pub state: Option<String>,
    /// Only finished runs, or only unfinished runs.
    pub finished: Option<bool>,
    /// Only runs with a smaller [`KnownRun::number`], to continue a list after that run.
    pub before: Option<u64>,
    /// Maximum number of runs to return.
    pub limit: Option<usize>,
}

/// Rules for the retention of finished runs. A run must satisfy both rules to remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of most recently finished runs to keep.
    pub keep: usize,
    /// Earliest finish time of a run to keep, in milliseconds since 1970.
    pub finished_since: Option<u64>,
}

/// A store of run histories.
///
/// ```
/// use steplatch_store::{AppendError, Journal, MemoryJournal};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = MemoryJournal::default();
/// let run = "run_0123456789abcdef".parse()?;
/// let last = journal.append(&run, 0, 1, vec!["started".to_owned(), "asked".to_owned()]).await?;
/// assert_eq!(last, 2);
///
/// // An append that is based on an outdated history is refused.
/// let conflict = journal.append(&run, 1, 1, vec!["asked again".to_owned()]).await;
/// assert!(matches!(conflict, Err(AppendError::Conflict { .. })));
///
/// let texts: Vec<String> = journal.read(&run, 0).await?.into_iter().map(|record| record.text).collect();
/// assert_eq!(texts, ["started", "asked"]);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Journal: Debug + Send + Sync + 'static {
    /// Appends entries with their summary, key and private data atomically. Returns once the entries are stored with
    /// the durability of this journal. A caller that stops waiting does not cancel its append.
    ///
    /// # Errors
    /// If the append is based on an outdated history, or the journal cannot write.
    async fn write(&self, append: Append) -> Result<Appended, AppendError>;

    /// Appends `texts` to the history of `run` atomically, after its entry number `after` (0: none yet). Returns the
    /// number of the last entry.
    ///
    /// # Errors
    /// As [`Self::write`].
    async fn append(&self, run: &RunId, after: u64, version: u16, texts: Vec<String>) -> Result<u64, AppendError> {
        match self.write(Append::new(run.clone(), after, version, texts)).await? {
            Appended::Written { last } => Ok(last),
            Appended::Existing { run } => unreachable!("{run} has a key, but this append has none"),
        }
    }

    /// Returns the entries of `run` starting at number `from`, in order; none for an unknown run.
    ///
    /// # Errors
    /// If an entry is damaged or has a newer version, or the journal cannot read. The entries after such an entry are
    /// useless without it.
    async fn read(&self, run: &RunId, from: u64) -> Result<Vec<Record>, ReadError>;

    /// Returns at most `limit` entries of `run`, starting at number `from`, in order: fewer only at the end of the
    /// history.
    ///
    /// # Errors
    /// As [`Self::read`].
    async fn read_some(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<Record>, ReadError>;

    /// Returns the runs that have a history, the newest first.
    ///
    /// # Errors
    /// If the journal cannot read.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<KnownRun>, StorageError>;

    /// Returns `run`, if it has a history.
    ///
    /// # Errors
    /// If the journal cannot read.
    async fn find(&self, run: &RunId) -> Result<Option<KnownRun>, StorageError>;

    /// Returns the private data of `run`. The journal stores such data until the run has finished.
    ///
    /// # Errors
    /// If the journal cannot read.
    async fn private(&self, run: &RunId) -> Result<Option<String>, StorageError>;

    /// Returns the run that has `key`.
    ///
    /// # Errors
    /// If the journal cannot read.
    async fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StorageError>;

    /// Removes the history of `run`, its summary and its keys, if the run exists.
    ///
    /// # Errors
    /// If the journal cannot write.
    async fn forget(&self, run: &RunId) -> Result<(), StorageError>;

    /// Ensures that overwritten and removed data no longer exists in any file. Returns false if a reader currently
    /// needs such data.
    ///
    /// # Errors
    /// If the journal cannot write.
    async fn empty_log(&self) -> Result<bool, StorageError>;

    /// Removes the finished runs that `retention` does not keep. Returns the removed runs, in the order of their ends.
    ///
    /// # Errors
    /// If the journal cannot write. Some may be removed already.
    async fn forget_finished(&self, retention: Retention) -> Result<Vec<RunId>, StorageError>;
}
