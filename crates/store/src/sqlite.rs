//! A journal in a SQLite database.
//!
//! Owns the file. Two threads use the file, each with its own connection: the writer and the reader. The writer commits
//! all waiting appends in one transaction. Callers hold a [`SqliteJournal`] and await; no call of SQLite runs on their
//! runtime.
//!
//! SQLite uses write-ahead logging and synchronises at each commit (`journal_mode=WAL`, `synchronous=FULL`):
//! acknowledged entries survive a power failure if the disk honours synchronisation.
//!
//! Opening a journal takes it over: a previous owner that still runs can read, but its next append fails.

mod entry;
mod reader;
mod schema;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rusqlite::ErrorCode;
use steplatch_ids::RunId;
use tokio::sync::{mpsc, oneshot};

use crate::{
    Append, AppendError, Appended, Journal, KnownRun, OpenError, ReadError, Record, Retention, RunFilter, StorageError,
};
use reader::ReaderQuery;
use writer::{Answer, WriterCommand, WriterRequest};

/// Maximum number of queued requests for a thread; further callers wait.
const MAX_QUEUED_REQUESTS: usize = 1024;

/// Maximum number of entries in one read, so that a long history does not block other readers.
const READ_BATCH: usize = 4096;

/// Maximum number of runs to remove in one transaction, so that appends do not wait for all removals.
const FORGET_BATCH: usize = 64;

/// Options of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The newest version of entries that the caller can read; a newer entry stops a reader.
    pub newest_version: u16,
    /// Maximum size of the database without its log, in bytes. Appends beyond this size fail as on a full disk.
    pub max_bytes: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { newest_version: u16::MAX, max_bytes: None }
    }
}

/// Journal that stores histories in a SQLite database.
pub struct SqliteJournal {
    path: PathBuf,
    epoch: u64,
    writer: mpsc::Sender<WriterRequest>,
    reader: mpsc::Sender<ReaderQuery>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for SqliteJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteJournal").field("path", &self.path).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl SqliteJournal {
    /// Opens the database at `path` and takes it over. Creates a missing database with its directory. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// If the file cannot be used, belongs to another program, or comes from a newer build.
    pub fn open(path: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        let (connection, epoch) = schema::open(path, options)?;
        let readers = schema::open_reader(path)?;
        let (writer, writer_requests) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (reader, reader_queries) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let newest = options.newest_version;
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|cause| OpenError::File { path: path.to_owned(), cause })
        };
        let threads = vec![
            spawn("journal writer", {
                let writer = writer::Writer::new(connection, epoch, path);
                Box::new(move || writer.serve(writer_requests))
            })?,
            spawn("journal reader", Box::new(move || reader::Reader::new(readers, newest).serve(reader_queries)))?,
        ];
        Ok(Self { path: path.to_owned(), epoch, writer, reader, threads })
    }

    /// Returns the number of this owner: the previous owner's number plus one.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Finishes the pending requests and closes the file. Blocks until then; dropping a journal also finishes them,
    /// without waiting.
    pub fn close(self) {
        let Self { writer, reader, threads, .. } = self;
        drop((writer, reader));
        for thread in threads {
            // Ignore the error, because a thread that panicked has reported it.
            let _ = thread.join();
        }
    }

    async fn request(&self, command: WriterCommand) -> Result<Answer, StorageError> {
        let (reply, answer) = oneshot::channel();
        self.writer.send(WriterRequest { command, reply }).await.map_err(|_| StorageError::Closed)?;
        answer.await.map_err(|_| StorageError::Closed)?
    }

    async fn query<T, E: From<StorageError>>(
        &self,
        make_query: impl FnOnce(oneshot::Sender<Result<T, E>>) -> ReaderQuery,
    ) -> Result<T, E> {
        let (reply, answer) = oneshot::channel();
        self.reader.send(make_query(reply)).await.map_err(|_| StorageError::Closed)?;
        answer.await.map_err(|_| StorageError::Closed)?
    }
}

#[async_trait]
impl Journal for SqliteJournal {
    async fn write(&self, append: Append) -> Result<Appended, AppendError> {
        let (run, expected) = (append.run.clone(), append.after);
        match self.request(WriterCommand::Append(append)).await? {
            Answer::Appended(appended) => Ok(appended),
            Answer::Conflict { actual_last: is } => Err(AppendError::Conflict { run, expected, is }),
            Answer::Forgotten(_) | Answer::Emptied(_) => {
                unreachable!("the writer replies to an append with an append result")
            }
        }
    }

    async fn read(&self, run: &RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.read_some(run, from, usize::MAX).await
    }

    async fn read_some(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<Record>, ReadError> {
        let mut records = Vec::new();
        loop {
            let next = records.last().map_or(from, |record: &Record| record.seq + 1);
            let limit = READ_BATCH.min(limit - records.len());
            let more = self.query(|reply| ReaderQuery::Records { run: run.clone(), from: next, limit, reply }).await?;
            let read = more.len();
            records.extend(more);
            if read < READ_BATCH {
                return Ok(records);
            }
        }
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<KnownRun>, StorageError> {
        self.query(|reply| ReaderQuery::Runs { filter, reply }).await
    }

    async fn find(&self, run: &RunId) -> Result<Option<KnownRun>, StorageError> {
        self.query(|reply| ReaderQuery::Find { run: run.clone(), reply }).await
    }

    async fn private(&self, run: &RunId) -> Result<Option<String>, StorageError> {
        self.query(|reply| ReaderQuery::Private { run: run.clone(), reply }).await
    }

    async fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StorageError> {
        self.query(|reply| ReaderQuery::Key { key: key.to_owned(), reply }).await
    }

    async fn forget(&self, run: &RunId) -> Result<(), StorageError> {
        self.request(WriterCommand::Forget(run.clone())).await.map(|_| ())
    }

    /// Moves the contents of the log into the database. Synchronises both files.
    async fn empty_log(&self) -> Result<bool, StorageError> {
        Ok(matches!(self.request(WriterCommand::EmptyLog).await?, Answer::Emptied(true)))
    }

    async fn forget_finished(&self, retention: Retention) -> Result<Vec<RunId>, StorageError> {
        let mut forgotten = Vec::new();
        loop {
            let answer = self.request(WriterCommand::ForgetFinished { retention, limit: FORGET_BATCH }).await?;
            let Answer::Forgotten(batch) = answer else {
                unreachable!("the writer replies to a removal with the removed runs")
            };
            let is_last = batch.len() < FORGET_BATCH;
            forgotten.extend(batch);
            if is_last {
                return Ok(forgotten);
            }
        }
    }
}

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(Box::new(error)),
            Some(ErrorCode::ReadOnly) => Self::ReadOnly(Box::new(error)),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(Box::new(error)),
            _ => Self::Failed(Box::new(error)),
        }
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

#[cfg(test)]
mod tests;
