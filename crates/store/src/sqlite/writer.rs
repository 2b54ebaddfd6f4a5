//! The thread that writes to the database: one transaction for all waiting requests.
//!
//! A transaction costs one synchronisation of the disk, regardless of the number of requests. Meanwhile further
//! requests queue up, and the next transaction takes all of them: the busier the journal, the cheaper an append.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use steplatch_ids::RunId;
use tokio::sync::{mpsc, oneshot};

use super::{entry, reader, schema};
use crate::{Append, Appended, Retention, StorageError};

/// Maximum number of requests that share a transaction.
const MAX_GROUP_REQUESTS: usize = 512;

/// Maximum total text length of a transaction, in bytes: a long transaction delays many callers.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// A test's change to a connection.
#[cfg(test)]
type Tampering = Box<dyn Fn(&Connection) -> rusqlite::Result<()> + Send>;

/// A request to the writer.
pub(super) enum WriterCommand {
    /// Append entries to a history.
    Append(Append),
    /// Remove a run.
    Forget(RunId),
    /// Remove some of the finished runs beyond the retention.
    ForgetFinished { retention: Retention, limit: usize },
    /// Empty the write-ahead log.
    EmptyLog,
    /// Apply a test's change to the connection.
    #[cfg(test)]
    Tamper(Tampering),
}

/// The result of a request.
pub(super) enum Answer {
    /// Answer to an append.
    Appended(Appended),
    /// Answer to an append that was based on an outdated history.
    Conflict { actual_last: u64 },
    /// Answer to a removal: the removed runs.
    Forgotten(Vec<RunId>),
    /// Answer to a request to empty the log: true if it is empty.
    Emptied(bool),
}

/// A command with the reply channel of its caller.
pub(super) struct WriterRequest {
    pub(super) command: WriterCommand,
    pub(super) reply: oneshot::Sender<Result<Answer, StorageError>>,
}

impl WriterRequest {
    fn text_bytes(&self) -> usize {
        match &self.command {
            WriterCommand::Append(append) => {
                let redacted = append.redacted.iter().map(|(_, text)| text);
                append.texts.iter().chain(&append.private).chain(redacted).map(String::len).sum()
            }
            _ => 0,
        }
    }
}

pub(super) struct Writer {
    connection: Connection,
    epoch: u64,
    /// The path of the file, and its device and inode.
    file_identity: (PathBuf, Option<(u64, u64)>),
}

impl Writer {
    pub(super) fn new(connection: Connection, epoch: u64, path: &Path) -> Self {
        Self { connection, epoch, file_identity: (path.to_owned(), identity(path)) }
    }

    /// Writes until all senders are dropped.
    pub(super) fn serve(mut self, mut requests: mpsc::Receiver<WriterRequest>) {
        while let Some(first) = requests.blocking_recv() {
            let mut text_bytes = first.text_bytes();
            let mut group = vec![first];
            while group.len() < MAX_GROUP_REQUESTS
                && text_bytes < MAX_GROUP_BYTES
                && let Ok(next) = requests.try_recv()
            {
                text_bytes += next.text_bytes();
                group.push(next);
            }
            let (log_requests, group): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|request| matches!(request.command, WriterCommand::EmptyLog));
            if !group.is_empty() {
                self.write(group);
            }
            for request in log_requests {
                let emptied = schema::empty_log(&self.connection).map(Answer::Emptied);
                let _ = request.reply.send(emptied.map_err(StorageError::from));
            }
        }
    }

    fn write(&mut self, group: Vec<WriterRequest>) {
        match self.transact(&group) {
            Ok(answers) => {
                for (request, answer) in group.into_iter().zip(answers) {
                    // Ignore the error, because the request is complete even if its caller has stopped waiting.
                    let _ = request.reply.send(Ok(answer));
                }
            }
            Err(error) if group.len() > 1 => {
                // SQLite has rolled the group back. Retry each request alone, so that a request that needs too much
                // space does not fail the others.
                tracing::warn!(%error, "a journal transaction failed; retrying each of its requests alone");
                for request in group {
                    let answer = self.transact(std::slice::from_ref(&request)).map(|mut answers| answers.remove(0));
                    let _ = request.reply.send(answer);
                }
            }
            Err(error) => {
                if let Some(request) = group.into_iter().next() {
                    let _ = request.reply.send(Err(error));
                }
            }
        }
    }

    /// Performs all requests atomically in one transaction. Returns an answer for each request.
    fn transact(&mut self, group: &[WriterRequest]) -> Result<Vec<Answer>, StorageError> {
        #[cfg(test)]
        if let [WriterRequest { command: WriterCommand::Tamper(act), .. }] = group {
            act(&self.connection)?;
            return Ok(vec![Answer::Forgotten(Vec::new())]);
        }
        let (path, opened) = &self.file_identity;
        if identity(path) != *opened {
            return Err(StorageError::Gone);
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        schema::check_owner(&transaction, self.epoch)?;
        let mut answers = Vec::with_capacity(group.len());
        for request in group {
            answers.push(match &request.command {
                WriterCommand::Append(append_request) => append(&transaction, append_request)?,
                WriterCommand::Forget(run) => Answer::Forgotten(forget_known(&transaction, run)?),
                WriterCommand::ForgetFinished { retention, limit } => {
                    Answer::Forgotten(forget_finished(&transaction, *retention, *limit)?)
                }
                WriterCommand::EmptyLog => unreachable!("emptying the log is not part of a transaction"),
                #[cfg(test)]
                WriterCommand::Tamper(_) => unreachable!("tests send this command alone"),
            });
        }
        transaction.commit()?;
        Ok(answers)
    }
}

