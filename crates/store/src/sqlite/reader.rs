//! The thread that reads the database.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use steplatch_ids::RunId;
use tokio::sync::{mpsc, oneshot};

use super::entry;
use crate::{KnownRun, ReadError, Record, RunFilter, StorageError, Summary};

/// Start of a query for the columns that [`read_known_run`] needs.
macro_rules! known {
    () => {
        concat!(
            "SELECT run, number, (SELECT max(seq) FROM records WHERE records.number = runs.number), ",
            "state, finished_at, summary FROM runs "
        )
    };
}

/// A request to the reader.
pub(super) enum ReaderQuery {
    /// Some entries of a run.
    Records { run: RunId, from: u64, limit: usize, reply: oneshot::Sender<Result<Vec<Record>, ReadError>> },
    /// The runs that match a filter.
    Runs { filter: RunFilter, reply: oneshot::Sender<Result<Vec<KnownRun>, StorageError>> },
    /// A run in a list.
    Find { run: RunId, reply: oneshot::Sender<Result<Option<KnownRun>, StorageError>> },
    /// The private data of a run.
    Private { run: RunId, reply: oneshot::Sender<Result<Option<String>, StorageError>> },
    /// The run with a key.
    Key { key: String, reply: oneshot::Sender<Result<Option<RunId>, StorageError>> },
}

pub(super) struct Reader {
    connection: Connection,
    /// The newest known version of entries.
    newest_version: u16,
}

impl Reader {
    pub(super) fn new(connection: Connection, newest_version: u16) -> Self {
        Self { connection, newest_version }
    }

    /// Serves queries until all senders are dropped.
    pub(super) fn serve(self, mut queries: mpsc::Receiver<ReaderQuery>) {
        while let Some(query) = queries.blocking_recv() {
            // A caller that stopped waiting does not need the answer.
            match query {
                ReaderQuery::Records { run, from, limit, reply } => {
                    drop(reply.send(self.records(&run, from, limit)));
                }
                ReaderQuery::Runs { filter, reply } => drop(reply.send(self.runs(&filter).map_err(StorageError::from))),
                ReaderQuery::Find { run, reply } => drop(reply.send(self.find(&run).map_err(StorageError::from))),
                ReaderQuery::Private { run, reply } => drop(reply.send(self.private(&run).map_err(StorageError::from))),
                ReaderQuery::Key { key, reply } => drop(reply.send(self.key(&key).map_err(StorageError::from))),
            }
        }
    }

    fn records(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<Record>, ReadError> {
        let from = from.max(1);
        let mut find = self.connection.prepare_cached("SELECT number FROM runs WHERE run = ?1")?;
        let Some(number) = find.query_row([run.as_str()], |row| row.get::<_, i64>(0)).optional()? else {
            return Ok(Vec::new());
        };
        let mut select = self.connection.prepare_cached(entry::SELECT)?;
        // A number outside the database's range is past the end of every history.
        let Ok(first) = i64::try_from(from) else { return Ok(Vec::new()) };
        let mut rows = select.query(params![number, first, i64::try_from(limit).unwrap_or(i64::MAX)])?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            records.push(entry::read(row, run, from + records.len() as u64, self.newest_version)?);
        }
        Ok(records)
    }

    fn runs(&self, filter: &RunFilter) -> rusqlite::Result<Vec<KnownRun>> {
        let before = filter.before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
        let mut select = self.connection.prepare_cached(match (&filter.state, filter.finished) {
            (Some(_), None) => concat!(known!(), "WHERE state = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3"),
            (None, None) => concat!(known!(), "WHERE ?1 IS NULL AND number < ?2 ORDER BY number DESC LIMIT ?3"),
            (_, Some(true)) => concat!(
                known!(),
                "WHERE (?1 IS NULL OR state = ?1) AND finished_at IS NOT NULL AND number < ?2 ",
                "ORDER BY number DESC LIMIT ?3"
            ),
            (_, Some(false)) => concat!(
                known!(),
                "WHERE (?1 IS NULL OR state = ?1) AND finished_at IS NULL AND number < ?2 ",
                "ORDER BY number DESC LIMIT ?3"
            ),
        })?;
        select.query_map(params![filter.state, before, limit], read_known_run)?.collect()
    }

    fn find(&self, run: &RunId) -> rusqlite::Result<Option<KnownRun>> {
        let mut select = self.connection.prepare_cached(concat!(known!(), "WHERE run = ?1"))?;
        select.query_row([run.as_str()], read_known_run).optional()
    }

    fn private(&self, run: &RunId) -> rusqlite::Result<Option<String>> {
        let mut select = self.connection.prepare_cached("SELECT private FROM runs WHERE run = ?1")?;
        Ok(select.query_row([run.as_str()], |row| row.get(0)).optional()?.flatten())
    }

    fn key(&self, key: &str) -> rusqlite::Result<Option<RunId>> {
        let mut select =
            self.connection.prepare_cached("SELECT run FROM runs JOIN keys USING (number) WHERE key = ?1")?;
        select.query_row([key], |row| read_run_id(row, 0)).optional()
    }
}

fn read_known_run(row: &Row<'_>) -> rusqlite::Result<KnownRun> {
    let state: Option<String> = row.get(3)?;
    let summary = match state {
        None => None,
        Some(state) => Some(Summary {
            state,
            finished_at: row.get::<_, Option<i64>>(4)?.map(i64::cast_unsigned),
            text: row.get(5)?,
        }),
    };
    Ok(KnownRun {
        run: read_run_id(row, 0)?,
        number: row.get::<_, i64>(1)?.cast_unsigned(),
        last: row.get::<_, Option<i64>>(2)?.unwrap_or(0).cast_unsigned(),
        summary,
    })
}

/// Reads the id of a run from a column.
pub(super) fn read_run_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error: steplatch_ids::InvalidId| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}
