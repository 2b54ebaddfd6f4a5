//! Journal errors, grouped by how a caller can react.

use std::path::PathBuf;

use steplatch_ids::RunId;

/// Underlying error, for the log.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Error of appending records. The journal has appended none of them.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer wrote in the meantime, so the append is based on an outdated history.
    #[error("run {run} is at entry {is}, not at {expected}")]
    Conflict {
        /// The run.
        run: RunId,
        /// The expected last entry.
        expected: u64,
        /// The last entry.
        is: u64,
    },
    /// The journal cannot write.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Reason that a journal cannot serve a request.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another process has taken over the journal, and this one must stop.
    #[error("the journal was taken over: its owner has number {owner}, and this is owner {own}")]
    NotOwner {
        /// Owner number of this journal, assigned when it was opened.
        own: u64,
        /// Owner number of the current owner.
        owner: u64,
    },
    /// The disk is full. Later attempts may succeed.
    #[error("no disk space is left for the journal; free some, or raise runs.disk_mb")]
    Full(Cause),
    /// The file is read-only.
    #[error("the journal cannot be written to, only read")]
    ReadOnly(Cause),
    /// The file's content differs from what was written, or the file is not a database.
    #[error("the journal is damaged: {0}")]
    Damaged(Cause),
    /// The file was removed or replaced while it was open: further writes would be lost.
    #[error("the journal's file was removed or replaced while it was in use; start the daemon again")]
    Gone,
    /// The disk or the file failed.
    #[error("the journal failed: {0}")]
    Failed(Cause),
    /// The journal has closed.
    #[error("the journal is closed")]
    Closed,
}

/// Error of reading a history.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stored entry differs from what was written.
    #[error("entry {seq} of run {run} is damaged: {what}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The number of the entry.
        seq: u64,
        /// The defect.
        what: &'static str,
    },
    /// A newer build wrote the entry.
    #[error("entry {seq} of run {run} has version {version}, and {known} is the newest that is known here")]
    UnknownVersion {
        /// The run.
        run: RunId,
        /// The number of the entry.
        seq: u64,
        /// The version.
        version: u64,
        /// The newest readable version.
        known: u64,
    },
    /// The journal cannot read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Error of opening a journal.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A newer build wrote the file.
    #[error("the journal '{}' has format {found}, and {known} is the newest that is known here", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format.
        found: i64,
        /// The newest known format.
        known: i64,
    },
    /// The file belongs to another program.
    #[error("'{}' is the database of another program", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses to create or open the file.
    #[error("the journal '{}' cannot be opened", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        cause: std::io::Error,
    },
    /// The file exists but cannot be used.
    #[error("the journal '{}' cannot be used", .path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: StorageError,
    },
}