/// Returns the device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Appends entries, or reports a conflict before any change.
fn append<'t>(transaction: &'t Transaction<'t>, request: &'t Append) -> rusqlite::Result<Answer> {
    let Append { run, after, version, texts, summary, key, private, redacted } = request;
    if let Some(key) = key {
        let mut select = transaction.prepare_cached("SELECT run FROM runs JOIN keys USING (number) WHERE key = ?1")?;
        if let Some(run) = select.query_row([key], |row| reader::read_run_id(row, 0)).optional()? {
            return Ok(Answer::Appended(Appended::Existing { run }));
        }
    }
    let mut select = transaction.prepare_cached(
        "SELECT number, (SELECT max(seq) FROM records WHERE records.number = runs.number) FROM runs WHERE run = ?1",
    )?;
    let known: Option<(i64, Option<i64>)> =
        select.query_row([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let actual_last = known.and_then(|(_, last)| last).unwrap_or(0).cast_unsigned();
    if actual_last != *after {
        return Ok(Answer::Conflict { actual_last });
    }
    let number = match known {
        Some((number, _)) => number,
        None if texts.is_empty() => return Ok(Answer::Appended(Appended::Written { last: 0 })),
        None => {
            transaction.prepare_cached("INSERT INTO runs (run) VALUES (?1)")?.execute([run.as_str()])?;
            transaction.last_insert_rowid()
        }
    };
    let mut last = actual_last;
    let mut entries = entry::Entries::prepare(transaction, number, run)?;
    for (seq, text) in redacted.iter().filter(|(seq, _)| *seq <= actual_last) {
        entries.replace(*seq, text)?;
    }
    for text in texts {
        last += 1;
        entries.write(last, *version, text)?;
    }
    if let Some(summary) = summary {
        let finished_at = summary.finished_at.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        transaction
            .prepare_cached("UPDATE runs SET state = ?2, finished_at = ?3, summary = ?4 WHERE number = ?1")?
            .execute(params![number, summary.state, finished_at, summary.text])?;
    }
    if let Some(private) = private {
        transaction
            .prepare_cached("UPDATE runs SET private = ?2 WHERE number = ?1")?
            .execute(params![number, private])?;
    }
    if summary.as_ref().is_some_and(|summary| summary.finished_at.is_some()) {
        transaction.prepare_cached("UPDATE runs SET private = NULL WHERE number = ?1")?.execute([number])?;
    }
    if let Some(key) = key {
        transaction.prepare_cached("INSERT INTO keys VALUES (?1, ?2)")?.execute(params![key, number])?;
    }
    Ok(Answer::Appended(Appended::Written { last }))
}

fn forget_known(transaction: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Vec<RunId>> {
    let mut select = transaction.prepare_cached("SELECT number FROM runs WHERE run = ?1")?;
    match select.query_row([run.as_str()], |row| row.get(0)).optional()? {
        Some(number) => forget(transaction, number).map(|()| vec![run.clone()]),
        None => Ok(Vec::new()),
    }
}

fn forget_finished(transaction: &Transaction<'_>, retention: Retention, limit: usize) -> rusqlite::Result<Vec<RunId>> {
    let mut select = transaction.prepare_cached(concat!(
        "SELECT number, run FROM runs WHERE finished_at IS NOT NULL AND (finished_at < ?1 OR number NOT IN ",
        "(SELECT number FROM runs WHERE finished_at IS NOT NULL ORDER BY finished_at DESC, number DESC LIMIT ?2)) ",
        "ORDER BY finished_at, number LIMIT ?3"
    ))?;
    let to_signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let since = retention.finished_since.map_or(i64::MIN, |since| i64::try_from(since).unwrap_or(i64::MAX));
    let expired: Vec<(i64, RunId)> = select
        .query_map(params![since, to_signed(retention.keep), to_signed(limit)], |row| {
            Ok((row.get(0)?, reader::read_run_id(row, 1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (number, _) in &expired {
        forget(transaction, *number)?;
    }
    Ok(expired.into_iter().map(|(_, run)| run).collect())
}

/// Removes a run, with its blobs that no other run uses.
fn forget(transaction: &Transaction<'_>, number: i64) -> rusqlite::Result<()> {
    let blobs: Vec<Vec<u8>> = transaction
        .prepare_cached("SELECT DISTINCT blob FROM records WHERE number = ?1 AND blob IS NOT NULL")?
        .query_map([number], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for statement in [
        "DELETE FROM records WHERE number = ?1",
        "DELETE FROM keys WHERE number = ?1",
        "DELETE FROM runs WHERE number = ?1",
    ] {
        transaction.prepare_cached(statement)?.execute([number])?;
    }
    let mut delete = transaction.prepare_cached(entry::FORGET_BLOB)?;
    for blob in blobs {
        delete.execute([blob])?;
    }
    Ok(())
}
